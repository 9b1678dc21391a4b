//! The memory that training a model needs.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use torsh_core::{Storage, WeakShared};
use torsh_nn::{Module, ModuleExt};
use torsh_tensor::observe::{Observer, watch};
use torsh_tensor::{Device, Result, Tensor, enable_grad, no_grad, options};

use crate::MB;

/// The memory that tensors made on this thread use, to the byte of their elements, on any device.
#[derive(Default)]
pub(crate) struct Live {
    made: RefCell<Vec<WeakShared<Storage>>>,
    peak: std::cell::Cell<usize>,
}

impl Live {
    /// The bytes in use now.
    pub(crate) fn bytes(&self) -> usize {
        let mut made = self.made.borrow_mut();
        made.retain(|s| s.strong_count() > 0);
        let held = made.iter().filter_map(WeakShared::upgrade);
        held.map(|s| s.bytes()).sum()
    }

    /// The most that was in use at once.
    pub(crate) fn peak(&self) -> usize {
        self.peak.get()
    }
}

impl Observer for Live {
    fn made(&self, t: &Tensor) {
        self.made.borrow_mut().push(t.weak_storage());
        self.peak.set(self.peak.get().max(self.bytes()));
    }
}

/// Runs `f` while the memory of the tensors it makes is counted.
pub(crate) fn counted<T>(f: impl FnOnce(&Live) -> Result<T>) -> Result<T> {
    let live = Rc::new(Live::default());
    let _guard = watch(live.clone());
    f(&live)
}

/// Runs `f`, which calls a model, and puts the model's buffers back as they were: in training mode
/// batch norm counts what it sees.
pub(crate) fn undone<M: Module + ?Sized, T>(model: &M, f: impl FnOnce() -> Result<T>) -> Result<T> {
    let buffers = model.buffers();
    let data = buffers.iter().filter(|b| b.device() != Device::Meta);
    let saved: Vec<(&Tensor, Tensor)> = data
        .map(|b| Ok((b.tensor(), b.detach().copy()?)))
        .collect::<Result<_>>()?;
    let result = f();
    for (buffer, old) in saved {
        no_grad(|| buffer.copy_(&old))?;
    }
    result
}

fn bytes(t: &Tensor) -> usize {
    t.numel() * t.dtype().size()
}

options! {
    /// What [`analyze_memory_usage_with`] may be told.
    MemoryAnalysisOptions {
        /// How many tensors of a parameter's size the optimizer keeps for each trained one: 0 for
        /// SGD, 1 with momentum, 2 for Adam and AdamW.
        optimizer_slots: usize = 0;
    }
}

/// What training a model keeps in memory between forward and backward, in units of 2^20 bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryAnalysis {
    /// The parameters.
    pub parameters_mb: f64,
    /// The buffers, as running statistics.
    pub buffers_mb: f64,
    /// What the forward pass made and backward needs, and the output.
    pub activations_mb: f64,
    /// The most the forward pass had in use at once.
    pub peak_activations_mb: f64,
    /// A gradient for every parameter that is trained.
    pub gradients_mb: f64,
    /// What the optimizer keeps; see [`MemoryAnalysisOptions::optimizer_slots`].
    pub optimizer_mb: f64,
    /// Parameters, buffers, activations, gradients and optimizer.
    pub total_mb: f64,
    /// Where the forward pass ran: on [`Device::Meta`] nothing was computed or allocated, on
    /// another device it was a real one.
    pub device: Device,
}

impl fmt::Display for MemoryAnalysis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Memory analysis (a forward pass on {}):", self.device)?;
        writeln!(f, "  Parameters: {:.2} MB", self.parameters_mb)?;
        writeln!(f, "  Buffers: {:.2} MB", self.buffers_mb)?;
        writeln!(f, "  Activations: {:.2} MB", self.activations_mb)?;
        writeln!(f, "  Gradients: {:.2} MB", self.gradients_mb)?;
        writeln!(f, "  Optimizer: {:.2} MB", self.optimizer_mb)?;
        write!(f, "  Total: {:.2} MB", self.total_mb)
    }
}

/// What training a model on an input keeps in memory.
///
/// The activations are counted in a forward pass with recording on, in the model's present mode,
/// on the device where model and input are. For a model made on [`Device::Meta`] nothing is
/// computed or allocated; on the CPU it is a real pass, after which buffers are as before (dropout
/// has drawn its numbers).
///
/// ```
/// use torsh_nn::{Linear, ReLU, sequential};
/// use torsh_profiler::analyze_memory_usage;
/// use torsh_tensor::ones;
/// let model = sequential![Linear::new(256, 1024), ReLU::new(), Linear::new(1024, 256)];
/// let m = analyze_memory_usage(&model, &ones(&[64, 256]))?;
/// let mb = |elements: usize| elements as f64 * 4.0 / 1048576.0;
/// assert_eq!(m.parameters_mb, mb(2 * 256 * 1024 + 1024 + 256));
/// assert_eq!(m.gradients_mb, m.parameters_mb);
/// // The first layer's output is not needed once its positive part is there.
/// assert_eq!(m.activations_mb, mb(64 * 1024 + 64 * 256));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Those of `forward`.
#[track_caller]
pub fn analyze_memory_usage<M: Module + ?Sized>(
    model: &M,
    input: &Tensor,
) -> Result<MemoryAnalysis> {
    analyze_memory_usage_with(model, input, MemoryAnalysisOptions::default())
}

/// [`analyze_memory_usage`] with what an optimizer keeps.
///
/// # Errors
/// Those of `forward`.
#[torsh_tensor::names_caller]
pub fn analyze_memory_usage_with<M: Module + ?Sized>(
    model: &M,
    input: &Tensor,
    options: MemoryAnalysisOptions,
) -> Result<MemoryAnalysis> {
    let (activations, peak, device) = undone(model, || {
        counted(|live| {
            let output = enable_grad(|| model.forward(input))?;
            Ok((live.bytes(), live.peak(), output.device()))
        })
    })?;
    let fixed = fixed(model);
    let optimizer = options.optimizer_slots * fixed.trained;
    let mb = |bytes: usize| bytes as f64 / MB;
    let total = fixed.parameters + fixed.buffers + activations + fixed.trained + optimizer;
    Ok(MemoryAnalysis {
        parameters_mb: mb(fixed.parameters),
        buffers_mb: mb(fixed.buffers),
        activations_mb: mb(activations),
        peak_activations_mb: mb(peak),
        gradients_mb: mb(fixed.trained),
        optimizer_mb: mb(optimizer),
        total_mb: mb(total),
        device,
    })
}

/// The bytes of a model whatever its input.
pub(crate) struct Fixed {
    pub(crate) parameters: usize,
    pub(crate) buffers: usize,
    /// Of the parameters that ask for gradients.
    pub(crate) trained: usize,
}

pub(crate) fn fixed<M: Module + ?Sized>(model: &M) -> Fixed {
    let parameters = model.parameters();
    let trained = parameters.iter().filter(|p| p.requires_grad());
    Fixed {
        parameters: parameters.iter().map(|p| bytes(p.tensor())).sum(),
        buffers: model.buffers().iter().map(|b| bytes(b.tensor())).sum(),
        trained: trained.map(|p| bytes(p.tensor())).sum(),
    }
}
