//! Modules: the trait, the traversal of their fields, and the methods of every module.

mod checkpointing;
mod ext;
mod fields;
#[cfg(feature = "files")]
mod file;
mod functional_call;
mod hooks;
mod parameter;
mod show;
mod state;
mod submodule;
mod tied;

pub use checkpointing::GradientCheckpointing;
pub use ext::ModuleExt;
pub use fields::{
    FieldMut, FieldRef, ModuleField, ModuleFields, Momentum, Training, walk, walk_mut,
};
pub use hooks::{Hooks, RemovableHandle};
pub(crate) use parameter::Shared;
pub use parameter::{Buffer, Parameter};
pub use state::{IncompatibleKeys, LoadStateDictOptions, StateDict};
pub use submodule::with_submodule_mut;
pub use tied::{tied_names, untie, untied_by};

use std::any::Any;

use torsh_tensor::{Result, Tensor};

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
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        (**self).forward(x)
    }

    fn extra_repr(&self) -> String {
        (**self).extra_repr()
    }
}

impl<M: Module + ?Sized> Module for Box<M> {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        (**self).forward(x)
    }

    fn extra_repr(&self) -> String {
        (**self).extra_repr()
    }
}
