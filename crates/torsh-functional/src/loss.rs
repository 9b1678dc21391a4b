//! Losses.

use torsh_tensor::{Operand, Result, Tensor, TorshError};

pub use torsh_tensor::{
    BceOptions, BceWithLogitsOptions, CosineEmbeddingLossOptions, CtcLossOptions,
    GaussianNllLossOptions, HingeEmbeddingLossOptions, HuberLossOptions, IntoLengths, KlDivOptions,
    MarginRankingLossOptions, MultiLabelSoftMarginLossOptions, MultiMarginLossOptions,
    PoissonNllLossOptions, SmoothL1LossOptions, TripletMarginLossOptions,
};

use crate::{CrossEntropyOptions, LossOptions, NllLossOptions, Reduction};

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
    /// The mean of the squared differences.
    mse_loss mse_loss_with (input, target) LossOptions;
    /// The mean of the absolute differences.
    l1_loss l1_loss_with (input, target) LossOptions;
    /// The mean of `log(1 + exp(-target * input))` for targets 1 and -1.
    soft_margin_loss soft_margin_loss_with (input, target) LossOptions;
    /// The mean over samples and classes of what scores of untrue classes miss of being 1 below
    /// those of true ones; the int64 target lists the true classes up to the first -1.
    multilabel_margin_loss multilabel_margin_loss_with (input, target) LossOptions;
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

/// The mean connectionist temporal classification loss of log-probabilities `[t, n, c]` or
/// `[t, c]` and labels `[n, s]` (or all of them in one dimension), each divided by its target's
/// length.
///
/// ```
/// use torsh_functional as F;
/// use torsh_tensor::{tensor, zeros};
/// // Of the 2^2 equally probable sequences of blank and label, three show the label once.
/// let log_probs = F::log_softmax(&zeros(&[2, 2]), -1)?;
/// let loss = F::ctc_loss(&log_probs, &tensor![1], [2], [1])?;
/// assert!((loss.item::<f64>()? - (4.0f64 / 3.0).ln()).abs() < 1e-6);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn ctc_loss(
    log_probs: &Tensor,
    targets: &Tensor,
    input_lengths: impl IntoLengths,
    target_lengths: impl IntoLengths,
) -> Result<Tensor> {
    log_probs.ctc_loss(targets, input_lengths, target_lengths)
}

/// [`ctc_loss`] with options.
#[track_caller]
pub fn ctc_loss_with(
    log_probs: &Tensor,
    targets: &Tensor,
    input_lengths: impl IntoLengths,
    target_lengths: impl IntoLengths,
    options: CtcLossOptions,
) -> Result<Tensor> {
    log_probs.ctc_loss_with(targets, input_lengths, target_lengths, options)
}

/// What [`triplet_margin_with_distance_loss_with`] may be told.
#[derive(Clone, Debug)]
pub struct TripletMarginWithDistanceLossOptions {
    /// By how much the distances are asked to differ; above 0.
    pub margin: f64,
    /// Whether the distance of the positive and the negative vector counts where it is smaller.
    pub swap: bool,
    /// How the losses become the result.
    pub reduction: Reduction,
}

impl Default for TripletMarginWithDistanceLossOptions {
    fn default() -> Self {
        TripletMarginWithDistanceLossOptions {
            margin: 1.0,
            swap: false,
            reduction: Reduction::Mean,
        }
    }
}

impl TripletMarginWithDistanceLossOptions {
    /// By how much the distances are asked to differ.
    #[must_use]
    pub fn margin(mut self, margin: f64) -> Self {
        self.margin = margin;
        self
    }

    /// Whether the distance of the positive and the negative vector counts where it is smaller.
    #[must_use]
    pub fn swap(mut self, swap: bool) -> Self {
        self.swap = swap;
        self
    }

    /// How the losses become the result.
    #[must_use]
    pub fn reduction(mut self, reduction: Reduction) -> Self {
        self.reduction = reduction;
        self
    }
}

/// [`triplet_margin_loss`] by a distance of one's own, such as [`pairwise_distance`](crate::pairwise_distance).
///
/// ```
/// use torsh_functional as F;
/// use torsh_tensor::{Result, Tensor, tensor};
/// fn city_blocks(a: &Tensor, b: &Tensor) -> Result<Tensor> {
///     a.sub(b)?.abs()?.sum_dim(-1, false)
/// }
/// let (a, p, n) = (tensor![[0.0, 0.0]], tensor![[1.0, 2.0]], tensor![[1.5, 2.0]]);
/// let loss = F::triplet_margin_with_distance_loss(&a, &p, &n, city_blocks)?;
/// assert_eq!(loss.item::<f32>()?, 0.5);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn triplet_margin_with_distance_loss(
    anchor: &Tensor,
    positive: &Tensor,
    negative: &Tensor,
    distance: impl Fn(&Tensor, &Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    let options = TripletMarginWithDistanceLossOptions::default();
    triplet_margin_with_distance_loss_with(anchor, positive, negative, distance, options)
}

