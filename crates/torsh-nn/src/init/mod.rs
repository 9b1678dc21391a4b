//! Initialisation of tensors (`torch.nn.init`).
//!
//! The functions draw the same numbers from the default generator as PyTorch's, so `manual_seed` gives
//! PyTorch's weights. They record nothing for gradients.

mod matrix;
mod truncated;

pub use matrix::{dirac_, eye_, orthogonal_, orthogonal_with, sparse_, sparse_with};
pub(crate) use matrix::{orthonormalize, write};
pub use truncated::{trunc_normal_, trunc_normal_with};

use torsh_core::Generator;
use torsh_tensor::named::{Named, refused};
use torsh_tensor::{Result, Scalar, Tensor, TorshError, no_grad};

/// Which of a weight's two fans keeps its magnitude.
///
/// ```
/// # use torsh_nn::init;
/// # use torsh_tensor::zeros;
/// assert_eq!(init::FanMode::default(), init::FanMode::FanIn);
/// assert_eq!(init::calculate_fan_in_and_fan_out(&zeros([5, 3]))?, (3, 5));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FanMode {
    /// The inputs': activations keep their magnitude in the forward pass.
    #[default]
    FanIn,
    /// The outputs': gradients keep theirs in the backward pass.
    FanOut,
    /// A string that is none of the words; the function that gets it refuses it.
    #[doc(hidden)]
    Unknown(torsh_tensor::named::Unknown),
}

torsh_tensor::named! {
    FanMode, "mode",
    "fan_in" => FanMode::FanIn,
    "fan_out" => FanMode::FanOut,
}

/// The nonlinearity after a layer, for [`calculate_gain`].
///
/// ```
/// # use torsh_nn::init;
/// assert_eq!(init::calculate_gain(init::Nonlinearity::LeakyReLU(1.0)), 1.0);
/// assert_eq!(init::calculate_gain(init::Nonlinearity::SELU), 0.75);
/// ```
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
    /// A string that is none of the words; the function that gets it refuses it.
    #[doc(hidden)]
    Unknown(torsh_tensor::named::Unknown),
}

/// A nonlinearity, or PyTorch's word for it.
pub trait IntoNonlinearity {
    /// The nonlinearity; `slope` is that of the word "leaky_relu".
    fn nonlinearity(self, slope: f64) -> Nonlinearity;
}
impl IntoNonlinearity for Nonlinearity {
    fn nonlinearity(self, _: f64) -> Nonlinearity {
        self
    }
}
impl IntoNonlinearity for &str {
    fn nonlinearity(self, slope: f64) -> Nonlinearity {
        match self {
            "linear" | "conv1d" | "conv2d" | "conv3d" | "conv_transpose1d" | "conv_transpose2d"
            | "conv_transpose3d" => Nonlinearity::Linear,
            "sigmoid" => Nonlinearity::Sigmoid,
            "tanh" => Nonlinearity::Tanh,
            "relu" => Nonlinearity::ReLU,
            "leaky_relu" => Nonlinearity::LeakyReLU(slope),
            "selu" => Nonlinearity::SELU,
            other => Nonlinearity::Unknown(torsh_tensor::named::Unknown::new(other)),
        }
    }
}

