//! Connectionist temporal classification (Graves et al., 2006): the probability that a sequence of
//! labels, with blanks between them and repeats of them, is what a longer sequence shows.
//!
//! `CtcLoss`: log-probabilities `[t, n, c]` and int64 labels (`[n, s]`, or all labels one after the
//! other) into each sequence's loss `[n]` and the forward variables `[n, t, 2 s + 1]`.
//! `CtcLossBackward`: gradient `[n]`, the log-probabilities, labels, losses and forward variables
//! into the gradient of the log-probabilities. As in PyTorch it is the gradient of the scores whose
//! log-softmax the log-probabilities are. Both take [`attrs::CtcLoss`].
//!
//! float32 and float64. The sums of probabilities are computed in that dtype and in PyTorch's
//! order: what float32 rounds off a long sequence's is more than the usual tolerances.

use std::ops::{Add, Mul, Neg, Sub};

use torsh_core::{DType, KernelArgs, Result, TorshError, View, attrs, cmath, pool};

use crate::memory::dense::{Dense, DenseOut, Ptr};
use crate::memory::operands::{missing, operands};

/// A dtype of log-probabilities.
trait Log:
    Copy
    + PartialOrd
    + Send
    + Sync
    + 'static
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Neg<Output = Self>
{
    const ZERO: Self;
    const INFINITY: Self;
    /// The logarithm of 0.
    const NONE: Self;
    fn exp(self) -> Self;
    fn ln(self) -> Self;
}

macro_rules! log {
    ($($t:ident: $exp:path, $ln:path;)*) => {$(
        impl Log for $t {
            const ZERO: $t = 0.0;
            const INFINITY: $t = $t::INFINITY;
            const NONE: $t = $t::NEG_INFINITY;
            #[inline(always)]
            fn exp(self) -> $t {
                $exp(self)
            }
            #[inline(always)]
            fn ln(self) -> $t {
                $ln(self)
            }
        }
    )*};
}
log! {
    f32: f32::exp, f32::ln;
    f64: cmath::exp, f64::ln;
}

/// The logarithm of the sum of exponentials.
#[inline(always)]
fn log_sum<T: Log, const N: usize>(terms: [T; N]) -> T {
    let mut high = T::NONE;
    for t in terms {
        if t > high {
            high = t;
        }
    }
    if high == T::NONE {
        return T::NONE;
    }
    let mut sum = T::ZERO;
    for t in terms {
        sum = sum + (t - high).exp();
    }
    sum.ln() + high
}

/// The sizes of a call and its labels.
struct CtcBatch {
    time: usize,
    n: usize,
    classes: usize,
    /// The most states a sequence may have: the labels with a blank on either side.
    states: usize,
    blank: usize,
    inputs: Vec<usize>,
    /// The labels of each sequence.
    labels: Vec<Vec<usize>>,
}

impl CtcBatch {
    fn new(a: &attrs::CtcLoss, scores: &View<'_>, targets: &View<'_>) -> Result<CtcBatch> {
        let [time, n, classes] = *scores.shape() else {
            return Err(missing());
        };
        let (inputs, lengths, blank) = (&a.input_lengths, &a.target_lengths, a.blank);
        if inputs.len() != n || lengths.len() != n || blank >= classes {
            return Err(missing());
        }
        let size = |&v: &i64| usize::try_from(v).map_err(|_| missing());
        let inputs = inputs.iter().map(size).collect::<Result<Vec<usize>>>()?;
        let lengths = lengths.iter().map(size).collect::<Result<Vec<usize>>>()?;
        let dense = Dense::new(targets, DType::I64)?;
        let given = match targets.numel() {
            0 => &[][..],
            // SAFETY: the view has as many labels.
            count => unsafe { std::slice::from_raw_parts(dense.ptr::<i64>().get(), count) },
        };
        let mut labels = Vec::with_capacity(n);
        let mut from = 0;
        for (b, &length) in lengths.iter().enumerate() {
            if let [_, width] = targets.shape() {
                from = b * width;
            }
            let own = given.get(from..from + length).ok_or_else(missing)?;
            from += length;
            let own = own.iter().map(|&l| match usize::try_from(l) {
                Ok(l) if l < classes => Ok(l),
                _ => Err(TorshError::index(
                    "",
                    format!("target {l} is out of bounds for {classes} labels"),
                )),
            });
            labels.push(own.collect::<Result<Vec<usize>>>()?);
        }
        if inputs.iter().any(|&t| t > time) {
            return Err(missing());
        }
        let states = 2 * lengths.iter().max().unwrap_or(&0) + 1;
        Ok(CtcBatch {
            time,
            n,
            classes,
            states,
            blank,
            inputs,
            labels,
        })
    }

