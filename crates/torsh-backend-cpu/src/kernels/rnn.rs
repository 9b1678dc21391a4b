//! One layer and direction of a recurrent network, over whole sequences.
//!
//! Step `t` has the rows of the `batch_sizes[t]` first sequences, and the steps lie one behind the
//! other: `N` rows in all, with `B` sequences, `H` numbers in a state and `G` gates (1, 4 for LSTM,
//! 3 for GRU). `P` is the size of what is given on: `H`, or less with a projection.
//!
//! - `Rnn`: the gates' sums over the input `[N, G H]`, first hidden state `[B, P]`, first cells
//!   `[B, H]` (LSTM), weight `[G H, P]`, bias of the hidden state's part (GRU, optional) and
//!   projection `[P, H]` (LSTM, optional), into output `[N, P]`, last state `[B, P]`, last cells,
//!   and what backward reads: `i f g o c` of each row of an LSTM, `r z n` and the new gate's hidden
//!   part of a GRU, nothing otherwise.
//! - `RnnBackward`: gradients of output, last state and last cells (these optional), first state
//!   and cells, weight, projection, output and what was saved, into the gradients of the gates'
//!   sums, of first state and cells, and, for the products that make the weights' gradients, the
//!   hidden states ahead of each step `[N, P]`, the gradients of the hidden sums (GRU) or of the
//!   output (projection), and what was projected. The last three are empty where they are
//!   not needed.
//!
//! A step is one product and one pass over the cells. Where there are sequences enough for each thread
//! and the weight stays in the cache, every thread takes its sequences through all steps.

mod cells;
pub(crate) mod choose;
mod packed;
#[cfg(feature = "unit-tests")]
mod tests;

use packed::PackedWeight;
use torsh_core::attrs::{self, RnnMode as Mode};
use torsh_core::{DType, Kernel, KernelArgs, Result, View, pool};

use crate::kernels::matmul::matmul;
use crate::kernels::panels::Panels;
use crate::machine::tuning::rnn::GRAIN;
use crate::memory::dense::{Dense, DenseOut, Ptr, Scratch, copy, wide};
use crate::memory::operands::operands;

pub(crate) fn forward(args: &KernelArgs<'_>) -> Result<()> {
    match wide(args.compute()) {
        DType::F32 => run::<f32, 32>(args, DType::F32),
        DType::F64 => run::<f64, 8>(args, DType::F64),
        _ => Err(args.unsupported()),
    }
}

pub(crate) fn backward(args: &KernelArgs<'_>) -> Result<()> {
    match wide(args.compute()) {
        DType::F32 => run_backward::<f32, 32>(args, DType::F32),
        DType::F64 => run_backward::<f64, 8>(args, DType::F64),
        _ => Err(args.unsupported()),
    }
}

/// The sizes of a call, and its steps in order.
struct RnnCall {
    mode: Mode,
    reverse: bool,
    /// Rows of each step, and the first of them.
    steps: Vec<(usize, usize)>,
    /// Numbers in a state.
    h: usize,
    gates: usize,
    /// Blocks of `h` saved for each row.
    saved: usize,
}

/// Rows of states: those of a step's predecessor, and the first state for those behind.
#[derive(Clone, Copy)]
struct Before {
    /// How many rows have a predecessor, and where it begins.
    rows: usize,
    at: usize,
}

impl RnnCall {
    fn new(mode: Mode, reverse: bool, batch_sizes: &[i64], w: &View<'_>) -> RnnCall {
        let mut at = 0;
        let step = |&n: &i64| {
            let step = (n.max(0) as usize, at);
            at += step.0;
            step
        };
        RnnCall {
            mode,
            reverse,
            steps: batch_sizes.iter().map(step).collect(),
            h: w.shape()[0] / mode.gates(),
            gates: mode.gates(),
            saved: mode.saved(),
        }
    }

    /// Step number `k` of the order in which they are computed: its rows, and those before.
    fn step(&self, k: usize) -> (usize, usize, Before) {
        let last = self.steps.len() - 1;
        let of = |k: usize| self.steps[if self.reverse { last - k } else { k }];
        let (rows, at) = of(k);
        let before = match k.checked_sub(1).map(of) {
            Some((n, at)) => Before {
                rows: n.min(rows),
                at,
            },
            None => Before { rows: 0, at: 0 },
        };
        (rows, at, before)
    }

