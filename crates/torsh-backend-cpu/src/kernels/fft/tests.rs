//! Transforms against sums in higher precision, and the cache of plans.

use num_complex::Complex;
use torsh_core::attrs::{self, FftKind};
use torsh_core::{DType, Kernel, View, shape::Shape};

use super::choose::LinesAlgorithm;
use super::lanes::LaneTransform;
use super::line::{LineTransform, Spec};
use super::plans::FftReal;
use super::split::SplitTransform;
use super::stages::has_radices;
use crate::machine::choice::Algorithm;
use crate::memory::dense::{Ptr, Scratch};
use crate::operations::Force;
use crate::testing::run;

/// Numbers from -1 to 1 that have no pattern.
fn numbers(n: usize, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..n)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
        })
        .collect()
}

/// A number in two doubles.
#[derive(Clone, Copy)]
struct Two(f64, f64);

impl Two {
    fn add(self, o: Two) -> Two {
        let s = self.0 + o.0;
        let b = s - self.0;
        let e = (self.0 - (s - b)) + (o.0 - b) + self.1 + o.1;
        let high = s + e;
        Two(high, e - (high - s))
    }
    fn mul(self, o: Two) -> Two {
        let p = self.0 * o.0;
        let e = self.0.mul_add(o.0, -p) + (self.0 * o.1 + self.1 * o.0);
        let high = p + e;
        Two(high, e - (high - p))
    }
    fn neg(self) -> Two {
        Two(-self.0, -self.1)
    }
}

type PreciseComplex = (Two, Two);

fn times(a: PreciseComplex, b: PreciseComplex) -> PreciseComplex {
    let re = a.0.mul(b.0).add(a.1.mul(b.1).neg());
    (re, a.0.mul(b.1).add(a.1.mul(b.0)))
}

/// `exp(-2 pi i / n)` to the power `k`, in two doubles: a series for the angle.
fn root(k: usize, n: usize) -> PreciseComplex {
    let pi = Two(std::f64::consts::PI, 1.224_646_799_147_353_2e-16);
    // k / n in two doubles.
    let q = k as f64 / n as f64;
    let rest = (-q).mul_add(n as f64, k as f64) / n as f64;
    let mut angle = Two(q, rest).mul(pi).mul(Two(-2.0, 0.0));
    // Halved until the series is short, and doubled again by squares.
    let halvings = 8;
    angle = angle.mul(Two(1.0 / f64::from(1 << halvings), 0.0));
    let mut term = (Two(1.0, 0.0), Two(0.0, 0.0));
    let mut sum = term;
    for i in 1..16 {
        term = times(term, (Two(0.0, 0.0), angle));
        let inverse = {
            let q = 1.0 / f64::from(i);
            Two(q, (-q).mul_add(f64::from(i), 1.0) / f64::from(i))
        };
        term = (term.0.mul(inverse), term.1.mul(inverse));
        sum = (sum.0.add(term.0), sum.1.add(term.1));
    }
    for _ in 0..halvings {
        sum = times(sum, sum);
    }
    sum
}

/// The transform in two doubles: by the smallest factor of the length, down to primes.
fn exact(
    x: &[PreciseComplex],
    step: usize,
    n: usize,
    total: usize,
    roots: &[PreciseComplex],
) -> Vec<PreciseComplex> {
    let at = |i: usize| x[i * step];
    let zero = (Two(0.0, 0.0), Two(0.0, 0.0));
    let p = (2..=n).find(|p| n.is_multiple_of(*p)).unwrap_or(1);
    if n == 1 {
        return vec![at(0)];
    }
    let m = n / p;
    let parts: Vec<Vec<PreciseComplex>> = (0..p)
        .map(|r| exact(&x[r * step..], step * p, m, total, roots))
        .collect();
    (0..n)
        .map(|k| {
            (0..p).fold(zero, |sum, r| {
                let w = roots[(r * k % n) * (total / n)];
                let t = times(parts[r][k % m], w);
                (sum.0.add(t.0), sum.1.add(t.1))
            })
        })
        .collect()
}

fn exact_of(x: &[Complex<f64>]) -> Vec<Complex<f64>> {
    let n = x.len();
    let roots: Vec<PreciseComplex> = (0..n).map(|k| root(k, n)).collect();
    let x: Vec<PreciseComplex> = x.iter().map(|z| (Two(z.re, 0.0), Two(z.im, 0.0))).collect();
    let y = exact(&x, 1, n, n, &roots);
    y.iter().map(|z| Complex::new(z.0.0, z.1.0)).collect()
}

