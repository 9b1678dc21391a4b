//! DistilBERT (Sanh et al., "DistilBERT, a distilled version of BERT", 2019).

use serde_json::{Map, Value};
use torsh_core::alloc;
use torsh_nn::construct;
use torsh_nn::{Dropout, Embedding, Hooks, LayerNorm, Linear, Module, Training};
use torsh_tensor::{Result, Tensor, no_grad};

use super::pretrained;
use crate::blocks::encoder::{
    EncoderOutput, Layout, TokenInputs, check_heads, decoder, embed, encoder_model, self_attention,
    task_model,
};
use crate::blocks::{Activation, Layers, init};
use crate::config::config;

/// Added to variances.
const EPS: f64 = 1e-12;

config! {
    /// The configuration of DistilBERT, by the names in `config.json`.
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

#[derive(Module)]
struct DistilBertEmbeddings {
    word_embeddings: Embedding,
    position_embeddings: Embedding,
    #[module(rename = "LayerNorm")]
    layer_norm: LayerNorm,
    dropout: Dropout,
}

impl DistilBertEmbeddings {
    fn new(c: &DistilBertConfig) -> Result<DistilBertEmbeddings> {
        let std = c.initializer_range;
        let position_embeddings = init::embedding(c.max_position_embeddings, c.dim, None, std)?;
        if c.sinusoidal_pos_embds && !construct::draws_nothing() {
            alloc::check(
                c.max_position_embeddings.saturating_mul(c.dim),
                size_of::<f64>(),
            )?;
            let mut table = Vec::with_capacity(c.max_position_embeddings * c.dim);
            for position in 0..c.max_position_embeddings {
                for i in 0..c.dim {
                    let exponent = (2 * (i / 2)) as f64 / c.dim as f64;
                    let angle = position as f64 / 10_000f64.powf(exponent);
                    table.push(if i % 2 == 0 { angle.sin() } else { angle.cos() });
                }
            }
            let weight = &position_embeddings.weight;
            let table = Tensor::from_vec(table, [c.max_position_embeddings, c.dim])?;
            let table = table.to_dtype(weight.dtype())?.to_device(weight.device())?;
            no_grad(|| weight.copy_(&table))?;
        }
        Ok(DistilBertEmbeddings {
            word_embeddings: init::embedding(c.vocab_size, c.dim, c.pad_token_id, std)?,
            position_embeddings,
            layer_norm: init::layer_norm(c.dim, EPS)?,
            dropout: Dropout::new(c.dropout)?,
        })
    }

    fn run(&self, inputs: &TokenInputs<'_>, layout: &Layout) -> Result<Tensor> {
        let tables = [&self.word_embeddings, &self.position_embeddings];
        let positions = layout.positions(inputs.input_ids)?;
        let x = embed(tables, None, layout, inputs, &positions)?;
        self.dropout.forward(&self.layer_norm.forward(&x)?)
    }
}

impl Module for DistilBertEmbeddings {
    #[torsh_tensor::names_caller]
    fn forward(&self, input_ids: &Tensor) -> Result<Tensor> {
        let inputs = TokenInputs::new(input_ids);
        self.run(
            &inputs,
            &Layout::new("DistilBertEmbeddings", &inputs, None)?,
        )
    }
}

#[derive(Module)]
struct DistilBertAttention {
    q_lin: Linear,
    k_lin: Linear,
    v_lin: Linear,
    out_lin: Linear,
    #[module(skip)]
    heads: usize,
    #[module(skip)]
    dropout: f64,
    training: Training,
    hooks: Hooks,
}

impl DistilBertAttention {
    fn run(&self, x: &Tensor, layout: &Layout) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let layers = [&self.q_lin, &self.k_lin, &self.v_lin];
            let training = self.training.get();
            let y = self_attention(x, layers, self.heads, layout, self.dropout, training)?;
            self.out_lin.forward(&y)
        })
    }
}

impl Module for DistilBertAttention {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.run(x, &Layout::whole(x)?)
    }
}

