//! Whole state dicts of sharded models.

use std::collections::{HashMap, HashSet};

use torsh_nn::{FieldRef, Module, ModuleExt, Parameter, StateDict, module};
use torsh_tensor::{Device, Result, Tensor, TorshError, no_grad};

use super::{ShardedParam, owner};
use crate::ProcessGroup;

/// The whole values of a parameter, gathered from the ranks that have its pieces.
fn whole_of(p: &ShardedParam, group: &ProcessGroup) -> Result<Tensor> {
    let numel = p.shape.iter().product::<usize>();
    let room = p.rows.padded() * group.size();
    let all = Tensor::zeros([room], p.piece.dtype(), p.piece.device())?;
    if room > 0 {
        group.all_gather_into_(&all, &p.padded)?;
    }
    let whole = all.narrow(0, 0, numel)?.reshape(p.shape.clone())?;
    match room == numel {
        true => Ok(whole.detach()),
        false => whole.copy(),
    }
}

/// What is saved of a module.
enum Entry {
    Parameter(Parameter),
    Buffer(Tensor),
}

/// What is saved of a module, by names.
fn entries<M: Module + ?Sized>(module: &M) -> Vec<(String, Entry)> {
    let mut all = Vec::new();
    module::walk(module, &mut |name, field| match field {
        FieldRef::Parameter(p) if !p.is_uninitialized() => {
            all.push((name.to_string(), Entry::Parameter(p.clone())))
        }
        FieldRef::Buffer(b) if b.is_persistent() && !b.is_uninitialized() => {
            all.push((name.to_string(), Entry::Buffer(b.tensor().clone())));
        }
        _ => {}
    });
    all
}

/// The state dict of a sharded model with whole tensors, on all ranks. Buffers, and parameters that are not sharded, are
/// this rank's own, and shared. All ranks of the mesh call it.
///
/// ```
/// use torsh_distributed::{DeviceMesh, FullyShardOptions, full_state_dict, fully_shard, spawn};
/// use torsh_nn::{Linear, ModuleExt};
///
/// let shapes = spawn(2, |_| {
///     let mesh = DeviceMesh::new(&[2], &["dp"])?;
///     let mut layer = Linear::new(2, 3);
///     fully_shard(&mut layer, &mesh, FullyShardOptions::default())?;
///     let (own, whole) = (layer.state_dict(), full_state_dict(&layer)?);
///     Ok((own["weight"].dims().to_vec(), whole["weight"].dims().to_vec()))
/// })?;
/// assert_eq!(shapes, [(vec![2, 2], vec![3, 2]), (vec![1, 2], vec![3, 2])]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// No memory; the group failed.
#[torsh_tensor::names_caller]
pub fn full_state_dict<M: Module + ?Sized>(module: &M) -> Result<StateDict> {
    gather(module, |_| true)
}

/// [`full_state_dict`] on one rank of the mesh alone, which has room for it; `None` on the others. All ranks call it.
///
/// ```
/// use torsh_distributed::{DeviceMesh, FullyShardOptions, full_state_dict_on, fully_shard, spawn};
/// use torsh_nn::Linear;
///
/// let counts = spawn(2, |_| {
///     let mesh = DeviceMesh::new(&[2], &["dp"])?;
///     let mut layer = Linear::new(2, 3);
///     fully_shard(&mut layer, &mesh, FullyShardOptions::default())?;
///     Ok(full_state_dict_on(&layer, 0)?.map(|d| d.len()))
/// })?;
/// assert_eq!(counts, [Some(2), None]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`full_state_dict`]; no module that is sharded.
#[torsh_tensor::names_caller]
pub fn full_state_dict_on<M: Module + ?Sized>(
    module: &M,
    rank: usize,
) -> Result<Option<StateDict>> {
    let group = group_of("full_state_dict_on", module)?;
    let here = group.rank() == rank;
    let all = gather(module, |_| here)?;
    Ok(here.then_some(all))
}

