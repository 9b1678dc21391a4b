//! What shares the statistics of training batches between processes.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use torsh_functional::BatchNormOptions;
use torsh_tensor::{Result, Tensor};

/// Normalises a training batch by the statistics of the batches of all processes. Layers of batch normalisation call it
/// in the place of `F::batch_norm` while they train, once it is given to their `set_statistics_sync`.
///
/// ```
/// use std::sync::Arc;
/// use torsh_nn::functional as F;
/// use torsh_nn::{BatchNorm1d, Module, StatisticsSync};
/// use torsh_tensor::{BatchNormOptions, Result, Tensor, tensor};
///
/// /// One process: its batch is all there is.
/// struct Alone;
///
/// impl StatisticsSync for Alone {
///     fn batch_norm(
///         &self,
///         x: &Tensor,
///         running_mean: Option<&Tensor>,
///         running_var: Option<&Tensor>,
///         options: BatchNormOptions,
///     ) -> Result<Tensor> {
///         F::batch_norm_with(x, running_mean, running_var, options)
///     }
/// }
///
/// let norm = BatchNorm1d::builder(1).eps(0.0).build()?;
/// norm.set_statistics_sync(Some(Arc::new(Alone)));
/// assert_eq!(norm.forward(&tensor![[1.0], [3.0]])?, tensor![[-1.0], [1.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub trait StatisticsSync: Send + Sync + 'static {
    /// `x` of `[N, C, ..]` by the mean and variance of each channel over all processes, whose running statistics
    /// follow; recorded, if `x` or the weights want gradients. `options.training` is true.
    fn batch_norm(
        &self,
        x: &Tensor,
        running_mean: Option<&Tensor>,
        running_var: Option<&Tensor>,
        options: BatchNormOptions,
    ) -> Result<Tensor>;
}

/// A layer's own.
#[derive(Default)]
pub(super) struct Synced(Mutex<Option<Arc<dyn StatisticsSync>>>);

impl Synced {
    pub(super) fn get(&self) -> Option<Arc<dyn StatisticsSync>> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(super) fn set(&self, sync: Option<Arc<dyn StatisticsSync>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = sync;
    }
}

impl fmt::Debug for Synced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Synced({})", self.get().is_some())
    }
}
