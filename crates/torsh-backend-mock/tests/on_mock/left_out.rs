//! Tests that are not run on the mock device.

/// A test's name, and why it has no place here.
pub const LEFT_OUT: &[(&str, &str)] = &[];
