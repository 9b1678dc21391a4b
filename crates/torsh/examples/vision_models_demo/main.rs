//! Finds a face with a pretrained network, then trains a ResNet-18 and looks inside it.
//!
//! ```text
//! cargo run --release -p torsh --features vision --example vision_models_demo
//! ```

#[path = "../common/mod.rs"]
mod common;
mod pnet;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use common::{at, positive};
use pnet::PNet;
use torsh::data::{MapDataset, idx};
use torsh::prelude::*;
use torsh::vision::feature_extraction::create_feature_extractor;
use torsh::vision::models::{ResNet, ResNetBlock};
use torsh::vision::transforms::{Compose, RandomCrop, RandomHorizontalFlip, Transform};
use torsh::vision::{io, utils};

/// Find the face in the picture that comes with ToRSh, then train a ResNet-18 on its Fashion-MNIST images.
#[derive(Parser, Debug)]
#[command(name = "vision_models_demo")]
struct Args {
    /// A picture to look for faces in, PNG or JPEG
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,
    /// The side of the smallest face, in pixels
    #[arg(long, default_value_t = 40.0, value_parser = positive)]
    smallest_face: f64,
    /// How long to train, in seconds
    #[arg(long, default_value_t = 60.0, value_parser = positive)]
    seconds: f64,
    /// The highest learning rate
    #[arg(long, default_value_t = 2e-3, value_parser = positive)]
    lr: f64,
    /// Where the random numbers start from
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Where the pictures go
    #[arg(long, value_name = "DIR", default_value = "target/vision_models_demo")]
    out: PathBuf,
}

const CLASSES: [&str; 10] = [
    "T-shirt",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
];

fn main() -> ExitCode {
    common::exit(run(&Args::parse()))
}

fn run(args: &Args) -> Result<()> {
    std::fs::create_dir_all(&args.out).map_err(|e| at(&args.out, e))?;
    manual_seed(args.seed);
    detect(args)?;
    classify(args)
}

/// Finds faces and draws them.
fn detect(args: &Args) -> Result<()> {
    let image = match &args.image {
        Some(path) => io::load_image(path)?,
        None => io::decode_image(include_bytes!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../data/images/astronaut.png"
        )))?,
    };
    let net = PNet::pretrained()?;
    net.eval();
    let start = Instant::now();
    let (boxes, scores) = no_grad(|| net.detect(&image, args.smallest_face, 0.95))?;
    let time = start.elapsed().as_secs_f64() * 1e3;
    let scores = scores.to_vec::<f32>()?;
    println!("P-Net found {} faces in {time:.1} ms:", scores.len());
    for (b, score) in boxes.to_vec::<f32>()?.chunks(4).zip(&scores) {
        let [left, top, right, bottom] = [b[0], b[1], b[2], b[3]].map(|v| v.round());
        println!(
            "  {:5.1} %  from ({left}, {top}) to ({right}, {bottom})",
            100.0 * score
        );
    }
    let labels: Vec<String> = scores
        .iter()
        .map(|s| format!("{:.0} %", 100.0 * s))
        .collect();
    let options = utils::BoxOptions::new().labels(labels).width(3);
    let drawn = utils::draw_bounding_boxes_with(&image, &boxes, options)?;
    let path = args.out.join("faces.png");
    io::write_png(&drawn, &path)?;
    println!("wrote {}", path.display());
    Ok(())
}

