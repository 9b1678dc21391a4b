//! Augmentations made of several ops: AutoAugment, RandAugment, TrivialAugmentWide.

use torsh_tensor::named::Named;
use torsh_tensor::{InterpolateMode, Result, Tensor, TorshError, option_setter};

use super::Transform;
use super::apply::{chosen, items, rebuilt, size_of};
use super::arguments::{Fill, Fills};
use super::draws::{below, rand};
use super::functional::{self as f, AffineOptions, RotateOptions};
use super::policies::{CIFAR10, IMAGENET, Op, SVHN, Step};
use super::sample::{Item, Sample};

/// The ops of RandAugment and TrivialAugmentWide, in torchvision's order.
const FOURTEEN: [Op; 14] = [
    Op::Identity,
    Op::ShearX,
    Op::ShearY,
    Op::TranslateX,
    Op::TranslateY,
    Op::Rotate,
    Op::Brightness,
    Op::Color,
    Op::Contrast,
    Op::Sharpness,
    Op::Posterize,
    Op::Solarize,
    Op::AutoContrast,
    Op::Equalize,
];

/// How strong an op is at its strongest, and how many of 8 bits posterizing leaves at most.
#[derive(Clone, Copy)]
pub(super) struct Strengths {
    pub shear: f64,
    /// Of width and height.
    pub translate: (f64, f64),
    pub rotate: f64,
    pub color: f64,
    /// From so many bits, by so many.
    pub bits: (f32, f32),
}

/// The `at`-th of `bins` strengths, and whether it may be negative; `None` where the op has no strengths.
pub(super) fn magnitude(
    op: Op,
    s: Strengths,
    at: usize,
    bins: usize,
) -> Result<Option<(f64, bool)>> {
    let line = |from: f64, to: f64| -> Result<f64> {
        let all = torsh_tensor::Tensor::linspace(
            from,
            to,
            bins,
            torsh_tensor::DType::F32,
            torsh_tensor::Device::Cpu,
        )?;
        all.select(0, at)?.item()
    };
    let signed = |to: f64| Ok(Some((line(0.0, to)?, true)));
    match op {
        Op::Identity | Op::AutoContrast | Op::Equalize | Op::Invert => Ok(None),
        Op::ShearX | Op::ShearY => signed(s.shear),
        Op::TranslateX => signed(s.translate.0),
        Op::TranslateY => signed(s.translate.1),
        Op::Rotate => signed(s.rotate),
        Op::Brightness | Op::Color | Op::Contrast | Op::Sharpness => signed(s.color),
        Op::Posterize => {
            let (from, by) = s.bits;
            let per_bit = (bins as f64 - 1.0) / f64::from(by);
            let bits = (from - at as f32 / per_bit as f32).round_ties_even();
            Ok(Some((f64::from(bits), false)))
        }
        Op::Solarize => Ok(Some((line(1.0, 0.0)?, false))),
    }
}

/// The strength with a random sign, where it has one.
pub(super) fn signed(magnitude: Option<(f64, bool)>) -> f64 {
    match magnitude {
        None => 0.0,
        Some((m, true)) if rand(1)[0] <= 0.5 => -m,
        Some((m, _)) => m,
    }
}

/// What all have.
#[derive(Clone, Debug)]
pub(super) struct Base {
    pub interpolation: InterpolateMode,
    pub fill: Fills,
}

impl Base {
    pub(super) fn new(interpolation: InterpolateMode) -> Base {
        Base {
            interpolation,
            fill: Fills::default(),
        }
    }

    /// The image with the op done.
    pub(super) fn done(&self, x: &Tensor, op: Op, m: f64, fill: &Fill) -> Result<Tensor> {
        let affine = |translate, shear: [f64; 2], center: Option<[f64; 2]>| {
            let options = AffineOptions {
                interpolation: self.interpolation,
                fill: fill.clone(),
                center,
            };
            f::affine_with(x, 0.0, translate, 1.0, shear, options)
        };
        let corner = Some([0.0, 0.0]);
        match op {
            Op::Identity => Ok(x.clone()),
            Op::ShearX => affine([0.0; 2], [m.atan().to_degrees(), 0.0], corner),
            Op::ShearY => affine([0.0; 2], [0.0, m.atan().to_degrees()], corner),
            Op::TranslateX => affine([m.trunc(), 0.0], [0.0; 2], None),
            Op::TranslateY => affine([0.0, m.trunc()], [0.0; 2], None),
            Op::Rotate => {
                let options = RotateOptions {
                    interpolation: self.interpolation,
                    fill: fill.clone(),
                    ..RotateOptions::new()
                };
                f::rotate_with(x, m, options)
            }
            Op::Brightness => f::adjust_brightness(x, 1.0 + m),
            Op::Color => f::adjust_saturation(x, 1.0 + m),
            Op::Contrast => f::adjust_contrast(x, 1.0 + m),
            Op::Sharpness => f::adjust_sharpness(x, 1.0 + m),
            Op::Posterize => f::posterize(x, m as u32),
            Op::Solarize => f::solarize(x, f::max_value(x.dtype())? * m),
            Op::AutoContrast => f::autocontrast(x),
            Op::Equalize => f::equalize(x),
            Op::Invert => f::invert(x),
        }
    }

