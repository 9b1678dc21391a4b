//! Measuring the group at hand.

use std::time::Instant;

use serde::{Deserialize, Serialize};
use torsh_functional as F;
use torsh_nn::{Embedding, Hooks, LayerNorm, Linear, Module, ModuleExt};
use torsh_optim::{AdamW, Optimizer};
use torsh_planner::{
    Cluster, Collective, Layer, Level, Link, MOST_SHARED, Measured, ModelPlan, Outcome,
    Parallelism, Reduction, StepOptions, Stragglers, simulate,
};
use torsh_tensor::{DType, Device, Result, Tensor};

use crate::{
    DeviceMesh, DistributedDataParallel, FullyShardOptions, ProcessGroup, ReduceMode, ReduceOp,
    fully_shard,
};

/// The sizes of what is measured.
struct Extent {
    /// Bytes of the collectives that are timed.
    bytes: &'static [usize],
    /// The measured model.
    gpt: Sizes,
    /// Rows of the square matrices of a product.
    square: usize,
    /// Numbers of a copy, beyond the caches.
    long: usize,
}

const EXTENT: Extent = Extent {
    bytes: &[4, 1 << 10, 1 << 14, 1 << 17, 1 << 20, 1 << 22, 1 << 24],
    gpt: Sizes([512, 128, 4, 4, 64, 16]),
    square: 512,
    long: 1 << 23,
};

/// Symbols, width, layers, heads, length, and samples of a rank.
#[derive(Clone, Copy)]
struct Sizes([usize; 6]);

/// A step that was timed and simulated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepCheck {
    /// `ddp` or `fully_shard`.
    pub what: String,
    /// Seconds of a step of one rank alone, while all compute.
    pub alone: f64,
    /// Seconds of the step on all ranks.
    pub measured: f64,
    /// What the simulation says.
    pub predicted: f64,
}

/// What [`measure()`] found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// The machines, for `torsh-plan --cluster`.
    pub cluster: Cluster,
    /// A small GPT with its layers' times, for `torsh-plan --model-file`.
    pub model: ModelPlan,
    /// Its steps, timed and simulated.
    pub checks: Vec<StepCheck>,
}

impl Measurement {
    /// The seconds by which a step on all ranks was slower than alone, and by which the simulation says it is.
    ///
    /// ```
    /// use torsh_distributed::plan::StepCheck;
    /// use torsh_distributed::plan::Measurement;
    ///
    /// let check = StepCheck { what: "ddp".into(), alone: 1.0, measured: 1.5, predicted: 1.25 };
    /// assert_eq!(Measurement::exposed(&check), (0.5, 0.25));
    /// ```
    pub fn exposed(check: &StepCheck) -> (f64, f64) {
        (check.measured - check.alone, check.predicted - check.alone)
    }
}

/// The largest of the ranks' numbers.
fn slowest(group: &ProcessGroup, seconds: f64) -> Result<f64> {
    let t = Tensor::from_vec(vec![seconds], [1])?;
    group.all_reduce_(&t, ReduceOp::Max)?.item::<f64>()
}

