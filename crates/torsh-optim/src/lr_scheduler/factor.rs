//! Schedulers that multiply the learning rate by a factor at certain steps.

use std::fmt;
use std::sync::Arc;

use torsh_core::cmath;
use torsh_tensor::{Result, TorshError};

use super::scheduler::{scaled, settings};
use super::{Cx, Policy, Scheduler};
use crate::Optimizer;
use crate::options::require;

/// A factor for each step.
type Lambda = Arc<dyn Fn(usize) -> f64 + Send + Sync>;

/// The first learning rate times a function of the step (`lr_scheduler.LambdaLR`).
///
/// ```
/// use torsh_optim::{Optimizer, SGD, lr_scheduler::{LRScheduler, LambdaLR}};
/// # let w = torsh_tensor::Tensor::from_data(&[1.0f32], [1])?.requires_grad_(true);
/// let optimizer = SGD::new([&w], 0.5)?;
/// let scheduler = LambdaLR::new(&optimizer, |epoch| 0.5f64.powi(epoch as i32))?;
/// scheduler.step()?;
/// assert_eq!(optimizer.get_lr(), 0.25);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub type LambdaLR = Scheduler<LambdaPolicy>;

/// The learning rate times a function of the step, each time (`lr_scheduler.MultiplicativeLR`).
///
/// ```
/// use torsh_optim::{Optimizer, SGD, lr_scheduler::{LRScheduler, MultiplicativeLR}};
/// # let w = torsh_tensor::Tensor::from_data(&[1.0f32], [1])?.requires_grad_(true);
/// let optimizer = SGD::new([&w], 0.5)?;
/// let scheduler = MultiplicativeLR::new(&optimizer, |_| 0.5)?;
/// scheduler.step()?;
/// scheduler.step()?;
/// assert_eq!(optimizer.get_lr(), 0.125);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub type MultiplicativeLR = Scheduler<MultiplicativePolicy>;

/// The learning rate times `gamma` every `step_size` steps (`lr_scheduler.StepLR`).
///
/// ```
/// use torsh_optim::{Optimizer, SGD, lr_scheduler::{LRScheduler, StepLR}};
/// # let w = torsh_tensor::Tensor::from_data(&[1.0f32], [1])?.requires_grad_(true);
/// let optimizer = SGD::new([&w], 0.5)?;
/// let scheduler = StepLR::new(&optimizer, 2, 0.5)?;
/// for expected in [0.5, 0.5, 0.25, 0.25, 0.125] {
///     assert_eq!(optimizer.get_lr(), expected);
///     scheduler.step()?;
/// }
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub type StepLR = Scheduler<StepPolicy>;

/// The learning rate times `gamma` at the milestones (`lr_scheduler.MultiStepLR`).
///
/// ```
/// use torsh_optim::{Optimizer, SGD, lr_scheduler::{LRScheduler, MultiStepLR}};
/// # let w = torsh_tensor::Tensor::from_data(&[1.0f32], [1])?.requires_grad_(true);
/// let optimizer = SGD::new([&w], 0.5)?;
/// let scheduler = MultiStepLR::new(&optimizer, [1, 3], 0.5)?;
/// let mut lrs = vec![];
/// for _ in 0..4 {
///     lrs.push(optimizer.get_lr());
///     scheduler.step()?;
/// }
/// assert_eq!(lrs, [0.5, 0.25, 0.25, 0.125]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub type MultiStepLR = Scheduler<MultiStepPolicy>;

/// The learning rate times `factor` for the first `total_iters` steps (`lr_scheduler.ConstantLR`).
///
/// ```
/// use torsh_optim::{Optimizer, SGD, lr_scheduler::{ConstantLR, LRScheduler}};
/// # let w = torsh_tensor::Tensor::from_data(&[1.0f32], [1])?.requires_grad_(true);
/// let optimizer = SGD::new([&w], 0.5)?;
/// let scheduler = ConstantLR::new(&optimizer, 0.25, 1)?;
/// assert_eq!(optimizer.get_lr(), 0.125);
/// scheduler.step()?;
/// assert_eq!(optimizer.get_lr(), 0.5);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub type ConstantLR = Scheduler<ConstantPolicy>;

/// The learning rate times `gamma` at each step (`lr_scheduler.ExponentialLR`).
///
/// ```
/// use torsh_optim::{Optimizer, SGD, lr_scheduler::{ExponentialLR, LRScheduler}};
/// # let w = torsh_tensor::Tensor::from_data(&[1.0f32], [1])?.requires_grad_(true);
/// let optimizer = SGD::new([&w], 0.5)?;
/// let scheduler = ExponentialLR::new(&optimizer, 0.5)?;
/// scheduler.step()?;
/// assert_eq!(scheduler.get_last_lr(), [0.25]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub type ExponentialLR = Scheduler<ExponentialPolicy>;

