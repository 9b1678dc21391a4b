//! Sounds: where someone speaks (Silero VAD), and the pitch (CREPE).

use torsh_functional as F;
use torsh_nn::StateDict;
use torsh_tensor::{Conv2dOptions, Result as TensorResult, Tensor};
use torsh_text::speech::{Vad, read_wav};

use super::case::{Case, Results, counts, equal, numbers, text};
use super::near::{Near, argmax, norm};
use super::state::State;

/// The tensors of Silero VAD at 16 kHz: their names in its safetensors file, and in `_model` of the TorchScript archive.
const SILERO: [(&str, &str); 15] = [
    ("stft_conv.weight", "stft.forward_basis_buffer"),
    ("conv1.weight", "encoder.0.reparam_conv.weight"),
    ("conv1.bias", "encoder.0.reparam_conv.bias"),
    ("conv2.weight", "encoder.1.reparam_conv.weight"),
    ("conv2.bias", "encoder.1.reparam_conv.bias"),
    ("conv3.weight", "encoder.2.reparam_conv.weight"),
    ("conv3.bias", "encoder.2.reparam_conv.bias"),
    ("conv4.weight", "encoder.3.reparam_conv.weight"),
    ("conv4.bias", "encoder.3.reparam_conv.bias"),
    ("lstm_cell.weight_ih", "decoder.rnn.weight_ih"),
    ("lstm_cell.weight_hh", "decoder.rnn.weight_hh"),
    ("lstm_cell.bias_ih", "decoder.rnn.bias_ih"),
    ("lstm_cell.bias_hh", "decoder.rnn.bias_hh"),
    ("final_conv.weight", "decoder.decoder.2.weight"),
    ("final_conv.bias", "decoder.decoder.2.bias"),
];

/// What PyTorch 2.15 computes with the safetensors file: its numbers are not those of the other files of version 6.2.3,
/// with which the reference was computed.
const SILERO_SAFETENSORS: [f64; 24] = [
    0.0690047, 0.0608212, 0.932343, 0.987649, 0.35982, 0.657484, 0.622647, 0.844814, 0.987956,
    0.99512, 0.997293, 0.999528, 0.999954, 0.840229, 0.990651, 0.994016, 0.974073, 0.925278,
    0.996345, 0.99843, 0.999852, 0.999758, 0.999926, 0.999916,
];

pub(super) fn silero_vad(case: &Case<'_>) -> Result<Results, String> {
    let file = case.directory.join("speech.wav");
    let speech = read_wav(&file).map_err(text)?;
    equal("the rate of speech.wav", speech.rate, 16000u32)?;
    let want = numbers(case.want, "prob")?;
    let compared = |vad: Vad, want: &[f64]| -> Result<f64, String> {
        let mut vad = vad;
        let got = vad.push(&speech.samples).map_err(text)?;
        let got: Vec<f64> = got.into_iter().map(f64::from).collect();
        let mut near: Near = case.near()?;
        near.head("prob", &got, want)?;
        Ok(near.used())
    };
    let archive = State::of(&case.load("silero_vad/silero_vad.jit")?)?;
    let renamed = SILERO.iter().map(|(name, of)| {
        let tensor = archive.get(&format!("_model.{of}")).map_err(text)?;
        Ok((name.to_string(), tensor.clone()))
    });
    let script = renamed.collect::<Result<StateDict, String>>()?;
    let script = Vad::new(script).map_err(text)?;
    let file = case.path("silero_vad/silero_vad_16k.safetensors");
    let tensors = Vad::from_file(file).map_err(text)?;
    Ok(vec![
        ("silero_vad.jit".into(), compared(script, &want)),
        (
            "silero_vad_16k.safetensors".into(),
            compared(tensors, &SILERO_SAFETENSORS),
        ),
    ])
}

/// The cents of the first of CREPE's 360 bins, which are 20 apart, above 10 Hz.
const FIRST_CENTS: f64 = 1_997.379_408_437_619;

pub(super) fn crepe_tiny(case: &Case<'_>) -> Result<Results, String> {
    let state = State::of(&case.load("crepe/tiny.pth")?)?;
    let (bins, norms) = (counts(case.want, "bin")?, numbers(case.want, "out_norm")?);
    let (pitches, hz) = (numbers(case.want, "hz_in")?, numbers(case.want, "hz")?);
    let lengths = [bins.len(), norms.len(), hz.len()];
    equal("the lengths of the lists", lengths, [pitches.len(); 3])?;
    let one = |i: usize| -> Result<f64, String> {
        let out = activations(&state, pitches[i])
            .and_then(|y| y.to_vec::<f64>())
            .map_err(text)?;
        let bin = argmax(&out);
        equal("the bin", bin, bins[i])?;
        let around = bin.saturating_sub(4)..out.len().min(bin + 5);
        let weight: f64 = out[around.clone()].iter().sum();
        let cents: f64 = around
            .map(|k| out[k] * (FIRST_CENTS + 20.0 * k as f64))
            .sum();
        let pitch = 10.0 * (cents / weight / 1200.0).exp2();
        let mut near = case.near()?;
        near.number("hz", pitch, hz[i])?;
        near.number("out_norm", norm(&out), norms[i])?;
        Ok(near.used())
    };
    Ok((0..pitches.len())
        .map(|i| (format!("{} Hz", pitches[i]), one(i)))
        .collect())
}

/// The sigmoids of 360 pitches for 1,024 samples of a sine.
fn activations(state: &State, hz: f64) -> TensorResult<Tensor> {
    let turn = 2.0 * std::f64::consts::PI * hz / 16000.0;
    let sine: Vec<f32> = (0..1024)
        .map(|i| (turn * f64::from(i)).sin() as f32)
        .collect();
    let x = Tensor::from_data(&sine, [1, 1, 1024, 1])?;
    let mut x = x.sub(&x.mean()?)?.div(&x.std()?)?;
    for layer in 1..=6 {
        let (around, stride) = match layer {
            1 => ([0, 0, 254, 254], (4, 1)),
            _ => ([0, 0, 31, 32], (1, 1)),
        };
        let options = Conv2dOptions::new().stride(stride);
        let y = state.conv2d(&format!("conv{layer}"), &F::pad(&x, around)?, options)?;
        // The eps of the original, which was trained with another library.
        let y = state.batch_norm(
            &format!("conv{layer}_BN"),
            &y.relu()?,
            0.0010000000474974513,
        )?;
        x = F::max_pool2d(&y, (2, 1))?;
    }
    // [1, channels, steps, 1] to [1, steps * channels].
    let x = x.permute([0, 2, 1, 3])?.flatten(1)?;
    state.linear("classifier", &x)?.sigmoid()
}
