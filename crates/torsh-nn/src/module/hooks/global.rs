//! Hooks of all modules.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

use torsh_tensor::{Result, Tensor};

use super::{Grads, HookOptions, Lists, RemovableHandle, add_to, lock, on_first, on_result};
use crate::module::Module;

static LISTS: LazyLock<Arc<Mutex<Lists>>> = LazyLock::new(Arc::default);

/// Whether there ever was such a hook.
static ANY: AtomicBool = AtomicBool::new(false);

/// Whether there may be hooks of all modules.
#[inline]
pub(super) fn any() -> bool {
    ANY.load(Ordering::Relaxed)
}

/// A copy of them.
pub(super) fn copy() -> Lists {
    match any() {
        true => lock(&LISTS).clone(),
        false => Lists::default(),
    }
}

fn add(add: impl FnOnce(&mut Lists, HookOptions) -> u64) -> RemovableHandle {
    let handle = add_to(&LISTS, HookOptions::new(), add);
    ANY.store(true, Ordering::Relaxed);
    handle
}

/// Calls `hook(module, input)` ahead of every `forward` of every module that has [`Hooks`](crate::Hooks), ahead of the
/// module's own hooks (`torch.nn.modules.module.register_module_forward_pre_hook`); what it returns replaces the input.
/// Meant for debugging and profiling: it holds for all threads.
///
/// ```
/// use torsh_nn::{Module, Tanh, register_module_forward_pre_hook};
/// use torsh_tensor::tensor;
/// let handle = register_module_forward_pre_hook(|_, x| x.mul(0.0).map(Some));
/// assert_eq!(Tanh::new().forward(&tensor![2.0])?, tensor![0.0]);
/// handle.remove();
/// assert_ne!(Tanh::new().forward(&tensor![2.0])?, tensor![0.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub fn register_module_forward_pre_hook(
    hook: impl Fn(&dyn Module, &Tensor) -> Result<Option<Tensor>> + Send + Sync + 'static,
) -> RemovableHandle {
    add(|lists, o| lists.before.add(on_first(hook), o))
}

/// Calls `hook(module, input, output)` after every `forward` of every module that has [`Hooks`](crate::Hooks), ahead of
/// the module's own hooks (`torch.nn.modules.module.register_module_forward_hook`); what it returns replaces the output.
///
/// ```
/// use torsh_nn::{Module, ReLU, register_module_forward_hook};
/// use torsh_tensor::tensor;
/// let handle = register_module_forward_hook(|module, _, y| {
///     assert_eq!(module.type_name(), "ReLU");
///     y.add(1.0).map(Some)
/// });
/// assert_eq!(ReLU::new().forward(&tensor![2.0])?, tensor![3.0]);
/// handle.remove();
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub fn register_module_forward_hook(
    hook: impl Fn(&dyn Module, &Tensor, &Tensor) -> Result<Option<Tensor>> + Send + Sync + 'static,
) -> RemovableHandle {
    add(|lists, o| lists.after.add(on_result(hook), o))
}

/// [`register_full_backward_pre_hook`](crate::ModuleExt::register_full_backward_pre_hook) of every module that has
/// [`Hooks`](crate::Hooks) (`torch.nn.modules.module.register_module_full_backward_pre_hook`).
///
/// ```
/// use torsh_nn::{Module, ReLU, register_module_full_backward_pre_hook};
/// use torsh_tensor::tensor;
/// let handle = register_module_full_backward_pre_hook(|_, grad_output| {
///     let tenfold = grad_output[0].as_ref().map(|g| g.mul(10.0)).transpose()?;
///     Ok(Some(vec![tenfold]))
/// });
/// let x = tensor![2.0].requires_grad_(true);
/// ReLU::new().forward(&x)?.backward()?;
/// assert_eq!(x.grad(), Some(tensor![10.0]));
/// handle.remove();
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub fn register_module_full_backward_pre_hook(
    hook: impl Fn(&str, &Grads) -> Result<Option<Vec<Option<Tensor>>>> + Send + Sync + 'static,
) -> RemovableHandle {
    add(|lists, o| lists.backward_before.add(Arc::new(hook), o))
}

/// [`register_full_backward_hook`](crate::ModuleExt::register_full_backward_hook) of every module that has
/// [`Hooks`](crate::Hooks) (`torch.nn.modules.module.register_module_full_backward_hook`).
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use torsh_nn::{Module, ReLU, Tanh, register_module_full_backward_hook, sequential};
/// use torsh_tensor::tensor;
/// let names = Arc::new(Mutex::new(Vec::new()));
/// let seen = names.clone();
/// let handle = register_module_full_backward_hook(move |module, _, _| {
///     seen.lock().expect("no panic").push(module.to_string());
///     Ok(None)
/// });
/// let x = tensor![2.0].requires_grad_(true);
/// sequential![ReLU::new(), Tanh::new()].forward(&x)?.backward()?;
/// handle.remove();
/// assert_eq!(*names.lock().expect("no panic"), ["Tanh", "ReLU", "Sequential"]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub fn register_module_full_backward_hook(
    hook: impl Fn(&str, &Grads, &Grads) -> Result<Option<Vec<Option<Tensor>>>> + Send + Sync + 'static,
) -> RemovableHandle {
    add(|lists, o| lists.backward.add(Arc::new(hook), o))
}
