//! `torsh convert`

use std::path::Path;
use std::process::ExitCode;
use std::str::FromStr;

use serde_json::json;
use torsh_hub::{LoadStateDict, load_readable_state_dict, load_state_dict_with};
use torsh_nn::StateDict;
use torsh_tensor::{DType, Result, TorshError};

use crate::ConvertArgs;
use crate::output::{bytes, print};

/// `torsh convert`
pub(crate) fn run(args: &ConvertArgs, json: bool) -> Result<ExitCode> {
    let (from, to) = (&args.input, &args.output);
    let known = to.extension().and_then(|e| e.to_str());
    if !matches!(known, Some("safetensors" | "pt" | "pth" | "npz")) {
        return Err(
            TorshError::invalid("convert", format!("{} names no format", to.display()))
                .with_hint("the name of the output ends with .safetensors, .pt, .pth or .npz"),
        );
    }
    if to.exists() && !args.force {
        return Err(
            TorshError::invalid("convert", format!("{} is there already", to.display()))
                .with_hint("--force replaces it"),
        );
    }
    let mut options = LoadStateDict::new().verify(true);
    if let Some(key) = &args.key {
        options = options.key(key);
    }
    if let Some(prefix) = &args.strip_prefix {
        options = options.strip_prefix(prefix);
    }
    let (mut state, left_out) = match args.skip_unreadable {
        true => load_readable_state_dict(from, options)?,
        false => {
            let state = load_state_dict_with(from, options).map_err(|e| match e {
                // The command has its own way.
                TorshError::DTypeMismatch(_) | TorshError::Format(_) if may_skip(from) => {
                    e.with_hint("--skip-unreadable converts the rest, and `torsh inspect` shows it")
                }
                e => e,
            })?;
            (state, Vec::new())
        }
    };
    if let Some(dtype) = &args.dtype {
        let dtype = DType::from_str(dtype)?;
        if !dtype.is_floating_point() {
            return Err(TorshError::dtype(
                "convert",
                format!("--dtype is a floating-point dtype, not {dtype}"),
            ));
        }
        let converted = state.into_iter().map(|(name, t)| {
            let t = if t.dtype().is_floating_point() {
                t.to_dtype(dtype)?
            } else {
                t
            };
            Ok((name, t))
        });
        state = converted
            .collect::<Result<Vec<_>>>()?
            .into_iter()
            .collect::<StateDict>();
    }
    // Onto the file that is mapped is right as well: the new one takes its name when it is whole.
    state.save(to)?;
    let size = to.metadata()?.len();
    let mut text = format!(
        "{}: {} tensors, {}\n",
        to.display(),
        state.len(),
        bytes(size)
    );
    for entry in &left_out {
        text.push_str(&format!("  left out: {entry}\n"));
    }
    let left_out: Vec<_> = left_out
        .iter()
        .map(|l| json!({ "name": l.name, "what": l.what, "why": l.why }))
        .collect();
    let object = json!({
        "file": to.display().to_string(), "tensors": state.len(), "bytes": size, "left_out": left_out,
    });
    print(&text, &object, json)
}

/// Whether a file has tensors that can be read beside what cannot.
fn may_skip(path: &Path) -> bool {
    let read = load_readable_state_dict(path, LoadStateDict::new());
    read.is_ok_and(|(state, left_out)| !state.is_empty() && !left_out.is_empty())
}
