//! Assertions for tests of programs that compute with tensors, as `torch.testing`.

use torsh_tensor::{DType, Device, IscloseOptions, Result, Tensor, options};

options! {
    /// PyTorch's keyword arguments of `torch.testing.assert_close`. Tolerances that are not set are
    /// those of the dtype: 1.3e-6 and 1e-5 for float32, 1e-7 and 1e-7 for float64, 1e-3 and 1e-5
    /// for float16, 1.6e-2 and 1e-5 for bfloat16, 0 for integers and bool.
    AssertCloseOptions {
        /// The tolerance relative to the expected elements.
        rtol: Option<f64> = None, f64 => Some;
        /// The absolute tolerance.
        atol: Option<f64> = None, f64 => Some;
        /// Whether NaN equals NaN.
        equal_nan: bool = false;
    }
}

/// Panics where two tensors differ in shape, dtype or device, or an element by more than
/// `atol + rtol * |expected|` (`torch.testing.assert_close`). The text says how many do, and which
/// element is farthest off.
///
/// ```
/// use torsh::prelude::*;
/// use torsh::testing::assert_close;
/// assert_close(&tensor![0.1].add(0.2)?, &tensor![0.3]);
/// # Ok::<(), TorshError>(())
/// ```
///
/// ```should_panic
/// # use torsh::prelude::*;
/// torsh::testing::assert_close(&tensor![1.0, 2.0], &tensor![1.0, 2.1]);
/// ```
#[track_caller]
pub fn assert_close(actual: &Tensor, expected: &Tensor) {
    assert_close_with(actual, expected, AssertCloseOptions::default());
}

/// [`assert_close`] with other tolerances.
#[track_caller]
pub fn assert_close_with(actual: &Tensor, expected: &Tensor, options: AssertCloseOptions) {
    match difference(actual, expected, &options) {
        Ok(None) => {}
        Ok(Some(text)) => panic!("assert_close: {text}"),
        Err(e) => panic!("assert_close: {e}"),
    }
}

/// [`assert_close`] with one absolute tolerance.
///
/// ```
/// use torsh::prelude::*;
/// torsh::testing::assert_tensors_close(&tensor![1.0, 2.0], &tensor![1.0, 2.001], 1e-2);
/// ```
#[track_caller]
pub fn assert_tensors_close(actual: &Tensor, expected: &Tensor, tolerance: f64) {
    let options = AssertCloseOptions::new().rtol(0.0).atol(tolerance);
    assert_close_with(actual, expected, options);
}

fn tolerances(dtype: DType) -> (f64, f64) {
    match dtype {
        DType::F16 => (1e-3, 1e-5),
        DType::BF16 => (1.6e-2, 1e-5),
        DType::F32 | DType::C64 => (1.3e-6, 1e-5),
        DType::F64 | DType::C128 => (1e-7, 1e-7),
        _ => (0.0, 0.0),
    }
}

/// What is to be said of two tensors that are not close.
fn difference(
    actual: &Tensor,
    expected: &Tensor,
    options: &AssertCloseOptions,
) -> Result<Option<String>> {
    let same = actual.shape() == expected.shape()
        && actual.dtype() == expected.dtype()
        && actual.device() == expected.device();
    if !same {
        let (a, b) = (actual.describe(), expected.describe());
        return Ok(Some(format!("{a}, and {b} is expected")));
    }
    let (rtol, atol) = tolerances(actual.dtype());
    let (rtol, atol) = (options.rtol.unwrap_or(rtol), options.atol.unwrap_or(atol));
    let cpu = |t: &Tensor| t.detach().to_device(Device::Cpu);
    let (actual, expected) = (cpu(actual)?, cpu(expected)?);
    let wide = match actual.is_complex() {
        true => DType::C128,
        false => DType::F64,
    };
    let (a, b) = (actual.to_dtype(wide)?, expected.to_dtype(wide)?);
    let wrong = if rtol == 0.0 && atol == 0.0 && !actual.dtype().is_differentiable() {
        actual.ne(&expected)? // float64 has not all integers
    } else {
        let allowed = IscloseOptions::new().rtol(rtol).atol(atol);
        let close = a.isclose_with(&b, allowed.equal_nan(options.equal_nan))?;
        close.logical_not()?
    };
    let count = wrong.sum()?.item::<i64>()?;
    if count == 0 {
        return Ok(None);
    }
    // NaN counts as the greatest.
    let off = Tensor::where_(&wrong, a.sub(&b)?.abs()?, 0.0)?;
    let place = off.argmax()?.item::<i64>()?;
    let at = |t: &Tensor| t.reshape([-1])?.i(place)?.item_scalar();
    let (got, wanted) = (at(&actual)?, at(&expected)?);
    let (mut index, mut rest) = (vec![0; a.ndim()], place as usize);
    for (i, size) in index.iter_mut().zip(a.dims()).rev() {
        (*i, rest) = (rest % size, rest / size);
    }
    Ok(Some(format!(
        "{count} of {} elements are off by more than {atol:e} + {rtol:e} * |expected|, most of all \
         the one at {index:?}: {got}, and {wanted} is expected",
        a.numel()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use torsh_tensor::tensor;

    fn text(a: &Tensor, b: &Tensor) -> String {
        let found = difference(a, b, &AssertCloseOptions::default());
        found
            .expect("tensors that can be compared")
            .unwrap_or_default()
    }

    #[test]
    fn the_farthest_element_is_named() {
        let (a, b) = (
            tensor![[1.0, 2.0], [3.5, 4.0]],
            tensor![[1.0, 2.25], [3.0, 4.0]],
        );
        assert_eq!(
            text(&a, &b),
            "2 of 4 elements are off by more than 1e-5 + 1.3e-6 * |expected|, most of all the one \
             at [1, 0]: 3.5, and 3.0 is expected"
        );
        assert_eq!(text(&a, &a), "");
        assert_eq!(text(&tensor![1.0], &tensor![1.00001]), "");
    }

    #[test]
    fn nan_kinds_and_large_integers() {
        let nan = tensor![f32::NAN, 1.0];
        assert!(
            text(&nan, &tensor![f32::NAN, 3.0]).contains("2 of 2"),
            "nan is not nan"
        );
        assert!(
            text(&nan, &nan).contains("at [0]: NaN"),
            "{}",
            text(&nan, &nan)
        );
        let same = AssertCloseOptions::new().equal_nan(true);
        assert_eq!(difference(&nan, &nan, &same).ok(), Some(None));
        let (a, b) = (tensor![1], tensor![1.0]);
        assert_eq!(text(&a, &b), "int64[1] cpu, and float32[1] cpu is expected");
        let big = 1i64 << 60;
        assert!(text(&tensor![big], &tensor![big + 1]).starts_with("1 of 1"));
    }
}
