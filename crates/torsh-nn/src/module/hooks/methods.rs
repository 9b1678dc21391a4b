//! The methods of every module that register hooks.

use torsh_tensor::{Result, TorshError};

use crate::module::fields::own_hooks;
use crate::module::{Hooks, Module};

/// The part of [`ModuleExt`](crate::ModuleExt) that registers hooks.
macro_rules! hook_methods {
    () => {
        /// Calls `hook(module, input)` ahead of every `forward`; what it returns replaces the input.
        ///
        /// An error for a module that has no [`Hooks`](crate::Hooks) field.
        ///
        /// ```
        /// # use torsh_nn::{Module, ModuleExt, ReLU};
        /// # use torsh_tensor::tensor;
        /// let layer = ReLU::new();
        /// layer.register_forward_pre_hook(|_, x| x.neg().map(Some))?;
        /// assert_eq!(layer.forward(&tensor![-1.0, 2.0])?, tensor![1.0, 0.0]);
        /// # Ok::<(), torsh_tensor::TorshError>(())
        /// ```
        #[torsh_tensor::names_caller]
        fn register_forward_pre_hook(
            &self,
            hook: impl Fn(&dyn Module, &Tensor) -> Result<Option<Tensor>> + Send + Sync + 'static,
        ) -> Result<RemovableHandle> {
            Ok(hooks(self, "register_forward_pre_hook")?.before(hook))
        }

        /// Calls `hook(module, input, output)` after every `forward`; what it returns replaces the
        /// output.
        ///
        /// An error for a module that has no [`Hooks`](crate::Hooks) field.
        ///
        /// ```
        /// # use torsh_nn::{Module, ModuleExt, ReLU};
        /// # use torsh_tensor::tensor;
        /// let layer = ReLU::new();
        /// layer.register_forward_hook(|_, _, y| y.mul(10.0).map(Some))?;
        /// assert_eq!(layer.forward(&tensor![-1.0, 2.0])?, tensor![0.0, 20.0]);
        /// # Ok::<(), torsh_tensor::TorshError>(())
        /// ```
        #[torsh_tensor::names_caller]
        fn register_forward_hook(
            &self,
            hook: impl Fn(&dyn Module, &Tensor, &Tensor) -> Result<Option<Tensor>> + Send + Sync + 'static,
        ) -> Result<RemovableHandle> {
            Ok(hooks(self, "register_forward_hook")?.after(hook))
        }

        /// [`register_forward_pre_hook`](ModuleExt::register_forward_pre_hook) with PyTorch's keyword arguments. The hook sees
        /// all tensors that the module takes; it returns as many in their place, or nothing.
        ///
        /// ```
        /// # use torsh_nn::{Bilinear, HookOptions, ModuleExt, init};
        /// # use torsh_tensor::tensor;
        /// let layer = Bilinear::builder(1, 1, 1).bias(false).build()?;
        /// init::ones_(&layer.weight)?;
        /// layer.register_forward_pre_hook_with(|_, x| Ok(Some(vec![x[1].clone(), x[1].clone()])), HookOptions::new())?;
        /// assert_eq!(layer.forward_with(&tensor![[2.0]], &tensor![[5.0]])?, tensor![[25.0]]);
        /// # Ok::<(), torsh_tensor::TorshError>(())
        /// ```
        #[torsh_tensor::names_caller]
        fn register_forward_pre_hook_with(
            &self,
            hook: impl Fn(&dyn Module, &[Tensor]) -> Result<Option<Vec<Tensor>>> + Send + Sync + 'static,
            options: HookOptions,
        ) -> Result<RemovableHandle> {
            Ok(hooks(self, "register_forward_pre_hook")?.before_with(hook, options))
        }

        /// [`register_forward_hook`](ModuleExt::register_forward_hook) with PyTorch's keyword arguments. The hook sees all
        /// tensors that the module took, and the result: `None` after an error, for a hook that is
        /// [always called](HookOptions::always_call).
        ///
        /// ```
        /// # use torsh_nn::{HookOptions, Module, ModuleExt, ReLU};
        /// # use torsh_tensor::tensor;
        /// let layer = ReLU::new();
        /// layer.register_forward_hook(|_, _, y| y.mul(10.0).map(Some))?;
        /// let first = HookOptions::new().prepend(true);
        /// layer.register_forward_hook_with(|_, _, y| y.map(|y| y.add(1.0)).transpose(), first)?;
        /// assert_eq!(layer.forward(&tensor![2.0])?, tensor![30.0]);
        /// # Ok::<(), torsh_tensor::TorshError>(())
        /// ```
        #[torsh_tensor::names_caller]
        fn register_forward_hook_with(
            &self,
            hook: impl Fn(&dyn Module, &[Tensor], Option<&Tensor>) -> Result<Option<Tensor>>
            + Send
            + Sync
            + 'static,
            options: HookOptions,
        ) -> Result<RemovableHandle> {
            Ok(hooks(self, "register_forward_hook")?.after_with(hook, options))
        }

        /// Calls `hook(module, grad_output)` in every backward pass with the gradients of the module's results, before they go
        /// through the module; what it returns replaces them. `module` is the module's type: the graph does not keep the module.
        /// The hook must be there when `forward` runs.
        ///
        /// ```
        /// # use torsh_nn::{Linear, Module, ModuleExt};
        /// # use torsh_tensor::tensor;
        /// let layer = Linear::new(1, 1);
        /// layer.register_full_backward_pre_hook(|_, grad_output| {
        ///     let g = grad_output[0].as_ref().map(|g| g.mul(10.0)).transpose()?;
        ///     Ok(Some(vec![g]))
        /// })?;
        /// layer.forward(&tensor![[3.0]])?.sum()?.backward()?;
        /// assert_eq!(layer.weight.grad(), Some(tensor![[30.0]]));
        /// # Ok::<(), torsh_tensor::TorshError>(())
        /// ```
        #[torsh_tensor::names_caller]
        fn register_full_backward_pre_hook(
            &self,
            hook: impl Fn(&str, &[Option<Tensor>]) -> Result<Option<Vec<Option<Tensor>>>>
            + Send
            + Sync
            + 'static,
        ) -> Result<RemovableHandle> {
            self.register_full_backward_pre_hook_with(hook, HookOptions::new())
        }

        /// [`register_full_backward_pre_hook`](ModuleExt::register_full_backward_pre_hook), which may be called first.
        #[torsh_tensor::names_caller]
        fn register_full_backward_pre_hook_with(
            &self,
            hook: impl Fn(&str, &[Option<Tensor>]) -> Result<Option<Vec<Option<Tensor>>>>
            + Send
            + Sync
            + 'static,
            options: HookOptions,
        ) -> Result<RemovableHandle> {
            Ok(hooks(self, "register_full_backward_pre_hook")?.backward_before(hook, options))
        }

        /// Calls `hook(module, grad_input, grad_output)` in every backward pass, once the gradients of all that the module took
        /// are there: one for each tensor that it takes, and one for each that it gives. What the hook returns replaces
        /// `grad_input`. `module` is the module's type: the graph does not keep the module.
        ///
        /// As in PyTorch, the hook must be there when `forward` runs. Where no input requires a gradient it is called with
        /// `None` for each and must return nothing. What the module takes and gives are views then, so a module that writes
        /// its input in place is refused, as is writing its result.
        ///
        /// ```
        /// # use torsh_nn::{Linear, Module, ModuleExt, init};
        /// # use torsh_tensor::tensor;
        /// let layer = Linear::new(1, 1);
        /// init::constant_(&layer.weight, 3.0)?;
        /// layer.register_full_backward_hook(|module, grad_input, grad_output| {
        ///     assert_eq!((module, &grad_output[0]), ("Linear", &Some(tensor![[1.0]])));
        ///     let g = grad_input[0].as_ref().map(|g| g.add(1.0)).transpose()?;
        ///     Ok(Some(vec![g]))
        /// })?;
        /// let x = tensor![[2.0]].requires_grad_(true);
        /// layer.forward(&x)?.sum()?.backward()?;
        /// assert_eq!(x.grad(), Some(tensor![[4.0]]));
        /// # Ok::<(), torsh_tensor::TorshError>(())
        /// ```
        #[torsh_tensor::names_caller]
        fn register_full_backward_hook(
            &self,
            hook: impl Fn(&str, &[Option<Tensor>], &[Option<Tensor>]) -> Result<Option<Vec<Option<Tensor>>>>
            + Send
            + Sync
            + 'static,
        ) -> Result<RemovableHandle> {
            self.register_full_backward_hook_with(hook, HookOptions::new())
        }

        /// [`register_full_backward_hook`](ModuleExt::register_full_backward_hook), which may be called first.
        #[torsh_tensor::names_caller]
        fn register_full_backward_hook_with(
            &self,
            hook: impl Fn(&str, &[Option<Tensor>], &[Option<Tensor>]) -> Result<Option<Vec<Option<Tensor>>>>
            + Send
            + Sync
            + 'static,
            options: HookOptions,
        ) -> Result<RemovableHandle> {
            Ok(hooks(self, "register_full_backward_hook")?.backward(hook, options))
        }

        /// Calls `hook(module, prefix)` before [`state_dict`](ModuleExt::state_dict) reads this module, of which names begin
        /// with `prefix` (`"fc."`).
        ///
        /// ```
        /// # use torsh_nn::{Linear, ModuleExt};
        /// # use torsh_tensor::tensor;
        /// let layer = Linear::new(1, 1);
        /// let weight = layer.weight.detach();
        /// layer.register_state_dict_pre_hook(move |_, _| drop(weight.fill_(5.0)))?;
        /// assert_eq!(layer.state_dict()["weight"], tensor![[5.0]]);
        /// # Ok::<(), torsh_tensor::TorshError>(())
        /// ```
        #[torsh_tensor::names_caller]
        fn register_state_dict_pre_hook(
            &self,
            hook: impl Fn(&dyn Module, &str) + Send + Sync + 'static,
        ) -> Result<RemovableHandle> {
            Ok(hooks(self, "register_state_dict_pre_hook")?.save(hook))
        }

        /// Calls `hook(module, state_dict, prefix)` after [`state_dict`](ModuleExt::state_dict) has put this module and those
        /// below it into the state dict, which the hook may change.
        ///
        /// ```
        /// # use torsh_nn::{Linear, ModuleExt, sequential};
        /// let net = sequential![Linear::new(1, 1)];
        /// net[0].register_state_dict_post_hook(|_, state, prefix| drop(state.remove(&format!("{prefix}bias"))))?;
        /// assert_eq!(net.state_dict().keys().collect::<Vec<_>>(), ["0.weight"]);
        /// # Ok::<(), torsh_tensor::TorshError>(())
        /// ```
        #[torsh_tensor::names_caller]
        fn register_state_dict_post_hook(
            &self,
            hook: impl Fn(&dyn Module, &mut StateDict, &str) + Send + Sync + 'static,
        ) -> Result<RemovableHandle> {
            Ok(hooks(self, "register_state_dict_post_hook")?.saved(hook))
        }

        /// Calls `hook(module, state_dict, prefix)` before a state dict is loaded, parents first. The hook may change the state
        /// dict, of which it sees the names of this module and those below it; the caller's stays as it is.
        ///
        /// ```
        /// # use torsh_nn::{Linear, ModuleExt, StateDict};
        /// # use torsh_tensor::tensor;
        /// let layer = Linear::builder(1, 1).bias(false).build()?;
        /// layer.register_load_state_dict_pre_hook(|_, state, prefix| {
        ///     if let Some(w) = state.remove(&format!("{prefix}kernel")) {
        ///         state.insert(format!("{prefix}weight"), w.t()?);
        ///     }
        ///     Ok(())
        /// })?;
        /// layer.load_state_dict(&StateDict::from([("kernel", tensor![[7.0]])]))?;
        /// assert_eq!(*layer.weight, tensor![[7.0]]);
        /// # Ok::<(), torsh_tensor::TorshError>(())
        /// ```
        #[torsh_tensor::names_caller]
        fn register_load_state_dict_pre_hook(
            &self,
            hook: impl Fn(&dyn Module, &mut StateDict, &str) -> Result<()> + Send + Sync + 'static,
        ) -> Result<RemovableHandle> {
            Ok(hooks(self, "register_load_state_dict_pre_hook")?.load(hook))
        }

        /// Calls `hook(module, incompatible_keys)` after a state dict was loaded, modules below first. A name that the hook
        /// removes from the keys is no error. So names are checked after such hooks, when what fits has been loaded.
        ///
        /// ```
        /// # use torsh_nn::{Linear, ModuleExt, StateDict};
        /// let layer = Linear::new(1, 1);
        /// layer.register_load_state_dict_post_hook(|_, keys| {
        ///     keys.missing_keys.retain(|name| name != "bias");
        ///     Ok(())
        /// })?;
        /// let mut state = layer.state_dict();
        /// state.remove("bias");
        /// layer.load_state_dict(&state)?;
        /// assert!(layer.load_state_dict(&StateDict::new()).is_err());
        /// # Ok::<(), torsh_tensor::TorshError>(())
        /// ```
        #[torsh_tensor::names_caller]
        fn register_load_state_dict_post_hook(
            &self,
            hook: impl Fn(&dyn Module, &mut IncompatibleKeys) -> Result<()> + Send + Sync + 'static,
        ) -> Result<RemovableHandle> {
            Ok(hooks(self, "register_load_state_dict_post_hook")?.loaded(hook))
        }
    };
}
pub(in crate::module) use hook_methods;

#[track_caller]
pub(in crate::module) fn hooks<'a, M: Module + ?Sized>(
    module: &'a M,
    what: &'static str,
) -> Result<&'a Hooks> {
    own_hooks(module).ok_or_else(|| {
        TorshError::invalid(what, format!("{} has no hooks", module.type_name()))
            .with_hint("add a field `hooks: Hooks` to it, and compute inside of `self.hooks.run(self, x, |x| ..)`")
    })
}
