//! Free functions: creation with the default dtype on the default device, joining, and checks.
//!
//! The creation functions panic with the error's message. `Tensor::zeros(..)` and the other
//! constructors with dtype and device return a `Result`.

use std::borrow::Borrow;
use std::fmt;

use torsh_core::{DType, Device, Element, Result, Scalar, TorshError, default_dtype};

use crate::ops::factory::{between_dtype, range_dtype};
use crate::print::PrintOptions;
use crate::{IntoDim, IntoShape, Tensor, default_device};

#[track_caller]
fn unwrap<T>(r: Result<T>) -> T {
    match r {
        Ok(t) => t,
        Err(e) => panic!("{e}"),
    }
}

/// Zeros of the default dtype on the default device. Panics where the shape is impossible.
///
/// ```
/// use torsh_tensor::{DType, zeros};
/// let x = zeros(&[2, 3]);
/// assert_eq!((x.dims(), x.dtype()), (&[2, 3][..], DType::F32));
/// ```
#[track_caller]
pub fn zeros(shape: impl IntoShape) -> Tensor {
    unwrap(Tensor::zeros(shape, default_dtype(), default_device()))
}

/// Ones of the default dtype on the default device. Panics where the shape is impossible.
///
/// ```
/// use torsh_tensor::{ones, tensor};
/// assert_eq!(ones([2, 1]), tensor![[1.0], [1.0]]);
/// ```
#[track_caller]
pub fn ones(shape: impl IntoShape) -> Tensor {
    unwrap(Tensor::ones(shape, default_dtype(), default_device()))
}

/// Numbers drawn uniformly from 0 to below 1, of the default dtype on the default device: PyTorch's own
/// draws after the same `manual_seed`. Panics where the shape is impossible.
///
/// ```
/// use torsh_tensor::rand;
/// let x = rand([3]);
/// assert!(x.to_vec::<f32>()?.iter().all(|v| (0.0..1.0).contains(v)));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn rand(shape: impl IntoShape) -> Tensor {
    unwrap(Tensor::rand(shape, default_dtype(), default_device()))
}

/// Normal numbers of mean 0 and deviation 1, of the default dtype on the default device: PyTorch's own draws
/// after the same `manual_seed`. Panics where the shape is impossible.
///
/// ```
/// use torsh_core::random::manual_seed;
/// # use torsh_tensor::{randn, tensor};
/// manual_seed(0);
/// // What PyTorch draws.
/// assert!(randn([2]).allclose(&tensor![1.540996, -0.293429])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn randn(shape: impl IntoShape) -> Tensor {
    unwrap(Tensor::randn(shape, default_dtype(), default_device()))
}

/// Integers from `low` to below `high`, as int64 on the default device. Panics where the range is empty or
/// the shape is impossible.
///
/// ```
/// use torsh_tensor::randint;
/// let x = randint(5, 7, [3]);
/// assert!(x.to_vec::<i64>()?.iter().all(|v| *v == 5 || *v == 6));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn randint(low: i64, high: i64, shape: impl IntoShape) -> Tensor {
    unwrap(Tensor::randint(
        low,
        high,
        shape,
        DType::I64,
        default_device(),
    ))
}

/// A CPU tensor of the default dtype that is not written. Panics where the shape is impossible.
///
/// ```
/// use torsh_tensor::{empty, tensor};
/// let x = empty([2]);
/// assert_eq!(x.fill_(3.0)?, tensor![3.0, 3.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn empty(shape: impl IntoShape) -> Tensor {
    unwrap(Tensor::empty(shape, default_dtype(), default_device()))
}

/// One number everywhere, on the default device: floats as the default dtype, integers as int64, bools as
/// bool. Panics where the shape is impossible.
///
/// ```
/// use torsh_tensor::{full, tensor};
/// assert_eq!(full([2], 7), tensor![7, 7]);
/// assert_eq!(full([2], 0.5), tensor![0.5, 0.5]);
/// ```
#[track_caller]
pub fn full(shape: impl IntoShape, value: impl Into<Scalar>) -> Tensor {
    let value = value.into();
    unwrap(Tensor::full(shape, value, value.dtype(), default_device()))
}

/// The numbers from `start` to below `end`, `step` apart, on the default device: int64 where all three are
/// integers, else the default dtype. Panics where `step` leads away from `end`.
///
/// ```
/// use torsh_tensor::arange;
/// assert_eq!(arange(0.0, 1.0, 0.25).to_vec::<f32>()?, [0.0, 0.25, 0.5, 0.75]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn arange(start: impl Into<Scalar>, end: impl Into<Scalar>, step: impl Into<Scalar>) -> Tensor {
    let (start, end, step) = (start.into(), end.into(), step.into());
    unwrap(Tensor::arange(
        start,
        end,
        step,
        range_dtype(&[start, end, step]),
        default_device(),
    ))
}

