//! The results.

use std::arch::x86_64::*;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use torsh_core::{DType, KernelArgs, Result, pool};

use super::super::number::Number;
use super::super::operand::{Mask, Matrices, Results, up};
use super::super::scores::{self, LANES, Scores, Vector, cut, greatest, whole};
use super::super::{Sizes, block_of, in_units};
use super::{Packed, Places, are_safe, exponential};
use crate::kernels::matmul::amx::pack::{first, put_line, put_parts_of_line, split};
use crate::kernels::matmul::amx::{Ahead, Blocks, OF_STEP, SIDE, STEP, Sums, TILE};
use crate::kernels::panels::{Panels, Rows, Soon, fetch_lines, take};
use crate::machine::tuning::attention_amx_forward::{FETCHED, GRAIN, KEYS, QUERIES, STRETCH};
use crate::memory::dense::{Ptr, Scratch, missing};

pub(super) fn run(args: &KernelArgs<'_>, sizes: &Sizes) -> Result<bool> {
    let ([out, lse], [q, k, v, mask]) = (args.outputs(), args.inputs()) else {
        return Err(missing());
    };
    let dtype = DType::F32;
    let lead = &sizes.lead[..];
    let result = Results::new(out, dtype, lead)?;
    let call = Forward {
        q: Matrices::new(q, dtype, lead)?,
        k: Matrices::new(k, dtype, &sizes.lead_kv)?,
        v: Matrices::new(v, dtype, &sizes.lead_kv)?,
        mask: Mask::new(Some(mask), dtype, lead)?,
        out: &result.to,
        lse: Ptr::new(lse.ptr().cast()),
        sizes,
        failed: AtomicBool::new(false),
    };
    let blocks = sizes.l.div_ceil(QUERIES);
    // How many of some rows are asked for before the block that comes `nth`: as many in each, or where
    // each sees more than the one above, as many more.
    let share = |nth: usize, rows: usize| match sizes.causal && blocks > 1 {
        true => {
            let pairs = nth / 2 * (blocks - 1) + nth % 2 * (nth / 2);
            rows * pairs / (blocks * (blocks - 1) / 2)
        }
        false => rows * nth / blocks,
    };
    let items = lead.iter().product::<usize>() * blocks;
    let unit = sizes.group * blocks;
    let work = QUERIES.min(sizes.l) * sizes.seen() * (sizes.e + sizes.d);
    let parts = pool::chunk_count(items, (GRAIN / work.max(1)).max(1));
    let each = call.layout();
    let scratch = Scratch::<u8>::new(parts * each.total)?;
    let start = Ptr::new(scratch.ptr());
    // Some blocks, and the first one of those that come after them.
    let run = |part: usize, range: Range<usize>, after: Option<usize>| {
        let at = start.at((part * each.total) as isize);
        let mut packed = None;
        let last = range.end - 1;
        let of = |item: usize| {
            let (head, block) = block_of(item, blocks);
            (head, block * QUERIES)
        };
        for item in range {
            let ((head, i), nth) = (of(item), item % blocks);
            let kv = head / sizes.group;
            // SAFETY: the operands have the sizes that the record planned, the scratch memory what
            // `layout` says, and the unit is there.
            unsafe {
                if packed != Some(kv) {
                    call.pack(kv, at, &each);
                    packed = Some(kv);
                }
                let mut soon = [Soon::NOTHING; 4];
                soon[0] = call.out.soon(head, i, [QUERIES.min(sizes.l - i), sizes.d]);
                let next = match item < last {
                    true => Some(of(item + 1)),
                    false => after.map(of),
                };
                if let Some((head, i)) = next {
                    soon[1] = call.q.soon(head, i, [QUERIES.min(sizes.l - i), sizes.e]);
                }
                if let Some(next) = after.filter(|_| item + blocks > last) {
                    let next = next / unit;
                    let [first, end] = [nth, nth + 1].map(|nth| share(nth, sizes.seen()));
                    let rows = end - first;
                    soon[2] = call.k.soon(next, first, [rows, sizes.e]);
                    soon[3] = call.v.soon(next, first, [rows, sizes.d]);
                }
                call.block(head, i, at, &each, &mut soon);
            }
        }
    };
    in_units([items, unit, parts], &run);
    if call.failed.load(Ordering::Relaxed) {
        return Ok(false);
    }
    result.finish()?;
    Ok(true)
}

/// The operands of a call.
struct Forward<'a> {
    q: Matrices<f32>,
    k: Matrices<f32>,
    v: Matrices<f32>,
    mask: Option<Mask<f32>>,
    out: &'a Matrices<f32>,
    lse: Ptr<f32>,
    sizes: &'a Sizes,
    /// Whether some head was not for the unit.
    failed: AtomicBool,
}

/// Where things lie in a thread's memory.
struct Layout {
    keys: Packed,
    values: Packed,
    /// The greatest magnitudes of both.
    magnitudes: usize,
    /// The queries of a block, scaled, and these packed.
    scaled: usize,
    queries: Packed,
    scores: usize,
    /// Numbers from row to row of scores and of sums.
    ld: usize,
    columns: usize,
    /// Weights of a panel of queries and a stretch of keys, and of the next ones.
    weights: Packed,
    sums: usize,
    rows: usize,
    total: usize,
}

