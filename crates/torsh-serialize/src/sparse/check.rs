//! What must be true of the indices of a file.

use torsh_tensor::sparse::Pattern;
use torsh_tensor::{Result, Tensor, TensorLayout, TorshError};

/// PyTorch's names of the parts that hold indices: all of them for COO, else the compressed and the plain ones.
pub(crate) fn names(layout: TensorLayout) -> &'static [&'static str] {
    match layout {
        TensorLayout::SparseCsr | TensorLayout::SparseBsr => &["crow_indices", "col_indices"],
        TensorLayout::SparseCsc | TensorLayout::SparseBsc => &["ccol_indices", "row_indices"],
        _ => &["indices"],
    }
}

/// The pattern of compressed indices; batch and dense dimensions and the blocks are as the parts' shapes say.
pub(crate) fn compressed_pattern(
    layout: TensorLayout,
    shape: &[usize],
    compressed: &Tensor,
    plain: &Tensor,
    values: &Tensor,
) -> Result<Pattern> {
    let wrong = |why: String| TorshError::shape("load", why);
    let batch = compressed.ndim().checked_sub(1);
    let batch = batch.ok_or_else(|| wrong("the compressed indices are a number".into()))?;
    let dense = shape.len().checked_sub(batch + 2);
    let dense = dense.ok_or_else(|| {
        wrong(format!(
            "compressed indices of {} dimensions are too many for its {} dimensions",
            batch + 1,
            shape.len()
        ))
    })?;
    let block = match (layout.is_blocked(), values.dims().get(batch + 1..batch + 3)) {
        (false, _) => None,
        (true, Some(&[rows, cols])) => Some([rows, cols]),
        (true, _) => {
            return Err(wrong(format!(
                "its values {} are no blocks",
                values.describe()
            )));
        }
    };
    Pattern::compressed(layout, shape, compressed, plain, block, dense)
}

/// An error where the numbers of a pattern's indices are not as kernels may trust them to be. `lists` are those of its
/// tensors, in the order of [`names`].
pub(crate) fn indices(pattern: &Pattern, lists: &[Vec<i64>]) -> Result<(), String> {
    match lists {
        [all] => coo(pattern, all),
        [compressed, plain] => compressed_ones(pattern, compressed, plain),
        _ => Err("it has indices of another number".into()),
    }
}

/// Whether the index is below the size.
fn within(index: i64, size: usize) -> bool {
    usize::try_from(index).is_ok_and(|i| i < size)
}

fn coo(pattern: &Pattern, all: &[i64]) -> Result<(), String> {
    let (nnz, shape) = (pattern.nnz(), pattern.shape());
    for (dim, (indices, &size)) in all.chunks(nnz.max(1)).zip(shape.iter()).enumerate() {
        if let Some(at) = indices.iter().position(|&i| !within(i, size)) {
            let bad = indices[at];
            return Err(format!(
                "indices[{dim}][{at}] is {bad}, which dimension {dim} of size {size} does not have"
            ));
        }
    }
    if pattern.is_coalesced() && !rises(all, nnz) {
        return Err(
            "it says that it is coalesced, and its indices are not sorted or not unique".into(),
        );
    }
    Ok(())
}

/// Whether each column of `[sparse_dim, nnz]` indices is above the one before.
pub(crate) fn rises(all: &[i64], nnz: usize) -> bool {
    let column = |at: usize| all.iter().skip(at).step_by(nnz);
    (1..nnz).all(|at| column(at - 1).lt(column(at)))
}

fn compressed_ones(pattern: &Pattern, compressed: &[i64], plain: &[i64]) -> Result<(), String> {
    let layout = pattern.layout();
    let &[first, second] = names(layout) else {
        return Err(format!("{layout} has no compressed indices"));
    };
    let (batch, nnz) = (pattern.batch_dim(), pattern.nnz());
    let along = usize::from(!layout.by_rows());
    let size = |dim: usize| {
        let block = pattern.block().map_or(1, |b| b[dim]);
        pattern.shape()[batch + dim] / block.max(1)
    };
    let (lines, across) = (size(along), size(1 - along));
    let entries: usize = pattern.shape()[..batch].iter().product();
    for entry in 0..entries {
        let of = match batch {
            0 => String::new(),
            _ => format!(" of batch entry {entry}"),
        };
        let compressed = compressed.get(entry * (lines + 1)..(entry + 1) * (lines + 1));
        let plain = plain.get(entry * nnz..(entry + 1) * nnz);
        let (Some(compressed), Some(plain)) = (compressed, plain) else {
            return Err(format!("{first} and {second}{of} are too short"));
        };
        let (start, end) = (compressed[0], compressed[lines]);
        if start != 0 {
            return Err(format!("{first}[0]{of} is {start}, and must be 0"));
        }
        if usize::try_from(end) != Ok(nnz) {
            return Err(format!(
                "{first}[{lines}]{of} is {end}, and there are {nnz} elements of {second}"
            ));
        }
        for (line, pair) in compressed.windows(2).enumerate() {
            let (from, to) = (pair[0], pair[1]);
            // Rising from 0 to nnz, so within the plain indices.
            if to < from || to > end {
                return Err(format!(
                    "{first}{of} does not rise: [{line}] is {from} and [{}] is {to}",
                    line + 1
                ));
            }
            let own = &plain[from as usize..to as usize];
            if let Some(at) = own.iter().position(|&i| !within(i, across)) {
                return Err(format!(
                    "{second}[{}]{of} is {}, and must be below {across}",
                    from as usize + at,
                    own[at]
                ));
            }
            if let Some(at) = own.windows(2).position(|w| w[1] <= w[0]) {
                return Err(format!(
                    "{second}{of} must rise between the positions {from} and {to}, and [{}] is {} after {}",
                    from as usize + at + 1,
                    own[at + 1],
                    own[at]
                ));
            }
        }
    }
    Ok(())
}
