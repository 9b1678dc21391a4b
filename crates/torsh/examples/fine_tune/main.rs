//! Trains a network on half of the classes of a data set, and retrains it for the others from a few images of each: first its
//! head alone, then all of it. A network that is trained from scratch for as many steps shows what that is worth.
//!
//! ```text
//! cargo run --release -p torsh --features vision --example fine_tune
//! cargo run --release -p torsh --features vision --example fine_tune -- --data photos
//! ```

#[path = "../common/mod.rs"]
mod common;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use common::{at, positive};
use torsh::data::{Dataset, MapDataset, idx};
use torsh::prelude::*;
use torsh::vision::datasets::{DatasetFolder, FashionMNIST};
use torsh::vision::models::{ResNet, Weights};
use torsh::vision::transforms::{
    CenterCrop, Compose, RandomCrop, RandomHorizontalFlip, Resize, Transform,
};
use torsh::vision::utils;

/// Train a network on five classes of the Fashion-MNIST images that come with ToRSh, and retrain it for the other five.
#[derive(Parser, Debug)]
#[command(name = "fine_tune")]
struct Args {
    /// Pictures to use instead, PNG or JPEG, in a folder for each of at least four classes
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The size to which these pictures are brought, in pixels
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(16..=256))]
    size: u32,
    /// How many images of each new class there are to train with; all others test
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    shots: u32,
    /// How often every image of the first classes is seen
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..))]
    epochs: u32,
    /// How many steps the training for the new classes has
    #[arg(long, default_value_t = 240, value_parser = clap::value_parser!(u32).range(3..))]
    steps: u32,
    /// The highest learning rate
    #[arg(long, default_value_t = 3e-3, value_parser = positive)]
    lr: f64,
    /// Where the random numbers start from
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Where the checkpoint and the picture go
    #[arg(long, value_name = "DIR", default_value = "target/fine_tune")]
    out: PathBuf,
}

fn main() -> ExitCode {
    common::exit(run(&Args::parse()))
}

/// Images, uint8 `[n, 3, size, size]`, with their classes.
struct Images {
    pixels: Tensor,
    labels: Vec<i64>,
    classes: Vec<String>,
}

/// Images as the network takes them, and the numbers of their classes.
type Batch = (Tensor, Tensor);

impl Images {
    /// The images of Fashion-MNIST in this repository.
    fn shipped() -> Result<Images> {
        macro_rules! file {
            ($name:literal) => {
                idx::read_bytes(include_bytes!(concat!(
                    env!("CARGO_MANIFEST_DIR"),
                    "/../../data/fashion-mnist/",
                    $name
                )))
            };
        }
        let pixels = file!("t10k-images-idx3-ubyte.gz")?.unsqueeze(1)?;
        let n = pixels.dims()[0];
        Ok(Images {
            pixels: pixels.expand([n, 3, 28, 28])?,
            labels: file!("t10k-labels-idx1-ubyte.gz")?
                .to_dtype(DType::I64)?
                .to_vec()?,
            classes: FashionMNIST::CLASSES.map(str::to_string).to_vec(),
        })
    }

    /// The pictures of a folder, all of one size.
    fn of_folder(folder: &Path, size: usize) -> Result<Images> {
        let square = Compose::new()
            .then(Resize::new(size)?)
            .then(CenterCrop::new(size));
        let files = DatasetFolder::images(folder).transform(square).build()?;
        if files.classes().len() < 4 {
            let why = format!(
                "there are {} classes; at least 4 are needed",
                files.classes().len()
            );
            return Err(at(folder, why));
        }
        let (mut pixels, mut labels) = (Vec::new(), Vec::new());
        for i in 0..files.len() {
            let (image, label) = files.get(i)?;
            pixels.push(image);
            labels.push(label);
        }
        Ok(Images {
            pixels: stack(&pixels, 0)?,
            labels,
            classes: files.classes().to_vec(),
        })
    }

