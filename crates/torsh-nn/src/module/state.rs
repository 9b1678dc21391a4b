//! State dicts: the tensors of a module by name.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::Index;

use torsh_tensor::{Result, Tensor, TorshError, no_grad};

use crate::Module;
use crate::module::ext::ModuleExt;
use crate::module::fields::{Step, as_dyn, own_hooks, walk_steps};
use crate::module::hooks::Lists;
use crate::module::mismatch::{Way, refuse};
use crate::module::parameter::{Parameter, Shared};
use crate::module::replace::reachable;
use crate::module::tied::{split, untied_by};
use crate::module::{FieldMut, FieldRef, ModuleFields, walk, walk_mut};

/// Tensors by name, in the order they were inserted (PyTorch's `OrderedDict`).
///
/// ```
/// use torsh_nn::{Linear, ModuleExt, StateDict};
///
/// let layer = Linear::new(2, 3);
/// let state = layer.state_dict();
/// assert_eq!(state.keys().collect::<Vec<_>>(), ["weight", "bias"]);
/// assert_eq!(state["weight"].dims(), [3, 2]);
///
/// let other = Linear::new(2, 3);
/// other.load_state_dict(&state)?;
/// assert_eq!(other.weight.to_vec::<f32>()?, layer.weight.to_vec::<f32>()?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Default)]
pub struct StateDict {
    entries: Vec<(String, Tensor)>,
    index: HashMap<String, usize>,
}

impl StateDict {
    /// No tensors.
    ///
    /// ```
    /// # use torsh_nn::StateDict;
    /// assert_eq!(StateDict::new().len(), 0);
    /// ```
    pub fn new() -> StateDict {
        StateDict::default()
    }

    /// The tensor of this name.
    ///
    /// ```
    /// # use torsh_nn::StateDict;
    /// # use torsh_tensor::tensor;
    /// let state = StateDict::from([("a", tensor![1.0])]);
    /// assert_eq!(state.get("a"), Some(&tensor![1.0]));
    /// assert_eq!(state.get("b"), None);
    /// ```
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.index.get(name).map(|&i| &self.entries[i].1)
    }

    /// Whether there is a tensor of this name.
    ///
    /// ```
    /// # use torsh_nn::StateDict;
    /// # use torsh_tensor::tensor;
    /// assert!(StateDict::from([("a", tensor![1.0])]).contains_key("a"));
    /// ```
    pub fn contains_key(&self, name: &str) -> bool {
        self.index.contains_key(name)
    }

    /// Puts a tensor under a name; the one that was there comes back.
    ///
    /// ```
    /// # use torsh_nn::StateDict;
    /// # use torsh_tensor::tensor;
    /// let mut state = StateDict::new();
    /// assert_eq!(state.insert("a", tensor![1.0]), None);
    /// assert_eq!(state.insert("a", tensor![2.0]), Some(tensor![1.0]));
    /// ```
    pub fn insert(&mut self, name: impl Into<String>, tensor: impl Into<Tensor>) -> Option<Tensor> {
        let (name, tensor) = (name.into(), tensor.into());
        match self.index.get(&name) {
            Some(&i) => Some(std::mem::replace(&mut self.entries[i].1, tensor)),
            None => {
                self.index.insert(name.clone(), self.entries.len());
                self.entries.push((name, tensor));
                None
            }
        }
    }

    /// Takes out the tensor of this name.
    ///
    /// ```
    /// # use torsh_nn::StateDict;
    /// # use torsh_tensor::tensor;
    /// let mut state = StateDict::from([("a", tensor![1.0]), ("b", tensor![2.0])]);
    /// assert_eq!(state.remove("a"), Some(tensor![1.0]));
    /// assert_eq!(state.keys().collect::<Vec<_>>(), ["b"]);
    /// ```
    pub fn remove(&mut self, name: &str) -> Option<Tensor> {
        let at = self.index.remove(name)?;
        let (_, tensor) = self.entries.remove(at);
        for i in self.index.values_mut() {
            if *i > at {
                *i -= 1;
            }
        }
        Some(tensor)
    }

    /// How many tensors there are.
    ///
    /// ```
    /// # use torsh_nn::StateDict;
    /// # use torsh_tensor::tensor;
    /// assert_eq!(StateDict::from([("a", tensor![1.0]), ("b", tensor![2.0])]).len(), 2);
    /// ```
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    ///
    /// ```
    /// # use torsh_nn::StateDict;
    /// assert!(StateDict::new().is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The names, in order.
    ///
    /// ```
    /// # use torsh_nn::StateDict;
    /// # use torsh_tensor::tensor;
    /// let state = StateDict::from([("b", tensor![1.0]), ("a", tensor![2.0])]);
    /// assert_eq!(state.keys().collect::<Vec<_>>(), ["b", "a"]);
    /// ```
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|(name, _)| name.as_str())
    }

    /// The tensors, in order.
    ///
    /// ```
    /// # use torsh_nn::StateDict;
    /// # use torsh_tensor::tensor;
    /// let state = StateDict::from([("b", tensor![1.0]), ("a", tensor![2.0])]);
    /// assert_eq!(state.values().collect::<Vec<_>>(), [&tensor![1.0], &tensor![2.0]]);
    /// ```
    pub fn values(&self) -> impl Iterator<Item = &Tensor> {
        self.entries.iter().map(|(_, tensor)| tensor)
    }

    /// Names and tensors, in order.
    ///
    /// ```
    /// # use torsh_nn::StateDict;
    /// # use torsh_tensor::tensor;
    /// let state = StateDict::from([("b", tensor![1.0]), ("a", tensor![2.0])]);
    /// assert_eq!(state.iter().next(), Some(("b", &tensor![1.0])));
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.entries
            .iter()
            .map(|(name, tensor)| (name.as_str(), tensor))
    }
}

