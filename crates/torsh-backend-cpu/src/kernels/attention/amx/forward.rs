//! The results.
//!
//! Intrinsics: The loops between tile products pack bfloat16 parts, which only AVX-512 has instructions for.

use std::arch::x86_64::*;
use std::sync::atomic::{AtomicBool, Ordering};

use torsh_core::{DType, KernelArgs, Result};

use super::super::AttentionSizes;
use super::super::drive::{self, AttentionOperands};
use super::super::operand::up;
use super::super::scores::{LANES, ScoreRows, Scores, cut, greatest, whole};
use super::{PackedPanels, Places, are_safe, exponential};
use crate::kernels::matmul::amx::pack::{first, put_line, put_parts_of_line, split};
use crate::kernels::matmul::amx::{Blocks, OF_STEP, SIDE, STEP, Sums, TILE, TilePrefetch};
use crate::kernels::panels::{MatrixRows, Prefetch, copy_rows, fetch_lines, take};
use crate::machine::tuning::attention_amx_forward::{CHAIN, FETCHED, GRAIN, KEYS, QUERIES};
use crate::memory::dense::DenseOut;

pub(super) fn run(args: &KernelArgs<'_>, sizes: &AttentionSizes) -> Result<bool> {
    let (of, converted) = AttentionOperands::of_results(args, sizes, DType::F32)?;
    let call = AmxForward {
        to: AmxForwardLayout::new(sizes),
        of,
        failed: AtomicBool::new(false),
    };
    drive::forward(&call)?;
    if call.failed.load(Ordering::Relaxed) {
        return Ok(false);
    }
    converted.map_or(Ok(()), DenseOut::finish)?;
    Ok(true)
}

/// The operands of a call.
struct AmxForward<'a> {
    of: AttentionOperands<'a, f32>,
    to: AmxForwardLayout,
    /// Whether some head was not for AMX.
    failed: AtomicBool,
}

/// Where things lie in a thread's memory.
struct AmxForwardLayout {
    keys: PackedPanels,
    values: PackedPanels,
    /// The greatest magnitudes of both.
    magnitudes: usize,
    /// The queries of a block, scaled, and these packed.
    scaled: usize,
    queries: PackedPanels,
    scores: usize,
    /// Numbers from row to row of scores and of sums.
    ld: usize,
    columns: usize,
    /// Weights of a panel of queries and a stretch of keys, and of the next ones.
    weights: PackedPanels,
    sums: usize,
    rows: usize,
    total: usize,
}

impl AmxForwardLayout {
    fn new(sizes: &AttentionSizes) -> AmxForwardLayout {
        let AttentionSizes { l, e, d, .. } = *sizes;
        let seen = sizes.seen();
        let rows = up(QUERIES.min(l), SIDE);
        let keys = up(KEYS.min(seen), SIDE);
        // Rows of a power of two would be in few sets of the first-level cache.
        let (ld, columns) = (keys + LANES, up(d, SIDE));
        let mut places = Places::default();
        AmxForwardLayout {
            keys: places.packed(seen, e),
            values: places.packed(d, seen),
            magnitudes: places.floats(2),
            scaled: places.floats(rows * e),
            queries: places.packed(rows, e),
            scores: places.floats(rows * ld),
            ld,
            columns,
            weights: places.packed(2 * SIDE, CHAIN * STEP),
            sums: places.floats(rows * columns),
            rows: places.floats((3 + LANES) * rows),
            total: places.total,
        }
    }
}

