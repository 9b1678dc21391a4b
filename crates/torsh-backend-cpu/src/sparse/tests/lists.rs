//! Lists of coordinates, lines of elements, strided tensors made of them, and softmax of runs.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;

use half::{bf16, f16};
use num_complex::Complex;
use torsh_core::{Element, Result};

use super::super::*;
use super::Random;

const HUGE: usize = 1 << 40;

/// Shapes of 0 to 3 dimensions; the positions in the last one do not fit a word.
const SHAPES: [&[usize]; 5] = [&[], &[50], &[7, 9], &[4, 3, 5], &[HUGE, 9, HUGE]];

/// A row-major matrix of the coordinates of a list of places.
fn matrix(places: &[Vec<i64>], dims: usize) -> Vec<i64> {
    let row = |d: usize| places.iter().map(move |p| p[d]);
    (0..dims).flat_map(row).collect()
}

/// `n` places, some of them often, near both ends of huge dimensions.
fn places(r: &mut Random, shape: &[usize], n: usize) -> Vec<Vec<i64>> {
    let mut coordinate = |size: usize| match r.below(size.min(9)) {
        i if size > 1000 && i > 4 => (size - 1 - i) as i64,
        i if size > 9 && size <= 1000 => (i + r.below(size - 8)) as i64,
        i => i as i64,
    };
    (0..n)
        .map(|_| shape.iter().map(|&s| coordinate(s)).collect())
        .collect()
}

fn ascending(mut places: Vec<Vec<i64>>) -> Vec<Vec<i64>> {
    places.sort_unstable();
    places.dedup();
    places
}

#[torsh_macros::unit_test]
fn places_are_within_and_in_order_or_not() -> Result<()> {
    let mut r = Random(31);
    for shape in SHAPES {
        for n in [0, 1, 2, 30, 20_000] {
            let mut all = places(&mut r, shape, n);
            for sorted in [false, true] {
                if sorted {
                    all = ascending(all);
                }
                let indices = matrix(&all, shape.len());
                let list = Coordinates::new(&indices, all.len(), shape)?;
                assert!(list.are_within());
                assert_eq!(
                    list.ascend(),
                    all.is_sorted_by(|a, b| a < b),
                    "{shape:?} {n}"
                );
                for d in 0..if all.is_empty() { 0 } else { shape.len() } {
                    let at = d * all.len() + r.below(all.len());
                    for bad in [-1, shape[d] as i64, i64::MIN, i64::MAX] {
                        let mut wrong = indices.clone();
                        wrong[at] = bad;
                        assert!(!Coordinates::new(&wrong, all.len(), shape)?.are_within());
                    }
                }
                if sorted && all.len() > 1 {
                    let at = r.below(all.len() - 1);
                    let mut wrong = all.clone();
                    wrong[at + 1] = wrong[at].clone();
                    let wrong = matrix(&wrong, shape.len());
                    assert!(!Coordinates::new(&wrong, all.len(), shape)?.ascend());
                }
            }
        }
    }
    assert!(Coordinates::new(&[1, 2, 3], 2, &[5, 5]).is_err());
    Ok(())
}

#[torsh_macros::unit_test]
fn places_are_found_in_other_lists() -> Result<()> {
    let mut r = Random(37);
    for shape in SHAPES {
        for (n, m) in [(0, 0), (0, 5), (7, 0), (1, 1), (60, 90), (300, 4), (4, 300)] {
            let have = ascending(places(&mut r, shape, n));
            let mut wanted = places(&mut r, shape, m);
            for sorted in [false, true] {
                if sorted {
                    wanted = ascending(wanted);
                }
                let (a, b) = (matrix(&have, shape.len()), matrix(&wanted, shape.len()));
                let mut at = vec![9; wanted.len()];
                let a = Coordinates::new(&a, have.len(), shape)?;
                find_places(a, Coordinates::new(&b, wanted.len(), shape)?, &mut at)?;
                for (place, at) in wanted.iter().zip(at) {
                    let expected = match have.binary_search(place) {
                        Ok(at) => at as i64,
                        Err(before) => !(before as i64),
                    };
                    assert_eq!(at, expected, "{place:?} of {shape:?}");
                }
            }
        }
    }
    let (a, b) = (
        Coordinates::new(&[1], 1, &[2])?,
        Coordinates::new(&[1], 1, &[3])?,
    );
    assert!(find_places(a, b, &mut [0]).is_err());
    assert!(find_places(a, a, &mut []).is_err());
    Ok(())
}

