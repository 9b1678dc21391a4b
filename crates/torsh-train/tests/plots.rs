//! What charts show: pixels of the curves, legends, gaps, scales, errors.

use crate::common::{Scratch, blobs};
use torsh_data::{DataLoader, TensorDataset, decode_image};
use torsh_functional as F;
use torsh_nn::{Linear, ModuleExt};
use torsh_optim::SGD;
use torsh_tensor::{Result, Tensor};
use torsh_train::metrics::Accuracy;
use torsh_train::plot::{Panel, Plot, PlotOptions, Series};
use torsh_train::{EpochResults, History, Metrics, Trainer};

const BLUE: [u8; 3] = [31, 119, 180];
const ORANGE: [u8; 3] = [255, 127, 14];
const GREEN: [u8; 3] = [44, 160, 44];
const WHITE: [u8; 3] = [255; 3];

/// A decoded image.
#[derive(Debug, PartialEq)]
struct Image {
    width: u32,
    pixels: Vec<[u8; 3]>,
}

impl Image {
    fn width(&self) -> u32 {
        self.width
    }

    fn height(&self) -> u32 {
        self.pixels.len() as u32 / self.width
    }

    fn get_pixel(&self, x: u32, y: u32) -> [u8; 3] {
        self.pixels[(y * self.width + x) as usize]
    }

    fn enumerate_pixels(&self) -> impl Iterator<Item = (u32, u32, [u8; 3])> {
        let at = |i: usize| (i as u32 % self.width, i as u32 / self.width);
        let pixels = self.pixels.iter().enumerate();
        pixels.map(move |(i, p)| (at(i).0, at(i).1, *p))
    }

    fn crop(&self, x: u32, y: u32, width: u32, height: u32) -> Image {
        let rows = (y..y + height).flat_map(|y| (x..x + width).map(move |x| (x, y)));
        let pixels = rows.map(|(x, y)| self.get_pixel(x, y)).collect();
        Image { width, pixels }
    }
}

fn decode(png: &[u8]) -> Result<Image> {
    assert!(png.starts_with(b"\x89PNG"));
    let image = decode_image(png)?;
    let bytes = image.permute([1, 2, 0])?.contiguous()?.to_vec::<u8>()?;
    let pixels = bytes.chunks_exact(3).map(|p| [p[0], p[1], p[2]]).collect();
    let width = image.dims()[2] as u32;
    Ok(Image { width, pixels })
}

fn image_of(plot: &Plot) -> Result<Image> {
    decode(&plot.to_png()?)
}

/// An image of one series without a name, whose colour is then the curve's alone.
fn curve(panel: Panel, points: impl IntoIterator<Item = (f64, f64)>) -> Result<Image> {
    let series = Series::new("", points).markers(false);
    image_of(&Plot::new().panel(panel.series(series)))
}

/// Where a colour is: for each column of pixels that has it, the column and its middle.
fn columns(image: &Image, color: [u8; 3]) -> Vec<(f64, f64)> {
    let middle = |x: u32| {
        let ys = (0..image.height()).filter(|&y| image.get_pixel(x, y) == color);
        let ys: Vec<f64> = ys.map(f64::from).collect();
        (!ys.is_empty()).then(|| (f64::from(x), ys.iter().sum::<f64>() / ys.len() as f64))
    };
    (0..image.width()).filter_map(middle).collect()
}

fn count(image: &Image, color: [u8; 3]) -> usize {
    image.pixels.iter().filter(|p| **p == color).count()
}

/// The height of a curve at a share of its way from left to right, as a share of its own height:
/// 0 where it is lowest on the image, 1 where it is highest.
fn height_at(columns: &[(f64, f64)], share: f64) -> f64 {
    let low = columns.iter().fold(f64::MIN, |m, c| m.max(c.1));
    let high = columns.iter().fold(f64::MAX, |m, c| m.min(c.1));
    let (first, last) = (columns[0].0, columns[columns.len() - 1].0);
    let x = first + share * (last - first);
    let nearest = columns
        .iter()
        .min_by(|a, b| (a.0 - x).abs().total_cmp(&(b.0 - x).abs()));
    (low - nearest.unwrap().1) / (low - high)
}

