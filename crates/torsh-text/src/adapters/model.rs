//! A model with adapters.

use std::any::Any;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use torsh_nn::{
    FieldMut, FieldRef, Linear, Module, ModuleExt, ModuleField, ModuleFields, Parameter,
    RemovableHandle,
};
use torsh_tensor::{Result, Tensor, TorshError, no_grad};

use super::config::{CLASSIFIERS, LoraBias, LoraConfig, TargetModules, is_or_ends};
use super::layer::LoraLayer;
use super::tied::{PREFIX, part_saved};
use crate::blocks::Conv1D;
use crate::generation::GenerationModel;
use crate::models::{ModelInputs, ModelOutputs, TextModel};

/// The names of layers that give logits of the vocabulary, which `"all-linear"` leaves out.
pub(super) const HEADS: [&str; 6] = [
    "lm_head",
    "embed_out",
    "proj_out",
    "decoder",
    "generator_lm_head",
    "cls.predictions.decoder",
];

/// A model whose linear layers have adapters (`peft.PeftModel` of a `LoraConfig`).
///
/// The model itself stays as it is, with its own names below `base_model.model`; all its parameters are frozen but those
/// that the configuration names. The adapter of the layer `NAME` is a [`LoraLayer`] with the parameters
/// `base_model.model.NAME.lora_A.default.weight` and `.lora_B.default.weight`. It acts through a forward hook of the layer,
/// which adds the adapter's result to the layer's. So every way to run the model computes with the adapters: `forward`,
/// its own functions, which are reached through `Deref`, and generation.
///
/// As in `peft`, a `task_type` of `SEQ_CLS`, `TOKEN_CLS` or `QUESTION_ANS` adds the usual names of the new head to
/// `modules_to_save`. `peft` keeps a copy of such modules; here they are trained in place. An embedding or a head that the
/// model ties to the other becomes a weight of its own for that, unless
/// [`ensure_weight_tying`](LoraConfig::ensure_weight_tying) is set.
///
/// Layers that can have an adapter are [`Linear`] and GPT-2's [`Conv1D`].
///
/// ```
/// use torsh_nn::{Linear, Module, ModuleExt, Sequential};
/// use torsh_tensor::{DType, ones};
/// use torsh_text::adapters::{LoraConfig, LoraInit, LoraModel};
///
/// let mut base = Sequential::new().add(Linear::new(3, 3));
/// base.to_dtype(DType::BF16)?; // A frozen model may be of half precision; its adapters are float32.
/// let config = LoraConfig::new().target_modules("all-linear").init_lora_weights(LoraInit::Random);
/// let model = LoraModel::new(base, config)?;
/// model.eval();
/// let x = ones([1, 3]).to_dtype(DType::BF16)?;
/// let with = model.forward(&x)?;
///
/// // Merged into the weights, the adapters cost nothing.
/// let merged = model.merge_and_unload()?;
/// let difference = merged.forward(&x)?.sub(&with)?.abs()?.max()?.item::<f32>()?;
/// assert!(difference < 0.05);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub struct LoraModel<M: Module> {
    base: M,
    /// By the names of their layers.
    layers: Vec<(String, LoraLayer)>,
    config: LoraConfig,
    handles: Vec<RemovableHandle>,
    merged: AtomicBool,
    /// The names of the tables of tokens that a file had besides the adapters.
    tables: Mutex<Vec<String>>,
}

