//! Orthogonal polynomials of one order for a whole group.

use super::{GROUP, GroupFunction, rounded};
use crate::machine::tuning::pointwise::VECTORS;
use crate::simd::{FloatVector, Vector};
use crate::vmath::Arch;
use crate::vmath::special::Special;
use crate::vmath::special::polynomials::*;

/// Numbers of the recurrences, some vectors at a time.
#[derive(Clone, Copy)]
struct VectorGroup<V>([V; VECTORS]);

impl<V: FloatVector<T = f64>> VectorGroup<V> {
    #[inline(always)]
    fn pairs(self, b: Self, f: impl Fn(V, V) -> V) -> Self {
        VectorGroup(std::array::from_fn(|i| f(self.0[i], b.0[i])))
    }
}

// SAFETY of all methods: these numbers are only made in `group`, which is compiled for the vector's instruction set.
impl<V: FloatVector<T = f64>> PolynomialNumber for VectorGroup<V> {
    #[inline(always)]
    fn new(x: f64) -> Self {
        // SAFETY: see above.
        VectorGroup([unsafe { V::splat(x) }; VECTORS])
    }
    #[inline(always)]
    fn is_nan(self) -> bool {
        // A group goes on where a number alone would stop.
        false
    }
    #[inline(always)]
    fn sub(self, b: Self) -> Self {
        // SAFETY: see above.
        self.pairs(b, |a, b| unsafe { a.sub(b) })
    }
    #[inline(always)]
    fn mul<A: Arch>(self, b: Self) -> Self {
        // SAFETY: see above.
        self.pairs(b, |a, b| unsafe { a.mul(b) })
    }
    #[inline(always)]
    fn scale<A: Arch>(self, b: f64) -> Self {
        self.mul::<A>(Self::new(b))
    }
    #[inline(always)]
    fn over<A: Arch>(self, b: f64) -> Self {
        // SAFETY: see above.
        self.pairs(Self::new(b), |a, b| unsafe { a.div(b) })
    }
}

/// Families: the recurrence, the highest order that it serves, what is done to `x` before, and the function of the
/// numbers that are left.
macro_rules! families {
    ($($name:ident $recurrence:ident $(<$kind:ident>)?, $highest:expr, |$x:ident| $at:expr, $alone:ident;)*) => {$(
        pub(crate) struct $name;
        impl GroupFunction for $name {
            const ARITY: usize = 2;

            #[inline(always)]
            fn group<A: Arch>(x: &[f32; GROUP], n: &[f32; GROUP]) -> [f32; GROUP] {
                let mut differ = 0;
                for v in n {
                    differ |= v.to_bits() ^ n[0].to_bits();
                }
                let n0 = order(f64::from(n[0]));
                if differ != 0 || !(0.0..=$highest).contains(&n0) {
                    let mut y = [0.0; GROUP];
                    for i in 0..GROUP {
                        y[i] = Special::$alone(x[i], n[i]);
                    }
                    return y;
                }
                let mut wide = [0.0; GROUP];
                for i in 0..GROUP {
                    let $x = f64::from(x[i]);
                    wide[i] = $at;
                }
                for part in wide.chunks_exact_mut(VECTORS * A::F64::N) {
                    let at = |i: usize| part.as_ptr().wrapping_add(i * A::F64::N);
                    // SAFETY: a part is so many vectors.
                    let x = VectorGroup(std::array::from_fn(|i| unsafe { A::F64::load(at(i)) }));
                    let value = $recurrence::<A, VectorGroup<A::F64> $(, $kind)?>(x, n0);
                    for (v, to) in value.0.into_iter().zip(part.chunks_exact_mut(A::F64::N)) {
                        // SAFETY: `to` is a vector.
                        unsafe { v.store(to.as_mut_ptr()) };
                    }
                }
                rounded(&wide)
            }

            #[inline(always)]
            fn one<A: Arch>(x: f32, n: f32) -> f32 {
                Special::$alone(x, n)
            }
        }
    )*};
}

families! {
    HermiteH hermite_h, HIGHEST, |x| x, hermite_polynomial_h;
    HermiteHe hermite_he, HIGHEST, |x| x, hermite_polynomial_he;
    LaguerreL laguerre, LIMIT, |x| x, laguerre_polynomial_l;
    LegendreP legendre, LIMIT, |x| x, legendre_polynomial_p;
    ChebyshevT chebyshev<T>, EXACT, |x| x, chebyshev_polynomial_t;
    ChebyshevU chebyshev<U>, EXACT, |x| x, chebyshev_polynomial_u;
    ChebyshevV chebyshev<V>, EXACT, |x| x, chebyshev_polynomial_v;
    ChebyshevW chebyshev<W>, EXACT, |x| x, chebyshev_polynomial_w;
    ShiftedChebyshevT chebyshev<T>, EXACT, |x| (x + x) - 1.0, shifted_chebyshev_polynomial_t;
    ShiftedChebyshevU chebyshev<U>, EXACT, |x| (x + x) - 1.0, shifted_chebyshev_polynomial_u;
    ShiftedChebyshevV chebyshev<V>, EXACT, |x| (x + x) - 1.0, shifted_chebyshev_polynomial_v;
    ShiftedChebyshevW chebyshev<W>, EXACT, |x| (x + x) - 1.0, shifted_chebyshev_polynomial_w;
}
