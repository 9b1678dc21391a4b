//! Every reduction against a naive one, over layouts, shapes that cross block borders, and dtypes.

use half::{bf16, f16};
use num_complex::Complex;
use torsh_core::attrs::{self, Attributes, Ints, NONE};
use torsh_core::{DType, Element, Kernel, Result, View};

use crate::testing::run;

/// Calls a kernel on `x` of this shape and strides, reducing `dims`.
fn call<T: Element, O: Element>(
    k: Kernel,
    x: &[T],
    shape: &[usize],
    strides: &[isize],
    dims: &[usize],
    attrs: &dyn Attributes,
    outs: usize,
) -> Result<(Vec<O>, Vec<i64>)> {
    let out_shape: Vec<usize> = shape
        .iter()
        .enumerate()
        .map(|(d, &n)| if dims.contains(&d) { 1 } else { n })
        .collect();
    let n: usize = out_shape.iter().product();
    let mut out_strides = vec![1isize; shape.len()];
    for d in (1..shape.len()).rev() {
        out_strides[d - 1] = out_strides[d] * out_shape[d] as isize;
    }
    let mut first = vec![O::default(); n];
    let mut second = vec![-7i64; n];
    // SAFETY: the buffers of the test outlive the call.
    let view = |ptr: *mut u8, dtype| unsafe { View::new(ptr, dtype, &out_shape, &out_strides) };
    let out = [
        view(first.as_mut_ptr().cast(), O::DTYPE),
        view(second.as_mut_ptr().cast(), DType::I64),
    ];
    // SAFETY: the buffers of the test outlive the call.
    let input = unsafe { View::new(x.as_ptr() as *mut u8, T::DTYPE, shape, strides) };
    run(k, T::DTYPE, &out[..outs], &[input], attrs)?;
    Ok((first, second))
}

// Kernels see from the shapes which dimensions are reduced.

fn var_of(correction: f64, root: bool) -> attrs::Var {
    let (dims, keepdim) = (Ints::default(), true);
    attrs::Var {
        dims,
        keepdim,
        correction,
        root,
    }
}

fn norm(p: f64) -> attrs::Norm {
    let (dims, keepdim) = (Ints::default(), true);
    attrs::Norm { dims, keepdim, p }
}

fn median(ignore_nan: bool) -> attrs::Median {
    let (dims, keepdim) = (Ints::default(), true);
    attrs::Median {
        dims,
        keepdim,
        ignore_nan,
    }
}

fn kth(k: usize) -> attrs::KthValue {
    let (dims, keepdim) = (Ints::default(), true);
    attrs::KthValue { dims, keepdim, k }
}

/// The elements of each result, in order.
fn groups<T: Copy>(x: &[T], shape: &[usize], strides: &[isize], dims: &[usize]) -> Vec<Vec<T>> {
    let kept: Vec<usize> = (0..shape.len()).filter(|d| !dims.contains(d)).collect();
    let red: Vec<usize> = (0..shape.len()).filter(|d| dims.contains(d)).collect();
    let offset = |set: &[usize], mut i: usize| {
        let mut o = 0;
        for &d in set.iter().rev() {
            o += (i % shape[d]) as isize * strides[d];
            i /= shape[d];
        }
        o
    };
    let count = |set: &[usize]| set.iter().map(|&d| shape[d]).product::<usize>();
    (0..count(&kept))
        .map(|k| {
            (0..count(&red))
                .map(|r| x[(offset(&kept, k) + offset(&red, r)) as usize])
                .collect()
        })
        .collect()
}

