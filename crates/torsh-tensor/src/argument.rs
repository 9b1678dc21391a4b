//! What calls by name read for options and make of results.

use smallvec::SmallVec;
use torsh_core::{DType, Device, Generator, Result, Scalar, TorshError};

use crate::schema::Bound;
use crate::{EmbeddingBagMode, Reduction, Tensor, Unique, Value};

/// The type of an option that a call by name sets: the macro [`by_name`](macro@crate::by_name) reads the fields of options
/// with it.
///
/// ```
/// use torsh_tensor::{Argument, Bound, Result, Signature, Value};
/// #[derive(Debug, PartialEq)]
/// struct Side(bool);
/// impl Argument for Side {
///     fn read(bound: &Bound, i: usize) -> Result<Side> {
///         Ok(Side(bound.str(i) == "left"))
///     }
/// }
/// let bound = Signature::parse("(str side='left', int? n=None)")?.bind(&[], &[]).expect("it fits");
/// assert_eq!(bound.get::<Side>(0)?, Side(true));
/// assert_eq!(bound.get::<Option<i64>>(1)?, None);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub trait Argument: Sized {
    /// Parameter `i` of a call.
    ///
    /// # Errors
    /// A value that the type does not have.
    fn read(bound: &Bound, i: usize) -> Result<Self>;
}

macro_rules! arguments {
    ($($ty:ty => |$b:ident, $i:ident| $e:expr;)*) => {$(
        impl Argument for $ty {
            fn read($b: &Bound, $i: usize) -> Result<$ty> {
                $e
            }
        }
    )*};
}

/// Parameter `i`, which `None` cannot be.
fn given<T>(bound: &Bound, i: usize, value: Option<T>) -> Result<T> {
    value.ok_or_else(|| {
        let kind = bound.value(i).kind();
        TorshError::invalid("", format!("argument {i} cannot be a {kind}"))
    })
}

arguments! {
    Tensor => |b, i| b.tensor(i).cloned();
    Scalar => |b, i| Ok(b.scalar(i));
    i64 => |b, i| Ok(b.int(i));
    f64 => |b, i| Ok(b.float(i));
    bool => |b, i| Ok(b.bool(i));
    String => |b, i| Ok(b.str(i).to_string());
    Vec<i64> => |b, i| Ok(b.ints(i));
    SmallVec<[i64; 6]> => |b, i| Ok(b.ints(i).into());
    DType => |b, i| given(b, i, b.dtype(i));
    Device => |b, i| given(b, i, b.device(i));
    Generator => |b, i| given(b, i, b.generator(i).cloned());
    Reduction => |b, i| Reduction::of(b.str(i));
    EmbeddingBagMode => |b, i| Ok(b.str(i).into());
}

impl<T: Argument> Argument for Option<T> {
    fn read(bound: &Bound, i: usize) -> Result<Option<T>> {
        match bound.is_none(i) {
            true => Ok(None),
            false => T::read(bound, i).map(Some),
        }
    }
}

/// What a function that is called by name returns.
#[doc(hidden)]
pub trait Returned {
    fn returned(self) -> Value;
}

macro_rules! returned {
    ($($ty:ty),*) => {$(
        impl Returned for $ty {
            fn returned(self) -> Value {
                self.into()
            }
        }
    )*};
}

returned!(
    Tensor,
    bool,
    (Tensor, Tensor),
    (Tensor, Tensor, Tensor),
    Unique
);

impl Returned for Vec<Tensor> {
    fn returned(self) -> Value {
        Value::Tuple(self.into_iter().map(Value::Tensor).collect())
    }
}
