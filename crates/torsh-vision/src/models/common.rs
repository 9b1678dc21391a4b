//! What all models have in common: arguments, initialisation, constructors.

use std::any::Any;

use torsh_nn::construct::Construction;
use torsh_nn::init::{self, FanMode, KaimingOptions, Nonlinearity};
use torsh_nn::{BatchNorm2d, Conv2d, GroupNorm, Linear, Module, ModuleExt, StateDict};
use torsh_tensor::{DType, Device, Result, Tensor};

use super::Weights;

/// What every builder of a model takes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Common {
    pub(crate) weights: Weights,
    pub(crate) num_classes: Option<usize>,
    pub(crate) device: Option<Device>,
    pub(crate) dtype: Option<DType>,
    /// The tensors, where the weights were read already.
    state: Option<StateDict>,
    /// What was wrong in the configuration that the builder was made from.
    pub(crate) refused: Option<String>,
}

impl Common {
    /// The number of classes. The default is ImageNet's 1,000.
    pub(crate) fn classes(&self) -> usize {
        self.num_classes.unwrap_or(1000)
    }

    /// The device and dtype of new parameters.
    pub(crate) fn construction(&self) -> Construction {
        let mut construction = Construction::new();
        if let Some(device) = self.device {
            construction = construction.device(device);
        }
        if let Some(dtype) = self.dtype {
            construction = construction.dtype(dtype);
        }
        construction
    }

    /// The tensors of the weights.
    #[track_caller]
    pub(crate) fn state(&self) -> Result<Option<StateDict>> {
        match &self.state {
            Some(state) => Ok(Some(state.clone())),
            None => self.weights.read(),
        }
    }

    /// Reads the weights ahead, for builders that depend on what they hold.
    #[track_caller]
    pub(crate) fn read(&mut self) -> Result<Option<&StateDict>> {
        if self.state.is_none() {
            self.state = self.weights.read()?;
        }
        Ok(self.state.as_ref())
    }

    /// Gives tensors of the weights other names, where `f` has one.
    #[track_caller]
    pub(crate) fn rename(&mut self, f: impl Fn(&str) -> Option<String>) -> Result<()> {
        self.read()?;
        if let Some(state) = self.state.take() {
            let renamed = |(name, t): (String, Tensor)| (f(&name).unwrap_or(name), t);
            self.state = Some(state.into_iter().map(renamed).collect());
        }
        Ok(())
    }

    /// Lets go of the weights.
    pub(crate) fn forget(&mut self) {
        (self.weights, self.state) = (Weights::None, None);
    }
}

/// A model of this crate, as [`get_model`](super::get_model) makes it.
///
/// ```
/// use torsh_nn::ModuleExt;
/// use torsh_tensor::Device;
/// use torsh_vision::models::{ModelOptions, VisionModel, get_model};
/// let model: Box<dyn VisionModel> = get_model("alexnet", ModelOptions::new().device(Device::Meta))?;
/// assert_eq!(model.num_parameters(), 61_100_840);
/// assert!(model.as_detector().is_none());
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub trait VisionModel: Module {
    /// The results by torchvision's names: `out` where the model returns one tensor; `logits`, `aux_logits2`,
    /// `aux_logits1` or `aux_logits` and `aux` where it returns more.
    ///
    /// ```
    /// use torsh_tensor::rand;
    /// use torsh_vision::models::{VisionModel, Weights, squeezenet1_1};
    /// let outputs = squeezenet1_1(Weights::None)?.outputs(&rand(&[1, 3, 32, 32]))?;
    /// assert_eq!((outputs[0].0, outputs[0].1.dims()), ("out", &[1, 1000][..]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    fn outputs(&self, x: &Tensor) -> Result<Vec<(&'static str, Tensor)>> {
        Ok(vec![("out", self.forward(x)?)])
    }

    /// The model as a detector, if it is one.
    ///
    /// ```
    /// use torsh_vision::models::{VisionModel, Weights, get_model};
    /// let model = get_model("ssdlite320_mobilenet_v3_large", Weights::None)?;
    /// assert!(model.as_detector().is_some());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    fn as_detector(&self) -> Option<&dyn super::detection::Detector> {
        None
    }
}

/// The text of a doc test: `concat!` of its parts, in a block of code.
macro_rules! example {
    ($($part:expr),+ $(,)?) => {
        concat!("\n```\n", $($part,)+ "\n# Ok::<(), torsh_tensor::TorshError>(())\n```")
    };
}

