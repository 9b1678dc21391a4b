//! The public names of the crates and their signatures, read from rustdoc's pages.

use std::collections::BTreeMap;
use std::path::Path;

/// A function's parameters and what it returns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signature {
    /// Whether it takes `self`.
    pub method: bool,
    /// Names and types, without `self`.
    pub params: Vec<(String, String)>,
    /// The return type; empty for none.
    pub returns: String,
}

impl Signature {
    /// Reads `pub fn add<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor>`.
    pub fn parse(text: &str) -> Option<Signature> {
        let rest = text.split_once("fn ")?.1;
        let mut parts = split(rest, '(')?;
        let inner = std::mem::take(&mut parts.1);
        let mut out = Signature::default();
        for part in top_level(&inner) {
            let part = part.trim();
            match part.split_once(':') {
                _ if part
                    .trim_start_matches("mut ")
                    .trim_start_matches('&')
                    .ends_with("self") =>
                {
                    out.method = true;
                }
                Some((name, ty)) => {
                    let name = name.trim().trim_start_matches("mut ").to_string();
                    out.params.push((name, ty.trim().to_string()));
                }
                None => {}
            }
        }
        let after = parts.2.trim();
        if let Some(ty) = after.strip_prefix("->") {
            let end = ty.find("where").unwrap_or(ty.len());
            out.returns = ty[..end]
                .trim()
                .trim_end_matches([';', '{', ' '])
                .to_string();
        }
        Some(out)
    }

    /// Whether a call ends in `?`.
    pub fn fails(&self) -> bool {
        self.returns.starts_with("Result<")
    }

    /// The names of the parameters between commas.
    pub fn names(&self) -> String {
        let names: Vec<_> = self.params.iter().map(|(n, _)| n.as_str()).collect();
        names.join(", ")
    }
}

/// What stands before the first `open` outside of angle brackets, in the parentheses, and after.
fn split(text: &str, open: char) -> Option<(String, String, String)> {
    let (mut angle, mut depth, mut start, mut last) = (0, 0, None, ' ');
    for (i, c) in text.char_indices() {
        match c {
            '<' if start.is_none() => angle += 1,
            '>' if start.is_none() && last != '-' => angle -= 1,
            c if c == open && angle == 0 => {
                start.get_or_insert(i);
                depth += 1;
            }
            '(' if start.is_some() => depth += 1,
            ')' if start.is_some() => {
                depth -= 1;
                if depth == 0 {
                    let s = start?;
                    return Some((
                        text[..s].to_string(),
                        text[s + 1..i].to_string(),
                        text[i + 1..].to_string(),
                    ));
                }
            }
            _ => {}
        }
        last = c;
    }
    None
}

/// The parts between commas outside of brackets.
fn top_level(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut out, mut last) = (0, 0, Vec::new(), ' ');
    for (i, c) in text.char_indices() {
        match c {
            '(' | '[' | '<' | '{' => depth += 1,
            '>' if last == '-' => {}
            ')' | ']' | '>' | '}' => depth -= 1,
            ',' if depth == 0 => {
                out.push(&text[start..i]);
                start = i + 1;
            }
            _ => {}
        }
        last = c;
    }
    out.push(&text[start..]);
    out.retain(|p| !p.trim().is_empty());
    out
}

/// A public item.
#[derive(Clone, Debug, Default)]
pub struct Item {
    /// `torsh_optim::lr_scheduler::StepLR`.
    pub path: String,
    /// `fn`, `struct`, `enum`, `trait`, `type`, `macro`, `constant`.
    pub kind: String,
    /// A function's.
    pub signature: Option<Signature>,
    /// The methods and associated functions of a type or trait.
    pub methods: BTreeMap<String, Signature>,
    /// The methods of the impls for one instance of a generic type, such as `Lazy<Conv2d>`, by the instance.
    pub instances: BTreeMap<String, BTreeMap<String, Signature>>,
    /// The variants of an enum, the fields of a struct; of an alias the name of its type.
    pub members: Vec<String>,
    /// What an alias stands for, such as `Lazy<Conv2d>`.
    pub target: String,
}

