//! A crate's items, from its sources.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::parse::Parser;
use syn::{Attribute, Expr, ImplItem, Item, Lit, Meta, UseTree, Visibility};

use super::expand::Macro;

/// The macros whose functions count with the struct that they make.
const ONE_ITEM: [&str; 2] = ["options", "option_setter"];

/// A public item.
pub struct Public {
    pub path: String,
    pub file: String,
    pub example: bool,
}

/// An item as it was found, before it is known what is public.
struct Found {
    name: String,
    /// The type whose method it is.
    of: Option<String>,
    module: String,
    file: String,
    example: bool,
    public: bool,
}

/// A crate that was read.
pub struct Crate {
    name: String,
    /// Macros by name, each with the module that defines it.
    macros: HashMap<String, Vec<(String, Macro)>>,
    found: Vec<Found>,
    /// Modules that paths from outside may go through.
    open: HashSet<String>,
    /// What public modules re-export by name, and modules re-exported whole.
    named: HashSet<String>,
    globs: HashSet<String>,
}

/// Where an item is.
#[derive(Clone)]
struct Place {
    file: PathBuf,
    module: String,
    /// The macro that made it.
    made_by: Option<String>,
}

impl Crate {
    /// Reads the macros of a crate of the workspace.
    pub fn macros(name: &str) -> Crate {
        Crate::sources(name).0
    }

    /// Reads a crate of the workspace, which uses the macros of the crates before it.
    pub fn read(name: &str, before: &[Crate]) -> Crate {
        let (mut read, files) = Crate::sources(name);
        for (place, items) in files {
            let uses = imported_macros(&items);
            let cx = Context { before, uses };
            for item in items {
                read.item(item, &place, &cx);
            }
        }
        read
    }

    fn sources(name: &str) -> (Crate, Vec<(Place, Vec<Item>)>) {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("..")
            .join(name)
            .join("src");
        let mut read = Crate {
            name: name.to_string(),
            macros: HashMap::new(),
            found: Vec::new(),
            open: HashSet::from([String::new()]),
            named: HashSet::new(),
            globs: HashSet::new(),
        };
        let mut files = Vec::new();
        read.file(&root.join("lib.rs"), "", &mut files);
        (read, files)
    }

    /// Reads a file and those of its modules, and notes the macros they define.
    fn file(&mut self, path: &Path, module: &str, files: &mut Vec<(Place, Vec<Item>)>) {
        let text =
            std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let items = syn::parse_file(&text)
            .unwrap_or_else(|e| panic!("{}: {e}", path.display()))
            .items;
        let place = Place {
            file: path.to_path_buf(),
            module: module.to_string(),
            made_by: None,
        };
        for item in &items {
            match item {
                Item::Macro(m) if m.mac.path.is_ident("macro_rules") => {
                    let name = m
                        .ident
                        .as_ref()
                        .expect("macro_rules! names its macro")
                        .to_string();
                    let made = Macro::new(&self.name, m.mac.tokens.clone());
                    self.macros
                        .entry(name)
                        .or_default()
                        .push((module.to_string(), made));
                }
                Item::Mod(m) if m.content.is_none() && !is_test(&m.attrs) => {
                    let folder = match path.file_stem().and_then(|s| s.to_str()) {
                        Some("lib" | "mod") => path.with_file_name(""),
                        _ => path.with_extension(""),
                    };
                    let name = m.ident.to_string();
                    let beside = folder.join(format!("{name}.rs"));
                    let own = if beside.exists() {
                        beside
                    } else {
                        folder.join(&name).join("mod.rs")
                    };
                    self.file(&own, &join(module, &name), files);
                }
                _ => {}
            }
        }
        files.push((place, items));
    }

