//! Data parallel: each rank trains a copy of the model on its own batches, with the average of all ranks' gradients.

mod bucket;
mod hooks;
mod join;
mod join_options;
mod options;
mod powersgd;
mod reducer;
mod sparse;
mod stage;
#[cfg(test)]
mod tests;
mod top_k;
mod verify;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use torsh_nn::{Hooks, Module, ModuleExt, Parameter, Training};
use torsh_tensor::{Device, HookHandle, Result, Tensor, TorshError, autocast_with};

use crate::group::ProcessGroup;

pub use hooks::{AllReduceHook, CommHook, CommStep, CompressHook, GradBucket};
pub use join::{join, join_with};
pub use join_options::JoinOptions;
pub use options::{DdpMixedPrecision, DistributedDataParallelBuilder};
pub use powersgd::{BatchedPowerSGDHook, PowerSGDHook, PowerSGDOptions};
pub(crate) use stage::Averaging;
pub use top_k::TopKHook;

use bucket::Slot;
use options::Options;
use reducer::{OP, Reducer};

/// The devices of a model: an index, several, or none (`()`), which is the device it is on. On the CPU they say nothing.
///
/// ```
/// use torsh_distributed::DeviceIds;
/// assert_eq!(DeviceIds::from(1), DeviceIds::from(&[1][..]));
/// assert_eq!(DeviceIds::from(()), DeviceIds::from(Vec::new()));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceIds(Vec<usize>);

impl From<usize> for DeviceIds {
    fn from(id: usize) -> Self {
        DeviceIds(vec![id])
    }
}

impl From<&[usize]> for DeviceIds {
    fn from(ids: &[usize]) -> Self {
        DeviceIds(ids.to_vec())
    }
}

impl<const N: usize> From<[usize; N]> for DeviceIds {
    fn from(ids: [usize; N]) -> Self {
        DeviceIds(ids.to_vec())
    }
}

impl<const N: usize> From<&[usize; N]> for DeviceIds {
    fn from(ids: &[usize; N]) -> Self {
        DeviceIds(ids.to_vec())
    }
}

impl From<Vec<usize>> for DeviceIds {
    fn from(ids: Vec<usize>) -> Self {
        DeviceIds(ids)
    }
}

impl From<()> for DeviceIds {
    fn from((): ()) -> Self {
        DeviceIds::default()
    }
}

impl DeviceIds {
    /// An error where the model is on none of these devices.
    fn check(&self, device: Device) -> Result<()> {
        let index = match device {
            Device::Cuda(i) | Device::Wgpu(i) | Device::Custom(i) => i,
            Device::Cpu | Device::Metal | Device::Meta => return Ok(()),
        };
        match self.0.is_empty() || self.0.contains(&index) {
            true => Ok(()),
            false => Err(TorshError::device(
                OP,
                format!(
                    "the model is on {device}, which is not among the device ids {:?}",
                    self.0
                ),
            )
            .with_hint("move the model to the rank's device before it is wrapped")),
        }
    }
}

/// What a model gives back: tensors, or things that hold them. DDP looks in their graph for unused parameters.
///
/// ```
/// use torsh_distributed::Outputs;
/// use torsh_tensor::tensor;
/// let mut count = 0;
/// (tensor![1.0], vec![tensor![2.0], tensor![3.0]], None::<torsh_tensor::Tensor>).visit(&mut |_| count += 1);
/// assert_eq!(count, 3);
/// ```
pub trait Outputs {
    /// Shows each tensor.
    fn visit(&self, f: &mut dyn FnMut(&Tensor));
}

impl Outputs for Tensor {
    fn visit(&self, f: &mut dyn FnMut(&Tensor)) {
        f(self);
    }
}

impl Outputs for () {
    fn visit(&self, _: &mut dyn FnMut(&Tensor)) {}
}

impl<T: Outputs + ?Sized> Outputs for &T {
    fn visit(&self, f: &mut dyn FnMut(&Tensor)) {
        (**self).visit(f);
    }
}

impl<T: Outputs> Outputs for Option<T> {
    fn visit(&self, f: &mut dyn FnMut(&Tensor)) {
        self.iter().for_each(|t| t.visit(f));
    }
}

