//! Communication hooks: what is sent in the place of a bucket's gradients.

use std::fmt;
use std::sync::Arc;

use torsh_tensor::{DType, Device, Result, Tensor, TorshError};

use crate::group::ProcessGroup;
use crate::reduce::ReduceOp;
use crate::work::Work;

use super::bucket::Place;

/// The gradients of some parameters in one flat tensor, as a communication hook gets them
/// (`torch.distributed.GradBucket`).
#[derive(Clone)]
pub struct GradBucket {
    pub(super) index: usize,
    pub(super) is_last: bool,
    pub(super) buffer: Tensor,
    pub(super) places: Arc<[Place]>,
    pub(super) parameters: Arc<[(String, Tensor)]>,
    pub(super) group: ProcessGroup,
}

impl GradBucket {
    /// Which bucket of the step it is, in the order in which they are sent.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Whether it is the last bucket of the step.
    pub fn is_last(&self) -> bool {
        self.is_last
    }

    /// The gradients one after the other, one-dimensional; this rank's, not divided. What it holds at the end of the
    /// hook becomes the gradients.
    pub fn buffer(&self) -> &Tensor {
        &self.buffer
    }

    /// A view of [`buffer`](Self::buffer) for each parameter, of its shape.
    ///
    /// # Errors
    /// None in practice: the places lie within the buffer.
    #[torsh_tensor::names_caller]
    pub fn gradients(&self) -> Result<Vec<Tensor>> {
        self.places.iter().map(|p| p.view(&self.buffer)).collect()
    }

    /// The parameters and their names.
    pub fn parameters(&self) -> &[(String, Tensor)] {
        &self.parameters
    }

    /// The ranks that share the gradients.
    pub fn group(&self) -> &ProcessGroup {
        &self.group
    }

    /// The bucket with another buffer of as many elements, as of another dtype.
    fn with_buffer(&self, buffer: Tensor) -> GradBucket {
        GradBucket {
            buffer,
            ..self.clone()
        }
    }
}

impl fmt::Debug for GradBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.parameters.iter().map(|(n, _)| n.as_str()).collect();
        write!(
            f,
            "GradBucket(index={}, is_last={}, buffer={}, parameters={names:?})",
            self.index,
            self.is_last,
            self.buffer.describe()
        )
    }
}

/// The rest of a communication hook's work on one bucket.
pub enum CommStep {
    /// Nothing: the bucket's buffer holds the result.
    Done,
    /// A function to call when the backward pass has sent all buckets. It waits for what the step before began, may
    /// begin other collectives, and gives the rest.
    Next(Box<dyn FnOnce() -> Result<CommStep> + Send>),
}

impl CommStep {
    /// Waits for `work`, then goes on with `f`.
    pub fn after(work: Work, f: impl FnOnce() -> Result<CommStep> + Send + 'static) -> CommStep {
        CommStep::Next(Box::new(move || {
            work.wait()?;
            f()
        }))
    }

    /// Waits for `work`; that is all.
    pub fn wait(work: Work) -> CommStep {
        CommStep::after(work, || Ok(CommStep::Done))
    }

    /// Calls `f` once these steps are done.
    pub fn then(self, f: impl FnOnce() -> Result<()> + Send + 'static) -> CommStep {
        match self {
            CommStep::Done => CommStep::Next(Box::new(move || f().map(|()| CommStep::Done))),
            CommStep::Next(step) => CommStep::Next(Box::new(move || match step()? {
                CommStep::Done => f().map(|()| CommStep::Done),
                rest => Ok(rest.then(f)),
            })),
        }
    }
}

impl fmt::Debug for CommStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CommStep::Done => "Done",
            CommStep::Next(_) => "Next(..)",
        })
    }
}

/// What is done with a bucket of gradients in the place of the sum over all ranks
/// (`DistributedDataParallel.register_comm_hook`).
///
/// All ranks register the same hook. `start` is called for each bucket, in the same order on all ranks, while the
/// backward pass goes on; the steps that it returns follow when all buckets are on their way, one step of each bucket in
/// turn, so that one bucket's steps wait while another's data travel.
///
/// ```
/// use torsh_distributed::{CommHook, CommStep, DistributedDataParallel, GradBucket, ReduceOp, spawn};
/// use torsh_nn::{Linear, Module};
/// use torsh_tensor::{Result, tensor};
///
/// /// The sum over all ranks, not divided.
/// struct SumHook;
///
/// impl CommHook for SumHook {
///     fn name(&self) -> &str {
///         "sum"
///     }
///
///     fn start(&self, bucket: &GradBucket) -> Result<CommStep> {
///         let work = bucket.group().all_reduce_async(bucket.buffer(), ReduceOp::Sum)?;
///         Ok(CommStep::wait(work))
///     }
/// }
///
/// spawn(2, |group| {
///     let ddp = DistributedDataParallel::new(Linear::new(1, 1), group.rank())?;
///     ddp.register_comm_hook(SumHook)?;
///     ddp.forward(&tensor![[1.0 + group.rank() as f32]])?.sum()?.backward()?;
///     assert_eq!(ddp.module().weight.grad(), Some(tensor![[3.0]]));
///     Ok(())
/// })?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub trait CommHook: Send + Sync + 'static {
    /// The hook's name, for messages.
    fn name(&self) -> &str;

    /// An error where the hook cannot work with these gradients; asked once, when it is registered.
    fn check(&self, dtypes: &[DType]) -> Result<()> {
        let _ = dtypes;
        Ok(())
    }

    /// Begins with a bucket. Nothing is recorded.
    fn start(&self, bucket: &GradBucket) -> Result<CommStep>;
}

