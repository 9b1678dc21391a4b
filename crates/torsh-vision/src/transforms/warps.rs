//! Random rotations and other maps.

use torsh_tensor::{DType, Device, InterpolateMode, Result, Tensor, TorshError, option_setter};

use super::apply::{ItemTransform, probability, query_size};
use super::arguments::{Fills, Pair, Span};
use super::draws::{between, rand, uniform};
use super::functional::{
    self as f, AffineOptions, Move, Perspective, RotateOptions, WarpOptions, gaussian_blur_f32,
};
use super::geometry::resampled;
use super::sample::Item;
use super::transforms;

transforms!(
    RandomRotation,
    RandomAffine,
    RandomPerspective,
    ElasticTransform
);

/// Setters that all have.
macro_rules! settings {
    ($($name:ident $default:literal),*) => {$(
        impl $name {
            option_setter! {
                #[doc = concat!("Nearest or Bilinear (", $default, "). Masks have the nearest values always.")]
                interpolation: InterpolateMode, impl Into<InterpolateMode> => Into::into
            }
            option_setter! {
                /// The value of pixels that come from outside (0).
                fill: Fills, impl Into<Fills> => Into::into
            }
        }
    )*};
}
settings!(
    RandomRotation "Nearest",
    RandomAffine "Nearest",
    RandomPerspective "Bilinear",
    ElasticTransform "Bilinear"
);

/// The image turned by a random angle (`torchvision.transforms.v2.RandomRotation`).
///
/// ```
/// use torsh_tensor::zeros;
/// use torsh_vision::transforms::{RandomRotation, Transform};
/// let turned = RandomRotation::new((90.0, 90.0))?.expand(true).apply(&zeros([3, 20, 30]))?;
/// assert_eq!(turned.dims(), [3, 30, 20]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct RandomRotation {
    degrees: (f64, f64),
    interpolation: InterpolateMode,
    expand: bool,
    center: Option<[f64; 2]>,
    fill: Fills,
}

impl RandomRotation {
    /// By degrees from which to which, counter-clockwise; one number is for both directions.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::transforms::{RandomRotation, Transform};
    /// let turned = RandomRotation::new((90.0, 90.0))?.apply(&tensor![[[1, 2], [3, 4]]])?;
    /// assert_eq!(turned, tensor![[[2, 4], [1, 3]]]);
    /// let error = RandomRotation::new(-90.0).unwrap_err().to_string();
    /// assert!(error.contains("a single number of degrees must not be negative, got -90"));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// One number that is negative.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(degrees: impl Into<Span>) -> Result<Self> {
        Ok(RandomRotation {
            degrees: degrees.into().degrees(Self::NAME)?,
            interpolation: InterpolateMode::Nearest,
            expand: false,
            center: None,
            fill: Fills::new(0.0),
        })
    }

    setters! {
        /// Whether the result is as large as the whole rotated image (false).
        expand: bool;
        /// Around which x and y the image turns (its middle).
        center: Option<[f64; 2]>, impl Into<Option<[f64; 2]>> => Into::into;
    }
}

impl ItemTransform for RandomRotation {
    type Params = f64;
    const NAME: &'static str = "RandomRotation";
    fn params(&self, _: &[&Item]) -> Result<f64> {
        Ok(uniform(self.degrees.0, self.degrees.1))
    }
    fn item(&self, item: &Item, angle: &f64) -> Result<Item> {
        let (angle, expand, center) = (*angle, self.expand, self.center);
        let fill = self.fill.of(item);
        let movement = Move::rotation(angle, expand, center);
        resampled(item, &movement, self.interpolation, |x, interpolation| {
            let options = RotateOptions {
                interpolation,
                expand,
                center,
                fill: fill.clone(),
            };
            f::rotate_with(x, angle, options)
        })
    }
}

/// The image turned, moved, scaled and sheared at random (`torchvision.transforms.v2.RandomAffine`).
///
/// ```
/// use torsh_tensor::zeros;
/// use torsh_vision::transforms::{RandomAffine, Transform};
/// let affine = RandomAffine::new(30.0)?.translate(0.2, 0.1)?.scale(0.7, 1.3)?.shear(10.0)?;
/// assert_eq!(affine.apply(&zeros([3, 20, 30]))?.dims(), [3, 20, 30]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct RandomAffine {
    degrees: (f64, f64),
    translate: Option<(f64, f64)>,
    scale: Option<(f64, f64)>,
    shear_x: Option<(f64, f64)>,
    shear_y: Option<(f64, f64)>,
    interpolation: InterpolateMode,
    fill: Fills,
    center: Option<[f64; 2]>,
}