impl Item {
    /// The setters of a struct of options or a builder.
    pub fn setters(&self) -> Vec<&str> {
        if self.kind == "trait" {
            return Vec::new();
        }
        let is_setter =
            |s: &Signature| s.method && (s.returns == "Self" || s.returns.starts_with(self.name()));
        let setters = self.methods.iter().filter(|(_, s)| is_setter(s));
        setters.map(|(n, _)| n.as_str()).collect()
    }

    /// The last part of the path.
    pub fn name(&self) -> &str {
        self.path.rsplit("::").next().unwrap_or(&self.path)
    }
}

/// Every public item of the crates.
#[derive(Debug, Default)]
pub struct Api {
    items: BTreeMap<String, Item>,
}

/// The crates whose names the book tells.
pub const CRATES: [&str; 14] = [
    "torsh_core",
    "torsh_tensor",
    "torsh_functional",
    "torsh_nn",
    "torsh_optim",
    "torsh_data",
    "torsh_autograd",
    "torsh_serialize",
    "torsh_train",
    "torsh_profiler",
    "torsh_debug",
    "torsh_linalg",
    "torsh_sparse",
    "torsh",
];

/// Modules of the crate `torsh` that have all names of a crate of their own.
const AGAIN: [&str; 3] = ["train::", "hub::", "sparse::"];

impl Api {
    /// Reads the pages under a folder such as `target/doc`.
    ///
    /// # Errors
    /// Pages that are not there.
    pub fn read(docs: &Path) -> Result<Api, String> {
        let mut api = Api::default();
        for name in CRATES {
            let folder = docs.join(name);
            let text = |file: &str| {
                let path = folder.join(file);
                std::fs::read_to_string(&path).map_err(|e| {
                    format!(
                        "{}: {e}; run `cargo doc --workspace --no-deps` first",
                        path.display()
                    )
                })
            };
            for (kind, file, path) in listed(&text("all.html")?) {
                if name == "torsh" && AGAIN.iter().any(|m| path.starts_with(m)) {
                    continue;
                }
                let item = Item::parse(&kind, &format!("{name}::{path}"), &text(&file)?);
                api.items.insert(item.path.clone(), item);
            }
        }
        api.resolve_aliases();
        Ok(api)
    }

    /// An api of these items.
    #[cfg(test)]
    pub(crate) fn of(items: Vec<Item>) -> Api {
        let mut api = Api::default();
        for i in items {
            api.items.insert(i.path.clone(), i);
        }
        api.resolve_aliases();
        api
    }

    /// A type alias has the methods of its type: those that every instance has, and those of its own instance.
    fn resolve_aliases(&mut self) {
        let aliases: Vec<(String, String, String)> = self
            .items
            .values()
            .filter(|i| i.kind == "type")
            .filter_map(|i| Some((i.path.clone(), i.members.first()?.clone(), i.target.clone())))
            .collect();
        for (path, name, target) in aliases {
            let krate = path.split("::").next().unwrap_or_default();
            let Some(of) = self.find(krate, &name) else {
                continue;
            };
            let mut methods = of.instances.get(&target).cloned().unwrap_or_default();
            let others: Vec<_> = of.instances.values().flat_map(|m| m.keys()).collect();
            for (name, signature) in &of.methods {
                if !others.contains(&name) {
                    methods.insert(name.clone(), signature.clone());
                }
            }
            if let Some(item) = self.items.get_mut(&path) {
                for (name, signature) in methods {
                    item.methods.entry(name).or_insert(signature);
                }
            }
        }
    }

    /// The item of a name in a crate; of several, the one with the shortest path.
    pub fn find(&self, krate: &str, name: &str) -> Option<&Item> {
        self.items
            .values()
            .filter(|i| i.name() == name && i.path.split("::").next() == Some(krate))
            .filter(|i| i.kind != "derive")
            .min_by_key(|i| i.path.len())
    }

