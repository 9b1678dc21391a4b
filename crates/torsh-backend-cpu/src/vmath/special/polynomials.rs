//! Orthogonal polynomials by their recurrences, with PyTorch's definitions: an order is truncated to a whole number, and
//! polynomials of negative order are 0.

use torsh_core::cmath;

use super::dd::{Dd, two_sum};
use crate::vmath::Arch;

/// Above this order float64 polynomials are computed in one double, and Chebyshev's by their trigonometric forms.
pub(super) const EXACT: f64 = 512.0;
/// Above this order Laguerre's and Legendre's polynomials are nan: each order is a step of their recurrences.
pub(super) const LIMIT: f64 = 1_048_576.0;

/// The order as PyTorch's conversion to an integer has it: what does not fit is negative.
#[inline(always)]
pub(super) fn order(n: f64) -> f64 {
    if n.abs() < 9.223372036854776e18 {
        n.trunc()
    } else {
        -1.0
    }
}

/// Numbers that the recurrences are written over: one double, two, or a vector of doubles.
pub(super) trait PolynomialNumber: Copy {
    fn new(x: f64) -> Self;
    fn is_nan(self) -> bool;
    fn sub(self, b: Self) -> Self;
    fn mul<A: Arch>(self, b: Self) -> Self;
    fn scale<A: Arch>(self, b: f64) -> Self;
    fn over<A: Arch>(self, b: f64) -> Self;
}

impl PolynomialNumber for f64 {
    #[inline(always)]
    fn new(x: f64) -> f64 {
        x
    }
    #[inline(always)]
    fn is_nan(self) -> bool {
        self.is_nan()
    }
    #[inline(always)]
    fn sub(self, b: f64) -> f64 {
        self - b
    }
    #[inline(always)]
    fn mul<A: Arch>(self, b: f64) -> f64 {
        self * b
    }
    #[inline(always)]
    fn scale<A: Arch>(self, b: f64) -> f64 {
        self * b
    }
    #[inline(always)]
    fn over<A: Arch>(self, b: f64) -> f64 {
        self / b
    }
}

impl PolynomialNumber for Dd {
    #[inline(always)]
    fn new(x: f64) -> Dd {
        Dd::new(x)
    }
    #[inline(always)]
    fn is_nan(self) -> bool {
        self.value().is_nan()
    }
    #[inline(always)]
    fn sub(self, b: Dd) -> Dd {
        self.plus(b.neg())
    }
    #[inline(always)]
    fn mul<A: Arch>(self, b: Dd) -> Dd {
        self.times::<A>(b)
    }
    #[inline(always)]
    fn scale<A: Arch>(self, b: f64) -> Dd {
        self.mul::<A>(b)
    }
    #[inline(always)]
    fn over<A: Arch>(self, b: f64) -> Dd {
        self.div::<A>(b)
    }
}

/// The member of order n >= 0 of the family with the first two `first` and `second`, where `step(k, p, q)` follows `q`,
/// of order k, and `p` before it.
#[inline(always)]
fn member<N: PolynomialNumber>(n: f64, first: N, second: N, step: impl Fn(f64, N, N) -> N) -> N {
    if n == 0.0 {
        return first;
    }
    let (mut p, mut q) = (first, second);
    let mut k = 1.0;
    while k < n && !q.is_nan() {
        (p, q) = (q, step(k, p, q));
        k += 1.0;
    }
    q
}

/// `exact` in two doubles, where it has a value; `plain` where it is 0, whose sign only that has, or overflows.
#[inline(always)]
fn settle(exact: f64, plain: impl FnOnce() -> f64) -> f64 {
    if exact.is_finite() && exact != 0.0 {
        return exact;
    }
    let plain = plain();
    if exact == 0.0 && plain != 0.0 {
        exact
    } else {
        plain
    }
}

/// Hermite's polynomial H.
#[inline(always)]
pub(super) fn hermite_h<A: Arch, N: PolynomialNumber>(x: N, n: f64) -> N {
    let twice = x.scale::<A>(2.0);
    member(n, N::new(1.0), twice, |k, p, q| {
        twice.mul::<A>(q).sub(p.scale::<A>(k + k))
    })
}

