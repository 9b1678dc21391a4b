//! What a rank waits for: receives that wait for a message, messages that wait for a receive, copies under way.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use torsh_core::{DType, TorshError};

use super::super::{Comm, EngineOp, Part};
use super::mailbox::{Copied, Key, Message, Tag};

/// How many bytes one poll copies at most, so that it comes back soon and other ranks' messages get their turn.
pub(super) const BYTES_PER_POLL: usize = 4 << 20;

/// Memory of the caller that an operation writes to.
#[derive(Clone, Copy)]
pub(super) struct Destination(Part);

// SAFETY: the caller of the operation promised that nobody else uses the memory until it ends, so that it may be used on
// whatever thread the engine is.
unsafe impl Send for Destination {}

impl Destination {
    /// A piece of it.
    pub(super) fn piece(&self, range: &Range<usize>) -> Part {
        Part {
            // The pieces are within the part, so this does not leave its memory.
            ptr: self.0.ptr.wrapping_add(range.start),
            bytes: range.len(),
        }
    }
}

/// A receive that waits for its message.
pub(super) struct Wanted {
    pub(super) operation: u64,
    into: Destination,
    from: Option<usize>,
    /// Whether a shorter message is an error.
    exact: bool,
}

impl Wanted {
    pub(super) fn new(operation: u64, part: Part, from: Option<usize>, exact: bool) -> Wanted {
        Wanted {
            operation,
            into: Destination(part),
            from,
            exact,
        }
    }

    fn takes(&self, message: &Message) -> bool {
        self.from.is_none_or(|r| r == message.from)
    }

    /// Why a message does not fit.
    pub(super) fn refuses(&self, message: &Message) -> Option<TorshError> {
        let room = self.into.0.bytes;
        if message.bytes == room || (message.bytes < room && !self.exact) {
            return None;
        }
        let (from, bytes) = (message.from, message.bytes);
        let problem = match message.key.tag {
            Tag::Message(tag) => TorshError::failed(
                "receive",
                format!(
                    "rank {from}'s message with tag {tag} has {bytes} bytes, but the part to receive it has {room}"
                ),
            ),
            Tag::Collective(_) => TorshError::failed(
                "collective",
                format!("rank {from} sent {bytes} bytes, but this rank expects {room}"),
            ),
        };
        Some(problem.with_hint("Both ranks must give as many bytes: compare shapes and dtypes."))
    }
}

/// Messages and receives of one key that wait for one another.
#[derive(Default)]
pub(super) struct Queue {
    unexpected: VecDeque<Arc<Message>>,
    wanted: VecDeque<Wanted>,
}

impl Queue {
    /// A receive: its message, or it waits.
    pub(super) fn want(&mut self, wanted: Wanted) -> Option<(Arc<Message>, Wanted)> {
        let found = self.unexpected.iter().position(|m| wanted.takes(m));
        match found.and_then(|i| self.unexpected.remove(i)) {
            Some(message) => Some((message, wanted)),
            None => {
                self.wanted.push_back(wanted);
                None
            }
        }
    }

    /// A message: its receive, or it waits.
    pub(super) fn arrive(&mut self, message: Arc<Message>) -> Option<(Arc<Message>, Wanted)> {
        let found = self.wanted.iter().position(|w| w.takes(&message));
        match found.and_then(|i| self.wanted.remove(i)) {
            Some(wanted) => Some((message, wanted)),
            None => {
                self.unexpected.push_back(message);
                None
            }
        }
    }

    /// Whom the receives of an operation wait for.
    pub(super) fn wanted_by(&self, operation: u64) -> impl Iterator<Item = Option<usize>> + '_ {
        self.wanted
            .iter()
            .filter(move |w| w.operation == operation)
            .map(|w| w.from)
    }

    pub(super) fn forget(&mut self, operation: u64) {
        self.wanted.retain(|w| w.operation != operation);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.unexpected.is_empty() && self.wanted.is_empty()
    }
}

