//! Reductions: which there are, and how they are made.
//!
//! Values are reduced in rank order, so that the result has the same bits on all ranks, in all runs, on all engines.

use std::fmt;

use torsh_tensor::{DType, Result, TorshError};

mod half;

/// How the values of all ranks become one (`torch.distributed.ReduceOp`).
///
/// The values are taken in rank order: `(r0 + r1) + r2 ..`. float16 and bfloat16 are reduced in float32 and rounded once.
/// A sum of bools is their "or", a product their "and".
///
/// ```
/// use torsh_distributed::{ReduceOp, spawn};
/// use torsh_tensor::tensor;
///
/// let largest = spawn(2, |g| {
///     let t = tensor![1.0, -1.0].mul(g.rank() as f64)?;
///     g.all_reduce_(&t, ReduceOp::Max)
/// })?;
/// assert_eq!(largest[0], tensor![1.0, 0.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum ReduceOp {
    /// Their sum.
    #[default]
    Sum,
    /// Their sum, divided by their number; of floating-point and complex numbers.
    Avg,
    /// Their product.
    Product,
    /// The smallest; NaN where one is. Not of complex numbers.
    Min,
    /// The largest; NaN where one is. Not of complex numbers.
    Max,
    /// Bitwise and, of integers and bools.
    BAnd,
    /// Bitwise or, of integers and bools.
    BOr,
    /// Bitwise exclusive or, of integers and bools.
    BXor,
    /// Each times a factor, then their sum; of floating-point numbers.
    PreMulSum(f64),
}

impl fmt::Display for ReduceOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReduceOp::Sum => "sum",
            ReduceOp::Avg => "avg",
            ReduceOp::Product => "product",
            ReduceOp::Min => "min",
            ReduceOp::Max => "max",
            ReduceOp::BAnd => "band",
            ReduceOp::BOr => "bor",
            ReduceOp::BXor => "bxor",
            ReduceOp::PreMulSum(factor) => return write!(f, "premul sum {factor}"),
        })
    }
}

impl ReduceOp {
    /// Refuses a dtype that this does not reduce.
    pub(crate) fn check(self, op: &'static str, dtype: DType) -> Result<()> {
        let (knows, of) = match self {
            ReduceOp::Sum | ReduceOp::Product => (true, ""),
            ReduceOp::Avg => (
                dtype.is_differentiable(),
                "floating-point and complex numbers",
            ),
            ReduceOp::Min | ReduceOp::Max => (!dtype.is_complex(), "real numbers"),
            ReduceOp::BAnd | ReduceOp::BOr | ReduceOp::BXor => (
                dtype.is_integer() || dtype == DType::Bool,
                "integers and bools",
            ),
            ReduceOp::PreMulSum(_) => (dtype.is_floating_point(), "floating-point numbers"),
        };
        if knows {
            return Ok(());
        }
        let message = format!("the reduction {self} is of {of}, and the tensor is {dtype}");
        Err(TorshError::dtype(op, message)
            .with_hint("convert the tensor with to_dtype, or use another ReduceOp"))
    }
}

/// Who makes reductions; an option of a group.
///
/// ```
/// use torsh_distributed::spawn;
/// use torsh_distributed::ReduceMode;
/// assert_eq!(spawn(1, |g| Ok(g.reduce_mode()))?, [ReduceMode::Ordered]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReduceMode {
    /// This crate, in rank order: the same bits on all ranks, in all runs, on all engines. Costs a message from each rank
    /// to each.
    #[default]
    Ordered,
    /// The engine's own reduction, such as `MPI_Iallreduce`, with its trees and the network's help, where `all_reduce`
    /// makes sums, averages, products, minima and maxima of float32, float64 and integers; all else is made in order. For
    /// a few dozen ranks and more.
    Engine,
}

/// Elements that are reduced together, on the stack.
const BLOCK: usize = 512;

