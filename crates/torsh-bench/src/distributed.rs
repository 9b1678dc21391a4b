//! Workloads of several ranks: collectives, training steps and checkpoints.
//!
//! ```text
//! mpiexec -n 2 torsh-bench --ranks 2 [--best] [--budget SECONDS] [NAME_PART ...]
//! ```
//!
//! Without a launcher it starts `mpiexec` itself, and where there is none the ranks are threads of this process. Each rank
//! has one thread for operators unless `--threads` says otherwise. Names, sizes, models and the way of timing are those of
//! a script for `torch.distributed`, so that lines can be compared; the time is that of the slowest rank.
//!
//! Names: `{all_reduce,all_gather,reduce_scatter,broadcast,all_to_all}_{bytes}_{ranks}p`, where `bytes` is the whole vector of
//! float32; `pingpong_{bytes}_2p`, a round trip; `{ddp,fsdp}_{model}_{ranks}p`, a training step with each rank on its own
//! batch; `single_{model}_1p`, the same on rank 0 without a group while the others sleep; `ddp_{model}_1p`, with a group of one;
//! `ckpt_1gb_{ranks}p`, a save of 1 GiB in pieces, and `ckpt_pause_1gb_{ranks}p`, how long an asynchronous one keeps training
//! waiting.

use std::io::Write;
use std::time::Instant;

use torsh_distributed::checkpoint::{self, Piece, State};
use torsh_distributed::launch::{LaunchOptions, find_mpiexec, launch};
use torsh_distributed::{
    DeviceMesh, DistributedDataParallel, FullyShardOptions, ProcessGroup, ReduceOp, fully_shard,
};
use torsh_nn::functional as F;
use torsh_nn::{Module, ModuleExt, Parameter, Sequential};
use torsh_optim::{AdamW, Optimizer, SGD};
use torsh_tensor::{DType, Device, Result, Tensor, TorshError};

use crate::gpt::Gpt;
use crate::harness::selects;
use crate::inputs::{randint, randn};
use crate::models::{mlp, resnet18};

const SIZES: [usize; 8] = [
    4,
    1 << 10,
    1 << 14,
    1 << 17,
    1 << 20,
    1 << 22,
    1 << 24,
    1 << 26,
];
const MODELS: [&str; 3] = ["mlp", "gpt", "resnet18"];
/// The sizes of its layers.
const MLP: [usize; 4] = [784, 1024, 1024, 10];

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many ranks.
    pub ranks: usize,
    /// Parts of names; all where there are none.
    pub only: Vec<String>,
    /// Seconds of each workload.
    pub budget: f64,
    /// Whether `us` is the best time, not the median.
    pub best: bool,
    /// Whether the names are printed and nothing is run.
    pub list: bool,
}

/// The names of the workloads on `ranks` ranks that `only` selects, in order.
pub fn names(ranks: usize, only: &[String]) -> Vec<String> {
    let mut all = Vec::new();
    for kind in [
        "all_reduce",
        "all_gather",
        "reduce_scatter",
        "broadcast",
        "all_to_all",
    ] {
        all.extend(SIZES.iter().map(|b| format!("{kind}_{b}_{ranks}p")));
    }
    if ranks == 2 {
        all.extend(SIZES.iter().map(|b| format!("pingpong_{b}_2p")));
    }
    for m in MODELS {
        all.push(format!("single_{m}_1p"));
        all.push(format!("ddp_{m}_1p"));
        if ranks > 1 {
            all.push(format!("ddp_{m}_{ranks}p"));
        }
        all.push(format!("fsdp_{m}_{ranks}p"));
    }
    all.push(format!("ckpt_1gb_{ranks}p"));
    all.push(format!("ckpt_pause_1gb_{ranks}p"));
    all.retain(|n| selects(only, n));
    all
}

/// Whether a launcher of an MPI started this process.
fn launched() -> bool {
    [
        "PMI_RANK",
        "PMI_SIZE",
        "PMIX_RANK",
        "OMPI_COMM_WORLD_RANK",
        "MPI_LOCALRANKID",
    ]
    .iter()
    .any(|v| std::env::var_os(v).is_some())
}

