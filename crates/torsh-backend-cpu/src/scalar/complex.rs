//! Complex numbers: the elementary functions, in `f64`, with the special values of C's Annex G.
//!
//! Inverse functions follow W. Kahan, "Branch Cuts for Complex Elementary Functions" (1987).

use std::f64::consts::{FRAC_PI_2, LN_2};

use num_complex::Complex;
use torsh_core::cmath;

use super::{Cplx, Real};

type C = Complex<f64>;

macro_rules! cplx {
    ($r:ident) => {
        impl Cplx for Complex<$r> {
            type R = $r;

            #[inline(always)]
            fn new(re: $r, im: $r) -> Self {
                Complex { re, im }
            }
            #[inline(always)]
            fn re(self) -> $r {
                self.re
            }
            #[inline(always)]
            fn im(self) -> $r {
                self.im
            }
            #[inline(always)]
            fn angle(self) -> $r {
                (self.im as f64).atan2(self.re as f64) as $r
            }
            #[inline(always)]
            fn pow(self, y: Self) -> Self {
                narrow(pow(wide(self), wide(y)))
            }
            #[inline(always)]
            fn logaddexp(self, y: Self) -> Self {
                narrow(logaddexp(wide(self), wide(y)))
            }
            cplx!(@functions exp expm1 log log1p sqrt sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh);
        }
    };
    (@functions $($name:ident)*) => {$(
        #[inline(always)]
        fn $name(self) -> Self {
            narrow($name(wide(self)))
        }
    )*};
}
cplx!(f32);
cplx!(f64);

#[inline(always)]
fn wide<T: Cplx>(z: T) -> C {
    Complex {
        re: z.re().to_f64(),
        im: z.im().to_f64(),
    }
}

#[inline(always)]
fn narrow<T: Cplx>(z: C) -> T {
    T::new(T::R::c(z.re), T::R::c(z.im))
}

fn c(re: f64, im: f64) -> C {
    Complex { re, im }
}

/// Applies a hyperbolic function on the turned plane: `-i f(i z)`.
fn transposed(f: fn(C) -> C, z: C) -> C {
    let w = f(c(-z.im, z.re));
    c(w.im, -w.re)
}

fn exp(z: C) -> C {
    if z.im == 0.0 {
        return c(cmath::exp(z.re), z.im);
    }
    if z.re == f64::NEG_INFINITY && !z.im.is_finite() {
        return c(0.0, 0.0);
    }
    if z.re == f64::INFINITY && !z.im.is_finite() {
        return c(f64::INFINITY, f64::NAN);
    }
    let (sin, cos) = cmath::sin_cos(z.im);
    if z.re > 709.0 && z.re < 1e4 {
        // The factor alone overflows before the product does.
        let half = cmath::exp(0.5 * z.re);
        return c(half * cos * half, half * sin * half);
    }
    let e = cmath::exp(z.re);
    c(e * cos, e * sin)
}

fn expm1(z: C) -> C {
    let half = cmath::sin(0.5 * z.im);
    c(
        cmath::exp_m1(z.re) * cmath::cos(z.im) - 2.0 * half * half,
        cmath::exp(z.re) * cmath::sin(z.im),
    )
}

fn log(z: C) -> C {
    let (x, y) = (z.re.abs(), z.im.abs());
    let (large, small) = if x > y { (x, y) } else { (y, x) };
    // Near the unit circle the logarithm of the rounded magnitude would be mostly rounding.
    let re = if large > 0.5 && large < 2.0 && small < 2.0 {
        0.5 * cmath::ln_1p((large - 1.0) * (large + 1.0) + small * small)
    } else if large > 1e300 && large.is_finite() {
        (cmath::hypot(0.25 * x, 0.25 * y)).ln() + 2.0 * LN_2
    } else {
        (cmath::hypot(x, y)).ln()
    };
    c(re, z.im.atan2(z.re))
}

fn log1p(z: C) -> C {
    let im = z.im.atan2(z.re + 1.0);
    if cmath::hypot(z.re, z.im) < 0.5 {
        let r = z.re * (2.0 + z.re) + z.im * z.im;
        return c(
            if r == 0.0 {
                z.re
            } else {
                0.5 * cmath::ln_1p(r)
            },
            im,
        );
    }
    c((cmath::hypot(z.re + 1.0, z.im)).ln(), im)
}

