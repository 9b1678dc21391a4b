use half::{bf16, f16};
use torsh_core::{Element, Kernel, View, attrs};

use crate::simd::Base;
use crate::testing::run;
use crate::vmath::VMath;

#[torsh_macros::unit_test]
fn exp64_is_within_two_ulp() {
    for i in -75_000..71_500 {
        let x = i as f64 * 0.00993;
        let want = x.exp();
        let got = VMath::exp_low::<Base>(x);
        let ulp = f64::from_bits(want.to_bits() + 1) - want;
        assert!(
            got == want || (got - want).abs() <= 2.0 * ulp,
            "{x}: {got} for {want}"
        );
    }
    assert_eq!(VMath::exp_low::<Base>(f64::NEG_INFINITY), 0.0);
    assert_eq!(VMath::exp_low::<Base>(f64::INFINITY), f64::INFINITY);
    assert!(VMath::exp_low::<Base>(f64::NAN).is_nan());
    assert_eq!(VMath::exp_low::<Base>(0.0), 1.0);
}

fn call<T: Element>(
    k: Kernel,
    xs: &[&[T]],
    shape: &[usize],
    strides: &[isize],
    dim: usize,
) -> Vec<T> {
    let n: usize = shape.iter().product();
    let mut out_strides = vec![1isize; shape.len()];
    for d in (1..shape.len()).rev() {
        out_strides[d - 1] = out_strides[d] * shape[d] as isize;
    }
    let mut out = vec![T::default(); n];
    // SAFETY: the buffers of the test outlive the call.
    let view = unsafe { View::new(out.as_mut_ptr().cast(), T::DTYPE, shape, &out_strides) };
    let inputs: Vec<View<'_>> = xs
        .iter()
        // SAFETY: the buffers of the test outlive the call.
        .map(|x| unsafe { View::new(x.as_ptr() as *mut u8, T::DTYPE, shape, strides) })
        .collect();
    run(k, T::DTYPE, &[view], &inputs, &attrs::Softmax { dim }).expect("supported");
    out
}

fn check<T: Element>(from: impl Fn(f64) -> T, to: impl Fn(T) -> f64, tol: f64) {
    for (shape, strides) in [
        (vec![5usize, 7, 100], vec![700isize, 100, 1]),
        (vec![5, 7, 100], vec![1, 5, 35]),
        (vec![70, 40, 3], vec![120, 3, 1]),
        (vec![3, 33, 64], vec![33 * 128, 128, 2]),
        (vec![1, 2, 3000], vec![6000, 3000, 1]),
    ] {
        let n = 1 + shape
            .iter()
            .zip(&strides)
            .map(|(&n, &s)| (n - 1) * s as usize)
            .sum::<usize>();
        let x: Vec<T> = (0..n)
            .map(|i| from(((i * 7919) % 61) as f64 / 10.0 - 3.0))
            .collect();
        let g: Vec<T> = (0..n)
            .map(|i| from(((i * 104_729) % 47) as f64 / 47.0 - 0.5))
            .collect();
        for dim in 0..3 {
            let soft = call(Kernel::Softmax, &[&x], &shape, &strides, dim);
            let log = call(Kernel::LogSoftmax, &[&x], &shape, &strides, dim);
            // Any numbers do as y: x itself.
            let back = call(Kernel::SoftmaxBackward, &[&g, &x], &shape, &strides, dim);
            let log_back = call(Kernel::LogSoftmaxBackward, &[&g, &x], &shape, &strides, dim);
            let step: usize = shape[dim + 1..].iter().product();
            for first in 0..soft.len() {
                if !(first / step).is_multiple_of(shape[dim]) {
                    continue;
                }
                let outs: Vec<usize> = (0..shape[dim]).map(|r| first + r * step).collect();
                let ins: Vec<usize> = outs
                    .iter()
                    .map(|&o| {
                        let mut rest = o;
                        let mut at = 0;
                        for d in (0..3).rev() {
                            at += rest % shape[d] * strides[d] as usize;
                            rest /= shape[d];
                        }
                        at
                    })
                    .collect();
                let v = |a: &[T], i: usize| to(a[i]);
                let total: f64 = ins.iter().map(|&i| v(&x, i).exp()).sum();
                let gy: f64 = ins.iter().map(|&i| v(&g, i) * v(&x, i)).sum();
                let gs: f64 = ins.iter().map(|&i| v(&g, i)).sum();
                for (&i, &o) in ins.iter().zip(&outs) {
                    let near = |got: T, want: f64, extra: f64, what: &str| {
                        let got = to(got);
                        assert!(
                            (got - want).abs() <= tol * (want.abs() + extra),
                            "{what} {shape:?} {dim}: {got} for {want}"
                        );
                    };
                    near(soft[o], v(&x, i).exp() / total, 1e-4, "softmax");
                    near(log[o], v(&x, i) - total.ln(), 1.0, "log_softmax");
                    near(
                        back[o],
                        (v(&g, i) - gy) * v(&x, i),
                        10.0,
                        "softmax backward",
                    );
                    near(
                        log_back[o],
                        v(&g, i) - v(&x, i).exp() * gs,
                        20.0,
                        "log_softmax backward",
                    );
                }
            }
        }
    }
}

#[torsh_macros::unit_test]
fn agrees_with_the_definition() {
    check::<f64>(|x| x, |x| x, 1e-13);
    check::<f32>(|x| x as f32, |x| x as f64, 2e-6);
    check::<f16>(f16::from_f64, |x| x.to_f64(), 2e-3);
    check::<bf16>(bf16::from_f64, |x| x.to_f64(), 1e-2);
}

#[torsh_macros::unit_test]
fn extreme_rows() {
    let inf = f32::INFINITY;
    let y = call(
        Kernel::Softmax,
        &[&[1000.0f32, -1000.0, -inf, 1000.0]],
        &[4],
        &[1],
        0,
    );
    assert_eq!(y, [0.5, 0.0, 0.0, 0.5]);
    let y = call(Kernel::Softmax, &[&[-inf, -inf]], &[2], &[1], 0);
    assert!(y.iter().all(|v| v.is_nan()));
    assert_eq!(call(Kernel::Softmax, &[&[3.0f32]], &[], &[], 0), [1.0]);
    let y = call(Kernel::LogSoftmax, &[&[0.0f32, -1000.0]], &[2], &[1], 0);
    assert_eq!(y, [0.0, -1000.0]);
}
