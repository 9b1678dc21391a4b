//! Points, lines, rectangles and text on an image of bytes.

use noto_sans_mono_bitmap::{FontWeight, RasterHeight, get_raster};

use super::colors::Color;

/// An image of three planes of bytes.
pub(super) struct Canvas {
    pub data: Vec<u8>,
    pub height: usize,
    pub width: usize,
}

impl Canvas {
    /// Mixes a colour into a pixel, with a weight up to 255; beyond the image nothing happens.
    fn put(&mut self, x: i64, y: i64, color: Color, weight: u8) {
        let (Ok(x), Ok(y)) = (usize::try_from(x), usize::try_from(y)) else {
            return;
        };
        if x >= self.width || y >= self.height {
            return;
        }
        let area = self.width * self.height;
        for (c, &v) in color.0.iter().enumerate() {
            let pixel = &mut self.data[c * area + y * self.width + x];
            let weight = u32::from(weight);
            let sum = u32::from(*pixel) * (255 - weight) + u32::from(v) * weight + 128;
            *pixel = (((sum >> 8) + sum) >> 8) as u8;
        }
    }

    /// From where to where of a side's pixels are on the image.
    fn within(from: i64, to: i64, size: usize) -> std::ops::RangeInclusive<i64> {
        from.max(0)..=to.min(size as i64 - 1)
    }

    /// A rectangle with its last row and column.
    pub(super) fn rectangle(&mut self, [x1, y1, x2, y2]: [i64; 4], color: Color, weight: u8) {
        for y in Self::within(y1, y2, self.height) {
            for x in Self::within(x1, x2, self.width) {
                self.put(x, y, color, weight);
            }
        }
    }

    /// The edge of a rectangle, so wide inwards.
    pub(super) fn frame(&mut self, [x1, y1, x2, y2]: [i64; 4], width: usize, color: Color) {
        let w = (width as i64).min((x2 - x1 + 2) / 2).min((y2 - y1 + 2) / 2);
        if w < 1 {
            return;
        }
        for side in [
            [x1, y1, x2, y1 + w - 1],
            [x1, y2 - w + 1, x2, y2],
            [x1, y1, x1 + w - 1, y2],
            [x2 - w + 1, y1, x2, y2],
        ] {
            self.rectangle(side, color, 255);
        }
    }

    /// A disc around a pixel.
    pub(super) fn disc(&mut self, x: i64, y: i64, radius: i64, color: Color) {
        let most = (radius as f64 + 0.5).powi(2);
        for py in Self::within(
            y.saturating_sub(radius),
            y.saturating_add(radius),
            self.height,
        ) {
            for px in Self::within(
                x.saturating_sub(radius),
                x.saturating_add(radius),
                self.width,
            ) {
                let far = ((px - x) as f64).powi(2) + ((py - y) as f64).powi(2);
                if far <= most {
                    self.put(px, py, color, 255);
                }
            }
        }
    }

    /// A line so wide from one point to another.
    pub(super) fn line(&mut self, a: [f64; 2], b: [f64; 2], width: usize, color: Color) {
        let reach = (width.max(1) as f64 / 2.0).max(0.51);
        let (dx, dy) = (b[0] - a[0], b[1] - a[1]);
        let length = dx * dx + dy * dy;
        let from = |i: usize| (a[i].min(b[i]) - reach).floor() as i64;
        let to = |i: usize| (a[i].max(b[i]) + reach).ceil() as i64;
        for y in Self::within(from(1), to(1), self.height) {
            for x in Self::within(from(0), to(0), self.width) {
                let (px, py) = (x as f64 - a[0], y as f64 - a[1]);
                let t = if length > 0.0 {
                    ((px * dx + py * dy) / length).clamp(0.0, 1.0)
                } else {
                    0.0
                };
                if (px - t * dx).hypot(py - t * dy) < reach {
                    self.put(x, y, color, 255);
                }
            }
        }
    }

    /// The inside of a polygon, by pixels whose middle is in it.
    pub(super) fn polygon(&mut self, points: &[[f64; 2]], color: Color, weight: u8) {
        for y in 0..self.height as i64 {
            let at = y as f64;
            let mut crossings: Vec<f64> = (0..points.len())
                .filter_map(|i| {
                    let ([x1, y1], [x2, y2]) = (points[i], points[(i + 1) % points.len()]);
                    ((y1 <= at) != (y2 <= at)).then(|| x1 + (at - y1) / (y2 - y1) * (x2 - x1))
                })
                .collect();
            crossings.sort_by(f64::total_cmp);
            for pair in crossings.chunks_exact(2) {
                for x in Self::within(pair[0].ceil() as i64, pair[1].floor() as i64, self.width) {
                    self.put(x, y, color, weight);
                }
            }
        }
    }

    /// The width and height of a text.
    pub(super) fn text_size(text: &str, height: RasterHeight) -> (i64, i64) {
        let glyph = get_raster('m', FontWeight::Regular, height);
        let width = glyph.map_or(0, |g| g.width()) as i64;
        (width * text.chars().count() as i64, height.val() as i64)
    }

    /// A text in one line, with its upper left corner at a place. What the font lacks is a question mark.
    pub(super) fn text(&mut self, x: i64, y: i64, text: &str, height: RasterHeight, color: Color) {
        let mut left = x;
        for c in text.chars() {
            let glyph = get_raster(c, FontWeight::Regular, height)
                .or_else(|| get_raster('?', FontWeight::Regular, height));
            let Some(glyph) = glyph else {
                continue;
            };
            for (dy, row) in glyph.raster().iter().enumerate() {
                for (dx, &weight) in row.iter().enumerate() {
                    if weight > 0 {
                        self.put(left + dx as i64, y + dy as i64, color, weight);
                    }
                }
            }
            left += glyph.width() as i64;
        }
    }
}

/// The size of the font nearest to one in pixels.
pub(super) fn font(size: usize) -> RasterHeight {
    match size {
        0..=17 => RasterHeight::Size16,
        18..=21 => RasterHeight::Size20,
        _ => RasterHeight::Size24,
    }
}
