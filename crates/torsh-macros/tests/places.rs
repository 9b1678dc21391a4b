//! Every public function of the library that can fail names its caller in its errors: it has the attribute
//! `names_caller`, or it is `#[track_caller]` and does nothing but call one that does. The sources are read as tokens, with
//! the bodies of their macros, so that none is forgotten. `crates/torsh/tests/places` makes such functions fail.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// What a function may end in that names the caller by itself.
const NAMING: [&str; 9] = [
    "call",
    "call1",
    "call_inplace",
    "call_views",
    "composite",
    "within",
    "run",
    "at_caller",
    "becomes",
];

/// Files whose functions a program does not call on their own, and why.
const FILES: [(&str, &str); 17] = [
    (
        "torsh-tensor/src/node/context.rs",
        "formulas of derivatives read these; backward names its caller",
    ),
    (
        "torsh-tensor/src/record.rs",
        "rules of shapes read these; the dispatcher names the call",
    ),
    (
        "torsh-tensor/src/call/",
        "the dispatcher itself, and what definitions of ops read",
    ),
    (
        "torsh-tensor/src/schema.rs",
        "calls by name read these; ops::call names its caller",
    ),
    (
        "torsh-tensor/src/literal.rs",
        "the macro tensor! calls these; it panics on its own line",
    ),
    ("torsh-tensor/src/sample.rs", "operands of tests"),
    (
        "torsh-tensor/src/attrs.rs",
        "ops read these; the dispatcher names the call",
    ),
    (
        "torsh-tensor/src/ops/into_index.rs",
        "conversions of arguments; what takes them names its caller",
    ),
    (
        "torsh-tensor/src/ops/grids.rs",
        "conversions of arguments; what takes them names its caller",
    ),
    (
        "torsh-tensor/src/check.rs",
        "checks of ops; the op names its caller",
    ),
    (
        "torsh-tensor/src/named.rs",
        "checks of arguments; what takes them names its caller",
    ),
    ("torsh-tensor/src/raw.rs", "the crate's own"),
    (
        "torsh-linalg/src/kernels/",
        "kernels; the dispatcher names the call",
    ),
    (
        "torsh-distributed/src/comm",
        "the engine of collectives; a collective names its caller",
    ),
    (
        "torsh-distributed/src/pipeline/exchange.rs",
        "what stages send each other; the step of the pipeline names its caller",
    ),
    (
        "torsh-distributed/src/launch/keep.rs",
        "what the launcher does for a rank",
    ),
    (
        "torsh-distributed/src/engine",
        "the engine of collectives; a collective names its caller",
    ),
];

/// Traits whose methods the library calls and a program may implement: with `#[track_caller]` on a default method, the
/// errors of a program's own method would lose their line.
const TRAITS: [&str; 18] = [
    "Algorithm",
    "Argument",
    "AsProcessGroup",
    "Collate",
    "CustomBackward",
    "Datasets",
    "Fetch",
    "IntoIndex",
    "IntoIndexItem",
    "IntoLengths",
    "IntoRepo",
    "IntoShape",
    "Lengths",
    "Options",
    "Pieces",
    "Policy",
    "Tensors",
    "ToDevice",
];

struct Function {
    file: String,
    name: String,
    /// The trait whose declaration or implementation it is in.
    of: Option<String>,
    /// Whether it is a default method.
    declared: bool,
    /// Whether it has `self`.
    method: bool,
    public: bool,
    attributes: String,
    body: Option<Vec<TokenTree>>,
}

fn trees(tokens: TokenStream) -> Vec<TokenTree> {
    tokens.into_iter().collect()
}

fn is_punct(t: Option<&TokenTree>, c: char) -> bool {
    matches!(t, Some(TokenTree::Punct(p)) if p.as_char() == c)
}

fn is_ident(t: Option<&TokenTree>, name: &str) -> bool {
    matches!(t, Some(TokenTree::Ident(i)) if i == name)
}

fn is_group(t: Option<&TokenTree>, delimiter: Delimiter) -> bool {
    matches!(t, Some(TokenTree::Group(g)) if g.delimiter() == delimiter)
}

