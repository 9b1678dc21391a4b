//! Fully sharded training: each rank keeps a piece of each parameter, of its gradient and of its optimizer state.

mod backward;
mod gathered;
mod materialize;
mod optimizers;
mod param;
mod state_dict;
mod unit;
mod wrapper;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use torsh_nn::{FieldMut, FieldRef, Module, ModuleExt, Parameter, module};
use torsh_tensor::{DType, Device, Result, Tensor, TorshError};

pub use gathered::GatheringOptimizer;
pub use optimizers::check_optimizer;
pub use state_dict::{
    full_state_dict, full_state_dict_on, load_full_state_dict, load_full_state_dict_from,
};
pub use wrapper::Sharded;

use crate::{DeviceMesh, Placement, ProcessGroup, ShardedTensor};
pub(crate) use param::ShardedParam;
pub(crate) use unit::{Unit, owner};

torsh_tensor::options! {
    /// In which dtypes a sharded module computes (`torch.distributed.fsdp.MixedPrecisionPolicy`). The pieces, and so the
    /// optimizer, keep the parameters' own.
    ///
    /// ```
    /// use torsh_distributed::MixedPrecisionPolicy;
    /// use torsh_tensor::DType;
    ///
    /// let policy = MixedPrecisionPolicy::new().param_dtype(DType::BF16).reduce_dtype(DType::F32);
    /// assert_eq!(policy.param_dtype, Some(DType::BF16));
    /// assert!(policy.cast_forward_inputs);
    /// ```
    MixedPrecisionPolicy {
        /// The dtype of the whole parameters while the module runs; `None` for their own.
        param_dtype: Option<DType> = None, DType => Some;
        /// The dtype in which gradients are added over ranks; `None` for that of the whole parameters.
        reduce_dtype: Option<DType> = None, DType => Some;
        /// The dtype of what the module returns; `None` for what it computed.
        output_dtype: Option<DType> = None, DType => Some;
        /// Whether inputs of a floating-point dtype are converted to `param_dtype`.
        cast_forward_inputs: bool = true;
    }
}

torsh_tensor::options! {
    /// Sharded parameters, gradients and optimizer states on the CPU, for a model that computes on another device
    /// (`torch.distributed.fsdp.CPUOffloadPolicy`), which so needs the memory of a unit or two and of activations alone.
    ///
    /// Ahead of a unit's forward and backward its pieces are gathered and the whole parameters copied to the device. Its
    /// gradients are copied to the CPU and reduced there, and the optimizer's step is the CPU's. A model on the CPU is as
    /// without the policy. Engines carry memory of the CPU, so pieces are gathered there and then copied, where PyTorch
    /// copies the pieces and gathers on the device; its `pin_memory` has no counterpart.
    ///
    /// ```
    /// use torsh_distributed::{CPUOffloadPolicy, DeviceMesh, FullyShardOptions, fully_shard, spawn};
    /// use torsh_nn::Linear;
    /// use torsh_tensor::Device;
    ///
    /// let devices = spawn(2, |_| {
    ///     let mesh = DeviceMesh::new(&[2], &["dp"])?;
    ///     let mut layer = Linear::new(3, 4); // On a GPU, where there is one.
    ///     let options = FullyShardOptions::new().offload_policy(CPUOffloadPolicy::new());
    ///     fully_shard(&mut layer, &mesh, options)?;
    ///     Ok(layer.weight.device())
    /// })?;
    /// assert_eq!(devices, [Device::Cpu; 2]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    CPUOffloadPolicy {}
}

torsh_tensor::options! {
    /// The options of [`fully_shard`].
    ///
    /// ```
    /// use torsh_distributed::FullyShardOptions;
    ///
    /// let options = FullyShardOptions::new().reshard_after_forward(false);
    /// assert_eq!(options.reshard_after_forward, Some(false));
    /// ```
    FullyShardOptions {
        /// Whether the whole parameters are given back after forward and gathered again for backward. `None` stands for
        /// yes, but for a module with sharded ones within, whose backward begins right after its forward.
        reshard_after_forward: Option<bool> = None, bool => Some;
        /// In which dtypes the module computes.
        mp_policy: MixedPrecisionPolicy = MixedPrecisionPolicy::default();
        /// Whether pieces, gradients and optimizer states are kept on the CPU, whatever device computes. `None` keeps them
        /// on the parameters' device.
        offload_policy: Option<CPUOffloadPolicy> = None, CPUOffloadPolicy => Some;
        /// Whether the next unit is gathered while one computes. Of use on the outermost module.
        prefetch: bool = true;
        /// Whether parameters and buffers get the values of the mesh's first rank.
        sync_module_states: bool = true;
    }
}

