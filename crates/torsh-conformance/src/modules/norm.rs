//! Normalisation.

use torsh_nn::*;
use torsh_tensor::Result;

use super::{Args, Built, one};

macro_rules! batch_norm {
    ($layer:ident, $a:expr) => {
        one($layer::builder($a.at(0, "num_features")?)
            .eps($a.or(1, "eps", 1e-5)?)
            .momentum($a.or(2, "momentum", Some(0.1))?)
            .affine($a.or(3, "affine", true)?)
            .track_running_stats($a.or(4, "track_running_stats", true)?)
            .bias($a.or(7, "bias", true)?)
            .build()?)
    };
}

pub(super) fn build(name: &str, a: &Args) -> Result<Option<Built>> {
    Ok(Some(match name {
        "BatchNorm1d" => batch_norm!(BatchNorm1d, a),
        "BatchNorm2d" => batch_norm!(BatchNorm2d, a),
        _ => return Ok(None),
    }))
}
