//! Losses made of other functions: by a distance of the caller's, and of the last linear layer.

use torsh_tensor::named::refused;
use torsh_tensor::{Result, Tensor, TorshError};

use crate::{CrossEntropyOptions, Reduction};

/// The options of [`triplet_margin_with_distance_loss_with`].
///
/// ```
/// # use torsh_functional as F;
/// let options = F::TripletMarginWithDistanceLossOptions::default();
/// assert_eq!((options.margin, options.swap, options.reduction), (1.0, false, F::Reduction::Mean));
/// ```
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
    /// PyTorch's defaults.
    ///
    /// ```
    /// assert_eq!(torsh_functional::TripletMarginWithDistanceLossOptions::new().margin, 1.0);
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// By how much the distances are asked to differ; above 0.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// assert_eq!(F::TripletMarginWithDistanceLossOptions::default().margin(0.5).margin, 0.5);
    /// ```
    #[must_use]
    pub fn margin(mut self, margin: f64) -> Self {
        self.margin = margin;
        self
    }

    /// Whether the distance of the positive and the negative vector counts where it is smaller.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// assert!(F::TripletMarginWithDistanceLossOptions::default().swap(true).swap);
    /// ```
    #[must_use]
    pub fn swap(mut self, swap: bool) -> Self {
        self.swap = swap;
        self
    }

    /// How the losses become the result.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// let options = F::TripletMarginWithDistanceLossOptions::default().reduction(F::Reduction::Sum);
    /// assert_eq!(options.reduction, F::Reduction::Sum);
    /// ```
    #[must_use]
    pub fn reduction(mut self, reduction: impl Into<Reduction>) -> Self {
        self.reduction = reduction.into();
        self
    }
}

/// [`triplet_margin_loss`](crate::triplet_margin_loss) by a distance of one's own, such as
/// [`pairwise_distance`](crate::pairwise_distance)
/// (`torch.nn.functional.triplet_margin_with_distance_loss`).
///
/// All three tensors have as many dimensions; the result is the mean of the losses, a 0-d tensor.
/// An error for other dimensions, and what `distance` gives as one.
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
#[torsh_tensor::names_caller]
pub fn triplet_margin_with_distance_loss(
    anchor: &Tensor,
    positive: &Tensor,
    negative: &Tensor,
    distance: impl Fn(&Tensor, &Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    let options = TripletMarginWithDistanceLossOptions::default();
    triplet_margin_with_distance_loss_with(anchor, positive, negative, distance, options)
}

/// [`triplet_margin_with_distance_loss`] with another `margin` or `reduction`, or with `swap`.
///
/// An error for a margin that is not above 0.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::{Tensor, tensor};
/// let (a, p, n) = (tensor![[0.0, 0.0]], tensor![[3.0, 4.0]], tensor![[0.0, 6.0]]);
/// let options = F::TripletMarginWithDistanceLossOptions::default().margin(2.0);
/// let distance = |a: &Tensor, b: &Tensor| a.sub(b)?.norm_dim(-1, false);
/// let loss = F::triplet_margin_with_distance_loss_with(&a, &p, &n, distance, options)?;
/// assert_eq!(loss.item::<f32>()?, 1.0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
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
        other => {
            let words = ["none", "mean", "sum"];
            Err(refused(other.name(), "reduction", words).renamed(op))
        }
    }
}

/// The options of [`linear_cross_entropy_with`].
///
/// ```
/// # use torsh_functional as F;
/// let options = F::LinearCrossEntropyOptions::default();
/// assert!(options.linear_bias.is_none() && options.label_smoothing == 0.0);
/// assert_eq!(options.reduction, F::Reduction::Mean);
/// ```
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

impl LinearCrossEntropyOptions<'_> {
    /// PyTorch's defaults.
    ///
    /// ```
    /// assert_eq!(torsh_functional::LinearCrossEntropyOptions::new().label_smoothing, 0.0);
    /// ```
    pub fn new() -> Self {
        Self::default()
    }
}

/// Cross entropy of `input @ linear_weight.T` and a target: the mean. `input` is `[n, in]` or
/// `[in]`, `linear_weight` is `[c, d1, .., in]`, the target is classes `[n, d1, ..]` or
/// probabilities `[n, c, d1, ..]` (`torch.nn.functional.linear_cross_entropy`).
///
/// An error for other shapes, for classes out of range, and for dtypes that differ.
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
///
/// An error for a bias of another shape, and for `ignore_index` with probabilities.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let bias = tensor![0.0, 1000.0];
/// let options = F::LinearCrossEntropyOptions { linear_bias: Some(&bias), ..Default::default() };
/// let loss = F::linear_cross_entropy_with(&tensor![[1.0]], &tensor![[0.0], [0.0]], &tensor![0], options)?;
/// assert_eq!(loss.item::<f32>()?, 1000.0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
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
