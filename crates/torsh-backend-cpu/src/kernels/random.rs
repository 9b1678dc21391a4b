//! Random fills, each with the struct of its kernel's name in [`torsh_core::attrs`]; draws are
//! PyTorch's, in the order of memory.
//!
//! | key | fills |
//! |---|---|
//! | `Uniform`, `Normal`, `Exponential`, `Cauchy`, `LogNormal` | real floating-point types |
//! | `Geometric` | the same, and integers |
//! | `Bernoulli` | every dtype; the probabilities are input 0, or one number |
//! | `RandInt` | every dtype |
//! | `RandPerm` | a permutation of as many indices, every dtype |
//!
//! `Multinomial` draws with replacement: weights `[rows, categories]` into int64 `[rows, samples]`.
//! `Dropout` zeroes elements of input 0 and scales the others; output 1 is the mask (bool) of those
//! that stayed.

use half::{bf16, f16};
use smallvec::SmallVec;
use torsh_core::random::{self, Generator, RandomFloat};
use torsh_core::{DType, Kernel, KernelArgs, Result, Scalar, TorshError, View, attrs, pool};

use crate::memory::dense::{Dense, DenseOut, Scratch, copy, rounded, wide};
use crate::memory::operands::{missing, operands};

/// Where a call draws from.
fn source(generator: &Option<Generator>) -> &Generator {
    match generator {
        Some(g) => g,
        None => random::default_generator(),
    }
}

/// Lets `f` fill `out` with `T`s in the order of its memory; they are converted where `dtype`
/// (that of `T`) is not the output's.
fn fill<T>(out: &View<'_>, dtype: DType, f: impl FnOnce(&mut [T]) -> Result<()>) -> Result<()> {
    let n = out.numel();
    if out.dtype() == dtype && out.is_contiguous() {
        // SAFETY: the output holds `n` elements of this dtype, and is ours to write. Fills write
        // every element and read none.
        return f(unsafe { std::slice::from_raw_parts_mut(out.ptr().cast(), n) });
    }
    let block = Scratch::<T>::new(n)?;
    // SAFETY: the block is as large, and zeroed first as the numbers are read again.
    f(unsafe {
        std::ptr::write_bytes(block.ptr(), 0, n);
        std::slice::from_raw_parts_mut(block.ptr(), n)
    })?;
    spread(block.ptr().cast(), dtype, out)
}

/// Copies numbers that lie in a row to `out`, in the order of its memory.
fn spread(from: *mut u8, dtype: DType, out: &View<'_>) -> Result<()> {
    let mut order: SmallVec<[usize; 6]> = (0..out.shape().len()).collect();
    order.sort_by_key(|&d| std::cmp::Reverse(out.strides()[d]));
    let shape: SmallVec<[usize; 6]> = order.iter().map(|&d| out.shape()[d]).collect();
    let strides: SmallVec<[isize; 6]> = order.iter().map(|&d| out.strides()[d]).collect();
    let dense = torsh_core::Shape::new(&shape).contiguous_strides();
    // SAFETY: `from` has an element for each of the output's, in the order of its memory.
    let from = unsafe { View::new(from, dtype, &shape, &dense) };
    copy(
        &from,
        // SAFETY: the output's own elements, its dimensions in another order.
        &unsafe { View::new(out.ptr(), out.dtype(), &shape, &strides) },
    )
}

pub(crate) fn floating(args: &KernelArgs<'_>) -> Result<()> {
    let out = args.outputs().first().ok_or_else(missing)?;
    match out.dtype() {
        DType::F32 => floats::<f32>(args, out),
        DType::F64 => floats::<f64>(args, out),
        DType::F16 => floats::<f16>(args, out),
        DType::BF16 => floats::<bf16>(args, out),
        _ => Err(TorshError::dtype(
            "",
            format!("not implemented for {}", out.dtype()),
        )),
    }
}

fn floats<T: RandomFloat>(args: &KernelArgs<'_>, out: &View<'_>) -> Result<()> {
    // PyTorch's vector order is for row-major tensors only.
    let serial = !out.is_contiguous();
    fill::<T>(out, out.dtype(), |values| {
        match args.kernel() {
            Kernel::Uniform => {
                let a = args.attrs::<attrs::Uniform>()?;
                random::fill_uniform(source(&a.generator), values, a.from, a.to);
            }
            Kernel::Normal => {
                let a = args.attrs::<attrs::Normal>()?;
                let g = source(&a.generator);
                match serial {
                    true => random::fill_normal_serial(g, values, a.mean, a.std),
                    false => random::fill_normal(g, values, a.mean, a.std),
                }
            }
            Kernel::Exponential => {
                let a = args.attrs::<attrs::Exponential>()?;
                random::fill_exponential(source(&a.generator), values, a.lambd);
            }
            Kernel::Cauchy => {
                let a = args.attrs::<attrs::Cauchy>()?;
                random::fill_cauchy(source(&a.generator), values, a.median, a.sigma);
            }
            _ => {
                let a = args.attrs::<attrs::LogNormal>()?;
                random::fill_log_normal(source(&a.generator), values, a.mean, a.std);
            }
        }
        Ok(())
    })
}

