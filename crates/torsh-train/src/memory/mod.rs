//! Memory that is asked for once: pools, workspaces, and what to do when there is none.

mod context;
mod parallel;
mod pool;
mod retry;

pub use context::{ModelContext, TrainingContext};
pub use parallel::parallel_forward;
pub use pool::{MemoryPool, PooledTensor};
pub use retry::{Retry, with_smaller_batches};
