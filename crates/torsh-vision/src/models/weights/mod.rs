//! Where a model's weights come from, and how they get into it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use torsh_nn::module::{walk, walk_mut};
use torsh_nn::{Buffer, FieldMut, FieldRef, Module, Parameter, StateDict};
use torsh_serialize::Value;
use torsh_serialize::files::path_of_url;
use torsh_serialize::torch_cache::hash_in_file_name;
use torsh_tensor::{Result, Tensor, TorshError};

use super::Common;
use super::builder::ModelFamily;
use crate::fetch;

pub(crate) mod enums;
pub(crate) mod info;
mod macros;

pub use info::{Metric, WeightsInfo, get_model_weights, get_weight};

/// What a model starts from: weights that are drawn, pretrained weights, a file, or a state dict.
///
/// Constructors take anything that becomes one:
///
/// * a value of the model's enum, as `ResNet50Weights::DEFAULT`, or what [`get_weight`] returns;
/// * a name as text: `"ResNet50_Weights.IMAGENET1K_V2"`, or within its enum, `"DEFAULT"`;
/// * the URL of a file as text;
/// * a path as text or [`Path`], a [`StateDict`], an `Option` of these.
///
/// Pretrained weights and URLs are read from PyTorch's cache; see [`WeightsInfo::path`]. torchvision's constructors set
/// further arguments where they are given pretrained weights, as the size of a transformer's images; so do these.
///
/// A file is one that [`torsh_serialize::load`] reads: PyTorch's `.pth` and `.pt`, which is read once, or safetensors,
/// which is mapped. It may hold the tensors themselves, or have them under `state_dict`, `model_state_dict`, `model` or
/// `module`; names may all begin with `module.`, as `DataParallel` writes them. Parameters take over the file's
/// tensors, so nothing is drawn and nothing copied, unless the dtype or the device is another. Floating-point tensors
/// are converted to the model's dtype.
///
/// ```
/// use torsh_nn::ModuleExt;
/// use torsh_vision::models::{Weights, squeezenet1_1};
///
/// let model = squeezenet1_1(Weights::None)?;
/// let path = std::env::temp_dir().join(format!("torsh-weights-{}.safetensors", std::process::id()));
/// model.save(&path)?;
/// let again = squeezenet1_1(&path)?;
/// assert_eq!(again.state_dict()["features.0.weight"], model.state_dict()["features.0.weight"]);
/// # drop(again);
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Weights {
    /// Weights drawn from the default generator, as PyTorch draws them.
    #[default]
    None,
    /// Pretrained weights.
    Pretrained(&'static WeightsInfo),
    /// Pretrained weights of the model that is made, by their name within its enum, as `DEFAULT`.
    Named(String),
    /// A file of tensors to download.
    Url(String),
    /// A file of tensors.
    File(PathBuf),
    /// Tensors by name. The model copies them.
    State(StateDict),
}

impl From<&str> for Weights {
    fn from(text: &str) -> Weights {
        if let Some(path) = text.strip_prefix("file://") {
            return Weights::File(path_of_url(path));
        }
        if text.contains("://") {
            return match info::of_url(text) {
                Some(known) => Weights::Pretrained(known),
                None => Weights::Url(text.to_string()),
            };
        }
        // A name within an enum, or a whole one.
        let whole = text
            .split_once('.')
            .is_some_and(|(class, _)| class.ends_with("_Weights"));
        match whole || info::is_variant(text) {
            true => Weights::Named(text.to_string()),
            false => Weights::File(PathBuf::from(text)),
        }
    }
}

conversions! {
    &String => Weights, |text| Weights::from(text.as_str());
    String => Weights, |text| Weights::from(text.as_str());
    PathBuf => Weights, |path| Weights::File(path);
    &'static WeightsInfo => Weights, |weights| Weights::Pretrained(weights);
    &Path => Weights, |path| Weights::File(path.to_path_buf());
    &PathBuf => Weights, |path| Weights::File(path.clone());
    StateDict => Weights, |state| Weights::State(state);
    &StateDict => Weights, |state| Weights::State(state.clone());
}

impl<W: Into<Weights>> From<Option<W>> for Weights {
    fn from(weights: Option<W>) -> Weights {
        weights.map_or(Weights::None, Into::into)
    }
}

/// Where checkpoints have the tensors, besides at the top.
const WRAPPERS: [&str; 4] = ["state_dict", "model_state_dict", "model", "module"];

impl Weights {
    /// Whether they are drawn.
    ///
    /// ```
    /// use torsh_vision::models::{ResNet50Weights, Weights};
    /// assert!(Weights::None.is_none());
    /// assert!(!Weights::from(ResNet50Weights::DEFAULT).is_none());
    /// ```
    pub fn is_none(&self) -> bool {
        matches!(self, Weights::None)
    }

    /// Reads the tensors by name; `None` where weights are drawn.
    ///
    /// ```
    /// use torsh_nn::{Linear, ModuleExt};
    /// use torsh_vision::models::Weights;
    /// let state = Linear::new(2, 3).state_dict();
    /// let read = Weights::from(&state).read()?;
    /// assert_eq!(read.map(|tensors| tensors["weight"].clone()), Some(state["weight"].clone()));
    /// assert!(Weights::None.read()?.is_none());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// A file that cannot be read or holds something else than tensors; pretrained weights that are not on this machine
    /// and cannot be downloaded; a name that needs the model to be understood.
    #[torsh_tensor::names_caller]
    pub fn read(&self) -> Result<Option<StateDict>> {
        let path = match self {
            Weights::None => return Ok(None),
            Weights::State(state) => return Ok(Some(state.clone())),
            Weights::File(path) => path.clone(),
            Weights::Pretrained(weights) => weights.path()?,
            Weights::Named(name) if name.contains('.') => get_weight(name)?.path()?,
            Weights::Named(name) => {
                let why = format!("`{name}` are weights of a model, and there is none here");
                return Err(TorshError::invalid("Weights", why)
                    .with_hint("name the model too, as in ResNet50_Weights.DEFAULT"));
            }
            Weights::Url(url) => fetch::fetch(url, hash_in_file_name(fetch::file_name(url)))?,
        };
        // What stands beside the state dict, as the arguments of the training, need not be read.
        let options = torsh_serialize::LoadOptions::new().keep_foreign(true);
        let value = torsh_serialize::load_with(&path, options)?;
        tensors(&value).map(Some).map_err(|e| {
            let why = format!("{} holds no state dict: {e}", path.display());
            TorshError::invalid("Weights", why)
        })
    }

    /// These weights for a model, with names looked up.
    #[track_caller]
    fn for_model(self, model: &'static str) -> Result<Weights> {
        let weights = match self {
            Weights::Named(name) if name.contains('.') => {
                Weights::Pretrained(get_weight(&name).map_err(|e| e.renamed(model))?)
            }
            Weights::Named(name) => Weights::Pretrained(info::named(model, &name)?),
            other => other,
        };
        match &weights {
            Weights::Pretrained(of) if of.model() != model => {
                let why = format!("{} are weights of {}", of.name(), of.model());
                Err(match get_model_weights(model) {
                    Ok(own) => TorshError::invalid(model, why)
                        .with_hint(format!("{} are this model's", own[0].name())),
                    Err(_) => TorshError::invalid(model, why),
                })
            }
            _ => Ok(weights),
        }
    }

    /// Whether they are torchvision's.
    pub(crate) fn is_pretrained(&self) -> bool {
        matches!(self, Weights::Pretrained(_) | Weights::Named(_))
    }

    /// What is added to the variance in norms that do not learn.
    pub(crate) fn frozen_eps(&self) -> f64 {
        match self {
            Weights::Pretrained(weights) => weights.frozen_eps(),
            _ => 1e-5,
        }
    }
}

/// A builder with these weights, as a constructor is given them: what torchvision's constructor sets for them is set.
#[track_caller]
pub(crate) fn given<F: ModelFamily>(
    mut builder: F,
    weights: Weights,
    model: &'static str,
) -> Result<F> {
    let weights = weights.for_model(model)?;
    if let Weights::Pretrained(weights) = &weights {
        for (name, value) in weights.arguments() {
            builder.option(name, &value)?;
        }
    }
    builder.common().weights = weights;
    Ok(builder)
}

fn tensors(value: &Value) -> Result<StateDict> {
    let wrapped = WRAPPERS.iter().find_map(|key| {
        let inner = value.get(*key).ok()?;
        let state = StateDict::try_from(inner);
        // A tensor that cannot be read is an error, something else no state dict.
        let unreadable = matches!(state, Err(TorshError::DTypeMismatch(_)));
        (state.is_ok() || unreadable).then_some(state)
    });
    let state = match wrapped {
        Some(state) => state?,
        None => StateDict::try_from(value)?,
    };
    let prefixed = !state.is_empty() && state.keys().all(|key| key.starts_with("module."));
    Ok(match prefixed {
        false => state,
        true => state
            .into_iter()
            .map(|(key, tensor)| (key["module.".len()..].to_string(), tensor))
            .collect(),
    })
}

/// How the weights of a family of models are read.
#[derive(Clone, Copy)]
pub(crate) struct Loading {
    /// The model's name, for messages.
    pub(crate) model: &'static str,
    /// What the names of those parameters begin with whose shape depends on the number of classes, as `fc.`.
    pub(crate) head: &'static [&'static str],
    /// What names begin with that a file may have and the model not.
    pub(crate) optional: &'static [&'static str],
    /// The present name of one that older checkpoints have.
    pub(crate) rename: fn(&str) -> Option<String>,
}

