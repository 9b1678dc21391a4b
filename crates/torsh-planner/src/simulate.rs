//! Discrete events: tasks on lanes, in the order in which they become ready.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use torsh_tensor::{Result, TorshError};

/// What a task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Forward,
    Backward,
    Weights,
    Optimizer,
    /// Work of a collective that takes the compute's core.
    Shared,
    Gather,
    Scatter,
    Reduce,
    Tensor,
    Send,
}

impl Kind {
    pub(crate) fn computes(self) -> bool {
        matches!(
            self,
            Kind::Forward | Kind::Backward | Kind::Weights | Kind::Optimizer
        )
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Forward => "forward",
            Kind::Backward => "backward",
            Kind::Weights => "weights",
            Kind::Optimizer => "optimizer",
            Kind::Shared => "work of a collective",
            Kind::Gather => "all_gather",
            Kind::Scatter => "reduce_scatter",
            Kind::Reduce => "all_reduce",
            Kind::Tensor => "all_reduce (tensor)",
            Kind::Send => "send",
        }
    }
}

/// A task: on one lane of each of `count` ranks, `stride` apart from `first`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task {
    pub(crate) kind: Kind,
    /// The layer or bucket, and the micro-batch, for the trace.
    pub(crate) what: u32,
    pub(crate) micro: u32,
    pub(crate) first: u32,
    pub(crate) stride: u32,
    pub(crate) count: u32,
    pub(crate) lane: u32,
    /// The rank that a message goes to; its lane is not taken.
    pub(crate) to: Option<u32>,
    pub(crate) seconds: f64,
}

/// Tasks and which must come before which.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    pub(crate) ranks: usize,
    pub(crate) lanes: usize,
    pub(crate) tasks: Vec<Task>,
    edges: Vec<(u32, u32)>,
}

/// When each task began and ended.
#[derive(Debug)]
pub(crate) struct Timeline {
    pub(crate) start: Vec<f64>,
    pub(crate) end: Vec<f64>,
}

impl Tasks {
    pub(crate) fn new(ranks: usize, lanes: usize) -> Tasks {
        Tasks {
            ranks,
            lanes,
            ..Tasks::default()
        }
    }

    pub(crate) fn add(&mut self, task: Task) -> u32 {
        self.tasks.push(task);
        (self.tasks.len() - 1) as u32
    }

    /// `after` starts when `before` has ended.
    pub(crate) fn edge(&mut self, before: u32, after: u32) {
        self.edges.push((before, after));
    }

    /// Runs the tasks: of those that are ready, the one that became so first takes its lanes as soon as they are free.
    pub(crate) fn run(&self) -> Result<Timeline> {
        let n = self.tasks.len();
        let mut waits = vec![0u32; n];
        let mut from = vec![0u32; n + 1];
        for &(a, b) in &self.edges {
            waits[b as usize] += 1;
            from[a as usize + 1] += 1;
        }
        for i in 0..n {
            from[i + 1] += from[i];
        }
        let mut next = from.clone();
        let mut after = vec![0u32; self.edges.len()];
        for &(a, b) in &self.edges {
            after[next[a as usize] as usize] = b;
            next[a as usize] += 1;
        }
        let mut free = vec![0.0f64; self.ranks * self.lanes];
        let mut ready = vec![0.0f64; n];
        let mut line = Timeline {
            start: vec![0.0; n],
            end: vec![0.0; n],
        };
        // Times are not negative, so their bits have their order.
        let mut queue: BinaryHeap<Reverse<(u64, u32)>> = (0..n)
            .filter(|&i| waits[i] == 0)
            .map(|i| Reverse((0, i as u32)))
            .collect();
        let mut done = 0;
        while let Some(Reverse((_, id))) = queue.pop() {
            let i = id as usize;
            let task = &self.tasks[i];
            let lanes = (0..task.count)
                .map(|k| (task.first + k * task.stride) as usize * self.lanes + task.lane as usize);
            let start = lanes.clone().fold(ready[i], |t, l| t.max(free[l]));
            let end = start + task.seconds;
            lanes.for_each(|l| free[l] = end);
            (line.start[i], line.end[i]) = (start, end);
            done += 1;
            for &b in &after[from[i] as usize..from[i + 1] as usize] {
                let b = b as usize;
                ready[b] = ready[b].max(end);
                waits[b] -= 1;
                if waits[b] == 0 {
                    queue.push(Reverse((ready[b].to_bits(), b as u32)));
                }
            }
        }
        if done < n {
            let text = format!(
                "{} of {n} tasks wait for one another; the schedule is impossible",
                n - done
            );
            return Err(TorshError::invalid("plan::simulate", text));
        }
        Ok(line)
    }

