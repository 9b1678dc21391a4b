//! The two images that the run leaves behind.

use image::{Rgb, RgbImage};
use noto_sans_mono_bitmap::{FontWeight, RasterHeight, get_raster, get_raster_width};
use torsh::data::vision::FASHION_MNIST_CLASSES;

use crate::net::Score;

const PAPER: Rgb<u8> = Rgb([255, 255, 255]);
const INK: Rgb<u8> = Rgb([40, 44, 52]);
const FAINT: Rgb<u8> = Rgb([225, 228, 232]);
const BLUE: Rgb<u8> = Rgb([31, 119, 180]);
const ORANGE: Rgb<u8> = Rgb([230, 110, 20]);
const RED: Rgb<u8> = Rgb([200, 30, 40]);
const GREEN: Rgb<u8> = Rgb([30, 125, 60]);

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

/// Mixes a colour into a pixel; points outside are left out.
fn blend(img: &mut RgbImage, x: i64, y: i64, color: Rgb<u8>, share: f64) {
    let (Ok(x), Ok(y)) = (u32::try_from(x), u32::try_from(y)) else {
        return;
    };
    if let Some(p) = img.get_pixel_mut_checked(x, y) {
        for (old, new) in p.0.iter_mut().zip(color.0) {
            *old = (f64::from(*old) * (1.0 - share) + f64::from(new) * share).round() as u8;
        }
    }
}

fn fill(img: &mut RgbImage, x: i64, y: i64, w: i64, h: i64, color: Rgb<u8>) {
    for j in y..y + h {
        for i in x..x + w {
            blend(img, i, j, color, 1.0);
        }
    }
}

fn text_width(text: &str, size: RasterHeight, weight: FontWeight) -> i64 {
    (text.chars().count() * get_raster_width(weight, size)) as i64
}

fn text(
    img: &mut RgbImage,
    x: i64,
    y: i64,
    text: &str,
    size: RasterHeight,
    weight: FontWeight,
    color: Rgb<u8>,
) {
    let width = get_raster_width(weight, size) as i64;
    for (n, c) in text.chars().enumerate() {
        let Some(glyph) = get_raster(c, weight, size).or_else(|| get_raster('?', weight, size))
        else {
            continue;
        };
        for (j, row) in glyph.raster().iter().enumerate() {
            for (i, &share) in row.iter().enumerate() {
                blend(
                    img,
                    x + n as i64 * width + i as i64,
                    y + j as i64,
                    color,
                    f64::from(share) / 255.0,
                );
            }
        }
    }
}

/// A line with soft edges.
fn line(img: &mut RgbImage, from: (f64, f64), to: (f64, f64), width: f64, color: Rgb<u8>) {
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let length2 = (dx * dx + dy * dy).max(1e-12);
    let reach = width + 1.0;
    for y in (from.1.min(to.1) - reach) as i64..=(from.1.max(to.1) + reach) as i64 {
        for x in (from.0.min(to.0) - reach) as i64..=(from.0.max(to.0) + reach) as i64 {
            let (px, py) = (x as f64 - from.0, y as f64 - from.1);
            let t = ((px * dx + py * dy) / length2).clamp(0.0, 1.0);
            let distance = (px - t * dx).hypot(py - t * dy);
            let share = (width / 2.0 + 0.5 - distance).clamp(0.0, 1.0);
            if share > 0.0 {
                blend(img, x, y, color, share);
            }
        }
    }
}

/// Steps of 1, 2 or 5 times a power of ten, about five from `low` to `high`.
fn ticks(low: f64, high: f64) -> Vec<f64> {
    let rough = (high - low).max(1e-9) / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|m| m * power)
        .find(|s| *s >= rough)
        .unwrap_or(rough);
    let first = (low / step - 1e-9).ceil() as i64;
    (first..)
        .map(|k| k as f64 * step)
        .take_while(|v| *v <= high + 1e-9 * step)
        .collect()
}

