//! Products of two sparse matrices.

use smallvec::SmallVec;
use torsh_backend_cpu::sparse::{self as kernels, Index, Number, Rows};
use torsh_core::kernel::HostCall;
use torsh_core::{DType, Element, Shape, TensorLayout};
use torsh_tensor::call::{Arg, DefinitionCx, Outputs};
use torsh_tensor::record::{OpRecord, Plan};
use torsh_tensor::sparse::Pattern;
use torsh_tensor::{Result, Tensor, TorshError, no_grad};

use crate::attrs;
use crate::coalesce::coalesce;
use crate::csr::{
    Lines, carrier, conj, flat_values, from_flat, lines, matrix, numbers, one_dtype, pattern_of,
    row_of,
};
use crate::help::{first, host, index_tensor, one};

torsh_core::kernel_keys! {
    TERMS_KEY "SparseTerms" |c| numbers!(c, terms_host);
}

/// The kernel: operands are values, pointers and indices of the first matrix, then of the second, pointers and indices of the
/// places, and where the values of each matrix are.
pub(crate) static TERMS: OpRecord = OpRecord::new(
    "_sparse_terms",
    "Elements of the product of two sparse matrices at some places.",
    "(Tensor a, Tensor a_pointers, Tensor a_indices, Tensor b, Tensor b_pointers, Tensor b_indices, Tensor pointers, Tensor indices, Tensor? a_order, Tensor? b_order, *, bool transposed_a, bool transposed_b, bool transposed_c, bool inner)",
)
.internal()
.with_key(&TERMS_KEY, |c| {
    let dtype = one_dtype(c.tensor(0)?, c.tensor(3)?)?;
    Ok(Plan::one(dtype, Shape::new(&[c.tensor(7)?.numel()]), dtype))
})
.definition(terms_by_ops)
.constant();

/// The terms by ops: each element of the first matrix meets the whole line of the second that belongs to it, and what falls
/// on no place is dropped.
fn terms_by_ops(c: &DefinitionCx<'_>) -> Result<Outputs> {
    let inner = c.attrs::<attrs::SparseTerms>()?.inner;
    let wide = |i: usize| c.tensor(i)?.to_dtype(DType::I64);
    let ordered = |values: usize, order: usize| match c.opt_tensor(order) {
        Some(order) => c.tensor(values)?.index_select(0, order),
        None => c.tensor(values),
    };
    let (a, b) = (ordered(0, 8)?, ordered(3, 9)?);
    let (ap, ai, bp, bi) = (wide(1)?, wide(2)?, wide(4)?, wide(5)?);
    let (cp, ci) = (wide(6)?, wide(7)?);
    let (na, nb, nc) = (ai.numel(), bi.numel(), ci.numel());
    if na == 0 || nb == 0 || nc == 0 {
        return Ok(one(Tensor::zeros(nc, a.dtype(), a.device())?));
    }
    let (ar, br, cr) = (row_of(&ap, na)?, row_of(&bp, nb)?, row_of(&cp, nc)?);
    // Row and column of the second matrix, whichever way it is read.
    let (b_row, b_column) = if inner { (bi, br) } else { (br, bi) };
    let pairs = ai.unsqueeze(1)?.eq(&b_row.unsqueeze(0)?)?.nonzero()?;
    let (p, q) = (pairs.select(1, 0)?, pairs.select(1, 1)?);
    let terms = a.index_select(0, &p)?.mul(&b.index_select(0, &q)?)?;
    let (row, column) = (ar.index_select(0, &p)?, b_column.index_select(0, &q)?);
    let hits = row.unsqueeze(1)?.eq(&cr.unsqueeze(0)?)?;
    let hits = hits
        .logical_and(&column.unsqueeze(1)?.eq(&ci.unsqueeze(0)?)?)?
        .nonzero()?;
    let (term, place) = (hits.select(1, 0)?, hits.select(1, 1)?);
    let zeros = Tensor::zeros(nc, a.dtype(), a.device())?;
    Ok(one(zeros.index_add(
        0,
        &place,
        &terms.index_select(0, &term)?,
    )?))
}

