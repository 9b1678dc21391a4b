//! The learning rate of stochastic weight averaging.

use std::f64::consts::PI;

use torsh_tensor::Result;

use super::scheduler::settings;
use super::{Cx, Policy, Scheduler};
use crate::Optimizer;
use crate::options::require;

/// To a fixed learning rate in `anneal_epochs` steps, where it stays (`swa_utils.SWALR`).
///
/// ```
/// use torsh_optim::{Optimizer, SGD, lr_scheduler::{LRScheduler, SWALR}};
/// # let w = torsh_tensor::Tensor::from_data(&[1.0f32], [1])?.requires_grad_(true);
/// let optimizer = SGD::new([&w], 0.5)?;
/// let scheduler = SWALR::new(&optimizer, 0.1, 2, "linear")?;
/// for expected in [0.5, 0.3, 0.1, 0.1] {
///     assert!((optimizer.get_lr() - expected).abs() < 1e-12);
///     scheduler.step()?;
/// }
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub type SWALR = Scheduler<SwaPolicy>;

/// The rule of [`SWALR`].
#[derive(Debug)]
pub struct SwaPolicy {
    swa_lr: f64,
    anneal_epochs: i64,
    anneal_strategy: String,
}

impl SWALR {
    /// To `swa_lr` in `anneal_epochs` steps. PyTorch's defaults are 10 epochs and the strategy `cos`; the
    /// other one is `linear`, and any further one an error.
    ///
    /// ```
    /// use torsh_optim::{Optimizer, SGD, lr_scheduler::{LRScheduler, SWALR}};
    /// # let w = torsh_tensor::Tensor::from_data(&[1.0f32], [1])?.requires_grad_(true);
    /// let optimizer = SGD::new([&w], 0.5)?;
    /// let scheduler = SWALR::new(&optimizer, 0.25, 1, "linear")?;
    /// scheduler.step()?;
    /// assert_eq!(scheduler.get_last_lr(), [0.25]);
    /// assert!(SWALR::new(&optimizer, 0.25, 1, "quadratic").is_err());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn new(
        optimizer: impl Optimizer,
        swa_lr: f64,
        anneal_epochs: usize,
        anneal_strategy: &str,
    ) -> Result<Self> {
        require(
            "SWALR",
            ["cos", "linear"].contains(&anneal_strategy),
            || {
                format!(
                    "anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
                )
            },
        )?;
        for i in 0..optimizer.group_lrs().len() {
            optimizer.set_extra(i, "swa_lr", swa_lr.into())?;
        }
        Self::with_policy(
            optimizer,
            SwaPolicy {
                swa_lr,
                anneal_epochs: anneal_epochs as i64,
                anneal_strategy: anneal_strategy.to_string(),
            },
        )
    }
}

impl Policy for SwaPolicy {
    const NAME: &'static str = "SWALR";

    fn lrs(&mut self, cx: &Cx<'_>) -> Result<Vec<f64>> {
        let mut step = cx.step_count - 1;
        if self.anneal_epochs == 0 {
            step = step.max(1);
        }
        let alpha = |step: i64| {
            let t = (step as f64 / self.anneal_epochs.max(1) as f64).clamp(0.0, 1.0);
            if self.anneal_strategy == "linear" {
                t
            } else {
                (1.0 - (PI * t).cos()) / 2.0
            }
        };
        let (before, now) = (alpha(step - 1), alpha(step));
        let next = |lr: &f64| {
            let first = if before == 1.0 {
                self.swa_lr
            } else {
                (lr - before * self.swa_lr) / (1.0 - before)
            };
            self.swa_lr * now + first * (1.0 - now)
        };
        Ok(cx.lrs.iter().map(next).collect())
    }

    settings!(
        swa_lr "swa_lr", anneal_epochs "anneal_epochs", anneal_strategy "_anneal_strategy"
    );
}
