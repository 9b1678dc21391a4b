//! A training step on a mesh, as tasks.

use std::collections::VecDeque;
use std::ops::Range;

use torsh_tensor::{Result, TorshError};

use crate::gpt::{Layer, ModelPlan};
use crate::model::{Cluster, Collective, Group, Reduction};
use crate::options::{OP, Parallelism, StepOptions};
use crate::schedule::{Action, Schedule};
use crate::simulate::{Kind, Random, Task, Tasks};

/// Splits layers into `parts` runs so that the slowest takes as little as can be.
pub(crate) fn stages(model: &ModelPlan, parts: usize) -> Result<Vec<Range<usize>>> {
    let n = model.layers.len();
    if parts > n {
        let text = format!(
            "{} has {n} layers, which is too few for {parts} parts",
            model.name
        );
        return Err(TorshError::invalid(OP, text));
    }
    let weight = |l: &Layer| match l.forward_seconds {
        Some(s) => s + l.backward_seconds.unwrap_or(2.0 * s),
        None => l.flops,
    };
    let mut before = vec![0.0; n + 1];
    for (i, l) in model.layers.iter().enumerate() {
        before[i + 1] = before[i] + weight(l);
    }
    // best[i]: the slowest of k runs over the first i layers; cut[k][i]: where the last begins.
    let mut best: Vec<f64> = before.clone();
    best[0] = f64::INFINITY;
    let mut cuts = vec![vec![0; n + 1]];
    for _ in 1..parts {
        let (mut next, mut cut) = (vec![f64::INFINITY; n + 1], vec![0; n + 1]);
        for i in 1..=n {
            for j in 1..i {
                let slowest = best[j].max(before[i] - before[j]);
                if slowest < next[i] {
                    (next[i], cut[i]) = (slowest, j);
                }
            }
        }
        best = next;
        cuts.push(cut);
    }
    let mut ranges = vec![0..n; parts];
    let mut end = n;
    for k in (0..parts).rev() {
        let start = cuts[k][end];
        ranges[k] = start..end;
        end = start;
    }
    Ok(ranges)
}

/// Builds the tasks of one step.
pub(crate) struct Builder<'a> {
    model: &'a ModelPlan,
    cluster: &'a Cluster,
    mesh: Parallelism,
    options: &'a StepOptions,
    micros: usize,
    ranges: Vec<Range<usize>>,
    /// Simulated replicas and pieces; each stands for as many ranks as there are more of.
    replicas: usize,
    pieces: usize,
    tasks: Tasks,
    /// The first task of the messages between stages.
    messages: u32,
}

/// What of a stage has happened so far.
struct Stage {
    stage: usize,
    /// The last task of each simulated rank's compute.
    last: Vec<Option<u32>>,
    /// The last compute of each layer that a rank came through, for gathers ahead.
    log: Vec<Vec<u32>>,
    /// Which layers are whole.
    whole: Vec<bool>,
    /// All collectives, which the optimizer waits for.
    sent: Vec<u32>,
    /// Bytes in the bucket, and how many buckets were sent.
    bucket: f64,
    buckets: u32,
    /// What waits for the end of the backward pass where nothing overlaps.
    held: Vec<(f64, u32)>,
    /// Gradients of pieces on their way, and what a rank's next compute waits for.
    reducing: VecDeque<Reducing>,
    block: Vec<Vec<u32>>,
}

/// Gradients of a layer on their way to the ranks that keep its pieces.
struct Reducing {
    /// The reduce-scatter of each simulated rank.
    scattered: Vec<u32>,
    /// Bytes of a piece.
    bytes: f64,
    /// Layer and micro-batch.
    of: (usize, usize),
}