/// The median time of a call, the slowest rank's, over rounds that take `budget` seconds together.
fn time(group: &ProcessGroup, budget: f64, f: &mut dyn FnMut() -> Result<()>) -> Result<f64> {
    f()?;
    let mut timed = |calls: usize| {
        group.barrier()?;
        let start = Instant::now();
        for _ in 0..calls {
            f()?;
        }
        slowest(group, start.elapsed().as_secs_f64() / calls as f64)
    };
    let once = timed(1)?.max(1e-7);
    let calls = ((budget / 10.0 / once) as usize).clamp(1, 100);
    let (mut times, mut spent) = (Vec::new(), 0.0);
    while times.len() < 5 || spent < budget {
        let t = timed(calls)?;
        times.push(t);
        spent += t * calls as f64;
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

fn collective(group: &ProcessGroup, what: Collective, bytes: usize, budget: f64) -> Result<f64> {
    let n = group.size();
    let zeros = |count: usize| Tensor::zeros([count], DType::F32, Device::Cpu);
    let count = (bytes / 4).max(1);
    let part = zeros((count / n).max(1))?;
    let whole = zeros(part.numel() * n)?;
    let (full, other) = (zeros(count)?, whole.copy()?);
    let seconds = time(group, budget, &mut || match what {
        Collective::AllReduce => group.all_reduce_(&full, ReduceOp::Sum).map(drop),
        Collective::Broadcast => group.broadcast_(&full, 0).map(drop),
        Collective::AllGather => group.all_gather_into_(&whole, &part).map(drop),
        Collective::ReduceScatter => group
            .reduce_scatter_(&part, &whole, ReduceOp::Sum)
            .map(drop),
        Collective::AllToAll => group.all_to_all_single_(&other, &whole).map(drop),
        Collective::SendReceive => match group.rank() {
            0 => {
                group.send(&full, 1)?;
                group.recv_(&full, 1).map(drop)
            }
            1 => {
                group.recv_(&full, 0)?;
                group.send(&full, 0)
            }
            _ => Ok(()),
        },
    })?;
    // There and back.
    let ways = if what == Collective::SendReceive {
        2.0
    } else {
        1.0
    };
    Ok(seconds / ways)
}

/// The times of one collective by size, with its fit.
fn sweep(
    group: &ProcessGroup,
    what: Collective,
    reduction: Reduction,
    sizes: &[usize],
    budget: f64,
) -> Result<Measured> {
    let mode = group.reduce_mode();
    group.set_reduce_mode(match reduction {
        Reduction::Ordered => ReduceMode::Ordered,
        Reduction::Engine => ReduceMode::Engine,
    });
    let points = sizes
        .iter()
        .map(|&bytes| Ok((bytes as f64, collective(group, what, bytes, budget)?)))
        .collect::<Result<Vec<_>>>();
    group.set_reduce_mode(mode);
    Measured::fit(what, group.size(), reduction, points?)
}

#[derive(Module)]
struct Block {
    norm1: LayerNorm,
    norm2: LayerNorm,
    qkv: Linear,
    out: Linear,
    up: Linear,
    down: Linear,
    #[module(skip)]
    heads: usize,
    hooks: Hooks,
}

impl Module for Block {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let (n, length, width) = (x.size(0)?, x.size(1)?, x.size(2)?);
            let qkv = self.qkv.forward(&self.norm1.forward(x)?)?;
            let qkv = qkv
                .view([n, length, 3, self.heads, width / self.heads])?
                .permute([2, 0, 3, 1, 4])?;
            let part = |i: usize| qkv.select(0, i);
            let causal = F::ScaledDotProductAttentionOptions::new().is_causal(true);
            let y = F::scaled_dot_product_attention_with(&part(0)?, &part(1)?, &part(2)?, causal)?;
            let y = y.transpose(1, 2)?.reshape([n, length, width])?;
            let x = x.add(self.out.forward(&y)?)?;
            let inner = F::gelu(self.up.forward(&self.norm2.forward(&x)?)?)?;
            x.add(self.down.forward(&inner)?)
        })
    }
}

#[derive(Module)]
struct Embed {
    symbols: Embedding,
    places: Embedding,
    hooks: Hooks,
}

impl Module for Embed {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let places = Tensor::arange(0, x.size(1)? as i64, 1, DType::I64, x.device())?;
            self.symbols.forward(x)?.add(self.places.forward(&places)?)
        })
    }
}

#[derive(Module)]
struct Head {
    norm: LayerNorm,
    head: Linear,
    hooks: Hooks,
}

impl Module for Head {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            self.head
                .forward(&self.norm.forward(x)?)?
                .flatten_dims(0, 1)
        })
    }
}

/// A GPT whose parts are the layers of [`ModelPlan::gpt`].
#[derive(Module)]
pub(super) struct Gpt {
    embed: Embed,
    blocks: Vec<Block>,
    head: Head,
    hooks: Hooks,
}

