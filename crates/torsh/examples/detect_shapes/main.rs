//! Trains Faster R-CNN from scratch to find circles, squares and triangles, which the program draws itself.
//!
//! ```text
//! cargo run --release -p torsh --features vision --example detect_shapes
//! ```

#[path = "../common/mod.rs"]
mod common;
mod shapes;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use common::canvas::{self, Canvas, INK, PAPER};
use common::positive;
use noto_sans_mono_bitmap::{FontWeight, RasterHeight};
use torsh::metrics::{CocoEvaluation, CocoKind, FoundObjects, TrueObjects};
use torsh::prelude::*;
use torsh::vision::models::blocks::{Conv2dNormActivation, FeatureMaps};
use torsh::vision::models::detection::{
    AnchorGenerator, Backbone, Detection, FastRCNNPredictor, FasterRCNN, RCNNParts, Target,
    TwoMLPHead,
};
use torsh::vision::ops::MultiScaleRoIAlign;

use shapes::{NAMES, SIDE, Shapes};

/// Train a detector on drawn shapes, and measure it on others.
#[derive(Parser, Debug)]
#[command(name = "detect_shapes")]
struct Args {
    /// How many batches of four images are learned from
    #[arg(long, default_value_t = 700)]
    steps: usize,
    /// The highest learning rate
    #[arg(long, default_value_t = 2e-3, value_parser = positive)]
    lr: f64,
    /// How many other images it is measured on
    #[arg(long, default_value_t = 100)]
    test: usize,
    /// Where the random numbers start from
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Where the picture goes
    #[arg(long, value_name = "FILE", default_value = "target/detect_shapes.png")]
    out: PathBuf,
}

fn main() -> ExitCode {
    common::exit(run(&Args::parse()))
}

/// Five convolutions; the result is an eighth of the image's size.
#[derive(Module)]
struct Small {
    layers: Sequential,
}

const WIDTH: usize = 64;

impl Small {
    fn new() -> Result<Small> {
        let mut layers = Sequential::new();
        for (inputs, outputs, stride) in [
            (3, 16, 2),
            (16, 32, 2),
            (32, 64, 2),
            (64, 64, 1),
            (64, WIDTH, 1),
        ] {
            layers.push(
                Conv2dNormActivation::builder(inputs, outputs)
                    .stride(stride)
                    .build()?,
            );
        }
        Ok(Small { layers })
    }
}

impl Module for Small {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.layers.forward(x)
    }
}

impl Backbone for Small {
    fn features(&self, x: &Tensor) -> Result<FeatureMaps> {
        Ok(vec![("0".into(), self.forward(x)?)])
    }

    fn out_channels(&self) -> Vec<usize> {
        vec![WIDTH]
    }
}

fn model() -> Result<FasterRCNN> {
    let sizes = vec![vec![18.0, 28.0, 40.0]];
    let parts = RCNNParts {
        box_head: Some(Box::new(TwoMLPHead::new(WIDTH * 5 * 5, 128)?)),
        box_predictor: Some(FastRCNNPredictor::new(128, NAMES.len())?),
        ..RCNNParts::default()
    };
    FasterRCNN::builder()
        .num_classes(NAMES.len())
        .min_size(vec![SIDE])
        .max_size(SIDE)
        .rpn_anchor_generator(AnchorGenerator::new(sizes, vec![vec![1.0]])?)
        .rpn_pre_nms_top_n_train(200)
        .rpn_post_nms_top_n_train(100)
        .rpn_pre_nms_top_n_test(100)
        .rpn_post_nms_top_n_test(50)
        .rpn_batch_size_per_image(64)
        .box_batch_size_per_image(32)
        .box_roi_pool(MultiScaleRoIAlign::new(["0"], (5, 5), 2))
        .build_of(Small::new()?, parts)
}

