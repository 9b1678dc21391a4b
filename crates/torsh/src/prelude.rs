//! The names that most programs need: `use torsh::prelude::*;`

pub use crate::DeviceExt;
pub use crate::autograd;
pub use crate::{activation_checkpoint, gradient_checkpoint};
pub use torsh_core::random::manual_seed;
pub use torsh_core::{Generator, set_default_dtype};
pub use torsh_tensor::{
    DType, Device, Ellipsis, IntoDim, IntoDims, IntoShape, NewAxis, Operand, Result, Scalar, Shape,
    Tensor, TorshError, arange, autocast, autocast_with, cat, checkpoint, checkpoint_sequential,
    detect_anomaly, detect_anomaly_with, device, empty, empty_like, enable_grad, eye, fft, full,
    full_like, has_inf, has_nan, inference_mode, linspace, logspace, masked, no_grad, ones,
    ones_like, rand, randint, randn, s, set_grad_enabled, set_printoptions, signal, stack, tensor,
    tensor_2d, tensor_stats, zeros, zeros_like,
};

#[cfg(feature = "data")]
pub use crate::data;
#[cfg(feature = "distributed")]
pub use crate::distributed::{self, DistributedDataParallel, init_distributed};
#[cfg(feature = "hub")]
pub use crate::hub;
#[cfg(feature = "linalg")]
pub use crate::linalg::{self, LinalgExt};
#[cfg(feature = "nn")]
pub use crate::nn;
#[cfg(feature = "optim")]
pub use crate::optim;
#[cfg(feature = "profiler")]
pub use crate::profiler;
#[cfg(feature = "sparse")]
pub use crate::sparse::{self, SparseExt};
#[cfg(feature = "special")]
pub use crate::special;
#[cfg(feature = "text")]
pub use crate::text;
#[cfg(feature = "vision")]
pub use crate::vision;
#[cfg(feature = "train")]
pub use crate::{metrics, train};
#[cfg(feature = "data")]
pub use torsh_data::{DataLoader, TensorDataset, random_split};
#[cfg(feature = "functional")]
pub use torsh_functional as F;
#[cfg(feature = "nn")]
pub use torsh_nn::*;
#[cfg(feature = "optim")]
pub use torsh_optim::lr_scheduler::{
    CosineAnnealingLR, ExponentialLR, LRScheduler, LambdaLR, LinearLR, MultiStepLR, OneCycleLR,
    ReduceLROnPlateau, SequentialLR, StepLR, WarmupCosine,
};
#[cfg(feature = "optim")]
pub use torsh_optim::{
    Adagrad, Adam, AdamW, GradScaler, LBFGS, NAdam, Optimizer, RAdam, RMSprop, SGD,
    clip_grad_norm_, clip_grad_value_,
};
#[cfg(feature = "profiler")]
pub use torsh_profiler::{
    MemoryProfiler, Profile, Profiler, ProfilerAction, TrainingProfiler, analyze_memory_usage,
    create_computation_graph, find_optimal_batch_size, get_memory_usage, profile, record_function,
};
#[cfg(feature = "train")]
pub use torsh_train::{Checkpoint, ExperimentConfig, Trainer};
#[cfg(feature = "vision")]
pub use torsh_vision::{load_image, preprocess_image};
