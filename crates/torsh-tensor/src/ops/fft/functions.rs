//! The transforms of `torch.fft`.

use torsh_core::{Result, TorshError, default_dtype};

use super::{FftNorm, c2c, c2r, double_or_single, invalid, r2c};
use crate::autocast::{Autocast, body};
use crate::named::Named;
use crate::options::{example, options};
use crate::record::{OpRecord, sample};
use crate::sample::Sampler;
use crate::schema::Bound;
use crate::{IntoDim, IntoDims, IntoShape, Operand, Tensor, Value};

pub(crate) const RECORDS: &[&OpRecord] = &[
    &FFT, &IFFT, &RFFT, &IRFFT, &HFFT, &IHFFT, &FFT2, &IFFT2, &RFFT2, &IRFFT2, &HFFT2, &IHFFT2,
    &FFTN, &IFFTN, &RFFTN, &IRFFTN, &HFFTN, &IHFFTN,
];

options! {
    /// PyTorch's keyword arguments of the transforms along one dimension.
    ///
    /// ```
    /// use torsh_tensor::{fft::{self, FftOptions}, tensor};
    /// let y = fft::rfft_with(&tensor![1.0, 2.0, 3.0], FftOptions::new().n(4))?;
    /// assert_eq!(y.real()?, tensor![6.0, -2.0, 2.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    FftOptions {
        /// The number of points: the operand is cut, or padded with zeros, to it. `None` takes it as it is.
        n: Option<i64> = None, impl IntoDim => |n| Some(n.value());
        /// The dimension.
        dim: i64 = -1, impl IntoDim => |d| d.value();
        /// The scale.
        norm: FftNorm = FftNorm::Backward, impl Into<FftNorm> => Into::into;
    }
}

options! {
    /// PyTorch's keyword arguments of the two-dimensional transforms.
    ///
    /// ```
    /// use torsh_tensor::{fft::{self, Fft2Options}, ones};
    /// let y = fft::fft2_with(ones(&[2, 3, 4]), Fft2Options::new().dim([0, 1]))?;
    /// assert_eq!(y.real()?.max()?.item::<f32>()?, 6.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    Fft2Options {
        /// The numbers of points: the operand is cut, or padded with zeros, to them; -1 leaves one as it is.
        s: Option<Vec<i64>> = None, impl IntoShape => |s| Some(s.sizes().to_vec());
        /// The dimensions.
        dim: Vec<i64> = vec![-2, -1], impl IntoShape => |d| d.sizes().to_vec();
        /// The scale.
        norm: FftNorm = FftNorm::Backward, impl Into<FftNorm> => Into::into;
    }
}

options! {
    /// PyTorch's keyword arguments of the transforms along several dimensions.
    ///
    /// ```
    /// use torsh_tensor::{fft::{self, FftNorm, FftnOptions}, ones};
    /// let options = FftnOptions { norm: FftNorm::Forward, ..FftnOptions::new().s([4, 4]) };
    /// let y = fft::fftn_with(ones(&[2, 2]), options)?;
    /// assert_eq!(y.real()?.max()?.item::<f32>()?, 0.25);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    FftnOptions {
        /// The numbers of points: the operand is cut, or padded with zeros, to them; -1 leaves one as it is.
        s: Option<Vec<i64>> = None, impl IntoShape => |s| Some(s.sizes().to_vec());
        /// The dimensions; without them the last as many as `s` has, or all.
        dim: Option<Vec<i64>> = None, impl IntoDims => |d| d.dims().map(|d| d.to_vec());
        /// The scale.
        norm: FftNorm = FftNorm::Backward, impl Into<FftNorm> => Into::into;
    }
}

/// What a transform takes and gives, and whether its exponents are negative.
#[derive(Clone, Copy)]
enum Kind {
    Complex(bool),
    FromReal(bool),
    ToReal(bool),
}
use Kind::{Complex, FromReal, ToReal};

/// The operand in a dtype that transforms have; in the complex one where `complex`.
fn promoted(x: &Tensor, complex: bool) -> Result<Tensor> {
    let mut dtype = x.dtype();
    if !dtype.is_differentiable() {
        dtype = default_dtype();
    }
    double_or_single(dtype)?;
    x.to_dtype(if complex { dtype.to_complex() } else { dtype })
}

