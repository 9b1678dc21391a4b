//! ELECTRA (Clark et al., "ELECTRA: Pre-training Text Encoders as Discriminators Rather Than Generators", 2020).

use serde_json::{Map, Value};
use torsh_nn::{Hooks, LayerNorm, Linear, Module};
use torsh_tensor::Result;

use crate::blocks::encoder::{BertEmbeddings, BertEncoder, Spec, encoder_model, spec, task_models};
use crate::blocks::{Activation, part};
use crate::config::config;

config! {
    /// The configuration of ELECTRA, by the names in `config.json`.
    /// The default is the discriminator of ELECTRA small.
    ///
    /// ```
    /// use torsh_nn::{ModuleExt, construct::Construction};
    /// use torsh_tensor::Device;
    /// use torsh_text::models::{ElectraConfig, ElectraModel};
    /// let model = Construction::new().device(Device::Meta).run(|| ElectraModel::new(ElectraConfig::default()))?;
    /// assert_eq!(model.num_parameters(), 13_483_008);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ElectraConfig: "electra" {
        vocab_size = 30522; embedding_size = 128; hidden_size = 256; num_hidden_layers = 12; num_attention_heads = 4;
        intermediate_size = 1024;
        /// The activation of feed-forward layers and of the discriminator's head.
        hidden_act = Activation::Gelu;
        hidden_dropout_prob = 0.1; attention_probs_dropout_prob = 0.1; max_position_embeddings = 512;
        type_vocab_size = 2; initializer_range = 0.02; layer_norm_eps = 1e-12;
        /// Fills up a batch; its embedding is not trained.
        pad_token_id = Some(0);
        classifier_dropout = None; tie_word_embeddings = true; num_labels = 2;
    }
    ignores [
        "bos_token_id", "eos_token_id", "summary_activation", "summary_first_dropout", "summary_last_dropout",
        "summary_type", "summary_use_proj",
    ]
    requires {
        "add_cross_attention": false, "is_decoder": false, "position_embedding_type": "absolute",
        "pruned_heads": Map::<String, Value>::new(),
    }
}

fn spec(c: &ElectraConfig) -> Result<Spec> {
    let head_dropout = c.classifier_dropout.unwrap_or(c.hidden_dropout_prob);
    spec!(
        "ElectraModel",
        c {
            embedding: c.embedding_size,
            head_dropout: head_dropout
        }
    )
}

encoder_model! {
    /// ELECTRA without head: BERT without pooler, whose embeddings may be narrower than its layers.
    ///
    /// ```
    /// use torsh_nn::{Module, ModuleExt};
    /// use torsh_tensor::tensor;
    /// use torsh_text::models::{ElectraConfig, ElectraModel};
    /// let config = ElectraConfig {
    ///     embedding_size: 4,
    ///     hidden_size: 8,
    ///     num_hidden_layers: 1,
    ///     num_attention_heads: 2,
    ///     intermediate_size: 16,
    ///     vocab_size: 20,
    ///     ..Default::default()
    /// };
    /// let model = ElectraModel::new(config)?;
    /// model.eval();
    /// let both = model.forward(&tensor![[2, 5, 6, 3], [2, 7, 8, 3]])?;
    /// assert_eq!(both.dims(), [2, 4, 8]);
    /// assert!(model.forward(&tensor![[2, 7, 8, 3]])?.allclose(&both.narrow(0, 1, 1)?)?);
    /// // From the width of the embeddings to that of the layers.
    /// assert_eq!(model.state_dict()["embeddings_project.weight"].dims(), [8, 4]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ElectraModel(ElectraConfig), spec spec,
    errors "Heads that do not divide the width, and a padding token outside of the vocabulary."
    |s| first {
        let (from, to) = (s.embedding, s.width);
        let project = (from != to).then(|| s.linear(from, to)).transpose()?;
    } {
        /// The embeddings.
        pub embeddings: BertEmbeddings = BertEmbeddings::new(s)?;
        /// From the width of the embeddings to the model's, where they differ.
        pub embeddings_project: Option<Linear> = project;
        /// The layers.
        pub encoder: BertEncoder = BertEncoder::new(s)?;
    }
    positions |m| Some(m.config.max_position_embeddings);
    /// The vectors of tokens.
    run |m, inputs, layout| {
        let mut x = m.embeddings.run(inputs, layout)?;
        if let Some(project) = &m.embeddings_project {
            x = project.forward(&x)?;
        }
        m.encoder.run(&x, layout)
    }
}

part! {
    /// The head of [`ElectraForPreTraining`]: one number for each token.
    pub ElectraDiscriminatorPredictions(s: &Spec) {
        dense: Linear = s.linear(s.width, s.width)?;
        dense_prediction: Linear = s.linear(s.width, 1)?;
        #[module(skip)]
        activation: Activation = s.activation;
        hooks: Hooks = Hooks::new();
    }
    hooked |m, x| {
        let x = m.activation.apply(&m.dense.forward(x)?)?;
        m.dense_prediction.forward(&x)?.squeeze(-1)
    }
}

part! {
    /// A part of the head of [`ElectraForMaskedLM`]: from the model's width to that of the embeddings.
    pub ElectraGeneratorPredictions(s: &Spec) {
        #[module(rename = "LayerNorm")]
        layer_norm: LayerNorm = s.norm(s.embedding)?;
        dense: Linear = s.linear(s.width, s.embedding)?;
        hooks: Hooks = Hooks::new();
    }
    hooked |m, x| m.layer_norm.forward(&Activation::Gelu.apply(&m.dense.forward(x)?)?)
}

task_models! {
    electra: ElectraModel(ElectraConfig), spec spec, ignores ["embeddings.position_ids"];
    /// ELECTRA as discriminator: logits `[batch, length]`, larger where a token was replaced.
    ///
    /// ```
    /// use torsh_nn::Module;
    /// use torsh_text::models::{ElectraConfig, ElectraForPreTraining};
    /// let config = ElectraConfig {
    ///     hidden_size: 8, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 16, vocab_size: 20,
    ///     ..Default::default()
    /// };
    /// let model = ElectraForPreTraining::new(config)?;
    /// assert_eq!(model.forward(&torsh_tensor::tensor![[2, 4, 3]])?.dims(), [1, 3]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ElectraForPreTraining: own(
        |s| {
            /// The head.
            discriminator_predictions: ElectraDiscriminatorPredictions = ElectraDiscriminatorPredictions::new(s)?;
        }
        logits |m, output, _inputs| m.discriminator_predictions.forward(&output.last_hidden_state)
    );
    /// ELECTRA as masked language model, its generator: logits `[batch, length, vocabulary]` of each position's token.
    ElectraForMaskedLM: own(
        |s| {
            /// From the model's width to that of the embeddings.
            generator_predictions: ElectraGeneratorPredictions = ElectraGeneratorPredictions::new(s)?;
            /// The layer that gives the logits.
            generator_lm_head: Linear = s.decoder(&electra.embeddings.word_embeddings, None)?;
        }
        logits |m, output, _inputs| {
            let x = m.generator_predictions.forward(&output.last_hidden_state)?;
            m.generator_lm_head.forward(&x)
        }
    );
    /// ELECTRA with a classifier of texts on the first token: logits `[batch, num_labels]`.
    ElectraForSequenceClassification: first(Activation::Gelu);
    /// ELECTRA with a classifier of tokens: logits `[batch, length, num_labels]`.
    ElectraForTokenClassification: tokens();
    /// ELECTRA that finds answers in texts: logits of the first and the last token of the answer.
    ElectraForQuestionAnswering: answers();
}
