//! Random colours.

use torsh_tensor::{Result, Tensor, TorshError};

use super::apply::{ItemTransform, fixed, probability, query_chw};
use super::arguments::Span;
use super::draws::{permutation, rand, uniform};
use super::functional as f;
use super::sample::Item;
use super::transforms;

/// Images and videos changed; other items as they are.
pub(super) fn recolored(
    item: &Item,
    change: impl FnOnce(&Tensor) -> Result<Tensor>,
) -> Result<Item> {
    if item.has_pixels() {
        item.map(change)
    } else {
        Ok(item.clone())
    }
}

transforms!(
    Grayscale,
    RandomGrayscale,
    RGB,
    ColorJitter,
    RandomChannelPermutation,
    RandomPhotometricDistort,
    RandomEqualize,
    RandomInvert,
    RandomPosterize,
    RandomSolarize,
    RandomAutocontrast,
    RandomAdjustSharpness
);

/// The image in grey (`torchvision.transforms.v2.Grayscale`).
#[derive(Clone, Copy, Debug)]
pub struct Grayscale {
    num_output_channels: usize,
}

impl Grayscale {
    /// With 1 or 3 equal channels.
    ///
    /// # Errors
    /// Another number.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(num_output_channels: usize) -> Result<Self> {
        if num_output_channels != 1 && num_output_channels != 3 {
            return Err(TorshError::invalid(
                Self::NAME,
                format!("num_output_channels must be 1 or 3, got {num_output_channels}"),
            ));
        }
        Ok(Grayscale {
            num_output_channels,
        })
    }
}

impl Default for Grayscale {
    fn default() -> Self {
        Grayscale {
            num_output_channels: 1,
        }
    }
}

fixed!(Grayscale, self, item, {
    recolored(item, |x| f::rgb_to_grayscale(x, self.num_output_channels))
});

/// A grey image with three equal channels (`torchvision.transforms.v2.RGB`).
#[derive(Clone, Copy, Debug, Default)]
pub struct RGB;

fixed!(RGB, self, item, recolored(item, f::grayscale_to_rgb));

/// The image in grey with as many channels, or as it is (`torchvision.transforms.v2.RandomGrayscale`).
#[derive(Clone, Copy, Debug)]
pub struct RandomGrayscale {
    p: f64,
}

impl RandomGrayscale {
    /// With this probability.
    ///
    /// # Errors
    /// Not from 0 to 1.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(p: f64) -> Result<Self> {
        Ok(RandomGrayscale {
            p: probability(Self::NAME, p)?,
        })
    }
}

impl Default for RandomGrayscale {
    fn default() -> Self {
        RandomGrayscale { p: 0.1 }
    }
}

impl ItemTransform for RandomGrayscale {
    type Params = usize;
    const NAME: &'static str = "RandomGrayscale";
    fn probability(&self) -> Option<f64> {
        Some(self.p)
    }
    fn params(&self, items: &[&Item]) -> Result<usize> {
        Ok(query_chw(Self::NAME, items)?.0)
    }
    fn item(&self, item: &Item, channels: &usize) -> Result<Item> {
        recolored(item, |x| f::rgb_to_grayscale(x, *channels))
    }
}

/// Brightness, contrast, saturation and hue changed at random, in random order
/// (`torchvision.transforms.v2.ColorJitter`).
///
/// ```
/// use torsh_tensor::zeros;
/// use torsh_vision::transforms::{ColorJitter, Transform};
/// let jitter = ColorJitter::new().brightness(0.4)?.contrast((0.6, 1.4))?.hue(0.1)?;
/// assert_eq!(jitter.apply(&zeros([3, 4, 4]))?, zeros([3, 4, 4]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct ColorJitter {
    brightness: Option<(f64, f64)>,
    contrast: Option<(f64, f64)>,
    saturation: Option<(f64, f64)>,
    hue: Option<(f64, f64)>,
}

impl ColorJitter {
    /// Nothing changes, yet a permutation is drawn.
    pub fn new() -> Self {
        ColorJitter::default()
    }

    fn range(name: &str, span: Span, center: f64, bound: (f64, f64)) -> Result<Option<(f64, f64)>> {
        let (from, to) = match span {
            Span::Around(v) if v < 0.0 => {
                return Err(TorshError::invalid(
                    Self::NAME,
                    format!("a single number of {name} must not be negative, got {v}"),
                ));
            }
            Span::Around(v) if center == 1.0 => ((center - v).max(0.0), center + v),
            Span::Around(v) => (center - v, center + v),
            Span::Between(a, b) => (a, b),
        };
        if !(bound.0 <= from && from <= to && to <= bound.1) {
            return Err(TorshError::invalid(
                Self::NAME,
                format!(
                    "{name} must rise and be from {} to {}, got {from} to {to}",
                    bound.0, bound.1
                ),
            ));
        }
        Ok((from != center || to != center).then_some((from, to)))
    }