impl Gpt {
    pub(super) fn new(
        symbols: usize,
        width: usize,
        layers: usize,
        heads: usize,
        length: usize,
        device: Device,
    ) -> Result<Gpt> {
        let linear = |i, o| Linear::builder(i, o).device(device).build();
        let norm = || LayerNorm::builder(width).device(device).build();
        let block = |_| {
            Ok(Block {
                norm1: norm()?,
                norm2: norm()?,
                qkv: linear(width, 3 * width)?,
                out: linear(width, width)?,
                up: linear(width, 4 * width)?,
                down: linear(4 * width, width)?,
                heads,
                hooks: Hooks::new(),
            })
        };
        Ok(Gpt {
            embed: Embed {
                symbols: Embedding::builder(symbols, width).device(device).build()?,
                places: Embedding::builder(length, width).device(device).build()?,
                hooks: Hooks::new(),
            },
            blocks: (0..layers).map(block).collect::<Result<_>>()?,
            head: Head {
                norm: norm()?,
                head: Linear::builder(width, symbols)
                    .bias(false)
                    .device(device)
                    .build()?,
                hooks: Hooks::new(),
            },
            hooks: Hooks::new(),
        })
    }

    /// Shards each layer, then what is left: nothing but the order of the layers.
    pub(super) fn shard(&mut self, mesh: &DeviceMesh) -> Result<()> {
        let options = FullyShardOptions::default;
        fully_shard(&mut self.embed, mesh, options())?;
        for block in &mut self.blocks {
            fully_shard(block, mesh, options())?;
        }
        fully_shard(&mut self.head, mesh, options())?;
        fully_shard(self, mesh, options()).map(drop)
    }

    fn layers(&self) -> Vec<&dyn Module> {
        let mut all: Vec<&dyn Module> = vec![&self.embed];
        all.extend(self.blocks.iter().map(|b| b as &dyn Module));
        all.push(&self.head);
        all
    }
}

impl Module for Gpt {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let mut x = self.embed.forward(x)?;
            for block in &self.blocks {
                x = block.forward(&x)?;
            }
            self.head.forward(&x)
        })
    }
}

impl Sizes {
    /// Symbols and the ones that follow, of one rank.
    fn samples(self, rank: usize) -> Result<(Tensor, Tensor)> {
        let [symbols, _, _, _, length, batch] = self.0;
        let of = |a: usize, b: usize| {
            let values = (0..batch * length).map(|i| ((i * a + b + 31 * rank) % symbols) as i64);
            Tensor::from_vec(values.collect::<Vec<_>>(), [batch * length])
        };
        Ok((of(7, 1)?.reshape([batch, length])?, of(11, 5)?))
    }

    /// A training step of a model, as a call.
    fn step(self, net: impl Module, rank: usize) -> Result<impl FnMut() -> Result<()>> {
        let optimizer = AdamW::new(net.parameters(), 1e-4)?;
        let (x, y) = self.samples(rank)?;
        Ok(move || {
            optimizer.zero_grad();
            F::cross_entropy(&net.forward(&x)?, &y)?.backward()?;
            optimizer.step()
        })
    }

    fn build(self) -> Result<Gpt> {
        let [symbols, width, layers, heads, length, _] = self.0;
        torsh_core::random::manual_seed(0);
        Gpt::new(symbols, width, layers, heads, length, Device::Cpu)
    }
}