/// Widths are not among the operands: those of the first matrix are rows of the second, or its width where that is read by
/// columns, which no index of either passes. So the kernel takes the least that all indices allow.
fn terms_host<T: Number, I: Index + Element>(c: &mut HostCall<'_>) -> Result<()> {
    let inner = c.attrs::<attrs::SparseTerms>()?.inner;
    let (a, a_pointers, a_indices) = (c.input::<T>(0)?, c.input::<I>(1)?, c.input::<I>(2)?);
    let (b, b_pointers, b_indices) = (c.input::<T>(3)?, c.input::<I>(4)?, c.input::<I>(5)?);
    let (pointers, indices) = (c.input::<I>(6)?, c.input::<I>(7)?);
    let (a_order, b_order) = (c.input::<i64>(8).ok(), c.input::<i64>(9).ok());
    let bound = |lists: &[&[I]]| {
        let all = lists.iter().flat_map(|l| l.iter());
        all.map(|i| i.place().saturating_add(1)).max().unwrap_or(0)
    };
    let lines = b_pointers.len().saturating_sub(1);
    let (a_width, b_width) = match inner {
        false => (lines, bound(&[&b_indices, &indices])),
        true => {
            let width = bound(&[&a_indices, &b_indices]);
            (width, width)
        }
    };
    let a = Rows::new(&a_pointers, &a_indices, &a, a_order.as_deref(), a_width)?;
    let b = Rows::new(&b_pointers, &b_indices, &b, b_order.as_deref(), b_width)?;
    let (places, out) = ((&pointers[..], &indices[..]), c.output::<T>(0)?);
    match inner {
        false => kernels::masked_product(a, b, places, out),
        true => kernels::masked_inner_products(a, b, places, out),
    }
}

/// A factor, or the places: a tensor of the pattern, transposed or not.
#[derive(Clone, Copy)]
struct Side<'a> {
    carrier: &'a Tensor,
    transposed: bool,
}

impl Side<'_> {
    fn lines(&self, transposed: bool) -> Result<std::sync::Arc<Lines>> {
        lines(&pattern_of(self.carrier)?, self.transposed != transposed)
    }
    fn nnz(&self) -> Result<usize> {
        Ok(pattern_of(self.carrier)?.values_shape().numel())
    }
    /// Transposed once more.
    fn t(self) -> Self {
        Side {
            transposed: !self.transposed,
            ..self
        }
    }
}

/// All indices as one dtype, int64 unless all are int32.
fn alike(lists: &[&Lines]) -> Result<Vec<Lines>> {
    let wide = lists.iter().any(|l| l.indices.dtype() == DType::I64);
    let dtype = if wide { DType::I64 } else { DType::I32 };
    let of = |l: &&Lines| {
        Ok(Lines {
            pointers: l.pointers.to_dtype(dtype)?,
            indices: l.indices.to_dtype(dtype)?,
            ..(*l).clone()
        })
    };
    lists.iter().map(of).collect()
}