    /// The images of some classes, which get the numbers from 0 on: at most `limit` of each, and the others.
    fn of_classes(&self, classes: &[usize], limit: usize) -> Result<(Batch, Batch)> {
        let (mut some, mut others) = (Vec::new(), Vec::new());
        let mut counts = vec![0; classes.len()];
        for (i, label) in self.labels.iter().enumerate() {
            if let Some(class) = classes.iter().position(|class| *class as i64 == *label) {
                counts[class] += 1;
                match counts[class] <= limit {
                    true => some.push((i, class)),
                    false => others.push((i, class)),
                }
            }
        }
        let batch = |chosen: &[(usize, usize)]| -> Result<Batch> {
            let indices: Vec<i64> = chosen.iter().map(|(i, _)| *i as i64).collect();
            let labels: Vec<i64> = chosen.iter().map(|(_, class)| *class as i64).collect();
            let n = chosen.len();
            let pixels = self
                .pixels
                .index_select(0, &Tensor::from_vec(indices, [n])?)?;
            let pixels = pixels.to_dtype(DType::F32)?.div(127.5)?.sub(1.0)?;
            Ok((pixels, Tensor::from_vec(labels, [n])?))
        };
        Ok((batch(&some)?, batch(&others)?))
    }
}

/// A small residual network.
fn network(weights: impl Into<Weights>, classes: usize) -> Result<ResNet> {
    ResNet::builder()
        .layers([1, 1, 1, 1])
        .base_channels(32)
        .num_classes(classes)
        .weights(weights)
        .build()
}

/// Trains what has gradients for a number of steps. Where `all` is false, norms keep the statistics that they have.
fn train(net: &ResNet, data: &Batch, steps: usize, lr: f64, seed: u64, all: bool) -> Result<()> {
    let (pixels, labels) = data.clone();
    let side = pixels.dims()[3];
    let augment = Compose::new()
        .then(RandomCrop::new(side).padding(side as i64 / 14))
        .then(RandomHorizontalFlip::new(0.5)?);
    let items = TensorDataset::new(pixels, labels);
    let items = MapDataset::new(items, move |(x, y): (Tensor, Tensor)| {
        Ok((augment.apply(&x)?, y))
    });
    let loader = DataLoader::builder(items)
        .batch_size(50)
        .shuffle(true)
        .seed(seed)
        .build()?;
    let trained = net.parameters().into_iter().filter(|p| p.requires_grad());
    let optimizer = AdamW::new(trained.collect::<Vec<_>>(), lr)?;
    let bar = common::progress(steps);
    let mut step = 0;
    while step < steps {
        match all {
            true => net.train(),
            false => net.eval(),
        };
        for batch in loader.try_iter() {
            let (x, y) = batch?;
            // The rate falls along a cosine.
            let done = step as f64 / steps as f64;
            optimizer.set_lr(lr * 0.5 * (1.0 + (std::f64::consts::PI * done).cos()));
            optimizer.zero_grad();
            let loss = F::cross_entropy(&net.forward(&x)?, &y)?;
            loss.backward()?;
            optimizer.step()?;
            step += 1;
            bar.set_message(format!("loss {:.3}", loss.item::<f64>()?));
            bar.set_position(step as u64);
            if step == steps {
                break;
            }
        }
    }
    bar.finish_and_clear();
    Ok(())
}

/// Which images the network recognises, and their share.
fn test(net: &ResNet, (pixels, labels): &Batch) -> Result<(Tensor, f64)> {
    net.eval();
    let n = pixels.dims()[0];
    let parts = (0..n).step_by(250).map(|i| {
        let part = pixels.narrow(0, i as i64, 250.min(n - i))?;
        no_grad(|| net.forward(&part))?.argmax_dim(1, false)
    });
    let found = cat(&parts.collect::<Result<Vec<_>>>()?, 0)?;
    let right = found.eq(labels)?;
    let share = right.to_dtype(DType::F64)?.mean()?.item::<f64>()?;
    Ok((right, share))
}

