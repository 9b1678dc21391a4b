//! The exact result, for cases where PyTorch's own is further from it than ours.
//!
//! PyTorch adds up the taps of a transposed convolution in float16, for example, where ToRSh adds
//! them up in float32. Where a result is not within the default tolerance of PyTorch's, the same
//! call is made once more in float64 (complex128), on the same operands converted. What comes of
//! it is exact as far as the narrow dtype goes, and decides:
//!
//! * An element passes that is as near to the exact one as PyTorch's is, give or take one unit in
//!   the last place.
//! * In float32 and complex64, sums of products ([`SUMS`]), and gradients of fewer elements than
//!   the result, which are sums too, err by the size of what they add up rather than of what
//!   remains, in another way for each order of summing. There an element passes whose error is at
//!   most twice PyTorch's largest in the same tensor, give or take one unit in the last place of
//!   the tensor's largest element.
//!
//! * Solutions, inverses and decompositions ([`is_linear_algebra`]) move by far more than their operands where a matrix is
//!   nearly singular, and so do their gradients. There an element passes whose error is at most
//!   four times what the exact result moves by when the operands move by a unit in the last place: a stable algorithm
//!   gives the exact result of such operands.
//!
//! In all, PyTorch's error must be small enough for a rounding: otherwise something else differs,
//! in ToRSh's float64 as well. Where results jump ([`ROUNDED`]), only PyTorch's are right.

use std::cell::OnceCell;
use std::convert::Infallible;
use std::fmt;

use crate::case::Value;
use crate::compare::{
    Of, Tolerance, close, compare, compare_kind, default_tolerance, distance, exception,
};
use crate::executor::{Call, Executor, Outcome};
use crate::layouts::{Layout, Memory};
use crate::panics;
use crate::tensors::{Dtype, Element, TensorData};

/// Operators whose results (not their gradients) are right only where they are PyTorch's: they
/// jump where a quotient is whole, or their steps are rounded as PyTorch rounds them.
pub const ROUNDED: &[&str] = &[
    "ceil",
    "div",
    "floor",
    "floor_divide",
    "fmod",
    "frac",
    "linspace",
    "logspace",
    "nextafter",
    "remainder",
    "round",
    "trunc",
];

/// Operators whose results and gradients are sums of products.
pub const SUMS: &[&str] = &[
    "addbmm",
    "addmm",
    "addmv",
    "baddbmm",
    "bmm",
    "dot",
    "einsum",
    "fft.fft",
    "fft.fft2",
    "fft.fftn",
    "fft.hfft",
    "fft.hfft2",
    "fft.hfftn",
    "fft.ifft",
    "fft.ifft2",
    "fft.ifftn",
    "fft.ihfft",
    "fft.ihfft2",
    "fft.ihfftn",
    "fft.irfft",
    "fft.irfft2",
    "fft.irfftn",
    "fft.rfft",
    "fft.rfft2",
    "fft.rfftn",
    "hspmm",
    "inner",
    "matmul",
    "mm",
    "mv",
    "nn.functional.bilinear",
    "nn.functional.conv1d",
    "nn.functional.conv2d",
    "nn.functional.conv3d",
    "nn.functional.conv_transpose1d",
    "nn.functional.conv_transpose2d",
    "nn.functional.conv_transpose3d",
    "nn.functional.linear",
    "nn.functional.multi_head_attention_forward",
    "nn.functional.scaled_dot_product_attention",
    "smm",
    "sparse.addmm",
    "sparse.mm",
    "sparse.sampled_addmm",
    "sspaddmm",
    "tensordot",
];

/// Operators that compute places in the dtype of their operands, so that all elements err by what the places do: the rule of
/// [`SUMS`] holds for them in every dtype.
pub const PLACES: &[&str] = &["grid_sampler_2d", "nn.functional.grid_sample"];

