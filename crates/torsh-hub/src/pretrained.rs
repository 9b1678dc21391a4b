//! Folders with a model: its configuration and its weights.

use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use torsh_nn::construct::Construction;
use torsh_nn::{FieldMut, FieldRef, Module, ModuleExt, ModuleField, ModuleFields, StateDict};
use torsh_serialize::LeftOut;
use torsh_serialize::files::is_path;
use torsh_tensor::{DType, Result, Tensor, TorshError};
use torsh_train::config::ModelConfig;
use torsh_train::registry::{create_model, model_defaults, models};

use crate::checkpoint::LoadStateDict;
use crate::errors::{self, short};
use crate::hub::Hub;

/// The file with a model's configuration.
const CONFIG: &str = "config.json";

/// More than any configuration has.
const LARGEST_CONFIG: u64 = 16 << 20;

/// How a model is written into a folder.
///
/// ```
/// use torsh_hub::SaveOptions;
/// let options = SaveOptions::new().config(serde_json::json!({"hidden": 8})).max_shard_size(5 << 30);
/// assert_eq!(options.max_shard_size, Some(5 << 30));
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SaveOptions {
    /// What `config.json` has besides the model's own.
    pub config: Option<Value>,
    /// The most bytes of tensors in one file; more are spread over several, with a list of them.
    pub max_shard_size: Option<u64>,
}

impl SaveOptions {
    /// One file of weights.
    pub fn new() -> Self {
        Self::default()
    }

    /// What `config.json` has besides the model's own; an object.
    #[must_use]
    pub fn config(mut self, config: Value) -> Self {
        self.config = Some(config);
        self
    }

    /// The most bytes of tensors in one file.
    #[must_use]
    pub fn max_shard_size(mut self, bytes: u64) -> Self {
        self.max_shard_size = Some(bytes);
        self
    }
}

torsh_tensor::options! {
    /// How [`FromPretrained::from_pretrained_with`] loads a model.
    ///
    /// ```
    /// use torsh_hub::PretrainedOptions;
    /// assert!(PretrainedOptions::new().new_head(true).new_head);
    /// ```
    PretrainedOptions {
        /// Whether a head that the file lacks is drawn, for a model that is fine-tuned for another task. A line on the
        /// standard error names what is drawn. Nothing else of a model is ever drawn.
        new_head: bool = false;
    }
}

/// Reading and writing folders with models, for every module.
///
/// ```
/// use torsh_hub::{Pretrained, load_state_dict};
/// use torsh_nn::{Linear, ModuleExt};
///
/// # let dir = std::env::temp_dir().join(format!("torsh-hub-pretrained-{}", std::process::id()));
/// let net = Linear::new(2, 3);
/// net.save_pretrained(&dir)?; // config.json and model.safetensors
/// let other = Linear::new(2, 3);
/// other.load_pretrained(&dir.display().to_string())?;
/// assert_eq!(*other.weight, *net.weight);
/// assert_eq!(load_state_dict(&dir)?.len(), 2);
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub trait Pretrained: Module {
    /// Loads weights from a folder, a file, an address or a repository `org/name`. Names that all begin with `module.`,
    /// as `DataParallel` writes them, are read without it.
    ///
    /// # Errors
    /// As [`Hub::load_state_dict`], and weights that do not fit the module, which then is as it was.
    #[torsh_tensor::names_caller]
    fn load_pretrained(&self, source: &str) -> Result<()> {
        let state = Hub::shared()?.load_state_dict(source, LoadStateDict::new())?;
        self.load_state_dict(&plain_names(state)).map_err(|e| {
            match e.info().and_then(|i| i.hint.clone()) {
                // What it says is to be done with the state dict, which is not at hand.
                Some(hint) => e.with_hint(format!(
                    "torsh_hub::load_state_dict(source) reads the state dict; {hint}"
                )),
                None => e,
            }
        })
    }

    /// Writes `config.json` and `model.safetensors` into a folder, which is made where there is none. Python's
    /// safetensors and `huggingface_hub` read them.
    ///
    /// The configuration of a module names its type. [`HubModel`] and [`FromPretrained`] write what the model can be made
    /// from again.
    ///
    /// # Errors
    /// A folder that cannot be written, or a tensor of complex128, which safetensors lacks.
    #[track_caller]
    fn save_pretrained(&self, folder: impl AsRef<Path>) -> Result<()> {
        self.save_pretrained_with(folder, &SaveOptions::new())
    }

    /// [`Pretrained::save_pretrained`] with options.
    ///
    /// # Errors
    /// As there, and a configuration that is no object.
    #[torsh_tensor::names_caller]
    fn save_pretrained_with(&self, folder: impl AsRef<Path>, options: &SaveOptions) -> Result<()> {
        let own = json!({ "architecture": self.type_name() });
        write(folder.as_ref(), &self.state_dict(), own, options)
    }
}

