//! Runs a reduction over its loop nest: which loop is inner, blocks, threads.
//!
//! Results are computed in blocks of neighbours. In *rows* mode each folds its own elements, a
//! contiguous run at a time; in *columns* mode (the kept dimension is the one that is close in
//! memory) a block folds one row of the input after the other, all columns at once. Few results
//! are split over threads by their elements, and the parts merged in order.

use std::mem::{MaybeUninit, size_of};
use std::ops::Range;

use torsh_core::machine::machine;
use torsh_core::{Result, View, alloc, pool};

use super::choose::{ReduceAlgorithm, ReduceProblem, ReduceSplit, SplitProblem};
use super::load::{Load, Out};
use super::plan::{Dim, ReducePlan, ReduceWalk};
use crate::machine::choice::pick;
use crate::machine::tuning::reduce::{
    BANDS, BUFFER, CHAIN, GRAIN, LIGHT, PART, PARTS, ROWS, SHORT_KEPT,
};
pub(crate) use crate::machine::tuning::reduce::{RUN, SHORT, WIDTH};
use crate::memory::blocks;
use crate::memory::stream;
use crate::memory::transpose;
use crate::multiversion;
use crate::simd::{Arch, Level};

/// Bytes of the largest state.
const STATE: usize = 32;

/// What the loops and the writing of results read besides elements.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Params {
    /// The order of a norm, or the correction of a variance.
    pub p: f64,
    /// How many elements go into one result.
    pub count: f64,
    /// Square root of the result (standard deviation).
    pub root: bool,
    /// Whether rows ask for what follows them.
    pub fetch: bool,
}

/// A reduction: how a state takes in elements, and what it gives.
///
/// The loop functions must be `#[inline(always)]`.
pub(crate) trait ReduceOp: 'static {
    /// The element type, after loading.
    type T: Copy;
    /// The state of one result; at most 32 bytes, alignment 8.
    type S: Copy;

    /// Whether one call takes in the rows of many results: a call for each row of a thousand sums takes a
    /// tenth of its time. Loops that need many registers are slower inside another.
    const MANY: bool;
    /// Runs of fewer elements are folded as columns where there is AVX2.
    const SHORT: usize = SHORT;

    fn start() -> Self::S;

    /// Takes in `n` elements, the first of which is at position `base` of its result.
    ///
    /// # Safety
    /// `x` must be valid for `n` reads; `n` is at most [`RUN`].
    unsafe fn rows<A: Arch>(p: &Params, x: *const Self::T, n: usize, base: i64, s: &mut Self::S);

    /// Takes in, for each `j < w`, the elements `x[r * stride + j]` of `r < rows`, whose positions
    /// start at `base`.
    ///
    /// # Safety
    /// All these must be readable, and `s` valid for `w` states; `w` is at most [`WIDTH`].
    #[inline(always)]
    unsafe fn cols<A: Arch>(
        p: &Params,
        x: *const Self::T,
        stride: isize,
        rows: usize,
        w: usize,
        base: i64,
        s: *mut Self::S,
    ) {
        for r in 0..rows as isize {
            for j in 0..w {
                // SAFETY: the caller's promise.
                unsafe {
                    let x = x.offset(r * stride).add(j);
                    Self::rows::<A>(p, x, 1, base.wrapping_add(r as i64), &mut *s.add(j));
                }
            }
        }
    }

    /// The state of the elements of `a` followed by those of `b`.
    fn merge(a: Self::S, b: Self::S) -> Self::S;

    /// Writes results.
    ///
    /// # Safety
    /// Each output must have room for `s.len()` results.
    unsafe fn finish(p: &Params, s: &[Self::S], outs: &[Out]);
}

