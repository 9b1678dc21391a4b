//! When a result counts as PyTorch's: `torch.testing.assert_close` with its default tolerances.

use crate::tensors::{Dtype, Element, TensorData};

/// How far a value may be off: `|got - want| <= atol + rtol * |want|`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// Relative part.
    pub rtol: f64,
    /// Absolute part. Infinity stands for 1e-5, and for the leave of any finite value where PyTorch's own is NaN.
    pub atol: f64,
}

/// Which of a call's results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// What it returns.
    Output,
    /// What backward gives.
    Gradient,
}

/// An operator that needs more than the default, where the exact result does not decide either.
#[derive(Clone, Copy, Debug)]
pub struct Exception {
    /// PyTorch's name of the operator or layer.
    pub op: &'static str,
    /// The dtype it applies to.
    pub dtype: Dtype,
    /// The results it applies to; `None` is all.
    pub of: Option<Of>,
    /// Relative tolerance.
    pub rtol: f64,
    /// Absolute tolerance.
    pub atol: f64,
    /// Why the default cannot be met.
    pub reason: &'static str,
}

/// Every exception there is. One is added only where two right implementations differ by more
/// than the default; the reason says why. Cases that need one are counted.
pub const EXCEPTIONS: &[Exception] = &[
    Exception {
        op: "special.airy_ai",
        dtype: Dtype::Float64,
        of: None,
        rtol: 1e-7,
        atol: 4e-6,
        reason: "PyTorch's own values are wrong by up to 3e-6 between -2.93 and -2.09",
    },
    Exception {
        op: "special.bessel_j0",
        dtype: Dtype::Float64,
        of: None,
        rtol: 1e-7,
        atol: 1e-6,
        reason: "PyTorch's own values, and gradients that are made of them, are wrong by up to 4e-7 between 4.9 and 7.6",
    },
    Exception {
        op: "special.bessel_j1",
        dtype: Dtype::Float64,
        of: None,
        rtol: 1e-7,
        atol: 1e-6,
        reason: "PyTorch's own values, and gradients that are made of them, are wrong by up to 5e-7 between 4.9 and 7.6",
    },
    Exception {
        op: "special.bessel_y0",
        dtype: Dtype::Float64,
        of: None,
        rtol: 1e-7,
        atol: 1e-6,
        reason: "PyTorch's own values, and gradients that are made of them, are wrong by up to 2e-7 between 4.9 and 7.6",
    },
    Exception {
        op: "special.bessel_y1",
        dtype: Dtype::Float64,
        of: None,
        rtol: 1e-7,
        atol: 1e-6,
        reason: "PyTorch's own values, and gradients that are made of them, are wrong by up to 9e-7 between 4.9 and 7.6",
    },
    Exception {
        op: "renorm",
        dtype: Dtype::Complex64,
        of: Some(Of::Gradient),
        rtol: 1.3e-6,
        atol: f64::INFINITY,
        reason: "PyTorch's own gradients for p = inf are NaN; those of the same formula in PyTorch's other ops are not",
    },
    Exception {
        op: "linalg.qr",
        dtype: Dtype::Complex64,
        of: Some(Of::Gradient),
        rtol: 1.3e-6,
        atol: 3e-5,
        reason: "the gradient divides by the diagonal of R: PyTorch's own is 42 units off the exact one, and other orders \
                 of sum 83",
    },
    Exception {
        op: "Conv3d",
        dtype: Dtype::Float32,
        of: None,
        rtol: 1.3e-6,
        atol: 3e-5,
        reason: "gradients of weights are sums of products of 100 that cancel: PyTorch's own are 5e-6 beyond its \
                 rtol off the exact ones, and other orders of summing as much to the other side",
    },
    Exception {
        op: "ConvTranspose3d",
        dtype: Dtype::Float32,
        of: None,
        rtol: 1.3e-6,
        atol: 3e-5,
        reason: "gradients of weights are sums of products of 100 that cancel: PyTorch's own are 8.7e-6 beyond the \
                 tolerance off the exact ones",
    },
    Exception {
        op: "nn.functional.conv3d",
        dtype: Dtype::Complex64,
        of: None,
        rtol: 1.3e-6,
        atol: 3e-4,
        reason: "sums of up to a thousand products of 200 that cancel: PyTorch's own gradients are 1e-4 \
                 off the exact ones",
    },
    Exception {
        op: "nn.functional.conv_transpose3d",
        dtype: Dtype::Complex64,
        of: Some(Of::Gradient),
        rtol: 1.3e-6,
        atol: 3e-4,
        reason: "sums of hundreds of products of 200 that cancel: PyTorch's own are 3e-5 off the exact ones",
    },
    Exception {
        op: "nn.functional.group_norm",
        dtype: Dtype::Float32,
        of: Some(Of::Gradient),
        rtol: 1.3e-6,
        atol: 5e-5,
        reason: "the gradient of two elements beside each other is what remains of terms a thousand times as \
                 large: PyTorch's own are up to 1e-4 off the exact ones",
    },
    Exception {
        op: "nn.functional.normalize",
        dtype: Dtype::Float32,
        of: Some(Of::Gradient),
        rtol: 1.3e-6,
        atol: 3e-5,
        reason: "along a dimension of one element the gradient is 0 where roundings of two equal terms of 100 \
                 happen to agree: for some elements in PyTorch, for others here",
    },
    Exception {
        op: "nn.functional.scaled_dot_product_attention",
        dtype: Dtype::Float32,
        of: None,
        rtol: 1.3e-6,
        atol: 2e-4,
        reason: "softmax of products beyond 100: their rounding moves gradients of 30 by 9e-5, and those \
                 of PyTorch's fused kernel are 6e-5 off the exact ones",
    },
    Exception {
        op: "pow",
        dtype: Dtype::Float32,
        of: Some(Of::Gradient),
        rtol: 1e-5,
        atol: 1e-5,
        reason: "gradients of broadcast operands are sums that cancel: terms of thousands leave 66, of which \
                 PyTorch's sum is 2.3e-6 off and this one 5e-6",
    },
];

