//! Log-mel spectrograms as Whisper reads them.

use torsh_functional as F;
use torsh_tensor::{Result, StftOptions, Tensor, TorshError, hann_window};

/// The log-mel spectrogram of a sound at 16 kHz, as `WhisperFeatureExtractor` computes it: windows of 25 ms every 10 ms,
/// their power in triangular bins of the mel scale, its logarithm, cut off 8 powers of ten below the loudest.
///
/// ```
/// use torsh_text::speech::MelSpectrogram;
/// let mel = MelSpectrogram::new(80)?;
/// let sound: Vec<f32> = (0..16000).map(|i| (i as f32 * 0.1).sin()).collect();
/// // 30 seconds, of which 29 are silent.
/// let frames = mel.padded(&sound)?;
/// assert_eq!(frames.dims(), [80, 3000]);
/// let loudest = frames.narrow(1, 50, 1)?.argmax()?.item::<i64>()?;
/// // The tone has 255 Hz, and the bins are 38 Hz wide there.
/// assert_eq!(loudest, 6);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub struct MelSpectrogram {
    /// `[bins, n_fft / 2 + 1]`: how much of each frequency falls into each bin.
    filters: Tensor,
    window: Tensor,
}

impl MelSpectrogram {
    /// Samples a second.
    pub const SAMPLE_RATE: u32 = 16000;
    /// Samples of a window.
    pub const N_FFT: usize = 400;
    /// Samples from one window to the next.
    pub const HOP_LENGTH: usize = 160;
    /// Seconds of a spectrogram that a model reads.
    pub const CHUNK_LENGTH: usize = 30;
    /// Samples of these seconds.
    pub const N_SAMPLES: usize = Self::CHUNK_LENGTH * Self::SAMPLE_RATE as usize;
    /// Frames of these seconds.
    pub const N_FRAMES: usize = Self::N_SAMPLES / Self::HOP_LENGTH;

    /// A spectrogram of so many bins: 80, or 128 for Whisper large-v3.
    ///
    /// # Errors
    /// No bins, or so many that one has no frequency.
    ///
    /// ```
    /// use torsh_text::speech::MelSpectrogram;
    /// let error = MelSpectrogram::new(300).err().map(|e| e.to_string());
    /// assert!(error.is_some_and(|e| e.contains("300 bins of 201 frequencies")));
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn new(bins: usize) -> Result<MelSpectrogram> {
        let frequencies = Self::N_FFT / 2 + 1;
        if bins == 0 || bins > frequencies {
            return Err(TorshError::invalid(
                "MelSpectrogram",
                format!("{bins} bins of {frequencies} frequencies"),
            ));
        }
        Ok(MelSpectrogram {
            filters: slaney_filters(bins, frequencies)?,
            window: hann_window(Self::N_FFT)?,
        })
    }

    /// Gives the bins' shares of the frequencies `[bins, n_fft / 2 + 1]`.
    ///
    /// ```
    /// use torsh_text::speech::MelSpectrogram;
    /// let mel = MelSpectrogram::new(80)?;
    /// assert_eq!(mel.filters().dims(), [80, 201]);
    /// // Of 40 Hz in the first bin, as librosa's.
    /// let share = mel.filters().to_vec2::<f32>()?[0][1];
    /// assert!((share - 0.024_862_594).abs() < 1e-7);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn filters(&self) -> &Tensor {
        &self.filters
    }

    /// The spectrogram `[bins, frames]` of all samples, one frame for each 160 of them.
    ///
    /// # Errors
    /// Fewer samples than half a window, which cannot be mirrored at the ends.
    ///
    /// ```
    /// use torsh_text::speech::MelSpectrogram;
    /// // A tenth of a second of silence.
    /// let frames = MelSpectrogram::new(80)?.forward(&[0.0; 1600])?;
    /// assert_eq!(frames.dims(), [80, 10]);
    /// assert_eq!((frames.min()?.item::<f32>()?, frames.max()?.item::<f32>()?), (-1.5, -1.5));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn forward(&self, samples: &[f32]) -> Result<Tensor> {
        let half = Self::N_FFT / 2;
        if samples.len() <= half {
            return Err(TorshError::invalid(
                "MelSpectrogram",
                format!("{} samples, and the least are {}", samples.len(), half + 1),
            )
            .with_hint("padded(..) fills a sound up with silence to 30 seconds"));
        }
        let sound = Tensor::from_data(samples, [samples.len()])?;
        let options = StftOptions::new()
            .hop_length(Self::HOP_LENGTH)
            .window(self.window.clone());
        let spectra = F::stft_with(&sound, Self::N_FFT, options)?;
        let frames = spectra.dims()[1] - 1;
        let power = spectra.narrow(1, 0, frames)?.abs()?.square()?;
        let logarithm = self.filters.matmul(&power)?.clamp_min(1e-10)?.log10()?;
        let floor = logarithm.max()?.sub(8.0)?;
        logarithm.maximum(&floor)?.add(4.0)?.div(4.0)
    }

    /// The spectrogram `[bins, 3000]` of 30 seconds: more samples are left out, fewer are filled up with silence.
    ///
    /// # Errors
    /// Too little memory.
    #[torsh_tensor::names_caller]
    pub fn padded(&self, samples: &[f32]) -> Result<Tensor> {
        let mut sound = samples[..samples.len().min(Self::N_SAMPLES)].to_vec();
        sound.resize(Self::N_SAMPLES, 0.0);
        self.forward(&sound)
    }
}

