//! ALBERT (Lan et al., "ALBERT: A Lite BERT for Self-supervised Learning of Language Representations", 2019).

use serde_json::{Map, Value};
use torsh_nn::{Dropout, Embedding, Hooks, LayerNorm, Linear, Module, Parameter, Training};
use torsh_tensor::{Result, Tensor, TorshError};

use crate::blocks::encoder::{
    BertEmbeddings, Spec, bias, encoder_model, self_attention, spec, task_models,
};
use crate::blocks::{Activation, KvCache, LayerRun, Layers, part};
use crate::config::config;

config! {
    /// The configuration of ALBERT, by the names in `config.json`.
    /// The default is ALBERT xxlarge, all of whose layers have the same weights.
    ///
    /// ```
    /// use torsh_nn::{ModuleExt, construct::Construction};
    /// use torsh_tensor::Device;
    /// use torsh_text::models::{AlbertConfig, AlbertModel};
    /// let model = Construction::new().device(Device::Meta).run(|| AlbertModel::new(AlbertConfig::default()))?;
    /// assert_eq!(model.num_parameters(), 222_595_584);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
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

fn spec(c: &AlbertConfig) -> Result<Spec> {
    let head_dropout = c.classifier_dropout_prob;
    let spec = spec!(
        "AlbertModel",
        c {
            embedding: c.embedding_size,
            head_dropout: head_dropout
        }
    )?;
    if c.num_hidden_groups == 0 && c.num_hidden_layers > 0 {
        let why = format!("num_hidden_groups = 0 for {} layers", c.num_hidden_layers);
        return Err(TorshError::invalid("AlbertModel", why));
    }
    Ok(Spec {
        groups: [c.num_hidden_groups, c.inner_group_num],
        ..spec
    })
}

part! {
    AlbertAttention(s: &Spec) {
        query: Linear = s.linear(s.width, s.width)?;
        key: Linear = s.linear(s.width, s.width)?;
        value: Linear = s.linear(s.width, s.width)?;
        dense: Linear = s.linear(s.width, s.width)?;
        #[module(rename = "LayerNorm")]
        layer_norm: LayerNorm = s.norm(s.width)?;
        output_dropout: Dropout = Dropout::new(s.dropout)?;
        #[module(skip)]
        heads: usize = s.heads;
        #[module(skip)]
        dropout: f64 = Dropout::new(s.attention_dropout)?.p();
        training: Training = Training::default();
        hooks: Hooks = Hooks::new();
    }
    hooked_rows |m, x, layout| {
        let layers = [&m.query, &m.key, &m.value];
        let y = self_attention(x, layers, m.heads, layout, m.dropout, m.training.get())?;
        let y = m.output_dropout.forward(&m.dense.forward(&y)?)?;
        m.layer_norm.forward(&x.add(&y)?)
    }
}

part! {
    /// A block of [`AlbertModel`]: attention and a feed-forward layer, each with a shortcut and a norm behind it.
    pub AlbertLayer(s: &Spec) {
        full_layer_layer_norm: LayerNorm = s.norm(s.width)?;
        attention: AlbertAttention = AlbertAttention::new(s)?;
        ffn: Linear = s.linear(s.width, s.inner)?;
        ffn_output: Linear = s.linear(s.inner, s.width)?;
        #[module(skip)]
        activation: Activation = s.activation;
        hooks: Hooks = Hooks::new();
    }
    hooked_rows |m, x, layout| {
        let x = m.attention.run(x, layout)?;
        let y = m.activation.apply(&m.ffn.forward(&x)?)?;
        m.full_layer_layer_norm.forward(&m.ffn_output.forward(&y)?.add(&x)?)
    }
}

part! {
    /// The blocks of one group of layers.
    pub AlbertLayerGroup(s: &Spec) {
        /// One after the other.
        pub albert_layers: Vec<AlbertLayer> =
            (0..s.groups[1]).map(|_| AlbertLayer::new(s)).collect::<Result<_>>()?;
    }
    rows |m, x, layout| m.albert_layers.iter().try_fold(x.clone(), |x, layer| layer.run(&x, layout))
}

part! {
    /// The layers of [`AlbertModel`].
    pub AlbertTransformer(s: &Spec) {
        /// From the width of the embeddings to the model's.
        pub embedding_hidden_mapping_in: Linear = s.linear(s.embedding, s.width)?;
        /// The groups of layers.
        pub albert_layer_groups: Layers<AlbertLayerGroup> =
            (0..s.groups[0]).map(|_| AlbertLayerGroup::new(s)).collect::<Result<_>>()?;
        #[module(skip)]
        layers: usize = s.layers;
    }
    rows |m, x, layout| {
        let x = m.embedding_hidden_mapping_in.forward(x)?;
        // As a float, as the reference computes it.
        let per_group = m.layers as f64 / m.albert_layer_groups.len() as f64;
        let groups = (0..m.layers).map(|layer| (layer as f64 / per_group) as usize);
        let (layout, run) = (layout.clone(), LayerRun::default());
        let of = move |group: &AlbertLayerGroup, _, x: &Tensor, _: Option<&mut KvCache>| group.run(x, &layout);
        m.albert_layer_groups.run_in_order(groups, x, run, of)
    }
}

encoder_model! {
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
    AlbertModel(AlbertConfig), spec spec,
    errors "Heads that do not divide the width, no or too many groups of layers, a padding token outside of the vocabulary."
    |s, pooled| {
        /// The embeddings.
        pub embeddings: BertEmbeddings = BertEmbeddings::new(s)?;
        /// The layers.
        pub encoder: AlbertTransformer = AlbertTransformer::new(s)?;
        /// What makes a vector of a text, ahead of a tanh.
        pub pooler: Option<Linear> = pooled.then(|| s.linear(s.width, s.width)).transpose()?;
    }
    positions |m| Some(m.config.max_position_embeddings);
    /// The vectors of tokens, and of texts where there is a pooler.
    run |m, inputs, layout| m.encoder.run(&m.embeddings.run(inputs, layout)?, layout),
    pooler |m, output| m.pooler.as_ref().map(|p| p.forward(&output.first()?)?.tanh())
}

part! {
    /// The head of the masked language model: logits of each token of the vocabulary.
    pub AlbertMLMHead(words: &Embedding, s: &Spec) {
        bias: Parameter = bias(s.vocabulary)?;
        #[module(rename = "LayerNorm")]
        layer_norm: LayerNorm = s.norm(s.embedding)?;
        dense: Linear = s.linear(s.width, s.embedding)?;
        decoder: Linear = s.decoder(words, Some(&bias))?;
        #[module(skip)]
        activation: Activation = s.activation;
        hooks: Hooks = Hooks::new();
    }
    hooked |m, x| {
        let x = m.activation.apply(&m.dense.forward(x)?)?;
        m.decoder.forward(&m.layer_norm.forward(&x)?)
    }
}

task_models! {
    albert: AlbertModel(AlbertConfig), spec spec, ignores [
        "embeddings.position_ids", "pooler.weight", "pooler.bias", "sop_classifier.classifier.weight",
        "sop_classifier.classifier.bias",
    ];
    /// ALBERT as masked language model: logits `[batch, length, vocabulary]` of each position's token.
    AlbertForMaskedLM: masked(predictions: AlbertMLMHead);
    /// ALBERT with a classifier of texts on its pooler: logits `[batch, num_labels]`.
    AlbertForSequenceClassification: pooled();
    /// ALBERT with a classifier of tokens: logits `[batch, length, num_labels]`.
    AlbertForTokenClassification: tokens();
    /// ALBERT that finds answers in texts: logits of the first and the last token of the answer.
    AlbertForQuestionAnswering: answers();
}
