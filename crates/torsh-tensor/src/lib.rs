//! The tensor of ToRSh: strided arrays with PyTorch's semantics, the records of all ops, and the
//! recording of gradients.
//!
//! Start with [`Tensor`]. [`ops`] has the op records, [`record`] defines what a record is, and [`call`]
//! is the dispatcher that every op call goes through.

extern crate self as torsh_tensor;

mod anomaly;
mod argument;
pub mod attrs;
mod autocast;
mod backward;
pub mod call;
mod check;
mod checkpoint;
/// Devices: what is done where one lacks an op's kernel, and when errors come.
pub mod devices {
    pub use crate::call::{
        DefinitionCx, Fallback, definitions_used, fallback, fallbacks, set_fallback,
        set_sync_checks, sync_checks,
    };
    pub use crate::check::check;
    pub use crate::stream::wait_idle;
    pub use torsh_backend::{devices, is_available, memory_stats, register, reserve, synchronize};
    pub use torsh_core::CallSite;
    pub use torsh_core::attrs::Assert;
}
mod display;
mod engine;
/// Discrete Fourier transforms, as `torch.fft`.
///
/// ```
/// use torsh_tensor::{fft, tensor};
/// let x = tensor![0.0, 1.0, 0.0, -1.0];
/// assert!(fft::irfft(fft::rfft(&x)?)?.allclose(&x)?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub mod fft {
    pub use crate::ops::fft::FftNorm;
    pub use crate::ops::fft::functions::{
        Fft2Options, FftOptions, FftnOptions, fft, fft_with, fft2, fft2_with, fftn, fftn_with,
        hfft, hfft_with, hfft2, hfft2_with, hfftn, hfftn_with, ifft, ifft_with, ifft2, ifft2_with,
        ifftn, ifftn_with, ihfft, ihfft_with, ihfft2, ihfft2_with, ihfftn, ihfftn_with, irfft,
        irfft_with, irfft2, irfft2_with, irfftn, irfftn_with, rfft, rfft_with, rfft2, rfft2_with,
        rfftn, rfftn_with,
    };
    pub use crate::ops::fft::helpers::{
        FftfreqOptions, fftfreq, fftfreq_with, fftshift, ifftshift, rfftfreq, rfftfreq_with,
    };
    pub use torsh_backend::fft::{PlanCacheStats, clear_plan_cache, plan_cache_stats};
}
mod free;
/// Signal processing, as `torch.signal`.
pub mod signal {
    /// Windows, symmetric unless told otherwise.
    ///
    /// ```
    /// use torsh_tensor::{signal::windows, tensor};
    /// assert_eq!(windows::bartlett(3)?, tensor![0.0, 1.0, 0.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub mod windows {
        pub use crate::ops::signal::windows::{
            ExponentialOptions, GaussianOptions, GeneralHammingOptions, KaiserOptions,
            WindowOptions, bartlett, bartlett_with, blackman, blackman_with, cosine, cosine_with,
            exponential, exponential_with, gaussian, gaussian_with, general_cosine,
            general_cosine_with, general_hamming, general_hamming_with, hamming, hamming_with,
            hann, hann_with, kaiser, kaiser_with, nuttall, nuttall_with,
        };
    }
}
mod function;
pub mod functional;
mod inplace;
mod literal;
pub mod masked;
mod memory;
mod mode;
#[doc(hidden)]
pub mod named;
mod node;
pub mod observe;
mod operand;
mod operators;
pub mod ops;
#[doc(hidden)]
pub mod options;
pub mod print;
mod raw;
pub mod record;
pub mod sample;
mod schema;
pub mod sparse;
mod storage;
mod stream;
mod tensor;
mod transfer;
mod value;