/// The layers' forward and backward times, and the optimizer's.
fn layers(group: &ProcessGroup, gpt: Sizes, budget: f64) -> Result<ModelPlan> {
    let [symbols, width, count, heads, length, batch] = gpt.0;
    let mut plan = ModelPlan::gpt("measured-gpt", symbols, width, count, heads, length);
    let net = gpt.build()?;
    let optimizer = AdamW::new(net.parameters(), 1e-4)?;
    let (mut x, targets) = gpt.samples(group.rank())?;
    let last = plan.layers.len() - 1;
    for (i, (layer, module)) in plan.layers.iter_mut().zip(net.layers()).enumerate() {
        let (mut forward, mut both) = (Vec::new(), Vec::new());
        let start = Instant::now();
        let mut next = None;
        while forward.len() < 5 || start.elapsed().as_secs_f64() < budget {
            module.zero_grad();
            let x = match i {
                0 => x.clone(),
                _ => x.detach().requires_grad_(true),
            };
            let t = Instant::now();
            let y = module.forward(&x)?;
            let end = match i == last {
                true => F::cross_entropy(&y, &targets)?,
                false => y.clone(),
            };
            forward.push(t.elapsed().as_secs_f64());
            let g = Tensor::ones(end.dims().to_vec(), DType::F32, Device::Cpu)?;
            let t = Instant::now();
            end.backward_with(g, false, false)?;
            both.push(t.elapsed().as_secs_f64());
            next = Some(y.detach());
        }
        let median = |times: &mut Vec<f64>| {
            times.sort_by(f64::total_cmp);
            slowest(group, times[times.len() / 2] / batch as f64)
        };
        layer.forward_seconds = Some(median(&mut forward)?);
        layer.backward_seconds = Some(median(&mut both)?);
        if let Some(y) = next {
            x = y;
        }
    }
    plan.optimizer_seconds = Some(time(group, budget, &mut || optimizer.step())?);
    Ok(plan)
}

/// Measures a group: links and collectives, compute, and how both go together. All ranks call it, and all get the same.
/// `budget` is the seconds of each figure; there are about a hundred.
///
/// Run it with one thread for each rank (`TORSH_NUM_THREADS=1`), as training does.
///
/// # Errors
/// A group of one rank has no links. Errors of the group.
///
/// ```no_run
/// use torsh_distributed::{plan, spawn};
///
/// let found = spawn(2, |group| plan::measure(&group, 0.05))?;
/// let all_reduce = &found[0].cluster.measured[0];
/// println!("latency {} s, {} s for each byte", all_reduce.alpha, all_reduce.beta);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn measure(group: &ProcessGroup, budget: f64) -> Result<Measurement> {
    measure_all(group, &EXTENT, budget)
}

#[track_caller]
fn measure_all(group: &ProcessGroup, extent: &Extent, budget: f64) -> Result<Measurement> {
    if group.size() < 2 {
        let text = format!(
            "group {} has one rank, so there is nothing between ranks",
            group.name()
        );
        return Err(torsh_tensor::TorshError::invalid("plan::measure", text)
            .with_hint("start it with a launcher: mpiexec -n 2 torsh-plan measure"));
    }
    let mut measured = Vec::new();
    for what in [
        Collective::AllReduce,
        Collective::ReduceScatter,
        Collective::AllGather,
        Collective::AllToAll,
        Collective::Broadcast,
        Collective::SendReceive,
    ] {
        measured.push(sweep(
            group,
            what,
            Reduction::Ordered,
            extent.bytes,
            budget,
        )?);
    }
    measured.push(sweep(
        group,
        Collective::AllReduce,
        Reduction::Engine,
        extent.bytes,
        budget,
    )?);
    let message = &measured[5];
    let link = Link {
        latency: message.points[0].1,
        gap: message.points[0].1,
        bandwidth: 1.0 / message.beta.max(1e-15),
    };
    // Matrix products and copies beyond the caches.
    let square = Tensor::ones([extent.square; 2], DType::F32, Device::Cpu)?;
    let product = time(group, budget, &mut || square.matmul(&square).map(drop))?;
    let long = Tensor::ones([extent.long], DType::F32, Device::Cpu)?;
    let copied = time(group, budget, &mut || long.add_(1.0).map(drop))?;
    let shared = shared_cores(group, extent.gpt, 4.0 * budget)?;
    let model = layers(group, extent.gpt, budget)?;
    let cluster = Cluster {
        name: format!("{} ranks measured over {}", group.size(), group.engine()),
        levels: vec![Level {
            name: "measured".into(),
            ranks: group.size(),
            link,
        }],
        flops: 2.0 * (extent.square as f64).powi(3) / product,
        memory_bandwidth: 2.0 * 4.0 * extent.long as f64 / copied,
        memory: torsh_core::os::physical_memory().map_or(16e9, |bytes| bytes as f64),
        stragglers: stragglers(group, extent.gpt, 10.0 * budget)?,
        shared_cores: shared,
        measured,
    };
    let checks = check(group, extent.gpt, &cluster, &model, budget)?;
    Ok(Measurement {
        cluster,
        model,
        checks,
    })
}