macro_rules! lambda {
    ($name:literal $scheduler:ident $policy:ident |$s:ident, $cx:ident| $lrs:expr) => {
        #[doc = concat!("The rule of [`", stringify!($scheduler), "`].")]
        pub struct $policy(Vec<Lambda>);

        impl fmt::Debug for $policy {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{} functions", self.0.len())
            }
        }

        impl $scheduler {
            /// One function for all groups. It must not use the scheduler itself.
            #[torsh_tensor::names_caller(Self)]
            pub fn new(
                optimizer: impl Optimizer,
                lr_lambda: impl Fn(usize) -> f64 + Send + Sync + 'static,
            ) -> Result<Self> {
                let groups = optimizer.group_lrs().len();
                let f: Lambda = Arc::new(lr_lambda);
                Self::with_policy(optimizer, $policy(vec![f; groups]))
            }

            /// A function for each group; an error where they are not equally many.
            #[torsh_tensor::names_caller(Self)]
            pub fn per_group(
                optimizer: impl Optimizer,
                lr_lambdas: Vec<Box<dyn Fn(usize) -> f64 + Send + Sync>>,
            ) -> Result<Self> {
                let (groups, given) = (optimizer.group_lrs().len(), lr_lambdas.len());
                if groups != given {
                    let message = format!("Expected {groups} lr_lambdas, but got {given}");
                    return Err(TorshError::invalid($name, message));
                }
                let lambdas = lr_lambdas.into_iter().map(Arc::from).collect();
                Self::with_policy(optimizer, $policy(lambdas))
            }
        }

        impl Policy for $policy {
            const NAME: &'static str = $name;

            fn lrs(&mut self, $cx: &Cx<'_>) -> Result<Vec<f64>> {
                let $s = self;
                Ok($lrs)
            }
        }
    };
}

fn epoch(cx: &Cx<'_>) -> usize {
    usize::try_from(cx.last_epoch).unwrap_or(0)
}

lambda!("LambdaLR" LambdaLR LambdaPolicy |s, cx| {
    cx.base_lrs.iter().zip(&s.0).map(|(lr, f)| lr * f(epoch(cx))).collect()
});
lambda!("MultiplicativeLR" MultiplicativeLR MultiplicativePolicy |s, cx| {
    if cx.initial {
        cx.lrs.to_vec()
    } else {
        cx.lrs.iter().zip(&s.0).map(|(lr, f)| lr * f(epoch(cx))).collect()
    }
});

/// The rule of [`StepLR`].
#[derive(Debug)]
pub struct StepPolicy {
    step_size: i64,
    gamma: f64,
}

impl StepLR {
    /// The learning rates times `gamma` every `step_size` steps; PyTorch's default of `gamma` is 0.1. An
    /// error where `step_size` is 0.
    ///
    /// ```
    /// use torsh_optim::{Optimizer, SGD, lr_scheduler::{LRScheduler, StepLR}};
    /// # let w = torsh_tensor::Tensor::from_data(&[1.0f32], [1])?.requires_grad_(true);
    /// let optimizer = SGD::new([&w], 0.5)?;
    /// let scheduler = StepLR::new(&optimizer, 1, 0.5)?;
    /// scheduler.step()?;
    /// assert_eq!(scheduler.get_last_lr(), [0.25]);
    /// assert!(StepLR::new(&optimizer, 0, 0.5).is_err());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn new(optimizer: impl Optimizer, step_size: usize, gamma: f64) -> Result<Self> {
        require("StepLR", step_size > 0, || {
            "step_size must be at least 1, got 0".into()
        })?;
        let step_size = step_size as i64;
        Self::with_policy(optimizer, StepPolicy { step_size, gamma })
    }
}

impl Policy for StepPolicy {
    const NAME: &'static str = "StepLR";

    fn lrs(&mut self, cx: &Cx<'_>) -> Result<Vec<f64>> {
        let due = cx.last_epoch != 0 && cx.last_epoch % self.step_size.max(1) == 0;
        Ok(scaled(cx.lrs, if due { self.gamma } else { 1.0 }))
    }

    fn closed_form(&self, cx: &Cx<'_>) -> Option<Vec<f64>> {
        let times = cx.last_epoch.div_euclid(self.step_size.max(1));
        Some(scaled(cx.base_lrs, cmath::pow(self.gamma, times as f64)))
    }

    settings!(step_size "step_size", gamma "gamma");
}

/// The rule of [`MultiStepLR`].
#[derive(Debug)]
pub struct MultiStepPolicy {
    milestones: Vec<i64>,
    gamma: f64,
}

impl MultiStepLR {
    /// The learning rates times `gamma` at each milestone, in any order; one given twice counts twice.
    /// PyTorch's default of `gamma` is 0.1.
    ///
    /// ```
    /// use torsh_optim::{Optimizer, SGD, lr_scheduler::{LRScheduler, MultiStepLR}};
    /// # let w = torsh_tensor::Tensor::from_data(&[1.0f32], [1])?.requires_grad_(true);
    /// let optimizer = SGD::new([&w], 0.5)?;
    /// let scheduler = MultiStepLR::new(&optimizer, [1, 1], 0.5)?;
    /// scheduler.step()?;
    /// assert_eq!(scheduler.get_last_lr(), [0.125]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn new(
        optimizer: impl Optimizer,
        milestones: impl IntoIterator<Item = usize>,
        gamma: f64,
    ) -> Result<Self> {
        let mut milestones: Vec<i64> = milestones.into_iter().map(|m| m as i64).collect();
        milestones.sort_unstable();
        Self::with_policy(optimizer, MultiStepPolicy { milestones, gamma })
    }
}

