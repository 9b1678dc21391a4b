//! Activations.

mod learned;

pub use learned::{GLU, PReLU, PReLUBuilder, RReLU, Softmax2d, Threshold};

use torsh_functional as F;
use torsh_tensor::named::Named;
use torsh_tensor::{Result, Tensor};

use crate::Module;
use crate::layers::examples::shows;
use crate::layers::python_float;
use crate::module::{Hooks, Training};

macro_rules! plain {
    ($($(#[$doc:meta])* $name:ident $function:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Module, Default)]
        pub struct $name {
            training: Training,
            hooks: Hooks,
        }

        impl $name {
            /// The layer, which has no parameters.
            #[doc = shows!(stringify!($name), "::new()"; stringify!($name), "()")]
            pub fn new() -> $name {
                $name::default()
            }

            /// Whether it has no hooks.
            #[allow(dead_code, reason = "asked of those that can be fused")]
            pub(in crate::layers) fn is_plain(&self) -> bool {
                self.hooks.is_empty()
            }
        }

        impl Module for $name {
            #[torsh_tensor::names_caller]
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                self.hooks.run(self, x, |x| F::$function(x))
            }
        }
    )*};
}

plain! {
    /// 0 for negative elements, themselves for others (`torch.nn.ReLU`).
    ///
    /// ```
    /// # use torsh_nn::{Module, ReLU};
    /// # use torsh_tensor::tensor;
    /// assert_eq!(ReLU::new().forward(&tensor![-1.0, 2.0])?, tensor![0.0, 2.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ReLU relu;
    /// ReLU that stops at 6 (`torch.nn.ReLU6`).
    ///
    /// ```
    /// # use torsh_nn::{Module, ReLU6};
    /// # use torsh_tensor::tensor;
    /// assert_eq!(ReLU6::new().forward(&tensor![-1.0, 2.0, 9.0])?, tensor![0.0, 2.0, 6.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ReLU6 relu6;
    /// `1 / (1 + exp(-x))` (`torch.nn.Sigmoid`).
    ///
    /// ```
    /// # use torsh_nn::{Module, Sigmoid};
    /// # use torsh_tensor::tensor;
    /// assert!(Sigmoid::new().forward(&tensor![0.0, 2.0])?.allclose(&tensor![0.5, 0.8807971])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    Sigmoid sigmoid;
    /// Hyperbolic tangent (`torch.nn.Tanh`).
    ///
    /// ```
    /// # use torsh_nn::{Module, Tanh};
    /// # use torsh_tensor::tensor;
    /// assert!(Tanh::new().forward(&tensor![0.0, 1.0])?.allclose(&tensor![0.0, 0.7615942])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    Tanh tanh;
    /// `x * sigmoid(x)`, also called swish (`torch.nn.SiLU`).
    ///
    /// ```
    /// # use torsh_nn::{Module, SiLU};
    /// # use torsh_tensor::tensor;
    /// assert!(SiLU::new().forward(&tensor![0.0, 2.0])?.allclose(&tensor![0.0, 1.7615942])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    SiLU silu;
    /// `x * tanh(softplus(x))` (`torch.nn.Mish`).
    ///
    /// ```
    /// # use torsh_nn::{Mish, Module};
    /// # use torsh_tensor::tensor;
    /// assert!(Mish::new().forward(&tensor![0.0, 1.0])?.allclose(&tensor![0.0, 0.8650984])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    Mish mish;
    /// Scaled exponential linear unit (`torch.nn.SELU`).
    ///
    /// ```
    /// # use torsh_nn::{Module, SELU};
    /// # use torsh_tensor::tensor;
    /// assert!(SELU::new().forward(&tensor![0.0, 1.0])?.allclose(&tensor![0.0, 1.0507010])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    SELU selu;
    /// `x * relu6(x + 3) / 6` (`torch.nn.Hardswish`).
    ///
    /// ```
    /// # use torsh_nn::{Hardswish, Module};
    /// # use torsh_tensor::tensor;
    /// assert!(Hardswish::new().forward(&tensor![-3.0, 1.0, 3.0])?.allclose(&tensor![0.0, 0.6666667, 3.0])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    Hardswish hardswish;
    /// `relu6(x + 3) / 6` (`torch.nn.Hardsigmoid`).
    ///
    /// ```
    /// # use torsh_nn::{Hardsigmoid, Module};
    /// # use torsh_tensor::tensor;
    /// assert!(Hardsigmoid::new().forward(&tensor![-3.0, 0.0, 3.0])?.allclose(&tensor![0.0, 0.5, 1.0])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    Hardsigmoid hardsigmoid;
    /// `x / (1 + |x|)` (`torch.nn.Softsign`).
    ///
    /// ```
    /// # use torsh_nn::{Module, Softsign};
    /// # use torsh_tensor::tensor;
    /// assert_eq!(Softsign::new().forward(&tensor![-1.0, 3.0])?, tensor![-0.5, 0.75]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    Softsign softsign;
    /// `x - tanh(x)` (`torch.nn.Tanhshrink`).
    ///
    /// ```
    /// # use torsh_nn::{Module, Tanhshrink};
    /// # use torsh_tensor::tensor;
    /// assert!(Tanhshrink::new().forward(&tensor![0.0, 1.0])?.allclose(&tensor![0.0, 0.2384058])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    Tanhshrink tanhshrink;
    /// Logarithm of the sigmoid (`torch.nn.LogSigmoid`).
    ///
    /// ```
    /// # use torsh_nn::{LogSigmoid, Module};
    /// # use torsh_tensor::tensor;
    /// assert!(LogSigmoid::new().forward(&tensor![0.0, -1000.0])?.allclose(&tensor![-0.6931472, -1000.0])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    LogSigmoid logsigmoid;
}

