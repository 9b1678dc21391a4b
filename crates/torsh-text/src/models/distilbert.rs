//! DistilBERT (Sanh et al., "DistilBERT, a distilled version of BERT", 2019).

use serde_json::{Map, Value};
use torsh_core::alloc;
use torsh_nn::construct;
use torsh_nn::{Dropout, Embedding, Hooks, LayerNorm, Linear, Module, Training};
use torsh_tensor::{Result, Tensor, no_grad};

use crate::blocks::encoder::{
    Layout, Spec, TokenInputs, embed, encoder_model, self_attention, task_models,
};
use crate::blocks::{Activation, Layers, part};
use crate::config::config;

config! {
    /// The configuration of DistilBERT, by the names in `config.json`.
    /// The default is `distilbert-base-uncased`.
    ///
    /// ```
    /// use torsh_nn::{ModuleExt, construct::Construction};
    /// use torsh_tensor::Device;
    /// use torsh_text::models::{DistilBertConfig, DistilBertModel};
    /// let model = Construction::new().device(Device::Meta).run(|| DistilBertModel::new(DistilBertConfig::default()))?;
    /// assert_eq!(model.num_parameters(), 66_362_880);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    DistilBertConfig: "distilbert" {
        vocab_size = 30522; max_position_embeddings = 512;
        /// Whether the embeddings of positions begin as sines and cosines.
        sinusoidal_pos_embds: bool = false;
        /// Layers.
        n_layers: usize = 6;
        /// Heads of attention, which divide the width.
        n_heads: usize = 12;
        /// The width of the model.
        dim: usize = 768;
        /// The width inside feed-forward layers.
        hidden_dim: usize = 3072;
        /// Dropout of embeddings and behind feed-forward layers.
        dropout = 0.1;
        attention_dropout = 0.1;
        /// The activation of feed-forward layers and of the masked language model's head.
        activation: Activation = Activation::Gelu;
        initializer_range = 0.02;
        /// Dropout ahead of the layer that finds answers.
        qa_dropout: f64 = 0.1;
        /// Dropout ahead of a classifier of texts.
        seq_classif_dropout: f64 = 0.2;
        /// Fills up a batch; its embedding is not trained.
        pad_token_id = Some(0);
        tie_word_embeddings = true; num_labels = 2;
    }
    ignores ["bos_token_id", "eos_token_id", "tie_weights_"]
    requires { "pruned_heads": Map::<String, Value>::new() }
    normalize = by_own_names
}

/// DistilBERT's configuration has names of its own for what others name alike.
fn by_own_names(mut config: Value) -> Result<Value> {
    if let Value::Object(fields) = &mut config {
        for (general, own) in [
            ("hidden_size", "dim"),
            ("num_attention_heads", "n_heads"),
            ("num_hidden_layers", "n_layers"),
        ] {
            if let Some(value) = fields.remove(general) {
                fields.entry(own).or_insert(value);
            }
        }
    }
    Ok(config)
}

fn spec(c: &DistilBertConfig) -> Result<Spec> {
    Spec {
        model: "DistilBertModel",
        vocabulary: c.vocab_size,
        embedding: c.dim,
        width: c.dim,
        inner: c.hidden_dim,
        layers: c.n_layers,
        groups: [1; 2],
        heads: c.n_heads,
        positions: c.max_position_embeddings,
        types: 0,
        padding: c.pad_token_id,
        activation: c.activation,
        dropout: c.dropout,
        attention_dropout: c.attention_dropout,
        head_dropout: c.dropout,
        eps: 1e-12,
        std: c.initializer_range,
        labels: c.num_labels,
        tied: c.tie_word_embeddings,
    }
    .checked()
}