impl<'a> Builder<'a> {
    pub(crate) fn new(
        model: &'a ModelPlan,
        cluster: &'a Cluster,
        mesh: Parallelism,
        options: &'a StepOptions,
    ) -> Result<Builder<'a>> {
        cluster.check()?;
        let micros = options.micros(model, mesh)?;
        let ranges = stages(model, mesh.pipeline * options.parts)?;
        Ok(Builder {
            model,
            cluster,
            mesh,
            options,
            micros,
            ranges,
            replicas: 1,
            pieces: 1,
            tasks: Tasks::default(),
            messages: 0,
        })
    }

    /// Simulates as many replicas and pieces as give about `most` tasks.
    pub(crate) fn at_full_size(&mut self, most: usize) {
        let layers = self.model.layers.len();
        let for_one = layers * self.micros * if self.mesh.tensor > 1 { 4 } else { 2 };
        let ranks = (most / for_one.max(1)).max(1);
        self.pieces = self.mesh.shard.min(ranks);
        self.replicas = self.mesh.replicate.min((ranks / self.pieces).max(1));
    }

    fn batches(&self) -> usize {
        self.replicas * self.pieces
    }

    /// Simulated ranks.
    pub(crate) fn ranks(&self) -> usize {
        self.batches() * self.mesh.pipeline
    }

    /// The factors by which the simulated ranks of one step are slower.
    pub(crate) fn slow(&self, random: &mut Random) -> Vec<f64> {
        let s = self.cluster.stragglers;
        let each = self.mesh.ranks().div_ceil(self.ranks());
        let mut draw = || {
            let mut factor = 1.0 + s.deviation * random.normal().abs();
            if random.uniform() < s.chance {
                factor *= s.slowdown;
            }
            factor
        };
        (0..self.ranks())
            .map(|_| (0..each).map(|_| draw()).fold(1.0, f64::max))
            .collect()
    }

    fn shard_group(&self) -> Group {
        Group {
            size: self.mesh.shard,
            stride: self.mesh.tensor,
        }
    }

    fn replica_group(&self) -> Group {
        Group {
            size: self.mesh.replicate,
            stride: self.mesh.tensor * self.mesh.shard,
        }
    }

    fn data_group(&self) -> Group {
        Group {
            size: self.mesh.batches(),
            stride: self.mesh.tensor,
        }
    }

    fn unit(&self, stage: usize, d: usize) -> u32 {
        (stage * self.batches() + d) as u32
    }

    fn time(&self, what: Collective, bytes: f64, group: Group) -> f64 {
        self.cluster
            .time(what, bytes, group, self.options.reduction)
    }

    /// Seconds of a layer's forward and backward pass of one micro-batch.
    fn seconds(&self, l: &Layer) -> (f64, f64) {
        let share = self.options.micro_batch as f64 / self.mesh.tensor as f64;
        let forward = share * l.forward_seconds.unwrap_or(l.flops / self.cluster.flops);
        let backward = l.backward_seconds.map_or(2.0 * forward, |s| s * share);
        let again = if self.options.recompute { forward } else { 0.0 };
        (forward, backward + again)
    }

    /// The message after part `part` of a micro-batch, from each rank to the next stage (or back).
    fn message(&self, part: usize, micro: usize, d: usize, back: bool) -> u32 {
        let at = (part * self.micros + micro) * self.batches() + d;
        self.messages + 2 * at as u32 + u32::from(back)
    }

    /// The tasks of a step in which the simulated ranks are slower by these factors.
    pub(crate) fn build(&mut self, slow: &[f64]) -> Result<Tasks> {
        let levels = self.cluster.levels.len();
        self.tasks = Tasks::new(self.ranks(), levels + 2);
        self.messages = 0;
        let parts = self.ranges.len();
        let far = Group {
            size: 2,
            stride: self.mesh.tensor * self.mesh.batches(),
        };
        for part in 0..parts - 1 {
            let last = &self.model.layers[self.ranges[part].end - 1];
            let bytes =
                last.output * (self.options.micro_batch * self.options.compute_bytes) as f64;
            let seconds = self.time(Collective::SendReceive, bytes, far);
            for micro in 0..self.micros {
                for d in 0..self.batches() {
                    let a = self.unit(part % self.mesh.pipeline, d);
                    let b = self.unit((part + 1) % self.mesh.pipeline, d);
                    for (first, to) in [(a, b), (b, a)] {
                        self.tasks.add(Task {
                            kind: Kind::Send,
                            what: part as u32,
                            micro: micro as u32,
                            first,
                            stride: 1,
                            count: 1,
                            lane: levels as u32 + 1,
                            to: Some(to),
                            seconds,
                        });
                    }
                }
            }
        }
        for stage in 0..self.mesh.pipeline {
            self.stage(stage, slow)?;
        }
        Ok(std::mem::take(&mut self.tasks))
    }

    fn stage(&mut self, stage: usize, slow: &[f64]) -> Result<()> {
        let o = self.options;
        let order = o
            .schedule
            .order(stage, self.mesh.pipeline, self.micros, o.parts)?;
        let lazy = o.schedule == Schedule::ZeroBubble;
        let n = self.batches();
        let mut s = Stage {
            stage,
            last: vec![None; n],
            log: vec![Vec::new(); n],
            whole: vec![false; self.model.layers.len()],
            sent: Vec::new(),
            bucket: 0.0,
            buckets: 0,
            held: Vec::new(),
            reducing: VecDeque::new(),
            block: vec![Vec::new(); n],
        };
        for action in order {
            let (kind, micro, own) = match action {
                Action::Forward { micro, part } => (Kind::Forward, micro, part),
                Action::Backward { micro, part } => (Kind::Backward, micro, part),
                Action::Weights { micro, part } => (Kind::Weights, micro, part),
            };
            let part = own * self.mesh.pipeline + stage;
            let back = kind == Kind::Backward;
            let come = match kind {
                Kind::Forward => part.checked_sub(1),
                Kind::Backward => (part + 1 < self.ranges.len()).then_some(part),
                _ => None,
            };
            let go = match kind {
                Kind::Forward => (part + 1 < self.ranges.len()).then_some(part),
                Kind::Backward => part.checked_sub(1),
                _ => None,
            };
            let mut layers: Vec<usize> = self.ranges[part].clone().collect();
            if kind != Kind::Forward {
                layers.reverse();
            }
            // With a zero bubble, the gradients of weights are done in their own action.
            let done = if lazy { kind == Kind::Weights } else { back };
            for (i, &layer) in layers.iter().enumerate() {
                let waits = come.filter(|_| i == 0).map(|p| (p, back));
                self.layer(&mut s, kind, layer, micro, slow, waits, done);
            }
            if let Some(p) = go {
                for d in 0..n {
                    let message = self.message(p, micro, d, back);
                    if let Some(last) = s.last[d] {
                        self.tasks.edge(last, message);
                    }
                }
            }
        }
        self.finish(&mut s, 0);
        self.flush(&mut s);
        for (seconds, bucket) in std::mem::take(&mut s.held) {
            self.reduce(&mut s, seconds, bucket);
        }
        self.optimizer(&mut s, slow);
        Ok(())
    }

    /// One layer's pass of one micro-batch on all simulated ranks of a stage.
    fn layer(
        &mut self,
        s: &mut Stage,
        kind: Kind,
        layer: usize,
        micro: usize,
        slow: &[f64],
        waits: Option<(usize, bool)>,
        done: bool,
    ) {
        let (model, o) = (self.model, self.options);
        let l = &model.layers[layer];
        let (forward, backward) = self.seconds(l);
        let lazy = o.schedule == Schedule::ZeroBubble;
        let again = if o.recompute { forward } else { 0.0 };
        let seconds = match kind {
            Kind::Forward => forward,
            Kind::Weights => (backward - again) / 2.0,
            _ if lazy => (backward - again) / 2.0 + again,
            _ => backward,
        };
        let n = self.batches();
        let gathers = self.mesh.shard > 1 && kind != Kind::Weights && l.elements() > 0;
        let mut gather = vec![None; n];
        if gathers && !s.whole[layer] {
            gather = self.gather(s, l, layer, micro);
            s.whole[layer] = !o.reshard_after_forward;
        }
        // Gradients of replicas alone: a layer's backward pass in as many tasks as buckets end in it.
        let last = done && micro + 1 == self.micros;
        let buckets = last && self.mesh.shard == 1 && self.mesh.replicate > 1;
        let mut ends = vec![(1.0, None)];
        if buckets {
            ends = self.bucket_ends(s, l);
        }
        let mut begun = 0.0;
        for (i, &(end, bytes)) in ends.iter().enumerate() {
            for d in 0..n {
                let unit = self.unit(s.stage, d);
                let task = self.tasks.add(Task {
                    kind,
                    what: layer as u32,
                    micro: micro as u32,
                    first: unit,
                    stride: 1,
                    count: 1,
                    lane: 0,
                    to: None,
                    seconds: seconds * (end - begun) * slow[unit as usize],
                });
                let mut before = std::mem::take(&mut s.block[d]);
                before.extend(s.last[d].into_iter().chain(gather[d]));
                if let Some((part, back)) = waits.filter(|_| i == 0) {
                    before.push(self.message(part, micro, d, back));
                }
                for b in before {
                    self.tasks.edge(b, task);
                }
                s.last[d] = Some(task);
            }
            begun = end;
            if let Some(bytes) = bytes {
                self.send_bucket(s, bytes);
            }
        }
        for d in 0..n {
            s.log[d].extend(s.last[d]);
        }
        self.tensor(s, kind, l, layer, micro);
        if done && self.mesh.shard > 1 && l.elements() > 0 {
            self.scatter(s, l, layer, micro);
        }
    }

    /// A layer's pieces come together on each shard group.
    fn gather(&mut self, s: &Stage, l: &Layer, layer: usize, micro: usize) -> Vec<Option<u32>> {
        let group = self.shard_group();
        let bytes = l.elements_of(self.mesh.tensor) * self.options.compute_bytes as f64;
        let seconds = self.time(Collective::AllGather, bytes, group);
        let mut all = Vec::with_capacity(self.batches());
        for r in 0..self.replicas {
            let task = self.collective(
                Kind::Gather,
                s.stage,
                (r * self.pieces, 1, self.pieces),
                group,
                seconds,
                (layer, micro),
            );
            for h in 0..self.pieces {
                let d = r * self.pieces + h;
                // Asked for while the layer before runs (or earlier): when the one before that has ended.
                let at = s.log[d].len().checked_sub(1 + self.options.prefetch);
                if let Some(at) = at {
                    let before = s.log[d][at];
                    self.posted(before, task, s.stage, d, seconds);
                }
                all.push(Some(task));
            }
        }
        all
    }

    /// A collective of `members`: the first, the stride and how many.
    fn collective(
        &mut self,
        kind: Kind,
        stage: usize,
        (first, stride, count): (usize, usize, usize),
        group: Group,
        seconds: f64,
        (what, micro): (usize, usize),
    ) -> u32 {
        self.tasks.add(Task {
            kind,
            what: what as u32,
            micro: micro as u32,
            first: self.unit(stage, first),
            stride: stride as u32,
            count: count as u32,
            lane: 1 + self.cluster.level(group) as u32,
            to: None,
            seconds,
        })
    }

    /// A rank comes to a collective after a task; where cores are shared, part of it is work of the rank's own.
    fn posted(&mut self, before: u32, task: u32, stage: usize, d: usize, seconds: f64) {
        self.tasks.edge(before, task);
        if self.cluster.shared_cores > 0.0 {
            let first = self.unit(stage, d);
            let work = self.tasks.add(Task {
                kind: Kind::Shared,
                what: 0,
                micro: 0,
                first,
                stride: 1,
                count: 1,
                lane: 0,
                to: None,
                seconds: seconds * self.cluster.shared_cores,
            });
            self.tasks.edge(before, work);
        }
    }

    /// The reductions of tensor parallel, which nothing overlaps.
    fn tensor(&mut self, s: &mut Stage, kind: Kind, l: &Layer, layer: usize, micro: usize) {
        let times = match kind {
            Kind::Forward => l.reductions,
            Kind::Backward => {
                l.backward_reductions
                    + if self.options.recompute {
                        l.reductions
                    } else {
                        0
                    }
            }
            _ => 0,
        };
        if self.mesh.tensor == 1 || times == 0 {
            return;
        }
        let group = Group {
            size: self.mesh.tensor,
            stride: 1,
        };
        let bytes = l.output * (self.options.micro_batch * self.options.compute_bytes) as f64;
        let seconds = times as f64 * self.time(Collective::AllReduce, bytes, group);
        for d in 0..self.batches() {
            let task = self.collective(
                Kind::Tensor,
                s.stage,
                (d, 1, 1),
                group,
                seconds,
                (layer, micro),
            );
            if let Some(last) = s.last[d] {
                self.tasks.edge(last, task);
            }
            s.last[d] = Some(task);
        }
    }

    /// A layer's gradients in pieces. With replicas, sums in rank order go to all ranks in shares that the replicas then
    /// gather; the engine reduces them in two steps.
    fn scatter(&mut self, s: &mut Stage, l: &Layer, layer: usize, micro: usize) {
        let bytes = l.elements_of(self.mesh.tensor) * 4.0;
        let ordered = self.options.reduction == Reduction::Ordered && self.mesh.replicate > 1;
        let (group, parts) = match ordered {
            true => (self.data_group(), 1),
            false => (self.shard_group(), self.replicas),
        };
        let seconds = self.time(Collective::ReduceScatter, bytes, group);
        let each = self.batches() / parts;
        let mut scattered = Vec::new();
        for first in (0..parts).map(|p| p * each) {
            let task = self.collective(
                Kind::Scatter,
                s.stage,
                (first, 1, each),
                group,
                seconds,
                (layer, micro),
            );
            for d in first..first + each {
                if let Some(before) = s.last[d] {
                    self.posted(before, task, s.stage, d, seconds);
                }
                scattered.push(task);
            }
        }
        s.reducing.push_back(Reducing {
            scattered,
            bytes: bytes / self.mesh.shard as f64,
            of: (layer, micro),
        });
        self.finish(s, 1);
    }

    /// Waits for reductions until at most `left` are under way, as a backward pass does when a layer's ends.
    fn finish(&mut self, s: &mut Stage, left: usize) {
        while s.reducing.len() > left {
            let Some(r) = s.reducing.pop_front() else {
                return;
            };
            if self.mesh.replicate == 1 {
                for (d, &task) in r.scattered.iter().enumerate() {
                    s.block[d].push(task);
                }
                continue;
            }
            let (kind, what) = match self.options.reduction {
                Reduction::Ordered => (Kind::Gather, Collective::AllGather),
                Reduction::Engine => (Kind::Reduce, Collective::AllReduce),
            };
            let group = self.replica_group();
            let seconds = self.time(what, r.bytes, group);
            for h in 0..self.pieces {
                let members = (h, self.pieces, self.replicas);
                let task = self.collective(kind, s.stage, members, group, seconds, r.of);
                for k in 0..self.replicas {
                    let d = k * self.pieces + h;
                    let mut before = std::mem::take(&mut s.block[d]);
                    before.extend(s.last[d]);
                    for b in before {
                        self.tasks.edge(b, task);
                    }
                    self.posted(r.scattered[d], task, s.stage, d, seconds);
                    s.block[d] = vec![task];
                }
            }
        }
    }

    /// Where in a layer's backward pass buckets end, and their bytes. Time goes by the elements of the gradients.
    fn bucket_ends(&self, s: &mut Stage, l: &Layer) -> Vec<(f64, Option<f64>)> {
        let all = l.elements_of(self.mesh.tensor);
        let share = match l.elements() {
            0 => return vec![(1.0, None)],
            n => all / n as f64,
        };
        let (mut ends, mut so_far) = (Vec::new(), 0.0);
        for shape in l.shapes.iter().rev() {
            let elements = share * shape.iter().product::<usize>() as f64;
            so_far += elements;
            s.bucket += 4.0 * elements;
            let most = match s.buckets {
                0 => self
                    .options
                    .first_bucket_bytes
                    .min(self.options.bucket_bytes),
                _ => self.options.bucket_bytes,
            };
            if s.bucket >= most as f64 {
                ends.push(((so_far / all).min(1.0), Some(std::mem::take(&mut s.bucket))));
                s.buckets += 1;
            }
        }
        if ends.last().is_none_or(|e| e.0 < 1.0) {
            ends.push((1.0, None));
        }
        ends
    }

    fn send_bucket(&mut self, s: &mut Stage, bytes: f64) {
        let seconds = self.time(Collective::AllReduce, bytes, self.replica_group());
        let bucket = (s.sent.len() + s.held.len()) as u32;
        match self.options.overlap {
            true => self.reduce(s, seconds, bucket),
            false => s.held.push((seconds, bucket)),
        }
    }

    /// Sends what is left in the bucket.
    fn flush(&mut self, s: &mut Stage) {
        if s.bucket > 0.0 {
            let bytes = std::mem::take(&mut s.bucket);
            self.send_bucket(s, bytes);
        }
    }

    fn reduce(&mut self, s: &mut Stage, seconds: f64, bucket: u32) {
        let n = self.batches();
        let group = self.replica_group();
        let task = self.collective(
            Kind::Reduce,
            s.stage,
            (0, 1, n),
            group,
            seconds,
            (bucket as usize, self.micros - 1),
        );
        for d in 0..n {
            if let Some(before) = s.last[d] {
                self.posted(before, task, s.stage, d, seconds);
            }
        }
        s.sent.push(task);
    }

    fn optimizer(&mut self, s: &mut Stage, slow: &[f64]) {
        let own = (0..self.options.parts).flat_map(|p| {
            &self.model.layers[self.ranges[p * self.mesh.pipeline + s.stage].clone()]
        });
        let elements: f64 = own.map(|l| l.elements_of(self.mesh.tensor)).sum();
        let elements = elements / self.mesh.shard as f64;
        let seconds = match self.model.optimizer_seconds {
            Some(all) => all * elements / (self.model.parameters() as f64).max(1.0),
            // It reads parameter, gradient and states, and writes all but the gradient.
            None => {
                elements * 4.0 * (3 + 2 * self.model.states) as f64 / self.cluster.memory_bandwidth
            }
        };
        for d in 0..self.batches() {
            let unit = self.unit(s.stage, d);
            let task = self.tasks.add(Task {
                kind: Kind::Optimizer,
                what: 0,
                micro: 0,
                first: unit,
                stride: 1,
                count: 1,
                lane: 0,
                to: None,
                seconds: seconds * slow[unit as usize],
            });
            if let Some(last) = s.last[d] {
                self.tasks.edge(last, task);
            }
            for b in std::mem::take(&mut s.block[d]) {
                self.tasks.edge(b, task);
            }
            for &c in &s.sent {
                let t = self.tasks.tasks[c as usize];
                let far = unit.wrapping_sub(t.first);
                if unit >= t.first && far.is_multiple_of(t.stride) && far / t.stride < t.count {
                    self.tasks.edge(c, task);
                }
            }
        }
    }
}
