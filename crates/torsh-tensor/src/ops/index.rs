//! Selecting and writing along one dimension, and by flat positions.

use smallvec::SmallVec;
use torsh_core::attrs::{self, Attributes, NONE};
use torsh_core::{DType, Device, Dims, Kernel, Result, Scalar, Shape, TorshError};

use crate::autocast::Autocast;
use crate::call::{Arg, call1, is_number, make_node, misplaced, write_into};
use crate::node::BackwardCx;
use crate::record::{OpRecord, Plan, PlanCx, Rule, Sample, sample};
use crate::{AddOptions, IntoDim, Operand, Tensor, Value};

pub(crate) const RECORDS: &[&OpRecord] = &[
    &INDEX_SELECT,
    &INDEX_ADD,
    &INDEX_COPY,
    &INDEX_FILL,
    &INDEX_FILL_TENSOR,
    &TAKE,
    &PUT,
];

/// Runs an op whose kernel can write over its first operand in place on `target`, after the same
/// checks as out of place. The derivative must not read the first operand.
#[track_caller]
pub(crate) fn in_place(
    record: &'static OpRecord,
    target: &Tensor,
    rest: &[Arg<'_>],
    attrs: &dyn Attributes,
) -> Result<Tensor> {
    let at = std::panic::Location::caller();
    let mut args: SmallVec<[Arg<'_>; 4]> = SmallVec::from_iter([Arg::T(target)]);
    args.extend_from_slice(rest);
    let tensors = || {
        args.iter()
            .filter_map(|a| if let Arg::T(t) = a { Some(*t) } else { None })
    };
    let run = || -> Result<()> {
        let wanted = tensors().any(Tensor::requires_grad);
        crate::inplace::check(target, wanted)?;
        let Rule::Kernel(plan) = record.rule else {
            return Err(TorshError::invalid(
                "",
                "the op has no kernel that writes in place",
            ));
        };
        let plan = plan(&PlanCx { args: &args, attrs })?;
        if let Some(o) = plan.outputs.first()
            && (o.shape != *target.shape() || o.dtype != target.dtype())
        {
            return Err(TorshError::shape(
                "",
                format!(
                    "output with shape {} doesn't match the result's {} {}",
                    target.shape(),
                    o.dtype,
                    o.shape
                ),
            ));
        }
        for t in tensors().skip(1) {
            // A 0-d tensor of the CPU is a number of the call.
            if t.device() != target.device() && !is_number(t) {
                return Err(misplaced(t, target.device()));
            }
            crate::inplace::check_overlap(target, t)?;
        }
        let versions: SmallVec<[u64; 4]> = args
            .iter()
            .map(|a| if let Arg::T(t) = a { t.version() } else { 0 })
            .collect();
        write_into(record, plan.compute, target, &args, attrs)?;
        let node = if wanted
            && crate::mode::is_grad_enabled()
            && target.dtype().is_differentiable()
            && record.is_differentiable()
        {
            Some(make_node(
                record,
                &args,
                attrs,
                std::slice::from_ref(target),
                at,
                Some(&versions),
            )?)
        } else {
            None
        };
        crate::inplace::rebase(target, node)
    };
    run().map_err(|e| {
        let operands = || tensors().map(Tensor::describe).collect();
        e.in_op(record.base_name(), operands, at)
            .in_place(record.base_name())
    })?;
    Ok(target.clone())
}

/// Refuses a number that a dtype cannot hold, as PyTorch's `Scalar::to` does: out of range, or
/// with an imaginary part for a real type. Fractions are cut off, and negative numbers wrap in
/// uint8.
pub(crate) fn check_number(value: Scalar, dtype: DType) -> Result<()> {
    let (re, im) = value.to_complex();
    let (low, high) = dtype.finite_range();
    let fits = match dtype {
        DType::Bool => true,
        d if d.is_complex() => true,
        _ if im != 0.0 => false,
        d if d.is_floating_point() => !re.is_finite() || (low..=high).contains(&re),
        DType::U8 => (-high..=high).contains(&re),
        DType::I64 => value.is_int() || (re >= low && re < -low),
        _ => (low..=high).contains(&re),
    };
    if fits {
        return Ok(());
    }
    Err(TorshError::dtype(
        "",
        format!("value cannot be converted to type {dtype} without overflow: {value}"),
    ))
}

/// A value to write: a 0-d tensor of the target's dtype, or else a number.
///
/// # Errors
/// A tensor that is not 0-d, and a number, in a tensor too, that the dtype cannot hold.
pub(crate) fn fill_value(
    op: &'static str,
    value: &Operand<'_>,
    like: &Tensor,
) -> Result<(Option<Tensor>, Option<Scalar>)> {
    let complex = match value {
        Operand::Number(n) => n.is_complex(),
        Operand::Ref(t) => t.is_complex(),
        Operand::Owned(t) => t.is_complex(),
    };
    // Here PyTorch takes no complex number, not even one without imaginary part.
    if op == "index_fill" && complex && !like.is_complex() {
        return Err(TorshError::dtype(
            "",
            format!(
                "index_fill_(): a complex value cannot be written into a tensor of dtype {}",
                like.dtype()
            ),
        ));
    }
    match value {
        Operand::Number(n) => {
            check_number(*n, like.dtype())?;
            Ok((None, Some(*n)))
        }
        o => {
            let t = o.to_tensor()?;
            if t.ndim() != 0 {
                return Err(TorshError::invalid(
                    "",
                    format!(
                        "{op}_ only supports a 0-dimensional value tensor, but got tensor with {} dimension(s).",
                        t.ndim()
                    ),
                ));
            }
            if t.dtype() != like.dtype() && t.device() != Device::Meta {
                check_number(t.item_scalar()?, like.dtype())?;
            }
            Ok((Some(t.to_dtype(like.dtype())?), None))
        }
    }
}

/// The index of `index_select` and kin: at most 1-d, int64 or (where allowed) int32.
fn vector(op: &str, index: &Tensor, int32: bool) -> Result<()> {
    if index.ndim() > 1 {
        return Err(TorshError::index(
            "",
            format!(
                "{op}(): Index is supposed to be a vector, got {}",
                index.shape()
            ),
        ));
    }
    if index.dtype() == DType::I64 || int32 && index.dtype() == DType::I32 {
        return Ok(());
    }
    let expected = if int32 { "int32 or int64" } else { "int64" };
    Err(TorshError::dtype(
        "",
        format!(
            "{op}(): Expected dtype {expected} for index, got {}",
            index.dtype()
        ),
    ))
}

/// A shape with 0-d seen as one dimension of one element.
pub(crate) fn at_least_1d(t: &Tensor) -> &[usize] {
    if t.ndim() == 0 { &[1] } else { t.dims() }
}

#[torsh_tensor::by_name(Tensor::index_select)]
pub static INDEX_SELECT: OpRecord = OpRecord::new(
    "index_select",
    "The positions of a dimension that a 1-d index names, in its order.",
    "(Tensor input, int dim, Tensor index)",
)
.kernel(Kernel::IndexSelect, |c| {
    let (x, index) = (c.tensor(0)?, c.tensor(1)?);
    let d = c.attrs::<attrs::IndexSelect>()?.dim;
    vector("index_select", index, true)?;
    let mut dims = Dims::from_slice(x.dims());
    match dims.get_mut(d) {
        Some(n) => *n = index.numel(),
        None if index.numel() != 1 => {
            return Err(TorshError::index(
                "",
                format!(
                    "index_select(): Index to scalar can have only 1 value, got {} value(s)",
                    index.numel()
                ),
            ));
        }
        None => {}
    }
    Ok(Plan::one(x.dtype(), dims.into(), x.dtype()))
})
.grads(2, 0, |c| {
    let zeros = c.zeros(0)?;
    let add = attrs::IndexAdd {
        dim: c.attrs::<attrs::IndexSelect>()?.dim,
        alpha: Scalar::Int(1),
    };
    Ok(one(
        0,
        in_place(&INDEX_ADD, &zeros, &[Arg::T(&c.y()?), Arg::T(c.g())], &add)?,
    ))
})
.samples(|s| {
    let index = s.ints(&[4], 0, 3)?;
    Ok(vec![
        sample![s.real(&[3, 2])?, 0, index.clone()],
        sample![s.real(&[2, 3])?, -1, index],
    ])
});

/// Gradients of which only that of operand `i` is there.
pub(crate) fn one(i: usize, g: Tensor) -> crate::node::Grads {
    let mut all: crate::node::Grads = SmallVec::from_elem(None, i + 1);
    all[i] = Some(g);
    all
}

fn check_source(c: &PlanCx<'_>, op: &str, d: usize) -> Result<()> {
    let (x, index, source) = (c.tensor(0)?, c.tensor(1)?, c.tensor(2)?);
    if x.dtype() != source.dtype() {
        return Err(TorshError::dtype(
            "",
            format!(
                "{op}_(): self ({}) and source ({}) must have the same scalar type",
                x.dtype(),
                source.dtype()
            ),
        ));
    }
    let (to, from) = (at_least_1d(x), at_least_1d(source));
    if from.len() == to.len() && from[d] != index.numel() {
        return Err(TorshError::index(
            "",
            format!(
                "{op}_(): Number of indices ({}) should be equal to source.size(dim): ({}), for dim: {d}",
                index.numel(),
                from[d]
            ),
        ));
    }
    if from.len() != to.len() || (0..to.len()).any(|k| k != d && to[k] != from[k]) {
        return Err(TorshError::shape(
            "",
            format!(
                "source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = {} source.shape = {}",
                x.shape(),
                source.shape()
            ),
        ));
    }
    Ok(())
}

/// The gradient of what was written along a dimension.
fn read_back(c: &BackwardCx<'_>, dim: usize) -> Result<Tensor> {
    c.g().index_select(dim, &c.y()?)?.reshape(c.input_shape(2))
}

/// The gradient of what was written over.
fn keep_others(c: &BackwardCx<'_>, dim: usize) -> Result<Tensor> {
    c.g().index_fill(dim, &c.y()?, 0)
}

#[torsh_tensor::by_name(Tensor::index_add_with(.., AddOptions))]
pub static INDEX_ADD: OpRecord = OpRecord::new(
    "index_add",
    "Adds alpha times the source's positions along a dimension to those a 1-d index names; repeated positions add up.",
    "(Tensor input, int dim, Tensor index, Tensor source, *, Scalar alpha=1)",
)
.kernel(Kernel::IndexAdd, |c| {
    let x = c.tensor(0)?;
    vector("index_add_", c.tensor(1)?, true)?;
    check_source(c, "index_add", c.attrs::<attrs::IndexAdd>()?.dim)?;
    Ok(Plan::one(x.dtype(), x.shape().clone(), x.dtype()))
})
.grads(2, 0, |c| {
    let &attrs::IndexAdd { dim, alpha } = c.attrs()?;
    let source = if c.needs(2) {
        let g = read_back(c, dim)?;
        Some(if alpha == Scalar::Int(1) { g } else { g.mul(alpha.conj())? })
    } else {
        None
    };
    Ok(SmallVec::from_iter([c.needs(0).then(|| c.g().clone()), None, source]))
})
.samples(|s| {
    let index = s.ints(&[4], 0, 3)?;
    let call = [s.real(&[3, 2])?.into(), Value::Int(0), index.into(), s.real(&[4, 2])?.into()];
    Ok(vec![Sample::new(call.clone()), Sample::new(call).kw("alpha", 2.5)])
});

#[torsh_tensor::by_name(Tensor::index_copy)]
pub static INDEX_COPY: OpRecord = OpRecord::new(
    "index_copy",
    "The tensor with the source's positions along a dimension in place of those a 1-d index names.",
    "(Tensor input, int dim, Tensor index, Tensor source)",
)
.autocast(Autocast::Promote)
.kernel(Kernel::IndexCopy, |c| {
    let (x, source) = (c.tensor(0)?, c.tensor(2)?);
    vector("index_copy_", c.tensor(1)?, false)?;
    if x.ndim() != source.ndim() && x.ndim() != 0 && source.ndim() != 0 {
        return Err(TorshError::index(
            "",
            format!(
                "index_copy_(): When source and destination are not scalars, their dimensionality must match. Source dimensionality ({}), destination dimensionality ({})",
                source.ndim(),
                x.ndim()
            ),
        ));
    }
    check_source(c, "index_copy", c.attrs::<attrs::IndexCopy>()?.dim)?;
    Ok(Plan::one(x.dtype(), x.shape().clone(), x.dtype()))
})
.grads(2, 0, |c| {
    let dim = c.attrs::<attrs::IndexCopy>()?.dim;
    let first = if c.needs(0) { Some(keep_others(c, dim)?) } else { None };
    let source = if c.needs(2) { Some(read_back(c, dim)?) } else { None };
    Ok(SmallVec::from_iter([first, None, source]))
})
.samples(|s| {
    let index = Tensor::from_data(&[2i64, 0], [2])?;
    Ok(vec![sample![s.real(&[3, 2])?, 0, index, s.real(&[2, 2])?]])
});

/// Fills along a dimension, with operand 2 or else with the number of the attributes.
#[torsh_tensor::by_name(Tensor::index_fill)]
pub static INDEX_FILL: OpRecord = OpRecord::new(
    "index_fill.scalar",
    "The tensor with one number at the positions along a dimension that a 1-d index names.",
    "(Tensor input, int dim, Tensor index, Scalar value)",
)
.overload()
.kernel(Kernel::IndexFill, |c| {
    let x = c.tensor(0)?;
    vector("index_fill_", c.tensor(1)?, false)?;
    Ok(Plan::one(x.dtype(), x.shape().clone(), x.dtype()))
})
.grads(2, 0, |c| {
    let dim = c.attrs::<attrs::IndexFill>()?.dim;
    let first = if c.needs(0) {
        Some(keep_others(c, dim)?)
    } else {
        None
    };
    let value = if c.needs(2) {
        // Positions named twice count once: a mask of what was filled.
        let none = Tensor::zeros(c.g().shape(), DType::Bool, c.g().device())?;
        let filled = none.index_fill(dim, &c.y()?, true)?;
        Some(c.g().where_zero(&filled, false)?.sum()?)
    } else {
        None
    };
    Ok(SmallVec::from_iter([first, None, value]))
})
.samples(|s| {
    let index = s.ints(&[2], 0, 3)?;
    Ok(vec![sample![s.real(&[3, 2])?, 0, index, 1.5]])
});

/// [`INDEX_FILL`] with a 0-d tensor.
#[torsh_tensor::by_name(Tensor::index_fill)]
pub static INDEX_FILL_TENSOR: OpRecord = OpRecord::new(
    "index_fill.tensor",
    "The tensor with a 0-d tensor's number at the positions along a dimension that a 1-d index names.",
    "(Tensor input, int dim, Tensor index, Tensor value)",
)
.overload()
.samples(|s| {
    let index = s.ints(&[2], 0, 3)?;
    Ok(vec![sample![s.real(&[3, 2])?, 0, index, s.real(&[])?]])
});

#[torsh_tensor::by_name(Tensor::take)]
pub static TAKE: OpRecord = OpRecord::new(
    "take",
    "The elements at positions of the flattened tensor, in the index's shape; negative ones count from the end.",
    "(Tensor input, Tensor index)",
)
.kernel(Kernel::Take, |c| {
    let (x, index) = (c.tensor(0)?, c.tensor(1)?);
    long("take", index)?;
    if x.numel() == 0 && index.numel() > 0 {
        return Err(TorshError::index("", "take(): tried to take from an empty tensor"));
    }
    Ok(Plan::one(x.dtype(), index.shape().clone(), x.dtype()))
})
.grads(2, 0, |c| {
    let zeros = c.zeros(0)?;
    Ok(one(0, in_place(&PUT, &zeros, &[Arg::T(&c.y()?), Arg::T(c.g())], &attrs::Put { accumulate: true })?))
})
.samples(|s| {
    let index = s.ints(&[2, 2], -6, 6)?;
    Ok(vec![sample![s.real(&[2, 3])?, index]])
});

fn long(op: &str, index: &Tensor) -> Result<()> {
    if index.dtype() == DType::I64 {
        return Ok(());
    }
    Err(TorshError::dtype(
        "",
        format!(
            "{op}(): Expected a long tensor for index, but got {}",
            index.dtype()
        ),
    ))
}

#[torsh_tensor::by_name(Tensor::put)]
pub static PUT: OpRecord = OpRecord::new(
    "put",
    "The tensor with the source's elements at positions of the flattened tensor, written over or added.",
    "(Tensor input, Tensor index, Tensor source, bool accumulate=False)",
)
.kernel(Kernel::Put, |c| {
    let (x, index, source) = (c.tensor(0)?, c.tensor(1)?, c.tensor(2)?);
    long("put_", index)?;
    if x.dtype() != source.dtype() {
        return Err(TorshError::dtype(
            "",
            format!("put_(): self and source expected to have the same dtype, but got self.dtype = {} and source.dtype = {}", x.dtype(), source.dtype()),
        ));
    }
    if x.numel() == 0 && index.numel() > 0 {
        return Err(TorshError::index("", "put_(): tried to put elements into an empty tensor"));
    }
    Ok(Plan::one(x.dtype(), x.shape().clone(), x.dtype()))
})
.grads(2, 0, |c| {
    let (index, add) = (c.y()?, c.attrs::<attrs::Put>()?.accumulate);
    let first = match (c.needs(0), add) {
        (false, _) => None,
        (true, true) => Some(c.g().clone()),
        (true, false) => {
            let zeros = Tensor::zeros(index.shape(), c.g().dtype(), c.g().device())?;
            Some(call1(&PUT, &[Arg::T(c.g()), Arg::T(&index), Arg::T(&zeros)], &attrs::Put { accumulate: false })?)
        }
    };
    let source = if c.needs(2) { Some(c.g().take(&index)?) } else { None };
    Ok(SmallVec::from_iter([first, None, source]))
})
.samples(|s| {
    let index = Tensor::from_data(&[0i64, 4, -1], [3])?;
    let call = [s.real(&[2, 3])?.into(), index.into(), s.real(&[3])?.into()];
    let mut added = call.to_vec();
    added.push(Value::Bool(true));
    Ok(vec![Sample::new(call), Sample::new(added)])
});

#[torsh_tensor::functions]
impl Tensor {
    /// The positions of dimension `dim` that a 1-d index (int64 or int32) names, in its order
    /// (`torch.index_select`).
    ///
    /// An error for an index of more dimensions, and for indices out of range.
    ///
    /// ```
    /// use torsh_tensor::Tensor;
    /// let x = Tensor::from_data(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3])?;
    /// let y = x.index_select(1, &Tensor::from_data(&[2i64, 0], &[2])?)?;
    /// assert_eq!(y.to_vec::<f32>()?, [3.0, 1.0, 6.0, 4.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn index_select(&self, dim: impl IntoDim, index: &Tensor) -> Result<Tensor> {
        let d = self.dim("index_select", dim.value())?;
        call1(
            &INDEX_SELECT,
            &[Arg::T(self), Arg::T(index)],
            &attrs::IndexSelect { dim: d },
        )
    }

    /// Adds `source` to the positions of `dim` that a 1-d index names (`torch.index_add`). The index
    /// is int32 or int64, the source of this tensor's dtype, with as many positions in `dim` as the
    /// index and this tensor's other sizes; else, and where an index is out of range, it is an error.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![1, 2, 3];
    /// assert_eq!(x.index_add(0, &tensor![0, 2, 0], &tensor![10, 20, 30])?, tensor![41, 2, 23]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn index_add(&self, dim: impl IntoDim, index: &Tensor, source: &Tensor) -> Result<Tensor> {
        self.index_add_with(dim, index, source, AddOptions::default())
    }

    /// [`Tensor::index_add`] of `alpha` times the source.
    ///
    /// ```
    /// use torsh_tensor::{AddOptions, tensor};
    /// let x = tensor![1, 2, 3];
    /// let y = x.index_add_with(0, &tensor![0, 2], &tensor![10, 20], AddOptions::new().alpha(2))?;
    /// assert_eq!(y, tensor![21, 2, 43]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn index_add_with(
        &self,
        dim: impl IntoDim,
        index: &Tensor,
        source: &Tensor,
        options: AddOptions,
    ) -> Result<Tensor> {
        let d = self.dim("index_add", dim.value())?;
        let alpha = options.alpha;
        check_number(alpha, self.dtype()).map_err(|e| e.renamed("index_add"))?;
        let args = [Arg::T(self), Arg::T(index), Arg::T(source)];
        call1(&INDEX_ADD, &args, &attrs::IndexAdd { dim: d, alpha })
    }

    /// [`Tensor::index_add`] in place; returns this tensor. The shape and dtype stay. Errors as for
    /// [`Tensor::index_add`], and for a leaf that requires a gradient.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![1, 2, 3];
    /// x.index_add_(0, &tensor![0, 2], &tensor![10, 20])?;
    /// assert_eq!(x, tensor![11, 2, 23]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn index_add_(&self, dim: impl IntoDim, index: &Tensor, source: &Tensor) -> Result<Tensor> {
        let d = self.dim("index_add_", dim.value())?;
        in_place(
            &INDEX_ADD,
            self,
            &[Arg::T(index), Arg::T(source)],
            &attrs::IndexAdd {
                dim: d,
                alpha: Scalar::Int(1),
            },
        )
    }

    /// This tensor with `source` at the positions of `dim` that a 1-d index names
    /// (`torch.index_copy`). The index is int64, the source of this tensor's dtype, with as many
    /// positions in `dim` as the index and this tensor's other sizes; else, and where an index is out
    /// of range, it is an error.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[1, 2], [3, 4]];
    /// assert_eq!(x.index_copy(0, &tensor![1], &tensor![[8, 9]])?, tensor![[1, 2], [8, 9]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn index_copy(&self, dim: impl IntoDim, index: &Tensor, source: &Tensor) -> Result<Tensor> {
        let d = self.dim("index_copy", dim.value())?;
        call1(
            &INDEX_COPY,
            &[Arg::T(self), Arg::T(index), Arg::T(source)],
            &attrs::IndexCopy { dim: d },
        )
    }

    /// [`Tensor::index_copy`] in place; returns this tensor. Errors as for [`Tensor::index_copy`],
    /// and for a leaf that requires a gradient.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[1, 2], [3, 4]];
    /// x.index_copy_(1, &tensor![0], &tensor![[8], [9]])?;
    /// assert_eq!(x, tensor![[8, 2], [9, 4]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn index_copy_(
        &self,
        dim: impl IntoDim,
        index: &Tensor,
        source: &Tensor,
    ) -> Result<Tensor> {
        let d = self.dim("index_copy_", dim.value())?;
        in_place(
            &INDEX_COPY,
            self,
            &[Arg::T(index), Arg::T(source)],
            &attrs::IndexCopy { dim: d },
        )
    }

    /// This tensor with one value (a number or a 0-d tensor) at the positions of `dim` that a 1-d
    /// int64 index names; negative ones count from the end (`torch.index_fill`).
    ///
    /// Shape and dtype stay. An error for indices out of range, and for a value of more dimensions.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[1, 2], [3, 4]];
    /// assert_eq!(x.index_fill(1, &tensor![-1], 0)?, tensor![[1, 0], [3, 0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn index_fill<'a>(
        &self,
        dim: impl IntoDim,
        index: &Tensor,
        value: impl Into<Operand<'a>>,
    ) -> Result<Tensor> {
        let d = self.dim("index_fill", dim.value())?;
        let (t, value) =
            fill_value("index_fill", &value.into(), self).map_err(|e| e.renamed("index_fill"))?;
        let args = [Arg::T(self), Arg::T(index), Arg::opt(t.as_ref())];
        call1(&INDEX_FILL, &args, &attrs::IndexFill { dim: d, value })
    }

    /// [`Tensor::index_fill`] in place; returns this tensor. Errors as for [`Tensor::index_fill`],
    /// and for a leaf that requires a gradient.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[1, 2], [3, 4]];
    /// x.index_fill_(0, &tensor![0], 7)?;
    /// assert_eq!(x, tensor![[7, 7], [3, 4]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn index_fill_<'a>(
        &self,
        dim: impl IntoDim,
        index: &Tensor,
        value: impl Into<Operand<'a>>,
    ) -> Result<Tensor> {
        let d = self.dim("index_fill_", dim.value())?;
        let (t, value) =
            fill_value("index_fill", &value.into(), self).map_err(|e| e.renamed("index_fill_"))?;
        in_place(
            &INDEX_FILL,
            self,
            &[Arg::T(index), Arg::opt(t.as_ref())],
            &attrs::IndexFill { dim: d, value },
        )
    }

    /// The elements at positions of the flattened tensor, in the index's shape; negative ones count
    /// from the end (`torch.take`). The index is int64; one out of range is an error, as is an empty
    /// tensor unless the index is empty too.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[1, 2], [3, 4]];
    /// assert_eq!(x.take(&tensor![0, 3, -2])?, tensor![1, 4, 3]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn take(&self, index: &Tensor) -> Result<Tensor> {
        call1(&TAKE, &[Arg::T(self), Arg::T(index)], NONE)
    }

    fn put_args(&self, index: &Tensor, source: &Tensor) -> Result<Tensor> {
        if source.numel() != index.numel() {
            return Err(TorshError::index(
                "put",
                format!(
                    "put_(): Expected source and index to have the same number of elements, but got source.numel() = {}, index.numel() = {}",
                    source.numel(),
                    index.numel()
                ),
            ));
        }
        source.reshape(Shape::new(index.dims()))
    }

    /// This tensor with `source` at positions of the flattened tensor, written over or, with
    /// `accumulate`, added (`torch.put`). The index is int64, the source of this tensor's dtype and
    /// as many elements as the index; an index out of range is an error.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[1, 2], [3, 4]];
    /// assert_eq!(x.put(&tensor![0, 3], &tensor![10, 20], false)?, tensor![[10, 2], [3, 20]]);
    /// assert_eq!(x.put(&tensor![0, 0], &tensor![10, 20], true)?, tensor![[31, 2], [3, 4]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn put(&self, index: &Tensor, source: &Tensor, accumulate: bool) -> Result<Tensor> {
        let source = self.put_args(index, source)?;
        call1(
            &PUT,
            &[Arg::T(self), Arg::T(index), Arg::T(&source)],
            &attrs::Put { accumulate },
        )
    }

    /// [`Tensor::put`] in place; returns this tensor.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[1, 2], [3, 4]];
    /// x.put_(&tensor![1], &tensor![9], false)?;
    /// assert_eq!(x, tensor![[1, 9], [3, 4]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn put_(&self, index: &Tensor, source: &Tensor, accumulate: bool) -> Result<Tensor> {
        let source = self.put_args(index, source)?;
        in_place(
            &PUT,
            self,
            &[Arg::T(index), Arg::T(&source)],
            &attrs::Put { accumulate },
        )
    }
}
