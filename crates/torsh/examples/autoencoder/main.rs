//! Compresses images of clothes to a few numbers and reconstructs them.
//!
//! ```text
//! cargo run --release -p torsh --example autoencoder
//! ```

#[path = "../common/mod.rs"]
mod common;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use common::canvas::{Canvas, INK, PAPER, picture, text};
use common::{at, positive};
use noto_sans_mono_bitmap::{FontWeight, RasterHeight};
use torsh::data::idx;
use torsh::prelude::*;
use torsh::train::plot::{Panel, Plot, Series};

/// Train an autoencoder on the Fashion-MNIST images that come with ToRSh: 8,000 to train, 2,000 to
/// test.
#[derive(Parser, Debug)]
#[command(name = "autoencoder")]
struct Args {
    /// How often every image is seen
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    epochs: u32,
    /// Numbers that an image is squeezed into
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=784))]
    code: u32,
    /// The highest learning rate
    #[arg(long, default_value_t = 3e-3, value_parser = positive)]
    lr: f64,
    /// Where the random numbers start from
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Where the pictures go
    #[arg(long, value_name = "DIR", default_value = "target/autoencoder")]
    out: PathBuf,
}

fn main() -> ExitCode {
    common::exit(run(&Args::parse()))
}

#[derive(Module)]
struct Autoencoder {
    encoder: Sequential,
    decoder: Sequential,
}

impl Autoencoder {
    fn new(code: usize) -> Autoencoder {
        let encoder = Sequential::new()
            .add(Linear::new(784, 256))
            .add(ReLU::new())
            .add(Linear::new(256, 64))
            .add(ReLU::new())
            .add(Linear::new(64, code));
        let decoder = Sequential::new()
            .add(Linear::new(code, 64))
            .add(ReLU::new())
            .add(Linear::new(64, 256))
            .add(ReLU::new())
            .add(Linear::new(256, 784));
        Autoencoder { encoder, decoder }
    }

    /// The pixels, from 0 to 1, that codes `[n, code]` stand for.
    fn decode(&self, code: &Tensor) -> Result<Tensor> {
        F::sigmoid(self.decoder.forward(code)?)
    }
}

impl Module for Autoencoder {
    /// Pixels `[n, 784]` in, pixels before the sigmoid out.
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.decoder.forward(&self.encoder.forward(x)?)
    }
}

fn run(args: &Args) -> Result<()> {
    let start = Instant::now();
    manual_seed(args.seed);
    let images = idx::read_bytes(include_bytes!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../data/fashion-mnist/t10k-images-idx3-ubyte.gz"
    )))?;
    let pixels = images.flatten(1)?.to_dtype(DType::F32)?.div(255.0)?;
    let (train, test) = (pixels.narrow(0, 0, 8000)?, pixels.narrow(0, 8000, 2000)?);
    let net = Autoencoder::new(args.code as usize);
    let loader = DataLoader::builder(TensorDataset::new(train.clone(), train.clone()))
        .batch_size(64)
        .shuffle(true)
        .seed(args.seed)
        .build()?;
    let epochs = args.epochs as usize;
    let steps = loader.len() * epochs;
    let optimizer = AdamW::new(net.parameters(), args.lr)?;
    let schedule = WarmupCosine::new(&optimizer, steps / 20, steps, 0.0)?;
    let bar = common::progress(steps);
    let (mut losses, mut errors) = (Vec::new(), Vec::new());
    for epoch in 1..=epochs {
        net.train();
        let mut sum = 0.0;
        for batch in loader.try_iter() {
            let (x, _) = batch?;
            optimizer.zero_grad();
            let loss = F::binary_cross_entropy_with_logits(&net.forward(&x)?, &x)?;
            loss.backward()?;
            optimizer.step()?;
            schedule.step()?;
            let value = loss.item::<f64>()?;
            if !value.is_finite() {
                return Err(TorshError::Other(format!(
                    "the loss became {value} in epoch {epoch}: try a smaller --lr"
                )));
            }
            sum += value;
            bar.set_message(format!("loss {value:.4}"));
            bar.inc(1);
        }
        let error = no_grad(|| F::mse_loss(&F::sigmoid(net.forward(&test)?)?, &test))?;
        let error = error.item::<f64>()?;
        losses.push((epoch as f64, sum / loader.len() as f64));
        errors.push((epoch as f64, error));
        bar.suspend(|| {
            println!("epoch {epoch:2}/{epochs}: held-out mean squared error {error:.5}");
        });
    }
    bar.finish_and_clear();
    std::fs::create_dir_all(&args.out).map_err(|e| at(&args.out, e))?;
    let curve = args.out.join("learning_curve.png");
    let loss = Panel::new("Cross-entropy per pixel")
        .x_label("epoch")
        .series(Series::new("training", losses));
    let error = Panel::new("Mean squared error")
        .x_label("epoch")
        .series(Series::new("held out", errors).color([255, 127, 14]));
    Plot::new().panel(loss).panel(error).save(&curve)?;

    net.eval();
    no_grad(|| {
        let drawn = F::sigmoid(net.forward(&test)?)?;
        let mean = train.mean_dim(0, true)?.expand_as(&test)?;
        println!(
            "{} numbers per image: mean squared error {:.5}; the mean image's {:.5}; {:.1} s",
            args.code,
            F::mse_loss(&drawn, &test)?.item::<f64>()?,
            F::mse_loss(&mean, &test)?.item::<f64>()?,
            start.elapsed().as_secs_f64()
        );
        // From one image's code to another's in equal steps.
        let codes = net.encoder.forward(&test)?;
        let shares = linspace(0.0, 1.0, COLUMNS).unsqueeze(1)?;
        let between = |from: i64, to: i64| -> Result<Tensor> {
            let (from, to) = (codes.i(from)?, codes.i(to)?);
            net.decode(&from.add(to.sub(&from)?.mul(&shares)?)?)
        };
        let rows = [
            ("Held-out images", test.narrow(0, 0, COLUMNS)?),
            ("Drawn from their codes", drawn.narrow(0, 0, COLUMNS)?),
            ("From one code to another", between(0, 7)?),
            ("and another", between(4, 2)?),
        ];
        let path = args.out.join("images.png");
        draw(&rows)?.save(&path)?;
        println!("wrote {} and {}", curve.display(), path.display());
        Ok(())
    })
}

const COLUMNS: usize = 12;
const SCALE: i64 = 3;

/// Rows of images under their titles.
fn draw(rows: &[(&str, Tensor)]) -> Result<Canvas> {
    let (side, gap, title) = (28 * SCALE, 8, 28);
    let height = rows.len() as i64 * (title + side + 2 * gap) + gap;
    let width = COLUMNS as i64 * (side + gap) + gap;
    let mut img = Canvas::new(width, height, PAPER);
    let mut y = gap;
    for (name, images) in rows {
        let (size, bold) = (RasterHeight::Size20, FontWeight::Bold);
        text(&mut img, gap, y, name, size, bold, INK);
        let pixels = images.mul(255.0)?.round()?.to_dtype(DType::U8)?;
        let pixels = pixels.to_vec::<u8>()?;
        for (i, pixels) in pixels.chunks(784).enumerate() {
            let x = gap + i as i64 * (side + gap);
            picture(&mut img, pixels, x, y + title, SCALE);
        }
        y += title + side + 2 * gap;
    }
    Ok(img)
}
