//! Losses with arguments that are not tensors.

use std::sync::Arc;

use torsh_functional::{
    self as F, CtcLossOptions, GaussianNllLossOptions, IntoLengths,
    TripletMarginWithDistanceLossOptions,
};
use torsh_tensor::{Operand, Result, Tensor};

use super::forward_is_an_error;
use crate::Module;
use crate::layers::needs_more;
use crate::module::{Hooks, Training};

/// Connectionist temporal classification (`torch.nn.CTCLoss`; Graves et al., 2006).
///
/// ```
/// use torsh_functional as F;
/// use torsh_nn::CTCLoss;
/// use torsh_tensor::{tensor, zeros};
/// let log_probs = F::log_softmax(&zeros(&[2, 1, 2]), -1)?;
/// let loss = CTCLoss::new().forward_with(&log_probs, &tensor![[1]], [2], [1])?;
/// assert!((loss.item::<f64>()? - (4.0f64 / 3.0).ln()).abs() < 1e-6);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module, Default)]
pub struct CTCLoss {
    #[module(skip)]
    options: CtcLossOptions,
    training: Training,
    hooks: Hooks,
}

impl CTCLoss {
    /// The loss with PyTorch's defaults: blank label 0, the mean.
    ///
    /// ```
    /// # use torsh_nn::CTCLoss;
    /// # use torsh_tensor::{tensor, zeros};
    /// let loss = CTCLoss::new().forward_with(&zeros([1, 1, 2]), &tensor![[1]], [1], [1])?;
    /// assert_eq!(loss.item::<f32>()?, 0.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn new() -> CTCLoss {
        CTCLoss::default()
    }

    /// The loss with PyTorch's other arguments.
    ///
    /// ```
    /// # use torsh_nn::CTCLoss;
    /// # use torsh_tensor::{tensor, zeros};
    /// // One step cannot show two labels.
    /// let loss = CTCLoss::with(torsh_functional::CtcLossOptions::new().zero_infinity(true));
    /// assert_eq!(loss.forward_with(&zeros([1, 1, 3]), &tensor![[1, 2]], [1], [2])?.item::<f32>()?, 0.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn with(options: CtcLossOptions) -> CTCLoss {
        CTCLoss {
            options,
            ..CTCLoss::default()
        }
    }

    /// The loss of log-probabilities `[t, n, c]` or `[t, c]`, labels `[n, s]` or all of them in one
    /// dimension, and the lengths of both, as integers or a tensor.
    #[torsh_tensor::names_caller]
    pub fn forward_with(
        &self,
        log_probs: &Tensor,
        targets: &Tensor,
        input_lengths: impl IntoLengths,
        target_lengths: impl IntoLengths,
    ) -> Result<Tensor> {
        let options = self.options.clone();
        self.hooks
            .run_many(self, [log_probs, targets], |[log_probs, targets]| {
                F::ctc_loss_with(log_probs, targets, input_lengths, target_lengths, options)
            })
    }

    /// As [`forward_with`](CTCLoss::forward_with).
    ///
    /// ```
    /// # use torsh_nn::CTCLoss;
    /// # use torsh_tensor::{tensor, zeros};
    /// let loss = CTCLoss::new().forward(&zeros([1, 1, 3]), &tensor![[1]], [1], [1])?;
    /// assert_eq!(loss.item::<f32>()?, 0.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn forward(
        &self,
        log_probs: &Tensor,
        targets: &Tensor,
        input_lengths: impl IntoLengths,
        target_lengths: impl IntoLengths,
    ) -> Result<Tensor> {
        self.forward_with(log_probs, targets, input_lengths, target_lengths)
    }
}

forward_is_an_error!(
    CTCLoss,
    "forward_with(&log_probs, &targets, input_lengths, target_lengths)"
);

/// Negative log-likelihood under normal distributions (`torch.nn.GaussianNLLLoss`).
///
/// ```
/// use torsh_nn::GaussianNLLLoss;
/// use torsh_tensor::tensor;
/// let loss = GaussianNLLLoss::new().forward_with(&tensor![0.0], &tensor![2.0], 1.0)?;
/// assert_eq!(loss.item::<f32>()?, 2.0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module, Default)]
pub struct GaussianNLLLoss {
    #[module(skip)]
    options: GaussianNllLossOptions,
    training: Training,
    hooks: Hooks,
}