/// The mel scale of Slaney's Auditory Toolbox: linear up to 1000 Hz, then logarithmic.
fn to_hertz(mel: f64) -> f64 {
    const STEP: f64 = 200.0 / 3.0;
    const KNEE: f64 = 1000.0 / STEP;
    match mel < KNEE {
        true => mel * STEP,
        false => 1000.0 * ((mel - KNEE) * 6.4f64.ln() / 27.0).exp(),
    }
}

/// Triangles over the frequencies up to 8000 Hz, each from the middle of the bin before to that of the next one, and of
/// the same area.
fn slaney_filters(bins: usize, frequencies: usize) -> Result<Tensor> {
    let nyquist = f64::from(MelSpectrogram::SAMPLE_RATE) / 2.0;
    let highest = 15.0 + (nyquist / 1000.0).ln() * 27.0 / 6.4f64.ln();
    let edge = |i: usize| to_hertz(highest * i as f64 / (bins + 1) as f64);
    let mut filters = Vec::with_capacity(bins * frequencies);
    for bin in 0..bins {
        let (low, middle, high) = (edge(bin), edge(bin + 1), edge(bin + 2));
        filters.extend((0..frequencies).map(|k| {
            let hertz = nyquist * k as f64 / (frequencies - 1) as f64;
            let rise = (hertz - low) / (middle - low);
            let fall = (high - hertz) / (high - middle);
            (rise.min(fall).max(0.0) * 2.0 / (high - low)) as f32
        }));
    }
    Tensor::from_vec(filters, [bins, frequencies])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_triangles_of_one_area() -> Result<()> {
        let filters = slaney_filters(80, 201)?;
        let rows = filters.to_vec2::<f64>()?;
        // Twice as wide, half as high: the areas of wide bins are near 1.
        let area: f64 = rows[70].iter().sum::<f64>() * 40.0;
        assert!((area - 1.0).abs() < 0.02, "{area}");
        assert_eq!(
            rows.iter().filter(|r| r.iter().all(|&v| v == 0.0)).count(),
            0
        );
        // A value of librosa's filters.
        assert!((rows[0][1] - 0.024_862_594).abs() < 1e-8, "{}", rows[0][1]);
        Ok(())
    }

    #[test]
    fn silence_is_flat_and_loud_sounds_are_cut() -> Result<()> {
        let mel = MelSpectrogram::new(80)?;
        let silent = mel.padded(&[])?.to_vec::<f32>()?;
        assert!(silent.iter().all(|&v| v == -1.5));
        let mut click = vec![0.0; 1000];
        click[500] = 1.0;
        let values = mel.padded(&click)?.to_vec::<f32>()?;
        let loudest = values.iter().copied().fold(f32::MIN, f32::max);
        let quietest = values.iter().copied().fold(f32::MAX, f32::min);
        assert!(
            (loudest - quietest - 2.0).abs() < 1e-6,
            "{loudest} {quietest}"
        );
        assert!(mel.forward(&[0.0; 200]).is_err() && MelSpectrogram::new(0).is_err());
        Ok(())
    }
}
