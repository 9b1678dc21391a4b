//! What encoders of texts differ in.

use torsh_nn::{Embedding, LayerNorm, Linear, Parameter};
use torsh_tensor::Result;

use super::{check_heads, heads};
use crate::blocks::{Activation, init};

/// What an encoder computes, and its heads.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    /// The model, for errors.
    pub(crate) model: &'static str,
    pub(crate) vocabulary: usize,
    /// The width of the embeddings.
    pub(crate) embedding: usize,
    pub(crate) width: usize,
    /// The width inside feed-forward layers.
    pub(crate) inner: usize,
    pub(crate) layers: usize,
    /// Groups of layers with the same weights, and blocks of a layer (ALBERT).
    pub(crate) groups: [usize; 2],
    pub(crate) heads: usize,
    /// Rows of the embedding of positions.
    pub(crate) positions: usize,
    /// The number of parts of a pair.
    pub(crate) types: usize,
    pub(crate) padding: Option<i64>,
    pub(crate) activation: Activation,
    /// Dropout of the embeddings and of what a layer adds.
    pub(crate) dropout: f64,
    pub(crate) attention_dropout: f64,
    /// Dropout ahead of a classifier.
    pub(crate) head_dropout: f64,
    pub(crate) eps: f64,
    pub(crate) std: f64,
    pub(crate) labels: usize,
    /// Whether the weight of the masked language model's head is that of the embedding.
    pub(crate) tied: bool,
}

/// The fields that configurations with BERT's names have, and others by name.
macro_rules! spec {
    ($model:literal, $c:ident { $($field:ident: $value:expr),* $(,)? }) => {
        $crate::blocks::encoder::Spec {
            $($field: $value,)*
            ..$crate::blocks::encoder::Spec {
                model: $model,
                vocabulary: $c.vocab_size,
                embedding: $c.hidden_size,
                width: $c.hidden_size,
                inner: $c.intermediate_size,
                layers: $c.num_hidden_layers,
                groups: [1; 2],
                heads: $c.num_attention_heads,
                positions: $c.max_position_embeddings,
                types: $c.type_vocab_size,
                padding: $c.pad_token_id.into(),
                activation: $c.hidden_act,
                dropout: $c.hidden_dropout_prob,
                attention_dropout: $c.attention_probs_dropout_prob,
                head_dropout: $c.hidden_dropout_prob,
                eps: $c.layer_norm_eps,
                std: $c.initializer_range,
                labels: $c.num_labels,
                tied: $c.tie_word_embeddings,
            }
        }
        .checked()
    };
}
pub(crate) use spec;

impl Spec {
    /// An error where the heads do not divide the width.
    #[track_caller]
    pub(crate) fn checked(self) -> Result<Spec> {
        check_heads(self.model, self.width, self.heads)?;
        Ok(self)
    }

    #[track_caller]
    pub(crate) fn linear(&self, from: usize, to: usize) -> Result<Linear> {
        init::linear(from, to, true, self.std)
    }

    #[track_caller]
    pub(crate) fn norm(&self, width: usize) -> Result<LayerNorm> {
        init::layer_norm(width, self.eps)
    }

    /// An embedding of tokens, positions, or parts of a pair.
    #[track_caller]
    pub(crate) fn table(&self, rows: usize, padding: Option<i64>) -> Result<Embedding> {
        init::embedding(rows, self.embedding, padding, self.std)
    }

    /// A classifier of what a layer gives.
    #[track_caller]
    pub(crate) fn classifier(&self) -> Result<Linear> {
        self.linear(self.width, self.labels)
    }

    /// The layer that gives logits of tokens.
    #[track_caller]
    pub(crate) fn decoder(&self, words: &Embedding, bias: Option<&Parameter>) -> Result<Linear> {
        heads::decoder(words, bias, self.tied, self.std)
    }
}
