//! Trains a small convolutional network on Fashion-MNIST, saves it, loads it again and shows what
//! it predicts.
//!
//! ```text
//! cargo run --release -p torsh --example fashion_mnist
//! ```

#[path = "../common/mod.rs"]
mod common;
mod draw;
mod files;
mod net;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use torsh::data::vision::FASHION_MNIST_CLASSES;
use torsh::prelude::*;

use common::{at, positive};
use net::{Net, Recipe, Score};

/// Train a network on Fashion-MNIST. Without --data it uses the 10,000 images that come with
/// ToRSh: 8,000 to train, 2,000 to test.
#[derive(Parser, Debug)]
#[command(name = "fashion_mnist")]
struct Args {
    /// How often every image is seen
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    epochs: u32,
    /// The highest learning rate
    #[arg(long, default_value_t = 4e-3, value_parser = positive)]
    lr: f64,
    /// Where the random numbers start from
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Images per step
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(2..))]
    batch_size: u32,
    /// A folder with the four IDX files of the full data set, packed (.gz) or not
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Where the weights and the two images go
    #[arg(long, value_name = "DIR", default_value = "target/fashion_mnist")]
    out: PathBuf,
}

fn main() -> ExitCode {
    common::exit(run(&Args::parse()))
}

fn run(args: &Args) -> Result<()> {
    let start = Instant::now();
    manual_seed(args.seed);
    let files = files::load(args.data.as_deref())?;
    std::fs::create_dir_all(&args.out).map_err(|e| at(&args.out, e))?;
    let net = Net::new()?;
    let parameters: usize = net.parameters().iter().map(|p| p.numel()).sum();
    println!(
        "{} images to train on, {} to test on, {parameters} parameters",
        torsh::data::Dataset::len(&files.train),
        torsh::data::Dataset::len(&files.test),
    );

    let recipe = Recipe {
        epochs: args.epochs as usize,
        lr: args.lr,
        batch_size: args.batch_size as usize,
        seed: args.seed,
    };
    let history = train_with_bars(&net, &files, recipe)?;
    let last = history.last().map_or(Score::default(), |h| h.1);
    println!(
        "held-out accuracy {:.2} % after {} epochs and {:.1} s",
        100.0 * last.accuracy,
        args.epochs,
        start.elapsed().as_secs_f64()
    );

    let weights = args.out.join("fashion_mnist.safetensors");
    net.save(&weights)?;
    let loaded = Net::new()?;
    loaded.load(&weights)?;
    let again = net::test(&loaded, &files.test)?;
    if again.accuracy != last.accuracy {
        return Err(TorshError::Other(format!(
            "the loaded network has accuracy {}, the saved one {}",
            again.accuracy, last.accuracy
        )));
    }
    println!("saved and loaded {}: the same accuracy", weights.display());

    let scores = net::predict(&loaded, &files.test)?;
    let probabilities = F::softmax(&scores, 1)?;
    let (sure, predicted) = probabilities.max_dim(1, false)?;
    let predictions = draw::Predictions {
        pixels: files.test_pixels.contiguous()?.to_vec::<u8>()?,
        predicted: predicted.to_vec::<i64>()?,
        sure: sure.to_vec::<f32>()?,
        truth: files.test.tensors().1.to_vec::<i64>()?,
    };
    print_table(&predictions, 10);

    let curve = args.out.join("learning_curve.png");
    draw::learning_curve(&history).save(&curve)?;
    let grid = args.out.join("predictions.png");
    draw::prediction_grid(&predictions)
        .save(&grid)
        .map_err(|e| at(&grid, e))?;
    println!("\nwrote {} and {}", curve.display(), grid.display());
    Ok(())
}

/// Trains, and returns the scores of each epoch on training and test images.
fn train_with_bars(net: &Net, files: &files::Files, recipe: Recipe) -> Result<Vec<(Score, Score)>> {
    let steps = torsh::data::Dataset::len(&files.train).div_ceil(recipe.batch_size);
    // One bar over the whole run, so that the time left is that of the whole run.
    let bar = common::progress(steps * recipe.epochs);
    let mut history = Vec::with_capacity(recipe.epochs);
    bar.set_prefix(format!("epoch 1/{}", recipe.epochs));
    let mut epoch_start = Instant::now();
    net::train(
        net,
        &files.train,
        recipe,
        |_, score| {
            bar.set_message(format!(
                "loss {:.4}, accuracy {:.2} %",
                score.loss,
                100.0 * score.accuracy
            ));
            bar.inc(1);
        },
        |epoch, train| {
            let test = net::test(net, &files.test)?;
            history.push((train, test));
            bar.suspend(|| {
                println!(
                    "epoch {:2}/{}: loss {:.4}, accuracy {:.2} %; held out: loss {:.4}, accuracy {:.2} %; {:.1} s",
                    epoch + 1,
                    recipe.epochs,
                    train.loss,
                    100.0 * train.accuracy,
                    test.loss,
                    100.0 * test.accuracy,
                    epoch_start.elapsed().as_secs_f64()
                );
            });
            epoch_start = Instant::now();
            bar.set_prefix(format!(
                "epoch {}/{}",
                (epoch + 2).min(recipe.epochs),
                recipe.epochs
            ));
            Ok(())
        },
    )?;
    bar.finish_and_clear();
    Ok(history)
}

fn print_table(p: &draw::Predictions, rows: usize) {
    println!(
        "\n{:>5}  {:<12} {:<12} {:>6}",
        "image", "predicted", "true", "sure"
    );
    for i in 0..rows.min(p.truth.len()) {
        let name = |class: i64| FASHION_MNIST_CLASSES[class as usize];
        let mark = if p.predicted[i] == p.truth[i] {
            ""
        } else {
            "  wrong"
        };
        println!(
            "{i:>5}  {:<12} {:<12} {:>4.0} %{mark}",
            name(p.predicted[i]),
            name(p.truth[i]),
            100.0 * p.sure[i]
        );
    }
}
