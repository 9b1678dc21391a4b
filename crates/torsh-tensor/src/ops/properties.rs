//! Properties of dtypes and shapes, tensors with a layout of the caller's, and the old `range`.

use torsh_core::{DType, Device, Result, Scalar, Shape, TorshError, default_dtype};

use crate::record::OpRecord;
use crate::schema::Bound;
use crate::{IntoShape, Tensor, Value};

pub(crate) const RECORDS: &[&OpRecord] = &[
    &PROMOTE_TYPES,
    &CAN_CAST,
    &BROADCAST_SHAPES,
    &RANGE,
    &EMPTY_STRIDED,
    &EMPTY_PERMUTED,
    &NEW_EMPTY_STRIDED,
];

/// The smallest dtype that holds the numbers of both (`torch.promote_types`).
///
/// ```
/// use torsh_tensor::{DType, promote_types};
/// assert_eq!(promote_types(DType::I8, DType::U8), DType::I16);
/// assert_eq!(promote_types(DType::I64, DType::F16), DType::F16);
/// ```
pub fn promote_types(a: DType, b: DType) -> DType {
    a.promote(b)
}

/// Whether a result of one dtype may be written into a tensor of another (`torch.can_cast`).
///
/// ```
/// use torsh_tensor::{DType, can_cast};
/// assert!(can_cast(DType::F64, DType::F32) && !can_cast(DType::F32, DType::I64));
/// ```
pub fn can_cast(from: DType, to: DType) -> bool {
    from.can_cast(to)
}

/// The shape that all these shapes broadcast to (`torch.broadcast_shapes`).
///
/// # Errors
/// Where they do not broadcast.
///
/// ```
/// use torsh_tensor::{Shape, broadcast_shapes};
/// let shape = broadcast_shapes(&[Shape::from([2, 1]), Shape::from([3])])?;
/// assert_eq!(shape.dims(), [2, 3]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn broadcast_shapes(shapes: &[Shape]) -> Result<Shape> {
    let mut all = Shape::default();
    for shape in shapes {
        all = all
            .broadcast(shape)
            .map_err(|e| e.renamed("broadcast_shapes"))?;
    }
    Ok(all)
}

/// What a floating-point dtype holds (`torch.finfo`); of a complex one, what its parts hold.
///
/// ```
/// use torsh_tensor::{DType, Finfo};
/// let info = Finfo::new(DType::F32)?;
/// assert_eq!((info.bits, info.eps), (32, f32::EPSILON as f64));
/// assert!(Finfo::new(DType::I64).is_err());
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Finfo {
    /// Bits of a number.
    pub bits: u32,
    /// From 1 to the next greater number.
    pub eps: f64,
    /// The greatest number.
    pub max: f64,
    /// The least one.
    pub min: f64,
    /// The least positive number of full precision.
    pub smallest_normal: f64,
    /// The same.
    pub tiny: f64,
    /// The power of ten of the last decimal digit that is sure.
    pub resolution: f64,
    /// The dtype of the numbers.
    pub dtype: DType,
}

impl Finfo {
    /// What `dtype` holds.
    ///
    /// # Errors
    /// For integers and bool.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(dtype: DType) -> Result<Finfo> {
        let dtype = dtype.to_real();
        let (bits, least, decimal) = match dtype {
            DType::F16 => (16, -14, 1e-3),
            DType::BF16 => (16, -126, 1e-2),
            DType::F32 => (32, -126, 1e-6),
            DType::F64 => (64, -1022, 1e-15),
            d => {
                let text = format!("torch.finfo() requires a floating point input type, got {d}");
                return Err(TorshError::dtype("finfo", text).with_hint("use Iinfo for integers"));
            }
        };
        let (min, max) = dtype.finite_range();
        let smallest = f64::powi(2.0, least);
        Ok(Finfo {
            bits,
            eps: dtype.epsilon(),
            max,
            min,
            smallest_normal: smallest,
            tiny: smallest,
            resolution: decimal,
            dtype,
        })
    }
}

/// What an integer dtype holds (`torch.iinfo`).
///
/// ```
/// use torsh_tensor::{DType, Iinfo};
/// let info = Iinfo::new(DType::I8)?;
/// assert_eq!((info.bits, info.min, info.max), (8, -128, 127));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Iinfo {
    /// Bits of a number.
    pub bits: u32,
    /// The greatest number.
    pub max: i64,
    /// The least one.
    pub min: i64,
    /// The dtype.
    pub dtype: DType,
}

impl Iinfo {
    /// What `dtype` holds.
    ///
    /// # Errors
    /// For other dtypes than integers.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(dtype: DType) -> Result<Iinfo> {
        let (bits, min, max) = match dtype {
            DType::U8 => (8, 0, 255),
            DType::I8 => (8, i8::MIN.into(), i8::MAX.into()),
            DType::I16 => (16, i16::MIN.into(), i16::MAX.into()),
            DType::I32 => (32, i32::MIN.into(), i32::MAX.into()),
            DType::I64 => (64, i64::MIN, i64::MAX),
            d => {
                let text = format!("torch.iinfo() requires an integer input type, got {d}");
                return Err(TorshError::dtype("iinfo", text).with_hint("use Finfo for floats"));
            }
        };
        Ok(Iinfo {
            bits,
            max,
            min,
            dtype,
        })
    }
}