#[derive(Module)]
struct DistilBertFeedForward {
    dropout: Dropout,
    lin1: Linear,
    lin2: Linear,
    #[module(skip)]
    activation: Activation,
}

impl Module for DistilBertFeedForward {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = self.activation.apply(&self.lin1.forward(x)?)?;
        self.dropout.forward(&self.lin2.forward(&x)?)
    }
}

/// A layer of [`DistilBertModel`]: attention and a feed-forward layer, each with a shortcut and a norm behind it.
#[derive(Module)]
pub struct DistilBertLayer {
    attention: DistilBertAttention,
    sa_layer_norm: LayerNorm,
    ffn: DistilBertFeedForward,
    output_layer_norm: LayerNorm,
    hooks: Hooks,
}

impl DistilBertLayer {
    fn new(c: &DistilBertConfig) -> Result<DistilBertLayer> {
        let linear = |from, to| init::linear(from, to, true, c.initializer_range);
        Ok(DistilBertLayer {
            attention: DistilBertAttention {
                q_lin: linear(c.dim, c.dim)?,
                k_lin: linear(c.dim, c.dim)?,
                v_lin: linear(c.dim, c.dim)?,
                out_lin: linear(c.dim, c.dim)?,
                heads: c.n_heads,
                dropout: Dropout::new(c.attention_dropout)?.p(),
                training: Training::default(),
                hooks: Hooks::new(),
            },
            sa_layer_norm: init::layer_norm(c.dim, EPS)?,
            ffn: DistilBertFeedForward {
                dropout: Dropout::new(c.dropout)?,
                lin1: linear(c.dim, c.hidden_dim)?,
                lin2: linear(c.hidden_dim, c.dim)?,
                activation: c.activation,
            },
            output_layer_norm: init::layer_norm(c.dim, EPS)?,
            hooks: Hooks::new(),
        })
    }

    fn run(&self, x: &Tensor, layout: &Layout) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let y = self.attention.run(x, layout)?;
            let x = self.sa_layer_norm.forward(&y.add(x)?)?;
            let y = self.ffn.forward(&x)?;
            self.output_layer_norm.forward(&y.add(&x)?)
        })
    }
}

impl Module for DistilBertLayer {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.run(x, &Layout::whole(x)?)
    }
}

/// The layers of [`DistilBertModel`].
#[derive(Module)]
pub struct DistilBertTransformer {
    /// One after the other.
    pub layer: Layers<DistilBertLayer>,
}

impl DistilBertTransformer {
    fn run(&self, x: Tensor, layout: &Layout) -> Result<Tensor> {
        let layout = layout.clone();
        self.layer.run(x, move |layer, _, x| layer.run(x, &layout))
    }
}

impl Module for DistilBertTransformer {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.run(x.clone(), &Layout::whole(x)?)
    }
}

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
#[derive(Module)]
pub struct DistilBertModel {
    embeddings: DistilBertEmbeddings,
    /// The layers.
    pub transformer: DistilBertTransformer,
    #[module(skip)]
    config: DistilBertConfig,
    training: Training,
    hooks: Hooks,
}

impl DistilBertModel {
    /// A model with drawn weights.
    ///
    /// # Errors
    /// Heads that do not divide the width, and a padding token outside of the vocabulary.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(config: DistilBertConfig) -> Result<DistilBertModel> {
        let c = &config;
        check_heads("DistilBertModel", c.dim, c.n_heads)?;
        let layers = (0..c.n_layers).map(|_| DistilBertLayer::new(c));
        Ok(DistilBertModel {
            embeddings: DistilBertEmbeddings::new(c)?,
            transformer: DistilBertTransformer {
                layer: layers.collect::<Result<_>>()?,
            },
            config,
            training: Training::default(),
            hooks: Hooks::new(),
        })
    }

    /// The vectors of tokens; parts of pairs are not read.
    ///
    /// # Errors
    /// Ids outside of the vocabulary, more tokens than positions, shapes that differ.
    #[torsh_tensor::names_caller]
    pub fn forward_with(&self, inputs: TokenInputs<'_>) -> Result<EncoderOutput> {
        let most = self.config.max_position_embeddings;
        let layout = Layout::new("DistilBertModel", &inputs, Some(most))?;
        let x = self
            .transformer
            .run(self.embeddings.run(&inputs, &layout)?, &layout)?;
        Ok(EncoderOutput::of(layout.unpack(x)?))
    }
}

