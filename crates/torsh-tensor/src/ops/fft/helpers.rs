//! The frequencies of a transform, and its result with frequency 0 in the middle.

use torsh_core::{DType, Device, Result, TorshError, default_dtype};

use super::functions::dimension;
use crate::options::options;
use crate::record::{OpRecord, Sample, sample};
use crate::schema::Bound;
use crate::{IntoDims, Operand, Tensor, Value};

pub(crate) const RECORDS: &[&OpRecord] = &[&FFTFREQ, &RFFTFREQ, &FFTSHIFT, &IFFTSHIFT];

options! {
    /// PyTorch's keyword arguments of `fftfreq` and `rfftfreq`.
    ///
    /// ```
    /// use torsh_tensor::{DType, fft::FftfreqOptions};
    /// let options = FftfreqOptions::new().d(0.5).dtype(DType::F64);
    /// assert_eq!((options.d, options.dtype, options.device), (0.5, Some(DType::F64), None));
    /// ```
    FftfreqOptions {
        /// The time between two samples.
        d: f64 = 1.0;
        /// The dtype. The default is the default dtype.
        dtype: Option<DType> = None, DType => Some;
        /// The device. The default is the default device.
        device: Option<Device> = None, Device => Some;
    }
}

#[track_caller]
fn frequencies(op: &'static str, n: i64, half: bool, options: &FftfreqOptions) -> Result<Tensor> {
    if n < 0 {
        return Err(TorshError::invalid(
            op,
            format!("the number of points {n} is negative"),
        ));
    }
    let dtype = options.dtype.unwrap_or_else(default_dtype);
    if !dtype.is_differentiable() {
        let text = format!("frequencies are no {dtype}");
        return Err(TorshError::dtype(op, text).with_hint("use a floating-point dtype"));
    }
    let device = options.device.unwrap_or_else(crate::default_device);
    let range = |from: i64, to: i64| Tensor::arange(from, to, 1, DType::I64, device);
    let counted = match half {
        true => range(0, n / 2 + 1),
        false => {
            range(0, n / 2 + n % 2).and_then(|low| Tensor::cat(&[low, range(-(n / 2), 0)?], 0))
        }
    };
    let counted = counted.map_err(|e| e.renamed(op))?;
    counted.to_dtype(dtype)?.mul(1.0 / (n as f64 * options.d))
}

/// The frequencies of the elements of an `fft` of `n` points, in cycles per sample: 0, 1, ..,
/// and then the negative ones, divided by `n`. An error for a negative `n`.
///
/// ```
/// use torsh_tensor::{fft, tensor};
/// assert_eq!(fft::fftfreq(4)?, tensor![0.0, 0.25, -0.5, -0.25]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn fftfreq(n: i64) -> Result<Tensor> {
    frequencies(FFTFREQ.name, n, false, &FftfreqOptions::new())
}

/// [`fftfreq`] with the time between samples, dtype and device. An error for a negative `n`, and for an
/// integer dtype.
///
/// ```
/// use torsh_tensor::{fft::{self, FftfreqOptions}, tensor};
/// assert_eq!(fft::fftfreq_with(4, FftfreqOptions::new().d(0.5))?, tensor![0.0, 0.5, -1.0, -0.5]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn fftfreq_with(n: i64, options: FftfreqOptions) -> Result<Tensor> {
    frequencies(FFTFREQ.name, n, false, &options)
}

/// The frequencies of the elements of an `rfft` of `n` points, in cycles per sample. An error
/// for a negative `n`.
///
/// ```
/// use torsh_tensor::{fft, tensor};
/// assert_eq!(fft::rfftfreq(4)?, tensor![0.0, 0.25, 0.5]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn rfftfreq(n: i64) -> Result<Tensor> {
    frequencies(RFFTFREQ.name, n, true, &FftfreqOptions::new())
}

/// [`rfftfreq`] with the time between samples, dtype and device. An error for a negative `n`, and for an
/// integer dtype.
///
/// ```
/// use torsh_tensor::{fft::{self, FftfreqOptions}, tensor};
/// assert_eq!(fft::rfftfreq_with(4, FftfreqOptions::new().d(0.5))?, tensor![0.0, 0.5, 1.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn rfftfreq_with(n: i64, options: FftfreqOptions) -> Result<Tensor> {
    frequencies(RFFTFREQ.name, n, true, &options)
}

