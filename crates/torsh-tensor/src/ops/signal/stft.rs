//! The short-time Fourier transform and its inverse.

use torsh_core::{DType, Layout, Result, Shape, TorshError};

use crate::autocast::{Autocast, body_opt};
use crate::options::options;
use crate::record::{OpRecord, sample};
use crate::{IntoDim, PadOptions, Tensor, Value};

pub(crate) const RECORDS: &[&OpRecord] = &[&STFT, &ISTFT];

options! {
    /// PyTorch's keyword arguments of `stft`.
    ///
    /// ```
    /// use torsh_tensor::{StftOptions, hann_window, ones};
    /// let options = StftOptions::new().hop_length(4).window(hann_window(16)?).center(false);
    /// assert_eq!(ones(&[64]).stft_with(16, options)?.dims(), [9, 13]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    StftOptions {
        /// The distance of frames. The default is a quarter of `n_fft`.
        hop_length: Option<i64> = None, impl IntoDim => |n| Some(n.value());
        /// The length of the window, which lies in the middle of a frame. The default is `n_fft`.
        win_length: Option<i64> = None, impl IntoDim => |n| Some(n.value());
        /// What frames are multiplied with. The default is ones.
        window: Option<Tensor> = None, impl AsRef<Tensor> => |t| Some(t.as_ref().clone());
        /// Whether frames are centred on their time, for which the signal is padded by half of `n_fft`.
        center: bool = true;
        /// How the signal is padded then: `reflect`, `constant`, `replicate` or `circular`.
        pad_mode: String = "reflect".to_string(), &str => |m| m.to_string();
        /// Whether the result is divided by the root of `n_fft`.
        normalized: bool = false;
        /// Whether the result has one half of each spectrum; where signal and window are real, unless set.
        onesided: Option<bool> = None, bool => Some;
        /// Whether the result is complex; else real, with a last dimension of 2.
        return_complex: bool = true;
        /// Whether the window, not the frame, begins at the time of a frame; only without `center`.
        align_to_window: Option<bool> = None, bool => Some;
    }
}

options! {
    /// PyTorch's keyword arguments of `istft`.
    ///
    /// ```
    /// use torsh_tensor::IstftOptions;
    /// let options = IstftOptions::new().hop_length(4).length(100);
    /// assert_eq!((options.hop_length, options.length, options.center), (Some(4), Some(100), true));
    /// ```
    IstftOptions {
        /// The distance of frames. The default is a quarter of `n_fft`.
        hop_length: Option<i64> = None, impl IntoDim => |n| Some(n.value());
        /// The length of the window, which lies in the middle of a frame. The default is `n_fft`.
        win_length: Option<i64> = None, impl IntoDim => |n| Some(n.value());
        /// The window of `stft`. The default is ones.
        window: Option<Tensor> = None, impl AsRef<Tensor> => |t| Some(t.as_ref().clone());
        /// Whether the signal was padded by half of `n_fft`.
        center: bool = true;
        /// Whether the spectra were divided by the root of `n_fft`.
        normalized: bool = false;
        /// Whether they are halves; where they have not `n_fft` elements, unless set.
        onesided: Option<bool> = None, bool => Some;
        /// The length of the result; what the frames cover unless set. More is filled with zeros.
        length: Option<i64> = None, impl IntoDim => |n| Some(n.value());
        /// Whether the result is complex.
        return_complex: bool = false;
    }
}

fn invalid(text: impl Into<String>) -> TorshError {
    TorshError::invalid("", text.into())
}

/// Hop, window length, and the window as long as a frame.
fn frame(
    n_fft: i64,
    hop_length: Option<i64>,
    win_length: Option<i64>,
    window: Option<&Tensor>,
    like: (DType, torsh_core::Device),
) -> Result<(i64, i64, Option<Tensor>)> {
    let (hop, win) = (hop_length.unwrap_or(n_fft / 4), win_length.unwrap_or(n_fft));
    if hop <= 0 {
        return Err(invalid(format!(
            "expected hop_length > 0, but got hop_length={hop}"
        )));
    }
    if win <= 0 || win > n_fft {
        return Err(invalid(format!(
            "expected 0 < win_length <= n_fft, but got win_length={win}"
        )));
    }
    if let Some(w) = window
        && (w.ndim() != 1 || w.numel() as i64 != win)
    {
        let text = format!(
            "expected a 1D window tensor of size equal to win_length={win}, but got window with size {:?}",
            w.dims()
        );
        return Err(TorshError::shape("", text));
    }
    if win == n_fft {
        return Ok((hop, win, window.cloned()));
    }
    let left = (n_fft - win) / 2;
    let window = match window {
        Some(w) => w.clone(),
        None => Tensor::ones([win], like.0, like.1)?,
    };
    Ok((
        hop,
        win,
        Some(window.constant_pad_nd([left, n_fft - win - left], 0)?),
    ))
}

