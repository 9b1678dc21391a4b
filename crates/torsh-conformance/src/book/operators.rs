//! The tables of operators: every name of the op table with its forms.

use std::fmt::Write as _;

use torsh_tensor::ops;

use super::api::Api;
use super::forms::{self, Forms};

/// A part of the op table.
struct Part {
    title: &'static str,
    holds: fn(&str) -> bool,
}

const PARTS: [Part; 6] = [
    Part {
        title: "Tensors: `torch` and `torch.Tensor`",
        holds: |n| !n.contains('.'),
    },
    Part {
        title: "`torch.nn.functional`",
        holds: |n| n.starts_with("nn.functional."),
    },
    Part {
        title: "`torch.linalg` and `torch.special`",
        holds: |n| n.starts_with("linalg.") || n.starts_with("special."),
    },
    Part {
        title: "`torch.fft` and `torch.signal.windows`",
        holds: |n| n.starts_with("fft.") || n.starts_with("signal.windows."),
    },
    Part {
        title: "`torch.sparse`",
        holds: |n| n.starts_with("sparse."),
    },
    Part {
        title: "`torch.masked`",
        holds: |n| n.starts_with("masked."),
    },
];

/// Whether a name is part of another op only, or torchvision's: the tables are of PyTorch's.
fn internal(name: &str) -> bool {
    name.starts_with('_') && name != "__getitem__"
        || name.ends_with("_backward")
        || name.starts_with("torchvision::")
}

/// Parameters that the table leaves out: deprecated ones, and those that have no form here.
const NOT_TAKEN: &[&str] = &[
    "layout",
    "pin_memory",
    "memory_format",
    "size_average",
    "reduce",
    "out",
    "inplace",
    "_stacklevel",
    "_random_samples",
];

/// PyTorch's parameters, from a schema: `(Tensor input, *, int dim=1)` is `input, *, dim=1`.
pub fn parameters(schema: &str) -> String {
    let inner = schema.trim().trim_start_matches('(');
    let inner = &inner[..inner.rfind(')').unwrap_or(inner.len())];
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (i, c) in inner.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&inner[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    parts.push(&inner[start..]);
    let names: Vec<String> = parts
        .into_iter()
        .map(|p| {
            let (declared, default) = match p.split_once('=') {
                Some((d, v)) => (d.trim(), format!("={}", v.trim())),
                None => (p.trim(), String::new()),
            };
            let name = declared.rsplit(' ').next().unwrap_or(declared);
            let left_out = !default.is_empty() && NOT_TAKEN.contains(&name);
            match left_out {
                true => String::new(),
                false => format!("{name}{default}"),
            }
        })
        .filter(|n| !n.is_empty())
        .collect();
    names.join(", ").trim_end_matches(", *").to_string()
}

/// The calls of PyTorch that a name's records take; what only starts another is left out.
fn calls(name: &str) -> Vec<String> {
    let mut all: Vec<String> = ops::find(name)
        .unwrap_or_default()
        .iter()
        .map(|r| parameters(r.schema))
        .collect();
    all.dedup();
    // `add(input, other)` starts `add(input, other, *, alpha)`, but no call of that can leave alpha out.
    let optional = |rest: &str| {
        let mut more = rest.split(", ").filter(|p| !p.is_empty() && *p != "*");
        more.all(|p| p.contains('='))
    };
    let longer = |p: &String| {
        let rest = |q: &String| q.strip_prefix(p.as_str()).is_some_and(optional);
        all.iter().any(|q| q != p && rest(q))
    };
    let mut kept: Vec<String> = Vec::new();
    for p in &all {
        if !longer(p) && !kept.contains(p) {
            kept.push(p.clone());
        }
    }
    kept.iter()
        .map(|p| format!("`{}({p})`", forms::last(name)))
        .collect()
}

fn row(out: &mut String, left: &[String], forms: &Forms) {
    let dash = |v: &[String]| match v.is_empty() {
        true => "-".to_string(),
        false => v.join("; ").replace("`; `", "`, `"),
    };
    let function: Vec<String> = forms.function.iter().cloned().collect();
    let _ = writeln!(
        out,
        "| {} | {} | {} | {} | {} |",
        left.join(", ").replace('|', "\\|"),
        dash(&forms.calls),
        dash(&function),
        dash(&forms.in_place),
        dash(&forms.options)
    );
}

const HEAD: &str = "| PyTorch | method or creation | function | in place | other arguments |\n|---|---|---|---|---|\n";

/// The tables; and the names that have no form at all, which is a mistake.
pub fn tables(api: &Api) -> (String, Vec<String>) {
    let mut out = String::new();
    let mut formless = Vec::new();
    let names: Vec<&str> = ops::names().into_iter().filter(|n| !internal(n)).collect();
    let untold = |n: &&&str| !PARTS.iter().any(|part| (part.holds)(n));
    formless.extend(names.iter().filter(untold).map(ToString::to_string));
    for part in &PARTS {
        let _ = writeln!(out, "## {}\n", part.title);
        out.push_str(HEAD);
        for name in names.iter().filter(|n| (part.holds)(n)) {
            let forms = forms::of(api, name);
            if forms.is_empty() {
                formless.push((*name).to_string());
            }
            let left = match *name {
                "__getitem__" => vec!["`x[..]`".to_string()],
                name => calls(name),
            };
            row(&mut out, &left, &forms);
        }
        out.push('\n');
    }
    (out, formless)
}

/// The table of names that PyTorch has for ops of other names.
pub fn aliases(names: &[(String, String)]) -> String {
    let mut out = String::from("| PyTorch | the same as |\n|---|---|\n");
    let known = ops::names();
    for (name, _) in names {
        let plain = name.strip_prefix("Tensor.").unwrap_or(name);
        // Methods that are also functions are told once.
        if known.contains(&plain) || plain != name || name.ends_with('_') {
            continue;
        }
        let Some(records) = ops::find(plain) else {
            continue;
        };
        let base = records[0].base_name();
        let _ = writeln!(out, "| `{name}` | `{base}` |");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_lose_their_types() {
        assert_eq!(
            parameters(
                "(Tensor input, int[2] stride=[1, 1], *, ScalarType? dtype=None, str mode='none') -> Tensor"
            ),
            "input, stride=[1, 1], *, dtype=None, mode='none'"
        );
        assert_eq!(parameters("()"), "");
    }

    #[test]
    fn overloads_that_say_less_are_left_out() {
        assert_eq!(
            calls("add"),
            ["`add(input, other)`", "`add(input, other, *, alpha)`"]
        );
        assert_eq!(calls("sum").len(), 1);
        assert_eq!(calls("nn.functional.relu"), ["`relu(input)`"]);
    }

    #[test]
    fn parts_of_other_ops_are_no_names() {
        assert!(internal("masked_scatter_backward") && internal("_upsample_bilinear2d_aa"));
        assert!(!internal("__getitem__") && !internal("add"));
    }
}
