//! Norms that PyTorch's `nn` does not have.

use torsh_functional as F;
use torsh_nn::construct;
use torsh_nn::{Buffer, Hooks, Module, Parameter, StateDict, Training};
use torsh_tensor::{LayerNormOptions, Result, Tensor, TorshError};

/// A batch norm whose statistics and factors are fixed (`torchvision.ops.FrozenBatchNorm2d`): all four are buffers, and
/// training changes none of them.
///
/// Takes `[N, C, H, W]`. Checkpoints of a batch norm load into it; `num_batches_tracked` is left out.
///
/// ```
/// use torsh_nn::{Module, ModuleExt};
/// use torsh_tensor::ones;
/// use torsh_vision::models::blocks::FrozenBatchNorm2d;
/// let norm = FrozenBatchNorm2d::new(3)?;
/// assert_eq!((norm.parameters().len(), norm.buffers().len()), (0, 4));
/// assert!(norm.forward(&ones(&[1, 3, 2, 2]))?.allclose(&ones(&[1, 3, 2, 2]).mul(0.999995)?)?);
/// let trained = torsh_nn::BatchNorm2d::new(3)?;
/// trained.state_dict()["weight"].fill_(2.0)?;
/// norm.load_state_dict(&trained.state_dict())?;
/// assert_eq!(norm.weight.to_vec::<f32>()?, [2.0; 3]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct FrozenBatchNorm2d {
    /// The factor of each channel.
    pub weight: Buffer,
    /// What is added to each channel.
    pub bias: Buffer,
    /// The mean of each channel.
    pub running_mean: Buffer,
    /// The variance of each channel.
    pub running_var: Buffer,
    #[module(skip)]
    eps: f64,
    training: Training,
    hooks: Hooks,
}

impl FrozenBatchNorm2d {
    /// Makes the norm of so many channels, which adds 1e-5 to variances.
    ///
    /// ```
    /// use torsh_vision::models::blocks::FrozenBatchNorm2d;
    /// let norm = FrozenBatchNorm2d::new(2)?;
    /// assert_eq!((norm.weight.to_vec::<f32>()?, norm.bias.to_vec::<f32>()?), (vec![1.0; 2], vec![0.0; 2]));
    /// assert_eq!(norm.eps(), 1e-5);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[track_caller]
    pub fn new(num_features: usize) -> Result<FrozenBatchNorm2d> {
        FrozenBatchNorm2d::with_eps(num_features, 1e-5)
    }

    /// Makes the norm of so many channels, which adds `eps` to variances.
    ///
    /// ```
    /// use torsh_nn::Module;
    /// use torsh_tensor::{ones, tensor};
    /// use torsh_vision::models::blocks::FrozenBatchNorm2d;
    /// // The variance is 1, so with 3 more the result is divided by 2.
    /// let norm = FrozenBatchNorm2d::with_eps(1, 3.0)?;
    /// assert!(norm.forward(&ones(&[1, 1, 1, 1]))?.allclose(&tensor![[[[0.5]]]])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn with_eps(num_features: usize, eps: f64) -> Result<FrozenBatchNorm2d> {
        let full = |value: f64| {
            let (dtype, device) = (construct::dtype(), construct::device());
            Tensor::full([num_features], value, dtype, device).map(Buffer::new)
        };
        Ok(FrozenBatchNorm2d {
            weight: full(1.0)?,
            bias: full(0.0)?,
            running_mean: full(0.0)?,
            running_var: full(1.0)?,
            eps,
            training: Training::default(),
            hooks: Hooks::new(),
        })
    }

    /// What is added to variances.
    ///
    /// ```
    /// use torsh_vision::models::blocks::FrozenBatchNorm2d;
    /// assert_eq!(FrozenBatchNorm2d::with_eps(3, 0.001)?.eps(), 0.001);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn eps(&self) -> f64 {
        self.eps
    }
}

impl Module for FrozenBatchNorm2d {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            if x.ndim() != 4 {
                return Err(TorshError::shape(
                    "FrozenBatchNorm2d",
                    format!("expected 4D input, got {}", x.describe()),
                ));
            }
            let scale = self.running_var.add(self.eps)?.rsqrt()?.mul(&self.weight)?;
            let shift = self.bias.sub(self.running_mean.mul(&scale)?)?;
            x.mul(scale.reshape([1, -1, 1, 1])?)?
                .add(shift.reshape([1, -1, 1, 1])?)
        })
    }

    /// The count of a batch norm is left out.
    #[torsh_tensor::names_caller]
    fn upgrade_state_dict(&self, state: &mut StateDict, prefix: &str) -> Result<()> {
        state.remove(&format!("{prefix}num_batches_tracked"));
        Ok(())
    }

    fn extra_repr(&self) -> String {
        format!("{}, eps={}", self.weight.numel(), self.eps)
    }
}

/// A layer norm over the channels of images, as ConvNeXt has it.
///
/// Takes `[N, C, H, W]`; each pixel's channels are normalised.
///
/// ```
/// use torsh_nn::Module;
/// use torsh_tensor::tensor;
/// use torsh_vision::models::blocks::LayerNorm2d;
/// let norm = LayerNorm2d::new(2, 1e-6)?;
/// let y = norm.forward(&tensor![[[[1.0]], [[3.0]]]])?;
/// assert!(y.allclose(&tensor![[[[-1.0]], [[1.0]]]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct LayerNorm2d {
    /// The factor of each channel.
    pub weight: Parameter,
    /// What is added to each channel.
    pub bias: Parameter,
    #[module(skip)]
    eps: f64,
    training: Training,
    hooks: Hooks,
}

impl LayerNorm2d {
    /// Makes the norm of so many channels, which adds `eps` to variances.
    ///
    /// ```
    /// use torsh_nn::Module;
    /// use torsh_tensor::tensor;
    /// use torsh_vision::models::blocks::LayerNorm2d;
    /// // The variance of a pixel's two channels is 1, to which 3 is added.
    /// let y = LayerNorm2d::new(2, 3.0)?.forward(&tensor![[[[1.0]], [[3.0]]]])?;
    /// assert!(y.allclose(&tensor![[[[-0.5]], [[0.5]]]])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn new(channels: usize, eps: f64) -> Result<LayerNorm2d> {
        let full = |value: f64| {
            let full = Tensor::full([channels], value, construct::dtype(), construct::device())?;
            Parameter::with_requires_grad(full, true)
        };
        Ok(LayerNorm2d {
            weight: full(1.0)?,
            bias: full(0.0)?,
            eps,
            training: Training::default(),
            hooks: Hooks::new(),
        })
    }
}

impl Module for LayerNorm2d {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            if x.ndim() != 4 {
                return Err(TorshError::shape(
                    "LayerNorm2d",
                    format!("expected 4D input, got {}", x.describe()),
                ));
            }
            let options = LayerNormOptions::default()
                .weight(&self.weight)
                .bias(&self.bias)
                .eps(self.eps);
            let channels = self.weight.numel();
            F::layer_norm_with(&x.permute([0, 2, 3, 1])?, [channels], options)?
                .permute([0, 3, 1, 2])
        })
    }

    fn extra_repr(&self) -> String {
        format!(
            "({},), eps={}, elementwise_affine=True",
            self.weight.numel(),
            self.eps
        )
    }
}
