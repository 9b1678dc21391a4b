//! PyTorch's public names and their counterparts in ToRSh.

use super::api::{Api, Item, Signature};
use super::forms::{self, call, reached};

const TORCH: &str = include_str!("../../data/torch_names.txt");
const EQUIVALENTS: &str = include_str!("../../data/equivalents.txt");

/// Every public name of PyTorch with its parameters, where Python knows them.
pub fn torch() -> Vec<(String, String)> {
    let lines = TORCH.lines().filter(|l| !l.starts_with('#'));
    lines
        .map(|l| match l.find('(') {
            Some(i) => (l[..i].to_string(), l[i..].to_string()),
            None => (l.to_string(), String::new()),
        })
        .collect()
}

/// The names whose form was written by hand.
pub fn equivalents() -> Vec<(&'static str, &'static str)> {
    let lines = EQUIVALENTS.lines().filter(|l| !l.starts_with('#'));
    lines.filter_map(|l| l.split_once('\t')).collect()
}

/// The parameters of PyTorch that say where and how, not what; their forms are the builder's.
const EVERYWHERE: &[&str] = &[
    "device",
    "dtype",
    "foreach",
    "capturable",
    "differentiable",
    "fused",
    "size_average",
    "reduce",
];

/// PyTorch's call without the parameters that all its kin take.
pub fn left(name: &str, parameters: &str) -> String {
    let inner = parameters.strip_prefix('(').unwrap_or(parameters);
    let inner = inner.strip_suffix(')').unwrap_or(inner);
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (i, c) in inner.char_indices() {
        match c {
            '(' | '[' | '<' => depth += 1,
            ')' | ']' | '>' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(inner[start..i].trim());
                start = i + 1;
            }
            _ => {}
        }
    }
    parts.push(inner[start..].trim());
    parts.retain(|p| !p.is_empty() && !EVERYWHERE.contains(&p.split('=').next().unwrap_or(p)));
    if parts.last() == Some(&"*") {
        parts.pop();
    }
    match parameters.is_empty() {
        true => format!("`{name}`"),
        false => format!("`{name}({})`", parts.join(", ")),
    }
}

/// What a name is in ToRSh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The call or type.
    pub form: String,
    /// How the other arguments are given.
    pub other: String,
    /// The path of an item that a program names.
    pub path: Option<String>,
}

impl Found {
    fn of(form: String) -> Found {
        Found {
            form,
            other: String::new(),
            path: None,
        }
    }
}

/// Where the methods of a class of PyTorch are: the class, the receiver, the types and traits.
const RECEIVERS: &[(&str, &str, &[(&str, &str)])] = &[
    (
        "nn.Module.",
        "net",
        &[("torsh_nn", "ModuleExt"), ("torsh_nn", "Module")],
    ),
    (
        "optim.Optimizer.",
        "optimizer",
        &[("torsh_optim", "Optimizer"), ("torsh_optim", "Optim")],
    ),
    (
        "optim.lr_scheduler.LRScheduler.",
        "scheduler",
        &[("torsh_optim", "LRScheduler")],
    ),
    (
        "amp.GradScaler.",
        "scaler",
        &[("torsh_optim", "GradScaler")],
    ),
    ("Generator.", "generator", &[("torsh_core", "Generator")]),
];

/// Where the classes and functions of a namespace are.
const NAMESPACES: &[(&str, &[&str], &str)] = &[
    ("nn.init.", &["torsh_nn"], "init::"),
    ("nn.utils.rnn.", &["torsh_nn"], "utils::rnn::"),
    (
        "nn.utils.parametrizations.",
        &["torsh_nn"],
        "utils::parametrizations::",
    ),
    ("nn.utils.prune.", &["torsh_nn"], "utils::prune::"),
    ("nn.utils.", &["torsh_nn"], "utils::"),
    ("nn.functional.", &[], ""),
    ("nn.", &["torsh_nn"], ""),
    ("optim.lr_scheduler.", &["torsh_optim"], "lr_scheduler::"),
    ("optim.swa_utils.", &["torsh_optim"], ""),
    ("optim.", &["torsh_optim"], ""),
    ("autograd.functional.", &["torsh_autograd"], ""),
    ("autograd.", &["torsh_autograd", "torsh_tensor"], ""),
    ("utils.data.", &["torsh_data"], ""),
    ("utils.checkpoint.", &["torsh_tensor"], ""),
    ("amp.", &["torsh_optim"], ""),
    ("Tensor.", &[], ""),
    ("linalg.", &[], ""),
    ("sparse.", &[], ""),
    ("fft.", &[], ""),
    ("special.", &[], ""),
    (
        "",
        &[
            "torsh_tensor",
            "torsh",
            "torsh_core",
            "torsh_serialize",
            "torsh_autograd",
        ],
        "",
    ),
];

