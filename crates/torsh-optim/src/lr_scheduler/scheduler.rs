//! The common part of all schedulers.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use torsh_tensor::{Result, TorshError};

use crate::options::Setting;
use crate::{Optimizer, StateValue};

/// The state dict of a scheduler, by PyTorch's names. Functions are not in it.
pub type SchedulerState = BTreeMap<String, StateValue>;

/// How [`SequentialLR`](super::SequentialLR) moves the schedulers that it owns.
#[derive(Clone, Copy, Debug)]
pub enum Move {
    /// Takes back the count of the first step.
    Undo,
    /// Makes the first step anew.
    First,
    /// Goes to an epoch, by the closed form where there is one.
    To(i64),
}

/// A learning rate scheduler: a handle with `&self` methods, whose clones are the same scheduler.
pub trait LRScheduler: Send + Sync {
    /// Goes on by one step or epoch and sets the optimizer's learning rates.
    fn step(&self) -> Result<()>;

    /// [`LRScheduler::step`] with a metric, for [`ReduceLROnPlateau`](super::ReduceLROnPlateau);
    /// the others leave the metric out.
    #[torsh_tensor::names_caller]
    fn step_metric(&self, metric: f64) -> Result<()> {
        let _ = metric;
        self.step()
    }

    /// The learning rates that it set last, one for each group.
    fn get_last_lr(&self) -> Vec<f64>;

    /// How many steps were made.
    fn last_epoch(&self) -> i64;

    /// The state.
    fn state_dict(&self) -> SchedulerState;

    /// Takes over a state; the optimizer's own is to be loaded too. After an error the scheduler
    /// is as before.
    fn load_state_dict(&self, state: &SchedulerState) -> Result<()>;

    /// The optimizer.
    fn optimizer(&self) -> Arc<dyn Optimizer>;

    /// Moves a scheduler that is part of another; an error where it cannot be one.
    fn move_to(&self, to: Move) -> Result<()>;
}

macro_rules! forward {
    ($($t:ty),*) => {$(
        impl<S: LRScheduler + ?Sized> LRScheduler for $t {
            #[torsh_tensor::names_caller]
            fn step(&self) -> Result<()> {
                (**self).step()
            }
            #[torsh_tensor::names_caller]
            fn step_metric(&self, metric: f64) -> Result<()> {
                (**self).step_metric(metric)
            }
            fn get_last_lr(&self) -> Vec<f64> {
                (**self).get_last_lr()
            }
            fn last_epoch(&self) -> i64 {
                (**self).last_epoch()
            }
            fn state_dict(&self) -> SchedulerState {
                (**self).state_dict()
            }
            #[torsh_tensor::names_caller]
            fn load_state_dict(&self, state: &SchedulerState) -> Result<()> {
                (**self).load_state_dict(state)
            }
            fn optimizer(&self) -> Arc<dyn Optimizer> {
                (**self).optimizer()
            }
            #[torsh_tensor::names_caller]
            fn move_to(&self, to: Move) -> Result<()> {
                (**self).move_to(to)
            }
        }
    )*};
}
forward!(&S, Box<S>, Arc<S>);

/// What a [`Policy`] computes learning rates from.
#[non_exhaustive]
pub struct Cx<'a> {
    /// The learning rates of the groups as they are.
    pub lrs: &'a [f64],
    /// Those that the groups started with. A group that was added later has none.
    pub base_lrs: &'a [f64],
    /// The number of the step, from 0.
    pub last_epoch: i64,
    /// How often `step` was called.
    pub step_count: i64,
    /// Whether this is the step that making the scheduler is.
    pub initial: bool,
    /// The optimizer, whose groups may have entries for the policy, as `max_lr`.
    pub optimizer: &'a dyn Optimizer,
}

impl fmt::Debug for Cx<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cx")
            .field("lrs", &self.lrs)
            .field("base_lrs", &self.base_lrs)
            .field("last_epoch", &self.last_epoch)
            .field("step_count", &self.step_count)
            .field("initial", &self.initial)
            .finish_non_exhaustive()
    }
}

impl Cx<'_> {
    /// A number that a group has under a name, as `max_lr`; an error where it has none, as a group
    /// that was added after the scheduler was made.
    pub(super) fn entry(&self, scheduler: &'static str, group: usize, name: &str) -> Result<f64> {
        let value = self.optimizer.get_option(group, name);
        value.and_then(|v| v.as_f64()).ok_or_else(|| {
            TorshError::invalid(
                scheduler,
                format!("the parameter group {group} has no `{name}`"),
            )
            .with_hint(format!(
                "add groups before making the scheduler, or with ParamGroup::set(\"{name}\", ..)"
            ))
        })
    }
}

