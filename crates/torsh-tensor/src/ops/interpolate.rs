//! Images, signals and volumes in another size.

use smallvec::SmallVec;
use torsh_core::attrs::{self, ResampleMode};
use torsh_core::{Ints, Kernel, Result, TorshError};

use super::conv::{check_shape, given};
use crate::call::{Arg, call1};
use crate::named::Named;
use crate::options::options;
use crate::record::{OpRecord, Plan, PlanCx, sample};
use crate::schema::Bound;
use crate::{BackwardCx, Grads, IntoShape, OutputSize, Tensor, Value};

pub(crate) const RECORDS: &[&OpRecord] = &[
    &RESAMPLE,
    &RESAMPLE_BACKWARD,
    &INTERPOLATE,
    &UPSAMPLE_NEAREST,
    &UPSAMPLE_BILINEAR,
    &UPSAMPLE_BILINEAR2D_AA,
    &UPSAMPLE_BILINEAR2D_AA_SCALES,
];

/// How elements between those of the input are found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InterpolateMode {
    /// The nearest before.
    #[default]
    Nearest,
    /// The nearest to the element's middle.
    NearestExact,
    /// Lines between elements of signals.
    Linear,
    /// Lines between elements of images, in both directions.
    Bilinear,
    /// Cubic curves through four elements of images, in both directions.
    Bicubic,
    /// Lines between elements of volumes, in all directions.
    Trilinear,
    /// The average of what an element covers.
    Area,
    /// A windowed sinc over six elements of images, in both directions; with antialias only.
    Lanczos,
    /// A string that is none of the words; the function that gets it refuses it.
    #[doc(hidden)]
    Unknown(crate::named::Unknown),
}

crate::named! {
    InterpolateMode, "mode",
    "nearest" => InterpolateMode::Nearest,
    "nearest-exact" => InterpolateMode::NearestExact,
    "linear" => InterpolateMode::Linear,
    "bilinear" => InterpolateMode::Bilinear,
    "bicubic" => InterpolateMode::Bicubic,
    "trilinear" => InterpolateMode::Trilinear,
    "area" => InterpolateMode::Area,
    "lanczos" => InterpolateMode::Lanczos,
}

impl InterpolateMode {
    /// PyTorch's name.
    ///
    /// ```
    /// use torsh_tensor::InterpolateMode;
    /// assert_eq!(InterpolateMode::Bilinear.name(), "bilinear");
    /// ```
    pub fn name(self) -> &'static str {
        self.word()
    }

    /// What the kernel does along each of so many spatial dimensions; `None` where the mode is not
    /// for them.
    fn kernel(self, spatial: usize) -> Option<ResampleMode> {
        match (self, spatial) {
            (InterpolateMode::Nearest, 1..=3) => Some(ResampleMode::Nearest),
            (InterpolateMode::NearestExact, 1..=3) => Some(ResampleMode::NearestExact),
            (InterpolateMode::Linear, 1)
            | (InterpolateMode::Bilinear, 2)
            | (InterpolateMode::Trilinear, 3) => Some(ResampleMode::Linear),
            (InterpolateMode::Bicubic, 2) => Some(ResampleMode::Cubic),
            (InterpolateMode::Lanczos, 2) => Some(ResampleMode::Lanczos),
            _ => None,
        }
    }
}

/// A factor for all spatial dimensions, or one for each.
pub trait IntoFactors {
    /// The factors as written.
    fn factors(self) -> Vec<f64>;
}
impl IntoFactors for f64 {
    fn factors(self) -> Vec<f64> {
        vec![self]
    }
}
impl<const N: usize> IntoFactors for [f64; N] {
    fn factors(self) -> Vec<f64> {
        self.to_vec()
    }
}
impl IntoFactors for Vec<f64> {
    fn factors(self) -> Vec<f64> {
        self
    }
}

