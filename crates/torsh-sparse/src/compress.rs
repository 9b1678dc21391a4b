//! Tensors of compressed layouts from their parts.

use torsh_core::{DType, TensorLayout};
use torsh_tensor::sparse::{self, Pattern};
use torsh_tensor::{Result, Tensor, TorshError};

use crate::help::{host, within};
use crate::invariants::{names, verified};

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
                    layout.enum_name()
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