/// Merges lists of places with numbers of a type, and compares with a map.
fn check_merge<T: Number>(of: impl Fn(i64) -> T + Copy) -> Result<()> {
    let mut r = Random(41);
    for shape in SHAPES {
        for (n, m) in [
            (0, 0),
            (0, 5),
            (7, 0),
            (1, 1),
            (60, 90),
            (3000, 3000),
            (1, 9000),
        ] {
            for width in [0, 1, 3] {
                let lists = [n, m].map(|n| ascending(places(&mut r, shape, n)));
                let values = lists.each_ref().map(|list| {
                    (0..list.len() * width)
                        .map(|_| of(r.number()))
                        .collect::<Vec<T>>()
                });
                let mut wanted: BTreeMap<&[i64], Vec<T>> = BTreeMap::new();
                for (list, values) in lists.iter().zip(&values) {
                    for (e, place) in list.iter().enumerate() {
                        let own = &values[e * width..][..width];
                        wanted
                            .entry(place)
                            .and_modify(|sums| {
                                for (sum, v) in sums.iter_mut().zip(own) {
                                    *sum = T::rounded(T::add(sum.wide(), v.wide()));
                                }
                            })
                            .or_insert_with(|| own.to_vec());
                    }
                }
                let [a, b] = lists.each_ref().map(|list| matrix(list, shape.len()));
                let a = Coordinates::new(&a, lists[0].len(), shape)?;
                let b = Coordinates::new(&b, lists[1].len(), shape)?;
                let mut at = vec![9; lists[1].len()];
                find_places(a, b, &mut at)?;
                let count = wanted.len();
                let (mut indices, mut out) =
                    (vec![9; shape.len() * count], vec![of(7); count * width]);
                let of_both = (&values[0][..], &values[1][..]);
                merge_places(a, b, &at, of_both, width, &mut indices, &mut out)?;
                for (e, (place, sums)) in wanted.iter().enumerate() {
                    for (d, i) in place.iter().enumerate() {
                        assert_eq!(indices[d * count + e], *i, "{shape:?} {n} {m}");
                    }
                    assert_eq!(&out[e * width..][..width], &sums[..], "{shape:?} {n} {m}");
                }
            }
        }
    }
    Ok(())
}

#[torsh_macros::unit_test]
fn merged_lists_have_the_places_of_both() -> Result<()> {
    check_merge(|v| v as f32)?;
    check_merge(|v| v as f64)?;
    check_merge(|v| v)?;
    check_merge(|v| v as u8)?;
    check_merge(|v| bf16::from_f32(v as f32))?;
    check_merge(|v| f16::from_f32(v as f32))?;
    check_merge(|v| Complex::new(v as f32, 1.0 - v as f32))?;
    // Positions that are not those of the places.
    let a = Coordinates::new(&[1, 2], 2, &[9])?;
    let b = Coordinates::new(&[3, 4], 2, &[9])?;
    let (mut indices, mut out) = ([0; 4], [0.0f32; 4]);
    for at in [[!2, !1], [!9, !9], [i64::MIN, !0]] {
        let values = (&[1.0, 2.0][..], &[3.0, 4.0][..]);
        assert!(merge_places(a, b, &at, values, 1, &mut indices, &mut out).is_err());
        assert!(merge_places(a, b, &at, values, 2, &mut indices, &mut out).is_err());
    }
    Ok(())
}

/// Lines of some matrices of as many elements each: pointers and the other indices.
fn lines(r: &mut Random, entries: usize, lines: usize, others: usize) -> (Vec<i64>, Vec<i64>) {
    let nnz = lines * others / 3;
    let (mut pointers, mut plain) = (Vec::new(), Vec::new());
    for _ in 0..entries {
        let mut all: Vec<usize> = (0..lines * others).collect();
        for i in 0..nnz {
            let other = i + r.below(all.len() - i);
            all.swap(i, other);
        }
        all.truncate(nnz);
        all.sort_unstable();
        let before = |line: usize| all.iter().filter(|&&p| p < line * others).count();
        pointers.extend((0..=lines).map(|line| before(line) as i64));
        plain.extend(all.iter().map(|p| (p % others) as i64));
    }
    (pointers, plain)
}

