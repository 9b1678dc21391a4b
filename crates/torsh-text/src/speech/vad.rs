//! Where someone speaks: Silero VAD.

use std::path::Path;

use torsh_functional as F;
use torsh_nn::StateDict;
use torsh_tensor::{Conv1dOptions, PadOptions, Result, Tensor, TorshError, no_grad, zeros};

use super::MelSpectrogram;

/// The network's tensors and their shapes, where it is that for 16 kHz.
const TENSORS: [(&str, &[usize]); 15] = [
    ("stft_conv.weight", &[258, 1, 256]),
    ("conv1.weight", &[128, 129, 3]),
    ("conv1.bias", &[128]),
    ("conv2.weight", &[64, 128, 3]),
    ("conv2.bias", &[64]),
    ("conv3.weight", &[64, 64, 3]),
    ("conv3.bias", &[64]),
    ("conv4.weight", &[128, 64, 3]),
    ("conv4.bias", &[128]),
    ("lstm_cell.weight_ih", &[512, 128]),
    ("lstm_cell.weight_hh", &[512, 128]),
    ("lstm_cell.bias_ih", &[512]),
    ("lstm_cell.bias_hh", &[512]),
    ("final_conv.weight", &[1, 128, 1]),
    ("final_conv.bias", &[1]),
];

/// The names of the encoder's four layers of convolutions.
const LAYERS: [(&str, &str, i64); 4] = [
    ("conv1.weight", "conv1.bias", 1),
    ("conv2.weight", "conv2.bias", 2),
    ("conv3.weight", "conv3.bias", 2),
    ("conv4.weight", "conv4.bias", 1),
];

/// Samples that precede a chunk: the last ones of the chunk before.
const CONTEXT: usize = 64;
/// The most chunks that are computed together.
const TOGETHER: usize = 128;

/// Voice activity detection by Silero's network: the probability that someone speaks, for each 32 ms of a sound at 16
/// kHz. It reads a sound in pieces of any length, as they come.
///
/// ```no_run
/// use torsh_text::speech::{SpeechOptions, Vad, read_wav};
/// let mut vad = Vad::from_file("silero_vad_16k.safetensors")?;
/// let sound = read_wav("speech.wav")?.at_rate(16000)?;
/// for piece in sound.samples.chunks(1600) {
///     let probabilities = vad.push(piece)?;
///     println!("{probabilities:?}");
/// }
/// for speech in vad.segments(&sound.samples, &SpeechOptions::new())? {
///     println!("{:.2} to {:.2} seconds", speech.start_seconds(), speech.end_seconds());
/// }
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub struct Vad {
    tensors: StateDict,
    hidden: Tensor,
    cell: Tensor,
    /// The last samples of the last chunk, then those that fill no chunk yet.
    pending: Vec<f32>,
}

/// A stretch of speech, in samples at 16 kHz.
///
/// ```
/// use torsh_text::speech::SpeechSegment;
/// let speech = SpeechSegment { start: 16_000, end: 24_000 };
/// assert_eq!((speech.start_seconds(), speech.end_seconds()), (1.0, 1.5));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpeechSegment {
    /// Its first sample.
    pub start: usize,
    /// The sample behind its last one.
    pub end: usize,
}

impl SpeechSegment {
    /// Where it begins, in seconds.
    pub fn start_seconds(&self) -> f64 {
        self.start as f64 / f64::from(MelSpectrogram::SAMPLE_RATE)
    }

    /// Where it ends, in seconds.
    pub fn end_seconds(&self) -> f64 {
        self.end as f64 / f64::from(MelSpectrogram::SAMPLE_RATE)
    }
}

/// How [`Vad::segments`] makes stretches of probabilities. Names and defaults are those of Silero's
/// `get_speech_timestamps`.
///
/// ```
/// use torsh_text::speech::SpeechOptions;
/// let options = SpeechOptions::new().min_silence_duration_ms(500);
/// assert_eq!((options.threshold, options.min_silence_duration_ms), (0.5, 500));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SpeechOptions {
    /// From this probability on a stretch begins; one ends where it falls 0.15 below.
    pub threshold: f32,
    /// Shorter stretches are left out.
    pub min_speech_duration_ms: usize,
    /// Shorter pauses end no stretch.
    pub min_silence_duration_ms: usize,
    /// By how much each stretch is made longer at both ends.
    pub speech_pad_ms: usize,
}