/// A layer that can have an adapter.
enum Base<'a> {
    Linear(&'a Linear),
    Conv1D(&'a Conv1D),
}

impl<'a> Base<'a> {
    fn of(module: &'a dyn Module) -> Option<Base<'a>> {
        let any = module as &dyn Any;
        let linear = any.downcast_ref().map(Base::Linear);
        linear.or_else(|| any.downcast_ref().map(Base::Conv1D))
    }

    fn weight(&self) -> &'a Parameter {
        match self {
            Base::Linear(layer) => &layer.weight,
            Base::Conv1D(layer) => &layer.weight,
        }
    }

    /// Inputs and outputs.
    fn features(&self) -> [usize; 2] {
        match (self, self.weight().dims()) {
            (Base::Linear(_), &[outputs, inputs]) => [inputs, outputs],
            (Base::Conv1D(_), &[inputs, outputs]) => [inputs, outputs],
            _ => [0, 0],
        }
    }
}

fn invalid(why: String) -> TorshError {
    TorshError::invalid("LoraModel", why)
}

impl<M: Module> LoraModel<M> {
    /// Freezes a model and gives its layers adapters.
    ///
    /// # Errors
    /// No module is a target, a setting that is none of its words or contradicts another, a target is not a linear layer,
    /// `modules_to_save` of which the model has none, a regular expression that is none, a rank of 0.
    ///
    /// ```
    /// use torsh_nn::{Linear, Module, Sequential};
    /// use torsh_tensor::ones;
    /// use torsh_text::adapters::{LoraConfig, LoraModel};
    /// let base = Sequential::new().add(Linear::new(3, 3));
    /// let before = base.forward(&ones([1, 3]))?;
    /// // B begins with 0: the model is unchanged.
    /// let model = LoraModel::new(base, LoraConfig::new().target_modules("all-linear"))?;
    /// assert_eq!(model.forward(&ones([1, 3]))?, before);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn new(mut base: M, mut config: LoraConfig) -> Result<LoraModel<M>> {
        config.check()?;
        config.add_heads();
        let targets = targets(&base, &config)?;
        let modules = base.named_modules();
        let there = |name: &String| modules.iter().any(|(module, _)| is_or_ends(module, name));
        if !config.modules_to_save.is_empty() && !config.modules_to_save.iter().any(there) {
            return Err(invalid(format!(
                "modules_to_save are {}, and no module of {} has such a name",
                config.modules_to_save.join(", "),
                base.type_name()
            )));
        }
        if config.target_modules.is_all_linear() {
            // As peft saves it: whoever reads it has the same layers.
            config.target_modules = TargetModules::Names(targets.clone());
        }
        let tied = part_saved(&mut base, &mut config)?;
        base.requires_grad_(false);
        let (mut layers, mut handles) = (Vec::new(), Vec::new());
        for name in targets {
            let module = base.get_submodule(&name)?;
            let layer = Base::of(module).ok_or_else(|| invalid(format!("{name} is no layer")))?;
            let weight = layer.weight();
            let (dtype, device) = (weight.dtype(), weight.device());
            let adapter = LoraLayer::new(&name, layer.features(), dtype, device, &config)?;
            handles.push(module.register_forward_hook(adapter.hook())?);
            layers.push((name, adapter));
        }
        let model = LoraModel {
            base,
            layers,
            config,
            handles,
            merged: AtomicBool::new(false),
            tables: Mutex::new(tied),
        };
        for (_, _, parameter) in model.trained_besides() {
            parameter.tensor().clone().set_requires_grad(true)?;
        }
        Ok(model)
    }

    /// Parameters of the model that are trained and saved besides the adapters: their own names, those in files, and
    /// themselves.
    pub(super) fn trained_besides(&self) -> Vec<(String, String, Parameter)> {
        let mut out = Vec::new();
        for (name, parameter) in self.base.named_parameters() {
            let (module, last) = name.rsplit_once('.').unwrap_or(("", &name));
            let has_adapter = self.layers.iter().any(|(layer, _)| layer == module);
            let as_bias = match self.config.bias {
                LoraBias::None | LoraBias::Unknown(_) => false,
                LoraBias::All => last == "bias",
                LoraBias::LoraOnly => last == "bias" && has_adapter,
            };
            if self.config.is_saved(module) {
                out.push((name.clone(), format!("{PREFIX}{name}"), parameter));
            } else if as_bias {
                let place = if has_adapter { "base_layer." } else { "" };
                let dot = if module.is_empty() { "" } else { "." };
                let file = format!("{PREFIX}{module}{dot}{place}{last}");
                out.push((name.clone(), file, parameter));
            }
        }
        out
    }

    /// The names of the tables of tokens that belong to the adapter, as a file had them.
    pub(super) fn loaded_tables(&self) -> Vec<String> {
        let tables = self.tables.lock();
        tables.unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn add_loaded_tables(&self, names: impl Iterator<Item = String>) {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        for name in names {
            if !tables.contains(&name) {
                tables.push(name);
            }
        }
    }

    /// The model under the adapters. Its functions are also those of this type.
    pub fn base_model(&self) -> &M {
        &self.base
    }

    /// Gives the settings. `"all-linear"` has become the names of the layers.
    ///
    /// ```
    /// use torsh_nn::{Linear, Sequential};
    /// use torsh_text::adapters::{LoraConfig, LoraModel, TargetModules};
    /// let base = Sequential::new().add(Linear::new(3, 3));
    /// let model = LoraModel::new(base, LoraConfig::new().target_modules("all-linear"))?;
    /// assert_eq!(model.config().target_modules, TargetModules::from(["0"]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn config(&self) -> &LoraConfig {
        &self.config
    }

    /// The adapters by the names of their layers.
    pub fn adapters(&self) -> impl Iterator<Item = (&str, &LoraLayer)> {
        self.layers
            .iter()
            .map(|(name, layer)| (name.as_str(), layer))
    }

    /// How many numbers are trained, and how many there are, those of the adapters included.
    ///
    /// ```
    /// use torsh_nn::Linear;
    /// use torsh_nn::Sequential;
    /// use torsh_text::adapters::{LoraConfig, LoraModel};
    /// let base = Sequential::new().add(Linear::new(100, 100));
    /// let model = LoraModel::new(base, LoraConfig::new().r(1).target_modules("all-linear"))?;
    /// assert_eq!(model.trainable_parameters(), (200, 10_300));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn trainable_parameters(&self) -> (usize, usize) {
        let all = self.parameters();
        let trained = all.iter().filter(|p| p.requires_grad());
        let count = trained.map(|p| p.numel()).sum();
        (count, all.iter().map(|p| p.numel()).sum())
    }

    /// Lets the adapters act (`true`), or runs the model as it was (`false`). What is merged stays merged.
    ///
    /// ```
    /// use torsh_nn::{Linear, Module, Sequential};
    /// use torsh_tensor::ones;
    /// use torsh_text::adapters::{LoraConfig, LoraInit, LoraModel};
    /// let base = Sequential::new().add(Linear::new(3, 3));
    /// let before = base.forward(&ones([1, 3]))?;
    /// let config = LoraConfig::new().target_modules(["0"]).init_lora_weights(LoraInit::Random);
    /// let model = LoraModel::new(base, config)?;
    /// assert_ne!(model.forward(&ones([1, 3]))?, before);
    /// model.set_adapters_enabled(false);
    /// assert_eq!(model.forward(&ones([1, 3]))?, before);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn set_adapters_enabled(&self, enabled: bool) {
        let active = enabled && !self.is_merged();
        for (_, layer) in &self.layers {
            layer.set_active(active);
        }
    }

    /// Whether the adapters are merged into the weights.
    pub fn is_merged(&self) -> bool {
        self.merged.load(Ordering::Relaxed)
    }

    /// Adds the adapters to the weights of their layers, so that they cost nothing more. Weights of half precision are
    /// rounded. Merged adapters must not be trained.
    ///
    /// # Errors
    /// A layer whose weight is tied to another one, which would change too; adapters that are merged already.
    ///
    /// ```
    /// use torsh_nn::{Linear, Sequential};
    /// use torsh_text::adapters::{LoraConfig, LoraModel};
    /// let base = Sequential::new().add(Linear::new(3, 3));
    /// let model = LoraModel::new(base, LoraConfig::new().target_modules(["0"]))?;
    /// model.merge()?;
    /// assert!(model.is_merged());
    /// assert!(model.merge().is_err_and(|e| e.to_string().contains("the adapters are merged already")));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn merge(&self) -> Result<()> {
        if self.is_merged() {
            return Err(invalid("the adapters are merged already".into()));
        }
        for (name, _) in &self.layers {
            let weight = self.weight(name)?;
            let mut names = Vec::new();
            torsh_nn::module::walk(&self.base, &mut |name, field| {
                if let FieldRef::Parameter(p) = field
                    && p.is_same(weight)
                {
                    names.push(name.to_string());
                }
            });
            if names.len() > 1 {
                return Err(invalid(format!(
                    "the weight of {name} is tied: it is also {}",
                    names.join(", ")
                ))
                .with_hint("leave this layer out of target_modules, or keep the adapters apart"));
            }
        }
        self.change_weights(true)?;
        self.merged.store(true, Ordering::Relaxed);
        self.set_adapters_enabled(false);
        Ok(())
    }

    /// Takes merged adapters out of the weights again, which are as before but for rounding.
    ///
    /// # Errors
    /// Adapters that are not merged.
    ///
    /// ```
    /// use torsh_nn::{Linear, Module, Sequential};
    /// use torsh_tensor::ones;
    /// use torsh_text::adapters::{LoraConfig, LoraInit, LoraModel};
    /// let base = Sequential::new().add(Linear::new(3, 3));
    /// let config = LoraConfig::new().target_modules(["0"]).init_lora_weights(LoraInit::Random);
    /// let model = LoraModel::new(base, config)?;
    /// let x = ones([1, 3]);
    /// let y = model.forward(&x)?;
    /// model.merge()?;
    /// assert!(model.forward(&x)?.sub(&y)?.abs()?.max()?.item::<f32>()? < 1e-5);
    /// model.unmerge()?;
    /// assert!(model.forward(&x)?.sub(&y)?.abs()?.max()?.item::<f32>()? < 1e-5);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn unmerge(&self) -> Result<()> {
        if !self.is_merged() {
            return Err(invalid("the adapters are not merged".into()));
        }
        self.change_weights(false)?;
        self.merged.store(false, Ordering::Relaxed);
        self.set_adapters_enabled(true);
        Ok(())
    }

    /// Merges the adapters, where they are not, and gives back the model alone. Its parameters stay frozen.
    ///
    /// # Errors
    /// As [`merge`](LoraModel::merge).
    #[torsh_tensor::names_caller]
    pub fn merge_and_unload(self) -> Result<M> {
        if !self.is_merged() {
            self.merge()?;
        }
        Ok(self.unload())
    }

    /// Gives the model back without adapters. What is merged stays merged.
    ///
    /// ```
    /// use torsh_nn::{Linear, Module, Sequential};
    /// use torsh_tensor::ones;
    /// use torsh_text::adapters::{LoraConfig, LoraInit, LoraModel};
    /// let base = Sequential::new().add(Linear::new(3, 3));
    /// let before = base.forward(&ones([1, 3]))?;
    /// let config = LoraConfig::new().target_modules(["0"]).init_lora_weights(LoraInit::Random);
    /// let base = LoraModel::new(base, config)?.unload();
    /// assert_eq!(base.forward(&ones([1, 3]))?, before);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn unload(self) -> M {
        self.handles.into_iter().for_each(RemovableHandle::remove);
        self.base
    }

    #[track_caller]
    fn weight(&self, name: &str) -> Result<&Parameter> {
        let layer = Base::of(self.base.get_submodule(name)?);
        let layer = layer.ok_or_else(|| invalid(format!("{name} is no linear layer")))?;
        Ok(layer.weight())
    }

    #[track_caller]
    fn change_weights(&self, add: bool) -> Result<()> {
        for (name, adapter) in &self.layers {
            let module = self.base.get_submodule(name)?;
            let weight = self.weight(name)?;
            no_grad(|| {
                let mut delta = adapter.delta_weight()?;
                if let Some(Base::Conv1D(_)) = Base::of(module) {
                    delta = delta.t()?;
                }
                // The sum is rounded once.
                let delta = if add { delta } else { delta.neg()? };
                let sum = weight.to_dtype(delta.dtype())?.add(&delta)?;
                weight.copy_(&sum)
            })?;
        }
        Ok(())
    }
}

