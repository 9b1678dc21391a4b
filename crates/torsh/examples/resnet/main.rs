//! Trains a residual network with a complete setup: augmentation, AdamW with a one-cycle
//! schedule, bfloat16 autocast, accumulation, clipping, an average of the weights, a checkpoint
//! after every epoch, early stopping, and a checkpoint on Ctrl-C.
//!
//! ```text
//! cargo run --release -p torsh --features vision --example resnet
//! ```

#[path = "../common/mod.rs"]
mod common;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use common::positive;
use torsh::data::{MapDataset, TensorDataset, idx};
use torsh::prelude::*;
use torsh::train::Trainer;
use torsh::train::callbacks::{CsvLogger, EarlyStopping, ModelCheckpoint, ProgressBar};
use torsh::train::config::{Interval, Mode};
use torsh::train::metrics::Accuracy;
use torsh::train::plot::PlotOptions;
use torsh::vision::transforms::{Compose, RandomCrop, RandomHorizontalFlip, Transform};

/// Train a residual network on the Fashion-MNIST images that come with ToRSh: 8,000 to train,
/// 2,000 to test.
#[derive(Parser, Debug)]
#[command(name = "resnet")]
struct Args {
    /// How often every image is seen
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..))]
    epochs: u32,
    /// The highest learning rate
    #[arg(long, default_value_t = 5e-3, value_parser = positive)]
    lr: f64,
    /// Images per batch; two batches make a step
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(2..))]
    batch_size: u32,
    /// Where the random numbers start from
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Goes on from a checkpoint
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
    /// Where checkpoints, the log and the curve go
    #[arg(long, value_name = "DIR", default_value = "target/resnet")]
    out: PathBuf,
}

fn main() -> ExitCode {
    common::exit(run(&Args::parse()))
}

/// Two convolutions, added to what comes in (K. He et al., "Deep residual learning for image
/// recognition", 2016).
#[derive(Module)]
struct BasicBlock {
    conv1: Conv2d,
    bn1: BatchNorm2d,
    conv2: Conv2d,
    bn2: BatchNorm2d,
    shortcut: Option<Sequential>,
}

impl BasicBlock {
    fn new(inputs: usize, outputs: usize, stride: usize) -> Result<BasicBlock> {
        let conv = |inputs, stride| {
            let conv = Conv2d::builder(inputs, outputs, 3);
            conv.stride(stride).padding(1).bias(false).build()
        };
        let shortcut = match stride == 1 && inputs == outputs {
            true => None,
            false => Some(
                Sequential::new()
                    .add(
                        Conv2d::builder(inputs, outputs, 1)
                            .stride(stride)
                            .bias(false)
                            .build()?,
                    )
                    .add(BatchNorm2d::new(outputs)?),
            ),
        };
        Ok(BasicBlock {
            conv1: conv(inputs, stride)?,
            bn1: BatchNorm2d::new(outputs)?,
            conv2: conv(outputs, 1)?,
            bn2: BatchNorm2d::new(outputs)?,
            shortcut,
        })
    }
}

impl Module for BasicBlock {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let y = F::relu(self.bn1.forward(&self.conv1.forward(x)?)?)?;
        let y = self.bn2.forward(&self.conv2.forward(&y)?)?;
        let x = match &self.shortcut {
            Some(s) => s.forward(x)?,
            None => x.clone(),
        };
        F::relu(y.add(x)?)
    }
}

#[derive(Module)]
struct ResNet {
    conv: Conv2d,
    bn: BatchNorm2d,
    layers: Vec<BasicBlock>,
    fc: Linear,
}

impl ResNet {
    fn new() -> Result<ResNet> {
        Ok(ResNet {
            conv: Conv2d::builder(1, 16, 3).padding(1).bias(false).build()?,
            bn: BatchNorm2d::new(16)?,
            layers: vec![
                BasicBlock::new(16, 16, 1)?,
                BasicBlock::new(16, 32, 2)?,
                BasicBlock::new(32, 64, 2)?,
            ],
            fc: Linear::new(64, 10),
        })
    }
}

impl Module for ResNet {
    /// Images `[n, 1, 28, 28]` in, one score per class `[n, 10]` out.
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let mut x = F::relu(self.bn.forward(&self.conv.forward(x)?)?)?;
        for layer in &self.layers {
            x = layer.forward(&x)?;
        }
        self.fc.forward(&x.mean_dim([2, 3], false)?)
    }
}

