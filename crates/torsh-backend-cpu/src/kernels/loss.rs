//! Losses of class scores.
//!
//! Scores are `[n, c, ..]` or `[c]`, targets have that shape without `c` and hold class indices
//! (int64 or uint8).
//!
//! - `NllLoss`: log-probabilities, target, optional weight `[c]` into the loss and the sum of the
//!   weights that counted. `NllLossBackward`: gradient, target, optional weight
//!   and that sum into the gradient.
//! - `CrossEntropy`, `CrossEntropyBackward`: see [`cross_entropy`].
//! - `CtcLoss`, `CtcLossBackward`: see [`ctc`], whose scores and targets are others.
//!
//! Real floating-point types; the half types compute in float32.

pub(crate) mod cross_entropy;
pub(crate) mod ctc;

use torsh_core::attrs::{self, Reduction};
use torsh_core::{DType, KernelArgs, Result, TorshError, View, pool};

use crate::machine::tuning::loss::GRAIN;
use crate::memory::dense::{Dense, DenseOut, Ptr, wide};
use crate::memory::operands::{missing, operands};
use crate::scalar::Real;

/// The scores as `n` images of `c` classes of `s` positions.
#[derive(Clone, Copy)]
struct LossSizes {
    n: usize,
    c: usize,
    s: usize,
}

impl LossSizes {
    fn new(scores: &View<'_>, target: &View<'_>) -> Result<LossSizes> {
        let sizes = match scores.shape() {
            [c] => LossSizes { n: 1, c: *c, s: 1 },
            [n, c, rest @ ..] => LossSizes {
                n: *n,
                c: *c,
                s: rest.iter().product(),
            },
            [] => return Err(missing()),
        };
        match target.numel() == sizes.n * sizes.s {
            true => Ok(sizes),
            false => Err(missing()),
        }
    }
    fn positions(&self) -> usize {
        self.n * self.s
    }
    /// Where the scores of position `i` start; they are `s` apart.
    fn at(&self, i: usize) -> usize {
        i / self.s * self.c * self.s + i % self.s
    }
}

/// Class indices, checked: -1 where the position is ignored.
struct Targets {
    classes: Vec<i64>,
}

impl Targets {
    fn new(view: &View<'_>, sizes: &LossSizes, ignore_index: i64) -> Result<Targets> {
        if !matches!(view.dtype(), DType::I64 | DType::U8) {
            let message = format!(
                "expected a target of class indices in int64, got {}",
                view.dtype()
            );
            return Err(TorshError::dtype("", message));
        }
        let dense = Dense::new(view, DType::I64)?;
        // SAFETY: the view has an index for each position.
        let given = unsafe { std::slice::from_raw_parts(dense.ptr::<i64>().get(), view.numel()) };
        let classes = given
            .iter()
            .map(|&t| match t {
                t if t == ignore_index => Ok(-1),
                t if t >= 0 && (t as usize) < sizes.c => Ok(t),
                t => {
                    let message = format!("Target {t} is out of bounds for {} classes", sizes.c);
                    Err(TorshError::index("", message)
                        .with_hint("classes count from 0, and the scores need one column for each"))
                }
            })
            .collect::<Result<Vec<i64>>>()?;
        Ok(Targets { classes })
    }
    /// The class of position `i`; `None` where it is ignored.
    #[inline(always)]
    fn get(&self, i: usize) -> Option<usize> {
        usize::try_from(self.classes[i]).ok()
    }
}

/// The weight of each class, 1 where none are given.
fn weights<T: Real>(
    view: Option<&View<'_>>,
    classes: usize,
    dtype: DType,
) -> Result<Option<Vec<T>>> {
    let Some(dense) = Dense::optional(view, dtype)? else {
        return Ok(None);
    };
    if view.is_some_and(|v| v.numel() != classes) {
        return Err(missing());
    }
    // SAFETY: the operand has a number for each class.
    let values = unsafe { std::slice::from_raw_parts(dense.ptr::<T>().get(), classes) };
    Ok(Some(values.to_vec()))
}

/// The total of one number for each chunk of positions, computed in parallel.
fn total(
    positions: usize,
    grain: usize,
    f: &(dyn Fn(std::ops::Range<usize>) -> f64 + Sync),
) -> f64 {
    let parts = pool::chunk_count(positions, grain);
    let mut sums = vec![0.0f64; parts];
    let slots = Ptr::new(sums.as_mut_ptr());
    pool::parallel_parts(positions, parts, &|part, range| {
        // SAFETY: each part has its own slot.
        unsafe { *slots.at(part as isize) = f(range) };
    });
    sums.iter().sum()
}

/// The sum of the weights of all positions that count.
fn total_weight<T: Real>(targets: &Targets, weights: Option<&[T]>) -> f64 {
    let weight = |t: usize| weights.map_or(1.0, |w| w[t].to_f64());
    (0..targets.classes.len())
        .filter_map(|i| targets.get(i))
        .map(weight)
        .sum()
}

