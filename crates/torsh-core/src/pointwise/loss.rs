//! Elementwise losses, before any reduction: the second part of the parametric rows.

/// Hands the tokens in braces and then the rows of the losses to the macro `$m`.
#[doc(hidden)]
#[macro_export]
macro_rules! append_losses {
    ($m:ident { $($first:tt)* }) => { $m! { $($first)*

/// Squared difference of `input` and `target`, elementwise.
mse_elementwise "mse_loss.none" MseElementwise(x, y) "" -> promote {
    float |x, y| (x - y) * (x - y);
    grad [x y] |c| c.g().mul(c.x()?.sub(c.y()?)?.mul(2.0)?);
    grad [x y] |c| c.g().mul(c.x()?.sub(c.y()?)?.mul(-2.0)?);
    define |c| { let d = c.x()?.sub(c.y()?)?; d.mul(&d) };
    samples (-2.0, 2.0), (-2.0, 2.0);
}

/// Half the squared difference over `beta` where the difference is below `beta`, and
/// `|x - y| - beta / 2` elsewhere.
smooth_l1_elementwise "smooth_l1_loss.none" SmoothL1Elementwise(x, y; beta) "" -> promote {
    float |x, y; beta| {
        let d = (x - y).abs();
        let inner = T::c(0.5) * d * d / beta;
        let outer = d - T::c(0.5) * beta;
        if d < beta { inner } else { outer }
    };
    grad [x y] |c| {
        let slope = c.x()?.sub(c.y()?)?.div(c.number("beta")?)?.maximum(-1.0)?.minimum(1.0)?;
        c.g().mul(slope)
    };
    grad [x y] |c| {
        let slope = c.y()?.sub(c.x()?)?.div(c.number("beta")?)?.maximum(-1.0)?.minimum(1.0)?;
        c.g().mul(slope)
    };
    define |c| {
        let beta = c.number("beta")?;
        let d = c.x()?.sub(c.y()?)?.abs()?;
        Tensor::where_(&d.lt(beta)?, d.square()?.mul(0.5)?.div(beta)?, d.sub(0.5 * beta.to_f64())?)
    };
    samples (-2.0, -1.0), (1.0, 2.0);
}

/// Half the squared difference where it is at most `delta` apart, and
/// `delta * (|x - y| - delta / 2)` elsewhere.
huber_elementwise "huber_loss.none" HuberElementwise(x, y; delta) "" -> promote {
    float |x, y; delta| {
        let d = (x - y).abs();
        let inner = T::c(0.5) * d * d;
        let outer = delta * (d - T::c(0.5) * delta);
        if d <= delta { inner } else { outer }
    };
    grad [x y] |c| {
        let delta = c.number("delta")?.to_f64();
        c.g().mul(c.x()?.sub(c.y()?)?.maximum(-delta)?.minimum(delta)?)
    };
    grad [x y] |c| {
        let delta = c.number("delta")?.to_f64();
        c.g().mul(c.y()?.sub(c.x()?)?.maximum(-delta)?.minimum(delta)?)
    };
    define |c| {
        let delta = c.number("delta")?;
        let d = c.x()?.sub(c.y()?)?.abs()?;
        let outer = d.sub(0.5 * delta.to_f64())?.mul(delta)?;
        Tensor::where_(&d.le(delta)?, d.square()?.mul(0.5)?, outer)
    };
    samples (-2.0, -1.0), (1.0, 2.0);
}

/// Cross entropy of probabilities: `-(y log(x) + (1 - y) log(1 - x))`, elementwise, with
/// logarithms not below -100.
bce_elementwise "binary_cross_entropy.none" BceElementwise(x, y) "" -> promote {
    float |x, y| {
        let low = (-x).log1p::<A>().maximum(T::c(-100.0));
        let high = x.log::<A>().maximum(T::c(-100.0));
        (y - T::ONE) * low - y * high
    };
    grad [x y] |c| {
        let x = c.x()?;
        let variance = x.neg()?.add(1.0)?.mul(&x)?.maximum(1e-12)?;
        c.g().mul(x.sub(c.y()?)?)?.div(variance)
    };
    grad [x] |c| {
        // The logarithms without the limit, as PyTorch's.
        let x = c.x()?;
        c.g().mul(x.neg()?.log1p()?.sub(x.log()?)?)
    };
    define |c| {
        let (x, y) = (c.x()?, c.y()?);
        let low = x.neg()?.log1p()?.maximum(-100.0)?;
        let high = x.log()?.maximum(-100.0)?;
        y.sub(1.0)?.mul(low)?.sub(y.mul(high)?)
    };
    samples (0.2, 0.8), (0.2, 0.8);
}

/// Cross entropy of the sigmoid of `input`, elementwise: `(1 - y) x - log(sigmoid(x))`.
bce_logits_elementwise "binary_cross_entropy_with_logits.none" BceLogitsElementwise(x, y) "" -> promote {
    float |x, y| (T::ONE - y) * x - x.logsigmoid::<A>();
    grad [x y] |c| c.g().mul(c.x()?.sigmoid()?.sub(c.y()?)?);
    grad [x] |c| c.g().mul(c.x()?.neg()?);
    define |c| {
        let (x, y) = (c.x()?, c.y()?);
        y.neg()?.add(1.0)?.mul(&x)?.sub(x.logsigmoid()?)
    };
    samples (-2.0, 2.0), (0.2, 0.8);
}

/// Cross entropy of the sigmoid of `input` with the positive class weighted, elementwise:
/// `(1 - y) x - (1 + (w - 1) y) log(sigmoid(x))`.
bce_logits_weighted_elementwise "binary_cross_entropy_with_logits.pos_weight" BceLogitsWeightedElementwise(x, y, z) "" -> promote {
    float |x, y, z| (T::ONE - y) * x - (T::ONE + (z - T::ONE) * y) * x.logsigmoid::<A>();
    grad [x y z] |c| {
        // (1 + w y - y) sigmoid(x) - w y
        let y = c.y()?;
        let high = c.z()?.mul(&y)?;
        let all = high.sub(y)?.add(1.0)?.mul(c.x()?.sigmoid()?)?;
        c.g().mul(all.sub(high)?)
    };
    grad [x z] |c| {
        let x = c.x()?;
        let high = x.logsigmoid()?.mul(c.z()?)?;
        c.g().mul(x.neg()?.logsigmoid()?.sub(high)?)
    };
    grad [x y] |c| c.g().mul(c.y()?)?.mul(c.x()?.logsigmoid()?)?.neg();
    define |c| {
        let (x, y) = (c.x()?, c.y()?);
        let times = c.z()?.sub(1.0)?.mul(&y)?.add(1.0)?;
        y.neg()?.add(1.0)?.mul(&x)?.sub(times.mul(x.logsigmoid()?)?)
    };
    samples (-2.0, 2.0), (0.2, 0.8), (0.5, 2.0);
}

/// Divergence of log-probabilities from probabilities: `y log(y) - y x`, elementwise; 0 where `y`
/// is 0.
kl_div_elementwise "kl_div.none" KlDivElementwise(x, y) "" -> float {
    float |x, y| y.xlogy::<A>(y) - y * x;
    grad [y] |c| c.g().mul(c.y()?)?.neg();
    grad [x y] |c| c.g().mul(c.y()?.log()?.add(1.0)?.sub(c.x()?)?);
    define |c| { let y = c.y()?; y.xlogy(&y)?.sub(y.mul(c.x()?)?) };
    samples (-2.0, -0.2), (0.2, 0.8);
}

/// Divergence of log-probabilities from log-probabilities: `exp(y) (y - x)`, elementwise.
kl_div_log_elementwise "kl_div.log_target" KlDivLogElementwise(x, y) "" -> float {
    float |x, y| y.exp::<A>() * (y - x);
    grad [y] |c| c.g().mul(c.y()?.exp()?)?.neg();
    grad [x y] |c| {
        let y = c.y()?;
        c.g().mul(y.exp()?)?.mul(y.sub(c.x()?)?.add(1.0)?)
    };
    define |c| { let y = c.y()?; y.exp()?.mul(y.sub(c.x()?)?) };
    samples (-2.0, -0.2), (-2.0, -0.2);
}

/// Negative log-likelihood of counts under Poisson distributions of a given logarithm of the
/// rate, without the term of the counts alone: `exp(x) - y x`, elementwise.
poisson_log_elementwise "poisson_nll_loss.log" PoissonLogElementwise(x, y) "" -> float {
    float |x, y| x.exp::<A>() - y * x;
    grad [x y] |c| c.g().mul(c.x()?.exp()?.sub(c.y()?)?);
    grad [x] |c| c.g().mul(c.x()?)?.neg();
    define |c| { let x = c.x()?; x.exp()?.sub(c.y()?.mul(&x)?) };
    samples (-2.0, 2.0), (0.2, 3.0);
}

/// Negative log-likelihood of counts under Poisson distributions of a given rate, without the
/// term of the counts alone: `x - y log(x + eps)`, elementwise.
poisson_elementwise "poisson_nll_loss.rate" PoissonElementwise(x, y; eps) "" -> float {
    float |x, y; eps| x - y * (x + eps).log::<A>();
    grad [x y] |c| {
        let slope = c.y()?.div(c.x()?.add(c.number("eps")?)?)?.neg()?.add(1.0)?;
        c.g().mul(slope)
    };
    grad [x] |c| c.g().mul(c.x()?.add(c.number("eps")?)?.log()?)?.neg();
    define |c| { let x = c.x()?; x.sub(c.y()?.mul(x.add(c.number("eps")?)?.log()?)?) };
    samples (0.2, 2.0), (0.2, 3.0);
}

/// Stirling's approximation of the logarithm of the factorial: `x log(x) - x + log(2 pi x) / 2`
/// where `x` is above 1, 0 elsewhere.
stirling_elementwise "stirling" StirlingElementwise(x) "" -> float {
    float |x| {
        let log = x.log::<A>();
        let term = x * log - x + T::c(0.5) * (log + T::c(1.8378770664093453));
        if x <= T::ONE { T::ZERO } else { term }
    };
    grad [x] |c| {
        let x = c.x()?;
        let slope = x.log()?.add(x.reciprocal()?.mul(0.5)?)?;
        c.g().mul(slope.where_zero(&x.le(1.0)?, true)?)
    };
    define |c| {
        let x = c.x()?;
        let log = x.log()?;
        let half = log.add(1.8378770664093453)?.mul(0.5)?;
        x.mul(log)?.sub(&x)?.add(half)?.where_zero(&x.le(1.0)?, true)
    };
    samples (1.2, 4.0);
}

/// Negative log-likelihood under normal distributions of mean `input` and variance `var` (not
/// below `eps`), without the constant: `(log(var) + (input - target)^2 / var) / 2`, elementwise.
/// The gradient passes the lower limit of the variance as if it were not there.
gaussian_elementwise "gaussian_nll_loss.none" GaussianElementwise(x, y, z; eps) "" -> float {
    float |x, y, z; eps| {
        let v = z.maximum(eps);
        let d = x - y;
        T::c(0.5) * (v.log::<A>() + d * d / v)
    };
    grad [x y z] |c| c.g().mul(c.x()?.sub(c.y()?)?.div(c.z()?.maximum(c.number("eps")?)?)?);
    grad [x y z] |c| c.g().mul(c.y()?.sub(c.x()?)?.div(c.z()?.maximum(c.number("eps")?)?)?);
    grad [x y z] |c| {
        let v = c.z()?.maximum(c.number("eps")?)?;
        let d = c.x()?.sub(c.y()?)?.square()?;
        // (1 - d / v) / (2 v), which is 0 for an infinite variance.
        c.g().mul(d.div(&v)?.neg()?.add(1.0)?.div(v.mul(2.0)?)?)
    };
    define |c| {
        let v = c.z()?.maximum(c.number("eps")?)?;
        c.x()?.sub(c.y()?)?.square()?.div(&v)?.add(v.log()?)?.mul(0.5)
    };
    samples (-2.0, 2.0), (-2.0, 2.0), (0.5, 2.0);
}

/// `x` where the label `y` is not -1, plus `max(0, margin - x)` where it is not 1, elementwise.
hinge_elementwise "hinge_embedding_loss.none" HingeElementwise(x, y; margin) "" -> float {
    float |x, y; margin| {
        let near = if y == -T::ONE { T::ZERO } else { x };
        let far = (margin - x).maximum(T::ZERO);
        near + (if y == T::ONE { T::ZERO } else { far })
    };
    grad [x y] |c| {
        let (x, y) = (c.x()?, c.y()?);
        let far = y.ne(1.0)?.logical_and(x.lt(c.number("margin")?)?)?;
        c.g().where_zero(&y.ne(-1.0)?, false)?.sub(c.g().where_zero(&far, false)?)
    };
    grad [] |c| c.zeros(1);
    define |c| {
        let (x, y) = (c.x()?, c.y()?);
        let far = x.neg()?.add(c.number("margin")?)?.maximum(0.0)?;
        x.where_zero(&y.eq(-1.0)?, true)?.add(far.where_zero(&y.eq(1.0)?, true)?)
    };
    samples (0.4, 2.0), (-0.9, 0.9);
}

/// Logistic loss of labels 1 and -1: `log(1 + exp(-y x))`, elementwise.
soft_margin_elementwise "soft_margin_loss.none" SoftMarginElementwise(x, y) "" -> promote {
    float |x, y| (-y * x).exp::<A>().log1p::<A>();
    grad [x y] |c| {
        let y = c.y()?;
        c.g().mul(c.x()?.mul(&y)?.neg()?.sigmoid()?.mul(&y)?)?.neg()
    };
    grad [x y] |c| {
        let x = c.x()?;
        c.g().mul(c.y()?.mul(&x)?.neg()?.sigmoid()?.mul(&x)?)?.neg()
    };
    define |c| c.y()?.mul(c.x()?)?.neg()?.exp()?.log1p();
    samples (-2.0, 2.0), (-1.0, 1.0);
}

/// `max(0, margin - z (x - y))`, elementwise: what `x` misses of being ranked `margin` above `y`
/// where `z` is 1, and below it where `z` is -1.
margin_ranking_elementwise "margin_ranking_loss.none" MarginRankingElementwise(x, y, z; margin) "" -> promote {
    float |x, y, z; margin| (margin - z * (x - y)).maximum(T::ZERO);
    grad [x y z] |c| {
        let z = c.z()?;
        let missed = z.mul(c.x()?.sub(c.y()?)?)?.lt(c.number("margin")?)?;
        c.g().mul(&z)?.neg()?.where_zero(&missed, false)
    };
    grad [x y z] |c| {
        let z = c.z()?;
        let missed = z.mul(c.x()?.sub(c.y()?)?)?.lt(c.number("margin")?)?;
        c.g().mul(&z)?.where_zero(&missed, false)
    };
    grad [x y z] |c| {
        let apart = c.x()?.sub(c.y()?)?;
        let missed = c.z()?.mul(&apart)?.lt(c.number("margin")?)?;
        c.g().mul(&apart)?.neg()?.where_zero(&missed, false)
    };
    define |c| c.z()?.mul(c.x()?.sub(c.y()?)?)?.neg()?.add(c.number("margin")?)?.maximum(0.0);
    samples (-2.0, -1.0), (1.0, 2.0), (0.2, 1.0);
}

    } };
}
