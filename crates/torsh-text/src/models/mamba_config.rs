//! The configuration of Mamba.

use serde::{Deserialize, Serialize};

use crate::blocks::Activation;
use crate::config::{TokenIds, config};

/// The width of a mixer's time steps before they are projected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TimeStepRank {
    /// A sixteenth of the model's width, rounded up.
    Auto,
    /// As given.
    #[serde(untagged)]
    Of(usize),
}

config! {
    /// The configuration of Mamba, by the names in `config.json`.
    ///
    /// ```
    /// use torsh_text::config::PretrainedConfig;
    /// use torsh_text::models::{MambaConfig, TimeStepRank};
    /// let json = serde_json::json!({ "hidden_size": 1024, "num_hidden_layers": 48, "time_step_rank": 64 });
    /// let config = MambaConfig::from_json(json)?;
    /// assert_eq!((config.time_step_rank, config.intermediate_size()), (TimeStepRank::Of(64), 2048));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    MambaConfig: "mamba" {
        vocab_size = 50280; hidden_size = 768;
        /// Numbers of state for each number of the mixers' width.
        state_size: usize = 16;
        num_hidden_layers = 32;
        /// Added to mean squares.
        layer_norm_epsilon: f64 = 1e-5;
        pad_token_id = Some(0); bos_token_id = Some(0); eos_token_id = TokenIds::from(0);
        /// How many times wider than the model its mixers are.
        expand: usize = 2;
        /// Tokens that the convolution of a mixer sees.
        conv_kernel: usize = 4;
        /// Whether the projections into and out of mixers have biases.
        use_bias: bool = false;
        /// Whether their convolutions have.
        use_conv_bias: bool = true;
        /// The activation behind the convolutions of mixers.
        hidden_act = Activation::Silu;
        initializer_range = 0.1;
        /// Whether what goes past the mixers is float32.
        residual_in_fp32: bool = true;
        /// The width of time steps before they are projected.
        time_step_rank: TimeStepRank = TimeStepRank::Auto;
        /// By what the drawn weights of time steps are multiplied.
        time_step_scale: f64 = 1.0;
        /// The shortest time step that is drawn.
        time_step_min: f64 = 0.001;
        /// The longest one.
        time_step_max: f64 = 0.1;
        /// `random` or `constant` weights of time steps.
        time_step_init_scheme: String = "random".into();
        /// Drawn time steps are at least this long.
        time_step_floor: f64 = 1e-4;
        /// Whether drawn weights at the end of mixers are divided by the root of the number of layers.
        rescale_prenorm_residual: bool = false;
        tie_word_embeddings = true;
    }
    ignores [
        "d_inner", "d_model", "fused_add_norm", "intermediate_size", "layer_types", "n_layer",
        "pad_vocab_size_multiple", "rms_norm", "ssm_cfg", "use_associative_scan", "use_mambapy",
    ]
    requires {}
}

impl MambaConfig {
    /// The mixers' width.
    ///
    /// ```
    /// use torsh_text::models::MambaConfig;
    /// assert_eq!(MambaConfig::default().intermediate_size(), 1536);
    /// ```
    pub fn intermediate_size(&self) -> usize {
        self.expand * self.hidden_size
    }

    pub(super) fn rank(&self) -> usize {
        match self.time_step_rank {
            TimeStepRank::Auto => self.hidden_size.div_ceil(16),
            TimeStepRank::Of(rank) => rank,
        }
    }
}
