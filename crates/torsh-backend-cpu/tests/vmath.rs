//! Accuracy of `vmath` in ulp, for every level this machine has, against exact
//! references (tests/data/make_vmath.py) and, for float32, against the float64
//! functions of the platform over a sweep of all bit patterns.

use torsh_backend_cpu::multiversion;
use torsh_backend_cpu::simd::Level;
use torsh_backend_cpu::vmath::VMath;

macro_rules! unary {
    ($($name:ident)*) => {
        mod single {
            use super::*;
            $(multiversion! {
                pub fn $name<A>(src: &[f32], dst: &mut [f32]) {
                    for (d, &s) in dst.iter_mut().zip(src) {
                        *d = VMath::$name::<A>(s);
                    }
                }
            })*
            multiversion! {
                pub fn sin_block<A>(src: &[f32], dst: &mut [f32]) {
                    assert_eq!(src.len(), dst.len());
                    // SAFETY: as long as each other.
                    unsafe { VMath::sin_into::<A>(src.as_ptr(), dst.as_mut_ptr(), src.len()) }
                }
                pub fn cos_block<A>(src: &[f32], dst: &mut [f32]) {
                    // In place, which the block forms allow.
                    dst.copy_from_slice(src);
                    // SAFETY: the same memory, `src.len()` long.
                    unsafe { VMath::cos_into::<A>(dst.as_ptr(), dst.as_mut_ptr(), src.len()) }
                }
            }
        }
        mod double {
            use super::*;
            $(multiversion! {
                pub fn $name<A>(src: &[f64], dst: &mut [f64]) {
                    for (d, &s) in dst.iter_mut().zip(src) {
                        *d = VMath::$name::<A>(s);
                    }
                }
            })*
        }
        fn single(name: &str, level: Level) -> impl Fn(&[f32], &mut [f32]) {
            let f = match name {
                $(stringify!($name) => single::$name::at(level),)*
                "sin_block" => single::sin_block::at(level),
                "cos_block" => single::cos_block::at(level),
                _ => panic!("no function {name}"),
            };
            // SAFETY: `at` gives versions that the machine has.
            move |x: &[f32], y: &mut [f32]| unsafe { f(x, y) }
        }
        fn double(name: &str, level: Level) -> impl Fn(&[f64], &mut [f64]) {
            let f = match name {
                $(stringify!($name) => double::$name::at(level),)*
                _ => panic!("no function {name}"),
            };
            // SAFETY: `at` gives versions that the machine has.
            move |x: &[f64], y: &mut [f64]| unsafe { f(x, y) }
        }
    };
}

unary! {
    exp_low exp_raised erf_normal
    exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh tanh asin acos atan
    asinh acosh atanh erf erfc erfinv sigmoid lgamma digamma
}

macro_rules! binary {
    ($($name:ident $ty:ty, $base:ident;)*) => {$(
        multiversion! {
            fn $name<A>(x: &[$ty], y: &[$ty], dst: &mut [$ty]) {
                for ((d, &x), &y) in dst.iter_mut().zip(x).zip(y) {
                    *d = VMath::$base::<A>(x, y);
                }
            }
        }
    )*};
}

binary! {
    pow_f32 f32, pow;
    pow_f64 f64, pow;
    atan2_f32 f32, atan2;
    atan2_f64 f64, atan2;
}

fn levels() -> impl Iterator<Item = Level> {
    Level::ALL.into_iter().filter(|l| l.is_available())
}

/// Error of `got` in units of float32 spacing at `want`; overflow counts as 2^128.
fn ulp32(got: f32, want: f64) -> f64 {
    let w = want as f32;
    if w.is_nan() || got.is_nan() {
        return if w.is_nan() && got.is_nan() {
            0.0
        } else {
            f64::INFINITY
        };
    }
    if w == 0.0 && got == 0.0 {
        // An exact zero has its sign; an underflow to zero keeps it too.
        return if w.is_sign_negative() == got.is_sign_negative() {
            0.0
        } else {
            f64::INFINITY
        };
    }
    if got == w {
        if w.is_infinite() {
            return 0.0;
        }
    } else if got.is_infinite() && want.is_infinite() {
        return f64::INFINITY;
    }
    let top = 2f64.powi(128);
    let g = f64::from(got).clamp(-top, top);
    let e = (want.abs().log2().floor() as i32).clamp(-126, 127);
    (g - want.clamp(-top, top)).abs() / 2f64.powi(e - 23)
}

