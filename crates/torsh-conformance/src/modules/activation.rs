//! Activations.

use torsh_nn::*;
use torsh_tensor::{Result, TorshError};

use super::{Args, Built, one};

pub(super) fn build(name: &str, a: &Args) -> Result<Option<Built>> {
    Ok(Some(match name {
        "CELU" => one(CELU::alpha(a.or(0, "alpha", 1.0)?)),
        "ELU" => one(ELU::alpha(a.or(0, "alpha", 1.0)?)),
        "GELU" => one(GELU::approximate(approximate(a)?)),
        "GLU" => one(GLU::dim(a.or(0, "dim", -1)?)),
        "Hardshrink" => one(Hardshrink::lambd(a.or(0, "lambd", 0.5)?)),
        "Hardsigmoid" => one(Hardsigmoid::new()),
        "Hardswish" => one(Hardswish::new()),
        "Hardtanh" => one(Hardtanh::with(
            a.or(0, "min_val", -1.0)?,
            a.or(1, "max_val", 1.0)?,
        )),
        "LeakyReLU" => one(LeakyReLU::negative_slope(a.or(
            0,
            "negative_slope",
            0.01,
        )?)),
        "LogSigmoid" => one(LogSigmoid::new()),
        "LogSoftmax" => one(LogSoftmax::new(a.at(0, "dim")?)),
        "Mish" => one(Mish::new()),
        "PReLU" => one(PReLU::builder()
            .num_parameters(a.or(0, "num_parameters", 1)?)
            .init(a.or(1, "init", 0.25)?)
            .build()?),
        "RReLU" => one(RReLU::with(
            a.or(0, "lower", 1.0 / 8.0)?,
            a.or(1, "upper", 1.0 / 3.0)?,
        )),
        "ReLU" => one(ReLU::new()),
        "ReLU6" => one(ReLU6::new()),
        "SELU" => one(SELU::new()),
        "SiLU" => one(SiLU::new()),
        "Sigmoid" => one(Sigmoid::new()),
        "Softmax" => one(Softmax::new(a.at(0, "dim")?)),
        "Softmax2d" => one(Softmax2d::new()),
        "Softmin" => one(Softmin::new(a.at(0, "dim")?)),
        "Softplus" => one(Softplus::with(
            a.or(0, "beta", 1.0)?,
            a.or(1, "threshold", 20.0)?,
        )),
        "Softshrink" => one(Softshrink::lambd(a.or(0, "lambd", 0.5)?)),
        "Softsign" => one(Softsign::new()),
        "Tanh" => one(Tanh::new()),
        "Tanhshrink" => one(Tanhshrink::new()),
        "Threshold" => one(Threshold::new(
            a.at::<f64>(0, "threshold")?,
            a.at::<f64>(1, "value")?,
        )),
        _ => return Ok(None),
    }))
}

fn approximate(a: &Args) -> Result<Approximate> {
    match a.or(0, "approximate", "none".to_string())?.as_str() {
        "none" => Ok(Approximate::None),
        "tanh" => Ok(Approximate::Tanh),
        other => Err(TorshError::invalid(
            "GELU",
            format!("approximate is {other}"),
        )),
    }
}