    fn item(&mut self, item: Item, place: &Place, cx: &Context<'_>) {
        let (name, attrs, public) = match &item {
            Item::Fn(f) => (f.sig.ident.to_string(), &f.attrs, is_public(&f.vis)),
            Item::Struct(s) => (s.ident.to_string(), &s.attrs, is_public(&s.vis)),
            Item::Enum(e) => (e.ident.to_string(), &e.attrs, is_public(&e.vis)),
            Item::Trait(t) => (t.ident.to_string(), &t.attrs, is_public(&t.vis)),
            Item::Type(t) => (t.ident.to_string(), &t.attrs, is_public(&t.vis)),
            Item::Mod(m) => {
                if is_test(&m.attrs) {
                    return;
                }
                let module = join(&place.module, &m.ident.to_string());
                if is_public(&m.vis) && !is_hidden(&m.attrs) && self.open.contains(&place.module) {
                    self.open.insert(module.clone());
                }
                let inner = Place {
                    module,
                    ..place.clone()
                };
                for item in m.content.iter().flat_map(|(_, items)| items) {
                    self.item(item.clone(), &inner, cx);
                }
                return;
            }
            Item::Use(u) => {
                if is_public(&u.vis) && !is_hidden(&u.attrs) {
                    self.re_export(&u.tree, &place.module, "");
                }
                return;
            }
            Item::Impl(i) => {
                if i.trait_.is_none() && !is_test(&i.attrs) {
                    let of = type_name(&i.self_ty);
                    for item in &i.items {
                        self.method(item, &of, place, cx);
                    }
                }
                return;
            }
            Item::Macro(m) if m.mac.path.is_ident("macro_rules") => {
                let exported = m.attrs.iter().any(|a| a.path().is_ident("macro_export"));
                let name = m
                    .ident
                    .as_ref()
                    .map(ToString::to_string)
                    .unwrap_or_default();
                (name, &m.attrs, exported)
            }
            Item::Macro(m) => {
                if let Some((made, name)) = self.expanded(&m.mac, place, cx) {
                    let file = syn::parse2::<syn::File>(made).unwrap_or_else(|e| {
                        panic!("{}: what {name}! makes: {e}", place.file.display())
                    });
                    let inner = Place {
                        made_by: Some(name),
                        ..place.clone()
                    };
                    for item in file.items {
                        self.item(item, &inner, cx);
                    }
                }
                return;
            }
            _ => return,
        };
        if is_hidden(attrs) || is_test(attrs) {
            return;
        }
        let is_macro = matches!(item, Item::Macro(_));
        self.found.push(Found {
            example: self.has_example(attrs, place, cx),
            module: if is_macro {
                String::new()
            } else {
                place.module.clone()
            },
            file: file_name(&place.file),
            of: None,
            name,
            public,
        });
    }

