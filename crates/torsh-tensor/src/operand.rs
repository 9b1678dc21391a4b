//! Conversions of arguments: operands, shapes, dimensions.

use std::ops::RangeFull;

use smallvec::SmallVec;
use torsh_core::{Dims, Result, Scalar, Shape, TorshError};

use crate::Tensor;

/// An operand of a pointwise op: a tensor, or a plain number that does not raise the result's
/// dtype within its category.
#[derive(Clone, Debug)]
pub enum Operand<'a> {
    /// A tensor given away; its buffer may become the result's.
    Owned(Tensor),
    /// A borrowed tensor.
    Ref(&'a Tensor),
    /// A number.
    Number(Scalar),
}

impl Operand<'_> {
    /// The operand as an argument of a call.
    #[inline]
    pub(crate) fn arg(&self) -> crate::call::Arg<'_> {
        match self {
            Operand::Owned(t) => crate::call::Arg::T(t),
            Operand::Ref(t) => crate::call::Arg::T(t),
            Operand::Number(s) => crate::call::Arg::N(*s),
        }
    }

    /// The operand as a tensor: a number becomes a 0-d one of its own dtype.
    ///
    /// ```
    /// use torsh_tensor::{DType, Operand};
    /// let number = Operand::from(2.5);
    /// assert_eq!(number.to_tensor()?.item::<f32>()?, 2.5);
    /// assert_eq!(Operand::from(3).to_tensor()?.dtype(), DType::I64);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn to_tensor(&self) -> Result<Tensor> {
        Ok(match self {
            Operand::Owned(t) => t.clone(),
            Operand::Ref(t) => (*t).clone(),
            Operand::Number(s) => Tensor::from_number(*s, s.dtype())?,
        })
    }
}

impl From<Tensor> for Operand<'_> {
    fn from(t: Tensor) -> Self {
        Operand::Owned(t)
    }
}
impl<'a> From<&'a Tensor> for Operand<'a> {
    #[inline]
    fn from(t: &'a Tensor) -> Self {
        Operand::Ref(t)
    }
}
impl<'a> From<&'a Operand<'a>> for Operand<'a> {
    fn from(o: &'a Operand<'a>) -> Self {
        match o {
            Operand::Owned(t) => Operand::Ref(t),
            Operand::Ref(t) => Operand::Ref(t),
            Operand::Number(s) => Operand::Number(*s),
        }
    }
}
impl From<Scalar> for Operand<'_> {
    fn from(s: Scalar) -> Self {
        Operand::Number(s)
    }
}

macro_rules! number_operands {
    ($($t:ty),*) => {$(
        impl From<$t> for Operand<'_> {
            #[inline]
            fn from(v: $t) -> Self { Operand::Number(Scalar::from(v)) }
        }
    )*};
}
number_operands!(
    bool,
    u8,
    i8,
    u16,
    i16,
    u32,
    i32,
    i64,
    usize,
    isize,
    f32,
    f64,
    half::f16,
    half::bf16,
    num_complex::Complex<f32>,
    num_complex::Complex<f64>
);

/// Sizes as a caller writes them; `-1` is read where the op infers a size.
pub trait IntoShape {
    /// The sizes as they were written.
    fn sizes(&self) -> SmallVec<[i64; 6]>;

    /// The sizes as a shape; negative ones are refused.
    fn shape(&self) -> Result<Shape> {
        let mut dims = Dims::new();
        for s in self.sizes() {
            dims.push(usize::try_from(s).map_err(|_| {
                TorshError::invalid(
                    "",
                    format!("a size of {s} is negative; sizes must be 0 or more"),
                )
            })?);
        }
        Ok(dims.into())
    }
}

