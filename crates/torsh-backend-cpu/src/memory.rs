//! How kernels reach memory: strides, blocks in L1, conversions between dtypes, stores past the caches.

pub(crate) mod blocks;
pub(crate) mod convert;
pub(crate) mod dense;
pub(crate) mod element;
pub(crate) mod operands;
pub(crate) mod stream;
pub mod strided;
pub(crate) mod transpose;