impl FullyShardOptions {
    /// Whether pieces are kept on the CPU.
    fn offloads(&self) -> bool {
        self.offload_policy.is_some()
    }
}

/// Splits the parameters of a module over the ranks of a mesh (`torch.distributed.fsdp.fully_shard`).
///
/// Each parameter becomes a piece of its rows: as many for each rank, rounded up, so the last ranks may have fewer or none;
/// the first rank has a parameter without dimensions. Optimizers, gradients and [`ModuleExt::state_dict`] see the pieces.
/// The module sees whole parameters: they are gathered ahead of its forward and given back after it, gathered again for its
/// backward, and its gradients are averaged over the ranks, in rank order, into those of the pieces. So after a step all is
/// bit-equal to data parallel training.
///
/// Call it on the blocks of a model, then on the model itself: the parameters that belong to no block yet become a unit of
/// their own, and the model fetches each block while the one before computes. Build the optimizer afterwards.
///
/// On a mesh of two dimensions the parameters are split over the second, and each piece is kept by all ranks of the first.
///
/// The module computes through its hooks: it needs a field [`torsh_nn::Hooks`], as all layers have; [`Sharded`] serves others. All
/// ranks run the same modules forward and backward. A parameter without a gradient takes part with zeros where another of
/// its unit has one. `torch.autograd.grad` through the module adds to the pieces' gradients too. A rank that fails within
/// forward may leave whole parameters in the module's place; the next forward, or [`FullyShard::reshard`], takes them back.
///
/// Gradients are strided: a backward pass that gives a COO gradient, as an [`Embedding`](torsh_nn::Embedding) with `sparse`
/// does, is an error that names the parameter.
///
/// A module's input that is used outside of it as well, and more than once within, gets its gradient in another order of
/// additions than without sharding: the last bit may differ.
///
/// ```
/// use torsh_distributed::{DeviceMesh, FullyShardOptions, fully_shard, spawn};
/// use torsh_nn::{Linear, Module};
/// use torsh_optim::{Optimizer, SGD};
/// use torsh_tensor::tensor;
///
/// let rows = spawn(2, |_| {
///     let mesh = DeviceMesh::new(&[2], &["dp"])?;
///     let mut layer = Linear::builder(2, 3).bias(false).build()?;
///     layer.weight.detach().fill_(1.0)?;
///     fully_shard(&mut layer, &mesh, FullyShardOptions::default())?;
///     let optimizer = SGD::new([&layer.weight], 0.5)?;
///     layer.forward(&tensor![[1.0, 2.0]])?.sum()?.backward()?;
///     optimizer.step()?;
///     layer.weight.detach().to_vec::<f32>()
/// })?;
/// assert_eq!(rows, [vec![0.5, 0.0, 0.5, 0.0], vec![0.5, 0.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// A module without hooks; one that is in an `Arc` with other owners; parameters on other devices than the CPU and the meta
/// device without a [`CPUOffloadPolicy`], or that are not initialised; a module that is sharded already; a parameter that
/// the module shares with one outside of what is sharded as one unit, such as the weight of an embedding that is also that
/// of the head: the call that meets the other one is refused, and so is the step of an optimizer that has it; meshes of more than two dimensions or of other ranks
/// than those within.
#[torsh_tensor::names_caller]
pub fn fully_shard<M: Module + ?Sized>(
    module: &mut M,
    mesh: &DeviceMesh,
    options: FullyShardOptions,
) -> Result<FullyShard> {
    let mut hooks = false;
    module.visit_fields(&mut |name, field| {
        hooks |= matches!(field, FieldRef::Hooks(_)) && !name.contains('.');
    });
    if !hooks {
        return Err(TorshError::invalid(
            "fully_shard",
            format!("{} has no hooks, through which its parameters would be gathered", module.type_name()),
        )
        .with_hint("add a field `hooks: Hooks` and compute inside of `self.hooks.run(self, x, |x| ..)`, or wrap it: Sharded::new(module, &mesh, options)"));
    }
    let unit = shard(module, mesh, options)?;
    let before = unit.clone();
    module.register_forward_pre_hook(move |_, x| before.before_forward(x).map(Some))?;
    let after = unit.clone();
    module.register_forward_hook(move |_, _, y| after.after_forward(y).map(Some))?;
    Ok(FullyShard(unit))
}