    /// The label of state `s`: blanks are even, labels odd.
    #[inline(always)]
    fn label(&self, b: usize, s: usize) -> usize {
        match s % 2 {
            0 => self.blank,
            _ => self.labels[b][s / 2],
        }
    }

    /// Whether state `s` may follow state `s - 2`: a label that is not the one before it.
    #[inline(always)]
    fn skips(&self, b: usize, s: usize) -> bool {
        s % 2 == 1 && s > 1 && self.labels[b][s / 2] != self.labels[b][s / 2 - 1]
    }

    fn states_of(&self, b: usize) -> usize {
        2 * self.labels[b].len() + 1
    }

    /// Where the log-probabilities of time `t` of sequence `b` start.
    fn row(&self, t: usize, b: usize) -> usize {
        (t * self.n + b) * self.classes
    }
}

pub(crate) fn forward(args: &KernelArgs<'_>) -> Result<()> {
    match args.compute() {
        DType::F32 => losses::<f32>(args),
        DType::F64 => losses::<f64>(args),
        _ => Err(args.unsupported()),
    }
}

fn losses<T: Log>(args: &KernelArgs<'_>) -> Result<()> {
    let ([loss, alpha], [scores, targets]) = operands(args)?;
    let a = args.attrs::<attrs::CtcLoss>()?;
    let batch = CtcBatch::new(a, scores, targets)?;
    if *alpha.shape() != [batch.n, batch.time, batch.states] || loss.numel() != batch.n {
        return Err(missing());
    }
    let x = Dense::new(scores, args.compute())?;
    let (loss, alpha) = (
        DenseOut::new(loss, args.compute())?,
        DenseOut::new(alpha, args.compute())?,
    );
    let (x, y, all) = (x.ptr::<T>(), loss.ptr::<T>(), alpha.ptr::<T>());
    let size = batch.time * batch.states;
    pool::parallel_for(batch.n, 1, &|range| {
        for b in range {
            // SAFETY: each sequence has its own part of the forward variables and its own loss.
            unsafe {
                let alpha = std::slice::from_raw_parts_mut(all.at((b * size) as isize), size);
                *y.at(b as isize) = -likelihood(&batch, b, x, alpha);
            }
        }
    });
    loss.finish()?;
    alpha.finish()
}

/// The forward variables of a sequence, and the logarithm of its probability.
///
/// # Safety
/// `x` must hold the batch's log-probabilities.
unsafe fn likelihood<T: Log>(batch: &CtcBatch, b: usize, x: Ptr<T>, alpha: &mut [T]) -> T {
    // SAFETY: times and labels are within the log-probabilities.
    let at = |t: usize, label: usize| unsafe { *x.at((batch.row(t, b) + label) as isize) };
    let (length, states, stride) = (batch.inputs[b], batch.states_of(b), batch.states);
    alpha.fill(T::NONE);
    if length == 0 {
        return if states == 1 { T::ZERO } else { T::NONE };
    }
    for (s, alpha) in alpha.iter_mut().enumerate().take(states.min(2)) {
        *alpha = at(0, batch.label(b, s));
    }
    for t in 1..length {
        let (before, now) = alpha.split_at_mut(t * stride);
        let before = &before[(t - 1) * stride..];
        for s in 0..states {
            let one = if s > 0 { before[s - 1] } else { T::NONE };
            let two = if batch.skips(b, s) {
                before[s - 2]
            } else {
                T::NONE
            };
            now[s] = log_sum([before[s], one, two]) + at(t, batch.label(b, s));
        }
    }
    match &alpha[(length - 1) * stride..][..states] {
        [.., a, b] => log_sum([*b, *a]),
        [a] => *a,
        [] => T::NONE,
    }
}

