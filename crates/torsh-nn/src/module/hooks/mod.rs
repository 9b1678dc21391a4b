//! Hooks: functions that are called when a module runs, when gradients flow through it, and when its state dict is made or
//! loaded.

mod backward;
mod global;
pub(super) mod methods;

pub use global::{
    register_module_forward_hook, register_module_forward_pre_hook,
    register_module_full_backward_hook, register_module_full_backward_pre_hook,
};

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use torsh_tensor::{Result, Tensor};

use crate::module::{IncompatibleKeys, Module, StateDict};
use backward::Backward;

/// Gradients, `None` where there is none.
type Grads = [Option<Tensor>];

type PreHook = dyn Fn(&dyn Module, &[Tensor]) -> Result<Option<Vec<Tensor>>> + Send + Sync;
type Hook = dyn Fn(&dyn Module, &[Tensor], Option<&Tensor>) -> Result<Option<Tensor>> + Send + Sync;
type BackwardPreHook = dyn Fn(&str, &Grads) -> Result<Option<Vec<Option<Tensor>>>> + Send + Sync;
type BackwardHook =
    dyn Fn(&str, &Grads, &Grads) -> Result<Option<Vec<Option<Tensor>>>> + Send + Sync;
type SaveHook = dyn Fn(&dyn Module, &str) + Send + Sync;
type SavedHook = dyn Fn(&dyn Module, &mut StateDict, &str) + Send + Sync;
type LoadHook = dyn Fn(&dyn Module, &mut StateDict, &str) -> Result<()> + Send + Sync;
type LoadedHook = dyn Fn(&dyn Module, &mut IncompatibleKeys) -> Result<()> + Send + Sync;

/// Hooks of one kind, in the order in which they are called.
struct List<F: ?Sized>(Vec<Entry<F>>);

struct Entry<F: ?Sized> {
    id: u64,
    f: Arc<F>,
    /// Whether it is called after an error of `forward` too.
    always: bool,
}

impl<F: ?Sized> Clone for Entry<F> {
    fn clone(&self) -> Self {
        Entry {
            id: self.id,
            f: Arc::clone(&self.f),
            always: self.always,
        }
    }
}

impl<F: ?Sized> Clone for List<F> {
    fn clone(&self) -> Self {
        List(self.0.clone())
    }
}

impl<F: ?Sized> Default for List<F> {
    fn default() -> Self {
        List(Vec::new())
    }
}

impl<F: ?Sized> List<F> {
    fn add(&mut self, f: Arc<F>, options: HookOptions) -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let always = options.always_call;
        let at = if options.prepend { 0 } else { self.0.len() };
        self.0.insert(at, Entry { id, f, always });
        id
    }

    fn remove(&mut self, id: u64) {
        self.0.retain(|entry| entry.id != id);
    }
}

macro_rules! lists {
    ($($list:ident: $f:ty,)*) => {
        /// The hooks of a module, or of all modules.
        #[derive(Clone, Default)]
        pub(super) struct Lists {
            $($list: List<$f>,)*
        }

        impl Lists {
            fn remove(&mut self, id: u64) {
                $(self.$list.remove(id);)*
            }

            /// Adds those of another, behind these.
            fn extend(&mut self, other: &Lists) {
                $(self.$list.0.extend_from_slice(&other.$list.0);)*
            }
        }

        impl fmt::Debug for Lists {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct("Hooks")
                    $(.field(stringify!($list), &self.$list.0.len()))*
                    .finish()
            }
        }
    };
}

lists! {
    before: PreHook,
    after: Hook,
    backward_before: BackwardPreHook,
    backward: BackwardHook,
    save: SaveHook,
    saved: SavedHook,
    load: LoadHook,
    loaded: LoadedHook,
}

impl Lists {
    /// Whether a run of the module calls none.
    fn none_of_runs(&self) -> bool {
        self.before.0.is_empty() && self.after.0.is_empty() && !self.has_backward()
    }

    fn has_backward(&self) -> bool {
        !(self.backward.0.is_empty() && self.backward_before.0.is_empty())
    }
}

/// PyTorch's keyword arguments of `register_forward_hook` and its kin.
///
/// ```
/// use torsh_nn::HookOptions;
/// let options = HookOptions::new().prepend(true);
/// assert!(options.prepend && !options.always_call);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HookOptions {
    /// Whether the hook is called ahead of those that are there, instead of after them.
    pub prepend: bool,
    /// Whether a forward hook is called, without a result, where `forward` or another hook gave an error. The error is
    /// returned all the same. Other kinds of hooks ignore it.
    pub always_call: bool,
}