impl drive::ForwardPass for AmxForward<'_> {
    type T = f32;
    const QUERIES: usize = QUERIES;
    const GRAIN: usize = GRAIN;

    fn operands(&self) -> &AttentionOperands<'_, f32> {
        &self.of
    }

    fn bytes(&self) -> usize {
        self.to.total
    }

    unsafe fn pack(&self, kv: usize, at: *mut u8) {
        let (of, to) = (&self.of, &self.to);
        let AttentionSizes { e, d, .. } = *of.sizes;
        let seen = of.sizes.seen();
        let magnitudes = at.wrapping_add(to.magnitudes).cast::<f32>();
        // SAFETY: the caller's promise.
        unsafe {
            let k = of.k.head(kv);
            *magnitudes = to.keys.fill::<true>(at, k, of.k.steps, [seen, e]);
            let [row, column] = of.v.steps;
            let v = of.v.head(kv);
            *magnitudes.wrapping_add(1) = to.values.fill::<true>(at, v, [column, row], [d, seen]);
        }
    }

    unsafe fn block(&self, head: usize, i: usize, at: *mut u8, prefetches: &mut [Prefetch]) {
        // SAFETY: the caller's promise; the processors that have AMX have the instructions.
        unsafe { self.block_of(head, i, at, prefetches) }
    }

    /// As many in each, or where each sees more than the one above, as many more.
    fn share(&self, nth: usize, blocks: usize, rows: usize) -> usize {
        match self.of.sizes.reach.is_some() && blocks > 1 {
            true => {
                let pairs = nth / 2 * (blocks - 1) + nth % 2 * (nth / 2);
                rows * pairs / (blocks * (blocks - 1) / 2)
            }
            false => rows * nth / blocks,
        }
    }
}

impl AmxForward<'_> {
    /// The results of a block of queries from `i` on.
    ///
    /// # Safety
    /// As for [`drive::ForwardPass::block`]; the processor has AVX-512 and AMX.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,fma")]
    unsafe fn block_of(&self, head: usize, i: usize, at: *mut u8, prefetches: &mut [Prefetch]) {
        let (of, to) = (&self.of, &self.to);
        let AttentionSizes { l, e, reach, .. } = *of.sizes;
        // The choice leaves other windows to vector instructions.
        let causal = reach.is_some();
        let (rows, seen) = (QUERIES.min(l - i), of.sizes.seen());
        let keys_end = if causal { seen.min(i + rows) } else { seen };
        let floats = |place: usize| at.wrapping_add(place).cast::<f32>();
        let (scores, sums) = (floats(to.scores), floats(to.sums));
        let each = ScoreRows::new(floats(to.rows), up(QUERIES.min(l), SIDE));
        let panels = rows.div_ceil(SIDE);
        // Lines that are asked for before other products: half as many have as much to ask for.
        let lines = if causal { 16 } else { 8 };
        let of_steps = e.div_ceil(STEP);
        // SAFETY: the caller's promise.
        unsafe {
            let q = of.queries(head, i, rows);
            let most = if q.steps[1] == 1 {
                pack_scaled(&q, &to.queries, at)
            } else {
                let scaled = floats(to.scaled);
                copy_rows(&q, scaled, [e as isize, 1]);
                let steps = [e as isize, 1];
                to.queries.fill::<false>(at, scaled, steps, [rows, e])
            };
            let [k, v] = [0, 1].map(|n| f64::from(*floats(to.magnitudes).wrapping_add(n)));
            if !are_safe(&[k, v * seen as f64, f64::from(most) * k * e as f64]) {
                self.failed.store(true, Ordering::Relaxed);
                return;
            }
            let mut blocks = Blocks::take();
            for j in (0..keys_end).step_by(KEYS) {
                let keys = KEYS.min(keys_end - j);
                // Steps of keys that some query of a panel sees.
                let reach = |p: usize| match causal {
                    true => keys
                        .min((i + p * SIDE + SIDE).saturating_sub(j))
                        .div_ceil(STEP),
                    false => keys.div_ceil(STEP),
                };
                for c in 0..keys.div_ceil(SIDE) {
                    let right = to.keys.step(at, j / SIDE + c, 0);
                    for p in (0..panels).filter(|&p| c < reach(p)) {
                        let sums = Sums {
                            ptr: scores.wrapping_add(p * SIDE * to.ld + c * SIDE),
                            step: 4 * to.ld,
                        };
                        let left = to.queries.step(at, p, 0);
                        let ahead = match take(prefetches, FETCHED * (of_steps - 1)) {
                            Some(ptr) => TilePrefetch { ptr, step: 128 },
                            None => {
                                fetch_lines(prefetches, lines);
                                TilePrefetch { ptr: left, step: 0 }
                            }
                        };
                        blocks.sum(sums, false, of_steps, left, right, Some(ahead));
                    }
                }
                blocks.end();
                if let Some(mask) = &of.mask {
                    mask.apply(head, [i, rows], [j, keys], scores, to.ld);
                }
                let d_ij = i as isize - j as isize;
                let block = Scores {
                    rows,
                    keys,
                    reach: if causal { d_ij + 1 } else { isize::MAX },
                    from: isize::MIN,
                    at: scores,
                    ld: to.ld,
                };
                let before = if j == 0 { std::ptr::null_mut() } else { sums };
                greatest_of(&block, &each, before, to.columns);
                // A stretch of keys after the other, each for one panel of queries after the other. The
                // weights of the next one are made while AMX multiplies.
                let stretches = keys.div_ceil(STEP).div_ceil(CHAIN);
                let mut of = (0..stretches * panels).map(|n| (n / panels * CHAIN, n % panels));
                let mut of = of.by_ref().filter_map(|(s, p)| {
                    let steps = CHAIN.min(reach(p).saturating_sub(s));
                    (steps > 0).then_some((s, p, steps))
                });
                let mut buffer = 0;
                let weigh = |(s, p, steps): (usize, usize, usize), buffer: usize| Weigh {
                    s: block,
                    rows: each,
                    row: p * SIDE,
                    end: rows.min(p * SIDE + SIDE),
                    first: s,
                    steps,
                    to: to.weights.step(at, buffer, 0),
                };
                let mut mine = of.next();
                if let Some(mine) = mine {
                    let mut weigh = weigh(mine, buffer);
                    while weigh.some() {}
                }
                while let Some((s, p, steps)) = mine {
                    mine = of.next();
                    let mut next = mine.map(|of| weigh(of, 1 - buffer));
                    let left = to.weights.step(at, buffer, 0).cast_const();
                    for c in 0..to.columns / SIDE {
                        let right = to.values.step(at, c, j / STEP + s).cast_const();
                        let sums = Sums {
                            ptr: sums.wrapping_add(p * SIDE * to.columns + c * SIDE),
                            step: 4 * to.columns,
                        };
                        fetch_lines(prefetches, lines);
                        blocks.sum_with(sums, j + s > 0, steps, (left, right), &mut || {
                            if let Some(next) = &mut next {
                                next.some();
                            }
                        });
                    }
                    if let Some(next) = &mut next {
                        while next.some() {}
                    }
                    buffer = 1 - buffer;
                }
                for r in 0..rows {
                    let added = each.added.wrapping_add(r * LANES);
                    *each.sum.wrapping_add(r) += _mm512_reduce_add_ps(_mm512_loadu_ps(added));
                }
                blocks.end();
            }
            blocks.release();
            of.finish([head, i], rows, &each, (sums, to.columns));
        }
    }
}

