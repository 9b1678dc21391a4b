//! Masks: filling, selecting and writing under a mask, and the positions of its true elements.

use smallvec::SmallVec;
use torsh_core::attrs::{self, NONE};
use torsh_core::{DType, Dims, Kernel, Result, Shape, TorshError};

use super::index::{fill_value, in_place, one};
use crate::call::{Arg, call1, common_device};
use crate::record::{OpRecord, Plan, PlanCx, sample};
use crate::{Operand, Tensor, Value};

pub(crate) const RECORDS: &[&OpRecord] = &[
    &MASKED_FILL,
    &MASKED_FILL_TENSOR,
    &MASKED_SELECT,
    &MASKED_SCATTER,
    &MASKED_SCATTER_BACKWARD,
    &MASKED_COUNT,
    &NONZERO,
    &NONZERO_METHOD,
    &WHERE_NONZERO,
];

fn check_mask(op: &str, mask: &Tensor) -> Result<()> {
    if mask.dtype() == DType::Bool {
        return Ok(());
    }
    Err(TorshError::dtype(
        "",
        format!(
            "{op} only supports boolean masks, but got mask with dtype {}",
            mask.dtype()
        ),
    ))
}

fn broadcast_plan(c: &PlanCx<'_>, op: &str) -> Result<Plan> {
    let (x, mask) = (c.tensor(0)?, c.tensor(1)?);
    check_mask(op, mask)?;
    Ok(Plan::one(
        x.dtype(),
        x.shape().broadcast(mask.shape())?,
        x.dtype(),
    ))
}

/// One number where a mask is true: operand 2, or else the number of the attributes.
#[torsh_tensor::by_name(Tensor::masked_fill)]
pub static MASKED_FILL: OpRecord = OpRecord::new(
    "masked_fill.scalar",
    "The tensor with one number where the mask is true; both broadcast.",
    "(Tensor input, Tensor mask, Scalar value)",
)
.overload()
.kernel(Kernel::MaskedFill, |c| broadcast_plan(c, "masked_fill_"))
.grads(2, 0, |c| {
    let mask = c.y()?;
    let first = if c.needs(0) {
        Some(c.g().masked_fill(&mask, 0)?)
    } else {
        None
    };
    let value = if c.needs(2) {
        Some(c.g().where_zero(&mask, false)?.sum()?)
    } else {
        None
    };
    Ok(SmallVec::from_iter([first, None, value]))
})
.samples(|s| {
    let mask = s.bools(&[2, 3])?;
    Ok(vec![
        sample![s.real(&[2, 3])?, mask.clone(), 1.5],
        sample![s.real(&[3])?, mask, 2],
    ])
});

/// [`MASKED_FILL`] with a 0-d tensor.
#[torsh_tensor::by_name(Tensor::masked_fill)]
pub static MASKED_FILL_TENSOR: OpRecord = OpRecord::new(
    "masked_fill.tensor",
    "The tensor with a 0-d tensor's number where the mask is true; both broadcast.",
    "(Tensor input, Tensor mask, Tensor value)",
)
.overload()
.samples(|s| {
    let mask = s.bools(&[2, 3])?;
    Ok(vec![sample![s.real(&[2, 3])?, mask, s.real(&[])?]])
});

/// Where a mask is true. Operands of one shape.
#[torsh_tensor::by_name(Tensor::masked_select)]
pub static MASKED_SELECT: OpRecord = OpRecord::new(
    "masked_select",
    "The elements where the mask is true, as a 1-d tensor; both broadcast.",
    "(Tensor input, Tensor mask)",
)
.kernel(Kernel::MaskedSelect, |c| {
    let x = c.tensor(0)?;
    Ok(Plan::one(
        x.dtype(),
        Shape::new(&[c.attrs::<attrs::MaskedSelect>()?.count]),
        x.dtype(),
    ))
})
.grads(2, 0, |c| {
    let zeros = c.zeros(0)?;
    Ok(one(
        0,
        in_place(
            &MASKED_SCATTER,
            &zeros,
            &[Arg::T(&c.y()?), Arg::T(c.g())],
            NONE,
        )?,
    ))
})
.samples(|s| {
    let mask = s.bools(&[2, 3])?;
    Ok(vec![
        sample![s.real(&[2, 3])?, mask.clone()],
        sample![s.real(&[3])?, mask],
    ])
});

