//! The last line of an error's text is the place of the call in the program: a line of this test, never of the library.

mod functional;
#[cfg(feature = "linalg")]
mod linalg;
mod tensor;
mod training;

use std::cell::RefCell;
use std::panic::Location;

use torsh::prelude::*;

thread_local! {
    static WRONG: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Notes a call on the caller's line that does not fail, or whose error names another place.
#[track_caller]
fn fails<T>(result: Result<T>) {
    let here = Location::caller();
    let wrong = match result {
        Ok(_) => format!("{here}: did not fail"),
        Err(e) => match e.location() {
            Some(at) if (at.file(), at.line()) == (here.file(), here.line()) => {
                let last = e.to_string();
                let last = last.lines().last().unwrap_or_default().to_string();
                match last == format!("  at {at}") {
                    true => return,
                    false => format!("{here}: the last line is `{last}`"),
                }
            }
            at => format!("{here}: {e:?} names {at:?}"),
        },
    };
    WRONG.with_borrow_mut(|all| all.push(wrong));
}

#[test]
fn errors_name_the_line_of_the_call() {
    let x = ones(&[600, 500]);
    let generator = Generator::new(0);
    tensor::calls(&x, &generator);
    functional::calls(&x, &generator);
    #[cfg(feature = "linalg")]
    linalg::calls(&x);
    training::calls(&x);
    let wrong = WRONG.take();
    assert!(
        wrong.is_empty(),
        "{} calls: {}",
        wrong.len(),
        wrong.join("\n")
    );
}