impl<M: Module + ?Sized> Pretrained for M {}

/// A type of model that is made of a configuration, so that a folder or a repository is all that it takes.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use torsh_hub::FromPretrained;
/// use torsh_nn::{Linear, Module};
/// use torsh_tensor::{Result, Tensor};
///
/// #[derive(Serialize, Deserialize)]
/// struct Config {
///     width: usize,
/// }
///
/// #[derive(Module)]
/// struct Net {
///     layer: Linear,
/// }
///
/// impl Module for Net {
///     fn forward(&self, x: &Tensor) -> Result<Tensor> {
///         self.layer.forward(x)
///     }
/// }
///
/// impl FromPretrained for Net {
///     type Config = Config;
///
///     fn from_config(config: Config) -> Result<Net> {
///         Ok(Net { layer: Linear::new(config.width, 1) })
///     }
///
///     fn config(&self) -> Config {
///         Config { width: self.layer.weight.dims()[1] }
///     }
/// }
///
/// # fn main() -> Result<()> {
/// # let dir = std::env::temp_dir().join(format!("torsh-hub-from-{}", std::process::id()));
/// let net = Net::from_config(Config { width: 4 })?;
/// net.save_model(&dir)?;
/// let again = Net::from_pretrained(&dir.display().to_string())?;
/// assert_eq!(*again.layer.weight, *net.layer.weight);
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok(())
/// # }
/// ```
pub trait FromPretrained: Module + Sized {
    /// What `config.json` holds.
    type Config: Serialize + DeserializeOwned;

    /// A model with drawn weights.
    ///
    /// # Errors
    /// Whatever the model cannot be made of.
    fn from_config(config: Self::Config) -> Result<Self>;

    /// What the model is made of.
    fn config(&self) -> Self::Config;

    /// Reads `config.json`. A type whose file has fields that serde alone cannot judge reads it itself.
    ///
    /// # Errors
    /// A configuration that is not the type's.
    #[torsh_tensor::names_caller]
    fn read_config(config: Value) -> Result<Self::Config> {
        serde_json::from_value(config).map_err(|e| TorshError::format(CONFIG, e.to_string()))
    }

    /// What `config.json` holds for this model.
    ///
    /// # Errors
    /// A configuration that JSON cannot hold.
    #[torsh_tensor::names_caller]
    fn write_config(&self) -> Result<Value> {
        serde_json::to_value(self.config())
            .map_err(|e| TorshError::format("save_pretrained", e.to_string()))
    }

    /// The tensors of a file by the names of this model: a type whose files have other names, or leave tied weights
    /// out, renames and completes them.
    ///
    /// # Errors
    /// Names that the type cannot read.
    #[track_caller]
    fn adapt_state_dict(&self, state: StateDict) -> Result<StateDict> {
        Ok(state)
    }

    /// Whether a tensor of the model may be missing in a file where [`PretrainedOptions::new_head`] is set, and is drawn
    /// then: the head of a model that is fine-tuned for another task.
    fn may_be_missing(&self, name: &str) -> bool {
        let _ = name;
        false
    }

