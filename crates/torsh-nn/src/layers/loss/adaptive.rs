//! The adaptive softmax, for many classes of which most are rare.

use torsh_core::cmath;
use torsh_functional as F;
use torsh_tensor::devices::{Assert, CallSite, check};
use torsh_tensor::{Result, Tensor, TorshError};

use crate::layers::{Factory, factory_setters, needs_more};
use crate::module::{Hooks, Training};
use crate::{Linear, Module, ModuleList, Sequential};

const NAME: &str = "AdaptiveLogSoftmaxWithLoss";

/// What [`AdaptiveLogSoftmaxWithLoss`] computes.
#[derive(Clone, Debug)]
pub struct AdaptiveLogSoftmaxOutput {
    /// The log-probability of each target: `[N]`, or 0-d of a single sample.
    pub output: Tensor,
    /// The mean of their negatives.
    pub loss: Tensor,
}

/// A linear layer and log-softmax over many classes, ordered from frequent to rare
/// (`torch.nn.AdaptiveLogSoftmaxWithLoss`; Grave et al., 2016).
///
/// The `head` scores the classes below the first cutoff and one cluster for the classes between
/// each two cutoffs; the `tail` of a cluster scores its classes through a narrower layer.
///
/// ```
/// use torsh_nn::{AdaptiveLogSoftmaxWithLoss, init, ModuleExt};
/// use torsh_tensor::{ones, tensor};
/// let layer = AdaptiveLogSoftmaxWithLoss::new(4, 6, &[2, 4])?;
/// for p in layer.parameters() {
///     init::zeros_(&p)?;
/// }
/// // The head has four equal scores, and each cluster two equal classes.
/// let y = layer.forward_with(&ones(&[2, 4]), &tensor![1, 5])?;
/// let expected = tensor![0.25, 0.125].log()?;
/// assert!(y.output.allclose(&expected)?);
/// assert!(layer.log_prob(&ones(&[2, 4]))?.exp()?.sum_dim(1, false)?.allclose(&ones(&[2]))?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct AdaptiveLogSoftmaxWithLoss {
    /// Scores of the frequent classes and of the clusters.
    pub head: Linear,
    /// Two layers for each cluster.
    pub tail: ModuleList,
    #[module(skip)]
    cutoffs: Vec<usize>,
    training: Training,
    hooks: Hooks,
}

