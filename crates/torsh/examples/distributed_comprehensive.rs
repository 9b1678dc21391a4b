//! Trains a small GPT on the characters of a novel on several ranks, by any of ToRSh's ways to divide the work, and compares
//! the course with that of one process.
//!
//! ```text
//! cargo build --release -p torsh --features distributed --example distributed_comprehensive
//! mpiexec -n 2 target/release/examples/distributed_comprehensive --strategy fsdp
//! torshrun --nproc 2 --max-restarts 2 -- target/release/examples/distributed_comprehensive --die-at 120
//! ```
//!
//! Every rank count and strategy learns from the same batches, so a run can be taken up by another:
//! `--resume` goes on from the checkpoint of any of them.

#[path = "common/mod.rs"]
mod common;
#[path = "common/novel.rs"]
mod novel;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use clap::{Parser, ValueEnum};
use common::{at, positive};
use torsh::distributed::checkpoint::{self, State};
use torsh::distributed::pipeline::{PipelineStage, Schedule, split_into_stages};
use torsh::distributed::tensor_parallel::{TensorParallel, parallelize_module};
use torsh::distributed::{
    self as dist, DeviceMesh, DistributedDataParallel, FullyShardOptions, ProcessGroup, ReduceOp,
    fully_shard, plan,
};
use torsh::nn::Hooks;
use torsh::prelude::*;
use torsh::train::plot::{Panel, Plot, Series};

/// How the work is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Strategy {
    /// Each rank has the model, and a part of each batch
    Ddp,
    /// As ddp, but each rank keeps a piece of each parameter
    Fsdp,
    /// Each rank has a part of each layer, and all work on one batch
    Tp,
    /// Each rank has a part of the layers, through which a batch flows in pieces
    Pp,
    /// Pairs of ranks divide the layers, and the pairs divide the batch
    #[value(name = "2d")]
    TwoD,
}

/// Train a GPT on the characters of Pride and Prejudice on several ranks. Start it with mpiexec or torshrun; without, it
/// runs on one rank.
#[derive(Parser, Debug)]
#[command(name = "distributed_comprehensive")]
struct Args {
    /// How the ranks divide the work
    #[arg(long, value_enum, default_value_t = Strategy::Ddp)]
    strategy: Strategy,
    /// Steps of training
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    steps: u32,
    /// The highest learning rate
    #[arg(long, default_value_t = 3e-3, value_parser = positive)]
    lr: f64,
    /// Where the random numbers start from
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Steps from one checkpoint to the next
    #[arg(long, value_name = "STEPS", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    save_every: u32,
    /// Go on from the checkpoint in the folder, also of another strategy or number of ranks. A program that was started
    /// again by torshrun does so by itself
    #[arg(long)]
    resume: bool,
    /// Rank 1 kills itself in this step, once: for a try of what torshrun does
    #[arg(long, value_name = "STEP")]
    die_at: Option<u32>,
    /// Do not train in one process as well, to compare
    #[arg(long)]
    no_comparison: bool,
    /// Where the checkpoint, the weights and the curves go
    #[arg(long, value_name = "DIR", default_value = "target/distributed")]
    out: PathBuf,
}

/// Pieces of text in a batch: 12, which 1, 2, 3, 4 and 6 ranks can divide.
const BATCH: usize = 12;
/// Characters that a prediction sees.
const CONTEXT: usize = 48;
/// Numbers per character.
const WIDTH: usize = 64;
/// Attention heads.
const HEADS: usize = 4;
/// Blocks.
const LAYERS: usize = 4;
/// Parts of a batch that flow through a pipeline.
const MICRO_BATCHES: usize = 4;

fn main() -> ExitCode {
    common::exit(run(&Args::parse()))
}

/// Characters and their places as vectors.
#[derive(Module)]
struct Embed {
    symbols: Embedding,
    places: Embedding,
    hooks: Hooks,
}

