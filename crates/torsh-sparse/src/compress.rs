//! Compressed indices: their invariants, and tensors of compressed layouts from their parts.

use torsh_core::{DType, TensorLayout};
use torsh_tensor::sparse::{self, Pattern};
use torsh_tensor::{Result, Tensor, TorshError};

use crate::coords::Coords;
use crate::create::verified;
use crate::help::{host, named, product, within};

/// How PyTorch's errors name the parts of a compressed layout.
struct Names {
    compressed: &'static str,
    plain: &'static str,
    /// The compressed dimension and the other one.
    lines: &'static str,
    counts: [&'static str; 2],
}

fn names(layout: TensorLayout) -> Names {
    match layout.by_rows() {
        true => Names {
            compressed: "crow_indices",
            plain: "col_indices",
            lines: if layout.is_blocked() {
                "row blocks"
            } else {
                "rows"
            },
            counts: ["nrows", "ncols"],
        },
        false => Names {
            compressed: "ccol_indices",
            plain: "row_indices",
            lines: if layout.is_blocked() {
                "column blocks"
            } else {
                "columns"
            },
            counts: ["ncols", "nrows"],
        },
    }
}

/// The name of the constructor of a layout.
fn constructor(layout: TensorLayout) -> &'static str {
    match layout {
        TensorLayout::SparseCsr => "sparse_csr_tensor",
        TensorLayout::SparseCsc => "sparse_csc_tensor",
        TensorLayout::SparseBsr => "sparse_bsr_tensor",
        TensorLayout::SparseBsc => "sparse_bsc_tensor",
        _ => "sparse_compressed_tensor",
    }
}

/// PyTorch's name of an index dtype.
fn aten(dtype: DType) -> &'static str {
    match dtype {
        DType::I64 => "Long",
        DType::I32 => "Int",
        DType::I16 => "Short",
        DType::I8 => "Char",
        DType::U8 => "Byte",
        DType::Bool => "Bool",
        DType::F32 => "Float",
        DType::F64 => "Double",
        other => other.name(),
    }
}

/// A tensor of a compressed layout from its compressed indices, plain indices and values.
pub(crate) fn create(
    layout: TensorLayout,
    parts: [&Tensor; 3],
    size: Option<&[i64]>,
) -> Result<Tensor> {
    within(constructor(layout), &parts, || {
        if !layout.is_compressed() {
            return Err(TorshError::invalid(
                "",
                format!(
                    "sparse_compressed_tensor expected sparse compressed tensor layout but got {}",
                    named(layout)
                ),
            ));
        }
        if let Some(part) = parts.iter().find(|p| !p.layout().is_strided()) {
            return Err(TorshError::invalid(
                "",
                format!(
                    "expected compressed_indices, plain_indices, and values to be strided, but got {}",
                    part.layout()
                ),
            ));
        }
        let pattern = pattern_of(layout, parts, size)?;
        verified(&pattern)?;
        sparse::from_values(&pattern, parts[2])
    })
}

