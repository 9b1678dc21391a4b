//! Plans training on ranks that are not here, and measures those that are.
//!
//! ```text
//! torsh-plan --ranks 4096 gpt-7b                         the best mesh of the default cluster
//! torsh-plan --ranks 64 --cluster measured.json gpt-125m on machines that were measured
//! torsh-plan --ranks 16 --mesh dp=4,tp=4 gpt-1.3b        one mesh
//! mpiexec -n 2 torsh-plan measure --out measured.json    what the machines do
//! ```

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, ValueEnum};
use torsh_distributed::plan::{
    Cluster, Measurement, ModelPlan, Outcome, Parallelism, Reduction, Schedule, Search,
    StepOptions, chrome_trace, measure, search, simulate,
};
use torsh_tensor::{Result, TorshError};

/// Plans training on ranks that are not here: time, memory, the best mesh.
#[derive(Debug, Parser)]
#[command(name = "torsh-plan", version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    plan: Plan,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Times collectives and compute of the ranks that the launcher started
    Measure {
        /// Where the description is written; standard output unless given
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
        /// Seconds for each figure, of which there are about a hundred
        #[arg(long, value_name = "SECONDS", default_value_t = 0.2)]
        budget: f64,
        /// Ranks as threads of this process, without a launcher
        #[arg(long, value_name = "N")]
        threads: Option<usize>,
    },
}

