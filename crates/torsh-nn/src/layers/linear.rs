//! `Linear`.

use torsh_core::attrs::NONE;
use torsh_functional as F;
use torsh_tensor::call::Arg;
use torsh_tensor::{Result, Tensor, sparse};

use crate::init::{self, KaimingOptions};
use crate::layers::builder::builder;
use crate::layers::{Lazy, factory_setters, python};
use crate::module::{Hooks, Parameter, Training};
use crate::{Module, layers};

/// `x @ weight.T + bias` (`torch.nn.Linear`).
///
/// Takes `[.., in_features]` and gives `[.., out_features]`. `weight` is
/// `[out_features, in_features]`; both it and `bias` are drawn uniformly over
/// `1 / sqrt(in_features)` to either side.
///
/// `weight` may be a sparse tensor, as [`to_bsr`](crate::utils::prune::to_bsr) makes it: the product takes what is stored alone,
/// and so does training, since the gradient of the weight has its pattern. This needs the feature `sparse` of the crate `torsh`.
///
/// ```
/// use torsh_nn::{Linear, ModuleExt};
/// let layer = Linear::new(784, 10);
/// assert_eq!(layer.weight.dims(), [10, 784]);
/// assert_eq!(layer.num_parameters(), 7850);
/// let no_bias = Linear::builder(784, 10).bias(false).build()?;
/// assert_eq!(no_bias.num_parameters(), 7840);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct Linear {
    /// `[out_features, in_features]`
    pub weight: Parameter,
    /// `[out_features]`
    pub bias: Option<Parameter>,
    training: Training,
    hooks: Hooks,
}

impl Linear {
    /// A layer with bias, of the default dtype on the default device.
    ///
    /// Panics where the memory for it is not to be had; [`Linear::builder`] gives an error.
    ///
    /// ```
    /// # use torsh_nn::{Linear, ModuleExt};
    /// assert_eq!(Linear::new(4, 8).repr(), "Linear(in_features=4, out_features=8, bias=True)");
    /// ```
    #[track_caller]
    pub fn new(in_features: usize, out_features: usize) -> Linear {
        match Linear::builder(in_features, out_features).build() {
            Ok(layer) => layer,
            Err(e) => panic!("{e}"),
        }
    }

    /// A layer with PyTorch's other arguments.
    ///
    /// ```
    /// # use torsh_nn::{Linear, ModuleExt};
    /// assert_eq!(Linear::builder(4, 8).bias(false).build()?.num_parameters(), 32);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn builder(in_features: usize, out_features: usize) -> LinearBuilder {
        LinearBuilder::with(in_features, out_features)
    }

    /// The size of the last dimension that comes in.
    ///
    /// ```
    /// # use torsh_nn::Linear;
    /// assert_eq!(Linear::new(4, 8).in_features(), 4);
    /// ```
    pub fn in_features(&self) -> usize {
        self.weight.dims()[1]
    }

    /// The size of the last dimension that goes out.
    ///
    /// ```
    /// # use torsh_nn::Linear;
    /// assert_eq!(Linear::new(4, 8).out_features(), 8);
    /// ```
    pub fn out_features(&self) -> usize {
        self.weight.dims()[0]
    }

    /// Draws the weights anew, and the bias, both uniformly over `1 / sqrt(in_features)` to either
    /// side.
    ///
    /// ```
    /// # use torsh_nn::{Linear, init};
    /// let layer = Linear::new(4, 8);
    /// init::ones_(&layer.weight)?;
    /// layer.reset_parameters()?;
    /// assert!(layer.weight.abs()?.max()?.item::<f32>()? <= 0.5);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn reset_parameters(&self) -> Result<()> {
        layers::linear::reset(&self.weight, self.bias.as_deref())
    }
}

/// What linear layers and convolutions start from: Kaiming's draws with a slope of `sqrt(5)`,
/// which is `1 / sqrt(fan_in)` to either side, for the weight and then the bias.
#[track_caller]
pub(super) fn reset(weight: &Tensor, bias: Option<&Tensor>) -> Result<()> {
    init::kaiming_uniform_with(weight, KaimingOptions::default().a(5f64.sqrt()))?;
    if let Some(bias) = bias {
        let (fan_in, _) = init::calculate_fan_in_and_fan_out(weight)?;
        let bound = if fan_in > 0 {
            1.0 / (fan_in as f64).sqrt()
        } else {
            0.0
        };
        init::uniform_(bias, -bound, bound)?;
    }
    Ok(())
}

impl Module for Linear {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let (weight, bias) = (self.weight.tensor(), self.bias.as_deref());
            match weight.layout().is_strided() {
                true => F::linear(x, weight, bias),
                // The gradient of F::linear would be strided.
                false => {
                    let args = [Arg::T(x), Arg::T(weight), Arg::opt(bias)];
                    sparse::call1("sparse.linear", &args, NONE)
                }
            }
        })
    }

    fn extra_repr(&self) -> String {
        format!(
            "in_features={}, out_features={}, bias={}",
            self.in_features(),
            self.out_features(),
            python(self.bias.is_some())
        )
    }
}

impl Lazy<Linear> {
    /// A layer with bias, of the features of its first input.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(out_features: usize) -> Result<Self> {
        Self::builder(out_features).build()
    }

    /// A layer of the features of its first input, with PyTorch's other arguments.
    pub fn builder(out_features: usize) -> LazyLinearBuilder {
        LazyLinearBuilder(Linear::builder(0, out_features))
    }
}

builder! {
    LinearBuilder of Linear infers in_features: LazyLinearBuilder lazily "(3)" { in_features: usize, out_features: usize }
        calls "(2, 3)" before "in_features=" 2 shows [", out_features=3, bias=True"] {
        /// Whether a bias is added. The default is `true`.
        @ ".bias(false)" [", out_features=3, bias=False"]
        bias: bool = true;
    }
}

impl LinearBuilder {
    factory_setters!(Linear "(2, 3)");

    /// Makes the layer and draws its weights. An error where the memory for them is not to be had.
    ///
    /// ```
    /// # use torsh_nn::{Linear, Module, init};
    /// # use torsh_tensor::tensor;
    /// let layer = Linear::builder(2, 1).build()?;
    /// init::ones_(&layer.weight)?;
    /// init::zeros_(layer.bias.as_deref().unwrap())?;
    /// assert_eq!(layer.forward(&tensor![3.0, 4.0])?, tensor![7.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn build(self) -> Result<Linear> {
        let weight = self.factory.empty(&[self.out_features, self.in_features])?;
        let bias = if self.bias {
            Some(self.factory.empty(&[self.out_features])?)
        } else {
            None
        };
        let layer = Linear {
            weight: Parameter::with_requires_grad(weight, true)?,
            bias: bias
                .map(|b| Parameter::with_requires_grad(b, true))
                .transpose()?,
            training: Training::default(),
            hooks: Hooks::new(),
        };
        layer.reset_parameters()?;
        Ok(layer)
    }
}
