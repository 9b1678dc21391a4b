//! One rank of a world that is not there: operations are done at once, and no bytes move.
//!
//! It shows what a rank of a large world would do: which operations in which order, of how many bytes. Arguments are
//! checked as the other engines check them.

use std::collections::HashSet;

use torsh_core::{DType, Result, TorshError};

use super::members::{self, Members};
use super::{Comm, Engine, EngineOp, Part, Request};

/// The engine `fake`.
pub struct FakeEngine {
    rank: usize,
    world_size: usize,
    comms: Members<()>,
    under_way: HashSet<u64>,
    next: u64,
    aborted: Option<i32>,
    moved: Moved,
}

/// What would have been moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// How many operations began.
    pub operations: u64,
    /// To other ranks.
    pub sent: u64,
    /// From other ranks.
    pub received: u64,
}

impl FakeEngine {
    /// Rank `rank` of `world_size`.
    pub fn new(rank: usize, world_size: usize) -> FakeEngine {
        FakeEngine {
            rank,
            world_size,
            comms: Members::new(world_size, rank, ()),
            under_way: HashSet::new(),
            next: 0,
            aborted: None,
            moved: Moved::default(),
        }
    }

    /// What would have been moved since the start: each byte counts once for each rank that it goes to or comes from.
    pub fn moved(&self) -> Moved {
        self.moved
    }

    fn request(&mut self, sent: usize, received: usize) -> Request {
        self.moved.operations += 1;
        self.moved.sent += sent as u64;
        self.moved.received += received as u64;
        self.next += 1;
        self.under_way.insert(self.next);
        Request(self.next)
    }
}

/// The bytes of all parts but `own`.
fn others(parts: &[Part], own: usize) -> usize {
    parts
        .iter()
        .enumerate()
        .filter(|(i, _)| *i != own)
        .map(|(_, p)| p.bytes)
        .sum()
}

/// Copies the rank's own part, where there is memory: parts of tensors without data have none.
///
/// # Safety
/// As for [`members::copy_own`], where the pointers are not null.
unsafe fn copy(from: Part, to: Part) {
    if !from.ptr.is_null() && !to.ptr.is_null() {
        // SAFETY: the caller's promise.
        unsafe { members::copy_own(from, to) };
    }
}

// SAFETY: nothing is read or written after a call; the own part is copied within it.
unsafe impl Engine for FakeEngine {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn describe(&self) -> String {
        format!(
            "rank {} of {} ranks that are not there",
            self.rank, self.world_size
        )
    }

    fn rank(&self) -> usize {
        self.rank
    }

    fn world_size(&self) -> usize {
        self.world_size
    }

    fn new_comm(&mut self, ranks: &[usize], _key: u32) -> Result<Comm> {
        let place = members::place_of(ranks, self.rank, self.world_size)?;
        Ok(self.comms.add(ranks, place, ()))
    }

    fn free_comm(&mut self, comm: Comm) -> Result<()> {
        self.comms.remove("free_comm", comm).map(|_| ())
    }

    unsafe fn send(&mut self, comm: Comm, part: Part, to: usize, _tag: u32) -> Result<Request> {
        self.comms.send(comm, part, to)?;
        Ok(self.request(part.bytes, 0))
    }

    unsafe fn receive(
        &mut self,
        comm: Comm,
        part: Part,
        from: Option<usize>,
        _tag: u32,
    ) -> Result<Request> {
        self.comms.receive(comm, part, from)?;
        Ok(self.request(0, part.bytes))
    }

    unsafe fn broadcast(&mut self, comm: Comm, part: Part, root: usize) -> Result<Request> {
        let c = self.comms.broadcast(comm, part, root)?;
        let (sent, received) = if c.rank == root {
            (part.bytes * (c.size() - 1), 0)
        } else {
            (0, part.bytes)
        };
        Ok(self.request(sent, received))
    }

    unsafe fn all_to_all(
        &mut self,
        comm: Comm,
        send: &[Part],
        receive: &[Part],
    ) -> Result<Request> {
        let c = self.comms.all_to_all(comm, send, receive)?;
        let own = c.rank;
        // SAFETY: the caller's promise for its parts.
        unsafe { copy(send[own], receive[own]) };
        Ok(self.request(others(send, own), others(receive, own)))
    }

    unsafe fn all_gather(&mut self, comm: Comm, send: Part, receive: &[Part]) -> Result<Request> {
        let c = self.comms.all_gather(comm, send, receive)?;
        let (own, n) = (c.rank, c.size());
        // SAFETY: the caller's promise for its parts.
        unsafe { copy(send, receive[own]) };
        Ok(self.request(send.bytes * (n - 1), others(receive, own)))
    }

    unsafe fn gather(
        &mut self,
        comm: Comm,
        send: Part,
        receive: &[Part],
        root: usize,
    ) -> Result<Request> {
        let c = self.comms.gather(comm, send, receive, root)?;
        if c.rank != root {
            return Ok(self.request(send.bytes, 0));
        }
        // SAFETY: the caller's promise for its parts.
        unsafe { copy(send, receive[root]) };
        Ok(self.request(0, others(receive, root)))
    }

    unsafe fn scatter(
        &mut self,
        comm: Comm,
        send: &[Part],
        receive: Part,
        root: usize,
    ) -> Result<Request> {
        let c = self.comms.scatter(comm, send, receive, root)?;
        if c.rank != root {
            return Ok(self.request(0, receive.bytes));
        }
        // SAFETY: the caller's promise for its parts.
        unsafe { copy(send[root], receive) };
        Ok(self.request(others(send, root), 0))
    }

    fn reduces(&self, dtype: DType, _op: EngineOp) -> bool {
        members::reduced(dtype)
    }

    unsafe fn all_reduce(
        &mut self,
        comm: Comm,
        part: Part,
        dtype: DType,
        _op: EngineOp,
    ) -> Result<Request> {
        let n = self.comms.all_reduce(comm, part, dtype)?.size();
        // What the pieces of a reduction and their results would be.
        let bytes = 2 * (part.bytes - part.bytes / n);
        Ok(self.request(bytes, bytes))
    }

    fn poll(&mut self, request: Request) -> Result<bool> {
        if !self.under_way.remove(&request.0) {
            return Err(members::no_request());
        }
        match self.aborted {
            Some(code) => Err(TorshError::failed(
                "poll",
                format!("rank {} aborted the job with code {code}", self.rank),
            )),
            None => Ok(true),
        }
    }

    fn abort(&mut self, code: i32) {
        self.aborted.get_or_insert(code);
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}