pub use anomaly::{AnomalyOptions, detect_anomaly_guard_with, detect_anomaly_with};
pub use argument::Argument;
#[doc(hidden)]
pub use argument::Returned;
pub use autocast::{
    Autocast, AutocastGuard, AutocastOptions, autocast, autocast_guard, autocast_with,
    clear_autocast_cache, get_autocast_dtype, is_autocast_cache_enabled, is_autocast_enabled,
    set_autocast_dtype,
};
pub use backward::{HookHandle, backward, grad};
pub use call::{default_device, set_default_device};
pub use checkpoint::{CheckpointOptions, checkpoint, checkpoint_sequential, checkpoint_with};
pub use free::{
    IntoTo, TensorStats, arange, cat, empty, empty_like, eye, full, full_like, get_printoptions,
    has_inf, has_nan, linspace, logspace, ones, ones_like, rand, randint, randn, set_printoptions,
    stack, tensor_stats, zeros, zeros_like,
};
pub use function::record_function;
pub use literal::{Literal, Nested};
#[doc(hidden)]
pub use literal::{from_literal, parse_device};
pub use mode::{
    ModeGuard, detect_anomaly, detect_anomaly_guard, enable_grad, enable_grad_guard,
    inference_mode, inference_mode_guard, is_anomaly_enabled, is_grad_enabled, is_inference_mode,
    no_grad, no_grad_guard, set_grad_enabled,
};
pub use node::{BackwardCx, CustomBackward, Grads, Node, NodeHookFn};
pub use operand::{IntoDim, IntoDims, IntoShape, IntoSize, Operand, OutputSize, Sizes};
pub use ops::arguments::{
    AddOptions, AddcmulOptions, AddmmOptions, CumsumOptions, DiagonalOptions, DivOptions,
    EluOptions, FlattenOptions, GeluOptions, HardtanhOptions, LeakyReluOptions, LogitOptions,
    LossOptions, MultinomialOptions, NanToNumOptions, PadOptions, ShrinkOptions, SoftmaxOptions,
    SoftplusOptions,
};
pub use ops::attention::{AttentionWindow, ScaledDotProductAttentionOptions};
pub use ops::avg_pool::{
    AvgPool1dOptions, AvgPool2dOptions, AvgPool3dOptions, AvgPoolOptions, LpPoolOptions,
};
pub use ops::batch_norm::BatchNormOptions;
pub use ops::block_attention::SparseAttentionOptions;
pub use ops::block_mask::BlockMask;
pub use ops::clamp::IntoLimit;
pub use ops::class_loss::{CrossEntropyOptions, NllLossOptions};
pub use ops::conv::{
    Conv1dOptions, Conv2dOptions, Conv3dOptions, ConvOptions, ConvTranspose1dOptions,
    ConvTranspose2dOptions, ConvTranspose3dOptions, ConvTransposeOptions, NormActivation, Padding,
};
pub use ops::counting::{HistogramBins, HistogramOptions, SegmentReduceOptions};
pub use ops::embedding::EmbeddingOptions;
pub use ops::embedding_bag::{EmbeddingBagMode, EmbeddingBagOptions};
pub use ops::fold::UnfoldOptions;
pub use ops::grids::GridSampleOptions;
pub use ops::gumbel::GumbelSoftmaxOptions;
pub use ops::interpolate::{InterpolateMode, InterpolateOptions, IntoFactors};
pub use ops::into_index::{
    Ellipsis, IndexItem, IntoBound, IntoIndex, IntoIndexItem, NewAxis, Slice, s,
};
pub use ops::loss::{
    BceOptions, BceWithLogitsOptions, CosineEmbeddingLossOptions, CtcLossOptions,
    GaussianNllLossOptions, HingeEmbeddingLossOptions, HuberLossOptions, IntoLengths, KlDivOptions,
    MarginRankingLossOptions, MultiLabelSoftMarginLossOptions, MultiMarginLossOptions,
    PoissonNllLossOptions, Reduction, SmoothL1LossOptions, TripletMarginLossOptions,
};
pub use ops::multi_head::{InProjection, MultiHeadAttentionForwardOptions};
pub use ops::numeric::{
    CovOptions, GradientOptions, GradientSpacing, IndexReduceOptions, TrapezoidSpacing,
};
pub use ops::pool::{MaxPool1dOptions, MaxPool2dOptions, MaxPool3dOptions, MaxPoolOptions};
pub use ops::properties::{Finfo, Iinfo, broadcast_shapes, can_cast, promote_types};
pub use ops::reduce::SumOptions;
pub use ops::reduce::moments::VarOptions;
pub use ops::reduce::norm::{NormOptions, NormOrd};
pub use ops::reduce::quantile::{Interpolation, QuantileOptions};
pub use ops::rnn::RnnOptions;
pub use ops::rrelu::RreluOptions;
pub use ops::sample_norm::{
    GroupNormOptions, InstanceNormOptions, LayerNormOptions, LocalResponseNormOptions,
    RmsNormOptions,
};
pub use ops::scan::DiffOptions;
pub use ops::scatter::{GatherOptions, ScatterReduceOptions};
pub use ops::signal::stft::{IstftOptions, StftOptions};
pub use ops::signal::windows::{
    HammingWindowOptions, KaiserWindowOptions, PeriodicWindowOptions, bartlett_window,
    bartlett_window_with, blackman_window, blackman_window_with, hamming_window,
    hamming_window_with, hann_window, hann_window_with, kaiser_window, kaiser_window_with,
};
pub use ops::similarity::{CosineSimilarityOptions, NormalizeOptions, PairwiseDistanceOptions};
pub use ops::sort::{
    BincountOptions, IscloseOptions, IsinOptions, SearchsortedOptions, SortOptions, TopkOptions,
};
pub use ops::unique::{Unique, UniqueConsecutiveOptions, UniqueOptions};
pub use ops::unpool::{FractionalMaxPoolOptions, MaxUnpoolOptions};
pub use schema::{Bound, Param, Signature, Type};
pub use stream::{
    Event, EventOptions, Stream, StreamGuard, StreamOptions, current_stream, default_stream,
    set_stream, stream, stream_guard,
};
pub use tensor::Tensor;
#[doc(hidden)]
pub use torsh_core::at_caller;
pub use torsh_core::{
    DType, Device, Element, HeldStorage, Result, Scalar, Shape, Shared, Storage, TensorLayout,
    TorshError, WeakShared,
};
#[doc(hidden)]
pub use torsh_macros::{by_name, functions, names_caller};
pub use transfer::ToDeviceOptions;
pub use value::Value;
