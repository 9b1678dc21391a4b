//! Attributes that are not of the form `#[module(key)]` or `#[module(key = "value")]`.

use torsh_core::Result;
use torsh_nn::{Module, Parameter};
use torsh_tensor::Tensor;

#[derive(Module)]
#[module(skip)]
struct Net {
    #[module]
    a: usize,
    #[module = "skip"]
    b: usize,
    #[module("skip")]
    c: usize,
    #[module(skip = true)]
    d: usize,
    #[module(rename)]
    e: Parameter,
    #[module(rename = "a.b")]
    f: Parameter,
}

impl Module for Net {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        Ok(x.clone())
    }
}

fn main() {}
