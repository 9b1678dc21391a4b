//! Losses.

mod adaptive;
mod linear;
mod sequence;

pub use adaptive::{
    AdaptiveLogSoftmaxOutput, AdaptiveLogSoftmaxWithLoss, AdaptiveLogSoftmaxWithLossBuilder,
};
pub use linear::{LinearCrossEntropyLoss, LinearCrossEntropyLossBuilder};
pub use sequence::{CTCLoss, GaussianNLLLoss, TripletMarginWithDistanceLoss};

use torsh_functional::{
    self as F, BceOptions, BceWithLogitsOptions, CosineEmbeddingLossOptions, CrossEntropyOptions,
    HingeEmbeddingLossOptions, HuberLossOptions, KlDivOptions, LossOptions,
    MarginRankingLossOptions, MultiLabelSoftMarginLossOptions, MultiMarginLossOptions,
    NllLossOptions, PoissonNllLossOptions, SmoothL1LossOptions, TripletMarginLossOptions,
};
use torsh_tensor::{Result, Tensor};

use crate::Module;
use crate::layers::examples::tests;
use crate::layers::needs_more;
use crate::module::{Buffer, Hooks, Training};

/// `forward` of a loss.
macro_rules! forward_is_an_error {
    ($name:ident, $call:literal) => {
        impl Module for $name {
            /// An error: a loss compares tensors.
            #[torsh_tensor::names_caller]
            fn forward(&self, _x: &Tensor) -> Result<Tensor> {
                Err(needs_more(stringify!($name), $call))
            }
        }
    };
}
use forward_is_an_error;

/// A doc test of the loss of one sample, of which sum and mean are one.
macro_rules! loss_test {
    ($name:ident $call:expr, $of:literal $is:literal) => {
        loss_test!($name $call, "forward_with" $of $is)
    };
    ($name:ident $call:expr, $method:literal $of:literal $is:literal) => {
        tests!(
            "let loss = ",
            stringify!($name),
            $call,
            ".",
            $method,
            "(",
            $of,
            ")?;\n",
            "assert!((loss.item::<f32>()? - ",
            $is,
            ").abs() < 1e-5);"
        )
    };
}

