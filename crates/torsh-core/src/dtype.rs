//! Element types and PyTorch's type promotion.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU8, Ordering};

use half::{bf16, f16};
use num_complex::Complex;

use crate::{Scalar, TorshError};

/// The type of a tensor's elements.
///
/// `Display` and `FromStr` use PyTorch's names (`float32`, `int64`, `bool`).
///
/// ```
/// use torsh_core::DType;
///
/// assert_eq!(DType::F32.to_string(), "float32");
/// assert_eq!("torch.half".parse::<DType>()?, DType::F16);
/// assert_eq!(DType::ALL.len(), 12);
/// # Ok::<(), torsh_core::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum DType {
    /// `torch.uint8`
    U8 = 0,
    /// `torch.int8`
    I8 = 1,
    /// `torch.int16`
    I16 = 2,
    /// `torch.int32`
    I32 = 3,
    /// `torch.int64`
    I64 = 4,
    /// `torch.float16`
    F16 = 5,
    /// `torch.bfloat16`
    BF16 = 6,
    /// `torch.float32`
    F32 = 7,
    /// `torch.float64`
    F64 = 8,
    /// `torch.complex64`
    C64 = 9,
    /// `torch.complex128`
    C128 = 10,
    /// `torch.bool`
    Bool = 11,
}

use DType::*;

impl DType {
    /// Every dtype.
    pub const ALL: [DType; 12] = [U8, I8, I16, I32, I64, F16, BF16, F32, F64, C64, C128, Bool];

    /// Returns the bytes of an element.
    ///
    /// ```
    /// use torsh_core::DType;
    /// assert_eq!((DType::BF16.size(), DType::F32.size(), DType::C128.size()), (2, 4, 16));
    /// ```
    #[inline]
    pub const fn size(self) -> usize {
        match self {
            U8 | I8 | Bool => 1,
            I16 | F16 | BF16 => 2,
            I32 | F32 => 4,
            I64 | F64 | C64 => 8,
            C128 => 16,
        }
    }

