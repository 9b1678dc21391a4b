//! Schedulers that go from one learning rate to another along a curve.

use std::f64::consts::PI;

use torsh_core::cmath;
use torsh_tensor::Result;

use super::scheduler::{scaled, settings};
use super::{Cx, Policy, Scheduler};
use crate::Optimizer;
use crate::options::require;

/// From `start_factor` to `end_factor` of the learning rate in `total_iters` steps
/// (`lr_scheduler.LinearLR`).
///
/// ```
/// use torsh_optim::{Optimizer, SGD, lr_scheduler::{LRScheduler, LinearLR}};
/// # let w = torsh_tensor::Tensor::from_data(&[1.0f32], [1])?.requires_grad_(true);
/// let optimizer = SGD::new([&w], 0.5)?;
/// let scheduler = LinearLR::new(&optimizer, 0.5, 1.0, 4)?;
/// for expected in [0.25, 0.3125, 0.375, 0.4375, 0.5, 0.5] {
///     assert!((optimizer.get_lr() - expected).abs() < 1e-12);
///     scheduler.step()?;
/// }
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub type LinearLR = Scheduler<LinearPolicy>;

/// Down to 0 in `total_iters` steps by a polynomial (`lr_scheduler.PolynomialLR`).
///
/// ```
/// use torsh_optim::{Optimizer, SGD, lr_scheduler::{LRScheduler, PolynomialLR}};
/// # let w = torsh_tensor::Tensor::from_data(&[1.0f32], [1])?.requires_grad_(true);
/// let optimizer = SGD::new([&w], 0.5)?;
/// let scheduler = PolynomialLR::new(&optimizer, 4, 2.0)?;
/// for expected in [0.5, 0.28125, 0.125, 0.03125, 0.0, 0.0] {
///     assert!((optimizer.get_lr() - expected).abs() < 1e-12);
///     scheduler.step()?;
/// }
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub type PolynomialLR = Scheduler<PolynomialPolicy>;

/// Down to `eta_min` in `T_max` steps by half a cosine (`lr_scheduler.CosineAnnealingLR`;
/// Loshchilov and Hutter, 2016, without restarts).
///
/// ```
/// use torsh_optim::{Optimizer, SGD, lr_scheduler::{CosineAnnealingLR, LRScheduler}};
/// # let w = torsh_tensor::Tensor::from_data(&[1.0f32], [1])?.requires_grad_(true);
/// let optimizer = SGD::new([&w], 0.5)?;
/// let scheduler = CosineAnnealingLR::new(&optimizer, 2, 0.1)?;
/// for expected in [0.5, 0.3, 0.1] {
///     assert!((optimizer.get_lr() - expected).abs() < 1e-12);
///     scheduler.step()?;
/// }
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub type CosineAnnealingLR = Scheduler<CosineAnnealingPolicy>;

/// [`CosineAnnealingLR`] that starts again after `T_0` steps, then after `T_mult` times as many,
/// and so on (`lr_scheduler.CosineAnnealingWarmRestarts`).
///
/// ```
/// use torsh_optim::{Optimizer, SGD, lr_scheduler::{CosineAnnealingWarmRestarts, LRScheduler}};
/// # let w = torsh_tensor::Tensor::from_data(&[1.0f32], [1])?.requires_grad_(true);
/// let optimizer = SGD::new([&w], 0.5)?;
/// let scheduler = CosineAnnealingWarmRestarts::new(&optimizer, 2, 2, 0.1)?;
/// let mut lrs = vec![];
/// for _ in 0..7 {
///     lrs.push((optimizer.get_lr() * 1e3).round() / 1e3);
///     scheduler.step()?;
/// }
/// assert_eq!(lrs, [0.5, 0.3, 0.5, 0.441, 0.3, 0.159, 0.5]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub type CosineAnnealingWarmRestarts = Scheduler<WarmRestartsPolicy>;

/// Linearly up from 0 to the learning rate in `warmup_steps`, then by half a cosine down to
/// `min_lr` at `total_steps`, where it stays. PyTorch has none such; it is the usual schedule of
/// transformers.
///
/// ```
/// use torsh_optim::{Optimizer, SGD, lr_scheduler::{LRScheduler, WarmupCosine}};
/// # let w = torsh_tensor::Tensor::from_data(&[1.0f32], [1])?.requires_grad_(true);
/// let optimizer = SGD::new([&w], 0.5)?;
/// let scheduler = WarmupCosine::new(&optimizer, 2, 6, 0.1)?;
/// let mut lrs = vec![];
/// for _ in 0..8 {
///     lrs.push((optimizer.get_lr() * 1e3).round() / 1e3);
///     scheduler.step()?;
/// }
/// assert_eq!(lrs, [0.0, 0.25, 0.5, 0.441, 0.3, 0.159, 0.1, 0.1]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub type WarmupCosine = Scheduler<WarmupCosinePolicy>;