fn forward(x: &Tensor, window: Option<&Tensor>, n_fft: i64, o: &StftOptions) -> Result<Tensor> {
    let dtype = x.dtype();
    if !dtype.is_differentiable() {
        let text = "expected a tensor of floating point or complex values";
        return Err(
            TorshError::dtype("", text).with_hint("convert the signal with to_dtype(DType::F32)")
        );
    }
    if !matches!(x.ndim(), 1 | 2) {
        return Err(TorshError::shape("", "expected a 1D or 2D tensor"));
    }
    if o.center && o.align_to_window.is_some() {
        return Err(invalid(
            "align_to_window should only be set when center = false",
        ));
    }
    if n_fft <= 0 || n_fft > i64::MAX / 64 {
        return Err(invalid(format!(
            "expected n_fft > 0, but got n_fft={n_fft}"
        )));
    }
    let complex = dtype.is_complex() || window.is_some_and(Tensor::is_complex);
    let onesided = o.onesided.unwrap_or(!complex);
    if complex && onesided {
        return Err(invalid(
            "Cannot have onesided output if window or input is complex",
        ));
    }
    let (hop, win, window) = frame(
        n_fft,
        o.hop_length,
        o.win_length,
        window,
        (dtype.to_real(), x.device()),
    )?;
    let mut signal = match x.ndim() {
        1 => x.unsqueeze(0)?,
        _ => x.clone(),
    };
    if o.center {
        let half = n_fft / 2;
        let padded = signal
            .unsqueeze(0)?
            .pad_with([half, half], PadOptions::new().mode(&o.pad_mode));
        signal = padded.map_err(|e| e.renamed("stft"))?.squeeze(0)?;
    } else if o.align_to_window == Some(true) {
        let left = (n_fft - win) / 2;
        signal = signal.constant_pad_nd([left, n_fft - win - left], 0)?;
    }
    let length = signal.dims()[1];
    if n_fft as u64 > length as u64 {
        return Err(invalid(format!(
            "expected 0 < n_fft < {length}, but got n_fft={n_fft}"
        )));
    }
    let mut frames = signal.unfold(1, n_fft, hop)?;
    if let Some(w) = window {
        frames = frames.mul(&w)?;
    }
    let scale = match o.normalized {
        true => 1.0 / (n_fft as f64).sqrt(),
        false => 1.0,
    };
    let spectra = match complex {
        true => crate::ops::fft::complex_last(&frames, true, scale)?,
        false => crate::ops::fft::real_last(&frames, scale, onesided)?,
    };
    let mut out = spectra.transpose(1, 2)?;
    if x.ndim() == 1 {
        out = out.squeeze(0)?;
    }
    match o.return_complex {
        true => Ok(out),
        false => out.view_as_real(),
    }
}

/// Frames of `n` elements added up, each `hop` behind the one before.
fn overlapped(frames: &Tensor, hop: usize) -> Result<Tensor> {
    let &[batch, count, n] = frames.dims() else {
        return Err(TorshError::shape("", "frames have three dimensions"));
    };
    let total = (count - 1)
        .checked_mul(hop)
        .and_then(|t| t.checked_add(n))
        .ok_or_else(|| invalid("the length of the signal overflows"))?;
    let strides = [total as isize, hop as isize, 1];
    let window = Layout::new(frames.shape().clone(), strides.into_iter().collect(), 0);
    crate::ops::strided::unwindow(frames, &Shape::from([batch, total]), &window)
}

