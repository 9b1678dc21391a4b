//! Activations with learned or random slopes, and others that are not elementwise formulas.

use torsh_functional::{self as F, RreluOptions};
use torsh_tensor::{Result, Scalar, Tensor, TorshError};

use crate::Module;
use crate::layers::{Factory, factory_setters, python_float};
use crate::module::{Hooks, Parameter, Training};

/// ReLU with learned slopes for negative elements (`torch.nn.PReLU`): one, or one for each channel
/// (dimension 1).
///
/// ```
/// use torsh_nn::{Module, PReLU};
/// use torsh_tensor::tensor;
/// let y = PReLU::new()?.forward(&tensor![-2.0, 3.0])?;
/// assert_eq!(y.to_vec::<f32>()?, [-0.5, 3.0]);
/// assert_eq!(PReLU::builder().num_parameters(5).init(0.1).build()?.weight.dims(), [5]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct PReLU {
    /// `[num_parameters]`
    pub weight: Parameter,
    training: Training,
    hooks: Hooks,
}

impl PReLU {
    /// One slope, which starts at 0.25.
    ///
    /// ```
    /// # use torsh_nn::PReLU;
    /// assert_eq!(PReLU::new()?.weight.to_vec::<f32>()?, [0.25]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn new() -> Result<PReLU> {
        PReLU::builder().build()
    }

    /// The layer with PyTorch's other arguments.
    ///
    /// ```
    /// # use torsh_nn::{ModuleExt, PReLU};
    /// assert_eq!(PReLU::builder().num_parameters(3).build()?.repr(), "PReLU(num_parameters=3)");
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn builder() -> PReLUBuilder {
        PReLUBuilder {
            num_parameters: 1,
            init: 0.25,
            factory: Factory::default(),
        }
    }
}

impl Module for PReLU {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| F::prelu(x, &self.weight))
    }

    fn extra_repr(&self) -> String {
        format!("num_parameters={}", self.weight.numel())
    }
}

/// Builds a [`PReLU`].
///
/// ```
/// # use torsh_nn::{Module, PReLU};
/// # use torsh_tensor::tensor;
/// assert_eq!(PReLU::builder().init(0.5).build()?.forward(&tensor![-2.0])?.to_vec::<f32>()?, [-1.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct PReLUBuilder {
    num_parameters: usize,
    init: f64,
    factory: Factory,
}

impl PReLUBuilder {
    /// How many slopes there are: 1, which is the default, or the number of channels.
    ///
    /// ```
    /// # use torsh_nn::{ModuleExt, PReLU};
    /// assert_eq!(PReLU::builder().num_parameters(3).build()?.weight.dims(), [3]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[must_use]
    pub fn num_parameters(mut self, num_parameters: usize) -> Self {
        self.num_parameters = num_parameters;
        self
    }

    /// Where the slopes start. The default is 0.25.
    ///
    /// ```
    /// # use torsh_nn::PReLU;
    /// assert_eq!(PReLU::builder().init(0.5).build()?.weight.to_vec::<f32>()?, [0.5]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[must_use]
    pub fn init(mut self, init: f64) -> Self {
        self.init = init;
        self
    }

    factory_setters!(PReLU "()");

    /// Makes the layer. An error where the memory for it is not to be had.
    ///
    /// ```
    /// # use torsh_nn::{ModuleExt, PReLU};
    /// assert_eq!(PReLU::builder().build()?.num_parameters(), 1);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn build(self) -> Result<PReLU> {
        let weight = self.factory.full(&[self.num_parameters], self.init)?;
        Ok(PReLU {
            weight: Parameter::with_requires_grad(weight, true)?,
            training: Training::default(),
            hooks: Hooks::new(),
        })
    }
}

/// ReLU with slopes for negative elements, in training drawn for each (`torch.nn.RReLU`).
///
/// ```
/// use torsh_nn::{Module, ModuleExt, RReLU};
/// use torsh_tensor::tensor;
/// let layer = RReLU::with(0.25, 0.75);
/// layer.eval();
/// assert_eq!(layer.forward(&tensor![-2.0, 3.0])?.to_vec::<f32>()?, [-1.0, 3.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct RReLU {
    #[module(skip)]
    lower: f64,
    #[module(skip)]
    upper: f64,
    training: Training,
    hooks: Hooks,
}

impl RReLU {
    /// Slopes from 1/8 to 1/3.
    ///
    /// ```
    /// # use torsh_nn::{Module, ModuleExt, RReLU};
    /// # use torsh_tensor::tensor;
    /// let layer = RReLU::new();
    /// layer.eval();
    /// assert!(layer.forward(&tensor![-48.0])?.allclose(&tensor![-11.0])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn new() -> RReLU {
        RReLU::with(1.0 / 8.0, 1.0 / 3.0)
    }

    /// Slopes from `lower` to `upper`.
    ///
    /// ```
    /// # use torsh_nn::{ModuleExt, RReLU};
    /// assert_eq!(RReLU::with(0.25, 0.75).repr(), "RReLU(lower=0.25, upper=0.75)");
    /// ```
    pub fn with(lower: f64, upper: f64) -> RReLU {
        RReLU {
            lower,
            upper,
            training: Training::default(),
            hooks: Hooks::new(),
        }
    }
}

