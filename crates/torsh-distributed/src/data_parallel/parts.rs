//! A model whose parts are on several devices and work on several batches at a time.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};
use torsh_nn::{Module, ModuleExt, Parameter, Sequential};
use torsh_tensor::{
    Device, Result, Tensor, TorshError, cat, is_grad_enabled, is_inference_mode, set_grad_enabled,
};

use crate::pipeline::split_into_stages;

/// Cuts modules that run one after the other (a [`Sequential`], or a `Vec` of boxes) into as many parts as there are
/// devices, each of about as many modules, and moves each part to its device.
///
/// A batch goes through the parts in turn. [`ModelParts::forward_async`] starts it and returns at once, so that the parts
/// work on several batches at a time:
///
/// ```
/// use torsh_distributed::{combine_outputs, join_all, split_model_across_devices};
/// use torsh_nn::{Linear, Module, ReLU, sequential};
/// use torsh_tensor::{Device, randn};
///
/// let model = sequential![Linear::new(4, 8), ReLU::new(), Linear::new(8, 2)];
/// let batch = randn([6, 4]);
/// let whole = model.forward(&batch)?;
///
/// let parts = split_model_across_devices(model, &[Device::Cpu, Device::Cpu])?;
/// let running: Vec<_> = batch.chunk(3, 0)?.iter().map(|x| parts.forward_async(x)).collect();
/// let outputs = join_all(running)?;
/// assert!(combine_outputs(&outputs)?.allclose(&whole)?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// There are fewer modules than devices, or no device, or a device that is not there.
#[torsh_tensor::names_caller]
pub fn split_model_across_devices(
    model: impl crate::pipeline::IntoModules,
    devices: &[Device],
) -> Result<ModelParts> {
    if devices.is_empty() {
        return Err(TorshError::invalid(
            "split_model_across_devices",
            "there is no device",
        ));
    }
    let parts = split_into_stages(model, devices.len())
        .map_err(|e| e.renamed("split_model_across_devices"))?;
    let parts = parts.into_iter().zip(devices).map(|(mut module, &device)| {
        module.to_device(device)?;
        ModelPart::start(module, device)
    });
    Ok(ModelParts {
        parts: parts.collect::<Result<Vec<_>>>()?,
    })
}

/// A batch on its way through the parts.
struct Job {
    x: Result<Tensor>,
    /// The parts that come after this one.
    next: Vec<Sender<Job>>,
    done: Arc<Slot>,
    recording: bool,
}

/// Where a result arrives.
#[derive(Default)]
struct Slot {
    state: Mutex<(Option<Result<Tensor>>, Option<Waker>)>,
    filled: Condvar,
}

impl Slot {
    fn fill(&self, result: Result<Tensor>) {
        let mut state = self.state.lock();
        state.0 = Some(result);
        self.filled.notify_all();
        if let Some(waker) = state.1.take() {
            waker.wake();
        }
    }
}

impl Drop for Job {
    /// A job that a panic ended is an error, never a wait without end.
    fn drop(&mut self) {
        let waits = {
            let state = self.done.state.lock();
            state.0.is_none()
        };
        if waits && std::thread::panicking() {
            let text = "a part of the model panicked";
            self.done
                .fill(Err(TorshError::invalid("forward_async", text)));
        }
    }
}

/// A part of a model on its device, with a thread of its own that runs it.
pub struct ModelPart {
    module: Arc<Sequential>,
    device: Device,
    jobs: Option<Sender<Job>>,
    worker: Option<JoinHandle<()>>,
}

impl ModelPart {
    fn start(module: Sequential, device: Device) -> Result<ModelPart> {
        let module = Arc::new(module);
        let (jobs, queue) = channel();
        let mine = module.clone();
        let worker = std::thread::Builder::new()
            .name(format!("torsh-part-{device}"))
            .spawn(move || work(&mine, device, queue))
            .map_err(TorshError::from)?;
        Ok(ModelPart {
            module,
            device,
            jobs: Some(jobs),
            worker: Some(worker),
        })
    }

    /// The part's modules, under the names that they have in the whole model.
    pub fn module(&self) -> &Sequential {
        &self.module
    }

    /// The part's device.
    pub fn device(&self) -> Device {
        self.device
    }

    /// Runs this part alone on its own thread, and returns at once. The input is moved to the part's device.
    ///
    /// ```
    /// use torsh_distributed::split_model_across_devices;
    /// use torsh_nn::{ReLU, sequential};
    /// use torsh_tensor::{Device, tensor};
    ///
    /// let parts = split_model_across_devices(sequential![ReLU::new()], &[Device::Cpu])?;
    /// let running = parts.parts()[0].forward_async(&tensor![-1.0, 2.0]);
    /// assert_eq!(running.wait()?, tensor![0.0, 2.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn forward_async(&self, x: &Tensor) -> ForwardHandle {
        start(self.jobs.iter().cloned().collect(), x)
    }
}

