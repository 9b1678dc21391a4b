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

    } };
}
