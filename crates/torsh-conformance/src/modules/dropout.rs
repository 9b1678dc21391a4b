//! Dropout.

use torsh_nn::*;
use torsh_tensor::Result;

use super::{Args, Built, one};

macro_rules! dropout {
    ($layer:ident, $a:expr) => {
        one($layer::new($a.or(0, "p", 0.5)?)?.inplace($a.or(1, "inplace", false)?))
    };
}

pub(super) fn build(name: &str, a: &Args) -> Result<Option<Built>> {
    Ok(Some(match name {
        "Dropout" => dropout!(Dropout, a),
        "Dropout1d" => dropout!(Dropout1d, a),
        "Dropout2d" => dropout!(Dropout2d, a),
        "Dropout3d" => dropout!(Dropout3d, a),
        "AlphaDropout" => dropout!(AlphaDropout, a),
        "FeatureAlphaDropout" => dropout!(FeatureAlphaDropout, a),
        _ => return Ok(None),
    }))
}
