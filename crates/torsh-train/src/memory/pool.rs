//! A pool of tensors for reuse.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use parking_lot::Mutex;
use torsh_tensor::{DType, Device, IntoShape, Operand, Result, Shared, Tensor, TorshError};

#[derive(Default)]
struct Inner {
    limit: usize,
    /// Bytes of tensors that are given out, and of those that wait.
    used: usize,
    kept: usize,
    /// Flat tensors that wait, those that came back last at the end.
    free: Vec<Tensor>,
    reused: usize,
}

fn bytes(t: &Tensor) -> usize {
    t.numel() * t.dtype().size()
}

/// A budget of bytes for tensors that come back when they are dropped, and are then given out
/// again. A clone is the same pool.
///
/// The allocator keeps freed memory too; a pool bounds what one part of a program takes, and says
/// so when it is used up.
///
/// ```
/// use torsh_tensor::{DType, TorshError};
/// use torsh_train::memory::MemoryPool;
///
/// let pool = MemoryPool::new(1024);
/// let a = pool.allocate_tensor(&[16, 8], DType::F32)?;
/// assert_eq!((a.dims(), pool.used()), (&[16, 8][..], 512));
/// a.fill_(1.0)?;
/// drop(a);
/// let b = pool.allocate_tensor(&[128], DType::F32)?;
/// assert_eq!((pool.reused(), pool.used()), (1, 512));
/// assert!(matches!(pool.allocate_tensor(&[256], DType::F32), Err(TorshError::OutOfMemory)));
/// # drop(b);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Default)]
pub struct MemoryPool {
    device: Device,
    inner: Arc<Mutex<Inner>>,
}

impl fmt::Debug for MemoryPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = self.inner.lock();
        f.debug_struct("MemoryPool")
            .field("device", &self.device)
            .field("limit", &inner.limit)
            .field("used", &inner.used)
            .field("kept", &inner.kept)
            .finish_non_exhaustive()
    }
}

impl MemoryPool {
    /// Returns a pool of at most so many bytes on the CPU. Nothing is allocated yet.
    ///
    /// ```
    /// use torsh_train::memory::MemoryPool;
    /// let pool = MemoryPool::new(1 << 30);
    /// assert_eq!((pool.limit(), pool.used()), (1 << 30, 0));
    /// ```
    pub fn new(bytes: usize) -> MemoryPool {
        MemoryPool::on(Device::Cpu, bytes)
    }

