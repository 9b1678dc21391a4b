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
