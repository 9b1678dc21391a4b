//! `Bilinear`.

use torsh_functional as F;
use torsh_tensor::{Result, Tensor, TorshError};

use crate::layers::{Factory, factory_setters, needs_more, python};
use crate::module::{Hooks, Parameter, Training};
use crate::{Module, init};

/// `x1.T @ weight[o] @ x2 + bias[o]` for each output `o` (`torch.nn.Bilinear`).
///
/// [`forward_with`](Bilinear::forward_with) takes `[.., in1_features]` and `[.., in2_features]`
/// and gives `[.., out_features]`. Both `weight` and `bias` are drawn uniformly over
/// `1 / sqrt(in1_features)` to either side.
///
/// ```
/// use torsh_nn::{Bilinear, init};
/// use torsh_tensor::tensor;
/// let layer = Bilinear::builder(2, 3, 1).bias(false).build()?;
/// init::ones_(&layer.weight)?;
/// let y = layer.forward_with(&tensor![1.0, 2.0], &tensor![1.0, 10.0, 100.0])?;
/// assert_eq!(y.to_vec::<f32>()?, [333.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct Bilinear {
    /// `[out_features, in1_features, in2_features]`
    pub weight: Parameter,
    /// `[out_features]`
    pub bias: Option<Parameter>,
    training: Training,
    hooks: Hooks,
}

impl Bilinear {
    /// A layer with bias. An error where `in1_features` is 0.
    ///
    /// ```
    /// # use torsh_nn::{Bilinear, ModuleExt};
    /// assert_eq!(Bilinear::new(2, 3, 4)?.repr(), "Bilinear(in1_features=2, in2_features=3, out_features=4, bias=True)");
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn new(in1_features: usize, in2_features: usize, out_features: usize) -> Result<Bilinear> {
        Bilinear::builder(in1_features, in2_features, out_features).build()
    }

    /// A layer with PyTorch's other arguments.
    ///
    /// ```
    /// # use torsh_nn::Bilinear;
    /// assert_eq!(Bilinear::builder(2, 3, 4).bias(false).build()?.weight.dims(), [4, 2, 3]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn builder(
        in1_features: usize,
        in2_features: usize,
        out_features: usize,
    ) -> BilinearBuilder {
        BilinearBuilder {
            sizes: [out_features, in1_features, in2_features],
            bias: true,
            factory: Factory::default(),
        }
    }

    /// The map of two tensors.
    #[torsh_tensor::names_caller]
    pub fn forward_with(&self, input1: &Tensor, input2: &Tensor) -> Result<Tensor> {
        self.hooks
            .run_many(self, [input1, input2], |[input1, input2]| {
                F::bilinear(input1, input2, &self.weight, self.bias.as_deref())
            })
    }

    /// As [`forward_with`](Bilinear::forward_with).
    #[torsh_tensor::names_caller]
    pub fn forward(&self, input1: &Tensor, input2: &Tensor) -> Result<Tensor> {
        self.forward_with(input1, input2)
    }

    /// Draws the weights anew.
    #[torsh_tensor::names_caller]
    pub fn reset_parameters(&self) -> Result<()> {
        let bound = 1.0 / (self.weight.dims()[1] as f64).sqrt();
        init::uniform_(&self.weight, -bound, bound)?;
        if let Some(bias) = &self.bias {
            init::uniform_(bias, -bound, bound)?;
        }
        Ok(())
    }
}

impl Module for Bilinear {
    /// An error: the map has two arguments.
    #[torsh_tensor::names_caller]
    fn forward(&self, _x: &Tensor) -> Result<Tensor> {
        Err(needs_more("Bilinear", "forward_with(&input1, &input2)"))
    }

    fn extra_repr(&self) -> String {
        let d = self.weight.dims();
        format!(
            "in1_features={}, in2_features={}, out_features={}, bias={}",
            d[1],
            d[2],
            d[0],
            python(self.bias.is_some())
        )
    }
}

/// Builds a [`Bilinear`].
///
/// ```
/// # use torsh_nn::{Bilinear, ModuleExt};
/// assert_eq!(Bilinear::builder(2, 3, 4).build()?.num_parameters(), 4 * 2 * 3 + 4);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct BilinearBuilder {
    sizes: [usize; 3],
    bias: bool,
    factory: Factory,
}

impl BilinearBuilder {
    /// Whether a bias is added. The default is `true`.
    ///
    /// ```
    /// # use torsh_nn::{Bilinear, ModuleExt};
    /// assert_eq!(Bilinear::builder(2, 3, 4).bias(false).build()?.num_parameters(), 4 * 2 * 3);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[must_use]
    pub fn bias(mut self, bias: bool) -> Self {
        self.bias = bias;
        self
    }

    factory_setters!(Bilinear "(2, 3, 4)");

    /// Makes the layer and draws its weights. An error where `in1_features` is 0.
    ///
    /// ```
    /// # use torsh_nn::{Bilinear, init};
    /// # use torsh_tensor::tensor;
    /// let layer = Bilinear::builder(2, 2, 1).bias(false).build()?;
    /// init::ones_(&layer.weight)?;
    /// // Each element of one with each of the other.
    /// assert_eq!(layer.forward_with(&tensor![1.0, 2.0], &tensor![3.0, 4.0])?, tensor![21.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn build(self) -> Result<Bilinear> {
        if self.sizes[1] == 0 {
            return Err(TorshError::invalid(
                "Bilinear",
                "in1_features must be > 0, but got 0",
            ));
        }
        let parameter =
            |shape: &[usize]| Parameter::with_requires_grad(self.factory.empty(shape)?, true);
        let layer = Bilinear {
            weight: parameter(&self.sizes)?,
            bias: self.bias.then(|| parameter(&self.sizes[..1])).transpose()?,
            training: Training::default(),
            hooks: Hooks::new(),
        };
        layer.reset_parameters()?;
        Ok(layer)
    }
}