#[track_caller]
fn shifted(op: &'static str, x: &Tensor, dims: Option<&[i64]>, back: bool) -> Result<Tensor> {
    let dims: Vec<usize> = match dims {
        None => (0..x.ndim()).collect(),
        Some(dims) => dims
            .iter()
            .map(|&d| dimension(op, x, d))
            .collect::<Result<_>>()?,
    };
    if dims.is_empty() {
        return x.copy();
    }
    let by = |&d: &usize| (x.dims()[d] + usize::from(back)) / 2;
    let shifts: Vec<usize> = dims.iter().map(by).collect();
    x.roll(shifts, dims).map_err(|e| e.renamed(op))
}

/// The elements rolled along dimensions (`..` for all) so that frequency 0 comes to the middle. Every dtype.
/// An error for a dimension that is not there.
///
/// ```
/// use torsh_tensor::{fft, tensor};
/// assert_eq!(fft::fftshift(fft::fftfreq(4)?, ..)?, tensor![-0.5, -0.25, 0.0, 0.25]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn fftshift<'a>(input: impl Into<Operand<'a>>, dim: impl IntoDims) -> Result<Tensor> {
    shifted(
        FFTSHIFT.name,
        &input.into().to_tensor()?,
        dim.dims().as_deref(),
        false,
    )
}

/// The inverse of [`fftshift`]. Every dtype. An error for a dimension that is not there.
///
/// ```
/// use torsh_tensor::{fft, tensor};
/// let x = tensor![1, 2, 3, 4, 5];
/// assert_eq!(fft::ifftshift(fft::fftshift(&x, 0)?, 0)?, x);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn ifftshift<'a>(input: impl Into<Operand<'a>>, dim: impl IntoDims) -> Result<Tensor> {
    shifted(
        IFFTSHIFT.name,
        &input.into().to_tensor()?,
        dim.dims().as_deref(),
        true,
    )
}

fn by_name(b: &Bound, op: &'static str, half: bool) -> Result<Value> {
    let options = FftfreqOptions {
        d: b.float(1),
        dtype: b.dtype(2),
        device: b.device(4),
    };
    let t = frequencies(op, b.int(0), half, &options)?;
    if b.bool(6) {
        t.set_requires_grad(true)?;
    }
    Ok(Value::Tensor(t))
}

pub static FFTFREQ: OpRecord = OpRecord::new(
    "fft.fftfreq",
    "The frequencies of the elements of a Fourier transform.",
    "(int n, float d=1.0, *, ScalarType? dtype=None, Any layout=None, Device? device=None, Any pin_memory=None, bool requires_grad=False)",
)
.constant()
.by_name(|b| by_name(b, "fft.fftfreq", false));

pub static RFFTFREQ: OpRecord = OpRecord::new(
    "fft.rfftfreq",
    "The frequencies of the elements of the Fourier transform of real numbers.",
    "(int n, float d=1.0, *, ScalarType? dtype=None, Any layout=None, Device? device=None, Any pin_memory=None, bool requires_grad=False)",
)
.constant()
.by_name(|b| by_name(b, "fft.rfftfreq", true));

fn samples(s: &mut crate::sample::Sampler) -> Result<Vec<Sample>> {
    let x = s.real(&[3, 4])?;
    Ok(vec![sample![&x], sample![&x, 0]])
}

#[torsh_tensor::by_name(shifted("fft.fftshift", input, &dim, false))]
pub static FFTSHIFT: OpRecord = OpRecord::new(
    "fft.fftshift",
    "The elements rolled along dimensions so that frequency 0 comes to the middle.",
    "(Tensor input, int[1]? dim=None)",
)
.samples(samples);

#[torsh_tensor::by_name(shifted("fft.ifftshift", input, &dim, true))]
pub static IFFTSHIFT: OpRecord = OpRecord::new(
    "fft.ifftshift",
    "The inverse of fft.fftshift.",
    "(Tensor input, int[1]? dim=None)",
)
.samples(samples);
