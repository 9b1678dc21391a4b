//! Random numbers that are the same on all ranks, or another on each.

use torsh_core::random::{LocalGenerator, default_generator};
use torsh_tensor::Result;

use crate::group::ProcessGroup;

/// Runs `f` with random numbers that are another on each rank of the group, as the dropout of a divided tensor needs.
///
/// The ranks' default generators must be in the same state, as they are after the same
/// [`manual_seed`](torsh_core::random::manual_seed) or [`synchronize_rng`]. The numbers come from one draw of the default
/// generator and the rank. So the default generators stay in the same state, what a [`checkpoint`](torsh_tensor::checkpoint)
/// computes again is the same, and a saved state of the default generator is all that a run needs to go on.
///
/// ```
/// use torsh_core::random::LocalGenerator;
/// use torsh_distributed::spawn;
/// use torsh_distributed::tensor_parallel::with_sharded_rng;
/// use torsh_tensor::{Tensor, rand};
///
/// let drawn = spawn(2, |g| {
///     // The threads of this example have a generator each, as processes have.
///     LocalGenerator::new(7).scope(|| {
///         let other = with_sharded_rng(&g, || rand([1]).item::<f32>())?;
///         Ok((other, rand([1]).item::<f32>()?))
///     })
/// })?;
/// assert_ne!(drawn[0].0, drawn[1].0);
/// assert_eq!(drawn[0].1, drawn[1].1);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Those of `f`.
#[torsh_tensor::names_caller]
pub fn with_sharded_rng<T>(group: &ProcessGroup, f: impl FnOnce() -> Result<T>) -> Result<T> {
    let drawn = default_generator().random64();
    LocalGenerator::new(mixed(drawn, group.rank() as u64)).scope(f)
}

/// A seed of which every bit depends on every bit of both numbers (the last steps of SplitMix64).
fn mixed(drawn: u64, rank: u64) -> u64 {
    let mut z = drawn.wrapping_add((rank + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Gives the default generators of all ranks of the group the state of rank 0's.
///
/// ```
/// use torsh_core::random::LocalGenerator;
/// use torsh_distributed::spawn;
/// use torsh_distributed::tensor_parallel::synchronize_rng;
/// use torsh_tensor::rand;
///
/// let drawn = spawn(2, |g| {
///     LocalGenerator::new(g.rank() as u64).scope(|| {
///         synchronize_rng(&g)?;
///         rand([1]).item::<f32>()
///     })
/// })?;
/// assert_eq!(drawn[0], drawn[1]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Those of [`broadcast_object`](ProcessGroup::broadcast_object).
#[torsh_tensor::names_caller]
pub fn synchronize_rng(group: &ProcessGroup) -> Result<()> {
    let own = default_generator().get_state();
    let state: Vec<u8> = group.broadcast_object(Some(&own), 0)?;
    default_generator()
        .set_state(&state)
        .map_err(|e| torsh_tensor::TorshError::invalid("synchronize_rng", e))
}
