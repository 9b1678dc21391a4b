//! Times transforms of images; `benches/torchvision_transforms.py` times the same in torchvision.
//!
//! ```text
//! cargo run --release -p torsh-bench --bin torsh-bench-transforms -- [--list] [--threads N] [NAME_PART ...]
//! ```
//!
//! The lines are those of `torsh-bench`.

#![forbid(unsafe_code)]

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use torsh_bench::harness::{Mode, Suite};
use torsh_core::pool;
use torsh_tensor::{DType, Result, Tensor};
use torsh_vision::io::{decode_image, write_jpeg_with};
use torsh_vision::transforms::{
    CenterCrop, ColorJitter, Compose, GaussianBlur, Normalize, RandomAffine, RandomResizedCrop,
    Resize, ToDtype, Transform,
};

/// Times the transforms and prints a JSON line for each.
#[derive(Debug, Parser)]
#[command(name = "torsh-bench-transforms", version)]
struct Args {
    /// Only those whose names contain one of these
    #[arg(value_name = "NAME_PART")]
    only: Vec<String>,
    /// Print the names and time nothing
    #[arg(long)]
    list: bool,
    /// Threads of one call; all cores by default
    #[arg(long, value_name = "N")]
    threads: Option<std::num::NonZeroUsize>,
    /// Seconds that the timed rounds of one call take together
    #[arg(long, value_name = "SECONDS", default_value_t = 0.35)]
    budget: f64,
    /// The JPEG file that is decoded, of 1024 x 768 pixels; written where there is none
    #[arg(long, value_name = "FILE", default_value = "target/torsh-bench.jpg")]
    jpeg: PathBuf,
}

/// A smooth picture with some noise, uint8 `[3, h, w]`.
fn picture(h: usize, w: usize) -> Result<Tensor> {
    let mut noise = 1u32;
    let mut data = Vec::with_capacity(3 * h * w);
    for c in 0..3 {
        for y in 0..h {
            for x in 0..w {
                noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let wave = ((x * (c + 1)) as f64 / 37.0).sin() + (y as f64 / 23.0).cos();
                data.push((128.0 + 50.0 * wave + f64::from(noise >> 28)) as u8);
            }
        }
    }
    Tensor::from_bytes(&data, DType::U8, [3, h, w])
}

fn register(s: &mut Suite<'_>, jpeg: &Path) {
    let mut row = |name: &str, (h, w): (usize, usize), t: Box<dyn Transform>| {
        let make = || {
            let image = picture(h, w)?;
            Ok::<_, torsh_tensor::TorshError>(move || t.apply(&image))
        };
        s.bench(name, make, 0, 3 * h * w);
    };
    let must = |t: Result<Box<dyn Transform>>| t.unwrap_or_else(|e| panic!("{e}"));
    row(
        "resize_1024_224_u8",
        (1024, 1024),
        must(Resize::new([224, 224]).map(|t| Box::new(t) as _)),
    );
    let jitter = || {
        ColorJitter::new()
            .brightness(0.4)?
            .contrast(0.4)?
            .saturation(0.4)?
            .hue(0.1)
    };
    row(
        "color_jitter_512_u8",
        (512, 512),
        must(jitter().map(|t| Box::new(t) as _)),
    );
    row(
        "random_resized_crop_512_224_u8",
        (512, 512),
        Box::new(RandomResizedCrop::new(224)),
    );
    row(
        "gaussian_blur_5_512_u8",
        (512, 512),
        must(GaussianBlur::new(5).map(|t| Box::new(t) as _)),
    );
    row(
        "random_affine_512_u8",
        (512, 512),
        must(RandomAffine::new(30.0).map(|t| Box::new(t) as _)),
    );
    let make = || {
        if !jpeg.exists() {
            write_jpeg_with(&picture(768, 1024)?, jpeg, 90)?;
        }
        let file = std::fs::read(jpeg)?;
        let t = Compose::<Tensor>::new()
            .then(Resize::new(256)?)
            .then(CenterCrop::new(224))
            .then(ToDtype::new(DType::F32).scale(true))
            .then(Normalize::new(
                [0.485, 0.456, 0.406],
                [0.229, 0.224, 0.225],
            )?);
        Ok::<_, torsh_tensor::TorshError>(move || t.apply(&decode_image(&file)?))
    };
    s.bench(
        "decode_resize_normalize_jpeg_1024x768",
        make,
        0,
        3 * 768 * 1024,
    );
}

fn main() -> ExitCode {
    let args = Args::parse();
    if let Some(n) = args.threads
        && let Err(e) = pool::set_num_threads(n.get())
    {
        eprintln!("torsh-bench-transforms: --threads: {e}");
        return ExitCode::from(2);
    }
    torsh_core::random::manual_seed(0);
    let mode = match args.list {
        true => Mode::List,
        false => Mode::Time {
            budget: args.budget,
        },
    };
    let mut out = io::stdout().lock();
    let mut suite = Suite::new(mode, args.only, &mut out);
    register(&mut suite, &args.jpeg);
    match suite.finish() {
        Ok(summary) if summary.failed == 0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
