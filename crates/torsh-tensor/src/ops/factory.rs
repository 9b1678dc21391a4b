//! New tensors from a rule or with the properties of another tensor.

use torsh_core::attrs::NONE;
use torsh_core::{DType, Device, Kernel, Layout, Result, Scalar, TorshError, attrs, default_dtype};

use super::index::check_number;
use crate::call::{Arg, memory_order_strides, write_fresh};
use crate::record::{OpRecord, sample};
use crate::schema::Bound;
use crate::{IntoShape, Operand, Tensor, Value};

pub(crate) const RECORDS: &[&OpRecord] = &[
    &ZEROS,
    &ONES,
    &EMPTY,
    &FULL,
    &ZEROS_LIKE,
    &ONES_LIKE,
    &EMPTY_LIKE,
    &FULL_LIKE,
    &NEW_ZEROS,
    &NEW_ONES,
    &NEW_EMPTY,
    &NEW_FULL,
    &FILL,
    &ARANGE,
    &ARANGE_START,
    &LINSPACE,
    &LOGSPACE,
    &EYE,
    &SCALAR_TENSOR,
];

/// The keyword arguments of creation functions from parameter `i` on: dtype, layout, device,
/// pin_memory, requires_grad.
struct Options {
    dtype: Option<DType>,
    device: Option<Device>,
    requires_grad: bool,
}

fn options(b: &Bound, i: usize) -> Options {
    Options {
        dtype: b.dtype(i),
        device: b.device(i + 2),
        requires_grad: b.bool(i + 4),
    }
}

impl Options {
    fn dtype(&self) -> DType {
        self.dtype.unwrap_or_else(default_dtype)
    }
    fn device(&self) -> Device {
        self.device.unwrap_or_else(crate::default_device)
    }
    fn finish(&self, t: Tensor) -> Result<Value> {
        if self.requires_grad {
            t.set_requires_grad(true)?;
        }
        Ok(Value::Tensor(t))
    }
}

macro_rules! schema {
    ($($first:literal)?) => {
        concat!(
            "(", $($first, ", ",)? "*, ScalarType? dtype=None, Any layout=None, Device? device=None, Any pin_memory=None, bool requires_grad=False, Any memory_format=None)"
        )
    };
}

pub static ZEROS: OpRecord = OpRecord::new("zeros", "A tensor of zeros.", schema!("int[] size"))
    .by_name(|b| {
        let o = options(b, 1);
        o.finish(Tensor::zeros(b.ints(0), o.dtype(), o.device())?)
    });

pub static ONES: OpRecord = OpRecord::new("ones", "A tensor of ones.", schema!("int[] size"))
    .by_name(|b| {
        let o = options(b, 1);
        o.finish(Tensor::ones(b.ints(0), o.dtype(), o.device())?)
    });

pub static EMPTY: OpRecord = OpRecord::new(
    "empty",
    "A tensor of whatever the memory held.",
    schema!("int[] size"),
)
.by_name(|b| {
    let o = options(b, 1);
    o.finish(Tensor::empty(b.ints(0), o.dtype(), o.device())?)
});

pub static FULL: OpRecord = OpRecord::new(
    "full",
    "A tensor of one number, of the number's dtype where none is given.",
    schema!("int[] size, Scalar fill_value"),
)
.by_name(|b| {
    let (o, value) = (options(b, 2), b.scalar(1));
    o.finish(Tensor::full(
        b.ints(0),
        value,
        o.dtype.unwrap_or(value.dtype()),
        o.device(),
    )?)
});