    /// The model of a folder or a repository, with its weights: [`FromPretrained::from_pretrained_with`] and the defaults.
    ///
    /// # Errors
    /// As there.
    #[torsh_tensor::names_caller]
    fn from_pretrained(source: &str) -> Result<Self> {
        Self::from_pretrained_with(source, PretrainedOptions::new())
    }

    /// The model of a folder or a repository, with its weights. None is drawn, unless
    /// [`new_head`](PretrainedOptions::new_head) asks for it.
    ///
    /// Tensors of the file that the model does not have are left out, and so is what of the file cannot be read; a line on
    /// the standard error names them.
    ///
    /// Where the model ties weights and the file has different tensors for them, each keeps its own, and a line on the
    /// standard error says so ([`assign_state_dict`](torsh_nn::ModuleExt::assign_state_dict)).
    ///
    /// # Errors
    /// As [`from_pretrained`](crate::from_pretrained), a configuration that is not the type's, and tensors of the model that
    /// the file lacks. The error names them.
    #[torsh_tensor::names_caller]
    fn from_pretrained_with(source: &str, options: PretrainedOptions) -> Result<Self> {
        let hub = Hub::shared()?;
        let config = hub.config(source)?;
        let config = Self::read_config(config).map_err(|e| {
            let why = format!("the {CONFIG} of {} does not fit: {e}", short(source));
            TorshError::format("from_pretrained", why)
        })?;
        let mut model = Construction::new()
            .draw_nothing()
            .run(|| Self::from_config(config))?;
        let (state, left_out) = hub.load_readable_state_dict(source, LoadStateDict::new())?;
        let state = model.adapt_state_dict(plain_names(state))?;
        let head = NewHead {
            is_head: &|name| model.may_be_missing(name),
            draw: &|| Ok(Self::from_config(model.config())?.state_dict()),
        };
        let state = complete(&model, source, state, &options, &head);
        let state = with_left_out(source, &left_out, state)?;
        model.assign_state_dict(&state)?;
        Ok(model)
    }

    /// Writes `config.json` and `model.safetensors` into a folder.
    ///
    /// # Errors
    /// As [`Pretrained::save_pretrained`], and a configuration that is no object.
    #[torsh_tensor::names_caller]
    fn save_model(&self, folder: impl AsRef<Path>) -> Result<()> {
        write(
            folder.as_ref(),
            &self.state_dict(),
            self.write_config()?,
            &SaveOptions::new(),
        )
    }
}

/// What is said of weights that do not fit the model that was made for them.
const OTHER_MODEL: &str =
    "the weights are of another model, or of other settings, than config.json says";

/// What [`complete`] draws where a file lacks a model's head.
pub struct NewHead<'a> {
    /// Whether a tensor of the model belongs to its head.
    pub is_head: &'a dyn Fn(&str) -> bool,
    /// The tensors of a model with drawn weights.
    pub draw: &'a dyn Fn() -> Result<StateDict>,
}