#[torsh_macros::unit_test]
fn lines_are_coordinates_and_back() -> Result<()> {
    let mut r = Random(43);
    let cases: [(Vec<usize>, usize, usize); 6] = [
        (vec![], 5, 7),
        (vec![], 0, 3),
        (vec![], 90, 300),
        (vec![2, 3], 4, 6),
        (vec![0], 4, 6),
        (vec![40], 20, 30),
    ];
    for (batch, count, others) in cases {
        let entries: usize = batch.iter().product();
        let (pointers, plain) = lines(&mut r, entries, count, others);
        let n = plain.len();
        assert!(are_lines(&pointers, &plain, [entries, count, others]));
        let sizes = [&batch[..], &[count]].concat();
        let mut found = [
            vec![9; (sizes.len() + 1) * n],
            vec![9; (sizes.len() + 1) * n],
        ];
        for (by_rows, out) in [true, false].into_iter().zip(&mut found) {
            coordinates(&pointers, &plain, entries, &sizes, by_rows, out)?;
        }
        let [by_rows, by_columns] = &found;
        let heads = sizes.len() * n;
        assert_eq!(by_rows[heads..], plain[..]);
        let last = heads.saturating_sub(n);
        assert_eq!(by_rows[..last], by_columns[..last]);
        assert_eq!(by_columns[last..heads], plain[..]);
        assert_eq!(by_rows[last..heads], by_columns[heads..]);
        for e in 0..n {
            let mut entry = e / (n / entries);
            for d in (0..batch.len()).rev() {
                assert_eq!(by_rows[d * n + e], (entry % batch[d]) as i64);
                entry /= batch[d];
            }
            let own = &pointers[e / (n / entries) * (count + 1)..][..count + 1];
            let (line, at) = (by_rows[last + e] as usize, (e % (n / entries)) as i64);
            assert!((own[line]..own[line + 1]).contains(&at));
        }
        let mut back = vec![9i64; pointers.len()];
        let list = Coordinates::new(&by_rows[..heads], n, &sizes)?;
        line_pointers(list, &mut back)?;
        assert_eq!(back, pointers);
        let mut narrow = vec![9i32; pointers.len()];
        line_pointers(list, &mut narrow)?;
        assert!(
            narrow
                .iter()
                .zip(&pointers)
                .all(|(a, b)| i64::from(*a) == *b)
        );
    }
    // Lines in two dimensions.
    let mut indices = [9; 9];
    coordinates(
        &[0i64, 1, 1, 2, 3],
        &[7, 8, 9],
        1,
        &[2, 2],
        true,
        &mut indices,
    )?;
    assert_eq!(indices, [0, 1, 1, 0, 0, 1, 7, 8, 9]);
    let mut indices = [9; 2];
    coordinates(&[0i64, 2], &[7, 8], 1, &[], true, &mut indices)?;
    assert_eq!(indices, [7, 8]);
    Ok(())
}

#[torsh_macros::unit_test]
fn what_is_no_line_is_seen() -> Result<()> {
    let mut r = Random(47);
    let sizes = [3, 20, 30];
    let (pointers, plain) = lines(&mut r, 3, 20, 30);
    let nnz = plain.len() / 3;
    let good = |p: &[i64], c: &[i64]| are_lines(p, c, sizes);
    assert!(good(&pointers, &plain) && are_lines::<i32>(&[], &[], [0, 4, 5]));
    for _ in 0..200 {
        let (mut p, mut c) = (pointers.clone(), plain.clone());
        match r.below(4) {
            0 => c[r.below(3 * nnz)] = [-1, 30, i64::MAX, i64::MIN][r.below(4)],
            // The last of a line before the first of it.
            1 => {
                let line = (0..).find(|&l: &usize| pointers[l + 1] > pointers[l] + 1);
                let line = line.expect("a line of two elements");
                c.swap(pointers[line] as usize, pointers[line + 1] as usize - 1);
            }
            2 => p[21 * r.below(3)] += 1,
            _ => p[21 * r.below(3) + 20] += [1, -1, i64::MIN][r.below(3)],
        }
        assert!(!good(&p, &c));
    }
    for p in [[0i64, 2, 1], [0, 9, 1], [0, -1, 1], [1, 1, 1], [0, 0, 2]] {
        assert!(!are_lines(&p, &[0], [1, 2, 30]));
        assert!(coordinates(&p, &[0], 1, &[2], true, &mut [0; 2]).is_err());
    }
    // More elements than a line has places.
    assert!(!are_lines(&[0i64, 2], &[0, 1], [1, 1, 1]));
    assert!(!are_lines(&[0i64], &[], [1, 1, 1]));
    let outside = Coordinates::new(&[0, 3], 2, &[3])?;
    assert!(line_pointers(outside, &mut [0i64; 4]).is_err());
    assert!(line_pointers(Coordinates::new(&[0], 1, &[3])?, &mut [0i64; 3]).is_err());
    Ok(())
}

