//! The gradients: the scores anew, block by block, with keys as rows and queries as columns. So the
//! weights and the gradients of scores are packed as they lie for the sums over queries; those over
//! keys have the latter as their right operand, and are of transposed queries.
//!
//! Intrinsics: The loops between tile products pack bfloat16 parts, which only AVX-512 has instructions for.

use std::arch::x86_64::*;
use std::sync::atomic::{AtomicBool, Ordering};

use torsh_core::{DType, KernelArgs, Result};

use super::super::AttentionSizes;
use super::super::drive::{self, AttentionGradients, OfHead};
use super::super::operand::{AttentionMatrices, up};
use super::{PackedPanels, Places, are_safe, exponential};
use crate::kernels::matmul::amx::pack::{
    first, put_parts_of_line, put_parts_of_pair, split, transposed,
};
use crate::kernels::matmul::amx::{Blocks, OF_STEP, SIDE, STEP, Sums, TILE};
use crate::kernels::panels::{Prefetch, copy_rows, fetch};
use crate::machine::tuning::attention_amx_backward::{APART, GRAIN, KEYS, QUERIES};
use crate::memory::dense::DenseOut;

pub(super) fn run(args: &KernelArgs<'_>, sizes: &AttentionSizes) -> Result<bool> {
    let (of, converted) = AttentionGradients::new(args, sizes, DType::F32)?;
    let call = AmxBackward {
        to: AmxBackwardLayout::new(&of),
        of,
        failed: AtomicBool::new(false),
    };
    drive::backward(&call)?;
    if call.failed.load(Ordering::Relaxed) {
        return Ok(false);
    }
    converted.into_iter().try_for_each(DenseOut::finish)?;
    Ok(true)
}

/// The operands of a call.
struct AmxBackward<'a> {
    of: AttentionGradients<'a, f32>,
    to: AmxBackwardLayout,
    /// Whether some head was not for AMX.
    failed: AtomicBool,
}

/// Where things lie in a thread's memory.
struct AmxBackwardLayout {
    /// A block's keys and values, of scores' rows and of sums over columns.
    k: PackedPanels,
    v: PackedPanels,
    /// Columns of keys, of sums over keys.
    k_columns: PackedPanels,
    /// Queries and gradients, of scores' columns and of sums over columns.
    q: PackedPanels,
    g: PackedPanels,
    /// Columns of both, of sums over queries.
    q_columns: PackedPanels,
    g_columns: PackedPanels,
    /// The logarithm of each query's sum, and its products of gradient and result.
    lse: usize,
    delta: usize,
    /// Transposed gradients of queries, and their columns; before, queries times the scale.
    dq: usize,
    l: usize,
    /// Gradients of keys and values, and their columns.
    dk: usize,
    e: usize,
    dv: usize,
    /// A panel's scores and their gradients, and a block's packed.
    scores: usize,
    grads: usize,
    ld: usize,
    weights: PackedPanels,
    changes: PackedPanels,
    changes_of_columns: PackedPanels,
    total: usize,
}

/// Where a head's sums go that its queries share.
#[derive(Clone, Copy)]
struct HeadSums {
    wanted: [bool; 3],
    dk: Sums,
    dv: Sums,
    /// Whether these are the first sums.
    fresh: bool,
}

