//! ViT (Dosovitskiy et al., "An Image is Worth 16x16 Words: Transformers for Image Recognition at Scale", 2020).

use torsh_nn::construct;
use torsh_nn::{Dropout, Hooks, LayerNorm, Linear, Module, Parameter};
use torsh_tensor::{Result, Tensor, cat};

use super::causal::heads_divide;
use super::encoder_layers::{
    Draw, ImageAttention, ImageSize, Mlp, PatchEmbeddings, check_sides, image_sides, patch_grid,
    positions_for,
};
use super::pretrained;
use super::text_model::{ModelInputs, ModelOutputs, TextModel};
use crate::blocks::{Activation, Layers, class, init, part};
use crate::config::config;

config! {
    /// The configuration of ViT, by the names in `config.json`.
    /// The default is ViT base for images of 224 x 224 pixels.
    ///
    /// ```
    /// use torsh_nn::{ModuleExt, construct::Construction};
    /// use torsh_tensor::Device;
    /// use torsh_text::models::{ViTConfig, ViTModel};
    /// let model = Construction::new().device(Device::Meta).run(|| ViTModel::new(ViTConfig::default()))?;
    /// assert_eq!(model.num_parameters(), 86_389_248);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ViTConfig: "vit" {
        hidden_size = 768; num_hidden_layers = 12; num_attention_heads = 12; intermediate_size = 3072;
        hidden_act = Activation::Gelu; hidden_dropout_prob = 0.0; attention_probs_dropout_prob = 0.0;
        initializer_range = 0.02; layer_norm_eps = 1e-12; image_size: ImageSize = ImageSize::Square(224);
        patch_size: ImageSize = ImageSize::Square(16); num_channels = 3; qkv_bias = true;
        /// The width of the pooler's result; the model's unless given.
        pooler_output_size: Option<usize> = None;
        /// The activation of the pooler.
        pooler_act: Activation = Activation::Tanh;
        num_labels = 2;
    }
    ignores ["encoder_stride"]
    requires {}
}

part! {
    ViTEmbeddings(c: &ViTConfig) first {
        let (width, std) = (c.hidden_size, c.initializer_range);
        let (image, patch) = (c.image_size.sides(), c.patch_size.sides());
        let [rows, columns] = patch_grid("ViTConfig", image, patch)?;
    } {
        cls_token: Parameter = truncated([1, 1, width], std)?;
        position_embeddings: Parameter = truncated([1, 1 + rows * columns, width], std)?;
        patch_embeddings: PatchEmbeddings = PatchEmbeddings::new(c.num_channels, width, patch, Draw::Normal(std))?;
        dropout: Dropout = Dropout::new(c.hidden_dropout_prob)?;
        #[module(skip)] image: [usize; 2] = image;
        #[module(skip)] patch: [usize; 2] = patch;
        #[module(skip)] channels: usize = c.num_channels;
    }
    forward |m, pixel_values| m.run(pixel_values, false)
}

/// A parameter drawn from a normal distribution that is cut off at two units.
pub(super) fn truncated(shape: [usize; 3], std: f64) -> Result<Parameter> {
    let tensor = Tensor::empty(shape, construct::dtype(), construct::device())?;
    Draw::Truncated(std).fill(&tensor)?;
    Parameter::with_requires_grad(tensor, true)
}

/// The class token, once for each image, and behind it the image's patches.
pub(super) fn behind_class(class: &Tensor, patches: &Tensor) -> Result<Tensor> {
    let (batch, width) = (patches.size(0)?, patches.size(2)?);
    cat(&[&class.expand([batch, 1, width])?, patches], 1)
}

impl ViTEmbeddings {
    fn run(&self, pixel_values: &Tensor, interpolate: bool) -> Result<Tensor> {
        let sides = image_sides("ViTModel", pixel_values, self.channels)?;
        if !interpolate {
            check_sides("ViTModel", sides, self.image)?;
        }
        let patches = self.patch_embeddings.forward(pixel_values)?;
        let x = behind_class(&self.cls_token, &patches)?;
        let positions = self.position_embeddings.tensor();
        let dtype = positions.dtype();
        let positions = positions_for(positions, sides, self.image, self.patch, dtype)?;
        self.dropout.forward(&x.add(&positions)?)
    }
}