impl Forward<'_> {
    fn layout(&self) -> Layout {
        let Sizes { l, e, d, .. } = *self.sizes;
        let seen = self.sizes.seen();
        let rows = up(QUERIES.min(l), SIDE);
        let keys = up(KEYS.min(seen), SIDE);
        // Rows of a power of two would be in few sets of the first-level cache.
        let (ld, columns) = (keys + LANES, up(d, SIDE));
        let mut places = Places::default();
        Layout {
            keys: places.packed(seen, e),
            values: places.packed(d, seen),
            magnitudes: places.floats(2),
            scaled: places.floats(rows * e),
            queries: places.packed(rows, e),
            scores: places.floats(rows * ld),
            ld,
            columns,
            weights: places.packed(2 * SIDE, STRETCH * STEP),
            sums: places.floats(rows * columns),
            rows: places.floats((3 + LANES) * rows),
            total: places.total,
        }
    }

    /// Packs the keys and values of a head.
    ///
    /// # Safety
    /// `at` must be memory of this layout, the head one of key and value, and the unit be there.
    unsafe fn pack(&self, head: usize, at: *mut u8, to: &Layout) {
        let Sizes { e, d, .. } = *self.sizes;
        let seen = self.sizes.seen();
        let magnitudes = at.wrapping_add(to.magnitudes).cast::<f32>();
        // SAFETY: the caller's promise.
        unsafe {
            let k = self.k.head(head);
            *magnitudes = to.keys.fill::<true>(at, k, self.k.steps, [seen, e]);
            let [row, column] = self.v.steps;
            let v = self.v.head(head);
            *magnitudes.wrapping_add(1) = to.values.fill::<true>(at, v, [column, row], [d, seen]);
        }
    }

    /// The results of a block of queries from `i` on.
    ///
    /// # Safety
    /// `at` must be memory of this layout with the packed keys and values of the head's.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,fma")]
    unsafe fn block(&self, head: usize, i: usize, at: *mut u8, to: &Layout, soon: &mut [Soon]) {
        let Sizes {
            l,
            e,
            d,
            causal,
            scale,
            ..
        } = *self.sizes;
        let (rows, seen) = (QUERIES.min(l - i), self.sizes.seen());
        let keys_end = if causal { seen.min(i + rows) } else { seen };
        let floats = |place: usize| at.wrapping_add(place).cast::<f32>();
        let (scores, sums) = (floats(to.scores), floats(to.sums));
        let each = |n: usize| floats(to.rows).wrapping_add(n * up(QUERIES.min(l), SIDE));
        let each = scores::Rows {
            most: each(0),
            sum: each(1),
            before: each(2),
            added: each(3),
        };
        let panels = rows.div_ceil(SIDE);
        // Lines that are asked for before other products: half as many have as much to ask for.
        let lines = if causal { 16 } else { 8 };
        let of_steps = e.div_ceil(STEP);
        // SAFETY: the caller's promise.
        unsafe {
            let q = self.q.rows(head, [l, e]);
            let q = Rows {
                from: q.from.wrapping_offset(i as isize * self.q.steps[0]),
                sizes: [rows, e],
                factor: scale as f32,
                ..q
            };
            let most = if q.steps[1] == 1 {
                pack_scaled(&q, &to.queries, at)
            } else {
                let scaled = floats(to.scaled);
                f32::copy_rows(&q, scaled, [e as isize, 1]);
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
                        let ahead = match take(soon, FETCHED * (of_steps - 1)) {
                            Some(ptr) => Ahead { ptr, step: 128 },
                            None => {
                                fetch_lines(soon, lines);
                                Ahead { ptr: left, step: 0 }
                            }
                        };
                        blocks.sum(sums, false, of_steps, left, right, Some(ahead));
                    }
                }
                blocks.end();
                if let Some(mask) = &self.mask {
                    mask.apply(head, [i, rows], [j, keys], scores, to.ld);
                }
                let d_ij = i as isize - j as isize;
                let block = Scores {
                    rows,
                    keys,
                    reach: if causal { d_ij + 1 } else { isize::MAX },
                    at: scores,
                    ld: to.ld,
                };
                let before = if j == 0 { std::ptr::null_mut() } else { sums };
                greatest_of(&block, &each, before, to.columns);
                // A stretch of keys after the other, each for one panel of queries after the other. The
                // weights of the next one are made while the unit multiplies.
                let stretches = keys.div_ceil(STEP).div_ceil(STRETCH);
                let mut of = (0..stretches * panels).map(|n| (n / panels * STRETCH, n % panels));
                let mut of = of.by_ref().filter_map(|(s, p)| {
                    let steps = STRETCH.min(reach(p).saturating_sub(s));
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
                        fetch_lines(soon, lines);
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
                    *each.sum.wrapping_add(r) += Vector::<f32>::total(_mm512_loadu_ps(added));
                }
                blocks.end();
            }
            blocks.release();
            let lse = self.lse.at((head * l + i) as isize);
            f32::finish(&each, rows, lse);
            let sums = Rows {
                from: sums.cast_const(),
                steps: [to.columns as isize, 1],
                sizes: [rows, d],
                factor: 1.0,
                factors: each.sum,
            };
            let out = self
                .out
                .head(head)
                .wrapping_offset(i as isize * self.out.steps[0]);
            f32::copy_rows(&sums, out, self.out.steps);
        }
    }
}

/// Packs rows of adjacent numbers times their factor. Gives the greatest magnitude.
///
/// # Safety
/// The rows must be there, and `at` be memory with room for the packed ones; the processor has AVX-512.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,fma")]
unsafe fn pack_scaled(q: &Rows<f32>, to: &Packed, at: *mut u8) -> f32 {
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
unsafe fn greatest_of(s: &Scores<f32>, rows: &scores::Rows<f32>, out: *mut f32, width: usize) {
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
    rows: scores::Rows<f32>,
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
