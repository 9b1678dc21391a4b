//! Random numbers: fills in place, creation, dropout. The draws are PyTorch's.

use smallvec::SmallVec;
use torsh_core::{
    Attr, DType, Device, Generator, Kernel, Result, Scalar, Shape, TorshError, default_dtype,
};

use crate::call::{Arg, call, make_node, write_fresh, write_into};
use crate::record::{Backward, OpRecord, Plan, PlanCx, Spec};
use crate::{Bound, IntoShape, Tensor, Value};

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

fn source(generator: Option<&Generator>) -> Attr<'_> {
    generator.map_or(Attr::None, Attr::Generator)
}

/// Uniform numbers. Attributes of the fills: generator, then the numbers of the schema.
pub static UNIFORM_: OpRecord = fill(
    "uniform_",
    "Fills the tensor with numbers drawn uniformly from `from` to below `to`.",
    "(Tensor input, float from=0.0, float to=1.0, *, Generator? generator=None)",
    Kernel::Uniform,
)
.by_name(|b| {
    b.tensor(0)?
        .fill_uniform(b.float(1), b.float(2), b.generator(3))
        .map(Value::Tensor)
});

/// Normal numbers.
pub static NORMAL_: OpRecord = fill(
    "normal_",
    "Fills the tensor with normal numbers.",
    "(Tensor input, float mean=0.0, float std=1.0, *, Generator? generator=None)",
    Kernel::Normal,
)
.by_name(|b| {
    b.tensor(0)?
        .fill_normal(b.float(1), b.float(2), b.generator(3))
        .map(Value::Tensor)
});

/// Exponential numbers.
pub static EXPONENTIAL_: OpRecord = fill(
    "exponential_",
    "Fills the tensor with exponential numbers of rate lambd.",
    "(Tensor input, float lambd=1.0, *, Generator? generator=None)",
    Kernel::Exponential,
)
.by_name(|b| {
    b.tensor(0)?
        .fill_exponential(b.float(1), b.generator(2))
        .map(Value::Tensor)
});

/// Numbers of trials.
pub static GEOMETRIC_: OpRecord = fill(
    "geometric_",
    "Fills the tensor with the number of trials up to the first success of probability p.",
    "(Tensor input, float p, *, Generator? generator=None)",
    Kernel::Geometric,
)
.by_name(|b| {
    b.tensor(0)?
        .fill_geometric(b.float(1), b.generator(2))
        .map(Value::Tensor)
});

/// Cauchy numbers.
pub static CAUCHY_: OpRecord = fill(
    "cauchy_",
    "Fills the tensor with Cauchy numbers.",
    "(Tensor input, float median=0.0, float sigma=1.0, *, Generator? generator=None)",
    Kernel::Cauchy,
)
.by_name(|b| {
    b.tensor(0)?
        .fill_cauchy(b.float(1), b.float(2), b.generator(3))
        .map(Value::Tensor)
});

/// Exponentials of normal numbers.
pub static LOG_NORMAL_: OpRecord = fill(
    "log_normal_",
    "Fills the tensor with exponentials of normal numbers of this mean and deviation.",
    "(Tensor input, float mean=1.0, float std=2.0, *, Generator? generator=None)",
    Kernel::LogNormal,
)
.by_name(|b| {
    b.tensor(0)?
        .fill_log_normal(b.float(1), b.float(2), b.generator(3))
        .map(Value::Tensor)
});

/// Integers over the dtype's range.
pub static RANDOM_: OpRecord = fill(
    "random_",
    "Fills the tensor with whole numbers from 0 to the largest of its dtype.",
    "(Tensor input, *, Generator? generator=None)",
    Kernel::RandInt,
)
.by_name(|b| {
    b.tensor(0)?
        .fill_integers(None, None, b.generator(1))
        .map(Value::Tensor)
});

/// Integers from 0.
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

/// Integers between two bounds.
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

/// Ones and zeros of one probability.
pub static BERNOULLI_: OpRecord = fill(
    "bernoulli_",
    "Fills the tensor with 1 of probability p and 0 else.",
    "(Tensor input, float p=0.5, *, Generator? generator=None)",
    Kernel::Bernoulli,
)
.by_name(|b| {
    b.tensor(0)?
        .fill_bernoulli(b.float(1), b.generator(2))
        .map(Value::Tensor)
});

