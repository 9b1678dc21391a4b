//! Initialisation of tensors (`torch.nn.init`).
//!
//! The functions draw the same numbers from the default generator as PyTorch's, so `manual_seed` gives
//! PyTorch's weights. They record nothing for gradients.

mod matrix;
mod truncated;

pub use matrix::{dirac_, eye_, orthogonal_, orthogonal_with, sparse_, sparse_with};
pub use truncated::{trunc_normal_, trunc_normal_with};

use torsh_core::Generator;
use torsh_tensor::{Result, Scalar, Tensor, TorshError, no_grad};

/// Which of a weight's two fans keeps its magnitude.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FanMode {
    /// The inputs': activations keep their magnitude in the forward pass.
    #[default]
    FanIn,
    /// The outputs': gradients keep theirs in the backward pass.
    FanOut,
}

/// The nonlinearity after a layer, for [`calculate_gain`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Nonlinearity {
    /// None; also that of convolutions and the sigmoid.
    Linear,
    /// `sigmoid`
    Sigmoid,
    /// `tanh`
    Tanh,
    /// `relu`
    ReLU,
    /// `leaky_relu` with this slope.
    LeakyReLU(f64),
    /// `selu`
    SELU,
}

/// What [`kaiming_uniform_with`] and [`kaiming_normal_with`] may be told.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct KaimingOptions {
    /// Which fan counts.
    pub mode: FanMode,
    /// What follows the layer.
    pub nonlinearity: Nonlinearity,
    /// Where to draw from; the default generator when `None`.
    pub generator: Option<Generator>,
}

impl Default for KaimingOptions {
    fn default() -> Self {
        KaimingOptions {
            mode: FanMode::FanIn,
            nonlinearity: Nonlinearity::LeakyReLU(0.0),
            generator: None,
        }
    }
}

impl KaimingOptions {
    /// The slope of the leaky ReLU that follows.
    #[must_use]
    pub fn a(mut self, a: f64) -> Self {
        self.nonlinearity = Nonlinearity::LeakyReLU(a);
        self
    }

    /// Which fan counts.
    #[must_use]
    pub fn mode(mut self, mode: FanMode) -> Self {
        self.mode = mode;
        self
    }

    /// What follows the layer.
    #[must_use]
    pub fn nonlinearity(mut self, nonlinearity: Nonlinearity) -> Self {
        self.nonlinearity = nonlinearity;
        self
    }

    /// Where to draw from.
    #[must_use]
    pub fn generator(mut self, generator: Generator) -> Self {
        self.generator = Some(generator);
        self
    }
}

/// The factor by which a nonlinearity changes the spread of what goes through it.
pub fn calculate_gain(nonlinearity: Nonlinearity) -> f64 {
    match nonlinearity {
        Nonlinearity::Linear | Nonlinearity::Sigmoid => 1.0,
        Nonlinearity::Tanh => 5.0 / 3.0,
        Nonlinearity::ReLU => 2f64.sqrt(),
        Nonlinearity::LeakyReLU(a) => (2.0 / (1.0 + a.powi(2))).sqrt(),
        Nonlinearity::SELU => 0.75,
    }
}

/// How many inputs and outputs each element of a weight connects. An error below 2 dimensions.
#[track_caller]
pub fn calculate_fan_in_and_fan_out(tensor: &Tensor) -> Result<(usize, usize)> {
    let [outputs, inputs, window @ ..] = tensor.dims() else {
        return Err(TorshError::shape(
            "calculate_fan_in_and_fan_out",
            format!(
                "fan in and fan out can not be computed for a tensor with fewer than 2 dimensions: {}",
                tensor.describe()
            ),
        ));
    };
    let field: usize = window.iter().product();
    Ok((inputs * field, outputs * field))
}

/// Refuses a tensor that is not to be drawn into.
#[track_caller]
fn floating(op: &'static str, tensor: &Tensor) -> Result<()> {
    match tensor.dtype().is_floating_point() {
        true => Ok(()),
        false => Err(TorshError::dtype(
            op,
            format!(
                "draws are floating point, the tensor is {}",
                tensor.describe()
            ),
        )),
    }
}

#[track_caller]
fn uniform(tensor: &Tensor, a: f64, b: f64, generator: Option<&Generator>) -> Result<Tensor> {
    if a > b || !a.is_finite() || !b.is_finite() {
        return Err(TorshError::invalid(
            "uniform_",
            format!("expects finite a <= b, but found a={a} and b={b}"),
        ));
    }
    floating("uniform_", tensor)?;
    no_grad(|| match generator {
        Some(g) => tensor.uniform_with_(a, b, g),
        None => tensor.uniform_(a, b),
    })
}

#[track_caller]
fn normal(tensor: &Tensor, mean: f64, std: f64, generator: Option<&Generator>) -> Result<Tensor> {
    if std.is_nan() || std < 0.0 {
        return Err(TorshError::invalid(
            "normal_",
            format!("expects std >= 0.0, but found std {std}"),
        ));
    }
    floating("normal_", tensor)?;
    no_grad(|| match generator {
        Some(g) => tensor.normal_with_(mean, std, g),
        None => tensor.normal_(mean, std),
    })
}

