//! Checks of values.
//!
//! - `Assert` ([`attrs::Assert`]): an error unless the operand, one bool, is true.

use torsh_core::{DType, KernelArgs, Result, TorshError, attrs};

pub(crate) fn assert(args: &KernelArgs<'_>) -> Result<()> {
    let [x] = args.inputs() else {
        return Err(TorshError::invalid("", "expected 1 input"));
    };
    if x.dtype() != DType::Bool || x.numel() != 1 {
        return Err(TorshError::dtype(
            "",
            format!("expected one bool, not {x:?}"),
        ));
    }
    // SAFETY: the operand is one byte of memory (checked).
    match unsafe { x.ptr().read() } {
        0 => Err(args.attrs::<attrs::Assert>()?.error()),
        _ => Ok(()),
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use torsh_core::{Kernel, View};

    #[torsh_macros::unit_test]
    fn what_is_false_is_the_error_of_the_call() {
        let check = attrs::Assert::index("7 is out of range").with_hint("count from 0");
        let run = |mut truth: u8| {
            // SAFETY: one byte, which lives until the kernel has returned.
            let x = unsafe { View::new(&raw mut truth, DType::Bool, &[], &[]) };
            crate::testing::run(Kernel::Assert, DType::Bool, &[], &[x], &check)
        };
        assert!(run(1).is_ok());
        let e = run(0).expect_err("it is false");
        assert!(matches!(e, TorshError::Index(_)), "{e}");
        let e = e.to_string();
        assert!(
            e.contains("7 is out of range") && e.contains("hint: count from 0"),
            "{e}"
        );
    }
}
