//! Checkpoints of several ranks: each writes its pieces, any number of ranks loads them.
//!
//! A checkpoint is a folder with an index, `checkpoint.json`, and safetensors files of the ranks. [`save`] replaces the one
//! that was there by one rename of the index, when all files are on the disk: whoever loads sees the old checkpoint or the
//! new one, also after a process was killed while it saved or a disk was full. The next save removes what such a save left.
//!
//! [`load`] takes any layout to any other: another number of ranks, another mesh, another split, one process. Values are
//! bit-equal. Each rank reads the bytes that it needs, and checks them against the checksums that were written with them.
//!
//! ```
//! use torsh_distributed::{checkpoint::{self, State}, spawn};
//! use torsh_nn::Linear;
//! use torsh_tensor::tensor;
//!
//! let dir = std::env::temp_dir().join(format!("torsh-dist-checkpoint-{}", std::process::id()));
//! spawn(2, |g| {
//!     let net = Linear::new(2, 1);
//!     net.weight.detach().copy_(&tensor![[0.5, 0.25]])?;
//!     net.bias.as_ref().unwrap().detach().zero_()?;
//!     checkpoint::save_in(&g, &dir, &State::new().model(&net).value("step", 10))
//! })?;
//!
//! // One process, without a group.
//! let net = Linear::new(2, 1);
//! let loaded = checkpoint::load(&dir, &State::new().model(&net))?;
//! assert_eq!(net.weight.to_vec::<f32>()?, [0.5, 0.25]);
//! assert_eq!(loaded.value("step").and_then(|v| v.as_u64()), Some(10));
//! # std::fs::remove_dir_all(&dir)?;
//! # Ok::<(), torsh_tensor::TorshError>(())
//! ```

mod hugging_face;
mod index;
mod loading;
mod piece;
mod plan;
mod read;
mod saving;
mod state;
mod torch_dcp;
mod tree;
mod write;

use std::path::Path;

use torsh_nn::{Module, StateDict};
use torsh_serialize::Value;
use torsh_tensor::Result;

pub use piece::{Piece, Pieces};
pub use saving::SaveHandle;
pub use state::{Loaded, State};

use crate::group::ProcessGroup;
use crate::init;

/// The default group, where there is one.
fn default_group() -> Result<Option<ProcessGroup>> {
    init::is_initialized().then(init::world).transpose()
}

/// Saves a state to a folder, on all ranks of the default group; without one, of this process alone.
///
/// Each rank writes the pieces that it has. What all have is written once: the ranks share the bytes evenly. All ranks
/// have to see one file system. The end of the save waits for the slowest rank, at most for the group's timeout.
///
/// ```
/// use torsh_distributed::checkpoint::{self, State};
/// use torsh_nn::Linear;
/// use torsh_tensor::tensor;
///
/// let dir = std::env::temp_dir().join(format!("torsh-dist-save-{}", std::process::id()));
/// let net = Linear::new(2, 1);
/// net.weight.detach().copy_(&tensor![[1.0, 2.0]])?;
/// checkpoint::save(&dir, &State::new().model(&net))?;
/// assert!(checkpoint::exists(&dir));
/// assert_eq!(checkpoint::read_state_dict(&dir)?["weight"], tensor![[1.0, 2.0]]);
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// On all ranks where one fails: a file that cannot be written, a full disk, parts that differ between ranks and should
/// not, pieces that overlap or leave gaps. The checkpoint that was there before is there then.
#[torsh_tensor::names_caller]
pub fn save(dir: impl AsRef<Path>, state: &State) -> Result<()> {
    saving::save(default_group()?.as_ref(), dir.as_ref(), state)
}

/// [`save`] on a group, all of whose ranks call it.
#[torsh_tensor::names_caller]
pub fn save_in(group: &ProcessGroup, dir: impl AsRef<Path>, state: &State) -> Result<()> {
    saving::save(Some(group), dir.as_ref(), state)
}

