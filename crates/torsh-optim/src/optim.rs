//! The common part of all optimizers: parameter groups, state, and the loop over the parameters.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use torsh_tensor::{Result, Tensor, TorshError, enable_grad, no_grad_guard};

use crate::param::{Param, ParamGroup, ParamOrGroup};
use crate::sparse;
use crate::{
    GroupState, Optimizer, OptimizerHooks, OptimizerState, Options, ParamState, StateValue,
};

/// Entries of a parameter group that schedulers put there and read, as `OneCycleLR` does. They are given
/// with a group that is added after its scheduler was made.
const SCHEDULER_ENTRIES: [&str; 6] = [
    "initial_lr",
    "max_lr",
    "min_lr",
    "base_momentum",
    "max_momentum",
    "swa_lr",
];

/// What makes one optimizer different from another: its settings, what it remembers of a
/// parameter, and its update.
///
/// ```
/// use torsh_optim::{Algorithm, Optim, Optimizer, ParamState, SgdOptions};
/// # use torsh_tensor::{Result, Tensor, tensor};
/// /// Steps of the learning rate against the gradient's sign; it has SGD's settings.
/// struct SignSgd;
/// impl Algorithm for SignSgd {
///     const NAME: &'static str = "SignSGD";
///     type Options = SgdOptions;
///     type State = ();
///     fn update(o: &SgdOptions, param: &Tensor, grad: &Tensor, _: &mut Option<()>) -> Result<()> {
///         param.sub_(grad.sign()?.mul(o.lr)?).map(|_| ())
///     }
///     fn save(_: &()) -> ParamState {
///         ParamState::new()
///     }
///     fn load(_: &ParamState, _: &Tensor) -> Result<Option<()>> {
///         Ok(Some(()))
///     }
/// }
/// let w = tensor![1.0, -4.0].requires_grad_(true);
/// let optimizer = Optim::<SignSgd>::new([&w], 0.5)?;
/// w.square()?.sum()?.backward()?;
/// optimizer.step()?;
/// assert_eq!(w.detach(), tensor![0.5, -3.5]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub trait Algorithm: Sized + Send + Sync + 'static {
    /// The name, as `SGD`.
    const NAME: &'static str;
    /// The settings of a group.
    type Options: Options;
    /// What is remembered of a parameter.
    type State: Send + 'static;

    /// One step on one parameter; `state` is `None` before the first. Called under `no_grad`.
    fn update(
        options: &Self::Options,
        param: &Tensor,
        grad: &Tensor,
        state: &mut Option<Self::State>,
    ) -> Result<()>;

    /// One step on several parameters. By itself that is [`Algorithm::update`] of each; where a
    /// step is a kernel, one call of it for all.
    fn update_all(steps: &mut [Step<'_, Self>]) -> Result<()> {
        steps
            .iter_mut()
            .try_for_each(|s| Self::update(s.options, s.param, &s.grad, s.state))
    }

    /// [`Algorithm::update_all`], unless `found_inf`, one `float32`, is not 0. By itself that is waited
    /// for; where a step is a kernel, it is told.
    fn update_all_unless(steps: &mut [Step<'_, Self>], found_inf: &Tensor) -> Result<()> {
        match found_inf.item::<f32>()? != 0.0 {
            true => Ok(()),
            false => Self::update_all(steps),
        }
    }

    /// An error where a COO gradient cannot be taken with these settings. By itself the optimizer takes none, and the error
    /// says which ones do.
    fn check_coo(options: &Self::Options) -> Result<()> {
        let _ = options;
        Err(sparse::refused(Self::NAME))
    }

    /// [`Algorithm::update`] with a COO gradient of the parameter's shape, dtype and device, which may name an index more
    /// than once. Called where [`Algorithm::check_coo`] is no error.
    fn update_coo(
        options: &Self::Options,
        param: &Tensor,
        grad: &Tensor,
        state: &mut Option<Self::State>,
    ) -> Result<()> {
        let _ = (param, grad, state);
        Self::check_coo(options)
    }

    /// An error where a parameter of the group of this number cannot be trained.
    fn check(param: &Tensor, group: usize) -> Result<()> {
        let _ = (param, group);
        Ok(())
    }

    /// The state of a parameter that has had no step, where the algorithm has one from the start.
    fn start(options: &Self::Options, param: &Tensor) -> Result<Option<Self::State>> {
        let _ = (options, param);
        Ok(None)
    }

    /// A step on all parameters of the first group together, which calls `closure` for the loss
    /// and the gradients as often as it likes; `None` where steps are of one parameter each.
    const MINIMIZE: Option<Minimize<Self>> = None;

    /// The state by PyTorch's names.
    fn save(state: &Self::State) -> ParamState;

    /// The state from [`Algorithm::save`]'s form, for a parameter; `None` where the saved
    /// parameter had no step yet.
    fn load(saved: &ParamState, param: &Tensor) -> Result<Option<Self::State>>;
}

/// A step on all parameters together; the state is that of the first. See [`Algorithm::MINIMIZE`].
pub type Minimize<A> = fn(
    options: &<A as Algorithm>::Options,
    params: &[Tensor],
    state: &mut Option<<A as Algorithm>::State>,
    closure: &mut dyn FnMut() -> Result<Tensor>,
) -> Result<Tensor>;

/// What [`Algorithm::update`] takes, for one of several parameters.
pub struct Step<'a, A: Algorithm> {
    /// The settings of its group.
    pub options: &'a A::Options,
    /// The parameter.
    pub param: &'a Tensor,
    /// Its gradient.
    pub grad: Tensor,
    /// What is remembered of it.
    pub state: &'a mut Option<A::State>,
}

