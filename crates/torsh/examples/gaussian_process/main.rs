//! Forecasts the CO2 of the air with a Gaussian process whose kernel is learned by gradients.
//!
//! ```text
//! cargo run --release -p torsh --features linalg --example gaussian_process
//! ```
//!
//! The kernel is the one of Rasmussen and Williams, "Gaussian Processes for Machine Learning" (2006), section 5.4.3: a
//! smooth trend, a yearly cycle whose shape changes slowly, irregularities of several lengths, and noise.

#[path = "../common/mod.rs"]
mod common;

use std::f64::consts::{PI, TAU};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use common::{at, positive};
use torsh::prelude::*;
use torsh::train::plot::{Panel, Plot, Series};

/// Learn the kernel of a Gaussian process from monthly means of CO2, and forecast the years that follow.
#[derive(Parser, Debug)]
#[command(name = "gaussian_process")]
struct Args {
    /// Steps of Adam on the kernel's parameters
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    steps: u32,
    /// The learning rate
    #[arg(long, default_value_t = 0.05, value_parser = positive)]
    lr: f64,
    /// Years at the end that are forecast and not learned from
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=30))]
    held_out: u32,
    /// Where the picture goes
    #[arg(long, value_name = "DIR", default_value = "target/gaussian_process")]
    out: PathBuf,
}

fn main() -> ExitCode {
    common::exit(run(&Args::parse()))
}

/// Time in years and CO2 in parts per million, a mean for each month that was measured.
fn months() -> Result<(Vec<f64>, Vec<f64>)> {
    let text = include_str!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../data/co2/weekly.csv"
    ));
    // The month as a number, the sum and how many weeks it is of.
    let mut all: Vec<(f64, f64, f64)> = Vec::new();
    for (i, line) in text.lines().enumerate().skip(1) {
        let wrong = || TorshError::Other(format!("weekly.csv, line {}: {line}", i + 1));
        let (date, ppm) = line.split_once(',').ok_or_else(wrong)?;
        if ppm.is_empty() {
            continue;
        }
        let (date, ppm) = (
            date.parse::<u32>().map_err(|_| wrong())?,
            ppm.parse::<f64>().map_err(|_| wrong())?,
        );
        let month = f64::from(date / 10_000) + (f64::from(date / 100 % 100) - 0.5) / 12.0;
        match all.last_mut() {
            Some((m, sum, weeks)) if *m == month => {
                *sum += ppm;
                *weeks += 1.0;
            }
            _ => all.push((month, ppm, 1.0)),
        }
    }
    Ok(all
        .into_iter()
        .map(|(m, sum, weeks)| (m, sum / weeks))
        .unzip())
}

/// The parameters of the kernel, their names and where they start; what is learned are their logarithms.
const PARAMETERS: [(&str, f64); 11] = [
    ("trend, ppm", 5.0),
    ("trend, years", 10.0),
    ("season, ppm", 2.0),
    ("season's change, years", 100.0),
    ("season's smoothness", 1.0),
    ("irregularities, ppm", 0.5),
    ("irregularities, years", 1.0),
    ("irregularities' shape", 1.0),
    ("weather, ppm", 0.2),
    ("weather, years", 0.1),
    ("noise, ppm", 0.2),
];

/// The covariance of the values at times `a` with those at times `b`, without the noise.
fn kernel(logs: &Tensor, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let p = |i: usize| logs.select(0, i)?.exp();
    let d = a.unsqueeze(1)?.sub(&b.unsqueeze(0)?)?;
    let squared = d.square()?;
    // exp(-d^2 / 2 l^2)
    let bell = |l: Tensor| squared.div(&l.square()?.mul(-2.0)?)?.exp();
    let trend = bell(p(1)?)?.mul(&p(0)?.square()?)?;
    let cycle = d.mul(PI)?.sin()?.div(&p(4)?)?.square()?.mul(-2.0)?.exp()?;
    let season = bell(p(3)?)?.mul(&cycle)?.mul(&p(2)?.square()?)?;
    let shape = p(7)?;
    let scaled = squared.div(&p(6)?.square()?.mul(&shape)?.mul(2.0)?)?;
    let irregular = scaled.add(1.0)?.pow(&shape.neg()?)?.mul(&p(5)?.square()?)?;
    let weather = bell(p(9)?)?.mul(&p(8)?.square()?)?;
    trend.add(&season)?.add(&irregular)?.add(&weather)
}

/// The covariance of noisy values at times `t`.
fn covariance(logs: &Tensor, t: &Tensor) -> Result<Tensor> {
    let noise = logs.select(0, PARAMETERS.len() - 1)?.exp()?.square()?;
    let noise = Tensor::eye(t.numel(), DType::F64, Device::Cpu)?.mul(&noise)?;
    kernel(logs, t, t)?.add(&noise)
}

