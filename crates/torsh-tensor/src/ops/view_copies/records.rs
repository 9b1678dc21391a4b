//! Records of the copies of views.

use super::{diagonal, fresh, scattered, stepped};
use crate::Value;
use crate::record::{OpRecord, Sample};

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

/// `torch.alias_copy`.
pub static ALIAS_COPY: OpRecord = OpRecord::new(
    "alias_copy",
    "A copy of what the op without copy is a view of.",
    "(Tensor input)",
)
.by_name(|b| b.tensor(0)?.alias_copy().map(Value::Tensor))
.samples(|s| {
    let x = s.real(&[3, 4])?;
    Ok(vec![Sample::new([x.into()])])
});

/// `torch.as_strided_copy`.
pub static AS_STRIDED_COPY: OpRecord = OpRecord::new(
    "as_strided_copy",
    "A copy of what the op without copy is a view of.",
    "(Tensor input, int[] size, int[] stride, int? storage_offset=None)",
)
.by_name(|b| {
    let x = b.tensor(0)?;
    let at = b.opt_int(3).unwrap_or(x.storage_offset() as i64);
    fresh(x.as_strided_at(&b.ints(1), &b.ints(2), at)).map(Value::Tensor)
})
.samples(|s| {
    let x = s.real(&[3, 4])?;
    Ok(vec![Sample::new([
        x.into(),
        vec![2i64, 2i64].into(),
        vec![1i64, 1i64].into(),
    ])])
});

/// `torch.detach_copy`.
pub static DETACH_COPY: OpRecord = OpRecord::new(
    "detach_copy",
    "A copy of what the op without copy is a view of.",
    "(Tensor input)",
)
.constant()
.by_name(|b| b.tensor(0)?.detach_copy().map(Value::Tensor));

/// `torch.diagonal_copy`.
pub static DIAGONAL_COPY: OpRecord = OpRecord::new(
    "diagonal_copy",
    "A copy of what the op without copy is a view of.",
    "(Tensor input, int offset=0, int dim1=0, int dim2=1)",
)
.by_name(|b| {
    b.tensor(0)?
        .diagonal_copy(diagonal(b, 1))
        .map(Value::Tensor)
})
.samples(|s| {
    let x = s.real(&[3, 4])?;
    Ok(vec![Sample::new([x.into()])])
});

/// `torch.expand_copy`.
pub static EXPAND_COPY: OpRecord = OpRecord::new(
    "expand_copy",
    "A copy of what the op without copy is a view of.",
    "(Tensor input, int[] size, *, bool implicit=False)",
)
.by_name(|b| b.tensor(0)?.expand_copy(b.ints(1)).map(Value::Tensor))
.samples(|s| {
    let x = s.real(&[3, 4])?;
    Ok(vec![Sample::new([x.into(), vec![2i64, 3i64, 4i64].into()])])
});

/// `torch.narrow_copy`.
pub static NARROW_COPY: OpRecord = OpRecord::new(
    "narrow_copy",
    "A copy of what the op without copy is a view of.",
    "(Tensor input, int dim, int start, int length)",
)
.by_name(|b| {
    b.tensor(0)?
        .narrow_copy(b.int(1), b.int(2), b.int(3))
        .map(Value::Tensor)
})
.samples(|s| {
    let x = s.real(&[3, 4])?;
    Ok(vec![Sample::new([
        x.into(),
        Value::Int(1),
        Value::Int(1),
        Value::Int(2),
    ])])
});

/// `torch.permute_copy`.
pub static PERMUTE_COPY: OpRecord = OpRecord::new(
    "permute_copy",
    "A copy of what the op without copy is a view of.",
    "(Tensor input, int[] dims)",
)
.by_name(|b| b.tensor(0)?.permute_copy(b.ints(1)).map(Value::Tensor))
.samples(|s| {
    let x = s.real(&[3, 4])?;
    Ok(vec![Sample::new([x.into(), vec![1i64, 0i64].into()])])
});

/// `torch.select_copy`.
pub static SELECT_COPY: OpRecord = OpRecord::new(
    "select_copy",
    "A copy of what the op without copy is a view of.",
    "(Tensor input, int dim, int index)",
)
.by_name(|b| {
    b.tensor(0)?
        .select_copy(b.int(1), b.int(2))
        .map(Value::Tensor)
})
.samples(|s| {
    let x = s.real(&[3, 4])?;
    Ok(vec![Sample::new([x.into(), Value::Int(1), Value::Int(2)])])
});

