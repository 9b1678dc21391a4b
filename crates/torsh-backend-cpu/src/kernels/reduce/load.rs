//! Blocks of elements, converted to the type a reduction computes in, and results back.
//!
//! Loops exist for float32, float64, int64 and complex only; other dtypes and strided rows pass
//! through a buffer that stays in the L1 cache.

use half::{bf16, f16};
use num_complex::Complex;
use torsh_core::{DType, cmath};

use crate::multiversion;

/// `dst[i] = convert(src[i * stride])` for `i < n`; the stride is in elements.
pub(crate) type Load = unsafe fn(src: *const u8, stride: isize, n: usize, dst: *mut u8);

/// What a block is converted to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum As {
    F32,
    F64,
    I64,
    C64,
    C128,
    /// `u8`: 1 where the element is not zero (NaN is not).
    NonZero,
    /// Absolute value of a complex number as its real type; real numbers as they are.
    Abs32,
    Abs64,
}

impl As {
    /// The type in which a dtype's own values are compared or summed.
    pub(crate) fn of(dtype: DType) -> As {
        match dtype {
            DType::F16 | DType::BF16 | DType::F32 => As::F32,
            DType::F64 => As::F64,
            DType::C64 => As::C64,
            DType::C128 => As::C128,
            _ => As::I64,
        }
    }
}

/// A conversion of one element.
pub(crate) trait Convert: 'static {
    type From: Copy;
    type To: Copy;
    fn convert(x: Self::From) -> Self::To;
}

multiversion! {
    unsafe fn contiguous<A, C: Convert>(src: *const u8, n: usize, dst: *mut u8) {
        let (src, dst) = (src.cast::<C::From>(), dst.cast::<C::To>());
        for i in 0..n {
            // SAFETY: the caller's promise: n elements on both sides.
            unsafe { *dst.add(i) = C::convert(*src.add(i)) };
        }
    }
}

unsafe fn load<C: Convert>(src: *const u8, stride: isize, n: usize, dst: *mut u8) {
    if stride == 1 {
        // SAFETY: the caller's promise.
        return unsafe { contiguous::<C>(src, n, dst) };
    }
    let (src, dst) = (src.cast::<C::From>(), dst.cast::<C::To>());
    for i in 0..n {
        // SAFETY: the caller's promise: n elements on both sides.
        unsafe { *dst.add(i) = C::convert(*src.offset(i as isize * stride)) };
    }
}

macro_rules! conversions {
    ($($name:ident: $from:ty => $to:ty, |$x:ident| $e:expr;)*) => {$(
        struct $name;
        impl Convert for $name {
            type From = $from;
            type To = $to;
            #[inline(always)]
            fn convert($x: $from) -> $to { $e }
        }
    )*};
}

/// The float a half-precision number stands for, without a branch so that loops vectorise.
#[inline(always)]
pub(crate) fn f16_to_f32(bits: u16) -> f32 {
    let h = bits as u32;
    // The exponent's bias is corrected by a product, which is right for subnormals as well.
    let scaled = f32::from_bits((h & 0x7fff) << 13) * f32::from_bits(0x7780_0000);
    let special = if h & 0x7c00 == 0x7c00 { 0x7f80_0000 } else { 0 };
    f32::from_bits(scaled.to_bits() | special | (h & 0x8000) << 16)
}

/// The float a bfloat16 stands for.
#[inline(always)]
pub(crate) fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits((bits as u32) << 16)
}

/// The nearest half-precision number, ties to even, without a branch.
#[inline(always)]
pub(crate) fn f32_to_f16(x: f32) -> u16 {
    let bits = x.to_bits();
    let a = bits & 0x7fff_ffff;
    let normal = a.wrapping_add(0xc800_0fff).wrapping_add((a >> 13) & 1) >> 13;
    // Adding 0.5 aligns a subnormal result at the low end of the mantissa, and rounds it.
    let small = (f32::from_bits(a) + 0.5)
        .to_bits()
        .wrapping_sub(0.5f32.to_bits());
    let large = if a > 0x7f80_0000 { 0x7e00 } else { 0x7c00 };
    let r = if a < 113 << 23 { small } else { normal };
    let r = if a >= 143 << 23 { large } else { r };
    (r | (bits >> 16) & 0x8000) as u16
}

