//! Products of two sparse matrices.

use smallvec::SmallVec;
use torsh_backend_cpu::sparse::{self as kernels, Index, Number, Rows};
use torsh_core::kernel::HostCall;
use torsh_core::{DType, Device, Element, Shape, TensorLayout, alloc};
use torsh_tensor::call::{Arg, DefinitionCx, Outputs};
use torsh_tensor::record::{OpRecord, Plan, Spec};
use torsh_tensor::sparse::Pattern;
use torsh_tensor::{Result, Tensor, TorshError, no_grad};

use crate::attrs;
use crate::coalesce::coalesce;
use crate::coords::coordinates;
use crate::csr::{
    Lines, carrier, conj, flat_values, from_flat, lines, matrix, one_dtype, pattern_of, row_of,
};
use crate::help::{by_dtype, first, host, index_tensor, one, product};
use crate::invariants::known;

torsh_core::kernel_keys! {
    TERMS_KEY "SparseTerms" |c| by_dtype!(c, terms_host, any indexed);
    BOUNDS_KEY "SparseProductBounds" |c| match c.input::<i64>(0) {
        Ok(_) => bounds_host::<i64>(c),
        Err(_) => bounds_host::<i32>(c),
    };
    MULTIPLY_KEY "SparseMultiply" |c| by_dtype!(c, multiply_host, any indexed);
}

