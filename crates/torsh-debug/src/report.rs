//! Reports of the properties and statistics of a tensor.

use std::fmt;

use torsh_tensor::{DType, Device, Result, Shape, Tensor, TensorStats, tensor_stats};

/// Up to how many elements a report shows them.
const FEW: usize = 20;

/// What [`debug_tensor`] prints.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorReport {
    /// The name it was given.
    pub name: String,
    /// The sizes.
    pub shape: Shape,
    /// The element type.
    pub dtype: DType,
    /// Where the data lives.
    pub device: Device,
    /// Whether gradients flow to it.
    pub requires_grad: bool,
    /// Counts and measures; `None` without elements, without data (a meta tensor) and for complex
    /// numbers.
    pub stats: Option<TensorStats>,
    /// The elements where there are 20 at most, and `stats`.
    pub values: Option<Vec<f64>>,
}

impl TensorReport {
    /// Looks at a tensor.
    ///
    /// # Errors
    /// Elements that cannot be read.
    #[torsh_tensor::names_caller(Self)]
    pub fn of(tensor: &Tensor, name: &str) -> Result<TensorReport> {
        let readable =
            tensor.numel() > 0 && tensor.device() != Device::Meta && !tensor.is_complex();
        let stats = readable.then(|| tensor_stats(tensor)).transpose()?;
        let few = readable && tensor.numel() <= FEW;
        let values = || tensor.detach().cpu()?.to_dtype(DType::F64)?.to_vec::<f64>();
        Ok(TensorReport {
            name: name.to_string(),
            shape: tensor.shape().clone(),
            dtype: tensor.dtype(),
            device: tensor.device(),
            requires_grad: tensor.requires_grad(),
            stats,
            values: few.then(values).transpose()?,
        })
    }

    /// Whether an element is nan.
    pub fn has_nan(&self) -> bool {
        self.stats.is_some_and(|s| s.nan > 0)
    }

    /// Whether an element is infinite.
    pub fn has_inf(&self) -> bool {
        self.stats.is_some_and(|s| s.inf > 0)
    }
}

impl fmt::Display for TensorReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}: {}{} {}",
            self.name, self.dtype, self.shape, self.device
        )?;
        write!(f, "  requires grad: {}", self.requires_grad)?;
        if let Some(s) = &self.stats {
            write!(
                f,
                "\n  min {:.6}, max {:.6}, mean {:.6}, std {:.6}",
                s.min, s.max, s.mean, s.std
            )?;
            if s.nan > 0 {
                write!(f, "\n  warning: {} of {} values are nan", s.nan, s.numel)?;
            }
            if s.inf > 0 {
                write!(
                    f,
                    "\n  warning: {} of {} values are infinite",
                    s.inf, s.numel
                )?;
            }
        }
        if let Some(v) = &self.values {
            write!(f, "\n  values: {v:?}")?;
        }
        Ok(())
    }
}

/// Prints what a tensor is and holds: shape, dtype, device, minimum, maximum, mean and deviation
/// of its finite elements, nan and infinities, and the elements where they are few. Returns it too.
///
/// ```
/// use torsh_debug::debug_tensor;
/// use torsh_tensor::tensor;
/// let report = debug_tensor(&tensor![1.0, 3.0, f32::NAN], "activations")?;
/// assert!(report.has_nan() && !report.has_inf());
/// assert_eq!(report.stats.map(|s| (s.min, s.max, s.mean)), Some((1.0, 3.0, 2.0)));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`TensorReport::of`].
#[torsh_tensor::names_caller]
pub fn debug_tensor(tensor: &Tensor, name: &str) -> Result<TensorReport> {
    let report = TensorReport::of(tensor, name)?;
    println!("{report}");
    Ok(report)
}
