//! Embedding bags: sums, means or maxima of rows of a weight, without gathering the rows.
//!
//! - `EmbeddingBag`: weight `[rows, width]`, indices `[n]`, offsets (where each bag starts), and
//!   optionally a factor for each index, into `[bags, width]` and, for maxima, the row that each
//!   element came from (int64, -1 for none).
//! - `EmbeddingBagBackward`: gradient, weight (where the factors' gradient is wanted), indices,
//!   offsets, factors and those rows into the gradients of weight and factors.
//!
//! Real floating-point types; the half types compute in float32. Indices and offsets are int64 or
//! int32, and checked here.

use half::{bf16, f16};
use torsh_core::attrs::{self, EmbeddingBagMode as Mode};
use torsh_core::{DType, Kernel, KernelArgs, Result, TorshError, View, pool};

use crate::machine::tuning::embedding_bag::GRAIN;
use crate::memory::dense::{Dense, DenseOut, Ptr, wide};
use crate::memory::operands::{missing, operands};
use crate::scalar::Real;

/// An element of a weight, and what it is added up in.
trait BagElement: Copy + Send + Sync + 'static {
    type Wide: Real;
    const WIDE: DType;
    fn widen(self) -> Self::Wide;
}

macro_rules! elements {
    ($($t:ty, $wide:ty, $dtype:ident, $x:ident => $widen:expr;)*) => {$(
        impl BagElement for $t {
            type Wide = $wide;
            const WIDE: DType = DType::$dtype;
            #[inline(always)]
            fn widen(self) -> $wide {
                let $x = self;
                $widen
            }
        }
    )*};
}
elements! {
    f32, f32, F32, x => x;
    f64, f64, F64, x => x;
    f16, f32, F32, x => x.to_f32();
    bf16, f32, F32, x => x.to_f32();
}

/// The indices, checked, and the bags as ranges of them.
struct Bags {
    indices: Vec<usize>,
    ranges: Vec<(usize, usize)>,
    mode: Mode,
    padding: Option<usize>,
}

impl Bags {
    fn new(
        a: &attrs::EmbeddingBag,
        indices: &View<'_>,
        offsets: &View<'_>,
        rows: usize,
    ) -> Result<Bags> {
        let indices = integers(indices)?
            .into_iter()
            .map(|v| match usize::try_from(v) {
                Ok(row) if row < rows => Ok(row),
                _ => Err(TorshError::index(
                    "",
                    format!("index {v} is out of bounds for dimension 0 with size {rows}"),
                )),
            })
            .collect::<Result<Vec<_>>>()?;
        let n = indices.len();
        let refuse = |why: String| Err(TorshError::invalid("", why));
        let offsets = integers(offsets)?;
        if let Some(&first) = offsets.first().filter(|&&o| o != 0) {
            return refuse(format!(
                "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. However, got {first}"
            ));
        }
        let mut starts = Vec::with_capacity(offsets.len());
        for (i, &o) in offsets.iter().enumerate() {
            let before = starts.last().copied().unwrap_or(0);
            match usize::try_from(o) {
                Ok(o) if o > n => {
                    return refuse(format!(
                        "offsets[{i}] can not be greater than input's length {n} but got {o}"
                    ));
                }
                Ok(o) if o >= before => starts.push(o),
                _ => return refuse(format!("offsets must not decrease, got {o} after {before}")),
            }
        }
        if !a.include_last_offset {
            starts.push(n);
        }
        Ok(Bags {
            indices,
            ranges: starts.windows(2).map(|w| (w[0], w[1])).collect(),
            mode: a.mode,
            padding: a.padding_idx,
        })
    }

    fn is_padding(&self, row: usize) -> bool {
        self.padding == Some(row)
    }

    /// How many indices of a bag count.
    fn count(&self, (from, to): (usize, usize)) -> usize {
        let counts = |&&row: &&usize| !self.is_padding(row);
        self.indices[from..to].iter().filter(counts).count()
    }
}

/// The elements of a 1-d view of int64 or int32.
fn integers(v: &View<'_>) -> Result<Vec<i64>> {
    if !matches!(v.dtype(), DType::I64 | DType::I32) {
        return Err(TorshError::dtype(
            "",
            format!(
                "expected indices and offsets of int64 or int32, got {}",
                v.dtype()
            ),
        ));
    }
    let dense = Dense::new(v, DType::I64)?;
    // SAFETY: the copy, or the view itself, has that many elements.
    Ok((0..v.numel())
        .map(|i| unsafe { *dense.ptr::<i64>().at(i as isize) })
        .collect())
}