fn item<'a>(api: &'a Api, krate: &str, within: &str, name: &str) -> Option<&'a Item> {
    let start = format!("{krate}::{within}");
    let found = api
        .items()
        .filter(|i| i.name() == name && i.path.starts_with(&start));
    found.min_by_key(|i| i.path.len())
}

/// Names that ToRSh uses for something else.
const ANOTHER_THING: &[&str] = &["layout"];

/// What a name of PyTorch is in ToRSh; `None` where there is nothing.
pub fn find(api: &Api, prelude: &str, name: &str) -> Option<Found> {
    if ANOTHER_THING.contains(&name) {
        return None;
    }
    if let Some((_, form)) = equivalents().iter().find(|(n, _)| *n == name) {
        return Some(Found::of((*form).to_string()));
    }
    for (class, receiver, homes) in RECEIVERS {
        let Some(method) = name.strip_prefix(class) else {
            continue;
        };
        let of = |name: &str| {
            let mut homes = homes.iter();
            homes.find_map(|(krate, home)| api.find(krate, home)?.methods.get(name))
        };
        let before = format!("{receiver}.");
        let with = format!("{}_with", method.trim_end_matches('_'));
        let other = of(&with).map(|s| forms::with_options(api, &before, &with, s));
        let signature = of(method).filter(|s| s.method)?;
        return Some(Found {
            other: other.unwrap_or_default(),
            ..Found::of(call(&before, method, signature))
        });
    }
    let (prefix, crates, within) = NAMESPACES.iter().find(|(p, ..)| name.starts_with(p))?;
    let last = &name[prefix.len()..];
    if matches!(
        *prefix,
        "" | "Tensor." | "nn.functional." | "linalg." | "sparse." | "special." | "fft."
    ) {
        let plain = !matches!(*prefix, "linalg." | "sparse." | "special." | "fft.");
        let known = torsh_tensor::ops::find(if plain { last } else { name });
        let base = match &known {
            Some(records) => records[0].base_name(),
            None if plain => last,
            None => return None,
        };
        if last.ends_with('_') && plain {
            // Of `relu_` only the form that writes counts; `arccos_` is `acos_`.
            let other = torsh_tensor::ops::find(last.trim_end_matches('_'));
            let other = other.map(|r| format!("{}_", forms::last(r[0].base_name())));
            let writes = |m: &str| Some(call("x.", m, api.tensor(m)?));
            let form = writes(last).or_else(|| writes(&other?));
            let form = form.or_else(|| forms::of(api, last).in_place.into_iter().next())?;
            return Some(Found::of(form));
        }
        let own = forms::of(api, last);
        let forms = match plain && !own.is_empty() {
            true => own,
            false => forms::of(api, base),
        };
        if !forms.is_empty() {
            let mut all = forms.calls;
            if *prefix == "Tensor." && all.iter().any(|c| c.starts_with("`x.")) {
                all.retain(|c| c.starts_with("`x."));
            }
            all.extend(forms.function);
            all.extend(forms.in_place);
            return Some(Found {
                form: all.join(", "),
                other: forms.options.join("; "),
                path: None,
            });
        }
    }
    let item = crates.iter().find_map(|k| item(api, k, within, last))?;
    if item.kind == "macro" {
        return None;
    }
    let path = reached(item, prelude)?;
    let Some(signature) = &item.signature else {
        let (form, other) = forms::class(api, item, prelude);
        return Some(Found {
            form,
            other,
            path: Some(path),
        });
    };
    let before = path.strip_suffix(last).unwrap_or_default();
    let with = format!("{}_with", last.trim_end_matches('_'));
    let home = item.path.strip_suffix(last).unwrap_or_default();
    let other = api
        .items()
        .find(|i| i.path == format!("{home}{with}"))
        .and_then(|i| i.signature.as_ref())
        .map(|s: &Signature| forms::with_options(api, before, &with, s));
    Some(Found {
        form: call(before, last, signature),
        other: other.unwrap_or_default(),
        path: Some(path),
    })
}