    fn method(&mut self, item: &ImplItem, of: &str, place: &Place, cx: &Context<'_>) {
        match item {
            ImplItem::Fn(f) if is_public(&f.vis) && !is_hidden(&f.attrs) => {
                let by_value = f.sig.receiver().is_some_and(|r| r.reference.is_none());
                let returned = match &f.sig.output {
                    syn::ReturnType::Type(_, t) => type_name(t),
                    syn::ReturnType::Default => String::new(),
                };
                let grouped = place
                    .made_by
                    .as_deref()
                    .is_some_and(|m| ONE_ITEM.contains(&m));
                if grouped || by_value && returned == "Self" {
                    return;
                }
                self.found.push(Found {
                    name: f.sig.ident.to_string(),
                    of: Some(of.to_string()),
                    module: place.module.clone(),
                    file: file_name(&place.file),
                    example: self.has_example(&f.attrs, place, cx),
                    public: true,
                });
            }
            ImplItem::Macro(m) => {
                if let Some((made, name)) = self.expanded(&m.mac, place, cx) {
                    let ident = proc_macro2::Ident::new(of, proc_macro2::Span::call_site());
                    let whole: syn::ItemImpl = syn::parse_quote!(impl #ident { #made });
                    let inner = Place {
                        made_by: Some(name),
                        ..place.clone()
                    };
                    for item in &whole.items {
                        self.method(item, of, &inner, cx);
                    }
                }
            }
            _ => {}
        }
    }

    /// What a macro makes, where it is one of the workspace.
    fn expanded(
        &self,
        call: &syn::Macro,
        place: &Place,
        cx: &Context<'_>,
    ) -> Option<(TokenStream, String)> {
        let name = call.path.segments.last()?.ident.to_string();
        let made_by = self.lookup(&call.path, &place.module, cx)?;
        let made = made_by.expand(call.tokens.clone());
        let made =
            made.unwrap_or_else(|| panic!("{}: no rule of {name}! fits", place.file.display()));
        Some((made, name))
    }

    /// The macro of a path: of a module around it, of what the file imports, of this crate, of another one.
    fn lookup<'a>(&'a self, path: &syn::Path, module: &str, cx: &Context<'a>) -> Option<&'a Macro> {
        let mut segments: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        let name = segments.pop()?;
        if segments.is_empty() {
            if let Some(found) = self.around(&name, module) {
                return Some(found);
            }
            segments = cx.uses.get(&name).cloned().unwrap_or_default();
        }
        let mut within = segments.get(1..).unwrap_or_default().join("::");
        let ups = segments.iter().take_while(|s| *s == "super").count();
        if ups > 0 {
            let around: Vec<&str> = module.split("::").collect();
            let outer = around[..around.len().saturating_sub(ups)].join("::");
            within = join(&outer, &segments[ups..].join("::"));
        }
        let home = segments.first().cloned().unwrap_or_default();
        let home = home.replace('_', "-");
        if let Some(other) = cx.before.iter().find(|c| c.name == home) {
            return other.macros.get(&name)?.last().map(|m| &m.1);
        }
        let all = self.macros.get(&name)?;
        all.iter()
            .rev()
            .find(|m| m.0 == within)
            .or(all.last())
            .map(|m| &m.1)
    }

    /// The macro that is defined in a module or the nearest one around it.
    fn around(&self, name: &str, module: &str) -> Option<&Macro> {
        let all = self.macros.get(name)?;
        let mut around = module;
        loop {
            if let Some((_, found)) = all.iter().rev().find(|m| m.0 == around) {
                return Some(found);
            }
            around = match around.rsplit_once("::") {
                Some((outer, _)) => outer,
                None if around.is_empty() => return None,
                None => "",
            };
        }
    }

    /// Whether the documentation has a block that `cargo test --doc` runs.
    fn has_example(&self, attrs: &[Attribute], place: &Place, cx: &Context<'_>) -> bool {
        let mut text = String::new();
        for a in attrs {
            if let Meta::NameValue(doc) = &a.meta
                && doc.path.is_ident("doc")
            {
                text += &self.text(&doc.value, place, cx);
                text.push('\n');
            }
        }
        let mut inside = false;
        for line in text.lines() {
            let Some(info) = line.trim_start().strip_prefix("```") else {
                continue;
            };
            if !inside && ["", "rust", "should_panic"].contains(&info.trim()) {
                return true;
            }
            inside = !inside;
        }
        false
    }

    /// The text of a literal, or of `concat!`, `stringify!` and macros that make such.
    fn text(&self, value: &Expr, place: &Place, cx: &Context<'_>) -> String {
        match value {
            Expr::Lit(l) => match &l.lit {
                Lit::Str(s) => s.value(),
                Lit::Int(i) => i.to_string(),
                _ => panic!("{}: documentation that is no text", place.file.display()),
            },
            Expr::Paren(p) => self.text(&p.expr, place, cx),
            Expr::Group(g) => self.text(&g.expr, place, cx),
            Expr::Macro(m) if m.mac.path.is_ident("stringify") => m.mac.tokens.to_string(),
            Expr::Macro(m) if m.mac.path.is_ident("concat") => {
                let parts = syn::punctuated::Punctuated::<Expr, syn::Token![,]>::parse_terminated;
                let parts = parts
                    .parse2(m.mac.tokens.clone())
                    .expect("concat! takes expressions");
                parts.iter().map(|p| self.text(p, place, cx)).collect()
            }
            Expr::Macro(m) => match self.expanded(&m.mac, place, cx) {
                Some((made, name)) => {
                    let made = syn::parse2::<Expr>(made);
                    self.text(
                        &made.unwrap_or_else(|e| panic!("what {name}! makes: {e}")),
                        place,
                        cx,
                    )
                }
                None => String::new(),
            },
            _ => panic!("{}: documentation of an unknown kind", place.file.display()),
        }
    }

    fn re_export(&mut self, tree: &UseTree, module: &str, path: &str) {
        match tree {
            UseTree::Path(p) => {
                let path = match p.ident.to_string().as_str() {
                    "crate" => "crate".to_string(),
                    "self" => module.to_string(),
                    "super" => module.rsplit_once("::").map_or("", |m| m.0).to_string(),
                    name if path.is_empty() => join(module, name),
                    "" => unreachable!("an identifier"),
                    name => join(
                        path.trim_start_matches("crate").trim_start_matches("::"),
                        name,
                    ),
                };
                self.re_export(&p.tree, module, &path);
            }
            UseTree::Name(n) => drop(self.named.insert(n.ident.to_string())),
            UseTree::Rename(r) => drop(self.named.insert(r.ident.to_string())),
            UseTree::Glob(_) => drop(self.globs.insert(path.to_string())),
            UseTree::Group(g) => g.items.iter().for_each(|t| self.re_export(t, module, path)),
        }
    }

    /// What the documentation shows.
    pub fn public_items(&self) -> Vec<Public> {
        let reaches = |f: &&Found| {
            f.of.is_none()
                && f.public
                && (self.open.contains(&f.module)
                    || self.globs.contains(&f.module)
                    || self.named.contains(&f.name))
        };
        let types: HashSet<&str> = self
            .found
            .iter()
            .filter(reaches)
            .map(|f| f.name.as_str())
            .collect();
        let shown = |f: &&Found| match &f.of {
            Some(of) => types.contains(of.as_str()),
            None => reaches(f),
        };
        let public = |f: &Found| Public {
            path: f
                .of
                .as_ref()
                .map_or(f.name.clone(), |of| format!("{of}::{}", f.name)),
            file: f.file.clone(),
            example: f.example,
        };
        self.found.iter().filter(shown).map(public).collect()
    }
}

/// What macros are looked up in.
struct Context<'a> {
    before: &'a [Crate],
    /// The crate that the file imports a name from.
    /// The paths of the modules that names are imported from.
    uses: HashMap<String, Vec<String>>,
}

