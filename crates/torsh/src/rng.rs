//! The state of the default random generator, as `torch.get_rng_state`.

use torsh_core::random::default_generator;
use torsh_tensor::{Result, TorshError};

/// The state of the default generator, the very bytes of `torch.get_rng_state`.
///
/// ```
/// use torsh::prelude::*;
/// let state = torsh::get_rng_state();
/// let first = randn(&[3]);
/// torsh::set_rng_state(&state)?;
/// assert_eq!(randn(&[3]), first);
/// # Ok::<(), torsh::TorshError>(())
/// ```
pub fn get_rng_state() -> Vec<u8> {
    default_generator().get_state()
}

/// Restores a state of [`get_rng_state`] or of PyTorch.
///
/// # Errors
/// Bytes that are no state; the generator is then as it was.
///
/// ```
/// let error = torsh::set_rng_state(&[1, 2, 3]).unwrap_err();
/// assert!(error.to_string().starts_with("set_rng_state: "));
/// ```
pub fn set_rng_state(state: &[u8]) -> Result<()> {
    default_generator()
        .set_state(state)
        .map_err(|why| TorshError::invalid("set_rng_state", why))
}