/// The average over all ranks: what happens without a hook (`allreduce_hook`).
///
/// ```
/// use torsh_distributed::{AllReduceHook, DistributedDataParallel, spawn};
/// use torsh_nn::{Linear, Module};
/// use torsh_tensor::tensor;
/// spawn(2, |group| {
///     let ddp = DistributedDataParallel::new(Linear::new(1, 1), group.rank())?;
///     ddp.register_comm_hook(AllReduceHook)?;
///     ddp.forward(&tensor![[1.0 + group.rank() as f32]])?.sum()?.backward()?;
///     assert_eq!(ddp.module().weight.grad(), Some(tensor![[1.5]]));
///     Ok(())
/// })?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct AllReduceHook;

impl CommHook for AllReduceHook {
    fn name(&self) -> &str {
        "allreduce"
    }

    #[torsh_tensor::names_caller]
    fn start(&self, bucket: &GradBucket) -> Result<CommStep> {
        let work = bucket
            .group
            .all_reduce_async(&bucket.buffer, ReduceOp::Avg)?;
        Ok(CommStep::wait(work))
    }
}

/// Another hook on gradients that are converted to a smaller dtype and back (`fp16_compress_wrapper`,
/// `bf16_compress_wrapper`): half of the bytes.
///
/// Sums are made in float32 and rounded once, on all ranks alike. Gradients that do not fit into float16 become infinite;
/// bfloat16 has float32's range and 8 bits of precision.
///
/// ```
/// use torsh_distributed::{CompressHook, DistributedDataParallel, spawn};
/// use torsh_nn::{Linear, Module};
/// use torsh_tensor::tensor;
/// spawn(2, |group| {
///     let ddp = DistributedDataParallel::new(Linear::new(1, 1), group.rank())?;
///     ddp.register_comm_hook(CompressHook::bf16())?;
///     // 1.001 is 1 in bfloat16.
///     ddp.forward(&tensor![[1.001]])?.sum()?.backward()?;
///     assert_eq!(ddp.module().weight.grad(), Some(tensor![[1.0]]));
///     Ok(())
/// })?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct CompressHook<H = AllReduceHook> {
    hook: H,
    dtype: DType,
}

impl CompressHook {
    /// The average, of gradients in float16 (`fp16_compress_hook`).
    pub fn fp16() -> CompressHook {
        CompressHook::of(AllReduceHook, DType::F16)
    }

    /// The average, of gradients in bfloat16 (`bf16_compress_hook`).
    pub fn bf16() -> CompressHook {
        CompressHook::of(AllReduceHook, DType::BF16)
    }
}

impl<H: CommHook> CompressHook<H> {
    /// `hook` on gradients in `dtype`.
    pub fn of(hook: H, dtype: DType) -> CompressHook<H> {
        CompressHook { hook, dtype }
    }
}

impl<H: CommHook> CommHook for CompressHook<H> {
    fn name(&self) -> &str {
        "compress"
    }

    #[torsh_tensor::names_caller]
    fn check(&self, dtypes: &[DType]) -> Result<()> {
        if !self.dtype.is_floating_point() || dtypes.iter().any(|d| !d.is_floating_point()) {
            return Err(TorshError::dtype(
                "register_comm_hook",
                format!(
                    "gradients of {dtypes:?} cannot be sent as {}: both must be floating point",
                    self.dtype
                ),
            ));
        }
        self.hook.check(&[self.dtype])
    }

    #[torsh_tensor::names_caller]
    fn start(&self, bucket: &GradBucket) -> Result<CommStep> {
        let small = bucket.buffer.to_dtype(self.dtype)?;
        let buffer = bucket.buffer.clone();
        let step = self.hook.start(&bucket.with_buffer(small.clone()))?;
        Ok(step.then(move || buffer.copy_(&small).map(drop)))
    }
}

/// A tensor's elements are needed on the host or not at all.
pub(super) fn has_data(t: &Tensor) -> bool {
    t.device() != Device::Meta
}