/// The transform by an algorithm, if it takes the length, of numbers that are scaled for it.
fn transformed<T: FftReal + Into<f64>>(
    x: &[Complex<f64>],
    scale: f64,
    algorithm: LinesAlgorithm,
) -> Option<Vec<Complex<f64>>> {
    let n = x.len();
    let spec = Spec::complex(n, true, 1.0);
    let mut z: Vec<Complex<T>> = x
        .iter()
        .map(|z| Complex::new(T::c(z.re * scale), T::c(z.im * scale)))
        .collect();
    match algorithm {
        LinesAlgorithm::Single => {
            let line = LineTransform::<T>::new(spec);
            let mut scratch = vec![Complex::new(T::ZERO, T::ZERO); line.scratch()];
            line.run(&mut z, &mut scratch);
        }
        LinesAlgorithm::Lanes => {
            if !has_radices(n) {
                return None;
            }
            let lanes = LaneTransform::<T>::new(spec);
            let memory = Scratch::<T>::new(lanes.memory()).unwrap();
            // SAFETY: the line has the points, and the memory is as large as is asked for.
            unsafe {
                let (from, to) = ([z.as_ptr()], [z.as_mut_ptr()]);
                lanes.run((&from, 1), (&to, 1), memory.ptr(), None);
            }
        }
        LinesAlgorithm::Split => {
            let split = SplitTransform::<T>::new(spec)?;
            let line = Ptr::new(z.as_mut_ptr().cast());
            // SAFETY: the line has the points.
            unsafe { split.run(line, line).unwrap() };
        }
    }
    Some(
        z.iter()
            .map(|z| Complex::new(z.re.into() / scale, z.im.into() / scale))
            .collect(),
    )
}

fn error(y: &[Complex<f64>], expected: &[Complex<f64>]) -> f64 {
    let norm = |it: f64| it.sqrt();
    let difference = y
        .iter()
        .zip(expected)
        .map(|(a, b)| (a - b).norm_sqr())
        .sum();
    norm(difference) / norm(expected.iter().map(|z| z.norm_sqr()).sum())
}

/// What the error may be: 2 eps log2 n.
fn bound(n: usize, eps: f64) -> f64 {
    2.0 * eps * (n.max(2) as f64).log2()
}

fn complex_numbers(n: usize) -> Vec<Complex<f64>> {
    let v = numbers(2 * n, n as u64 + 1);
    v.chunks(2).map(|p| Complex::new(p[0], p[1])).collect()
}

/// Asserts that all algorithms keep within the bound, for numbers far from 1 too.
fn within<T: FftReal + Into<f64>>(
    x: &[Complex<f64>],
    expected: &[Complex<f64>],
    eps: f64,
    scales: [f64; 3],
) {
    let n = x.len();
    for &algorithm in LinesAlgorithm::ALL {
        for scale in scales {
            let Some(y) = transformed::<T>(x, scale, algorithm) else {
                continue;
            };
            let e = error(&y, expected);
            let most = bound(n, eps);
            assert!(e <= most, "{n} points, times {scale}, {algorithm:?}: {e}");
        }
    }
}

#[torsh_macros::unit_test]
fn double_precision_is_within_the_bound() {
    let some = (1..=160).chain((160..=2048).step_by(61)).chain([
        1000,
        1009,
        1024,
        1200,
        1715,
        2039,
        2047,
        2048,
        1 << 20,
    ]);
    for n in some {
        let x = complex_numbers(n);
        let expected = exact_of(&x);
        within::<f64>(&x, &expected, f64::EPSILON, [1.0, 1e-30, 1e30]);
    }
}

#[torsh_macros::unit_test]
fn single_precision_is_within_the_bound() {
    let more = [
        65_536,
        65_537,
        100_003,
        250_000,
        262_144,
        810_000,
        1_000_000,
        1_000_003,
        1 << 20,
    ];
    for n in (1..=2048).chain(more) {
        let x: Vec<Complex<f64>> = complex_numbers(n)
            .iter()
            .map(|z| Complex::new(f64::from(z.re as f32), f64::from(z.im as f32)))
            .collect();
        let expected = transformed::<f64>(&x, 1.0, LinesAlgorithm::Single).unwrap();
        // Powers of two, which keep the operands exact: about 1e-30 and 1e30.
        let scales = [1.0, 2f64.powi(-100), 2f64.powi(100)];
        within::<f32>(&x, &expected, f64::from(f32::EPSILON), scales);
    }
}

