//! Dividing an ordinary model in place.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::thread::ThreadId;

use parking_lot::Mutex;
use torsh_core::shape::wrap_dim;
use torsh_functional as F;
use torsh_nn::module::{walk, walk_mut};
use torsh_nn::{
    Dropout, Embedding, FieldMut, FieldRef, Linear, Module, ModuleExt, Parameter, StateDict,
};
use torsh_tensor::{Device, Node, Result, Tensor, TorshError, cat, no_grad};

use super::layers::{join_rows, local_indices, parameter_piece};
use super::pattern::{fits, near};
use super::regions::{Region, cross};
use super::rng::with_sharded_rng;
use super::{AsProcessGroup, ParallelStyle};
use crate::fsdp::check_current;
use crate::group::ProcessGroup;
use crate::reduce::ReduceOp;

const OP: &str = "parallelize_module";

/// Divides the layers of an ordinary model over the ranks of a group, in place (`parallelize_module` of PyTorch).
///
/// The plan, made by [`plan!`](crate::plan!), names modules and says how each is divided: [`Linear`] layers by
/// [`ColumnParallel`](super::ColumnParallel) or [`RowParallel`](super::RowParallel), an [`Embedding`] by
/// [`VocabParallel`](super::VocabParallel), norms and a [`Dropout`] by [`SequenceParallel`](super::SequenceParallel). Their
/// parameters are replaced by this rank's pieces of rank 0's, and hooks communicate. All other parameters and buffers get
/// rank 0's values, so that the ranks begin alike. All ranks of the group call it, before they make an optimizer.
///
/// A model whose code splits into heads must take their number from the tensor (`reshape([b, t, -1, head_dim])`), as a rank
/// has a part of them.
///
/// ```
/// use torsh_distributed::tensor_parallel::parallelize_module;
/// use torsh_distributed::{DeviceMesh, plan, spawn};
/// use torsh_nn::{Linear, Module, ReLU, init, sequential};
/// use torsh_tensor::ones;
///
/// let y = spawn(2, |_| {
///     let mut net = sequential![Linear::new(2, 4), ReLU::new(), Linear::new(4, 1)];
///     for p in torsh_nn::ModuleExt::parameters(&net) {
///         init::ones_(&p)?;
///     }
///     let mesh = DeviceMesh::new(&[2], &["tp"])?;
///     parallelize_module(&mut net, &mesh["tp"], &plan![("0", ColumnParallel), ("2", RowParallel)])?;
///     // 4 times (1 + 1 + 1), and 1.
///     net.forward(&ones([1, 2]))?.item::<f32>()
/// })?;
/// assert_eq!(y, [13.0, 13.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// A name that fits no module (the error lists near ones), a style that a module cannot have, sizes that the ranks do not
/// divide, weights tied to one that is divided otherwise, and a module that somebody else holds. The model is as it was
/// then, but for values that came from rank 0.
#[torsh_tensor::names_caller]
pub fn parallelize_module<M: Module + ?Sized>(
    model: &mut M,
    mesh: &impl AsProcessGroup,
    plan: &[(String, ParallelStyle)],
) -> Result<TensorParallel> {
    let group = mesh.process_group(OP)?;
    let styles = resolve(model, plan)?;
    reachable(model, &styles)?;
    let mut parted = Ok(());
    walk(&*model, &mut |name, field| {
        if let FieldRef::Parameter(p) = field
            && parted.is_ok()
        {
            parted = check_current(OP, name, p, model.type_name());
        }
    });
    parted?;
    let cuts = cuts(model, &styles)?;
    let pieces = pieces(model, &cuts, &group)?;

    let mut failed = None;
    walk_mut(model, &mut |name, field| match field {
        FieldMut::Parameter(p) => {
            if let Some(piece) = pieces.get(&p.id()) {
                p.mark_replaced();
                *p = piece.clone();
            }
        }
        FieldMut::Module(child) => {
            for style in styles.get(name).into_iter().flatten() {
                if let Err(e) = attach(child, name, *style, &group) {
                    failed.get_or_insert(e);
                }
            }
        }
        _ => {}
    });
    match failed {
        Some(e) => Err(e),
        None => Ok(TensorParallel { group, cuts }),
    }
}

type Styles = BTreeMap<String, Vec<ParallelStyle>>;

