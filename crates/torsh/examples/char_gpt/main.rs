//! Trains a small GPT on the characters of a novel, then generates text.
//!
//! ```text
//! cargo run --release -p torsh --example char_gpt
//! ```

#[path = "../common/mod.rs"]
mod common;
mod model;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use common::{at, positive};
use model::{Gpt, Size};
use torsh::prelude::*;
use torsh::train::plot::{Panel, Plot, Series};

/// Train a GPT on the characters of a text and let it write. Without --text it reads the Pride and
/// Prejudice that comes with ToRSh. The last tenth of the text is held out.
#[derive(Parser, Debug)]
#[command(name = "char_gpt")]
struct Args {
    /// Steps of training
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    steps: u32,
    /// Pieces of text per step
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    batch_size: u32,
    /// The highest learning rate
    #[arg(long, default_value_t = 3e-3, value_parser = positive)]
    lr: f64,
    /// Characters that a prediction sees
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(2..))]
    context: u32,
    /// Where the random numbers start from
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Below 1, what it writes is likelier; above, more surprising
    #[arg(long, default_value_t = 0.8, value_parser = positive)]
    temperature: f64,
    /// A text file to learn from
    #[arg(long, value_name = "FILE")]
    text: Option<PathBuf>,
    /// Where the weights and the curve go
    #[arg(long, value_name = "DIR", default_value = "target/char_gpt")]
    out: PathBuf,
}

fn main() -> ExitCode {
    common::exit(run(&Args::parse()))
}

/// A text as numbers: which of its different characters comes where.
struct Text {
    symbols: Vec<char>,
    train: Tensor,
    held_out: Tensor,
}

impl Text {
    fn new(text: &str, context: usize) -> Result<Text> {
        let mut symbols: Vec<char> = text.chars().collect();
        symbols.sort_unstable();
        symbols.dedup();
        let numbers: Vec<i64> = text.chars().map(|c| number(&symbols, c)).collect();
        let train = numbers.len() * 9 / 10;
        if numbers.len() - train < context + 2 {
            return Err(TorshError::Other(format!(
                "a text of {} characters is too short for a context of {context}: its last tenth \
                 must be longer than that",
                numbers.len()
            )));
        }
        let part = |n: &[i64]| Tensor::from_data(n, [n.len()]);
        Ok(Text {
            train: part(&numbers[..train])?,
            held_out: part(&numbers[train..])?,
            symbols,
        })
    }
}

/// The place of a character among all; 0 for one that is not there.
fn number(symbols: &[char], c: char) -> i64 {
    symbols.binary_search(&c).map_or(0, |i| i as i64)
}

fn load(path: Option<&Path>) -> Result<String> {
    match path {
        Some(path) => std::fs::read_to_string(path).map_err(|e| at(path, e)),
        None => {
            let packed = include_bytes!(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/../../data/text/pride_and_prejudice.txt.gz"
            ));
            let mut text = String::new();
            flate2::read::GzDecoder::new(&packed[..]).read_to_string(&mut text)?;
            Ok(text)
        }
    }
}

/// `count` pieces of `length` characters from random places.
fn batch(text: &Tensor, count: usize, length: usize) -> Result<Tensor> {
    let starts = randint(0, (text.numel() - length + 1) as i64, &[count, 1]);
    let places = starts.add(&arange(0, length as i64, 1))?;
    text.i(&places)
}

/// The mean loss over the whole of a text, cut into pieces.
fn test(net: &Gpt, text: &Tensor, context: usize) -> Result<f64> {
    net.eval();
    let pieces = (text.numel() - 1) / context;
    // Each piece begins with the last character of the one before.
    let starts = arange(0, (pieces * context) as i64, context as i64).unsqueeze(1)?;
    let places = starts.add(&arange(0, context as i64 + 1, 1))?;
    let (mut sum, mut seen) = (0.0, 0);
    no_grad(|| {
        for part in text.i(&places)?.split(256, 0)? {
            let n = part.size(0)?;
            sum += net.loss(&part)?.item::<f64>()? * n as f64;
            seen += n;
        }
        Ok(sum / seen as f64)
    })
}

fn run(args: &Args) -> Result<()> {
    let start = Instant::now();
    manual_seed(args.seed);
    let context = args.context as usize;
    let text = Text::new(&load(args.text.as_deref())?, context)?;
    std::fs::create_dir_all(&args.out).map_err(|e| at(&args.out, e))?;
    let net = Gpt::new(Size {
        symbols: text.symbols.len(),
        context,
        width: 96,
        heads: 4,
        layers: 2,
    })?;
    let parameters: usize = net.parameters().iter().map(|p| p.numel()).sum();
    println!(
        "{} characters to train on, {} held out, {} different ones, {parameters} parameters",
        text.train.numel(),
        text.held_out.numel(),
        text.symbols.len(),
    );

    let steps = args.steps as usize;
    let optimizer = AdamW::new(net.parameters(), args.lr)?;
    let schedule = WarmupCosine::new(&optimizer, steps / 20, steps, args.lr / 10.0)?;
    let (mut trained, mut held_out) = (Vec::new(), Vec::new());
    let bar = common::progress(steps);
    let every = steps.div_ceil(10);
    let mut sum = 0.0;
    for step in 1..=steps {
        net.train();
        optimizer.zero_grad();
        let loss = net.loss(&batch(&text.train, args.batch_size as usize, context + 1)?)?;
        loss.backward()?;
        clip_grad_norm_(net.parameters(), 1.0)?;
        optimizer.step()?;
        schedule.step()?;
        let value = loss.item::<f64>()?;
        if !value.is_finite() {
            return Err(TorshError::Other(format!(
                "the loss became {value} in step {step}: try a smaller --lr"
            )));
        }
        sum += value;
        bar.set_message(format!("loss {value:.3}"));
        bar.inc(1);
        if step % every == 0 || step == steps {
            let since = step - trained.last().map_or(0, |p: &(f64, f64)| p.0 as usize);
            let score = test(&net, &text.held_out, context)?;
            trained.push((step as f64, sum / since as f64));
            held_out.push((step as f64, score));
            bar.suspend(|| {
                println!(
                    "step {step:5}: loss {:.3}, held out {score:.3}",
                    sum / since as f64
                );
            });
            sum = 0.0;
        }
    }
    bar.finish_and_clear();
    println!(
        "held-out loss {:.3} after {steps} steps and {:.1} s",
        held_out.last().map_or(f64::NAN, |p| p.1),
        start.elapsed().as_secs_f64()
    );

    let weights = args.out.join("char_gpt.safetensors");
    net.save(&weights)?;
    let curve = args.out.join("learning_curve.png");
    let panel = Panel::new("Loss per character")
        .x_label("step")
        .series(Series::new("training", trained))
        .series(Series::new("held out", held_out));
    Plot::new().panel(panel).size(900, 520).save(&curve)?;
    println!("wrote {} and {}\n", weights.display(), curve.display());

    let opening: Vec<i64> = "\n\n".chars().map(|c| number(&text.symbols, c)).collect();
    let written = net.write(&opening, 500, args.temperature)?;
    let written: String = written.iter().map(|&i| text.symbols[i as usize]).collect();
    println!("{}", written.trim());
    Ok(())
}
