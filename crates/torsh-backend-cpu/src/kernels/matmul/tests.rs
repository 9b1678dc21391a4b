use half::bf16;

use super::*;
use torsh_core::Kernel;
use torsh_core::{Attributes, Element};

/// A tensor of the tests: its own memory and any strides.
pub(crate) struct Host<T> {
    pub data: Vec<T>,
    pub shape: Vec<usize>,
    pub strides: Vec<isize>,
}

impl<T: Element> Host<T> {
    pub fn new(shape: &[usize], f: impl Fn(usize) -> T) -> Host<T> {
        let strides = torsh_core::Shape::new(shape).contiguous_strides();
        let n = shape.iter().product();
        Host {
            data: (0..n).map(f).collect(),
            shape: shape.into(),
            strides: strides[..].into(),
        }
    }
    pub fn transposed(mut self) -> Host<T> {
        let nd = self.shape.len();
        self.shape.swap(nd - 2, nd - 1);
        self.strides.swap(nd - 2, nd - 1);
        self
    }
    pub fn expand(mut self, batch: usize) -> Host<T> {
        self.shape.insert(0, batch);
        self.strides.insert(0, 0);
        self
    }
    pub fn view(&self) -> View<'_> {
        // SAFETY: the buffers of the test outlive the call.
        unsafe {
            View::new(
                self.data.as_ptr().cast_mut().cast(),
                T::DTYPE,
                &self.shape,
                &self.strides,
            )
        }
    }
    pub fn get_mut(&mut self, index: &[usize]) -> &mut T {
        let at: isize = index
            .iter()
            .zip(&self.strides)
            .map(|(&i, &s)| i as isize * s)
            .sum();
        &mut self.data[at as usize]
    }
    pub fn get(&self, index: &[usize]) -> T {
        let at: isize = index
            .iter()
            .zip(&self.strides)
            .map(|(&i, &s)| i as isize * s)
            .sum();
        self.data[at as usize]
    }
}

fn run(out: View<'_>, inputs: &[View<'_>]) {
    run_with(out, inputs, &attrs::MatMul::PLAIN);
}

fn run_with(out: View<'_>, inputs: &[View<'_>], attrs: &dyn Attributes) {
    crate::testing::run(Kernel::MatMul, out.dtype(), &[out], inputs, attrs).expect("a product");
}

/// Small integers, so that every sum is exact in every dtype.
fn value(i: usize) -> i64 {
    (i as i64 * 7 + 3) % 5 - 2
}

fn sum(batch: usize, i: usize, j: usize, a: &Host<f64>, b: &Host<f64>) -> f64 {
    (0..a.shape[2])
        .map(|p| a.get(&[batch, i, p]) * b.get(&[batch, p, j]))
        .sum()
}

macro_rules! against_naive {
    ($t:ty, $of:expr, $to:expr) => {
        against_naive!(
            $t,
            $of,
            $to,
            [
                (1, 1, 1, 1),
                (1, 3, 4, 5),
                (3, 1, 7, 9),
                (2, 8, 1, 33),
                (1, 1, 1, 700),
                (2, 17, 19, 23),
                (3, 15, 15, 15),
                (1, 4, 29, 8),
                (1, 9, 13, 21),
                (2, 6, 7, 6),
                (1, 2, 3, 5000),
                (5, 64, 40, 70),
                (1, 130, 90, 200),
                (1, 1, 2000, 100),
                (1, 2000, 1, 100),
                (1, 5, 6, 0),
                (2, 300, 1, 64),
                (1, 20, 20, 3),
                (7, 1, 300, 300),
            ]
        );
    };
    ($t:ty, $of:expr, $to:expr, $sizes:expr) => {
        for (batch, m, n, k) in $sizes {
            for layout in 0..8 {
                let of: fn(i64) -> $t = $of;
                let a = Host::<$t>::new(&[batch, m, k], |i| of(value(i)));
                let a64 = Host::<f64>::new(&[batch, m, k], |i| value(i) as f64);
                let b = Host::<$t>::new(&[batch, k, n], |i| of(value(i + 1)));
                let b64 = Host::<f64>::new(&[batch, k, n], |i| value(i + 1) as f64);
                // The same numbers, held transposed.
                let at = |h: &Host<$t>| {
                    let (r, c) = (h.shape[1], h.shape[2]);
                    Host::<$t>::new(&[h.shape[0], c, r], |i| {
                        h.get(&[i / (r * c), i % r, i / r % c])
                    })
                    .transposed()
                };
                let a = if layout & 1 > 0 && m * k > 0 {
                    at(&a)
                } else {
                    a
                };
                let b = if layout & 2 > 0 && n * k > 0 {
                    at(&b)
                } else {
                    b
                };
                let out = if layout & 4 > 0 {
                    Host::<$t>::new(&[batch, n, m], |_| of(99)).transposed()
                } else {
                    Host::<$t>::new(&[batch, m, n], |_| of(99))
                };
                run(out.view(), &[a.view(), b.view()]);
                for index in 0..batch {
                    for i in 0..m {
                        for j in 0..n {
                            let to: fn($t) -> f64 = $to;
                            let (got, want) =
                                (to(out.get(&[index, i, j])), sum(index, i, j, &a64, &b64));
                            let want = to(of(want as i64));
                            assert_eq!(
                                got, want,
                                "{batch} {m} {n} {k} layout {layout} at {index} {i} {j}"
                            );
                        }
                    }
                }
            }
        }
    };
}