/// Makes the embeddings of positions sines and cosines.
fn fill_sinusoidal(positions: &Embedding, [rows, width]: [usize; 2]) -> Result<()> {
    alloc::check(rows.saturating_mul(width), size_of::<f64>())?;
    let mut table = Vec::with_capacity(rows * width);
    for position in 0..rows {
        for i in 0..width {
            let exponent = (2 * (i / 2)) as f64 / width as f64;
            let angle = position as f64 / 10_000f64.powf(exponent);
            table.push(if i % 2 == 0 { angle.sin() } else { angle.cos() });
        }
    }
    let weight = &positions.weight;
    let table = Tensor::from_vec(table, [rows, width])?;
    let table = table.to_dtype(weight.dtype())?.to_device(weight.device())?;
    no_grad(|| weight.copy_(&table))?;
    Ok(())
}

part! {
    DistilBertEmbeddings(s: &Spec, sinusoidal: bool) first {
        let positions = s.table(s.positions, None)?;
        if sinusoidal && !construct::draws_nothing() {
            fill_sinusoidal(&positions, [s.positions, s.width])?;
        }
    } {
        word_embeddings: Embedding = s.table(s.vocabulary, s.padding)?;
        position_embeddings: Embedding = positions;
        #[module(rename = "LayerNorm")]
        layer_norm: LayerNorm = s.norm(s.width)?;
        dropout: Dropout = Dropout::new(s.dropout)?;
    }
    forward |m, input_ids| {
        let inputs = TokenInputs::new(input_ids);
        m.run(&inputs, &Layout::new("DistilBertEmbeddings", &inputs, None)?)
    }
}

impl DistilBertEmbeddings {
    fn run(&self, inputs: &TokenInputs<'_>, layout: &Layout) -> Result<Tensor> {
        let tables = [&self.word_embeddings, &self.position_embeddings];
        let positions = layout.positions(inputs.input_ids)?;
        let x = embed(tables, None, layout, inputs, &positions)?;
        self.dropout.forward(&self.layer_norm.forward(&x)?)
    }
}

part! {
    DistilBertAttention(s: &Spec) {
        q_lin: Linear = s.linear(s.width, s.width)?;
        k_lin: Linear = s.linear(s.width, s.width)?;
        v_lin: Linear = s.linear(s.width, s.width)?;
        out_lin: Linear = s.linear(s.width, s.width)?;
        #[module(skip)]
        heads: usize = s.heads;
        #[module(skip)]
        dropout: f64 = Dropout::new(s.attention_dropout)?.p();
        training: Training = Training::default();
        hooks: Hooks = Hooks::new();
    }
    hooked_rows |m, x, layout| {
        let layers = [&m.q_lin, &m.k_lin, &m.v_lin];
        let y = self_attention(x, layers, m.heads, layout, m.dropout, m.training.get())?;
        m.out_lin.forward(&y)
    }
}

part! {
    DistilBertFeedForward(s: &Spec) {
        dropout: Dropout = Dropout::new(s.dropout)?;
        lin1: Linear = s.linear(s.width, s.inner)?;
        lin2: Linear = s.linear(s.inner, s.width)?;
        #[module(skip)]
        activation: Activation = s.activation;
    }
    forward |m, x| {
        let x = m.activation.apply(&m.lin1.forward(x)?)?;
        m.dropout.forward(&m.lin2.forward(&x)?)
    }
}

part! {
    /// A layer of [`DistilBertModel`]: attention and a feed-forward layer, each with a shortcut and a norm behind it.
    pub DistilBertLayer(s: &Spec) {
        attention: DistilBertAttention = DistilBertAttention::new(s)?;
        sa_layer_norm: LayerNorm = s.norm(s.width)?;
        ffn: DistilBertFeedForward = DistilBertFeedForward::new(s)?;
        output_layer_norm: LayerNorm = s.norm(s.width)?;
        hooks: Hooks = Hooks::new();
    }
    hooked_rows |m, x, layout| {
        let y = m.attention.run(x, layout)?;
        let x = m.sa_layer_norm.forward(&y.add(x)?)?;
        m.output_layer_norm.forward(&m.ffn.forward(&x)?.add(&x)?)
    }
}