pub(crate) fn embedding_bag(args: &KernelArgs<'_>) -> Result<()> {
    match args.compute() {
        DType::F32 => of::<f32>(args),
        DType::F64 => of::<f64>(args),
        DType::F16 => of::<f16>(args),
        DType::BF16 => of::<bf16>(args),
        _ => Err(args.unsupported()),
    }
}

fn of<T: BagElement>(args: &KernelArgs<'_>) -> Result<()> {
    match args.kernel() {
        Kernel::EmbeddingBag => forward::<T>(args),
        _ => backward::<T>(args),
    }
}

fn forward<T: BagElement>(args: &KernelArgs<'_>) -> Result<()> {
    let ([out, chosen], [weight, indices, offsets, factors]) = operands(args)?;
    let [rows, width] = *weight.shape() else {
        return Err(missing());
    };
    let bags = Bags::new(args.attrs()?, indices, offsets, rows)?;
    if out.shape() != [bags.ranges.len(), width] {
        return Err(missing());
    }
    let factors = Dense::optional(Some(factors), T::WIDE)?;
    let factors = factors.as_ref().map(Dense::ptr::<T::Wide>);
    let result = DenseOut::new(out, T::WIDE)?;
    let chosen = DenseOut::new(chosen, DType::I64)?;
    let max = bags.mode == Mode::Max;
    let (y, from, w) = (
        result.ptr::<T::Wide>(),
        chosen.ptr::<i64>(),
        Ptr::new(weight.ptr().cast::<T>()),
    );
    let (row_step, step) = (weight.strides()[0], weight.strides()[1]);
    let each = width * (bags.indices.len() / bags.ranges.len().max(1)).max(1);
    pool::parallel_for(bags.ranges.len(), (GRAIN / each.max(1)).max(1), &|range| {
        for b in range {
            let at = (b * width) as isize;
            // SAFETY: the result has `width` elements for each bag, and so have, for maxima, the
            // rows; every index was checked.
            unsafe {
                let y = std::slice::from_raw_parts_mut(y.at(at), width);
                y.fill(T::Wide::ZERO);
                if max {
                    std::slice::from_raw_parts_mut(from.at(at), width).fill(-1);
                }
                let (start, end) = bags.ranges[b];
                let mut count = 0usize;
                for i in start..end {
                    let row = bags.indices[i];
                    if bags.is_padding(row) {
                        continue;
                    }
                    let w = |c: usize| (*w.at(row as isize * row_step + c as isize * step)).widen();
                    match (bags.mode, factors) {
                        (Mode::Max, _) => {
                            for (c, y) in y.iter_mut().enumerate() {
                                if count == 0 || w(c) > *y {
                                    *y = w(c);
                                    *from.at(at + c as isize) = row as i64;
                                }
                            }
                        }
                        (_, Some(f)) => {
                            let f = *f.at(i as isize);
                            y.iter_mut()
                                .enumerate()
                                .for_each(|(c, y)| *y = *y + w(c) * f);
                        }
                        (_, None) => {
                            y.iter_mut().enumerate().for_each(|(c, y)| *y = *y + w(c));
                        }
                    }
                    count += 1;
                }
                if bags.mode == Mode::Mean && count > 1 {
                    let n = T::Wide::c(count as f64);
                    y.iter_mut().for_each(|y| *y = *y / n);
                }
            }
        }
    });
    result.finish()?;
    chosen.finish()
}

fn backward<T: BagElement>(args: &KernelArgs<'_>) -> Result<()> {
    let ([dw, df], [g, weight, indices, offsets, factors, chosen]) = operands(args)?;
    let a = args.attrs::<attrs::EmbeddingBagBackward>()?;
    let (rows, width) = (a.num_weights, a.embedding_dim);
    let forward = attrs::EmbeddingBag {
        mode: a.mode,
        padding_idx: a.padding_idx,
        include_last_offset: a.include_last_offset,
        scale_grad_by_freq: a.scale_grad_by_freq,
        sparse: false,
    };
    let bags = Bags::new(&forward, indices, offsets, rows)?;
    if g.shape() != [bags.ranges.len(), width] {
        return Err(missing());
    }
    let g = Dense::new(g, T::WIDE)?;
    let g = g.ptr::<T::Wide>();
    if a.weight_grad {
        let out = DenseOut::new(dw, T::WIDE)?;
        to_weight::<T>(a, &bags, [g, out.ptr()], [factors, chosen])?;
        out.finish()?;
    }
    if a.factors_grad {
        let out = DenseOut::new(df, T::WIDE)?;
        to_factors::<T>(&bags, width, weight, [g, out.ptr()])?;
        out.finish()?;
    }
    Ok(())
}

