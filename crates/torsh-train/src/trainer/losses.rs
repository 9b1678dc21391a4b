//! Losses of batches that have not been read from the device yet.

use torsh_tensor::{DType, Result, Tensor, no_grad};

/// After how many batches the losses of a device are read, where nothing else is said.
const ON_DEVICES: usize = 50;

/// The loss of a batch.
pub(super) struct Loss<T> {
    pub(super) value: T,
    /// How many items the batch has.
    pub(super) items: f64,
    /// The number of the batch in its epoch.
    pub(super) batch: usize,
    /// How many steps of the optimizer were done before it.
    pub(super) step: usize,
}

impl<T> Loss<T> {
    fn with<U>(self, value: U) -> Loss<U> {
        Loss {
            value,
            items: self.items,
            batch: self.batch,
            step: self.step,
        }
    }
}

/// Losses that wait, each as one number of its device, until they are read together: the host waits
/// for the device once. They are summed by the host, in their order and in `f64`, so that the mean does
/// not depend on how often they are read.
#[derive(Default)]
pub(super) struct Losses {
    held: Vec<Loss<Tensor>>,
    /// How many were added in all.
    seen: usize,
}

/// After how many batches losses like this one are read.
pub(super) fn interval(log_every: Option<usize>, loss: &Tensor) -> usize {
    log_every.unwrap_or(match loss.device().is_host() {
        true => 1,
        false => ON_DEVICES,
    })
}

impl Losses {
    /// Adds the loss of a batch; whether it is time to read, `every` so many.
    pub(super) fn add(&mut self, loss: Loss<Tensor>, every: usize) -> Result<bool> {
        self.seen += 1;
        let mut value = loss.value.detach();
        // A part of something larger would keep all of it.
        if every > 1 && value.untyped_storage()?.bytes() > value.dtype().size() {
            value = no_grad(|| value.copy())?;
        }
        self.held.push(loss.with(value));
        Ok(self.seen.is_multiple_of(every))
    }

    /// Forgets the loss that was added last, if it was not read.
    pub(super) fn forget_last(&mut self) {
        self.held.pop();
    }

    /// Reads the losses and forgets them.
    pub(super) fn take(&mut self) -> Result<Vec<Loss<f64>>> {
        let held = std::mem::take(&mut self.held);
        let values = match &held[..] {
            [] => return Ok(Vec::new()),
            [one] => vec![one.value.item::<f64>()?],
            several => read(several)?,
        };
        let read = held.into_iter().zip(values);
        Ok(read.map(|(loss, value)| loss.with(value)).collect())
    }
}

/// The numbers of several losses in one copy from the device, where they are of one.
fn read(losses: &[Loss<Tensor>]) -> Result<Vec<f64>> {
    let first = &losses[0].value;
    if losses.iter().any(|l| l.value.device() != first.device()) {
        return losses.iter().map(|l| l.value.item::<f64>()).collect();
    }
    // Half types are numbers of float32.
    let double = losses.iter().any(|l| l.value.dtype() == DType::F64);
    let dtype = if double { DType::F64 } else { DType::F32 };
    let numbers = losses.iter().map(|l| l.value.reshape(())?.to_dtype(dtype));
    let numbers = no_grad(|| numbers.collect::<Result<Vec<Tensor>>>())?;
    no_grad(|| Tensor::stack(&numbers, 0))?.to_vec::<f64>()
}