/// Losses that are a function with options; tensors among these, in braces, are buffers, so that
/// they move with the module.
macro_rules! losses {
    ($($(#[$doc:meta])* $name:ident $function:ident $call:literal [$of:literal $is:literal] ($input:ident, $($arg:ident),+) $options:ident {$($weight:ident)*})*) => {$(
        $(#[$doc])*
        #[derive(Module)]
        pub struct $name {
            $($weight: Option<Buffer>,)*
            #[module(skip)]
            options: $options,
            training: Training,
            hooks: Hooks,
        }

        impl $name {
            /// The loss with PyTorch's defaults: the mean.
            #[doc = loss_test!($name "::new()", $of $is)]
            pub fn new() -> $name {
                $name::with($options::default())
            }

            /// The loss with PyTorch's other arguments.
            #[doc = loss_test!($name concat!("::with(functional::", stringify!($options), "::new().reduction(Reduction::Sum))"), $of $is)]
            pub fn with(#[allow(unused_mut)] mut options: $options) -> $name {
                $(let $weight = options.$weight.take().map(Buffer::new);)*
                $name {
                    $($weight,)*
                    options,
                    training: Training::default(),
                    hooks: Hooks::new(),
                }
            }

            #[doc = concat!("The loss: [`F::", stringify!($function), "`](torsh_functional::", stringify!($function), "), with its shapes, dtypes and errors.")]
            #[doc = loss_test!($name "::new()", $of $is)]
            #[torsh_tensor::names_caller]
            pub fn forward_with(&self, $input: &Tensor, $($arg: &Tensor),+) -> Result<Tensor> {
                #[allow(unused_mut, clippy::clone_on_copy)]
                let mut options = self.options.clone();
                $(options.$weight = self.$weight.as_ref().map(Tensor::from);)*
                self.hooks.run_many(self, [$input, $($arg),+], |[$input, $($arg),+]| {
                    F::$function($input, $($arg,)+ options)
                })
            }

            #[doc = concat!("As [`forward_with`](", stringify!($name), "::forward_with).")]
            #[doc = loss_test!($name "::new()", "forward" $of $is)]
            #[torsh_tensor::names_caller]
            pub fn forward(&self, $input: &Tensor, $($arg: &Tensor),+) -> Result<Tensor> {
                self.forward_with($input, $($arg),+)
            }
        }

        impl Default for $name {
            fn default() -> Self {
                $name::new()
            }
        }

        forward_is_an_error!($name, $call);
    )*};
}

losses! {
    /// Absolute differences (`torch.nn.L1Loss`); [`with`](L1Loss::with) takes a reduction.
    ///
    /// ```
    /// use torsh_nn::L1Loss;
    /// use torsh_tensor::tensor;
    /// let loss = L1Loss::new().forward_with(&tensor![1.0, 2.0], &tensor![0.0, 4.0])?;
    /// assert_eq!(loss.item::<f32>()?, 1.5);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    L1Loss l1_loss_with "forward_with(&input, &target)" ["&tensor![1.0], &tensor![3.0]" "2.0"]
        (input, target) LossOptions {}

    /// Squared differences (`torch.nn.MSELoss`); [`with`](MSELoss::with) takes a reduction.
    ///
    /// ```
    /// use torsh_nn::{MSELoss, Reduction, functional::LossOptions};
    /// use torsh_tensor::tensor;
    /// let sum = MSELoss::with(LossOptions::new().reduction(Reduction::Sum));
    /// let loss = sum.forward_with(&tensor![1.0, 2.0], &tensor![0.0, 4.0])?;
    /// assert_eq!(loss.item::<f32>()?, 5.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    MSELoss mse_loss_with "forward_with(&input, &target)" ["&tensor![1.0], &tensor![3.0]" "4.0"]
        (input, target) LossOptions {}

    /// Cross entropy of scores and classes (`torch.nn.CrossEntropyLoss`).
    ///
    /// [`forward_with`](CrossEntropyLoss::forward_with) takes scores `[N, C]` (or `[C]`,
    /// `[N, C, d1, ..]`) and either int64 classes of that shape without `C`, or probabilities of
    /// that shape.
    ///
    /// ```
    /// use torsh_functional::CrossEntropyOptions;
    /// use torsh_nn::CrossEntropyLoss;
    /// use torsh_tensor::{tensor, zeros};
    /// let loss = CrossEntropyLoss::with(CrossEntropyOptions::default().label_smoothing(0.1));
    /// let loss = loss.forward_with(&zeros(&[3, 4]), &tensor![0, 3, 1])?;
    /// assert!((loss.item::<f64>()? - 4f64.ln()).abs() < 1e-6);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    CrossEntropyLoss cross_entropy_with "forward_with(&input, &target)" ["&tensor![[0.0, 0.0]], &tensor![1]" "2f32.ln()"]
        (input, target) CrossEntropyOptions {weight}

    /// The negative of the log-probability of each class (`torch.nn.NLLLoss`).
    ///
    /// [`forward_with`](NLLLoss::forward_with) takes log-probabilities `[N, C]` (or `[C]`,
    /// `[N, C, d1, ..]`) and int64 classes of that shape without `C`.
    ///
    /// ```
    /// use torsh_nn::NLLLoss;
    /// use torsh_tensor::tensor;
    /// let loss = NLLLoss::new().forward_with(&tensor![[-1.0, -3.0], [-2.0, -4.0]], &tensor![0, 1])?;
    /// assert_eq!(loss.item::<f32>()?, 2.5);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    NLLLoss nll_loss_with "forward_with(&input, &target)" ["&tensor![[-1.0, -3.0]], &tensor![1]" "3.0"]
        (input, target) NllLossOptions {weight}

    /// Negative log-likelihood of counts under Poisson distributions (`torch.nn.PoissonNLLLoss`).
    ///
    /// ```
    /// use torsh_nn::PoissonNLLLoss;
    /// use torsh_tensor::tensor;
    /// let loss = PoissonNLLLoss::new().forward_with(&tensor![0.0], &tensor![3.0])?;
    /// assert_eq!(loss.item::<f32>()?, 1.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    PoissonNLLLoss poisson_nll_loss_with "forward_with(&input, &target)" ["&tensor![1.0], &tensor![2.0]" "(1f32.exp() - 2.0)"]
        (input, target) PoissonNllLossOptions {}

    /// Divergence of log-probabilities from probabilities (`torch.nn.KLDivLoss`); with
    /// `Reduction::BatchMean` the mathematical one.
    ///
    /// ```
    /// use torsh_functional::KlDivOptions;
    /// use torsh_nn::{KLDivLoss, Reduction};
    /// use torsh_tensor::tensor;
    /// let loss = KLDivLoss::with(KlDivOptions::default().reduction(Reduction::BatchMean));
    /// let loss = loss.forward_with(&tensor![[0.5, 0.5]].log()?, &tensor![[1.0, 0.0]])?;
    /// assert!((loss.item::<f64>()? - 2f64.ln()).abs() < 1e-6);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    KLDivLoss kl_div_with "forward_with(&input, &target)" ["&tensor![0.5].log()?, &tensor![1.0]" "2f32.ln()"]
        (input, target) KlDivOptions {}

    /// Cross entropy of probabilities and targets from 0 to 1 (`torch.nn.BCELoss`).
    ///
    /// ```
    /// use torsh_nn::BCELoss;
    /// use torsh_tensor::tensor;
    /// let loss = BCELoss::new().forward_with(&tensor![0.5, 0.5], &tensor![0.0, 1.0])?;
    /// assert!((loss.item::<f64>()? - 2f64.ln()).abs() < 1e-6);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    BCELoss binary_cross_entropy_with "forward_with(&input, &target)" ["&tensor![0.25], &tensor![1.0]" "4f32.ln()"]
        (input, target) BceOptions {weight}

    /// Cross entropy of sigmoids and targets from 0 to 1 (`torch.nn.BCEWithLogitsLoss`).
    ///
    /// ```
    /// use torsh_nn::BCEWithLogitsLoss;
    /// use torsh_tensor::tensor;
    /// let loss = BCEWithLogitsLoss::new().forward_with(&tensor![0.0], &tensor![1.0])?;
    /// assert!((loss.item::<f64>()? - 2f64.ln()).abs() < 1e-6);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    BCEWithLogitsLoss binary_cross_entropy_with_logits_with "forward_with(&input, &target)" ["&tensor![0.0], &tensor![1.0]" "2f32.ln()"]
        (input, target) BceWithLogitsOptions {weight pos_weight}

    /// Half the squared differences, linear from `delta` on (`torch.nn.HuberLoss`).
    ///
    /// ```
    /// use torsh_nn::HuberLoss;
    /// use torsh_tensor::tensor;
    /// let loss = HuberLoss::new().forward_with(&tensor![0.0, 0.0], &tensor![1.0, 3.0])?;
    /// assert_eq!(loss.item::<f32>()?, 1.5);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    HuberLoss huber_loss_with "forward_with(&input, &target)" ["&tensor![0.0], &tensor![3.0]" "2.5"]
        (input, target) HuberLossOptions {weight}

    /// Half the squared differences over `beta`, linear with slope 1 from `beta` on
    /// (`torch.nn.SmoothL1Loss`).
    ///
    /// ```
    /// use torsh_functional::SmoothL1LossOptions;
    /// use torsh_nn::SmoothL1Loss;
    /// use torsh_tensor::tensor;
    /// let loss = SmoothL1Loss::with(SmoothL1LossOptions::default().beta(2.0));
    /// assert_eq!(loss.forward_with(&tensor![0.0, 0.0], &tensor![1.0, 3.0])?.item::<f32>()?, 1.125);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    SmoothL1Loss smooth_l1_loss_with "forward_with(&input, &target)" ["&tensor![0.0], &tensor![3.0]" "2.5"]
        (input, target) SmoothL1LossOptions {}

    /// `log(1 + exp(-target * input))` for targets 1 and -1 (`torch.nn.SoftMarginLoss`);
    /// [`with`](SoftMarginLoss::with) takes a reduction.
    ///
    /// ```
    /// use torsh_nn::SoftMarginLoss;
    /// use torsh_tensor::tensor;
    /// let loss = SoftMarginLoss::new().forward_with(&tensor![0.0], &tensor![-1.0])?;
    /// assert!((loss.item::<f64>()? - 2f64.ln()).abs() < 1e-6);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    SoftMarginLoss soft_margin_loss_with "forward_with(&input, &target)" ["&tensor![0.0], &tensor![-1.0]" "2f32.ln()"]
        (input, target) LossOptions {}

    /// The input where the target is 1, and what it misses of the margin where it is -1
    /// (`torch.nn.HingeEmbeddingLoss`).
    ///
    /// ```
    /// use torsh_nn::HingeEmbeddingLoss;
    /// use torsh_tensor::tensor;
    /// let loss = HingeEmbeddingLoss::new().forward_with(&tensor![2.0, 0.5], &tensor![1, -1])?;
    /// assert_eq!(loss.item::<f32>()?, 1.25);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    HingeEmbeddingLoss hinge_embedding_loss_with "forward_with(&input, &target)" ["&tensor![0.25], &tensor![-1]" "0.75"]
        (input, target) HingeEmbeddingLossOptions {}

    /// What scores of untrue classes miss of being 1 below those of true ones
    /// (`torch.nn.MultiLabelMarginLoss`); the int64 target lists the true classes up to the first
    /// -1. [`with`](MultiLabelMarginLoss::with) takes a reduction.
    ///
    /// ```
    /// use torsh_nn::MultiLabelMarginLoss;
    /// use torsh_tensor::tensor;
    /// let (x, y) = (tensor![[0.1, 0.2, 0.4, 0.8]], tensor![[3, 0, -1, 1]]);
    /// let loss = MultiLabelMarginLoss::new().forward_with(&x, &y)?;
    /// assert!((loss.item::<f32>()? - 0.85).abs() < 1e-6);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    MultiLabelMarginLoss multilabel_margin_loss_with "forward_with(&input, &target)" ["&tensor![[1.0, 0.5]], &tensor![[0, -1]]" "0.25"]
        (input, target) LossOptions {}

    /// Cross entropy of sigmoids and targets from 0 to 1, averaged over classes
    /// (`torch.nn.MultiLabelSoftMarginLoss`).
    ///
    /// ```
    /// use torsh_nn::MultiLabelSoftMarginLoss;
    /// use torsh_tensor::tensor;
    /// let loss = MultiLabelSoftMarginLoss::new().forward_with(&tensor![[0.0, 0.0]], &tensor![[1, 0]])?;
    /// assert!((loss.item::<f64>()? - 2f64.ln()).abs() < 1e-6);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    MultiLabelSoftMarginLoss multilabel_soft_margin_loss_with "forward_with(&input, &target)" ["&tensor![[0.0, 0.0]], &tensor![[1, 0]]" "2f32.ln()"]
        (input, target) MultiLabelSoftMarginLossOptions {weight}

    /// What scores of other classes miss of being the margin below the true class's
    /// (`torch.nn.MultiMarginLoss`).
    ///
    /// ```
    /// use torsh_nn::MultiMarginLoss;
    /// use torsh_tensor::tensor;
    /// let (x, y) = (tensor![[0.1, 0.2, 0.4, 0.8]], tensor![3]);
    /// let loss = MultiMarginLoss::new().forward_with(&x, &y)?;
    /// assert!((loss.item::<f32>()? - 0.325).abs() < 1e-6);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    MultiMarginLoss multi_margin_loss_with "forward_with(&input, &target)" ["&tensor![[1.0, 0.5]], &tensor![0]" "0.25"]
        (input, target) MultiMarginLossOptions {weight}

    /// `max(0, -target * (input1 - input2) + margin)` for targets 1 and -1
    /// (`torch.nn.MarginRankingLoss`).
    ///
    /// ```
    /// use torsh_nn::MarginRankingLoss;
    /// use torsh_tensor::tensor;
    /// let loss = MarginRankingLoss::new();
    /// let loss = loss.forward_with(&tensor![1.0, 5.0], &tensor![2.0, 3.0], &tensor![1, 1])?;
    /// assert_eq!(loss.item::<f32>()?, 0.5);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    MarginRankingLoss margin_ranking_loss_with "forward_with(&input1, &input2, &target)" ["&tensor![1.0], &tensor![3.0], &tensor![1]" "2.0"]
        (input1, input2, target) MarginRankingLossOptions {}

    /// 1 less the cosine of two vectors where the target is 1, and the cosine's excess over the
    /// margin where it is -1 (`torch.nn.CosineEmbeddingLoss`).
    ///
    /// ```
    /// use torsh_nn::CosineEmbeddingLoss;
    /// use torsh_tensor::tensor;
    /// let (a, b) = (tensor![[1.0, 0.0], [1.0, 0.0]], tensor![[0.0, 1.0], [2.0, 0.0]]);
    /// let loss = CosineEmbeddingLoss::new().forward_with(&a, &b, &tensor![1, -1])?;
    /// assert!((loss.item::<f32>()? - 1.0).abs() < 1e-6);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    CosineEmbeddingLoss cosine_embedding_loss_with "forward_with(&input1, &input2, &target)" ["&tensor![[3.0, 4.0]], &tensor![[4.0, 3.0]], &tensor![-1]" "0.96"]
        (input1, input2, target) CosineEmbeddingLossOptions {}

    /// What the distance to `negative` misses of exceeding that to `positive` by the margin
    /// (`torch.nn.TripletMarginLoss`).
    ///
    /// ```
    /// use torsh_nn::TripletMarginLoss;
    /// use torsh_tensor::tensor;
    /// let loss = TripletMarginLoss::new();
    /// let loss = loss.forward_with(&tensor![[0.0]], &tensor![[3.0]], &tensor![[2.0]])?;
    /// assert!((loss.item::<f32>()? - 2.0).abs() < 1e-5);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    TripletMarginLoss triplet_margin_loss_with "forward_with(&anchor, &positive, &negative)" ["&tensor![[0.0]], &tensor![[3.0]], &tensor![[2.0]]" "2.0"]
        (anchor, positive, negative) TripletMarginLossOptions {}
}
