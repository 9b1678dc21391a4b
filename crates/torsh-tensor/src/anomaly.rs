//! Finds the op that produced the first nan or infinity of a forward pass.

use torsh_core::attrs::Field;
use torsh_core::{Attributes, Result, Scalar, TorshError};

use crate::call::Arg;
use crate::mode::{self, ANOMALY, CHECK_FORWARD, ModeGuard};
use crate::options::options;
use crate::{Device, Tensor};

options! {
    /// What [`detect_anomaly_with`] looks at beside the gradients of backward passes.
    ///
    /// ```
    /// use torsh_tensor::AnomalyOptions;
    /// let options = AnomalyOptions::new();
    /// assert!(!options.check_forward);
    /// assert!(options.check_forward(true).check_forward);
    /// ```
    AnomalyOptions {
        /// Whether each op's results are looked at too: the first op that makes nan or infinite
        /// values from operands that have none is an error, which names it and where it was called.
        /// Each op takes as long again.
        check_forward: bool = false;
    }
}

/// [`detect_anomaly_with`] until the guard is dropped.
///
/// ```
/// use torsh_tensor::{AnomalyOptions, detect_anomaly_guard_with, is_anomaly_enabled};
/// let _guard = detect_anomaly_guard_with(AnomalyOptions::new());
/// assert!(is_anomaly_enabled());
/// ```
pub fn detect_anomaly_guard_with(options: AnomalyOptions) -> ModeGuard {
    match options.check_forward {
        true => mode::guard(ANOMALY | CHECK_FORWARD, 0),
        false => mode::guard(ANOMALY, CHECK_FORWARD),
    }
}

/// [`detect_anomaly`](crate::detect_anomaly) with options: the forward pass can be checked too.
///
/// What an op gets as a number counts as an operand: `masked_fill(&mask, f64::NEG_INFINITY)` may
/// make infinities. Copies, and what optimizers write, are not looked at.
///
/// ```
/// use torsh_tensor::{AnomalyOptions, detect_anomaly_with, tensor};
/// let x = tensor![1.0, 0.0];
/// let options = AnomalyOptions::new().check_forward(true);
/// let e = detect_anomaly_with(options, || x.log()?.mul(0.0)?.add(1.0)).unwrap_err().to_string();
/// assert!(e.contains("log") && e.contains("0 nan and 1 infinite"), "{e}");
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// What `f` returns, or the first op with such a result.
#[torsh_tensor::names_caller]
pub fn detect_anomaly_with<T>(options: AnomalyOptions, f: impl FnOnce() -> Result<T>) -> Result<T> {
    let _guard = detect_anomaly_guard_with(options);
    f()
}

/// How many elements are nan, and how many infinite.
fn counts(t: &Tensor) -> Result<[i64; 2]> {
    if !t.dtype().is_differentiable() || t.device() == Device::Meta || t.numel() == 0 {
        return Ok([0, 0]);
    }
    let t = t.stored();
    let bad = |mask: Tensor| mask.sum()?.item::<i64>();
    match bad(t.isfinite()?.logical_not()?)? {
        0 => Ok([0, 0]),
        all => {
            let nan = bad(t.isnan()?)?;
            Ok([nan, all - nan])
        }
    }
}

/// The checks are ops themselves, of which nobody is to know.
fn quietly<T>(f: impl FnOnce() -> Result<T>) -> Result<T> {
    let _quiet = mode::guard(
        mode::NO_GRAD,
        mode::OBSERVE | mode::AUTOCAST | mode::CHECKPOINT | CHECK_FORWARD,
    );
    f()
}

fn is_finite(s: Scalar) -> bool {
    let (re, im) = s.to_complex();
    re.is_finite() && im.is_finite()
}

/// Whether operands and arguments have neither nan nor infinite values.
pub(crate) fn clean(args: &[Arg<'_>], attrs: &dyn Attributes) -> Result<bool> {
    let finite = |f: &Field<'_>| match f {
        Field::Float(f) => f.is_finite(),
        Field::Floats(v) => v.iter().all(|f| f.is_finite()),
        Field::Scalar(s) => is_finite(*s),
        _ => true,
    };
    if !attrs.fields().iter().all(|(_, f)| finite(f)) {
        return Ok(false);
    }
    quietly(|| {
        for a in args {
            let fine = match a {
                Arg::T(t) => counts(t)? == [0, 0],
                Arg::N(n) => is_finite(*n),
                Arg::Absent => true,
            };
            if !fine {
                return Ok(false);
            }
        }
        Ok(true)
    })
}

/// Refuses results with nan or infinite values, where the operands (`clean`) had none.
pub(crate) fn check(outs: &[Tensor], clean: impl FnOnce() -> Result<bool>) -> Result<()> {
    for (i, t) in outs.iter().enumerate() {
        let [nan, infinite] = quietly(|| counts(t))?;
        if nan + infinite == 0 {
            continue;
        }
        if !clean()? {
            return Ok(());
        }
        return Err(TorshError::invalid(
            "",
            format!(
                "output {i} has {nan} nan and {infinite} infinite of {} values, and no operand has any",
                t.numel()
            ),
        )
        .with_hint("this is the first such op of the forward pass; look at the operands' sizes, or raise an eps"));
    }
    Ok(())
}
