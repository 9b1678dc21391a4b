//! Windows: `torch.signal.windows`, and `torch.hann_window` and its like.
//!
//! Each is computed in float64 and rounded once.

use std::f64::consts::PI;

use torsh_core::{DType, Device, Result, TorshError, default_dtype};

use super::i0_ratio;
use crate::options::{example, options};
use crate::record::OpRecord;
use crate::{IntoDim, Tensor, Value};

pub(crate) const RECORDS: &[&OpRecord] = &[
    &BARTLETT,
    &BLACKMAN,
    &COSINE,
    &EXPONENTIAL,
    &GAUSSIAN,
    &GENERAL_COSINE,
    &GENERAL_HAMMING,
    &HAMMING,
    &HANN,
    &KAISER,
    &NUTTALL,
    &BARTLETT_WINDOW,
    &BLACKMAN_WINDOW,
    &HAMMING_WINDOW,
    &HANN_WINDOW,
    &KAISER_WINDOW,
];

/// Options of windows: their own ones, and those that all have.
macro_rules! window_options {
    ($($(#[$doc:meta])* $name:ident $flag:ident = $default:literal, $flag_doc:literal { $($own:tt)* })*) => {$(
        options! {
            $(#[$doc])*
            $name {
                $($own)*
                #[doc = $flag_doc]
                $flag: bool = $default;
                /// The dtype. The default is the default dtype.
                dtype: Option<DType> = None, DType => Some;
                /// The device. The default is the default device.
                device: Option<Device> = None, Device => Some;
                /// Whether the window requires a gradient.
                requires_grad: bool = false;
            }
        }

        impl $name {
            fn made(&self) -> Made {
                Made {
                    symmetric: self.$flag == matches!(stringify!($flag).as_bytes(), b"sym"),
                    dtype: self.dtype,
                    device: self.device,
                    requires_grad: self.requires_grad,
                }
            }
        }
    )*};
}

window_options! {
    /// PyTorch's keyword arguments of the windows that have no others.
    ///
    /// ```
    /// use torsh_tensor::{signal::windows::{self, WindowOptions}, tensor};
    /// assert_eq!(windows::bartlett_with(4, WindowOptions::new().sym(false))?, tensor![0.0, 0.5, 1.0, 0.5]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    WindowOptions sym = true, "Whether the window is symmetric, as for filters; else periodic, as for spectra." {}
    /// PyTorch's keyword arguments of `exponential`.
    ///
    /// ```
    /// use torsh_tensor::signal::windows::ExponentialOptions;
    /// let options = ExponentialOptions::new().tau(2.0);
    /// assert_eq!((options.tau, options.center), (2.0, None));
    /// ```
    ExponentialOptions sym = true, "Whether the window is symmetric; else periodic." {
        /// The position of the peak, of a periodic window. The default is the middle.
        center: Option<f64> = None, f64 => Some;
        /// How many samples from the peak the window has fallen by a factor of e.
        tau: f64 = 1.0;
    }
    /// PyTorch's keyword arguments of `gaussian`.
    ///
    /// ```
    /// use torsh_tensor::signal::windows::GaussianOptions;
    /// assert_eq!(GaussianOptions::new().std(2.0).std, 2.0);
    /// ```
    GaussianOptions sym = true, "Whether the window is symmetric; else periodic." {
        /// The standard deviation, in samples.
        std: f64 = 1.0;
    }
    /// PyTorch's keyword arguments of `general_hamming`.
    ///
    /// ```
    /// use torsh_tensor::signal::windows::GeneralHammingOptions;
    /// assert_eq!(GeneralHammingOptions::new().alpha, 0.54);
    /// ```
    GeneralHammingOptions sym = true, "Whether the window is symmetric; else periodic." {
        /// The mean; the cosine has the rest as its amplitude.
        alpha: f64 = 0.54;
    }
    /// PyTorch's keyword arguments of `kaiser`.
    ///
    /// ```
    /// use torsh_tensor::signal::windows::KaiserOptions;
    /// assert_eq!(KaiserOptions::new().beta, 12.0);
    /// ```
    KaiserOptions sym = true, "Whether the window is symmetric; else periodic." {
        /// The shape: 0 is a rectangle, large numbers are narrow.
        beta: f64 = 12.0;
    }
    /// PyTorch's keyword arguments of `hann_window`, `bartlett_window` and `blackman_window`.
    ///
    /// ```
    /// use torsh_tensor::{PeriodicWindowOptions, hann_window_with, tensor};
    /// let symmetric = hann_window_with(3, PeriodicWindowOptions::new().periodic(false))?;
    /// assert_eq!(symmetric, tensor![0.0, 1.0, 0.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    PeriodicWindowOptions periodic = true, "Whether the window is periodic; else symmetric." {}
    /// PyTorch's keyword arguments of `hamming_window`.
    ///
    /// ```
    /// use torsh_tensor::HammingWindowOptions;
    /// let options = HammingWindowOptions::new();
    /// assert_eq!((options.alpha, options.beta, options.periodic), (0.54, 0.46, true));
    /// ```
    HammingWindowOptions periodic = true, "Whether the window is periodic; else symmetric." {
        /// The mean.
        alpha: f64 = 0.54;
        /// The amplitude of the cosine.
        beta: f64 = 0.46;
    }
    /// PyTorch's keyword arguments of `kaiser_window`.
    ///
    /// ```
    /// use torsh_tensor::KaiserWindowOptions;
    /// assert_eq!(KaiserWindowOptions::new().beta(8.0).beta, 8.0);
    /// ```
    KaiserWindowOptions periodic = true, "Whether the window is periodic; else symmetric." {
        /// The shape: 0 is a rectangle, large numbers are narrow.
        beta: f64 = 12.0;
    }
}

/// What a window is made as.
struct Made {
    symmetric: bool,
    dtype: Option<DType>,
    device: Option<Device>,
    requires_grad: bool,
}

/// The formula of a window.
#[derive(Clone, Copy)]
enum Formula<'a> {
    Bartlett,
    Cosine,
    Exponential {
        center: Option<f64>,
        tau: f64,
    },
    Gaussian {
        std: f64,
    },
    /// `sum of (-1)^i a[i] cos(2 pi i k / period)`
    Cosines(&'a [f64]),
    Kaiser {
        beta: f64,
    },
}

const BLACKMAN_TERMS: &[f64] = &[0.42, 0.5, 0.08];
const NUTTALL_TERMS: &[f64] = &[0.3635819, 0.4891775, 0.1365995, 0.0106411];

impl Formula<'_> {
    fn check(&self, op: &str, symmetric: bool) -> Result<()> {
        let why = match *self {
            // Written so that nan is refused.
            Formula::Exponential { tau, .. } if !(tau > 0.0) => {
                format!("Tau must be positive, got: {tau} instead.")
            }
            Formula::Exponential {
                center: Some(_), ..
            } if symmetric => "Center must be None for symmetric windows".to_string(),
            Formula::Gaussian { std } if !(std > 0.0) => {
                format!("Standard deviation must be positive, got: {std} instead.")
            }
            Formula::Kaiser { beta } if !(beta >= 0.0) => {
                format!("beta must be non-negative, got: {beta} instead.")
            }
            Formula::Cosines([]) => "Coefficients cannot be empty".to_string(),
            _ => return Ok(()),
        };
        Err(TorshError::invalid(op.to_string(), why))
    }

    /// Element `k` of `n`.
    fn at(&self, k: usize, n: usize, symmetric: bool) -> f64 {
        let at = k as f64;
        // The periodic window of n elements begins as the symmetric one of n + 1.
        let period = if symmetric { n - 1 } else { n } as f64;
        if n == 1
            && !matches!(
                self,
                Formula::Exponential { .. } | Formula::Gaussian { .. } | Formula::Cosine
            )
        {
            return 1.0;
        }
        let middle = if symmetric || n == 1 { n - 1 } else { n } as f64 / 2.0;
        match *self {
            Formula::Bartlett => 1.0 - (2.0 * at / period - 1.0).abs(),
            Formula::Cosine => {
                let all = if symmetric || n == 1 { n } else { n + 1 } as f64;
                (PI * (at + 0.5) / all).sin()
            }
            Formula::Exponential { center, tau } => {
                (-((at - center.unwrap_or(middle)) / tau).abs()).exp()
            }
            Formula::Gaussian { std } => {
                let x = (at - middle) / std;
                (-0.5 * x * x).exp()
            }
            Formula::Cosines(terms) => {
                let angle = 2.0 * PI * at / period;
                let each = terms.iter().enumerate();
                each.map(|(i, a)| {
                    let sign = if i % 2 == 0 { 1.0 } else { -1.0 };
                    sign * a * (i as f64 * angle).cos()
                })
                .sum()
            }
            Formula::Kaiser { beta } => {
                let x = (2.0 * at / period - 1.0).clamp(-1.0, 1.0);
                i0_ratio(beta * (1.0 - x * x).sqrt(), beta)
            }
        }
    }
}

/// A window of `n` elements. `half` says whether the half types can be had.
#[track_caller]
fn window(
    op: &'static str,
    n: i64,
    formula: Formula<'_>,
    made: &Made,
    half: bool,
) -> Result<Tensor> {
    let invalid = |text: String| Err(TorshError::invalid(op, text));
    if n < 0 {
        let (what, name) = if half {
            ("window_length", "window_length")
        } else {
            ("window length", "M")
        };
        return invalid(format!("requires non-negative {what}, got {name}={n}"));
    }
    let dtype = made.dtype.unwrap_or_else(default_dtype);
    let fine = match half {
        true => dtype.is_floating_point(),
        false => matches!(dtype, DType::F32 | DType::F64),
    };
    if !fine {
        let wanted = if half {
            "floating point"
        } else {
            "float32 or float64"
        };
        let text = format!("expects {wanted} dtypes, got: {dtype}");
        return Err(TorshError::dtype(op, text).with_hint("use DType::F32"));
    }
    formula.check(op, made.symmetric)?;
    let device = made.device.unwrap_or_else(crate::default_device);
    let at = std::panic::Location::caller();
    let t = if device.has_data() {
        let n = usize::try_from(n).unwrap_or(usize::MAX);
        let bytes = n.saturating_mul(size_of::<f64>());
        torsh_core::alloc::check(bytes, 1)
            .map_err(|e| TorshError::from(e).in_op(op, || vec![format!("{n}")], at))?;
        let values: Vec<f64> = (0..n).map(|k| formula.at(k, n, made.symmetric)).collect();
        Tensor::on_host(&values, [n])?
            .to_dtype(dtype)?
            .to_device(device)?
    } else {
        Tensor::empty([n], dtype, device).map_err(|e| e.renamed(op))?
    };
    if made.requires_grad {
        t.set_requires_grad(true)?;
    }
    Ok(t)
}

/// The windows of `torch.signal.windows`: docs, names, options, formula, docs of the `_with`, example.
macro_rules! windows {
    ($(
        $(#[doc = $doc:literal])+
        $name:ident $with:ident $record:ident $op:literal $options:ident ($($extra:ident: $ty:ty, $value:expr)?)
            |$o:ident| $formula:expr, $schema:literal |$b:ident, $i:ident| { $($field:ident: $read:expr),* }, $about:literal, $code:literal;
    )*) => {$(
        pub static $record: OpRecord = OpRecord::new(
            $op,
            $about,
            concat!("(int M, *, ", $schema, "bool sym=True, ScalarType? dtype=None, Any layout=None, Device? device=None, bool requires_grad=False)"),
        )
        .constant()
        .by_name(|$b| {
            let $i = $b.len() - 5;
            let $o = &$options {
                $($field: $read,)*
                sym: $b.bool($i),
                dtype: $b.dtype($i + 1),
                device: $b.device($i + 3),
                requires_grad: $b.bool($i + 4),
            };
            $(let $extra: $ty = $value;)?
            window($op, $b.int(0), $formula, &$o.made(), false).map(Value::Tensor)
        });

        $(#[doc = $doc])+
        ///
        /// float32 or float64. An error for a negative length, for other dtypes, and for numbers that the formula does
        /// not take.
        #[doc = example!(concat!("use torsh_tensor::{signal::windows, tensor};\n", $code))]
        #[torsh_tensor::names_caller]
        pub fn $name(m: impl IntoDim $(, $extra: $ty)?) -> Result<Tensor> {
            let $o = &$options::new();
            window($op, m.value(), $formula, &$o.made(), false)
        }

        #[doc = concat!("[`", stringify!($name), "`] with PyTorch's keyword arguments.")]
        #[doc = example!(concat!(
            "use torsh_tensor::{DType, signal::windows::{self, ", stringify!($options), "}};\n",
            "let options = ", stringify!($options), "::new().dtype(DType::F64);\n",
            "let window = windows::", stringify!($with), "(5", $(concat!(", &", stringify!([0.5, 0.5]), windows!(@nothing $extra)),)? ", options)?;\n",
            "assert_eq!((window.dims(), window.dtype()), (&[5][..], DType::F64));"
        ))]
        #[torsh_tensor::names_caller]
        pub fn $with(m: impl IntoDim $(, $extra: $ty)?, options: $options) -> Result<Tensor> {
            let $o = &options;
            window($op, m.value(), $formula, &$o.made(), false)
        }
    )*};
    (@nothing $extra:ident) => { "" };
}