    /// The sample with its one image or video changed by `change`, which gets the fill and the size.
    pub(super) fn apply<S: Sample>(
        &self,
        op: &'static str,
        sample: &S,
        change: impl FnOnce(&Item, &Fill, (usize, usize)) -> Result<Tensor>,
    ) -> Result<S> {
        let inner = || {
            let mut all = items(sample);
            if let Some(bad) = all.iter().find(|i| {
                matches!(
                    i,
                    Item::BoundingBoxes(_) | Item::Mask(_) | Item::KeyPoints(_)
                )
            }) {
                return Err(TorshError::invalid(
                    op,
                    format!("{} are not supported: only the image changes", bad.kind()),
                ));
            }
            let which = chosen(&all, |_| true);
            let mut images = which.iter().enumerate().filter(|(_, c)| **c);
            let (Some((at, _)), None) = (images.next(), images.next()) else {
                return Err(TorshError::invalid(
                    op,
                    "the sample must have one image or video",
                ));
            };
            let item = &all[at];
            let size = size_of(op, item.tensor())?;
            let changed = change(item, self.fill.of(item), size)?;
            all[at] = item.map(|_| Ok(changed))?;
            rebuilt(sample, all)
        };
        inner().map_err(|e| e.renamed(op))
    }
}

macro_rules! settings {
    ($($name:ident $default:literal),*) => {$(
        impl $name {
            #[doc = concat!("Nearest or Bilinear (", $default, ").")]
            #[must_use]
            pub fn interpolation(mut self, interpolation: impl Into<::torsh_tensor::InterpolateMode>) -> Self {
                self.base.interpolation = interpolation.into();
                self
            }

            /// The value of pixels that come from outside (none: 0).
            #[must_use]
            pub fn fill(mut self, fill: impl Into<$crate::transforms::Fills>) -> Self {
                self.base.fill = fill.into();
                self
            }
        }
    )*};
}
pub(super) use settings;
settings!(AutoAugment "Nearest", RandAugment "Nearest", TrivialAugmentWide "Nearest");

/// For which data set AutoAugment's policy was found.
///
/// ```
/// use torsh_vision::transforms::AutoAugmentPolicy;
/// assert_eq!(AutoAugmentPolicy::default(), AutoAugmentPolicy::ImageNet);
/// assert_eq!(AutoAugmentPolicy::from("svhn"), AutoAugmentPolicy::Svhn);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AutoAugmentPolicy {
    /// ImageNet.
    #[default]
    ImageNet,
    /// CIFAR-10.
    Cifar10,
    /// Street View House Numbers.
    Svhn,
    /// A string that is none of the words; the function that gets it refuses it.
    #[doc(hidden)]
    Unknown(torsh_tensor::named::Unknown),
}

torsh_tensor::named! {
    AutoAugmentPolicy, "policy",
    "imagenet" => AutoAugmentPolicy::ImageNet,
    "cifar10" => AutoAugmentPolicy::Cifar10,
    "svhn" => AutoAugmentPolicy::Svhn,
}

fn usual((h, w): (usize, usize)) -> Strengths {
    Strengths {
        shear: 0.3,
        translate: (150.0 / 331.0 * w as f64, 150.0 / 331.0 * h as f64),
        rotate: 30.0,
        color: 0.9,
        bits: (8.0, 4.0),
    }
}

/// One of 25 pairs of ops, found by reinforcement learning (`torchvision.transforms.v2.AutoAugment`; E. Cubuk et al.,
/// "AutoAugment: Learning augmentation policies from data", 2019).
///
/// ```
/// use torsh_tensor::{DType, zeros};
/// use torsh_vision::transforms::{AutoAugment, AutoAugmentPolicy, Transform};
/// let image = zeros([3, 32, 32]).to_dtype(DType::U8)?;
/// assert_eq!(AutoAugment::new(AutoAugmentPolicy::Cifar10).apply(&image)?.dtype(), DType::U8);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct AutoAugment {
    policy: AutoAugmentPolicy,
    base: Base,
}

impl AutoAugment {
    /// With this policy.
    pub fn new(policy: impl Into<AutoAugmentPolicy>) -> Self {
        AutoAugment {
            policy: policy.into(),
            base: Base::new(InterpolateMode::Nearest),
        }
    }
}