impl<T: Outputs> Outputs for Vec<T> {
    fn visit(&self, f: &mut dyn FnMut(&Tensor)) {
        self.iter().for_each(|t| t.visit(f));
    }
}

impl<T: Outputs, const N: usize> Outputs for [T; N] {
    fn visit(&self, f: &mut dyn FnMut(&Tensor)) {
        self.iter().for_each(|t| t.visit(f));
    }
}

macro_rules! tuples {
    ($($t:ident $i:tt),+) => {
        impl<$($t: Outputs),+> Outputs for ($($t,)+) {
            fn visit(&self, f: &mut dyn FnMut(&Tensor)) {
                $(self.$i.visit(f);)+
            }
        }
    };
}

tuples!(A 0);
tuples!(A 0, B 1);
tuples!(A 0, B 1, C 2);
tuples!(A 0, B 1, C 2, D 3);

/// A model that is trained on several ranks, each with batches of its own (`torch.nn.parallel.DistributedDataParallel`).
///
/// When it is made, all ranks are checked to hold the same model, and get the first rank's parameters and buffers. In each
/// backward pass gradients are averaged over all ranks, bucket by bucket and while the pass goes on; it returns when all
/// are averages. The result is bit for bit that of one process which adds up the gradients of the ranks' batches in rank
/// order and divides by their number. Forward passes without recording send nothing.
///
/// ```
/// use torsh_distributed::{DistributedDataParallel, spawn};
/// use torsh_nn::{Linear, Module, ModuleExt};
/// use torsh_optim::{Optimizer, SGD};
/// use torsh_tensor::tensor;
///
/// let weights = spawn(2, |group| {
///     let model = DistributedDataParallel::new(Linear::new(1, 1), group.rank())?;
///     torsh_nn::init::zeros_(&model.module().weight)?;
///     let optimizer = SGD::new(model.parameters(), 1.0)?;
///     let x = tensor![[1.0 + group.rank() as f32]];
///     model.forward(&x)?.sum()?.backward()?;
///     optimizer.step()?;
///     model.state_dict()["module.weight"].item::<f32>()
/// })?;
/// assert_eq!(weights, [-1.5, -1.5]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// A backward pass that reaches only a part of the parameters, a second one without a forward pass, and gradients that do
/// not come through this type's `forward` are errors that name the parameters.
///
/// A stage of a pipeline may be one: [`PipelineStage`](crate::PipelineStage) then averages once in a step.
///
/// A COO gradient stays one, as that of an [`Embedding`](torsh_nn::Embedding) with `sparse`. The average has the elements of
/// all ranks and is coalesced. Each rank may have another number of elements, or none. If some rank's gradient of the
/// parameter is strided, the average is; one of the layouts CSR, CSC, BSR and BSC counts as strided. Such parameters are in no
/// bucket, so communication hooks do not see their gradients. The ranks tell one another which they are in the first step,
/// whose gradients therefore travel at its end. If a parameter has its first COO gradient in a later step, its average is
/// strided, unless the ranks tell one another what they use (`find_unused_parameters`): then it leaves the buckets.
///
/// ```
/// # use torsh_sparse as _;
/// use torsh_distributed::{DistributedDataParallel, spawn};
/// use torsh_nn::{Embedding, Module};
/// use torsh_tensor::{sparse::values, tensor};
///
/// let averages = spawn(2, |group| {
///     let table = Embedding::builder(100, 1).sparse(true).build()?;
///     let ddp = DistributedDataParallel::new(table, group.rank())?;
///     let rows = if group.rank() == 0 { tensor![7] } else { tensor![9, 7] };
///     ddp.forward(&rows)?.sum()?.backward()?;
///     // Of the rows 7 and 9.
///     let grad = ddp.module().weight.grad().expect("backward ran");
///     values(&grad)?.to_vec::<f32>()
/// })?;
/// assert_eq!(averages, [[1.0, 0.5], [1.0, 0.5]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct DistributedDataParallel<M: Module> {
    module: M,
    training: Training,
    hooks: Hooks,
    #[module(skip)]
    reducer: Arc<Reducer>,
    #[module(skip)]
    _gradient_hooks: GradientHooks,
}

/// The parameters' hooks, which end with the wrapper.
struct GradientHooks(Vec<HookHandle>);

