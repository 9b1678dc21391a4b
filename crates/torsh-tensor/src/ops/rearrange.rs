//! Other orders and places: flips, rolls, triangles, diagonals, repeats.

pub(crate) mod methods;

use smallvec::SmallVec;
use torsh_core::attrs::{self, NONE};
use torsh_core::{DType, Device, Dims, Kernel, Result, Shape, TorshError};

use super::definitions;
use super::index::one;
use crate::call::{Arg, call1};
use crate::record::{InputGrad, OpRecord, Plan, PlanCx, sample};
use crate::{IntoDim, IntoDims, Operand, Tensor, Value};

pub(crate) const RECORDS: &[&OpRecord] = &[
    &FLIP,
    &FLIPLR,
    &FLIPUD,
    &ROLL,
    &ROLL_FLAT,
    &TRIL,
    &TRIU,
    &TRIL_INDICES,
    &TRIU_INDICES,
    &DIAG,
    &DIAG_EMBED,
    &DIAGFLAT,
    &REPEAT_COUNT,
    &REPEAT_INTERLEAVE,
    &REPEAT_INTERLEAVE_TENSOR,
];

fn same(c: &PlanCx<'_>) -> Result<Plan> {
    let x = c.tensor(0)?;
    Ok(Plan::one(x.dtype(), x.shape().clone(), x.dtype()))
}

#[torsh_tensor::by_name(Tensor::flip(input, &dims))]
pub static FLIP: OpRecord = OpRecord::new(
    "flip",
    "A copy in reversed order along the named dimensions.",
    "(Tensor input, int[1] dims)",
)
.kernel(Kernel::Flip, same)
.definition(definitions::flip)
.grad(&[InputGrad {
    inputs: 0,
    outputs: 0,
    formula: |c| c.g().flip(&c.attrs::<attrs::Flip>()?.dims[..]),
}])
.samples(|s| {
    let x = s.real(&[2, 3])?;
    Ok(vec![sample![x.clone(), 1], sample![x, [0, -1]]])
});

#[torsh_tensor::by_name(Tensor::fliplr)]
pub static FLIPLR: OpRecord = OpRecord::new(
    "fliplr",
    "A copy with the second dimension reversed.",
    "(Tensor input)",
)
.samples(|s| Ok(vec![sample![s.real(&[2, 3])?]]));

#[torsh_tensor::by_name(Tensor::flipud)]
pub static FLIPUD: OpRecord = OpRecord::new(
    "flipud",
    "A copy with the first dimension reversed.",
    "(Tensor input)",
)
.samples(|s| Ok(vec![sample![s.real(&[2, 3])?]]));

#[torsh_tensor::by_name(Tensor::roll(input, &shifts, &dims))]
pub static ROLL: OpRecord = OpRecord::new(
    "roll",
    "The elements shifted along dimensions, those pushed out coming in at the other end; without dimensions, of the flattened tensor.",
    "(Tensor input, int[1] shifts, int[1] dims)",
)
.kernel(Kernel::Roll, same)
.definition(definitions::roll)
.grad(&[InputGrad {
    inputs: 0,
    outputs: 0,
    formula: |c| {
        let attrs::Roll { shifts, dims } = c.attrs()?;
        let back: SmallVec<[i64; 6]> = shifts.iter().map(|s| s.wrapping_neg()).collect();
        c.g().roll(&back[..], &dims[..])
    },
}])
.samples(|s| {
    Ok(vec![
        sample![s.real(&[2, 3])?, 1, -1],
        sample![s.real(&[2, 3])?, [1, -2], [0, 1]],
    ])
});

/// [`ROLL`] of the flattened tensor.
#[torsh_tensor::by_name(Tensor::roll(input, &shifts, ()))]
static ROLL_FLAT: OpRecord = OpRecord::new(
    "roll.flat",
    "As roll, of the flattened tensor.",
    "(Tensor input, int[1] shifts)",
)
.overload()
.samples(|s| Ok(vec![sample![s.real(&[2, 3])?, 1]]));

fn triangle(c: &PlanCx<'_>) -> Result<Plan> {
    let x = c.tensor(0)?;
    if x.ndim() < 2 {
        return Err(TorshError::shape(
            "",
            format!(
                "input tensor must have at least 2 dimensions, got {}",
                x.shape()
            ),
        ));
    }
    same(c)
}

#[torsh_tensor::by_name(Tensor::tril)]
pub static TRIL: OpRecord = OpRecord::new(
    "tril",
    "The lower triangle of matrices, up to the given diagonal; zeros elsewhere.",
    "(Tensor input, int diagonal=0)",
)
.kernel(Kernel::Triangle, triangle)
.definition(definitions::triangle)
.grad(&[InputGrad {
    inputs: 0,
    outputs: 0,
    formula: |c| c.g().tril(c.attrs::<attrs::Triangle>()?.diagonal),
}])
.samples(|s| {
    Ok(vec![
        sample![s.real(&[3, 3])?],
        sample![s.real(&[2, 2, 3])?, 1],
    ])
});

