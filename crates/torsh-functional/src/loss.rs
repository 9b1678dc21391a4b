//! Losses.

use torsh_tensor::{Operand, Result, Tensor};

pub use torsh_tensor::{
    BceOptions, BceWithLogitsOptions, CosineEmbeddingLossOptions, CtcLossOptions,
    GaussianNllLossOptions, HingeEmbeddingLossOptions, HuberLossOptions, IntoLengths, KlDivOptions,
    MarginRankingLossOptions, MultiLabelSoftMarginLossOptions, MultiMarginLossOptions,
    PoissonNllLossOptions, SmoothL1LossOptions, TripletMarginLossOptions,
};

use crate::{CrossEntropyOptions, LossOptions, NllLossOptions};

/// Cross entropy of scores `[N, C]` (or `[C]`, `[N, C, d1, ..]`) and int64 classes of that shape
/// without `C`, or probabilities of that shape (`torch.nn.functional.cross_entropy`): the mean, a
/// 0-d tensor.
///
/// An error for other shapes, for integer scores, and for classes out of range.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let scores = tensor![[0.0, 0.0], [0.0, 1000.0]];
/// assert!(F::cross_entropy(&scores, &tensor![1, 1])?.allclose(&tensor![0.3465736])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn cross_entropy(input: &Tensor, target: &Tensor) -> Result<Tensor> {
    cross_entropy_with(input, target, CrossEntropyOptions::default())
}

/// [`cross_entropy`] with options: a `weight` for each class, `ignore_index`, `label_smoothing` and
/// another `reduction`.
///
/// With [`Reduction::None`](crate::Reduction::None) the result has the classes' shape.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let scores = tensor![[0.0, 0.0], [0.0, 1000.0]];
/// let options = F::CrossEntropyOptions::new().reduction(F::Reduction::None);
/// assert!(F::cross_entropy_with(&scores, &tensor![1, 0], options)?.allclose(&tensor![0.6931472, 1000.0])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn cross_entropy_with(
    input: &Tensor,
    target: &Tensor,
    options: CrossEntropyOptions,
) -> Result<Tensor> {
    input.cross_entropy_with(target, options)
}

/// The negative of the log-probability `[N, C]` (or `[C]`, `[N, C, d1, ..]`) of each int64 class
/// (`torch.nn.functional.nll_loss`): the mean, a 0-d tensor.
///
/// An error for other shapes, for integer log-probabilities, and for classes out of range.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let log_probs = tensor![[-1.0, -2.0], [-3.0, -4.0]];
/// assert_eq!(F::nll_loss(&log_probs, &tensor![0, 1])?.item::<f32>()?, 2.5);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn nll_loss(input: &Tensor, target: &Tensor) -> Result<Tensor> {
    nll_loss_with(input, target, NllLossOptions::default())
}

/// [`nll_loss`] with options: a `weight` for each class, `ignore_index` and another `reduction`.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let log_probs = tensor![[-1.0, -2.0], [-3.0, -4.0]];
/// let options = F::NllLossOptions::new().ignore_index(0).reduction(F::Reduction::None);
/// assert_eq!(F::nll_loss_with(&log_probs, &tensor![0, 1], options)?, tensor![0.0, 4.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn nll_loss_with(input: &Tensor, target: &Tensor, options: NllLossOptions) -> Result<Tensor> {
    input.nll_loss_with(target, options)
}

