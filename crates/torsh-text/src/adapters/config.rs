//! `adapter_config.json`.

use fancy_regex::Regex;
use serde_json::{Map, Value, json};
use torsh_tensor::named::Named;
use torsh_tensor::{Result, TorshError, named, options};

/// Which modules get an adapter.
///
/// ```
/// use torsh_text::adapters::TargetModules;
/// let names = TargetModules::Names(vec!["q_proj".to_string(), "v_proj".to_string()]);
/// assert_eq!(TargetModules::from(["q_proj", "v_proj"]), names);
/// assert_eq!(TargetModules::from(".*_proj"), TargetModules::Pattern(".*_proj".to_string()));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum TargetModules {
    /// Those whose name is one of these, or ends in `.` and one of these: `["q_proj", "v_proj"]`.
    Names(Vec<String>),
    /// Those whose whole name matches this regular expression; `"all-linear"` stands for all linear layers but the head
    /// that gives the vocabulary, and that of a classifier where `task_type` is `SEQ_CLS`.
    Pattern(String),
}

impl Default for TargetModules {
    fn default() -> Self {
        TargetModules::Names(Vec::new())
    }
}

impl From<&str> for TargetModules {
    fn from(pattern: &str) -> Self {
        TargetModules::Pattern(pattern.to_string())
    }
}

impl From<Vec<String>> for TargetModules {
    fn from(names: Vec<String>) -> Self {
        TargetModules::Names(names)
    }
}

impl From<&[&str]> for TargetModules {
    fn from(names: &[&str]) -> Self {
        TargetModules::Names(names.iter().map(|n| n.to_string()).collect())
    }
}

impl<const N: usize> From<[&str; N]> for TargetModules {
    fn from(names: [&str; N]) -> Self {
        names[..].into()
    }
}

impl TargetModules {
    /// Whether they are all linear layers.
    pub(super) fn is_all_linear(&self) -> bool {
        matches!(self, TargetModules::Pattern(p) if p.eq_ignore_ascii_case("all-linear"))
    }

    /// Whether a module is one of them.
    pub(super) fn take(&self, name: &str) -> Result<bool> {
        match self {
            TargetModules::Names(names) => Ok(names.iter().any(|n| is_or_ends(name, n))),
            TargetModules::Pattern(pattern) => matches(&format!("^(?:{pattern})$"), name),
        }
    }

    fn to_json(&self) -> Value {
        match self {
            TargetModules::Names(names) => json!(names),
            TargetModules::Pattern(pattern) => json!(pattern),
        }
    }
}

/// Whether a name is `end`, or ends in a dot and `end`.
pub(super) fn is_or_ends(name: &str, end: &str) -> bool {
    let before = name.strip_suffix(end);
    before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
}

/// Whether a name matches a regular expression.
pub(super) fn matches(pattern: &str, name: &str) -> Result<bool> {
    let wrong = |e: fancy_regex::Error| error(format!("the regular expression {pattern}: {e}"));
    let regex = Regex::new(pattern).map_err(wrong)?;
    regex.is_match(name).map_err(wrong)
}

/// Which biases are trained besides.
///
/// ```
/// use torsh_nn::{Linear, Sequential};
/// use torsh_text::adapters::{LoraConfig, LoraModel};
/// let trained = |bias: &str| -> torsh_tensor::Result<usize> {
///     let base = Sequential::new().add(Linear::new(3, 4));
///     let config = LoraConfig::new().r(1).target_modules(["0"]).bias(bias);
///     Ok(LoraModel::new(base, config)?.trainable_parameters().0)
/// };
/// assert_eq!((trained("none")?, trained("all")?), (3 + 4, 3 + 4 + 4));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoraBias {
    /// None.
    #[default]
    None,
    /// All of the model.
    All,
    /// Those of the layers that have an adapter.
    LoraOnly,
    /// A string that is none of the words; the function that gets it refuses it.
    #[doc(hidden)]
    Unknown(torsh_tensor::named::Unknown),
}