impl GaussianNLLLoss {
    /// The loss with PyTorch's defaults: without the constant, the mean.
    ///
    /// ```
    /// # use torsh_nn::GaussianNLLLoss;
    /// # use torsh_tensor::tensor;
    /// let loss = GaussianNLLLoss::new().forward_with(&tensor![1.0], &tensor![3.0], 1.0)?;
    /// assert_eq!(loss.item::<f32>()?, 2.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn new() -> GaussianNLLLoss {
        GaussianNLLLoss::default()
    }

    /// The loss with PyTorch's other arguments.
    ///
    /// ```
    /// # use torsh_nn::{GaussianNLLLoss, Reduction};
    /// # use torsh_tensor::tensor;
    /// let sum = GaussianNLLLoss::with(torsh_functional::GaussianNllLossOptions::new().reduction(Reduction::Sum));
    /// assert_eq!(sum.forward_with(&tensor![1.0, 1.0], &tensor![3.0, 1.0], 1.0)?.item::<f32>()?, 2.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn with(options: GaussianNllLossOptions) -> GaussianNLLLoss {
        GaussianNLLLoss {
            options,
            ..GaussianNLLLoss::default()
        }
    }

    /// The loss of targets under means `input` and variances `var`, a number or a tensor.
    #[torsh_tensor::names_caller]
    pub fn forward_with<'v>(
        &self,
        input: &Tensor,
        target: &Tensor,
        var: impl Into<Operand<'v>>,
    ) -> Result<Tensor> {
        let options = self.options.clone();
        self.hooks
            .run_many(self, [input, target], |[input, target]| {
                F::gaussian_nll_loss_with(input, target, var, options)
            })
    }

    /// As [`forward_with`](GaussianNLLLoss::forward_with).
    ///
    /// ```
    /// # use torsh_nn::GaussianNLLLoss;
    /// # use torsh_tensor::tensor;
    /// let loss = GaussianNLLLoss::new().forward(&tensor![0.0], &tensor![2.0], 1.0)?;
    /// assert_eq!(loss.item::<f32>()?, 2.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn forward<'v>(
        &self,
        input: &Tensor,
        target: &Tensor,
        var: impl Into<Operand<'v>>,
    ) -> Result<Tensor> {
        self.forward_with(input, target, var)
    }
}

forward_is_an_error!(GaussianNLLLoss, "forward_with(&input, &target, var)");

type Distance = dyn Fn(&Tensor, &Tensor) -> Result<Tensor> + Send + Sync;

/// [`TripletMarginLoss`](crate::TripletMarginLoss) by any distance
/// (`torch.nn.TripletMarginWithDistanceLoss`).
///
/// ```
/// use torsh_functional::{self as F, TripletMarginWithDistanceLossOptions};
/// use torsh_nn::TripletMarginWithDistanceLoss;
/// use torsh_tensor::tensor;
/// let options = TripletMarginWithDistanceLossOptions::default().margin(0.5);
/// let loss = TripletMarginWithDistanceLoss::with(
///     |a, b| F::cosine_similarity(a, b)?.neg()?.add(1.0),
///     options,
/// );
/// let (a, n) = (tensor![[1.0, 0.0]], tensor![[0.0, 1.0]]);
/// assert_eq!(loss.forward_with(&a, &a, &n)?.item::<f32>()?, 0.0);
/// assert_eq!(loss.forward_with(&a, &n, &a)?.item::<f32>()?, 1.5);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct TripletMarginWithDistanceLoss {
    #[module(skip)]
    distance: Arc<Distance>,
    #[module(skip)]
    options: TripletMarginWithDistanceLossOptions,
    training: Training,
    hooks: Hooks,
}

impl TripletMarginWithDistanceLoss {
    /// The loss by Euclidean distances, with PyTorch's defaults: margin 1, the mean.
    pub fn new() -> TripletMarginWithDistanceLoss {
        let options = TripletMarginWithDistanceLossOptions::default();
        TripletMarginWithDistanceLoss::with(F::pairwise_distance, options)
    }

    /// The loss by a distance, with PyTorch's other arguments.
    pub fn with(
        distance: impl Fn(&Tensor, &Tensor) -> Result<Tensor> + Send + Sync + 'static,
        options: TripletMarginWithDistanceLossOptions,
    ) -> TripletMarginWithDistanceLoss {
        TripletMarginWithDistanceLoss {
            distance: Arc::new(distance),
            options,
            training: Training::default(),
            hooks: Hooks::new(),
        }
    }

    /// The loss of an anchor against what is to be near and what is to be far.
    #[torsh_tensor::names_caller]
    pub fn forward_with(
        &self,
        anchor: &Tensor,
        positive: &Tensor,
        negative: &Tensor,
    ) -> Result<Tensor> {
        let (distance, options) = (&*self.distance, self.options.clone());
        let triple = [anchor, positive, negative];
        self.hooks
            .run_many(self, triple, |[anchor, positive, negative]| {
                F::triplet_margin_with_distance_loss_with(
                    anchor, positive, negative, distance, options,
                )
            })
    }

    /// As [`forward_with`](TripletMarginWithDistanceLoss::forward_with).
    ///
    /// ```
    /// # use torsh_nn::TripletMarginWithDistanceLoss;
    /// # use torsh_tensor::tensor;
    /// let (a, n) = (tensor![[0.0, 0.0]], tensor![[3.0, 4.0]]);
    /// let loss = TripletMarginWithDistanceLoss::new().forward(&a, &n, &n)?;
    /// assert_eq!(loss.item::<f32>()?, 1.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn forward(&self, anchor: &Tensor, positive: &Tensor, negative: &Tensor) -> Result<Tensor> {
        self.forward_with(anchor, positive, negative)
    }
}

impl Default for TripletMarginWithDistanceLoss {
    fn default() -> Self {
        TripletMarginWithDistanceLoss::new()
    }
}

forward_is_an_error!(
    TripletMarginWithDistanceLoss,
    "forward_with(&anchor, &positive, &negative)"
);