#[torsh_macros::unit_test]
fn large_primes_are_within_the_bound() {
    for n in [65_537usize, 100_003, 1_000_003] {
        let x = complex_numbers(n);
        let pairs: Vec<PreciseComplex> =
            x.iter().map(|z| (Two(z.re, 0.0), Two(z.im, 0.0))).collect();
        let y = transformed::<f64>(&x, 1.0, LinesAlgorithm::Single).unwrap();
        // Some frequencies: a sum each, whose factors are powers of one.
        let some = [0, 1, 2, n / 3, n / 2, n - 1];
        let sums: Vec<Complex<f64>> = some
            .iter()
            .map(|&k| {
                let step = root(k, n);
                let mut factor = (Two(1.0, 0.0), Two(0.0, 0.0));
                let mut sum = (Two(0.0, 0.0), Two(0.0, 0.0));
                for &z in &pairs {
                    let t = times(z, factor);
                    sum = (sum.0.add(t.0), sum.1.add(t.1));
                    factor = times(factor, step);
                }
                Complex::new(sum.0.0, sum.1.0)
            })
            .collect();
        let ours: Vec<Complex<f64>> = some.iter().map(|&k| y[k]).collect();
        // The norm of the error of all is spread over all frequencies.
        let norm = |z: &[Complex<f64>]| z.iter().map(|z| z.norm_sqr()).sum::<f64>();
        let difference: Vec<Complex<f64>> = ours.iter().zip(&sums).map(|(a, b)| a - b).collect();
        let all = norm(&y) / n as f64 * some.len() as f64;
        let e = (norm(&difference) / all).sqrt();
        assert!(e <= bound(n, f64::EPSILON), "{n} points: {e}");
    }
}

/// The kernel's result for a tensor of numbers, in float64.
fn kernel(call: &attrs::Fft, x: &[f64], from: &[usize], to: &[usize]) -> Vec<f64> {
    let (a, b) = match call.kind {
        FftKind::Complex => (DType::C128, DType::C128),
        FftKind::FromReal => (DType::F64, DType::C128),
        FftKind::ToReal => (DType::C128, DType::F64),
    };
    let numbers = to.iter().product::<usize>() * b.size() / 8;
    let (mut x, mut y) = (x.to_vec(), vec![f64::NAN; numbers]);
    let (sx, sy) = (
        Shape::new(from).contiguous_strides(),
        Shape::new(to).contiguous_strides(),
    );
    // SAFETY: the vectors have the elements of the shapes.
    let (vx, vy) = unsafe {
        (
            View::new(x.as_mut_ptr().cast(), a, from, &sx),
            View::new(y.as_mut_ptr().cast(), b, to, &sy),
        )
    };
    run(Kernel::Fft, DType::C128, &[vy], &[vx], call).expect("the call is as the kernel asks");
    y
}

fn call(kind: FftKind, dims: &[i64], length: usize) -> attrs::Fft {
    attrs::Fft {
        kind,
        dims: dims.into(),
        forward: true,
        scale: 1.0,
        interior: 1.0,
        length,
        onesided: true,
    }
}

fn close(a: &[f64], b: &[f64], what: &str) {
    assert_eq!(a.len(), b.len(), "{what}");
    let most = b.iter().fold(1.0f64, |m, v| m.max(v.abs()));
    for (x, y) in a.iter().zip(b) {
        assert!((x - y).abs() <= 1e-12 * most, "{what}: {x} is not {y}");
    }
}

#[torsh_macros::unit_test]
fn real_transforms_are_halves_of_complex_ones() {
    for algorithm in ["single", "lanes", "split"] {
        let force = Force::new("fft", algorithm).unwrap();
        real_transforms();
        assert!(force.taken() > 0, "{algorithm} took no part");
    }
    real_transforms();
}

