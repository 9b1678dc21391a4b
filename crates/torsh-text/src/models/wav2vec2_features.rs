//! What makes frames of sound in wav2vec 2.0.

use torsh_nn::construct::Construction;
use torsh_nn::{Conv1d, Dropout, GroupNorm, LayerNorm, Linear, Module, init as draw};
use torsh_tensor::{Result, Tensor};

use super::wav2vec2_config::Wav2Vec2Config;
use crate::blocks::{Activation, init, part};

part! {
    /// A convolution of the feature encoder, with the norm behind it where there is one.
    ConvLayer(c: &Wav2Vec2Config, at: usize) first {
        let from = if at == 0 { 1 } else { c.conv_dim[at - 1] };
        let (to, by_layer) = (c.conv_dim[at], c.feat_extract_norm == "layer");
        let norm: Option<Box<dyn Module>> = match (by_layer, at) {
            (true, _) => Some(Box::new(LayerNorm::new(to)?)),
            (false, 0) => Some(Box::new(GroupNorm::new(to, to)?)),
            _ => None,
        };
        let make = || {
            Conv1d::builder(from, to, c.conv_kernel[at] as i64)
                .stride(c.conv_stride[at] as i64)
                .bias(c.conv_bias)
                .build()
        };
        let conv = Construction::new().draw_nothing().run(make)?;
        draw_convolution(&conv)?;
    } {
        conv: Conv1d = conv;
        layer_norm: Option<Box<dyn Module>> = norm;
        #[module(skip)] by_layer: bool = by_layer;
        #[module(skip)] activation: Activation = c.feat_extract_activation;
    }
    forward |m, x| {
        let mut x = m.conv.forward(x)?;
        if let Some(norm) = &m.layer_norm {
            x = match m.by_layer {
                true => norm.forward(&x.transpose(1, 2)?)?.transpose(1, 2)?,
                false => norm.forward(&x)?,
            };
        }
        m.activation.apply(&x)
    }
}

/// Draws the weights of a convolution without groups.
pub(super) fn draw_convolution(conv: &Conv1d) -> Result<()> {
    draw::kaiming_normal_(&conv.weight)?;
    if let Some(bias) = &conv.bias {
        let window = conv.weight.dims()[1..].iter().product::<usize>();
        let bound = (1.0 / window as f64).sqrt();
        draw::uniform_(bias, -bound, bound)?;
    }
    Ok(())
}

part! {
    /// Convolutions that make a frame of each window of sound.
    pub(super) FeatureEncoder(c: &Wav2Vec2Config) first {
        let layers = (0..c.conv_dim.len()).map(|at| ConvLayer::new(c, at));
    } {
        conv_layers: Vec<ConvLayer> = layers.collect::<Result<_>>()?;
    }
    /// `[batch, samples]` to `[batch, channels, frames]`.
    forward |m, input_values| {
        let mut x = input_values.unsqueeze(1)?;
        for layer in &m.conv_layers {
            x = layer.forward(&x)?;
        }
        Ok(x)
    }
}

part! {
    /// From the feature encoder's channels to the model's width.
    pub(super) FeatureProjection(c: &Wav2Vec2Config) first {
        let channels = c.conv_dim.last().copied().unwrap_or(1);
        let projection = init::linear(channels, c.hidden_size, true, 0.0)?;
        let bound = (1.0 / channels as f64).sqrt();
        draw::uniform_(&projection.weight, -bound, bound)?;
        if let Some(bias) = &projection.bias {
            draw::uniform_(bias, -bound, bound)?;
        }
    } {
        pub(super) layer_norm: LayerNorm = init::layer_norm(channels, c.layer_norm_eps)?;
        projection: Linear = projection;
        dropout: Dropout = Dropout::new(c.feat_proj_dropout)?;
    }
    forward |m, x| m.project(&m.layer_norm.forward(x)?)
}

impl FeatureProjection {
    /// Of frames that the norm has gone over.
    pub(super) fn project(&self, normed: &Tensor) -> Result<Tensor> {
        self.dropout.forward(&self.projection.forward(normed)?)
    }
}
