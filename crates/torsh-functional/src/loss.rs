//! Losses.

use torsh_tensor::{Operand, Result, Tensor};

pub use torsh_tensor::{
    BceOptions, BceWithLogitsOptions, CosineEmbeddingLossOptions, GaussianNllLossOptions,
    HingeEmbeddingLossOptions, HuberLossOptions, KlDivOptions, MarginRankingLossOptions,
    MultiLabelSoftMarginLossOptions, MultiMarginLossOptions, PoissonNllLossOptions,
    SmoothL1LossOptions, TripletMarginLossOptions,
};

use crate::{CrossEntropyOptions, NllLossOptions, Reduction};

/// Cross entropy of scores `[N, C]` (or `[C]`, `[N, C, d1, ..]`) and int64 classes of that shape
/// without `C`, or probabilities of that shape: the mean.
#[track_caller]
pub fn cross_entropy(input: &Tensor, target: &Tensor) -> Result<Tensor> {
    cross_entropy_with(input, target, CrossEntropyOptions::default())
}

/// [`cross_entropy`] with options.
#[track_caller]
pub fn cross_entropy_with(
    input: &Tensor,
    target: &Tensor,
    options: CrossEntropyOptions,
) -> Result<Tensor> {
    input.cross_entropy_with(target, options)
}

/// The negative of the log-probability of each class: the mean.
#[track_caller]
pub fn nll_loss(input: &Tensor, target: &Tensor) -> Result<Tensor> {
    nll_loss_with(input, target, NllLossOptions::default())
}

/// [`nll_loss`] with options.
#[track_caller]
pub fn nll_loss_with(input: &Tensor, target: &Tensor, options: NllLossOptions) -> Result<Tensor> {
    input.nll_loss_with(target, options)
}

/// Losses of two tensors with a reduction.
macro_rules! losses {
    ($($(#[$doc:meta])* $name:ident $with:ident;)*) => {$(
        $(#[$doc])*
        #[track_caller]
        pub fn $name(input: &Tensor, target: &Tensor) -> Result<Tensor> {
            $with(input, target, Reduction::Mean)
        }

        #[doc = concat!("[`", stringify!($name), "`] with another reduction.")]
        #[track_caller]
        pub fn $with(input: &Tensor, target: &Tensor, reduction: Reduction) -> Result<Tensor> {
            input.$with(target, reduction.name())
        }
    )*};
}

losses! {
    /// The mean of the squared differences.
    mse_loss mse_loss_with;
    /// The mean of the absolute differences.
    l1_loss l1_loss_with;
}

/// Losses of two tensors whose only other argument is a reduction, as a value.
macro_rules! reduced {
    ($($(#[$doc:meta])* $name:ident $with:ident;)*) => {$(
        $(#[$doc])*
        #[track_caller]
        pub fn $name(input: &Tensor, target: &Tensor) -> Result<Tensor> {
            input.$name(target)
        }

        #[doc = concat!("[`", stringify!($name), "`] with another reduction.")]
        #[track_caller]
        pub fn $with(input: &Tensor, target: &Tensor, reduction: Reduction) -> Result<Tensor> {
            input.$with(target, reduction)
        }
    )*};
}

reduced! {
    /// The mean of `log(1 + exp(-target * input))` for targets 1 and -1.
    soft_margin_loss soft_margin_loss_with;
    /// The mean over samples and classes of what scores of untrue classes miss of being 1 below
    /// those of true ones; the int64 target lists the true classes up to the first -1.
    multilabel_margin_loss multilabel_margin_loss_with;
}

/// Losses that take options.
macro_rules! with_options {
    ($($(#[$doc:meta])* $name:ident $with:ident ($input:ident, $($arg:ident),+) $options:ident;)*) => {$(
        $(#[$doc])*
        #[track_caller]
        pub fn $name($input: &Tensor, $($arg: &Tensor),+) -> Result<Tensor> {
            $input.$name($($arg),+)
        }

        #[doc = concat!("[`", stringify!($name), "`] with options.")]
        #[track_caller]
        pub fn $with($input: &Tensor, $($arg: &Tensor,)+ options: $options) -> Result<Tensor> {
            $input.$with($($arg,)+ options)
        }
    )*};
}

with_options! {
    /// The mean of half the squared differences, linear from differences of 1 (`delta`) on.
    ///
    /// ```
    /// use torsh_functional as F;
    /// use torsh_tensor::tensor;
    /// let loss = F::huber_loss(&tensor![0.0, 0.0], &tensor![1.0, 3.0])?;
    /// assert_eq!(loss.item::<f32>()?, (0.5 + 2.5) / 2.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    huber_loss huber_loss_with (input, target) HuberLossOptions;
    /// The mean of half the squared differences, linear from differences of 1 (`beta`) on, with
    /// slope 1 there.
    smooth_l1_loss smooth_l1_loss_with (input, target) SmoothL1LossOptions;
    /// The mean cross entropy of probabilities and targets from 0 to 1.
    binary_cross_entropy binary_cross_entropy_with (input, target) BceOptions;
    /// The mean cross entropy of the input's sigmoid and targets from 0 to 1.
    binary_cross_entropy_with_logits binary_cross_entropy_with_logits_with (input, target) BceWithLogitsOptions;
    /// The divergence of log-probabilities from probabilities; the mean over all elements, as in
    /// PyTorch.
    kl_div kl_div_with (input, target) KlDivOptions;
    /// The mean negative log-likelihood of counts under Poisson distributions with `input` as the
    /// logarithm of the rate.
    poisson_nll_loss poisson_nll_loss_with (input, target) PoissonNllLossOptions;
    /// The mean of the input where the target is 1, and of what it misses of the margin 1 where
    /// the target is -1.
    hinge_embedding_loss hinge_embedding_loss_with (input, target) HingeEmbeddingLossOptions;
    /// The mean of `max(0, -target * (input1 - input2))` for targets 1 and -1.
    margin_ranking_loss margin_ranking_loss_with (input1, input2, target) MarginRankingLossOptions;
    /// The mean of 1 less the cosine of two vectors where the target is 1, and of a positive
    /// cosine where it is -1.
    cosine_embedding_loss cosine_embedding_loss_with (input1, input2, target) CosineEmbeddingLossOptions;
    /// The mean of what the distance to `negative` misses of exceeding that to `positive` by 1.
    triplet_margin_loss triplet_margin_loss_with (anchor, positive, negative) TripletMarginLossOptions;
    /// The mean over samples and classes of what scores of other classes miss of being 1 below the
    /// true class's.
    multi_margin_loss multi_margin_loss_with (input, target) MultiMarginLossOptions;
    /// The mean cross entropy of the scores' sigmoid and targets from 0 to 1, averaged over classes.
    multilabel_soft_margin_loss multilabel_soft_margin_loss_with (input, target) MultiLabelSoftMarginLossOptions;
}

/// The mean negative log-likelihood of targets under normal distributions with `input` as mean and
/// `var` (a number or a tensor) as variance.
#[track_caller]
pub fn gaussian_nll_loss<'a>(
    input: &Tensor,
    target: &Tensor,
    var: impl Into<Operand<'a>>,
) -> Result<Tensor> {
    input.gaussian_nll_loss(target, var)
}

/// [`gaussian_nll_loss`] with options.
#[track_caller]
pub fn gaussian_nll_loss_with<'a>(
    input: &Tensor,
    target: &Tensor,
    var: impl Into<Operand<'a>>,
    options: GaussianNllLossOptions,
) -> Result<Tensor> {
    input.gaussian_nll_loss_with(target, var, options)
}
