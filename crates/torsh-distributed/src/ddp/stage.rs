//! Data parallel models as stages of a pipeline, whose forward passes run ahead of their backward passes.

use std::marker::PhantomData;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use torsh_nn::{Module, ModuleExt};
use torsh_tensor::{Result, Tensor};

use super::NoSync;
use super::reducer::Reducer;

/// The reducers of the process.
static REDUCERS: Mutex<Vec<Weak<Reducer>>> = Mutex::new(Vec::new());

/// Lets a reducer be found by its parameters.
pub(super) fn register(reducer: &Arc<Reducer>) {
    let mut all = REDUCERS.lock();
    all.retain(|r| r.strong_count() > 0);
    all.push(Arc::downgrade(reducer));
}

/// What averages the gradients of a module that is, or has within, a
/// [`DistributedDataParallel`](crate::DistributedDataParallel).
pub(crate) struct Averaging(Arc<Reducer>);

impl Averaging {
    /// All of a module.
    pub(crate) fn of(module: &dyn Module) -> Vec<Averaging> {
        let parameters = module.parameters();
        let all: Vec<Arc<Reducer>> = REDUCERS.lock().iter().filter_map(Weak::upgrade).collect();
        all.into_iter()
            .filter(|r| {
                let mut slots = r.slots.iter();
                slots.any(|s| parameters.iter().any(|p| p.is_same(&s.parameter)))
            })
            .map(Averaging)
            .collect()
    }

    /// The name of the group of ranks.
    pub(crate) fn group_name(&self) -> String {
        self.0.group.name()
    }

    /// Backward passes add gradients up on this rank alone until the guard is dropped.
    pub(crate) fn quiet(&self) -> NoSync<'static> {
        self.0.enter_no_sync();
        NoSync {
            reducer: self.0.clone(),
            of: PhantomData,
        }
    }

    /// The backward pass of this result, whose forward pass ran within [`Averaging::quiet`], averages the sums.
    pub(crate) fn prepare_for_backward(&self, out: &Tensor) -> Result<()> {
        // As in PyTorch, buffers stay each rank's own.
        let sync = self.0.before_forward(false)?;
        self.0.after_forward(sync, out)
    }
}
