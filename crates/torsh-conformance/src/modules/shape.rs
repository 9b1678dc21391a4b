//! Layers that arrange.

use torsh_nn::*;
use torsh_tensor::{Result, Sizes};

use super::{Args, Built, one};

pub(super) fn build(name: &str, a: &Args) -> Result<Option<Built>> {
    let one_by_one = Sizes([1, 1]);
    Ok(Some(match name {
        "Flatten" => one(Flatten::dims(
            a.or(0, "start_dim", 1)?,
            a.or(1, "end_dim", -1)?,
        )),
        "Identity" => one(Identity::new()),
        "Unflatten" => one(Unflatten::new(
            a.at(0, "dim")?,
            a.at::<Vec<i64>>(1, "unflattened_size")?,
        )),
        "Unfold" => one(Unfold::builder(a.at::<Sizes<2>>(0, "kernel_size")?)
            .dilation(a.or(1, "dilation", one_by_one)?)
            .padding(a.or(2, "padding", Sizes([0, 0]))?)
            .stride(a.or(3, "stride", one_by_one)?)
            .build()?),
        "Fold" => one(Fold::builder(
            a.at::<Sizes<2>>(0, "output_size")?,
            a.at::<Sizes<2>>(1, "kernel_size")?,
        )
        .dilation(a.or(2, "dilation", one_by_one)?)
        .padding(a.or(3, "padding", Sizes([0, 0]))?)
        .stride(a.or(4, "stride", one_by_one)?)
        .build()?),
        "PixelShuffle" => one(PixelShuffle::new(a.at(0, "upscale_factor")?)?),
        "PixelUnshuffle" => one(PixelUnshuffle::new(a.at(0, "downscale_factor")?)?),
        "ChannelShuffle" => one(ChannelShuffle::new(a.at(0, "groups")?)?),
        _ => return Ok(None),
    }))
}
