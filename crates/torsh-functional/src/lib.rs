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

mod aliases;
mod elements;
mod embedding;
mod grids;
mod interpolate;
mod loss_composed;
mod options;
mod pointwise;
mod pooling;

pub use aliases::*;
pub use elements::*;
pub use embedding::*;
pub use grids::*;
pub use interpolate::*;
pub use loss_composed::*;
pub use options::*;
pub use pointwise::*;
pub use pooling::*;

#[doc(inline)]
pub use torsh_tensor::functional::*;

use torsh_tensor::operand_as_tensor as tensor;