/// Whether two numbers are equal, or both NaN.
fn alike<T: Element>(a: &T, b: &T) -> bool {
    let equal = |a: &T, b: &T| a == b;
    equal(a, b) || !equal(a, a) && !equal(b, b)
}

/// What is stored of a strided tensor, and the tensor made of that again.
fn check_stored<T: Element>(zeros: &[T], others: &[T]) -> Result<()> {
    let mut r = Random(53);
    for (lines, width, unit) in [
        (1, 1, 1),
        (5, 40, 1),
        (0, 3, 1),
        (3, 0, 1),
        (4, 3, 0),
        (6, 5, 4),
        (300, 90, 1),
        (1, 5000, 1),
    ] {
        let x: Vec<T> = (0..lines * width * unit)
            .map(|i| match i % 7 == 6 || r.below(5) > 0 {
                true => zeros[r.below(zeros.len())],
                false => others[r.below(others.len())],
            })
            .collect();
        let is_zero = |v: &T| *v == T::default();
        let (mut wanted, mut ends) = (Vec::new(), vec![0]);
        for line in 0..lines {
            for at in 0..width {
                let own = &x[(line * width + at) * unit..][..unit];
                if !own.iter().all(is_zero) {
                    wanted.push((at as i64, own));
                }
            }
            ends.push(wanted.len() as i64);
        }
        let sizes = [lines, width, unit];
        let mut pointers = vec![9; lines + 1];
        count_stored(&x, sizes, &mut pointers)?;
        assert_eq!(pointers, ends);
        let count = wanted.len();
        let (mut columns, mut values) = (vec![9; count], vec![T::default(); count * unit]);
        stored(&x, sizes, &pointers, &mut columns, &mut values)?;
        for (e, (at, own)) in wanted.iter().enumerate() {
            assert_eq!(columns[e], *at);
            let mut both = values[e * unit..][..unit].iter().zip(*own);
            assert!(both.all(|(a, b)| alike(a, b)));
        }
        // A pointer more, or less.
        if count > 0 {
            assert!(stored(&x, sizes, &pointers, &mut columns[1..], &mut values[unit..]).is_err());
            if lines > 1 {
                let mut wrong = pointers.clone();
                wrong[1] = if wrong[1] > 0 { wrong[1] - 1 } else { 1 };
                assert!(stored(&x, sizes, &wrong, &mut columns, &mut values).is_err());
            }
        }
        let places: Vec<i64> = (0..lines)
            .flat_map(|line| {
                let own = ends[line] as usize..ends[line + 1] as usize;
                columns[own].iter().map(move |c| (line * width) as i64 + c)
            })
            .collect();
        let narrow: Vec<i32> = pointers.iter().map(|&p| p as i32).collect();
        let narrow_columns: Vec<i32> = columns.iter().map(|&c| c as i32).collect();
        for kind in 0..3 {
            let mut out = vec![MaybeUninit::new(others[0]); x.len()];
            let sizes = [1, lines, width, unit];
            match kind {
                0 => fill_lines(&pointers, &columns, &values, sizes, &mut out)?,
                1 => fill_lines(&narrow, &narrow_columns, &values, sizes, &mut out)?,
                _ if unit == 0 => continue,
                _ => fill_places(&places, &values, unit, &mut out)?,
            }
            for (i, (to, from)) in out.iter().zip(&x).enumerate() {
                // SAFETY: it was initialised above, and written.
                let to = unsafe { to.assume_init() };
                assert!(alike(&to, from), "{sizes:?} at {i}");
            }
        }
    }
    Ok(())
}