impl RandomAffine {
    /// Turned by degrees from which to which, clockwise; one number is for both directions.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::transforms::{RandomAffine, Transform};
    /// let image = tensor![[[1.0, 2.0], [3.0, 4.0]]];
    /// assert_eq!(RandomAffine::new(0.0)?.apply(&image)?, image);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// One number that is negative.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(degrees: impl Into<Span>) -> Result<Self> {
        Ok(RandomAffine {
            degrees: degrees.into().degrees(Self::NAME)?,
            translate: None,
            scale: None,
            shear_x: None,
            shear_y: None,
            interpolation: InterpolateMode::Nearest,
            fill: Fills::new(0.0),
            center: None,
        })
    }

    /// Moved by up to these parts of the width and the height (not moved).
    ///
    /// ```
    /// use torsh_vision::transforms::RandomAffine;
    /// let error = RandomAffine::new(0.0)?.translate(2.0, 0.0).unwrap_err().to_string();
    /// assert!(error.contains("a probability is from 0 to 1, got 2"));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Not from 0 to 1.
    #[torsh_tensor::names_caller]
    pub fn translate(mut self, x: f64, y: f64) -> Result<Self> {
        probability(Self::NAME, x)?;
        probability(Self::NAME, y)?;
        self.translate = Some((x, y));
        Ok(self)
    }

    /// Scaled by factors from which to which (not scaled).
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::transforms::{RandomAffine, Transform};
    /// // Twice as large, around the middle.
    /// let image = tensor![[[1.0, 2.0, 3.0, 4.0]]];
    /// let twice = RandomAffine::new(0.0)?.scale(2.0, 2.0)?.apply(&image)?;
    /// assert_eq!(twice, tensor![[[2.0, 2.0, 3.0, 3.0]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Not positive.
    #[torsh_tensor::names_caller]
    pub fn scale(mut self, from: f64, to: f64) -> Result<Self> {
        if !(from > 0.0 && to > 0.0) {
            return Err(TorshError::invalid(
                Self::NAME,
                format!("scale must be positive, got {from} to {to}"),
            ));
        }
        self.scale = Some((from, to));
        Ok(self)
    }

    /// Sheared along x by degrees from which to which (not sheared).
    ///
    /// # Errors
    /// One number that is negative.
    #[torsh_tensor::names_caller]
    pub fn shear(mut self, x: impl Into<Span>) -> Result<Self> {
        self.shear_x = Some(x.into().degrees(Self::NAME)?);
        Ok(self)
    }

    /// Sheared along y as well by degrees from which to which (not sheared).
    ///
    /// # Errors
    /// One number that is negative.
    #[torsh_tensor::names_caller]
    pub fn shear_y(mut self, y: impl Into<Span>) -> Result<Self> {
        self.shear_y = Some(y.into().degrees(Self::NAME)?);
        Ok(self)
    }

    option_setter! {
        /// Around which x and y the image turns (its middle).
        center: Option<[f64; 2]>, impl Into<Option<[f64; 2]>> => Into::into
    }
}

/// What [`RandomAffine`] draws.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Affine {
    angle: f64,
    translate: [f64; 2],
    scale: f64,
    shear: [f64; 2],
}

impl ItemTransform for RandomAffine {
    type Params = Affine;
    const NAME: &'static str = "RandomAffine";
    fn params(&self, items: &[&Item]) -> Result<Affine> {
        let (h, w) = query_size(Self::NAME, items)?;
        let from =
            |range: Option<(f64, f64)>, else_: f64| range.map_or(else_, |(a, b)| uniform(a, b));
        let angle = uniform(self.degrees.0, self.degrees.1);
        let translate = match self.translate {
            Some((x, y)) => {
                let (x, y) = (x * w as f64, y * h as f64);
                let x = uniform(-x, x).round_ties_even();
                [x, uniform(-y, y).round_ties_even()]
            }
            None => [0.0; 2],
        };
        let scale = from(self.scale, 1.0);
        let shear_x = from(self.shear_x, 0.0);
        Ok(Affine {
            angle,
            translate,
            scale,
            shear: [shear_x, from(self.shear_y, 0.0)],
        })
    }
    fn item(&self, item: &Item, p: &Affine) -> Result<Item> {
        let center = self.center;
        let fill = self.fill.of(item);
        let movement = Move::Affine {
            angle: p.angle,
            translate: p.translate,
            scale: p.scale,
            shear: p.shear,
            center,
            expand: false,
        };
        resampled(item, &movement, self.interpolation, |x, interpolation| {
            let options = AffineOptions {
                interpolation,
                fill: fill.clone(),
                center,
            };
            f::affine_with(x, p.angle, p.translate, p.scale, p.shear, options)
        })
    }
}

/// The image seen from a random side, or as it is (`torchvision.transforms.v2.RandomPerspective`).
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::transforms::{RandomPerspective, Transform};
/// let image = tensor![[[1.0, 2.0], [3.0, 4.0]]];
/// // Corners that do not move, and a view that is never taken.
/// let still = RandomPerspective::new(0.0, 1.0)?.apply(&image)?;
/// assert!(still.sub(&image)?.abs()?.max()?.item::<f32>()? < 1e-4);
/// assert_eq!(RandomPerspective::new(0.5, 0.0)?.apply(&image)?, image);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct RandomPerspective {
    distortion_scale: f64,
    p: f64,
    interpolation: InterpolateMode,
    fill: Fills,
}

impl Default for RandomPerspective {
    fn default() -> Self {
        RandomPerspective {
            distortion_scale: 0.5,
            p: 0.5,
            interpolation: InterpolateMode::Bilinear,
            fill: Fills::new(0.0),
        }
    }
}

