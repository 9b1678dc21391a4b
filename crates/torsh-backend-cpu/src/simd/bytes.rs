//! Weighted sums of bytes in whole numbers, of which image resampling is made.

#[cfg(target_arch = "x86_64")]
use torsh_core::machine::{Level, machine};

/// Adjacent bytes that are weighted at a time.
pub const RUN: usize = 16;

/// Sums that are computed side by side.
pub const SIDE: usize = 8;

/// Where the sums of a row begin, and their weights.
#[derive(Clone, Debug)]
pub struct WeightedRuns {
    /// The first byte of each sum: as many as a row has sums, rounded up to a multiple of [`SIDE`].
    pub starts: Vec<usize>,
    /// `runs` for each sum.
    pub weights: Vec<[i16; RUN]>,
    /// Runs of [`RUN`] bytes that a sum has.
    pub runs: usize,
    /// What is added to each sum before it is shifted.
    pub half: i32,
    /// By how many bits each sum is shifted to the right.
    pub shift: u32,
}

impl WeightedRuns {
    /// The sums of rows of `w` bytes, as rows of `to` bytes: each is shifted, and cut off below 0 and above 255.
    ///
    /// # Panics
    /// If a run does not lie in its row.
    ///
    /// ```
    /// use torsh_backend_cpu::simd::bytes::WeightedRuns;
    ///
    /// // Each result is the mean of two neighbours.
    /// let mut weights = [0i16; 16];
    /// (weights[0], weights[1]) = (1 << 7, 1 << 7);
    /// let sums = WeightedRuns {
    ///     starts: vec![0, 1, 2, 0, 0, 0, 0, 0],
    ///     weights: vec![weights; 8],
    ///     runs: 1,
    ///     half: 1 << 7,
    ///     shift: 8,
    /// };
    /// let row: Vec<u8> = (0..20).map(|i| 10 * i).collect();
    /// let mut out = [0; 3];
    /// sums.of_rows((&row, 20), (&mut out, 3));
    /// assert_eq!(out, [5, 15, 25]);
    /// ```
    pub fn of_rows(&self, (rows, w): (&[u8], usize), (out, to): (&mut [u8], usize)) {
        #[cfg(target_arch = "x86_64")]
        if machine().level >= Level::Avx2 {
            // SAFETY: the processor has AVX2.
            return unsafe { x86::of_rows(self, (rows, w), (out, to)) };
        }
        for (row, out) in rows.chunks_exact(w).zip(out.chunks_exact_mut(to)) {
            let each = self.starts.iter().zip(self.weights.chunks_exact(self.runs));
            for (out, (&start, weights)) in out.iter_mut().zip(each) {
                let products = row[start..].iter().zip(weights.as_flattened());
                let sum =
                    products.fold(self.half, |sum, (&p, &w)| sum + i32::from(p) * i32::from(w));
                *out = (sum >> self.shift).clamp(0, 255) as u8;
            }
        }
    }
}

/// Sums of products of pairs of 16-bit numbers, for which plain loops have no instruction.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{RUN, SIDE, WeightedRuns};

    #[target_feature(enable = "avx2")]
    pub(super) fn of_rows(
        sums: &WeightedRuns,
        (rows, w): (&[u8], usize),
        (out, to): (&mut [u8], usize),
    ) {
        let (starts, _) = sums.starts.as_chunks::<SIDE>();
        for (row, out) in rows.chunks_exact(w).zip(out.chunks_exact_mut(to)) {
            match sums.runs {
                // The usual number: the compiler unrolls what it knows.
                1 => of_row::<1>(sums, row, starts, out),
                _ => of_row::<0>(sums, row, starts, out),
            }
        }
    }

    /// One row; `RUNS` is the number of runs, or 0 for any.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn of_row<const RUNS: usize>(
        sums: &WeightedRuns,
        row: &[u8],
        starts: &[[usize; SIDE]],
        out: &mut [u8],
    ) {
        let runs = if RUNS > 0 { RUNS } else { sums.runs };
        let half = _mm256_set1_epi32(sums.half);
        let shift = _mm_cvtsi32_si128(sums.shift as i32);
        for (starts, (weights, out)) in starts.iter().zip(
            sums.weights
                .chunks_exact(SIDE * runs)
                .zip(out.chunks_mut(SIDE)),
        ) {
            let sum = |k: usize| {
                let mut sum = _mm256_setzero_si256();
                for run in 0..runs {
                    let bytes = &row[starts[k] + run * RUN..][..RUN];
                    let weights = &weights[k * runs + run];
                    // SAFETY: there are 16 bytes, and 16 weights.
                    let (bytes, weights) = unsafe {
                        (
                            _mm_loadu_si128(bytes.as_ptr().cast()),
                            _mm256_loadu_si256(weights.as_ptr().cast()),
                        )
                    };
                    let products = _mm256_madd_epi16(_mm256_cvtepu8_epi16(bytes), weights);
                    sum = _mm256_add_epi32(sum, products);
                }
                sum
            };
            // Two vectors become one with the sums of neighbours.
            let pairs = |k: usize| _mm256_hadd_epi32(sum(k), sum(k + 1));
            let low = _mm256_hadd_epi32(pairs(0), pairs(2));
            let high = _mm256_hadd_epi32(pairs(4), pairs(6));
            let first = _mm256_permute2x128_si256::<0x20>(low, high);
            let second = _mm256_permute2x128_si256::<0x31>(low, high);
            let sums = _mm256_add_epi32(_mm256_add_epi32(first, second), half);
            // Rounded and narrowed, with values beyond a byte cut off.
            let sums = _mm256_sra_epi32(sums, shift);
            let (low, high) = (
                _mm256_castsi256_si128(sums),
                _mm256_extracti128_si256::<1>(sums),
            );
            let words = _mm_packs_epi32(low, high);
            let bytes = _mm_cvtsi128_si64(_mm_packus_epi16(words, words)).to_le_bytes();
            match out.first_chunk_mut::<SIDE>() {
                Some(out) => *out = bytes,
                None => out.iter_mut().zip(bytes).for_each(|(o, b)| *o = b),
            }
        }
    }
}