fn run(args: &Args) -> Result<()> {
    let start = Instant::now();
    let (years, ppm) = months()?;
    let n = years.len() - 12 * args.held_out as usize;
    let t = Tensor::from_slice(&years, [years.len()], DType::F64, Device::Cpu)?;
    let y = Tensor::from_slice(&ppm, [ppm.len()], DType::F64, Device::Cpu)?;
    let (seen, later) = (t.narrow(0, 0, n)?, t.narrow(0, n, t.numel() - n)?);
    // The mean is a parabola, fitted by least squares: without one, forecasts return to a constant.
    let parabola = |t: &Tensor| {
        let t = t.sub(years[n / 2])?.div(10.0)?;
        Tensor::stack(&[t.ones_like()?, t.clone(), t.square()?], 1)
    };
    let known = y.narrow(0, 0, n)?;
    let coefficients = linalg::lstsq(&parabola(&seen)?, &known.unsqueeze(1)?)?.solution;
    let mean = |t: &Tensor| parabola(t)?.matmul(&coefficients)?.squeeze(1);
    let centred = known.sub(&mean(&seen)?)?;
    println!("{n} months to learn from, {} to forecast", later.numel());

    let initial = PARAMETERS.map(|(_, value)| value.ln());
    let logs = Tensor::from_slice(&initial, [initial.len()], DType::F64, Device::Cpu)?;
    let logs = logs.requires_grad_(true);
    let optimizer = Adam::new(vec![logs.clone()], args.lr)?;
    let bar = common::progress(args.steps as usize);
    let mut loss = f64::INFINITY;
    for step in 1..=args.steps {
        optimizer.zero_grad();
        // The negative logarithm of the density of what was seen: (y' K^-1 y + log det K + n log 2 pi) / 2.
        let k = covariance(&logs, &seen)?;
        let l = linalg::cholesky(&k)?;
        let whitened = linalg::solve_triangular(&l, &centred.unsqueeze(1)?, false)?;
        let logdet = l.diagonal()?.log()?.sum()?.mul(2.0)?;
        let nll = whitened.square()?.sum()?.add(&logdet)?;
        let nll = nll.add(n as f64 * TAU.ln())?.div(2.0)?;
        nll.backward()?;
        optimizer.step()?;
        loss = nll.item::<f64>()?;
        if !loss.is_finite() {
            return Err(TorshError::Other(format!(
                "the loss became {loss} in step {step}: try a smaller --lr"
            )));
        }
        bar.set_message(format!("negative log likelihood {loss:.2}"));
        bar.inc(1);
    }
    bar.finish_and_clear();
    println!(
        "negative log likelihood {loss:.2} after {} steps; the kernel:",
        args.steps
    );
    for ((name, _), log) in PARAMETERS.iter().zip(logs.detach().to_vec::<f64>()?) {
        println!("  {name:24} {:8.3}", log.exp());
    }

    // The mean of the forecast is k' K^-1 y, its variance that of the prior less what was learned.
    let (forecast, spread) = no_grad(|| {
        let k = covariance(&logs, &seen)?;
        let l = linalg::cholesky(&k)?;
        let cross = kernel(&logs, &seen, &later)?;
        let weights = linalg::solve_triangular(&l, &cross, false)?;
        let whitened = linalg::solve_triangular(&l, &centred.unsqueeze(1)?, false)?;
        let forecast = weights.t()?.matmul(&whitened)?.squeeze(1)?;
        let forecast = forecast.add(&mean(&later)?)?;
        let prior = covariance(&logs, &later)?.diagonal()?;
        let spread = prior.sub(&weights.square()?.sum_dim(0, false)?)?.sqrt()?;
        // The determinant of the same matrix another way, as a check.
        let halves = l.diagonal()?.log()?.sum()?.mul(2.0)?.item::<f64>()?;
        let logdet = k.logdet()?.item::<f64>()?;
        if (logdet - halves).abs() > 1e-6 * halves.abs() {
            return Err(TorshError::Other(format!(
                "logdet is {logdet} by LU and {halves} by Cholesky"
            )));
        }
        Ok((forecast, spread))
    })?;
    let truth = y.narrow(0, n, later.numel())?;
    let error = F::mse_loss(&forecast, &truth)?.sqrt()?.item::<f64>()?;
    let within = truth.sub(&forecast)?.abs()?.le(&spread.mul(2.0)?)?;
    let within = within.to_dtype(DType::F64)?.mean()?.item::<f64>()?;
    println!("root of the mean squared error of the forecast: {error:.2} ppm");
    println!(
        "within two standard deviations: {:.0} % of the months",
        100.0 * within
    );
    println!("{:.1} s", start.elapsed().as_secs_f64());

    std::fs::create_dir_all(&args.out).map_err(|e| at(&args.out, e))?;
    let path = args.out.join("co2.png");
    let line = |name, values: &Tensor, color| -> Result<Series> {
        let from = years.len() - values.numel();
        let points = years[from..].iter().copied().zip(values.to_vec::<f64>()?);
        Ok(Series::new(name, points).color(color).markers(false))
    };
    let from = n.saturating_sub(180);
    let last = y.narrow(0, from, y.numel() - from)?;
    let (band, two) = ([255, 187, 120], spread.mul(2.0)?);
    let panel = Panel::new("CO2 at Mauna Loa")
        .x_label("year")
        .y_label("ppm")
        .series(line("two standard deviations", &forecast.add(&two)?, band)?)
        .series(line("", &forecast.sub(&two)?, band)?)
        .series(line("forecast", &forecast, [255, 127, 14])?)
        .series(line("measured", &last, [40, 44, 52])?);
    Plot::new().panel(panel).size(1240, 560).save(&path)?;
    println!("wrote {}", path.display());
    Ok(())
}
