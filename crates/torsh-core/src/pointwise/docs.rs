//! Documentation made of the rows: their doc tests, and which dtypes they take and give.

/// The text of a doc test, made of a row's `example`: `method NAME` calls the tensor's method, `function NAME` the
/// function of `torsh_functional`, `inplace NAME` the method that writes over its tensor. A row without an example
/// has an empty text.
#[doc(hidden)]
#[macro_export]
macro_rules! row_example {
    ($form:ident $name:ident {
        $(float |$($fa:ident),+ $(; $($fp:ident),+)?| $fe:expr;)?
        $(int |$($ia:ident),+ $(; $($ip:ident),+)?| $ie:expr;)?
        $(bool |$($ba:ident),+ $(; $($bp:ident),+)?| $be:expr;)?
        $(complex |$($ca:ident),+ $(; $($cp:ident),+)?| $ce:expr;)?
        $(grad [$($saved:ident)*] $grad:expr;)*
        $(define $define:expr;)?
        $(zero $zero:ident;)?
        samples $(($lo:literal, $hi:literal)),+;
        $(example $x:tt $(, $y:tt)? $(=> $exact:tt)? $(~ $close:tt)?;)?
    }) => {
        concat!("" $(, $crate::row_example!($form $name $x $(, $y)? $(=> $exact)? $(~ $close)?))?)
    };
    (method $name:ident $x:tt $(, $y:tt)? $(=> $exact:tt)? $(~ $close:tt)?) => {
        $crate::row_example!(@test "" [$x $(, $y)?]
            (concat!("x.", stringify!($name), "(" $(, $crate::row_example!(@second $y))?, ")?")) $(=> $exact)? $(~ $close)?)
    };
    (function $name:ident $x:tt $(, $y:tt)? $(=> $exact:tt)? $(~ $close:tt)?) => {
        $crate::row_example!(@test "# use torsh_functional as F;\n" [$x $(, $y)?]
            (concat!("F::", stringify!($name), "(&x" $(, ", ", $crate::row_example!(@second $y))?, ")?")) $(=> $exact)? $(~ $close)?)
    };
    (inplace $name:ident $x:tt $(, $y:tt)? $(=> $exact:tt)? $(~ $close:tt)?) => {
        $crate::row_example!(@test "" [$x $(, $y)?]
            ("x") $(=> $exact)? $(~ $close)?;
            concat!("\nx.", stringify!($name), "(" $(, $crate::row_example!(@second $y))?, ")?;"))
    };
    (@second $y:tt) => {
        "&y"
    };
    (@operands $x:tt) => {
        concat!("let x = tensor!", stringify!($x), ";")
    };
    (@operands $x:tt, $y:tt) => {
        concat!("let x = tensor!", stringify!($x), ";\nlet y = tensor!", stringify!($y), ";")
    };
    (@compare ($result:expr) => $exact:tt) => {
        concat!("assert_eq!(", $result, ", tensor!", stringify!($exact), ");")
    };
    (@compare ($result:expr) ~ $close:tt) => {
        concat!("assert!(", $result, ".allclose(&tensor!", stringify!($close), ")?);")
    };
    (@test $uses:literal [$($operands:tt)*] ($result:expr) $how:tt $out:tt $(; $call:expr)?) => {
        concat!(
            "\n```\n", $uses, "# use torsh_tensor::tensor;\n",
            $crate::row_example!(@operands $($operands)*) $(, $call)?, "\n",
            $crate::row_example!(@compare ($result) $how $out),
            "\n# Ok::<(), torsh_tensor::TorshError>(())\n```"
        )
    };
}

/// A sentence on the dtype of a row's result, and one on the dtypes that it refuses; `unary` rows compute in the
/// dtype of their operand, `binary` ones in the promoted one.
#[doc(hidden)]
#[macro_export]
macro_rules! row_dtypes {
    ($arity:ident $rule:ident {
        $(float |$($fa:ident),+ $(; $($fp:ident),+)?| $fe:expr;)?
        $(int |$($ia:ident),+ $(; $($ip:ident),+)?| $ie:expr;)?
        $(bool |$($ba:ident),+ $(; $($bp:ident),+)?| $be:expr;)?
        $(complex |$($ca:ident),+ $(; $($cp:ident),+)?| $ce:expr;)?
        $(grad [$($saved:ident)*] $grad:expr;)*
        $(define $define:expr;)?
        $(zero $zero:ident;)?
        samples $(($lo:literal, $hi:literal)),+;
        $(example $($example:tt)*)?
    }) => {
        concat!(
            $crate::row_dtypes!(@result $rule ($crate::row_dtypes!(@dtype $arity))),
            $crate::row_dtypes!(@refused $rule ($crate::row_dtypes!(@dtype $arity))
                [$($($fa)+)?] [$($($ia)+)?] [$($($ba)+)?] [$($($ca)+)?])
        )
    };
    (@dtype unary) => { "dtype" };
    (@dtype binary) => { "promoted dtype" };
    (@result promote ($dtype:expr)) => { concat!("The result has the ", $dtype, ".") };
    (@result number ($dtype:expr)) => { concat!("The result has the ", $dtype, ".") };
    (@result float ($dtype:expr)) => {
        concat!("The result has the ", $dtype, ", or the default dtype where that is an integer or bool.")
    };
    (@result bool ($dtype:expr)) => { "The result is a bool tensor." };
    (@result equality ($dtype:expr)) => { "The result is a bool tensor." };
    (@result real ($dtype:expr)) => {
        concat!("The result has the ", $dtype, ", or its real type where that is complex.")
    };
    (@refused number ($dtype:expr) [$($f:ident)+] [$($i:ident)+] [] [$($c:ident)+]) => {
        " A bool operand is an error."
    };
    // Integers and bools are converted before.
    (@refused float ($dtype:expr) [$($f:ident)+] [] [] [$($c:ident)+]) => { "" };
    (@refused float ($dtype:expr) [$($f:ident)+] [] [] []) => {
        concat!(" The ", $dtype, " must not be complex.")
    };
    (@refused $rule:ident ($dtype:expr) [$($f:ident)+] [$($i:ident)+] [$($b:ident)+] [$($c:ident)+]) => { "" };
    (@refused $rule:ident ($dtype:expr) [$($f:ident)+] [$($i:ident)+] [$($b:ident)+] []) => {
        concat!(" The ", $dtype, " must not be complex.")
    };
    (@refused $rule:ident ($dtype:expr) [$($f:ident)+] [$($i:ident)+] [] [$($c:ident)+]) => {
        concat!(" The ", $dtype, " must not be bool.")
    };
    (@refused $rule:ident ($dtype:expr) [$($f:ident)+] [$($i:ident)+] [] []) => {
        concat!(" The ", $dtype, " must not be bool or complex.")
    };
    (@refused $rule:ident ($dtype:expr) [$($f:ident)+] [] [] [$($c:ident)+]) => {
        concat!(" The ", $dtype, " must be floating-point or complex.")
    };
    (@refused $rule:ident ($dtype:expr) [$($f:ident)+] [] [] []) => {
        concat!(" The ", $dtype, " must be floating-point.")
    };
    (@refused $rule:ident ($dtype:expr) [] [$($i:ident)+] [$($b:ident)+] []) => {
        concat!(" The ", $dtype, " must be an integer one or bool.")
    };
    (@refused $rule:ident ($dtype:expr) [] [$($i:ident)+] [] []) => {
        concat!(" The ", $dtype, " must be an integer one.")
    };
}
