//! Recurrent layers.

use torsh_tensor::Result;

use super::{Args, Built};

pub(super) fn build(_name: &str, _a: &Args) -> Result<Option<Built>> {
    Ok(None)
}
