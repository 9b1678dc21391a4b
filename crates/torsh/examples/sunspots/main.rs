//! Forecasts the yearly number of sunspots with an LSTM, against two naive forecasts.
//!
//! ```text
//! cargo run --release -p torsh --example sunspots
//! ```

#[path = "../common/mod.rs"]
mod common;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use common::{at, positive};
use torsh::data::csv::CsvReader;
use torsh::prelude::*;
use torsh::train::plot::{Panel, Plot, Series};

/// Learn the yearly number of sunspots from 1700 on, and forecast each of the last years from
/// those before it.
#[derive(Parser, Debug)]
#[command(name = "sunspots")]
struct Args {
    /// How often the years to learn from are seen
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u32).range(1..))]
    epochs: u32,
    /// The learning rate
    #[arg(long, default_value_t = 5e-3, value_parser = positive)]
    lr: f64,
    /// Years that a forecast sees
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u32).range(11..=100))]
    window: u32,
    /// Years at the end that are forecast
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(2..=150))]
    held_out: u32,
    /// Where the random numbers start from
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Where the picture goes
    #[arg(long, value_name = "DIR", default_value = "target/sunspots")]
    out: PathBuf,
}

fn main() -> ExitCode {
    common::exit(run(&Args::parse()))
}

/// An LSTM over the years of a window and a line from its last state to the next year.
#[derive(Module)]
struct Forecaster {
    lstm: LSTM,
    out: Linear,
}

impl Module for Forecaster {
    /// Windows `[n, years, 1]` in, the year after each `[n]` out.
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (states, _) = self.lstm.forward_with(x, None)?;
        // What the LSTM adds to the last year: without it the forecast is "as this year".
        let change = self.out.forward(&states.select(1, -1)?)?.squeeze(1)?;
        x.select(1, -1)?.squeeze(1)?.add(&change)
    }
}

/// The square root of the mean squared difference.
fn rmse(forecast: &Tensor, truth: &Tensor) -> Result<f64> {
    F::mse_loss(forecast, truth)?.sqrt()?.item::<f64>()
}

fn run(args: &Args) -> Result<()> {
    let start = Instant::now();
    manual_seed(args.seed);
    let table = CsvReader::new().read_bytes(include_bytes!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../data/sunspots/yearly.csv"
    )))?;
    let years = table.features.select(1, 0)?.to_vec::<f64>()?;
    let spots = table.features.select(1, 1)?;
    let (window, held_out) = (args.window as usize, args.held_out as usize);
    let n = spots.numel() - window;

    // Window i is the years i .. i + window, and its target the year after it. The square root
    // evens out the spread, which grows with the number.
    let scaled = spots.sqrt()?.div(10.0)?;
    let windows = scaled.unfold(0, window, 1)?.narrow(0, 0, n)?.unsqueeze(2)?;
    let targets = scaled.narrow(0, window, n)?;
    let truth = spots.narrow(0, window + n - held_out, held_out)?;
    let (train_x, train_y) = (
        windows.narrow(0, 0, n - held_out)?,
        targets.narrow(0, 0, n - held_out)?,
    );
    let test_x = windows.narrow(0, n - held_out, held_out)?;
    println!(
        "{} windows of {window} years to learn from, {held_out} to forecast",
        n - held_out
    );

    let net = Forecaster {
        lstm: LSTM::builder(1, 32).batch_first(true).build()?,
        out: Linear::new(32, 1),
    };
    let optimizer = Adam::new(net.parameters(), args.lr)?;
    let epochs = args.epochs as usize;
    let schedule = CosineAnnealingLR::new(&optimizer, epochs, 0.0)?;
    let bar = common::progress(epochs);
    for epoch in 1..=epochs {
        optimizer.zero_grad();
        let loss = F::mse_loss(&net.forward(&train_x)?, &train_y)?;
        loss.backward()?;
        clip_grad_norm_(net.parameters(), 1.0)?;
        optimizer.step()?;
        schedule.step()?;
        let value = loss.item::<f64>()?;
        if !value.is_finite() {
            return Err(TorshError::Other(format!(
                "the loss became {value} in epoch {epoch}: try a smaller --lr"
            )));
        }
        bar.set_message(format!("loss {value:.5}"));
        bar.inc(1);
    }
    bar.finish_and_clear();

    let forecast = no_grad(|| net.forward(&test_x)?.relu()?.mul(10.0)?.square())?;
    let first = window + n - held_out;
    let ours = rmse(&forecast, &truth)?;
    let last_year = rmse(&spots.narrow(0, first - 1, held_out)?, &truth)?;
    let last_cycle = rmse(&spots.narrow(0, first - 11, held_out)?, &truth)?;
    println!("root of the mean squared error over the last {held_out} years:");
    println!("  LSTM                        {ours:6.2}");
    println!("  the same as last year       {last_year:6.2}");
    println!("  the same as 11 years ago    {last_cycle:6.2}");
    println!("{:.1} s", start.elapsed().as_secs_f64());

    std::fs::create_dir_all(&args.out).map_err(|e| at(&args.out, e))?;
    let path = args.out.join("forecast.png");
    let series = |name, values: Vec<f64>, color| {
        let points = years[first..].iter().copied().zip(values);
        Series::new(name, points).color(color).markers(false)
    };
    let last_years = spots.narrow(0, first - 1, held_out)?.to_vec()?;
    let panel = Panel::new("Sunspots")
        .x_label("year")
        .series(series("observed", truth.to_vec()?, [40, 44, 52]))
        .series(series("as last year", last_years, [31, 119, 180]))
        .series(series(
            "LSTM, one year ahead",
            forecast.to_vec()?,
            [255, 127, 14],
        ));
    Plot::new().panel(panel).size(1240, 520).save(&path)?;
    println!("wrote {}", path.display());
    Ok(())
}