multiversion! {
    /// [`ReduceOp::rows`] of `w` results, whose elements are `step` elements apart; of one unless [`ReduceOp::MANY`].
    unsafe fn rows_fn<A, R: ReduceOp>(p: &Params, x: *const u8, n: usize, w: usize, step: isize, base: i64, s: *mut u8) {
        let (x, s) = (x.cast::<R::T>(), s.cast::<R::S>());
        for j in 0..if R::MANY { w } else { 1 } {
            // SAFETY: the caller's promise, for each result.
            unsafe { R::rows::<A>(p, x.offset(j as isize * step), n, base, &mut *s.add(j)) }
        }
    }
    unsafe fn cols_fn<A, R: ReduceOp>(p: &Params, x: *const u8, stride: isize, rows: usize, w: usize, base: i64, s: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { R::cols::<A>(p, x.cast(), stride, rows, w, base, s.cast()) }
    }
}

unsafe fn init<R: ReduceOp>(s: *mut u8, n: usize) {
    for i in 0..n {
        // SAFETY: the caller has room for n states.
        unsafe { s.cast::<R::S>().add(i).write(R::start()) };
    }
}

unsafe fn merge<R: ReduceOp>(a: *mut u8, b: *const u8, n: usize) {
    let (a, b) = (a.cast::<R::S>(), b.cast::<R::S>());
    for i in 0..n {
        // SAFETY: the caller has n states on both sides.
        unsafe { *a.add(i) = R::merge(*a.add(i), *b.add(i)) };
    }
}

unsafe fn finish<R: ReduceOp>(p: &Params, s: *const u8, n: usize, outs: &[Out]) {
    // SAFETY: the caller has n states and room for n results.
    unsafe { R::finish(p, std::slice::from_raw_parts(s.cast(), n), outs) }
}

type RowsFn = unsafe fn(&Params, *const u8, usize, usize, isize, i64, *mut u8);
type ColsFn = unsafe fn(&Params, *const u8, isize, usize, usize, i64, *mut u8);

/// A [`ReduceOp`] as function pointers, so that the driver below is compiled once.
pub(crate) struct Fold {
    elem: usize,
    state: usize,
    many: bool,
    short: usize,
    init: unsafe fn(*mut u8, usize),
    rows: fn(Level) -> RowsFn,
    cols: fn(Level) -> ColsFn,
    merge: unsafe fn(*mut u8, *const u8, usize),
    finish: unsafe fn(&Params, *const u8, usize, &[Out]),
}

impl Fold {
    pub(crate) const fn of<R: ReduceOp>() -> Fold {
        assert!(size_of::<R::S>() <= STATE && align_of::<R::S>() <= 8);
        Fold {
            elem: size_of::<R::T>(),
            state: size_of::<R::S>(),
            many: R::MANY,
            short: R::SHORT,
            init: init::<R>,
            rows: rows_fn::at::<R>,
            cols: cols_fn::at::<R>,
            merge: merge::<R>,
            finish: finish::<R>,
        }
    }
}

/// A reduction to be run; see [`run`].
pub(crate) struct Job<'a> {
    pub fold: &'static Fold,
    /// How elements are read; `None` where they already have the type of the fold.
    pub load: Option<Load>,
    /// The same where elements must be gathered though they have the type.
    pub gather: Load,
    pub params: Params,
    pub input: &'a View<'a>,
    pub outs: &'a [View<'a>],
    /// Whether the position of an element matters.
    pub ordered: bool,
    /// What an element costs, against an addition.
    pub cost: usize,
}

struct Ctx<'a> {
    job: &'a Job<'a>,
    plan: &'a ReducePlan,
    rows: RowsFn,
    /// Selects the function for columns, which few reductions need.
    level: Level,
    elem: usize,
    columns: bool,
    /// The elements of a run below which it is a short one.
    short: usize,
    width: usize,
    outs: [Out; 2],
    /// Whether runs are folded in parts, and these from the last to the first.
    parts: Option<bool>,
    /// Whether units, or the bands of each, are taken from the last to the first.
    back: bool,
    /// Whether columns are folded in bands of rows.
    bands: bool,
}