fn sqrt(z: C) -> C {
    let (x, y) = (z.re, z.im);
    if x == 0.0 && y == 0.0 {
        return c(0.0, y);
    }
    if y.is_infinite() {
        return c(f64::INFINITY, y);
    }
    if x.is_nan() {
        return c(f64::NAN, f64::NAN);
    }
    if x.is_infinite() {
        // Of y only its sign is left, or nan.
        let rest = y * 0.0;
        return if x < 0.0 {
            c(rest.abs(), x.abs().copysign(y))
        } else {
            c(x, rest.copysign(y))
        };
    }
    // Scaled by a power of 4, so that the magnitude neither overflows nor vanishes.
    let m = x.abs().max(y.abs());
    let (down, up) = if m > 1e300 {
        (0.0625, 4.0)
    } else if m < 1e-290 {
        (2f64.powi(108), 2f64.powi(-54))
    } else {
        (1.0, 1.0)
    };
    let (x, y) = (x * down, y * down);
    if x >= 0.0 {
        let t = (0.5 * (x + cmath::hypot(x, y))).sqrt();
        c(t * up, y / (2.0 * t) * up)
    } else {
        let t = (0.5 * (-x + cmath::hypot(x, y))).sqrt();
        c(y.abs() / (2.0 * t) * up, t.copysign(y) * up)
    }
}

fn sinh(z: C) -> C {
    let (x, y) = (z.re, z.im);
    if y == 0.0 {
        return c(cmath::sinh(x), y);
    }
    if x == 0.0 && !y.is_finite() {
        return c(x, f64::NAN);
    }
    if x.is_infinite() && !y.is_finite() {
        return c(x, f64::NAN);
    }
    let (sin, cos) = cmath::sin_cos(y);
    if x.abs() > 709.0 && x.is_finite() {
        let half = cmath::exp(0.5 * x.abs());
        return c(
            (0.5 * half * cos * half).copysign(x * cos),
            0.5 * half * sin * half,
        );
    }
    let re = if x == 0.0 {
        x.copysign(x * cos)
    } else {
        cmath::sinh(x) * cos
    };
    c(re, cmath::cosh(x) * sin)
}

fn cosh(z: C) -> C {
    let (x, y) = (z.re, z.im);
    if y == 0.0 {
        return c(cmath::cosh(x), if x.is_nan() { y } else { y * x.signum() });
    }
    if x == 0.0 && !y.is_finite() {
        return c(f64::NAN, 0.0);
    }
    if x.is_infinite() && !y.is_finite() {
        return c(f64::INFINITY, f64::NAN);
    }
    let (sin, cos) = cmath::sin_cos(y);
    if x.abs() > 709.0 && x.is_finite() {
        let half = cmath::exp(0.5 * x.abs());
        return c(
            0.5 * half * cos * half,
            (0.5 * half * sin * half).copysign(x * sin),
        );
    }
    c(cmath::cosh(x) * cos, cmath::sinh(x) * sin)
}

fn tanh(z: C) -> C {
    let (x, y) = (z.re, z.im);
    if x.is_infinite() {
        let side = if y.is_finite() {
            cmath::sin(2.0 * y)
        } else {
            1.0
        };
        return c(1f64.copysign(x), 0f64.copysign(side));
    }
    if x.is_nan() && y == 0.0 {
        return c(x, y);
    }
    if x == 0.0 && !y.is_finite() {
        return c(x, f64::NAN);
    }
    if x.abs() > 22.0 {
        // Further terms are below the rounding of 1.
        let (sin, cos) = cmath::sin_cos(y);
        return c(
            1f64.copysign(x),
            4.0 * sin * cos * cmath::exp(-2.0 * x.abs()),
        );
    }
    let t = cmath::tan(y);
    let beta = 1.0 + t * t;
    let s = cmath::sinh(x);
    let rho = (1.0 + s * s).sqrt();
    let d = 1.0 + beta * s * s;
    c(beta * rho * s / d, t / d)
}

fn sin(z: C) -> C {
    transposed(sinh, z)
}

fn cos(z: C) -> C {
    cosh(c(-z.im, z.re))
}

