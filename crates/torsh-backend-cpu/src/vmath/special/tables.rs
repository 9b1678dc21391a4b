//! Coefficients of the special functions.

pub(crate) mod airy;
pub(crate) mod bessel;
pub(crate) mod gamma;
pub(crate) mod lanes;
pub(crate) mod log;
pub(crate) mod modified;
pub(crate) mod normal;
pub(crate) mod temme;