/// The strides of a row-major tensor whose dimensions come in another order in memory.
fn permuted_strides(size: &[i64], order: &[i64]) -> Result<Vec<i64>> {
    let fine = order.len() == size.len()
        && order.iter().all(|d| (0..size.len() as i64).contains(d))
        && (1..order.len()).all(|i| !order[..i].contains(&order[i]));
    if !fine {
        let text = format!(
            "the physical layout {order:?} is no order of {} dimensions",
            size.len()
        );
        return Err(TorshError::invalid("empty_permuted", text));
    }
    let mut strides = vec![0; size.len()];
    let mut step = 1i64;
    for &d in order.iter().rev() {
        strides[d as usize] = step;
        step = step.saturating_mul(size[d as usize].max(1));
    }
    Ok(strides)
}

impl Tensor {
    /// A tensor that is not written, whose elements lie `stride` apart in memory of its own
    /// (`torch.empty_strided`).
    ///
    /// # Errors
    /// For sizes and strides that are not equally many or negative, and where there is no memory.
    ///
    /// ```
    /// use torsh_tensor::{DType, Device, Tensor};
    /// let x = Tensor::empty_strided([2, 3], [1, 2], DType::F32, Device::Cpu)?;
    /// assert_eq!(x.stride(), [1, 2]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn empty_strided(
        size: impl IntoShape,
        stride: impl IntoShape,
        dtype: DType,
        device: Device,
    ) -> Result<Tensor> {
        let op = "empty_strided";
        let (size, stride) = (size.sizes(), stride.sizes());
        if size.len() != stride.len() || size.iter().chain(&stride).any(|&v| v < 0) {
            let text = format!(
                "sizes {size:?} and strides {stride:?} must be equally many, and not negative"
            );
            return Err(TorshError::invalid(op, text));
        }
        // One more than the position of the last element.
        let mut reach = Some(1i64);
        for (&n, &step) in size.iter().zip(&stride) {
            let span = (n - 1).max(0).checked_mul(step);
            reach = reach.zip(span).and_then(|(a, b)| a.checked_add(b));
        }
        let Some(reach) = reach else {
            return Err(TorshError::invalid(
                op,
                format!("sizes {size:?} and strides {stride:?} overflow"),
            ));
        };
        let reach = if size.contains(&0) { 0 } else { reach };
        let memory = Tensor::empty([reach], dtype, device).map_err(|e| e.renamed(op))?;
        let view = memory
            .as_strided(&size[..], &stride[..])
            .map_err(|e| e.renamed(op))?;
        Ok(view.detach())
    }

    /// A tensor that is not written, without gaps, whose dimensions lie in memory in an order of the caller's, the
    /// one with the largest step first (`torch.empty_permuted`).
    ///
    /// # Errors
    /// Where the order does not have each dimension once.
    ///
    /// ```
    /// use torsh_tensor::{DType, Device, Tensor};
    /// let x = Tensor::empty_permuted([2, 3], &[1, 0], DType::F32, Device::Cpu)?;
    /// assert_eq!((x.dims(), x.stride()), (&[2, 3][..], &[1, 2][..]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn empty_permuted(
        size: impl IntoShape,
        physical_layout: &[i64],
        dtype: DType,
        device: Device,
    ) -> Result<Tensor> {
        let size = size.sizes();
        let strides = permuted_strides(&size, physical_layout)?;
        let t = Tensor::empty_strided(&size[..], &strides[..], dtype, device);
        t.map_err(|e| e.renamed("empty_permuted"))
    }

    /// [`Tensor::empty_strided`] of this tensor's dtype and device.
    ///
    /// # Errors
    /// As [`Tensor::empty_strided`].
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// assert_eq!(tensor![1.0].new_empty_strided([2, 2], [1, 2])?.stride(), [1, 2]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn new_empty_strided(
        &self,
        size: impl IntoShape,
        stride: impl IntoShape,
    ) -> Result<Tensor> {
        let t = Tensor::empty_strided(size, stride, self.dtype(), self.device());
        t.map_err(|e| e.renamed("new_empty_strided"))
    }

    /// The numbers from `start` to `end`, both of them, a step apart (`torch.range`, which PyTorch advises against).
    ///
    /// # Errors
    /// For a step of 0 or away from `end`, and for numbers that are not finite.
    ///
    /// ```
    /// use torsh_tensor::{DType, Device, Tensor, tensor};
    /// let x = Tensor::range(1.0, 2.0, 0.5, DType::F32, Device::Cpu)?;
    /// assert_eq!(x, tensor![1.0, 1.5, 2.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn range(
        start: impl Into<Scalar>,
        end: impl Into<Scalar>,
        step: impl Into<Scalar>,
        dtype: DType,
        device: Device,
    ) -> Result<Tensor> {
        let (start, step) = (start.into(), step.into());
        let (a, z, by) = (start.to_f64(), end.into().to_f64(), step.to_f64());
        let count = ((z - a) / by).floor() + 1.0;
        if by == 0.0 || !count.is_finite() || count < 1.0 {
            let text = format!("step must lead from {a} to {z} and not be zero, got {by}");
            return Err(TorshError::invalid("range", text));
        }
        // Computed by the host, because a device may lack float64.
        let places = Tensor::arange(0, count, 1, DType::F64, Device::Cpu);
        let places = places.map_err(|e| e.renamed("range"))?;
        places.mul(by)?.add(a)?.to_dtype(dtype)?.to_device(device)
    }
}