#[torsh_macros::unit_test]
fn strided_tensors_are_stored_and_made_again() -> Result<()> {
    check_stored(&[0.0, -0.0], &[f32::NAN, 1.0, -1e-45, f32::INFINITY])?;
    check_stored(&[0.0, -0.0], &[f64::NAN, 1.0, 5e-324])?;
    check_stored(&[0u8], &[1, 255])?;
    check_stored(&[0i64], &[i64::MIN, -1, 3])?;
    let halves = [0.0, -0.0, 1.0, f32::NAN, -2.0];
    let of = halves.map(bf16::from_f32);
    check_stored(&of[..2], &of[2..])?;
    let of = halves.map(f16::from_f32);
    check_stored(&of[..2], &of[2..])?;
    let complex = |re, im| Complex::new(re, im);
    check_stored(
        &[complex(0.0f32, 0.0), complex(-0.0, 0.0)],
        &[
            complex(1.0, 0.0),
            complex(0.0, -1.0),
            complex(0.0, f32::NAN),
        ],
    )
}

#[torsh_macros::unit_test]
fn batches_of_lines_are_made_dense() -> Result<()> {
    let mut r = Random(59);
    let (entries, count, others) = (3, 7, 5);
    let (pointers, plain) = lines(&mut r, entries, count, others);
    let values: Vec<i32> = (1..).take(plain.len() * 2).collect();
    let mut out = vec![MaybeUninit::new(9); entries * count * others * 2];
    let sizes = [entries, count, others, 2];
    fill_lines(&pointers, &plain, &values, sizes, &mut out)?;
    let mut wanted = vec![0; out.len()];
    let nnz = plain.len() / entries;
    for entry in 0..entries {
        for line in 0..count {
            let own = &pointers[entry * (count + 1) + line..][..2];
            for e in own[0] as usize..own[1] as usize {
                let e = entry * nnz + e;
                let at = (entry * count + line) * others + plain[e] as usize;
                wanted[2 * at..][..2].copy_from_slice(&values[2 * e..][..2]);
            }
        }
    }
    // SAFETY: every element is initialised.
    let out: Vec<i32> = out.iter().map(|v| unsafe { v.assume_init() }).collect();
    assert_eq!(out, wanted);
    let mut out = [MaybeUninit::new(0.0f32); 4];
    for bad in [-1i64, 2, i64::MAX, i64::MIN] {
        assert!(fill_lines(&[0, 1, 1], &[bad], &[1.0], [1, 2, 2, 1], &mut out).is_err());
        let places = [bad.saturating_mul(2)];
        assert!(fill_places(&places, &[1.0], 1, &mut out).is_err());
    }
    for places in [[1, 1], [2, 1]] {
        assert!(fill_places(&places, &[1.0, 2.0], 1, &mut out).is_err());
    }
    assert!(fill_lines(&[0i64, 2, 1], &[0], &[1.0], [1, 2, 2, 1], &mut out).is_err());
    assert!(fill_lines(&[0i64, 1], &[0], &[1.0], [1, 2, 2, 1], &mut out).is_err());
    Ok(())
}

/// Softmax and its logarithm of runs of some lengths against float64.
fn check_softmax<T: Softmax>(
    of: impl Fn(f64) -> T,
    back: impl Fn(T) -> f64,
    near: f64,
) -> Result<()> {
    let mut r = Random(61);
    for width in [1, 3, 600] {
        let mut starts = vec![0i64];
        for length in [0, 1, 2, 3, 17, 0, 100, 31, 64, 1] {
            starts.push(starts[starts.len() - 1] + length);
        }
        let rows = starts[starts.len() - 1] as usize;
        let x: Vec<f64> = (0..rows * width)
            .map(|_| r.below(4000) as f64 / 64.0 - 30.0)
            .collect();
        let values: Vec<T> = x.iter().map(|&v| of(v)).collect();
        let mut out = vec![of(9.0); x.len()];
        for log in [false, true] {
            run_softmax(&values, width, &starts, log, &mut out)?;
            for ends in starts.windows(2) {
                let own = ends[0] as usize..ends[1] as usize;
                for c in 0..width {
                    let number = |row: usize| x[row * width + c];
                    let top = own.clone().map(number).fold(f64::NEG_INFINITY, f64::max);
                    let sum: f64 = own.clone().map(|row| (number(row) - top).exp()).sum();
                    for row in own.clone() {
                        let shifted = number(row) - top;
                        let wanted = if log {
                            shifted - sum.ln()
                        } else {
                            shifted.exp() / sum
                        };
                        let got = back(out[row * width + c]);
                        let scale = if log { wanted.abs().max(1.0) } else { 1.0 };
                        assert!((got - wanted).abs() <= near * scale, "{got} for {wanted}");
                    }
                }
            }
        }
        run_totals(&values, width, &starts, &mut out)?;
        for ends in starts.windows(2) {
            let own = ends[0] as usize..ends[1] as usize;
            for row in own.clone() {
                for c in 0..width {
                    let sum: f64 = own.clone().map(|row| x[row * width + c]).sum();
                    let got = back(out[row * width + c]);
                    assert!((got - sum).abs() <= near * 4000.0, "{got} for {sum}");
                }
            }
        }
    }
    let mut out = [of(0.0); 2];
    let x = [of(1.0), of(2.0)];
    for starts in [&[0, 3][..], &[1, 2], &[0, 2, 1, 2], &[]] {
        assert!(run_softmax(&x, 1, starts, false, &mut out).is_err());
        assert!(run_totals(&x, 1, starts, &mut out).is_err());
    }
    Ok(())
}