part! {
    ViTLayer(c: &ViTConfig) first {
        let (width, std) = (c.hidden_size, c.initializer_range);
    } {
        attention: ImageAttention = ImageAttention::new(
            width,
            c.num_attention_heads,
            c.qkv_bias,
            Draw::Normal(std),
            c.attention_probs_dropout_prob,
        )?;
        layernorm_before: LayerNorm = init::layer_norm(width, c.layer_norm_eps)?;
        layernorm_after: LayerNorm = init::layer_norm(width, c.layer_norm_eps)?;
        mlp: Mlp = Mlp {
            fc1: init::linear(width, c.intermediate_size, true, std)?,
            fc2: init::linear(c.intermediate_size, width, true, std)?,
            activation: c.hidden_act,
        };
        dropout: Dropout = Dropout::new(c.hidden_dropout_prob)?;
    }
    forward |m, x| {
        let y = m.attention.forward(&m.layernorm_before.forward(x)?)?;
        let x = m.dropout.forward(&y)?.add(x)?;
        let y = m.mlp.forward(&m.layernorm_after.forward(&x)?)?;
        m.dropout.forward(&y)?.add(&x)
    }
}

#[derive(Module)]
struct ViTPooler {
    dense: Linear,
    #[module(skip)]
    activation: Activation,
}

impl Module for ViTPooler {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let first = self.dense.forward(&x.select(1, 0)?)?;
        self.activation.apply(&first)
    }
}

/// What [`ViTModel`] computes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ViTOutput {
    /// `[batch, 1 + patches, width]`
    pub last_hidden_state: Tensor,
    /// What the pooler makes of the class token's hidden state, `[batch, pooler_output_size]`.
    pub pooler_output: Option<Tensor>,
}

/// The layers of ViT, with a pooler.
///
/// ```
/// use torsh_nn::Module;
/// use torsh_tensor::rand;
/// use torsh_text::models::{ImageSize, ViTConfig, ViTModel};
/// let model = ViTModel::new(ViTConfig {
///     hidden_size: 8, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 16,
///     image_size: ImageSize::Square(8), patch_size: ImageSize::Square(4), ..Default::default()
/// })?;
/// assert_eq!(model.forward(&rand([1, 3, 8, 8]))?.dims(), [1, 5, 8]);
/// assert!(model.forward(&rand([1, 3, 12, 12])).is_err());
/// let larger = model.forward_with(&rand([1, 3, 12, 12]), true)?;
/// assert_eq!(larger.last_hidden_state.dims(), [1, 10, 8]);
/// // Each vector is normalised: its mean is 0 before training.
/// assert!(larger.last_hidden_state.mean_dim(-1, false)?.abs()?.max()?.item::<f32>()? < 1e-5);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct ViTModel {
    embeddings: ViTEmbeddings,
    layers: Layers<ViTLayer>,
    layernorm: LayerNorm,
    pooler: Option<ViTPooler>,
    #[module(skip)]
    config: ViTConfig,
    hooks: Hooks,
}