fn close(a: f64, b: f64) {
    assert!((a - b).abs() < 0.02, "{a} is not {b}");
}

/// A loss that falls, an accuracy that rises, and a validation in every other epoch.
fn history(epochs: usize) -> History {
    let epoch = |i: usize| {
        let t = i as f64;
        let of = |worse: f64| {
            Metrics::from([
                ("loss".to_string(), 2.0 * (-0.5 * t).exp() + worse),
                ("accuracy".to_string(), 1.0 - 0.8 * (-0.4 * t).exp() - worse),
            ])
        };
        EpochResults {
            epoch: i,
            train_metrics: of(0.0),
            val_metrics: if i % 2 == 1 { of(0.1) } else { Metrics::new() },
            learning_rate: 0.1 / (1.0 + t),
        }
    };
    (0..epochs).map(epoch).collect()
}

fn refused(result: Result<impl std::fmt::Debug>, texts: &[&str]) {
    let error = result.unwrap_err().to_string();
    for text in texts {
        assert!(error.contains(text), "`{error}` does not say `{text}`");
    }
}

#[test]
fn an_image_has_the_size_that_was_asked_for() -> Result<()> {
    let panel = || Panel::new("loss").series(Series::new("train", [(1.0, 2.0), (2.0, 1.0)]));
    let sizes = |plot: Plot| image_of(&plot).map(|i| (i.width(), i.height()));
    assert_eq!(sizes(Plot::new().panel(panel()))?, (560, 400));
    let two = Plot::new().panel(panel()).panel(panel());
    assert_eq!(sizes(two.clone())?, (1120, 400));
    assert_eq!(sizes(two.clone().columns(1).title("Two"))?, (560, 844));
    assert_eq!(sizes(two.clone().size(701, 333))?, (701, 333));
    // So large that it is not drawn larger first.
    let large = image_of(&two.size(8000, 4000))?;
    assert_eq!((large.width(), large.height()), (8000, 4000));
    assert_eq!(large.get_pixel(0, 0), WHITE);
    assert!(count(&large, BLUE) > 10_000);
    Ok(())
}

#[test]
fn a_curve_goes_where_its_numbers_say() -> Result<()> {
    let rising = columns(&curve(Panel::new(""), [(0.0, 3.0), (10.0, 7.0)])?, BLUE);
    assert!(rising.len() > 400, "{}", rising.len());
    assert!(rising.windows(2).all(|w| w[1].0 == w[0].0 + 1.0));
    assert!(rising.windows(2).all(|w| w[1].1 <= w[0].1 + 0.5), "rises");
    for share in [0.0, 0.25, 0.5, 0.75, 1.0] {
        close(height_at(&rising, share), share);
    }
    // Points that are not evenly spaced: the highest one a quarter of the way.
    let peak = [(0.0, 0.0), (25.0, 8.0), (50.0, 2.0), (100.0, 2.0)];
    let peak = columns(&curve(Panel::new(""), peak)?, BLUE);
    for (share, height) in [(0.125, 0.5), (0.25, 1.0), (0.375, 0.625), (0.75, 0.25)] {
        close(height_at(&peak, share), height);
    }
    // The same curve under titles and labels, in an image of another shape.
    let panel = Panel::new("title").x_label("step").y_label("%");
    let series = Series::new("", [(0.0, 3.0), (10.0, 7.0)]).color(GREEN);
    let plot = Plot::new().title("Title").panel(panel.series(series));
    let other = columns(&image_of(&plot.size(900, 300))?, GREEN);
    close(height_at(&other, 0.3), 0.3);
    Ok(())
}