/// Shapes, strides and reduced dimensions that reach every mode of the driver.
fn layouts() -> Vec<(Vec<usize>, Vec<isize>, Vec<usize>)> {
    vec![
        (vec![], vec![], vec![]),
        (vec![5], vec![1], vec![0]),
        (vec![5], vec![1], vec![]),
        (vec![100], vec![1], vec![0]),
        (vec![70_001], vec![1], vec![0]),
        (vec![9_001], vec![3], vec![0]),
        (vec![300, 1000], vec![1000, 1], vec![1]),
        (vec![300, 1000], vec![1000, 1], vec![0]),
        (vec![300, 1000], vec![1, 300], vec![0]),
        (vec![300, 1000], vec![1, 300], vec![1]),
        (vec![300, 1000], vec![1, 300], vec![0, 1]),
        (vec![2, 50_000], vec![50_000, 1], vec![0]),
        (vec![50_000, 2], vec![2, 1], vec![1]),
        (vec![50_000, 3], vec![3, 1], vec![0]),
        (vec![7, 5, 11], vec![55, 11, 1], vec![0, 2]),
        (vec![7, 5, 11], vec![55, 11, 1], vec![1]),
        (vec![40, 30, 50], vec![1500, 50, 1], vec![0, 2]),
        (vec![40, 30, 50], vec![1500, 50, 1], vec![1]),
        (vec![40, 30, 50], vec![1, 2000, 40], vec![0, 1]),
        (vec![3, 4, 20], vec![0, 20, 1], vec![0]),
        (vec![3, 4, 20], vec![80, 20, 0], vec![1]),
        (vec![1, 20_000], vec![1, 2], vec![0]),
    ]
}

fn extent(shape: &[usize], strides: &[isize]) -> usize {
    1 + shape
        .iter()
        .zip(strides)
        .map(|(&n, &s)| (n - 1) * s as usize)
        .sum::<usize>()
}

/// Numbers in [-1, 1], the same every time.
fn numbers(n: usize) -> impl Iterator<Item = f64> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    (0..n).map(move |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    })
}

fn close(got: f64, want: f64, rtol: f64, atol: f64, what: &str) {
    let ok = got == want
        || (got.is_nan() && want.is_nan())
        || (got - want).abs() <= atol + rtol * want.abs();
    assert!(ok, "{what}: {got} for {want}");
}

/// Checks a real reduction with one result in several dtypes.
fn check(k: Kernel, attrs: &dyn Attributes, scale: f64, want: impl Fn(&[f64]) -> f64) {
    for (shape, strides, dims) in layouts() {
        let what = format!("{k:?} {shape:?} {strides:?} {dims:?}");
        let source: Vec<f64> = numbers(extent(&shape, &strides))
            .map(|x| x * scale)
            .collect();
        macro_rules! check_as {
            ($t:ty, $from:expr, $to:expr, $rtol:expr, $atol:expr) => {{
                let x: Vec<$t> = source.iter().map($from).collect();
                let (got, _) =
                    call::<$t, $t>(k, &x, &shape, &strides, &dims, attrs, 1).expect("supported");
                let groups = groups(&x, &shape, &strides, &dims);
                assert_eq!(got.len(), groups.len());
                for (g, group) in got.iter().zip(groups) {
                    let group: Vec<f64> = group.iter().map($to).collect();
                    let atol = $atol * (group.len() as f64).sqrt() * scale;
                    close($to(g), want(&group), $rtol, atol, &what);
                }
            }};
        }
        check_as!(f64, |&x| x, |x: &f64| *x, 1e-12, 1e-13);
        check_as!(f32, |&x| x as f32, |x: &f32| *x as f64, 2e-6, 3e-7);
        if k != Kernel::Prod {
            check_as!(
                bf16,
                |&x| bf16::from_f64(x),
                |x: &bf16| x.to_f64(),
                8e-3,
                1e-7
            );
            check_as!(f16, |&x| f16::from_f64(x), |x: &f16| x.to_f64(), 1e-3, 1e-7);
        }
    }
}

#[torsh_macros::unit_test]
fn sums_and_means() {
    check(Kernel::Sum, NONE, 1.0, |g| g.iter().sum());
    check(Kernel::Mean, NONE, 1.0, |g| {
        g.iter().sum::<f64>() / g.len() as f64
    });
}

#[torsh_macros::unit_test]
fn norms() {
    check(Kernel::Norm, &norm(2.0), 1.0, |g| {
        g.iter().map(|x| x * x).sum::<f64>().sqrt()
    });
    check(Kernel::Norm, &norm(1.0), 0.1, |g| {
        g.iter().map(|x| x.abs()).sum()
    });
    check(Kernel::Norm, &norm(f64::INFINITY), 1.0, |g| {
        g.iter().fold(0.0, |a, x| a.max(x.abs()))
    });
    let least = |g: &[f64]| g.iter().fold(f64::INFINITY, |a, x| a.min(x.abs()));
    check(Kernel::Norm, &norm(f64::NEG_INFINITY), 1.0, least);
    check(Kernel::Norm, &norm(3.5), 1.0, |g| {
        g.iter()
            .map(|x| x.abs().powf(3.5))
            .sum::<f64>()
            .powf(1.0 / 3.5)
    });
}

