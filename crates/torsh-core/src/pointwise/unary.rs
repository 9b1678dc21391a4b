//! Ops of one tensor and no further arguments; their methods are made from the rows.

/// Hands the rows of all unary ops to the macro `$m`, after the tokens that follow its name.
#[macro_export]
macro_rules! for_each_unary {
    ($m:ident $($first:tt)*) => { $m! { $($first)*

/// Negation of each element.
neg "neg" Neg(x) "(Tensor input)" -> promote {
    float |x| -x;
    int |x| x.wrapping_neg();
    complex |x| -x;
    gpu "-x";
    grad [] |c| c.g().neg();
    samples (-3.0, 3.0);
}

/// Natural exponential of each element.
exp "exp" Exp(x) "(Tensor input)" -> float {
    float |x| x.exp::<A>();
    complex |x| x.exp();
    gpu "exp(x)";
    grad [out] |c| c.g().mul(c.out()?.conj()?);
    samples (-2.0, 2.0);
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

    } };
}
