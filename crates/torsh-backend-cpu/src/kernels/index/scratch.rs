//! Temporary memory of a kernel.

use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};

use torsh_core::Result;

use crate::memory::dense;

/// `n` initialised elements from the caching allocator, as a slice.
pub(crate) struct ScratchSlice<T: Copy> {
    memory: dense::Scratch<T>,
    len: usize,
}

impl<T: Copy> ScratchSlice<T> {
    /// `n` elements, the `i`-th being `f(i)`.
    pub(crate) fn from_fn(n: usize, mut f: impl FnMut(usize) -> T) -> Result<ScratchSlice<T>> {
        let memory = dense::Scratch::<T>::new(n)?;
        for i in 0..n {
            // SAFETY: the memory holds `n` elements and is aligned to 64 bytes.
            unsafe { memory.ptr().add(i).write(f(i)) };
        }
        Ok(ScratchSlice { memory, len: n })
    }

    /// `n` equal elements.
    pub(crate) fn filled(n: usize, value: T) -> Result<ScratchSlice<T>> {
        ScratchSlice::from_fn(n, |_| value)
    }

    /// `n` elements that `fill` writes.
    ///
    /// # Safety
    /// `fill` writes every element where it gives no error.
    pub(crate) unsafe fn written(
        n: usize,
        fill: impl FnOnce(&mut [MaybeUninit<T>]) -> Result<()>,
    ) -> Result<ScratchSlice<T>> {
        let memory = dense::Scratch::<T>::new(n)?;
        // SAFETY: the memory holds `n` elements and is aligned to 64 bytes; nobody else has it.
        fill(unsafe { std::slice::from_raw_parts_mut(memory.ptr().cast(), n) })?;
        Ok(ScratchSlice { memory, len: n })
    }

    /// The first element.
    pub(crate) fn ptr(&self) -> *mut T {
        self.memory.ptr()
    }
}

impl<T: Copy> Deref for ScratchSlice<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: `from_fn` wrote `len` elements, and the block is owned by `self`.
        unsafe { std::slice::from_raw_parts(self.ptr(), self.len) }
    }
}

impl<T: Copy> DerefMut for ScratchSlice<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`, and `&mut self` is the only access.
        unsafe { std::slice::from_raw_parts_mut(self.ptr(), self.len) }
    }
}