/// Uniform draws over `[a, b)`.
#[track_caller]
pub fn uniform_(tensor: &Tensor, a: f64, b: f64) -> Result<Tensor> {
    uniform(tensor, a, b, None)
}

/// Normal draws.
#[track_caller]
pub fn normal_(tensor: &Tensor, mean: f64, std: f64) -> Result<Tensor> {
    normal(tensor, mean, std, None)
}

/// [`uniform_`] from a generator.
#[track_caller]
pub fn uniform_with(tensor: &Tensor, a: f64, b: f64, generator: &Generator) -> Result<Tensor> {
    uniform(tensor, a, b, Some(generator))
}

/// [`normal_`] from a generator.
#[track_caller]
pub fn normal_with(tensor: &Tensor, mean: f64, std: f64, generator: &Generator) -> Result<Tensor> {
    normal(tensor, mean, std, Some(generator))
}

/// One number everywhere.
#[track_caller]
pub fn constant_(tensor: &Tensor, value: impl Into<Scalar>) -> Result<Tensor> {
    let value = value.into();
    no_grad(|| tensor.fill_(value))
}

/// Zeros.
#[track_caller]
pub fn zeros_(tensor: &Tensor) -> Result<Tensor> {
    constant_(tensor, 0)
}

/// Ones.
#[track_caller]
pub fn ones_(tensor: &Tensor) -> Result<Tensor> {
    constant_(tensor, 1)
}

/// The spread of Kaiming's draws; `None` for a tensor without elements.
fn kaiming_std(tensor: &Tensor, options: &KaimingOptions) -> Result<Option<f64>> {
    if tensor.dims().contains(&0) {
        return Ok(None);
    }
    let (fan_in, fan_out) = calculate_fan_in_and_fan_out(tensor)?;
    let fan = match options.mode {
        FanMode::FanIn => fan_in,
        FanMode::FanOut => fan_out,
    };
    Ok(Some(
        calculate_gain(options.nonlinearity) / (fan as f64).sqrt(),
    ))
}

/// Uniform draws that keep the spread of activations through ReLUs (He et al., 2015).
#[track_caller]
pub fn kaiming_uniform_(tensor: &Tensor) -> Result<Tensor> {
    kaiming_uniform_with(tensor, KaimingOptions::default())
}

/// [`kaiming_uniform_`] with options.
#[track_caller]
pub fn kaiming_uniform_with(tensor: &Tensor, options: KaimingOptions) -> Result<Tensor> {
    let Some(std) = kaiming_std(tensor, &options)? else {
        return Ok(tensor.clone());
    };
    let bound = 3f64.sqrt() * std;
    uniform(tensor, -bound, bound, options.generator.as_ref())
}

/// Normal draws that keep the spread of activations through ReLUs (He et al., 2015).
#[track_caller]
pub fn kaiming_normal_(tensor: &Tensor) -> Result<Tensor> {
    kaiming_normal_with(tensor, KaimingOptions::default())
}

/// [`kaiming_normal_`] with options.
#[track_caller]
pub fn kaiming_normal_with(tensor: &Tensor, options: KaimingOptions) -> Result<Tensor> {
    let Some(std) = kaiming_std(tensor, &options)? else {
        return Ok(tensor.clone());
    };
    normal(tensor, 0.0, std, options.generator.as_ref())
}

fn xavier_std(tensor: &Tensor, gain: f64) -> Result<f64> {
    let (fan_in, fan_out) = calculate_fan_in_and_fan_out(tensor)?;
    Ok(gain * (2.0 / (fan_in + fan_out) as f64).sqrt())
}

/// Uniform draws that keep the spread of activations and gradients (Glorot and Bengio, 2010),
/// times `gain` (1 where no nonlinearity follows).
#[track_caller]
pub fn xavier_uniform_(tensor: &Tensor, gain: f64) -> Result<Tensor> {
    let bound = 3f64.sqrt() * xavier_std(tensor, gain)?;
    uniform(tensor, -bound, bound, None)
}

/// Normal draws that keep the spread of activations and gradients (Glorot and Bengio, 2010),
/// times `gain` (1 where no nonlinearity follows).
#[track_caller]
pub fn xavier_normal_(tensor: &Tensor, gain: f64) -> Result<Tensor> {
    normal(tensor, 0.0, xavier_std(tensor, gain)?, None)
}

/// [`xavier_uniform_`] from a generator.
#[track_caller]
pub fn xavier_uniform_with(tensor: &Tensor, gain: f64, generator: &Generator) -> Result<Tensor> {
    let bound = 3f64.sqrt() * xavier_std(tensor, gain)?;
    uniform(tensor, -bound, bound, Some(generator))
}

/// [`xavier_normal_`] from a generator.
#[track_caller]
pub fn xavier_normal_with(tensor: &Tensor, gain: f64, generator: &Generator) -> Result<Tensor> {
    normal(tensor, 0.0, xavier_std(tensor, gain)?, Some(generator))
}
