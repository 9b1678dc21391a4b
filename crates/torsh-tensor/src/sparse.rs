//! What the core knows of sparse tensors: their parts, the rules that a crate brings for them, and the two ops from which
//! all others are made.
//!
//! A rule says what an op does with sparse operands. The crate `torsh-sparse` brings them with its
//! [`Family`](crate::ops::Family); the dispatcher looks one up only where an operand is sparse. [`values`] and
//! [`from_values`] take a sparse tensor apart and put it together, and carry the gradients: what is computed on the values
//! in between is made of strided ops.

use std::panic::Location;

use smallvec::SmallVec;
use torsh_core::attrs::NONE;
use torsh_core::{Attributes, Result, Scalar, TorshError};

pub use crate::memory::Pattern;

use crate::Tensor;
use crate::call::{self, Arg, Outputs, attach};
use crate::inplace;
use crate::mode;
use crate::ops;
use crate::record::{OpRecord, Rule};

/// What an op does with sparse operands.
#[derive(Clone, Copy)]
pub struct SparseRule {
    /// The op, by the name of its record without an overload's.
    pub op: &'static str,
    /// Computes the results, recorded where gradients are.
    pub call: fn(&SparseCall<'_>) -> Result<Outputs>,
}

impl std::fmt::Debug for SparseRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.op)
    }
}

/// One call of a rule.
pub struct SparseCall<'a> {
    /// The op's name.
    pub op: &'static str,
    /// Its operands, at least one of which is sparse unless another rule calls this one.
    pub args: &'a [Arg<'a>],
    /// Its other arguments.
    pub attrs: &'a dyn Attributes,
}

impl<'a> SparseCall<'a> {
    /// Operand `i`, which must be a tensor.
    ///
    /// # Errors
    /// Where it is none.
    #[torsh_tensor::names_caller]
    pub fn tensor(&self, i: usize) -> Result<&'a Tensor> {
        self.opt(i)
            .ok_or_else(|| self.refuse(&format!("operand {i} must be a tensor")))
    }

    /// Operand `i`, where it is a tensor.
    pub fn opt(&self, i: usize) -> Option<&'a Tensor> {
        match self.args.get(i) {
            Some(Arg::T(t)) => Some(t),
            _ => None,
        }
    }

    /// Operand `i`, where it is a number.
    pub fn number(&self, i: usize) -> Option<Scalar> {
        match self.args.get(i) {
            Some(Arg::N(n)) => Some(*n),
            _ => None,
        }
    }

    /// The attributes, of the op's struct.
    ///
    /// # Errors
    /// Where the call has another struct.
    #[torsh_tensor::names_caller]
    pub fn attrs<T: Attributes>(&self) -> Result<&'a T> {
        self.attrs.expect()
    }

    /// The error of a call that has no meaning, or none yet.
    pub fn refuse(&self, why: &str) -> TorshError {
        refusal(self.op, self.args, why)
    }
}

/// An error that names the op and the layouts of its operands.
fn refusal(op: &'static str, args: &[Arg<'_>], why: &str) -> TorshError {
    let layouts: Vec<String> = args
        .iter()
        .filter_map(|a| match a {
            Arg::T(t) => Some(format!("{} ({})", t.describe(), t.layout())),
            _ => None,
        })
        .collect();
    TorshError::invalid(
        op,
        format!("{why}; the operands are {}", layouts.join(", ")),
    )
    .with_hint("to_dense() makes a strided tensor of a sparse one")
}

/// Refuses a table whose gradient is to store its used rows alone, where nothing in the program makes it.
pub(crate) fn gradients_of_rows(op: &'static str) -> Result<()> {
    match ops::sparse_rule("_embedding_sparse_backward") {
        Some(_) => Ok(()),
        None => Err(
            TorshError::invalid(op, "sparse gradients come with the feature `sparse`").with_hint(
                "add the feature `sparse` of the crate `torsh`, or leave sparse at false",
            ),
        ),
    }
}

