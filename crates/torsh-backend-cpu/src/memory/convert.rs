//! Casts between dtypes, with PyTorch's results.
//!
//! A cast from floating point to an integer cuts off the fraction; what does not fit gives what
//! x86's conversion gives (the smallest `int64`, or `int32` for `int32` and the signed types
//! below it), cut down to the type. The half types go through `float32`, as PyTorch's do.

use std::mem::MaybeUninit;

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use num_complex::Complex;
use torsh_core::DType;

use crate::machine::tuning::convert::STEP;
use crate::memory::element::Packed;
use crate::multiversion;
use crate::scalar::byte::Byte;
use crate::simd::{self, Level};

/// Converts `n` adjacent elements.
type CastFn = unsafe fn(*const u8, *mut u8, usize);

trait CastSource: Copy {
    fn to_bool(self) -> bool;
    fn to_i32(self) -> i32;
    fn to_i64(self) -> i64;
    fn to_f32(self) -> f32;
    fn to_f64(self) -> f64;
    #[inline(always)]
    fn imaginary(self) -> f64 {
        0.0
    }
}

trait CastTarget: Copy {
    fn cast<S: CastSource>(s: S) -> Self;
}

macro_rules! integers {
    ($($t:ident via $to:ident),*) => {$(
        impl CastSource for $t {
            #[inline(always)]
            fn to_bool(self) -> bool { self != 0 }
            #[inline(always)]
            fn to_i32(self) -> i32 { self as i32 }
            #[inline(always)]
            fn to_i64(self) -> i64 { self as i64 }
            #[inline(always)]
            fn to_f32(self) -> f32 { self as f32 }
            #[inline(always)]
            fn to_f64(self) -> f64 { self as f64 }
        }
        impl CastTarget for $t {
            #[inline(always)]
            fn cast<S: CastSource>(s: S) -> Self { s.$to() as $t }
        }
    )*};
}
integers!(u8 via to_i64, i8 via to_i32, i16 via to_i32, i32 via to_i32, i64 via to_i64);

macro_rules! floats {
    ($($t:ident $to:ident),*) => {$(
        impl CastSource for $t {
            #[inline(always)]
            fn to_bool(self) -> bool { self != 0.0 }
            #[inline(always)]
            fn to_i32(self) -> i32 {
                // The bounds are exact in both types; f32 has no value between the two lower ones.
                if self > -2_147_483_649.0 as $t && self < 2_147_483_648.0 || self == -2_147_483_648.0 {
                    // SAFETY: the truncated value is within the range.
                    unsafe { self.to_int_unchecked() }
                } else {
                    i32::MIN
                }
            }
            #[inline(always)]
            fn to_i64(self) -> i64 {
                if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&self) {
                    // SAFETY: the truncated value is within the range.
                    unsafe { self.to_int_unchecked() }
                } else {
                    i64::MIN
                }
            }
            #[inline(always)]
            fn to_f32(self) -> f32 { self as f32 }
            #[inline(always)]
            fn to_f64(self) -> f64 { self as f64 }
        }
        impl CastTarget for $t {
            #[inline(always)]
            fn cast<S: CastSource>(s: S) -> Self { s.$to() }
        }
        impl CastSource for Complex<$t> {
            #[inline(always)]
            fn to_bool(self) -> bool { self.re != 0.0 || self.im != 0.0 }
            #[inline(always)]
            fn to_i32(self) -> i32 { self.re.to_i32() }
            #[inline(always)]
            fn to_i64(self) -> i64 { self.re.to_i64() }
            #[inline(always)]
            fn to_f32(self) -> f32 { self.re as f32 }
            #[inline(always)]
            fn to_f64(self) -> f64 { self.re as f64 }
            #[inline(always)]
            fn imaginary(self) -> f64 { self.im as f64 }
        }
        impl CastTarget for Complex<$t> {
            #[inline(always)]
            fn cast<S: CastSource>(s: S) -> Self { Complex::new(s.$to(), s.imaginary() as $t) }
        }
    )*};
}
floats!(f32 to_f32, f64 to_f64);