#[torsh_tensor::by_name(Tensor::masked_scatter)]
pub static MASKED_SCATTER: OpRecord = OpRecord::new(
    "masked_scatter",
    "The tensor with the source's elements, in order, where the mask is true.",
    "(Tensor input, Tensor mask, Tensor source)",
)
.kernel(Kernel::MaskedScatter, |c| {
    let (x, source) = (c.tensor(0)?, c.tensor(2)?);
    if x.dtype() != source.dtype() {
        return Err(TorshError::dtype(
            "",
            format!(
                "masked_scatter: expected self and source to have same dtypes but got {} and {}",
                x.dtype(),
                source.dtype()
            ),
        ));
    }
    broadcast_plan(c, "masked_scatter_")
})
.grads(2, 0, |c| {
    let mask = c.y()?;
    let first = if c.needs(0) {
        Some(c.g().masked_fill(&mask, 0)?)
    } else {
        None
    };
    let source = if c.needs(2) {
        let sizes = c.input_shape(2).dims().into();
        Some(call1(
            &MASKED_SCATTER_BACKWARD,
            &[Arg::T(c.g()), Arg::T(&mask)],
            &attrs::MaskedScatterBackward { sizes },
        )?)
    } else {
        None
    };
    Ok(SmallVec::from_iter([first, None, source]))
})
.samples(|s| {
    let mask = s.bools(&[2, 3])?;
    Ok(vec![
        sample![s.real(&[2, 3])?, mask.clone(), s.real(&[7])?],
        sample![s.real(&[3])?, mask, s.real(&[3, 2])?],
    ])
});

/// The gradient of the source of [`MASKED_SCATTER`].
pub static MASKED_SCATTER_BACKWARD: OpRecord = OpRecord::new(
    "masked_scatter_backward",
    "What a masked_scatter took from its source, out of the gradient of its result; zeros for the rest.",
    "(Tensor grad_output, Tensor mask, int[] sizes)",
)
.kernel(Kernel::MaskedScatterBackward, |c| {
    let g = c.tensor(0)?;
    let a = c.attrs::<attrs::MaskedScatterBackward>()?;
    let dims: Dims = a.sizes.iter().map(|&n| n.max(0) as usize).collect();
    Ok(Plan::one(g.dtype(), dims.into(), g.dtype()))
})
.grads(2, 0, |c| {
    let zeros = c.zeros(0)?;
    Ok(one(0, in_place(&MASKED_SCATTER, &zeros, &[Arg::T(&c.y()?), Arg::T(c.g())], NONE)?))
})
.by_name(|b| {
    let (g, mask) = (b.tensor(0)?, b.tensor(1)?);
    check_mask("masked_scatter_backward", mask)?;
    let mask = mask.expand(g.shape())?;
    let sizes = b.ints(2)[..].into();
    call1(&MASKED_SCATTER_BACKWARD, &[Arg::T(g), Arg::T(&mask)], &attrs::MaskedScatterBackward { sizes }).map(Value::Tensor)
})
.samples(|s| {
    let mask = s.bools(&[2, 3])?;
    Ok(vec![sample![s.real(&[2, 3])?, mask, [3, 2]]])
});

/// How many elements are not 0, which sizes the results of the ops here.
pub static MASKED_COUNT: OpRecord = OpRecord::new(
    "_count_nonzero",
    "The number of elements that are not 0, as a 0-d int64.",
    "(Tensor input)",
)
.internal()
.kernel(Kernel::MaskedCount, |_| {
    Ok(Plan::one(DType::I64, Shape::default(), DType::I64))
})
.constant();

pub static NONZERO: OpRecord = OpRecord::new(
    "nonzero",
    "The positions of the elements that are not 0, a row each (int64); as_tuple gives a tensor for each dimension.",
    "(Tensor input, *, bool as_tuple=False)",
)
.kernel(Kernel::Nonzero, |c| {
    let shape = Shape::new(&[c.attrs::<attrs::Nonzero>()?.count, c.tensor(0)?.ndim()]);
    Ok(Plan::one(DType::I64, shape, DType::I64))
})
.constant()
.by_name(|b| {
    if b.bool(1) { tuple(b.tensor(0)?) } else { b.tensor(0)?.nonzero().map(Value::Tensor) }
});

static NONZERO_METHOD: OpRecord = OpRecord::new(
    "nonzero.method",
    "As nonzero.",
    "(Tensor input, bool as_tuple)",
)
.overload()
.constant()
.by_name(|b| {
    if b.bool(1) {
        tuple(b.tensor(0)?)
    } else {
        b.tensor(0)?.nonzero().map(Value::Tensor)
    }
});

pub static WHERE_NONZERO: OpRecord = OpRecord::new(
    "where.nonzero",
    "The positions of the elements that are not 0, a tensor for each dimension.",
    "(Tensor condition)",
)
.overload()
.constant()
.by_name(|b| tuple(b.tensor(0)?));

fn tuple(x: &Tensor) -> Result<Value> {
    Ok(Value::Tuple(
        x.nonzero_as_tuple()?
            .into_iter()
            .map(Value::Tensor)
            .collect(),
    ))
}

/// How many elements are not 0.
pub(crate) fn count(x: &Tensor) -> Result<usize> {
    Ok(call1(&MASKED_COUNT, &[Arg::T(x)], NONE)?.item::<i64>()? as usize)
}

