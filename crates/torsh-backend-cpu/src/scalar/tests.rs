//! Every row as a scalar function, and what PyTorch 2.15 computes for their awkward arguments.

#![allow(unused_variables, unused_imports)]

mod cases;

use num_complex::Complex;

use super::{Cplx, Int, Real};
use crate::simd::Base;

/// Results of any type as complex numbers; bools are 0 and 1.
trait Widen {
    fn widen(self) -> Complex<f64>;
}
macro_rules! widen {
    ($($t:ty => |$v:ident| $re:expr, $im:expr;)*) => {$(
        impl Widen for $t {
            fn widen(self) -> Complex<f64> {
                let $v = self;
                Complex::new($re as f64, $im as f64)
            }
        }
    )*};
}
widen! {
    f32 => |v| v, 0;
    f64 => |v| v, 0;
    bool => |v| v as u8, 0;
    u8 => |v| v, 0;
    i8 => |v| v, 0;
    i16 => |v| v, 0;
    i32 => |v| v, 0;
    i64 => |v| v, 0;
    Complex<f32> => |v| v.re, v.im;
    Complex<f64> => |v| v.re, v.im;
}

/// One function per section, that calls a row by the name of its method: `None` for rows without
/// the section.
macro_rules! sections {
    ($($(#[doc = $doc:literal])+ $method:ident $name:literal $kernel:ident ( $($arg:ident),+ $(; $($number:ident),+)? ) $schema:literal -> $rule:ident {
        $(float |$($f:ident),+ $(; $($fp:ident),+)?| $float:expr;)?
        $(int |$($i:ident),+ $(; $($ip:ident),+)?| $int:expr;)?
        $(bool |$($b:ident),+ $(; $($bp:ident),+)?| $bool:expr;)?
        $(complex |$($z:ident),+ $(; $($zp:ident),+)?| $complex:expr;)?
        $(grad [$($saved:ident)*] $grad:expr;)*
        $(define $define:expr;)?
        $(zero $zero:ident;)?
        samples $($rest:tt)*
    })*) => {
        use super::*;

        pub fn float<T: Real + Widen>(row: &str, a: [T; 3], numbers: [T; 3]) -> Option<Complex<f64>> {
            type A = Base;
            $($(if row == stringify!($method) {
                let mut a = a.into_iter();
                $(let $f = a.next()?;)+
                $(let [$($fp,)+ ..] = numbers;)?
                return Some(Widen::widen($float));
            })?)*
            None
        }
        pub fn int<T: Int + Widen>(row: &str, a: [T; 3], numbers: [T; 3]) -> Option<Complex<f64>> {
            $($(if row == stringify!($method) {
                let mut a = a.into_iter();
                $(let $i = a.next()?;)+
                $(let [$($ip,)+ ..] = numbers;)?
                return Some(Widen::widen($int));
            })?)*
            None
        }
        pub fn boolean(row: &str, a: [bool; 3], numbers: [bool; 3]) -> Option<Complex<f64>> {
            $($(if row == stringify!($method) {
                let mut a = a.into_iter();
                $(let $b = a.next()?;)+
                $(let [$($bp,)+ ..] = numbers;)?
                return Some(Widen::widen($bool));
            })?)*
            None
        }
        pub fn complex<T: Cplx<R: Widen> + Widen>(row: &str, a: [T; 3], numbers: [T; 3]) -> Option<Complex<f64>> {
            $($(if row == stringify!($method) {
                let mut a = a.into_iter();
                $(let $z = a.next()?;)+
                $(let [$($zp,)+ ..] = numbers;)?
                return Some(Widen::widen($complex));
            })?)*
            None
        }
    };
}
mod unary {
    torsh_core::for_each_unary! { sections }
}
mod binary {
    torsh_core::for_each_binary! { sections }
}
mod parametric {
    torsh_core::for_each_parametric! { sections }
}

/// Up to three operands or numbers, as an array.
fn three<T: Copy + Default>(v: &[T]) -> [T; 3] {
    let mut out = [T::default(); 3];
    out[..v.len()].copy_from_slice(v);
    out
}

fn float<T: Real + Widen>(row: &str, a: &[T], p: &[T]) -> Option<Complex<f64>> {
    let (a, p) = (three(a), three(p));
    unary::float(row, a, p)
        .or_else(|| binary::float(row, a, p))
        .or_else(|| parametric::float(row, a, p))
}
fn int<T: Int + Widen>(row: &str, a: &[T], p: &[T]) -> Option<Complex<f64>> {
    let (a, p) = (three(a), three(p));
    unary::int(row, a, p)
        .or_else(|| binary::int(row, a, p))
        .or_else(|| parametric::int(row, a, p))
}
fn boolean(row: &str, a: &[bool], p: &[bool]) -> Option<Complex<f64>> {
    let (a, p) = (three(a), three(p));
    unary::boolean(row, a, p)
        .or_else(|| binary::boolean(row, a, p))
        .or_else(|| parametric::boolean(row, a, p))
}
fn complex<T: Cplx<R: Widen> + Widen>(row: &str, a: &[T], p: &[T]) -> Option<Complex<f64>> {
    let (a, p) = (three(a), three(p));
    unary::complex(row, a, p)
        .or_else(|| binary::complex(row, a, p))
        .or_else(|| parametric::complex(row, a, p))
}