#[torsh_tensor::by_name(Tensor::triu)]
pub static TRIU: OpRecord = OpRecord::new(
    "triu",
    "The upper triangle of matrices, from the given diagonal on; zeros elsewhere.",
    "(Tensor input, int diagonal=0)",
)
.kernel(Kernel::Triangle, triangle)
.definition(definitions::triangle)
.grad(&[InputGrad {
    inputs: 0,
    outputs: 0,
    formula: |c| c.g().triu(c.attrs::<attrs::Triangle>()?.diagonal),
}])
.samples(|s| {
    Ok(vec![
        sample![s.real(&[3, 3])?],
        sample![s.real(&[2, 2, 3])?, -1],
    ])
});

#[torsh_tensor::by_name(triangle_indices(row, col, offset, false, dtype, device))]
pub static TRIL_INDICES: OpRecord = OpRecord::new(
    "tril_indices",
    "The rows and columns of the elements of the lower triangle of a matrix, in row-major order.",
    "(int row, int col, int offset=0, *, ScalarType? dtype=None, Any layout=None, Device? device=None, bool? pin_memory=None)",
)
.constant();

#[torsh_tensor::by_name(triangle_indices(row, col, offset, true, dtype, device))]
pub static TRIU_INDICES: OpRecord = OpRecord::new(
    "triu_indices",
    "The rows and columns of the elements of the upper triangle of a matrix, in row-major order.",
    "(int row, int col, int offset=0, *, ScalarType? dtype=None, Any layout=None, Device? device=None, bool? pin_memory=None)",
)
.constant();

#[track_caller]
fn triangle_indices(
    rows: i64,
    columns: i64,
    offset: i64,
    upper: bool,
    dtype: Option<DType>,
    device: Option<Device>,
) -> Result<Tensor> {
    let op = if upper {
        "triu_indices"
    } else {
        "tril_indices"
    };
    for (name, n) in [("row", rows), ("col", columns)] {
        if n < 0 {
            return Err(TorshError::invalid(
                op,
                format!("{name} must be non-negative, got {n}"),
            ));
        }
    }
    let dtype = dtype.unwrap_or(DType::I64);
    if !matches!(dtype, DType::I64 | DType::I32) {
        return Err(TorshError::dtype(
            op,
            format!("not implemented for {dtype}"),
        ));
    }
    let edge = |i: i64| {
        i.saturating_add(offset)
            .saturating_add(i64::from(!upper))
            .clamp(0, columns)
    };
    // Only rows that hold something, however many there are.
    let held = match (columns, upper) {
        (0, _) => 0..0,
        (_, true) => 0..columns.saturating_sub(offset).clamp(0, rows),
        (_, false) => offset.saturating_neg().clamp(0, rows)..rows,
    };
    // Along the rows the counts move by one from one end to the other, or stay at all columns.
    let most = |i: i64| if upper { columns - edge(i) } else { edge(i) };
    let (a, b) = match held.is_empty() {
        true => (0, 0),
        false => (most(held.start), most(held.end - 1)),
    };
    let (low, high) = (a.min(b) as u128, a.max(b) as u128);
    let (steps, rows) = (high - low, (held.end - held.start) as u128);
    let count = steps * (low + high).saturating_sub(1) / 2 + rows.saturating_sub(steps) * high;
    torsh_core::alloc::check(
        usize::try_from(count).unwrap_or(usize::MAX),
        2 * size_of::<i64>(),
    )?;
    let (mut r, mut c) = (Vec::new(), Vec::new());
    for i in held {
        let edge = edge(i);
        let kept = if upper { edge..columns } else { 0..edge };
        r.extend(kept.clone().map(|_| i));
        c.extend(kept);
    }
    let n = r.len();
    r.append(&mut c);
    Tensor::on_host(&r, [2, n])?
        .to_dtype(dtype)?
        .to_device(device.unwrap_or_else(crate::default_device))
}

#[torsh_tensor::by_name(Tensor::diag)]
pub static DIAG: OpRecord = OpRecord::new(
    "diag",
    "The diagonal of a matrix as a copy, or the square matrix that has the vector on that diagonal.",
    "(Tensor input, int diagonal=0)",
)
.samples(|s| {
    Ok(vec![
        sample![s.real(&[3])?, -1],
        sample![s.real(&[2, 3])?, 1],
    ])
});

#[torsh_tensor::by_name(Tensor::diag_embed)]
pub static DIAG_EMBED: OpRecord = OpRecord::new(
    "diag_embed",
    "Matrices in two dimensions of the result whose diagonals are the input's last dimension.",
    "(Tensor input, int offset=0, int dim1=-2, int dim2=-1)",
)
.kernel(Kernel::DiagEmbed, |c| {
    let x = c.tensor(0)?;
    let shape = matrices_of(x, c.attrs()?)?;
    Ok(Plan::one(x.dtype(), shape, x.dtype()))
})
.grads(0, 0, |c| {
    let &attrs::DiagEmbed { offset, dim1, dim2 } = c.attrs()?;
    Ok(one(0, diagonal_of(c.g(), offset, dim1, dim2)?))
})
.samples(|s| {
    Ok(vec![
        sample![s.real(&[2, 3])?],
        sample![s.real(&[2, 2])?, -1, 0, 2],
    ])
});