impl HookOptions {
    /// The defaults: behind the others, and not after an error.
    ///
    /// ```
    /// # use torsh_nn::HookOptions;
    /// assert_eq!(HookOptions::new(), HookOptions::default());
    /// ```
    pub fn new() -> HookOptions {
        HookOptions::default()
    }

    /// Sets [`prepend`](HookOptions::prepend).
    ///
    /// ```
    /// # use torsh_nn::HookOptions;
    /// assert!(HookOptions::new().prepend(true).prepend);
    /// ```
    #[must_use]
    pub fn prepend(mut self, prepend: bool) -> Self {
        self.prepend = prepend;
        self
    }

    /// Sets [`always_call`](HookOptions::always_call).
    ///
    /// ```
    /// # use torsh_nn::HookOptions;
    /// assert!(HookOptions::new().always_call(true).always_call);
    /// ```
    #[must_use]
    pub fn always_call(mut self, always_call: bool) -> Self {
        self.always_call = always_call;
        self
    }
}

/// The hooks of a module.
///
/// Every layer of this crate has them. A module of one's own gets them with a field of this type,
/// and a `forward` that runs inside of [`Hooks::run`]:
///
/// ```
/// use torsh_nn::{Hooks, Linear, Module, ModuleExt};
/// use torsh_tensor::{Result, Tensor};
///
/// #[derive(Module)]
/// struct Net {
///     fc: Linear,
///     hooks: Hooks,
/// }
///
/// impl Module for Net {
///     fn forward(&self, x: &Tensor) -> Result<Tensor> {
///         self.hooks.run(self, x, |x| self.fc.forward(x))
///     }
/// }
///
/// let net = Net { fc: Linear::new(2, 3), hooks: Hooks::default() };
/// let handle = net.register_forward_hook(|_, _, y| {
///     assert_eq!(y.dims(), [4, 3]);
///     Ok(None)
/// })?;
/// handle.remove();
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// A clone starts without hooks.
#[derive(Default)]
pub struct Hooks(OnceLock<Arc<Mutex<Lists>>>);

