//! Convolutions.

use torsh_nn::*;
use torsh_tensor::{Result, Sizes, TorshError};

use super::{Args, Built, one};

pub(super) fn build(name: &str, a: &Args) -> Result<Option<Built>> {
    Ok(Some(match name {
        "Conv2d" => one(Conv2d::builder(
            a.at(0, "in_channels")?,
            a.at(1, "out_channels")?,
            a.at::<Sizes<2>>(2, "kernel_size")?,
        )
        .stride(a.or(3, "stride", Sizes([1; 2]))?)
        .padding(a.or(4, "padding", Padding::Sizes([0; 2]))?)
        .dilation(a.or(5, "dilation", Sizes([1; 2]))?)
        .groups(a.or(6, "groups", 1)?)
        .bias(a.or(7, "bias", true)?)
        .padding_mode(padding_mode(a)?)
        .build()?),
        _ => return Ok(None),
    }))
}

fn padding_mode(a: &Args) -> Result<PaddingMode> {
    match a.or(8, "padding_mode", "zeros".to_string())?.as_str() {
        "zeros" => Ok(PaddingMode::Zeros),
        "reflect" => Ok(PaddingMode::Reflect),
        "replicate" => Ok(PaddingMode::Replicate),
        "circular" => Ok(PaddingMode::Circular),
        other => Err(TorshError::invalid(
            "Conv",
            format!("padding_mode is {other}"),
        )),
    }
}
