//! Linear algebra, as `torch.linalg`.

#![forbid(unsafe_code)]

mod kernels;

use std::sync::Once;

use torsh_tensor::ops::{self, Family};

static FAMILY: Family = Family {
    feature: "linalg",
    records: &[],
    aliases: &[],
};

/// Adds the ops of this crate to the table of operators, and their kernels to the CPU's. A second call changes nothing.
pub fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        kernels::bring_all();
        ops::register(&FAMILY);
    });
}
