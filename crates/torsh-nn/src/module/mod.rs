//! Modules: the trait, the traversal of their fields, and the methods of every module.

mod checkpointing;
mod ext;
mod fields;
#[cfg(feature = "files")]
mod file;
mod functional_call;
mod hooks;
mod mismatch;
mod parameter;
mod replace;
mod show;
mod state;
mod submodule;
mod tied;

pub use checkpointing::GradientCheckpointing;
pub use ext::ModuleExt;
pub use fields::{
    FieldMut, FieldRef, ModuleField, ModuleFields, Momentum, Training, walk, walk_mut,
};
pub use hooks::{
    HookOptions, Hooks, RemovableHandle, register_module_forward_hook,
    register_module_forward_pre_hook, register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
};
pub(crate) use parameter::Shared;
pub use parameter::{Buffer, Parameter};
pub use state::{IncompatibleKeys, LoadStateDictOptions, StateDict, upgraded_state_dict};
pub use submodule::with_submodule_mut;
pub use tied::{tied_names, untie, untied_by};

use std::any::Any;

use torsh_tensor::{Result, Tensor, TorshError};

/// A layer, a model, or any other thing with parameters (`torch.nn.Module`).
///
/// The author derives the walk over the fields and writes `forward`:
///
/// ```
/// use torsh_nn::{Linear, Module, ModuleExt, ReLU};
/// use torsh_tensor::{Result, Tensor};
///
/// #[derive(Module)]
/// struct Net {
///     fc1: Linear,
///     act: ReLU,
///     fc2: Linear,
/// }
///
/// impl Module for Net {
///     fn forward(&self, x: &Tensor) -> Result<Tensor> {
///         self.fc2.forward(&self.act.forward(&self.fc1.forward(x)?)?)
///     }
/// }
///
/// let net = Net { fc1: Linear::new(4, 8), act: ReLU::new(), fc2: Linear::new(8, 2) };
/// assert_eq!(net.num_parameters(), 4 * 8 + 8 + 8 * 2 + 2);
/// let names: Vec<String> = net.named_parameters().into_iter().map(|(name, _)| name).collect();
/// assert_eq!(names, ["fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"]);
/// ```
///
/// Everything else comes from [`ModuleExt`], also for a `Box<dyn Module>`. A `&dyn Module` is a `&dyn Any` too, so
/// that a walk finds the modules of one type:
///
/// ```
/// use std::any::Any;
/// use torsh_nn::{Dropout, ModuleExt, ReLU, sequential};
///
/// let net = sequential![ReLU::new(), Dropout::new(0.5)?];
/// for module in net.modules() {
///     if let Some(dropout) = (module as &dyn Any).downcast_ref::<Dropout>() {
///         dropout.set_p(0.1)?;
///     }
/// }
/// assert!(net.repr().contains("Dropout(p=0.1"));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not implement the trait `Module`",
    label = "`forward` is missing",
    note = "`#[derive(Module)]` finds the fields; what the module computes is yours to write: \
            `impl Module for {Self} {{ fn forward(&self, x: &Tensor) -> Result<Tensor> {{ .. }} }}`"
)]
pub trait Module: ModuleFields + Any + Send + Sync + 'static {
    /// What the module computes.
    ///
    /// Modules that need more than one tensor (losses, attention) have a `forward_with`, and an
    /// error here that says so. Shapes and dtypes are those of the module's own documentation, and
    /// what does not fit is an error.
    ///
    /// ```
    /// # use torsh_nn::{Module, ReLU};
    /// # use torsh_tensor::tensor;
    /// assert_eq!(ReLU::new().forward(&tensor![-1.0, 2.0])?, tensor![0.0, 2.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    fn forward(&self, x: &Tensor) -> Result<Tensor>;

    /// The arguments the module shows when it is printed, as `in_features=4, out_features=8`.
    ///
    /// ```
    /// # use torsh_nn::{Linear, Module};
    /// assert_eq!(Linear::new(4, 8).extra_repr(), "in_features=4, out_features=8, bias=True");
    /// ```
    fn extra_repr(&self) -> String {
        String::new()
    }

    /// Brings the entries of a state dict that are this module's, under names that begin with `prefix`, from an earlier or
    /// another form into the one that the module has; called before each load, for parents first. What PyTorch's layers do in
    /// `_load_from_state_dict`. The state dict is a copy of the caller's, and names are compared afterwards.
    ///
    /// ```
    /// use torsh_nn::{Linear, Module, ModuleExt, StateDict};
    /// use torsh_tensor::{Result, Tensor, tensor};
    ///
    /// #[derive(Module)]
    /// struct Net {
    ///     head: Linear,
    /// }
    ///
    /// impl Module for Net {
    ///     fn forward(&self, x: &Tensor) -> Result<Tensor> {
    ///         self.head.forward(x)
    ///     }
    ///
    ///     /// The head was called `fc` once.
    ///     fn upgrade_state_dict(&self, state: &mut StateDict, prefix: &str) -> Result<()> {
    ///         for name in ["weight", "bias"] {
    ///             if let Some(t) = state.remove(&format!("{prefix}fc.{name}")) {
    ///                 state.insert(format!("{prefix}head.{name}"), t);
    ///             }
    ///         }
    ///         Ok(())
    ///     }
    /// }
    ///
    /// let old = StateDict::from([("fc.weight", tensor![[1.0, 2.0]]), ("fc.bias", tensor![3.0])]);
    /// let net = Net { head: Linear::new(2, 1) };
    /// net.load_state_dict(&old)?;
    /// assert_eq!(*net.head.weight, tensor![[1.0, 2.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// What the module refuses, which then is as it was.
    fn upgrade_state_dict(&self, state: &mut StateDict, prefix: &str) -> Result<()> {
        let _ = (state, prefix);
        Ok(())
    }

    /// What the module saves besides its parameters and buffers, as a tensor: the state dict has it under the module's name
    /// and `_extra_state`. Nothing unless the module says so. A module that has such a state always gives one, as a state
    /// dict without it, or with one that the module does not have, is refused.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicI64, Ordering};
    /// use torsh_nn::{Linear, Module, ModuleExt};
    /// use torsh_tensor::{Result, Tensor, tensor};
    ///
    /// #[derive(Module)]
    /// struct Counted {
    ///     fc: Linear,
    ///     #[module(skip)]
    ///     calls: AtomicI64,
    /// }
    ///
    /// impl Module for Counted {
    ///     fn forward(&self, x: &Tensor) -> Result<Tensor> {
    ///         self.calls.fetch_add(1, Ordering::Relaxed);
    ///         self.fc.forward(x)
    ///     }
    ///
    ///     fn get_extra_state(&self) -> Option<Tensor> {
    ///         Some(tensor![self.calls.load(Ordering::Relaxed)])
    ///     }
    ///
    ///     fn set_extra_state(&self, state: &Tensor) -> Result<()> {
    ///         self.calls.store(state.item()?, Ordering::Relaxed);
    ///         Ok(())
    ///     }
    /// }
    ///
    /// let net = Counted { fc: Linear::new(1, 1), calls: AtomicI64::new(7) };
    /// let state = net.state_dict();
    /// assert_eq!(state.keys().collect::<Vec<_>>(), ["_extra_state", "fc.weight", "fc.bias"]);
    /// let other = Counted { fc: Linear::new(1, 1), calls: AtomicI64::new(0) };
    /// other.load_state_dict(&state)?;
    /// assert_eq!(other.calls.into_inner(), 7);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    fn get_extra_state(&self) -> Option<Tensor> {
        None
    }

    /// Takes over what [`get_extra_state`](Module::get_extra_state) gave when the state dict was made. A module that saves
    /// such a state reads it here.
    ///
    /// # Errors
    /// What the module refuses; a module that does not define this refuses everything.
    #[track_caller]
    fn set_extra_state(&self, state: &Tensor) -> Result<()> {
        Err(TorshError::invalid(
            "set_extra_state",
            format!(
                "{} has no extra state, got {}",
                self.type_name(),
                state.describe()
            ),
        )
        .with_hint("define set_extra_state where get_extra_state is defined"))
    }
}