options! {
    /// The arguments of [`Tensor::interpolate_with`], by PyTorch's names; one of `size` and
    /// `scale_factor` must be given.
    ///
    /// ```
    /// use torsh_tensor::InterpolateOptions;
    /// let options = InterpolateOptions::new();
    /// assert!(!options.antialias);
    /// assert!(options.antialias(true).antialias);
    /// ```
    #[derive(PartialEq)]
    InterpolateOptions {
        /// The spatial sizes of the result; one stands for all.
        size: Option<Vec<i64>> = None, impl IntoShape => |s| Some(s.sizes().to_vec());
        /// By what the spatial sizes are multiplied; one stands for all.
        scale_factor: Option<Vec<f64>> = None, impl IntoFactors => |f| Some(f.factors());
        /// How elements in between are found.
        mode: InterpolateMode = InterpolateMode::default(), impl Into<InterpolateMode> => Into::into;
        /// Whether the middles of the first and last elements stay in place, instead of their
        /// outer edges.
        align_corners: Option<bool> = None, bool => Some;
        /// Whether the factor is taken anew from the sizes, which are whole.
        recompute_scale_factor: Option<bool> = None, bool => Some;
        /// Whether what becomes smaller is smoothed, as Pillow does; for images.
        antialias: bool = false;
    }
}

fn plan(c: &PlanCx<'_>) -> Result<Plan> {
    given(c, &c.attrs::<attrs::Resample>()?.output_shape)
}

/// The other kernel with the attributes of the node `c` but for the result's shape.
fn transposed(c: &BackwardCx<'_>, record: &'static OpRecord) -> Result<Grads> {
    let attrs = attrs::Resample {
        output_shape: c.input_shape(0).dims().into(),
        ..c.attrs::<attrs::Resample>()?.clone()
    };
    Ok(SmallVec::from_iter([Some(call1(
        record,
        &[Arg::T(c.g())],
        &attrs,
    )?)]))
}

pub static RESAMPLE: OpRecord = OpRecord::new(
    "resample",
    "Another spatial size.",
    "(Tensor input, *, str mode, bool align_corners, float? scales_d, float? scales_h, float? scales_w, bool antialias, int[] output_shape)",
)
.internal()
    .kernel(Kernel::Resample, plan)
    .grads(0, 0, |c| transposed(c, &RESAMPLE_BACKWARD));

/// The transpose of [`RESAMPLE`].
pub static RESAMPLE_BACKWARD: OpRecord = OpRecord::new(
    "resample_backward",
    "The gradient of the input of interpolate.",
    "(Tensor grad_output, *, str mode, bool align_corners, float? scales_d, float? scales_h, float? scales_w, bool antialias, int[] output_shape)",
)
.internal()
.kernel(Kernel::ResampleBackward, plan)
.grads(0, 0, |c| transposed(c, &RESAMPLE));

fn flag(b: &Bound, i: usize) -> Option<bool> {
    (!b.is_none(i)).then(|| b.bool(i))
}

/// One number or several; `None` where neither.
fn factors(b: &Bound, i: usize) -> Option<Vec<f64>> {
    b.opt_floats(i).or_else(|| b.opt_float(i).map(|f| vec![f]))
}