fn inner(t: Option<&TokenTree>) -> Vec<TokenTree> {
    match t {
        Some(TokenTree::Group(g)) => trees(g.stream()),
        _ => Vec::new(),
    }
}

/// The attributes ahead of an item, as text, and whether it is public.
fn ahead(tokens: &[TokenTree], mut at: usize) -> (String, bool) {
    let (mut text, mut public) = (String::new(), false);
    while let Some(before) = at.checked_sub(1) {
        let t = tokens.get(before);
        let second = |c| {
            before
                .checked_sub(1)
                .is_some_and(|i| is_punct(tokens.get(i), c))
        };
        if ["const", "unsafe", "async", "extern"]
            .iter()
            .any(|w| is_ident(t, w))
        {
            at -= 1;
        } else if is_ident(t, "pub") {
            (public, at) = (true, before);
        } else if is_group(t, Delimiter::Parenthesis)
            && before > 0
            && is_ident(tokens.get(before - 1), "pub")
        {
            // `pub(crate)` is not public.
            return (text + &ahead(tokens, before - 1).0, false);
        } else if is_group(t, Delimiter::Bracket) && second('#') {
            text += &t.map(ToString::to_string).unwrap_or_default();
            at -= 2;
        } else if (is_punct(t, '*') || is_punct(t, '?'))
            && before > 1
            && is_punct(tokens.get(before - 2), '$')
        {
            // `$(#[..])*` in a macro's body.
            at -= 3;
        } else {
            break;
        }
    }
    (text, public)
}

/// Position of the first token from `at` on, outside of angle brackets, for which `is` holds.
fn find(tokens: &[TokenTree], mut at: usize, is: impl Fn(&TokenTree) -> bool) -> Option<usize> {
    let mut depth = 0_i32;
    while let Some(t) = tokens.get(at) {
        if depth <= 0 && is(t) {
            return Some(at);
        }
        let arrow = at.checked_sub(1).and_then(|i| tokens.get(i));
        let arrow = is_punct(arrow, '-') || is_punct(arrow, '=');
        depth += i32::from(is_punct(Some(t), '<'));
        depth -= i32::from(is_punct(Some(t), '>') && !arrow);
        at += 1;
    }
    None
}

/// Whether a returned type is the library's `Result`.
fn is_result(returned: &[TokenTree]) -> bool {
    let Some(end) = returned.iter().position(|t| is_ident(Some(t), "Result")) else {
        return false;
    };
    const PATHS: [&str; 4] = ["torsh_core", "torsh_tensor", "crate", "super"];
    let ours = returned[..end].iter().all(|t| match t {
        TokenTree::Ident(i) => PATHS.contains(&i.to_string().as_str()),
        t => is_punct(Some(t), ':') || is_punct(Some(t), '$'),
    });
    // A second type must be the library's error.
    let types = returned.get(end + 2..).unwrap_or_default();
    let comma = find(types, 0, |t| is_punct(Some(t), ','));
    ours && comma.is_none_or(|c| {
        let second = types.get(c + 1);
        is_punct(second, '>') || is_ident(second, "TorshError")
    })
}

/// The trait of an `impl`, the last name outside of angle brackets ahead of `for`.
fn implemented(header: &[TokenTree]) -> Option<String> {
    let end = find(header, 1, |t| is_ident(Some(t), "for"))?;
    let (mut last, mut from) = (None, 1);
    while let Some(i) = find(&header[..end], from, |t| matches!(t, TokenTree::Ident(_))) {
        last = Some(header[i].to_string());
        from = i + 1;
    }
    last
}