/// Operators that are not in `torch.linalg` and yet solve systems or decompose matrices.
pub const SOLVERS: &[&str] = &[
    "cholesky",
    "cholesky_inverse",
    "cholesky_solve",
    "inverse",
    "logdet",
    "lu_solve",
    "matrix_exp",
    "pinverse",
    "triangular_solve",
];

/// Operators whose results may move by far more than their operands.
pub fn is_linear_algebra(op: &str) -> bool {
    op.starts_with("linalg.") || SOLVERS.contains(&op)
}

/// How many times as far as by a unit in the last place of the operands a stable result may be.
const STABLE: f64 = 4.0;

/// Operators that are infinite at poles, integers. PyTorch reflects their argument by a sine, which is not 0 at rounded
/// multiples of pi, so its own values there are finite, and huge.
pub const POLES: &[&str] = &["polygamma", "special.polygamma"];

/// The least magnitude of PyTorch's finite values at poles.
const HUGE: f64 = 1e12;

/// Whether all elements are within the default tolerance, but for infinite ones in place of huge ones of their sign.
fn at_poles(got: &TensorData, want: &TensorData) -> bool {
    let tolerance = default_tolerance(want.dtype);
    let infinite = |g, w| match (g, w) {
        (Element::Float(g), Element::Float(w)) => {
            g.is_infinite() && w.abs() > HUGE && g.signum() == w.signum()
        }
        _ => false,
    };
    let mut pairs = got.elements().zip(want.elements());
    pairs.all(|(g, w)| close(g, w, tolerance) || infinite(g, w))
}

/// How a result passed that is not within the default tolerance; what is told of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Accepted {
    /// It is as near to the exact one as PyTorch's.
    Nearer(String),
    /// [`EXCEPTIONS`](crate::compare::EXCEPTIONS) has a wider tolerance.
    Listed(String),
}

impl Accepted {
    /// The same with the place it was found at.
    pub(crate) fn at(self, place: impl fmt::Display) -> Accepted {
        match self {
            Accepted::Nearer(told) => Accepted::Nearer(format!("{place}: {told}")),
            Accepted::Listed(told) => Accepted::Listed(format!("{place}: {told}")),
        }
    }
}

/// A call that can be made once more, in float64.
pub(crate) trait Again {
    /// PyTorch's name of the operator.
    fn op(&self) -> &str;

    /// Makes it on the same values as float64 and complex128, or on such `moved` by a unit in the last place; `None` where
    /// it gives no result.
    fn wide(&self, moved: bool) -> Option<Outcome>;

    /// The largest magnitude in the operands and cotangents.
    fn largest(&self) -> f64;

    /// How many elements the largest cotangent has.
    fn cotangent(&self) -> usize;
}

/// A call of tensors that are all strided.
struct Strided<'a> {
    call: Call,
    executor: &'a dyn Executor,
}

impl Again for Strided<'_> {
    fn op(&self) -> &str {
        &self.call.op
    }

    fn wide(&self, moved: bool) -> Option<Outcome> {
        let call = widened(&self.call, &|m| wide(m, moved));
        panics::catch(|| self.executor.exact(&call)).ok()?.ok()
    }

    fn largest(&self) -> f64 {
        largest_of(operands(&self.call))
    }

    fn cotangent(&self) -> usize {
        let cotangents = self.call.cotangents.iter().flatten();
        let sizes = cotangents.map(|(_, m)| m.shape.iter().product());
        sizes.max().unwrap_or(0)
    }
}

/// The operands and cotangents of a call.
pub(crate) fn operands<M>(call: &Call<M>) -> impl Iterator<Item = &M> {
    let args = call.args.iter().flat_map(Value::tensors);
    let kwargs = call.kwargs.iter().flat_map(|(_, v)| v.tensors());
    let cotangents = call.cotangents.iter().flatten().map(|(_, m)| m);
    args.chain(kwargs).chain(cotangents)
}