windows! {
    /// The triangle (Bartlett window): `1 - |2 k / (m - 1) - 1|`.
    bartlett bartlett_with BARTLETT "signal.windows.bartlett" WindowOptions () |_o| Formula::Bartlett, "" |b, i| {},
        "The triangle window.", "assert_eq!(windows::bartlett(5)?, tensor![0.0, 0.5, 1.0, 0.5, 0.0]);";
    /// The Blackman window: three cosine terms, 0.42, 0.5 and 0.08.
    blackman blackman_with BLACKMAN "signal.windows.blackman" WindowOptions () |_o| Formula::Cosines(BLACKMAN_TERMS), "" |b, i| {},
        "The Blackman window.", "assert!(windows::blackman(5)?.allclose(&tensor![0.0, 0.34, 1.0, 0.34, 0.0])?);";
    /// Half a wave of the sine: `sin(pi (k + 0.5) / m)`.
    cosine cosine_with COSINE "signal.windows.cosine" WindowOptions () |_o| Formula::Cosine, "" |b, i| {},
        "Half a wave of the sine.", "assert!(windows::cosine(3)?.allclose(&tensor![0.5, 1.0, 0.5])?);";
    /// The exponential window: `exp(-|k - center| / tau)`.
    exponential exponential_with EXPONENTIAL "signal.windows.exponential" ExponentialOptions ()
        |o| Formula::Exponential { center: o.center, tau: o.tau }, "float? center=None, float tau=1.0, " |b, i| { center: b.opt_float(1), tau: b.float(2) },
        "The exponential window.", "assert!(windows::exponential(3)?.allclose(&tensor![0.367879, 1.0, 0.367879])?);";
    /// The Gaussian window: `exp(-(k - (m - 1) / 2)^2 / (2 std^2))`.
    gaussian gaussian_with GAUSSIAN "signal.windows.gaussian" GaussianOptions ()
        |o| Formula::Gaussian { std: o.std }, "float std=1.0, " |b, i| { std: b.float(1) },
        "The Gaussian window.", "assert!(windows::gaussian(3)?.allclose(&tensor![0.606531, 1.0, 0.606531])?);";
    /// A sum of cosines with the coefficients `a`: `sum of (-1)^i a[i] cos(2 pi i k / (m - 1))`. Without any it is an
    /// error.
    general_cosine general_cosine_with GENERAL_COSINE "signal.windows.general_cosine" WindowOptions (a: &[f64], &b.opt_floats(1).unwrap_or_default())
        |_o| Formula::Cosines(a), "float[] a, " |b, i| {},
        "A sum of cosines.", "assert!(windows::general_cosine(5, &[0.5, 0.5])?.allclose(&tensor![0.0, 0.5, 1.0, 0.5, 0.0])?);";
    /// The general Hamming window: `alpha - (1 - alpha) cos(2 pi k / (m - 1))`, with `alpha` 0.54 unless it is set.
    general_hamming general_hamming_with GENERAL_HAMMING "signal.windows.general_hamming" GeneralHammingOptions ()
        |o| Formula::Cosines(&[o.alpha, 1.0 - o.alpha]), "float alpha=0.54, " |b, i| { alpha: b.float(1) },
        "The general Hamming window.", "assert!(windows::general_hamming(3)?.allclose(&tensor![0.08, 1.0, 0.08])?);";
    /// The Hamming window: `0.54 - 0.46 cos(2 pi k / (m - 1))`.
    hamming hamming_with HAMMING "signal.windows.hamming" WindowOptions () |_o| Formula::Cosines(&[0.54, 1.0 - 0.54]), "" |b, i| {},
        "The Hamming window.", "assert!(windows::hamming(3)?.allclose(&tensor![0.08, 1.0, 0.08])?);";
    /// The Hann window: `0.5 - 0.5 cos(2 pi k / (m - 1))`.
    hann hann_with HANN "signal.windows.hann" WindowOptions () |_o| Formula::Cosines(&[0.5, 0.5]), "" |b, i| {},
        "The Hann window.", "assert!(windows::hann(5)?.allclose(&tensor![0.0, 0.5, 1.0, 0.5, 0.0])?);";
    /// The Kaiser window: `i0(beta sqrt(1 - (2 k / (m - 1) - 1)^2)) / i0(beta)`, with `beta` 12 unless it is set.
    kaiser kaiser_with KAISER "signal.windows.kaiser" KaiserOptions () |o| Formula::Kaiser { beta: o.beta }, "float beta=12.0, " |b, i| { beta: b.float(1) },
        "The Kaiser window.", "assert!(windows::kaiser(3)?.allclose(&tensor![0.00005277, 1.0, 0.00005277])?);";
    /// The minimum 4-term Blackman-Harris window by Nuttall.
    nuttall nuttall_with NUTTALL "signal.windows.nuttall" WindowOptions () |_o| Formula::Cosines(NUTTALL_TERMS), "" |b, i| {},
        "The Nuttall window.", "assert!(windows::nuttall(3)?.allclose(&tensor![0.0003628, 1.0, 0.0003628])?);";
}