impl AmxBackwardLayout {
    fn new(of: &AttentionGradients<'_, f32>) -> AmxBackwardLayout {
        let AttentionSizes { l, e, d, .. } = *of.of.sizes;
        let seen = of.of.sizes.seen();
        let [l_up, s_up, e_up, d_up] = [l, seen, e, d].map(|n| up(n, SIDE));
        let (rows, keys) = (up(QUERIES.min(l), SIDE), up(KEYS.min(seen), SIDE));
        let ld = rows + APART;
        let [to_q, to_k, to_v] = of.wanted([true; 2]).map(|to| to.is_some());
        let some = |wanted: bool, n: usize| if wanted { n } else { 0 };
        let mut to = Places::default();
        AmxBackwardLayout {
            k: to.packed(keys, e),
            v: to.packed(keys, d),
            k_columns: to.packed(some(to_q, e), keys),
            q: to.packed(l, e),
            g: to.packed(l, d),
            q_columns: to.packed(some(to_k, e), l),
            g_columns: to.packed(some(to_v, d), l),
            lse: to.floats(l_up),
            delta: to.floats(l_up),
            dq: to.floats(e_up * l_up),
            l: l_up,
            dk: to.floats(some(to_k, s_up * e_up)),
            e: e_up,
            dv: to.floats(some(to_v, s_up * d_up)),
            scores: to.floats(SIDE * ld),
            grads: to.floats(SIDE * ld),
            ld,
            weights: to.packed(some(to_v, keys), rows),
            changes: to.packed(some(to_k, keys), rows),
            changes_of_columns: to.packed(some(to_q, rows), keys),
            total: to.total,
        }
    }
}

impl drive::BackwardPass for AmxBackward<'_> {
    const GRAIN: usize = GRAIN;

    fn sizes(&self) -> &AttentionSizes {
        self.of.of.sizes
    }

    fn bytes(&self) -> usize {
        self.to.total
    }

    unsafe fn head(&self, x: &OfHead, at: *mut u8) {
        let (of, to, kv) = (&self.of.of, &self.to, x.head);
        let AttentionSizes {
            l, s, e, d, group, ..
        } = *of.sizes;
        let seen = of.sizes.seen();
        let [dq, dk, dv] = self.of.wanted(x.of);
        let wanted = [dq.is_some(), dk.is_some(), dv.is_some()];
        if wanted == [false; 3] {
            return;
        }
        let floats = |place: usize| at.wrapping_add(place).cast::<f32>();
        let (k, v) = (of.k.head(kv), of.v.head(kv));
        let transposed = |[row, column]: [isize; 2]| [column, row];
        // Where the sums over queries are: in the result if that has whole blocks.
        let sums =
            |result: Option<&AttentionMatrices<f32>>, place: usize, columns: usize| match result {
                Some(to)
                    if to.steps[1] == 1
                        && to.steps[0] > 0
                        && (seen | columns).is_multiple_of(SIDE) =>
                {
                    Sums {
                        ptr: to.head(kv),
                        step: 4 * to.steps[0] as usize,
                    }
                }
                _ => Sums {
                    ptr: floats(place),
                    step: 4 * up(columns, SIDE),
                },
            };
        let (to_dk, to_dv) = (sums(dk, to.dk, e), sums(dv, to.dv, d));
        // SAFETY: the caller's promise.
        unsafe {
            for head in kv * group..(kv + 1) * group {
                let scaled = floats(to.dq);
                let steps = [e as isize, 1];
                copy_rows(&of.queries(head, 0, l), scaled, steps);
                let (g, of_g) = (self.of.g.head(head), self.of.g.steps);
                let most_q = to.q.fill::<true>(at, scaled, steps, [l, e]);
                let most_g = to.g.fill::<true>(at, g, of_g, [l, d]);
                if wanted[1] {
                    to.q_columns
                        .fill::<true>(at, scaled, transposed(steps), [e, l]);
                }
                if wanted[2] {
                    to.g_columns.fill::<true>(at, g, transposed(of_g), [d, l]);
                }
                let (lse, delta) = (floats(to.lse), floats(to.delta));
                self.of.deltas(head, 0..l, delta);
                for i in 0..l {
                    *lse.wrapping_add(i) = *of.lse.at((head * l + i) as isize);
                }
                // Queries that are none have weights of 0.
                for i in l..to.l {
                    *delta.wrapping_add(i) = 0.0;
                    *lse.wrapping_add(i) = f32::INFINITY;
                }
                let last = head + 1 == (kv + 1) * group;
                let mut prefetches = [Prefetch::NOTHING; 5];
                if let Some(kv) = x.next.filter(|_| last) {
                    prefetches = self.of.prefetches(kv);
                }
                let shared = HeadSums {
                    wanted,
                    dk: to_dk,
                    dv: to_dv,
                    fresh: head == kv * group,
                };
                let mut blocks = Blocks::take();
                for j in x.keys(seen, KEYS) {
                    // What comes too early leaves the cache again.
                    let prefetches: &mut [Prefetch] = if j >= seen / 2 {
                        &mut prefetches
                    } else {
                        &mut []
                    };
                    let some = KEYS.min(seen - j);
                    let [k, v] = [(k, of.k.steps[0]), (v, of.v.steps[0])]
                        .map(|(from, step)| from.wrapping_offset(j as isize * step));
                    let most_k = to.k.fill::<false>(at, k, of.k.steps, [some, e]);
                    let most_v = to.v.fill::<false>(at, v, of.v.steps, [some, d]);
                    if wanted[0] {
                        to.k_columns
                            .fill::<false>(at, k, transposed(of.k.steps), [e, some]);
                    }
                    if !self.is_safe([most_k, most_v, most_q, most_g]) {
                        self.failed.store(true, Ordering::Relaxed);
                        blocks.release();
                        return;
                    }
                    for i in x.queries(l, QUERIES) {
                        self.block(&shared, [i, j], at, &mut blocks, prefetches);
                    }
                }
                blocks.release();
                if let Some(dq) = dq {
                    for i in x.queries(l, QUERIES) {
                        let rows = QUERIES.min(l - i);
                        let from = floats(to.dq).wrapping_add(i);
                        let out = dq.head(head).wrapping_offset(i as isize * dq.steps[0]);
                        turn(from, to.l, of.sizes.scale as f32, out, dq.steps, [rows, e]);
                    }
                }
            }
            for (result, from, n) in [(dk, to_dk, e), (dv, to_dv, d)] {
                let Some(result) = result else {
                    continue;
                };
                for j in x.keys(s, KEYS) {
                    let some = j..s.min(j + KEYS);
                    self.of
                        .put(result, (kv, some), (from.ptr, from.step / 4), n);
                }
            }
        }
    }
}

