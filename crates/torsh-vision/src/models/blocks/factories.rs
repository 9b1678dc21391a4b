//! Makers of norms and activations.

use std::fmt;
use std::sync::Arc;

use torsh_nn::{
    BatchNorm2d, BatchNorm3d, ELU, GELU, GroupNorm, Hardsigmoid, Hardswish, Identity,
    InstanceNorm2d, LayerNorm, LeakyReLU, Module, ReLU, ReLU6, SiLU, Sigmoid, Tanh,
};
use torsh_tensor::Result;

use super::{FrozenBatchNorm2d, LayerNorm2d};

type MakeNorm = dyn Fn(usize) -> Result<Box<dyn Module>> + Send + Sync;
type MakeActivation = dyn Fn() -> Result<Box<dyn Module>> + Send + Sync;

/// Makes the norm of a number of channels: what `norm_layer` is in torchvision.
///
/// ```
/// use torsh_nn::{GroupNorm, ModuleExt};
/// use torsh_vision::models::blocks::NormLayer;
///
/// let norm = NormLayer::new("GroupNorm", |channels| GroupNorm::new(4, channels));
/// assert_eq!(norm.make(8)?.num_parameters(), 16);
/// assert!(NormLayer::batch_norm_2d_with(1e-3, 0.01).make(8)?.repr().contains("eps=0.001, momentum=0.01"));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone)]
pub struct NormLayer {
    name: Arc<str>,
    make: Arc<MakeNorm>,
}

impl NormLayer {
    /// Takes a maker of one's own, a function of the number of channels. The name is how it prints.
    ///
    /// ```
    /// use torsh_nn::{BatchNorm2d, ModuleExt};
    /// use torsh_vision::models::blocks::NormLayer;
    /// let norm = NormLayer::new("Plain", |channels| BatchNorm2d::builder(channels).affine(false).build());
    /// assert_eq!(norm.make(8)?.num_parameters(), 0);
    /// assert_eq!(format!("{norm:?}"), "NormLayer(\"Plain\")");
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn new<M: Module>(
        name: &str,
        make: impl Fn(usize) -> Result<M> + Send + Sync + 'static,
    ) -> NormLayer {
        NormLayer {
            name: name.into(),
            make: Arc::new(move |channels| Ok(Box::new(make(channels)?))),
        }
    }

