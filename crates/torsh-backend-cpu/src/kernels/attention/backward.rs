//! The gradients of attention: the scores anew, block by block.

use torsh_core::{DType, KernelArgs, Result, attrs, pool};

use super::number::Number;
use super::operand::{Columns, Mask, Matrices, Results, up};
use super::scores::{LANES, Scores};
use super::{Sizes, by_heads};
use crate::kernels::panels::{Band, Product, Rows, Soon, copy_rows, pack_rows};
use crate::machine::tuning::attention_backward::{GRAIN, KEYS, QUERIES};
use crate::memory::dense::{Ptr, Scratch, missing};
use crate::simd::level;

pub(super) fn run<T: Number>(args: &KernelArgs<'_>, sizes: &Sizes, dtype: DType) -> Result<()> {
    let ([dq, dk, dv], [q, k, v, mask, g, out, lse]) = (args.outputs(), args.inputs()) else {
        return Err(missing());
    };
    let a = args.attrs::<attrs::AttentionBackward>()?;
    let wanted = [a.query_grad, a.key_grad, a.value_grad];
    let (lead, lead_kv) = (&sizes.lead[..], &sizes.lead_kv[..]);
    let result = |i: usize, view, lead| match wanted[i] {
        true => Results::<T>::new(view, dtype, lead).map(Some),
        false => Ok(None),
    };
    let [dq, dk, dv] = [
        result(0, dq, lead)?,
        result(1, dk, lead_kv)?,
        result(2, dv, lead_kv)?,
    ];
    let call = Backward::<T> {
        g: Matrices::new(g, dtype, lead)?,
        q: Matrices::new(q, dtype, lead)?,
        k: Matrices::new(k, dtype, lead_kv)?,
        v: Matrices::new(v, dtype, lead_kv)?,
        mask: Mask::new(Some(mask), dtype, lead)?,
        out: Matrices::new(out, dtype, lead)?,
        lse: Ptr::new(lse.ptr().cast()),
        dq: dq.as_ref().map(|r| &r.to),
        dk: dk.as_ref().map(|r| &r.to),
        dv: dv.as_ref().map(|r| &r.to),
        width: T::width(level()),
        sizes,
    };
    let heads = sizes.heads_kv();
    let work = sizes.group * sizes.l * sizes.seen() * (sizes.e + sizes.d);
    let enough = heads.saturating_mul(work) > GRAIN;
    let threads = match enough && !pool::in_parallel() {
        true => pool::num_threads(),
        false => 1,
    };
    let each = call.layout();
    let scratch = Scratch::<T>::new(threads * each.total)?;
    let start = Ptr::new(scratch.ptr());
    let at = |part: usize| start.at((part * each.total) as isize);
    by_heads(heads, threads, &|x| {
        // SAFETY: the operands have the sizes that the record planned, the scratch memory what
        // `layout` says; each call writes rows of its own.
        unsafe { call.head(x.head, x.next, at(x.part), &each, x.of, x.blocks) };
    });
    for result in [dq, dk, dv].into_iter().flatten() {
        result.finish()?;
    }
    Ok(())
}

/// The operands of a call.
struct Backward<'a, T> {
    g: Matrices<T>,
    q: Matrices<T>,
    k: Matrices<T>,
    v: Matrices<T>,
    mask: Option<Mask<T>>,
    out: Matrices<T>,
    lse: Ptr<T>,
    dq: Option<&'a Matrices<T>>,
    dk: Option<&'a Matrices<T>>,
    dv: Option<&'a Matrices<T>>,
    width: usize,
    sizes: &'a Sizes,
}

/// What the blocks of a head of the query share.
struct Shared<T> {
    head: usize,
    /// Gradients, queries and keys, as far as somebody asks for what they go into.
    columns: [Option<Columns<T>>; 3],
    /// Where the sums for the gradients of keys and values are.
    sums: [*mut T; 2],
    /// Whether these are the first sums.
    fresh: bool,
}

