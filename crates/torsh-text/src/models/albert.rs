//! ALBERT (Lan et al., "ALBERT: A Lite BERT for Self-supervised Learning of Language Representations", 2019).

use serde_json::{Map, Value};
use torsh_nn::{Dropout, Embedding, Hooks, LayerNorm, Linear, Module, Parameter, Training};
use torsh_tensor::{Result, Tensor, TorshError};

use super::pretrained;
use crate::blocks::encoder::{
    BertEmbeddings, EncoderOutput, Layout, TokenInputs, bias, check_heads, decoder, encoder_model,
    self_attention, sizes, task_model,
};
use crate::blocks::{Activation, KvCache, LayerRun, Layers, init};
use crate::config::config;

config! {
    /// The configuration of ALBERT, by the names in `config.json`.
    AlbertConfig: "albert" {
        vocab_size = 30000; embedding_size = 128; hidden_size = 4096;
        /// Layers, of which those of a group have the same weights.
        num_hidden_layers = 12;
        /// Groups of layers.
        num_hidden_groups: usize = 1;
        num_attention_heads = 64; intermediate_size = 16384;
        /// Blocks of attention and feed-forward layer in a layer.
        inner_group_num: usize = 1;
        /// The activation of feed-forward layers and of the masked language model's head.
        hidden_act = Activation::GeluTanh;
        /// Dropout of embeddings and behind attention.
        hidden_dropout_prob = 0.0;
        attention_probs_dropout_prob = 0.0; max_position_embeddings = 512; type_vocab_size = 2;
        initializer_range = 0.02; layer_norm_eps = 1e-12;
        /// Dropout ahead of a classifier.
        classifier_dropout_prob: f64 = 0.1;
        /// Fills up a batch; its embedding is not trained.
        pad_token_id = Some(0);
        tie_word_embeddings = true; num_labels = 2;
    }
    ignores [
        "bos_token_id", "down_scale_factor", "eos_token_id", "gap_size", "layers_to_keep", "net_structure_type",
        "num_memory_blocks",
    ]
    requires { "position_embedding_type": "absolute", "pruned_heads": Map::<String, Value>::new() }
}

#[derive(Module)]
struct AlbertAttention {
    query: Linear,
    key: Linear,
    value: Linear,
    dense: Linear,
    #[module(rename = "LayerNorm")]
    layer_norm: LayerNorm,
    output_dropout: Dropout,
    #[module(skip)]
    heads: usize,
    #[module(skip)]
    dropout: f64,
    training: Training,
    hooks: Hooks,
}

impl AlbertAttention {
    fn run(&self, x: &Tensor, layout: &Layout) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let layers = [&self.query, &self.key, &self.value];
            let training = self.training.get();
            let y = self_attention(x, layers, self.heads, layout, self.dropout, training)?;
            let y = self.output_dropout.forward(&self.dense.forward(&y)?)?;
            self.layer_norm.forward(&x.add(&y)?)
        })
    }
}

impl Module for AlbertAttention {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.run(x, &Layout::whole(x)?)
    }
}

/// A block of [`AlbertModel`]: attention and a feed-forward layer, each with a shortcut and a norm behind it.
#[derive(Module)]
pub struct AlbertLayer {
    full_layer_layer_norm: LayerNorm,
    attention: AlbertAttention,
    ffn: Linear,
    ffn_output: Linear,
    #[module(skip)]
    activation: Activation,
    hooks: Hooks,
}

impl AlbertLayer {
    fn new(c: &AlbertConfig) -> Result<AlbertLayer> {
        let (width, inner) = (c.hidden_size, c.intermediate_size);
        let linear = |from, to| init::linear(from, to, true, c.initializer_range);
        Ok(AlbertLayer {
            full_layer_layer_norm: init::layer_norm(width, c.layer_norm_eps)?,
            attention: AlbertAttention {
                query: linear(width, width)?,
                key: linear(width, width)?,
                value: linear(width, width)?,
                dense: linear(width, width)?,
                layer_norm: init::layer_norm(width, c.layer_norm_eps)?,
                output_dropout: Dropout::new(c.hidden_dropout_prob)?,
                heads: c.num_attention_heads,
                dropout: Dropout::new(c.attention_probs_dropout_prob)?.p(),
                training: Training::default(),
                hooks: Hooks::new(),
            },
            ffn: linear(width, inner)?,
            ffn_output: linear(inner, width)?,
            activation: c.hidden_act,
            hooks: Hooks::new(),
        })
    }

    fn run(&self, x: &Tensor, layout: &Layout) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let x = self.attention.run(x, layout)?;
            let y = self.activation.apply(&self.ffn.forward(&x)?)?;
            let y = self.ffn_output.forward(&y)?;
            self.full_layer_layer_norm.forward(&y.add(&x)?)
        })
    }
}

impl Module for AlbertLayer {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.run(x, &Layout::whole(x)?)
    }
}

