//! A linear layer and the cross entropy of its scores.

use torsh_functional::{self as F, LinearCrossEntropyOptions, Reduction};
use torsh_tensor::{IntoShape, Result, Tensor, TorshError};

use crate::layers::{Factory, factory_setters, needs_more, python, python_float};
use crate::module::{Buffer, Hooks, Training};
use crate::{Linear, Module};

/// The cross entropy of linear scores (`torch.nn.LinearCrossEntropyLoss`).
///
/// [`forward_with`](LinearCrossEntropyLoss::forward_with) takes `[N, in_features]` or
/// `[in_features]` and classes `[N, d1, ..]`, or probabilities `[N, C, d1, ..]`, where `d1, ..`
/// are `out_features`.
///
/// ```
/// use torsh_functional as F;
/// use torsh_nn::LinearCrossEntropyLoss;
/// use torsh_tensor::{ones, tensor};
/// let loss = LinearCrossEntropyLoss::new(5, 10)?;
/// let (x, y) = (ones(&[2, 5]), tensor![3, 9]);
/// let scores = F::linear(&x, &loss.linear.weight, None)?;
/// assert_eq!(loss.forward_with(&x, &y)?, F::cross_entropy(&scores, &y)?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct LinearCrossEntropyLoss {
    weight: Option<Buffer>,
    /// The layer that makes the scores: its weight is `[num_classes * d1 * .., in_features]`.
    pub linear: Linear,
    #[module(skip)]
    shape: Vec<usize>,
    #[module(skip)]
    reduction: Reduction,
    #[module(skip)]
    ignore_index: Option<i64>,
    #[module(skip)]
    label_smoothing: f64,
    training: Training,
    hooks: Hooks,
}

impl LinearCrossEntropyLoss {
    /// The loss with PyTorch's defaults: no bias, the mean.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(in_features: usize, num_classes: usize) -> Result<LinearCrossEntropyLoss> {
        LinearCrossEntropyLoss::builder(in_features, num_classes).build()
    }

    /// The loss with PyTorch's other arguments.
    pub fn builder(in_features: usize, num_classes: usize) -> LinearCrossEntropyLossBuilder {
        LinearCrossEntropyLossBuilder {
            in_features,
            num_classes,
            out_features: Vec::new(),
            bias: false,
            weight: None,
            reduction: Reduction::Mean,
            ignore_index: None,
            label_smoothing: 0.0,
            factory: Factory::default(),
        }
    }

    /// The loss of inputs against a target.
    #[torsh_tensor::names_caller]
    pub fn forward_with(&self, input: &Tensor, target: &Tensor) -> Result<Tensor> {
        self.hooks
            .run_many(self, [input, target], |[input, target]| {
                let mut shape = self.shape.clone();
                let bias = self.linear.bias.as_ref();
                let bias = bias.map(|b| b.reshape(&shape)).transpose()?;
                shape.push(self.linear.in_features());
                let weight = self.linear.weight.reshape(&shape)?;
                let options = LinearCrossEntropyOptions {
                    linear_bias: bias.as_ref(),
                    weight: self.weight.as_deref(),
                    reduction: self.reduction,
                    ignore_index: self.ignore_index,
                    label_smoothing: self.label_smoothing,
                };
                F::linear_cross_entropy_with(input, &weight, target, options)
            })
    }

    /// As [`forward_with`](LinearCrossEntropyLoss::forward_with).
    #[torsh_tensor::names_caller]
    pub fn forward(&self, input: &Tensor, target: &Tensor) -> Result<Tensor> {
        self.forward_with(input, target)
    }
}

impl Module for LinearCrossEntropyLoss {
    /// An error: a loss compares tensors.
    #[torsh_tensor::names_caller]
    fn forward(&self, _x: &Tensor) -> Result<Tensor> {
        Err(needs_more(
            "LinearCrossEntropyLoss",
            "forward_with(&input, &target)",
        ))
    }