fn gather<M: Module + ?Sized>(module: &M, keep: impl Fn(&str) -> bool) -> Result<StateDict> {
    let mut done: HashMap<usize, Tensor> = HashMap::new();
    let mut dict = StateDict::new();
    no_grad(|| {
        for (name, entry) in entries(module) {
            let tensor = match entry {
                Entry::Buffer(buffer) => buffer.detach(),
                Entry::Parameter(p) => match (done.get(&p.id()), owner(&p)) {
                    (Some(t), _) => t.clone(),
                    (None, None) => p.tensor().detach(),
                    (None, Some((unit, i))) => {
                        let params = unit.params();
                        let Some(q) = params.get(i) else { continue };
                        let mut whole = whole_of(q, &unit.shard)?;
                        if !keep(&name) {
                            whole = Tensor::empty([0], whole.dtype(), whole.device())?;
                        }
                        done.insert(p.id(), whole.clone());
                        whole
                    }
                },
            };
            if keep(&name) {
                dict.insert(name, tensor);
            }
        }
        Ok(())
    })?;
    Ok(dict)
}

/// The ranks over which a module is sharded.
fn group_of<M: Module + ?Sized>(op: &'static str, module: &M) -> Result<ProcessGroup> {
    let owner = module.parameters().iter().find_map(owner);
    owner
        .map(|(unit, _)| unit.mesh.flat_group().clone())
        .ok_or_else(|| {
            TorshError::invalid(
                op,
                format!("{} has no sharded parameters", module.type_name()),
            )
            .with_hint("use module.state_dict() and load_state_dict")
        })
}

/// What does not fit; empty where all does.
fn problems<M: Module + ?Sized>(module: &M, from: &StateDict) -> String {
    let mut problems = Vec::new();
    let mut names = HashSet::new();
    for (name, entry) in entries(module) {
        let shape = match &entry {
            Entry::Buffer(buffer) => buffer.dims().to_vec(),
            Entry::Parameter(p) => match owner(p) {
                Some((unit, i)) => unit
                    .params()
                    .get(i)
                    .map(|q| q.shape.clone())
                    .unwrap_or_default(),
                None => p.tensor().dims().to_vec(),
            },
        };
        match from.get(&name) {
            None => problems.push(format!("missing: {name}")),
            Some(t) if t.dims() != shape => {
                problems.push(format!(
                    "{name} is {shape:?} here and {:?} in the state dict",
                    t.dims()
                ));
            }
            Some(_) => {}
        }
        names.insert(name);
    }
    for name in from.keys().filter(|n| !names.contains(*n)) {
        problems.push(format!("unexpected: {name}"));
    }
    match module::untied_by(module, from) {
        Ok(tied) => problems.extend(tied.iter().map(|parts| {
            let names = parts.concat().join(" and ");
            format!("{names} are one parameter, and the state dict has different tensors for them")
        })),
        Err(e) => problems.push(e.to_string()),
    }
    problems.join("\n  ")
}

fn refuse(problems: &str, type_name: &str) -> TorshError {
    TorshError::invalid(
        "load_full_state_dict",
        format!("the state dict does not fit {type_name}\n  {problems}"),
    )
}

/// Loads a state dict of whole tensors, which each rank has, into a sharded model: each rank takes its pieces. No rank waits
/// for another. Names of older versions of a layer are read as [`load_state_dict`](ModuleExt::load_state_dict) reads them.
///
/// ```
/// use torsh_distributed::{DeviceMesh, FullyShardOptions, fully_shard, load_full_state_dict, spawn};
/// use torsh_nn::{Linear, StateDict};
/// use torsh_tensor::tensor;
///
/// let rows = spawn(2, |_| {
///     let mesh = DeviceMesh::new(&[2], &["dp"])?;
///     let mut layer = Linear::builder(1, 3).bias(false).build()?;
///     fully_shard(&mut layer, &mesh, FullyShardOptions::default())?;
///     load_full_state_dict(&layer, &StateDict::from([("weight", tensor![[1.0], [2.0], [3.0]])]))?;
///     layer.weight.detach().to_vec::<f32>()
/// })?;
/// assert_eq!(rows, [vec![1.0, 2.0], vec![3.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Names or shapes that differ, and different tensors for one parameter of the module; nothing is loaded then.
#[torsh_tensor::names_caller]
pub fn load_full_state_dict<M: Module + ?Sized>(module: &M, from: &StateDict) -> Result<()> {
    let from = &module::upgraded_state_dict(module, from)?;
    let problems = problems(module, from);
    if !problems.is_empty() {
        return Err(refuse(&problems, module.type_name()));
    }
    no_grad(|| {
        for (name, entry) in entries(module) {
            let Some(t) = from.get(&name) else { continue };
            put(&entry, t)?;
        }
        Ok(())
    })
}

