//! Records of the functions of this module.

use super::*;
use crate::record::{OpRecord, sample};
use crate::{Tensor, Value};

pub(crate) const RECORDS: &[&OpRecord] = &[
    &GRADIENT,
    &COV,
    &CORRCOEF,
    &COMBINATIONS,
    &ROT90,
    &TRAPEZOID,
    &TRAPZ,
    &CUMULATIVE_TRAPEZOID,
    &ISREAL,
    &RESOLVE_CONJ,
    &RESOLVE_NEG,
    &IS_CONJ,
    &IS_NEG,
    &IS_SIGNED,
    &IS_NONZERO,
    &FREXP,
    &UNRAVEL_INDEX,
    &NONZERO_STATIC,
    &INDEX_REDUCE,
    &COMPLEX,
    &POLAR,
];

pub static GRADIENT: OpRecord = OpRecord::new(
    "gradient",
    "The derivative along dimensions, estimated by differences.",
    "(Tensor input, *, Any spacing=None, int[1]? dim=None, int edge_order=1)",
)
.by_name(|b| gradient(b.tensor(0)?, &gradient_options(b)?).map(Value::from))
.samples(|s| {
    let (x, at) = (
        s.real(&[3, 4])?,
        Tensor::from_data(&[0.0f64, 1.0, 2.5], [3])?,
    );
    Ok(vec![
        sample![&x, edge_order = 2],
        sample![
            &x,
            spacing = vec![Value::from(&at.to_dtype(x.dtype())?)],
            dim = [0]
        ],
        sample![&x, spacing = 0.5, dim = 1],
    ])
});

#[torsh_tensor::by_name(Tensor::cov_with(.., CovOptions))]
pub static COV: OpRecord = OpRecord::new(
    "cov",
    "The covariance matrix of rows.",
    "(Tensor input, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None)",
)
.samples(|s| {
    let (x, z, w) = (
        s.real(&[2, 4])?,
        s.complex(&[2, 3])?,
        s.uniform(&[4], 0.5, 1.5)?,
    );
    Ok(vec![
        sample![&x],
        sample![z, correction = 0],
        sample![x, aweights = w],
    ])
});

#[torsh_tensor::by_name(Tensor::corrcoef)]
pub static CORRCOEF: OpRecord = OpRecord::new(
    "corrcoef",
    "Pearson's correlation coefficients of rows.",
    "(Tensor input)",
)
.samples(|s| Ok(vec![sample![s.real(&[2, 5])?]]));

#[torsh_tensor::by_name(Tensor::combinations)]
pub static COMBINATIONS: OpRecord = OpRecord::new(
    "combinations",
    "All choices of r elements of a vector.",
    "(Tensor input, int r=2, bool with_replacement=False)",
)
.samples(|s| Ok(vec![sample![s.real(&[4])?]]));

pub static ROT90: OpRecord = OpRecord::new(
    "rot90",
    "The tensor rotated by 90 degrees in the plane of two dimensions.",
    "(Tensor input, int k=1, int[] dims=[0, 1])",
)
.by_name(|b| {
    {
        let x = b.tensor(0)?;
        x.named(
            "rot90",
            rot90(x, b.int(1), &b.ints(2)).map_err(|e| e.renamed("rot90")),
        )
    }
    .map(Value::Tensor)
})
.samples(|s| {
    let x = s.real(&[3, 4])?;
    Ok(vec![sample![x, 1]])
});

macro_rules! trapezoids {
    ($($record:ident $name:literal $doc:literal $cumulative:literal;)*) => {$(
        pub static $record: OpRecord =
            OpRecord::new($name, $doc, "(Tensor y, Tensor? x=None, *, Scalar? dx=None, int dim=-1)")
                .by_name(|b| {
                    let (x, dx) = (b.opt_tensor(1), b.opt_float(2).unwrap_or(1.0));
                    trapezoid($name, b.tensor(0)?, x, dx, b.int(3), $cumulative).map(Value::Tensor)
                })
                .samples(|s| {
                    let (y, x) = (s.real(&[3, 4])?, s.real(&[4])?);
                    Ok(vec![
                        sample![&y],
                        sample![&y, x],
                        sample![&y, dx = 0.5, dim = 0],
                    ])
                });
    )*};
}
trapezoids! {
    TRAPEZOID "trapezoid" "The integral along a dimension by the trapezoidal rule." false;
    TRAPZ "trapz" "The integral along a dimension by the trapezoidal rule." false;
    CUMULATIVE_TRAPEZOID "cumulative_trapezoid" "The integrals up to each point along a dimension by the trapezoidal rule." true;
}