    /// The item of a name in any crate.
    pub fn find_any(&self, name: &str) -> Option<&Item> {
        CRATES.iter().find_map(|c| self.find(c, name))
    }

    /// A method of `Tensor`.
    pub fn tensor(&self, method: &str) -> Option<&Signature> {
        let own = self.find("torsh_tensor", "Tensor")?.methods.get(method);
        own.or_else(|| self.find("torsh_sparse", "SparseExt")?.methods.get(method))
    }

    /// A function of `sparse::`.
    pub fn sparse(&self, name: &str) -> Option<&Signature> {
        self.find("torsh_sparse", name)?.signature.as_ref()
    }

    /// A function of `F::`.
    pub fn function(&self, name: &str) -> Option<&Signature> {
        self.find("torsh_functional", name)?.signature.as_ref()
    }

    /// A function of `linalg::`.
    pub fn linalg(&self, name: &str) -> Option<&Signature> {
        self.find("torsh_linalg", name)?.signature.as_ref()
    }

    /// A function of a module of the tensor crate, such as `fft` or `signal::windows`.
    pub fn of_module(&self, module: &str, name: &str) -> Option<&Signature> {
        self.items
            .get(&format!("torsh_tensor::{module}::{name}"))?
            .signature
            .as_ref()
    }

    /// Whether anything has this name: an item, a method, a field or a variant.
    pub fn knows(&self, name: &str) -> bool {
        self.items.values().any(|i| {
            i.path.split("::").any(|p| p == name)
                || i.methods.contains_key(name)
                || i.members.iter().any(|m| m == name)
        })
    }

    /// Whether a function or method of this name takes so many arguments; `true` for what is none.
    pub fn takes(&self, name: &str, arguments: usize) -> bool {
        let functions = self.items.values().filter(|i| i.name() == name);
        let functions = functions.filter_map(|i| i.signature.as_ref());
        let methods = self.items.values().filter_map(|i| i.methods.get(name));
        let mut all = functions.chain(methods).peekable();
        all.peek().is_none() || all.any(|s| s.params.len() == arguments)
    }

    /// Every item.
    pub fn items(&self) -> impl Iterator<Item = &Item> {
        self.items.values()
    }
}

/// Kind, file and path of each item that `all.html` lists.
fn listed(html: &str) -> Vec<(String, String, String)> {
    let mut out = Vec::new();
    let Some(start) = html.find("<h1>List of all items") else {
        return out;
    };
    for link in html[start..].split("<li><a href=\"").skip(1) {
        let Some((file, rest)) = link.split_once("\">") else {
            continue;
        };
        let name = rest.split('<').next().unwrap_or_default();
        let base = file.rsplit('/').next().unwrap_or(file);
        let kind = base.split('.').next().unwrap_or_default();
        out.push((kind.to_string(), file.to_string(), name.to_string()));
    }
    out
}

/// The text of a piece of HTML.
fn plain(html: &str) -> String {
    let mut out = String::new();
    let mut inside = false;
    for c in html.chars() {
        match c {
            '<' => inside = true,
            '>' => inside = false,
            c if !inside => out.push(c),
            _ => {}
        }
    }
    let out = out
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&#39;", "'")
        .replace("&amp;", "&");
    out.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn between<'a>(html: &'a str, from: &str, to: &str) -> Option<&'a str> {
    let start = html.find(from)? + from.len();
    let end = html[start..].find(to)?;
    Some(&html[start..start + end])
}