pub(crate) fn backward(args: &KernelArgs<'_>) -> Result<()> {
    match args.compute() {
        DType::F32 => gradients::<f32>(args),
        DType::F64 => gradients::<f64>(args),
        _ => Err(args.unsupported()),
    }
}

fn gradients<T: Log>(args: &KernelArgs<'_>) -> Result<()> {
    let ([out], [grad, scores, targets, loss, alpha]) = operands(args)?;
    let a = args.attrs::<attrs::CtcLoss>()?;
    let batch = CtcBatch::new(a, scores, targets)?;
    if *alpha.shape() != [batch.n, batch.time, batch.states]
        || loss.numel() != batch.n
        || grad.numel() != batch.n
    {
        return Err(missing());
    }
    let x = Dense::new(scores, args.compute())?;
    let grad = Dense::new(grad, args.compute())?;
    let loss = Dense::new(loss, args.compute())?;
    let alpha = Dense::new(alpha, args.compute())?;
    let result = DenseOut::new(out, args.compute())?;
    let (x, g, nll) = (x.ptr::<T>(), grad.ptr::<T>(), loss.ptr::<T>());
    let (all, y) = (alpha.ptr::<T>(), result.ptr::<T>());
    let size = batch.time * batch.states;
    pool::parallel_for(batch.n, 1, &|range| {
        let mut row = vec![T::NONE; batch.classes];
        for b in range {
            // SAFETY: each sequence has its own rows of the gradient, one for each time.
            unsafe {
                let g = *g.at(b as isize);
                let nll = *nll.at(b as isize);
                let mut length = batch.inputs[b];
                if a.zero_infinity && nll == T::INFINITY {
                    length = 0;
                }
                let alpha = std::slice::from_raw_parts(all.at((b * size) as isize), size);
                let mut beta = vec![T::NONE; batch.states_of(b)];
                for t in (0..batch.time).rev() {
                    let first = batch.row(t, b) as isize;
                    let y = std::slice::from_raw_parts_mut(y.at(first), batch.classes);
                    if t >= length {
                        y.fill(T::ZERO);
                        continue;
                    }
                    let x = std::slice::from_raw_parts(x.at(first), batch.classes);
                    step_back(&batch, b, t + 1 == length, x, &mut beta);
                    row.fill(T::NONE);
                    for (s, &beta) in beta.iter().enumerate().rev() {
                        let sum = &mut row[batch.label(b, s)];
                        *sum = log_sum([*sum, alpha[t * batch.states + s] + beta]);
                    }
                    for ((y, &x), &sum) in y.iter_mut().zip(x).zip(&row) {
                        *y = (x.exp() - (sum + nll - x).exp()) * g;
                    }
                }
            }
        }
    });
    result.finish()
}

/// The backward variables of a time from those of the time after it.
fn step_back<T: Log>(batch: &CtcBatch, b: usize, last: bool, x: &[T], beta: &mut [T]) {
    let states = beta.len();
    // Each state reads itself and those after it, which are still the later time's.
    for s in 0..states {
        let own = x[batch.label(b, s)];
        beta[s] = if last {
            if s + 2 >= states { own } else { T::NONE }
        } else {
            let one = if s + 1 < states { beta[s + 1] } else { T::NONE };
            let skips = s + 2 < states && batch.skips(b, s + 2);
            let two = if skips { beta[s + 2] } else { T::NONE };
            log_sum([beta[s], one, two]) + own
        };
    }
}
