//! The points that differ from PyTorch on purpose.

use crate::compare::Of;

/// Points of a name that differ from PyTorch's.
#[derive(Clone, Copy, Debug)]
pub struct Listed {
    /// PyTorch's name of the operator.
    pub op: &'static str,
    /// Results or gradients.
    pub of: Of,
    /// At most how many points differ, over all calls.
    pub points: usize,
    /// Why they stay.
    pub reason: &'static str,
}

const fn listed(op: &'static str, of: Of, points: usize, reason: &'static str) -> Listed {
    Listed {
        op,
        of,
        points,
        reason,
    }
}

/// Every difference that stays.
pub const LISTED: &[Listed] = &[
    listed(
        "atan2",
        Of::Gradient,
        100,
        "near the origin, where the squares underflow: PyTorch's reciprocal of their sum overflows, ToRSh divides by the sum",
    ),
    listed(
        "cdist",
        Of::Output,
        16,
        "maximum norms of differences with nan: nan, where PyTorch's comparisons leave it out",
    ),
    listed(
        "cdist",
        Of::Gradient,
        278,
        "maximum norms share the gradient among equal differences, as the norm does: PyTorch gives each the whole; nan in differences",
    ),
    listed(
        "digamma",
        Of::Output,
        1,
        "beside a pole PyTorch's values lose their digits",
    ),
    listed(
        "digamma",
        Of::Gradient,
        62,
        "at and beside the poles, where PyTorch's values are large numbers and not infinite",
    ),
    listed(
        "float_power",
        Of::Output,
        6,
        "IEEE 754 has pow(-inf, 0.5) = inf and pow(-0, -0.5) = inf: PyTorch takes square roots",
    ),
    listed(
        "float_power",
        Of::Gradient,
        6,
        "IEEE 754 has pow(-inf, 0.5) = inf and pow(-0, -0.5) = inf: PyTorch takes square roots",
    ),
    listed(
        "frexp",
        Of::Gradient,
        6,
        "at the largest and smallest numbers PyTorch's power of two of the exponent overflows",
    ),
    listed(
        "igamma",
        Of::Output,
        43,
        "for denormal orders the limit is 1, where PyTorch gives 0; nan stays",
    ),
    listed(
        "igammac",
        Of::Output,
        27,
        "for tiny orders PyTorch's values lose their digits, and for the largest they are nan; nan stays",
    ),
    listed(
        "index_reduce",
        Of::Gradient,
        12,
        "PyTorch shares the gradient with the start value that is excluded",
    ),
    listed(
        "ldexp",
        Of::Gradient,
        8,
        "at the largest numbers PyTorch's product overflows before it is multiplied by log(2)",
    ),
    listed(
        "lgamma",
        Of::Gradient,
        1,
        "beside a pole PyTorch's digamma loses its digits",
    ),
    listed(
        "nanmedian",
        Of::Output,
        2,
        "of rows that are nan throughout any position is right",
    ),
    listed(
        "nanmedian",
        Of::Gradient,
        4,
        "of rows that are nan throughout any position is right",
    ),
    listed(
        "nn.functional.batch_norm",
        Of::Output,
        2,
        "channels whose variance overflows float32: PyTorch's results are 0",
    ),
    listed(
        "nn.functional.cross_entropy",
        Of::Gradient,
        240,
        "rows that ignore_index leaves out have no gradient, also where their scores are nan or infinite: PyTorch multiplies these by 0",
    ),
    listed(
        "nn.functional.group_norm",
        Of::Output,
        24,
        "extreme numbers, whose variance overflows or underflows: PyTorch's are nan; equal numbers give exactly 0, without a rest of rounding",
    ),
    listed(
        "nn.functional.group_norm",
        Of::Gradient,
        24,
        "extreme numbers, whose variance overflows or underflows: PyTorch's are nan",
    ),
    listed(
        "nn.functional.instance_norm",
        Of::Output,
        22,
        "extreme numbers, whose variance overflows; equal numbers give exactly 0, without a rest of rounding",
    ),
    listed(
        "nn.functional.instance_norm",
        Of::Gradient,
        8,
        "extreme numbers, whose variance overflows",
    ),
    listed(
        "nn.functional.kl_div",
        Of::Gradient,
        536,
        "the derivative of y log(y) at 0 is -inf, PyTorch's formula has 0 / 0",
    ),
    listed(
        "nn.functional.layer_norm",
        Of::Output,
        23,
        "extreme numbers, whose variance overflows or underflows: PyTorch's are nan",
    ),
    listed(
        "nn.functional.layer_norm",
        Of::Gradient,
        32,
        "extreme numbers, whose variance overflows or underflows: PyTorch's are nan",
    ),
    listed(
        "nn.functional.lp_pool1d",
        Of::Output,
        8,
        "powers of -inf to 0.5 as IEEE 754 has them: PyTorch takes square roots",
    ),
    listed(
        "nn.functional.lp_pool1d",
        Of::Gradient,
        2,
        "powers of -inf to 0.5 as IEEE 754 has them: PyTorch takes square roots",
    ),
    listed(
        "nn.functional.lp_pool2d",
        Of::Output,
        8,
        "powers of -inf to 0.5 as IEEE 754 has them: PyTorch takes square roots",
    ),
    listed(
        "nn.functional.lp_pool2d",
        Of::Gradient,
        2,
        "powers of -inf to 0.5 as IEEE 754 has them: PyTorch takes square roots",
    ),
    listed(
        "nn.functional.lp_pool3d",
        Of::Output,
        8,
        "powers of -inf to 0.5 as IEEE 754 has them: PyTorch takes square roots",
    ),
    listed(
        "nn.functional.lp_pool3d",
        Of::Gradient,
        2,
        "powers of -inf to 0.5 as IEEE 754 has them: PyTorch takes square roots",
    ),
    listed(
        "nn.functional.multi_margin_loss",
        Of::Output,
        72,
        "scores that are nan give nan: PyTorch's comparisons leave them out, which hides that a network diverged",
    ),
    listed(
        "nn.functional.multi_margin_loss",
        Of::Gradient,
        600,
        "follow the results: scores that are nan",
    ),
    listed(
        "nn.functional.multilabel_margin_loss",
        Of::Output,
        10,
        "scores that are nan give nan: PyTorch's comparisons leave them out, which hides that a network diverged",
    ),
    listed(
        "nn.functional.multilabel_margin_loss",
        Of::Gradient,
        72,
        "follow the results: scores that are nan",
    ),
    listed(
        "nn.functional.pdist",
        Of::Gradient,
        88,
        "maximum norms share the gradient among equal differences, as the norm does: PyTorch gives each the whole",
    ),
    listed(
        "nn.functional.poisson_nll_loss",
        Of::Gradient,
        374,
        "targets up to 1 have no Stirling term, and 0 no gradient of it: PyTorch's is 0 times infinity",
    ),
    listed(
        "nn.functional.rms_norm",
        Of::Output,
        3,
        "tiny numbers, whose squares are denormal, without an eps: ToRSh adds them up in float64",
    ),
    listed(
        "nn.functional.scaled_dot_product_attention",
        Of::Output,
        14,
        "queries that are nan give nan: PyTorch's fused kernel gives 0 in float32, which hides that a network diverged",
    ),
    listed(
        "nn.functional.scaled_dot_product_attention",
        Of::Gradient,
        28,
        "queries and values that are nan or infinite: what follows from the results",
    ),
    listed(
        "nn.functional.soft_margin_loss",
        Of::Gradient,
        64,
        "PyTorch's exponential overflows, and its quotient of infinities is nan",
    ),
    listed(
        "nn.functional.softsign",
        Of::Gradient,
        10,
        "0 at the infinities, where PyTorch's formula has a quotient of infinities; tails of float16",
    ),
    listed(
        "pdist",
        Of::Gradient,
        88,
        "maximum norms share the gradient among equal differences, as the norm does: PyTorch gives each the whole",
    ),
    listed(
        "polar",
        Of::Gradient,
        152,
        "at a magnitude of 0 the derivative is that of the direction: PyTorch takes the sign of the result, which is 0",
    ),
    listed(
        "polygamma",
        Of::Output,
        39,
        "at the poles, where PyTorch's values are large numbers and not infinite, and beside them",
    ),
    listed(
        "polygamma",
        Of::Gradient,
        40,
        "at and beside the poles, where PyTorch's values are large numbers and not infinite, and at infinity",
    ),
    listed(
        "pow",
        Of::Output,
        8,
        "IEEE 754 has pow(-inf, 0.5) = inf and pow(-0, -0.5) = inf, PyTorch takes square roots; complex numbers to the power 0 are 1, where PyTorch's tensor of exponents gives nan for 0",
    ),
    listed("pow", Of::Gradient, 8, "follow the results at -inf and -0"),
    listed(
        "prod",
        Of::Gradient,
        8,
        "a product of nan and several zeros: PyTorch's gradients are 0",
    ),
    listed(
        "scatter_reduce",
        Of::Gradient,
        12,
        "PyTorch shares the gradient with the start value that is excluded",
    ),
    listed(
        "segment_reduce",
        Of::Gradient,
        2,
        "the product of a segment that is nan alone: nan, as scatter_reduce's",
    ),
    listed("sinc", Of::Output, 16, "exactly 0 at integers"),
    listed(
        "special.erfcx",
        Of::Gradient,
        3,
        "the largest numbers, where PyTorch's product overflows",
    ),
    listed(
        "special.log_ndtr",
        Of::Gradient,
        13,
        "the lower tail: PyTorch's formula loses its digits, then overflows",
    ),
    listed(
        "special.modified_bessel_k0",
        Of::Gradient,
        1,
        "denormals, where PyTorch's values are nan",
    ),
    listed(
        "special.modified_bessel_k1",
        Of::Output,
        2,
        "denormals, where PyTorch's values are nan",
    ),
    listed(
        "special.modified_bessel_k1",
        Of::Gradient,
        1,
        "denormals, where PyTorch's values are nan",
    ),
    listed(
        "special.xlog1py",
        Of::Gradient,
        4,
        "a number that is nan gives nan, as a tensor does in PyTorch",
    ),
    listed(
        "special.zeta",
        Of::Output,
        32,
        "0 for infinite and huge operands, where PyTorch's series is nan",
    ),
    listed(
        "trapezoid",
        Of::Output,
        8,
        "rows with infinities at an end: PyTorch subtracts half the ends from the sum",
    ),
    listed(
        "var",
        Of::Output,
        1,
        "a denormal square over no degree of freedom",
    ),
    listed(
        "var_mean",
        Of::Output,
        1,
        "a denormal square over no degree of freedom",
    ),
    listed(
        "xlogy",
        Of::Gradient,
        4,
        "a number that is nan gives nan, as a tensor does in PyTorch",
    ),
];
