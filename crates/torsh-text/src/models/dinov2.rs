//! DINOv2 (Oquab et al., "DINOv2: Learning Robust Visual Features without Supervision", 2023).

use torsh_nn::construct;
use torsh_nn::{Dropout, LayerNorm, Linear, Module, Parameter, Training};
use torsh_tensor::{DType, Result, Tensor, cat};

use super::causal::heads_divide;
use super::encoder_layers::{
    Draw, ImageAttention, ImageSize, Mlp, PatchEmbeddings, image_sides, patch_grid, positions_for,
};
use super::pretrained;
use super::vit::{behind_class, truncated};
use crate::blocks::{Activation, GatedMlp, Layers, class, init, part};
use crate::config::config;

config! {
    /// The configuration of DINOv2, by the names in `config.json`.
    /// The default is DINOv2 base, whose published files are for images of 518 x 518 pixels.
    ///
    /// ```
    /// use torsh_nn::{ModuleExt, construct::Construction};
    /// use torsh_tensor::Device;
    /// use torsh_text::models::{Dinov2Config, Dinov2Model, ImageSize};
    /// let config = Dinov2Config {
    ///     image_size: ImageSize::Square(518),
    ///     ..Default::default()
    /// };
    /// let model = Construction::new().device(Device::Meta).run(|| Dinov2Model::new(config))?;
    /// assert_eq!(model.num_parameters(), 86_580_480);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    Dinov2Config: "dinov2" {
        hidden_size = 768; num_hidden_layers = 12; num_attention_heads = 12;
        /// How many times wider than the model its feed-forward layers are.
        mlp_ratio: usize = 4;
        /// The activation of feed-forward layers without gate.
        hidden_act = Activation::Gelu;
        /// Dropout of the embeddings.
        hidden_dropout_prob = 0.0;
        attention_probs_dropout_prob = 0.0; initializer_range = 0.02; layer_norm_eps = 1e-6;
        image_size: ImageSize = ImageSize::Square(224); patch_size: ImageSize = ImageSize::Square(14);
        num_channels = 3; qkv_bias = true;
        /// The factors of layers' results, before training.
        layerscale_value: f64 = 1.0;
        /// The probability with which a sample goes past a layer in training.
        drop_path_rate: f64 = 0.0;
        /// Whether feed-forward layers have a gate with SiLU.
        use_swiglu_ffn: bool = false;
        /// Whether there is a token for patches that are hidden in pretraining.
        use_mask_token: bool = true;
        num_labels = 2;
    }
    ignores [
        "_out_features", "_out_indices", "apply_layernorm", "out_features", "out_indices", "reshape_hidden_states",
        "stage_names",
    ]
    requires {}
}

part! {
    Dinov2Embeddings(c: &Dinov2Config) first {
        let (width, std) = (c.hidden_size, c.initializer_range);
        let (image, patch) = (c.image_size.sides(), c.patch_size.sides());
        let [rows, columns] = patch_grid("Dinov2Config", image, patch)?;
        let mask_token = || {
            let zeros = Tensor::zeros([1, width], construct::dtype(), construct::device())?;
            Parameter::with_requires_grad(zeros, true)
        };
    } {
        cls_token: Parameter = truncated([1, 1, width], std)?;
        mask_token: Option<Parameter> = c.use_mask_token.then(mask_token).transpose()?;
        position_embeddings: Parameter = truncated([1, 1 + rows * columns, width], std)?;
        patch_embeddings: PatchEmbeddings = PatchEmbeddings::new(c.num_channels, width, patch, Draw::Truncated(std))?;
        dropout: Dropout = Dropout::new(c.hidden_dropout_prob)?;
        #[module(skip)] image: [usize; 2] = image;
        #[module(skip)] patch: [usize; 2] = patch;
        #[module(skip)] channels: usize = c.num_channels;
    }
    forward |m, pixel_values| {
        let sides = image_sides("Dinov2Model", pixel_values, m.channels)?;
        patch_grid("Dinov2Model", sides, m.patch)?;
        let patches = m.patch_embeddings.forward(pixel_values)?;
        let x = behind_class(&m.cls_token, &patches)?;
        let positions = m.position_embeddings.tensor();
        let positions = positions_for(positions, sides, m.image, m.patch, DType::F32)?;
        m.dropout.forward(&x.add(&positions)?)
    }
}

