//! Transforms of size.

use torsh_tensor::{
    DType, InterpolateMode, InterpolateOptions, PadOptions, Result, Scalar, Tensor, TorshError,
};

use super::{Transform, crop, image_size};

/// What is around an image.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum PadMode {
    /// One value.
    #[default]
    Constant,
    /// The value at the edge.
    Edge,
    /// The image mirrored, without the edge again.
    Reflect,
}

/// The image with pixels around it (`torchvision.transforms.Pad`).
#[derive(Clone, Copy, Debug)]
pub struct Pad {
    /// Left, top, right, bottom.
    pub(super) padding: [i64; 4],
    pub(super) fill: f64,
    pub(super) mode: PadMode,
}

impl Pad {
    /// As many pixels left, top, right and bottom, of value 0; a number is for all, two are for
    /// left and right, and for top and bottom.
    #[track_caller]
    pub fn new(padding: impl Into<Vec<i64>>) -> Result<Self> {
        let padding = match padding.into()[..] {
            [all] => [all; 4],
            [x, y] => [x, y, x, y],
            [left, top, right, bottom] => [left, top, right, bottom],
            ref other => {
                return Err(TorshError::invalid(
                    "Pad",
                    format!("padding must be 1, 2 or 4 numbers, got {}", other.len()),
                ));
            }
        };
        Ok(Pad {
            padding,
            fill: 0.0,
            mode: PadMode::Constant,
        })
    }

    /// The pixels' value (0), with [`PadMode::Constant`].
    #[must_use]
    pub fn fill(mut self, fill: f64) -> Self {
        self.fill = fill;
        self
    }

    /// What the pixels are.
    #[must_use]
    pub fn padding_mode(mut self, mode: PadMode) -> Self {
        self.mode = mode;
        self
    }
}

impl Transform for Pad {
    fn apply(&self, x: &Tensor) -> Result<Tensor> {
        image_size("Pad", x)?;
        let [left, top, right, bottom] = self.padding;
        let pad = [left, right, top, bottom];
        let padded = match self.mode {
            PadMode::Constant if x.dtype().is_floating_point() => {
                x.pad_with(pad, PadOptions::new().value(Scalar::from(self.fill)))
            }
            PadMode::Constant => {
                x.pad_with(pad, PadOptions::new().value(Scalar::from(self.fill as i64)))
            }
            PadMode::Edge => around(x, pad, "replicate"),
            PadMode::Reflect => around(x, pad, "reflect"),
        };
        padded.map_err(|e| e.renamed("Pad"))
    }
}

/// Pads with the image's own pixels, which kernels do in floating point only. `float32` holds every
/// pixel of 8 and 16 bits; larger integers need `float64`, which not every device has.
fn around(x: &Tensor, pad: [i64; 4], mode: &str) -> Result<Tensor> {
    if x.dtype().is_floating_point() {
        x.pad_with(pad, PadOptions::new().mode(mode))
    } else {
        let exact = match x.dtype() {
            DType::I32 | DType::I64 => DType::F64,
            _ => DType::F32,
        };
        x.to_dtype(exact)?
            .pad_with(pad, PadOptions::new().mode(mode))?
            .to_dtype(x.dtype())
    }
}

/// The image in another size, smoothed where it shrinks (`torchvision.transforms.Resize`).
#[derive(Clone, Debug)]
pub struct Resize {
    size: Vec<usize>,
    interpolation: InterpolateMode,
    antialias: bool,
}

impl Resize {
    /// To `[height, width]`, or so that the shorter side has this size. Errors: neither one nor
    /// two sizes, a size of 0.
    #[track_caller]
    pub fn new(size: impl Into<Vec<usize>>) -> Result<Self> {
        let size = size.into();
        if !matches!(size.len(), 1 | 2) || size.contains(&0) {
            return Err(TorshError::invalid(
                "Resize",
                format!("size must be one or two positive numbers, got {size:?}"),
            ));
        }
        Ok(Resize {
            size,
            interpolation: InterpolateMode::Bilinear,
            antialias: true,
        })
    }

    /// Nearest, NearestExact, Bilinear or Bicubic (Bilinear).
    #[must_use]
    pub fn interpolation(mut self, interpolation: InterpolateMode) -> Self {
        self.interpolation = interpolation;
        self
    }

    /// Whether a smaller image is smoothed (true).
    #[must_use]
    pub fn antialias(mut self, antialias: bool) -> Self {
        self.antialias = antialias;
        self
    }

    fn target(&self, (h, w): (usize, usize)) -> (usize, usize) {
        match self.size[..] {
            [h, w] => (h, w),
            _ => {
                let short = self.size[0];
                let long =
                    |a: usize, b: usize| (short as u128 * b as u128 / a.max(1) as u128) as usize;
                if w <= h {
                    (long(w, h), short)
                } else {
                    (short, long(h, w))
                }
            }
        }
    }
}

impl Transform for Resize {
    fn apply(&self, x: &Tensor) -> Result<Tensor> {
        let size = image_size("Resize", x)?;
        let to = self.target(size);
        if to == size {
            return Ok(x.clone());
        }
        let smooth = matches!(
            self.interpolation,
            InterpolateMode::Bilinear | InterpolateMode::Bicubic
        );
        let batch = if x.ndim() == 3 {
            x.unsqueeze(0)?
        } else {
            x.clone()
        };
        let exact = x.dtype().is_floating_point();
        let numbers = if exact {
            batch
        } else {
            batch.to_dtype(DType::F32)?
        };
        let out = numbers
            .interpolate_with(
                InterpolateOptions::new()
                    .size([to.0, to.1])
                    .mode(self.interpolation)
                    .antialias(self.antialias && smooth),
            )
            .map_err(|e| e.renamed("Resize"))?;
        let out = if x.ndim() == 3 { out.squeeze(0)? } else { out };
        if exact {
            return Ok(out);
        }
        // Cubic curves reach beyond the values between which they run.
        let out = if self.interpolation == InterpolateMode::Bicubic && x.dtype() == DType::U8 {
            out.clamp(0.0, 255.0)?
        } else {
            out
        };
        out.round()?.to_dtype(x.dtype())
    }
}

/// The middle of an image, with zeros around it where it is smaller
/// (`torchvision.transforms.CenterCrop`).
#[derive(Clone, Copy, Debug)]
pub struct CenterCrop {
    size: (usize, usize),
}

impl CenterCrop {
    /// Of this height and width.
    pub fn new(height: usize, width: usize) -> Self {
        CenterCrop {
            size: (height, width),
        }
    }
}

impl Transform for CenterCrop {
    fn apply(&self, x: &Tensor) -> Result<Tensor> {
        let (mut h, mut w) = image_size("CenterCrop", x)?;
        let (th, tw) = self.size;
        let mut x = x.clone();
        if tw > w || th > h {
            let (dw, dh) = (tw.saturating_sub(w) as i64, th.saturating_sub(h) as i64);
            x = Pad::new([dw / 2, dh / 2, (dw + 1) / 2, (dh + 1) / 2])?.apply(&x)?;
            (h, w) = (h.max(th), w.max(tw));
        }
        // Python rounds halves to even.
        let middle =
            |have: usize, want: usize| ((have - want) as f64 / 2.0).round_ties_even() as usize;
        crop(&x, (middle(h, th), middle(w, tw)), (th, tw))
    }
}
