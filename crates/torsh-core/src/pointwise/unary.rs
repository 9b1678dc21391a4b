//! Ops of one tensor and no further arguments; their methods are made from the rows.

/// Hands the rows of all unary ops, activations included, to the macro `$m`, after the tokens that
/// follow its name.
#[macro_export]
macro_rules! for_each_unary {
    ($m:ident $($first:tt)*) => { $crate::append_activations! { $m { $($first)*

/// Negation of each element.
neg "neg" Neg(x) "(Tensor input)" -> number {
    float |x| -x;
    int |x| x.wrapping_neg();
    complex |x| -x;
    gpu "-x";
    grad [] |c| c.g().neg();
    samples (-3.0, 3.0);
}

/// Each element as it is; for bool tensors an error, as for `+` in front of one.
positive "positive" Positive(x) "(Tensor input)" -> promote {
    float |x| x;
    int |x| x;
    complex |x| x;
    gpu "x";
    grad [] |c| Ok(c.g().clone());
    samples (-3.0, 3.0);
}

/// Magnitude of each element; for complex tensors a real one.
abs "abs" Abs(x) "(Tensor input)" -> real {
    float |x| x.abs();
    int |x| x.wrapping_abs();
    complex |x| x.abs();
    gpu "abs(x)";
    grad [x] |c| c.g().mul(c.x()?.sgn()?);
    samples (0.3, 2.0);
}

/// Sign of each element: -1, 0 or 1. Complex tensors have `sgn`.
sign "sign" Sign(x) "(Tensor input)" -> promote {
    float |x| x.sign();
    int |x| x.sign();
    bool |x| x;
    gpu "x > 0 ? 1 : (x < 0 ? -1 : 0)";
    grad [] |c| c.zeros(0);
    samples (0.3, 2.0);
}

/// Sign of each element: -1, 0 or 1, and `x / |x|` for complex ones.
sgn "sgn" Sgn(x) "(Tensor input)" -> promote {
    float |x| x.sign();
    int |x| x.sign();
    bool |x| x;
    complex |x| x.sgn();
    gpu "x > 0 ? 1 : (x < 0 ? -1 : 0)";
    grad [x out] |c| {
        if !c.g().is_complex() {
            return c.zeros(0);
        }
        // What is left of the direction's change when its radial part is taken out.
        let magnitude = c.x()?.abs()?;
        let g = c.g().div(&magnitude)?;
        let radial = g.mul(c.out()?.conj()?)?.real()?;
        g.sub(c.out()?.mul(radial)?)?.where_zero(&magnitude.eq(0.0)?, true)
    };
    samples (0.3, 2.0);
}

/// Whether the sign bit of each element is set, as for -0.0.
signbit "signbit" Signbit(x) "(Tensor input)" -> bool {
    float |x| x.signbit();
    int |x| x < T::ZERO;
    bool |_x| false;
    gpu "signbit(x)";
    samples (0.3, 2.0);
}

/// Natural exponential of each element.
exp "exp" Exp(x) "(Tensor input)" -> float {
    float |x| x.exp::<A>();
    complex |x| x.exp();
    gpu "exp(x)";
    grad [out] |c| c.g().mul(c.out()?.conj()?);
    samples (-2.0, 2.0);
}

/// 2 to the power of each element.
exp2 "exp2" Exp2(x) "(Tensor input)" -> float {
    float |x| x.exp2::<A>();
    complex |x| x.scale(T::R::c(std::f64::consts::LN_2)).exp();
    gpu "exp2(x)";
    grad [out] |c| c.g().mul(c.out()?.conj()?)?.mul(std::f64::consts::LN_2);
    samples (-2.0, 2.0);
}

/// `exp(x) - 1` of each element, exact near 0.
expm1 "expm1" Expm1(x) "(Tensor input)" -> float {
    float |x| x.expm1::<A>();
    complex |x| x.expm1();
    gpu "expm1(x)";
    grad [out] |c| c.g().mul(c.out()?.conj()?.add(1.0)?);
    samples (-2.0, 2.0);
}

/// Natural logarithm of each element.
log "log" Log(x) "(Tensor input)" -> float {
    float |x| x.log::<A>();
    complex |x| x.log();
    gpu "log(x)";
    grad [x] |c| c.g().div(c.x()?.conj()?);
    samples (0.2, 3.0);
}

/// Logarithm to base 2 of each element.
log2 "log2" Log2(x) "(Tensor input)" -> float {
    float |x| x.log2::<A>();
    complex |x| x.log().scale(T::R::c(std::f64::consts::LOG2_E));
    gpu "log2(x)";
    grad [x] |c| c.g().div(c.x()?.conj()?.mul(std::f64::consts::LN_2)?);
    samples (0.2, 3.0);
}

/// Logarithm to base 10 of each element.
log10 "log10" Log10(x) "(Tensor input)" -> float {
    float |x| x.log10::<A>();
    complex |x| x.log().scale(T::R::c(std::f64::consts::LOG10_E));
    gpu "log10(x)";
    grad [x] |c| c.g().div(c.x()?.conj()?.mul(std::f64::consts::LN_10)?);
    samples (0.2, 3.0);
}

/// `log(1 + x)` of each element, exact near 0.
log1p "log1p" Log1p(x) "(Tensor input)" -> float {
    float |x| x.log1p::<A>();
    complex |x| x.log1p();
    gpu "log1p(x)";
    grad [x] |c| c.g().div(c.x()?.conj()?.add(1.0)?);
    samples (-0.7, 3.0);
}

/// Square root of each element.
sqrt "sqrt" Sqrt(x) "(Tensor input)" -> float {
    float |x| x.sqrt();
    complex |x| x.sqrt();
    gpu "sqrt(x)";
    grad [out] |c| c.g().div(c.out()?.conj()?.mul(2.0)?);
    samples (0.2, 3.0);
}

/// Reciprocal of the square root of each element.
rsqrt "rsqrt" Rsqrt(x) "(Tensor input)" -> float {
    float |x| T::ONE / x.sqrt();
    complex |x| x.sqrt().reciprocal();
    gpu "rsqrt(x)";
    grad [out] |c| {
        let out = c.out()?.conj()?;
        c.g().mul(-0.5)?.mul(out.square()?.mul(&out)?)
    };
    samples (0.2, 3.0);
}

/// Square of each element.
square "square" Square(x) "(Tensor input)" -> promote {
    float |x| x * x;
    int |x| x.wrapping_mul(x);
    complex |x| x * x;
    gpu "x * x";
    grad [x] |c| c.g().mul(c.x()?.conj()?.mul(2.0)?);
    samples (-2.0, 2.0);
}

/// Reciprocal of each element.
reciprocal "reciprocal" Reciprocal(x) "(Tensor input)" -> float {
    float |x| T::ONE / x;
    complex |x| x.reciprocal();
    gpu "1 / x";
    grad [out] |c| c.g().mul(c.out()?.square()?.conj()?)?.neg();
    samples (0.4, 3.0);
}

/// Sine of each element, in radians.
sin "sin" Sin(x) "(Tensor input)" -> float {
    float |x| x.sin::<A>();
    complex |x| x.sin();
    gpu "sin(x)";
    grad [x] |c| c.g().mul(c.x()?.cos()?.conj()?);
    samples (-3.0, 3.0);
}

/// Cosine of each element, in radians.
cos "cos" Cos(x) "(Tensor input)" -> float {
    float |x| x.cos::<A>();
    complex |x| x.cos();
    gpu "cos(x)";
    grad [x] |c| c.g().mul(c.x()?.sin()?.neg()?.conj()?);
    samples (-3.0, 3.0);
}

/// Tangent of each element, in radians.
tan "tan" Tan(x) "(Tensor input)" -> float {
    float |x| x.tan::<A>();
    complex |x| x.tan();
    gpu "tan(x)";
    grad [out] |c| c.g().mul(c.out()?.square()?.add(1.0)?.conj()?);
    samples (-1.2, 1.2);
}

/// Arc sine of each element, in radians; nan outside [-1, 1].
asin "asin" Asin(x) "(Tensor input)" -> float {
    float |x| x.asin::<A>();
    complex |x| x.asin();
    gpu "asin(x)";
    grad [x] |c| c.g().mul(c.x()?.square()?.neg()?.add(1.0)?.rsqrt()?.conj()?);
    samples (-0.8, 0.8);
}

/// Arc cosine of each element, in radians; nan outside [-1, 1].
acos "acos" Acos(x) "(Tensor input)" -> float {
    float |x| x.acos::<A>();
    complex |x| x.acos();
    gpu "acos(x)";
    grad [x] |c| c.g().mul(c.x()?.square()?.neg()?.add(1.0)?.rsqrt()?.neg()?.conj()?);
    samples (-0.8, 0.8);
}

/// Arc tangent of each element, in radians.
atan "atan" Atan(x) "(Tensor input)" -> float {
    float |x| x.atan::<A>();
    complex |x| x.atan();
    gpu "atan(x)";
    grad [x] |c| c.g().div(c.x()?.square()?.add(1.0)?.conj()?);
    samples (-3.0, 3.0);
}

/// Hyperbolic sine of each element.
sinh "sinh" Sinh(x) "(Tensor input)" -> float {
    float |x| x.sinh::<A>();
    complex |x| x.sinh();
    gpu "sinh(x)";
    grad [x] |c| c.g().mul(c.x()?.cosh()?.conj()?);
    samples (-2.0, 2.0);
}

/// Hyperbolic cosine of each element.
cosh "cosh" Cosh(x) "(Tensor input)" -> float {
    float |x| x.cosh::<A>();
    complex |x| x.cosh();
    gpu "cosh(x)";
    grad [x] |c| c.g().mul(c.x()?.sinh()?.conj()?);
    samples (-2.0, 2.0);
}

/// Hyperbolic tangent of each element.
tanh "tanh" Tanh(x) "(Tensor input)" -> float {
    float |x| x.tanh::<A>();
    complex |x| x.tanh();
    gpu "tanh(x)";
    grad [out] |c| c.g().tanh_backward(c.out()?);
    samples (-2.0, 2.0);
}

/// Inverse hyperbolic sine of each element.
asinh "asinh" Asinh(x) "(Tensor input)" -> float {
    float |x| x.asinh::<A>();
    complex |x| x.asinh();
    gpu "asinh(x)";
    grad [x] |c| c.g().mul(c.x()?.square()?.add(1.0)?.rsqrt()?.conj()?);
    samples (-2.0, 2.0);
}

/// Inverse hyperbolic cosine of each element; nan below 1.
acosh "acosh" Acosh(x) "(Tensor input)" -> float {
    float |x| x.acosh::<A>();
    complex |x| x.acosh();
    gpu "acosh(x)";
    grad [x] |c| {
        let x = c.x()?;
        // The root of the product would be on the wrong sheet in half of the complex plane.
        let slope = if x.is_complex() {
            x.sub(1.0)?.rsqrt()?.mul(x.add(1.0)?.rsqrt()?)?
        } else {
            x.square()?.sub(1.0)?.rsqrt()?
        };
        c.g().mul(slope.conj()?)
    };
    samples (1.3, 3.0);
}

/// Inverse hyperbolic tangent of each element; nan outside [-1, 1].
atanh "atanh" Atanh(x) "(Tensor input)" -> float {
    float |x| x.atanh::<A>();
    complex |x| x.atanh();
    gpu "atanh(x)";
    grad [x] |c| c.g().div(c.x()?.square()?.neg()?.add(1.0)?.conj()?);
    samples (-0.8, 0.8);
}

/// `sin(pi x) / (pi x)` of each element; 1 at 0.
sinc "sinc" Sinc(x) "(Tensor input)" -> float {
    float |x| x.sinc::<A>();
    complex |x| {
        let z = x.scale(T::R::c(std::f64::consts::PI));
        if x.is_nonzero() { z.sin().divide(z) } else { T::c(1.0) }
    };
    gpu "x == 0 ? 1 : sin(3.141592653589793 * x) / (3.141592653589793 * x)";
    grad [x] |c| {
        let x = c.x()?;
        let z = x.mul(std::f64::consts::PI)?;
        let slope = z.mul(z.cos()?)?.sub(z.sin()?)?.div(z.mul(&x)?)?;
        c.g().mul(slope.conj()?)?.where_zero(&x.eq(0.0)?, true)
    };
    samples (0.2, 2.0);
}

/// `1 / (1 + exp(-x))` of each element.
sigmoid "sigmoid" Sigmoid(x) "(Tensor input)" -> float {
    float |x| x.sigmoid::<A>();
    complex |x| x.sigmoid();
    gpu "1 / (1 + exp(-x))";
    grad [out] |c| c.g().sigmoid_backward(c.out()?);
    samples (-3.0, 3.0);
}

/// Error function of each element.
erf "erf" Erf(x) "(Tensor input)" -> float {
    float |x| x.erf::<A>();
    gpu "erf(x)";
    grad [x] |c| c.g().mul(c.x()?.square()?.neg()?.exp()?.mul(std::f64::consts::FRAC_2_SQRT_PI)?);
    samples (-2.0, 2.0);
}

/// `1 - erf(x)` of each element, exact in the upper tail.
erfc "erfc" Erfc(x) "(Tensor input)" -> float {
    float |x| x.erfc::<A>();
    gpu "erfc(x)";
    grad [x] |c| c.g().mul(c.x()?.square()?.neg()?.exp()?.mul(-std::f64::consts::FRAC_2_SQRT_PI)?);
    samples (-2.0, 2.0);
}

/// Inverse error function of each element; nan outside [-1, 1].
erfinv "erfinv" Erfinv(x) "(Tensor input)" -> float {
    float |x| x.erfinv::<A>();
    gpu "erfinv(x)";
    grad [out] |c| c.g().mul(c.out()?.square()?.exp()?.div(std::f64::consts::FRAC_2_SQRT_PI)?);
    samples (-0.8, 0.8);
}

/// Logarithm of the absolute value of the gamma function of each element.
lgamma "lgamma" Lgamma(x) "(Tensor input)" -> float {
    float |x| x.lgamma::<A>();
    gpu "lgamma(x)";
    grad [x] |c| c.g().mul(c.x()?.digamma()?);
    samples (0.5, 4.0);
}

/// Derivative of `lgamma` of each element.
digamma "digamma" Digamma(x) "(Tensor input)" -> float {
    float |x| x.digamma::<A>();
    gpu "digamma(x)";
    samples (0.5, 4.0);
}

/// Largest integer not above each element.
floor "floor" Floor(x) "(Tensor input)" -> promote {
    float |x| x.floor();
    int |x| x;
    gpu "floor(x)";
    grad [] |c| c.zeros(0);
    samples (0.1, 0.9);
}

/// Smallest integer not below each element.
ceil "ceil" Ceil(x) "(Tensor input)" -> promote {
    float |x| x.ceil();
    int |x| x;
    gpu "ceil(x)";
    grad [] |c| c.zeros(0);
    samples (0.1, 0.9);
}

/// Nearest integer of each element, halves to even.
round "round" Round(x) "(Tensor input)" -> promote {
    float |x| x.round();
    int |x| x;
    gpu "rint(x)";
    grad [] |c| c.zeros(0);
    samples (0.6, 1.4);
}

/// Integer part of each element.
trunc "trunc" Trunc(x) "(Tensor input)" -> promote {
    float |x| x.trunc();
    int |x| x;
    gpu "trunc(x)";
    grad [] |c| c.zeros(0);
    samples (0.1, 0.9);
}

/// Fraction of each element, with its sign.
frac "frac" Frac(x) "(Tensor input)" -> promote {
    float |x| x - x.trunc();
    gpu "x - trunc(x)";
    grad [] |c| Ok(c.g().clone());
    samples (0.1, 0.9);
}

/// Each element converted from degrees to radians.
deg2rad "deg2rad" Deg2rad(x) "(Tensor input)" -> float {
    float |x| x * T::c(0.017453292519943295);
    gpu "x * 0.017453292519943295";
    grad [] |c| c.g().mul(0.017453292519943295);
    samples (-3.0, 3.0);
}

/// Each element converted from radians to degrees.
rad2deg "rad2deg" Rad2deg(x) "(Tensor input)" -> float {
    float |x| x * T::c(57.29577951308232);
    gpu "x * 57.29577951308232";
    grad [] |c| c.g().mul(57.29577951308232);
    samples (-3.0, 3.0);
}

/// Whether each element is nan; a complex one, if either part is.
isnan "isnan" Isnan(x) "(Tensor input)" -> bool {
    float |x| x.is_nan();
    int |_x| false;
    bool |_x| false;
    complex |x| x.is_nan();
    gpu "x != x";
    samples (-1.0, 1.0);
}

/// Whether each element is an infinity; a complex one, if either part is.
isinf "isinf" Isinf(x) "(Tensor input)" -> bool {
    float |x| x.is_inf();
    int |_x| false;
    bool |_x| false;
    complex |x| x.is_inf();
    gpu "isinf(x)";
    samples (-1.0, 1.0);
}

/// Whether each element is neither an infinity nor nan.
isfinite "isfinite" Isfinite(x) "(Tensor input)" -> bool {
    float |x| x.is_finite();
    int |_x| true;
    bool |_x| true;
    complex |x| x.is_finite();
    gpu "isfinite(x)";
    samples (-1.0, 1.0);
}

/// Whether each element is positive infinity.
isposinf "isposinf" Isposinf(x) "(Tensor input)" -> bool {
    float |x| x == T::INFINITY;
    int |_x| false;
    bool |_x| false;
    gpu "isinf(x) && x > 0";
    samples (-1.0, 1.0);
}

/// Whether each element is negative infinity.
isneginf "isneginf" Isneginf(x) "(Tensor input)" -> bool {
    float |x| x == -T::INFINITY;
    int |_x| false;
    bool |_x| false;
    gpu "isinf(x) && x < 0";
    samples (-1.0, 1.0);
}

/// Whether each element is 0.
logical_not "logical_not" LogicalNot(x) "(Tensor input)" -> bool {
    float |x| x == T::ZERO;
    int |x| x == T::ZERO;
    bool |x| !x;
    complex |x| !x.is_nonzero();
    gpu "x == 0";
    samples (-1.0, 1.0);
}

/// The bits of each element inverted; the logical not of bools.
bitwise_not "bitwise_not" BitwiseNot(x) "(Tensor input)" -> promote {
    int |x| !x;
    bool |x| !x;
    gpu "~x";
    samples (-1.0, 1.0);
}

/// Complex conjugate of each element; real tensors come back as they are.
conj_physical "conj_physical" Conj(x) "(Tensor input)" -> promote {
    float |x| x;
    int |x| x;
    bool |x| x;
    complex |x| x.conj();
    gpu "conj(x)";
    grad [] |c| c.g().conj_physical();
    samples (-2.0, 2.0);
}

    } } };
}
