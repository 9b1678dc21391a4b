//! The tensors of a file that can be read, whatever else it holds.

use std::collections::HashMap;
use std::path::Path;

use torsh_tensor::{Result, Tensor, TorshError};

use crate::foreign::LeftOut;
use crate::source::Source;
use crate::{LoadOptions, Value};

/// A file may name an object again and again under longer and longer names.
const LONGEST: usize = 256 << 20;

/// The tensors of a file that can be read, and what of it was left out.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Readable {
    /// The tensors by name, in the order of the file. Keys of containers in each other are joined by dots; items of lists
    /// have their numbers.
    pub tensors: Vec<(String, Tensor)>,
    /// The entries that were left out, with the reasons.
    pub left_out: Vec<LeftOut>,
    /// Values that are no tensors, by name.
    pub others: Vec<(String, Value)>,
    /// The texts that a safetensors file has about its tensors.
    pub metadata: HashMap<String, String>,
    /// The dtypes in the file of tensors that were widened: uint16 became int32, uint32 and uint64 int64.
    pub widened: Vec<(String, &'static str)>,
}

impl Readable {
    /// The tensor of a name.
    ///
    /// # Errors
    /// An entry that was left out, with the reason, and a name that the file does not have.
    #[torsh_tensor::names_caller]
    pub fn get(&self, name: &str) -> Result<&Tensor> {
        if let Some((_, tensor)) = self.tensors.iter().find(|(own, _)| own == name) {
            return Ok(tensor);
        }
        if let Some(left_out) = self.left_out.iter().find(|e| e.name == name) {
            let why = format!("{name} is {}: {}", left_out.what, left_out.why);
            return Err(TorshError::dtype("load", why));
        }
        let mut names: Vec<&str> = self.tensors.iter().map(|(n, _)| n.as_str()).collect();
        let more = names.len().saturating_sub(8);
        names.truncate(8);
        let more = match more {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        Err(TorshError::index(
            "load",
            format!(
                "there is no tensor {name}; there are {}{more}",
                names.join(", ")
            ),
        ))
    }

    /// The tensors of a value by name, and what else there is in it.
    ///
    /// ```
    /// use torsh_serialize::{Readable, Value};
    /// use torsh_tensor::tensor;
    ///
    /// let state = Value::from([("bias", Value::from(tensor![1.0]))]);
    /// let all = Readable::of(&Value::from([("model", state), ("epoch", Value::from(3))]))?;
    /// assert_eq!(all.get("model.bias")?, &tensor![1.0]);
    /// assert_eq!(all.others, [("epoch".to_string(), Value::from(3))]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Names that are far longer than the file, because it names an object again and again.
    #[torsh_tensor::names_caller(Self)]
    pub fn of(value: &Value) -> Result<Readable> {
        let mut out = Readable::default();
        out.walk(value, "", &mut 0)?;
        Ok(out)
    }

    fn walk(&mut self, value: &Value, name: &str, length: &mut usize) -> Result<()> {
        *length += name.len() + 16;
        if *length > LONGEST {
            return Err(TorshError::format(
                "load",
                "the names of the file's values are far longer than the file",
            ));
        }
        let below = |part: &str| match name {
            "" => part.to_string(),
            _ => format!("{name}.{part}"),
        };
        let own = || match name {
            "" => "(the value itself)".to_string(),
            _ => name.to_string(),
        };
        match value {
            Value::Tensor(t) | Value::Parameter(t) => self.tensors.push((own(), t.clone())),
            Value::Foreign(foreign) => {
                self.left_out.push(LeftOut::new(own(), foreign));
                if let Some(contents) = &foreign.contents {
                    self.walk(contents, name, length)?;
                }
            }
            Value::Dict(dict) if !dict.is_empty() => {
                for (key, value) in dict.iter() {
                    let key = match key {
                        Value::Str(key) => key.clone(),
                        Value::Int(key) => key.to_string(),
                        key => format!("{key:?}").chars().take(80).collect(),
                    };
                    self.walk(value, &below(&key), length)?;
                }
            }
            Value::List(items) | Value::Tuple(items) if items.iter().any(holds_more) => {
                for (i, item) in items.iter().enumerate() {
                    self.walk(item, &below(&i.to_string()), length)?;
                }
            }
            other => self.others.push((own(), other.clone())),
        }
        Ok(())
    }
}

fn holds_more(value: &Value) -> bool {
    matches!(
        value,
        Value::Tensor(_)
            | Value::Parameter(_)
            | Value::Foreign(_)
            | Value::Dict(_)
            | Value::List(_)
            | Value::Tuple(_)
    )
}

/// Every tensor of a file that can be read, of any format of this crate, with a list of what was left out and why.
///
/// [`load`](crate::load) refuses a file for one entry that it has no value for: a tensor of float8, an object of a class
/// of Python, an array of texts. This function gives the rest. Tensors among the attributes of such an object are given
/// too, under the names of the attributes. No class of the file is looked up, and none of its code is run.
///
/// ```
/// use torsh_serialize::load_readable;
///
/// // A header of safetensors: `scale` in float32, `q` in float8.
/// let header = br#"{"scale":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},
/// "q":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[4,6]}}"#;
/// let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
/// bytes.extend(header);
/// bytes.extend(0.5f32.to_le_bytes());
/// bytes.extend([0x38, 0x40]);
/// # let path = std::env::temp_dir().join(format!("torsh-readable-{}.safetensors", std::process::id()));
/// std::fs::write(&path, bytes)?;
///
/// assert!(torsh_serialize::load(&path).is_err());
/// let all = load_readable(&path)?;
/// assert_eq!(all.get("scale")?.to_vec::<f32>()?, [0.5]);
/// assert_eq!((all.left_out[0].name.as_str(), all.left_out[0].what.as_str()), ("q", "float8_e4m3fn [2]"));
/// assert!(all.get("q").is_err());
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// A file that cannot be read, is of no known format, is cut off or contradicts itself.
#[track_caller]
pub fn load_readable(path: impl AsRef<Path>) -> Result<Readable> {
    load_readable_with(path, LoadOptions::default())
}

/// [`load_readable`] with options.
#[torsh_tensor::names_caller]
pub fn load_readable_with(path: impl AsRef<Path>, options: LoadOptions) -> Result<Readable> {
    of_source(Source::open(path.as_ref(), &options.keep_foreign(true))?)
}

/// [`load_readable`] of a file's bytes in memory.
///
/// ```
/// // A header of safetensors: `scale` in float32, `q` in float8.
/// let header = br#"{"scale":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},
/// "q":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[4,6]}}"#;
/// let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
/// bytes.extend(header);
/// bytes.extend(0.5f32.to_le_bytes());
/// bytes.extend([0x38, 0x40]);
/// let all = torsh_serialize::load_readable_bytes(&bytes)?;
/// assert_eq!(all.get("scale")?.to_vec::<f32>()?, [0.5]);
/// assert_eq!(all.left_out[0].name, "q");
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`load_readable`].
#[torsh_tensor::names_caller]
pub fn load_readable_bytes(bytes: &[u8]) -> Result<Readable> {
    let options = LoadOptions::default().keep_foreign(true);
    of_source(Source::bytes_with(bytes, &options))
}

