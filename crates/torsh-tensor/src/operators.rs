//! Rust's operators on tensors. They panic with the error's message if the method would return an
//! error; use `a.add(&b)?` to get a `Result`.
//!
//! The prelude does not import the operators' traits. After `use std::ops::Add`, `a.add(&b)` on a
//! `Tensor` by value is the operator and panics; on a `&Tensor` it is still the method.
//!
//! A literal on the left has no type yet. Write `let y: Tensor = 2.0 * &x;`, `2.0f64 * &x` or
//! `&x * 2.0` before you call a method on the result.

use std::ops::{
    Add, AddAssign, BitAnd, BitAndAssign, BitOr, BitOrAssign, BitXor, BitXorAssign, Div, DivAssign,
    Mul, MulAssign, Neg, Not, Rem, RemAssign, Sub, SubAssign,
};
use torsh_core::attrs::NONE;

use half::{bf16, f16};
use num_complex::Complex;
use torsh_core::{Promotion, Result};

use crate::call::{Arg, call_inplace, call1};
use crate::ops::pointwise::binary;
use crate::record::{OpRecord, Pointwise, Rule};
use crate::{Operand, Tensor};

#[track_caller]
fn unwrap(r: Result<Tensor>) -> Tensor {
    match r {
        Ok(t) => t,
        Err(e) => panic!("{e}"),
    }
}

/// Whether the result can be written over an operand that was given away: nobody else sees it,
/// nothing is recorded, and it has the result's shape and dtype.
fn takes_over(record: &OpRecord, x: &Tensor, y: &Operand<'_>) -> bool {
    let Rule::Pointwise(rule @ (Pointwise::Promote | Pointwise::Float)) = record.rule else {
        return false;
    };
    if !x.owns_buffer()
        || x.requires_grad()
        || x.is_inference()
        || rule == Pointwise::Float && !x.dtype().is_differentiable()
    {
        return false;
    }
    match y.arg() {
        Arg::T(t) => t.dtype() == x.dtype() && t.shape() == x.shape() && !t.requires_grad(),
        Arg::N(n) => {
            let mut p = Promotion::default();
            p.tensor(x.dtype(), x.ndim());
            p.number(n);
            matches!(p.result(), Ok(Some(d)) if d == x.dtype())
        }
        Arg::Absent => false,
    }
}

/// `x op y`, written over `x` where it is given away and nobody else has it.
#[track_caller]
fn binary_op(record: &'static OpRecord, x: Operand<'_>, y: Operand<'_>) -> Tensor {
    if let Operand::Owned(t) = &x
        && takes_over(record, t, &y)
    {
        return unwrap(call_inplace(record, t, &[y.arg()], NONE).map(|()| t.clone()));
    }
    unwrap(call1(record, &[x.arg(), y.arg()], NONE))
}

// One impl for whatever stands on the right: with one for each number type, the type of
// `&x * 2.0` would not be known before that of the literal is.
macro_rules! operators {
    ($($trait:ident $method:ident $assign_trait:ident $assign:ident $record:ident;)*) => {
        $(
            impl<'a, R: Into<Operand<'a>>> $trait<R> for Tensor {
                type Output = Tensor;
                #[inline]
                #[track_caller]
                fn $method(self, other: R) -> Tensor {
                    binary_op(&binary::$record, Operand::Owned(self), other.into())
                }
            }
            impl<'a, R: Into<Operand<'a>>> $trait<R> for &Tensor {
                type Output = Tensor;
                #[inline]
                #[track_caller]
                fn $method(self, other: R) -> Tensor {
                    binary_op(&binary::$record, Operand::Ref(self), other.into())
                }
            }
            impl<'a, R: Into<Operand<'a>>> $assign_trait<R> for Tensor {
                /// In place, as Python's: every handle and view of the tensor sees it.
                #[inline]
                #[track_caller]
                fn $assign(&mut self, other: R) {
                    if let Err(e) = call_inplace(&binary::$record, self, &[other.into().arg()], NONE) {
                        panic!("{e}");
                    }
                }
            }
            operators!(@numbers $trait $method $record
                bool u8 i8 i16 i32 i64 usize f16 bf16 f32 f64 Complex<f32> Complex<f64>);
        )*
    };
    (@numbers $trait:ident $method:ident $record:ident $($n:ident $(<$p:ident>)?)*) => {$(
        operators!(@left $trait $method $record $n $(<$p>)?, Tensor);
        operators!(@left $trait $method $record $n $(<$p>)?, &Tensor);
    )*};
    (@left $trait:ident $method:ident $record:ident $left:ty, $right:ty) => {
        impl $trait<$right> for $left {
            type Output = Tensor;
            #[inline]
            #[track_caller]
            fn $method(self, other: $right) -> Tensor {
                binary_op(&binary::$record, Operand::from(self), Operand::from(other))
            }
        }
    };
}
operators! {
    Add add AddAssign add_assign add;
    Sub sub SubAssign sub_assign sub;
    Mul mul MulAssign mul_assign mul;
    Div div DivAssign div_assign div;
    Rem rem RemAssign rem_assign remainder;
    BitAnd bitand BitAndAssign bitand_assign bitwise_and;
    BitOr bitor BitOrAssign bitor_assign bitwise_or;
    BitXor bitxor BitXorAssign bitxor_assign bitwise_xor;
}

macro_rules! unary_operators {
    ($($trait:ident $method:ident $call:ident),*) => {$(
        impl $trait for Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self) -> Tensor {
                unwrap(Tensor::$call(&self))
            }
        }
        impl $trait for &Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self) -> Tensor {
                unwrap(Tensor::$call(self))
            }
        }
    )*};
}
unary_operators!(Neg neg neg, Not not bitwise_not);

/// Equal dtype, shape and values; nan equals nothing. Panics where the devices differ.
/// [`Tensor::eq`] compares element by element.
impl PartialEq for Tensor {
    #[track_caller]
    fn eq(&self, other: &Tensor) -> bool {
        if self.dtype() != other.dtype() || self.shape() != other.shape() {
            if self.device() != other.device() {
                panic!(
                    "==: expected both tensors on the same device, got {} and {}",
                    self.describe(),
                    other.describe()
                );
            }
            return false;
        }
        match self.equal(other) {
            Ok(equal) => equal,
            Err(e) => panic!("{e}"),
        }
    }
}
