//! A plain tensor is neither parameter nor buffer, and plain data has to be skipped.

use torsh_core::Result;
use torsh_nn::Module;
use torsh_tensor::Tensor;

#[derive(Module)]
struct Net {
    weight: Tensor,
    cache: Option<Tensor>,
    heads: usize,
}

impl Module for Net {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        Ok(x.clone())
    }
}

fn main() {}