    /// Returns PyTorch's name, as `float32`.
    ///
    /// ```
    /// use torsh_core::DType;
    /// assert_eq!(DType::I64.name(), "int64");
    /// ```
    pub const fn name(self) -> &'static str {
        match self {
            U8 => "uint8",
            I8 => "int8",
            I16 => "int16",
            I32 => "int32",
            I64 => "int64",
            F16 => "float16",
            BF16 => "bfloat16",
            F32 => "float32",
            F64 => "float64",
            C64 => "complex64",
            C128 => "complex128",
            Bool => "bool",
        }
    }

    /// Whether this is a real floating-point type.
    ///
    /// ```
    /// use torsh_core::DType;
    /// assert!(DType::BF16.is_floating_point() && !DType::C64.is_floating_point());
    /// ```
    #[inline]
    pub const fn is_floating_point(self) -> bool {
        matches!(self, F16 | BF16 | F32 | F64)
    }

    /// Whether this is a complex type.
    ///
    /// ```
    /// use torsh_core::DType;
    /// assert!(DType::C64.is_complex() && !DType::F64.is_complex());
    /// ```
    #[inline]
    pub const fn is_complex(self) -> bool {
        matches!(self, C64 | C128)
    }

    /// Whether this is an integer type; `bool` is not.
    ///
    /// ```
    /// use torsh_core::DType;
    /// assert!(DType::U8.is_integer() && !DType::Bool.is_integer());
    /// ```
    #[inline]
    pub const fn is_integer(self) -> bool {
        matches!(self, U8 | I8 | I16 | I32 | I64)
    }

    /// Whether tensors of this type can require gradients (real or complex floating point).
    ///
    /// ```
    /// use torsh_core::DType;
    /// assert!(DType::C64.is_differentiable() && !DType::I64.is_differentiable());
    /// ```
    #[inline]
    pub const fn is_differentiable(self) -> bool {
        self.is_floating_point() || self.is_complex()
    }

    /// Whether the type has a sign.
    ///
    /// ```
    /// use torsh_core::DType;
    /// assert!(DType::I8.is_signed() && !DType::U8.is_signed());
    /// ```
    pub const fn is_signed(self) -> bool {
        !matches!(self, U8 | Bool)
    }

    /// Returns the real type of a complex type's parts; a real type itself.
    ///
    /// ```
    /// use torsh_core::DType;
    /// assert_eq!((DType::C128.to_real(), DType::F16.to_real()), (DType::F64, DType::F16));
    /// ```
    pub const fn to_real(self) -> DType {
        match self {
            C64 => F32,
            C128 => F64,
            d => d,
        }
    }

    /// Returns the complex type whose parts have this floating-point type (`float16` and `bfloat16` give
    /// `complex64`, as ToRSh has no `complex32`).
    ///
    /// ```
    /// use torsh_core::DType;
    /// assert_eq!((DType::F64.to_complex(), DType::F16.to_complex()), (DType::C128, DType::C64));
    /// ```
    pub const fn to_complex(self) -> DType {
        match self {
            F64 | C128 => C128,
            _ => C64,
        }
    }

    /// Returns the type that reductions accumulate in (PyTorch's `acc_type` on CPU): `float64` stays, the
    /// half types go to `float32`, integers to `int64`.
    ///
    /// ```
    /// use torsh_core::DType;
    /// assert_eq!((DType::BF16.accumulate(), DType::Bool.accumulate()), (DType::F32, DType::I64));
    /// ```
    pub const fn accumulate(self) -> DType {
        match self {
            F16 | BF16 => F32,
            U8 | I8 | I16 | I32 | Bool => I64,
            d => d,
        }
    }

    /// Whether a result of this type may be written into a tensor of type `to`
    /// (`torch.can_cast`): a complex one not into a real one, a floating one not into an integer
    /// one, and only a bool one into a bool one.
    ///
    /// ```
    /// use torsh_core::DType;
    /// assert!(DType::I64.can_cast(DType::F16));
    /// assert!(!DType::F32.can_cast(DType::I64) && !DType::U8.can_cast(DType::Bool));
    /// ```
    pub const fn can_cast(self, to: DType) -> bool {
        if self.is_complex() && !to.is_complex() {
            return false;
        }
        if self.is_floating_point() && !to.is_differentiable() {
            return false;
        }
        !matches!(to, Bool) || matches!(self, Bool)
    }

    /// Returns the smallest and the largest finite value as `f64`; `(0, 1)` for bool.
    ///
    /// ```
    /// use torsh_core::DType;
    /// assert_eq!(DType::I8.finite_range(), (-128.0, 127.0));
    /// assert_eq!(DType::F16.finite_range().1, 65504.0);
    /// ```
    pub fn finite_range(self) -> (f64, f64) {
        match self {
            U8 => (0.0, 255.0),
            I8 => (-128.0, 127.0),
            I16 => (-32768.0, 32767.0),
            I32 => (i32::MIN as f64, i32::MAX as f64),
            I64 => (i64::MIN as f64, i64::MAX as f64),
            F16 => (-65504.0, 65504.0),
            BF16 => (-bf16::MAX.to_f64(), bf16::MAX.to_f64()),
            F32 | C64 => (f32::MIN as f64, f32::MAX as f64),
            F64 | C128 => (f64::MIN, f64::MAX),
            Bool => (0.0, 1.0),
        }
    }

    /// The distance from 1 to the next greater number (`torch.finfo(dtype).eps`), of complex types that of their parts;
    /// 1 for integers and bool.
    ///
    /// ```
    /// use torsh_core::DType;
    /// assert_eq!(DType::F32.epsilon(), f32::EPSILON.into());
    /// assert_eq!(DType::C128.epsilon(), f64::EPSILON);
    /// assert_eq!(DType::BF16.epsilon(), 1.0 / 128.0);
    /// ```
    pub const fn epsilon(self) -> f64 {
        match self {
            F16 => 1.0 / 1024.0,
            BF16 => 1.0 / 128.0,
            F32 | C64 => f32::EPSILON as f64,
            F64 | C128 => f64::EPSILON,
            _ => 1.0,
        }
    }

    /// Returns the smallest type that holds both, as PyTorch's `promote_types`.
    ///
    /// ```
    /// use torsh_core::DType;
    /// assert_eq!(DType::U8.promote(DType::I8), DType::I16);
    /// assert_eq!(DType::F16.promote(DType::BF16), DType::F32);
    /// assert_eq!(DType::I64.promote(DType::F16), DType::F16);
    /// ```
    pub const fn promote(self, other: DType) -> DType {
        let (a, b) = (self, other);
        if a as u8 == b as u8 {
            return a;
        }
        if matches!(a, Bool) {
            return b;
        }
        if matches!(b, Bool) {
            return a;
        }
        if a.is_complex() || b.is_complex() {
            return if matches!(a, F64 | C128) || matches!(b, F64 | C128) {
                C128
            } else {
                C64
            };
        }
        match (a.is_floating_point(), b.is_floating_point()) {
            (true, false) => a,
            (false, true) => b,
            (true, true) => {
                if matches!(a, F64) || matches!(b, F64) {
                    F64
                } else {
                    // float16 with bfloat16 needs both a wider range and more digits.
                    F32
                }
            }
            (false, false) => {
                // uint8 has no signed partner of its own size: the next wider one holds both.
                if matches!(a, U8) {
                    return if matches!(b, I8) { I16 } else { b };
                }
                if matches!(b, U8) {
                    return if matches!(a, I8) { I16 } else { a };
                }
                if a as u8 > b as u8 { a } else { b }
            }
        }
    }

    const fn from_u8(v: u8) -> DType {
        DType::ALL[v as usize]
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for DType {
    type Err = TorshError;

    /// Reads PyTorch's names and their aliases (`float`, `double`, `half`, `long`, ...), with or
    /// without `torch.` before, and the names of the variants (`F32`).
    #[track_caller]
    fn from_str(s: &str) -> Result<Self, TorshError> {
        let name = s.trim().trim_start_matches("torch.").to_ascii_lowercase();
        Ok(match name.as_str() {
            "uint8" | "u8" | "byte" => U8,
            "int8" | "i8" | "char" => I8,
            "int16" | "i16" | "short" => I16,
            "int32" | "i32" | "int" => I32,
            "int64" | "i64" | "long" => I64,
            "float16" | "f16" | "half" => F16,
            "bfloat16" | "bf16" => BF16,
            "float32" | "f32" | "float" => F32,
            "float64" | "f64" | "double" => F64,
            "complex64" | "c64" | "cfloat" => C64,
            "complex128" | "c128" | "cdouble" => C128,
            "bool" => Bool,
            _ => {
                return Err(TorshError::invalid("DType::from_str", format!("no dtype is named '{s}'"))
                    .with_hint("the dtypes are uint8, int8, int16, int32, int64, float16, bfloat16, float32, float64, complex64, complex128 and bool"));
            }
        })
    }
}

static DEFAULT: AtomicU8 = AtomicU8::new(F32 as u8);

/// Returns the dtype that floating-point numbers become where nothing else says (`float32` unless set).
///
/// ```
/// use torsh_core::{DType, default_dtype};
/// assert_eq!(default_dtype(), DType::F32);
/// ```
#[inline]
pub fn default_dtype() -> DType {
    DType::from_u8(DEFAULT.load(Ordering::Relaxed))
}

/// Sets [`default_dtype`] for the whole process (`torch.set_default_dtype`); only real
/// floating-point types are accepted.
///
/// ```
/// use torsh_core::{DType, Scalar, set_default_dtype};
///
/// set_default_dtype(DType::F64)?;
/// assert_eq!(Scalar::Float(0.5).dtype(), DType::F64);
/// assert!(set_default_dtype(DType::I64).unwrap_err().to_string().contains("got int64"));
/// # Ok::<(), torsh_core::TorshError>(())
/// ```
#[track_caller]
pub fn set_default_dtype(dtype: DType) -> Result<(), TorshError> {
    if !dtype.is_floating_point() {
        return Err(TorshError::invalid(
            "set_default_dtype",
            format!("only floating-point types can be the default dtype, got {dtype}"),
        ));
    }
    DEFAULT.store(dtype as u8, Ordering::Relaxed);
    Ok(())
}

/// Collects the operands of an op and answers with PyTorch's `result_type`: tensors with
/// dimensions first, then 0-d tensors, then plain numbers, where a later group counts only if its
/// category (bool < integer < floating < complex) is higher.
///
/// ```
/// use torsh_core::{DType, Promotion};
///
/// let mut operands = Promotion::default();
/// operands.tensor(DType::I32, 2); // A matrix of integers ..
/// operands.number(0.5.into()); // .. and a number of a higher category.
/// assert_eq!(operands.result()?, Some(DType::F32));
/// # Ok::<(), torsh_core::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Promotion {
    dim: Option<DType>,
    zero: Option<DType>,
    wrapped: Option<DType>,
}