/// `torch.slice_copy`.
pub static SLICE_COPY: OpRecord = OpRecord::new(
    "slice_copy",
    "A copy of what the op without copy is a view of.",
    "(Tensor input, int dim=0, int? start=None, int? end=None, int step=1)",
)
.by_name(|b| fresh(stepped(b.tensor(0)?, b, 1)).map(Value::Tensor))
.samples(|s| {
    let x = s.real(&[3, 4])?;
    Ok(vec![Sample::new([
        x.into(),
        Value::Int(1),
        Value::Int(0),
        Value::Int(4),
        Value::Int(2),
    ])])
});

/// `torch.squeeze_copy`.
pub static SQUEEZE_COPY: OpRecord = OpRecord::new(
    "squeeze_copy",
    "A copy of what the op without copy is a view of.",
    "(Tensor input, int[1]? dim=None)",
)
.by_name(|b| {
    {
        let x = b.tensor(0)?;
        match b.opt_ints(1) {
            Some(d) => x.squeeze_copy(d),
            None => x.squeeze_copy(()),
        }
    }
    .map(Value::Tensor)
})
.samples(|s| {
    let x = s.real(&[1, 4])?;
    Ok(vec![Sample::new([x.into(), Value::Int(0)])])
});

/// `torch.t_copy`.
pub static T_COPY: OpRecord = OpRecord::new(
    "t_copy",
    "A copy of what the op without copy is a view of.",
    "(Tensor input)",
)
.by_name(|b| b.tensor(0)?.t_copy().map(Value::Tensor))
.samples(|s| {
    let x = s.real(&[3, 4])?;
    Ok(vec![Sample::new([x.into()])])
});

/// `torch.transpose_copy`.
pub static TRANSPOSE_COPY: OpRecord = OpRecord::new(
    "transpose_copy",
    "A copy of what the op without copy is a view of.",
    "(Tensor input, int dim0, int dim1)",
)
.by_name(|b| {
    b.tensor(0)?
        .transpose_copy(b.int(1), b.int(2))
        .map(Value::Tensor)
})
.samples(|s| {
    let x = s.real(&[3, 4])?;
    Ok(vec![Sample::new([x.into(), Value::Int(0), Value::Int(1)])])
});

/// `torch.unfold_copy`.
pub static UNFOLD_COPY: OpRecord = OpRecord::new(
    "unfold_copy",
    "A copy of what the op without copy is a view of.",
    "(Tensor input, int dimension, int size, int step)",
)
.by_name(|b| {
    b.tensor(0)?
        .unfold_copy(b.int(1), b.int(2), b.int(3))
        .map(Value::Tensor)
})
.samples(|s| {
    let x = s.real(&[3, 4])?;
    Ok(vec![Sample::new([
        x.into(),
        Value::Int(1),
        Value::Int(2),
        Value::Int(1),
    ])])
});

/// `torch.unsqueeze_copy`.
pub static UNSQUEEZE_COPY: OpRecord = OpRecord::new(
    "unsqueeze_copy",
    "A copy of what the op without copy is a view of.",
    "(Tensor input, int dim)",
)
.by_name(|b| b.tensor(0)?.unsqueeze_copy(b.int(1)).map(Value::Tensor))
.samples(|s| {
    let x = s.real(&[3, 4])?;
    Ok(vec![Sample::new([x.into(), Value::Int(1)])])
});

/// `torch.view_copy`.
pub static VIEW_COPY: OpRecord = OpRecord::new(
    "view_copy",
    "A copy of what the op without copy is a view of.",
    "(Tensor input, int[] size)",
)
.by_name(|b| b.tensor(0)?.view_copy(b.ints(1)).map(Value::Tensor))
.samples(|s| {
    let x = s.real(&[3, 4])?;
    Ok(vec![Sample::new([x.into(), vec![4i64, 3i64].into()])])
});

/// `torch.view_as_complex_copy`.
pub static VIEW_AS_COMPLEX_COPY: OpRecord = OpRecord::new(
    "view_as_complex_copy",
    "A copy of what the op without copy is a view of.",
    "(Tensor input)",
)
.by_name(|b| b.tensor(0)?.view_as_complex_copy().map(Value::Tensor))
.samples(|s| {
    let x = s.real(&[3, 2])?;
    Ok(vec![Sample::new([x.into()])])
});

/// `torch.view_as_real_copy`.
pub static VIEW_AS_REAL_COPY: OpRecord = OpRecord::new(
    "view_as_real_copy",
    "A copy of what the op without copy is a view of.",
    "(Tensor input)",
)
.by_name(|b| b.tensor(0)?.view_as_real_copy().map(Value::Tensor))
.samples(|s| Ok(vec![Sample::new([s.complex(&[3])?.into()])]));

