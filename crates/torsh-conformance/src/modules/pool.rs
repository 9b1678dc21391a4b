//! Pooling.

use torsh_nn::*;
use torsh_tensor::{OutputSize, Result, Sizes};

use super::{Args, Built, one, with};

/// Both results where `return_indices` is true.
macro_rules! perhaps_indices {
    ($layer:ident, $build:expr, $indices:expr) => {{
        let (layer, indices): ($layer, bool) = ($build, $indices);
        with(layer, move |m: &$layer, c| {
            let x = c.at(0, "input")?;
            if indices {
                let (values, indices) = m.forward_with_indices(&x)?;
                return Ok(vec![values, indices]);
            }
            Ok(vec![m.forward(&x)?])
        })
    }};
}

macro_rules! max {
    ($layer:ident $n:literal, $a:expr) => {{
        let kernel_size: Sizes<$n> = $a.at(0, "kernel_size")?;
        let builder = $layer::builder(kernel_size)
            .stride($a.opt(1, "stride")?.unwrap_or(kernel_size))
            .padding($a.or(2, "padding", Sizes([0; $n]))?)
            .dilation($a.or(3, "dilation", Sizes([1; $n]))?)
            .ceil_mode($a.or(5, "ceil_mode", false)?);
        perhaps_indices!($layer, builder.build()?, $a.or(4, "return_indices", false)?)
    }};
}

macro_rules! avg {
    ($layer:ident $n:literal, $a:expr) => {{
        let kernel_size: Sizes<$n> = $a.at(0, "kernel_size")?;
        one($layer::builder(kernel_size)
            .stride($a.opt(1, "stride")?.unwrap_or(kernel_size))
            .padding($a.or(2, "padding", Sizes([0; $n]))?)
            .ceil_mode($a.or(3, "ceil_mode", false)?)
            .count_include_pad($a.or(4, "count_include_pad", true)?)
            .divisor_override($a.opt::<i64>(5, "divisor_override")?)
            .build()?)
    }};
}

macro_rules! lp {
    ($layer:ident $n:literal, $a:expr) => {{
        let kernel_size: Sizes<$n> = $a.at(1, "kernel_size")?;
        one($layer::builder($a.at(0, "norm_type")?, kernel_size)
            .stride($a.opt(2, "stride")?.unwrap_or(kernel_size))
            .ceil_mode($a.or(3, "ceil_mode", false)?)
            .build()?)
    }};
}

macro_rules! adaptive_avg {
    ($layer:ident $n:literal, $a:expr) => {
        one($layer::new($a.at::<OutputSize<$n>>(0, "output_size")?)?)
    };
}

macro_rules! adaptive_max {
    ($layer:ident $n:literal, $a:expr) => {{
        let layer = $layer::new($a.at::<OutputSize<$n>>(0, "output_size")?)?;
        perhaps_indices!($layer, layer, $a.or(1, "return_indices", false)?)
    }};
}

macro_rules! unpool {
    ($layer:ident $n:literal, $a:expr) => {{
        let kernel_size: Sizes<$n> = $a.at(0, "kernel_size")?;
        let layer = $layer::builder(kernel_size)
            .stride($a.opt(1, "stride")?.unwrap_or(kernel_size))
            .padding($a.or(2, "padding", Sizes([0; $n]))?)
            .build()?;
        with(layer, |m: &$layer, c| {
            let (x, indices) = (c.at(0, "input")?, c.at(1, "indices")?);
            Ok(vec![match c.opt::<Vec<i64>>(2, "output_size")? {
                Some(size) => m.forward_to_size(&x, &indices, size)?,
                None => m.forward_with(&x, &indices)?,
            }])
        })
    }};
}

macro_rules! fractional {
    ($layer:ident $n:literal, $a:expr) => {{
        let mut builder = $layer::builder($a.at::<Sizes<$n>>(0, "kernel_size")?);
        if let Some(size) = $a.opt::<Sizes<$n>>(1, "output_size")? {
            builder = builder.output_size(size);
        }
        if let Some(ratio) = $a.opt::<[f64; $n]>(2, "output_ratio")? {
            builder = builder.output_ratio(ratio);
        }
        if let Some(samples) = $a.opt::<torsh_tensor::Tensor>(4, "_random_samples")? {
            builder = builder.random_samples(&samples);
        }
        perhaps_indices!($layer, builder.build()?, $a.or(3, "return_indices", false)?)
    }};
}

pub(super) fn build(name: &str, a: &Args) -> Result<Option<Built>> {
    Ok(Some(match name {
        "MaxPool1d" => max!(MaxPool1d 1, a),
        "MaxPool2d" => max!(MaxPool2d 2, a),
        "MaxPool3d" => max!(MaxPool3d 3, a),
        "AvgPool1d" => avg!(AvgPool1d 1, a),
        "AvgPool2d" => avg!(AvgPool2d 2, a),
        "AvgPool3d" => avg!(AvgPool3d 3, a),
        "LPPool1d" => lp!(LPPool1d 1, a),
        "LPPool2d" => lp!(LPPool2d 2, a),
        "LPPool3d" => lp!(LPPool3d 3, a),
        "AdaptiveAvgPool1d" => adaptive_avg!(AdaptiveAvgPool1d 1, a),
        "AdaptiveAvgPool2d" => adaptive_avg!(AdaptiveAvgPool2d 2, a),
        "AdaptiveAvgPool3d" => adaptive_avg!(AdaptiveAvgPool3d 3, a),
        "AdaptiveMaxPool1d" => adaptive_max!(AdaptiveMaxPool1d 1, a),
        "AdaptiveMaxPool2d" => adaptive_max!(AdaptiveMaxPool2d 2, a),
        "AdaptiveMaxPool3d" => adaptive_max!(AdaptiveMaxPool3d 3, a),
        "MaxUnpool1d" => unpool!(MaxUnpool1d 1, a),
        "MaxUnpool2d" => unpool!(MaxUnpool2d 2, a),
        "MaxUnpool3d" => unpool!(MaxUnpool3d 3, a),
        "FractionalMaxPool2d" => fractional!(FractionalMaxPool2d 2, a),
        "FractionalMaxPool3d" => fractional!(FractionalMaxPool3d 3, a),
        _ => return Ok(None),
    }))
}
