//! Tied parameters: fields that hold the same one. What a file, an adapter or a shard has decides whether they stay so.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use torsh_tensor::{Result, Tensor, TorshError};

use crate::module::parameter::Parameter;
use crate::module::{FieldMut, FieldRef, ModuleFields, StateDict, walk, walk_mut};

/// The fields of a module that hold the same parameter: for each such parameter its names, in the order of
/// [`walk`].
///
/// ```
/// use torsh_nn::module::tied_names;
/// use torsh_nn::{Linear, sequential};
///
/// let first = Linear::new(2, 2);
/// let mut second = Linear::new(2, 2);
/// second.weight = first.weight.clone();
/// let net = sequential![first, second];
/// assert_eq!(tied_names(&net), [["0.weight", "1.weight"]]);
/// ```
pub fn tied_names<M: ModuleFields + ?Sized>(module: &M) -> Vec<Vec<String>> {
    let all = holders(module).into_iter();
    all.map(|(_, names)| names)
        .filter(|names| names.len() > 1)
        .collect()
}

/// Each parameter of a module with its names.
fn holders<M: ModuleFields + ?Sized>(module: &M) -> Vec<(Parameter, Vec<String>)> {
    let mut out: Vec<(Parameter, Vec<String>)> = Vec::new();
    let mut places: HashMap<usize, usize> = HashMap::new();
    walk(module, &mut |name, field| {
        if let FieldRef::Parameter(p) = field {
            let place = *places.entry(p.id()).or_insert_with(|| {
                out.push((p.clone(), Vec::new()));
                out.len() - 1
            });
            out[place].1.push(name.to_string());
        }
    });
    out
}

/// The tied parameters of a module for which a state dict has different tensors: for each of them its names, those of
/// one tensor together. Names that the state dict lacks are left out. Tensors are compared as the parameter's dtype; NaN
/// equals NaN.
///
/// [`assign_state_dict`](crate::ModuleExt::assign_state_dict) takes such names apart, as Hugging Face's library does, and
/// [`load_state_dict`](crate::ModuleExt::load_state_dict), which cannot, refuses them.
///
/// ```
/// use torsh_nn::module::untied_by;
/// use torsh_nn::{Linear, ModuleExt, sequential};
/// use torsh_tensor::tensor;
///
/// let first = Linear::builder(1, 1).bias(false).build()?;
/// let mut second = Linear::builder(1, 1).bias(false).build()?;
/// second.weight = first.weight.clone();
/// let net = sequential![first, second];
/// let mut state = net.state_dict();
/// assert!(untied_by(&net, &state)?.is_empty());
/// state.insert("1.weight", tensor![[7.0]]);
/// assert_eq!(untied_by(&net, &state)?, [[["0.weight"], ["1.weight"]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Tensors on devices that lack the comparison.
#[torsh_tensor::names_caller]
pub fn untied_by<M: ModuleFields + ?Sized>(
    module: &M,
    state: &StateDict,
) -> Result<Vec<Vec<Vec<String>>>> {
    let mut out = Vec::new();
    for (parameter, names) in holders(module) {
        if names.len() < 2 {
            continue;
        }
        let mut parts: Vec<(&Tensor, Vec<String>)> = Vec::new();
        for name in names {
            let Some(tensor) = state.get(&name) else {
                continue;
            };
            let mut place = None;
            for (i, (other, _)) in parts.iter().enumerate() {
                if same_values(other, tensor, parameter.tensor())? {
                    place = Some(i);
                    break;
                }
            }
            match place {
                Some(i) => parts[i].1.push(name),
                None => parts.push((tensor, vec![name])),
            }
        }
        if parts.len() > 1 {
            out.push(parts.into_iter().map(|(_, names)| names).collect());
        }
    }
    Ok(out)
}

/// Whether two tensors are the same once they are of a parameter's dtype.
fn same_values(a: &Tensor, b: &Tensor, like: &Tensor) -> Result<bool> {
    if a.dims() != b.dims() {
        return Ok(false);
    }
    if a.is_same(b)
        || a.shares_storage(b) && a.memory_layout() == b.memory_layout() && a.dtype() == b.dtype()
    {
        return Ok(true);
    }
    let of = |t: &Tensor| -> Result<Tensor> {
        let t = t.detach().to_device(like.device())?;
        match t.dtype() == a.dtype() && a.dtype() == b.dtype() {
            true => Ok(t),
            false => t.to_dtype(like.dtype()),
        }
    };
    let (a, b) = (of(a)?, of(b)?);
    if a.equal(&b)? {
        return Ok(true);
    }
    if !a.dtype().is_floating_point() || !a.isnan()?.any()?.item::<bool>()? {
        return Ok(false);
    }
    let both = a.isnan()?.logical_and(&b.isnan()?)?;
    a.eq(&b)?.logical_or(&both)?.all()?.item::<bool>()
}

/// Gives the fields of these names one parameter of their own, a copy of what they hold, in the place of the one that they
/// share with others. Fields of these names that hold different parameters get one each.
///
/// An optimizer that was made before does not have the new parameter.
///
/// ```
/// use torsh_nn::module::{tied_names, untie};
/// use torsh_nn::{Linear, ModuleExt, sequential};
///
/// let first = Linear::new(2, 2);
/// let mut second = Linear::new(2, 2);
/// second.weight = first.weight.clone();
/// let mut net = sequential![first, second];
/// untie(&mut net, &["1.weight"])?;
/// assert!(tied_names(&net).is_empty());
/// let state = net.state_dict();
/// assert_eq!(state["0.weight"], state["1.weight"]);
/// assert!(!state["0.weight"].shares_storage(&state["1.weight"]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// A name that no parameter has, a module in an `Arc` that somebody else holds too, too little memory.
#[torsh_tensor::names_caller]
pub fn untie<M: ModuleFields + ?Sized>(module: &mut M, names: &[impl AsRef<str>]) -> Result<()> {
    split(module, names, |p| p.detach().copy())
}

/// [`untie`] with the tensor of the new parameter.
#[track_caller]
pub(super) fn split<M: ModuleFields + ?Sized>(
    module: &mut M,
    names: &[impl AsRef<str>],
    make: impl Fn(&Parameter) -> Result<Tensor>,
) -> Result<()> {
    let mut new: HashMap<usize, Parameter> = HashMap::new();
    for name in names {
        let mut found = None;
        walk(&*module, &mut |own, field| {
            if let FieldRef::Parameter(p) = field
                && own == name.as_ref()
            {
                found = Some(p.clone());
            }
        });
        let Some(p) = found else {
            return Err(TorshError::invalid(
                "untie",
                format!("{} has no parameter {}", module.type_name(), name.as_ref()),
            ));
        };
        if let Entry::Vacant(place) = new.entry(p.id()) {
            place.insert(Parameter::with_requires_grad(make(&p)?, p.requires_grad())?);
        }
    }
    let wanted = |name: &str| names.iter().any(|n| n.as_ref() == name);
    let mut reached = 0;
    walk_mut(module, &mut |name, field| {
        if let FieldMut::Parameter(_) = field {
            reached += usize::from(wanted(name));
        }
    });
    if reached < names.len() {
        let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
        return Err(TorshError::invalid(
            "untie",
            format!(
                "{} cannot be exchanged: its module is in an Arc that somebody else holds too",
                names.join(", ")
            ),
        )
        .with_hint("drop the other handles first"));
    }
    walk_mut(module, &mut |name, field| {
        if let FieldMut::Parameter(p) = field
            && wanted(name)
            && let Some(own) = new.get(&p.id())
        {
            *p = own.clone();
        }
    });
    Ok(())
}
