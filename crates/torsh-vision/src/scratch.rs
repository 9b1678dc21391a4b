//! Memory that a thread keeps from one image to the next: the first write to a fresh page takes longer than most of what is
//! done with it.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

/// Buffers of a thread, and the bytes of the largest one that is kept.
const BUFFERS: usize = 3;
const MOST: usize = 32 << 20;

thread_local! {
    static KEPT: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Bytes of any value, given back to the thread's buffers when they are dropped.
pub(crate) struct Scratch(Vec<u8>);

impl Scratch {
    /// So many bytes.
    pub fn new(n: usize) -> Scratch {
        if n > MOST {
            // Memory that nobody has written to yet costs nothing where the file is damaged.
            return Scratch(vec![0; n]);
        }
        let mut bytes = KEPT.with_borrow_mut(Vec::pop).unwrap_or_default();
        bytes.resize(n, 0);
        Scratch(bytes)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.0);
        if bytes.capacity() <= MOST {
            // The thread's storage may be gone already.
            let _ = KEPT.try_with(|kept| {
                let mut kept = kept.borrow_mut();
                if kept.len() < BUFFERS {
                    kept.push(bytes);
                }
            });
        }
    }
}

impl Deref for Scratch {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for Scratch {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_with_another_size() {
        let mut first = Scratch::new(100);
        first[99] = 7;
        let at = first.as_ptr();
        drop(first);
        let second = Scratch::new(50);
        assert_eq!((second.len(), second.as_ptr()), (50, at));
        let third = Scratch::new(10);
        assert_ne!(third.as_ptr(), at);
    }
}
