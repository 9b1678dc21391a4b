//! Embeddings, whose functions take the indices first.

use torsh_tensor::{EmbeddingBagOptions, EmbeddingOptions, Result, Tensor};

/// A row of `weight` for each index (`torch.nn.functional.embedding`).
///
/// Indices (int64 or int32) `[..]` and a weight `[n, d]` give `[.., d]` of the weight's dtype. An
/// error for indices outside `0..n`.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let weight = tensor![[0.0, 0.1], [1.0, 1.1], [2.0, 2.1]];
/// assert_eq!(F::embedding(&tensor![2, 0], &weight)?, tensor![[2.0, 2.1], [0.0, 0.1]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn embedding(input: &Tensor, weight: &Tensor) -> Result<Tensor> {
    embedding_with(input, weight, EmbeddingOptions::default())
}

/// [`embedding`] with options: `padding_idx`, a row without gradient, and `max_norm`, to which
/// longer rows are shortened in place, measured by `norm_type`.
///
/// `scale_grad_by_freq` divides a row's gradient by the number of its uses. An error for
/// `padding_idx` out of range.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let weight = tensor![[3.0, 4.0], [0.3, 0.4]];
/// let options = F::EmbeddingOptions::new().max_norm(1.0);
/// assert!(F::embedding_with(&tensor![0, 1], &weight, options)?.allclose(&tensor![[0.6, 0.8], [0.3, 0.4]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn embedding_with(
    input: &Tensor,
    weight: &Tensor,
    options: EmbeddingOptions,
) -> Result<Tensor> {
    weight.embedding_with(input, options)
}

/// The means of the rows of `weight` that each row of indices names
/// (`torch.nn.functional.embedding_bag`).
///
/// Indices (int64 or int32) `[b, n]` and a weight `[rows, d]` give `[b, d]`. An error for indices
/// out of range, and for other dimensions.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let weight = tensor![[0.0], [10.0], [20.0]];
/// assert_eq!(F::embedding_bag(&tensor![[0, 1], [1, 2]], &weight)?, tensor![[5.0], [15.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn embedding_bag(input: &Tensor, weight: &Tensor) -> Result<Tensor> {
    weight.embedding_bag(input)
}

/// [`embedding_bag`] with options: other modes, and bags that start at `offsets` of a 1-d input.
///
/// An error for a 1-d input without offsets, or offsets with a 2-d one, and for
/// `per_sample_weights` with another mode than the sum.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let weight = tensor![[0.0], [10.0], [20.0]];
/// let offsets = tensor![0, 1];
/// let options = F::EmbeddingBagOptions::new().offsets(&offsets).mode(F::EmbeddingBagMode::Sum);
/// assert_eq!(F::embedding_bag_with(&tensor![2, 1, 2], &weight, options)?, tensor![[20.0], [30.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn embedding_bag_with(
    input: &Tensor,
    weight: &Tensor,
    options: EmbeddingBagOptions,
) -> Result<Tensor> {
    weight.embedding_bag_with(input, options)
}