/// The names of the layers that get adapters.
#[track_caller]
fn targets<M: Module>(base: &M, config: &LoraConfig) -> Result<Vec<String>> {
    let modules = base.named_modules();
    let linear = |(name, module): &(String, &dyn Module)| {
        let layer = Base::of(*module)?;
        Some((name.clone(), layer.weight().clone()))
    };
    let layers: Vec<(String, Parameter)> = modules.iter().filter_map(linear).collect();
    let mut found = Vec::new();
    for (name, module) in &modules {
        let taken = match config.target_modules.is_all_linear() {
            true => Base::of(*module).is_some() && !is_head(base, name, &layers, config),
            false => config.takes(name)?,
        };
        let excluded = match &config.exclude_modules {
            Some(excluded) => excluded.take(name)?,
            None => false,
        };
        if !taken || excluded || config.is_saved(name) {
            continue;
        }
        if Base::of(*module).is_none() {
            return Err(invalid(format!(
                "the target {name} is a {}, and adapters are for linear layers",
                module.type_name()
            )));
        }
        found.push(name.clone());
    }
    if found.is_empty() {
        if let Some(layers) = &config.layers_to_transform
            && let Some(name) = modules
                .iter()
                .map(|(name, _)| name)
                .find(|n| config.target_modules.take(n).is_ok_and(|t| t))
        {
            let before = match config.layers_pattern.as_slice() {
                [] => String::new(),
                patterns => format!(" with layers_pattern = {patterns:?}"),
            };
            return Err(invalid(format!(
                "no module of target_modules is in one of the layers {layers:?}{before}; there is {name}"
            )));
        }
        let mut ends: Vec<&str> = layers
            .iter()
            .map(|(name, _)| name.rsplit('.').next().unwrap_or(name))
            .collect();
        ends.sort_unstable();
        ends.dedup();
        return Err(invalid(format!(
            "target_modules = {:?} are no modules of {}",
            config.target_modules,
            base.type_name()
        ))
        .with_hint(format!(
            "its linear layers are named {}; \"all-linear\" takes them all",
            ends.join(", ")
        )));
    }
    Ok(found)
}

