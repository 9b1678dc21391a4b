//! Distances.

use torsh_functional::{CosineSimilarityOptions, PairwiseDistanceOptions};
use torsh_nn::*;
use torsh_tensor::{Result, Tensor};

use super::{Args, Built, with};

pub(super) fn build(name: &str, a: &Args) -> Result<Option<Built>> {
    let pair = |c: &Args| -> Result<(Tensor, Tensor)> { Ok((c.at(0, "x1")?, c.at(1, "x2")?)) };
    Ok(Some(match name {
        "CosineSimilarity" => {
            let options = CosineSimilarityOptions {
                dim: a.or(0, "dim", 1)?,
                eps: a.or(1, "eps", 1e-8)?,
            };
            with(
                CosineSimilarity::with(options),
                move |m: &CosineSimilarity, c| {
                    let (x1, x2) = pair(c)?;
                    Ok(vec![m.forward_with(&x1, &x2)?])
                },
            )
        }
        "PairwiseDistance" => {
            let options = PairwiseDistanceOptions {
                p: a.or(0, "p", 2.0)?,
                eps: a.or(1, "eps", 1e-6)?,
                keepdim: a.or(2, "keepdim", false)?,
            };
            with(
                PairwiseDistance::with(options),
                move |m: &PairwiseDistance, c| {
                    let (x1, x2) = pair(c)?;
                    Ok(vec![m.forward_with(&x1, &x2)?])
                },
            )
        }
        _ => return Ok(None),
    }))
}
