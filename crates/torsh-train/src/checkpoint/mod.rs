//! Checkpoints: all state that a training run needs to resume without a difference.

mod builder;
mod file;
mod folder;
mod json;
mod stateful;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use torsh_nn::StateDict;
use torsh_serialize::Value;
use torsh_tensor::{Result, Tensor, TorshError};

pub use builder::CheckpointBuilder;
pub(crate) use stateful::Rng;
pub use stateful::Stateful;

/// The version of the form of checkpoints.
const VERSION: i64 = 1;

/// The key of the version, by which a checkpoint is known.
const MARK: &str = "torsh_checkpoint";

/// Names that no part can have.
const RESERVED: [&str; 6] = [MARK, "epoch", "step", "metrics", "config", "timestamp"];

/// The state of a training run: of its model, optimizers, schedulers, scaler, random generators and
/// loaders, whatever [`Checkpoint::builder`] was given.
///
/// As one file it is a `.pt` that `torch.load` reads too; as a folder it has the model as
/// safetensors and the rest beside it. Either appears whole or not at all: a process that is killed
/// while it saves leaves the checkpoint that was there before.
///
/// ```
/// use torsh_nn::Linear;
/// use torsh_train::Checkpoint;
///
/// let net = Linear::new(2, 1);
/// let checkpoint = Checkpoint::builder().model(&net).build()?.epoch(3).metric("loss", 0.5);
/// assert_eq!((checkpoint.epoch, checkpoint.step, checkpoint.metrics["loss"]), (3, 0, 0.5));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, PartialEq)]
pub struct Checkpoint {
    /// How many epochs are done.
    pub epoch: usize,
    /// How many steps of the optimizer are done.
    pub step: usize,
    /// Metrics by name.
    pub metrics: BTreeMap<String, f64>,
    /// The configuration of the run.
    pub config: Option<serde_json::Value>,
    /// When it was made, to the millisecond.
    pub timestamp: SystemTime,
    pub(crate) parts: BTreeMap<String, Value>,
}

impl fmt::Debug for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checkpoint")
            .field("epoch", &self.epoch)
            .field("step", &self.step)
            .field("metrics", &self.metrics)
            .field("timestamp", &self.timestamp)
            .field("parts", &self.names().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

fn to_millis(time: SystemTime) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(millis(time) as u64)
}