/// Runs the workloads; whether all went well. A process that is no rank yet starts the ranks, with the arguments that it was
/// given itself.
///
/// # Errors
/// The first error of a rank, a launcher that started another number of ranks.
pub fn run(options: &Options) -> Result<bool> {
    let n = options.ranks;
    if options.list {
        for name in names(n, &options.only) {
            println!("{name}");
        }
        return Ok(true);
    }
    if launched() {
        torsh_distributed::init_from_env()?;
        let group = torsh_distributed::world()?;
        if let Err(e) = rank(&group, options) {
            // The others wait for this rank: it ends them too.
            torsh_distributed::fail(e);
        }
        torsh_distributed::destroy()?;
        return Ok(true);
    }
    if n > 1 {
        let program = std::env::current_exe()?;
        match find_mpiexec(None, &program) {
            Ok(launcher) => {
                eprintln!("torsh-bench: {n} ranks by {}", launcher.path.display());
                let mut start =
                    LaunchOptions::new(n, program).arguments(std::env::args_os().skip(1));
                start.label = false;
                return Ok(launch(&start)?.code == 0);
            }
            Err(e) => {
                eprintln!(
                    "torsh-bench: no launcher, so {n} ranks are threads of this process ({e})"
                );
            }
        }
    }
    torsh_distributed::spawn(n, |group| rank(&group, options)).map(|_| true)
}

/// All workloads on one rank.
fn rank(group: &ProcessGroup, options: &Options) -> Result<()> {
    if group.size() != options.ranks {
        let text = format!(
            "the launcher started {} ranks and --ranks says {}",
            group.size(),
            options.ranks
        );
        return Err(TorshError::invalid("torsh-bench", text).with_hint(format!(
            "mpiexec -n {} torsh-bench --ranks {0}",
            options.ranks
        )));
    }
    let bench = Bench {
        group,
        alone: match group.size() {
            1 => Some(group.clone()),
            _ => group.new_group(&[0])?,
        },
        options,
    };
    for name in names(options.ranks, &options.only) {
        bench.one(&name).map_err(|e| match e {
            TorshError::Other(text) => TorshError::Other(format!("{name}: {text}")),
            other => {
                eprintln!("torsh-bench: {name} failed on rank {}", group.rank());
                other
            }
        })?;
    }
    group.barrier()
}

/// A call that is timed.
type Call = Box<dyn FnMut() -> Result<()>>;

struct Bench<'a> {
    group: &'a ProcessGroup,
    /// A group of rank 0 alone, on rank 0.
    alone: Option<ProcessGroup>,
    options: &'a Options,
}

