//! What wav2vec 2.0 has ahead of its encoder in training and behind it for decoders: masked spans of frames, and
//! convolutions that make the sequence shorter.

use torsh_functional as F;
use torsh_nn::construct::Construction;
use torsh_nn::{Conv1d, LayerNorm, Linear, Module, Training};
use torsh_tensor::{DType, Device, Result, Tensor, TorshError};

use super::wav2vec2_config::Wav2Vec2Config;
use super::wav2vec2_features::draw_convolution;
use crate::blocks::{LayerRun, Layers, init};

#[derive(Module)]
struct AdapterLayer {
    conv: Conv1d,
}

impl Module for AdapterLayer {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        F::glu(&self.conv.forward(x)?, 1)
    }
}

/// Convolutions behind the encoder, each of which makes the sequence shorter.
#[derive(Module)]
pub(super) struct Adapter {
    proj: Option<Linear>,
    proj_layer_norm: Option<LayerNorm>,
    layers: Layers<AdapterLayer>,
    #[module(skip)]
    layerdrop: f64,
    training: Training,
}

impl Adapter {
    pub(super) fn new(c: &Wav2Vec2Config) -> Result<Adapter> {
        let (width, out) = (c.hidden_size, c.output_size());
        let projects = width != out;
        let proj = || init::linear(width, out, true, c.initializer_range);
        let layer = |_| {
            let make = || {
                Conv1d::builder(out, 2 * out, c.adapter_kernel_size as i64)
                    .stride(c.adapter_stride as i64)
                    .padding(1)
                    .build()
            };
            let conv = Construction::new().draw_nothing().run(make)?;
            draw_convolution(&conv)?;
            Ok(AdapterLayer { conv })
        };
        Ok(Adapter {
            proj: projects.then(proj).transpose()?,
            proj_layer_norm: projects.then(|| LayerNorm::new(out)).transpose()?,
            layers: (0..c.num_adapter_layers)
                .map(layer)
                .collect::<Result<_>>()?,
            layerdrop: c.layerdrop,
            training: Training::default(),
        })
    }
}

impl Module for Adapter {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let mut x = x.clone();
        if let (Some(proj), Some(norm)) = (&self.proj, &self.proj_layer_norm) {
            x = norm.forward(&proj.forward(&x)?)?;
        }
        let run = LayerRun::default().dropping(&self.training, self.layerdrop);
        let x = x.transpose(1, 2)?;
        let x = self
            .layers
            .run_with(x, run, |layer, _, x, _| layer.forward(x))?;
        x.transpose(1, 2)
    }
}

/// Spans that are masked in training, `[rows, length]` (bool), each of `span` neighbours that begin at drawn places
/// (Park et al., "SpecAugment", 2019): about the share `probability` of a row, but at least `least` spans. Only the
/// first `lengths[row]` places of a row are drawn from.
pub(super) fn masked_spans(
    lengths: &[usize],
    length: usize,
    (probability, span, least): (f64, usize, usize),
) -> Result<Tensor> {
    if span == 0 || span > length {
        let why = format!("masked spans of {span} in a sequence of {length}");
        return Err(TorshError::invalid("SpecAugment", why).with_hint(
            "set mask_time_length and mask_feature_length to less, or apply_spec_augment to false",
        ));
    }
    // The count is rounded up or down at random.
    let rounding = Tensor::rand((), DType::F32, Device::Cpu)?.item::<f64>()?;
    let mut masked = vec![false; lengths.len() * length];
    for (row, &valid) in masked.chunks_mut(length).zip(lengths) {
        let starts = (valid + 1).saturating_sub(span);
        let count = (probability * valid as f64 / span as f64 + rounding) as usize;
        let count = count.max(least).min(length / span).min(starts);
        let order = Tensor::randperm(starts as i64, DType::I64, Device::Cpu)?;
        for start in order.to_vec::<i64>()?.into_iter().take(count) {
            row[start as usize..start as usize + span].fill(true);
        }
    }
    Tensor::from_vec(masked, [lengths.len(), length])
}

#[cfg(test)]
mod tests {
    use torsh_core::random::manual_seed;

    use super::*;

    #[test]
    fn spans_are_as_long_and_as_many_as_asked_for() -> Result<()> {
        manual_seed(3);
        let masked = masked_spans(&[40, 9, 0], 40, (0.5, 5, 2))?.to_vec2::<bool>()?;
        let count = |row: &[bool]| row.iter().filter(|&&m| m).count();
        // About four spans, which may overlap; two of the shorter row; none where there is nothing.
        assert!((5..=25).contains(&count(&masked[0])));
        assert!((6..=9).contains(&count(&masked[1])) && !masked[1][9..].contains(&true));
        assert_eq!(count(&masked[2]), 0);
        assert!(masked_spans(&[3], 3, (0.5, 5, 2)).is_err());
        Ok(())
    }
}
