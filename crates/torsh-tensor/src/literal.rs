//! Tensors from nested lists of numbers: the input of `tensor!`.

use num_complex::Complex;
use torsh_core::{DType, Device, Dims, Element, Result, Shape, TorshError, default_dtype};

use crate::Tensor;

/// A number as a list of numbers holds it.
pub trait Literal: Element {
    /// The dtype of a tensor of such numbers: floats are of the default dtype, integers int64, as
    /// a Python list's are.
    fn dtype() -> DType;
}

/// A number, or lists (of lists ...) of numbers.
pub trait Nested {
    /// The numbers.
    type Item: Literal;
    /// Adds the sizes to `dims` and the numbers to `out`; an error where the lists are ragged.
    fn flatten(&self, dims: &mut Dims, depth: usize, out: &mut Vec<Self::Item>) -> Result<()>;
}

macro_rules! literals {
    ($($t:ty => $dtype:expr),* $(,)?) => {$(
        impl Literal for $t {
            fn dtype() -> DType { $dtype }
        }
        impl Nested for $t {
            type Item = $t;
            fn flatten(&self, _dims: &mut Dims, _depth: usize, out: &mut Vec<$t>) -> Result<()> {
                out.push(*self);
                Ok(())
            }
        }
    )*};
}
literals! {
    f64 => default_dtype(), f32 => default_dtype(),
    u8 => DType::I64, i8 => DType::I64, i16 => DType::I64, i32 => DType::I64, i64 => DType::I64,
    bool => DType::Bool,
    Complex<f32> => default_dtype().to_complex(), Complex<f64> => default_dtype().to_complex(),
}

fn flatten_list<T: Nested>(
    list: &[T],
    dims: &mut Dims,
    depth: usize,
    out: &mut Vec<T::Item>,
) -> Result<()> {
    match dims.get(depth) {
        None => dims.push(list.len()),
        Some(&n) if n == list.len() => {}
        Some(&n) => {
            return Err(TorshError::shape(
                "tensor",
                format!(
                    "expected lists of length {n} at dimension {depth} (got {})",
                    list.len()
                ),
            ));
        }
    }
    list.iter()
        .try_for_each(|item| item.flatten(dims, depth + 1, out))
}

impl<T: Nested, const N: usize> Nested for [T; N] {
    type Item = T::Item;
    fn flatten(&self, dims: &mut Dims, depth: usize, out: &mut Vec<T::Item>) -> Result<()> {
        flatten_list(self, dims, depth, out)
    }
}
impl<T: Nested> Nested for Vec<T> {
    type Item = T::Item;
    fn flatten(&self, dims: &mut Dims, depth: usize, out: &mut Vec<T::Item>) -> Result<()> {
        flatten_list(self, dims, depth, out)
    }
}
impl<T: Nested> Nested for [T] {
    type Item = T::Item;
    fn flatten(&self, dims: &mut Dims, depth: usize, out: &mut Vec<T::Item>) -> Result<()> {
        flatten_list(self, dims, depth, out)
    }
}
impl<T: Nested + ?Sized> Nested for &T {
    type Item = T::Item;
    fn flatten(&self, dims: &mut Dims, depth: usize, out: &mut Vec<T::Item>) -> Result<()> {
        (**self).flatten(dims, depth, out)
    }
}

impl Tensor {
    /// A CPU tensor of a number or of nested lists of numbers, as `torch.tensor` makes it: floats
    /// are of the default dtype, integers int64, bools bool. Ragged lists are an error.
    ///
    /// ```
    /// use torsh_tensor::{DType, Tensor};
    /// let x = Tensor::from_nested(vec![vec![1, 2], vec![3, 4]])?;
    /// assert_eq!((x.dims(), x.dtype()), (&[2, 2][..], DType::I64));
    /// assert!(Tensor::from_nested(vec![vec![1], vec![3, 4]]).is_err());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[track_caller]
    pub fn from_nested(data: impl Nested) -> Result<Tensor> {
        nested(&data)
    }
}

#[track_caller]
fn nested<T: Nested>(data: &T) -> Result<Tensor> {
    let (mut dims, mut out) = (Dims::new(), Vec::new());
    data.flatten(&mut dims, 0, &mut out)?;
    Tensor::from_slice(
        &out,
        Shape::from(dims),
        <T::Item as Literal>::dtype(),
        crate::default_device(),
    )
}

/// What `tensor!` expands to.
#[doc(hidden)]
#[track_caller]
pub fn from_literal(data: impl Nested) -> Tensor {
    match nested(&data) {
        Ok(t) => t,
        Err(e) => panic!("{e}"),
    }
}

/// A CPU tensor of the numbers written down, as `torch.tensor([..])`: floats are of the default
/// dtype (float32), integers int64, bools bool. `tensor![0.5; 3]` repeats a number.
///
/// ```
/// use torsh_tensor::{DType, tensor};
/// let x = tensor![[1.0, 2.0], [3.0, 4.0]];
/// assert_eq!((x.dims(), x.dtype()), (&[2, 2][..], DType::F32));
/// assert_eq!(tensor![1, 2].dtype(), DType::I64);
/// assert_eq!(tensor![true, false].dtype(), DType::Bool);
/// let v: f64 = 1.5;
/// assert_eq!(tensor![v].dtype(), DType::F32);
/// assert_eq!(tensor![[[[1], [2]]]].dims(), [1, 1, 2, 1]);
/// assert_eq!(tensor![].dims(), [0]);
/// ```
#[macro_export]
macro_rules! tensor {
    () => { $crate::from_literal([0.0f64; 0]) };
    ($value:expr; $n:expr) => { $crate::from_literal(::std::vec![$value; $n]) };
    ($($item:expr),+ $(,)?) => { $crate::from_literal([$($item),+]) };
}

/// A matrix of the rows written down; [`tensor!`] with two levels of lists.
///
/// ```
/// use torsh_tensor::tensor_2d;
/// assert_eq!(tensor_2d![[1, 2, 3], [4, 5, 6]].dims(), [2, 3]);
/// ```
#[macro_export]
macro_rules! tensor_2d {
    ($([$($item:expr),* $(,)?]),+ $(,)?) => { $crate::from_literal([$([$($item),*]),+]) };
}

/// What `device!` expands to.
#[doc(hidden)]
#[track_caller]
pub fn parse_device(name: &str) -> Device {
    match name.parse::<Device>() {
        Ok(d) => d,
        Err(e) => panic!("{e}"),
    }
}

/// A device by PyTorch's name, as `device!("cuda:0")`; panics where there is no such name.
///
/// ```
/// use torsh_tensor::{Device, device};
/// assert_eq!(device!("cpu"), Device::Cpu);
/// assert_eq!(device!("cuda:1"), Device::Cuda(1));
/// ```
#[macro_export]
macro_rules! device {
    ($name:expr) => {
        $crate::parse_device($name)
    };
}
