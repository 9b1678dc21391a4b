//! Tests that use float64 or complex numbers themselves.

/// Their names: they are passed over where the device refuses that.
pub const WIDE: &[&str] = &[
];
