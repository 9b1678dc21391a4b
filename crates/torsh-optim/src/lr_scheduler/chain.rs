//! Schedulers that combine other schedulers.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use torsh_tensor::{Result, TorshError};

use super::scheduler::{bad, take};
use super::{LRScheduler, Move, SchedulerState};
use crate::options::Setting;
use crate::{Optimizer, StateValue};

type Parts = Arc<[Box<dyn LRScheduler>]>;

/// Checks that all parts are of one optimizer.
fn check(
    name: &'static str,
    optimizer: &dyn Optimizer,
    parts: &[Box<dyn LRScheduler>],
) -> Result<()> {
    for (i, s) in parts.iter().enumerate() {
        if s.optimizer().id() != optimizer.id() {
            return Err(TorshError::invalid(
                name,
                format!(
                    "expects all schedulers to belong to the same optimizer, number {i} is of another"
                ),
            ));
        }
    }
    Ok(())
}

fn empty(name: &'static str) -> TorshError {
    TorshError::invalid(name, "expects at least one scheduler, but got no scheduler")
}

/// The states of the parts under numbered names, since a state dict is flat.
fn save_parts(parts: &Parts, state: &mut SchedulerState) {
    for (i, s) in parts.iter().enumerate() {
        for (k, v) in s.state_dict() {
            state.insert(format!("_schedulers.{i}.{k}"), v);
        }
    }
}

fn load_parts(name: &'static str, parts: &Parts, state: &SchedulerState) -> Result<()> {
    let mut loaded = vec![SchedulerState::new(); parts.len()];
    for (k, v) in state {
        let Some(rest) = k.strip_prefix("_schedulers.") else {
            continue;
        };
        let place = rest
            .split_once('.')
            .and_then(|(i, key)| Some((i.parse::<usize>().ok()?, key)));
        match place {
            Some((i, key)) if i < parts.len() => loaded[i].insert(key.to_string(), v.clone()),
            _ => return Err(bad(name, k, v).with_hint("it is of a chain of other schedulers")),
        };
    }
    let before: Vec<SchedulerState> = parts.iter().map(|s| s.state_dict()).collect();
    for (i, s) in parts.iter().enumerate() {
        if let Err(e) = s.load_state_dict(&loaded[i]) {
            for (s, state) in parts.iter().zip(&before) {
                s.load_state_dict(state)?;
            }
            return Err(e);
        }
    }
    Ok(())
}

/// Several schedulers that all go on at each step (`lr_scheduler.ChainedScheduler`).
///
/// ```
/// use torsh_optim::{Optimizer, SGD};
/// use torsh_optim::lr_scheduler::{ChainedScheduler, ConstantLR, ExponentialLR, LRScheduler};
/// # let w = torsh_tensor::Tensor::from_data(&[1.0f32], [1])?.requires_grad_(true);
/// let optimizer = SGD::new([&w], 0.5)?;
/// let scheduler = ChainedScheduler::new(vec![
///     Box::new(ConstantLR::new(&optimizer, 0.5, 2)?),
///     Box::new(ExponentialLR::new(&optimizer, 0.5)?),
/// ])?;
/// for expected in [0.25, 0.125, 0.125] {
///     assert_eq!(optimizer.get_lr(), expected);
///     scheduler.step()?;
/// }
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone)]
pub struct ChainedScheduler {
    parts: Parts,
    optimizer: Arc<dyn Optimizer>,
    last_lr: Arc<Mutex<Vec<f64>>>,
}

impl ChainedScheduler {
    /// Errors: no schedulers, schedulers of different optimizers, one that needs a metric.
    ///
    /// ```
    /// use torsh_optim::SGD;
    /// use torsh_optim::lr_scheduler::{ChainedScheduler, ConstantLR, LRScheduler};
    /// # let w = torsh_tensor::Tensor::from_data(&[1.0f32], [1])?.requires_grad_(true);
    /// let optimizer = SGD::new([&w], 0.5)?;
    /// let chain = ChainedScheduler::new(vec![Box::new(ConstantLR::new(&optimizer, 0.5, 2)?)])?;
    /// chain.step()?;
    /// assert_eq!(chain.get_last_lr(), [0.25]);
    /// assert!(ChainedScheduler::new(vec![]).is_err());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn new(schedulers: Vec<Box<dyn LRScheduler>>) -> Result<Self> {
        let name = "ChainedScheduler";
        let optimizer = schedulers.first().ok_or_else(|| empty(name))?.optimizer();
        check(name, &*optimizer, &schedulers)?;
        for (i, s) in schedulers.iter().enumerate() {
            if s.state_dict().contains_key("num_bad_epochs") {
                return Err(needs_metric(name, i));
            }
        }
        Ok(ChainedScheduler {
            parts: schedulers.into(),
            last_lr: Arc::new(Mutex::new(optimizer.group_lrs())),
            optimizer,
        })
    }
}

