use super::*;
use crate::build::stages;
use crate::gpt::Layer;
use crate::model::{Level, Link, Reduction, Stragglers};
use crate::schedule::Schedule;

/// One level of free messages at 1 MB/s; sums and the optimizer cost nothing.
fn cluster() -> Cluster {
    let link = Link {
        latency: 0.0,
        gap: 0.0,
        bandwidth: 1e6,
    };
    Cluster {
        name: "test".into(),
        levels: vec![Level {
            name: "all".into(),
            ranks: 64,
            link,
        }],
        memory_bandwidth: f64::MAX,
        stragglers: Stragglers::NONE,
        ..Cluster::default()
    }
}

/// Layers of a megabyte, a second forward and two backward.
fn model(layers: usize) -> ModelPlan {
    let layer = Layer {
        count: 1,
        shapes: vec![vec![250_000]],
        forward_seconds: Some(1.0),
        backward_seconds: Some(2.0),
        ..Layer::default()
    };
    ModelPlan {
        name: "test".into(),
        layers: vec![layer; layers],
        tokens: 1,
        states: 0,
        heads: 2,
        optimizer_seconds: None,
    }
}

fn close(a: f64, b: f64) {
    assert!((a - b).abs() < 1e-9 * b.abs().max(1.0), "{a} {b}");
}

#[test]
fn replicas_with_overlap_and_without() -> Result<()> {
    // An all-reduce of a megabyte on two ranks: half a second out, half back.
    let options = StepOptions {
        batch: 2,
        first_bucket_bytes: 1_000_000,
        bucket_bytes: 1_000_000,
        ..StepOptions::default()
    };
    let run = |o: &StepOptions| simulate(&model(2), &cluster(), Parallelism::data(2), o);
    let with = run(&options)?;
    close(with.seconds, 7.0);
    close(with.exposed, 1.0);
    close(with.compute, 6.0);
    close(with.efficiency, 6.0 / 7.0);
    close(with.throughput, 2.0 / 7.0);
    let later = StepOptions {
        overlap: false,
        ..options.clone()
    };
    let without = run(&later)?;
    close(without.seconds, 8.0);
    close(without.exposed, 2.0);
    // One bucket of two megabytes is sent at the end.
    let large = StepOptions {
        first_bucket_bytes: 1 << 20,
        bucket_bytes: 25 << 20,
        ..options.clone()
    };
    close(run(&large)?.seconds, 8.0);
    // Micro-batches send once.
    let four = StepOptions {
        batch: 8,
        ..options
    };
    close(run(&four)?.seconds, 4.0 * 6.0 + 1.0);
    Ok(())
}

#[test]
fn buckets_end_within_layers() -> Result<()> {
    let mut model = model(1);
    model.layers[0].shapes = vec![vec![100_000], vec![150_000]];
    let options = StepOptions {
        batch: 2,
        first_bucket_bytes: 600_000,
        bucket_bytes: 400_000,
        ..StepOptions::default()
    };
    // The last parameter's gradient is there after 60 % of the two seconds and takes 0.6 s, of which all is hidden.
    let step = simulate(&model, &cluster(), Parallelism::data(2), &options)?;
    close(step.seconds, 3.0 + 0.4);
    Ok(())
}

#[test]
fn pieces_are_gathered_ahead() -> Result<()> {
    let options = StepOptions {
        batch: 2,
        ..StepOptions::default()
    };
    let mesh = Parallelism {
        shard: 2,
        ..Parallelism::data(1)
    };
    let step = simulate(&model(2), &cluster(), mesh, &options)?;
    // The first gather and the last reduce-scatter are seen, half a second each.
    close(step.seconds, 7.0);
    close(step.exposed, 1.0);
    let late = StepOptions {
        prefetch: 0,
        ..options
    };
    // Now every gather is.
    close(
        simulate(&model(2), &cluster(), mesh, &late)?.seconds,
        6.0 + 6.0 * 0.5,
    );
    Ok(())
}

#[test]
fn matrices_shared_by_two() -> Result<()> {
    let mut model = model(1);
    model.layers[0].output = 250_000.0;
    model.layers[0].reductions = 1;
    model.layers[0].backward_reductions = 1;
    let mesh = Parallelism {
        tensor: 2,
        ..Parallelism::data(1)
    };
    let step = simulate(&model, &cluster(), mesh, &StepOptions::default())?;
    close(step.seconds, 0.5 + 1.0 + 1.0 + 1.0);
    close(step.exposed, 2.0);
    Ok(())
}

#[test]
fn bubbles_of_pipelines() -> Result<()> {
    let bubble = |schedule, p: usize, m: usize, parts: usize| {
        let mesh = Parallelism {
            pipeline: p,
            ..Parallelism::data(1)
        };
        let options = StepOptions {
            batch: m,
            schedule,
            parts,
            ..StepOptions::default()
        };
        simulate(&model(p * parts), &cluster(), mesh, &options)
            .map(|s| (s.seconds, s.waiting / s.seconds))
    };
    for (p, m) in [(1, 4), (2, 2), (2, 8), (4, 4), (4, 16), (8, 32)] {
        let expected = (p - 1) as f64 / (m + p - 1) as f64;
        for schedule in [Schedule::GPipe, Schedule::OneFOneB] {
            let (seconds, share) = bubble(schedule, p, m, 1)?;
            close(seconds, 3.0 * (m + p - 1) as f64);
            close(share, expected);
        }
        if p > 1 {
            // Parts of the model divide the bubble.
            let (_, share) = bubble(Schedule::Interleaved, p, m, 2)?;
            close(share, (p - 1) as f64 / (2 * m + p - 1) as f64);
        }
        // All three passes take a second: a third of the bubble is left.
        let (seconds, _) = bubble(Schedule::ZeroBubble, p, m, 1)?;
        close(seconds, (3 * m + p - 1) as f64);
    }
    Ok(())
}