/// Hands a batch to the first of some parts.
fn start(mut parts: Vec<Sender<Job>>, x: &Tensor) -> ForwardHandle {
    let done: Arc<Slot> = Arc::default();
    if parts.is_empty() {
        done.fill(Ok(x.clone()));
    } else {
        let first = parts.remove(0);
        let job = Job {
            x: Ok(x.clone()),
            next: parts,
            done: done.clone(),
            recording: is_grad_enabled() && !is_inference_mode(),
        };
        send(&first, job);
    }
    ForwardHandle { done }
}

fn send(to: &Sender<Job>, job: Job) {
    if let Err(back) = to.send(job) {
        let text = "the part's thread has ended, as an earlier panic does";
        back.0
            .done
            .fill(Err(TorshError::invalid("forward_async", text)));
    }
}

fn work(module: &Sequential, device: Device, queue: Receiver<Job>) {
    while let Ok(mut job) = queue.recv() {
        set_grad_enabled(job.recording);
        let x = std::mem::replace(&mut job.x, Err(TorshError::Other(String::new())));
        let y = x.and_then(|x| module.forward(&x.to_device(device)?));
        if job.next.is_empty() || y.is_err() {
            job.done.fill(y);
        } else {
            job.x = y;
            let next = job.next.remove(0);
            send(&next, job);
        }
    }
}

impl Drop for ModelPart {
    fn drop(&mut self) {
        // The thread ends when the last sender is gone.
        self.jobs = None;
        if let Some(worker) = self.worker.take() {
            let _ = worker.join();
        }
    }
}

/// A model in parts, each on a device: see [`split_model_across_devices`].
pub struct ModelParts {
    parts: Vec<ModelPart>,
}

impl ModelParts {
    /// The parts, in the order in which a batch goes through them.
    pub fn parts(&self) -> &[ModelPart] {
        &self.parts
    }

    /// The parameters of all parts, for an optimizer.
    pub fn parameters(&self) -> Vec<Parameter> {
        self.parts
            .iter()
            .flat_map(|p| p.module.parameters())
            .collect()
    }

    /// Sends a batch through all parts, and returns at once. It is recorded for gradients as it would be on this thread; an
    /// autocast region of this thread does not reach the parts' threads.
    pub fn forward_async(&self, x: &Tensor) -> ForwardHandle {
        start(
            self.parts.iter().filter_map(|p| p.jobs.clone()).collect(),
            x,
        )
    }

    /// Sends a batch through all parts.
    ///
    /// # Errors
    /// Those of the modules.
    #[torsh_tensor::names_caller]
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.forward_async(x).wait()
    }
}

/// A result that is computed on another thread: [`wait`](ForwardHandle::wait) for it, or `.await` it.
#[must_use = "the result comes from wait() or .await"]
pub struct ForwardHandle {
    done: Arc<Slot>,
}

impl ForwardHandle {
    /// Whether the result is there.
    pub fn is_completed(&self) -> bool {
        self.done.state.lock().0.is_some()
    }

    /// The result, when it is there.
    ///
    /// # Errors
    /// Those of the modules; a part that panicked.
    #[torsh_tensor::names_caller]
    pub fn wait(self) -> Result<Tensor> {
        let mut state = self.done.state.lock();
        loop {
            if let Some(result) = state.0.take() {
                return result;
            }
            self.done.filled.wait(&mut state);
        }
    }
}

impl Future for ForwardHandle {
    type Output = Result<Tensor>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Tensor>> {
        let mut state = self.done.state.lock();
        match state.0.take() {
            Some(result) => Poll::Ready(result),
            None => {
                state.1 = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// Waits for several results, and gives them in the order of the handles.
///
/// # Errors
/// The first error of one, after all are done.
#[torsh_tensor::names_caller]
pub fn join_all(handles: impl IntoIterator<Item = ForwardHandle>) -> Result<Vec<Tensor>> {
    let all: Vec<Result<Tensor>> = handles.into_iter().map(ForwardHandle::wait).collect();
    all.into_iter().collect()
}

/// Joins the results of parts of a batch along dimension 0, on the first one's device.
///
/// ```
/// use torsh_distributed::combine_outputs;
/// use torsh_tensor::tensor;
/// assert_eq!(combine_outputs(&[tensor![1.0], tensor![2.0, 3.0]])?, tensor![1.0, 2.0, 3.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// There is none, or their shapes differ in another dimension.
#[torsh_tensor::names_caller]
pub fn combine_outputs(outputs: &[Tensor]) -> Result<Tensor> {
    let Some(first) = outputs.first() else {
        return Err(TorshError::invalid("combine_outputs", "there is no output"));
    };
    let here = outputs
        .iter()
        .map(|t| t.to_device(first.device()))
        .collect::<Result<Vec<_>>>()?;
    cat(&here, 0)
}
