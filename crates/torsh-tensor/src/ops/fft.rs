//! Fourier transforms: the three ops with a kernel, which all functions of `torch.fft` are made of.

pub(crate) mod functions;
pub(crate) mod helpers;

use torsh_core::attrs::{self, FftKind};
use torsh_core::{DType, Dims, Kernel, Result, TorshError};

use crate::call::{Arg, call1};
use crate::named::Named;
use crate::record::{InputGrad, OpRecord, Plan, PlanCx, Sample, sample};
use crate::sample::Sampler;
use crate::schema::Bound;
use crate::{Tensor, Value};

pub(crate) const RECORDS: &[&OpRecord] = &[&FFT_C2C, &FFT_R2C, &FFT_C2R];

/// How a Fourier transform is scaled.
///
/// ```
/// use torsh_tensor::{fft::{self, FftNorm, FftOptions}, tensor};
/// let options = FftOptions::new().norm(FftNorm::Ortho);
/// let y = fft::fft_with(&tensor![1.0, 0.0, 0.0, 0.0], options)?;
/// assert_eq!(y.abs()?, tensor![0.5, 0.5, 0.5, 0.5]);
/// let y = fft::fft_with(&tensor![1.0, 0.0, 0.0, 0.0], FftOptions::new().norm("forward"))?;
/// assert_eq!(y.abs()?, tensor![0.25, 0.25, 0.25, 0.25]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FftNorm {
    /// The inverse transform divides by the number of points.
    Backward,
    /// Both divide by its square root.
    Ortho,
    /// The forward transform divides by it.
    Forward,
    /// A string that is none of the words; the function that gets it refuses it.
    #[doc(hidden)]
    Unknown(crate::named::Unknown),
}

crate::named! {
    FftNorm, "norm",
    "backward" => FftNorm::Backward,
    "ortho" => FftNorm::Ortho,
    "forward" => FftNorm::Forward,
}

impl FftNorm {
    /// PyTorch's word.
    pub fn as_str(self) -> &'static str {
        self.word()
    }

    /// The factor of a transform over `points` points.
    fn scale(self, forward: bool, points: f64) -> f64 {
        match (self, forward) {
            (FftNorm::Ortho, _) => 1.0 / points.sqrt(),
            (FftNorm::Backward, false) | (FftNorm::Forward, true) => 1.0 / points,
            _ => 1.0,
        }
    }
}

fn invalid(text: impl Into<String>) -> TorshError {
    TorshError::invalid("", text.into())
}

/// The operand's shape with another size along the last of the dimensions.
fn with_last(x: &Tensor, dims: &[i64], size: usize) -> Result<Dims> {
    let mut shape = Dims::from_slice(x.dims());
    match dims.last() {
        Some(&d) => shape[d as usize] = size,
        None => return Err(invalid("must transform at least one axis")),
    }
    Ok(shape)
}

fn double_or_single(dtype: DType) -> Result<()> {
    match dtype {
        DType::F32 | DType::F64 | DType::C64 | DType::C128 => Ok(()),
        d => Err(TorshError::dtype("", format!("Unsupported dtype {d}"))
            .with_hint("convert the operand with to_dtype(DType::F32)")),
    }
}

/// The checks of all three: dimensions that are there, each once.
fn checked(x: &Tensor, call: &attrs::Fft) -> Result<()> {
    double_or_single(x.dtype())?;
    for (i, &d) in call.dims.iter().enumerate() {
        if usize::try_from(d).map_or(true, |d| d >= x.ndim()) {
            return Err(TorshError::index("", format!("there is no dimension {d}")));
        }
        if call.dims[..i].contains(&d) {
            return Err(invalid("FFT dims must be unique"));
        }
        if x.dims()[d as usize] == 0 && x.numel() == 0 && call.kind == FftKind::ToReal {
            return Err(TorshError::shape("", format!("dim {d} is empty")));
        }
    }
    Ok(())
}

fn plan(c: &PlanCx<'_>) -> Result<Plan> {
    let (x, call) = (c.tensor(0)?, c.attrs::<attrs::Fft>()?);
    checked(x, call)?;
    let (dtype, complex) = (x.dtype(), x.dtype().to_complex());
    let refuse = |wanted: &str| {
        let text = format!("expects a {wanted} tensor as input, got {dtype}");
        Err(TorshError::dtype("", text))
    };
    match call.kind {
        FftKind::Complex if !dtype.is_complex() => refuse("complex"),
        FftKind::Complex => Ok(Plan::one(complex, x.shape().clone(), complex)),
        FftKind::FromReal if dtype.is_complex() => refuse("real"),
        FftKind::FromReal => {
            let n = match call.onesided {
                true => call.length / 2 + 1,
                false => call.length,
            };
            Ok(Plan::one(
                complex,
                with_last(x, &call.dims, n)?.into(),
                complex,
            ))
        }
        FftKind::ToReal if !dtype.is_complex() => refuse("complex"),
        FftKind::ToReal => {
            let shape = with_last(x, &call.dims, call.length)?;
            Ok(Plan::one(complex, shape.into(), dtype.to_real()))
        }
    }
}

