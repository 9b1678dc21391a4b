//! What most programs use: `use torsh::prelude::*;`

pub use crate::autograd;
pub use torsh_core::random::manual_seed;
pub use torsh_core::{Generator, set_default_dtype};
pub use torsh_tensor::{
    DType, Device, Ellipsis, IntoDim, IntoDims, IntoShape, NewAxis, Operand, Result, Scalar, Shape,
    Tensor, TorshError, checkpoint, detect_anomaly, enable_grad, inference_mode, no_grad, s,
    set_grad_enabled,
};

#[cfg(feature = "data")]
pub use crate::data;
#[cfg(feature = "nn")]
pub use crate::nn;
#[cfg(feature = "optim")]
pub use crate::optim;
#[cfg(feature = "functional")]
pub use torsh_functional as F;
#[cfg(feature = "nn")]
pub use torsh_nn::*;
#[cfg(feature = "optim")]
pub use torsh_optim::{Adam, AdamW, Optimizer, SGD, clip_grad_norm_, clip_grad_value_};