/// The handle of a sharded module. A clone is another handle; dropping it changes nothing.
///
/// ```
/// use torsh_distributed::{DeviceMesh, FullyShardOptions, fully_shard, spawn};
/// use torsh_nn::Linear;
///
/// let counts = spawn(2, |_| {
///     let mesh = DeviceMesh::new(&[2], &["dp"])?;
///     let mut layer = Linear::new(3, 5);
///     let handle = fully_shard(&mut layer, &mesh, FullyShardOptions::default())?;
///     handle.unshard()?;
///     let whole = layer.weight.numel();
///     handle.reshard()?;
///     Ok((whole, layer.weight.numel()))
/// })?;
/// assert_eq!(counts, [(15, 9), (15, 6)]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone)]
pub struct FullyShard(pub(crate) Arc<Unit>);

impl FullyShard {
    /// Whether gradients are added over ranks at the end of the next backward passes, here and in the modules within. While
    /// they are not, they add up as whole gradients, as without sharding.
    pub fn set_requires_gradient_sync(&self, sync: bool) {
        for u in self.0.family() {
            u.set_sync(sync);
        }
    }

    /// [`FullyShard::set_requires_gradient_sync`] to false until the guard is dropped: for all backward passes of a step but
    /// the last.
    ///
    /// ```
    /// use torsh_distributed::{DeviceMesh, FullyShardOptions, fully_shard, spawn};
    /// use torsh_nn::{Linear, Module};
    /// use torsh_tensor::tensor;
    ///
    /// let grads = spawn(2, |g| {
    ///     let mesh = DeviceMesh::new(&[2], &["dp"])?;
    ///     let mut layer = Linear::builder(1, 2).bias(false).build()?;
    ///     let handle = fully_shard(&mut layer, &mesh, FullyShardOptions::default())?;
    ///     let x = tensor![[g.rank() as f32 + 1.0]];
    ///     let quiet = handle.no_sync();
    ///     layer.forward(&x)?.sum()?.backward()?;
    ///     assert!(!layer.weight.has_grad());
    ///     drop(quiet);
    ///     layer.forward(&x)?.sum()?.backward()?;
    ///     layer.weight.grad().map(|g| g.to_vec::<f32>()).transpose()
    /// })?;
    /// assert_eq!(grads, [Some(vec![3.0]), Some(vec![3.0])]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn no_sync(&self) -> FullyShardNoSync {
        self.set_requires_gradient_sync(false);
        FullyShardNoSync(self.clone())
    }

    /// Gathers the whole parameters, here and in the modules within, and shows them until [`FullyShard::reshard`] or the
    /// next forward. All ranks call it. What is written to them is lost.
    ///
    /// # Errors
    /// No memory; the group failed.
    #[torsh_tensor::names_caller]
    pub fn unshard(&self) -> Result<()> {
        for u in self.0.family() {
            u.gather()?;
            u.show(true)?;
        }
        Ok(())
    }

    /// Gives whole parameters back, here and in the modules within.
    ///
    /// # Errors
    /// The group failed.
    #[torsh_tensor::names_caller]
    pub fn reshard(&self) -> Result<()> {
        self.0.reset()
    }

    /// The bytes of the whole parameters of this module without those within: what a rank holds beside its pieces while the
    /// module runs.
    pub fn unit_bytes(&self) -> usize {
        let bytes = |p: &ShardedParam| p.room * p.whole.dtype().size();
        self.0.params().iter().map(bytes).sum()
    }

    /// The mesh.
    pub fn mesh(&self) -> &DeviceMesh {
        &self.0.mesh
    }
}

impl fmt::Debug for FullyShard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (own, inner) = (self.0.params().len(), self.0.inner.len());
        write!(
            f,
            "FullyShard({}: {own} parameters, {inner} units within)",
            self.0.name
        )
    }
}