fn run(args: &Args) -> Result<()> {
    manual_seed(args.seed);
    let model = model()?;
    println!("{} parameters", model.num_parameters());
    let optimizer = AdamW::builder(model.parameters()).lr(args.lr).build()?;
    let schedule = OneCycleLR::new(&optimizer, args.lr, args.steps)?;
    let mut drawn = Shapes::new(args.seed);
    let start = Instant::now();
    for step in 1..=args.steps {
        let (images, targets) = drawn.batch(4)?;
        let losses = model.losses(&images, &targets)?;
        optimizer.zero_grad();
        losses.total()?.backward()?;
        optimizer.step()?;
        schedule.step()?;
        if step % 50 == 0 || step == args.steps {
            println!(
                "step {step:4}: {losses}, {:.0} s",
                start.elapsed().as_secs_f64()
            );
        }
    }

    // Other shapes than those that were learned from.
    model.eval();
    let mut other = Shapes::new(args.seed + 1);
    let mut coco = CocoEvaluation::new(CocoKind::Boxes);
    let mut shown = Vec::new();
    for _ in 0..args.test.div_ceil(4) {
        let (images, targets) = other.batch(4)?;
        let found = model.detect(&images)?;
        let objects = found
            .iter()
            .map(|d| FoundObjects::new(d.boxes.clone(), d.scores.clone(), d.labels.clone()));
        let truth = targets
            .iter()
            .map(|t| TrueObjects::new(t.boxes.clone(), t.labels.clone()));
        coco.update(&objects.collect::<Vec<_>>(), &truth.collect::<Vec<_>>())?;
        if shown.len() < 12 {
            shown.extend(images.into_iter().zip(targets).zip(found));
        }
    }
    let summary = coco.compute()?;
    println!(
        "mAP50 {:.3}, mAP {:.3} on {} images",
        summary.ap50,
        summary.ap,
        args.test.div_ceil(4) * 4
    );
    picture(&shown, args)
}

const COLORS: [canvas::Rgb; 4] = [INK, [255, 90, 60], [40, 200, 90], [70, 130, 255]];

/// Draws images with what was found in them.
fn picture(shown: &[((Tensor, Target), Detection)], args: &Args) -> Result<()> {
    const SCALE: i64 = 2;
    const COLUMNS: i64 = 4;
    let (side, gap) = (SIDE as i64 * SCALE, 8);
    let rows = shown.len().div_ceil(COLUMNS as usize) as i64;
    let mut page = Canvas::new(
        COLUMNS * (side + gap) + gap,
        rows * (side + gap) + gap,
        PAPER,
    );
    for (i, ((image, _), found)) in (0i64..).zip(shown) {
        let (left, top) = (
            gap + i % COLUMNS * (side + gap),
            gap + i / COLUMNS * (side + gap),
        );
        let pixels = image
            .mul(255.0)?
            .permute([1, 2, 0])?
            .to_dtype(DType::U8)?
            .to_vec::<u8>()?;
        for (at, pixel) in (0i64..).zip(pixels.chunks_exact(3)) {
            let (x, y) = (at % SIDE as i64, at / SIDE as i64);
            let color = [pixel[0], pixel[1], pixel[2]];
            canvas::fill(
                &mut page,
                left + x * SCALE,
                top + y * SCALE,
                SCALE,
                SCALE,
                color,
            );
        }
        let found = found.above(0.5)?;
        let (boxes, labels) = (found.boxes.to_vec::<f64>()?, found.labels.to_vec::<i64>()?);
        for (corners, label) in boxes.chunks_exact(4).zip(labels) {
            let [x1, y1, x2, y2] =
                [corners[0], corners[1], corners[2], corners[3]].map(|v| (v * SCALE as f64) as i64);
            let (x, y, w, h) = (left + x1, top + y1, x2 - x1, y2 - y1);
            let color = COLORS[label as usize % COLORS.len()];
            for (x, y, w, h) in [
                (x, y, w, 2),
                (x, y + h - 2, w, 2),
                (x, y, 2, h),
                (x + w - 2, y, 2, h),
            ] {
                canvas::fill(&mut page, x, y, w, h, color);
            }
            let name = NAMES[label as usize % NAMES.len()];
            let (size, weight) = (RasterHeight::Size16, FontWeight::Bold);
            canvas::text(&mut page, x + 3, y + 2, name, size, weight, color);
        }
    }
    if let Some(folder) = args.out.parent() {
        std::fs::create_dir_all(folder)?;
    }
    page.save(&args.out)?;
    println!("{} shows some of them", args.out.display());
    Ok(())
}