    /// Makes a [`BatchNorm2d`].
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_vision::models::blocks::NormLayer;
    /// let norm = NormLayer::batch_norm_2d().make(8)?;
    /// assert!(norm.repr().starts_with("BatchNorm2d(8, eps=1e-05, momentum=0.1"));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn batch_norm_2d() -> NormLayer {
        NormLayer::new("BatchNorm2d", BatchNorm2d::new)
    }

    /// Makes a [`BatchNorm2d`] that adds `eps` to the variance, and whose running statistics each batch moves by
    /// `momentum`.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_vision::models::blocks::NormLayer;
    /// let norm = NormLayer::batch_norm_2d_with(1e-3, 0.01).make(8)?;
    /// assert!(norm.repr().starts_with("BatchNorm2d(8, eps=0.001, momentum=0.01"));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn batch_norm_2d_with(eps: f64, momentum: f64) -> NormLayer {
        NormLayer::new("BatchNorm2d", move |channels| {
            BatchNorm2d::builder(channels)
                .eps(eps)
                .momentum(momentum)
                .build()
        })
    }

    /// Makes a [`BatchNorm3d`].
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_vision::models::blocks::NormLayer;
    /// let norm = NormLayer::batch_norm_3d().make(8)?;
    /// assert!(norm.repr().starts_with("BatchNorm3d(8, eps=1e-05, momentum=0.1"));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn batch_norm_3d() -> NormLayer {
        NormLayer::new("BatchNorm3d", BatchNorm3d::new)
    }

    /// Makes a [`BatchNorm3d`] that adds `eps` to the variance, and whose running statistics each batch moves by
    /// `momentum`.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_vision::models::blocks::NormLayer;
    /// let norm = NormLayer::batch_norm_3d_with(1e-3, 0.01).make(8)?;
    /// assert!(norm.repr().starts_with("BatchNorm3d(8, eps=0.001, momentum=0.01"));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn batch_norm_3d_with(eps: f64, momentum: f64) -> NormLayer {
        NormLayer::new("BatchNorm3d", move |channels| {
            BatchNorm3d::builder(channels)
                .eps(eps)
                .momentum(momentum)
                .build()
        })
    }

    /// Makes a [`FrozenBatchNorm2d`], as detection models use it.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_vision::models::blocks::NormLayer;
    /// let norm = NormLayer::frozen_batch_norm_2d().make(8)?;
    /// assert_eq!(norm.repr(), "FrozenBatchNorm2d(8, eps=0.00001)");
    /// assert_eq!((norm.num_parameters(), norm.buffers().len()), (0, 4));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn frozen_batch_norm_2d() -> NormLayer {
        NormLayer::new("FrozenBatchNorm2d", FrozenBatchNorm2d::new)
    }

    /// Makes a [`FrozenBatchNorm2d`] that adds `eps` to the variance.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_vision::models::blocks::NormLayer;
    /// let norm = NormLayer::frozen_batch_norm_2d_with(0.5).make(8)?;
    /// assert_eq!(norm.repr(), "FrozenBatchNorm2d(8, eps=0.5)");
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn frozen_batch_norm_2d_with(eps: f64) -> NormLayer {
        NormLayer::new("FrozenBatchNorm2d", move |channels| {
            FrozenBatchNorm2d::with_eps(channels, eps)
        })
    }

    /// Makes a [`LayerNorm`] of the last dimension that adds `eps` to the variance.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_vision::models::blocks::NormLayer;
    /// let norm = NormLayer::layer_norm(1e-6).make(8)?;
    /// assert!(norm.repr().starts_with("LayerNorm((8,), eps=1e-06"));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn layer_norm(eps: f64) -> NormLayer {
        NormLayer::new("LayerNorm", move |channels| {
            LayerNorm::builder([channels]).eps(eps).build()
        })
    }

    /// Makes a [`LayerNorm2d`] that adds `eps` to the variance.
    ///
    /// ```
    /// use torsh_nn::Module;
    /// use torsh_tensor::tensor;
    /// use torsh_vision::models::blocks::NormLayer;
    /// // Two channels of one pixel, of variance 1.
    /// let norm = NormLayer::layer_norm_2d(1e-6).make(2)?;
    /// assert!(norm.forward(&tensor![[[[1.0]], [[3.0]]]])?.allclose(&tensor![[[[-1.0]], [[1.0]]]])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn layer_norm_2d(eps: f64) -> NormLayer {
        NormLayer::new("LayerNorm2d", move |channels| {
            LayerNorm2d::new(channels, eps)
        })
    }

    /// Makes a [`GroupNorm`] of so many groups.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_vision::models::blocks::NormLayer;
    /// let norm = NormLayer::group_norm(4).make(8)?;
    /// assert!(norm.repr().starts_with("GroupNorm(4, 8, eps=1e-05"));
    /// assert!(NormLayer::group_norm(4).make(6).is_err()); // six channels do not divide into four groups
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn group_norm(groups: usize) -> NormLayer {
        NormLayer::new("GroupNorm", move |channels| {
            GroupNorm::new(groups, channels)
        })
    }

    /// Makes an [`InstanceNorm2d`], which has no parameters.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_vision::models::blocks::NormLayer;
    /// let norm = NormLayer::instance_norm_2d().make(8)?;
    /// assert!(norm.repr().starts_with("InstanceNorm2d(8, eps=1e-05"));
    /// assert_eq!(norm.num_parameters(), 0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn instance_norm_2d() -> NormLayer {
        NormLayer::new("InstanceNorm2d", InstanceNorm2d::new)
    }

    /// Makes an [`Identity`]: no norm.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_vision::models::blocks::NormLayer;
    /// assert_eq!(NormLayer::identity().make(8)?.repr(), "Identity()");
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn identity() -> NormLayer {
        NormLayer::new("Identity", |_| Ok(Identity::new()))
    }

    /// Makes the norm of so many channels.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_vision::models::blocks::NormLayer;
    /// let norm = NormLayer::batch_norm_2d();
    /// assert_eq!((norm.make(8)?.num_parameters(), norm.make(16)?.num_parameters()), (16, 32));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn make(&self, channels: usize) -> Result<Box<dyn Module>> {
        (self.make)(channels)
    }
}

