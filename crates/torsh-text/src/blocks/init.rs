//! Layers with weights as transformers draw them: from a normal distribution whose deviation the configuration has.

use torsh_nn::construct::Construction;
use torsh_nn::{Embedding, LayerNorm, Linear, init};
use torsh_tensor::{Result, TorshError, no_grad};

/// A linear layer with weights of deviation `std`; its bias, where it has one, is zero.
#[track_caller]
pub(crate) fn linear(inputs: usize, outputs: usize, bias: bool, std: f64) -> Result<Linear> {
    let make = || Linear::builder(inputs, outputs).bias(bias).build();
    let layer = Construction::new().draw_nothing().run(make)?;
    init::normal_(&layer.weight, 0.0, std)?;
    if let Some(bias) = &layer.bias {
        init::zeros_(bias)?;
    }
    Ok(layer)
}

/// An embedding with weights of deviation `std`; that of `padding`, where there is one, is zero.
#[track_caller]
pub(crate) fn embedding(
    count: usize,
    size: usize,
    padding: Option<i64>,
    std: f64,
) -> Result<Embedding> {
    let mut builder = Embedding::builder(count, size);
    if let Some(padding) = padding {
        if !(0..count as i64).contains(&padding) {
            return Err(TorshError::invalid(
                "Embedding",
                format!("pad_token_id = {padding} is not in a vocabulary of {count} tokens"),
            )
            .with_hint("set pad_token_id to a token of the vocabulary, or to null where the model allows it"));
        }
        builder = builder.padding_idx(padding);
    }
    let layer = Construction::new().draw_nothing().run(|| builder.build())?;
    init::normal_(&layer.weight, 0.0, std)?;
    if let Some(padding) = padding {
        no_grad(|| layer.weight.select(0, padding)?.zero_())?;
    }
    Ok(layer)
}

/// A layer norm with weight 1 and bias 0.
#[track_caller]
pub(crate) fn layer_norm(size: usize, eps: f64) -> Result<LayerNorm> {
    LayerNorm::builder(size).eps(eps).build()
}
