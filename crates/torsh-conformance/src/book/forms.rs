//! How PyTorch's functions are written in ToRSh.

use super::api::{Api, Item, Signature};

/// Endings of the methods that take more than the plain one, or something else.
const ENDINGS: &[&str] = &["dim", "dims", "at", "step", "nm", "decimals", "range_"];

/// Methods whose name is not PyTorch's.
const RENAMED: &[(&str, &str)] = &[
    ("__getitem__", "i"),
    ("where", "where_"),
    ("linalg.cross", "linalg_cross"),
    ("clone", "copy"),
    ("scalar_tensor", "scalar"),
    ("linalg.vector_norm", "norm_with"),
];

/// What PyTorch's name also is, by another method.
const BESIDES: &[(&str, &str)] = &[("max", "maximum"), ("min", "minimum")];

/// The modules of `torsh::nn`, which the prelude brings.
pub const NN_MODULES: &[&str] = &["init", "utils", "module"];

/// The forms of a function of PyTorch.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Forms {
    /// Methods, associated and free functions, as calls.
    pub calls: Vec<String>,
    /// The function of `F::`.
    pub function: Option<String>,
    /// The methods that write to the tensor.
    pub in_place: Vec<String>,
    /// The forms with options, and the options' names.
    pub options: Vec<String>,
}

impl Forms {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
            && self.function.is_none()
            && self.in_place.is_empty()
            && self.options.is_empty()
    }
}

/// A call with the names of the parameters: `x.add(other)?`.
pub fn call(before: &str, name: &str, s: &Signature) -> String {
    let q = if s.fails() { "?" } else { "" };
    format!("`{before}{name}({}){q}`", s.names())
}

