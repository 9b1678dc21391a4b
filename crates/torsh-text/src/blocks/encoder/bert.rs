//! The embeddings and layers of BERT, which RoBERTa and ELECTRA have as well.

use torsh_nn::{Dropout, Embedding, Hooks, LayerNorm, Linear, Module, Training};
use torsh_tensor::{Result, Tensor};

use super::{Layout, Spec, TokenInputs, self_attention};
use crate::blocks::{Activation, Layers, part, tokens};

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

part! {
    /// The embeddings of BERT, ALBERT and ELECTRA: of tokens, positions, and parts of a pair.
    pub BertEmbeddings(s: &Spec) {
        /// Of tokens.
        pub word_embeddings: Embedding = s.table(s.vocabulary, s.padding)?;
        /// Of positions.
        pub position_embeddings: Embedding = s.table(s.positions, None)?;
        /// Of parts of a pair.
        pub token_type_embeddings: Embedding = s.table(s.types, None)?;
        /// The norm of their sum.
        #[module(rename = "LayerNorm")]
        pub layer_norm: LayerNorm = s.norm(s.embedding)?;
        dropout: Dropout = Dropout::new(s.dropout)?;
        hooks: Hooks = Hooks::new();
    }
}

impl BertEmbeddings {
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

part! {
    BertSelfAttention(s: &Spec) {
        query: Linear = s.linear(s.width, s.width)?;
        key: Linear = s.linear(s.width, s.width)?;
        value: Linear = s.linear(s.width, s.width)?;
        #[module(skip)]
        heads: usize = s.heads;
        #[module(skip)]
        dropout: f64 = Dropout::new(s.attention_dropout)?.p();
        training: Training = Training::default();
        hooks: Hooks = Hooks::new();
    }
    hooked_rows |m, x, layout| {
        let layers = [&m.query, &m.key, &m.value];
        self_attention(x, layers, m.heads, layout, m.dropout, m.training.get())
    }
}

part! {
    /// A linear layer, dropout, and the norm of its sum with what went in.
    BertOutput(inputs: usize, s: &Spec) {
        dense: Linear = s.linear(inputs, s.width)?;
        #[module(rename = "LayerNorm")]
        layer_norm: LayerNorm = s.norm(s.width)?;
        dropout: Dropout = Dropout::new(s.dropout)?;
    }
    forward |m, x| m.run(x, x)
}

impl BertOutput {
    fn run(&self, x: &Tensor, residual: &Tensor) -> Result<Tensor> {
        let y = self.dropout.forward(&self.dense.forward(x)?)?;
        self.layer_norm.forward(&y.add(residual)?)
    }
}

part! {
    BertAttention(s: &Spec) {
        #[module(rename = "self")]
        self_attention: BertSelfAttention = BertSelfAttention::new(s)?;
        output: BertOutput = BertOutput::new(s.width, s)?;
    }
    forward |m, x| m.output.run(&m.self_attention.forward(x)?, x)
}

part! {
    BertIntermediate(s: &Spec) {
        dense: Linear = s.linear(s.width, s.inner)?;
        #[module(skip)]
        activation: Activation = s.activation;
    }
    forward |m, x| m.activation.apply(&m.dense.forward(x)?)
}

part! {
    /// A layer of BERT, RoBERTa and ELECTRA: attention and a feed-forward layer, each with a shortcut and a norm behind it.
    pub BertLayer(s: &Spec) {
        attention: BertAttention = BertAttention::new(s)?;
        intermediate: BertIntermediate = BertIntermediate::new(s)?;
        output: BertOutput = BertOutput::new(s.inner, s)?;
        hooks: Hooks = Hooks::new();
    }
    hooked_rows |m, x, layout| {
        let y = m.attention.self_attention.run(x, layout)?;
        let x = m.attention.output.run(&y, x)?;
        m.output.run(&m.intermediate.forward(&x)?, &x)
    }
}

part! {
    /// The layers of BERT, RoBERTa and ELECTRA.
    pub BertEncoder(s: &Spec) {
        /// One after the other.
        pub layer: Layers<BertLayer> = (0..s.layers).map(|_| BertLayer::new(s)).collect::<Result<_>>()?;
        hooks: Hooks = Hooks::new();
    }
    hooked_rows |m, x, layout| {
        let layout = layout.clone();
        m.layer.run(x.clone(), move |layer, _, x| layer.run(x, &layout))
    }
}

part! {
    /// The pooler of BERT and RoBERTa: a linear layer with a tanh on each text's first token.
    pub BertPooler(s: &Spec) {
        /// The linear layer.
        pub dense: Linear = s.linear(s.width, s.width)?;
        hooks: Hooks = Hooks::new();
    }
    hooked |m, x| m.dense.forward(&x.select(1, 0)?)?.tanh()
}
