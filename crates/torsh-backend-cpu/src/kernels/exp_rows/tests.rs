use super::*;
use crate::multiversion;
use crate::simd::Level;

multiversion! {
    #[allow(dead_code)]
    unsafe fn both<A>(x: *const f32, n: usize, out: *mut f32) {
        // SAFETY: the caller's promise: `n` reads, two writes.
        unsafe {
            let top = f32::top::<A>(x, n);
            *out = top;
            *out.add(1) = f32::exp_sum::<A>(x, n, greater(-f32::MAX, top), 64);
        }
    }
}

fn at(level: Level, x: &[f32]) -> [f32; 2] {
    let mut out = [0.0; 2];
    // SAFETY: as long as it says.
    unsafe { both::at(level)(x.as_ptr(), x.len(), out.as_mut_ptr()) };
    out
}

fn levels() -> impl Iterator<Item = Level> {
    Level::ALL.into_iter().filter(|l| l.is_available())
}

#[torsh_macros::unit_test]
fn every_length_at_every_level() {
    let x: Vec<f32> = (0..300)
        .map(|i| ((i * 37 + 11) % 101) as f32 / 4.0 - 20.0)
        .collect();
    for level in levels() {
        for n in 1..x.len() {
            let x = &x[x.len() - n..];
            let top = x.iter().copied().fold(f32::MIN, f32::max);
            let sum: f64 = x.iter().map(|&v| f64::from(v - top).exp()).sum();
            let got = at(level, x);
            assert_eq!(got[0], top, "{level:?} {n}");
            let error = (f64::from(got[1]) / sum - 1.0).abs();
            assert!(error < 5e-7, "{level:?} {n}: {} for {sum}", got[1]);
        }
    }
}

multiversion! {
    #[allow(dead_code)]
    unsafe fn one<A>(x: *const f32) -> f32 {
        // SAFETY: the caller's promise: one read.
        unsafe { f32::exp_sum::<A>(x, 1, 0.0, 0) }
    }
    /// The exponential that is written rather than only summed.
    #[allow(dead_code)]
    unsafe fn stored<A>(x: *const f32) -> f32 {
        // SAFETY: the caller's promise: one read.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            if A::LEVEL == Level::Avx512 {
                let mut e = f32::NAN;
                exp_sum_512::<true>(x, &mut e, 1, 0.0, None);
                return e;
            }
            VMath::exp_low::<A>(*x)
        }
    }
}

/// What is only summed may be less exact the smaller it is.
#[torsh_macros::unit_test]
fn an_exponential_is_exact_to_two_ulp() {
    let from = (0..210_000).map(|i| i as f32 * -5e-4);
    for x in from.chain([-0.0, -1e-30, -87.4, -1e30, f32::MIN]) {
        let want = f64::from(x).exp();
        // The spacing of float32 at the exact value, which for subnormal ones stays what it is.
        let ulp = (want.log2().floor().max(-126.0) - 23.0).exp2();
        for level in levels() {
            // SAFETY: one number is there.
            let got = unsafe { [stored::at(level)(&x), one::at(level)(&x)] };
            let term = (2.0 - f64::from(x)) * want * f64::from(f32::EPSILON);
            for (got, error) in got.into_iter().zip([2.0 * ulp, term.max(2.0 * ulp)]) {
                let got = f64::from(got);
                assert!(
                    (got - want).abs() <= error,
                    "{level:?} {x:e}: {got:e}, not {want:e}"
                );
            }
        }
    }
}

#[torsh_macros::unit_test]
fn what_is_not_finite() {
    let inf = f32::INFINITY;
    for level in levels() {
        for n in [1usize, 5, 16, 70, 130] {
            let mut x = vec![-inf; n];
            assert_eq!(at(level, &x), [-inf, 0.0], "{level:?} {n}");
            x[n - 1] = 3.0;
            assert_eq!(at(level, &x), [3.0, 1.0], "{level:?} {n}");
            x[n / 2] = f32::NAN;
            assert!(at(level, &x)[1].is_nan(), "{level:?} {n}");
            x[n / 2] = inf;
            let got = at(level, &x);
            assert!(got[0] == inf && got[1].is_nan(), "{level:?} {n}");
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[torsh_macros::unit_test]
fn rows_are_scaled_to_their_ends() {
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw")]
    unsafe fn scale(x: *mut f32, n: usize) {
        // SAFETY: the caller's promise.
        unsafe { scale_512(x, n, 0.5, Some(n)) }
    }
    if !crate::testing::has_avx512() {
        return;
    }
    for n in 0..100 {
        let mut x: Vec<f32> = (0..100).map(|i| i as f32).collect();
        // SAFETY: `n` of its numbers.
        unsafe { scale(x.as_mut_ptr(), n) };
        for (i, &v) in x.iter().enumerate() {
            assert_eq!(v, i as f32 * if i < n { 0.5 } else { 1.0 }, "{n}");
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[torsh_macros::unit_test]
fn softmax_past_the_caches_is_that_of_the_definition() {
    #[repr(align(64))]
    struct AlignedRow([f32; 1024]);
    if !crate::testing::has_avx512() {
        return;
    }
    for n in [16, 48, 64, 80, 1024] {
        let x: Vec<f32> = (0..n).map(|i| (i * 37 % 101) as f32 * 0.1).collect();
        let (mut block, mut got) = (vec![0.0; n], AlignedRow([0.0; 1024]));
        // SAFETY: all have `n` numbers, and the result starts a line.
        unsafe { softmax_past_512(x.as_ptr(), block.as_mut_ptr(), got.0.as_mut_ptr(), n) };
        crate::memory::stream::fence();
        let sum: f64 = x.iter().map(|&v| f64::from(v).exp()).sum();
        for (&x, &got) in x.iter().zip(&got.0) {
            let want = f64::from(x).exp() / sum;
            assert!((f64::from(got) - want).abs() <= 1e-6 * want, "{got} {want}");
        }
        assert!(got.0[n..].iter().all(|&v| v == 0.0));
    }
}
