//! The functional interface of ToRSh, as `torch.nn.functional` and the functions of `torch`.
//!
//! The prelude of the crate `torsh` brings it as `F`:
//!
//! ```
//! use torsh_functional as F;
//! use torsh_tensor::Tensor;
//! let x = Tensor::from_data(&[-1.0f32, 2.0], &[2])?;
//! assert_eq!(F::relu(&x)?.to_vec::<f32>()?, [0.0, 2.0]);
//! assert_eq!(F::add(&x, 1)?.to_vec::<f32>()?, [0.0, 3.0]);
//! # Ok::<(), torsh_tensor::TorshError>(())
//! ```
//!
//! The plain name takes what PyTorch requires, `NAME_with` the rest.

mod activation;
mod aliases;
mod arrange;
mod conv;
mod counting;
mod elements;
mod extremes;
mod grids;
mod indexing;
mod interpolate;
mod join;
mod loss;
mod loss_composed;
mod nn;
mod norm;
mod numeric;
mod options;
mod pointwise;
mod pooling;
mod products;
mod reductions;
mod rnn;
mod scans;
mod shape;
mod spectra;
mod vectors;
mod view_copies;

pub use activation::*;
pub use aliases::*;
pub use arrange::*;
pub use conv::*;
pub use counting::*;
pub use elements::*;
pub use extremes::*;
pub use grids::*;
pub use indexing::*;
pub use interpolate::*;
pub use join::*;
pub use loss::*;
pub use loss_composed::*;
pub use nn::*;
pub use norm::*;
pub use numeric::*;
pub use options::*;
pub use pointwise::*;
pub use pooling::*;
pub use products::*;
pub use reductions::*;
pub use rnn::*;
pub use scans::*;
pub use shape::*;
pub use spectra::*;
pub use vectors::*;
pub use view_copies::*;

/// Reads an operand as a tensor for the length of a function.
macro_rules! tensor {
    ($x:ident) => {
        let operand = $x.into();
        let held;
        let $x: &torsh_tensor::Tensor = match &operand {
            torsh_tensor::Operand::Ref(t) => t,
            torsh_tensor::Operand::Owned(t) => t,
            torsh_tensor::Operand::Number(_) => {
                held = operand.to_tensor()?;
                &held
            }
        };
    };
}
use tensor;
