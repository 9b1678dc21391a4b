//! Records of scattered copies, `alias_copy` and `detach_copy`; those of other copies are rows of a table in
//! `view_copies.rs`.

use super::*;

pub(crate) const RECORDS: &[&OpRecord] = &[
    &ALIAS_COPY,
    &AS_STRIDED_COPY,
    &DETACH_COPY,
    &DIAGONAL_COPY,
    &EXPAND_COPY,
    &NARROW_COPY,
    &PERMUTE_COPY,
    &SELECT_COPY,
    &SLICE_COPY,
    &SQUEEZE_COPY,
    &T_COPY,
    &TRANSPOSE_COPY,
    &UNFOLD_COPY,
    &UNSQUEEZE_COPY,
    &VIEW_COPY,
    &VIEW_AS_COMPLEX_COPY,
    &VIEW_AS_REAL_COPY,
    &SPLIT_COPY,
    &SPLIT_WITH_SIZES_COPY,
    &UNBIND_COPY,
    &UNSAFE_CHUNK,
    &UNSAFE_SPLIT,
    &UNSAFE_SPLIT_WITH_SIZES,
    &SELECT_SCATTER,
    &SLICE_SCATTER,
    &DIAGONAL_SCATTER,
    &AS_STRIDED_SCATTER,
];

#[torsh_tensor::by_name(Tensor::alias_copy)]
pub static ALIAS_COPY: OpRecord = OpRecord::new(
    "alias_copy",
    "A copy of what the op without copy is a view of.",
    "(Tensor input)",
)
.samples(|s| {
    let x = s.real(&[3, 4])?;
    Ok(vec![sample![x]])
});

#[torsh_tensor::by_name(Tensor::detach_copy)]
pub static DETACH_COPY: OpRecord = OpRecord::new(
    "detach_copy",
    "A copy of what the op without copy is a view of.",
    "(Tensor input)",
)
.constant();

#[torsh_tensor::by_name(Tensor::select_scatter)]
pub static SELECT_SCATTER: OpRecord = OpRecord::new(
    "select_scatter",
    "A copy with src in place of one index of a dimension.",
    "(Tensor input, Tensor src, int dim, int index)",
)
.samples(|s| {
    let x = s.real(&[3, 4])?;
    Ok(vec![sample![x, s.real(&[3])?, 1, 2]])
});

pub static SLICE_SCATTER: OpRecord = OpRecord::new(
    "slice_scatter",
    "A copy with src in place of a range of a dimension.",
    "(Tensor input, Tensor src, int dim=0, int? start=None, int? end=None, int step=1)",
)
.by_name(|b| {
    scattered("slice_scatter", b.tensor(0)?, b.tensor(1)?, |x| {
        stepped(x, b, 2)
    })
    .map(Value::Tensor)
})
.samples(|s| {
    let x = s.real(&[3, 4])?;
    Ok(vec![sample![x, s.real(&[3, 2])?, 1, 0, 4, 2]])
});

pub static DIAGONAL_SCATTER: OpRecord = OpRecord::new(
    "diagonal_scatter",
    "A copy with src in place of a diagonal.",
    "(Tensor input, Tensor src, int offset=0, int dim1=0, int dim2=1)",
)
.by_name(|b| {
    b.tensor(0)?
        .diagonal_scatter(b.tensor(1)?, diagonal(b, 2))
        .map(Value::Tensor)
})
.samples(|s| {
    let x = s.real(&[3, 4])?;
    Ok(vec![sample![x, s.real(&[3])?, 1]])
});

pub static AS_STRIDED_SCATTER: OpRecord = OpRecord::new(
    "as_strided_scatter",
    "A copy with src in place of a window of the memory.",
    "(Tensor input, Tensor src, int[] size, int[] stride, int? storage_offset=None)",
)
.by_name(|b| {
    b.tensor(0)?
        .as_strided_scatter(
            b.tensor(1)?,
            &b.ints(2),
            &b.ints(3),
            b.opt_int(4).unwrap_or(0),
        )
        .map(Value::Tensor)
})
.samples(|s| {
    let x = s.real(&[3, 4])?;
    Ok(vec![sample![x, s.real(&[2, 2])?, [2, 2], [1, 2]]])
});
