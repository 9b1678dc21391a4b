//! What the engines on MPI have in common: everything but the table of functions and constants.
//!
//! All operations are MPI's non-blocking ones. `all_to_all`, `gather` and `scatter` are pairs of sends and receives,
//! since their parts lie anywhere in memory, and MPI's own take displacements from one address; so is `all_gather` of
//! few ranks. A request is then done when all of its pairs are.

mod calls;
mod operation;
mod text;

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::time::{Duration, Instant};

use torsh_core::{DType, Result, TorshError};

use super::members::{self, Members};
use super::{Comm, Engine, EngineOp, Part, Request};
pub(super) use calls::{Mpi, mpi_functions};
use operation::{Operation, Piece, Staging};
pub(super) use text::version;

/// Up to so many ranks, `all_gather` is pairs of sends and receives. MPI's own needs fewer messages, but starts later.
const PAIRS_UP_TO: usize = 8;

/// How long an engine that is dropped waits for MPI to let go of the memory of operations under way.
const LET_GO: Duration = Duration::from_secs(1);

/// How long a launcher may take to forward what ranks have printed.
const FORWARDED: Duration = Duration::from_millis(150);

/// What a communicator is to this engine.
struct Own<M: Mpi> {
    comm: M::Comm,
    /// How many collectives were begun; all ranks count alike.
    collectives: u64,
}

/// An engine on an MPI.
pub(crate) struct MpiOf<M: Mpi> {
    mpi: M,
    rank: usize,
    size: usize,
    /// The largest tag that messages may have.
    largest_tag: c_int,
    pairs_up_to: usize,
    version: String,
    comms: Members<Own<M>>,
    operations: HashMap<u64, Operation<M>>,
    next: u64,
    finished: bool,
}

impl<M: Mpi> MpiOf<M> {
    /// Starts MPI on this thread, which must make all further calls.
    pub(super) fn start_on(mpi: M) -> Result<MpiOf<M>> {
        const OP: &str = "start of MPI";
        let (mut flag, mut provided) = (0, 0);
        // SAFETY: both calls are allowed at any time, and write one number.
        check(&mpi, OP, unsafe { mpi.finalized(&mut flag) })?;
        if flag != 0 {
            return Err(TorshError::failed(
                OP,
                "MPI was shut down in this process before, and starts only once",
            )
            .with_hint("Call init_distributed once, and destroy at the end of the program."));
        }
        let version = version(&mpi);
        // MPICH would end the process, with a text that does not help.
        if let Some(n) = text::ranks_of("OMPI_COMM_WORLD_SIZE")
            && !version.contains("Open MPI")
        {
            return Err(text::other_launcher("OMPI_COMM_WORLD_SIZE", n, &version));
        }
        // SAFETY: as above.
        check(&mpi, OP, unsafe { mpi.initialized(&mut flag) })?;
        let code = if flag == 0 {
            let funneled = mpi.thread_funneled();
            // SAFETY: MPI is not initialised yet; null stands for a program without arguments.
            unsafe { mpi.init_thread(ptr::null_mut(), ptr::null_mut(), funneled, &mut provided) }
        } else {
            // SAFETY: another library of the process has initialised MPI.
            unsafe { mpi.query_thread(&mut provided) }
        };
        check(&mpi, OP, code)?;
        if provided < mpi.thread_funneled() {
            return Err(TorshError::failed(
                OP,
                "this MPI cannot be called by one thread of several (MPI_THREAD_FUNNELED)",
            )
            .with_hint("Use an MPI that was built with threads, as every packaged one is."));
        }
        let mut comm = mpi.world();
        let (mut rank, mut size) = (0, 0);
        // SAFETY: MPI is initialised; each call writes one value. Errors shall come back as codes, which duplicates of
        // the communicator inherit. The duplicate keeps our messages apart from those of other libraries.
        unsafe {
            check(
                &mpi,
                OP,
                mpi.comm_set_errhandler(mpi.world(), mpi.errors_return()),
            )?;
            check(&mpi, OP, mpi.comm_dup(mpi.world(), &mut comm))?;
            check(&mpi, OP, mpi.comm_rank(comm, &mut rank))?;
            check(&mpi, OP, mpi.comm_size(comm, &mut size))?;
        }
        let (rank, size) = (rank as usize, size as usize);
        // Open MPI under MPICH's launcher, which Intel's and others share.
        if size == 1
            && let Some(n) = text::ranks_of("PMI_SIZE").filter(|n| *n > 1)
        {
            return Err(text::other_launcher("PMI_SIZE", n, &version));
        }
        let own = Own {
            comm,
            collectives: 0,
        };
        Ok(MpiOf {
            largest_tag: largest_tag(&mpi, comm),
            pairs_up_to: std::env::var("TORSH_MPI_PAIRS")
                .ok()
                .and_then(|s| s.parse().ok())
                .unwrap_or(PAIRS_UP_TO),
            version,
            comms: Members::new(size, rank, own),
            mpi,
            rank,
            size,
            operations: HashMap::new(),
            next: 0,
            finished: false,
        })
    }

