//! Text, lines and pixels on an image.

use image::{Rgb, RgbImage};
use noto_sans_mono_bitmap::{FontWeight, RasterHeight, get_raster, get_raster_width};

pub const PAPER: Rgb<u8> = Rgb([255, 255, 255]);
pub const INK: Rgb<u8> = Rgb([40, 44, 52]);
pub const FAINT: Rgb<u8> = Rgb([225, 228, 232]);
pub const BLUE: Rgb<u8> = Rgb([31, 119, 180]);
pub const ORANGE: Rgb<u8> = Rgb([230, 110, 20]);

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

pub fn fill(img: &mut RgbImage, x: i64, y: i64, w: i64, h: i64, color: Rgb<u8>) {
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
pub fn line(img: &mut RgbImage, from: (f64, f64), to: (f64, f64), width: f64, color: Rgb<u8>) {
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

/// Grey pictures of 28 x 28 pixels, magnified.
pub fn picture(img: &mut RgbImage, pixels: &[u8], x: i64, y: i64, scale: i64) {
    for (k, &v) in pixels.iter().enumerate() {
        let (row, column) = ((k / 28) as i64, (k % 28) as i64);
        let (x, y) = (x + column * scale, y + row * scale);
        fill(img, x, y, scale, scale, Rgb([v, v, v]));
    }
}
