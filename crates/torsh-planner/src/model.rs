//! What a message and a collective cost.

use serde::{Deserialize, Serialize};
use torsh_tensor::{Result, TorshError};

/// What a message between two ranks costs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Seconds from the call that sends an empty message to its arrival.
    pub latency: f64,
    /// Seconds between the starts of two messages of one rank to different ranks.
    pub gap: f64,
    /// Bytes per second that one rank sends while all the others do so too.
    pub bandwidth: f64,
}

impl Link {
    /// Seconds of one message.
    ///
    /// ```
    /// use torsh_planner::Link;
    ///
    /// let link = Link { latency: 1e-6, gap: 1e-7, bandwidth: 1e9 };
    /// assert_eq!(link.message(1000.0), 2e-6);
    /// ```
    pub fn message(&self, bytes: f64) -> f64 {
        self.latency + bytes / self.bandwidth
    }
}

/// Ranks that reach one another by one kind of link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Level {
    /// Its name, such as `node`.
    pub name: String,
    /// How many consecutive ranks it holds; the last level holds all, whatever this says.
    pub ranks: usize,
    /// What a message costs between ranks that share this level and none below it.
    pub link: Link,
}

/// The largest part of a collective's time that compute may lose on shared cores.
#[doc(hidden)]
pub const MOST_SHARED: f64 = 8.0;

/// How much slower ranks are now and then.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stragglers {
    /// Standard deviation of the factor that each rank's compute of a step takes longer (half a normal distribution).
    pub deviation: f64,
    /// The chance that a rank is slow in a step.
    pub chance: f64,
    /// The factor by which it then is.
    pub slowdown: f64,
}

impl Stragglers {
    /// All ranks equally fast.
    pub const NONE: Stragglers = Stragglers {
        deviation: 0.0,
        chance: 0.0,
        slowdown: 1.0,
    };
}

/// A collective operation. Its bytes are those of the whole vector: what each rank holds for `AllReduce` and `Broadcast`,
/// the result of `AllGather`, the input of `ReduceScatter` and `AllToAll`, the message of `SendReceive`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Collective {
    AllReduce,
    ReduceScatter,
    AllGather,
    AllToAll,
    Broadcast,
    SendReceive,
}

impl Collective {
    /// Its name, as PyTorch's function.
    pub fn name(self) -> &'static str {
        match self {
            Collective::AllReduce => "all_reduce",
            Collective::ReduceScatter => "reduce_scatter",
            Collective::AllGather => "all_gather",
            Collective::AllToAll => "all_to_all",
            Collective::Broadcast => "broadcast",
            Collective::SendReceive => "send",
        }
    }
}

/// Who makes a reduction: `ReduceMode` for plans. A reduce-scatter is the same with both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reduction {
    /// One message to every rank, sums in rank order.
    #[default]
    Ordered,
    /// The engine's own reduction.
    Engine,
}

/// Ranks of a collective: `size` ranks, each `stride` after the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Group {
    /// How many.
    pub size: usize,
    /// How far apart two neighbours are.
    pub stride: usize,
}

/// Times of a collective that were measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// Which one.
    pub collective: Collective,
    /// On how many ranks.
    pub ranks: usize,
    /// Who reduced.
    pub reduction: Reduction,
    /// Seconds that are paid whatever the size: the fit's alpha.
    pub alpha: f64,
    /// Seconds for each byte: the fit's beta.
    pub beta: f64,
    /// Bytes and seconds, by bytes.
    pub points: Vec<(f64, f64)>,
}