/// The styles of each module.
fn resolve<M: Module + ?Sized>(model: &M, plan: &[(String, ParallelStyle)]) -> Result<Styles> {
    let modules: Vec<(String, &dyn Module)> = model.named_modules();
    let names: Vec<&str> = modules
        .iter()
        .map(|(n, _)| n.as_str())
        .filter(|n| !n.is_empty())
        .collect();
    let mut styles = Styles::new();
    for (pattern, style) in plan {
        let found: Vec<&&str> = names.iter().filter(|n| fits(pattern, n)).collect();
        if found.is_empty() {
            let text = format!("{} has no module `{pattern}`", model.type_name());
            return Err(
                TorshError::invalid(OP, text).with_hint(match names.is_empty() {
                    true => "it has no modules: put it into a Sequential".to_string(),
                    false => format!("near names are {}", near(pattern, &names, 3).join(", ")),
                }),
            );
        }
        for name in found {
            let of = styles.entry(name.to_string()).or_default();
            if let Some(other) = of.iter().find(|o| divides(**o) && divides(*style)) {
                let text = format!("`{name}` is to be {other:?} and {style:?}");
                return Err(TorshError::invalid(OP, text));
            }
            of.push(*style);
        }
    }
    for (name, module) in &modules {
        for style in styles.get(name).into_iter().flatten() {
            check(name, *module, *style)?;
        }
    }
    Ok(styles)
}

fn divides(style: ParallelStyle) -> bool {
    matches!(
        style,
        ParallelStyle::Column { .. }
            | ParallelStyle::Row { .. }
            | ParallelStyle::Vocab { .. }
            | ParallelStyle::Sequence
    )
}

/// Whether a module can have a style.
fn check(name: &str, module: &dyn Module, style: ParallelStyle) -> Result<()> {
    let kind = module.type_name();
    let any: &dyn Any = module;
    let refuse = |what: &str| {
        Err(TorshError::invalid(
            OP,
            format!("`{name}` is a {kind}, and {style:?} is for {what}"),
        ))
    };
    let (mut hooks, mut children) = (false, false);
    module.visit_fields(&mut |n, field| match field {
        FieldRef::Hooks(_) if !n.contains('.') => hooks = true,
        FieldRef::Module(_) => children = true,
        _ => {}
    });
    if !hooks {
        return Err(TorshError::invalid(OP, format!("`{name}`, a {kind}, has no hooks"))
            .with_hint("add a field `hooks: Hooks` to it, and compute inside of `self.hooks.run(self, x, |x| ..)`"));
    }
    match style {
        ParallelStyle::Column { .. } | ParallelStyle::Row { .. } if !any.is::<Linear>() => refuse(
            "Linear layers; for attention name its projections, or use TensorParallelAttention",
        ),
        ParallelStyle::Vocab { .. } => match any.downcast_ref::<Embedding>() {
            None => refuse("an Embedding"),
            Some(e) => embedding_options(name, e).map(|_| ()),
        },
        ParallelStyle::Sequence if children => {
            refuse("norms and dropouts, which have no modules below them")
        }
        ParallelStyle::Sequence if kind.contains("Dropout") && !any.is::<Dropout>() => {
            refuse("norms and Dropout: whole channels are not parts of a sequence")
        }
        ParallelStyle::Sequence if kind.contains("BatchNorm") || kind.contains("InstanceNorm") => {
            refuse("norms of each position, not of a batch or a length")
        }
        _ => Ok(()),
    }
}

/// The row of an embedding that gets no gradient; an error for options that need all rows in one place.
///
/// A layer keeps its options to itself, but prints them.
fn embedding_options(name: &str, e: &Embedding) -> Result<Option<usize>> {
    let printed = e.extra_repr();
    for option in ["max_norm", "scale_grad_by_freq"] {
        if printed.contains(option) {
            return Err(TorshError::invalid(
                OP,
                format!(
                    "`{name}` is an Embedding({printed}); {option} needs all rows in one place"
                ),
            ));
        }
    }
    let row = printed.split("padding_idx=").nth(1);
    let row = row
        .and_then(|t| t.split(',').next())
        .and_then(|t| t.trim().parse().ok());
    Ok(row)
}

/// An error where a module of the plan cannot be changed, as somebody else holds it.
fn reachable<M: Module + ?Sized>(model: &mut M, styles: &Styles) -> Result<()> {
    let mut seen = BTreeSet::new();
    walk_mut(model, &mut |name, field| {
        if let FieldMut::Module(_) = field {
            seen.insert(name.to_string());
        }
    });
    match styles.keys().find(|n| !seen.contains(*n)) {
        None => Ok(()),
        Some(name) => Err(TorshError::invalid(
            OP,
            format!("`{name}` cannot be changed: it is in an Arc that somebody else holds too"),
        )
        .with_hint("drop the other handles first")),
    }
}

