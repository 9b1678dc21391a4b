//! The letters: Noto Sans.

use std::sync::LazyLock;

use ab_glyph::{Font, FontRef, Glyph, PxScale, point};
use torsh_tensor::{Result, TorshError};

/// The regular and the bold face.
pub(super) struct Fonts {
    regular: FontRef<'static>,
    bold: FontRef<'static>,
}

impl Fonts {
    #[track_caller]
    pub(super) fn get() -> Result<&'static Fonts> {
        static FONTS: LazyLock<Option<Fonts>> = LazyLock::new(|| {
            Some(Fonts {
                regular: FontRef::try_from_slice(notosans::REGULAR_TTF).ok()?,
                bold: FontRef::try_from_slice(notosans::BOLD_TTF).ok()?,
            })
        });
        FONTS.as_ref().ok_or_else(|| {
            TorshError::Other("Plot::save: the font that is compiled in cannot be read".into())
        })
    }

    pub(super) fn face(&self, bold: bool) -> &FontRef<'static> {
        match bold {
            true => &self.bold,
            false => &self.regular,
        }
    }

    /// The glyphs of a text whose em is so many pixels, from 0 on along a baseline at 0, and where
    /// the text ends.
    pub(super) fn lay_out(&self, text: &str, em: f64, bold: bool) -> (Vec<Glyph>, f32) {
        let font = self.face(bold);
        let per_em = font.units_per_em().unwrap_or(1000.0);
        let scale = PxScale::from(em as f32 * font.height_unscaled() / per_em);
        let unscaled = em as f32 / per_em;
        let (mut x, mut last) = (0.0, None);
        let mut glyphs = Vec::new();
        for c in text.chars() {
            let id = font.glyph_id(c);
            if let Some(last) = last.replace(id) {
                x += unscaled * font.kern_unscaled(last, id);
            }
            glyphs.push(id.with_scale_and_position(scale, point(x, 0.0)));
            x += unscaled * font.h_advance_unscaled(id);
        }
        (glyphs, x)
    }

    pub(super) fn width(&self, text: &str, em: f64, bold: bool) -> i32 {
        self.lay_out(text, em, bold).1.ceil() as i32
    }

    /// The text, or as much of its beginning as fits with an ellipsis.
    pub(super) fn fit(&self, text: &str, em: f64, bold: bool, width: i32) -> String {
        // A line break or a tab has no glyph.
        let text: String = text
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        if self.width(&text, em, bold) <= width {
            return text;
        }
        let mut cut = text;
        while cut.pop().is_some() {
            let shown = format!("{}\u{2026}", cut.trim_end());
            if self.width(&shown, em, bold) <= width {
                return shown;
            }
        }
        String::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_is_too_wide_ends_in_an_ellipsis() -> Result<()> {
        let fonts = Fonts::get()?;
        let text = "precision of the fourth class";
        let whole = fonts.width(text, 16.0, true);
        assert!(whole > fonts.width(text, 16.0, false));
        assert_eq!(fonts.fit(text, 16.0, true, whole), text);
        let cut = fonts.fit(text, 16.0, true, whole / 2);
        assert!(
            cut.starts_with("precision") && cut.ends_with('\u{2026}'),
            "{cut}"
        );
        assert!(fonts.width(&cut, 16.0, true) <= whole / 2);
        assert_eq!(fonts.fit("a\nb", 16.0, true, whole), "a b");
        // All that labels are made of, and some letters beyond English.
        let ids = "0123456789.e-+%\u{2026}\u{e4}\u{3bb}\u{436}".chars();
        assert!(
            ids.into_iter()
                .all(|c| fonts.face(false).glyph_id(c).0 != 0)
        );
        Ok(())
    }
}