impl Module for Embed {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let places = arange(0, x.size(1)? as i64, 1);
            self.symbols.forward(x)?.add(self.places.forward(&places)?)
        })
    }
}

/// Attention and a network of two layers, each added to what comes in.
#[derive(Module)]
struct Block {
    norm1: LayerNorm,
    q: Linear,
    k: Linear,
    v: Linear,
    out: Linear,
    norm2: LayerNorm,
    up: Linear,
    down: Linear,
    hooks: Hooks,
}

impl Block {
    fn new() -> Result<Block> {
        Ok(Block {
            norm1: LayerNorm::new(WIDTH)?,
            q: Linear::new(WIDTH, WIDTH),
            k: Linear::new(WIDTH, WIDTH),
            v: Linear::new(WIDTH, WIDTH),
            out: Linear::new(WIDTH, WIDTH),
            norm2: LayerNorm::new(WIDTH)?,
            up: Linear::new(WIDTH, 4 * WIDTH),
            down: Linear::new(4 * WIDTH, WIDTH),
            hooks: Hooks::new(),
        })
    }
}

impl Module for Block {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let (n, length) = (x.size(0)?, x.size(1)?);
            let inner = self.norm1.forward(x)?;
            // As many heads as this rank has columns for.
            let heads = |layer: &Linear| {
                let y = layer.forward(&inner)?;
                y.reshape([n as i64, length as i64, -1, (WIDTH / HEADS) as i64])?
                    .transpose(1, 2)
            };
            let causal = F::ScaledDotProductAttentionOptions::default().is_causal(true);
            let (q, k, v) = (heads(&self.q)?, heads(&self.k)?, heads(&self.v)?);
            let y = F::scaled_dot_product_attention_with(&q, &k, &v, causal)?;
            let y = y.transpose(1, 2)?.reshape([n as i64, length as i64, -1])?;
            let x = x.add(self.out.forward(&y)?)?;
            let inner = F::gelu(self.up.forward(&self.norm2.forward(&x)?)?)?;
            x.add(self.down.forward(&inner)?)
        })
    }
}

/// Scores of the next character.
#[derive(Module)]
struct Head {
    norm: LayerNorm,
    scores: Linear,
    hooks: Hooks,
}

impl Module for Head {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks
            .run(self, x, |x| self.scores.forward(&self.norm.forward(x)?))
    }
}

/// The model, the same on all ranks: each part is changed by `part` before it is put in.
fn gpt(
    args: &Args,
    symbols: usize,
    mut part: impl FnMut(&mut Block) -> Result<()>,
) -> Result<Sequential> {
    manual_seed(args.seed);
    let mut net = Sequential::new().add(Embed {
        symbols: Embedding::new(symbols, WIDTH)?,
        places: Embedding::new(CONTEXT, WIDTH)?,
        hooks: Hooks::new(),
    });
    let blocks = (0..LAYERS)
        .map(|_| Block::new())
        .collect::<Result<Vec<_>>>()?;
    let head = Head {
        norm: LayerNorm::new(WIDTH)?,
        scores: Linear::new(WIDTH, symbols),
        hooks: Hooks::new(),
    };
    for mut block in blocks {
        part(&mut block)?;
        net = net.add(block);
    }
    Ok(net.add(head))
}

/// The loss of scores `[n, length, symbols]` for the characters `[n, length]`.
fn loss(scores: &Tensor, next: &Tensor) -> Result<Tensor> {
    F::cross_entropy(&scores.flatten_dims(0, 1)?, &next.reshape([-1])?)
}

/// What each character is followed by: `[n, length]` of both.
struct Batch {
    seen: Tensor,
    next: Tensor,
}

/// The novel as numbers.
struct Text {
    symbols: usize,
    numbers: Tensor,
}

