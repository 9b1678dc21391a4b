use torsh_core::attrs::{self, Attributes};
use torsh_core::{DType, Element, Kernel, View};

use crate::testing::run;

fn call<T: Element, O: Element>(
    k: Kernel,
    x: &[T],
    shape: &[usize],
    strides: &[isize],
    dim: usize,
) -> (Vec<O>, Vec<i64>) {
    let n: usize = shape.iter().product();
    let mut out_strides = vec![1isize; shape.len()];
    for d in (1..shape.len()).rev() {
        out_strides[d - 1] = out_strides[d] * shape[d] as isize;
    }
    let (mut first, mut second) = (vec![O::default(); n], vec![-7i64; n]);
    // SAFETY: the buffers of the test outlive the call.
    let view = |ptr: *mut u8, dtype| unsafe { View::new(ptr, dtype, shape, &out_strides) };
    let outs = [
        view(first.as_mut_ptr().cast(), O::DTYPE),
        view(second.as_mut_ptr().cast(), DType::I64),
    ];
    // SAFETY: the buffers of the test outlive the call.
    let input = unsafe { View::new(x.as_ptr() as *mut u8, T::DTYPE, shape, strides) };
    let attrs: &dyn Attributes = match k {
        Kernel::CumSum | Kernel::CumProd => &attrs::CumSum { dim, dtype: None },
        _ => &attrs::Scan { dim },
    };
    let count = if matches!(k, Kernel::CumMax | Kernel::CumMin) {
        2
    } else {
        1
    };
    run(k, T::DTYPE, &outs[..count], &[input], attrs).expect("supported");
    (first, second)
}

/// Checks each line of a 3-d scan.
fn lines(
    shape: &[usize],
    strides: &[isize],
    dim: usize,
    mut check: impl FnMut(&[usize], &[usize]),
) {
    let n: usize = shape.iter().product();
    let at = |mut i: usize| {
        let mut c = vec![0; shape.len()];
        for d in (0..shape.len()).rev() {
            c[d] = i % shape[d];
            i /= shape[d];
        }
        c
    };
    for i in 0..n {
        let mut c = at(i);
        if c[dim] != 0 {
            continue;
        }
        let step: usize = shape[dim + 1..].iter().product();
        let outs: Vec<usize> = (0..shape[dim]).map(|r| i + r * step).collect();
        let ins: Vec<usize> = (0..shape[dim])
            .map(|r| {
                c[dim] = r;
                c.iter().zip(strides).map(|(&c, &s)| c * s as usize).sum()
            })
            .collect();
        check(&ins, &outs);
    }
}

#[torsh_macros::unit_test]
fn scans_agree_with_naive_ones() {
    for (shape, strides) in [
        (vec![6usize, 7, 40], vec![280isize, 40, 1]),
        (vec![6, 7, 40], vec![1, 6, 42]),
        (vec![2, 600, 3], vec![1800, 3, 1]),
        (vec![1, 1, 1000], vec![1, 1, 3]),
    ] {
        let n = 1 + shape
            .iter()
            .zip(&strides)
            .map(|(&n, &s)| (n - 1) * s as usize)
            .sum::<usize>();
        let x: Vec<f32> = (0..n)
            .map(|i| ((i * 7919) % 31) as f32 / 10.0 - 1.5)
            .collect();
        let ints: Vec<i16> = x.iter().map(|v| (v * 10.0) as i16).collect();
        for dim in 0..3 {
            let (sum, _) = call::<f32, f32>(Kernel::CumSum, &x, &shape, &strides, dim);
            let (isum, _) = call::<i16, i64>(Kernel::CumSum, &ints, &shape, &strides, dim);
            let (prod, _) = call::<f32, f32>(Kernel::CumProd, &x, &shape, &strides, dim);
            let (lse, _) = call::<f32, f32>(Kernel::LogCumSumExp, &x, &shape, &strides, dim);
            let (top, at) = call::<f32, f32>(Kernel::CumMax, &x, &shape, &strides, dim);
            lines(&shape, &strides, dim, |ins, outs| {
                let (mut s, mut t, mut p, mut e, mut m) = (0.0f64, 0i64, 1.0f64, 0.0f64, 0);
                for (r, (&i, &o)) in ins.iter().zip(outs).enumerate() {
                    s += x[i] as f64;
                    t += ints[i] as i64;
                    p *= x[i] as f64;
                    e += (x[i] as f64).exp();
                    m = if x[i] >= x[ins[m]] { r } else { m };
                    assert!((sum[o] as f64 - s).abs() < 1e-5 * (1.0 + s.abs()));
                    assert_eq!(isum[o], t);
                    assert!((prod[o] as f64 - p).abs() < 1e-5 * (1.0 + p.abs()));
                    assert!((lse[o] as f64 - e.ln()).abs() < 1e-5);
                    assert_eq!((top[o], at[o]), (x[ins[m]], m as i64));
                }
            });
        }
    }
}

#[torsh_macros::unit_test]
fn nan_stays_and_infinities_do_not_make_any() {
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let (v, i) = call::<f64, f64>(Kernel::CumMin, &[3.0, nan, 1.0, nan, 2.0], &[5], &[1], 0);
    assert!(v[0] == 3.0 && v[1..].iter().all(|x| x.is_nan()));
    assert_eq!(i, [0, 1, 1, 3, 3]);
    let (v, _) = call::<f64, f64>(
        Kernel::LogCumSumExp,
        &[-inf, -inf, 2.0, inf, inf],
        &[5],
        &[1],
        0,
    );
    assert_eq!(v, [-inf, -inf, 2.0, inf, inf]);
}