macro_rules! into_shape_ints {
    ($($t:ty),*) => {$(
        impl IntoShape for [$t] {
            fn sizes(&self) -> SmallVec<[i64; 6]> { self.iter().map(|&v| v as i64).collect() }
        }
        impl<const N: usize> IntoShape for [$t; N] {
            fn sizes(&self) -> SmallVec<[i64; 6]> { self.iter().map(|&v| v as i64).collect() }
        }
        impl IntoShape for Vec<$t> {
            fn sizes(&self) -> SmallVec<[i64; 6]> { self.iter().map(|&v| v as i64).collect() }
        }
        impl IntoShape for $t {
            fn sizes(&self) -> SmallVec<[i64; 6]> { SmallVec::from_slice(&[*self as i64]) }
        }
    )*};
}
into_shape_ints!(usize, i32, i64);

impl IntoShape for Shape {
    fn sizes(&self) -> SmallVec<[i64; 6]> {
        self.dims().iter().map(|&v| v as i64).collect()
    }
}
impl IntoShape for () {
    fn sizes(&self) -> SmallVec<[i64; 6]> {
        SmallVec::new()
    }
}
impl<T: IntoShape + ?Sized> IntoShape for &T {
    fn sizes(&self) -> SmallVec<[i64; 6]> {
        (**self).sizes()
    }
}

/// One integer of any of the three types a size or dimension is written in.
pub trait IntoDim: Copy {
    /// The value; negative counts from the end.
    fn value(self) -> i64;
}
macro_rules! into_dim {
    ($($t:ty),*) => {$(
        impl IntoDim for $t { #[inline] fn value(self) -> i64 { self as i64 } }
        impl IntoDim for &$t { #[inline] fn value(self) -> i64 { *self as i64 } }
    )*};
}
into_dim!(usize, i32, i64);

macro_rules! into_shape_tuple {
    ($($name:ident)+) => {
        impl<$($name: IntoDim),+> IntoShape for ($($name,)+) {
            fn sizes(&self) -> SmallVec<[i64; 6]> {
                #[allow(non_snake_case)]
                let ($($name,)+) = *self;
                SmallVec::from_slice(&[$($name.value()),+])
            }
        }
    };
}
into_shape_tuple!(A);
into_shape_tuple!(A B);
into_shape_tuple!(A B C);
into_shape_tuple!(A B C D);
into_shape_tuple!(A B C D E);
into_shape_tuple!(A B C D E F);

/// Dimensions as a caller writes them: an integer, a list, `Option`s of these, or `..` for all.
pub trait IntoDims {
    /// The dimensions as written; `None` for all of them.
    fn dims(&self) -> Option<SmallVec<[i64; 6]>>;
}
macro_rules! into_dims_ints {
    ($($t:ty),*) => {$(
        impl IntoDims for $t { fn dims(&self) -> Option<SmallVec<[i64; 6]>> { Some(SmallVec::from_slice(&[*self as i64])) } }
        impl IntoDims for [$t] { fn dims(&self) -> Option<SmallVec<[i64; 6]>> { Some(self.iter().map(|&v| v as i64).collect()) } }
        impl<const N: usize> IntoDims for [$t; N] { fn dims(&self) -> Option<SmallVec<[i64; 6]>> { Some(self.iter().map(|&v| v as i64).collect()) } }
        impl IntoDims for Vec<$t> { fn dims(&self) -> Option<SmallVec<[i64; 6]>> { Some(self.iter().map(|&v| v as i64).collect()) } }
    )*};
}
into_dims_ints!(usize, i32, i64);
impl IntoDims for RangeFull {
    fn dims(&self) -> Option<SmallVec<[i64; 6]>> {
        None
    }
}
impl IntoDims for () {
    fn dims(&self) -> Option<SmallVec<[i64; 6]>> {
        None
    }
}
/// The only `Option` there is, so that a plain `None` (for all of them) needs no type.
impl IntoDims for Option<i64> {
    fn dims(&self) -> Option<SmallVec<[i64; 6]>> {
        self.map(|d| SmallVec::from_slice(&[d]))
    }
}
impl<T: IntoDims + ?Sized> IntoDims for &T {
    fn dims(&self) -> Option<SmallVec<[i64; 6]>> {
        (**self).dims()
    }
}

/// A size for each spatial dimension, as depth, height and width.
///
/// Built from an integer, which stands for all, or one for each: `3`, `(3, 5)`, `[3, 5]`.
///
/// ```
/// use torsh_tensor::Sizes;
/// assert_eq!(Sizes::<2>::from(3), Sizes([3, 3]));
/// assert_eq!(Sizes::from((1usize, 2usize)), Sizes([1, 2]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes<const N: usize>(pub [i64; N]);

impl<const N: usize> std::fmt::Display for Sizes<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text: Vec<String> = self.0.iter().map(i64::to_string).collect();
        match N {
            1 => write!(f, "({},)", text.concat()),
            _ => write!(f, "({})", text.join(", ")),
        }
    }
}

