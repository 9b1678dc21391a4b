//! Text and pixels on an image.

use std::path::Path;

use noto_sans_mono_bitmap::{FontWeight, RasterHeight, get_raster, get_raster_width};
use torsh::{DType, Device, Result, Tensor};

/// Red, green and blue.
pub type Rgb = [u8; 3];

pub const PAPER: Rgb = [255, 255, 255];
pub const INK: Rgb = [40, 44, 52];

/// An image to draw on.
pub struct Canvas {
    width: usize,
    height: usize,
    pixels: Vec<u8>,
}

impl Canvas {
    /// An image of one colour.
    pub fn new(width: i64, height: i64, color: Rgb) -> Canvas {
        let (width, height) = (width as usize, height as usize);
        Canvas {
            width,
            height,
            pixels: color.repeat(width * height),
        }
    }

    /// Writes a PNG file.
    pub fn save(&self, path: &Path) -> Result<()> {
        let shape = [self.height, self.width, 3];
        let image = Tensor::from_slice(&self.pixels, shape, DType::U8, Device::Cpu)?;
        torsh::data::write_png(&image.permute([2, 0, 1])?, path)
    }
}

/// Mixes a colour into a pixel; points outside are left out.
fn blend(img: &mut Canvas, x: i64, y: i64, color: Rgb, share: f64) {
    if !(0..img.width as i64).contains(&x) || !(0..img.height as i64).contains(&y) {
        return;
    }
    let at = 3 * (y as usize * img.width + x as usize);
    for (old, new) in img.pixels[at..at + 3].iter_mut().zip(color) {
        *old = (f64::from(*old) * (1.0 - share) + f64::from(new) * share).round() as u8;
    }
}

pub fn fill(img: &mut Canvas, x: i64, y: i64, w: i64, h: i64, color: Rgb) {
    for j in y..y + h {
        for i in x..x + w {
            blend(img, i, j, color, 1.0);
        }
    }
}

/// A line of one pixel's width with soft edges; `share` of its colour is mixed in.
pub fn line(img: &mut Canvas, from: [f64; 2], to: [f64; 2], color: Rgb, share: f64) {
    let [dx, dy] = [to[0] - from[0], to[1] - from[1]];
    let steep = dy.abs() > dx.abs();
    let steps = dx.abs().max(dy.abs()).ceil().max(1.0);
    for i in 0..=steps as i64 {
        let part = i as f64 / steps;
        let (x, y) = (from[0] + part * dx, from[1] + part * dy);
        // The two pixels beside the line share the colour.
        let (along, across) = if steep { (y, x) } else { (x, y) };
        let (along, first) = (along.round() as i64, across.floor() as i64);
        let second = across.fract();
        for (across, part) in [(first, 1.0 - second), (first + 1, second)] {
            let (x, y) = if steep {
                (across, along)
            } else {
                (along, across)
            };
            blend(img, x, y, color, share * part);
        }
    }
}

/// A disc with a soft edge.
pub fn disc(img: &mut Canvas, center: [f64; 2], radius: f64, color: Rgb) {
    let reach = radius.ceil() as i64 + 1;
    let [x, y] = center.map(|v| v.round() as i64);
    for j in y - reach..=y + reach {
        for i in x - reach..=x + reach {
            let distance = (i as f64 - center[0]).hypot(j as f64 - center[1]);
            blend(img, i, j, color, (radius + 0.5 - distance).clamp(0.0, 1.0));
        }
    }
}

pub fn text_width(text: &str, size: RasterHeight, weight: FontWeight) -> i64 {
    (text.chars().count() * get_raster_width(weight, size)) as i64
}

pub fn text(
    img: &mut Canvas,
    x: i64,
    y: i64,
    text: &str,
    size: RasterHeight,
    weight: FontWeight,
    color: Rgb,
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

/// Grey pictures of 28 x 28 pixels, magnified.
pub fn picture(img: &mut Canvas, pixels: &[u8], x: i64, y: i64, scale: i64) {
    for (k, &v) in pixels.iter().enumerate() {
        let (row, column) = ((k / 28) as i64, (k % 28) as i64);
        let (x, y) = (x + column * scale, y + row * scale);
        fill(img, x, y, scale, scale, [v, v, v]);
    }
}
