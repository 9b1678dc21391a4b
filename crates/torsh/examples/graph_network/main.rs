//! Recognises handwritten digits of which few have labels, with a graph convolution and attention along the edges of
//! the graph of nearest neighbours, and compares that with the same network without edges.
//!
//! ```text
//! cargo run --release -p torsh --example graph_network
//! ```

#[path = "../common/mod.rs"]
mod common;
mod draw;
mod graph;
mod layout;
mod net;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use common::{at, positive};
use indicatif::ProgressBar;
use torsh::prelude::*;

use graph::{Digits, Drawn, Graph, agreement};
use net::Net;

/// Learn to read the 1,797 handwritten digits that come with ToRSh from a few labels: a graph network on each image's
/// nearest neighbours, against the same network without edges.
#[derive(Parser, Debug)]
#[command(name = "graph_network")]
struct Args {
    /// How often every labelled image is seen
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..))]
    epochs: u32,
    /// Images of each digit whose label is known
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    labels: u32,
    /// Nearest images to which an image is joined
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=100))]
    neighbours: u32,
    /// How often labels are drawn, and both networks trained with them
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    draws: u32,
    /// The learning rate
    #[arg(long, default_value_t = 1e-2, value_parser = positive)]
    lr: f64,
    /// Where the random numbers start from
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Where the picture goes
    #[arg(long, value_name = "FILE", default_value = "target/graph_network.png")]
    out: PathBuf,
}

/// Steps in which the nodes find their places in the picture.
const LAYOUT_STEPS: usize = 200;

fn main() -> ExitCode {
    common::exit(run(&Args::parse()))
}

/// What a network has learned.
struct Learned {
    /// The digit that it takes each image for.
    predicted: Tensor,
    /// The share of the images without a known label that it recognises.
    recognised: f64,
    /// Rows of the embedding that SparseAdam wrote, in all steps.
    rows: usize,
}

/// Trains a network from its initial weights.
fn learn(
    graph: &Graph,
    digits: &Digits,
    drawn: &Drawn,
    args: &Args,
    seed: u64,
    bar: &ProgressBar,
) -> Result<Learned> {
    manual_seed(seed);
    let net = Net::new(graph.clone())?;
    let (epochs, labels) = (args.epochs as usize, &digits.labels);
    let mut rows = 0;
    net::train(&net, labels, &drawn.known, epochs, args.lr, |step| {
        rows += step.rows;
        bar.set_message(format!("loss {:.4}", step.loss));
        bar.inc(1);
    })?;
    let predicted = net::predict(&net)?;
    let others = |all: &Tensor| all.index_select(0, &drawn.others);
    Ok(Learned {
        recognised: agreement(&others(&predicted)?, &others(labels)?)?,
        predicted,
        rows,
    })
}

fn run(args: &Args) -> Result<()> {
    let start = Instant::now();
    let digits = graph::digits()?;
    let joined = Graph::of_nearest(&digits.pixels, args.neighbours as usize)?;
    let alone = joined.without_edges()?;
    let edges = joined.edges()?;
    let digit = |end: i64| digits.labels.index_select(0, &edges.select(0, end)?);
    let n = digits.labels.numel();
    println!(
        "{n} images and {} edges, {:.1} % of them between images of one digit",
        edges.dims()[1],
        100.0 * agreement(&digit(0)?, &digit(1)?)?
    );

    let known = 10 * args.labels as usize;
    let steps = args.draws as usize * args.epochs as usize * known.div_ceil(net::BATCH);
    let bar = common::progress(2 * steps);
    let (mut scores, mut rows, mut last) = (Vec::new(), 0, None);
    for draw in 0..args.draws {
        let seed = args.seed.wrapping_add(u64::from(draw));
        manual_seed(seed);
        let drawn = graph::draw_labels(&digits.labels, args.labels as usize)?;
        // Both begin with the same weights and see the same batches.
        let without = learn(&alone, &digits, &drawn, args, seed, &bar)?;
        let with = learn(&joined, &digits, &drawn, args, seed, &bar)?;
        let [a, b] = [&with, &without].map(|l| 100.0 * l.recognised);
        bar.suspend(|| {
            println!(
                "labels {}/{}: {a:.1} % recognised with edges, {b:.1} % without",
                draw + 1,
                args.draws
            );
        });
        scores.push([a, b]);
        rows += with.rows;
        last = Some((with.predicted, drawn.known));
    }
    bar.finish_and_clear();
    let mean =
        |of: &dyn Fn(&[f64; 2]) -> f64| scores.iter().map(of).sum::<f64>() / scores.len() as f64;
    println!(
        "of the {} images without a known label, {:.1} % are recognised with edges and {:.1} % without",
        n - known,
        mean(&|s| s[0]),
        mean(&|s| s[1])
    );
    let margins = || scores.iter().map(|s| s[0] - s[1]);
    println!(
        "margin of the edges: {:.1} percentage points, from {:.1} to {:.1}",
        mean(&|s| s[0] - s[1]),
        margins().fold(f64::INFINITY, f64::min),
        margins().fold(f64::NEG_INFINITY, f64::max)
    );
    println!(
        "a step of SparseAdam wrote {} of {n} rows of the embedding",
        rows / steps
    );

    let Some((predicted, known)) = last else {
        return Ok(());
    };
    manual_seed(args.seed);
    let places = layout::layout(&digits.pixels, &edges, LAYOUT_STEPS)?;
    let picture = draw::picture(&digits, &edges, &places, &predicted, &known)?;
    if let Some(folder) = args.out.parent() {
        std::fs::create_dir_all(folder).map_err(|e| at(folder, e))?;
    }
    picture.save(&args.out)?;
    println!(
        "wrote {} after {:.1} s",
        args.out.display(),
        start.elapsed().as_secs_f64()
    );
    Ok(())
}