/// What [`FullyShard::no_sync`] returns.
#[derive(Debug)]
#[must_use = "gradients are added over ranks again when this is dropped"]
pub struct FullyShardNoSync(FullyShard);

impl Drop for FullyShardNoSync {
    fn drop(&mut self) {
        self.0.set_requires_gradient_sync(true);
    }
}

/// Which part of a parameter a rank keeps.
///
/// ```
/// use torsh_distributed::{DeviceMesh, FullyShardOptions, fully_shard, sharding_of, spawn};
/// use torsh_nn::Linear;
///
/// let rows = spawn(2, |_| {
///     let mesh = DeviceMesh::new(&[2], &["dp"])?;
///     let mut layer = Linear::new(3, 5);
///     assert!(sharding_of(&layer.weight).is_none());
///     fully_shard(&mut layer, &mesh, FullyShardOptions::default())?;
///     Ok(sharding_of(&layer.weight).map(|s| (s.global_shape, s.start, s.rows)))
/// })?;
/// assert_eq!(rows, [Some((vec![5, 3], 0, 3)), Some((vec![5, 3], 3, 2))]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ParameterSharding {
    /// The shape of the whole.
    pub global_shape: Vec<usize>,
    /// The first row of the piece.
    pub start: usize,
    /// The rows of the piece.
    pub rows: usize,
    /// The mesh; pieces lie along its last dimension, and each is kept by all ranks of a first of two.
    pub mesh: DeviceMesh,
    /// Whether this rank is the first that keeps this piece.
    pub first: bool,
}

/// Which part of a parameter this rank keeps; `None` for one that is not sharded.
pub fn sharding_of(parameter: &Parameter) -> Option<ParameterSharding> {
    let (unit, i) = owner(parameter)?;
    let params = unit.params();
    let p = params.get(i)?;
    Some(ParameterSharding {
        global_shape: p.shape.clone(),
        start: p.rows.start,
        rows: p.rows.own,
        mesh: unit.mesh.clone(),
        first: unit.replicate.as_ref().is_none_or(|g| g.rank() == 0),
    })
}

/// The piece of a sharded parameter as a [`ShardedTensor`]; `None` for one that is not sharded. It shares the piece's memory.
///
/// ```
/// use torsh_distributed::{DeviceMesh, FullyShardOptions, fully_shard, sharded_parameter, spawn};
/// use torsh_nn::Linear;
///
/// let whole = spawn(2, |_| {
///     let mesh = DeviceMesh::new(&[2], &["dp"])?;
///     let mut layer = Linear::builder(1, 3).bias(false).build()?;
///     layer.weight.detach().fill_(2.0)?;
///     fully_shard(&mut layer, &mesh, FullyShardOptions::default())?;
///     let weight = sharded_parameter(&layer.weight)?.expect("it is sharded");
///     weight.full_tensor()?.to_vec::<f32>()
/// })?;
/// assert_eq!(whole, [[2.0; 3], [2.0; 3]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// A parameter without dimensions, which has no rows.
#[torsh_tensor::names_caller]
pub fn sharded_parameter(parameter: &Parameter) -> Result<Option<ShardedTensor>> {
    let Some((unit, i)) = owner(parameter) else {
        return Ok(None);
    };
    let params = unit.params();
    let Some(p) = params.get(i) else {
        return Ok(None);
    };
    let mut placements = vec![Placement::Shard(0)];
    if unit.replicate.is_some() {
        placements.insert(0, Placement::Replicate);
    }
    ShardedTensor::from_local(&p.piece.detach(), &unit.mesh, &placements, &p.shape).map(Some)
}

/// A parameter of a module, by each of its names.
struct Found {
    name: String,
    parameter: Parameter,
    count: usize,
    /// Whether a field of the module itself holds it.
    direct: bool,
}

/// The distinct parameters of a module, in order.
fn parameters_of<M: Module + ?Sized>(module: &M) -> Vec<Found> {
    let mut found: Vec<Found> = Vec::new();
    module::walk(module, &mut |name, field| {
        if let FieldRef::Parameter(p) = field {
            let direct = !name.contains('.');
            match found.iter_mut().find(|f| f.parameter.is_same(p)) {
                Some(f) => {
                    f.count += 1;
                    f.direct |= direct;
                }
                None => found.push(Found {
                    name: name.to_string(),
                    parameter: p.clone(),
                    count: 1,
                    direct,
                }),
            }
        }
    });
    found
}

