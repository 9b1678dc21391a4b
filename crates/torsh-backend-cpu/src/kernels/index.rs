//! Indexing, gathering and scattering.
//!
//! Every kernel that reads or writes through index tensors is one walk over three operands at
//! once: the dense side, the indexed side with a stride of 0 in its indexed dimensions, and the
//! index itself, broadcast to the same shape ([`engine`]). Index values are all checked before the
//! first element is written. Writes happen in row-major order of the dense side, so duplicates
//! have one result whatever the number of threads.

pub(crate) mod choose;
pub(crate) mod compare;
mod engine;
mod flat;
pub(crate) mod gather;
pub(crate) mod masked;
pub(crate) mod misc;
mod num;
mod positions;
mod rows;
pub(crate) mod scatter;
mod scratch;
pub(crate) mod strided;
#[cfg(feature = "unit-tests")]
mod tests;
mod walk;

pub(crate) use crate::machine::tuning::index::GRAIN;
pub(crate) use scratch::ScratchSlice;
pub(crate) use walk::{IndexPtr, IndexWalk};

/// Runs `$body` with `$T` a type.
macro_rules! with_type {
    ($T:ident = $t:ty => $body:expr) => {{
        type $T = $t;
        $body
    }};
}
pub(crate) use with_type;

/// Runs `$body` with `$T` a plain type of the element size of `$dtype`.
macro_rules! by_size {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype.size() {
            1 => $crate::kernels::index::with_type!($T = u8 => $body),
            2 => $crate::kernels::index::with_type!($T = u16 => $body),
            4 => $crate::kernels::index::with_type!($T = u32 => $body),
            8 => $crate::kernels::index::with_type!($T = u64 => $body),
            _ => $crate::kernels::index::with_type!($T = [u64; 2] => $body),
        }
    };
}
pub(crate) use by_size;

/// Runs `$body` with `$T` the element type of `$dtype`.
macro_rules! by_dtype {
    ($dtype:expr, $T:ident => $body:expr) => {{
        use torsh_core::DType as D;
        match $dtype {
            D::U8 => $crate::kernels::index::with_type!($T = u8 => $body),
            D::I8 => $crate::kernels::index::with_type!($T = i8 => $body),
            D::I16 => $crate::kernels::index::with_type!($T = i16 => $body),
            D::I32 => $crate::kernels::index::with_type!($T = i32 => $body),
            D::I64 => $crate::kernels::index::with_type!($T = i64 => $body),
            D::F16 => $crate::kernels::index::with_type!($T = half::f16 => $body),
            D::BF16 => $crate::kernels::index::with_type!($T = half::bf16 => $body),
            D::F32 => $crate::kernels::index::with_type!($T = f32 => $body),
            D::F64 => $crate::kernels::index::with_type!($T = f64 => $body),
            D::C64 => $crate::kernels::index::with_type!($T = num_complex::Complex<f32> => $body),
            D::C128 => $crate::kernels::index::with_type!($T = num_complex::Complex<f64> => $body),
            D::Bool => $crate::kernels::index::with_type!($T = crate::scalar::byte::Byte => $body),
        }
    }};
}
pub(crate) use by_dtype;
