//! What arguments may be: operands, shapes, dimensions.

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
