//! Plain numbers as operands.

use std::fmt;

use half::{bf16, f16};
use num_complex::Complex;

use crate::{DType, default_dtype};

/// A number that is not a tensor: PyTorch's `Scalar`, and the "wrapped number" of its promotion.
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
    /// The dtype a tensor of this number has: `bool`, `int64`, the default dtype, or its complex
    /// partner.
    #[inline]
    pub fn dtype(self) -> DType {
        match self {
            Scalar::Bool(_) => DType::Bool,
            Scalar::Int(_) => DType::I64,
            Scalar::Float(_) => default_dtype(),
            Scalar::Complex(..) => default_dtype().to_complex(),
        }
    }

    /// The value as a real number; the real part of a complex one.
    #[inline]
    pub fn to_f64(self) -> f64 {
        match self {
            Scalar::Bool(b) => b as u8 as f64,
            Scalar::Int(i) => i as f64,
            Scalar::Float(f) => f,
            Scalar::Complex(re, _) => re,
        }
    }

    /// The value as an integer: fractions are cut off, as in a cast.
    #[inline]
    pub fn to_i64(self) -> i64 {
        match self {
            Scalar::Bool(b) => b as i64,
            Scalar::Int(i) => i,
            Scalar::Float(f) => f as i64,
            Scalar::Complex(re, _) => re as i64,
        }
    }

    /// The value as real and imaginary part.
    #[inline]
    pub fn to_complex(self) -> (f64, f64) {
        match self {
            Scalar::Complex(re, im) => (re, im),
            s => (s.to_f64(), 0.0),
        }
    }

    /// Whether the value is not zero.
    pub fn to_bool(self) -> bool {
        match self {
            Scalar::Bool(b) => b,
            Scalar::Int(i) => i != 0,
            Scalar::Float(f) => f != 0.0,
            Scalar::Complex(re, im) => re != 0.0 || im != 0.0,
        }
    }

    /// The complex conjugate; a real number stays.
    #[must_use]
    pub fn conj(self) -> Scalar {
        match self {
            Scalar::Complex(re, im) => Scalar::Complex(re, -im),
            s => s,
        }
    }

    /// Whether this is a floating-point number.
    pub fn is_float(self) -> bool {
        matches!(self, Scalar::Float(_))
    }

    /// Whether this is an integer; a bool is not.
    pub fn is_int(self) -> bool {
        matches!(self, Scalar::Int(_))
    }

    /// Whether this is a complex number.
    pub fn is_complex(self) -> bool {
        matches!(self, Scalar::Complex(..))
    }

    /// The number's memory as an element of `dtype`, converted as a cast does (integers wrap,
    /// fractions are cut off).
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