/// The tensors of a file, which must have all of a model's, but for a head that
/// [`new_head`](PretrainedOptions::new_head) asks to draw. What loads models of files calls it, so that all do the same with
/// what is missing.
///
/// ```
/// use torsh_hub::{NewHead, PretrainedOptions, complete};
/// use torsh_nn::{Linear, ModuleExt, StateDict};
/// use torsh_tensor::tensor;
///
/// let layer = Linear::new(2, 1);
/// let head = NewHead { is_head: &|name| name == "bias", draw: &|| Ok(Linear::new(2, 1).state_dict()) };
/// let file = || StateDict::from([("weight", tensor![[1.0, 4.0]])]);
/// let error = complete(&layer, "org/name", file(), &PretrainedOptions::new(), &head).err();
/// assert!(error.is_some_and(|e| e.to_string().contains("org/name lacks bias")));
/// let state = complete(&layer, "org/name", file(), &PretrainedOptions::new().new_head(true), &head)?;
/// assert_eq!(state["bias"].dims(), [1]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Other tensors of the model that the file lacks; the error names them.
#[torsh_tensor::names_caller]
pub fn complete<M: Module + ?Sized>(
    model: &M,
    source: &str,
    mut state: StateDict,
    options: &PretrainedOptions,
    head: &NewHead<'_>,
) -> Result<StateDict> {
    let own = model.state_dict();
    let missing: Vec<&str> = own.keys().filter(|n| !state.contains_key(n)).collect();
    let extra: Vec<String> = state
        .keys()
        .filter(|name| !own.contains_key(name))
        .map(str::to_string)
        .collect();
    if missing.is_empty() || (options.new_head && missing.iter().all(|n| (head.is_head)(n))) {
        for name in &extra {
            state.remove(name);
        }
        if !extra.is_empty() {
            eprintln!(
                "torsh: {} has {}, which {} does not have: left out",
                short(source),
                some(&extra),
                model.type_name()
            );
        }
    }
    if missing.is_empty() {
        return Ok(state);
    }
    let of_head = missing.iter().all(|name| (head.is_head)(name));
    if of_head && options.new_head {
        let drawn = (head.draw)()?;
        for name in &missing {
            if let Some(tensor) = drawn.get(name) {
                state.insert(*name, tensor.clone());
            }
        }
        eprintln!(
            "torsh: {} has no {}: they are drawn anew and should be trained before the model is used",
            short(source),
            missing.join(", ")
        );
        return Ok(state);
    }
    let mut why = format!(
        "the file of {} lacks {} of {}",
        short(source),
        some(&missing),
        model.type_name()
    );
    if !extra.is_empty() && !of_head {
        why.push_str(&format!("; it has {} instead", some(&extra)));
    }
    let hint = match of_head {
        true => {
            "from_pretrained_with(source, PretrainedOptions::new().new_head(true)) draws a new head, which is to be trained"
        }
        false => {
            "the file is incomplete, or belongs to another model; `torsh inspect` lists its tensors"
        }
    };
    Err(TorshError::format("from_pretrained", why).with_hint(hint))
}

/// The first of some names.
fn some(names: &[impl AsRef<str>]) -> String {
    const SHOWN: usize = 10;
    let shown: Vec<&str> = names.iter().take(SHOWN).map(AsRef::as_ref).collect();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{}, and {more} more", shown.join(", ")),
    }
}

/// Says what of a file was left out because it could not be read: on the standard error where the model is complete
/// without it, else in the error of the tensors that are missing.
///
/// # Errors
/// That of `completed`.
#[torsh_tensor::names_caller]
pub fn with_left_out(
    source: &str,
    left_out: &[LeftOut],
    completed: Result<StateDict>,
) -> Result<StateDict> {
    if left_out.is_empty() {
        return completed;
    }
    let left_out: Vec<String> = left_out.iter().map(LeftOut::to_string).collect();
    match completed {
        Ok(state) => {
            eprintln!("torsh: {}: left out {}", short(source), some(&left_out));
            Ok(state)
        }
        Err(e) => {
            let why = e
                .info()
                .map_or_else(|| e.to_string(), |i| i.message.clone());
            let hint = "what cannot be read has to be converted by the program that wrote it";
            let why = format!("{why}; what could not be read: {}", some(&left_out));
            Err(TorshError::format("from_pretrained", why).with_hint(hint))
        }
    }
}

/// A model that was made of the registry, with the configuration that it was made of.
///
/// ```
/// use torsh_hub::{ModelOptions, load_with};
/// use torsh_nn::ModuleExt;
/// let model = load_with("linear", ModelOptions::new().set("input_size", 4).set("num_classes", 3))?;
/// assert_eq!(model.config()["num_classes"], 3);
/// assert_eq!(model.into_inner().num_parameters(), 4 * 3 + 3);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub struct HubModel {
    module: Box<dyn Module>,
    config: Map<String, Value>,
}

impl HubModel {
    pub(crate) fn new(module: Box<dyn Module>, config: Map<String, Value>) -> HubModel {
        HubModel { module, config }
    }

    /// The model itself.
    pub fn module(&self) -> &dyn Module {
        &*self.module
    }

    /// The model itself, without its configuration.
    pub fn into_inner(self) -> Box<dyn Module> {
        self.module
    }