/// The pattern of the parts, whose shapes and dtypes are checked in PyTorch's order.
fn pattern_of(
    layout: TensorLayout,
    [compressed, plain, values]: [&Tensor; 3],
    size: Option<&[i64]>,
) -> Result<Pattern> {
    let n = names(layout);
    let refuse = |text: String| Err(TorshError::shape("", text));
    let Some(batch) = compressed.ndim().checked_sub(1) else {
        return refuse(format!(
            "{} must have dimensionality >= 1 but got 0",
            n.compressed
        ));
    };
    if plain.ndim() != compressed.ndim() {
        return refuse(format!(
            "{} and {} dimensionalities must be equal but got {} and {}, respectively",
            n.compressed,
            n.plain,
            compressed.ndim(),
            plain.ndim()
        ));
    }
    let block_dim = if layout.is_blocked() { 2 } else { 0 };
    let Some(dense) = values.ndim().checked_sub(batch + block_dim + 1) else {
        return refuse(format!(
            "values must have dimensionality > sum of batch and block dimensionalities (={batch} + {block_dim}) but got {}",
            values.ndim()
        ));
    };
    let block = match layout.is_blocked() {
        true => Some([values.dims()[batch + 1], values.dims()[batch + 2]]),
        false => None,
    };
    let sizes = match size {
        Some(size) => size.to_vec(),
        None => inferred(layout, [compressed, plain, values], batch, block)?,
    };
    if sizes.len() != batch + 2 + dense {
        return refuse(format!(
            "tensor dimensionality must be sum of batch, base, and dense dimensionalities (={batch} + 2 + {dense}) but got {}",
            sizes.len()
        ));
    }
    if let Some(negative) = sizes.iter().find(|&&s| s < 0) {
        return Err(TorshError::invalid(
            "",
            format!("Trying to create tensor with negative dimension {negative}: {sizes:?}"),
        ));
    }
    let shape: Vec<usize> = sizes.iter().map(|&s| s as usize).collect();
    for (i, &b) in block.iter().flatten().enumerate() {
        let side = shape[batch + i];
        if b == 0 || !side.is_multiple_of(b) {
            return refuse(format!(
                "tensor shape[{}] (={side}) must be divisible with blocksize[{i}] (={b}) as defined by values shape",
                batch + i
            ));
        }
    }
    let along = if layout.by_rows() { 0 } else { 1 };
    let lines = shape[batch + along] / block.map_or(1, |b| b[along]);
    let have = compressed.dims()[batch];
    if have != lines + 1 {
        return refuse(format!(
            "{}.shape[-1] must be equal to the number of {} + 1 (={}), but got {have}",
            n.compressed,
            n.lines,
            lines + 1
        ));
    }
    let nnz = values.dims()[batch];
    if plain.dims()[batch] != nnz {
        return refuse(format!(
            "{}.shape[-1] must be equal to nnz (={nnz}) as defined by values.shape[{batch}], but got {}",
            n.plain,
            plain.dims()[batch]
        ));
    }
    let batches = [compressed, plain, values].map(|t| &t.dims()[..batch]);
    if batches.iter().any(|b| *b != &shape[..batch]) {
        return refuse(format!(
            "all batch dimensions of {} (={:?}), {} (={:?}), and values (={:?}) must be equal to tensor batch dimensions (={:?})",
            n.compressed,
            batches[0],
            n.plain,
            batches[1],
            batches[2],
            &shape[..batch]
        ));
    }
    let of_values = &values.dims()[batch + block_dim + 1..];
    if of_values != &shape[batch + 2..] {
        return refuse(format!(
            "dense dimensions of values (={of_values:?}) must be equal to tensor dense dimensions (={:?})",
            &shape[batch + 2..]
        ));
    }
    if compressed.dtype() != plain.dtype() {
        return Err(TorshError::dtype(
            "",
            format!(
                "{} and {} must have the same dtype, bot got {} and {}, respectively",
                n.compressed,
                n.plain,
                aten(compressed.dtype()),
                aten(plain.dtype())
            ),
        ));
    }
    if !matches!(plain.dtype(), DType::I32 | DType::I64) {
        return Err(TorshError::dtype(
            "",
            format!(
                "{} and {} dtype must be Int or Long, but got {}",
                n.compressed,
                n.plain,
                aten(plain.dtype())
            ),
        ));
    }
    let devices = [compressed, plain, values].map(Tensor::device);
    if devices.iter().any(|d| *d != devices[2]) {
        return Err(TorshError::device(
            "",
            format!(
                "device of {} (={}) and {} (={}) must match device of values (={})",
                n.compressed, devices[0], n.plain, devices[1], devices[2]
            ),
        ));
    }
    Pattern::compressed(layout, &shape, compressed, plain, block, dense)
}

/// The smallest sizes that have all the indices.
fn inferred(
    layout: TensorLayout,
    [compressed, plain, values]: [&Tensor; 3],
    batch: usize,
    block: Option<[usize; 2]>,
) -> Result<Vec<i64>> {
    if !plain.device().has_data() {
        return Err(TorshError::invalid(
            "",
            "the sizes cannot be found without the values of the indices: give them",
        ));
    }
    let lines = compressed.dims()[batch].saturating_sub(1) as i64;
    let others = host(plain)?
        .into_iter()
        .max()
        .unwrap_or(-1)
        .saturating_add(1);
    let [b0, b1] = block.unwrap_or([1, 1]).map(|b| b as i64);
    let (rows, columns) = match layout.by_rows() {
        true => (lines, others),
        false => (others, lines),
    };
    let as_sizes = |dims: &[usize]| dims.iter().map(|&s| s as i64).collect::<Vec<_>>();
    let block_dim = if block.is_some() { 2 } else { 0 };
    Ok([
        as_sizes(&compressed.dims()[..batch]),
        vec![rows.saturating_mul(b0), columns.saturating_mul(b1)],
        as_sizes(&values.dims()[batch + block_dim + 1..]),
    ]
    .concat())
}

/// Compressed and plain indices on the host.
pub(crate) struct Lines {
    /// `lines + 1` positions for each entry of the batch.
    pub(crate) compressed: Vec<i64>,
    /// `nnz` for each entry of the batch.
    pub(crate) plain: Vec<i64>,
    /// How many entries the batch has.
    pub(crate) batch: usize,
    /// How many lines (or lines of blocks) are compressed.
    pub(crate) lines: usize,
    /// How many positions a line has.
    pub(crate) others: usize,
    /// How many elements (or blocks) an entry of the batch has.
    pub(crate) nnz: usize,
}

impl Lines {
    /// The indices of a pattern, which are not checked.
    pub(crate) fn read(pattern: &Pattern) -> Result<Lines> {
        let (Some(compressed), Some(plain)) =
            (pattern.compressed_indices(), pattern.plain_indices())
        else {
            return Err(TorshError::invalid(
                "",
                format!("a {} tensor has no compressed indices", pattern.layout()),
            ));
        };
        let shape = pattern.shape().dims();
        let at = pattern.batch_dim();
        let [b0, b1] = pattern.block().unwrap_or([1, 1]);
        let (rows, columns) = (shape[at] / b0.max(1), shape[at + 1] / b1.max(1));
        let (lines, others) = match pattern.layout().by_rows() {
            true => (rows, columns),
            false => (columns, rows),
        };
        Ok(Lines {
            compressed: host(compressed)?,
            plain: host(plain)?,
            batch: product(&shape[..at])?,
            lines,
            others,
            nnz: pattern.nnz(),
        })
    }
}

