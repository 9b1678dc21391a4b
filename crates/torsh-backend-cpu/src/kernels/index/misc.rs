//! Membership, counting and searching.

use torsh_core::{DType, KernelArgs, Result, Scalar, TorshError, View, attrs, pool};

use super::choose::{IsinAlgorithm, IsinProblem};
use super::positions::Index;
use super::scatter::fill;
use super::walk::{IndexPtr, IndexWalk};
use super::{GRAIN, ScratchSlice, by_dtype};
use crate::kernels::sort::Ordered;
use crate::machine::choice::pick;

/// `one_hot`: input int64 classes; the output is int64 with one dimension more, as long as there
/// are classes.
pub(crate) fn one_hot(args: &KernelArgs<'_>) -> Result<()> {
    let (out, idx) = (&args.outputs()[0], &args.inputs()[0]);
    let n = out.shape().len() - 1;
    let classes = out.shape()[n];
    let index =
        Index::new(idx, classes, 0, out.strides()[n], false, None).map_err(|e| match e {
            TorshError::Index(i) if i.message.starts_with("index -") => {
                TorshError::index("", "Class values must be non-negative.")
            }
            TorshError::Index(_) => {
                TorshError::index("", "Class values must be smaller than num_classes.")
            }
            other => other,
        })?;
    fill(out, Scalar::Int(0));
    let to = IndexPtr::<i64>::of(out);
    IndexWalk::new(idx.shape(), [&out.strides()[..n], &index.strides]).all(
        |[d, i], n, [ds, is]| {
            for j in 0..n as isize {
                // SAFETY: the walk stays within both, and the class was checked.
                unsafe { *to.at(d + j * ds + index.offset(i + j * is)) = 1 };
            }
        },
    );
    Ok(())
}

/// Runs `$f::<T>(..)` with the ordered element type of a dtype.
macro_rules! by_real {
    ($args:ident, $dtype:expr, $f:ident) => {
        match $dtype {
            DType::U8 => $f::<u8>($args),
            DType::I8 => $f::<i8>($args),
            DType::I16 => $f::<i16>($args),
            DType::I32 => $f::<i32>($args),
            DType::I64 => $f::<i64>($args),
            DType::F16 => $f::<half::f16>($args),
            DType::BF16 => $f::<half::bf16>($args),
            DType::F32 => $f::<f32>($args),
            DType::F64 => $f::<f64>($args),
            DType::Bool | DType::C64 | DType::C128 => Err($args.unsupported()),
        }
    };
}

/// `isin`: inputs the elements and the test elements, of one dtype. The output is bool, of the
/// elements' shape. NaN is in nothing.
pub(crate) fn isin(args: &KernelArgs<'_>) -> Result<()> {
    by_real!(args, args.inputs()[0].dtype(), isin_as)
}

fn isin_as<T: Ordered>(args: &KernelArgs<'_>) -> Result<()> {
    let (out, elements, test) = (&args.outputs()[0], &args.inputs()[0], &args.inputs()[1]);
    let invert = args.attrs::<attrs::Isin>()?.invert;
    let mut keys = ScratchSlice::filled(test.numel(), 0u64)?;
    let p = IndexPtr::<T>::of(test);
    let mut count = 0;
    IndexWalk::new(test.shape(), [test.strides()]).all(|[i], n, [step]| {
        for j in 0..n as isize {
            // SAFETY: the walk stays within the view.
            let key = unsafe { *p.at(i + j * step) }.key();
            if T::NAN != Some(key) {
                keys[count] = key;
                count += 1;
            }
        }
    });
    let keys = &mut keys[..count];
    keys.sort_unstable();
    let keys = &*keys;
    let (to, from) = (IndexPtr::<bool>::of(out), IndexPtr::<T>::of(elements));
    let algorithm = pick(&IsinProblem { keys: count }, pool::num_threads());
    let grain = GRAIN / (8 + count.max(1).ilog2() as usize);
    IndexWalk::new(out.shape(), [out.strides(), elements.strides()]).par(
        grain,
        |[d, s], n, [ds, ss]| {
            for j in 0..n as isize {
                // SAFETY: the walk stays within both.
                unsafe {
                    let key = (*from.at(s + j * ss)).key();
                    let found = match algorithm {
                        IsinAlgorithm::Linear => keys.contains(&key),
                        IsinAlgorithm::Binary => keys.binary_search(&key).is_ok(),
                    };
                    *to.at(d + j * ds) = found != invert;
                }
            }
        },
    );
    Ok(())
}

