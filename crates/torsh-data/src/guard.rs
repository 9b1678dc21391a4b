//! Errors and panics of a program's own code, with the place where they happened.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use torsh_tensor::{Result, TorshError};

/// Runs `f`; an error or panic names `place`.
pub(crate) fn guarded<T>(place: impl Fn() -> String, f: impl FnOnce() -> Result<T>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(r) => r.map_err(|e| in_item(e, &place())),
        Err(p) => Err(TorshError::Other(format!(
            "{}: panicked: {}",
            place(),
            panic_text(&*p)
        ))),
    }
}

/// Puts an item's number into its error.
pub(crate) fn in_item(e: TorshError, context: &str) -> TorshError {
    match e {
        TorshError::Io(e) => {
            let named = std::io::Error::new(e.kind(), format!("{context}: {e}"));
            TorshError::from(named).at(e.location())
        }
        TorshError::Other(s) => TorshError::Other(format!("{context}: {s}")),
        TorshError::OutOfMemory => e,
        e => e.renamed(context),
    }
}

/// The text of a panic.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(s), _) => (*s).to_string(),
        (_, Some(s)) => s.clone(),
        _ => "a panic without a text".to_string(),
    }
}
