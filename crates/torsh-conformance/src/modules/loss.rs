//! Losses.

use torsh_functional::*;
use torsh_nn::*;
use torsh_tensor::{Result, Tensor, TorshError};

use super::{Args, Built, two, with};

/// A loss of three tensors.
fn three<M: Module>(
    layer: M,
    names: [&'static str; 3],
    forward: impl Fn(&M, &Tensor, &Tensor, &Tensor) -> Result<Tensor> + 'static,
) -> Built {
    with(layer, move |m, c| {
        let (a, b): (Tensor, Tensor) = (c.at(0, names[0])?, c.at(1, names[1])?);
        Ok(vec![forward(m, &a, &b, &c.at(2, names[2])?)?])
    })
}

/// Lengths: integers or a tensor of them.
fn lengths(c: &Args, position: usize, name: &str) -> Result<Vec<i64>> {
    match c.at::<Tensor>(position, name) {
        Ok(t) => (&t).lengths(),
        Err(_) => c.at(position, name),
    }
}

pub(super) fn build(name: &str, a: &Args) -> Result<Option<Built>> {
    let reduction = |position| a.or(position, "reduction", Reduction::Mean);
    Ok(Some(match name {
        "BCELoss" => {
            let options = BceOptions {
                weight: a.opt(0, "weight")?,
                reduction: reduction(3)?,
            };
            two(BCELoss::with(options), BCELoss::forward_with)
        }
        "BCEWithLogitsLoss" => {
            let options = BceWithLogitsOptions {
                weight: a.opt(0, "weight")?,
                reduction: reduction(3)?,
                pos_weight: a.opt(4, "pos_weight")?,
            };
            two(
                BCEWithLogitsLoss::with(options),
                BCEWithLogitsLoss::forward_with,
            )
        }
        "CTCLoss" => {
            let options = CtcLossOptions {
                blank: a.or(0, "blank", 0)?,
                reduction: reduction(1)?,
                zero_infinity: a.or(2, "zero_infinity", false)?,
            };
            with(CTCLoss::with(options), |m: &CTCLoss, c| {
                let inputs = lengths(c, 2, "input_lengths")?;
                let targets = lengths(c, 3, "target_lengths")?;
                let (x, y): (Tensor, Tensor) = (c.at(0, "log_probs")?, c.at(1, "targets")?);
                Ok(vec![m.forward_with(&x, &y, inputs, targets)?])
            })
        }
        "CosineEmbeddingLoss" => {
            let options = CosineEmbeddingLossOptions {
                margin: a.or(0, "margin", 0.0)?,
                reduction: reduction(3)?,
            };
            three(
                CosineEmbeddingLoss::with(options),
                ["input1", "input2", "target"],
                CosineEmbeddingLoss::forward_with,
            )
        }
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
        "GaussianNLLLoss" => {
            let options = GaussianNllLossOptions {
                full: a.or(usize::MAX, "full", false)?,
                eps: a.or(usize::MAX, "eps", 1e-6)?,
                reduction: reduction(usize::MAX)?,
            };
            three(
                GaussianNLLLoss::with(options),
                ["input", "target", "var"],
                |m: &GaussianNLLLoss, x, y, var| m.forward_with(x, y, var),
            )
        }
        "HingeEmbeddingLoss" => {
            let options = HingeEmbeddingLossOptions {
                margin: a.or(0, "margin", 1.0)?,
                reduction: reduction(3)?,
            };
            two(
                HingeEmbeddingLoss::with(options),
                HingeEmbeddingLoss::forward_with,
            )
        }
        "HuberLoss" => {
            let options = HuberLossOptions {
                reduction: reduction(0)?,
                delta: a.or(1, "delta", 1.0)?,
                weight: None,
            };
            two(HuberLoss::with(options), HuberLoss::forward_with)
        }
        "KLDivLoss" => {
            let options = KlDivOptions {
                reduction: reduction(2)?,
                log_target: a.or(3, "log_target", false)?,
            };
            two(KLDivLoss::with(options), KLDivLoss::forward_with)
        }
        "L1Loss" => two(
            L1Loss::with(LossOptions::new().reduction(reduction(2)?)),
            L1Loss::forward_with,
        ),
        "LinearCrossEntropyLoss" => {
            if a.opt::<String>(usize::MAX, "options")?.is_some() {
                return Err(TorshError::invalid(
                    name.to_string(),
                    "options are of no effect here",
                ));
            }
            let named = usize::MAX;
            let mut layer =
                LinearCrossEntropyLoss::builder(a.at(0, "in_features")?, a.at(1, "num_classes")?)
                    .out_features(a.or(named, "out_features", Vec::<i64>::new())?)?
                    .bias(a.or(named, "bias", false)?)
                    .reduction(reduction(named)?)
                    .ignore_index(a.opt::<i64>(named, "ignore_index")?)
                    .label_smoothing(a.or(named, "label_smoothing", 0.0)?);
            if let Some(weight) = a.opt::<Tensor>(named, "weight")? {
                layer = layer.weight(&weight);
            }
            two(layer.build()?, LinearCrossEntropyLoss::forward_with)
        }
        "MSELoss" => two(
            MSELoss::with(LossOptions::new().reduction(reduction(2)?)),
            MSELoss::forward_with,
        ),
        "MarginRankingLoss" => {
            let options = MarginRankingLossOptions {
                margin: a.or(0, "margin", 0.0)?,
                reduction: reduction(3)?,
            };
            three(
                MarginRankingLoss::with(options),
                ["input1", "input2", "target"],
                MarginRankingLoss::forward_with,
            )
        }
        "MultiLabelMarginLoss" => two(
            MultiLabelMarginLoss::with(LossOptions::new().reduction(reduction(2)?)),
            MultiLabelMarginLoss::forward_with,
        ),
        "MultiLabelSoftMarginLoss" => {
            let options = MultiLabelSoftMarginLossOptions {
                weight: a.opt(0, "weight")?,
                reduction: reduction(3)?,
            };
            two(
                MultiLabelSoftMarginLoss::with(options),
                MultiLabelSoftMarginLoss::forward_with,
            )
        }
        "MultiMarginLoss" => {
            let options = MultiMarginLossOptions {
                p: a.or(0, "p", 1)?,
                margin: a.or(1, "margin", 1.0)?,
                weight: a.opt(2, "weight")?,
                reduction: reduction(5)?,
            };
            two(
                MultiMarginLoss::with(options),
                MultiMarginLoss::forward_with,
            )
        }
        "NLLLoss" => {
            let options = NllLossOptions {
                weight: a.opt(0, "weight")?,
                ignore_index: a.or(2, "ignore_index", -100)?,
                reduction: reduction(4)?,
            };
            two(NLLLoss::with(options), NLLLoss::forward_with)
        }
        "PoissonNLLLoss" => {
            let options = PoissonNllLossOptions {
                log_input: a.or(0, "log_input", true)?,
                full: a.or(1, "full", false)?,
                eps: a.or(3, "eps", 1e-8)?,
                reduction: reduction(5)?,
            };
            two(PoissonNLLLoss::with(options), PoissonNLLLoss::forward_with)
        }
        "SmoothL1Loss" => {
            let options = SmoothL1LossOptions {
                reduction: reduction(2)?,
                beta: a.or(3, "beta", 1.0)?,
            };
            two(SmoothL1Loss::with(options), SmoothL1Loss::forward_with)
        }
        "SoftMarginLoss" => two(
            SoftMarginLoss::with(LossOptions::new().reduction(reduction(2)?)),
            SoftMarginLoss::forward_with,
        ),
        "TripletMarginLoss" => {
            let options = TripletMarginLossOptions {
                margin: a.or(0, "margin", 1.0)?,
                p: a.or(1, "p", 2.0)?,
                eps: a.or(2, "eps", 1e-6)?,
                swap: a.or(3, "swap", false)?,
                reduction: reduction(6)?,
            };
            three(
                TripletMarginLoss::with(options),
                ["anchor", "positive", "negative"],
                TripletMarginLoss::forward_with,
            )
        }
        _ => return Ok(None),
    }))
}