fn tan(z: C) -> C {
    transposed(tanh, z)
}

fn asinh(z: C) -> C {
    // Of i z rather than of z, so that zeros keep their signs.
    let w = asin(c(-z.im, z.re));
    c(w.im, -w.re)
}

fn atan(z: C) -> C {
    transposed(atanh, z)
}

/// `sqrt(1 + z)` and `sqrt(1 - z)`.
fn roots(z: C) -> (C, C) {
    (sqrt(c(1.0 + z.re, z.im)), sqrt(c(1.0 - z.re, -z.im)))
}

/// From here on `1 + z` is `z`, and the products of the roots would lose their way.
const HUGE: f64 = 1e150;

fn asin(z: C) -> C {
    if z.re.abs() > HUGE || z.im.abs() > HUGE {
        let w = acos(z);
        let re = z.re.abs().atan2(z.im.abs()).copysign(z.re);
        return c(re, -w.im);
    }
    if z.re == 0.0 && z.im.is_nan() {
        return z;
    }
    let (p, m) = roots(z);
    let re = z.re.atan2(p.re * m.re - p.im * m.im);
    let im = cmath::asinh(m.re * p.im - m.im * p.re);
    c(re, im.copysign(if im.is_nan() { 1.0 } else { z.im }))
}

fn acos(z: C) -> C {
    if z.re.abs() > HUGE || z.im.abs() > HUGE {
        let l = log(z).re + LN_2;
        return c(z.im.abs().atan2(z.re), (-l).copysign(-z.im));
    }
    if z.re == 0.0 && z.im.is_nan() {
        return c(FRAC_PI_2, f64::NAN);
    }
    let (p, m) = roots(z);
    let im = cmath::asinh(p.re * m.im - p.im * m.re);
    c(2.0 * m.re.atan2(p.re), im)
}

fn acosh(z: C) -> C {
    // i acos(z) or its negative, whichever has the real part that is not negative.
    let w = acos(z);
    if w.im.is_nan() {
        return c(w.im, w.re);
    }
    if z.im.is_sign_negative() {
        c(w.im.abs(), -w.re)
    } else {
        c(w.im.abs(), w.re)
    }
}

fn atanh(z: C) -> C {
    let (x, y) = (z.re.abs(), z.im.abs());
    if z.im.is_nan() && z.re == 0.0 {
        return z;
    }
    if x > HUGE || y > HUGE {
        // 1 / z, of which only the real part matters.
        let re = if x.is_infinite() || y.is_infinite() {
            0.0
        } else if x > y {
            1.0 / (x + y * (y / x))
        } else {
            x / y / (x * (x / y) + y)
        };
        let im = if z.im.is_nan() {
            z.im
        } else {
            FRAC_PI_2.copysign(z.im)
        };
        return c(re.copysign(z.re), im);
    }
    let (re, im) = if x == 1.0 && y < 1e-150 {
        (
            0.5 * (LN_2 - y.ln()),
            if y == 0.0 { 0.0 } else { 0.5 * FRAC_PI_2 },
        )
    } else {
        let square = (1.0 - x) * (1.0 - x) + y * y;
        (
            cmath::ln_1p(4.0 * x / square) * 0.25,
            0.5 * (2.0 * y).atan2((1.0 - x) * (1.0 + x) - y * y),
        )
    };
    c(re.copysign(z.re), im.copysign(z.im))
}

fn pow(x: C, y: C) -> C {
    // Also for 0 and nan, as for real numbers and in PyTorch for an exponent that is a number; PyTorch's of two tensors is nan.
    if y == c(0.0, 0.0) {
        return c(1.0, 0.0);
    }
    exp(y * log(x))
}

fn logaddexp(x: C, y: C) -> C {
    let (low, high) = if x.re <= y.re || x.re.is_nan() {
        (x, y)
    } else {
        (y, x)
    };
    if low.re.is_nan() || low.im.is_nan() || high.re.is_nan() {
        return c(f64::NAN, f64::NAN);
    }
    if !low.re.is_finite() && low.re == high.re {
        return if low.re < 0.0 {
            low
        } else {
            log(exp(low) + exp(high))
        };
    }
    log1p(exp(low - high)) + high
}
