//! The beginning and the end: the process's rank, ranks as threads, ranks that are not there.

use std::cell::RefCell;
use std::time::Duration;

use parking_lot::RwLock;
use torsh_tensor::{Result, TorshError};

use crate::comm::{Command, Node};
use crate::engine::{FakeEngine, MpiAbiEngine, Threads, ThreadsEngine};
use crate::group::ProcessGroup;

mod environment;
mod spawn;

pub use environment::Environment;
use environment::Launcher;
pub use spawn::spawn;

/// The group of all ranks of this process.
static PROCESS: RwLock<Option<ProcessGroup>> = RwLock::new(None);

thread_local! {
    /// The group of all ranks of a rank that is a thread.
    static THREAD: RefCell<Option<ProcessGroup>> = const { RefCell::new(None) };
}

/// What carries bytes.
///
/// ```
/// use torsh_distributed::{EngineKind, InitOptions, destroy, init_with, world};
/// init_with(InitOptions { engine: EngineKind::Threads, ..InitOptions::default() })?;
/// assert_eq!(world()?.engine(), "threads");
/// destroy()?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineKind {
    /// `TORSH_DISTRIBUTED_ENGINE`, if it is `mpi-abi`, `mpi` or `threads`; else MPI if a launcher has started several ranks
    /// (the one that was linked, with feature `mpi` and without `TORSH_MPI`), and `threads` for one rank.
    #[default]
    Auto,
    /// MPI by its standard binary interface, loaded when the program runs (`libmpi_abi.so.1`, or what `TORSH_MPI` names).
    MpiAbi,
    /// The MPI that the program was linked with (feature `mpi`).
    Mpi,
    /// One rank, in this process: see [`spawn`] for several.
    Threads,
}

/// How to begin.
///
/// ```
/// use std::time::Duration;
/// use torsh_distributed::{InitOptions, destroy, init_with, world};
///
/// let options = InitOptions { timeout: Some(Duration::from_secs(30)), ..InitOptions::default() };
/// assert_eq!(init_with(options)?.world_size(), 1);
/// assert_eq!(world()?.timeout(), Duration::from_secs(30));
/// destroy()?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct InitOptions {
    /// What carries bytes.
    pub engine: EngineKind,
    /// The deadline of operations; else `TORSH_DISTRIBUTED_TIMEOUT` in seconds, else 10 minutes.
    pub timeout: Option<Duration>,
    /// The rank that the program takes this process for; the launcher must agree.
    pub rank: Option<usize>,
    /// The number of ranks that the program takes for granted; the launcher must agree.
    pub world_size: Option<usize>,
}

impl InitOptions {
    /// The defaults.
    ///
    /// ```
    /// assert!(torsh_distributed::InitOptions::new().timeout.is_none());
    /// ```
    pub fn new() -> Self {
        Self::default()
    }
}

/// Begins with a rank and a number of ranks, which must be those of the launcher (`mpiexec`, `torshrun`). Without a launcher
/// there is one rank.
///
/// ```
/// use torsh_distributed::{ReduceOp, all_reduce_, destroy, init_distributed};
/// use torsh_tensor::tensor;
///
/// init_distributed(0, 1)?;
/// assert_eq!(all_reduce_(&tensor![2.0], ReduceOp::Sum)?, tensor![2.0]);
/// destroy()?;
/// assert!(init_distributed(0, 2).is_err()); // Nobody has started a second rank.
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// A launcher that says otherwise; no launcher and more than one rank (the error has the command to type); an MPI that is
/// not found or cannot start; a second call.
#[torsh_tensor::names_caller]
pub fn init_distributed(rank: usize, world_size: usize) -> Result<()> {
    init_with(InitOptions {
        rank: Some(rank),
        world_size: Some(world_size),
        ..InitOptions::default()
    })
    .map(|_| ())
}

/// Begins with what the launcher says: `OMPI_COMM_WORLD_*` (Open MPI), `PMI_*` (MPICH), or `RANK`, `WORLD_SIZE` and
/// `LOCAL_RANK`; one rank without a launcher.
///
/// ```
/// let env = torsh_distributed::init_from_env()?;
/// assert_eq!((env.rank(), env.world_size(), env.local_rank()), (0, 1, 0));
/// torsh_distributed::destroy()?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`init_distributed`].
#[track_caller]
pub fn init_from_env() -> Result<Environment> {
    init_with(InitOptions::default())
}

