//! Reductions of many elements into few places, as a histogram's.
//!
//! The elements are cut into a fixed number of parts, each reduced into places of its own, which
//! are then joined in order: what comes out does not depend on the number of threads.

use std::sync::atomic::{AtomicBool, Ordering};

use torsh_core::{Result, pool};

use super::ScratchSlice;
use super::positions::Offsets;
use super::walk::IndexPtr;
use crate::machine::tuning::index::{BLOCK, PARTS};

/// The copies of the places then.
const LANES: usize = 4;

/// The elements of one operand and how they are met.
#[derive(Clone, Copy)]
pub(super) struct Elements<T> {
    pub(super) first: IndexPtr<T>,
    pub(super) step: isize,
    pub(super) n: usize,
    pub(super) index: Offsets,
    pub(super) index_step: isize,
}

/// The elements reduced with `f`, which is associative but for rounding: for each place the
/// partial results in the order in which they are to be joined. `None` where an index value is
/// out of bounds. `spread` gives each part several copies of the places, to which neighbours go in turn:
/// an element that goes where the last one went would wait for it.
///
/// # Safety
/// The elements and the index must be valid; the index's step must be 1.
pub(super) unsafe fn reduce<T: Copy + Send + Sync>(
    from: Elements<T>,
    places: usize,
    spread: bool,
    identity: T,
    f: impl Fn(T, T) -> T + Sync + Copy,
) -> Result<Option<Partial<T>>> {
    let lanes = if spread { LANES } else { 1 };
    let values = ScratchSlice::filled(PARTS * lanes * places, identity)?;
    let to = IndexPtr::new(values.ptr());
    let bad = AtomicBool::new(false);
    pool::parallel_for(PARTS, 1, &|parts| {
        for part in parts {
            let (start, end) = (part * from.n / PARTS, (part + 1) * from.n / PARTS);
            let own = (part * lanes * places) as isize;
            for at in (start..end).step_by(BLOCK) {
                let n = BLOCK.min(end - at);
                let i = at as isize * from.index_step;
                // SAFETY: the caller's promise; values are used once they were checked.
                unsafe {
                    if !from.index.within(i, from.index_step, n, places) {
                        bad.store(true, Ordering::Relaxed);
                        return;
                    }
                    let from = Elements {
                        first: IndexPtr::new(from.first.at(at as isize * from.step)),
                        n,
                        ..from
                    };
                    if lanes == 1 {
                        add::<T, 1>(from, i, to.at(own), places, f);
                    } else {
                        add::<T, LANES>(from, i, to.at(own), places, f);
                    }
                }
            }
        }
    });
    if bad.into_inner() {
        return Ok(None);
    }
    let copies = PARTS * lanes;
    Ok(Some(Partial {
        values,
        places,
        copies,
    }))
}

/// # Safety
/// The elements must be valid, and `L` copies of the places be at `to`.
#[inline(always)]
unsafe fn add<T: Copy, const L: usize>(
    from: Elements<T>,
    i: isize,
    to: *mut T,
    places: usize,
    f: impl Fn(T, T) -> T,
) {
    let (src, ds, is, n, index) = (from.first, from.step, from.index_step, from.n, from.index);
    let whole = n / LANES * LANES;
    // SAFETY: the caller's promise.
    unsafe {
        if let (Some(values), 1, 1) = (index.plain(), ds, is) {
            let (values, src) = (values.at(i), src.at(0));
            for j in (0..whole).step_by(LANES) {
                add_some::<T, L>(
                    to,
                    places,
                    |k| (*values.add(j + k) as isize, *src.add(j + k)),
                    &f,
                );
            }
        } else {
            for j in (0..whole).step_by(LANES) {
                let one = |k: usize| {
                    let k = (j + k) as isize;
                    (index.offset(i + k * is), *src.at(k * ds))
                };
                add_some::<T, L>(to, places, one, &f);
            }
        }
        for j in whole as isize..n as isize {
            let to = to.offset(index.offset(i + j * is));
            *to = f(*to, *src.at(j * ds));
        }
    }
}

/// Takes in [`LANES`] elements, each a place and what goes there. All are read before any is written:
/// what is written might be what is read next.
///
/// # Safety
/// The places must be valid in all `L` copies at `to`.
#[inline(always)]
unsafe fn add_some<T: Copy, const L: usize>(
    to: *mut T,
    places: usize,
    one: impl Fn(usize) -> (isize, T),
    f: &impl Fn(T, T) -> T,
) {
    let some = [one(0), one(1), one(2), one(3)];
    for lane in 0..LANES {
        let (at, new) = some[lane];
        // SAFETY: the caller's promise.
        unsafe {
            let to = to.add(lane % L * places).offset(at);
            *to = f(*to, new);
        }
    }
}

/// Partial results per place.
pub(super) struct Partial<T: Copy> {
    values: ScratchSlice<T>,
    places: usize,
    copies: usize,
}

impl<T: Copy> Partial<T> {
    /// Joins what is at each place of `to` with the partial results, in order.
    ///
    /// # Safety
    /// The places must be valid at this step.
    pub(super) unsafe fn join(&self, to: IndexPtr<T>, step: isize, f: impl Fn(T, T) -> T) {
        for place in 0..self.places {
            // SAFETY: the caller's promise.
            unsafe {
                let to = to.at(place as isize * step);
                for copy in 0..self.copies {
                    *to = f(*to, self.values[copy * self.places + place]);
                }
            }
        }
    }
}
