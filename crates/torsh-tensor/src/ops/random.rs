//! Random numbers: fills in place, creation, dropout. The draws are PyTorch's.

mod fill;
pub(crate) mod methods;

pub(crate) use methods::draws;

use smallvec::SmallVec;
use torsh_core::attrs::{self, Assert, Attributes};
use torsh_core::random::default_generator_of;
use torsh_core::{
    CallSite, DType, Device, Generator, Kernel, Result, Scalar, Shape, TorshError, default_dtype,
};

use crate::call::{Arg, call, make_node, write_fresh, write_into};
use crate::check::check;
use crate::record::{Backward, OpRecord, Plan, PlanCx, Spec};
use crate::{Bound, IntoShape, Tensor, Value};

/// Where a call on a device draws from: the generator that it is given, which must be the device's, or
/// the device's default one. (`None` is the CPU's default, which a kernel finds itself.)
pub(crate) fn source(device: Device, given: Option<&Generator>) -> Result<Option<Generator>> {
    match given {
        Some(g) if device.has_data() && g.device() != device => Err(TorshError::device(
            "",
            format!(
                "expected a generator of {device}, but got one of {}",
                g.device()
            ),
        )
        .with_hint("make it with Generator::on(device, seed)")),
        Some(g) => Ok(Some(g.clone())),
        None if device.is_host() || !device.has_data() => Ok(None),
        None => Ok(Some(default_generator_of(device).clone())),
    }
}

pub(crate) const RECORDS: &[&OpRecord] = &[
    &UNIFORM_,
    &NORMAL_,
    &EXPONENTIAL_,
    &GEOMETRIC_,
    &CAUCHY_,
    &LOG_NORMAL_,
    &RANDOM_,
    &RANDOM_TO,
    &RANDOM_FROM,
    &BERNOULLI_,
    &BERNOULLI_TENSOR,
    &BERNOULLI,
    &BERNOULLI_P,
    &RAND,
    &RANDN,
    &RANDINT,
    &RANDINT_LOW,
    &RANDPERM,
    &RAND_LIKE,
    &RANDN_LIKE,
    &RANDINT_LIKE,
    &RANDINT_LIKE_LOW,
    &NORMAL,
    &NORMAL_STD,
    &NORMAL_SIZE,
    &MULTINOMIAL,
    &DROPOUT,
];

/// A fill: its plan is the tensor that is there.
const fn fill(
    name: &'static str,
    doc: &'static str,
    schema: &'static str,
    kernel: Kernel,
) -> OpRecord {
    OpRecord::new(name, doc, schema)
        .kernel(kernel, |_| {
            Err(TorshError::invalid(
                "",
                "a random op fills a tensor that is there",
            ))
        })
        .grads(0, 0, |c| Ok(SmallVec::from_iter([Some(c.zeros(0)?)])))
}

#[torsh_tensor::by_name(Tensor::fill_uniform)]
pub static UNIFORM_: OpRecord = fill(
    "uniform_",
    "Fills the tensor with numbers drawn uniformly from `from` to below `to`.",
    "(Tensor input, float from=0.0, float to=1.0, *, Generator? generator=None)",
    Kernel::Uniform,
);

#[torsh_tensor::by_name(Tensor::fill_normal)]
pub static NORMAL_: OpRecord = fill(
    "normal_",
    "Fills the tensor with normal numbers.",
    "(Tensor input, float mean=0.0, float std=1.0, *, Generator? generator=None)",
    Kernel::Normal,
);

#[torsh_tensor::by_name(Tensor::fill_exponential)]
pub static EXPONENTIAL_: OpRecord = fill(
    "exponential_",
    "Fills the tensor with exponential numbers of rate lambd.",
    "(Tensor input, float lambd=1.0, *, Generator? generator=None)",
    Kernel::Exponential,
);

#[torsh_tensor::by_name(Tensor::fill_geometric)]
pub static GEOMETRIC_: OpRecord = fill(
    "geometric_",
    "Fills the tensor with the number of trials up to the first success of probability p.",
    "(Tensor input, float p, *, Generator? generator=None)",
    Kernel::Geometric,
);