/// Whether the parts of both are equal up to rounding; `tolerance` is relative to the whole number.
fn same(got: Complex<f64>, want: Complex<f64>, tolerance: f64) -> bool {
    let size = [want.re, want.im]
        .into_iter()
        .filter(|v| v.is_finite())
        .fold(0.0, f64::hypot);
    let part = |g: f64, w: f64| {
        let equal = g == w && g.is_sign_negative() == w.is_sign_negative();
        equal || (g.is_nan() && w.is_nan()) || (g - w).abs() <= tolerance * size
    };
    part(got.re, want.re) && part(got.im, want.im)
}

/// Runs all cases and names those that differ.
fn check<T: Copy + std::fmt::Debug>(
    cases: &[cases::Case<T>],
    tolerance: f64,
    run: impl Fn(&str, &[T], &[T]) -> Option<Complex<f64>>,
    widen: impl Fn(T) -> Complex<f64>,
) {
    let wrong: Vec<String> = cases
        .iter()
        .filter_map(|&(row, a, p, want)| {
            let got = run(row, a, p);
            let right = got.is_some_and(|got| same(got, widen(want), tolerance));
            (!right).then(|| format!("{row} {a:?} {p:?}: {got:?}, not {want:?}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[torsh_macros::unit_test]
fn real_rows_are_pytorchs() {
    let widen = |v: f64| Complex::new(v, 0.0);
    check(cases::REAL, 1e-14, float::<f64>, widen);
    // What float32 cannot hold is left to the test above.
    let single: Vec<_> = cases::REAL
        .iter()
        .filter(|c| c.1.iter().all(|v| v.abs() < 1e9 || !v.is_finite()))
        .filter(|c| (c.3 == 0.0 || c.3.abs() > 1e-9 || c.3.is_nan()) && c.0 != "nextafter")
        .filter(|c| !matches!(c.0, "floor_divide" | "round_decimals") && c.1 != [-8.0, 1.0 / 3.0])
        .copied()
        .collect();
    assert!(single.len() > 130);
    let narrow = |v: &[f64]| v.iter().map(|&v| v as f32).collect::<Vec<_>>();
    check(
        &single,
        1e-6,
        |row, a, p| float::<f32>(row, &narrow(a), &narrow(p)),
        widen,
    );
}

#[torsh_macros::unit_test]
fn integer_rows_are_pytorchs() {
    let widen = |v: i64| Complex::new(v as f64, 0.0);
    macro_rules! check_as {
        ($cases:ident, $t:ty) => {{
            let narrow = |v: &[i64]| v.iter().map(|&v| v as $t).collect::<Vec<_>>();
            check(
                cases::$cases,
                0.0,
                |row, a, p| int::<$t>(row, &narrow(a), &narrow(p)),
                widen,
            );
        }};
    }
    check_as!(I32, i32);
    check_as!(I8, i8);
    check_as!(U8, u8);
}

#[torsh_macros::unit_test]
fn integer_rows_have_a_result_everywhere() {
    // What callers refuse before, or the machine would trap on.
    for row in ["floor_divide", "div_trunc", "remainder", "fmod"] {
        assert_eq!(int::<i32>(row, &[5, 0], &[]), Some(Complex::new(0.0, 0.0)));
        assert!(int::<i32>(row, &[i32::MIN, -1], &[]).is_some());
        assert!(int::<i64>(row, &[i64::MIN, -1], &[]).is_some());
    }
    assert_eq!(
        int::<i64>("floor_divide", &[i64::MIN, -1], &[]),
        Some(Complex::new(i64::MIN as f64, 0.0))
    );
    for v in [i32::MIN, -1, 0, 1, i32::MAX] {
        for w in [i32::MIN, -1, 0, 1, i32::MAX] {
            for row in [
                "gcd",
                "lcm",
                "pow",
                "bitwise_left_shift",
                "bitwise_right_shift",
            ] {
                assert!(int::<i32>(row, &[v, w], &[]).is_some());
            }
        }
    }
}

#[torsh_macros::unit_test]
fn complex_rows_are_pytorchs() {
    let c = |v: &[(f64, f64)]| {
        v.iter()
            .map(|&(re, im)| Complex::new(re, im))
            .collect::<Vec<_>>()
    };
    let run =
        |row: &str, a: &[(f64, f64)], p: &[(f64, f64)]| complex::<Complex<f64>>(row, &c(a), &c(p));
    check(cases::COMPLEX, 1e-14, run, |(re, im)| Complex::new(re, im));
    // Both parts of a small logarithm are exact, not only the larger one.
    let z = complex::<Complex<f64>>("log", &[Complex::new(0.6, 0.8)], &[]).unwrap();
    assert!(z.re.abs() < 1e-16, "{z}");
    let z = complex::<Complex<f32>>("tanh", &[Complex::new(0.5f32, -1.25)], &[]).unwrap();
    assert!((z - Complex::new(0.5, -1.25).tanh()).norm() < 1e-7, "{z}");
}

#[torsh_macros::unit_test]
fn bool_rows_are_logic() {
    for (row, want) in [
        ("add", [false, true, true, true]),
        ("mul", [false, false, false, true]),
        ("maximum", [false, true, true, true]),
        ("minimum", [false, false, false, true]),
        ("lt", [false, true, false, false]),
        ("le", [true, true, false, true]),
        ("gt", [false, false, true, false]),
        ("ge", [true, false, true, true]),
        ("bitwise_xor", [false, true, true, false]),
        ("heaviside", [false, true, true, true]),
    ] {
        for (i, want) in want.into_iter().enumerate() {
            let got = boolean(row, &[i & 2 != 0, i & 1 != 0], &[]);
            assert_eq!(got, Some(Widen::widen(want)), "{row} {i}");
        }
    }
    assert_eq!(boolean("sub", &[true, true], &[]), None);
    assert_eq!(boolean("neg", &[true], &[]), None);
}
