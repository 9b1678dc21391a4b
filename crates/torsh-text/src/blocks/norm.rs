//! Normalisation by the root mean square, as transformers compute it.

use torsh_core::DType;
use torsh_functional as F;
use torsh_nn::{Hooks, Module, Parameter, Training, construct};
use torsh_tensor::{Result, Tensor};

/// Divides vectors by their root mean square, in float32, and multiplies them by a weight (Zhang and Sennrich, "Root
/// Mean Square Layer Normalization", 2019).
///
/// [`torsh_nn::RMSNorm`] is PyTorch's layer. This one rounds where the layers of Hugging Face's library round: the
/// quotient has the input's dtype before the weight multiplies it.
///
/// ```
/// use torsh_nn::Module;
/// use torsh_tensor::tensor;
/// use torsh_text::blocks::RmsNorm;
/// let norm = RmsNorm::new(2, 0.0)?;
/// assert_eq!(norm.forward(&tensor![[2.0, -2.0]])?, tensor![[1.0, -1.0]]);
/// // Gemma's weight is an offset from 1.
/// let gemma = RmsNorm::offset(2, 0.0)?;
/// assert_eq!(gemma.weight.to_vec::<f32>()?, [0.0, 0.0]);
/// assert_eq!(gemma.forward(&tensor![[2.0, -2.0]])?, tensor![[1.0, -1.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct RmsNorm {
    /// `[size]`: the factor of each number, less 1 with [`RmsNorm::offset`].
    pub weight: Parameter,
    #[module(skip)]
    eps: f64,
    #[module(skip)]
    offset: bool,
    training: Training,
    hooks: Hooks,
}

impl RmsNorm {
    /// A layer for vectors of this size, with weight 1; `eps` is added to the mean square.
    ///
    /// # Errors
    /// No memory for the weight.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(size: usize, eps: f64) -> Result<RmsNorm> {
        RmsNorm::with(size, eps, false)
    }

    /// A layer that multiplies by 1 + weight, with weight 0, as Gemma's.
    ///
    /// # Errors
    /// No memory for the weight.
    #[torsh_tensor::names_caller(Self)]
    pub fn offset(size: usize, eps: f64) -> Result<RmsNorm> {
        RmsNorm::with(size, eps, true)
    }

    #[track_caller]
    pub(crate) fn with(size: usize, eps: f64, offset: bool) -> Result<RmsNorm> {
        let start = if offset { 0.0 } else { 1.0 };
        let weight = Tensor::full([size], start, construct::dtype(), construct::device())?;
        Ok(RmsNorm {
            weight: Parameter::new(weight),
            eps,
            offset,
            training: Training::default(),
            hooks: Hooks::new(),
        })
    }
}

impl Module for RmsNorm {
    /// Vectors `[.., size]`, normalised; shape and dtype stay.
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let size = [self.weight.numel()];
            let options = F::RmsNormOptions::new().eps(self.eps);
            // Float64 is rounded to float32 too; the half types are computed in float32 by the op.
            let narrow = match x.dtype() {
                DType::F64 => x.to_dtype(DType::F32)?,
                _ => x.clone(),
            };
            if self.offset {
                let weight = self.weight.to_dtype(DType::F32)?.add(1.0)?;
                return F::rms_norm_with(&narrow, size, options.weight(&weight))?
                    .to_dtype(x.dtype());
            }
            if (x.dtype(), self.weight.dtype()) == (DType::F32, DType::F32) {
                return F::rms_norm_with(x, size, options.weight(&self.weight));
            }
            let unit = F::rms_norm_with(&narrow, size, options)?;
            unit.to_dtype(x.dtype())?.mul(self.weight.tensor())
        })
    }

    fn extra_repr(&self) -> String {
        format!("({},), eps={}", self.weight.numel(), self.eps)
    }
}

#[cfg(test)]
mod tests {
    use torsh_nn::ModuleExt;
    use torsh_tensor::tensor;

    use super::*;

    #[test]
    fn each_dtype_is_rounded_as_the_references_are() -> Result<()> {
        let x = tensor![[3.0, 4.0]];
        let root = 12.5f32.sqrt();
        for offset in [false, true] {
            let mut norm = RmsNorm::with(2, 0.0, offset)?;
            let found = norm.forward(&x)?.to_vec::<f32>()?;
            assert!((found[0] - 3.0 / root).abs() < 1e-6 && (found[1] - 4.0 / root).abs() < 1e-6);
            norm.to_dtype(DType::F64)?;
            let wide = norm.forward(&x.to_dtype(DType::F64)?)?;
            assert_eq!(wide.dtype(), DType::F64);
            // The quotient is a float32.
            let wide = wide.to_vec::<f64>()?;
            assert!(wide.iter().all(|&v| f64::from(v as f32) == v), "{wide:?}");
            norm.to_dtype(DType::BF16)?;
            let half = norm.forward(&x.to_dtype(DType::BF16)?)?;
            assert_eq!(half.dtype(), DType::BF16);
            assert!((half.to_vec::<f32>()?[0] - 3.0 / root).abs() < 4e-3);
        }
        Ok(())
    }
}
