//! Linear layers.

use torsh_nn::*;
use torsh_tensor::Result;

use super::{Args, Built, one};

pub(super) fn build(name: &str, a: &Args) -> Result<Option<Built>> {
    Ok(Some(match name {
        "Linear" => one(
            Linear::builder(a.at(0, "in_features")?, a.at(1, "out_features")?)
                .bias(a.or(2, "bias", true)?)
                .build()?,
        ),
        _ => return Ok(None),
    }))
}