/// The dimension along which each parameter is cut, by name; `None` for one that stays whole.
fn cuts<M: Module + ?Sized>(model: &M, styles: &Styles) -> Result<BTreeMap<String, Option<usize>>> {
    let mut cuts: BTreeMap<String, Option<usize>> = BTreeMap::new();
    let mut first: HashMap<usize, (String, Option<usize>)> = HashMap::new();
    let mut failed = None;
    walk(model, &mut |name, field| {
        let FieldRef::Parameter(p) = field else {
            return;
        };
        let (owner, own) = name.rsplit_once('.').unwrap_or(("", name));
        let style = styles
            .get(owner)
            .and_then(|s| s.iter().find(|s| divides(**s)));
        let cut = match (style, own) {
            (Some(ParallelStyle::Column { .. }), "weight" | "bias") => Some(0),
            (Some(ParallelStyle::Row { .. }), "weight") => Some(1),
            (Some(ParallelStyle::Vocab { .. }), "weight") => Some(0),
            _ => None,
        };
        if cut.is_some() && p.is_uninitialized() {
            let text = format!("`{name}` is not initialised");
            failed.get_or_insert(
                TorshError::invalid(OP, text).with_hint("call forward once, or load a state dict"),
            );
        }
        match first.get(&p.id()) {
            Some((other, before)) if *before != cut => {
                let how = |c: &Option<usize>| match c {
                    None => "stays whole".to_string(),
                    Some(d) => format!("is cut along dimension {d}"),
                };
                let text = format!(
                    "{other} and {name} are tied, but the one {} and the other {}",
                    how(before),
                    how(&cut)
                );
                failed.get_or_insert(
                    TorshError::invalid(OP, text).with_hint("name both modules in the plan"),
                );
            }
            _ => {
                first.insert(p.id(), (name.to_string(), cut));
            }
        }
        cuts.insert(name.to_string(), cut);
    });
    match failed {
        Some(e) => Err(e),
        None => Ok(cuts),
    }
}

/// The pieces of the parameters that are cut, by the identity of the whole. All others get rank 0's values.
fn pieces<M: Module + ?Sized>(
    model: &M,
    cuts: &BTreeMap<String, Option<usize>>,
    group: &ProcessGroup,
) -> Result<HashMap<usize, Parameter>> {
    // All sizes are checked before anything is sent.
    for (name, p) in model.named_parameters() {
        if let Some(d) = cuts.get(&name).copied().flatten() {
            let what = format!("dimension {d} of `{name}` ({})", p.describe());
            super::share(OP, &what, p.dims()[d], group)?;
        }
    }
    let mut pieces = HashMap::new();
    for (name, p) in model.named_parameters() {
        let cut = cuts.get(&name).copied().flatten();
        if p.is_uninitialized() {
            continue;
        }
        let piece = parameter_piece(OP, &name, &p, cut, group)?;
        if cut.is_some() {
            pieces.insert(p.id(), piece);
        }
    }
    for b in model.buffers() {
        if !b.is_uninitialized() && b.device() != Device::Meta {
            group.broadcast_(&b.detach(), 0)?;
        }
    }
    Ok(pieces)
}