/// Packs rows of adjacent numbers times their factor. Gives the greatest magnitude.
///
/// # Safety
/// The rows must be there, and `at` be memory with room for the packed ones; the processor has AVX-512.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,fma")]
unsafe fn pack_scaled(q: &MatrixRows<f32>, to: &PackedPanels, at: *mut u8) -> f32 {
    let [rows, terms] = q.sizes;
    let factor = _mm512_set1_ps(q.factor);
    let mut greatest = _mm512_setzero_si512();
    for r in 0..up(rows, SIDE) {
        let from = q.from.wrapping_offset(r as isize * q.steps[0]);
        let line = to.step(at, r / SIDE, 0);
        let line = line.wrapping_add(r % SIDE / 16 * TILE + r % 16 * 64);
        for step in 0..terms.div_ceil(STEP) {
            let i = step * STEP;
            let part = |i: usize| {
                let n = if r < rows { terms.saturating_sub(i) } else { 0 };
                // SAFETY: the caller's promise; the mask leaves out what is not there.
                let x = unsafe { _mm512_maskz_loadu_ps(first(n), from.wrapping_add(i)) };
                _mm512_mul_ps(x, factor)
            };
            let to = line.wrapping_add(step * OF_STEP);
            // SAFETY: the caller's promise.
            unsafe { put_line(part(i), part(i + 16), to, &mut greatest) };
        }
    }
    f32::from_bits(_mm512_reduce_max_epu32(greatest))
}

