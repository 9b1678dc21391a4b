//! Plain numbers as operands.

use std::fmt;

use half::{bf16, f16};
use num_complex::Complex;

use crate::{DType, default_dtype};

/// A number that is not a tensor: PyTorch's `Scalar`, and the "wrapped number" of its promotion.
///
/// ```
/// use torsh_core::Scalar;
///
/// assert_eq!(Scalar::from(3u8), Scalar::Int(3));
/// assert_eq!(Scalar::from(0.5f32), Scalar::Float(0.5));
/// assert_eq!(Scalar::Complex(1.0, -2.0).to_string(), "1.0-2.0j");
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// A bool.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A real number.
    Float(f64),
    /// A complex number: real and imaginary part.
    Complex(f64, f64),
}

impl Scalar {
    /// Returns the dtype that a tensor of this number has: `bool`, `int64`, the default dtype, or its complex
    /// partner.
    ///
    /// ```
    /// use torsh_core::{DType, Scalar};
    /// assert_eq!((Scalar::Int(1).dtype(), Scalar::Float(1.0).dtype()), (DType::I64, DType::F32));
    /// assert_eq!(Scalar::Complex(0.0, 1.0).dtype(), DType::C64);
    /// ```
    #[inline]
    pub fn dtype(self) -> DType {
        match self {
            Scalar::Bool(_) => DType::Bool,
            Scalar::Int(_) => DType::I64,
            Scalar::Float(_) => default_dtype(),
            Scalar::Complex(..) => default_dtype().to_complex(),
        }
    }

    /// Returns the value as a real number; the real part of a complex one.
    ///
    /// ```
    /// use torsh_core::Scalar;
    /// assert_eq!((Scalar::Int(3).to_f64(), Scalar::Complex(1.5, 2.0).to_f64()), (3.0, 1.5));
    /// ```
    #[inline]
    pub fn to_f64(self) -> f64 {
        match self {
            Scalar::Bool(b) => b as u8 as f64,
            Scalar::Int(i) => i as f64,
            Scalar::Float(f) => f,
            Scalar::Complex(re, _) => re,
        }
    }

    /// Returns the value as an integer: fractions are cut off, as in a cast.
    ///
    /// ```
    /// use torsh_core::Scalar;
    /// assert_eq!((Scalar::Float(-2.9).to_i64(), Scalar::Bool(true).to_i64()), (-2, 1));
    /// ```
    #[inline]
    pub fn to_i64(self) -> i64 {
        match self {
            Scalar::Bool(b) => b as i64,
            Scalar::Int(i) => i,
            Scalar::Float(f) => f as i64,
            Scalar::Complex(re, _) => re as i64,
        }
    }

    /// Returns the value as real and imaginary part.
    ///
    /// ```
    /// use torsh_core::Scalar;
    /// assert_eq!(Scalar::Float(2.5).to_complex(), (2.5, 0.0));
    /// ```
    #[inline]
    pub fn to_complex(self) -> (f64, f64) {
        match self {
            Scalar::Complex(re, im) => (re, im),
            s => (s.to_f64(), 0.0),
        }
    }

    /// Whether the value is not zero.
    ///
    /// ```
    /// use torsh_core::Scalar;
    /// assert!(Scalar::Complex(0.0, 1.0).to_bool() && !Scalar::Float(0.0).to_bool());
    /// ```
    pub fn to_bool(self) -> bool {
        match self {
            Scalar::Bool(b) => b,
            Scalar::Int(i) => i != 0,
            Scalar::Float(f) => f != 0.0,
            Scalar::Complex(re, im) => re != 0.0 || im != 0.0,
        }
    }

    /// Returns the complex conjugate; a real number stays.
    ///
    /// ```
    /// use torsh_core::Scalar;
    /// assert_eq!(Scalar::Complex(1.0, 2.0).conj(), Scalar::Complex(1.0, -2.0));
    /// assert_eq!(Scalar::Int(3).conj(), Scalar::Int(3));
    /// ```
    #[must_use]
    pub fn conj(self) -> Scalar {
        match self {
            Scalar::Complex(re, im) => Scalar::Complex(re, -im),
            s => s,
        }
    }

    /// Whether this is a floating-point number.
    ///
    /// ```
    /// use torsh_core::Scalar;
    /// assert!(Scalar::Float(1.0).is_float() && !Scalar::Complex(1.0, 0.0).is_float());
    /// ```
    pub fn is_float(self) -> bool {
        matches!(self, Scalar::Float(_))
    }

    /// Whether this is an integer; a bool is not.
    ///
    /// ```
    /// use torsh_core::Scalar;
    /// assert!(Scalar::Int(1).is_int() && !Scalar::Bool(true).is_int());
    /// ```
    pub fn is_int(self) -> bool {
        matches!(self, Scalar::Int(_))
    }

    /// Whether this is a complex number.
    ///
    /// ```
    /// use torsh_core::Scalar;
    /// assert!(Scalar::Complex(1.0, 0.0).is_complex() && !Scalar::Float(1.0).is_complex());
    /// ```
    pub fn is_complex(self) -> bool {
        matches!(self, Scalar::Complex(..))
    }