/// The group along which pieces lie, and the one along which they are the same.
fn groups_of(mesh: &DeviceMesh) -> Result<(ProcessGroup, Option<ProcessGroup>)> {
    match mesh.ndim() {
        1 => Ok((mesh.group(0)?, None)),
        2 => Ok((mesh.group(1)?, Some(mesh.group(0)?))),
        _ => Err(TorshError::invalid(
            "fully_shard",
            format!("{mesh:?} has more than two dimensions"),
        )
        .with_hint(
            "take one of them, mesh[\"dp\"], or two, mesh.get(&[\"replicate\", \"shard\"])",
        )),
    }
}

/// Makes a unit of the parameters that belong to none yet, and puts pieces in their place.
pub(crate) fn shard<M: Module + ?Sized>(
    module: &mut M,
    mesh: &DeviceMesh,
    options: FullyShardOptions,
) -> Result<Arc<Unit>> {
    let wrong =
        |why: String| TorshError::invalid("fully_shard", format!("{}: {why}", module.type_name()));
    let (group, replicate) = groups_of(mesh)?;
    let found = parameters_of(&*module);
    let mut inner: Vec<Arc<Unit>> = Vec::new();
    let mut own = Vec::new();
    for f in &found {
        if f.parameter.is_uninitialized() {
            return Err(wrong(format!("{} is not initialised", f.name)).with_hint(
                "call the model once with an input as it will be, or load a state dict, first",
            ));
        }
        check_current("fully_shard", &f.name, &f.parameter, module.type_name())?;
        let Some((unit, i)) = owner(&f.parameter) else {
            if f.parameter.unsharded().is_some() {
                return Err(wrong(format!("{} is a piece whose module is gone", f.name)));
            }
            own.push(f);
            continue;
        };
        let params = unit.params();
        let there = params.get(i).map_or("", |p| p.name.as_str());
        if f.direct || unit.count(&f.parameter) != Some(f.count) {
            return Err(wrong(format!(
                "its parameter {} is {there} of {}, which is sharded already",
                f.name, unit.name
            ))
            .with_hint("shard a module once, and modules that share a parameter as one unit: call fully_shard on a module that holds them all, and not on them"));
        }
        if !unit.mesh.is_same(mesh) {
            return Err(wrong(format!(
                "{} within is sharded over {:?} of other ranks than {mesh:?}",
                unit.name, unit.mesh
            )));
        }
        if !inner.iter().any(|u| Arc::ptr_eq(u, &unit)) {
            inner.push(unit);
        }
    }
    // Units within units within, which may own no parameters that are left.
    for u in inner.clone() {
        for deeper in &u.inner {
            if !inner.iter().any(|u| Arc::ptr_eq(u, deeper)) {
                inner.push(deeper.clone());
            }
        }
    }
    let all: HashMap<usize, Parameter> = found
        .iter()
        .map(|f| (f.parameter.id(), f.parameter.clone()))
        .collect();
    for u in &inner {
        let params = u.params();
        let Some(lacking) = params.iter().find(|p| !all.contains_key(&p.parameter.id())) else {
            continue;
        };
        let both = found.iter().find_map(|f| {
            let p = params.iter().find(|p| p.parameter.is_same(&f.parameter))?;
            Some((f.name.clone(), p.name.clone()))
        });
        let (here, there) = both.unwrap_or_default();
        return Err(wrong(format!(
            "its parameter {here} is {there} of another {}, which is sharded already and lies outside of it, as it has no {}",
            u.name, lacking.name
        ))
        .with_hint("modules that share a parameter are one unit: call fully_shard on a module that holds them all, and not on them"));
    }
    let name = module.type_name().to_string();
    if options.sync_module_states && mesh.flat_group().size() > 1 {
        sync_states(&*module, &own, mesh)?;
    }
    let mut counts: HashMap<usize, usize> = found
        .iter()
        .filter(|f| f.parameter.unsharded().is_some())
        .map(|f| (f.parameter.id(), f.count))
        .collect();
    let mut pieces = Vec::new();
    let mut new: HashMap<usize, Parameter> = HashMap::new();
    for f in &own {
        let old = f.parameter.tensor();
        let dtype = match options.mp_policy.param_dtype {
            Some(dtype) if old.dtype().is_differentiable() => dtype,
            _ => old.dtype(),
        };
        let offload = options.offloads();
        let p = ShardedParam::split(&f.name, old, dtype, group.rank(), group.size(), offload)?;
        if old.requires_grad() {
            p.piece.set_requires_grad(true)?;
            p.whole.set_requires_grad(true)?;
        }
        if let Some(grad) = old.grad() {
            p.check_layout(&name, &grad)?;
            let n = old.numel();
            let (start, own) = (p.rows.start * p.rows.width, p.rows.own * p.rows.width);
            let own = grad.detach().reshape([n])?.narrow(0, start, own)?.copy()?;
            p.add_grad(&own.to_device(p.piece.device())?)?;
        }
        counts.insert(p.parameter.id(), f.count);
        new.insert(f.parameter.id(), p.parameter.clone());
        pieces.push(p);
    }
    replace(module, &new)?;
    for f in &own {
        retire(&f.parameter)?;
    }
    Unit::new(
        name,
        pieces,
        counts,
        mesh.clone(),
        group,
        replicate,
        options,
        inner,
    )
}

