//! Misspelled and unknown keys.

use torsh_core::Result;
use torsh_nn::{Module, Parameter};
use torsh_tensor::Tensor;

#[derive(Module)]
struct Net {
    #[module(skipp)]
    heads: usize,
    #[module(name = "weight_ih_l0")]
    w: Parameter,
    #[module(trainable)]
    b: Parameter,
}

impl Module for Net {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        Ok(x.clone())
    }
}

fn main() {}