/// A module with several owners, as [`checkpoint`](torsh_tensor::checkpoint) needs of the layers it
/// runs again:
///
/// ```
/// use std::sync::Arc;
/// use torsh_nn::{Linear, Module, ModuleExt};
/// use torsh_tensor::{Result, Tensor, checkpoint, ones};
///
/// #[derive(Module)]
/// struct Deep {
///     layers: Vec<Arc<Linear>>,
/// }
///
/// impl Module for Deep {
///     fn forward(&self, x: &Tensor) -> Result<Tensor> {
///         let mut x = x.clone();
///         for layer in &self.layers {
///             let layer = layer.clone();
///             x = checkpoint(move || layer.forward(&x)?.tanh())?;
///         }
///         Ok(x)
///     }
/// }
///
/// let net = Deep { layers: (0..4).map(|_| Arc::new(Linear::new(3, 3))).collect() };
/// net.forward(&ones(&[2, 3]))?.sum()?.backward()?;
/// assert!(net.parameters().iter().all(|p| p.grad().is_some()));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
impl<M: Module + ?Sized> Module for std::sync::Arc<M> {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        (**self).forward(x)
    }

    fn extra_repr(&self) -> String {
        (**self).extra_repr()
    }

    #[track_caller]
    fn upgrade_state_dict(&self, state: &mut StateDict, prefix: &str) -> Result<()> {
        (**self).upgrade_state_dict(state, prefix)
    }

    fn get_extra_state(&self) -> Option<Tensor> {
        (**self).get_extra_state()
    }

    #[torsh_tensor::names_caller]
    fn set_extra_state(&self, state: &Tensor) -> Result<()> {
        (**self).set_extra_state(state)
    }
}

impl<M: Module + ?Sized> Module for Box<M> {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        (**self).forward(x)
    }

    fn extra_repr(&self) -> String {
        (**self).extra_repr()
    }

    #[track_caller]
    fn upgrade_state_dict(&self, state: &mut StateDict, prefix: &str) -> Result<()> {
        (**self).upgrade_state_dict(state, prefix)
    }

    fn get_extra_state(&self) -> Option<Tensor> {
        (**self).get_extra_state()
    }

    #[torsh_tensor::names_caller]
    fn set_extra_state(&self, state: &Tensor) -> Result<()> {
        (**self).set_extra_state(state)
    }
}
