//! Inputs of the workloads, drawn from the default generator.

use torsh_core::random::{default_generator, fill_normal, fill_random_range_i64};
use torsh_tensor::{DType, Device, Result, Tensor};

/// How the elements of an input lie in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// One after the other.
    #[default]
    Contiguous,
    /// Every second one of a tensor with twice as many.
    Strided,
    /// With the last two dimensions exchanged.
    Transposed,
    /// With dimension 1 last; of four dimensions only.
    ChannelsLast,
}

impl Layout {
    /// Every layout.
    pub const ALL: [Layout; 4] = [
        Layout::Contiguous,
        Layout::Strided,
        Layout::Transposed,
        Layout::ChannelsLast,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Layout::Contiguous => "contiguous",
            Layout::Strided => "strided",
            Layout::Transposed => "transposed",
            Layout::ChannelsLast => "channels-last",
        }
    }
}

/// Standard normal float32 numbers.
pub fn randn(shape: &[usize]) -> Result<Tensor> {
    let mut data = vec![0f32; shape.iter().product()];
    fill_normal(default_generator(), &mut data, 0.0, 1.0);
    Tensor::from_vec(data, shape)
}

/// Uniform float32 numbers from 0 to below 1.
pub fn rand(shape: &[usize]) -> Result<Tensor> {
    Tensor::rand(shape, DType::F32, Device::Cpu)
}

/// Standard normal float32 numbers that lie in memory as `layout` says, or one after the other
/// where a tensor of so few dimensions cannot lie so.
pub fn laid_out(shape: &[usize], layout: Layout) -> Result<Tensor> {
    let n = shape.len();
    let mut order: Vec<usize> = (0..n).collect();
    match layout {
        Layout::Strided if n >= 1 => {
            let mut twice = shape.to_vec();
            twice[n - 1] *= 2;
            return randn(&twice)?.slice_step(-1, None, None, 2);
        }
        Layout::Transposed if n >= 2 => order.swap(n - 2, n - 1),
        Layout::ChannelsLast if n == 4 => order = vec![0, 2, 3, 1],
        _ => return randn(shape),
    }
    let stored: Vec<usize> = order.iter().map(|&d| shape[d]).collect();
    // Where each dimension is found among the stored ones.
    let back: Vec<i64> = (0..n)
        .map(|d| order.iter().position(|&o| o == d).unwrap_or(d) as i64)
        .collect();
    randn(&stored)?.permute(back)
}

/// int64 numbers from 0 to below `high`.
pub fn randint(high: i64, shape: &[usize]) -> Result<Tensor> {
    let mut data = vec![0i64; shape.iter().product()];
    fill_random_range_i64(default_generator(), &mut data, 0, high);
    Tensor::from_vec(data, shape)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_have_the_shape_and_their_strides() -> Result<()> {
        let strides = [
            (Layout::Contiguous, [60, 20, 5, 1]),
            (Layout::Strided, [120, 40, 10, 2]),
            (Layout::Transposed, [60, 20, 1, 4]),
            (Layout::ChannelsLast, [60, 1, 15, 3]),
        ];
        for (layout, expected) in strides {
            let x = laid_out(&[2, 3, 4, 5], layout)?;
            assert_eq!(x.dims(), [2, 3, 4, 5], "{layout:?}");
            assert_eq!(x.stride(), expected, "{layout:?}");
        }
        assert!(laid_out(&[6], Layout::Transposed)?.is_contiguous()?);
        Ok(())
    }
}
