//! A sharded module that needs no hooks of its own.

use std::fmt;
use std::ops::Deref;

use torsh_nn::{FieldMut, FieldRef, Module, ModuleField, ModuleFields};
use torsh_tensor::{Result, Tensor};

use super::{FullyShard, FullyShardOptions, shard};
use crate::DeviceMesh;

/// A module with [`fully_shard`](crate::fully_shard) around its forward, for modules without hooks. Names of parameters are
/// the module's own. Unlike with hooks, a forward that fails gives the whole parameters back at once.
///
/// ```
/// use torsh_distributed::{DeviceMesh, FullyShardOptions, Sharded, spawn};
/// use torsh_nn::{Linear, Module, ModuleExt};
/// use torsh_tensor::{Result, Tensor, tensor};
///
/// #[derive(Module)]
/// struct Double {
///     fc: Linear,
/// }
///
/// impl Module for Double {
///     fn forward(&self, x: &Tensor) -> Result<Tensor> {
///         self.fc.forward(x)?.mul(2.0)
///     }
/// }
///
/// let values = spawn(2, |_| {
///     let mesh = DeviceMesh::new(&[2], &["dp"])?;
///     let net = Double { fc: Linear::builder(1, 2).bias(false).build()? };
///     net.fc.weight.detach().fill_(3.0)?;
///     let net = Sharded::new(net, &mesh, FullyShardOptions::default())?;
///     assert_eq!(net.state_dict().keys().collect::<Vec<_>>(), ["fc.weight"]);
///     net.forward(&tensor![[1.0]])?.to_vec::<f32>()
/// })?;
/// assert_eq!(values, [[6.0, 6.0], [6.0, 6.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub struct Sharded<M: Module> {
    module: M,
    shard: FullyShard,
}

impl<M: Module> Sharded<M> {
    /// Splits the module's parameters as [`fully_shard`](crate::fully_shard) does.
    ///
    /// # Errors
    /// As [`fully_shard`](crate::fully_shard), but that no hooks are needed.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(mut module: M, mesh: &DeviceMesh, options: FullyShardOptions) -> Result<Sharded<M>> {
        let shard = FullyShard(shard(&mut module, mesh, options)?);
        Ok(Sharded { module, shard })
    }

    /// The handle.
    pub fn shard(&self) -> &FullyShard {
        &self.shard
    }

    /// The module, whose parameters are pieces and stay so.
    pub fn module(&self) -> &M {
        &self.module
    }
}

impl<M: Module> Deref for Sharded<M> {
    type Target = M;

    fn deref(&self) -> &M {
        &self.module
    }
}

impl<M: Module> ModuleField for Sharded<M> {
    fn visit_field<'a>(&'a self, name: &str, visitor: &mut dyn FnMut(&str, FieldRef<'a>)) {
        visitor(name, FieldRef::Module(self));
    }

    fn visit_field_mut(&mut self, name: &str, visitor: &mut dyn FnMut(&str, FieldMut<'_>)) {
        visitor(name, FieldMut::Module(self));
    }
}

impl<M: Module> ModuleFields for Sharded<M> {
    fn visit_fields<'a>(&'a self, visitor: &mut dyn FnMut(&str, FieldRef<'a>)) {
        self.module.visit_fields(visitor);
    }

    fn visit_fields_mut(&mut self, visitor: &mut dyn FnMut(&str, FieldMut<'_>)) {
        self.module.visit_fields_mut(visitor);
    }

    fn type_name(&self) -> &'static str {
        self.module.type_name()
    }
}

impl<M: Module> Module for Sharded<M> {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let unit = &self.shard.0;
        let x = unit.before_forward(x)?;
        match self.module.forward(&x) {
            Ok(y) => unit.after_forward(&y),
            Err(e) => {
                unit.forward_failed()?;
                Err(e)
            }
        }
    }

    fn extra_repr(&self) -> String {
        self.module.extra_repr()
    }
}

impl<M: Module> fmt::Debug for Sharded<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sharded({:?})", self.shard)
    }
}