part! {
    /// A factor for each number of a layer's result (Touvron et al., "Going deeper with Image Transformers", 2021).
    Dinov2LayerScale(c: &Dinov2Config) first {
        let (dtype, device) = (construct::dtype(), construct::device());
        let factors = Tensor::full([c.hidden_size], c.layerscale_value, dtype, device)?;
    } {
        lambda1: Parameter = Parameter::with_requires_grad(factors, true)?;
    }
    forward |m, x| x.mul(m.lambda1.tensor())
}

/// The feed-forward layer of a layer.
fn feed_forward(c: &Dinov2Config) -> Result<Box<dyn Module>> {
    let (width, inner) = (c.hidden_size, c.hidden_size * c.mlp_ratio);
    let draw = Draw::Truncated(c.initializer_range);
    if !c.use_swiglu_ffn {
        return Ok(Box::new(Mlp {
            fc1: draw.linear(width, inner, true)?,
            fc2: draw.linear(inner, width, true)?,
            activation: c.hidden_act,
        }));
    }
    // With a gate there are three matrices instead of two, each of two thirds.
    let inner = (inner * 2 / 3).next_multiple_of(8);
    let mlp = GatedMlp::with(width, inner, Activation::Silu, true, 0.0)?;
    for layer in [&mlp.gate_proj, &mlp.up_proj, &mlp.down_proj] {
        draw.fill(&layer.weight)?;
    }
    Ok(Box::new(mlp))
}

part! {
    Dinov2Layer(c: &Dinov2Config) {
        norm1: LayerNorm = init::layer_norm(c.hidden_size, c.layer_norm_eps)?;
        attention: ImageAttention = ImageAttention::new(
            c.hidden_size,
            c.num_attention_heads,
            c.qkv_bias,
            Draw::Truncated(c.initializer_range),
            c.attention_probs_dropout_prob,
        )?;
        layer_scale1: Dinov2LayerScale = Dinov2LayerScale::new(c)?;
        norm2: LayerNorm = init::layer_norm(c.hidden_size, c.layer_norm_eps)?;
        mlp: Box<dyn Module> = feed_forward(c)?;
        layer_scale2: Dinov2LayerScale = Dinov2LayerScale::new(c)?;
        #[module(skip)] drop_path: f64 = c.drop_path_rate;
        training: Training = Training::default();
    }
    forward |m, x| {
        let y = m.attention.forward(&m.norm1.forward(x)?)?;
        let x = m.past(m.layer_scale1.forward(&y)?)?.add(x)?;
        let y = m.mlp.forward(&m.norm2.forward(&x)?)?;
        m.past(m.layer_scale2.forward(&y)?)?.add(&x)
    }
}

impl Dinov2Layer {
    /// In training, some samples go past the layer: their part of its result is 0 (Huang et al., "Deep Networks with
    /// Stochastic Depth", 2016).
    fn past(&self, y: Tensor) -> Result<Tensor> {
        if self.drop_path == 0.0 || !self.training.get() {
            return Ok(y);
        }
        let keep = 1.0 - self.drop_path;
        let draws = Tensor::rand([y.size(0)?, 1, 1], y.dtype(), y.device())?;
        y.div(keep)?.mul(draws.add(keep)?.floor()?)
    }
}

#[derive(Module)]
struct Dinov2Encoder {
    layer: Layers<Dinov2Layer>,
}

impl Module for Dinov2Encoder {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.layer.run(x.clone(), |layer, _, x| layer.forward(x))
    }
}

