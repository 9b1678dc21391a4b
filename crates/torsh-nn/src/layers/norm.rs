//! Normalisation within samples.

use torsh_functional::{
    self as F, GroupNormOptions, LayerNormOptions, LocalResponseNormOptions, RmsNormOptions,
};
use torsh_tensor::{IntoShape, Result, Tensor, TorshError};

use crate::layers::builder::{builder, number, stateless, tuple};
use crate::layers::{Factory, factory_setters, python, python_float};
use crate::module::{Hooks, Parameter, Training};
use crate::{Module, init};

/// A parameter of this shape, filled with one number, where it is wanted.
#[track_caller]
fn filled(f: Factory, shape: &[i64], value: f64, wanted: bool) -> Result<Option<Parameter>> {
    if !wanted {
        return Ok(None);
    }
    let tensor = Tensor::full(shape, value, f.dtype(), f.device)?;
    Parameter::with_requires_grad(tensor, true).map(Some)
}

/// Ones and zeros in weight and bias.
#[track_caller]
fn reset(weight: Option<&Parameter>, bias: Option<&Parameter>) -> Result<()> {
    if let Some(weight) = weight {
        init::ones_(weight)?;
    }
    if let Some(bias) = bias {
        init::zeros_(bias)?;
    }
    Ok(())
}

/// Normalises each sample over its last dimensions (`torch.nn.LayerNorm`; Ba et al., 2016).
///
/// Takes `[.., *normalized_shape]`.
///
/// ```
/// use torsh_nn::{LayerNorm, Module};
/// use torsh_tensor::tensor;
/// let norm = LayerNorm::builder([2]).eps(0.0).build()?;
/// assert_eq!(norm.forward(&tensor![[1.0, 3.0], [9.0, 5.0]])?, tensor![[-1.0, 1.0], [1.0, -1.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct LayerNorm {
    /// Of `normalized_shape`, unless `elementwise_affine(false)`.
    pub weight: Option<Parameter>,
    /// Of `normalized_shape`, unless `elementwise_affine(false)` or `bias(false)`.
    pub bias: Option<Parameter>,
    #[module(skip)]
    options: LayerNormBuilder,
    training: Training,
    hooks: Hooks,
}

impl LayerNorm {
    /// Normalises the last dimensions, of these sizes, with weight and bias.
    ///
    /// ```
    /// # use torsh_nn::{LayerNorm, ModuleExt};
    /// assert_eq!(LayerNorm::new([2, 3])?.repr(), "LayerNorm((2, 3), eps=1e-05, elementwise_affine=True, bias=True)");
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn new(normalized_shape: impl IntoShape) -> Result<LayerNorm> {
        LayerNorm::builder(normalized_shape).build()
    }

    /// A layer with PyTorch's other arguments.
    ///
    /// ```
    /// # use torsh_nn::{LayerNorm, Module};
    /// # use torsh_tensor::tensor;
    /// let norm = LayerNorm::builder(2).eps(0.0).build()?;
    /// assert_eq!(norm.forward(&tensor![[1.0, 3.0]])?, tensor![[-1.0, 1.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn builder(normalized_shape: impl IntoShape) -> LayerNormBuilder {
        LayerNormBuilder::with(normalized_shape.sizes().to_vec())
    }

    /// The weight is 1 again, the bias 0.
    ///
    /// ```
    /// # use torsh_nn::{LayerNorm, init};
    /// # use torsh_tensor::tensor;
    /// let norm = LayerNorm::new(2)?;
    /// init::zeros_(norm.weight.as_deref().unwrap())?;
    /// norm.reset_parameters()?;
    /// assert_eq!(norm.weight.as_deref(), Some(&tensor![1.0, 1.0]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn reset_parameters(&self) -> Result<()> {
        reset(self.weight.as_ref(), self.bias.as_ref())
    }
}

impl Module for LayerNorm {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let options = LayerNormOptions {
                weight: self.weight.as_ref().map(Tensor::from),
                bias: self.bias.as_ref().map(Tensor::from),
                eps: self.options.eps,
            };
            F::layer_norm_with(x, &self.options.normalized_shape, options)
        })
    }

    fn extra_repr(&self) -> String {
        let o = &self.options;
        format!(
            "{}, eps={}, elementwise_affine={}, bias={}",
            tuple(&o.normalized_shape),
            python_float(o.eps),
            python(o.elementwise_affine),
            python(self.bias.is_some())
        )
    }
}