/// Where things lie in a thread's memory.
struct Layout {
    /// Keys and values in panels of rows, and keys in panels of columns where they do not lie as
    /// such.
    k_rows: usize,
    v_rows: usize,
    k_columns: usize,
    /// Scaled queries as rows, and queries and gradients in panels of columns where they do not lie as
    /// such.
    q: usize,
    q_columns: usize,
    g_columns: usize,
    /// Products of gradient and result, summed over a row.
    delta: usize,
    dq: usize,
    /// Sums over queries that cannot be where the result is.
    dk: usize,
    dv: usize,
    scores: usize,
    grads: usize,
    ld: usize,
    /// Columns of queries and of values, rounded up to panels.
    e: usize,
    d: usize,
    total: usize,
}

impl<T: Number> Backward<'_, T> {
    fn layout(&self) -> Layout {
        let Sizes { l, e, d, .. } = *self.sizes;
        let seen = self.sizes.seen();
        let (e_up, d_up) = (up(e, self.width), up(d, self.width));
        let ld = up(seen.min(KEYS), self.width.max(LANES)) + LANES;
        let rows = QUERIES.min(l);
        let (to_q, to_k, to_v) = (self.dq.is_some(), self.dk.is_some(), self.dv.is_some());
        let apart = |steps, columns| !Columns::<T>::lie(steps, columns, self.width);
        let mut total = 0;
        let mut place = |wanted: bool, n: usize| {
            let at = total;
            total += if wanted { up(n, 64) } else { 0 };
            at
        };
        Layout {
            k_rows: place(true, up(seen, self.width) * e),
            v_rows: place(true, up(seen, self.width) * d),
            k_columns: place(to_q && apart(self.k.steps, e), seen * e_up),
            q: place(true, l * e),
            q_columns: place(to_k && apart([e as isize, 1], e), l * e_up),
            g_columns: place(to_v && apart(self.g.steps, d), l * d_up),
            delta: place(true, l),
            dq: place(to_q, l * e_up),
            dk: place(self.dk.is_some_and(|dk| apart(dk.steps, e)), seen * e_up),
            dv: place(self.dv.is_some_and(|dv| apart(dv.steps, d)), seen * d_up),
            scores: place(true, rows * ld),
            grads: place(true, rows * ld),
            ld,
            e: e_up,
            d: d_up,
            total,
        }
    }

    /// The gradients that a head of key and value takes part in: those of its queries, and those
    /// of its keys and values; of the `part`-th of every `parts` blocks of them. Asks for what the head
    /// `next` reads and writes first.
    ///
    /// # Safety
    /// `at` must be memory of this layout, and blocks be nobody else's.
    unsafe fn head(
        &self,
        kv: usize,
        next: Option<usize>,
        at: *mut T,
        to: &Layout,
        [queries, keys]: [bool; 2],
        [part, parts]: [usize; 2],
    ) {
        let Sizes {
            l,
            s,
            e,
            d,
            group,
            scale,
            ..
        } = *self.sizes;
        let seen = self.sizes.seen();
        let dq = self.dq.filter(|_| queries);
        let (dk, dv) = (self.dk.filter(|_| keys), self.dv.filter(|_| keys));
        if dq.is_none() && dk.is_none() && dv.is_none() {
            return;
        }
        let mine = |block: usize| block % parts == part;
        let place = |n: usize| at.wrapping_add(n);
        let (k, v) = (self.k.head(kv), self.v.head(kv));
        // SAFETY: the caller's promise.
        unsafe {
            pack_rows(k, self.k.steps, [seen, e], self.width, place(to.k_rows));
            pack_rows(v, self.v.steps, [seen, d], self.width, place(to.v_rows));
            // What nobody asks for is not packed.
            let columns = |wanted: bool, rows: &Rows<T>, at: usize| {
                wanted.then(|| Columns::new(rows, self.width, place(at)))
            };
            let k_columns = columns(dq.is_some(), &self.k.rows(kv, [seen, e]), to.k_columns);
            // Where the sums over queries are: in the result if that has whole panels.
            let sums = [(dk, to.dk, e), (dv, to.dv, d)].map(|(result, at, n)| match result {
                Some(result) if Columns::<T>::lie(result.steps, n, self.width) => result.head(kv),
                _ => place(at),
            });
            for head in kv * group..(kv + 1) * group {
                let factor = T::c(scale);
                let q = Rows {
                    factor,
                    ..self.q.rows(head, [l, e])
                };
                copy_rows(&q, place(to.q), [e as isize, 1]);
                let q = Rows {
                    from: place(to.q).cast_const(),
                    steps: [e as isize, 1],
                    factor: T::ONE,
                    ..q
                };
                let g = self.g.rows(head, [l, d]);
                let columns = [
                    columns(dv.is_some(), &g, to.g_columns),
                    columns(dk.is_some(), &q, to.q_columns),
                    k_columns,
                ];
                let g = g.from;
                let out = self.out.head(head);
                for i in 0..l as isize {
                    let g = g.wrapping_offset(i * self.g.steps[0]);
                    let out = out.wrapping_offset(i * self.out.steps[0]);
                    let steps = [self.g.steps[1], self.out.steps[1]];
                    *place(to.delta).wrapping_offset(i) = T::dot(g, out, steps, d);
                }
                let shared = Shared {
                    head,
                    columns,
                    sums,
                    fresh: head == kv * group,
                };
                let last = head + 1 == (kv + 1) * group;
                // A part of a head would ask for what others write.
                let result = |to: Option<&Matrices<T>>, head: usize, sizes: [usize; 2]| match to {
                    Some(to) if parts == 1 => to.soon(head, 0, sizes),
                    _ => Soon::NOTHING,
                };
                let mut soon = [Soon::NOTHING; 8];
                soon[0] = result(dq, head, [l, e]);
                if let Some(kv) = next.filter(|_| last) {
                    soon[1..].copy_from_slice(&[
                        self.k.soon(kv, 0, [seen, e]),
                        self.v.soon(kv, 0, [seen, d]),
                        self.q.soon(kv * group, 0, [l, e]),
                        self.g.soon(kv * group, 0, [l, d]),
                        self.out.soon(kv * group, 0, [l, d]),
                        result(dk, kv, [seen, e]),
                        result(dv, kv, [seen, d]),
                    ]);
                }
                for j in (0..seen)
                    .step_by(KEYS)
                    .filter(|&j| queries || mine(j / KEYS))
                {
                    // What comes too early leaves the cache again.
                    let soon: &mut [Soon] = if j >= seen / 2 { &mut soon } else { &mut [] };
                    for i in (0..l)
                        .step_by(QUERIES)
                        .filter(|&i| keys || mine(i / QUERIES))
                    {
                        self.block(&shared, [i, j], at, to, soon);
                    }
                }
                if let Some(dq) = dq {
                    for i in (0..l)
                        .step_by(QUERIES)
                        .filter(|&i| keys || mine(i / QUERIES))
                    {
                        let rows = Rows {
                            from: place(to.dq).wrapping_add(i * to.e).cast_const(),
                            steps: [to.e as isize, 1],
                            sizes: [QUERIES.min(l - i), e],
                            factor,
                            factors: std::ptr::null(),
                        };
                        let out = dq.head(head).wrapping_offset(i as isize * dq.steps[0]);
                        copy_rows(&rows, out, dq.steps);
                    }
                }
            }
            for (result, from, ld, n) in [(dk, sums[0], to.e, e), (dv, sums[1], to.d, d)] {
                let Some(result) = result else { continue };
                for j in (0..s).step_by(KEYS).filter(|&j| queries || mine(j / KEYS)) {
                    let out = result
                        .head(kv)
                        .wrapping_offset(j as isize * result.steps[0]);
                    let some = KEYS.min(s - j).min(seen.saturating_sub(j));
                    let rows = Rows {
                        from: from.wrapping_add(j * ld).cast_const(),
                        steps: [ld as isize, 1],
                        sizes: [some, n],
                        factor: T::ONE,
                        factors: std::ptr::null(),
                    };
                    if from != result.head(kv) {
                        copy_rows(&rows, out, result.steps);
                    }
                    // Keys that no query sees.
                    for r in some..KEYS.min(s - j) {
                        for c in 0..n as isize {
                            let at = r as isize * result.steps[0] + c * result.steps[1];
                            *out.wrapping_offset(at) = T::ZERO;
                        }
                    }
                }
            }
        }
    }

    /// What queries from `i` on and keys from `j` on add to each other's gradients.
    ///
    /// # Safety
    /// `at` must be memory of this layout with all that `head` puts there.
    unsafe fn block(
        &self,
        shared: &Shared<T>,
        [i, j]: [usize; 2],
        at: *mut T,
        to: &Layout,
        soon: &mut [Soon],
    ) {
        let Shared {
            head,
            columns: [g_columns, q_columns, k_columns],
            sums: [dk, dv],
            fresh,
        } = *shared;
        let Sizes {
            l, e, d, causal, ..
        } = *self.sizes;
        let seen = self.sizes.seen();
        let rows = QUERIES.min(l - i);
        let mut keys = KEYS.min(seen - j);
        if causal {
            keys = keys.min((i + rows).saturating_sub(j));
        }
        if keys == 0 {
            return;
        }
        let place = |n: usize| at.wrapping_add(n);
        let d_ij = i as isize - j as isize;
        let band = |b: fn(isize) -> Band| if causal { b(d_ij) } else { Band::All };
        let (scores, grads) = (place(to.scores), place(to.grads));
        let of_scores = Product {
            m: rows,
            n: keys,
            k: e,
            a: place(to.q).wrapping_add(i * e).cast_const(),
            steps: [e as isize, 1],
            b: place(to.k_rows).wrapping_add(j * e).cast_const(),
            right: [e * self.width, self.width],
            c: scores,
            ld: to.ld,
            add: false,
            band: band(Band::Columns),
        };
        let of_grads = Product {
            k: d,
            a: self
                .g
                .head(head)
                .wrapping_offset(i as isize * self.g.steps[0]),
            steps: self.g.steps,
            b: place(to.v_rows).wrapping_add(j * d),
            right: [d * self.width, self.width],
            c: grads,
            ..of_scores
        };
        let block = Scores {
            rows,
            keys,
            reach: if causal { d_ij + 1 } else { isize::MAX },
            at: scores,
            ld: to.ld,
        };
        // Sums over the block's queries, for its keys; the first ones of them start the sums, with none
        // for the keys that only later queries see.
        let first = fresh && if causal { i <= j } else { i == 0 };
        let across = |from: *mut T, right: &Columns<T>, sums: *mut T, n: usize, ld: usize| {
            let c = sums.wrapping_add(j * ld);
            if first {
                let end = KEYS.min(seen - j);
                // SAFETY: the caller's promise: there are sums for all keys.
                (keys * ld..end * ld).for_each(|i| unsafe { *c.wrapping_add(i) = T::ZERO });
            }
            Product {
                m: keys,
                n,
                k: rows,
                a: from.cast_const(),
                steps: [1, to.ld as isize],
                b: right.from(i),
                right: right.steps,
                c,
                ld,
                add: !first,
                band: band(Band::Since),
            }
        };
        // SAFETY: the caller's promise.
        unsafe {
            T::product_with(&of_scores, soon);
            if let Some(mask) = &self.mask {
                mask.apply(head, [i, rows], [j, keys], scores, to.ld);
            }
            T::product_with(&of_grads, soon);
            let lse = self.lse.at((head * l + i) as isize);
            T::weigh_back(&block, grads, lse, place(to.delta).wrapping_add(i));
            if let Some(g_columns) = g_columns {
                T::product_with(&across(scores, &g_columns, dv, d, to.d), soon);
            }
            if let Some(q_columns) = q_columns {
                T::product_with(&across(grads, &q_columns, dk, e, to.e), soon);
            }
            if let Some(k_columns) = k_columns {
                T::product_with(
                    &Product {
                        m: rows,
                        n: e,
                        k: keys,
                        a: grads,
                        steps: [to.ld as isize, 1],
                        b: k_columns.from(j),
                        right: k_columns.steps,
                        c: place(to.dq).wrapping_add(i * to.e),
                        ld: to.e,
                        add: j > 0,
                        band: band(Band::Terms),
                    },
                    soon,
                );
            }
        }
    }
}