    /// Keeps an operation, and gives its request.
    fn keep(&mut self, operation: Operation<M>) -> Request {
        self.next += 1;
        self.operations.insert(self.next, operation);
        Request(self.next)
    }

    /// The tag of a message. Messages have even tags, collectives odd ones.
    fn message_tag(&self, op: &'static str, tag: u32) -> Result<c_int> {
        let most = (self.largest_tag / 2) as u32;
        if tag < most {
            return Ok((tag * 2) as c_int);
        }
        Err(TorshError::invalid(
            op,
            format!(
                "tag {tag} is more than {}, the largest that this MPI has",
                most - 1
            ),
        )
        .with_hint("Use smaller tags."))
    }

    /// The tag of the communicator's next collective.
    fn collective(&mut self, op: &'static str, comm: Comm) -> Result<c_int> {
        let count = (self.largest_tag / 2) as u64;
        let own = &mut self.comms.get_mut(op, comm)?.own;
        own.collectives += 1;
        Ok((own.collectives % count * 2 + 1) as c_int)
    }

    /// Begins to send a part, as a piece of an operation.
    ///
    /// # Safety
    /// The part is readable until the operation ends.
    unsafe fn post_send(
        &self,
        operation: &mut Operation<M>,
        comm: M::Comm,
        part: Part,
        to: usize,
        tag: c_int,
    ) -> Result<()> {
        let mut request = self.mpi.request_null();
        // SAFETY: the caller's promise, and communicator, rank and tag were checked.
        let code = unsafe {
            self.mpi.isend(
                address(part),
                part.bytes as c_int,
                self.mpi.byte(),
                to as c_int,
                tag,
                comm,
                &mut request,
            )
        };
        check(&self.mpi, operation.name, code)?;
        operation.pieces.push(Piece::send(request));
        Ok(())
    }

    /// Begins to receive a part, as a piece of an operation; `exact` says that a shorter message is an error.
    ///
    /// # Safety
    /// The part is writable until the operation ends.
    unsafe fn post_receive(
        &self,
        operation: &mut Operation<M>,
        comm: M::Comm,
        part: Part,
        from: Option<usize>,
        tag: c_int,
        exact: bool,
    ) -> Result<()> {
        let mut request = self.mpi.request_null();
        let source = from.map_or(self.mpi.any_source(), |r| r as c_int);
        // SAFETY: the caller's promise, and communicator, rank and tag were checked.
        let code = unsafe {
            self.mpi.irecv(
                address(part),
                part.bytes as c_int,
                self.mpi.byte(),
                source,
                tag,
                comm,
                &mut request,
            )
        };
        check(&self.mpi, operation.name, code)?;
        operation
            .pieces
            .push(Piece::receive(request, from, part.bytes, exact));
        Ok(())
    }