#[torsh_macros::unit_test]
fn f32_is_exact_on_small_integers() {
    against_naive!(f32, |v| v as f32, |v| v as f64);
}

#[torsh_macros::unit_test]
fn f64_is_exact_on_small_integers() {
    against_naive!(f64, |v| v as f64, |v| v);
}

#[torsh_macros::unit_test]
fn bf16_rounds_once() {
    against_naive!(bf16, |v| bf16::from_f32(v as f32), |v| v.to_f64());
}

/// A vector times large matrices of half types in both orders of memory, whose outputs or terms threads share, with what is
/// added, and factors.
#[torsh_macros::unit_test]
fn large_half_matrices_times_a_vector() {
    fn check<T: Element>(of: impl Fn(f32) -> T + Copy) {
        let (k, n) = (602, 1037);
        let [alpha, beta] = [2.0, 0.5].map(Scalar::Float);
        let attrs = attrs::AddMm { beta, alpha };
        let number = |i: usize| (i * 7 % 5) as f32 - 2.0;
        let x = |p: usize| (p * 3 % 7) as f32 - 3.0;
        let w = |p: usize, j: usize| number(p * n + j);
        let a = Host::<T>::new(&[1, k], |p| of(x(p)));
        let rows = Host::<T>::new(&[k, n], |i| of(number(i)));
        let columns = Host::<T>::new(&[n, k], |i| of(w(i % k, i / k))).transposed();
        let c = Host::<T>::new(&[n], |j| of((j % 64) as f32));
        let out = || Host::<T>::new(&[1, n], |_| of(f32::NAN));
        for b in [&rows, &columns] {
            let (plain, with) = (out(), out());
            run(plain.view(), &[a.view(), b.view()]);
            run_with(with.view(), &[a.view(), b.view(), c.view()], &attrs);
            for j in 0..n {
                let sum: f32 = (0..k).map(|p| x(p) * w(p, j)).sum();
                assert!(plain.get(&[0, j]) == of(sum), "{j}");
                let want = 2.0 * sum + 0.5 * (j % 64) as f32;
                assert!(with.get(&[0, j]) == of(want), "{j} with what is added");
            }
        }
    }
    check(bf16::from_f32);
    check(half::f16::from_f32);
}

/// Of sizes that the matrix unit takes.
#[cfg(target_arch = "x86_64")]
#[torsh_macros::unit_test]
fn products_on_the_matrix_unit_are_exact_on_small_integers() {
    let Some(unit) = crate::simd::isa::stand_in() else {
        return;
    };
    let sizes = [(1, 130, 140, 70), (3, 150, 113, 64), (1, 112, 113, 600)];
    against_naive!(f32, |v| v as f32, |v| v as f64, sizes);
    let sizes = [(1, 40, 33, 32), (5, 33, 70, 96), (1, 300, 40, 1000)];
    against_naive!(bf16, |v| bf16::from_f32(v as f32), |v| v.to_f64(), sizes);
    // With what is added, and factors.
    let (m, n, k) = (120, 130, 100);
    let [alpha, beta] = [2.0, 0.5].map(Scalar::Float);
    let attrs = attrs::AddMm { beta, alpha };
    let of = |i: usize| value(i) as f32;
    let a = Host::<f32>::new(&[m, k], of);
    let b = Host::<f32>::new(&[k, n], |i| of(i + 2));
    let c = Host::<f32>::new(&[n], |i| i as f32);
    let out = Host::<f32>::new(&[m, n], |_| f32::NAN);
    run_with(out.view(), &[a.view(), b.view(), c.view()], &attrs);
    let half = |h: &Host<f32>| Host::<bf16>::new(&h.shape, |i| bf16::from_f32(h.data[i]));
    let narrow = Host::<bf16>::new(&[m, n], |_| bf16::NAN);
    let (a16, b16, c16) = (half(&a), half(&b), half(&c));
    run_with(narrow.view(), &[a16.view(), b16.view(), c16.view()], &attrs);
    for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
        let sum: f32 = (0..k).map(|p| a.get(&[i, p]) * b.get(&[p, j])).sum();
        let want = 2.0 * sum + 0.5 * j as f32;
        assert_eq!(out.get(&[i, j]), want, "{i} {j}");
        assert_eq!(narrow.get(&[i, j]), bf16::from_f32(want), "{i} {j}");
    }
    unit.assert_used();
}

