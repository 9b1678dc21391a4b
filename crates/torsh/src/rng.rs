//! The states of the default random generators, as `torch.get_rng_state` and `torch.cuda.get_rng_state`.

use torsh_core::random::{default_generator, default_generator_of};
use torsh_tensor::{Device, Result, TorshError};

/// The state of the CPU's default generator, the very bytes of `torch.get_rng_state`.
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
#[torsh_tensor::names_caller]
pub fn set_rng_state(state: &[u8]) -> Result<()> {
    default_generator()
        .set_state(state)
        .map_err(|why| TorshError::invalid("set_rng_state", why))
}

/// The state of a device's default generator (`torch.cuda.get_rng_state(device)`): the bytes of
/// [`get_rng_state`] for the CPU.
///
/// ```
/// use torsh::prelude::*;
/// let state = torsh::get_rng_state_of(Device::Cpu)?;
/// assert_eq!(state, torsh::get_rng_state());
/// # Ok::<(), torsh::TorshError>(())
/// ```
///
/// # Errors
/// A device that is not there, or that has no data (meta).
#[torsh_tensor::names_caller]
pub fn get_rng_state_of(device: impl Into<Device>) -> Result<Vec<u8>> {
    let device = device.into();
    torsh_backend::backend(device)?;
    Ok(default_generator_of(device).get_state())
}

/// Restores a state of [`get_rng_state_of`] (`torch.cuda.set_rng_state(state, device)`).
///
/// # Errors
/// Bytes that are no state, where the generator is then as it was; a device that is not there.
#[torsh_tensor::names_caller]
pub fn set_rng_state_of(state: &[u8], device: impl Into<Device>) -> Result<()> {
    let device = device.into();
    torsh_backend::backend(device)?;
    default_generator_of(device)
        .set_state(state)
        .map_err(|why| TorshError::invalid("set_rng_state_of", why))
}
