//! Free lists: the link to the next free block is stored in the block itself.

use std::cell::Cell;
use std::ptr::NonNull;

/// The head of a free block.
struct Node {
    next: Option<NonNull<Node>>,
}

/// Free blocks of one size.
pub(super) struct List {
    head: Cell<Option<NonNull<Node>>>,
    length: Cell<usize>,
}

impl List {
    pub(super) const fn new() -> List {
        List {
            head: Cell::new(None),
            length: Cell::new(0),
        }
    }

    /// How many blocks there are.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.length.get()
    }

    #[inline]
    pub(super) fn pop(&self) -> Option<NonNull<u8>> {
        let node = self.head.get()?;
        // SAFETY: `push` wrote this node, and since then nobody else had the block.
        self.head.set(unsafe { node.as_ref() }.next);
        self.length.set(self.length.get() - 1);
        Some(node.cast())
    }

    /// # Safety
    /// The block is unused, of 64 bytes or more, and aligned to 64.
    #[inline]
    pub(super) unsafe fn push(&self, ptr: NonNull<u8>) {
        let node = ptr.cast::<Node>();
        let next = self.head.get();
        // SAFETY: the caller's promise.
        unsafe { node.write(Node { next }) };
        self.head.set(Some(node));
        self.length.set(self.length.get() + 1);
    }
}
