//! Temporary memory of a kernel.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use torsh_core::alloc::{Block, allocate};
use torsh_core::{Result, TorshError};

/// `n` initialised elements from the caching allocator.
pub(crate) struct Scratch<T: Copy> {
    block: Block,
    len: usize,
    _elements: PhantomData<T>,
}

impl<T: Copy> Scratch<T> {
    /// `n` elements, the `i`-th being `f(i)`.
    pub(crate) fn from_fn(n: usize, mut f: impl FnMut(usize) -> T) -> Result<Scratch<T>> {
        let bytes = n
            .checked_mul(std::mem::size_of::<T>())
            .ok_or_else(|| TorshError::out_of_memory(torsh_core::Device::Cpu, usize::MAX))?;
        let block = allocate(bytes)?;
        let p = block.ptr().as_ptr().cast::<T>();
        for i in 0..n {
            // SAFETY: the block holds `n` elements and is aligned to 64 bytes.
            unsafe { p.add(i).write(f(i)) };
        }
        Ok(Scratch {
            block,
            len: n,
            _elements: PhantomData,
        })
    }

    /// `n` equal elements.
    pub(crate) fn filled(n: usize, value: T) -> Result<Scratch<T>> {
        Scratch::from_fn(n, |_| value)
    }

    /// The first element.
    pub(crate) fn ptr(&self) -> *mut T {
        self.block.ptr().as_ptr().cast()
    }
}

/// Room for elements that a kernel writes before it reads them.
pub(crate) struct Room<T> {
    block: Block,
    _elements: PhantomData<T>,
}

impl<T: Copy> Room<T> {
    /// Room for `n` elements.
    pub(crate) fn new(n: usize) -> Result<Room<T>> {
        let bytes = n
            .checked_mul(std::mem::size_of::<T>())
            .ok_or_else(|| TorshError::out_of_memory(torsh_core::Device::Cpu, usize::MAX))?;
        let block = allocate(bytes)?;
        Ok(Room {
            block,
            _elements: PhantomData,
        })
    }

    /// The first element.
    pub(crate) fn ptr(&self) -> *mut T {
        self.block.ptr().as_ptr().cast()
    }
}

impl<T: Copy> Deref for Scratch<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: `from_fn` wrote `len` elements, and the block is owned by `self`.
        unsafe { std::slice::from_raw_parts(self.ptr(), self.len) }
    }
}

impl<T: Copy> DerefMut for Scratch<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`, and `&mut self` is the only access.
        unsafe { std::slice::from_raw_parts_mut(self.ptr(), self.len) }
    }
}