impl Measured {
    /// Fits `alpha + beta * bytes` to points so that the relative errors' squares are least.
    ///
    /// # Errors
    /// Where fewer than two sizes or times that are not above 0 are given.
    ///
    /// ```
    /// use torsh_planner::{Collective, Measured, Reduction};
    ///
    /// # fn main() -> torsh_tensor::Result<()> {
    /// let points = vec![(0.0, 1.0), (4.0, 3.0), (8.0, 5.0)];
    /// let m = Measured::fit(Collective::AllReduce, 2, Reduction::Ordered, points)?;
    /// assert!((m.alpha - 1.0).abs() < 1e-9 && (m.beta - 0.5).abs() < 1e-9);
    /// # Ok(()) }
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn fit(
        collective: Collective,
        ranks: usize,
        reduction: Reduction,
        mut points: Vec<(f64, f64)>,
    ) -> Result<Measured> {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let differ = points.first().map(|p| p.0) != points.last().map(|p| p.0);
        if !differ || points.iter().any(|p| !(p.1 > 0.0)) {
            let text = format!(
                "the times of {} on {ranks} ranks need two sizes and times above 0, got {points:?}",
                collective.name()
            );
            return Err(TorshError::invalid("plan::Measured::fit", text));
        }
        // Weights 1 / t^2 make errors relative.
        let (mut w, mut wx, mut wxx, mut wt, mut wxt) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for &(x, t) in &points {
            let weight = 1.0 / (t * t);
            w += weight;
            wx += weight * x;
            wxx += weight * x * x;
            wt += weight * t;
            wxt += weight * x * t;
        }
        let beta = ((w * wxt - wx * wt) / (w * wxx - wx * wx)).max(0.0);
        let alpha = ((wt - beta * wx) / w).max(0.0);
        Ok(Measured {
            collective,
            ranks,
            reduction,
            alpha,
            beta,
            points,
        })
    }

    /// Seconds for a size: between two measured ones on a straight line, beyond them by the fit's beta.
    fn time(&self, bytes: f64) -> f64 {
        let Some(&(last_bytes, last_time)) = self.points.last() else {
            return self.alpha + self.beta * bytes;
        };
        if bytes >= last_bytes {
            return last_time + (bytes - last_bytes) * self.beta;
        }
        let after = self.points.partition_point(|p| p.0 <= bytes);
        if after == 0 {
            return self.points[0].1;
        }
        let ((x0, t0), (x1, t1)) = (self.points[after - 1], self.points[after]);
        t0 + (t1 - t0) * (bytes - x0) / (x1 - x0)
    }
}

/// The machines: links by level, and one rank's device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// What it is.
    pub name: String,
    /// Links from the nearest ranks to the farthest.
    pub levels: Vec<Level>,
    /// Floating-point operations per second that a rank reaches in matrix products.
    pub flops: f64,
    /// Bytes per second that a rank's memory moves.
    pub memory_bandwidth: f64,
    /// Bytes of memory of a rank.
    pub memory: f64,
    /// Slow ranks.
    #[serde(default = "no_stragglers")]
    pub stragglers: Stragglers,
    /// The part of a collective's time for which its ranks' compute stands still because both share cores: 0 where the
    /// communication thread has a core of its own. It is above 1 where the ranks lose more than the collective takes alone:
    /// threads take turns, and caches are filled again.
    #[serde(default)]
    pub shared_cores: f64,
    /// Times that were measured; they count before the model.
    #[serde(default)]
    pub measured: Vec<Measured>,
}

fn no_stragglers() -> Stragglers {
    Stragglers::NONE
}

impl Default for Cluster {
    /// Nodes of eight accelerators: 200 TFLOP/s and 80 GB each, 150 GB/s within a node, 25 GB/s for each between nodes.
    fn default() -> Cluster {
        let level = |name: &str, ranks, latency, gap, bandwidth| Level {
            name: name.to_string(),
            ranks,
            link: Link {
                latency,
                gap,
                bandwidth,
            },
        };
        Cluster {
            name: "nodes of 8 accelerators (assumed: 200 TFLOP/s, 80 GB, 150 GB/s within a node, 25 GB/s between)".into(),
            levels: vec![
                level("node", 8, 3e-6, 5e-7, 150e9),
                level("network", 1 << 20, 8e-6, 1e-6, 25e9),
            ],
            flops: 200e12,
            memory_bandwidth: 2e12,
            memory: 80e9,
            stragglers: Stragglers {
                deviation: 0.01,
                chance: 0.0005,
                slowdown: 1.3,
            },
            shared_cores: 0.0,
            measured: Vec::new(),
        }
    }
}

/// Steps of a tree over `p` ranks.
fn log2(p: usize) -> f64 {
    f64::from(p.max(1).next_power_of_two().trailing_zeros())
}

impl Cluster {
    /// Reads a description in JSON, as `torsh-plan measure` writes it.
    ///
    /// # Errors
    /// Where the text is no such description or a number in it makes no sense.
    #[torsh_tensor::names_caller(Self)]
    pub fn from_json(text: &str) -> Result<Cluster> {
        let cluster: Cluster = serde_json::from_str(text)
            .map_err(|e| TorshError::invalid("plan::Cluster::from_json", e.to_string()))?;
        cluster.check()?;
        Ok(cluster)
    }