fn dtypes(b: &Bound) -> Result<(DType, DType)> {
    match (b.dtype(0), b.dtype(1)) {
        (Some(x), Some(y)) => Ok((x, y)),
        _ => Err(TorshError::invalid("", "takes two dtypes")),
    }
}

pub static PROMOTE_TYPES: OpRecord = OpRecord::new(
    "promote_types",
    "The smallest dtype that holds the numbers of both.",
    "(ScalarType type1, ScalarType type2)",
)
.constant()
.by_name(|b| dtypes(b).map(|(x, y)| Value::DType(promote_types(x, y))));

pub static CAN_CAST: OpRecord = OpRecord::new(
    "can_cast",
    "Whether a result of one dtype may be written into a tensor of another.",
    "(ScalarType from_, ScalarType to)",
)
.constant()
.by_name(|b| dtypes(b).map(|(x, y)| Value::Bool(can_cast(x, y))));

pub static BROADCAST_SHAPES: OpRecord = OpRecord::new(
    "broadcast_shapes",
    "The shape that all these shapes broadcast to.",
    "(Any[] shapes)",
)
.constant()
.by_name(|b| {
    let sizes = |v: &Value| -> Result<Shape> {
        let refused = || TorshError::invalid("", "shapes are lists of integers");
        let items = match v {
            Value::Int(n) => vec![Value::Int(*n)],
            v => v.items().ok_or_else(refused)?.to_vec(),
        };
        let each = items.iter().map(|v| match v {
            Value::Int(n) => usize::try_from(*n).map_err(|_| refused()),
            _ => Err(refused()),
        });
        Ok(Shape::new(&each.collect::<Result<Vec<usize>>>()?))
    };
    let all = b.value(0).items().unwrap_or_default();
    let shapes = all.iter().map(sizes).collect::<Result<Vec<_>>>()?;
    let shape = broadcast_shapes(&shapes)?;
    Ok(Value::Tuple(
        shape.dims().iter().map(|&n| Value::from(n)).collect(),
    ))
});

macro_rules! created {
    ($first:literal) => {
        concat!("(", $first, ", *, ScalarType? dtype=None, Any layout=None, Device? device=None, Any pin_memory=None, bool requires_grad=False)")
    };
}

/// The dtype and device of a call by name, from parameter `i` on, and what it makes of a tensor.
fn made(
    b: &Bound,
    i: usize,
    like: (DType, Device),
    f: impl FnOnce(DType, Device) -> Result<Tensor>,
) -> Result<Value> {
    let t = f(
        b.dtype(i).unwrap_or(like.0),
        b.device(i + 2).unwrap_or(like.1),
    )?;
    if b.bool(i + 4) {
        t.set_requires_grad(true)?;
    }
    Ok(Value::Tensor(t))
}

fn defaults() -> (DType, Device) {
    (default_dtype(), crate::default_device())
}

pub static RANGE: OpRecord = OpRecord::new(
    "range",
    "The numbers from start to end, both of them, a step apart.",
    created!("Scalar start, Scalar end, Scalar step=1"),
)
.constant()
.by_name(|b| {
    let (start, end, step) = (b.scalar(0), b.scalar(1), b.scalar(2));
    made(b, 3, defaults(), |t, d| {
        Tensor::range(start, end, step, t, d)
    })
});

pub static EMPTY_STRIDED: OpRecord = OpRecord::new(
    "empty_strided",
    "A tensor that is not written, with these strides.",
    created!("int[] size, int[] stride"),
)
.constant()
.by_name(|b| {
    made(b, 2, defaults(), |t, d| {
        Tensor::empty_strided(b.ints(0), b.ints(1), t, d)
    })
});

pub static EMPTY_PERMUTED: OpRecord = OpRecord::new(
    "empty_permuted",
    "A tensor that is not written, with its dimensions in this order in memory.",
    created!("int[] size, int[] physical_layout"),
)
.constant()
.by_name(|b| {
    made(b, 2, defaults(), |t, d| {
        Tensor::empty_permuted(b.ints(0), &b.ints(1), t, d)
    })
});

pub static NEW_EMPTY_STRIDED: OpRecord = OpRecord::new(
    "new_empty_strided",
    "A tensor of another one's dtype and device that is not written, with these strides.",
    created!("Tensor input, int[] size, int[] stride"),
)
.constant()
.by_name(|b| {
    let x = b.tensor(0)?;
    let like = (x.dtype(), x.device());
    made(b, 3, like, |t, d| {
        Tensor::empty_strided(b.ints(1), b.ints(2), t, d)
    })
});
