//! Dropout.

use std::sync::atomic::{AtomicU64, Ordering};

use torsh_functional as F;
use torsh_tensor::{Result, Tensor, TorshError, Value, ops};

use crate::Module;
use crate::layers::examples::{shows, tests};
use crate::layers::{python, python_float};
use crate::module::{Hooks, Training};

macro_rules! dropouts {
    ($($(#[$doc:meta])* $name:ident $function:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Module)]
        pub struct $name {
            #[module(skip)]
            p: AtomicU64,
            #[module(skip)]
            inplace: bool,
            training: Training,
            hooks: Hooks,
        }

        impl $name {
            /// Drops with probability `p` (PyTorch's default is 0.5). An error where `p` is not
            /// from 0 to 1.
            #[doc = shows!(stringify!($name), "::new(0.25)?"; stringify!($name), "(p=0.25, inplace=False)")]
            #[torsh_tensor::names_caller(Self)]
            pub fn new(p: f64) -> Result<$name> {
                check(stringify!($name), p)?;
                Ok($name {
                    p: AtomicU64::new(p.to_bits()),
                    inplace: false,
                    training: Training::default(),
                    hooks: Hooks::new(),
                })
            }

            /// Whether the layer writes into its input. The default is `false`.
            #[doc = shows!(stringify!($name), "::new(0.25)?.inplace(true)"; stringify!($name), "(p=0.25, inplace=True)")]
            #[must_use]
            pub fn inplace(mut self, inplace: bool) -> $name {
                self.inplace = inplace;
                self
            }

            /// The probability with which elements are dropped.
            #[doc = tests!("assert_eq!(", stringify!($name), "::new(0.25)?.p(), 0.25);")]
            pub fn p(&self) -> f64 {
                f64::from_bits(self.p.load(Ordering::Relaxed))
            }

            /// Puts another probability in its place. An error where it is not between 0 and 1.
            ///
            #[doc = tests!(
                "let layer = ", stringify!($name), "::new(0.25)?;\n",
                "layer.set_p(0.5)?;\n",
                "assert_eq!(layer.p(), 0.5);"
            )]
            #[torsh_tensor::names_caller]
            pub fn set_p(&self, p: f64) -> Result<()> {
                check(stringify!($name), p)?;
                self.p.store(p.to_bits(), Ordering::Relaxed);
                Ok(())
            }
        }

        impl Default for $name {
            /// The layer with PyTorch's probability, 0.5.
            fn default() -> Self {
                $name {
                    p: AtomicU64::new(0.5f64.to_bits()),
                    inplace: false,
                    training: Training::default(),
                    hooks: Hooks::new(),
                }
            }
        }

        impl Module for $name {
            #[torsh_tensor::names_caller]
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                self.hooks.run(self, x, |x| match self.inplace {
                    false => F::$function(x, self.p(), self.training.get()),
                    true => in_place(stringify!($function), x, self.p(), self.training.get()),
                })
            }

            fn extra_repr(&self) -> String {
                format!("p={}, inplace={}", python_float(self.p()), python(self.inplace))
            }
        }
    )*};
}

/// Refuses a probability outside 0 to 1.
#[track_caller]
fn check(layer: &'static str, p: f64) -> Result<()> {
    match (0.0..=1.0).contains(&p) {
        true => Ok(()),
        false => Err(TorshError::invalid(
            layer,
            format!("dropout probability has to be between 0 and 1, but got {p}"),
        )),
    }
}

/// The function with `inplace=True`.
#[track_caller]
fn in_place(function: &str, x: &Tensor, p: f64, training: bool) -> Result<Tensor> {
    let args = [
        x.into(),
        Value::Float(p),
        Value::Bool(training),
        Value::Bool(true),
    ];
    ops::call(&format!("nn.functional.{function}"), &args, &[])?;
    Ok(x.clone())
}

dropouts! {
    /// Sets each element to 0 with probability `p` while training, and scales the others by
    /// `1 / (1 - p)` (`torch.nn.Dropout`). Does nothing in evaluation mode.
    ///
    /// ```
    /// use torsh_nn::{Dropout, Module, ModuleExt};
    /// use torsh_tensor::tensor;
    /// let layer = Dropout::new(0.5)?;
    /// layer.eval();
    /// assert_eq!(layer.forward(&tensor![1.0, 2.0])?, tensor![1.0, 2.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    Dropout dropout;
    /// [`Dropout`] of whole channels of signals `[N, C, L]` or `[C, L]` (`torch.nn.Dropout1d`).
    ///
    /// ```
    /// use torsh_nn::{Dropout1d, Module};
    /// use torsh_tensor::tensor;
    /// let y = Dropout1d::new(1.0)?.forward(&tensor![[1.0, 2.0]])?;
    /// assert_eq!(y, tensor![[0.0, 0.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    Dropout1d dropout1d;
    /// [`Dropout`] of whole channels of images `[N, C, H, W]` (`torch.nn.Dropout2d`). As in
    /// PyTorch, three dimensions are `[N, C, L]`.
    ///
    /// ```
    /// use torsh_nn::{Dropout2d, Module};
    /// use torsh_tensor::ones;
    /// let y = Dropout2d::new(0.5)?.forward(&ones(&[1, 1, 2, 2]))?;
    /// let all_alike = y.to_vec::<f32>()?;
    /// assert!(all_alike == [0.0; 4] || all_alike == [2.0; 4]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    Dropout2d dropout2d;
    /// [`Dropout`] of whole channels of volumes `[N, C, D, H, W]` or `[C, D, H, W]`
    /// (`torch.nn.Dropout3d`).
    ///
    /// ```
    /// use torsh_nn::{Dropout3d, Module};
    /// use torsh_tensor::ones;
    /// let y = Dropout3d::new(0.5)?.forward(&ones(&[1, 1, 2, 2]))?;
    /// let all_alike = y.to_vec::<f32>()?;
    /// assert!(all_alike == [0.0; 4] || all_alike == [2.0; 4]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    Dropout3d dropout3d;
    /// Sets each element with probability `p` to SELU's lower limit while training, and scales and
    /// shifts all so that mean and variance stay (`torch.nn.AlphaDropout`; Klambauer et al., 2017).
    /// Does nothing in evaluation mode.
    ///
    /// ```
    /// use torsh_nn::{AlphaDropout, Module, ModuleExt};
    /// use torsh_tensor::tensor;
    /// let layer = AlphaDropout::default();
    /// layer.eval();
    /// assert_eq!(layer.forward(&tensor![1.0, 2.0])?, tensor![1.0, 2.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    AlphaDropout alpha_dropout;
    /// [`AlphaDropout`] of whole channels `[N, C, ..]` (`torch.nn.FeatureAlphaDropout`).
    ///
    /// ```
    /// use torsh_nn::{FeatureAlphaDropout, Module, ModuleExt};
    /// use torsh_tensor::tensor;
    /// let layer = FeatureAlphaDropout::default();
    /// layer.eval();
    /// assert_eq!(layer.forward(&tensor![[1.0, 2.0]])?, tensor![[1.0, 2.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    FeatureAlphaDropout feature_alpha_dropout;
}