named! {
    LoraBias, "bias",
    "none" => LoraBias::None,
    "all" => LoraBias::All,
    "lora_only" => LoraBias::LoraOnly,
}

/// What the matrices start from.
///
/// ```
/// use torsh_nn::{Linear, Module, Sequential};
/// use torsh_text::adapters::{LoraConfig, LoraInit, LoraModel};
/// let base = Sequential::new().add(Linear::new(3, 3));
/// let config = LoraConfig::new().target_modules(["0"]).init_lora_weights(LoraInit::Gaussian);
/// let model = LoraModel::new(base, config)?;
/// let (_, layer) = model.adapters().next().expect("the layer has an adapter");
/// assert_eq!(layer.lora_b().tensor(), &torsh_tensor::zeros([3, 8]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoraInit {
    /// A is drawn as a linear layer's weight, B is 0: the model is unchanged.
    #[default]
    Default,
    /// A is drawn from a normal distribution of deviation `1 / r`, B is 0.
    Gaussian,
    /// Both are drawn as weights of linear layers: the model is changed, for tests.
    Random,
    /// A string that is none of the words; the function that gets it refuses it.
    #[doc(hidden)]
    Unknown(torsh_tensor::named::Unknown),
}

named! {
    LoraInit, "init_lora_weights",
    any case,
    "gaussian" => LoraInit::Gaussian,
}

/// `true` is [`LoraInit::Default`], `false` [`LoraInit::Random`].
impl From<bool> for LoraInit {
    fn from(usual: bool) -> Self {
        match usual {
            true => LoraInit::Default,
            false => LoraInit::Random,
        }
    }
}

options! {
    /// The settings of LoRA, with the names and defaults of `peft.LoraConfig`.
    ///
    /// ```
    /// use torsh_text::adapters::LoraConfig;
    /// let config = LoraConfig::new().r(16).lora_alpha(32.0).target_modules(["q_proj", "v_proj"]);
    /// let json = config.to_json();
    /// assert_eq!((&json["peft_type"], &json["lora_alpha"]), (&"LORA".into(), &32.into()));
    /// assert_eq!(LoraConfig::from_json(json)?.target_modules, config.target_modules);
    /// let error = LoraConfig::from_json(serde_json::json!({ "peft_type": "LORA", "use_dora": true }));
    /// assert!(error.is_err_and(|e| e.to_string().contains("use_dora")));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    LoraConfig {
        /// The rank of the change (8).
        r: usize = 8;
        /// The change is scaled by this over the rank (8).
        lora_alpha: f64 = 8.0;
        /// The probability with which inputs of an adapter are dropped (0).
        lora_dropout: f64 = 0.0;
        /// The modules that get an adapter: names, a regular expression, or `"all-linear"`.
        target_modules: TargetModules = TargetModules::default(), impl Into<TargetModules> => Into::into;
        /// The numbers of the layers whose modules get one (all): the `1` of `model.layers.1.self_attn.q_proj`. Only of targets
        /// that are given by the ends of their names.
        layers_to_transform: Option<Vec<usize>> = None, impl IntoIterator<Item = usize> => |v| Some(v.into_iter().collect());
        /// What stands before the number of a layer, as `layers` or `h`, as regular expressions (anything).
        layers_pattern: Vec<String> = Vec::new(), impl IntoIterator<Item = impl Into<String>> => |v| v.into_iter().map(Into::into).collect();
        /// Modules that get none, though they are targets.
        exclude_modules: Option<TargetModules> = None, impl Into<TargetModules> => |v| Some(v.into());
        /// Whether the scale is `lora_alpha` over the root of the rank (false; Kalajdzievski, "A Rank Stabilization
        /// Scaling Factor for Fine-Tuning with LoRA", 2023).
        use_rslora: bool = false;
        /// Which biases are trained besides (none).
        bias: LoraBias = LoraBias::None, impl Into<LoraBias> => Into::into;
        /// Modules that are trained whole and saved whole, such as a new classifier.
        modules_to_save: Vec<String> = Vec::new(), impl IntoIterator<Item = impl Into<String>> => |v| v.into_iter().map(Into::into).collect();
        /// Whether weights that the model ties, such as those of an embedding and the head, are trained and saved as one where
        /// `modules_to_save` has one of their modules (false: that module gets a weight of its own).
        ensure_weight_tying: bool = false;
        /// What the matrices start from.
        init_lora_weights: LoraInit = LoraInit::Default, impl Into<LoraInit> => Into::into;
        /// Other ranks, by regular expressions for the ends of names.
        rank_pattern: Vec<(String, usize)> = Vec::new();
        /// Other values of `lora_alpha`, by regular expressions for the ends of names.
        alpha_pattern: Vec<(String, f64)> = Vec::new();
        /// What the model is for, as `CAUSAL_LM` or `SEQ_CLS`.
        task_type: Option<String> = None, impl Into<String> => |v| Some(v.into());
        /// The model that the adapter belongs to.
        base_model_name_or_path: Option<String> = None, impl Into<String> => |v| Some(v.into());
    }
}

