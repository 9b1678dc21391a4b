//! What the core knows of sparse tensors: their parts, the rules that a crate brings for them, and the two ops from which
//! all others are made.
//!
//! A rule says what an op does with sparse operands. The crate `torsh-sparse` brings them with its
//! [`Family`](crate::ops::Family); the dispatcher looks one up only where an operand is sparse. [`values`] and
//! [`from_values`] take a sparse tensor apart and put it together, and carry the gradients: what is computed on the values
//! in between is made of strided ops.

use torsh_core::{Result, TorshError};

pub use crate::call::sparse::{SparseCall, SparseRule, call, call1};
pub use crate::memory::Pattern;
use crate::ops;
pub use crate::ops::sparse::{flat, from_values, values};

/// Refuses the option of an op whose gradient is to store what was read alone, where nothing in the program makes it.
pub(crate) fn gradients_of_rows(op: &'static str, option: &str) -> Result<()> {
    match ops::sparse_rule("_embedding_sparse_backward") {
        Some(_) => Ok(()),
        None => Err(
            TorshError::invalid(op, "sparse gradients come with the feature `sparse`").with_hint(
                format!(
                    "add the feature `sparse` of the crate `torsh`, or leave {option} at false"
                ),
            ),
        ),
    }
}
