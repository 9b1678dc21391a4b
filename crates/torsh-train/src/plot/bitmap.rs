//! Pixels: plotters' bitmaps, drawn larger and averaged, which gives soft edges.
//!
//! Lines and letters are drawn here: plotters' wide lines have ragged joints, and its letters lack
//! the space that the font puts on their left.

use ab_glyph::Font;
use plotters::prelude::BitMapBackend;
use plotters::style::FontStyle;
use plotters::style::text_anchor::{HPos, VPos};
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind,
};
use torsh_tensor::{DType, Device, Result, Tensor};

use super::fonts::Fonts;

/// What a font size of plotters is in em, here and in its SVG files.
pub(super) const SIZE_OF_EM: f64 = 1.24;

/// Red, green and blue of each pixel, `factor` times as wide and high as the image will be.
pub(super) struct Canvas {
    size: (u32, u32),
    factor: u32,
    pixels: Vec<u8>,
}

impl Canvas {
    pub(super) fn new(size: (u32, u32), factor: u32) -> Canvas {
        let count = (size.0 * factor) as usize * (size.1 * factor) as usize;
        Canvas {
            size,
            factor,
            pixels: vec![255; 3 * count],
        }
    }

    pub(super) fn backend(&mut self, fonts: &'static Fonts) -> Backend<'_> {
        let size = (self.size.0 * self.factor, self.size.1 * self.factor);
        Backend {
            pixels: BitMapBackend::with_buffer(&mut self.pixels, size),
            factor: self.factor as i32,
            fonts,
        }
    }

    /// The bytes of a file.
    pub(super) fn png(&self) -> Result<Vec<u8>> {
        let factor = self.factor as usize;
        let (width, height) = (self.size.0 as usize, self.size.1 as usize);
        let mut small = Vec::with_capacity(3 * width * height);
        for y in 0..height {
            for x in 0..width {
                let mut sum = [0u32; 3];
                for j in 0..factor {
                    let row = (y * factor + j) * width * factor + x * factor;
                    let part = &self.pixels[3 * row..3 * (row + factor)];
                    for (i, v) in part.iter().enumerate() {
                        sum[i % 3] += u32::from(*v);
                    }
                }
                let count = (factor * factor) as u32;
                small.extend(sum.map(|s| ((s + count / 2) / count) as u8));
            }
        }
        let image = Tensor::from_slice(&small, [height, width, 3], DType::U8, Device::Cpu)?;
        torsh_data::encode_png(&image.permute([2, 0, 1])?)
    }
}

pub(super) struct Backend<'a> {
    pixels: BitMapBackend<'a>,
    factor: i32,
    fonts: &'static Fonts,
}

type Drawn<'a> = Result<(), DrawingErrorKind<<BitMapBackend<'a> as DrawingBackend>::ErrorType>>;

impl<'a> Backend<'a> {
    /// A line with round ends.
    fn stroke(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        r: f64,
        c: BackendColor,
    ) -> Drawn<'a> {
        let (x0, y0) = (f64::from(from.0), f64::from(from.1));
        let (dx, dy) = (f64::from(to.0) - x0, f64::from(to.1) - y0);
        let length = dx.hypot(dy).max(1e-9);
        // Along its longer side; across it, as far as the line can reach there.
        let flat = dx.abs() >= dy.abs();
        let (a0, b0, da, db) = match flat {
            true => (x0, y0, dx, dy),
            false => (y0, x0, dy, dx),
        };
        let slope = if da == 0.0 { 0.0 } else { db / da };
        let across = (r * length / da.abs().max(1e-9)).min(2.0 * r) + r;
        let (first, last) = (
            (a0.min(a0 + da) - r) as i32,
            (a0.max(a0 + da) + r).ceil() as i32,
        );
        for a in first..=last {
            let middle = b0 + (f64::from(a) - a0).clamp(da.min(0.0), da.max(0.0)) * slope;
            for b in (middle - across) as i32..=(middle + across).ceil() as i32 {
                let (x, y) = if flat { (a, b) } else { (b, a) };
                let (px, py) = (f64::from(x) - x0, f64::from(y) - y0);
                let t = ((px * dx + py * dy) / (length * length)).clamp(0.0, 1.0);
                if (px - t * dx).hypot(py - t * dy) <= r {
                    self.draw_pixel((x, y), c)?;
                }
            }
        }
        Ok(())
    }
}