// SAFETY: the pointers are to operands that the caller of the kernel locked; threads write
// disjoint results.
unsafe impl Sync for Ctx<'_> {}

#[repr(align(64))]
struct AlignedBuffer<const N: usize>(MaybeUninit<[u8; N]>);

impl<const N: usize> AlignedBuffer<N> {
    fn new() -> Self {
        AlignedBuffer(MaybeUninit::uninit())
    }
    fn ptr(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }
}

/// Runs a reduction.
pub(crate) fn run(mut job: Job<'_>) -> Result<()> {
    let plan = ReducePlan::new(job.input, job.outs, job.ordered);
    let (results, count) = (plan.results(), plan.count());
    if results == 0 {
        return Ok(());
    }
    job.params.count = count as f64;
    job.params.fetch = stream::asks_ahead(results * count * job.input.dtype().size());
    let out = |k: usize| {
        let v = job.outs.get(k).unwrap_or(&job.outs[0]);
        Out {
            ptr: v.ptr(),
            stride: plan.kept_in.o[k],
            dtype: v.dtype(),
        }
    };
    let outs = [out(0), out(1)];
    let parts = pool::chunk_count(results * count * job.cost, GRAIN);
    // Loops that do little with what they read.
    let level = match job.cost <= LIGHT {
        true => machine().light_level(),
        false => machine().level,
    };
    // Not truths, of which the first elements may be enough.
    let numbers = job.load.is_none() && job.input.dtype().size() >= 4;
    let transposes = numbers && blocks::turns_reading(results * count);
    let back = transposes && blocks::turn();
    let of_parts = (transposes && results == 1).then_some(back);
    if results == 1 && parts <= 1 {
        let mut state = AlignedBuffer::<STATE>::new();
        let s = state.ptr();
        let ctx = Ctx {
            rows: (job.fold.rows)(level),
            level,
            elem: job.input.dtype().size(),
            columns: false,
            short: 0,
            width: 1,
            outs,
            parts: of_parts,
            back: false,
            bands: false,
            job: &job,
            plan: &plan,
        };
        // SAFETY: there is room for a state; the plan's elements are the operands'.
        unsafe {
            (job.fold.init)(s, 1);
            ctx.accumulate(&plan.red, plan.red_in, 0, 0, 1, s);
            ctx.finish(s, 1, [0, 0]);
        }
        return Ok(());
    }
    let (k, r) = (plan.kept_in, plan.red_in);
    let threads = parts.max(1);
    let problem = ReduceProblem {
        results,
        count,
        kept: k.n,
        reduced: r.n,
        kept_is_closer: k.i.unsigned_abs() < r.i.unsigned_abs(),
        short: job.fold.short,
    };
    let limit = problem.limit(machine());
    let short = r.n < limit && k.n >= SHORT_KEPT;
    let columns = pick::<ReduceAlgorithm>(&problem, threads) == ReduceAlgorithm::Columns;
    let wide = (CHAIN / job.fold.elem).clamp(WIDTH / 2, WIDTH);
    // Short runs side by side are read again for each of their elements: so few that they stay in
    // the first-level cache.
    let width = if columns {
        (k.n.div_ceil(threads).next_multiple_of(16))
            .clamp(128, if short { 128 } else { wide })
            .min(k.n)
    } else {
        k.n.div_ceil(threads * 4).clamp(1, WIDTH)
    };
    let ctx = Ctx {
        rows: (job.fold.rows)(level),
        level,
        elem: job.input.dtype().size(),
        columns,
        short: limit,
        width,
        outs,
        parts: of_parts,
        back,
        bands: columns && transposes && count >= 8 * ROWS,
        job: &job,
        plan: &plan,
    };
    let outer = ctx.plan.results() / k.n;
    let units = outer * k.n.div_ceil(width);
    let outermost = ctx.plan.red.first().map_or(ctx.plan.red_in.n, |d| d.n);
    let problem = SplitProblem {
        results,
        blocks: units,
        outermost: if count == 0 { 0 } else { outermost },
        parts: threads,
    };
    match pick::<ReduceSplit>(&problem, threads) {
        ReduceSplit::Reduced => ctx.split(units, threads, outermost),
        ReduceSplit::Results => {
            pool::parallel_parts(units, threads.min(units), &|_, range| ctx.results(range));
            Ok(())
        }
    }
}