/// Writes whole values to what belongs to this rank.
fn put(entry: &Entry, whole: &Tensor) -> Result<()> {
    match entry {
        Entry::Buffer(buffer) => buffer.copy_(whole).map(drop),
        Entry::Parameter(p) => match owner(p) {
            None => p.tensor().detach().copy_(whole).map(drop),
            Some((unit, i)) => match unit.params().get(i) {
                Some(q) => q.fill(whole),
                None => Ok(()),
            },
        },
    }
}

/// [`load_full_state_dict`] of a state dict that rank `src` of the mesh alone has. All ranks call it.
///
/// ```
/// use torsh_distributed::{DeviceMesh, FullyShardOptions, fully_shard, load_full_state_dict_from, spawn};
/// use torsh_nn::{Linear, StateDict};
/// use torsh_tensor::tensor;
///
/// let rows = spawn(2, |g| {
///     let mesh = DeviceMesh::new(&[2], &["dp"])?;
///     let mut layer = Linear::builder(1, 2).bias(false).build()?;
///     fully_shard(&mut layer, &mesh, FullyShardOptions::default())?;
///     let dict = (g.rank() == 1).then(|| StateDict::from([("weight", tensor![[1.0], [2.0]])]));
///     load_full_state_dict_from(&layer, dict.as_ref(), 1)?;
///     layer.weight.item::<f32>()
/// })?;
/// assert_eq!(rows, [1.0, 2.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Names or shapes that differ: on all ranks, and nothing is loaded. Rank `src` has no state dict. No module that is sharded.
#[torsh_tensor::names_caller]
pub fn load_full_state_dict_from<M: Module + ?Sized>(
    module: &M,
    from: Option<&StateDict>,
    src: usize,
) -> Result<()> {
    let group = group_of("load_full_state_dict_from", module)?;
    let here = group.rank() == src;
    let mut upgraded = None;
    let said = here.then(
        || match from.map(|from| module::upgraded_state_dict(module, from)) {
            Some(Ok(new)) => problems(module, upgraded.insert(new)),
            Some(Err(e)) => e.to_string(),
            None => format!("rank {src} has none"),
        },
    );
    let from = upgraded.as_ref();
    let problems: String = group.broadcast_object(said.as_ref(), src)?;
    if !problems.is_empty() {
        return Err(refuse(&problems, module.type_name()));
    }
    no_grad(|| {
        for (name, entry) in entries(module) {
            let (shape, dtype, device) = match &entry {
                Entry::Buffer(b) => (b.dims().to_vec(), b.dtype(), b.device()),
                Entry::Parameter(p) => {
                    let t = p.tensor();
                    let shape = match owner(p) {
                        Some((unit, i)) => unit
                            .params()
                            .get(i)
                            .map(|q| q.shape.clone())
                            .unwrap_or_default(),
                        None => t.dims().to_vec(),
                    };
                    (shape, t.dtype(), t.device())
                }
            };
            if device == Device::Meta || shape.contains(&0) {
                continue;
            }
            // What travels is memory of the CPU.
            let whole = Tensor::empty(shape, dtype, Device::Cpu)?;
            if let Some(t) = from.filter(|_| here).and_then(|d| d.get(&name)) {
                whole.copy_(t)?;
            }
            group.broadcast_(&whole, src)?;
            put(&entry, &whole)?;
        }
        Ok(())
    })
}
