//! The part of CLIP that reads images.

use serde_json::Value;
use torsh_nn::construct;
use torsh_nn::{Conv2d, Embedding, LayerNorm, Linear, Module, Parameter};
use torsh_tensor::{Result, Tensor, cat};

use super::causal::heads_divide;
use super::clip_encoder::{CLIPEncoder, Sizes, projection};
use super::encoder_layers::{
    Draw, check_sides, image_sides, patch_convolution, patch_grid, patches, positions_for,
};
use super::pretrained;
use crate::blocks::{Activation, AttentionMask, class, init, part};
use crate::config::config;

config! {
    /// The configuration of the part of CLIP that reads images.
    /// The default is that of CLIP base.
    ///
    /// ```
    /// use torsh_nn::{ModuleExt, construct::Construction};
    /// use torsh_tensor::Device;
    /// use torsh_text::models::{CLIPVisionConfig, CLIPVisionModel};
    /// let model = Construction::new().device(Device::Meta).run(|| CLIPVisionModel::new(CLIPVisionConfig::default()))?;
    /// assert_eq!(model.num_parameters(), 87_456_000);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    CLIPVisionConfig: "clip_vision_model" {
        hidden_size = 768; intermediate_size = 3072; projection_dim = 512; num_hidden_layers = 12;
        num_attention_heads = 12; num_channels = 3; image_size = 224; patch_size = 32;
        hidden_act = Activation::QuickGelu; layer_norm_eps = 1e-5; attention_dropout = 0.0;
        /// The deviation of drawn embeddings.
        initializer_range = 0.02;
        initializer_factor = 1.0;
    }
    ignores [
        "add_cross_attention", "bos_token_id", "cross_attention_hidden_size", "decoder_start_token_id", "dropout",
        "eos_token_id", "is_decoder", "pad_token_id", "pruned_heads", "tie_word_embeddings",
    ]
    requires {}
    normalize = vision_part
}

/// The configuration of CLIP holds that of the part.
fn vision_part(mut config: Value) -> Result<Value> {
    match config.get("model_type") {
        Some(kind) if kind == "clip" => Ok(config["vision_config"].take()),
        _ => Ok(config),
    }
}

part! {
    CLIPVisionEmbeddings(c: &CLIPVisionConfig) first {
        let (width, std) = (c.hidden_size, c.initializer_range * c.initializer_factor);
        let patch = [c.patch_size; 2];
        let [rows, columns] = patch_grid("CLIPVisionConfig", [c.image_size; 2], patch)?;
        let class = Tensor::empty([width], construct::dtype(), construct::device())?;
        torsh_nn::init::normal_(&class, 0.0, c.initializer_factor / (width as f64).sqrt())?;
    } {
        class_embedding: Parameter = Parameter::with_requires_grad(class, true)?;
        patch_embedding: Conv2d = patch_convolution(c.num_channels, width, patch, false, Draw::Normal(std))?;
        position_embedding: Embedding = init::embedding(1 + rows * columns, width, None, std)?;
        #[module(skip)] image_size: usize = c.image_size;
        #[module(skip)] patch_size: usize = c.patch_size;
        #[module(skip)] channels: usize = c.num_channels;
    }
    forward |m, pixel_values| m.run(pixel_values, false)
}

impl CLIPVisionEmbeddings {
    fn run(&self, pixel_values: &Tensor, interpolate: bool) -> Result<Tensor> {
        let model = "CLIPVisionModel";
        let sides = image_sides(model, pixel_values, self.channels)?;
        if !interpolate {
            check_sides(model, sides, [self.image_size; 2])?;
        }
        let x = patches(&self.patch_embedding, pixel_values)?;
        let (batch, width) = (x.size(0)?, x.size(2)?);
        let class = self.class_embedding.expand([batch, 1, width])?;
        let x = cat(&[class, x], 1)?;
        let positions = self.position_embedding.weight.unsqueeze(0)?;
        let (image, patch) = ([self.image_size; 2], [self.patch_size; 2]);
        let dtype = positions.dtype();
        let positions = positions_for(&positions, sides, image, patch, dtype)?;
        x.add(&positions)
    }
}

/// What [`CLIPVisionModel`] computes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CLIPVisionOutput {
    /// `[batch, 1 + patches, width]`
    pub last_hidden_state: Tensor,
    /// The last hidden state of the token that stands for each image, normalised: `[batch, width]`.
    pub pooler_output: Tensor,
}

