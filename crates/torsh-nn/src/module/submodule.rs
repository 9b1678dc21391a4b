//! A module within a module, to be changed.

use torsh_tensor::{Result, TorshError};

use crate::module::{FieldMut, Module, ModuleExt, walk_mut};

/// Calls `f` with the module of this name within `module`, to be changed: what
/// [`get_submodule`](ModuleExt::get_submodule) is for reading. Its name is that of a walk (`transformer.h.0`), so blocks of a
/// model whose fields are private are reached as well.
///
/// ```
/// use torsh_nn::module::with_submodule_mut;
/// use torsh_nn::{FieldMut, Linear, ModuleExt, Parameter, Sequential};
/// use torsh_tensor::tensor;
///
/// let mut net = Sequential::new().add(Linear::builder(1, 1).bias(false).build()?);
/// with_submodule_mut(&mut net, "0", |layer| {
///     layer.visit_fields_mut(&mut |_, field| {
///         if let FieldMut::Parameter(weight) = field {
///             *weight = Parameter::new(tensor![[7.0]]);
///         }
///     });
///     Ok(())
/// })?;
/// assert_eq!(net.state_dict()["0.weight"], tensor![[7.0]]);
/// assert!(with_submodule_mut(&mut net, "1", |_| Ok(())).is_err());
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// No module of this name, one in an `Arc` that somebody else holds too, and the errors of `f`.
#[torsh_tensor::names_caller]
pub fn with_submodule_mut<M: Module + ?Sized, R>(
    module: &mut M,
    name: &str,
    f: impl FnOnce(&mut dyn Module) -> Result<R>,
) -> Result<R> {
    const OP: &str = "with_submodule_mut";
    module.get_submodule(name)?;
    let (mut f, mut out) = (Some(f), None);
    walk_mut(module, &mut |own, field| {
        if let FieldMut::Module(found) = field
            && own == name
            && let Some(f) = f.take()
        {
            out = Some(f(found));
        }
    });
    out.unwrap_or_else(|| {
        let why =
            format!("`{name}` cannot be changed: it is in an Arc that somebody else holds too");
        Err(TorshError::invalid(OP, why).with_hint("drop the other handles first"))
    })
}
