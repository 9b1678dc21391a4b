//! Learning rate schedulers, as `torch.optim.lr_scheduler`.
//!
//! A scheduler is a handle on an optimizer: `step()` after the optimizer's own, and a clone is
//! the same scheduler. It takes the optimizer by value or by reference.
//!
//! ```
//! use torsh_optim::{Optimizer, SGD, lr_scheduler::{LRScheduler, StepLR}};
//! use torsh_tensor::Tensor;
//!
//! let w = Tensor::from_data(&[1.0f32], [1])?.requires_grad_(true);
//! let optimizer = SGD::new([&w], 0.5)?;
//! let scheduler = StepLR::new(&optimizer, 2, 0.1)?;
//! for expected in [0.5, 0.5, 0.05, 0.05] {
//!     assert!((optimizer.get_lr() - expected).abs() < 1e-12);
//!     optimizer.step()?;
//!     scheduler.step()?;
//! }
//! # Ok::<(), torsh_tensor::TorshError>(())
//! ```

mod annealing;
mod chain;
mod cycle;
mod factor;
mod per_group;
mod plateau;
mod scheduler;
mod swa;

pub use annealing::{
    CosineAnnealingLR, CosineAnnealingPolicy, CosineAnnealingWarmRestarts, LinearLR, LinearPolicy,
    PolynomialLR, PolynomialPolicy, WarmRestartsPolicy, WarmupCosine, WarmupCosinePolicy,
};
pub use chain::{ChainedScheduler, SequentialLR};
pub use cycle::{
    CyclicLR, CyclicLROptions, CyclicPolicy, OneCycleLR, OneCycleLROptions, OneCyclePolicy,
};
pub use factor::{
    ConstantLR, ConstantPolicy, ExponentialLR, ExponentialPolicy, LambdaLR, LambdaPolicy,
    MultiStepLR, MultiStepPolicy, MultiplicativeLR, MultiplicativePolicy, StepLR, StepPolicy,
};
pub use per_group::PerGroup;
pub use plateau::{ReduceLROnPlateau, ReduceLROnPlateauOptions};
pub use scheduler::{Cx, LRScheduler, Move, Policy, Scheduler, SchedulerState};
pub use swa::{SWALR, SwaPolicy};