/// Hermite's polynomial He.
#[inline(always)]
pub(super) fn hermite_he<A: Arch, N: PolynomialNumber>(x: N, n: f64) -> N {
    member(n, N::new(1.0), x, |k, p, q| {
        x.mul::<A>(q).sub(p.scale::<A>(k))
    })
}

#[inline(always)]
pub(super) fn laguerre<A: Arch, N: PolynomialNumber>(x: N, n: f64) -> N {
    let second = N::new(1.0).sub(x);
    member(n, N::new(1.0), second, |k, p, q| {
        let factor = N::new(k + k + 1.0).sub(x);
        factor.mul::<A>(q).sub(p.scale::<A>(k)).over::<A>(k + 1.0)
    })
}

#[inline(always)]
pub(super) fn legendre<A: Arch, N: PolynomialNumber>(x: N, n: f64) -> N {
    member(n, N::new(1.0), x, |k, p, q| {
        x.scale::<A>(k + k + 1.0)
            .mul::<A>(q)
            .sub(p.scale::<A>(k))
            .over::<A>(k + 1.0)
    })
}

/// The kinds of Chebyshev's polynomials: T, U, V and W.
pub(super) const T: u8 = 0;
pub(super) const U: u8 = 1;
pub(super) const V: u8 = 2;
pub(super) const W: u8 = 3;

#[inline(always)]
pub(super) fn chebyshev<A: Arch, N: PolynomialNumber, const KIND: u8>(x: N, n: f64) -> N {
    let twice = x.scale::<A>(2.0);
    let second = match KIND {
        T => x,
        U => twice,
        V => twice.sub(N::new(1.0)),
        _ => twice.sub(N::new(-1.0)),
    };
    member(n, N::new(1.0), second, |_, p, q| twice.mul::<A>(q).sub(p))
}

/// Chebyshev's polynomials of high order: trigonometric functions inside [-1, 1], hyperbolic ones outside.
#[inline(always)]
fn chebyshev_far<const KIND: u8>(x: f64, n: f64) -> f64 {
    let odd = n != 2.0 * (0.5 * n).floor();
    if x < 0.0 {
        // T and U have a parity; V and W become each other.
        let mirrored = match KIND {
            T => chebyshev_far_right::<T>(-x, n),
            U => chebyshev_far_right::<U>(-x, n),
            V => chebyshev_far_right::<W>(-x, n),
            _ => chebyshev_far_right::<V>(-x, n),
        };
        return if odd { -mirrored } else { mirrored };
    }
    chebyshev_far_right::<KIND>(x, n)
}

#[inline(always)]
fn chebyshev_far_right<const KIND: u8>(x: f64, n: f64) -> f64 {
    if x == 1.0 {
        return match KIND {
            T | V => 1.0,
            U => n + 1.0,
            _ => n + n + 1.0,
        };
    }
    if x < 1.0 {
        let t = cmath::acos(x);
        match KIND {
            T => cmath::cos(n * t),
            U => cmath::sin((n + 1.0) * t) / cmath::sin(t),
            V => cmath::cos((n + 0.5) * t) / cmath::cos(0.5 * t),
            _ => cmath::sin((n + 0.5) * t) / cmath::sin(0.5 * t),
        }
    } else {
        let d = x - 1.0;
        // The square overflows far out.
        let t = if x < 1e150 {
            cmath::ln_1p(d + (d * (d + 2.0)).sqrt())
        } else {
            x.ln() + std::f64::consts::LN_2
        };
        match KIND {
            T => cmath::cosh(n * t),
            U => cmath::sinh((n + 1.0) * t) / cmath::sinh(t),
            V => cmath::cosh((n + 0.5) * t) / cmath::cosh(0.5 * t),
            _ => cmath::sinh((n + 0.5) * t) / cmath::sinh(0.5 * t),
        }
    }
}

/// Above this order Hermite's polynomials of float32 are nan.
pub(super) const HIGHEST: f64 = 128.0;