/// The largest magnitude in tensors of floating-point and complex numbers.
pub(crate) fn largest_of<'a>(all: impl Iterator<Item = &'a Memory>) -> f64 {
    let inexact = all.filter(|m| m.dtype.is_inexact());
    inexact.map(|m| largest(&m.to_data())).fold(0.0, f64::max)
}

/// A call that is made in float64 once somebody asks for its results.
pub(crate) struct Exact<'a> {
    call: Box<dyn Again + 'a>,
    outcome: OnceCell<Option<Outcome>>,
    /// That of operands moved by a unit in the last place.
    moved: OnceCell<Option<Outcome>>,
}

impl<'a> Exact<'a> {
    pub(crate) fn new(call: Call, executor: &'a dyn Executor) -> Exact<'a> {
        Exact::again(Strided { call, executor })
    }

    /// Of any call.
    pub(crate) fn again(call: impl Again + 'a) -> Exact<'a> {
        Exact {
            call: Box::new(call),
            outcome: OnceCell::new(),
            moved: OnceCell::new(),
        }
    }

    /// Whether result number `i` is right though it is not within the default tolerance.
    ///
    /// # Errors
    /// What speaks against it, after a semicolon; nothing where there is no exact result.
    pub(crate) fn accept(
        &self,
        of: Of,
        i: usize,
        got: &TensorData,
        want: &TensorData,
    ) -> Result<Accepted, String> {
        compare_kind(got, want).map_err(|_| String::new())?;
        let judge = Judge::new(self, of, i, want);
        let judged = |tolerance| match &judge {
            Some(judge) => judge.check(got, want, tolerance),
            None => compare(got, want, tolerance).map(|()| String::new()),
        };
        let why = match judged(default_tolerance(want.dtype)) {
            Ok(told) => return Ok(Accepted::Nearer(told)),
            Err(why) => why,
        };
        match exception(self.call.op(), want.dtype, of) {
            Some(e) if judged(e.tolerance()).is_ok() => Ok(Accepted::Listed(why)),
            _ if POLES.contains(&self.call.op()) && at_poles(got, want) => {
                Ok(Accepted::Listed("infinite at a pole".into()))
            }
            _ if judge.is_some() => Err(format!("; {why}")),
            _ => Err(String::new()),
        }
    }

    /// The result in float64 or complex128, where the operator gives it.
    fn result(&self, of: Of, i: usize) -> Option<&TensorData> {
        if of == Of::Output && ROUNDED.contains(&self.call.op()) {
            return None;
        }
        chosen(self.outcome.get_or_init(|| self.call.wide(false)), of, i)
    }

    /// How far the result moves where the operands move by a unit in the last place.
    fn movement(&self, exact: &TensorData, of: Of, i: usize) -> f64 {
        let moved = chosen(self.moved.get_or_init(|| self.call.wide(true)), of, i);
        let Some(moved) = moved.filter(|m| m.shape == exact.shape) else {
            return 0.0;
        };
        let pairs = moved.elements().zip(exact.elements());
        finite(pairs.map(|(m, e)| distance(m, e)))
    }
}

/// Result or gradient `i`.
fn chosen(outcome: &Option<Outcome>, of: Of, i: usize) -> Option<&TensorData> {
    let outcome = outcome.as_ref()?;
    match of {
        Of::Output => outcome.outputs.get(i),
        Of::Gradient => outcome.grads.as_ref()?.as_ref().ok()?.get(i)?.as_ref(),
    }
}

/// The largest finite magnitude.
fn largest(t: &TensorData) -> f64 {
    finite(t.elements().map(magnitude))
}

fn finite(all: impl Iterator<Item = f64>) -> f64 {
    all.filter(|x| x.is_finite()).fold(0.0, f64::max)
}

fn magnitude(e: Element) -> f64 {
    distance(e, Element::Float(0.0))
}

/// An exact result, and how far from it others may be.
struct Judge<'a> {
    exact: &'a TensorData,
    precision: Precision,
    /// What an element may err, whatever PyTorch's does.
    error: f64,
    /// What PyTorch's may err.
    furthest: f64,
}

impl<'a> Judge<'a> {
    /// For a result of which `want` is PyTorch's; `None` where there is no exact one.
    fn new(call: &'a Exact<'_>, of: Of, i: usize, want: &TensorData) -> Option<Judge<'a>> {
        let precision = Precision::of(want.dtype)?;
        let exact = call.result(of, i).filter(|e| e.shape == want.shape)?;
        let size = largest(exact);
        let single = matches!(want.dtype, Dtype::Float32 | Dtype::Complex64);
        let op = call.call.op();
        let sums = SUMS.contains(&op) || of == Of::Gradient && want.numel() < call.call.cotangent();
        let places = PLACES.contains(&op);
        // A place of n pixels errs n times as far as a number up to 1.
        let far = if places { 8.0 } else { 1.0 };
        let errors = want.elements().zip(exact.elements());
        let of_sums = match single && sums || places {
            true => 2.0 * finite(errors.map(|(w, e)| distance(w, e))) + precision.unit(size),
            false => 0.0,
        };
        let of_solutions = match is_linear_algebra(op) {
            true => STABLE * call.movement(exact, of, i),
            false => 0.0,
        };
        Some(Judge {
            exact,
            precision,
            error: of_sums.max(of_solutions),
            furthest: far * precision.furthest * size.max(call.call.largest()),
        })
    }