/// The functions among these tokens, which are an implementation or declaration of the trait `of`.
fn walk(file: &str, tokens: &[TokenTree], of: Option<(&str, bool)>, all: &mut Vec<Function>) {
    let mut at = 0;
    while let Some(t) = tokens.get(at) {
        let braces = |from| find(tokens, from, |t| is_group(Some(t), Delimiter::Brace));
        if is_ident(Some(t), "impl") || is_ident(Some(t), "trait") {
            let declared = is_ident(Some(t), "trait");
            let end = braces(at).unwrap_or(at);
            let header = &tokens[at..end];
            // A type `impl Trait` is no item.
            if header.is_empty() || header.iter().any(|t| is_punct(Some(t), ';')) {
                at += 1;
                continue;
            }
            let of = match (declared, ahead(tokens, at).1) {
                (true, true) => header.get(1).map(ToString::to_string),
                (true, false) => Some(String::new()),
                (false, _) => implemented(header),
            };
            let of = of.as_deref().map(|of| (of, declared));
            walk(file, &inner(tokens.get(end)), of, all);
            at = end + 1;
        } else if is_ident(Some(t), "mod") && is_group(tokens.get(at + 2), Delimiter::Brace) {
            let ahead = ahead(tokens, at).0.replace(' ', "");
            if !ahead.contains("cfg(test)") && !ahead.contains("unit-tests") {
                walk(file, &inner(tokens.get(at + 2)), None, all);
            }
            at += 3;
        } else if is_ident(Some(t), "fn") {
            let dollar = usize::from(is_punct(tokens.get(at + 1), '$'));
            let from = at + 2 + dollar;
            let ends =
                |t: &TokenTree| is_punct(Some(t), ';') || is_group(Some(t), Delimiter::Brace);
            let params = find(tokens, from, |t| is_group(Some(t), Delimiter::Parenthesis));
            let (Some(params), Some(end)) = (params, find(tokens, from, ends)) else {
                at += 1;
                continue;
            };
            let mut returned = tokens.get(params + 3..end).unwrap_or_default();
            if let Some(stop) = returned.iter().position(|t| is_ident(Some(t), "where")) {
                returned = &returned[..stop];
            }
            if params < end && is_punct(tokens.get(params + 1), '-') && is_result(returned) {
                let (attributes, public) = ahead(tokens, at);
                let is_brace = is_group(tokens.get(end), Delimiter::Brace);
                all.push(Function {
                    file: file.to_string(),
                    name: tokens[from - 1].to_string(),
                    of: of.map(|of| of.0.to_string()),
                    declared: of.is_some_and(|of| of.1),
                    method: inner(tokens.get(params))
                        .iter()
                        .take(4)
                        .any(|t| is_ident(Some(t), "self")),
                    public: public || of.is_some(),
                    attributes,
                    body: is_brace.then(|| inner(tokens.get(end))),
                });
            }
            at = end + 1;
        } else {
            if matches!(t, TokenTree::Group(_)) {
                walk(file, &inner(Some(t)), of, all);
            }
            at += 1;
        }
    }
}

fn any(tokens: &[TokenTree], is: &dyn Fn(&TokenTree) -> bool) -> bool {
    tokens.iter().any(|t| is(t) || any(&inner(Some(t)), is))
}

/// Whether a body is one call of a function that names its caller, by its name and whether it is a method.
fn only_calls(body: &[TokenTree], named: &HashSet<(String, bool)>) -> bool {
    let more = |t: &TokenTree| match t {
        TokenTree::Punct(p) => "?|;".contains(p.as_char()),
        t => is_group(Some(t), Delimiter::Brace),
    };
    if any(body, &more) {
        return false;
    }
    let [before @ .., arguments] = body else {
        return false;
    };
    // Behind the name there may be types: `load::<T>(..)`.
    let before = match is_punct(before.last(), '>') {
        true => {
            let open = before.iter().position(|t| is_punct(Some(t), '<'));
            &before[..open.unwrap_or(0)]
        }
        false => before,
    };
    let name = before
        .iter()
        .rposition(|t| matches!(t, TokenTree::Ident(_)));
    let Some(name) = name.filter(|_| is_group(Some(arguments), Delimiter::Parenthesis)) else {
        return false;
    };
    let ahead = name.checked_sub(1).and_then(|i| before.get(i));
    let (of_macro, method) = (is_punct(ahead, '$'), is_punct(ahead, '.'));
    let name = before[name].to_string();
    let naming = NAMING.contains(&name.as_str()) || name == "Ok";
    of_macro || naming || named.contains(&(name, method))
}

fn sources(folder: &Path, all: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|n| n.to_str());
        let name = name.unwrap_or_default();
        if path.is_dir() && !["tests", "bin"].contains(&name) {
            sources(&path, all);
        } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
            all.push(path);
        }
    }
}