impl Index<&str> for StateDict {
    type Output = Tensor;

    /// The tensor of this name; panics where there is none. [`StateDict::get`] does not.
    #[track_caller]
    fn index(&self, name: &str) -> &Tensor {
        match self.get(name) {
            Some(tensor) => tensor,
            None => panic!("the state dict has no tensor `{name}`"),
        }
    }
}

impl<S: Into<String>, T: Into<Tensor>> FromIterator<(S, T)> for StateDict {
    fn from_iter<I: IntoIterator<Item = (S, T)>>(items: I) -> Self {
        let mut out = StateDict::new();
        out.extend(items);
        out
    }
}

impl<S: Into<String>, T: Into<Tensor>> Extend<(S, T)> for StateDict {
    fn extend<I: IntoIterator<Item = (S, T)>>(&mut self, items: I) {
        for (name, tensor) in items {
            self.insert(name, tensor);
        }
    }
}

impl<S: Into<String>, T: Into<Tensor>, const N: usize> From<[(S, T); N]> for StateDict {
    fn from(items: [(S, T); N]) -> Self {
        items.into_iter().collect()
    }
}

/// In the order of the sorted names.
impl From<HashMap<String, Tensor>> for StateDict {
    fn from(items: HashMap<String, Tensor>) -> Self {
        items
            .into_iter()
            .collect::<BTreeMap<_, _>>()
            .into_iter()
            .collect()
    }
}

impl From<BTreeMap<String, Tensor>> for StateDict {
    fn from(items: BTreeMap<String, Tensor>) -> Self {
        items.into_iter().collect()
    }
}

impl IntoIterator for StateDict {
    type Item = (String, Tensor);
    type IntoIter = std::vec::IntoIter<(String, Tensor)>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter()
    }
}

impl<'a> IntoIterator for &'a StateDict {
    type Item = &'a (String, Tensor);
    type IntoIter = std::slice::Iter<'a, (String, Tensor)>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.iter()
    }
}

impl fmt::Debug for StateDict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.iter().map(|(name, tensor)| (name, tensor.describe())))
            .finish()
    }
}

/// The options of [`load_state_dict_with`](crate::ModuleExt::load_state_dict_with).
///
/// ```
/// # use torsh_nn::LoadStateDictOptions;
/// assert!(LoadStateDictOptions::default().strict);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LoadStateDictOptions {
    /// Whether missing and unexpected names are errors.
    pub strict: bool,
}

impl Default for LoadStateDictOptions {
    fn default() -> Self {
        LoadStateDictOptions { strict: true }
    }
}

impl LoadStateDictOptions {
    /// PyTorch's defaults: `strict`.
    ///
    /// ```
    /// # use torsh_nn::LoadStateDictOptions;
    /// assert!(LoadStateDictOptions::new().strict);
    /// ```
    pub fn new() -> Self {
        LoadStateDictOptions::default()
    }