impl AmxBackward<'_> {
    /// Whether operands with these greatest magnitudes have finite sums.
    fn is_safe(&self, magnitudes: [f32; 4]) -> bool {
        let AttentionSizes { l, s, e, d, .. } = *self.of.of.sizes;
        let [k, v, q, g] = magnitudes.map(f64::from);
        let change = 2.0 * g * v * d as f64;
        let over = (l * self.of.of.sizes.group) as f64;
        are_safe(&[q * k * e as f64, change])
            && are_safe(&[change * q * over, change * k * s as f64, g * over])
    }

    /// What queries from `i` on and keys from `j` on add to each other's gradients.
    ///
    /// # Safety
    /// `at` must be memory of this layout with all that `head` puts there.
    unsafe fn block(
        &self,
        shared: &HeadSums,
        [i, j]: [usize; 2],
        at: *mut u8,
        blocks: &mut Blocks,
        prefetches: &mut [Prefetch],
    ) {
        let (to, sizes) = (&self.to, self.of.of.sizes);
        let AttentionSizes { l, e, d, reach, .. } = *sizes;
        // The choice leaves other windows to vector instructions.
        let causal = reach.is_some();
        let seen = sizes.seen();
        let rows = QUERIES.min(l - i);
        let mut keys = KEYS.min(seen - j);
        if causal {
            keys = keys.min((i + rows).saturating_sub(j));
        }
        if keys == 0 {
            return;
        }
        let [wants_q, wants_k, wants_v] = shared.wanted;
        let floats = |place: usize| at.wrapping_add(place).cast::<f32>();
        let (panels, of_queries) = (keys.div_ceil(SIDE), rows.div_ceil(STEP));
        // The first step of queries that see keys of a panel, and the steps of keys that queries of
        // a panel see.
        let since = |c: usize| match causal {
            true => (j + c * SIDE).saturating_sub(i) / STEP,
            false => 0,
        };
        let reach = |p: usize| match causal {
            true => panels.min((i + p * SIDE + SIDE).saturating_sub(j).div_ceil(STEP)),
            false => panels,
        };
        let (scores, grads) = (floats(to.scores), floats(to.grads));
        // SAFETY: the caller's promise.
        unsafe {
            for c in 0..panels {
                for (left, right, sums, terms) in [(to.k, to.q, scores, e), (to.v, to.g, grads, d)]
                {
                    let a = left.step(at, c, 0);
                    for p in since(c)..of_queries {
                        let b = right.step(at, i / SIDE + p, 0);
                        let sums = Sums {
                            ptr: sums.wrapping_add(p * SIDE),
                            step: 4 * to.ld,
                        };
                        fetch(prefetches);
                        blocks.sum(sums, false, terms.div_ceil(STEP), a, b, None);
                    }
                }
                blocks.end();
                let block = Weighed {
                    keys: keys.min(c * SIDE + SIDE) - c * SIDE,
                    since: since(c),
                    steps: of_queries,
                    // Query `n` sees key `r` from `r + hidden` on.
                    hidden: match causal {
                        true => (j + c * SIDE) as isize - i as isize,
                        false => isize::MIN / 2,
                    },
                    scores,
                    grads,
                    ld: to.ld,
                    lse: floats(to.lse).wrapping_add(i),
                    delta: floats(to.delta).wrapping_add(i),
                    weights: to.weights.step(at, c, 0),
                    changes: to.changes.step(at, c, 0),
                    columns: to.changes_of_columns.step(at, 0, c),
                    panel: to.changes_of_columns.panel,
                };
                block.weigh(shared.wanted);
            }
            for (wanted, left, right, sums, columns) in [
                (wants_v, to.weights, to.g_columns, shared.dv, d),
                (wants_k, to.changes, to.q_columns, shared.dk, e),
            ] {
                if !wanted {
                    continue;
                }
                for n in 0..columns.div_ceil(SIDE) {
                    for c in 0..panels {
                        let since = since(c);
                        if since >= of_queries {
                            continue;
                        }
                        // The first queries that see these keys start the sums.
                        let first = shared.fresh && (i == 0 || causal && i <= j + c * SIDE);
                        let sums = Sums {
                            ptr: sums
                                .ptr
                                .wrapping_byte_add((j + c * SIDE) * sums.step)
                                .wrapping_add(n * SIDE),
                            step: sums.step,
                        };
                        let a = left.step(at, c, since);
                        let b = right.step(at, n, i / STEP + since);
                        fetch(prefetches);
                        blocks.sum(sums, !first, of_queries - since, a, b, None);
                    }
                }
            }
            if wants_q {
                for p in 0..of_queries {
                    let b = to.changes_of_columns.step(at, p, 0);
                    for n in 0..to.e / SIDE {
                        let sums = Sums {
                            ptr: floats(to.dq).wrapping_add(n * SIDE * to.l + i + p * SIDE),
                            step: 4 * to.l,
                        };
                        let a = to.k_columns.step(at, n, 0);
                        if reach(p) > 0 {
                            blocks.sum(sums, j > 0, reach(p), a, b, None);
                        }
                    }
                }
            }
            blocks.end();
        }
    }
}

