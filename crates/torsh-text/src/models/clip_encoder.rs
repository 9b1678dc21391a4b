//! The transformer of both towers of CLIP.

use torsh_nn::{LayerNorm, Linear, Module};
use torsh_tensor::{Result, Tensor};

use super::encoder_layers::{Attention, Mlp};
use crate::blocks::{Activation, AttentionMask, Layers, init, part};

/// What a tower of CLIP is made of, of texts or images.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    pub(super) width: usize,
    pub(super) inner: usize,
    pub(super) layers: usize,
    pub(super) heads: usize,
    pub(super) activation: Activation,
    pub(super) eps: f64,
    pub(super) dropout: f64,
    pub(super) factor: f64,
}

part! {
    CLIPEncoderLayer(s: Sizes) first {
        let (width, out) = (s.width, s.factor / (s.width as f64).sqrt());
        let into = out / ((2 * s.layers) as f64).sqrt();
        let inner = s.factor / ((2 * width) as f64).sqrt();
    } {
        self_attn: Attention = Attention::new(width, s.heads, true, [into, out], s.dropout)?;
        layer_norm1: LayerNorm = init::layer_norm(width, s.eps)?;
        mlp: Mlp = Mlp {
            fc1: init::linear(width, s.inner, true, inner)?,
            fc2: init::linear(s.inner, width, true, into)?,
            activation: s.activation,
        };
        layer_norm2: LayerNorm = init::layer_norm(width, s.eps)?;
    }
    forward |m, x| m.run(x, &AttentionMask::full())
}

impl CLIPEncoderLayer {
    fn run(&self, x: &Tensor, mask: &AttentionMask) -> Result<Tensor> {
        let y = self.layer_norm1.forward(x)?;
        let x = self.self_attn.run(&y, mask, None)?.add(x)?;
        let y = self.mlp.forward(&self.layer_norm2.forward(&x)?)?;
        y.add(&x)
    }
}

part! {
    /// The layers of a tower.
    pub(super) CLIPEncoder(sizes: Sizes) first {
        let layers = (0..sizes.layers).map(|_| CLIPEncoderLayer::new(sizes));
    } {
        layers: Layers<CLIPEncoderLayer> = layers.collect::<Result<_>>()?;
    }
    forward |m, x| m.run(x, &AttentionMask::full())
}

impl CLIPEncoder {
    pub(super) fn run(&self, x: &Tensor, mask: &AttentionMask) -> Result<Tensor> {
        let mask = mask.clone();
        self.layers
            .run(x.clone(), move |layer, _, x| layer.run(x, &mask))
    }
}

/// A projection into the space in which texts and images meet.
pub(super) fn projection(width: usize, to: usize, factor: f64) -> Result<Linear> {
    init::linear(width, to, false, factor / (width as f64).sqrt())
}