/// `steps` equally spaced numbers from `start` to `end`, both included, of the default dtype on
/// the CPU. Panics where `steps` is negative.
///
/// ```
/// use torsh_tensor::{linspace, tensor};
/// assert_eq!(linspace(0, 1, 5), tensor![0.0, 0.25, 0.5, 0.75, 1.0]);
/// ```
#[track_caller]
pub fn linspace(start: impl Into<Scalar>, end: impl Into<Scalar>, steps: impl IntoDim) -> Tensor {
    let (start, end) = (start.into(), end.into());
    unwrap(Tensor::linspace(
        start,
        end,
        steps,
        between_dtype(&[start, end]),
        default_device(),
    ))
}

/// `base` to the power of `steps` equally spaced exponents from `start` to `end`, of the default
/// dtype on the default device. Panics where `steps` is negative.
///
/// ```
/// use torsh_tensor::{logspace, tensor};
/// assert!(logspace(0, 2, 3, 10).allclose(&tensor![1.0, 10.0, 100.0])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn logspace(
    start: impl Into<Scalar>,
    end: impl Into<Scalar>,
    steps: impl IntoDim,
    base: impl Into<Scalar>,
) -> Tensor {
    let (start, end, base) = (start.into(), end.into(), base.into());
    unwrap(Tensor::logspace(
        start,
        end,
        steps,
        base,
        between_dtype(&[start, end, base]),
        default_device(),
    ))
}

/// The identity matrix of `n` rows, of the default dtype on the default device. Panics where `n` is negative.
///
/// ```
/// use torsh_tensor::{eye, tensor};
/// assert_eq!(eye(2), tensor![[1.0, 0.0], [0.0, 1.0]]);
/// ```
#[track_caller]
pub fn eye(n: impl IntoDim) -> Tensor {
    unwrap(Tensor::eye(n, default_dtype(), default_device()))
}

/// Zeros of a tensor's shape, dtype and device.
///
/// ```
/// use torsh_tensor::{tensor, zeros_like};
/// assert_eq!(zeros_like(&tensor![5, 6]), tensor![0, 0]);
/// ```
#[track_caller]
pub fn zeros_like(t: &Tensor) -> Tensor {
    unwrap(t.zeros_like())
}

/// Ones of a tensor's shape, dtype and device.
///
/// ```
/// use torsh_tensor::{ones_like, tensor};
/// assert_eq!(ones_like(&tensor![5.0, 6.0]), tensor![1.0, 1.0]);
/// ```
#[track_caller]
pub fn ones_like(t: &Tensor) -> Tensor {
    unwrap(t.ones_like())
}

/// A tensor of another one's shape, dtype and device, not written.
///
/// ```
/// use torsh_tensor::{empty_like, tensor};
/// assert_eq!(empty_like(&tensor![5.0, 6.0]).fill_(2.0)?, tensor![2.0, 2.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn empty_like(t: &Tensor) -> Tensor {
    unwrap(t.empty_like())
}

/// One number in a tensor's shape, dtype and device.
///
/// ```
/// use torsh_tensor::{full_like, tensor};
/// assert_eq!(full_like(&tensor![5.0, 6.0], 3), tensor![3.0, 3.0]);
/// ```
#[track_caller]
pub fn full_like(t: &Tensor, value: impl Into<Scalar>) -> Tensor {
    unwrap(t.full_like(value))
}

/// The tensors one after the other along a dimension; see [`Tensor::cat`].
///
/// ```
/// use torsh_tensor::{cat, tensor};
/// assert_eq!(cat(&[tensor![1, 2], tensor![3]], 0)?, tensor![1, 2, 3]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn cat<T: Borrow<Tensor>>(tensors: &[T], dim: impl IntoDim) -> Result<Tensor> {
    Tensor::cat(tensors, dim)
}

/// The tensors side by side along a new dimension; see [`Tensor::stack`].
///
/// ```
/// use torsh_tensor::{stack, tensor};
/// assert_eq!(stack(&[tensor![1, 2], tensor![3, 4]], 0)?, tensor![[1, 2], [3, 4]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn stack<T: Borrow<Tensor>>(tensors: &[T], dim: impl IntoDim) -> Result<Tensor> {
    Tensor::stack(tensors, dim)
}

/// Whether any element is nan. Panics where the elements cannot be read (a meta tensor).
///
/// ```
/// use torsh_tensor::{has_nan, tensor};
/// assert!(has_nan(&tensor![1.0, f32::NAN]));
/// assert!(!has_nan(&tensor![1.0, f32::INFINITY]));
/// ```
#[track_caller]
pub fn has_nan(t: &Tensor) -> bool {
    unwrap(t.has_nan())
}

