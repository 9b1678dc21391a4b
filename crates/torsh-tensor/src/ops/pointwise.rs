//! Pointwise ops: records and methods made from the rows of `torsh_core::pointwise`.

use smallvec::SmallVec;
use torsh_core::attrs::NONE;
use torsh_core::pointwise::KeepsZeros;
use torsh_core::pointwise::numbers::{self, Numbers};
use torsh_core::{Kernel, Result, SavedAttributes, Scalar};

use super::{joined, total};
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

/// The record of a row. `operands` is the schema of one without a signature, which other ops call. A row's name may carry an
/// overload's (`add.alpha`), or only a namespace.
const fn record(
    name: &'static str,
    doc: &'static str,
    signature: &'static str,
    operands: &'static str,
) -> OpRecord {
    let r = match signature.is_empty() {
        true => OpRecord::new(name, doc, operands).internal(),
        false => OpRecord::new(name, doc, signature),
    };
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

/// What the section `zero` says.
macro_rules! keeps_zeros {
    (linear) => {
        KeepsZeros::Linear
    };
    (any) => {
        KeepsZeros::Any
    };
    (flat) => {
        KeepsZeros::Flat
    };
}

/// Makes a row's struct of numbers from those that a schema binds.
macro_rules! bind {
    ($kernel:ident $($number:ident)+) => {
        |given| SavedAttributes::new(<numbers::$kernel as Numbers>::bound(given))
    };
}

macro_rules! define_records {
    ($($(#[doc = $doc:literal])+ $method:ident $name:literal $kernel:ident ( $first:ident $(, $arg:ident)* $(; $($number:ident),+)? ) $schema:literal -> $rule:ident {
        $(float |$($fa:ident),+ $(; $($fp:ident),+)?| $fe:expr;)?
        $(int |$($ia:ident),+ $(; $($ip:ident),+)?| $ie:expr;)?
        $(bool |$($ba:ident),+ $(; $($bp:ident),+)?| $be:expr;)?
        $(complex |$($ca:ident),+ $(; $($cp:ident),+)?| $ce:expr;)?
        $(grad [$($saved:ident)*] $grad:expr;)*
        $(define $define:expr;)?
        $(zero $zero:ident;)?
        samples $(($lo:literal, $hi:literal)),+;
        $(example $($example:tt)*)?
    })*) => {
        $(
            $(#[doc = $doc])+
            #[allow(non_upper_case_globals)]
            pub static $method: OpRecord = record($name, concat!($($doc, "\n"),+), $schema, concat!(
                "(Tensor ", stringify!($first) $(, ", Tensor ", stringify!($arg))* $(, ", *" $(, ", Scalar ", stringify!($number))+)?, ")"
            ))
                .pointwise(rule!($rule), Kernel::$kernel)
                .backward(backward!($rule [$($($fa)+)?] $([$($saved)*] $grad;)*))
                .intervals(&[$(($lo, $hi)),+])
                $(.definition(definition!($define)))?
                $(.keeps_zeros(keeps_zeros!($zero)))?
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

const LISTS: &[&[&OpRecord]] = &[unary::LIST, binary::LIST, parametric::LIST];

/// Every pointwise record.
pub(crate) const RECORDS: &[&OpRecord] = &joined::<_, { total(LISTS) }>(LISTS);

macro_rules! unary_methods {
    ($($(#[doc = $doc:literal])+ $method:ident $name:literal $kernel:ident ( $($arg:ident),+ $(; $($number:ident),+)? ) $schema:literal -> $rule:ident { $($body:tt)* })*) => {
        impl Tensor {
            $(
                $(#[doc = $doc])+
                #[doc = concat!("\n\n`torch.", $name, "`. The result has this tensor's shape.")]
                #[doc = torsh_core::row_dtypes!(unary $rule { $($body)* })]
                #[doc = torsh_core::row_example!(method $method { $($body)* })]
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
                #[doc = torsh_core::row_dtypes!(binary $rule { $($body)* })]
                #[doc = torsh_core::row_example!(method $method { $($body)* })]
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

/// What every method in place refuses.
macro_rules! in_place_errors {
    () => {
        "An error where the result has a dtype that this tensor's cannot take or another shape than this \
         tensor, and for a leaf that requires a gradient."
    };
}

/// In-place methods of unary ops.
macro_rules! unary_inplace {
    ($($method:ident $name:ident $x:tt $(=> $exact:tt)? $(~ $close:tt)?;)*) => {
        impl Tensor {
            $(
                #[doc = concat!("[`", stringify!($name), "`](Tensor::", stringify!($name), ") in place; returns this tensor.")]
                #[doc = in_place_errors!()]
                #[doc = torsh_core::row_example!(inplace $method $x $(=> $exact)? $(~ $close)?)]
                #[torsh_tensor::names_caller]
                pub fn $method(&self) -> Result<Tensor> {
                    call_inplace(&unary::$name, self, &[], NONE)?;
                    Ok(self.clone())
                }
            )*
        }
    };
}
unary_inplace! {
    neg_ neg [1.0, -2.0] => [-1.0, 2.0];
    abs_ abs [-1.5, 2.0] => [1.5, 2.0];
    sign_ sign [-1.5, 0.0, 2.0] => [-1.0, 0.0, 1.0];
    sgn_ sgn [-1.5, 0.0, 2.0] => [-1.0, 0.0, 1.0];
    exp_ exp [0.0, 1.0] ~ [1.0, 2.718282];
    exp2_ exp2 [-1.0, 3.0] ~ [0.5, 8.0];
    expm1_ expm1 [0.0, 1.0] ~ [0.0, 1.718282];
    log_ log [1.0, 10.0] ~ [0.0, 2.302585];
    log2_ log2 [1.0, 8.0] ~ [0.0, 3.0];
    log10_ log10 [1.0, 1000.0] ~ [0.0, 3.0];
    log1p_ log1p [0.0, 1.0] ~ [0.0, 0.693147];
    sqrt_ sqrt [4.0, 9.0] => [2.0, 3.0];
    rsqrt_ rsqrt [4.0, 16.0] ~ [0.5, 0.25];
    square_ square [3.0, -2.0] => [9.0, 4.0];
    reciprocal_ reciprocal [2.0, -4.0] => [0.5, -0.25];
    sin_ sin [0.0, 1.0] ~ [0.0, 0.841471];
    cos_ cos [0.0, 1.0] ~ [1.0, 0.540302];
    tan_ tan [0.0, 1.0] ~ [0.0, 1.557408];
    asin_ asin [0.0, 0.5] ~ [0.0, 0.523599];
    acos_ acos [1.0, 0.5] ~ [0.0, 1.047198];
    atan_ atan [0.0, 1.0] ~ [0.0, 0.785398];
    sinh_ sinh [0.0, 1.0] ~ [0.0, 1.175201];
    cosh_ cosh [0.0, 1.0] ~ [1.0, 1.543081];
    tanh_ tanh [0.0, 1.0] ~ [0.0, 0.761594];
    asinh_ asinh [0.0, 1.0] ~ [0.0, 0.881374];
    acosh_ acosh [1.0, 2.0] ~ [0.0, 1.316958];
    atanh_ atanh [0.0, 0.5] ~ [0.0, 0.549306];
    sinc_ sinc [0.0, 0.5] ~ [1.0, 0.636620];
    sigmoid_ sigmoid [0.0, 2.0] ~ [0.5, 0.880797];
    erf_ erf [0.0, 1.0] ~ [0.0, 0.842701];
    erfc_ erfc [0.0, 1.0] ~ [1.0, 0.157299];
    erfinv_ erfinv [0.0, 0.5] ~ [0.0, 0.476936];
    lgamma_ lgamma [1.0, 5.0] ~ [0.0, 3.178054];
    digamma_ digamma [1.0, 2.0] ~ [-0.577216, 0.422784];
    i0_ i0 [0.0, 1.0] ~ [1.0, 1.266066];
    floor_ floor [1.7, -1.2] => [1.0, -2.0];
    ceil_ ceil [1.2, -1.7] => [2.0, -1.0];
    round_ round [0.5, 1.5, -1.7] => [0.0, 2.0, -2.0];
    trunc_ trunc [1.7, -1.7] => [1.0, -1.0];
    frac_ frac [1.25, -1.75] => [0.25, -0.75];
    deg2rad_ deg2rad [180.0, 90.0] ~ [3.141593, 1.570796];
    rad2deg_ rad2deg [1.0, 2.0] ~ [57.29578, 114.591559];
    logical_not_ logical_not [true, false] => [false, true];
    bitwise_not_ bitwise_not [0, 5] => [-1, -6];
    conj_physical_ conj_physical [1.0, -2.0] => [1.0, -2.0];
}

/// In-place methods of binary ops.
macro_rules! binary_inplace {
    ($($method:ident $name:ident $x:tt, $y:tt $(=> $exact:tt)? $(~ $close:tt)?;)*) => {
        impl Tensor {
            $(
                #[doc = concat!("[`", stringify!($name), "`](Tensor::", stringify!($name), ") in place; returns this tensor.")]
                #[doc = in_place_errors!()]
                #[doc = torsh_core::row_example!(inplace $method $x, $y $(=> $exact)? $(~ $close)?)]
                #[torsh_tensor::names_caller]
                pub fn $method<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor> {
                    call_inplace(&binary::$name, self, &[other.into().arg()], NONE)?;
                    Ok(self.clone())
                }
            )*
        }
    };
}
binary_inplace! {
    add_ add [1.0, 2.0], [10.0, 20.0] => [11.0, 22.0];
    sub_ sub [10.0, 20.0], [1.0, 2.0] => [9.0, 18.0];
    mul_ mul [2.0, 3.0], [4.0, 5.0] => [8.0, 15.0];
    div_ div [1.0, 3.0], [2.0, 4.0] => [0.5, 0.75];
    floor_divide_ floor_divide [7.0, -7.0], [2.0, 2.0] => [3.0, -4.0];
    remainder_ remainder [7.0, -7.0], [3.0, 3.0] => [1.0, 2.0];
    fmod_ fmod [7.0, -7.0], [3.0, 3.0] => [1.0, -1.0];
    pow_ pow [2.0, 3.0], [3.0, 2.0] ~ [8.0, 9.0];
    atan2_ atan2 [1.0, -1.0], [1.0, 1.0] ~ [0.785398, -0.785398];
    xlogy_ xlogy [0.0, 2.0], [0.0, 3.0] ~ [0.0, 2.197225];
    igamma_ igamma [1.0, 2.0], [1.0, 3.0] ~ [0.632121, 0.800852];
    igammac_ igammac [1.0, 2.0], [1.0, 3.0] ~ [0.367879, 0.199148];
    hypot_ hypot [3.0, 5.0], [4.0, 12.0] ~ [5.0, 13.0];
    copysign_ copysign [1.0, -2.0], [-3.0, 4.0] => [-1.0, 2.0];
    heaviside_ heaviside [-1.0, 0.0, 2.0], [0.5, 0.5, 0.5] => [0.0, 0.5, 1.0];
    nextafter_ nextafter [1.0, 1.0], [2.0, 1.0] => [1.0000001, 1.0];
    eq_ eq [1.0, 2.0, 3.0], [2.0, 2.0, 2.0] => [0.0, 1.0, 0.0];
    ne_ ne [1.0, 2.0, 3.0], [2.0, 2.0, 2.0] => [1.0, 0.0, 1.0];
    lt_ lt [1.0, 2.0, 3.0], [2.0, 2.0, 2.0] => [1.0, 0.0, 0.0];
    le_ le [1.0, 2.0, 3.0], [2.0, 2.0, 2.0] => [1.0, 1.0, 0.0];
    gt_ gt [1.0, 2.0, 3.0], [2.0, 2.0, 2.0] => [0.0, 0.0, 1.0];
    ge_ ge [1.0, 2.0, 3.0], [2.0, 2.0, 2.0] => [0.0, 1.0, 1.0];
    logical_and_ logical_and [true, true, false], [true, false, false] => [true, false, false];
    logical_or_ logical_or [true, true, false], [true, false, false] => [true, true, false];
    logical_xor_ logical_xor [true, true, false], [true, false, false] => [false, true, false];
    bitwise_and_ bitwise_and [6, 5], [3, 1] => [2, 1];
    bitwise_or_ bitwise_or [6, 5], [3, 1] => [7, 5];
    bitwise_xor_ bitwise_xor [6, 5], [3, 1] => [5, 4];
    bitwise_left_shift_ bitwise_left_shift [1, 3], [4, 1] => [16, 6];
    bitwise_right_shift_ bitwise_right_shift [16, -8], [2, 1] => [4, -4];
    gcd_ gcd [12, -9], [18, 6] => [6, 3];
    lcm_ lcm [4, 6], [6, 15] => [12, 30];
}

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

#[torsh_tensor::functions]
impl Tensor {
    /// The complex conjugate; a real tensor comes back as it is (`torch.conj`).
    ///
    /// Shape and dtype stay.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let z = tensor![[1.0, 2.0]].view_as_complex()?;
    /// assert_eq!(z.conj()?.view_as_real()?, tensor![[1.0, -2.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
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
    #[torsh_tensor::names_caller]
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