#[track_caller]
fn inverse(x: &Tensor, window: Option<&Tensor>, n_fft: i64, o: &IstftOptions) -> Result<Tensor> {
    let site = torsh_core::CallSite::here("istft");
    let dtype = x.dtype();
    if !dtype.is_complex() {
        let text = format!(
            "requires a complex-valued input tensor matching the output from stft with return_complex=True, got {dtype}"
        );
        return Err(TorshError::dtype("", text));
    }
    if x.numel() == 0 {
        return Err(TorshError::shape("", "input tensor cannot be empty."));
    }
    if !matches!(x.ndim(), 2 | 3) {
        return Err(TorshError::shape(
            "",
            format!(
                "expected a tensor with 2 or 3 dimensions, but got {}",
                x.ndim()
            ),
        ));
    }
    if n_fft <= 0 || n_fft > i64::MAX / 64 {
        return Err(invalid(format!(
            "expected n_fft > 0, but got n_fft={n_fft}"
        )));
    }
    let spectra = match x.ndim() {
        2 => x.unsqueeze(0)?,
        _ => x.clone(),
    };
    let (points, frames) = (spectra.dims()[1] as i64, spectra.dims()[2]);
    let onesided = o.onesided.unwrap_or(points != n_fft);
    let expected = if onesided { n_fft / 2 + 1 } else { n_fft };
    if points != expected {
        let wanted = if onesided {
            "n_fft / 2 + 1 when onesided=True"
        } else {
            "n_fft when onesided=False"
        };
        return Err(TorshError::shape(
            "",
            format!(
                "expected the frequency dimension (2nd to the last) of the input tensor to match {wanted}, but got {points}"
            ),
        ));
    }
    let hop = o.hop_length.unwrap_or(n_fft / 4);
    if hop > o.win_length.unwrap_or(n_fft) {
        return Err(invalid(format!(
            "expected 0 < hop_length <= win_length, but got hop_length={hop}"
        )));
    }
    if let Some(length) = o.length.filter(|l| !(0..=i64::MAX / 64).contains(l)) {
        return Err(invalid(format!(
            "expected length >= 0, but got length={length}"
        )));
    }
    let like = (dtype.to_real(), x.device());
    let (hop, _, window) = frame(n_fft, Some(hop), o.win_length, window, like)?;
    let window = match window {
        Some(w) => w,
        None => Tensor::ones([n_fft], like.0, like.1)?,
    };
    let scale = match o.normalized {
        true => 1.0 / (n_fft as f64).sqrt(),
        false => 1.0 / n_fft as f64,
    };
    let spectra = spectra.transpose(1, 2)?;
    let signals = if o.return_complex {
        if onesided {
            return Err(invalid(
                "Cannot have onesided output if window or input is complex",
            ));
        }
        crate::ops::fft::complex_last(&spectra, false, scale)?
    } else {
        if window.is_complex() {
            return Err(invalid(
                "Complex windows are incompatible with return_complex=False",
            ));
        }
        let half = spectra.narrow(2, 0, n_fft / 2 + 1)?;
        crate::ops::fft::to_real_last(&half, scale, n_fft as usize)?
    };
    let sum = overlapped(&signals.mul(&window)?, hop as usize)?;
    let squares = window.square()?.expand([1, frames as i64, n_fft])?;
    let envelope = overlapped(&squares, hop as usize)?;
    let total = envelope.dims()[1] as i64;
    let start = if o.center { n_fft / 2 } else { 0 };
    let end = match (o.length, o.center) {
        (Some(length), _) => start + length,
        (None, true) => total - n_fft / 2,
        (None, false) => total,
    };
    let kept = (end.min(total) - start).max(0);
    let start = start.min(total);
    let (sum, envelope) = (
        sum.narrow(1, start, kept)?,
        envelope.narrow(1, start, kept)?,
    );
    if kept > 0 {
        let apart = envelope.detach().abs()?.ge(1e-11)?;
        crate::check::check(&apart, site, || {
            torsh_core::attrs::Assert::value(
                "window overlap add min: the windows leave a gap, where the signal is unknown",
            )
        })?;
    }
    let mut y = sum.div(&envelope)?;
    if end - start > kept {
        y = y.constant_pad_nd([0, end - start - kept], 0)?;
    }
    match x.ndim() {
        2 => y.squeeze(0),
        _ => Ok(y),
    }
}