/// Whether a layer gives the logits of the vocabulary, or of classes.
fn is_head<M: Module>(
    base: &M,
    name: &str,
    layers: &[(String, Parameter)],
    config: &LoraConfig,
) -> bool {
    let named = |heads: &[&str]| heads.iter().any(|head| is_or_ends(name, head));
    if named(&HEADS) || config.task_type.as_deref() == Some("SEQ_CLS") && named(&CLASSIFIERS) {
        return true;
    }
    // A layer whose weight is the embedding's.
    let Some((_, weight)) = layers.iter().find(|(layer, _)| layer == name) else {
        return false;
    };
    let mut holders = 0;
    torsh_nn::module::walk(base, &mut |_, field| {
        if let FieldRef::Parameter(p) = field {
            holders += usize::from(p.is_same(weight));
        }
    });
    holders > 1
}

impl<M: Module> Deref for LoraModel<M> {
    type Target = M;

    fn deref(&self) -> &M {
        &self.base
    }
}

impl<M: Module> Module for LoraModel<M> {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.base.forward(x)
    }
}

impl<M: TextModel> TextModel for LoraModel<M> {
    #[track_caller]
    fn forward_named(&self, inputs: &ModelInputs) -> Result<ModelOutputs> {
        self.base.forward_named(inputs)
    }