/// The operand cut, or padded with zeros, to sizes along dimensions.
fn resized(x: &Tensor, dims: &[usize], sizes: &[i64]) -> Result<Tensor> {
    let mut x = x.clone();
    let mut pad = vec![0i64; 2 * x.ndim()];
    for (&d, &size) in dims.iter().zip(sizes) {
        let now = x.dims()[d] as i64;
        if size < now {
            x = x.narrow(d, 0, size)?;
        } else {
            pad[2 * (x.ndim() - 1 - d) + 1] = size - now;
        }
    }
    match pad.iter().all(|&p| p == 0) {
        true => Ok(x),
        false => x.constant_pad_nd(pad, 0),
    }
}

/// A transform along dimensions to which the operand has, or gets, these numbers of points.
fn transform(
    x: &Tensor,
    dims: &[usize],
    points: &[i64],
    norm: FftNorm,
    kind: Kind,
) -> Result<Tensor> {
    let count: f64 = points.iter().map(|&n| n as f64).product();
    let along: Vec<i64> = dims.iter().map(|&d| d as i64).collect();
    let norm = norm.known()?;
    match kind {
        Complex(forward) => {
            let scale = norm.scale(forward, count);
            let one = dims.len() == 1 && !x.is_complex();
            let x = resized(&promoted(x, !one)?, dims, points)?;
            match one {
                true => r2c(&x, along, forward, scale, false),
                false => c2c(&x, along, forward, scale),
            }
        }
        FromReal(forward) => {
            if x.is_complex() {
                let text = format!("expects a real input tensor, but got {}", x.dtype());
                return Err(TorshError::dtype("", text)
                    .with_hint("take the real part, or use the complex transform"));
            }
            let x = resized(&promoted(x, false)?, dims, points)?;
            r2c(&x, along, forward, norm.scale(forward, count), true)
        }
        ToReal(forward) => {
            let mut sizes = points.to_vec();
            let length = sizes.pop().unwrap_or(1);
            sizes.push(length / 2 + 1);
            let x = resized(&promoted(x, true)?, dims, &sizes)?;
            c2r(
                &x,
                along,
                forward,
                norm.scale(forward, count),
                length as usize,
            )
        }
    }
}

/// A dimension of a tensor that has some.
#[track_caller]
pub(super) fn dimension(op: &'static str, x: &Tensor, d: i64) -> Result<usize> {
    if x.ndim() == 0 {
        let text = format!("Dimension specified as {d} but tensor has no dimensions");
        return x.named(op, Err(TorshError::index("", text)));
    }
    x.dim(op, d)
}

/// The number of points along a dimension, which must be at least 1.
fn points(x: &Tensor, d: usize, n: Option<i64>, kind: Kind, last: bool) -> Result<i64> {
    let now = x.dims()[d] as i64;
    let n = match (n, kind) {
        (Some(n), _) => n,
        (None, _) if now == 0 => {
            let text = format!("dim {d} of {}{:?} is empty", x.dtype(), x.dims());
            return Err(TorshError::shape("", text)
                .with_hint("give the number of points, which pads it with zeros"));
        }
        (None, ToReal(_)) if last => 2 * (now - 1),
        (None, _) => now,
    };
    if n < 1 {
        return Err(invalid(format!(
            "Invalid number of data points ({n}) specified"
        )));
    }
    // What padding asks for must be a size at all.
    if n > i64::MAX / 64 {
        return Err(invalid(format!("{n} points do not fit into memory")));
    }
    Ok(n)
}

#[track_caller]
fn one(op: &'static str, x: &Operand<'_>, options: &FftOptions, kind: Kind) -> Result<Tensor> {
    let x = x.to_tensor()?;
    let d = dimension(op, &x, options.dim)?;
    let run = |x: &Tensor| {
        let n = points(x, d, options.n, kind, true)?;
        transform(x, &[d], &[n], options.norm, kind)
    };
    x.named(
        op,
        body(Autocast::Fp32, [&x], |[x]| run(x)).map_err(|e| e.renamed(op)),
    )
}

