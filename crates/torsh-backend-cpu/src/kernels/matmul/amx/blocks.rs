//! Blocks of sums one after the other, for kernels that pack operands of their own.

use super::SplitParts;
use super::tiles::{self, Sums, TilePrefetch};

/// Bytes of a step of [`SIDE`](super::SIDE) lines in three parts.
pub(crate) const OF_STEP: usize = 6 * super::TILE;

/// Sums of products of float32. Those of a block are in memory when the next one has begun, or at the
/// [end](Blocks::end).
pub(crate) struct Blocks {
    before: Option<Sums>,
}

impl Blocks {
    /// Takes AMX; [`release`](Blocks::release) gives it back.
    ///
    /// # Safety
    /// AMX must be there.
    pub unsafe fn take() -> Blocks {
        // SAFETY: the caller's promise.
        unsafe { tiles::configure() };
        Blocks { before: None }
    }

    /// Makes sums, or adds to them, of at least one step of packed operands. Fetches meanwhile, of
    /// steps that are not a turn's, or else more of `b`.
    ///
    /// # Safety
    /// There must be room for the sums, and the operands hold the steps.
    #[inline]
    pub unsafe fn sum(
        &mut self,
        to: Sums,
        add: bool,
        steps: usize,
        a: *const u8,
        b: *const u8,
        ahead: Option<TilePrefetch>,
    ) {
        debug_assert!(steps > 0);
        let from = add.then_some(to);
        let (mut a, mut b, mut left) = (a, b, steps);
        // SAFETY: the caller's promise; the tiles are this thread's.
        unsafe {
            match self.before {
                // They are still in the tiles.
                Some(before) if add && before.ptr == to.ptr => {}
                Some(before) => {
                    tiles::turn(SplitParts::Three, before, from, a, b);
                    (a, b) = (a.wrapping_add(OF_STEP), b.wrapping_add(OF_STEP));
                    left -= 1;
                }
                None => match from {
                    Some(from) => from.resume(),
                    None => Sums::clear(),
                },
            }
            let ahead = ahead.unwrap_or(TilePrefetch { ptr: b, step: 128 });
            tiles::steps(SplitParts::Three, left, a, b, ahead);
        }
        self.before = Some(to);
    }

    /// As [`sum`](Blocks::sum), with other work after every quarter of a step, meanwhile.
    ///
    /// # Safety
    /// As there.
    pub unsafe fn sum_with(
        &mut self,
        to: Sums,
        add: bool,
        steps: usize,
        operands: (*const u8, *const u8),
        work: &mut dyn FnMut(),
    ) {
        let from = add.then_some(to);
        // SAFETY: as there.
        unsafe {
            let transposed = match self.before {
                Some(before) if add && before.ptr == to.ptr => None,
                Some(before) => Some((before, from)),
                None => {
                    match from {
                        Some(from) => from.resume(),
                        None => Sums::clear(),
                    }
                    None
                }
            };
            tiles::steps_with(steps, operands, transposed, work);
        }
        self.before = Some(to);
    }

    /// Writes what is still in the tiles.
    pub fn end(&mut self) {
        if let Some(before) = self.before.take() {
            // SAFETY: there is room, as promised when they were begun.
            unsafe { before.store() };
        }
    }

    /// Gives AMX back.
    pub fn release(mut self) {
        self.end();
        // SAFETY: nothing else uses this thread's tiles.
        unsafe { tiles::release() };
    }
}