#[torsh_tensor::by_name(Tensor::fill_cauchy)]
pub static CAUCHY_: OpRecord = fill(
    "cauchy_",
    "Fills the tensor with Cauchy numbers.",
    "(Tensor input, float median=0.0, float sigma=1.0, *, Generator? generator=None)",
    Kernel::Cauchy,
);

#[torsh_tensor::by_name(Tensor::fill_log_normal)]
pub static LOG_NORMAL_: OpRecord = fill(
    "log_normal_",
    "Fills the tensor with exponentials of normal numbers of this mean and deviation.",
    "(Tensor input, float mean=1.0, float std=2.0, *, Generator? generator=None)",
    Kernel::LogNormal,
);

#[torsh_tensor::by_name(Tensor::fill_integers(input, None, None, generator))]
pub static RANDOM_: OpRecord = fill(
    "random_",
    "Fills the tensor with whole numbers from 0 to the largest of its dtype.",
    "(Tensor input, *, Generator? generator=None)",
    Kernel::RandInt,
);

pub static RANDOM_TO: OpRecord = fill(
    "random_.to",
    "Fills the tensor with whole numbers from 0 to below `to`.",
    "(Tensor input, int to, *, Generator? generator=None)",
    Kernel::RandInt,
)
.overload()
.by_name(|b| {
    b.tensor(0)?
        .fill_integers(Some(0), Some(b.int(1)), b.generator(2))
        .map(Value::Tensor)
});

pub static RANDOM_FROM: OpRecord = fill(
    "random_.from",
    "Fills the tensor with whole numbers from `from` to below `to`.",
    "(Tensor input, int from, int? to, *, Generator? generator=None)",
    Kernel::RandInt,
)
.overload()
.by_name(|b| {
    b.tensor(0)?
        .fill_integers(Some(b.int(1)), b.opt_int(2), b.generator(3))
        .map(Value::Tensor)
});

#[torsh_tensor::by_name(Tensor::fill_bernoulli)]
pub static BERNOULLI_: OpRecord = fill(
    "bernoulli_",
    "Fills the tensor with 1 of probability p and 0 else.",
    "(Tensor input, float p=0.5, *, Generator? generator=None)",
    Kernel::Bernoulli,
);

pub static BERNOULLI_TENSOR: OpRecord = OpRecord::new(
    "bernoulli_.Tensor",
    "Fills the tensor with 1 of the probability at the same place and 0 else.",
    "(Tensor input, Tensor p, *, Generator? generator=None)",
)
.overload()
.by_name(|b| {
    let (x, p) = (b.tensor(0)?, b.tensor(1)?);
    let p = if p.shape() == x.shape() {
        p.clone()
    } else {
        p.expand(x.shape())?
    };
    x.copy_(&bernoulli(&p, b.generator(2))?).map(Value::Tensor)
});

#[torsh_tensor::by_name(bernoulli)]
pub static BERNOULLI: OpRecord = OpRecord::new(
    "bernoulli",
    "1 of the probability at the same place of input and 0 else, in input's dtype.",
    "(Tensor input, *, Generator? generator=None)",
)
.kernel(Kernel::Bernoulli, |c| {
    let p = c.tensor(0)?;
    if !p.dtype().is_floating_point() {
        return Err(TorshError::dtype(
            "",
            format!("not implemented for {}", p.dtype()),
        ));
    }
    Ok(Plan::one(p.dtype(), p.shape().clone(), p.dtype()))
})
.grads(0, 0, |c| Ok(SmallVec::from_iter([Some(c.zeros(0)?)])));

pub static BERNOULLI_P: OpRecord = OpRecord::new(
    "bernoulli.p",
    "1 of probability p and 0 else, in input's shape and dtype.",
    "(Tensor input, float p, *, Generator? generator=None)",
)
.overload()
.by_name(|b| {
    let x = b.tensor(0)?;
    x.empty_as(x.dtype(), x.device())?
        .fill_bernoulli(b.float(1), b.generator(2))
        .map(Value::Tensor)
});

