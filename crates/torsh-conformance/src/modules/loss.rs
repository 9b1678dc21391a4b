//! Losses.

use torsh_functional::{CrossEntropyOptions, NllLossOptions};
use torsh_nn::*;
use torsh_tensor::Result;

use super::{Args, Built, two};

pub(super) fn build(name: &str, a: &Args) -> Result<Option<Built>> {
    let reduction = |position| a.or(position, "reduction", Reduction::Mean);
    Ok(Some(match name {
        "CrossEntropyLoss" => {
            let options = CrossEntropyOptions {
                weight: a.opt(0, "weight")?,
                ignore_index: a.or(2, "ignore_index", -100)?,
                reduction: reduction(4)?,
                label_smoothing: a.or(5, "label_smoothing", 0.0)?,
            };
            two(
                CrossEntropyLoss::with(options),
                CrossEntropyLoss::forward_with,
            )
        }
        "MSELoss" => two(MSELoss::with(reduction(2)?), MSELoss::forward_with),
        "NLLLoss" => {
            let options = NllLossOptions {
                weight: a.opt(0, "weight")?,
                ignore_index: a.or(2, "ignore_index", -100)?,
                reduction: reduction(4)?,
            };
            two(NLLLoss::with(options), NLLLoss::forward_with)
        }
        _ => return Ok(None),
    }))
}