/// The usual names of layers that give logits of classes.
pub(super) const CLASSIFIERS: [&str; 2] = ["classifier", "score"];

/// Fields that change no result here.
const IGNORED: &[&str] = &[
    "auto_mapping",
    "fan_in_fan_out",
    "inference_mode",
    "megatron_core",
    "peft_type",
    "peft_version",
    "qalora_group_size",
    "revision",
];

fn error(why: impl Into<String>) -> TorshError {
    TorshError::format("adapter_config.json", why.into())
}

/// A field's value, where it is there and not null.
fn value<T: serde::de::DeserializeOwned>(
    fields: &mut Map<String, Value>,
    name: &str,
) -> Result<Option<T>> {
    match fields.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            let read = serde_json::from_value(value);
            read.map(Some)
                .map_err(|e| error(format!("field {name}: {e}")))
        }
    }
}

/// A field with names or with a pattern.
fn targets(fields: &mut Map<String, Value>, name: &str) -> Result<Option<TargetModules>> {
    match fields.get(name) {
        Some(Value::String(_)) => Ok(value(fields, name)?.map(TargetModules::Pattern)),
        _ => Ok(value(fields, name)?.map(TargetModules::Names)),
    }
}

/// A field with one item, or with a list of them.
fn list<T: serde::de::DeserializeOwned>(
    fields: &mut Map<String, Value>,
    name: &str,
) -> Result<Option<Vec<T>>> {
    match fields.get(name) {
        Some(Value::Number(_) | Value::String(_)) => Ok(value(fields, name)?.map(|one| vec![one])),
        _ => value(fields, name),
    }
}

