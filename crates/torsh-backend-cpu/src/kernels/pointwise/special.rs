//! Loops that are faster on whole arrays than one element at a time can be.

#[cfg(feature = "unit-tests")]
mod tests;

use super::loops::{Entry, LANES};
use crate::memory::element::Packed;
use crate::multiversion;
use crate::simd::Level;
use crate::vmath::VMath;
use crate::vmath::lanes::{self, GROUP, GroupFunction};
use torsh_core::{DType, Kernel};

/// Replaces loops made of rows.
pub(crate) fn fill(all: &mut [Entry], level: Level) {
    let f32_ = DType::F32 as usize;
    all[Kernel::Sin.index()].loops[f32_] = Some(sin::at(level));
    all[Kernel::Cos.index()].loops[f32_] = Some(cos::at(level));
    macro_rules! by_groups {
        ($($kernel:ident $function:ident;)*) => {$(
            all[Kernel::$kernel.index()].loops[f32_] = Some(groups::at::<lanes::$function>(level));
        )*};
    }
    by_groups! {
        Lgamma LogGamma;
        Digamma Psi;
        Erfinv Erfinv;
        Ndtri Ndtri;
        Erfcx Erfcx;
        Ndtr Ndtr;
        LogNdtr LogNdtr;
        Entr Entr;
        I0 I0;
        I0e I0e;
        I1 I1;
        I1e I1e;
        ModifiedBesselK0 ModifiedBesselK0;
        ModifiedBesselK1 ModifiedBesselK1;
        ScaledModifiedBesselK0 ScaledModifiedBesselK0;
        ScaledModifiedBesselK1 ScaledModifiedBesselK1;
        BesselJ0 BesselJ0;
        BesselJ1 BesselJ1;
        BesselY0 BesselY0;
        BesselY1 BesselY1;
        SphericalBesselJ0 SphericalBesselJ0;
        AiryAi AiryAi;
        Zeta Zeta;
        Polygamma Polygamma;
        Igamma Gammainc;
        Igammac Gammaincc;
        HermiteH HermiteH;
        HermiteHe HermiteHe;
        LaguerreL LaguerreL;
        LegendreP LegendreP;
        ChebyshevT ChebyshevT;
        ChebyshevU ChebyshevU;
        ChebyshevV ChebyshevV;
        ChebyshevW ChebyshevW;
        ShiftedChebyshevT ShiftedChebyshevT;
        ShiftedChebyshevU ShiftedChebyshevU;
        ShiftedChebyshevV ShiftedChebyshevV;
        ShiftedChebyshevW ShiftedChebyshevW;
    }
}

const _: () = assert!(LANES == GROUP);

multiversion! {
    /// The loop of a special function of float32. The second argument is an operand or the row's number.
    unsafe fn groups<A, F: GroupFunction>(out: *mut u8, ins: *const *const u8, n: usize, p: *const u8) {
        // SAFETY: a loop's caller promises inputs and an output of `n` elements, one or whole groups, and the
        // numbers. Each group is read before it is written.
        unsafe {
            let number = (*p.cast::<Packed<f32>>()).0;
            let x = (*ins).cast::<Packed<f32>>();
            let y = match F::ARITY {
                1 => std::ptr::null(),
                _ => (*ins.add(1)).cast::<Packed<f32>>(),
            };
            let to = out.cast::<Packed<f32>>();
            if n == 1 {
                let second = if F::ARITY == 1 { number } else { (*y).0 };
                *to = Packed(F::one::<A>((*x).0, second));
                return;
            }
            let mut second = [number; GROUP];
            for at in (0..n).step_by(GROUP) {
                let first = x.add(at).cast::<[f32; GROUP]>().read_unaligned();
                if F::ARITY == 2 {
                    second = y.add(at).cast::<[f32; GROUP]>().read_unaligned();
                }
                let value = F::group::<A>(&first, &second);
                to.add(at).cast::<[f32; GROUP]>().write_unaligned(value);
            }
        }
    }
}

macro_rules! float_loop {
    ($($name:ident $many:ident;)*) => {
        multiversion! {$(
            unsafe fn $name<A>(out: *mut u8, ins: *const *const u8, n: usize, _p: *const u8) {
                // SAFETY: the caller's promise: `n` elements each, the same ones or disjoint.
                unsafe {
                    let src = *ins;
                    if n == 1 || !(src as usize | out as usize).is_multiple_of(align_of::<f32>()) {
                        for i in 0..n {
                            let x = (*(src as *const Packed<f32>).add(i)).0;
                            *(out as *mut Packed<f32>).add(i) = Packed(VMath::$name::<A>(x));
                        }
                    } else {
                        <f32 as VMath>::$many::<A>(src.cast(), out.cast(), n);
                    }
                }
            }
        )*}
    };
}
float_loop! {
    sin sin_into;
    cos cos_into;
}
