//! Inputs of the workloads, drawn from the default generator.

use torsh_core::random::{default_generator, fill_normal, fill_random_range_i64};
use torsh_tensor::{Result, Tensor};

/// Standard normal float32 numbers.
pub fn randn(shape: &[usize]) -> Result<Tensor> {
    let mut data = vec![0f32; shape.iter().product()];
    fill_normal(default_generator(), &mut data, 0.0, 1.0);
    Tensor::from_vec(data, shape)
}

/// int64 numbers from 0 to below `high`.
pub fn randint(high: i64, shape: &[usize]) -> Result<Tensor> {
    let mut data = vec![0i64; shape.iter().product()];
    fill_random_range_i64(default_generator(), &mut data, 0, high);
    Tensor::from_vec(data, shape)
}