/// Losses that take options.
macro_rules! with_options {
    ($($(#[$doc:meta])* $name:ident
        $(#[$with_doc:meta])* $with:ident ($input:ident, $($arg:ident),+) $options:ident;)*) => {$(
        $(#[$doc])*
        #[track_caller]
        pub fn $name($input: &Tensor, $($arg: &Tensor),+) -> Result<Tensor> {
            $input.$name($($arg),+)
        }

        $(#[$with_doc])*
        #[track_caller]
        pub fn $with($input: &Tensor, $($arg: &Tensor,)+ options: $options) -> Result<Tensor> {
            $input.$with($($arg,)+ options)
        }
    )*};
}

with_options! {
    /// The mean of the squared differences, a 0-d tensor (`torch.nn.functional.mse_loss`).
    ///
    /// The shapes broadcast and the dtypes promote. An error where they do not, and for integers.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// assert_eq!(F::mse_loss(&tensor![1.0, 2.0], &tensor![1.0, 5.0])?.item::<f32>()?, 4.5);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    mse_loss
    /// [`mse_loss`] with another `reduction`.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let options = F::LossOptions::new().reduction(F::Reduction::None);
    /// assert_eq!(F::mse_loss_with(&tensor![1.0, 2.0], &tensor![1.0, 5.0], options)?, tensor![0.0, 9.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    mse_loss_with (input, target) LossOptions;
    /// The mean of the absolute differences, a 0-d tensor (`torch.nn.functional.l1_loss`).
    ///
    /// The shapes broadcast and the dtypes promote. An error where they do not, and for integers.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// assert_eq!(F::l1_loss(&tensor![1.0, 2.0], &tensor![1.0, 5.0])?.item::<f32>()?, 1.5);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    l1_loss
    /// [`l1_loss`] with another `reduction`.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let options = F::LossOptions::new().reduction(F::Reduction::Sum);
    /// assert_eq!(F::l1_loss_with(&tensor![1.0, 2.0], &tensor![1.0, 5.0], options)?.item::<f32>()?, 3.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    l1_loss_with (input, target) LossOptions;
    /// The mean of `log(1 + exp(-target * input))` for targets 1 and -1, a 0-d tensor
    /// (`torch.nn.functional.soft_margin_loss`).
    ///
    /// The shapes broadcast; an error where they do not.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let loss = F::soft_margin_loss(&tensor![0.0, 1.0], &tensor![1.0, -1.0])?;
    /// assert!(loss.allclose(&tensor![1.0032044])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    soft_margin_loss
    /// [`soft_margin_loss`] with another `reduction`.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let options = F::LossOptions::new().reduction(F::Reduction::None);
    /// assert!(F::soft_margin_loss_with(&tensor![0.0, 1.0], &tensor![1.0, -1.0], options)?.allclose(&tensor![0.6931472, 1.3132617])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    soft_margin_loss_with (input, target) LossOptions;
    /// The mean over samples and classes of what scores of untrue classes miss of being 1 below
    /// those of true ones; the int64 target lists the true classes up to the first -1
    /// (`torch.nn.functional.multilabel_margin_loss`).
    ///
    /// `[N, C]` or `[C]` both; an error for other shapes, dtypes or classes.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// // Class 1 misses 0.5 of being 1 below class 0, class 2 nothing.
    /// assert!(F::multilabel_margin_loss(&tensor![1.0, 0.5, -1.0], &tensor![0, -1, 0])?.allclose(&tensor![0.1666667])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    multilabel_margin_loss
    /// [`multilabel_margin_loss`] with another `reduction`.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let options = F::LossOptions::new().reduction(F::Reduction::None);
    /// let loss = F::multilabel_margin_loss_with(&tensor![[1.0, 0.5], [3.0, 0.0]], &tensor![[0, -1], [0, -1]], options)?;
    /// assert_eq!(loss, tensor![0.25, 0.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    multilabel_margin_loss_with (input, target) LossOptions;
    /// The mean of half the squared differences, linear from differences of 1 (`delta`) on
    /// (`torch.nn.functional.huber_loss`).
    ///
    /// The shapes broadcast; an error where they do not, and for integers.
    ///
    /// ```
    /// use torsh_functional as F;
    /// use torsh_tensor::tensor;
    /// let loss = F::huber_loss(&tensor![0.0, 0.0], &tensor![1.0, 3.0])?;
    /// assert_eq!(loss.item::<f32>()?, (0.5 + 2.5) / 2.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    huber_loss
    /// [`huber_loss`] with another `delta`, a `weight` for each element, or another `reduction`.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let options = F::HuberLossOptions::new().delta(2.0).reduction(F::Reduction::None);
    /// assert_eq!(F::huber_loss_with(&tensor![0.0, 0.0], &tensor![1.0, 3.0], options)?, tensor![0.5, 4.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    huber_loss_with (input, target) HuberLossOptions;
    /// The mean of half the squared differences, linear from differences of 1 (`beta`) on, with
    /// slope 1 there (`torch.nn.functional.smooth_l1_loss`).
    ///
    /// The shapes broadcast; an error where they do not, and for integers.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// assert_eq!(F::smooth_l1_loss(&tensor![0.0, 0.0], &tensor![1.0, 3.0])?.item::<f32>()?, 1.5);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    smooth_l1_loss
    /// [`smooth_l1_loss`] with another `beta` or `reduction`; an error for a negative `beta`.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let options = F::SmoothL1LossOptions::new().beta(2.0).reduction(F::Reduction::None);
    /// assert_eq!(F::smooth_l1_loss_with(&tensor![0.0, 0.0], &tensor![1.0, 3.0], options)?, tensor![0.25, 2.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    smooth_l1_loss_with (input, target) SmoothL1LossOptions;
    /// The mean cross entropy of probabilities and targets from 0 to 1, a 0-d tensor
    /// (`torch.nn.functional.binary_cross_entropy`).
    ///
    /// Both have one shape and dtype; an error for others, and for probabilities outside [0, 1].
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let loss = F::binary_cross_entropy(&tensor![0.5, 0.5], &tensor![0.0, 1.0])?;
    /// assert!(loss.allclose(&tensor![0.6931472])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    binary_cross_entropy
    /// [`binary_cross_entropy`] with a `weight` that broadcasts, or another `reduction`.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let weight = tensor![1.0, 2.0];
    /// let options = F::BceOptions::new().weight(&weight).reduction(F::Reduction::None);
    /// assert!(F::binary_cross_entropy_with(&tensor![0.5, 0.5], &tensor![0.0, 1.0], options)?.allclose(&tensor![0.6931472, 1.3862944])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    binary_cross_entropy_with (input, target) BceOptions;
    /// The mean cross entropy of the input's sigmoid and targets from 0 to 1, a 0-d tensor
    /// (`torch.nn.functional.binary_cross_entropy_with_logits`). It does not overflow, however
    /// large the logits are.
    ///
    /// Both have one shape; an error for others, and for integers.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let loss = F::binary_cross_entropy_with_logits(&tensor![0.0, 1000.0], &tensor![1.0, 0.0])?;
    /// assert!(loss.allclose(&tensor![500.34657])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    binary_cross_entropy_with_logits
    /// [`binary_cross_entropy_with_logits`] with a `weight`, a `pos_weight` for the true terms, or
    /// another `reduction`.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let three = tensor![3.0];
    /// let options = F::BceWithLogitsOptions::new().pos_weight(&three).reduction(F::Reduction::None);
    /// let loss = F::binary_cross_entropy_with_logits_with(&tensor![0.0, 0.0], &tensor![1.0, 0.0], options)?;
    /// assert!(loss.allclose(&tensor![2.0794415, 0.6931472])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    binary_cross_entropy_with_logits_with (input, target) BceWithLogitsOptions;
    /// The divergence of log-probabilities from probabilities; the mean over all elements, as in
    /// PyTorch (`torch.nn.functional.kl_div`).
    ///
    /// The shapes broadcast; an error where they do not.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let log_probs = tensor![0.5, 0.5].log()?;
    /// let loss = F::kl_div(&log_probs, &tensor![1.0, 0.0])?;
    /// assert!(loss.allclose(&tensor![0.3465736])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    kl_div
    /// [`kl_div`] with another `reduction`, or of log-probabilities as target (`log_target`).
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let log_probs = tensor![[0.5, 0.5]].log()?;
    /// let options = F::KlDivOptions::new().reduction(F::Reduction::BatchMean);
    /// assert!(F::kl_div_with(&log_probs, &tensor![[1.0, 0.0]], options)?.allclose(&tensor![0.6931472])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    kl_div_with (input, target) KlDivOptions;
    /// The mean negative log-likelihood of counts under Poisson distributions with `input` as the
    /// logarithm of the rate (`torch.nn.functional.poisson_nll_loss`): `exp(input) - target *
    /// input`.
    ///
    /// The shapes broadcast; an error where they do not.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// assert!(F::poisson_nll_loss(&tensor![0.0, 1.0], &tensor![5.0, 2.0])?.allclose(&tensor![0.8591409])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    poisson_nll_loss
    /// [`poisson_nll_loss`] with options: the rate itself (`log_input` false), Stirling's term
    /// (`full`), `eps`, or another `reduction`.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let options = F::PoissonNllLossOptions::new().log_input(false).eps(0.0).reduction(F::Reduction::None);
    /// assert!(F::poisson_nll_loss_with(&tensor![1.0, 2.0], &tensor![5.0, 1.0], options)?.allclose(&tensor![1.0, 1.3068528])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    poisson_nll_loss_with (input, target) PoissonNllLossOptions;
    /// The mean of the input where the target is 1, and of what it misses of the margin 1 where the
    /// target is -1 (`torch.nn.functional.hinge_embedding_loss`).
    ///
    /// The shapes broadcast; an error where they do not.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// assert_eq!(F::hinge_embedding_loss(&tensor![0.5, 0.25], &tensor![1.0, -1.0])?.item::<f32>()?, 0.625);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    hinge_embedding_loss
    /// [`hinge_embedding_loss`] with another `margin` or `reduction`.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let options = F::HingeEmbeddingLossOptions::new().margin(2.0).reduction(F::Reduction::None);
    /// assert_eq!(F::hinge_embedding_loss_with(&tensor![0.5, 0.25], &tensor![1.0, -1.0], options)?, tensor![0.5, 1.75]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    hinge_embedding_loss_with (input, target) HingeEmbeddingLossOptions;
    /// The mean of `max(0, -target * (input1 - input2))` for targets 1 and -1
    /// (`torch.nn.functional.margin_ranking_loss`).
    ///
    /// The shapes broadcast; an error where their dimensions differ in number, or they do not.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let loss = F::margin_ranking_loss(&tensor![1.0, 5.0], &tensor![3.0, 2.0], &tensor![1.0, 1.0])?;
    /// assert_eq!(loss.item::<f32>()?, 1.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    margin_ranking_loss
    /// [`margin_ranking_loss`] with a `margin` or another `reduction`.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let options = F::MarginRankingLossOptions::new().margin(0.5).reduction(F::Reduction::None);
    /// let loss = F::margin_ranking_loss_with(&tensor![1.0, 5.0], &tensor![3.0, 2.0], &tensor![1.0, 1.0], options)?;
    /// assert_eq!(loss, tensor![2.5, 0.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    margin_ranking_loss_with (input1, input2, target) MarginRankingLossOptions;
    /// The mean of 1 less the cosine of two vectors where the target is 1, and of a positive cosine
    /// where it is -1 (`torch.nn.functional.cosine_embedding_loss`).
    ///
    /// `[N, D]` and targets `[N]`, or `[D]` and a 0-d target; an error for other shapes.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let (a, b) = (tensor![[3.0, 4.0], [1.0, 0.0]], tensor![[4.0, 3.0], [1.0, 0.0]]);
    /// assert!(F::cosine_embedding_loss(&a, &b, &tensor![1.0, -1.0])?.allclose(&tensor![0.52])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    cosine_embedding_loss
    /// [`cosine_embedding_loss`] with a `margin` for the target -1, or another `reduction`.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let (a, b) = (tensor![[3.0, 4.0], [1.0, 0.0]], tensor![[4.0, 3.0], [1.0, 0.0]]);
    /// let options = F::CosineEmbeddingLossOptions::new().margin(0.5).reduction(F::Reduction::None);
    /// let loss = F::cosine_embedding_loss_with(&a, &b, &tensor![-1.0, -1.0], options)?;
    /// assert!(loss.allclose(&tensor![0.46, 0.5])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    cosine_embedding_loss_with (input1, input2, target) CosineEmbeddingLossOptions;
    /// The mean of what the distance to `negative` misses of exceeding that to `positive` by 1
    /// (`torch.nn.functional.triplet_margin_loss`).
    ///
    /// `[.., D]` all three, with shapes that broadcast; an error where they do not.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let (a, p, n) = (tensor![[0.0, 0.0]], tensor![[3.0, 4.0]], tensor![[0.0, 5.5]]);
    /// let loss = F::triplet_margin_loss(&a, &p, &n)?;
    /// assert!((loss.item::<f32>()? - 0.5).abs() < 1e-5);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    triplet_margin_loss
    /// [`triplet_margin_loss`] with options: `margin`, the norm `p`, `eps`, `swap` and another
    /// `reduction`.
    ///
    /// An error for a margin that is not above 0.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let (a, p, n) = (tensor![[0.0, 0.0]], tensor![[3.0, 4.0]], tensor![[0.0, 5.5]]);
    /// let options = F::TripletMarginLossOptions::new().p(1.0).eps(0.0);
    /// assert_eq!(F::triplet_margin_loss_with(&a, &p, &n, options)?.item::<f32>()?, 2.5);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    triplet_margin_loss_with (anchor, positive, negative) TripletMarginLossOptions;
    /// The mean over samples and classes of what scores of other classes miss of being 1 below the
    /// true class's (`torch.nn.functional.multi_margin_loss`).
    ///
    /// Scores `[N, C]` and int64 classes `[N]`, or `[C]` and one class; an error for other shapes,
    /// dtypes or classes.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let loss = F::multi_margin_loss(&tensor![[2.0, 1.5], [0.0, 3.0]], &tensor![0, 1])?;
    /// assert_eq!(loss.item::<f32>()?, 0.125);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    multi_margin_loss
    /// [`multi_margin_loss`] with options: `p` (1 or 2), `margin`, a `weight` for each class and
    /// another `reduction`.
    ///
    /// An error for another `p`.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let options = F::MultiMarginLossOptions::new().p(2).reduction(F::Reduction::None);
    /// assert_eq!(F::multi_margin_loss_with(&tensor![[2.0, 1.5], [0.0, 3.0]], &tensor![0, 1], options)?, tensor![0.125, 0.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    multi_margin_loss_with (input, target) MultiMarginLossOptions;
    /// The mean cross entropy of the scores' sigmoid and targets from 0 to 1, averaged over classes
    /// (`torch.nn.functional.multilabel_soft_margin_loss`).
    ///
    /// `[.., C]` both; an error for shapes that do not broadcast.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let loss = F::multilabel_soft_margin_loss(&tensor![[0.0, 0.0]], &tensor![[1.0, 0.0]])?;
    /// assert!(loss.allclose(&tensor![0.6931472])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    multilabel_soft_margin_loss
    /// [`multilabel_soft_margin_loss`] with a `weight` for each class, or another `reduction`.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let options = F::MultiLabelSoftMarginLossOptions::new().reduction(F::Reduction::None);
    /// let loss = F::multilabel_soft_margin_loss_with(&tensor![[0.0, 100.0]], &tensor![[1.0, 0.0]], options)?;
    /// assert!(loss.allclose(&tensor![50.34657])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    multilabel_soft_margin_loss_with (input, target) MultiLabelSoftMarginLossOptions;
}

/// The mean negative log-likelihood of targets under normal distributions with `input` as mean and
/// `var` (a number or a tensor) as variance (`torch.nn.functional.gaussian_nll_loss`): `(log(var) +
/// (input - target)^2 / var) / 2`.
///
/// `var` has the shape of `input`, or lacks the last dimension or has it as size 1. An error for
/// other shapes, and for negative variances.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::gaussian_nll_loss(&tensor![1.0, 2.0], &tensor![1.0, 4.0], 1.0)?.item::<f32>()?, 1.0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn gaussian_nll_loss<'a>(
    input: &Tensor,
    target: &Tensor,
    var: impl Into<Operand<'a>>,
) -> Result<Tensor> {
    input.gaussian_nll_loss(target, var)
}

/// [`gaussian_nll_loss`] with the constant term (`full`), another least variance `eps`, or another
/// `reduction`.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let options = F::GaussianNllLossOptions::new().reduction(F::Reduction::None);
/// assert_eq!(F::gaussian_nll_loss_with(&tensor![1.0, 2.0], &tensor![1.0, 4.0], 1.0, options)?, tensor![0.0, 2.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn gaussian_nll_loss_with<'a>(
    input: &Tensor,
    target: &Tensor,
    var: impl Into<Operand<'a>>,
    options: GaussianNllLossOptions,
) -> Result<Tensor> {
    input.gaussian_nll_loss_with(target, var, options)
}

/// The mean connectionist temporal classification loss of log-probabilities `[t, n, c]` or `[t, c]`
/// and labels `[n, s]` (or all of them in one dimension), each divided by its target's length
/// (`torch.nn.functional.ctc_loss`).
///
/// Labels are integers other than `blank` (0). An error for lengths that do not fit, and for labels
/// out of range.
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

/// [`ctc_loss`] with another `blank` or `reduction`, or with infinite losses as 0
/// (`zero_infinity`).
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::{tensor, zeros};
/// // One step cannot show two labels.
/// let log_probs = F::log_softmax(&zeros([1, 3]), -1)?;
/// let options = F::CtcLossOptions::new().zero_infinity(true);
/// assert_eq!(F::ctc_loss_with(&log_probs, &tensor![1, 2], [1], [2], options)?.item::<f32>()?, 0.0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
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