fn needs_metric(name: &'static str, i: usize) -> TorshError {
    TorshError::invalid(
        name,
        format!(
            "does not support ReduceLROnPlateau, whose step needs a metric, but got one at index {i}"
        ),
    )
}

impl fmt::Debug for ChainedScheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChainedScheduler of {}", self.parts.len())
    }
}

impl LRScheduler for ChainedScheduler {
    #[torsh_tensor::names_caller]
    fn step(&self) -> Result<()> {
        self.parts.iter().try_for_each(|s| s.step())?;
        *self.last_lr.lock() = self.optimizer.group_lrs();
        Ok(())
    }

    fn get_last_lr(&self) -> Vec<f64> {
        self.last_lr.lock().clone()
    }

    fn last_epoch(&self) -> i64 {
        self.parts.iter().map(|s| s.last_epoch()).max().unwrap_or(0)
    }

    fn state_dict(&self) -> SchedulerState {
        let mut state = SchedulerState::from([("_last_lr".into(), self.get_last_lr().to_value())]);
        save_parts(&self.parts, &mut state);
        state
    }

    #[torsh_tensor::names_caller]
    fn load_state_dict(&self, state: &SchedulerState) -> Result<()> {
        let mut last_lr = self.get_last_lr();
        take("ChainedScheduler", state, "_last_lr", &mut last_lr)?;
        load_parts("ChainedScheduler", &self.parts, state)?;
        *self.last_lr.lock() = last_lr;
        Ok(())
    }

    fn optimizer(&self) -> Arc<dyn Optimizer> {
        self.optimizer.clone()
    }

    #[torsh_tensor::names_caller]
    fn move_to(&self, to: Move) -> Result<()> {
        match to {
            // PyTorch's first step of a chain is an ordinary one, as of any of its parts.
            Move::Undo | Move::First => {
                self.parts.iter().try_for_each(|s| s.move_to(to))?;
                *self.last_lr.lock() = self.optimizer.group_lrs();
                Ok(())
            }
            Move::To(_) => Err(cannot_restart("ChainedScheduler")),
        }
    }
}

fn cannot_restart(name: &'static str) -> TorshError {
    TorshError::invalid(name, "cannot start at a milestone of a SequentialLR")
        .with_hint("put it first, or list its schedulers")
}

/// One scheduler after the other, each from its milestone on (`lr_scheduler.SequentialLR`).
///
/// ```
/// use torsh_optim::{Optimizer, SGD};
/// use torsh_optim::lr_scheduler::{ConstantLR, ExponentialLR, LRScheduler, SequentialLR};
/// # let w = torsh_tensor::Tensor::from_data(&[1.0f32], [1])?.requires_grad_(true);
/// let optimizer = SGD::new([&w], 0.5)?;
/// let warmup = ConstantLR::new(&optimizer, 0.5, 10)?;
/// let decay = ExponentialLR::new(&optimizer, 0.5)?;
/// let scheduler = SequentialLR::new(&optimizer, vec![Box::new(warmup), Box::new(decay)], &[2])?;
/// for expected in [0.25, 0.25, 0.5, 0.25] {
///     assert_eq!(optimizer.get_lr(), expected);
///     scheduler.step()?;
/// }
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone)]
pub struct SequentialLR {
    parts: Parts,
    optimizer: Arc<dyn Optimizer>,
    inner: Arc<Mutex<Sequence>>,
}

#[derive(Debug)]
struct Sequence {
    milestones: Vec<i64>,
    last_epoch: i64,
    last_lr: Vec<f64>,
}

