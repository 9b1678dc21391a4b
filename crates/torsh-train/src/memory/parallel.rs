//! Computing several batches at once.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use torsh_nn::Module;
use torsh_tensor::{Result, Tensor, TorshError, no_grad};

/// What a model makes of several batches, computed by several threads without recording; in the
/// order of the batches. As many threads as the machine runs at once, if `threads` is 0.
///
/// A module computes through a shared reference, so no lock keeps one thread waiting for another.
/// It pays where a batch is too small for the threads of one op.
///
/// ```
/// use torsh_nn::{Linear, Module};
/// use torsh_tensor::{DType, Device, Tensor};
/// use torsh_train::memory::parallel_forward;
///
/// let net = Linear::new(2, 2);
/// let batches = (0..5).map(|i| Tensor::full([1, 2], i, DType::F32, Device::Cpu)).collect::<Result<Vec<_>, _>>()?;
/// let outputs = parallel_forward(&net, &batches, 3)?;
/// for (x, y) in batches.iter().zip(&outputs) {
///     assert_eq!(y.to_vec::<f32>()?, net.forward(x)?.to_vec::<f32>()?);
/// }
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// The model's error for the first batch that it refuses, with the batch's number.
#[torsh_tensor::names_caller]
pub fn parallel_forward(
    model: &(impl Module + ?Sized),
    batches: &[Tensor],
    threads: usize,
) -> Result<Vec<Tensor>> {
    let threads = match threads {
        0 => std::thread::available_parallelism().map_or(1, NonZero::get),
        n => n,
    };
    let next = AtomicUsize::new(0);
    let outputs: Vec<Mutex<Option<Result<Tensor>>>> =
        batches.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..threads.min(batches.len()) {
            scope.spawn(|| {
                while let Some((i, x)) = {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    batches.get(i).map(|x| (i, x))
                } {
                    *outputs[i].lock() = Some(no_grad(|| model.forward(x)));
                }
            });
        }
    });
    let outputs = outputs.into_iter().enumerate();
    outputs
        .map(|(i, output)| match output.into_inner() {
            Some(Ok(y)) => Ok(y),
            Some(Err(e)) => Err(e.renamed(&format!("parallel_forward, batch {i}"))),
            None => Err(TorshError::Other(format!(
                "parallel_forward, batch {i}: its thread panicked"
            ))),
        })
        .collect()
}