/// The path from `torsh_vision::models` to the models of a kind.
macro_rules! module_of {
    (Classification) => {
        ""
    };
    (Segmentation) => {
        "segmentation::"
    };
    (Detection) => {
        "detection::"
    };
    (Video) => {
        "video::"
    };
    (OpticalFlow) => {
        "optical_flow::"
    };
}

/// The free constructors of a family, which take weights, and its entries in the registry.
///
/// `KIND, MODEL; /// docs  NAME, NUMBER parameters => BUILDER; ..` makes `pub fn NAME(weights: impl Into<Weights>) ->
/// Result<MODEL>` of each row, and `pub(crate) const ENTRIES`. The number is that of a model with drawn weights, which
/// the function's example checks.
macro_rules! constructors {
    ($kind:ident, $model:ty; $($(#[$doc:meta])* $name:ident, $count:literal parameters => $builder:expr;)*) => {
        $(
            $(#[$doc])*
            #[doc = $crate::models::common::example!(
                "use torsh_nn::{ModuleExt, construct::Construction};\n\
                 use torsh_tensor::Device;\n\
                 use torsh_vision::models::{Weights, ", $crate::models::common::module_of!($kind), stringify!($name), "};\n\
                 // On the meta device parameters take no memory.\n\
                 let model = Construction::new().device(Device::Meta).run(|| ", stringify!($name), "(Weights::None))?;\n\
                 assert_eq!(model.num_parameters(), ", stringify!($count), ");"
            )]
            #[torsh_tensor::names_caller]
            pub fn $name(weights: impl Into<$crate::models::Weights>) -> torsh_tensor::Result<$model> {
                $crate::models::weights::given($builder, weights.into(), stringify!($name))?.build()
            }
        )*

        /// The family in the registry.
        pub(crate) const ENTRIES: &[$crate::models::Entry] = &[$(
            $crate::models::Entry::new(
                stringify!($name),
                $crate::models::ModelKind::$kind,
                |options| $crate::models::registry::make($builder, stringify!($name), options),
            ),
        )*];
    };
}

pub(crate) use {constructors, example, module_of};

/// Calls `f` with each module of the tree, the model first, in the order of PyTorch's `modules()`.
#[track_caller]
pub(crate) fn each_module(
    model: &(impl Module + ?Sized),
    mut f: impl FnMut(&dyn Any) -> Result<()>,
) -> Result<()> {
    for module in model.modules() {
        let any: &dyn Any = module;
        f(any)?;
    }
    Ok(())
}

/// `kaiming_normal_(weight, mode="fan_out", nonlinearity="relu")` and a bias of 0.
#[track_caller]
pub(crate) fn kaiming_conv(conv: &Conv2d) -> Result<()> {
    let options = KaimingOptions::default()
        .mode(FanMode::FanOut)
        .nonlinearity(Nonlinearity::ReLU);
    init::kaiming_normal_with(&conv.weight, options)?;
    if let Some(bias) = &conv.bias {
        init::zeros_(bias)?;
    }
    Ok(())
}

/// `normal_(weight, 0, std)` and a bias of 0.
#[track_caller]
pub(crate) fn normal_linear(linear: &Linear, std: f64) -> Result<()> {
    init::normal_(&linear.weight, 0.0, std)?;
    if let Some(bias) = &linear.bias {
        init::zeros_(bias)?;
    }
    Ok(())
}

/// `uniform_(weight, -r, r)` with `r` of the number of outputs, and a bias of 0.
#[track_caller]
pub(crate) fn uniform_linear(linear: &Linear) -> Result<()> {
    let range = 1.0 / (linear.out_features() as f64).sqrt();
    init::uniform_(&linear.weight, -range, range)?;
    if let Some(bias) = &linear.bias {
        init::zeros_(bias)?;
    }
    Ok(())
}

/// The initial weights of most networks: convolutions by their fan out, norms 1 and 0, linear layers as `linear` draws.
#[track_caller]
pub(crate) fn init_layers(
    model: &impl Module,
    linear: impl Fn(&Linear) -> Result<()>,
) -> Result<()> {
    each_module(model, |module| {
        if let Some(conv) = module.downcast_ref::<Conv2d>() {
            kaiming_conv(conv)?;
        } else if let Some(norm) = module.downcast_ref::<BatchNorm2d>() {
            norm.reset_parameters()?;
        } else if let Some(norm) = module.downcast_ref::<GroupNorm>() {
            norm.reset_parameters()?;
        } else if let Some(layer) = module.downcast_ref::<Linear>() {
            linear(layer)?;
        }
        Ok(())
    })
}