impl<A: Algorithm> fmt::Debug for Step<'_, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", A::NAME, self.param.describe())
    }
}

struct Slot<A: Algorithm> {
    param: Param,
    state: Option<A::State>,
}

struct Group<A: Algorithm> {
    options: A::Options,
    /// Entries of a loaded state dict that are no settings of this optimizer, kept for whoever
    /// put them there.
    extra: BTreeMap<String, StateValue>,
    slots: Vec<Slot<A>>,
}

struct Inner<A: Algorithm> {
    defaults: A::Options,
    groups: Vec<Group<A>>,
    hooks: OptimizerHooks,
}

/// An optimizer that runs an [`Algorithm`]. A clone is another handle of it.
///
/// Of a sparse parameter the stored values are trained, and what is remembered of it has their shape; its gradient may be
/// strided, or sparse. Strided parameters may have COO gradients in [`SparseAdam`](crate::SparseAdam), and in
/// [`SGD`](crate::SGD) and [`Adagrad`](crate::Adagrad) without weight decay; the others refuse them.
///
/// ```
/// use torsh_optim::{Optim, Optimizer, SgdAlgorithm};
/// # use torsh_tensor::tensor;
/// let w = tensor![1.0].requires_grad_(true);
/// // `SGD` is a name of this type.
/// let optimizer: Optim<SgdAlgorithm> = Optim::new([&w], 0.25)?;
/// w.square()?.sum()?.backward()?;
/// optimizer.step()?;
/// assert_eq!(w.item::<f32>()?, 0.5);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub struct Optim<A: Algorithm>(Arc<Mutex<Inner<A>>>);

impl<A: Algorithm> Clone for Optim<A> {
    fn clone(&self) -> Self {
        Optim(self.0.clone())
    }
}

impl<A: Algorithm> fmt::Debug for Optim<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = self.0.lock();
        writeln!(f, "{} (", A::NAME)?;
        for (i, g) in inner.groups.iter().enumerate() {
            writeln!(f, "Parameter Group {i}: {} parameters", g.slots.len())?;
            for name in A::Options::NAMES {
                if let Some(v) = g.options.get(name) {
                    writeln!(f, "    {name}: {v:?}")?;
                }
            }
        }
        f.write_str(")")
    }
}

/// Builds an optimizer: a method per setting, then [`Builder::build`].
///
/// ```
/// use torsh_optim::{Adam, Optimizer};
/// # use torsh_tensor::tensor;
/// let w = tensor![1.0].requires_grad_(true);
/// let builder = Adam::builder([&w]).lr(0.5).amsgrad(true);
/// assert_eq!(builder.build()?.get_lr(), 0.5);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[must_use = "a builder does nothing until build()"]
pub struct Builder<A: Algorithm> {
    items: Vec<ParamOrGroup>,
    pub(crate) options: A::Options,
}

