//! One rank's side of a check: memory with known bytes, operations, and waiting for them.

use std::time::{Duration, Instant};

use torsh_core::{DType, Result, TorshError};
use torsh_distributed::engine::{Comm, Engine, EngineOp, Part, Request};

/// A check that takes longer has failed.
const DEADLINE: Duration = Duration::from_secs(60);

/// Runs a check, and names it in its error.
pub(super) fn named(name: &str, f: impl FnOnce() -> Result<()>) -> Result<()> {
    f().map_err(|e| TorshError::failed("engine suite", format!("{name}: {e}")))
}

/// A failed check.
pub(super) fn wrong(text: String) -> TorshError {
    TorshError::failed("check", text)
}

/// Known bytes of a message of `from` to `to`; `case` tells messages apart.
pub fn bytes(from: usize, to: usize, case: usize, len: usize) -> Vec<u8> {
    let mut state = ((from * 31 + to) * 1009 + case) as u64 | 1;
    let mut all = vec![0; len];
    for piece in all.chunks_mut(8) {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        piece.copy_from_slice(&(state ^ (state >> 29)).to_le_bytes()[..piece.len()]);
    }
    all
}

/// Memory to receive into: filled, so that bytes that did not come are seen.
pub fn empty(len: usize) -> Vec<u8> {
    vec![0xA5; len]
}

/// The memory as an engine takes it.
pub fn part(memory: &mut [u8]) -> Part {
    Part {
        ptr: memory.as_mut_ptr(),
        bytes: memory.len(),
    }
}

/// Several pieces of memory.
pub fn parts(memory: &mut [Vec<u8>]) -> Vec<Part> {
    memory.iter_mut().map(|m| part(m)).collect()
}

/// Refuses bytes that are not those that were sent.
pub(super) fn same(what: &str, got: &[u8], want: &[u8]) -> Result<()> {
    if got == want {
        return Ok(());
    }
    if got.len() != want.len() {
        return Err(wrong(format!(
            "{what}: {} bytes and not {}",
            got.len(),
            want.len()
        )));
    }
    let at = got.iter().zip(want).position(|(a, b)| a != b).unwrap_or(0);
    Err(wrong(format!(
        "{what}: byte {at} of {} is {} and not {}",
        want.len(),
        got[at],
        want[at]
    )))
}

/// Sizes of messages: none, few, both sides of what engines send at once, pieces of several polls.
pub(super) const SIZES: [usize; 7] = [0, 1, 7, 4096, 8193, 70_001, (5 << 20) + 3];

/// The size of the part that `from` sends to `to`: some are 0.
pub(super) fn size_between(from: usize, to: usize, case: usize) -> usize {
    let unit = [1, 3, 5000, 300_007][case % 4];
    (from * 7 + to * 3 + case) % 4 * unit
}

/// An engine's rank in a communicator.
pub(super) struct Rank<'e> {
    engine: &'e mut dyn Engine,
    comm: Comm,
    /// This rank and how many there are, in the communicator.
    pub(super) rank: usize,
    pub(super) n: usize,
}

impl<'e> Rank<'e> {
    pub(super) fn new(engine: &'e mut dyn Engine, comm: Comm, ranks: &[usize]) -> Rank<'e> {
        let own = engine.rank();
        let rank = ranks.iter().position(|r| *r == own).unwrap_or(0);
        Rank {
            engine,
            comm,
            rank,
            n: ranks.len(),
        }
    }

    pub(super) fn named(
        &mut self,
        name: &str,
        f: impl FnOnce(&mut Rank<'_>) -> Result<()>,
    ) -> Result<()> {
        named(name, || f(self))
    }

    pub(super) fn next(&self) -> usize {
        (self.rank + 1) % self.n
    }

    pub(super) fn last(&self) -> usize {
        (self.rank + self.n - 1) % self.n
    }

    pub(super) fn engine(&mut self) -> &mut dyn Engine {
        self.engine
    }

    pub(super) fn poll(&mut self, request: Request) -> Result<bool> {
        self.engine.poll(request)
    }

    pub(super) fn wait(&mut self, request: Request) -> Result<()> {
        let started = Instant::now();
        while !self.engine.poll(request)? {
            if started.elapsed() > DEADLINE {
                // The memory of the operation is about to be freed.
                eprintln!(
                    "rank {}: an operation is not done after {DEADLINE:?}",
                    self.rank
                );
                self.engine.abort(1);
                return Err(wrong(format!(
                    "an operation is not done after {DEADLINE:?}"
                )));
            }
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Waits for all, also after an error, which comes at the end: memory stays until then.
    pub(super) fn wait_all(&mut self, requests: impl IntoIterator<Item = Request>) -> Result<()> {
        let mut all = Ok(());
        for request in requests {
            let one = self.wait(request);
            if all.is_ok() {
                all = one;
            }
        }
        all
    }

    // SAFETY of the calls below: the checks keep the memory of all parts, unchanged, until they have waited.

    pub(super) fn send(&mut self, part: Part, to: usize, tag: u32) -> Result<Request> {
        // SAFETY: as above.
        unsafe { self.engine.send(self.comm, part, to, tag) }
    }

    pub(super) fn receive(&mut self, part: Part, from: Option<usize>, tag: u32) -> Result<Request> {
        // SAFETY: as above.
        unsafe { self.engine.receive(self.comm, part, from, tag) }
    }

    pub(super) fn broadcast(&mut self, part: Part, root: usize) -> Result<Request> {
        // SAFETY: as above.
        unsafe { self.engine.broadcast(self.comm, part, root) }
    }

    pub(super) fn all_to_all(&mut self, send: &[Part], receive: &[Part]) -> Result<Request> {
        // SAFETY: as above.
        unsafe { self.engine.all_to_all(self.comm, send, receive) }
    }

    pub(super) fn all_gather(&mut self, send: Part, receive: &[Part]) -> Result<Request> {
        // SAFETY: as above.
        unsafe { self.engine.all_gather(self.comm, send, receive) }
    }

    pub(super) fn gather(&mut self, send: Part, receive: &[Part], root: usize) -> Result<Request> {
        // SAFETY: as above.
        unsafe { self.engine.gather(self.comm, send, receive, root) }
    }

    pub(super) fn scatter(&mut self, send: &[Part], receive: Part, root: usize) -> Result<Request> {
        // SAFETY: as above.
        unsafe { self.engine.scatter(self.comm, send, receive, root) }
    }

    pub(super) fn all_reduce(&mut self, part: Part, dtype: DType, op: EngineOp) -> Result<Request> {
        // SAFETY: as above; the memory of the checks comes from the allocator, aligned for every dtype.
        unsafe { self.engine.all_reduce(self.comm, part, dtype, op) }
    }
}
