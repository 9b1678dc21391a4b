//! Functions on the parameters of a model (`torch.nn.utils`).

mod clip;
mod fuse;
mod orthogonal;
pub mod parametrizations;
mod prefix;
pub mod prune;
mod reparametrize;
pub mod rnn;
mod vector;

pub use clip::{
    ClipGradNormOptions, clip_grad_norm_, clip_grad_norm_with, clip_grad_value_,
    clip_grads_with_norm_, get_total_norm,
};
pub use fuse::{
    BatchStatistics, FuseBnWeightsOptions, Fusible, fuse_conv_bn_eval, fuse_conv_bn_weights,
    fuse_conv_transpose_bn_weights, fuse_linear_bn_eval, fuse_linear_bn_weights,
};
pub use prefix::consume_prefix_in_state_dict_if_present;
pub use reparametrize::{
    Reparametrized, SpectralNormOptions, remove_spectral_norm, remove_weight_norm, spectral_norm,
    spectral_norm_with, weight_norm,
};
pub use vector::{parameters_to_vector, vector_to_parameters};