/// The rule of [`LinearLR`].
#[derive(Debug)]
pub struct LinearPolicy {
    start_factor: f64,
    end_factor: f64,
    total_iters: i64,
}

impl LinearLR {
    /// A scheduler that sets the learning rates to `start_factor` of the first ones at once. PyTorch's
    /// defaults are 1/3, 1 and 5. Errors: a start factor outside of (0, 1], an end factor outside of
    /// [0, 1].
    ///
    /// ```
    /// use torsh_optim::{Optimizer, SGD, lr_scheduler::{LRScheduler, LinearLR}};
    /// # let w = torsh_tensor::Tensor::from_data(&[1.0f32], [1])?.requires_grad_(true);
    /// let optimizer = SGD::new([&w], 0.5)?;
    /// let scheduler = LinearLR::new(&optimizer, 0.5, 1.0, 1)?;
    /// assert_eq!(optimizer.get_lr(), 0.25);
    /// scheduler.step()?;
    /// assert_eq!(scheduler.get_last_lr(), [0.5]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn new(
        optimizer: impl Optimizer,
        start_factor: f64,
        end_factor: f64,
        total_iters: usize,
    ) -> Result<Self> {
        require(
            "LinearLR",
            start_factor > 0.0 && start_factor <= 1.0,
            || {
                format!(
                    "Starting multiplicative factor expected to be greater than 0 and less or equal to 1, got {start_factor}"
                )
            },
        )?;
        require("LinearLR", (0.0..=1.0).contains(&end_factor), || {
            format!("Ending multiplicative factor expected to be between 0 and 1, got {end_factor}")
        })?;
        let total_iters = total_iters as i64;
        Self::with_policy(
            optimizer,
            LinearPolicy {
                start_factor,
                end_factor,
                total_iters,
            },
        )
    }
}

impl Policy for LinearPolicy {
    const NAME: &'static str = "LinearLR";

    fn lrs(&mut self, cx: &Cx<'_>) -> Result<Vec<f64>> {
        if cx.last_epoch == 0 {
            return Ok(scaled(cx.lrs, self.start_factor));
        }
        if cx.initial || cx.last_epoch > self.total_iters {
            return Ok(cx.lrs.to_vec());
        }
        let rise = self.end_factor - self.start_factor;
        let before =
            self.total_iters as f64 * self.start_factor + (cx.last_epoch - 1) as f64 * rise;
        Ok(scaled(cx.lrs, 1.0 + rise / before))
    }

    fn closed_form(&self, cx: &Cx<'_>) -> Option<Vec<f64>> {
        let rise = self.end_factor - self.start_factor;
        let done = self.total_iters.min(cx.last_epoch) as f64;
        let factor = if self.total_iters == 0 {
            self.end_factor
        } else {
            self.start_factor + rise * done / self.total_iters as f64
        };
        Some(scaled(cx.base_lrs, factor))
    }

    settings!(start_factor "start_factor", end_factor "end_factor", total_iters "total_iters");
}

/// The rule of [`PolynomialLR`].
#[derive(Debug)]
pub struct PolynomialPolicy {
    total_iters: i64,
    power: f64,
}

impl PolynomialLR {
    /// `power` is the degree of the polynomial. PyTorch's defaults are 5 and 1. An error where
    /// `total_iters` is 0.
    ///
    /// ```
    /// use torsh_optim::{Optimizer, SGD, lr_scheduler::{LRScheduler, PolynomialLR}};
    /// # let w = torsh_tensor::Tensor::from_data(&[1.0f32], [1])?.requires_grad_(true);
    /// let optimizer = SGD::new([&w], 0.5)?;
    /// let scheduler = PolynomialLR::new(&optimizer, 2, 1.0)?;
    /// scheduler.step()?;
    /// assert_eq!(scheduler.get_last_lr(), [0.25]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn new(optimizer: impl Optimizer, total_iters: usize, power: f64) -> Result<Self> {
        require("PolynomialLR", total_iters > 0, || {
            "total_iters must be at least 1, got 0".into()
        })?;
        let total_iters = total_iters as i64;
        Self::with_policy(optimizer, PolynomialPolicy { total_iters, power })
    }
}