/// How much longer than the mean one rank's step takes now and then: steps whose ranks wait for one another take as long as
/// the slowest rank's.
fn stragglers(group: &ProcessGroup, gpt: Sizes, budget: f64) -> Result<Stragglers> {
    let mut compute = gpt.step(gpt.build()?, group.rank())?;
    compute()?;
    let (mut own, mut slowest_ones, mut steps) = (0.0, 0.0, 0);
    while steps < 10 || (slowest_ones < budget && steps < 1000) {
        group.barrier()?;
        let start = Instant::now();
        compute()?;
        let seconds = start.elapsed().as_secs_f64();
        own += seconds;
        slowest_ones += slowest(group, seconds)?;
        steps += 1;
    }
    let ratio = slowest_ones / slowest(group, own)?;
    Ok(Stragglers {
        deviation: (ratio - 1.0).max(0.0) / largest_of(group.size()),
        ..Stragglers::NONE
    })
}

/// The expected magnitude of the largest of `n` numbers of a normal distribution with deviation 1.
fn largest_of(n: usize) -> f64 {
    const STEP: f64 = 1e-3;
    let density = (2.0 / std::f64::consts::PI).sqrt();
    // The chance that one of them is below `x`, and the sum of the chances that any is above.
    let (mut below, mut sum) = (0.0f64, 0.0);
    for i in 0..10_000 {
        let x = (f64::from(i) + 0.5) * STEP;
        let before = below;
        below += density * (-0.5 * x * x).exp() * STEP;
        sum += (1.0 - (0.5 * (before + below)).min(1.0).powf(n as f64)) * STEP;
    }
    sum
}

/// How much of a reduction's time a training step loses while it goes on.
///
/// The step is the model's own: products alone, which the caches hold, lose less than optimizers and norms do.
fn shared_cores(group: &ProcessGroup, gpt: Sizes, budget: f64) -> Result<f64> {
    let net = gpt.build()?;
    let count = net.parameters().iter().map(|p| p.numel()).sum::<usize>();
    let mut compute = gpt.step(net, group.rank())?;
    // As many numbers as the gradients have.
    let t = Tensor::zeros([count], DType::F32, Device::Cpu)?;
    let talk = time(group, budget, &mut || {
        group.all_reduce_(&t, ReduceOp::Sum).map(drop)
    })?;
    // In turn, so that a machine that becomes slower slows both.
    let mut lost = Vec::new();
    for _ in 0..5 {
        let alone = time(group, budget, &mut compute)?;
        let both = time(group, budget, &mut || {
            let work = group.all_reduce_async(&t, ReduceOp::Sum)?;
            compute()?;
            work.wait()
        })?;
        lost.push(both - alone);
    }
    lost.sort_by(f64::total_cmp);
    Ok((lost[lost.len() / 2] / talk).clamp(0.0, MOST_SHARED))
}

