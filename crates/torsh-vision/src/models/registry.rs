//! Models by name.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Once;

use serde_json::Value;
use torsh_nn::Module;
use torsh_tensor::{DType, Device, Result, TorshError};
use torsh_train::config::ModelConfig;
use torsh_train::registry::{models, set_model_defaults};

use super::builder::ModelFamily;
use super::common::VisionModel;
use super::{Weights, families};

/// What a model is for.
///
/// ```
/// use torsh_vision::models::{ModelKind, list_models_of};
/// let kinds = [ModelKind::Segmentation, ModelKind::Video, ModelKind::OpticalFlow];
/// assert_eq!(kinds.map(|kind| list_models_of(kind).len()), [6, 9, 2]);
/// assert_eq!(list_models_of(ModelKind::OpticalFlow), ["raft_large", "raft_small"]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ModelKind {
    /// Scores of classes for an image.
    Classification,
    /// Scores of classes for each pixel of an image.
    Segmentation,
    /// Boxes, and masks or key points, of the objects of an image.
    Detection,
    /// Scores of classes for a video.
    Video,
    /// The motion of each pixel from one image to another.
    OpticalFlow,
}

/// The arguments of [`get_model`].
///
/// ```
/// use torsh_vision::models::{ModelOptions, Weights};
/// let options = ModelOptions::default().num_classes(10).option("dropout", 0.1);
/// assert_eq!(options.num_classes, Some(10));
/// assert!(ModelOptions::from(Weights::None).weights.is_none());
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ModelOptions {
    /// Where the weights come from.
    pub weights: Weights,
    /// The number of classes, where it is not the model's own.
    pub num_classes: Option<usize>,
    /// Where the parameters are.
    pub device: Option<Device>,
    /// The dtype of the parameters.
    pub dtype: Option<DType>,
    /// Keyword arguments of torchvision's constructor by name, as `image_size` or `aux_loss`.
    pub options: BTreeMap<String, Value>,
}

impl ModelOptions {
    /// The defaults.
    ///
    /// ```
    /// assert!(torsh_vision::models::ModelOptions::new().weights.is_none());
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// Where the weights come from.
        weights: Weights, impl Into<Weights> => Into::into;
        /// The number of classes.
        num_classes: Option<usize>, usize => Some;
        /// Where the parameters are.
        device: Option<Device>, impl Into<Device> => |v| Some(v.into());
        /// The dtype of the parameters.
        dtype: Option<DType>, DType => Some;
    }

    /// A keyword argument of torchvision's constructor.
    #[must_use]
    pub fn option(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.options.insert(name.into(), value.into());
        self
    }
}

impl<W: Into<Weights>> From<W> for ModelOptions {
    fn from(weights: W) -> Self {
        ModelOptions::default().weights(weights)
    }
}

/// Of the sections of a configuration: the number of classes, the keyword arguments in `options`, and `dropout` where it
/// is not 0. Weights, device and dtype are what [`create_model`](torsh_train::registry::create_model) sees to.
impl TryFrom<&ModelConfig> for ModelOptions {
    type Error = TorshError;

    #[track_caller]
    fn try_from(config: &ModelConfig) -> Result<Self> {
        let mut options = ModelOptions::default();
        // 0 stands for the model's own, as in the defaults that the models are registered with.
        if config.num_classes > 0 {
            options = options.num_classes(config.num_classes);
        }
        options.options = config.options.clone();
        if config.dropout != 0.0 {
            options = options.option("dropout", config.dropout);
        }
        // Large models are made where they shall be.
        options.device = Some(Device::from_str(&config.device)?);
        options.dtype = Some(DType::from_str(&config.dtype)?);
        Ok(options)
    }
}

type Make = fn(&ModelOptions) -> Result<Box<dyn VisionModel>>;

/// A model of the registry.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) kind: ModelKind,
    pub(crate) make: Make,
}

impl Entry {
    pub(crate) const fn new(name: &'static str, kind: ModelKind, make: Make) -> Entry {
        Entry { name, kind, make }
    }
}

/// Makes a model with a builder.
#[track_caller]
pub(crate) fn make<F: ModelFamily>(
    builder: F,
    name: &'static str,
    options: &ModelOptions,
) -> Result<Box<dyn VisionModel>> {
    let mut builder = super::weights::given(builder, options.weights.clone(), name)?;
    apply(&mut builder, options)?;
    Ok(Box::new(builder.build_model()?))
}

