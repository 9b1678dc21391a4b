//! Draws the two images that the run writes.

use noto_sans_mono_bitmap::{FontWeight, RasterHeight};
use torsh::data::vision::FASHION_MNIST_CLASSES;
use torsh::train::plot::{Panel, Plot, Series};

use crate::common::canvas::{Canvas, INK, PAPER, Rgb, fill, picture, text};
use crate::net::Score;

const RED: Rgb = [200, 30, 40];
const GREEN: Rgb = [30, 125, 60];

/// What the network says about the test images.
pub struct Predictions {
    /// 28x28 grey values per image.
    pub pixels: Vec<u8>,
    /// The predicted class of each image.
    pub predicted: Vec<i64>,
    /// Its probability.
    pub sure: Vec<f32>,
    /// The true class of each image.
    pub truth: Vec<i64>,
}

/// Loss and accuracy of each epoch, on the training and on the held-out images.
pub fn learning_curve(history: &[(Score, Score)]) -> Plot {
    let series = |name, f: fn(&(Score, Score)) -> f64| {
        Series::new(name, (1..).map(f64::from).zip(history.iter().map(f)))
    };
    let loss = Panel::new("Loss")
        .x_label("epoch")
        .series(series("training", |h| h.0.loss))
        .series(series("held out", |h| h.1.loss));
    let accuracy = Panel::new("Accuracy")
        .x_label("epoch")
        .y_label("%")
        .series(series("training", |h| 100.0 * h.0.accuracy))
        .series(series("held out", |h| 100.0 * h.1.accuracy));
    Plot::new().panel(loss).panel(accuracy).size(1240, 520)
}

const COLUMNS: usize = 8;
const SCALE: i64 = 5;
const CELL_W: i64 = 28 * SCALE + 20;
const CELL_H: i64 = 28 * SCALE + 56;

fn cell(img: &mut Canvas, p: &Predictions, i: usize, x: i64, y: i64) {
    let small = RasterHeight::Size16;
    let right = p.predicted[i] == p.truth[i];
    let side = 28 * SCALE;
    if !right {
        fill(img, x - 4, y - 4, side + 8, side + 8, RED);
    }
    let pixels = &p.pixels[i * 28 * 28..(i + 1) * 28 * 28];
    picture(img, pixels, x, y, SCALE);
    let name = |class: i64| FASHION_MNIST_CLASSES[class as usize];
    let color = if right { GREEN } else { RED };
    let said = format!("{} {:.0}%", name(p.predicted[i]), 100.0 * p.sure[i]);
    text(img, x, y + side + 6, &said, small, FontWeight::Bold, color);
    text(
        img,
        x,
        y + side + 24,
        &format!("is {}", name(p.truth[i])),
        small,
        FontWeight::Regular,
        INK,
    );
}

/// The first test images with predicted and true names, and below them the first that the network
/// got wrong.
pub fn prediction_grid(p: &Predictions) -> Canvas {
    let first: Vec<usize> = (0..p.truth.len().min(3 * COLUMNS)).collect();
    let wrong: Vec<usize> = (0..p.truth.len())
        .filter(|&i| p.predicted[i] != p.truth[i])
        .collect();
    let count = wrong.len();
    let shown = &wrong[..count.min(2 * COLUMNS)];
    let rows = |n: usize| n.div_ceil(COLUMNS) as i64;
    let height = 2 * 48 + (rows(first.len()) + rows(shown.len())) * CELL_H + 24;
    let mut img = Canvas::new(COLUMNS as i64 * CELL_W + 28, height, PAPER);
    let mut y = 16;
    let titles = [
        format!("The first {} held-out images", first.len()),
        format!(
            "The first {} of {count} mistakes among {} held-out images",
            shown.len(),
            p.truth.len()
        ),
    ];
    for (title, images) in titles.iter().zip([first.as_slice(), shown]) {
        text(
            &mut img,
            24,
            y,
            title,
            RasterHeight::Size24,
            FontWeight::Bold,
            INK,
        );
        y += 40;
        for (n, &i) in images.iter().enumerate() {
            let (row, column) = ((n / COLUMNS) as i64, (n % COLUMNS) as i64);
            cell(&mut img, p, i, 24 + column * CELL_W, y + row * CELL_H);
        }
        y += rows(images.len()) * CELL_H + 8;
    }
    img
}