pub(crate) fn geometric(args: &KernelArgs<'_>) -> Result<()> {
    let out = args.outputs().first().ok_or_else(missing)?;
    let attrs::Geometric { p, generator } = args.attrs()?;
    let (g, p) = (source(generator), *p);
    macro_rules! floats {
        ($t:ty) => {
            fill::<$t>(out, out.dtype(), |values| {
                random::fill_geometric(g, values, p);
                Ok(())
            })
        };
    }
    match out.dtype() {
        DType::F32 => floats!(f32),
        DType::F64 => floats!(f64),
        DType::F16 => floats!(f16),
        DType::BF16 => floats!(bf16),
        d if d.is_integer() => fill::<i64>(out, DType::I64, |values| {
            random::fill_geometric_i64(g, values, p);
            Ok(())
        }),
        _ => Err(args.unsupported()),
    }
}

/// The error for a probability outside of 0 to 1.
fn not_a_probability(p: f64) -> TorshError {
    TorshError::invalid("", format!("expected 0 <= p <= 1, but got p={p}"))
}

pub(crate) fn bernoulli(args: &KernelArgs<'_>) -> Result<()> {
    let out = args.outputs().first().ok_or_else(missing)?;
    let attrs::Bernoulli { p, generator } = args.attrs()?;
    let g = source(generator);
    if let Some(p) = *p {
        return fill::<u8>(out, DType::U8, |values| {
            random::fill_bernoulli(g, values, p);
            Ok(())
        });
    }
    let probs = args.inputs().first().filter(|p| p.is_present());
    let probs = probs.ok_or_else(missing)?;
    let dtype = wide(probs.dtype());
    let dense = Dense::new(probs, dtype)?;
    let n = probs.numel();
    macro_rules! draw {
        ($t:ty, $fill:ident) => {{
            // SAFETY: the operand has `n` numbers.
            let probs = unsafe { std::slice::from_raw_parts(dense.ptr::<$t>().get(), n) };
            if let Some(p) = probs.iter().find(|p| !(0.0..=1.0).contains(*p)) {
                return Err(not_a_probability(f64::from(*p)));
            }
            let values = DenseOut::new(out, DType::U8)?;
            // SAFETY: the output has as many elements as there are probabilities.
            let slice = unsafe { std::slice::from_raw_parts_mut(values.ptr::<u8>().get(), n) };
            random::$fill(g, slice, probs);
            values.finish()
        }};
    }
    if out.numel() != n {
        return Err(missing());
    }
    match dtype {
        DType::F32 => draw!(f32, fill_bernoulli_probs_f32),
        DType::F64 => draw!(f64, fill_bernoulli_probs_f64),
        _ => Err(args.unsupported()),
    }
}

pub(crate) fn randint(args: &KernelArgs<'_>) -> Result<()> {
    let out = args.outputs().first().ok_or_else(missing)?;
    let a = args.attrs::<attrs::RandInt>()?;
    let g = source(&a.generator);
    // Without bounds: the modulus, and whether draws take 64 bits.
    let (modulus, wide) = match out.dtype() {
        DType::Bool => (2, false),
        DType::U8 => (1 << 8, false),
        DType::I8 => (1 << 7, false),
        DType::I16 => (1 << 15, false),
        DType::I32 => (1 << 31, false),
        DType::I64 => (1 << 63, true),
        DType::F16 => ((1 << 11) + 1, false),
        DType::BF16 => ((1 << 8) + 1, false),
        DType::F32 => ((1 << 24) + 1, false),
        DType::F64 => ((1 << 53) + 1, true),
        DType::C64 | DType::C128 => return Err(args.unsupported()),
    };
    fill::<i64>(out, DType::I64, |values| {
        match (a.from, a.to) {
            (None, _) => random::fill_random_modulus_i64(g, values, modulus, wide),
            (Some(_), None) => random::fill_random_i64_full_range(g, values),
            (Some(low), Some(high)) => {
                if low >= high {
                    return Err(TorshError::invalid(
                        "",
                        format!(
                            "random_ expects 'from' to be less than 'to', but got from={low} >= to={high}"
                        ),
                    ));
                }
                random::fill_random_range_i64(g, values, low, high);
            }
        }
        Ok(())
    })
}