impl<A: Algorithm> Builder<A> {
    /// The optimizer. Errors: no parameters, a parameter twice, one that is the result of a
    /// recorded op, a setting out of range or unknown.
    ///
    /// ```
    /// use torsh_optim::{Optimizer, SGD};
    /// # use torsh_tensor::tensor;
    /// let w = tensor![1.0].requires_grad_(true);
    /// assert_eq!(SGD::builder([&w]).lr(0.5).build()?.get_lr(), 0.5);
    /// // A learning rate below 0, a parameter given twice.
    /// assert!(SGD::builder([&w]).lr(-1.0).build().is_err());
    /// assert!(SGD::builder([&w, &w]).build().is_err());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn build(self) -> Result<Optim<A>> {
        self.options.validate()?;
        let mut loose = Vec::new();
        let mut groups = Vec::new();
        for item in self.items {
            match item {
                ParamOrGroup::Param(p) => loose.push(p),
                ParamOrGroup::Group(g) => groups.push(g),
            }
        }
        if loose.is_empty() && groups.is_empty() {
            return Err(
                TorshError::invalid(A::NAME, "optimizer got an empty parameter list")
                    .with_hint("pass model.parameters()"),
            );
        }
        if !loose.is_empty() {
            groups.insert(0, ParamGroup::new(loose));
        }
        let optim = Optim(Arc::new(Mutex::new(Inner {
            defaults: self.options,
            groups: Vec::new(),
            hooks: OptimizerHooks::default(),
        })));
        for g in groups {
            optim.add_param_group(g)?;
        }
        Ok(optim)
    }
}

