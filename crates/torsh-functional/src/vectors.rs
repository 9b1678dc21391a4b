//! Directions of vectors, and rearranged channels.

use torsh_tensor::{IntoDim, Result, Tensor};

pub use torsh_tensor::{CosineSimilarityOptions, NormalizeOptions, PairwiseDistanceOptions};

/// The cosine of the angle between vectors along dimension 1; the shapes broadcast.
#[track_caller]
pub fn cosine_similarity(x1: &Tensor, x2: &Tensor) -> Result<Tensor> {
    x1.cosine_similarity(x2)
}

/// [`cosine_similarity`] with options.
#[track_caller]
pub fn cosine_similarity_with(
    x1: &Tensor,
    x2: &Tensor,
    options: CosineSimilarityOptions,
) -> Result<Tensor> {
    x1.cosine_similarity_with(x2, options)
}

/// The Euclidean distances of vectors along the last dimension; the shapes broadcast.
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

/// [`pairwise_distance`] with options.
#[track_caller]
pub fn pairwise_distance_with(
    x1: &Tensor,
    x2: &Tensor,
    options: PairwiseDistanceOptions,
) -> Result<Tensor> {
    x1.pairwise_distance_with(x2, options)
}

/// Vectors along dimension 1 divided by their Euclidean norm.
#[track_caller]
pub fn normalize(input: &Tensor) -> Result<Tensor> {
    input.normalize()
}

/// [`normalize`] with options.
#[track_caller]
pub fn normalize_with(input: &Tensor, options: NormalizeOptions) -> Result<Tensor> {
    input.normalize_with(options)
}

/// The cross products of vectors along the first dimension of size 3; the shapes broadcast.
#[track_caller]
pub fn cross(input: &Tensor, other: &Tensor) -> Result<Tensor> {
    input.cross(other)
}

/// The cross products of vectors along a dimension of size 3; the shapes broadcast.
#[track_caller]
pub fn cross_dim(input: &Tensor, other: &Tensor, dim: impl IntoDim) -> Result<Tensor> {
    input.linalg_cross(other, dim)
}

/// An image `[.., c r r, h, w]` as `[.., c, h r, w r]`: channels become the pixels of squares.
#[track_caller]
pub fn pixel_shuffle(input: &Tensor, upscale_factor: impl IntoDim) -> Result<Tensor> {
    input.pixel_shuffle(upscale_factor)
}

/// The inverse of [`pixel_shuffle`]: pixels of squares become channels.
#[track_caller]
pub fn pixel_unshuffle(input: &Tensor, downscale_factor: impl IntoDim) -> Result<Tensor> {
    input.pixel_unshuffle(downscale_factor)
}

/// The channels (dimension 1) of `groups` groups, taken from each in turn.
#[track_caller]
pub fn channel_shuffle(input: &Tensor, groups: impl IntoDim) -> Result<Tensor> {
    input.channel_shuffle(groups)
}