/// Begins with options.
///
/// ```
/// use torsh_distributed::{InitOptions, destroy, init_with};
/// assert_eq!(init_with(InitOptions::new())?.world_size(), 1);
/// assert!(init_with(InitOptions::new()).unwrap_err().to_string().contains("this process has begun already"));
/// destroy()?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`init_distributed`].
#[torsh_tensor::names_caller]
pub fn init_with(options: InitOptions) -> Result<Environment> {
    const OP: &str = "init_distributed";
    let mut process = PROCESS.write();
    if process.is_some() {
        return Err(TorshError::invalid(OP, "this process has begun already")
            .with_hint("world() is the group; destroy() ends it"));
    }
    let launcher = Launcher::find()?;
    let environment = launcher.agree(options.rank, options.world_size)?;
    let patience = options
        .timeout
        .unwrap_or_else(crate::group::default_timeout);
    let node = start(engine_of(options.engine, &environment)?, patience)?;
    if (node.rank, node.world_size) != (environment.rank(), environment.world_size()) {
        let message = format!(
            "the launcher has started rank {} of {} ranks, but {} says rank {} of {}",
            environment.rank(),
            environment.world_size(),
            node.describe,
            node.rank,
            node.world_size
        );
        // The others find the same: nobody waits for this rank.
        let _ = node.push(Command::Abort(1));
        return Err(TorshError::invalid(OP, message).with_hint(
            "the launcher and the library must be of one MPI: start the program with the mpiexec of the library that is loaded, or name the library with TORSH_MPI",
        ));
    }
    let group = ProcessGroup::of_world(node);
    if let Some(timeout) = options.timeout {
        group.set_timeout(timeout);
    }
    if environment.world_size() > 1 {
        crate::comm::install_exit(at_exit);
    }
    *process = Some(group);
    Ok(environment)
}

/// The MPI that [`init_distributed`] uses where a launcher started several processes, such as
/// `MPICH 5.0.2 (/opt/mpi/lib/libmpi_abi.so.1)`. The library is loaded, but MPI is not started.
///
/// # Errors
/// No MPI was found. The error lists the places that were searched.
#[torsh_tensor::names_caller]
pub fn mpi_library() -> Result<String> {
    crate::engine::found_mpi().map_err(|e| e.renamed("mpi_library"))
}

/// The engine that is meant.
fn engine_of(kind: EngineKind, environment: &Environment) -> Result<EngineKind> {
    let named = std::env::var("TORSH_DISTRIBUTED_ENGINE").unwrap_or_default();
    Ok(match (kind, named.as_str()) {
        (EngineKind::Auto, "" | "auto") => match environment.world_size() {
            1 => EngineKind::Threads,
            _ if cfg!(feature = "mpi") && std::env::var_os("TORSH_MPI").is_none() => {
                EngineKind::Mpi
            }
            _ => EngineKind::MpiAbi,
        },
        (EngineKind::Auto, "mpi-abi") => EngineKind::MpiAbi,
        (EngineKind::Auto, "mpi") => EngineKind::Mpi,
        (EngineKind::Auto, "threads") => EngineKind::Threads,
        (EngineKind::Auto, other) => {
            let message = format!("TORSH_DISTRIBUTED_ENGINE is {other:?}");
            return Err(TorshError::invalid("init_distributed", message)
                .with_hint("it is mpi-abi, mpi or threads, or not set"));
        }
        (kind, _) => kind,
    })
}

fn start(kind: EngineKind, patience: Duration) -> Result<std::sync::Arc<Node>> {
    match kind {
        EngineKind::Threads => {
            let one = Threads::new(1);
            Node::start(move || Ok(ThreadsEngine::new(&one, 0)))
        }
        #[cfg(feature = "mpi")]
        EngineKind::Mpi => Node::start_within(patience, crate::engine::MpiEngine::start),
        #[cfg(not(feature = "mpi"))]
        EngineKind::Mpi => Err(TorshError::invalid(
            "init_distributed",
            "this program was built without the engine mpi",
        )
        .with_hint(format!(
            "build it with feature `mpi`, or use mpi-abi, which needs {} (pip install mpich)",
            crate::engine::MPI_LIBRARY
        ))),
        EngineKind::Auto | EngineKind::MpiAbi => Node::start_within(patience, MpiAbiEngine::start),
    }
}

/// The process exits, with or without `destroy`.
fn at_exit(status: i32) {
    let Some(group) = PROCESS.try_read().and_then(|p| p.clone()) else {
        return;
    };
    if status == 0 {
        match finish(&group) {
            Ok(()) => return,
            Err(e) => eprintln!("torsh-distributed: {e}"),
        }
    }
    // The others would wait for this rank. The engine ends the process.
    if group
        .node()
        .push(Command::Abort(if status == 0 { 1 } else { status }))
        .is_ok()
    {
        std::thread::sleep(Duration::from_secs(5));
    }
}

/// How long a rank waits for the others to end: they may run into a deadline first.
fn finish(group: &ProcessGroup) -> Result<()> {
    let patience = group.timeout().saturating_add(Duration::from_secs(10));
    // No more than the clock can count.
    group
        .node()
        .finish(patience.min(Duration::from_secs(1 << 30)))
}