/// The dimensions and numbers of points of a call.
fn along(
    op: &'static str,
    x: &Tensor,
    options: &FftnOptions,
    kind: Kind,
) -> Result<(Vec<usize>, Vec<i64>)> {
    let s = options.s.as_deref();
    let dims: Vec<usize> = match (&options.dim, s) {
        (Some(dims), s) => {
            let dims = dims
                .iter()
                .map(|&d| dimension(op, x, d))
                .collect::<Result<Vec<_>>>()?;
            if (1..dims.len()).any(|i| dims[..i].contains(&dims[i])) {
                return Err(invalid("FFT dims must be unique"));
            }
            if s.is_some_and(|s| s.len() != dims.len()) {
                return Err(invalid(
                    "When given, dim and shape arguments must have the same length",
                ));
            }
            dims
        }
        (None, Some(s)) if s.len() > x.ndim() => {
            let text = format!(
                "Got shape with {} values but input tensor only has {} dimensions.",
                s.len(),
                x.ndim()
            );
            return Err(invalid(text));
        }
        (None, Some(s)) => (x.ndim() - s.len()..x.ndim()).collect(),
        (None, None) => (0..x.ndim()).collect(),
    };
    if dims.is_empty() && !matches!(kind, Complex(_)) {
        return Err(invalid("must transform at least one axis"));
    }
    let n = |(i, &d): (usize, &usize)| {
        let asked = s.map(|s| s[i]).filter(|&n| n != -1);
        points(x, d, asked, kind, i + 1 == dims.len())
    };
    let points = dims.iter().enumerate().map(n).collect::<Result<Vec<_>>>()?;
    Ok((dims, points))
}

#[track_caller]
fn many(op: &'static str, x: &Operand<'_>, options: FftnOptions, kind: Kind) -> Result<Tensor> {
    let x = x.to_tensor()?;
    let run = |x: &Tensor| {
        let (dims, points) = along(op, x, &options, kind)?;
        transform(x, &dims, &points, options.norm, kind)
    };
    x.named(
        op,
        body(Autocast::Fp32, [&x], |[x]| run(x)).map_err(|e| e.renamed(op)),
    )
}

impl From<Fft2Options> for FftnOptions {
    fn from(o: Fft2Options) -> FftnOptions {
        FftnOptions {
            s: o.s,
            dim: Some(o.dim),
            norm: o.norm,
        }
    }
}

/// The norm of a call by name.
fn norm(b: &Bound, i: usize) -> Result<FftNorm> {
    if b.is_none(i) {
        return Ok(FftNorm::Backward);
    }
    FftNorm::from(b.str(i)).known()
}

fn operands(s: &mut Sampler, kind: Kind) -> Result<(Tensor, Tensor)> {
    match kind {
        FromReal(_) => Ok((s.real(&[3, 4])?, s.real(&[5])?)),
        _ => Ok((s.complex(&[3, 4])?, s.real(&[5])?)),
    }
}

