//! The products of `torch.sparse`, whose gradients have the patterns of sparse operands.

use torsh_core::{DType, TensorLayout};
use torsh_tensor::record::{OpRecord, sample};
use torsh_tensor::sample::Sampler;
use torsh_tensor::sparse::{self, Pattern};
use torsh_tensor::{AddmmOptions, Result, Scalar, Tensor, TorshError, Value, no_grad};

use crate::csr::{
    carrier, elements, flat_values, from_flat, lines, matrix, one_dtype, pattern_of, product,
    sampled,
};
use crate::grid::settled;
use crate::help::{self, rounded_once, within};
use crate::products::{
    by_pattern, cast_by_pattern, is, linear_by_pattern, lowered, scaled, sum, two_dims,
};
use crate::reduced::{self, spmm};
use crate::solve;
use crate::spgemm::mismatch;

pub(crate) static RECORDS: &[&OpRecord] = &[
    &MM,
    &ADDMM,
    &SAMPLED_ADDMM,
    &SSPADDMM,
    &HSPMM,
    &SMM,
    &SPSOLVE,
    &reduced::EXTREMES,
];

/// The product of two matrices, of which one is sparse at least (`torch.sparse.mm`).
///
/// `[n, k]` and `[k, m]` of one dtype give `[n, m]`: a strided tensor, or a sparse one where both are sparse (COO if one of them
/// is, else CSR). Gradients of sparse operands have their patterns, where those of
/// [`Tensor::matmul`] with a strided operand have all elements. In an autocast region a sparse and a strided operand are cast
/// as those of [`Tensor::mm`].
///
/// ```
/// use torsh_sparse::{self as sparse, SparseExt};
/// use torsh_tensor::tensor;
/// let a = tensor![[0.0, 2.0], [3.0, 0.0]].to_sparse_csr()?;
/// assert_eq!(sparse::mm(&a, &tensor![[1.0], [10.0]])?, tensor![[20.0], [3.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If no operand is sparse, one is no matrix, the shapes do not go together, or the dtypes differ or are bool.
#[torsh_tensor::names_caller]
pub fn mm(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    within("sparse.mm", &[a, b], || cast_by_pattern(a, b))
}

/// `input + a @ b`, of a sparse and a strided matrix (`torch.sparse.addmm`); [`addmm_with`].
///
/// ```
/// use torsh_sparse::{self as sparse, SparseExt};
/// use torsh_tensor::tensor;
/// let a = tensor![[0.0, 2.0]].to_sparse()?;
/// assert_eq!(sparse::addmm(&tensor![[1.0]], &a, &tensor![[5.0], [10.0]])?, tensor![[21.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`addmm_with`].
#[track_caller]
pub fn addmm(input: &Tensor, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    addmm_with(input, a, b, AddmmOptions::new())
}

/// `beta * input + alpha * (a @ b)`, of a sparse and a strided matrix; with `beta` 0 the input is not read. The gradient of the
/// sparse one has its pattern.
///
/// ```
/// use torsh_sparse::{self as sparse, SparseExt};
/// use torsh_tensor::{AddmmOptions, tensor};
/// let a = tensor![[0.0, 2.0]].to_sparse()?;
/// let options = AddmmOptions::new().beta(3).alpha(0.5);
/// assert_eq!(sparse::addmm_with(&tensor![[1.0]], &a, &tensor![[5.0], [10.0]], options)?, tensor![[13.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`mm`], and if the input does not broadcast to the product's shape.
#[torsh_tensor::names_caller]
pub fn addmm_with(input: &Tensor, a: &Tensor, b: &Tensor, options: AddmmOptions) -> Result<Tensor> {
    within("sparse.addmm", &[input, a, b], || {
        added(&lowered(input)?, &lowered(a)?, &lowered(b)?, &options)
    })
}

fn added(input: &Tensor, a: &Tensor, b: &Tensor, options: &AddmmOptions) -> Result<Tensor> {
    one_dtype(a, input)?;
    let dtype = one_dtype(a, b)?;
    rounded_once(dtype, [input, a, b], |[input, a, b]| {
        let product = scaled(&by_pattern(a, b)?, options.alpha)?;
        sum(input, &product, options.beta)
    })
}

