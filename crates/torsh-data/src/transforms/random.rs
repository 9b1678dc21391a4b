//! Random transforms.

use torsh_core::random::{
    default_generator, fill_normal_f32, fill_random_range_i64, fill_uniform_f32,
};
use torsh_tensor::{DType, Device, Result, Tensor, TorshError};

use super::{Pad, PadMode, Transform, crop, image_size, probability};

/// `torch.rand(1)`, between two bounds.
fn uniform(low: f64, high: f64) -> f64 {
    let mut v = [0f32];
    fill_uniform_f32(default_generator(), &mut v, low, high);
    f64::from(v[0])
}

/// `torch.randint(0, end, (1,))`.
fn below(end: usize) -> usize {
    let mut v = [0i64];
    fill_random_range_i64(default_generator(), &mut v, 0, end as i64);
    v[0] as usize
}

macro_rules! flips {
    ($($(#[$doc:meta])* $name:ident $text:literal $dim:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name {
            p: f64,
        }

        impl $name {
            /// With this probability.
            #[track_caller]
            pub fn new(p: f64) -> Result<Self> {
                Ok($name { p: probability($text, p)? })
            }
        }

        impl Default for $name {
            fn default() -> Self {
                $name { p: 0.5 }
            }
        }

        impl Transform for $name {
            fn apply(&self, x: &Tensor) -> Result<Tensor> {
                image_size($text, x)?;
                if uniform(0.0, 1.0) < self.p {
                    x.flip($dim)
                } else {
                    Ok(x.clone())
                }
            }
        }
    )*};
}
flips! {
    /// The image mirrored left to right, or as it is
    /// (`torchvision.transforms.RandomHorizontalFlip`).
    RandomHorizontalFlip "RandomHorizontalFlip" -1;
    /// The image upside down, or as it is (`torchvision.transforms.RandomVerticalFlip`).
    RandomVerticalFlip "RandomVerticalFlip" -2;
}

/// A part of the image at a random place (`torchvision.transforms.RandomCrop`).
#[derive(Clone, Copy, Debug)]
pub struct RandomCrop {
    size: (usize, usize),
    padding: Option<Pad>,
    pad_if_needed: bool,
    fill: f64,
    mode: PadMode,
}

impl RandomCrop {
    /// Of this height and width. A smaller image is an error.
    pub fn new(height: usize, width: usize) -> Self {
        RandomCrop {
            size: (height, width),
            padding: None,
            pad_if_needed: false,
            fill: 0.0,
            mode: PadMode::Constant,
        }
    }

    /// Pads the image first, as [`Pad`] does.
    #[track_caller]
    pub fn padding(mut self, padding: impl Into<Vec<i64>>) -> Result<Self> {
        self.padding = Some(Pad::new(padding)?);
        Ok(self)
    }

    /// Whether an image that is too small is padded (false).
    #[must_use]
    pub fn pad_if_needed(mut self, pad_if_needed: bool) -> Self {
        self.pad_if_needed = pad_if_needed;
        self
    }

    /// The value of pixels around the image (0).
    #[must_use]
    pub fn fill(mut self, fill: f64) -> Self {
        self.fill = fill;
        self
    }

    /// What is around the image.
    #[must_use]
    pub fn padding_mode(mut self, mode: PadMode) -> Self {
        self.mode = mode;
        self
    }

    fn padded(&self, x: &Tensor, pad: Pad) -> Result<Tensor> {
        pad.fill(self.fill).padding_mode(self.mode).apply(x)
    }
}

impl Transform for RandomCrop {
    fn apply(&self, x: &Tensor) -> Result<Tensor> {
        let mut x = x.clone();
        image_size("RandomCrop", &x)?;
        if let Some(pad) = self.padding {
            x = self.padded(&x, pad)?;
        }
        let (th, tw) = self.size;
        let (mut h, mut w) = image_size("RandomCrop", &x)?;
        if self.pad_if_needed && w < tw {
            x = self.padded(&x, Pad::new([(tw - w) as i64, 0])?)?;
        }
        if self.pad_if_needed && h < th {
            x = self.padded(&x, Pad::new([0, (th - h) as i64])?)?;
        }
        if self.pad_if_needed {
            (h, w) = image_size("RandomCrop", &x)?;
        }
        if h < th || w < tw {
            return Err(TorshError::shape(
                "RandomCrop",
                format!(
                    "Required crop size {:?} is larger than input image size {:?}",
                    self.size,
                    (h, w)
                ),
            )
            .with_hint("pad_if_needed(true) pads such images"));
        }
        if (h, w) == self.size {
            return Ok(x);
        }
        let top = below(h - th + 1);
        let left = below(w - tw + 1);
        crop(&x, (top, left), self.size)
    }
}