#[torsh_tensor::functions]
impl Tensor {
    /// This tensor with one value (a number or a 0-d tensor, converted to this dtype) where the bool
    /// mask is true; shapes broadcast (`torch.masked_fill`).
    ///
    /// An error for a mask of another dtype, and for a value of more dimensions.
    ///
    /// ```
    /// use torsh_tensor::Tensor;
    /// let x = Tensor::from_data(&[1.0f32, -2.0, 3.0], &[3])?;
    /// let y = x.masked_fill(&x.lt(0.0)?, f64::NEG_INFINITY)?;
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, f32::NEG_INFINITY, 3.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn masked_fill<'a>(&self, mask: &Tensor, value: impl Into<Operand<'a>>) -> Result<Tensor> {
        let (t, value) =
            fill_value("masked_fill", &value.into(), self).map_err(|e| e.renamed("masked_fill"))?;
        call1(
            &MASKED_FILL,
            &[Arg::T(self), Arg::T(mask), Arg::opt(t.as_ref())],
            &attrs::MaskedFill { value },
        )
    }

    /// [`Tensor::masked_fill`] in place; returns this tensor.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![1.0, 2.0];
    /// x.masked_fill_(&tensor![true, false], -1.0)?;
    /// assert_eq!(x, tensor![-1.0, 2.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn masked_fill_<'a>(&self, mask: &Tensor, value: impl Into<Operand<'a>>) -> Result<Tensor> {
        let (t, value) = fill_value("masked_fill", &value.into(), self)
            .map_err(|e| e.renamed("masked_fill_"))?;
        in_place(
            &MASKED_FILL,
            self,
            &[Arg::T(mask), Arg::opt(t.as_ref())],
            &attrs::MaskedFill { value },
        )
    }

    /// The elements where the bool mask is true, 1-d, in row-major order; shapes broadcast
    /// (`torch.masked_select`). A mask that is not bool, or shapes that do not broadcast, are an
    /// error. The host waits for the device, because the number of elements is a shape.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[1, 2], [3, 4]];
    /// assert_eq!(x.masked_select(&x.gt(1)?)?, tensor![2, 3, 4]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn masked_select(&self, mask: &Tensor) -> Result<Tensor> {
        let at = std::panic::Location::caller();
        let named = |e: TorshError| {
            e.in_op(
                "masked_select",
                || vec![self.describe(), mask.describe()],
                at,
            )
        };
        check_mask("masked_select", mask).map_err(named)?;
        let shape = self.shape().broadcast(mask.shape()).map_err(named)?;
        // Before the mask is read, as often as the shape says.
        common_device(&[Arg::T(self), Arg::T(mask)]).map_err(named)?;
        let (x, mask) = (self.expand(&shape)?, mask.expand(&shape)?);
        let count = count(&mask)?;
        call1(
            &MASKED_SELECT,
            &[Arg::T(&x), Arg::T(&mask)],
            &attrs::MaskedSelect { count },
        )
    }

    /// This tensor with the elements of `source`, in order, where the bool mask is true; shapes
    /// broadcast (`torch.masked_scatter`).
    ///
    /// An error for a mask or source of another dtype, and for a source with too few elements.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let mask = tensor![true, false, true];
    /// assert_eq!(tensor![0, 0, 0].masked_scatter(&mask, &tensor![7, 8])?, tensor![7, 0, 8]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn masked_scatter(&self, mask: &Tensor, source: &Tensor) -> Result<Tensor> {
        call1(
            &MASKED_SCATTER,
            &[Arg::T(self), Arg::T(mask), Arg::T(source)],
            NONE,
        )
    }

    /// [`Tensor::masked_scatter`] in place; returns this tensor.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![0, 0, 0];
    /// x.masked_scatter_(&tensor![false, true, true], &tensor![7, 8])?;
    /// assert_eq!(x, tensor![0, 7, 8]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn masked_scatter_(&self, mask: &Tensor, source: &Tensor) -> Result<Tensor> {
        in_place(&MASKED_SCATTER, self, &[Arg::T(mask), Arg::T(source)], NONE)
    }

    /// The positions of the elements that are not 0, one row each: int64 `[n, ndim]`
    /// (`torch.nonzero`). Every dtype. The host waits for the device, because the number of rows is a
    /// shape.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![[0, 5], [6, 0]].nonzero()?, tensor![[0, 1], [1, 0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn nonzero(&self) -> Result<Tensor> {
        let count = count(self)?;
        call1(&NONZERO, &[Arg::T(self)], &attrs::Nonzero { count })
    }

    /// The positions of the elements that are not 0, a 1-d tensor for each dimension: what an
    /// index tuple takes (`torch.nonzero(as_tuple=True)`, and `torch.where` of a condition alone).
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[0, 5], [6, 0]];
    /// let places = x.nonzero_as_tuple()?;
    /// assert_eq!(places, [tensor![0, 1], tensor![1, 0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn nonzero_as_tuple(&self) -> Result<Vec<Tensor>> {
        let x = if self.ndim() == 0 {
            self.unsqueeze(0)?
        } else {
            self.clone()
        };
        let rows = x.nonzero()?;
        (0..x.ndim()).map(|d| rows.select(1, d)).collect()
    }
}
