//! Ops with further numbers, or of three tensors; their methods are written by hand in the tensor
//! crate, the rest is made from the rows.

/// Hands the rows of all parametric ops, losses included, to the macro `$m`, after the tokens that
/// follow its name.
#[macro_export]
macro_rules! for_each_parametric {
    ($m:ident $($first:tt)*) => { $crate::append_losses! { $m { $($first)*

/// `input + alpha * other`, elementwise.
add_alpha "add.alpha" AddAlpha(x, y) "(Tensor input, Tensor other, *, Scalar alpha)" -> promote {
    float |x, y; p| y.fma::<A>(p[0], x);
    int |x, y; p| x.wrapping_add(p[0].wrapping_mul(y));
    bool |x, y; p| x | (p[0] & y);
    complex |x, y; p| x + p[0] * y;
    gpu "x + p0 * y";
    grad [] |c| Ok(c.g().clone());
    grad [] |c| c.g().mul(c.p(0).conj());
    samples (-2.0, 2.0), (-2.0, 2.0);
}

/// `input - alpha * other`, elementwise. Two bool tensors have none.
sub_alpha "sub.alpha" SubAlpha(x, y) "(Tensor input, Tensor other, *, Scalar alpha)" -> number {
    float |x, y; p| y.fma::<A>(-p[0], x);
    int |x, y; p| x.wrapping_sub(p[0].wrapping_mul(y));
    complex |x, y; p| x - p[0] * y;
    gpu "x - p0 * y";
    grad [] |c| Ok(c.g().clone());
    grad [] |c| c.g().mul(c.p(0).conj())?.neg();
    samples (-2.0, 2.0), (-2.0, 2.0);
}

/// `other - alpha * input`, elementwise. Two bool tensors have none.
rsub "rsub" Rsub(x, y) "(Tensor input, Tensor other, Scalar alpha=1)" -> number {
    float |x, y; p| x.fma::<A>(-p[0], y);
    int |x, y; p| y.wrapping_sub(p[0].wrapping_mul(x));
    complex |x, y; p| y - p[0] * x;
    gpu "y - p0 * x";
    grad [] |c| c.g().mul(c.p(0).conj())?.neg();
    grad [] |c| Ok(c.g().clone());
    samples (-2.0, 2.0), (-2.0, 2.0);
}

/// `input + value * tensor1 * tensor2`, elementwise.
addcmul "addcmul" Addcmul(x, y, z) "(Tensor input, Tensor tensor1, Tensor tensor2, *, Scalar value=1)" -> promote {
    float |x, y, z; p| x + p[0] * y * z;
    int |x, y, z; p| x.wrapping_add(p[0].wrapping_mul(y).wrapping_mul(z));
    complex |x, y, z; p| x + p[0] * y * z;
    gpu "x + p0 * y * z";
    grad [] |c| Ok(c.g().clone());
    grad [z] |c| c.g().mul(c.z()?.mul(c.p(0))?.conj()?);
    grad [y] |c| c.g().mul(c.y()?.mul(c.p(0))?.conj()?);
    samples (-2.0, 2.0), (-2.0, 2.0), (-2.0, 2.0);
}

/// `input + value * tensor1 / tensor2`, elementwise. Integer tensors have none.
addcdiv "addcdiv" Addcdiv(x, y, z) "(Tensor input, Tensor tensor1, Tensor tensor2, *, Scalar value=1)" -> promote {
    float |x, y, z; p| x + p[0] * y / z;
    complex |x, y, z; p| x + (p[0] * y).divide(z);
    gpu "x + p0 * y / z";
    grad [] |c| Ok(c.g().clone());
    grad [z] |c| c.g().mul(c.z()?.reciprocal()?.mul(c.p(0))?.conj()?);
    grad [y z] |c| {
        let z = c.z()?;
        c.g().mul(c.y()?.mul(c.p(0))?.div(z.square()?)?.conj()?)?.neg()
    };
    samples (-2.0, 2.0), (-2.0, 2.0), (0.4, 2.0);
}

/// `input + weight * (end - input)`, elementwise, exact at both ends.
lerp_scalar "lerp.scalar" LerpScalar(x, y) "" -> promote {
    float |x, y; p| x.lerp::<A>(y, p[0]);
    complex |x, y; p| {
        if p[0].abs() < T::R::c(0.5) {
            x + p[0] * (y - x)
        } else {
            y - (y - x) * (T::c(1.0) - p[0])
        }
    };
    gpu "abs(p0) < 0.5 ? x + p0 * (y - x) : y - (y - x) * (1 - p0)";
    grad [] |c| {
        let w = c.p(0).conj();
        c.g().sub(c.g().mul(w)?)
    };
    grad [] |c| c.g().mul(c.p(0).conj());
    samples (-2.0, 2.0), (-2.0, 2.0);
}

/// `input + weight * (end - input)` with a tensor of weights, elementwise, exact at both ends.
lerp_tensor "lerp.tensor" LerpTensor(x, y, z) "" -> promote {
    float |x, y, z| x.lerp::<A>(y, z);
    complex |x, y, z| {
        if z.abs() < T::R::c(0.5) { x + z * (y - x) } else { y - (y - x) * (T::c(1.0) - z) }
    };
    gpu "abs(z) < 0.5 ? x + z * (y - x) : y - (y - x) * (1 - z)";
    grad [z] |c| c.g().mul(c.z()?.neg()?.add(1.0)?.conj()?);
    grad [z] |c| c.g().mul(c.z()?.conj()?);
    grad [x y] |c| c.g().mul(c.y()?.sub(c.x()?)?.conj()?);
    samples (-2.0, 2.0), (-2.0, 2.0), (0.1, 0.9);
}

/// Each element limited to [`min`, `max`]; nan stays, and a nan limit is the result. `max` wins
/// where the limits cross.
clamp_scalar "clamp.scalar" ClampScalar(x) "" -> promote {
    float |x; p| x.maximum(p[0]).minimum(p[1]);
    int |x; p| x.max(p[0]).min(p[1]);
    gpu "min(max(x, p0), p1)";
    grad [x] |c| {
        let x = c.x()?;
        c.g().where_zero(&x.ge(c.p(0))?.logical_and(x.le(c.p(1))?)?, false)
    };
    samples (-2.0, 2.0);
}

/// Each element, or `min` where that is larger; nan stays, and a nan limit is the result.
clamp_min_scalar "clamp_min.scalar" ClampMinScalar(x) "" -> promote {
    float |x; p| x.maximum(p[0]);
    int |x; p| x.max(p[0]);
    gpu "x < p0 ? p0 : x";
    grad [x] |c| c.g().where_zero(&c.x()?.ge(c.p(0))?, false);
    samples (-2.0, 2.0);
}

/// Each element, or `max` where that is smaller; nan stays, and a nan limit is the result.
clamp_max_scalar "clamp_max.scalar" ClampMaxScalar(x) "" -> promote {
    float |x; p| x.minimum(p[0]);
    int |x; p| x.min(p[0]);
    gpu "x > p0 ? p0 : x";
    grad [x] |c| c.g().where_zero(&c.x()?.le(c.p(0))?, false);
    samples (-2.0, 2.0);
}

/// Each element limited to what the tensors `min` and `max` hold, elementwise; nan where any is.
clamp_tensor "clamp.tensor" ClampTensor(x, y, z) "" -> promote {
    float |x, y, z| x.maximum(y).minimum(z);
    int |x, y, z| x.max(y).min(z);
    gpu "min(max(x, y), z)";
    grad [x y z] |c| {
        let x = c.x()?;
        c.g().where_zero(&x.ge(c.y()?)?.logical_and(x.le(c.z()?)?)?, false)
    };
    grad [x y z] |c| {
        let y = c.y()?;
        c.g().where_zero(&y.lt(c.z()?)?.logical_and(c.x()?.lt(&y)?)?, false)
    };
    grad [x y z] |c| {
        let z = c.z()?;
        c.g().where_zero(&c.x()?.gt(&z)?.logical_or(z.lt(c.y()?)?)?, false)
    };
    samples (-2.0, 2.0), (-1.5, -0.5), (0.5, 1.5);
}

/// The larger of `input` and the tensor `min`, elementwise; nan where either is.
clamp_min_tensor "clamp_min.tensor" ClampMinTensor(x, y) "" -> promote {
    float |x, y| x.maximum(y);
    int |x, y| x.max(y);
    bool |x, y| x | y;
    gpu "(x != x || x > y) ? x : y";
    grad [x y] |c| c.g().where_zero(&c.x()?.ge(c.y()?)?, false);
    grad [x y] |c| c.g().where_zero(&c.x()?.lt(c.y()?)?, false);
    samples (-2.0, 2.0), (-2.0, 2.0);
}

/// The smaller of `input` and the tensor `max`, elementwise; nan where either is.
clamp_max_tensor "clamp_max.tensor" ClampMaxTensor(x, y) "" -> promote {
    float |x, y| x.minimum(y);
    int |x, y| x.min(y);
    bool |x, y| x & y;
    gpu "(x != x || x < y) ? x : y";
    grad [x y] |c| c.g().where_zero(&c.x()?.le(c.y()?)?, false);
    grad [x y] |c| c.g().where_zero(&c.x()?.gt(c.y()?)?, false);
    samples (-2.0, 2.0), (-2.0, 2.0);
}

/// Each element with nan and the infinities replaced by the three numbers; integers as they are.
nan_to_num "nan_to_num" NanToNum(x) "" -> promote {
    float |x; p| {
        let r = if x.is_nan() { p[0] } else { x };
        let r = if x == T::INFINITY { p[1] } else { r };
        if x == -T::INFINITY { p[2] } else { r }
    };
    int |x; _p| x;
    bool |x; _p| x;
    complex |x; p| {
        let part = |v: T::R| {
            if v.is_nan() {
                p[0].re()
            } else if v == T::R::INFINITY {
                p[1].re()
            } else if v == -T::R::INFINITY {
                p[2].re()
            } else {
                v
            }
        };
        T::new(part(x.re()), part(x.im()))
    };
    gpu "x != x ? p0 : (isinf(x) ? (x > 0 ? p1 : p2) : x)";
    grad [x] |c| c.g().where_zero(&c.x()?.isfinite()?, false);
    samples (-2.0, 2.0);
}

/// `log(x / (1 - x))` of each element, limited to [`eps`, `1 - eps`] before where `eps` is not
/// negative.
logit "logit" Logit(x) "" -> float {
    float |x; p| {
        let high = T::ONE - p[0];
        let limited = if x < p[0] { p[0] } else { x };
        let limited = if x > high && x >= p[0] { high } else { limited };
        let z = if p[0] < T::ZERO { x } else { limited };
        (z / (T::ONE - z)).log::<A>()
    };
    gpu "p0 < 0 ? log(x / (1 - x)) : log(min(max(x, p0), 1 - p0) / (1 - min(max(x, p0), 1 - p0)))";
    grad [x] |c| {
        let x = c.x()?;
        let eps = c.p(0).to_f64();
        let g = c.g().div(x.neg()?.add(1.0)?.mul(&x)?)?;
        let inside = if eps < 0.0 {
            return Tensor::where_(&x.ge(0.0)?.logical_and(x.le(1.0)?)?, g, f64::NAN);
        } else {
            x.ge(eps)?.logical_and(x.le(1.0 - eps)?)?
        };
        g.where_zero(&inside, false)
    };
    samples (0.2, 0.8);
}

/// Each element rounded to `decimals` places, halves to even; negative counts round to tens,
/// hundreds and so on.
round_decimals "round.decimals" RoundDecimals(x) "(Tensor input, *, int decimals)" -> promote {
    float |x; p| x.round_decimals(p[0]);
    gpu "p0 < 0 ? rint(x / pow(10, -p0)) * pow(10, -p0) : rint(x * pow(10, p0)) / pow(10, p0)";
    grad [] |c| c.zeros(0);
    samples (0.1, 0.4);
}

/// Whether the operands differ by at most `atol + rtol * |other|`, elementwise. Integers and bools
/// are compared as real numbers, so convert them before.
isclose "isclose" Isclose(x, y) "" -> bool {
    float |x, y; p| {
        let apart = (x - y).abs();
        let allowed = p[1] + (p[0] * y).abs();
        let near = apart.is_finite() & (apart <= allowed);
        let both_nan = x.is_nan() & y.is_nan() & (p[2] != T::ZERO);
        (x == y) | near | both_nan
    };
    complex |x, y; p| {
        let apart = (x - y).abs();
        let allowed = p[1].re() + (p[0] * y).abs();
        let near = apart.is_finite() & (apart <= allowed);
        let both_nan = x.is_nan() & y.is_nan() & p[2].is_nonzero();
        (x == y) | near | both_nan
    };
    gpu "x == y || (isfinite(x - y) && abs(x - y) <= p1 + abs(p0 * y)) || (p2 != 0 && x != x && y != y)";
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
    gpu "x != x ? x : (x < 0 ? 3.141592653589793 : 0)";
    grad [x] |c| {
        let x = c.x()?;
        if !x.is_complex() {
            return c.zeros(0);
        }
        let turn = x.mul($crate::Scalar::Complex(0.0, 1.0))?.div(x.abs()?.square()?)?;
        c.g().mul(turn)?.where_zero(&x.eq(0.0)?, true)
    };
    samples (0.3, 2.0);
}

/// Each element where positive, times `negative_slope` elsewhere.
leaky_relu "nn.functional.leaky_relu" LeakyRelu(x) "(Tensor input, float negative_slope=0.01)" -> promote {
    float |x; p| {
        let low = x * p[0];
        if x > T::ZERO { x } else { low }
    };
    gpu "x > 0 ? x : p0 * x";
    grad [x] |c| Tensor::where_(&c.x()?.gt(0.0)?, c.g(), c.g().mul(c.p(0))?);
    samples (0.2, 2.0);
}

/// Each element where positive, times `weight` elsewhere.
prelu_kernel "prelu_kernel" PreluKernel(x, y) "" -> promote {
    float |x, y| {
        let low = x * y;
        if x > T::ZERO { x } else { low }
    };
    gpu "x > 0 ? x : y * x";
    grad [x y] |c| Tensor::where_(&c.x()?.gt(0.0)?, c.g(), c.g().mul(c.y()?)?);
    grad [x] |c| {
        let x = c.x()?;
        c.g().mul(&x)?.where_zero(&x.gt(0.0)?, true)
    };
    samples (-2.0, -0.2), (0.1, 0.9);
}

/// Each element where positive, `alpha * (exp(x) - 1)` elsewhere.
elu "nn.functional.elu" Elu(x) "(Tensor input, float alpha=1.0)" -> promote {
    float |x; p| {
        let low = x.expm1::<A>() * p[0];
        if x <= T::ZERO { low } else { x }
    };
    gpu "x <= 0 ? p0 * expm1(x) : x";
    grad [x] |c| {
        let x = c.x()?;
        let low = x.minimum(0.0)?.exp()?.mul(c.p(0))?;
        c.g().mul(Tensor::where_(&x.gt(0.0)?, 1.0, low)?)
    };
    samples (-2.0, -0.2);
}

/// Each element where positive, `alpha * (exp(x / alpha) - 1)` elsewhere.
celu "celu" Celu(x) "(Tensor input, float alpha=1.0)" -> promote {
    float |x; p| {
        let low = (x / p[0]).expm1::<A>() * p[0];
        if x <= T::ZERO { low } else { x }
    };
    gpu "x <= 0 ? p0 * expm1(x / p0) : x";
    grad [x] |c| {
        let x = c.x()?;
        let low = x.minimum(0.0)?.div(c.p(0))?.exp()?;
        c.g().mul(Tensor::where_(&x.gt(0.0)?, 1.0, low)?)
    };
    samples (-2.0, -0.2);
}

/// `log(1 + exp(beta * x)) / beta` of each element; itself where `beta * x` is above `threshold`.
softplus "nn.functional.softplus" Softplus(x) "(Tensor input, float beta=1, float threshold=20)" -> promote {
    float |x; p| {
        let z = x * p[0];
        let soft = z.exp::<A>().log1p::<A>() / p[0];
        if z > p[1] { x } else { soft }
    };
    gpu "x * p0 > p1 ? x : log1p(exp(x * p0)) / p0";
    grad [x] |c| {
        let z = c.x()?.mul(c.p(0))?;
        Tensor::where_(&z.gt(c.p(1))?, c.g(), c.g().mul(z.sigmoid()?)?)
    };
    samples (-2.0, 2.0);
}

/// Each element where above `threshold`, `value` elsewhere.
threshold "threshold" Threshold(x) "(Tensor input, float threshold, float value)" -> promote {
    float |x; p| if x <= p[0] { p[1] } else { x };
    int |x; p| if x <= p[0] { p[1] } else { x };
    gpu "x <= p0 ? p1 : x";
    grad [x] |c| c.g().where_zero(&c.x()?.le(c.p(0))?, true);
    samples (-2.0, 2.0);
}

/// Each element limited to [`min_val`, `max_val`].
hardtanh "nn.functional.hardtanh" Hardtanh(x) "(Tensor input, float min_val=-1.0, float max_val=1.0)" -> promote {
    float |x; p| x.maximum(p[0]).minimum(p[1]);
    int |x; p| x.max(p[0]).min(p[1]);
    gpu "min(max(x, p0), p1)";
    grad [x] |c| {
        let x = c.x()?;
        c.g().where_zero(&x.le(c.p(0))?.logical_or(x.ge(c.p(1))?)?, true)
    };
    samples (-0.9, 0.9);
}

/// 0 where an element is in [`-lambd`, `lambd`], itself elsewhere.
hardshrink "nn.functional.hardshrink" Hardshrink(x) "(Tensor input, float lambd=0.5)" -> promote {
    float |x; p| if (x >= -p[0]) & (x <= p[0]) { T::ZERO } else { x };
    gpu "(x >= -p0 && x <= p0) ? 0 : x";
    grad [x] |c| c.g().where_zero(&c.x()?.abs()?.le(c.p(0))?, true);
    samples (0.6, 2.0);
}

/// Each element moved towards 0 by `lambd`, and 0 in [`-lambd`, `lambd`].
softshrink "nn.functional.softshrink" Softshrink(x) "(Tensor input, float lambd=0.5)" -> promote {
    float |x; p| {
        let low = if x < -p[0] { x + p[0] } else { x * T::ZERO };
        if x > p[0] { x - p[0] } else { low }
    };
    gpu "x > p0 ? x - p0 : (x < -p0 ? x + p0 : x * 0)";
    grad [x] |c| c.g().where_zero(&c.x()?.abs()?.le(c.p(0))?, true);
    samples (0.6, 2.0);
}

/// `x` times the probability that a standard normal number is below it, of each element.
gelu_erf "gelu.none" GeluErf(x) "" -> promote {
    float |x| {
        x * T::c(0.5) * (T::ONE + x.erf_normal::<A>())
    };
    gpu "0.5 * x * (1 + erf(x * 0.7071067811865476))";
    grad [x] |c| c.g().gelu_erf_backward(c.x()?);
    samples (-2.0, 2.0);
}

/// `gelu` by the tanh formula, of each element.
gelu_tanh "gelu.tanh" GeluTanh(x) "" -> promote {
    float |x| {
        let inner = T::c(0.7978845608028654) * (x + T::c(0.044715) * (x * x * x));
        T::c(0.5) * x * (T::ONE + inner.tanh::<A>())
    };
    gpu "0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))";
    grad [x] |c| c.g().gelu_tanh_backward(c.x()?);
    samples (-2.0, 2.0);
}

    } } };
}