impl Default for AutoAugment {
    fn default() -> Self {
        AutoAugment::new(AutoAugmentPolicy::ImageNet)
    }
}

impl<S: Sample> Transform<S> for AutoAugment {
    #[torsh_tensor::names_caller]
    fn apply(&self, x: &S) -> Result<S> {
        self.base.apply("AutoAugment", x, |item, fill, size| {
            let policies: &[[Step; 2]] =
                match self.policy.known().map_err(|e| e.renamed("AutoAugment"))? {
                    AutoAugmentPolicy::ImageNet | AutoAugmentPolicy::Unknown(_) => &IMAGENET,
                    AutoAugmentPolicy::Cifar10 => &CIFAR10,
                    AutoAugmentPolicy::Svhn => &SVHN,
                };
            let mut x = item.tensor().clone();
            for &(op, p, at) in &policies[below(policies.len())] {
                if rand(1)[0] > p as f32 {
                    continue;
                }
                let m = signed(magnitude(op, usual(size), at.unwrap_or(0), 10)?);
                x = self.base.done(&x, op, m, fill)?;
            }
            Ok(x)
        })
    }
}

/// Some ops at random, all of one strength (`torchvision.transforms.v2.RandAugment`; E. Cubuk et al., "RandAugment:
/// Practical automated data augmentation with a reduced search space", 2020).
///
/// ```
/// use torsh_tensor::{DType, zeros};
/// use torsh_vision::transforms::{RandAugment, Transform};
/// // None of the ops makes black any brighter at this strength.
/// let black = zeros([3, 8, 8]).to_dtype(DType::U8)?;
/// assert_eq!(RandAugment::new().apply(&black)?, black);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct RandAugment {
    num_ops: usize,
    magnitude: usize,
    num_magnitude_bins: usize,
    base: Base,
}

impl Default for RandAugment {
    fn default() -> Self {
        RandAugment {
            num_ops: 2,
            magnitude: 9,
            num_magnitude_bins: 31,
            base: Base::new(InterpolateMode::Nearest),
        }
    }
}

impl RandAugment {
    /// Two ops, of the 9th of 31 strengths.
    pub fn new() -> Self {
        RandAugment::default()
    }

    setters! {
        /// How many ops are done (2).
        num_ops: usize;
        /// Which of the strengths they have (9).
        magnitude: usize;
        /// How many strengths there are (31).
        num_magnitude_bins: usize;
    }
}

impl<S: Sample> Transform<S> for RandAugment {
    #[torsh_tensor::names_caller]
    fn apply(&self, x: &S) -> Result<S> {
        self.base.apply("RandAugment", x, |item, fill, size| {
            let mut x = item.tensor().clone();
            for _ in 0..self.num_ops {
                let op = FOURTEEN[below(FOURTEEN.len())];
                let m = signed(magnitude(
                    op,
                    usual(size),
                    self.magnitude,
                    self.num_magnitude_bins,
                )?);
                x = self.base.done(&x, op, m, fill)?;
            }
            Ok(x)
        })
    }
}

/// One op at random, of random strength (`torchvision.transforms.v2.TrivialAugmentWide`; S. Müller, F. Hutter,
/// "TrivialAugment: Tuning-free yet state-of-the-art data augmentation", 2021).
#[derive(Clone, Debug)]
pub struct TrivialAugmentWide {
    num_magnitude_bins: usize,
    base: Base,
}

impl Default for TrivialAugmentWide {
    fn default() -> Self {
        TrivialAugmentWide {
            num_magnitude_bins: 31,
            base: Base::new(InterpolateMode::Nearest),
        }
    }
}

impl TrivialAugmentWide {
    /// Of one of 31 strengths.
    pub fn new() -> Self {
        TrivialAugmentWide::default()
    }

    option_setter! {
        /// How many strengths there are (31).
        num_magnitude_bins: usize
    }
}

impl<S: Sample> Transform<S> for TrivialAugmentWide {
    #[torsh_tensor::names_caller]
    fn apply(&self, x: &S) -> Result<S> {
        self.base.apply("TrivialAugmentWide", x, |item, fill, _| {
            let wide = Strengths {
                shear: 0.99,
                translate: (32.0, 32.0),
                rotate: 135.0,
                color: 0.99,
                bits: (8.0, 6.0),
            };
            let op = FOURTEEN[below(FOURTEEN.len())];
            let bins = self.num_magnitude_bins;
            let m = match magnitude(op, wide, 0, bins)? {
                None => None,
                Some(_) => magnitude(op, wide, below(bins), bins)?,
            };
            self.base.done(item.tensor(), op, signed(m), fill)
        })
    }
}