/// The defaults of `torch.testing.assert_close`; zero for integers and booleans.
pub fn default_tolerance(dtype: Dtype) -> Tolerance {
    let (rtol, atol) = match dtype {
        Dtype::Float16 => (1e-3, 1e-5),
        Dtype::BFloat16 => (1.6e-2, 1e-5),
        Dtype::Float32 | Dtype::Complex64 => (1.3e-6, 1e-5),
        Dtype::Float64 | Dtype::Complex128 => (1e-7, 1e-7),
        _ => (0.0, 0.0),
    };
    Tolerance { rtol, atol }
}

impl Exception {
    /// How far a value may be off.
    pub fn tolerance(&self) -> Tolerance {
        Tolerance {
            rtol: self.rtol,
            atol: self.atol,
        }
    }
}

/// The exception for results of `op` in `dtype`, if there is one.
pub fn exception(op: &str, dtype: Dtype, of: Of) -> Option<&'static Exception> {
    let applies =
        |e: &&Exception| e.op == op && e.dtype == dtype && e.of.is_none_or(|only| only == of);
    EXCEPTIONS.iter().find(applies)
}

/// The tolerance for all tensors of a layer in `dtype`: the default, or its exception.
pub fn tolerance(layer: &str, dtype: Dtype) -> Tolerance {
    let all = |e: &&Exception| e.op == layer && e.dtype == dtype && e.of.is_none();
    let found = EXCEPTIONS.iter().find(all);
    found.map_or(default_tolerance(dtype), Exception::tolerance)
}

/// Checks dtype, shape and values.
///
/// # Errors
/// What differs: expected and got, and for values the first index and how many.
pub fn compare(got: &TensorData, want: &TensorData, tolerance: Tolerance) -> Result<(), String> {
    compare_kind(got, want)?;
    if got.bytes == want.bytes {
        return Ok(());
    }
    let n = want.numel();
    if got.bytes.len() != want.bytes.len() {
        return Err(format!(
            "{} bytes for {n} elements of {}",
            got.bytes.len(),
            got.dtype
        ));
    }
    let mut wrong = (0..n).filter(|&i| !close(got.get(i), want.get(i), tolerance));
    let Some(first) = wrong.next() else {
        return Ok(());
    };
    let (g, w) = (got.get(first), want.get(first));
    let mut text = format!("at {:?}: expected {w}, got {g}", want.index_of(first));
    if want.dtype.is_inexact() {
        let (off, allowed) = (distance(g, w), allowed(w, tolerance));
        text.push_str(&format!(
            ", off by {off:.3e} where {allowed:.3e} is allowed"
        ));
    }
    text.push_str(&format!(" ({} of {n} differ)", 1 + wrong.count()));
    Err(text)
}

/// Checks dtype and shape.
pub(crate) fn compare_kind(got: &TensorData, want: &TensorData) -> Result<(), String> {
    if got.dtype != want.dtype {
        return Err(format!("dtype: expected {}, got {}", want.dtype, got.dtype));
    }
    if got.shape != want.shape {
        return Err(format!(
            "shape: expected {:?}, got {:?}",
            want.shape, got.shape
        ));
    }
    Ok(())
}

/// `torch.isclose` with `equal_nan`.
pub(crate) fn close(got: Element, want: Element, tolerance: Tolerance) -> bool {
    if got.same(want) {
        return true;
    }
    match want {
        Element::Bool(_) | Element::Int(_) => false,
        Element::Float(_) | Element::Complex(..) => {
            let zero = Element::Float(0.0);
            if tolerance.atol.is_infinite() && distance(want, zero).is_nan() {
                return distance(got, zero).is_finite();
            }
            let off = distance(got, want);
            off.is_finite() && off <= allowed(want, tolerance)
        }
    }
}