    fn as_generation(&self) -> Option<&dyn GenerationModel> {
        self.base.as_generation()
    }
}

impl<M: Module> ModuleFields for LoraModel<M> {
    fn visit_fields<'a>(&'a self, visitor: &mut dyn FnMut(&str, FieldRef<'a>)) {
        visitor("base_model.model", FieldRef::Module(&self.base));
        for (name, layer) in &self.layers {
            visitor(&format!("{PREFIX}{name}"), FieldRef::Module(layer));
        }
    }

    fn visit_fields_mut(&mut self, visitor: &mut dyn FnMut(&str, FieldMut<'_>)) {
        visitor("base_model.model", FieldMut::Module(&mut self.base));
        for (name, layer) in &mut self.layers {
            visitor(&format!("{PREFIX}{name}"), FieldMut::Module(layer));
        }
    }

    fn type_name(&self) -> &'static str {
        "LoraModel"
    }
}

impl<M: Module> ModuleField for LoraModel<M> {
    fn visit_field<'a>(&'a self, name: &str, visitor: &mut dyn FnMut(&str, FieldRef<'a>)) {
        visitor(name, FieldRef::Module(self));
    }

    fn visit_field_mut(&mut self, name: &str, visitor: &mut dyn FnMut(&str, FieldMut<'_>)) {
        visitor(name, FieldMut::Module(self));
    }
}

#[cfg(test)]
mod tests {
    use super::super::LoraInit;
    use super::*;
    use torsh_nn::{ReLU, Sequential};
    use torsh_tensor::{DType, ones};