impl LoraConfig {
    /// From the JSON object of `adapter_config.json`.
    ///
    /// # Errors
    /// Another kind of adapter, a value of the wrong type, and a field that asks for something that is not computed, such
    /// as `use_dora`. The error names the field.
    #[torsh_tensor::names_caller(Self)]
    pub fn from_json(config: Value) -> Result<LoraConfig> {
        let Value::Object(mut fields) = config else {
            return Err(error("the file holds no JSON object"));
        };
        match fields.get("peft_type").and_then(Value::as_str) {
            Some("LORA") => {}
            Some(other) => {
                return Err(error(format!(
                    "peft_type is {other}; only LORA is supported"
                )));
            }
            None => return Err(error("the field peft_type is missing")),
        }
        let defaults = LoraConfig::default();
        let f = &mut fields;
        let init = match f.remove("init_lora_weights") {
            None | Some(Value::Null) => LoraInit::Default,
            Some(Value::Bool(usual)) => usual.into(),
            Some(Value::String(kind)) if kind.eq_ignore_ascii_case("gaussian") => {
                LoraInit::Gaussian
            }
            Some(other) => {
                return Err(error(format!("init_lora_weights = {other} is not supported"))
                    .with_hint("true, false and \"gaussian\" are; the weights of the file do not depend on it"));
            }
        };
        let bias = value::<String>(f, "bias")?.map_or(LoraBias::None, LoraBias::from);
        let bias = bias.known().map_err(|e| error(e.to_string()))?;
        let ranks: Option<Map<String, Value>> = value(f, "rank_pattern")?;
        let rank = |(name, rank): (String, Value)| match rank.as_u64() {
            Some(rank) => Ok((name, rank as usize)),
            None => Err(error(format!(
                "field rank_pattern: {name} has no rank, but {rank}"
            ))),
        };
        let alphas: Option<Map<String, Value>> = value(f, "alpha_pattern")?;
        let alpha = |(name, alpha): (String, Value)| match alpha.as_f64() {
            Some(alpha) => Ok((name, alpha)),
            None => Err(error(format!(
                "field alpha_pattern: {name} has no number, but {alpha}"
            ))),
        };
        let config = LoraConfig {
            r: value(f, "r")?.unwrap_or(defaults.r),
            lora_alpha: value(f, "lora_alpha")?.unwrap_or(defaults.lora_alpha),
            lora_dropout: value(f, "lora_dropout")?.unwrap_or(defaults.lora_dropout),
            target_modules: targets(f, "target_modules")?.unwrap_or_default(),
            layers_to_transform: list(f, "layers_to_transform")?,
            // An empty text says nothing.
            layers_pattern: list(f, "layers_pattern")?
                .filter(|patterns: &Vec<String>| patterns.concat() != "")
                .unwrap_or_default(),
            exclude_modules: targets(f, "exclude_modules")?,
            use_rslora: value(f, "use_rslora")?.unwrap_or(defaults.use_rslora),
            bias,
            modules_to_save: value(f, "modules_to_save")?.unwrap_or_default(),
            ensure_weight_tying: value(f, "ensure_weight_tying")?.unwrap_or_default(),
            init_lora_weights: init,
            rank_pattern: ranks
                .into_iter()
                .flatten()
                .map(rank)
                .collect::<Result<_>>()?,
            alpha_pattern: alphas
                .into_iter()
                .flatten()
                .map(alpha)
                .collect::<Result<_>>()?,
            task_type: value(f, "task_type")?,
            base_model_name_or_path: value(f, "base_model_name_or_path")?,
        };
        for (name, value) in &fields {
            // A setting that is off asks for nothing.
            let off = match value {
                Value::Null | Value::Bool(false) => true,
                Value::Object(fields) => fields.is_empty(),
                Value::Array(items) => items.is_empty(),
                _ => false,
            };
            // Notes of programs that write adapters.
            let note = name.starts_with('_') || name.starts_with("unsloth");
            if !off && !note && !IGNORED.contains(&name.as_str()) {
                return Err(error(format!("{name} = {value} is not supported"))
                    .with_hint("remove it if it does not change the adapter's results"));
            }
        }
        config.check()?;
        Ok(config)
    }