/// Moves the rows' maxima and, unless these are the first keys, makes their sums and results so far
/// what they are of the new ones.
///
/// # Safety
/// `rows` must hold the block's, `out` be null or hold rows of `width`; the processor has AVX-512.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,fma")]
unsafe fn greatest_of(s: &Scores<f32>, rows: &ScoreRows<f32>, out: *mut f32, width: usize) {
    let first = out.is_null();
    for r in 0..s.rows {
        let row = s.at.wrapping_add(r * s.ld);
        let seen = seen(s, r);
        // SAFETY: the caller's promise.
        unsafe {
            cut::<f32, __m512>(row, seen, f32::NEG_INFINITY);
            let before = match first {
                true => f32::NEG_INFINITY,
                false => *rows.most.wrapping_add(r),
            };
            let most = greatest::<f32, __m512>(row, whole(seen), before);
            // A row that sees nothing has weights of 0, not of nan.
            let base = if most == f32::NEG_INFINITY { 0.0 } else { most };
            *rows.most.wrapping_add(r) = most;
            *rows.before.wrapping_add(r) = base;
            _mm512_storeu_ps(rows.added.wrapping_add(r * LANES), _mm512_setzero_ps());
            if first {
                *rows.sum.wrapping_add(r) = 0.0;
                continue;
            }
            let shrink = _mm512_cvtss_f32(exponential(_mm512_set1_ps(before - base)));
            if shrink != 1.0 {
                *rows.sum.wrapping_add(r) *= shrink;
                let out = out.wrapping_add(r * width);
                for i in 0..width {
                    *out.wrapping_add(i) *= shrink;
                }
            }
        }
    }
}

/// Keys that a row sees.
fn seen(s: &Scores<f32>, r: usize) -> usize {
    (r as isize)
        .saturating_add(s.reach)
        .clamp(0, s.keys as isize) as usize
}

/// Makes the scores of a panel of rows and of a stretch of keys into packed weights,
/// `exp(score - maximum)`, and adds these up.
struct Weigh {
    s: Scores<f32>,
    /// Of `before`, what is subtracted; of `added`, a vector for each row.
    rows: ScoreRows<f32>,
    /// The next row, and where they end.
    row: usize,
    end: usize,
    /// The first step of keys, and how many.
    first: usize,
    steps: usize,
    to: *mut u8,
}

impl Weigh {
    /// Goes on with some rows; `false` if there are none.
    ///
    /// # Safety
    /// All must be there, and the processor have AVX-512.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,fma")]
    unsafe fn some(&mut self) -> bool {
        for _ in 0..2 {
            let r = self.row;
            if r == self.end {
                return false;
            }
            self.row += 1;
            let at = self.s.at.wrapping_add(r * self.s.ld + self.first * STEP);
            let whole = whole(seen(&self.s, r)).saturating_sub(self.first * STEP);
            let line = self.to.wrapping_add(r % SIDE / 16 * TILE + r % 16 * 64);
            let added = self.rows.added.wrapping_add(r * LANES);
            let zero = _mm512_setzero_ps();
            let mut none = _mm512_setzero_si512();
            // SAFETY: the caller's promise: rows are whole steps.
            unsafe {
                let base = _mm512_set1_ps(*self.rows.before.wrapping_add(r));
                let weights = |i: usize| {
                    let score = _mm512_loadu_ps(at.wrapping_add(i));
                    exponential(_mm512_sub_ps(score, base))
                };
                let mut sums = [_mm512_loadu_ps(added), zero];
                for step in 0..self.steps {
                    let i = step * STEP;
                    let [x, y] = match whole.saturating_sub(i) {
                        0 => [zero; 2],
                        16 => [weights(i), zero],
                        _ => [weights(i), weights(i + 16)],
                    };
                    sums = [_mm512_add_ps(sums[0], x), _mm512_add_ps(sums[1], y)];
                    let (x, y) = (split(x, &mut none), split(y, &mut none));
                    put_parts_of_line(&x, &y, line.wrapping_add(step * OF_STEP));
                }
                _mm512_storeu_ps(added, _mm512_add_ps(sums[0], sums[1]));
            }
        }
        true
    }
}