    /// Of a rank: seconds of compute, and of communication outside of it.
    pub(crate) fn busy(&self, line: &Timeline, rank: u32) -> (f64, f64) {
        let (mut compute, mut talk) = (Vec::new(), Vec::new());
        for (i, t) in self.tasks.iter().enumerate() {
            let member = match t.to {
                Some(to) => to == rank,
                None => {
                    let far = rank.wrapping_sub(t.first);
                    rank >= t.first
                        && far / t.stride.max(1) < t.count
                        && far.is_multiple_of(t.stride.max(1))
                }
            };
            if member {
                let span = (line.start[i], line.end[i]);
                match t.kind.computes() {
                    true => compute.push(span),
                    false => talk.push(span),
                }
            }
        }
        compute.sort_by(|a, b| a.0.total_cmp(&b.0));
        talk.sort_by(|a, b| a.0.total_cmp(&b.0));
        let busy = compute.iter().map(|s| s.1 - s.0).sum();
        // The union of the communication's spans, less the compute in it. Compute's spans are apart.
        let (mut exposed, mut at, mut k) = (0.0, 0.0f64, 0);
        for (start, end) in talk {
            let mut start = start.max(at);
            at = at.max(end);
            while start < end {
                while k < compute.len() && compute[k].1 <= start {
                    k += 1;
                }
                match compute.get(k) {
                    Some(c) if c.0 <= start => start = c.1,
                    Some(c) => {
                        exposed += c.0.min(end) - start;
                        start = c.0;
                    }
                    None => {
                        exposed += end - start;
                        start = end;
                    }
                }
            }
        }
        (busy, exposed)
    }
}

/// Numbers from a seed (S. Vigna's SplitMix64).
#[derive(Clone, Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// Uniform in [0, 1).
    pub(crate) fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Standard normal.
    pub(crate) fn normal(&mut self) -> f64 {
        let (a, b) = (1.0 - self.uniform(), self.uniform());
        (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(kind: Kind, first: u32, count: u32, lane: u32, seconds: f64) -> Task {
        Task {
            kind,
            what: 0,
            micro: 0,
            first,
            stride: 1,
            count,
            lane,
            to: None,
            seconds,
        }
    }

    #[test]
    fn a_collective_waits_for_all_and_overlaps_compute() -> Result<()> {
        let mut t = Tasks::new(2, 2);
        let a = t.add(task(Kind::Backward, 0, 1, 0, 1.0));
        let b = t.add(task(Kind::Backward, 1, 1, 0, 2.0));
        let c = t.add(task(Kind::Reduce, 0, 2, 1, 3.0));
        let d = t.add(task(Kind::Backward, 0, 1, 0, 2.5));
        for (x, y) in [(a, c), (b, c), (a, d)] {
            t.edge(x, y);
        }
        let line = t.run()?;
        assert_eq!(line.start, [0.0, 0.0, 2.0, 1.0]);
        assert_eq!(line.end, [1.0, 2.0, 5.0, 3.5]);
        assert_eq!(t.busy(&line, 0), (3.5, 1.5));
        assert_eq!(t.busy(&line, 1), (2.0, 3.0));
        Ok(())
    }

    #[test]
    fn a_lane_serves_what_is_ready_first() -> Result<()> {
        let mut t = Tasks::new(1, 2);
        let late = t.add(task(Kind::Reduce, 0, 1, 1, 1.0));
        let soon = t.add(task(Kind::Reduce, 0, 1, 1, 1.0));
        let c = t.add(task(Kind::Forward, 0, 1, 0, 0.5));
        t.edge(c, late);
        let line = t.run()?;
        assert_eq!(
            (line.start[soon as usize], line.start[late as usize]),
            (0.0, 1.0)
        );
        assert_eq!(t.busy(&line, 0), (0.5, 1.5));
        Ok(())
    }

    #[test]
    fn circles_are_refused() {
        let mut t = Tasks::new(1, 1);
        let a = t.add(task(Kind::Forward, 0, 1, 0, 1.0));
        let b = t.add(task(Kind::Forward, 0, 1, 0, 1.0));
        t.edge(a, b);
        t.edge(b, a);
        assert!(t.run().unwrap_err().to_string().contains("2 of 2 tasks"));
    }

    #[test]
    fn random_numbers_have_their_moments() {
        let mut r = Random(7);
        let n = 20_000;
        let x: Vec<f64> = (0..n).map(|_| r.normal()).collect();
        let mean = x.iter().sum::<f64>() / f64::from(n);
        let var = x.iter().map(|v| v * v).sum::<f64>() / f64::from(n);
        assert!(
            mean.abs() < 0.03 && (var - 1.0).abs() < 0.04,
            "{mean} {var}"
        );
    }
}
