//! Transforms of values.

use torsh_tensor::{DType, Result, Tensor, TorshError};

use super::Transform;

/// An image uint8 `[height, width, channels]`, as arrays of pixels are, as float32
/// `[channels, height, width]` from 0 to 1 (`torchvision.transforms.ToTensor`); other dtypes keep
/// their values. For images that are `[channels, height, width]` already there is
/// [`ConvertImageDtype`].
#[derive(Clone, Copy, Debug, Default)]
pub struct ToTensor;

impl Transform for ToTensor {
    fn apply(&self, x: &Tensor) -> Result<Tensor> {
        let x = match x.dims() {
            [_, _] => x.unsqueeze(0)?,
            [_, _, 1..=4] => x.permute([2, 0, 1])?.contiguous()?,
            _ => {
                return Err(TorshError::shape(
                    "ToTensor",
                    format!(
                        "expected an image [height, width] or [height, width, channels] of 1 to 4 channels, got {}",
                        x.describe()
                    ),
                )
                .with_hint("for [channels, height, width] use ConvertImageDtype"));
            }
        };
        if x.dtype() == DType::U8 {
            x.to_dtype(DType::F32)?.div(255.0)
        } else {
            Ok(x)
        }
    }
}

/// An image in another dtype, scaled so that the largest value stays the largest
/// (`torchvision.transforms.ConvertImageDtype`): uint8 from 0 to 255 is float32 from 0 to 1.
#[derive(Clone, Copy, Debug)]
pub struct ConvertImageDtype {
    dtype: DType,
}

impl ConvertImageDtype {
    /// To this dtype.
    pub fn new(dtype: DType) -> Self {
        ConvertImageDtype { dtype }
    }
}

/// The largest value of an integer dtype.
fn max_value(dtype: DType) -> Result<i64> {
    match dtype {
        DType::U8 => Ok(i64::from(u8::MAX)),
        DType::I8 => Ok(i64::from(i8::MAX)),
        DType::I16 => Ok(i64::from(i16::MAX)),
        DType::I32 => Ok(i64::from(i32::MAX)),
        DType::I64 => Ok(i64::MAX),
        other => Err(TorshError::dtype(
            "ConvertImageDtype",
            format!("images are integers or floating-point numbers, not {other}"),
        )),
    }
}

impl Transform for ConvertImageDtype {
    fn apply(&self, x: &Tensor) -> Result<Tensor> {
        let (from, to) = (x.dtype(), self.dtype);
        match (from.is_floating_point(), to.is_floating_point()) {
            _ if from == to => Ok(x.clone()),
            (true, true) => x.to_dtype(to),
            (false, true) => x.to_dtype(to)?.div(max_value(from)? as f64),
            (true, false) => {
                let largest = max_value(to)?;
                // The products would not be exact.
                if (from != DType::F64 && to.size() >= 4) || to == DType::I64 {
                    return Err(TorshError::dtype(
                        "ConvertImageDtype",
                        format!("the cast from {from} to {to} cannot be performed safely"),
                    ));
                }
                x.mul(largest as f64 + 1.0 - 1e-3)?.to_dtype(to)
            }
            (false, false) => {
                let (a, b) = (max_value(from)?, max_value(to)?);
                // Both are powers of two less one.
                if a > b {
                    let factor = 1i64 << (a.count_ones() - b.count_ones());
                    x.floor_divide(factor)?.to_dtype(to)
                } else {
                    let factor = 1i64 << (b.count_ones() - a.count_ones());
                    x.to_dtype(to)?.mul(factor)
                }
            }
        }
    }
}

/// `(x - mean) / std` of each channel (`torchvision.transforms.Normalize`).
#[derive(Clone, Debug)]
pub struct Normalize {
    mean: Vec<f64>,
    std: Vec<f64>,
}

impl Normalize {
    /// The mean and deviation of each channel. Errors: not as many of one as of the other, a
    /// deviation of 0.
    #[track_caller]
    pub fn new(mean: impl Into<Vec<f64>>, std: impl Into<Vec<f64>>) -> Result<Self> {
        let (mean, std) = (mean.into(), std.into());
        let refuse = |m: String| Err(TorshError::invalid("Normalize", m));
        if mean.len() != std.len() || mean.is_empty() {
            return refuse(format!(
                "a mean and a std for each channel, got {} and {}",
                mean.len(),
                std.len()
            ));
        }
        if std.contains(&0.0) {
            return refuse("std has a zero, which leads to division by zero".to_string());
        }
        Ok(Normalize { mean, std })
    }
}

impl Transform for Normalize {
    fn apply(&self, x: &Tensor) -> Result<Tensor> {
        super::image_size("Normalize", x)?;
        if !x.dtype().is_floating_point() {
            return Err(TorshError::dtype(
                "Normalize",
                format!(
                    "Input tensor should be a float tensor, got {}",
                    x.describe()
                ),
            )
            .with_hint("ConvertImageDtype or ToTensor before it makes one"));
        }
        let channels = x.dims()[x.ndim() - 3];
        if self.mean.len() != 1 && self.mean.len() != channels {
            return Err(TorshError::shape(
                "Normalize",
                format!(
                    "{} means for the {channels} channels of {}",
                    self.mean.len(),
                    x.describe()
                ),
            ));
        }
        let each = |v: &[f64]| Tensor::from_slice(v, [v.len(), 1, 1], x.dtype(), x.device());
        x.sub(&each(&self.mean)?)?.div(&each(&self.std)?)
    }
}

/// Classes as rows of zeros with a one (`torch.nn.functional.one_hot`), as numbers to compute
/// with.
#[derive(Clone, Copy, Debug)]
pub struct OneHot {
    num_classes: usize,
}

impl OneHot {
    /// Of this many classes.
    pub fn new(num_classes: usize) -> Self {
        OneHot { num_classes }
    }
}

impl Transform for OneHot {
    fn apply(&self, x: &Tensor) -> Result<Tensor> {
        x.one_hot(self.num_classes as i64)?.to_dtype(DType::F32)
    }
}
