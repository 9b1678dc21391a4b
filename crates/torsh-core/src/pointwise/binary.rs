//! Ops of two tensors (or numbers) and no further arguments; their methods are made from the rows.

/// Hands the rows of all binary ops to the macro `$m`, after the tokens that follow its name.
#[macro_export]
macro_rules! for_each_binary {
    ($m:ident $($first:tt)*) => { $m! { $($first)*

/// Sum of two operands, elementwise.
add "add" Add(x, y) "(Tensor input, Tensor other)" -> promote {
    float |x, y| x + y;
    int |x, y| x.wrapping_add(y);
    bool |x, y| x | y;
    complex |x, y| x + y;
    gpu "x + y";
    grad [] |c| Ok(c.g().clone());
    grad [] |c| Ok(c.g().clone());
    samples (-2.0, 2.0), (-2.0, 2.0);
}

/// Product of two operands, elementwise.
mul "mul" Mul(x, y) "(Tensor input, Tensor other)" -> promote {
    float |x, y| x * y;
    int |x, y| x.wrapping_mul(y);
    bool |x, y| x & y;
    complex |x, y| x * y;
    gpu "x * y";
    grad [y] |c| c.mul_conj(1);
    grad [x] |c| c.mul_conj(0);
    samples (-2.0, 2.0), (-2.0, 2.0);
}

/// Whether the operands are equal, elementwise, as a bool tensor.
eq "eq" Eq(x, y) "(Tensor input, Tensor other)" -> bool {
    float |x, y| x == y;
    int |x, y| x == y;
    bool |x, y| x == y;
    complex |x, y| x == y;
    gpu "x == y";
    samples (-2.0, 2.0), (-2.0, 2.0);
}

    } };
}