/// PyTorch's number of a normalization, of which a call by name has one: 0 for none, 1 for the root.
fn named_scale(b: &Bound, x: &Tensor, dims: &[i64]) -> Result<f64> {
    let n: f64 = dims.iter().map(|&d| x.dims()[d as usize] as f64).product();
    match b.int(2) {
        0 => Ok(1.0),
        1 => Ok(1.0 / n.sqrt()),
        2 => Ok(1.0 / n),
        other => Err(invalid(format!(
            "normalization must be 0, 1 or 2, got {other}"
        ))),
    }
}

fn named_dims(b: &Bound, op: &'static str) -> Result<Vec<i64>> {
    let x = b.tensor(0)?;
    if x.ndim() == 0 && !b.ints(1).is_empty() {
        return x.named(
            op,
            Err(TorshError::index("", "the tensor has no dimensions")),
        );
    }
    b.ints(1)
        .iter()
        .map(|&d| Ok(x.dim(op, d)? as i64))
        .collect()
}

pub static FFT_C2C: OpRecord = OpRecord::new(
    "_fft_c2c",
    "The Fourier transform of complex numbers along dimensions.",
    "(Tensor input, int[] dim, int normalization, bool forward)",
)
.kernel(Kernel::Fft, plan)
.grad(&[InputGrad {
    inputs: 0,
    outputs: 0,
    formula: |c| {
        let a = c.attrs::<attrs::Fft>()?;
        let forward = !a.forward;
        call1(
            &FFT_C2C,
            &[Arg::T(c.g())],
            &attrs::Fft {
                forward,
                ..a.clone()
            },
        )
    },
}])
.by_name(|b| {
    let (x, dims) = (b.tensor(0)?, named_dims(b, "_fft_c2c")?);
    let scale = named_scale(b, x, &dims)?;
    c2c(x, dims, b.bool(3), scale).map(Value::Tensor)
})
.samples(|s| {
    let x = s.complex(&[2, 3, 2])?;
    Ok(vec![
        sample![x.clone(), [1], 0, true],
        sample![x, [0, 2], 1, false],
    ])
});

fn real_samples(s: &mut Sampler) -> Result<Vec<Sample>> {
    let (even, odd) = (s.real(&[2, 4])?, s.real(&[3, 5])?);
    let call = |x: &Tensor, dims: Vec<i64>, one: bool| sample![x, dims, 0, one];
    Ok(vec![
        call(&even, vec![1], true),
        call(&odd, vec![1, 0], true),
        call(&odd, vec![0, 1], true),
        call(&even, vec![1], false),
    ])
}

pub static FFT_R2C: OpRecord = OpRecord::new(
    "_fft_r2c",
    "The Fourier transform of real numbers along dimensions; one half along the last one, where onesided.",
    "(Tensor input, int[] dim, int normalization, bool onesided)",
)
.kernel(Kernel::Fft, plan)
.grad(&[InputGrad {
    inputs: 0,
    outputs: 0,
    formula: |c| {
        let a = c.attrs::<attrs::Fft>()?;
        let forward = !a.forward;
        if !a.onesided {
            let whole = attrs::Fft { kind: FftKind::Complex, forward, ..a.clone() };
            return call1(&FFT_C2C, &[Arg::T(c.g())], &whole)?.real();
        }
        // The sum over one half of the spectrum, whose terms `c2r` takes twice.
        let back = attrs::Fft { kind: FftKind::ToReal, forward, interior: a.interior * 0.5, ..a.clone() };
        call1(&FFT_C2R, &[Arg::T(c.g())], &back)
    },
}])
.by_name(|b| {
    let (x, dims) = (b.tensor(0)?, named_dims(b, "_fft_r2c")?);
    let scale = named_scale(b, x, &dims)?;
    r2c(x, dims, true, scale, b.bool(3)).map(Value::Tensor)
})
.samples(real_samples);

