//! Catches panics, silences them, and reports them as failures with their origin.

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    /// The panic seen while this thread was catching.
    static CAUGHT: RefCell<Option<String>> = const { RefCell::new(None) };
    static CATCHING: RefCell<bool> = const { RefCell::new(false) };
}

/// Runs `f`; a panic becomes an error with its message and place, and prints nothing.
///
/// # Errors
/// `panicked: MESSAGE (FILE:LINE)`.
pub fn catch<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if CATCHING.with(|c| *c.borrow()) {
                let place = info
                    .location()
                    .map(|l| format!(" ({}:{})", l.file(), l.line()));
                let payload = info.payload();
                let text = payload
                    .downcast_ref::<String>()
                    .map(String::as_str)
                    .or_else(|| payload.downcast_ref::<&str>().copied())
                    .unwrap_or("no message");
                let text = format!("panicked: {text}{}", place.unwrap_or_default());
                CAUGHT.with(|c| *c.borrow_mut() = Some(text));
            } else {
                before(info);
            }
        }));
    });
    CATCHING.with(|c| *c.borrow_mut() = true);
    let result = panic::catch_unwind(AssertUnwindSafe(f));
    CATCHING.with(|c| *c.borrow_mut() = false);
    let caught = CAUGHT.with(|c| c.borrow_mut().take());
    result.map_err(|_| caught.unwrap_or_else(|| "panicked".to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_with_its_place() {
        assert_eq!(catch(|| 3), Ok(3));
        let error = catch(|| -> i32 { panic!("too {}", "bad") }).unwrap_err();
        assert!(
            error.starts_with("panicked: too bad (") && error.contains("panics.rs"),
            "{error}"
        );
        assert_eq!(catch(|| 4), Ok(4));
    }
}
