//! The linear layer of GPT-2's files.

use torsh_functional as F;
use torsh_nn::construct;
use torsh_nn::{Hooks, Module, Parameter, init};
use torsh_tensor::{Result, Tensor};

/// `x @ weight + bias`: a linear layer whose weight is `[inputs, outputs]`, as GPT-2's files have it.
///
/// ```
/// use torsh_nn::{Module, init};
/// use torsh_tensor::tensor;
/// use torsh_text::blocks::Conv1D;
/// let layer = Conv1D::new(2, 3, 0.02)?;
/// init::ones_(&layer.weight)?;
/// assert_eq!(layer.forward(&tensor![[3.0, 4.0]])?, tensor![[7.0, 7.0, 7.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct Conv1D {
    /// `[inputs, outputs]`
    pub weight: Parameter,
    /// `[outputs]`
    pub bias: Parameter,
    hooks: Hooks,
}

impl Conv1D {
    /// A layer with weights drawn with the deviation `std`, and a bias of zeros.
    ///
    /// # Errors
    /// The memory for it is not to be had.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(inputs: usize, outputs: usize, std: f64) -> Result<Conv1D> {
        let (dtype, device) = (construct::dtype(), construct::device());
        let weight = Tensor::empty([inputs, outputs], dtype, device)?;
        let bias = Tensor::zeros([outputs], dtype, device)?;
        init::normal_(&weight, 0.0, std)?;
        Ok(Conv1D {
            weight: Parameter::with_requires_grad(weight, true)?,
            bias: Parameter::with_requires_grad(bias, true)?,
            hooks: Hooks::new(),
        })
    }
}

impl Module for Conv1D {
    /// `[.., inputs]` to `[.., outputs]`.
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            F::linear(x, &self.weight.t()?, self.bias.tensor())
        })
    }

    fn extra_repr(&self) -> String {
        let d = self.weight.dims();
        format!("nf={}, nx={}", d[1], d[0])
    }
}