    /// What `config.json` holds: the architecture and its settings, and whatever else it held.
    pub fn config(&self) -> &Map<String, Value> {
        &self.config
    }

    /// Writes `config.json` and `model.safetensors` into a folder, of which
    /// [`from_pretrained`](crate::from_pretrained) makes the model again.
    ///
    /// # Errors
    /// As [`Pretrained::save_pretrained`].
    #[track_caller]
    pub fn save_pretrained(&self, folder: impl AsRef<Path>) -> Result<()> {
        self.save_pretrained_with(folder, &SaveOptions::new())
    }

    /// [`HubModel::save_pretrained`] with options, which spread the weights over files and add to `config.json`.
    ///
    /// ```
    /// use torsh_hub::{ModelOptions, SaveOptions, load_with};
    /// # let dir = std::env::temp_dir().join(format!("torsh-hub-shards-{}", std::process::id()));
    /// let model = load_with("linear", ModelOptions::new().set("input_size", 2).set("num_classes", 1))?;
    /// // The weight has 8 bytes, the bias 4.
    /// model.save_pretrained_with(&dir, &SaveOptions::new().max_shard_size(8))?;
    /// assert!(dir.join("model.safetensors.index.json").is_file());
    /// assert!(dir.join("model-00002-of-00002.safetensors").is_file());
    /// # std::fs::remove_dir_all(&dir)?;
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As there, and a configuration that is no object.
    #[torsh_tensor::names_caller]
    pub fn save_pretrained_with(
        &self,
        folder: impl AsRef<Path>,
        options: &SaveOptions,
    ) -> Result<()> {
        let config = Value::Object(self.config.clone());
        write(folder.as_ref(), &self.module.state_dict(), config, options)
    }
}

impl std::fmt::Debug for HubModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.module.repr())
    }
}

impl ModuleFields for HubModel {
    fn visit_fields<'a>(&'a self, visitor: &mut dyn FnMut(&str, FieldRef<'a>)) {
        self.module.visit_fields(visitor);
    }

    fn visit_fields_mut(&mut self, visitor: &mut dyn FnMut(&str, FieldMut<'_>)) {
        self.module.visit_fields_mut(visitor);
    }

    fn type_name(&self) -> &'static str {
        self.module.type_name()
    }
}

impl ModuleField for HubModel {
    fn visit_field<'a>(&'a self, name: &str, visitor: &mut dyn FnMut(&str, FieldRef<'a>)) {
        self.module.visit_field(name, visitor);
    }

    fn visit_field_mut(&mut self, name: &str, visitor: &mut dyn FnMut(&str, FieldMut<'_>)) {
        self.module.visit_field_mut(name, visitor);
    }
}

impl Module for HubModel {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.module.forward(x)
    }

    fn extra_repr(&self) -> String {
        self.module.extra_repr()
    }
}

/// Without the `module.` that all names begin with.
pub(crate) fn plain_names(state: StateDict) -> StateDict {
    const PREFIX: &str = "module.";
    if state.is_empty() || !state.keys().all(|name| name.starts_with(PREFIX)) {
        return state;
    }
    state
        .into_iter()
        .map(|(name, t)| (name[PREFIX.len()..].to_string(), t))
        .collect()
}