    /// How many rows a thread takes at least.
    fn grain(&self) -> usize {
        (GRAIN / self.h.max(1)).max(1)
    }

    /// The row of the last step of sequence `i`.
    fn last(&self, i: usize) -> usize {
        match self.reverse {
            true => i,
            false => {
                let n = self.steps.partition_point(|&(rows, _)| rows > i);
                self.steps[n.saturating_sub(1)].1 + i
            }
        }
    }
}

/// The row-major matrix at an address, with `step` elements from row to row.
struct GateRows<T> {
    ptr: Ptr<T>,
    sizes: [usize; 2],
    strides: [isize; 2],
}

impl<T> GateRows<T> {
    fn new(ptr: *mut T, rows: usize, columns: usize, step: usize) -> GateRows<T> {
        GateRows {
            ptr: Ptr::new(ptr),
            sizes: [rows, columns],
            strides: [step as isize, 1],
        }
    }

    fn view(&self, dtype: DType) -> View<'_> {
        // SAFETY: whoever made the rows has as many of these sizes, for as long as they are used.
        unsafe { View::new(self.ptr.get().cast(), dtype, &self.sizes, &self.strides) }
    }
}

/// `out = a b`, plus `c` where given, of row-major matrices.
fn product<T>(
    dtype: DType,
    out: GateRows<T>,
    a: GateRows<T>,
    b: &GateRows<T>,
    c: Option<GateRows<T>>,
) -> Result<()> {
    let inputs = [
        a.view(dtype),
        b.view(dtype),
        c.as_ref().map_or(View::ABSENT, |c| c.view(dtype)),
    ];
    let outputs = [out.view(dtype)];
    let attrs = &attrs::MatMul::PLAIN;
    // SAFETY: rows of `T`, which is `dtype`, of the sizes of a product.
    let args = unsafe { KernelArgs::new(Kernel::MatMul, dtype, &outputs, &inputs, attrs) };
    matmul(&args)
}

/// The transpose of a row-major matrix, in memory of its own: each step reads its rows.
fn transposed<T>(dtype: DType, of: Ptr<T>, rows: usize, columns: usize) -> Result<Scratch<T>> {
    let out = Scratch::<T>::new(rows * columns)?;
    let (shape, strides) = ([columns, rows], [1, columns as isize]);
    // SAFETY: the caller's matrix of `rows` by `columns`, read as its transpose.
    let from = unsafe { View::new(of.get().cast(), dtype, &shape, &strides) };
    let to = GateRows::new(out.ptr(), columns, rows, rows);
    copy(&from, &to.view(dtype))?;
    Ok(out)
}

/// Copies `n` values.
///
/// # Safety
/// Both must be valid for them, and apart.
unsafe fn put<T>(from: *const T, to: *mut T, n: usize) {
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(from, to, n) }
}