#[derive(Debug, Args)]
struct Plan {
    /// The model: gpt-125m, gpt-1.3b, gpt-7b or gpt-70b
    #[arg(value_name = "MODEL")]
    name: Option<String>,
    /// The same
    #[arg(long, value_name = "MODEL", conflicts_with = "name")]
    model: Option<String>,
    /// A model of layers from a JSON file, or what `measure` wrote
    #[arg(long, value_name = "FILE", conflicts_with_all = ["name", "model"])]
    model_file: Option<PathBuf>,
    /// How many ranks there are
    #[arg(long, value_name = "N", default_value_t = 8)]
    ranks: usize,
    /// A description of the machines in JSON, or what `measure` wrote
    #[arg(long, value_name = "FILE")]
    cluster: Option<PathBuf>,
    /// Prints the default description and ends
    #[arg(long)]
    show_cluster: bool,
    /// One mesh instead of the best: dp=4,shard=8,tp=2,pp=2
    #[arg(long, value_name = "MESH")]
    mesh: Option<Parallelism>,
    /// Samples of a step on all ranks together; one for each rank unless given
    #[arg(long, value_name = "N")]
    batch: Option<usize>,
    /// Samples that a rank computes at once; the search tries some
    #[arg(long, value_name = "N")]
    micro_batch: Option<usize>,
    /// The pipeline's schedule, with --mesh
    #[arg(long, value_enum, default_value = "1f1b")]
    schedule: ScheduleName,
    /// Parts of the model on each stage, with --schedule interleaved
    #[arg(long, value_name = "N", default_value_t = 2)]
    parts: usize,
    /// Who reduces; what costs less unless given
    #[arg(long, value_enum)]
    reduce: Option<ReduceName>,
    /// Compute and gather in bfloat16
    #[arg(long)]
    mixed: bool,
    /// Compute activations again in the backward pass, with --mesh
    #[arg(long)]
    recompute: bool,
    /// Keep gathered layers between forward and backward pass, with --mesh
    #[arg(long)]
    keep_gathered: bool,
    /// Send gradients after the backward pass, not while it goes on
    #[arg(long)]
    no_overlap: bool,
    /// How many steps with slow ranks are drawn
    #[arg(long, value_name = "N", default_value_t = 3)]
    steps: usize,
    /// The seed of the slow ranks
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// How many meshes are printed
    #[arg(long, value_name = "N", default_value_t = 8)]
    top: usize,
    /// Writes the best step as a Chrome trace
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// How many ranks the trace shows
    #[arg(long, value_name = "N", default_value_t = 16)]
    trace_ranks: usize,
    /// Prints JSON lines
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ScheduleName {
    Gpipe,
    #[value(name = "1f1b")]
    OneFOneB,
    Interleaved,
    ZeroBubble,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ReduceName {
    Ordered,
    Engine,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match cli.command {
        Some(Command::Measure {
            out,
            budget,
            threads,
        }) => run_measure(out.as_deref(), budget, threads),
        None => run_plan(&cli.plan).map(|text| print!("{text}")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("torsh-plan: {e}");
            ExitCode::FAILURE
        }
    }
}

fn read(path: &Path) -> Result<String> {
    let text = std::fs::read_to_string(path)
        .map_err(|e| TorshError::invalid("torsh-plan", format!("{}: {e}", path.display())))?;
    // Editors of Windows mark a text.
    Ok(text.strip_prefix('\u{feff}').unwrap_or(&text).to_string())
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text)
        .map_err(|e| TorshError::invalid("torsh-plan", format!("{}: {e}", path.display())))
}

/// The text of a description, or of its part `key` where `measure` wrote the file.
fn part(text: String, key: &str) -> String {
    let parsed: Option<serde_json::Value> = serde_json::from_str(&text).ok();
    match parsed.as_ref().and_then(|v| v.get(key)) {
        Some(v) if v.is_object() => v.to_string(),
        _ => text,
    }
}

fn run_measure(out: Option<&Path>, budget: f64, threads: Option<usize>) -> Result<()> {
    // One thread for each rank, as the benchmarks and training on shared nodes have.
    torsh_core::pool::set_num_threads(1)
        .map_err(|e| TorshError::invalid("torsh-plan", e.to_string()))?;
    let (rank, found) = match threads {
        Some(n) => {
            let mut all = torsh_distributed::spawn(n, |g| measure(&g, budget))?;
            (0, all.swap_remove(0))
        }
        None => {
            torsh_distributed::init_from_env()?;
            let group = torsh_distributed::world()?;
            let found = measure(&group, budget)?;
            torsh_distributed::destroy()?;
            (group.rank(), found)
        }
    };
    if rank > 0 {
        return Ok(());
    }
    let text = serde_json::to_string_pretty(&found)
        .map_err(|e| TorshError::invalid("torsh-plan", e.to_string()))?;
    match out {
        Some(path) => {
            write(path, &(text + "\n"))?;
            print!("{}", measured(&found));
        }
        None => println!("{text}"),
    }
    Ok(())
}

/// What was measured, in lines.
fn measured(found: &Measurement) -> String {
    let c = &found.cluster;
    let mut text = format!(
        "{}: {:.1} GFLOP/s, memory {:.1} GB/s, {:.0} % of a reduction's time is lost to compute\n",
        c.name,
        c.flops / 1e9,
        c.memory_bandwidth / 1e9,
        100.0 * c.shared_cores
    );
    for m in &c.measured {
        text += &format!(
            "{:16} {:8} alpha {:10.2} us, beta {:8.3} ns/KiB ({:.2} GB/s)\n",
            m.collective.name(),
            match m.reduction {
                Reduction::Ordered => "",
                Reduction::Engine => "engine",
            },
            m.alpha * 1e6,
            m.beta * 1024.0 * 1e9,
            1e-9 / m.beta.max(1e-15)
        );
    }
    for check in &found.checks {
        let (exposed, predicted) = Measurement::exposed(check);
        text += &format!(
            "step of {}: alone {:.2} ms, {} {:.2} ms, simulated {:.2} ms; beyond the step alone {:.2} and {:.2} ms\n",
            found.model.name,
            check.alone * 1e3,
            check.what,
            check.measured * 1e3,
            check.predicted * 1e3,
            exposed * 1e3,
            predicted * 1e3
        );
    }
    text
}

/// One line of the table.
fn row(step: &Outcome, options: &StepOptions) -> String {
    let gb = |bytes: f64| bytes / 1e9;
    let percent = |x: f64| 100.0 * x / step.seconds;
    let how = [
        format!("micro-batch {}", options.micro_batch),
        match (step.mesh.pipeline, options.schedule) {
            (1, _) => String::new(),
            (_, Schedule::GPipe) => "GPipe".into(),
            (_, Schedule::OneFOneB) => "1F1B".into(),
            (_, Schedule::Interleaved) => format!("interleaved {}", options.parts),
            (_, Schedule::ZeroBubble) => "zero-bubble".into(),
        },
        match options.reduction {
            Reduction::Ordered => String::new(),
            Reduction::Engine => "ReduceMode::Engine".into(),
        },
        if options.recompute {
            "recompute".into()
        } else {
            String::new()
        },
        match options.reshard_after_forward || step.mesh.shard == 1 {
            true => String::new(),
            false => "kept gathered".into(),
        },
    ];
    let how: Vec<_> = how.into_iter().filter(|h| !h.is_empty()).collect();
    format!(
        "{:32} {:>10.2} ms {:>6.1} % {:>7.1} % {:>7.1} % {:>7.1} GB {:>12.0}  {}\n",
        step.mesh.to_string(),
        step.seconds * 1e3,
        100.0 * step.efficiency,
        percent(step.exposed),
        percent(step.waiting),
        gb(step.memory.total()),
        step.throughput,
        how.join(", ")
    )
}

/// Where the engine's reductions pay, by the model's costs.
fn advice(wanted: &Search, cluster: &Cluster, mesh: Parallelism) -> String {
    let Some((ordered, engine)) = wanted.reductions(cluster, mesh) else {
        return String::new();
    };
    let mut text = format!(
        "{:.0} MB of gradients over {} ranks: {:.2} ms in rank order, {:.2} ms by the engine\n",
        wanted.options.bucket_bytes as f64 / 1e6,
        mesh.batches(),
        ordered * 1e3,
        engine * 1e3
    );
    if wanted.cheaper(cluster, mesh) == Reduction::Engine {
        text += "advice: group.set_reduce_mode(ReduceMode::Engine). Past a few dozen ranks a message to every rank costs more than the engine's trees; sums are then no longer bit-equal between runs and engines.\n";
    }
    text
}

fn run_plan(args: &Plan) -> Result<String> {
    let cluster = match &args.cluster {
        Some(path) => Cluster::from_json(&part(read(path)?, "cluster"))?,
        None => Cluster::default(),
    };
    if args.show_cluster {
        return serde_json::to_string_pretty(&cluster)
            .map(|t| t + "\n")
            .map_err(|e| TorshError::invalid("torsh-plan", e.to_string()));
    }
    let model = match (&args.model_file, args.name.as_ref().or(args.model.as_ref())) {
        (Some(path), _) => ModelPlan::from_json(&part(read(path)?, "model"))?,
        (None, Some(name)) => ModelPlan::named(name)?,
        (None, None) => {
            let text = format!(
                "name a model ({}) or --model-file",
                ModelPlan::NAMES.join(", ")
            );
            return Err(TorshError::invalid("torsh-plan", text));
        }
    };
    let ranks = args.mesh.map_or(args.ranks, |m| m.ranks());
    let reduction = args.reduce.map(|r| match r {
        ReduceName::Ordered => Reduction::Ordered,
        ReduceName::Engine => Reduction::Engine,
    });
    let mut wanted = Search::new(ranks, args.batch.unwrap_or(ranks));
    wanted.reduction = reduction;
    wanted.options.overlap = !args.no_overlap;
    wanted.options.compute_bytes = if args.mixed { 2 } else { 4 };
    wanted.options.steps = args.steps;
    wanted.options.seed = args.seed;
    wanted.micro_batches = args.micro_batch.map_or(wanted.micro_batches, |m| vec![m]);
    let found = match args.mesh {
        Some(mesh) => {
            let (schedule, parts) = match args.schedule {
                ScheduleName::Gpipe => (Schedule::GPipe, 1),
                ScheduleName::OneFOneB => (Schedule::OneFOneB, 1),
                ScheduleName::Interleaved => (Schedule::Interleaved, args.parts),
                ScheduleName::ZeroBubble => (Schedule::ZeroBubble, 1),
            };
            let options = StepOptions {
                micro_batch: args.micro_batch.unwrap_or(1),
                schedule,
                parts,
                reduction: reduction.unwrap_or_else(|| wanted.cheaper(&cluster, mesh)),
                recompute: args.recompute,
                reshard_after_forward: !args.keep_gathered,
                ..wanted.options.clone()
            };
            vec![(mesh, options)]
        }
        None => search(&model, &cluster, &wanted)?
            .into_iter()
            .take(args.top.max(1))
            .map(|c| (c.outcome.mesh, c.options))
            .collect(),
    };
    // The search compares steps without slow ranks; what is printed has them.
    let mut steps = Vec::new();
    for (mesh, options) in found {
        steps.push((simulate(&model, &cluster, mesh, &options)?, options));
    }
    if args.mesh.is_none() {
        steps.sort_by(|a, b| a.0.seconds.total_cmp(&b.0.seconds));
    }
    let Some((best, options)) = steps.first() else {
        return Err(TorshError::invalid("torsh-plan", "no mesh was found"));
    };
    if let Some(path) = &args.trace {
        let trace = chrome_trace(&model, &cluster, best.mesh, options, args.trace_ranks)?;
        write(path, &trace)?;
    }
    if args.json {
        let lines = steps.iter().map(|(s, _)| serde_json::to_string(s));
        let lines: Vec<String> = lines
            .collect::<std::result::Result<_, _>>()
            .map_err(|e| TorshError::invalid("torsh-plan", e.to_string()))?;
        return Ok(lines.join("\n") + "\n");
    }
    let mut text = format!(
        "{}: {:.2} billion parameters, {} layers, batch {} of {} tokens, {} ranks\ncluster: {}\n",
        model.name,
        model.parameters() as f64 / 1e9,
        model.layers.len(),
        wanted.options.batch,
        model.tokens,
        ranks,
        cluster.name
    );
    text += &format!(
        "{:32} {:>13} {:>8} {:>9} {:>9} {:>10} {:>12}\n",
        "mesh", "step", "effic.", "exposed", "waiting", "memory", "tokens/s"
    );
    for (step, options) in &steps {
        text += &row(step, options);
    }
    let m = best.memory;
    text += &format!(
        "best: {}; slowest of {} steps {:.2} ms, undisturbed {:.2} ms\nmemory of a rank: parameters {:.2} GB, gradients {:.2}, optimizer states {:.2}, gathered layers {:.2}, activations {:.2}\n",
        best.mesh,
        args.steps.max(1),
        best.slowest * 1e3,
        best.undisturbed * 1e3,
        m.parameters / 1e9,
        m.gradients / 1e9,
        m.states / 1e9,
        m.gathered / 1e9,
        m.activations / 1e9
    );
    text += &advice(&wanted, &cluster, best.mesh);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(args: &[&str]) -> Result<String> {
        let all = [&["torsh-plan"], args].concat();
        let cli =
            Cli::try_parse_from(all).map_err(|e| TorshError::invalid("test", e.to_string()))?;
        run_plan(&cli.plan)
    }

    #[test]
    fn arguments() {
        let parse = |args: &[&str]| Cli::try_parse_from([&["torsh-plan"], args].concat());
        let cli = parse(&["--ranks", "4096", "gpt-7b"]).unwrap();
        assert_eq!(
            (cli.plan.ranks, cli.plan.name.as_deref()),
            (4096, Some("gpt-7b"))
        );
        assert!(
            parse(&["measure", "--out", "x.json"])
                .unwrap()
                .command
                .is_some()
        );
        assert!(parse(&["--mesh", "dp=0", "gpt-7b"]).is_err());
        assert!(parse(&["--model", "gpt-7b", "gpt-7b"]).is_err());
    }

    #[test]
    fn one_mesh_and_its_advice() -> Result<()> {
        let path = std::env::temp_dir().join(format!("torsh-plan-trace-{}", std::process::id()));
        let file = path.display().to_string();
        let text = output(&[
            "--mesh", "dp=128", "--steps", "1", "--trace", &file, "gpt-125m",
        ])?;
        let trace = read(&path)?;
        std::fs::remove_file(&path).map_err(|e| TorshError::invalid("test", e.to_string()))?;
        assert!(
            text.contains("dp=128,shard=1,tp=1,pp=1") && text.contains("128 ranks"),
            "{text}"
        );
        assert!(text.contains("ReduceMode::Engine"), "{text}");
        assert!(trace.contains("traceEvents"));
        let line = output(&["--mesh", "dp=2,pp=2", "--json", "--batch", "8", "gpt-125m"])?;
        let v: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(v["mesh"]["pipeline"], 2);
        Ok(())
    }

    #[test]
    fn what_is_missing_is_said() {
        assert!(
            output(&[])
                .unwrap_err()
                .to_string()
                .contains("name a model")
        );
        let error = output(&["--cluster", "/no/such/file", "gpt-7b"]).unwrap_err();
        assert!(error.to_string().contains("/no/such/file"));
    }

    #[test]
    fn the_default_description_is_read_again() -> Result<()> {
        let text = output(&["--show-cluster"])?;
        assert_eq!(Cluster::from_json(&text)?, Cluster::default());
        Ok(())
    }
}
