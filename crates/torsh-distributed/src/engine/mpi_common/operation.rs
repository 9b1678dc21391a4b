//! An operation under way: MPI's requests of its pieces, and the memory that they need.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use torsh_core::{Result, TorshError};

use super::super::Part;
use super::calls::Mpi;
use super::text;

/// One request of MPI.
pub(super) struct Piece<M: Mpi> {
    request: M::Request,
    kind: Kind,
}

enum Kind {
    Send,
    /// From a rank, into so many bytes, which must be all of the message where `exact`.
    Receive {
        from: Option<usize>,
        bytes: usize,
        exact: bool,
    },
    Collective,
}

impl<M: Mpi> Piece<M> {
    pub(super) fn send(request: M::Request) -> Piece<M> {
        Piece {
            request,
            kind: Kind::Send,
        }
    }

    pub(super) fn receive(
        request: M::Request,
        from: Option<usize>,
        bytes: usize,
        exact: bool,
    ) -> Piece<M> {
        Piece {
            request,
            kind: Kind::Receive { from, bytes, exact },
        }
    }

    pub(super) fn collective(request: M::Request) -> Piece<M> {
        Piece {
            request,
            kind: Kind::Collective,
        }
    }

    /// Whether it is complete, or why it failed, which completes it too.
    fn test(&mut self, mpi: &M, op: &'static str) -> Result<bool> {
        let mut flag = 0;
        let mut status = MaybeUninit::<M::Status>::zeroed();
        // SAFETY: the request is under way: it is forgotten when this says that it is complete.
        let code = unsafe { mpi.test(&mut self.request, &mut flag, status.as_mut_ptr()) };
        if code != 0 {
            return Err(self.explain(text::error(mpi, op, code), mpi, code));
        }
        if flag == 0 {
            return Ok(false);
        }
        if let Kind::Receive {
            from: Some(from),
            bytes,
            exact: true,
        } = self.kind
        {
            let (mut cancelled, mut count) = (0, 0);
            // SAFETY: the request is complete, so its status was written.
            unsafe {
                mpi.test_cancelled(status.as_ptr(), &mut cancelled);
                mpi.get_count(status.as_ptr(), mpi.byte(), &mut count);
            }
            if cancelled == 0 && count != bytes as c_int {
                return Err(TorshError::failed(
                    op,
                    format!("rank {from} sent {count} bytes, but this rank expects {bytes}"),
                )
                .with_hint("Both ranks must give as many bytes: compare shapes and dtypes."));
            }
        }
        Ok(true)
    }

    /// Adds to MPI's text what it does not know.
    fn explain(&self, problem: TorshError, mpi: &M, code: c_int) -> TorshError {
        let Kind::Receive { from, bytes, .. } = self.kind else {
            return problem;
        };
        let mut class = 0;
        // SAFETY: the code is one that MPI gave.
        let known = unsafe { mpi.error_class(code, &mut class) } == 0;
        if !known || class != mpi.err_truncate() {
            return problem;
        }
        let who = from.map_or_else(|| "a rank".to_string(), |r| format!("rank {r}"));
        problem.with_hint(format!(
            "{who} sent more than the {bytes} bytes that this rank expects: compare shapes and dtypes."
        ))
    }
}

/// Memory of an operation's own.
pub(super) struct Staging {
    pub(super) memory: Vec<u8>,
    /// Where the bytes go at the end, one part after the other.
    parts: Vec<Part>,
}

impl Staging {
    /// Memory for the bytes of `parts`, which go there at the end.
    pub(super) fn new(parts: &[Part]) -> Staging {
        Staging {
            memory: vec![0; parts.iter().map(|p| p.bytes).sum()],
            parts: parts.to_vec(),
        }
    }

    /// A copy of a part, which goes nowhere.
    ///
    /// # Safety
    /// The part is readable, and nobody writes it meanwhile.
    pub(super) unsafe fn copy_of(part: Part) -> Staging {
        let mut memory = vec![0; part.bytes];
        // SAFETY: the caller's promise; the new memory has as many bytes.
        unsafe { std::ptr::copy_nonoverlapping(part.ptr, memory.as_mut_ptr(), part.bytes) };
        Staging {
            memory,
            parts: Vec::new(),
        }
    }
}

/// An operation under way.
pub(super) struct Operation<M: Mpi> {
    pub(super) name: &'static str,
    pub(super) pieces: Vec<Piece<M>>,
    /// What MPI's collectives read until they are complete.
    pub(super) counts: Vec<c_int>,
    pub(super) displacements: Vec<c_int>,
    pub(super) staging: Option<Staging>,
    problem: Option<TorshError>,
}

impl<M: Mpi> Operation<M> {
    pub(super) fn new(name: &'static str) -> Operation<M> {
        Operation {
            name,
            pieces: Vec::new(),
            counts: Vec::new(),
            displacements: Vec::new(),
            staging: None,
            problem: None,
        }
    }

    /// Keeps the first problem, and takes back the receives that are left: nobody waits for them any more.
    pub(super) fn fail(&mut self, mpi: &M, problem: TorshError) {
        if self.problem.is_none() {
            self.problem = Some(problem);
            self.cancel(mpi);
        }
    }

    /// Takes back all receives. Sends and collectives cannot be taken back.
    pub(super) fn cancel(&mut self, mpi: &M) {
        for piece in &mut self.pieces {
            if matches!(piece.kind, Kind::Receive { .. }) {
                // SAFETY: the request is under way. It is still tested until it is complete.
                unsafe { mpi.cancel(&mut piece.request) };
            }
        }
    }

    /// Tests the pieces up to the first that is not complete, and says whether none is left. A test makes progress with
    /// all requests, also with those that it does not name.
    pub(super) fn advance(&mut self, mpi: &M) -> bool {
        while let Some(piece) = self.pieces.last_mut() {
            match piece.test(mpi, self.name) {
                Ok(false) => return false,
                Ok(true) => {
                    self.pieces.pop();
                }
                Err(problem) => {
                    self.pieces.pop();
                    self.fail(mpi, problem);
                }
            }
        }
        true
    }

    /// The end: staged bytes go to their parts.
    ///
    /// # Safety
    /// No piece is left. The parts are writable.
    pub(super) unsafe fn end(self) -> Result<()> {
        if let Some(problem) = self.problem {
            return Err(problem);
        }
        if let Some(staging) = self.staging {
            let mut at = 0;
            for part in &staging.parts {
                let from = &staging.memory[at..at + part.bytes];
                // SAFETY: the caller's promise.
                unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), part.ptr, part.bytes) };
                at += part.bytes;
            }
        }
        Ok(())
    }
}
