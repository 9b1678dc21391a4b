//! The names of PyTorch that ToRSh lacks, by family.

use std::collections::BTreeSet;
use std::fmt::Write as _;

/// A family: its title, why its names are missing, and which names belong to it. The first that holds a name has it.
type Family = (&'static str, &'static str, fn(&str, &str) -> bool);

fn any(last: &str, names: &[&str]) -> bool {
    names.contains(&last)
}

/// Whether a piece of a name is one of these.
fn piece(last: &str, pieces: &[&str]) -> bool {
    pieces.iter().any(|p| last.contains(p))
}

const FAMILIES: &[Family] = &[
    (
        "Quantization",
        "Numbers of 8 bits with a scale are no dtype yet; `fake_quantize_*` imitate them.",
        |_, l| {
            piece(
                l,
                &["quant", "q_per", "q_scale", "q_zero", "qscheme", "int_repr"],
            )
        },
    ),
    (
        "Sparse tensors",
        "The layouts are there; these names are not.",
        |n, l| {
            piece(
                l,
                &[
                    "sparse",
                    "coalesce",
                    "crow_indices",
                    "col_indices",
                    "smm",
                    "sspaddmm",
                    "spmm",
                    "SparseAdam",
                ],
            ) || any(
                l,
                &[
                    "values",
                    "indices",
                    "dense_dim",
                    "to_dense",
                    "values_copy",
                    "indices_copy",
                ],
            ) || n == "Tensor.to_padded_tensor"
        },
    ),
    ("Fourier transforms and windows", "", |n, l| {
        n.starts_with("fft.") || l.ends_with("_window") || any(l, &["stft", "istft"])
    }),
    ("Linear algebra", "", |n, l| {
        n.starts_with("linalg.")
            || l.starts_with("lu_")
            || piece(
                l,
                &["cholesky", "svd", "matrix_", "triangular", "lowrank", "qr"],
            )
            || any(
                l,
                &[
                    "det",
                    "logdet",
                    "slogdet",
                    "inverse",
                    "pinverse",
                    "lobpcg",
                    "lu",
                    "geqrf",
                    "chain_matmul",
                    "kron",
                    "block_diag",
                    "vander",
                    "cdist",
                    "pdist",
                    "renorm",
                    "renorm_",
                ],
            )
    }),
    ("Special functions", "", |n, l| {
        n.starts_with("special.")
            || any(
                l.trim_end_matches('_'),
                &[
                    "i0",
                    "igamma",
                    "igammac",
                    "polygamma",
                    "mvlgamma",
                    "ldexp",
                    "frexp",
                ],
            )
    }),
    (
        "Other devices, several machines",
        "They ask for GPUs, or share memory with a foreign library or other processes. The threads of a program share the \
         memory of tensors as it is, and ranks exchange tensors by `torsh-distributed`, so there is nothing that `share_memory_` would do.",
        |n, l| {
            any(
                l,
                &[
                    "cuda",
                    "xpu",
                    "ipu",
                    "mtia",
                    "pin_memory",
                    "is_pinned",
                    "record_stream",
                    "get_device",
                    "get_device_module",
                    "share_memory",
                    "share_memory_",
                    "is_shared",
                    "to_mkldnn",
                    "DataParallel",
                    "SyncBatchNorm",
                    "from_dlpack",
                    "to_dlpack",
                    "set_default_device",
                    "get_default_device",
                ],
            ) || n.starts_with("Tensor.is_")
                && any(l, &["is_cuda", "is_xla", "is_xpu", "is_ipu", "is_mps"])
        },
    ),
    (
        "Compilation and transforms",
        "Graphs are not captured yet.",
        |_, l| {
            any(
                l,
                &[
                    "compile",
                    "compiled_with_cxx11_abi",
                    "vmap",
                    "cond",
                    "while_loop",
                    "fork",
                    "wait",
                ],
            )
        },
    ),
    (
        "Hooks",
        "`register_full_backward_hook`, which is there, has taken its place in PyTorch: the old hook gives wrong gradients for modules of several operations.",
        |_, l| piece(l, &["_hook"]),
    ),
    ("Modules", "They belong to Python's modules.", |n, _| {
        n.starts_with("nn.Module.")
    }),
    (
        "Layers, initialisation and their helpers",
        "Base classes of Python's layers, and the order of an image's memory, which is always that of its dimensions.",
        |n, _| n.starts_with("nn.") && !n.starts_with("nn.functional."),
    ),
    (
        "Optimizers, scalers, generators",
        "They belong to CUDA graphs or to Python's decorators.",
        |n, _| n.starts_with("optim.") || n.starts_with("amp.") || n.starts_with("Generator."),
    ),
    (
        "Autograd",
        "They belong to Python's classes, or to the threads of PyTorch's own engine.",
        |n, _| n.starts_with("autograd."),
    ),
    (
        "Data loading",
        "Python's data pipes, which PyTorch itself no longer develops.",
        |n, _| n.starts_with("utils."),
    ),
    (
        "Functions of `torch.nn.functional`",
        "They take numbers of 8 bits with a scale: see quantization.",
        |n, l| n.starts_with("nn.functional.") && !l.ends_with('_'),
    ),
    ("Copies of views, and their inverses", "", |_, l| {
        l.ends_with("_copy") || piece(l, &["_scatter"]) || l.starts_with("unsafe_")
    }),
    (
        "Forms that write in place",
        "`scaled_addmm_` takes numbers of 8 bits with a scale: see quantization.",
        |_, l| l.ends_with('_'),
    ),
    (
        "Switches of the whole program",
        "They choose the precision of GPUs' products, or govern Python's warnings. `set_flush_denormal` changes the \
         processor's floating-point mode, which Rust does not allow.",
        |n, l| {
            !n.contains('.')
                && (piece(l, &["determin", "set_", "get_", "_enabled", "num_threads"])
                    || l == "init_num_threads")
        },
    ),
    (
        "Other functions and methods of tensors",
        "They expose the storage behind a tensor or belong to Python's objects; `hash_tensor` has a dtype, uint64, that ToRSh lacks.",
        |_, _| true,
    ),
];