/// Writes configuration and weights.
#[track_caller]
fn write(folder: &Path, state: &StateDict, own: Value, options: &SaveOptions) -> Result<()> {
    const OP: &str = "save_pretrained";
    let object = |value: Value| match value {
        Value::Object(map) => Ok(map),
        other => {
            let why = format!(
                "a configuration is an object, not {}",
                short(&other.to_string())
            );
            Err(TorshError::invalid(OP, why))
        }
    };
    let mut config = object(own)?;
    if let Some(more) = options.config.clone() {
        config.extend(object(more)?);
    }
    // Complex numbers of 128 bits are refused before anything is written.
    if let Some((name, _)) = state.iter().find(|(_, t)| t.dtype() == DType::C128) {
        let why = format!("{name} is complex128, which safetensors lacks");
        return Err(TorshError::dtype(OP, why).with_hint("convert it with to_dtype(DType::C64)"));
    }
    std::fs::create_dir_all(folder).map_err(|e| errors::at(OP, folder, e))?;
    let shards = split(state, options.max_shard_size);
    if shards.len() < 2 {
        torsh_serialize::safetensors::save(state.iter(), folder.join("model.safetensors"))?;
        remove_others(folder, "model.safetensors", &[])?;
    } else {
        let mut weight_map = Map::new();
        let mut total = 0;
        let mut files = Vec::new();
        for (i, shard) in shards.iter().enumerate() {
            let file = format!("model-{:05}-of-{:05}.safetensors", i + 1, shards.len());
            torsh_serialize::safetensors::save(
                shard.iter().map(|(n, t)| (*n, *t)),
                folder.join(&file),
            )?;
            for (name, tensor) in shard {
                weight_map.insert(name.to_string(), Value::from(file.as_str()));
                total += size(tensor);
            }
            files.push(file);
        }
        let index = json!({ "metadata": { "total_size": total }, "weight_map": weight_map });
        write_json(&folder.join("model.safetensors.index.json"), &index)?;
        remove_others(folder, "model.safetensors.index.json", &files)?;
    }
    write_json(&folder.join(CONFIG), &Value::Object(config))
}

fn write_json(path: &Path, value: &Value) -> Result<()> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|e| TorshError::format("save_pretrained", e.to_string()))?;
    torsh_serialize::write_bytes(path, format!("{text}\n").as_bytes())
}

fn size(tensor: &Tensor) -> u64 {
    (tensor.numel() * tensor.dtype().size()) as u64
}

/// The tensors in files of at most so many bytes, in order; a larger tensor has a file of its own.
fn split(state: &StateDict, most: Option<u64>) -> Vec<Vec<(&str, &Tensor)>> {
    let mut shards = vec![Vec::new()];
    let mut bytes = 0;
    for (name, tensor) in state.iter() {
        let more = size(tensor);
        let full = most.is_some_and(|most| bytes + more > most);
        match shards.last_mut() {
            Some(shard) if !full || shard.is_empty() => shard.push((name, tensor)),
            _ => {
                shards.push(vec![(name, tensor)]);
                bytes = 0;
            }
        }
        bytes += more;
    }
    shards
}

/// Removes the weights that an earlier call left in the folder: a reader would take them first, or mix them up.
fn remove_others(folder: &Path, keep: &str, shards: &[String]) -> Result<()> {
    for (name, path) in crate::cache::entries(folder)? {
        let is_shard = name.starts_with("model-")
            && name.contains("-of-")
            && name.ends_with(".safetensors")
            && !shards.contains(&name);
        let is_other = matches!(
            name.as_str(),
            "model.safetensors" | "model.safetensors.index.json"
        ) && name != keep;
        if is_shard || is_other {
            torsh_serialize::files::remove(&path)
                .map_err(|e| errors::at("save_pretrained", &path, e))?;
        }
    }
    Ok(())
}

impl Hub {
    /// What `config.json` of a folder or a repository holds, an object.
    ///
    /// ```
    /// use torsh_hub::{Hub, load};
    /// # let dir = std::env::temp_dir().join(format!("torsh-hub-config-{}", std::process::id()));
    /// load("linear")?.save_pretrained(&dir)?;
    /// let config = Hub::shared()?.config(&dir.display().to_string())?;
    /// assert_eq!(config["architecture"], "linear");
    /// assert_eq!(config["input_size"], 784);
    /// # std::fs::remove_dir_all(&dir)?;
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn config(&self, source: &str) -> Result<Value> {
        const OP: &str = "from_pretrained";
        let folder = Path::new(source);
        let path = match folder.is_dir() {
            true => folder.join(CONFIG),
            false if is_path(source) => {
                let why = format!("there is no folder `{}`", short(source));
                return Err(errors::io(std::io::ErrorKind::NotFound, OP, why, ""));
            }
            false => self.file(source, CONFIG)?,
        };
        let failed = |e| errors::at(OP, &path, e);
        let broken = |why: String| TorshError::format(OP, format!("{}: {why}", path.display()));
        if path.metadata().map_err(failed)?.len() > LARGEST_CONFIG {
            return Err(broken("it is larger than any configuration".into()));
        }
        let text = std::fs::read(&path).map_err(failed)?;
        torsh_core::check_git_lfs(OP, path.display(), &text)?;
        let config: Value = serde_json::from_slice(torsh_core::without_bom(&text))
            .map_err(|e| broken(short(&e.to_string())))?;
        match config.is_object() {
            true => Ok(config),
            false => Err(broken("a configuration is an object".into())),
        }
    }
}