/// `input @ weight.T + bias` of a sparse weight: the product of [`Tensor::linear`], with a gradient of the weight that has its
/// pattern, where that of [`Tensor::linear`] is strided. PyTorch has no such function.
///
/// `input` is `[.., in]`, `weight` is `[out, in]`, `bias` is `[out]`, all of one dtype; the result is `[.., out]`. Blocks of BSR
/// and BSC weights with at least 8 rows and columns are multiplied as wholes. In an autocast region the operands are cast as
/// those of [`Tensor::linear`]. A layer `Linear` with a sparse weight calls this function.
///
/// ```
/// use torsh_sparse::{self as sparse, SparseExt};
/// use torsh_tensor::tensor;
/// let w = tensor![[0.0, 2.0], [3.0, 0.0]].to_sparse_bsr([1, 1])?.requires_grad_(true);
/// let y = sparse::linear(&tensor![[1.0, 10.0]], &w, &tensor![0.5, 0.25])?;
/// assert_eq!(y, tensor![[20.5, 3.25]]);
/// y.sum()?.backward()?;
/// let gradient = w.grad().expect("a gradient");
/// assert_eq!(gradient.to_dense()?, tensor![[0.0, 10.0], [1.0, 0.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If the weight is strided or no matrix, the shapes do not go together, or the dtypes differ or are bool.
#[torsh_tensor::names_caller]
pub fn linear<'b>(
    input: &Tensor,
    weight: &Tensor,
    bias: impl Into<Option<&'b Tensor>>,
) -> Result<Tensor> {
    let bias = bias.into();
    within("sparse.linear", &[input, weight], || {
        linear_by_pattern(input, weight, bias)
    })
}

/// `input + a @ b` at the elements that `input` stores, of strided `a` and `b` (`torch.sparse.sampled_addmm`);
/// [`sampled_addmm_with`].
///
/// ```
/// use torsh_sparse::{self as sparse, SparseExt};
/// use torsh_tensor::tensor;
/// let input = tensor![[0.0, 1.0]].to_sparse_csr()?;
/// let y = sparse::sampled_addmm(&input, &tensor![[2.0]], &tensor![[7.0, 5.0]])?;
/// assert_eq!(y.to_dense()?, tensor![[0.0, 11.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`sampled_addmm_with`].
#[track_caller]
pub fn sampled_addmm(input: &Tensor, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    sampled_addmm_with(input, a, b, AddmmOptions::new())
}

/// `beta * input + alpha * (a @ b)` at the elements that `input` stores: the scores of the edges of a graph, from the features
/// of their ends.
///
/// `input` is sparse, `[.., n, m]`; `a` of `[.., n, k]` and `b` of `[.., k, m]` are strided and have its dtype. Nothing of the
/// size `n` by `m` is made.
///
/// ```
/// use torsh_sparse::{self as sparse, SparseExt};
/// use torsh_tensor::{AddmmOptions, tensor};
/// let input = tensor![[0.0, 1.0]].to_sparse_csr()?;
/// let options = AddmmOptions::new().beta(0);
/// let y = sparse::sampled_addmm_with(&input, &tensor![[2.0]], &tensor![[7.0, 5.0]], options)?;
/// assert_eq!(y.to_dense()?, tensor![[0.0, 10.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If `input` is strided or one of the others sparse, the shapes do not go together, or the dtypes differ.
#[torsh_tensor::names_caller]
pub fn sampled_addmm_with(
    input: &Tensor,
    a: &Tensor,
    b: &Tensor,
    options: AddmmOptions,
) -> Result<Tensor> {
    within("sparse.sampled_addmm", &[input, a, b], || {
        pattern_of(input)?;
        if a.pattern().is_some() || b.pattern().is_some() {
            return Err(TorshError::invalid("", "mat1 and mat2 must be strided"));
        }
        one_dtype(input, a)?;
        one_dtype(a, b)?;
        let (batch, [n, m]) = matrix(input.dims())?;
        let ((of_a, [rows, k]), (of_b, [k2, columns])) = (matrix(a.dims())?, matrix(b.dims())?);
        if k != k2 {
            return Err(TorshError::shape(
                "",
                format!(
                    "mat1 and mat2 shapes cannot be multiplied ({rows}x{k} and {k2}x{columns})"
                ),
            ));
        }
        if (rows, columns) != (n, m) || of_a != batch || of_b != batch {
            return Err(TorshError::shape(
                "",
                format!(
                    "the product of {} and {} has not the input's shape {}",
                    a.shape(),
                    b.shape(),
                    input.shape()
                ),
            ));
        }
        // An element that is stored twice has one product.
        let input = &settled(input)?;
        let pattern = pattern_of(input)?;
        let count = help::product(batch)?;
        let x = a.reshape([help::product(&[count, n])?, k])?;
        let y = b
            .transpose(-2, -1)?
            .reshape([help::product(&[count, m])?, k])?;
        let product = scaled(&sampled(&carrier(&pattern)?, &x, &y)?, options.alpha)?;
        let values = match is(options.beta, 0.0) {
            true => product,
            false => scaled(&flat_values(input)?, options.beta)?.add(&product)?,
        };
        from_flat(&pattern, &values)
    })
}

