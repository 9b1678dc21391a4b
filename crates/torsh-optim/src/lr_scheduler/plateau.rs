//! The scheduler that follows a metric.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use torsh_tensor::{Result, TorshError, options};

use super::scheduler::{other_groups, settings};
use super::{LRScheduler, Move, PerGroup, SchedulerState};
use crate::Optimizer;
use crate::options::require;

options! {
    /// The settings of [`ReduceLROnPlateau`].
    ReduceLROnPlateauOptions {
        /// `min` where the metric should fall, `max` where it should rise.
        mode: String = "min".into(), impl Into<String> => |v| v.into();
        /// What the learning rate is multiplied by; less than 1.
        factor: f64 = 0.1;
        /// How many steps without a better metric are let pass.
        patience: usize = 10;
        /// How much better is better.
        threshold: f64 = 1e-4;
        /// Whether the threshold is `rel`ative to the best metric or `abs`olute.
        threshold_mode: String = "rel".into(), impl Into<String> => |v| v.into();
        /// How many steps after a reduction do not count.
        cooldown: usize = 0;
        /// The least learning rate: a number, or a list with one for each group.
        min_lr: PerGroup = 0.0.into(), impl Into<PerGroup> => |v| v.into();
        /// The least change that is made.
        eps: f64 = 1e-8;
    }
}

/// Lowers the learning rate when a metric stays where it is (`lr_scheduler.ReduceLROnPlateau`).
///
/// ```
/// use torsh_optim::{Optimizer, SGD};
/// use torsh_optim::lr_scheduler::{LRScheduler, ReduceLROnPlateau, ReduceLROnPlateauOptions};
/// # let w = torsh_tensor::Tensor::from_data(&[1.0f32], [1])?.requires_grad_(true);
/// let optimizer = SGD::new([&w], 0.5)?;
/// let options = ReduceLROnPlateauOptions::new().patience(1).factor(0.5);
/// let scheduler = ReduceLROnPlateau::new_with(&optimizer, options)?;
/// for loss in [1.0, 0.9, 0.95, 0.95] {
///     scheduler.step_metric(loss)?;
/// }
/// assert_eq!(optimizer.get_lr(), 0.25);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone)]
pub struct ReduceLROnPlateau {
    optimizer: Arc<dyn Optimizer>,
    inner: Arc<Mutex<Plateau>>,
}

#[derive(Clone, Debug)]
struct Plateau {
    mode: String,
    factor: f64,
    patience: i64,
    threshold: f64,
    threshold_mode: String,
    cooldown: i64,
    /// Of groups that are added later, where it was one number.
    default_min_lr: Option<f64>,
    min_lrs: Vec<f64>,
    eps: f64,
    best: f64,
    cooldown_counter: i64,
    num_bad_epochs: i64,
    last_epoch: i64,
    last_lr: Vec<f64>,
}

impl Plateau {
    const NAME: &'static str = "ReduceLROnPlateau";

    settings!(
        mode "mode", factor "factor", patience "patience", threshold "threshold",
        threshold_mode "threshold_mode", cooldown "cooldown", default_min_lr "default_min_lr",
        min_lrs "min_lrs", eps "eps",
        best "best", cooldown_counter "cooldown_counter", num_bad_epochs "num_bad_epochs",
        last_epoch "last_epoch", last_lr "_last_lr"
    );

    fn check(&self) -> Result<()> {
        require(Self::NAME, self.factor < 1.0, || {
            format!("Factor should be < 1.0, got {}", self.factor)
        })?;
        require(
            Self::NAME,
            ["min", "max"].contains(&self.mode.as_str()),
            || format!("mode {} is unknown! (must be min or max)", self.mode),
        )?;
        let known = ["rel", "abs"].contains(&self.threshold_mode.as_str());
        require(Self::NAME, known, || {
            format!(
                "threshold mode {} is unknown! (must be rel or abs)",
                self.threshold_mode
            )
        })
    }

    fn is_better(&self, metric: f64) -> bool {
        let (best, by) = (self.best, self.threshold);
        match (self.mode == "min", self.threshold_mode == "rel") {
            (true, true) => metric < best * (1.0 - by),
            (true, false) => metric < best - by,
            (false, true) => metric > best * (by + 1.0),
            (false, false) => metric > best + by,
        }
    }
}

impl ReduceLROnPlateau {
    /// With PyTorch's defaults: a tenth of the learning rates after more than ten steps in which the metric
    /// does not fall.
    ///
    /// ```
    /// use torsh_optim::{Optimizer, SGD, lr_scheduler::{LRScheduler, ReduceLROnPlateau}};
    /// # let w = torsh_tensor::Tensor::from_data(&[1.0f32], [1])?.requires_grad_(true);
    /// let optimizer = SGD::new([&w], 0.5)?;
    /// let scheduler = ReduceLROnPlateau::new(&optimizer)?;
    /// // More than ten steps without a better metric.
    /// for _ in 0..12 {
    ///     scheduler.step_metric(1.0)?;
    /// }
    /// assert_eq!(optimizer.get_lr(), 0.05);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[track_caller]
    pub fn new(optimizer: impl Optimizer) -> Result<Self> {
        Self::new_with(optimizer, ReduceLROnPlateauOptions::new())
    }