/// Registers what communicates.
fn attach(
    module: &mut dyn Module,
    name: &str,
    style: ParallelStyle,
    group: &ProcessGroup,
) -> Result<()> {
    let g = group.clone();
    match style {
        ParallelStyle::Column {
            sequence,
            gather_output,
        } => {
            module.register_forward_pre_hook(move |_, x| match sequence {
                Some(d) => cross(x, Region::GatherToWork(wrap_dim(d, x.ndim())?), &g).map(Some),
                None => cross(x, Region::Copy, &g).map(Some),
            })?;
            if gather_output {
                let g = group.clone();
                module.register_forward_hook(move |_, _, y| {
                    cross(y, Region::Gather(y.ndim().saturating_sub(1)), &g).map(Some)
                })?;
            }
        }
        ParallelStyle::Row {
            sequence,
            whole_input,
        } => {
            if whole_input {
                let g = group.clone();
                module.register_forward_pre_hook(move |_, x| {
                    cross(x, Region::Scatter(x.ndim().saturating_sub(1)), &g).map(Some)
                })?;
            }
            module.register_forward_hook(move |module, _, y| {
                sum_rows(module, y, sequence, &g).map(Some)
            })?;
        }
        ParallelStyle::Vocab { sequence } => attach_embedding(module, name, sequence, group)?,
        ParallelStyle::Sequence => {
            let any: &dyn Any = module;
            match any.is::<Dropout>() {
                true => {
                    module.register_forward_hook(move |module, x, _| redo_dropout(module, x, &g))?
                }
                false => module.register_forward_hook(move |module, x, y| {
                    sum_gradients(module, x, y, &g).map(|()| None)
                })?,
            };
        }
        ParallelStyle::ScatterInput(d) | ParallelStyle::GatherInput(d) => {
            let scatter = matches!(style, ParallelStyle::ScatterInput(_));
            module.register_forward_pre_hook(move |_, x| convert(x, d, scatter, &g).map(Some))?;
        }
        ParallelStyle::ScatterOutput(d) | ParallelStyle::GatherOutput(d) => {
            let scatter = matches!(style, ParallelStyle::ScatterOutput(_));
            module.register_forward_hook(move |_, _, y| convert(y, d, scatter, &g).map(Some))?;
        }
    }
    Ok(())
}

fn convert(x: &Tensor, dim: i64, scatter: bool, group: &ProcessGroup) -> Result<Tensor> {
    let d = wrap_dim(dim, x.ndim())?;
    match scatter {
        true => cross(x, Region::Scatter(d), group),
        false => cross(x, Region::Gather(d), group),
    }
}

/// The sum of a row-parallel layer's results, with the bias once. The layer has added it on each rank; the subtraction takes
/// it back without a gradient, so the gradient that the layer's own addition gives is that of the whole layer.
fn sum_rows(
    module: &dyn Module,
    y: &Tensor,
    sequence: Option<i64>,
    group: &ProcessGroup,
) -> Result<Tensor> {
    if group.size() == 1 {
        return Ok(y.clone());
    }
    let any: &dyn Any = module;
    let bias = any.downcast_ref::<Linear>().and_then(|l| l.bias.as_ref());
    let bias = bias.map(|b| b.detach());
    let y = match &bias {
        Some(b) => y.sub(b)?,
        None => y.clone(),
    };
    let y = match sequence {
        Some(d) => cross(&y, Region::ReduceScatter(wrap_dim(d, y.ndim())?), group)?,
        None => cross(&y, Region::Reduce, group)?,
    };
    match &bias {
        Some(b) => y.add(b),
        None => Ok(y),
    }
}

fn attach_embedding(
    module: &mut dyn Module,
    name: &str,
    sequence: Option<i64>,
    group: &ProcessGroup,
) -> Result<()> {
    let any: &mut dyn Any = module;
    let Some(e) = any.downcast_mut::<Embedding>() else {
        return Err(TorshError::invalid(OP, format!("`{name}` is no Embedding")));
    };
    // The row that gets no gradient is counted in the whole table: the layer is told its place in the piece, if it is there.
    if let Some(row) = embedding_options(name, e)? {
        let (rows, width) = (e.weight.dims()[0], e.weight.dims()[1]);
        let rows = rows / group.size();
        let here = row.checked_sub(rows * group.rank()).filter(|r| *r < rows);
        let training = e.is_training();
        let fresh = Embedding::builder(rows, width)
            .weight(&Tensor::zeros(
                [rows, width],
                e.weight.dtype(),
                e.weight.device(),
            )?)
            .padding_idx(here.map(|r| r as i64))
            .build()?;
        let old = std::mem::replace(e, fresh);
        e.weight = old.weight;
        e.set_training(training);
    }
    let foreign: Arc<Mutex<HashMap<ThreadId, Tensor>>> = Arc::default();
    let (keep, g) = (foreign.clone(), group.clone());
    e.register_forward_pre_hook(move |module, x| {
        let any: &dyn Any = module;
        let Some(e) = any.downcast_ref::<Embedding>() else {
            return Ok(None);
        };
        let (local, foreign) = local_indices("Embedding", x, e.weight.dims()[0], &g)?;
        // The hook after the layer runs on this thread too, before the layer can be called again here.
        keep.lock().insert(std::thread::current().id(), foreign);
        Ok(Some(local))
    })?;
    let g = group.clone();
    e.register_forward_hook(move |_, _, y| {
        match foreign.lock().remove(&std::thread::current().id()) {
            Some(foreign) => join_rows(y, &foreign, sequence, &g).map(Some),
            None => Ok(None),
        }
    })?;
    Ok(())
}