#[torsh_macros::unit_test]
fn variances() {
    let var = |g: &[f64], c: f64| {
        let m = g.iter().sum::<f64>() / g.len() as f64;
        g.iter().map(|x| (x - m) * (x - m)).sum::<f64>() / (g.len() as f64 - c).max(0.0)
    };
    check(Kernel::Var, &var_of(0.0, false), 1.0, move |g| var(g, 0.0));
    check(Kernel::Var, &var_of(-2.0, true), 1.0, move |g| {
        var(g, -2.0).sqrt()
    });
    // A mean far from zero.
    let x: Vec<f32> = numbers(30_000).map(|v| (1000.0 + v) as f32).collect();
    let wide: Vec<f64> = x.iter().map(|&v| v as f64).collect();
    let attrs = var_of(1.0, false);
    let (got, _) =
        call::<f32, f32>(Kernel::Var, &x, &[30_000], &[1], &[0], &attrs, 1).expect("supported");
    close(
        got[0] as f64,
        var(&wide, 1.0),
        1e-6,
        0.0,
        "shifted variance",
    );
    let (got, _) = call::<f32, f32>(Kernel::Var, &x, &[100, 300], &[300, 1], &[0], &attrs, 1)
        .expect("supported");
    for (j, g) in got.iter().enumerate() {
        let column: Vec<f64> = (0..100).map(|r| wide[r * 300 + j]).collect();
        close(
            *g as f64,
            var(&column, 1.0),
            1e-6,
            0.0,
            "shifted variance of columns",
        );
    }
}

#[torsh_macros::unit_test]
fn logsumexps() {
    let want = |g: &[f64]| {
        let m = g.iter().cloned().fold(f64::NEG_INFINITY, f64::max);
        g.iter().map(|x| (x - m).exp()).sum::<f64>().ln() + m
    };
    check(Kernel::LogSumExp, NONE, 10.0, want);
    let inf = f64::INFINITY;
    for (x, want) in [
        (vec![-inf, -inf], -inf),
        (vec![inf, 900.0], inf),
        (vec![-1000.0, -inf], -1000.0),
        (vec![f64::NAN, inf], f64::NAN),
    ] {
        let (got, _) =
            call::<f64, f64>(Kernel::LogSumExp, &x, &[2], &[1], &[0], NONE, 1).expect("supported");
        close(got[0], want, 1e-15, 0.0, &format!("{x:?}"));
        let wide: Vec<f64> = x.iter().flat_map(|&v| [v; 16]).collect();
        let (got, _) =
            call::<f64, f64>(Kernel::LogSumExp, &wide, &[2, 16], &[16, 1], &[0], NONE, 1)
                .expect("supported");
        close(got[3], want, 1e-15, 0.0, &format!("columns of {x:?}"));
    }
}

