//! Ops with further numbers, or of three tensors; their methods are written by hand in the tensor
//! crate, the rest is made from the rows.

/// Hands the rows of all parametric ops to the macro `$m`, after the tokens that follow its name.
#[macro_export]
macro_rules! for_each_parametric {
    ($m:ident $($first:tt)*) => { $m! { $($first)*

/// `input + alpha * other`, elementwise.
add_alpha "add.alpha" AddAlpha(x, y) "(Tensor input, Tensor other, *, Scalar alpha)" -> promote {
    float |x, y; p| x + p[0] * y;
    int |x, y; p| x.wrapping_add(p[0].wrapping_mul(y));
    bool |x, y; p| x | (p[0] & y);
    complex |x, y; p| x + p[0] * y;
    gpu "x + p0 * y";
    grad [] |c| Ok(c.g().clone());
    grad [] |c| c.g().mul(c.p(0).conj());
    samples (-2.0, 2.0), (-2.0, 2.0);
}

    } };
}