    /// Whether missing and unexpected names are errors.
    ///
    /// ```
    /// # use torsh_nn::LoadStateDictOptions;
    /// assert!(!LoadStateDictOptions::default().strict(false).strict);
    /// ```
    #[must_use]
    pub fn strict(mut self, strict: bool) -> Self {
        self.strict = strict;
        self
    }
}

/// The names in which a module and a state dict differ.
///
/// ```
/// # use torsh_nn::{Linear, LoadStateDictOptions, ModuleExt, StateDict};
/// let options = LoadStateDictOptions::default().strict(false);
/// let keys = Linear::new(2, 3).load_state_dict_with(&StateDict::new(), options)?;
/// assert_eq!(keys.missing_keys, ["weight", "bias"]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IncompatibleKeys {
    /// Names of the module that the state dict lacks.
    pub missing_keys: Vec<String>,
    /// Names of the state dict that the module lacks.
    pub unexpected_keys: Vec<String>,
}

/// The tensors that belong to a module's state, tied ones under each of their names.
fn state<M: ModuleFields + ?Sized>(module: &M) -> Vec<(String, &Shared)> {
    let mut out = Vec::new();
    walk(module, &mut |name, field| match field {
        FieldRef::Parameter(p) => out.push((name.to_string(), p.shared())),
        FieldRef::Buffer(b) if b.is_persistent() => out.push((name.to_string(), b.shared())),
        _ => {}
    });
    out
}

/// What PyTorch calls the prefix of a module: its name and a dot, nothing for the module itself.
fn dotted(name: &str) -> String {
    match name {
        "" => String::new(),
        name => format!("{name}."),
    }
}

fn hooks_of(module: &dyn Module) -> Option<Lists> {
    own_hooks(module)?.copy()
}

pub(super) fn state_dict<M: ModuleFields + ?Sized>(module: &M) -> StateDict {
    let mut out = StateDict::new();
    let Some(module) = as_dyn(module) else {
        return out;
    };
    let put = |out: &mut StateDict, name: &str, own: &Shared| {
        if !own.is_uninitialized() {
            out.insert(name, own.tensor().detach());
        }
    };
    walk_steps(module, "", &mut |name, step| match step {
        Step::Enter(m) => {
            if let Some(hooks) = hooks_of(m) {
                hooks.save(m, &dotted(name));
            }
        }
        Step::Field(FieldRef::Parameter(p)) => put(&mut out, name, p.shared()),
        Step::Field(FieldRef::Buffer(b)) if b.is_persistent() => put(&mut out, name, b.shared()),
        Step::Field(_) => {}
        Step::Own(m) => {
            if let Some(extra) = m.get_extra_state() {
                out.insert(dotted(name) + EXTRA_STATE, extra);
            }
        }
        Step::Leave(m) => {
            if let Some(hooks) = hooks_of(m) {
                hooks.saved(m, &mut out, &dotted(name));
            }
        }
    });
    out
}

/// The name of what [`Module::get_extra_state`] gave.
const EXTRA_STATE: &str = "_extra_state";

/// The modules that save more than their tensors, under that name.
fn extra_states<M: ModuleFields + ?Sized>(module: &M) -> Vec<(String, &dyn Module)> {
    let mut out = Vec::new();
    if let Some(module) = as_dyn(module) {
        walk_steps(module, "", &mut |name, step| {
            if let Step::Own(m) = step
                && m.get_extra_state().is_some()
            {
                out.push((dotted(name) + EXTRA_STATE, m));
            }
        });
    }
    out
}

