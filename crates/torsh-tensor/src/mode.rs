//! The modes of the current thread: one byte, read once per op call.

use std::cell::Cell;

use torsh_core::Result;

/// No gradients are recorded.
pub(crate) const NO_GRAD: u8 = 1;
/// New tensors are inference tensors.
pub(crate) const INFERENCE: u8 = 2;
/// Backward checks every gradient for NaN.
pub(crate) const ANOMALY: u8 = 4;
/// The thread has observers, who are told what it does.
pub(crate) const OBSERVE: u8 = 8;

/// Nodes hand what they save to a checkpoint.
pub(crate) const CHECKPOINT: u8 = 16;
/// Ops cast their operands; see `autocast.rs`.
pub(crate) const AUTOCAST: u8 = 32;
/// Every op's results are checked for nan and infinities; see `anomaly.rs`.
pub(crate) const CHECK_FORWARD: u8 = 64;
/// What makes a call more than its own op.
pub(crate) const WATCHED: u8 = OBSERVE | AUTOCAST | CHECK_FORWARD;

thread_local! {
    static MODE: Cell<u8> = const { Cell::new(0) };
}

/// The thread's mode byte.
#[inline]
pub(crate) fn get() -> u8 {
    MODE.with(Cell::get)
}

pub(crate) fn set(mode: u8) {
    MODE.with(|m| m.set(mode));
}

/// Restores the thread's mode on drop.
#[derive(Debug)]
#[must_use = "the mode ends when the guard is dropped"]
pub struct ModeGuard {
    before: u8,
    mask: u8,
    // A guard belongs to the thread that made it.
    _not_send: std::marker::PhantomData<*const ()>,
}

impl ModeGuard {
    /// The mode byte before the guard.
    pub(crate) fn before(&self) -> u8 {
        self.before
    }
}

impl Drop for ModeGuard {
    fn drop(&mut self) {
        set((get() & !self.mask) | (self.before & self.mask));
    }
}

pub(crate) fn guard(on: u8, off: u8) -> ModeGuard {
    let before = get();
    set((before | on) & !off);
    ModeGuard {
        before,
        mask: on | off,
        _not_send: std::marker::PhantomData,
    }
}

/// Whether ops record gradients on this thread (`torch.is_grad_enabled`).
///
/// ```
/// use torsh_tensor::{is_grad_enabled, no_grad};
/// assert!(is_grad_enabled());
/// no_grad(|| {
///     assert!(!is_grad_enabled());
///     Ok(())
/// })?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub fn is_grad_enabled() -> bool {
    get() & NO_GRAD == 0
}

/// Whether this thread is in inference mode (`torch.is_inference_mode_enabled`).
///
/// ```
/// use torsh_tensor::{inference_mode_guard, is_inference_mode};
/// assert!(!is_inference_mode());
/// let _guard = inference_mode_guard();
/// assert!(is_inference_mode());
/// ```
pub fn is_inference_mode() -> bool {
    get() & INFERENCE != 0
}

/// Whether this thread checks gradients for NaN.
///
/// ```
/// use torsh_tensor::{detect_anomaly_guard, is_anomaly_enabled};
/// assert!(!is_anomaly_enabled());
/// let _guard = detect_anomaly_guard();
/// assert!(is_anomaly_enabled());
/// ```
pub fn is_anomaly_enabled() -> bool {
    get() & ANOMALY != 0
}

/// Switches recording for this thread (`torch.set_grad_enabled`). Inside of [`inference_mode`]
/// nothing is recorded whatever is asked.
///
/// ```
/// use torsh_tensor::{set_grad_enabled, tensor};
/// let x = tensor![1.0].requires_grad_(true);
/// set_grad_enabled(false);
/// assert!(!x.mul(2.0)?.requires_grad());
/// set_grad_enabled(true);
/// assert!(x.mul(2.0)?.requires_grad());
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub fn set_grad_enabled(enabled: bool) {
    let m = get();
    set(if enabled && m & INFERENCE == 0 {
        m & !NO_GRAD
    } else {
        m | NO_GRAD
    });
}

