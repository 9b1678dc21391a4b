//! Fourier transforms, spectrograms and windows: values of PyTorch, shapes without data, and what is refused.

use torsh_tensor::fft::{self, FftNorm, FftOptions, FftnOptions};
use torsh_tensor::signal::windows;
use torsh_tensor::{
    DType, Device, IstftOptions, Result, StftOptions, Tensor, arange, hann_window, ones, zeros,
};

fn wave(n: usize) -> Result<Tensor> {
    arange(0.0, n as f64, 1.0).sin()
}

fn assert_close(t: &Tensor, expected: &[f64]) -> Result<()> {
    let ours = t.reshape([-1])?.to_vec::<f64>()?;
    for (a, b) in ours.iter().zip(expected) {
        assert!((a - b).abs() < 2e-5 * b.abs().max(1.0), "{a} is not {b}");
    }
    Ok(())
}

#[test]
fn transforms_are_pytorchs() -> Result<()> {
    let x = wave(30)?.reshape([5, 6])?;
    let ortho = FftnOptions {
        norm: FftNorm::Ortho,
        ..FftnOptions::new().dim([0, 1])
    };
    let y = fft::rfftn_with(&x, ortho)?.abs()?;
    assert_close(&y, &[0.231519, 2.464173, 0.080047, 0.048017, 0.024954])?;
    let y = fft::hfftn_with(&x, FftnOptions::new().s([4, 7]).dim([0, 1]))?;
    assert_close(&y, &[14.254807, -4.356019, -6.794823, -1.460977])
}

#[test]
fn spectrograms_are_pytorchs() -> Result<()> {
    let (signal, window) = (wave(40)?, hann_window(8)?);
    let options = StftOptions::new()
        .hop_length(4)
        .win_length(8)
        .window(window.clone());
    let aligned = options.clone().center(false).align_to_window(true);
    let y = signal.stft_with(16, aligned)?;
    assert_eq!(y.dims(), [9, 9]);
    assert_close(&y.abs()?, &[0.920457, 1.203302, 0.652604, 0.350161])?;
    assert_close(&y.abs()?.sum()?, &[74.877899])?;
    let normalized = options.normalized(true).pad_mode("replicate");
    let y = signal.stft_with(16, normalized)?;
    assert_close(&y.abs()?.sum()?, &[23.171854])?;
    let back = IstftOptions::new()
        .hop_length(4)
        .win_length(8)
        .window(window);
    let same = y.istft_with(16, back.clone().normalized(true).length(40))?;
    assert!(same.sub(&signal)?.abs()?.max()?.item::<f32>()? < 1e-6);
    let e = y
        .istft_with(16, back.normalized(true).length(50))
        .unwrap_err();
    assert!(
        e.to_string().starts_with("istft: window overlap add min"),
        "{e}"
    );
    Ok(())
}

#[test]
fn shapes_are_known_without_data() -> Result<()> {
    let x = zeros(&[3, 10]).to_device(Device::Meta)?;
    assert_eq!(fft::rfft(&x)?.dims(), [3, 6]);
    assert_eq!(fft::fftn(&x)?.dtype(), DType::C64);
    assert_eq!(
        fft::irfft_with(fft::rfft(&x)?, FftOptions::new().n(7))?.dims(),
        [3, 7]
    );
    assert_eq!(x.stft(4)?.dims(), [3, 3, 11]);
    let window = windows::hann_with(9, windows::WindowOptions::new().device(Device::Meta))?;
    assert_eq!((window.dims(), window.device()), (&[9][..], Device::Meta));
    Ok(())
}

#[test]
fn numbers_are_promoted_and_half_types_refused() -> Result<()> {
    let bools = Tensor::from_data(&[true, false, true], [3])?;
    assert_eq!(fft::fft(&bools)?.dtype(), DType::C64);
    let doubles = ones(&[3]).to_dtype(DType::F64)?;
    assert_eq!(fft::rfft(&doubles)?.dtype(), DType::C128);
    let e = fft::fft(ones(&[3]).to_dtype(DType::F16)?)
        .unwrap_err()
        .to_string();
    assert!(e.starts_with("fft.fft: Unsupported dtype float16"), "{e}");
    Ok(())
}

#[test]
fn errors_name_the_operation_and_the_operand() -> Result<()> {
    let empty = zeros(&[4, 0]).to_dtype(DType::C64)?;
    let e = fft::irfft(&empty).unwrap_err().to_string();
    assert!(
        e.starts_with("fft.irfft: dim 1 of complex64[4, 0] is empty"),
        "{e}"
    );
    let complex = zeros(&[4]).to_dtype(DType::C64)?;
    let e = fft::rfft(&complex).unwrap_err().to_string();
    assert!(
        e.starts_with("fft.rfft: expects a real input tensor"),
        "{e}"
    );
    let twice = FftnOptions::new().dim([0, 0]);
    let e = fft::fftn_with(ones(&[2, 2]), twice)
        .unwrap_err()
        .to_string();
    assert!(e.starts_with("fft.fftn: FFT dims must be unique"), "{e}");
    let e = fft::fft_with(ones(&[2]), FftOptions::new().n(0))
        .unwrap_err()
        .to_string();
    assert!(e.contains("Invalid number of data points (0)"), "{e}");
    let e = windows::kaiser(-1).unwrap_err().to_string();
    assert!(
        e.starts_with("signal.windows.kaiser: requires non-negative window length"),
        "{e}"
    );
    assert!(hann_window(1i64 << 62).is_err());
    Ok(())
}

#[test]
fn plans_of_ever_new_sizes_are_bounded() -> Result<()> {
    let run = |sizes: std::ops::Range<usize>| -> Result<()> {
        for n in sizes {
            fft::rfft(zeros(&[n]))?;
        }
        Ok(())
    };
    run(100..400)?;
    let stats = fft::plan_cache_stats();
    assert!(stats.plans <= stats.max_plans, "{stats:?}");
    assert!(stats.bytes <= stats.max_bytes, "{stats:?}");
    assert!(stats.misses >= 300, "{stats:?}");
    Ok(())
}

/// The ends of a window of three points are 1 / i0(beta): by the series and, from 24 on, by the asymptotic one.
#[test]
fn kaiser_windows_on_both_sides_of_24() -> Result<()> {
    // PyTorch's special.i0e in float64.
    for (beta, scaled) in [
        (0.0, 1.0),
        (0.5, 0.6450352704491501),
        (12.0, 0.11642622121344044),
        (23.9, 0.0820412499549627),
        (24.1, 0.08169641631699673),
        (100.0, 0.03994437929909668),
        (700.0, 0.015081295651531355),
    ] {
        let options = windows::KaiserOptions::new().beta(beta).dtype(DType::F64);
        let window = windows::kaiser_with(3, options)?.to_vec::<f64>()?;
        let end = (-beta).exp() / scaled;
        assert_eq!(window[1], 1.0);
        for got in [window[0], window[2]] {
            assert!(
                (got - end).abs() <= 4e-15 * end,
                "{beta}: {got} is not {end}"
            );
        }
    }
    Ok(())
}