macro_rules! one_dimension {
    ($(
        $(#[doc = $doc:literal])+
        $name:ident $with:ident $record:ident $op:literal $kind:ident($forward:literal) $about:literal $code:literal;
    )*) => {$(
        pub static $record: OpRecord =
            OpRecord::new($op, $about, "(Tensor input, int? n=None, int dim=-1, str? norm=None)")
                .autocast(Autocast::Fp32)
                .by_name(|b| {
                    let options = FftOptions { n: b.opt_int(1), dim: b.int(2), norm: norm(b, 3)? };
                    one($op, &Operand::Ref(b.tensor(0)?), &options, $kind($forward)).map(Value::Tensor)
                })
                .samples(|s| {
                    let (x, real) = operands(s, $kind($forward))?;
                    Ok(vec![
                        sample![&x],
                        sample![&x, 5, 0, norm = "ortho"],
                        sample![&x, 3, norm = "forward"],
                        sample![real],
                    ])
                });

        $(#[doc = $doc])+
        ///
        /// float32, float64, complex64 and complex128; integers and bools are converted to the default dtype. An
        /// error for the half types, for a dimension that is not there, and for an empty one.
        #[doc = example!(concat!("use torsh_tensor::{fft, tensor};\n", $code))]
        #[torsh_tensor::names_caller]
        pub fn $name<'a>(input: impl Into<Operand<'a>>) -> Result<Tensor> {
            one($op, &input.into(), &FftOptions::new(), $kind($forward))
        }

        #[doc = concat!("[`", stringify!($name), "`] with PyTorch's keyword arguments.")]
        ///
        /// An error for less than one point, too.
        #[doc = example!(concat!(
            "use torsh_tensor::{fft::{self, FftOptions}, ones};\n",
            "let y = fft::", stringify!($with), "(ones(&[3, 8]), FftOptions::new().n(4).dim(0))?;\n",
            "assert_eq!(y.dims()[1], 8);"
        ))]
        #[torsh_tensor::names_caller]
        pub fn $with<'a>(input: impl Into<Operand<'a>>, options: FftOptions) -> Result<Tensor> {
            one($op, &input.into(), &options, $kind($forward))
        }
    )*};
}

macro_rules! schema {
    (Fft2Options) => {
        "(Tensor input, int[1]? s=None, int[1] dim=[-2, -1], str? norm=None)"
    };
    (FftnOptions) => {
        "(Tensor input, int[1]? s=None, int[1]? dim=None, str? norm=None)"
    };
}

macro_rules! many_dimensions {
    ($(
        $(#[doc = $doc:literal])+
        $name:ident $with:ident $record:ident $op:literal $kind:ident($forward:literal) $options:ident $about:literal $code:literal;
    )*) => {$(
        pub static $record: OpRecord = OpRecord::new($op, $about, schema!($options))
            .autocast(Autocast::Fp32)
            .by_name(|b| {
                let options = FftnOptions { s: b.opt_ints(1), dim: b.opt_ints(2), norm: norm(b, 3)? };
                many($op, &Operand::Ref(b.tensor(0)?), options, $kind($forward)).map(Value::Tensor)
            })
            .samples(|s| {
                let (x, _) = operands(s, $kind($forward))?;
                Ok(vec![
                    sample![&x],
                    sample![&x, [4, 3], norm = "ortho"],
                    sample![&x, dim = [1, 0]],
                ])
            });

        $(#[doc = $doc])+
        ///
        /// float32, float64, complex64 and complex128; integers and bools are converted to the default dtype. An
        /// error for the half types, for dimensions that are not there, and for empty ones.
        #[doc = example!(concat!("use torsh_tensor::{fft, tensor};\n", $code))]
        #[torsh_tensor::names_caller]
        pub fn $name<'a>(input: impl Into<Operand<'a>>) -> Result<Tensor> {
            many($op, &input.into(), $options::new().into(), $kind($forward))
        }

        #[doc = concat!("[`", stringify!($name), "`] with PyTorch's keyword arguments.")]
        ///
        /// An error for less than one point, for a dimension that comes twice, and where `s` and `dim` are not
        /// equally many.
        #[doc = example!(concat!(
            "use torsh_tensor::{fft::{self, ", stringify!($options), "}, ones};\n",
            "let y = fft::", stringify!($with), "(ones(&[3, 8, 2]), ", stringify!($options),
            "::new().s([4, 4]).dim([0, 1]))?;\n",
            "assert_eq!(y.dims()[0], 4);"
        ))]
        #[torsh_tensor::names_caller]
        pub fn $with<'a>(input: impl Into<Operand<'a>>, options: $options) -> Result<Tensor> {
            many($op, &input.into(), options.into(), $kind($forward))
        }
    )*};
}

