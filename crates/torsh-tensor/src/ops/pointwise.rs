//! Pointwise ops: records and methods made from the rows of `torsh_core::pointwise`.

use smallvec::SmallVec;
use torsh_core::attrs::NONE;
use torsh_core::pointwise::numbers::{self, Numbers};
use torsh_core::{Kept, Kernel, Result, Scalar};

use crate::call::{Arg, DefinitionCx, Outputs, call_inplace, call1};
use crate::record::{Backward, InputGrad, OpRecord, Pointwise, Rule};
use crate::schema::Bound;
use crate::{AddOptions, Operand, Tensor, Value};

macro_rules! rule {
    (promote) => {
        Pointwise::Promote
    };
    (number) => {
        Pointwise::Number
    };
    (equality) => {
        Pointwise::Equality
    };
    (float) => {
        Pointwise::Float
    };
    (bool) => {
        Pointwise::Bool
    };
    (real) => {
        Pointwise::Real
    };
}

/// The bit of a saved operand, by its name in the rows.
macro_rules! operand_bit {
    (x) => {
        1
    };
    (y) => {
        2
    };
    (z) => {
        4
    };
    (out) => {
        0
    };
}

macro_rules! output_bit {
    (out) => {
        1
    };
    ($other:ident) => {
        0
    };
}

macro_rules! backward {
    // No formula: nothing to differentiate for a bool result or an op of integers only.
    (bool [$($float:ident)*]) => {
        Backward::NonDifferentiable
    };
    (equality [$($float:ident)*]) => {
        Backward::NonDifferentiable
    };
    ($rule:ident []) => {
        Backward::NonDifferentiable
    };
    ($rule:ident [$($float:ident)+]) => {
        Backward::Missing
    };
    ($rule:ident [$($float:ident)*] $([$($saved:ident)*] $f:expr;)+) => {
        Backward::PerInput(&[$(InputGrad {
            inputs: 0 $(| operand_bit!($saved))*,
            outputs: 0 $(| output_bit!($saved))*,
            formula: $f,
        }),+])
    };
}

/// Whether a row's name carries an overload's (`add.alpha`), or only a namespace.
const fn record(name: &'static str, doc: &'static str, schema: &'static str) -> OpRecord {
    let r = OpRecord::new(name, doc, schema);
    let b = name.as_bytes();
    let namespaced = b.len() > 3 && (b[0] == b'n' && b[1] == b'n' && b[2] == b'.')
        || b.len() > 8 && b[0] == b's' && b[1] == b'p' && b[2] == b'e' && b[7] == b'.';
    if namespaced { r } else { r.overload() }
}