/// Whether any element is infinite. Panics where the elements cannot be read (a meta tensor).
///
/// ```
/// use torsh_tensor::{has_inf, tensor};
/// assert!(has_inf(&tensor![1.0, f64::INFINITY]));
/// assert!(!has_inf(&tensor![1.0, f64::NAN]));
/// ```
#[track_caller]
pub fn has_inf(t: &Tensor) -> bool {
    unwrap(t.has_inf())
}

/// What [`tensor_stats`] counts and measures; minimum to deviation leave out nan and infinities.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TensorStats {
    /// The number of elements.
    pub numel: usize,
    /// How many are nan.
    pub nan: usize,
    /// How many are infinite.
    pub inf: usize,
    /// How many are zero.
    pub zeros: usize,
    /// The smallest finite element; nan where there is none.
    pub min: f64,
    /// The largest finite element; nan where there is none.
    pub max: f64,
    /// The mean of the finite elements; nan where there is none.
    pub mean: f64,
    /// The standard deviation of the finite elements (of a sample, as `std`); nan for fewer than
    /// two.
    pub std: f64,
}

impl fmt::Display for TensorStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} elements, min {:.4e}, max {:.4e}, mean {:.4e}, std {:.4e}, {} zero, {} nan, {} inf",
            self.numel, self.min, self.max, self.mean, self.std, self.zeros, self.nan, self.inf
        )
    }
}

/// Counts and measures a tensor's elements, for a look at a gradient or an activation; an error
/// for a complex tensor.
///
/// ```
/// use torsh_tensor::{tensor, tensor_stats};
/// let s = tensor_stats(&tensor![1.0, 3.0, f32::NAN])?;
/// assert_eq!((s.nan, s.min, s.max, s.mean), (1, 1.0, 3.0, 2.0));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn tensor_stats(t: &Tensor) -> Result<TensorStats> {
    if t.is_complex() {
        return Err(TorshError::dtype(
            "tensor_stats",
            format!("complex numbers have no order: {}", t.describe()),
        )
        .with_hint("pass t.abs()?"));
    }
    let values = t.detach().host("tensor_stats")?;
    let values = values.to_dtype(DType::F64)?.to_vec::<f64>()?;
    let mut s = TensorStats {
        numel: values.len(),
        nan: 0,
        inf: 0,
        zeros: 0,
        min: f64::NAN,
        max: f64::NAN,
        mean: f64::NAN,
        std: f64::NAN,
    };
    // Welford's running mean and sum of squares.
    let (mut n, mut mean, mut squares) = (0.0, 0.0, 0.0);
    for v in values {
        if v.is_nan() {
            s.nan += 1;
        } else if v.is_infinite() {
            s.inf += 1;
        } else {
            s.zeros += usize::from(v == 0.0);
            s.min = s.min.min(v);
            s.max = s.max.max(v);
            n += 1.0;
            let apart = v - mean;
            mean += apart / n;
            squares += apart * (v - mean);
        }
    }
    if n > 0.0 {
        s.mean = mean;
    }
    if n > 1.0 {
        s.std = (squares / (n - 1.0)).sqrt();
    }
    Ok(s)
}

/// Sets how tensors print (`torch.set_printoptions`).
///
/// ```
/// use torsh_tensor::print::PrintOptions;
/// # use torsh_tensor::{set_printoptions, tensor};
/// set_printoptions(PrintOptions::default().precision(1));
/// assert_eq!(tensor![0.25].to_string(), "tensor([0.2])");
/// # set_printoptions(PrintOptions::default());
/// ```
pub fn set_printoptions(options: PrintOptions) {
    crate::print::set_print_options(options);
}

/// How tensors print.
///
/// ```
/// use torsh_tensor::get_printoptions;
/// assert_eq!(get_printoptions().edgeitems, 3);
/// ```
pub fn get_printoptions() -> PrintOptions {
    crate::print::print_options()
}

/// What [`Tensor::to`] converts to: a dtype, a device, both, or what another tensor has.
pub trait IntoTo {
    /// The dtype and device, where they shall change.
    fn target(&self) -> (Option<DType>, Option<Device>);
}
impl IntoTo for DType {
    fn target(&self) -> (Option<DType>, Option<Device>) {
        (Some(*self), None)
    }
}
impl IntoTo for Device {
    fn target(&self) -> (Option<DType>, Option<Device>) {
        (None, Some(*self))
    }
}
impl IntoTo for (Device, DType) {
    fn target(&self) -> (Option<DType>, Option<Device>) {
        (Some(self.1), Some(self.0))
    }
}
impl IntoTo for Tensor {
    fn target(&self) -> (Option<DType>, Option<Device>) {
        (Some(self.dtype()), Some(self.device()))
    }
}
impl<T: IntoTo> IntoTo for &T {
    fn target(&self) -> (Option<DType>, Option<Device>) {
        (**self).target()
    }
}