fn run<T: Panels, const L: usize>(args: &KernelArgs<'_>, dtype: DType) -> Result<()> {
    let ([out, hn, cn, saved], [gx, h0, c0, w, bias, w_hr]) = operands(args)?;
    let (batch, p) = (h0.shape()[0], h0.shape()[1]);
    let a = args.attrs::<attrs::Rnn>()?;
    let call = RnnCall::new(a.mode, a.reverse, &a.batch_sizes, w);
    let h = call.h;
    let lstm = call.mode == Mode::Lstm;
    let (gx, h0, w) = (
        Dense::new(gx, dtype)?,
        Dense::new(h0, dtype)?,
        Dense::new(w, dtype)?,
    );
    let c0 = Dense::optional(Some(c0), dtype)?;
    let bias = Dense::optional(Some(bias), dtype)?;
    let w_hr = Dense::optional(Some(w_hr), dtype)?;
    let [out, hn, cn, saved] = [out, hn, cn, saved].map(|v| DenseOut::new(v, dtype));
    let (out, hn, cn, saved) = (out?, hn?, cn?, saved?);
    let (gx, h0, y, s) = (
        gx.ptr::<T>(),
        h0.ptr::<T>(),
        out.ptr::<T>(),
        saved.ptr::<T>(),
    );
    let bias = bias.map_or(std::ptr::null_mut(), |b| b.ptr::<T>().get());
    let bias = Ptr::new(bias);
    let c0 = c0.as_ref().map(Dense::ptr::<T>);
    let width = call.gates * h;
    let kept = call.saved * h;
    // The pointwise part of row `i` of a step; its sums and what it gives on.
    let cell = |[at, i]: [usize; 2], before: Before, sum: *mut T, y_i: *mut T| {
        let x = gx.at(((at + i) * width) as isize);
        // SAFETY: the operands have the sizes that the record planned, and every row is one thread's.
        unsafe {
            match call.mode {
                Mode::Tanh => cells::plain::<T, L>(h, x, sum, false),
                Mode::Relu => cells::plain::<T, L>(h, x, sum, true),
                Mode::Lstm => {
                    let cell = match (i < before.rows, c0) {
                        (true, _) => s.at(((before.at + i) * kept + 4 * h) as isize),
                        (false, Some(c0)) => c0.at((i * h) as isize),
                        (false, None) => std::ptr::null_mut(),
                    };
                    cells::lstm::<T, L>(h, x, sum, cell, y_i);
                }
                Mode::Gru => {
                    cells::gru::<T, L>(h, x, sum, bias.get(), state(before, i, p, h0, y), y_i)
                }
            }
        }
    };
    // Where the sums of a row go, and the rows apart.
    let sums = |row: usize| match call.saved {
        0 => (y.at((row * p) as isize), p),
        _ => (s.at((row * kept) as isize), kept),
    };
    let shares = packed::shares(&call, batch, [width, p], w_hr.is_some(), false);
    if let Some(shares) = shares {
        let wt = PackedWeight::transposed(w.ptr::<T>(), [p, width])?;
        let room = wt.beside(batch);
        let beside = Scratch::<T>::new(room * shares.len())?;
        let beside = Ptr::new(beside.ptr());
        pool::parallel_parts(shares.len(), shares.len(), &|_, parts| {
            for part in parts {
                let mine = &shares[part];
                for k in 0..call.steps.len() {
                    let (rows, at, before) = call.step(k);
                    let end = rows.min(mine.end);
                    let middle = before.rows.clamp(mine.start.min(end), end);
                    for (from, to) in [(mine.start, middle), (middle, end)] {
                        if from >= to {
                            continue;
                        }
                        let (out, step) = sums(at + from);
                        let a = state(before, from, p, h0, y);
                        let beside = beside.at((part * room) as isize);
                        // SAFETY: as in `cell`.
                        unsafe { wt.times(a, to - from, out, step, false, beside) };
                    }
                    for i in mine.start..end {
                        let y_i = y.at(((at + i) * p) as isize);
                        cell([at, i], before, sums(at + i).0, y_i);
                    }
                }
            }
        });
    } else {
        let wt = transposed::<T>(dtype, w.ptr(), width, p)?;
        let wt = GateRows::new(wt.ptr(), p, width, width);
        let projection = match &w_hr {
            Some(w) => Some((
                transposed::<T>(dtype, w.ptr(), p, h)?,
                Scratch::<T>::new(batch * h)?,
            )),
            None => None,
        };
        for k in 0..call.steps.len() {
            let (rows, at, before) = call.step(k);
            for (from, to) in [(0, before.rows), (before.rows, rows)] {
                if from < to {
                    let (out, step) = sums(at + from);
                    let out = GateRows::new(out, to - from, width, step);
                    let a = GateRows::new(state(before, from, p, h0, y), to - from, p, p);
                    product(dtype, out, a, &wt, None)?;
                }
            }
            let hidden = match &projection {
                Some((_, m)) => Ptr::new(m.ptr()),
                None => Ptr::new(y.at((at * p) as isize)),
            };
            pool::parallel_for(rows, call.grain(), &|range| {
                for i in range {
                    cell([at, i], before, sums(at + i).0, hidden.at((i * h) as isize));
                }
            });
            if let Some((w, m)) = &projection {
                let out = GateRows::new(y.at((at * p) as isize), rows, p, p);
                let w = GateRows::new(w.ptr(), h, p, p);
                product(dtype, out, GateRows::new(m.ptr(), rows, h, h), &w, None)?;
            }
        }
    }
    for i in 0..batch {
        let row = call.last(i);
        let (from, cell) = match call.steps.is_empty() {
            true => (h0.at((i * p) as isize), c0.map(|c| c.at((i * h) as isize))),
            false => (
                y.at((row * p) as isize),
                lstm.then(|| s.at((row * kept + 4 * h) as isize)),
            ),
        };
        // SAFETY: as above.
        unsafe {
            put(from, hn.ptr::<T>().at((i * p) as isize), p);
            if let Some(cell) = cell {
                put(cell, cn.ptr::<T>().at((i * h) as isize), h);
            }
        }
    }
    out.finish()?;
    hn.finish()?;
    cn.finish()?;
    saved.finish()
}