impl RandomPerspective {
    /// Corners move by up to this part of half the image, with probability `p`.
    ///
    /// # Errors
    /// Not from 0 to 1.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(distortion_scale: f64, p: f64) -> Result<Self> {
        probability(Self::NAME, distortion_scale)?;
        Ok(RandomPerspective {
            distortion_scale,
            p: probability(Self::NAME, p)?,
            ..RandomPerspective::default()
        })
    }
}

impl ItemTransform for RandomPerspective {
    type Params = Perspective;
    const NAME: &'static str = "RandomPerspective";
    fn probability(&self) -> Option<f64> {
        Some(self.p)
    }
    fn params(&self, items: &[&Item]) -> Result<Perspective> {
        let (h, w) = query_size(Self::NAME, items)?;
        let bound = |n: i64| (self.distortion_scale * (n / 2) as f64) as i64 + 1;
        let (h, w) = (h as i64, w as i64);
        let (bh, bw) = (bound(h), bound(w));
        let point = |x: (i64, i64), y: (i64, i64)| {
            let x = between(x.0, x.1) as f64;
            [x, between(y.0, y.1) as f64]
        };
        let (left, right) = ((0, bw), (w - bw, w));
        let (top, bottom) = ((0, bh), (h - bh, h));
        let end = [
            point(left, top),
            point(right, top),
            point(right, bottom),
            point(left, bottom),
        ];
        let (r, b) = ((w - 1) as f64, (h - 1) as f64);
        let start = [[0.0, 0.0], [r, 0.0], [r, b], [0.0, b]];
        // Once for all items.
        let coefficients = Perspective::Corners(start, end).coefficients()?;
        Ok(Perspective::Coefficients(coefficients))
    }
    fn item(&self, item: &Item, map: &Perspective) -> Result<Item> {
        let fill = self.fill.of(item);
        let movement = Move::Perspective(*map);
        resampled(item, &movement, self.interpolation, |x, interpolation| {
            let options = WarpOptions {
                interpolation,
                fill: fill.clone(),
            };
            f::perspective_with(x, *map, options)
        })
    }
}

/// The image as if seen through moving water (`torchvision.transforms.v2.ElasticTransform`; P. Simard et al., "Best
/// practices for convolutional neural networks applied to visual document analysis", 2003).
///
/// ```
/// use torsh_tensor::ones;
/// use torsh_vision::transforms::{ElasticTransform, Transform};
/// let image = ones([1, 8, 8]);
/// let still = ElasticTransform::new().alpha(0.0).sigma(1.0).apply(&image)?;
/// assert!(still.sub(&image)?.abs()?.max()?.item::<f32>()? < 1e-4);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ElasticTransform {
    alpha: Pair,
    sigma: Pair,
    interpolation: InterpolateMode,
    fill: Fills,
}

impl Default for ElasticTransform {
    fn default() -> Self {
        ElasticTransform {
            alpha: Pair(50.0, 50.0),
            sigma: Pair(5.0, 5.0),
            interpolation: InterpolateMode::Bilinear,
            fill: Fills::new(0.0),
        }
    }
}

impl ElasticTransform {
    /// Strengths of 50, smoothed over 5 pixels.
    pub fn new() -> Self {
        ElasticTransform::default()
    }

    setters! {
        /// How far pixels move along x and y (50).
        alpha: Pair, impl Into<Pair> => Into::into;
        /// How smooth the movement is along x and y (5).
        sigma: Pair, impl Into<Pair> => Into::into;
    }
}

impl ItemTransform for ElasticTransform {
    type Params = Tensor;
    const NAME: &'static str = "ElasticTransform";
    fn params(&self, items: &[&Item]) -> Result<Tensor> {
        let (h, w) = query_size(Self::NAME, items)?;
        let drawn = |sigma: f64, alpha: f64, size: usize| -> Result<Vec<f32>> {
            let raw: Vec<f32> = rand(h * w).into_iter().map(|v| v * 2.0 - 1.0).collect();
            let smooth = if sigma > 0.0 {
                let kernel = (8.0 * sigma + 1.0) as usize;
                gaussian_blur_f32(&raw, (h, w), kernel | 1, self.sigma)?
            } else {
                raw
            };
            let (alpha, size) = (alpha as f32, size as f32);
            Ok(smooth.into_iter().map(|v| v * alpha / size).collect())
        };
        let dx = drawn(self.sigma.0, self.alpha.0, w)?;
        let dy = drawn(self.sigma.1, self.alpha.1, h)?;
        let both: Vec<f32> = dx.into_iter().zip(dy).flat_map(|(x, y)| [x, y]).collect();
        Tensor::from_slice(&both, [1, h, w, 2], DType::F32, Device::Cpu)
    }
    fn item(&self, item: &Item, displacement: &Tensor) -> Result<Item> {
        let fill = self.fill.of(item);
        let movement = Move::Elastic(displacement.clone());
        resampled(item, &movement, self.interpolation, |x, interpolation| {
            let options = WarpOptions {
                interpolation,
                fill: fill.clone(),
            };
            f::elastic_with(x, displacement, options)
        })
    }
}
