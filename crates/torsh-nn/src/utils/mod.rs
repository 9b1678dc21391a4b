//! Functions on the parameters of a model (`torch.nn.utils`).

mod clip;
mod fuse;
mod reparametrize;
pub mod rnn;
mod vector;

pub use clip::{
    ClipGradNormOptions, clip_grad_norm_, clip_grad_norm_with, clip_grad_value_,
    clip_grads_with_norm_, get_total_norm,
};
pub use fuse::{BatchStatistics, Fusible, fuse_conv_bn_eval, fuse_linear_bn_eval};
pub use reparametrize::{
    Reparametrized, SpectralNormOptions, remove_spectral_norm, remove_weight_norm, spectral_norm,
    spectral_norm_with, weight_norm,
};
pub use vector::{parameters_to_vector, vector_to_parameters};
