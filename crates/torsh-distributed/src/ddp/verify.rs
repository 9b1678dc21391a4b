//! The start: all ranks hold the same model.

use serde::{Deserialize, Serialize};
use torsh_nn::{Buffer, Parameter};
use torsh_tensor::{Result, Tensor, TorshError};

use crate::group::ProcessGroup;

/// What must be the same on all ranks of one parameter or buffer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Entry {
    kind: String,
    name: String,
    shape: Vec<usize>,
    /// None for row-major.
    stride: Option<Vec<i64>>,
    dtype: String,
    trained: bool,
}

impl Entry {
    fn new(kind: &str, name: &str, t: &Tensor, trained: bool) -> Entry {
        let plain = t.memory_layout().is_contiguous();
        Entry {
            kind: kind.to_string(),
            name: name.to_string(),
            shape: t.dims().to_vec(),
            stride: (!plain).then(|| t.stride().iter().map(|&s| s as i64).collect()),
            dtype: match t.layout().is_strided() {
                true => t.dtype().to_string(),
                false => format!("{} {}", t.layout(), t.dtype()),
            },
            trained,
        }
    }

    fn show(&self) -> String {
        let stride = match &self.stride {
            Some(s) => format!(" with strides {s:?}"),
            None => String::new(),
        };
        let trained = match (self.kind.as_str(), self.trained) {
            ("parameter", false) => ", frozen",
            _ => "",
        };
        format!(
            "{} {} {}{:?}{stride}{trained}",
            self.kind, self.name, self.dtype, self.shape
        )
    }
}

/// FNV-1a: the same on all machines and builds.
fn digest(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| {
        (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// An error on all ranks that names the first parameter or buffer that differs, and the ranks.
pub(super) fn verify(
    group: &ProcessGroup,
    parameters: &[(String, Parameter)],
    buffers: &[(String, Buffer)],
) -> Result<()> {
    let mut entries: Vec<Entry> = Vec::new();
    for (name, p) in parameters {
        entries.push(Entry::new("parameter", name, p, p.requires_grad()));
    }
    for (name, b) in buffers {
        entries.push(Entry::new("buffer", name, b, false));
    }
    let shown: Vec<String> = entries.iter().map(Entry::show).collect();
    if group.engine() == "fake" {
        // There is nobody to compare with.
        return Ok(());
    }
    let mine = (entries.len(), digest(&shown.join("\n")));
    let all = group.all_gather_object(&mine)?;
    if all.iter().all(|d| *d == all[0]) {
        return Ok(());
    }
    // They differ: now everything is looked at.
    let all = group.all_gather_object(&shown)?;
    let most = all.iter().map(Vec::len).max().unwrap_or(0);
    for i in 0..most {
        let at: Vec<&str> = all
            .iter()
            .map(|s| s.get(i).map_or("nothing", String::as_str))
            .collect();
        if let Some(other) = at.iter().position(|s| *s != at[0]) {
            let ranks =
                |what: &str| -> Vec<usize> { (0..at.len()).filter(|r| at[*r] == what).collect() };
            return Err(TorshError::invalid(
                "DistributedDataParallel",
                format!(
                    "the models of the ranks of group {} differ at entry {i}: ranks {:?} have {}, ranks {:?} have {}",
                    group.name(),
                    ranks(at[0]),
                    at[0],
                    ranks(at[other]),
                    at[other]
                ),
            )
            .with_hint("build the same model on every rank, in the same order, with the same parameters frozen"));
        }
    }
    Err(TorshError::invalid(
        "DistributedDataParallel",
        format!(
            "the models of the ranks of group {} differ in their digests but not in their entries",
            group.name()
        ),
    ))
}

/// Gives all ranks the parameters and buffers of rank `src`.
pub(super) fn broadcast(
    group: &ProcessGroup,
    parameters: &[(String, Parameter)],
    buffers: &[(String, Buffer)],
    src: usize,
) -> Result<()> {
    if group.size() == 1 {
        return Ok(());
    }
    let tensors = parameters.iter().map(|(_, p)| p.detach());
    let tensors: Vec<Tensor> = tensors
        .chain(buffers.iter().map(|(_, b)| b.detach()))
        .collect();
    group.broadcast_coalesced_(&tensors, src)
}