#[test]
fn a_logarithmic_axis_makes_a_line_of_an_exponential() -> Result<()> {
    let points = || (0..=40).map(|i| (f64::from(i), 10f64.powf(f64::from(i) / 10.0)));
    let straight = columns(&curve(Panel::new("").log_y(true), points())?, BLUE);
    let bent = columns(&curve(Panel::new(""), points())?, BLUE);
    for share in [0.25, 0.5, 0.75] {
        close(height_at(&straight, share), share);
        let value = 10f64.powf(4.0 * share);
        close(height_at(&bent, share), (value - 1.0) / 9999.0);
    }
    let powers = || (0..=40).map(|i| (10f64.powf(f64::from(i) / 10.0), f64::from(i)));
    let straight = columns(&curve(Panel::new("").log_x(true), powers())?, BLUE);
    close(height_at(&straight, 0.5), 0.5);

    // What has no logarithm is left out.
    let some = [
        (0.0, -3.0),
        (1.0, 0.0),
        (2.0, 1.0),
        (3.0, 10.0),
        (4.0, 100.0),
    ];
    let with = curve(Panel::new("").log_y(true), some)?;
    assert_eq!(with, curve(Panel::new("").log_y(true), some[2..].to_vec())?);
    Ok(())
}

#[test]
fn nan_and_infinities_leave_a_gap() -> Result<()> {
    for hole in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let points = (0..=20).map(|i| (f64::from(i), if i == 10 { hole } else { 5.0 }));
        let found = columns(&curve(Panel::new(""), points)?, BLUE);
        let (first, last) = (found[0].0, found[found.len() - 1].0);
        let per_point = (last - first) / 20.0;
        let gaps: Vec<_> = found.windows(2).filter(|w| w[1].0 > w[0].0 + 1.0).collect();
        assert_eq!(gaps.len(), 1, "{gaps:?}");
        assert!((gaps[0][0].0 - (first + 9.0 * per_point)).abs() < 3.0);
        assert!((gaps[0][1].0 - (first + 11.0 * per_point)).abs() < 3.0);
    }
    // Nothing but NaN: axes and a note, no curve.
    let none = curve(Panel::new(""), [(1.0, f64::NAN), (2.0, f64::NAN)])?;
    assert_eq!(count(&none, BLUE), 0);
    Ok(())
}

#[test]
fn points_without_neighbours_are_dots() -> Result<()> {
    // No line could show the first and the last.
    let points = [
        (0.0, 1.0),
        (1.0, f64::NAN),
        (2.0, 1.0),
        (3.0, 1.0),
        (4.0, f64::NAN),
        (5.0, 1.0),
    ];
    let found = columns(&curve(Panel::new(""), points)?, BLUE);
    let parts = found.chunk_by(|a, b| b.0 == a.0 + 1.0).map(<[_]>::len);
    let parts: Vec<usize> = parts.collect();
    assert!(matches!(parts[..], [6..=9, 60..=999, 6..=9]), "{parts:?}");

    let image = curve(Panel::new(""), [(1.0, 0.5)])?;
    let dot = columns(&image, BLUE);
    assert!((30..=60).contains(&count(&image, BLUE)) && dot.len() >= 6);
    let one = history(1).to_plot(
        &PlotOptions::new()
            .learning_rate(false)
            .metrics(["accuracy"]),
    )?;
    // A dot in each of two panels, beside the legends.
    assert!(count(&image_of(&one)?, BLUE) > 2 * 60);

    let dots = |n: i32| {
        let series = Series::new("", (0..n).map(|i| (f64::from(i), 1.0)));
        image_of(&Plot::new().panel(Panel::new("").series(series)))
    };
    let bare = curve(Panel::new(""), (0..40).map(|i| (f64::from(i), 1.0)))?;
    assert!(count(&dots(40)?, BLUE) > count(&bare, BLUE) + 40 * 10);
    assert_eq!(count(&dots(41)?, BLUE), count(&bare, BLUE));
    Ok(())
}

