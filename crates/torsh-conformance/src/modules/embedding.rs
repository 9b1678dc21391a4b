//! Tables of rows.

use torsh_nn::*;
use torsh_tensor::{Result, Tensor, TorshError};

use super::{Args, Built, one, with};

fn mode(a: &Args) -> Result<EmbeddingBagMode> {
    match a.or(5, "mode", "mean".to_string())?.as_str() {
        "sum" => Ok(EmbeddingBagMode::Sum),
        "mean" => Ok(EmbeddingBagMode::Mean),
        "max" => Ok(EmbeddingBagMode::Max),
        other => Err(TorshError::invalid(
            "EmbeddingBag",
            format!("mode is {other}"),
        )),
    }
}

pub(super) fn build(name: &str, a: &Args) -> Result<Option<Built>> {
    Ok(Some(match name {
        "Embedding" => one(Embedding::builder(
            a.at(0, "num_embeddings")?,
            a.at(1, "embedding_dim")?,
        )
        .padding_idx(a.opt::<i64>(2, "padding_idx")?)
        .max_norm(a.opt::<f64>(3, "max_norm")?)
        .norm_type(a.or(4, "norm_type", 2.0)?)
        .scale_grad_by_freq(a.or(5, "scale_grad_by_freq", false)?)
        .build()?),
        "EmbeddingBag" => with(
            EmbeddingBag::builder(a.at(0, "num_embeddings")?, a.at(1, "embedding_dim")?)
                .max_norm(a.opt::<f64>(2, "max_norm")?)
                .norm_type(a.or(3, "norm_type", 2.0)?)
                .scale_grad_by_freq(a.or(4, "scale_grad_by_freq", false)?)
                .mode(mode(a)?)
                .include_last_offset(a.or(8, "include_last_offset", false)?)
                .padding_idx(a.opt::<i64>(9, "padding_idx")?)
                .build()?,
            |m: &EmbeddingBag, c| {
                let offsets = c.opt::<Tensor>(1, "offsets")?;
                let weights = c.opt::<Tensor>(2, "per_sample_weights")?;
                let x = c.at(0, "input")?;
                Ok(vec![m.forward_with(
                    &x,
                    offsets.as_ref(),
                    weights.as_ref(),
                )?])
            },
        ),
        _ => return Ok(None),
    }))
}
