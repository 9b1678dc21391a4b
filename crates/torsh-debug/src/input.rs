//! Checks of external tensors, and of a model's outputs.

use torsh_tensor::{
    DType, IntoShape, NanToNumOptions, Result, Tensor, TorshError, options, tensor_stats,
};

use crate::Warning;
use crate::model::finite;

#[track_caller]
fn shape(op: &'static str, t: &Tensor, expected: impl IntoShape) -> Result<()> {
    let expected = expected.shape()?;
    if *t.shape() != expected {
        return Err(TorshError::shape(
            op,
            format!("input: expected shape {expected}, got {}", t.describe()),
        ));
    }
    Ok(())
}

/// Minimum and maximum of a tensor, where it has elements.
fn range(t: &Tensor) -> Result<Option<(f64, f64)>> {
    if t.numel() == 0 {
        return Ok(None);
    }
    let s = tensor_stats(t)?;
    Ok(Some((s.min, s.max)))
}

/// Refuses an input of another shape or dtype, or with nan or infinite elements, and warns of
/// elements outside of `[0, 1]`, the range of images.
///
/// ```
/// use torsh_debug::validate_model_inputs;
/// use torsh_tensor::{DType, tensor};
/// let x = tensor![[0.5, 1.5]];
/// let warnings = validate_model_inputs(&x, &[1, 2], DType::F32)?;
/// assert_eq!(warnings[0].value, 1.5);
/// let e = validate_model_inputs(&x, &[2, 1], DType::F32).unwrap_err().to_string();
/// assert!(e.contains("expected shape [2, 1], got float32[1, 2]"), "{e}");
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn validate_model_inputs(
    input: &Tensor,
    expected_shape: impl IntoShape,
    expected_dtype: DType,
) -> Result<Vec<Warning>> {
    let op = "validate_model_inputs";
    shape(op, input, expected_shape)?;
    if input.dtype() != expected_dtype {
        return Err(TorshError::dtype(
            op,
            format!("input: expected {expected_dtype}, got {}", input.describe()),
        )
        .with_hint("convert it with to_dtype(..)"));
    }
    finite(op, "input", input)?;
    let mut warnings = Vec::new();
    if let Some((min, max)) = range(input)? {
        let outside = "there are values outside of [0, 1]: consider normalizing the input";
        if min < 0.0 {
            warnings.push(Warning::new("input", min, outside));
        }
        if max > 1.0 {
            warnings.push(Warning::new("input", max, outside));
        }
    }
    Ok(warnings)
}

options! {
    /// The range [`validate_input_tensor_with`] lets pass.
    InputLimits {
        /// The smallest element.
        min: f64 = -10.0;
        /// The largest element.
        max: f64 = 10.0;
    }
}

/// Refuses an input of another shape, with nan or infinite elements, or with elements outside of
/// `[-10, 10]`.
///
/// ```
/// use torsh_debug::validate_input_tensor;
/// use torsh_tensor::tensor;
/// validate_input_tensor(&tensor![1.0, -9.5], &[2])?;
/// let e = validate_input_tensor(&tensor![1.0, -10.5], &[2]).unwrap_err().to_string();
/// assert!(e.contains("input: the values from -10.5 to 1 are outside of [-10, 10]"), "{e}");
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn validate_input_tensor(tensor: &Tensor, expected_shape: impl IntoShape) -> Result<()> {
    validate_input_tensor_with(tensor, expected_shape, InputLimits::default())
}

/// [`validate_input_tensor`] with another range.
#[torsh_tensor::names_caller]
pub fn validate_input_tensor_with(
    tensor: &Tensor,
    expected_shape: impl IntoShape,
    limits: InputLimits,
) -> Result<()> {
    let op = "validate_input_tensor";
    shape(op, tensor, expected_shape)?;
    finite(op, "input", tensor)?;
    let InputLimits { min, max } = limits;
    match range(tensor)? {
        Some((low, high)) if low < min || high > max => Err(TorshError::invalid(
            op,
            format!("input: the values from {low} to {high} are outside of [{min}, {max}]"),
        )),
        _ => Ok(()),
    }
}

