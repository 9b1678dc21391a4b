//! Loading model files within limits.
//!
//! Loading never executes code from a file (see `torsh-serialize`). This module limits how much is
//! loaded, and into which kinds of layers.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use torsh_nn::{Module, ModuleExt, StateDict};
use torsh_serialize::{LeftOut, Readable};
use torsh_tensor::{Result, Tensor, TorshError, options};

use crate::hash::{compare, hex, io_error};
use crate::model::{count, structure};

options! {
    /// What [`load_model_with_constraints`] lets in.
    ModelConstraints {
        /// The most elements of all tensors of the file.
        max_parameters: usize = 1_000_000_000;
        /// The largest file, in units of 2^20 bytes.
        max_file_size_mb: u64 = 4000;
        /// The layers that the model may be made of: each one without layers below it must have a
        /// type whose name contains one of these, whatever the case (`conv` allows `Conv2d`). An
        /// empty list allows all.
        allowed_operations: Vec<String> = Vec::new(), &[&str] => words;
        /// The layers that the model must not have, by names as above.
        disallowed_operations: Vec<String> = Vec::new(), &[&str] => words;
    }
}

fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(|w| w.to_string()).collect()
}

/// Refuses a model with layers that the constraints do not allow.
///
/// ```
/// use torsh_debug::{ModelConstraints, validate_model_architecture};
/// use torsh_nn::{Linear, ReLU, Sequential};
/// let model = Sequential::new().add(Linear::new(2, 2)).add(ReLU::new());
/// let only = ModelConstraints::new().allowed_operations(&["linear", "conv"]);
/// let e = validate_model_architecture(&model, &only).unwrap_err().to_string();
/// assert!(e.contains("allowed_operations: the layer `1` is a ReLU"), "{e}");
/// validate_model_architecture(&model, &only.allowed_operations(&["linear", "relu"]))?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn validate_model_architecture(
    model: &(impl Module + ?Sized),
    constraints: &ModelConstraints,
) -> Result<()> {
    let listed = |name: &str, list: &[String]| {
        let name = name.to_lowercase();
        list.iter().any(|word| name.contains(&word.to_lowercase()))
    };
    let refuse = |field: &str, name: &str, kind: &str| {
        let name = if name.is_empty() {
            "the model itself"
        } else {
            name
        };
        Err(TorshError::invalid(
            "validate_model_architecture",
            format!("{field}: the layer `{name}` is a {kind}"),
        ))
    };
    for (name, module) in model.named_modules() {
        let kind = module.type_name();
        if listed(kind, &constraints.disallowed_operations) {
            return refuse("disallowed_operations", &name, kind);
        }
        let allowed = &constraints.allowed_operations;
        if !allowed.is_empty() && module.children().is_empty() && !listed(kind, allowed) {
            return refuse("allowed_operations", &name, kind);
        }
    }
    Ok(())
}

#[track_caller]
fn check_size(op: &'static str, path: &Path, most_mb: u64) -> Result<()> {
    let about = std::fs::metadata(path).map_err(|e| io_error(path, e))?;
    if about.len() > most_mb.saturating_mul(1 << 20) {
        return Err(TorshError::invalid(
            op,
            format!(
                "max_file_size_mb: {} has {} bytes, and {most_mb} MiB are allowed",
                path.display(),
                about.len()
            ),
        ));
    }
    Ok(())
}

fn named(state: &StateDict) -> impl Iterator<Item = (String, &Tensor)> + Clone {
    state
        .iter()
        .map(|(name, t)| (name.to_string(), t))
        .collect::<Vec<_>>()
        .into_iter()
}

/// The tensors of a file that can be read. A line says what of it was left out; an error where that is a tensor of the model.
#[track_caller]
fn readable(op: &'static str, model: &(impl Module + ?Sized), all: Readable) -> Result<StateDict> {
    let own = model.state_dict();
    for LeftOut {
        name, what, why, ..
    } in &all.left_out
    {
        if own.contains_key(name) {
            let why = format!("`{name}` is {what} in the file: {why}");
            return Err(TorshError::dtype(op, why));
        }
        eprintln!("torsh: {op} left out {name} ({what}): {why}");
    }
    Ok(all.tensors.into_iter().collect())
}

/// Loads a file's state dict into a model, which stays as it was where the file is too large, has
/// too many parameters, or the model has layers that the constraints do not allow.
///
/// What of the file is no tensor, or a tensor that has no dtype here, is left out unless the model wants it. A line says so.
///
/// # Errors
/// What the constraints refuse; what [`ModuleExt::load`] refuses.
#[torsh_tensor::names_caller]
pub fn load_model_with_constraints(
    model: &(impl Module + ?Sized),
    path: impl AsRef<Path>,
    constraints: &ModelConstraints,
) -> Result<()> {
    let (op, path) = ("load_model_with_constraints", path.as_ref());
    validate_model_architecture(model, constraints)?;
    check_size(op, path, constraints.max_file_size_mb)?;
    let state = readable(op, model, torsh_serialize::load_readable(path)?)?;
    count(op, named(&state), constraints.max_parameters)?;
    model.load_state_dict(&state)
}