impl<'a> DrawingBackend for Backend<'a> {
    type ErrorType = <BitMapBackend<'a> as DrawingBackend>::ErrorType;

    fn get_size(&self) -> (u32, u32) {
        self.pixels.get_size()
    }

    fn ensure_prepared(&mut self) -> Drawn<'a> {
        self.pixels.ensure_prepared()
    }

    fn present(&mut self) -> Drawn<'a> {
        self.pixels.present()
    }

    fn draw_pixel(&mut self, at: BackendCoord, color: BackendColor) -> Drawn<'a> {
        let (w, h) = self.get_size();
        match (0..w as i32).contains(&at.0) && (0..h as i32).contains(&at.1) {
            true => self.pixels.draw_pixel(at, color),
            false => Ok(()),
        }
    }

    fn draw_line<S: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &S,
    ) -> Drawn<'a> {
        self.draw_path([from, to], style)
    }

    fn draw_rect<S: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &S,
        fill: bool,
    ) -> Drawn<'a> {
        self.pixels.draw_rect(from, to, style, fill)
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        path: I,
        style: &S,
    ) -> Drawn<'a> {
        let path: Vec<BackendCoord> = path.into_iter().collect();
        let (width, color) = (style.stroke_width() as i32, style.color());
        for pair in path.windows(2) {
            let ((x0, y0), (x1, y1)) = (pair[0], pair[1]);
            if (x0 == x1 || y0 == y1) && width < 2 * self.factor {
                // A thin line along an axis fills whole pixels of the image.
                let snap = |v: i32| v.div_euclid(self.factor) * self.factor;
                let (left, top) = (snap(x0.min(x1)), snap(y0.min(y1)));
                let (right, bottom) = (snap(x0.max(x1)), snap(y0.max(y1)));
                let thick = snap(width).max(self.factor) - 1;
                let end = (right + thick, bottom + thick);
                self.pixels.draw_rect((left, top), end, &color, true)?;
            } else {
                self.stroke(pair[0], pair[1], f64::from(width) / 2.0, color)?;
            }
        }
        Ok(())
    }

    fn draw_circle<S: BackendStyle>(
        &mut self,
        center: BackendCoord,
        radius: u32,
        style: &S,
        _fill: bool,
    ) -> Drawn<'a> {
        self.stroke(center, center, f64::from(radius), style.color())
    }

    fn draw_text<S: BackendTextStyle>(
        &mut self,
        text: &str,
        style: &S,
        at: BackendCoord,
    ) -> Drawn<'a> {
        let em = style.size() / SIZE_OF_EM;
        let bold = matches!(style.style(), FontStyle::Bold);
        let (glyphs, width) = self.fonts.lay_out(text, em, bold);
        let left = match style.anchor().h_pos {
            HPos::Left => 0.0,
            HPos::Center => -width / 2.0,
            HPos::Right => -width,
        };
        // Where the baseline is. The middle is that of digits.
        let down = match style.anchor().v_pos {
            VPos::Top => 0.76,
            VPos::Center => 0.36,
            VPos::Bottom => -0.27,
        } * em as f32;
        let (transform, color) = (style.transform(), style.color());
        let mut drawn = Ok(());
        for mut glyph in glyphs {
            glyph.position.x += left;
            glyph.position.y += down;
            let Some(outline) = self.fonts.face(bold).outline_glyph(glyph) else {
                continue;
            };
            let corner = outline.px_bounds().min;
            outline.draw(|x, y, share| {
                let (x, y) = (corner.x as i32 + x as i32, corner.y as i32 + y as i32);
                let (x, y) = transform.transform(x, y);
                let alpha = color.alpha * f64::from(share.clamp(0.0, 1.0));
                let color = BackendColor { alpha, ..color };
                if drawn.is_ok() {
                    drawn = self.draw_pixel((at.0 + x, at.1 + y), color);
                }
            });
        }
        drawn
    }

    fn estimate_text_size<S: BackendTextStyle>(
        &self,
        text: &str,
        style: &S,
    ) -> Result<(u32, u32), DrawingErrorKind<Self::ErrorType>> {
        let em = style.size() / SIZE_OF_EM;
        let bold = matches!(style.style(), FontStyle::Bold);
        Ok((self.fonts.width(text, em, bold) as u32, em.ceil() as u32))
    }
}