#[torsh_tensor::by_name(Tensor::isreal)]
pub static ISREAL: OpRecord = OpRecord::new(
    "isreal",
    "Whether the imaginary part of each element is 0.",
    "(Tensor input)",
)
.constant();

pub static RESOLVE_CONJ: OpRecord =
    OpRecord::new("resolve_conj", "The tensor itself.", "(Tensor input)")
        .by_name(|b| Ok(Value::Tensor(b.tensor(0)?.resolve_conj())))
        .samples(|s| {
            let x = s.real(&[3, 4])?;
            Ok(vec![sample![x]])
        });

pub static RESOLVE_NEG: OpRecord =
    OpRecord::new("resolve_neg", "The tensor itself.", "(Tensor input)")
        .by_name(|b| Ok(Value::Tensor(b.tensor(0)?.resolve_neg())))
        .samples(|s| {
            let x = s.real(&[3, 4])?;
            Ok(vec![sample![x]])
        });

pub static IS_CONJ: OpRecord =
    OpRecord::new("is_conj", "A property of the tensor.", "(Tensor input)")
        .constant()
        .by_name(|b| Ok(Value::Bool(b.tensor(0)?.is_conj())));

pub static IS_NEG: OpRecord =
    OpRecord::new("is_neg", "A property of the tensor.", "(Tensor input)")
        .constant()
        .by_name(|b| Ok(Value::Bool(b.tensor(0)?.is_neg())));

pub static IS_SIGNED: OpRecord =
    OpRecord::new("is_signed", "A property of the tensor.", "(Tensor input)")
        .constant()
        .by_name(|b| Ok(Value::Bool(b.tensor(0)?.is_signed())));

#[torsh_tensor::by_name(Tensor::is_nonzero)]
pub static IS_NONZERO: OpRecord = OpRecord::new(
    "is_nonzero",
    "Whether the only element is not 0.",
    "(Tensor input)",
)
.constant();

#[torsh_tensor::by_name(Tensor::frexp)]
pub static FREXP: OpRecord = OpRecord::new("frexp", "Mantissa and exponent.", "(Tensor input)")
    .samples(|s| {
        let x = s.real(&[3, 4])?;
        Ok(vec![sample![x]])
    });

pub static UNRAVEL_INDEX: OpRecord = OpRecord::new(
    "unravel_index",
    "Positions in a tensor of elements that are counted row-major.",
    "(Tensor indices, int[1] shape)",
)
.constant()
.by_name(|b| {
    Ok(Value::Tuple(
        b.tensor(0)?
            .unravel_index(b.ints(1))?
            .into_iter()
            .map(Value::from)
            .collect(),
    ))
});

#[torsh_tensor::by_name(Tensor::nonzero_static)]
pub static NONZERO_STATIC: OpRecord = OpRecord::new(
    "nonzero_static",
    "The first positions of elements that are not 0.",
    "(Tensor input, *, int size, int fill_value=-1)",
)
.constant();

#[torsh_tensor::by_name(Tensor::index_reduce_with(.., IndexReduceOptions))]
pub static INDEX_REDUCE: OpRecord = OpRecord::new(
    "index_reduce",
    "Slices joined to those at positions of a dimension.",
    "(Tensor input, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True)",
)
.samples(|s| {
    let (x, y) = (s.distinct(&[3, 2])?, s.distinct(&[4, 2])?.add(0.03)?);
    let at = Tensor::from_data(&[0i64, 2, 2, 1], [4])?;
    Ok(["prod", "mean", "amax", "amin"]
        .into_iter()
        .map(|r| sample![&x, 0, &at, &y, r])
        .collect())
});

#[torsh_tensor::by_name(Tensor::complex)]
pub static COMPLEX: OpRecord = OpRecord::new(
    "complex",
    "Complex numbers of real and imaginary parts.",
    "(Tensor real, Tensor imag)",
)
.samples(|s| {
    let x = s.real(&[3, 4])?;
    Ok(vec![sample![x, s.real(&[3, 4])?]])
});

#[torsh_tensor::by_name(Tensor::polar)]
pub static POLAR: OpRecord = OpRecord::new(
    "polar",
    "Complex numbers of absolute values and angles.",
    "(Tensor abs, Tensor angle)",
)
.samples(|s| {
    let x = s.real(&[3, 4])?;
    Ok(vec![sample![x, s.real(&[4])?]])
});