/// The rows of a matrix in which a pattern stores elements, ascending, as int64 indices; the product of these rows and a dense
/// matrix; recorded.
fn stored_rows(a: &Tensor, b: &Tensor) -> Result<(Tensor, Tensor)> {
    let pattern = pattern_of(a)?;
    if a.dims()[1] != b.dims()[0] {
        return Err(mismatch(a, b));
    }
    one_dtype(a, b)?;
    let (rows, reduced) = no_grad(|| {
        let all = lines(&pattern, false)?;
        let n = all.count;
        let counts = all
            .pointers
            .narrow(0, 1, n)?
            .sub(&all.pointers.narrow(0, 0, n)?)?;
        let stored = counts.gt(0)?;
        let rows = stored.nonzero()?.reshape([-1i64])?;
        // The same elements in the rows that are left.
        let number = stored.to_dtype(DType::I64)?.cumsum(0)?.sub(1)?;
        let places = elements(&pattern)?;
        let renumbered = number.index_select(0, &places.rows)?;
        let indices = Tensor::stack(&[renumbered, places.columns.clone()], 0)?;
        let shape = [rows.numel(), a.dims()[1]];
        Ok::<_, TorshError>((
            rows,
            Pattern::coo(
                &shape,
                &indices,
                pattern.is_coalesced() && pattern.layout() == TensorLayout::SparseCoo,
            )?,
        ))
    })?;
    Ok((
        rows,
        product(&flat_values(a)?, &carrier(&reduced)?, b, false)?,
    ))
}

fn check_coo(t: &Tensor, what: &str) -> Result<()> {
    match t.layout() == TensorLayout::SparseCoo && t.ndim() == 2 {
        true => Ok(()),
        false => Err(TorshError::invalid(
            "",
            format!(
                "{what} must be a COO matrix, got {} ({})",
                t.describe(),
                t.layout()
            ),
        )
        .with_hint("to_sparse() makes a COO tensor")),
    }
}

/// The rows of a product that are not empty as a COO tensor of all their elements.
fn sum_of_coo(
    input: Option<(&Tensor, Scalar)>,
    a: &Tensor,
    b: &Tensor,
    alpha: Scalar,
) -> Result<Tensor> {
    check_coo(a, "mat1")?;
    two_dims(b)?;
    if b.pattern().is_some() {
        return Err(TorshError::invalid("", "mat2 must be strided"));
    }
    let (n, m) = (a.dims()[0], b.dims()[1]);
    let (rows, product) = stored_rows(a, b)?;
    let r = rows.numel();
    let row = rows.unsqueeze(1)?.expand([r, m])?.reshape([r * m])?;
    let column = Tensor::arange(0, m as i64, 1, DType::I64, a.device())?.unsqueeze(0)?;
    let column = column.expand([r, m])?.reshape([r * m])?;
    let mut indices = Tensor::stack(&[row, column], 0)?;
    let mut values = scaled(&product, alpha)?.reshape([r * m])?;
    if let Some((input, beta)) = input {
        check_coo(input, "input")?;
        one_dtype(input, a)?;
        if input.dims() != [n, m] {
            return Err(TorshError::shape(
                "",
                format!(
                    "input has the shape {}, the product {:?}",
                    input.shape(),
                    [n, m]
                ),
            ));
        }
        indices = Tensor::cat(&[pattern_of(input)?.indices(), &indices], 1)?;
        values = Tensor::cat(&[&scaled(&flat_values(input)?, beta)?, &values], 0)?;
    }
    let pattern = Pattern::coo(&[n, m], &indices, false)?;
    sparse::from_values(&pattern, &values)
}

