//! The walk behind every gather and scatter.

use torsh_core::attrs::ScatterReduction as Reduce;
use torsh_core::pool;

use super::GRAIN;
use super::choose::{Along, GatherAlgorithm, GatherProblem, ScatterAlgorithm, ScatterProblem};
use super::num::Num;
use super::positions::{Index, Offsets};
use super::rows;
use super::walk::{IndexPtr, IndexWalk, copy_run};
use crate::machine::choice::pick;
use crate::machine::tuning::index::FEW;

/// The three operands of a gather or scatter, seen with one shape.
pub(crate) struct IndexJob<'a> {
    /// The shape walked.
    pub(crate) shape: &'a [usize],
    /// Strides of the dense side: what a gather writes, what a scatter reads.
    pub(crate) dense: &'a [isize],
    /// Strides of the indexed side; 0 in indexed dimensions.
    pub(crate) indexed: &'a [isize],
    /// Strides of the index; 0 in dimensions it does not have.
    pub(crate) at: &'a [isize],
}

impl IndexJob<'_> {
    pub(crate) fn walk(&self) -> IndexWalk<3> {
        IndexWalk::new(self.shape, [self.dense, self.indexed, self.at])
    }

    /// Calls `f` on walks that together are the job and write to disjoint elements of the indexed
    /// side, each in row-major order: cut along a dimension that is not indexed, since two
    /// positions there never meet. One walk where there is no such dimension.
    fn by_lines(&self, f: impl Fn(&IndexWalk<3>) + Sync) {
        let numel: usize = self.shape.iter().product();
        let free = |d: &usize| self.indexed[*d] != 0 && self.shape[*d] > 1;
        // The outermost one that keeps all threads busy, else the longest.
        let threads = pool::num_threads();
        let dims = 0..self.shape.len();
        let cut = dims
            .clone()
            .find(|d| free(d) && self.shape[*d] >= 4 * threads)
            .or_else(|| dims.filter(free).max_by_key(|&d| self.shape[d]));
        let Some(d) = cut.filter(|_| numel > GRAIN) else {
            return f(&self.walk());
        };
        let size = self.shape[d];
        let grain = (GRAIN / (numel / size).max(1)).max(1);
        pool::parallel_for(size, grain, &|r| {
            let mut shape = self.shape.to_vec();
            shape[d] = r.len();
            let first = r.start as isize;
            let base = [
                first * self.dense[d],
                first * self.indexed[d],
                first * self.at[d],
            ];
            f(&IndexWalk::new(&shape, [self.dense, self.indexed, self.at]).starting_at(base));
        });
    }

    /// `dense[..] = indexed[.. + index]`.
    ///
    /// # Safety
    /// The pointers must be valid for the job's walk, the dense side for disjoint writes.
    pub(crate) unsafe fn get<T: Copy>(
        &self,
        dense: IndexPtr<T>,
        indexed: IndexPtr<T>,
        index: &Index<'_>,
    ) {
        let (walk, at) = (self.walk(), index.offsets());
        if walk.numel() == 0 {
            return;
        }
        let (n, _) = walk.inner();
        let problem = GatherProblem {
            size: size_of::<T>(),
            n,
            rows: walk.numel() / n,
            along: Along::of(&walk, at),
        };
        let algorithm = pick::<GatherAlgorithm>(&problem, pool::num_threads());
        // SAFETY: the walk stays within the operands, and the index was checked.
        unsafe {
            match (algorithm, at.plain()) {
                (GatherAlgorithm::Runs, _) => walk.par(GRAIN, |[d, s, i], n, [ds, ss, _]| {
                    copy_run(dense.at(d), ds, indexed.at(s + at.offset(i)), ss, n);
                }),
                (GatherAlgorithm::Offsets, Some(values)) => {
                    walk.par(GRAIN, |[d, s, i], n, _| {
                        let (dense, indexed, values) = (dense.at(d), indexed.at(s), values.at(i));
                        for j in 0..n {
                            *dense.add(j) = *indexed.offset(*values.add(j) as isize);
                        }
                    });
                }
                (GatherAlgorithm::Offsets | GatherAlgorithm::Elements, _) => {
                    walk.par(GRAIN, |[d, s, i], n, [ds, ss, is]| {
                        let (dense, indexed) = (dense.at(d), indexed.at(s));
                        for j in 0..n as isize {
                            *dense.offset(j * ds) = *indexed.offset(j * ss + at.offset(i + j * is));
                        }
                    });
                }
                (rows, _) => rows::get(&walk, dense, indexed, at, rows),
            }
        }
    }

    /// `indexed[.. + index] = f(indexed[.. + index], dense[..])`, duplicates in row-major order.
    ///
    /// # Safety
    /// The pointers must be valid for the job's walk; the indexed side must not overlap itself,
    /// nor the dense side.
    pub(crate) unsafe fn update<T: Copy>(
        &self,
        dense: IndexPtr<T>,
        indexed: IndexPtr<T>,
        index: &Index<'_>,
        f: impl Fn(T, T) -> T + Sync + Copy,
    ) {
        let at = index.offsets();
        self.by_lines(|walk| {
            let algorithm = scatter::<T>(walk, at, true);
            // SAFETY: the walk stays within the operands, the index was checked, and `by_lines` lets
            // no two threads write the same element.
            unsafe {
                match (algorithm, at.plain()) {
                    (Some(ScatterAlgorithm::Rows), _) => {
                        rows::update(walk, dense, indexed, at, f);
                    }
                    (Some(ScatterAlgorithm::Offsets), Some(values)) => {
                        walk.all(|[d, s, i], n, _| {
                            update_offsets(dense.at(d), indexed.at(s), values.at(i), n, f);
                        });
                    }
                    (Some(_), _) => walk.all(|[d, s, i], n, [ds, ss, is]| {
                        update_run([dense.at(d), indexed.at(s)], [ds, ss], at, i, is, n, f);
                    }),
                    (None, _) => {}
                }
            }
        });
    }

    /// `indexed[.. + index] = dense[..]`; of duplicates the last in row-major order stays.
    ///
    /// # Safety
    /// As [`IndexJob::update`].
    pub(crate) unsafe fn put<T: Copy>(
        &self,
        dense: IndexPtr<T>,
        indexed: IndexPtr<T>,
        index: &Index<'_>,
    ) {
        let at = index.offsets();
        self.by_lines(|walk| {
            let algorithm = scatter::<T>(walk, at, false);
            // SAFETY: as in `update`.
            unsafe {
                match (algorithm, at.plain()) {
                    (Some(ScatterAlgorithm::Runs), _) => {
                        walk.all(|[d, s, i], n, [ds, ss, _]| {
                            copy_run(indexed.at(s + at.offset(i)), ss, dense.at(d), ds, n);
                        });
                    }
                    (Some(ScatterAlgorithm::Offsets), Some(values)) => {
                        walk.all(|[d, s, i], n, _| {
                            let (from, to, offsets) = (dense.at(d), indexed.at(s), values.at(i));
                            update_offsets(from, to, offsets, n, |_, new| new);
                        });
                    }
                    (Some(_), _) => walk.all(|[d, s, i], n, [ds, ss, is]| {
                        let ends = [dense.at(d), indexed.at(s)];
                        update_run(ends, [ds, ss], at, i, is, n, |_, new| new);
                    }),
                    (None, _) => {}
                }
            }
        });
    }

    /// [`IndexJob::update`] with a reduction; a mean is only summed.
    ///
    /// # Safety
    /// As [`IndexJob::update`].
    pub(super) unsafe fn reduce<T: Num>(
        &self,
        reduce: Reduce,
        dense: IndexPtr<T>,
        indexed: IndexPtr<T>,
        index: &Index<'_>,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            match reduce {
                Reduce::Sum | Reduce::Mean => self.update(dense, indexed, index, T::add),
                Reduce::Prod => self.update(dense, indexed, index, T::mul),
                Reduce::Amax => self.update(dense, indexed, index, T::larger),
                Reduce::Amin => self.update(dense, indexed, index, T::smaller),
            }
        }
    }
}

