//! Ops of one tensor without further arguments. Their methods are generated from the rows.

/// Hands the rows of all unary ops, activations included, to the macro `$m`, after the tokens that
/// follow its name.
///
/// ```
/// macro_rules! names {
///     ($(
///         $(#[doc = $doc:literal])+
///         $method:ident $name:literal $kernel:ident ($($x:ident),+) $schema:literal -> $rule:ident { $($body:tt)* }
///     )*) => { [$($name),*] };
/// }
/// let names = torsh_core::for_each_unary! { names };
/// assert!(names.contains(&"sin") && names.contains(&"relu"));
/// ```
#[macro_export]
macro_rules! for_each_unary {
    ($m:ident $($first:tt)*) => { $crate::append_special_unary! { $m { $($first)*

/// Negation of each element.
neg "neg" Neg(x) "(Tensor input)" -> number {
    float |x| -x;
    int |x| x.wrapping_neg();
    complex |x| -x;
    grad [] |c| c.g().neg();
    zero linear;
    samples (-3.0, 3.0);
    example [1.0, -2.0] => [-1.0, 2.0];
}

/// Each element as it is; for bool tensors an error, as for `+` in front of one.
positive "positive" Positive(x) "(Tensor input)" -> promote {
    float |x| x;
    int |x| x;
    complex |x| x;
    grad [] |c| Ok(c.g().clone());
    define |c| c.x();
    zero linear;
    samples (-3.0, 3.0);
    example [1.0, -2.0] => [1.0, -2.0];
}

/// Magnitude of each element; for complex tensors a real one.
abs "abs" Abs(x) "(Tensor input)" -> real {
    float |x| x.abs();
    int |x| x.wrapping_abs();
    complex |x| x.abs();
    grad [x] |c| c.g().mul(c.x()?.sgn()?);
    zero any;
    samples (0.3, 2.0);
    example [-1.5, 2.0] => [1.5, 2.0];
}

/// Sign of each element: -1, 0 or 1. Complex tensors have `sgn`.
sign "sign" Sign(x) "(Tensor input)" -> promote {
    float |x| x.sign();
    int |x| x.sign();
    bool |x| x;
    grad [] |c| c.zeros(0);
    zero flat;
    samples (0.3, 2.0);
    example [-1.5, 0.0, 2.0] => [-1.0, 0.0, 1.0];
}

/// Sign of each element: -1, 0 or 1, and `x / |x|` for complex ones.
sgn "sgn" Sgn(x) "(Tensor input)" -> promote {
    float |x| x.sign();
    int |x| x.sign();
    bool |x| x;
    complex |x| x.sgn();
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
    define |c| c.x()?.sign();
    zero any;
    samples (0.3, 2.0);
    example [-1.5, 0.0, 2.0] => [-1.0, 0.0, 1.0];
}

/// Whether the sign bit of each element is set, as for -0.0.
signbit "signbit" Signbit(x) "(Tensor input)" -> bool {
    float |x| x.signbit();
    int |x| x < T::ZERO;
    bool |_x| false;
    zero any;
    samples (0.3, 2.0);
    example [1.0, -0.0] => [false, true];
}

/// Natural exponential of each element.
exp "exp" Exp(x) "(Tensor input)" -> float {
    float |x| x.exp::<A>();
    complex |x| x.exp();
    grad [out] |c| c.g().mul(c.out()?.conj()?);
    samples (-2.0, 2.0);
    example [0.0, 1.0] ~ [1.0, 2.718282];
}

/// 2 to the power of each element.
exp2 "exp2" Exp2(x) "(Tensor input)" -> float {
    float |x| x.exp2::<A>();
    complex |x| x.scale(T::R::c(std::f64::consts::LN_2)).exp();
    grad [out] |c| c.g().mul(c.out()?.conj()?)?.mul(std::f64::consts::LN_2);
    define |c| c.x()?.mul(std::f64::consts::LN_2)?.exp();
    samples (-2.0, 2.0);
    example [-1.0, 3.0] ~ [0.5, 8.0];
}

/// `exp(x) - 1` of each element, exact near 0.
expm1 "expm1" Expm1(x) "(Tensor input)" -> float {
    float |x| x.expm1::<A>();
    complex |x| x.expm1();
    grad [out] |c| c.g().mul(c.out()?.conj()?.add(1.0)?);
    zero any;
    samples (-2.0, 2.0);
    example [0.0, 1.0] ~ [0.0, 1.718282];
}

/// Natural logarithm of each element.
log "log" Log(x) "(Tensor input)" -> float {
    float |x| x.log::<A>();
    complex |x| x.log();
    grad [x] |c| c.g().div(c.x()?.conj()?);
    samples (0.2, 3.0);
    example [1.0, 10.0] ~ [0.0, 2.302585];
}

/// Logarithm to base 2 of each element.
log2 "log2" Log2(x) "(Tensor input)" -> float {
    float |x| x.log2::<A>();
    complex |x| x.log().scale(T::R::c(std::f64::consts::LOG2_E));
    grad [x] |c| c.g().div(c.x()?.conj()?.mul(std::f64::consts::LN_2)?);
    define |c| c.x()?.log()?.div(std::f64::consts::LN_2);
    samples (0.2, 3.0);
    example [1.0, 8.0] ~ [0.0, 3.0];
}

/// Logarithm to base 10 of each element.
log10 "log10" Log10(x) "(Tensor input)" -> float {
    float |x| x.log10::<A>();
    complex |x| x.log().scale(T::R::c(std::f64::consts::LOG10_E));
    grad [x] |c| c.g().div(c.x()?.conj()?.mul(std::f64::consts::LN_10)?);
    define |c| c.x()?.log()?.div(std::f64::consts::LN_10);
    samples (0.2, 3.0);
    example [1.0, 1000.0] ~ [0.0, 3.0];
}

/// `log(1 + x)` of each element, exact near 0.
log1p "log1p" Log1p(x) "(Tensor input)" -> float {
    float |x| x.log1p::<A>();
    complex |x| x.log1p();
    grad [x] |c| c.g().div(c.x()?.conj()?.add(1.0)?);
    zero any;
    samples (-0.7, 3.0);
    example [0.0, 1.0] ~ [0.0, 0.693147];
}

/// Square root of each element.
sqrt "sqrt" Sqrt(x) "(Tensor input)" -> float {
    float |x| x.sqrt();
    complex |x| x.sqrt();
    grad [out] |c| c.g().div(c.out()?.conj()?.mul(2.0)?);
    zero any;
    samples (0.2, 3.0);
    example [4.0, 9.0] => [2.0, 3.0];
}

/// Reciprocal of the square root of each element.
rsqrt "rsqrt" Rsqrt(x) "(Tensor input)" -> float {
    float |x| T::ONE / x.sqrt();
    complex |x| x.sqrt().reciprocal();
    grad [out] |c| {
        let out = c.out()?.conj()?;
        c.g().mul(-0.5)?.mul(out.square()?.mul(&out)?)
    };
    define |c| c.x()?.sqrt()?.reciprocal();
    samples (0.2, 3.0);
    example [4.0, 16.0] ~ [0.5, 0.25];
}

/// Square of each element.
square "square" Square(x) "(Tensor input)" -> promote {
    float |x| x * x;
    int |x| x.wrapping_mul(x);
    complex |x| x * x;
    grad [x] |c| c.g().mul(c.x()?.conj()?.mul(2.0)?);
    define |c| { let x = c.x()?; x.mul(&x) };
    zero any;
    samples (-2.0, 2.0);
    example [3.0, -2.0] => [9.0, 4.0];
}

/// Reciprocal of each element.
reciprocal "reciprocal" Reciprocal(x) "(Tensor input)" -> float {
    float |x| T::ONE / x;
    complex |x| x.reciprocal();
    grad [out] |c| c.g().mul(c.out()?.square()?.conj()?)?.neg();
    samples (0.4, 3.0);
    example [2.0, -4.0] => [0.5, -0.25];
}

/// Sine of each element, in radians.
sin "sin" Sin(x) "(Tensor input)" -> float {
    float |x| x.sin::<A>();
    complex |x| x.sin();
    grad [x] |c| c.g().mul(c.x()?.cos()?.conj()?);
    zero any;
    samples (-3.0, 3.0);
    example [0.0, 1.0] ~ [0.0, 0.841471];
}

/// Cosine of each element, in radians.
cos "cos" Cos(x) "(Tensor input)" -> float {
    float |x| x.cos::<A>();
    complex |x| x.cos();
    grad [x] |c| c.g().mul(c.x()?.sin()?.neg()?.conj()?);
    samples (-3.0, 3.0);
    example [0.0, 1.0] ~ [1.0, 0.540302];
}

/// Tangent of each element, in radians.
tan "tan" Tan(x) "(Tensor input)" -> float {
    float |x| x.tan::<A>();
    complex |x| x.tan();
    grad [out] |c| c.g().mul(c.out()?.square()?.add(1.0)?.conj()?);
    define |c| { let x = c.x()?; x.sin()?.div(x.cos()?) };
    zero any;
    samples (-1.2, 1.2);
    example [0.0, 1.0] ~ [0.0, 1.557408];
}

/// Arc sine of each element, in radians; nan outside [-1, 1].
asin "asin" Asin(x) "(Tensor input)" -> float {
    float |x| x.asin::<A>();
    complex |x| x.asin();
    grad [x] |c| c.g().mul(c.x()?.square()?.neg()?.add(1.0)?.rsqrt()?.conj()?);
    zero any;
    samples (-0.8, 0.8);
    example [0.0, 0.5] ~ [0.0, 0.523599];
}

/// Arc cosine of each element, in radians; nan outside [-1, 1].
acos "acos" Acos(x) "(Tensor input)" -> float {
    float |x| x.acos::<A>();
    complex |x| x.acos();
    grad [x] |c| c.g().mul(c.x()?.square()?.neg()?.add(1.0)?.rsqrt()?.neg()?.conj()?);
    samples (-0.8, 0.8);
    example [1.0, 0.5] ~ [0.0, 1.047198];
}

/// Arc tangent of each element, in radians.
atan "atan" Atan(x) "(Tensor input)" -> float {
    float |x| x.atan::<A>();
    complex |x| x.atan();
    grad [x] |c| c.g().div(c.x()?.square()?.add(1.0)?.conj()?);
    zero any;
    samples (-3.0, 3.0);
    example [0.0, 1.0] ~ [0.0, 0.785398];
}

/// Hyperbolic sine of each element.
sinh "sinh" Sinh(x) "(Tensor input)" -> float {
    float |x| x.sinh::<A>();
    complex |x| x.sinh();
    grad [x] |c| c.g().mul(c.x()?.cosh()?.conj()?);
    zero any;
    samples (-2.0, 2.0);
    example [0.0, 1.0] ~ [0.0, 1.175201];
}

/// Hyperbolic cosine of each element.
cosh "cosh" Cosh(x) "(Tensor input)" -> float {
    float |x| x.cosh::<A>();
    complex |x| x.cosh();
    grad [x] |c| c.g().mul(c.x()?.sinh()?.conj()?);
    samples (-2.0, 2.0);
    example [0.0, 1.0] ~ [1.0, 1.543081];
}

/// Hyperbolic tangent of each element.
tanh "tanh" Tanh(x) "(Tensor input)" -> float {
    float |x| x.tanh::<A>();
    complex |x| x.tanh();
    grad [out] |c| c.g().tanh_backward(c.out()?);
    zero any;
    samples (-2.0, 2.0);
    example [0.0, 1.0] ~ [0.0, 0.761594];
}

/// Inverse hyperbolic sine of each element.
asinh "asinh" Asinh(x) "(Tensor input)" -> float {
    float |x| x.asinh::<A>();
    complex |x| x.asinh();
    grad [x] |c| c.g().mul(c.x()?.square()?.add(1.0)?.rsqrt()?.conj()?);
    zero any;
    samples (-2.0, 2.0);
    example [0.0, 1.0] ~ [0.0, 0.881374];
}

/// Inverse hyperbolic cosine of each element; nan below 1.
acosh "acosh" Acosh(x) "(Tensor input)" -> float {
    float |x| x.acosh::<A>();
    complex |x| x.acosh();
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
    example [1.0, 2.0] ~ [0.0, 1.316958];
}

/// Inverse hyperbolic tangent of each element; nan outside [-1, 1].
atanh "atanh" Atanh(x) "(Tensor input)" -> float {
    float |x| x.atanh::<A>();
    complex |x| x.atanh();
    grad [x] |c| c.g().div(c.x()?.square()?.neg()?.add(1.0)?.conj()?);
    zero any;
    samples (-0.8, 0.8);
    example [0.0, 0.5] ~ [0.0, 0.549306];
}

/// `sin(pi x) / (pi x)` of each element; 1 at 0.
sinc "sinc" Sinc(x) "(Tensor input)" -> float {
    float |x| x.sinc::<A>();
    complex |x| {
        let z = x.scale(T::R::c(std::f64::consts::PI));
        if x.is_nonzero() { z.sin().divide(z) } else { T::c(1.0) }
    };
    grad [x] |c| {
        let x = c.x()?;
        let z = x.mul(std::f64::consts::PI)?;
        // 0 where the square underflows.
        let below = z.mul(&x)?;
        let slope = z.mul(z.cos()?)?.sub(z.sin()?)?.div(&below)?;
        c.g().mul(slope.conj()?)?.where_zero(&below.eq(0.0)?, true)
    };
    define |c| {
        let z = c.x()?.mul(std::f64::consts::PI)?;
        Tensor::where_(&z.eq(0)?, 1.0, z.sin()?.div(&z)?)
    };
    samples (0.2, 2.0);
    example [0.0, 0.5] ~ [1.0, 0.636620];
}

/// `1 / (1 + exp(-x))` of each element.
sigmoid "sigmoid" Sigmoid(x) "(Tensor input)" -> float {
    float |x| x.sigmoid::<A>();
    complex |x| x.sigmoid();
    grad [out] |c| c.g().sigmoid_backward(c.out()?);
    samples (-3.0, 3.0);
    example [0.0, 2.0] ~ [0.5, 0.880797];
}

/// Error function of each element.
erf "erf" Erf(x) "(Tensor input)" -> float {
    float |x| x.erf::<A>();
    grad [x] |c| c.g().mul(c.x()?.square()?.neg()?.exp()?.mul(std::f64::consts::FRAC_2_SQRT_PI)?);
    zero any;
    samples (-2.0, 2.0);
    example [0.0, 1.0] ~ [0.0, 0.842701];
}

/// `1 - erf(x)` of each element, exact in the upper tail.
erfc "erfc" Erfc(x) "(Tensor input)" -> float {
    float |x| x.erfc::<A>();
    grad [x] |c| c.g().mul(c.x()?.square()?.neg()?.exp()?.mul(-std::f64::consts::FRAC_2_SQRT_PI)?);
    samples (-2.0, 2.0);
    example [0.0, 1.0] ~ [1.0, 0.157299];
}

/// Inverse error function of each element; nan outside [-1, 1].
erfinv "erfinv" Erfinv(x) "(Tensor input)" -> float {
    float |x| x.erfinv::<A>();
    grad [out] |c| c.g().mul(c.out()?.square()?.exp()?.div(std::f64::consts::FRAC_2_SQRT_PI)?);
    zero any;
    samples (-0.8, 0.8);
    example [0.0, 0.5] ~ [0.0, 0.476936];
}

/// Logarithm of the absolute value of the gamma function of each element.
lgamma "lgamma" Lgamma(x) "(Tensor input)" -> float {
    float |x| x.lgamma::<A>();
    grad [x] |c| c.g().mul(c.x()?.digamma()?);
    samples (0.5, 4.0);
    example [1.0, 5.0] ~ [0.0, 3.178054];
}

/// Derivative of `lgamma` of each element.
digamma "digamma" Digamma(x) "(Tensor input)" -> float {
    float |x| x.digamma::<A>();
    grad [x] |c| c.g().mul(c.x()?.polygamma(1)?);
    samples (0.5, 4.0);
    example [1.0, 2.0] ~ [-0.577216, 0.422784];
}

/// Largest integer not above each element.
floor "floor" Floor(x) "(Tensor input)" -> promote {
    float |x| x.floor();
    int |x| x;
    grad [] |c| c.zeros(0);
    zero flat;
    samples (0.1, 0.9);
    example [1.7, -1.2] => [1.0, -2.0];
}

/// Smallest integer not below each element.
ceil "ceil" Ceil(x) "(Tensor input)" -> promote {
    float |x| x.ceil();
    int |x| x;
    grad [] |c| c.zeros(0);
    zero flat;
    samples (0.1, 0.9);
    example [1.2, -1.7] => [2.0, -1.0];
}

/// Nearest integer of each element, halves to even.
round "round" Round(x) "(Tensor input)" -> promote {
    float |x| x.round();
    int |x| x;
    grad [] |c| c.zeros(0);
    zero flat;
    samples (0.6, 1.4);
    example [0.5, 1.5, -1.7] => [0.0, 2.0, -2.0];
}

/// Integer part of each element.
trunc "trunc" Trunc(x) "(Tensor input)" -> promote {
    float |x| x.trunc();
    int |x| x;
    grad [] |c| c.zeros(0);
    zero flat;
    samples (0.1, 0.9);
    example [1.7, -1.7] => [1.0, -1.0];
}

/// Fraction of each element, with its sign.
frac "frac" Frac(x) "(Tensor input)" -> promote {
    float |x| x - x.trunc();
    grad [] |c| Ok(c.g().clone());
    define |c| { let x = c.x()?; x.sub(x.trunc()?) };
    zero any;
    samples (0.1, 0.9);
    example [1.25, -1.75] => [0.25, -0.75];
}

/// Each element converted from degrees to radians.
deg2rad "deg2rad" Deg2rad(x) "(Tensor input)" -> float {
    float |x| x * T::c(0.017453292519943295);
    grad [] |c| c.g().mul(0.017453292519943295);
    define |c| c.x()?.mul(std::f64::consts::PI / 180.0);
    zero any;
    samples (-3.0, 3.0);
    example [180.0, 90.0] ~ [3.141593, 1.570796];
}

/// Each element converted from radians to degrees.
rad2deg "rad2deg" Rad2deg(x) "(Tensor input)" -> float {
    float |x| x * T::c(57.29577951308232);
    grad [] |c| c.g().mul(57.29577951308232);
    define |c| c.x()?.mul(180.0 / std::f64::consts::PI);
    zero any;
    samples (-3.0, 3.0);
    example [1.0, 2.0] ~ [57.29578, 114.591559];
}

/// Whether each element is nan; a complex one, if either part is.
isnan "isnan" Isnan(x) "(Tensor input)" -> bool {
    float |x| x.is_nan();
    int |_x| false;
    bool |_x| false;
    complex |x| x.is_nan();
    define |c| { let x = c.x()?; x.ne(&x) };
    zero any;
    samples (-1.0, 1.0);
    example [1.0, f64::NAN] => [false, true];
}

/// Whether each element is an infinity; a complex one, if either part is.
isinf "isinf" Isinf(x) "(Tensor input)" -> bool {
    float |x| x.is_inf();
    int |_x| false;
    bool |_x| false;
    complex |x| x.is_inf();
    define |c| {
        let x = c.x()?;
        if x.dtype().is_differentiable() { x.abs()?.eq(f64::INFINITY) } else { x.ne(&x) }
    };
    zero any;
    samples (-1.0, 1.0);
    example [1.0, f64::INFINITY] => [false, true];
}

/// Whether each element is neither an infinity nor nan.
isfinite "isfinite" Isfinite(x) "(Tensor input)" -> bool {
    float |x| x.is_finite();
    int |_x| true;
    bool |_x| true;
    complex |x| x.is_finite();
    define |c| {
        let x = c.x()?;
        if x.dtype().is_differentiable() { x.abs()?.lt(f64::INFINITY) } else { x.eq(&x) }
    };
    samples (-1.0, 1.0);
    example [1.0, f64::INFINITY, f64::NAN] => [true, false, false];
}

/// Whether each element is positive infinity.
isposinf "isposinf" Isposinf(x) "(Tensor input)" -> bool {
    float |x| x == T::INFINITY;
    int |_x| false;
    bool |_x| false;
    define |c| c.x()?.eq(f64::INFINITY);
    zero any;
    samples (-1.0, 1.0);
    example [f64::INFINITY, f64::NEG_INFINITY] => [true, false];
}

/// Whether each element is negative infinity.
isneginf "isneginf" Isneginf(x) "(Tensor input)" -> bool {
    float |x| x == -T::INFINITY;
    int |_x| false;
    bool |_x| false;
    define |c| c.x()?.eq(f64::NEG_INFINITY);
    zero any;
    samples (-1.0, 1.0);
    example [f64::INFINITY, f64::NEG_INFINITY] => [false, true];
}

/// Whether each element is 0.
logical_not "logical_not" LogicalNot(x) "(Tensor input)" -> bool {
    float |x| x == T::ZERO;
    int |x| x == T::ZERO;
    bool |x| !x;
    complex |x| !x.is_nonzero();
    define |c| c.x()?.eq(0);
    samples (-1.0, 1.0);
    example [0.0, 2.0] => [true, false];
}

/// The bits of each element inverted; the logical not of bools.
bitwise_not "bitwise_not" BitwiseNot(x) "(Tensor input)" -> promote {
    int |x| !x;
    bool |x| !x;
    samples (-1.0, 1.0);
    example [0, 5] => [-1, -6];
}

/// Complex conjugate of each element; real tensors come back as they are.
conj_physical "conj_physical" Conj(x) "(Tensor input)" -> promote {
    float |x| x;
    int |x| x;
    bool |x| x;
    complex |x| x.conj();
    grad [] |c| c.g().conj_physical();
    zero linear;
    samples (-2.0, 2.0);
    example [1.0, -2.0] => [1.0, -2.0];
}

    } } };
}
