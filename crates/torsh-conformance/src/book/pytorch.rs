//! The page "PyTorch to ToRSh".

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use torsh_tensor::ops;

use super::api::Api;
use super::{forms, missing, names, operators};
use crate::source::Source;

const HEAD: &str = include_str!("../../data/pytorch-to-torsh.md");
const TRAINING: &str = include_str!("../../data/training.txt");

/// A section of the page: its title, what stands under it, and whose names it has.
struct Section {
    title: &'static str,
    text: &'static str,
    holds: fn(&str) -> bool,
}

fn class(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix).is_some_and(|n| !n.contains('.'))
}

const SECTIONS: &[Section] = &[
    Section {
        title: "Modules",
        text: "The methods of every module, from the traits `Module` and `ModuleExt`.",
        holds: |n| n.starts_with("nn.Module."),
    },
    Section {
        title: "Layers: `torch.nn`",
        text: "Every builder also has `device` and `dtype`, and ends in `build()?`. Call `forward_with` if the layer \
               needs more than one tensor.",
        holds: |n| class(n, "nn."),
    },
    Section {
        title: "Initialisation: `torch.nn.init`",
        text: "After the same seed, these functions draw the same numbers as PyTorch's.",
        holds: |n| n.starts_with("nn.init."),
    },
    Section {
        title: "`torch.nn.utils`",
        text: "",
        holds: |n| n.starts_with("nn.utils."),
    },
    Section {
        title: "Optimizers: `torch.optim`",
        text: "`new` takes the learning rate; the builder takes all other arguments and ends in `build()?`. All have the \
               methods of the trait `Optimizer`.",
        holds: |n| {
            class(n, "optim.")
                || n.starts_with("optim.Optimizer.")
                || n.starts_with("optim.swa_utils.")
        },
    },
    Section {
        title: "Schedulers: `torch.optim.lr_scheduler`",
        text: "An optimizer is passed by reference.",
        holds: |n| n.starts_with("optim.lr_scheduler."),
    },
    Section {
        title: "Mixed precision: `torch.amp`",
        text: "",
        holds: |n| n.starts_with("amp."),
    },
    Section {
        title: "Autograd",
        text: "",
        holds: |n| n.starts_with("autograd.") || n.starts_with("utils.checkpoint."),
    },
    Section {
        title: "Data: `torch.utils.data`",
        text: "",
        holds: |n| n.starts_with("utils.data."),
    },
    Section {
        title: "Random numbers",
        text: "",
        holds: |n| n.starts_with("Generator."),
    },
];

/// Names that the tables of operators have.
fn is_op(name: &str) -> bool {
    let plain = name.strip_prefix("Tensor.").unwrap_or(name);
    ops::find(plain).is_some()
}

