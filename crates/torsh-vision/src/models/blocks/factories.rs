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
    /// A maker of one's own. The name is how it prints.
    pub fn new<M: Module>(
        name: &str,
        make: impl Fn(usize) -> Result<M> + Send + Sync + 'static,
    ) -> NormLayer {
        NormLayer {
            name: name.into(),
            make: Arc::new(move |channels| Ok(Box::new(make(channels)?))),
        }
    }

    /// [`BatchNorm2d`].
    pub fn batch_norm_2d() -> NormLayer {
        NormLayer::new("BatchNorm2d", BatchNorm2d::new)
    }

    /// [`BatchNorm2d`] with what is added to the variance, and how much a batch moves the running statistics.
    pub fn batch_norm_2d_with(eps: f64, momentum: f64) -> NormLayer {
        NormLayer::new("BatchNorm2d", move |channels| {
            BatchNorm2d::builder(channels)
                .eps(eps)
                .momentum(momentum)
                .build()
        })
    }

    /// [`BatchNorm3d`].
    pub fn batch_norm_3d() -> NormLayer {
        NormLayer::new("BatchNorm3d", BatchNorm3d::new)
    }

    /// [`BatchNorm3d`] with what is added to the variance, and how much a batch moves the running statistics.
    pub fn batch_norm_3d_with(eps: f64, momentum: f64) -> NormLayer {
        NormLayer::new("BatchNorm3d", move |channels| {
            BatchNorm3d::builder(channels)
                .eps(eps)
                .momentum(momentum)
                .build()
        })
    }

    /// [`FrozenBatchNorm2d`], as detection models use it.
    pub fn frozen_batch_norm_2d() -> NormLayer {
        NormLayer::new("FrozenBatchNorm2d", FrozenBatchNorm2d::new)
    }

    /// [`FrozenBatchNorm2d`], with what is added to the variance.
    pub fn frozen_batch_norm_2d_with(eps: f64) -> NormLayer {
        NormLayer::new("FrozenBatchNorm2d", move |channels| {
            FrozenBatchNorm2d::with_eps(channels, eps)
        })
    }

    /// [`LayerNorm`] of the last dimension, with what is added to the variance.
    pub fn layer_norm(eps: f64) -> NormLayer {
        NormLayer::new("LayerNorm", move |channels| {
            LayerNorm::builder([channels]).eps(eps).build()
        })
    }

    /// [`LayerNorm2d`], with what is added to the variance.
    pub fn layer_norm_2d(eps: f64) -> NormLayer {
        NormLayer::new("LayerNorm2d", move |channels| {
            LayerNorm2d::new(channels, eps)
        })
    }

    /// [`GroupNorm`] with so many groups.
    pub fn group_norm(groups: usize) -> NormLayer {
        NormLayer::new("GroupNorm", move |channels| {
            GroupNorm::new(groups, channels)
        })
    }

    /// [`InstanceNorm2d`].
    pub fn instance_norm_2d() -> NormLayer {
        NormLayer::new("InstanceNorm2d", InstanceNorm2d::new)
    }

    /// [`Identity`]: no norm.
    pub fn identity() -> NormLayer {
        NormLayer::new("Identity", |_| Ok(Identity::new()))
    }

    /// The norm of so many channels.
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

macro_rules! activations {
    ($($(#[$doc:meta])* $function:ident $ty:ident;)*) => {
        impl ActivationLayer {
            $($(#[$doc])*
            pub fn $function() -> ActivationLayer {
                ActivationLayer::new(stringify!($ty), || Ok($ty::new()))
            })*
        }
    };
}

activations! {
    /// [`ReLU`].
    relu ReLU;
    /// [`ReLU6`].
    relu6 ReLU6;
    /// [`SiLU`].
    silu SiLU;
    /// [`GELU`].
    gelu GELU;
    /// [`ELU`].
    elu ELU;
    /// [`LeakyReLU`].
    leaky_relu LeakyReLU;
    /// [`Hardswish`].
    hardswish Hardswish;
    /// [`Sigmoid`].
    sigmoid Sigmoid;
    /// [`Hardsigmoid`].
    hardsigmoid Hardsigmoid;
    /// [`Tanh`].
    tanh Tanh;
    /// [`Identity`]: no activation.
    identity Identity;
}

impl ActivationLayer {
    /// A maker of one's own. The name is how it prints.
    pub fn new<M: Module>(
        name: &str,
        make: impl Fn() -> Result<M> + Send + Sync + 'static,
    ) -> ActivationLayer {
        ActivationLayer {
            name: name.into(),
            make: Arc::new(move || Ok(Box::new(make()?))),
        }
    }

    /// The activation.
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
