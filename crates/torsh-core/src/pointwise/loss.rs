//! Losses of each element, before any reduction: the second part of the parametric rows.

/// Hands the tokens in braces and then the rows of the losses to the macro `$m`.
#[doc(hidden)]
#[macro_export]
macro_rules! append_losses {
    ($m:ident { $($first:tt)* }) => { $m! { $($first)*

/// Squared difference of `input` and `target`, elementwise.
mse_elementwise "mse_loss.none" MseElementwise(x, y) "" -> promote {
    float |x, y| (x - y) * (x - y);
    gpu "(x - y) * (x - y)";
    grad [x y] |c| c.g().mul(c.x()?.sub(c.y()?)?.mul(2.0)?);
    grad [x y] |c| c.g().mul(c.x()?.sub(c.y()?)?.mul(-2.0)?);
    samples (-2.0, 2.0), (-2.0, 2.0);
}

/// Half the squared difference over `beta` where the difference is below `beta`, and
/// `|x - y| - beta / 2` elsewhere.
smooth_l1_elementwise "smooth_l1_loss.none" SmoothL1Elementwise(x, y) "" -> promote {
    float |x, y; p| {
        let d = (x - y).abs();
        let inner = T::c(0.5) * d * d / p[0];
        let outer = d - T::c(0.5) * p[0];
        if d < p[0] { inner } else { outer }
    };
    gpu "abs(x - y) < p0 ? 0.5 * (x - y) * (x - y) / p0 : abs(x - y) - 0.5 * p0";
    grad [x y] |c| {
        let slope = c.x()?.sub(c.y()?)?.div(c.p(0))?.maximum(-1.0)?.minimum(1.0)?;
        c.g().mul(slope)
    };
    grad [x y] |c| {
        let slope = c.y()?.sub(c.x()?)?.div(c.p(0))?.maximum(-1.0)?.minimum(1.0)?;
        c.g().mul(slope)
    };
    samples (-2.0, -1.0), (1.0, 2.0);
}

/// Half the squared difference where it is at most `delta` apart, and
/// `delta * (|x - y| - delta / 2)` elsewhere.
huber_elementwise "huber_loss.none" HuberElementwise(x, y) "" -> promote {
    float |x, y; p| {
        let d = (x - y).abs();
        let inner = T::c(0.5) * d * d;
        let outer = p[0] * (d - T::c(0.5) * p[0]);
        if d <= p[0] { inner } else { outer }
    };
    gpu "abs(x - y) <= p0 ? 0.5 * (x - y) * (x - y) : p0 * (abs(x - y) - 0.5 * p0)";
    grad [x y] |c| {
        let delta = c.p(0).to_f64();
        c.g().mul(c.x()?.sub(c.y()?)?.maximum(-delta)?.minimum(delta)?)
    };
    grad [x y] |c| {
        let delta = c.p(0).to_f64();
        c.g().mul(c.y()?.sub(c.x()?)?.maximum(-delta)?.minimum(delta)?)
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
    gpu "(y - 1) * max(log1p(-x), -100) - y * max(log(x), -100)";
    grad [x y] |c| {
        let x = c.x()?;
        let variance = x.neg()?.add(1.0)?.mul(&x)?.maximum(1e-12)?;
        c.g().mul(x.sub(c.y()?)?)?.div(variance)
    };
    grad [x] |c| {
        let x = c.x()?;
        let low = x.neg()?.log1p()?.maximum(-100.0)?;
        c.g().mul(low.sub(x.log()?.maximum(-100.0)?)?)
    };
    samples (0.2, 0.8), (0.2, 0.8);
}

/// Cross entropy of the sigmoid of `input`, elementwise: `(1 - y) x - log(sigmoid(x))`.
bce_logits_elementwise "binary_cross_entropy_with_logits.none" BceLogitsElementwise(x, y) "" -> promote {
    float |x, y| (T::ONE - y) * x - x.logsigmoid::<A>();
    gpu "(1 - y) * x - min(x, 0) + log1p(exp(-abs(x)))";
    grad [x y] |c| c.g().mul(c.x()?.sigmoid()?.sub(c.y()?)?);
    grad [x] |c| c.g().mul(c.x()?.neg()?);
    samples (-2.0, 2.0), (0.2, 0.8);
}

/// Cross entropy of the sigmoid of `input` with the positive class weighted, elementwise:
/// `(1 - y) x - (1 + (w - 1) y) log(sigmoid(x))`.
bce_logits_weighted_elementwise "binary_cross_entropy_with_logits.pos_weight" BceLogitsWeightedElementwise(x, y, z) "" -> promote {
    float |x, y, z| (T::ONE - y) * x - (T::ONE + (z - T::ONE) * y) * x.logsigmoid::<A>();
    gpu "(1 - y) * x - (1 + (z - 1) * y) * (min(x, 0) - log1p(exp(-abs(x))))";
    grad [x y z] |c| {
        // (1 - y) - (1 + (w - 1) y) sigmoid(-x)
        let (y, below) = (c.y()?, c.x()?.neg()?.sigmoid()?);
        let times = c.z()?.sub(1.0)?.mul(&y)?.add(1.0)?;
        c.g().mul(y.neg()?.add(1.0)?.sub(times.mul(below)?)?)
    };
    grad [x z] |c| {
        let x = c.x()?;
        c.g().mul(x.add(c.z()?.sub(1.0)?.mul(x.logsigmoid()?)?)?)?.neg()
    };
    grad [x y] |c| c.g().mul(c.y()?)?.mul(c.x()?.logsigmoid()?)?.neg();
    samples (-2.0, 2.0), (0.2, 0.8), (0.5, 2.0);
}

/// Divergence of log-probabilities from probabilities: `y log(y) - y x`, elementwise; 0 where `y`
/// is 0.
kl_div_elementwise "kl_div.none" KlDivElementwise(x, y) "" -> float {
    float |x, y| y.xlogy::<A>(y) - y * x;
    gpu "(y == 0 ? 0 : y * log(y)) - y * x";
    grad [y] |c| c.g().mul(c.y()?)?.neg();
    grad [x y] |c| c.g().mul(c.y()?.log()?.add(1.0)?.sub(c.x()?)?);
    samples (-2.0, -0.2), (0.2, 0.8);
}

/// Divergence of log-probabilities from log-probabilities: `exp(y) (y - x)`, elementwise.
kl_div_log_elementwise "kl_div.log_target" KlDivLogElementwise(x, y) "" -> float {
    float |x, y| y.exp::<A>() * (y - x);
    gpu "exp(y) * (y - x)";
    grad [y] |c| c.g().mul(c.y()?.exp()?)?.neg();
    grad [x y] |c| {
        let y = c.y()?;
        c.g().mul(y.exp()?)?.mul(y.sub(c.x()?)?.add(1.0)?)
    };
    samples (-2.0, -0.2), (-2.0, -0.2);
}

/// Negative log-likelihood of counts under Poisson distributions of a given logarithm of the
/// rate, without the term of the counts alone: `exp(x) - y x`, elementwise.
poisson_log_elementwise "poisson_nll_loss.log" PoissonLogElementwise(x, y) "" -> float {
    float |x, y| x.exp::<A>() - y * x;
    gpu "exp(x) - y * x";
    grad [x y] |c| c.g().mul(c.x()?.exp()?.sub(c.y()?)?);
    grad [x] |c| c.g().mul(c.x()?)?.neg();
    samples (-2.0, 2.0), (0.2, 3.0);
}

/// Negative log-likelihood of counts under Poisson distributions of a given rate, without the
/// term of the counts alone: `x - y log(x + eps)`, elementwise.
poisson_elementwise "poisson_nll_loss.rate" PoissonElementwise(x, y) "" -> float {
    float |x, y; p| x - y * (x + p[0]).log::<A>();
    gpu "x - y * log(x + p0)";
    grad [x y] |c| {
        let slope = c.y()?.div(c.x()?.add(c.p(0))?)?.neg()?.add(1.0)?;
        c.g().mul(slope)
    };
    grad [x] |c| c.g().mul(c.x()?.add(c.p(0))?.log()?)?.neg();
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
    gpu "x <= 1 ? 0 : x * log(x) - x + 0.5 * log(6.283185307179586 * x)";
    grad [x] |c| {
        let x = c.x()?;
        let slope = x.log()?.add(x.reciprocal()?.mul(0.5)?)?;
        c.g().mul(slope.where_zero(&x.le(1.0)?, true)?)
    };
    samples (1.2, 4.0);
}

/// Negative log-likelihood under normal distributions of mean `input` and variance `var` (not
/// below `eps`), without the constant: `(log(var) + (input - target)^2 / var) / 2`, elementwise.
/// The gradient passes the lower limit of the variance as if it were not there.
gaussian_elementwise "gaussian_nll_loss.none" GaussianElementwise(x, y, z) "" -> float {
    float |x, y, z; p| {
        let v = z.maximum(p[0]);
        let d = x - y;
        T::c(0.5) * (v.log::<A>() + d * d / v)
    };
    gpu "0.5 * (log(max(z, p0)) + (x - y) * (x - y) / max(z, p0))";
    grad [x y z] |c| c.g().mul(c.x()?.sub(c.y()?)?.div(c.z()?.maximum(c.p(0))?)?);
    grad [x y z] |c| c.g().mul(c.y()?.sub(c.x()?)?.div(c.z()?.maximum(c.p(0))?)?);
    grad [x y z] |c| {
        let v = c.z()?.maximum(c.p(0))?;
        let d = c.x()?.sub(c.y()?)?.square()?;
        c.g().mul(v.sub(d)?.div(v.square()?.mul(2.0)?)?)
    };
    samples (-2.0, 2.0), (-2.0, 2.0), (0.5, 2.0);
}

/// `x` where the label `y` is not -1, plus `max(0, margin - x)` where it is not 1, elementwise.
hinge_elementwise "hinge_embedding_loss.none" HingeElementwise(x, y) "" -> float {
    float |x, y; p| {
        let near = if y == -T::ONE { T::ZERO } else { x };
        let far = (p[0] - x).maximum(T::ZERO);
        near + (if y == T::ONE { T::ZERO } else { far })
    };
    gpu "(y == -1 ? 0 : x) + (y == 1 ? 0 : max(p0 - x, 0))";
    grad [x y] |c| {
        let (x, y) = (c.x()?, c.y()?);
        let far = y.ne(1.0)?.logical_and(x.le(c.p(0))?)?;
        c.g().where_zero(&y.ne(-1.0)?, false)?.sub(c.g().where_zero(&far, false)?)
    };
    grad [] |c| c.zeros(1);
    samples (0.4, 2.0), (-0.9, 0.9);
}

/// Logistic loss of labels 1 and -1: `log(1 + exp(-y x))`, elementwise.
soft_margin_elementwise "soft_margin_loss.none" SoftMarginElementwise(x, y) "" -> promote {
    float |x, y| (-y * x).exp::<A>().log1p::<A>();
    gpu "log1p(exp(-y * x))";
    grad [x y] |c| {
        let y = c.y()?;
        c.g().mul(c.x()?.mul(&y)?.neg()?.sigmoid()?.mul(&y)?)?.neg()
    };
    grad [x y] |c| {
        let x = c.x()?;
        c.g().mul(c.y()?.mul(&x)?.neg()?.sigmoid()?.mul(&x)?)?.neg()
    };
    samples (-2.0, 2.0), (-1.0, 1.0);
}

/// `max(0, margin - z (x - y))`, elementwise: what `x` misses of being ranked `margin` above `y`
/// where `z` is 1, and below it where `z` is -1.
margin_ranking_elementwise "margin_ranking_loss.none" MarginRankingElementwise(x, y, z) "" -> promote {
    float |x, y, z; p| (p[0] - z * (x - y)).maximum(T::ZERO);
    gpu "max(p0 - z * (x - y), 0)";
    grad [x y z] |c| {
        let z = c.z()?;
        let missed = z.mul(c.x()?.sub(c.y()?)?)?.le(c.p(0))?;
        c.g().mul(&z)?.neg()?.where_zero(&missed, false)
    };
    grad [x y z] |c| {
        let z = c.z()?;
        let missed = z.mul(c.x()?.sub(c.y()?)?)?.le(c.p(0))?;
        c.g().mul(&z)?.where_zero(&missed, false)
    };
    grad [x y z] |c| {
        let apart = c.x()?.sub(c.y()?)?;
        let missed = c.z()?.mul(&apart)?.le(c.p(0))?;
        c.g().mul(&apart)?.neg()?.where_zero(&missed, false)
    };
    samples (-2.0, -1.0), (1.0, 2.0), (0.2, 1.0);
}

    } };
}
