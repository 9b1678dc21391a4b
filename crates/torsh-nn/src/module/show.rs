//! Printing modules as PyTorch does.

use std::fmt;

use crate::module::{FieldRef, Module};

/// `Linear(in_features=4, out_features=8, bias=True)`, with the children of a module below it.
impl fmt::Debug for dyn Module + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&show(self))
    }
}

impl fmt::Display for dyn Module + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

pub(super) fn show(module: &dyn Module) -> String {
    let mut children = Vec::new();
    module.visit_fields(&mut |name, field| {
        if let FieldRef::Module(child) = field {
            children.push(format!("({name}): {}", show(child)));
        }
    });
    let own = module.extra_repr();
    if children.is_empty() && own.lines().count() < 2 {
        return format!("{}({own})", module.type_name());
    }
    let mut text = format!("{}(\n", module.type_name());
    for line in own.lines().chain(children.iter().flat_map(|c| c.lines())) {
        text.push_str("  ");
        text.push_str(line);
        text.push('\n');
    }
    text.push(')');
    text
}