    pub(crate) fn check(&self) -> Result<()> {
        let fail = |text: String| {
            Err(TorshError::invalid(
                "plan::Cluster",
                format!("{}: {text}", self.name),
            ))
        };
        if self.levels.is_empty() {
            return fail("has no level of links".into());
        }
        let mut below = 0;
        for l in &self.levels {
            if l.ranks <= below {
                return fail(format!(
                    "level {} holds {} ranks, no more than the level below it",
                    l.name, l.ranks
                ));
            }
            below = l.ranks;
            let good = |x: f64| x.is_finite() && x >= 0.0;
            if !(good(l.link.latency)
                && good(l.link.gap)
                && good(l.link.bandwidth)
                && l.link.bandwidth > 0.0)
            {
                return fail(format!(
                    "level {} has an impossible link {:?}",
                    l.name, l.link
                ));
            }
        }
        let above = |x: f64| x.is_finite() && x > 0.0;
        if !(above(self.flops) && above(self.memory_bandwidth) && above(self.memory)) {
            return fail("flops, memory_bandwidth and memory must be above 0".into());
        }
        let s = self.stragglers;
        if !(s.deviation >= 0.0 && (0.0..=1.0).contains(&s.chance) && s.slowdown >= 1.0) {
            return fail(format!("impossible stragglers {s:?}"));
        }
        if !(0.0..=MOST_SHARED).contains(&self.shared_cores) {
            return fail(format!(
                "shared_cores is {}, not in 0..={MOST_SHARED}",
                self.shared_cores
            ));
        }
        Ok(())
    }

    /// How many ranks of the group, itself included, a rank reaches by links up to each level.
    fn reach(&self, group: Group) -> Vec<usize> {
        let mut reach = Vec::with_capacity(self.levels.len());
        let mut most = 1;
        for (i, l) in self.levels.iter().enumerate() {
            let all = i + 1 == self.levels.len();
            let n = if all {
                group.size
            } else {
                l.ranks / group.stride.max(1)
            };
            most = n.clamp(most, group.size.max(1));
            reach.push(most);
        }
        reach
    }

    /// The highest level that the group's messages cross.
    pub(crate) fn level(&self, group: Group) -> usize {
        let reach = self.reach(group);
        let crossed = reach.iter().position(|&n| n >= group.size);
        crossed.unwrap_or(self.levels.len() - 1)
    }

    /// Seconds in which a rank adds up `bytes`: two reads and a write.
    fn add(&self, bytes: f64) -> f64 {
        3.0 * bytes / self.memory_bandwidth
    }

    /// Every rank sends `bytes / size` to each other one.
    fn exchange(&self, bytes: f64, group: Group) -> f64 {
        let (mut below, mut time, mut latency, mut last_gap) = (1, 0.0, 0.0f64, 0.0);
        for (l, n) in self.levels.iter().zip(self.reach(group)) {
            let peers = (n - below) as f64;
            below = n;
            if peers > 0.0 {
                let each = bytes / group.size as f64;
                time += peers * (l.link.gap + each / l.link.bandwidth);
                latency = latency.max(l.link.latency);
                last_gap = l.link.gap;
            }
        }
        time + latency - last_gap
    }

    /// `steps` in a ring over the whole group, `bytes` each.
    fn ring(&self, bytes: f64, group: Group) -> f64 {
        let mut below = 1;
        let mut slowest = 0.0f64;
        for (l, n) in self.levels.iter().zip(self.reach(group)) {
            if n > below {
                slowest = slowest.max(l.link.message(bytes / group.size as f64));
            }
            below = n;
        }
        slowest * (group.size - 1) as f64
    }

    /// Recursive doubling (Bruck's where the size is no power of two): what a rank holds doubles with each message.
    fn doubling(&self, bytes: f64, group: Group) -> f64 {
        let reach = self.reach(group);
        let (mut have, mut time) = (1, 0.0);
        while have < group.size {
            let send = have.min(group.size - have);
            let level = reach.iter().position(|&n| have < n);
            let link = self.levels[level.unwrap_or(self.levels.len() - 1)].link;
            time += link.message(bytes * send as f64 / group.size as f64);
            have += send;
        }
        time
    }

