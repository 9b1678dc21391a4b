//! One line of elements and where its results go.

use super::keys::Ordered;
use crate::kernels::index::IndexPtr;

/// One line of the input and of both outputs; steps in elements.
#[derive(Clone, Copy)]
pub(super) struct SortLine<T> {
    pub(super) input: IndexPtr<T>,
    pub(super) values: IndexPtr<T>,
    pub(super) indices: IndexPtr<i64>,
    pub(super) steps: [isize; 3],
    pub(super) n: usize,
    /// The bits to invert for descending order.
    pub(super) invert: u64,
}

impl<T: Ordered> SortLine<T> {
    /// The key of an element.
    ///
    /// # Safety
    /// `at` must be below `n`.
    #[inline(always)]
    pub(super) unsafe fn key(&self, at: usize) -> u64 {
        // SAFETY: the caller's promise.
        unsafe { (*self.input.at(at as isize * self.steps[0])).key() ^ self.invert }
    }

    /// Writes a result: the element and its position.
    ///
    /// # Safety
    /// `slot` must be below the outputs' length.
    #[inline(always)]
    pub(super) unsafe fn put(&self, slot: usize, value: T, at: u32) {
        let slot = slot as isize;
        // SAFETY: the caller's promise.
        unsafe {
            *self.values.at(slot * self.steps[1]) = value;
            *self.indices.at(slot * self.steps[2]) = at as i64;
        }
    }

    /// The element at a position.
    ///
    /// # Safety
    /// `at` must be below `n`.
    #[inline(always)]
    pub(super) unsafe fn element(&self, at: u32) -> T {
        // SAFETY: the caller's promise.
        unsafe { *self.input.at(at as isize * self.steps[0]) }
    }
}