one_dimension! {
    /// The discrete Fourier transform along one dimension.
    ///
    /// `y[k]` is the sum of `x[j] * exp(-2 pi i j k / n)`. The result is complex and has `n` elements along the dimension.
    fft fft_with FFT "fft.fft" Complex(true) "The discrete Fourier transform along one dimension." "let y = fft::fft(&tensor![1.0, 2.0, 3.0, 4.0])?;\nassert!(y.real()?.allclose(&tensor![10.0, -2.0, -2.0, -2.0])?);\nassert!(y.imag()?.allclose(&tensor![0.0, 2.0, 0.0, -2.0])?);";
    /// The inverse of `fft.fft`.
    ///
    /// `y[k]` is the sum of `x[j] * exp(2 pi i j k / n)`, divided by `n`. The result is complex.
    ifft ifft_with IFFT "fft.ifft" Complex(false) "The inverse of `fft.fft`." "let x = tensor![1.0, 2.0, 3.0];\nassert!(fft::ifft(fft::fft(&x)?)?.real()?.allclose(&x)?);";
    /// The Fourier transform of real numbers along one dimension, without the half that follows from the other.
    ///
    /// The result is complex, with `n / 2 + 1` elements along the dimension. A complex operand is an error.
    rfft rfft_with RFFT "fft.rfft" FromReal(true) "The Fourier transform of real numbers along one dimension, without the half that follows from the other." "let y = fft::rfft(&tensor![1.0, 2.0, 3.0, 4.0])?;\nassert!(y.abs()?.allclose(&tensor![10.0, 2.828427, 2.0])?);";
    /// The inverse of `fft.rfft`: real numbers from one half of their spectrum.
    ///
    /// The result is real, with `n` elements along the dimension, `2 * (m - 1)` for an operand with `m` unless `n` says otherwise. The imaginary part of the first element, and of the last of an even `n`, is ignored.
    irfft irfft_with IRFFT "fft.irfft" ToReal(false) "The inverse of `fft.rfft`: real numbers from one half of their spectrum." "let x = tensor![1.0, 2.0, 3.0, 4.0];\nassert!(fft::irfft(fft::rfft(&x)?)?.allclose(&x)?);";
    /// The Fourier transform of a signal that equals its own conjugate read backwards, of which one half is given.
    ///
    /// The result is real, with `n` elements along the dimension, `2 * (m - 1)` for an operand with `m` unless `n` says otherwise.
    hfft hfft_with HFFT "fft.hfft" ToReal(true) "The Fourier transform of a signal that equals its own conjugate read backwards, of which one half is given." "let y = fft::hfft(&tensor![1.0, 2.0, 3.0])?;\nassert!(y.allclose(&tensor![8.0, -2.0, 0.0, -2.0])?);";
    /// The inverse of `fft.hfft`: one half of the inverse transform of real numbers.
    ///
    /// The result is complex, with `n / 2 + 1` elements along the dimension. A complex operand is an error.
    ihfft ihfft_with IHFFT "fft.ihfft" FromReal(false) "The inverse of `fft.hfft`: one half of the inverse transform of real numbers." "let y = fft::ihfft(&tensor![8.0, -2.0, 0.0, -2.0])?;\nassert!(y.real()?.allclose(&tensor![1.0, 2.0, 3.0])?);";
}

