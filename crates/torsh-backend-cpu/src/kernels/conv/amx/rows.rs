//! Rows of an image split into words.
//!
//! Intrinsics: Rows are split into bfloat16 words, which only AVX-512 has instructions for.

use std::arch::x86_64::*;
use std::ops::Range;

use crate::kernels::matmul::amx::pack::put_pair;

/// A vector of a row of the image, or of every second column of it.
pub(super) struct MaskedColumns {
    from: *const f32,
    /// Those of 32 columns that the image has.
    mask: u32,
}

impl MaskedColumns {
    /// The columns from `more` past the given one on, of rows of `width`.
    pub(super) fn new(
        (row, column): (*const f32, isize),
        more: usize,
        width: usize,
    ) -> MaskedColumns {
        let column = column + more as isize;
        let below = |n: isize| (1u64 << n.clamp(0, 32)) - 1;
        MaskedColumns {
            from: row.wrapping_offset(column),
            mask: (below(width as isize - column) & !below(-column)) as u32,
        }
    }

    /// The columns of the row `at` numbers on.
    ///
    /// # Safety
    /// The image must have them.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn load<const STEP: usize>(&self, at: usize) -> __m512 {
        let from = self.from.wrapping_add(at);
        // SAFETY: the caller's promise; the masks leave out what is not there.
        unsafe {
            let x = _mm512_maskz_loadu_ps(self.mask as u16, from);
            if STEP == 1 {
                return x;
            }
            let y = _mm512_maskz_loadu_ps((self.mask >> 16) as u16, from.wrapping_add(16));
            let even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
            _mm512_permutex2var_ps(x, even, y)
        }
    }
}

/// A vector of words in each row of a sheet.
pub(super) struct InputRows {
    /// Both terms, in the first row that is in the image.
    pub(super) x: MaskedColumns,
    pub(super) y: MaskedColumns,
    /// Numbers from a row to the next.
    pub(super) step: usize,
    pub(super) count: usize,
    pub(super) inside: Range<usize>,
    /// How far on is what is read soon.
    pub(super) next: usize,
    pub(super) to: *mut u8,
    /// Bytes from a row to the next, and from a part to the next.
    pub(super) pitch: usize,
    pub(super) apart: usize,
}

impl InputRows {
    /// Writes the words.
    ///
    /// # Safety
    /// The rows must be the image's, and there be room.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) unsafe fn split<const STEP: usize>(&self, greatest: &mut __m512i) {
        let mut to = self.to;
        let zero = _mm512_setzero_ps();
        let mut of_zeros = _mm512_setzero_si512();
        let mut of_these = *greatest;
        // SAFETY: the caller's promise.
        unsafe {
            for _ in 0..self.inside.start {
                put_pair(zero, zero, to, self.apart, &mut of_zeros);
                to = to.wrapping_add(self.pitch);
            }
            let mut at = 0;
            for _ in self.inside.clone() {
                let (x, y) = (self.x.load::<STEP>(at), self.y.load::<STEP>(at));
                for from in [self.x.from, self.y.from] {
                    let next = from.wrapping_add(at + self.next);
                    _mm_prefetch::<_MM_HINT_T0>(next.cast());
                }
                put_pair(x, y, to, self.apart, &mut of_these);
                to = to.wrapping_add(self.pitch);
                at += self.step;
            }
            for _ in self.inside.end..self.count {
                put_pair(zero, zero, to, self.apart, &mut of_zeros);
                to = to.wrapping_add(self.pitch);
            }
        }
        *greatest = of_these;
    }
}