    /// Returns a pool of at most so many bytes on a device.
    ///
    /// ```
    /// use torsh_tensor::{DType, Device};
    /// use torsh_train::memory::MemoryPool;
    /// let pool = MemoryPool::on(Device::Meta, 64);
    /// assert_eq!(pool.allocate_tensor([4, 4], DType::F32)?.device(), Device::Meta);
    /// assert!(pool.allocate_tensor([17], DType::F32).is_err());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn on(device: Device, bytes: usize) -> MemoryPool {
        MemoryPool {
            device,
            inner: Arc::new(Mutex::new(Inner {
                limit: bytes,
                ..Inner::default()
            })),
        }
    }

    /// Returns a tensor whose elements are whatever was there; one that waits, where one has the number of
    /// elements and the dtype.
    ///
    /// ```
    /// use torsh_tensor::DType;
    /// use torsh_train::memory::MemoryPool;
    /// let pool = MemoryPool::new(64);
    /// let whole = pool.allocate_tensor([16], DType::F32)?;
    /// assert!(pool.allocate_tensor([1], DType::F32).unwrap_err().to_string().starts_with("out of memory"));
    /// drop(whole);
    /// assert_eq!(pool.allocate_tensor([1], DType::F32)?.numel(), 1);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// `OutOfMemory` where the pool's bytes are given out, or the device has none.
    #[torsh_tensor::names_caller]
    pub fn allocate_tensor(&self, shape: impl IntoShape, dtype: DType) -> Result<PooledTensor> {
        let shape = shape.shape()?;
        let n = shape.checked_numel(dtype.size())?;
        let wanted = n.saturating_mul(dtype.size());
        let mut inner = self.inner.lock();
        let fits = |t: &Tensor| t.numel() == n && t.dtype() == dtype;
        let flat = match inner.free.iter().rposition(fits) {
            Some(i) => {
                inner.kept -= wanted;
                inner.reused += 1;
                inner.free.remove(i)
            }
            None => {
                let room = inner.limit.saturating_sub(inner.used);
                if wanted > room {
                    return Err(TorshError::out_of_memory(self.device, wanted));
                }
                while inner.kept > room - wanted {
                    let oldest = inner.free.remove(0);
                    inner.kept -= bytes(&oldest);
                }
                Tensor::empty([n], dtype, self.device)?
            }
        };
        inner.used += wanted;
        drop(inner);
        // A tensor of its own on the memory: whether that is still used shows when it comes back.
        Ok(PooledTensor {
            tensor: Some(flat.detach().reshape(&shape)?),
            flat: Some(flat),
            pool: self.clone(),
        })
    }

    /// Returns the bytes that are given out.
    ///
    /// ```
    /// use torsh_tensor::DType;
    /// use torsh_train::memory::MemoryPool;
    /// let pool = MemoryPool::new(1024);
    /// let buffer = pool.allocate_tensor([10], DType::F64)?;
    /// assert_eq!(pool.used(), 80);
    /// drop(buffer);
    /// assert_eq!(pool.used(), 0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn used(&self) -> usize {
        self.inner.lock().used
    }

    /// Returns the bytes that wait to be given out again.
    ///
    /// ```
    /// use torsh_tensor::DType;
    /// use torsh_train::memory::MemoryPool;
    /// let pool = MemoryPool::new(1024);
    /// drop(pool.allocate_tensor([10], DType::F64)?);
    /// assert_eq!(pool.kept(), 80);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn kept(&self) -> usize {
        self.inner.lock().kept
    }

    /// Returns the most bytes that can be given out.
    ///
    /// ```
    /// use torsh_train::memory::MemoryPool;
    /// assert_eq!(MemoryPool::new(4096).limit(), 4096);
    /// ```
    pub fn limit(&self) -> usize {
        self.inner.lock().limit
    }

    /// Returns how many tensors were given out again.
    ///
    /// ```
    /// use torsh_tensor::DType;
    /// use torsh_train::memory::MemoryPool;
    /// let pool = MemoryPool::new(1024);
    /// drop(pool.allocate_tensor([8], DType::F32)?);
    /// drop(pool.allocate_tensor([2, 4], DType::F32)?); // As many elements.
    /// assert_eq!(pool.reused(), 1);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn reused(&self) -> usize {
        self.inner.lock().reused
    }

    /// The pool's device.
    pub fn device(&self) -> Device {
        self.device
    }

    /// Gives what waits back to the allocator.
    ///
    /// ```
    /// use torsh_tensor::DType;
    /// use torsh_train::memory::MemoryPool;
    /// let pool = MemoryPool::new(1024);
    /// drop(pool.allocate_tensor([8], DType::F32)?);
    /// pool.cleanup();
    /// assert_eq!(pool.kept(), 0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn cleanup(&self) {
        let mut inner = self.inner.lock();
        inner.kept = 0;
        inner.free.clear();
    }
}

/// A tensor of a [`MemoryPool`], to which it goes back when it is dropped.
///
/// Dereferences to its tensor. Where a clone or view of that is still there then, the memory stays
/// that one's, and the pool only forgets it.
///
/// ```
/// use torsh_tensor::DType;
/// use torsh_train::memory::MemoryPool;
/// let pool = MemoryPool::new(1024);
/// let buffer = pool.allocate_tensor([4], DType::F32)?;
/// buffer.fill_(2.0)?; // Methods of `Tensor` work.
/// let view = buffer.narrow(0, 0, 2)?;
/// drop(buffer);
/// assert_eq!(view.to_vec::<f32>()?, [2.0, 2.0]);
/// assert_eq!((pool.used(), pool.kept()), (0, 0)); // The memory is the view's now.
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub struct PooledTensor {
    /// There until the drop.
    tensor: Option<Tensor>,
    flat: Option<Tensor>,
    pool: MemoryPool,
}

impl Deref for PooledTensor {
    type Target = Tensor;

    fn deref(&self) -> &Tensor {
        self.tensor
            .as_ref()
            .expect("a pooled tensor has its tensor until it is dropped")
    }
}

impl AsRef<Tensor> for PooledTensor {
    fn as_ref(&self) -> &Tensor {
        self
    }
}

impl<'a> From<&'a PooledTensor> for Operand<'a> {
    fn from(t: &'a PooledTensor) -> Self {
        Operand::Ref(t)
    }
}

impl fmt::Debug for PooledTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl Drop for PooledTensor {
    fn drop(&mut self) {
        let Some(flat) = self.flat.take() else { return };
        self.tensor = None;
        let size = bytes(&flat);
        let mut inner = self.pool.inner.lock();
        inner.used -= size;
        if flat
            .untyped_storage()
            .is_ok_and(|s| Shared::strong_count(s) == 1)
        {
            inner.kept += size;
            inner.free.push(flat);
        }
    }
}