#[torsh_tensor::functions]
impl Tensor {
    /// The short-time Fourier transform (`torch.stft`): the spectra of frames of `n_fft` samples, a
    /// quarter of that apart, of a signal that is padded so that frames are centred on their times.
    ///
    /// A signal of shape `[L]` or `[B, L]` gives `[n_fft / 2 + 1, T]` or `[B, n_fft / 2 + 1, T]`,
    /// complex, with `T = 1 + L / hop_length` frames; a complex signal gives all `n_fft` frequencies.
    /// float32, float64, complex64 and complex128. An error for other dtypes and ranks, and for a
    /// signal that is shorter than half a frame.
    ///
    /// ```
    /// use torsh_tensor::{arange, tensor};
    /// let signal = arange(0.0, 32.0, 1.0).mul(std::f64::consts::FRAC_PI_2)?.cos()?;
    /// let spectra = signal.stft(8)?;
    /// assert_eq!(spectra.dims(), [5, 17]);
    /// // A wave of a quarter of the sampling rate is element 2 of 5.
    /// assert_eq!(spectra.abs()?.i((.., 8))?.argmax()?, tensor![2].squeeze(0)?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn stft(&self, n_fft: impl IntoDim) -> Result<Tensor> {
        self.stft_with(n_fft, StftOptions::new())
    }

    /// [`Tensor::stft`] with PyTorch's keyword arguments.
    ///
    /// ```
    /// use torsh_tensor::{StftOptions, hann_window, ones};
    /// let window = hann_window(8)?;
    /// let spectra = ones(&[2, 32]).stft_with(8, StftOptions::new().window(window).hop_length(8))?;
    /// assert_eq!(spectra.dims(), [2, 5, 5]);
    /// assert!(spectra.i((0, 0, 1))?.real()?.allclose(&torsh_tensor::tensor!(4.0))?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn stft_with(&self, n_fft: impl IntoDim, options: StftOptions) -> Result<Tensor> {
        let window = options.window.as_ref();
        let r = body_opt(Autocast::Fp32, [self], window, |[x], window| {
            forward(x, window, n_fft.value(), &options)
        });
        self.named("stft", r.map_err(|e| e.renamed("stft")))
    }

    /// The inverse of [`Tensor::stft`] (`torch.istft`): the signal whose windowed frames are nearest
    /// to those of the spectra, by adding the frames up.
    ///
    /// Spectra of shape `[n_fft / 2 + 1, T]` or `[B, n_fft / 2 + 1, T]`, complex64 or complex128,
    /// give a real signal of shape `[L]` or `[B, L]`. An error where the windows of neighbouring
    /// frames leave a gap.
    ///
    /// ```
    /// # use torsh_tensor::arange;
    /// let signal = arange(0.0, 32.0, 1.0).sin()?;
    /// let back = signal.stft(8)?.istft(8)?;
    /// assert!(back.sub(&signal)?.abs()?.max()?.item::<f32>()? < 1e-5);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn istft(&self, n_fft: impl IntoDim) -> Result<Tensor> {
        self.istft_with(n_fft, IstftOptions::new())
    }

    /// [`Tensor::istft`] with PyTorch's keyword arguments.
    ///
    /// ```
    /// use torsh_tensor::{IstftOptions, arange};
    /// let signal = arange(0.0, 32.0, 1.0);
    /// let back = signal.stft(8)?.istft_with(8, IstftOptions::new().length(20))?;
    /// assert!(back.allclose(&signal.narrow(0, 0, 20)?)? || back.sub(&signal.narrow(0, 0, 20)?)?.abs()?.max()?.item::<f32>()? < 1e-4);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn istft_with(&self, n_fft: impl IntoDim, options: IstftOptions) -> Result<Tensor> {
        let window = options.window.as_ref();
        let r = body_opt(Autocast::Fp32, [self], window, |[x], window| {
            inverse(x, window, n_fft.value(), &options)
        });
        self.named("istft", r.map_err(|e| e.renamed("istft")))
    }
}

pub static STFT: OpRecord = OpRecord::new(
    "stft",
    "The short-time Fourier transform: the spectra of windowed frames of a signal.",
    "(Tensor input, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool center=True, str pad_mode='reflect', bool normalized=False, bool? onesided=None, bool? return_complex=None, bool? align_to_window=None)",
)
.autocast(Autocast::Fp32)
.by_name(|b| {
    let x = b.tensor(0)?;
    let flag = |i: usize| (!b.is_none(i)).then(|| b.bool(i));
    let complex = x.is_complex() || b.opt_tensor(4).is_some_and(Tensor::is_complex);
    let Some(return_complex) = flag(9).or(complex.then_some(true)) else {
        return Err(TorshError::invalid("stft", "requires the return_complex parameter be given for real inputs"));
    };
    let options = StftOptions {
        hop_length: b.opt_int(2),
        win_length: b.opt_int(3),
        window: b.opt_tensor(4).cloned(),
        center: b.bool(5),
        pad_mode: b.str(6).to_string(),
        normalized: b.bool(7),
        onesided: flag(8),
        return_complex,
        align_to_window: flag(10),
    };
    x.stft_with(b.int(1), options).map(Value::Tensor)
})
.samples(|s| {
    let (x, window, z) = (s.real(&[2, 12])?, s.real(&[4])?, s.complex(&[9])?);
    Ok(vec![
        sample![&x, 4, window = &window, hop_length = 3, return_complex = true],
        sample![&x, 5, win_length = 4, window = &window, center = false, normalized = true, onesided = false, return_complex = false],
        sample![z, 4, pad_mode = "constant"],
    ])
});

#[torsh_tensor::by_name(Tensor::istft_with(.., IstftOptions))]
pub static ISTFT: OpRecord = OpRecord::new(
    "istft",
    "The inverse of the short-time Fourier transform, by adding up windowed frames.",
    "(Tensor input, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool center=True, bool normalized=False, bool? onesided=None, int? length=None, bool return_complex=False)",
)
.autocast(Autocast::Fp32)
.samples(|s| {
    let (x, whole) = (s.complex(&[2, 3, 4])?, s.complex(&[4, 3])?);
    let window = s.uniform(&[4], 0.5, 1.5)?;
    Ok(vec![
        sample![&x, 4, window = &window, hop_length = 2],
        sample![&x, 5, win_length = 4, hop_length = 2, window = &window, normalized = true, length = 7],
        sample![&x, 4, hop_length = 2, length = 12],
        sample![whole, 4, hop_length = 2, return_complex = true, center = false],
    ])
});
