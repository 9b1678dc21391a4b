//! Every method of the vectors against what it says of lanes.

use super::*;
use crate::multiversion;

fn lanes<V: Vector>(v: V) -> Vec<V::T> {
    // SAFETY: a vector is its elements.
    let first = unsafe { (&raw const v).cast::<V::T>().read() };
    let mut all = vec![first; V::N];
    // SAFETY: there is room for a vector.
    unsafe { v.store(all.as_mut_ptr()) };
    all
}

fn of_rows<V: Vector, const K: usize>(rows: [V; K]) -> Vec<Vec<V::T>> {
    rows.into_iter().map(lanes).collect()
}

/// # Safety
/// The caller is compiled for the vectors.
#[inline(always)]
unsafe fn check<A: Arch, V: FloatVector>() {
    let number = |i: usize| V::T::c(i as f64);
    let n = V::N;
    let all: Vec<V::T> = (0..2 * n).map(number).collect();
    let want = |f: &dyn Fn(usize) -> f64| (0..n).map(|i| V::T::c(f(i))).collect::<Vec<_>>();
    // SAFETY: the caller's promise; both halves are whole vectors.
    unsafe {
        let (a, b) = (V::load(all.as_ptr()), V::load(all.as_ptr().add(n)));
        let c = V::splat(V::T::c(3.0));
        assert_eq!(lanes(c), want(&|_| 3.0));
        assert_eq!(lanes(a.add(b)), want(&|i| (2 * i + n) as f64));
        assert_eq!(lanes(b.sub(a)), want(&|_| n as f64));
        assert_eq!(lanes(a.mul(b)), want(&|i| (i * (i + n)) as f64));
        assert_eq!(
            lanes(c.add_product(a, b)),
            want(&|i| (3 + i * (i + n)) as f64)
        );
        assert_eq!(
            lanes(a.div(V::splat(V::T::c(4.0)))),
            want(&|i| i as f64 / 4.0)
        );
        assert_eq!(lanes(a.max(c)), want(&|i| i.max(3) as f64));
        assert_eq!(lanes(a.min(c)), want(&|i| i.min(3) as f64));
        assert_eq!(
            lanes(c.sub_product(a, b)),
            want(&|i| 3.0 - (i * (i + n)) as f64)
        );
        assert_eq!(lanes(a.mul(a).sqrt()), lanes(a));
        assert_eq!(lanes(V::splat(V::T::ZERO).sub(a).abs()), lanes(a));
        let power = |i: usize| (1 << (i + n).ilog2()) as f64;
        assert_eq!(lanes(b.power_below()), want(&power));
        let (less, same) = (a.lt(c), a.eq(c));
        assert_eq!(
            lanes(V::select(less, a, b)),
            want(&|i| if i < 3 { i as f64 } else { (i + n) as f64 })
        );
        assert_eq!(
            lanes(V::select(same, b, a)),
            want(&|i| if i == 3 { (i + n) as f64 } else { i as f64 })
        );
        let nan = V::splat(V::T::NAN);
        assert_eq!((V::any(less), V::any(same)), (true, n > 3));
        assert!(!V::any(nan.eq(nan)) && !V::any(nan.lt(a)) && !V::any(a.lt(nan)));
        // Each pair of lanes is a complex number.
        let product = |i: usize, conjugate: bool| {
            let (at, sign) = (i / 2 * 2, if conjugate { -1.0 } else { 1.0 });
            let (re, im) = (at as f64, sign * (at + 1) as f64);
            let (x, y) = ((at + n) as f64, (at + n + 1) as f64);
            3.0 + if i == at {
                re * x - im * y
            } else {
                im * x + re * y
            }
        };
        let products = lanes(c.add_complex_product(a, b));
        assert_eq!(products, want(&|i| product(i, false)));
        let products = lanes(c.add_conjugate_product(a, b));
        assert_eq!(products, want(&|i| product(i, true)));
        assert_eq!(lanes(a.shifted::<1>(b)), want(&|i| (i + 1) as f64));
        assert_eq!(lanes(a.shifted::<2>(b)), want(&|i| (i + 2) as f64));
        assert_eq!(lanes(b.shifted_in(a)), want(&|i| (i + n - 1) as f64));
        let [even, odd] = a.deinterleave(b);
        assert_eq!(lanes(even), want(&|i| (2 * i) as f64));
        assert_eq!(lanes(odd), want(&|i| (2 * i + 1) as f64));
        let [low, high] = even.interleave(odd);
        assert_eq!((lanes(low), lanes(high)), (lanes(a), lanes(b)));
        assert_eq!(lanes(a.reversed()), want(&|i| (n - 1 - i) as f64));
        let picked = |i: usize| if 2 * i < n { 2 * i } else { n + 2 * i - n + 1 };
        assert_eq!(lanes(a.even_then_odd(b)), want(&|i| picked(i) as f64));
        let square: [V; 16] = std::array::from_fn(|r| V::splat(number(16 * (r % n))).add(a));
        let transposed: Vec<Vec<V::T>> = match n {
            2 => of_rows(V::transpose::<2>([square[0], square[1]])),
            4 => of_rows(V::transpose::<4>(std::array::from_fn(|r| square[r]))),
            8 => of_rows(V::transpose::<8>(std::array::from_fn(|r| square[r]))),
            _ => of_rows(V::transpose::<16>(square)),
        };
        for (r, row) in transposed.into_iter().enumerate() {
            assert_eq!(row, want(&|i| (16 * i + r) as f64));
        }
        assert_eq!(a.reduce_sum(), number(n * (n - 1) / 2));
        // Halves of which only some orders of adding give the same sums.
        let mut unlike =
            [a, b, a.mul(b), b.add(a)].map(|v| lanes(V::splat(V::T::ONE).div(v.add(c))));
        unlike[0][0] = V::T::c(1e8);
        let unlike = unlike.map(|v| V::load(v.as_ptr()));
        assert_eq!(V::reduce_sums(unlike), unlike.map(|v| v.reduce_sum()));
        assert_eq!((a.reduce_max(), b.reduce_min()), (number(n - 1), number(n)));
        for first in 0..=n {
            assert_eq!(
                lanes(b.keep_first(first)),
                want(&|i| if i < first { (n + i) as f64 } else { 0.0 })
            );
            assert_eq!(
                lanes(b.keep_last(first)),
                want(&|i| if i + first >= n { (n + i) as f64 } else { 0.0 })
            );
            for end in first..=n {
                let inside = |i: usize| {
                    if (first..end).contains(&i) {
                        i as f64
                    } else {
                        77.0
                    }
                };
                let some = V::load_part(all.as_ptr(), first, end, V::splat(number(77)));
                assert_eq!(lanes(some), want(&inside), "{first} {end}");
            }
            let mut written = vec![number(5); n];
            a.store_first(first, written.as_mut_ptr());
            assert_eq!(written, want(&|i| if i < first { i as f64 } else { 5.0 }));
        }
        let nan = V::splat(V::T::NAN);
        assert!(lanes(a.max_or_nan(b)) == lanes(b) && lanes(b.max_or_nan(a)) == lanes(b));
        let all_nan = |v: V| lanes(v).iter().all(|x| x.to_f64().is_nan());
        assert!(all_nan(nan.max_or_nan(b)) && all_nan(b.max_or_nan(nan)));
        // The second operand, where one is NaN.
        assert!(lanes(nan.max(b)) == lanes(b) && all_nan(b.max(nan)));
        assert!(lanes(nan.min(b)) == lanes(b) && all_nan(b.min(nan)));
        assert!(lanes(a.or_nan(b)) == lanes(a) && all_nan(a.or_nan(nan)));
        assert!(!V::any_nan([a, b, a, b]));
        for k in 0..4 {
            for at in 0..n {
                let mut some = [a, b, a, b];
                let mut one = lanes(a);
                one[at] = V::T::NAN;
                some[k] = V::load(one.as_ptr());
                assert!(V::any_nan(some), "{k} {at}");
            }
        }
        for i in -2000..=0 {
            let x = V::T::c(i as f64 / 16.0);
            let got = V::splat(x).exp_nonpositive::<A>().reduce_max().to_f64();
            let want = x.to_f64().exp();
            // As a term of a softmax: what is far below the largest one may be less exact.
            let relative = (4.0 - x.to_f64()) * f64::from(f32::EPSILON);
            let least = if size_of::<V::T>() == 4 {
                1e-45
            } else {
                1e-320
            };
            assert!(
                (got - want).abs() <= relative * want + least,
                "{i}: {got} {want}"
            );
        }
        assert_eq!(
            V::splat(-V::T::INFINITY)
                .exp_nonpositive::<A>()
                .reduce_max(),
            V::T::ZERO
        );
        assert!(all_nan(nan.exp_nonpositive::<A>()));
    }
}

