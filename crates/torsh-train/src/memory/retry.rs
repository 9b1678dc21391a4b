//! Retrying operations whose errors may be temporary.

use std::time::Duration;

use torsh_tensor::{Device, Result, Tensor, TorshError};

/// Tries again, after a pause that grows with each failure.
///
/// ```
/// use std::time::Duration;
/// use torsh_tensor::TorshError;
/// use torsh_train::memory::Retry;
///
/// let mut calls = 0;
/// let found = Retry::new(3).pause(Duration::from_millis(1)).run(|attempt| {
///     calls += 1;
///     if attempt < 2 { Err(TorshError::Other("not yet".into())) } else { Ok(attempt) }
/// })?;
/// assert_eq!((found, calls), (2, 3));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing is tried until run()"]
pub struct Retry {
    retries: usize,
    pause: Duration,
    device: Device,
}

impl Retry {
    /// Up to so many times more, with pauses of 100 ms, 200 ms, 300 ms, ..
    pub fn new(retries: usize) -> Retry {
        Retry {
            retries,
            pause: Duration::from_millis(100),
            device: Device::Cpu,
        }
    }

    /// The device whose cached memory is given back before another try where there was no memory, for
    /// which its work is waited for (the CPU, whose cache is emptied in any case).
    pub fn device(mut self, device: impl Into<Device>) -> Retry {
        self.device = device.into();
        self
    }

    /// The first pause; the second is twice as long, the third three times.
    pub fn pause(mut self, pause: Duration) -> Retry {
        self.pause = pause;
        self
    }

    /// Calls `f` with the number of the attempt, from 0, until it succeeds; the last error where it
    /// never does. What cannot become right is not tried again: wrong arguments, shapes, dtypes,
    /// devices and indices, and broken rules of differentiation.
    ///
    /// ```
    /// use torsh_tensor::TorshError;
    /// use torsh_train::memory::Retry;
    /// let mut calls = 0;
    /// let error = Retry::new(5).run(|_| {
    ///     calls += 1;
    ///     Err::<(), _>(TorshError::invalid("read", "no such column")) // Waiting would not help.
    /// });
    /// assert!(error.is_err());
    /// assert_eq!(calls, 1);
    /// ```
    #[torsh_tensor::names_caller]
    pub fn run<T>(self, mut f: impl FnMut(usize) -> Result<T>) -> Result<T> {
        let mut attempt = 0;
        loop {
            match f(attempt) {
                Ok(v) => return Ok(v),
                Err(e) if attempt == self.retries || e.info().is_some() => return Err(e),
                Err(TorshError::OutOfMemory) => give_back(self.device)?,
                Err(_) => {}
            }
            attempt += 1;
            let times = u32::try_from(attempt).unwrap_or(u32::MAX);
            std::thread::sleep(self.pause.saturating_mul(times));
        }
    }
}

/// Gives cached memory back, that of the host and that of a device, once its work is done with it.
fn give_back(device: Device) -> Result<()> {
    torsh_backend::empty_cache(Device::Cpu)?;
    if !device.is_host() {
        torsh_backend::synchronize(device)?;
        torsh_backend::empty_cache(device)?;
    }
    Ok(())
}

/// A training step that gets by with less memory: `step` is called with the whole batch, and where
/// that is out of memory with halves of it, quarters, and so on down to single items. Where its
/// device is not there, with the batch on the CPU.
///
/// `step` computes a loss that is a mean over its items, and its gradients. It is given the part of
/// the batch that its items are, with which it multiplies the loss before `backward`: so the
/// gradients that parts add up to are those of the whole. `zero` clears them before each try. The
/// result is the loss of the whole batch.
///
/// ```
/// use torsh_tensor::{Tensor, TorshError, tensor};
/// use torsh_train::memory::with_smaller_batches;
///
/// let w = tensor![2.0].requires_grad_(true);
/// let (x, y) = (tensor![1.0, 2.0, 3.0, 4.0], tensor![1.0, 1.0, 1.0, 1.0]);
/// let loss = with_smaller_batches(&x, &y, || w.zero_grad(), |x, y, part| {
///     if x.numel() > 2 {
///         return Err(TorshError::OutOfMemory); // as if there were no memory for more
///     }
///     let loss = w.mul(x)?.sub(y)?.square()?.mean()?;
///     loss.mul(part)?.backward()?;
///     loss.item::<f64>()
/// })?;
/// assert_eq!(loss, (1.0 + 9.0 + 25.0 + 49.0) / 4.0);
/// let grad = w.grad().map(|g| g.item::<f64>()).transpose()?;
/// assert_eq!(grad, Some(2.0 * (1.0 + 6.0 + 15.0 + 28.0) / 4.0));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// `OutOfMemory` where a single item is too much; any other error of `step`; a batch without items,
/// or with another number of targets.
#[torsh_tensor::names_caller]
pub fn with_smaller_batches(
    data: &Tensor,
    target: &Tensor,
    zero: impl Fn(),
    mut step: impl FnMut(&Tensor, &Tensor, f64) -> Result<f64>,
) -> Result<f64> {
    let n = data.dims().first().copied().unwrap_or(0);
    if n == 0 || target.dims().first() != Some(&n) {
        return Err(TorshError::shape(
            "with_smaller_batches",
            format!(
                "the data ({}) and the target ({}) need one number of items, at least 1",
                data.describe(),
                target.describe()
            ),
        ));
    }
    let (mut data, mut target) = (data.clone(), target.clone());
    let mut size = n;
    loop {
        zero();
        match in_parts(&data, &target, n, size, &mut step) {
            Err(TorshError::OutOfMemory) if size > 1 => {
                give_back(data.device())?;
                size = size.div_ceil(2);
            }
            Err(TorshError::DeviceNotAvailable(_) | TorshError::DeviceLost(_))
                if data.device() != Device::Cpu =>
            {
                data = data.to_device(Device::Cpu)?;
                target = target.to_device(Device::Cpu)?;
            }
            result => return result,
        }
    }
}

fn in_parts(
    data: &Tensor,
    target: &Tensor,
    n: usize,
    size: usize,
    step: &mut impl FnMut(&Tensor, &Tensor, f64) -> Result<f64>,
) -> Result<f64> {
    let mut loss = 0.0;
    for start in (0..n).step_by(size) {
        let items = size.min(n - start);
        let cut = |t: &Tensor| t.narrow(0, start as i64, items as i64);
        let part = items as f64 / n as f64;
        loss += part * step(&cut(data)?, &cut(target)?, part)?;
    }
    Ok(loss)
}