/// The algorithms of bfloat16's instructions on every size that they accept, also where others are faster.
#[cfg(target_arch = "x86_64")]
#[torsh_macros::unit_test]
fn algorithms_of_bfloat16_instructions_are_exact_on_small_integers() {
    use crate::operations::Force;
    let Some(unit) = crate::simd::isa::stand_in() else {
        return;
    };
    let _unit = unit.by_model();
    let force = Force::new("matmul", "amx-split").unwrap();
    against_naive!(f32, |v| v as f32, |v| v as f64);
    assert!(force.taken() > 0);
    for algorithm in ["amx", "bf16-dot"] {
        let force = Force::new("matmul", algorithm).unwrap();
        against_naive!(bf16, |v| bf16::from_f32(v as f32), |v| v.to_f64());
        assert!(force.taken() > 0, "{algorithm}");
    }
}

#[torsh_macros::unit_test]
fn integers_wrap() {
    against_naive!(i64, |v| v, |v| v as f64);
    against_naive!(u8, |v| v as u8, |v| v as f64);
}

#[torsh_macros::unit_test]
fn complex_is_exact_on_small_integers() {
    against_naive!(Complex<f32>, |v| Complex::new(v as f32, 0.0), |v| v.re
        as f64);
    let a = Host::new(&[1, 2], |i| Complex::new(1.0f64, i as f64 + 1.0));
    let b = Host::new(&[2, 1], |i| Complex::new(2.0f64, -(i as f64)));
    let out = Host::new(&[1, 1], |_| Complex::new(0.0f64, 0.0));
    run(out.view(), &[a.view(), b.view()]);
    // (1+i) 2 + (1+2i)(2-i) = 2+2i + 4+3i
    assert_eq!(out.data[0], Complex::new(6.0, 5.0));
}

#[torsh_macros::unit_test]
fn c_is_scaled_broadcast_and_not_read_at_beta_0() {
    let sizes = [
        (2, 3, 4),
        (3, 7, 5),
        (9, 15, 15),
        (4, 21, 10),
        (40, 50, 60),
        (1, 600, 300),
        (3, 3, 9000),
    ];
    for (m, n, k) in sizes {
        let a = Host::<f32>::new(&[m, k], |i| value(i) as f32);
        let b = Host::<f32>::new(&[k, n], |i| value(i + 2) as f32);
        let plain = Host::<f32>::new(&[m, n], |_| 7.0);
        run(plain.view(), &[a.view(), b.view()]);
        let c = Host::<f32>::new(&[n], |i| i as f32);
        let out = Host::<f32>::new(&[m, n], |_| f32::NAN);
        let [alpha, beta] = [2.0, 0.5].map(Scalar::Float);
        let attrs = attrs::AddMm { beta, alpha };
        run_with(out.view(), &[a.view(), b.view(), c.view()], &attrs);
        for i in 0..m {
            for j in 0..n {
                let want = 2.0 * plain.get(&[i, j]) + 0.5 * j as f32;
                assert_eq!(out.get(&[i, j]), want, "{m} {n} {k} at {i} {j}");
            }
        }
        let nan = Host::<f32>::new(&[m, n], |_| f32::NAN);
        let [alpha, beta] = [1, 0].map(Scalar::Int);
        let attrs = attrs::AddMm { beta, alpha };
        run_with(out.view(), &[a.view(), b.view(), nan.view()], &attrs);
        assert_eq!(out.data, plain.data);
        // In place: c is the output.
        let own = Host::<f32>::new(&[m, n], |i| i as f32);
        run(own.view(), &[a.view(), b.view(), own.view()]);
        for (i, (own, plain)) in own.data.iter().zip(&plain.data).enumerate() {
            assert_eq!(*own, plain + i as f32);
        }
    }
}

#[torsh_macros::unit_test]
fn a_shared_right_operand_is_folded() {
    let a = Host::<f32>::new(&[6, 5, 8], |i| value(i) as f32);
    let b = Host::<f32>::new(&[8, 9], |i| value(i + 1) as f32).expand(6);
    let out = Host::<f32>::new(&[6, 5, 9], |_| 0.0);
    let p = Problem::new(&out.view(), &a.view(), &b.view(), None);
    assert_eq!((p.m, p.n, p.k, p.batch.len()), (30, 9, 8, 0));
    run(out.view(), &[a.view(), b.view()]);
    for (t, i, j) in [(0, 0, 0), (5, 4, 8), (3, 2, 7)] {
        let want: f32 = (0..8).map(|p| a.get(&[t, i, p]) * b.get(&[t, p, j])).sum();
        assert_eq!(out.get(&[t, i, j]), want);
    }
}