/// Layers with one number that PyTorch gives a default.
macro_rules! with_number {
    ($($(#[$doc:meta])* $name:ident $function:ident $options:ident $field:ident = $default:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Module)]
        pub struct $name {
            #[module(skip)]
            $field: f64,
            training: Training,
            hooks: Hooks,
        }

        impl $name {
            #[doc = concat!("The layer with PyTorch's `", stringify!($field), "`, ", stringify!($default), ".")]
            #[doc = shows!(stringify!($name), "::new()"; stringify!($name), "(", stringify!($field), "=", stringify!($default), ")")]
            pub fn new() -> $name {
                $name::$field($default)
            }

            #[doc = concat!("The layer with this `", stringify!($field), "`.")]
            #[doc = shows!(stringify!($name), "::", stringify!($field), "(0.25)"; stringify!($name), "(", stringify!($field), "=0.25)")]
            pub fn $field($field: f64) -> $name {
                $name { $field, training: Training::default(), hooks: Hooks::new() }
            }
        }

        impl Default for $name {
            fn default() -> Self {
                $name::new()
            }
        }

        impl Module for $name {
            #[torsh_tensor::names_caller]
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                self.hooks.run(self, x, |x| F::$function(x, F::$options::new().$field(self.$field)))
            }

            fn extra_repr(&self) -> String {
                format!(concat!(stringify!($field), "={}"), python_float(self.$field))
            }
        }
    )*};
}

with_number! {
    /// ReLU with a slope for negative elements (`torch.nn.LeakyReLU`).
    ///
    /// ```
    /// # use torsh_nn::{LeakyReLU, Module};
    /// # use torsh_tensor::tensor;
    /// assert_eq!(LeakyReLU::negative_slope(0.5).forward(&tensor![-2.0, 3.0])?, tensor![-1.0, 3.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    LeakyReLU leaky_relu_with LeakyReluOptions negative_slope = 0.01;
    /// `alpha * (exp(x) - 1)` for negative elements (`torch.nn.ELU`).
    ///
    /// ```
    /// # use torsh_nn::{ELU, Module};
    /// # use torsh_tensor::tensor;
    /// assert!(ELU::alpha(2.0).forward(&tensor![-1.0, 2.0])?.allclose(&tensor![-1.264241, 2.0])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ELU elu_with EluOptions alpha = 1.0;
    /// `alpha * (exp(x / alpha) - 1)` for negative elements (`torch.nn.CELU`).
    ///
    /// ```
    /// # use torsh_nn::{CELU, Module};
    /// # use torsh_tensor::tensor;
    /// assert!(CELU::alpha(2.0).forward(&tensor![-2.0, 2.0])?.allclose(&tensor![-1.264241, 2.0])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    CELU celu_with EluOptions alpha = 1.0;
    /// 0 for elements within `lambd` of it (`torch.nn.Hardshrink`).
    ///
    /// ```
    /// # use torsh_nn::{Hardshrink, Module};
    /// # use torsh_tensor::tensor;
    /// assert_eq!(Hardshrink::new().forward(&tensor![-1.0, 0.25])?, tensor![-1.0, 0.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    Hardshrink hardshrink_with ShrinkOptions lambd = 0.5;
    /// Elements moved by `lambd` towards 0, and not beyond (`torch.nn.Softshrink`).
    ///
    /// ```
    /// # use torsh_nn::{Module, Softshrink};
    /// # use torsh_tensor::tensor;
    /// assert_eq!(Softshrink::new().forward(&tensor![-1.0, 0.25])?, tensor![-0.5, 0.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    Softshrink softshrink_with ShrinkOptions lambd = 0.5;
}

