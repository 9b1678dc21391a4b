//! Reductions over any dimensions.
//!
//! | key | outputs | attributes read | dtypes: input to output |
//! |---|---|---|---|
//! | `Sum`, `Prod` | result | | integers and bool to integers or real; real to real; complex to complex |
//! | `Mean` | result | | integers, bool and real to real; complex to complex |
//! | `NanSum` | result | | as `Sum`, not complex |
//! | `Max`, `Min` | values (NaN wins) | | real, integers and bool to the same |
//! | `MaxDim`, `MinDim` | values, positions (int64) | | the same |
//! | `ArgMax`, `ArgMin` | positions (int64) | | real and integers |
//! | `Any`, `All` | truth | | all to bool (PyTorch: uint8 to uint8) |
//! | `CountNonzero` | count (int64) | | all |
//! | `Var` | variance, and the mean where there is a second output | `Var` | real to real; complex to real (its mean to complex) |
//! | `Norm` | vector norm | `Norm` | real and complex to real |
//! | `LogSumExp` | result | | integers, bool and real to real; complex to complex |
//! | `Median` | values, or values and positions | `Median` | real and integers |
//! | `KthValue` | values, positions | `KthValue` | real and integers |
//! | `Mode` | values, positions | | real, integers and bool |
//!
//! Convention: outputs have the rank of the input; where an output's size is 1 and the input's is
//! not, the dimension is reduced: the kernels do not read `dims` and `keepdim`, which are the shape
//! rule's. Positions count through the reduced dimensions in row-major order. A result of no
//! elements is the fold's start (0, 1, NaN for a mean); operations without one refuse such shapes
//! before they get here.

mod arg;
pub(crate) mod choose;
mod drive;
mod extremes;
pub(crate) mod fold;
pub(crate) mod load;
mod lse;
pub(crate) mod order;
pub(crate) mod plan;
mod sums;
mod var;

#[cfg(feature = "unit-tests")]
mod tests;

use torsh_core::{DType, Kernel, KernelArgs, Result, attrs};

use arg::Arg;
use drive::{Fold, Job, Params, run};
use fold::*;
use load::{As, BFloat16, Float16, is_native, loader};

macro_rules! folds {
    ($op:ty; 5) => { folds![$op, $op, $op, $op, $op] };
    ($($op:ty),* $(,)?) => { [$( { const F: Fold = Fold::of::<$op>(); &F } ),*] };
}

fn start(
    args: &KernelArgs<'_>,
    to: As,
    fold: &'static Fold,
    params: Params,
    ordered: bool,
    cost: usize,
) -> Result<()> {
    let input = &args.inputs()[0];
    let Some(load) = loader(input.dtype(), to) else {
        return Err(args.unsupported());
    };
    run(Job {
        fold,
        load: if is_native(input.dtype(), to) {
            None
        } else {
            Some(load)
        },
        gather: load,
        params,
        input,
        outs: args.outputs(),
        ordered,
        cost,
    })
}

/// The type to compute in for a result of this dtype: real results of integers in float64.
fn compute(from: DType, to: DType) -> Option<As> {
    if from.is_complex() || to.is_complex() {
        return (from == to).then(|| As::of(from));
    }
    match (As::of(from), to.is_floating_point()) {
        (As::I64, true) => Some(As::F64),
        (As::I64, false) => Some(As::I64),
        (real, true) => Some(real),
        (_, false) => None,
    }
}

pub(crate) fn arithmetic(args: &KernelArgs<'_>) -> Result<()> {
    let (from, to) = (args.inputs()[0].dtype(), args.outputs()[0].dtype());
    let Some(ty) = compute(from, to) else {
        return Err(args.unsupported());
    };
    let all = match args.kernel() {
        Kernel::Sum => folds![Of<SumF32>, Of<SumF64>, Of<SumI64>, Of<SumC64>, Of<SumC128>],
        Kernel::Prod if from == DType::F16 => folds![HalfProd<Float16>; 5],
        Kernel::Prod if from == DType::BF16 => folds![HalfProd<BFloat16>; 5],
        Kernel::Prod => folds![
            Of<ProdF32>,
            Of<ProdF64>,
            Of<ProdI64>,
            Of<ProdC64>,
            Of<ProdC128>
        ],
        Kernel::Mean if ty != As::I64 => {
            folds![
                Of<MeanF32>,
                Of<MeanF64>,
                Of<SumI64>,
                Of<MeanC64>,
                Of<MeanC128>
            ]
        }
        Kernel::NanSum if !from.is_complex() => {
            folds![
                Of<NanSumF32>,
                Of<NanSumF64>,
                Of<SumI64>,
                Of<SumC64>,
                Of<SumC128>
            ]
        }
        _ => return Err(args.unsupported()),
    };
    let fold = all[match ty {
        As::F32 => 0,
        As::F64 => 1,
        As::I64 => 2,
        As::C64 => 3,
        _ => 4,
    }];
    start(args, ty, fold, Params::default(), false, 1)
}