/// An error where a module has a parameter in whose place another module that shares it has another one: it was sharded, and
/// this module was not part of that.
pub(crate) fn check_current(
    op: &'static str,
    name: &str,
    parameter: &Parameter,
    type_name: &str,
) -> Result<()> {
    if parameter.is_current() {
        return Ok(());
    }
    let why = format!(
        "{type_name}: its parameter {name} was shared with a module that was sharded without it: that module has another parameter now, and the two would be trained apart"
    );
    Err(TorshError::invalid(op, why).with_hint(format!(
        "modules that share a parameter are one unit: call {op} on a module that holds them all, and not on one of them before; or take them apart with torsh_nn::module::untie"
    )))
}

/// Marks a parameter as replaced, so that optimizers made before refuse to go on.
fn retire(parameter: &Parameter) -> Result<()> {
    parameter.tensor().set_grad(None)?;
    parameter.mark_replaced();
    Ok(())
}

/// Gives parameters and buffers the values of the mesh's first rank.
fn sync_states<M: Module + ?Sized>(module: &M, own: &[&Found], mesh: &DeviceMesh) -> Result<()> {
    let mut tensors: Vec<Tensor> = own.iter().map(|f| f.parameter.tensor().detach()).collect();
    tensors.extend(module.buffers().iter().map(|b| b.tensor().detach()));
    tensors.retain(|t| t.device() != Device::Meta && t.numel() > 0);
    if tensors.is_empty() {
        return Ok(());
    }
    // What travels is memory of the CPU: the tensors themselves, or copies that come back.
    let on_host = tensors.iter().map(|t| t.to_device(Device::Cpu));
    let travelling = on_host.collect::<Result<Vec<_>>>()?;
    mesh.flat_group().broadcast_coalesced_(&travelling, 0)?;
    for (t, values) in tensors.iter().zip(&travelling) {
        if t.device() != Device::Cpu {
            t.copy_(values)?;
        }
    }
    Ok(())
}

/// Puts other parameters in the place of those with these numbers, all or none.
pub(crate) fn replace<M: Module + ?Sized>(
    module: &mut M,
    new: &HashMap<usize, Parameter>,
) -> Result<()> {
    let wanted = |p: &Parameter| new.contains_key(&p.id());
    let mut names = Vec::new();
    module::walk(&*module, &mut |name, field| {
        if let FieldRef::Parameter(p) = field
            && wanted(p)
        {
            names.push(name.to_string());
        }
    });
    let mut reached = Vec::new();
    module::walk_mut(module, &mut |name, field| {
        if let FieldMut::Parameter(p) = field
            && wanted(p)
        {
            reached.push(name.to_string());
        }
    });
    if let Some(name) = names.iter().find(|n| !reached.contains(n)) {
        return Err(TorshError::invalid(
            "fully_shard",
            format!("`{name}` cannot be exchanged: its module is in an Arc that somebody else holds too"),
        )
        .with_hint("drop the other handles first; the graph of a checkpointed call is one until its backward or its end"));
    }
    module::walk_mut(module, &mut |_, field| {
        if let FieldMut::Parameter(p) = field
            && let Some(other) = new.get(&p.id())
        {
            *p = other.clone();
        }
    });
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests;