/// Calls `f` with the position and value of every element of an int64 or int32 view, in order,
/// until one fails.
fn integers(v: &View<'_>, mut f: impl FnMut(usize, i64) -> Result<()>) -> Result<()> {
    fn walk<T: Copy + Into<i64>>(
        v: &View<'_>,
        f: &mut dyn FnMut(usize, i64) -> Result<()>,
    ) -> Result<()> {
        let p = IndexPtr::<T>::of(v);
        let (mut at, mut result) = (0, Ok(()));
        IndexWalk::new(v.shape(), [v.strides()]).all(|[i], n, [step]| {
            for j in 0..n as isize {
                if result.is_ok() {
                    // SAFETY: the walk stays within the view.
                    result = f(at, unsafe { *p.at(i + j * step) }.into());
                    at += 1;
                }
            }
        });
        result
    }
    match v.dtype() {
        DType::I64 => walk::<i64>(v, &mut f),
        DType::I32 => walk::<i32>(v, &mut f),
        DType::I16 => walk::<i16>(v, &mut f),
        DType::I8 => walk::<i8>(v, &mut f),
        DType::U8 => walk::<u8>(v, &mut f),
        other => Err(TorshError::dtype(
            "",
            format!("expected integers, got {other}"),
        )),
    }
}

/// The sum of `repeats` (int64 or int32, none negative), as a 0-d int64.
pub(crate) fn repeat_count(args: &KernelArgs<'_>) -> Result<()> {
    let mut total = 0i64;
    integers(&args.inputs()[0], |_, n| {
        if n < 0 {
            return Err(TorshError::invalid("", "repeats can not be negative"));
        }
        total = total.saturating_add(n);
        Ok(())
    })?;
    // SAFETY: the output is one int64.
    unsafe { *args.outputs()[0].ptr().cast::<i64>() = total };
    Ok(())
}

/// The position of each element, repeated as often as `repeats` (1-d) says: a 1-d int64 as long as
/// [`repeat_count`].
pub(crate) fn repeat_interleave(args: &KernelArgs<'_>) -> Result<()> {
    let out = &args.outputs()[0];
    let (to, step) = (
        IndexPtr::<i64>::of(out),
        out.strides().first().copied().unwrap_or(1),
    );
    let (mut at, end) = (0, out.numel() as i64);
    let wrong = || TorshError::invalid("", "repeats do not add up to the size of the output");
    integers(&args.inputs()[0], |i, n| {
        if n < 0 || n > end - at as i64 {
            return Err(wrong());
        }
        for _ in 0..n {
            // SAFETY: `at` is below the output's length.
            unsafe { *to.at(at as isize * step) = i as i64 };
            at += 1;
        }
        Ok(())
    })?;
    if at as i64 == end {
        Ok(())
    } else {
        Err(wrong())
    }
}

