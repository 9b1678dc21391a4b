//! A child that holds parameters but does not derive `Module`.

use torsh_core::Result;
use torsh_nn::{Linear, Module};
use torsh_tensor::Tensor;

struct Block {
    fc: Linear,
}

#[derive(Module)]
struct Net {
    blocks: Vec<Block>,
}

impl Module for Net {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.blocks[0].fc.forward(x)
    }
}

fn main() {}