/// Ones and zeros of a probability each.
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

/// Ones and zeros of the probabilities of a tensor.
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
.grads(0, 0, |c| Ok(SmallVec::from_iter([Some(c.zeros(0)?)])))
.by_name(|b| bernoulli(b.tensor(0)?, b.generator(1)).map(Value::Tensor));

/// Ones and zeros in the shape of a tensor.
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
    crate::call::call1(&BERNOULLI, &[Arg::T(p)], &[source(generator)])
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
            self.device.unwrap_or_default(),
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
        |b, o| permutation(b.int(0), o.dtype.unwrap_or(DType::I64), o.device.unwrap_or_default(), o.generator)?;
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
    if std.numel() > 0 && std.lt(0.0)?.any()?.item::<bool>()? {
        return Err(TorshError::invalid(
            op,
            "expects all elements of std >= 0.0",
        ));
    }
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
    write_fresh(&RANDPERM_FILL, &out, &[], &[source(generator)])?;
    Ok(out)
}

static RANDPERM_FILL: OpRecord = fill("randperm", "A permutation.", "", Kernel::RandPerm);

/// Categories. The kernel draws with replacement.
pub static MULTINOMIAL: OpRecord = OpRecord::new(
    "multinomial",
    "Indices of categories drawn by the weights of each row.",
    "(Tensor input, int num_samples, bool replacement=False, *, Generator? generator=None)",
)
.kernel(Kernel::Multinomial, |c: &PlanCx<'_>| {
    let w = c.tensor(0)?;
    let shape = Shape::new(&[w.dims()[0], c.attr(1).int() as usize]);
    Ok(Plan::one(w.dtype(), shape, DType::I64))
})
.constant()
.by_name(|b| {
    b.tensor(0)?
        .multinomial_from(b.int(1), b.bool(2), b.generator(3))
        .map(Value::Tensor)
});

