//! The results of attention.

use std::ops::Range;

use torsh_core::{DType, KernelArgs, Result, pool};

use super::number::Number;
use super::operand::{Columns, Mask, Matrices, Results, up};
use super::scores::{self, LANES, Scores};
use super::{Sizes, block_of, in_units};
use crate::kernels::panels::{Band, Product, Rows, Soon, copy_rows, pack_rows};
use crate::machine::tuning::attention_forward::{GRAIN, KEYS, QUERIES};
use crate::memory::dense::{Ptr, Scratch, missing};
use crate::simd::level;

pub(super) fn run<T: Number>(args: &KernelArgs<'_>, sizes: &Sizes, dtype: DType) -> Result<()> {
    let ([out, lse], [q, k, v, mask]) = (args.outputs(), args.inputs()) else {
        return Err(missing());
    };
    let lead = &sizes.lead[..];
    let result = Results::new(out, dtype, lead)?;
    let call = Forward::<T> {
        q: Matrices::new(q, dtype, lead)?,
        k: Matrices::new(k, dtype, &sizes.lead_kv)?,
        v: Matrices::new(v, dtype, &sizes.lead_kv)?,
        mask: Mask::new(Some(mask), dtype, lead)?,
        out: &result.to,
        lse: Ptr::new(lse.ptr().cast()),
        width: T::width(level()),
        sizes,
    };
    let blocks = sizes.l.div_ceil(QUERIES);
    let items = lead.iter().product::<usize>() * blocks;
    let work = QUERIES.min(sizes.l) * sizes.seen() * (sizes.e + sizes.d);
    let parts = pool::chunk_count(items, (GRAIN / work.max(1)).max(1));
    let each = call.layout();
    let scratch = Scratch::<T>::new(parts * each.total)?;
    let start = Ptr::new(scratch.ptr());
    // Some items, and the first one of those that come after them.
    let run = |part: usize, range: Range<usize>, after: Option<usize>| {
        let at = start.at((part * each.total) as isize);
        let mut packed = None;
        let of = |item: usize| {
            let (head, block) = block_of(item, blocks);
            (head, block * QUERIES)
        };
        let end = range.end;
        for item in range {
            let (head, i) = of(item);
            let next = if item + 1 < end {
                Some(item + 1)
            } else {
                after
            };
            let next_head = if (head + 1) * blocks < end {
                Some(head + 1)
            } else {
                after.map(|item| item / blocks)
            };
            // SAFETY: the operands have the sizes that the record planned, the scratch memory what
            // `layout` says.
            unsafe {
                let kv = head / sizes.group;
                let values = match packed {
                    Some((of, values)) if of == kv => values,
                    _ => call.pack(kv, at, &each),
                };
                packed = Some((kv, values));
                let mut soon =
                    call.soon([head, i], next.map(of), [item % blocks, blocks], next_head);
                call.block(head, i, &values, at, &each, &mut soon);
            }
        }
    };
    in_units([items, sizes.group * blocks, parts], &run);
    result.finish()
}

/// The operands of a call.
struct Forward<'a, T> {
    q: Matrices<T>,
    k: Matrices<T>,
    v: Matrices<T>,
    mask: Option<Mask<T>>,
    out: &'a Matrices<T>,
    lse: Ptr<T>,
    width: usize,
    sizes: &'a Sizes,
}

/// Where things lie in a thread's memory; keys come first.
struct Layout {
    /// Values in panels of columns where they do not lie as such.
    values: usize,
    queries: usize,
    scores: usize,
    sums: usize,
    rows: usize,
    ld: usize,
    columns: usize,
    total: usize,
}

