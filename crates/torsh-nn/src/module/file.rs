//! State dicts and the files that hold them.

use std::path::Path;

use torsh_serialize::{LeftOut, Value};
use torsh_tensor::{Result, TorshError};

use crate::module::StateDict;

impl StateDict {
    /// Writes the tensors, whole or not at all: an older file is there until then.
    ///
    /// As safetensors, or where the path's extension says so as PyTorch's checkpoint (`.pt`,
    /// `.pth`, where tied tensors stay tied) or NumPy's archive (`.npz`). An error for dtypes that
    /// the format lacks: complex128 in safetensors, bfloat16 in `.npz`.
    #[torsh_tensor::names_caller]
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        match path.extension().and_then(|e| e.to_str()) {
            Some("pt" | "pth") => torsh_serialize::pt::save(&Value::from(self), path),
            Some("npz") => torsh_serialize::npz::save(self.iter(), path),
            _ => torsh_serialize::safetensors::save(self.iter(), path),
        }
    }

    /// Reads a file of tensors by name, of any format that [`torsh_serialize::load`] knows.
    ///
    /// A checkpoint that holds its state dict beside other things is read with
    /// `StateDict::try_from(torsh_serialize::load(path)?.get("state_dict")?)`.
    #[torsh_tensor::names_caller(Self)]
    pub fn load(path: impl AsRef<Path>) -> Result<StateDict> {
        StateDict::try_from(&torsh_serialize::load(path)?)
    }

    /// Reads the tensors of a file that can be read, with a list of what was left out and why, as
    /// [`torsh_serialize::load_readable`].
    ///
    /// [`StateDict::load`] refuses a file for one entry that there is no value for, such as a tensor of float8 or an
    /// object of a class of Python.
    ///
    /// ```
    /// use torsh_nn::StateDict;
    /// use torsh_tensor::tensor;
    ///
    /// let path = std::env::temp_dir().join(format!("torsh-readable-{}.pt", std::process::id()));
    /// StateDict::from([("weight", tensor![1.0, 2.0])]).save(&path)?;
    /// let (state, left_out) = StateDict::load_readable(&path)?;
    /// assert_eq!(state["weight"], tensor![1.0, 2.0]);
    /// assert!(left_out.is_empty());
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// A file that cannot be read, is of no known format, is cut off or contradicts itself.
    #[torsh_tensor::names_caller(Self)]
    pub fn load_readable(path: impl AsRef<Path>) -> Result<(StateDict, Vec<LeftOut>)> {
        let all = torsh_serialize::load_readable(path)?;
        Ok((all.tensors.into_iter().collect(), all.left_out))
    }
}

/// The tensors of a dict; an error where it holds something else.
impl TryFrom<&Value> for StateDict {
    type Error = TorshError;

    #[track_caller]
    fn try_from(value: &Value) -> Result<StateDict> {
        let tensors = value.named_tensors()?.into_iter();
        Ok(tensors.map(|(name, t)| (name, t.clone())).collect())
    }
}

impl From<&StateDict> for Value {
    fn from(state: &StateDict) -> Value {
        state
            .iter()
            .map(|(name, tensor)| (name, Value::from(tensor)))
            .collect()
    }
}