/// The windows of `torch` itself, periodic unless told otherwise.
macro_rules! periodic_windows {
    ($(
        $(#[doc = $doc:literal])+
        $name:ident $with:ident $record:ident $options:ident |$o:ident| $formula:expr,
            $schema:literal |$b:ident| { $($field:ident: $read:expr),* }, $about:literal, $code:literal;
    )*) => {$(
        pub static $record: OpRecord = OpRecord::new(
            stringify!($name),
            $about,
            concat!("(int window_length, bool periodic=True, ", $schema, "*, ScalarType? dtype=None, Any layout=None, Device? device=None, Any pin_memory=None, bool requires_grad=False)"),
        )
        .constant()
        .by_name(|$b| {
            let i = $b.len() - 5;
            let $o = &$options {
                $($field: $read,)*
                periodic: $b.bool(1),
                dtype: $b.dtype(i),
                device: $b.device(i + 2),
                requires_grad: $b.bool(i + 4),
            };
            window(stringify!($name), $b.int(0), $formula, &$o.made(), true).map(Value::Tensor)
        });

        $(#[doc = $doc])+
        ///
        /// Every real floating-point dtype. An error for a negative length, and for other dtypes.
        #[doc = example!(concat!("use torsh_tensor::{", stringify!($name), ", tensor};\n", $code))]
        #[torsh_tensor::names_caller]
        pub fn $name(window_length: impl IntoDim) -> Result<Tensor> {
            let $o = &$options::new();
            window(stringify!($name), window_length.value(), $formula, &$o.made(), true)
        }

        #[doc = concat!("[`", stringify!($name), "`] with PyTorch's other arguments.")]
        #[doc = example!(concat!(
            "use torsh_tensor::{", stringify!($options), ", ", stringify!($with), "};\n",
            "let window = ", stringify!($with), "(5, ", stringify!($options), "::new().periodic(false))?;\n",
            "assert!(window.i(2)?.allclose(&torsh_tensor::tensor!(1.0))?);"
        ))]
        #[torsh_tensor::names_caller]
        pub fn $with(window_length: impl IntoDim, options: $options) -> Result<Tensor> {
            let $o = &options;
            window(stringify!($name), window_length.value(), $formula, &$o.made(), true)
        }
    )*};
}