/// The page, and what is wrong with it.
pub fn page(api: &Api, prelude: &str) -> (String, Vec<String>) {
    let all = names::torch();
    let mut wrong = Vec::new();
    let mut lost = Vec::new();
    let mut paths = BTreeSet::new();
    let mut rows: Vec<String> = vec![String::new(); SECTIONS.len()];
    let mut more = String::new();
    for (name, parameters) in &all {
        let Some(found) = names::find(api, prelude, name) else {
            if is_op(name) {
                wrong.push(format!(
                    "{name} is an operator, and the page calls it missing"
                ));
            }
            lost.push(name.clone());
            continue;
        };
        paths.extend(found.path.iter().filter(|p| p.contains("::")).cloned());
        let other = match found.other.is_empty() {
            true => "-",
            false => found.other.as_str(),
        };
        let row = format!(
            "| {} | {} | {other} |\n",
            names::left(name, parameters),
            found.form
        );
        match SECTIONS.iter().position(|s| (s.holds)(name)) {
            Some(i) => rows[i].push_str(&row),
            // Methods that are functions too are told once, and in-place ones with the others.
            None if is_op(name) || name.ends_with('_') && is_op(name.trim_end_matches('_')) => {}
            None if name.starts_with("nn.functional.") => {}
            None => {
                let function = name.strip_prefix("Tensor.");
                if function.is_none_or(|f| !all.iter().any(|(n, _)| n == f)) {
                    more.push_str(&row);
                }
            }
        }
    }

    let mut out = String::from(HEAD);
    out.push_str(
        "## How to read the tables\n\nThe columns of the operator tables are PyTorch's call, the method, the function in `F::`, \
         the in-place method, and the optional arguments. `x` is the tensor; for `embedding` and \
         `embedding_bag`, it is the weight. The names after the colon are setters of the options struct, as in \
         `AddOptions::new().alpha(2)`. The structs are `F::AddOptions` or `torsh::AddOptions`. Binary operators \
         also take numbers (`x.add(1.0)?`), and have aliases such as `add_scalar`. `OPERATORS.md` in the repository \
         lists the dtypes and derivatives.\n\n",
    );
    let (tables, formless) = operators::tables(api);
    out.push_str(&tables);
    wrong.extend(formless.iter().map(|n| {
        format!("the operator {n} has neither a method nor a function, or is in no table")
    }));
    out.push_str("## Names for the same operator\n\n");
    out.push_str(&operators::aliases(&all));
    out.push_str("\n## Other functions and methods of tensors\n\n");
    out.push_str("| PyTorch | ToRSh | other arguments |\n|---|---|---|\n");
    out.push_str(&more);
    for (section, rows) in SECTIONS.iter().zip(&rows) {
        let _ = writeln!(out, "\n## {}\n", section.title);
        if !section.text.is_empty() {
            let _ = writeln!(out, "{}\n", section.text);
        }
        out.push_str("| PyTorch | ToRSh | other arguments |\n|---|---|---|\n");
        out.push_str(rows);
    }
    out.push_str("\n## Files and training\n\n");
    out.push_str(
        "In Python, other packages provide some of these.\n\n| Python | ToRSh |\n|---|---|\n",
    );
    for line in TRAINING.lines().filter(|l| !l.starts_with('#')) {
        if let Some((left, right)) = line.split_once('\t') {
            let _ = writeln!(out, "| {left} | {right} |");
        }
    }
    out.push('\n');
    out.push_str(&imports(&paths));
    out.push_str(&missing::section(&lost, all.len()));

    let by_hand = names::equivalents()
        .into_iter()
        .chain(TRAINING.lines().filter_map(|l| l.split_once('\t')));
    for (name, form) in by_hand.clone() {
        for word in names::words(form) {
            if !api.knows(&word) && !OUTSIDE.contains(&word.as_str()) {
                wrong.push(format!("{name}: ToRSh has no `{word}`"));
            }
        }
    }
    for (name, form) in by_hand {
        for (function, arguments) in names::arities(form) {
            if !api.takes(&function, arguments) {
                wrong.push(format!(
                    "{name}: no `{function}` of ToRSh takes {arguments} arguments"
                ));
            }
        }
    }
    for name in layers_with_cases() {
        if names::find(api, prelude, &format!("nn.{name}")).is_none() {
            wrong.push(format!("the layer {name} has golden cases and no row"));
        }
    }
    (out, wrong)
}

/// Words of forms that are Rust's, or the crate's own name.
const OUTSIDE: &[&str] = &[
    "torsh",
    "size",
    "F",
    "device",
    "x",
    "f32",
    "serialize",
    "train",
    "data",
    "optim",
    "utils",
    "autograd",
    "metrics",
    "profiler",
    "debug",
    "nn",
];

/// The layers that golden cases run.
fn layers_with_cases() -> Vec<String> {
    let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/modules.zip");
    Source::open(&archive)
        .and_then(|s| s.list("modules"))
        .unwrap_or_default()
}

/// What a program names that the prelude does not bring, as a block that is compiled.
fn imports(paths: &BTreeSet<String>) -> String {
    let mut out = String::from(
        "## What the prelude does not bring\n\nThe prelude has the operators, the layers and what most programs use. \
         The rest of this page is behind these paths:\n\n```rust\n# #![allow(unused_imports)]\n",
    );
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for path in paths {
        let Some((home, name)) = path.rsplit_once("::") else {
            continue;
        };
        // Modules of the prelude need no path of their own.
        let home = match home.starts_with("torsh") {
            true => home.to_string(),
            false if forms::NN_MODULES.contains(&home.split("::").next().unwrap_or(home)) => {
                format!("torsh::nn::{home}")
            }
            false => format!("torsh::{home}"),
        };
        match groups.iter_mut().find(|(h, _)| *h == home) {
            Some((_, list)) => list.push(name),
            None => groups.push((home, vec![name])),
        }
    }
    out.push_str("use torsh::prelude::*;\n");
    for (home, list) in &groups {
        let mut line = format!("use {home}::{{");
        for (i, name) in list.iter().enumerate() {
            if line.len() + name.len() > 100 {
                out.push_str(line.trim_end());
                out.push('\n');
                line = "    ".to_string();
            }
            line.push_str(name);
            line.push_str(if i + 1 < list.len() { ", " } else { "};" });
        }
        out.push_str(&line);
        out.push('\n');
    }
    out.push_str(
        "\nassert_eq!(SequentialSampler::new(3).indices()?, [0, 1, 2]);\n# Ok::<(), torsh::TorshError>(())\n```\n\n",
    );
    out
}