impl Item {
    fn parse(kind: &str, path: &str, html: &str) -> Item {
        let mut item = Item {
            path: path.to_string(),
            kind: kind.to_string(),
            ..Item::default()
        };
        let declared = between(html, "item-decl\"><code>", "</code></pre>").unwrap_or_default();
        match kind {
            "fn" => item.signature = Signature::parse(&plain(declared)),
            "type" => {
                // `pub type Conv2dOptions = ConvOptions<2>;`
                let text = plain(declared);
                let target = text.split_once('=').map_or("", |(_, t)| t.trim());
                let end = target.find(['<', ';']).unwrap_or(target.len());
                let name = target[..end].rsplit("::").next().unwrap_or_default();
                item.members.push(name.trim().to_string());
                item.target = target.trim_end_matches(';').to_string();
            }
            _ => {}
        }
        // What a type derefs to and the traits it implements are told elsewhere.
        let end = [
            "id=\"deref-methods",
            "id=\"trait-implementations\"",
            "id=\"synthetic-implementations\"",
        ]
        .iter()
        .filter_map(|m| html.find(m))
        .min()
        .unwrap_or(html.len());
        for part in html[..end].split("<section id=\"impl-") {
            // `impl Lazy<Conv2d>` is for one instance, `impl<L: Infer> Lazy<L>` for all.
            let head = between(part, "<h3 class=\"code-header\">", "</h3>").map(plain);
            let instance = head
                .as_deref()
                .and_then(|h| h.strip_prefix("impl "))
                .filter(|of| of.contains('<'));
            for id in ["id=\"method.", "id=\"tymethod."] {
                for piece in part.split(id).skip(1) {
                    // rustdoc numbers the methods that several impls have: `new`, `new-1`.
                    let name = piece.split(['"', '-']).next().unwrap_or_default();
                    let Some(head) = between(piece, "<h4 class=\"code-header\">", "</h4>") else {
                        continue;
                    };
                    let Some(signature) = Signature::parse(&plain(head)) else {
                        continue;
                    };
                    if let Some(instance) = instance {
                        let of = item.instances.entry(instance.to_string()).or_default();
                        of.insert(name.to_string(), signature.clone());
                    }
                    item.methods.entry(name.to_string()).or_insert(signature);
                }
            }
        }
        for id in ["id=\"variant.", "id=\"structfield."] {
            for piece in html.split(id).skip(1) {
                let name = piece.split(['"', '.']).next().unwrap_or_default();
                item.members.push(name.to_string());
            }
        }
        item
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_read() {
        let s = Signature::parse(
            "pub fn map<'a, F: Fn(f64) -> f64>( &self, other: impl Into<Operand<'a>>, mut shape: (usize, usize), f: F, ) -> Result<Tensor, E> where F: Copy,",
        )
        .unwrap();
        assert!(s.method && s.fails());
        assert_eq!(s.names(), "other, shape, f");
        assert_eq!(s.params[0].1, "impl Into<Operand<'a>>");
        assert_eq!(s.params[1].1, "(usize, usize)");
        assert_eq!(s.returns, "Result<Tensor, E>");
        let new = Signature::parse("pub const fn new() -> Self").unwrap();
        assert!(!new.method && !new.fails() && new.params.is_empty());
        let setter = Signature::parse("pub fn alpha(self, alpha: f64) -> Self").unwrap();
        assert!(setter.method);
        assert_eq!(setter.names(), "alpha");
    }

    const STRUCT: &str = "<h2 id=\"implementations\"></h2><section id=\"method.alpha\" class=\"method\"><a href=\"x\">Source</a>\
        <h4 class=\"code-header\">pub fn <a href=\"#method.alpha\" class=\"fn\">alpha</a>(self, alpha: impl <a>Into</a>&lt;<a>Scalar</a>&gt;) \
        -&gt; Self</h4></section><section id=\"method.new\" class=\"method\"><h4 class=\"code-header\">pub fn \
        <a>new</a>() -&gt; Self</h4></section><h2 id=\"trait-implementations\"></h2><section id=\"method.clone\">\
        <h4 class=\"code-header\">fn clone(&amp;self) -&gt; Self</h4>";

    #[test]
    fn pages_are_read() {
        let item = Item::parse("struct", "torsh_tensor::AddOptions", STRUCT);
        assert_eq!(item.methods.keys().collect::<Vec<_>>(), ["alpha", "new"]);
        assert_eq!(item.setters(), ["alpha"]);
        assert_eq!(item.methods["alpha"].params[0].1, "impl Into<Scalar>");

        let alias = "<pre class=\"rust item-decl\"><code>pub type Two = <a>AddOptions</a>&lt;2&gt;;</code></pre>";
        let alias = Item::parse("type", "torsh_tensor::Two", alias);
        let relu = "<pre class=\"rust item-decl\"><code>pub fn relu(x: &amp;<a>Tensor</a>) -&gt; <a>Result</a>&lt;<a>Tensor</a>&gt;</code></pre>";
        let relu = Item::parse("fn", "torsh_functional::relu", relu);
        let api = Api::of(vec![item, alias, relu]);
        assert_eq!(
            api.find("torsh_tensor", "Two").unwrap().setters(),
            ["alpha"]
        );
        assert!(
            api.find("torsh_tensor", "Two")
                .unwrap()
                .methods
                .contains_key("alpha")
        );
        assert!(api.function("relu").unwrap().fails());
        assert!(api.knows("alpha") && !api.knows("beta"));
        assert!(api.takes("relu", 1) && !api.takes("relu", 2) && api.takes("beta", 2));
    }

    #[test]
    fn an_alias_has_the_methods_of_its_instance() {
        let implemented = |of: &str, id: &str, method: &str| {
            format!(
                "<section id=\"impl-x\" class=\"impl\"><h3 class=\"code-header\">{of}</h3></section><section \
                 id=\"method.{id}\"><h4 class=\"code-header\">{method}</h4></section>"
            )
        };
        let html = implemented(
            "impl&lt;L&gt; <a>Lazy</a>&lt;L&gt;",
            "layer",
            "pub fn layer(&amp;self) -&gt; L",
        ) + &implemented(
            "impl <a>Lazy</a>&lt;<a>Norm</a>&gt;",
            "new",
            "pub fn new() -&gt; Self",
        ) + &implemented(
            "impl <a>Lazy</a>&lt;<a>Conv</a>&gt;",
            "new-1",
            "pub fn new(out_channels: usize) -&gt; Self",
        ) + &implemented(
            "impl <a>Lazy</a>&lt;<a>Norm</a>&gt;",
            "eps",
            "pub fn eps(self) -&gt; Self",
        );
        let lazy = Item::parse("struct", "torsh_nn::Lazy", &html);
        let alias = |name: &str, of: &str| {
            let html = format!(
                "<pre class=\"rust item-decl\"><code>pub type {name} = <a>Lazy</a>&lt;<a>{of}</a>&gt;;</code></pre>"
            );
            Item::parse("type", &format!("torsh_nn::{name}"), &html)
        };
        let api = Api::of(vec![
            lazy,
            alias("LazyConv", "Conv"),
            alias("LazyNorm", "Norm"),
        ]);
        let methods = |name: &str| &api.find("torsh_nn", name).unwrap().methods;
        assert_eq!(
            methods("LazyConv").keys().collect::<Vec<_>>(),
            ["layer", "new"]
        );
        assert_eq!(methods("LazyConv")["new"].names(), "out_channels");
        assert_eq!(
            methods("LazyNorm").keys().collect::<Vec<_>>(),
            ["eps", "layer", "new"]
        );
        assert_eq!(methods("LazyNorm")["new"].names(), "");
    }

    #[test]
    fn the_list_of_items_is_read() {
        let html = "<title>List of all items</title><li><a href=\"#structs\">Structs</a></li><h1>List of all items</h1><ul class=\"all-items\">\
            <li><a href=\"lr/struct.StepLR.html\">lr::StepLR</a></li><li><a href=\"fn.relu.html\">relu</a></li></ul>";
        let all = listed(html);
        assert_eq!(
            all[0],
            (
                "struct".into(),
                "lr/struct.StepLR.html".into(),
                "lr::StepLR".into()
            )
        );
        assert_eq!(all[1].0, "fn");
    }
}
