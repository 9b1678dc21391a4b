//! The hidden state's product for a few sequences: its right operand is packed once, and all steps of
//! some sequences are one thread's, so that no step waits for another thread.

use std::ops::Range;

use torsh_core::{Result, pool};

use super::RnnCall;
use super::choose::{RnnAlgorithm, RnnProblem};
use crate::kernels::panels::{
    CausalBand, MatrixRows, PanelProduct, Panels, pack_columns, pack_rows,
};
use crate::machine::choice::pick;
use crate::machine::tuning::rnn::{FORK, SEQUENCES, TERMS};
use crate::memory::dense::{Ptr, Scratch};
use crate::simd::level;

/// The sequences of each thread, about as many steps for each; `None` where each step's product is
/// shared instead of the sequences.
pub(super) fn shares(
    call: &RnnCall,
    batch: usize,
    weight: [usize; 2],
    projected: bool,
    backward: bool,
) -> Option<Vec<Range<usize>>> {
    let all: usize = call.steps.iter().map(|s| s.0).sum();
    let problem = RnnProblem {
        backward,
        batch,
        rows: all,
        weight,
        projected,
    };
    if pick::<RnnAlgorithm>(&problem, pool::num_threads()) == RnnAlgorithm::Steps {
        return None;
    }
    let few = all.saturating_mul(weight[0] * weight[1]) < FORK;
    let parts = match few || pool::in_parallel() {
        true => 1,
        false => pool::num_threads().min(batch / SEQUENCES).max(1),
    };
    let steps = |i: usize| call.steps.iter().filter(|s| s.0 > i).count();
    let mut shares = Vec::with_capacity(parts);
    let (mut first, mut done) = (0, 0);
    for i in 0..batch {
        done += steps(i);
        let enough = done * parts >= all * (shares.len() + 1);
        if (enough && shares.len() + 1 < parts) || i + 1 == batch {
            shares.push(first..i + 1);
            first = i + 1;
        }
    }
    Some(shares)
}

/// A right operand in panels.
pub(super) struct PackedWeight<T> {
    panels: Scratch<T>,
    terms: usize,
    columns: usize,
    width: usize,
}

impl<T: Panels> PackedWeight<T> {
    /// The row-major matrix of so many terms and columns.
    pub fn new(from: Ptr<T>, [terms, columns]: [usize; 2]) -> Result<PackedWeight<T>> {
        let packed = PackedWeight::room([terms, columns])?;
        let rows = MatrixRows {
            from: from.get().cast_const(),
            steps: [columns as isize, 1],
            sizes: [terms, columns],
            factor: T::ONE,
            factors: std::ptr::null(),
        };
        // SAFETY: the matrix is there, and so is the room.
        unsafe { pack_columns(&rows, packed.width, packed.panels.ptr()) };
        Ok(packed)
    }

    /// The transpose of a row-major matrix.
    pub fn transposed(from: Ptr<T>, [terms, columns]: [usize; 2]) -> Result<PackedWeight<T>> {
        let packed = PackedWeight::room([terms, columns])?;
        // SAFETY: as above.
        unsafe {
            let (from, steps) = (from.get().cast_const(), [terms as isize, 1]);
            let sizes = [columns, terms];
            pack_rows(from, steps, sizes, packed.width, packed.panels.ptr());
        }
        Ok(packed)
    }

    fn room([terms, columns]: [usize; 2]) -> Result<PackedWeight<T>> {
        let width = T::width(level());
        Ok(PackedWeight {
            panels: Scratch::new(terms * columns.next_multiple_of(width))?,
            terms,
            columns,
            width,
        })
    }

    /// Numbers that [`PackedWeight::times`] needs beside its operands for so many rows.
    pub fn beside(&self, rows: usize) -> usize {
        match self.columns.is_multiple_of(self.width) {
            true => 0,
            false => rows * self.columns.next_multiple_of(self.width),
        }
    }

    /// `out = a b` or `out += a b` for adjacent rows `a` and rows `step` apart of `out`.
    ///
    /// # Safety
    /// The operands must have the rows, `beside` what [`PackedWeight::beside`] says.
    pub unsafe fn times(
        &self,
        a: *const T,
        rows: usize,
        out: *mut T,
        step: usize,
        add: bool,
        beside: *mut T,
    ) {
        if rows == 0 {
            return;
        }
        let whole = self.columns.is_multiple_of(self.width);
        let (c, ld) = match whole {
            true => (out, step),
            false => (beside, self.columns.next_multiple_of(self.width)),
        };
        for first in (0..self.terms).step_by(TERMS) {
            let product = PanelProduct {
                m: rows,
                n: self.columns,
                k: TERMS.min(self.terms - first),
                a: a.wrapping_add(first),
                steps: [self.terms as isize, 1],
                b: self
                    .panels
                    .ptr()
                    .wrapping_add(first * self.width)
                    .cast_const(),
                right: [self.terms * self.width, self.width],
                c,
                ld,
                add: first > 0 || (add && whole),
                band: CausalBand::All,
            };
            // SAFETY: the caller's promise.
            unsafe { <T as Panels>::product(&product) };
        }
        if whole {
            return;
        }
        for r in 0..rows {
            let (from, to) = (c.wrapping_add(r * ld), out.wrapping_add(r * step));
            for i in 0..self.columns {
                // SAFETY: as above.
                unsafe {
                    let v = *from.wrapping_add(i);
                    let old = if add { *to.wrapping_add(i) } else { T::ZERO };
                    *to.wrapping_add(i) = old + v;
                }
            }
        }
    }
}
