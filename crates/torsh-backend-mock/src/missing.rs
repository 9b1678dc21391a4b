//! The kernels that the device lacks.

use torsh_core::{DType, Kernel};

/// Kernels of the CPU that this device lacks: the ops they belong to are computed by their records'
/// definitions in other ops.
#[rustfmt::skip]
pub const MISSING: &[Kernel] = {
    use Kernel::*;
    &[
        AddAlpha, SubAlpha, Rsub, Addcmul, Addcdiv, LerpScalar,
        LerpTensor, ClampTensor, ClampMinTensor, ClampMaxTensor, NanToNum, Logit,
        Isclose, Angle, LeakyRelu, PreluKernel, Elu, Celu,
        Softplus, Threshold, Hardtanh, Hardshrink, Softshrink, GeluErf,
        GeluTanh, Fmax, Fmin, Logaddexp, Logaddexp2, Xlogy,
        Copysign, Heaviside, ReluBackward, SigmoidBackward, TanhBackward, SiluBackward,
        GeluErfBackward, GeluTanhBackward, Ne, Le, Ge, LogicalXor,
        Lcm, Relu6, Silu, Selu, Hardswish, Hardsigmoid,
        Mish, Softsign, Logsigmoid, Positive, Sgn, Exp2,
        Log2, Log10, Rsqrt, Tan, Sinc,
        Deg2rad, Rad2deg, Frac, Isposinf, Isneginf, Isfinite,
        Isinf, Isnan, LogicalNot, MseElementwise, SmoothL1Elementwise, HuberElementwise,
        BceElementwise, BceLogitsElementwise, BceLogitsWeightedElementwise, KlDivElementwise, KlDivLogElementwise, PoissonLogElementwise,
        PoissonElementwise, StirlingElementwise, GaussianElementwise, HingeElementwise, SoftMarginElementwise, MarginRankingElementwise,
        // Structural ones.
        Softmax, LogSoftmax, SoftmaxBackward, LogSoftmaxBackward, LogSumExp, NanSum,
        CountNonzero, Flip, Roll, Triangle, RowNorm, RowNormBackward,
        BatchNorm, BatchNormBackward, ConvBatchNorm, NllLoss, NllLossBackward, CrossEntropy, CrossEntropyBackward,
    ]
};

/// Kernels that the device has, but not in these dtypes to compute in.
pub const MISSING_IN: &[(Kernel, DType)] =
    &[(Kernel::Square, DType::F16), (Kernel::Square, DType::BF16)];