/// [`load_model_with_constraints`] of a file whose SHA-256 is the one in the file `PATH.sha256`
/// beside it. What is loaded are the very bytes that were checked, so that nobody can exchange the
/// file between.
///
/// ```
/// use torsh_debug::{ModelConstraints, save_expected_hash, secure_model_loading};
/// use torsh_nn::{Linear, ModuleExt};
/// let path = std::env::temp_dir().join(format!("torsh-secure-{}.safetensors", std::process::id()));
/// let (trained, model) = (Linear::new(2, 3), Linear::new(2, 3));
/// trained.save(&path)?;
/// save_expected_hash(&path)?;
/// let constraints = ModelConstraints::new().max_parameters(9).allowed_operations(&["linear"]);
/// secure_model_loading(&model, &path, &constraints)?;
/// assert_eq!(model.weight.to_vec::<f32>()?, trained.weight.to_vec::<f32>()?);
/// let fewer = constraints.max_parameters(8);
/// let e = secure_model_loading(&model, &path, &fewer).unwrap_err().to_string();
/// assert!(e.contains("max_parameters: there are 9 elements, and 8 are allowed"), "{e}");
/// # std::fs::remove_file(&path)?;
/// # std::fs::remove_file(path.with_extension("safetensors.sha256"))?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// A file that was changed, what the constraints refuse, parameters that are not finite.
#[torsh_tensor::names_caller]
pub fn secure_model_loading(
    model: &(impl Module + ?Sized),
    path: impl AsRef<Path>,
    constraints: &ModelConstraints,
) -> Result<()> {
    let (op, path) = ("secure_model_loading", path.as_ref());
    validate_model_architecture(model, constraints)?;
    check_size(op, path, constraints.max_file_size_mb)?;
    // A file that grows meanwhile is not read beyond the limit.
    let most = constraints.max_file_size_mb.saturating_mul(1 << 20);
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|f| f.take(most).read_to_end(&mut bytes));
    read.map_err(|e| io_error(path, e))?;
    compare(path, &hex(&bytes))?;
    let state = readable(op, model, torsh_serialize::load_readable_bytes(&bytes)?)?;
    count(op, named(&state), constraints.max_parameters)?;
    structure(op, named(&state))?;
    model.load_state_dict(&state)
}

/// What the extensions of model files are.
const EXTENSIONS: [&str; 4] = ["torsh", "safetensors", "pt", "pth"];
const LARGEST_MB: u64 = 10 * 1024;

/// Loads a file's state dict into a model, after checks: the extension is `.torsh`, `.safetensors`,
/// `.pt` or `.pth`, the file has 10 GiB at most, and its tensors pass
/// [`validate_model_structure`](crate::validate_model_structure). Where one fails the model stays
/// as it was. Entries that cannot be read are left out as in [`load_model_with_constraints`].
///
/// ```
/// use torsh_debug::safe_load_model;
/// use torsh_nn::{Linear, ModuleExt};
/// use torsh_tensor::no_grad;
/// let path = std::env::temp_dir().join(format!("torsh-safe-{}.pth", std::process::id()));
/// let (trained, model) = (Linear::new(2, 3), Linear::new(2, 3));
/// trained.save(&path)?;
/// safe_load_model(&model, &path)?;
/// assert_eq!(model.weight.to_vec::<f32>()?, trained.weight.to_vec::<f32>()?);
/// no_grad(|| trained.weight.fill_(f32::NAN))?;
/// trained.save(&path)?;
/// let e = safe_load_model(&model, &path).unwrap_err().to_string();
/// assert!(e.contains("`weight` has 6 nan values"), "{e}");
/// assert!(model.weight.is_finite()?);
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn safe_load_model(model: &(impl Module + ?Sized), path: impl AsRef<Path>) -> Result<()> {
    let (op, path) = ("safe_load_model", path.as_ref());
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or("");
    if !EXTENSIONS.contains(&extension) {
        return Err(TorshError::invalid(
            op,
            format!(
                "{}: the extension must be one of {EXTENSIONS:?}",
                path.display()
            ),
        ));
    }
    check_size(op, path, LARGEST_MB)?;
    let state = readable(op, model, torsh_serialize::load_readable(path)?)?;
    structure(op, named(&state))?;
    model.load_state_dict(&state)
}