impl AdaptiveLogSoftmaxWithLoss {
    /// The layer with PyTorch's defaults: a `div_value` of 4, no bias. An error unless the
    /// cutoffs increase from above 0 to below `n_classes`.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(in_features: usize, n_classes: usize, cutoffs: &[usize]) -> Result<Self> {
        Self::builder(in_features, n_classes, cutoffs).build()
    }

    /// The layer with PyTorch's other arguments.
    pub fn builder(
        in_features: usize,
        n_classes: usize,
        cutoffs: &[usize],
    ) -> AdaptiveLogSoftmaxWithLossBuilder {
        AdaptiveLogSoftmaxWithLossBuilder {
            in_features,
            n_classes,
            cutoffs: cutoffs.to_vec(),
            div_value: 4.0,
            head_bias: false,
            factory: Factory::default(),
        }
    }

    fn shortlist(&self) -> usize {
        self.cutoffs[0]
    }

    fn n_classes(&self) -> usize {
        self.cutoffs[self.cutoffs.len() - 1]
    }

    /// The scores of the classes of cluster `i`.
    fn cluster(&self, i: usize, x: &Tensor) -> Result<Tensor> {
        self.tail[i].forward(x)
    }

    /// As [`forward_with`](AdaptiveLogSoftmaxWithLoss::forward_with).
    #[torsh_tensor::names_caller]
    pub fn forward(&self, input: &Tensor, target: &Tensor) -> Result<AdaptiveLogSoftmaxOutput> {
        self.forward_with(input, target)
    }

    /// The log-probabilities of int64 targets `[N]` for inputs `[N, in_features]`, or of a 0-d
    /// target for `[in_features]`, and the loss. An error for a target that is no class.
    #[torsh_tensor::names_caller]
    pub fn forward_with(
        &self,
        input: &Tensor,
        target: &Tensor,
    ) -> Result<AdaptiveLogSoftmaxOutput> {
        let refuse = |why: String| Err(TorshError::shape(NAME, why));
        match (target.ndim(), input.ndim()) {
            (1, 2) if input.dims()[0] != target.dims()[0] => {
                return refuse(format!(
                    "Input and target should have the same size in the batch dimension, got {} and {}",
                    input.shape(),
                    target.shape()
                ));
            }
            (1, 2) | (0, 1) => {}
            (n @ (0 | 1), _) => {
                return refuse(format!(
                    "{n}D target tensor expects {}D input tensors, but found inputs with size {}",
                    n + 1,
                    input.shape()
                ));
            }
            _ => {
                return refuse(format!(
                    "0D or 1D target tensor expected, multi-target not supported, got {}",
                    target.shape()
                ));
            }
        }
        let batched = target.ndim() > 0;
        let x = if batched {
            input.clone()
        } else {
            input.unsqueeze(0)?
        };
        let target = target.reshape([-1])?;
        let inside = target
            .ge(0)?
            .logical_and(target.lt(self.n_classes() as i64)?)?;
        let found = || -> Result<String> {
            let (least, most) = (target.min()?.item::<i64>()?, target.max()?.item::<i64>()?);
            Ok(format!(
                ", but values in range [{least}, {most}] were found"
            ))
        };
        let failure = || {
            let last = self.n_classes() - 1;
            // A device is not asked for its values: its error comes later.
            let found = match target.device().is_host() {
                true => found().unwrap_or_default(),
                false => String::new(),
            };
            Assert::index(format!("Target values should be in [0, {last}]{found}"))
        };
        check(&inside, CallSite::here(NAME), failure).map_err(|e| e.renamed(NAME))?;
        // The column of the head that each target belongs to: itself, or its cluster's.
        let mut column = target.clone();
        let mut within = x.select(1, 0)?.zeros_like()?.detach();
        for (i, pair) in self.cutoffs.windows(2).enumerate() {
            let (low, high) = (pair[0] as i64, pair[1] as i64);
            let rows = target.ge(low)?.logical_and(target.lt(high)?)?;
            let rows = rows.nonzero()?.squeeze(1)?;
            if rows.numel() == 0 {
                continue;
            }
            let classes = target.index_select(0, &rows)?.sub(low)?.unsqueeze(1)?;
            let scores = self.cluster(i, &x.index_select(0, &rows)?)?;
            let own = F::log_softmax(&scores, 1)?
                .gather(1, &classes)?
                .squeeze(1)?;
            within = within.index_copy(0, &rows, &own)?;
            column = column.index_fill(0, &rows, (self.shortlist() + i) as i64)?;
        }
        let head = F::log_softmax(&self.head.forward(&x)?, 1)?;
        let output = within.add(&head.gather(1, &column.unsqueeze(1)?)?.squeeze(1)?)?;
        let loss = output.neg()?.mean()?;
        let output = if batched { output } else { output.squeeze(0)? };
        Ok(AdaptiveLogSoftmaxOutput { output, loss })
    }

    /// The log-probabilities `[N, n_classes]` of all classes for inputs `[N, in_features]`.
    #[torsh_tensor::names_caller]
    pub fn log_prob(&self, input: &Tensor) -> Result<Tensor> {
        let head = F::log_softmax(&self.head.forward(input)?, 1)?;
        let mut parts = vec![head.narrow(1, 0, self.shortlist())?];
        for i in 0..self.cutoffs.len() - 1 {
            let own = F::log_softmax(&self.cluster(i, input)?, 1)?;
            parts.push(own.add(&head.narrow(1, self.shortlist() + i, 1)?)?);
        }
        Tensor::cat(&parts, 1)
    }

    /// The most probable class of each input: int64 `[N]`.
    ///
    /// As PyTorch's, this looks into the clusters only of inputs whose highest score in the head
    /// is a cluster's.
    #[torsh_tensor::names_caller]
    pub fn predict(&self, input: &Tensor) -> Result<Tensor> {
        let best = self.head.forward(input)?.argmax_dim(1, false)?;
        let rare = best.ge(self.shortlist() as i64)?;
        let rows = rare.nonzero()?.squeeze(1)?;
        if rows.numel() == 0 {
            return Ok(best);
        }
        let classes = self.log_prob(&input.index_select(0, &rows)?)?;
        best.index_copy(0, &rows, &classes.argmax_dim(1, false)?)
    }

    /// Draws the weights anew.
    #[torsh_tensor::names_caller]
    pub fn reset_parameters(&self) -> Result<()> {
        self.head.reset_parameters()?;
        let mut weights = Vec::new();
        crate::module::walk(&self.tail, &mut |_, field| {
            if let crate::FieldRef::Parameter(p) = field {
                weights.push(p.clone());
            }
        });
        weights
            .iter()
            .try_for_each(|w| crate::layers::linear::reset(w, None))
    }
}