encoder_model!(DistilBertModel);

task_model! {
    /// DistilBERT as masked language model: logits `[batch, length, vocabulary]` of each position's token.
    DistilBertForMaskedLM(distilbert: DistilBertModel, DistilBertConfig) = |c| DistilBertModel::new(c.clone())?;
    |base| {
        /// A linear layer, ahead of the activation.
        vocab_transform: Linear = init::linear(c.dim, c.dim, true, c.initializer_range)?;
        /// The norm behind it.
        vocab_layer_norm: LayerNorm = init::layer_norm(c.dim, EPS)?;
        /// The layer that gives the logits.
        vocab_projector: Linear = {
            let words = &base.embeddings.word_embeddings;
            decoder(words, None, c.tie_word_embeddings, c.initializer_range)?
        };
    }
    logits |m, output, _inputs| {
        let x = m.vocab_transform.forward(&output.last_hidden_state)?;
        let x = m.vocab_layer_norm.forward(&m.config.activation.apply(&x)?)?;
        m.vocab_projector.forward(&x)
    }
}

task_model! {
    /// DistilBERT with a classifier of texts on the first token: logits `[batch, num_labels]`.
    DistilBertForSequenceClassification(distilbert: DistilBertModel, DistilBertConfig) =
        |c| DistilBertModel::new(c.clone())?;
    |_base| {
        /// A linear layer, ahead of a ReLU.
        pre_classifier: Linear = init::linear(c.dim, c.dim, true, c.initializer_range)?;
        /// The classifier.
        classifier: Linear = init::linear(c.dim, c.num_labels, true, c.initializer_range)?;
        /// Ahead of the classifier.
        dropout: Dropout = Dropout::new(c.seq_classif_dropout)?;
    }
    logits |m, output, _inputs| {
        let x = Activation::Relu.apply(&m.pre_classifier.forward(&output.first()?)?)?;
        m.classifier.forward(&m.dropout.forward(&x)?)
    }
}

task_model! {
    /// DistilBERT with a classifier of tokens: logits `[batch, length, num_labels]`.
    DistilBertForTokenClassification(distilbert: DistilBertModel, DistilBertConfig) =
        |c| DistilBertModel::new(c.clone())?;
    |_base| {
        /// Ahead of the classifier.
        dropout: Dropout = Dropout::new(c.dropout)?;
        /// The classifier.
        classifier: Linear = init::linear(c.dim, c.num_labels, true, c.initializer_range)?;
    }
    logits |m, output, _inputs| m.classifier.forward(&m.dropout.forward(&output.last_hidden_state)?)
}

task_model! {
    /// DistilBERT that finds answers in texts: logits of the first and the last token of the answer.
    DistilBertForQuestionAnswering(distilbert: DistilBertModel, DistilBertConfig) =
        |c| DistilBertModel::new(c.clone())?;
    |_base| {
        /// Two numbers for each token.
        qa_outputs: Linear = init::linear(c.dim, c.num_labels, true, c.initializer_range)?;
        /// Ahead of it.
        dropout: Dropout = Dropout::new(c.qa_dropout)?;
    }
    spans |m, output, _inputs| m.qa_outputs.forward(&m.dropout.forward(&output.last_hidden_state)?)
}

pretrained! {
    base "distilbert", ignores ["embeddings.position_ids"];
    DistilBertModel(DistilBertConfig), DistilBertForMaskedLM(DistilBertConfig),
    DistilBertForSequenceClassification(DistilBertConfig), DistilBertForTokenClassification(DistilBertConfig),
    DistilBertForQuestionAnswering(DistilBertConfig)
}
