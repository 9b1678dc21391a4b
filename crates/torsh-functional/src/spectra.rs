//! Spectrograms.

use torsh_tensor::{IntoDim, IstftOptions, Result, StftOptions, Tensor};

/// The short-time Fourier transform (`torch.stft`): the spectra of frames of `n_fft` samples, a quarter of that apart.
///
/// A signal `[L]` or `[B, L]` gives complex spectra `[n_fft / 2 + 1, T]` or `[B, n_fft / 2 + 1, T]`. float32,
/// float64, complex64 and complex128; an error for other dtypes and ranks, and for too short a signal.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::ones;
/// assert_eq!(F::stft(&ones(&[2, 64]), 16)?.dims(), [2, 9, 17]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn stft(input: &Tensor, n_fft: impl IntoDim) -> Result<Tensor> {
    input.stft(n_fft)
}

/// [`stft`] with PyTorch's keyword arguments.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::{StftOptions, ones};
/// assert_eq!(F::stft_with(&ones(&[64]), 16, StftOptions::new().center(false))?.dims(), [9, 13]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn stft_with(input: &Tensor, n_fft: impl IntoDim, options: StftOptions) -> Result<Tensor> {
    input.stft_with(n_fft, options)
}

/// The inverse of [`stft`] (`torch.istft`), by adding up windowed frames.
///
/// Spectra `[n_fft / 2 + 1, T]` or `[B, n_fft / 2 + 1, T]` give a real signal `[L]` or `[B, L]`. An error where the
/// windows leave a gap.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::ones;
/// let x = ones(&[64]);
/// assert!(F::istft(&F::stft(&x, 16)?, 16)?.allclose(&x)?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn istft(input: &Tensor, n_fft: impl IntoDim) -> Result<Tensor> {
    input.istft(n_fft)
}

/// [`istft`] with PyTorch's keyword arguments.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::{IstftOptions, ones};
/// let spectra = F::stft(&ones(&[64]), 16)?;
/// assert_eq!(F::istft_with(&spectra, 16, IstftOptions::new().length(50))?.dims(), [50]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn istft_with(input: &Tensor, n_fft: impl IntoDim, options: IstftOptions) -> Result<Tensor> {
    input.istft_with(n_fft, options)
}