/// The weight's gradient. Threads share the width, so that each row adds its gradients in order.
fn to_weight<T: BagElement>(
    a: &attrs::EmbeddingBagBackward,
    bags: &Bags,
    [g, out]: [Ptr<T::Wide>; 2],
    [factors, chosen]: [&View<'_>; 2],
) -> Result<()> {
    let (rows, width) = (a.num_weights, a.embedding_dim);
    let factors = Dense::optional(Some(factors), T::WIDE)?;
    let factors = factors.as_ref().map(Dense::ptr::<T::Wide>);
    let chosen = match bags.mode {
        Mode::Max => Some(Dense::new(chosen, DType::I64)?),
        _ => None,
    };
    let chosen = chosen.as_ref().map(Dense::ptr::<i64>);
    let mut occurs = vec![0u32; if a.scale_grad_by_freq { rows } else { 0 }];
    if !occurs.is_empty() {
        bags.indices.iter().for_each(|&row| occurs[row] += 1);
    }
    let grain = (GRAIN / bags.indices.len().max(1)).max(16);
    pool::parallel_for(width, grain, &|columns| {
        // SAFETY: rows and columns are below those of the gradients.
        unsafe {
            for row in 0..rows {
                let first = out.at((row * width + columns.start) as isize);
                std::slice::from_raw_parts_mut(first, columns.len()).fill(T::Wide::ZERO);
            }
            for (b, &(start, end)) in bags.ranges.iter().enumerate() {
                let g = |c: usize| *g.at((b * width + c) as isize);
                let add = |row: usize, c: usize, v: T::Wide| {
                    let to = out.at((row * width + c) as isize);
                    *to = *to + v;
                };
                if let Some(chosen) = chosen {
                    for c in columns.clone() {
                        let row = *chosen.at((b * width + c) as isize);
                        if (0..rows as i64).contains(&row) {
                            add(row as usize, c, g(c));
                        }
                    }
                    continue;
                }
                let share = match bags.mode {
                    Mode::Mean => 1.0 / bags.count((start, end)).max(1) as f64,
                    _ => 1.0,
                };
                for i in start..end {
                    let row = bags.indices[i];
                    if bags.is_padding(row) {
                        continue;
                    }
                    let often = occurs.get(row).map_or(1.0, |&n| f64::from(n));
                    let mut f = T::Wide::c(share / often);
                    if let Some(factors) = factors {
                        f = f * *factors.at(i as isize);
                    }
                    columns.clone().for_each(|c| add(row, c, g(c) * f));
                }
            }
        }
    });
    Ok(())
}

/// The factors' gradient: the product of each index's row and its bag's gradient.
fn to_factors<T: BagElement>(
    bags: &Bags,
    width: usize,
    weight: &View<'_>,
    [g, out]: [Ptr<T::Wide>; 2],
) -> Result<()> {
    if weight.dtype().size() != size_of::<T>() || wide(weight.dtype()) != T::WIDE {
        return Err(missing());
    }
    let w = Ptr::new(weight.ptr().cast::<T>());
    let (row_step, step) = (weight.strides()[0], weight.strides()[1]);
    // SAFETY: there is a factor for each index.
    unsafe { std::slice::from_raw_parts_mut(out.get(), bags.indices.len()) }.fill(T::Wide::ZERO);
    let each = width * (bags.indices.len() / bags.ranges.len().max(1)).max(1);
    pool::parallel_for(bags.ranges.len(), (GRAIN / each.max(1)).max(1), &|range| {
        for b in range {
            let (start, end) = bags.ranges[b];
            for i in start..end {
                let row = bags.indices[i];
                if bags.is_padding(row) {
                    continue;
                }
                let mut sum = 0.0;
                for c in 0..width {
                    // SAFETY: the row was checked, the column is below the width.
                    unsafe {
                        let w = (*w.at(row as isize * row_step + c as isize * step)).widen();
                        sum += (w * *g.at((b * width + c) as isize)).to_f64();
                    }
                }
                // SAFETY: there is a factor for each index.
                unsafe { *out.at(i as isize) = T::Wide::c(sum) };
            }
        }
    });
    Ok(())
}