    /// With PyTorch's keyword arguments. Errors: a factor of 1 or more, an unknown mode, another
    /// number of `min_lr` than groups.
    ///
    /// ```
    /// use torsh_optim::{Optimizer, SGD, lr_scheduler::{LRScheduler, ReduceLROnPlateau, ReduceLROnPlateauOptions}};
    /// # let w = torsh_tensor::Tensor::from_data(&[1.0f32], [1])?.requires_grad_(true);
    /// let optimizer = SGD::new([&w], 0.5)?;
    /// let options = ReduceLROnPlateauOptions::new().mode("max").patience(0).factor(0.5);
    /// let scheduler = ReduceLROnPlateau::new_with(&optimizer, options)?;
    /// for accuracy in [0.5, 0.4] {
    ///     scheduler.step_metric(accuracy)?;
    /// }
    /// assert_eq!(optimizer.get_lr(), 0.25);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn new_with(optimizer: impl Optimizer, o: ReduceLROnPlateauOptions) -> Result<Self> {
        let last_lr = optimizer.group_lrs();
        let groups = last_lr.len();
        let (default_min_lr, min_lrs) = match o.min_lr {
            PerGroup::All(one) => (Some(one), vec![one; groups]),
            PerGroup::Each(each) => (None, each),
        };
        require(Plateau::NAME, min_lrs.len() == groups, || {
            format!("expected {groups} min_lrs, got {}", min_lrs.len())
        })?;
        let plateau = Plateau {
            best: if o.mode == "min" {
                f64::INFINITY
            } else {
                f64::NEG_INFINITY
            },
            mode: o.mode,
            factor: o.factor,
            patience: o.patience as i64,
            threshold: o.threshold,
            threshold_mode: o.threshold_mode,
            cooldown: o.cooldown as i64,
            default_min_lr,
            min_lrs,
            eps: o.eps,
            cooldown_counter: 0,
            num_bad_epochs: 0,
            last_epoch: 0,
            last_lr,
        };
        plateau.check()?;
        Ok(ReduceLROnPlateau {
            optimizer: optimizer.handle(),
            inner: Arc::new(Mutex::new(plateau)),
        })
    }
}

impl fmt::Debug for ReduceLROnPlateau {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.lock().fmt(f)
    }
}

impl LRScheduler for ReduceLROnPlateau {
    #[torsh_tensor::names_caller]
    fn step(&self) -> Result<()> {
        Err(
            TorshError::invalid(Plateau::NAME, "a step needs the metric")
                .with_hint("call step_metric(loss)"),
        )
    }

    #[torsh_tensor::names_caller]
    fn step_metric(&self, metric: f64) -> Result<()> {
        let mut p = self.inner.lock();
        p.last_epoch += 1;
        if p.is_better(metric) {
            p.best = metric;
            p.num_bad_epochs = 0;
        } else {
            p.num_bad_epochs += 1;
        }
        if p.cooldown_counter > 0 {
            p.cooldown_counter -= 1;
            p.num_bad_epochs = 0;
        }
        if p.num_bad_epochs > p.patience {
            let lrs = self.optimizer.group_lrs();
            if lrs.len() != p.min_lrs.len() {
                let Some(one) = p.default_min_lr else {
                    return Err(other_groups(Plateau::NAME, lrs.len(), p.min_lrs.len()).with_hint(
                        "give `min_lr` as one number, or add all groups before making the scheduler",
                    ));
                };
                p.min_lrs = vec![one; lrs.len()];
            }
            for (i, old) in lrs.into_iter().enumerate() {
                let new = (old * p.factor).max(p.min_lrs[i]);
                if old - new > p.eps {
                    self.optimizer.set_group_lr(i, new)?;
                }
            }
            p.cooldown_counter = p.cooldown;
            p.num_bad_epochs = 0;
        }
        p.last_lr = self.optimizer.group_lrs();
        Ok(())
    }

    fn get_last_lr(&self) -> Vec<f64> {
        self.inner.lock().last_lr.clone()
    }

    fn last_epoch(&self) -> i64 {
        self.inner.lock().last_epoch
    }

    fn state_dict(&self) -> SchedulerState {
        let mut state = SchedulerState::new();
        self.inner.lock().save(&mut state);
        state
    }

    #[torsh_tensor::names_caller]
    fn load_state_dict(&self, state: &SchedulerState) -> Result<()> {
        let mut inner = self.inner.lock();
        let mut loaded = inner.clone();
        loaded.load(state)?;
        loaded.check()?;
        *inner = loaded;
        Ok(())
    }

    fn optimizer(&self) -> Arc<dyn Optimizer> {
        self.optimizer.clone()
    }

    #[torsh_tensor::names_caller]
    fn move_to(&self, _to: Move) -> Result<()> {
        Err(TorshError::invalid(
            Plateau::NAME,
            "cannot be part of another scheduler, since its step needs a metric",
        ))
    }
}
