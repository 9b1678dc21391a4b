//! CPU kernels of ToRSh

pub mod arch;
mod attention;
mod batch_norm;
mod blocks;
mod byte;
mod check;
pub mod choice;
mod conv;
mod convert;
mod copy;
mod create;
mod cross;
mod dense;
mod embedding_bag;
mod exp_rows;
pub mod fft;
mod index;
#[cfg(target_arch = "x86_64")]
mod isa;
mod lanes;
mod loss;
mod matmul;
mod optim;
mod panels;
pub mod peak;
mod pointwise;
mod pooling;
mod random;
mod reduce;
mod resample;
mod rnn;
mod row_norm;
pub mod scalar;
mod scan;
mod softmax;
mod sort;
mod spatial;
pub mod strided;
mod table;
#[cfg(test)]
mod testing;
mod transpose;
#[cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, reason = "some algorithms are of x86-64 alone")
)]
mod tuning;
mod vectors;
pub mod vmath;

pub use table::{CpuBackend, kernel};