fn join(a: Option<DType>, b: DType) -> Option<DType> {
    Some(match a {
        Some(a) => a.promote(b),
        None => b,
    })
}

fn combine(higher: Option<DType>, lower: Option<DType>) -> Result<Option<DType>, (DType, DType)> {
    let (Some(h), Some(l)) = (higher, lower) else {
        return Ok(higher.or(lower));
    };
    if h.is_complex() {
        return Ok(higher);
    }
    if h.is_floating_point() {
        return match (l.is_complex(), h) {
            (false, _) => Ok(higher),
            (true, F16 | BF16) => Err((h, l)),
            (true, _) => Ok(Some(h.to_complex())),
        };
    }
    if h == Bool || l.is_differentiable() {
        return Ok(Some(h.promote(l)));
    }
    Ok(higher)
}

#[cold]
fn no_complex32(h: DType, l: DType) -> TorshError {
    TorshError::dtype(
        "",
        format!("{h} with a {l} number gives complex32, which does not exist here"),
    )
    .with_hint("convert the tensor to float32 or complex64 first")
}

impl Promotion {
    /// Adds a tensor operand of `ndim` dimensions.
    ///
    /// ```
    /// use torsh_core::{DType, Promotion};
    ///
    /// let mut operands = Promotion::default();
    /// operands.tensor(DType::F32, 2);
    /// operands.tensor(DType::F64, 0); // A 0-d tensor of the same category changes nothing.
    /// assert_eq!(operands.result()?, Some(DType::F32));
    /// # Ok::<(), torsh_core::TorshError>(())
    /// ```
    #[inline]
    pub fn tensor(&mut self, dtype: DType, ndim: usize) {
        if ndim > 0 {
            self.dim = join(self.dim, dtype);
        } else {
            self.zero = join(self.zero, dtype);
        }
    }