/// `torch.split_copy`.
pub static SPLIT_COPY: OpRecord = OpRecord::new(
    "split_copy",
    "A copy of what the op without copy is a view of.",
    "(Tensor input, int split_size, int dim=0)",
)
.by_name(|b| b.tensor(0)?.split_copy(b.int(1), b.int(2)).map(Value::from))
.samples(|s| {
    let x = s.real(&[3, 4])?;
    Ok(vec![Sample::new([x.into(), Value::Int(2)])])
});

/// `torch.split_with_sizes_copy`.
pub static SPLIT_WITH_SIZES_COPY: OpRecord = OpRecord::new(
    "split_with_sizes_copy",
    "A copy of what the op without copy is a view of.",
    "(Tensor input, int[] split_sizes, int dim=0)",
)
.by_name(|b| {
    b.tensor(0)?
        .split_with_sizes_copy(b.ints(1), b.int(2))
        .map(Value::from)
})
.samples(|s| {
    let x = s.real(&[3, 4])?;
    Ok(vec![Sample::new([x.into(), vec![1i64, 2i64].into()])])
});

/// `torch.unbind_copy`.
pub static UNBIND_COPY: OpRecord = OpRecord::new(
    "unbind_copy",
    "A copy of what the op without copy is a view of.",
    "(Tensor input, int dim=0)",
)
.by_name(|b| b.tensor(0)?.unbind_copy(b.int(1)).map(Value::from))
.samples(|s| {
    let x = s.real(&[3, 4])?;
    Ok(vec![Sample::new([x.into()])])
});

/// `torch.unsafe_chunk`.
pub static UNSAFE_CHUNK: OpRecord = OpRecord::new(
    "unsafe_chunk",
    "The same as chunk.",
    "(Tensor input, int chunks, int dim=0)",
)
.by_name(|b| {
    b.tensor(0)?
        .unsafe_chunk(b.int(1), b.int(2))
        .map(Value::from)
})
.samples(|s| {
    let x = s.real(&[3, 4])?;
    Ok(vec![Sample::new([x.into(), Value::Int(2)])])
});

/// `torch.unsafe_split`.
pub static UNSAFE_SPLIT: OpRecord = OpRecord::new(
    "unsafe_split",
    "The same as split.",
    "(Tensor input, int split_size, int dim=0)",
)
.by_name(|b| {
    b.tensor(0)?
        .unsafe_split(b.int(1), b.int(2))
        .map(Value::from)
})
.samples(|s| {
    let x = s.real(&[3, 4])?;
    Ok(vec![Sample::new([x.into(), Value::Int(2)])])
});

/// `torch.unsafe_split_with_sizes`.
pub static UNSAFE_SPLIT_WITH_SIZES: OpRecord = OpRecord::new(
    "unsafe_split_with_sizes",
    "The same as split_with_sizes.",
    "(Tensor input, int[] split_sizes, int dim=0)",
)
.by_name(|b| {
    b.tensor(0)?
        .unsafe_split_with_sizes(b.ints(1), b.int(2))
        .map(Value::from)
})
.samples(|s| {
    let x = s.real(&[3, 4])?;
    Ok(vec![Sample::new([x.into(), vec![1i64, 2i64].into()])])
});

/// `torch.select_scatter`.
pub static SELECT_SCATTER: OpRecord = OpRecord::new(
    "select_scatter",
    "A copy with src in place of one index of a dimension.",
    "(Tensor input, Tensor src, int dim, int index)",
)
.by_name(|b| {
    b.tensor(0)?
        .select_scatter(b.tensor(1)?, b.int(2), b.int(3))
        .map(Value::Tensor)
})
.samples(|s| {
    let x = s.real(&[3, 4])?;
    Ok(vec![Sample::new([
        x.into(),
        s.real(&[3])?.into(),
        Value::Int(1),
        Value::Int(2),
    ])])
});

/// `torch.slice_scatter`.
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
    Ok(vec![Sample::new([
        x.into(),
        s.real(&[3, 2])?.into(),
        Value::Int(1),
        Value::Int(0),
        Value::Int(4),
        Value::Int(2),
    ])])
});

/// `torch.diagonal_scatter`.
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
    Ok(vec![Sample::new([
        x.into(),
        s.real(&[3])?.into(),
        Value::Int(1),
    ])])
});

/// `torch.as_strided_scatter`.
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
    Ok(vec![Sample::new([
        x.into(),
        s.real(&[2, 2])?.into(),
        vec![2i64, 2i64].into(),
        vec![1i64, 2i64].into(),
    ])])
});
