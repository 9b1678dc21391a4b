//! Automatic differentiation: what `torch.autograd` and `torch.func` offer, over the engine of
//! `torsh-tensor`.
//!
//! | here | PyTorch |
//! |---|---|
//! | [`grad`], [`backward`] | `torch.autograd.grad`, `torch.autograd.backward` |
//! | [`vjp`], [`jvp`], [`jacobian`], [`hessian`], [`hvp`] | `torch.autograd.functional` |
//! | [`gradcheck`], [`gradgradcheck`] | `torch.autograd.gradcheck` |
//! | [`Function`] | `torch.autograd.Function` |
//! | [`checkpoint`], [`checkpoint_sequential`] | `torch.utils.checkpoint` |
//! | [`no_grad`], [`enable_grad`], [`inference_mode`], [`detect_anomaly`] | the context managers |
#![forbid(unsafe_code)]

mod check;
mod function;
mod functional;

pub use check::{GradcheckOptions, gradcheck, gradcheck_with, gradgradcheck, gradgradcheck_with};
pub use function::{Context, Function, apply};
pub use functional::{hessian, hvp, jacobian, jvp, vjp};
pub use torsh_tensor::{
    AnomalyOptions, CheckpointOptions, HookHandle, ModeGuard, Node, backward, checkpoint,
    checkpoint_sequential, checkpoint_with, detect_anomaly, detect_anomaly_guard,
    detect_anomaly_guard_with, detect_anomaly_with, enable_grad, enable_grad_guard, grad,
    inference_mode, inference_mode_guard, is_anomaly_enabled, is_grad_enabled, is_inference_mode,
    no_grad, no_grad_guard, set_grad_enabled,
};
pub use torsh_tensor::{checkpoint as gradient_checkpoint, checkpoint as activation_checkpoint};
