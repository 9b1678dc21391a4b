//! Engines: what carries bytes between ranks.
//!
//! An engine moves bytes and knows nothing of tensors. Everything above it (reductions, overlap, sharding, deadlines) is
//! this crate's. One thread of each process owns its engine and makes all its calls, so engines need not be thread-safe.
//!
//! Public for the checks of `torsh-distributed-suite` alone.

#[cfg(feature = "mpi")]
mod mpi;

mod fake;
mod members;
mod mpi_abi;
mod mpi_common;
mod threads;

use torsh_core::{DType, Result};

#[doc(hidden)]
pub use fake::{FakeEngine, Moved};
#[cfg(feature = "mpi")]
pub(crate) use mpi::MpiEngine;
pub(crate) use mpi_abi::MpiAbiEngine;
#[cfg(not(feature = "mpi"))]
pub(crate) use mpi_abi::library::NAME as MPI_LIBRARY;
pub(crate) use mpi_abi::library::of_program as mpi_libraries_of;
#[doc(hidden)]
pub use threads::{Threads, ThreadsEngine};

/// The engine `mpi-abi` or `mpi` on the launcher's MPI, which starts once in a process. None if the name is another one, or
/// the program was built without the feature `mpi`.
pub fn start_mpi(name: &str) -> Option<Result<Box<dyn Engine>>> {
    fn boxed(engine: impl Engine + 'static) -> Box<dyn Engine> {
        Box::new(engine)
    }
    match name {
        "mpi-abi" => Some(MpiAbiEngine::start().map(boxed)),
        #[cfg(feature = "mpi")]
        "mpi" => Some(MpiEngine::start().map(boxed)),
        _ => None,
    }
}

/// The MPI that several processes use: [`crate::mpi_library`].
pub(crate) fn found_mpi() -> Result<String> {
    #[cfg(feature = "mpi")]
    if std::env::var_os("TORSH_MPI").is_none() {
        return Ok(mpi::found());
    }
    mpi_abi::found()
}

/// Ranks that talk to one another, of one engine. The first holds all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Comm(pub u32);

impl Comm {
    /// All ranks.
    pub const WORLD: Comm = Comm(0);
}

/// An operation under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Request(pub u64);

/// A piece of memory that an operation reads or writes: at most [`MOST_BYTES`].
#[derive(Clone, Copy, Debug)]
pub struct Part {
    pub ptr: *mut u8,
    pub bytes: usize,
}

/// The most bytes of a [`Part`]: larger operations go in pieces.
pub const MOST_BYTES: usize = 1 << 30;

/// A reduction that an engine makes itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineOp {
    Sum,
    Product,
    Min,
    Max,
}

/// The boundary to what carries bytes.
///
/// All operations are non-blocking: they give a [`Request`], and [`Engine::poll`] says whether it is done. All ranks of a
/// communicator call its collectives (`broadcast`, `all_to_all`, `all_gather`, `gather`, `scatter`, `all_reduce`) in the
/// same order. Ranks count within the communicator. Messages between two ranks with one tag arrive in the order in which
/// they were sent.
///
/// # Safety
/// After `poll` answered true (or an error) for a request, the engine neither reads nor writes its memory. Operations
/// write to the parts that they receive into, and nowhere else.
pub unsafe trait Engine {
    /// `"mpi-abi"`, `"mpi"`, `"threads"` or `"fake"`.
    fn name(&self) -> &'static str;

    /// What carries the bytes, for messages, such as `MPICH 5.0.2 (libmpi_abi.so.1)`.
    fn describe(&self) -> String;

    /// This rank among all.
    fn rank(&self) -> usize;

    /// How many ranks there are.
    fn world_size(&self) -> usize;

    /// A communicator of `ranks` of the world, in this order. The members alone call it, with one `key`, which tells apart
    /// groups that are made at the same time. It may wait for the members.
    fn new_comm(&mut self, ranks: &[usize], key: u32) -> Result<Comm>;

    /// Forgets a communicator, which has no operations under way. Each member calls it.
    fn free_comm(&mut self, comm: Comm) -> Result<()>;

    /// Sends a message.
    ///
    /// # Safety
    /// The memory of `part` is readable and not written until the request is done.
    unsafe fn send(&mut self, comm: Comm, part: Part, to: usize, tag: u32) -> Result<Request>;

    /// Receives a message of at most `part.bytes` bytes; `from` is a rank, or `None` for the next of any rank.
    ///
    /// # Safety
    /// The memory of `part` is writable and nobody else uses it until the request is done. On `mpi`, no message of more than
    /// 4,000 bytes that matches is longer than the part: Open MPI 4 writes all of it.
    unsafe fn receive(
        &mut self,
        comm: Comm,
        part: Part,
        from: Option<usize>,
        tag: u32,
    ) -> Result<Request>;

    /// Sends `part` of `root` to all; the others receive into theirs. All have as many bytes.
    ///
    /// # Safety
    /// As for [`Engine::send`] at the root, [`Engine::receive`] elsewhere.
    unsafe fn broadcast(&mut self, comm: Comm, part: Part, root: usize) -> Result<Request>;

    /// Sends one part to each rank and receives one of each, its own included. Sizes may differ and be 0.
    ///
    /// # Safety
    /// As for [`Engine::send`] and [`Engine::receive`]; the parts to receive into are apart from each other and from all
    /// others.
    unsafe fn all_to_all(&mut self, comm: Comm, send: &[Part], receive: &[Part])
    -> Result<Request>;

    /// Sends one part to all and receives one of each rank, its own included (which may be the memory of `send`: nothing
    /// is copied then). Sizes may differ from rank to rank.
    ///
    /// # Safety
    /// As for [`Engine::all_to_all`].
    unsafe fn all_gather(&mut self, comm: Comm, send: Part, receive: &[Part]) -> Result<Request>;

    /// Sends a part to `root`, which receives one of each rank (`receive` is empty elsewhere).
    ///
    /// # Safety
    /// As for [`Engine::all_to_all`].
    unsafe fn gather(
        &mut self,
        comm: Comm,
        send: Part,
        receive: &[Part],
        root: usize,
    ) -> Result<Request>;

    /// Receives a part from `root`, which sends one to each rank (`send` is empty elsewhere).
    ///
    /// # Safety
    /// As for [`Engine::all_to_all`].
    unsafe fn scatter(
        &mut self,
        comm: Comm,
        send: &[Part],
        receive: Part,
        root: usize,
    ) -> Result<Request>;

    /// Whether [`Engine::all_reduce`] knows a dtype and operation.
    fn reduces(&self, dtype: DType, op: EngineOp) -> bool;

    /// The reduction of the parts of all ranks, in each rank's part.
    ///
    /// # Safety
    /// The memory is readable and writable, aligned for the dtype, and nobody else uses it until the request is done.
    unsafe fn all_reduce(
        &mut self,
        comm: Comm,
        part: Part,
        dtype: DType,
        op: EngineOp,
    ) -> Result<Request>;

    /// Whether a request is done: true once, then it is forgotten. Makes progress on all requests. An error (a rank is
    /// lost, a message was longer than its part) ends the request.
    fn poll(&mut self, request: Request) -> Result<bool>;

    /// Ends the job on all ranks, as `MPI_Abort`: the others' processes end, or their calls give errors.
    fn abort(&mut self, code: i32);

    /// Says good-bye: no call follows. Waits until all ranks do.
    fn finish(&mut self) -> Result<()>;
}
