//! Optimizers of ToRSh, as torch.optim.
//!
//! An optimizer is a handle: its methods take `&self`, and a clone is the same optimizer. A new
//! algorithm implements [`Algorithm`] and gets everything else (parameter groups, state dicts,
//! builders) from [`Optim`].
//!
//! ```
//! use torsh_optim::{Optimizer, SGD};
//! use torsh_tensor::Tensor;
//!
//! let w = Tensor::from_data(&[5.0f32, -3.0], &[2])?.requires_grad_(true);
//! let optimizer = SGD::builder([&w]).lr(0.1).momentum(0.9).build()?;
//! for _ in 0..200 {
//!     optimizer.zero_grad();
//!     w.mul(&w)?.sum()?.backward()?;
//!     optimizer.step()?;
//! }
//! assert!(w.to_vec::<f32>()?.iter().all(|v| v.abs() < 1e-3));
//! # Ok::<(), torsh_tensor::TorshError>(())
//! ```

mod adadelta;
mod adafactor;
mod adagrad;
mod adam;
mod adamax;
mod asgd;
#[cfg(feature = "files")]
mod file;
mod fused;
mod grad_scaler;
mod hooks;
mod lbfgs;
pub mod lr_scheduler;
mod memory;
mod muon;
mod nadam;
mod optim;
mod optimizer;
mod options;
mod param;
mod radam;
mod rmsprop;
mod rprop;
mod sgd;
mod sparse;
mod sparse_adam;
mod state;
mod swa;

pub use adadelta::{Adadelta, AdadeltaAlgorithm, AdadeltaOptions, AdadeltaState};
pub use adafactor::{Adafactor, AdafactorAlgorithm, AdafactorOptions, AdafactorState, Variance};
pub use adagrad::{Adagrad, AdagradAlgorithm, AdagradOptions, AdagradState};
pub use adam::{Adam, AdamAlgorithm, AdamOptions, AdamState, AdamW, AdamWAlgorithm, AdamWOptions};
pub use adamax::{Adamax, AdamaxAlgorithm, AdamaxOptions, AdamaxState};
pub use asgd::{ASGD, AsgdAlgorithm, AsgdOptions, AsgdState};
#[cfg(feature = "files")]
pub use file::{named_values, values_by_name};
pub use grad_scaler::{GradScaler, GradScalerOptions, ScaledStep};
pub use hooks::{OptimizerHookHandle, OptimizerHooks};
pub use lbfgs::{LBFGS, LbfgsAlgorithm, LbfgsOptions, LbfgsState};
pub use lr_scheduler::SWALR;
pub use memory::StepCount;
pub use muon::{Muon, MuonAlgorithm, MuonOptions, MuonState};
pub use nadam::{NAdam, NAdamAlgorithm, NAdamOptions, NAdamState};
pub use optim::{Algorithm, Builder, Minimize, Optim, Step};
pub use optimizer::Optimizer;
pub use options::Options;
pub use param::{Param, ParamGroup, ParamOrGroup};
pub use radam::{RAdam, RAdamAlgorithm, RAdamOptions, RAdamState};
pub use rmsprop::{RMSprop, RMSpropAlgorithm, RMSpropOptions, RMSpropState};
pub use rprop::{Rprop, RpropAlgorithm, RpropOptions, RpropState};
pub use sgd::{SGD, SgdAlgorithm, SgdOptions, SgdState};
pub use sparse_adam::{SparseAdam, SparseAdamAlgorithm, SparseAdamOptions, SparseAdamState};
pub use state::{GroupState, OptimizerState, ParamState, StateValue};
pub use swa::{AveragedModel, AvgFn, get_ema_avg_fn, get_swa_avg_fn, update_bn};
pub use torsh_nn::utils::{
    ClipGradNormOptions, clip_grad_norm_, clip_grad_norm_with, clip_grad_value_,
};