impl Default for SpeechOptions {
    fn default() -> Self {
        SpeechOptions {
            threshold: 0.5,
            min_speech_duration_ms: 250,
            min_silence_duration_ms: 100,
            speech_pad_ms: 30,
        }
    }
}

macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident: $ty:ty;)*) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $name(mut self, $name: $ty) -> SpeechOptions {
            self.$name = $name;
            self
        }
    )*};
}

impl SpeechOptions {
    /// Options with Silero's defaults.
    ///
    /// ```
    /// use torsh_text::speech::SpeechOptions;
    /// let options = SpeechOptions::new();
    /// assert_eq!((options.threshold, options.min_speech_duration_ms), (0.5, 250));
    /// assert_eq!((options.min_silence_duration_ms, options.speech_pad_ms), (100, 30));
    /// ```
    pub fn new() -> SpeechOptions {
        SpeechOptions::default()
    }

    setters! {
        /// Sets the probability from which a stretch begins.
        threshold: f32;
        /// Sets the length of the shortest stretch.
        min_speech_duration_ms: usize;
        /// Sets the length of the shortest pause.
        min_silence_duration_ms: usize;
        /// Sets by how much each stretch is made longer at both ends.
        speech_pad_ms: usize;
    }
}

impl Vad {
    /// Samples of a chunk, each of which gets a probability.
    pub const CHUNK: usize = 512;

    /// The network of a file, `silero_vad_16k.safetensors`.
    ///
    /// # Errors
    /// No such file, one that is broken, and as [`Vad::new`].
    #[torsh_tensor::names_caller(Self)]
    pub fn from_file(path: impl AsRef<Path>) -> Result<Vad> {
        Vad::new(torsh_hub::load_state_dict(path)?)
    }

    /// Makes the network of these tensors, by the names of the file.
    ///
    /// # Errors
    /// A tensor that is missing or has another shape.
    ///
    /// ```
    /// use torsh_nn::StateDict;
    /// use torsh_text::speech::Vad;
    /// let error = Vad::new(StateDict::new()).err().map(|e| e.to_string());
    /// assert!(error.is_some_and(|e| e.contains("the file has no tensor stft_conv.weight")));
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn new(tensors: StateDict) -> Result<Vad> {
        for (name, shape) in TENSORS {
            match tensors.get(name) {
                Some(t) if t.dims() == shape && t.dtype().is_floating_point() => {}
                Some(t) => {
                    let why = format!("{name} is {}, expected {shape:?}", t.describe());
                    return Err(TorshError::shape("Vad", why));
                }
                None => {
                    let why = format!("the file has no tensor {name}");
                    return Err(TorshError::format("Vad", why)
                        .with_hint("the network's file is silero_vad_16k.safetensors"));
                }
            }
        }
        Ok(Vad {
            tensors,
            hidden: zeros([1, 128]),
            cell: zeros([1, 128]),
            pending: vec![0.0; CONTEXT],
        })
    }

    /// Forgets what came so far: the next sample begins another sound.
    pub fn reset(&mut self) {
        self.hidden = zeros([1, 128]);
        self.cell = zeros([1, 128]);
        self.pending = vec![0.0; CONTEXT];
    }