/// [`save`] beside training: it returns when the state is copied. The tensors may be changed then.
///
/// A save to the same folder waits for this one.
///
/// ```
/// use torsh_distributed::checkpoint::{self, State};
/// use torsh_nn::Linear;
///
/// let dir = std::env::temp_dir().join(format!("torsh-dist-async-{}", std::process::id()));
/// let net = Linear::new(2, 1);
/// let before = net.weight.to_vec::<f32>()?;
/// let saving = checkpoint::save_async(&dir, &State::new().model(&net))?;
/// net.weight.detach().zero_()?;
/// saving.wait()?;
/// assert_eq!(checkpoint::read_state_dict(&dir)?["weight"].to_vec::<f32>()?, before);
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`save`]: here, what is found before anything is written; from [`SaveHandle::wait`], the rest.
#[torsh_tensor::names_caller]
pub fn save_async(dir: impl AsRef<Path>, state: &State) -> Result<SaveHandle> {
    saving::save_async(default_group()?.as_ref(), dir.as_ref(), state)
}

/// [`save_async`] on a group, all of whose ranks call it.
#[torsh_tensor::names_caller]
pub fn save_async_in(
    group: &ProcessGroup,
    dir: impl AsRef<Path>,
    state: &State,
) -> Result<SaveHandle> {
    saving::save_async(Some(group), dir.as_ref(), state)
}

/// Loads a state from a folder of [`save`], or one of `torch.distributed.checkpoint`, on all ranks of the default group;
/// without one, in this process alone.
///
/// A rank loads what its models, optimizers and other parts have; what else the checkpoint holds is left there. Of each
/// rank's own parts (random generators, loaders) it takes those of its number.
///
/// ```
/// use torsh_distributed::checkpoint::{self, State};
/// use torsh_nn::{Linear, ModuleExt};
/// use torsh_optim::{Optimizer, SGD};
///
/// let dir = std::env::temp_dir().join(format!("torsh-dist-load-{}", std::process::id()));
/// let net = Linear::new(2, 1);
/// let sgd = SGD::new(net.parameters(), 0.5)?;
/// checkpoint::save(&dir, &State::new().model(&net).optimizer(&sgd).value("epoch", 3))?;
/// sgd.set_lr(0.25);
/// let loaded = checkpoint::load(&dir, &State::new().model(&net).optimizer(&sgd))?;
/// assert_eq!((sgd.get_lr(), loaded.world_size()), (0.5, 1));
/// assert_eq!(loaded.value("epoch").and_then(|v| v.as_u64()), Some(3));
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// On all ranks where one fails, before anything is changed: no checkpoint, a file that is missing, cut off or damaged
/// (the error names it and the tensor), a part or tensor that the checkpoint does not have or has with another shape.
#[torsh_tensor::names_caller]
pub fn load(dir: impl AsRef<Path>, state: &State) -> Result<Loaded> {
    match default_group()? {
        Some(group) => load_in(&group, dir, state),
        None => load_alone(dir, state),
    }
}

/// [`load`] on a group, all of whose ranks call it.
#[torsh_tensor::names_caller]
pub fn load_in(group: &ProcessGroup, dir: impl AsRef<Path>, state: &State) -> Result<Loaded> {
    loading::load(Some(group), dir.as_ref(), state)
}

/// [`load`] in this process alone, whatever groups there are.
#[doc(hidden)]
#[torsh_tensor::names_caller]
pub fn load_alone(dir: impl AsRef<Path>, state: &State) -> Result<Loaded> {
    loading::load(None, dir.as_ref(), state)
}

/// Whether a folder holds a whole checkpoint of [`save`].
///
/// ```
/// assert!(!torsh_distributed::checkpoint::exists("no/such/folder"));
/// ```
pub fn exists(dir: impl AsRef<Path>) -> bool {
    index::Index::open(dir.as_ref()).is_ok()
}

/// The model of a checkpoint as an ordinary state dict of whole tensors, in one process: for any program that loads state
/// dicts. Of checkpoints of `torch.distributed.checkpoint` it is what lies under `model`, or all tensors.
///
/// # Errors
/// As [`load`]; several models of which none is named `model`.
#[torsh_tensor::names_caller]
pub fn read_state_dict(dir: impl AsRef<Path>) -> Result<StateDict> {
    loading::read_state_dict(dir.as_ref())
}

/// A part of a checkpoint with whole tensors, in one process: a list of all ranks' states where each has its own.
///
/// ```
/// use torsh_distributed::checkpoint::{self, State};
/// use torsh_core::Generator;
///
/// let dir = std::env::temp_dir().join(format!("torsh-dist-part-{}", std::process::id()));
/// let random = Generator::new(5);
/// checkpoint::save(&dir, &State::new().per_rank("random", &random))?;
/// assert_eq!(checkpoint::read_part(&dir, "random")?.as_list()?.len(), 1);
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`load`].
#[torsh_tensor::names_caller]
pub fn read_part(dir: impl AsRef<Path>, name: &str) -> Result<Value> {
    loading::read_part(dir.as_ref(), name)
}