impl Text {
    fn read() -> Result<Text> {
        let text = novel::text()?;
        let mut symbols: Vec<char> = text.chars().collect();
        symbols.sort_unstable();
        symbols.dedup();
        let number = |c: char| symbols.binary_search(&c).map_or(0, |i| i as i64);
        let numbers: Vec<i64> = text.chars().map(number).collect();
        Ok(Text {
            symbols: symbols.len(),
            numbers: Tensor::from_data(&numbers, [numbers.len()])?,
        })
    }

    /// The batch of a step: it depends on the step and the seed alone.
    fn batch(&self, args: &Args, step: usize) -> Result<Batch> {
        manual_seed(args.seed.wrapping_mul(1_000_003).wrapping_add(step as u64));
        let starts = randint(0, (self.numbers.numel() - CONTEXT) as i64, &[BATCH, 1]);
        let text = self
            .numbers
            .i(&starts.add(&arange(0, CONTEXT as i64 + 1, 1))?)?;
        Ok(Batch {
            seen: text.narrow(1, 0, CONTEXT)?,
            next: text.narrow(1, 1, CONTEXT)?,
        })
    }
}

/// A model in training, divided over ranks.
struct Training {
    model: Divided,
    optimizer: AdamW,
    schedule: WarmupCosine,
    /// The ranks that have different parts of a batch.
    data: ProcessGroup,
    world: ProcessGroup,
}

enum Divided {
    Replicated(DistributedDataParallel<Sequential>),
    Sharded(Sequential),
    Tensor(DistributedDataParallel<Sequential>, TensorParallel),
    Pipeline(Schedule),
}

impl Training {
    fn new(args: &Args, text: &Text, world: &ProcessGroup) -> Result<Training> {
        let n = world.size();
        let whole = |_: &mut Block| Ok(());
        let mut data = world.clone();
        let model = match args.strategy {
            Strategy::Ddp => {
                let net = gpt(args, text.symbols, whole)?;
                Divided::Replicated(DistributedDataParallel::new(net, ())?)
            }
            Strategy::Fsdp => {
                let mesh = DeviceMesh::new(&[n], &["dp"])?;
                let shard = |block: &mut Block| {
                    fully_shard(block, &mesh, FullyShardOptions::default()).map(drop)
                };
                let mut net = gpt(args, text.symbols, shard)?;
                fully_shard(&mut net, &mesh, FullyShardOptions::default())?;
                Divided::Sharded(net)
            }
            Strategy::Tp | Strategy::TwoD => {
                let each = match args.strategy {
                    Strategy::TwoD if n.is_multiple_of(2) => 2,
                    Strategy::TwoD => 1,
                    _ => n,
                };
                let mesh = DeviceMesh::new(&[n / each, each], &["dp", "tp"])?;
                let mut net = gpt(args, text.symbols, whole)?;
                let cuts = plan![
                    ("*.q", ColumnParallel),
                    ("*.k", ColumnParallel),
                    ("*.v", ColumnParallel),
                    ("*.out", RowParallel),
                    ("*.up", ColumnParallel),
                    ("*.down", RowParallel),
                ];
                let cuts = parallelize_module(&mut net, &mesh["tp"], &cuts)?;
                data = mesh.group("dp")?;
                let net = DistributedDataParallel::builder(net)
                    .process_group(&data)
                    .build()?;
                Divided::Tensor(net, cuts)
            }
            Strategy::Pp => {
                let stages = split_into_stages(gpt(args, text.symbols, whole)?, n)?;
                let own = stages.into_iter().nth(world.rank());
                let own = own.ok_or_else(|| TorshError::Other("there is no stage".into()))?;
                let stage = PipelineStage::new(own, world.rank(), n)?;
                Divided::Pipeline(Schedule::one_f_one_b(stage, MICRO_BATCHES))
            }
        };
        let parameters = match &model {
            Divided::Replicated(net) | Divided::Tensor(net, _) => net.parameters(),
            Divided::Sharded(net) => net.parameters(),
            Divided::Pipeline(schedule) => schedule.stages()[0].module().parameters(),
        };
        let optimizer = AdamW::new(parameters, args.lr)?;
        let steps = args.steps as usize;
        let schedule = WarmupCosine::new(&optimizer, steps / 20, steps, args.lr / 10.0)?;
        Ok(Training {
            model,
            optimizer,
            schedule,
            data,
            world: world.clone(),
        })
    }