#[torsh_macros::unit_test]
fn extremes_with_positions() {
    for (shape, strides, dims) in layouts() {
        let n = extent(&shape, &strides);
        // Few distinct values: many ties; and some NaN in a second round.
        for nan in [false, true] {
            let x: Vec<f32> = numbers(n)
                .enumerate()
                .map(|(i, v)| {
                    if nan && i % 97 == 13 {
                        f32::NAN
                    } else {
                        (v * 50.0).round() as f32
                    }
                })
                .collect();
            for top in [true, false] {
                let (with, alone, plain) = if top {
                    (Kernel::MaxDim, Kernel::ArgMax, Kernel::Max)
                } else {
                    (Kernel::MinDim, Kernel::ArgMin, Kernel::Min)
                };
                let (values, positions) =
                    call::<f32, f32>(with, &x, &shape, &strides, &dims, NONE, 2)
                        .expect("supported");
                let (only, _) = call::<f32, i64>(alone, &x, &shape, &strides, &dims, NONE, 1)
                    .expect("supported");
                let (best, _) = call::<f32, f32>(plain, &x, &shape, &strides, &dims, NONE, 1)
                    .expect("supported");
                for (i, group) in groups(&x, &shape, &strides, &dims).iter().enumerate() {
                    let mut want = 0;
                    for (j, v) in group.iter().enumerate() {
                        let a = group[want];
                        if !a.is_nan() && (v.is_nan() || (if top { *v > a } else { *v < a })) {
                            want = j;
                        }
                    }
                    let what = format!("{with:?} {shape:?} {strides:?} {dims:?} {nan}");
                    assert_eq!(positions[i], want as i64, "{what}");
                    assert_eq!(only[i], want as i64, "{what}");
                    close(values[i] as f64, group[want] as f64, 0.0, 0.0, &what);
                    close(best[i] as f64, group[want] as f64, 0.0, 0.0, &what);
                }
            }
        }
    }
    let (got, _) = call::<i64, i64>(Kernel::Max, &[i64::MIN, 3, 7], &[3], &[1], &[0], NONE, 1)
        .expect("supported");
    assert_eq!(got, [7]);
    let (got, at) =
        call::<u8, u8>(Kernel::MinDim, &[200, 3, 3], &[3], &[1], &[0], NONE, 2).expect("supported");
    assert_eq!((got[0], at[0]), (3, 1));
    let (got, _) = call::<bool, bool>(Kernel::Max, &[false, true], &[2], &[1], &[0], NONE, 1)
        .expect("supported");
    assert_eq!(got, [true]);
    let e = call::<Complex<f32>, Complex<f32>>(
        Kernel::Max,
        &[Complex::new(1.0, 0.0)],
        &[1],
        &[1],
        &[0],
        NONE,
        1,
    );
    assert!(
        e.expect_err("complex has no order")
            .to_string()
            .contains("complex64")
    );
}

#[torsh_macros::unit_test]
fn integers_wrap_and_count() {
    for (shape, strides, dims) in layouts() {
        let x: Vec<i32> = numbers(extent(&shape, &strides))
            .map(|v| (v * 3.0) as i32)
            .collect();
        let groups = groups(&x, &shape, &strides, &dims);
        let (sum, _) =
            call::<i32, i64>(Kernel::Sum, &x, &shape, &strides, &dims, NONE, 1).expect("supported");
        let (mean, _) = call::<i32, f32>(Kernel::Mean, &x, &shape, &strides, &dims, NONE, 1)
            .expect("supported");
        let (count, _) =
            call::<i32, i64>(Kernel::CountNonzero, &x, &shape, &strides, &dims, NONE, 1)
                .expect("supported");
        let (any, _) = call::<i32, bool>(Kernel::Any, &x, &shape, &strides, &dims, NONE, 1)
            .expect("supported");
        let (all, _) = call::<i32, bool>(Kernel::All, &x, &shape, &strides, &dims, NONE, 1)
            .expect("supported");
        for (i, g) in groups.iter().enumerate() {
            let want: i64 = g.iter().map(|&v| v as i64).sum();
            assert_eq!(sum[i], want);
            assert_eq!(mean[i], (want as f64 / g.len() as f64) as f32);
            assert_eq!(count[i], g.iter().filter(|v| **v != 0).count() as i64);
            assert_eq!(any[i], g.iter().any(|v| *v != 0));
            assert_eq!(all[i], g.iter().all(|v| *v != 0));
        }
    }
    let (got, _) = call::<u8, i64>(Kernel::Prod, &[3, 5, 7, 200], &[4], &[1], &[0], NONE, 1)
        .expect("supported");
    assert_eq!(got, [21_000]);
    let (got, _) = call::<bool, i64>(Kernel::Sum, &[true, false, true], &[3], &[1], &[0], NONE, 1)
        .expect("supported");
    assert_eq!(got, [2]);
    assert!(call::<f32, i64>(Kernel::Sum, &[1.5], &[1], &[1], &[0], NONE, 1).is_err());
}

