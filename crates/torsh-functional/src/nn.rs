//! Layers as functions.

use torsh_tensor::{IntoShape, Operand, PadOptions, Result, Tensor};

pub use torsh_tensor::{
    EmbeddingBagMode, EmbeddingBagOptions, EmbeddingOptions, InProjection,
    MultiHeadAttentionForwardOptions, ScaledDotProductAttentionOptions,
};

use crate::{BatchNormOptions, tensor};

/// `input @ weight.T + bias`: `[.., in]` and `[out, in]` give `[.., out]`.
#[track_caller]
pub fn linear<'b>(
    input: &Tensor,
    weight: &Tensor,
    bias: impl Into<Option<&'b Tensor>>,
) -> Result<Tensor> {
    input.linear(weight, bias.into())
}

/// The sums of products `input1[i] * weight[o, i, j] * input2[j]`, and a bias `[o]`: `[.., i]` and
/// `[.., j]` give `[.., o]`.
#[track_caller]
pub fn bilinear<'b>(
    input1: &Tensor,
    input2: &Tensor,
    weight: &Tensor,
    bias: impl Into<Option<&'b Tensor>>,
) -> Result<Tensor> {
    input1.bilinear(input2, weight, bias)
}

/// Normalises each channel by its running mean and variance.
#[track_caller]
pub fn batch_norm(input: &Tensor, running_mean: &Tensor, running_var: &Tensor) -> Result<Tensor> {
    batch_norm_with(
        input,
        running_mean,
        running_var,
        BatchNormOptions::default(),
    )
}

/// [`batch_norm`] with options; in training mode the running statistics may be absent, and are
/// moved where they are there.
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
/// tensor itself unless `training`.
#[track_caller]
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
    /// Sets each channel of signals `[N, C, L]` or `[C, L]` to 0 with probability `p`.
    dropout1d;
    /// Sets each channel of images `[N, C, H, W]` to 0 with probability `p`.
    dropout2d;
    /// Sets each channel of volumes `[N, C, D, H, W]` or `[C, D, H, W]` to 0 with probability `p`.
    dropout3d;
    /// Dropout that keeps the mean and variance of what went through SELU.
    alpha_dropout;
    /// [`alpha_dropout`] of whole channels.
    feature_alpha_dropout;
}

/// A row of `weight` for each index.
#[track_caller]
pub fn embedding(input: &Tensor, weight: &Tensor) -> Result<Tensor> {
    embedding_with(input, weight, EmbeddingOptions::default())
}

/// [`embedding`] with options.
#[track_caller]
pub fn embedding_with(
    input: &Tensor,
    weight: &Tensor,
    options: EmbeddingOptions,
) -> Result<Tensor> {
    weight.embedding_with(input, options)
}

/// The means of the rows of `weight` that each row of indices names.
#[track_caller]
pub fn embedding_bag(input: &Tensor, weight: &Tensor) -> Result<Tensor> {
    weight.embedding_bag(input)
}

/// [`embedding_bag`] with options: other modes, and bags that start at offsets of a 1-d input.
#[track_caller]
pub fn embedding_bag_with(
    input: &Tensor,
    weight: &Tensor,
    options: EmbeddingBagOptions,
) -> Result<Tensor> {
    weight.embedding_bag_with(input, options)
}

/// `softmax(query @ key.T / sqrt(e)) @ value` of queries `[.., l, e]`, keys `[.., s, e]` and values
/// `[.., s, n]`.
#[track_caller]
pub fn scaled_dot_product_attention(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
) -> Result<Tensor> {
    query.scaled_dot_product_attention(key, value)
}

/// [`scaled_dot_product_attention`] with a mask, dropout, another scale, or shared heads.
#[track_caller]
pub fn scaled_dot_product_attention_with(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    options: ScaledDotProductAttentionOptions,
) -> Result<Tensor> {
    query.scaled_dot_product_attention_with(key, value, options)
}

/// Attention by several heads of queries `[queries, batch, embed_dim]` over keys and values
/// `[keys, batch, ..]`: what they attend to, and the weights where wanted. See
/// [`Tensor::multi_head_attention_forward`].
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

/// A 1 in the place of each class along a new last dimension; as many classes as the greatest
/// needs where `num_classes` is -1.
#[track_caller]
pub fn one_hot(input: &Tensor, num_classes: i64) -> Result<Tensor> {
    input.one_hot(num_classes)
}

/// Zeros around a tensor: for the last dimension before and after, then for the one ahead of it.
#[track_caller]
pub fn pad(input: &Tensor, pad: impl IntoShape) -> Result<Tensor> {
    input.pad(pad)
}

/// [`pad`] by a mode (`constant`, `reflect`, `replicate`, `circular`), with a value for
/// `constant`.
#[track_caller]
pub fn pad_with(input: &Tensor, pad: impl IntoShape, options: PadOptions) -> Result<Tensor> {
    input.pad_with(pad, options)
}