#[track_caller]
fn bernoulli(p: &Tensor, generator: Option<&Generator>) -> Result<Tensor> {
    let attrs = attrs::Bernoulli {
        p: None,
        generator: source(p.device(), generator)?,
    };
    crate::call::call1(&BERNOULLI, &[Arg::T(p)], &attrs)
}

macro_rules! schema {
    ($first:literal) => {
        concat!("(", $first, ", *, Generator? generator=None, ScalarType? dtype=None, Any layout=None, Device? device=None, Any pin_memory=None, bool requires_grad=False, Any memory_format=None)")
    };
}

/// The keyword arguments of creation from parameter `i` on.
struct Options<'a> {
    generator: Option<&'a Generator>,
    dtype: Option<DType>,
    device: Option<Device>,
    requires_grad: bool,
}

fn options(b: &Bound, i: usize) -> Options<'_> {
    Options {
        generator: b.generator(i),
        dtype: b.dtype(i + 1),
        device: b.device(i + 3),
        requires_grad: b.bool(i + 5),
    }
}

impl Options<'_> {
    fn empty(&self, shape: &[i64], dtype: DType) -> Result<Tensor> {
        Tensor::empty(
            shape,
            self.dtype.unwrap_or(dtype),
            self.device.unwrap_or_else(crate::default_device),
        )
    }
    fn empty_like(&self, x: &Tensor) -> Result<Tensor> {
        x.empty_as(
            self.dtype.unwrap_or(x.dtype()),
            self.device.unwrap_or(x.device()),
        )
    }
    fn finish(&self, t: Tensor) -> Result<Value> {
        if self.requires_grad {
            t.set_requires_grad(true)?;
        }
        Ok(Value::Tensor(t))
    }
}

