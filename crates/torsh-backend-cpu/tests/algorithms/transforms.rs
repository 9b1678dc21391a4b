//! Fourier transforms.

use torsh_core::attrs::FftKind;

use super::*;

/// The transform of one line by its definition.
fn line(x: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let n = x.len();
    let root = |k: usize| (-std::f64::consts::TAU * (k % n) as f64 / n as f64).sin_cos();
    let roots: Vec<(f64, f64)> = (0..n).map(root).collect();
    (0..n)
        .map(|k| {
            x.iter().enumerate().fold((0.0, 0.0), |sum, (i, z)| {
                let (s, c) = roots[i * k % n];
                (sum.0 + z.0 * c - z.1 * s, sum.1 + z.0 * s + z.1 * c)
            })
        })
        .collect()
}

/// Complex transforms along the last dimension and along the first.
pub fn complex_lines(taken: &mut Taken) {
    for dtype in [DType::C64, DType::C128] {
        let tolerance = if dtype == DType::C64 { 1e-5 } else { 1e-13 };
        for (shape, dim) in [([1, 1024], 1), ([20, 30], 1), ([24, 37], 0), ([3, 1225], 1)] {
            let x = array(dtype, &shape, 3);
            let numbers: Vec<(f64, f64)> = x.scalars().into_iter().map(parts).collect();
            let (outer, step) = if dim == 1 {
                (shape[0], 1)
            } else {
                (shape[1], shape[1])
            };
            let mut want = vec![(0.0, 0.0); numbers.len()];
            for l in 0..outer {
                let first = if dim == 1 { l * shape[1] } else { l };
                let places = (0..shape[dim]).map(|i| first + i * step);
                let of_line: Vec<_> = places.clone().map(|at| numbers[at]).collect();
                for (at, z) in places.zip(line(&of_line)) {
                    want[at] = z;
                }
            }
            let most = want.iter().fold(0.0f64, |m, z| m.max(z.0.hypot(z.1)));
            let attrs = attrs::Fft {
                kind: FftKind::Complex,
                dims: (&[dim as i64][..]).into(),
                forward: true,
                scale: 1.0,
                interior: 1.0,
                length: 0,
                onesided: true,
            };
            with_each("fft", taken, |what| {
                let mut out = Array::empty(dtype, &shape);
                run(Kernel::Fft, &mut out, &[&x], &attrs);
                for (got, want) in out.scalars().into_iter().map(parts).zip(&want) {
                    let off = (got.0 - want.0).hypot(got.1 - want.1);
                    assert!(
                        off <= tolerance * most,
                        "{what}: {shape:?} along {dim}: {off}"
                    );
                }
            });
        }
    }
}