impl<T: Number> Forward<'_, T> {
    fn layout(&self) -> Layout {
        let Sizes { l, e, d, .. } = *self.sizes;
        let seen = self.sizes.seen();
        let rows = QUERIES.min(l);
        let columns = up(d, self.width);
        let ld = up(seen.min(KEYS), self.width.max(LANES)) + LANES;
        let mut total = 0;
        let mut place = |n: usize| {
            let at = total;
            total += up(n, 64);
            at
        };
        place(up(seen, self.width) * e);
        let lie = Columns::<T>::lie(self.v.steps, d, self.width);
        Layout {
            values: place(if lie { 0 } else { seen * columns }),
            queries: place(rows * e),
            scores: place(rows * ld),
            sums: place(rows * columns),
            rows: place(4 * up(rows, LANES)),
            ld,
            columns,
            total,
        }
    }

    /// Packs the keys of a head, and its values where they do not lie in panels.
    ///
    /// # Safety
    /// `at` must be memory of this layout, the head one of key and value.
    unsafe fn pack(&self, head: usize, at: *mut T, to: &Layout) -> Columns<T> {
        let Sizes { e, d, .. } = *self.sizes;
        let (k, n) = (self.k.head(head), self.sizes.seen());
        let values = at.wrapping_add(to.values);
        // SAFETY: the caller's promise.
        unsafe {
            pack_rows(k, self.k.steps, [n, e], self.width, at);
            Columns::new(&self.v.rows(head, [n, d]), self.width, values)
        }
    }

    /// What is read and written after the products of a block: its results, the next block's
    /// queries, and where the next head has keys and values of its own, as much of them as falls to
    /// this block.
    fn soon(
        &self,
        [head, i]: [usize; 2],
        next: Option<(usize, usize)>,
        [block, blocks]: [usize; 2],
        next_head: Option<usize>,
    ) -> [Soon; 4] {
        let Sizes { l, e, d, group, .. } = *self.sizes;
        let mut soon = [Soon::NOTHING; 4];
        soon[0] = self.out.soon(head, i, [QUERIES.min(l - i), d]);
        if let Some((head, i)) = next {
            soon[1] = self.q.soon(head, i, [QUERIES.min(l - i), e]);
        }
        if let Some(kv) = next_head
            .map(|h| h / group)
            .filter(|&kv| kv != head / group)
        {
            let seen = self.sizes.seen();
            let rows = seen.div_ceil(blocks);
            let first = (block * rows).min(seen);
            let rows = rows.min(seen - first);
            soon[2] = self.k.soon(kv, first, [rows, e]);
            soon[3] = self.v.soon(kv, first, [rows, d]);
        }
        soon
    }

    /// The results of a block of queries from `i` on.
    ///
    /// # Safety
    /// `at` must be memory of this layout with the packed keys and values of the head's.
    unsafe fn block(
        &self,
        head: usize,
        i: usize,
        values: &Columns<T>,
        at: *mut T,
        to: &Layout,
        soon: &mut [Soon],
    ) {
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
        let place = |n: usize| at.wrapping_add(n);
        let (queries, scores, sums) = (place(to.queries), place(to.scores), place(to.sums));
        let each = |n: usize| place(to.rows + n * up(QUERIES.min(l), LANES));
        let each = scores::Rows {
            most: each(0),
            sum: each(1),
            before: each(2),
            added: each(3),
        };
        let q = self
            .q
            .head(head)
            .wrapping_offset(i as isize * self.q.steps[0]);
        // SAFETY: the caller's promise.
        unsafe {
            let q = Rows {
                from: q.cast_const(),
                steps: self.q.steps,
                sizes: [rows, e],
                factor: T::c(scale),
                factors: std::ptr::null(),
            };
            copy_rows(&q, queries, [e as isize, 1]);
            for j in (0..keys_end).step_by(KEYS) {
                let keys = KEYS.min(keys_end - j);
                let d_ij = i as isize - j as isize;
                let band = |b: fn(isize) -> Band| if causal { b(d_ij) } else { Band::All };
                T::product_with(
                    &Product {
                        m: rows,
                        n: keys,
                        k: e,
                        a: queries,
                        steps: [e as isize, 1],
                        b: at.wrapping_add(j * e),
                        right: [e * self.width, self.width],
                        c: scores,
                        ld: to.ld,
                        add: false,
                        band: band(Band::Columns),
                    },
                    soon,
                );
                if let Some(mask) = &self.mask {
                    mask.apply(head, [i, rows], [j, keys], scores, to.ld);
                }
                let block = Scores {
                    rows,
                    keys,
                    reach: if causal { d_ij + 1 } else { isize::MAX },
                    at: scores,
                    ld: to.ld,
                };
                let before = if j == 0 { std::ptr::null_mut() } else { sums };
                T::weigh(&block, &each, before, to.columns);
                T::product_with(
                    &Product {
                        m: rows,
                        n: d,
                        k: keys,
                        a: scores,
                        steps: [to.ld as isize, 1],
                        b: values.from(j),
                        right: values.steps,
                        c: sums,
                        ld: to.columns,
                        add: j > 0,
                        band: band(Band::Terms),
                    },
                    soon,
                );
            }
            let lse = self.lse.at((head * l + i) as isize);
            T::finish(&each, rows, lse);
            let sums = Rows {
                from: sums.cast_const(),
                steps: [to.columns as isize, 1],
                sizes: [rows, d],
                factor: T::ONE,
                factors: each.sum,
            };
            let out = self
                .out
                .head(head)
                .wrapping_offset(i as isize * self.out.steps[0]);
            copy_rows(&sums, out, self.out.steps);
        }
    }
}