/// The options of [`kaiming_uniform_with`] and [`kaiming_normal_with`].
///
/// ```
/// # use torsh_nn::init;
/// let options = init::KaimingOptions::default();
/// assert_eq!(options.mode, init::FanMode::FanIn);
/// assert_eq!(options.nonlinearity, init::Nonlinearity::LeakyReLU(0.0));
/// ```
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
    /// PyTorch's defaults.
    ///
    /// ```
    /// assert_eq!(torsh_nn::init::KaimingOptions::new().mode, torsh_nn::init::FanMode::FanIn);
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// The slope of the leaky ReLU that follows.
    ///
    /// ```
    /// # use torsh_nn::init;
    /// let options = init::KaimingOptions::default().a(0.5);
    /// assert_eq!(options.nonlinearity, init::Nonlinearity::LeakyReLU(0.5));
    /// ```
    #[must_use]
    pub fn a(mut self, a: f64) -> Self {
        self.nonlinearity = Nonlinearity::LeakyReLU(a);
        self
    }

    /// Which fan counts. The default is the inputs'.
    ///
    /// ```
    /// # use torsh_nn::init;
    /// # use torsh_tensor::zeros;
    /// // Each output has 12 inputs, each input 3 outputs: the spread is sqrt(6 / 3).
    /// let options = init::KaimingOptions::default().mode(init::FanMode::FanOut);
    /// let w = init::kaiming_uniform_with(&zeros([3, 12]), options)?;
    /// let largest = w.abs()?.max()?.item::<f64>()?;
    /// assert!(largest <= 2f64.sqrt() && largest > (6.0f64 / 12.0).sqrt());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[must_use]
    pub fn mode(mut self, mode: impl Into<FanMode>) -> Self {
        self.mode = mode.into();
        self
    }

    /// What follows the layer. The default is a ReLU.
    ///
    /// ```
    /// # use torsh_nn::init;
    /// let options = init::KaimingOptions::default().nonlinearity(init::Nonlinearity::Tanh);
    /// assert_eq!(init::calculate_gain(options.nonlinearity), 5.0 / 3.0);
    /// ```
    #[must_use]
    pub fn nonlinearity(mut self, nonlinearity: impl IntoNonlinearity) -> Self {
        let slope = match self.nonlinearity {
            Nonlinearity::LeakyReLU(a) => a,
            _ => 0.0,
        };
        self.nonlinearity = nonlinearity.nonlinearity(slope);
        self
    }

    /// Where to draw from. The default is the default generator.
    ///
    /// ```
    /// # use torsh_nn::init;
    /// # use torsh_tensor::{Result, Tensor, zeros};
    /// let draw = |seed| -> torsh_tensor::Result<Tensor> {
    ///     let generator = torsh_core::Generator::new(seed);
    ///     init::kaiming_normal_with(&zeros([2, 3]), init::KaimingOptions::default().generator(generator))
    /// };
    /// assert_eq!(draw(7)?, draw(7)?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[must_use]
    pub fn generator(mut self, generator: Generator) -> Self {
        self.generator = Some(generator);
        self
    }
}

/// The factor by which a nonlinearity changes the spread of what goes through it
/// (`torch.nn.init.calculate_gain`).
///
/// ```
/// # use torsh_nn::init;
/// assert_eq!(init::calculate_gain(init::Nonlinearity::ReLU), 2f64.sqrt());
/// assert_eq!(init::calculate_gain(init::Nonlinearity::Linear), 1.0);
/// ```
pub fn calculate_gain(nonlinearity: Nonlinearity) -> f64 {
    match nonlinearity {
        Nonlinearity::Linear | Nonlinearity::Sigmoid => 1.0,
        Nonlinearity::Tanh => 5.0 / 3.0,
        Nonlinearity::ReLU => 2f64.sqrt(),
        Nonlinearity::LeakyReLU(a) => (2.0 / (1.0 + a * a)).sqrt(),
        Nonlinearity::SELU => 0.75,
        Nonlinearity::Unknown(_) => f64::NAN,
    }
}

/// How many inputs and outputs each element of a weight connects: `[outputs, inputs, ..window]`. An
/// error below 2 dimensions.
///
/// ```
/// # use torsh_nn::init;
/// # use torsh_tensor::zeros;
/// assert_eq!(init::calculate_fan_in_and_fan_out(&zeros([8, 3, 5, 5]))?, (75, 200));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
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
    if crate::construct::draws_nothing() {
        return Ok(tensor.clone());
    }
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
    if crate::construct::draws_nothing() {
        return Ok(tensor.clone());
    }
    no_grad(|| match generator {
        Some(g) => tensor.normal_with_(mean, std, g),
        None => tensor.normal_(mean, std),
    })
}

/// Uniform draws over `[a, b)`, in place (`torch.nn.init.uniform_`); returns the tensor.
///
/// An error for a tensor that is not floating-point, and where `a` is above `b` or one is not
/// finite.
///
/// ```
/// # use torsh_nn::init;
/// # use torsh_tensor::zeros;
/// let w = init::uniform_(&zeros([1000]), 2.0, 3.0)?;
/// assert!(w.ge(2.0)?.logical_and(&w.le(3.0)?)?.all()?.item::<bool>()?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn uniform_(tensor: &Tensor, a: f64, b: f64) -> Result<Tensor> {
    uniform(tensor, a, b, None)
}

/// Normal draws, in place (`torch.nn.init.normal_`); returns the tensor.
///
/// An error for a tensor that is not floating-point, and for a negative `std`.
///
/// ```
/// # use torsh_nn::init;
/// # use torsh_tensor::{tensor, zeros};
/// assert_eq!(init::normal_(&zeros([2]), 3.0, 0.0)?, tensor![3.0, 3.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn normal_(tensor: &Tensor, mean: f64, std: f64) -> Result<Tensor> {
    normal(tensor, mean, std, None)
}