/// Refuses indices that are out of bounds, or not sorted and distinct within each line.
pub(crate) fn verify(pattern: &Pattern) -> Result<()> {
    let l = Lines::read(pattern)?;
    let n = names(pattern.layout());
    let (crow, col, [lines, others]) = (n.compressed, n.plain, n.counts);
    let refuse = |text: String| Err(TorshError::index("", text));
    let (many, nnz) = (l.others as i64, l.nnz as i64);
    if let Some(i) = l.plain.iter().position(|p| !(0..many).contains(p)) {
        return refuse(format!(
            "`0 <= {col} < {others}` is not satisfied. Index {i} is {}, and {others} is {many}",
            l.plain[i]
        ));
    }
    for b in 0..l.batch {
        let bounds = &l.compressed[b * (l.lines + 1)..][..l.lines + 1];
        let plain = &l.plain[b * l.nnz..][..l.nnz];
        let (head, tail) = (bounds[0], bounds[l.lines]);
        if head != 0 {
            return refuse(format!(
                "`{crow}[..., 0] == 0` is not satisfied. It is {head}"
            ));
        }
        if tail != nnz {
            return refuse(format!(
                "`{crow}[..., -1] == nnz` is not satisfied. It is {tail}, and nnz is {nnz}"
            ));
        }
        for (i, w) in bounds.windows(2).enumerate() {
            let count = w[1].checked_sub(w[0]);
            if count.is_none_or(|c| !(0..=many).contains(&c)) {
                return refuse(format!(
                    "`0 <= {crow}[..., 1:] - {crow}[..., :-1] <= {others}` is not satisfied. Line {i} goes from {} to {}, and {others} is {many}",
                    w[0], w[1]
                ));
            }
        }
        // The bounds go up from 0 to nnz, so each line is a part of the plain indices.
        for (i, w) in bounds.windows(2).enumerate() {
            let line = &plain[w[0] as usize..w[1] as usize];
            if let Some(at) = line.windows(2).position(|p| p[0] >= p[1]) {
                return refuse(format!(
                    "`{col}[..., {crow}[..., i - 1]:{crow}[..., i]] for all i = 1, ..., {lines} are sorted and distinct along the last dimension values` is not satisfied. Line {i} has {} before {}",
                    line[at],
                    line[at + 1]
                ));
            }
        }
    }
    Ok(())
}

/// The coordinates of the stored elements (or blocks) in batch, row and column.
pub(crate) fn coordinates(pattern: &Pattern) -> Result<Coords> {
    let l = Lines::read(pattern)?;
    let batch = &pattern.shape().dims()[..pattern.batch_dim()];
    let total = l.plain.len();
    let mut line = Vec::with_capacity(total);
    for b in 0..l.batch {
        let bounds = &l.compressed[b * (l.lines + 1)..][..l.lines + 1];
        for (i, w) in bounds.windows(2).enumerate() {
            line.extend(std::iter::repeat_n(i as i64, (w[1] - w[0]).max(0) as usize));
        }
    }
    let entries: Vec<i64> = (0..total).map(|k| (k / l.nnz.max(1)) as i64).collect();
    let mut data = crate::coords::unravel(&entries, batch).data;
    match pattern.layout().by_rows() {
        true => data.extend(line.into_iter().chain(l.plain)),
        false => data.extend(l.plain.into_iter().chain(line)),
    }
    Ok(Coords {
        rows: batch.len() + 2,
        n: total,
        data,
    })
}

/// Compressed and plain indices of elements that are sorted by batch, line and position in the line.
pub(crate) fn compressed_of(
    sorted: &Coords,
    batch: &[usize],
    lines: usize,
) -> Result<(Vec<i64>, Vec<i64>, usize)> {
    let entries = product(batch)?;
    let at = sorted
        .select_rows(0..batch.len())
        .linear(batch)
        .ok_or_else(|| TorshError::invalid("", format!("the batch {batch:?} is too large")))?;
    let nnz = match entries {
        0 => 0,
        n => sorted.n / n,
    };
    let mut compressed = vec![0i64; product(&[entries, lines + 1])?];
    for (&b, &line) in at.iter().zip(sorted.row(batch.len())) {
        compressed[b as usize * (lines + 1) + line as usize + 1] += 1;
    }
    for bounds in compressed.chunks_exact_mut(lines + 1) {
        for i in 0..lines {
            bounds[i + 1] += bounds[i];
        }
        if bounds[lines] != nnz as i64 {
            return Err(TorshError::invalid(
                "",
                format!(
                    "Expect the same number of specified elements per batch: one has {}, and {} elements are shared out to {entries}",
                    bounds[lines], sorted.n
                ),
            )
            .with_hint("the layout COO has batches of different numbers of elements"));
        }
    }
    Ok((compressed, sorted.row(batch.len() + 1).to_vec(), nnz))
}