pub static INTERPOLATE: OpRecord = OpRecord::new(
    "nn.functional.interpolate",
    "Signals [n, c, l], images [n, c, h, w] or volumes [n, c, d, h, w] in another size, given or by a factor; modes nearest, nearest-exact, linear, bilinear, bicubic, trilinear, area, lanczos.",
    "(Tensor input, Any size=None, Any scale_factor=None, str mode='nearest', bool? align_corners=None, bool? recompute_scale_factor=None, bool antialias=False)",
)
.by_name(|b| {
    let options = InterpolateOptions {
        size: b.opt_ints(1),
        scale_factor: factors(b, 2),
        mode: b.str(3).into(),
        align_corners: flag(b, 4),
        recompute_scale_factor: flag(b, 5),
        antialias: b.bool(6),
    };
    b.tensor(0)?.interpolate_with(options).map(Value::Tensor)
})
.samples(|s| {
    let (signal, image, volume) = (s.real(&[2, 1, 4])?, s.real(&[1, 2, 4, 3])?, s.real(&[1, 1, 3, 2, 3])?);
    let size = |x: &Tensor, size: Vec<i64>, mode: &str| sample![x.clone(), size, mode = mode];
    Ok(vec![
        size(&signal, vec![7], "nearest"),
        size(&image, vec![2, 5], "nearest-exact"),
        size(&signal, vec![3], "linear").kw("align_corners", true),
        size(&image, vec![5, 2], "bilinear"),
        size(&image, vec![3, 5], "bicubic"),
        size(&volume, vec![2, 3, 4], "trilinear"),
        size(&image, vec![2, 4], "area"),
        size(&image, vec![2, 2], "lanczos").kw("antialias", true),
        sample![image.clone(), scale_factor = 0.6, mode = "bilinear", antialias = true],
        sample![image, scale_factor = 1.7, mode = "bicubic", align_corners = true],
    ])
});

pub static UPSAMPLE_NEAREST: OpRecord = OpRecord::new(
    "nn.functional.upsample_nearest",
    "interpolate with mode nearest.",
    "(Tensor input, Any size=None, Any scale_factor=None)",
)
.by_name(|b| {
    let options = InterpolateOptions {
        size: b.opt_ints(1),
        scale_factor: factors(b, 2),
        ..InterpolateOptions::default()
    };
    b.tensor(0)?.interpolate_with(options).map(Value::Tensor)
})
.samples(|s| Ok(vec![sample![s.real(&[1, 2, 3, 2])?, [4, 5]]]));

pub static UPSAMPLE_BILINEAR: OpRecord = OpRecord::new(
    "nn.functional.upsample_bilinear",
    "interpolate with mode bilinear and align_corners.",
    "(Tensor input, Any size=None, Any scale_factor=None)",
)
.by_name(|b| {
    let options = InterpolateOptions {
        size: b.opt_ints(1),
        scale_factor: factors(b, 2),
        mode: InterpolateMode::Bilinear,
        align_corners: Some(true),
        ..InterpolateOptions::default()
    };
    b.tensor(0)?.interpolate_with(options).map(Value::Tensor)
})
.samples(|s| Ok(vec![sample![s.real(&[1, 2, 3, 2])?, [4, 5]]]));

pub static UPSAMPLE_BILINEAR2D_AA: OpRecord = OpRecord::new(
    "_upsample_bilinear2d_aa.vec",
    "Bilinear interpolation of images, smoothed where they become smaller.",
    "(Tensor input, int[]? output_size, bool align_corners, float[]? scale_factors)",
)
.overload()
.by_name(|b| {
    let (x, factors) = (b.tensor(0)?, b.opt_floats(3));
    let size = match (b.opt_ints(1), &factors) {
        (Some(size), None) => size,
        (None, Some(f)) => scaled(x, f),
        _ => {
            return Err(TorshError::invalid(
                "",
                "Must specify exactly one of output_size and scale_factors",
            ));
        }
    };
    let scales: Vec<_> = factors.unwrap_or_default().into_iter().map(Some).collect();
    x.smoothed(&size, b.bool(2), &scales).map(Value::Tensor)
})
.samples(|s| {
    let x = s.real(&[1, 1, 4, 5])?;
    Ok(vec![sample![x, [3, 2], false, Value::None]])
});

pub static UPSAMPLE_BILINEAR2D_AA_SCALES: OpRecord = OpRecord::new(
    "_upsample_bilinear2d_aa",
    "Bilinear interpolation of images, smoothed where they become smaller.",
    "(Tensor input, int[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None)",
)
.by_name(|b| {
    let scales = [b.opt_float(3), b.opt_float(4)];
    b.tensor(0)?.smoothed(&b.ints(1), b.bool(2), &scales).map(Value::Tensor)
})
.samples(|s| {
    let x = s.real(&[1, 1, 4, 5])?;
    Ok(vec![sample![x, [3, 2], true]])
});