impl Default for RReLU {
    fn default() -> Self {
        RReLU::new()
    }
}

impl Module for RReLU {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let options = RreluOptions::default()
                .lower(self.lower)
                .upper(self.upper)
                .training(self.training.get());
            F::rrelu_with(x, options)
        })
    }

    fn extra_repr(&self) -> String {
        format!(
            "lower={}, upper={}",
            python_float(self.lower),
            python_float(self.upper)
        )
    }
}

/// The first half of a dimension times the sigmoid of the second (`torch.nn.GLU`).
///
/// ```
/// use torsh_nn::{GLU, Module};
/// use torsh_tensor::tensor;
/// assert_eq!(GLU::new().forward(&tensor![4.0, 0.0])?.to_vec::<f32>()?, [2.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct GLU {
    #[module(skip)]
    dim: i64,
    training: Training,
    hooks: Hooks,
}

impl GLU {
    /// Along the last dimension.
    ///
    /// ```
    /// # use torsh_nn::{GLU, ModuleExt};
    /// assert_eq!(GLU::new().repr(), "GLU(dim=-1)");
    /// ```
    pub fn new() -> GLU {
        GLU::dim(-1)
    }

    /// Along this dimension; negative ones count from the end.
    ///
    /// ```
    /// # use torsh_nn::{GLU, Module};
    /// # use torsh_tensor::tensor;
    /// assert_eq!(GLU::dim(0).forward(&tensor![[4.0], [0.0]])?, tensor![[2.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn dim(dim: i64) -> GLU {
        GLU {
            dim,
            training: Training::default(),
            hooks: Hooks::new(),
        }
    }
}

impl Default for GLU {
    fn default() -> Self {
        GLU::new()
    }
}

impl Module for GLU {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| F::glu(x, self.dim))
    }

    fn extra_repr(&self) -> String {
        format!("dim={}", self.dim)
    }
}

/// `value` for elements that are not above `threshold`, themselves for others
/// (`torch.nn.Threshold`).
///
/// ```
/// use torsh_nn::{Module, Threshold};
/// use torsh_tensor::tensor;
/// let y = Threshold::new(1.0, 9.0).forward(&tensor![1.0, 2.0])?;
/// assert_eq!(y.to_vec::<f32>()?, [9.0, 2.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct Threshold {
    #[module(skip)]
    threshold: Scalar,
    #[module(skip)]
    value: Scalar,
    training: Training,
    hooks: Hooks,
}

impl Threshold {
    /// The layer with this threshold and this value.
    ///
    /// ```
    /// # use torsh_nn::{ModuleExt, Threshold};
    /// assert_eq!(Threshold::new(0.5, 20).repr(), "Threshold(threshold=0.5, value=20)");
    /// ```
    pub fn new(threshold: impl Into<Scalar>, value: impl Into<Scalar>) -> Threshold {
        Threshold {
            threshold: threshold.into(),
            value: value.into(),
            training: Training::default(),
            hooks: Hooks::new(),
        }
    }
}

impl Module for Threshold {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks
            .run(self, x, |x| F::threshold(x, self.threshold, self.value))
    }

    fn extra_repr(&self) -> String {
        let number = |n: Scalar| match n {
            Scalar::Int(i) => i.to_string(),
            other => python_float(other.to_f64()),
        };
        format!(
            "threshold={}, value={}",
            number(self.threshold),
            number(self.value)
        )
    }
}

/// [`Softmax`](crate::Softmax) over the channels of images (`torch.nn.Softmax2d`): `[N, C, H, W]`
/// or `[C, H, W]`.
///
/// ```
/// use torsh_nn::{Module, Softmax2d};
/// use torsh_tensor::zeros;
/// let y = Softmax2d::new().forward(&zeros(&[4, 1, 1]))?;
/// assert_eq!(y.to_vec::<f32>()?, [0.25; 4]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module, Default)]
pub struct Softmax2d {
    training: Training,
    hooks: Hooks,
}

impl Softmax2d {
    /// The layer, which has no parameters.
    ///
    /// ```
    /// # use torsh_nn::{ModuleExt, Softmax2d};
    /// assert_eq!(Softmax2d::new().repr(), "Softmax2d()");
    /// ```
    pub fn new() -> Softmax2d {
        Softmax2d::default()
    }
}

impl Module for Softmax2d {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| match x.ndim() {
            3 | 4 => F::softmax(x, -3),
            n => Err(TorshError::shape(
                "Softmax2d",
                format!("expected input to be 3D or 4D, got {n}D instead"),
            )),
        })
    }
}
