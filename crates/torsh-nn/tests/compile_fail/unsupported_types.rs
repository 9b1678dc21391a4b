//! Unions, lifetimes and enums without variants.

use torsh_core::Result;
use torsh_nn::{Module, Parameter};
use torsh_tensor::Tensor;

#[derive(Module)]
union Bits {
    a: u32,
    b: f32,
}

#[derive(Module)]
struct Borrowed<'a> {
    weight: &'a Parameter,
}

#[derive(Module)]
enum Never {}

impl Module for Never {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        Ok(x.clone())
    }
}

fn main() {}
