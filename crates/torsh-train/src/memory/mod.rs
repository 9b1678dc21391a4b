//! Memory of training loops: pools, workspaces, and retries after a lack of memory.

mod context;
mod parallel;
mod pool;
mod retry;

pub use context::{ModelContext, TrainingContext};
pub use parallel::parallel_forward;
pub use pool::{MemoryPool, PooledTensor};
pub use retry::{Retry, with_smaller_batches};