    /// Adds a plain number.
    ///
    /// ```
    /// use torsh_core::{DType, Promotion};
    ///
    /// let mut operands = Promotion::default();
    /// operands.tensor(DType::U8, 1);
    /// operands.number(300.into()); // An integer, as the tensor: its size does not count.
    /// assert_eq!(operands.result()?, Some(DType::U8));
    /// # Ok::<(), torsh_core::TorshError>(())
    /// ```
    #[inline]
    pub fn number(&mut self, value: Scalar) {
        self.wrapped = join(self.wrapped, value.dtype());
    }

    /// The result type of what was added; `None` when nothing was. A half-precision tensor with
    /// a complex number of lower rank would be PyTorch's `complex32`, which ToRSh does not have:
    /// an error.
    ///
    /// ```
    /// use torsh_core::{DType, Promotion, Scalar};
    ///
    /// assert_eq!(Promotion::default().result()?, None);
    /// let mut operands = Promotion::default();
    /// operands.tensor(DType::F16, 1);
    /// operands.number(Scalar::Complex(0.0, 1.0));
    /// assert!(operands.result().unwrap_err().to_string().contains("gives complex32, which does not exist"));
    /// # Ok::<(), torsh_core::TorshError>(())
    /// ```
    #[inline]
    pub fn result(self) -> Result<Option<DType>, TorshError> {
        self.combined().map_err(|(h, l)| no_complex32(h, l))
    }

    /// [`Promotion::result`] with `complex64` in place of `complex32`, for ops whose result is not
    /// of that type.
    ///
    /// ```
    /// use torsh_core::{DType, Promotion, Scalar};
    ///
    /// let mut operands = Promotion::default();
    /// operands.tensor(DType::F16, 1);
    /// operands.number(Scalar::Complex(0.0, 1.0));
    /// assert_eq!(operands.result_or_complex64(), Some(DType::C64));
    /// ```
    pub fn result_or_complex64(self) -> Option<DType> {
        self.combined().unwrap_or(Some(C64))
    }