#[torsh_tensor::by_name(Tensor::diagflat)]
pub static DIAGFLAT: OpRecord = OpRecord::new(
    "diagflat",
    "The square matrix whose diagonal is the flattened tensor.",
    "(Tensor input, int offset=0)",
)
.samples(|s| Ok(vec![sample![s.real(&[2, 2])?, 1]]));

/// The shape of matrices whose diagonals are a tensor's last dimension.
fn matrices_of(x: &Tensor, a: &attrs::DiagEmbed) -> Result<Shape> {
    let Some((&length, others)) = x.dims().split_last() else {
        return Err(TorshError::index(
            "",
            "diag_embed() cannot be applied to a 0-dim tensor.",
        ));
    };
    let n = (length as u64)
        .checked_add(a.offset.unsigned_abs())
        .filter(|&n| n < 1 << 31)
        .ok_or_else(|| {
            TorshError::invalid(
                "",
                format!("the diagonal {} makes too large a matrix", a.offset),
            )
        })?;
    let mut dims = Dims::from_slice(others);
    dims.insert(a.dim1.min(a.dim2), n as usize);
    dims.insert(a.dim1.max(a.dim2), n as usize);
    let shape = Shape::from(dims);
    shape.checked_numel(x.dtype().size())?;
    Ok(shape)
}

/// A window on the diagonal of two dimensions, which becomes the last dimension.
fn diagonal_of(t: &Tensor, offset: i64, d1: usize, d2: usize) -> Result<Tensor> {
    let (rows, columns) = (t.dims()[d1] as i64, t.dims()[d2] as i64);
    let length = if offset >= 0 {
        rows.min(columns.saturating_sub(offset))
    } else {
        rows.saturating_add(offset).min(columns)
    }
    .max(0);
    let (mut size, mut stride) = (Vec::new(), Vec::new());
    for d in (0..t.ndim()).filter(|d| *d != d1 && *d != d2) {
        size.push(t.dims()[d] as i64);
        stride.push(t.stride()[d] as i64);
    }
    let (s1, s2) = (t.stride()[d1] as i64, t.stride()[d2] as i64);
    size.push(length);
    stride.push(s1 + s2);
    let first = if length == 0 {
        0
    } else if offset >= 0 {
        offset * s2
    } else {
        -offset * s1
    };
    t.as_strided_at(&size, &stride, t.storage_offset() as i64 + first)
}

static REPEAT_COUNT: OpRecord = OpRecord::new(
    "_repeat_count",
    "The sum of repeats, as a 0-d int64.",
    "(Tensor repeats)",
)
.internal()
.kernel(Kernel::RepeatCount, |_| {
    Ok(Plan::one(DType::I64, Shape::default(), DType::I64))
})
.constant();

pub static REPEAT_INTERLEAVE_TENSOR: OpRecord = OpRecord::new(
    "repeat_interleave.repeats",
    "The position of each element of a 1-d tensor, as often as the element says.",
    "(Tensor repeats, *, int? output_size=None)",
)
.overload()
.kernel(Kernel::RepeatInterleave, |c| {
    Ok(Plan::one(
        DType::I64,
        Shape::new(&[c.attrs::<attrs::RepeatInterleave>()?.output_size]),
        DType::I64,
    ))
})
.constant()
.by_name(|b| {
    let repeats = b.tensor(0)?;
    let positions = positions(repeats, b.opt_int(1))?;
    positions.to_dtype(repeats.dtype()).map(Value::Tensor)
});

#[torsh_tensor::by_name(Tensor::repeat_interleave_sized)]
pub static REPEAT_INTERLEAVE: OpRecord = OpRecord::new(
    "repeat_interleave",
    "Every element (or every position of a dimension) repeated in place.",
    "(Tensor input, Operand repeats, int? dim=None, *, int? output_size=None)",
)
.samples(|s| {
    let repeats = Tensor::from_data(&[2i64, 0, 1], [3])?;
    Ok(vec![
        sample![s.real(&[2, 3])?, 2],
        sample![s.real(&[2, 3])?, repeats, 1],
    ])
});

fn positions(repeats: &Tensor, output_size: Option<i64>) -> Result<Tensor> {
    if repeats.ndim() != 1 {
        return Err(TorshError::shape(
            "",
            "repeat_interleave only accept 1D vector as repeat",
        ));
    }
    if !matches!(repeats.dtype(), DType::I64 | DType::I32) {
        return Err(TorshError::dtype(
            "",
            format!("not implemented for repeats of {}", repeats.dtype()),
        ));
    }
    let total = match output_size {
        Some(n) => n,
        None => call1(&REPEAT_COUNT, &[Arg::T(repeats)], NONE)?.item::<i64>()?,
    };
    let Ok(output_size) = usize::try_from(total) else {
        return Err(TorshError::invalid(
            "",
            format!("output_size must be non-negative, got {total}"),
        ));
    };
    call1(
        &REPEAT_INTERLEAVE_TENSOR,
        &[Arg::T(repeats)],
        &attrs::RepeatInterleave { output_size },
    )
}