/// `input + a @ b` as a COO tensor, of COO `input` and `a` and a strided `b` (`torch.sspaddmm`); [`sspaddmm_with`].
///
/// ```
/// use torsh_sparse::{self as sparse, SparseExt};
/// use torsh_tensor::tensor;
/// let (x, a) = (tensor![[1.0], [0.0]].to_sparse()?, tensor![[0.0], [2.0]].to_sparse()?);
/// assert_eq!(sparse::sspaddmm(&x, &a, &tensor![[5.0]])?.to_dense()?, tensor![[1.0], [10.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`sspaddmm_with`].
#[track_caller]
pub fn sspaddmm(input: &Tensor, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    sspaddmm_with(input, a, b, AddmmOptions::new())
}

/// `beta * input + alpha * (a @ b)` as a COO tensor, which stores the elements of `input` and the rows of the product that are
/// not empty. It is not coalesced.
///
/// ```
/// use torsh_sparse::{self as sparse, SparseExt};
/// use torsh_tensor::{AddmmOptions, tensor};
/// let (x, a) = (tensor![[1.0], [0.0]].to_sparse()?, tensor![[0.0], [2.0]].to_sparse()?);
/// let y = sparse::sspaddmm_with(&x, &a, &tensor![[5.0]], AddmmOptions::new().alpha(2))?;
/// assert_eq!(y.to_dense()?, tensor![[1.0], [20.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If `input` and `a` are no COO matrices or `b` no strided one, the shapes do not go together, or the dtypes differ.
#[torsh_tensor::names_caller]
pub fn sspaddmm_with(
    input: &Tensor,
    a: &Tensor,
    b: &Tensor,
    options: AddmmOptions,
) -> Result<Tensor> {
    within("sspaddmm", &[input, a, b], || {
        sum_of_coo(Some((input, options.beta)), a, b, options.alpha)
    })
}

/// The product of a COO and a strided matrix as a COO matrix, which stores the rows that are not empty (`torch.smm`).
///
/// ```
/// use torsh_sparse::{self as sparse, SparseExt};
/// use torsh_tensor::tensor;
/// let a = tensor![[0.0], [2.0]].to_sparse()?;
/// let y = sparse::smm(&a, &tensor![[5.0]])?;
/// assert!(y.is_sparse());
/// assert_eq!(y.to_dense()?, tensor![[0.0], [10.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If `a` is no COO matrix or `b` no strided one, the shapes do not go together, or the dtypes differ.
#[torsh_tensor::names_caller]
pub fn smm(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    within("smm", &[a, b], || sum_of_coo(None, a, b, Scalar::Int(1)))
}

/// The product of a COO and a strided matrix as a COO tensor whose elements are rows (`torch.hspmm`): it stores the rows that
/// are not empty, and has one dense dimension.
///
/// ```
/// use torsh_sparse::{self as sparse, SparseExt};
/// use torsh_tensor::tensor;
/// let a = tensor![[0.0], [2.0]].to_sparse()?;
/// let y = sparse::hspmm(&a, &tensor![[5.0, 6.0]])?;
/// assert_eq!(y.dense_dim(), 1);
/// assert_eq!(y.to_dense()?, tensor![[0.0, 0.0], [10.0, 12.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If `a` is no COO matrix or `b` no strided one, the shapes do not go together, or the dtypes differ.
#[torsh_tensor::names_caller]
pub fn hspmm(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    within("hspmm", &[a, b], || {
        check_coo(a, "mat1")?;
        two_dims(b)?;
        if b.pattern().is_some() {
            return Err(TorshError::invalid("", "mat2 must be strided"));
        }
        let (rows, product) = stored_rows(a, b)?;
        let pattern = Pattern::coo(&[a.dims()[0], b.dims()[1]], &rows.unsqueeze(0)?, false)?;
        sparse::from_values(&pattern, &product)
    })
}

/// A sparse matrix of these sizes, with some elements at every call.
fn coo(s: &mut Sampler, n: usize, m: usize) -> Result<Tensor> {
    let list: Vec<i64> = (0..n as i64)
        .chain((0..n as i64).map(|i| (i * 2 + 1) % m as i64))
        .collect();
    let indices = Tensor::from_data(&list, [2, n])?;
    sparse::from_values(&Pattern::coo(&[n, m], &indices, true)?, &s.real(&[n])?)
}