many_dimensions! {
    /// The two-dimensional Fourier transform: over the last two dimensions.
    fft2 fft2_with FFT2 "fft.fft2" Complex(true) Fft2Options "The two-dimensional Fourier transform: over the last two dimensions." "let x = tensor![[1.0, 2.0], [3.0, 4.0]];\nassert!(fft::fft2(&x)?.real()?.allclose(&tensor![[10.0, -2.0], [-4.0, 0.0]])?);";
    /// The inverse of `fft.fft2`.
    ifft2 ifft2_with IFFT2 "fft.ifft2" Complex(false) Fft2Options "The inverse of `fft.fft2`." "let x = tensor![[1.0, 2.0], [3.0, 4.0]];\nassert!(fft::ifft2(fft::fft2(&x)?)?.real()?.allclose(&x)?);";
    /// The two-dimensional Fourier transform of real numbers, one half along the last dimension.
    rfft2 rfft2_with RFFT2 "fft.rfft2" FromReal(true) Fft2Options "The two-dimensional Fourier transform of real numbers, one half along the last dimension." "let y = fft::rfft2(&tensor![[1.0, 2.0, 3.0], [3.0, 4.0, 5.0]])?;\nassert_eq!(y.dims(), [2, 2]);\nassert!(y.real()?.allclose(&tensor![[18.0, -3.0], [-6.0, 0.0]])?);";
    /// The inverse of `fft.rfft2`, to real numbers.
    irfft2 irfft2_with IRFFT2 "fft.irfft2" ToReal(false) Fft2Options "The inverse of `fft.rfft2`, to real numbers." "let x = tensor![[1.0, 2.0], [3.0, 4.0]];\nassert!(fft::irfft2(fft::rfft2(&x)?)?.allclose(&x)?);";
    /// The two-dimensional transform of a signal that equals its own conjugate read backwards, of which one half is given.
    hfft2 hfft2_with HFFT2 "fft.hfft2" ToReal(true) Fft2Options "The two-dimensional transform of a signal that equals its own conjugate read backwards, of which one half is given." "let y = fft::hfft2(&tensor![[1.0, 2.0], [3.0, 4.0]])?;\nassert!(y.allclose(&tensor![[10.0, -2.0], [-4.0, 0.0]])?);";
    /// The inverse of `fft.hfft2`.
    ihfft2 ihfft2_with IHFFT2 "fft.ihfft2" FromReal(false) Fft2Options "The inverse of `fft.hfft2`." "let y = fft::ihfft2(&tensor![[10.0, -2.0], [-4.0, 0.0]])?;\nassert!(y.real()?.allclose(&tensor![[1.0, 2.0], [3.0, 4.0]])?);";
    /// The Fourier transform along several dimensions, all of them unless they are named.
    fftn fftn_with FFTN "fft.fftn" Complex(true) FftnOptions "The Fourier transform along several dimensions, all of them unless they are named." "let x = tensor![[1.0, 2.0], [3.0, 4.0]];\nassert!(fft::fftn(&x)?.real()?.allclose(&tensor![[10.0, -2.0], [-4.0, 0.0]])?);";
    /// The inverse of `fft.fftn`.
    ifftn ifftn_with IFFTN "fft.ifftn" Complex(false) FftnOptions "The inverse of `fft.fftn`." "let x = tensor![[1.0, 2.0], [3.0, 4.0]];\nassert!(fft::ifftn(fft::fftn(&x)?)?.real()?.allclose(&x)?);";
    /// The Fourier transform of real numbers along several dimensions, one half along the last of them.
    rfftn rfftn_with RFFTN "fft.rfftn" FromReal(true) FftnOptions "The Fourier transform of real numbers along several dimensions, one half along the last of them." "let y = fft::rfftn(&tensor![[1.0, 2.0], [3.0, 4.0]])?;\nassert!(y.real()?.allclose(&tensor![[10.0, -2.0], [-4.0, 0.0]])?);";
    /// The inverse of `fft.rfftn`, to real numbers.
    irfftn irfftn_with IRFFTN "fft.irfftn" ToReal(false) FftnOptions "The inverse of `fft.rfftn`, to real numbers." "let x = tensor![[1.0, 2.0], [3.0, 4.0]];\nassert!(fft::irfftn(fft::rfftn(&x)?)?.allclose(&x)?);";
    /// The transform along several dimensions of a signal that equals its own conjugate read backwards, of which one half along the last is given.
    hfftn hfftn_with HFFTN "fft.hfftn" ToReal(true) FftnOptions "The transform along several dimensions of a signal that equals its own conjugate read backwards, of which one half along the last is given." "let y = fft::hfftn(&tensor![[1.0, 2.0], [3.0, 4.0]])?;\nassert!(y.allclose(&tensor![[10.0, -2.0], [-4.0, 0.0]])?);";
    /// The inverse of `fft.hfftn`.
    ihfftn ihfftn_with IHFFTN "fft.ihfftn" FromReal(false) FftnOptions "The inverse of `fft.hfftn`." "let y = fft::ihfftn(&tensor![[10.0, -2.0], [-4.0, 0.0]])?;\nassert!(y.real()?.allclose(&tensor![[1.0, 2.0], [3.0, 4.0]])?);";
}