/// The blocks of one group of layers.
#[derive(Module)]
pub struct AlbertLayerGroup {
    /// One after the other.
    pub albert_layers: Vec<AlbertLayer>,
}

impl AlbertLayerGroup {
    fn run(&self, mut x: Tensor, layout: &Layout) -> Result<Tensor> {
        for layer in &self.albert_layers {
            x = layer.run(&x, layout)?;
        }
        Ok(x)
    }
}

impl Module for AlbertLayerGroup {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.run(x.clone(), &Layout::whole(x)?)
    }
}

/// The layers of [`AlbertModel`].
#[derive(Module)]
pub struct AlbertTransformer {
    /// From the width of the embeddings to the model's.
    pub embedding_hidden_mapping_in: Linear,
    /// The groups of layers.
    pub albert_layer_groups: Layers<AlbertLayerGroup>,
    #[module(skip)]
    layers: usize,
}

impl AlbertTransformer {
    fn new(c: &AlbertConfig) -> Result<AlbertTransformer> {
        let group = |_| {
            let layers = (0..c.inner_group_num).map(|_| AlbertLayer::new(c));
            Ok(AlbertLayerGroup {
                albert_layers: layers.collect::<Result<_>>()?,
            })
        };
        let (from, to) = (c.embedding_size, c.hidden_size);
        Ok(AlbertTransformer {
            embedding_hidden_mapping_in: init::linear(from, to, true, c.initializer_range)?,
            albert_layer_groups: (0..c.num_hidden_groups).map(group).collect::<Result<_>>()?,
            layers: c.num_hidden_layers,
        })
    }

    fn run(&self, x: &Tensor, layout: &Layout) -> Result<Tensor> {
        let x = self.embedding_hidden_mapping_in.forward(x)?;
        // As a float, as the reference computes it.
        let per_group = self.layers as f64 / self.albert_layer_groups.len() as f64;
        let groups = (0..self.layers).map(|layer| (layer as f64 / per_group) as usize);
        let (layout, run) = (layout.clone(), LayerRun::default());
        let of = move |group: &AlbertLayerGroup, _, x: &Tensor, _: Option<&mut KvCache>| {
            group.run(x.clone(), &layout)
        };
        self.albert_layer_groups.run_in_order(groups, x, run, of)
    }
}

impl Module for AlbertTransformer {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.run(x, &Layout::whole(x)?)
    }
}

/// ALBERT without head: BERT whose layers share their weights, with narrow embeddings.
///
/// ```
/// use torsh_nn::{Module, ModuleExt};
/// use torsh_tensor::tensor;
/// use torsh_text::models::{AlbertConfig, AlbertModel};
/// let config = AlbertConfig {
///     embedding_size: 4, hidden_size: 8, num_hidden_layers: 3, num_attention_heads: 2, intermediate_size: 16,
///     vocab_size: 20,
///     ..Default::default()
/// };
/// let model = AlbertModel::new(config.clone())?;
/// assert_eq!(model.forward(&tensor![[2, 5, 6, 3]])?.dims(), [1, 4, 8]);
/// let deeper = AlbertModel::new(AlbertConfig { num_hidden_layers: 9, ..config })?;
/// assert_eq!(deeper.num_parameters(), model.num_parameters());
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct AlbertModel {
    /// The embeddings.
    pub embeddings: BertEmbeddings,
    /// The layers.
    pub encoder: AlbertTransformer,
    /// What makes a vector of a text, ahead of a tanh.
    pub pooler: Option<Linear>,
    #[module(skip)]
    config: AlbertConfig,
    training: Training,
    hooks: Hooks,
}

impl AlbertModel {
    /// A model with drawn weights.
    ///
    /// # Errors
    /// Heads that do not divide the width, no or too many groups of layers, a padding token outside of the vocabulary.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(config: AlbertConfig) -> Result<AlbertModel> {
        let mut model = AlbertModel::without_pooler(config)?;
        let (width, std) = (model.config.hidden_size, model.config.initializer_range);
        model.pooler = Some(init::linear(width, width, true, std)?);
        Ok(model)
    }

    /// A model with drawn weights that gives no `pooler_output`, as it is under most heads.
    ///
    /// # Errors
    /// As [`AlbertModel::new`].
    #[torsh_tensor::names_caller(Self)]
    pub fn without_pooler(config: AlbertConfig) -> Result<AlbertModel> {
        let c = &config;
        check_heads("AlbertModel", c.hidden_size, c.num_attention_heads)?;
        if c.num_hidden_groups == 0 && c.num_hidden_layers > 0 {
            let why = format!("num_hidden_groups = 0 for {} layers", c.num_hidden_layers);
            return Err(TorshError::invalid("AlbertModel", why));
        }
        Ok(AlbertModel {
            embeddings: BertEmbeddings::new(&sizes!(embedding c, c.embedding_size))?,
            encoder: AlbertTransformer::new(c)?,
            pooler: None,
            config,
            training: Training::default(),
            hooks: Hooks::new(),
        })
    }

    /// The vectors of tokens, and of texts where there is a pooler.
    ///
    /// # Errors
    /// Ids outside of the vocabulary, more tokens than positions, shapes that differ.
    #[torsh_tensor::names_caller]
    pub fn forward_with(&self, inputs: TokenInputs<'_>) -> Result<EncoderOutput> {
        let most = self.config.max_position_embeddings;
        let layout = Layout::new("AlbertModel", &inputs, Some(most))?;
        let x = self.embeddings.run(&inputs, &layout)?;
        let mut output = EncoderOutput::of(layout.unpack(self.encoder.run(&x, &layout)?)?);
        if let Some(pooler) = &self.pooler {
            output.pooler_output = Some(pooler.forward(&output.first()?)?.tanh()?);
        }
        Ok(output)
    }
}

