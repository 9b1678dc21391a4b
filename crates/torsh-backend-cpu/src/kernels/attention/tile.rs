//! Tiles of keys: those whose scores a block of queries makes before any of them is summed up.

use super::AttentionSizes;
use super::operand::Mask;
use super::scores::{ScoreNumber, Scores};
use crate::kernels::panels::CausalBand;

/// Adjacent keys of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyRun {
    /// The column of the tile's scores where theirs begin.
    pub column: usize,
    /// The first of them.
    pub first: usize,
    pub keys: usize,
}

/// Keys whose scores lie side by side.
pub(super) trait KeyTile<T> {
    /// The keys, in order.
    fn runs(&self) -> impl Iterator<Item = KeyRun>;
    /// Which products count: all, or where queries reach so far and no further, those within a band of this kind.
    fn band(&self, of: fn(isize) -> CausalBand) -> CausalBand;
    /// The products of `rows` queries and the keys as scores, with those of negative infinity that are not seen, unless
    /// the passes over scores leave them out.
    ///
    /// # Safety
    /// The products must be there, in rows of `ld`.
    unsafe fn scores(&self, rows: usize, at: *mut T, ld: usize) -> Scores<T>;
}

/// Adjacent keys under a window or a mask.
pub(super) struct AdjacentKeys<'a, T> {
    pub sizes: &'a AttentionSizes,
    pub mask: Option<&'a Mask<T>>,
    pub head: usize,
    /// The block's first query, and the first key.
    pub start: [usize; 2],
    pub keys: usize,
}

impl<T> AdjacentKeys<'_, T> {
    /// How far the first query is behind the first key.
    fn apart(&self) -> isize {
        let [i, j] = self.start;
        i as isize - j as isize
    }
}

impl<T: ScoreNumber> KeyTile<T> for AdjacentKeys<'_, T> {
    fn runs(&self) -> impl Iterator<Item = KeyRun> {
        std::iter::once(KeyRun {
            column: 0,
            first: self.start[1],
            keys: self.keys,
        })
    }

    fn band(&self, of: fn(isize) -> CausalBand) -> CausalBand {
        let reach = self.sizes.reach.map(|reach| self.apart() + reach as isize);
        reach.map_or(CausalBand::All, of)
    }

    unsafe fn scores(&self, rows: usize, at: *mut T, ld: usize) -> Scores<T> {
        let AttentionSizes { reach, from, .. } = *self.sizes;
        let apart = self.apart();
        let scores = Scores {
            rows,
            keys: self.keys,
            reach: reach.map_or(isize::MAX, |reach| apart + reach as isize + 1),
            from: from.map_or(isize::MIN, |from| apart + from),
            at,
            ld,
        };
        let [i, j] = self.start;
        // SAFETY: the caller's promise.
        unsafe {
            if let Some(mask) = self.mask {
                mask.apply(self.head, [i, rows], [j, self.keys], at, ld);
            }
            scores.hide_earlier();
        }
        scores
    }
}
