//! Models that begin on the meta device.

use std::collections::HashMap;

use torsh_nn::{Buffer, FieldMut, Module, ModuleExt, Parameter, module};
use torsh_tensor::{Device, Result, Tensor, no_grad};

use super::{FullyShard, owner, replace};

impl FullyShard {
    /// Gives a model that was made on the meta device memory on `device`: pieces, and buffers, of zeros. With a
    /// [`CPUOffloadPolicy`](crate::CPUOffloadPolicy) the pieces are on the CPU, and `device` is the one that computes. Its
    /// parameters are replaced, so optimizers come afterwards. `module` is the one that was sharded.
    ///
    /// ```
    /// use torsh_distributed::{DeviceMesh, FullyShardOptions, full_state_dict, fully_shard, spawn};
    /// use torsh_nn::{Linear, construct::Construction};
    /// use torsh_tensor::Device;
    ///
    /// let values = spawn(2, |_| {
    ///     let mesh = DeviceMesh::new(&[2], &["dp"])?;
    ///     let mut layer = Construction::new().device(Device::Meta).run(|| Linear::new(1, 3));
    ///     let handle = fully_shard(&mut layer, &mesh, FullyShardOptions::default())?;
    ///     handle.to_empty(&mut layer, Device::Cpu)?;
    ///     handle.init(&layer, |name, t| t.fill_(if name == "weight" { 2.0 } else { 0.5 }).map(drop))?;
    ///     full_state_dict(&layer)?["weight"].to_vec::<f32>()
    /// })?;
    /// assert_eq!(values, [[2.0; 3], [2.0; 3]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// No memory; without offload, a device other than the CPU and the meta device.
    #[torsh_tensor::names_caller]
    pub fn to_empty<M: Module + ?Sized>(&self, module: &mut M, device: Device) -> Result<()> {
        self.0.reset()?;
        let mut new: HashMap<usize, Parameter> = HashMap::new();
        let mut all = Vec::new();
        for unit in self.0.family() {
            let mut params = Vec::new();
            for p in unit.params().iter() {
                let q = p.empty(device, unit.shard.size(), unit.options.offloads())?;
                new.insert(p.parameter.id(), q.parameter.clone());
                params.push(q);
            }
            all.push((unit, params));
        }
        let mut buffers: HashMap<usize, Buffer> = HashMap::new();
        for b in module.buffers() {
            if b.device() != device {
                let zeros = Tensor::zeros(b.shape(), b.dtype(), device)?;
                let fresh = match b.is_persistent() {
                    true => Buffer::new(zeros),
                    false => Buffer::non_persistent(zeros),
                };
                buffers.insert(b.id(), fresh);
            }
        }
        replace(module, &new)?;
        for (unit, params) in all {
            unit.set_params(params);
        }
        module::walk_mut(module, &mut |_, field| {
            if let FieldMut::Buffer(b) = field
                && let Some(other) = buffers.get(&b.id())
            {
                *b = other.clone();
            }
        });
        Ok(())
    }

    /// Sets the parameters by `f`, which gets the name and the whole tensor, of zeros, of one after the other and writes to
    /// it. The tensor is where the pieces are. Each rank calls it; the values are those of the mesh's first rank. One whole
    /// parameter is in memory at a time.
    ///
    /// # Errors
    /// What `f` returns; the group failed.
    #[torsh_tensor::names_caller]
    pub fn init<M: Module + ?Sized>(
        &self,
        module: &M,
        f: impl Fn(&str, &Tensor) -> Result<()>,
    ) -> Result<()> {
        let group = self.0.mesh.flat_group();
        no_grad(|| {
            for (name, parameter) in module.named_parameters() {
                let Some((unit, i)) = owner(&parameter) else {
                    f(&name, &parameter.tensor().detach())?;
                    continue;
                };
                let params = unit.params();
                let Some(p) = params.get(i) else { continue };
                let whole = Tensor::zeros(p.shape.clone(), p.piece.dtype(), p.piece.device())?;
                f(&name, &whole)?;
                if whole.numel() > 0 && whole.device() != Device::Meta {
                    group.broadcast_(&whole, 0)?;
                }
                p.fill(&whole)?;
            }
            Ok(())
        })
    }
}