builder! {
    LayerNormBuilder of LayerNorm { normalized_shape: Vec<i64> }
        calls "([2, 3])" shows ["(2, 3), eps=1e-05, elementwise_affine=True, bias=True"] {
        /// Added to the variance. The default is 1e-5.
        @ ".eps(0.5)" ["(2, 3), eps=0.5, elementwise_affine=True, bias=True"]
        eps: f64 = 1e-5;
        /// Whether there are a weight and a bias. The default is `true`.
        @ ".elementwise_affine(false)" ["(2, 3), eps=1e-05, elementwise_affine=False, bias=False"]
        elementwise_affine: bool = true;
        /// Whether there is a bias beside the weight. The default is `true`.
        @ ".bias(false)" ["(2, 3), eps=1e-05, elementwise_affine=True, bias=False"]
        bias: bool = true;
    }
}

impl LayerNormBuilder {
    factory_setters!(LayerNorm "([2, 3])");

    /// Makes the layer. An error for negative sizes.
    ///
    /// ```
    /// # use torsh_nn::{LayerNorm, ModuleExt};
    /// assert_eq!(LayerNorm::builder([2, 3]).bias(false).build()?.num_parameters(), 6);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn build(self) -> Result<LayerNorm> {
        let (f, shape) = (self.factory, &self.normalized_shape);
        let affine = self.elementwise_affine;
        Ok(LayerNorm {
            weight: filled(f, shape, 1.0, affine)?,
            bias: filled(f, shape, 0.0, affine && self.bias)?,
            options: self,
            training: Training::default(),
            hooks: Hooks::new(),
        })
    }
}

/// Divides each sample by the root mean square of its last dimensions (`torch.nn.RMSNorm`; Zhang
/// and Sennrich, 2019).
///
/// Takes `[.., *normalized_shape]`.
///
/// ```
/// use torsh_nn::{Module, RMSNorm};
/// use torsh_tensor::tensor;
/// let norm = RMSNorm::builder([2]).eps(0.0).build()?;
/// assert_eq!(norm.forward(&tensor![[2.0, -2.0]])?, tensor![[1.0, -1.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct RMSNorm {
    /// Of `normalized_shape`, unless `elementwise_affine(false)`.
    pub weight: Option<Parameter>,
    #[module(skip)]
    options: RMSNormBuilder,
    training: Training,
    hooks: Hooks,
}

impl RMSNorm {
    /// Divides the last dimensions, of these sizes, by their root mean square, with a weight.
    ///
    /// ```
    /// # use torsh_nn::{Module, RMSNorm};
    /// # use torsh_tensor::tensor;
    /// assert!(RMSNorm::new(2)?.forward(&tensor![[7.0, 1.0]])?.allclose(&tensor![[1.4, 0.2]])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn new(normalized_shape: impl IntoShape) -> Result<RMSNorm> {
        RMSNorm::builder(normalized_shape).build()
    }

    /// A layer with PyTorch's other arguments.
    ///
    /// ```
    /// # use torsh_nn::{ModuleExt, RMSNorm};
    /// assert_eq!(RMSNorm::builder(2).eps(0.5).build()?.repr(), "RMSNorm((2,), eps=0.5, elementwise_affine=True)");
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn builder(normalized_shape: impl IntoShape) -> RMSNormBuilder {
        RMSNormBuilder::with(normalized_shape.sizes().to_vec())
    }

    /// The weight is 1 again.
    ///
    /// ```
    /// # use torsh_nn::{RMSNorm, init};
    /// # use torsh_tensor::tensor;
    /// let norm = RMSNorm::new(2)?;
    /// init::zeros_(norm.weight.as_deref().unwrap())?;
    /// norm.reset_parameters()?;
    /// assert_eq!(norm.weight.as_deref(), Some(&tensor![1.0, 1.0]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn reset_parameters(&self) -> Result<()> {
        reset(self.weight.as_ref(), None)
    }
}

impl Module for RMSNorm {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let options = RmsNormOptions {
                weight: self.weight.as_ref().map(Tensor::from),
                eps: self.options.eps,
            };
            F::rms_norm_with(x, &self.options.normalized_shape, options)
        })
    }

    fn extra_repr(&self) -> String {
        let o = &self.options;
        format!(
            "{}, eps={}, elementwise_affine={}",
            tuple(&o.normalized_shape),
            o.eps.map_or("None".into(), python_float),
            python(o.elementwise_affine)
        )
    }
}

builder! {
    RMSNormBuilder of RMSNorm { normalized_shape: Vec<i64> }
        calls "([2, 3])" shows ["(2, 3), eps=None, elementwise_affine=True"] {
        /// Added to the mean square. The default is the dtype's epsilon.
        @ ".eps(0.5)" ["(2, 3), eps=0.5, elementwise_affine=True"]
        eps: Option<f64> = None, impl Into<Option<f64>> => |e| e.into();
        /// Whether there is a weight. The default is `true`.
        @ ".elementwise_affine(false)" ["(2, 3), eps=None, elementwise_affine=False"]
        elementwise_affine: bool = true;
    }
}

