//! The learning rate of stochastic weight averaging.

use std::f64::consts::PI;

use torsh_core::cmath;
use torsh_tensor::Result;

use super::scheduler::settings;
use super::{Cx, PerGroup, Policy, Scheduler};
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

/// The rule of [`SWALR`]. The learning rate that it leads to is an entry of each group.
#[derive(Debug)]
pub struct SwaPolicy {
    anneal_epochs: i64,
    anneal_strategy: String,
}

impl SWALR {
    /// To `swa_lr` in `anneal_epochs` steps. `swa_lr` is a number, or a list with one for each group; it
    /// stands in the groups as `swa_lr`. PyTorch's defaults are 10 epochs and the strategy `cos`; the
    /// other one is `linear`. Errors: any further strategy, a list of another length than there are
    /// groups.
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
    #[torsh_tensor::names_caller(Self)]
    pub fn new(
        optimizer: impl Optimizer,
        swa_lr: impl Into<PerGroup>,
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
        let swa_lrs = swa_lr.into().list("SWALR", "swa_lr", &optimizer)?;
        for (i, swa_lr) in swa_lrs.into_iter().enumerate() {
            optimizer.set_extra(i, "swa_lr", swa_lr.into())?;
        }
        Self::with_policy(
            optimizer,
            SwaPolicy {
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
                (1.0 - cmath::cos(PI * t)) / 2.0
            }
        };
        let (before, now) = (alpha(step - 1), alpha(step));
        let next = |(i, lr): (usize, &f64)| {
            let swa_lr = cx.entry(Self::NAME, i, "swa_lr")?;
            let first = if before == 1.0 {
                swa_lr
            } else {
                (lr - before * swa_lr) / (1.0 - before)
            };
            Ok(swa_lr * now + first * (1.0 - now))
        };
        cx.lrs.iter().enumerate().map(next).collect()
    }

    settings!(anneal_epochs "anneal_epochs", anneal_strategy "_anneal_strategy");
}