    fn base() -> Sequential {
        Sequential::new()
            .add(Linear::new(4, 6))
            .add(ReLU::new())
            .add(Linear::new(6, 2))
    }

    fn config() -> LoraConfig {
        LoraConfig::new().r(3).init_lora_weights(LoraInit::Random)
    }

    fn difference(a: &Tensor, b: &Tensor) -> Result<f64> {
        a.sub(b)?.abs()?.max()?.item::<f64>()
    }

    #[test]
    fn adapters_follow_a_conversion_of_their_model() -> Result<()> {
        let mut model = LoraModel::new(base(), config().target_modules("all-linear"))?;
        let x = ones([2, 4]);
        let single = model.forward(&x)?;
        model.to_dtype(DType::F64)?;
        let double = model.forward(&x.to_dtype(DType::F64)?)?;
        assert_eq!(double.dtype(), DType::F64);
        assert!(difference(&double, &single.to_dtype(DType::F64)?)? < 1e-5);
        model.forward(&x.to_dtype(DType::F64)?)?.sum()?.backward()?;
        let mut found = 0;
        for (name, p) in model.named_parameters() {
            assert_eq!(p.has_grad(), name.contains("lora_"), "{name}");
            found += usize::from(p.has_grad());
        }
        assert_eq!(found, 4);
        Ok(())
    }

    #[test]
    fn gpt2s_layers_are_merged_transposed() -> Result<()> {
        let base = Sequential::new().add(Conv1D::new(4, 6, 0.5)?);
        let model = LoraModel::new(base, config().target_modules(["0"]))?;
        let x = ones([2, 4]);
        let with = model.forward(&x)?;
        model.set_adapters_enabled(false);
        assert!(difference(&model.forward(&x)?, &with)? > 1e-3);
        model.set_adapters_enabled(true);
        let merged = model.merge_and_unload()?;
        assert!(difference(&merged.forward(&x)?, &with)? < 1e-5);
        Ok(())
    }

    #[test]
    fn what_is_named_is_trained_and_nothing_else() -> Result<()> {
        let of = |config: LoraConfig| -> Result<Vec<String>> {
            let model = LoraModel::new(base(), config)?;
            let all = model.named_parameters().into_iter();
            Ok(all
                .filter(|(_, p)| p.requires_grad())
                .map(|(n, _)| n)
                .collect())
        };
        let a = "base_model.model.0.lora_A.default.weight";
        let b = "base_model.model.0.lora_B.default.weight";
        let (w, c) = ("base_model.model.2.weight", "base_model.model.2.bias");
        let first = || config().target_modules(["0"]);
        assert_eq!(of(first())?, [a, b]);
        assert_eq!(of(first().modules_to_save(["2"]))?, [w, c, a, b]);
        let bias = "base_model.model.0.bias";
        assert_eq!(of(first().bias(LoraBias::LoraOnly))?, [bias, a, b]);
        assert_eq!(of(first().bias(LoraBias::All))?, [bias, c, a, b]);
        let all = config().target_modules("all-linear").exclude_modules(["2"]);
        assert_eq!(of(all)?, [a, b]);
        Ok(())
    }

    #[test]
    fn errors_name_what_is_wrong() {
        for (config, names) in [
            (config(), "all-linear"),
            (config().target_modules(["1"]), "ReLU"),
            (config().target_modules("("), "regular expression"),
            (
                config().target_modules(["0"]).modules_to_save(["head"]),
                "head",
            ),
            (config().target_modules(["0"]).r(0), "rank"),
            (
                config().target_modules(["0"]).lora_dropout(2.0),
                "lora_dropout",
            ),
        ] {
            let error = LoraModel::new(base(), config).err().map(|e| e.to_string());
            assert!(
                error.as_ref().is_some_and(|e| e.contains(names)),
                "{error:?}"
            );
        }
    }
}
