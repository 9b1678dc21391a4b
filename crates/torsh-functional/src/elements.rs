//! Functions whose names or arguments are others than those of the method.

use torsh_tensor::{FlattenOptions, IntoDim, IsinOptions, Operand, Result, Tensor};

use crate::tensor;

/// Which elements are among the test elements (`torch.isin`).
///
/// A bool tensor of the shape of `elements`; the dtypes promote. An error for complex tensors.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::isin(&tensor![[1, 2], [3, 4]], &tensor![2, 4])?, tensor![[false, true], [false, true]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn isin<'a, 'b>(
    elements: impl Into<Operand<'a>>,
    test_elements: impl Into<Operand<'b>>,
) -> Result<Tensor> {
    isin_with(elements, test_elements, IsinOptions::default())
}

/// [`isin`], or with the option `invert` which elements are not among them.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let options = F::IsinOptions::new().invert(true);
/// assert_eq!(F::isin_with(&tensor![1, 2, 3], &tensor![2], options)?, tensor![true, false, true]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn isin_with<'a, 'b>(
    elements: impl Into<Operand<'a>>,
    test_elements: impl Into<Operand<'b>>,
    options: IsinOptions,
) -> Result<Tensor> {
    tensor!(elements);
    tensor!(test_elements);
    Tensor::isin_with(elements, test_elements, options)
}

/// Derivative of order `n` of `digamma` of each element (`torch.polygamma`).
///
/// Shape stays; integers give the default dtype. A negative `n` is an error.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert!(F::polygamma(1, &tensor![1.0, 2.0])?.allclose(&tensor![1.644934, 0.644934])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn polygamma(n: i64, input: &Tensor) -> Result<Tensor> {
    input.polygamma(n)
}

/// Dimensions `start_dim` to `end_dim` as one; else as [`flatten`](crate::flatten).
///
/// An error where `end_dim` comes before `start_dim`.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let options = F::FlattenOptions::new().start_dim(0).end_dim(1);
/// assert_eq!(F::flatten_with(&tensor![[[1, 2]], [[3, 4]]], options)?, tensor![[1, 2], [3, 4]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn flatten_with(input: &Tensor, options: FlattenOptions) -> Result<Tensor> {
    input.flatten_dims(options.start_dim, options.end_dim)
}

/// [`trapezoid`](crate::trapezoid) under its older name (`torch.trapz`).
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::trapz(&tensor![1.0, 2.0, 3.0], -1)?.item::<f32>()?, 4.0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn trapz(input: &Tensor, dim: impl IntoDim) -> Result<Tensor> {
    input.trapezoid(dim)
}