impl fmt::Debug for NormLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NormLayer").field(&self.name).finish()
    }
}

/// Makes an activation: what `activation_layer` is in torchvision.
///
/// ```
/// use torsh_nn::{LeakyReLU, Module};
/// use torsh_tensor::tensor;
/// use torsh_vision::models::blocks::ActivationLayer;
///
/// assert_eq!(ActivationLayer::relu().make()?.forward(&tensor![-1.0, 2.0])?, tensor![0.0, 2.0]);
/// let leaky = ActivationLayer::new("LeakyReLU", || Ok(LeakyReLU::new()));
/// assert_eq!(leaky.make()?.forward(&tensor![-1.0])?, tensor![-0.01]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone)]
pub struct ActivationLayer {
    name: Arc<str>,
    make: Arc<MakeActivation>,
}

/// Rows have an argument and its value, which the function's example checks.
macro_rules! activations {
    ($($(#[$doc:meta])* $function:ident $ty:ident, $x:literal => $y:literal;)*) => {
        impl ActivationLayer {
            $($(#[$doc])*
            #[doc = concat!(
                "\n```\n\
                 use torsh_nn::Module;\n\
                 use torsh_tensor::tensor;\n\
                 use torsh_vision::models::blocks::ActivationLayer;\n\
                 let y = ActivationLayer::", stringify!($function), "().make()?.forward(&tensor![", stringify!($x), "])?;\n\
                 assert!(y.allclose(&tensor![", stringify!($y), "])?);\n\
                 # Ok::<(), torsh_tensor::TorshError>(())\n```"
            )]
            pub fn $function() -> ActivationLayer {
                ActivationLayer::new(stringify!($ty), || Ok($ty::new()))
            })*
        }
    };
}

activations! {
    /// Makes a [`ReLU`].
    relu ReLU, -1.0 => 0.0;
    /// Makes a [`ReLU6`].
    relu6 ReLU6, 8.0 => 6.0;
    /// Makes a [`SiLU`].
    silu SiLU, 1.0 => 0.7310586;
    /// Makes a [`GELU`].
    gelu GELU, 1.0 => 0.8413447;
    /// Makes an [`ELU`].
    elu ELU, -1.0 => -0.6321206;
    /// Makes a [`LeakyReLU`].
    leaky_relu LeakyReLU, -1.0 => -0.01;
    /// Makes a [`Hardswish`].
    hardswish Hardswish, 1.0 => 0.6666667;
    /// Makes a [`Sigmoid`].
    sigmoid Sigmoid, 0.0 => 0.5;
    /// Makes a [`Hardsigmoid`].
    hardsigmoid Hardsigmoid, 1.5 => 0.75;
    /// Makes a [`Tanh`].
    tanh Tanh, 1.0 => 0.7615942;
    /// Makes an [`Identity`]: no activation.
    identity Identity, -1.0 => -1.0;
}

impl ActivationLayer {
    /// Takes a maker of one's own. The name is how it prints.
    ///
    /// ```
    /// use torsh_nn::{LeakyReLU, Module};
    /// use torsh_tensor::tensor;
    /// use torsh_vision::models::blocks::ActivationLayer;
    /// let steep = ActivationLayer::new("Steep", || Ok(LeakyReLU::negative_slope(0.5)));
    /// assert_eq!(steep.make()?.forward(&tensor![-1.0])?, tensor![-0.5]);
    /// assert_eq!(format!("{steep:?}"), "ActivationLayer(\"Steep\")");
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn new<M: Module>(
        name: &str,
        make: impl Fn() -> Result<M> + Send + Sync + 'static,
    ) -> ActivationLayer {
        ActivationLayer {
            name: name.into(),
            make: Arc::new(move || Ok(Box::new(make()?))),
        }
    }

    /// Makes the activation.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_vision::models::blocks::ActivationLayer;
    /// assert_eq!(ActivationLayer::relu().make()?.repr(), "ReLU()");
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn make(&self) -> Result<Box<dyn Module>> {
        (self.make)()
    }
}

impl fmt::Debug for ActivationLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ActivationLayer").field(&self.name).finish()
    }
}