    /// Reads further samples at 16 kHz and gives the probabilities of the chunks of 512 samples that are complete now.
    ///
    /// # Errors
    /// Samples that are no numbers; they are not read.
    #[torsh_tensor::names_caller]
    pub fn push(&mut self, samples: &[f32]) -> Result<Vec<f32>> {
        if let Some(at) = samples.iter().position(|v| !v.is_finite()) {
            return Err(TorshError::invalid(
                "Vad::push",
                format!("sample {at} is {}", samples[at]),
            ));
        }
        self.pending.extend_from_slice(samples);
        let chunks = (self.pending.len() - CONTEXT) / Self::CHUNK;
        let mut out = Vec::with_capacity(chunks);
        for first in (0..chunks).step_by(TOGETHER) {
            let count = TOGETHER.min(chunks - first);
            let of = |chunk: usize| {
                &self.pending[(first + chunk) * Self::CHUNK..][..CONTEXT + Self::CHUNK]
            };
            let x: Vec<f32> = (0..count).flat_map(of).copied().collect();
            let (hidden, cell) = (self.hidden.clone(), self.cell.clone());
            let (probabilities, hidden, cell) = no_grad(|| self.chunks(x, count, hidden, cell))?;
            (self.hidden, self.cell) = (hidden, cell);
            out.extend(probabilities);
        }
        self.pending.drain(..chunks * Self::CHUNK);
        Ok(out)
    }

    fn tensor(&self, name: &str) -> Result<&Tensor> {
        let missing = || TorshError::invalid("Vad", format!("no tensor {name}"));
        self.tensors.get(name).ok_or_else(missing)
    }

    /// The probabilities of some chunks with their contexts, and the state behind them.
    fn chunks(
        &self,
        samples: Vec<f32>,
        count: usize,
        mut hidden: Tensor,
        mut cell: Tensor,
    ) -> Result<(Vec<f32>, Tensor, Tensor)> {
        let x = Tensor::from_vec(samples, [count, 1, CONTEXT + Self::CHUNK])?;
        let x = F::pad_with(&x, [0, 64], PadOptions::new().mode("reflect"))?;
        // A short-time Fourier transform as a convolution: 129 cosines, 129 sines, of which the moduli.
        let options = Conv1dOptions::new().stride(128);
        let x = F::conv1d_with(&x, self.tensor("stft_conv.weight")?, None, options)?;
        let (re, im) = (x.narrow(1, 0, 129)?, x.narrow(1, 129, 129)?);
        let mut x = re.square()?.add(&im.square()?)?.sqrt()?;
        for (weight, bias, stride) in LAYERS {
            let options = Conv1dOptions::new().stride(stride).padding(1);
            x = F::conv1d_with(&x, self.tensor(weight)?, self.tensor(bias)?, options)?.relu()?;
        }
        let x = x.squeeze(-1)?;
        let mut states = Vec::with_capacity(count);
        for chunk in 0..count {
            (hidden, cell) = F::lstm_cell(
                &x.narrow(0, chunk, 1)?,
                (&hidden, &cell),
                self.tensor("lstm_cell.weight_ih")?,
                self.tensor("lstm_cell.weight_hh")?,
                self.tensor("lstm_cell.bias_ih")?,
                self.tensor("lstm_cell.bias_hh")?,
            )?;
            states.push(hidden.clone());
        }
        let states = Tensor::cat(&states, 0)?.relu()?;
        let weight = self.tensor("final_conv.weight")?.squeeze(-1)?;
        let y = F::linear(&states, &weight, self.tensor("final_conv.bias")?)?;
        Ok((y.sigmoid()?.to_vec::<f32>()?, hidden, cell))
    }

    /// The stretches of a whole sound at 16 kHz in which someone speaks. It begins and ends with a reset.
    ///
    /// # Errors
    /// As [`Vad::push`].
    #[torsh_tensor::names_caller]
    pub fn segments(
        &mut self,
        samples: &[f32],
        options: &SpeechOptions,
    ) -> Result<Vec<SpeechSegment>> {
        self.reset();
        let rest = samples.len().next_multiple_of(Self::CHUNK) - samples.len();
        let probabilities = self.push(samples).and_then(|mut all| {
            all.extend(self.push(&vec![0.0; rest])?);
            Ok(all)
        });
        self.reset();
        Ok(stretches(&probabilities?, samples.len(), options))
    }
}