/// `bincount`: inputs 1-d integers in `0..output length`, optionally weights; the output is int64,
/// or of the weights' dtype (float32 or float64).
pub(crate) fn bincount(args: &KernelArgs<'_>) -> Result<()> {
    let (out, src) = (&args.outputs()[0], &args.inputs()[0]);
    let bins = out.numel() as i64;
    let check = |v: i64| {
        if (0..bins).contains(&v) {
            return Ok(());
        }
        Err(TorshError::invalid(
            "",
            format!(
                "bincount only supports 1-d non-negative integral inputs below its size, got {v}"
            ),
        ))
    };
    integers(src, |_, v| check(v))?;
    fill(out, Scalar::Int(0));
    let step = out.strides().first().copied().unwrap_or(1);
    let weights = args.inputs().get(1).filter(|w| w.is_present());
    match (weights, out.dtype()) {
        (None, DType::I64) => {
            let to = IndexPtr::<i64>::of(out);
            integers(src, |_, v| {
                check(v)?;
                // SAFETY: the bin was checked.
                unsafe { *to.at(v as isize * step) += 1 };
                Ok(())
            })
        }
        (Some(w), DType::F32 | DType::F64) if w.dtype() == out.dtype() => {
            let ws = w.strides().first().copied().unwrap_or(1);
            by_dtype!(out.dtype(), T => {
                use super::num::Num;
                let (to, from) = (IndexPtr::<T>::of(out), IndexPtr::<T>::of(w));
                integers(src, |i, v| {
                    check(v)?;
                    // SAFETY: the bin was checked, and there are as many weights as elements.
                    unsafe {
                        let p = to.at(v as isize * step);
                        *p = (*p).add(*from.at(i as isize * ws));
                    }
                    Ok(())
                })
            })
        }
        _ => Err(args.unsupported()),
    }
}

/// `searchsorted`: inputs the sorted sequence (1-d, or with the values' leading dimensions), the
/// values, optionally the order that sorts the sequence (int64, of its shape). The output is
/// int64 or int32, of the values' shape.
pub(crate) fn search_sorted(args: &KernelArgs<'_>) -> Result<()> {
    by_real!(args, args.inputs()[0].dtype(), search_as)
}

fn search_as<T: PartialOrd + Copy + Send + Sync>(args: &KernelArgs<'_>) -> Result<()> {
    let (out, sequence, values) = (&args.outputs()[0], &args.inputs()[0], &args.inputs()[1]);
    let right = args.attrs::<attrs::SearchSorted>()?.right;
    let last = sequence.shape().len() - 1;
    let (length, step) = (sequence.shape()[last], sequence.strides()[last]);
    let sorter = args.inputs().get(2).filter(|s| s.is_present());
    if let Some(s) = sorter {
        Index::new(s, length, last, 1, false, None)?;
    }
    let order = sorter.map(|s| (IndexPtr::<i64>::of(s), s.strides()[last]));
    // Per value: where its sequence and its sorter start.
    let n = values.shape().len();
    let own = |v: &View<'_>| {
        let mut strides = vec![0isize; n];
        if v.shape().len() > 1 {
            strides[..last].copy_from_slice(&v.strides()[..last]);
        }
        strides
    };
    let (starts, orders) = (own(sequence), sorter.map_or(vec![0; n], own));
    let (narrow, to) = (out.dtype() == DType::I32, IndexPtr::<u8>::of(out));
    let p = IndexPtr::<T>::of(sequence);
    let walk = IndexWalk::new(
        values.shape(),
        [out.strides(), values.strides(), &starts[..], &orders[..]],
    );
    let from = IndexPtr::<T>::of(values);
    let grain = GRAIN / (4 + length.max(1).ilog2() as usize);
    walk.par(grain, |[d, v, s, o], n, [ds, vs, ss, os]| {
        for j in 0..n as isize {
            // SAFETY: the walk stays within the operands, the sorter was checked.
            unsafe {
                let value = *from.at(v + j * vs);
                let (mut low, mut high) = (0, length);
                while low < high {
                    let mid = low + (high - low) / 2;
                    let at = match order {
                        Some((q, qs)) => *q.at(o + j * os + mid as isize * qs) as isize,
                        None => mid as isize,
                    };
                    let x = *p.at(s + j * ss + at * step);
                    // What NaN does here is what it does in PyTorch: neither order holds.
                    let stays = if right { x > value } else { x >= value };
                    if stays { high = mid } else { low = mid + 1 }
                }
                if narrow {
                    *to.cast::<i32>().at(d + j * ds) = low as i32;
                } else {
                    *to.cast::<i64>().at(d + j * ds) = low as i64;
                }
            }
        }
    });
    Ok(())
}