macro_rules! created {
    ($($(#[$doc:meta])* $id:ident $name:literal $help:literal $params:literal $at:literal |$b:ident, $o:ident| $make:expr;)*) => {$(
        $(#[$doc])*
        pub static $id: OpRecord = OpRecord::new($name, $help, schema!($params)).by_name(|$b| {
            let $o = options($b, $at);
            $o.finish($make)
        });
    )*};
}
created! {
    /// Uniform numbers.
    RAND "rand" "Numbers drawn uniformly from 0 to below 1." "int[] size" 1
        |b, o| o.empty(&b.ints(0), default_dtype())?.fill_uniform(0.0, 1.0, o.generator)?;
    /// Normal numbers.
    RANDN "randn" "Normal numbers of mean 0 and deviation 1." "int[] size" 1
        |b, o| o.empty(&b.ints(0), default_dtype())?.fill_normal(0.0, 1.0, o.generator)?;
    /// A permutation.
    RANDPERM "randperm" "A permutation of the integers from 0 to below n." "int n" 1
        |b, o| permutation(b.int(0), o.dtype.unwrap_or(DType::I64), o.device.unwrap_or_else(crate::default_device), o.generator)?;
    /// Uniform numbers.
    RAND_LIKE "rand_like" "Numbers drawn uniformly from 0 to below 1, in another tensor's shape." "Tensor input" 1
        |b, o| o.empty_like(b.tensor(0)?)?.fill_uniform(0.0, 1.0, o.generator)?;
    /// Normal numbers.
    RANDN_LIKE "randn_like" "Normal numbers, in another tensor's shape." "Tensor input" 1
        |b, o| o.empty_like(b.tensor(0)?)?.fill_normal(0.0, 1.0, o.generator)?;
}

macro_rules! overloads {
    ($($(#[$doc:meta])* $id:ident $name:literal $help:literal $schema:expr, |$b:ident| $make:expr;)*) => {$(
        $(#[$doc])*
        pub static $id: OpRecord = OpRecord::new($name, $help, $schema).overload().by_name(|$b| $make);
    )*};
}
overloads! {
    /// Integers from 0.
    RANDINT "randint.high" "Whole numbers from 0 to below high, int64 where no dtype is given."
        schema!("int high, int[] size"), |b| {
            let o = options(b, 2);
            o.finish(o.empty(&b.ints(1), DType::I64)?.fill_integers(Some(0), Some(b.int(0)), o.generator)?)
        };
    /// Integers between two bounds.
    RANDINT_LOW "randint.low" "Whole numbers from low to below high, int64 where no dtype is given."
        schema!("int low, int high, int[] size"), |b| {
            let o = options(b, 3);
            o.finish(o.empty(&b.ints(2), DType::I64)?.fill_integers(Some(b.int(0)), Some(b.int(1)), o.generator)?)
        };
    /// Integers in another tensor's shape.
    RANDINT_LIKE "randint_like.high" "Whole numbers from 0 to below high, in another tensor's shape."
        schema!("Tensor input, int high"), |b| {
            let o = options(b, 2);
            o.finish(o.empty_like(b.tensor(0)?)?.fill_integers(Some(0), Some(b.int(1)), o.generator)?)
        };
    /// Integers in another tensor's shape.
    RANDINT_LIKE_LOW "randint_like.low" "Whole numbers from low to below high, in another tensor's shape."
        schema!("Tensor input, int low, int high"), |b| {
            let o = options(b, 3);
            o.finish(o.empty_like(b.tensor(0)?)?.fill_integers(Some(b.int(1)), Some(b.int(2)), o.generator)?)
        };
    /// Normal numbers of a mean each.
    NORMAL "normal.mean" "Normal numbers of these means, and a deviation for all or one each."
        "(Tensor mean, Operand std=1.0, *, Generator? generator=None)", |b| {
            normal(b.tensor(0)?, b.operand(1)?, b.generator(2)).map(Value::Tensor)
        };
    /// Normal numbers of a deviation each.
    NORMAL_STD "normal.std" "Normal numbers of one mean and these deviations."
        "(float mean, Tensor std, *, Generator? generator=None)", |b| {
            let std = b.tensor(1)?;
            let mean = Tensor::full((), b.float(0), std.dtype(), std.device())?;
            normal(&mean, std.into(), b.generator(2)).map(Value::Tensor)
        };
    /// Normal numbers of a shape.
    NORMAL_SIZE "normal.size" "Normal numbers of one mean and deviation."
        "(float mean, float std, int[] size, *, Generator? generator=None, ScalarType? dtype=None, Any layout=None, Device? device=None, Any pin_memory=None, bool requires_grad=False)", |b| {
            let o = options(b, 3);
            o.finish(o.empty(&b.ints(2), default_dtype())?.fill_normal(b.float(0), b.float(1), o.generator)?)
        };
}

#[track_caller]
fn normal(mean: &Tensor, std: crate::Operand<'_>, generator: Option<&Generator>) -> Result<Tensor> {
    let (mean, op) = (mean.detach(), "normal");
    let std = match std {
        crate::Operand::Number(s) => {
            let out = mean.empty_as(mean.dtype(), mean.device())?;
            out.fill_normal(0.0, s.to_f64(), generator)
                .map_err(|e| e.renamed(op))?;
            return out.add_(&mean);
        }
        o => o.to_tensor()?.detach(),
    };
    if std.is_complex() {
        return Err(TorshError::dtype(
            op,
            "expects standard deviation to be non-complex",
        ));
    }
    let fine = std.lt(0.0)?.logical_not()?;
    check(&fine, CallSite::here(op), || {
        Assert::value("expects all elements of std >= 0.0")
    })
    .map_err(|e| e.renamed(op))?;
    let shape = mean
        .shape()
        .broadcast(std.shape())
        .map_err(|e| e.renamed(op))?;
    let dtype = mean.dtype().promote(std.dtype());
    let out = Tensor::empty(&shape, dtype, mean.device())?;
    out.fill_normal(0.0, 1.0, generator)
        .map_err(|e| e.renamed(op))?;
    out.mul_(&std)?.add_(&mean)
}

#[track_caller]
fn permutation(
    n: i64,
    dtype: DType,
    device: Device,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    let Ok(len) = usize::try_from(n) else {
        return Err(TorshError::invalid(
            "randperm",
            format!("n must be non-negative, got {n}"),
        ));
    };
    // The largest whole number up to which the dtype has every one.
    let exact = match dtype {
        DType::F16 => 2049.0,
        DType::BF16 => 257.0,
        DType::F32 => 16_777_217.0,
        DType::F64 => 9_007_199_254_740_993.0,
        DType::Bool | DType::C64 | DType::C128 => {
            return Err(TorshError::dtype(
                "randperm",
                format!("not implemented for {dtype}"),
            ));
        }
        d => d.finite_range().1 + 1.0,
    };
    if n as f64 > exact {
        return Err(TorshError::invalid(
            "randperm",
            format!("n is too large for result tensor type: {n} for {dtype}"),
        ));
    }
    let out = Tensor::empty([len], dtype, device)?;
    let generator = source(device, generator)?;
    write_fresh(&RANDPERM_FILL, &out, &[], &attrs::RandPerm { generator })?;
    Ok(out)
}

static RANDPERM_FILL: OpRecord = fill("randperm", "A permutation.", "", Kernel::RandPerm);

#[torsh_tensor::by_name(Tensor::multinomial_from)]
pub static MULTINOMIAL: OpRecord = OpRecord::new(
    "multinomial",
    "Indices of categories drawn by the weights of each row.",
    "(Tensor input, int num_samples, bool replacement=False, *, Generator? generator=None)",
)
.kernel(Kernel::Multinomial, |c: &PlanCx<'_>| {
    let w = c.tensor(0)?;
    let samples = c.attrs::<attrs::Multinomial>()?.num_samples;
    let shape = Shape::new(&[w.dims()[0], samples]);
    Ok(Plan::one(w.dtype(), shape, DType::I64))
})
.constant();

/// Zeroes elements. Results: the rest, scaled, and the mask of it.
pub static DROPOUT: OpRecord = OpRecord::new(
    "nn.functional.dropout",
    "In training zeroes each element with probability p and scales the others by 1 / (1 - p).",
    "(Tensor input, float p=0.5, bool training=True, bool inplace=False)",
)
.kernel(Kernel::Dropout, |c| {
    let x = c.tensor(0)?;
    if !x.dtype().is_floating_point() {
        return Err(TorshError::dtype(
            "",
            format!("result type Float can't be cast to {}", x.dtype()),
        ));
    }
    let mut specs = [
        Spec::new(x.shape().clone(), x.dtype()),
        Spec::new(x.shape().clone(), DType::Bool),
    ];
    if !x.contiguous_flag() && x.memory_layout().is_dense() {
        // The draws go by memory, whose order the results keep.
        let strides = crate::call::memory_order_strides(x.shape(), x.stride());
        for s in &mut specs {
            s.strides = Some(strides.clone());
        }
    }
    Ok(Plan::many(x.dtype(), specs))
})
.backward(Backward::Full {
    inputs: 0,
    outputs: 2,
    constant: 2,
    formula: |c| {
        let dtype = c.input_dtype(0);
        let scale = Scalar::Float(1.0 / (1.0 - c.attrs::<attrs::Dropout>()?.p));
        // The mask's scale is rounded to the dtype, as in the forward pass.
        let scale = Scalar::from_bytes(&scale.to_bytes(dtype), dtype);
        Ok(SmallVec::from_iter([Some(
            c.g().mul(&c.output(1)?)?.mul(scale)?,
        )]))
    },
})
.by_name(|b| {
    let (x, p) = (b.tensor(0)?, b.float(1));
    if b.bool(3) {
        return x.dropout_(p, b.bool(2)).map(Value::Tensor);
    }
    x.dropout(p, b.bool(2)).map(Value::Tensor)
});
