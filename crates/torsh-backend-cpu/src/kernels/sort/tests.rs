use torsh_core::attrs::{self, Attributes};
use torsh_core::{DType, Element, Kernel, View, pool};

use super::Ordered;

fn random(n: usize, seed: u64) -> impl Iterator<Item = u64> {
    let mut state = seed;
    (0..n).map(move |_| {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        state ^ state >> 29
    })
}

/// Runs a kernel on one line of every `step`-th element.
fn run<T: Element>(
    kernel: Kernel,
    line: &[T],
    step: usize,
    k: usize,
    flag: bool,
) -> (Vec<T>, Vec<i64>) {
    let mut spread: Vec<T> = line.iter().flat_map(|&x| vec![x; step]).collect();
    let mut values = vec![T::default(); k];
    let mut indices = vec![-1i64; k];
    // SAFETY: the buffers of the test outlive the call.
    let view = |ptr, dtype, shape, strides| unsafe { View::new(ptr, dtype, shape, strides) };
    let (n, size, s) = ([line.len()], [k], [step as isize]);
    let outputs = [
        view(values.as_mut_ptr().cast(), T::DTYPE, &size[..], &[1]),
        view(indices.as_mut_ptr().cast(), DType::I64, &size[..], &[1]),
    ];
    let input = view(spread.as_mut_ptr().cast(), T::DTYPE, &n[..], &s[..]);
    let attrs: &dyn Attributes = match kernel {
        Kernel::Sort => &attrs::Sort {
            dim: 0,
            descending: flag,
        },
        _ => &attrs::Topk {
            dim: 0,
            largest: flag,
            k: k as i64,
        },
    };
    crate::testing::run(kernel, T::DTYPE, &outputs, &[input], attrs).expect("runs");
    (values, indices)
}

/// Both kernels against a stable comparison sort of the keys; elements are compared by their bits.
fn check<T: Element + Ordered>(line: &[T], bits: impl Fn(T) -> u64) {
    check_by(line, T::key, bits);
}

/// [`check`], by the keys that a function gives.
fn check_by<T: Element>(line: &[T], key: impl Fn(T) -> u64, bits: impl Fn(T) -> u64) {
    for flag in [false, true] {
        let mut expected: Vec<usize> = (0..line.len()).collect();
        expected.sort_by(|&a, &b| {
            let order = key(line[a]).cmp(&key(line[b]));
            if flag { order.reverse() } else { order }
        });
        let same = |(values, indices): (Vec<T>, Vec<i64>)| {
            for ((v, i), &e) in values.iter().zip(&indices).zip(&expected) {
                assert_eq!(*i, e as i64);
                assert_eq!(bits(*v), bits(line[e]));
            }
        };
        for step in [1, 3] {
            same(run(Kernel::Sort, line, step, line.len(), flag));
            for k in [1, 10, line.len() / 3, line.len()] {
                if k <= line.len() && T::DTYPE != DType::Bool {
                    same(run(Kernel::Topk, line, step, k, flag));
                }
            }
        }
    }
}

#[torsh_macros::unit_test]
fn sorts_lines_of_every_length_and_type() {
    for n in [0, 1, 2, 31, 33, 511, 512, 1000, 5000, 70_000] {
        let seed = n as u64 + 1;
        let floats: Vec<f32> = random(n, seed)
            .map(|r| match r % 11 {
                0 => f32::NAN,
                1 => -0.0,
                2 => 0.0,
                3 => f32::NEG_INFINITY,
                4 => f32::from_bits(0xffc0_0001),
                _ => f32::from_bits((r >> 32) as u32),
            })
            .collect();
        check(&floats, |x| x.to_bits() as u64);
        let doubles: Vec<f64> = random(n, seed).map(|r| r as i64 as f64 * 1e-9).collect();
        check(&doubles, f64::to_bits);
        let halves: Vec<half::f16> = random(n, seed)
            .map(|r| half::f16::from_bits((r >> 40) as u16))
            .collect();
        check(&halves, |x| x.to_bits() as u64);
        let bytes: Vec<u8> = random(n, seed).map(|r| (r >> 50) as u8).collect();
        check(&bytes, |x| x as u64);
        let bools: Vec<bool> = random(n, seed).map(|r| r >> 63 == 1).collect();
        check_by(&bools, |x| x as u64, |x| x as u64);
    }
}

#[torsh_macros::unit_test]
fn sorts_keys_that_differ_in_any_bits() {
    let n = 3000;
    for shift in [0, 8, 20, 33, 52, 60] {
        let ints: Vec<i64> = random(n, 5).map(|r| (r >> shift) as i64).collect();
        check(&ints, |x| x as u64);
        let high: Vec<i64> = ints.iter().map(|x| x << shift).collect();
        check(&high, |x| x as u64);
        // One far key, the others near: the counted bits tell almost nothing.
        let mut far = ints.clone();
        far[7] = i64::MIN;
        check(&far, |x| x as u64);
    }
    check(&vec![42i64; n], |x| x as u64);
}

#[torsh_macros::unit_test]
fn threads_sharing_a_line_change_nothing() {
    let before = pool::num_threads();
    let floats: Vec<f32> = random(140_000, 3)
        .map(|r| ((r >> 40) % 5000) as f32 - 2500.0)
        .collect();
    let doubles: Vec<f64> = random(100_000, 4).map(|r| (r >> 3) as f64 / 7.0).collect();
    for threads in [1, 2, 3] {
        pool::set_num_threads(threads).expect("not 0");
        check(&floats, |x| x.to_bits() as u64);
        check(&doubles, f64::to_bits);
    }
    pool::set_num_threads(before).expect("not 0");
}
