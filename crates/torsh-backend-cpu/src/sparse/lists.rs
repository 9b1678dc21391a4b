//! Lists of coordinates: their bounds and their order.

use smallvec::SmallVec;
use torsh_core::{Result, TorshError};

use super::split::holds;
use super::tuning;

/// The coordinates of places in a shape: each place is a column of a row-major matrix, which has a row for each
/// dimension.
///
/// ```
/// use torsh_backend_cpu::sparse::Coordinates;
/// // The places (0, 2) and (1, 0) of a matrix of 2 rows and 3 columns.
/// let places = Coordinates::new(&[0, 1, 2, 0], 2, &[2, 3])?;
/// assert!(places.are_within() && places.ascend());
/// let places = Coordinates::new(&[1, 0, 0, 3], 2, &[2, 3])?;
/// assert!(!places.are_within() && !places.ascend());
/// # Ok::<(), torsh_core::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Coordinates<'a> {
    indices: &'a [i64],
    count: usize,
    shape: &'a [usize],
}

impl<'a> Coordinates<'a> {
    /// `count` places. What the coordinates are is not checked.
    ///
    /// # Errors
    /// If there are not `count` indices for each dimension.
    pub fn new(indices: &'a [i64], count: usize, shape: &'a [usize]) -> Result<Coordinates<'a>> {
        match shape.len().checked_mul(count) == Some(indices.len()) {
            true => Ok(Coordinates {
                indices,
                count,
                shape,
            }),
            false => Err(TorshError::shape(
                "",
                format!(
                    "{} indices are not {} for each of {count} places",
                    indices.len(),
                    shape.len()
                ),
            )),
        }
    }

    /// Whether all places lie within the shape.
    pub fn are_within(&self) -> bool {
        self.holds(|range| {
            self.shape.iter().enumerate().all(|(d, &size)| {
                let row = &self.row(d)[range.clone()];
                row.iter()
                    .fold(true, |inside, &i| inside & ((i as u64) < size as u64))
            })
        })
    }

    /// Whether the places are in order, and each stands once.
    pub fn ascend(&self) -> bool {
        self.holds(|range| (range.start.max(1)..range.end).all(|e| self.precedes(e - 1, e)))
    }

    /// Whether something is true of all ranges of places.
    fn holds(&self, f: impl Fn(std::ops::Range<usize>) -> bool + Sync) -> bool {
        holds(self.count, tuning::PASS * self.shape.len().max(1), f)
    }

    /// Whether place `a` comes before place `b`.
    fn precedes(&self, a: usize, b: usize) -> bool {
        let unlike = (0..self.shape.len()).find(|&d| self.row(d)[a] != self.row(d)[b]);
        unlike.is_some_and(|d| self.row(d)[a] < self.row(d)[b])
    }

    /// How many places there are.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The sizes that the coordinates count in.
    pub(super) fn shape(&self) -> &'a [usize] {
        self.shape
    }

    /// The coordinates in dimension `d`.
    #[inline(always)]
    pub(super) fn row(&self, d: usize) -> &'a [i64] {
        &self.indices[d * self.count..][..self.count]
    }

    /// Whether a word holds every row-major position in the shape.
    pub(super) fn fit_a_word(&self) -> bool {
        let mut sizes = self.shape.iter();
        sizes
            .try_fold(1u64, |n, &s| n.checked_mul(s.max(1) as u64))
            .is_some()
    }

    /// The row-major position of place `e`, where a word holds it.
    #[inline(always)]
    pub(super) fn position(&self, e: usize) -> u64 {
        let mut at = 0u64;
        for (d, &size) in self.shape.iter().enumerate() {
            at = at
                .wrapping_mul(size as u64)
                .wrapping_add(self.indices[d * self.count + e] as u64);
        }
        at
    }

    /// The coordinates of place `e`.
    pub(super) fn place(&self, e: usize) -> SmallVec<[i64; 4]> {
        (0..self.shape.len()).map(|d| self.row(d)[e]).collect()
    }
}
