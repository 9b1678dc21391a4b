//! Recurrent layers.

use torsh_nn::*;
use torsh_tensor::{Result, Tensor, TorshError};

use super::{Args, Built, with};

fn nonlinearity(a: &Args, at: usize) -> Result<RNNNonlinearity> {
    match a.or(at, "nonlinearity", "tanh".to_string())?.as_str() {
        "tanh" => Ok(RNNNonlinearity::Tanh),
        "relu" => Ok(RNNNonlinearity::ReLU),
        other => Err(TorshError::invalid(
            "RNN",
            format!("nonlinearity is {other}"),
        )),
    }
}

/// A layer of PyTorch's arguments from `bias` on.
macro_rules! layer {
    ($a:ident, $builder:expr, $bias:literal) => {
        $builder
            .num_layers($a.or(2, "num_layers", 1)?)
            .bias($a.or($bias, "bias", true)?)
            .batch_first($a.or($bias + 1, "batch_first", false)?)
            .dropout($a.or($bias + 2, "dropout", 0.0)?)
            .bidirectional($a.or($bias + 3, "bidirectional", false)?)
    };
}

pub(super) fn build(name: &str, a: &Args) -> Result<Option<Built>> {
    let sizes = || Ok::<_, TorshError>((a.at(0, "input_size")?, a.at(1, "hidden_size")?));
    Ok(Some(match name {
        "RNN" => {
            let (input, hidden) = sizes()?;
            let builder = RNN::builder(input, hidden).nonlinearity(nonlinearity(a, 3)?);
            with(layer!(a, builder, 4).build()?, |m: &RNN, c| {
                let (x, hx) = (c.at(0, "input")?, c.opt::<Tensor>(1, "hx")?);
                let (y, h) = m.forward_with(&x, hx.as_ref())?;
                Ok(vec![y, h])
            })
        }
        "GRU" => {
            let (input, hidden) = sizes()?;
            let layer = layer!(a, GRU::builder(input, hidden), 3).build()?;
            with(layer, |m: &GRU, c| {
                let (x, hx) = (c.at(0, "input")?, c.opt::<Tensor>(1, "hx")?);
                let (y, h) = m.forward_with(&x, hx.as_ref())?;
                Ok(vec![y, h])
            })
        }
        "LSTM" => {
            let (input, hidden) = sizes()?;
            let builder = LSTM::builder(input, hidden).proj_size(a.or(7, "proj_size", 0)?);
            with(layer!(a, builder, 3).build()?, |m: &LSTM, c| {
                let (x, hx) = (c.at(0, "input")?, c.opt::<[Tensor; 2]>(1, "hx")?);
                let (y, (h, cells)) =
                    m.forward_with(&x, hx.as_ref().map(|[h, cells]| (h, cells)))?;
                Ok(vec![y, h, cells])
            })
        }
        "RNNCell" => {
            let (input, hidden) = sizes()?;
            let builder = RNNCell::builder(input, hidden)
                .bias(a.or(2, "bias", true)?)
                .nonlinearity(nonlinearity(a, 3)?);
            with(builder.build()?, |m: &RNNCell, c| {
                let (x, hx) = (c.at(0, "input")?, c.opt::<Tensor>(1, "hx")?);
                Ok(vec![m.forward_with(&x, hx.as_ref())?])
            })
        }
        "GRUCell" => {
            let (input, hidden) = sizes()?;
            let builder = GRUCell::builder(input, hidden).bias(a.or(2, "bias", true)?);
            with(builder.build()?, |m: &GRUCell, c| {
                let (x, hx) = (c.at(0, "input")?, c.opt::<Tensor>(1, "hx")?);
                Ok(vec![m.forward_with(&x, hx.as_ref())?])
            })
        }
        "LSTMCell" => {
            let (input, hidden) = sizes()?;
            let builder = LSTMCell::builder(input, hidden).bias(a.or(2, "bias", true)?);
            with(builder.build()?, |m: &LSTMCell, c| {
                let (x, hx) = (c.at(0, "input")?, c.opt::<[Tensor; 2]>(1, "hx")?);
                let (h, cells) = m.forward_with(&x, hx.as_ref().map(|[h, cells]| (h, cells)))?;
                Ok(vec![h, cells])
            })
        }
        _ => return Ok(None),
    }))
}
