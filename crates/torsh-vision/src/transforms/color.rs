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

/// The image in grey, of one channel unless set (`torchvision.transforms.v2.Grayscale`).
///
/// ```
/// use torsh_tensor::{DType, tensor};
/// use torsh_vision::transforms::{Grayscale, Transform};
/// let red = tensor![[[255]], [[0]], [[0]]].to_dtype(DType::U8)?;
/// assert_eq!(Grayscale::new(3)?.apply(&red)?.to_vec::<u8>()?, [76, 76, 76]);
/// assert_eq!(Grayscale::default().apply(&red)?.to_vec::<u8>()?, [76]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
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
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::transforms::{RGB, Transform};
/// assert_eq!(RGB.apply(&tensor![[[0.5]]])?, tensor![[[0.5]], [[0.5]], [[0.5]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct RGB;

fixed!(RGB, self, item, recolored(item, f::grayscale_to_rgb));

/// The image in grey with as many channels, or as it is (`torchvision.transforms.v2.RandomGrayscale`).
///
/// ```
/// use torsh_tensor::{DType, tensor};
/// use torsh_vision::transforms::{RandomGrayscale, Transform};
/// let red = tensor![[[255]], [[0]], [[0]]].to_dtype(DType::U8)?;
/// assert_eq!(RandomGrayscale::new(1.0)?.apply(&red)?.to_vec::<u8>()?, [76, 76, 76]);
/// assert_eq!(RandomGrayscale::new(0.0)?.apply(&red)?, red);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
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
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::transforms::{ColorJitter, Transform};
    /// let half = ColorJitter::new().brightness((0.5, 0.5))?.apply(&tensor![[[0.8]]])?;
    /// assert!(half.allclose(&tensor![[[0.4]]])?);
    /// let error = ColorJitter::new().brightness(-0.5).unwrap_err().to_string();
    /// assert!(error.contains("a single number of brightness must not be negative, got -0.5"));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
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
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::transforms::{ColorJitter, Transform};
    /// // Without contrast all pixels are their mean.
    /// let flat = ColorJitter::new().contrast((0.0, 0.0))?.apply(&tensor![[[0.2, 0.6]]])?;
    /// assert!(flat.allclose(&tensor![[[0.4, 0.4]]])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
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
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::transforms::{ColorJitter, Transform};
    /// let jitter = ColorJitter::new().saturation((0.0, 0.0))?;
    /// let grey = jitter.apply(&tensor![[[1.0]], [[0.0]], [[0.0]]])?;
    /// assert!(grey.allclose(&tensor![[[0.2989]], [[0.2989]], [[0.2989]]])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
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
    /// ```
    /// use torsh_vision::transforms::ColorJitter;
    /// let error = ColorJitter::new().hue(0.6).unwrap_err().to_string();
    /// assert!(error.contains("hue must rise and be from -0.5 to 0.5, got -0.6 to 0.6"));
    /// ```
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
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::transforms::{RandomChannelPermutation, Transform};
/// let mut channels = RandomChannelPermutation.apply(&tensor![[[1]], [[2]], [[3]]])?.to_vec::<i64>()?;
/// channels.sort();
/// assert_eq!(channels, [1, 2, 3]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
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
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::transforms::{RandomPhotometricDistort, Transform};
/// let image = tensor![[[0.2]], [[0.4]], [[0.6]]];
/// assert_eq!(RandomPhotometricDistort::new().p(0.0).apply(&image)?, image);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
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

/// `/// docs  NAME (ARGUMENTS) CALL |image, self| CHANGE;`: the text of a call has the arguments ahead of the probability, for
/// an example.
macro_rules! with_probability {
    ($(
        $(#[doc = $doc:literal])+
        $name:ident ($($arg:ident: $t:ty),*) $call:literal |$x:ident, $s:ident| $change:expr;
    )*) => {$(
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug)]
        pub struct $name {
            $($arg: $t,)*
            p: f64,
        }

        impl $name {
            /// With probability `p`.
            #[doc = concat!(
                "\n```\n",
                "use torsh_vision::transforms::", stringify!($name), ";\n",
                "let error = ", stringify!($name), "::new(", $call, "1.5).unwrap_err().to_string();\n",
                "assert!(error.contains(\"a probability is from 0 to 1, got 1.5\"));\n",
                "```",
            )]
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
    ///
    /// ```
    /// use torsh_tensor::{DType, tensor};
    /// use torsh_vision::transforms::{RandomEqualize, Transform};
    /// let image = tensor![[[100], [200]]].to_dtype(DType::U8)?.expand([1, 2, 255])?;
    /// let want = tensor![[[0], [255]]].to_dtype(DType::U8)?.expand([1, 2, 255])?;
    /// assert_eq!(RandomEqualize::new(1.0)?.apply(&image)?, want);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    RandomEqualize () "" |x, _s| f::equalize(x);
    /// The negative, or the image as it is (`torchvision.transforms.v2.RandomInvert`).
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::transforms::{RandomInvert, Transform};
    /// let image = tensor![[[0.25, 1.0]]];
    /// assert_eq!(RandomInvert::new(1.0)?.apply(&image)?, tensor![[[0.75, 0.0]]]);
    /// assert_eq!(RandomInvert::new(0.0)?.apply(&image)?, image);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    RandomInvert () "" |x, _s| f::invert(x);
    /// Fewer bits of each value, or the image as it is (`torchvision.transforms.v2.RandomPosterize`).
    ///
    /// ```
    /// use torsh_tensor::{DType, tensor};
    /// use torsh_vision::transforms::{RandomPosterize, Transform};
    /// let image = tensor![[[170, 255]]].to_dtype(DType::U8)?;
    /// assert_eq!(RandomPosterize::new(3, 1.0)?.apply(&image)?.to_vec::<u8>()?, [160, 224]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    RandomPosterize (bits: u32) "4, " |x, s| f::posterize(x, s.bits);
    /// Values from a threshold inverted, or the image as it is (`torchvision.transforms.v2.RandomSolarize`).
    ///
    /// ```
    /// use torsh_tensor::{DType, tensor};
    /// use torsh_vision::transforms::{RandomSolarize, Transform};
    /// let image = tensor![[[100, 200]]].to_dtype(DType::U8)?;
    /// assert_eq!(RandomSolarize::new(128.0, 1.0)?.apply(&image)?.to_vec::<u8>()?, [100, 55]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    RandomSolarize (threshold: f64) "0.5, " |x, s| f::solarize(x, s.threshold);
    /// Each channel stretched to the whole range, or as it is (`torchvision.transforms.v2.RandomAutocontrast`).
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::transforms::{RandomAutocontrast, Transform};
    /// let wide = RandomAutocontrast::new(1.0)?.apply(&tensor![[[0.25, 0.5, 0.75]]])?;
    /// assert!(wide.allclose(&tensor![[[0.0, 0.5, 1.0]]])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    RandomAutocontrast () "" |x, _s| f::autocontrast(x);
    /// Sharper or blurred, or the image as it is (`torchvision.transforms.v2.RandomAdjustSharpness`).
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::transforms::{RandomAdjustSharpness, Transform};
    /// let point = tensor![[[0.0, 0.0, 0.0], [0.0, 0.65, 0.0], [0.0, 0.0, 0.0]]];
    /// let blurred = RandomAdjustSharpness::new(0.0, 1.0)?.apply(&point)?;
    /// assert!((blurred.i((0, 1, 1))?.item::<f64>()? - 0.25).abs() < 1e-6);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    RandomAdjustSharpness (sharpness_factor: f64) "2.0, " |x, s| f::adjust_sharpness(x, s.sharpness_factor);
}