/// The state ahead of row `i` of a step.
fn state<T>(before: Before, i: usize, p: usize, first: Ptr<T>, y: Ptr<T>) -> *mut T {
    match i < before.rows {
        true => y.at(((before.at + i) * p) as isize),
        false => first.at((i * p) as isize),
    }
}

fn run_backward<T: Panels, const L: usize>(args: &KernelArgs<'_>, dtype: DType) -> Result<()> {
    let ([dgx, dh0, dc0, ahead, dhidden, projected], [dy, dhn, dcn, h0, c0, w, w_hr, y, saved]) =
        operands(args)?;
    let (batch, p) = (h0.shape()[0], h0.shape()[1]);
    let a = args.attrs::<attrs::RnnBackward>()?;
    let call = RnnCall::new(a.mode, a.reverse, &a.batch_sizes, w);
    let h = call.h;
    let (width, kept) = (call.gates * h, call.saved * h);
    let [dy, h0, w, y, saved] = [dy, h0, w, y, saved].map(|v| Dense::new(v, dtype));
    let (dy, h0, w, y, saved) = (dy?, h0?, w?, y?, saved?);
    let [dhn, dcn, c0, w_hr] = [dhn, dcn, c0, w_hr].map(|v| Dense::optional(Some(v), dtype));
    let (dhn, dcn, c0, w_hr) = (dhn?, dcn?, c0?, w_hr?);
    let [dgx, dh0, dc0, ahead, dhidden, projected] =
        [dgx, dh0, dc0, ahead, dhidden, projected].map(|v| DenseOut::new(v, dtype));
    let (dgx, dh0, dc0) = (dgx?, dh0?, dc0?);
    let (ahead, dhidden, projected) = (ahead?, dhidden?, projected?);
    let (dy, h0, y, s) = (dy.ptr::<T>(), h0.ptr::<T>(), y.ptr::<T>(), saved.ptr::<T>());
    let c0 = c0.as_ref().map(Dense::ptr::<T>);
    let w = w.ptr::<T>();
    let w_hr = w_hr.map(|w| GateRows::new(w.ptr::<T>().get(), p, h, h));
    let (dx, dg, m) = (dgx.ptr::<T>(), dhidden.ptr::<T>(), projected.ptr::<T>());
    let (dstate, dcell) = (dh0.ptr::<T>(), dc0.ptr::<T>());
    let ahead_rows = ahead.ptr::<T>();
    // What is known of the gradients of states and cells, gone through from the last step to the
    // first; in the memory of the first states' gradients.
    let start = |from: Option<&Dense>, to: Ptr<T>, n: usize| {
        // SAFETY: both have `n` elements.
        unsafe {
            match from {
                Some(from) => put(from.ptr::<T>().get(), to.get(), n),
                None => (0..n).for_each(|i| to.at(i as isize).write(T::ZERO)),
            }
        }
    };
    start(dhn.as_ref(), dstate, batch * p);
    if call.mode == Mode::Lstm {
        start(dcn.as_ref(), dcell, batch * h);
    }
    // The part that passes a GRU's step by, or the gradients of what is projected.
    let aside = Scratch::<T>::new(batch * h)?;
    let aside_rows = Ptr::new(aside.ptr());
    // The pointwise part of row `i` of a step.
    let cell = |[at, i]: [usize; 2], before: Before| {
        let row = at + i;
        let of = |base: Ptr<T>, width: usize| base.at((row * width) as isize);
        let (d, from_output) = match w_hr {
            Some(_) => (aside_rows.at((i * h) as isize), std::ptr::null_mut()),
            None => (dstate.at((i * p) as isize), of(dy, p)),
        };
        let state = state(before, i, p, h0, y);
        // SAFETY: the operands have the sizes that the record planned, and every row is
        // one thread's.
        unsafe {
            if a.weight_grad {
                put(state, of(ahead_rows, p), p);
            }
            match call.mode {
                Mode::Tanh => {
                    cells::plain_backward::<T, L>(
                        h,
                        of(y, p),
                        d,
                        from_output,
                        of(dx, width),
                        false,
                    );
                }
                Mode::Relu => {
                    cells::plain_backward::<T, L>(h, of(y, p), d, from_output, of(dx, width), true);
                }
                Mode::Lstm => {
                    let cell = match (i < before.rows, c0) {
                        (true, _) => s.at(((before.at + i) * kept + 4 * h) as isize),
                        (false, Some(c0)) => c0.at((i * h) as isize),
                        (false, None) => std::ptr::null_mut(),
                    };
                    let m = match w_hr {
                        Some(_) => of(m, h),
                        None => std::ptr::null_mut(),
                    };
                    let dc = dcell.at((i * h) as isize);
                    cells::lstm_backward::<T, L>(
                        h,
                        of(s, kept),
                        cell,
                        d,
                        from_output,
                        dc,
                        of(dx, width),
                        m,
                    );
                }
                Mode::Gru => {
                    let carry = aside_rows.at((i * h) as isize);
                    cells::gru_backward::<T, L>(
                        h,
                        of(s, kept),
                        state,
                        d,
                        from_output,
                        of(dx, width),
                        of(dg, width),
                        carry,
                    );
                }
            }
        }
    };
    let shares = packed::shares(&call, batch, [width, p], w_hr.is_some(), true);
    let from = if call.mode == Mode::Gru { dg } else { dx };
    if let Some(shares) = &shares {
        let w = PackedWeight::new(w, [width, p])?;
        let room = w.beside(batch);
        let beside = Scratch::<T>::new(room * shares.len())?;
        let beside = Ptr::new(beside.ptr());
        pool::parallel_parts(shares.len(), shares.len(), &|_, parts| {
            for part in parts {
                let mine = &shares[part];
                for k in (0..call.steps.len()).rev() {
                    let (rows, at, before) = call.step(k);
                    let end = rows.min(mine.end);
                    if end <= mine.start {
                        continue;
                    }
                    (mine.start..end).for_each(|i| cell([at, i], before));
                    let rows = end - mine.start;
                    let a = from.at(((at + mine.start) * width) as isize);
                    let out = dstate.at((mine.start * p) as isize);
                    let carry = call.mode == Mode::Gru;
                    // SAFETY: as in `cell`; a GRU's states are as wide as what passes its step by.
                    unsafe {
                        if carry {
                            put(aside_rows.at((mine.start * h) as isize), out, rows * h);
                        }
                        let beside = beside.at((part * room) as isize);
                        w.times(a, rows, out, p, carry, beside);
                    }
                }
            }
        });
    }
    let w = GateRows::new(w.get(), width, p, p);
    let left = if shares.is_some() {
        0
    } else {
        call.steps.len()
    };
    for k in (0..left).rev() {
        let (rows, at, before) = call.step(k);
        if let Some(w_hr) = &w_hr {
            let total = dg.at((at * p) as isize);
            for e in 0..rows * p {
                // SAFETY: the step's rows are in all three.
                unsafe {
                    let from_output = *dy.at((at * p + e) as isize);
                    total.add(e).write(*dstate.at(e as isize) + from_output);
                }
            }
            let out = GateRows::new(aside.ptr(), rows, h, h);
            product(dtype, out, GateRows::new(total, rows, p, p), w_hr, None)?;
        }
        pool::parallel_for(rows, call.grain(), &|range| {
            range.for_each(|i| cell([at, i], before));
        });
        let carry = match call.mode {
            Mode::Gru => Some(GateRows::new(aside.ptr(), rows, h, h)),
            _ => None,
        };
        let from = GateRows::new(from.at((at * width) as isize), rows, width, width);
        product(
            dtype,
            GateRows::new(dstate.get(), rows, p, p),
            from,
            &w,
            carry,
        )?;
    }
    for out in [dgx, dh0, dc0, ahead, dhidden, projected] {
        out.finish()?;
    }
    Ok(())
}
