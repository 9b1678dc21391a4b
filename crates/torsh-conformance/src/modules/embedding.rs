//! Tables of rows.

use torsh_nn::*;
use torsh_tensor::Result;

use super::{Args, Built, one};

pub(super) fn build(name: &str, a: &Args) -> Result<Option<Built>> {
    Ok(Some(match name {
        "Embedding" => one(Embedding::builder(
            a.at(0, "num_embeddings")?,
            a.at(1, "embedding_dim")?,
        )
        .padding_idx(a.opt::<i64>(2, "padding_idx")?)
        .build()?),
        _ => return Ok(None),
    }))
}
