//! What is said where a state dict does not fit a module.

use torsh_tensor::{Result, TorshError};

use crate::module::{IncompatibleKeys, ModuleFields};

/// How a state dict is loaded, which decides what the caller can do about names.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Way {
    /// By `load_state_dict` or `load_state_dict_with`.
    Copy,
    /// By `assign_state_dict`, which has no options.
    Assign,
}

/// An error where something does not fit, or names differ and `strict` says that they must not.
#[track_caller]
pub(super) fn refuse<M: ModuleFields + ?Sized>(
    module: &M,
    keys: &IncompatibleKeys,
    wrong: Vec<String>,
    strict: bool,
    way: Way,
) -> Result<()> {
    let mut problems = Vec::new();
    if strict && !keys.missing_keys.is_empty() {
        problems.push(format!("missing: {}", keys.missing_keys.join(", ")));
    }
    if strict && !keys.unexpected_keys.is_empty() {
        problems.push(format!("unexpected: {}", keys.unexpected_keys.join(", ")));
    }
    let fits = wrong.is_empty();
    problems.extend(wrong.into_iter().map(|w| format!("does not fit: {w}")));
    if problems.is_empty() {
        return Ok(());
    }
    let error = TorshError::invalid(
        "load_state_dict",
        format!(
            "the state dict does not fit {}\n  {}",
            module.type_name(),
            problems.join("\n  ")
        ),
    );
    Err(match hint(keys, fits, way).filter(|_| strict) {
        Some(hint) => error.with_hint(hint),
        None => error,
    })
}

/// What can be done about the names. Nothing that leaves parameters of the module as they were drawn.
fn hint(keys: &IncompatibleKeys, fits: bool, way: Way) -> Option<String> {
    let (missing, unexpected) = (&keys.missing_keys, &keys.unexpected_keys);
    if let Some(prefix) = prefix_of(missing, unexpected) {
        let by = match prefix {
            "module." => ", as DistributedDataParallel and AveragedModel write them",
            "_orig_mod." => ", as torch.compile writes them",
            _ => "",
        };
        return Some(format!(
            "the names of the state dict begin with `{prefix}`{by}: \
             utils::consume_prefix_in_state_dict_if_present(&mut state, \"{prefix}\") takes it off"
        ));
    }
    if let Some(prefix) = prefix_of(unexpected, missing) {
        return Some(format!(
            "the state dict is of the module below, whose names here begin with `{prefix}`: load it into that one"
        ));
    }
    // Where all that the module has is there and fits, the rest may stay behind.
    match missing.is_empty() && fits && !unexpected.is_empty() && way == Way::Copy {
        true => Some(
            "load_state_dict_with(&state, LoadStateDictOptions::new().strict(false)) leaves out the names that the \
             module lacks"
                .into(),
        ),
        false => None,
    }
}

/// What all of `short` have ahead of them in `long`.
fn prefix_of<'a>(short: &[String], long: &'a [String]) -> Option<&'a str> {
    let first = short.first()?;
    let prefix = long.iter().find_map(|name| {
        let prefix = name.strip_suffix(first.as_str())?;
        prefix.ends_with('.').then_some(prefix)
    })?;
    let there: std::collections::HashSet<&str> = long
        .iter()
        .filter_map(|name| name.strip_prefix(prefix))
        .collect();
    short
        .iter()
        // Batch norms get their count where a state dict has none.
        .all(|name| there.contains(name.as_str()) || name.ends_with("num_batches_tracked"))
        .then_some(prefix)
}
