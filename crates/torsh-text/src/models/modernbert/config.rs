//! The configuration of ModernBERT.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use torsh_nn::construct::Construction;
use torsh_nn::{LayerNorm, Linear, init};
use torsh_tensor::{Result, Tensor, TorshError};

use crate::blocks::rotary::{LayerRope, normalize_layers};
use crate::blocks::{Activation, LayerRopeParameters, RopeParameters};
use crate::config::{config, error};
use crate::models::LayerType;

/// What [`ModernBertForSequenceClassification`](crate::models::ModernBertForSequenceClassification) classifies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClassifierPooling {
    /// The first token.
    #[default]
    Cls,
    /// The mean of all tokens.
    Mean,
}

config! {
    /// The configuration of ModernBERT, by the names in `config.json`.
    /// The default is ModernBERT base.
    ///
    /// ```
    /// use torsh_nn::{ModuleExt, construct::Construction};
    /// use torsh_tensor::Device;
    /// use torsh_text::models::{ModernBertConfig, ModernBertModel};
    /// let model = Construction::new().device(Device::Meta).run(|| ModernBertModel::new(ModernBertConfig::default()))?;
    /// assert_eq!(model.num_parameters(), 149_014_272);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ModernBertConfig: "modernbert" {
        vocab_size = 50368; hidden_size = 768; intermediate_size = 1152; num_hidden_layers = 22;
        num_attention_heads = 12; hidden_activation = Activation::Gelu;
        /// The most tokens of a text that the rotary embeddings are made for.
        max_position_embeddings = 8192;
        /// The standard deviation that weights are drawn with, divided by `sqrt(2 * num_hidden_layers)` for those that
        /// end a layer; drawn again where `initializer_cutoff_factor` says.
        initializer_range = 0.02;
        /// How many deviations a drawn weight is away from 0 at most; 3 where it is null.
        initializer_cutoff_factor: Option<f64> = Some(2.0);
        /// Added to variances.
        norm_eps: f64 = 1e-5;
        /// Whether norms have a bias.
        norm_bias: bool = false;
        /// Fills up a batch; its embedding is not trained.
        pad_token_id = Some(50283);
        attention_bias = false;
        /// Dropout of the attention's weights and behind it.
        attention_dropout = 0.0;
        /// What the attention of each layer sees; by `global_attn_every_n_layers` unless given.
        layer_types: Option<Vec<LayerType>> = None;
        /// Every how many layers one sees all tokens, from the first on.
        global_attn_every_n_layers: usize = 3;
        /// The rotary embeddings of layers that see all tokens, and of the others.
        rope_parameters: LayerRopeParameters = LayerRopeParameters {
            full_attention: RopeParameters::theta(160_000.0),
            sliding_attention: RopeParameters::theta(10_000.0),
        };
        /// The window of layers that do not see all tokens: half of it is on each side.
        local_attention: usize = 128;
        /// Dropout of embeddings.
        embedding_dropout: f64 = 0.0;
        mlp_bias = false;
        /// Dropout inside feed-forward layers.
        mlp_dropout: f64 = 0.0;
        /// Whether the layer that gives logits of tokens has a bias.
        decoder_bias: bool = true;
        /// What a classifier of texts sees.
        classifier_pooling: ClassifierPooling = ClassifierPooling::Cls;
        /// Dropout ahead of a classifier.
        classifier_dropout: f64 = 0.0;
        /// Whether the linear layer of heads has a bias.
        classifier_bias: bool = false;
        /// The activation of heads.
        classifier_activation: Activation = Activation::Gelu;
        tie_word_embeddings = true; num_labels = 2;
    }
    ignores [
        "bos_token_id", "cls_token_id", "deterministic_flash_attn", "eos_token_id", "layer_norm_eps",
        "position_embedding_type", "reference_compile", "repad_logits_with_grad", "sparse_pred_ignore_index",
        "sparse_prediction",
    ]
    requires {}
    normalize = normalize
}

/// Folds the fields of older files into `rope_parameters` and `local_attention`.
fn normalize(config: Value) -> Result<Value> {
    let rope = |layer, old_theta, theta| LayerRope {
        layer,
        old_theta,
        theta,
        scaled: true,
    };
    let mut config = normalize_layers(
        config,
        &[
            rope("full_attention", "global_rope_theta", 160_000.0),
            rope("sliding_attention", "local_rope_theta", 10_000.0),
        ],
    )?;
    if let Value::Object(fields) = &mut config
        && let Some(side) = fields.remove("sliding_window")
    {
        let side = side
            .as_u64()
            .ok_or_else(|| error(&format!("field sliding_window: {side} is no whole number")))?;
        fields.insert("local_attention".into(), side.saturating_mul(2).into());
    }
    Ok(config)
}

impl ModernBertConfig {
    pub(super) fn types(&self) -> Result<Vec<LayerType>> {
        let layers = self.num_hidden_layers;
        let Some(types) = &self.layer_types else {
            let every = self.global_attn_every_n_layers;
            if every == 0 {
                let why = "global_attn_every_n_layers = 0: it is 1 where all layers see all tokens";
                return Err(TorshError::invalid("ModernBertModel", why));
            }
            return Ok((0..layers)
                .map(|layer| match layer % every {
                    0 => LayerType::FullAttention,
                    _ => LayerType::SlidingAttention,
                })
                .collect());
        };
        if types.len() != layers {
            let why = format!(
                "layer_types has {} layers, num_hidden_layers = {layers}",
                types.len()
            );
            return Err(TorshError::invalid("ModernBertModel", why));
        }
        Ok(types.clone())
    }

    pub(super) fn norm(&self) -> Result<LayerNorm> {
        LayerNorm::builder(self.hidden_size)
            .eps(self.norm_eps)
            .bias(self.norm_bias)
            .build()
    }

    /// Weights of a normal distribution without its ends.
    pub(super) fn draw(&self, weight: &Tensor, std: f64) -> Result<()> {
        let most = self.initializer_cutoff_factor.unwrap_or(3.0) * std;
        init::trunc_normal_(weight, 0.0, std, -most, most)?;
        Ok(())
    }

    pub(super) fn linear(&self, from: usize, to: usize, bias: bool, std: f64) -> Result<Linear> {
        let make = || Linear::builder(from, to).bias(bias).build();
        let layer = Construction::new().draw_nothing().run(make)?;
        self.draw(&layer.weight, std)?;
        if let Some(bias) = &layer.bias {
            init::zeros_(bias)?;
        }
        Ok(layer)
    }

    /// The deviation of layers whose result is added to what went in.
    pub(super) fn out_std(&self) -> f64 {
        self.initializer_range / (2.0 * self.num_hidden_layers as f64).sqrt()
    }

    pub(super) fn classifier(&self) -> Result<Linear> {
        let std = (self.hidden_size as f64).powf(-0.5);
        self.linear(self.hidden_size, self.num_labels, true, std)
    }
}