    /// The factors of the brightness: from which to which, or around 1.
    ///
    /// # Errors
    /// Negative or falling ones.
    #[torsh_tensor::names_caller]
    pub fn brightness(mut self, factors: impl Into<Span>) -> Result<Self> {
        self.brightness = Self::range("brightness", factors.into(), 1.0, (0.0, f64::INFINITY))?;
        Ok(self)
    }

    /// The factors of the contrast: from which to which, or around 1.
    ///
    /// # Errors
    /// Negative or falling ones.
    #[torsh_tensor::names_caller]
    pub fn contrast(mut self, factors: impl Into<Span>) -> Result<Self> {
        self.contrast = Self::range("contrast", factors.into(), 1.0, (0.0, f64::INFINITY))?;
        Ok(self)
    }

    /// The factors of the saturation: from which to which, or around 1.
    ///
    /// # Errors
    /// Negative or falling ones.
    #[torsh_tensor::names_caller]
    pub fn saturation(mut self, factors: impl Into<Span>) -> Result<Self> {
        self.saturation = Self::range("saturation", factors.into(), 1.0, (0.0, f64::INFINITY))?;
        Ok(self)
    }

    /// By which parts of the circle of hues: from which to which, or around 0; at most 0.5.
    ///
    /// # Errors
    /// Beyond -0.5 to 0.5, or falling.
    #[torsh_tensor::names_caller]
    pub fn hue(mut self, parts: impl Into<Span>) -> Result<Self> {
        self.hue = Self::range("hue", parts.into(), 0.0, (-0.5, 0.5))?;
        Ok(self)
    }
}

impl ItemTransform for ColorJitter {
    type Params = Vec<(usize, f64)>;
    const NAME: &'static str = "ColorJitter";
    fn params(&self, _: &[&Item]) -> Result<Self::Params> {
        let order = permutation(4);
        let factors = [self.brightness, self.contrast, self.saturation, self.hue]
            .map(|range| range.map(|(from, to)| uniform(from, to)));
        Ok(order
            .into_iter()
            .filter_map(|i| Some((i, factors[i]?)))
            .collect())
    }
    fn item(&self, item: &Item, changes: &Self::Params) -> Result<Item> {
        recolored(item, |x| {
            changes.iter().try_fold(x.clone(), |x, &(i, v)| match i {
                0 => f::adjust_brightness(&x, v),
                1 => f::adjust_contrast(&x, v),
                2 => f::adjust_saturation(&x, v),
                _ => f::adjust_hue(&x, v),
            })
        })
    }
}

/// The channels in a random order (`torchvision.transforms.v2.RandomChannelPermutation`).
#[derive(Clone, Copy, Debug, Default)]
pub struct RandomChannelPermutation;

impl ItemTransform for RandomChannelPermutation {
    type Params = Vec<usize>;
    const NAME: &'static str = "RandomChannelPermutation";
    fn params(&self, items: &[&Item]) -> Result<Vec<usize>> {
        Ok(permutation(query_chw(Self::NAME, items)?.0))
    }
    fn item(&self, item: &Item, order: &Vec<usize>) -> Result<Item> {
        recolored(item, |x| f::permute_channels(x, order))
    }
}

/// Brightness, contrast, saturation, hue and the order of the channels, each changed or not
/// (`torchvision.transforms.v2.RandomPhotometricDistort`; W. Liu et al., "SSD: Single shot multibox detector", 2016).
#[derive(Clone, Copy, Debug)]
pub struct RandomPhotometricDistort {
    brightness: (f64, f64),
    contrast: (f64, f64),
    saturation: (f64, f64),
    hue: (f64, f64),
    p: f64,
}

impl Default for RandomPhotometricDistort {
    fn default() -> Self {
        RandomPhotometricDistort {
            brightness: (0.875, 1.125),
            contrast: (0.5, 1.5),
            saturation: (0.5, 1.5),
            hue: (-0.05, 0.05),
            p: 0.5,
        }
    }
}

impl RandomPhotometricDistort {
    /// Each with a probability of one half.
    pub fn new() -> Self {
        RandomPhotometricDistort::default()
    }

