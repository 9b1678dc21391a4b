//! Layers as functions.

use torsh_tensor::{IntoShape, Operand, PadOptions, Result, Tensor};

pub use torsh_tensor::{
    AttentionWindow, EmbeddingBagMode, EmbeddingBagOptions, EmbeddingOptions, InProjection,
    MultiHeadAttentionForwardOptions, ScaledDotProductAttentionOptions,
};

use crate::{BatchNormOptions, tensor};

/// `input @ weight.T + bias`: `[.., in]` and `[out, in]` give `[.., out]`
/// (`torch.nn.functional.linear`).
///
/// `bias` is `[out]` or `None`. An error for other shapes, and for dtypes that differ.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let weight = tensor![[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]];
/// assert_eq!(F::linear(&tensor![[1.0, 2.0]], &weight, &tensor![0.0, 0.0, 0.5])?, tensor![[1.0, 2.0, 3.5]]);
/// assert_eq!(F::linear(&tensor![1.0, 2.0], &weight, None)?, tensor![1.0, 2.0, 3.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn linear<'b>(
    input: &Tensor,
    weight: &Tensor,
    bias: impl Into<Option<&'b Tensor>>,
) -> Result<Tensor> {
    input.linear(weight, bias.into())
}

/// The sums of products `input1[i] * weight[o, i, j] * input2[j]`, and a bias `[o]`: `[.., i]` and
/// `[.., j]` give `[.., o]` (`torch.nn.functional.bilinear`).
///
/// An error for other shapes, and for dtypes that differ.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let weight = tensor![[[1.0, 0.0], [0.0, 1.0]]];
/// assert_eq!(F::bilinear(&tensor![[1.0, 2.0]], &tensor![[3.0, 4.0]], &weight, &tensor![0.5])?, tensor![[11.5]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn bilinear<'b>(
    input1: &Tensor,
    input2: &Tensor,
    weight: &Tensor,
    bias: impl Into<Option<&'b Tensor>>,
) -> Result<Tensor> {
    input1.bilinear(input2, weight, bias)
}

/// Each channel (dimension 1) less its running mean, over its standard deviation by the running
/// variance (`torch.nn.functional.batch_norm`).
///
/// Shape and dtype stay; the statistics are `[C]`. An error for other shapes, and for integers.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let (mean, var) = (tensor![1.0, 10.0], tensor![4.0, 1.0]);
/// let y = F::batch_norm(&tensor![[3.0, 10.0], [1.0, 12.0]], &mean, &var)?;
/// assert!(F::allclose_with(&y, &tensor![[1.0, 0.0], [0.0, 2.0]], F::IscloseOptions::new().atol(1e-4))?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn batch_norm(input: &Tensor, running_mean: &Tensor, running_var: &Tensor) -> Result<Tensor> {
    batch_norm_with(
        input,
        running_mean,
        running_var,
        BatchNormOptions::default(),
    )
}

/// [`batch_norm`] with options: a `weight` and `bias` `[C]`, `eps`, and `training`, in which the
/// batch's own statistics count.
///
/// In training the running statistics may be absent; where they are there, they move by `momentum`.
/// An error, in training, for a single value for each channel.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let mean = tensor![0.0];
/// let options = F::BatchNormOptions::new().training(true).eps(0.0);
/// assert_eq!(F::batch_norm_with(&tensor![[1.0], [3.0]], &mean, &tensor![1.0], options)?, tensor![[-1.0], [1.0]]);
/// // A tenth of the way from 0 to the mean of the batch, 2.
/// assert!(mean.allclose(&tensor![0.2])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn batch_norm_with<'m, 'v>(
    input: &Tensor,
    running_mean: impl Into<Option<&'m Tensor>>,
    running_var: impl Into<Option<&'v Tensor>>,
    options: BatchNormOptions,
) -> Result<Tensor> {
    input.batch_norm_with(running_mean, running_var, options)
}

/// Sets each element to 0 with probability `p` and scales the others by `1 / (1 - p)`; gives the
/// tensor itself unless `training` (`torch.nn.functional.dropout`).
///
/// Shape and dtype stay. An error for `p` outside [0, 1], and, in training, for integers.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::ones;
/// let x = ones([1000]);
/// assert_eq!(F::dropout(&x, 0.5, false)?, x);
/// let y = F::dropout(&x, 0.5, true)?;
/// assert!(y.eq(0.0)?.logical_or(&y.eq(2.0)?)?.all()?.item::<bool>()?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn dropout<'a>(input: impl Into<Operand<'a>>, p: f64, training: bool) -> Result<Tensor> {
    tensor!(input);
    input.dropout(p, training)
}

