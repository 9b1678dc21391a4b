//! The text of a sparse tensor: its parts, each as a tensor of its own, and what they do not say.

use std::borrow::Cow;

use super::{Described, PrintOptions, add_suffixes, contents, size_text};

/// A part of a sparse tensor.
pub(crate) struct Part<'a> {
    /// Its name: `indices`, `crow_indices`, `values`.
    pub(crate) name: &'static str,
    /// The part; only its shape, its values and whether it has some are read.
    pub(crate) described: Described<'a>,
}

/// A sparse tensor as PyTorch prints it. Of `whole`, all but the values is read.
pub(crate) fn format_sparse(
    whole: &Described<'_>,
    parts: &[Part<'_>],
    nnz: usize,
    layout: &str,
    options: &PrintOptions,
) -> String {
    const PREFIX: &str = "tensor(";
    let mut text = PREFIX.to_owned();
    for (i, part) in parts.iter().enumerate() {
        if i > 0 {
            text.push_str(",\n");
            text.extend(std::iter::repeat_n(' ', PREFIX.len()));
        }
        let (head, d) = (format!("{}=tensor(", part.name), &part.described);
        let body = match d.meta {
            true => "...".to_owned(),
            false => contents(d.shape, &d.values, PREFIX.len() + head.len(), options),
        };
        text.push_str(&head);
        text.push_str(&body);
        if d.meta || d.shape.contains(&0) {
            text.push_str(", size=");
            text.push_str(&size_text(d.shape));
        }
        text.push(')');
    }

    let mut suffixes: Vec<Cow<'_, str>> = Vec::new();
    suffixes.extend(whole.device.map(|d| format!("device='{d}'").into()));
    suffixes.push(format!("size={}", size_text(whole.shape)).into());
    if !whole.meta {
        suffixes.push(format!("nnz={nnz}").into());
    }
    if !whole.dtype_is_implied() {
        suffixes.push(format!("dtype=torch.{}", whole.dtype_name).into());
    }
    suffixes.push(format!("layout=torch.{layout}").into());
    if let Some(grad_fn) = whole.grad_fn {
        suffixes.push(format!("grad_fn=<{grad_fn}>").into());
    } else if whole.requires_grad {
        suffixes.push("requires_grad=True".into());
    }
    // What follows the parts of a COO tensor is on a line of its own.
    let new_line = layout == "sparse_coo";
    add_suffixes(&mut text, &suffixes, PREFIX.len(), new_line, options);
    text.push(')');
    text
}