impl Loading {
    /// Of a model with this head.
    pub(crate) const fn new(model: &'static str, head: &'static [&'static str]) -> Loading {
        Loading {
            model,
            head,
            optional: &[],
            rename: |_| None,
        }
    }

    /// Names that a file may have and the model not.
    pub(crate) const fn optional(mut self, optional: &'static [&'static str]) -> Loading {
        self.optional = optional;
        self
    }

    /// The names of older checkpoints.
    pub(crate) const fn rename(mut self, rename: fn(&str) -> Option<String>) -> Loading {
        self.rename = rename;
        self
    }
}

/// Makes a model on the device and of the dtype that were asked for, with drawn or given weights.
#[track_caller]
pub(crate) fn build<M: Module>(
    common: &Common,
    loading: Loading,
    make: impl Fn() -> Result<M>,
) -> Result<M> {
    if let Some(why) = &common.refused {
        return Err(TorshError::invalid(loading.model, why.as_str())
            .with_hint("this is what the configuration says that the builder was made from"));
    }
    if let Some(dtype) = common.dtype.filter(|d| !d.is_floating_point()) {
        let why = format!("a model's dtype is floating point, not {dtype}");
        return Err(TorshError::dtype(loading.model, why));
    }
    let construction = common.construction();
    let Some(state) = common.state().map_err(|e| e.renamed(loading.model))? else {
        return construction.run(make);
    };
    let state = state.into_iter().map(|(key, t)| {
        // PyTorch 0.3 had no tensors without dimensions.
        let t = match key.ends_with("num_batches_tracked") && t.dims() == [1] {
            true => t.reshape(())?,
            false => t,
        };
        Ok(((loading.rename)(&key).unwrap_or(key), t))
    });
    let state: StateDict = state.collect::<Result<_>>()?;
    let mut model = construction.reserve_nothing().run(&make)?;
    let new_head = check(&model, &state, loading, common.num_classes)?;
    if !new_head.is_empty() {
        // The head's weights are drawn as those of a new model.
        model = construction.run(&make)?;
        eprintln!(
            "{}: the weights are of another number of classes: new are {}, all else is loaded",
            loading.model,
            new_head.join(", ")
        );
    }
    let copy = matches!(common.weights, Weights::State(_));
    take_over(&mut model, &state, &new_head, copy)?;
    Ok(model)
}