/// How [`GELU`] computes the normal distribution.
///
/// ```
/// # use torsh_nn::{Approximate, GELU, Module};
/// # use torsh_tensor::tensor;
/// assert!(GELU::approximate(Approximate::Tanh).forward(&tensor![1.0])?.allclose(&tensor![0.8411920])?);
/// assert!(GELU::approximate(Approximate::None).forward(&tensor![1.0])?.allclose(&tensor![0.8413447])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Approximate {
    /// Exactly.
    #[default]
    None,
    /// By a hyperbolic tangent.
    Tanh,
    /// A string that is none of the words; the function that gets it refuses it.
    #[doc(hidden)]
    Unknown(torsh_tensor::named::Unknown),
}

torsh_tensor::named! {
    Approximate, "approximate",
    "none" => Approximate::None,
    "tanh" => Approximate::Tanh,
}

/// `x` times the probability that a standard normal draw is below it (`torch.nn.GELU`).
///
/// ```
/// # use torsh_nn::{GELU, Module};
/// # use torsh_tensor::tensor;
/// assert!(GELU::new().forward(&tensor![-1.0, 0.0, 1.0])?.allclose(&tensor![-0.1586553, 0.0, 0.8413447])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module, Default)]
pub struct GELU {
    #[module(skip)]
    approximate: Approximate,
    training: Training,
    hooks: Hooks,
}

impl GELU {
    /// The exact function.
    ///
    /// ```
    /// # use torsh_nn::{GELU, ModuleExt};
    /// assert_eq!(GELU::new().repr(), "GELU(approximate='none')");
    /// ```
    pub fn new() -> GELU {
        GELU::default()
    }

    /// The function, exact or approximate.
    ///
    /// ```
    /// # use torsh_nn::{Approximate, GELU, ModuleExt};
    /// assert_eq!(GELU::approximate(Approximate::Tanh).repr(), "GELU(approximate='tanh')");
    /// ```
    pub fn approximate(approximate: impl Into<Approximate>) -> GELU {
        GELU {
            approximate: approximate.into(),
            ..GELU::default()
        }
    }

    fn name(&self) -> &'static str {
        Named::word(self.approximate)
    }
}

impl Module for GELU {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            F::gelu_with(x, F::GeluOptions::new().approximate(self.name()))
        })
    }

    fn extra_repr(&self) -> String {
        format!("approximate='{}'", self.name())
    }
}

/// `log(1 + exp(beta * x)) / beta` (`torch.nn.Softplus`).
///
/// ```
/// # use torsh_nn::{Module, Softplus};
/// # use torsh_tensor::tensor;
/// assert!(Softplus::new().forward(&tensor![0.0, 30.0])?.allclose(&tensor![0.6931472, 30.0])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct Softplus {
    #[module(skip)]
    beta: f64,
    #[module(skip)]
    threshold: f64,
    training: Training,
    hooks: Hooks,
}

impl Softplus {
    /// The layer with PyTorch's `beta` 1 and `threshold` 20.
    ///
    /// ```
    /// # use torsh_nn::{ModuleExt, Softplus};
    /// assert_eq!(Softplus::new().repr(), "Softplus(beta=1.0, threshold=20.0)");
    /// ```
    pub fn new() -> Softplus {
        Softplus::with(1.0, 20.0)
    }

    /// The layer, linear where `beta * x` is above `threshold`.
    ///
    /// ```
    /// # use torsh_nn::{Module, Softplus};
    /// # use torsh_tensor::tensor;
    /// assert!(Softplus::with(2.0, 20.0).forward(&tensor![0.0])?.allclose(&tensor![0.3465736])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn with(beta: f64, threshold: f64) -> Softplus {
        Softplus {
            beta,
            threshold,
            training: Training::default(),
            hooks: Hooks::new(),
        }
    }
}

