//! Losses.

use torsh_functional::{self as F, CrossEntropyOptions, NllLossOptions, Reduction};
use torsh_tensor::{Result, Tensor};

use crate::Module;
use crate::layers::needs_more;
use crate::module::{Buffer, Hooks, Training};

macro_rules! forward_is_an_error {
    ($name:ident) => {
        impl Module for $name {
            /// An error: a loss compares two tensors.
            #[track_caller]
            fn forward(&self, _x: &Tensor) -> Result<Tensor> {
                Err(needs_more(
                    stringify!($name),
                    "forward_with(&input, &target)",
                ))
            }
        }
    };
}

/// Cross entropy of scores and classes (`torch.nn.CrossEntropyLoss`).
///
/// [`forward_with`](CrossEntropyLoss::forward_with) takes scores `[N, C]` (or `[C]`,
/// `[N, C, d1, ..]`) and either int64 classes of that shape without `C`, or probabilities of that
/// shape.
#[derive(Module)]
pub struct CrossEntropyLoss {
    weight: Option<Buffer>,
    #[module(skip)]
    options: CrossEntropyOptions,
    training: Training,
    hooks: Hooks,
}

impl CrossEntropyLoss {
    /// The mean over the batch.
    pub fn new() -> CrossEntropyLoss {
        CrossEntropyLoss::with(CrossEntropyOptions::default())
    }

    /// The loss with PyTorch's other arguments.
    pub fn with(mut options: CrossEntropyOptions) -> CrossEntropyLoss {
        // The weights are a buffer, so that they move with the module.
        let weight = options.weight.take().map(Buffer::new);
        CrossEntropyLoss {
            weight,
            options,
            training: Training::default(),
            hooks: Hooks::new(),
        }
    }

    /// The loss of scores against a target.
    #[track_caller]
    pub fn forward_with(&self, input: &Tensor, target: &Tensor) -> Result<Tensor> {
        let mut options = self.options.clone();
        options.weight = self.weight.as_ref().map(Tensor::from);
        self.hooks.run(self, input, |input| {
            F::cross_entropy_with(input, target, options)
        })
    }
}

impl Default for CrossEntropyLoss {
    fn default() -> Self {
        CrossEntropyLoss::new()
    }
}

forward_is_an_error!(CrossEntropyLoss);

/// The negative of the log-probability of each class (`torch.nn.NLLLoss`).
///
/// [`forward_with`](NLLLoss::forward_with) takes log-probabilities `[N, C]` (or `[C]`,
/// `[N, C, d1, ..]`) and int64 classes of that shape without `C`.
#[derive(Module)]
pub struct NLLLoss {
    weight: Option<Buffer>,
    #[module(skip)]
    options: NllLossOptions,
    training: Training,
    hooks: Hooks,
}

impl NLLLoss {
    /// The mean over the batch.
    pub fn new() -> NLLLoss {
        NLLLoss::with(NllLossOptions::default())
    }

    /// The loss with PyTorch's other arguments.
    pub fn with(mut options: NllLossOptions) -> NLLLoss {
        let weight = options.weight.take().map(Buffer::new);
        NLLLoss {
            weight,
            options,
            training: Training::default(),
            hooks: Hooks::new(),
        }
    }

    /// The loss of log-probabilities against classes.
    #[track_caller]
    pub fn forward_with(&self, input: &Tensor, target: &Tensor) -> Result<Tensor> {
        let mut options = self.options.clone();
        options.weight = self.weight.as_ref().map(Tensor::from);
        self.hooks.run(self, input, |input| {
            F::nll_loss_with(input, target, options)
        })
    }
}

impl Default for NLLLoss {
    fn default() -> Self {
        NLLLoss::new()
    }
}

forward_is_an_error!(NLLLoss);

/// Squared differences (`torch.nn.MSELoss`).
#[derive(Module, Default)]
pub struct MSELoss {
    #[module(skip)]
    reduction: Reduction,
    training: Training,
    hooks: Hooks,
}

impl MSELoss {
    /// The mean over all elements.
    pub fn new() -> MSELoss {
        MSELoss::default()
    }

    /// The loss with another reduction.
    pub fn with(reduction: Reduction) -> MSELoss {
        MSELoss {
            reduction,
            ..MSELoss::default()
        }
    }

    /// The loss of two tensors of one shape.
    #[track_caller]
    pub fn forward_with(&self, input: &Tensor, target: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, input, |input| {
            F::mse_loss_with(input, target, self.reduction)
        })
    }
}

forward_is_an_error!(MSELoss);