/// One chart with two curves over the epochs.
struct Chart<'a> {
    title: &'a str,
    unit: &'a str,
    curves: [(&'a str, Vec<f64>, Rgb<u8>); 2],
    decimals: usize,
}

impl Chart<'_> {
    fn draw(&self, img: &mut RgbImage, left: i64, top: i64, width: i64, height: i64) {
        let small = RasterHeight::Size16;
        let (regular, bold) = (FontWeight::Regular, FontWeight::Bold);
        text(img, left, top, self.title, RasterHeight::Size24, bold, INK);
        let (x0, y0) = (left + 64, top + 48);
        let (w, h) = (width - 64, height - 48 - 56);

        let values = || self.curves.iter().flat_map(|c| c.1.iter().copied());
        let (mut low, mut high) = (
            values().fold(f64::INFINITY, f64::min),
            values().fold(f64::NEG_INFINITY, f64::max),
        );
        let margin = ((high - low) * 0.08).max(high.abs() * 0.01).max(1e-6);
        low -= margin;
        high += margin;
        let epochs = self.curves[0].1.len();
        let at = |i: usize, v: f64| {
            let across = if epochs > 1 {
                i as f64 / (epochs - 1) as f64
            } else {
                0.5
            };
            let inset = 16.0;
            (
                x0 as f64 + inset + across * (w as f64 - 2.0 * inset),
                y0 as f64 + (high - v) / (high - low) * h as f64,
            )
        };

        for v in ticks(low, high) {
            let y = at(0, v).1.round() as i64;
            fill(img, x0, y, w, 1, FAINT);
            let label = format!("{v:.*}{}", self.decimals, self.unit);
            text(
                img,
                x0 - 8 - text_width(&label, small, regular),
                y - 8,
                &label,
                small,
                regular,
                INK,
            );
        }
        let every = epochs.div_ceil(10).max(1);
        for i in (0..epochs).filter(|i| i % every == 0 || *i + 1 == epochs) {
            let x = at(i, low).0.round() as i64;
            fill(img, x, y0 + h, 1, 5, INK);
            let label = (i + 1).to_string();
            text(
                img,
                x - text_width(&label, small, regular) / 2,
                y0 + h + 8,
                &label,
                small,
                regular,
                INK,
            );
        }
        fill(img, x0, y0, 1, h, INK);
        fill(img, x0, y0 + h, w, 1, INK);
        let label = "epoch";
        text(
            img,
            x0 + (w - text_width(label, small, regular)) / 2,
            y0 + h + 30,
            label,
            small,
            regular,
            INK,
        );

        for (_, points, color) in &self.curves {
            for i in 0..points.len() {
                let p = at(i, points[i]);
                if i > 0 {
                    line(img, at(i - 1, points[i - 1]), p, 2.5, *color);
                }
                line(img, p, p, 8.0, *color);
            }
        }
        let mut x = left + width;
        for (name, points, color) in self.curves.iter().rev() {
            let last = points.last().copied().unwrap_or(0.0);
            let label = format!("{name} {last:.*}{}", self.decimals + 1, self.unit);
            x -= text_width(&label, small, regular);
            text(img, x, top + 6, &label, small, regular, *color);
            line(
                img,
                (x as f64 - 24.0, top as f64 + 14.0),
                (x as f64 - 8.0, top as f64 + 14.0),
                3.0,
                *color,
            );
            x -= 44;
        }
    }
}

/// Loss and accuracy of each epoch, on the training and on the held-out images.
pub fn learning_curve(history: &[(Score, Score)]) -> RgbImage {
    let mut img = RgbImage::from_pixel(1240, 520, PAPER);
    let pick = |f: fn(&(Score, Score)) -> f64| history.iter().map(f).collect::<Vec<f64>>();
    let loss = Chart {
        title: "Loss",
        unit: "",
        curves: [
            ("training", pick(|h| h.0.loss), BLUE),
            ("held out", pick(|h| h.1.loss), ORANGE),
        ],
        decimals: 2,
    };
    let accuracy = Chart {
        title: "Accuracy",
        unit: "%",
        curves: [
            ("training", pick(|h| 100.0 * h.0.accuracy), BLUE),
            ("held out", pick(|h| 100.0 * h.1.accuracy), ORANGE),
        ],
        decimals: 0,
    };
    loss.draw(&mut img, 24, 24, 576, 480);
    accuracy.draw(&mut img, 640, 24, 576, 480);
    img
}

const COLUMNS: usize = 8;
const SCALE: i64 = 5;
const CELL_W: i64 = 28 * SCALE + 20;
const CELL_H: i64 = 28 * SCALE + 56;

fn cell(img: &mut RgbImage, p: &Predictions, i: usize, x: i64, y: i64) {
    let small = RasterHeight::Size16;
    let right = p.predicted[i] == p.truth[i];
    let side = 28 * SCALE;
    if !right {
        fill(img, x - 4, y - 4, side + 8, side + 8, RED);
    }
    let pixels = &p.pixels[i * 28 * 28..(i + 1) * 28 * 28];
    for (k, &v) in pixels.iter().enumerate() {
        let (row, column) = ((k / 28) as i64, (k % 28) as i64);
        fill(
            img,
            x + column * SCALE,
            y + row * SCALE,
            SCALE,
            SCALE,
            Rgb([v, v, v]),
        );
    }
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
pub fn prediction_grid(p: &Predictions) -> RgbImage {
    let first: Vec<usize> = (0..p.truth.len().min(3 * COLUMNS)).collect();
    let wrong: Vec<usize> = (0..p.truth.len())
        .filter(|&i| p.predicted[i] != p.truth[i])
        .collect();
    let count = wrong.len();
    let shown = &wrong[..count.min(2 * COLUMNS)];
    let rows = |n: usize| n.div_ceil(COLUMNS) as i64;
    let height = 2 * 48 + (rows(first.len()) + rows(shown.len())) * CELL_H + 24;
    let mut img = RgbImage::from_pixel((COLUMNS as i64 * CELL_W + 28) as u32, height as u32, PAPER);
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