pub(crate) fn randperm(args: &KernelArgs<'_>) -> Result<()> {
    let out = args.outputs().first().ok_or_else(missing)?;
    let g = source(&args.attrs::<attrs::RandPerm>()?.generator);
    fill::<i64>(out, DType::I64, |values| {
        values.copy_from_slice(&random::randperm(g, values.len() as i64));
        Ok(())
    })
}

pub(crate) fn multinomial(args: &KernelArgs<'_>) -> Result<()> {
    let ([out], [weights]) = operands(args)?;
    let (&[rows, categories], &[out_rows, samples]) = (weights.shape(), out.shape()) else {
        return Err(missing());
    };
    if rows != out_rows || categories == 0 {
        return Err(missing());
    }
    let g = source(&args.attrs::<attrs::Multinomial>()?.generator);
    let dtype = wide(weights.dtype());
    let dense = Dense::new(weights, dtype)?;
    macro_rules! draw {
        ($t:ty, $fill:ident) => {{
            let w =
                // SAFETY: the row-major copy holds `rows * categories` elements of this type.
                unsafe { std::slice::from_raw_parts(dense.ptr::<$t>().get(), rows * categories) };
            for row in w.chunks_exact(categories) {
                check_weights(row.iter().map(|&w| f64::from(w)))?;
            }
            let values = DenseOut::new(out, DType::I64)?;
            // SAFETY: the output has that many samples.
            let slice = unsafe {
                std::slice::from_raw_parts_mut(values.ptr::<i64>().get(), rows * samples)
            };
            random::$fill(g, w, categories, slice);
            values.finish()
        }};
    }
    match dtype {
        DType::F32 => draw!(f32, fill_multinomial_with_replacement_f32),
        DType::F64 => draw!(f64, fill_multinomial_with_replacement_f64),
        _ => Err(args.unsupported()),
    }
}

fn check_weights(row: impl Iterator<Item = f64>) -> Result<()> {
    let mut sum = 0.0;
    for w in row {
        if !w.is_finite() || w < 0.0 {
            return Err(TorshError::invalid(
                "",
                "probability tensor contains either `inf`, `nan` or element < 0",
            ));
        }
        sum += w;
    }
    match sum > 0.0 {
        true => Ok(()),
        false => Err(TorshError::invalid(
            "",
            "invalid multinomial distribution (sum of probabilities <= 0)",
        )),
    }
}

pub(crate) fn dropout(args: &KernelArgs<'_>) -> Result<()> {
    let ([out, mask], [input]) = operands(args)?;
    let attrs::Dropout { p, generator } = args.attrs()?;
    let (g, p) = (source(generator), *p);
    // The mask is laid out as the input; so are the draws.
    fill::<u8>(
        // SAFETY: a bool takes a byte, as `u8`.
        &unsafe { View::new(mask.ptr(), DType::U8, mask.shape(), mask.strides()) },
        DType::U8,
        |values| {
            random::fill_bernoulli(g, values, 1.0 - p);
            Ok(())
        },
    )?;
    let scale = Scalar::Float(1.0 / (1.0 - p));
    macro_rules! apply {
        ($t:ty, $scale:expr) => {{
            let (x, m) = (
                Dense::new(input, wide(input.dtype()))?,
                Dense::new(mask, DType::Bool)?,
            );
            let y = DenseOut::new(out, wide(out.dtype()))?;
            let (xp, mp, yp) = (x.ptr::<$t>(), m.ptr::<u8>(), y.ptr::<$t>());
            let scale: $t = $scale;
            pool::parallel_for(out.numel(), 16 * 1024, &|range| {
                // SAFETY: all three have as many elements, and the range is this thread's.
                unsafe {
                    for i in range.start as isize..range.end as isize {
                        // Not a selection: 0 times inf is nan, as in PyTorch.
                        *yp.at(i) = *xp.at(i) * (scale * <$t>::from(*mp.at(i)));
                    }
                }
            });
            y.finish()
        }};
    }
    if out.numel() != input.numel() || mask.numel() != input.numel() {
        return Err(missing());
    }
    match wide(out.dtype()) {
        // PyTorch rounds the mask's scale to the tensor's dtype.
        DType::F32 => apply!(f32, rounded(scale.to_f64(), out.dtype()) as f32),
        DType::F64 => apply!(f64, scale.to_f64()),
        _ => Err(args.unsupported()),
    }
}