impl<A: Algorithm> Optim<A> {
    /// Starts building an optimizer of parameters (or [`ParamGroup`]s) with PyTorch's defaults.
    ///
    /// ```
    /// use torsh_optim::{Optimizer, SGD};
    /// # use torsh_tensor::tensor;
    /// let w = tensor![1.0].requires_grad_(true);
    /// let optimizer = SGD::builder([&w]).lr(0.5).weight_decay(0.1).build()?;
    /// assert_eq!(optimizer.options(0).map(|o| o.weight_decay), Some(0.1));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn builder<P: Into<ParamOrGroup>>(params: impl IntoIterator<Item = P>) -> Builder<A> {
        Builder {
            items: params.into_iter().map(Into::into).collect(),
            options: A::Options::default(),
        }
    }

    /// An optimizer with PyTorch's defaults but for the learning rate. Errors as
    /// [`Builder::build`].
    ///
    /// ```
    /// use torsh_optim::{Optimizer, SGD};
    /// # use torsh_tensor::tensor;
    /// let w = tensor![1.0].requires_grad_(true);
    /// assert_eq!(SGD::new([&w], 0.5)?.get_lr(), 0.5);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn new<P: Into<ParamOrGroup>>(
        params: impl IntoIterator<Item = P>,
        lr: f64,
    ) -> Result<Optim<A>> {
        let mut b = Self::builder(params);
        b.options.set_lr(lr);
        b.build()
    }

    /// A step on all parameters that have gradients, unless `found_inf` is there and not 0.
    #[track_caller]
    fn update(&self, found_inf: Option<&Tensor>) -> Result<()> {
        let _no_grad = no_grad_guard();
        let mut inner = self.0.lock();
        if A::MINIMIZE.is_some() {
            return Err(TorshError::invalid(
                A::NAME,
                "a step evaluates the loss several times, so it needs a closure",
            )
            .with_hint("call step_closure(|| ..)"));
        }
        check_current(&inner)?;
        make_steps(&mut inner, found_inf).map_err(|e| e.renamed(A::NAME))
    }

    /// A step with a closure, without its hooks.
    fn minimize(&self, closure: &mut dyn FnMut() -> Result<Tensor>) -> Result<Tensor> {
        let Some(minimize) = A::MINIMIZE else {
            let loss = enable_grad(closure)?;
            self.update(None)?;
            return Ok(loss);
        };
        let _no_grad = no_grad_guard();
        // The closure uses the optimizer too, so nothing stays locked while it runs.
        let (options, params, mut state) = {
            let mut inner = self.0.lock();
            check_current(&inner)?;
            let Some(g) = inner.groups.first_mut() else {
                return enable_grad(closure);
            };
            let params: Vec<Tensor> = g.slots.iter().map(|s| s.param.tensor().clone()).collect();
            let state = g.slots.first_mut().and_then(|s| s.state.take());
            (g.options.clone(), params, state)
        };
        let loss = minimize(&options, &params, &mut state, &mut || {
            enable_grad(&mut *closure)
        });
        if let Some(slot) = self
            .0
            .lock()
            .groups
            .first_mut()
            .and_then(|g| g.slots.first_mut())
        {
            slot.state = state;
        }
        loss.map_err(|e| e.renamed(A::NAME))
    }

    /// The state, without its hooks.
    fn save(&self) -> OptimizerState {
        let inner = self.0.lock();
        let mut out = OptimizerState::default();
        let mut number = 0;
        for g in &inner.groups {
            let mut options = g.extra.clone();
            for name in A::Options::NAMES {
                if let Some(v) = g.options.get(name) {
                    options.insert((*name).to_string(), v);
                }
            }
            let first = number;
            for s in &g.slots {
                if let Some(state) = &s.state {
                    out.state.insert(number, A::save(state));
                }
                number += 1;
            }
            out.param_groups.push(GroupState {
                options,
                params: (first..number).collect(),
            });
        }
        out
    }

    /// Takes over a state, without its hooks.
    fn restore(&self, state: &OptimizerState) -> Result<()> {
        let _no_grad = no_grad_guard();
        let mut inner = self.0.lock();
        let (have, given) = (inner.groups.len(), state.param_groups.len());
        if have != given {
            return Err(TorshError::invalid(
                A::NAME,
                format!("the loaded state dict has {given} parameter groups, the optimizer {have}"),
            ));
        }
        let mut loaded = Vec::with_capacity(have);
        for (i, (g, saved)) in inner.groups.iter().zip(&state.param_groups).enumerate() {
            if g.slots.len() != saved.params.len() {
                return Err(TorshError::invalid(
                    A::NAME,
                    format!(
                        "group {i} of the loaded state dict has {} parameters, the optimizer's {}",
                        saved.params.len(),
                        g.slots.len()
                    ),
                ));
            }
            let mut options = g.options.clone();
            let mut extra = BTreeMap::new();
            // What a state of an earlier PyTorch lacks is as it was then: off (RMSprop's momentum too).
            let fresh = A::Options::default();
            for name in A::Options::NAMES {
                let off = match fresh.get(name) {
                    Some(v @ StateValue::Bool(_)) => v,
                    Some(v @ StateValue::Float(0.0)) if *name == "momentum" => v,
                    _ => continue,
                };
                if !saved.options.contains_key(*name) {
                    options.set(name, &off)?;
                }
            }
            for (name, value) in &saved.options {
                if A::Options::NAMES.contains(&name.as_str()) {
                    options.set(name, value)?;
                } else {
                    extra.insert(name.clone(), value.clone());
                }
            }
            options.validate()?;
            let mut slots = Vec::with_capacity(g.slots.len());
            for (slot, number) in g.slots.iter().zip(&saved.params) {
                let param = trained(slot.param.tensor())?;
                let restored = match state.state.get(number) {
                    Some(s) => A::load(s, &param).map_err(|e| e.renamed(A::NAME))?,
                    None => A::start(&options, &param)?,
                };
                slots.push(Slot {
                    param: slot.param.clone(),
                    state: restored,
                });
            }
            loaded.push(Group {
                options,
                extra,
                slots,
            });
        }
        inner.groups = loaded;
        Ok(())
    }

    /// The settings of a group.
    ///
    /// ```
    /// use torsh_optim::Adam;
    /// # use torsh_tensor::tensor;
    /// let w = tensor![1.0].requires_grad_(true);
    /// let optimizer = Adam::new([&w], 0.5)?;
    /// assert_eq!(optimizer.options(0).map(|o| (o.lr, o.betas)), Some((0.5, (0.9, 0.999))));
    /// assert!(optimizer.options(1).is_none());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn options(&self, group: usize) -> Option<A::Options> {
        self.0.lock().groups.get(group).map(|g| g.options.clone())
    }
}

/// What of a parameter is trained, and what its state is as: all of it, or the stored values of a sparse one.
fn trained(param: &Tensor) -> Result<Tensor> {
    Ok(sparse::stored(param)?.unwrap_or_else(|| param.clone()))
}

fn no_group(name: &'static str, group: usize, count: usize) -> TorshError {
    TorshError::index(
        name,
        format!("there is no parameter group {group}, only {count}"),
    )
}