impl Bench<'_> {
    fn one(&self, name: &str) -> Result<()> {
        let (rest, ranks) = name.rsplit_once('_').unwrap_or((name, ""));
        let (kind, what) = rest.rsplit_once('_').unwrap_or((rest, ""));
        if kind == "ckpt" {
            return self.checkpoint(name, false);
        }
        if kind == "ckpt_pause" {
            return self.checkpoint(name, true);
        }
        if let Ok(bytes) = what.parse::<usize>() {
            let call = match kind {
                "pingpong" => self.pingpong(bytes)?,
                _ => self.collective(kind, bytes)?,
            };
            return self.time(name, call, bytes);
        }
        if ranks == "1p" {
            return match &self.alone {
                None => self.group.barrier(),
                Some(group) => {
                    let call = self.step(kind, what, group)?;
                    self.time_alone(name, call)
                }
            };
        }
        self.time(name, self.step(kind, what, self.group)?, 0)
    }

    /// The slowest rank's seconds.
    fn slowest(&self, seconds: f64) -> Result<f64> {
        let t = Tensor::from_vec(vec![seconds], [1])?;
        self.group.all_reduce_(&t, ReduceOp::Max)?.item::<f64>()
    }

    fn time(&self, name: &str, mut call: Call, bytes: usize) -> Result<()> {
        self.group.barrier()?;
        call()?;
        let times = self.rounds(&mut |calls| {
            self.group.barrier()?;
            self.slowest(timed(&mut call, calls)?)
        })?;
        self.print(name, times, bytes, self.group.size());
        Ok(())
    }

    /// On rank 0, while the others wait.
    fn time_alone(&self, name: &str, mut call: Call) -> Result<()> {
        call()?;
        let times = self.rounds(&mut |calls| timed(&mut call, calls))?;
        self.print(name, times, 0, 1);
        self.group.barrier()
    }

    /// Seconds of a call, of each round.
    fn rounds(&self, timed: &mut dyn FnMut(usize) -> Result<f64>) -> Result<Vec<f64>> {
        let budget = self.options.budget;
        let once = timed(1)?.max(1e-7);
        let calls = ((budget / 20.0 / once) as usize).clamp(1, 100);
        let (mut times, mut spent) = (Vec::new(), 0.0);
        while times.len() < 5 || spent < budget {
            let seconds = timed(calls)?;
            times.push(seconds);
            spent += seconds * calls as f64;
        }
        Ok(times)
    }

    fn print(&self, name: &str, mut times: Vec<f64>, bytes: usize, ranks: usize) {
        if self.group.rank() > 0 {
            return;
        }
        println!(
            "{}",
            line(name, &mut times, self.options.best, bytes, ranks)
        );
        // Nobody is told of a pipe that was closed: the run ends anyway.
        let _ = std::io::stdout().flush();
    }

    fn collective(&self, kind: &str, bytes: usize) -> Result<Call> {
        let n = self.group.size();
        let group = self.group.clone();
        let zeros = |count: usize| Tensor::zeros([count], DType::F32, Device::Cpu);
        let count = (bytes / 4).max(1);
        let part = zeros((count / n).max(1))?;
        let whole = zeros(part.numel() * n)?;
        Ok(match kind {
            "all_reduce" => {
                let x = zeros(count)?;
                Box::new(move || group.all_reduce_(&x, ReduceOp::Sum).map(drop))
            }
            "broadcast" => {
                let x = zeros(count)?;
                Box::new(move || group.broadcast_(&x, 0).map(drop))
            }
            "all_gather" => Box::new(move || group.all_gather_into_(&whole, &part).map(drop)),
            "reduce_scatter" => Box::new(move || {
                group
                    .reduce_scatter_(&part, &whole, ReduceOp::Sum)
                    .map(drop)
            }),
            "all_to_all" => {
                let other = zeros(whole.numel())?;
                Box::new(move || group.all_to_all_single_(&other, &whole).map(drop))
            }
            _ => {
                return Err(TorshError::invalid(
                    "torsh-bench",
                    format!("no workload is called {kind}"),
                ));
            }
        })
    }

    fn pingpong(&self, bytes: usize) -> Result<Call> {
        let x = Tensor::zeros([(bytes / 4).max(1)], DType::F32, Device::Cpu)?;
        let group = self.group.clone();
        Ok(match group.rank() {
            0 => Box::new(move || {
                group.send(&x, 1)?;
                group.recv_(&x, 1).map(drop)
            }),
            _ => Box::new(move || {
                group.recv_(&x, 0)?;
                group.send(&x, 0)
            }),
        })
    }

    fn step(&self, how: &str, model: &str, group: &ProcessGroup) -> Result<Call> {
        // The same weights on all ranks, each rank its own batch.
        torsh_core::random::manual_seed(0);
        let batches = || torsh_core::random::manual_seed(1 + self.group.rank() as u64);
        match model {
            "mlp" => {
                let net = mlp(&MLP, false);
                batches();
                let (x, y) = (randn(&[128, 784])?, randint(10, &[128])?);
                let shard = |net, mesh: &_| shard_parts(net, "Linear", mesh);
                step_of(net, shard, how, group, x, y, |p| {
                    Ok(Box::new(SGD::new(p, 0.01)?))
                })
            }
            "gpt" => {
                let net = Gpt::new(512, 128, 4, 4, 64, false)?;
                batches();
                let (x, y) = (randint(512, &[16, 64])?, randint(512, &[16 * 64])?);
                step_of(net, shard_blocks, how, group, x, y, |p| {
                    Ok(Box::new(AdamW::new(p, 1e-4)?))
                })
            }
            "resnet18" => {
                let net = resnet18(64, 1000)?;
                batches();
                let (x, y) = (randn(&[4, 3, 64, 64])?, randint(1000, &[4])?);
                let shard = |net, mesh: &_| shard_parts(net, "Basic", mesh);
                step_of(net, shard, how, group, x, y, |p| {
                    Ok(Box::new(SGD::builder(p).lr(0.01).momentum(0.9).build()?))
                })
            }
            _ => Err(TorshError::invalid(
                "torsh-bench",
                format!("no model is called {model}"),
            )),
        }
    }

    /// Saves 1 GiB, of which each rank has rows of every tensor.
    fn checkpoint(&self, name: &str, pause: bool) -> Result<()> {
        const TENSORS: usize = 64;
        let (rows, width) = (4096, 1024);
        let (n, rank) = (self.group.size(), self.group.rank());
        let chunk = rows / n + usize::from(rows % n > 0);
        let (start, end) = ((rank * chunk).min(rows), ((rank + 1) * chunk).min(rows));
        let mut pieces = Vec::with_capacity(TENSORS);
        for i in 0..TENSORS {
            let own = Tensor::full([end - start, width], i as f64, DType::F32, Device::Cpu)?;
            pieces.push(Piece::new(
                &format!("weight{i}"),
                [rows, width],
                [start, 0],
                &own,
            )?);
        }
        let dir = std::env::temp_dir().join(format!("torsh-bench-{}", std::process::id()));
        let dir = self.group.broadcast_object(Some(&dir), 0)?;
        let state = || State::new().tensors("pieces", &pieces);
        let mut times = Vec::new();
        // The first warms up. Each has a folder of its own: taking an old checkpoint away is not measured.
        for i in 0..6 {
            let dir = dir.join(i.to_string());
            self.group.barrier()?;
            let begun = Instant::now();
            let seconds = match pause {
                false => {
                    checkpoint::save_in(self.group, &dir, &state())?;
                    begun.elapsed()
                }
                true => {
                    let saving = checkpoint::save_async_in(self.group, &dir, &state())?;
                    let seconds = begun.elapsed();
                    saving.wait()?;
                    seconds
                }
            };
            let seconds = self.slowest(seconds.as_secs_f64())?;
            if i > 0 {
                times.push(seconds);
            }
            if rank == 0 {
                std::fs::remove_dir_all(&dir)?;
            }
        }
        self.print(name, times, TENSORS * rows * width * 4, n);
        self.group.barrier()?;
        if rank == 0 {
            std::fs::remove_dir_all(&dir)?;
        }
        Ok(())
    }
}