impl RMSNormBuilder {
    factory_setters!(RMSNorm "([2, 3])");

    /// Makes the layer. An error for negative sizes.
    ///
    /// ```
    /// # use torsh_nn::{ModuleExt, RMSNorm};
    /// assert_eq!(RMSNorm::builder([2, 3]).build()?.num_parameters(), 6);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn build(self) -> Result<RMSNorm> {
        let weight = filled(
            self.factory,
            &self.normalized_shape,
            1.0,
            self.elementwise_affine,
        )?;
        Ok(RMSNorm {
            weight,
            options: self,
            training: Training::default(),
            hooks: Hooks::new(),
        })
    }
}

/// Normalises groups of channels of each sample (`torch.nn.GroupNorm`; Wu and He, 2018).
///
/// Takes `[N, num_channels, ..]`.
///
/// ```
/// use torsh_nn::{GroupNorm, Module};
/// use torsh_tensor::tensor;
/// let norm = GroupNorm::builder(2, 4).eps(0.0).build()?;
/// let y = norm.forward(&tensor![[1.0, 3.0, 9.0, 5.0]])?;
/// assert_eq!(y, tensor![[-1.0, 1.0, 1.0, -1.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct GroupNorm {
    /// `[num_channels]`, unless `affine(false)`
    pub weight: Option<Parameter>,
    /// `[num_channels]`, unless `affine(false)` or `bias(false)`
    pub bias: Option<Parameter>,
    #[module(skip)]
    options: GroupNormBuilder,
    training: Training,
    hooks: Hooks,
}

impl GroupNorm {
    /// Normalises `num_channels` channels in `num_groups` groups, with weight and bias. An error
    /// where the groups do not divide the channels.
    ///
    /// ```
    /// # use torsh_nn::{GroupNorm, ModuleExt};
    /// assert_eq!(GroupNorm::new(2, 6)?.repr(), "GroupNorm(2, 6, eps=1e-05, affine=True, bias=True)");
    /// assert!(GroupNorm::new(4, 6).is_err());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn new(num_groups: usize, num_channels: usize) -> Result<GroupNorm> {
        GroupNorm::builder(num_groups, num_channels).build()
    }

    /// A layer with PyTorch's other arguments.
    ///
    /// ```
    /// # use torsh_nn::{GroupNorm, Module};
    /// # use torsh_tensor::tensor;
    /// let norm = GroupNorm::builder(1, 2).eps(0.0).build()?;
    /// assert_eq!(norm.forward(&tensor![[1.0, 3.0]])?, tensor![[-1.0, 1.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn builder(num_groups: usize, num_channels: usize) -> GroupNormBuilder {
        GroupNormBuilder::with(num_groups, num_channels)
    }

    /// The weight is 1 again, the bias 0.
    ///
    /// ```
    /// # use torsh_nn::{GroupNorm, init};
    /// # use torsh_tensor::tensor;
    /// let norm = GroupNorm::new(1, 2)?;
    /// init::zeros_(norm.weight.as_deref().unwrap())?;
    /// norm.reset_parameters()?;
    /// assert_eq!(norm.weight.as_deref(), Some(&tensor![1.0, 1.0]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn reset_parameters(&self) -> Result<()> {
        reset(self.weight.as_ref(), self.bias.as_ref())
    }
}

impl Module for GroupNorm {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let options = GroupNormOptions {
                weight: self.weight.as_ref().map(Tensor::from),
                bias: self.bias.as_ref().map(Tensor::from),
                eps: self.options.eps,
            };
            F::group_norm_with(x, self.options.num_groups, options)
        })
    }

    fn extra_repr(&self) -> String {
        let o = &self.options;
        format!(
            "{}, {}, eps={}, affine={}, bias={}",
            o.num_groups,
            o.num_channels,
            python_float(o.eps),
            python(o.affine),
            python(self.bias.is_some())
        )
    }
}

builder! {
    GroupNormBuilder of GroupNorm { num_groups: usize, num_channels: usize }
        calls "(2, 6)" shows ["2, 6, eps=1e-05, affine=True, bias=True"] {
        /// Added to the variance. The default is 1e-5.
        @ ".eps(0.5)" ["2, 6, eps=0.5, affine=True, bias=True"]
        eps: f64 = 1e-5;
        /// Whether there are a weight and a bias. The default is `true`.
        @ ".affine(false)" ["2, 6, eps=1e-05, affine=False, bias=False"]
        affine: bool = true;
        /// Whether there is a bias beside the weight. The default is `true`.
        @ ".bias(false)" ["2, 6, eps=1e-05, affine=True, bias=False"]
        bias: bool = true;
    }
}

