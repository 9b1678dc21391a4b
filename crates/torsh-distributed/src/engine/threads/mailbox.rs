//! Messages between threads: what a sender leaves at the receiver's mailbox.
//!
//! The receiver copies, so that all ranks copy at the same time. A message's memory is its sender's until it is done:
//! the receiver copies under the message's lock, and a sender that gives up takes the memory back under the same lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;

/// Messages of at most so many bytes are copied when they are sent, so that the sender need not wait.
const EAGER_BYTES: usize = 8 << 10;

/// What a message and a receive must agree in, besides the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// The communicator's number, the same on all its ranks.
    pub(super) context: u64,
    /// The tag of a message, or the number of a collective.
    pub(super) tag: Tag,
}

/// Tags of messages and numbers of collectives are apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Tag {
    Message(u32),
    Collective(u64),
}

/// Where the bytes of a message are.
enum MessageBytes {
    /// In the sender's memory.
    Sender(*const u8),
    /// In the message.
    Eager(Box<[u8]>),
    /// The sender has taken them back.
    Gone,
}

// SAFETY: the pointer is read under the lock around it, while the sender, who promised that it is readable, has not taken
// it back.
unsafe impl Send for MessageBytes {}

/// A message under way.
pub(super) struct Message {
    pub(super) key: Key,
    /// The sender, counted within the communicator.
    pub(super) from: usize,
    pub(super) bytes: usize,
    done: AtomicBool,
    memory: Mutex<MessageBytes>,
}

/// What came of a copy.
pub(super) enum Copied {
    /// So many bytes, from where it was asked to begin.
    Some(usize),
    /// The sender has taken the message back.
    Gone,
}

impl Message {
    /// A message of `bytes` bytes at `ptr`.
    ///
    /// # Safety
    /// They are readable, and nobody writes them, until [`Message::is_done`] or [`Message::take_back`].
    pub(super) unsafe fn new(key: Key, from: usize, ptr: *const u8, bytes: usize) -> Message {
        let eager = bytes <= EAGER_BYTES;
        let memory = if bytes == 0 {
            MessageBytes::Eager(Box::default())
        } else if eager {
            // SAFETY: the caller promises that the bytes are readable.
            MessageBytes::Eager(unsafe { std::slice::from_raw_parts(ptr, bytes) }.into())
        } else {
            MessageBytes::Sender(ptr)
        };
        Message {
            key,
            from,
            bytes,
            done: AtomicBool::new(eager),
            memory: Mutex::new(memory),
        }
    }

    /// Whether the sender may use its memory again.
    pub(super) fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    /// The receiver needs nothing more of it.
    pub(super) fn finish(&self) {
        self.done.store(true, Ordering::Release);
    }

    /// The sender gives up: nobody reads its memory after this. Waits for a copy of a piece that is being made.
    pub(super) fn take_back(&self) {
        let mut memory = self.memory.lock();
        if matches!(*memory, MessageBytes::Sender(_)) {
            *memory = MessageBytes::Gone;
        }
    }

    /// Copies at most `most` bytes, beginning with byte `at`, to `to`.
    ///
    /// # Safety
    /// `to` is writable for as many bytes, and not within the message.
    pub(super) unsafe fn copy(&self, at: usize, most: usize, to: *mut u8) -> Copied {
        let memory = self.memory.lock();
        let from = match &*memory {
            MessageBytes::Sender(ptr) => *ptr,
            MessageBytes::Eager(bytes) => bytes.as_ptr(),
            MessageBytes::Gone => return Copied::Gone,
        };
        let bytes = most.min(self.bytes - at);
        // SAFETY: the message has `self.bytes` bytes at `from`, which stay while the lock is held; the caller promises
        // the other side.
        unsafe { std::ptr::copy_nonoverlapping(from.add(at), to, bytes) };
        Copied::Some(bytes)
    }
}

/// Messages that wait for their receiver, in the order in which they came.
#[derive(Default)]
pub(super) struct Mailbox {
    /// How many there are, so that an empty mailbox costs no lock.
    count: AtomicUsize,
    messages: Mutex<Vec<Arc<Message>>>,
}

impl Mailbox {
    pub(super) fn put(&self, message: Arc<Message>) {
        let mut messages = self.messages.lock();
        messages.push(message);
        self.count.store(messages.len(), Ordering::Release);
    }

    /// Moves all messages to `into`, which is empty.
    pub(super) fn take(&self, into: &mut Vec<Arc<Message>>) {
        if self.count.load(Ordering::Acquire) > 0 {
            let mut messages = self.messages.lock();
            std::mem::swap(&mut *messages, into);
            self.count.store(0, Ordering::Release);
        }
    }
}
