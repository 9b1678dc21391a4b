//! The unit's limit.

use super::tiles::{configure, release};
use crate::simd::isa::amx::tile_asm;

/// `rounds` times four independent products of tiles, and how many operations these were.
///
/// # Safety
/// The unit must be there.
pub(crate) unsafe fn peak(rounds: usize) -> usize {
    // SAFETY: the caller's promise; the tiles are this thread's own between the two calls.
    unsafe {
        configure();
        tile_asm!(
            [
                "tilezero tmm0",
                "tilezero tmm1",
                "tilezero tmm2",
                "tilezero tmm3",
                "tilezero tmm4",
                "tilezero tmm5",
                "tilezero tmm6",
                "tilezero tmm7",
            ];
            nomem, nostack
        );
        for _ in 0..rounds {
            tile_asm!(
                [
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tdpbf16ps tmm1, tmm4, tmm7",
                    "tdpbf16ps tmm2, tmm5, tmm6",
                    "tdpbf16ps tmm3, tmm5, tmm7",
                ];
                nomem, nostack
            );
        }
        release();
    }
    2 * 4 * 16 * 16 * 32 * rounds
}