/// Zeroes elements. Attributes: generator, p. Results: the rest, scaled, and the mask of it.
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
    if !x.is_contiguous()? && x.layout().is_dense() {
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
        let scale = Scalar::Float(1.0 / (1.0 - c.attr(1).float()));
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

impl Tensor {
    /// Fills this tensor, after the checks of writing in place.
    #[track_caller]
    fn draw(&self, record: &'static OpRecord, attrs: &[Attr<'_>]) -> Result<Tensor> {
        let at = std::panic::Location::caller();
        let run = || -> Result<()> {
            crate::inplace::check(self, self.requires_grad())?;
            if self.is_complex() {
                write_into(
                    record,
                    self.dtype().to_real(),
                    &self.detach().view_as_real()?,
                    &[],
                    attrs,
                )?;
            } else {
                write_into(record, self.dtype(), self, &[], attrs)?;
            }
            if !(crate::is_grad_enabled() && self.requires_grad()) {
                return Ok(());
            }
            let node = make_node(
                record,
                &[Arg::T(self)],
                &[],
                std::slice::from_ref(self),
                at,
                None,
            )?;
            crate::inplace::rebase(self, Some(node))
        };
        run().map_err(|e| e.in_op(record.base_name(), || vec![self.describe()], at))?;
        Ok(self.clone())
    }

    #[track_caller]
    fn refuse(
        &self,
        record: &'static OpRecord,
        ok: bool,
        why: impl FnOnce() -> String,
    ) -> Result<()> {
        match ok {
            true => Ok(()),
            false => self.named(record.base_name(), Err(TorshError::invalid("", why()))),
        }
    }

    #[track_caller]
    fn fill_uniform(&self, from: f64, to: f64, generator: Option<&Generator>) -> Result<Tensor> {
        self.refuse(&UNIFORM_, from <= to, || {
            format!("expects to return a [from, to) range, but found from={from} > to={to}")
        })?;
        let (_, largest) = self.dtype().to_real().finite_range();
        self.refuse(&UNIFORM_, to - from <= largest, || {
            format!("expects to-from <= {largest}, but found to={to} and from={from} which result in to-from to exceed the limit")
        })?;
        self.draw(
            &UNIFORM_,
            &[source(generator), Attr::Float(from), Attr::Float(to)],
        )
    }

    #[track_caller]
    fn fill_normal(&self, mean: f64, std: f64, generator: Option<&Generator>) -> Result<Tensor> {
        self.refuse(&NORMAL_, std >= 0.0, || {
            format!("normal expects std >= 0.0, but found std {std}")
        })?;
        if self.is_complex() {
            // Half of the variance is each part's; the mean is real.
            let part = std / std::f64::consts::SQRT_2;
            self.draw(
                &NORMAL_,
                &[source(generator), Attr::Float(0.0), Attr::Float(part)],
            )?;
            return if mean == 0.0 {
                Ok(self.clone())
            } else {
                self.add_(mean)
            };
        }
        self.draw(
            &NORMAL_,
            &[source(generator), Attr::Float(mean), Attr::Float(std)],
        )
    }

    #[track_caller]
    fn fill_exponential(&self, lambda: f64, generator: Option<&Generator>) -> Result<Tensor> {
        self.refuse(&EXPONENTIAL_, lambda > 0.0, || {
            format!("expects lambda > 0.0, but found lambda={lambda}")
        })?;
        self.real_only(&EXPONENTIAL_)?;
        self.draw(&EXPONENTIAL_, &[source(generator), Attr::Float(lambda)])
    }

    #[track_caller]
    fn fill_geometric(&self, p: f64, generator: Option<&Generator>) -> Result<Tensor> {
        self.refuse(&GEOMETRIC_, p > 0.0 && p < 1.0, || {
            format!("expects p to be in (0, 1), but got p={p}")
        })?;
        self.real_only(&GEOMETRIC_)?;
        self.draw(&GEOMETRIC_, &[source(generator), Attr::Float(p)])
    }

    #[track_caller]
    fn fill_cauchy(
        &self,
        median: f64,
        sigma: f64,
        generator: Option<&Generator>,
    ) -> Result<Tensor> {
        self.refuse(&CAUCHY_, sigma > 0.0, || {
            format!("expects sigma > 0.0, but found sigma={sigma}")
        })?;
        self.real_only(&CAUCHY_)?;
        self.draw(
            &CAUCHY_,
            &[source(generator), Attr::Float(median), Attr::Float(sigma)],
        )
    }

    #[track_caller]
    fn fill_log_normal(
        &self,
        mean: f64,
        std: f64,
        generator: Option<&Generator>,
    ) -> Result<Tensor> {
        self.refuse(&LOG_NORMAL_, std > 0.0, || {
            format!("expects std > 0.0, but found std={std}")
        })?;
        self.real_only(&LOG_NORMAL_)?;
        self.draw(
            &LOG_NORMAL_,
            &[source(generator), Attr::Float(mean), Attr::Float(std)],
        )
    }

    #[track_caller]
    fn fill_bernoulli(&self, p: f64, generator: Option<&Generator>) -> Result<Tensor> {
        self.refuse(&BERNOULLI_, (0.0..=1.0).contains(&p), || {
            format!("expects p to be in [0, 1], but got p={p}")
        })?;
        self.real_only(&BERNOULLI_)?;
        self.draw(&BERNOULLI_, &[source(generator), Attr::Float(p)])
    }

    #[track_caller]
    fn fill_integers(
        &self,
        from: Option<i64>,
        to: Option<i64>,
        generator: Option<&Generator>,
    ) -> Result<Tensor> {
        self.real_only(&RANDOM_)?;
        let (low, high) = self.dtype().finite_range();
        if let Some(v) = from {
            self.refuse(&RANDOM_, v as f64 >= low && v as f64 <= high, || {
                format!("from is out of bounds for {}, got {v}", self.dtype())
            })?;
        }
        // Without an upper bound: up to the dtype's largest, all of int64 from its smallest.
        let last = match (from, to) {
            (Some(from), None) if from != i64::MIN => {
                let largest = if high >= i64::MAX as f64 {
                    i64::MAX
                } else {
                    high as i64
                };
                // The largest of int64 itself has no bound above it.
                Some(largest.saturating_add(1))
            }
            _ => to,
        };
        if let (Some(from), Some(to)) = (from, last) {
            self.refuse(&RANDOM_, from < to, || {
                format!("expects 'from' to be less than 'to', but got from={from} >= to={to}")
            })?;
            self.refuse(&RANDOM_, (to - 1) as f64 <= high, || {
                format!("to - 1 is out of bounds for {}, got to={to}", self.dtype())
            })?;
        }
        let attr = |v: Option<i64>| v.map_or(Attr::None, Attr::Int);
        self.draw(&RANDOM_, &[source(generator), attr(from), attr(last)])
    }

    #[track_caller]
    fn real_only(&self, record: &'static OpRecord) -> Result<()> {
        match self.is_complex() {
            true => self.named(
                record.base_name(),
                Err(TorshError::dtype(
                    "",
                    format!("not implemented for {}", self.dtype()),
                )),
            ),
            false => Ok(()),
        }
    }

    /// Fills this tensor with numbers drawn uniformly from `from` to below `to`.
    #[track_caller]
    pub fn uniform_(&self, from: f64, to: f64) -> Result<Tensor> {
        self.fill_uniform(from, to, None)
    }

    /// [`Tensor::uniform_`] from a generator.
    #[track_caller]
    pub fn uniform_with_(&self, from: f64, to: f64, generator: &Generator) -> Result<Tensor> {
        self.fill_uniform(from, to, Some(generator))
    }

    /// Fills this tensor with normal numbers; complex ones have half of the variance in each part.
    #[track_caller]
    pub fn normal_(&self, mean: f64, std: f64) -> Result<Tensor> {
        self.fill_normal(mean, std, None)
    }

    /// [`Tensor::normal_`] from a generator.
    #[track_caller]
    pub fn normal_with_(&self, mean: f64, std: f64, generator: &Generator) -> Result<Tensor> {
        self.fill_normal(mean, std, Some(generator))
    }

    /// Fills this tensor with exponential numbers of rate `lambd`.
    #[track_caller]
    pub fn exponential_(&self, lambd: f64) -> Result<Tensor> {
        self.fill_exponential(lambd, None)
    }

    /// Fills this tensor with the number of trials up to the first success of probability `p`.
    #[track_caller]
    pub fn geometric_(&self, p: f64) -> Result<Tensor> {
        self.fill_geometric(p, None)
    }

    /// Fills this tensor with Cauchy numbers.
    #[track_caller]
    pub fn cauchy_(&self, median: f64, sigma: f64) -> Result<Tensor> {
        self.fill_cauchy(median, sigma, None)
    }

    /// Fills this tensor with exponentials of normal numbers.
    #[track_caller]
    pub fn log_normal_(&self, mean: f64, std: f64) -> Result<Tensor> {
        self.fill_log_normal(mean, std, None)
    }

    /// Fills this tensor with 1 of probability `p` and 0 else.
    #[track_caller]
    pub fn bernoulli_(&self, p: f64) -> Result<Tensor> {
        self.fill_bernoulli(p, None)
    }

    /// [`Tensor::bernoulli_`] from a generator.
    #[track_caller]
    pub fn bernoulli_with_(&self, p: f64, generator: &Generator) -> Result<Tensor> {
        self.fill_bernoulli(p, Some(generator))
    }

    /// Fills this tensor with whole numbers from 0 to the largest of its dtype (of a
    /// floating-point one, to the largest below which every whole number has its place).
    #[track_caller]
    pub fn random_(&self) -> Result<Tensor> {
        self.fill_integers(None, None, None)
    }

    /// Fills this tensor with whole numbers from `from` to below `to`.
    #[track_caller]
    pub fn random_range_(&self, from: i64, to: i64) -> Result<Tensor> {
        self.fill_integers(Some(from), Some(to), None)
    }

    /// 1 of the probability at the same place of this tensor and 0 else (`torch.bernoulli`).
    #[track_caller]
    pub fn bernoulli(&self) -> Result<Tensor> {
        bernoulli(self, None)
    }

    /// Numbers drawn uniformly from 0 to below 1 (`torch.rand`).
    #[track_caller]
    pub fn rand(shape: impl IntoShape, dtype: DType, device: Device) -> Result<Tensor> {
        Tensor::empty(shape, dtype, device)?
            .fill_uniform(0.0, 1.0, None)
            .map_err(|e| e.renamed("rand"))
    }

    /// [`Tensor::rand`] from a generator.
    #[track_caller]
    pub fn rand_with(
        shape: impl IntoShape,
        dtype: DType,
        device: Device,
        generator: &Generator,
    ) -> Result<Tensor> {
        Tensor::empty(shape, dtype, device)?
            .fill_uniform(0.0, 1.0, Some(generator))
            .map_err(|e| e.renamed("rand"))
    }

    /// Normal numbers of mean 0 and deviation 1 (`torch.randn`).
    #[track_caller]
    pub fn randn(shape: impl IntoShape, dtype: DType, device: Device) -> Result<Tensor> {
        Tensor::empty(shape, dtype, device)?
            .fill_normal(0.0, 1.0, None)
            .map_err(|e| e.renamed("randn"))
    }

    /// [`Tensor::randn`] from a generator.
    #[track_caller]
    pub fn randn_with(
        shape: impl IntoShape,
        dtype: DType,
        device: Device,
        generator: &Generator,
    ) -> Result<Tensor> {
        Tensor::empty(shape, dtype, device)?
            .fill_normal(0.0, 1.0, Some(generator))
            .map_err(|e| e.renamed("randn"))
    }

    /// Whole numbers from `low` to below `high` (`torch.randint`).
    #[track_caller]
    pub fn randint(
        low: i64,
        high: i64,
        shape: impl IntoShape,
        dtype: DType,
        device: Device,
    ) -> Result<Tensor> {
        let t = Tensor::empty(shape, dtype, device)?;
        t.fill_integers(Some(low), Some(high), None)
            .map_err(|e| e.renamed("randint"))
    }

    /// [`Tensor::randint`] from a generator.
    #[track_caller]
    pub fn randint_with(
        low: i64,
        high: i64,
        shape: impl IntoShape,
        dtype: DType,
        device: Device,
        generator: &Generator,
    ) -> Result<Tensor> {
        let t = Tensor::empty(shape, dtype, device)?;
        t.fill_integers(Some(low), Some(high), Some(generator))
            .map_err(|e| e.renamed("randint"))
    }

    /// A permutation of the integers from 0 to below `n` (`torch.randperm`).
    #[track_caller]
    pub fn randperm(n: i64, dtype: DType, device: Device) -> Result<Tensor> {
        permutation(n, dtype, device, None)
    }

    /// [`Tensor::randperm`] from a generator.
    #[track_caller]
    pub fn randperm_with(
        n: i64,
        dtype: DType,
        device: Device,
        generator: &Generator,
    ) -> Result<Tensor> {
        permutation(n, dtype, device, Some(generator))
    }

    /// Numbers drawn uniformly from 0 to below 1, in this tensor's shape, dtype and memory order.
    #[track_caller]
    pub fn rand_like(&self) -> Result<Tensor> {
        self.empty_as(self.dtype(), self.device())?
            .fill_uniform(0.0, 1.0, None)
            .map_err(|e| e.renamed("rand_like"))
    }

    /// Normal numbers in this tensor's shape, dtype and memory order.
    #[track_caller]
    pub fn randn_like(&self) -> Result<Tensor> {
        self.empty_as(self.dtype(), self.device())?
            .fill_normal(0.0, 1.0, None)
            .map_err(|e| e.renamed("randn_like"))
    }

    /// Whole numbers from `low` to below `high` in this tensor's shape, dtype and memory order.
    #[track_caller]
    pub fn randint_like(&self, low: i64, high: i64) -> Result<Tensor> {
        let t = self.empty_as(self.dtype(), self.device())?;
        t.fill_integers(Some(low), Some(high), None)
            .map_err(|e| e.renamed("randint_like"))
    }

    /// Normal numbers whose means are this tensor's elements (`torch.normal`), of one deviation or
    /// one each.
    #[track_caller]
    pub fn normal<'a>(&self, std: impl Into<crate::Operand<'a>>) -> Result<Tensor> {
        normal(self, std.into(), None)
    }

    /// Indices drawn by this tensor's weights `[categories]` or `[rows, categories]`, which need not
    /// sum to 1 (`torch.multinomial`): int64 `[.., num_samples]`.
    #[track_caller]
    pub fn multinomial(&self, num_samples: i64, replacement: bool) -> Result<Tensor> {
        self.multinomial_from(num_samples, replacement, None)
    }

    /// [`Tensor::multinomial`] drawing from a generator of its own.
    #[track_caller]
    pub fn multinomial_with(
        &self,
        num_samples: i64,
        replacement: bool,
        generator: &Generator,
    ) -> Result<Tensor> {
        self.multinomial_from(num_samples, replacement, Some(generator))
    }

    #[track_caller]
    fn multinomial_from(
        &self,
        samples: i64,
        replacement: bool,
        generator: Option<&Generator>,
    ) -> Result<Tensor> {
        let invalid =
            |message: String| self.named("multinomial", Err(TorshError::invalid("", message)));
        if !matches!(self.ndim(), 1 | 2) {
            return invalid(format!("prob_dist must be 1 or 2 dim, got {}", self.ndim()));
        }
        if !self.dtype().is_floating_point() {
            return invalid(format!(
                "only supports floating-point dtypes for input, got {}",
                self.dtype()
            ));
        }
        let categories = self.dims()[self.ndim() - 1] as i64;
        if samples <= 0 {
            return invalid(format!(
                "cannot sample n_sample <= 0 samples, got {samples}"
            ));
        }
        if categories == 0 {
            return invalid("cannot sample from no categories".to_string());
        }
        if !replacement && samples > categories {
            return invalid(format!(
                "cannot sample n_sample > prob_dist.size(-1) samples without replacement: {samples} of {categories}"
            ));
        }
        let weights = self.detach();
        if replacement && samples > 1 {
            let rows = weights.reshape([-1, categories])?;
            let drawn = call(
                &MULTINOMIAL,
                &[Arg::T(&rows)],
                &[source(generator), Attr::Int(samples)],
            )?;
            let Some(drawn) = drawn.into_iter().next() else {
                return invalid("the kernel gave no result".to_string());
            };
            return if self.ndim() == 1 {
                drawn.squeeze(0)
            } else {
                Ok(drawn)
            };
        }
        if weights.numel() > 0 {
            let good = weights.ge(0.0)?.logical_and(&weights.lt(f64::INFINITY)?)?;
            if !good.all()?.item::<bool>()? {
                return invalid(
                    "probability tensor contains either `inf`, `nan` or element < 0".to_string(),
                );
            }
            if weights.sum_dim(-1, false)?.eq(0.0)?.any()?.item::<bool>()? {
                return invalid(
                    "invalid multinomial distribution (sum of probabilities <= 0)".to_string(),
                );
            }
        }
        // The largest of weight / exponential are a draw without replacement.
        let q = weights
            .empty_as(weights.dtype(), weights.device())?
            .fill_exponential(1.0, generator)?;
        let q = weights.div(&q)?;
        if samples == 1 {
            q.argmax_dim(-1, true)
        } else {
            Ok(q.topk(samples)?.1)
        }
    }

    /// Zeroes each element with probability `p` and scales the others by `1 / (1 - p)`; the tensor
    /// itself unless `training` (`torch.nn.functional.dropout`).
    #[track_caller]
    pub fn dropout(&self, p: f64, training: bool) -> Result<Tensor> {
        if !(0.0..=1.0).contains(&p) {
            let message = format!("dropout probability has to be between 0 and 1, but got {p}");
            return self.named(DROPOUT.name, Err(TorshError::invalid("", message)));
        }
        if p == 0.0 || !training || self.numel() == 0 {
            return Ok(self.clone());
        }
        if p == 1.0 {
            return self.mul(&Tensor::zeros((), self.dtype(), self.device())?);
        }
        let results = call(&DROPOUT, &[Arg::T(self)], &[Attr::None, Attr::Float(p)])?;
        results
            .into_iter()
            .next()
            .ok_or_else(|| TorshError::invalid(DROPOUT.name, "the kernel gave no result"))
    }

    /// [`Tensor::dropout`] in place.
    #[track_caller]
    pub fn dropout_(&self, p: f64, training: bool) -> Result<Tensor> {
        let dropped = self.dropout(p, training)?;
        if !dropped.is_same(self) {
            crate::inplace::assign(self, &dropped)?;
        }
        Ok(self.clone())
    }
}
