//! Draws the spectrogram of a chirp, and gets the signal back from its spectra.
//!
//! ```text
//! cargo run --release -p torsh --example spectrogram
//! ```

#[path = "../common/mod.rs"]
mod common;

use std::f64::consts::TAU;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use common::canvas::{Canvas, INK, PAPER, Rgb, fill, text, text_width};
use common::{at, positive};
use noto_sans_mono_bitmap::{FontWeight, RasterHeight};
use torsh::prelude::*;
use torsh::{IstftOptions, StftOptions, hann_window};

/// Draw the spectrogram of a tone that rises from one frequency to another, and compute the tone
/// from its spectra.
#[derive(Parser, Debug)]
#[command(name = "spectrogram")]
struct Args {
    /// Samples per second
    #[arg(long, default_value_t = 16_000, value_parser = clap::value_parser!(u32).range(1000..=192_000))]
    rate: u32,
    /// Length in seconds
    #[arg(long, default_value_t = 4.0, value_parser = positive)]
    seconds: f64,
    /// Frequency at the start, in hertz
    #[arg(long, default_value_t = 200.0, value_parser = positive)]
    from: f64,
    /// Frequency at the end, in hertz
    #[arg(long, default_value_t = 7000.0, value_parser = positive)]
    to: f64,
    /// Where the picture goes
    #[arg(long, value_name = "DIR", default_value = "target/spectrogram")]
    out: PathBuf,
}

/// Samples of a frame, and from one frame to the next.
const FRAME: i64 = 512;
const HOP: i64 = 128;

fn main() -> ExitCode {
    common::exit(run(&Args::parse()))
}

fn run(args: &Args) -> Result<()> {
    let samples = (f64::from(args.rate) * args.seconds) as i64;
    if !(FRAME..=100_000_000).contains(&samples) {
        return Err(TorshError::Other(format!(
            "{samples} samples: choose --rate and --seconds so that there are {FRAME} to 100,000,000"
        )));
    }
    // The frequency grows linearly, so the phase is its integral. Phases need float64.
    let time = arange(0.0, samples as f64, 1.0)
        .to_dtype(DType::F64)?
        .div(f64::from(args.rate))?;
    let slope = (args.to - args.from) / args.seconds;
    let phase = time.mul(args.from)?.add(time.square()?.mul(slope / 2.0)?)?;
    let signal = phase.mul(TAU)?.sin()?.to_dtype(DType::F32)?;

    let window = hann_window(FRAME)?;
    let options = StftOptions::new().hop_length(HOP).window(window.clone());
    let spectra = signal.stft_with(FRAME, options)?;
    println!(
        "{samples} samples became {} frames of {} frequencies",
        spectra.dims()[1],
        spectra.dims()[0]
    );

    std::fs::create_dir_all(&args.out).map_err(|e| at(&args.out, e))?;
    let path = args.out.join("spectrogram.png");
    draw(&spectra, args)?.save(&path)?;
    println!("wrote {}", path.display());

    let options = IstftOptions::new()
        .hop_length(HOP)
        .window(window)
        .length(samples);
    let back = spectra.istft_with(FRAME, options)?;
    let error = back.sub(&signal)?.abs()?.max()?.item::<f64>()?;
    println!("the signal from its spectra differs by {error:.1e} at most");
    match error <= 1e-6 {
        true => Ok(()),
        false => Err(TorshError::Other(format!(
            "the signal from its spectra differs by {error:e}"
        ))),
    }
}

/// Decibels below the loudest that are black.
const RANGE: f64 = 80.0;
const WIDTH: i64 = 800;
const HEIGHT: i64 = 400;

/// The magnitude of spectra in decibels: time to the right, frequency upwards.
fn draw(spectra: &Tensor, args: &Args) -> Result<Canvas> {
    let (left, top, right, bottom) = (96, 48, 24, 56);
    let mut img = Canvas::new(left + WIDTH + right, top + HEIGHT + bottom, PAPER);
    let magnitude = spectra.abs()?;
    let decibels = magnitude
        .div(magnitude.max()?)?
        .clamp_min(1e-8)?
        .log10()?
        .mul(20.0)?;
    let levels = decibels.to_dtype(DType::F64)?.to_vec::<f64>()?;
    let (rows, columns) = (spectra.dims()[0] as i64, spectra.dims()[1] as i64);
    for y in 0..HEIGHT {
        let row = (HEIGHT - 1 - y) * rows / HEIGHT;
        for x in 0..WIDTH {
            let level = levels[(row * columns + x * columns / WIDTH) as usize];
            fill(
                &mut img,
                left + x,
                top + y,
                1,
                1,
                color(1.0 + level / RANGE),
            );
        }
    }
    let (size, plain) = (RasterHeight::Size16, FontWeight::Regular);
    let title = format!(
        "A tone from {} to {} Hz, {} dB below the loudest to 0 dB",
        args.from, args.to, RANGE
    );
    text(
        &mut img,
        left,
        14,
        &title,
        RasterHeight::Size20,
        FontWeight::Bold,
        INK,
    );
    for i in 0..=4 {
        let share = f64::from(i) / 4.0;
        let hertz = format!("{:.0} Hz", share * f64::from(args.rate) / 2.0);
        let y = top + ((1.0 - share) * (HEIGHT - 1) as f64) as i64;
        let x = left - 12 - text_width(&hertz, size, plain);
        text(&mut img, x, y - 8, &hertz, size, plain, INK);
        fill(&mut img, left - 8, y, 8, 1, INK);
        let seconds = format!("{:.1} s", share * args.seconds);
        let x = left + (share * (WIDTH - 1) as f64) as i64;
        fill(&mut img, x, top + HEIGHT, 1, 8, INK);
        let half = text_width(&seconds, size, plain) / 2;
        text(
            &mut img,
            x - half,
            top + HEIGHT + 14,
            &seconds,
            size,
            plain,
            INK,
        );
    }
    Ok(img)
}

/// From black over violet and orange to a light yellow, for numbers from 0 to 1.
fn color(level: f64) -> Rgb {
    const STOPS: [[f64; 3]; 5] = [
        [0.0, 0.0, 4.0],
        [81.0, 18.0, 124.0],
        [183.0, 55.0, 121.0],
        [252.0, 137.0, 97.0],
        [252.0, 253.0, 191.0],
    ];
    let place = level.clamp(0.0, 1.0) * (STOPS.len() - 1) as f64;
    let stop = (place as usize).min(STOPS.len() - 2);
    let share = place - stop as f64;
    std::array::from_fn(|c| {
        (STOPS[stop][c] * (1.0 - share) + STOPS[stop + 1][c] * share).round() as u8
    })
}