/// [`uniform_`] from a generator.
///
/// ```
/// # use torsh_nn::init;
/// # use torsh_tensor::zeros;
/// let w = init::uniform_with(&zeros([4]), 0.0, 1.0, &torsh_core::Generator::new(7))?;
/// assert_eq!(w, init::uniform_with(&zeros([4]), 0.0, 1.0, &torsh_core::Generator::new(7))?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn uniform_with(tensor: &Tensor, a: f64, b: f64, generator: &Generator) -> Result<Tensor> {
    uniform(tensor, a, b, Some(generator))
}

/// [`normal_`] from a generator.
///
/// ```
/// # use torsh_nn::init;
/// # use torsh_tensor::zeros;
/// let w = init::normal_with(&zeros([4]), 0.0, 1.0, &torsh_core::Generator::new(7))?;
/// assert_eq!(w, init::normal_with(&zeros([4]), 0.0, 1.0, &torsh_core::Generator::new(7))?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn normal_with(tensor: &Tensor, mean: f64, std: f64, generator: &Generator) -> Result<Tensor> {
    normal(tensor, mean, std, Some(generator))
}

/// One number everywhere, in place (`torch.nn.init.constant_`); returns the tensor.
///
/// An error for a number that the dtype cannot hold.
///
/// ```
/// # use torsh_nn::init;
/// # use torsh_tensor::{tensor, zeros};
/// assert_eq!(init::constant_(&zeros([2]), 0.5)?, tensor![0.5, 0.5]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn constant_(tensor: &Tensor, value: impl Into<Scalar>) -> Result<Tensor> {
    let value = value.into();
    no_grad(|| tensor.fill_(value))
}

/// Zeros, in place (`torch.nn.init.zeros_`); returns the tensor.
///
/// ```
/// # use torsh_nn::init;
/// # use torsh_tensor::{ones, tensor};
/// assert_eq!(init::zeros_(&ones([2]))?, tensor![0.0, 0.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn zeros_(tensor: &Tensor) -> Result<Tensor> {
    constant_(tensor, 0)
}

/// Ones, in place (`torch.nn.init.ones_`); returns the tensor.
///
/// ```
/// # use torsh_nn::init;
/// # use torsh_tensor::{tensor, zeros};
/// assert_eq!(init::ones_(&zeros([2]))?, tensor![1.0, 1.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
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
    if let Nonlinearity::Unknown(word) = options.nonlinearity {
        let words = ["linear", "sigmoid", "tanh", "relu", "leaky_relu", "selu"];
        return Err(refused(word.as_str(), "nonlinearity", words).renamed("init.kaiming"));
    }
    let mode = options.mode.known();
    let fan = match mode.map_err(|e| e.renamed("init.kaiming"))? {
        FanMode::FanIn | FanMode::Unknown(_) => fan_in,
        FanMode::FanOut => fan_out,
    };
    Ok(Some(
        calculate_gain(options.nonlinearity) / (fan as f64).sqrt(),
    ))
}

/// Uniform draws that keep the spread of activations through ReLUs (He et al., 2015), in place
/// (`torch.nn.init.kaiming_uniform_`): over `sqrt(6 / fan_in)` to either side.
///
/// An error below 2 dimensions, and for a tensor that is not floating-point.
///
/// ```
/// # use torsh_nn::init;
/// # use torsh_tensor::zeros;
/// let w = init::kaiming_uniform_(&zeros([100, 6]))?;
/// let largest = w.abs()?.max()?.item::<f64>()?;
/// assert!(largest <= 1.0 && largest > 0.9);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn kaiming_uniform_(tensor: &Tensor) -> Result<Tensor> {
    kaiming_uniform_with(tensor, KaimingOptions::default())
}

/// [`kaiming_uniform_`] with options.
///
/// ```
/// # use torsh_nn::init;
/// # use torsh_tensor::zeros;
/// let options = init::KaimingOptions::default().nonlinearity(init::Nonlinearity::Linear);
/// let w = init::kaiming_uniform_with(&zeros([100, 3]), options)?;
/// let largest = w.abs()?.max()?.item::<f64>()?;
/// assert!(largest <= 1.0 && largest > 0.9);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn kaiming_uniform_with(tensor: &Tensor, options: KaimingOptions) -> Result<Tensor> {
    let Some(std) = kaiming_std(tensor, &options)? else {
        return Ok(tensor.clone());
    };
    let bound = 3f64.sqrt() * std;
    uniform(tensor, -bound, bound, options.generator.as_ref())
}