/// The spatial sizes times the factors.
fn scaled(x: &Tensor, factors: &[f64]) -> Vec<i64> {
    let spatial = x.dims().iter().skip(2);
    spatial
        .zip(factors)
        .map(|(&n, f)| (n as f64 * f) as i64)
        .collect()
}

/// One value for each spatial dimension, from one or as many.
fn each<T: Copy + std::fmt::Debug>(x: &Tensor, what: &str, v: &[T]) -> Result<Vec<T>> {
    let spatial = x.ndim().saturating_sub(2);
    match *v {
        [one] => Ok(vec![one; spatial]),
        _ if v.len() == spatial => Ok(v.to_vec()),
        _ => Err(TorshError::invalid(
            "",
            format!(
                "Input and {what} must have the same number of spatial dimensions, but got an input of size {} and {what} {v:?}",
                x.shape()
            ),
        )),
    }
}

#[torsh_tensor::functions]
impl Tensor {
    /// Signals `[N, C, L]`, images `[N, C, H, W]` or volumes `[N, C, D, H, W]` in another spatial
    /// size (one stands for all dimensions), of the nearest elements
    /// (`torch.nn.functional.interpolate`).
    ///
    /// Keeps the dtype. An error for other dimensions, for integers other than uint8, and for sizes
    /// that are not positive.
    ///
    /// ```
    /// use torsh_tensor::{InterpolateMode, InterpolateOptions, tensor};
    /// let x = tensor![[[1.0, 3.0]]];
    /// assert_eq!(x.interpolate(4)?, tensor![[[1.0, 1.0, 3.0, 3.0]]]);
    /// let linear = InterpolateOptions::new().size(4).mode(InterpolateMode::Linear);
    /// assert_eq!(x.interpolate_with(linear)?, tensor![[[1.0, 1.5, 2.5, 3.0]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn interpolate(&self, size: impl IntoShape) -> Result<Tensor> {
        self.interpolate_with(InterpolateOptions::new().size(size))
    }

    /// [`Tensor::interpolate`] by a size or a factor, in any mode.
    ///
    /// An error for both a size and a factor or neither, and for a mode of another number of
    /// dimensions.
    ///
    /// ```
    /// use torsh_tensor::{InterpolateMode, InterpolateOptions, tensor};
    /// let x = tensor![[[0.0, 4.0]]];
    /// let options = InterpolateOptions::new()
    ///     .size([3])
    ///     .mode(InterpolateMode::Linear)
    ///     .align_corners(true);
    /// assert_eq!(x.interpolate_with(options)?, tensor![[[0.0, 2.0, 4.0]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Both or neither of `size` and `scale_factor`, a mode that does not go with the number of
    /// dimensions, `align_corners` with a mode that has none, `antialias` but for images by
    /// bilinear, bicubic or lanczos, sizes that are not positive.
    #[function]
    #[torsh_tensor::names_caller]
    pub fn interpolate_with(&self, options: InterpolateOptions) -> Result<Tensor> {
        self.named(INTERPOLATE.name, self.interpolated(&options))
    }

    fn interpolated(&self, options: &InterpolateOptions) -> Result<Tensor> {
        use InterpolateMode::{Area, Bicubic, Bilinear, Lanczos, Nearest, NearestExact};
        let invalid = |m: &str| Err(TorshError::invalid("", m.to_string()));
        let mode = options.mode.known()?;
        if matches!(mode, Nearest | NearestExact | Area) && options.align_corners.is_some() {
            return invalid(
                "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | trilinear",
            );
        }
        let mut recompute = options.recompute_scale_factor == Some(true) || mode == Area;
        let (size, factors) = match (&options.size, &options.scale_factor) {
            (Some(_), Some(_)) => {
                return invalid("only one of size or scale_factor should be defined");
            }
            (None, None) => return invalid("either size or scale_factor should be defined"),
            (Some(_), None) if options.recompute_scale_factor == Some(true) => {
                return invalid("recompute_scale_factor is not meaningful with an explicit size.");
            }
            (Some(size), None) => {
                recompute = true;
                (each(self, "output", size)?, Vec::new())
            }
            (None, Some(factors)) => {
                let factors = each(self, "scale_factor", factors)?;
                (scaled(self, &factors), factors)
            }
        };
        if options.antialias && !(matches!(mode, Bilinear | Bicubic | Lanczos) && self.ndim() == 4)
        {
            return invalid(
                "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires a 4-D tensor as input",
            );
        }
        if mode == Lanczos && !options.antialias {
            return invalid("lanczos mode requires antialias=True");
        }
        if mode == Lanczos && options.align_corners == Some(true) {
            return invalid("Lanczos mode does not support align_corners=True");
        }
        if mode == Area {
            let size = |n: usize| size.get(n).copied();
            return match self.ndim() {
                3 => self.adaptive_avg_pool1d(OutputSize([size(0)])),
                4 => self.adaptive_avg_pool2d(OutputSize([size(0), size(1)])),
                5 => self.adaptive_avg_pool3d(OutputSize([size(0), size(1), size(2)])),
                _ => invalid("area takes 3D, 4D and 5D tensors"),
            };
        }
        let Some(along) = mode.kernel(self.ndim().saturating_sub(2)) else {
            return Err(TorshError::invalid(
                "",
                format!(
                    "Input Error: Only 3D, 4D and 5D input Tensors supported (got {}D) for the modes: nearest | nearest-exact | linear | bilinear | bicubic | trilinear | area | lanczos (got {})",
                    self.ndim(),
                    mode.name()
                ),
            ));
        };
        let scales: Vec<_> = match recompute {
            true => Vec::new(),
            false => factors.into_iter().map(Some).collect(),
        };
        let corners = options.align_corners.unwrap_or(false);
        self.resampled(along, &size, corners, &scales, options.antialias)
    }

    #[track_caller]
    fn smoothed(
        &self,
        size: &[i64],
        align_corners: bool,
        scales: &[Option<f64>],
    ) -> Result<Tensor> {
        let run = || {
            if self.ndim() != 4 || size.len() != 2 {
                let m = format!(
                    "a 4D tensor and an output size of 2 were expected, but got {} and {size:?}",
                    self.shape()
                );
                return Err(TorshError::shape("", m));
            }
            self.resampled(ResampleMode::Linear, size, align_corners, scales, true)
        };
        self.named(UPSAMPLE_BILINEAR2D_AA_SCALES.name, run())
    }

    fn resampled(
        &self,
        mode: ResampleMode,
        size: &[i64],
        align_corners: bool,
        scales: &[Option<f64>],
        antialias: bool,
    ) -> Result<Tensor> {
        let d = self.dims();
        if d[1..].contains(&0) || size.iter().any(|&v| v <= 0) {
            let m = format!(
                "Input and output sizes should be greater than 0, but got input of size {} and output {size:?}",
                self.shape()
            );
            return Err(TorshError::shape("", m));
        }
        let batch = d[..2].iter().map(|&v| v as i64);
        let output_shape: Ints = batch.chain(size.iter().copied()).collect();
        // As PyTorch, whatever the factors.
        if antialias && d[2..].iter().zip(size).all(|(&n, &size)| n as i64 == size) {
            return self.copy();
        }
        check_shape(&output_shape, self.dtype())?;
        // The width's comes last.
        let mut scales = scales.iter().rev().copied();
        let mut next = || scales.next().flatten();
        let attrs = attrs::Resample {
            mode,
            align_corners,
            scales_w: next(),
            scales_h: next(),
            scales_d: next(),
            antialias,
            output_shape,
        };
        call1(&RESAMPLE, &[Arg::T(self)], &attrs)
    }
}
