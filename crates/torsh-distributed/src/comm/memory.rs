//! Memory of operations under way: scratch, and the storages of tensors.

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use torsh_core::HeldStorage;
use torsh_tensor::{DType, Device, Result, Shared, Storage, TorshError};

use crate::engine::Part;
use crate::reduce::{self, ReduceOp};

/// Bytes that operations use, and what keeps them alive.
///
/// Only the communication thread has one. An operation in flight keeps a copy, so that its memory outlives it.
#[derive(Clone)]
pub(crate) struct Memory {
    ptr: *mut u8,
    bytes: usize,
    keep: Keep,
}

#[derive(Clone)]
enum Keep {
    /// Nothing: memory of 0 bytes, or of a rank that only counts the traffic.
    Nothing,
    Scratch {
        _keep: Rc<Scratch>,
    },
    Held {
        _keep: Rc<HeldStorage>,
    },
}

impl Memory {
    /// No bytes, or bytes that are counted and never touched.
    pub(crate) fn nothing(bytes: usize) -> Memory {
        Memory {
            ptr: std::ptr::null_mut(),
            bytes,
            keep: Keep::Nothing,
        }
    }

    /// A part of a storage.
    pub(crate) fn of_held(held: &Rc<HeldStorage>, start: usize, bytes: usize) -> Result<Memory> {
        if start
            .checked_add(bytes)
            .is_none_or(|end| end > held.storage().bytes())
        {
            return Err(TorshError::invalid("", "a tensor leaves its storage"));
        }
        Ok(Memory {
            ptr: held.ptr().wrapping_add(start),
            bytes,
            keep: Keep::Held {
                _keep: held.clone(),
            },
        })
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether there are bytes to read and write.
    pub(crate) fn is_present(&self) -> bool {
        !matches!(self.keep, Keep::Nothing)
    }

    /// Some of the bytes. The range is cut to the memory.
    pub(crate) fn at(&self, start: usize, bytes: usize) -> Memory {
        let start = start.min(self.bytes);
        Memory {
            ptr: self
                .ptr
                .wrapping_add(if self.is_present() { start } else { 0 }),
            bytes: bytes.min(self.bytes - start),
            keep: self.keep.clone(),
        }
    }

    pub(crate) fn part(&self) -> Part {
        Part {
            ptr: self.ptr,
            bytes: self.bytes,
        }
    }

    /// Whether two are the same bytes.
    pub(crate) fn is_same(&self, other: &Memory) -> bool {
        self.ptr == other.ptr && self.bytes == other.bytes && self.is_present()
    }

    /// The bytes, copied.
    pub(crate) fn to_vec(&self) -> Vec<u8> {
        if !self.is_present() || self.bytes == 0 {
            return vec![0; self.bytes];
        }
        // SAFETY: as in `copy_from`.
        unsafe { std::slice::from_raw_parts(self.ptr, self.bytes) }.to_vec()
    }

    /// Eight bytes from a place on, as a number; 0 where there are none.
    pub(crate) fn word(&self, start: usize) -> u64 {
        if !self.is_present() || self.bytes < start.saturating_add(8) {
            return 0;
        }
        // SAFETY: the bytes are within the memory; otherwise as in `copy_from`.
        unsafe { self.ptr.add(start).cast::<u64>().read_unaligned() }
    }

    /// Copies bytes from `from`, as many as both have. Nothing happens where there is no memory.
    pub(crate) fn copy_from(&self, from: &Memory) {
        let bytes = self.bytes.min(from.bytes);
        if bytes > 0 && self.is_present() && from.is_present() {
            // SAFETY: both lie within scratch or a held storage, which `keep` keeps; this thread alone uses them, and no
            // request in flight does (the operations wait for their requests first). They may overlap.
            unsafe { std::ptr::copy(from.ptr, self.ptr, bytes) };
        }
    }

    /// Writes bytes from a place on.
    pub(crate) fn write(&self, start: usize, from: &[u8]) {
        let to = self.at(start, from.len());
        if to.bytes > 0 && to.is_present() {
            // SAFETY: as in `copy_from`; `from` is other memory.
            unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to.ptr, to.bytes) };
        }
    }

    /// Copies row-major elements to elements with strides, from element `offset` of this memory on.
    pub(crate) fn scatter_elements(
        &self,
        from: &Memory,
        shape: &[usize],
        strides: &[isize],
        offset: usize,
        size: usize,
    ) {
        if !self.is_present() || !from.is_present() || shape.contains(&0) {
            return;
        }
        // The last dimension that is dense is copied in runs.
        let (outer, run) = match (shape.split_last(), strides.split_last()) {
            (Some((&n, outer)), Some((1, _))) => (outer, n),
            _ => (shape, 1),
        };
        let mut index = vec![0usize; outer.len()];
        let mut read = 0;
        loop {
            let place = index
                .iter()
                .zip(strides)
                .fold(offset as isize, |p, (&i, &s)| p + i as isize * s);
            if let Ok(place) = usize::try_from(place) {
                self.at(place * size, run * size)
                    .copy_from(&from.at(read, run * size));
            }
            read += run * size;
            let Some(d) = (0..outer.len()).rev().find(|&d| index[d] + 1 < outer[d]) else {
                return;
            };
            index[d] += 1;
            index[d + 1..].fill(0);
        }
    }

    /// Reduces memories of as many bytes in their order; `None` stands for what `self` holds. The result is in `self`.
    pub(crate) fn reduce(
        &self,
        op: ReduceOp,
        dtype: DType,
        inputs: &[Option<Memory>],
    ) -> Result<()> {
        let there = |m: &Option<Memory>| m.as_ref().is_none_or(Memory::is_present);
        if self.bytes == 0 || !self.is_present() || !inputs.iter().all(there) {
            return Ok(());
        }
        if inputs.iter().flatten().any(|m| m.bytes != self.bytes) {
            return Err(TorshError::shape(
                "",
                "the pieces of a reduction differ in size",
            ));
        }
        let slices: Vec<Option<&[u8]>> = inputs
            .iter()
            .map(|m| {
                // SAFETY: as in `copy_from`; the inputs are apart from `self`, whose own values are given as `None`.
                m.as_ref()
                    .map(|m| unsafe { std::slice::from_raw_parts(m.ptr.cast_const(), m.bytes) })
            })
            .collect();
        // SAFETY: as above, and this slice is the only one of these bytes.
        let out = unsafe { std::slice::from_raw_parts_mut(self.ptr, self.bytes) };
        reduce::fold(op, dtype, &slices, out)
    }
}