/// Whether there is a default group: of this process, or of this thread within [`spawn`].
///
/// ```
/// use torsh_distributed::{is_initialized, spawn};
/// assert!(!is_initialized());
/// assert_eq!(spawn(2, |_| Ok(is_initialized()))?, [true, true]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub fn is_initialized() -> bool {
    THREAD.with_borrow(Option::is_some) || PROCESS.read().is_some()
}

/// Returns the default group: all ranks. Within [`spawn`] it is the thread's own.
///
/// ```
/// use torsh_distributed::{spawn, world};
/// assert!(world().unwrap_err().to_string().contains("there is no process group"));
/// assert_eq!(spawn(2, |g| Ok(world()? == g))?, [true, true]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If nobody has called [`init_distributed`] or one of its kin.
#[torsh_tensor::names_caller]
pub fn world() -> Result<ProcessGroup> {
    if let Some(group) = THREAD.with_borrow(Clone::clone) {
        return Ok(group);
    }
    PROCESS.read().clone().ok_or_else(|| {
        TorshError::invalid("world", "there is no process group")
            .with_hint("call init_from_env() first, or run within spawn(n, |group| ..)")
    })
}

/// [`ProcessGroup::new_group`] of the default group.
///
/// ```
/// use torsh_distributed::{new_group, spawn};
/// let sizes = spawn(3, |_| Ok(new_group(&[0, 2])?.map(|pair| pair.size())))?;
/// assert_eq!(sizes, [Some(2), None, Some(2)]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`ProcessGroup::new_group`], and if there is no default group.
#[torsh_tensor::names_caller]
pub fn new_group(ranks: &[usize]) -> Result<Option<ProcessGroup>> {
    world()?.new_group(ranks)
}

/// This rank in the default group; 0 without one, so that programs of one process need no special case.
///
/// ```
/// use torsh_distributed::{rank, spawn, world_size};
/// assert_eq!((rank(), world_size()), (0, 1));
/// assert_eq!(spawn(2, |_| Ok((rank(), world_size())))?, [(0, 2), (1, 2)]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub fn rank() -> usize {
    world().map_or(0, |g| g.rank())
}

/// Returns the number of ranks of the default group; 1 without one.
///
/// ```
/// use torsh_distributed::{spawn, world_size};
/// assert_eq!((world_size(), spawn(3, |_| Ok(world_size()))?), (1, vec![3, 3, 3]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub fn world_size() -> usize {
    world().map_or(1, |g| g.size())
}

/// Ends: waits until all ranks have called it, and ends the engine and its thread. Nothing happens without a default group.
///
/// ```
/// use torsh_distributed::{destroy, init_from_env, is_initialized};
/// init_from_env()?;
/// assert!(is_initialized());
/// destroy()?;
/// assert!(!is_initialized());
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Ranks that do not call it (or end) within the timeout; an engine that cannot end.
#[torsh_tensor::names_caller]
pub fn destroy() -> Result<()> {
    let group = match THREAD.take() {
        Some(group) => Some(group),
        None => PROCESS.write().take(),
    };
    match group {
        Some(group) => finish(&group),
        None => Ok(()),
    }
}

/// Ends the job on all ranks with an error of this one, which is printed. For programs that catch errors themselves: a
/// `main` that returns an error or panics does the same.
pub fn fail(error: TorshError) -> ! {
    eprintln!("{error}");
    if let Ok(group) = world() {
        group.abort("an error");
        std::thread::sleep(Duration::from_millis(200));
    }
    std::process::exit(1)
}

/// Rank `rank` of `world_size` ranks that are not there. Collectives check their operands and count the traffic
/// ([`ProcessGroup::stats`]) and move nothing: results that would come from other ranks are not written. Tensors may be of
/// the meta device, so that a large job is looked at without its memory.
///
/// ```
/// use torsh_distributed::{ReduceOp, fake};
/// use torsh_tensor::{DType, Device, Tensor};
///
/// let group = fake(3, 1024)?;
/// let gradients = Tensor::zeros(&[1 << 30], DType::F32, Device::Meta)?;
/// group.all_reduce_(&gradients, ReduceOp::Sum)?;
/// // Each rank sends its pieces and the sum of its own: two times the bytes, less its own.
/// assert_eq!(group.stats().bytes_sent, 2 * (4 << 30) / 1024 * 1023);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// A rank that is not below `world_size`.
#[torsh_tensor::names_caller]
pub fn fake(rank: usize, world_size: usize) -> Result<ProcessGroup> {
    if rank >= world_size {
        let message = format!("there is no rank {rank} of {world_size} ranks");
        return Err(TorshError::index("fake", message));
    }
    Node::start(move || Ok(FakeEngine::new(rank, world_size))).map(ProcessGroup::of_world)
}