impl Policy for PolynomialPolicy {
    const NAME: &'static str = "PolynomialLR";

    fn lrs(&mut self, cx: &Cx<'_>) -> Result<Vec<f64>> {
        if cx.initial || cx.last_epoch > self.total_iters {
            return Ok(cx.lrs.to_vec());
        }
        let left = |epoch: i64| 1.0 - epoch as f64 / self.total_iters as f64;
        let factor = cmath::pow(left(cx.last_epoch) / left(cx.last_epoch - 1), self.power);
        Ok(scaled(cx.lrs, factor))
    }

    fn closed_form(&self, cx: &Cx<'_>) -> Option<Vec<f64>> {
        let done = self.total_iters.min(cx.last_epoch) as f64;
        let factor = cmath::pow(1.0 - done / self.total_iters as f64, self.power);
        Some(scaled(cx.base_lrs, factor))
    }

    settings!(total_iters "total_iters", power "power");
}

/// From the learning rates to `least` along half a cosine, at a part of the way.
fn cosine(lrs: &[f64], least: f64, part: f64) -> Vec<f64> {
    lrs.iter()
        .map(|lr| least + (lr - least) * (1.0 + cmath::cos(PI * part)) / 2.0)
        .collect()
}

/// The rule of [`CosineAnnealingLR`].
#[derive(Debug)]
pub struct CosineAnnealingPolicy {
    t_max: i64,
    eta_min: f64,
}

impl CosineAnnealingLR {
    /// `t_max` steps lead down to `eta_min`, whose default in PyTorch is 0. An error where `t_max` is 0.
    ///
    /// ```
    /// use torsh_optim::{Optimizer, SGD, lr_scheduler::{LRScheduler, CosineAnnealingLR}};
    /// # let w = torsh_tensor::Tensor::from_data(&[1.0f32], [1])?.requires_grad_(true);
    /// let optimizer = SGD::new([&w], 0.5)?;
    /// let scheduler = CosineAnnealingLR::new(&optimizer, 2, 0.0)?;
    /// scheduler.step()?;
    /// assert!((optimizer.get_lr() - 0.25).abs() < 1e-12);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn new(optimizer: impl Optimizer, t_max: usize, eta_min: f64) -> Result<Self> {
        require("CosineAnnealingLR", t_max > 0, || {
            "T_max must be at least 1, got 0".into()
        })?;
        let t_max = t_max as i64;
        Self::with_policy(optimizer, CosineAnnealingPolicy { t_max, eta_min })
    }
}

impl Policy for CosineAnnealingPolicy {
    const NAME: &'static str = "CosineAnnealingLR";

    fn lrs(&mut self, cx: &Cx<'_>) -> Result<Vec<f64>> {
        if cx.initial {
            return Ok(cx.lrs.to_vec());
        }
        let (epoch, t_max, least) = (cx.last_epoch, self.t_max.max(1), self.eta_min);
        if cx.step_count == 1 && epoch > 0 {
            return Ok(cosine(cx.base_lrs, least, epoch as f64 / t_max as f64));
        }
        if (epoch - 1 - t_max).rem_euclid(2 * t_max) == 0 {
            // From the lowest point there is no factor that leads up.
            let first = (1.0 - cmath::cos(PI / t_max as f64)) / 2.0;
            let lrs = cx.lrs.iter().zip(cx.base_lrs);
            return Ok(lrs.map(|(lr, base)| lr + (base - least) * first).collect());
        }
        let height = |epoch: i64| 1.0 + cmath::cos(PI * epoch as f64 / t_max as f64);
        let factor = height(epoch) / height(epoch - 1);
        Ok(cx
            .lrs
            .iter()
            .map(|lr| factor * (lr - least) + least)
            .collect())
    }

    fn closed_form(&self, cx: &Cx<'_>) -> Option<Vec<f64>> {
        let part = cx.last_epoch as f64 / self.t_max.max(1) as f64;
        Some(cosine(cx.base_lrs, self.eta_min, part))
    }

    settings!(t_max "T_max", eta_min "eta_min");
}

/// The rule of [`CosineAnnealingWarmRestarts`].
#[derive(Debug)]
pub struct WarmRestartsPolicy {
    t_0: i64,
    t_i: i64,
    t_mult: i64,
    eta_min: f64,
    t_cur: i64,
}