/// A definition with one result.
macro_rules! definition {
    ($define:expr) => {
        |c| {
            let define: fn(&DefinitionCx<'_>) -> Result<Tensor> = $define;
            Ok(Outputs::from_iter([define(c)?]))
        }
    };
}

/// Makes a row's struct of numbers from those that a schema binds.
macro_rules! bind {
    ($kernel:ident $($number:ident)+) => {
        |given| Kept::new(<numbers::$kernel as Numbers>::bound(given))
    };
}

macro_rules! define_records {
    ($($(#[doc = $doc:literal])+ $method:ident $name:literal $kernel:ident ( $($arg:ident),+ $(; $($number:ident),+)? ) $schema:literal -> $rule:ident {
        $(float |$($fa:ident),+ $(; $($fp:ident),+)?| $fe:expr;)?
        $(int |$($ia:ident),+ $(; $($ip:ident),+)?| $ie:expr;)?
        $(bool |$($ba:ident),+ $(; $($bp:ident),+)?| $be:expr;)?
        $(complex |$($ca:ident),+ $(; $($cp:ident),+)?| $ce:expr;)?
        $(grad [$($saved:ident)*] $grad:expr;)*
        $(define $define:expr;)?
        samples $(($lo:literal, $hi:literal)),+;
    })*) => {
        $(
            $(#[doc = $doc])+
            #[allow(non_upper_case_globals)]
            pub static $method: OpRecord = record($name, concat!($($doc, "\n"),+), $schema)
                .pointwise(rule!($rule), Kernel::$kernel)
                .backward(backward!($rule [$($($fa)+)?] $([$($saved)*] $grad;)*))
                .intervals(&[$(($lo, $hi)),+])
                $(.definition(definition!($define)))?
                $(.numbers(bind!($kernel $($number)+)))?;
        )*

        pub(super) const LIST: &[&OpRecord] = &[$(&$method),*];
    };
}

/// The records of the unary rows.
pub(crate) mod unary {
    use super::*;
    torsh_core::for_each_unary! { define_records }
}
/// The records of the binary rows.
pub(crate) mod binary {
    use super::*;
    torsh_core::for_each_binary! { define_records }
}
/// The records of the parametric rows.
pub(crate) mod parametric {
    use super::*;
    torsh_core::for_each_parametric! { define_records }
}

const fn join<const N: usize>(lists: &[&[&'static OpRecord]]) -> [&'static OpRecord; N] {
    let mut out = [lists[0][0]; N];
    let (mut l, mut n) = (0, 0);
    while l < lists.len() {
        let mut i = 0;
        while i < lists[l].len() {
            out[n] = lists[l][i];
            n += 1;
            i += 1;
        }
        l += 1;
    }
    out
}

const COUNT: usize = unary::LIST.len() + binary::LIST.len() + parametric::LIST.len();

/// Every pointwise record.
pub(crate) const RECORDS: &[&OpRecord] =
    &join::<COUNT>(&[unary::LIST, binary::LIST, parametric::LIST]);

macro_rules! unary_methods {
    ($($(#[doc = $doc:literal])+ $method:ident $name:literal $kernel:ident ( $($arg:ident),+ $(; $($number:ident),+)? ) $schema:literal -> $rule:ident { $($body:tt)* })*) => {
        impl Tensor {
            $(
                $(#[doc = $doc])+
                #[doc = concat!("\n\n`torch.", $name, "`. The result has this tensor's shape.")]
                #[inline]
                #[track_caller]
                pub fn $method(&self) -> Result<Tensor> {
                    call1(&unary::$method, &[Arg::T(self)], NONE)
                }
            )*
        }
    };
}
torsh_core::for_each_unary! { unary_methods }

macro_rules! binary_methods {
    ($($(#[doc = $doc:literal])+ $method:ident $name:literal $kernel:ident ( $($arg:ident),+ $(; $($number:ident),+)? ) $schema:literal -> $rule:ident { $($body:tt)* })*) => {
        impl Tensor {
            $(
                $(#[doc = $doc])+
                #[doc = concat!("\n\n`torch.", $name, "`. The shapes broadcast; the dtypes promote as PyTorch's do.")]
                #[inline]
                #[track_caller]
                pub fn $method<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor> {
                    call1(&binary::$method, &[Arg::T(self), other.into().arg()], NONE)
                }
            )*
        }
    };
}
torsh_core::for_each_binary! { binary_methods }

/// In-place methods of unary ops.
macro_rules! unary_inplace {
    ($($method:ident $name:ident),* $(,)?) => {
        impl Tensor {
            $(
                #[doc = concat!("[`", stringify!($name), "`](Tensor::", stringify!($name), ") in place; returns this tensor.")]
                #[track_caller]
                pub fn $method(&self) -> Result<Tensor> {
                    call_inplace(&unary::$name, self, &[], NONE)?;
                    Ok(self.clone())
                }
            )*
        }
    };
}
unary_inplace!(
    neg_ neg, abs_ abs, sign_ sign, sgn_ sgn, exp_ exp, exp2_ exp2, expm1_ expm1, log_ log, log2_ log2, log10_
    log10, log1p_ log1p, sqrt_ sqrt, rsqrt_ rsqrt, square_ square, reciprocal_ reciprocal, sin_ sin, cos_ cos,
    tan_ tan, asin_ asin, acos_ acos, atan_ atan, sinh_ sinh, cosh_ cosh, tanh_ tanh, asinh_ asinh, acosh_
    acosh, atanh_ atanh, sinc_ sinc, sigmoid_ sigmoid, erf_ erf, erfc_ erfc, erfinv_ erfinv, lgamma_ lgamma,
    digamma_ digamma, floor_ floor, ceil_ ceil, round_ round, trunc_ trunc, frac_ frac, deg2rad_ deg2rad,
    rad2deg_ rad2deg, logical_not_ logical_not, bitwise_not_ bitwise_not, conj_physical_ conj_physical,
);

/// In-place methods of binary ops.
macro_rules! binary_inplace {
    ($($method:ident $name:ident),* $(,)?) => {
        impl Tensor {
            $(
                #[doc = concat!("[`", stringify!($name), "`](Tensor::", stringify!($name), ") in place; returns this tensor.")]
                #[track_caller]
                pub fn $method<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor> {
                    call_inplace(&binary::$name, self, &[other.into().arg()], NONE)?;
                    Ok(self.clone())
                }
            )*
        }
    };
}
binary_inplace!(
    add_ add, sub_ sub, mul_ mul, div_ div, floor_divide_ floor_divide, remainder_ remainder, fmod_ fmod, pow_
    pow, atan2_ atan2, xlogy_ xlogy, hypot_ hypot, copysign_ copysign, heaviside_ heaviside, nextafter_
    nextafter, eq_ eq, ne_ ne, lt_ lt, le_ le, gt_ gt, ge_ ge, logical_and_ logical_and, logical_or_
    logical_or, logical_xor_ logical_xor, bitwise_and_ bitwise_and, bitwise_or_ bitwise_or, bitwise_xor_
    bitwise_xor, bitwise_left_shift_ bitwise_left_shift, bitwise_right_shift_ bitwise_right_shift, gcd_ gcd,
    lcm_ lcm,
);

/// Calls a pointwise record by name: operands first, then the numbers of the schema.
pub(super) fn by_name(record: &'static OpRecord, b: &Bound) -> Result<Value> {
    let arity = match &record.samples {
        crate::record::Samples::Intervals(v) => v.len(),
        _ => 1,
    };
    let operands = (0..arity)
        .map(|i| b.operand(i))
        .collect::<Result<SmallVec<[_; 3]>>>()?;
    // A call on numbers alone computes on a 0-d tensor of the first.
    let first;
    let mut args: SmallVec<[Arg<'_>; 3]> = operands.iter().map(Operand::arg).collect();
    let numbers: SmallVec<[Scalar; 4]> = (arity..b.len()).map(|i| b.scalar(i)).collect();
    super::pointwise_names::check_numbers(record, &args, numbers.first().copied())?;
    if !args.iter().any(|a| matches!(a, Arg::T(_))) {
        first = operands[0].to_tensor()?;
        args[0] = Arg::T(&first);
    }
    call1(record, &args, record.with_numbers(&numbers).get()).map(Value::Tensor)
}

impl Tensor {
    /// The complex conjugate; a real tensor comes back as it is.
    #[track_caller]
    pub fn conj(&self) -> Result<Tensor> {
        if self.dtype().is_complex() {
            self.conj_physical()
        } else {
            Ok(self.clone())
        }
    }

    /// `self + alpha * other` (`torch.add` with `alpha`).
    ///
    /// ```
    /// use torsh_tensor::{AddOptions, tensor};
    /// let sum = tensor![1, 2].add_with(&tensor![10, 20], AddOptions::new().alpha(2))?;
    /// assert_eq!(sum, tensor![21, 42]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[track_caller]
    pub fn add_with<'a>(
        &self,
        other: impl Into<Operand<'a>>,
        options: AddOptions,
    ) -> Result<Tensor> {
        call1(
            &parametric::add_alpha,
            &[Arg::T(self), other.into().arg()],
            &numbers::AddAlpha {
                alpha: options.alpha,
            },
        )
    }
}

const _: () = assert!(matches!(
    binary::add.rule,
    Rule::Pointwise(Pointwise::Promote)
));
