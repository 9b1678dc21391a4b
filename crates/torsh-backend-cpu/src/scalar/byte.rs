//! Bools as they lie in memory.

use std::fmt;

/// The byte of a bool tensor's element: 0 is false, any other is true. A `bool` of Rust has but the
/// patterns 0 and 1, and a tensor's memory may come from a file, or be written as `uint8` through
/// another view; so no kernel reads it as `bool`.
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
pub(crate) struct Byte(u8);

impl Byte {
    /// The byte of true or false.
    #[inline(always)]
    pub const fn new(b: bool) -> Byte {
        Byte(b as u8)
    }

    /// What it stands for.
    #[inline(always)]
    pub const fn get(self) -> bool {
        self.0 != 0
    }
}

impl PartialEq for Byte {
    #[inline(always)]
    fn eq(&self, o: &Byte) -> bool {
        self.get() == o.get()
    }
}

impl fmt::Debug for Byte {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}
