//! Products of which the mean, the largest or the smallest is taken in place of the sum.

use smallvec::SmallVec;
use torsh_backend_cpu::sparse::{self as kernels, Extreme, Index, Ordered, Rows};
use torsh_core::kernel::HostCall;
use torsh_core::{DType, Element, Shape};
use torsh_tensor::call::Arg;
use torsh_tensor::named::{Named, Unknown};
use torsh_tensor::record::{OpRecord, Plan, Spec};
use torsh_tensor::{Result, ScatterReduceOptions, Tensor, TorshError, named, no_grad};

use crate::attrs;
use crate::csr::{flat_values, lines, one_dtype, pattern_of, row_of};
use crate::grid::settled;
use crate::help::{by_dtype, within};
use crate::products::{Gradient, cast_by_pattern, left, two_dims};
use crate::spgemm::mismatch;

/// What [`spmm`] makes of the products of a row and a column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SpmmReduce {
    /// Their sum, as [`mm`](crate::mm).
    #[default]
    Sum,
    /// The sum divided by the number of elements that the row stores; 0 where it stores none.
    Mean,
    /// The largest; 0 where the row stores none.
    Amax,
    /// The smallest; 0 where the row stores none.
    Amin,
    /// A string that is none of the words; the function that gets it refuses it.
    #[doc(hidden)]
    Unknown(Unknown),
}

named! {
    SpmmReduce, "reduce",
    "sum" => SpmmReduce::Sum,
    "mean" => SpmmReduce::Mean,
    "amax" => SpmmReduce::Amax,
    "amin" => SpmmReduce::Amin,
}

impl SpmmReduce {
    /// PyTorch's word.
    pub fn as_str(self) -> &'static str {
        self.word()
    }
}

/// [`mm`](crate::mm) with another reduction of the products than their sum: of the stored elements of a row alone, as for the
/// messages that the neighbours of a node send (`torch.sparse.mm(a, b, reduce)`).
///
/// `a` is sparse, `b` strided. Of equal products the first has the gradient of a largest or smallest one.
///
/// ```
/// use torsh_sparse::{self as sparse, SparseExt, SpmmReduce};
/// use torsh_tensor::tensor;
/// let a = tensor![[1.0, 1.0], [0.0, 0.0]].to_sparse_csr()?;
/// let b = tensor![[-1.0], [-3.0]];
/// assert_eq!(sparse::spmm(&a, &b, SpmmReduce::Mean)?, tensor![[-2.0], [0.0]]);
/// assert_eq!(sparse::spmm(&a, &b, "amax")?, tensor![[-1.0], [0.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`mm`](crate::mm); another word than `sum`, `mean`, `amax` and `amin`; with one of these an `a` that is not sparse or a `b` that is,
/// and largest and smallest products of complex numbers.
#[torsh_tensor::names_caller]
pub fn spmm(a: &Tensor, b: &Tensor, reduce: impl Into<SpmmReduce>) -> Result<Tensor> {
    let reduce = reduce.into();
    within("sparse.mm", &[a, b], || {
        let reduce = reduce.known()?;
        if reduce == SpmmReduce::Sum {
            return cast_by_pattern(a, b);
        }
        two_dims(a)?;
        two_dims(b)?;
        if a.pattern().is_none() || b.pattern().is_some() {
            return Err(TorshError::invalid(
                "",
                format!(
                    "with reduce '{}' the first operand is sparse and the second strided",
                    reduce.as_str()
                ),
            ));
        }
        // An element that is stored twice has one product.
        let a = &settled(a)?;
        match reduce {
            SpmmReduce::Mean => mean(a, b),
            SpmmReduce::Amin => extreme(a, b, false),
            _ => extreme(a, b, true),
        }
    })
}

fn mean(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let sums = left(a, b, Gradient::Pattern)?;
    let rows = lines(&pattern_of(a)?, false)?;
    let n = rows.count;
    let counts = no_grad(|| {
        let (end, start) = (
            rows.pointers.narrow(0, 1, n)?,
            rows.pointers.narrow(0, 0, n)?,
        );
        end.sub(&start)?
            .clamp_min(1)?
            .to_dtype(sums.dtype())?
            .unsqueeze(1)
    })?;
    match sums.dtype().is_integer() {
        true => sums.floor_divide(&counts),
        false => sums.div(&counts),
    }
}

torsh_core::kernel_keys! {
    EXTREMES_KEY "SparseExtremes" |c| by_dtype!(c, extremes_host, real indexed);
}