    /// A step; the mean loss of the whole batch, the same on all ranks.
    fn step(&self, batch: &Batch) -> Result<f64> {
        self.optimizer.zero_grad();
        let (rank, ranks) = (self.data.rank(), self.data.size());
        let part = |t: &Tensor| t.narrow(0, rank * (BATCH / ranks), BATCH / ranks);
        let own = |net: &dyn Module| {
            let loss = loss(&net.forward(&part(&batch.seen)?)?, &part(&batch.next)?)?;
            loss.backward()?;
            Ok::<_, TorshError>(loss.detach())
        };
        let mean = match &self.model {
            Divided::Replicated(net) | Divided::Tensor(net, _) => own(net)?,
            Divided::Sharded(net) => own(net)?,
            Divided::Pipeline(schedule) => {
                let last = schedule.step(&batch.seen, &batch.next, loss)?;
                let last = match last {
                    Some(loss) => loss.detach().to_dtype(DType::F32)?,
                    None => zeros(()),
                };
                // The last stage has it.
                self.world.broadcast_(&last, self.world.size() - 1)?
            }
        };
        self.optimizer.step()?;
        self.schedule.step()?;
        if !matches!(self.model, Divided::Pipeline(_)) {
            self.data.all_reduce_(&mean, ReduceOp::Avg)?;
        }
        mean.item::<f64>()
    }

    fn state(&self) -> State<'_> {
        let state = match &self.model {
            Divided::Replicated(net) => State::new().model(net.module()),
            Divided::Sharded(net) => State::new().model(net),
            Divided::Tensor(net, cuts) => State::new()
                .model(net.module())
                .tensor_parallel(net.module(), cuts),
            Divided::Pipeline(schedule) => State::new().model(schedule.stages()[0].module()),
        };
        state.optimizer(&self.optimizer).scheduler(&self.schedule)
    }

    /// Saves the run with the losses of its steps.
    fn save(&self, dir: &Path, losses: &[f64], steps: u32) -> Result<()> {
        let state = self.state().value("losses", losses).value("steps", steps);
        checkpoint::save_in(&self.world, dir, &state)
    }

    /// Goes on from a checkpoint, with the losses of the steps before it.
    fn load(&self, dir: &Path, steps: u32) -> Result<Vec<f64>> {
        let loaded = checkpoint::load_in(&self.world, dir, &self.state())?;
        // The learning rate of each step depends on how many there are.
        let saved = loaded.value("steps").and_then(|v| v.as_u64());
        if saved != Some(steps.into()) {
            let saved = saved.unwrap_or(0);
            return Err(at(
                dir,
                &format!("the run has {saved} steps: give --steps {saved}"),
            ));
        }
        let losses = loaded.value("losses").and_then(|v| v.as_array());
        let losses = losses.map(|all| all.iter().filter_map(|v| v.as_f64()).collect());
        losses.ok_or_else(|| at(dir, "the checkpoint has no losses"))
    }
}

/// The losses of the same steps in one process.
fn alone(args: &Args, text: &Text) -> Result<Vec<f64>> {
    let net = gpt(args, text.symbols, |_| Ok(()))?;
    let optimizer = AdamW::new(net.parameters(), args.lr)?;
    let steps = args.steps as usize;
    let schedule = WarmupCosine::new(&optimizer, steps / 20, steps, args.lr / 10.0)?;
    (0..steps)
        .map(|step| {
            let batch = text.batch(args, step)?;
            optimizer.zero_grad();
            let loss = loss(&net.forward(&batch.seen)?, &batch.next)?;
            loss.backward()?;
            optimizer.step()?;
            schedule.step()?;
            loss.item::<f64>()
        })
        .collect()
}