/// The stretches of a sound of `length` samples.
fn stretches(probabilities: &[f32], length: usize, o: &SpeechOptions) -> Vec<SpeechSegment> {
    let samples = |ms: usize| ms * MelSpectrogram::SAMPLE_RATE as usize / 1000;
    let shortest = samples(o.min_speech_duration_ms);
    let pause = samples(o.min_silence_duration_ms);
    let below = (o.threshold - 0.15).max(0.01);
    let mut found: Vec<SpeechSegment> = Vec::new();
    let mut begun: Option<usize> = None;
    let mut quiet: Option<usize> = None;
    for (i, &p) in probabilities.iter().enumerate() {
        let at = i * Vad::CHUNK;
        if p >= o.threshold {
            quiet = None;
            begun = begun.or(Some(at));
        } else if p < below
            && let Some(start) = begun
        {
            let end = *quiet.get_or_insert(at);
            if at - end >= pause {
                if end - start > shortest {
                    found.push(SpeechSegment { start, end });
                }
                (begun, quiet) = (None, None);
            }
        }
    }
    if let Some(start) = begun
        && length.saturating_sub(start) > shortest
    {
        found.push(SpeechSegment { start, end: length });
    }
    // Longer at both ends, as far as there is room between two of them.
    let pad = samples(o.speech_pad_ms);
    let before = found.clone();
    for (i, segment) in found.iter_mut().enumerate() {
        let room = |gap: usize| if gap < 2 * pad { gap / 2 } else { pad };
        segment.start -= match i.checked_sub(1).map(|j| before[j].end) {
            Some(end) => room(segment.start - end),
            None => pad.min(segment.start),
        };
        segment.end += match before.get(i + 1) {
            Some(next) => room(next.start - segment.end),
            None => pad.min(length - segment.end),
        };
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_become_stretches() {
        // 20 chunks of speech, a short pause, 10 of speech, a long pause, a click, silence.
        let of = |n: usize, p: f32| std::iter::repeat_n(p, n);
        let p: Vec<f32> = of(2, 0.1)
            .chain(of(20, 0.9))
            .chain(of(2, 0.1))
            .chain(of(10, 0.8))
            .chain(of(20, 0.1))
            .chain(of(1, 0.9))
            .chain(of(20, 0.1))
            .collect();
        let got = stretches(&p, p.len() * 512, &SpeechOptions::new());
        let wanted = [SpeechSegment {
            start: 2 * 512 - 480,
            end: 34 * 512 + 480,
        }];
        assert_eq!(got, wanted);
        let none = SpeechOptions::new().threshold(0.95);
        assert_eq!(stretches(&p, p.len() * 512, &none), []);
    }

    #[test]
    fn wrong_tensors_are_named() {
        let error = Vad::new(StateDict::new()).err().map(|e| e.to_string());
        assert!(error.is_some_and(|e| e.contains("stft_conv.weight")));
        let all = TENSORS.map(|(name, shape)| (name, zeros(shape)));
        let mut state: StateDict = all.into();
        assert!(Vad::new(state.clone()).is_ok());
        state.insert("conv3.bias", zeros([63]));
        let error = Vad::new(state).err().map(|e| e.to_string());
        assert!(error.is_some_and(|e| e.contains("conv3.bias")));
    }

    #[test]
    fn pieces_of_any_length_give_the_same() -> Result<()> {
        torsh_core::random::manual_seed(1);
        let draw = |shape: &[usize]| torsh_tensor::randn(shape).mul(0.1);
        let mut state = StateDict::new();
        for (name, shape) in TENSORS {
            state.insert(name, draw(shape)?);
        }
        let sound: Vec<f32> = (0..5000).map(|i| ((i * i) as f32 * 1e-4).sin()).collect();
        let mut vad = Vad::new(state)?;
        let whole = vad.push(&sound)?;
        assert_eq!(whole.len(), 9);
        vad.reset();
        let mut parts = Vec::new();
        for piece in sound.chunks(333) {
            parts.extend(vad.push(piece)?);
        }
        let near = whole.iter().zip(&parts).all(|(a, b)| (a - b).abs() < 1e-6);
        assert!(near && parts.len() == 9, "{whole:?} {parts:?}");
        assert!(vad.push(&[f32::NAN]).is_err());
        Ok(())
    }
}