fn run(args: &Args) -> Result<()> {
    let start = Instant::now();
    manual_seed(args.seed);
    macro_rules! file {
        ($name:literal) => {
            include_bytes!(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/../../data/fashion-mnist/",
                $name
            ))
        };
    }
    let images = idx::read_bytes(file!("t10k-images-idx3-ubyte.gz"))?;
    let labels = idx::read_bytes(file!("t10k-labels-idx1-ubyte.gz"))?.to_dtype(DType::I64)?;
    // One channel, mean 0 and standard deviation 1.
    let images = images.unsqueeze(1)?.to_dtype(DType::F32)?;
    let train_images = images.narrow(0, 0, 8000)?;
    let images = images.sub(train_images.mean()?)?.div(train_images.std()?)?;
    let part = |from, len| -> Result<TensorDataset> {
        Ok(TensorDataset::new(
            images.narrow(0, from, len)?,
            labels.narrow(0, from, len)?,
        ))
    };
    let augment = Compose::new()
        .then(RandomCrop::new(28).padding(2))
        .then(RandomHorizontalFlip::new(0.5)?);
    let train = MapDataset::new(part(0, 8000)?, move |(x, y): (Tensor, Tensor)| {
        Ok((augment.apply(&x)?, y))
    });
    let train = DataLoader::builder(train)
        .batch_size(args.batch_size as usize)
        .shuffle(true)
        .seed(args.seed)
        .build()?;
    let test = DataLoader::builder(part(8000, 2000)?)
        .batch_size(250)
        .build()?;

    let model = ResNet::new()?;
    let average = torsh::optim::AveragedModel::new(ResNet::new()?, &model)?
        .avg_fn(torsh::optim::get_ema_avg_fn(0.95)?)
        .use_buffers(true);
    let optimizer = AdamW::builder(model.parameters())
        .lr(args.lr)
        .weight_decay(0.05)
        .build()?;
    let (epochs, accumulate) = (args.epochs as usize, 2);
    let steps = epochs * train.len().div_ceil(accumulate);
    let schedule = OneCycleLR::new(&optimizer, args.lr, steps)?;
    let mut trainer = Trainer::builder(model, &optimizer)
        .loss(|scores, labels| F::cross_entropy(scores, labels))
        .scheduler_with(schedule, Interval::Step)
        .autocast(DType::BF16)
        .accumulate(accumulate)
        .clip_grad_norm(1.0)
        .ema(average)
        .metric(Accuracy::new())
        .monitor("accuracy", Mode::Max)
        .callback(EarlyStopping::new(3).metric("accuracy").mode(Mode::Max))
        .callback(
            ModelCheckpoint::new(&args.out)
                .keep_last(2)
                .best("accuracy", Mode::Max),
        )
        .callback(CsvLogger::new(args.out.join("metrics.csv")))
        .callback(ProgressBar::new())
        .on_interrupt(args.out.join("interrupted.pt"))
        .epochs(epochs)
        .build()?;
    if let Some(path) = &args.resume {
        trainer.resume(path)?;
    }
    let results = trainer.fit(&train, Some(&test))?;
    for e in &results.history {
        println!(
            "epoch {:2}: loss {:.4}, accuracy {:.2} %; held out, averaged weights: loss {:.4}, accuracy {:.2} %",
            e.epoch + 1,
            e.train_metrics["loss"],
            100.0 * e.train_metrics["accuracy"],
            e.val_metrics["loss"],
            100.0 * e.val_metrics["accuracy"],
        );
    }
    println!(
        "best held-out accuracy {:.2} %, {} steps, {:.1} s",
        100.0 * results.best_metric.unwrap_or(f64::NAN),
        results.steps,
        start.elapsed().as_secs_f64()
    );

    let path = args.out.join("learning_curve.png");
    let options = PlotOptions::new()
        .title("A residual network on Fashion-MNIST")
        .panel_title("loss", "Cross-entropy")
        .panel_title("accuracy", "Accuracy")
        .panel_title("learning_rate", "Learning rate");
    results.history.plot_with(&path, options)?;
    println!("wrote {}", path.display());
    Ok(())
}
