//! Checks of values, and the names in deferred errors.
//!
//! On an asynchronous device, the next call that waits reports an error. The error names the op that
//! the user called and the place of that call. If an op is written in other ops of this crate,
//! [`named`] keeps both.

use std::cell::Cell;

use torsh_core::attrs::Assert;
use torsh_core::{CallSite, Result};

use crate::Tensor;
use crate::{call, mode};

thread_local! {
    static SITE: Cell<Option<CallSite>> = const { Cell::new(None) };
}

/// The outermost op that is being computed on a device, or else `own`.
pub(crate) fn site(own: CallSite) -> CallSite {
    SITE.get().unwrap_or(own)
}

/// Runs `f` as a part of a call: deferred errors of the ops in it name that call.
#[cold]
pub(crate) fn within<T>(call: CallSite, f: impl FnOnce() -> T) -> T {
    struct Back(Option<CallSite>);
    impl Drop for Back {
        fn drop(&mut self) {
            SITE.set(self.0);
        }
    }
    let before = SITE.get();
    let _back = Back(before);
    SITE.set(before.or(Some(call)));
    f()
}

/// Runs an op on a tensor that is written in other ops. On a device, their deferred errors name it
/// and its caller; on the CPU there are none.
#[inline]
#[track_caller]
pub(crate) fn named<T>(op: &'static str, x: &Tensor, f: impl FnOnce() -> T) -> T {
    match x.device().is_host() {
        true => f(),
        false => within(CallSite::here(op), f),
    }
}

/// Refuses values unless a bool tensor is true everywhere. On the CPU the error is returned at once;
/// on a device nothing waits: the error is that of the next call that does
/// ([`synchronize`](crate::devices::synchronize), `item`, `to_vec`, printing), with the op and the
/// place of `site`. Meta tensors have no values that could be wrong.
///
/// ```
/// use torsh_tensor::devices::{Assert, CallSite, check};
/// use torsh_tensor::tensor;
/// let probabilities = tensor![0.5, 1.5];
/// let fine = probabilities.le(1.0)?;
/// let e = check(&fine, CallSite::here("draw"), || Assert::value("a probability is above 1"));
/// assert!(e.unwrap_err().to_string().contains("above 1"));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// What `failure` makes, where the condition is known to be false somewhere.
pub fn check(condition: &Tensor, site: CallSite, failure: impl Fn() -> Assert) -> Result<()> {
    if !condition.device().has_data() {
        return Ok(());
    }
    let _mode = mode::guard(
        mode::NO_GRAD,
        mode::AUTOCAST | mode::CHECKPOINT | mode::CHECK_FORWARD,
    );
    let holds = match condition.ndim() {
        0 => condition.clone(),
        _ => condition.all()?,
    };
    if !condition.device().is_host() && call::assert_later(&holds, &failure, site)? {
        return Ok(());
    }
    match holds.item::<bool>()? {
        true => Ok(()),
        false => Err(failure().error()),
    }
}
