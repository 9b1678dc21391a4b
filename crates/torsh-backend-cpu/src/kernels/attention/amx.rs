//! Attention of float32 on AMX: its products are sums of products of bfloat16, to float32's precision (see
//! [`matmul::amx`](crate::kernels::matmul::amx)).
//!
//! What a head's blocks share is packed once for the head: as it is multiplied in blocks of 32 by 32,
//! in tiles of each of three parts. Weights, and the gradients of scores, are split and packed as they
//! are made.
//!
//! The parts of what is not finite are not numbers that add up to it, so a call with operands that are
//! not, or so large that sums might not be, is left to the other way, as a whole.

mod backward;
mod forward;

use std::arch::x86_64::*;

use torsh_core::{Kernel, KernelArgs, Result};

use super::AttentionSizes;
use crate::kernels::matmul::amx::pack::AmxLines;
use crate::kernels::matmul::amx::{OF_STEP, SIDE, STEP, SplitParts};
use crate::machine::tuning::attention_amx::MOST;
use crate::simd::Avx512;
use crate::simd::FloatVector;

/// Computes a call that [`AttentionAlgorithm::Amx`](super::choose::AttentionAlgorithm::Amx) accepts: `false`,
/// with nothing to be relied upon in the results, where values are not finite or sums might not be.
pub(super) fn run(args: &KernelArgs<'_>, sizes: &AttentionSizes) -> Result<bool> {
    match args.kernel() == Kernel::Attention {
        true => forward::run(args, sizes),
        false => backward::run(args, sizes),
    }
}

/// Packed operands in a thread's memory: panels of 32 lines, in them steps of 32 terms.
#[derive(Clone, Copy)]
struct PackedPanels {
    /// Where they are, in bytes.
    at: usize,
    /// Bytes of a panel.
    panel: usize,
}

impl PackedPanels {
    /// The bytes of the step `step` of the panel `panel`.
    fn step(&self, at: *mut u8, panel: usize, step: usize) -> *mut u8 {
        at.wrapping_add(self.at + panel * self.panel + step * OF_STEP)
    }

    /// Packs rows or columns of a matrix, `across` apart with terms that are `along` apart. Gives the
    /// greatest magnitude.
    ///
    /// # Safety
    /// They must be there, `at` be memory with this room, and AMX be there.
    unsafe fn fill<const RIGHT: bool>(
        &self,
        at: *mut u8,
        from: *const f32,
        [across, along]: [isize; 2],
        [count, terms]: [usize; 2],
    ) -> f32 {
        // Panels of fewer terms than there is room for would be packed closer together.
        let whole = terms.div_ceil(STEP) * OF_STEP == self.panel;
        let each = if whole { count } else { SIDE };
        let mut most = 0;
        for first in (0..count).step_by(each) {
            let lines = AmxLines {
                ptr: from.wrapping_offset(first as isize * across).cast(),
                across: 4 * across,
                along: 4 * along,
                count: each.min(count - first),
                terms,
            };
            let to = self.step(at, first / SIDE, 0);
            // SAFETY: the caller's promise; processors with AMX have these instruction sets.
            most = most.max(unsafe { lines.pack::<RIGHT>(to, SplitParts::Three) });
        }
        f32::from_bits(most)
    }
}

/// How a thread's memory is laid out, in bytes.
#[derive(Default)]
struct Places {
    total: usize,
}

impl Places {
    fn place(&mut self, bytes: usize) -> usize {
        let at = self.total;
        self.total += bytes.next_multiple_of(64);
        at
    }

    fn floats(&mut self, n: usize) -> usize {
        self.place(4 * n)
    }

    fn packed(&mut self, lines: usize, terms: usize) -> PackedPanels {
        let panel = terms.div_ceil(STEP) * OF_STEP;
        let panels = lines.div_ceil(SIDE);
        PackedPanels {
            at: self.place(panels * panel),
            panel,
        }
    }
}

/// Whether sums of at most these magnitudes are numbers.
fn are_safe(sums: &[f64]) -> bool {
    sums.iter().all(|&sum| sum < MOST)
}

/// e to the power of numbers that are not above 0 by more than rounding.
///
/// # Safety
/// The processor has AVX-512.
#[inline(always)]
unsafe fn exponential(x: __m512) -> __m512 {
    // SAFETY: the caller's promise.
    unsafe { x.exp_nonpositive::<Avx512>() }
}
