//! Comparisons, logic, and operations on bits and integers: the second part of the binary rows.

/// Hands the tokens in braces and then the rows of comparisons and kin to the macro `$m`.
#[doc(hidden)]
#[macro_export]
macro_rules! append_comparisons {
    ($m:ident { $($first:tt)* }) => { $m! { $($first)*

/// Whether the operands are equal, elementwise, as a bool tensor.
eq "eq" Eq(x, y) "(Tensor input, Tensor other)" -> equality {
    float |x, y| x == y;
    int |x, y| x == y;
    bool |x, y| x == y;
    complex |x, y| x == y;
    samples (-2.0, 2.0), (-2.0, 2.0);
    example [1.0, 2.0, 3.0], [2.0, 2.0, 2.0] => [false, true, false];
}

/// Whether the operands differ, elementwise, as a bool tensor; nan differs from itself.
ne "ne" Ne(x, y) "(Tensor input, Tensor other)" -> equality {
    float |x, y| x != y;
    int |x, y| x != y;
    bool |x, y| x != y;
    complex |x, y| x != y;
    define |c| c.x()?.eq(c.operand(1)?)?.logical_not();
    samples (-2.0, 2.0), (-2.0, 2.0);
    example [1.0, 2.0, 3.0], [2.0, 2.0, 2.0] => [true, false, true];
}

/// Whether `input` is less than `other`, elementwise, as a bool tensor.
lt "lt" Lt(x, y) "(Tensor input, Tensor other)" -> bool {
    float |x, y| x < y;
    int |x, y| x < y;
    bool |x, y| !x & y;
    samples (-2.0, 2.0), (-2.0, 2.0);
    example [1.0, 2.0, 3.0], [2.0, 2.0, 2.0] => [true, false, false];
}

/// Whether `input` is less than or equal to `other`, elementwise, as a bool tensor.
le "le" Le(x, y) "(Tensor input, Tensor other)" -> bool {
    float |x, y| x <= y;
    int |x, y| x <= y;
    bool |x, y| !x | y;
    define |c| { let x = c.x()?; x.lt(c.operand(1)?)?.logical_or(x.eq(c.operand(1)?)?) };
    samples (-2.0, 2.0), (-2.0, 2.0);
    example [1.0, 2.0, 3.0], [2.0, 2.0, 2.0] => [true, true, false];
}

/// Whether `input` is greater than `other`, elementwise, as a bool tensor.
gt "gt" Gt(x, y) "(Tensor input, Tensor other)" -> bool {
    float |x, y| x > y;
    int |x, y| x > y;
    bool |x, y| x & !y;
    samples (-2.0, 2.0), (-2.0, 2.0);
    example [1.0, 2.0, 3.0], [2.0, 2.0, 2.0] => [false, false, true];
}

/// Whether `input` is greater than or equal to `other`, elementwise, as a bool tensor.
ge "ge" Ge(x, y) "(Tensor input, Tensor other)" -> bool {
    float |x, y| x >= y;
    int |x, y| x >= y;
    bool |x, y| x | !y;
    define |c| { let x = c.x()?; x.gt(c.operand(1)?)?.logical_or(x.eq(c.operand(1)?)?) };
    samples (-2.0, 2.0), (-2.0, 2.0);
    example [1.0, 2.0, 3.0], [2.0, 2.0, 2.0] => [false, true, true];
}

/// Whether both operands are not 0, elementwise.
logical_and "logical_and" LogicalAnd(x, y) "(Tensor input, Tensor other)" -> bool {
    float |x, y| (x != T::ZERO) & (y != T::ZERO);
    int |x, y| (x != T::ZERO) & (y != T::ZERO);
    bool |x, y| x & y;
    complex |x, y| x.is_nonzero() & y.is_nonzero();
    samples (-2.0, 2.0), (-2.0, 2.0);
    example [true, true, false], [true, false, false] => [true, false, false];
}

/// Whether at least one operand is not 0, elementwise.
logical_or "logical_or" LogicalOr(x, y) "(Tensor input, Tensor other)" -> bool {
    float |x, y| (x != T::ZERO) | (y != T::ZERO);
    int |x, y| (x != T::ZERO) | (y != T::ZERO);
    bool |x, y| x | y;
    complex |x, y| x.is_nonzero() | y.is_nonzero();
    samples (-2.0, 2.0), (-2.0, 2.0);
    example [true, true, false], [true, false, false] => [true, true, false];
}

/// Whether exactly one operand is not 0, elementwise.
logical_xor "logical_xor" LogicalXor(x, y) "(Tensor input, Tensor other)" -> bool {
    float |x, y| (x != T::ZERO) != (y != T::ZERO);
    int |x, y| (x != T::ZERO) != (y != T::ZERO);
    bool |x, y| x != y;
    complex |x, y| x.is_nonzero() != y.is_nonzero();
    define |c| c.x()?.ne(0)?.ne(c.y()?.ne(0)?);
    samples (-2.0, 2.0), (-2.0, 2.0);
    example [true, true, false], [true, false, false] => [false, true, false];
}

/// Bits set in both operands, elementwise; the logical and of bools.
bitwise_and "bitwise_and" BitwiseAnd(x, y) "(Tensor input, Tensor other)" -> promote {
    int |x, y| x & y;
    bool |x, y| x & y;
    samples (-2.0, 2.0), (-2.0, 2.0);
    example [6, 5], [3, 1] => [2, 1];
}

/// Bits set in at least one operand, elementwise; the logical or of bools.
bitwise_or "bitwise_or" BitwiseOr(x, y) "(Tensor input, Tensor other)" -> promote {
    int |x, y| x | y;
    bool |x, y| x | y;
    samples (-2.0, 2.0), (-2.0, 2.0);
    example [6, 5], [3, 1] => [7, 5];
}

/// Bits set in exactly one operand, elementwise; the logical exclusive or of bools.
bitwise_xor "bitwise_xor" BitwiseXor(x, y) "(Tensor input, Tensor other)" -> promote {
    int |x, y| x ^ y;
    bool |x, y| x ^ y;
    samples (-2.0, 2.0), (-2.0, 2.0);
    example [6, 5], [3, 1] => [5, 4];
}

/// `input` shifted left by `other` bits, elementwise; 0 for shifts out of range.
bitwise_left_shift "bitwise_left_shift" BitwiseLeftShift(x, y) "(Tensor input, Tensor other)" -> promote {
    int |x, y| x.shl(y);
    samples (-2.0, 2.0), (-2.0, 2.0);
    example [1, 3], [4, 1] => [16, 6];
}

/// `input` shifted right by `other` bits with its sign kept, elementwise; only the sign is left of
/// shifts out of range.
bitwise_right_shift "bitwise_right_shift" BitwiseRightShift(x, y) "(Tensor input, Tensor other)" -> promote {
    int |x, y| x.shr(y);
    samples (-2.0, 2.0), (-2.0, 2.0);
    example [16, -8], [2, 1] => [4, -4];
}

/// Greatest common divisor of two operands, elementwise, not negative.
gcd "gcd" Gcd(x, y) "(Tensor input, Tensor other)" -> promote {
    int |x, y| x.gcd(y);
    samples (-2.0, 2.0), (-2.0, 2.0);
    example [12, -9], [18, 6] => [6, 3];
}

/// Least common multiple of two operands, elementwise, not negative.
lcm "lcm" Lcm(x, y) "(Tensor input, Tensor other)" -> promote {
    int |x, y| x.lcm(y);
    define |c| {
        let (x, y) = (c.x()?, c.y()?);
        let divisor = x.gcd(&y)?;
        // 0 has no multiple but itself.
        let some = divisor.maximum(1)?;
        x.floor_divide(some)?.mul(&y)?.abs()
    };
    samples (-2.0, 2.0), (-2.0, 2.0);
    example [4, 6], [6, 15] => [12, 30];
}

    } };
}