    fn combined(self) -> Result<Option<DType>, (DType, DType)> {
        let lower = combine(self.zero, self.wrapped)?;
        combine(self.dim, lower)
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A Rust type that is a tensor's element type.
///
/// ```
/// use torsh_core::{DType, Element, Scalar};
///
/// assert_eq!((f32::DTYPE, 2.5f32.to_scalar()), (DType::F32, Scalar::Float(2.5)));
/// assert_eq!(i8::from_scalar(Scalar::Float(-128.0)), Some(-128));
/// assert_eq!(u8::from_scalar(Scalar::Int(256)), None);
/// ```
pub trait Element:
    Copy + Send + Sync + Default + fmt::Debug + PartialEq + 'static + sealed::Sealed
{
    /// The corresponding dtype.
    const DTYPE: DType;
    /// The value as a [`Scalar`].
    fn to_scalar(self) -> Scalar;
    /// The value of `s` in this type; `None` where it does not fit (out of range, a fraction for
    /// an integer type, an imaginary part for a real one). A loss of digits is no misfit.
    fn from_scalar(s: Scalar) -> Option<Self>;
}

macro_rules! element_int {
    ($($t:ty => $d:ident),*) => {$(
        impl sealed::Sealed for $t {}
        impl Element for $t {
            const DTYPE: DType = $d;
            fn to_scalar(self) -> Scalar { Scalar::Int(self as i64) }
            fn from_scalar(s: Scalar) -> Option<Self> {
                match s {
                    Scalar::Bool(b) => Some(b as $t),
                    Scalar::Int(i) => <$t>::try_from(i).ok(),
                    Scalar::Float(f) => {
                        let whole = f.trunc();
                        // The bounds are exact powers of two (or below), so this compare is exact.
                        let fits = whole == f && f >= <$t>::MIN as f64 && f < (<$t>::MAX as f64 + 1.0);
                        fits.then_some(f as $t)
                    }
                    Scalar::Complex(re, im) => if im == 0.0 { Self::from_scalar(Scalar::Float(re)) } else { None },
                }
            }
        }
    )*};
}
element_int!(u8 => U8, i8 => I8, i16 => I16, i32 => I32, i64 => I64);

macro_rules! element_float {
    ($($t:ty => $d:ident, $to:expr, $from:expr);* $(;)?) => {$(
        impl sealed::Sealed for $t {}
        impl Element for $t {
            const DTYPE: DType = $d;
            fn to_scalar(self) -> Scalar { Scalar::Float($to(self)) }
            fn from_scalar(s: Scalar) -> Option<Self> {
                match s {
                    Scalar::Bool(b) => Some($from(b as u8 as f64)),
                    Scalar::Int(i) => Some($from(i as f64)),
                    Scalar::Float(f) => Some($from(f)),
                    Scalar::Complex(re, im) => if im == 0.0 { Some($from(re)) } else { None },
                }
            }
        }
    )*};
}
element_float! {
    f32 => F32, f64::from, |x: f64| x as f32;
    f64 => F64, |x: f64| x, |x: f64| x;
    f16 => F16, f16::to_f64, f16::from_f64;
    bf16 => BF16, bf16::to_f64, bf16::from_f64;
}

macro_rules! element_complex {
    ($($t:ty => $d:ident),*) => {$(
        impl sealed::Sealed for Complex<$t> {}
        impl Element for Complex<$t> {
            const DTYPE: DType = $d;
            fn to_scalar(self) -> Scalar { Scalar::Complex(self.re as f64, self.im as f64) }
            fn from_scalar(s: Scalar) -> Option<Self> {
                let (re, im) = s.to_complex();
                Some(Complex::new(re as $t, im as $t))
            }
        }
    )*};
}
element_complex!(f32 => C64, f64 => C128);

impl sealed::Sealed for bool {}
impl Element for bool {
    const DTYPE: DType = Bool;
    fn to_scalar(self) -> Scalar {
        Scalar::Bool(self)
    }
    fn from_scalar(s: Scalar) -> Option<Self> {
        match s {
            Scalar::Bool(b) => Some(b),
            Scalar::Int(i) if i == 0 || i == 1 => Some(i == 1),
            Scalar::Float(f) if f == 0.0 || f == 1.0 => Some(f == 1.0),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promotion_follows_pytorch() {
        assert_eq!(U8.promote(I8), I16);
        assert_eq!(F16.promote(BF16), F32);
        assert_eq!(I64.promote(F16), F16);
        assert_eq!(F64.promote(C64), C128);
        assert_eq!(BF16.promote(C64), C64);
        let mut p = Promotion::default();
        p.tensor(I32, 2);
        p.tensor(F64, 0);
        assert_eq!(
            p.result().expect("a type"),
            Some(F64),
            "a 0-d float raises the category of an int tensor"
        );
        let mut p = Promotion::default();
        p.tensor(F16, 1);
        p.number(Scalar::Complex(0.0, 1.0));
        assert!(p.result().is_err(), "there is no complex32");
        let mut p = Promotion::default();
        p.tensor(F32, 2);
        p.tensor(F64, 0);
        assert_eq!(p.result().expect("a type"), Some(F32));
    }

    #[test]
    fn conversions_refuse_what_does_not_fit() {
        assert_eq!(u8::from_scalar(Scalar::Int(256)), None);
        assert_eq!(i64::from_scalar(Scalar::Float(1.5)), None);
        assert_eq!(i64::from_scalar(Scalar::Float(9.3e18)), None);
        assert_eq!(i8::from_scalar(Scalar::Float(-128.0)), Some(-128));
        assert_eq!(f32::from_scalar(Scalar::Complex(1.0, 2.0)), None);
        assert_eq!(i32::from_scalar(Scalar::Float(f64::NAN)), None);
    }

    #[test]
    fn names_read_back() {
        for d in DType::ALL {
            assert_eq!(d.name().parse::<DType>().expect("its own name"), d);
        }
        assert!("float33".parse::<DType>().is_err());
    }
}