/// An error where a module has put another tensor in a parameter's place.
#[track_caller]
fn check_current<A: Algorithm>(inner: &Inner<A>) -> Result<()> {
    // No closure, which would hide the caller.
    for slot in inner.groups.iter().flat_map(|g| &g.slots) {
        slot.param.check_current(A::NAME)?;
    }
    Ok(())
}

/// The steps of all parameters that have gradients: those with strided ones together, then each one with a COO gradient.
/// Nothing is written where a gradient is refused.
fn make_steps<A: Algorithm>(inner: &mut Inner<A>, found_inf: Option<&Tensor>) -> Result<()> {
    let slots = || inner.groups.iter().flat_map(|g| &g.slots);
    // The values of sparse parameters, by the number of the slot.
    let mut stored: Vec<Option<Tensor>> = Vec::new();
    if slots().any(|s| !s.param.tensor().layout().is_strided()) {
        stored = slots()
            .map(|s| sparse::stored(s.param.tensor()))
            .collect::<Result<_>>()?;
    }
    let mut steps = Vec::with_capacity(slots().count());
    let mut coo = Vec::new();
    let mut number = 0;
    for Group { options, slots, .. } in &mut inner.groups {
        let options = &*options;
        for Slot { param, state } in slots {
            let param = param.tensor();
            let values = stored.get(number).and_then(Option::as_ref);
            number += 1;
            let Some(grad) = param.grad() else {
                continue;
            };
            let of_rows = values.is_none() && sparse::is_coo(A::NAME, param, &grad)?;
            let (param, grad) = match values {
                Some(values) => (values, sparse::at_stored(A::NAME, param, &grad)?),
                None => (param, grad),
            };
            let step = Step {
                options,
                param,
                grad,
                state,
            };
            match of_rows {
                true => {
                    A::check_coo(options)?;
                    coo.push(step);
                }
                false => steps.push(step),
            }
        }
    }
    if coo.is_empty() {
        return match found_inf {
            Some(found_inf) => A::update_all_unless(&mut steps, found_inf),
            None => A::update_all(&mut steps),
        };
    }
    // The host must know which rows are written.
    if let Some(found_inf) = found_inf
        && found_inf.item::<f32>()? != 0.0
    {
        return Ok(());
    }
    A::update_all(&mut steps)?;
    coo.into_iter()
        .try_for_each(|s| A::update_coo(s.options, s.param, &s.grad, s.state))
}

impl<A: Algorithm> Optimizer for Optim<A> {
    #[torsh_tensor::names_caller]
    fn step(&self) -> Result<()> {
        self.hooks().step(self, || self.update(None))
    }

    #[torsh_tensor::names_caller]
    fn step_unless(&self, found_inf: &Tensor) -> Result<()> {
        // Hooks are called where a step is made, so the host must know.
        if self.hooks().has_step() {
            return match found_inf.item::<f32>()? != 0.0 {
                true => Ok(()),
                false => self.step(),
            };
        }
        self.update(Some(found_inf))
    }

    #[torsh_tensor::names_caller]
    fn step_dyn(&self, closure: &mut dyn FnMut() -> Result<Tensor>) -> Result<Tensor> {
        self.hooks().step(self, || self.minimize(closure))
    }

    fn hooks(&self) -> OptimizerHooks {
        self.0.lock().hooks.clone()
    }

    fn handle(&self) -> Arc<dyn Optimizer> {
        Arc::new(self.clone())
    }

    fn id(&self) -> usize {
        Arc::as_ptr(&self.0) as *const () as usize
    }

    fn zero_grad(&self) {
        for slot in self.0.lock().groups.iter().flat_map(|g| &g.slots) {
            slot.param.tensor().zero_grad();
        }
    }

    fn group_lrs(&self) -> Vec<f64> {
        self.0
            .lock()
            .groups
            .iter()
            .map(|g| g.options.lr())
            .collect()
    }

    #[torsh_tensor::names_caller]
    fn set_group_lr(&self, group: usize, lr: f64) -> Result<()> {
        let mut inner = self.0.lock();
        let count = inner.groups.len();
        inner
            .groups
            .get_mut(group)
            .ok_or_else(|| no_group(A::NAME, group, count))?
            .options
            .set_lr(lr);
        Ok(())
    }