impl CastSource for Byte {
    #[inline(always)]
    fn to_bool(self) -> bool {
        self.get()
    }
    #[inline(always)]
    fn to_i32(self) -> i32 {
        self.get() as i32
    }
    #[inline(always)]
    fn to_i64(self) -> i64 {
        self.get() as i64
    }
    #[inline(always)]
    fn to_f32(self) -> f32 {
        self.get() as u8 as f32
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self.get() as u8 as f64
    }
}
impl CastTarget for Byte {
    #[inline(always)]
    fn cast<S: CastSource>(s: S) -> Self {
        Byte::new(s.to_bool())
    }
}

multiversion! {
    /// [`CastFn`] of two types.
    unsafe fn cast<A, S: CastSource, D: CastTarget>(src: *const u8, dst: *mut u8, n: usize) {
        // SAFETY: the caller's promise: both are valid for `n` elements and do not overlap.
        let (src, dst) = unsafe { slices::<S, D>(src, dst, n) };
        for (d, s) in dst.iter_mut().zip(src) {
            *d = Packed(D::cast(s.0));
        }
    }

    fn widen_bf16<A>(src: &[Packed<u16>], dst: &mut [Packed<u32>]) {
        for (d, s) in dst.iter_mut().zip(src) {
            *d = Packed((s.0 as u32) << 16);
        }
    }

    fn narrow_bf16<A>(src: &[Packed<u32>], dst: &mut [Packed<u16>]) {
        for (d, s) in dst.iter_mut().zip(src) {
            *d = Packed(rounded_to_bf16(s.0));
        }
    }
}

fn to<S: CastSource>(to: DType, level: Level) -> Option<CastFn> {
    Some(match to {
        DType::U8 => cast::light::<S, u8>(level),
        DType::I8 => cast::light::<S, i8>(level),
        DType::I16 => cast::light::<S, i16>(level),
        DType::I32 => cast::light::<S, i32>(level),
        DType::I64 => cast::light::<S, i64>(level),
        DType::F32 => cast::light::<S, f32>(level),
        DType::F64 => cast::light::<S, f64>(level),
        DType::C64 => cast::light::<S, Complex<f32>>(level),
        DType::C128 => cast::light::<S, Complex<f64>>(level),
        DType::Bool => cast::light::<S, Byte>(level),
        DType::F16 | DType::BF16 => return None,
    })
}

/// The loop for two dtypes that are not half types.
fn direct(from: DType, dst: DType) -> Option<CastFn> {
    let level = simd::level();
    match from {
        DType::U8 => to::<u8>(dst, level),
        DType::I8 => to::<i8>(dst, level),
        DType::I16 => to::<i16>(dst, level),
        DType::I32 => to::<i32>(dst, level),
        DType::I64 => to::<i64>(dst, level),
        DType::F32 => to::<f32>(dst, level),
        DType::F64 => to::<f64>(dst, level),
        DType::C64 => to::<Complex<f32>>(dst, level),
        DType::C128 => to::<Complex<f64>>(dst, level),
        DType::Bool => to::<Byte>(dst, level),
        DType::F16 | DType::BF16 => None,
    }
}

/// The bits of a float32 rounded to bfloat16: to nearest, ties to even; every nan becomes the one
/// PyTorch makes.
#[inline(always)]
pub(crate) const fn rounded_to_bf16(bits: u32) -> u16 {
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    let nan = bits & 0x7fff_ffff > 0x7f80_0000;
    if nan { 0x7fc0 } else { rounded as u16 }
}

/// `n` elements each; the bytes may be any, the addresses need not be aligned.
///
/// # Safety
/// `src` must be readable and `dst` writable for `n` elements; they must not overlap.
#[inline(always)]
unsafe fn slices<'a, S, D>(
    src: *const u8,
    dst: *mut u8,
    n: usize,
) -> (&'a [Packed<S>], &'a mut [Packed<D>]) {
    // SAFETY: the caller's promise.
    unsafe {
        (
            std::slice::from_raw_parts(src as *const Packed<S>, n),
            std::slice::from_raw_parts_mut(dst as *mut Packed<D>, n),
        )
    }
}