/// The algorithm of a scatter of these elements; `None` where there are none.
fn scatter<T>(walk: &IndexWalk<3>, at: Offsets, updates: bool) -> Option<ScatterAlgorithm> {
    let (n, _) = walk.inner();
    let problem = ScatterProblem {
        size: size_of::<T>(),
        n,
        rows: walk.numel().checked_div(n)?,
        along: Along::of(walk, at),
        updates,
    };
    (problem.rows > 0).then(|| pick(&problem, pool::num_threads()))
}

/// `to[j * ss + offset(i + j * is)] = f(what is there, from[j * ds])`, in order. Everything the loop
/// reads but memory is a value of its own: read through a reference it would be read anew after
/// every write.
///
/// # Safety
/// The elements must be valid; the two sides must not overlap.
#[inline(always)]
unsafe fn update_run<T: Copy>(
    [from, to]: [*mut T; 2],
    [ds, ss]: [isize; 2],
    at: Offsets,
    i: isize,
    is: isize,
    n: usize,
    f: impl Fn(T, T) -> T,
) {
    for j in 0..n as isize {
        // SAFETY: the caller's promise.
        unsafe {
            let to = to.offset(j * ss + at.offset(i + j * is));
            *to = f(*to, *from.offset(j * ds));
        }
    }
}

/// [`update_run`] of adjacent elements to adjacent offsets.
///
/// # Safety
/// As [`update_run`].
#[inline(always)]
unsafe fn update_offsets<T: Copy>(
    from: *const T,
    to: *mut T,
    offsets: *const i64,
    n: usize,
    f: impl Fn(T, T) -> T,
) {
    // Some are read before any is written: what is written might be what is read next.
    let whole = n / FEW * FEW;
    // SAFETY: the caller's promise.
    unsafe {
        for j in (0..whole).step_by(FEW) {
            let to: [*mut T; FEW] =
                std::array::from_fn(|k| to.offset(*offsets.add(j + k) as isize));
            let new: [T; FEW] = std::array::from_fn(|k| *from.add(j + k));
            for (to, new) in to.into_iter().zip(new) {
                *to = f(*to, new);
            }
        }
        for j in whole..n {
            let to = to.offset(*offsets.add(j) as isize);
            *to = f(*to, *from.add(j));
        }
    }
}

/// What a reduction starts with: it does not change the other operand.
pub(super) fn identity<T: Num>(reduce: Reduce) -> T {
    match reduce {
        Reduce::Sum | Reduce::Mean => T::ZERO,
        Reduce::Prod => T::ONE,
        Reduce::Amax => T::LOWEST,
        Reduce::Amin => T::HIGHEST,
    }
}