impl Default for Softplus {
    fn default() -> Self {
        Softplus::new()
    }
}

impl Module for Softplus {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            F::softplus_with(
                x,
                F::SoftplusOptions::new()
                    .beta(self.beta)
                    .threshold(self.threshold),
            )
        })
    }

    fn extra_repr(&self) -> String {
        format!(
            "beta={}, threshold={}",
            python_float(self.beta),
            python_float(self.threshold)
        )
    }
}

/// Elements limited to an interval (`torch.nn.Hardtanh`).
///
/// ```
/// # use torsh_nn::{Hardtanh, Module};
/// # use torsh_tensor::tensor;
/// assert_eq!(Hardtanh::new().forward(&tensor![-3.0, 0.5, 3.0])?, tensor![-1.0, 0.5, 1.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct Hardtanh {
    #[module(skip)]
    min_val: f64,
    #[module(skip)]
    max_val: f64,
    training: Training,
    hooks: Hooks,
}

impl Hardtanh {
    /// Limits to `[-1, 1]`.
    ///
    /// ```
    /// # use torsh_nn::{Hardtanh, ModuleExt};
    /// assert_eq!(Hardtanh::new().repr(), "Hardtanh(min_val=-1.0, max_val=1.0)");
    /// ```
    pub fn new() -> Hardtanh {
        Hardtanh::with(-1.0, 1.0)
    }

    /// Limits to `[min_val, max_val]`.
    ///
    /// ```
    /// # use torsh_nn::{Hardtanh, Module};
    /// # use torsh_tensor::tensor;
    /// assert_eq!(Hardtanh::with(0.0, 2.0).forward(&tensor![-3.0, 3.0])?, tensor![0.0, 2.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn with(min_val: f64, max_val: f64) -> Hardtanh {
        Hardtanh {
            min_val,
            max_val,
            training: Training::default(),
            hooks: Hooks::new(),
        }
    }
}

impl Default for Hardtanh {
    fn default() -> Self {
        Hardtanh::new()
    }
}

impl Module for Hardtanh {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            F::hardtanh_with(
                x,
                F::HardtanhOptions::new()
                    .min_val(self.min_val)
                    .max_val(self.max_val),
            )
        })
    }

    fn extra_repr(&self) -> String {
        format!(
            "min_val={}, max_val={}",
            python_float(self.min_val),
            python_float(self.max_val)
        )
    }
}

macro_rules! along {
    ($($(#[$doc:meta])* $name:ident $function:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Module)]
        pub struct $name {
            #[module(skip)]
            dim: i64,
            training: Training,
            hooks: Hooks,
        }

        impl $name {
            /// Along this dimension; negative ones count from the end.
            #[doc = shows!(stringify!($name), "::new(-1)"; stringify!($name), "(dim=-1)")]
            pub fn new(dim: i64) -> $name {
                $name { dim, training: Training::default(), hooks: Hooks::new() }
            }
        }

        impl Module for $name {
            #[torsh_tensor::names_caller]
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                self.hooks.run(self, x, |x| F::$function(x, self.dim))
            }

            fn extra_repr(&self) -> String {
                format!("dim={}", self.dim)
            }
        }
    )*};
}

along! {
    /// Exponentials divided by their sum along a dimension (`torch.nn.Softmax`).
    ///
    /// ```
    /// # use torsh_nn::{Module, Softmax};
    /// # use torsh_tensor::tensor;
    /// assert_eq!(Softmax::new(-1).forward(&tensor![0.0, 0.0])?, tensor![0.5, 0.5]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    Softmax softmax;
    /// Logarithm of the softmax (`torch.nn.LogSoftmax`).
    ///
    /// ```
    /// # use torsh_nn::{LogSoftmax, Module};
    /// # use torsh_tensor::tensor;
    /// assert!(LogSoftmax::new(-1).forward(&tensor![0.0, 0.0])?.allclose(&tensor![-0.6931472, -0.6931472])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    LogSoftmax log_softmax;
    /// Softmax of the negated elements (`torch.nn.Softmin`).
    ///
    /// ```
    /// # use torsh_nn::{Module, Softmin};
    /// # use torsh_tensor::tensor;
    /// assert!(Softmin::new(-1).forward(&tensor![1.0, 3.0])?.allclose(&tensor![0.8807971, 0.1192029])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    Softmin softmin;
}
