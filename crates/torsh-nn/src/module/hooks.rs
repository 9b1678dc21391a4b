//! Hooks: functions that are called when a module runs.

use std::fmt;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use torsh_tensor::{Result, Tensor};

use crate::module::Module;

type PreHook = dyn Fn(&dyn Module, &Tensor) -> Result<Option<Tensor>> + Send + Sync;
type Hook = dyn Fn(&dyn Module, &Tensor, &Tensor) -> Result<Option<Tensor>> + Send + Sync;

#[derive(Default)]
struct Lists {
    before: Vec<(u64, Arc<PreHook>)>,
    after: Vec<(u64, Arc<Hook>)>,
}

/// The forward hooks of a module.
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
    #[track_caller]
    pub fn run(
        &self,
        module: &dyn Module,
        x: &Tensor,
        forward: impl FnOnce(&Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let caller = Location::caller();
        let mut once = Some(forward);
        let forward: &mut dyn FnMut(&Tensor) -> Result<Tensor> = &mut |x| match once.take() {
            Some(forward) => forward(x).map_err(|e| e.called_from(file!(), caller)),
            None => unreachable!("a layer's forward runs once"),
        };
        match self.0.get() {
            None => forward(x),
            Some(lists) => Hooks::run_between(lists, module, x, forward),
        }
    }

    /// [`Hooks::run`] of a module that has hooks, compiled once for all layers.
    fn run_between(
        lists: &Mutex<Lists>,
        module: &dyn Module,
        x: &Tensor,
        forward: &mut dyn FnMut(&Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        // The lists are copied, so that a hook may add or remove hooks.
        let (before, after) = {
            let lists = lock(lists);
            (lists.before.clone(), lists.after.clone())
        };
        let mut x = x.clone();
        for (_, hook) in &before {
            if let Some(other) = hook(module, &x)? {
                x = other;
            }
        }
        let mut y = forward(&x)?;
        for (_, hook) in &after {
            if let Some(other) = hook(module, &x, &y)? {
                y = other;
            }
        }
        Ok(y)
    }

    /// Whether there are none.
    ///
    /// ```
    /// # use torsh_nn::Hooks;
    /// let hooks = Hooks::new();
    /// assert!(hooks.is_empty());
    /// hooks.before(|_, x| x.neg().map(Some));
    /// assert!(!hooks.is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.0.get().is_none_or(|lists| {
            let lists = lock(lists);
            lists.before.is_empty() && lists.after.is_empty()
        })
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
        let id = next_id();
        lock(self.lists()).before.push((id, Arc::new(hook)));
        self.handle(id)
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
        let id = next_id();
        lock(self.lists()).after.push((id, Arc::new(hook)));
        self.handle(id)
    }

    fn lists(&self) -> &Arc<Mutex<Lists>> {
        self.0.get_or_init(Arc::default)
    }

    fn handle(&self, id: u64) -> RemovableHandle {
        RemovableHandle {
            lists: Arc::downgrade(self.lists()),
            id,
        }
    }
}

/// A hook that panicked leaves the lists whole.
fn lock(lists: &Mutex<Lists>) -> MutexGuard<'_, Lists> {
    lists.lock().unwrap_or_else(PoisonError::into_inner)
}

fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Clone for Hooks {
    fn clone(&self) -> Self {
        Hooks::new()
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (before, after) = self.0.get().map_or((0, 0), |lists| {
            let lists = lock(lists);
            (lists.before.len(), lists.after.len())
        });
        f.debug_struct("Hooks")
            .field("before", &before)
            .field("after", &after)
            .finish()
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
            let mut lists = lock(&lists);
            lists.before.retain(|(id, _)| *id != self.id);
            lists.after.retain(|(id, _)| *id != self.id);
        }
    }
}

impl fmt::Debug for Lists {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} + {} hooks", self.before.len(), self.after.len())
    }
}