/// A number that other weights hardly have (FNV-1a).
fn fingerprint(weights: &StateDict) -> Result<u64> {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for name in weights.keys() {
        for byte in weights[name].to_bytes()? {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    Ok(hash)
}

/// Ends this process as the system does where memory runs out.
fn die() {
    let line = format!("kill -s KILL {}", std::process::id());
    let _ = Command::new("/bin/sh").args(["-c", &line]).status();
    // A system without a shell.
    std::process::abort();
}

fn run(args: &Args) -> Result<()> {
    dist::init_from_env()?;
    let world = dist::world()?;
    let result = train(args, &world);
    result?;
    dist::destroy()
}

fn train(args: &Args, world: &ProcessGroup) -> Result<()> {
    let start = Instant::now();
    let first = world.rank() == 0;
    let (n, steps) = (world.size(), args.steps as usize);
    if !BATCH.is_multiple_of(n) {
        return Err(TorshError::Other(format!(
            "{n} ranks do not divide a batch of {BATCH}: start 1, 2, 3, 4 or 6"
        )));
    }
    if first {
        std::fs::create_dir_all(&args.out).map_err(|e| at(&args.out, e))?;
    }
    let text = Text::read()?;
    let training = Training::new(args, &text, world)?;
    let dir = args.out.join("checkpoint");
    let again = dist::launch::restart_count() > 0;
    let mut losses = Vec::new();
    if args.resume || (again && checkpoint::exists(&dir)) {
        losses = training.load(&dir, args.steps)?;
        if first {
            println!("goes on after step {} of {}", losses.len(), dir.display());
        }
    }
    let every = steps.div_ceil(10);
    for step in losses.len()..steps {
        if args.die_at == Some(step as u32) && !again && world.rank() == 1.min(n - 1) {
            println!("rank {} kills itself in step {step}", world.rank());
            die();
        }
        losses.push(training.step(&text.batch(args, step)?)?);
        let done = step + 1;
        if first && (done % every == 0 || done == steps) {
            println!("step {done:4}: loss {:.4}", losses[step]);
        }
        if done % args.save_every as usize == 0 || done == steps {
            training.save(&dir, &losses, args.steps)?;
        }
    }
    if !first {
        // Rank 0 writes and compares.
        return world.barrier();
    }
    let weights = checkpoint::read_state_dict(&dir)?;
    println!(
        "{:?} on {n} ranks: loss {:.4} after {steps} steps and {:.1} s, weights {:016x}",
        args.strategy,
        losses.last().copied().unwrap_or(f64::NAN),
        start.elapsed().as_secs_f64(),
        fingerprint(&weights)?
    );
    let mut panel = Panel::new("Loss per character").x_label("step");
    let points = |all: &[f64]| {
        all.iter()
            .enumerate()
            .map(|(i, &l)| (i as f64 + 1.0, l))
            .collect::<Vec<_>>()
    };
    panel = panel.series(Series::new(
        format!("{:?}, {n} ranks", args.strategy),
        points(&losses),
    ));
    if !args.no_comparison {
        let single = alone(args, &text)?;
        let differences = losses.iter().zip(&single).map(|(a, b)| (a - b).abs());
        let most = differences.fold(0.0, f64::max);
        println!(
            "one process: loss {:.4}; the losses of a step differ by at most {most:.1e}",
            single.last().copied().unwrap_or(f64::NAN)
        );
        panel = panel.series(Series::new("one process", points(&single)));
        if most > 0.05 {
            return Err(TorshError::Other(format!(
                "the run does not follow that of one process: {most} apart"
            )));
        }
    }
    let curves = args.out.join("curves.png");
    Plot::new().panel(panel).size(900, 520).save(&curves)?;
    println!("wrote {} and {}", dir.display(), curves.display());
    world.barrier()
}