/// Numbers, zeros, subnormals, infinities and NaN of the half types, from every alignment of a vector.
///
/// # Safety
/// As [`check`].
#[inline(always)]
unsafe fn check_halves<V: HalfLoads>() {
    let bits: Vec<u16> = (0..=u16::MAX).collect();
    let same = |got: Vec<f32>, want: Vec<f32>| {
        for (got, want) in got.into_iter().zip(want) {
            assert!(got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan());
        }
    };
    for first in (0..bits.len() - V::N).step_by(3) {
        let some = &bits[first..first + V::N];
        // SAFETY: the caller's promise; a vector's numbers are there.
        let (b, h) = unsafe {
            (
                V::load_bf16(some.as_ptr().cast()),
                V::load_f16(some.as_ptr().cast()),
            )
        };
        same(
            lanes(b),
            some.iter().map(|&x| bf16::from_bits(x).to_f32()).collect(),
        );
        same(
            lanes(h),
            some.iter().map(|&x| f16::from_bits(x).to_f32()).collect(),
        );
    }
}

multiversion! {
    #[allow(dead_code)]
    fn every_vector<A>() {
        // SAFETY: compiled for the level.
        unsafe {
            check::<A, A::F32>();
            check::<A, A::F64>();
            check::<A, A::Short32>();
            check::<A, A::Short64>();
            check::<A, [f32; 16]>();
            check_halves::<A::F32>();
        }
    }
}

#[torsh_macros::unit_test]
fn lanes_are_those_of_the_description_at_every_level() {
    for level in Level::ALL {
        // SAFETY: the version is one that the processor has.
        unsafe { every_vector::at(level)() };
    }
}
