//! Lines of adjacent numbers turned into lanes of vectors, and back.

use crate::simd::{Vector, Vectors};

use super::stages::Wide;

crate::multiversion! {
    /// How many lines a vector has.
    pub(super) fn lanes<A, T: Vectors>() -> usize {
        Wide::<A, T>::N
    }

    /// Transposes lines, one for each lane, of `count` adjacent numbers: vector `i` gets number `i` of all.
    ///
    /// # Safety
    /// The numbers are there, and `to` has room for `count` vectors.
    pub(super) unsafe fn transpose_in<A, T: Vectors>(lines: &[*const T], count: usize, to: *mut T) {
        // SAFETY: the caller's promise.
        unsafe {
            let n = Wide::<A, T>::N;
            let mut i = 0;
            while i + n <= count {
                match n {
                    2 => square_in::<Wide<A, T>, 2>(lines, i, to),
                    4 => square_in::<Wide<A, T>, 4>(lines, i, to),
                    8 => square_in::<Wide<A, T>, 8>(lines, i, to),
                    _ => square_in::<Wide<A, T>, 16>(lines, i, to),
                }
                i += n;
            }
            while i < count {
                for l in 0..n {
                    *to.add(i * n + l) = *lines[l].add(i);
                }
                i += 1;
            }
        }
    }

    /// The other way, for as many lines as there are.
    ///
    /// # Safety
    /// As for [`transpose_in`].
    pub(super) unsafe fn transpose_out<A, T: Vectors>(from: *const T, count: usize, lines: &[*mut T]) {
        // SAFETY: the caller's promise.
        unsafe {
            let n = Wide::<A, T>::N;
            let mut i = 0;
            while i + n <= count {
                match n {
                    2 => square_out::<Wide<A, T>, 2>(from, i, lines),
                    4 => square_out::<Wide<A, T>, 4>(from, i, lines),
                    8 => square_out::<Wide<A, T>, 8>(from, i, lines),
                    _ => square_out::<Wide<A, T>, 16>(from, i, lines),
                }
                i += n;
            }
            while i < count {
                for l in 0..lines.len() {
                    *lines[l].add(i) = *from.add(i * n + l);
                }
                i += 1;
            }
        }
    }
}

/// # Safety
/// A square of numbers is there from `i` on.
#[inline(always)]
unsafe fn square_in<V: Vector, const K: usize>(lines: &[*const V::T], i: usize, to: *mut V::T) {
    // SAFETY: the caller's promise.
    unsafe {
        let rows: [V; K] = std::array::from_fn(|l| V::load(lines[l].add(i)));
        for (j, v) in V::transpose::<K>(rows).into_iter().enumerate() {
            v.store(to.add((i + j) * K));
        }
    }
}

/// # Safety
/// A square of numbers is there from `i` on.
#[inline(always)]
unsafe fn square_out<V: Vector, const K: usize>(from: *const V::T, i: usize, lines: &[*mut V::T]) {
    // SAFETY: the caller's promise.
    unsafe {
        let rows: [V; K] = std::array::from_fn(|j| V::load(from.add((i + j) * K)));
        let columns = V::transpose::<K>(rows);
        for (column, line) in columns.into_iter().zip(lines) {
            column.store(line.add(i));
        }
    }
}
