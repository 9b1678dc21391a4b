//! `impl Module` without the derive: an error with a hint, not an empty parameter list.

use torsh_core::Result;
use torsh_nn::{Linear, Module};
use torsh_tensor::Tensor;

struct Net {
    fc: Linear,
}

impl Module for Net {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.fc.forward(x)
    }
}

fn main() {}