/// A copy under way.
pub(super) struct Copying {
    pub(super) message: Arc<Message>,
    pub(super) wanted: Wanted,
    pub(super) at: usize,
}

impl Copying {
    /// Copies as much as `budget` allows, and says whether it was the end.
    pub(super) fn advance(&mut self, budget: &mut usize) -> Result<bool, TorshError> {
        let to = self.wanted.into.0.ptr.wrapping_add(self.at);
        // SAFETY: the message is no longer than the part (`Wanted::refuses`), which is writable until the operation ends;
        // then this copy is dropped.
        match unsafe { self.message.copy(self.at, *budget, to) } {
            Copied::Some(bytes) => {
                self.at += bytes;
                *budget -= bytes;
                Ok(self.at == self.message.bytes)
            }
            Copied::Gone => Err(TorshError::failed(
                "receive",
                format!(
                    "rank {} gave up its message of {} bytes",
                    self.message.from, self.message.bytes
                ),
            )
            .with_hint("The operation failed there, or the rank ended: its own error says why.")),
        }
    }
}

/// An operation under way.
pub(super) struct Operation {
    pub(super) name: &'static str,
    pub(super) comm: Comm,
    /// Messages that are not done, and the ranks of the world that they go to.
    pub(super) sends: Vec<(usize, Arc<Message>)>,
    /// How many messages have not come.
    pub(super) receives: usize,
    problem: Option<TorshError>,
    /// What follows when all is done.
    pub(super) then: Option<Reduction>,
}

impl Operation {
    pub(super) fn new(name: &'static str, comm: Comm) -> Operation {
        Operation {
            name,
            comm,
            sends: Vec::new(),
            receives: 0,
            problem: None,
            then: None,
        }
    }

    /// Keeps the first problem.
    pub(super) fn fail(&mut self, problem: TorshError) {
        self.problem.get_or_insert(problem);
    }

    pub(super) fn take_problem(&mut self) -> Option<TorshError> {
        self.problem.take()
    }

    pub(super) fn is_done(&mut self) -> bool {
        self.sends.retain(|(_, m)| !m.is_done());
        self.receives == 0 && self.sends.is_empty()
    }
}

/// A reduction: each rank sums one piece of all ranks' parts.
pub(super) struct Reduction {
    pub(super) part: Destination,
    /// Where each rank's piece is in the part.
    pub(super) pieces: Vec<Range<usize>>,
    /// This rank's piece of each rank.
    pub(super) inputs: Vec<Box<[u8]>>,
    pub(super) dtype: DType,
    pub(super) op: EngineOp,
    /// Of the messages with the sums.
    pub(super) key: Key,
}

impl Reduction {
    /// # Safety
    /// The part is readable.
    pub(super) unsafe fn new(
        part: Part,
        n: usize,
        own: usize,
        dtype: DType,
        op: EngineOp,
        key: Key,
    ) -> Reduction {
        let elements = part.bytes / dtype.size();
        let start = |r: usize| elements * r / n * dtype.size();
        let pieces: Vec<_> = (0..n).map(|r| start(r)..start(r + 1)).collect();
        let mut inputs: Vec<Box<[u8]>> = (0..n)
            .map(|_| vec![0; pieces[own].len()].into_boxed_slice())
            .collect();
        let part = Destination(part);
        let mine = part.piece(&pieces[own]);
        // SAFETY: the piece is within the part, which is readable, and apart from the new memory.
        unsafe { std::ptr::copy_nonoverlapping(mine.ptr, inputs[own].as_mut_ptr(), mine.bytes) };
        Reduction {
            part,
            pieces,
            inputs,
            dtype,
            op,
            key,
        }
    }
}

/// The memory of an input.
pub(super) fn part_of(input: &mut Box<[u8]>) -> Part {
    Part {
        ptr: input.as_mut_ptr(),
        bytes: input.len(),
    }
}
