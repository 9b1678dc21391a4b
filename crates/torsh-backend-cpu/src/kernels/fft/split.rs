//! A long line as a matrix of `rows` by `columns` numbers.
//!
//! The columns are transformed in lanes, each number is turned by its factor, and the rows are transformed in lanes:
//! a row's lane becomes a column of the result, so that nothing is transposed on its own. Each pass reads and writes
//! the line once, and threads share its blocks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use torsh_core::attrs::FftKind;
use torsh_core::{Result, TorshError, pool};

use super::half_spectrum;
use super::line::Spec;
use super::plans::{FftReal, SplitPlan, split_plan};
use super::stages::{FftPrefetch, TransformSide, Turn, has_radices};
use super::transposition::{lanes, transpose_in};
use crate::machine::tuning::{self, fft::LANES_BYTES, fft::POINT};
use crate::memory::dense::{Ptr, Scratch};

/// The most lanes of any vector.
pub(super) const MOST: usize = 16;

/// Rows and columns of the matrix for a length, as near to each other as can be.
pub(super) fn sides(n: usize) -> Option<[usize; 2]> {
    if !has_radices(n) {
        return None;
    }
    let most = LANES_BYTES / size_of::<f32>();
    let root = n.isqrt();
    let rows = (MOST..=root).rev().find(|&r| n.is_multiple_of(r))?;
    let columns = n / rows;
    // Both have more than one stage.
    (rows >= 2 * MOST && columns <= most).then_some([rows, columns])
}

/// Where blocks of `width` of `n` columns begin; the last one may lie over a part of the one before.
pub(super) fn blocks(n: usize, width: usize) -> impl Iterator<Item = usize> {
    (0..n.div_ceil(width)).map(move |b| (b * width).min(n - width))
}

/// The transform of a line whose numbers are adjacent.
pub(super) struct SplitTransform<T> {
    spec: Spec,
    sides: [usize; 2],
    plan: Arc<SplitPlan<T>>,
}

impl<T: FftReal> SplitTransform<T> {
    /// For a line that is complex, or real with an even length.
    pub(super) fn new(spec: Spec) -> Option<SplitTransform<T>> {
        let sides = sides(spec.points())?;
        let plan = split_plan(sides, spec.halved(), spec.inverse);
        Some(SplitTransform { spec, sides, plan })
    }

    /// Transforms a line.
    ///
    /// # Safety
    /// `from` and `to` have the line's elements; they may be the same.
    pub(super) unsafe fn run(&self, from: Ptr<T>, to: Ptr<T>) -> Result<()> {
        let spec = &self.spec;
        let work = Scratch::<T>::new(2 * spec.points())?;
        let between = Ptr::new(work.ptr());
        let g = spec.halves(&self.plan.twiddles);
        let (pairs, twiddles) = (g.pairs(), Ptr::new(g.twiddles.cast_mut()));
        let g = move || half_spectrum::Halves {
            twiddles: twiddles.get(),
            ..spec.halves::<T>(&[])
        };
        let grain = tuning::grain(16 * POINT);
        // SAFETY: the caller's promise; the scratch memory has the points. Threads have ranges of their own.
        unsafe {
            match spec.kind {
                FftKind::Complex => self.matrix(from, between, to, T::c(spec.scale)),
                FftKind::FromReal => {
                    self.matrix(from, between, to, T::ONE)?;
                    pool::parallel_for(pairs, grain, &|r| {
                        half_spectrum::spectrum_of_line(&g(), to.get(), r.start, r.end);
                    });
                    if g().whole {
                        half_spectrum::other_half(to.get(), spec.n / 2);
                    }
                    Ok(())
                }
                FftKind::ToReal => {
                    pool::parallel_for(pairs, grain, &|r| {
                        half_spectrum::pairs_of_line(&g(), from.get(), to.get(), r.start, r.end);
                    });
                    self.matrix(to, between, to, T::ONE)
                }
            }
        }
    }

    /// The complex transform, by way of other memory.
    ///
    /// # Safety
    /// All three have the points; `between` is apart from the others.
    unsafe fn matrix(&self, from: Ptr<T>, between: Ptr<T>, to: Ptr<T>, scale: T) -> Result<()> {
        let ([rows, columns], width) = (self.sides, lanes::<T>());
        let inverse = self.spec.inverse;
        let failed = AtomicBool::new(false);
        let memory = |points: usize| match Scratch::<T>::new(4 * width * points) {
            Ok(memory) => Some(memory),
            Err(_) => {
                failed.store(true, Ordering::Relaxed);
                None
            }
        };
        let grain = |points: usize| tuning::grain(POINT * width * points * 10);
        // A last block that lies over a part of the one before is the same thread's: it follows it in its unit.
        let starts = |n: usize, unit: usize| {
            let last = unit + 1 == n / width && !n.is_multiple_of(width);
            [Some(unit * width), last.then_some(n - width)]
                .into_iter()
                .flatten()
        };
        // SAFETY: the caller's promise; blocks are within the matrix, and the factors are there for each.
        unsafe {
            pool::parallel_for(columns / width, grain(rows), &|units| {
                let Some(work) = memory(rows) else { return };
                let buffers = [work.ptr(), work.ptr().add(2 * width * rows)];
                for first in units.flat_map(|u| starts(columns, u)) {
                    let at = 2 * first as isize;
                    let turn = Turn {
                        lanes: self.plan.lanes.as_ptr(),
                        block: self
                            .plan
                            .blocks
                            .as_ptr()
                            .add(2 * rows * first.div_ceil(width)),
                    };
                    self.plan.columns.stages.run(
                        TransformSide::columns(from.at(at), columns as isize),
                        Some(TransformSide::columns(between.at(at), columns as isize)),
                        buffers,
                        inverse,
                        T::ONE,
                        Some(turn),
                        [
                            FftPrefetch::columns(between.at(at), 2 * columns as isize),
                            FftPrefetch::columns(
                                from.at(at + 2 * width as isize),
                                2 * columns as isize,
                            ),
                        ],
                    );
                }
            });
            pool::parallel_for(rows / width, grain(columns), &|units| {
                let Some(work) = memory(columns) else { return };
                let buffers = [work.ptr(), work.ptr().add(2 * width * columns)];
                for first in units.flat_map(|u| starts(rows, u)) {
                    let mut lines = [std::ptr::null(); MOST];
                    for (lane, line) in lines[..width].iter_mut().enumerate() {
                        *line = between
                            .at((2 * (first + lane) * columns) as isize)
                            .cast_const();
                    }
                    transpose_in(&lines[..width], 2 * columns, buffers[0]);
                    self.plan.rows.stages.run(
                        TransformSide::buffer(buffers[0], width),
                        Some(TransformSide::columns(
                            to.at(2 * first as isize),
                            rows as isize,
                        )),
                        buffers,
                        inverse,
                        scale,
                        None,
                        [
                            FftPrefetch::columns(to.at(2 * first as isize), 2 * rows as isize),
                            FftPrefetch::lines(
                                between.at((2 * (first + width) * columns) as isize),
                                2 * columns as isize,
                                width,
                            ),
                        ],
                    );
                }
            });
        }
        match failed.into_inner() {
            true => Err(TorshError::out_of_memory(torsh_core::Device::Cpu, 0)),
            false => Ok(()),
        }
    }
}