fn millis(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

fn now() -> SystemTime {
    to_millis(SystemTime::now())
}

/// A copy that shares no memory.
fn deep_copy(value: &Value) -> Result<Value> {
    let all = |items: &[Value]| items.iter().map(deep_copy).collect::<Result<Vec<_>>>();
    Ok(match value {
        Value::Tensor(t) => Value::Tensor(t.detach().copy()?),
        Value::Parameter(t) => Value::Parameter(t.detach().copy()?),
        Value::List(items) => Value::List(all(items)?),
        Value::Tuple(items) => Value::Tuple(all(items)?),
        Value::Dict(dict) => {
            let mut out = torsh_serialize::Dict::new();
            for (key, value) in dict.iter() {
                out.insert(key.clone(), deep_copy(value)?)?;
            }
            Value::Dict(out)
        }
        other => other.clone(),
    })
}

impl Checkpoint {
    /// Returns the names of the parts, in alphabetical order.
    ///
    /// ```
    /// use torsh_nn::Linear;
    /// use torsh_train::Checkpoint;
    ///
    /// let net = Linear::new(2, 1);
    /// let checkpoint = Checkpoint::builder().rng().model(&net).build()?;
    /// assert_eq!(checkpoint.names().collect::<Vec<_>>(), ["model", "rng"]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.parts.keys().map(String::as_str)
    }

    /// Returns the state of a part.
    ///
    /// ```
    /// use torsh_nn::Linear;
    /// use torsh_train::Checkpoint;
    ///
    /// let net = Linear::new(2, 1);
    /// let checkpoint = Checkpoint::builder().model(&net).build()?;
    /// assert_eq!(checkpoint.part("model").map(|state| state.named_tensors().map(|t| t.len())).transpose()?, Some(2));
    /// assert!(checkpoint.part("optimizer").is_none());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn part(&self, name: &str) -> Option<&Value> {
        self.parts.get(name)
    }

    /// Returns the state dict of the part `model`.
    ///
    /// ```
    /// use torsh_nn::Linear;
    /// use torsh_train::Checkpoint;
    ///
    /// let net = Linear::new(2, 1);
    /// let state = Checkpoint::builder().model(&net).build()?.model_state()?;
    /// assert_eq!(state["weight"].dims(), [1, 2]);
    /// assert!(Checkpoint::builder().build()?.model_state().unwrap_err().to_string().contains("it holds no model"));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn model_state(&self) -> Result<StateDict> {
        let Some(state) = self.part("model") else {
            return Err(TorshError::invalid("Checkpoint", "it holds no model"));
        };
        StateDict::try_from(state)
    }

    /// Returns a copy whose tensors are its own: those of a checkpoint that was just built are those of
    /// the model and the optimizer, which go on changing.
    ///
    /// ```
    /// use torsh_nn::Linear;
    /// use torsh_tensor::no_grad;
    /// use torsh_train::Checkpoint;
    ///
    /// let net = Linear::new(2, 1);
    /// let shared = Checkpoint::builder().model(&net).build()?;
    /// let kept = shared.copy()?;
    /// no_grad(|| net.weight.fill_(7.0).map(drop))?;
    /// assert_eq!(shared.model_state()?["weight"].to_vec::<f32>()?, [7.0, 7.0]);
    /// assert_ne!(kept.model_state()?["weight"].to_vec::<f32>()?, [7.0, 7.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn copy(&self) -> Result<Checkpoint> {
        let mut out = self.clone();
        for state in out.parts.values_mut() {
            *state = deep_copy(state)?;
        }
        Ok(out)
    }

    /// Writes one file: PyTorch's container whatever the extension, whole or not at all. What was
    /// there before is there until the new one is on the disk.
    ///
    /// ```
    /// use torsh_nn::{Linear, ModuleExt};
    /// use torsh_train::Checkpoint;
    ///
    /// let path = std::env::temp_dir().join(format!("torsh-save-{}.pt", std::process::id()));
    /// let net = Linear::new(2, 1);
    /// Checkpoint::builder().model(&net).build()?.step(7).save(&path)?;
    /// let back = Checkpoint::load(&path)?;
    /// assert_eq!(back.step, 7);
    /// assert_eq!(back.model_state()?["weight"].to_vec::<f32>()?, net.weight.to_vec::<f32>()?);
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// A file that cannot be written; the one that was there stays.
    #[torsh_tensor::names_caller]
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        file::save(self, path.as_ref())
    }

    /// Writes a folder: `model.safetensors`, `state.pt` with the other parts, and
    /// `checkpoint.json` with their checksums; whole or not at all, as [`Checkpoint::save`].
    ///
    /// ```
    /// use torsh_nn::Linear;
    /// use torsh_train::Checkpoint;
    ///
    /// let folder = std::env::temp_dir().join(format!("torsh-save-folder-{}", std::process::id()));
    /// let net = Linear::new(2, 1);
    /// Checkpoint::builder().model(&net).rng().build()?.save_folder(&folder)?;
    /// assert!(folder.join("model.safetensors").is_file());
    /// assert_eq!(Checkpoint::load(&folder)?.names().collect::<Vec<_>>(), ["model", "rng"]);
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// A folder that cannot be written; the one that was there stays.
    #[torsh_tensor::names_caller]
    pub fn save_folder(&self, path: impl AsRef<Path>) -> Result<()> {
        folder::save(self, path.as_ref())
    }

    /// Reads a file or folder that [`Checkpoint::save`] or [`Checkpoint::save_folder`] wrote. All
    /// checksums are computed.
    ///
    /// ```
    /// use torsh_train::Checkpoint;
    /// let path = std::env::temp_dir().join(format!("torsh-load-{}.pt", std::process::id()));
    /// Checkpoint::builder().rng().build()?.epoch(4).save(&path)?;
    /// assert_eq!(Checkpoint::load(&path)?.epoch, 4);
    /// std::fs::write(&path, [0u8; 100])?;
    /// assert!(Checkpoint::load(&path).is_err()); // What is damaged is no checkpoint.
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Nothing there, a file that is cut off or damaged, one that is no checkpoint or one of a
    /// later version; the error names the file.
    #[torsh_tensor::names_caller(Self)]
    pub fn load(path: impl AsRef<Path>) -> Result<Checkpoint> {
        let path = path.as_ref();
        match folder::find(path) {
            Some(folder) => folder::load(&folder),
            None => file::load(path),
        }
    }

    /// The checkpoint as one value, for files of other kinds.
    ///
    /// ```
    /// use torsh_train::Checkpoint;
    ///
    /// let value = Checkpoint::builder().rng().build()?.step(7).into_value();
    /// assert_eq!(Checkpoint::try_from(value)?.step, 7);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn into_value(self) -> Value {
        self.to_value(&[])
    }

    /// The checkpoint as one value, without some parts.
    fn to_value(&self, without: &[&str]) -> Value {
        let about = [
            (MARK, Value::from(VERSION)),
            ("epoch", self.epoch.into()),
            ("step", self.step.into()),
            (
                "metrics",
                self.metrics.iter().map(|(n, v)| (n, (*v).into())).collect(),
            ),
            (
                "config",
                self.config.as_ref().map_or(Value::None, json::to_value),
            ),
            ("timestamp", millis(self.timestamp).into()),
        ];
        let parts = self.parts.iter();
        let parts = parts.filter(|(name, _)| !without.contains(&name.as_str()));
        about
            .into_iter()
            .map(|(name, value)| (name.to_string(), value))
            .chain(parts.map(|(name, value)| (name.clone(), value.clone())))
            .collect()
    }

    #[track_caller]
    fn from_value(path: &Path, value: Value) -> Result<Checkpoint> {
        let refused = |why: String| {
            TorshError::format("Checkpoint::load", format!("{}: {why}", path.display()))
        };
        let Value::Dict(dict) = &value else {
            return Err(refused("this is no checkpoint but a single value".into()));
        };
        let Some(version) = dict.get(MARK) else {
            return Err(
                refused("this is no checkpoint of a training run".into()).with_hint(
                    "read files of other programs with torsh::load and StateDict::try_from",
                ),
            );
        };
        match version.as_int()? {
            VERSION => {}
            other => {
                return Err(refused(format!(
                    "its version is {other}, this program reads {VERSION}"
                )));
            }
        }
        let count = |name: &str| -> Result<usize> {
            usize::try_from(value.get(name)?.as_int()?)
                .map_err(|_| refused(format!("{name} is negative")))
        };
        let mut metrics = BTreeMap::new();
        for (name, v) in value.get("metrics")?.as_dict()?.iter() {
            metrics.insert(name.as_str()?.to_string(), v.as_float()?);
        }
        let config = match value.get("config")? {
            Value::None => None,
            config => Some(json::from_value(config)?),
        };
        let (epoch, step) = (count("epoch")?, count("step")?);
        let timestamp = UNIX_EPOCH + Duration::from_millis(count("timestamp")? as u64);
        let mut parts = BTreeMap::new();
        for (name, part) in dict.iter() {
            let name = name.as_str()?;
            if !RESERVED.contains(&name) {
                parts.insert(name.to_string(), part.clone());
            }
        }
        Ok(Checkpoint {
            epoch,
            step,
            metrics,
            config,
            timestamp,
            parts,
        })
    }
}

impl TryFrom<Value> for Checkpoint {
    type Error = TorshError;

    fn try_from(value: Value) -> Result<Checkpoint> {
        Checkpoint::from_value(Path::new("a value"), value)
    }
}

/// The tensors of a part, where it is a dict of them.
fn tensors(state: &Value) -> Option<Vec<(&str, &Tensor)>> {
    state.named_tensors().ok()
}