/// A panel of keys of a block.
struct Weighed {
    /// Rows that are keys.
    keys: usize,
    /// Steps of queries from the first one that sees any of them.
    since: usize,
    steps: usize,
    /// Query `n` sees row `r` if `n >= r + hidden`.
    hidden: isize,
    scores: *const f32,
    grads: *const f32,
    ld: usize,
    lse: *const f32,
    delta: *const f32,
    /// Where weights and changes of scores go, packed as left operands.
    weights: *mut u8,
    changes: *mut u8,
    /// Where the changes go, packed as a right operand, and bytes between its panels.
    columns: *mut u8,
    panel: usize,
}

impl Weighed {
    /// Makes scores into weights, `exp(score - lse)`, and their gradients into those of the scores,
    /// `weight * (gradient - delta)`, and packs both as far as queries, keys and values want them.
    ///
    /// # Safety
    /// All must be there, and the processor have AVX-512.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,fma")]
    unsafe fn weigh(&self, [wants_q, wants_k, wants_v]: [bool; 3]) {
        let mut none = _mm512_setzero_si512();
        for row in (0..SIDE).step_by(2) {
            for step in self.since..self.steps {
                let i = step * STEP;
                let mut pairs = [[[_mm512_setzero_si512(); 3]; 2]; 2];
                for (r, changes) in pairs.iter_mut().enumerate() {
                    let r = row + r;
                    let line = r / 16 * TILE + r % 16 * 64 + step * OF_STEP;
                    let mut weights = [[_mm512_setzero_si512(); 3]; 2];
                    for half in 0..2 {
                        let i = i + 16 * half;
                        // How many of these queries do not see the key.
                        let hidden = (r as isize + self.hidden - i as isize).clamp(0, 16);
                        let hidden = if r < self.keys { hidden as usize } else { 16 };
                        let seen = !first(hidden);
                        let at = r * self.ld + i;
                        // SAFETY: the caller's promise: rows and queries are whole steps.
                        unsafe {
                            let score = _mm512_loadu_ps(self.scores.wrapping_add(at));
                            let grad = _mm512_loadu_ps(self.grads.wrapping_add(at));
                            let lse = _mm512_loadu_ps(self.lse.wrapping_add(i));
                            let delta = _mm512_loadu_ps(self.delta.wrapping_add(i));
                            let weight = exponential(_mm512_sub_ps(score, lse));
                            let weight = _mm512_maskz_mov_ps(seen, weight);
                            let change =
                                _mm512_maskz_mul_ps(seen, weight, _mm512_sub_ps(grad, delta));
                            weights[half] = split(weight, &mut none);
                            changes[half] = split(change, &mut none);
                        }
                    }
                    // SAFETY: as above.
                    unsafe {
                        if wants_v {
                            let to = self.weights.wrapping_add(line);
                            put_parts_of_line(&weights[0], &weights[1], to);
                        }
                        if wants_k {
                            let to = self.changes.wrapping_add(line);
                            put_parts_of_line(&changes[0], &changes[1], to);
                        }
                    }
                }
                if wants_q {
                    let to = self.columns.wrapping_add(step * self.panel + row / 2 * 64);
                    for half in 0..2 {
                        let to = to.wrapping_add(half * TILE);
                        // SAFETY: as above.
                        unsafe {
                            put_parts_of_pair(&pairs[0][half], &pairs[1][half], to, 2 * TILE)
                        };
                    }
                }
            }
        }
    }
}

