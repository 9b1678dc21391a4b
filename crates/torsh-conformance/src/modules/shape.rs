//! Layers that arrange.

use torsh_nn::*;
use torsh_tensor::Result;

use super::{Args, Built, one};

pub(super) fn build(name: &str, a: &Args) -> Result<Option<Built>> {
    Ok(Some(match name {
        "Flatten" => one(Flatten::dims(
            a.or(0, "start_dim", 1)?,
            a.or(1, "end_dim", -1)?,
        )),
        "Identity" => one(Identity::new()),
        _ => return Ok(None),
    }))
}