impl Hooks {
    /// No hooks.
    ///
    /// ```
    /// # use torsh_nn::{Hooks, ReLU};
    /// # use torsh_tensor::tensor;
    /// let hooks = Hooks::new();
    /// assert_eq!(hooks.run(&ReLU::new(), &tensor![2.0], |x| x.mul(3.0))?, tensor![6.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub const fn new() -> Hooks {
        Hooks(OnceLock::new())
    }

    /// Runs `forward` between the hooks: the pre-hooks may replace `x`, the hooks the result. An
    /// error of a hook or of `forward` ends it.
    ///
    /// ```
    /// # use torsh_nn::{Hooks, ReLU};
    /// # use torsh_tensor::tensor;
    /// let hooks = Hooks::new();
    /// hooks.before(|_, x| x.add(1.0).map(Some));
    /// assert_eq!(hooks.run(&ReLU::new(), &tensor![2.0], |x| x.mul(3.0))?, tensor![9.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn run(
        &self,
        module: &dyn Module,
        x: &Tensor,
        forward: impl FnOnce(&Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        match self.called() {
            None => forward(x),
            Some(lists) => {
                let mut once = Some(forward);
                let y = lists.run(module, &[x], &mut |x| match once.take() {
                    Some(forward) => Ok(vec![forward(&x[0])?]),
                    None => unreachable!("a layer's forward runs once"),
                });
                y.map(first)
            }
        }
    }

    /// [`run`](Hooks::run) of a module that takes `N` tensors and gives one or several. Forward hooks see all that it takes
    /// where they were registered [with options](crate::ModuleExt::register_forward_hook_with), else the first, and the
    /// first of what it gives. Backward hooks see the gradients of all.
    ///
    /// ```
    /// # use torsh_nn::{Hooks, ReLU};
    /// # use torsh_tensor::tensor;
    /// let hooks = Hooks::new();
    /// hooks.before(|_, x| x.neg().map(Some));
    /// let y = hooks.run_all(&ReLU::new(), [&tensor![2.0], &tensor![3.0]], |[a, b]| Ok(vec![a.mul(b)?]))?;
    /// assert_eq!(y[0], tensor![-6.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Those of the hooks and of `forward`.
    #[torsh_tensor::names_caller]
    pub fn run_all<const N: usize>(
        &self,
        module: &dyn Module,
        inputs: [&Tensor; N],
        forward: impl FnOnce([&Tensor; N]) -> Result<Vec<Tensor>>,
    ) -> Result<Vec<Tensor>> {
        match self.called() {
            None => forward(inputs),
            Some(lists) => {
                let mut once = Some(forward);
                lists.run(module, &inputs, &mut |x| match once.take() {
                    Some(forward) => forward(std::array::from_fn(|i| &x[i])),
                    None => unreachable!("a layer's forward runs once"),
                })
            }
        }
    }

    /// [`run_all`](Hooks::run_all) of a module that gives one tensor.
    ///
    /// ```
    /// # use torsh_nn::{Hooks, ReLU};
    /// # use torsh_tensor::tensor;
    /// let y = Hooks::new().run_many(&ReLU::new(), [&tensor![2.0], &tensor![3.0]], |[a, b]| a.mul(b))?;
    /// assert_eq!(y, tensor![6.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Those of the hooks and of `forward`.
    #[torsh_tensor::names_caller]
    pub fn run_many<const N: usize>(
        &self,
        module: &dyn Module,
        inputs: [&Tensor; N],
        forward: impl FnOnce([&Tensor; N]) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let y = self.run_all(module, inputs, |inputs| Ok(vec![forward(inputs)?]))?;
        Ok(first(y))
    }

    /// What a run calls: the hooks of all modules, then these; `None` where there are none.
    #[inline]
    fn called(&self) -> Option<Lists> {
        match self.0.get() {
            None if !global::any() => None,
            own => merged(own.map(|own| &**own)),
        }
    }

    /// A copy of these, so that a hook may add or remove hooks.
    pub(super) fn copy(&self) -> Option<Lists> {
        self.0.get().map(|own| lock(own).clone())
    }

    /// Whether a run calls none.
    ///
    /// ```
    /// # use torsh_nn::Hooks;
    /// let hooks = Hooks::new();
    /// assert!(hooks.is_empty());
    /// hooks.before(|_, x| x.neg().map(Some));
    /// assert!(!hooks.is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.called().is_none()
    }

    /// Calls `hook(module, input)` ahead of every run; what it returns replaces the input.
    ///
    /// ```
    /// # use torsh_nn::{Hooks, ReLU};
    /// # use torsh_tensor::tensor;
    /// let hooks = Hooks::new();
    /// hooks.before(|_, x| x.neg().map(Some));
    /// assert_eq!(hooks.run(&ReLU::new(), &tensor![2.0], |x| Ok(x.clone()))?, tensor![-2.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn before(
        &self,
        hook: impl Fn(&dyn Module, &Tensor) -> Result<Option<Tensor>> + Send + Sync + 'static,
    ) -> RemovableHandle {
        self.add(HookOptions::new(), |l, o| l.before.add(on_first(hook), o))
    }

    /// Calls `hook(module, input, output)` after every run; what it returns replaces the output.
    ///
    /// ```
    /// # use torsh_nn::{Hooks, ReLU};
    /// # use torsh_tensor::tensor;
    /// let hooks = Hooks::new();
    /// hooks.after(|_, x, y| x.add(y).map(Some));
    /// assert_eq!(hooks.run(&ReLU::new(), &tensor![2.0], |x| x.mul(10.0))?, tensor![22.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn after(
        &self,
        hook: impl Fn(&dyn Module, &Tensor, &Tensor) -> Result<Option<Tensor>> + Send + Sync + 'static,
    ) -> RemovableHandle {
        self.add(HookOptions::new(), |l, o| l.after.add(on_result(hook), o))
    }

    pub(super) fn before_with(
        &self,
        hook: impl Fn(&dyn Module, &[Tensor]) -> Result<Option<Vec<Tensor>>> + Send + Sync + 'static,
        options: HookOptions,
    ) -> RemovableHandle {
        self.add(options, |l, o| l.before.add(Arc::new(hook), o))
    }

    pub(super) fn after_with(
        &self,
        hook: impl Fn(&dyn Module, &[Tensor], Option<&Tensor>) -> Result<Option<Tensor>>
        + Send
        + Sync
        + 'static,
        options: HookOptions,
    ) -> RemovableHandle {
        self.add(options, |l, o| l.after.add(Arc::new(hook), o))
    }

    pub(super) fn backward_before(
        &self,
        hook: impl Fn(&str, &Grads) -> Result<Option<Vec<Option<Tensor>>>> + Send + Sync + 'static,
        options: HookOptions,
    ) -> RemovableHandle {
        self.add(options, |l, o| l.backward_before.add(Arc::new(hook), o))
    }

    pub(super) fn backward(
        &self,
        hook: impl Fn(&str, &Grads, &Grads) -> Result<Option<Vec<Option<Tensor>>>>
        + Send
        + Sync
        + 'static,
        options: HookOptions,
    ) -> RemovableHandle {
        self.add(options, |l, o| l.backward.add(Arc::new(hook), o))
    }

    pub(super) fn save(
        &self,
        hook: impl Fn(&dyn Module, &str) + Send + Sync + 'static,
    ) -> RemovableHandle {
        self.add(HookOptions::new(), |l, o| l.save.add(Arc::new(hook), o))
    }

    pub(super) fn saved(
        &self,
        hook: impl Fn(&dyn Module, &mut StateDict, &str) + Send + Sync + 'static,
    ) -> RemovableHandle {
        self.add(HookOptions::new(), |l, o| l.saved.add(Arc::new(hook), o))
    }

    pub(super) fn load(
        &self,
        hook: impl Fn(&dyn Module, &mut StateDict, &str) -> Result<()> + Send + Sync + 'static,
    ) -> RemovableHandle {
        self.add(HookOptions::new(), |l, o| l.load.add(Arc::new(hook), o))
    }

    pub(super) fn loaded(
        &self,
        hook: impl Fn(&dyn Module, &mut IncompatibleKeys) -> Result<()> + Send + Sync + 'static,
    ) -> RemovableHandle {
        self.add(HookOptions::new(), |l, o| l.loaded.add(Arc::new(hook), o))
    }

    /// Adds a hook to one of the lists.
    fn add(
        &self,
        options: HookOptions,
        add: impl FnOnce(&mut Lists, HookOptions) -> u64,
    ) -> RemovableHandle {
        add_to(self.0.get_or_init(Arc::default), options, add)
    }
}

