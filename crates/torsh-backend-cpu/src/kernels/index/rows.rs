//! Gathers of whole rows: `index_select`, `embedding` and indexing by leading dimensions.
//!
//! The rows lie anywhere, so what such a copy waits for is memory: rows are fetched some time
//! before they are copied, and results too large for the caches are written past them.
//!
//! Intrinsics: Rows are copied as bytes of a cache line, whatever their elements are.

use torsh_core::pool;

use super::GRAIN;
use super::choose::GatherAlgorithm;
use super::positions::Offsets;
use super::walk::{IndexPtr, IndexWalk};
use crate::kernels::copy::copy_row;
use crate::machine::tuning::index_rows::{AHEAD, FETCHED, LINES, NEAR, PART};
use crate::memory::blocks::{backwards, from_the_end};
use crate::memory::stream;
use crate::simd::{Level, level};

/// `dense[row] = indexed[index[row]]` by an algorithm that copies rows; the innermost dimension is a
/// row that both sides hold in one piece ([`Along::Row`](super::choose::Along::Row)).
///
/// # Safety
/// The pointers must be valid for the walk over the dense side, the indexed side and the index,
/// the dense side for disjoint writes. There are elements.
pub(super) unsafe fn get<T: Copy>(
    walk: &IndexWalk<3>,
    dense: IndexPtr<T>,
    indexed: IndexPtr<T>,
    at: Offsets,
    algorithm: GatherAlgorithm,
) {
    let (n, _) = walk.inner();
    let bytes = n * size_of::<T>();
    let rows = walk.without_innermost();
    let streams = algorithm == GatherAlgorithm::RowsStreamed;
    let places = algorithm == GatherAlgorithm::RowsAndPlaces;
    let ahead = (if places { NEAR } else { AHEAD } / bytes).clamp(1, 32);
    let lines = lines(bytes);
    let fetch = stream::prefetch_far();
    let back = backwards(rows.numel() * n);
    let some = |range| {
        rows.run(range, |[d, s, i], count, [ds, ss, is]| {
            // SAFETY: the walk stays within the operands, and the index was checked.
            let row = |j: isize| unsafe { indexed.at(s + j * ss + at.offset(i + j * is)) };
            for j in 0..count.min(ahead) {
                fetch(row(j as isize).cast(), bytes.min(FETCHED));
            }
            for j in 0..count {
                if j + ahead < count {
                    let next = (j + ahead) as isize;
                    fetch(row(next).cast(), bytes.min(FETCHED));
                    if places {
                        // SAFETY: as above.
                        let to = unsafe { dense.at(d + next * ds) };
                        stream::prefetch_write_row(to.cast::<u8>(), bytes.min(FETCHED));
                    }
                }
                let j = j as isize;
                // SAFETY: as above; both rows have `n` elements.
                unsafe {
                    let to = dense.at(d + j * ds).cast::<u8>();
                    let from = row(j).cast::<u8>();
                    if streams {
                        stream::copy(from, to, bytes);
                    } else if lines {
                        copy_lines(from, to, bytes);
                    } else {
                        copy_row(from, to, bytes);
                    }
                }
            }
        });
    };
    pool::parallel_for(rows.numel(), (GRAIN / n).max(1), &|range| {
        let part = if back {
            (PART / bytes).max(1)
        } else {
            usize::MAX
        };
        from_the_end(range, part, some);
        if streams {
            stream::fence();
        }
    });
}

/// `indexed[index[row]] = f(what is there, dense[row])` in order, on the calling thread. The
/// innermost dimension is a row that both sides hold in one piece.
///
/// # Safety
/// The pointers must be valid for the walk over the dense side, the indexed side and the index; no
/// other thread may write its elements.
pub(super) unsafe fn update<T: Copy>(
    walk: &IndexWalk<3>,
    dense: IndexPtr<T>,
    indexed: IndexPtr<T>,
    at: Offsets,
    f: impl Fn(T, T) -> T + Copy,
) {
    let (n, _) = walk.inner();
    let bytes = n * size_of::<T>();
    let ahead = (AHEAD / bytes).clamp(1, 32);
    let fetch = stream::prefetch_far();
    walk.without_innermost()
        .all(|[d, s, i], count, [ds, ss, is]| {
            // SAFETY: the walk stays within the operands, and the index was checked.
            let row = |j: isize| unsafe { indexed.at(s + j * ss + at.offset(i + j * is)) };
            for j in 0..count {
                if j + ahead < count {
                    fetch(row((j + ahead) as isize).cast(), bytes.min(FETCHED));
                }
                let j = j as isize;
                // SAFETY: as above; both rows have `n` elements.
                unsafe { update_row(row(j), dense.at(d + j * ds), n, f) };
            }
        });
}

/// `to[j] = f(to[j], from[j])`.
///
/// # Safety
/// Both must be valid for `n` elements and not overlap.
#[inline(always)]
pub(super) unsafe fn update_row<T: Copy>(
    to: *mut T,
    from: *const T,
    n: usize,
    f: impl Fn(T, T) -> T,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let (to, from) = (
            std::slice::from_raw_parts_mut(to, n),
            std::slice::from_raw_parts(from, n),
        );
        for (to, &from) in to.iter_mut().zip(from) {
            *to = f(*to, from);
        }
    }
}

/// Whether rows of so many bytes are for [`copy_lines`].
fn lines(bytes: usize) -> bool {
    cfg!(target_arch = "x86_64")
        && level() == Level::Avx512
        && bytes.is_multiple_of(stream::LINE)
        && bytes <= LINES
}

/// A copy of some cache lines, with one store each.
///
/// # Safety
/// As for [`copy_row`]; [`lines`] must hold of `n`.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn copy_lines(from: *const u8, to: *mut u8, n: usize) {
    use std::arch::x86_64::{_mm512_loadu_si512, _mm512_storeu_si512};
    for k in (0..n).step_by(stream::LINE) {
        // SAFETY: the caller's promise.
        unsafe { _mm512_storeu_si512(to.add(k).cast(), _mm512_loadu_si512(from.add(k).cast())) };
    }
}

#[cfg(not(target_arch = "x86_64"))]
unsafe fn copy_lines(from: *const u8, to: *mut u8, n: usize) {
    // SAFETY: the caller's promise.
    unsafe { copy_row(from, to, n) }
}
