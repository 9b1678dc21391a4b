//! The largest batch that fits.

use torsh_nn::{Module, ModuleExt};
use torsh_tensor::{Result, Tensor, TorshError, enable_grad, grad, no_grad, options};

use crate::MB;
use crate::analysis::{counted, fixed, undone};

options! {
    /// What [`find_optimal_batch_size_with`] may be told.
    BatchSizeOptions {
        /// The largest batch that is tried.
        max_batch_size: usize = 1024;
        /// Whether the batch is for training: forward and backward with gradients, else a forward
        /// pass that records nothing.
        training: bool = true;
        /// How many tensors of a parameter's size the optimizer keeps for each trained one: 0 for
        /// SGD, 1 with momentum, 2 for Adam and AdamW.
        optimizer_slots: usize = 0;
    }
}

/// The largest batch size whose training step keeps within `max_memory_mb` (units of 2^20 bytes)
/// for model, gradients and all tensors that are in use at once.
///
/// `sample` is a batch of one, `[1, ..]`, which is repeated. Sizes are doubled until one does not
/// fit, then the interval is halved; each is measured exactly, by a step as
/// [`analyze_memory_usage`](crate::analyze_memory_usage) makes one: for a model and sample on
/// [`Device::Meta`](torsh_tensor::Device::Meta) nothing is computed or allocated, on the CPU a try
/// takes up to about twice the memory. Gradients and buffers of the model stay as they are.
///
/// ```
/// use torsh_nn::Linear;
/// use torsh_profiler::{BatchSizeOptions, find_optimal_batch_size_with};
/// use torsh_tensor::{Device, DType, Tensor};
/// let model = Linear::builder(1024, 1024).bias(false).device(Device::Meta).build()?;
/// let sample = Tensor::ones(&[1, 1024], DType::F32, Device::Meta)?;
/// let options = BatchSizeOptions::new().training(false);
/// // 4 MiB of weights leave 1 MiB for inputs and outputs of 8 KiB a sample.
/// assert_eq!(find_optimal_batch_size_with(&model, &sample, 5.0, options)?, 128);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// `InvalidArgument` where `sample` is no batch of one, or one sample does not fit; those of
/// `forward` and backward other than `OutOfMemory`, which counts as not fitting.
#[track_caller]
pub fn find_optimal_batch_size<M: Module + ?Sized>(
    model: &M,
    sample: &Tensor,
    max_memory_mb: f64,
) -> Result<usize> {
    find_optimal_batch_size_with(model, sample, max_memory_mb, BatchSizeOptions::default())
}

/// [`find_optimal_batch_size`] for inference, with a limit, or with what an optimizer keeps.
///
/// # Errors
/// As [`find_optimal_batch_size`].
#[torsh_tensor::names_caller]
pub fn find_optimal_batch_size_with<M: Module + ?Sized>(
    model: &M,
    sample: &Tensor,
    max_memory_mb: f64,
    options: BatchSizeOptions,
) -> Result<usize> {
    let op = "find_optimal_batch_size";
    if sample.dims().first() != Some(&1) {
        return Err(TorshError::invalid(
            op,
            format!(
                "the sample must be a batch of one, got {}",
                sample.describe()
            ),
        )
        .with_hint("unsqueeze(0) makes a batch of one sample"));
    }
    let fits = |n: usize| -> Result<(bool, f64)> {
        match step_bytes(model, sample, n, &options) {
            Ok(bytes) => Ok((bytes as f64 <= max_memory_mb * MB, bytes as f64 / MB)),
            Err(TorshError::OutOfMemory) => Ok((false, f64::INFINITY)),
            Err(e) => Err(e),
        }
    };
    let (one, needed) = fits(1)?;
    if !one {
        return Err(TorshError::invalid(
            op,
            format!("one sample needs {needed:.2} MB, and there are {max_memory_mb:.2}"),
        ));
    }
    let most = options.max_batch_size.max(1);
    let (mut good, mut bad) = (1, most + 1);
    while good < most {
        let next = (2 * good).min(most);
        if !fits(next)?.0 {
            bad = next;
            break;
        }
        good = next;
    }
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        match fits(middle)?.0 {
            true => good = middle,
            false => bad = middle,
        }
    }
    Ok(good)
}

/// The most a step with a batch of `n` has in use at once.
fn step_bytes<M: Module + ?Sized>(
    model: &M,
    sample: &Tensor,
    n: usize,
    options: &BatchSizeOptions,
) -> Result<usize> {
    let mut repeats = vec![1; sample.ndim()];
    repeats[0] = n;
    let peak = undone(model, || {
        counted(|live| {
            let input = sample.detach().repeat(&repeats)?;
            if options.training {
                let trained: Vec<Tensor> = (model.parameters().iter())
                    .filter(|p| p.requires_grad())
                    .map(|p| p.tensor().clone())
                    .collect();
                let output = enable_grad(|| model.forward(&input)?.sum())?;
                if !trained.is_empty() {
                    grad(&[output], &trained, &[], false, false, true)?;
                }
            } else {
                no_grad(|| model.forward(&input))?;
            }
            Ok(live.peak())
        })
    })?;
    let fixed = fixed(model);
    let optimizer = match options.training {
        true => options.optimizer_slots * fixed.trained,
        false => 0,
    };
    Ok(fixed.parameters + fixed.buffers + optimizer + peak)
}
