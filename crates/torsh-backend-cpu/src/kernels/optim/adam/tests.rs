use super::*;
use crate::kernels::optim::{FLAGS, NUMBERS, entry};
use crate::testing::has_avx512;
use torsh_core::Kernel;
use torsh_core::attrs::StepPart;

#[torsh_macros::unit_test]
fn roots_are_correctly_rounded() {
    if !has_avx512() {
        return;
    }
    // All numbers of two binades: every significand with an even and an odd exponent.
    for from in (1.0f32.to_bits()..4.0f32.to_bits()).step_by(16) {
        let x: [f32; 16] = std::array::from_fn(|i| f32::from_bits(from + i as u32));
        let mut y = [0f32; 16];
        // SAFETY: the processor has the instructions; there are 16 numbers.
        unsafe { _mm512_storeu_ps(y.as_mut_ptr(), root(_mm512_loadu_ps(x.as_ptr()), !0)) };
        assert_eq!(y, x.map(f32::sqrt));
    }
}

#[torsh_macros::unit_test]
fn quotients_are_correctly_rounded() {
    if !has_avx512() {
        return;
    }
    // Roots of the corrections of the first steps and of a few others.
    let steps = [1, 2, 3, 5, 10, 100, 1000, 3000];
    let corrections = steps.map(|s| (1.0 - 0.999f64.powi(s)).sqrt() as f32);
    for c in corrections.into_iter().chain([0.9999999, 0.70710677, 1.0]) {
        for from in (1.0f32.to_bits()..2.0f32.to_bits()).step_by(16) {
            let x: [f32; 16] = std::array::from_fn(|i| f32::from_bits(from + i as u32));
            let mut y = [0f32; 16];
            // SAFETY: the processor has the instructions; there are 16 numbers.
            unsafe {
                let (all, reciprocal) = (_mm512_set1_ps(c), _mm512_set1_ps(1.0 / c));
                let q = quotient(_mm512_loadu_ps(x.as_ptr()), all, reciprocal);
                _mm512_storeu_ps(y.as_mut_ptr(), q);
            }
            assert_eq!(y, x.map(|x| x / c), "divided by {c}");
        }
    }
}

/// Some numbers of very different size, and what is none, in vectors of its own or among others.
fn odd(i: usize) -> f32 {
    let common = ((i * 7919 % 1009) as f32 - 500.0) / 97.0;
    match i {
        0..16 => 0.0,
        16..32 => common * 1e-25,
        32 => f32::INFINITY,
        48 => f32::NAN,
        64..80 => common * 1e18,
        80 => 1e-22,
        81 => f32::MAX,
        _ => common,
    }
}

#[torsh_macros::unit_test]
fn steps_are_those_of_the_row() {
    if !has_avx512() {
        return;
    }
    const LEN: usize = 1000;
    let row = entry(Kernel::AdamStep).unwrap().loops[0].single;
    for (step, maximize, weight_decay) in [(1, false, 0.0), (7, false, 0.0), (2, true, 0.1)] {
        let mut numbers = [0.0; NUMBERS];
        numbers[..4].copy_from_slice(&[1e-3, 0.9, 0.999, 1e-8]);
        let part = StepPart {
            present: 0b11,
            maximize,
            weight_decay,
            shrink: 0.99,
            step: f64::from(step),
            numbers,
            flags: [false; FLAGS],
        };
        let numbers = StepNumbers {
            part: &part,
            derived: (entry(Kernel::AdamStep).unwrap().derive)(part.numbers, part.step),
        };
        let grad: Vec<f32> = (0..LEN).map(odd).collect();
        let make = || {
            let p: Vec<f32> = (0..LEN).map(|i| odd(i + 100) / 3.0).collect();
            let m: Vec<f32> = (0..LEN).map(|i| odd(i + 200) / 7.0).collect();
            let mut v: Vec<f32> = (0..LEN).map(|i| odd(i + 90).powi(2)).collect();
            v[..16].fill(0.0);
            (v[20], v[130], v[140]) = (-1.0, -0.0, 1e-41);
            [p, m, v]
        };
        assert_eq!(takes(&numbers), !maximize);
        if maximize {
            continue;
        }
        let run = |first: bool| {
            let mut all = make();
            let [p, m, v] = &mut all;
            let mut o = StepOperands::new(p.as_mut_ptr().cast(), grad.as_ptr().cast());
            o.state[0] = m.as_mut_ptr().cast();
            o.state[1] = v.as_mut_ptr().cast();
            // SAFETY: all operands have so many elements.
            unsafe {
                let done = if first { whole(&o, LEN, &numbers) } else { 0 };
                assert_eq!(done, if first { LEN / 16 * 16 } else { 0 });
                row(&o.at(done, 4), LEN - done, &numbers);
            }
            all.map(|x| x.into_iter().map(f32::to_bits).collect::<Vec<_>>())
        };
        for (got, wanted) in run(true).iter().zip(&run(false)) {
            for (i, (&a, &b)) in got.iter().zip(wanted).enumerate() {
                let (x, y) = (f32::from_bits(a), f32::from_bits(b));
                assert!(a == b || x.is_nan() && y.is_nan(), "{i}: {x} and {y}");
            }
        }
    }
}