fn imported_macros(items: &[Item]) -> HashMap<String, Vec<String>> {
    fn walk(tree: &UseTree, path: &[String], into: &mut HashMap<String, Vec<String>>) {
        match tree {
            UseTree::Path(p) => {
                let inner: Vec<String> =
                    path.iter().cloned().chain([p.ident.to_string()]).collect();
                walk(&p.tree, &inner, into);
            }
            UseTree::Name(n) => drop(into.insert(n.ident.to_string(), path.to_vec())),
            UseTree::Group(g) => g.items.iter().for_each(|t| walk(t, path, into)),
            UseTree::Rename(_) | UseTree::Glob(_) => {}
        }
    }
    let mut all = HashMap::new();
    for item in items {
        if let Item::Use(u) = item {
            walk(&u.tree, &[], &mut all);
        }
    }
    all
}

fn join(module: &str, name: &str) -> String {
    if module.is_empty() {
        name.to_string()
    } else {
        format!("{module}::{name}")
    }
}

fn file_name(path: &Path) -> String {
    let text = path.display().to_string();
    text.split_once("..").map_or(text.clone(), |(_, rest)| {
        rest.trim_start_matches('/').to_string()
    })
}

fn is_public(vis: &Visibility) -> bool {
    matches!(vis, Visibility::Public(_))
}

fn has_word(attrs: &[Attribute], attribute: &str, word: &str) -> bool {
    let found = |a: &Attribute| match &a.meta {
        Meta::List(list) if list.path.is_ident(attribute) => {
            let mut tokens = list.tokens.clone().into_iter();
            tokens.any(|t| matches!(t, TokenTree::Ident(i) if i == word))
        }
        _ => false,
    };
    attrs.iter().any(found)
}

fn is_hidden(attrs: &[Attribute]) -> bool {
    has_word(attrs, "doc", "hidden")
}

fn is_test(attrs: &[Attribute]) -> bool {
    has_word(attrs, "cfg", "test") || has_word(attrs, "cfg", "doctest")
}

fn type_name(ty: &syn::Type) -> String {
    match ty {
        syn::Type::Path(p) => p
            .path
            .segments
            .last()
            .map_or(String::new(), |s| s.ident.to_string()),
        _ => String::new(),
    }
}