macro_rules! like {
    ($($id:ident $name:literal $doc:literal |$x:ident, $b:ident, $d:ident, $v:ident| $e:expr, $params:literal $at:literal);* $(;)?) => {$(
        #[doc = $doc]
        pub static $id: OpRecord = OpRecord::new($name, $doc, schema!($params)).by_name(|$b| {
            let ($x, o) = ($b.tensor(0)?, options($b, $at));
            let ($d, $v) = (o.dtype.unwrap_or($x.dtype()), o.device.unwrap_or($x.device()));
            o.finish($e)
        });
    )*};
}
like! {
    ZEROS_LIKE "zeros_like" "Zeros in another tensor's shape." |x, b, d, v| x.full_as(0.into(), d, v)?, "Tensor input" 1;
    ONES_LIKE "ones_like" "Ones in another tensor's shape." |x, b, d, v| x.full_as(1.into(), d, v)?, "Tensor input" 1;
    EMPTY_LIKE "empty_like" "A tensor of another one's shape, not written." |x, b, d, v| x.empty_as(d, v)?, "Tensor input" 1;
    FULL_LIKE "full_like" "One number in another tensor's shape." |x, b, d, v| x.full_as(b.scalar(1), d, v)?, "Tensor input, Scalar fill_value" 2;
    NEW_ZEROS "new_zeros" "Zeros of another tensor's dtype and device." |x, b, d, v| Tensor::zeros(b.ints(1), d, v)?, "Tensor input, int[] size" 2;
    NEW_ONES "new_ones" "Ones of another tensor's dtype and device." |x, b, d, v| Tensor::ones(b.ints(1), d, v)?, "Tensor input, int[] size" 2;
    NEW_EMPTY "new_empty" "A tensor of another one's dtype and device, not written." |x, b, d, v| Tensor::empty(b.ints(1), d, v)?, "Tensor input, int[] size" 2;
    NEW_FULL "new_full" "One number, of another tensor's dtype and device." |x, b, d, v| Tensor::full(b.ints(1), b.scalar(2), d, v)?, "Tensor input, int[] size, Scalar fill_value" 3;
}

#[torsh_tensor::by_name(Tensor::fill)]
pub static FILL: OpRecord = OpRecord::new(
    "fill",
    "A tensor of another one's shape and dtype that holds one number everywhere.",
    "(Tensor input, Operand value)",
)
.samples(|s| Ok(vec![sample![s.real(&[2, 3])?, s.real(&[])?]]));

pub static ARANGE: OpRecord = OpRecord::new(
    "arange",
    "The numbers from 0 to below end, 1 apart.",
    schema!("Scalar end"),
)
.by_name(|b| {
    let (o, end) = (options(b, 1), b.scalar(0));
    let dtype = o.dtype.unwrap_or_else(|| range_dtype(&[end]));
    o.finish(Tensor::arange(0, end, 1, dtype, o.device())?)
});

pub static ARANGE_START: OpRecord = OpRecord::new(
    "arange.start_step",
    "The numbers from start to below end, a step apart.",
    schema!("Scalar start, Scalar end, Scalar step=1"),
)
.overload()
.kernel(Kernel::Arange, |_| {
    Err(TorshError::invalid(
        "",
        "arange fills a tensor that is there",
    ))
})
.constant()
.by_name(|b| {
    let (o, a, z, step) = (options(b, 3), b.scalar(0), b.scalar(1), b.scalar(2));
    let dtype = o.dtype.unwrap_or_else(|| range_dtype(&[a, z, step]));
    o.finish(Tensor::arange(a, z, step, dtype, o.device())?)
});

/// The dtype of a range of these numbers: int64 where all are integers, else the default dtype.
pub(crate) fn range_dtype(numbers: &[Scalar]) -> DType {
    if numbers.iter().any(|n| n.is_float()) {
        default_dtype()
    } else {
        DType::I64
    }
}

/// The dtype of points between two numbers.
pub(crate) fn between_dtype(numbers: &[Scalar]) -> DType {
    if numbers.iter().any(|n| n.is_complex()) {
        default_dtype().to_complex()
    } else {
        default_dtype()
    }
}