    /// The JSON object of `adapter_config.json`.
    pub fn to_json(&self) -> Value {
        // peft writes whole numbers where it has them.
        let number = |x: f64| match x.fract() == 0.0 && x.abs() < 1e15 {
            true => json!(x as i64),
            false => json!(x),
        };
        let ranks: Map<String, Value> = self
            .rank_pattern
            .iter()
            .map(|(n, r)| (n.clone(), json!(r)))
            .collect();
        let alphas: Map<String, Value> = self
            .alpha_pattern
            .iter()
            .map(|(n, a)| (n.clone(), number(*a)))
            .collect();
        json!({
            "alpha_pattern": alphas,
            "auto_mapping": null,
            "base_model_name_or_path": self.base_model_name_or_path,
            "bias": self.bias.word(),
            "ensure_weight_tying": self.ensure_weight_tying,
            "exclude_modules": self.exclude_modules.as_ref().map(TargetModules::to_json),
            "fan_in_fan_out": false,
            "inference_mode": true,
            "init_lora_weights": match self.init_lora_weights {
                LoraInit::Default => json!(true),
                LoraInit::Gaussian | LoraInit::Unknown(_) => json!(self.init_lora_weights.word()),
                LoraInit::Random => json!(false),
            },
            "layers_pattern": (!self.layers_pattern.is_empty()).then_some(&self.layers_pattern),
            "layers_to_transform": self.layers_to_transform,
            "lora_alpha": number(self.lora_alpha),
            "lora_dropout": self.lora_dropout,
            "modules_to_save": (!self.modules_to_save.is_empty()).then_some(&self.modules_to_save),
            "peft_type": "LORA",
            "r": self.r,
            "rank_pattern": ranks,
            "revision": null,
            "target_modules": self.target_modules.to_json(),
            "task_type": self.task_type,
            "use_dora": false,
            "use_rslora": self.use_rslora,
        })
    }

    /// Refuses what contradicts itself, as `peft` does, and strings that are none of a setting's words.
    pub(super) fn check(&self) -> Result<()> {
        self.bias.known().map_err(|e| e.renamed("LoraConfig"))?;
        let init = self.init_lora_weights.known();
        init.map_err(|e| e.renamed("LoraConfig"))?;
        let invalid = |why: &str| TorshError::invalid("LoraConfig", why);
        let layers = self.layers_to_transform.is_some() || !self.layers_pattern.is_empty();
        if layers && matches!(self.target_modules, TargetModules::Pattern(_)) {
            return Err(invalid(
                "layers_to_transform and layers_pattern choose among target_modules that are a list of names, not a regular expression",
            )
            .with_hint("give target_modules as a list, or name the layers in the expression"));
        }
        if self.layers_to_transform.is_none() && !self.layers_pattern.is_empty() {
            return Err(
                invalid("layers_pattern says where the numbers of layers are, and layers_to_transform has none")
                    .with_hint("set layers_to_transform"),
            );
        }
        Ok(())
    }

    /// Whether a module is a target (not `"all-linear"`), in one of the layers that are chosen.
    pub(super) fn takes(&self, name: &str) -> Result<bool> {
        if !self.target_modules.take(name)? {
            return Ok(false);
        }
        let whole = match &self.target_modules {
            TargetModules::Names(names) => names.iter().any(|n| n == name),
            TargetModules::Pattern(_) => true,
        };
        match self.layers_to_transform.as_deref() {
            None | Some([]) => Ok(true),
            // A module that is named whole is one whatever its layer.
            Some(_) if whole => Ok(true),
            Some(layers) => Ok(self
                .layer_of(name)?
                .is_some_and(|layer| layers.contains(&layer))),
        }
    }

    /// The number of the layer that a module is in: the first one, because experts have numbers too.
    fn layer_of(&self, name: &str) -> Result<Option<usize>> {
        let number = |pattern: &str| -> Result<Option<Option<usize>>> {
            let wrong =
                |e: fancy_regex::Error| error(format!("the regular expression {pattern}: {e}"));
            let regex = Regex::new(pattern).map_err(wrong)?;
            let found = regex.captures(name).map_err(wrong)?;
            let index = |c: fancy_regex::Captures<'_>| c.name("idx")?.as_str().parse().ok();
            Ok(found.map(index))
        };
        if self.layers_pattern.is_empty() {
            return Ok(number(r"^(?:.*?\.[^.]*\.(?P<idx>\d+)\.)")?.flatten());
        }
        for pattern in &self.layers_pattern {
            if let Some(index) = number(&format!(r"^(?:(?:^|.*?\.){pattern}\.(?P<idx>\d+)\.)"))? {
                return Ok(index);
            }
        }
        Ok(None)
    }

