//! Information for code that runs in a worker, and the worker's random numbers.

use std::cell::Cell;

use torsh_core::random::LocalGenerator;

/// Which worker of a loader a thread is (`torch.utils.data.get_worker_info`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerInfo {
    /// The worker's number, from 0; where several processes
    /// [share](crate::IterableLoader::set_share) the data, among the workers of all of them.
    pub id: usize,
    /// How many workers there are, those of all processes that share the data.
    pub num_workers: usize,
    /// The worker's seed: the epoch's plus its number.
    pub seed: u64,
}

thread_local! {
    static INFO: Cell<Option<WorkerInfo>> = const { Cell::new(None) };
    /// Whether this thread asked for its worker since it was last set to no.
    static ASKED: Cell<bool> = const { Cell::new(false) };
}

/// The worker that this thread is; `None` elsewhere, as in a loader without workers. An
/// [`IterableDataset`](crate::IterableDataset) asks it which part of the items is its own.
///
/// ```
/// use torsh_data::{DataLoader, MapDataset, get_worker_info};
///
/// assert_eq!(get_worker_info(), None);
/// let ids = MapDataset::new(vec![()], |()| Ok(get_worker_info().map_or(-1, |w| w.id as i64)));
/// let loader = DataLoader::builder(ids).num_workers(1).build()?;
/// for id in &loader {
///     assert_eq!(id.item::<i64>()?, 0);
/// }
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub fn get_worker_info() -> Option<WorkerInfo> {
    ASKED.set(true);
    INFO.get()
}

/// Whether this thread called [`get_worker_info`] since it was [forgotten](forget_asked).
pub(crate) fn has_asked() -> bool {
    ASKED.get()
}

/// Forgets that this thread asked.
pub(crate) fn forget_asked() {
    ASKED.set(false);
}

/// Runs `f` as a worker, on a thread that goes on as what it was.
pub(crate) fn as_worker<R>(info: Option<WorkerInfo>, f: impl FnOnce() -> R) -> R {
    struct Back(Option<WorkerInfo>);
    impl Drop for Back {
        fn drop(&mut self) {
            INFO.set(self.0);
        }
    }
    let _back = Back(INFO.get());
    if info.is_some() {
        INFO.set(info);
    }
    f()
}

/// Says which worker this thread is.
pub(crate) fn set_worker_info(info: WorkerInfo) {
    INFO.set(Some(info));
}

/// Well spread bits of a number (SplitMix64): generators read the low 32 bits of a seed only.
pub(crate) fn spread(x: u64) -> u64 {
    let mut z = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Runs `f` with a default generator that depends on the epoch's seed and `part` alone, so that
/// what a dataset draws is the same whichever thread reads it, and when.
pub(crate) fn seeded<R>(epoch_seed: u64, part: usize, f: impl FnOnce() -> R) -> R {
    LocalGenerator::new(spread(epoch_seed.wrapping_add(part as u64))).scope(f)
}
