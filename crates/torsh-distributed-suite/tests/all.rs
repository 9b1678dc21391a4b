//! The checks on ranks that are threads, in one program.

mod checkpoint;
mod collectives;
mod coo;
mod ddp;
mod engine;
mod fsdp;
mod offload;
mod pipeline;
mod tensor_parallel;

use torsh_distributed::ProcessGroup;
use torsh_tensor::Result;

/// Runs a check on 1 to 4 ranks.
fn on_all(check: impl Fn(&ProcessGroup) -> Result<()> + Send + Sync) -> Result<()> {
    for n in 1..=4 {
        torsh_distributed::spawn(n, |g| check(&g))?;
    }
    Ok(())
}