/// [`triplet_margin_with_distance_loss`] with options.
#[track_caller]
pub fn triplet_margin_with_distance_loss_with(
    anchor: &Tensor,
    positive: &Tensor,
    negative: &Tensor,
    distance: impl Fn(&Tensor, &Tensor) -> Result<Tensor>,
    options: TripletMarginWithDistanceLossOptions,
) -> Result<Tensor> {
    let op = "triplet_margin_with_distance_loss";
    if options.margin.is_nan() || options.margin <= 0.0 {
        return Err(TorshError::invalid(
            op,
            format!("margin must be greater than 0, got {:?}", options.margin),
        ));
    }
    if anchor.ndim() != positive.ndim() || anchor.ndim() != negative.ndim() {
        return Err(TorshError::shape(
            op,
            format!(
                "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: anchor {}D, positive {}D, and negative {}D inputs",
                anchor.ndim(),
                positive.ndim(),
                negative.ndim()
            ),
        ));
    }
    let near = distance(anchor, positive)?;
    let mut far = distance(anchor, negative)?;
    if options.swap {
        far = far.minimum(&distance(positive, negative)?)?;
    }
    reduce(
        op,
        near.sub(&far)?.add(options.margin)?.clamp_min(0.0)?,
        options.reduction,
    )
}

/// The result from the losses of the elements.
fn reduce(op: &'static str, losses: Tensor, reduction: Reduction) -> Result<Tensor> {
    match reduction {
        Reduction::None => Ok(losses),
        Reduction::Mean => losses.mean(),
        Reduction::Sum => losses.sum(),
        other => Err(TorshError::invalid(
            op,
            format!("{} is not a valid value for reduction", other.name()),
        )),
    }
}

/// What [`linear_cross_entropy_with`] may be told.
#[derive(Clone, Debug, Default)]
pub struct LinearCrossEntropyOptions<'a> {
    /// Added to the scores: `[c, d1, ..]`, as the weight without its last dimension.
    pub linear_bias: Option<&'a Tensor>,
    /// A factor for each class.
    pub weight: Option<&'a Tensor>,
    /// How the losses become the result.
    pub reduction: Reduction,
    /// A class that counts for nothing; -100 where the target is classes and this is `None`.
    pub ignore_index: Option<i64>,
    /// How much of each target is spread over all classes.
    pub label_smoothing: f64,
}

/// Cross entropy of `input @ linear_weight.T` and a target: the mean. `input` is `[n, in]` or
/// `[in]`, `linear_weight` is `[c, d1, .., in]`, the target is classes `[n, d1, ..]` or
/// probabilities `[n, c, d1, ..]`.
///
/// ```
/// use torsh_functional as F;
/// use torsh_tensor::tensor;
/// let (x, w) = (tensor![[1.0, 2.0]], tensor![[1.0, 0.0], [0.0, 1.0]]);
/// let loss = F::linear_cross_entropy(&x, &w, &tensor![1])?;
/// assert_eq!(loss, F::cross_entropy(&tensor![[1.0, 2.0]], &tensor![1])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn linear_cross_entropy(
    input: &Tensor,
    linear_weight: &Tensor,
    target: &Tensor,
) -> Result<Tensor> {
    linear_cross_entropy_with(
        input,
        linear_weight,
        target,
        LinearCrossEntropyOptions::default(),
    )
}

/// [`linear_cross_entropy`] with options.
#[track_caller]
pub fn linear_cross_entropy_with(
    input: &Tensor,
    linear_weight: &Tensor,
    target: &Tensor,
    options: LinearCrossEntropyOptions<'_>,
) -> Result<Tensor> {
    let refuse = |why: String| Err(TorshError::shape("linear_cross_entropy", why));
    let [batch @ .., features] = input.dims() else {
        return refuse("expected input with dimensionality 1 or 2, got 0".into());
    };
    if batch.len() > 1 {
        return refuse(format!(
            "expected input with dimensionality 1 or 2, got {}",
            input.ndim()
        ));
    }
    let [classes @ .., last] = linear_weight.dims() else {
        return refuse("expected linear_weight with dimensionality at least 2, got 0".into());
    };
    let [count, outputs @ ..] = classes else {
        return refuse("expected linear_weight with dimensionality at least 2, got 1".into());
    };
    if features != last {
        return refuse(format!(
            "expected equal input and linear_weight last dimensions (in_features), got {features} and {last}, respectively"
        ));
    }
    if let Some(bias) = options.linear_bias
        && bias.dims() != classes
    {
        return refuse(format!(
            "expected linear_bias shape {classes:?}, got {}",
            bias.shape()
        ));
    }
    if !outputs.is_empty() && batch.is_empty() {
        return refuse(format!(
            "K-dimensional loss defined by linear_weight shape {} requires batched input, (N, {features}), got unbatched input with shape {}",
            linear_weight.shape(),
            input.shape()
        ));
    }
    let shape: Vec<usize> = batch.iter().chain(classes).copied().collect();
    if target.dims() == shape && options.ignore_index.is_some() {
        return Err(TorshError::invalid(
            "linear_cross_entropy",
            "ignore_index cannot be specified when target contains probabilities",
        ));
    }
    let rows = count * outputs.iter().product::<usize>();
    let weight = linear_weight.reshape([rows, *features])?;
    let bias = options.linear_bias.map(|b| b.reshape([rows])).transpose()?;
    let scores = input.linear(&weight, bias.as_ref())?.reshape(shape)?;
    let entropy = CrossEntropyOptions {
        weight: options.weight.cloned(),
        ignore_index: options.ignore_index.unwrap_or(-100),
        reduction: options.reduction,
        label_smoothing: options.label_smoothing,
    };
    scores.cross_entropy_with(target, entropy)
}