#[torsh_macros::unit_test]
fn complex_numbers() {
    let x: Vec<Complex<f32>> = numbers(2_000)
        .zip(numbers(3_000).skip(1_000))
        .map(|(a, b)| Complex::new(a as f32, b as f32))
        .collect();
    let wide: Vec<Complex<f64>> = x
        .iter()
        .map(|z| Complex::new(z.re as f64, z.im as f64))
        .collect();
    for (shape, strides, dims) in [
        (vec![2000], vec![1], vec![0]),
        (vec![20, 100], vec![100, 1], vec![0]),
        (vec![20, 100], vec![1, 20], vec![0]),
    ] {
        let run = |k| {
            call::<Complex<f32>, Complex<f32>>(k, &x, &shape, &strides, &dims, NONE, 1)
                .expect("supported")
                .0
        };
        let (sum, lse) = (run(Kernel::Sum), run(Kernel::LogSumExp));
        let attrs = var_of(1.0, false);
        let real = |k, attrs: &dyn Attributes| {
            call::<Complex<f32>, f32>(k, &x, &shape, &strides, &dims, attrs, 1)
                .expect("supported")
                .0
        };
        let (var, norm) = (real(Kernel::Var, &attrs), real(Kernel::Norm, &norm(2.0)));
        for (i, g) in groups(&wide, &shape, &strides, &dims).iter().enumerate() {
            let want: Complex<f64> = g.iter().sum();
            let m = want / g.len() as f64;
            close(sum[i].re as f64, want.re, 1e-5, 1e-4, "sum");
            close(sum[i].im as f64, want.im, 1e-5, 1e-4, "sum");
            let want = g.iter().map(|z| z.exp()).sum::<Complex<f64>>().ln();
            close(lse[i].re as f64, want.re, 1e-5, 1e-5, "logsumexp");
            close(lse[i].im as f64, want.im, 1e-5, 1e-5, "logsumexp");
            let want = g.iter().map(|z| (z - m).norm_sqr()).sum::<f64>() / (g.len() as f64 - 1.0);
            close(var[i] as f64, want, 1e-5, 0.0, "var");
            close(
                norm[i] as f64,
                g.iter().map(|z| z.norm_sqr()).sum::<f64>().sqrt(),
                1e-5,
                0.0,
                "norm",
            );
        }
    }
}

#[torsh_macros::unit_test]
fn nothing_to_reduce() {
    let one = |k, attrs: &dyn Attributes| {
        call::<f32, f32>(k, &[], &[3, 0], &[0, 1], &[1], attrs, 1)
            .expect("supported")
            .0
    };
    assert_eq!(one(Kernel::Sum, NONE), [0.0; 3]);
    assert_eq!(one(Kernel::Prod, NONE), [1.0; 3]);
    assert!(one(Kernel::Mean, NONE).iter().all(|x| x.is_nan()));
    assert!(
        one(Kernel::Var, &var_of(1.0, false))
            .iter()
            .all(|x| x.is_nan())
    );
    assert_eq!(one(Kernel::LogSumExp, NONE), [f32::NEG_INFINITY; 3]);
    assert_eq!(one(Kernel::Norm, &norm(2.0)), [0.0; 3]);
    assert!(
        one(Kernel::Median, &median(false))
            .iter()
            .all(|x| x.is_nan())
    );
    let (all, _) =
        call::<f32, bool>(Kernel::All, &[], &[0], &[1], &[0], NONE, 1).expect("supported");
    assert_eq!(all, [true]);
}

#[torsh_macros::unit_test]
fn not_a_number() {
    let nan = f32::NAN;
    let x = [1.0, nan, 2.0, -0.0];
    let one = |k, attrs: &dyn Attributes| {
        call::<f32, f32>(k, &x, &[4], &[1], &[0], attrs, 1)
            .expect("supported")
            .0[0]
    };
    assert_eq!(one(Kernel::NanSum, NONE), 3.0);
    assert!(one(Kernel::Max, NONE).is_nan() && one(Kernel::Sum, NONE).is_nan());
    assert!(one(Kernel::Norm, &norm(f64::INFINITY)).is_nan());
    let (count, _) =
        call::<f32, i64>(Kernel::CountNonzero, &x, &[4], &[1], &[0], NONE, 1).expect("supported");
    assert_eq!(count, [3]);
    let select = |k, attrs: &dyn Attributes| {
        let (v, i) = call::<f32, f32>(k, &x, &[4], &[1], &[0], attrs, 2).expect("supported");
        (v[0], i[0])
    };
    assert_eq!(select(Kernel::Median, &median(false)).1, 1);
    assert_eq!(select(Kernel::Median, &median(true)), (1.0, 0));
    assert_eq!(select(Kernel::KthValue, &kth(3)), (2.0, 2));
    assert_eq!(select(Kernel::KthValue, &kth(4)).1, 1);
}