class! {
    /// The layers of DINOv2, whose last hidden state describes an image and each of its patches.
    ///
    /// ```
    /// use torsh_nn::Module;
    /// use torsh_tensor::rand;
    /// use torsh_text::models::{Dinov2Config, Dinov2Model, ImageSize};
    /// let model = Dinov2Model::new(Dinov2Config {
    ///     hidden_size: 8, num_hidden_layers: 1, num_attention_heads: 2, image_size: ImageSize::Square(8),
    ///     patch_size: ImageSize::Square(4), ..Default::default()
    /// })?;
    /// assert_eq!(model.forward(&rand([1, 3, 8, 8]))?.dims(), [1, 5, 8]);
    /// // Images of other sizes have interpolated positions.
    /// assert_eq!(model.forward(&rand([1, 3, 8, 12]))?.dims(), [1, 7, 8]);
    /// // Each vector is normalised: its mean is 0 before training.
    /// assert!(model.forward(&rand([1, 3, 8, 8]))?.mean_dim(-1, false)?.abs()?.max()?.item::<f32>()? < 1e-5);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    Dinov2Model(Dinov2Config), errors "A width that the heads do not divide, and images without patches."
    |c| first {
        heads_divide!("Dinov2Config", c, hidden_size, num_attention_heads)?;
        let layers = (0..c.num_hidden_layers).map(|_| Dinov2Layer::new(c));
    } {
        embeddings: Dinov2Embeddings = Dinov2Embeddings::new(c)?;
        encoder: Dinov2Encoder = Dinov2Encoder { layer: layers.collect::<Result<_>>()? };
        layernorm: LayerNorm = init::layer_norm(c.hidden_size, c.layer_norm_eps)?;
    }
    /// The last hidden state `[batch, 1 + patches, width]` of images `[batch, channels, height, width]`: of the token
    /// that stands for the image, and of its patches.
    forward |m, x| {
        let x = m.encoder.forward(&m.embeddings.forward(x)?)?;
        m.layernorm.forward(&x)
    };
    named |m, inputs| {
        let last = m.forward(inputs.pixel_values()?)?;
        let pooled = last.select(1, 0)?;
        Ok(vec![("last_hidden_state", last), ("pooler_output", pooled)])
    }
}

class! {
    /// DINOv2 as a classifier of images.
    ///
    /// ```
    /// use torsh_nn::Module;
    /// use torsh_tensor::rand;
    /// use torsh_text::models::{Dinov2Config, Dinov2ForImageClassification, ImageSize};
    /// let model = Dinov2ForImageClassification::new(Dinov2Config {
    ///     hidden_size: 8, num_hidden_layers: 1, num_attention_heads: 2, image_size: ImageSize::Square(8),
    ///     patch_size: ImageSize::Square(4), use_swiglu_ffn: true, num_labels: 5, ..Default::default()
    /// })?;
    /// assert_eq!(model.forward(&rand([2, 3, 8, 8]))?.dims(), [2, 5]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    Dinov2ForImageClassification(Dinov2Config), errors "As [`Dinov2Model::new`]."
    |c| first {
        let (width, labels) = (c.hidden_size, c.num_labels);
        let draw = Draw::Truncated(c.initializer_range);
        let classifier = || draw.linear(2 * width, labels, true);
    } {
        dinov2: Dinov2Model = Dinov2Model::new(c.clone())?;
        classifier: Option<Linear> = (labels > 0).then(classifier).transpose()?;
    }
    /// The logits `[batch, num_labels]` of images `[batch, channels, height, width]`; without labels what the
    /// classifier reads.
    forward |m, x| {
        let last = m.dinov2.forward(x)?;
        let patches = last.narrow(1, 1, last.size(1)? - 1)?.mean_dim(1, false)?;
        let x = cat(&[last.select(1, 0)?, patches], 1)?;
        match &m.classifier {
            Some(classifier) => classifier.forward(&x),
            None => Ok(x),
        }
    };
    named |m, inputs| Ok(vec![("logits", m.forward(inputs.pixel_values()?)?)])
}

/// [`Dinov2Model`], by its short name.
pub type Dinov2 = Dinov2Model;

pretrained! {
    base "dinov2", ignores [];
    Dinov2Model(Dinov2Config), Dinov2ForImageClassification(Dinov2Config),
}