/// The names that are not there, by family.
pub fn families(missing: &[String]) -> Vec<(&'static str, BTreeSet<String>)> {
    let mut out: Vec<(&str, BTreeSet<String>)> = FAMILIES
        .iter()
        .map(|(t, ..)| (*t, BTreeSet::new()))
        .collect();
    for name in missing {
        // A method that is also a function is told once, as the function.
        if let Some(method) = name.strip_prefix("Tensor.")
            && missing.iter().any(|m| m == method)
        {
            continue;
        }
        let last = name.rsplit('.').next().unwrap_or(name);
        let at = FAMILIES.iter().position(|(_, _, holds)| holds(name, last));
        if let Some(family) = at.and_then(|i| out.get_mut(i)) {
            family.1.insert(name.clone());
        }
    }
    out.retain(|(_, names)| !names.is_empty());
    out
}

/// The section, as Markdown.
pub fn section(missing: &[String], of: usize) -> String {
    let families = families(missing);
    let count: usize = families.iter().map(|(_, n)| n.len()).sum();
    let mut out = format!(
        "## What is not there\n\nPyTorch 2.15 documents {of} names in the namespaces of this page. ToRSh does not have {count} of \
         them yet (a method that is also a function counts once). The use of a missing name is a compile \
         error; a call by name returns an error. None of them is a stub.\n\n",
    );
    for (title, names) in families {
        let names: Vec<_> = names.iter().map(|n| format!("`{n}`")).collect();
        let why = FAMILIES.iter().find(|(t, ..)| *t == title);
        let why = why.map_or("", |(_, why, _)| *why);
        let _ = writeln!(
            out,
            "**{title}** ({}). {why}{}{}.\n",
            names.len(),
            if why.is_empty() { "" } else { " " },
            names.join(", ")
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call by name of what the book calls missing is an error, as the book says.
    #[test]
    fn the_names_of_the_book_are_no_operators() {
        let page = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../docs/pytorch-to-torsh.md"
        );
        let page = std::fs::read_to_string(page).unwrap();
        let (_, section) = page.split_once("\n## What is not there\n").unwrap();
        let families = section.lines().filter(|l| l.starts_with("**"));
        // The reason ends ahead of the names.
        let lists = families.filter_map(|l| l.rsplit(". ").next());
        let names: Vec<&str> = lists
            .flat_map(|l| l.split('`').skip(1).step_by(2))
            .collect();
        assert!(names.len() > 20, "{names:?}");
        for name in names {
            let plain = name.strip_prefix("Tensor.").unwrap_or(name);
            for name in [name, plain] {
                assert!(torsh_tensor::ops::find(name).is_none(), "{name}");
                assert!(torsh_tensor::ops::call(name, &[], &[]).is_err(), "{name}");
            }
        }
    }

    #[test]
    fn each_name_is_in_one_family() {
        let missing = [
            "linalg.svd",
            "svd",
            "Tensor.svd",
            "relu_",
            "Tensor.kron",
            "quantize_per_tensor",
            "histc",
        ]
        .map(str::to_string);
        let families = families(&missing);
        let of = |title: &str| {
            let found = families.iter().find(|(t, _)| *t == title);
            found.map(|(_, n)| n.iter().map(String::as_str).collect::<Vec<_>>())
        };
        assert_eq!(
            of("Linear algebra").unwrap(),
            ["Tensor.kron", "linalg.svd", "svd"]
        );
        assert_eq!(of("Forms that write in place").unwrap(), ["relu_"]);
        assert_eq!(of("Quantization").unwrap(), ["quantize_per_tensor"]);
        assert_eq!(
            of("Other functions and methods of tensors").unwrap(),
            ["histc"]
        );
        let text = section(&missing, 10);
        assert!(
            text.contains("documents 10 names") && text.contains("does not have 6 of"),
            "{text}"
        );
    }
}
