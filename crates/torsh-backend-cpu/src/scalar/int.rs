//! The integer types.

use super::Int;

macro_rules! int {
    ($t:ident, $unsigned:ident, $wide:ident, |$x:ident| $abs:expr, $sign:expr, $signed:literal) => {
        impl Int for $t {
            const ZERO: $t = 0;
            const ONE: $t = 1;

            #[inline(always)]
            fn c(v: i64) -> $t {
                v as $t
            }
            #[inline(always)]
            fn wrapping_add(self, y: $t) -> $t {
                $t::wrapping_add(self, y)
            }
            #[inline(always)]
            fn wrapping_sub(self, y: $t) -> $t {
                $t::wrapping_sub(self, y)
            }
            #[inline(always)]
            fn wrapping_mul(self, y: $t) -> $t {
                $t::wrapping_mul(self, y)
            }
            #[inline(always)]
            fn wrapping_neg(self) -> $t {
                $t::wrapping_neg(self)
            }
            #[inline(always)]
            fn wrapping_abs(self) -> $t {
                let $x = self;
                $abs
            }
            #[inline(always)]
            fn sign(self) -> $t {
                let $x = self;
                $sign
            }
            #[inline(always)]
            fn div_trunc(self, y: $t) -> $t {
                if y == 0 { 0 } else { self.wrapping_div(y) }
            }
            #[inline(always)]
            #[allow(unused_comparisons)]
            fn floor_divide(self, y: $t) -> $t {
                if y == 0 {
                    return 0;
                }
                let q = self.wrapping_div(y);
                let inexact = $t::wrapping_mul(q, y) != self;
                if inexact & ((self < 0) != (y < 0)) {
                    $t::wrapping_sub(q, 1)
                } else {
                    q
                }
            }
            #[inline(always)]
            fn fmod(self, y: $t) -> $t {
                if y == 0 { 0 } else { self.wrapping_rem(y) }
            }
            #[inline(always)]
            #[allow(unused_comparisons)]
            fn remainder(self, y: $t) -> $t {
                let m = Int::fmod(self, y);
                if (m != 0) & ((m < 0) != (y < 0)) {
                    $t::wrapping_add(m, y)
                } else {
                    m
                }
            }
            #[inline(always)]
            #[allow(unused_comparisons)]
            fn pow(self, y: $t) -> $t {
                if y < 0 {
                    let odd = y & 1 != 0;
                    return match $t::wrapping_add(self, 1) {
                        2 => 1,
                        0 if odd => self,
                        0 => 1,
                        _ => 0,
                    };
                }
                let (mut base, mut y, mut r) = (self, y, 1 as $t);
                while y != 0 {
                    if y & 1 != 0 {
                        r = $t::wrapping_mul(r, base);
                    }
                    base = $t::wrapping_mul(base, base);
                    y >>= 1;
                }
                r
            }
            #[inline(always)]
            #[allow(unused_comparisons)]
            fn shl(self, y: $t) -> $t {
                let out_of_range = (y < 0) | (y >= $t::BITS as $t);
                if out_of_range {
                    0
                } else {
                    self.wrapping_shl(y as u32)
                }
            }
            #[inline(always)]
            #[allow(unused_comparisons)]
            fn shr(self, y: $t) -> $t {
                // The widest shift of a signed type leaves copies of the sign.
                const MOST: $t = ($t::BITS - 1) as $t;
                let in_range = (0..=MOST).contains(&y);
                let beyond = if $signed {
                    self.wrapping_shr(MOST as u32)
                } else {
                    0
                };
                if in_range {
                    self.wrapping_shr(y as u32)
                } else {
                    beyond
                }
            }
            #[inline(always)]
            fn gcd(self, y: $t) -> $t {
                let (mut a, mut b) = (
                    Int::wrapping_abs(self) as $unsigned,
                    Int::wrapping_abs(y) as $unsigned,
                );
                while b != 0 {
                    (a, b) = (b, a % b);
                }
                a as $t
            }
            #[inline(always)]
            fn lcm(self, y: $t) -> $t {
                let g = Int::gcd(self, y);
                if g == 0 {
                    return 0;
                }
                // Narrow types wrap only at the end, as C's promotion to int has it.
                let multiple = self.wrapping_div(g) as $wide;
                Int::wrapping_abs(multiple.wrapping_mul(y as $wide)) as $t
            }
        }
    };
}

int!(u8, u8, i32, |x| x, (x != 0) as u8, false);
int!(i8, u8, i32, |x| i8::wrapping_abs(x), x.signum(), true);
int!(i16, u16, i32, |x| i16::wrapping_abs(x), x.signum(), true);
int!(i32, u32, i32, |x| i32::wrapping_abs(x), x.signum(), true);
int!(i64, u64, i64, |x| i64::wrapping_abs(x), x.signum(), true);