/// Writes the transpose of a matrix, times a factor: `rows` of `columns`.
///
/// # Safety
/// `from` must hold as many rows of `ld`, in whole blocks of 16 by 16, `to` the result, and the processor have
/// AVX-512.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,fma")]
unsafe fn turn(
    from: *const f32,
    ld: usize,
    factor: f32,
    to: *mut f32,
    steps: [isize; 2],
    [rows, columns]: [usize; 2],
) {
    let factor = _mm512_set1_ps(factor);
    for r in (0..rows).step_by(16) {
        for c in (0..columns).step_by(16) {
            let mut block = [_mm512_setzero_ps(); 16];
            for (n, x) in block.iter_mut().enumerate() {
                // SAFETY: the caller's promise.
                *x = unsafe { _mm512_loadu_ps(from.wrapping_add((c + n) * ld + r)) };
            }
            let block = transposed(block);
            for (n, &x) in block.iter().enumerate().take(rows - r) {
                let x = _mm512_mul_ps(x, factor);
                let to = to.wrapping_offset((r + n) as isize * steps[0] + c as isize * steps[1]);
                // SAFETY: as above.
                unsafe {
                    if steps[1] == 1 {
                        _mm512_mask_storeu_ps(to, first(columns - c), x);
                        continue;
                    }
                    let mut each = [0f32; 16];
                    _mm512_storeu_ps(each.as_mut_ptr(), x);
                    for (n, x) in each.into_iter().enumerate().take(columns - c) {
                        *to.wrapping_offset(n as isize * steps[1]) = x;
                    }
                }
            }
        }
    }
}
