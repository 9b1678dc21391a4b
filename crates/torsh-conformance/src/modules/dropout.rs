//! Dropout.

use torsh_nn::*;
use torsh_tensor::Result;

use super::{Args, Built, one};

pub(super) fn build(name: &str, a: &Args) -> Result<Option<Built>> {
    Ok(Some(match name {
        "Dropout" => one(Dropout::new(a.or(0, "p", 0.5)?)?),
        _ => return Ok(None),
    }))
}
