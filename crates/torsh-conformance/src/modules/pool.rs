//! Pooling.

use torsh_nn::*;
use torsh_tensor::{Result, Sizes};

use super::{Args, Built, one};

pub(super) fn build(name: &str, a: &Args) -> Result<Option<Built>> {
    Ok(Some(match name {
        "MaxPool2d" => {
            let kernel_size: Sizes<2> = a.at(0, "kernel_size")?;
            let stride = a.opt(1, "stride")?.unwrap_or(kernel_size);
            one(MaxPool2d::builder(kernel_size)
                .stride(stride)
                .padding(a.or(2, "padding", Sizes([0; 2]))?)
                .dilation(a.or(3, "dilation", Sizes([1; 2]))?)
                .ceil_mode(a.or(5, "ceil_mode", false)?)
                .build()?)
        }
        _ => return Ok(None),
    }))
}
