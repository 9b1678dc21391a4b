//! Normalisation.

use torsh_nn::*;
use torsh_tensor::Result;

use super::{Args, Built, one};

macro_rules! with_statistics {
    ($layer:ident $default:literal, $a:expr) => {
        one($layer::builder($a.at(0, "num_features")?)
            .eps($a.or(1, "eps", 1e-5)?)
            .momentum($a.or(2, "momentum", Some(0.1))?)
            .affine($a.or(3, "affine", $default)?)
            .track_running_stats($a.or(4, "track_running_stats", $default)?)
            .bias($a.or(7, "bias", true)?)
            .build()?)
    };
}

/// One size, or several.
fn shape(a: &Args) -> Result<Vec<i64>> {
    match a.at::<Vec<i64>>(0, "normalized_shape") {
        Ok(shape) => Ok(shape),
        Err(_) => Ok(vec![a.at(0, "normalized_shape")?]),
    }
}

pub(super) fn build(name: &str, a: &Args) -> Result<Option<Built>> {
    Ok(Some(match name {
        "BatchNorm1d" => with_statistics!(BatchNorm1d true, a),
        "BatchNorm2d" => with_statistics!(BatchNorm2d true, a),
        "BatchNorm3d" => with_statistics!(BatchNorm3d true, a),
        "InstanceNorm1d" => with_statistics!(InstanceNorm1d false, a),
        "InstanceNorm2d" => with_statistics!(InstanceNorm2d false, a),
        "InstanceNorm3d" => with_statistics!(InstanceNorm3d false, a),
        "LayerNorm" => one(LayerNorm::builder(shape(a)?)
            .eps(a.or(1, "eps", 1e-5)?)
            .elementwise_affine(a.or(2, "elementwise_affine", true)?)
            .bias(a.or(3, "bias", true)?)
            .build()?),
        "RMSNorm" => one(RMSNorm::builder(shape(a)?)
            .eps(a.opt::<f64>(1, "eps")?)
            .elementwise_affine(a.or(2, "elementwise_affine", true)?)
            .build()?),
        "GroupNorm" => one(
            GroupNorm::builder(a.at(0, "num_groups")?, a.at(1, "num_channels")?)
                .eps(a.or(2, "eps", 1e-5)?)
                .affine(a.or(3, "affine", true)?)
                .bias(a.or(6, "bias", true)?)
                .build()?,
        ),
        "LocalResponseNorm" => one(LocalResponseNorm::builder(a.at(0, "size")?)
            .alpha(a.or(1, "alpha", 1e-4)?)
            .beta(a.or(2, "beta", 0.75)?)
            .k(a.or(3, "k", 1.0)?)
            .build()?),
        _ => return Ok(None),
    }))
}