/// Reduces byte slices of elements of one dtype in their order. `None` stands for what `out` holds.
pub(crate) fn fold(
    op: ReduceOp,
    dtype: DType,
    inputs: &[Option<&[u8]>],
    out: &mut [u8],
) -> Result<()> {
    match dtype {
        DType::F32 => floats(op, inputs, out, FLOAT32),
        DType::F64 => floats(op, inputs, out, FLOAT64),
        DType::F16 => floats(op, inputs, out, FLOAT16),
        DType::BF16 => floats(op, inputs, out, BFLOAT16),
        DType::U8 => integers::<u8, 1>(op, inputs, out),
        DType::I8 => integers::<i8, 1>(op, inputs, out),
        DType::I16 => integers::<i16, 2>(op, inputs, out),
        DType::I32 => integers::<i32, 4>(op, inputs, out),
        DType::I64 => integers::<i64, 8>(op, inputs, out),
        DType::Bool => bools(op, inputs, out),
        DType::C64 => complex(op, inputs, out, FLOAT32),
        DType::C128 => complex(op, inputs, out, FLOAT64),
    }
}

/// Divides elements by a number.
pub(crate) fn divide(dtype: DType, n: usize, out: &mut [u8]) -> Result<()> {
    fn all<T: Float, const N: usize>(n: usize, out: &mut [u8], codec: Codec<T, N>) {
        let n = T::of(n as f64);
        let divided = |a: T| a / n;
        let first = |a: T, _: T| a;
        blocks(&[None], out, codec.read, codec.write, same, first, divided);
    }
    match dtype {
        DType::F32 | DType::C64 => all(n, out, FLOAT32),
        DType::F64 | DType::C128 => all(n, out, FLOAT64),
        DType::F16 => all(n, out, FLOAT16),
        DType::BF16 => all(n, out, BFLOAT16),
        _ => return ReduceOp::Avg.check("", dtype),
    }
    Ok(())
}

/// How a type is read from its bytes, and written.
struct Codec<T, const N: usize> {
    read: fn([u8; N]) -> T,
    write: fn(T) -> [u8; N],
}

const FLOAT32: Codec<f32, 4> = Codec {
    read: f32::from_ne_bytes,
    write: f32::to_ne_bytes,
};
const FLOAT64: Codec<f64, 8> = Codec {
    read: f64::from_ne_bytes,
    write: f64::to_ne_bytes,
};
const FLOAT16: Codec<f32, 2> = Codec {
    read: half::read_f16,
    write: half::write_f16,
};
const BFLOAT16: Codec<f32, 2> = Codec {
    read: half::read_bf16,
    write: half::write_bf16,
};

/// The loop of all reductions: blocks that stay in the cache, each of all inputs.
#[inline(always)]
fn blocks<T: Copy + Default, const N: usize>(
    inputs: &[Option<&[u8]>],
    out: &mut [u8],
    read: impl Fn([u8; N]) -> T + Copy,
    write: impl Fn(T) -> [u8; N] + Copy,
    first: impl Fn(T) -> T + Copy,
    join: impl Fn(T, T) -> T + Copy,
    last: impl Fn(T) -> T + Copy,
) {
    let mut acc = [T::default(); BLOCK];
    for (i, own) in out.chunks_mut(BLOCK * N).enumerate() {
        let (start, len) = (i * BLOCK * N, own.len());
        for (k, input) in inputs.iter().enumerate() {
            let from: &[u8] = match input {
                Some(bytes) => &bytes[start..start + len],
                None => own,
            };
            let elements = from.as_chunks::<N>().0;
            if k == 0 {
                for (a, &e) in acc.iter_mut().zip(elements) {
                    *a = first(read(e));
                }
            } else {
                for (a, &e) in acc.iter_mut().zip(elements) {
                    *a = join(*a, first(read(e)));
                }
            }
        }
        for (o, &a) in own.as_chunks_mut::<N>().0.iter_mut().zip(&acc) {
            *o = write(last(a));
        }
    }
}

/// The arithmetic of real floating-point types.
trait Float:
    Copy
    + Default
    + PartialOrd
    + std::ops::Add<Output = Self>
    + std::ops::Mul<Output = Self>
    + std::ops::Div<Output = Self>
    + std::ops::Sub<Output = Self>
{
    fn of(v: f64) -> Self;
}