/// Gives a builder all options but the weights.
#[track_caller]
pub(crate) fn apply<F: ModelFamily>(builder: &mut F, options: &ModelOptions) -> Result<()> {
    let common = builder.common();
    if let Some(classes) = options.num_classes {
        common.num_classes = Some(classes);
    }
    common.device = options.device;
    common.dtype = options.dtype;
    for (name, value) in &options.options {
        if !builder.option(name, value)? {
            return Err(TorshError::invalid(
                "get_model",
                format!("the model has no argument `{name}`"),
            ));
        }
    }
    Ok(())
}

fn entries() -> impl Iterator<Item = &'static Entry> {
    families().into_iter().flatten()
}

/// Adds the models of this crate to [`torsh_train::registry::models`], so that configurations, `create_model` and
/// `ModelBuilder` find them by name. A second call does nothing.
///
/// ```
/// use torsh_nn::ModuleExt;
/// use torsh_train::registry::ModelBuilder;
/// torsh_vision::models::register_models();
/// let model = ModelBuilder::new().architecture("squeezenet1_1").num_classes(10).build()?;
/// assert_eq!(model.num_parameters(), 727_626);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub fn register_models() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for entry in entries() {
            torsh_train::registry::register_model(entry.name, |config| {
                let model = (entry.make)(&ModelOptions::try_from(config)?)?;
                let model: Box<dyn Module> = model;
                Ok(model)
            });
            let defaults = ModelConfig {
                num_classes: 0,
                ..ModelConfig::new(entry.name)
            };
            set_model_defaults(entry.name, defaults);
            let about = format!("{}: torchvision's model ({:?}).", entry.name, entry.kind);
            models().describe(entry.name, about);
        }
    });
}

/// The names of the models (`torchvision.models.list_models`), sorted.
///
/// ```
/// use torsh_vision::models::list_models;
/// assert!(list_models().iter().any(|name| name == "resnet50"));
/// ```
pub fn list_models() -> Vec<String> {
    list(None)
}

/// The names of the models of one kind, sorted.
///
/// ```
/// use torsh_vision::models::{ModelKind, list_models_of};
/// assert!(list_models_of(ModelKind::Classification).iter().any(|name| name == "vgg16"));
/// ```
pub fn list_models_of(kind: ModelKind) -> Vec<String> {
    list(Some(kind))
}

fn list(kind: Option<ModelKind>) -> Vec<String> {
    register_models();
    let mut names: Vec<String> = entries()
        .filter(|entry| kind.is_none_or(|kind| entry.kind == kind))
        .map(|entry| entry.name.to_string())
        .collect();
    names.sort();
    names
}

/// The kind of the model of a name, or `None` where there is none.
///
/// ```
/// use torsh_vision::models::{ModelKind, model_kind};
/// assert_eq!(model_kind("alexnet"), Some(ModelKind::Classification));
/// ```
pub fn model_kind(name: &str) -> Option<ModelKind> {
    find(name).map(|entry| entry.kind)
}

fn find(name: &str) -> Option<&'static Entry> {
    let exact = entries().find(|entry| entry.name == name);
    exact.or_else(|| entries().find(|entry| entry.name.eq_ignore_ascii_case(name)))
}

/// The model of a name (`torchvision.models.get_model`).
///
/// ```
/// use torsh_nn::{Module, ModuleExt};
/// use torsh_tensor::rand;
/// use torsh_vision::models::{ModelOptions, Weights, get_model};
///
/// let model = get_model("squeezenet1_1", Weights::None)?;
/// model.eval();
/// assert_eq!(model.forward(&rand(&[1, 3, 64, 64]))?.dims(), [1, 1000]);
/// let small = get_model("squeezenet1_1", ModelOptions::default().num_classes(10))?;
/// assert_eq!(small.num_parameters(), 727_626);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// No model of the name, in which case the error lists the names that are like it; an argument that the model does not
/// have; weights that do not fit.
#[torsh_tensor::names_caller]
pub fn get_model(name: &str, options: impl Into<ModelOptions>) -> Result<Box<dyn VisionModel>> {
    match find(name) {
        Some(entry) => (entry.make)(&options.into()),
        None => {
            let start: String = name.chars().take(3).collect();
            let all = list_models();
            let like: Vec<&str> = all
                .iter()
                .map(String::as_str)
                .filter(|other| other.starts_with(&start.to_lowercase()))
                .collect();
            let like = match like.is_empty() {
                true => all.join(", "),
                false => like.join(", "),
            };
            let why = format!("there is no model `{name}`");
            Err(TorshError::invalid("get_model", why).with_hint(format!("there are {like}")))
        }
    }
}