pub static FFT_C2R: OpRecord = OpRecord::new(
    "_fft_c2r",
    "The inverse Fourier transform of one half of a spectrum, to real numbers.",
    "(Tensor input, int[] dim, int normalization, int last_dim_size)",
)
.kernel(Kernel::Fft, plan)
.grad(&[InputGrad {
    inputs: 0,
    outputs: 0,
    formula: |c| {
        let a = c.attrs::<attrs::Fft>()?;
        let (forward, interior) = (!a.forward, a.interior * 2.0);
        let back = attrs::Fft {
            kind: FftKind::FromReal,
            forward,
            interior,
            ..a.clone()
        };
        call1(&FFT_R2C, &[Arg::T(c.g())], &back)
    },
}])
.by_name(|b| {
    let (x, dims) = (b.tensor(0)?, named_dims(b, "_fft_c2r")?);
    let length = b.int(3);
    let half = dims.last().map_or(0, |&d| x.dims()[d as usize] as i64);
    if length < 1 || length / 2 + 1 != half {
        let text = format!(
            "{half} numbers along the last dimension are no half spectrum of {length} points"
        );
        return x.named("_fft_c2r", Err(invalid(text)));
    }
    let others = &dims[..dims.len() - 1];
    let n = length as f64
        * others
            .iter()
            .map(|&d| x.dims()[d as usize] as f64)
            .product::<f64>();
    let scale = match b.int(2) {
        1 => 1.0 / n.sqrt(),
        2 => 1.0 / n,
        _ => 1.0,
    };
    c2r(x, dims, false, scale, length as usize).map(Value::Tensor)
})
.samples(|s| {
    let x = s.complex(&[3, 3])?;
    let call = |dims: Vec<i64>, n: i64| sample![&x, dims, 2, n];
    Ok(vec![
        call(vec![1], 4),
        call(vec![1], 5),
        call(vec![1, 0], 4),
    ])
});

/// Complex numbers to complex numbers.
#[track_caller]
fn c2c(x: &Tensor, dims: Vec<i64>, forward: bool, scale: f64) -> Result<Tensor> {
    if dims.is_empty() {
        return x.copy();
    }
    let call = attrs::Fft {
        kind: FftKind::Complex,
        dims: dims.into(),
        forward,
        scale,
        interior: 1.0,
        length: 0,
        onesided: true,
    };
    call1(&FFT_C2C, &[Arg::T(x)], &call)
}

/// Real numbers to their spectrum, or its first half along the last of the dimensions.
#[track_caller]
fn r2c(x: &Tensor, dims: Vec<i64>, forward: bool, scale: f64, onesided: bool) -> Result<Tensor> {
    if !onesided && dims.len() != 1 {
        return c2c(&x.to_dtype(x.dtype().to_complex())?, dims, forward, scale);
    }
    let length = match dims.last() {
        Some(&d) => x.dims()[d as usize],
        None => 0,
    };
    let call = attrs::Fft {
        kind: FftKind::FromReal,
        dims: dims.into(),
        forward,
        scale,
        interior: 1.0,
        length,
        onesided,
    };
    call1(&FFT_R2C, &[Arg::T(x)], &call)
}

/// The first half of a spectrum, along the last of the dimensions, to real numbers.
#[track_caller]
fn c2r(x: &Tensor, dims: Vec<i64>, forward: bool, scale: f64, length: usize) -> Result<Tensor> {
    let call = attrs::Fft {
        kind: FftKind::ToReal,
        dims: dims.into(),
        forward,
        scale,
        interior: 1.0,
        length,
        onesided: true,
    };
    call1(&FFT_C2R, &[Arg::T(x)], &call)
}

/// The complex transform along the last dimension, for ops made of it.
#[track_caller]
pub(crate) fn complex_last(x: &Tensor, forward: bool, scale: f64) -> Result<Tensor> {
    let x = x.to_dtype(x.dtype().to_complex())?;
    double_or_single(x.dtype())?;
    c2c(&x, vec![x.ndim() as i64 - 1], forward, scale)
}

/// The transform of real numbers along the last dimension.
#[track_caller]
pub(crate) fn real_last(x: &Tensor, scale: f64, onesided: bool) -> Result<Tensor> {
    double_or_single(x.dtype())?;
    r2c(x, vec![x.ndim() as i64 - 1], true, scale, onesided)
}

/// The inverse of it.
#[track_caller]
pub(crate) fn to_real_last(x: &Tensor, scale: f64, length: usize) -> Result<Tensor> {
    c2r(x, vec![x.ndim() as i64 - 1], false, scale, length)
}