    /// Returns the number's memory as an element of `dtype`, converted as a cast does (integers wrap, fractions
    /// are cut off). Bytes beyond the element are 0.
    ///
    /// ```
    /// use torsh_core::{DType, Scalar};
    /// assert_eq!(Scalar::Int(258).to_bytes(DType::U8)[0], 2); // 258 wraps.
    /// assert_eq!(Scalar::Int(1).to_bytes(DType::F32)[..4], 1f32.to_ne_bytes());
    /// ```
    #[inline]
    pub fn to_bytes(self, dtype: DType) -> [u8; 16] {
        let mut out = [0u8; 16];
        macro_rules! put {
            ($v:expr) => {{
                let bytes = $v.to_ne_bytes();
                out[..bytes.len()].copy_from_slice(&bytes);
            }};
        }
        match dtype {
            DType::Bool => out[0] = self.to_bool() as u8,
            DType::U8 => put!((self.to_i64() as u8)),
            DType::I8 => put!((self.to_i64() as i8)),
            DType::I16 => put!((self.to_i64() as i16)),
            DType::I32 => put!((self.to_i64() as i32)),
            DType::I64 => put!(self.to_i64()),
            DType::F16 => put!(f16::from_f64(self.to_f64())),
            DType::BF16 => put!(bf16::from_f64(self.to_f64())),
            DType::F32 => put!((self.to_f64() as f32)),
            DType::F64 => put!(self.to_f64()),
            DType::C64 => {
                let (re, im) = self.to_complex();
                out[..4].copy_from_slice(&(re as f32).to_ne_bytes());
                out[4..8].copy_from_slice(&(im as f32).to_ne_bytes());
            }
            DType::C128 => {
                let (re, im) = self.to_complex();
                out[..8].copy_from_slice(&re.to_ne_bytes());
                out[8..].copy_from_slice(&im.to_ne_bytes());
            }
        }
        out
    }

    /// The number whose memory as an element of `dtype` starts `bytes`; the inverse of
    /// [`Scalar::to_bytes`]. `bytes` must hold at least `dtype.size()` bytes.
    ///
    /// ```
    /// use torsh_core::{DType, Scalar};
    /// let bytes = Scalar::Float(0.5).to_bytes(DType::BF16);
    /// assert_eq!(Scalar::from_bytes(&bytes, DType::BF16), Scalar::Float(0.5));
    /// assert_eq!(Scalar::from_bytes(&[255], DType::I8), Scalar::Int(-1));
    /// ```
    pub fn from_bytes(bytes: &[u8], dtype: DType) -> Scalar {
        macro_rules! get {
            ($t:ty, $from:expr) => {{
                let mut raw = [0u8; std::mem::size_of::<$t>()];
                raw.copy_from_slice(&bytes[$from..$from + std::mem::size_of::<$t>()]);
                <$t>::from_ne_bytes(raw)
            }};
        }
        match dtype {
            DType::Bool => Scalar::Bool(bytes[0] != 0),
            DType::U8 => Scalar::Int(bytes[0] as i64),
            DType::I8 => Scalar::Int(bytes[0] as i8 as i64),
            DType::I16 => Scalar::Int(get!(i16, 0) as i64),
            DType::I32 => Scalar::Int(get!(i32, 0) as i64),
            DType::I64 => Scalar::Int(get!(i64, 0)),
            DType::F16 => Scalar::Float(get!(f16, 0).to_f64()),
            DType::BF16 => Scalar::Float(get!(bf16, 0).to_f64()),
            DType::F32 => Scalar::Float(get!(f32, 0) as f64),
            DType::F64 => Scalar::Float(get!(f64, 0)),
            DType::C64 => Scalar::Complex(get!(f32, 0) as f64, get!(f32, 4) as f64),
            DType::C128 => Scalar::Complex(get!(f64, 0), get!(f64, 8)),
        }
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Bool(b) => write!(f, "{b}"),
            Scalar::Int(i) => write!(f, "{i}"),
            Scalar::Float(x) => write!(f, "{x:?}"),
            Scalar::Complex(re, im) => write!(f, "{re:?}{im:+?}j"),
        }
    }
}

macro_rules! from_number {
    ($($t:ty => |$v:ident| $e:expr),* $(,)?) => {$(
        impl From<$t> for Scalar { #[inline] fn from($v: $t) -> Scalar { $e } }
    )*};
}
from_number! {
    bool => |v| Scalar::Bool(v),
    u8 => |v| Scalar::Int(v as i64), i8 => |v| Scalar::Int(v as i64), u16 => |v| Scalar::Int(v as i64),
    i16 => |v| Scalar::Int(v as i64), u32 => |v| Scalar::Int(v as i64), i32 => |v| Scalar::Int(v as i64),
    i64 => |v| Scalar::Int(v), usize => |v| Scalar::Int(v as i64), isize => |v| Scalar::Int(v as i64), u64 => |v| Scalar::Int(v as i64),
    f32 => |v| Scalar::Float(v as f64), f64 => |v| Scalar::Float(v),
    f16 => |v| Scalar::Float(v.to_f64()), bf16 => |v| Scalar::Float(v.to_f64()),
    Complex<f32> => |v| Scalar::Complex(v.re as f64, v.im as f64), Complex<f64> => |v| Scalar::Complex(v.re, v.im),
}