macro_rules! dropouts {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[track_caller]
        pub fn $name(input: &Tensor, p: f64, training: bool) -> Result<Tensor> {
            input.$name(p, training)
        }
    )*};
}
dropouts! {
    /// Sets each channel of signals `[N, C, L]` or `[C, L]` to 0 with probability `p` and scales
    /// the others by `1 / (1 - p)` (`torch.nn.functional.dropout1d`).
    ///
    /// Gives the values unchanged unless `training`. An error for other dimensions, and for `p`
    /// outside [0, 1].
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::ones;
    /// let y = F::dropout1d(&ones([100, 3]), 0.5, true)?;
    /// // A channel is dropped as a whole.
    /// assert_eq!(y.select(1, 0)?, y.select(1, 2)?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    dropout1d;
    /// Sets each channel of images `[N, C, H, W]` to 0 with probability `p` and scales the others
    /// by `1 / (1 - p)` (`torch.nn.functional.dropout2d`).
    ///
    /// Gives the values unchanged unless `training`. An error for `p` outside [0, 1].
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::ones;
    /// let y = F::dropout2d(&ones([1, 100, 2, 2]), 0.5, true)?;
    /// // A channel is dropped as a whole.
    /// assert_eq!(y.amin([2, 3], false)?, y.amax([2, 3], false)?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    dropout2d;
    /// Sets each channel of volumes `[N, C, D, H, W]` or `[C, D, H, W]` to 0 with probability `p`
    /// and scales the others by `1 / (1 - p)` (`torch.nn.functional.dropout3d`).
    ///
    /// Gives the values unchanged unless `training`. An error for `p` outside [0, 1].
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::ones;
    /// let y = F::dropout3d(&ones([1, 100, 1, 2, 2]), 0.5, true)?;
    /// // A channel is dropped as a whole.
    /// assert_eq!(y.amin([2, 3, 4], false)?, y.amax([2, 3, 4], false)?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    dropout3d;
    /// Dropout that keeps the mean and variance of the outputs of SELU
    /// (`torch.nn.functional.alpha_dropout`).
    ///
    /// Shape and dtype stay, and the values unless `training`. An error for `p` outside [0, 1].
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::{tensor, zeros};
    /// let y = F::alpha_dropout(&zeros([1000]), 0.5, true)?;
    /// // Dropped and kept elements have one of two values each, of mean 0 and variance 1.
    /// assert!(F::unique(&y)?.allclose(&tensor![-0.7791939, 0.7791939])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    alpha_dropout;
    /// [`alpha_dropout`] of whole channels, `[N, C, ..]`
    /// (`torch.nn.functional.feature_alpha_dropout`).
    ///
    /// Shape and dtype stay, and the values unless `training`. An error for fewer than two
    /// dimensions, and for `p` outside [0, 1].
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::zeros;
    /// let y = F::feature_alpha_dropout(&zeros([1, 100, 4]), 0.5, true)?;
    /// assert_eq!(y.select(2, 0)?, y.select(2, 3)?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    feature_alpha_dropout;
}

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

/// The product of each group of rows or columns with its own matrix (`torch.nn.functional.grouped_mm`):
/// [`Tensor::grouped_mm`], which has the shapes and errors.
///
/// ```
/// use torsh_functional as F;
/// use torsh_tensor::tensor;
/// let (x, experts) = (tensor![[1.0], [2.0], [3.0]], tensor![[[10.0]], [[100.0]]]);
/// let y = F::grouped_mm(&x, &experts, Some(&tensor![1, 3]))?;
/// assert_eq!(y, tensor![[10.0], [200.0], [300.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn grouped_mm(mat_a: &Tensor, mat_b: &Tensor, offs: Option<&Tensor>) -> Result<Tensor> {
    mat_a.grouped_mm(mat_b, offs)
}