/// Normal draws that keep the spread of activations through ReLUs (He et al., 2015), in place
/// (`torch.nn.init.kaiming_normal_`): of deviation `sqrt(2 / fan_in)`.
///
/// An error below 2 dimensions, and for a tensor that is not floating-point.
///
/// ```
/// # use torsh_nn::init;
/// # use torsh_tensor::zeros;
/// let w = init::kaiming_normal_(&zeros([1000, 8]))?;
/// assert!((w.std()?.item::<f64>()? - 0.5).abs() < 0.05);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn kaiming_normal_(tensor: &Tensor) -> Result<Tensor> {
    kaiming_normal_with(tensor, KaimingOptions::default())
}

/// [`kaiming_normal_`] with options.
///
/// ```
/// # use torsh_nn::init;
/// # use torsh_tensor::zeros;
/// let options = init::KaimingOptions::default().nonlinearity(init::Nonlinearity::Linear);
/// let w = init::kaiming_normal_with(&zeros([1000, 4]), options)?;
/// assert!((w.std()?.item::<f64>()? - 0.5).abs() < 0.05);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
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

/// Uniform draws that keep the spread of activations and gradients (Glorot and Bengio, 2010), times
/// `gain` (1 where no nonlinearity follows), in place (`torch.nn.init.xavier_uniform_`): over
/// `gain * sqrt(6 / (fan_in + fan_out))` to either side.
///
/// An error below 2 dimensions, and for a tensor that is not floating-point.
///
/// ```
/// # use torsh_nn::init;
/// # use torsh_tensor::zeros;
/// let w = init::xavier_uniform_(&zeros([20, 4]), 2.0)?;
/// let largest = w.abs()?.max()?.item::<f64>()?;
/// assert!(largest <= 1.0 && largest > 0.8);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn xavier_uniform_(tensor: &Tensor, gain: f64) -> Result<Tensor> {
    let bound = 3f64.sqrt() * xavier_std(tensor, gain)?;
    uniform(tensor, -bound, bound, None)
}

/// Normal draws that keep the spread of activations and gradients (Glorot and Bengio, 2010), times
/// `gain` (1 where no nonlinearity follows), in place (`torch.nn.init.xavier_normal_`): of
/// deviation `gain * sqrt(2 / (fan_in + fan_out))`.
///
/// An error below 2 dimensions, and for a tensor that is not floating-point.
///
/// ```
/// # use torsh_nn::init;
/// # use torsh_tensor::zeros;
/// let w = init::xavier_normal_(&zeros([100, 100]), 5.0)?;
/// assert!((w.std()?.item::<f64>()? - 0.5).abs() < 0.05);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn xavier_normal_(tensor: &Tensor, gain: f64) -> Result<Tensor> {
    normal(tensor, 0.0, xavier_std(tensor, gain)?, None)
}

/// [`xavier_uniform_`] from a generator.
///
/// ```
/// # use torsh_nn::init;
/// # use torsh_tensor::zeros;
/// let w = init::xavier_uniform_with(&zeros([2, 2]), 1.0, &torsh_core::Generator::new(7))?;
/// assert_eq!(w, init::xavier_uniform_with(&zeros([2, 2]), 1.0, &torsh_core::Generator::new(7))?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn xavier_uniform_with(tensor: &Tensor, gain: f64, generator: &Generator) -> Result<Tensor> {
    let bound = 3f64.sqrt() * xavier_std(tensor, gain)?;
    uniform(tensor, -bound, bound, Some(generator))
}

/// [`xavier_normal_`] from a generator.
///
/// ```
/// # use torsh_nn::init;
/// # use torsh_tensor::zeros;
/// let w = init::xavier_normal_with(&zeros([2, 2]), 1.0, &torsh_core::Generator::new(7))?;
/// assert_eq!(w, init::xavier_normal_with(&zeros([2, 2]), 1.0, &torsh_core::Generator::new(7))?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn xavier_normal_with(tensor: &Tensor, gain: f64, generator: &Generator) -> Result<Tensor> {
    normal(tensor, 0.0, xavier_std(tensor, gain)?, Some(generator))
}