    /// The heads of a task, which are trained whole.
    pub(super) fn add_heads(&mut self) {
        let heads: &[&str] = match self.task_type.as_deref() {
            Some("SEQ_CLS" | "TOKEN_CLS") => &CLASSIFIERS,
            Some("QUESTION_ANS") => &["qa_outputs"],
            _ => &[],
        };
        for head in heads {
            if !self.modules_to_save.iter().any(|name| name == head) {
                self.modules_to_save.push(head.to_string());
            }
        }
    }

    /// The rank and the scale of a module's adapter.
    pub(super) fn rank_and_scale(&self, name: &str) -> Result<(usize, f64)> {
        let mut rank = self.r;
        for (pattern, r) in &self.rank_pattern {
            if matches(&format!(r"^(?:.*\.)?(?:{pattern})$"), name)? {
                rank = *r;
                break;
            }
        }
        let mut alpha = self.lora_alpha;
        for (pattern, a) in &self.alpha_pattern {
            if matches(&format!(r"^(?:.*\.)?(?:{pattern})$"), name)? {
                alpha = *a;
                break;
            }
        }
        if rank == 0 {
            return Err(TorshError::invalid(
                "LoraConfig",
                format!("the rank r of {name} is 0"),
            ));
        }
        let over = match self.use_rslora {
            true => (rank as f64).sqrt(),
            false => rank as f64,
        };
        Ok((rank, alpha / over))
    }

    /// Whether a module is trained whole, or belongs to one that is.
    pub(super) fn is_saved(&self, name: &str) -> bool {
        let parts: Vec<&str> = name.split('.').collect();
        let within = |end: usize, saved: &String| is_or_ends(&parts[..end].join("."), saved);
        let ends = 1..=parts.len();
        ends.into_iter()
            .any(|end| self.modules_to_save.iter().any(|s| within(end, s)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() -> Result<()> {
        let config = LoraConfig::new()
            .r(4)
            .lora_alpha(2.5)
            .lora_dropout(0.1)
            .target_modules(r".*\.(q|v)_proj")
            .exclude_modules(["layers.0.q_proj"])
            .use_rslora(true)
            .bias(LoraBias::LoraOnly)
            .modules_to_save(["classifier"])
            .init_lora_weights(LoraInit::Gaussian)
            .rank_pattern(vec![("layers.1.q_proj".into(), 2)])
            .alpha_pattern(vec![("v_proj".into(), 3.0)])
            .task_type("CAUSAL_LM");
        let read = LoraConfig::from_json(config.to_json())?;
        assert_eq!(read.to_json(), config.to_json());
        assert_eq!(
            read.rank_and_scale("a.layers.1.q_proj")?,
            (2, 2.5 / 2f64.sqrt())
        );
        assert_eq!(read.rank_and_scale("a.layers.0.v_proj")?, (4, 1.5));
        assert!(read.target_modules.take("model.layers.0.q_proj")?);
        assert!(!read.target_modules.take("model.layers.0.q_proj.more")?);
        assert!(read.is_saved("classifier.dense") && !read.is_saved("my_classifier"));
        Ok(())
    }

    #[test]
    fn other_adapters_are_refused() {
        for (config, names) in [
            (json!({ "r": 8 }), "peft_type"),
            (json!({ "peft_type": "IA3" }), "IA3"),
            (json!({ "peft_type": "LORA", "r": "many" }), "field r"),
            (json!({ "peft_type": "LORA", "bias": "some" }), "some"),
            (
                json!({ "peft_type": "LORA", "lora_bias": true }),
                "lora_bias",
            ),
            (
                json!({ "peft_type": "LORA", "init_lora_weights": "pissa" }),
                "pissa",
            ),
            (json!([]), "object"),
        ] {
            let error = LoraConfig::from_json(config).err().map(|e| e.to_string());
            assert!(
                error.as_ref().is_some_and(|e| e.contains(names)),
                "{error:?}"
            );
        }
    }
}