impl Drop for GradientHooks {
    fn drop(&mut self) {
        self.0.drain(..).for_each(HookHandle::remove);
    }
}

impl<M: Module> DistributedDataParallel<M> {
    /// Wraps a model, on all ranks. `device_ids` are those of the model's device; on the CPU they say nothing.
    ///
    /// # Errors
    /// No process group; models that differ from rank to rank; a model without parameters to train, or with uninitialised
    /// ones.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(module: M, device_ids: impl Into<DeviceIds>) -> Result<Self> {
        Self::builder(module).device_ids(device_ids).build()
    }

    /// Wraps a model with PyTorch's other arguments.
    pub fn builder(module: M) -> DistributedDataParallelBuilder<M> {
        DistributedDataParallelBuilder::of(module)
    }

    fn wrap(module: M, group: ProcessGroup, options: Options) -> Result<Self> {
        let (parameters, buffers) = (module.named_parameters(), module.named_buffers());
        let lazy = parameters.iter().find(|(_, p)| p.is_uninitialized());
        if let Some((name, _)) = lazy {
            return Err(TorshError::invalid(
                OP,
                format!("the parameter {name} of a lazy layer is not initialised"),
            )
            .with_hint("call the model once with an input as it will be before it is wrapped"));
        }
        if options.init_sync {
            verify::verify(&group, &parameters, &buffers)?;
        }
        let sparse = parameters.iter().find(|(_, p)| !p.layout().is_strided());
        if let Some((name, p)) = sparse {
            return Err(TorshError::invalid(
                OP,
                format!(
                    "the parameter {name} has the layout {}, and ranks share parameters of the layout torch.strided",
                    p.layout()
                ),
            )
            .with_hint("a strided parameter, as that of an Embedding with sparse(true), may have COO gradients"));
        }
        if options.init_sync {
            verify::broadcast(&group, &parameters, &buffers, 0)?;
        }
        let slots: Vec<Slot> = parameters
            .into_iter()
            .filter(|(_, p)| p.requires_grad())
            .map(|(name, parameter)| Slot {
                tensor: parameter.tensor().clone(),
                name,
                parameter,
            })
            .collect();
        let Some(first) = slots.first() else {
            return Err(TorshError::invalid(
                OP,
                format!(
                    "{} has no parameter that requires a gradient",
                    module.type_name()
                ),
            )
            .with_hint("a model that is not trained needs no DistributedDataParallel"));
        };
        options.device_ids.check(first.tensor.device())?;
        let training = Training::new(module.is_training());
        let reducer = Arc::new(Reducer::new(group, slots, buffers, options));
        stage::register(&reducer);
        let mut handles = Vec::with_capacity(reducer.slots.len());
        for (i, slot) in reducer.slots.iter().enumerate() {
            // Without a share: the reducer has the parameters.
            let weak = Arc::downgrade(&reducer);
            handles.push(slot.tensor.register_post_accumulate_grad_hook(move |_| {
                match weak.upgrade() {
                    Some(reducer) => reducer.arrived(i),
                    None => Ok(()),
                }
            })?);
        }
        Ok(DistributedDataParallel {
            module,
            training,
            hooks: Hooks::new(),
            reducer,
            _gradient_hooks: GradientHooks(handles),
        })
    }

    /// The model.
    pub fn module(&self) -> &M {
        &self.module
    }

    /// The model without its wrapper.
    pub fn into_module(self) -> M {
        self.module
    }

    /// The ranks that train the model together.
    pub fn process_group(&self) -> &ProcessGroup {
        &self.reducer.group
    }

    /// The names of the parameters of each bucket, in the order in which they are sent. The first step sends them in the
    /// reverse order of the parameters, the others in the order in which gradients came in the first. Parameters with COO
    /// gradients leave the buckets in the first step.
    ///
    /// ```
    /// use torsh_distributed::{DistributedDataParallel, spawn};
    /// use torsh_nn::Linear;
    /// spawn(2, |group| {
    ///     let ddp = DistributedDataParallel::new(Linear::new(2, 2), group.rank())?;
    ///     assert_eq!(ddp.buckets(), [["bias", "weight"]]);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn buckets(&self) -> Vec<Vec<String>> {
        self.reducer.bucket_names()
    }

    /// Runs the model as `f` says, for models whose `forward` takes or gives more than one tensor. All tensors that take
    /// part in the loss belong into what it returns.
    ///
    /// ```
    /// use torsh_distributed::{DistributedDataParallel, spawn};
    /// use torsh_nn::Bilinear;
    /// use torsh_tensor::tensor;
    /// spawn(2, |group| {
    ///     let ddp = DistributedDataParallel::new(Bilinear::new(1, 1, 1)?, group.rank())?;
    ///     let x = tensor![[1.0 + group.rank() as f32]];
    ///     ddp.run(|m| m.forward_with(&x, &x))?.sum()?.backward()?;
    ///     // (1 * 1 + 2 * 2) / 2
    ///     assert_eq!(ddp.module().weight.grad(), Some(tensor![[[2.5]]]));
    ///     Ok(())
    /// })?;
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// What `f` returns; a step before whose backward pass did not reach all parameters; an error of the group.
    #[torsh_tensor::names_caller]
    pub fn run<T: Outputs>(&self, f: impl FnOnce(&M) -> Result<T>) -> Result<T> {
        let sync = self.reducer.before_forward(self.training.get())?;
        let out = match self.reducer.options.mixed_precision.param_dtype {
            Some(dtype) => {
                let device = self.reducer.slots[0].tensor.device();
                autocast_with(device, dtype, || f(&self.module))?
            }
            None => f(&self.module)?,
        };
        self.reducer.after_forward(sync, &out)?;
        Ok(out)
    }

    /// Steps whose forward pass begins while the guard lives add up gradients on their rank alone. The next step outside
    /// of it averages the sums.
    ///
    /// ```
    /// use torsh_distributed::{DistributedDataParallel, spawn};
    /// use torsh_nn::{Linear, Module};
    /// use torsh_tensor::tensor;
    /// spawn(2, |group| {
    ///     let ddp = DistributedDataParallel::new(Linear::new(1, 1), group.rank())?;
    ///     let x = tensor![[1.0 + group.rank() as f32]];
    ///     {
    ///         let _guard = ddp.no_sync();
    ///         ddp.forward(&x)?.sum()?.backward()?;
    ///     }
    ///     ddp.forward(&x)?.sum()?.backward()?;
    ///     assert_eq!(ddp.module().weight.grad(), Some(tensor![[3.0]]));
    ///     Ok(())
    /// })?;
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[must_use = "gradients are averaged again when the guard is dropped"]
    pub fn no_sync(&self) -> NoSync<'_> {
        self.reducer.enter_no_sync();
        NoSync {
            reducer: self.reducer.clone(),
            of: PhantomData,
        }
    }

    /// Lets `hook` do what is done with each bucket of gradients, in the place of their average. All ranks register the
    /// same, once, before the first forward pass.
    ///
    /// ```
    /// use torsh_distributed::{CompressHook, DistributedDataParallel, spawn};
    /// use torsh_nn::Linear;
    /// spawn(2, |group| {
    ///     let ddp = DistributedDataParallel::new(Linear::new(2, 2), group.rank())?;
    ///     ddp.register_comm_hook(CompressHook::fp16())?;
    ///     assert!(ddp.register_comm_hook(CompressHook::fp16()).is_err());
    ///     Ok(())
    /// })?;
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// A second hook; one after the first forward pass; one that does not take the gradients' dtypes.
    #[torsh_tensor::names_caller]
    pub fn register_comm_hook(&self, hook: impl CommHook) -> Result<()> {
        self.reducer.set_hook(Arc::new(hook))
    }

    fn reducer(&self) -> &Reducer {
        &self.reducer
    }

    fn all_parameters(&self) -> Vec<(String, Parameter)> {
        self.module.named_parameters()
    }
}

impl<M: Module> Module for DistributedDataParallel<M> {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| self.run(|m| m.forward(x)))
    }
}

/// The guard of [`DistributedDataParallel::no_sync`].
pub struct NoSync<'a> {
    reducer: Arc<Reducer>,
    of: PhantomData<&'a ()>,
}

impl fmt::Debug for NoSync<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NoSync")
    }
}

impl Drop for NoSync<'_> {
    fn drop(&mut self) {
        self.reducer.leave_no_sync();
    }
}