/// The state dict in the form that the module has: what [`load_state_dict`](crate::ModuleExt::load_state_dict) compares with
/// the module, and what other loaders of whole state dicts call first.
///
/// [`Module::upgrade_state_dict`] and the hooks before a load of the module and of those below it have seen it, parents
/// first. As in PyTorch the hooks of a module below see the names that begin with its own.
///
/// ```
/// use torsh_nn::module::upgraded_state_dict;
/// use torsh_nn::{BatchNorm1d, ModuleExt};
///
/// let norm = BatchNorm1d::new(2)?;
/// let mut old = norm.state_dict();
/// old.remove("num_batches_tracked"); // As PyTorch before 0.4.1 saved it.
/// let new = upgraded_state_dict(&norm, &old)?;
/// assert_eq!(new["num_batches_tracked"].item::<i64>()?, 0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Tensors that a module cannot convert, and those of the hooks.
#[torsh_tensor::names_caller]
pub fn upgraded_state_dict<M: ModuleFields + ?Sized>(
    module: &M,
    from: &StateDict,
) -> Result<StateDict> {
    let mut modules = Vec::new();
    if let Some(module) = as_dyn(module) {
        walk_steps(module, "", &mut |name, step| {
            if let Step::Enter(m) = step {
                modules.push((dotted(name), m));
            }
        });
    }
    let mut out = from.clone();
    for (prefix, module) in modules {
        module.upgrade_state_dict(&mut out, &prefix)?;
        let Some(hooks) = hooks_of(module).filter(Lists::has_load) else {
            continue;
        };
        let (mut own, rest): (Vec<_>, Vec<_>) = out
            .into_iter()
            .partition(|(name, _)| name.starts_with(&prefix));
        let mut seen: StateDict = own.drain(..).collect();
        hooks.load(module, &mut seen, &prefix)?;
        out = rest.into_iter().collect();
        out.extend(
            seen.into_iter()
                .filter(|(name, _)| name.starts_with(&prefix)),
        );
    }
    // PyTorch 0.3 had no tensors without dimensions.
    for (name, slot) in state(module) {
        if let Some(t) = out.get(&name)
            && slot.tensor().ndim() == 0
            && t.dims() == [1]
        {
            let t = t.detach().reshape(())?;
            out.insert(name, t);
        }
    }
    Ok(out)
}

/// Calls the hooks after a load, those of modules below first.
fn after_load<M: ModuleFields + ?Sized>(module: &M, keys: &mut IncompatibleKeys) -> Result<()> {
    for (module, hooks) in loaded_hooks(module) {
        hooks.loaded(module, keys)?;
    }
    Ok(())
}

fn loaded_hooks<M: ModuleFields + ?Sized>(module: &M) -> Vec<(&dyn Module, Lists)> {
    let mut out = Vec::new();
    if let Some(module) = as_dyn(module) {
        walk_steps(module, "", &mut |_, step| {
            if let Step::Leave(m) = step
                && let Some(hooks) = hooks_of(m)
                && hooks.has_loaded()
            {
                out.push((m, hooks));
            }
        });
    }
    out
}

/// Compares names, shapes and dtypes: the names in which they differ, and what does not fit.
fn compare<M: ModuleFields + ?Sized>(
    module: &M,
    own: &[(String, &Shared)],
    from: &StateDict,
    way: Way,
) -> (IncompatibleKeys, Vec<String>) {
    let mut keys = IncompatibleKeys::default();
    let mut wrong = Vec::new();
    for (name, slot) in own {
        let tensor = slot.tensor();
        match from.get(name) {
            None => keys.missing_keys.push(name.clone()),
            Some(t) if t.shape() != tensor.shape() && !slot.is_uninitialized() => {
                wrong.push(format!(
                    "{name} is {} here and {} in the state dict",
                    tensor.shape(),
                    t.shape()
                ));
            }
            Some(t)
                if way == Way::Copy
                    && t.layout() != tensor.layout()
                    && !slot.is_uninitialized() =>
            {
                wrong.push(format!(
                    "{name} has the layout {} here and {} in the state dict, which assign_state_dict takes over",
                    tensor.layout(),
                    t.layout()
                ));
            }
            Some(t) if t.dtype().is_complex() && !tensor.dtype().is_complex() => {
                wrong.push(format!(
                    "{name} is {} here and {} in the state dict",
                    tensor.dtype(),
                    t.dtype()
                ));
            }
            Some(_) => {}
        }
    }
    let extra = extra_states(module);
    let missing = extra.iter().filter(|(name, _)| !from.contains_key(name));
    keys.missing_keys
        .extend(missing.map(|(name, _)| name.clone()));
    let names: std::collections::HashSet<&str> = own
        .iter()
        .map(|(name, _)| name.as_str())
        .chain(extra.iter().map(|(name, _)| name.as_str()))
        .collect();
    keys.unexpected_keys.extend(
        from.keys()
            .filter(|name| !names.contains(name))
            .map(String::from),
    );
    (keys, wrong)
}

/// An error where a state dict has different tensors for one parameter: the last would take the place of the others.
#[track_caller]
fn refuse_untied<M: ModuleFields + ?Sized>(module: &M, from: &StateDict) -> Result<()> {
    let parts = untied_by(module, from)?;
    let Some(first) = parts.first() else {
        return Ok(());
    };
    Err(TorshError::invalid(
        "load_state_dict",
        format!(
            "{} are one parameter of {}, and the state dict has different tensors for them",
            first.concat().join(" and "),
            module.type_name()
        ),
    )
    .with_hint("assign_state_dict(&state) takes them apart; or call module::untie first"))
}