/// Reads a checkpoint of `torch.distributed.checkpoint` (`.metadata` and `__0_0.distcp` files): the nested dicts and lists
/// that were saved, with whole tensors. No code of the files is run: their objects are read as data.
///
/// ```
/// use torsh_distributed::checkpoint::read_torch;
///
/// // dcp.save({"model": {"weight": ..}, "epoch": 4, ..}) by two ranks.
/// let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/dcp");
/// let saved = read_torch(dir)?;
/// assert_eq!(saved.at(&["model", "weight"])?.as_tensor()?.dims(), [5, 4]);
/// assert_eq!(saved.get("epoch")?.as_int()?, 4);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Files that are missing or damaged, and objects of other classes than tensors, numbers, texts and containers.
#[torsh_tensor::names_caller]
pub fn read_torch(dir: impl AsRef<Path>) -> Result<Value> {
    torch_dcp::read(dir.as_ref())
}

/// Writes a state dict in the form of Hugging Face's libraries: `model.safetensors`, or files of at most `max_shard_size`
/// bytes (a larger tensor has one of its own) and `model.safetensors.index.json`. What an earlier save left there besides is
/// removed.
///
/// ```
/// use torsh_distributed::checkpoint::{load_hugging_face, save_hugging_face};
/// use torsh_nn::StateDict;
/// use torsh_tensor::tensor;
///
/// let dir = std::env::temp_dir().join(format!("torsh-dist-hf-{}", std::process::id()));
/// let state = StateDict::from([("a", tensor![1.0, 2.0]), ("b", tensor![3.0])]);
/// save_hugging_face(&dir, &state, 8)?;
/// assert!(dir.join("model-00002-of-00002.safetensors").is_file());
/// assert_eq!(load_hugging_face(&dir)?["b"], tensor![3.0]);
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// A file that cannot be written; complex128, which the format lacks.
#[torsh_tensor::names_caller]
pub fn save_hugging_face(
    dir: impl AsRef<Path>,
    state: &StateDict,
    max_shard_size: u64,
) -> Result<()> {
    hugging_face::save(dir.as_ref(), state, max_shard_size)
}

/// [`save_hugging_face`] of a model of which the ranks of a group hold pieces; each writes some of the files, and holds one
/// of them at a time.
///
/// ```
/// use torsh_distributed::{checkpoint::{self, Piece}, spawn};
/// use torsh_nn::Linear;
/// use torsh_tensor::tensor;
///
/// let dir = std::env::temp_dir().join(format!("torsh-dist-hf-sharded-{}", std::process::id()));
/// spawn(2, |g| {
///     let row = Linear::builder(2, 1).bias(false).build()?;
///     row.weight.detach().fill_(g.rank() as f64)?;
///     let pieces = vec![Piece::new("weight", [2, 2], [g.rank(), 0], row.weight.tensor())?];
///     checkpoint::save_hugging_face_sharded(&g, &dir, &row, &pieces, 1 << 30)
/// })?;
/// assert_eq!(checkpoint::load_hugging_face(&dir)?["weight"], tensor![[0.0, 0.0], [1.0, 1.0]]);
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As there, on all ranks where one fails; models that differ between ranks.
#[torsh_tensor::names_caller]
pub fn save_hugging_face_sharded<M: Module + ?Sized>(
    group: &ProcessGroup,
    dir: impl AsRef<Path>,
    model: &M,
    pieces: &impl Pieces,
    max_shard_size: u64,
) -> Result<()> {
    hugging_face::save_sharded(group, dir.as_ref(), model, pieces, max_shard_size)
}

/// Reads a folder in the form of Hugging Face's libraries: `model.safetensors`, or the files that
/// `model.safetensors.index.json` names. Tensors lie in the mapped files.
///
/// # Errors
/// A file that is missing or damaged, or lacks a tensor that the list places in it; the error names both.
#[torsh_tensor::names_caller]
pub fn load_hugging_face(dir: impl AsRef<Path>) -> Result<StateDict> {
    hugging_face::load(dir.as_ref())
}

#[cfg(test)]
mod tests;