/// The values of the product of `a` and `b` at the places of `c`, in the order in which those are stored; not recorded.
fn plain([(a, x), (b, y)]: [(&Tensor, Side<'_>); 2], c: Side<'_>) -> Result<Tensor> {
    // By rows, or by the transposed product of the transposed matrices: inner products are of columns of the right matrix, so
    // that the side with the shorter lines should be on the right.
    let (nx, ny, nc) = (x.nnz()?, y.nnz()?, c.nnz()?);
    let (left, right) = (x.lines(false)?, y.lines(true)?);
    let inner_dim = left.width;
    let of_right = ny as f64 / right.count.max(1) as f64;
    let of_left = nx as f64 / left.count.max(1) as f64;
    if of_left < of_right && kernels::by_inner_products(ny, nx, nc, [inner_dim, left.count]) {
        return by([(b, y.t()), (a, x.t())], c.t(), true);
    }
    let inner = kernels::by_inner_products(nx, ny, nc, [inner_dim, right.count]);
    by([(a, x), (b, y)], c, inner)
}

fn by([(a, x), (b, y)]: [(&Tensor, Side<'_>); 2], c: Side<'_>, inner: bool) -> Result<Tensor> {
    no_grad(|| {
        let (left, right, places) = (x.lines(false)?, y.lines(inner)?, c.lines(false)?);
        let all = alike(&[&left, &right, &places])?;
        let [left, right, places] = &all[..] else {
            unreachable!("as many as were given")
        };
        let (a, b) = (a.contiguous()?, b.contiguous()?);
        let args = [
            Arg::T(&a),
            Arg::T(&left.pointers),
            Arg::T(&left.indices),
            Arg::T(&b),
            Arg::T(&right.pointers),
            Arg::T(&right.indices),
            Arg::T(&places.pointers),
            Arg::T(&places.indices),
            left.order(),
            right.order(),
        ];
        let attrs = attrs::SparseTerms {
            transposed_a: x.transposed,
            transposed_b: y.transposed,
            transposed_c: c.transposed,
            inner,
        };
        let out = TERMS.call1(&args, &attrs)?;
        match &places.order {
            Some(order) => {
                let zeros = Tensor::zeros(out.shape(), out.dtype(), out.device())?;
                zeros.index_copy(0, order, &out)
            }
            None => Ok(out),
        }
    })
}

/// The elements of the product of two sparse matrices at the places of a third: operands are flat values and a tensor of the
/// pattern of each factor, and a tensor of the places' pattern.
pub(crate) static AT_PLACES: OpRecord = OpRecord::new(
    "_sparse_masked_product",
    "The values of the product of two sparse matrices at the places of a pattern.",
    "(Tensor a, Tensor a_pattern, Tensor b, Tensor b_pattern, Tensor pattern, *, bool transposed_a, bool transposed_b, bool transposed_c, bool inner)",
)
.internal()
.grads(0b11111, 0, |c| {
    let a = c.attrs::<attrs::SparseTerms>()?;
    let (x, y, z) = (c.input(1)?, c.input(3)?, c.input(4)?);
    let x = Side { carrier: &x, transposed: a.transposed_a };
    let y = Side { carrier: &y, transposed: a.transposed_b };
    let z = Side { carrier: &z, transposed: a.transposed_c };
    let g = crate::csr::strided(c.g())?;
    let to_a = match c.needs(0) {
        true => Some(at_places((&g, z), (&conj(&c.input(2)?)?, y.t()), x)?),
        false => None,
    };
    let to_b = match c.needs(2) {
        true => Some(at_places((&conj(&c.input(0)?)?, x.t()), (&g, z), y)?),
        false => None,
    };
    Ok(SmallVec::from_iter([to_a, None, to_b, None, None]))
});

#[track_caller]
fn at_places(a: (&Tensor, Side<'_>), b: (&Tensor, Side<'_>), places: Side<'_>) -> Result<Tensor> {
    let out = plain([a, b], places)?;
    let attrs = attrs::SparseTerms {
        transposed_a: a.1.transposed,
        transposed_b: b.1.transposed,
        transposed_c: places.transposed,
        inner: false,
    };
    let args = [
        Arg::T(a.0),
        Arg::T(a.1.carrier),
        Arg::T(b.0),
        Arg::T(b.1.carrier),
        Arg::T(places.carrier),
    ];
    first(AT_PLACES.recorded(&args, &attrs, one(out))?)
}

/// The pattern of the product of two sparse matrices: COO where a factor is, else CSR.
fn pattern(a: &Pattern, b: &Pattern, batch: &[usize], [n, m]: [usize; 2]) -> Result<Pattern> {
    let device = a.indices().device();
    let compressed =
        [a, b].iter().all(|p| p.layout() != TensorLayout::SparseCoo) && batch.is_empty();
    let (left, right) = (lines(a, false)?, lines(b, false)?);
    if !device.has_data() {
        return Err(TorshError::invalid(
            "",
            "which elements a product of sparse tensors has is not known without their indices",
        )
        .with_hint("compute it on a device that has data"));
    }
    let read = |l: &Lines| Ok::<_, TorshError>((host(&l.pointers)?, host(&l.indices)?));
    let ((p, i), (q, j)) = (read(&left)?, read(&right)?);
    let (pointers, columns) = kernels::product_pattern((&p, &i), (&q, &j), right.width)?;
    let shape = [batch, &[n, m]].concat();
    let nnz = columns.len();
    if compressed {
        let narrow = [&left, &right]
            .iter()
            .all(|l| l.indices.dtype() == DType::I32)
            && nnz <= i32::MAX as usize;
        let dtype = if narrow { DType::I32 } else { DType::I64 };
        let pointers = index_tensor(pointers, &[n + 1], dtype, device)?;
        let columns = index_tensor(columns, &[nnz], dtype, device)?;
        return Pattern::compressed(
            TensorLayout::SparseCsr,
            &shape,
            &pointers,
            &columns,
            None,
            0,
        );
    }
    // Row and column of matrices one behind the other are those of the batch, and of the matrix.
    let dims = shape.len();
    let mut data = vec![0i64; dims * nnz];
    for (row, w) in pointers.windows(2).enumerate() {
        for e in w[0] as usize..w[1] as usize {
            data[(dims - 2) * nnz + e] = (row % n.max(1)) as i64;
            data[(dims - 1) * nnz + e] = columns[e] % m.max(1) as i64;
            let mut rest = row / n.max(1);
            for d in (0..batch.len()).rev() {
                data[d * nnz + e] = (rest % batch[d]) as i64;
                rest /= batch[d];
            }
        }
    }
    let indices = index_tensor(data, &[dims, nnz], DType::I64, device)?;
    Pattern::coo(&shape, &indices, true)
}

/// The product of two sparse matrices, or of two batches of as many, recorded: gradients have the patterns of the factors.
pub(crate) fn matmul(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    one_dtype(a, b)?;
    let once = |t: &Tensor| match t.layout() {
        TensorLayout::SparseCoo => coalesce(t),
        _ => Ok(t.clone()),
    };
    let (a, b) = (once(a)?, once(b)?);
    let ((of_a, [n, k]), (of_b, [k2, m])) = (matrix(a.dims())?, matrix(b.dims())?);
    if k != k2 {
        return Err(mismatch(&a, &b));
    }
    if of_a != of_b {
        return Err(TorshError::shape(
            "",
            format!(
                "the batches of {} and {} are not the same",
                a.shape(),
                b.shape()
            ),
        )
        .with_hint("batches of two sparse tensors do not broadcast"));
    }
    let (x, y) = (pattern_of(&a)?, pattern_of(&b)?);
    let z = no_grad(|| pattern(&x, &y, of_a, [n, m]))?;
    let (cx, cy, cz) = (carrier(&x)?, carrier(&y)?, carrier(&z)?);
    let side = |carrier| Side {
        carrier,
        transposed: false,
    };
    let values = at_places(
        (&flat_values(&a)?, side(&cx)),
        (&flat_values(&b)?, side(&cy)),
        side(&cz),
    )?;
    from_flat(&z, &values)
}

/// Sizes that cannot be multiplied.
#[cold]
pub(crate) fn mismatch(a: &Tensor, b: &Tensor) -> TorshError {
    TorshError::shape(
        "",
        format!(
            "the shapes {} and {} cannot be multiplied",
            a.shape(),
            b.shape()
        ),
    )
    .with_hint("the last size of the first must be the last but one (or only) size of the second")
}