options! {
    /// What [`sanitize_model_input_with`] does.
    SanitizeOptions {
        /// The most elements that are let in.
        max_elements: usize = 10_000_000;
        /// Smaller elements become this one.
        min: f64 = -100.0;
        /// Larger elements, infinity too, become this one.
        max: f64 = 100.0;
        /// What nan becomes.
        replacement: f64 = 0.0;
        /// What all is divided by in the end.
        divisor: f64 = 255.0;
    }
}

/// An input that a model can compute with, whatever it was: elements clamped to `[-100, 100]`, nan
/// replaced by 0, all divided by 255.
///
/// ```
/// use torsh_debug::sanitize_model_input;
/// use torsh_tensor::tensor;
/// let x = sanitize_model_input(&tensor![51.0, f32::NAN, f32::INFINITY, -1e9])?;
/// assert_eq!(x, tensor![0.2, 0.0, 100.0 / 255.0, -100.0 / 255.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// More than ten million elements, or complex ones.
#[track_caller]
pub fn sanitize_model_input(input: &Tensor) -> Result<Tensor> {
    sanitize_model_input_with(input, SanitizeOptions::default())
}

/// [`sanitize_model_input`] with other limits.
#[torsh_tensor::names_caller]
pub fn sanitize_model_input_with(input: &Tensor, options: SanitizeOptions) -> Result<Tensor> {
    if input.numel() > options.max_elements {
        return Err(TorshError::invalid(
            "sanitize_model_input",
            format!(
                "input: {} elements, and max_elements is {}",
                input.numel(),
                options.max_elements
            ),
        ));
    }
    input
        .clamp(options.min, options.max)?
        .nan_to_num_with(NanToNumOptions::new().nan(options.replacement))?
        .div(options.divisor)
}

/// Refuses an output with nan or infinite elements. Of rows of scores it warns where the largest
/// probability of all rows is below 0.1.
///
/// ```
/// use torsh_debug::validate_model_output;
/// use torsh_tensor::{tensor, zeros};
/// assert!(validate_model_output(&tensor![[5.0, 0.0]])?.is_empty());
/// let warnings = validate_model_output(&zeros(&[1, 20]))?;
/// assert!((warnings[0].value - 0.05).abs() < 1e-6);
/// let e = validate_model_output(&tensor![1.0, f32::INFINITY]).unwrap_err().to_string();
/// assert!(e.contains("output has 1 infinite values of 2"), "{e}");
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn validate_model_output(output: &Tensor) -> Result<Vec<Warning>> {
    finite("validate_model_output", "output", output)?;
    let mut warnings = Vec::new();
    if output.ndim() == 2 && output.numel() > 0 && output.dtype().is_floating_point() {
        let most = output.detach().softmax(-1)?.max()?.item::<f64>()?;
        if most < 0.1 {
            warnings.push(Warning::new("output", most, "no class is likely"));
        }
    }
    Ok(warnings)
}

/// `a / b`, refused where an element of `b` is zero. The shapes broadcast.
///
/// ```
/// use torsh_debug::safe_division;
/// use torsh_tensor::tensor;
/// assert_eq!(safe_division(&tensor![1.0, 4.0], &tensor![2.0])?, tensor![0.5, 2.0]);
/// let e = safe_division(&tensor![1.0], &tensor![2.0, 0.0]).unwrap_err().to_string();
/// assert!(e.contains("b has 1 zero of 2 values, the first at index 1"), "{e}");
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn safe_division(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let zero = b.detach().eq(0)?.reshape([b.numel()])?;
    let zeros = zero.sum()?.item::<i64>()?;
    if zeros > 0 {
        let first = zero.to_dtype(DType::U8)?.argmax()?.item::<i64>()?;
        return Err(TorshError::invalid(
            "safe_division",
            format!(
                "b has {zeros} zero of {} values, the first at index {first} (row by row)",
                b.numel()
            ),
        ));
    }
    a.div(b)
}
