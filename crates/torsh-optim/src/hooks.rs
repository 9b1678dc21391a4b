//! Hooks of an optimizer: functions that are called around its steps and state dicts.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use torsh_tensor::Result;

use crate::{Optimizer, OptimizerState};

type StepHook = dyn Fn(&dyn Optimizer) -> Result<()> + Send + Sync;
type SaveHook = dyn Fn(&dyn Optimizer) + Send + Sync;
type SavedHook = dyn Fn(&dyn Optimizer, &mut OptimizerState) + Send + Sync;
type LoadHook = dyn Fn(&dyn Optimizer, &mut OptimizerState) -> Result<()> + Send + Sync;

type List<F> = Vec<(u64, Arc<F>)>;

#[derive(Default)]
struct Lists {
    before_step: List<StepHook>,
    after_step: List<StepHook>,
    before_save: List<SaveHook>,
    after_save: List<SavedHook>,
    before_load: List<LoadHook>,
    after_load: List<StepHook>,
}

/// The hooks of an optimizer, which all its handles share; see [`Optimizer::register_step_pre_hook`] and its kin.
///
/// ```
/// use torsh_optim::{Optimizer, SGD};
/// # use torsh_tensor::tensor;
/// let w = tensor![1.0].requires_grad_(true);
/// let optimizer = SGD::new([&w], 0.5)?;
/// assert!(!optimizer.hooks().has_step());
/// optimizer.register_step_pre_hook(|_| Ok(()));
/// assert!(optimizer.hooks().has_step());
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Default)]
pub struct OptimizerHooks(Arc<Mutex<Lists>>);

/// A hook of an optimizer. Dropping the handle leaves the hook in place.
///
/// ```
/// use torsh_optim::{Optimizer, SGD};
/// # use torsh_tensor::tensor;
/// let w = tensor![1.0].requires_grad_(true);
/// let optimizer = SGD::new([&w], 0.5)?;
/// let handle = optimizer.register_step_pre_hook(|_| Err("no step".to_string().into()));
/// assert!(optimizer.step().is_err());
/// handle.remove();
/// optimizer.step()?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Debug)]
pub struct OptimizerHookHandle {
    hooks: Weak<Mutex<Lists>>,
    id: u64,
}

impl OptimizerHookHandle {
    /// Removes the hook.
    ///
    /// ```
    /// use torsh_optim::{Optimizer, SGD};
    /// # use torsh_tensor::tensor;
    /// let w = tensor![1.0].requires_grad_(true);
    /// let optimizer = SGD::new([&w], 0.5)?;
    /// optimizer.register_step_post_hook(|_| Ok(())).remove();
    /// assert!(!optimizer.hooks().has_step());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn remove(self) {
        let Some(hooks) = self.hooks.upgrade() else {
            return;
        };
        let mut lists = hooks.lock();
        let id = self.id;
        lists.before_step.retain(|(i, _)| *i != id);
        lists.after_step.retain(|(i, _)| *i != id);
        lists.before_save.retain(|(i, _)| *i != id);
        lists.after_save.retain(|(i, _)| *i != id);
        lists.before_load.retain(|(i, _)| *i != id);
        lists.after_load.retain(|(i, _)| *i != id);
    }
}

impl fmt::Debug for OptimizerHooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.lock().fmt(f)
    }
}

impl fmt::Debug for Lists {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OptimizerHooks")
            .field("before_step", &self.before_step.len())
            .field("after_step", &self.after_step.len())
            .field("before_save", &self.before_save.len())
            .field("after_save", &self.after_save.len())
            .field("before_load", &self.before_load.len())
            .field("after_load", &self.after_load.len())
            .finish()
    }
}

impl OptimizerHooks {
    /// Whether a step calls any.
    ///
    /// ```
    /// # use torsh_optim::OptimizerHooks;
    /// assert!(!OptimizerHooks::default().has_step());
    /// ```
    pub fn has_step(&self) -> bool {
        let lists = self.0.lock();
        !(lists.before_step.is_empty() && lists.after_step.is_empty())
    }

    fn add<F: ?Sized>(
        &self,
        list: impl FnOnce(&mut Lists) -> &mut List<F>,
        hook: Arc<F>,
    ) -> OptimizerHookHandle {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        list(&mut self.0.lock()).push((id, hook));
        OptimizerHookHandle {
            hooks: Arc::downgrade(&self.0),
            id,
        }
    }

    pub(crate) fn on_step(&self, after: bool, hook: Arc<StepHook>) -> OptimizerHookHandle {
        match after {
            false => self.add(|l| &mut l.before_step, hook),
            true => self.add(|l| &mut l.after_step, hook),
        }
    }

    pub(crate) fn on_save(&self, hook: Arc<SaveHook>) -> OptimizerHookHandle {
        self.add(|l| &mut l.before_save, hook)
    }

    pub(crate) fn on_saved(&self, hook: Arc<SavedHook>) -> OptimizerHookHandle {
        self.add(|l| &mut l.after_save, hook)
    }

    pub(crate) fn on_load(&self, hook: Arc<LoadHook>) -> OptimizerHookHandle {
        self.add(|l| &mut l.before_load, hook)
    }

    pub(crate) fn on_loaded(&self, hook: Arc<StepHook>) -> OptimizerHookHandle {
        self.add(|l| &mut l.after_load, hook)
    }

    /// A copy of a list, so that a hook may add or remove hooks and use the optimizer.
    fn copy<F: ?Sized>(&self, list: impl FnOnce(&Lists) -> &List<F>) -> List<F> {
        list(&self.0.lock()).clone()
    }

    /// Runs a step between its hooks.
    pub(crate) fn step<T>(
        &self,
        optimizer: &dyn Optimizer,
        step: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let before = self.copy(|l| &l.before_step);
        before.iter().try_for_each(|(_, hook)| hook(optimizer))?;
        let result = step()?;
        let after = self.copy(|l| &l.after_step);
        after.iter().try_for_each(|(_, hook)| hook(optimizer))?;
        Ok(result)
    }

    /// Makes a state between its hooks.
    pub(crate) fn save(
        &self,
        optimizer: &dyn Optimizer,
        save: impl FnOnce() -> OptimizerState,
    ) -> OptimizerState {
        let before = self.copy(|l| &l.before_save);
        before.iter().for_each(|(_, hook)| hook(optimizer));
        let mut state = save();
        let after = self.copy(|l| &l.after_save);
        after
            .iter()
            .for_each(|(_, hook)| hook(optimizer, &mut state));
        state
    }

    /// Loads a state between its hooks, which may change a copy of it.
    pub(crate) fn load(
        &self,
        optimizer: &dyn Optimizer,
        state: &OptimizerState,
        load: impl FnOnce(&OptimizerState) -> Result<()>,
    ) -> Result<()> {
        let before = self.copy(|l| &l.before_load);
        if before.is_empty() {
            load(state)?;
        } else {
            let mut changed = state.clone();
            let mut hooks = before.iter();
            hooks.try_for_each(|(_, hook)| hook(optimizer, &mut changed))?;
            load(&changed)?;
        }
        let after = self.copy(|l| &l.after_load);
        after.iter().try_for_each(|(_, hook)| hook(optimizer))
    }
}