    fn extra_repr(&self) -> String {
        let sizes: Vec<String> = self.shape[1..].iter().map(usize::to_string).collect();
        let sizes = match &sizes[..] {
            [one] => format!("({one},)"),
            sizes => format!("({})", sizes.join(", ")),
        };
        format!(
            "in_features={}, num_classes={}, out_features={sizes}, bias={}, reduction={}, ignore_index={}, label_smoothing={}, options=None",
            self.linear.in_features(),
            self.shape[0],
            python(self.linear.bias.is_some()),
            self.reduction.name(),
            self.ignore_index
                .map_or("None".to_string(), |i| i.to_string()),
            python_float(self.label_smoothing),
        )
    }
}

/// Builds a [`LinearCrossEntropyLoss`].
#[derive(Clone, Debug)]
pub struct LinearCrossEntropyLossBuilder {
    in_features: usize,
    num_classes: usize,
    out_features: Vec<usize>,
    bias: bool,
    weight: Option<Tensor>,
    reduction: Reduction,
    ignore_index: Option<i64>,
    label_smoothing: f64,
    factory: Factory,
}

impl LinearCrossEntropyLossBuilder {
    /// The sizes `d1, ..` of a target for each input. The default is none. An error where one is
    /// negative.
    #[torsh_tensor::names_caller]
    pub fn out_features(mut self, out_features: impl IntoShape) -> Result<Self> {
        let shape = out_features.shape();
        let shape = shape.map_err(|e| e.renamed("LinearCrossEntropyLoss"))?;
        self.out_features = shape.to_vec();
        Ok(self)
    }

    /// Whether a bias is added to the scores. The default is `false`.
    #[must_use]
    pub fn bias(mut self, bias: bool) -> Self {
        self.bias = bias;
        self
    }

    /// A factor for each class.
    #[must_use]
    pub fn weight(mut self, weight: &Tensor) -> Self {
        self.weight = Some(weight.clone());
        self
    }

    /// How the losses become the result. The default is their mean.
    #[must_use]
    pub fn reduction(mut self, reduction: impl Into<Reduction>) -> Self {
        self.reduction = reduction.into();
        self
    }

    /// A class that counts for nothing. The default is -100. A target of probabilities takes none.
    #[must_use]
    pub fn ignore_index(mut self, ignore_index: impl Into<Option<i64>>) -> Self {
        self.ignore_index = ignore_index.into();
        self
    }

    /// How much of each target is spread over all classes. The default is 0.
    #[must_use]
    pub fn label_smoothing(mut self, label_smoothing: f64) -> Self {
        self.label_smoothing = label_smoothing;
        self
    }

    factory_setters!(LinearCrossEntropyLoss "(5, 10)");

    /// Makes the layer and draws its weights.
    #[torsh_tensor::names_caller]
    pub fn build(self) -> Result<LinearCrossEntropyLoss> {
        let op = "LinearCrossEntropyLoss";
        if let Some(w) = self
            .weight
            .as_ref()
            .filter(|w| w.dims() != [self.num_classes])
        {
            return Err(TorshError::shape(
                op,
                format!(
                    "expected weight shape to be [{}], got {}",
                    self.num_classes,
                    w.shape()
                ),
            ));
        }
        if !(0.0..=1.0).contains(&self.label_smoothing) {
            return Err(TorshError::invalid(
                op,
                format!(
                    "expected label_smoothing to be in range [0, 1], got {}",
                    self.label_smoothing
                ),
            ));
        }
        let mut shape = vec![self.num_classes];
        shape.extend(self.out_features);
        let linear = Linear::builder(self.in_features, shape.iter().product())
            .bias(self.bias)
            .device(self.factory.device)
            .dtype(self.factory.dtype());
        Ok(LinearCrossEntropyLoss {
            weight: self.weight.map(Buffer::new),
            linear: linear.build()?,
            shape,
            reduction: self.reduction,
            ignore_index: self.ignore_index,
            label_smoothing: self.label_smoothing,
            training: Training::default(),
            hooks: Hooks::new(),
        })
    }
}