fn allowed(want: Element, tolerance: Tolerance) -> f64 {
    let atol = if tolerance.atol.is_finite() {
        tolerance.atol
    } else {
        1e-5
    };
    atol + tolerance.rtol * distance(want, Element::Float(0.0))
}

/// How far apart two numbers are.
pub(crate) fn distance(a: Element, b: Element) -> f64 {
    let parts = |e| match e {
        Element::Bool(b) => (f64::from(u8::from(b)), 0.0),
        Element::Int(i) => (i as f64, 0.0),
        Element::Float(x) => (x, 0.0),
        Element::Complex(re, im) => (re, im),
    };
    let ((a, ai), (b, bi)) = (parts(a), parts(b));
    (a - b).hypot(ai - bi)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(dtype: Dtype, v: &[f64]) -> TensorData {
        let e: Vec<_> = v.iter().map(|&x| Element::Float(x)).collect();
        TensorData::from_elements(dtype, &[v.len()], &e)
    }

    fn check(dtype: Dtype, got: &[f64], want: &[f64]) -> Result<(), String> {
        compare(
            &floats(dtype, got),
            &floats(dtype, want),
            default_tolerance(dtype),
        )
    }

    #[test]
    fn values_are_close_as_in_assert_close() {
        let f32 = Dtype::Float32;
        assert!(check(f32, &[1.000001], &[1.0]).is_ok());
        let error = check(f32, &[5.0, 1.0001, 2.0], &[5.0, 1.0, 7.0]).unwrap_err();
        assert!(error.contains("at [1]: expected 1.0, got 1.000"), "{error}");
        assert!(error.contains("(2 of 3 differ)"), "{error}");
        assert!(check(Dtype::Float64, &[1.0 + 1e-6], &[1.0]).is_err());
        assert!(check(Dtype::BFloat16, &[101.0], &[100.0]).is_ok());
    }

    #[test]
    fn nan_and_infinity_are_exact() {
        let (nan, inf) = (f64::NAN, f64::INFINITY);
        let f64 = Dtype::Float64;
        assert!(check(f64, &[nan, inf, -inf], &[nan, inf, -inf]).is_ok());
        assert!(check(f64, &[nan], &[1.0]).is_err());
        assert!(check(f64, &[1.0], &[nan]).is_err());
        assert!(check(f64, &[1e300], &[inf]).is_err());
        assert!(check(f64, &[inf], &[-inf]).is_err());
        assert!(check(f64, &[-0.0], &[0.0]).is_ok());
    }

    #[test]
    fn integers_are_exact() {
        let ints = |v: &[i64]| {
            let e: Vec<_> = v.iter().map(|&i| Element::Int(i)).collect();
            TensorData::from_elements(Dtype::Int64, &[v.len()], &e)
        };
        let big = 1 << 60;
        let t = default_tolerance(Dtype::Int64);
        assert!(compare(&ints(&[big]), &ints(&[big]), t).is_ok());
        assert!(compare(&ints(&[big + 1]), &ints(&[big]), t).is_err());
    }

    #[test]
    fn complex_numbers_are_close_by_modulus() {
        let one =
            |re, im| TensorData::from_elements(Dtype::Complex64, &[], &[Element::Complex(re, im)]);
        let t = default_tolerance(Dtype::Complex64);
        assert!(compare(&one(1e3, 1e-4), &one(1e3, 0.0), t).is_ok());
        assert!(compare(&one(1e3, 1e-1), &one(1e3, 0.0), t).is_err());
        assert!(compare(&one(f64::NAN, 1.0), &one(f64::NAN, 1.0), t).is_ok());
        assert!(compare(&one(f64::NAN, 1.0), &one(0.0, 1.0), t).is_err());
    }

    #[test]
    fn dtype_and_shape_come_first() {
        let a = floats(Dtype::Float32, &[1.0, 2.0]);
        let t = default_tolerance(Dtype::Float32);
        let error = compare(&floats(Dtype::Float64, &[1.0, 2.0]), &a, t).unwrap_err();
        assert_eq!(error, "dtype: expected float32, got float64");
        let mut b = a.clone();
        b.shape = vec![2, 1];
        assert_eq!(
            compare(&b, &a, t).unwrap_err(),
            "shape: expected [2], got [2, 1]"
        );
    }

    #[test]
    fn every_exception_has_a_reason() {
        for e in EXCEPTIONS {
            assert!(e.reason.len() > 10, "{}", e.op);
            let default = default_tolerance(e.dtype);
            assert!(e.rtol >= default.rtol && e.atol >= default.atol, "{}", e.op);
        }
    }
}