    /// The request of an operation whose pieces were posted by `post`. Where that failed, the pieces that were begun are
    /// waited for by polling, and the error comes then.
    fn posted(
        &mut self,
        name: &'static str,
        post: impl FnOnce(&Self, &mut Operation<M>) -> Result<()>,
    ) -> Result<Request> {
        let mut operation = Operation::new(name);
        if let Err(problem) = post(self, &mut operation) {
            if operation.pieces.is_empty() {
                return Err(problem);
            }
            operation.fail(&self.mpi, problem);
        }
        Ok(self.keep(operation))
    }

    /// `all_gather` by MPI's own collective, through memory of our own where the parts do not lie one after the other.
    ///
    /// # Safety
    /// As for [`Engine::all_gather`].
    unsafe fn own_all_gather(
        &mut self,
        comm: M::Comm,
        own: usize,
        send: Part,
        receive: &[Part],
    ) -> Result<Request> {
        let in_place = send.ptr == receive[own].ptr && send.bytes > 0;
        let mut end = None;
        let contiguous = receive.iter().filter(|p| p.bytes > 0).all(|p| {
            let before = end.replace(p.ptr.wrapping_add(p.bytes));
            before.is_none_or(|end| end == p.ptr)
        });
        let staged = !contiguous || (in_place && self.mpi.in_place().is_none());
        let mut operation = Operation::new("all_gather");
        let mut at = 0;
        for p in receive {
            operation.counts.push(p.bytes as c_int);
            operation.displacements.push(at);
            at += p.bytes as c_int;
        }
        let mut into = receive
            .iter()
            .find(|p| p.bytes > 0)
            .map_or(ptr::null_mut(), |p| address(*p));
        if staged {
            let staging = operation.staging.insert(Staging::new(receive));
            into = staging.memory.as_mut_ptr().cast();
        }
        let (from, count) = match self.mpi.in_place() {
            Some(place) if in_place && !staged => (place, 0),
            _ => (address(send).cast_const(), send.bytes as c_int),
        };
        let mut request = self.mpi.request_null();
        let byte = self.mpi.byte();
        // SAFETY: the caller's promise; counts, displacements and staged memory are the operation's, on the heap, and
        // stay until it ends.
        let code = unsafe {
            self.mpi.iallgatherv(
                from,
                count,
                byte,
                into,
                operation.counts.as_ptr(),
                operation.displacements.as_ptr(),
                byte,
                comm,
                &mut request,
            )
        };
        check(&self.mpi, operation.name, code)?;
        operation.pieces.push(Piece::collective(request));
        Ok(self.keep(operation))
    }

    /// Takes back what can be taken back of all operations, and waits a while for the rest. False where MPI still uses
    /// memory.
    fn let_go(&mut self) -> bool {
        for o in self.operations.values_mut() {
            o.cancel(&self.mpi);
        }
        let started = Instant::now();
        loop {
            let mpi = &self.mpi;
            self.operations.retain(|_, o| !o.advance(mpi));
            if self.operations.is_empty() {
                return true;
            }
            if started.elapsed() > LET_GO {
                return false;
            }
            std::thread::yield_now();
        }
    }
}

/// A part's address as MPI takes it. That of a part without bytes may be any number, also one that means something to MPI.
fn address(part: Part) -> *mut c_void {
    match part.bytes {
        0 => ptr::null_mut(),
        _ => part.ptr.cast(),
    }
}

/// An error of a code that is not success.
fn check<M: Mpi>(mpi: &M, op: &'static str, code: c_int) -> Result<()> {
    if code == 0 {
        return Ok(());
    }
    Err(text::error(mpi, op, code))
}

