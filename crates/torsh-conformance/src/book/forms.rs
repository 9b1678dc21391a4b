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
    // Outside of `torch.linalg` these are other functions.
    ("lu", "lu_factor"),
    ("svd", "old_svd"),
    ("vander", "old_vander"),
    ("sparse_bsc_tensor", "bsc"),
    ("sparse_bsr_tensor", "bsr"),
    ("sparse_compressed_tensor", "compressed"),
    ("sparse_coo_tensor", "coo"),
    ("sparse_csc_tensor", "csc"),
    ("sparse_csr_tensor", "csr"),
    ("sparse_mask", "mask"),
    ("sparse_resize_", "resize"),
    ("sparse_resize_and_clear_", "resize_and_clear"),
];

/// What PyTorch's name also is, by another method.
const BESIDES: &[(&str, &str)] = &[("max", "maximum"), ("min", "minimum")];

/// The namespaces of PyTorch whose functions are those of a module alone.
const MODULES: &[(&str, &str)] = &[
    ("fft.", "fft"),
    ("masked.", "masked"),
    ("signal.windows.", "signal::windows"),
];

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
        // `linalg` has options of the names of others.
        let own = api
            .find("torsh_linalg", name)
            .filter(|_| before == "linalg::");
        let item = own.or_else(|| api.find_any(name))?;
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

/// The functions of a module, plain and with options.
fn of_module<'a>(
    api: &Api,
    module: &str,
    find: impl Fn(&str) -> Option<&'a Signature>,
    name: &str,
) -> Forms {
    let mut forms = Forms::default();
    let before = format!("{module}::");
    forms.function = find(name).map(|s| call(&before, name, s));
    let with = format!("{name}_with");
    if let Some(s) = find(&with) {
        forms.options.push(with_options(api, &before, &with, s));
    }
    forms
}

/// The forms of a name of PyTorch.
pub fn of(api: &Api, name: &str) -> Forms {
    if let Some((prefix, module)) = MODULES.iter().find(|(p, _)| name.starts_with(p)) {
        let find = |n: &str| api.of_module(module, n);
        return of_module(api, module, find, &name[prefix.len()..]);
    }
    // `linalg.diagonal` is another function than `diagonal`.
    if let Some(own) = name
        .strip_prefix("linalg.")
        .filter(|n| api.linalg(n).is_some())
    {
        let mut forms = of_module(api, "linalg", |n| api.linalg(n), own);
        if let Some((_, method)) = RENAMED.iter().find(|(n, _)| *n == name)
            && let Some(s) = api.tensor(method)
        {
            forms.calls.push(call("x.", method, s));
        }
        return forms;
    }
    if let Some(own) = name
        .strip_prefix("sparse.")
        .filter(|n| api.sparse(n).is_some())
    {
        return of_module(api, "sparse", |n| api.sparse(n), own);
    }
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
    if forms.function.is_none() {
        let linalg = of_module(api, "linalg", |n| api.linalg(n), base);
        if linalg.function.is_some() {
            forms.function = linalg.function;
            if forms.options.is_empty() {
                forms.options = linalg.options;
            }
        }
    }
    if forms.function.is_none() && forms.calls.is_empty() {
        let sparse = of_module(api, "sparse", |n| api.sparse(n), base);
        match name.ends_with('_') {
            true => forms.in_place.extend(sparse.function),
            false => forms.function = sparse.function,
        }
        forms.options.extend(sparse.options);
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
        let function = |path: &str, text: &str| {
            let mut item = item(path, "fn", &[]);
            item.signature = Signature::parse(text);
            item
        };
        let fft = function(
            "torsh_tensor::fft::fft",
            "pub fn fft(input: &Tensor) -> Result<Tensor>",
        );
        let with = "pub fn fft_with(input: &Tensor, options: AddOptions) -> Result<Tensor>";
        let fft_with = function("torsh_tensor::fft::fft_with", with);
        let sum = function(
            "torsh_tensor::masked::sum",
            "pub fn sum(input: &Tensor) -> Result<Tensor>",
        );
        let add = function(
            "torsh_linalg::add_",
            "pub fn add_(a: &Tensor) -> Result<Tensor>",
        );
        let svd = function(
            "torsh_linalg::svd",
            "pub fn svd(a: &Tensor) -> Result<Tensor>",
        );
        let old = "pub fn old_svd(a: &Tensor, some: bool) -> Result<Tensor>";
        let old_svd = function("torsh_linalg::old_svd", old);
        let mut relu = item("torsh_functional::relu", "fn", &[]);
        relu.signature = Signature::parse("pub fn relu(input: &Tensor) -> Result<Tensor>");
        let mut eye = item("torsh_tensor::eye", "fn", &[]);
        eye.signature = Signature::parse("pub fn eye(n: usize) -> Tensor");
        Api::of(vec![
            tensor, options, relu, eye, fft, fft_with, sum, add, svd, old_svd,
        ])
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
        assert!(of(&api, "qr").is_empty());
    }

    #[test]
    fn namespaces_have_functions_of_their_own() {
        let api = api();
        let fft = of(&api, "fft.fft");
        assert_eq!(fft.function.as_deref(), Some("`fft::fft(input)?`"));
        assert_eq!(
            fft.options,
            ["`fft::fft_with(input, AddOptions)?`: `alpha`"]
        );
        assert!(of(&api, "fft").is_empty() && of(&api, "fft.hfft").is_empty());
        // Not the methods of the same name.
        for (name, function) in [
            ("masked.sum", "`masked::sum(input)?`"),
            ("linalg.add_", "`linalg::add_(a)?`"),
            ("linalg.svd", "`linalg::svd(a)?`"),
            ("svd", "`linalg::old_svd(a, some)?`"),
        ] {
            let forms = of(&api, name);
            assert_eq!(forms.function.as_deref(), Some(function));
            assert!(forms.calls.is_empty() && forms.in_place.is_empty());
        }
        assert_eq!(of(&api, "sum").function, None);
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
