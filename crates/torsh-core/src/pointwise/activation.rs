//! Activation functions of one tensor without further arguments: the second part of the unary rows.

/// Hands the tokens in braces and then the rows of the activations to the macro `$m`.
#[doc(hidden)]
#[macro_export]
macro_rules! append_activations {
    ($m:ident { $($first:tt)* }) => { $m! { $($first)*

/// 0 where an element is negative, itself elsewhere.
relu "relu" Relu(x) "(Tensor input)" -> promote {
    float |x| if x < T::ZERO { T::ZERO } else { x };
    int |x| x.max(T::ZERO);
    grad [out] |c| c.g().relu_backward(c.out()?);
    zero any;
    samples (0.2, 2.0);
    example [-1.0, 2.0] => [0.0, 2.0];
}

/// Each element limited to [0, 6].
relu6 "nn.functional.relu6" Relu6(x) "(Tensor input)" -> promote {
    float |x| x.maximum(T::ZERO).minimum(T::c(6.0));
    int |x| x.max(T::ZERO).min(T::c(6));
    grad [x] |c| {
        let x = c.x()?;
        c.g().where_zero(&x.le(0.0)?.logical_or(x.ge(6.0)?)?, true)
    };
    define |c| c.x()?.clamp(0.0, 6.0);
    zero any;
    samples (0.2, 5.8);
    example [-1.0, 2.0, 8.0] => [0.0, 2.0, 6.0];
}

/// `x * sigmoid(x)` of each element, also called swish.
silu "nn.functional.silu" Silu(x) "(Tensor input)" -> promote {
    float |x| x * x.sigmoid::<A>();
    complex |x| x.divide(T::c(1.0) + (-x).exp());
    grad [x] |c| c.g().silu_backward(c.x()?);
    define |c| { let x = c.x()?; x.mul(x.sigmoid()?) };
    zero any;
    samples (-3.0, 3.0);
    example [0.0, 1.0] ~ [0.0, 0.731059];
}

/// Scaled exponential linear unit of each element.
selu "selu" Selu(x) "(Tensor input)" -> promote {
    float |x| {
        let low = x.expm1::<A>() * T::c(1.7580993408473766);
        let high = x * T::c(1.0507009873554805);
        if x <= T::ZERO { low } else { high }
    };
    grad [x] |c| {
        let x = c.x()?;
        let low = x.minimum(0.0)?.exp()?.mul(1.7580993408473766)?;
        c.g().mul(Tensor::where_(&x.le(0.0)?, low, 1.0507009873554805)?)
    };
    define |c| {
        let x = c.x()?;
        let low = x.expm1()?.mul(1.6732632423543772)?;
        Tensor::where_(&x.gt(0)?, &x, low)?.mul(1.0507009873554805)
    };
    zero any;
    samples (0.2, 3.0);
    example [-1.0, 1.0] ~ [-1.111331, 1.050701];
}

/// `x * min(max(x + 3, 0), 6) / 6` of each element.
hardswish "nn.functional.hardswish" Hardswish(x) "(Tensor input)" -> promote {
    float |x| x * (x + T::c(3.0)).maximum(T::ZERO).minimum(T::c(6.0)) / T::c(6.0);
    grad [x] |c| {
        let x = c.x()?;
        let middle = c.g().mul(x.div(3.0)?.add(0.5)?)?;
        Tensor::where_(&x.lt(3.0)?, middle, c.g())?.where_zero(&x.le(-3.0)?, true)
    };
    define |c| { let x = c.x()?; x.mul(x.add(3.0)?.clamp(0.0, 6.0)?.div(6.0)?) };
    zero any;
    samples (-2.8, 2.8);
    example [-4.0, 1.0, 4.0] ~ [0.0, 0.666667, 4.0];
}

/// `min(max(x + 3, 0), 6) / 6` of each element.
hardsigmoid "nn.functional.hardsigmoid" Hardsigmoid(x) "(Tensor input)" -> promote {
    float |x| (x + T::c(3.0)).maximum(T::ZERO).minimum(T::c(6.0)) / T::c(6.0);
    grad [x] |c| {
        let x = c.x()?;
        c.g().div(6.0)?.where_zero(&x.gt(-3.0)?.logical_and(x.lt(3.0)?)?, false)
    };
    define |c| c.x()?.add(3.0)?.clamp(0.0, 6.0)?.div(6.0);
    samples (-2.8, 2.8);
    example [-4.0, 0.0, 4.0] => [0.0, 0.5, 1.0];
}

/// `x * tanh(log(1 + exp(x)))` of each element.
mish "nn.functional.mish" Mish(x) "(Tensor input)" -> promote {
    float |x| {
        // tanh(log(1 + e)) is a ratio of polynomials in e; above 20 it is 1.
        let e = x.minimum(T::c(20.0)).exp::<A>();
        let w = e * (e + T::c(2.0));
        x * (w / (w + T::c(2.0)))
    };
    grad [x] |c| {
        let x = c.x()?;
        let s = x.sigmoid()?;
        let t = x.neg()?.logsigmoid()?.neg()?.tanh()?;
        c.g().mul(x.mul(s)?.mul(t.square()?.neg()?.add(1.0)?)?.add(&t)?)
    };
    define |c| { let x = c.x()?; x.mul(x.softplus()?.tanh()?) };
    zero any;
    samples (-3.0, 3.0);
    example [0.0, 1.0] ~ [0.0, 0.865098];
}

/// `x / (1 + |x|)` of each element.
softsign "nn.functional.softsign" Softsign(x) "(Tensor input)" -> float {
    float |x| x / (x.abs() + T::ONE);
    complex |x| x.divide(T::new(x.abs() + T::R::ONE, T::R::ZERO));
    grad [x] |c| {
        let x = c.x()?;
        let d = x.abs()?.add(1.0)?;
        if !x.is_complex() {
            return c.g().div(d.square()?);
        }
        // The magnitude below the line is a function of both parts.
        let radial = c.g().mul(x.conj()?)?.real()?.div(d.square()?)?;
        c.g().div(d)?.sub(x.sgn()?.mul(radial)?)
    };
    define |c| { let x = c.x()?; x.div(x.abs()?.add(1.0)?) };
    zero any;
    samples (0.3, 3.0);
    example [1.0, -3.0] => [0.5, -0.75];
}

/// Logarithm of the sigmoid of each element, exact in both tails.
logsigmoid "nn.functional.logsigmoid" Logsigmoid(x) "(Tensor input)" -> promote {
    float |x| x.logsigmoid::<A>();
    grad [x] |c| c.g().mul(c.x()?.neg()?.sigmoid()?);
    define |c| { let x = c.x()?; x.minimum(0.0)?.sub(x.abs()?.neg()?.exp()?.log1p()?) };
    samples (-3.0, 3.0);
    example [0.0, 2.0] ~ [-0.693147, -0.126928];
}

    } };
}
