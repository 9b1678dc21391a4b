//! Binary rows whose steps are rounded to the half type one by one, as PyTorch rounds them.
//!
//! Other rows compute in float32 and round once, at the end. The results of these would then be
//! others: 3 divided by float16's 0.3 is 9.998, which is 10 in float16 and 9 without its fraction;
//! losses are differences of rounded products of rounded logarithms.
//! The loops read and write float32, but every number in them is one of the half type.

use torsh_core::{DType, Kernel};

use super::loops::{Entry, Row, row};
use crate::kernels::reduce::load::{BFloat16, Float16, Half};
use crate::scalar::Real;
use crate::simd::{Arch, Level};
use crate::vmath::VMath;

/// Enters the loops.
pub(super) fn fill(all: &mut [Entry], level: Level) {
    fill_for::<Float16>(all, level, DType::F16);
    fill_for::<BFloat16>(all, level, DType::BF16);
}

fn fill_for<H: Half>(all: &mut [Entry], level: Level, dtype: DType) {
    let rows = [
        (Kernel::DivTrunc, row::light::<f32, DivTrunc<H>>(level)),
        (
            Kernel::FloorDivide,
            row::light::<f32, FloorDivide<H>>(level),
        ),
        (Kernel::Nextafter, row::light::<f32, Nextafter<H>>(level)),
        (Kernel::Xlogy, row::light::<f32, Xlogy<H>>(level)),
        (Kernel::BceElementwise, row::light::<f32, Bce<H>>(level)),
    ];
    for (kernel, row) in rows {
        all[kernel.index()].loops[dtype as usize] = Some(row);
    }
}

struct DivTrunc<H>(H);
impl<H: Half> Row<f32> for DivTrunc<H> {
    const ARITY: usize = 2;
    type Out = f32;
    #[inline(always)]
    fn apply<A: Arch>([x, y, _]: [f32; 3], _: [f32; 4]) -> f32 {
        Real::trunc(H::nearest(x / y))
    }
}

struct FloorDivide<H>(H);
impl<H: Half> Row<f32> for FloorDivide<H> {
    const ARITY: usize = 2;
    type Out = f32;
    #[inline(always)]
    fn apply<A: Arch>([x, y, _]: [f32; 3], _: [f32; 4]) -> f32 {
        // The remainder is a number of the half type, and so is a difference below 1.
        let m = Real::fmod(x, y);
        let d = H::nearest(H::nearest(x - m) / y);
        let crossed = (m != 0.0) & ((y < 0.0) != (m < 0.0));
        let d = if crossed { H::nearest(d - 1.0) } else { d };
        let f = Real::floor(d);
        let f = if d - f > 0.5 { f + 1.0 } else { f };
        let quotient = x / y;
        let f = if d != 0.0 {
            f
        } else {
            Real::copysign(0.0, quotient)
        };
        if y == 0.0 { quotient } else { f }
    }
}

struct Nextafter<H>(H);
impl<H: Half> Row<f32> for Nextafter<H> {
    const ARITY: usize = 2;
    type Out = f32;
    #[inline(always)]
    fn apply<A: Arch>([x, y, _]: [f32; 3], _: [f32; 4]) -> f32 {
        let bits = H::bits(x);
        // Away from 0 the bits of a number count up.
        let grows = (x < y) == (x > 0.0);
        let next = if grows {
            bits.wrapping_add(1)
        } else {
            bits.wrapping_sub(1)
        };
        let least = if y > 0.0 { 1 } else { 0x8001 };
        let next = H::number(if x == 0.0 { least } else { next });
        let next = if x == y { y } else { next };
        if Real::is_nan(x) | Real::is_nan(y) {
            f32::NAN
        } else {
            next
        }
    }
}

struct Xlogy<H>(H);
impl<H: Half> Row<f32> for Xlogy<H> {
    const ARITY: usize = 2;
    type Out = f32;
    #[inline(always)]
    fn apply<A: Arch>([x, y, _]: [f32; 3], _: [f32; 4]) -> f32 {
        let product = x * H::nearest(VMath::log::<A>(y));
        let product = if x == 0.0 { 0.0 } else { product };
        if Real::is_nan(y) { y } else { product }
    }
}

struct Bce<H>(H);
impl<H: Half> Row<f32> for Bce<H> {
    const ARITY: usize = 2;
    type Out = f32;
    #[inline(always)]
    fn apply<A: Arch>([x, y, _]: [f32; 3], _: [f32; 4]) -> f32 {
        let low = Real::maximum(H::nearest(VMath::log1p::<A>(-x)), -100.0);
        let high = Real::maximum(H::nearest(VMath::log::<A>(x)), -100.0);
        H::nearest(H::nearest(y - 1.0) * low) - H::nearest(y * high)
    }
}
