//! Options of DDP.

use torsh_nn::Module;
use torsh_tensor::{DType, Result};

use crate::group::ProcessGroup;

use super::DistributedDataParallel;

/// In which dtypes a model in [`DistributedDataParallel`] computes and sends its gradients. Parameters and their
/// gradients keep their own.
///
/// ```
/// use torsh_distributed::{DdpMixedPrecision, DistributedDataParallel, spawn};
/// use torsh_nn::{Linear, Module};
/// use torsh_tensor::{DType, tensor};
/// spawn(2, |_| {
///     let policy = DdpMixedPrecision::new().param_dtype(DType::BF16).reduce_dtype(DType::F32);
///     let ddp = DistributedDataParallel::builder(Linear::new(1, 1)).mixed_precision(policy).build()?;
///     let y = ddp.forward(&tensor![[1.0]])?;
///     assert_eq!(y.dtype(), DType::BF16);
///     y.to_dtype(DType::F32)?.sum()?.backward()?;
///     assert_eq!(ddp.module().weight.grad(), Some(tensor![[1.0]]));
///     Ok(())
/// })?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DdpMixedPrecision {
    /// The dtype of the region of [`autocast`](torsh_tensor::autocast) in which `forward` runs: float16 or bfloat16.
    /// `None` for no region.
    pub param_dtype: Option<DType>,
    /// The dtype in which gradients are sent, as by [`CompressHook`](crate::CompressHook); `None` for their own.
    pub reduce_dtype: Option<DType>,
}

impl DdpMixedPrecision {
    /// Everything in the parameters' own dtypes.
    pub fn new() -> DdpMixedPrecision {
        DdpMixedPrecision::default()
    }

    /// Sets the dtype in which `forward` computes.
    #[must_use]
    pub fn param_dtype(mut self, dtype: impl Into<Option<DType>>) -> Self {
        self.param_dtype = dtype.into();
        self
    }

    /// Sets the dtype in which gradients are sent.
    #[must_use]
    pub fn reduce_dtype(mut self, dtype: impl Into<Option<DType>>) -> Self {
        self.reduce_dtype = dtype.into();
        self
    }
}

/// PyTorch's keyword arguments of `DistributedDataParallel`.
#[derive(Clone, Debug)]
pub(super) struct Options {
    pub(super) first_bucket_bytes: usize,
    pub(super) bucket_cap_bytes: usize,
    pub(super) find_unused_parameters: bool,
    pub(super) static_graph: bool,
    pub(super) broadcast_buffers: bool,
    pub(super) init_sync: bool,
    pub(super) gradient_as_bucket_view: bool,
    pub(super) mixed_precision: DdpMixedPrecision,
    pub(super) device_ids: super::DeviceIds,
}

/// Makes a [`DistributedDataParallel`] with PyTorch's other arguments.
///
/// ```
/// use torsh_distributed::{DistributedDataParallel, spawn};
/// use torsh_nn::{Linear, Module};
/// use torsh_tensor::tensor;
/// spawn(2, |group| {
///     let ddp = DistributedDataParallel::builder(Linear::new(1, 1))
///         .process_group(&group)
///         .bucket_cap_mb(1.0)
///         .build()?;
///     ddp.forward(&tensor![[1.0 + group.rank() as f32]])?.sum()?.backward()?;
///     assert_eq!(ddp.module().weight.grad(), Some(tensor![[1.5]]));
///     Ok(())
/// })?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub struct DistributedDataParallelBuilder<M: Module> {
    module: M,
    group: Option<ProcessGroup>,
    options: Options,
}

impl<M: Module> DistributedDataParallelBuilder<M> {
    pub(super) fn of(module: M) -> Self {
        DistributedDataParallelBuilder {
            module,
            group: None,
            options: Options {
                first_bucket_bytes: 1 << 20,
                bucket_cap_bytes: 25 << 20,
                find_unused_parameters: false,
                static_graph: false,
                broadcast_buffers: true,
                init_sync: true,
                gradient_as_bucket_view: true,
                mixed_precision: DdpMixedPrecision::new(),
                device_ids: super::DeviceIds::default(),
            },
        }
    }

    /// The ranks that train the model together. The default is all ranks.
    #[must_use]
    pub fn process_group(mut self, group: &ProcessGroup) -> Self {
        self.group = Some(group.clone());
        self
    }

    /// The devices of the model's tensors; those it is on unless set. On the CPU they say nothing.
    #[must_use]
    pub fn device_ids(mut self, ids: impl Into<super::DeviceIds>) -> Self {
        self.options.device_ids = ids.into();
        self
    }

    /// The size of a bucket in MiB. The default is 25. The first holds 1 MiB or this, whichever is
    /// less.
    #[must_use]
    pub fn bucket_cap_mb(mut self, mb: f64) -> Self {
        self.options.bucket_cap_bytes = ((mb * f64::from(1 << 20)) as usize).max(1);
        self
    }

    /// The size of the first bucket in MiB. The default is 1.
    #[must_use]
    pub fn first_bucket_mb(mut self, mb: f64) -> Self {
        self.options.first_bucket_bytes = ((mb * f64::from(1 << 20)) as usize).max(1);
        self
    }

    /// Whether each step looks in its graph for parameters that get no gradient. The default is `false`. Without, a
    /// parameter that gets none is an error. It costs a walk over the graph of each step and one small message.
    #[must_use]
    pub fn find_unused_parameters(mut self, find: bool) -> Self {
        self.options.find_unused_parameters = find;
        self
    }

    /// Whether the graph of every step is like the first one's. The default is `false`. Parameters that got no gradient
    /// in the first step are then known to get none, without a walk over each graph.
    #[must_use]
    pub fn static_graph(mut self, fixed: bool) -> Self {
        self.options.static_graph = fixed;
        self
    }

    /// Whether each step of training begins with the first rank's buffers. The default is `true`.
    #[must_use]
    pub fn broadcast_buffers(mut self, broadcast: bool) -> Self {
        self.options.broadcast_buffers = broadcast;
        self
    }

    /// Whether all ranks are compared and begin with the first one's parameters and buffers. The default is `true`.
    /// Without, the caller sees to it that they are equal.
    #[must_use]
    pub fn init_sync(mut self, sync: bool) -> Self {
        self.options.init_sync = sync;
        self
    }

    /// Whether gradients are views of the buckets, which saves a copy of each and its memory. The default is `true`.
    #[must_use]
    pub fn gradient_as_bucket_view(mut self, view: bool) -> Self {
        self.options.gradient_as_bucket_view = view;
        self
    }

    /// In which dtypes the model computes and sends its gradients. The default is the parameters' own.
    #[must_use]
    pub fn mixed_precision(mut self, policy: DdpMixedPrecision) -> Self {
        self.options.mixed_precision = policy;
        self
    }

    /// Compares the ranks' models, sends the first rank's parameters and buffers to the others, and wraps the model. All
    /// ranks of the group call it.
    ///
    /// # Errors
    /// Models that differ in names, shapes, dtypes or in what is trained; none that is trained; uninitialised parameters
    /// of lazy layers; another device than `device_ids`; an error of the group.
    #[torsh_tensor::names_caller]
    pub fn build(self) -> Result<DistributedDataParallel<M>> {
        let group = match self.group {
            Some(group) => group,
            None => crate::init::world()?,
        };
        DistributedDataParallel::wrap(self.module, group, self.options)
    }
}