/// The image with a random rectangle overwritten (`torchvision.transforms.RandomErasing`).
#[derive(Clone, Copy, Debug)]
pub struct RandomErasing {
    p: f64,
    scale: (f64, f64),
    ratio: (f64, f64),
    /// `None` for normal numbers.
    value: Option<f64>,
}

impl Default for RandomErasing {
    fn default() -> Self {
        RandomErasing {
            p: 0.5,
            scale: (0.02, 0.33),
            ratio: (0.3, 3.3),
            value: Some(0.0),
        }
    }
}

impl RandomErasing {
    /// With this probability; 2 to 33 % of the area, sides of 0.3 to 3.3, zeros.
    #[track_caller]
    pub fn new(p: f64) -> Result<Self> {
        Ok(RandomErasing {
            p: probability("RandomErasing", p)?,
            ..RandomErasing::default()
        })
    }

    /// From which to which part of the area the rectangle has, from 0 to 1.
    #[track_caller]
    pub fn scale(mut self, from: f64, to: f64) -> Result<Self> {
        if !(0.0 <= from && from <= to && to <= 1.0) {
            return Err(TorshError::invalid(
                "RandomErasing",
                format!("scale must be between 0 and 1, got {from} to {to}"),
            ));
        }
        self.scale = (from, to);
        Ok(self)
    }

    /// From which to which ratio its height has to its width.
    #[track_caller]
    pub fn ratio(mut self, from: f64, to: f64) -> Result<Self> {
        if !(0.0 < from && from <= to && to.is_finite()) {
            return Err(TorshError::invalid(
                "RandomErasing",
                format!("ratio must be positive and rising, got {from} to {to}"),
            ));
        }
        self.ratio = (from, to);
        Ok(self)
    }

    /// What it is filled with: a value, or `None` for normal numbers (0).
    #[must_use]
    pub fn value(mut self, value: impl Into<Option<f64>>) -> Self {
        self.value = value.into();
        self
    }
}

impl Transform for RandomErasing {
    fn apply(&self, x: &Tensor) -> Result<Tensor> {
        let (h, w) = image_size("RandomErasing", x)?;
        if uniform(0.0, 1.0) >= self.p {
            return Ok(x.clone());
        }
        let area = (h * w) as f64;
        for _ in 0..10 {
            let erased = area * uniform(self.scale.0, self.scale.1);
            let ratio = uniform(self.ratio.0.ln(), self.ratio.1.ln());
            // torchvision takes the exponential of a float32.
            let ratio = f64::from((ratio as f32).exp());
            let eh = (erased * ratio).sqrt().round_ties_even() as usize;
            let ew = (erased / ratio).sqrt().round_ties_even() as usize;
            if eh >= h || ew >= w {
                continue;
            }
            let drawn = match self.value {
                Some(_) => None,
                None => {
                    let channels = x.dims()[x.ndim() - 3];
                    let mut v = vec![0f32; channels * eh * ew];
                    fill_normal_f32(default_generator(), &mut v, 0.0, 1.0);
                    Some(Tensor::from_slice(
                        &v,
                        [channels, eh, ew],
                        DType::F32,
                        Device::Cpu,
                    )?)
                }
            };
            let (top, left) = (below(h - eh + 1), below(w - ew + 1));
            let out = x.copy()?;
            let place = crop(&out, (top, left), (eh, ew))?;
            match (&drawn, self.value) {
                (Some(v), _) => place.copy_(v)?,
                (None, v) => place.fill_(v.unwrap_or(0.0))?,
            };
            return Ok(out);
        }
        Ok(x.clone())
    }
}