#[torsh_macros::unit_test]
fn bool_is_refused() {
    let a = Host::new(&[1, 1], |_| true);
    let (out, inputs) = ([a.view()], [a.view(), a.view()]);
    let plain = &attrs::MatMul::PLAIN;
    let refused = crate::testing::run(Kernel::MatMul, DType::Bool, &out, &inputs, plain);
    let why = refused.unwrap_err().to_string();
    assert!(why.contains("not implemented for bool"), "{why}");
}

#[torsh_macros::unit_test]
fn vectors_swapped_operands_and_broadcast_batches() {
    let a = Host::<f32>::new(&[2, 1, 3, 4], |i| value(i) as f32);
    let b = Host::<f32>::new(&[5, 6, 4], |i| value(i + 1) as f32);
    let out = Host::<f32>::new(&[2, 5, 3, 6], |_| 9.0);
    let attrs = attrs::MatMul {
        transpose_b: true,
        ..attrs::MatMul::PLAIN
    };
    run_with(out.view(), &[a.view(), b.view()], &attrs);
    for (s, t, i, j) in [(0, 0, 0, 0), (1, 4, 2, 5), (0, 3, 1, 2), (1, 0, 2, 0)] {
        let want: f32 = (0..4)
            .map(|p| a.get(&[s, 0, i, p]) * b.get(&[t, j, p]))
            .sum();
        assert_eq!(out.get(&[s, t, i, j]), want);
    }
    let x = Host::<f32>::new(&[4], |i| i as f32);
    let (dot, rows) = (
        Host::<f32>::new(&[], |_| 9.0),
        Host::<f32>::new(&[5, 6], |_| 9.0),
    );
    run(dot.view(), &[x.view(), x.view()]);
    assert_eq!(dot.data, [14.0]);
    let c = Host::<f32>::new(&[6], |i| i as f32);
    run(rows.view(), &[b.view(), x.view(), c.view()]);
    for (t, i) in [(0, 0), (4, 5), (2, 3)] {
        let want: f32 = (0..4).map(|p| b.get(&[t, i, p]) * p as f32).sum();
        assert_eq!(rows.get(&[t, i]), want + i as f32);
    }
    let y = Host::<f32>::new(&[6], |i| value(i) as f32);
    let out = Host::<f32>::new(&[5, 4], |_| 9.0);
    run(out.view(), &[y.view(), b.view()]);
    for (t, j) in [(0, 0), (4, 3), (2, 1)] {
        let want: f32 = (0..6).map(|p| y.data[p] * b.get(&[t, p, j])).sum();
        assert_eq!(out.get(&[t, j]), want);
    }
}

/// A batch of few rows each, whose left operand has the batch inside of the rows: one tall product of
/// a copy, with what is added to it, and into an output that lies apart not.
#[torsh_macros::unit_test]
fn rows_of_a_batch_that_lie_apart() {
    let (batch, m, n, k) = (40, 6, 48, 70);
    let a = Host::<f32>::new(&[m, batch, k], |i| value(i) as f32);
    let b = Host::<f32>::new(&[k, n], |i| value(i + 1) as f32);
    let c = Host::<f32>::new(&[n], |i| value(i + 2) as f32);
    let swapped = |h: &Host<f32>| {
        let (mut shape, mut strides) = (h.shape.clone(), h.strides.clone());
        shape.swap(0, 1);
        strides.swap(0, 1);
        (shape, strides)
    };
    for apart in [false, true] {
        let first = if apart { [m, batch, n] } else { [batch, m, n] };
        let mut out = Host::<f32>::new(&first, |_| f32::NAN);
        if apart {
            (out.shape, out.strides) = swapped(&out);
        }
        let (shape, strides) = swapped(&a);
        // SAFETY: the buffers of the test outlive the call.
        let left = unsafe { View::new(a.view().ptr(), a.view().dtype(), &shape, &strides) };
        run(out.view(), &[left, b.view(), c.view()]);
        for i in 0..batch {
            for r in 0..m {
                for j in 0..n {
                    let sum: f32 = (0..k).map(|p| a.get(&[r, i, p]) * b.get(&[p, j])).sum();
                    assert_eq!(
                        out.get(&[i, r, j]),
                        sum + c.get(&[j]),
                        "{i} {r} {j} {apart}"
                    );
                }
            }
        }
    }
}