impl Ctx<'_> {
    /// Where a unit starts and how many results it has: input offset, output offsets, width.
    fn unit(&self, unit: usize) -> (isize, [isize; 2], usize) {
        let k = self.plan.kept_in;
        let blocks = k.n.div_ceil(self.width);
        let walk = ReduceWalk::new(&self.plan.kept, unit / blocks);
        let first = (unit % blocks) * self.width;
        let f = first as isize;
        (
            walk.i + f * k.i,
            [walk.o[0] + f * k.o[0], walk.o[1] + f * k.o[1]],
            self.width.min(k.n - first),
        )
    }

    /// Computes the results of some units.
    fn results(&self, units: Range<usize>) {
        let mut states = AlignedBuffer::<{ WIDTH * STATE }>::new();
        let s = states.ptr();
        let last = units.start + units.end;
        for unit in units {
            let unit = if self.back { last - 1 - unit } else { unit };
            let (i, o, w) = self.unit(unit);
            // SAFETY: the buffer holds WIDTH states, the unit's results are its own.
            unsafe {
                (self.job.fold.init)(s, w);
                self.accumulate(&self.plan.red, self.plan.red_in, 0, i, w, s);
                self.finish(s, w, o);
            }
        }
    }

    /// # Safety
    /// `s` must hold `w` states.
    unsafe fn finish(&self, s: *const u8, w: usize, o: [isize; 2]) {
        let mut outs = self.outs;
        for (out, o) in outs.iter_mut().zip(o) {
            // SAFETY: the offset is that of an element of the output.
            out.ptr = unsafe { out.ptr.offset(o * out.dtype.size() as isize) };
        }
        // SAFETY: the caller's promise; the outputs have these results.
        unsafe {
            (self.job.fold.finish)(&self.job.params, s, w, &outs[..self.job.outs.len().min(2)])
        }
    }

    /// Splits the outermost reduced dimension over threads.
    fn split(&self, units: usize, threads: usize, n: usize) -> Result<()> {
        let state = self.job.fold.state;
        let stride = (units * self.width * state).next_multiple_of(64);
        let scratch = alloc::allocate(stride * threads)?;
        let base = scratch.ptr().as_ptr() as usize;
        let inner = self.plan.count() / n;
        pool::parallel_parts(n, threads, &|part, range| {
            let mut red = self.plan.red.clone();
            let mut red_in = self.plan.red_in;
            let first = red.first_mut().unwrap_or(&mut red_in);
            let skip = range.start as isize * first.i;
            first.n = range.len();
            for unit in 0..units {
                let (i, _, w) = self.unit(unit);
                let s = (base + part * stride + unit * self.width * state) as *mut u8;
                // SAFETY: every part has its own room for the states of all units.
                unsafe {
                    (self.job.fold.init)(s, w);
                    self.accumulate(&red, red_in, (range.start * inner) as i64, i + skip, w, s);
                }
            }
        });
        for unit in 0..units {
            let (_, o, w) = self.unit(unit);
            let s = (base + unit * self.width * state) as *mut u8;
            // SAFETY: all parts are done, and each left its states.
            unsafe {
                for part in 1..threads {
                    (self.job.fold.merge)(s, s.add(part * stride), w);
                }
                self.finish(s, w, o);
            }
        }
        Ok(())
    }

    /// Folds the elements of `w` neighbouring results into their states.
    ///
    /// # Safety
    /// `s` must hold `w` states; `i` and the dimensions must stay within the input.
    unsafe fn accumulate(
        &self,
        red: &[Dim],
        red_in: Dim,
        base: i64,
        i: isize,
        w: usize,
        s: *mut u8,
    ) {
        let outer: usize = red.iter().map(|d| d.n).product();
        if outer * red_in.n == 0 {
            return;
        }
        let mut buffer = AlignedBuffer::<BUFFER>::new();
        let buffer = buffer.ptr();
        let x = self.job.input.ptr();
        let size = self.elem as isize;
        let k = self.plan.kept_in;
        let p = &self.job.params;
        let state = self.job.fold.state;
        if self.bands && outer == 1 && k.i == 1 {
            // SAFETY: the caller's promise.
            return unsafe { self.in_bands(red_in, base, i, w, s, buffer) };
        }
        if self.columns {
            let mut walk = ReduceWalk::new(red, 0);
            for q in 0..outer {
                let base = base + (q * red_in.n) as i64;
                // SAFETY: within the input, by the caller's promise.
                unsafe { self.columns(x.offset((i + walk.i) * size), red_in, base, w, s, buffer) };
                walk.step();
            }
            return;
        }
        let direct = red_in.i == 1 && self.job.load.is_none();
        let load = self.job.load.unwrap_or(self.job.gather);
        let most = if direct {
            RUN
        } else {
            (BUFFER / self.job.fold.elem).min(RUN)
        };
        let fold = |from: *const u8, base: i64, n: usize, s: *mut u8| {
            let mut done = 0;
            while done < n {
                let m = most.min(n - done);
                // SAFETY: these elements are within the input, and fit the buffer.
                unsafe {
                    let mut from = from.offset(done as isize * red_in.i * size);
                    if !direct {
                        load(from, red_in.i, m, buffer);
                        from = buffer;
                    }
                    (self.rows)(p, from, m, 1, 0, base + done as i64, s);
                }
                done += m;
            }
        };
        let parts = red_in.n.div_ceil(PART);
        if let (Some(back), 1, 1..=PARTS) = (self.parts, outer * w, parts) {
            let mut states = AlignedBuffer::<{ PARTS * STATE }>::new();
            let states = states.ptr();
            // SAFETY: there is room for a state of each part; the parts are within the input.
            unsafe {
                (self.job.fold.init)(states, parts);
                for part in 0..parts {
                    let part = if back { parts - 1 - part } else { part };
                    let start = part * PART;
                    let from = x.offset((i + start as isize * red_in.i) * size);
                    let state = states.add(part * state);
                    fold(from, base + start as i64, PART.min(red_in.n - start), state);
                }
                for part in 0..parts {
                    (self.job.fold.merge)(s, states.add(part * state), 1);
                }
            }
            return;
        }
        if self.job.fold.many && outer == 1 && (1..=most).contains(&red_in.n) {
            // Whole rows, as many at a time as there are, or as the buffer holds.
            let n = red_in.n;
            let (most, step) = if direct {
                (w, k.i)
            } else {
                (most / n, n as isize)
            };
            let adjacent = k.i == step * red_in.i;
            let mut j = 0;
            while j < w {
                let m = most.min(w - j);
                // SAFETY: these rows are within the input, and fit the buffer; the states are there.
                unsafe {
                    let mut from = x.offset((i + j as isize * k.i) * size);
                    if adjacent && !direct {
                        load(from, red_in.i, m * n, buffer);
                    } else if !direct {
                        for r in 0..m {
                            let to = buffer.add(r * n * self.job.fold.elem);
                            load(from.offset(r as isize * k.i * size), red_in.i, n, to);
                        }
                    }
                    if !direct {
                        from = buffer;
                    }
                    (self.rows)(p, from, n, m, step, base, s.add(j * state));
                }
                j += m;
            }
            return;
        }
        // After its last position it is at the first again, for the next result.
        let mut walk = ReduceWalk::new(red, 0);
        for j in 0..w {
            // SAFETY: a state of the caller's.
            let s = unsafe { s.add(j * state) };
            for q in 0..outer {
                let start = i + j as isize * k.i + walk.i;
                // SAFETY: within the input, by the caller's promise.
                let from = unsafe { x.offset(start * size) };
                fold(from, base + (q * red_in.n) as i64, red_in.n, s);
                if outer > 1 {
                    walk.step();
                }
            }
        }
    }

    /// [`columns`](Self::columns) of so many rows that they are folded in bands, which are joined in order.
    ///
    /// # Safety
    /// As for [`accumulate`](Self::accumulate).
    #[inline(never)]
    unsafe fn in_bands(
        &self,
        red_in: Dim,
        base: i64,
        i: isize,
        w: usize,
        s: *mut u8,
        buffer: *mut u8,
    ) {
        let mut states = AlignedBuffer::<{ BANDS * WIDTH * STATE }>::new();
        let states = states.ptr();
        let size = w * self.job.fold.state;
        let n = red_in.n.div_ceil(BANDS).next_multiple_of(ROWS);
        let bands = red_in.n.div_ceil(n);
        for band in 0..bands {
            let band = if self.back { bands - 1 - band } else { band };
            let first = band * n;
            let rows = Dim {
                n: n.min(red_in.n - first),
                ..red_in
            };
            // SAFETY: every band has room for its states; the rest by the caller's promise.
            unsafe {
                let s = states.add(band * size);
                (self.job.fold.init)(s, w);
                let x = (i + first as isize * red_in.i) * self.elem as isize;
                self.columns(
                    self.job.input.ptr().offset(x),
                    rows,
                    base + first as i64,
                    w,
                    s,
                    buffer,
                );
            }
        }
        for band in 0..bands {
            // SAFETY: as above.
            unsafe { (self.job.fold.merge)(s, states.add(band * size), w) };
        }
    }

    /// Folds rows of `w` elements each.
    ///
    /// # Safety
    /// As for [`accumulate`](Self::accumulate).
    unsafe fn columns(
        &self,
        x: *const u8,
        red: Dim,
        base: i64,
        w: usize,
        s: *mut u8,
        buffer: *mut u8,
    ) {
        let size = self.elem as isize;
        let k = self.plan.kept_in;
        let p = &self.job.params;
        let cols = (self.job.fold.cols)(self.level);
        let direct = k.i == 1 && self.job.load.is_none();
        let load = self.job.load.unwrap_or(self.job.gather);
        let elem = self.job.fold.elem;
        let most = if direct {
            ROWS
        } else {
            (BUFFER / elem / w).clamp(1, ROWS)
        };
        // Short runs, whose next block follows this one: asked for while this one is in use, since
        // the processor does not see through steps that are no whole lines.
        let near = red.i == 1 && red.n < self.short && k.i > 1;
        let block = (w as isize * k.i * size) as usize;
        let share = if near { block / red.n } else { 0 };
        let mut done = 0;
        while done < red.n {
            let rows = most.min(red.n - done);
            // SAFETY: within the input; a tile of `rows` rows fits the buffer (WIDTH of the
            // largest elements do).
            unsafe {
                let from = x.offset(done as isize * red.i * size);
                let at = base + done as i64;
                if direct {
                    cols(p, from, red.i, rows, w, at, s);
                } else if near && self.job.load.is_none() {
                    let next = x.wrapping_add(block + done * share);
                    stream::prefetch_second_row(next, rows * share);
                    transpose::turn(elem, from, k.i * size, buffer, [w, rows]);
                    cols(p, buffer, w as isize, rows, w, at, s);
                } else {
                    for r in 0..rows {
                        let next = x.wrapping_add(block + (done + r) * share);
                        stream::prefetch_second_row(next, share);
                        load(
                            from.offset(r as isize * red.i * size),
                            k.i,
                            w,
                            buffer.add(r * w * elem),
                        );
                    }
                    cols(p, buffer, w as isize, rows, w, at, s);
                }
            }
            done += rows;
        }
    }
}
