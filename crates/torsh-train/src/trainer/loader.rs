//! The sources of batches that a trainer accepts.

use torsh_data::{DataLoader, Dataset, Fetch, IterableDataset, IterableLoader, Share};
use torsh_serialize::Value;
use torsh_tensor::{Result, TorshError};

use crate::Stateful;

/// A source of batches, epoch by epoch: [`DataLoader`], [`IterableLoader`], or a `Vec` of batches.
pub trait Loader {
    /// What a batch is.
    type Batch;

    /// The batches of the next epoch, or what is left of one that was taken up again.
    fn batches(&self) -> Box<dyn Iterator<Item = Result<Self::Batch>> + '_>;

    /// How many batches an epoch has, where that is known.
    fn num_batches(&self) -> Option<usize>;

    /// Where it is.
    fn save_state(&self) -> Result<Value>;

    /// Goes where another one was, `given` batches into its epoch.
    fn load_state(&self, state: &Value, given: usize) -> Result<()>;

    /// Gives one process's part of the data from the next epoch on, if it can (`true`). Where it cannot
    /// (`false`, the default) the trainer deals out its batches.
    fn set_share(&self, share: Share) -> Result<bool> {
        let _ = share;
        Ok(false)
    }

    /// Is told the number of the epoch that comes next, where several processes train.
    fn set_epoch(&self, epoch: u64) {
        let _ = epoch;
    }
}

impl<D: Dataset + 'static, C: Fetch<D>> Loader for DataLoader<D, C> {
    type Batch = C::Batch;

    fn batches(&self) -> Box<dyn Iterator<Item = Result<C::Batch>> + '_> {
        Box::new(self.try_iter())
    }

    fn num_batches(&self) -> Option<usize> {
        Some(self.len())
    }

    #[torsh_tensor::names_caller]
    fn save_state(&self) -> Result<Value> {
        Stateful::save_state(self)
    }

    #[torsh_tensor::names_caller]
    fn load_state(&self, state: &Value, _given: usize) -> Result<()> {
        Stateful::load_state(self, state)
    }

    #[torsh_tensor::names_caller]
    fn set_share(&self, share: Share) -> Result<bool> {
        DataLoader::set_share(self, share).map(|()| true)
    }

    fn set_epoch(&self, epoch: u64) {
        DataLoader::set_epoch(self, epoch);
    }
}

#[cold]
fn no_position(given: usize) -> TorshError {
    TorshError::invalid(
        "Trainer",
        format!("the loader cannot go on within an epoch, of which {given} batches were given"),
    )
    .with_hint("resume from a checkpoint of the end of an epoch, or use a DataLoader")
}

/// It can be resumed between epochs only.
impl<D: IterableDataset + 'static, B: Send + 'static> Loader for IterableLoader<D, B>
where
    D::Item: 'static,
{
    type Batch = B;

    fn batches(&self) -> Box<dyn Iterator<Item = Result<B>> + '_> {
        self.try_iter()
    }

    fn num_batches(&self) -> Option<usize> {
        None
    }

    #[torsh_tensor::names_caller]
    fn save_state(&self) -> Result<Value> {
        Ok(Value::None)
    }

    #[torsh_tensor::names_caller]
    fn load_state(&self, _state: &Value, given: usize) -> Result<()> {
        if given == 0 {
            Ok(())
        } else {
            Err(no_position(given))
        }
    }

    #[torsh_tensor::names_caller]
    fn set_share(&self, share: Share) -> Result<bool> {
        IterableLoader::set_share(self, share).map(|()| true)
    }
}

/// The same batches in each epoch; can be resumed between epochs only.
impl<B: Clone> Loader for Vec<B> {
    type Batch = B;

    fn batches(&self) -> Box<dyn Iterator<Item = Result<B>> + '_> {
        Box::new(self.iter().cloned().map(Ok))
    }

    fn num_batches(&self) -> Option<usize> {
        Some(self.len())
    }

    #[torsh_tensor::names_caller]
    fn save_state(&self) -> Result<Value> {
        Ok(Value::None)
    }

    #[torsh_tensor::names_caller]
    fn load_state(&self, _state: &Value, given: usize) -> Result<()> {
        if given == 0 {
            Ok(())
        } else {
            Err(no_position(given))
        }
    }
}