/// As [`coo`], by rows.
fn csr_of(s: &mut Sampler, n: usize, m: usize) -> Result<Tensor> {
    let pointers: Vec<i64> = (0..=n as i64).collect();
    let columns: Vec<i64> = (0..n as i64).map(|i| (i * 2 + 1) % m as i64).collect();
    let (pointers, columns) = (
        Tensor::from_data(&pointers, n + 1)?,
        Tensor::from_data(&columns, n)?,
    );
    let pattern = Pattern::compressed(
        TensorLayout::SparseCsr,
        &[n, m],
        &pointers,
        &columns,
        None,
        0,
    )?;
    sparse::from_values(&pattern, &s.real(&[n])?)
}

static MM: OpRecord = OpRecord::new(
    "sparse.mm",
    "The product of a sparse and another matrix, with the gradient of the sparse one at its elements; reduce takes their mean, largest or smallest in place of the sum.",
    "(Tensor sparse, Tensor dense, str? reduce=None)",
)
.by_name(|b| {
    let (x, y) = (b.tensor(0)?, b.tensor(1)?);
    let out = match b.is_none(2) {
        true => mm(x, y),
        false => spmm(x, y, b.str(2)),
    };
    out.map(Value::Tensor)
})
.samples(|s| {
    Ok(vec![
        sample![coo(s, 3, 4)?, s.real(&[4, 2])?],
        sample![csr_of(s, 3, 4)?, s.real(&[4, 2])?],
        sample![s.real(&[2, 3])?, csr_of(s, 3, 4)?],
        sample![csr_of(s, 3, 4)?, s.real(&[4, 2])?, "mean"],
    ])
});

#[torsh_tensor::by_name(addmm_with(.., AddmmOptions))]
static ADDMM: OpRecord = OpRecord::new(
    "sparse.addmm",
    "beta * mat + alpha * (mat1 @ mat2) of a sparse mat1, with its gradient at its elements.",
    "(Tensor mat, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1)",
)
.samples(|s| {
    let call = sample![s.real(&[3, 2])?, coo(s, 3, 4)?, s.real(&[4, 2])?];
    Ok(vec![call.kw("beta", 2.0).kw("alpha", 0.5)])
});

#[torsh_tensor::by_name(sampled_addmm_with(.., AddmmOptions))]
static SAMPLED_ADDMM: OpRecord = OpRecord::new(
    "sparse.sampled_addmm",
    "beta * input + alpha * (mat1 @ mat2) at the elements that input stores.",
    "(Tensor input, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1)",
)
.samples(|s| {
    let call = sample![csr_of(s, 3, 4)?, s.real(&[3, 2])?, s.real(&[2, 4])?];
    Ok(vec![call.kw("beta", 0.5).kw("alpha", 2.0)])
});

#[torsh_tensor::by_name(sspaddmm_with(.., AddmmOptions))]
static SSPADDMM: OpRecord = OpRecord::new(
    "sspaddmm",
    "beta * input + alpha * (mat1 @ mat2) of COO matrices input and mat1, as a COO matrix.",
    "(Tensor input, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1)",
)
.samples(|s| {
    Ok(vec![sample![
        coo(s, 3, 2)?,
        coo(s, 3, 4)?,
        s.real(&[4, 2])?
    ]])
});

#[torsh_tensor::by_name(hspmm)]
static HSPMM: OpRecord = OpRecord::new(
    "hspmm",
    "The product of a COO and a strided matrix, as a COO tensor of rows.",
    "(Tensor mat1, Tensor mat2)",
)
.samples(|s| Ok(vec![sample![coo(s, 3, 4)?, s.real(&[4, 2])?]]));

#[torsh_tensor::by_name(smm)]
static SMM: OpRecord = OpRecord::new(
    "smm",
    "The product of a COO and a strided matrix, as a COO matrix.",
    "(Tensor input, Tensor mat)",
)
.samples(|s| Ok(vec![sample![coo(s, 3, 4)?, s.real(&[4, 2])?]]));

#[torsh_tensor::by_name(solve::spsolve)]
static SPSOLVE: OpRecord = OpRecord::new(
    "sparse.spsolve",
    "The solution of a system with a sparse matrix: a triangular one, or with the feature linalg any square one.",
    "(Tensor input, Tensor other)",
)
.samples(|s| {
    // 3 on the diagonal, and a corner.
    let indices = Tensor::from_data(&[0i64, 1, 2, 2, 0, 1, 0, 2], [2, 4])?;
    let values = s.real(&[4])?.add(3.0)?;
    let a = sparse::from_values(&Pattern::coo(&[3, 3], &indices, true)?, &values)?;
    Ok(vec![sample![a, s.real(&[3, 2])?]])
});
