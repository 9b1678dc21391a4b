//! PyTorch's random numbers on the CPU, draw for draw.
//!
//! A [`Generator`] is a shared handle to an [`Mt19937`] engine with PyTorch's two caches of a
//! normal sample. The `fill_*` functions are the kernels of `Tensor.uniform_`, `normal_`,
//! `random_`, `bernoulli_` and the rest: each locks the generator once and consumes exactly the
//! words that PyTorch's kernel consumes, in the same order, so `manual_seed(0)` followed by the
//! same calls gives the same numbers.
//!
//! Integer draws, uniform draws, Bernoulli draws and permutations are equal bit for bit. Draws
//! that pass through `ln`, `sin`, `cos`, `tan` or `exp` in double precision use the platform's
//! mathematics library, as PyTorch does, and are equal where the library is the same.
//!
//! Large fills are cut into parts for the threads; the numbers do not depend on how many there are.

mod continuous;
mod discrete;
mod engine;
mod generator;
mod normal;
mod parts;
mod uniform;

pub use continuous::{
    fill_cauchy, fill_exponential, fill_exponential_bf16, fill_exponential_f16,
    fill_exponential_f32, fill_exponential_f64, fill_geometric, fill_geometric_i64,
    fill_log_normal,
};
pub use discrete::{
    fill_bernoulli, fill_bernoulli_probs_f32, fill_bernoulli_probs_f64,
    fill_multinomial_with_replacement_f32, fill_multinomial_with_replacement_f64, fill_random_i64,
    fill_random_i64_full_range, fill_random_modulus_i64, fill_random_range_i64, randperm,
};
pub use engine::Mt19937;
pub use generator::{
    DEFAULT_SEED, EnteredGenerator, Generator, LocalGenerator, STATE_BYTES, default_generator,
    default_generator_of, device_generators, initial_seed, manual_seed, seed,
};
pub use normal::{
    fill_normal, fill_normal_bf16, fill_normal_f16, fill_normal_f32, fill_normal_f64,
    fill_normal_serial,
};
pub use uniform::{
    RandomFloat, fill_uniform, fill_uniform_bf16, fill_uniform_f16, fill_uniform_f32,
    fill_uniform_f64,
};