    /// Tells the first element that is outside the tolerance and yet right, and how many there are.
    ///
    /// # Errors
    /// The first element that is not right.
    fn check(
        &self,
        got: &TensorData,
        want: &TensorData,
        tolerance: Tolerance,
    ) -> Result<String, String> {
        let (mut first, mut count) = (None, 0);
        for at in 0..want.numel() {
            let (g, w, e) = (got.get(at), want.get(at), self.exact.get(at));
            if close(g, w, tolerance) {
                continue;
            }
            let theirs = distance(w, e);
            let ours = match self.precision.overflows(g, e) {
                true => 0.0,
                false => distance(g, e),
            };
            let unit = self.precision.unit(magnitude(e));
            let text = || {
                let index = want.index_of(at);
                let (theirs, ours) = (theirs / unit, ours / unit);
                format!(
                    "at {index:?}: exactly {e}, PyTorch {w} ({theirs:.1} units off), \
                     ToRSh {g} ({ours:.1})"
                )
            };
            // PyTorch's nan where the result is finite is an overflow on its way: the exact one counts alone.
            let overflow = theirs.is_nan() && ours <= unit;
            // Comparisons with nan are false.
            if !(overflow || ours <= self.error.max(theirs + unit) && theirs <= self.furthest) {
                return Err(text());
            }
            count += 1;
            first.get_or_insert_with(text);
        }
        let first = first.unwrap_or_default();
        Ok(format!("{first} ({count} of {})", want.numel()))
    }
}

/// A floating-point format narrower than float64.
#[derive(Clone, Copy)]
struct Precision {
    /// Digits after the first, in base 2.
    digits: i32,
    /// Exponent of the smallest normal number.
    smallest: i32,
    /// How far PyTorch's roundings may take a result, as a part of the largest number of the call:
    /// a few times as far as they were ever seen to.
    furthest: f64,
    /// The exponent of the first power of 2 that is infinite.
    infinite: i32,
}

impl Precision {
    fn of(dtype: Dtype) -> Option<Precision> {
        let (digits, smallest, furthest, infinite) = match dtype {
            Dtype::Float16 => (10, -14, -8, 16),
            Dtype::BFloat16 => (7, -126, -6, 128),
            Dtype::Float32 | Dtype::Complex64 => (23, -126, -11, 128),
            _ => return None,
        };
        Some(Precision {
            digits,
            smallest,
            furthest: f64::from(furthest).exp2(),
            infinite,
        })
    }

