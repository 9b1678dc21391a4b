//! The values that images of a dtype have.

use torsh_tensor::{DType, Result, TorshError};

/// The largest value that an image of the dtype has.
pub(in crate::transforms) fn max_value(dtype: DType) -> Result<f64> {
    if dtype.is_floating_point() {
        return Ok(1.0);
    }
    Ok(((1u64 << value_bits("image", dtype)?) - 1) as f64)
}

/// How many bits of an integer are of its value. An int32 image is one of 16 bits, torchvision's uint16, which ToRSh has
/// no dtype for: [`decode_image`](crate::io::decode_image) gives such images.
pub(super) fn value_bits(op: &'static str, dtype: DType) -> Result<u32> {
    match dtype {
        DType::U8 => Ok(8),
        DType::I8 => Ok(7),
        DType::I16 => Ok(15),
        DType::I32 => Ok(16),
        DType::I64 => Ok(63),
        other => Err(TorshError::dtype(
            op,
            format!("images are integers or floating-point numbers, not {other}"),
        )),
    }
}