/// The nearest bfloat16, ties to even, without a branch.
#[inline(always)]
pub(crate) fn f32_to_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    (if bits & 0x7fff_ffff > 0x7f80_0000 {
        (bits >> 16) | 0x40
    } else {
        rounded
    }) as u16
}

/// A half-precision format.
pub(crate) trait Half: 'static {
    /// The bits of the nearest number, ties to even.
    fn bits(x: f32) -> u16;
    /// The number of these bits.
    fn number(bits: u16) -> f32;
    /// The nearest number, ties to even.
    #[inline(always)]
    fn nearest(x: f32) -> f32 {
        Self::number(Self::bits(x))
    }
}

pub(crate) struct Float16;
impl Half for Float16 {
    #[inline(always)]
    fn bits(x: f32) -> u16 {
        f32_to_f16(x)
    }
    #[inline(always)]
    fn number(bits: u16) -> f32 {
        f16_to_f32(bits)
    }
}

pub(crate) struct BFloat16;
impl Half for BFloat16 {
    #[inline(always)]
    fn bits(x: f32) -> u16 {
        f32_to_bf16(x)
    }
    #[inline(always)]
    fn number(bits: u16) -> f32 {
        bf16_to_f32(bits)
    }
}

/// `dst[i * stride] = convert(src[i])` for `i < n`; the stride is in elements.
pub(crate) type Store = unsafe fn(src: *const u8, n: usize, dst: *mut u8, stride: isize);

unsafe fn store<C: Convert>(src: *const u8, n: usize, dst: *mut u8, stride: isize) {
    if stride == 1 {
        // SAFETY: the caller's promise.
        return unsafe { contiguous::<C>(src, n, dst) };
    }
    let (src, dst) = (src.cast::<C::From>(), dst.cast::<C::To>());
    for i in 0..n {
        // SAFETY: the caller's promise: n elements on both sides.
        unsafe { *dst.offset(i as isize * stride) = C::convert(*src.add(i)) };
    }
}

/// The conversion of float32 or float64 results to `dtype`, where there is one.
pub(crate) fn storer(from: As, dtype: DType) -> Option<Store> {
    Some(match (from, dtype) {
        (As::F32, DType::F32) => store::<F32F32>,
        (As::F32, DType::F16) => store::<F32F16>,
        (As::F32, DType::BF16) => store::<F32BF16>,
        (As::F64, DType::F64) => store::<F64F64>,
        _ => return None,
    })
}

conversions! {
    F32F16: f32 => u16, |x| f32_to_f16(x);
    F32BF16: f32 => u16, |x| f32_to_bf16(x);
    F16F32: u16 => f32, |x| f16_to_f32(x);
    BF16F32: u16 => f32, |x| bf16_to_f32(x);
    F32F32: f32 => f32, |x| x;
    F32F64: f32 => f64, |x| x as f64;
    F16F64: u16 => f64, |x| f16_to_f32(x) as f64;
    BF16F64: u16 => f64, |x| bf16_to_f32(x) as f64;
    F64F64: f64 => f64, |x| x;
    U8F64: u8 => f64, |x| x as f64;
    BoolF64: u8 => f64, |x| (x != 0) as u8 as f64;
    I8F64: i8 => f64, |x| x as f64;
    I16F64: i16 => f64, |x| x as f64;
    I32F64: i32 => f64, |x| x as f64;
    I64F64: i64 => f64, |x| x as f64;
    U8I64: u8 => i64, |x| x as i64;
    BoolI64: u8 => i64, |x| (x != 0) as i64;
    I8I64: i8 => i64, |x| x as i64;
    I16I64: i16 => i64, |x| x as i64;
    I32I64: i32 => i64, |x| x as i64;
    I64I64: i64 => i64, |x| x;
    C64C64: Complex<f32> => Complex<f32>, |x| x;
    C64C128: Complex<f32> => Complex<f64>, |x| Complex::new(x.re as f64, x.im as f64);
    C128C128: Complex<f64> => Complex<f64>, |x| x;
    NonZero1: u8 => u8, |x| (x != 0) as u8;
    NonZero2: u16 => u8, |x| (x != 0) as u8;
    NonZero4: u32 => u8, |x| (x != 0) as u8;
    NonZero8: u64 => u8, |x| (x != 0) as u8;
    NonZeroF2: u16 => u8, |x| (x & 0x7fff != 0) as u8;
    NonZeroF4: f32 => u8, |x| (x != 0.0) as u8;
    NonZeroF8: f64 => u8, |x| (x != 0.0) as u8;
    NonZeroC8: Complex<f32> => u8, |x| ((x.re != 0.0) | (x.im != 0.0)) as u8;
    NonZeroC16: Complex<f64> => u8, |x| ((x.re != 0.0) | (x.im != 0.0)) as u8;
    AbsC8: Complex<f32> => f32, |x| ((x.re as f64) * (x.re as f64) + (x.im as f64) * (x.im as f64)).sqrt() as f32;
    AbsC16: Complex<f64> => f64, |x| cmath::hypot(x.re, x.im);
}