    /// Whether a number is infinite because the exact one is rounded to infinity.
    fn overflows(self, got: Element, exact: Element) -> bool {
        let (Element::Float(g), Element::Float(e)) = (got, exact) else {
            return false;
        };
        let half_a_unit = f64::from(self.infinite - self.digits - 2).exp2();
        let least = f64::from(self.infinite).exp2() - half_a_unit;
        g.is_infinite() && e.is_finite() && e.abs() >= least && g.signum() == e.signum()
    }

    /// The unit in the last place of a number of this magnitude.
    fn unit(self, magnitude: f64) -> f64 {
        let exponent = magnitude.log2().floor().max(f64::from(self.smallest));
        (exponent - f64::from(self.digits)).exp2()
    }
}

/// The call in float64 and complex128, with what `wide` makes of each tensor.
pub(crate) fn widened<M>(call: &Call<M>, wide: &impl Fn(&M) -> M) -> Call<M> {
    let value = |v: &Value<M>| match v.try_map(&mut |m| Ok::<_, Infallible>(wide(m))) {
        Ok(v) => wide_dtypes(v),
        Err(never) => match never {},
    };
    let kwargs = call.kwargs.iter();
    let cotangents = call.cotangents.as_ref();
    Call {
        op: call.op.clone(),
        args: call.args.iter().map(value).collect(),
        kwargs: kwargs.map(|(k, v)| (k.clone(), value(v))).collect(),
        writes: call.writes,
        cotangents: cotangents.map(|c| c.iter().map(|(i, m)| (*i, wide(m))).collect()),
        after: call.after.clone(),
        eigenvalues: call.eigenvalues.clone(),
    }
}

/// The same values as float64 and complex128, or such `moved` by a unit in the last place, row-major.
pub(crate) fn wide(memory: &Memory, moved: bool) -> Memory {
    let data = memory.to_data();
    let unit = Precision::of(data.dtype).map_or(0.0, |p| f64::from(-p.digits).exp2());
    // Up and down without a pattern: by the bits of a multiplicative hash.
    let factor = |i: usize| match (i as u32).wrapping_mul(0x9E37_79B1) >> 31 {
        _ if !moved => 1.0,
        0 => 1.0 + unit,
        _ => 1.0 - unit,
    };
    let moved = data.elements().enumerate().map(|(i, e)| match e {
        Element::Float(x) => Element::Float(x * factor(i)),
        Element::Complex(re, im) => Element::Complex(re * factor(2 * i), im * factor(2 * i + 1)),
        other => other,
    });
    let elements: Vec<_> = moved.collect();
    let data = TensorData::from_elements(wider(data.dtype), &data.shape, &elements);
    Memory::arrange(&data, Layout::Contiguous, memory.requires_grad)
}

/// Dtypes that the call asks for.
fn wide_dtypes<M>(value: Value<M>) -> Value<M> {
    let all = |v: Vec<Value<M>>| v.into_iter().map(wide_dtypes).collect();
    match value {
        Value::Dtype(d) => Value::Dtype(wider(d)),
        Value::List(v) => Value::List(all(v)),
        Value::Tuple(v) => Value::Tuple(all(v)),
        other => other,
    }
}