    /// The all-gather among the ranks that one level joins, from the highest level down.
    fn by_levels(&self, bytes: f64, group: Group) -> f64 {
        let (mut below, mut time) = (1, 0.0);
        for (l, n) in self.levels.iter().zip(self.reach(group)) {
            if n > below {
                let ranks = n.div_ceil(below);
                let whole = bytes / below as f64;
                let steps = log2(ranks).min((ranks - 1) as f64);
                time += steps * l.link.latency
                    + whole * (ranks - 1) as f64 / ranks as f64 / l.link.bandwidth;
            }
            below = n;
        }
        time
    }

    fn all_gather(&self, bytes: f64, group: Group) -> f64 {
        let flat = self.ring(bytes, group).min(self.doubling(bytes, group));
        flat.min(self.by_levels(bytes, group))
    }

    /// A tree in which each message holds all bytes.
    fn tree(&self, bytes: f64, group: Group, add: f64) -> f64 {
        let reach = self.reach(group);
        let (mut have, mut time) = (1, 0.0);
        while have < group.size {
            let level = reach.iter().position(|&n| have < n);
            let link = self.levels[level.unwrap_or(self.levels.len() - 1)].link;
            time += link.message(bytes) + add;
            have *= 2;
        }
        time
    }

    /// Seconds of a collective of `bytes` on the ranks of a group.
    ///
    /// ```
    /// use torsh_planner::{Cluster, Collective, Group, Reduction};
    ///
    /// let cluster = Cluster::default();
    /// let group = Group { size: 1024, stride: 1 };
    /// let ordered = cluster.time(Collective::AllReduce, 25e6, group, Reduction::Ordered);
    /// let engine = cluster.time(Collective::AllReduce, 25e6, group, Reduction::Engine);
    /// // A message to each of 1,023 ranks costs more than a tree.
    /// assert!(ordered > engine);
    /// ```
    pub fn time(&self, what: Collective, bytes: f64, group: Group, reduction: Reduction) -> f64 {
        if group.size <= 1 {
            return 0.0;
        }
        let reduces = what == Collective::AllReduce;
        // Measured times are of neighbours.
        let found = self.measured.iter().find(|m| {
            m.collective == what
                && m.ranks == group.size
                && group.stride == 1
                && (!reduces || m.reduction == reduction)
        });
        if let Some(m) = found {
            return m.time(bytes);
        }
        let n = group.size as f64;
        match (what, reduction) {
            (Collective::SendReceive, _) => self.levels[self.level(group)].link.message(bytes),
            (Collective::AllToAll, _) => self.exchange(bytes, group),
            (Collective::AllGather, _) => self.all_gather(bytes, group),
            (Collective::Broadcast, _) => {
                let scattered = self.tree(0.0, group, 0.0)
                    + bytes * (n - 1.0) / n / self.levels[self.level(group)].link.bandwidth
                    + self.all_gather(bytes, group);
                self.tree(bytes, group, 0.0).min(scattered)
            }
            (Collective::ReduceScatter, _) => {
                self.exchange(bytes, group) + self.add(bytes * (n - 1.0) / n)
            }
            (Collective::AllReduce, Reduction::Ordered) => {
                self.time(Collective::ReduceScatter, bytes, group, reduction)
                    + self.all_gather(bytes, group)
            }
            (Collective::AllReduce, Reduction::Engine) => {
                // The reduce-scatter of a library costs its all-gather, and the sums.
                let gather = self.all_gather(bytes, group);
                let two = 2.0 * gather + self.add(bytes * (n - 1.0) / n);
                two.min(self.tree(bytes, group, self.add(bytes)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One level: latency 10 us, gap 10 us (so alpha-beta), 1 GB/s; sums are free.
    fn flat() -> Cluster {
        let link = Link {
            latency: 1e-5,
            gap: 1e-5,
            bandwidth: 1e9,
        };
        Cluster {
            levels: vec![Level {
                name: "all".into(),
                ranks: 4096,
                link,
            }],
            memory_bandwidth: f64::MAX,
            ..Cluster::default()
        }
    }

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() <= 1e-9 * b.abs().max(1e-9), "{a} {b}");
    }

    fn of(size: usize) -> Group {
        Group { size, stride: 1 }
    }

    #[test]
    fn costs_by_hand() {
        let c = flat();
        let mb = 1e6;
        // Four ranks: three messages of 250 kB each, 10 us + 250 us.
        close(c.exchange(mb, of(4)), 3.0 * 260e-6);
        close(c.ring(mb, of(4)), 3.0 * 260e-6);
        // Two messages, of 250 kB and 500 kB.
        close(c.doubling(mb, of(4)), 260e-6 + 510e-6);
        // Three ranks hold 1, 2, then all three pieces: 333 kB twice.
        close(c.doubling(9e5, of(3)), 2.0 * 310e-6);
        let t = |what, n, r| c.time(what, mb, of(n), r);
        close(t(Collective::AllToAll, 4, Reduction::Ordered), 780e-6);
        close(t(Collective::AllGather, 4, Reduction::Ordered), 770e-6);
        close(t(Collective::ReduceScatter, 4, Reduction::Ordered), 780e-6);
        close(t(Collective::AllReduce, 4, Reduction::Ordered), 1550e-6);
        // Rabenseifner: 2 lg p latencies and 2 (p - 1) / p of the bytes.
        close(
            t(Collective::AllReduce, 4, Reduction::Engine),
            4.0 * 1e-5 + 1.5e-3,
        );
        close(t(Collective::SendReceive, 2, Reduction::Engine), 1010e-6);
        // A tree of four bytes: lg p messages.
        let small = c.time(Collective::AllReduce, 4.0, of(8), Reduction::Engine);
        close(small, 3.0 * (1e-5 + 4e-9));
        close(t(Collective::AllReduce, 1, Reduction::Ordered), 0.0);
    }

    #[test]
    fn levels_by_hand() {
        let mut c = flat();
        c.levels.insert(
            0,
            Level {
                name: "node".into(),
                ranks: 2,
                link: Link {
                    latency: 1e-6,
                    gap: 1e-6,
                    bandwidth: 1e10,
                },
            },
        );
        c.check().unwrap();
        assert_eq!(c.reach(of(8)), [2, 8]);
        assert_eq!(c.reach(Group { size: 4, stride: 2 }), [1, 4]);
        assert_eq!((c.level(of(2)), c.level(of(3))), (0, 1));
        // One peer in the node (1 us + 12.5 us), six outside (10 us + 125 us each). The latency is paid once and stands
        // for the last gap.
        close(c.exchange(1e6, of(8)), 13.5e-6 + 6.0 * 135e-6);
        // Outside: four ranks gather half of the bytes in two messages; inside: two ranks the whole.
        let outside = 2.0 * 1e-5 + 5e5 * 0.75 / 1e9;
        let inside = 1e-6 + 1e6 * 0.5 / 1e10;
        close(c.by_levels(1e6, of(8)), outside + inside);
    }

    #[test]
    fn latency_is_paid_once_and_gaps_per_message() {
        let mut c = flat();
        c.levels[0].link.gap = 1e-6;
        close(c.exchange(0.0, of(5)), 1e-5 + 3e-6);
    }

    #[test]
    fn measured_times_count_first() -> Result<()> {
        let mut c = flat();
        let points = vec![(1e3, 2e-5), (1e6, 1e-3)];
        let m = Measured::fit(Collective::AllReduce, 2, Reduction::Ordered, points)?;
        close(m.beta, (1e-3 - 2e-5) / (1e6 - 1e3));
        c.measured.push(m.clone());
        let t = |bytes| c.time(Collective::AllReduce, bytes, of(2), Reduction::Ordered);
        close(t(1.0), 2e-5);
        close(t(1e6), 1e-3);
        close(t((1e3 + 1e6) / 2.0), (2e-5 + 1e-3) / 2.0);
        close(t(2e6), 1e-3 + 1e6 * m.beta);
        // Another mode is the model's.
        let engine = c.time(Collective::AllReduce, 1e6, of(2), Reduction::Engine);
        close(engine, 1e-5 + 1e-3);
        assert!(Measured::fit(Collective::AllReduce, 2, Reduction::Ordered, vec![]).is_err());
        Ok(())
    }

    #[test]
    fn descriptions_are_read_and_checked() -> Result<()> {
        let c = Cluster::default();
        let text = serde_json::to_string(&c).unwrap();
        assert_eq!(Cluster::from_json(&text)?, c);
        let wrong = text.replace("\"ranks\":8", "\"ranks\":0");
        let error = Cluster::from_json(&wrong).unwrap_err().to_string();
        assert!(error.contains("level node holds 0 ranks"), "{error}");
        assert!(Cluster::from_json("{}").is_err());
        Ok(())
    }
}
