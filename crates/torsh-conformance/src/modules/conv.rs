//! Convolutions.

use torsh_nn::*;
use torsh_tensor::{Result, Sizes, TorshError};

use super::{Args, Built, one, with};

macro_rules! conv {
    ($layer:ident $n:literal, $a:expr) => {
        one($layer::builder(
            $a.at(0, "in_channels")?,
            $a.at(1, "out_channels")?,
            $a.at::<Sizes<$n>>(2, "kernel_size")?,
        )
        .stride($a.or(3, "stride", Sizes([1; $n]))?)
        .padding($a.or(4, "padding", Padding::Sizes([0; $n]))?)
        .dilation($a.or(5, "dilation", Sizes([1; $n]))?)
        .groups($a.or(6, "groups", 1)?)
        .bias($a.or(7, "bias", true)?)
        .padding_mode(padding_mode($a)?)
        .build()?)
    };
}

macro_rules! transpose {
    ($layer:ident $n:literal, $a:expr) => {
        with(
            $layer::builder(
                $a.at(0, "in_channels")?,
                $a.at(1, "out_channels")?,
                $a.at::<Sizes<$n>>(2, "kernel_size")?,
            )
            .stride($a.or(3, "stride", Sizes([1; $n]))?)
            .padding($a.or(4, "padding", Sizes([0; $n]))?)
            .output_padding($a.or(5, "output_padding", Sizes([0; $n]))?)
            .groups($a.or(6, "groups", 1)?)
            .bias($a.or(7, "bias", true)?)
            .dilation($a.or(8, "dilation", Sizes([1; $n]))?)
            .build()?,
            |m: &$layer, c| {
                let x = c.at(0, "input")?;
                Ok(vec![match c.opt::<Vec<i64>>(1, "output_size")? {
                    Some(size) => m.forward_with(&x, size)?,
                    None => m.forward(&x)?,
                }])
            },
        )
    };
}

pub(super) fn build(name: &str, a: &Args) -> Result<Option<Built>> {
    Ok(Some(match name {
        "Conv1d" => conv!(Conv1d 1, a),
        "Conv2d" => conv!(Conv2d 2, a),
        "Conv3d" => conv!(Conv3d 3, a),
        "ConvTranspose1d" => transpose!(ConvTranspose1d 1, a),
        "ConvTranspose2d" => transpose!(ConvTranspose2d 2, a),
        "ConvTranspose3d" => transpose!(ConvTranspose3d 3, a),
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