impl CosineAnnealingWarmRestarts {
    /// The first cycle has `t_0` steps, each further one `t_mult` times as many. PyTorch's defaults are
    /// 1 for `t_mult` and 0 for `eta_min`. An error where `t_0` or `t_mult` is 0.
    ///
    /// ```
    /// use torsh_optim::{Optimizer, SGD, lr_scheduler::{LRScheduler, CosineAnnealingWarmRestarts}};
    /// # let w = torsh_tensor::Tensor::from_data(&[1.0f32], [1])?.requires_grad_(true);
    /// let optimizer = SGD::new([&w], 0.5)?;
    /// let scheduler = CosineAnnealingWarmRestarts::new(&optimizer, 2, 1, 0.0)?;
    /// scheduler.step()?;
    /// assert!((optimizer.get_lr() - 0.25).abs() < 1e-12);
    /// scheduler.step()?;
    /// assert_eq!(optimizer.get_lr(), 0.5);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn new(optimizer: impl Optimizer, t_0: usize, t_mult: usize, eta_min: f64) -> Result<Self> {
        require("CosineAnnealingWarmRestarts", t_0 > 0, || {
            "Expected positive integer T_0, but got 0".into()
        })?;
        require("CosineAnnealingWarmRestarts", t_mult > 0, || {
            "Expected integer T_mult >= 1, but got 0".into()
        })?;
        let (t_0, t_mult) = (t_0 as i64, t_mult as i64);
        Self::with_policy(
            optimizer,
            WarmRestartsPolicy {
                t_0,
                t_i: t_0,
                t_mult,
                eta_min,
                t_cur: -1,
            },
        )
    }
}

impl Policy for WarmRestartsPolicy {
    const NAME: &'static str = "CosineAnnealingWarmRestarts";

    fn advance(&mut self, restart: bool) {
        if restart {
            (self.t_cur, self.t_i) = (0, self.t_0);
            return;
        }
        self.t_cur += 1;
        if self.t_cur >= self.t_i {
            self.t_cur %= self.t_i.max(1);
            self.t_i *= self.t_mult;
        }
    }

    fn lrs(&mut self, cx: &Cx<'_>) -> Result<Vec<f64>> {
        Ok(cosine(
            cx.base_lrs,
            self.eta_min,
            self.t_cur as f64 / self.t_i as f64,
        ))
    }

    settings!(t_0 "T_0", t_i "T_i", t_mult "T_mult", eta_min "eta_min", t_cur "T_cur");
}

/// The rule of [`WarmupCosine`].
#[derive(Debug)]
pub struct WarmupCosinePolicy {
    warmup_steps: i64,
    total_steps: i64,
    min_lr: f64,
}

impl WarmupCosine {
    /// `warmup_steps` of `total_steps` lead up from 0, the others down to `min_lr`. An error where the
    /// warm-up is longer than the whole.
    ///
    /// ```
    /// use torsh_optim::{Optimizer, SGD, lr_scheduler::{LRScheduler, WarmupCosine}};
    /// # let w = torsh_tensor::Tensor::from_data(&[1.0f32], [1])?.requires_grad_(true);
    /// let optimizer = SGD::new([&w], 0.5)?;
    /// let scheduler = WarmupCosine::new(&optimizer, 2, 6, 0.0)?;
    /// assert_eq!(optimizer.get_lr(), 0.0);
    /// scheduler.step()?;
    /// assert_eq!(scheduler.get_last_lr(), [0.25]);
    /// assert!(WarmupCosine::new(&optimizer, 7, 6, 0.0).is_err());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn new(
        optimizer: impl Optimizer,
        warmup_steps: usize,
        total_steps: usize,
        min_lr: f64,
    ) -> Result<Self> {
        require("WarmupCosine", warmup_steps <= total_steps, || {
            format!("warmup_steps ({warmup_steps}) must be at most total_steps ({total_steps})")
        })?;
        Self::with_policy(
            optimizer,
            WarmupCosinePolicy {
                warmup_steps: warmup_steps as i64,
                total_steps: total_steps as i64,
                min_lr,
            },
        )
    }
}

impl Policy for WarmupCosinePolicy {
    const NAME: &'static str = "WarmupCosine";

    fn lrs(&mut self, cx: &Cx<'_>) -> Result<Vec<f64>> {
        let (step, warmup) = (cx.last_epoch, self.warmup_steps);
        if step < warmup {
            return Ok(scaled(cx.base_lrs, step as f64 / warmup as f64));
        }
        let length = (self.total_steps - warmup).max(1) as f64;
        let part = ((step - warmup) as f64 / length).min(1.0);
        Ok(cosine(cx.base_lrs, self.min_lr, part))
    }

    settings!(warmup_steps "warmup_steps", total_steps "total_steps", min_lr "min_lr");
}
