//! The strided iterator against index arithmetic.

use crate::common::indices;
use proptest::prelude::*;
use torsh_backend_cpu::memory::strided::StridedLoop;

/// A shape and, per operand, strides in elements and an element size.
type Case = (Vec<usize>, Vec<(Vec<isize>, usize)>);

fn strides_of(shape: &[usize], order: &[usize], gaps: &[usize], zero: u8) -> Vec<isize> {
    let mut strides = vec![0; shape.len()];
    let mut step = 1isize;
    for (place, &d) in order.iter().enumerate() {
        strides[d] = if zero >> d & 1 == 1 { 0 } else { step };
        step *= (shape[d] + gaps[place]) as isize;
    }
    strides
}

fn case() -> impl Strategy<Value = Case> {
    (0usize..=6).prop_flat_map(|rank| {
        let shape = prop::collection::vec(
            prop_oneof![8 => 1usize..5, 1 => Just(0usize), 2 => Just(1usize)],
            rank,
        );
        let operand = (
            Just((0..rank).collect::<Vec<_>>()).prop_shuffle(),
            prop::collection::vec(prop_oneof![3 => Just(0usize), 1 => 1usize..3], rank),
            prop_oneof![2 => Just(0u8), 1 => any::<u8>()],
            prop::sample::select(vec![1usize, 2, 4, 8, 16]),
        );
        (shape, prop::collection::vec(operand, 1..=8)).prop_map(|(shape, operands)| {
            let operands = operands
                .into_iter()
                .map(|(order, gaps, zero, size)| (strides_of(&shape, &order, &gaps, zero), size))
                .collect();
            (shape, operands)
        })
    })
}

/// The byte offsets of all operands for each element, in the loop's order.
fn walked(l: &StridedLoop, cuts: &[usize]) -> Vec<Vec<isize>> {
    let base = vec![std::ptr::null_mut::<u8>(); l.operands()];
    let mut all = Vec::new();
    let mut ends: Vec<usize> = cuts.iter().map(|c| c % (l.numel() + 1)).collect();
    ends.extend([0, l.numel()]);
    ends.sort_unstable();
    for range in ends.windows(2) {
        l.for_each_run(range[0]..range[1], &base, |ptrs, n, steps| {
            for i in 0..n as isize {
                all.push(
                    ptrs.iter()
                        .zip(steps)
                        .map(|(p, s)| *p as isize + s * i)
                        .collect(),
                );
            }
        });
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn every_element_once((shape, operands) in case(), cuts in prop::collection::vec(any::<usize>(), 0..4)) {
        let refs: Vec<(&[isize], usize)> = operands.iter().map(|(s, size)| (s.as_slice(), *size)).collect();
        let mut expected: Vec<Vec<isize>> = indices(&shape)
            .iter()
            .map(|index| {
                operands
                    .iter()
                    .map(|(s, size)| index.iter().zip(s).map(|(&i, &s)| i as isize * s).sum::<isize>() * *size as isize)
                    .collect()
            })
            .collect();
        let ordered = StridedLoop::row_major(&shape, &refs);
        prop_assert_eq!(&walked(&ordered, &cuts), &expected);
        let l = StridedLoop::new(&shape, &refs);
        prop_assert_eq!(l.numel(), expected.len());
        let mut found = walked(&l, &cuts);
        for (k, (_, size)) in operands.iter().enumerate() {
            let linear = found.iter().enumerate().all(|(i, at)| at[k] == (i * size) as isize);
            // With nothing to walk either answer is right.
            prop_assert!(l.numel() == 0 || l.is_linear(k, *size) == linear);
            prop_assert!(l.numel() == 0 || l.is_constant(k) == found.iter().all(|at| at[k] == 0));
        }
        found.sort();
        expected.sort();
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn contiguous_operands_are_one_run_in_any_order() {
    // Channels-last, the same in both operands.
    let strides: &[isize] = &[60, 1, 15, 3];
    let l = StridedLoop::new(&[2, 3, 4, 5], &[(strides, 4), (strides, 8)]);
    assert_eq!((l.ndim(), l.inner(), l.numel()), (1, 120, 120));
    assert_eq!((l.stride(0, 0), l.stride(0, 1)), (4, 8));
    // A broadcast row keeps two dimensions.
    let l = StridedLoop::new(&[2, 3, 5], &[(&[15, 5, 1], 4), (&[1], 4)]);
    assert_eq!(l.shape(), [5, 6]);
    assert_eq!((l.stride(1, 0), l.stride(1, 1)), (20, 0));
    // No dimensions: one element.
    let l = StridedLoop::new(&[], &[(&[], 4)]);
    assert_eq!((l.ndim(), l.numel()), (1, 1));
}