    fn set_lr(&self, lr: f64) {
        for g in &mut self.0.lock().groups {
            g.options.set_lr(lr);
        }
    }

    fn get_option(&self, group: usize, name: &str) -> Option<StateValue> {
        let inner = self.0.lock();
        let g = inner.groups.get(group)?;
        g.options.get(name).or_else(|| g.extra.get(name).cloned())
    }

    #[torsh_tensor::names_caller]
    fn set_option(&self, group: usize, name: &str, value: StateValue) -> Result<()> {
        let mut inner = self.0.lock();
        let count = inner.groups.len();
        let g = inner
            .groups
            .get_mut(group)
            .ok_or_else(|| no_group(A::NAME, group, count))?;
        let mut changed = g.options.clone();
        changed.set(name, &value)?;
        changed.validate()?;
        g.options = changed;
        Ok(())
    }

    #[torsh_tensor::names_caller]
    fn set_extra(&self, group: usize, name: &str, value: StateValue) -> Result<()> {
        if A::Options::NAMES.contains(&name) {
            return self.set_option(group, name, value);
        }
        let mut inner = self.0.lock();
        let count = inner.groups.len();
        let g = inner
            .groups
            .get_mut(group)
            .ok_or_else(|| no_group(A::NAME, group, count))?;
        g.extra.insert(name.to_string(), value);
        Ok(())
    }

    fn param_groups(&self) -> Vec<Vec<Param>> {
        self.0
            .lock()
            .groups
            .iter()
            .map(|g| g.slots.iter().map(|s| s.param.clone()).collect())
            .collect()
    }

    #[torsh_tensor::names_caller]
    fn add_param_group(&self, group: ParamGroup) -> Result<()> {
        let mut inner = self.0.lock();
        let mut options = inner.defaults.clone();
        let mut extra = BTreeMap::new();
        for (name, value) in &group.settings {
            let of_scheduler = SCHEDULER_ENTRIES.contains(&name.as_str());
            if of_scheduler && !A::Options::NAMES.contains(&name.as_str()) {
                extra.insert(name.clone(), value.clone());
            } else {
                options.set(name, value)?;
            }
        }
        options.validate()?;
        if group.params.is_empty() {
            return Err(TorshError::invalid(
                A::NAME,
                "a parameter group has no parameters",
            ));
        }
        let mut seen: Vec<&Tensor> = inner
            .groups
            .iter()
            .flat_map(|g| &g.slots)
            .map(|s| s.param.tensor())
            .collect();
        let mut fresh = HashSet::new();
        for p in &group.params {
            let t = p.tensor();
            if !t.is_leaf() {
                return Err(TorshError::invalid(
                    A::NAME,
                    format!("can't optimize a non-leaf Tensor ({})", t.describe()),
                )
                .with_hint("pass the parameters themselves, not what was computed from them"));
            }
            p.check_current(A::NAME)?;
            if A::MINIMIZE.is_some() && !t.layout().is_strided() {
                return Err(TorshError::invalid(
                    A::NAME,
                    format!(
                        "a parameter ({}) has the layout {}",
                        t.describe(),
                        t.layout()
                    ),
                )
                .with_hint("other optimizers train the stored values of sparse parameters"));
            }
            A::check(&trained(t)?, inner.groups.len())?;
            if seen.iter().any(|s| s.is_same(t)) {
                let again = if fresh.contains(&seen.len()) {
                    "twice"
                } else {
                    "in more than one parameter group"
                };
                return Err(TorshError::invalid(
                    A::NAME,
                    format!("a parameter ({}) appears {again}", t.describe()),
                ));
            }
            seen.push(t);
            fresh.insert(seen.len());
        }
        let slots = group
            .params
            .iter()
            .map(|p| {
                Ok(Slot {
                    param: p.clone(),
                    state: A::start(&options, &trained(p.tensor())?)?,
                })
            })
            .collect::<Result<_>>()?;
        inner.groups.push(Group {
            options,
            extra,
            slots,
        });
        Ok(())
    }

    fn state_dict(&self) -> OptimizerState {
        self.hooks().save(self, || self.save())
    }

    #[torsh_tensor::names_caller]
    fn load_state_dict(&self, state: &OptimizerState) -> Result<()> {
        self.hooks().load(self, state, |state| self.restore(state))
    }
}
