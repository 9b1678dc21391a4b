//! Ranks as threads.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use parking_lot::Mutex;
use torsh_tensor::{Result, TorshError};

use super::{THREAD, finish};
use crate::comm::{Command, Node};
use crate::engine::{Threads, ThreadsEngine};
use crate::failure;
use crate::group::ProcessGroup;

/// Runs a function on `n` ranks that are threads of this process, and gives their results in rank order. Within it,
/// [`world`](crate::world()) and the free functions are the rank's own. All ranks share the process's thread pool.
///
/// An error or a panic of one rank ends the others' operations, and is the result.
///
/// ```
/// use torsh_distributed::{ReduceOp, spawn};
/// use torsh_tensor::tensor;
///
/// let sums = spawn(4, |g| g.all_reduce_(&tensor![g.rank() as i64], ReduceOp::Sum)?.item::<i64>())?;
/// assert_eq!(sums, [6, 6, 6, 6]);
///
/// let failed = spawn(2, |g| match g.rank() {
///     0 => g.barrier(), // Rank 1 does not come, but this ends all the same.
///     _ => Err("no disk".to_string().into()),
/// });
/// assert_eq!(failed.unwrap_err().to_string(), "no disk (rank 1)");
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// No ranks; the first error of a rank; threads that the system does not give.
#[torsh_tensor::names_caller]
pub fn spawn<T: Send>(
    n: usize,
    f: impl Fn(ProcessGroup) -> Result<T> + Send + Sync,
) -> Result<Vec<T>> {
    if n == 0 {
        return Err(TorshError::invalid("spawn", "0 ranks").with_hint("give at least 1"));
    }
    let threads = Threads::new(n);
    let mut groups = Vec::with_capacity(n);
    for rank in 0..n {
        let threads = threads.clone();
        match Node::start(move || Ok(ThreadsEngine::new(&threads, rank))) {
            Ok(node) => groups.push(ProcessGroup::of_world(node)),
            Err(e) => {
                groups.iter().for_each(abort);
                return Err(e);
            }
        }
    }
    let first: Mutex<Option<TorshError>> = Mutex::new(None);
    let results: Vec<Option<T>> = std::thread::scope(|scope| {
        let (f, first) = (&f, &first);
        let ranks: Vec<_> = groups
            .into_iter()
            .enumerate()
            .map(|(rank, group)| {
                let body = {
                    let group = group.clone();
                    move || one_rank(rank, group, f, first)
                };
                let builder = std::thread::Builder::new().name(format!("rank {rank}"));
                let thread = builder.spawn_scoped(scope, body);
                if thread.is_err() {
                    abort(&group);
                }
                thread
            })
            .collect();
        ranks
            .into_iter()
            .map(|thread| match thread {
                Ok(thread) => thread.join().ok().flatten(),
                Err(e) => {
                    first.lock().get_or_insert(e.into());
                    None
                }
            })
            .collect()
    });
    if let Some(e) = first.into_inner() {
        return Err(e);
    }
    let all: Option<Vec<T>> = results.into_iter().collect();
    all.ok_or_else(|| TorshError::Other("a rank gave no result".into()))
}

fn abort(group: &ProcessGroup) {
    // If its thread has ended, nobody waits for it.
    let _ = group.node().push(Command::Abort(1));
}

fn one_rank<T>(
    rank: usize,
    group: ProcessGroup,
    f: &(impl Fn(ProcessGroup) -> Result<T> + Send + Sync),
    first: &Mutex<Option<TorshError>>,
) -> Option<T> {
    // A rank's thread may itself spawn ranks: its own group comes back afterwards.
    let before = THREAD.replace(Some(group.clone()));
    let result = catch_unwind(AssertUnwindSafe(|| f(group.clone())));
    THREAD.set(before);
    let result = match result {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(e)) => {
            let suffix = format!(" (rank {rank})");
            Err(failure::change(e, |message| message.push_str(&suffix)))
        }
        Err(panic) => Err(TorshError::Other(format!(
            "rank {rank} panicked: {}",
            message_of(&*panic)
        ))),
    };
    let value = match result {
        Ok(value) => Some(value),
        Err(e) => {
            first.lock().get_or_insert(e);
            abort(&group);
            None
        }
    };
    let ended = finish(&group);
    if let (Some(_), Err(e)) = (&value, ended) {
        first.lock().get_or_insert(e);
    }
    value
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| s.to_string());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "with a value that is no text".into())
}