/// `EXACT_SUMS` says whether the recurrence runs in two doubles, as float64 needs it. float32 is exact enough in one.
macro_rules! hermite {
    ($($(#[$meta:meta])* $name:ident $body:ident;)*) => {$(
        $(#[$meta])*
        #[inline(always)]
        pub(crate) fn $name<A: Arch, const EXACT_SUMS: bool>(x: f64, n: f64) -> f64 {
            let n = order(n);
            if n < 0.0 {
                0.0
            } else if n > if EXACT_SUMS { 512.0 } else { HIGHEST } {
                // PyTorch's limits, beyond which the values overflow.
                f64::NAN
            } else if EXACT_SUMS {
                settle($body::<A, Dd>(Dd::new(x), n).value(), || $body::<A, f64>(x, n))
            } else {
                $body::<A, f64>(x, n)
            }
        }
    )*};
}

hermite! {
    /// The physicists' Hermite polynomial of order `n`.
    hermite_polynomial_h hermite_h;
    /// The probabilists' Hermite polynomial of order `n`.
    hermite_polynomial_he hermite_he;
}

/// Laguerre's polynomial of order `n`; nan above [`LIMIT`].
#[inline(always)]
pub(crate) fn laguerre_polynomial_l<A: Arch, const EXACT_SUMS: bool>(x: f64, n: f64) -> f64 {
    let n = order(n);
    if n < 0.0 {
        0.0
    } else if x == 0.0 {
        1.0
    } else if n > LIMIT {
        f64::NAN
    } else if EXACT_SUMS && n <= EXACT {
        settle(laguerre::<A, Dd>(Dd::new(x), n).value(), || {
            laguerre::<A, f64>(x, n)
        })
    } else {
        laguerre::<A, f64>(x, n)
    }
}

/// Legendre's polynomial of order `n`; nan above [`LIMIT`].
#[inline(always)]
pub(crate) fn legendre_polynomial_p<A: Arch, const EXACT_SUMS: bool>(x: f64, n: f64) -> f64 {
    let n = order(n);
    if n < 0.0 {
        0.0
    } else if x.abs() == 1.0 {
        let odd = n != 2.0 * (0.5 * n).floor();
        if odd { x } else { 1.0 }
    } else if n > LIMIT {
        f64::NAN
    } else if EXACT_SUMS && n <= EXACT {
        settle(legendre::<A, Dd>(Dd::new(x), n).value(), || {
            legendre::<A, f64>(x, n)
        })
    } else {
        legendre::<A, f64>(x, n)
    }
}

/// Chebyshev's polynomial of a kind and of order `n` at `x`.
#[inline(always)]
fn any_chebyshev<A: Arch, const KIND: u8, const EXACT_SUMS: bool>(x: Dd, n: f64) -> f64 {
    let n = order(n);
    if n < 0.0 {
        0.0
    } else if n > EXACT {
        if x.hi.is_infinite() {
            f64::NAN
        } else {
            chebyshev_far::<KIND>(x.hi, n)
        }
    } else if EXACT_SUMS {
        settle(chebyshev::<A, Dd, KIND>(x, n).value(), || {
            chebyshev::<A, f64, KIND>(x.hi, n)
        })
    } else {
        chebyshev::<A, f64, KIND>(x.hi, n)
    }
}

macro_rules! chebyshev {
    ($($name:ident $shifted:ident $kind:ident;)*) => {$(
        #[doc = concat!("Chebyshev's polynomial ", stringify!($kind), " of order `n`.")]
        #[inline(always)]
        pub(crate) fn $name<A: Arch, const EXACT_SUMS: bool>(x: f64, n: f64) -> f64 {
            any_chebyshev::<A, $kind, EXACT_SUMS>(Dd::new(x), n)
        }

        #[doc = concat!("[`", stringify!($name), "`] at `2 x - 1`.")]
        #[inline(always)]
        pub(crate) fn $shifted<A: Arch, const EXACT_SUMS: bool>(x: f64, n: f64) -> f64 {
            let at = if x.is_finite() { two_sum(x + x, -1.0) } else { Dd::new(x) };
            any_chebyshev::<A, $kind, EXACT_SUMS>(at, n)
        }
    )*};
}

chebyshev! {
    chebyshev_polynomial_t shifted_chebyshev_polynomial_t T;
    chebyshev_polynomial_u shifted_chebyshev_polynomial_u U;
    chebyshev_polynomial_v shifted_chebyshev_polynomial_v V;
    chebyshev_polynomial_w shifted_chebyshev_polynomial_w W;
}
