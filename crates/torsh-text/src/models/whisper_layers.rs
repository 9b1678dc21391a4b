//! The encoder and the decoder of Whisper.

use torsh_core::alloc;
use torsh_functional as F;
use torsh_nn::construct;
use torsh_nn::{Conv1d, Embedding, Hooks, LayerNorm, Module, Training};
use torsh_tensor::{Result, Tensor, TorshError};

use super::causal::{check_positions, whole_step};
use super::whisper_config::WhisperConfig;
use crate::blocks::cross::{SeqToSeqLayer, ids_shape, no_encoder};
use crate::blocks::{AttentionMask, LayerRun, Layers, init, part, tokens};
use crate::generation::DecoderStep;

/// The vectors of positions `[length, channels]`: sines, then cosines, of ever longer waves.
fn sinusoids(length: usize, channels: usize) -> Result<Tensor> {
    if channels < 4 || !channels.is_multiple_of(2) {
        let why = format!("d_model = {channels} is not an even number of at least 4 channels");
        return Err(TorshError::invalid("Whisper", why));
    }
    alloc::check(length.saturating_mul(channels), size_of::<f32>())?;
    let half = channels / 2;
    let step = -(10000f64.ln() / (half - 1) as f64) as f32;
    let mut table = Vec::with_capacity(length * channels);
    for at in 0..length {
        let angle = |i: usize| at as f32 * (step * i as f32).exp();
        table.extend((0..half).map(|i| angle(i).sin()));
        table.extend((0..half).map(|i| angle(i).cos()));
    }
    Tensor::from_vec(table, [length, channels])
}

part! {
    /// The encoder of Whisper: two convolutions, then layers over frames.
    pub WhisperEncoder(c: &WhisperConfig) first {
        let conv1 = c.conv(c.num_mel_bins, 1)?;
        let like = conv1.weight.tensor();
        let positions = match construct::draws_nothing() {
            true => {
                let shape = [c.max_source_positions, c.d_model];
                Tensor::empty(shape, like.dtype(), like.device())?
            }
            false => {
                let positions = sinusoids(c.max_source_positions, c.d_model)?;
                positions.to_dtype(like.dtype())?.to_device(like.device())?
            }
        };
    } {
        /// Over the bins of a spectrogram.
        pub conv1: Conv1d = conv1;
        /// Halves the number of frames.
        pub conv2: Conv1d = c.conv(c.d_model, 2)?;
        /// The positions' vectors, which are not trained.
        pub embed_positions: Embedding = Embedding::from_pretrained(positions).build()?;
        /// The layers.
        pub layers: Layers<SeqToSeqLayer> = SeqToSeqLayer::stack(&c.layers(false), c.encoder_layers)?;
        /// The norm behind the last layer.
        pub layer_norm: LayerNorm = init::layer_norm(c.d_model, 1e-5)?;
        #[module(skip)] config: WhisperConfig = c.clone();
        training: Training = Training::default();
        hooks: Hooks = Hooks::new();
    }
    /// Frames `[batch, max_source_positions, d_model]` of a spectrogram `[batch, num_mel_bins, frames]` with twice as
    /// many frames.
    hooked |m, features| {
        let c = &m.config;
        let frames = 2 * c.max_source_positions;
        match features.dims() {
            &[_, bins, n] if bins == c.num_mel_bins && n == frames => {}
            _ => {
                return Err(TorshError::shape(
                    "Whisper",
                    format!(
                        "expected a spectrogram [batch, {}, {frames}], got {}",
                        c.num_mel_bins,
                        features.shape()
                    ),
                )
                .with_hint("pad or cut the sound to 30 seconds, as MelSpectrogram does"));
            }
        }
        let x = F::gelu(&m.conv1.forward(features)?)?;
        let x = F::gelu(&m.conv2.forward(&x)?)?;
        let x = x.transpose(1, 2)?.add(&m.embed_positions.weight)?;
        let training = m.training.get();
        let x = F::dropout(&x, c.dropout, training)?;
        let run = LayerRun::default().dropping(&m.training, c.encoder_layerdrop);
        let mask = AttentionMask::full();
        let x = SeqToSeqLayer::run_stack(&m.layers, x, mask, None, run)?;
        m.layer_norm.forward(&x)
    }
}

part! {
    /// The decoder of Whisper.
    pub WhisperDecoder(c: &WhisperConfig) first {
        let table = |count, padding| init::embedding(count, c.d_model, padding, c.init_std);
    } {
        /// The tokens' vectors.
        pub embed_tokens: Embedding = table(c.vocab_size, c.pad_token_id)?;
        /// The positions' vectors.
        pub embed_positions: Embedding = table(c.max_target_positions, None)?;
        /// The layers.
        pub layers: Layers<SeqToSeqLayer> = SeqToSeqLayer::stack(&c.layers(true), c.decoder_layers)?;
        /// The norm behind the last layer.
        pub layer_norm: LayerNorm = init::layer_norm(c.d_model, 1e-5)?;
        #[module(skip)] config: WhisperConfig = c.clone();
        training: Training = Training::default();
        hooks: Hooks = Hooks::new();
    }
    hooked |m, ids| m.run(whole_step(ids, None))
}

impl WhisperDecoder {
    pub(super) fn run(&self, step: DecoderStep<'_>) -> Result<Tensor> {
        let c = &self.config;
        check_positions("Whisper", &step, c.max_target_positions)?;
        let (_, count) = ids_shape("Whisper", step.input_ids)?;
        let encoder = step.encoder.ok_or_else(|| no_encoder("Whisper"))?;
        let positions = match step.padding {
            None => self.embed_positions.weight.narrow(0, step.past(), count)?,
            Some(_) => self.embed_positions.forward(&step.positions()?)?,
        };
        let x = tokens::vectors(&self.embed_tokens, step.input_ids)?.add(positions)?;
        let training = self.training.get();
        let x = F::dropout(&x, c.dropout, training)?;
        let past = step.cache.as_ref().map_or(0, |cache| cache.past(0));
        let mask = AttentionMask::causal(past).padding(step.padding.cloned());
        let run = LayerRun::behind(step.cache).dropping(&self.training, c.decoder_layerdrop);
        let x = SeqToSeqLayer::run_stack(&self.layers, x, mask, Some(encoder), run)?;
        self.layer_norm.forward(&x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_sines_then_cosines() -> Result<()> {
        let table = sinusoids(3, 4)?.to_vec2::<f32>()?;
        assert_eq!(table[0], [0.0, 0.0, 1.0, 1.0]);
        let near = |a: f32, b: f64| (f64::from(a) - b).abs() < 1e-6;
        assert!(
            near(table[2][0], 2f64.sin()) && near(table[2][1], 2e-4f64.sin()),
            "{table:?}"
        );
        assert!(
            near(table[1][2], 1f64.cos()) && near(table[1][3], 1e-4f64.cos()),
            "{table:?}"
        );
        assert!(sinusoids(3, 5).is_err() && sinusoids(3, 2).is_err());
        Ok(())
    }
}