/// The largest tag of an MPI: 32767 where it does not say.
fn largest_tag<M: Mpi>(mpi: &M, comm: M::Comm) -> c_int {
    let (mut value, mut found): (*mut c_int, c_int) = (ptr::null_mut(), 0);
    let Some(key) = mpi.tag_ub() else {
        return 32767;
    };
    // SAFETY: the attribute's value is a pointer to a number, which MPI keeps; it is written where `found` says so.
    unsafe {
        let code = mpi.comm_get_attr(comm, key, (&raw mut value).cast(), &mut found);
        if code == 0 && found != 0 && !value.is_null() {
            (*value).max(32767)
        } else {
            32767
        }
    }
}

// SAFETY: a request is forgotten when `MPI_Test` said of all its pieces that they are complete, which is when MPI no
// longer uses their memory; until then `poll` answers false, also where a piece failed. An engine that is dropped ends
// the job rather than leave memory that MPI uses.
unsafe impl<M: Mpi> Engine for MpiOf<M> {
    fn name(&self) -> &'static str {
        M::NAME
    }

    fn describe(&self) -> String {
        match self.mpi.library() {
            Some(library) => format!("{} ({library})", self.version),
            None => self.version.clone(),
        }
    }

    fn rank(&self) -> usize {
        self.rank
    }

    fn world_size(&self) -> usize {
        self.size
    }

    fn new_comm(&mut self, ranks: &[usize], key: u32) -> Result<Comm> {
        const OP: &str = "new_comm";
        let place = members::place_of(ranks, self.rank, self.size)?;
        let world = self.comms.get(OP, Comm::WORLD)?.own.comm;
        let numbers: Vec<c_int> = ranks.iter().map(|r| *r as c_int).collect();
        let tag = (key % self.largest_tag as u32) as c_int;
        let mpi = &self.mpi;
        let mut comm = world;
        // SAFETY: `world` is a communicator with the ranks, which were checked; each call writes one handle, and the
        // groups are freed.
        unsafe {
            let (mut all, mut some) = (mpi.group_null(), mpi.group_null());
            check(mpi, OP, mpi.comm_group(world, &mut all))?;
            check(
                mpi,
                OP,
                mpi.group_incl(all, numbers.len() as c_int, numbers.as_ptr(), &mut some),
            )?;
            let made = mpi.comm_create_group(world, some, tag, &mut comm);
            check(mpi, OP, mpi.group_free(&mut some))?;
            check(mpi, OP, mpi.group_free(&mut all))?;
            check(mpi, OP, made)?;
            check(mpi, OP, mpi.comm_set_errhandler(comm, mpi.errors_return()))?;
        }
        let own = Own {
            comm,
            collectives: 0,
        };
        Ok(self.comms.add(ranks, place, own))
    }

    fn free_comm(&mut self, comm: Comm) -> Result<()> {
        let mut own = self.comms.remove("free_comm", comm)?.own;
        // SAFETY: the communicator is ours and is forgotten.
        check(&self.mpi, "free_comm", unsafe {
            self.mpi.comm_free(&mut own.comm)
        })
    }

    unsafe fn send(&mut self, comm: Comm, part: Part, to: usize, tag: u32) -> Result<Request> {
        const OP: &str = "send";
        let c = self.comms.send(comm, part, to)?;
        let (tag, handle) = (self.message_tag(OP, tag)?, c.own.comm);
        // SAFETY: the caller's promise.
        self.posted(OP, |e, o| unsafe { e.post_send(o, handle, part, to, tag) })
    }

    unsafe fn receive(
        &mut self,
        comm: Comm,
        part: Part,
        from: Option<usize>,
        tag: u32,
    ) -> Result<Request> {
        const OP: &str = "receive";
        let c = self.comms.receive(comm, part, from)?;
        let (tag, handle) = (self.message_tag(OP, tag)?, c.own.comm);
        // SAFETY: the caller's promise.
        self.posted(OP, |e, o| unsafe {
            e.post_receive(o, handle, part, from, tag, false)
        })
    }

    unsafe fn broadcast(&mut self, comm: Comm, part: Part, root: usize) -> Result<Request> {
        const OP: &str = "broadcast";
        let c = self.comms.broadcast(comm, part, root)?;
        let handle = c.own.comm;
        self.posted(OP, |e, o| {
            let mut request = e.mpi.request_null();
            // SAFETY: the caller's promise; communicator and root were checked.
            let code = unsafe {
                e.mpi.ibcast(
                    address(part),
                    part.bytes as c_int,
                    e.mpi.byte(),
                    root as c_int,
                    handle,
                    &mut request,
                )
            };
            check(&e.mpi, OP, code)?;
            o.pieces.push(Piece::collective(request));
            Ok(())
        })
    }

    unsafe fn all_to_all(
        &mut self,
        comm: Comm,
        send: &[Part],
        receive: &[Part],
    ) -> Result<Request> {
        const OP: &str = "all_to_all";
        let c = self.comms.all_to_all(comm, send, receive)?;
        let (own, n, handle) = (c.rank, c.size(), c.own.comm);
        let tag = self.collective(OP, comm)?;
        // SAFETY: the caller's promise for all parts. Each rank begins with its neighbour, so that not all send to the
        // same.
        self.posted(OP, |e, o| unsafe {
            for i in 1..n {
                let r = (own + n - i) % n;
                e.post_receive(o, handle, receive[r], Some(r), tag, true)?;
            }
            for i in 1..n {
                let r = (own + i) % n;
                e.post_send(o, handle, send[r], r, tag)?;
            }
            members::copy_own(send[own], receive[own]);
            Ok(())
        })
    }

    unsafe fn all_gather(&mut self, comm: Comm, send: Part, receive: &[Part]) -> Result<Request> {
        const OP: &str = "all_gather";
        let c = self.comms.all_gather(comm, send, receive)?;
        let (own, n, handle) = (c.rank, c.size(), c.own.comm);
        let tag = self.collective(OP, comm)?;
        let total: usize = receive.iter().map(|p| p.bytes).sum();
        // All ranks decide alike, since all know all sizes.
        if n > self.pairs_up_to && total <= c_int::MAX as usize {
            // SAFETY: the caller's promise.
            return unsafe { self.own_all_gather(handle, own, send, receive) };
        }
        // SAFETY: the caller's promise for all parts.
        self.posted(OP, |e, o| unsafe {
            for i in 1..n {
                let r = (own + n - i) % n;
                e.post_receive(o, handle, receive[r], Some(r), tag, true)?;
            }
            for i in 1..n {
                e.post_send(o, handle, send, (own + i) % n, tag)?;
            }
            members::copy_own(send, receive[own]);
            Ok(())
        })
    }

    unsafe fn gather(
        &mut self,
        comm: Comm,
        send: Part,
        receive: &[Part],
        root: usize,
    ) -> Result<Request> {
        const OP: &str = "gather";
        let c = self.comms.gather(comm, send, receive, root)?;
        let (own, n, handle) = (c.rank, c.size(), c.own.comm);
        let tag = self.collective(OP, comm)?;
        // SAFETY: the caller's promise for all parts.
        self.posted(OP, |e, o| unsafe {
            if own != root {
                return e.post_send(o, handle, send, root, tag);
            }
            for r in (0..n).filter(|r| *r != root) {
                e.post_receive(o, handle, receive[r], Some(r), tag, true)?;
            }
            members::copy_own(send, receive[root]);
            Ok(())
        })
    }

    unsafe fn scatter(
        &mut self,
        comm: Comm,
        send: &[Part],
        receive: Part,
        root: usize,
    ) -> Result<Request> {
        const OP: &str = "scatter";
        let c = self.comms.scatter(comm, send, receive, root)?;
        let (own, n, handle) = (c.rank, c.size(), c.own.comm);
        let tag = self.collective(OP, comm)?;
        // SAFETY: the caller's promise for all parts.
        self.posted(OP, |e, o| unsafe {
            if own != root {
                return e.post_receive(o, handle, receive, Some(root), tag, true);
            }
            for r in (0..n).filter(|r| *r != root) {
                e.post_send(o, handle, send[r], r, tag)?;
            }
            members::copy_own(send[root], receive);
            Ok(())
        })
    }

    fn reduces(&self, dtype: DType, _op: EngineOp) -> bool {
        members::reduced(dtype) && self.mpi.type_of(dtype).is_some()
    }

    unsafe fn all_reduce(
        &mut self,
        comm: Comm,
        part: Part,
        dtype: DType,
        op: EngineOp,
    ) -> Result<Request> {
        const OP: &str = "all_reduce";
        let handle = self.comms.all_reduce(comm, part, dtype)?.own.comm;
        let Some(kind) = self.mpi.type_of(dtype) else {
            return Err(TorshError::dtype(
                OP,
                format!("this MPI does not reduce {}", dtype.name()),
            ));
        };
        let count = (part.bytes / dtype.size()) as c_int;
        self.posted(OP, |e, o| {
            // Without the constant for "in place" the operand is a copy.
            let from = match e.mpi.in_place() {
                Some(place) => place,
                None => {
                    // SAFETY: the caller promises that the part is readable, and nobody writes it during the call.
                    let operand = unsafe { Staging::copy_of(part) };
                    o.staging.insert(operand).memory.as_ptr().cast()
                }
            };
            let mut request = e.mpi.request_null();
            // SAFETY: the caller's promise; a copied operand is the operation's, and stays until it ends.
            let code = unsafe {
                e.mpi.iallreduce(
                    from,
                    address(part),
                    count,
                    kind,
                    e.mpi.op_of(op),
                    handle,
                    &mut request,
                )
            };
            check(&e.mpi, OP, code)?;
            o.pieces.push(Piece::collective(request));
            Ok(())
        })
    }

    fn poll(&mut self, request: Request) -> Result<bool> {
        let Some(operation) = self.operations.get_mut(&request.0) else {
            return Err(members::no_request());
        };
        if !operation.advance(&self.mpi) {
            return Ok(false);
        }
        match self.operations.remove(&request.0) {
            // SAFETY: all pieces are done, so the caller's memory is still as it promised, and nobody writes it.
            Some(operation) => unsafe { operation.end() }.map(|()| true),
            None => Err(members::no_request()),
        }
    }

    fn abort(&mut self, code: i32) {
        // 0 would tell the launcher that all went well.
        let code = if code == 0 { 1 } else { code };
        // Ranks fail together, and the launcher drops what it has not forwarded of their messages when it ends them.
        std::thread::sleep(FORWARDED);
        // SAFETY: the call is allowed while MPI runs; most MPIs end the process in it.
        unsafe { self.mpi.abort(self.mpi.world(), code) };
    }

    fn finish(&mut self) -> Result<()> {
        if self.finished {
            return Ok(());
        }
        self.finished = true;
        if !self.let_go() {
            return Err(TorshError::failed(
                "finish",
                format!(
                    "rank {} has {} operations under way with ranks that do not answer",
                    self.rank,
                    self.operations.len()
                ),
            )
            .with_hint("End the job with an abort, and keep the memory of these operations."));
        }
        let mpi = &self.mpi;
        for mut own in self.comms.drain() {
            // SAFETY: the communicator is ours, and nothing is under way on it.
            unsafe { mpi.comm_free(&mut own.comm) };
        }
        // SAFETY: this is the thread that started MPI, and no call follows.
        check(mpi, "finish", unsafe { mpi.finalize() })
    }
}

impl<M: Mpi> Drop for MpiOf<M> {
    fn drop(&mut self) {
        if !self.finished && !self.let_go() {
            // The memory of these operations may be freed now, and MPI still uses it.
            eprintln!(
                "rank {}: its engine ends with operations under way, so the job ends",
                self.rank
            );
            self.abort(1);
            // Where MPI came back from that.
            std::process::exit(1);
        }
    }
}