/// What the code in a form names: the words before `(`, `::` and after `.` or `::`.
pub fn words(form: &str) -> Vec<String> {
    let mut out = Vec::new();
    for code in form.split('`').skip(1).step_by(2) {
        let bytes = code.as_bytes();
        let mut start = None;
        for i in 0..=bytes.len() {
            let part = bytes
                .get(i)
                .is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
            match start {
                None if part => start = Some(i),
                Some(s) if !part => {
                    let word = &code[s..i];
                    let after = &code[i..];
                    let named = s > 0 && matches!(bytes[s - 1], b'.' | b':')
                        || after.starts_with(['(', '!'])
                        || after.starts_with("::")
                        || code == word;
                    if named && word.starts_with(|c: char| c.is_alphabetic()) {
                        out.push(word.to_string());
                    }
                    start = None;
                }
                _ => {}
            }
        }
    }
    out
}

/// The calls in a form, with the number of their arguments; those of `name(..)` are left out.
pub fn arities(form: &str) -> Vec<(String, usize)> {
    let mut out = Vec::new();
    for code in form.split('`').skip(1).step_by(2) {
        for (open, _) in code.match_indices('(') {
            let before = &code[..open];
            // `to_vec::<f32>(` is a call of `to_vec`.
            let before = match before.strip_suffix('>').and_then(|b| b.rfind("::<")) {
                Some(generics) => &before[..generics],
                None => before,
            };
            let is_part = |c: char| c.is_alphanumeric() || c == '_';
            let start = before.rfind(|c| !is_part(c)).map_or(0, |i| i + 1);
            let (name, inner) = (&before[start..], arguments(&code[open + 1..]));
            if !name.is_empty() && inner.trim() != ".." {
                let commas = top_level_commas(inner);
                out.push((
                    name.to_string(),
                    commas + usize::from(!inner.trim().is_empty()),
                ));
            }
        }
    }
    out
}

/// What stands before the bracket that closes an open one.
fn arguments(text: &str) -> &str {
    let mut depth = 0;
    for (i, c) in text.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' if depth == 0 => return &text[..i],
            ')' | ']' => depth -= 1,
            _ => {}
        }
    }
    text
}

fn top_level_commas(text: &str) -> usize {
    let mut depth = 0;
    text.chars()
        .filter(|c| {
            match c {
                '(' | '[' => depth += 1,
                ')' | ']' => depth -= 1,
                _ => {}
            }
            *c == ',' && depth == 0
        })
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_torch_are_read() {
        let names = torch();
        assert!(names.len() > 1500);
        let find = |n: &str| names.iter().find(|(name, _)| name == n);
        assert_eq!(find("add"), Some(&("add".into(), String::new())));
        assert_eq!(
            find("nn.Linear").unwrap().1,
            "(in_features, out_features, bias=True, device=None, dtype=None)"
        );
        assert!(find("Tensor.add_").is_some() && find("optim.lr_scheduler.StepLR").is_some());
    }

    #[test]
    fn calls_of_torch_lose_what_all_take() {
        assert_eq!(
            left(
                "nn.Linear",
                "(in_features, out_features, bias=True, device=None, dtype=None)"
            ),
            "`nn.Linear(in_features, out_features, bias=True)`"
        );
        assert_eq!(
            left(
                "optim.Adam",
                "(params, betas=(0.9, 0.999), *, foreach=None)"
            ),
            "`optim.Adam(params, betas=(0.9, 0.999))`"
        );
        assert_eq!(left("nn.Module", ""), "`nn.Module`");
    }

    #[test]
    fn the_words_of_a_form_are_what_it_names() {
        assert_eq!(
            words("`x.to_dtype(DType::F32)?`, a field of type `Buffer`, `tensor![1.0, v]`"),
            ["to_dtype", "DType", "F32", "Buffer", "tensor"]
        );
        assert_eq!(
            words("`optim::get_swa_avg_fn()`"),
            ["optim", "get_swa_avg_fn"]
        );
    }

    #[test]
    fn the_arguments_of_calls_are_counted() {
        let found = arities("`x.f(a.g(b), [1, 2])?`, `to_vec::<f32>()`, `h(..)`, `tensor![1, 2]`");
        let found: Vec<_> = found.iter().map(|(n, c)| (n.as_str(), *c)).collect();
        assert_eq!(found, [("f", 2), ("g", 1), ("to_vec", 0)]);
    }

    #[test]
    fn forms_by_hand_are_of_names_that_exist() {
        let names = torch();
        for (name, form) in equivalents() {
            assert!(
                names.iter().any(|(n, _)| n == name),
                "{name} is no name of PyTorch"
            );
            assert!(!form.is_empty(), "{name}");
        }
    }
}