/// Times the model's steps and simulates them.
fn check(
    group: &ProcessGroup,
    gpt: Sizes,
    cluster: &Cluster,
    model: &ModelPlan,
    budget: f64,
) -> Result<Vec<StepCheck>> {
    let budget = 10.0 * budget;
    let (n, rank) = (group.size(), group.rank());
    let alone = time(group, budget, &mut gpt.step(gpt.build()?, rank)?)?;
    let ddp = DistributedDataParallel::builder(gpt.build()?)
        .process_group(group)
        .build()?;
    let replicas = time(group, budget, &mut gpt.step(ddp, rank)?)?;
    let mesh = DeviceMesh::from_group(group, &[n], &["dp"])?;
    let mut net = gpt.build()?;
    net.shard(&mesh)?;
    let pieces = time(group, budget, &mut gpt.step(net, rank)?)?;
    let alone = 0.5 * (alone + time(group, budget, &mut gpt.step(gpt.build()?, rank)?)?);
    // Layers that are timed one by one are not quite the model: the simulation takes their shares of the whole.
    let mut scaled = model.clone();
    let factor = alone / compute_seconds(model, gpt.0[5]);
    for l in &mut scaled.layers {
        l.forward_seconds = l.forward_seconds.map(|s| s * factor);
        l.backward_seconds = l.backward_seconds.map(|s| s * factor);
    }
    scaled.optimizer_seconds = model.optimizer_seconds.map(|s| s * factor);
    let options = StepOptions {
        batch: n * gpt.0[5],
        micro_batch: gpt.0[5],
        steps: 200,
        ..StepOptions::default()
    };
    let of = |mesh: Parallelism| -> Result<Outcome> { simulate(&scaled, cluster, mesh, &options) };
    let shard = Parallelism {
        shard: n,
        ..Parallelism::data(1)
    };
    let row = |what: &str, measured, outcome: Outcome| StepCheck {
        what: what.into(),
        alone,
        measured,
        predicted: outcome.seconds,
    };
    Ok(vec![
        row("ddp", replicas, of(Parallelism::data(n))?),
        row("fully_shard", pieces, of(shard)?),
    ])
}

/// Seconds of a step of one rank by the layers' times.
fn compute_seconds(model: &ModelPlan, batch: usize) -> f64 {
    let layers = model.layers.iter();
    let each = |l: &Layer| l.forward_seconds.unwrap_or(0.0) + l.backward_seconds.unwrap_or(0.0);
    layers.map(each).sum::<f64>() * batch as f64 + model.optimizer_seconds.unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spawn;

    #[test]
    fn the_model_is_the_plan() -> Result<()> {
        let [symbols, width, count, heads, length, _] = EXTENT.gpt.0;
        let plan = ModelPlan::gpt("gpt", symbols, width, count, heads, length);
        let net = EXTENT.gpt.build()?;
        for (layer, module) in plan.layers.iter().zip(net.layers()) {
            let shapes: Vec<Vec<usize>> = module
                .parameters()
                .iter()
                .map(|p| p.dims().to_vec())
                .collect();
            assert_eq!(layer.shapes, shapes, "{}", layer.name);
        }
        Ok(())
    }

    #[test]
    fn the_largest_of_some_numbers() {
        let pi = std::f64::consts::PI;
        for (n, known) in [(1, (2.0 / pi).sqrt()), (2, 2.0 / pi.sqrt())] {
            let got = largest_of(n);
            assert!((got - known).abs() < 1e-4, "{n}: {got} {known}");
        }
    }

    #[test]
    fn figures_of_two_ranks() -> Result<()> {
        // `measure` takes seconds of large messages; the parts are the same.
        let small = Extent {
            bytes: &[4, 1 << 8, 1 << 10, 1 << 12, 1 << 14],
            gpt: Sizes([64, 16, 2, 2, 8, 4]),
            square: 64,
            long: 1 << 16,
        };
        let found = spawn(2, move |g| measure_all(&g, &small, 1e-4))?;
        assert_eq!(found[0].cluster, found[1].cluster);
        let m = &found[0];
        assert_eq!(m.cluster.measured.len(), 7);
        assert!(
            m.cluster
                .measured
                .iter()
                .all(|r| r.points.iter().all(|p| p.1 > 0.0))
        );
        assert!(
            m.checks
                .iter()
                .all(|c| c.predicted > 0.0 && c.measured > 0.0)
        );
        // What was written is read again.
        let text = serde_json::to_string(&m.cluster).expect("plain numbers");
        assert_eq!(Cluster::from_json(&text)?, m.cluster);
        let one = spawn(1, |g| Ok(measure(&g, 1e-4).is_err()))?;
        assert_eq!(one, [true]);
        Ok(())
    }
}