impl Memory {
    /// Divides elements by a number of ranks.
    pub(crate) fn divide(&self, dtype: DType, n: usize) -> Result<()> {
        if self.bytes == 0 || !self.is_present() {
            return Ok(());
        }
        // SAFETY: as in `reduce`.
        let out = unsafe { std::slice::from_raw_parts_mut(self.ptr, self.bytes) };
        reduce::divide(dtype, n, out)
    }
}

/// The most bytes of scratch kept for the next operations.
const MOST_KEPT: usize = 64 << 20;

/// Scratch that was used before, by size.
#[derive(Default)]
pub(crate) struct Pool {
    free: RefCell<Vec<Box<[u64]>>>,
}

/// Memory of the communication thread's own.
struct Scratch {
    memory: RefCell<Box<[u64]>>,
    pool: Weak<Pool>,
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let Some(pool) = self.pool.upgrade() else {
            return;
        };
        let mut free = pool.free.borrow_mut();
        let memory = std::mem::take(&mut *self.memory.borrow_mut());
        let kept: usize = free.iter().map(|m| m.len() * 8).sum();
        if kept + memory.len() * 8 <= MOST_KEPT && free.len() < 256 {
            free.push(memory);
        }
    }
}

impl Pool {
    /// Memory with any content.
    pub(crate) fn get(self: &Rc<Pool>, bytes: usize) -> Memory {
        if bytes == 0 {
            return Memory::nothing(0);
        }
        // Sizes are rounded up, so that others fit again.
        let words =
            bytes
                .div_ceil(8)
                .next_multiple_of(if bytes > 1 << 20 { 1 << 15 } else { 1 << 7 });
        let found = {
            let mut free = self.free.borrow_mut();
            let fits = |words_of: usize| words_of >= words && words_of <= 2 * words;
            free.iter()
                .rposition(|m| fits(m.len()))
                .map(|i| free.swap_remove(i))
        };
        let memory = found.unwrap_or_else(|| vec![0; words].into_boxed_slice());
        let scratch = Rc::new(Scratch {
            memory: RefCell::new(memory),
            pool: Rc::downgrade(self),
        });
        let ptr = scratch.memory.borrow_mut().as_mut_ptr().cast();
        Memory {
            ptr,
            bytes,
            keep: Keep::Scratch { _keep: scratch },
        }
    }
}

/// The storages that operations under way hold, which share them.
#[derive(Default)]
pub(crate) struct Holds {
    held: RefCell<Vec<(usize, Weak<HeldStorage>)>>,
}

impl Holds {
    /// Holds all storages (`true` for writing), or none: `None` if one of them is in use. Holding some while waiting for
    /// others could wait for ever for a thread that waits likewise.
    pub(crate) fn try_all(
        &self,
        storages: &[(&Shared<Storage>, bool)],
    ) -> Result<Option<Vec<Rc<HeldStorage>>>> {
        let mut all: Vec<Rc<HeldStorage>> = Vec::with_capacity(storages.len());
        for (storage, _) in storages {
            let address = Shared::as_ptr(storage) as usize;
            let same = |s: &Shared<Storage>| Shared::ptr_eq(s, storage);
            if let Some(held) = all.iter().find(|h| same(h.storage())) {
                all.push(held.clone());
                continue;
            }
            let exclusive = storages.iter().any(|(s, write)| *write && same(s));
            let shared = {
                let mut held = self.held.borrow_mut();
                held.retain(|(_, w)| w.strong_count() > 0);
                let found = held.iter().find(|(a, _)| *a == address);
                found.and_then(|(_, w)| w.upgrade())
            };
            match shared {
                Some(held) if held.is_exclusive() || !exclusive => all.push(held),
                // It is read by an operation under way: this one starts when that is done.
                Some(_) => return Ok(None),
                None => {
                    if storage.device() != Device::Cpu || storage.is_released() {
                        return Err(TorshError::invalid(
                            "",
                            "the memory of an operand was given back",
                        )
                        .with_hint("gather the whole values of a sharded parameter first"));
                    }
                    let Some(new) = HeldStorage::try_new(storage, exclusive) else {
                        return Ok(None);
                    };
                    let new = Rc::new(new);
                    let entry = (address, Rc::downgrade(&new));
                    self.held.borrow_mut().push(entry);
                    all.push(new);
                }
            }
        }
        Ok(Some(all))
    }
}