/// The conversion of `dtype`, where there is one.
pub(crate) fn loader(dtype: DType, to: As) -> Option<Load> {
    use DType as D;
    Some(match (to, dtype) {
        (As::F32 | As::Abs32, D::F32) => load::<F32F32>,
        (As::F32 | As::Abs32, D::F16) => load::<F16F32>,
        (As::F32 | As::Abs32, D::BF16) => load::<BF16F32>,
        (As::F64 | As::Abs64, D::F64) => load::<F64F64>,
        (As::F64, D::F32) => load::<F32F64>,
        (As::F64, D::F16) => load::<F16F64>,
        (As::F64, D::BF16) => load::<BF16F64>,
        (As::F64, D::U8) => load::<U8F64>,
        (As::F64, D::Bool) => load::<BoolF64>,
        (As::F64, D::I8) => load::<I8F64>,
        (As::F64, D::I16) => load::<I16F64>,
        (As::F64, D::I32) => load::<I32F64>,
        (As::F64, D::I64) => load::<I64F64>,
        (As::I64, D::U8) => load::<U8I64>,
        (As::I64, D::Bool) => load::<BoolI64>,
        (As::I64, D::I8) => load::<I8I64>,
        (As::I64, D::I16) => load::<I16I64>,
        (As::I64, D::I32) => load::<I32I64>,
        (As::I64, D::I64) => load::<I64I64>,
        (As::C64, D::C64) => load::<C64C64>,
        (As::C128, D::C128) => load::<C128C128>,
        (As::C128, D::C64) => load::<C64C128>,
        (As::NonZero, D::U8 | D::I8 | D::Bool) => load::<NonZero1>,
        (As::NonZero, D::I16) => load::<NonZero2>,
        (As::NonZero, D::I32) => load::<NonZero4>,
        (As::NonZero, D::I64) => load::<NonZero8>,
        (As::NonZero, D::F16 | D::BF16) => load::<NonZeroF2>,
        (As::NonZero, D::F32) => load::<NonZeroF4>,
        (As::NonZero, D::F64) => load::<NonZeroF8>,
        (As::NonZero, D::C64) => load::<NonZeroC8>,
        (As::NonZero, D::C128) => load::<NonZeroC16>,
        (As::Abs32, D::C64) => load::<AbsC8>,
        (As::Abs64, D::C128) => load::<AbsC16>,
        _ => return None,
    })
}

/// Whether the elements can be read in place: the conversion changes nothing.
pub(crate) fn is_native(dtype: DType, to: As) -> bool {
    matches!(
        (to, dtype),
        (As::F32 | As::Abs32, DType::F32)
            | (As::F64 | As::Abs64, DType::F64)
            | (As::I64, DType::I64)
            | (As::C64, DType::C64)
            | (As::C128, DType::C128)
            | (As::NonZero, DType::Bool)
    )
}

/// A run of results.
#[derive(Clone, Copy)]
pub(crate) struct Out {
    pub ptr: *mut u8,
    /// In elements.
    pub stride: isize,
    pub dtype: DType,
}

macro_rules! put {
    ($out:expr, $n:expr, $t:ty, |$i:ident| $e:expr) => {{
        let p = $out.ptr.cast::<$t>();
        for $i in 0..$n {
            // SAFETY: the caller's promise: n results fit.
            unsafe { *p.offset($i as isize * $out.stride) = $e };
        }
    }};
}