/// Distance in float64 values.
fn ulp64(got: f64, want: f64) -> u64 {
    let key = |v: f64| {
        let b = v.to_bits() as i64;
        if b < 0 { i64::MIN.wrapping_sub(b) } else { b }
    };
    if got.is_nan() || want.is_nan() {
        return if got.is_nan() && want.is_nan() {
            0
        } else {
            u64::MAX
        };
    }
    key(got).abs_diff(key(want))
}

struct Table {
    name: String,
    args: Vec<Vec<f32>>,
    want: Vec<f64>,
}

fn tables() -> Vec<Table> {
    fn take<'a>(d: &mut &'a [u8], n: usize) -> &'a [u8] {
        let (a, b) = d.split_at(n);
        *d = b;
        a
    }
    let mut d: &[u8] = include_bytes!("data/vmath.bin");
    let mut out = Vec::new();
    while !d.is_empty() {
        let len = usize::from(take(&mut d, 1)[0]);
        let name = String::from_utf8(take(&mut d, len).to_vec()).unwrap();
        let arity = usize::from(take(&mut d, 1)[0]);
        let n = u32::from_le_bytes(take(&mut d, 4).try_into().unwrap());
        let mut t = Table {
            name,
            args: vec![Vec::new(); arity],
            want: Vec::new(),
        };
        for _ in 0..n {
            for a in &mut t.args {
                a.push(f32::from_le_bytes(take(&mut d, 4).try_into().unwrap()));
            }
            t.want
                .push(f64::from_le_bytes(take(&mut d, 8).try_into().unwrap()));
        }
        out.push(t);
    }
    assert_eq!(out.len(), 27);
    out
}

/// What each float32 function promises, in ulp.
fn bound32(name: &str) -> f64 {
    match name {
        "exp" | "log" => 1.0,
        "exp2" => 1.1,
        "erf" => 1.3,
        "tanh" => 2.0,
        "sin" | "cos" | "sin_block" | "cos_block" => 1.6,
        "sigmoid" => 1.9,
        // One rounding of a float64 result.
        _ => 0.502,
    }
}

