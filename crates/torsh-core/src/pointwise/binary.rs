//! Ops of two tensors (or numbers) without further arguments. Their methods are generated from the
//! rows.

/// Hands the rows of all binary ops, comparisons and bit operations included, to the macro `$m`,
/// after the tokens that follow its name.
///
/// ```
/// macro_rules! names {
///     ($(
///         $(#[doc = $doc:literal])+
///         $method:ident $name:literal $kernel:ident ($($x:ident),+) $schema:literal -> $rule:ident { $($body:tt)* }
///     )*) => { [$($name),*] };
/// }
/// let names = torsh_core::for_each_binary! { names };
/// assert!(names.contains(&"eq") && names.contains(&"special.zeta"));
/// ```
#[macro_export]
macro_rules! for_each_binary {
    ($m:ident $($first:tt)*) => { $crate::append_special_binary! { $m { $($first)*

/// Sum of two operands, elementwise.
add "add" Add(x, y) "(Tensor input, Tensor other)" -> promote {
    float |x, y| x + y;
    int |x, y| x.wrapping_add(y);
    bool |x, y| x | y;
    complex |x, y| x + y;
    grad [] |c| Ok(c.g().clone());
    grad [] |c| Ok(c.g().clone());
    samples (-2.0, 2.0), (-2.0, 2.0);
    example [1.0, 2.0], [10.0, 20.0] => [11.0, 22.0];
}

/// Difference of two operands, elementwise. Two bool tensors have none.
sub "sub" Sub(x, y) "(Tensor input, Tensor other)" -> number {
    float |x, y| x - y;
    int |x, y| x.wrapping_sub(y);
    complex |x, y| x - y;
    grad [] |c| Ok(c.g().clone());
    grad [] |c| c.g().neg();
    samples (-2.0, 2.0), (-2.0, 2.0);
    example [10.0, 20.0], [1.0, 2.0] => [9.0, 18.0];
}

/// Product of two operands, elementwise.
mul "mul" Mul(x, y) "(Tensor input, Tensor other)" -> promote {
    float |x, y| x * y;
    int |x, y| x.wrapping_mul(y);
    bool |x, y| x & y;
    complex |x, y| x * y;
    grad [y] |c| c.mul_conj(1);
    grad [x] |c| c.mul_conj(0);
    samples (-2.0, 2.0), (-2.0, 2.0);
    example [2.0, 3.0], [4.0, 5.0] => [8.0, 15.0];
}

/// Quotient of two operands, elementwise; of integers, too, as real numbers.
div "div" Div(x, y) "(Tensor input, Tensor other)" -> float {
    float |x, y| x / y;
    complex |x, y| x.divide(y);
    grad [y] |c| c.g().div(c.y()?.conj()?);
    grad [y out] |c| c.g().mul(c.out()?.div(c.y()?)?.conj()?)?.neg();
    samples (-2.0, 2.0), (0.4, 2.0);
    example [1.0, 3.0], [2.0, 4.0] => [0.5, 0.75];
}

/// Quotient rounded down, elementwise: Python's `//`. Integers must not be divided by 0.
floor_divide "floor_divide" FloorDivide(x, y) "(Tensor input, Tensor other)" -> promote {
    float |x, y| x.floor_divide(y);
    int |x, y| x.floor_divide(y);
    grad [] |c| c.zeros(0);
    grad [] |c| c.zeros(1);
    samples (0.1, 0.9), (1.1, 2.0);
    example [7.0, -7.0], [2.0, 2.0] => [3.0, -4.0];
}

/// Quotient rounded towards zero, elementwise. Integers must not be divided by 0.
div_trunc "div.trunc" DivTrunc(x, y) "" -> promote {
    float |x, y| (x / y).trunc();
    int |x, y| x.div_trunc(y);
    grad [] |c| c.zeros(0);
    grad [] |c| c.zeros(1);
    samples (0.1, 0.9), (1.1, 2.0);
    example [7.0, -7.0], [2.0, 2.0] => [3.0, -3.0];
}

/// Remainder with the sign of `other`, elementwise: Python's `%`. Integers must not be divided
/// by 0.
remainder "remainder" Remainder(x, y) "(Tensor input, Tensor other)" -> promote {
    float |x, y| x.remainder(y);
    int |x, y| x.remainder(y);
    grad [] |c| Ok(c.g().clone());
    grad [x y] |c| c.g().mul(c.x()?.floor_divide(c.y()?)?)?.neg();
    samples (3.2, 3.8), (1.1, 1.5);
    example [7.0, -7.0], [3.0, 3.0] => [1.0, 2.0];
}

/// Remainder with the sign of `input`, elementwise: C's `fmod`. Integers must not be divided by 0.
fmod "fmod" Fmod(x, y) "(Tensor input, Tensor other)" -> promote {
    float |x, y| x.fmod(y);
    int |x, y| x.fmod(y);
    grad [] |c| Ok(c.g().clone());
    grad [x y] |c| c.g().mul(c.x()?.div_trunc(c.y()?)?)?.neg();
    samples (3.2, 3.8), (1.1, 1.5);
    example [7.0, -7.0], [3.0, 3.0] => [1.0, -1.0];
}

/// `input` to the power of `other`, elementwise.
pow "pow" Pow(x, y) "(Tensor input, Tensor exponent)" -> promote {
    float |x, y| x.pow::<A>(y);
    int |x, y| x.pow(y);
    complex |x, y| x.pow(y);
    grad [x y] |c| {
        let y = c.y()?;
        let slope = y.mul(c.x()?.pow(y.sub(1.0)?)?)?;
        c.g().mul(slope.conj()?)?.where_zero(&y.eq(0.0)?, true)
    };
    grad [x y out] |c| {
        // 0 to a power is 0, but its logarithm is infinite.
        let y = c.y()?;
        let grows = if y.is_complex() {
            y.imag()?.eq(0.0)?.logical_and(y.real()?.ge(0.0)?)?
        } else {
            y.ge(0.0)?
        };
        let flat = c.x()?.eq(0.0)?.logical_and(grows)?;
        let slope = c.out()?.mul(c.x()?.log()?)?.conj()?.where_zero(&flat, true)?;
        c.g().mul(slope)
    };
    samples (0.4, 2.0), (-2.0, 2.0);
    example [2.0, 3.0], [3.0, 2.0] ~ [8.0, 9.0];
}

/// Angle of the point (`other`, `input`), elementwise, in radians. At the origin the gradients are 0.
atan2 "atan2" Atan2(x, y) "(Tensor input, Tensor other)" -> float {
    float |x, y| x.atan2::<A>(y);
    grad [x y] |c| {
        let (x, y) = (c.x()?, c.y()?);
        let square = x.square()?.add(y.square()?)?;
        c.g().mul(&y)?.div(&square)?.where_zero(&square.eq(0.0)?, true)
    };
    grad [x y] |c| {
        let (x, y) = (c.x()?, c.y()?);
        let square = x.square()?.add(y.square()?)?;
        c.g().mul(x.neg()?)?.div(&square)?.where_zero(&square.eq(0.0)?, true)
    };
    samples (0.3, 2.0), (0.3, 2.0);
    example [1.0, -1.0], [1.0, 1.0] ~ [0.785398, -0.785398];
}

/// The larger of two operands, elementwise; nan where either is. Equal ones share the gradient.
maximum "maximum" Maximum(x, y) "(Tensor input, Tensor other)" -> promote {
    float |x, y| x.maximum(y);
    int |x, y| x.max(y);
    bool |x, y| x | y;
    grad [x y] |c| c.shared(true, |x, y| x.lt(&y));
    grad [x y] |c| c.shared(true, |x, y| x.gt(&y));
    samples (-2.0, 2.0), (-2.0, 2.0);
    example [1.0, 5.0], [3.0, 2.0] => [3.0, 5.0];
}

/// The smaller of two operands, elementwise; nan where either is. Equal ones share the gradient.
minimum "minimum" Minimum(x, y) "(Tensor input, Tensor other)" -> promote {
    float |x, y| x.minimum(y);
    int |x, y| x.min(y);
    bool |x, y| x & y;
    grad [x y] |c| c.shared(true, |x, y| x.gt(&y));
    grad [x y] |c| c.shared(true, |x, y| x.lt(&y));
    samples (-2.0, 2.0), (-2.0, 2.0);
    example [1.0, 5.0], [3.0, 2.0] => [1.0, 2.0];
}

/// The larger of two operands, elementwise; the other one where one is nan. Equal ones share the gradient.
fmax "fmax" Fmax(x, y) "(Tensor input, Tensor other)" -> promote {
    float |x, y| x.fmax(y);
    int |x, y| x.max(y);
    bool |x, y| x | y;
    grad [x y] |c| c.shared(false, |x, y| x.ge(&y)?.logical_or(y.isnan()?));
    grad [x y] |c| c.shared(true, |x, y| x.gt(&y)?.logical_or(y.isnan()?));
    define |c| {
        let (x, y) = (c.x()?, c.y()?);
        let both = Tensor::where_(&y.isnan()?, &x, x.maximum(&y)?)?;
        Tensor::where_(&x.isnan()?, &y, both)
    };
    samples (-2.0, 2.0), (-2.0, 2.0);
    example [1.0, f64::NAN], [3.0, 2.0] => [3.0, 2.0];
}

/// The smaller of two operands, elementwise; the other one where one is nan. Equal ones share the gradient.
fmin "fmin" Fmin(x, y) "(Tensor input, Tensor other)" -> promote {
    float |x, y| x.fmin(y);
    int |x, y| x.min(y);
    bool |x, y| x & y;
    grad [x y] |c| c.shared(false, |x, y| x.le(&y)?.logical_or(y.isnan()?));
    grad [x y] |c| c.shared(true, |x, y| x.lt(&y)?.logical_or(y.isnan()?));
    define |c| {
        let (x, y) = (c.x()?, c.y()?);
        let both = Tensor::where_(&y.isnan()?, &x, x.minimum(&y)?)?;
        Tensor::where_(&x.isnan()?, &y, both)
    };
    samples (-2.0, 2.0), (-2.0, 2.0);
    example [1.0, f64::NAN], [3.0, 2.0] => [1.0, 2.0];
}

/// Logarithm of the sum of the exponentials of two operands, elementwise, without overflow.
logaddexp "logaddexp" Logaddexp(x, y) "(Tensor input, Tensor other)" -> promote {
    float |x, y| x.logaddexp::<A>(y);
    complex |x, y| x.logaddexp(y);
    grad [x y] |c| c.g().div(c.y()?.sub(c.x()?)?.exp()?.add(1.0)?.conj()?);
    grad [x y] |c| c.g().div(c.x()?.sub(c.y()?)?.exp()?.add(1.0)?.conj()?);
    define |c| {
        let (x, y) = (c.x()?, c.y()?);
        let tail = x.sub(&y)?.abs()?.neg()?.exp()?.log1p()?;
        // Equal infinities have no difference.
        let same = x.eq(&y)?.logical_and(x.isinf()?)?;
        Tensor::where_(&same, &x, x.maximum(&y)?.add(tail)?)
    };
    samples (-2.0, 2.0), (-2.0, 2.0);
    example [0.0, 1.0], [0.0, 2.0] ~ [0.693147, 2.313262];
}

/// Logarithm to base 2 of the sum of 2 to the powers of two operands, elementwise, without
/// overflow.
logaddexp2 "logaddexp2" Logaddexp2(x, y) "(Tensor input, Tensor other)" -> promote {
    float |x, y| x.logaddexp2::<A>(y);
    grad [x y] |c| c.g().div(c.y()?.sub(c.x()?)?.exp2()?.add(1.0)?);
    grad [x y] |c| c.g().div(c.x()?.sub(c.y()?)?.exp2()?.add(1.0)?);
    define |c| {
        let (x, y) = (c.x()?, c.y()?);
        let tail = x.sub(&y)?.abs()?.neg()?.exp2()?.log1p()?.div(std::f64::consts::LN_2)?;
        let same = x.eq(&y)?.logical_and(x.isinf()?)?;
        Tensor::where_(&same, &x, x.maximum(&y)?.add(tail)?)
    };
    samples (-2.0, 2.0), (-2.0, 2.0);
    example [0.0, 3.0], [0.0, 3.0] ~ [1.0, 4.0];
}

/// `input * log(other)`, elementwise; 0 where `input` is 0, unless `other` is nan.
xlogy "xlogy" Xlogy(x, y) "(Tensor input, Tensor other)" -> float {
    float |x, y| x.xlogy::<A>(y);
    grad [x y] |c| {
        let y = c.y()?;
        let flat = c.x()?.eq(0.0)?.logical_and(y.le(0.0)?)?;
        c.g().xlogy(y)?.where_zero(&flat, true)
    };
    grad [x y] |c| c.g().mul(c.x()?)?.div(c.y()?);
    define |c| {
        let (x, y) = (c.x()?, c.y()?);
        let product = Tensor::where_(&x.eq(0)?, 0.0, x.mul(y.log()?)?)?;
        Tensor::where_(&y.isnan()?, f64::NAN, product)
    };
    samples (0.3, 2.0), (0.3, 2.0);
    example [0.0, 2.0], [0.0, 3.0] ~ [0.0, 2.197225];
}

/// Length of the hypotenuse of a right triangle with these legs, elementwise, without overflow.
hypot "hypot" Hypot(x, y) "(Tensor input, Tensor other)" -> promote {
    float |x, y| x.hypot(y);
    grad [x out] |c| c.g().mul(c.x()?.div(c.out()?)?);
    grad [y out] |c| c.g().mul(c.y()?.div(c.out()?)?);
    samples (0.3, 2.0), (0.3, 2.0);
    example [3.0, 5.0], [4.0, 12.0] ~ [5.0, 13.0];
}

/// The magnitude of `input` with the sign of `other`, elementwise.
copysign "copysign" Copysign(x, y) "(Tensor input, Tensor other)" -> float {
    float |x, y| x.copysign(y);
    grad [x out] |c| {
        let x = c.x()?;
        c.g().mul(c.out()?.div(&x)?.where_zero(&x.eq(0.0)?, true)?)
    };
    grad [] |c| c.zeros(1);
    define |c| {
        let x = c.x()?.abs()?;
        Tensor::where_(&c.y()?.signbit()?, x.neg()?, &x)
    };
    samples (0.3, 2.0), (0.3, 2.0);
    example [1.0, -2.0], [-3.0, 4.0] => [-1.0, 2.0];
}

/// 0 where `input` is negative, 1 where it is positive, `values` where it is 0.
heaviside "heaviside" Heaviside(x, y) "(Tensor input, Tensor values)" -> promote {
    float |x, y| {
        let step = if x > T::ZERO { T::ONE } else { T::ZERO };
        if x == T::ZERO { y } else { step }
    };
    int |x, y| if x == T::ZERO { y } else if x > T::ZERO { T::ONE } else { T::ZERO };
    bool |x, y| x | y;
    define |c| {
        let x = c.x()?;
        Tensor::where_(&x.eq(0)?, c.operand(1)?, x.gt(0)?.to_dtype(x.dtype())?)
    };
    samples (0.3, 2.0), (0.3, 2.0);
    example [-1.0, 0.0, 2.0], [0.5, 0.5, 0.5] => [0.0, 0.5, 1.0];
}

/// The next representable number after `input` towards `other`, elementwise. Where they are equal, the gradient is 0.
nextafter "nextafter" Nextafter(x, y) "(Tensor input, Tensor other)" -> promote {
    float |x, y| x.nextafter(y);
    grad [x y] |c| c.g().where_zero(&c.x()?.ne(c.y()?)?, false);
    grad [] |c| c.zeros(1);
    samples (0.3, 2.0), (0.3, 2.0);
    example [1.0, 1.0], [2.0, 1.0] => [1.0000001, 1.0];
}

/// Gradient of `relu`: `input` where `result` is positive, 0 elsewhere.
relu_backward "relu_backward" ReluBackward(x, y) "" -> promote {
    float |x, y| if y <= T::ZERO { T::ZERO } else { x };
    grad [y] |c| c.g().relu_backward(c.y()?);
    grad [] |c| c.zeros(1);
    define |c| c.x()?.where_zero(&c.y()?.le(0.0)?, true);
    samples (-2.0, 2.0), (0.2, 2.0);
    example [1.0, 2.0], [0.0, 3.0] => [0.0, 2.0];
}

/// Gradient of `sigmoid`: `input * conj((1 - result) * result)`.
sigmoid_backward "sigmoid_backward" SigmoidBackward(x, y) "" -> promote {
    float |x, y| x * ((T::ONE - y) * y);
    complex |x, y| x * ((T::c(1.0) - y) * y).conj();
    grad [y] |c| c.g().sigmoid_backward(c.y()?.conj()?);
    grad [x y] |c| {
        let slope = c.y()?.conj()?.mul(-2.0)?.add(1.0)?;
        c.g().conj()?.mul(c.x()?)?.mul(slope)
    };
    define |c| { let y = c.y()?; c.x()?.mul(y.neg()?.add(1.0)?.mul(&y)?) };
    samples (-2.0, 2.0), (0.1, 0.9);
    example [1.0, 2.0], [0.5, 0.75] => [0.25, 0.375];
}

/// Gradient of `tanh`: `input * conj(1 - result^2)`.
tanh_backward "tanh_backward" TanhBackward(x, y) "" -> promote {
    float |x, y| x * (T::ONE - y * y);
    complex |x, y| x * (T::c(1.0) - y * y).conj();
    grad [y] |c| c.g().tanh_backward(c.y()?.conj()?);
    grad [x y] |c| c.g().conj()?.mul(c.x()?)?.mul(c.y()?.conj()?.mul(-2.0)?);
    define |c| { let y = c.y()?; c.x()?.mul(y.mul(&y)?.neg()?.add(1.0)?) };
    samples (-2.0, 2.0), (-0.9, 0.9);
    example [1.0, 2.0], [0.0, 0.5] => [1.0, 1.5];
}

/// Gradient of `silu`: `input` times its derivative at `x`.
silu_backward "silu_backward" SiluBackward(x, y) "" -> promote {
    float |x, y| {
        let s = y.sigmoid::<A>();
        x * (s * (T::ONE + y * (T::ONE - s)))
    };
    complex |x, y| {
        let s = y.sigmoid();
        x * (s * (T::c(1.0) + y * (T::c(1.0) - s))).conj()
    };
    grad [y] |c| c.g().silu_backward(c.y()?.conj()?);
    grad [x y] |c| {
        let y = c.y()?;
        let s = y.sigmoid()?;
        let bend = s.mul(-2.0)?.add(1.0)?.mul(&y)?.add(2.0)?;
        let slope = s.neg()?.add(1.0)?.mul(&s)?.mul(bend)?;
        c.g().conj()?.mul(c.x()?)?.mul(slope.conj()?)
    };
    define |c| {
        let y = c.y()?;
        let s = y.sigmoid()?;
        c.x()?.mul(s.neg()?.add(1.0)?.mul(&y)?.add(1.0)?.mul(&s)?)
    };
    samples (-2.0, 2.0), (-2.0, 2.0);
    example [1.0, 2.0], [0.0, 0.0] ~ [0.5, 1.0];
}

/// Gradient of the exact `gelu`: `input` times its derivative at `x`.
gelu_erf_backward "gelu_backward.none" GeluErfBackward(x, y) "" -> promote {
    float |x, y| {
        let below = T::c(0.5) + T::c(0.5) * y.erf_normal::<A>();
        let density = (y * y * T::c(-0.5)).exp::<A>() * T::c(0.3989422804014327);
        x * (below + y * density)
    };
    grad [y] |c| c.g().gelu_erf_backward(c.y()?);
    grad [x y] |c| {
        let square = c.y()?.square()?;
        let density = square.mul(-0.5)?.exp()?.mul(0.3989422804014327)?;
        c.g().mul(c.x()?)?.mul(square.neg()?.add(2.0)?.mul(density)?)
    };
    define |c| {
        let y = c.y()?;
        let below = y.mul(-std::f64::consts::FRAC_1_SQRT_2)?.erfc()?.mul(0.5)?;
        let density = y.square()?.mul(-0.5)?.exp()?.mul(0.3989422804014327)?;
        c.x()?.mul(y.mul(density)?.add(below)?)
    };
    samples (-2.0, 2.0), (-2.0, 2.0);
    example [1.0, 2.0], [0.0, 0.0] ~ [0.5, 1.0];
}

/// Gradient of `gelu` by the tanh formula: `input` times its derivative at `x`.
gelu_tanh_backward "gelu_backward.tanh" GeluTanhBackward(x, y) "" -> promote {
    float |x, y| {
        let (k, a) = (T::c(0.7978845608028654), T::c(0.044715));
        let square = y * y;
        let t = (k * y * (T::ONE + a * square)).tanh::<A>();
        let inner = k * (T::ONE + T::c(3.0) * a * square);
        x * (T::c(0.5) * (T::ONE + t) + T::c(0.5) * y * (T::ONE - t * t) * inner)
    };
    grad [y] |c| c.g().gelu_tanh_backward(c.y()?);
    grad [x y] |c| {
        // With u the argument of tanh: (1 - t^2) (u' + y / 2 (u'' - 2 t u'^2)).
        let y = c.y()?;
        let square = y.square()?;
        let u = square.mul(0.044715)?.add(1.0)?.mul(&y)?.mul(0.7978845608028654)?;
        let first = square.mul(0.134145)?.add(1.0)?.mul(0.7978845608028654)?;
        let second = y.mul(0.7978845608028654 * 0.26829)?;
        let t = u.tanh()?;
        let bend = second.sub(t.mul(first.square()?)?.mul(2.0)?)?.mul(&y)?.mul(0.5)?;
        let slope = t.square()?.neg()?.add(1.0)?.mul(first.add(bend)?)?;
        c.g().mul(c.x()?)?.mul(slope)
    };
    define |c| {
        let y = c.y()?;
        let square = y.square()?;
        let inner = square.mul(0.044715)?.add(1.0)?.mul(&y)?.mul(0.7978845608028654)?;
        let t = inner.tanh()?;
        let slope = square.mul(0.134145)?.add(1.0)?.mul(0.7978845608028654)?;
        let bend = t.square()?.neg()?.add(1.0)?.mul(slope)?.mul(&y)?;
        c.x()?.mul(t.add(1.0)?.add(bend)?.mul(0.5)?)
    };
    samples (-2.0, 2.0), (-2.0, 2.0);
    example [1.0, 2.0], [0.0, 0.0] ~ [0.5, 1.0];
}

    } } };
}