fn add_to(
    lists: &Arc<Mutex<Lists>>,
    options: HookOptions,
    add: impl FnOnce(&mut Lists, HookOptions) -> u64,
) -> RemovableHandle {
    RemovableHandle {
        id: add(&mut lock(lists), options),
        lists: Arc::downgrade(lists),
    }
}

/// A hook that sees the first tensor alone.
fn on_first(
    hook: impl Fn(&dyn Module, &Tensor) -> Result<Option<Tensor>> + Send + Sync + 'static,
) -> Arc<PreHook> {
    Arc::new(move |module, inputs| {
        let Some((x, rest)) = inputs.split_first() else {
            return Ok(None);
        };
        let other = hook(module, x)?;
        Ok(other.map(|x| std::iter::once(x).chain(rest.iter().cloned()).collect()))
    })
}

/// A hook that is called where there is a result.
fn on_result(
    hook: impl Fn(&dyn Module, &Tensor, &Tensor) -> Result<Option<Tensor>> + Send + Sync + 'static,
) -> Arc<Hook> {
    Arc::new(move |module, inputs, y| match (inputs.first(), y) {
        (Some(x), Some(y)) => hook(module, x, y),
        _ => Ok(None),
    })
}

fn first(mut tensors: Vec<Tensor>) -> Tensor {
    tensors.swap_remove(0)
}

/// The hooks of all modules, then `own`.
#[cold]
fn merged(own: Option<&Mutex<Lists>>) -> Option<Lists> {
    let mut lists = global::copy();
    if let Some(own) = own {
        lists.extend(&lock(own));
    }
    (!lists.none_of_runs()).then_some(lists)
}

impl Lists {
    /// [`Hooks::run`], compiled once for all layers.
    fn run(
        &self,
        module: &dyn Module,
        inputs: &[&Tensor],
        forward: &mut dyn FnMut(&[Tensor]) -> Result<Vec<Tensor>>,
    ) -> Result<Vec<Tensor>> {
        let mut inputs: Vec<Tensor> = inputs.iter().map(|&x| x.clone()).collect();
        let (mut result, mut called) = (None, 0);
        let outcome = self.run_through(module, &mut inputs, forward, &mut result, &mut called);
        if outcome.is_err() {
            for hook in self.after.0[called..].iter().filter(|hook| hook.always) {
                // The first error is the one that is returned.
                if let Ok(Some(y)) = (hook.f)(module, &inputs, result.as_ref()) {
                    result = Some(y);
                }
            }
        }
        outcome
    }

