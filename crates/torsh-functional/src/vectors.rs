//! Directions of vectors, and rearranged channels.

use torsh_tensor::{IntoDim, Result, Tensor};

pub use torsh_tensor::{CosineSimilarityOptions, NormalizeOptions, PairwiseDistanceOptions};

/// The cosine of the angle between vectors along dimension 1; the shapes broadcast
/// (`torch.nn.functional.cosine_similarity`).
///
/// The result lacks that dimension; the dtypes promote. An error for integers, and for shapes that
/// do not broadcast.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert!(F::cosine_similarity(&tensor![[1.0, 0.0], [3.0, 4.0]], &tensor![[0.0, 2.0], [4.0, 3.0]])?.allclose(&tensor![0.0, 0.96])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn cosine_similarity(x1: &Tensor, x2: &Tensor) -> Result<Tensor> {
    x1.cosine_similarity(x2)
}

/// [`cosine_similarity`] along another `dim`, or with another least product of norms `eps`.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let options = F::CosineSimilarityOptions::new().dim(0);
/// let y = F::cosine_similarity_with(&tensor![3.0, 4.0], &tensor![4.0, 3.0], options)?;
/// assert!((y.item::<f32>()? - 0.96).abs() < 1e-6);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn cosine_similarity_with(
    x1: &Tensor,
    x2: &Tensor,
    options: CosineSimilarityOptions,
) -> Result<Tensor> {
    x1.cosine_similarity_with(x2, options)
}

/// The Euclidean distances of vectors along the last dimension; the shapes broadcast
/// (`torch.nn.functional.pairwise_distance`).
///
/// The result lacks that dimension. As in PyTorch, 1e-6 is added to each difference.
/// Integers give the default dtype. An error for shapes that do not broadcast.
///
/// ```
/// use torsh_functional as F;
/// use torsh_tensor::tensor;
/// let d = F::pairwise_distance(&tensor![[3.0, 4.0]], &tensor![[0.0, 0.0]])?;
/// assert!((d.item::<f32>()? - 5.0).abs() < 1e-5);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn pairwise_distance(x1: &Tensor, x2: &Tensor) -> Result<Tensor> {
    x1.pairwise_distance(x2)
}

/// [`pairwise_distance`] with another norm `p`, another addend `eps`, or with `keepdim`.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let options = F::PairwiseDistanceOptions::new().p(1.0).eps(0.0);
/// assert_eq!(F::pairwise_distance_with(&tensor![[3.0, 4.0]], &tensor![[0.0, 0.0]], options)?, tensor![7.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn pairwise_distance_with(
    x1: &Tensor,
    x2: &Tensor,
    options: PairwiseDistanceOptions,
) -> Result<Tensor> {
    x1.pairwise_distance_with(x2, options)
}

/// Vectors along dimension 1 divided by their Euclidean norm (`torch.nn.functional.normalize`).
///
/// Shape and dtype stay; vectors of zeros stay, too. An error for integers, and for fewer than two
/// dimensions.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert!(F::normalize(&tensor![[3.0, 4.0], [0.0, 0.0]])?.allclose(&tensor![[0.6, 0.8], [0.0, 0.0]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn normalize(input: &Tensor) -> Result<Tensor> {
    input.normalize()
}

/// [`normalize`] with another norm `p`, dimension `dim` or least norm `eps`.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let options = F::NormalizeOptions::new().p(1.0).dim(0);
/// assert_eq!(F::normalize_with(&tensor![1.0, 3.0], options)?, tensor![0.25, 0.75]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn normalize_with(input: &Tensor, options: NormalizeOptions) -> Result<Tensor> {
    input.normalize_with(options)
}

/// The cross products of vectors along the first dimension of size 3; the shapes broadcast
/// (`torch.cross`).
///
/// An error where no dimension has size 3, and for dtypes that differ.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::cross(&tensor![1, 0, 0], &tensor![0, 1, 0])?, tensor![0, 0, 1]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn cross(input: &Tensor, other: &Tensor) -> Result<Tensor> {
    input.cross(other)
}

/// The cross products of vectors along a dimension of size 3; the shapes broadcast
/// (`torch.linalg.cross`).
///
/// An error for another size, and for dtypes that differ.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::cross_dim(&tensor![[0, 0, 2]], &tensor![[1, 0, 0]], 1)?, tensor![[0, 2, 0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn cross_dim(input: &Tensor, other: &Tensor, dim: impl IntoDim) -> Result<Tensor> {
    input.linalg_cross(other, dim)
}

/// An image `[.., c r r, h, w]` as `[.., c, h r, w r]`: channels become the pixels of squares
/// (`torch.nn.functional.pixel_shuffle`).
///
/// `r` is `upscale_factor`. Keeps the dtype. An error for fewer than three dimensions, and where
/// the channels are no multiple of `r r`.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let x = tensor![[[1]], [[2]], [[3]], [[4]]];
/// assert_eq!(F::pixel_shuffle(&x, 2)?, tensor![[[1, 2], [3, 4]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn pixel_shuffle(input: &Tensor, upscale_factor: impl IntoDim) -> Result<Tensor> {
    input.pixel_shuffle(upscale_factor)
}

/// The inverse of [`pixel_shuffle`]: pixels of squares become channels
/// (`torch.nn.functional.pixel_unshuffle`).
///
/// Keeps the dtype. An error for fewer than three dimensions, and where height or width are no
/// multiple of the factor.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let x = tensor![[[1, 2], [3, 4]]];
/// assert_eq!(F::pixel_unshuffle(&x, 2)?, tensor![[[1]], [[2]], [[3]], [[4]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn pixel_unshuffle(input: &Tensor, downscale_factor: impl IntoDim) -> Result<Tensor> {
    input.pixel_unshuffle(downscale_factor)
}

/// The channels (dimension 1) of `groups` groups, taken from each in turn
/// (`torch.nn.functional.channel_shuffle`).
///
/// Shape and dtype stay. An error for fewer than three dimensions, and where the channels are no
/// multiple of `groups`.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let x = tensor![1, 2, 3, 4].reshape([1, 4, 1])?;
/// assert_eq!(F::channel_shuffle(&x, 2)?.flatten(0)?, tensor![1, 3, 2, 4]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn channel_shuffle(input: &Tensor, groups: impl IntoDim) -> Result<Tensor> {
    input.channel_shuffle(groups)
}