#[track_caller]
fn of_source(mut source: Source<'_>) -> Result<Readable> {
    let value = crate::read(&mut source)?;
    let mut out = Readable::of(&value)?;
    out.metadata = std::mem::take(&mut source.metadata);
    for (name, tensor) in &out.tensors {
        let stored = match tensor.layout().is_strided() {
            true => tensor.clone(),
            false => torsh_tensor::sparse::values(&tensor.detach())?,
        };
        let storage = stored.untyped_storage()?.ptr() as usize;
        if let Some(dtype) = source.widened.get(&storage) {
            out.widened.push((name.clone(), *dtype));
        }
    }
    Ok(out)
}

/// One tensor of a file by its name; the file's other entries need not be readable.
///
/// ```
/// use torsh_serialize::{load_tensor, npz};
/// use torsh_tensor::tensor;
///
/// let path = std::env::temp_dir().join(format!("torsh-tensor-{}.npz", std::process::id()));
/// npz::save([("x", &tensor![1.0, 2.0]), ("y", &tensor![true])], &path)?;
/// assert_eq!(load_tensor(&path, "x")?, tensor![1.0, 2.0]);
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`load_readable`] and [`Readable::get`].
#[torsh_tensor::names_caller]
pub fn load_tensor(path: impl AsRef<Path>, name: &str) -> Result<Tensor> {
    load_readable(path)?.get(name).cloned()
}
