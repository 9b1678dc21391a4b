//! The field types of attributes.

use std::fmt;
use std::ops::Deref;

use smallvec::SmallVec;

use super::Field;
use crate::{DType, Device, Dims, Generator, Scalar, Shape};

/// A list of integers, as sizes or dimensions; up to four without memory of its own.
///
/// ```
/// use torsh_core::Ints;
/// let sizes = Ints::from([2, 3]);
/// assert_eq!((sizes.len(), sizes[1]), (2, 3));
/// assert_eq!(Ints::from(vec![2, 3]), sizes);
/// ```
#[derive(PartialEq, Eq, Hash, Default)]
pub struct Ints(SmallVec<[i64; 4]>);

impl Clone for Ints {
    #[inline]
    fn clone(&self) -> Ints {
        Ints(SmallVec::from_slice(&self.0))
    }
}

impl fmt::Debug for Ints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0[..], f)
    }
}

impl Deref for Ints {
    type Target = [i64];
    #[inline]
    fn deref(&self) -> &[i64] {
        &self.0
    }
}

impl From<&[i64]> for Ints {
    #[inline]
    fn from(v: &[i64]) -> Ints {
        Ints(SmallVec::from_slice(v))
    }
}

impl From<Vec<i64>> for Ints {
    fn from(v: Vec<i64>) -> Ints {
        Ints(SmallVec::from_vec(v))
    }
}

impl<const N: usize> From<[i64; N]> for Ints {
    #[inline]
    fn from(v: [i64; N]) -> Ints {
        Ints(SmallVec::from_slice(&v))
    }
}

impl From<&[usize]> for Ints {
    #[inline]
    fn from(v: &[usize]) -> Ints {
        v.iter().map(|&i| i as i64).collect()
    }
}

impl FromIterator<i64> for Ints {
    #[inline]
    fn from_iter<I: IntoIterator<Item = i64>>(items: I) -> Ints {
        Ints(items.into_iter().collect())
    }
}

/// A type that a field of attributes can have.
///
/// ```
/// use torsh_core::attrs::{Field, FieldType};
/// assert_eq!(Some(2.5).field().to_string(), "2.5");
/// assert_eq!(f64::read(&Field::Int(3)), Some(3.0));
/// assert_eq!(usize::read(&Field::Int(-1)), None);
/// ```
pub trait FieldType: Sized {
    /// The field as a value.
    fn field(&self) -> Field<'_>;
    /// The field of a value; `None` where it is of another kind.
    fn read(field: &Field<'_>) -> Option<Self>;
}

macro_rules! field_types {
    ($($t:ty: |$v:ident| $field:expr, $($pattern:pat => $value:expr),+;)*) => {$(
        impl FieldType for $t {
            fn field(&self) -> Field<'_> {
                let $v = self;
                $field
            }
            fn read(field: &Field<'_>) -> Option<$t> {
                Some(match *field {
                    $($pattern => $value,)+
                    _ => return None,
                })
            }
        }
    )*};
}
field_types! {
    bool: |v| Field::Bool(*v), Field::Bool(b) => b;
    i64: |v| Field::Int(*v), Field::Int(i) => i;
    f64: |v| Field::Float(*v), Field::Float(f) => f, Field::Int(i) => i as f64;
    Scalar: |v| Field::Scalar(*v), Field::Scalar(s) => s, Field::Int(i) => Scalar::Int(i),
        Field::Float(f) => Scalar::Float(f), Field::Bool(b) => Scalar::Bool(b);
    Ints: |v| Field::Ints(v), Field::Ints(v) => v.into();
    DType: |v| Field::DType(*v), Field::DType(d) => d;
    Device: |v| Field::Device(*v), Field::Device(d) => d;
    Generator: |v| Field::Generator(v), Field::Generator(g) => g.clone();
    String: |v| Field::Str(v), Field::Str(s) => s.to_string();
}

impl FieldType for usize {
    fn field(&self) -> Field<'_> {
        Field::Int(*self as i64)
    }
    fn read(field: &Field<'_>) -> Option<usize> {
        match *field {
            Field::Int(i) => usize::try_from(i).ok(),
            _ => None,
        }
    }
}

impl FieldType for Dims {
    fn field(&self) -> Field<'_> {
        Field::Sizes(self)
    }
    fn read(field: &Field<'_>) -> Option<Dims> {
        match *field {
            Field::Sizes(v) => Some(Dims::from_slice(v)),
            Field::Ints(v) => v.iter().map(|&i| usize::try_from(i).ok()).collect(),
            _ => None,
        }
    }
}

impl FieldType for Shape {
    fn field(&self) -> Field<'_> {
        Field::Sizes(self.dims())
    }
    fn read(field: &Field<'_>) -> Option<Shape> {
        Dims::read(field).map(Shape::from)
    }
}

impl FieldType for SmallVec<[f64; 3]> {
    fn field(&self) -> Field<'_> {
        Field::Floats(self)
    }
    fn read(field: &Field<'_>) -> Option<Self> {
        match *field {
            Field::Floats(v) => Some(SmallVec::from_slice(v)),
            _ => None,
        }
    }
}

impl<T: FieldType> FieldType for Option<T> {
    fn field(&self) -> Field<'_> {
        self.as_ref().map_or(Field::None, T::field)
    }
    fn read(field: &Field<'_>) -> Option<Option<T>> {
        match field {
            Field::None => Some(None),
            other => T::read(other).map(Some),
        }
    }
}