fn wider(dtype: Dtype) -> Dtype {
    match dtype {
        Dtype::Float16 | Dtype::BFloat16 | Dtype::Float32 => Dtype::Float64,
        Dtype::Complex64 => Dtype::Complex128,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives one result, and the same as its gradient, where it is called in float64.
    struct Known(Vec<f64>);

    impl Executor for Known {
        fn has(&self, _: &str) -> bool {
            true
        }

        fn call(&self, call: &Call) -> Result<Outcome, String> {
            let wide = call.args.iter().flat_map(Value::tensors);
            assert!(wide.into_iter().all(|m| m.dtype == Dtype::Float64));
            let result = floats(Dtype::Float64, &self.0);
            Ok(Outcome {
                outputs: vec![result.clone()],
                grads: Some(Ok(vec![Some(result)])),
            })
        }

        fn print(&self, _: &Memory, _: bool) -> Result<String, String> {
            Err("prints nothing".to_string())
        }
    }

    /// Has no float64.
    struct Nothing;

    impl Executor for Nothing {
        fn has(&self, _: &str) -> bool {
            true
        }

        fn call(&self, _: &Call) -> Result<Outcome, String> {
            panic!("not in float64")
        }

        fn print(&self, _: &Memory, _: bool) -> Result<String, String> {
            Err("prints nothing".to_string())
        }
    }

    fn floats(dtype: Dtype, v: &[f64]) -> TensorData {
        let e: Vec<_> = v.iter().map(|&x| Element::Float(x)).collect();
        TensorData::from_elements(dtype, &[v.len()], &e)
    }

    fn call(op: &str, dtype: Dtype, operand: &[f64]) -> Call {
        let memory = |v: &[f64]| Memory::arrange(&floats(dtype, v), Layout::Contiguous, true);
        Call {
            op: op.to_string(),
            args: vec![Value::Tensor(memory(operand))],
            kwargs: Vec::new(),
            writes: false,
            cotangents: Some(vec![(0, memory(operand))]),
            after: Vec::new(),
            eigenvalues: None,
        }
    }

    /// Judges `got` where PyTorch gives `want` and float64 `exact`, of operands around 1.
    fn judge(
        op: &str,
        dtype: Dtype,
        of: Of,
        [got, want, exact]: [&[f64]; 3],
    ) -> Result<Accepted, String> {
        let executor = Known(exact.to_vec());
        let exact = Exact::new(call(op, dtype, &[1.0; 8]), &executor);
        exact.accept(of, 0, &floats(dtype, got), &floats(dtype, want))
    }

    const HALF: Dtype = Dtype::Float16;
    /// A unit in the last place of float16 between 1 and 2.
    const ULP: f64 = 1.0 / 1024.0;

    #[test]
    fn what_is_nearer_to_the_exact_result_passes() {
        for of in [Of::Output, Of::Gradient] {
            let of_two = [&[2.0, 1.0 + ULP][..], &[2.0, 1.0 + 4.0 * ULP], &[2.0, 1.0]];
            let told = judge("sum", HALF, of, of_two).unwrap();
            let text = "at [1]: exactly 1.0, PyTorch 1.00390625 (4.0 units off), \
                        ToRSh 1.0009765625 (1.0) (1 of 2)";
            assert_eq!(told, Accepted::Nearer(text.to_string()));
        }
        // On the other side, as far and a unit.
        let other = [&[1.0 - 3.0 * ULP][..], &[1.0 + 2.0 * ULP], &[1.0]];
        assert!(judge("sum", HALF, Of::Output, other).is_ok());
        let bfloat = [&[1.0][..], &[1.0 + 1.0 / 32.0], &[1.01]];
        assert!(judge("sum", Dtype::BFloat16, Of::Output, bfloat).is_err());
        let bfloat = [&[8.0][..], &[8.25], &[8.0]];
        assert!(judge("sum", Dtype::BFloat16, Of::Output, bfloat).is_err());
        let bfloat = [&[8.0][..], &[8.125], &[8.0]];
        assert!(judge("sum", Dtype::BFloat16, Of::Output, bfloat).is_ok());
    }

    #[test]
    fn what_is_further_off_fails_and_says_how_far() {
        let further = [&[1.0 + 4.0 * ULP][..], &[1.0 - 2.0 * ULP], &[1.0]];
        let why = judge("sum", HALF, Of::Output, further).unwrap_err();
        assert!(why.starts_with("; at [0]: exactly 1.0, PyTorch "), "{why}");
        // One element that is right does not make up for another.
        let both = [
            &[1.0, 1.0 + 4.0 * ULP][..],
            &[1.0 + 4.0 * ULP, 1.0],
            &[1.0, 1.0],
        ];
        assert!(judge("sum", HALF, Of::Output, both).is_err());
        let nan = [&[f64::NAN][..], &[1.0], &[f64::NAN]];
        assert!(judge("sum", HALF, Of::Output, nan).is_err());
        let infinite = [&[f64::INFINITY][..], &[65504.0], &[65519.0]];
        assert!(judge("sum", HALF, Of::Output, infinite).is_err());
    }

    #[test]
    fn a_difference_that_is_no_rounding_fails() {
        let wrong = [&[1.0][..], &[1.01], &[1.0]];
        assert!(judge("sum", HALF, Of::Output, wrong).is_err());
        let wrong = [&[1.0][..], &[1.001], &[1.0]];
        assert!(judge("sum", Dtype::Float32, Of::Output, wrong).is_err());
        let rounded = [&[1.0][..], &[1.0001], &[1.0]];
        assert!(judge("sum", Dtype::Float32, Of::Output, rounded).is_ok());
    }

    #[test]
    fn results_that_jump_are_pytorchs() {
        let nearer = [&[1.0][..], &[1.0 + 3.0 * ULP], &[1.0]];
        assert!(judge("div", HALF, Of::Output, nearer).is_err());
        assert!(judge("div", HALF, Of::Gradient, nearer).is_ok());
    }

    #[test]
    fn sums_err_by_what_they_add_up() {
        let single = Dtype::Float32;
        // PyTorch errs by 0.002 somewhere, and here by 0.003 elsewhere.
        let sums = [
            &[1000.0, 1.003, 5.0][..],
            &[1000.002, 1.0, 5.0],
            &[1000.0, 1.0, 5.0],
        ];
        assert!(judge("matmul", single, Of::Output, sums).is_ok());
        assert!(judge("exp", single, Of::Output, sums).is_err());
        // There are 8 elements of cotangents, so the gradient is a sum.
        assert!(judge("exp", single, Of::Gradient, sums).is_ok());
        let twice = [
            &[1000.0, 1.005, 5.0][..],
            &[1000.002, 1.0, 5.0],
            &[1000.0, 1.0, 5.0],
        ];
        assert!(judge("matmul", single, Of::Output, twice).is_err());
    }

    #[test]
    fn a_listed_tolerance_comes_last() {
        let op = "nn.functional.normalize";
        let off = [&[2e-5][..], &[0.0], &[0.0]];
        let how = judge(op, Dtype::Float32, Of::Gradient, off).unwrap();
        assert!(matches!(how, Accepted::Listed(_)), "{how:?}");
        assert!(judge(op, Dtype::Float32, Of::Output, off).is_err());
        assert!(judge(op, Dtype::Float64, Of::Gradient, off).is_err());
    }

    #[test]
    fn infinity_is_exact_beyond_the_largest_number() {
        let inf = f64::INFINITY;
        let overflow = [&[inf, 2.0][..], &[f64::NAN, f64::NAN], &[65520.0, 2.0]];
        assert!(judge("matrix_exp", HALF, Of::Output, overflow).is_ok());
        let below = [&[inf][..], &[f64::NAN], &[65519.0]];
        assert!(judge("matrix_exp", HALF, Of::Output, below).is_err());
        let sign = [&[-inf][..], &[f64::NAN], &[93058.0]];
        assert!(judge("matrix_exp", HALF, Of::Output, sign).is_err());
    }

    #[test]
    fn places_err_in_every_dtype() {
        // PyTorch errs by a 64th somewhere, and here by a 50th elsewhere.
        let places = [&[1.0, 1.02][..], &[1.0156, 1.0], &[1.0, 1.0]];
        assert!(judge("grid_sampler_2d", Dtype::BFloat16, Of::Output, places).is_ok());
        assert!(judge("exp", Dtype::BFloat16, Of::Output, places).is_err());
    }

    #[test]
    fn solutions_move_as_far_as_their_operands_say() {
        /// One by the difference of its operand and 1: nearly singular.
        struct Inverse;
        impl Executor for Inverse {
            fn has(&self, _: &str) -> bool {
                true
            }

            fn call(&self, call: &Call) -> Result<Outcome, String> {
                let x = call
                    .args
                    .iter()
                    .flat_map(Value::tensors)
                    .next()
                    .ok_or("none")?;
                let all = x
                    .to_data()
                    .elements()
                    .map(|e| 1.0 / (magnitude(e) - 1.0))
                    .collect::<Vec<_>>();
                let outputs = vec![floats(x.dtype, &all)];
                Ok(Outcome {
                    outputs,
                    grads: None,
                })
            }

            fn print(&self, _: &Memory, _: bool) -> Result<String, String> {
                Err("prints nothing".to_string())
            }
        }
        let single = Dtype::Float32;
        // The result is 1000, and moves by 0.12 where the operand moves by 1.2e-7.
        let of = |op: &str, got: f64| {
            let exact = Exact::new(call(op, single, &[1.001]), &Inverse);
            exact.accept(
                Of::Output,
                0,
                &floats(single, &[got]),
                &floats(single, &[999.9]),
            )
        };
        assert!(of("linalg.inv", 1000.3).is_ok());
        assert!(of("linalg.inv", 1001.0).is_err());
        assert!(of("exp", 1000.3).is_err());
    }

    #[test]
    fn poles_are_infinite() {
        let single = Dtype::Float32;
        let inf = f64::INFINITY;
        let poles = [
            &[inf, 1.5, -inf][..],
            &[2.02e13, 1.5, -inf],
            &[inf, 1.5, -inf],
        ];
        let how = judge("polygamma", single, Of::Output, poles).unwrap();
        assert!(matches!(how, Accepted::Listed(_)), "{how:?}");
        assert!(judge("exp", single, Of::Output, poles).is_err());
        for wrong in [[inf, 1.5, inf], [inf, 1.6, -inf], [2e14, 1.5, -inf]] {
            let poles = [&wrong[..], &[2.02e13, 1.5, -2.02e13], &wrong];
            assert!(judge("polygamma", single, Of::Output, poles).is_err());
        }
        let finite = [&[inf][..], &[1e6], &[inf]];
        assert!(judge("polygamma", single, Of::Output, finite).is_err());
    }

    #[test]
    fn without_an_exact_result_nothing_is_said() {
        let exact = Exact::new(call("sum", HALF, &[1.0]), &Nothing);
        let (got, want) = (floats(HALF, &[1.0]), floats(HALF, &[1.5]));
        let none = Err(String::new());
        assert_eq!(exact.accept(Of::Output, 0, &got, &want), none);
        let other = floats(Dtype::Float32, &[1.0]);
        assert_eq!(exact.accept(Of::Output, 0, &other, &want), none);
    }

    #[test]
    fn calls_are_widened_whole() {
        let mut call = call("sum", Dtype::BFloat16, &[1.5, -2.0]);
        let dtypes = [Dtype::Float16, Dtype::Complex64, Dtype::Int32].map(Value::Dtype);
        call.kwargs = vec![("dtypes".to_string(), Value::List(dtypes.to_vec()))];
        let widened = widened(&call, &|m| wide(m, false));
        let Value::Tensor(x) = &widened.args[0] else {
            panic!("{widened:?}")
        };
        assert_eq!(x.to_data(), floats(Dtype::Float64, &[1.5, -2.0]));
        assert!(x.requires_grad);
        let dtypes = [Dtype::Float64, Dtype::Complex128, Dtype::Int32].map(Value::Dtype);
        assert_eq!(widened.kwargs[0].1, Value::List(dtypes.to_vec()));
        let cotangents = widened.cotangents.unwrap();
        assert_eq!(cotangents[0].1.dtype, Dtype::Float64);
    }
}