    setters! {
        /// The factors of the brightness (0.875 to 1.125).
        brightness: (f64, f64);
        /// The factors of the contrast (0.5 to 1.5).
        contrast: (f64, f64);
        /// The factors of the saturation (0.5 to 1.5).
        saturation: (f64, f64);
        /// The parts of the circle of hues (-0.05 to 0.05).
        hue: (f64, f64);
        /// With which probability each changes (0.5).
        p: f64;
    }
}

/// What [`RandomPhotometricDistort`] draws.
pub(crate) struct Distortion {
    /// Of brightness, contrast, saturation, hue.
    factors: [Option<f64>; 4],
    contrast_before: bool,
    order: Option<Vec<usize>>,
}

impl ItemTransform for RandomPhotometricDistort {
    type Params = Distortion;
    const NAME: &'static str = "RandomPhotometricDistort";
    fn params(&self, items: &[&Item]) -> Result<Distortion> {
        let (channels, _, _) = query_chw(Self::NAME, items)?;
        let happens = || rand(1)[0] < self.p as f32;
        let factors = [self.brightness, self.contrast, self.saturation, self.hue]
            .map(|(from, to)| happens().then(|| uniform(from, to)));
        let contrast_before = rand(1)[0] < 0.5;
        let order = happens().then(|| permutation(channels));
        Ok(Distortion {
            factors,
            contrast_before,
            order,
        })
    }
    fn item(&self, item: &Item, p: &Distortion) -> Result<Item> {
        let [brightness, contrast, saturation, hue] = p.factors;
        let contrast_at = |before: bool| contrast.filter(|_| p.contrast_before == before);
        type Step = fn(&Tensor, f64) -> Result<Tensor>;
        let steps: [(Option<f64>, Step); 5] = [
            (brightness, f::adjust_brightness),
            (contrast_at(true), f::adjust_contrast),
            (saturation, f::adjust_saturation),
            (hue, f::adjust_hue),
            (contrast_at(false), f::adjust_contrast),
        ];
        recolored(item, |x| {
            let mut x = x.clone();
            for (factor, step) in steps {
                if let Some(v) = factor {
                    x = step(&x, v)?;
                }
            }
            match &p.order {
                Some(order) => f::permute_channels(&x, order),
                None => Ok(x),
            }
        })
    }
}

macro_rules! with_probability {
    ($($(#[doc = $doc:literal])+ $name:ident ($($arg:ident: $t:ty),*) |$x:ident, $s:ident| $change:expr;)*) => {$(
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug)]
        pub struct $name {
            $($arg: $t,)*
            p: f64,
        }

        impl $name {
            /// With probability `p`.
            ///
            /// # Errors
            /// Not from 0 to 1.
            #[torsh_tensor::names_caller(Self)]
            pub fn new($($arg: $t,)* p: f64) -> Result<Self> {
                Ok($name { $($arg,)* p: probability(Self::NAME, p)? })
            }
        }

        impl ItemTransform for $name {
            type Params = ();
            const NAME: &'static str = stringify!($name);
            fn probability(&self) -> Option<f64> {
                Some(self.p)
            }
            fn params(&self, _: &[&Item]) -> Result<()> {
                Ok(())
            }
            fn item(&self, item: &Item, (): &()) -> Result<Item> {
                let $s = self;
                recolored(item, |$x| $change)
            }
        }
    )*};
}
with_probability! {
    /// Each value about as often, or as it is (`torchvision.transforms.v2.RandomEqualize`).
    RandomEqualize () |x, _s| f::equalize(x);
    /// The negative, or the image as it is (`torchvision.transforms.v2.RandomInvert`).
    RandomInvert () |x, _s| f::invert(x);
    /// Fewer bits of each value, or the image as it is (`torchvision.transforms.v2.RandomPosterize`).
    RandomPosterize (bits: u32) |x, s| f::posterize(x, s.bits);
    /// Values from a threshold inverted, or the image as it is (`torchvision.transforms.v2.RandomSolarize`).
    RandomSolarize (threshold: f64) |x, s| f::solarize(x, s.threshold);
    /// Each channel stretched to the whole range, or as it is (`torchvision.transforms.v2.RandomAutocontrast`).
    RandomAutocontrast () |x, _s| f::autocontrast(x);
    /// Sharper or blurred, or the image as it is (`torchvision.transforms.v2.RandomAdjustSharpness`).
    RandomAdjustSharpness (sharpness_factor: f64) |x, s| f::adjust_sharpness(x, s.sharpness_factor);
}