/// One of three folds by the type of a real, integer or bool input that the values keep.
fn by_order(args: &KernelArgs<'_>, folds: [&'static Fold; 3], ordered: bool) -> Result<()> {
    let to = As::of(args.inputs()[0].dtype());
    let fold = match to {
        As::F32 => folds[0],
        As::F64 => folds[1],
        As::I64 => folds[2],
        _ => return Err(args.unsupported()),
    };
    start(args, to, fold, Params::default(), ordered, 1)
}

pub(crate) fn extreme(args: &KernelArgs<'_>) -> Result<()> {
    let folds = match args.kernel() {
        Kernel::Max => folds![Of<MaxF32>, Of<MaxF64>, Of<MaxI64>],
        _ => folds![Of<MinF32>, Of<MinF64>, Of<MinI64>],
    };
    by_order(args, folds, false)
}

pub(crate) fn position(args: &KernelArgs<'_>) -> Result<()> {
    let top = matches!(args.kernel(), Kernel::MaxDim | Kernel::ArgMax);
    let alone = matches!(args.kernel(), Kernel::ArgMax | Kernel::ArgMin);
    if alone && args.inputs()[0].dtype() == DType::Bool {
        return Err(args.unsupported());
    }
    let folds = if top {
        folds![Arg<arg::TopF32>, Arg<arg::TopF64>, Arg<arg::TopI64>]
    } else {
        folds![
            Arg<arg::BottomF32>,
            Arg<arg::BottomF64>,
            Arg<arg::BottomI64>
        ]
    };
    by_order(args, folds, true)
}

pub(crate) fn truth(args: &KernelArgs<'_>) -> Result<()> {
    let fold = match args.kernel() {
        Kernel::Any => folds![Of<Any>],
        Kernel::All => folds![Of<All>],
        _ => folds![Of<Count>],
    };
    start(args, As::NonZero, fold[0], Params::default(), false, 1)
}

pub(crate) fn variance(args: &KernelArgs<'_>) -> Result<()> {
    let to = As::of(args.inputs()[0].dtype());
    let fold = match to {
        As::F32 => folds![var::Var<f32>],
        As::F64 => folds![var::Var<f64>],
        As::C64 => folds![var::ComplexVar<f32>],
        As::C128 => folds![var::ComplexVar<f64>],
        _ => return Err(args.unsupported()),
    };
    let &attrs::Var {
        correction, root, ..
    } = args.attrs()?;
    let params = Params {
        p: correction,
        root,
        ..Params::default()
    };
    start(args, to, fold[0], params, false, 2)
}

pub(crate) fn norm(args: &KernelArgs<'_>) -> Result<()> {
    let dtype = args.inputs()[0].dtype();
    let p = args.attrs::<attrs::Norm>()?.p;
    if !dtype.is_differentiable() {
        return Err(args.unsupported());
    }
    if p == 0.0 {
        return start(
            args,
            As::NonZero,
            folds![Of<Count>][0],
            Params::default(),
            false,
            1,
        );
    }
    let folds = if p == 1.0 {
        folds![Of<Norm1F32>, Of<Norm1F64>]
    } else if p == 2.0 {
        folds![Of<Norm2F32>, Of<Norm2F64>]
    } else if p == f64::INFINITY {
        folds![Of<AbsMaxF32>, Of<AbsMaxF64>]
    } else if p == f64::NEG_INFINITY {
        folds![Of<AbsMinF32>, Of<AbsMinF64>]
    } else {
        folds![Of<NormPF32>, Of<NormPF64>]
    };
    let (to, fold) = match dtype {
        DType::F64 | DType::C128 => (As::Abs64, folds[1]),
        _ => (As::Abs32, folds[0]),
    };
    let cost = if p.abs() == f64::INFINITY || p == 1.0 || p == 2.0 {
        1
    } else {
        16
    };
    start(
        args,
        to,
        fold,
        Params {
            p,
            ..Params::default()
        },
        false,
        cost,
    )
}

pub(crate) fn logsumexp(args: &KernelArgs<'_>) -> Result<()> {
    let Some(to) = compute(args.inputs()[0].dtype(), args.outputs()[0].dtype()) else {
        return Err(args.unsupported());
    };
    let fold = match to {
        As::F32 => folds![lse::Lse<f32>],
        As::F64 => folds![lse::Lse<f64>],
        As::C64 => folds![lse::ComplexLse<f32>],
        As::C128 => folds![lse::ComplexLse<f64>],
        _ => return Err(args.unsupported()),
    };
    start(args, to, fold[0], Params::default(), false, 8)
}