fn begins(name: &str, with: &[&str]) -> bool {
    with.iter().any(|prefix| name.starts_with(prefix))
}

/// The names of the head where it is to stay as it was drawn; an error with all that does not fit.
#[track_caller]
fn check<M: Module>(
    model: &M,
    state: &StateDict,
    loading: Loading,
    num_classes: Option<usize>,
) -> Result<Vec<String>> {
    let mut own: Vec<(String, Tensor)> = Vec::new();
    walk(model, &mut |name, field| match field {
        FieldRef::Parameter(p) => own.push((name.to_string(), p.tensor().clone())),
        FieldRef::Buffer(b) if b.is_persistent() => {
            own.push((name.to_string(), b.tensor().clone()));
        }
        _ => {}
    });
    let (mut missing, mut wrong, mut head) = (Vec::new(), Vec::new(), Vec::new());
    for (name, tensor) in &own {
        let Some(given) = state.get(name) else {
            // Checkpoints of before PyTorch 0.4.1 do not count batches.
            if !name.ends_with("num_batches_tracked") {
                missing.push(name.as_str());
            }
            continue;
        };
        let (ours, theirs) = (tensor.dtype(), given.dtype());
        let kinds = match ours.is_floating_point() {
            true => theirs.is_floating_point(),
            false => theirs == ours,
        };
        if !kinds {
            wrong.push(format!("{name} is {ours} here and {theirs} in the weights"));
        }
        if given.shape() != tensor.shape() {
            let of_classes = begins(name, loading.head)
                && tensor.dims().get(1..) == given.dims().get(1..)
                && num_classes.is_some();
            match of_classes {
                true => head.push(name.clone()),
                false => wrong.push(format!(
                    "{name} is {} here and {} in the weights",
                    tensor.shape(),
                    given.shape()
                )),
            }
        }
    }
    let names: HashMap<&str, ()> = own.iter().map(|(name, _)| (name.as_str(), ())).collect();
    let unexpected: Vec<&str> = state
        .keys()
        .filter(|key| !names.contains_key(key))
        .filter(|key| !key.ends_with("num_batches_tracked") && !begins(key, loading.optional))
        .collect();
    if missing.is_empty() && unexpected.is_empty() && wrong.is_empty() {
        return Ok(head);
    }
    let mut text = format!("the weights do not fit {}", model.type_name());
    let mut list = |what: &str, items: &[String]| {
        if items.is_empty() {
            return;
        }
        text.push_str(&format!("\n  {what} ({}): ", items.len()));
        text.push_str(&items.join("; "));
    };
    let missing: Vec<String> = missing
        .iter()
        .map(|name| match nearest(name, &unexpected) {
            Some(like) => format!("{name} (the weights have {like})"),
            None => name.to_string(),
        })
        .collect();
    let unexpected: Vec<String> = unexpected.iter().map(|name| name.to_string()).collect();
    list("missing", &missing);
    list("unexpected", &unexpected);
    list("does not fit", &wrong);
    let error = TorshError::invalid(loading.model, text);
    let differs = wrong.iter().any(|w| begins(w, loading.head)) && num_classes.is_none();
    Err(match differs {
        true => {
            error.with_hint("num_classes(..) of the builder makes a new head and loads the rest")
        }
        false => error,
    })
}

