//! A state dict, and layers that compute with it.

use std::collections::HashMap;

use torsh_functional as F;
use torsh_serialize::Value;
use torsh_tensor::{BatchNormOptions, Conv2dOptions, Result, Tensor, TorshError};

/// Tensors by name.
pub(super) struct State(HashMap<String, Tensor>);

impl State {
    /// Those of a dict; a prefix `module.`, as `DataParallel` writes, goes.
    pub(super) fn of(value: &Value) -> std::result::Result<State, String> {
        let tensors = value.named_tensors().map_err(|e| e.to_string())?;
        Ok(tensors.into_iter().collect())
    }

    /// The tensor of this name; an error where there is none.
    pub(super) fn get(&self, name: &str) -> Result<&Tensor> {
        self.0.get(name).ok_or_else(|| {
            TorshError::invalid("state_dict", format!("the weights have no tensor {name}"))
        })
    }

    fn weight(&self, layer: &str) -> Result<&Tensor> {
        self.get(&format!("{layer}.weight"))
    }

    fn bias(&self, layer: &str) -> Option<&Tensor> {
        self.0.get(&format!("{layer}.bias"))
    }

    pub(super) fn linear(&self, layer: &str, x: &Tensor) -> Result<Tensor> {
        F::linear(x, self.weight(layer)?, self.bias(layer))
    }

    pub(super) fn conv2d(&self, layer: &str, x: &Tensor, o: Conv2dOptions) -> Result<Tensor> {
        F::conv2d_with(x, self.weight(layer)?, self.bias(layer), o)
    }

    pub(super) fn prelu(&self, layer: &str, x: &Tensor) -> Result<Tensor> {
        F::prelu(x, self.weight(layer)?)
    }

    /// Batch normalisation by the running statistics.
    pub(super) fn batch_norm(&self, layer: &str, x: &Tensor, eps: f64) -> Result<Tensor> {
        let mean = self.get(&format!("{layer}.running_mean"))?;
        let variance = self.get(&format!("{layer}.running_var"))?;
        let options = BatchNormOptions::new()
            .weight(self.weight(layer)?)
            .bias(self.get(&format!("{layer}.bias"))?)
            .eps(eps);
        F::batch_norm_with(x, mean, variance, options)
    }
}

impl<'a> FromIterator<(&'a str, &'a Tensor)> for State {
    fn from_iter<I: IntoIterator<Item = (&'a str, &'a Tensor)>>(tensors: I) -> State {
        let short = |name: &str| name.strip_prefix("module.").unwrap_or(name).to_string();
        let tensors = tensors.into_iter();
        State(tensors.map(|(name, t)| (short(name), t.clone())).collect())
    }
}