#[torsh_macros::unit_test]
fn order_statistics() {
    for (shape, strides, dims) in layouts() {
        let x: Vec<i16> = numbers(extent(&shape, &strides))
            .map(|v| (v * 20.0) as i16)
            .collect();
        let run = |k, attrs: &dyn Attributes| {
            call::<i16, i16>(k, &x, &shape, &strides, &dims, attrs, 2).expect("supported")
        };
        let (median, at) = run(Kernel::Median, &median(false));
        let (second, _) = run(Kernel::KthValue, &kth(2));
        let (mode, mode_at) = run(Kernel::Mode, NONE);
        for (i, g) in groups(&x, &shape, &strides, &dims).iter().enumerate() {
            let mut sorted = g.clone();
            sorted.sort();
            assert_eq!(median[i], sorted[(g.len() - 1) / 2]);
            assert_eq!(g[at[i] as usize], median[i]);
            assert_eq!(second[i], sorted[1.min(g.len() - 1)]);
            let count =
                |v: i16| sorted.partition_point(|&x| x <= v) - sorted.partition_point(|&x| x < v);
            let most = sorted.iter().map(|&v| count(v)).max().expect("not empty");
            assert_eq!(sorted.iter().find(|v| count(**v) == most), Some(&mode[i]));
            assert_eq!(g[mode_at[i] as usize], mode[i]);
            if g.len() > 1000 {
                break;
            }
        }
    }
}

#[torsh_macros::unit_test]
fn products() {
    for (shape, strides, dims) in layouts() {
        let x: Vec<f32> = numbers(extent(&shape, &strides))
            .map(|v| 1.0 + v as f32 * 1e-3)
            .collect();
        let (got, _) = call::<f32, f32>(Kernel::Prod, &x, &shape, &strides, &dims, NONE, 1)
            .expect("supported");
        for (g, group) in got.iter().zip(groups(&x, &shape, &strides, &dims)) {
            close(
                *g as f64,
                group.iter().map(|&v| v as f64).product(),
                1e-3,
                0.0,
                "prod",
            );
        }
    }
}

#[torsh_macros::unit_test]
fn outputs_may_be_strided() {
    let x: Vec<f32> = (0..60).map(|v| v as f32).collect();
    let mut out = [0.5f32; 40];
    let shape = [20usize, 1];
    // SAFETY: the buffers of the test outlive the call.
    let view = unsafe { View::new(out.as_mut_ptr().cast(), DType::F32, &shape, &[2, 1]) };
    // SAFETY: the buffers of the test outlive the call.
    let input = unsafe { View::new(x.as_ptr() as *mut u8, DType::F32, &[20, 3], &[3, 1]) };
    run(Kernel::Sum, DType::F32, &[view], &[input], NONE).expect("supported");
    for i in 0..20 {
        assert_eq!(out[2 * i], (9 * i + 3) as f32);
        assert_eq!(out[2 * i + 1], 0.5);
    }
}

#[torsh_macros::unit_test]
fn large_sums_are_accurate() {
    let n = 1 << 22;
    let x = vec![0.1f32; n];
    let (got, _) = call::<f32, f32>(Kernel::Sum, &x, &[n], &[1], &[0], NONE, 1).expect("supported");
    close(got[0] as f64, 0.1f32 as f64 * n as f64, 2e-7, 0.0, "sum");
    let (got, _) =
        call::<f32, f32>(Kernel::Sum, &x, &[n / 4, 4], &[4, 1], &[0], NONE, 1).expect("supported");
    close(
        got[2] as f64,
        0.1f32 as f64 * n as f64 / 4.0,
        2e-7,
        0.0,
        "sum of columns",
    );
}

/// Of whole numbers, so that sums are exact whatever their order.
#[torsh_macros::unit_test]
fn rows_of_every_short_length() {
    for n in (1..70usize).chain([127, 128, 191]) {
        for rows in [15usize, 16, 300] {
            let x: Vec<f32> = (0..rows * n).map(|i| (i * 37 % 101) as f32).collect();
            let (shape, strides) = ([rows, n], [n as isize, 1]);
            let sums = call::<f32, f32>(Kernel::Sum, &x, &shape, &strides, &[1], NONE, 1);
            let tops = call::<f32, f32>(Kernel::Max, &x, &shape, &strides, &[1], NONE, 1);
            let (sums, tops) = (sums.expect("supported").0, tops.expect("supported").0);
            let wide: Vec<f64> = x.iter().map(|&v| f64::from(v)).collect();
            let wide = call::<f64, f64>(Kernel::Sum, &wide, &shape, &strides, &[1], NONE, 1);
            let whole: Vec<i64> = x.iter().map(|&v| v as i64).collect();
            let whole = call::<i64, i64>(Kernel::Sum, &whole, &shape, &strides, &[1], NONE, 1);
            let (wide, whole) = (wide.expect("supported").0, whole.expect("supported").0);
            for (r, row) in x.chunks(n).enumerate() {
                assert_eq!(sums[r], row.iter().sum::<f32>(), "{rows} {n}");
                assert_eq!(wide[r], f64::from(sums[r]), "{rows} {n}");
                assert_eq!(whole[r], sums[r] as i64, "{rows} {n}");
                assert_eq!(
                    tops[r],
                    row.iter().copied().fold(0.0, f32::max),
                    "{rows} {n}"
                );
            }
        }
    }
}