/// Half type to `float32`.
unsafe fn widen(from: DType, src: *const u8, dst: *mut u8, n: usize) {
    if from == DType::BF16 {
        // SAFETY: the caller's promise.
        let (s, d) = unsafe { slices(src, dst, n) };
        widen_bf16(s, d);
    } else if (src as usize).is_multiple_of(2) && (dst as usize).is_multiple_of(4) {
        // SAFETY: the caller's promise; the pointers are aligned, and any bits are floats.
        let (s, d) = unsafe {
            (
                std::slice::from_raw_parts(src as *const f16, n),
                std::slice::from_raw_parts_mut(dst as *mut f32, n),
            )
        };
        s.convert_to_f32_slice(d);
    } else {
        for i in 0..n {
            // SAFETY: the caller's promise.
            unsafe {
                (dst as *mut f32)
                    .add(i)
                    .write_unaligned((src as *const f16).add(i).read_unaligned().to_f32())
            };
        }
    }
}

/// `float32` to a half type.
unsafe fn narrow(to: DType, src: *const u8, dst: *mut u8, n: usize) {
    if to == DType::BF16 {
        // SAFETY: the caller's promise.
        let (s, d) = unsafe { slices(src, dst, n) };
        narrow_bf16(s, d);
    } else if (src as usize).is_multiple_of(4) && (dst as usize).is_multiple_of(2) {
        // SAFETY: the caller's promise; the pointers are aligned, and any bits are floats.
        let (s, d) = unsafe {
            (
                std::slice::from_raw_parts(src as *const f32, n),
                std::slice::from_raw_parts_mut(dst as *mut f16, n),
            )
        };
        d.convert_from_f32_slice(s);
    } else {
        for i in 0..n {
            // SAFETY: the caller's promise.
            unsafe {
                (dst as *mut f16)
                    .add(i)
                    .write_unaligned(f16::from_f32((src as *const f32).add(i).read_unaligned()))
            };
        }
    }
}

const fn is_half(d: DType) -> bool {
    matches!(d, DType::F16 | DType::BF16)
}

/// Converts `n` adjacent elements of dtype `from` into dtype `to`.
///
/// # Safety
/// `src` must be readable and `dst` writable for `n` elements; they must not overlap.
pub unsafe fn convert(from: DType, src: *const u8, to: DType, dst: *mut u8, n: usize) {
    if from == to {
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(src, dst, n * from.size()) };
        return;
    }
    match (is_half(from), is_half(to)) {
        (false, false) => {
            if let Some(f) = direct(from, to) {
                // SAFETY: the caller's promise.
                unsafe { f(src, dst, n) }
            }
        }
        // SAFETY: the caller's promise.
        (true, false) if to == DType::F32 => unsafe { widen(from, src, dst, n) },
        // SAFETY: the caller's promise.
        (false, true) if from == DType::F32 => unsafe { narrow(to, src, dst, n) },
        _ => {
            let mut between = MaybeUninit::<[f32; STEP]>::uninit();
            let between = between.as_mut_ptr() as *mut u8;
            let mut i = 0;
            while i < n {
                let m = (n - i).min(STEP);
                // SAFETY: `i + m <= n`, and `m` floats fit between.
                unsafe {
                    convert(from, src.add(i * from.size()), DType::F32, between, m);
                    convert(DType::F32, between, to, dst.add(i * to.size()), m);
                }
                i += m;
            }
        }
    }
}

/// Rounds `float32` values to what they are in the half type `to`, in place.
///
/// # Safety
/// `values` must be readable and writable for `n` floats.
pub unsafe fn round_to_half(to: DType, values: *mut u8, n: usize) {
    let mut between = MaybeUninit::<[bf16; STEP]>::uninit();
    let between = between.as_mut_ptr() as *mut u8;
    let mut i = 0;
    while i < n {
        let m = (n - i).min(STEP);
        // SAFETY: `i + m <= n`, and `m` halves fit between.
        unsafe {
            convert(DType::F32, values.add(i * 4), to, between, m);
            convert(to, between, DType::F32, values.add(i * 4), m);
        }
        i += m;
    }
}