part! {
    /// The layers of [`DistilBertModel`].
    pub DistilBertTransformer(s: &Spec) {
        /// One after the other.
        pub layer: Layers<DistilBertLayer> =
            (0..s.layers).map(|_| DistilBertLayer::new(s)).collect::<Result<_>>()?;
    }
    rows |m, x, layout| {
        let layout = layout.clone();
        m.layer.run(x.clone(), move |layer, _, x| layer.run(x, &layout))
    }
}

encoder_model! {
    /// DistilBERT without head: a smaller BERT without pooler and without parts of pairs.
    ///
    /// ```
    /// use torsh_nn::{Module, ModuleExt};
    /// use torsh_tensor::tensor;
    /// use torsh_text::models::{DistilBertConfig, DistilBertModel};
    /// let config = DistilBertConfig { dim: 8, n_layers: 1, n_heads: 2, hidden_dim: 16, vocab_size: 20, ..Default::default() };
    /// let model = DistilBertModel::new(config)?;
    /// model.eval();
    /// let both = model.forward(&tensor![[2, 5, 6, 3], [2, 7, 8, 3]])?;
    /// assert_eq!(both.dims(), [2, 4, 8]);
    /// assert!(model.forward(&tensor![[2, 7, 8, 3]])?.allclose(&both.narrow(0, 1, 1)?)?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    DistilBertModel(DistilBertConfig), spec spec,
    errors "Heads that do not divide the width, and a padding token outside of the vocabulary."
    |s of c| {
        embeddings: DistilBertEmbeddings = DistilBertEmbeddings::new(s, c.sinusoidal_pos_embds)?;
        /// The layers.
        pub transformer: DistilBertTransformer = DistilBertTransformer::new(s)?;
    }
    positions |m| Some(m.config.max_position_embeddings);
    /// The vectors of tokens; parts of pairs are not read.
    run |m, inputs, layout| m.transformer.run(&m.embeddings.run(inputs, layout)?, layout)
}

task_models! {
    distilbert: DistilBertModel(DistilBertConfig), spec spec, ignores ["embeddings.position_ids"];
    /// DistilBERT as masked language model: logits `[batch, length, vocabulary]` of each position's token.
    DistilBertForMaskedLM: own(
        |s| {
            /// A linear layer, ahead of the activation.
            vocab_transform: Linear = s.linear(s.width, s.width)?;
            /// The norm behind it.
            vocab_layer_norm: LayerNorm = s.norm(s.width)?;
            /// The layer that gives the logits.
            vocab_projector: Linear = s.decoder(&distilbert.embeddings.word_embeddings, None)?;
        }
        logits |m, output, _inputs| {
            let x = m.vocab_transform.forward(&output.last_hidden_state)?;
            let x = m.vocab_layer_norm.forward(&m.config.activation.apply(&x)?)?;
            m.vocab_projector.forward(&x)
        }
    );
    /// DistilBERT with a classifier of texts on the first token: logits `[batch, num_labels]`.
    DistilBertForSequenceClassification: own(
        |s of c| {
            /// A linear layer, ahead of a ReLU.
            pre_classifier: Linear = s.linear(s.width, s.width)?;
            /// The classifier.
            classifier: Linear = s.classifier()?;
            /// Ahead of the classifier.
            dropout: Dropout = Dropout::new(c.seq_classif_dropout)?;
        }
        logits |m, output, _inputs| {
            let x = Activation::Relu.apply(&m.pre_classifier.forward(&output.first()?)?)?;
            m.classifier.forward(&m.dropout.forward(&x)?)
        }
    );
    /// DistilBERT with a classifier of tokens: logits `[batch, length, num_labels]`.
    DistilBertForTokenClassification: tokens();
    /// DistilBERT that finds answers in texts: logits of the first and the last token of the answer.
    DistilBertForQuestionAnswering: own(
        |s of c| {
            /// Two numbers for each token.
            qa_outputs: Linear = s.classifier()?;
            /// Ahead of it.
            dropout: Dropout = Dropout::new(c.qa_dropout)?;
        }
        spans |m, output, _inputs| m.qa_outputs.forward(&m.dropout.forward(&output.last_hidden_state)?)
    );
}
