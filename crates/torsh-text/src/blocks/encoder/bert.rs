//! The embeddings and layers of BERT, which RoBERTa and ELECTRA have as well.

use torsh_nn::{Dropout, Embedding, Hooks, LayerNorm, Linear, Module, Training};
use torsh_tensor::{Result, Tensor};

use super::{Layout, TokenInputs, self_attention};
use crate::blocks::{Activation, Layers, init, tokens};

/// The sizes of embeddings.
pub(crate) struct EmbeddingSizes {
    pub(crate) vocab: usize,
    pub(crate) width: usize,
    pub(crate) positions: usize,
    pub(crate) types: usize,
    pub(crate) padding: Option<i64>,
    pub(crate) dropout: f64,
    pub(crate) eps: f64,
    pub(crate) std: f64,
}

/// The sizes of a layer.
pub(crate) struct LayerSizes {
    pub(crate) width: usize,
    pub(crate) heads: usize,
    pub(crate) inner: usize,
    pub(crate) activation: Activation,
    pub(crate) dropout: f64,
    pub(crate) attention_dropout: f64,
    pub(crate) eps: f64,
    pub(crate) std: f64,
}

/// [`EmbeddingSizes`] and [`LayerSizes`] of a configuration with BERT's names.
macro_rules! sizes {
    (embedding $c:expr, $width:expr) => {
        $crate::blocks::encoder::EmbeddingSizes {
            vocab: $c.vocab_size,
            width: $width,
            positions: $c.max_position_embeddings,
            types: $c.type_vocab_size,
            padding: $c.pad_token_id,
            dropout: $c.hidden_dropout_prob,
            eps: $c.layer_norm_eps,
            std: $c.initializer_range,
        }
    };
    (layer $c:expr) => {
        $crate::blocks::encoder::LayerSizes {
            width: $c.hidden_size,
            heads: $c.num_attention_heads,
            inner: $c.intermediate_size,
            activation: $c.hidden_act,
            dropout: $c.hidden_dropout_prob,
            attention_dropout: $c.attention_probs_dropout_prob,
            eps: $c.layer_norm_eps,
            std: $c.initializer_range,
        }
    };
}
pub(crate) use sizes;

/// The sum of the embeddings of tokens, their parts and their positions.
#[track_caller]
pub(crate) fn embed(
    [words, positions]: [&Embedding; 2],
    types: Option<&Embedding>,
    layout: &Layout,
    inputs: &TokenInputs<'_>,
    position_ids: &Tensor,
) -> Result<Tensor> {
    let mut x = tokens::vectors(words, &layout.pack(inputs.input_ids)?)?;
    if let Some(table) = types {
        x = match inputs.token_type_ids {
            Some(ids) => x.add(&table.forward(&layout.pack(ids)?)?)?,
            None => x.add(&table.weight.narrow(0, 0, 1)?)?,
        };
    }
    x.add(&positions.forward(&layout.pack(position_ids)?)?)
}

/// The embeddings of BERT, ALBERT and ELECTRA: of tokens, positions, and parts of a pair.
#[derive(Module)]
pub struct BertEmbeddings {
    /// Of tokens.
    pub word_embeddings: Embedding,
    /// Of positions.
    pub position_embeddings: Embedding,
    /// Of parts of a pair.
    pub token_type_embeddings: Embedding,
    /// The norm of their sum.
    #[module(rename = "LayerNorm")]
    pub layer_norm: LayerNorm,
    dropout: Dropout,
    hooks: Hooks,
}

impl BertEmbeddings {
    pub(crate) fn new(s: &EmbeddingSizes) -> Result<BertEmbeddings> {
        Ok(BertEmbeddings {
            word_embeddings: init::embedding(s.vocab, s.width, s.padding, s.std)?,
            position_embeddings: init::embedding(s.positions, s.width, None, s.std)?,
            token_type_embeddings: init::embedding(s.types, s.width, None, s.std)?,
            layer_norm: init::layer_norm(s.width, s.eps)?,
            dropout: Dropout::new(s.dropout)?,
            hooks: Hooks::new(),
        })
    }

    #[track_caller]
    pub(crate) fn run(&self, inputs: &TokenInputs<'_>, layout: &Layout) -> Result<Tensor> {
        self.hooks.run(self, inputs.input_ids, |ids| {
            let inputs = TokenInputs {
                input_ids: ids,
                ..*inputs
            };
            let tables = [&self.word_embeddings, &self.position_embeddings];
            let types = Some(&self.token_type_embeddings);
            let x = embed(tables, types, layout, &inputs, &layout.positions(ids)?)?;
            self.dropout.forward(&self.layer_norm.forward(&x)?)
        })
    }
}

impl Module for BertEmbeddings {
    #[torsh_tensor::names_caller]
    fn forward(&self, input_ids: &Tensor) -> Result<Tensor> {
        let inputs = TokenInputs::new(input_ids);
        let most = self.position_embeddings.weight.dims()[0];
        self.run(
            &inputs,
            &Layout::new("BertEmbeddings", &inputs, Some(most))?,
        )
    }
}