impl SequentialLR {
    /// There is one milestone less than schedulers. Errors: another count, no schedulers, schedulers
    /// of another optimizer, one that needs a metric, falling milestones.
    ///
    /// ```
    /// use torsh_optim::SGD;
    /// use torsh_optim::lr_scheduler::{ConstantLR, LRScheduler, SequentialLR};
    /// # let w = torsh_tensor::Tensor::from_data(&[1.0f32], [1])?.requires_grad_(true);
    /// let optimizer = SGD::new([&w], 0.5)?;
    /// let one = |factor| ConstantLR::new(&optimizer, factor, 10);
    /// let both = SequentialLR::new(&optimizer, vec![Box::new(one(0.5)?), Box::new(one(0.25)?)], &[1])?;
    /// both.step()?;
    /// assert_eq!(both.get_last_lr(), [0.125]);
    /// // Two schedulers have one milestone.
    /// assert!(SequentialLR::new(&optimizer, vec![Box::new(one(0.5)?)], &[1]).is_err());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn new(
        optimizer: impl Optimizer,
        schedulers: Vec<Box<dyn LRScheduler>>,
        milestones: &[usize],
    ) -> Result<Self> {
        let name = "SequentialLR";
        if schedulers.is_empty() {
            return Err(empty(name));
        }
        if milestones.len() + 1 != schedulers.len() {
            return Err(TorshError::invalid(
                name,
                format!(
                    "expects number of schedulers provided to be one more than the number of milestone points, but \
                     got number of schedulers {} and the number of milestones to be equal to {}",
                    schedulers.len(),
                    milestones.len()
                ),
            ));
        }
        if !milestones.is_sorted() {
            return Err(TorshError::invalid(
                name,
                format!("milestones must rise, got {milestones:?}"),
            ));
        }
        let optimizer = optimizer.handle();
        check(name, &*optimizer, &schedulers)?;
        for (i, s) in schedulers.iter().enumerate() {
            if s.state_dict().contains_key("num_bad_epochs") {
                return Err(needs_metric(name, i));
            }
        }
        for (i, lr) in optimizer.group_lrs().into_iter().enumerate() {
            let first = optimizer
                .get_option(i, "initial_lr")
                .and_then(|v| v.as_f64());
            optimizer.set_group_lr(i, first.unwrap_or(lr))?;
        }
        schedulers.iter().try_for_each(|s| s.move_to(Move::Undo))?;
        let milestones: Vec<i64> = milestones.iter().map(|&m| m as i64).collect();
        let active = &schedulers[milestones.partition_point(|m| *m <= 0)];
        active.move_to(Move::First)?;
        let last_lr = active.get_last_lr();
        Ok(SequentialLR {
            parts: schedulers.into(),
            optimizer,
            inner: Arc::new(Mutex::new(Sequence {
                milestones,
                last_epoch: 0,
                last_lr,
            })),
        })
    }
}

impl fmt::Debug for SequentialLR {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "SequentialLR of {}: {:?}",
            self.parts.len(),
            self.inner.lock()
        )
    }
}

impl LRScheduler for SequentialLR {
    #[torsh_tensor::names_caller]
    fn step(&self) -> Result<()> {
        let mut inner = self.inner.lock();
        let epoch = inner.last_epoch + 1;
        let i = inner.milestones.partition_point(|m| *m <= epoch);
        let active = &self.parts[i];
        if i > 0 && inner.milestones[i - 1] == epoch {
            active.move_to(Move::To(0))?;
        } else {
            active.step()?;
        }
        inner.last_epoch = epoch;
        inner.last_lr = active.get_last_lr();
        Ok(())
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
            ("_milestones".to_string(), inner.milestones.to_value()),
            ("last_epoch".to_string(), StateValue::Int(inner.last_epoch)),
            ("_last_lr".to_string(), inner.last_lr.to_value()),
        ]);
        save_parts(&self.parts, &mut state);
        state
    }

    #[torsh_tensor::names_caller]
    fn load_state_dict(&self, state: &SchedulerState) -> Result<()> {
        let name = "SequentialLR";
        let mut inner = self.inner.lock();
        let (mut milestones, mut last_lr) = (inner.milestones.clone(), inner.last_lr.clone());
        let mut last_epoch = inner.last_epoch;
        take(name, state, "_milestones", &mut milestones)?;
        take(name, state, "last_epoch", &mut last_epoch)?;
        take(name, state, "_last_lr", &mut last_lr)?;
        if milestones.len() + 1 != self.parts.len() {
            let message = "the state is of another number of schedulers";
            return Err(TorshError::invalid(name, message));
        }
        load_parts(name, &self.parts, state)?;
        *inner = Sequence {
            milestones,
            last_epoch,
            last_lr,
        };
        Ok(())
    }

    fn optimizer(&self) -> Arc<dyn Optimizer> {
        self.optimizer.clone()
    }

    #[torsh_tensor::names_caller]
    fn move_to(&self, to: Move) -> Result<()> {
        match to {
            Move::Undo => self.parts.iter().try_for_each(|s| s.move_to(to)),
            Move::First => self.parts[0].move_to(to),
            Move::To(_) => Err(cannot_restart("SequentialLR")),
        }
    }
}