impl Float for f32 {
    fn of(v: f64) -> f32 {
        v as f32
    }
}

impl Float for f64 {
    fn of(v: f64) -> f64 {
        v
    }
}

#[inline(always)]
#[allow(clippy::eq_op)] // A number that differs from itself is none.
fn is_nan<T: PartialEq + Copy>(v: T) -> bool {
    v != v
}

#[inline(always)]
fn same<T>(v: T) -> T {
    v
}

fn floats<T: Float, const N: usize>(
    op: ReduceOp,
    inputs: &[Option<&[u8]>],
    out: &mut [u8],
    codec: Codec<T, N>,
) -> Result<()> {
    let n = T::of(inputs.len() as f64);
    // The functions are named here, so that each loop is compiled for its own.
    macro_rules! run {
        ($first:expr, $join:expr, $last:expr) => {
            blocks(inputs, out, codec.read, codec.write, $first, $join, $last)
        };
    }
    let add = |a: T, b: T| a + b;
    match op {
        ReduceOp::Sum => run!(same, add, same),
        ReduceOp::Avg => run!(same, add, |a| a / n),
        ReduceOp::Product => run!(same, |a, b| a * b, same),
        ReduceOp::Min => run!(same, |a, b| if a < b || is_nan(a) { a } else { b }, same),
        ReduceOp::Max => run!(same, |a, b| if a > b || is_nan(a) { a } else { b }, same),
        ReduceOp::PreMulSum(f) => {
            let f = T::of(f);
            run!(|a: T| a * f, add, same)
        }
        ReduceOp::BAnd | ReduceOp::BOr | ReduceOp::BXor => {
            return op.check("", if N == 8 { DType::F64 } else { DType::F32 });
        }
    }
    Ok(())
}

