//! Every row as a scalar function, and what PyTorch 2.15 computes for their awkward arguments.

#![allow(unused_variables, unused_imports)]

use num_complex::Complex;

use super::{Cplx, Int, Real};
use crate::arch::Base;

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
    ($($(#[doc = $doc:literal])+ $method:ident $name:literal $kernel:ident ( $($arg:ident),+ ) $schema:literal -> $rule:ident {
        $(float |$($f:ident),+ $(; $fp:ident)?| $float:expr;)?
        $(int |$($i:ident),+ $(; $ip:ident)?| $int:expr;)?
        $(bool |$($b:ident),+ $(; $bp:ident)?| $bool:expr;)?
        $(complex |$($z:ident),+ $(; $zp:ident)?| $complex:expr;)?
        gpu $gpu:literal;
        $($rest:tt)*
    })*) => {
        use super::*;

        pub fn float<T: Real + Widen>(row: &str, a: [T; 3], numbers: [T; 3]) -> Option<Complex<f64>> {
            type A = Base;
            $($(if row == stringify!($method) {
                let mut a = a.into_iter();
                $(let $f = a.next()?;)+
                $(let $fp = numbers;)?
                return Some(Widen::widen($float));
            })?)*
            None
        }
        pub fn int<T: Int + Widen>(row: &str, a: [T; 3], numbers: [T; 3]) -> Option<Complex<f64>> {
            $($(if row == stringify!($method) {
                let mut a = a.into_iter();
                $(let $i = a.next()?;)+
                $(let $ip = numbers;)?
                return Some(Widen::widen($int));
            })?)*
            None
        }
        pub fn boolean(row: &str, a: [bool; 3], numbers: [bool; 3]) -> Option<Complex<f64>> {
            $($(if row == stringify!($method) {
                let mut a = a.into_iter();
                $(let $b = a.next()?;)+
                $(let $bp = numbers;)?
                return Some(Widen::widen($bool));
            })?)*
            None
        }
        pub fn complex<T: Cplx<R: Widen> + Widen>(row: &str, a: [T; 3], numbers: [T; 3]) -> Option<Complex<f64>> {
            $($(if row == stringify!($method) {
                let mut a = a.into_iter();
                $(let $z = a.next()?;)+
                $(let $zp = numbers;)?
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
    unary::float(row, a, p).or_else(|| binary::float(row, a, p)).or_else(|| parametric::float(row, a, p))
}
fn int<T: Int + Widen>(row: &str, a: &[T], p: &[T]) -> Option<Complex<f64>> {
    let (a, p) = (three(a), three(p));
    unary::int(row, a, p).or_else(|| binary::int(row, a, p)).or_else(|| parametric::int(row, a, p))
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

#[test]
fn zz_broad() {
    let Ok(path) = std::env::var("ROWS_DATA") else { return };
    let text = std::fs::read_to_string(path).unwrap();
    let (mut n, mut bad) = (0, std::collections::BTreeMap::<String, Vec<String>>::new());
    for line in text.lines() {
        let w: Vec<&str> = line.split('|').collect();
        let (sec, row) = (w[0], w[1]);
        let nums = |s: &str| -> Vec<Complex<f64>> {
            s.split_whitespace()
                .map(|t| {
                    let (a, b) = t.split_once(',').unwrap();
                    Complex::new(a.parse().unwrap(), b.parse().unwrap())
                })
                .collect()
        };
        let (a, p, want) = (nums(w[2]), nums(w[3]), nums(w[4])[0]);
        macro_rules! ints { ($t:ty) => {{
            let f = |v: &[Complex<f64>]| v.iter().map(|z| z.re as $t).collect::<Vec<_>>();
            int::<$t>(row, &f(&a), &f(&p))
        }}; }
        macro_rules! reals { ($t:ty) => {{
            let f = |v: &[Complex<f64>]| v.iter().map(|z| z.re as $t).collect::<Vec<_>>();
            float::<$t>(row, &f(&a), &f(&p))
        }}; }
        macro_rules! cs { ($t:ty) => {{
            let f = |v: &[Complex<f64>]| v.iter().map(|z| Complex::<$t>::new(z.re as $t, z.im as $t)).collect::<Vec<_>>();
            complex::<Complex<$t>>(row, &f(&a), &f(&p))
        }}; }
        let got = match sec {
            "f32" => reals!(f32), "f64" => reals!(f64),
            "c64" => cs!(f32), "c128" => cs!(f64),
            "u8" => ints!(u8), "i8" => ints!(i8), "i16" => ints!(i16), "i32" => ints!(i32), "i64" => ints!(i64),
            _ => {
                let f = |v: &[Complex<f64>]| v.iter().map(|z| z.re != 0.0).collect::<Vec<_>>();
                boolean(row, &f(&a), &f(&p))
            }
        };
        n += 1;
        let tol = match sec { "f32" | "c64" => 4e-6, "f64" | "c128" => 2e-13, _ => 0.0 };
        let same = |g: f64, w: f64, m: f64| g == w || (g.is_nan() && w.is_nan()) || (g - w).abs() <= tol * w.abs().max(if sec.starts_with('c') { m } else { 0.0 });
        let ok = got.is_some_and(|g| { let m = if want.norm().is_finite() { want.norm() } else { 0.0 }; same(g.re, want.re, m) && same(g.im, want.im, m) });
        if !ok {
            bad.entry(format!("{row} {sec}")).or_default().push(format!("  {:?} {:?} -> {:?}, want {:?}", a, p, got, want));
        }
    }
    println!("{n} cases");
    for (k, v) in &bad {
        println!("{k}: {} bad", v.len());
        for l in v.iter().take(12) { println!("{l}"); }
    }
}
