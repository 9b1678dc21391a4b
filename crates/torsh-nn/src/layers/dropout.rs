//! Dropout.

use torsh_functional as F;
use torsh_tensor::{Result, Tensor, TorshError};

use crate::Module;
use crate::layers::python_float;
use crate::module::{Hooks, Training};

/// Sets each element to 0 with probability `p` while training, and scales the others by
/// `1 / (1 - p)` (`torch.nn.Dropout`). Does nothing in evaluation mode.
#[derive(Module)]
pub struct Dropout {
    #[module(skip)]
    p: f64,
    training: Training,
    hooks: Hooks,
}

impl Dropout {
    /// Drops with probability `p` (PyTorch's default is 0.5). An error where `p` is not from 0 to 1.
    #[track_caller]
    pub fn new(p: f64) -> Result<Dropout> {
        if !(0.0..=1.0).contains(&p) {
            return Err(TorshError::invalid(
                "Dropout",
                format!("dropout probability has to be between 0 and 1, but got {p}"),
            ));
        }
        Ok(Dropout {
            p,
            training: Training::default(),
            hooks: Hooks::new(),
        })
    }

    /// The probability.
    pub fn p(&self) -> f64 {
        self.p
    }
}

impl Module for Dropout {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks
            .run(self, x, |x| F::dropout(x, self.p, self.training.get()))
    }

    fn extra_repr(&self) -> String {
        format!("p={}, inplace=False", python_float(self.p))
    }
}