fn end_point(op: &'static str, o: Operand<'_>) -> Result<Scalar> {
    match o {
        Operand::Number(n) => Ok(n),
        o => {
            let t = o.to_tensor()?;
            if t.ndim() != 0 {
                return Err(TorshError::invalid(
                    op,
                    format!(
                        "{op} only supports 0-dimensional start and end tensors, but got {}",
                        t.describe()
                    ),
                ));
            }
            t.item_scalar()
        }
    }
}

pub static LINSPACE: OpRecord = OpRecord::new(
    "linspace",
    "So many equally spaced numbers from start to end, both included.",
    schema!("Operand start, Operand end, int steps"),
)
.kernel(Kernel::Linspace, |_| {
    Err(TorshError::invalid(
        "",
        "linspace fills a tensor that is there",
    ))
})
.constant()
.by_name(|b| {
    let o = options(b, 3);
    let (x, y) = (
        end_point("linspace", b.operand(0)?)?,
        end_point("linspace", b.operand(1)?)?,
    );
    let dtype = o.dtype.unwrap_or_else(|| between_dtype(&[x, y]));
    o.finish(Tensor::linspace(x, y, b.int(2), dtype, o.device())?)
});

pub static LOGSPACE: OpRecord = OpRecord::new(
    "logspace",
    "The base to the power of so many equally spaced exponents from start to end.",
    schema!("Operand start, Operand end, int steps, Scalar base=10.0"),
)
.by_name(|b| {
    let o = options(b, 4);
    let (x, y) = (
        end_point("logspace", b.operand(0)?)?,
        end_point("logspace", b.operand(1)?)?,
    );
    let dtype = o
        .dtype
        .unwrap_or_else(|| between_dtype(&[x, y, b.scalar(3)]));
    o.finish(Tensor::logspace(
        x,
        y,
        b.int(2),
        b.scalar(3),
        dtype,
        o.device(),
    )?)
});

pub static EYE: OpRecord = OpRecord::new(
    "eye",
    "A matrix with ones on the diagonal and zeros elsewhere, square where m is not given.",
    schema!("int n, int? m=None"),
)
.kernel(Kernel::Eye, |_| {
    Err(TorshError::invalid("", "eye fills a tensor that is there"))
})
.constant()
.by_name(|b| {
    let o = options(b, 2);
    o.finish(Tensor::eye_nm(
        b.int(0),
        b.opt_int(1).unwrap_or(b.int(0)),
        o.dtype(),
        o.device(),
    )?)
});

pub static SCALAR_TENSOR: OpRecord = OpRecord::new(
    "scalar_tensor",
    "A 0-d tensor of a number.",
    schema!("Scalar s"),
)
.by_name(|b| {
    let o = options(b, 1);
    o.finish(Tensor::scalar(b.scalar(0), o.dtype(), o.device())?)
});

fn count(op: &'static str, steps: i64) -> Result<usize> {
    usize::try_from(steps).map_err(|_| {
        TorshError::invalid(
            op,
            format!("number of steps must be non-negative, got {steps}"),
        )
    })
}