fn run(args: &Args) -> Result<()> {
    std::fs::create_dir_all(&args.out).map_err(|e| at(&args.out, e))?;
    manual_seed(args.seed);
    let (images, first): (Images, Vec<usize>) = match &args.data {
        // T-shirts, trousers, dresses, sneakers and bags.
        None => (Images::shipped()?, vec![0, 1, 3, 7, 8]),
        Some(folder) => {
            let images = Images::of_folder(folder, args.size as usize)?;
            let half = images.classes.len() / 2;
            (images, (0..half).collect())
        }
    };
    let second: Vec<usize> = (0..images.classes.len())
        .filter(|c| !first.contains(c))
        .collect();
    let names = |classes: &[usize]| -> String {
        let names: Vec<&str> = classes
            .iter()
            .map(|c| images.classes[*c].as_str())
            .collect();
        names.join(", ")
    };
    let (known, _) = images.of_classes(&first, usize::MAX)?;
    let (few, unseen) = images.of_classes(&second, args.shots as usize)?;
    let (n, held_out) = (few.0.dims()[0], unseen.0.dims()[0]);
    if held_out == 0 {
        return Err(TorshError::Other(format!(
            "no class has more than {} images, so none are left to test with; --shots sets it",
            args.shots
        )));
    }

    let start = Instant::now();
    let seconds = || format!("{:.1} s", start.elapsed().as_secs_f64());
    let base = network(Weights::None, first.len())?;
    println!(
        "a network of {} parameters learns {} images of {}",
        base.num_parameters(),
        known.0.dims()[0],
        names(&first)
    );
    let epochs = args.epochs as usize;
    let steps = epochs * known.0.dims()[0].div_ceil(50);
    train(&base, &known, steps, args.lr, args.seed, true)?;
    let checkpoint = args.out.join("first_classes.safetensors");
    base.save(&checkpoint)?;
    let (_, share) = test(&base, &known)?;
    println!(
        "  it recognises {:.1} % of them ({})",
        100.0 * share,
        seconds()
    );
    println!("wrote {}", checkpoint.display());

    let steps = args.steps as usize;
    println!(
        "\nnew classes: {}; {n} images to train with, {held_out} held out, {steps} steps",
        names(&second)
    );
    let scratch = network(Weights::None, second.len())?;
    train(&scratch, &few, steps, args.lr, args.seed, true)?;
    let (right_scratch, from_scratch) = test(&scratch, &unseen)?;
    println!(
        "  from scratch:               {:5.1} % ({})",
        100.0 * from_scratch,
        seconds()
    );

    // The checkpoint, with a new head.
    let mut net = network(&checkpoint, first.len())?;
    net.requires_grad_(false);
    net.fc = Linear::new(net.fc.weight.dims()[1], second.len());
    let of_head = steps / 3;
    train(&net, &few, of_head, args.lr, args.seed, false)?;
    let (_, head) = test(&net, &unseen)?;
    println!(
        "  its head alone, {of_head:3} steps:   {:5.1} % ({})",
        100.0 * head,
        seconds()
    );
    net.requires_grad_(true);
    train(
        &net,
        &few,
        steps - of_head,
        args.lr / 3.0,
        args.seed + 1,
        true,
    )?;
    let (right, tuned) = test(&net, &unseen)?;
    println!(
        "  then all of it, {:3} steps:   {:5.1} % ({})",
        steps - of_head,
        100.0 * tuned,
        seconds()
    );
    println!(
        "\nfine-tuning beats the same number of steps from scratch by {:.1} percentage points",
        100.0 * (tuned - from_scratch)
    );

    // What the one network sees and the other does not.
    let only = right
        .logical_and(&right_scratch.logical_not()?)?
        .nonzero()?
        .squeeze(1)?;
    let only = only.narrow(0, 0, only.dims()[0].min(40))?;
    if only.numel() > 0 {
        let pictures = unseen.0.index_select(0, &only)?.add(1.0)?.div(2.0)?;
        let path = args.out.join("recognised.png");
        utils::save_image_with(&pictures, &path, utils::GridOptions::new().nrow(10))?;
        println!(
            "wrote {}: images that only the fine-tuned network recognises",
            path.display()
        );
    }
    Ok(())
}
