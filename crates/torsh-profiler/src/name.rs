//! The names of ops in a profile, which are PyTorch's.

use torsh_tensor::Node;
use torsh_tensor::observe::{Call, Work};

use crate::EventKind;

/// `aten::add` of `add`, `aten::relu` of `nn.functional.relu`, `aten::linalg_norm` of
/// `linalg.norm`.
fn op(name: &str) -> String {
    let plain = name.strip_prefix("nn.functional.").unwrap_or(name);
    format!("aten::{}", plain.replace('.', "_"))
}

/// Ahead of the name of an op that is computed on the CPU.
pub(crate) const FALLBACK: &str = "torsh::fallback_to_cpu: ";

fn node(node: &Node) -> String {
    let name = node.name();
    match name.as_str() {
        "AccumulateGrad" | "CopySlices" => format!("torch::autograd::{name}"),
        _ => name,
    }
}

/// The name of a call.
pub(crate) fn of(call: &Call<'_>) -> String {
    match call.work {
        Work::Op(r) => op(r.base_name()),
        Work::InPlace(r) => {
            let mut name = op(r.base_name());
            if !name.ends_with('_') {
                name.push('_');
            }
            name
        }
        Work::Composite(name) => op(name),
        Work::Node(n) => format!("autograd::engine::evaluate_function: {}", node(n)),
        Work::Formula(n) => node(n),
        Work::Range(name) => name.to_string(),
        Work::Fallback(r) => format!("{FALLBACK}{}", op(r.base_name())),
        Work::Definition(r) => format!("torsh::definition: {}", op(r.base_name())),
    }
}

/// What kind of event a call is.
pub(crate) fn kind(call: &Call<'_>) -> EventKind {
    match call.work {
        Work::Op(_) | Work::InPlace(_) | Work::Composite(_) | Work::Node(_) => EventKind::Op,
        Work::Formula(_) => EventKind::Backward,
        Work::Range(_) => EventKind::User,
        Work::Fallback(_) => EventKind::Fallback,
        Work::Definition(_) => EventKind::Definition,
    }
}