    /// A run, with what is known of it at an error: the result so far, and how many forward hooks were called.
    fn run_through(
        &self,
        module: &dyn Module,
        inputs: &mut Vec<Tensor>,
        forward: &mut dyn FnMut(&[Tensor]) -> Result<Vec<Tensor>>,
        result: &mut Option<Tensor>,
        called: &mut usize,
    ) -> Result<Vec<Tensor>> {
        for hook in &self.before.0 {
            if let Some(others) = (hook.f)(module, inputs)? {
                if others.len() != inputs.len() {
                    let (have, want) = (others.len(), inputs.len());
                    return Err(backward::wrong_number(
                        "a forward pre-hook",
                        "inputs",
                        have,
                        want,
                    ));
                }
                *inputs = others;
            }
        }
        let backward = self
            .has_backward()
            .then(|| Backward::new(module.type_name(), self, inputs.len()));
        if let Some(backward) = &backward {
            backward.wrap_inputs(inputs)?;
        }
        let mut outputs = forward(inputs)?;
        for hook in &self.after.0 {
            *called += 1;
            *result = outputs.first().cloned();
            if let Some(other) = (hook.f)(module, inputs, result.as_ref())? {
                outputs[0] = other;
            }
        }
        match &backward {
            Some(backward) => backward.wrap_outputs(outputs),
            None => Ok(outputs),
        }
    }

    /// Calls the hooks ahead of a state dict.
    pub(super) fn save(&self, module: &dyn Module, prefix: &str) {
        self.save.0.iter().for_each(|hook| (hook.f)(module, prefix));
    }

    /// Calls the hooks after a state dict.
    pub(super) fn saved(&self, module: &dyn Module, state: &mut StateDict, prefix: &str) {
        let hooks = self.saved.0.iter();
        hooks.for_each(|hook| (hook.f)(module, state, prefix));
    }

    /// Whether a hook sees what is loaded.
    pub(super) fn has_load(&self) -> bool {
        !self.load.0.is_empty()
    }

    /// Calls the hooks ahead of loading a state dict.
    pub(super) fn load(
        &self,
        module: &dyn Module,
        state: &mut StateDict,
        prefix: &str,
    ) -> Result<()> {
        let mut hooks = self.load.0.iter();
        hooks.try_for_each(|hook| (hook.f)(module, state, prefix))
    }

    /// Whether a hook is called after a state dict was loaded.
    pub(super) fn has_loaded(&self) -> bool {
        !self.loaded.0.is_empty()
    }

    /// Calls the hooks after a state dict was loaded.
    pub(super) fn loaded(&self, module: &dyn Module, keys: &mut IncompatibleKeys) -> Result<()> {
        let mut hooks = self.loaded.0.iter();
        hooks.try_for_each(|hook| (hook.f)(module, keys))
    }
}

/// A hook that panicked leaves the lists whole.
fn lock(lists: &Mutex<Lists>) -> MutexGuard<'_, Lists> {
    lists.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Clone for Hooks {
    fn clone(&self) -> Self {
        Hooks::new()
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.copy() {
            Some(lists) => lists.fmt(f),
            None => Lists::default().fmt(f),
        }
    }
}

/// A hook of a module. Dropping the handle leaves the hook in place.
///
/// ```
/// # use torsh_nn::{Module, ModuleExt, ReLU};
/// # use torsh_tensor::tensor;
/// let layer = ReLU::new();
/// drop(layer.register_forward_hook(|_, _, y| y.add(1.0).map(Some))?);
/// assert_eq!(layer.forward(&tensor![2.0])?, tensor![3.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Debug)]
pub struct RemovableHandle {
    lists: Weak<Mutex<Lists>>,
    id: u64,
}

impl RemovableHandle {
    /// Removes the hook.
    ///
    /// ```
    /// # use torsh_nn::{Module, ModuleExt, ReLU};
    /// # use torsh_tensor::tensor;
    /// let layer = ReLU::new();
    /// layer.register_forward_hook(|_, _, y| y.add(1.0).map(Some))?.remove();
    /// assert_eq!(layer.forward(&tensor![2.0])?, tensor![2.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn remove(self) {
        if let Some(lists) = self.lists.upgrade() {
            lock(&lists).remove(self.id);
        }
    }
}