impl Policy for MultiStepPolicy {
    const NAME: &'static str = "MultiStepLR";

    fn lrs(&mut self, cx: &Cx<'_>) -> Result<Vec<f64>> {
        let times = self
            .milestones
            .iter()
            .filter(|m| **m == cx.last_epoch)
            .count();
        Ok(scaled(cx.lrs, cmath::pow(self.gamma, times as f64)))
    }

    fn closed_form(&self, cx: &Cx<'_>) -> Option<Vec<f64>> {
        let times = self.milestones.partition_point(|m| *m <= cx.last_epoch);
        Some(scaled(cx.base_lrs, cmath::pow(self.gamma, times as f64)))
    }

    settings!(milestones "milestones", gamma "gamma");
}

/// The rule of [`ConstantLR`].
#[derive(Debug)]
pub struct ConstantPolicy {
    factor: f64,
    total_iters: i64,
}

impl ConstantLR {
    /// The learning rates times `factor` for `total_iters` steps, from now on. PyTorch's defaults are 1/3
    /// and 5. An error where the factor is outside of [0, 1].
    ///
    /// ```
    /// use torsh_optim::{Optimizer, SGD, lr_scheduler::{LRScheduler, ConstantLR}};
    /// # let w = torsh_tensor::Tensor::from_data(&[1.0f32], [1])?.requires_grad_(true);
    /// let optimizer = SGD::new([&w], 0.5)?;
    /// let scheduler = ConstantLR::new(&optimizer, 0.5, 5)?;
    /// assert_eq!(scheduler.get_last_lr(), [0.25]);
    /// assert!(ConstantLR::new(&optimizer, 2.0, 5).is_err());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn new(optimizer: impl Optimizer, factor: f64, total_iters: usize) -> Result<Self> {
        require("ConstantLR", (0.0..=1.0).contains(&factor), || {
            format!("Constant multiplicative factor expected to be between 0 and 1, got {factor}")
        })?;
        let total_iters = total_iters as i64;
        Self::with_policy(
            optimizer,
            ConstantPolicy {
                factor,
                total_iters,
            },
        )
    }
}

impl Policy for ConstantPolicy {
    const NAME: &'static str = "ConstantLR";

    fn lrs(&mut self, cx: &Cx<'_>) -> Result<Vec<f64>> {
        let ends = cx.last_epoch == self.total_iters && cx.last_epoch != 0;
        require(Self::NAME, !ends || self.factor != 0.0, || {
            "the learning rate cannot come back from 0, which the factor 0 made it".into()
        })?;
        Ok(scaled(
            cx.lrs,
            match cx.last_epoch {
                0 => self.factor,
                _ if ends => 1.0 / self.factor,
                _ => 1.0,
            },
        ))
    }

    fn closed_form(&self, cx: &Cx<'_>) -> Option<Vec<f64>> {
        let over = f64::from(u8::from(cx.last_epoch >= self.total_iters));
        Some(scaled(
            cx.base_lrs,
            self.factor + over * (1.0 - self.factor),
        ))
    }

    settings!(factor "factor", total_iters "total_iters");
}

/// The rule of [`ExponentialLR`].
#[derive(Debug)]
pub struct ExponentialPolicy {
    gamma: f64,
}

impl ExponentialLR {
    /// The learning rates times `gamma` at each step.
    ///
    /// ```
    /// use torsh_optim::{Optimizer, SGD, lr_scheduler::{LRScheduler, ExponentialLR}};
    /// # let w = torsh_tensor::Tensor::from_data(&[1.0f32], [1])?.requires_grad_(true);
    /// let optimizer = SGD::new([&w], 0.5)?;
    /// let scheduler = ExponentialLR::new(&optimizer, 0.5)?;
    /// scheduler.step()?;
    /// assert_eq!(scheduler.get_last_lr(), [0.25]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn new(optimizer: impl Optimizer, gamma: f64) -> Result<Self> {
        Self::with_policy(optimizer, ExponentialPolicy { gamma })
    }
}

impl Policy for ExponentialPolicy {
    const NAME: &'static str = "ExponentialLR";

    fn lrs(&mut self, cx: &Cx<'_>) -> Result<Vec<f64>> {
        Ok(scaled(cx.lrs, if cx.initial { 1.0 } else { self.gamma }))
    }

    fn closed_form(&self, cx: &Cx<'_>) -> Option<Vec<f64>> {
        Some(scaled(
            cx.base_lrs,
            cmath::pow(self.gamma, cx.last_epoch as f64),
        ))
    }

    settings!(gamma "gamma");
}