/// The kernel: operands as those of a product; results are the products, and the element that each is of (-1: none).
pub(crate) static EXTREMES: OpRecord = OpRecord::new(
    "_sparse_extremes",
    "The largest or smallest products of the elements of each row with each column.",
    "(Tensor values, Tensor pointers, Tensor indices, Tensor dense, Tensor? order, *, bool largest)",
)
.internal()
.with_key(&EXTREMES_KEY, |c| {
    let (values, dense) = (c.tensor(0)?, c.tensor(3)?);
    let dtype = one_dtype(values, dense)?;
    if dtype.is_complex() {
        return Err(TorshError::dtype("", format!("{dtype} has no largest and no smallest number")));
    }
    let &[_, m] = dense.dims() else {
        return Err(TorshError::shape("", "the dense operand must be a matrix"));
    };
    let shape = Shape::new(&[c.tensor(1)?.numel().saturating_sub(1), m]);
    Ok(Plan::many(dtype, [Spec::new(shape.clone(), dtype), Spec::new(shape, DType::I64)]))
})
.definition(|c| {
    let (values, pointers, indices, dense) = (c.x()?, c.y()?, c.z()?, c.tensor(3)?);
    let largest = c.attrs::<attrs::SparseExtremes>()?.largest;
    let values = match c.opt_tensor(4) {
        Some(order) => values.index_select(0, order)?,
        None => values,
    };
    let (n, m, e) = (pointers.numel() - 1, dense.dims()[1], indices.numel());
    let none = Tensor::full([n, m], -1, DType::I64, dense.device())?;
    if e == 0 {
        let zeros = Tensor::zeros([n, m], dense.dtype(), dense.device())?;
        return Ok(SmallVec::from_iter([zeros, none]));
    }
    let rows = row_of(&pointers, e)?.to_dtype(DType::I64)?;
    let terms = dense.index_select(0, &indices)?.mul(&values.unsqueeze(1)?)?;
    let rows_of = rows.unsqueeze(1)?.expand([e, m])?.contiguous()?;
    let zeros = Tensor::zeros([n, m], terms.dtype(), terms.device())?;
    let options = ScatterReduceOptions::new().include_self(false);
    let how = if largest { "amax" } else { "amin" };
    let best = zeros.scatter_reduce_with(0, &rows_of, &terms, how, options)?;
    // The first element that is the best of its row.
    let is_best = terms.eq(&best.gather(0, &rows_of)?)?;
    let number = Tensor::arange(0, e as i64, 1, DType::I64, terms.device())?.unsqueeze(1)?.expand([e, m])?;
    let number = Tensor::where_(&is_best, &number, e as i64)?;
    let which = none.scatter_reduce_with(0, &rows_of, &number, "amin", options)?;
    Ok(SmallVec::from_iter([best, which]))
})
.constant();

fn extremes_host<T: Ordered, I: Index + Element>(c: &mut HostCall<'_>) -> Result<()> {
    let extreme = match c.attrs::<attrs::SparseExtremes>()?.largest {
        true => Extreme::Max,
        false => Extreme::Min,
    };
    let (values, pointers, indices) = (c.input::<T>(0)?, c.input::<I>(1)?, c.input::<I>(2)?);
    let (dense, order) = (c.input::<T>(3)?, c.input::<i64>(4).ok());
    let &[width, m] = c.input_shape(3)? else {
        return Err(TorshError::shape("", "the dense operand must be a matrix"));
    };
    let a = Rows::new(&pointers, &indices, &values, order.as_deref(), width)?;
    kernels::extremes(
        a,
        &dense,
        m,
        extreme,
        c.output::<T>(0)?,
        c.output::<i64>(1)?,
    )
}

/// The products that are the largest or smallest: found without recording, then computed again from their factors, so that
/// derivatives of all orders are those of products.
fn extreme(a: &Tensor, b: &Tensor, largest: bool) -> Result<Tensor> {
    let pattern = pattern_of(a)?;
    if a.dims()[1] != b.dims()[0] {
        return Err(mismatch(a, b));
    }
    let rows = lines(&pattern, false)?;
    let (out, which) = no_grad(|| {
        let (values, dense) = (flat_values(a)?.contiguous()?, b.contiguous()?);
        let args = [
            Arg::T(&values),
            Arg::T(&rows.pointers),
            Arg::T(&rows.indices),
            Arg::T(&dense),
            rows.order(),
        ];
        let mut outs = EXTREMES
            .call(&args, &attrs::SparseExtremes { largest })?
            .into_iter();
        match (outs.next(), outs.next()) {
            (Some(out), Some(which)) => Ok((out, which)),
            _ => Err(TorshError::failed("", "the kernel gave too few results")),
        }
    })?;
    let recorded = torsh_tensor::is_grad_enabled() && (a.requires_grad() || b.requires_grad());
    if !recorded || rows.indices.numel() == 0 {
        return Ok(out);
    }
    let (shape, none) = (out.dims().to_vec(), which.lt(0)?);
    let element = which.clamp_min(0)?.reshape([-1i64])?;
    let column = rows
        .indices
        .index_select(0, &element)?
        .to_dtype(DType::I64)?
        .reshape(shape.clone())?;
    let place = match &rows.order {
        Some(order) => order.index_select(0, &element)?,
        None => element,
    };
    let factor = flat_values(a)?.index_select(0, &place)?.reshape(shape)?;
    factor.mul(&b.gather(0, &column)?)?.masked_fill(&none, 0)
}
