//! Line charts.

use image::{Rgb, RgbImage};
use noto_sans_mono_bitmap::{FontWeight, RasterHeight};

use super::canvas::{FAINT, INK, fill, line, text, text_width};

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

/// Points joined by lines.
pub struct Curve<'a> {
    pub name: &'a str,
    /// Where and how much, from left to right.
    pub points: Vec<(f64, f64)>,
    pub color: Rgb<u8>,
}

/// One or more curves over a common axis.
pub struct Chart<'a> {
    pub title: &'a str,
    /// What the horizontal axis counts.
    pub axis: &'a str,
    /// After each value.
    pub unit: &'a str,
    pub curves: Vec<Curve<'a>>,
    /// Of the labels of the vertical axis.
    pub decimals: usize,
    /// Whether each point gets a dot, and the legend the last value.
    pub dots: bool,
}

impl Chart<'_> {
    pub fn draw(&self, img: &mut RgbImage, left: i64, top: i64, width: i64, height: i64) {
        let small = RasterHeight::Size16;
        let (regular, bold) = (FontWeight::Regular, FontWeight::Bold);
        text(img, left, top, self.title, RasterHeight::Size24, bold, INK);
        let (x0, y0) = (left + 64, top + 48);
        let (w, h) = (width - 64, height - 48 - 56);

        let range = |pick: fn(&(f64, f64)) -> f64| {
            let values = self.curves.iter().flat_map(|c| c.points.iter().map(pick));
            values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| {
                (low.min(v), high.max(v))
            })
        };
        let ((first, last), (mut low, mut high)) = (range(|p| p.0), range(|p| p.1));
        let margin = ((high - low) * 0.08).max(high.abs() * 0.01).max(1e-6);
        low -= margin;
        high += margin;
        let at = |(x, y): (f64, f64)| {
            let across = if last > first {
                (x - first) / (last - first)
            } else {
                0.5
            };
            let inset = 16.0;
            (
                x0 as f64 + inset + across * (w as f64 - 2.0 * inset),
                y0 as f64 + (high - y) / (high - low) * h as f64,
            )
        };

        for v in ticks(low, high) {
            let y = at((first, v)).1.round() as i64;
            fill(img, x0, y, w, 1, FAINT);
            let label = format!("{v:.*}{}", self.decimals, self.unit);
            let x = x0 - 8 - text_width(&label, small, regular);
            text(img, x, y - 8, &label, small, regular, INK);
        }
        for v in ticks(first, last).into_iter().filter(|v| v.fract() == 0.0) {
            let x = at((v, low)).0.round() as i64;
            fill(img, x, y0 + h, 1, 5, INK);
            let label = v.to_string();
            let x = x - text_width(&label, small, regular) / 2;
            text(img, x, y0 + h + 8, &label, small, regular, INK);
        }
        fill(img, x0, y0, 1, h, INK);
        fill(img, x0, y0 + h, w, 1, INK);
        let x = x0 + (w - text_width(self.axis, small, regular)) / 2;
        text(img, x, y0 + h + 30, self.axis, small, regular, INK);

        for curve in &self.curves {
            for (i, &point) in curve.points.iter().enumerate() {
                let p = at(point);
                if i > 0 {
                    line(img, at(curve.points[i - 1]), p, 2.5, curve.color);
                }
                if self.dots {
                    line(img, p, p, 8.0, curve.color);
                }
            }
        }
        let mut x = left + width;
        for curve in self.curves.iter().rev() {
            let mut label = curve.name.to_string();
            if let Some(last) = curve.points.last().filter(|_| self.dots) {
                label += &format!(" {:.*}{}", self.decimals + 1, last.1, self.unit);
            }
            x -= text_width(&label, small, regular);
            text(img, x, top + 6, &label, small, regular, curve.color);
            let (from, y) = (x as f64 - 24.0, top as f64 + 14.0);
            line(img, (from, y), (from + 16.0, y), 3.0, curve.color);
            x -= 44;
        }
    }
}
