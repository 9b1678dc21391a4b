//! Attention with numbers for distances of tokens, in the place of positions (Shaw et al., 2018; Raffel et al., 2020).

use torsh_nn::{Embedding, Hooks, Linear, Module, ModuleFields, Training};
use torsh_tensor::{Result, Tensor};

use super::cross::cross_keys_and_values;
use super::{
    AttentionMask, AttentionSteps, KvCache, attend_with, init, join_heads, part, split_heads,
};
use crate::generation::EncoderState;

/// The sizes of [`RelativeAttention`].
#[derive(Clone, Debug)]
pub(crate) struct RelativeOptions {
    /// Channels of a token.
    pub(crate) width: usize,
    /// Heads.
    pub(crate) heads: usize,
    /// Channels of a head.
    pub(crate) head_size: usize,
    /// The numbers of distances that a head has, where it has its own.
    pub(crate) buckets: Option<usize>,
    /// From this distance on all are the same.
    pub(crate) max_distance: usize,
    /// Whether queries see only what is ahead of them.
    pub(crate) causal: bool,
    /// Dropout of the attention's weights.
    pub(crate) dropout: f64,
    /// A factor of the deviations of new weights.
    pub(crate) factor: f64,
}

part! {
    /// Attention as T5 has it: products of queries and keys are not scaled, and a number of the head for the distance of
    /// the two tokens is added to each. A stack's first layer holds these numbers for all of its layers.
    pub RelativeAttention(r: &RelativeOptions) first {
        let inner = r.heads * r.head_size;
        let std = |inputs: usize| r.factor / (inputs as f64).sqrt();
        let to = |std| init::linear(r.width, inner, false, std);
        let bias = |buckets| init::embedding(buckets, r.heads, None, std(r.width));
    } {
        /// To queries.
        pub q: Linear = to(std(r.width * r.head_size))?;
        /// To keys.
        pub k: Linear = to(std(r.width))?;
        /// To values.
        pub v: Linear = to(std(r.width))?;
        /// Of the joined heads.
        pub o: Linear = init::linear(inner, r.width, false, std(inner))?;
        /// The numbers `[buckets, heads]`, in a stack's first layer.
        pub relative_attention_bias: Option<Embedding> = r.buckets.map(bias).transpose()?;
        #[module(skip)] options: RelativeOptions = r.clone();
        training: Training = Training::default();
        hooks: Hooks = Hooks::new();
    }
    hooked |m, x| {
        let bias = m.bias(0, x.dims().get(1).copied().unwrap_or(0))?;
        let mask = match m.options.causal {
            true => AttentionMask::causal(0),
            false => AttentionMask::full(),
        };
        m.forward_self(x, &mask.bias(bias), None)
    }
}

impl RelativeAttention {
    fn keys_and_values(&self, x: &Tensor) -> Result<(Tensor, Tensor)> {
        Ok((
            split_heads(&self.k.forward(x)?, self.options.heads)?,
            split_heads(&self.v.forward(x)?, self.options.heads)?,
        ))
    }

    fn attended(&self, x: &Tensor, kv: (Tensor, Tensor), mask: &AttentionMask) -> Result<Tensor> {
        let q = split_heads(&self.q.forward(x)?, self.options.heads)?;
        let training = self.training.get();
        let steps = AttentionSteps {
            scale: Some(1.0),
            dropout: if training { self.options.dropout } else { 0.0 },
            ..AttentionSteps::default()
        };
        let y = attend_with([&q, &kv.0, &kv.1], mask, steps)?;
        self.o.forward(&join_heads(&y)?)
    }

    /// Attention of a sequence `[batch, length, width]` to itself, and to the tokens of the cache's layer ahead of it.
    ///
    /// # Errors
    /// A sequence of another width, and a cache of another model.
    #[torsh_tensor::names_caller]
    pub fn forward_self(
        &self,
        x: &Tensor,
        mask: &AttentionMask,
        cache: Option<(&mut KvCache, usize)>,
    ) -> Result<Tensor> {
        let (mut k, mut v) = self.keys_and_values(x)?;
        if let Some((cache, layer)) = cache {
            (k, v) = cache.update(layer, &k, &v)?;
        }
        self.attended(x, (k, v), mask)
    }

    /// Attention of a sequence `[batch, length, width]` to an encoder's result, whose keys and values are computed once
    /// and kept in the cache's layer.
    ///
    /// # Errors
    /// As [`RelativeAttention::forward_self`], and a result of another batch.
    #[torsh_tensor::names_caller]
    pub fn forward_cross(
        &self,
        x: &Tensor,
        encoder: &EncoderState,
        cache: Option<(&mut KvCache, usize)>,
    ) -> Result<Tensor> {
        let new = || self.keys_and_values(&encoder.last_hidden_state);
        let kv = cross_keys_and_values(self.type_name(), x, cache, new)?;
        let mask = AttentionMask::full().padding(encoder.padding.clone());
        self.attended(x, kv, &mask)
    }

    /// What is added to the products of queries that have `past` keys ahead of the first: `[heads, queries, keys]`.
    ///
    /// # Errors
    /// Too little memory.
    pub(crate) fn bias(&self, past: usize, queries: usize) -> Result<Option<Tensor>> {
        let (Some(table), o) = (&self.relative_attention_bias, &self.options) else {
            return Ok(None);
        };
        let (buckets, keys) = (table.weight.dims()[0], past + queries);
        let bucket = |d| relative_position_bucket(d, !o.causal, buckets, o.max_distance);
        let distances = (past..keys).flat_map(|i| (0..keys).map(move |j| j as i64 - i as i64));
        let index = Tensor::from_vec(distances.map(bucket).collect(), [queries, keys])?;
        let numbers = table.forward(&index.to_device(table.weight.device())?)?;
        Ok(Some(numbers.permute([2, 0, 1])?))
    }
}

/// The bucket of the distance of a key from a query: one for each short distance, then buckets that are the wider the
/// longer the distance is, up to `max_distance`. One half of the buckets is for keys behind the query, where they count
/// (`bidirectional`).
///
/// ```
/// use torsh_text::blocks::relative_position_bucket;
/// let bucket = |distance| relative_position_bucket(distance, true, 32, 128);
/// assert_eq!([0, -1, -7, -9, -1000].map(bucket), [0, 1, 7, 8, 15]);
/// assert_eq!([1, 7, 9, 1000].map(bucket), [17, 23, 24, 31]);
/// ```
pub fn relative_position_bucket(
    distance: i64,
    bidirectional: bool,
    buckets: usize,
    max_distance: usize,
) -> i64 {
    let (mut buckets, mut first) = (buckets as i64, 0);
    let away = match bidirectional {
        true => {
            buckets /= 2;
            first = if distance > 0 { buckets } else { 0 };
            distance.abs()
        }
        false => (-distance).max(0),
    };
    let exact = buckets / 2;
    if away < exact {
        return first + away;
    }
    // In float32, so that a distance at the border of two buckets falls into that of the trained models.
    let whole = (max_distance as f64 / exact as f64).ln() as f32;
    let part = (away as f32 / exact as f32).ln() / whole * (buckets - exact) as f32;
    first + (exact + part as i64).min(buckets - 1)
}