/// What makes one scheduler different from another.
pub trait Policy: Send + 'static {
    /// The name, as `StepLR`.
    const NAME: &'static str;

    /// The learning rates of a step from those before, one for each group of the optimizer. A list of
    /// another length is an error of the step.
    fn lrs(&mut self, cx: &Cx<'_>) -> Result<Vec<f64>>;

    /// The learning rates of a step from the first ones, where there is a formula.
    fn closed_form(&self, cx: &Cx<'_>) -> Option<Vec<f64>> {
        let _ = cx;
        None
    }

    /// What else is to be set in the optimizer.
    fn apply(&mut self, cx: &Cx<'_>, optimizer: &dyn Optimizer) -> Result<()> {
        let _ = (cx, optimizer);
        Ok(())
    }

    /// Told before a step to the epoch, which is the first one of a `restart` or the next.
    fn advance(&mut self, restart: bool) {
        let _ = restart;
    }

    /// Adds its settings to the state.
    fn save(&self, state: &mut SchedulerState) {
        let _ = state;
    }

    /// Takes its settings from the state, where they are there.
    fn load(&mut self, state: &SchedulerState) -> Result<()> {
        let _ = state;
        Ok(())
    }
}

/// The error for a value of a state that does not fit.
pub(super) fn bad(scheduler: &'static str, name: &str, value: &StateValue) -> TorshError {
    TorshError::invalid(scheduler, format!("the state's {name} cannot be {value:?}"))
}

/// Takes a value from a state, where it is there.
pub(super) fn take<T: Setting>(
    scheduler: &'static str,
    state: &SchedulerState,
    name: &str,
    into: &mut T,
) -> Result<()> {
    if let Some(v) = state.get(name) {
        *into = T::from_value(v).ok_or_else(|| bad(scheduler, name, v))?;
    }
    Ok(())
}

/// `save` and `load` of a policy's fields, by PyTorch's names.
macro_rules! settings {
    ($($field:ident $name:literal),*) => {
        fn save(&self, state: &mut super::SchedulerState) {
            $(state.insert($name.to_string(), crate::options::Setting::to_value(&self.$field));)*
        }

        fn load(&mut self, state: &super::SchedulerState) -> torsh_tensor::Result<()> {
            $(super::scheduler::take(Self::NAME, state, $name, &mut self.$field)?;)*
            Ok(())
        }
    };
}
pub(super) use settings;

struct Inner<P> {
    policy: P,
    base_lrs: Vec<f64>,
    last_lr: Vec<f64>,
    last_epoch: i64,
    step_count: i64,
}

/// A scheduler that follows a [`Policy`]. A clone is another handle of it.
pub struct Scheduler<P: Policy> {
    optimizer: Arc<dyn Optimizer>,
    inner: Arc<Mutex<Inner<P>>>,
}

impl<P: Policy> Clone for Scheduler<P> {
    fn clone(&self) -> Self {
        Scheduler {
            optimizer: self.optimizer.clone(),
            inner: self.inner.clone(),
        }
    }
}

impl<P: Policy> fmt::Debug for Scheduler<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(P::NAME)
            .field("state", &self.state_dict())
            .finish_non_exhaustive()
    }
}

impl<P: Policy> Scheduler<P> {
    /// A scheduler of an optimizer, whose learning rates it sets at once.
    ///
    /// ```
    /// use torsh_optim::lr_scheduler::{Cx, LRScheduler, Policy, Scheduler};
    /// use torsh_optim::{Optimizer, SGD};
    /// # use torsh_tensor::{Result, tensor};
    /// /// The first learning rate over the square root of the step.
    /// struct InverseRoot;
    /// impl Policy for InverseRoot {
    ///     const NAME: &'static str = "InverseRoot";
    ///     fn lrs(&mut self, cx: &Cx<'_>) -> Result<Vec<f64>> {
    ///         let root = (cx.last_epoch as f64 + 1.0).sqrt();
    ///         Ok(cx.base_lrs.iter().map(|lr| lr / root).collect())
    ///     }
    /// }
    /// let optimizer = SGD::new([tensor![1.0].requires_grad_(true)], 0.5)?;
    /// let scheduler = Scheduler::with_policy(&optimizer, InverseRoot)?;
    /// for _ in 0..3 {
    ///     scheduler.step()?;
    /// }
    /// assert_eq!(optimizer.get_lr(), 0.25);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn with_policy(optimizer: impl Optimizer, policy: P) -> Result<Self> {
        let optimizer = optimizer.handle();
        let mut base_lrs = optimizer.group_lrs();
        for (i, lr) in base_lrs.iter_mut().enumerate() {
            match optimizer
                .get_option(i, "initial_lr")
                .and_then(|v| v.as_f64())
            {
                Some(v) => *lr = v,
                None => optimizer.set_extra(i, "initial_lr", (*lr).into())?,
            }
        }
        let s = Scheduler {
            optimizer,
            inner: Arc::new(Mutex::new(Inner {
                policy,
                base_lrs,
                last_lr: Vec::new(),
                last_epoch: -1,
                step_count: 0,
            })),
        };
        s.go(None, true)?;
        Ok(s)
    }

    /// Changes what the policy starts from.
    pub(super) fn set_base_lrs(&self, base_lrs: Vec<f64>) {
        self.inner.lock().base_lrs = base_lrs;
    }

    fn go(&self, to: Option<i64>, initial: bool) -> Result<()> {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let lrs = self.optimizer.group_lrs();
        let cx = Cx {
            lrs: &lrs,
            base_lrs: &inner.base_lrs,
            last_epoch: to.unwrap_or(inner.last_epoch + 1),
            step_count: inner.step_count + i64::from(to.is_none()),
            initial,
            optimizer: &*self.optimizer,
        };
        inner.policy.advance(inner.last_epoch < 0 || to.is_some());
        let closed = to.and_then(|_| inner.policy.closed_form(&cx));
        let new = match closed {
            Some(lrs) => lrs,
            None => inner.policy.lrs(&cx)?,
        };
        if new.len() != lrs.len() {
            return Err(other_groups(P::NAME, lrs.len(), new.len()));
        }
        inner.policy.apply(&cx, &*self.optimizer)?;
        for (i, lr) in new.iter().enumerate() {
            self.optimizer.set_group_lr(i, *lr)?;
        }
        (inner.last_epoch, inner.step_count) = (cx.last_epoch, cx.step_count);
        inner.last_lr = new;
        Ok(())
    }
}