#[derive(Module)]
struct BertSelfAttention {
    query: Linear,
    key: Linear,
    value: Linear,
    #[module(skip)]
    heads: usize,
    #[module(skip)]
    dropout: f64,
    training: Training,
    hooks: Hooks,
}

impl BertSelfAttention {
    fn run(&self, x: &Tensor, layout: &Layout) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let layers = [&self.query, &self.key, &self.value];
            let training = self.training.get();
            self_attention(x, layers, self.heads, layout, self.dropout, training)
        })
    }
}

impl Module for BertSelfAttention {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.run(x, &Layout::whole(x)?)
    }
}

/// A linear layer, dropout, and the norm of its sum with what went in.
#[derive(Module)]
struct BertOutput {
    dense: Linear,
    #[module(rename = "LayerNorm")]
    layer_norm: LayerNorm,
    dropout: Dropout,
}

impl BertOutput {
    fn new(inputs: usize, s: &LayerSizes) -> Result<BertOutput> {
        Ok(BertOutput {
            dense: init::linear(inputs, s.width, true, s.std)?,
            layer_norm: init::layer_norm(s.width, s.eps)?,
            dropout: Dropout::new(s.dropout)?,
        })
    }

    fn run(&self, x: &Tensor, residual: &Tensor) -> Result<Tensor> {
        let y = self.dropout.forward(&self.dense.forward(x)?)?;
        self.layer_norm.forward(&y.add(residual)?)
    }
}

impl Module for BertOutput {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.run(x, x)
    }
}

#[derive(Module)]
struct BertAttention {
    #[module(rename = "self")]
    self_attention: BertSelfAttention,
    output: BertOutput,
}

impl Module for BertAttention {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.output.run(&self.self_attention.forward(x)?, x)
    }
}

#[derive(Module)]
struct BertIntermediate {
    dense: Linear,
    #[module(skip)]
    activation: Activation,
}

impl Module for BertIntermediate {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.activation.apply(&self.dense.forward(x)?)
    }
}

/// A layer of BERT, RoBERTa and ELECTRA: attention and a feed-forward layer, each with a shortcut and a norm behind it.
#[derive(Module)]
pub struct BertLayer {
    attention: BertAttention,
    intermediate: BertIntermediate,
    output: BertOutput,
    hooks: Hooks,
}

impl BertLayer {
    fn new(s: &LayerSizes) -> Result<BertLayer> {
        let project = || init::linear(s.width, s.width, true, s.std);
        Ok(BertLayer {
            attention: BertAttention {
                self_attention: BertSelfAttention {
                    query: project()?,
                    key: project()?,
                    value: project()?,
                    heads: s.heads,
                    dropout: Dropout::new(s.attention_dropout)?.p(),
                    training: Training::default(),
                    hooks: Hooks::new(),
                },
                output: BertOutput::new(s.width, s)?,
            },
            intermediate: BertIntermediate {
                dense: init::linear(s.width, s.inner, true, s.std)?,
                activation: s.activation,
            },
            output: BertOutput::new(s.inner, s)?,
            hooks: Hooks::new(),
        })
    }

    fn run(&self, x: &Tensor, layout: &Layout) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let y = self.attention.self_attention.run(x, layout)?;
            let x = self.attention.output.run(&y, x)?;
            self.output.run(&self.intermediate.forward(&x)?, &x)
        })
    }
}

impl Module for BertLayer {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.run(x, &Layout::whole(x)?)
    }
}

/// The layers of BERT, RoBERTa and ELECTRA.
#[derive(Module)]
pub struct BertEncoder {
    /// One after the other.
    pub layer: Layers<BertLayer>,
    hooks: Hooks,
}

impl BertEncoder {
    pub(crate) fn new(layers: usize, s: &LayerSizes) -> Result<BertEncoder> {
        Ok(BertEncoder {
            layer: (0..layers)
                .map(|_| BertLayer::new(s))
                .collect::<Result<_>>()?,
            hooks: Hooks::new(),
        })
    }

    #[track_caller]
    pub(crate) fn run(&self, x: &Tensor, layout: &Layout) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let layout = layout.clone();
            self.layer
                .run(x.clone(), move |layer, _, x| layer.run(x, &layout))
        })
    }
}

impl Module for BertEncoder {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.run(x, &Layout::whole(x)?)
    }
}

/// The pooler of BERT and RoBERTa: a linear layer with a tanh on each text's first token.
#[derive(Module)]
pub struct BertPooler {
    /// The linear layer.
    pub dense: Linear,
    hooks: Hooks,
}

impl BertPooler {
    pub(crate) fn new(width: usize, std: f64) -> Result<BertPooler> {
        Ok(BertPooler {
            dense: init::linear(width, width, true, std)?,
            hooks: Hooks::new(),
        })
    }
}

impl Module for BertPooler {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks
            .run(self, x, |x| self.dense.forward(&x.select(1, 0)?)?.tanh())
    }
}