/// The columns and rows that have a colour, first and last.
fn extent(image: &Image, color: [u8; 3]) -> Option<[u32; 4]> {
    let found = image.enumerate_pixels().filter(|p| p.2 == color);
    found.fold(None, |e: Option<[u32; 4]>, (x, y, _)| {
        let [x0, x1, y0, y1] = e.unwrap_or([x, x, y, y]);
        Some([x0.min(x), x1.max(x), y0.min(y), y1.max(y)])
    })
}

#[test]
fn a_legend_has_the_colours_of_the_named_series() -> Result<()> {
    // Without a finite value there is no curve: what has a colour is the legend's.
    let series = |name: &str| Series::new(name, [(0.0, f64::NAN)]).markers(false);
    let red = [200, 30, 40];
    let panel = Panel::new("")
        .series(series("train"))
        .series(series(""))
        .series(series("validation").color(red));
    let image = image_of(&Plot::new().panel(panel))?;
    let (train, validation) = (extent(&image, BLUE).unwrap(), extent(&image, red).unwrap());
    for mark in [train, validation] {
        assert!((20..=24).contains(&(mark[1] - mark[0])), "{mark:?}");
    }
    // Beside each other, with the name between them.
    assert_eq!(train[2..], validation[2..]);
    assert!(validation[0] > train[1] + 35, "{train:?}, {validation:?}");
    assert_eq!(extent(&image, ORANGE), None);

    // More names than there is room for: rows below each other, in the upper part.
    let many = (0..60).map(|i| series(&format!("a series with the number {i}")));
    let panel = many.fold(Panel::new(""), Panel::series);
    let image = image_of(&Plot::new().panel(panel))?;
    let [left, _, top, bottom] = extent(&image, BLUE).unwrap();
    assert!(
        left < 20 && top < 30 && (100..160).contains(&bottom),
        "{top} to {bottom}"
    );
    Ok(())
}

#[test]
fn a_million_points_look_like_the_few_that_show() -> Result<()> {
    let wave = |i: u32| if i.is_multiple_of(2) { 1.0 } else { -1.0 };
    let many = (0..1_000_000).map(|i| (f64::from(i), wave(i)));
    let image = curve(Panel::new(""), many)?;
    let found = columns(&image, BLUE);
    // Every column is filled from -1 to 1.
    let per_column = count(&image, BLUE) as f64 / found.len() as f64;
    let box_height = found[200].1;
    assert!(found.len() > 400 && found.iter().all(|c| (c.1 - box_height).abs() < 1.5));
    assert!(per_column > 250.0, "{per_column}");
    Ok(())
}

#[test]
fn a_history_is_drawn_in_panels() -> Result<()> {
    let h = history(6);
    let of = |name: &'static str, val: bool| {
        let number = move |e: &EpochResults| {
            let metrics = if val {
                &e.val_metrics
            } else {
                &e.train_metrics
            };
            Some(((e.epoch + 1) as f64, *metrics.get(name)?))
        };
        h.iter().filter_map(number).collect::<Vec<_>>()
    };
    let both = |title: &str, name| {
        Panel::new(title)
            .x_label("epoch")
            .series(Series::new("train", of(name, false)).color(BLUE))
            .series(Series::new("validation", of(name, true)).color(ORANGE))
    };
    let rates = h.iter().map(|e| ((e.epoch + 1) as f64, e.learning_rate));
    let rate = Panel::new("learning rate")
        .x_label("epoch")
        .series(Series::new("", rates).color(GREEN));
    let all = Plot::new()
        .panel(both("loss", "loss"))
        .panel(both("accuracy", "accuracy"))
        .panel(rate.clone());
    assert_eq!(h.to_plot(&PlotOptions::new())?, all);

    let options = PlotOptions::new()
        .title("Run 7")
        .panel_title("loss", "Cross-entropy")
        .panel_title("learning_rate", "Rate")
        .metrics(Vec::<String>::new())
        .log_loss(true)
        .log_learning_rate(true)
        .columns(1)
        .size(500, 700);
    let some = Plot::new()
        .title("Run 7")
        .panel(both("Cross-entropy", "loss").log_y(true))
        .panel(
            Panel::new("Rate").x_label("epoch").log_y(true).series(
                Series::new(
                    "",
                    h.iter().map(|e| ((e.epoch + 1) as f64, e.learning_rate)),
                )
                .color(GREEN),
            ),
        )
        .columns(1)
        .size(500, 700);
    assert_eq!(h.to_plot(&options)?, some);

    let options = PlotOptions::new()
        .loss(false)
        .learning_rate(false)
        .train(false)
        .log_metrics(true);
    let held_out = Panel::new("accuracy")
        .x_label("epoch")
        .log_y(true)
        .series(Series::new("validation", of("accuracy", true)).color(ORANGE));
    assert_eq!(h.to_plot(&options)?, Plot::new().panel(held_out));
    assert_eq!(
        h.to_plot(&PlotOptions::new().train(false).validation(false))?,
        Plot::new().panel(rate)
    );
    Ok(())
}