impl Module for AdaptiveLogSoftmaxWithLoss {
    /// An error: a loss compares tensors.
    #[torsh_tensor::names_caller]
    fn forward(&self, _x: &Tensor) -> Result<Tensor> {
        Err(needs_more(
            NAME,
            "forward_with(&input, &target), log_prob(&input) or predict(&input)",
        ))
    }
}

/// Builds an [`AdaptiveLogSoftmaxWithLoss`].
#[derive(Clone, Debug)]
pub struct AdaptiveLogSoftmaxWithLossBuilder {
    in_features: usize,
    n_classes: usize,
    cutoffs: Vec<usize>,
    div_value: f64,
    head_bias: bool,
    factory: Factory,
}

impl AdaptiveLogSoftmaxWithLossBuilder {
    /// By how much each cluster's layer is narrower than the one before. The default is 4.
    #[must_use]
    pub fn div_value(mut self, div_value: f64) -> Self {
        self.div_value = div_value;
        self
    }

    /// Whether the head has a bias. The default is `false`.
    #[must_use]
    pub fn head_bias(mut self, head_bias: bool) -> Self {
        self.head_bias = head_bias;
        self
    }

    factory_setters!(AdaptiveLogSoftmaxWithLoss "(4, 6, &[2, 4])");

    /// Makes the layer and draws its weights.
    #[torsh_tensor::names_caller]
    pub fn build(self) -> Result<AdaptiveLogSoftmaxWithLoss> {
        let increase = self.cutoffs.windows(2).all(|w| w[0] < w[1]);
        let (Some(&first), Some(&last)) = (self.cutoffs.first(), self.cutoffs.last()) else {
            return Err(TorshError::invalid(
                NAME,
                "cutoffs should be a sequence of length larger than 0",
            ));
        };
        if !increase || first == 0 || last >= self.n_classes {
            return Err(TorshError::invalid(
                NAME,
                format!(
                    "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each value is between 1 and n_classes-1, got {:?} for {} classes",
                    self.cutoffs, self.n_classes
                ),
            ));
        }
        let linear = |inputs: usize, outputs: usize, bias: bool| {
            Linear::builder(inputs, outputs)
                .bias(bias)
                .device(self.factory.device)
                .dtype(self.factory.dtype())
                .build()
        };
        let head = linear(self.in_features, first + self.cutoffs.len(), self.head_bias)?;
        let mut cutoffs = self.cutoffs.clone();
        cutoffs.push(self.n_classes);
        let mut tail = ModuleList::new();
        for (i, pair) in cutoffs.windows(2).enumerate() {
            let narrow =
                (self.in_features as f64 / cmath::powi(self.div_value, i as i32 + 1)).floor();
            let narrow = narrow as usize;
            tail.push(
                Sequential::new()
                    .add(linear(self.in_features, narrow, false)?)
                    .add(linear(narrow, pair[1] - pair[0], false)?),
            );
        }
        Ok(AdaptiveLogSoftmaxWithLoss {
            head,
            tail,
            cutoffs,
            training: Training::default(),
            hooks: Hooks::new(),
        })
    }
}