periodic_windows! {
    /// The triangle (Bartlett window), periodic: `1 - |2 k / n - 1|`.
    bartlett_window bartlett_window_with BARTLETT_WINDOW PeriodicWindowOptions |_o| Formula::Bartlett, "" |b| {},
        "The triangle window, periodic or symmetric.", "assert_eq!(bartlett_window(4)?, tensor![0.0, 0.5, 1.0, 0.5]);";
    /// The Blackman window, periodic.
    blackman_window blackman_window_with BLACKMAN_WINDOW PeriodicWindowOptions |_o| Formula::Cosines(BLACKMAN_TERMS), "" |b| {},
        "The Blackman window, periodic or symmetric.", "assert!(blackman_window(4)?.allclose(&tensor![0.0, 0.34, 1.0, 0.34])?);";
    /// The Hamming window, periodic: `alpha - beta cos(2 pi k / n)`, with 0.54 and 0.46 unless they are set.
    hamming_window hamming_window_with HAMMING_WINDOW HammingWindowOptions |o| Formula::Cosines(&[o.alpha, o.beta]),
        "float alpha=0.54, float beta=0.46, " |b| { alpha: b.float(2), beta: b.float(3) },
        "The Hamming window, periodic or symmetric.", "assert!(hamming_window(4)?.allclose(&tensor![0.08, 0.54, 1.0, 0.54])?);";
    /// The Hann window, periodic: `0.5 - 0.5 cos(2 pi k / n)`.
    hann_window hann_window_with HANN_WINDOW PeriodicWindowOptions |_o| Formula::Cosines(&[0.5, 0.5]), "" |b| {},
        "The Hann window, periodic or symmetric.", "assert!(hann_window(4)?.allclose(&tensor![0.0, 0.5, 1.0, 0.5])?);";
    /// The Kaiser window, periodic, with `beta` 12 unless it is set.
    kaiser_window kaiser_window_with KAISER_WINDOW KaiserWindowOptions |o| Formula::Kaiser { beta: o.beta },
        "float beta=12.0, " |b| { beta: b.float(2) },
        "The Kaiser window, periodic or symmetric.", "assert!(kaiser_window(4)?.allclose(&tensor![0.00005277, 0.215673, 1.0, 0.215673])?);";
}