impl Out {
    /// Writes real numbers, rounded to the dtype; integers only take what fits them.
    ///
    /// # Safety
    /// `n` elements of the dtype must be there.
    #[inline(always)]
    pub(crate) unsafe fn real(&self, n: usize, f: impl Fn(usize) -> f64) {
        match self.dtype {
            DType::F32 => put!(self, n, f32, |i| f(i) as f32),
            DType::F64 => put!(self, n, f64, |i| f(i)),
            // Through float32, as PyTorch, whose half results are rounded from there.
            DType::F16 => put!(self, n, f16, |i| f16::from_f32(f(i) as f32)),
            DType::BF16 => put!(self, n, bf16, |i| bf16::from_f32(f(i) as f32)),
            DType::C64 => put!(self, n, Complex<f32>, |i| Complex::new(f(i) as f32, 0.0)),
            DType::C128 => put!(self, n, Complex<f64>, |i| Complex::new(f(i), 0.0)),
            // SAFETY: the caller's promise.
            _ => unsafe { self.int(n, |i| f(i) as i64) },
        }
    }

    /// Writes integers, cut to the dtype's bits.
    ///
    /// # Safety
    /// As for [`real`](Self::real).
    #[inline(always)]
    pub(crate) unsafe fn int(&self, n: usize, f: impl Fn(usize) -> i64) {
        match self.dtype {
            DType::I64 => put!(self, n, i64, |i| f(i)),
            DType::I32 => put!(self, n, i32, |i| f(i) as i32),
            DType::I16 => put!(self, n, i16, |i| f(i) as i16),
            DType::I8 | DType::U8 => put!(self, n, i8, |i| f(i) as i8),
            DType::Bool => put!(self, n, u8, |i| (f(i) != 0) as u8),
            DType::F32 => put!(self, n, f32, |i| f(i) as f32),
            DType::F64 => put!(self, n, f64, |i| f(i) as f64),
            DType::F16 => put!(self, n, f16, |i| f16::from_f64(f(i) as f64)),
            DType::BF16 => put!(self, n, bf16, |i| bf16::from_f64(f(i) as f64)),
            DType::C64 => put!(self, n, Complex<f32>, |i| Complex::new(f(i) as f32, 0.0)),
            DType::C128 => put!(self, n, Complex<f64>, |i| Complex::new(f(i) as f64, 0.0)),
        }
    }

    /// Writes complex numbers; the dtype must be complex.
    ///
    /// # Safety
    /// As for [`real`](Self::real).
    #[inline(always)]
    pub(crate) unsafe fn complex(&self, n: usize, f: impl Fn(usize) -> Complex<f64>) {
        match self.dtype {
            DType::C128 => put!(self, n, Complex<f64>, |i| f(i)),
            _ => put!(self, n, Complex<f32>, |i| {
                let z = f(i);
                Complex::new(z.re as f32, z.im as f32)
            }),
        }
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;

    #[torsh_macros::unit_test]
    fn every_half_converts_as_the_crate_does() {
        for bits in 0..=u16::MAX {
            let want = f16::from_bits(bits).to_f32();
            let got = f16_to_f32(bits);
            assert!(
                got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan()),
                "{bits:x} {got} {want}"
            );
        }
    }

    #[torsh_macros::unit_test]
    fn floats_round_to_halves_as_the_crate_does() {
        for i in 0..=u16::MAX as u32 {
            for low in [
                0u32, 1, 0xfff, 0x1000, 0x1001, 0x7fff, 0x8000, 0x8001, 0xffff,
            ] {
                let x = f32::from_bits(i << 16 | low);
                let (h, b) = (
                    f16::from_bits(f32_to_f16(x)),
                    bf16::from_bits(f32_to_bf16(x)),
                );
                if x.is_nan() {
                    assert!(h.is_nan() && b.is_nan());
                } else {
                    assert_eq!(h.to_bits(), f16::from_f32(x).to_bits(), "{x}");
                    assert_eq!(b.to_bits(), bf16::from_f32(x).to_bits(), "{x}");
                }
            }
        }
    }

    #[torsh_macros::unit_test]
    fn strided_and_contiguous_agree() {
        let src: Vec<i16> = (0..40).map(|i| i * 3 - 50).collect();
        let f = loader(DType::I16, As::I64).expect("exists");
        let mut dst = [0i64; 13];
        // SAFETY: 13 elements at a stride of 3 lie within the 40, and 13 fit.
        unsafe { f(src.as_ptr().cast(), 3, 13, dst.as_mut_ptr().cast()) };
        for (i, &d) in dst.iter().enumerate() {
            assert_eq!(d, src[i * 3] as i64);
        }
    }
}