/// A name without its namespaces: `relu` of `nn.functional.relu`.
pub fn last(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// The name of the method or function for a name of PyTorch.
pub fn renamed(name: &str) -> &str {
    let known = RENAMED.iter().find(|(n, _)| *n == name);
    known.map_or(last(name), |(_, to)| to)
}

/// A call with options, and their names.
pub fn with_options(api: &Api, before: &str, name: &str, s: &Signature) -> String {
    let Some((at, item)) = s.params.iter().enumerate().find_map(|(i, (_, ty))| {
        let name = ty.split('<').next().unwrap_or(ty);
        let item = api.find_any(name)?;
        name.ends_with("Options").then_some((i, item))
    }) else {
        return call(before, name, s);
    };
    let mut names: Vec<String> = s.params.iter().map(|(n, _)| n.clone()).collect();
    names[at] = item.name().to_string();
    let setters: Vec<_> = item.setters().iter().map(|s| format!("`{s}`")).collect();
    let q = if s.fails() { "?" } else { "" };
    let names = names.join(", ");
    format!("`{before}{name}({names}){q}`: {}", setters.join(", "))
}

/// The forms of a name of PyTorch.
pub fn of(api: &Api, name: &str) -> Forms {
    let base = renamed(name);
    let mut forms = Forms::default();
    let receiver = |s: &Signature| if s.method { "x." } else { "Tensor::" };
    let shown = |m: &str| {
        let s = api.tensor(m)?;
        Some((receiver(s), s))
    };
    if let Some(item) = api.find("torsh_tensor", base)
        && let Some(s) = &item.signature
        && item.path == format!("torsh_tensor::{base}")
    {
        forms.calls.push(call("", base, s));
    }
    if let Some((before, s)) = shown(base) {
        match base.ends_with('_') && base != "where_" {
            true => forms.in_place.push(call(before, base, s)),
            false => forms.calls.push(call(before, base, s)),
        }
    }
    for ending in ENDINGS {
        let m = format!("{}_{ending}", base.trim_end_matches('_'));
        if let Some((before, s)) = shown(&m)
            && base.ends_with('_') == m.ends_with('_')
        {
            match m.ends_with('_') {
                true => forms.in_place.push(call(before, &m, s)),
                false => forms.calls.push(call(before, &m, s)),
            }
        }
    }
    if let Some((_, other)) = BESIDES.iter().find(|(n, _)| *n == name)
        && let Some((before, s)) = shown(other)
    {
        forms.calls.push(call(before, other, s));
    }
    let with = format!("{}_with", base.trim_end_matches('_'));
    if !base.ends_with('_') || base == "where_" {
        if let Some((before, s)) = shown(&with) {
            forms.options.push(with_options(api, before, &with, s));
        }
        let writes = shown(&format!("{base}_")).filter(|(_, s)| s.fails());
        if let Some((_, s)) = writes.filter(|_| base == last(name)) {
            forms.in_place.push(match s.params.len() {
                0 => format!("`{base}_()`"),
                _ => format!("`{base}_({})`", s.names()),
            });
        }
    }
    if let Some((before, s)) = shown(&format!("{with}_")) {
        let shown = with_options(api, before, &format!("{with}_"), s);
        forms.options.push(shown);
    }
    if let Some(s) = api.function(base) {
        forms.function = Some(call("F::", base, s));
        if forms.options.is_empty()
            && let Some(s) = api.function(&with)
        {
            forms.options.push(with_options(api, "F::", &with, s));
        }
    }
    type Find<'a> = &'a dyn Fn(&str) -> Option<&'a Signature>;
    let modules: [(&str, Find<'_>); 2] = [("linalg", &|n| api.linalg(n)), ("fft", &|n| api.fft(n))];
    for (module, find) in modules {
        // The names of `torch.fft` have their own meaning outside it.
        if forms.function.is_some() || module == "fft" && !name.starts_with("fft.") {
            continue;
        }
        let Some(s) = find(last(name)) else {
            continue;
        };
        let before = format!("{module}::");
        forms.function = Some(call(&before, last(name), s));
        let with = format!("{}_with", last(name));
        if forms.options.is_empty()
            && let Some(s) = find(&with)
        {
            forms.options.push(with_options(api, &before, &with, s));
        }
    }
    forms
}

/// How an item is reached in a program that begins with `use torsh::prelude::*`; `None` for what
/// only the crates below have.
pub fn reached(item: &Item, prelude: &str) -> Option<String> {
    let name = item.name();
    let mut words = prelude.split(|c: char| !c.is_alphanumeric() && c != '_');
    let (krate, rest) = item.path.split_once("::")?;
    if words.any(|w| w == name) {
        return Some(name.to_string());
    }
    if krate == "torsh_nn" {
        return Some(rest.trim_start_matches("module::").to_string());
    }
    Some(match krate {
        "torsh_core" if rest.starts_with("random::") => format!("torsh::{rest}"),
        "torsh_core" => return None,
        "torsh_functional" => format!("F::{rest}"),
        "torsh" | "torsh_tensor" => format!("torsh::{rest}"),
        "torsh_serialize" | "torsh_debug" => {
            format!("torsh::{}::{rest}", krate.trim_start_matches("torsh_"))
        }
        _ => format!("{}::{rest}", krate.trim_start_matches("torsh_")),
    })
}

/// How a class of PyTorch is made: the constructor, and the builder with its setters.
pub fn class(api: &Api, item: &Item, prelude: &str) -> (String, String) {
    let path = reached(item, prelude).unwrap_or_default();
    let mut new = Vec::new();
    for name in ["new", "from_tensors"] {
        if let Some(s) = item.methods.get(name).filter(|s| !s.method) {
            new.push(call(&format!("{path}::"), name, s));
        }
    }
    if new.is_empty() {
        new.push(format!("`{path}`"));
    }
    let mut other = Vec::new();
    if let Some(s) = item.methods.get("builder").filter(|s| !s.method) {
        let name = s.returns.split('<').next().unwrap_or_default();
        let krate = item.path.split("::").next().unwrap_or_default();
        // The optimizers share a builder; what each takes are the fields of its options.
        let options = format!("{}Options", item.name()).to_lowercase();
        let of_optimizer = api.items().find(|i| {
            krate == "torsh_optim" && i.name().to_lowercase() == options && !i.members.is_empty()
        });
        let setters: Vec<&str> = match of_optimizer {
            Some(options) => options.members.iter().map(String::as_str).collect(),
            None => api.find(krate, name).map(Item::setters).unwrap_or_default(),
        };
        let setters: Vec<_> = setters
            .into_iter()
            .filter(|s| !matches!(*s, "device" | "dtype"))
            .map(|s| format!("`{s}`"))
            .collect();
        other.push(format!(
            "{}{}{}",
            call(&format!("{}::", item.name()), "builder", s),
            if setters.is_empty() { "" } else { ": " },
            setters.join(", ")
        ));
    }
    // Other constructors, such as `with` of the losses.
    for (name, s) in &item.methods {
        let makes = s.returns.contains("Self") || s.returns.contains(item.name());
        let known = matches!(
            name.as_str(),
            "new" | "from_tensors" | "builder" | "default"
        );
        if !s.method && makes && !known {
            other.push(with_options(api, &format!("{}::", item.name()), name, s));
        }
    }
    // A struct without a builder may have setters of its own.
    let own: Vec<_> = item
        .setters()
        .iter()
        .map(|s| format!("`.{s}(..)`"))
        .collect();
    if !own.is_empty() {
        other.push(own.join(", "));
    }
    if let Some(s) = item.methods.get("forward_with") {
        other.push(call("", "forward_with", s));
    }
    (new.join(", "), other.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(path: &str, kind: &str, methods: &[(&str, &str)]) -> Item {
        let mut item = Item {
            path: path.into(),
            kind: kind.into(),
            ..Item::default()
        };
        for (name, text) in methods {
            let signature = Signature::parse(text).unwrap();
            item.methods.insert((*name).into(), signature);
        }
        item
    }

    fn api() -> Api {
        let tensor = item(
            "torsh_tensor::Tensor",
            "struct",
            &[
                (
                    "add",
                    "fn add<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor>",
                ),
                (
                    "add_",
                    "fn add_(&self, other: impl Into<Operand<'a>>) -> Result<Tensor>",
                ),
                (
                    "add_with",
                    "fn add_with(&self, other: &Tensor, options: AddOptions) -> Result<Tensor>",
                ),
                ("sum", "fn sum(&self) -> Result<Tensor>"),
                (
                    "sum_dim",
                    "fn sum_dim(&self, dims: impl IntoDims, keepdim: bool) -> Result<Tensor>",
                ),
                ("eye_nm", "fn eye_nm(n: usize, m: usize) -> Result<Tensor>"),
                ("normal_", "fn normal_(&self) -> Result<Tensor>"),
            ],
        );
        let options = item(
            "torsh_tensor::AddOptions",
            "struct",
            &[
                ("alpha", "fn alpha(self, alpha: f64) -> Self"),
                ("new", "fn new() -> Self"),
            ],
        );
        let mut relu = item("torsh_functional::relu", "fn", &[]);
        relu.signature = Signature::parse("pub fn relu(input: &Tensor) -> Result<Tensor>");
        let mut eye = item("torsh_tensor::eye", "fn", &[]);
        eye.signature = Signature::parse("pub fn eye(n: usize) -> Tensor");
        Api::of(vec![tensor, options, relu, eye])
    }

    #[test]
    fn forms_come_from_the_signatures() {
        let api = api();
        let add = of(&api, "add");
        assert_eq!(add.calls, ["`x.add(other)?`"]);
        assert_eq!(add.in_place, ["`add_(other)`"]);
        assert_eq!(add.options, ["`x.add_with(other, AddOptions)?`: `alpha`"]);
        assert_eq!(add.function, None);
        assert_eq!(
            of(&api, "sum").calls,
            ["`x.sum()?`", "`x.sum_dim(dims, keepdim)?`"]
        );
        let relu = of(&api, "nn.functional.relu");
        assert_eq!(relu.function.as_deref(), Some("`F::relu(input)?`"));
        assert_eq!(
            of(&api, "eye").calls,
            ["`eye(n)`", "`Tensor::eye_nm(n, m)?`"]
        );
        assert_eq!(of(&api, "normal_").in_place, ["`x.normal_()?`"]);
        assert!(of(&api, "svd").is_empty());
    }

    #[test]
    fn classes_show_how_they_are_made() {
        let conv = item(
            "torsh_nn::Conv2d",
            "struct",
            &[
                (
                    "new",
                    "pub fn new(in_channels: usize, kernel_size: impl Into<Size2>) -> Result<Conv2d>",
                ),
                (
                    "builder",
                    "pub fn builder(in_channels: usize) -> Conv2dBuilder",
                ),
            ],
        );
        let builder = item(
            "torsh_nn::Conv2dBuilder",
            "struct",
            &[
                ("bias", "fn bias(self, bias: bool) -> Self"),
                ("dtype", "fn dtype(self, dtype: DType) -> Self"),
                ("build", "fn build(self) -> Result<Conv2d>"),
            ],
        );
        let step = item("torsh_optim::lr_scheduler::StepLR", "struct", &[]);
        let api = Api::of(vec![conv, builder, step]);
        let conv = api.find("torsh_nn", "Conv2d").unwrap();
        assert_eq!(
            class(&api, conv, ""),
            (
                "`Conv2d::new(in_channels, kernel_size)?`".to_string(),
                "`Conv2d::builder(in_channels)`: `bias`".to_string()
            )
        );
        let step = api.find_any("StepLR").unwrap();
        assert_eq!(reached(step, "use x::{StepLR, Adam};").unwrap(), "StepLR");
        assert_eq!(reached(step, "").unwrap(), "optim::lr_scheduler::StepLR");
    }
}