/// A size for each spatial dimension, or `None` where it stays what it is.
///
/// Built as [`Sizes`], with `None` in places: `7`, `(5, None)`, `[None, Some(3)]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputSize<const N: usize>(pub [Option<i64>; N]);

/// An integer, or `None`.
pub trait IntoSize: Copy {
    /// The size.
    fn size(self) -> Option<i64>;
}
impl IntoSize for Option<i64> {
    fn size(self) -> Option<i64> {
        self
    }
}
macro_rules! into_size {
    ($($t:ty),*) => {$(
        impl IntoSize for $t { fn size(self) -> Option<i64> { Some(self as i64) } }
    )*};
}
into_size!(usize, i32, i64);

macro_rules! spatial {
    ($name:ident $item:ident |$v:ident| $of:expr) => {
        impl<A: $item, const N: usize> From<A> for $name<N> {
            fn from($v: A) -> Self {
                $name([$of; N])
            }
        }
        impl<A: $item, const N: usize> From<[A; N]> for $name<N> {
            fn from(v: [A; N]) -> Self {
                $name(v.map(|$v| $of))
            }
        }
        impl<A: $item, B: $item> From<(A, B)> for $name<2> {
            fn from((a, b): (A, B)) -> Self {
                $name([
                    {
                        let $v = a;
                        $of
                    },
                    {
                        let $v = b;
                        $of
                    },
                ])
            }
        }
        impl<A: $item, B: $item, C: $item> From<(A, B, C)> for $name<3> {
            fn from((a, b, c): (A, B, C)) -> Self {
                $name([
                    {
                        let $v = a;
                        $of
                    },
                    {
                        let $v = b;
                        $of
                    },
                    {
                        let $v = c;
                        $of
                    },
                ])
            }
        }
    };
}
spatial!(Sizes IntoDim |v| v.value());
spatial!(OutputSize IntoSize |v| v.size());

/// Two sizes for each of two or three dimensions, as the paddings of images and volumes.
macro_rules! pairs {
    ($n:literal $($t:ident $v:ident),*) => {
        impl<$($t: IntoDim),*> From<($($t,)*)> for Sizes<$n> {
            fn from(($($v,)*): ($($t,)*)) -> Self {
                Sizes([$($v.value()),*])
            }
        }
    };
}
pairs!(4 A a, B b, C c, D d);
pairs!(6 A a, B b, C c, D d, E e, F f);

/// Reads a parameter `impl Into<Operand>` as a tensor for the length of a function.
#[doc(hidden)]
#[macro_export]
macro_rules! operand_as_tensor {
    ($x:ident) => {
        let operand: $crate::Operand<'_> = $x.into();
        let held;
        let $x: &$crate::Tensor = match &operand {
            $crate::Operand::Ref(t) => t,
            $crate::Operand::Owned(t) => t,
            $crate::Operand::Number(_) => {
                held = operand.to_tensor()?;
                &held
            }
        };
    };
}
