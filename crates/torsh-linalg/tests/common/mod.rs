//! The dtypes of decompositions, and their precision.

use torsh_tensor::{DType, Result, Tensor};

/// Those that matrices are decomposed in.
pub const DTYPES: [DType; 4] = [DType::F32, DType::F64, DType::C64, DType::C128];

/// The distance from 1 to the next number.
pub fn eps(dtype: DType) -> f64 {
    match dtype {
        DType::F32 | DType::C64 => f64::from(f32::EPSILON),
        _ => f64::EPSILON,
    }
}

/// The numbers in double precision.
pub fn wide(t: &Tensor) -> Result<Tensor> {
    t.to_dtype(if t.dtype().is_complex() {
        DType::C128
    } else {
        DType::F64
    })
}