/// The kernel: operands are values, pointers and indices of the first matrix, then of the second, pointers and indices of the
/// places, and where the values of each matrix are.
pub(crate) static TERMS: OpRecord = OpRecord::new(
    "_sparse_terms",
    "Elements of the product of two sparse matrices at some places.",
    "(Tensor a, Tensor a_pointers, Tensor a_indices, Tensor b, Tensor b_pointers, Tensor b_indices, Tensor pointers, Tensor indices, Tensor? a_order, Tensor? b_order, *, bool inner, int width)",
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
    let inner = c.attrs::<attrs::SparseSums>()?.inner;
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

fn terms_host<T: Number, I: Index + Element>(c: &mut HostCall<'_>) -> Result<()> {
    let &attrs::SparseSums { inner, width } = c.attrs()?;
    let (a, a_pointers, a_indices) = (c.input::<T>(0)?, c.input::<I>(1)?, c.input::<I>(2)?);
    let (b, b_pointers, b_indices) = (c.input::<T>(3)?, c.input::<I>(4)?, c.input::<I>(5)?);
    let (pointers, indices) = (c.input::<I>(6)?, c.input::<I>(7)?);
    let (a_order, b_order) = (c.input::<i64>(8).ok(), c.input::<i64>(9).ok());
    let a_width = match inner {
        false => b_pointers.len().saturating_sub(1),
        true => width,
    };
    let a = Rows::new(&a_pointers, &a_indices, &a, a_order.as_deref(), a_width)?;
    let b = Rows::new(&b_pointers, &b_indices, &b, b_order.as_deref(), width)?;
    let (places, out) = ((&pointers[..], &indices[..]), c.output_uninit::<T>(0)?);
    match inner {
        false => kernels::masked_product(a, b, places, out),
        true => kernels::masked_inner_products(a, b, places, out),
    }
}

/// The kernel that says for how many elements a product needs room: operands are pointers and indices of both matrices.
pub(crate) static BOUNDS: OpRecord = OpRecord::new(
    "_sparse_product_bounds",
    "The most elements that the rows of a product of two sparse matrices have, summed up.",
    "(Tensor pointers, Tensor indices, Tensor other_pointers, Tensor other_indices, *, int width)",
)
.internal()
.with_key(&BOUNDS_KEY, |c| {
    let shape = Shape::new(&[c.tensor(0)?.numel()]);
    Ok(Plan::one(DType::I64, shape, DType::I64))
})
.constant();

fn bounds_host<I: Index + Element>(c: &mut HostCall<'_>) -> Result<()> {
    let width = c.attrs::<attrs::SparseWidth>()?.width;
    let (pointers, indices) = (c.input::<I>(0)?, c.input::<I>(1)?);
    let (other_pointers, other_indices) = (c.input::<I>(2)?, c.input::<I>(3)?);
    kernels::product_bounds(
        (&pointers, &indices),
        (&other_pointers, &other_indices),
        width,
        c.output::<i64>(0)?,
    )
}

/// The kernel that computes pattern and values at once: operands are values, pointers and indices of both matrices, the
/// bounds, and where the values of each matrix are. Results are pointers, columns and values, with zeros behind the elements.
pub(crate) static MULTIPLY: OpRecord = OpRecord::new(
    "_sparse_multiply",
    "The product of two sparse matrices by rows.",
    "(Tensor a, Tensor a_pointers, Tensor a_indices, Tensor b, Tensor b_pointers, Tensor b_indices, Tensor bounds, Tensor? a_order, Tensor? b_order, *, int width, int room)",
)
.internal()
.with_key(&MULTIPLY_KEY, |c| {
    let dtype = one_dtype(c.tensor(0)?, c.tensor(3)?)?;
    let (index, room) = (c.tensor(1)?.dtype(), c.attrs::<attrs::SparseMultiply>()?.room);
    let spec = |n: usize, dtype| Spec::new(Shape::new(&[n]), dtype);
    let lists = [spec(c.tensor(1)?.numel(), index), spec(room, index), spec(room, dtype)];
    Ok(Plan::many(dtype, lists))
})
.constant();

fn multiply_host<T: Number, I: Index + Element>(c: &mut HostCall<'_>) -> Result<()> {
    let width = c.attrs::<attrs::SparseMultiply>()?.width;
    let (a, a_pointers, a_indices) = (c.input::<T>(0)?, c.input::<I>(1)?, c.input::<I>(2)?);
    let (b, b_pointers, b_indices) = (c.input::<T>(3)?, c.input::<I>(4)?, c.input::<I>(5)?);
    let bounds = c.input::<i64>(6)?;
    let (a_order, b_order) = (c.input::<i64>(7).ok(), c.input::<i64>(8).ok());
    let a_width = b_pointers.len().saturating_sub(1);
    let a = Rows::new(&a_pointers, &a_indices, &a, a_order.as_deref(), a_width)?;
    let b = Rows::new(&b_pointers, &b_indices, &b, b_order.as_deref(), width)?;
    let (pointers, columns) = (c.output_uninit::<I>(0)?, c.output_uninit::<I>(1)?);
    kernels::sparse_product(a, b, &bounds, pointers, columns, c.output_uninit::<T>(2)?)
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
    /// Rows and columns, of the matrices of a batch along one diagonal.
    fn sizes(&self) -> Result<[usize; 2]> {
        let pattern = pattern_of(self.carrier)?;
        let (batch, [n, m]) = matrix(pattern.shape().dims())?;
        let entries = product(batch)?;
        let [n, m] = [product(&[entries, n])?, product(&[entries, m])?];
        Ok(if self.transposed { [m, n] } else { [n, m] })
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
    with_indices(lists, if wide { DType::I64 } else { DType::I32 })
}

/// All indices as this dtype.
fn with_indices(lists: &[&Lines], dtype: DType) -> Result<Vec<Lines>> {
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
    let ([rows, terms], [_, columns]) = (x.sizes()?, y.sizes()?);
    let of_right = ny as f64 / columns.max(1) as f64;
    let of_left = nx as f64 / rows.max(1) as f64;
    if of_left < of_right && kernels::by_inner_products(ny, nx, nc, [terms, rows]) {
        return by([(b, y.t()), (a, x.t())], c.t(), true);
    }
    let inner = kernels::by_inner_products(nx, ny, nc, [terms, columns]);
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
        let width = right.width;
        let out = TERMS.call1(&args, &attrs::SparseSums { inner, width })?;
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
    "(Tensor a, Tensor a_pattern, Tensor b, Tensor b_pattern, Tensor pattern, *, bool transposed_a, bool transposed_b, bool transposed_c)",
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
    tied([a, b], places, out)
}

/// Ties the elements of a product at some places to what it was computed of.
#[track_caller]
fn tied([a, b]: [(&Tensor, Side<'_>); 2], places: Side<'_>, out: Tensor) -> Result<Tensor> {
    let attrs = attrs::SparseTerms {
        transposed_a: a.1.transposed,
        transposed_b: b.1.transposed,
        transposed_c: places.transposed,
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

/// Whether a product of two sparse matrices is compressed: it is COO where a factor is, else CSR.
fn is_compressed(a: &Pattern, b: &Pattern, batch: &[usize]) -> bool {
    [a, b].iter().all(|p| p.layout() != TensorLayout::SparseCoo) && batch.is_empty()
}

/// The pattern of a product of two sparse matrices on a device, from where its rows begin and its columns, which are on the
/// host. Rows and columns of a batch are one behind the other.
fn pattern_of_rows(
    [pointers, columns]: [&Tensor; 2],
    compressed: bool,
    batch: &[usize],
    [n, m]: [usize; 2],
    device: Device,
) -> Result<Pattern> {
    let shape = [batch, &[n, m]].concat();
    if compressed {
        let (pointers, columns) = (pointers.to_device(device)?, columns.to_device(device)?);
        let layout = TensorLayout::SparseCsr;
        let pattern = Pattern::compressed(layout, &shape, &pointers, &columns, None, 0)?;
        return known(pattern);
    }
    let (pointers, columns) = (
        pointers.to_dtype(DType::I64)?,
        columns.to_dtype(DType::I64)?,
    );
    let columns = match batch.is_empty() {
        true => columns,
        false => columns.remainder(m.max(1) as i64)?,
    };
    let rows = [batch, &[n]].concat();
    let indices = coordinates([&pointers, &columns], 1, &rows, true)?;
    known(Pattern::coo(&shape, &indices.to_device(device)?, true)?)
}

/// The pattern of the product of two sparse matrices, found on the host.
fn pattern(a: &Pattern, b: &Pattern, batch: &[usize], sizes: [usize; 2]) -> Result<Pattern> {
    let (left, right) = (lines(a, false)?, lines(b, false)?);
    let read = |l: &Lines| Ok::<_, TorshError>((host(&l.pointers)?, host(&l.indices)?));
    let ((p, i), (q, j)) = (read(&left)?, read(&right)?);
    let (pointers, columns) = kernels::product_pattern((&p, &i), (&q, &j), right.width)?;
    let narrow = [&left, &right]
        .iter()
        .all(|l| l.indices.dtype() == DType::I32)
        && columns.len() <= i32::MAX as usize;
    let dtype = if narrow { DType::I32 } else { DType::I64 };
    let counts = [pointers.len(), columns.len()];
    let pointers = index_tensor(pointers, &counts[..1], dtype, Device::Cpu)?;
    let columns = index_tensor(columns, &counts[1..], dtype, Device::Cpu)?;
    let (compressed, device) = (is_compressed(a, b, batch), a.indices().device());
    pattern_of_rows([&pointers, &columns], compressed, batch, sizes, device)
}

/// Pattern and flat values of the product of two sparse matrices of flat values in the host's memory, in one pass over its
/// terms; not recorded. `None` where there is no memory for all elements that it may have.
fn in_one_pass(
    [(a, x), (b, y)]: [(&Tensor, &Pattern); 2],
    batch: &[usize],
    sizes: [usize; 2],
) -> Result<Option<(Pattern, Tensor)>> {
    let (left, right) = (lines(x, false)?, lines(y, false)?);
    let (count, width) = (left.count, right.width);
    let last = |pointers: &Tensor| -> Result<usize> {
        let last = pointers.select(0, count)?.item::<i64>()?;
        usize::try_from(last).map_err(|_| TorshError::failed("", "a count is negative"))
    };
    let mut both = alike(&[&left, &right])?;
    let of = |l: &Lines| [l.pointers.clone(), l.indices.clone()];
    let lists: Vec<Tensor> = both.iter().flat_map(of).collect();
    let lists: Vec<Arg<'_>> = lists.iter().map(Arg::T).collect();
    let bounds = BOUNDS.call1(&lists, &attrs::SparseWidth { width })?;
    let room = last(&bounds)?;
    if alloc::check(room, size_of::<i64>() + a.dtype().size()).is_err() {
        return Ok(None);
    }
    if room > i32::MAX as usize {
        both = with_indices(&[&left, &right], DType::I64)?;
    }
    let [left, right] = &both[..] else {
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
        Arg::T(&bounds),
        left.order(),
        right.order(),
    ];
    let outs = MULTIPLY.call(&args, &attrs::SparseMultiply { width, room })?;
    let [pointers, columns, values] = &outs[..] else {
        return Err(TorshError::failed("", "the kernel gave too few results"));
    };
    let nnz = last(pointers)?;
    let used = |t: &Tensor| -> Result<Tensor> {
        match (nnz == room, kernels::fills(nnz, room)) {
            (true, _) => Ok(t.clone()),
            // No view: it becomes part of a tensor, or the result of a record.
            (_, true) => Ok(t.narrow(0, 0, nnz)?.detach()),
            _ => t.narrow(0, 0, nnz)?.copy(),
        }
    };
    let compressed = is_compressed(x, y, batch);
    let rows = [pointers, &used(columns)?];
    let pattern = pattern_of_rows(rows, compressed, batch, sizes, Device::Cpu)?;
    Ok(Some((pattern, used(values)?)))
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
    if !a.device().has_data() {
        return Err(TorshError::invalid(
            "",
            "which elements a product of sparse tensors has is not known without their indices",
        )
        .with_hint("compute it on a device that has data"));
    }
    let (of_x, of_y) = (flat_values(&a)?, flat_values(&b)?);
    let computed = match a.device().is_host() {
        true => no_grad(|| in_one_pass([(&of_x, &x), (&of_y, &y)], of_a, [n, m]))?,
        false => None,
    };
    let (z, values) = match computed {
        Some((z, values)) => (z, Some(values)),
        None => (no_grad(|| pattern(&x, &y, of_a, [n, m]))?, None),
    };
    let (cx, cy, cz) = (carrier(&x)?, carrier(&y)?, carrier(&z)?);
    let side = |carrier| Side {
        carrier,
        transposed: false,
    };
    let (a, b, places) = ((&of_x, side(&cx)), (&of_y, side(&cy)), side(&cz));
    let values = match values {
        Some(values) => tied([a, b], places, values)?,
        None => at_places(a, b, places)?,
    };
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