/// Whether an operand is sparse.
#[inline]
pub(crate) fn any(args: &[Arg<'_>]) -> bool {
    args.iter()
        .any(|a| matches!(a, Arg::T(t) if !t.is_strided()))
}

/// The results of a method that is written in other ops, where an operand is sparse and a rule has the method's name.
#[inline]
#[track_caller]
pub(crate) fn of(
    op: &'static str,
    args: &[Arg<'_>],
    attrs: &dyn Attributes,
) -> Option<Result<Tensor>> {
    match any(args) {
        true => Some(call1(op, args, attrs)),
        false => None,
    }
}

/// The only (or first) result of [`call()`].
///
/// # Errors
/// As [`call()`].
#[torsh_tensor::names_caller]
pub fn call1(op: &'static str, args: &[Arg<'_>], attrs: &dyn Attributes) -> Result<Tensor> {
    let outs = call(op, args, attrs)?;
    outs.into_iter()
        .next()
        .ok_or_else(|| refusal(op, args, "the rule gave no result"))
}

/// Runs the rule of an op by its name.
///
/// # Errors
/// What the rule refuses, with the op, its operands and the caller; where there is no such rule.
#[torsh_tensor::names_caller]
pub fn call(op: &'static str, args: &[Arg<'_>], attrs: &dyn Attributes) -> Result<Outputs> {
    let at = Location::caller();
    run(op, args, attrs).map_err(|e| call::in_op_named(e, op, args, at))
}

fn run(op: &'static str, args: &[Arg<'_>], attrs: &dyn Attributes) -> Result<Outputs> {
    match ops::sparse_rule(op) {
        Some(rule) => (rule.call)(&SparseCall { op, args, attrs }),
        None => Err(no_rule(op, args)),
    }
}

#[cold]
pub(crate) fn no_rule(op: &'static str, args: &[Arg<'_>]) -> TorshError {
    match ops::families().iter().any(|f| !f.sparse.is_empty()) {
        true => refusal(op, args, &format!("{op} is not defined for sparse tensors")),
        false => refusal(
            op,
            args,
            &format!("{op} of sparse tensors comes with the feature `sparse`"),
        )
        .with_hint("add the feature `sparse` of the crate `torsh`"),
    }
}

/// A call of the dispatcher with a sparse operand.
#[cold]
#[inline(never)]
pub(crate) fn dispatch(
    record: &'static OpRecord,
    args: &[Arg<'_>],
    attrs: &dyn Attributes,
) -> Result<Outputs> {
    let op = record.base_name();
    // An overload may have a rule of its own, as `div.trunc`.
    if let Some(rule) = ops::sparse_rule(record.name).or_else(|| ops::sparse_rule(op)) {
        let op = rule.op;
        return (rule.call)(&SparseCall { op, args, attrs });
    }
    match (record.keeps_zeros, args) {
        (Some(kind), [Arg::T(x), rest @ ..]) if !any(rest) => {
            // PyTorch's angle of real numbers in a compressed layout has a gradient that stores nothing.
            let kind = match op == "angle" && x.layout().is_compressed() {
                true => KeepsZeros::Flat,
                false => kind,
            };
            on_values(record, kind, x, rest, attrs).map(|t| SmallVec::from_iter([t]))
        }
        _ => Err(no_rule(op, args)),
    }
}

/// What is known of an op that gives 0 for 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum KeepsZeros {
    /// It adds up: what is stored twice may stay stored twice.
    Linear,
    /// It needs the whole value of an element.
    Any,
    /// As `Any`, and its derivative is 0: the gradient stores nothing.
    Flat,
}