/// So many elements that they are folded in parts, every other time from the last to the first.
#[torsh_macros::unit_test]
fn long_ones_are_the_same_either_way() {
    let n = 5 * 65_536 + 4096 + 77;
    let mut x: Vec<f32> = (0..n).map(|i| (i * 7919 % 1009) as f32 - 500.3).collect();
    x[200_000] = 1e6;
    x[300_000] = 1e6;
    let of = |k, attrs: &dyn Attributes, outs| {
        let all = [n];
        let run = || call::<f32, f32>(k, &x, &all, &[1], &[0], attrs, outs).expect("a fold");
        let first = run();
        assert!((0..3).all(|_| run() == first), "{k:?}");
        first
    };
    let want: f64 = x.iter().map(|&v| f64::from(v)).sum();
    let got = f64::from(of(Kernel::Sum, NONE, 1).0[0]);
    assert!((got - want).abs() < 1e-6 * want.abs(), "{got} {want}");
    let (values, places) = of(Kernel::MaxDim, NONE, 2);
    assert_eq!((values[0], places[0]), (1e6, 200_000));
    let mean = want / n as f64;
    let squares: f64 = x.iter().map(|&v| (f64::from(v) - mean).powi(2)).sum();
    let attrs = var_of(1.0, false);
    let got = f64::from(of(Kernel::Var, &attrs, 1).0[0]);
    let want = squares / (n - 1) as f64;
    assert!((got - want).abs() < 1e-5 * want, "{got} {want}");
}

/// So many rows that columns are folded in bands, and rows and bands every other time from the last to
/// the first.
#[torsh_macros::unit_test]
fn columns_and_rows_of_large_ones_are_the_same_either_way() {
    let shape = [1100usize, 330];
    let x: Vec<f32> = (0..shape[0] * shape[1])
        .map(|i| (i * 7919 % 1009) as f32 - 500.3)
        .collect();
    let at = |dim: usize, j: usize, i: usize| match dim {
        0 => f64::from(x[i * shape[1] + j]),
        _ => f64::from(x[j * shape[1] + i]),
    };
    for dim in [0, 1] {
        let of = |k, attrs: &dyn Attributes, outs| {
            let run = || call::<f32, f32>(k, &x, &shape, &[330, 1], &[dim], attrs, outs);
            let first = run().expect("a fold");
            assert!((0..3).all(|_| run().expect("a fold") == first), "{k:?}");
            first
        };
        let (sums, _) = of(Kernel::Sum, NONE, 1);
        let (values, places) = of(Kernel::MaxDim, NONE, 2);
        let attrs = var_of(1.0, false);
        let (vars, _) = of(Kernel::Var, &attrs, 1);
        let n = shape[dim];
        for j in 0..shape[1 - dim] {
            let all: Vec<f64> = (0..n).map(|i| at(dim, j, i)).collect();
            let sum: f64 = all.iter().sum();
            let size: f64 = all.iter().map(|v| v.abs()).sum();
            assert!((f64::from(sums[j]) - sum).abs() < 1e-6 * size, "{dim} {j}");
            let most = all.iter().copied().fold(f64::MIN, f64::max);
            assert_eq!(f64::from(values[j]), most);
            assert_eq!(
                all.iter().position(|&v| v == most),
                Some(places[j] as usize)
            );
            let mean = sum / n as f64;
            let var = all.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1) as f64;
            assert!((f64::from(vars[j]) - var).abs() < 1e-5 * var, "{dim} {j}");
        }
    }
}