#[torsh_macros::unit_test]
fn runs_have_their_softmax() -> Result<()> {
    check_softmax(|v| v as f32, f64::from, 1e-6)?;
    check_softmax(|v| v, |v| v, 1e-12)?;
    // Infinities are as in a dense softmax.
    let mut out = [0.0f32; 3];
    let none = f32::NEG_INFINITY;
    run_softmax(&[none, 0.0, none], 1, &[0, 2, 3], false, &mut out)?;
    assert!(out[..2] == [0.0, 1.0] && out[2].is_nan());
    Ok(())
}

#[torsh_macros::unit_test]
fn many_places_are_sorted_on_any_number_of_threads() -> Result<()> {
    let mut r = Random(67);
    let shape = [300, 200];
    for sorted in [false, true] {
        let mut all = places(&mut r, &shape, 40_000);
        if sorted {
            all.sort_unstable();
        }
        let indices = matrix(&all, 2);
        let (mut order, mut starts) = (vec![9; all.len()], vec![9; all.len() + 1]);
        let runs = sort_indices(&indices, &shape, &mut order, &mut starts)?;
        let mut wanted: Vec<usize> = (0..all.len()).collect();
        wanted.sort_by_key(|&e| &all[e]);
        assert!(order.iter().zip(&wanted).all(|(a, b)| *a as usize == *b));
        let distinct = ascending(all);
        assert_eq!((runs, starts[runs]), (distinct.len(), 40_000));
        let mut unique = vec![9; 2 * runs];
        unique_indices(&indices, &order, &starts[..runs], &mut unique)?;
        assert_eq!(unique, matrix(&distinct, 2));
    }
    Ok(())
}

/// Results that must not depend on the number of threads.
pub(super) fn results() -> Result<(Vec<i64>, Vec<f32>)> {
    let mut r = Random(71);
    let shape = [300, 200];
    let lists = [9000, 12_000].map(|n| ascending(places(&mut r, &shape, n)));
    let values = lists.each_ref().map(|l| {
        l.iter()
            .map(|_| r.below(1000) as f32 / 7.0)
            .collect::<Vec<f32>>()
    });
    let [a, b] = lists.each_ref().map(|list| matrix(list, 2));
    let a = Coordinates::new(&a, lists[0].len(), &shape)?;
    let b = Coordinates::new(&b, lists[1].len(), &shape)?;
    let mut at = vec![0; lists[1].len()];
    find_places(a, b, &mut at)?;
    let count = lists[0].len() + at.iter().filter(|&&p| p < 0).count();
    let (mut indices, mut out) = (vec![0; 2 * count], vec![0.0; count]);
    let both = (&values[0][..], &values[1][..]);
    merge_places(a, b, &at, both, 1, &mut indices, &mut out)?;
    let mut pointers = vec![0i64; 301];
    let heads = Coordinates::new(&indices[..count], count, &shape[..1])?;
    line_pointers(heads, &mut pointers)?;
    let mut soft = vec![0.0; count];
    run_softmax(&out, 1, &pointers, false, &mut soft)?;
    let mut totals = vec![0.0; count];
    run_totals(&soft, 1, &pointers, &mut totals)?;
    let mut dense = vec![MaybeUninit::new(9.0f32); 300 * 200];
    let sizes = [1, 300, 200, 1];
    fill_lines(&pointers, &indices[count..], &soft, sizes, &mut dense)?;
    // SAFETY: every element is initialised.
    let dense: Vec<f32> = dense.iter().map(|v| unsafe { v.assume_init() }).collect();
    let mut again = vec![0; 301];
    count_stored(&dense, [300, 200, 1], &mut again)?;
    Ok((
        [indices, pointers, again, at].concat(),
        [out, soft, totals, dense].concat(),
    ))
}