/// A unary op that gives 0 for 0, on the stored values.
fn on_values(
    record: &'static OpRecord,
    kind: KeepsZeros,
    x: &Tensor,
    rest: &[Arg<'_>],
    attrs: &dyn Attributes,
) -> Result<Tensor> {
    let once = x.pattern().is_none_or(|p| p.is_coalesced()) || kind == KeepsZeros::Linear;
    let x = match once {
        true => x.clone(),
        false => call1("coalesce", &[Arg::T(x)], NONE)?,
    };
    let run = || {
        let v = values(&x)?;
        let mut args: SmallVec<[Arg<'_>; 4]> = SmallVec::from_iter([Arg::T(&v)]);
        args.extend_from_slice(rest);
        let v = call::call1(record, &args, attrs)?;
        match x.pattern() {
            Some(pattern) => from_values(&pattern, &v),
            None => Ok(v),
        }
    };
    if kind == KeepsZeros::Flat && x.dtype().is_floating_point() {
        let out = mode::no_grad(run)?;
        return Ok(first(FLAT.recorded(
            &[Arg::T(&x)],
            NONE,
            SmallVec::from_iter([out]),
        )?));
    }
    run()
}

static FLAT: OpRecord = OpRecord::new(
    "_sparse_flat",
    "A function of the stored values whose derivative is 0.",
    "(Tensor input)",
)
.internal()
.grads(1, 0, |c| {
    let g = call1("zero_", &[Arg::T(&c.x()?.detach())], NONE)?;
    Ok(SmallVec::from_iter([Some(g)]))
});

static VALUES: OpRecord = OpRecord::new(
    "_sparse_values",
    "The stored values of a sparse tensor.",
    "(Tensor input)",
)
.internal()
.grads(1, 0, |c| {
    let x = c.x()?;
    let g = match x.pattern() {
        Some(pattern) if pattern.is_coalesced() => from_values(&pattern, c.g())?,
        // The copies of an element have its gradient each, which would add up.
        Some(_) => call1(
            "_sparse_of_stored",
            &[Arg::T(c.g()), Arg::T(&x.detach())],
            NONE,
        )?,
        None => c.g().clone(),
    };
    Ok(SmallVec::from_iter([Some(g)]))
});

static FROM_VALUES: OpRecord = OpRecord::new(
    "_sparse_from_values",
    "A sparse tensor of a pattern and stored values.",
    "(Tensor values, Tensor indices, Tensor? compressed)",
)
.internal()
.grads(0, 1, |c| {
    let g = c.g();
    let out = c.output(0)?;
    let g = match (g.pattern(), out.pattern()) {
        (Some(a), Some(b)) if a.is_same(&b) && a.is_coalesced() => values(g)?,
        _ => call1(
            "_sparse_values_at",
            &[Arg::T(g), Arg::T(&out.detach())],
            NONE,
        )?,
    };
    Ok(SmallVec::from_iter([Some(g), None, None]))
});

/// The records of this file.
pub(crate) static RECORDS: &[&OpRecord] = &[&VALUES, &FROM_VALUES, &FLAT];

/// The stored values of a sparse tensor as a strided tensor of the shape [`Pattern::values_shape`]. The gradient is sparse,
/// of the tensor's pattern. Where nothing is recorded, writing into the result writes into the sparse tensor.
///
/// # Errors
/// A strided tensor.
#[torsh_tensor::names_caller]
pub fn values(x: &Tensor) -> Result<Tensor> {
    let Some(parts) = x.0.memory.parts() else {
        return Err(TorshError::invalid(
            "values",
            format!(
                "{} has no stored values: its layout is torch.strided",
                x.describe()
            ),
        ));
    };
    let out = parts.values().detach();
    let outs = VALUES.recorded(&[Arg::T(x)], NONE, SmallVec::from_iter([out]))?;
    Ok(first(outs))
}

/// The sparse tensor of a pattern and of its stored values, which are of the shape [`Pattern::values_shape`]. The gradient
/// of the values is the result's gradient, strided or sparse, at the stored elements.
///
/// ```
/// use torsh_tensor::{sparse, sparse::Pattern, tensor};
/// let corner = Pattern::coo(&[2, 2], &tensor![[1], [1]], true)?;
/// let x = sparse::from_values(&corner, &tensor![5.0])?;
/// assert!(x.is_sparse());
/// assert_eq!(sparse::values(&x)?, tensor![5.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Values of another shape, or on another device than the indices.
#[torsh_tensor::names_caller]
pub fn from_values(pattern: &Pattern, values: &Tensor) -> Result<Tensor> {
    let out = Tensor::of_parts(pattern, values)?;
    let args = [
        Arg::T(values),
        Arg::T(pattern.indices()),
        Arg::opt(pattern.compressed_indices()),
    ];
    let outs = FROM_VALUES.recorded(&args, NONE, SmallVec::from_iter([out]))?;
    Ok(first(outs))
}

fn first(outs: Outputs) -> Tensor {
    match outs.into_iter().next() {
        Some(t) => t,
        None => unreachable!("as many results as were given"),
    }
}

/// The op of the name in place: the rule's result takes the place of the target's parts.
#[track_caller]
pub(crate) fn in_place(
    op: &'static str,
    target: &Tensor,
    rest: &[Arg<'_>],
    attrs: &dyn Attributes,
) -> Result<()> {
    let mut args: SmallVec<[Arg<'_>; 3]> = SmallVec::from_iter([Arg::T(target)]);
    args.extend_from_slice(rest);
    let wanted = args
        .iter()
        .any(|a| matches!(a, Arg::T(t) if t.requires_grad()));
    inplace::check(target, wanted)?;
    let value = call1(op, &args, attrs)?;
    replace(op, target, &value)
}

/// A call of the dispatcher in place, with a sparse target or operand.
#[cold]
pub(crate) fn update(
    record: &'static OpRecord,
    target: &Tensor,
    args: &[Arg<'_>],
    attrs: &dyn Attributes,
    at: &'static Location<'static>,
) -> Result<()> {
    let wanted = args
        .iter()
        .any(|a| matches!(a, Arg::T(t) if t.requires_grad()));
    inplace::check(target, wanted)?;
    let value = first(call::run_at(record, args, attrs, at)?);
    match target.is_strided() {
        true => inplace::assign(target, &value),
        false => replace(record.base_name(), target, &value),
    }
}

/// Puts the parts of `value` into a sparse tensor, and its history. Values of the same indices are written into those of the
/// target, which others may share.
pub(crate) fn replace(op: &'static str, target: &Tensor, value: &Tensor) -> Result<()> {
    let args = [Arg::T(target), Arg::T(value)];
    let (Some(to), Some(from)) = (target.0.memory.parts(), value.0.memory.parts()) else {
        return Err(refusal(
            op,
            &args,
            "the result has another layout than the tensor that is written",
        ));
    };
    if target.is_same(value) {
        return Ok(());
    }
    let ((have, old), (pattern, new)) = (to.both(), from.both());
    if have.layout() != pattern.layout()
        || have.shape() != pattern.shape()
        || have.sparse_dim() != pattern.sparse_dim()
    {
        return Err(refusal(
            op,
            &args,
            "the result has another layout or shape than the tensor that is written",
        ));
    }
    if !new.dtype().can_cast(old.dtype()) {
        return Err(TorshError::dtype(
            op,
            format!(
                "result type {} can't be cast to the desired output type {}",
                new.dtype(),
                old.dtype()
            ),
        ));
    }
    mode::no_grad(|| match have.is_same(&pattern) {
        true => old.copy_(&new).map(|_| ()),
        false => {
            to.replace(pattern, new.to_dtype(old.dtype())?);
            Ok(())
        }
    })?;
    let edge = match mode::is_grad_enabled() && target.dtype().is_differentiable() {
        true => value.gradient_edge(),
        false => None,
    };
    if let Some(e) = edge {
        attach(target.clone(), e.node, e.output_nr);
    }
    Ok(())
}

impl OpRecord {
    /// Ties results that a rule computed without recording to a node of this record, whose formula then gives the
    /// gradients of the operands.
    ///
    /// # Errors
    /// Operands that cannot be recorded, as inference tensors.
    #[torsh_tensor::names_caller]
    pub fn recorded(
        &'static self,
        args: &[Arg<'_>],
        attrs: &dyn Attributes,
        outs: Outputs,
    ) -> Result<Outputs> {
        call::recorded(self, args, attrs, outs, Location::caller())
    }
}

/// Whether a pointwise op of this name gives 0 for 0, and so keeps the pattern of a sparse operand.
pub(crate) const fn keeps_zeros(name: &str, rule: &Rule) -> Option<KeepsZeros> {
    if !matches!(rule, Rule::Pointwise(_)) {
        return None;
    }
    const LINEAR: &[&str] = &["neg", "positive", "conj_physical"];
    const FLAT: &[&str] = &["ceil", "floor", "round", "sign", "trunc"];
    const OTHERS: &[&str] = &[
        "abs",
        "angle",
        "asin",
        "asinh",
        "atan",
        "atanh",
        "deg2rad",
        "erf",
        "erfinv",
        "expm1",
        "frac",
        "isinf",
        "isnan",
        "isneginf",
        "isposinf",
        "log1p",
        "nan_to_num",
        "nn.functional.celu",
        "nn.functional.elu",
        "nn.functional.gelu",
        "nn.functional.hardshrink",
        "nn.functional.hardswish",
        "nn.functional.leaky_relu",
        "nn.functional.mish",
        "nn.functional.relu",
        "nn.functional.relu6",
        "nn.functional.selu",
        "nn.functional.silu",
        "nn.functional.softshrink",
        "nn.functional.softsign",
        "nn.functional.tanhshrink",
        "rad2deg",
        "relu",
        "sgn",
        "signbit",
        "sin",
        "sinh",
        "sqrt",
        "square",
        "tan",
        "tanh",
    ];
    match name {
        _ if holds(LINEAR, name) => Some(KeepsZeros::Linear),
        _ if holds(FLAT, name) => Some(KeepsZeros::Flat),
        _ if holds(OTHERS, name) => Some(KeepsZeros::Any),
        _ => None,
    }
}

const fn holds(names: &[&str], name: &str) -> bool {
    let mut i = 0;
    while i < names.len() {
        if equal(names[i].as_bytes(), name.as_bytes()) {
            return true;
        }
        i += 1;
    }
    false
}

const fn equal(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}