#[test]
fn messages_between_stages_are_paid() -> Result<()> {
    let mut model = model(2);
    model.layers[0].output = 25_000.0;
    let mesh = Parallelism {
        pipeline: 2,
        ..Parallelism::data(1)
    };
    let step = simulate(&model, &cluster(), mesh, &StepOptions::default())?;
    // A tenth of a second there, a tenth back.
    close(step.seconds, 6.2);
    Ok(())
}

#[test]
fn replicas_of_pieces() -> Result<()> {
    let options = StepOptions {
        batch: 4,
        ..StepOptions::default()
    };
    let mesh = Parallelism {
        shard: 2,
        ..Parallelism::data(2)
    };
    // Both layers' gradients go to all four ranks at 4.5 and 6.5 s, in 0.75 s. Their shares are gathered, in 0.25 s, when the
    // next layer's backward pass ends or at the end: behind the second scatter.
    let step = simulate(&model(2), &cluster(), mesh, &options)?;
    close(step.seconds, 6.5 + 0.75 + 2.0 * 0.25);
    // The engine scatters within two ranks, and adds halves of both replicas.
    let engine = StepOptions {
        reduction: Reduction::Engine,
        ..options
    };
    close(
        simulate(&model(2), &cluster(), mesh, &engine)?.seconds,
        6.5 + 0.5 + 2.0 * 0.5,
    );
    Ok(())
}

#[test]
fn slow_ranks_hold_up_all() -> Result<()> {
    let mut cluster = cluster();
    cluster.stragglers = Stragglers {
        deviation: 0.0,
        chance: 1.0,
        slowdown: 2.0,
    };
    let options = StepOptions {
        batch: 2,
        overlap: false,
        ..StepOptions::default()
    };
    let run = |c: &Cluster, o: &StepOptions| simulate(&model(2), c, Parallelism::data(2), o);
    let step = run(&cluster, &options)?;
    close(step.seconds, 12.0 + 2.0);
    close(step.undisturbed, 8.0);
    cluster.stragglers = Stragglers {
        deviation: 0.1,
        chance: 0.0,
        slowdown: 1.0,
    };
    let one = run(&cluster, &options)?;
    assert_eq!(one, run(&cluster, &options)?);
    let other = StepOptions { seed: 1, ..options };
    assert_ne!(one.seconds, run(&cluster, &other)?.seconds);
    assert!(one.seconds > 8.0 && one.waiting > 0.0);
    Ok(())
}

#[test]
fn shared_cores_slow_the_backward_pass() -> Result<()> {
    let mut cluster = cluster();
    cluster.shared_cores = 0.5;
    let options = StepOptions {
        batch: 2,
        first_bucket_bytes: 1_000_000,
        bucket_bytes: 1_000_000,
        ..StepOptions::default()
    };
    // Half of the first all-reduce's second is lost to the second layer's backward pass.
    let step = simulate(&model(2), &cluster, Parallelism::data(2), &options)?;
    close(step.seconds, 7.5);
    Ok(())
}

#[test]
fn thousands_of_ranks() -> Result<()> {
    let model = ModelPlan::named("gpt-125m")?;
    let mesh = Parallelism {
        replicate: 512,
        shard: 8,
        tensor: 1,
        pipeline: 1,
    };
    let options = StepOptions {
        batch: 4096,
        steps: 1,
        reduction: Reduction::Engine,
        ..StepOptions::default()
    };
    let cluster = Cluster::default();
    let step = simulate(&model, &cluster, mesh, &options)?;
    assert!(step.seconds > step.undisturbed && step.efficiency > 0.0 && step.efficiency < 1.0);
    let mut builder = Builder::new(&model, &cluster, mesh, &options)?;
    builder.at_full_size(1_500_000);
    assert_eq!(builder.ranks(), 4096);
    Ok(())
}

#[test]
fn layers_are_split_by_their_time() -> Result<()> {
    let mut model = model(5);
    model.layers[4].forward_seconds = Some(4.0);
    model.layers[4].backward_seconds = Some(8.0);
    assert_eq!(stages(&model, 1)?, vec![0..5]);
    assert_eq!(stages(&model, 2)?, [0..4, 4..5]);
    let three = stages(&model, 3)?;
    assert_eq!(three[2], 4..5);
    assert!(stages(&model, 6).is_err());
    Ok(())
}

#[test]
fn what_does_not_go_together_is_refused() {
    let fail = |mesh: &str, options: StepOptions| {
        let mesh = mesh.parse().unwrap();
        simulate(&model(2), &cluster(), mesh, &options)
            .unwrap_err()
            .to_string()
    };
    let o = StepOptions::default();
    let text = fail("dp=2", o.clone());
    assert!(
        text.contains("a batch of 1 is no multiple of 2 ranks"),
        "{text}"
    );
    assert!(fail("tp=4", o.clone()).contains("2 heads"));
    assert!(fail("pp=3", o.clone()).contains("too few for 3 parts"));
    let parts = StepOptions { parts: 2, ..o };
    assert!(fail("pp=2", parts.clone()).contains("too few for 4 parts"));
    assert!(fail("dp=1", parts).contains("2 parts on each stage of a single stage"));
    assert!("xx=2".parse::<Parallelism>().is_err() && "dp=0".parse::<Parallelism>().is_err());
    let mesh: Parallelism = "tp=2,dp=3".parse().unwrap();
    assert_eq!(
        (mesh.ranks(), mesh.to_string().as_str()),
        (6, "dp=3,shard=1,tp=2,pp=1")
    );
}
