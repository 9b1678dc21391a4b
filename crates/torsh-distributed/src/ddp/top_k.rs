//! The largest gradients alone.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use torsh_tensor::{DType, Result, Tensor, TorshError};

use super::hooks::{CommHook, CommStep, GradBucket};

/// Sends the largest part of a bucket's gradients, by absolute value, and keeps the rest for the next step (error
/// feedback; Lin et al., Deep Gradient Compression, 2018). Each rank chooses its own; the result is the average of what
/// the ranks sent, the same on all.
///
/// ```
/// use torsh_distributed::{DistributedDataParallel, TopKHook, spawn};
/// use torsh_nn::{Linear, Module};
/// use torsh_tensor::tensor;
/// spawn(2, |group| {
///     let layer = Linear::builder(4, 1).bias(false).build()?;
///     let ddp = DistributedDataParallel::new(layer, group.rank())?;
///     ddp.register_comm_hook(TopKHook::new(0.25)?)?;
///     ddp.forward(&tensor![[1.0, 8.0, 2.0, 4.0]])?.sum()?.backward()?;
///     assert_eq!(ddp.module().weight.grad(), Some(tensor![[0.0, 8.0, 0.0, 0.0]]));
///     Ok(())
/// })?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub struct TopKHook {
    ratio: f64,
    /// By bucket: what was not sent, and of which parameters.
    errors: Arc<Mutex<HashMap<usize, Residual>>>,
}

/// What a bucket did not send.
struct Residual {
    names: Vec<String>,
    error: Tensor,
}

impl TopKHook {
    /// Sends this part of the gradients, above 0 and up to 1; at least one of each bucket.
    ///
    /// # Errors
    /// A part that is not above 0 and up to 1.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(ratio: f64) -> Result<TopKHook> {
        if !(ratio > 0.0 && ratio <= 1.0) {
            return Err(TorshError::invalid(
                "TopKHook",
                format!(
                    "a part of {ratio} of the gradients cannot be sent: it must be above 0 and up to 1"
                ),
            ));
        }
        Ok(TopKHook {
            ratio,
            errors: Arc::default(),
        })
    }
}

impl CommHook for TopKHook {
    fn name(&self) -> &str {
        "top-k"
    }

    #[torsh_tensor::names_caller]
    fn check(&self, dtypes: &[DType]) -> Result<()> {
        match dtypes.iter().find(|d| !d.is_floating_point()) {
            None => Ok(()),
            Some(d) => Err(TorshError::dtype(
                "register_comm_hook",
                format!("gradients of {d} have no order by size"),
            )),
        }
    }

    #[torsh_tensor::names_caller]
    fn start(&self, bucket: &GradBucket) -> Result<CommStep> {
        let (index, buffer) = (bucket.index(), bucket.buffer().clone());
        let n = buffer.numel();
        if n == 0 {
            return Ok(CommStep::Done);
        }
        let names: Vec<String> = bucket.parameters().iter().map(|(n, _)| n.clone()).collect();
        // Buckets change once, after the first step: what was kept of others does not fit.
        if let Some(kept) = self.errors.lock().get(&index)
            && kept.names == names
        {
            buffer.add_(&kept.error)?;
        }
        let k = ((n as f64 * self.ratio).ceil() as usize).clamp(1, n);
        let (_, indices) = buffer.abs()?.topk(k)?;
        let values = buffer.gather(0, &indices)?;
        let error = buffer.copy()?;
        let nothing = Tensor::zeros([k], buffer.dtype(), buffer.device())?;
        error.index_copy_(0, &indices, &nothing)?;
        self.errors.lock().insert(index, Residual { names, error });

        let ranks = bucket.group().size();
        let all_values = Tensor::zeros([ranks * k], buffer.dtype(), buffer.device())?;
        let all_indices = Tensor::zeros([ranks * k], DType::I64, buffer.device())?;
        let group = bucket.group();
        let first = group.all_gather_into_async(&all_values, &values)?;
        let second = group.all_gather_into_async(&all_indices, &indices)?;
        Ok(CommStep::after(first, move || {
            second.wait()?;
            buffer.zero_()?;
            // In rank order, so that all ranks get the same sums.
            for r in 0..ranks {
                let at = all_indices.narrow(0, r * k, k)?;
                buffer.index_add_(0, &at, &all_values.narrow(0, r * k, k)?)?;
            }
            buffer.div_(ranks as f64)?;
            Ok(CommStep::Done)
        }))
    }
}