/// `softmax(query @ key.T / sqrt(e)) @ value` of queries `[.., l, e]`, keys `[.., s, e]` and values
/// `[.., s, n]` (`torch.nn.functional.scaled_dot_product_attention`).
///
/// Gives `[.., l, n]`; the leading dimensions broadcast. An error for other shapes, and for dtypes
/// that differ.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// // A query that is equally far from both keys gets the mean of their values.
/// let (q, k) = (tensor![[0.0, 0.0]], tensor![[1.0, 0.0], [0.0, 1.0]]);
/// assert_eq!(F::scaled_dot_product_attention(&q, &k, &tensor![[2.0], [4.0]])?, tensor![[3.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn scaled_dot_product_attention(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
) -> Result<Tensor> {
    query.scaled_dot_product_attention(key, value)
}

/// [`scaled_dot_product_attention`] with options: a mask (`attn_mask` or `is_causal`), `dropout_p`,
/// another `scale`, or heads that share keys (`enable_gqa`).
///
/// An error for a mask that does not broadcast to `[.., l, s]`, and for both masks at once.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let (q, k) = (tensor![[0.0], [0.0]], tensor![[1.0], [1.0]]);
/// let causal = F::ScaledDotProductAttentionOptions::new().is_causal(true);
/// // The first query sees the first key only.
/// let y = F::scaled_dot_product_attention_with(&q, &k, &tensor![[2.0], [4.0]], causal)?;
/// assert_eq!(y, tensor![[2.0], [3.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn scaled_dot_product_attention_with(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    options: ScaledDotProductAttentionOptions,
) -> Result<Tensor> {
    query.scaled_dot_product_attention_with(key, value, options)
}

/// Attention by several heads of queries `[queries, batch, embed_dim]` over keys and values `[keys,
/// batch, ..]`: what they attend to, and the weights `[batch, queries, keys]` where wanted. See
/// [`Tensor::multi_head_attention_forward`].
///
/// Gives `[queries, batch, embed_dim]`. An error for other shapes, and where the heads do not
/// divide `embed_dim`.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::{eye, tensor, zeros};
/// let (q, kv) = (zeros([1, 1, 2]), tensor![[[1.0, 2.0]], [[3.0, 6.0]]]);
/// let same = F::InProjection::Separate([eye(2), eye(2), eye(2)]);
/// let options = F::MultiHeadAttentionForwardOptions::new().training(false);
/// let (y, weights) = F::multi_head_attention_forward(&q, &kv, &kv, 1, &same, &eye(2), options)?;
/// assert_eq!((y, weights), (tensor![[[2.0, 4.0]]], Some(tensor![[[0.5, 0.5]]])));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn multi_head_attention_forward(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    num_heads: usize,
    in_projection: &InProjection,
    out_proj_weight: &Tensor,
    options: MultiHeadAttentionForwardOptions,
) -> Result<(Tensor, Option<Tensor>)> {
    query.multi_head_attention_forward(
        key,
        value,
        num_heads,
        in_projection,
        out_proj_weight,
        options,
    )
}

/// A 1 in the place of each class along a new last dimension; as many classes as the greatest needs
/// where `num_classes` is -1 (`torch.nn.functional.one_hot`).
///
/// An int64 tensor `[..]` gives an int64 tensor `[.., classes]`. An error for other dtypes, and for
/// classes out of range.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::one_hot(&tensor![0, 2], 3)?, tensor![[1, 0, 0], [0, 0, 1]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn one_hot(input: &Tensor, num_classes: i64) -> Result<Tensor> {
    input.one_hot(num_classes)
}

/// Zeros around a tensor: for the last dimension before and after, then for the one ahead of it
/// (`torch.nn.functional.pad`).
///
/// Keeps the dtype; negative counts cut off. An error for an odd number of counts, or for more
/// pairs than dimensions.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::pad(&tensor![[1, 2]], [1, 0, 0, 1])?, tensor![[0, 1, 2], [0, 0, 0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn pad(input: &Tensor, pad: impl IntoShape) -> Result<Tensor> {
    input.pad(pad)
}

/// [`pad`] by a mode (`constant`, `reflect`, `replicate`, `circular`), with a value for `constant`.
///
/// An error for another word, for a value with another mode, and for paddings larger than a mode
/// allows.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let x = tensor![[[1.0, 2.0, 3.0]]];
/// let y = F::pad_with(&x, [2, 1], F::PadOptions::new().mode("reflect"))?;
/// assert_eq!(y, tensor![[[3.0, 2.0, 1.0, 2.0, 3.0, 2.0]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn pad_with(input: &Tensor, pad: impl IntoShape, options: PadOptions) -> Result<Tensor> {
    input.pad_with(pad, options)
}