/// A dropout's result with other numbers on each rank. What the layer drew is the same on all ranks, and not used.
fn redo_dropout(module: &dyn Module, x: &Tensor, group: &ProcessGroup) -> Result<Option<Tensor>> {
    let any: &dyn Any = module;
    match any.downcast_ref::<Dropout>() {
        Some(d) if d.is_training() && d.p() > 0.0 => {
            with_sharded_rng(group, || F::dropout(x, d.p(), true)).map(Some)
        }
        _ => Ok(None),
    }
}

/// Makes the gradients of a module's parameters, which come from a part of the sequence, those of the whole.
///
/// They are summed where the module's own ops produce them, in the order of these ops, which is the same on all ranks.
fn sum_gradients(module: &dyn Module, x: &Tensor, y: &Tensor, group: &ProcessGroup) -> Result<()> {
    if group.size() == 1 {
        return Ok(());
    }
    let leaves: Vec<Tensor> = module
        .parameters()
        .iter()
        .map(|p| p.tensor().clone())
        .collect();
    let Some(root) = y.grad_fn() else {
        return Ok(());
    };
    let end = x.grad_fn().map(|n| &*n as *const Node);
    let mut seen: HashSet<*const Node> = HashSet::new();
    let mut stack = vec![root];
    while let Some(node) = stack.pop() {
        let at = &*node as *const Node;
        if Some(at) == end || !seen.insert(at) {
            continue;
        }
        let mut slots = Vec::new();
        for (i, next) in node.next_functions().into_iter().enumerate() {
            let Some((next, _)) = next else { continue };
            match next.variable() {
                Some(leaf) if leaves.iter().any(|l| l.is_same(leaf)) => slots.push(i),
                Some(_) => {}
                None => stack.push(next),
            }
        }
        if slots.is_empty() {
            continue;
        }
        let g = group.clone();
        node.register_hook(Arc::new(move |grads| {
            for &i in &slots {
                if let Some(Some(grad)) = grads.get_mut(i) {
                    *grad = no_grad(|| {
                        let sum = grad.copy()?;
                        g.all_reduce_(&sum, ReduceOp::Sum)?;
                        Ok(sum)
                    })?;
                }
            }
            Ok(())
        }));
    }
    Ok(())
}

/// A model that [`parallelize_module`] divided: which parameters are pieces, and state dicts of the whole.
#[derive(Clone)]
pub struct TensorParallel {
    group: ProcessGroup,
    cuts: BTreeMap<String, Option<usize>>,
}

impl TensorParallel {
    /// The group.
    pub fn group(&self) -> &ProcessGroup {
        &self.group
    }

