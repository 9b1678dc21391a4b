//! Linear layers.

use torsh_nn::*;
use torsh_tensor::{Result, Tensor};

use super::{Args, Built, one, with};

pub(super) fn build(name: &str, a: &Args) -> Result<Option<Built>> {
    Ok(Some(match name {
        "Bilinear" => {
            let layer = Bilinear::builder(
                a.at(0, "in1_features")?,
                a.at(1, "in2_features")?,
                a.at(2, "out_features")?,
            );
            let layer = layer.bias(a.or(3, "bias", true)?).build()?;
            with(layer, |m: &Bilinear, c| {
                let (x1, x2): (Tensor, Tensor) = (c.at(0, "input1")?, c.at(1, "input2")?);
                Ok(vec![m.forward_with(&x1, &x2)?])
            })
        }
        "Linear" => one(
            Linear::builder(a.at(0, "in_features")?, a.at(1, "out_features")?)
                .bias(a.or(2, "bias", true)?)
                .build()?,
        ),
        _ => return Ok(None),
    }))
}