#[torsh_tensor::functions]
impl Tensor {
    /// The numbers from `start` to below `end`, `step` apart (`torch.arange`).
    ///
    /// ```
    /// use torsh_tensor::{DType, Device, Tensor};
    /// let x = Tensor::arange(0, 10, 4, DType::I64, Device::Cpu)?;
    /// assert_eq!(x.to_vec::<i64>()?, [0, 4, 8]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn arange(
        start: impl Into<Scalar>,
        end: impl Into<Scalar>,
        step: impl Into<Scalar>,
        dtype: DType,
        device: Device,
    ) -> Result<Tensor> {
        let (start, end, step) = (start.into(), end.into(), step.into());
        let refuse = |why: String| Err(TorshError::invalid("arange", why));
        if dtype == DType::Bool
            || dtype.is_complex()
            || [start, end, step].iter().any(|s| s.is_complex())
        {
            return Err(TorshError::dtype(
                "arange",
                format!("not implemented for {dtype} from {start} to {end}"),
            ));
        }
        let (a, b, d) = (start.to_f64(), end.to_f64(), step.to_f64());
        if d == 0.0 || d.is_nan() || dtype.is_integer() && step.to_i64() == 0 {
            return refuse(format!("step must be nonzero, got {step}"));
        }
        if !a.is_finite() || !b.is_finite() {
            return refuse(format!(
                "invalid range: {start} -> {end}, both must be finite"
            ));
        }
        if d > 0.0 && b < a || d < 0.0 && b > a {
            return refuse(format!(
                "upper bound and lower bound inconsistent with step sign: from {start} to {end} by {step}"
            ));
        }
        let n = if [start, end, step].iter().all(|s| !s.is_float()) {
            // Exact where float64 is not.
            let span = (end.to_i64() as i128 - start.to_i64() as i128).unsigned_abs();
            span.div_ceil(step.to_i64().unsigned_abs() as u128) as f64
        } else {
            ((b - a) / d).ceil()
        };
        if n >= isize::MAX as f64 {
            return refuse(format!(
                "invalid size, possible overflow: from {start} to {end} by {step}"
            ));
        }
        let t = Tensor::empty(n as usize, dtype, device)?;
        write_fresh(&ARANGE_START, &t, &[], &attrs::Arange { start, step })?;
        Ok(t)
    }

    /// `steps` equally spaced numbers from `start` to `end`, both included (`torch.linspace`).
    ///
    /// ```
    /// use torsh_tensor::{DType, Device, Tensor};
    /// let x = Tensor::linspace(0, 1, 5, DType::F32, Device::Cpu)?;
    /// assert_eq!(x.to_vec::<f32>()?, [0.0, 0.25, 0.5, 0.75, 1.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn linspace(
        start: impl Into<Scalar>,
        end: impl Into<Scalar>,
        steps: impl crate::IntoDim,
        dtype: DType,
        device: Device,
    ) -> Result<Tensor> {
        let points = attrs::Linspace {
            start: start.into(),
            end: end.into(),
            base: None,
        };
        spaced("linspace", points, steps.value(), dtype, device)
    }

    /// `base` to the power of `steps` equally spaced exponents from `start` to `end`
    /// (`torch.logspace`). A negative `steps` is an error.
    ///
    /// ```
    /// # use torsh_tensor::{DType, Device, Tensor, tensor};
    /// let x = Tensor::logspace(0, 2, 3, 10, DType::F32, Device::Cpu)?;
    /// assert!(x.allclose(&tensor![1.0, 10.0, 100.0])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn logspace(
        start: impl Into<Scalar>,
        end: impl Into<Scalar>,
        steps: impl crate::IntoDim,
        base: impl Into<Scalar>,
        dtype: DType,
        device: Device,
    ) -> Result<Tensor> {
        let base = base.into();
        if base.is_complex() && !dtype.is_complex() {
            return Err(TorshError::dtype(
                "logspace",
                format!("the base {base} does not fit {dtype}"),
            ));
        }
        let points = attrs::Linspace {
            start: start.into(),
            end: end.into(),
            base: Some(base),
        };
        spaced("logspace", points, steps.value(), dtype, device)
    }

    /// The identity matrix of `n` rows (`torch.eye`).
    ///
    /// ```
    /// use torsh_tensor::{DType, Device, Tensor};
    /// assert_eq!(Tensor::eye(2, DType::I32, Device::Cpu)?.to_vec::<i32>()?, [1, 0, 0, 1]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[track_caller]
    pub fn eye(n: impl crate::IntoDim, dtype: DType, device: Device) -> Result<Tensor> {
        Tensor::eye_nm(n, n, dtype, device)
    }

    /// A matrix of `n` rows and `m` columns with ones on the diagonal. A negative size is an error.
    ///
    /// ```
    /// # use torsh_tensor::{DType, Device, Tensor, tensor};
    /// let x = Tensor::eye_nm(2, 3, DType::I64, Device::Cpu)?;
    /// assert_eq!(x, tensor![[1, 0, 0], [0, 1, 0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn eye_nm(
        n: impl crate::IntoDim,
        m: impl crate::IntoDim,
        dtype: DType,
        device: Device,
    ) -> Result<Tensor> {
        for (name, v) in [("n", n.value()), ("m", m.value())] {
            if v < 0 {
                return Err(TorshError::invalid(
                    "eye",
                    format!("{name} must be greater or equal to 0, got {v}"),
                ));
            }
        }
        let t = Tensor::empty((n, m), dtype, device)?;
        write_fresh(&EYE, &t, &[], NONE)?;
        Ok(t)
    }

    /// A tensor of this one's shape and memory order, not written.
    #[track_caller]
    pub(crate) fn empty_as(&self, dtype: DType, device: Device) -> Result<Tensor> {
        if !self.is_strided() {
            return self.sparse_as("empty_like", &[], dtype, device);
        }
        if self.contiguous_flag() || !self.memory_layout().is_dense() {
            return Tensor::empty(self.shape(), dtype, device);
        }
        let strides = memory_order_strides(self.shape(), self.stride());
        let layout = Layout::new(self.shape().clone(), strides, 0);
        Tensor::uninit_as(layout, dtype, device)
    }

    /// What a sparse tensor's rule makes of its shape and layout.
    #[track_caller]
    fn sparse_as(
        &self,
        op: &'static str,
        value: &[Arg<'_>],
        dtype: DType,
        device: Device,
    ) -> Result<Tensor> {
        let attrs = attrs::CopyTo {
            dtype,
            memory_format: attrs::MemoryFormat::Preserve,
        };
        let args: Vec<Arg<'_>> = std::iter::once(Arg::T(self))
            .chain(value.iter().copied())
            .collect();
        crate::sparse::call1(op, &args, &attrs)?.to_device(device)
    }

    #[track_caller]
    pub(crate) fn full_as(&self, value: Scalar, dtype: DType, device: Device) -> Result<Tensor> {
        check_number(value, dtype).map_err(|e| e.renamed("full_like"))?;
        if !self.is_strided() {
            return self.sparse_as("full_like", &[Arg::N(value)], dtype, device);
        }
        let t = self.empty_as(dtype, device)?;
        write_fresh(&super::copy::FILL_, &t, &[], &attrs::Fill { value })?;
        Ok(t)
    }

    /// Zeros of this tensor's shape, dtype and device.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![5, 6].zeros_like()?, tensor![0, 0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn zeros_like(&self) -> Result<Tensor> {
        self.full_as(Scalar::Int(0), self.dtype(), self.device())
    }

    /// Ones of this tensor's shape, dtype and device.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![5.0, 6.0].ones_like()?, tensor![1.0, 1.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn ones_like(&self) -> Result<Tensor> {
        self.full_as(Scalar::Int(1), self.dtype(), self.device())
    }

    /// A tensor of this one's shape, dtype and device, whose elements are whatever the memory held.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![5.0, 6.0].empty_like()?;
    /// assert_eq!(x.fill_(2.0)?, tensor![2.0, 2.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn empty_like(&self) -> Result<Tensor> {
        self.empty_as(self.dtype(), self.device())
    }

    /// One number in this tensor's shape, dtype and device.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![5.0, 6.0].full_like(3)?, tensor![3.0, 3.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn full_like(&self, value: impl Into<Scalar>) -> Result<Tensor> {
        self.full_as(value.into(), self.dtype(), self.device())
    }

    /// Zeros of this tensor's dtype and device.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![5].new_zeros([2])?, tensor![0, 0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn new_zeros(&self, shape: impl IntoShape) -> Result<Tensor> {
        Tensor::zeros(shape, self.dtype(), self.device())
    }

    /// Ones of this tensor's dtype and device.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![true].new_ones([2])?, tensor![true, true]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[track_caller]
    pub fn new_ones(&self, shape: impl IntoShape) -> Result<Tensor> {
        Tensor::ones(shape, self.dtype(), self.device())
    }

    /// A tensor of this one's dtype and device, not written.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![5].new_empty([2])?;
    /// assert_eq!(x.fill_(1)?, tensor![1, 1]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn new_empty(&self, shape: impl IntoShape) -> Result<Tensor> {
        Tensor::empty(shape, self.dtype(), self.device())
    }

    /// One number, of this tensor's dtype and device.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![5.0].new_full([2], 0.5)?, tensor![0.5, 0.5]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[track_caller]
    pub fn new_full(&self, shape: impl IntoShape, value: impl Into<Scalar>) -> Result<Tensor> {
        Tensor::full(shape, value, self.dtype(), self.device())
    }

    /// A tensor of this tensor's shape and dtype that holds one number (or the value of a 0-d tensor,
    /// through which gradients flow) everywhere (`torch.fill`).
    ///
    /// An error for a tensor with more dimensions, and for a number that the dtype cannot hold.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![1.0, 2.0].fill(9)?, tensor![9.0, 9.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn fill<'a>(&self, value: impl Into<Operand<'a>>) -> Result<Tensor> {
        match value.into() {
            Operand::Number(n) if !self.requires_grad() => self.full_like(n),
            // Recorded as what it is: a write over a copy.
            Operand::Number(n) => self.copy()?.fill_(n),
            o => {
                let t = o.to_tensor()?;
                if t.ndim() != 0 {
                    return Err(TorshError::invalid(
                        "fill",
                        format!(
                            "only supports 0-dimension value tensor but got tensor with {} dimensions",
                            t.ndim()
                        ),
                    ));
                }
                self.copy()?.copy_(&t)
            }
        }
    }

    /// A tensor of the default device whose elements are what `f` gives for their index.
    ///
    /// ```
    /// use torsh_tensor::Tensor;
    /// let x = Tensor::from_fn((2, 2), |i| (10 * i[0] + i[1]) as f32)?;
    /// assert_eq!(x.to_vec::<f32>()?, [0.0, 1.0, 10.0, 11.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn from_fn<T: torsh_core::Element>(
        shape: impl IntoShape,
        mut f: impl FnMut(&[usize]) -> T,
    ) -> Result<Tensor> {
        let at = std::panic::Location::caller();
        let shape = shape
            .shape()
            .map_err(|e| e.in_op("from_fn", Vec::new, at))?;
        let n = shape.checked_numel(T::DTYPE.size())?;
        torsh_core::alloc::check(n, size_of::<T>())?;
        let mut index = vec![0usize; shape.ndim()];
        let mut data = Vec::with_capacity(n);
        for _ in 0..n {
            data.push(f(&index));
            for d in (0..index.len()).rev() {
                index[d] += 1;
                if index[d] < shape[d] {
                    break;
                }
                index[d] = 0;
            }
        }
        Tensor::from_vec(data, &shape)
    }
}

/// What `linspace` and `logspace` do.
#[track_caller]
fn spaced(
    op: &'static str,
    points: attrs::Linspace,
    steps: i64,
    dtype: DType,
    device: Device,
) -> Result<Tensor> {
    let attrs::Linspace { start, end, base } = points;
    let n = count(op, steps)?;
    for end in [start, end] {
        check_number(end, dtype).map_err(|e| e.renamed(op))?;
    }
    let x = Tensor::empty(n, dtype, device)?;
    // A single point is the first end.
    let end = if n == 1 { start } else { end };
    let points = attrs::Linspace { start, end, base };
    write_fresh(&LINSPACE, &x, &[], &points).map_err(|e| e.renamed(op))?;
    Ok(x)
}