/// The arithmetic of integers.
trait Integer<const N: usize>:
    Copy
    + Default
    + Ord
    + std::ops::BitAnd<Output = Self>
    + std::ops::BitOr<Output = Self>
    + std::ops::BitXor<Output = Self>
{
    const DTYPE: DType;
    fn read(bytes: [u8; N]) -> Self;
    fn write(self) -> [u8; N];
    fn add(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
}

macro_rules! integer {
    ($($t:ident $n:literal $d:ident),*) => {$(
        impl Integer<$n> for $t {
            const DTYPE: DType = DType::$d;
            #[inline(always)]
            fn read(bytes: [u8; $n]) -> $t { <$t>::from_ne_bytes(bytes) }
            #[inline(always)]
            fn write(self) -> [u8; $n] { self.to_ne_bytes() }
            #[inline(always)]
            fn add(self, other: $t) -> $t { self.wrapping_add(other) }
            #[inline(always)]
            fn times(self, other: $t) -> $t { self.wrapping_mul(other) }
        }
    )*};
}
integer!(u8 1 U8, i8 1 I8, i16 2 I16, i32 4 I32, i64 8 I64);

fn integers<T: Integer<N>, const N: usize>(
    op: ReduceOp,
    inputs: &[Option<&[u8]>],
    out: &mut [u8],
) -> Result<()> {
    macro_rules! run {
        ($join:expr) => {
            blocks(inputs, out, T::read, T::write, same, $join, same)
        };
    }
    match op {
        ReduceOp::Sum => run!(T::add),
        ReduceOp::Product => run!(T::times),
        ReduceOp::Min => run!(|a: T, b: T| a.min(b)),
        ReduceOp::Max => run!(|a: T, b: T| a.max(b)),
        ReduceOp::BAnd => run!(|a: T, b: T| a & b),
        ReduceOp::BOr => run!(|a: T, b: T| a | b),
        ReduceOp::BXor => run!(|a: T, b: T| a ^ b),
        ReduceOp::Avg | ReduceOp::PreMulSum(_) => return op.check("", T::DTYPE),
    }
    Ok(())
}

fn bools(op: ReduceOp, inputs: &[Option<&[u8]>], out: &mut [u8]) -> Result<()> {
    // Any byte but 0 is true.
    let read = |[b]: [u8; 1]| u8::from(b != 0);
    let write = |b: u8| [b];
    macro_rules! run {
        ($join:expr) => {
            blocks(inputs, out, read, write, same, $join, same)
        };
    }
    match op {
        ReduceOp::Sum | ReduceOp::Max | ReduceOp::BOr => run!(|a, b| a | b),
        ReduceOp::Product | ReduceOp::Min | ReduceOp::BAnd => run!(|a, b| a & b),
        ReduceOp::BXor => run!(|a, b| a ^ b),
        ReduceOp::Avg | ReduceOp::PreMulSum(_) => return op.check("", DType::Bool),
    }
    Ok(())
}

fn complex<T: Float, const N: usize>(
    op: ReduceOp,
    inputs: &[Option<&[u8]>],
    out: &mut [u8],
    codec: Codec<T, N>,
) -> Result<()> {
    match op {
        // Sums of the parts.
        ReduceOp::Sum | ReduceOp::Avg => floats(op, inputs, out, codec),
        ReduceOp::Product => {
            let own: Vec<[u8; N]> = out.as_chunks::<N>().0.to_vec();
            let parts: Vec<&[[u8; N]]> = inputs
                .iter()
                .map(|i| i.map_or(&own[..], |b| b.as_chunks::<N>().0))
                .collect();
            for (j, pair) in out.as_chunks_mut::<N>().0.chunks_exact_mut(2).enumerate() {
                let at = |p: &[[u8; N]]| ((codec.read)(p[2 * j]), (codec.read)(p[2 * j + 1]));
                let product = parts
                    .iter()
                    .map(|p| at(p))
                    .reduce(|(a, b), (c, d)| (a * c - b * d, a * d + b * c));
                if let Some((re, im)) = product {
                    pair[0] = (codec.write)(re);
                    pair[1] = (codec.write)(im);
                }
            }
            Ok(())
        }
        _ => op.check("", if N == 8 { DType::C128 } else { DType::C64 }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use torsh_tensor::{Tensor, cat};

    fn fold_tensors(op: ReduceOp, all: &[Tensor]) -> Result<Tensor> {
        let bytes: Vec<Vec<u8>> = all.iter().map(Tensor::to_bytes).collect::<Result<_>>()?;
        // The second one's place is the output.
        let mut out = bytes[1].clone();
        let inputs: Vec<Option<&[u8]>> = bytes
            .iter()
            .enumerate()
            .map(|(i, b)| (i != 1).then_some(&b[..]))
            .collect();
        fold(op, all[0].dtype(), &inputs, &mut out)?;
        Tensor::from_bytes(&out, all[0].dtype(), all[0].shape())
    }

    #[test]
    fn sums_are_those_of_tensors_in_order() -> Result<()> {
        for dtype in DType::ALL {
            let all: Vec<Tensor> = (0..3)
                .map(|r| {
                    let x = torsh_tensor::randn(&[1500]).mul(3.0 + r as f64)?;
                    match dtype {
                        DType::Bool => x.gt(1.0),
                        DType::U8 => x.abs()?.to_dtype(dtype),
                        _ => x.to_dtype(dtype),
                    }
                })
                .collect::<Result<_>>()?;
            let wide = match dtype {
                DType::F16 | DType::BF16 => DType::F32,
                d => d,
            };
            let w: Vec<Tensor> = all
                .iter()
                .map(|t| t.to_dtype(wide))
                .collect::<Result<_>>()?;
            let sum = match dtype {
                DType::Bool => w[0].logical_or(&w[1])?.logical_or(&w[2])?,
                _ => w[0].add(&w[1])?.add(&w[2])?,
            };
            assert_eq!(
                fold_tensors(ReduceOp::Sum, &all)?,
                sum.to_dtype(dtype)?,
                "{dtype}"
            );
            let product = match dtype {
                DType::Bool => w[0].logical_and(&w[1])?.logical_and(&w[2])?,
                _ => w[0].mul(&w[1])?.mul(&w[2])?,
            };
            let ours = fold_tensors(ReduceOp::Product, &all)?;
            match dtype.is_complex() {
                true => assert!(ours.allclose(&product)?, "{dtype}"),
                false => assert_eq!(ours, product.to_dtype(dtype)?, "{dtype}"),
            }
            if dtype.is_floating_point() {
                let mean = sum.div(3.0)?.to_dtype(dtype)?;
                assert_eq!(fold_tensors(ReduceOp::Avg, &all)?, mean, "{dtype}");
                let scaled = w[0]
                    .mul(0.25)?
                    .add(&w[1].mul(0.25)?)?
                    .add(&w[2].mul(0.25)?)?;
                let ours = fold_tensors(ReduceOp::PreMulSum(0.25), &all)?;
                assert_eq!(ours, scaled.to_dtype(dtype)?, "{dtype}");
            } else if !dtype.is_complex() {
                assert!(fold_tensors(ReduceOp::Avg, &all).is_err());
                let both = fold_tensors(ReduceOp::BXor, &all)?;
                let expected = all[0].bitwise_xor(&all[1])?.bitwise_xor(&all[2])?;
                assert_eq!(both, expected, "{dtype}");
            }
            if dtype.is_complex() {
                assert!(fold_tensors(ReduceOp::Min, &all).is_err());
            } else if dtype != DType::Bool {
                let low = all[0].minimum(&all[1])?.minimum(&all[2])?;
                assert_eq!(fold_tensors(ReduceOp::Min, &all)?, low, "{dtype}");
                let high = all[0].maximum(&all[1])?.maximum(&all[2])?;
                assert_eq!(fold_tensors(ReduceOp::Max, &all)?, high, "{dtype}");
            }
        }
        Ok(())
    }

    #[test]
    fn nan_wins() -> Result<()> {
        let nan = torsh_tensor::tensor![f32::NAN, 1.0, 2.0];
        let others = [
            torsh_tensor::tensor![1.0, f32::NAN, 0.0],
            torsh_tensor::tensor![0.0, 0.0, 1.0],
        ];
        for op in [ReduceOp::Min, ReduceOp::Max] {
            let all = [nan.clone(), others[0].clone(), others[1].clone()];
            let v = fold_tensors(op, &all)?.to_vec::<f32>()?;
            assert!(v[0].is_nan() && v[1].is_nan() && !v[2].is_nan(), "{v:?}");
        }
        Ok(())
    }

    #[test]
    fn halves_convert_as_tensors_do() -> Result<()> {
        let all: Vec<u16> = (0..=u16::MAX).collect();
        for (dtype, read, write) in [
            (
                DType::F16,
                half::read_f16 as fn([u8; 2]) -> f32,
                half::write_f16 as fn(f32) -> [u8; 2],
            ),
            (DType::BF16, half::read_bf16, half::write_bf16),
        ] {
            let bytes: Vec<u8> = all.iter().flat_map(|b| b.to_ne_bytes()).collect();
            let t = Tensor::from_bytes(&bytes, dtype, [all.len()])?;
            let wide = t.to_dtype(DType::F32)?.to_vec::<f32>()?;
            for (b, w) in all.iter().zip(&wide) {
                let ours = read(b.to_ne_bytes());
                assert!(
                    ours.to_bits() == w.to_bits() || (ours.is_nan() && w.is_nan()),
                    "{b:x}"
                );
            }
            let near = Tensor::from_vec(wide.clone(), &[all.len()])?;
            let near = cat(
                &[
                    near.mul(1.0003)?,
                    near.mul(0.9997)?,
                    near.mul(1.00048828125)?,
                ],
                0,
            )?;
            let there = near.to_dtype(dtype)?.to_bytes()?;
            for (v, expected) in near.to_vec::<f32>()?.iter().zip(there.chunks_exact(2)) {
                let nan = v.is_nan();
                assert!(nan || write(*v) == expected, "{v} {expected:?}");
            }
        }
        Ok(())
    }
}