#[test]
fn a_falling_loss_falls_on_the_image_of_a_history() -> Result<()> {
    let scratch = Scratch::new("plot-history");
    let options = PlotOptions::new()
        .loss(true)
        .metrics(["accuracy"])
        .size(1200, 400);
    history(12).plot_with(scratch.path("curve.png"), options)?;
    let image = decode(&std::fs::read(scratch.path("curve.png"))?)?;
    assert_eq!((image.width(), image.height()), (1200, 400));
    assert_eq!(scratch.names(), ["curve.png"]);
    let panel = |n: u32| image.crop(n * 400, 60, 400, 340);
    let drop = |image: &Image, color| {
        let c = columns(image, color);
        c[c.len() - 1].1 - c[0].1
    };
    assert!(drop(&panel(0), BLUE) > 150.0 && drop(&panel(0), ORANGE) > 50.0);
    assert!(drop(&panel(1), BLUE) < -150.0 && drop(&panel(1), ORANGE) < -50.0);
    assert!(drop(&panel(2), GREEN) > 150.0);
    assert_eq!(count(&panel(2), BLUE) + count(&panel(0), GREEN), 0);
    Ok(())
}

#[test]
fn svg_has_the_same_chart_as_text() -> Result<()> {
    let scratch = Scratch::new("plot-svg");
    let panel = Panel::new("a < b & c").series(Series::new(
        "first",
        [
            (0.0, 0.0),
            (1.0, 1.0),
            (2.0, f64::NAN),
            (3.0, 1.0),
            (4.0, 0.0),
        ],
    ));
    let plot = Plot::new().panel(panel).size(600, 420);
    plot.save(scratch.path("chart.SVG"))?;
    let svg = std::fs::read_to_string(scratch.path("chart.SVG"))?;
    assert!(svg.starts_with(r#"<svg width="600" height="420" viewBox="0 0 2400 1680""#));
    assert!(svg.trim_end().ends_with("</svg>"));
    assert!(svg.contains("a &lt; b &amp; c") && svg.contains("first"));
    // Two runs and the mark of the legend, four dots and the legend's.
    let lines = svg.lines().filter(|l| l.contains("#1F77B4"));
    let (lines, dots): (Vec<_>, Vec<_>) = lines.partition(|l| l.starts_with("<polyline"));
    assert_eq!((lines.len(), dots.len()), (3, 5));
    Ok(())
}

#[test]
fn a_trained_model_leaves_its_curves() -> Result<()> {
    let scratch = Scratch::new("plot-trainer");
    let (x, y) = blobs(30)?;
    let loader = DataLoader::builder(TensorDataset::new(x, y))
        .batch_size(10)
        .build()?;
    let net = Linear::new(6, 3);
    let sgd = SGD::new(net.parameters(), 0.5)?;
    let mut trainer = Trainer::builder(net, &sgd)
        .loss(|output, target| F::cross_entropy(output, target))
        .metric(Accuracy::new())
        .epochs(5)
        .build()?;
    assert!(trainer.history().is_empty());
    let results = trainer.fit(&loader, Some(&loader))?;
    assert_eq!(&results.history, trainer.history());
    results.history.plot(scratch.path("curve.png"))?;
    let image = decode(&std::fs::read(scratch.path("curve.png"))?)?;
    assert_eq!((image.width(), image.height()), (3 * 560, 400));
    assert!(
        [BLUE, ORANGE, GREEN]
            .iter()
            .all(|c| count(&image, *c) > 300)
    );
    Ok(())
}

#[test]
fn the_epochs_before_an_error_can_be_drawn() -> Result<()> {
    let (x, y) = blobs(12)?;
    let loader = DataLoader::builder(TensorDataset::new(x, y))
        .batch_size(12)
        .build()?;
    let net = Linear::new(6, 3);
    let sgd = SGD::new(net.parameters(), 0.1)?;
    let calls = std::sync::atomic::AtomicUsize::new(0);
    let mut trainer = Trainer::builder(net, &sgd)
        .loss(move |output: &Tensor, target: &Tensor| {
            let loss = F::cross_entropy(output, target)?;
            match calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
                2 => loss.mul(f64::NAN),
                _ => Ok(loss),
            }
        })
        .epochs(5)
        .build()?;
    refused(trainer.fit(&loader, None), &["epoch", "NaN"]);
    assert_eq!(trainer.history().len(), 2);
    let plot = trainer.history().to_plot(&PlotOptions::new())?;
    assert!(count(&image_of(&plot)?, BLUE) > 100);
    Ok(())
}

#[test]
fn what_cannot_be_drawn_is_an_error_that_says_what_to_do() -> Result<()> {
    let scratch = Scratch::new("plot-errors");
    let h = history(3);
    let formats = "plots are written as .png and as .svg";
    refused(
        h.plot(scratch.path("curve")),
        &["has no extension", formats],
    );
    refused(h.plot(scratch.path("curve.jpg")), &["curve.jpg", formats]);
    refused(h.plot(scratch.path("no/curve.png")), &["no/curve.png"]);
    refused(
        History::default().plot(scratch.path("curve.png")),
        &["the history has no epochs", "`Trainer::fit`"],
    );
    let with = |options| h.plot_with(scratch.path("curve.png"), options);
    let new = PlotOptions::new;
    refused(
        with(new().metrics(["accuracy", "f1"])),
        &["there is no metric `f1`", "the history has `accuracy`"],
    );
    refused(
        with(new().panel_title("acuracy", "A")),
        &[
            "`acuracy`",
            "the panels are `loss`, `accuracy`, `learning_rate`",
        ],
    );
    refused(
        with(new().learning_rate(false).train(false).validation(false)),
        &["nothing to show", "`accuracy`"],
    );
    refused(
        with(new().size(500, 300)),
        &["too small for 3 panels", "at least 720 x 180"],
    );
    refused(
        with(new().size(20_000, 300)),
        &["too large", "at most 16384"],
    );
    refused(with(new().size(16_000, 16_000)), &["too large"]);
    refused(with(new().columns(0)), &["0 columns"]);

    let negative = |e: &EpochResults| EpochResults {
        learning_rate: 0.0,
        train_metrics: Metrics::from([("loss".to_string(), -1.0)]),
        val_metrics: Metrics::new(),
        ..e.clone()
    };
    let below: History = h.iter().map(negative).collect();
    for (options, panel) in [
        (new().log_loss(true), "`loss`"),
        (new().log_learning_rate(true), "`learning rate`"),
    ] {
        let result = below.plot_with(scratch.path("curve.png"), options);
        refused(
            result,
            &[
                panel,
                "logarithmic y axis",
                "none of its values is positive",
            ],
        );
    }
    below.plot(scratch.path("linear.png"))?;

    refused(Plot::new().to_png(), &["no panels", "`Plot::panel`"]);
    let empty = Plot::new().panel(Panel::new("x"));
    refused(empty.to_svg(), &["`x` has no points", "add a series"]);
    // Nothing is left of what was refused.
    assert_eq!(scratch.names(), ["linear.png"]);
    Ok(())
}