class! {
    /// The part of CLIP that reads images, without projection.
    ///
    /// ```
    /// use torsh_nn::Module;
    /// use torsh_tensor::rand;
    /// use torsh_text::models::{CLIPVisionConfig, CLIPVisionModel};
    /// let model = CLIPVisionModel::new(CLIPVisionConfig {
    ///     hidden_size: 8, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 16, image_size: 8,
    ///     patch_size: 4, ..Default::default()
    /// })?;
    /// assert_eq!(model.forward(&rand([1, 3, 8, 8]))?.dims(), [1, 5, 8]);
    /// assert!(model.forward(&rand([1, 3, 12, 8])).is_err());
    /// let larger = model.forward_with(&rand([1, 3, 12, 8]), true)?;
    /// assert_eq!(larger.last_hidden_state.dims(), [1, 7, 8]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    CLIPVisionModel(CLIPVisionConfig), errors "A width that the heads do not divide, and images without patches."
    |c| first {
        heads_divide!("CLIPVisionConfig", c, hidden_size, num_attention_heads)?;
        let sizes = Sizes {
            width: c.hidden_size,
            inner: c.intermediate_size,
            layers: c.num_hidden_layers,
            heads: c.num_attention_heads,
            activation: c.hidden_act,
            eps: c.layer_norm_eps,
            dropout: c.attention_dropout,
            factor: c.initializer_factor,
        };
    } {
        embeddings: CLIPVisionEmbeddings = CLIPVisionEmbeddings::new(c)?;
        pre_layrnorm: LayerNorm = init::layer_norm(c.hidden_size, c.layer_norm_eps)?;
        encoder: CLIPEncoder = CLIPEncoder::new(sizes)?;
        post_layernorm: LayerNorm = init::layer_norm(c.hidden_size, c.layer_norm_eps)?;
    }
    /// The last hidden state `[batch, 1 + patches, width]` of images `[batch, channels, height, width]`.
    forward |m, x| Ok(m.forward_with(x, false)?.last_hidden_state);
    named |m, inputs| {
        let output = m.forward_with(inputs.pixel_values()?, false)?;
        Ok(vec![
            ("last_hidden_state", output.last_hidden_state),
            ("pooler_output", output.pooler_output),
        ])
    }
}

impl CLIPVisionModel {
    /// The hidden states of images `[batch, channels, height, width]`; with `interpolate_pos_encoding` of any size.
    ///
    /// # Errors
    /// Images of other dimensions or channels, or of another size without `interpolate_pos_encoding`.
    #[torsh_tensor::names_caller]
    pub fn forward_with(
        &self,
        pixel_values: &Tensor,
        interpolate_pos_encoding: bool,
    ) -> Result<CLIPVisionOutput> {
        let x = self
            .embeddings
            .run(pixel_values, interpolate_pos_encoding)?;
        let x = self.pre_layrnorm.forward(&x)?;
        let last_hidden_state = self.encoder.run(&x, &AttentionMask::full())?;
        let pooled = last_hidden_state.select(1, 0)?;
        Ok(CLIPVisionOutput {
            pooler_output: self.post_layernorm.forward(&pooled)?,
            last_hidden_state,
        })
    }
}

class! {
    /// [`CLIPVisionModel`] with the projection into the space of texts and images.
    ///
    /// ```
    /// use torsh_nn::Module;
    /// use torsh_tensor::rand;
    /// use torsh_text::models::{CLIPVisionConfig, CLIPVisionModelWithProjection};
    /// let model = CLIPVisionModelWithProjection::new(CLIPVisionConfig {
    ///     hidden_size: 8, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 16, image_size: 8,
    ///     patch_size: 4, projection_dim: 6, ..Default::default()
    /// })?;
    /// assert_eq!(model.forward(&rand([2, 3, 8, 8]))?.dims(), [2, 6]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    CLIPVisionModelWithProjection(CLIPVisionConfig), errors "As [`CLIPVisionModel::new`]."
    |c| first {
        let (width, to) = (c.hidden_size, c.projection_dim);
    } {
        vision_model: CLIPVisionModel = CLIPVisionModel::new(c.clone())?;
        visual_projection: Linear = projection(width, to, c.initializer_factor)?;
    }
    /// The vectors `[batch, projection_dim]` of images `[batch, channels, height, width]`.
    forward |m, x| Ok(m.forward_with(x, false)?.0);
    named |m, inputs| {
        let (embeds, last) = m.forward_with(inputs.pixel_values()?, false)?;
        Ok(vec![("image_embeds", embeds), ("last_hidden_state", last)])
    }
}

impl CLIPVisionModelWithProjection {
    /// The vectors `[batch, projection_dim]` and last hidden states of images.
    ///
    /// # Errors
    /// As [`CLIPVisionModel::forward_with`].
    #[torsh_tensor::names_caller]
    pub fn forward_with(
        &self,
        pixel_values: &Tensor,
        interpolate_pos_encoding: bool,
    ) -> Result<(Tensor, Tensor)> {
        let output = self
            .vision_model
            .forward_with(pixel_values, interpolate_pos_encoding)?;
        let embeds = self.visual_projection.forward(&output.pooler_output)?;
        Ok((embeds, output.last_hidden_state))
    }
}

// Files of the whole of CLIP have the other part's weights too.
pretrained! {
    base "vision_model",
    ignores [".weight", ".bias", "logit_scale", "position_ids"];
    CLIPVisionModel(CLIPVisionConfig), CLIPVisionModelWithProjection(CLIPVisionConfig),
}