impl Tensor {
    /// The tensor converted (`Tensor.to`): to a dtype, a device, `(device, dtype)`, or those of
    /// another tensor. Itself where nothing changes.
    ///
    /// ```
    /// use torsh_tensor::{DType, Device, tensor};
    /// let x = tensor![1.5, -2.5].to(DType::I64)?;
    /// assert_eq!(x.to_vec::<i64>()?, [1, -2]);
    /// assert_eq!(x.to((Device::Cpu, DType::F64))?.dtype(), DType::F64);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn to(&self, target: impl IntoTo) -> Result<Tensor> {
        let (dtype, device) = target.target();
        let t = match device {
            Some(d) => self.to_device(d)?,
            None => self.clone(),
        };
        match dtype {
            Some(d) => t.to_dtype(d),
            None => Ok(t),
        }
    }

    fn any_true(&self) -> Result<bool> {
        Ok(self.to_bytes()?.iter().any(|&b| b != 0))
    }

    /// Whether any element is nan.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert!(tensor![1.0, f64::NAN].has_nan()?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn has_nan(&self) -> Result<bool> {
        self.isnan()?.any_true()
    }

    /// Whether any element is infinite.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert!(tensor![1.0, f64::INFINITY].has_inf()?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn has_inf(&self) -> Result<bool> {
        self.isinf()?.any_true()
    }

    /// Whether all elements are finite: neither nan nor infinite.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert!(tensor![1.0, 2.0].is_finite()?);
    /// assert!(!tensor![1.0, f64::NAN].is_finite()?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn is_finite(&self) -> Result<bool> {
        Ok(!self.isfinite()?.logical_not()?.any_true()?)
    }

    /// The tensor with `f` applied to each element, as a float64 number; the result has this
    /// tensor's dtype. An error where a gradient would be lost.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// assert_eq!(tensor![1.0, 2.0].map(|x| x * x + 1.0)?, tensor![2.0, 5.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn map(&self, mut f: impl FnMut(f64) -> f64) -> Result<Tensor> {
        if self.requires_grad() && crate::is_grad_enabled() {
            return Err(TorshError::autograd(
                "map",
                "a closure has no derivative, and the tensor requires a gradient",
            )
            .with_hint("use the tensor's own ops, detach(), or no_grad"));
        }
        if self.is_complex() {
            return Err(TorshError::dtype(
                "map",
                format!("the closure takes real numbers: {}", self.describe()),
            ));
        }
        let mut values = self.host("map")?.to_dtype(DType::F64)?.to_vec::<f64>()?;
        for v in &mut values {
            *v = f(*v);
        }
        Tensor::on_host(&values, self.shape())?
            .to_dtype(self.dtype())?
            .to_device(self.device())
    }

    /// The elements of a matrix, row by row, converted to `T`; an error where one does not fit.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![[1, 2], [3, 4]].to_vec2::<i64>()?, [[1, 2], [3, 4]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn to_vec2<T: Element>(&self) -> Result<Vec<Vec<T>>> {
        self.rank("to_vec2", 2)?;
        let all = self.to_vec::<T>()?;
        let cols = self.dims()[1];
        Ok((0..self.dims()[0])
            .map(|i| all[i * cols..(i + 1) * cols].to_vec())
            .collect())
    }

    /// The elements of a tensor of three dimensions, converted to `T`; an error where one does not
    /// fit.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![[[1], [2]]].to_vec3::<f32>()?, [[[1.0], [2.0]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn to_vec3<T: Element>(&self) -> Result<Vec<Vec<Vec<T>>>> {
        self.rank("to_vec3", 3)?;
        let all = self.to_vec::<T>()?;
        let (rows, cols) = (self.dims()[1], self.dims()[2]);
        let row =
            |i: usize, j: usize| all[(i * rows + j) * cols..(i * rows + j + 1) * cols].to_vec();
        Ok((0..self.dims()[0])
            .map(|i| (0..rows).map(|j| row(i, j)).collect())
            .collect())
    }

    #[track_caller]
    fn rank(&self, op: &'static str, n: usize) -> Result<()> {
        if self.ndim() != n {
            let e = TorshError::shape("", format!("expected {n} dimensions, got {}", self.ndim()));
            return self.named(op, Err(e));
        }
        Ok(())
    }
}
