//! Ops with further numbers, or of three tensors. Their methods are written by hand in the tensor
//! crate; everything else is generated from the rows.

/// Hands the rows of all parametric ops, losses included, to the macro `$m`, after the tokens that
/// follow its name.
///
/// ```
/// macro_rules! names {
///     ($(
///         $(#[doc = $doc:literal])+
///         $method:ident $name:literal $kernel:ident ($($x:ident),+ $(; $($number:ident),+)?)
///         $schema:literal -> $rule:ident { $($body:tt)* }
///     )*) => { [$($name),*] };
/// }
/// let names = torsh_core::for_each_parametric! { names };
/// assert!(names.contains(&"addcmul") && names.contains(&"nn.functional.leaky_relu"));
/// ```
#[macro_export]
macro_rules! for_each_parametric {
    ($m:ident $($first:tt)*) => { $crate::append_special_parametric! { $m { $($first)*

/// `input + alpha * other`, elementwise.
add_alpha "add.alpha" AddAlpha(x, y; alpha) "(Tensor input, Tensor other, *, Scalar alpha)" -> promote {
    float |x, y; alpha| y.fma::<A>(alpha, x);
    int |x, y; alpha| x.wrapping_add(alpha.wrapping_mul(y));
    bool |x, y; alpha| x | (alpha & y);
    complex |x, y; alpha| x + alpha * y;
    grad [] |c| Ok(c.g().clone());
    grad [] |c| c.g().mul(c.number("alpha")?.conj());
    define |c| c.x()?.add(c.y()?.mul(c.number("alpha")?)?);
    samples (-2.0, 2.0), (-2.0, 2.0);
}

/// `input - alpha * other`, elementwise. Two bool tensors have none.
sub_alpha "sub.alpha" SubAlpha(x, y; alpha) "(Tensor input, Tensor other, *, Scalar alpha)" -> number {
    float |x, y; alpha| y.fma::<A>(-alpha, x);
    int |x, y; alpha| x.wrapping_sub(alpha.wrapping_mul(y));
    complex |x, y; alpha| x - alpha * y;
    grad [] |c| Ok(c.g().clone());
    grad [] |c| c.g().mul(c.number("alpha")?.conj())?.neg();
    define |c| c.x()?.sub(c.y()?.mul(c.number("alpha")?)?);
    samples (-2.0, 2.0), (-2.0, 2.0);
}

/// `other - alpha * input`, elementwise. Two bool tensors have none.
rsub "rsub" Rsub(x, y; alpha) "(Tensor input, Tensor other, Scalar alpha=1)" -> number {
    float |x, y; alpha| x.fma::<A>(-alpha, y);
    int |x, y; alpha| y.wrapping_sub(alpha.wrapping_mul(x));
    complex |x, y; alpha| y - alpha * x;
    grad [] |c| c.g().mul(c.number("alpha")?.conj())?.neg();
    grad [] |c| Ok(c.g().clone());
    define |c| c.y()?.sub(c.x()?.mul(c.number("alpha")?)?);
    samples (-2.0, 2.0), (-2.0, 2.0);
}

/// `input + value * tensor1 * tensor2`, elementwise.
addcmul "addcmul" Addcmul(x, y, z; value) "(Tensor input, Tensor tensor1, Tensor tensor2, *, Scalar value=1)" -> promote {
    float |x, y, z; value| x + value * y * z;
    int |x, y, z; value| x.wrapping_add(value.wrapping_mul(y).wrapping_mul(z));
    complex |x, y, z; value| x + value * y * z;
    grad [] |c| Ok(c.g().clone());
    grad [z] |c| c.g().mul(c.z()?.mul(c.number("value")?)?.conj()?);
    grad [y] |c| c.g().mul(c.y()?.mul(c.number("value")?)?.conj()?);
    define |c| c.x()?.add(c.y()?.mul(c.z()?)?.mul(c.number("value")?)?);
    samples (-2.0, 2.0), (-2.0, 2.0), (-2.0, 2.0);
}

/// `input + value * tensor1 / tensor2`, elementwise. Integer tensors have none.
addcdiv "addcdiv" Addcdiv(x, y, z; value) "(Tensor input, Tensor tensor1, Tensor tensor2, *, Scalar value=1)" -> promote {
    float |x, y, z; value| x + value * y / z;
    complex |x, y, z; value| x + (value * y).divide(z);
    grad [] |c| Ok(c.g().clone());
    grad [z] |c| c.g().mul(c.z()?.reciprocal()?.mul(c.number("value")?)?.conj()?);
    grad [y z] |c| {
        let z = c.z()?;
        c.g().mul(c.y()?.mul(c.number("value")?)?.div(z.square()?)?.conj()?)?.neg()
    };
    define |c| c.x()?.add(c.y()?.mul(c.number("value")?)?.div(c.z()?)?);
    samples (-2.0, 2.0), (-2.0, 2.0), (0.4, 2.0);
}

/// `input + weight * (end - input)`, elementwise, exact at both ends.
lerp_scalar "lerp.scalar" LerpScalar(x, y; weight) "" -> promote {
    float |x, y; weight| x.lerp::<A>(y, weight);
    complex |x, y; weight| {
        if weight.abs() < T::R::c(0.5) {
            x + weight * (y - x)
        } else {
            y - (y - x) * (T::c(1.0) - weight)
        }
    };
    grad [] |c| {
        let w = c.number("weight")?.conj();
        c.g().sub(c.g().mul(w)?)
    };
    grad [] |c| c.g().mul(c.number("weight")?.conj());
    define |c| {
        let (x, y, w) = (c.x()?, c.y()?, c.number("weight")?);
        let apart = y.sub(&x)?;
        match w.to_f64().abs() < 0.5 {
            true => x.add(apart.mul(w)?),
            false => y.sub(apart.mul(1.0 - w.to_f64())?),
        }
    };
    samples (-2.0, 2.0), (-2.0, 2.0);
}

/// `input + weight * (end - input)` with a tensor of weights, elementwise, exact at both ends.
lerp_tensor "lerp.tensor" LerpTensor(x, y, z) "" -> promote {
    float |x, y, z| x.lerp::<A>(y, z);
    complex |x, y, z| {
        if z.abs() < T::R::c(0.5) { x + z * (y - x) } else { y - (y - x) * (T::c(1.0) - z) }
    };
    grad [z] |c| c.g().mul(c.z()?.neg()?.add(1.0)?.conj()?);
    grad [z] |c| c.g().mul(c.z()?.conj()?);
    grad [x y] |c| c.g().mul(c.y()?.sub(c.x()?)?.conj()?);
    define |c| {
        let (x, y, w) = (c.x()?, c.y()?, c.z()?);
        let apart = y.sub(&x)?;
        let (near, far) = (x.add(w.mul(&apart)?)?, y.sub(w.neg()?.add(1.0)?.mul(&apart)?)?);
        Tensor::where_(&w.abs()?.lt(0.5)?, near, far)
    };
    samples (-2.0, 2.0), (-2.0, 2.0), (0.1, 0.9);
}

/// Each element limited to [`min`, `max`]; nan stays, and a nan limit is the result. `max` wins
/// where the limits cross. Elements at a limit have no gradient.
clamp_scalar "clamp.scalar" ClampScalar(x; min, max) "" -> promote {
    float |x; min, max| x.maximum(min).minimum(max);
    int |x; min, max| x.max(min).min(max);
    grad [x] |c| {
        let x = c.x()?;
        c.g().where_zero(&x.gt(c.number("min")?)?.logical_and(x.lt(c.number("max")?)?)?, false)
    };
    samples (-2.0, 2.0);
}

/// Each element, or `min` where that is larger; nan stays, and a nan limit is the result. Elements at the limit have no
/// gradient.
clamp_min_scalar "clamp_min.scalar" ClampMinScalar(x; min) "" -> promote {
    float |x; min| x.maximum(min);
    int |x; min| x.max(min);
    grad [x] |c| c.g().where_zero(&c.x()?.gt(c.number("min")?)?, false);
    samples (-2.0, 2.0);
}

/// Each element, or `max` where that is smaller; nan stays, and a nan limit is the result. Elements at the limit have no
/// gradient.
clamp_max_scalar "clamp_max.scalar" ClampMaxScalar(x; max) "" -> promote {
    float |x; max| x.minimum(max);
    int |x; max| x.min(max);
    grad [x] |c| c.g().where_zero(&c.x()?.lt(c.number("max")?)?, false);
    samples (-2.0, 2.0);
}

/// Each element limited to what the tensors `min` and `max` hold, elementwise; nan where any is. An element at one limit
/// shares the gradient with it.
clamp_tensor "clamp.tensor" ClampTensor(x, y, z) "" -> promote {
    float |x, y, z| x.maximum(y).minimum(z);
    int |x, y, z| x.max(y).min(z);
    grad [x y z] |c| {
        let (x, y, z) = (c.x()?, c.y()?, c.z()?);
        let tie = x.eq(&y)?.logical_or(x.eq(&z)?)?.logical_and(y.lt(&z)?)?;
        let g = c.halved(&tie)?;
        g.where_zero(&x.lt(&y)?.logical_or(x.gt(&z)?)?, true)
    };
    grad [x y z] |c| {
        let (x, y, z) = (c.x()?, c.y()?, c.z()?);
        let tie = x.eq(&y)?.logical_and(y.lt(&z)?)?;
        let below = x.lt(&y)?.logical_and(y.le(&z)?)?;
        let g = c.halved(&tie)?;
        g.where_zero(&tie.logical_or(below)?, false)
    };
    grad [x y z] |c| {
        let (x, y, z) = (c.x()?, c.y()?, c.z()?);
        let tie = x.eq(&z)?.logical_and(y.lt(&z)?)?;
        let above = x.gt(&z)?.logical_and(y.le(&z)?)?.logical_or(y.gt(&z)?)?;
        let g = c.halved(&tie)?;
        g.where_zero(&tie.logical_or(above)?, false)
    };
    define |c| c.x()?.maximum(c.y()?)?.minimum(c.z()?);
    samples (-2.0, 2.0), (-1.5, -0.5), (0.5, 1.5);
}

/// The larger of `input` and the tensor `min`, elementwise; nan where either is. Equal ones share the gradient.
clamp_min_tensor "clamp_min.tensor" ClampMinTensor(x, y) "" -> promote {
    float |x, y| x.maximum(y);
    int |x, y| x.max(y);
    bool |x, y| x | y;
    grad [x y] |c| c.shared(true, |x, y| x.lt(&y));
    grad [x y] |c| c.shared(true, |x, y| x.gt(&y));
    define |c| c.x()?.maximum(c.y()?);
    samples (-2.0, 2.0), (-2.0, 2.0);
}

/// The smaller of `input` and the tensor `max`, elementwise; nan where either is. Equal ones share the gradient.
clamp_max_tensor "clamp_max.tensor" ClampMaxTensor(x, y) "" -> promote {
    float |x, y| x.minimum(y);
    int |x, y| x.min(y);
    bool |x, y| x & y;
    grad [x y] |c| c.shared(true, |x, y| x.gt(&y));
    grad [x y] |c| c.shared(true, |x, y| x.lt(&y));
    define |c| c.x()?.minimum(c.y()?);
    samples (-2.0, 2.0), (-2.0, 2.0);
}

/// Each element with nan and the infinities replaced by the three numbers; integers as they are.
nan_to_num "nan_to_num" NanToNum(x; nan, posinf, neginf) "" -> promote {
    float |x; nan, posinf, neginf| {
        let r = if x.is_nan() { nan } else { x };
        let r = if x == T::INFINITY { posinf } else { r };
        if x == -T::INFINITY { neginf } else { r }
    };
    int |x; nan, posinf, neginf| x;
    bool |x; nan, posinf, neginf| x;
    complex |x; nan, posinf, neginf| {
        let part = |v: T::R| {
            if v.is_nan() {
                nan.re()
            } else if v == T::R::INFINITY {
                posinf.re()
            } else if v == -T::R::INFINITY {
                neginf.re()
            } else {
                v
            }
        };
        T::new(part(x.re()), part(x.im()))
    };
    grad [x] |c| c.g().where_zero(&c.x()?.isfinite()?, false);
    define |c| {
        let x = c.x()?;
        let r = Tensor::where_(&x.isnan()?, c.number("nan")?, &x)?;
        let r = Tensor::where_(&x.eq(f64::INFINITY)?, c.number("posinf")?, r)?;
        Tensor::where_(&x.eq(f64::NEG_INFINITY)?, c.number("neginf")?, r)
    };
    zero any;
    samples (-2.0, 2.0);
}

/// `log(x / (1 - x))` of each element, limited to [`eps`, `1 - eps`] before where `eps` is not
/// negative.
logit "logit" Logit(x; eps) "" -> float {
    float |x; eps| {
        let high = T::ONE - eps;
        let limited = if x < eps { eps } else { x };
        let limited = if x > high && x >= eps { high } else { limited };
        let z = if eps < T::ZERO { x } else { limited };
        (z / (T::ONE - z)).log::<A>()
    };
    grad [x] |c| {
        let x = c.x()?;
        let eps = c.number("eps")?.to_f64();
        // The magnitude, so that -0 has the slope of 0.
        let g = c.g().div(x.neg()?.add(1.0)?.mul(&x)?.abs()?)?;
        if eps < 0.0 {
            return Tensor::where_(&x.ge(0.0)?.logical_and(x.le(1.0)?)?, g, f64::NAN);
        }
        g.where_zero(&x.lt(eps)?.logical_or(x.gt(1.0 - eps)?)?, true)
    };
    define |c| {
        let (x, eps) = (c.x()?, c.number("eps")?.to_f64());
        let z = if eps < 0.0 {
            x
        } else {
            let low = Tensor::where_(&x.lt(eps)?, eps, &x)?;
            Tensor::where_(&x.gt(1.0 - eps)?.logical_and(x.ge(eps)?)?, 1.0 - eps, low)?
        };
        z.div(z.neg()?.add(1.0)?)?.log()
    };
    samples (0.2, 0.8);
}

/// Each element rounded to `decimals` places, halves to even; negative counts round to tens,
/// hundreds and so on.
round_decimals "round.decimals" RoundDecimals(x; decimals) "(Tensor input, *, int decimals)" -> promote {
    float |x; decimals| x.round_decimals(decimals);
    grad [] |c| c.zeros(0);
    samples (0.1, 0.4);
}

/// Whether the operands differ by at most `atol + rtol * |other|`, elementwise. Integers and bools
/// are compared as real numbers, so convert them before.
isclose "isclose" Isclose(x, y; rtol, atol, equal_nan) "" -> bool {
    float |x, y; rtol, atol, equal_nan| {
        let apart = (x - y).abs();
        let allowed = atol + (rtol * y).abs();
        let near = apart.is_finite() & (apart <= allowed);
        let both_nan = x.is_nan() & y.is_nan() & (equal_nan != T::ZERO);
        (x == y) | near | both_nan
    };
    complex |x, y; rtol, atol, equal_nan| {
        let apart = (x - y).abs();
        let allowed = atol.re() + (rtol * y).abs();
        let near = apart.is_finite() & (apart <= allowed);
        let both_nan = x.is_nan() & y.is_nan() & equal_nan.is_nonzero();
        (x == y) | near | both_nan
    };
    define |c| {
        let (x, y) = (c.x()?, c.y()?);
        let apart = x.sub(&y)?.abs()?;
        let allowed = y.mul(c.number("rtol")?)?.abs()?.add(c.number("atol")?)?;
        let near = apart.isfinite()?.logical_and(apart.le(allowed)?)?;
        let close = x.eq(&y)?.logical_or(near)?;
        match c.number("equal_nan")?.to_bool() {
            true => close.logical_or(x.isnan()?.logical_and(y.isnan()?)?),
            false => Ok(close),
        }
    };
    samples (-2.0, 2.0), (-2.0, 2.0);
}

/// Angle of each complex element in (-pi, pi]; of real ones 0, or pi for negative ones. Integers
/// and bools have real results, so convert them before.
angle "angle" Angle(x) "" -> real {
    float |x| {
        let r = if x < T::ZERO { T::c(std::f64::consts::PI) } else { T::ZERO };
        if x.is_nan() { x } else { r }
    };
    complex |x| x.angle();
    grad [x] |c| {
        let x = c.x()?;
        if !x.is_complex() {
            return c.zeros(0);
        }
        let turn = x.mul($crate::Scalar::Complex(0.0, 1.0))?.div(x.abs()?.square()?)?;
        c.g().mul(turn)?.where_zero(&x.eq(0.0)?, true)
    };
    define |c| {
        let x = c.x()?;
        let r = Tensor::where_(&x.lt(0)?, std::f64::consts::PI, 0.0)?;
        Tensor::where_(&x.isnan()?, &x, r)
    };
    samples (0.3, 2.0);
}

/// Each element where positive, times `negative_slope` elsewhere.
leaky_relu "nn.functional.leaky_relu" LeakyRelu(x; negative_slope) "(Tensor input, float negative_slope=0.01)" -> promote {
    float |x; negative_slope| {
        let low = x * negative_slope;
        if x > T::ZERO { x } else { low }
    };
    grad [x] |c| Tensor::where_(&c.x()?.gt(0.0)?, c.g(), c.g().mul(c.number("negative_slope")?)?);
    define |c| { let x = c.x()?; Tensor::where_(&x.gt(0)?, &x, x.mul(c.number("negative_slope")?)?) };
    zero any;
    samples (0.2, 2.0);
}

/// Each element where positive, times `weight` elsewhere.
prelu_kernel "prelu_kernel" PreluKernel(x, y) "" -> promote {
    float |x, y| {
        let low = x * y;
        if x > T::ZERO { x } else { low }
    };
    grad [x y] |c| Tensor::where_(&c.x()?.gt(0.0)?, c.g(), c.g().mul(c.y()?)?);
    grad [x] |c| {
        let x = c.x()?;
        c.g().mul(&x)?.where_zero(&x.gt(0.0)?, true)
    };
    define |c| { let x = c.x()?; Tensor::where_(&x.gt(0)?, &x, x.mul(c.y()?)?) };
    samples (-2.0, -0.2), (0.1, 0.9);
}

/// Each element where positive, `alpha * (exp(x) - 1)` elsewhere.
elu "nn.functional.elu" Elu(x; alpha) "(Tensor input, float alpha=1.0)" -> promote {
    float |x; alpha| {
        let low = x.expm1::<A>() * alpha;
        if x <= T::ZERO { low } else { x }
    };
    grad [x] |c| {
        let x = c.x()?;
        let low = x.minimum(0.0)?.exp()?.mul(c.number("alpha")?)?;
        c.g().mul(Tensor::where_(&x.le(0.0)?, low, 1.0)?)
    };
    define |c| { let x = c.x()?; Tensor::where_(&x.gt(0)?, &x, x.expm1()?.mul(c.number("alpha")?)?) };
    zero any;
    samples (-2.0, -0.2);
}

/// Each element where positive, `alpha * (exp(x / alpha) - 1)` elsewhere.
celu "celu" Celu(x; alpha) "(Tensor input, float alpha=1.0)" -> promote {
    float |x; alpha| {
        let low = (x / alpha).expm1::<A>() * alpha;
        if x <= T::ZERO { low } else { x }
    };
    grad [x] |c| {
        let x = c.x()?;
        let low = x.minimum(0.0)?.div(c.number("alpha")?)?.exp()?;
        c.g().mul(Tensor::where_(&x.le(0.0)?, low, 1.0)?)
    };
    define |c| {
        let (x, alpha) = (c.x()?, c.number("alpha")?);
        Tensor::where_(&x.gt(0)?, &x, x.div(alpha)?.expm1()?.mul(alpha)?)
    };
    zero any;
    samples (-2.0, -0.2);
}

/// `log(1 + exp(beta * x)) / beta` of each element; itself where `beta * x` is above `threshold`.
softplus "nn.functional.softplus" Softplus(x; beta, threshold) "(Tensor input, float beta=1, float threshold=20)" -> promote {
    float |x; beta, threshold| {
        let z = x * beta;
        let soft = z.exp::<A>().log1p::<A>() / beta;
        if z > threshold { x } else { soft }
    };
    grad [x] |c| {
        let z = c.x()?.mul(c.number("beta")?)?;
        Tensor::where_(&z.gt(c.number("threshold")?)?, c.g(), c.g().mul(z.sigmoid()?)?)
    };
    define |c| {
        let (x, beta) = (c.x()?, c.number("beta")?);
        let z = x.mul(beta)?;
        Tensor::where_(&z.gt(c.number("threshold")?)?, &x, z.exp()?.log1p()?.div(beta)?)
    };
    samples (-2.0, 2.0);
}

/// Each element where above `threshold`, `value` elsewhere.
threshold "threshold" Threshold(x; threshold, value) "(Tensor input, float threshold, float value)" -> promote {
    float |x; threshold, value| if x <= threshold { value } else { x };
    int |x; threshold, value| if x <= threshold { value } else { x };
    grad [x] |c| c.g().where_zero(&c.x()?.le(c.number("threshold")?)?, true);
    define |c| { let x = c.x()?; Tensor::where_(&x.le(c.number("threshold")?)?, c.number("value")?, &x) };
    samples (-2.0, 2.0);
}

/// Each element limited to [`min_val`, `max_val`].
hardtanh "nn.functional.hardtanh" Hardtanh(x; min_val, max_val) "(Tensor input, float min_val=-1.0, float max_val=1.0)" -> promote {
    float |x; min_val, max_val| x.maximum(min_val).minimum(max_val);
    int |x; min_val, max_val| x.max(min_val).min(max_val);
    grad [x] |c| {
        let x = c.x()?;
        c.g().where_zero(&x.le(c.number("min_val")?)?.logical_or(x.ge(c.number("max_val")?)?)?, true)
    };
    define |c| c.x()?.clamp(c.number("min_val")?, c.number("max_val")?);
    samples (-0.9, 0.9);
}

/// 0 where an element is in [`-lambd`, `lambd`], itself elsewhere.
hardshrink "nn.functional.hardshrink" Hardshrink(x; lambd) "(Tensor input, float lambd=0.5)" -> promote {
    float |x; lambd| if (x >= -lambd) & (x <= lambd) { T::ZERO } else { x };
    grad [x] |c| c.g().where_zero(&c.x()?.abs()?.le(c.number("lambd")?)?, true);
    define |c| {
        let (x, lambd) = (c.x()?, c.number("lambd")?.to_f64());
        let small = x.ge(-lambd)?.logical_and(x.le(lambd)?)?;
        x.where_zero(&small, true)
    };
    zero any;
    samples (0.6, 2.0);
}

/// Each element moved towards 0 by `lambd`, and 0 in [`-lambd`, `lambd`].
softshrink "nn.functional.softshrink" Softshrink(x; lambd) "(Tensor input, float lambd=0.5)" -> promote {
    float |x; lambd| {
        let low = if x < -lambd { x + lambd } else { x * T::ZERO };
        if x > lambd { x - lambd } else { low }
    };
    grad [x] |c| c.g().where_zero(&c.x()?.abs()?.le(c.number("lambd")?)?, true);
    define |c| {
        let (x, lambd) = (c.x()?, c.number("lambd")?.to_f64());
        // Times 0, so that nan stays.
        let low = Tensor::where_(&x.lt(-lambd)?, x.add(lambd)?, x.mul(0.0)?)?;
        Tensor::where_(&x.gt(lambd)?, x.sub(lambd)?, low)
    };
    zero any;
    samples (0.6, 2.0);
}

/// `x` times the probability that a standard normal number is below it, of each element.
gelu_erf "gelu.none" GeluErf(x) "" -> promote {
    float |x| {
        x * T::c(0.5) * (T::ONE + x.erf_normal::<A>())
    };
    grad [x] |c| c.g().gelu_erf_backward(c.x()?);
    define |c| { let x = c.x()?; x.mul(-std::f64::consts::FRAC_1_SQRT_2)?.erfc()?.mul(&x)?.mul(0.5) };
    zero any;
    samples (-2.0, 2.0);
}

/// `gelu` by the tanh formula, of each element.
gelu_tanh "gelu.tanh" GeluTanh(x) "" -> promote {
    float |x| {
        let inner = T::c(0.7978845608028654) * (x + T::c(0.044715) * (x * x * x));
        T::c(0.5) * x * (T::ONE + inner.tanh::<A>())
    };
    grad [x] |c| c.g().gelu_tanh_backward(c.x()?);
    define |c| {
        let x = c.x()?;
        let inner = x.square()?.mul(0.044715)?.add(1.0)?.mul(&x)?.mul(0.7978845608028654)?;
        inner.tanh()?.add(1.0)?.mul(&x)?.mul(0.5)
    };
    zero any;
    samples (-2.0, 2.0);
}

    } } };
}