/// A model from a folder or from a repository `org/name` of a hub, as [`from_pretrained`](crate::from_pretrained): with its
/// cache, its mirror and its token.
///
/// ```
/// use torsh_hub::{Hub, from_pretrained_with, load};
///
/// # let dir = std::env::temp_dir().join(format!("torsh-hub-with-{}", std::process::id()));
/// load("linear")?.save_pretrained(&dir)?;
/// let hub = Hub::builder().offline(true).build()?;
/// let model = from_pretrained_with(dir.display().to_string(), &hub)?;
/// assert_eq!(model.config()["architecture"], "linear");
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As there.
#[torsh_tensor::names_caller]
pub fn from_pretrained_with(source: impl AsRef<str>, hub: &Hub) -> Result<HubModel> {
    let source = source.as_ref();
    let config = hub.config(source)?;
    let model_config = model_config(&config, source)?;
    let state = hub.load_state_dict(source, LoadStateDict::new())?;
    // Before they are made: a configuration may claim any number of them.
    let default = model_defaults(&model_config.architecture).num_layers;
    if model_config.num_layers > state.len().max(default) {
        let why = format!(
            "the {CONFIG} of {} says that there are {} layers, and the weights have {} tensors",
            short(source),
            model_config.num_layers,
            state.len()
        );
        return Err(TorshError::format("from_pretrained", why));
    }
    let module = Construction::new()
        .draw_nothing()
        .run(|| create_model(&model_config))?;
    module
        .load_state_dict(&plain_names(state))
        .map_err(|e| e.with_hint(OTHER_MODEL))?;
    let config = match config {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    Ok(HubModel::new(module, config))
}

/// The settings of the registry that a configuration has. What names files or devices of the one who wrote it is left out.
fn model_config(config: &Value, source: &str) -> Result<ModelConfig> {
    let text = |key: &str| config.get(key).and_then(Value::as_str);
    let first = config.get("architectures").and_then(|a| a.get(0)?.as_str());
    let names: Vec<&str> = [text("architecture"), first, text("model_type")]
        .into_iter()
        .flatten()
        .collect();
    let known = names.iter().find(|name| models().get(name).is_ok());
    let Some(known) = known else {
        let why = match names.is_empty() {
            true => format!("the {CONFIG} of {} names no architecture", short(source)),
            false => format!(
                "the {CONFIG} of {} is of {}, of which no model is registered",
                short(source),
                short(&names.join(", "))
            ),
        };
        return Err(TorshError::invalid("from_pretrained", why).with_hint(
            "hub::list() names the models there are; torsh_vision::register() and register_model(..) add others; load_pretrained(..) loads weights into a model that is there",
        ));
    };
    let fallback = model_defaults(known);
    let Ok(Value::Object(mut all)) = serde_json::to_value(&fallback) else {
        return Ok(fallback);
    };
    for key in [
        "input_size",
        "hidden_size",
        "num_layers",
        "num_classes",
        "dropout",
        "batch_norm",
        "activation",
        "dtype",
        "options",
    ] {
        if let Some(value) = config.get(key) {
            all.insert(key.into(), value.clone());
        }
    }
    serde_json::from_value(Value::Object(all)).map_err(|e| {
        let why = format!(
            "the {CONFIG} of {}: {}",
            short(source),
            short(&e.to_string())
        );
        TorshError::format("from_pretrained", why)
    })
}