/// No recording until the guard is dropped.
///
/// ```
/// use torsh_tensor::{no_grad_guard, tensor};
/// let x = tensor![1.0].requires_grad_(true);
/// let guard = no_grad_guard();
/// assert!(!x.mul(2.0)?.requires_grad());
/// drop(guard);
/// assert!(x.mul(2.0)?.requires_grad());
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub fn no_grad_guard() -> ModeGuard {
    guard(NO_GRAD, 0)
}

/// Recording until the guard is dropped; inside of [`inference_mode`] nothing is recorded all the
/// same.
///
/// ```
/// use torsh_tensor::{enable_grad_guard, no_grad_guard, tensor};
/// let _outer = no_grad_guard();
/// let _inner = enable_grad_guard();
/// assert!(tensor![1.0].requires_grad_(true).mul(2.0)?.requires_grad());
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub fn enable_grad_guard() -> ModeGuard {
    guard(0, if is_inference_mode() { 0 } else { NO_GRAD })
}

/// Inference mode until the guard is dropped.
///
/// ```
/// use torsh_tensor::{inference_mode_guard, tensor};
/// let _guard = inference_mode_guard();
/// assert!(tensor![1.0].mul(2.0)?.is_inference());
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub fn inference_mode_guard() -> ModeGuard {
    guard(NO_GRAD | INFERENCE, 0)
}

/// Anomaly detection until the guard is dropped (`torch.autograd.detect_anomaly`).
///
/// ```
/// use torsh_tensor::{detect_anomaly_guard, tensor};
/// let x = tensor![0.0].requires_grad_(true);
/// let _guard = detect_anomaly_guard();
/// // The gradient of 0 / 0 is nan.
/// let e = x.div(&x)?.backward().unwrap_err();
/// assert!(e.to_string().contains("nan"), "{e}");
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub fn detect_anomaly_guard() -> ModeGuard {
    guard(ANOMALY, 0)
}

/// Runs `f` without recording gradients (`torch.no_grad`).
///
/// ```
/// use torsh_tensor::{no_grad, tensor};
/// let x = tensor![2.0].requires_grad_(true);
/// let y = no_grad(|| x.mul(3.0))?;
/// assert_eq!((y.requires_grad(), y), (false, tensor![6.0]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn no_grad<T>(f: impl FnOnce() -> Result<T>) -> Result<T> {
    let _g = no_grad_guard();
    f()
}

/// Runs `f` with recording, also inside of [`no_grad`] (`torch.enable_grad`).
///
/// ```
/// use torsh_tensor::{enable_grad, no_grad, tensor};
/// let x = tensor![2.0].requires_grad_(true);
/// let y = no_grad(|| enable_grad(|| x.square()))?;
/// y.backward()?;
/// assert_eq!(x.grad(), Some(tensor![4.0]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn enable_grad<T>(f: impl FnOnce() -> Result<T>) -> Result<T> {
    let _g = enable_grad_guard();
    f()
}

/// Runs `f` in inference mode: nothing is recorded, and its new tensors can never take part in
/// recording (`torch.inference_mode`).
///
/// ```
/// use torsh_tensor::{inference_mode, tensor};
/// let x = tensor![2.0].requires_grad_(true);
/// let y = inference_mode(|| x.mul(3.0))?;
/// assert!(y.is_inference());
/// // It can take no part in recording.
/// assert!(x.mul(&y).is_err());
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn inference_mode<T>(f: impl FnOnce() -> Result<T>) -> Result<T> {
    let _g = inference_mode_guard();
    f()
}

/// Runs `f`, whose backward passes check every gradient for NaN and name the forward call that
/// made it (`torch.autograd.detect_anomaly`).
///
/// ```
/// use torsh_tensor::{detect_anomaly, tensor};
/// let x = tensor![0.0].requires_grad_(true);
/// assert!(detect_anomaly(|| x.div(&x)?.backward()).is_err());
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn detect_anomaly<T>(f: impl FnOnce() -> Result<T>) -> Result<T> {
    let _g = detect_anomaly_guard();
    f()
}