/// The name that differs least, if it differs by less than a third.
fn nearest<'a>(name: &str, among: &[&'a str]) -> Option<&'a str> {
    // Where nothing fits, the nearest names help nobody, and comparing all takes long.
    if among.len() > 500 {
        return None;
    }
    let scored = among.iter().map(|other| (distance(name, other), *other));
    let (least, other) = scored.min()?;
    (least * 3 <= name.len().max(other.len())).then_some(other)
}

/// Levenshtein's distance in bytes.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut corner = i;
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let next = (corner + usize::from(x != y))
                .min(row[j] + 1)
                .min(row[j + 1] + 1);
            corner = row[j + 1];
            row[j + 1] = next;
        }
    }
    row[b.len()]
}

/// Puts the tensors in the place of the model's own.
fn take_over<M: Module>(
    model: &mut M,
    state: &StateDict,
    except: &[String],
    copy: bool,
) -> Result<()> {
    let convert = |own: &Tensor, given: &Tensor| -> Result<Tensor> {
        let same = own.dtype() == given.dtype() && own.device() == given.device();
        match same {
            true if copy => given.detach().copy(),
            true => given.detach().contiguous(),
            false => given
                .detach()
                .to_dtype(own.dtype())?
                .to_device(own.device()),
        }
    };
    // What is tied stays tied.
    let mut parameters: HashMap<usize, Parameter> = HashMap::new();
    let mut buffers: HashMap<usize, Buffer> = HashMap::new();
    let mut result = Ok(());
    let mut assign = |name: &str, field: FieldMut<'_>| -> Result<()> {
        let Some(given) = state
            .get(name)
            .filter(|_| !except.iter().any(|e| e == name))
        else {
            return Ok(());
        };
        match field {
            FieldMut::Parameter(p) => {
                let id = p.id();
                if let Some(tied) = parameters.get(&id) {
                    *p = tied.clone();
                    return Ok(());
                }
                let new = convert(p.tensor(), given)?;
                let new = Parameter::with_requires_grad(new, p.requires_grad())?;
                *p = new.clone();
                parameters.insert(id, new);
            }
            FieldMut::Buffer(b) if b.is_persistent() => {
                let id = b.id();
                if let Some(tied) = buffers.get(&id) {
                    *b = tied.clone();
                    return Ok(());
                }
                let new = Buffer::new(convert(b.tensor(), given)?);
                *b = new.clone();
                buffers.insert(id, new);
            }
            _ => {}
        }
        Ok(())
    };
    walk_mut(model, &mut |name, field| {
        if result.is_ok() {
            result = assign(name, field);
        }
    });
    result
}