/// Trains a classifier, and shows what it says of images and what its layers compute.
fn classify(args: &Args) -> Result<()> {
    let folder = |bytes: &[u8]| idx::read_bytes(bytes);
    let images = folder(include_bytes!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../data/fashion-mnist/t10k-images-idx3-ubyte.gz"
    )))?;
    let labels = folder(include_bytes!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../data/fashion-mnist/t10k-labels-idx1-ubyte.gz"
    )))?
    .to_dtype(DType::I64)?;
    let images = images.unsqueeze(1)?.to_dtype(DType::F32)?.div(255.0)?;
    let images = images.sub(0.286)?.div(0.353)?;
    let part = |from: i64, n: usize| -> Result<TensorDataset<(Tensor, Tensor)>> {
        Ok(TensorDataset::new(
            images.narrow(0, from, n)?,
            labels.narrow(0, from, n)?,
        ))
    };
    let augment = Compose::new()
        .then(RandomCrop::new(28).padding(2))
        .then(RandomHorizontalFlip::new(0.5)?);
    let train = MapDataset::new(part(0, 8000)?, move |(x, y): (Tensor, Tensor)| {
        Ok((augment.apply(&x)?.expand([3, 28, 28])?, y))
    });
    let loader = DataLoader::builder(train)
        .batch_size(64)
        .shuffle(true)
        .seed(args.seed)
        .build()?;
    let net = ResNet::builder()
        .block(ResNetBlock::Basic)
        .layers([2, 2, 2, 2])
        .num_classes(CLASSES.len())
        .build()?;
    println!(
        "\nResNet-18 with {} parameters, {} s on 8,000 images:",
        net.num_parameters(),
        args.seconds
    );
    let optimizer = AdamW::new(net.parameters(), args.lr)?;
    let limit = Duration::from_secs_f64(args.seconds);
    let start = Instant::now();
    let bar = common::progress(1000);
    let mut epoch = 0;
    'training: loop {
        epoch += 1;
        net.train();
        let (mut sum, mut batches) = (0.0, 0);
        for batch in loader.try_iter() {
            let done = start.elapsed().as_secs_f64() / limit.as_secs_f64();
            if done >= 1.0 {
                break 'training;
            }
            // The rate falls along a cosine over the time.
            optimizer.set_lr(args.lr * 0.5 * (1.0 + (std::f64::consts::PI * done).cos()));
            let (x, y) = batch?;
            optimizer.zero_grad();
            let loss = F::cross_entropy(&net.forward(&x)?, &y)?;
            loss.backward()?;
            optimizer.step()?;
            sum += loss.item::<f64>()?;
            batches += 1;
            bar.set_message(format!("loss {:.3}", sum / batches as f64));
            bar.set_position((1000.0 * done) as u64);
        }
        bar.suspend(|| println!("  epoch {epoch:2}: loss {:.4}", sum / batches as f64));
    }
    bar.finish_and_clear();

    net.eval();
    let test = images.narrow(0, 8000, 2000)?.expand([2000, 3, 28, 28])?;
    let scores = no_grad(|| -> Result<Tensor> {
        let parts = (0..2000)
            .step_by(250)
            .map(|i| net.forward(&test.narrow(0, i, 250)?));
        F::softmax(&cat(&parts.collect::<Result<Vec<_>>>()?, 0)?, 1)
    })?;
    let truth = labels.narrow(0, 8000, 2000)?;
    let right = scores
        .argmax_dim(1, false)?
        .eq(&truth)?
        .to_dtype(DType::F64)?
        .mean()?
        .item::<f64>()?;
    println!(
        "accuracy on the 2,000 held-out images: {:.1} %",
        100.0 * right
    );
    println!("\nthe five classes with the highest probabilities, of four held-out images:");
    for i in 0..4 {
        let (top, classes) = scores.i(i)?.topk(5)?;
        let named = top
            .to_vec::<f32>()?
            .into_iter()
            .zip(classes.to_vec::<i64>()?);
        let line: Vec<String> = named
            .map(|(p, c)| format!("{} {:.1} %", CLASSES[c as usize], 100.0 * p))
            .collect();
        println!(
            "  {:10} {}",
            CLASSES[truth.i(i)?.item::<i64>()? as usize],
            line.join(", ")
        );
    }

    // What the first layers make of an image: one picture per channel.
    let names = ["conv1", "layer1", "layer2"];
    let features =
        no_grad(|| create_feature_extractor(&net, names)?.forward(&test.narrow(0, 0, 1)?))?;
    for (name, maps) in &features {
        let maps = maps.i(0)?.unsqueeze(1)?;
        let maps = maps
            .narrow(0, 0, 32)?
            .repeat_interleave(4, -1)?
            .repeat_interleave(4, -2)?;
        let path = args.out.join(format!("{name}.png"));
        let grid = utils::GridOptions::new()
            .nrow(8)
            .normalize(true)
            .scale_each(true);
        utils::save_image_with(&maps, &path, grid)?;
        println!(
            "wrote {}: {} maps of {name}",
            path.display(),
            maps.dims()[0]
        );
    }
    Ok(())
}