#[test]
fn float32_is_within_its_bounds_of_the_exact_values() {
    let mut failed = Vec::new();
    for t in tables() {
        let x = &t.args[0];
        let mut got = vec![0.0; x.len()];
        for level in levels() {
            let blocks = format!("{}_block", t.name);
            let mut names = vec![t.name.as_str()];
            if matches!(t.name.as_str(), "sin" | "cos") {
                names.push(&blocks);
            }
            for name in names {
                match name {
                    // SAFETY: `at` gives versions that the machine has.
                    "pow" => unsafe { pow_f32::at(level)(x, &t.args[1], &mut got) },
                    // SAFETY: as above.
                    "atan2" => unsafe { atan2_f32::at(level)(x, &t.args[1], &mut got) },
                    _ => single(name, level)(x, &mut got),
                }
                let worst = (0..x.len())
                    .map(|i| (ulp32(got[i], t.want[i]), i))
                    .max_by(|a, b| a.0.total_cmp(&b.0))
                    .unwrap();
                println!("{name} {level:?}: {:.3} ulp", worst.0);
                if worst.0 > bound32(name) {
                    let i = worst.1;
                    let arg: Vec<f32> = t.args.iter().map(|a| a[i]).collect();
                    failed.push(format!(
                        "{name} {level:?} {arg:?}: {:e}, not {:e}: {} ulp",
                        got[i], t.want[i], worst.0
                    ));
                }
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn float64_is_within_two_ulp_of_the_exact_values() {
    let mut failed = Vec::new();
    for t in tables() {
        let args: Vec<Vec<f64>> = t
            .args
            .iter()
            .map(|a| a.iter().map(|&v| f64::from(v)).collect())
            .collect();
        let x = &args[0];
        let mut got = vec![0.0; x.len()];
        // Not vectorised: the levels share one code.
        match t.name.as_str() {
            "pow" => pow_f64(x, &args[1], &mut got),
            "atan2" => atan2_f64(x, &args[1], &mut got),
            name => double(name, Level::Base)(x, &mut got),
        }
        let mut worst = 0;
        for i in 0..x.len() {
            // Between their poles the gamma functions have zeros, where only the
            // absolute error is bounded.
            let gamma = matches!(t.name.as_str(), "lgamma" | "digamma");
            let floor = if gamma { 1e-14 } else { 0.0 };
            if (got[i] - t.want[i]).abs() <= floor {
                continue;
            }
            let bound = if gamma { 4 } else { 2 };
            let e = ulp64(got[i], t.want[i]);
            worst = worst.max(e);
            if e > bound {
                failed.push(format!(
                    "{} {}: {:e}, not {:e}: {e}",
                    t.name, x[i], got[i], t.want[i]
                ));
            }
        }
        println!("{} f64: {worst} ulp", t.name);
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

fn sigmoid64(x: f64) -> f64 {
    let e = (-x.abs()).exp();
    if x < 0.0 {
        e / (1.0 + e)
    } else {
        1.0 / (1.0 + e)
    }
}

/// Every pattern of a stride prime to 2^32, and the special ones.
fn sweep() -> Vec<f32> {
    let mut x: Vec<f32> = (0..=u32::MAX).step_by(4099).map(f32::from_bits).collect();
    for v in [
        0.0,
        1.0,
        0.5,
        2.0,
        3.0,
        f32::INFINITY,
        f32::NAN,
        f32::MIN_POSITIVE,
        f32::from_bits(1),
        f32::from_bits(0x007f_ffff),
        f32::MAX,
        65536.0,
        65_536.01,
        88.722_83,
        88.722_84,
        103.972_08,
        103.972_09,
        149.0,
        150.0,
        128.0,
        std::f32::consts::FRAC_PI_2,
        std::f32::consts::PI,
        f32::EPSILON,
        1.0 + f32::EPSILON,
        1.0 - f32::EPSILON / 2.0,
    ] {
        x.extend([v, -v]);
    }
    x
}

#[test]
fn float32_follows_float64_over_all_bit_patterns() {
    type Reference = fn(f64) -> f64;
    let references: [(&str, Reference); 24] = [
        ("exp", f64::exp),
        ("exp2", f64::exp2),
        ("expm1", f64::exp_m1),
        ("log", f64::ln),
        ("log2", f64::log2),
        ("log10", f64::log10),
        ("log1p", f64::ln_1p),
        ("sin", libm::sin),
        ("sin_block", libm::sin),
        ("cos", libm::cos),
        ("cos_block", libm::cos),
        ("tan", libm::tan),
        ("sinh", f64::sinh),
        ("cosh", f64::cosh),
        ("tanh", f64::tanh),
        ("asin", f64::asin),
        ("acos", f64::acos),
        ("atan", f64::atan),
        ("asinh", libm::asinh),
        ("acosh", f64::acosh),
        ("atanh", libm::atanh),
        ("erf", libm::erf),
        ("erfc", libm::erfc),
        ("sigmoid", sigmoid64),
    ];
    let x = sweep();
    // Blocks of ordinary arguments only, so that the fast reduction is taken.
    let narrow: Vec<f32> = (0..400_000)
        .map(|i| (i as f32 - 200_000.0) * 0.327_67)
        .collect();
    let mut failed = Vec::new();
    for (name, reference) in references {
        for x in [&x, &narrow] {
            let want: Vec<f64> = x.iter().map(|&v| reference(f64::from(v))).collect();
            let mut got = vec![0.0; x.len()];
            for level in levels() {
                single(name, level)(x, &mut got);
                let worst = (0..x.len())
                    .map(|i| (ulp32(got[i], want[i]), i))
                    .max_by(|a, b| a.0.total_cmp(&b.0))
                    .unwrap();
                println!("{name} {level:?}: {:.3} ulp", worst.0);
                if worst.0 > bound32(name) {
                    let i = worst.1;
                    failed.push(format!(
                        "{name} {level:?} {:e}: {:e}, not {:e}: {} ulp",
                        x[i], got[i], want[i], worst.0
                    ));
                }
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn two_arguments_follow_float64_over_all_magnitudes() {
    // The special values in every pairing, then pairs of arbitrary patterns.
    let mut special = vec![];
    for v in [
        0.0,
        1.0,
        0.5,
        2.0,
        3.0,
        2.5,
        f32::INFINITY,
        f32::NAN,
        f32::from_bits(1),
        f32::MAX,
        16_777_215.0,
        16_777_216.0,
        8_388_607.5,
        1e-20,
    ] {
        special.extend([v, -v]);
    }
    let (mut x, mut y) = (Vec::new(), Vec::new());
    for &a in &special {
        for &b in &special {
            x.push(a);
            y.push(b);
        }
    }
    let mut state = 1u32;
    for _ in 0..300_000 {
        let mut draw = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.rotate_left(7)
        };
        let (a, b) = (draw(), draw());
        x.push(f32::from_bits(a));
        y.push(f32::from_bits(b));
        // A power in range.
        x.push(f32::from_bits(a & 0x7fff_ffff));
        y.push((b as i32 as f32) * 2e-9);
    }
    let mut got = vec![0.0; x.len()];
    let mut failed = Vec::new();
    for level in levels() {
        type Case = (unsafe fn(&[f32], &[f32], &mut [f32]), fn(f64, f64) -> f64);
        let cases: [Case; 2] = [
            (pow_f32::at(level), f64::powf),
            (atan2_f32::at(level), f64::atan2),
        ];
        for (n, (f, reference)) in cases.into_iter().enumerate() {
            // SAFETY: as above.
            unsafe { f(&x, &y, &mut got) };
            for i in 0..x.len() {
                let e = ulp32(got[i], reference(x[i].into(), y[i].into()));
                if e > 0.502 {
                    let name = ["pow", "atan2"][n];
                    failed.push(format!(
                        "{name} {level:?} {:e} {:e}: {:e}: {e} ulp",
                        x[i], y[i], got[i]
                    ));
                }
            }
        }
    }
    failed.truncate(20);
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn the_scalar_functions_have_their_special_values() {
    let inf = f32::INFINITY;
    let cases: [(&str, f32, f32); 17] = [
        ("erfinv", 0.0, 0.0),
        ("erfinv", -0.0, -0.0),
        ("erfinv", 1.0, inf),
        ("erfinv", -1.0, -inf),
        ("erfinv", 1.5, f32::NAN),
        ("erfinv", f32::NAN, f32::NAN),
        ("lgamma", 1.0, 0.0),
        ("lgamma", 2.0, 0.0),
        ("lgamma", 0.0, inf),
        ("lgamma", -3.0, inf),
        ("lgamma", inf, inf),
        ("lgamma", -inf, inf),
        ("digamma", 0.0, -inf),
        ("digamma", -0.0, inf),
        ("digamma", -2.0, f32::NAN),
        ("digamma", inf, inf),
        ("digamma", f32::NAN, f32::NAN),
    ];
    for (name, x, want) in cases {
        let mut got = [0.0];
        single(name, Level::Base)(&[x], &mut got);
        assert_eq!(ulp32(got[0], want.into()), 0.0, "{name} {x}: {}", got[0]);
        let mut got = [0.0];
        double(name, Level::Base)(&[x.into()], &mut got);
        assert_eq!(ulp64(got[0], want.into()), 0, "{name} {x}: {}", got[0]);
    }
}

#[test]
fn exponentials_of_numbers_not_above_0_are_exact_to_an_ulp() {
    let mut x: Vec<f32> = (0..200_000).map(|i| i as f32 * -5.5e-4).collect();
    x.extend([-0.0, -1e-30, -87.4, -103.9, -104.5, -1e30, f32::MIN]);
    x.extend([f32::NEG_INFINITY, f32::NAN]);
    let mut got = vec![0.0; x.len()];
    for level in levels() {
        single("exp_low", level)(&x, &mut got);
        for (&x, &got) in x.iter().zip(&got) {
            let want = f64::from(x).exp();
            assert!(
                ulp32(got, want) <= 1.0,
                "{level:?} {x:e}: {got:e}, not {want:e}"
            );
        }
        // Below, both give 0, but for the factor.
        let above: Vec<f32> = x.iter().copied().filter(|&x| x > -104.0).collect();
        single("exp_raised", level)(&above, &mut got[..above.len()]);
        for (&x, &got) in above.iter().zip(&got) {
            let want = f64::from(x).exp() * f64::from(<f32 as VMath>::RAISED);
            assert!(
                ulp32(got, want) <= 1.0,
                "{level:?} {x:e}: {got:e}, not {want:e}"
            );
        }
    }
}

#[test]
fn normal_probabilities_are_exact_to_4e_7() {
    let mut x: Vec<f32> = (-70_000..=70_000).map(|i| i as f32 * 1e-4).collect();
    x.extend([0.0, -0.0, 1e-40, -1e-20, 1e10, -1e30]);
    let mut got = vec![0.0; x.len()];
    for level in levels() {
        single("erf_normal", level)(&x, &mut got);
        for (&x, &got) in x.iter().zip(&got) {
            let want = libm::erf(f64::from(x) * std::f64::consts::FRAC_1_SQRT_2);
            let error = (f64::from(got) - want).abs();
            // Near 0 the error is relative, so that the density there is right.
            let bound = 4e-7_f64.min(5e-7 * want.abs() + 1e-44);
            assert!(error <= bound, "{level:?} {x:e}: {got:e}, not {want:e}");
            assert!(got.abs() <= 1.0 && got.is_sign_negative() == x.is_sign_negative());
        }
        let mut ends = [0.0; 3];
        single("erf_normal", level)(&[f32::INFINITY, f32::NEG_INFINITY, f32::NAN], &mut ends);
        assert_eq!(ends[..2], [1.0, -1.0]);
        assert!(ends[2].is_nan());
    }
}