impl<P: Policy> LRScheduler for Scheduler<P> {
    #[torsh_tensor::names_caller]
    fn step(&self) -> Result<()> {
        self.go(None, false)
    }

    fn get_last_lr(&self) -> Vec<f64> {
        self.inner.lock().last_lr.clone()
    }

    fn last_epoch(&self) -> i64 {
        self.inner.lock().last_epoch
    }

    fn state_dict(&self) -> SchedulerState {
        let inner = self.inner.lock();
        let mut state = SchedulerState::from([
            ("base_lrs".to_string(), inner.base_lrs.to_value()),
            ("_last_lr".to_string(), inner.last_lr.to_value()),
            ("last_epoch".to_string(), inner.last_epoch.to_value()),
            ("_step_count".to_string(), inner.step_count.to_value()),
        ]);
        inner.policy.save(&mut state);
        state
    }

    #[torsh_tensor::names_caller]
    fn load_state_dict(&self, state: &SchedulerState) -> Result<()> {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let mut base_lrs = inner.base_lrs.clone();
        let mut last_lr = inner.last_lr.clone();
        let (mut epoch, mut count) = (inner.last_epoch, inner.step_count);
        take(P::NAME, state, "base_lrs", &mut base_lrs)?;
        take(P::NAME, state, "_last_lr", &mut last_lr)?;
        take(P::NAME, state, "last_epoch", &mut epoch)?;
        take(P::NAME, state, "_step_count", &mut count)?;
        // Fewer are of a scheduler whose optimizer got a group later.
        let groups = self.optimizer.group_lrs().len();
        let given = base_lrs.len().max(last_lr.len());
        if given > groups {
            return Err(TorshError::invalid(
                P::NAME,
                format!("the state is of {given} parameter groups, the optimizer has {groups}"),
            ));
        }
        let mut before = SchedulerState::new();
        inner.policy.save(&mut before);
        if let Err(e) = inner.policy.load(state) {
            inner.policy.load(&before)?;
            return Err(e);
        }
        inner.base_lrs = base_lrs;
        inner.last_lr = last_lr;
        (inner.last_epoch, inner.step_count) = (epoch, count);
        Ok(())
    }

    fn optimizer(&self) -> Arc<dyn Optimizer> {
        self.optimizer.clone()
    }

    #[torsh_tensor::names_caller]
    fn move_to(&self, to: Move) -> Result<()> {
        match to {
            Move::Undo => {
                self.inner.lock().last_epoch -= 1;
                Ok(())
            }
            Move::First => {
                self.inner.lock().step_count = 0;
                self.go(None, true)
            }
            Move::To(epoch) => self.go(Some(epoch), false),
        }
    }
}

/// The error for groups that were added to an optimizer after its scheduler was made.
pub(super) fn other_groups(scheduler: &'static str, now: usize, then: usize) -> TorshError {
    TorshError::invalid(
        scheduler,
        format!(
            "the optimizer has {now} parameter groups, it had {then} when the scheduler was made"
        ),
    )
    .with_hint("add all groups before making the scheduler")
}

/// Each number times a factor.
pub(super) fn scaled(lrs: &[f64], factor: f64) -> Vec<f64> {
    lrs.iter().map(|lr| lr * factor).collect()
}
