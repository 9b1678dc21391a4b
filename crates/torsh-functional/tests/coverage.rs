//! Every op that is called by name has a function.

use std::collections::HashSet;
use std::path::Path;

/// Names without a function here, and why.
const EXEMPT: &[(&[&str], &str)] = &[
    (
        &[
            "arange",
            "empty",
            "eye",
            "full",
            "linspace",
            "logspace",
            "ones",
            "zeros",
            "scalar_tensor",
            "tril_indices",
            "triu_indices",
            "rand",
            "randn",
            "randint",
            "randperm",
            "normal",
            "full_like",
            "zeros_like",
            "ones_like",
            "empty_like",
            "range",
            "empty_strided",
            "empty_permuted",
            "bartlett_window",
            "blackman_window",
            "hamming_window",
            "hann_window",
            "kaiser_window",
            "rand_like",
            "randn_like",
            "randint_like",
        ],
        "creation: free functions of the prelude and associated functions of Tensor",
    ),
    (
        &[
            "to",
            "__getitem__",
            "item",
            "new_empty",
            "new_empty_strided",
            "new_full",
            "new_ones",
            "new_zeros",
        ],
        "methods of Tensor (to_dtype, i, item)",
    ),
    (
        &["promote_types", "can_cast", "broadcast_shapes"],
        "free functions of dtypes and shapes",
    ),
    (
        &[
            "masked_scatter_backward",
            "embedding_dense_backward",
            "max_pool2d_with_indices_backward",
        ],
        "parts of derivatives",
    ),
];

/// The functions of this crate: those of methods, those of the tables of aliases and rows, and those that its sources
/// write out.
fn functions() -> HashSet<String> {
    let made = torsh_tensor::functional::NAMES.iter().copied().flatten();
    let made = made.chain(torsh_functional::ALIASES);
    let rows = torsh_functional::UNARY.iter();
    let rows = rows.chain(torsh_functional::BINARY);
    let mut names: HashSet<String> = made.chain(rows).map(|s| s.to_string()).collect();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for entry in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let name = |s: &str| {
            s.chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect::<String>()
        };
        let written = text.lines().filter_map(|l| l.strip_prefix("pub fn "));
        names.extend(written.map(name));
        // Rows of macros whose functions have their own documentation.
        let rows = text.lines().filter_map(|l| l.strip_prefix("    "));
        let alone = |l: &&str| !l.is_empty() && (name(l) == **l || l.contains(" \""));
        names.extend(rows.filter(alone).map(name));
    }
    names
}

#[test]
fn every_op_has_a_function() {
    let functions = functions();
    let exempt: HashSet<&str> = EXEMPT
        .iter()
        .flat_map(|(names, _)| names.iter().copied())
        .collect();
    let missing: Vec<&str> = torsh_tensor::ops::names()
        .into_iter()
        .filter(|name| {
            let function = name
                .strip_prefix("nn.functional.")
                .or(name.strip_prefix("special."))
                .unwrap_or(name);
            // In-place ops are methods only, names with a leading underscore internal, and those of
            // torch.linalg, torch.fft, torch.signal and torch.masked belong to modules of those names.
            let other = ["linalg.", "fft.", "signal.", "masked."]
                .iter()
                .any(|m| function.starts_with(m))
                || function.ends_with('_')
                || function.starts_with('_')
                || exempt.contains(function);
            !other && !functions.contains(function) && !functions.contains(&format!("{function}_"))
        })
        .collect();
    assert!(missing.is_empty(), "no F:: function for {missing:?}");
}

#[test]
fn no_exemption_is_stale() {
    let functions = functions();
    for (names, why) in EXEMPT {
        for name in *names {
            assert!(
                !functions.contains(*name),
                "{name} has a function and is exempt ({why})"
            );
        }
    }
}