fn timed(call: &mut Call, calls: usize) -> Result<f64> {
    let start = Instant::now();
    for _ in 0..calls {
        call()?;
    }
    Ok(start.elapsed().as_secs_f64() / calls as f64)
}

fn line(name: &str, times: &mut [f64], best: bool, bytes: usize, ranks: usize) -> String {
    times.sort_by(f64::total_cmp);
    let n = times.len();
    // Of an even number the mean of the middle two, as Python's `statistics.median`.
    let median = (times[(n - 1) / 2] + times[n / 2]) / 2.0;
    let us = |seconds: f64| (seconds * 1e9).round() / 1e3;
    let shown = if best { times[0] } else { median };
    format!(
        "{{\"name\": \"{name}\", \"us\": {}, \"min_us\": {}, \"flops\": 0, \"bytes\": {bytes}, \"ranks\": {ranks}}}",
        us(shown),
        us(times[0])
    )
}

/// A training step: gradients to zero, forward, loss, backward with its communication, optimizer.
fn step_of<M: Module>(
    net: M,
    shard: impl FnOnce(M, &DeviceMesh) -> Result<M>,
    how: &str,
    group: &ProcessGroup,
    x: Tensor,
    y: Tensor,
    optimizer: impl FnOnce(Vec<Parameter>) -> Result<Box<dyn Optimizer>>,
) -> Result<Call> {
    let net: Box<dyn Module> = match how {
        "single" => Box::new(net),
        "ddp" => Box::new(
            DistributedDataParallel::builder(net)
                .process_group(group)
                .build()?,
        ),
        _ => {
            let mesh = DeviceMesh::from_group(group, &[group.size()], &["dp"])?;
            let mut net = shard(net, &mesh)?;
            fully_shard(&mut net, &mesh, FullyShardOptions::default())?;
            Box::new(net)
        }
    };
    let optimizer = optimizer(net.parameters())?;
    Ok(Box::new(move || {
        optimizer.zero_grad();
        F::cross_entropy(&net.forward(&x)?, &y)?.backward()?;
        optimizer.step()
    }))
}

