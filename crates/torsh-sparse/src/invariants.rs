//! The invariants of patterns, which what reads one relies on.

use torsh_core::{Device, TensorLayout};
use torsh_tensor::sparse::Pattern;
use torsh_tensor::{Result, Tensor, TorshError};

use crate::coords::{are_lines, are_places, local};
use crate::help::{host, product};

/// Indices that were found within bounds, kept with a pattern until they are written.
struct Within;

/// The same of indices that are in order too.
struct InOrder;

/// Checks the indices of a pattern: once for each time that they were written, so that calling it again costs nothing.
///
/// # Errors
/// An index out of bounds, or out of the order that the layout has.
pub(crate) fn verified(pattern: &Pattern) -> Result<()> {
    let check = || match (pattern.indices().device().has_data(), pattern.layout()) {
        (false, _) => Ok(()),
        (true, TensorLayout::SparseCoo) => verify_coo(pattern),
        (true, _) => verify_compressed(pattern),
    };
    match pattern.is_coalesced() {
        true => pattern.cached(|| check().map(|()| InOrder)).map(drop),
        false => pattern.cached(|| check().map(|()| Within)).map(drop),
    }
}

/// Says of a pattern that was made with the invariants that they need no check, until its indices are written.
pub(crate) fn known(pattern: Pattern) -> Result<Pattern> {
    match pattern.is_coalesced() {
        true => pattern.cached(|| Ok(InOrder)).map(drop)?,
        false => pattern.cached(|| Ok(Within)).map(drop)?,
    }
    Ok(pattern)
}

fn verify_coo(pattern: &Pattern) -> Result<()> {
    let list = local(pattern.indices())?;
    let shape = &pattern.shape().dims()[..pattern.sparse_dim()];
    if are_places(&list, shape, pattern.is_coalesced())? {
        return Ok(());
    }
    let size = |&s: &usize| i64::try_from(s).unwrap_or(i64::MAX);
    within_sizes(&list, &shape.iter().map(size).collect::<Vec<_>>())?;
    let (n, data) = (pattern.nnz(), host(&list)?);
    let at = |i: usize| {
        let coordinate = |d: usize| data[d * n + i];
        (0..shape.len()).map(coordinate).collect::<Vec<_>>()
    };
    match (1..n).find(|&i| at(i - 1) >= at(i)) {
        None => Ok(()),
        Some(i) => Err(TorshError::invalid(
            "",
            format!(
                "cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor: element {i} has the indices {:?}, the one before it {:?}",
                at(i),
                at(i - 1)
            ),
        )),
    }
}

/// Refuses a list of coordinates `[dims, n]` with one outside of these sizes, which the error names.
pub(crate) fn within_sizes(list: &Tensor, sizes: &[i64]) -> Result<()> {
    let data = host(list)?;
    let n = list.dims().last().copied().unwrap_or(0).max(1);
    for (d, (row, &size)) in data.chunks_exact(n).zip(sizes).enumerate() {
        if let Some(low) = row.iter().copied().min().filter(|&low| low < 0) {
            return Err(negative_index(low, d));
        }
        if let Some(high) = row.iter().copied().max().filter(|&high| high >= size) {
            return Err(TorshError::index(
                "",
                format!(
                    "size is inconsistent with indices: for dim {d}, size is {size} but found index {high}"
                ),
            ));
        }
    }
    Ok(())
}

/// The error of an index below 0.
pub(crate) fn negative_index(index: i64, d: usize) -> TorshError {
    TorshError::index("", format!("found negative index {index} for dim {d}"))
}

/// How PyTorch's errors name the parts of a compressed layout.
pub(crate) struct Names {
    pub(crate) compressed: &'static str,
    pub(crate) plain: &'static str,
    /// The compressed dimension and the other one.
    pub(crate) lines: &'static str,
    counts: [&'static str; 2],
}

/// The names for a layout.
pub(crate) fn names(layout: TensorLayout) -> Names {
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

/// How many matrices a compressed pattern has, how many lines (of elements or of blocks) each, and how many positions a
/// line.
pub(crate) fn extent(pattern: &Pattern) -> Result<[usize; 3]> {
    let (shape, at) = (pattern.shape().dims(), pattern.batch_dim());
    let [b0, b1] = pattern.block().unwrap_or([1, 1]);
    let (rows, columns) = (shape[at] / b0.max(1), shape[at + 1] / b1.max(1));
    let (lines, others) = match pattern.layout().by_rows() {
        true => (rows, columns),
        false => (columns, rows),
    };
    Ok([product(&shape[..at])?, lines, others])
}

/// The compressed and the plain indices of a pattern.
pub(crate) fn parts(pattern: &Pattern) -> Result<[&Tensor; 2]> {
    match (pattern.compressed_indices(), pattern.plain_indices()) {
        (Some(compressed), Some(plain)) => Ok([compressed, plain]),
        _ => Err(TorshError::invalid(
            "",
            format!("a {} tensor has no compressed indices", pattern.layout()),
        )),
    }
}

/// Refuses indices that are out of bounds, or not sorted and distinct within each line.
fn verify_compressed(pattern: &Pattern) -> Result<()> {
    let ([compressed, plain], [batch, lines, width]) = (parts(pattern)?, extent(pattern)?);
    let here = |t: &Tensor| t.to_device(Device::Cpu)?.contiguous();
    let (compressed, plain) = (here(compressed)?, here(plain)?);
    if are_lines([&compressed, &plain], [batch, lines, width])? {
        return Ok(());
    }
    let (compressed, plain) = (host(&compressed)?, host(&plain)?);
    refuse_lines(pattern, [&compressed, &plain], [batch, lines, width])
}

/// The error that says what is wrong with compressed and plain indices.
fn refuse_lines(
    pattern: &Pattern,
    [compressed, plain]: [&[i64]; 2],
    [batch, line_count, width]: [usize; 3],
) -> Result<()> {
    let n = names(pattern.layout());
    let (crow, col, [lines, others]) = (n.compressed, n.plain, n.counts);
    let refuse = |text: String| Err(TorshError::index("", text));
    let (many, nnz) = (width as i64, pattern.nnz());
    if let Some(i) = plain.iter().position(|p| !(0..many).contains(p)) {
        return refuse(format!(
            "`0 <= {col} < {others}` is not satisfied. Index {i} is {}, and {others} is {many}",
            plain[i]
        ));
    }
    for b in 0..batch {
        let bounds = &compressed[b * (line_count + 1)..][..line_count + 1];
        let plain = &plain[b * nnz..][..nnz];
        let (head, tail) = (bounds[0], bounds[line_count]);
        if head != 0 {
            return refuse(format!(
                "`{crow}[..., 0] == 0` is not satisfied. It is {head}"
            ));
        }
        if tail != nnz as i64 {
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