fn real_transforms() {
    for shape in [
        [3, 1, 1],
        [2, 30, 40],
        [1, 21, 37],
        [33, 12, 1],
        [17, 35, 1],
        [18, 16, 2],
        [2, 1, 2400],
        [1, 1, 4096],
        [2, 9, 1],
        [3, 8, 5],
        [1, 2, 3],
        [70, 6, 40],
        [2, 31, 33],
        [2, 1, 2],
    ] {
        for d in 0..3usize {
            let n = shape[d];
            let x = numbers(shape.iter().product(), 7);
            let complex: Vec<f64> = x.iter().flat_map(|&v| [v, 0.0]).collect();
            let whole = kernel(
                &call(FftKind::Complex, &[d as i64], 0),
                &complex,
                &shape,
                &shape,
            );
            let mut half = shape;
            half[d] = n / 2 + 1;
            // The first n / 2 + 1 along d.
            let inner: usize = 2 * shape[d + 1..].iter().product::<usize>();
            let first: Vec<f64> = whole
                .chunks(n * inner)
                .flat_map(|c| c[..half[d] * inner].to_vec())
                .collect();
            let c = call(FftKind::FromReal, &[d as i64], n);
            let ours = kernel(&c, &x, &shape, &half);
            close(&ours, &first, &format!("r2c of {shape:?} along {d}"));
            let full = attrs::Fft {
                onesided: false,
                ..c
            };
            close(
                &kernel(&full, &x, &shape, &shape),
                &whole,
                "the whole spectrum",
            );
            let back = attrs::Fft {
                forward: false,
                scale: 1.0 / n as f64,
                ..call(FftKind::ToReal, &[d as i64], n)
            };
            close(&kernel(&back, &ours, &half, &shape), &x, "c2r of r2c");
        }
    }
}

#[torsh_macros::unit_test]
fn several_dimensions_are_one_after_the_other() {
    for algorithm in ["single", "lanes"] {
        let force = Force::new("fft", algorithm).unwrap();
        several_dimensions();
        assert!(force.taken() > 0, "{algorithm} took no part");
    }
}

/// Operands that are transposed, have gaps, or are expanded.
#[torsh_macros::unit_test]
fn strides_of_operands_do_not_matter() {
    for algorithm in ["single", "lanes", "split"] {
        let _force = Force::new("fft", algorithm).unwrap();
        let shape = [20, 1200, 18];
        let x = numbers(2 * 20 * 1200 * 18, 9);
        // In memory the last dimension is the first.
        let n = [20usize, 1200, 18];
        let strides = [n[1] as isize, 1, (n[0] * n[1]) as isize];
        let mut turned = vec![0.0; x.len()];
        for i in 0..n[0] {
            for j in 0..n[1] {
                for k in 0..n[2] {
                    let (from, to) = ((i * n[1] + j) * n[2] + k, k * n[0] * n[1] + i * n[1] + j);
                    turned[2 * to..2 * to + 2].copy_from_slice(&x[2 * from..2 * from + 2]);
                }
            }
        }
        for (dims, forward) in [
            (&[0i64][..], true),
            (&[1], false),
            (&[2], true),
            (&[2, 1], false),
        ] {
            let call = attrs::Fft {
                forward,
                scale: 0.5,
                ..call(FftKind::Complex, dims, 0)
            };
            let plain = kernel(&call, &x, &shape, &shape);
            let mut y = vec![f64::NAN; x.len()];
            let steps = Shape::new(&shape).contiguous_strides();
            // SAFETY: the vectors have the elements of the shapes.
            let (vx, vy) = unsafe {
                (
                    View::new(turned.as_mut_ptr().cast(), DType::C128, &shape, &strides),
                    View::new(y.as_mut_ptr().cast(), DType::C128, &shape, &steps),
                )
            };
            run(Kernel::Fft, DType::C128, &[vy], &[vx], &call).unwrap();
            close(&y, &plain, &format!("{dims:?} {algorithm}"));
        }
    }
}

fn several_dimensions() {
    let shape = [5, 12, 7];
    let x = numbers(2 * 5 * 12 * 7, 3);
    let one = |x: &[f64], d: i64| kernel(&call(FftKind::Complex, &[d], 0), x, &shape, &shape);
    let all = kernel(&call(FftKind::Complex, &[0, 2, 1], 0), &x, &shape, &shape);
    close(&all, &one(&one(&one(&x, 1), 2), 0), "three dimensions");
    let real = numbers(5 * 12 * 7, 4);
    let half = [5, 7, 7];
    let spectrum = kernel(
        &call(FftKind::FromReal, &[2, 0, 1], 12),
        &real,
        &shape,
        &half,
    );
    let back = attrs::Fft {
        forward: false,
        scale: 1.0 / (5 * 12 * 7) as f64,
        ..call(FftKind::ToReal, &[2, 0, 1], 12)
    };
    close(
        &kernel(&back, &spectrum, &half, &shape),
        &real,
        "there and back",
    );
}