    /// The dimension along which a parameter is cut; `None` for one that is whole on all ranks.
    ///
    /// ```
    /// use torsh_distributed::tensor_parallel::parallelize_module;
    /// use torsh_distributed::{plan, spawn};
    /// use torsh_nn::{Linear, sequential};
    ///
    /// let cut = spawn(2, |g| {
    ///     let mut net = sequential![Linear::new(4, 2)];
    ///     let tp = parallelize_module(&mut net, &g, &plan![("0", RowParallel)])?;
    ///     Ok([tp.sharded_dim("0.weight"), tp.sharded_dim("0.bias")])
    /// })?;
    /// assert_eq!(cut[0], [Some(1), None]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn sharded_dim(&self, name: &str) -> Option<usize> {
        self.cuts.get(name).copied().flatten()
    }

    /// The state dict of the whole model, on all ranks, which all call it. Its tensors are copies where pieces were joined.
    ///
    /// ```
    /// use torsh_distributed::tensor_parallel::parallelize_module;
    /// use torsh_distributed::{plan, spawn};
    /// use torsh_nn::{Linear, ModuleExt, sequential};
    ///
    /// let same = spawn(2, |g| {
    ///     let mut net = sequential![Linear::new(4, 2)];
    ///     let before = net.state_dict()["0.weight"].copy()?;
    ///     g.broadcast_(&before, 0)?;
    ///     let tp = parallelize_module(&mut net, &g, &plan![("0", ColumnParallel)])?;
    ///     Ok(tp.full_state_dict(&net)?["0.weight"] == before)
    /// })?;
    /// assert_eq!(same, [true, true]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`all_gather`](ProcessGroup::all_gather).
    #[torsh_tensor::names_caller]
    pub fn full_state_dict<M: Module + ?Sized>(&self, model: &M) -> Result<StateDict> {
        let mut whole = StateDict::new();
        let mine = model.state_dict();
        for name in mine.keys() {
            let t = mine[name].detach();
            let t = match self.sharded_dim(name) {
                Some(d) => no_grad(|| cat(&self.group.all_gather(&t.contiguous()?)?, d))?,
                None => t,
            };
            whole.insert(name, t);
        }
        Ok(whole)
    }

    /// Copies this rank's pieces of a whole model's state dict into the model.
    ///
    /// # Errors
    /// Those of [`load_state_dict`](ModuleExt::load_state_dict); a size of `state` that the ranks do not divide.
    #[torsh_tensor::names_caller]
    pub fn load_full_state_dict<M: Module + ?Sized>(
        &self,
        model: &M,
        state: &StateDict,
    ) -> Result<()> {
        let state = &torsh_nn::module::upgraded_state_dict(model, state)?;
        let mut mine = StateDict::new();
        for name in state.keys() {
            let t = state[name].detach();
            let t = match self.sharded_dim(name) {
                Some(d) if d < t.ndim() => {
                    let what = format!("dimension {d} of `{name}` ({})", t.describe());
                    let n = super::share("load_full_state_dict", &what, t.dims()[d], &self.group)?;
                    t.narrow(d, self.group.rank() * n, n)?
                }
                _ => t,
            };
            mine.insert(name, t);
        }
        model.load_state_dict(&mine)
    }

    /// Scales the gradients so that the norm of those of the whole model is at most `max_norm`, and returns that norm (a 0-d
    /// float64 tensor), the same on all ranks, which all call it. Parameters that are whole on all ranks count once.
    ///
    /// ```
    /// use torsh_distributed::tensor_parallel::parallelize_module;
    /// use torsh_distributed::{plan, spawn};
    /// use torsh_nn::{Linear, Module, ModuleExt, sequential};
    /// use torsh_tensor::ones;
    ///
    /// let norms = spawn(2, |g| {
    ///     let mut net = sequential![Linear::builder(2, 2).bias(false).build()?];
    ///     let tp = parallelize_module(&mut net, &g, &plan![("0", ColumnParallel)])?;
    ///     net.forward(&ones([1, 2]))?.sum()?.backward()?;
    ///     // The whole gradient is four ones.
    ///     let norm = tp.clip_grad_norm_(&net, 1.0)?.item::<f64>()?;
    ///     let grad = net.parameters()[0].grad().expect("it has a gradient");
    ///     Ok((norm, (grad.max()?.item::<f32>()? - 0.5).abs() < 1e-5))
    /// })?;
    /// assert_eq!(norms, [(2.0, true), (2.0, true)]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`all_reduce_`](ProcessGroup::all_reduce_).
    #[torsh_tensor::names_caller]
    pub fn clip_grad_norm_<M: Module + ?Sized>(&self, model: &M, max_norm: f64) -> Result<Tensor> {
        no_grad(|| {
            let (mut cut, mut whole) = (0.0, 0.0);
            let mut grads = Vec::new();
            for (name, p) in model.named_parameters() {
                let Some(g) = p.grad() else { continue };
                let square = g
                    .to_dtype(torsh_tensor::DType::F64)?
                    .square()?
                    .sum()?
                    .item::<f64>()?;
                match self.sharded_dim(&name) {
                    Some(_) => cut += square,
                    None => whole += square,
                }
                grads.push(g);
            }
            let sum = Tensor::from_vec(vec![cut], [1])?;
            self.group.all_reduce_(&sum, ReduceOp::Sum)?;
            let norm = (sum.item::<f64>()? + whole).sqrt();
            let scale = max_norm / (norm + 1e-6);
            if scale < 1.0 {
                for g in &grads {
                    g.mul_(scale)?;
                }
            }
            Tensor::scalar(norm, torsh_tensor::DType::F64, Device::Cpu)
        })
    }
}

impl std::fmt::Debug for TensorParallel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let cut: Vec<(&String, usize)> = self
            .cuts
            .iter()
            .filter_map(|(n, c)| c.map(|c| (n, c)))
            .collect();
        f.debug_struct("TensorParallel")
            .field("group", &self.group.name())
            .field("sharded", &cut)
            .finish()
    }
}