impl GroupNormBuilder {
    factory_setters!(GroupNorm "(2, 6)");

    /// Makes the layer. An error where the groups do not divide the channels.
    ///
    /// ```
    /// # use torsh_nn::{GroupNorm, ModuleExt};
    /// assert_eq!(GroupNorm::builder(2, 6).build()?.num_parameters(), 12);
    /// assert!(GroupNorm::builder(0, 6).build().is_err());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn build(self) -> Result<GroupNorm> {
        if self.num_groups == 0 || !self.num_channels.is_multiple_of(self.num_groups) {
            return Err(TorshError::invalid(
                "GroupNorm",
                format!(
                    "num_channels ({}) must be divisible by num_groups ({})",
                    self.num_channels, self.num_groups
                ),
            ));
        }
        let (f, shape) = (self.factory, [self.num_channels as i64]);
        Ok(GroupNorm {
            weight: filled(f, &shape, 1.0, self.affine)?,
            bias: filled(f, &shape, 0.0, self.affine && self.bias)?,
            options: self,
            training: Training::default(),
            hooks: Hooks::new(),
        })
    }
}

stateless! {
    /// Divides each element by a power of the mean of squares over neighbouring channels
    /// (`torch.nn.LocalResponseNorm`; Krizhevsky et al., 2012).
    ///
    /// Takes `[N, C, ..]` of at least 3 dimensions.
    ///
    /// ```
    /// use torsh_nn::{LocalResponseNorm, Module};
    /// use torsh_tensor::tensor;
    /// let norm = LocalResponseNorm::builder(1).alpha(1.0).beta(1.0).k(0.0).build()?;
    /// assert_eq!(norm.forward(&tensor![[[2.0], [4.0]]])?, tensor![[[0.5], [0.25]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    LocalResponseNorm LocalResponseNormBuilder |self, x| {
        let o = &self.options;
        let options = LocalResponseNormOptions { alpha: o.alpha, beta: o.beta, k: o.k };
        F::local_response_norm_with(x, o.size, options)
    },
    {
        let o = &self.options;
        let [alpha, beta, k] = [o.alpha, o.beta, o.k].map(|v| number(v.into()));
        format!("{}, alpha={alpha}, beta={beta}, k={k}", o.size)
    }
}

impl LocalResponseNorm {
    /// Normalises over `size` neighbouring channels. An error for 0.
    ///
    /// ```
    /// # use torsh_nn::{LocalResponseNorm, Module};
    /// # use torsh_tensor::tensor;
    /// // 100 / (1 + 1e-4 * 100^2 / 1)^0.75
    /// assert!(LocalResponseNorm::new(1)?.forward(&tensor![[[100.0]]])?.allclose(&tensor![[[59.460356]]])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn new(size: usize) -> Result<LocalResponseNorm> {
        LocalResponseNorm::builder(size).build()
    }

    /// A layer with PyTorch's other arguments.
    ///
    /// ```
    /// # use torsh_nn::{LocalResponseNorm, ModuleExt};
    /// assert_eq!(LocalResponseNorm::builder(2).k(2.0).build()?.repr(), "LocalResponseNorm(2, alpha=0.0001, beta=0.75, k=2.0)");
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn builder(size: usize) -> LocalResponseNormBuilder {
        LocalResponseNormBuilder::with(size)
    }
}

builder! {
    LocalResponseNormBuilder of LocalResponseNorm { size: usize }
        calls "(2)" shows ["2, alpha=0.0001, beta=0.75, k=1.0"] {
        /// A factor of the mean of squares. The default is 1e-4.
        @ ".alpha(0.5)" ["2, alpha=0.5, beta=0.75, k=1.0"]
        alpha: f64 = 1e-4;
        /// The power. The default is 0.75.
        @ ".beta(0.5)" ["2, alpha=0.0001, beta=0.5, k=1.0"]
        beta: f64 = 0.75;
        /// What is added before the power. The default is 1.
        @ ".k(2.0)" ["2, alpha=0.0001, beta=0.75, k=2.0"]
        k: f64 = 1.0;
    }
}

impl LocalResponseNormBuilder {
    /// Makes the layer. An error for a size of 0.
    ///
    /// ```
    /// # use torsh_nn::{LocalResponseNorm, ModuleExt};
    /// assert_eq!(LocalResponseNorm::builder(2).build()?.num_parameters(), 0);
    /// assert!(LocalResponseNorm::builder(0).build().is_err());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn build(self) -> Result<LocalResponseNorm> {
        if self.size == 0 {
            return Err(TorshError::invalid(
                "LocalResponseNorm",
                "size must be positive, got 0",
            ));
        }
        Ok(LocalResponseNorm::of(self))
    }
}
