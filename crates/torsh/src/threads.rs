//! The number of threads that compute.

use torsh_core::pool;

use crate::{Result, TorshError};

/// The number of threads, the caller included, that one op uses at most
/// (`torch.get_num_threads`): at first `TORSH_NUM_THREADS`, else as many as the machine runs at
/// once.
pub fn get_num_threads() -> usize {
    pool::num_threads()
}

/// Sets the number of threads that ops use from now on, in the whole process
/// (`torch.set_num_threads`).
///
/// ```
/// torsh::set_num_threads(1)?;
/// assert_eq!(torsh::get_num_threads(), 1);
/// let text = torsh::set_num_threads(0).unwrap_err().to_string();
/// assert!(text.contains("must be at least 1, got 0"), "{text}");
/// # Ok::<(), torsh::TorshError>(())
/// ```
///
/// # Errors
/// `InvalidArgument` for 0.
#[torsh_tensor::names_caller]
pub fn set_num_threads(n: usize) -> Result<()> {
    pool::set_num_threads(n).map_err(|e| TorshError::invalid("set_num_threads", e.to_string()))
}
