//! Buffers that a training loop allocates in advance.

use torsh_nn::{Module, ModuleExt};
use torsh_tensor::{DType, Device, IntoShape, Result, Tensor, TorshError, no_grad};

use super::pool::{MemoryPool, PooledTensor};

/// A workspace, a buffer for each gradient, and the losses of a loop that is written by hand.
///
/// ```
/// use torsh_nn::{Linear, Module};
/// use torsh_tensor::{DType, Device, Tensor};
/// use torsh_train::memory::TrainingContext;
///
/// let net = Linear::new(2, 1);
/// let mut cx = TrainingContext::new(&net, 64)?;
/// let x = Tensor::ones([1, 2], DType::F32, Device::Cpu)?;
/// for _ in 0..3 {
///     let loss = net.forward(&x)?.sum()?;
///     loss.backward()?;
///     cx.add_gradients(&net)?; // and takes them from the model
///     cx.record(loss.item::<f64>()?);
/// }
/// assert_eq!(cx.gradients()[0].to_vec::<f32>()?, [3.0, 3.0]);
/// assert_eq!(cx.loss_history().len(), 3);
/// assert_eq!(cx.workspace([4, 8])?.dims(), [4, 8]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Debug)]
pub struct TrainingContext {
    workspace: Tensor,
    gradients: Vec<Tensor>,
    losses: Vec<f64>,
}

impl TrainingContext {
    /// For a model, with a workspace of so many elements of its first parameter's dtype and device.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(model: &(impl Module + ?Sized), workspace: usize) -> Result<TrainingContext> {
        let parameters = model.parameters();
        let (dtype, device) = match parameters.first() {
            Some(p) => (p.dtype(), p.device()),
            None => (DType::F32, Device::Cpu),
        };
        let zeros = |p: &Tensor| Tensor::zeros(p.shape(), p.dtype(), p.device());
        Ok(TrainingContext {
            workspace: Tensor::zeros([workspace], dtype, device)?,
            gradients: parameters.iter().map(|p| zeros(p)).collect::<Result<_>>()?,
            losses: Vec::with_capacity(1000),
        })
    }

    /// Returns the start of the workspace as a tensor of a shape; it grows where that is larger. What was
    /// there before is in it.
    ///
    /// ```
    /// # use torsh_nn::{Linear, Module};
    /// # use torsh_tensor::{DType, Device, Tensor};
    /// use torsh_train::memory::TrainingContext;
    /// let net = Linear::new(2, 1);
    /// let mut cx = TrainingContext::new(&net, 8)?;
    /// cx.workspace([8])?.fill_(3.0)?;
    /// assert_eq!(cx.workspace([2, 2])?.to_vec::<f32>()?, [3.0; 4]); // The start of the same memory.
    /// assert_eq!(cx.workspace([5, 5])?.dims(), [5, 5]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn workspace(&mut self, shape: impl IntoShape) -> Result<Tensor> {
        let shape = shape.shape()?;
        let n = shape.checked_numel(self.workspace.dtype().size())?;
        if n > self.workspace.numel() {
            self.workspace = Tensor::zeros([n], self.workspace.dtype(), self.workspace.device())?;
        }
        self.workspace.narrow(0, 0, n as i64)?.reshape(&shape)
    }

    /// Adds a model's gradients to the buffers, and clears them. An error for another model.
    #[torsh_tensor::names_caller]
    pub fn add_gradients(&self, model: &(impl Module + ?Sized)) -> Result<()> {
        let parameters = model.parameters();
        let fits = parameters.len() == self.gradients.len()
            && parameters
                .iter()
                .zip(&self.gradients)
                .all(|(p, g)| p.shape() == g.shape());
        if !fits {
            return Err(TorshError::invalid(
                "TrainingContext",
                "the model has other parameters than the one the buffers were made for",
            ));
        }
        no_grad(|| {
            for (p, buffer) in parameters.iter().zip(&self.gradients) {
                if let Some(grad) = p.grad() {
                    buffer.add_(&grad)?;
                    p.zero_grad();
                }
            }
            Ok(())
        })
    }

    /// The buffers, in the order of the parameters.
    pub fn gradients(&self) -> &[Tensor] {
        &self.gradients
    }

    /// Sets the buffers to 0.
    ///
    /// ```
    /// # use torsh_nn::{Linear, Module};
    /// # use torsh_tensor::{DType, Device, Tensor};
    /// use torsh_train::memory::TrainingContext;
    /// let net = Linear::new(2, 1);
    /// let cx = TrainingContext::new(&net, 1)?;
    /// net.forward(&Tensor::ones([1, 2], DType::F32, Device::Cpu)?)?.sum()?.backward()?;
    /// cx.add_gradients(&net)?;
    /// assert_eq!(cx.gradients()[0].to_vec::<f32>()?, [1.0, 1.0]);
    /// cx.clear()?;
    /// assert_eq!(cx.gradients()[0].to_vec::<f32>()?, [0.0, 0.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn clear(&self) -> Result<()> {
        self.gradients.iter().try_for_each(|g| g.zero_().map(drop))
    }

    /// Notes a loss.
    pub fn record(&mut self, loss: f64) {
        self.losses.push(loss);
    }

    /// The losses that were noted.
    pub fn loss_history(&self) -> &[f64] {
        &self.losses
    }
}

/// A device and a pool on it, whose memory goes back to the system when the context ends.
///
/// ```
/// use torsh_tensor::{DType, Device};
/// use torsh_train::memory::ModelContext;
///
/// let cx = ModelContext::new(Device::Cpu, 1 << 20)?;
/// let buffer = cx.create_tensor([32, 32], DType::F32)?;
/// buffer.fill_(0.5)?;
/// assert_eq!(buffer.sum()?.item::<f32>()?, 512.0);
/// assert_eq!(cx.pool().used(), 4096);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Debug)]
pub struct ModelContext {
    pool: MemoryPool,
}

impl ModelContext {
    /// Returns a context on a device, with at most so many bytes. An error where the device is not there.
    ///
    /// ```
    /// use torsh_tensor::{DType, Device};
    /// use torsh_train::memory::ModelContext;
    /// let cx = ModelContext::new(Device::Cpu, 64)?;
    /// assert_eq!((cx.device(), cx.pool().limit()), (Device::Cpu, 64));
    /// assert!(cx.create_tensor([17], DType::F32).is_err());
    /// assert!(ModelContext::new(Device::Cuda(0), 64).is_err());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn new(device: Device, bytes: usize) -> Result<ModelContext> {
        torsh_backend::memory_stats(device)?;
        Ok(ModelContext {
            pool: MemoryPool::on(device, bytes),
        })
    }

    /// A tensor of the pool; see [`MemoryPool::allocate_tensor`].
    #[track_caller]
    pub fn create_tensor(&self, shape: impl IntoShape, dtype: DType) -> Result<PooledTensor> {
        self.pool.allocate_tensor(shape, dtype)
    }

    /// The pool.
    pub fn pool(&self) -> &MemoryPool {
        &self.pool
    }

    /// The device.
    pub fn device(&self) -> Device {
        self.pool.device()
    }
}

impl Drop for ModelContext {
    fn drop(&mut self) {
        self.pool.cleanup();
        // The device was there when the context was made.
        let _ = torsh_backend::empty_cache(self.pool.device());
    }
}