/// The facade and the crates that it shows, but those of kernels, and the planner, which `torsh-distributed` shows.
fn crates_of_facade() -> Vec<String> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../torsh/Cargo.toml");
    let manifest = fs::read_to_string(manifest).expect("the facade's manifest");
    let dependencies = manifest
        .split("[dependencies]")
        .nth(1)
        .expect("dependencies");
    let lines = dependencies.lines().take_while(|l| !l.starts_with('['));
    let names = lines.filter_map(|l| l.split(['.', ' ']).next());
    let names =
        names.filter(|n| n.starts_with("torsh-") && !["torsh-core", "torsh-backend"].contains(n));
    let all: Vec<String> = names
        .chain(["torsh", "torsh-planner"])
        .map(String::from)
        .collect();
    assert!(all.iter().any(|n| n == "torsh-vision"), "{all:?}");
    all
}

#[test]
fn errors_of_all_public_functions_name_the_caller() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (mut all, mut traits) = (Vec::new(), HashSet::new());
    for name in crates_of_facade() {
        let mut files = Vec::new();
        sources(&crates.join(name).join("src"), &mut files);
        for path in files {
            let text = fs::read_to_string(&path).expect("a source");
            let public = text
                .lines()
                .filter_map(|l| l.trim().strip_prefix("pub trait "));
            traits.extend(public.filter_map(|l| l.split([':', '<', ' ']).next().map(String::from)));
            let tokens: TokenStream = text.parse().expect("tokens");
            let file = path.strip_prefix(&crates).expect("a path below");
            let file = file.display().to_string().replace('\\', "/");
            walk(&file, &trees(tokens), None, &mut all);
        }
    }
    let of_public = |f: &&Function| f.of.as_ref().is_none_or(|of| traits.contains(of));
    let shown = all.iter().filter(|f| f.public && f.body.is_some());
    let shown: Vec<&Function> = shown.filter(of_public).collect();
    let name = |f: &Function| (f.name.clone(), f.method);
    let mut named: HashSet<_> = shown.iter().map(|f| name(f)).collect();
    // A function of the same name that is not public, and may be the one that is called.
    let private = all.iter().filter(|f| !f.public && f.body.is_some());
    for f in private.filter(|f| !f.attributes.contains("names_caller")) {
        named.remove(&name(f));
    }
    let (mut wrapped, mut direct, mut others) = (0, 0, Vec::new());
    for f in &shown {
        let body = f.body.as_deref().unwrap_or_default();
        let excepted = FILES.iter().any(|(file, _)| f.file.starts_with(file))
            || f.of.as_deref().is_some_and(|of| TRAITS.contains(&of));
        if f.attributes.contains("names_caller") {
            wrapped += 1;
        } else if f.attributes.contains("track_caller") && only_calls(body, &named) {
            direct += 1;
        } else if !excepted && !f.declared {
            others.push(format!("{} in {}", f.name, f.file));
        }
    }
    println!("{wrapped} have the attribute, {direct} call one that has");
    assert!(
        wrapped > 1500 && direct > 250,
        "{wrapped} and {direct}: were the sources read?"
    );
    // A free function is made with `#[track_caller]` and calls its method.
    let marked = |f: &&&Function| f.attributes.contains("[function");
    let marked: Vec<&&Function> = shown.iter().filter(marked).collect();
    assert!(marked.len() > 300, "{}: were the marks read?", marked.len());
    let tells = |f: &Function| {
        ["names_caller", "track_caller"]
            .iter()
            .any(|word| f.attributes.contains(word))
    };
    let silent = marked.iter().filter(|f| !tells(f));
    let silent: Vec<&str> = silent.map(|f| f.name.as_str()).collect();
    assert!(
        silent.is_empty(),
        "#[function] without names_caller or track_caller: {silent:?}"
    );
    others.sort();
    assert!(
        others.is_empty(),
        "the errors of {} public functions may name a line of the library; give them #[torsh_tensor::names_caller]:\n{}",
        others.len(),
        others.join("\n")
    );
}