/// Shards the parts of one type, as the script for PyTorch does.
fn shard_parts(net: Sequential, of: &str, mesh: &DeviceMesh) -> Result<Sequential> {
    let mut sharded = Sequential::new();
    for (_, mut part) in net.into_items() {
        if part.type_name() == of {
            fully_shard(&mut *part, mesh, FullyShardOptions::default())?;
        }
        sharded.push(part);
    }
    Ok(sharded)
}

fn shard_blocks(mut net: Gpt, mesh: &DeviceMesh) -> Result<Gpt> {
    for block in &mut net.blocks {
        fully_shard(block, mesh, FullyShardOptions::default())?;
    }
    Ok(net)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_script() {
        let all = names(2, &[]);
        assert_eq!(all.len(), 5 * 8 + 8 + 3 * 4 + 2);
        let gpt = names(2, &["gpt".to_string()]);
        assert_eq!(
            gpt,
            ["single_gpt_1p", "ddp_gpt_1p", "ddp_gpt_2p", "fsdp_gpt_2p"]
        );
        assert_eq!(names(4, &["ping".to_string()]).len(), 0);
        assert_eq!(
            names(3, &["all_to_all_16384".to_string()]),
            ["all_to_all_16384_3p"]
        );
    }

    #[test]
    fn models_have_the_parameters_of_the_script() -> Result<()> {
        let _read = crate::ALLOCATES.read();
        let count = |m: &dyn Module| m.parameters().iter().map(|p| p.numel()).sum::<usize>();
        assert_eq!(count(&mlp(&MLP, false)), 1_863_690);
        assert_eq!(count(&Gpt::new(512, 128, 4, 4, 64, false)?), 932_608);
        assert_eq!(count(&resnet18(64, 1000)?), 11_689_512);
        Ok(())
    }

    #[test]
    fn lines_have_the_median_and_the_best() {
        let mut times = vec![3e-6, 1e-6, 2e-6, 4e-6];
        let median =
            r#"{"name": "x_4_2p", "us": 2.5, "min_us": 1, "flops": 0, "bytes": 4, "ranks": 2}"#;
        assert_eq!(line("x_4_2p", &mut times, false, 4, 2), median);
        assert!(line("x_4_2p", &mut times, true, 4, 2).contains("\"us\": 1,"));
    }

    /// Every kind of workload on threads, with the small models and sizes.
    #[test]
    fn workloads_run_on_threads() -> Result<()> {
        let _read = crate::ALLOCATES.read();
        let options = Options {
            ranks: 2,
            only: ["_4_2p", "_1024_2p", "mlp", "gpt"]
                .map(String::from)
                .to_vec(),
            budget: 1e-9,
            best: true,
            list: false,
        };
        torsh_distributed::spawn(2, |g| rank(&g, &options)).map(drop)
    }
}