pub(crate) fn nll_loss(args: &KernelArgs<'_>) -> Result<()> {
    let scores = args.inputs().first().ok_or_else(missing)?;
    match wide(scores.dtype()) {
        DType::F32 => nll::<f32>(args, DType::F32),
        DType::F64 => nll::<f64>(args, DType::F64),
        _ => Err(args.unsupported()),
    }
}

fn nll<T: Real>(args: &KernelArgs<'_>, dtype: DType) -> Result<()> {
    let ([out, total_out, ..], [scores, target, rest @ ..]) = (args.outputs(), args.inputs())
    else {
        return Err(missing());
    };
    let &attrs::NllLoss {
        reduction,
        ignore_index,
    } = args.attrs()?;
    let sizes = LossSizes::new(scores, target)?;
    let targets = Targets::new(target, &sizes, ignore_index)?;
    let weights = weights::<T>(rest.first(), sizes.c, dtype)?;
    let weight = |t: usize| weights.as_ref().map_or(T::ONE, |w| w[t]);
    let x = Dense::new(scores, dtype)?;
    let (out, total_out) = (DenseOut::new(out, dtype)?, DenseOut::new(total_out, dtype)?);
    let y = out.ptr::<T>();
    let value = |i: usize| match targets.get(i) {
        // SAFETY: the class was checked.
        Some(t) => unsafe {
            T::ZERO - *x.ptr::<T>().at((sizes.at(i) + t * sizes.s) as isize) * weight(t)
        },
        None => T::ZERO,
    };
    let whole = total_weight(&targets, weights.as_deref());
    let n = sizes.positions();
    // SAFETY: the outputs have the sizes of the reduction.
    unsafe {
        if reduction == Reduction::None {
            pool::parallel_for(n, GRAIN, &|range| {
                range.for_each(|i| *y.at(i as isize) = value(i))
            });
        } else {
            let sum = total(n, GRAIN, &|range| range.map(|i| value(i).to_f64()).sum());
            let mean = reduction == Reduction::Mean;
            *y.get() = T::c(if mean { sum / whole } else { sum });
        }
        *total_out.ptr::<T>().get() = T::c(whole);
    }
    out.finish()?;
    total_out.finish()
}

pub(crate) fn nll_loss_backward(args: &KernelArgs<'_>) -> Result<()> {
    let out = args.outputs().first().ok_or_else(missing)?;
    match wide(out.dtype()) {
        DType::F32 => nll_backward::<f32>(args, DType::F32),
        DType::F64 => nll_backward::<f64>(args, DType::F64),
        _ => Err(args.unsupported()),
    }
}

/// The gradient of each position's loss: of one number for all, or one each.
struct Upstream<T> {
    grad: Dense,
    each: bool,
    factor: T,
}

impl<T: Real> Upstream<T> {
    fn new(
        grad: &View<'_>,
        whole: &View<'_>,
        reduction: Reduction,
        dtype: DType,
    ) -> Result<Upstream<T>> {
        let grad = Dense::new(grad, dtype)?;
        let whole = Dense::new(whole, dtype)?;
        let factor = match reduction {
            // SAFETY: the sum of the weights is one number.
            Reduction::Mean => T::ONE / unsafe { *whole.ptr::<T>().get() },
            _ => T::ONE,
        };
        Ok(Upstream {
            grad,
            each: reduction == Reduction::None,
            factor,
        })
    }
    #[inline(always)]
    fn get(&self, i: usize) -> T {
        // SAFETY: there is one number, or one for each position.
        unsafe {
            *self
                .grad
                .ptr::<T>()
                .at(if self.each { i as isize } else { 0 })
                * self.factor
        }
    }
}

fn nll_backward<T: Real>(args: &KernelArgs<'_>, dtype: DType) -> Result<()> {
    let ([out], [grad, target, weight, whole]) = operands(args)?;
    let &attrs::NllLossBackward {
        reduction,
        ignore_index,
        ..
    } = args.attrs()?;
    let sizes = LossSizes::new(out, target)?;
    let targets = Targets::new(target, &sizes, ignore_index)?;
    let weights = weights::<T>(Some(weight), sizes.c, dtype)?;
    let upstream = Upstream::<T>::new(grad, whole, reduction, dtype)?;
    let out = DenseOut::new(out, dtype)?;
    let y = out.ptr::<T>();
    let image = sizes.c * sizes.s;
    pool::parallel_for(sizes.n, (GRAIN / image.max(1)).max(1), &|range| {
        // SAFETY: the images are this thread's, and the classes were checked.
        unsafe {
            let first = y.at((range.start * image) as isize);
            std::slice::from_raw_parts_mut(first, range.len() * image).fill(T::ZERO);
            for i in range.start * sizes.s..range.end * sizes.s {
                if let Some(t) = targets.get(i) {
                    let weight = weights.as_ref().map_or(T::ONE, |w| w[t]);
                    let at = sizes.at(i) + t * sizes.s;
                    *y.at(at as isize) = T::ZERO - upstream.get(i) * weight;
                }
            }
        }
    });
    out.finish()
}

#[cfg(feature = "unit-tests")]
mod tests;