encoder_model!(AlbertModel);

/// The head of the masked language model: logits of each token of the vocabulary.
#[derive(Module)]
pub struct AlbertMLMHead {
    bias: Parameter,
    #[module(rename = "LayerNorm")]
    layer_norm: LayerNorm,
    dense: Linear,
    decoder: Linear,
    #[module(skip)]
    activation: Activation,
    hooks: Hooks,
}

impl AlbertMLMHead {
    fn new(words: &Embedding, c: &AlbertConfig) -> Result<AlbertMLMHead> {
        let std = c.initializer_range;
        let bias = bias(c.vocab_size)?;
        Ok(AlbertMLMHead {
            layer_norm: init::layer_norm(c.embedding_size, c.layer_norm_eps)?,
            dense: init::linear(c.hidden_size, c.embedding_size, true, std)?,
            decoder: decoder(words, Some(&bias), c.tie_word_embeddings, std)?,
            bias,
            activation: c.hidden_act,
            hooks: Hooks::new(),
        })
    }
}

impl Module for AlbertMLMHead {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let x = self.activation.apply(&self.dense.forward(x)?)?;
            self.decoder.forward(&self.layer_norm.forward(&x)?)
        })
    }
}

task_model! {
    /// ALBERT as masked language model: logits `[batch, length, vocabulary]` of each position's token.
    AlbertForMaskedLM(albert: AlbertModel, AlbertConfig) = |c| AlbertModel::without_pooler(c.clone())?;
    |base| {
        /// The head.
        predictions: AlbertMLMHead = AlbertMLMHead::new(&base.embeddings.word_embeddings, c)?;
    }
    logits |m, output, _inputs| m.predictions.forward(&output.last_hidden_state)
}

task_model! {
    /// ALBERT with a classifier of texts on its pooler: logits `[batch, num_labels]`.
    AlbertForSequenceClassification(albert: AlbertModel, AlbertConfig) = |c| AlbertModel::new(c.clone())?;
    |_base| {
        /// Ahead of the classifier.
        dropout: Dropout = Dropout::new(c.classifier_dropout_prob)?;
        /// The classifier.
        classifier: Linear = init::linear(c.hidden_size, c.num_labels, true, c.initializer_range)?;
    }
    logits |m, output, _inputs| m.classifier.forward(&m.dropout.forward(output.pooled()?)?)
}

task_model! {
    /// ALBERT with a classifier of tokens: logits `[batch, length, num_labels]`.
    AlbertForTokenClassification(albert: AlbertModel, AlbertConfig) =
        |c| AlbertModel::without_pooler(c.clone())?;
    |_base| {
        /// Ahead of the classifier.
        dropout: Dropout = Dropout::new(c.classifier_dropout_prob)?;
        /// The classifier.
        classifier: Linear = init::linear(c.hidden_size, c.num_labels, true, c.initializer_range)?;
    }
    logits |m, output, _inputs| m.classifier.forward(&m.dropout.forward(&output.last_hidden_state)?)
}

task_model! {
    /// ALBERT that finds answers in texts: logits of the first and the last token of the answer.
    AlbertForQuestionAnswering(albert: AlbertModel, AlbertConfig) = |c| AlbertModel::without_pooler(c.clone())?;
    |_base| {
        /// Two numbers for each token.
        qa_outputs: Linear = init::linear(c.hidden_size, c.num_labels, true, c.initializer_range)?;
    }
    spans |m, output, _inputs| m.qa_outputs.forward(&output.last_hidden_state)
}

pretrained! {
    base "albert", ignores [
        "embeddings.position_ids", "pooler.weight", "pooler.bias", "sop_classifier.classifier.weight",
        "sop_classifier.classifier.bias",
    ];
    AlbertModel(AlbertConfig), AlbertForMaskedLM(AlbertConfig), AlbertForSequenceClassification(AlbertConfig),
    AlbertForTokenClassification(AlbertConfig), AlbertForQuestionAnswering(AlbertConfig)
}