/// Checks everything first, so that a refused load leaves the module as it was. Hooks that are called after the load may
/// change the names in which module and state dict differ, so where there are such hooks names are checked after them.
#[track_caller]
pub(super) fn load<M: ModuleFields + ?Sized>(
    module: &M,
    from: &StateDict,
    options: &LoadStateDictOptions,
) -> Result<IncompatibleKeys> {
    let from = &upgraded_state_dict(module, from)?;
    let own = state(module);
    let (mut keys, wrong) = compare(module, &own, from, Way::Copy);
    let late = !loaded_hooks(module).is_empty();
    refuse(module, &keys, wrong, options.strict && !late, Way::Copy)?;
    refuse_untied(module, from)?;
    copy(module, &own, from)?;
    if late {
        after_load(module, &mut keys)?;
        refuse(module, &keys, Vec::new(), options.strict, Way::Copy)?;
    }
    Ok(keys)
}

/// Copies what both have, and hands on what modules save besides.
#[track_caller]
fn copy<M: ModuleFields + ?Sized>(
    module: &M,
    own: &[(String, &Shared)],
    from: &StateDict,
) -> Result<()> {
    no_grad(|| {
        for (name, slot) in own {
            match from.get(name) {
                Some(t) if slot.is_uninitialized() => slot.materialize(&t.copy()?)?,
                Some(t) => {
                    slot.tensor().copy_(t)?;
                }
                None => {}
            }
        }
        for (name, module) in extra_states(module) {
            if let Some(t) = from.get(&name) {
                module.set_extra_state(t)?;
            }
        }
        Ok(())
    })
}

/// [`load`], but tensors of the state dict that have a parameter's dtype and device become the parameter.
#[track_caller]
pub(super) fn assign<M: Module + ?Sized>(module: &mut M, from: &StateDict) -> Result<()> {
    reachable("assign_state_dict", module)?;
    let from = &upgraded_state_dict(&*module, from)?;
    let (mut keys, wrong) = compare(&*module, &state(&*module), from, Way::Assign);
    let late = !loaded_hooks(&*module).is_empty();
    refuse(&*module, &keys, wrong, !late, Way::Assign)?;
    for parts in untied_by(&*module, from)? {
        eprintln!(
            "torsh: {} are one parameter of {}, and the state dict has different tensors for them: each keeps its own",
            parts.concat().join(" and "),
            module.type_name()
        );
        for names in &parts[1..] {
            // All of it is replaced.
            split(module, names, |p| {
                Tensor::empty(p.shape(), p.dtype(), p.device())
            })?;
        }
    }
    let mut taken = HashMap::new();
    let mut rest = StateDict::new();
    walk(&*module, &mut |name, field| {
        let Some(t) = from.get(name) else {
            return;
        };
        let like = |own: &Tensor| {
            t.dtype() == own.dtype()
                && t.device() == own.device()
                && (!t.layout().is_strided() || t.is_contiguous().is_ok_and(|yes| yes))
        };
        match field {
            FieldRef::Parameter(p) if like(p) && !p.is_uninitialized() => {
                // Tied parameters have one tensor.
                taken.entry(p.id()).or_insert_with(|| t.detach());
            }
            _ => {
                rest.insert(name, t.clone());
            }
        }
    });
    let mut parameters = HashMap::new();
    for p in module.parameters() {
        if let Some(t) = taken.remove(&p.id()) {
            let new = Parameter::with_requires_grad(t, p.requires_grad())?;
            parameters.insert(p.id(), new);
        }
    }
    for (name, _) in extra_states(&*module) {
        if let Some(t) = from.get(&name) {
            rest.insert(name, t.clone());
        }
    }
    copy(&*module, &state(&*module), &rest)?;
    walk_mut(module, &mut |_, field| {
        if let FieldMut::Parameter(p) = field
            && let Some(new) = parameters.get(&p.id())
        {
            p.mark_replaced();
            *p = new.clone();
        }
    });
    if late {
        after_load(&*module, &mut keys)?;
        refuse(&*module, &keys, Vec::new(), true, Way::Assign)?;
    }
    Ok(())
}