impl ViTModel {
    /// A model with drawn weights.
    ///
    /// # Errors
    /// A width that the heads do not divide, and images without patches.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(config: ViTConfig) -> Result<ViTModel> {
        let (width, std) = (config.hidden_size, config.initializer_range);
        let pooled = config.pooler_output_size.unwrap_or(width);
        let pooler = ViTPooler {
            dense: init::linear(width, pooled, true, std)?,
            activation: config.pooler_act,
        };
        let mut model = ViTModel::without_pooler(config)?;
        model.pooler = Some(pooler);
        Ok(model)
    }

    fn without_pooler(config: ViTConfig) -> Result<ViTModel> {
        let c = &config;
        heads_divide!("ViTConfig", c, hidden_size, num_attention_heads)?;
        let layers = (0..c.num_hidden_layers).map(|_| ViTLayer::new(c));
        Ok(ViTModel {
            embeddings: ViTEmbeddings::new(c)?,
            layers: layers.collect::<Result<_>>()?,
            layernorm: init::layer_norm(c.hidden_size, c.layer_norm_eps)?,
            pooler: None,
            config,
            hooks: Hooks::new(),
        })
    }

    /// The hidden states of images `[batch, channels, height, width]`; with `interpolate_pos_encoding` of any size.
    ///
    /// # Errors
    /// Images of other dimensions or channels, or of another size without `interpolate_pos_encoding`.
    #[torsh_tensor::names_caller]
    pub fn forward_with(
        &self,
        pixel_values: &Tensor,
        interpolate_pos_encoding: bool,
    ) -> Result<ViTOutput> {
        let x = self
            .embeddings
            .run(pixel_values, interpolate_pos_encoding)?;
        let x = self.layers.run(x, |layer, _, x| layer.forward(x))?;
        let x = self.layernorm.forward(&x)?;
        let pooled = self.pooler.as_ref().map(|pooler| pooler.forward(&x));
        Ok(ViTOutput {
            pooler_output: pooled.transpose()?,
            last_hidden_state: x,
        })
    }
}

impl Module for ViTModel {
    /// The last hidden state `[batch, 1 + patches, width]` of images `[batch, channels, height, width]`.
    #[torsh_tensor::names_caller]
    fn forward(&self, pixel_values: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, pixel_values, |x| {
            Ok(self.forward_with(x, false)?.last_hidden_state)
        })
    }
}

impl TextModel for ViTModel {
    #[torsh_tensor::names_caller]
    fn forward_named(&self, inputs: &ModelInputs) -> Result<ModelOutputs> {
        let output = self.forward_with(inputs.pixel_values()?, false)?;
        let pooled = output.pooler_output.map(|x| ("pooler_output", x));
        let last = ("last_hidden_state", output.last_hidden_state);
        Ok(std::iter::once(last).chain(pooled).collect())
    }
}

class! {
    /// ViT as a classifier of images.
    ///
    /// ```
    /// use torsh_nn::Module;
    /// use torsh_tensor::rand;
    /// use torsh_text::models::{ImageSize, ViTConfig, ViTForImageClassification};
    /// let model = ViTForImageClassification::new(ViTConfig {
    ///     hidden_size: 8, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 16, num_labels: 5,
    ///     image_size: ImageSize::Sides([8, 4]), patch_size: ImageSize::Square(4), ..Default::default()
    /// })?;
    /// assert_eq!(model.forward(&rand([2, 3, 8, 4]))?.dims(), [2, 5]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ViTForImageClassification(ViTConfig), errors "As [`ViTModel::new`]."
    |c| first {
        let (width, labels) = (c.hidden_size, c.num_labels);
        let classifier = || init::linear(width, labels, true, c.initializer_range);
    } {
        vit: ViTModel = ViTModel::without_pooler(c.clone())?;
        classifier: Option<Linear> = (labels > 0).then(classifier).transpose()?;
    }
    /// The logits `[batch, num_labels]` of images `[batch, channels, height, width]`.
    forward |m, x| m.forward_with(x, false);
    named |m, inputs| {
        let logits = m.forward_with(inputs.pixel_values()?, false)?;
        Ok(vec![("logits", logits)])
    }
}

/// [`ViTForImageClassification`], by its short name.
pub type ViT = ViTForImageClassification;

impl ViTForImageClassification {
    /// The logits `[batch, num_labels]` of images; without labels the class token's hidden state.
    ///
    /// # Errors
    /// As [`ViTModel::forward_with`].
    #[torsh_tensor::names_caller]
    pub fn forward_with(
        &self,
        pixel_values: &Tensor,
        interpolate_pos_encoding: bool,
    ) -> Result<Tensor> {
        let output = self
            .vit
            .forward_with(pixel_values, interpolate_pos_encoding)?;
        let class = output.last_hidden_state.select(1, 0)?;
        match &self.classifier {
            Some(classifier) => classifier.forward(&class),
            None => Ok(class),
        }
    }
}

pretrained! {
    base "vit", ignores ["embeddings.mask_token", "position_ids"];
    ViTModel(ViTConfig), ViTForImageClassification(ViTConfig),
}
