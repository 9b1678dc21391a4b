use std::mem::MaybeUninit;

use half::bf16;
use num_complex::Complex;
use torsh_core::{Element, Result, pool};

use super::*;

mod lists;
mod products;
mod refused;

/// What a kernel writes to memory of `n` elements. Each is `before` first, so that one that is left is seen.
pub(super) fn written<T: Element>(
    n: usize,
    before: T,
    f: impl FnOnce(&mut [MaybeUninit<T>]) -> Result<()>,
) -> Result<Vec<T>> {
    let mut all = vec![MaybeUninit::new(before); n];
    f(&mut all)?;
    Ok(read(all))
}

fn read<T: Copy>(all: Vec<MaybeUninit<T>>) -> Vec<T> {
    // SAFETY: the tests make such memory of numbers.
    let number = |v: MaybeUninit<T>| unsafe { v.assume_init() };
    all.into_iter().map(number).collect()
}

/// Random numbers: small whole ones, so that sums are exact in every order.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, n: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        ((self.0 >> 33) % n.max(1) as u64) as usize
    }
    pub(super) fn number(&mut self) -> i64 {
        self.below(9) as i64 - 4
    }
}

/// A matrix by rows, whose rows have 0 to `most` elements; columns of a row are different and sorted.
struct Matrix {
    pointers: Vec<i64>,
    columns: Vec<i64>,
    values: Vec<i64>,
    rows: usize,
    width: usize,
}

impl Matrix {
    fn random(r: &mut Random, rows: usize, width: usize, most: usize) -> Matrix {
        let (mut pointers, mut columns) = (vec![0], Vec::new());
        for _ in 0..rows {
            let n = r.below(most + 1).min(width);
            let mut row: Vec<i64> = (0..n).map(|_| r.below(width) as i64).collect();
            row.sort_unstable();
            row.dedup();
            columns.extend(row);
            pointers.push(columns.len() as i64);
        }
        let values = columns.iter().map(|_| r.number()).collect();
        Matrix {
            pointers,
            columns,
            values,
            rows,
            width,
        }
    }

    fn dense(&self) -> Vec<i64> {
        let mut all = vec![0; self.rows * self.width];
        self.each(|i, j, v| all[i * self.width + j] += v);
        all
    }

    fn each(&self, mut f: impl FnMut(usize, usize, i64)) {
        for i in 0..self.rows {
            for e in self.pointers[i] as usize..self.pointers[i + 1] as usize {
                f(i, self.columns[e] as usize, self.values[e]);
            }
        }
    }

    fn places(&self) -> (&[i64], &[i64]) {
        (&self.pointers, &self.columns)
    }
}

fn multiplied(a: &[i64], b: &[i64], [n, k, m]: [usize; 3]) -> Vec<i64> {
    let mut out = vec![0; n * m];
    for i in 0..n {
        for j in 0..m {
            out[i * m + j] = (0..k).map(|t| a[i * k + t] * b[t * m + j]).sum();
        }
    }
    out
}

/// The product in a type, of the matrix as it is and with its values in another order.
fn check_product<T: Products>(of: impl Fn(i64) -> T + Copy) -> Result<()> {
    let mut r = Random(1);
    for m in [1, 2, 3, 7, 8, 16, 17, 31, 64, 65, 130] {
        for (rows, width, most) in [
            (1, 1, 1),
            (5, 9, 4),
            (40, 30, 12),
            (3, 200, 90),
            (300, 50, 20),
        ] {
            let a = Matrix::random(&mut r, rows, width, most);
            let dense: Vec<i64> = (0..width * m).map(|_| r.number()).collect();
            let wanted: Vec<T> = multiplied(&a.dense(), &dense, [rows, width, m])
                .into_iter()
                .map(of)
                .collect();
            let (values, dense): (Vec<T>, Vec<T>) = (
                a.values.iter().map(|&v| of(v)).collect(),
                dense.into_iter().map(of).collect(),
            );
            let by_rows = Rows::new(&a.pointers, &a.columns, &values, None, width)?;
            let out = written(rows * m, of(7), |out| product(by_rows, &dense, m, out))?;
            assert_eq!(out, wanted, "{rows} x {width} x {m}");
            let narrow = |l: &[i64]| l.iter().map(|&i| i as i32).collect::<Vec<i32>>();
            let (pointers, columns) = (narrow(&a.pointers), narrow(&a.columns));
            let order: Vec<i64> = (0..values.len() as i64).rev().collect();
            let reversed: Vec<T> = values.iter().rev().copied().collect();
            let a = Rows::new(&pointers, &columns, &reversed, Some(&order), width)?;
            let out = written(rows * m, of(7), |out| product(a, &dense, m, out))?;
            assert_eq!(out, wanted, "{rows} x {width} x {m}, in another order");
        }
    }
    Ok(())
}

#[torsh_macros::unit_test]
fn products_are_those_of_dense_matrices() -> Result<()> {
    check_product(|v| v as f32)?;
    check_product(|v| v as f64)?;
    check_product(|v| v)?;
    check_product(|v| v as i8)?;
    check_product(|v| Complex::new(v as f32, 0.0))?;
    check_product(|v| Complex::new(v as f64, 0.0))?;
    // Sums stay below 256, which bfloat16 holds.
    let values = [3.0, 5.0].map(bf16::from_f32);
    let a = Rows::new(&[0i64, 2], &[0, 1], &values, None, 2)?;
    let dense = [2.0, 7.0].map(bf16::from_f32);
    let out = written(1, bf16::ZERO, |out| product(a, &dense, 1, out))?;
    assert_eq!(out[0].to_f32(), 41.0);
    Ok(())
}

#[torsh_macros::unit_test]
fn complex_products_have_both_parts() -> Result<()> {
    let mut r = Random(3);
    let a = Matrix::random(&mut r, 20, 11, 8);
    let mut number = || Complex::new(r.number() as f32, r.number() as f32);
    let values: Vec<_> = a.values.iter().map(|_| number()).collect();
    for m in [1, 3, 16, 37] {
        let dense: Vec<_> = (0..11 * m).map(|_| number()).collect();
        let mut wanted = vec![Complex::new(0.0, 0.0); 20 * m];
        for i in 0..20 {
            for e in a.pointers[i] as usize..a.pointers[i + 1] as usize {
                for j in 0..m {
                    wanted[i * m + j] += values[e] * dense[a.columns[e] as usize * m + j];
                }
            }
        }
        let by_rows = Rows::new(&a.pointers, &a.columns, &values, None, 11)?;
        let before = Complex::new(9.0, 9.0);
        let out = written(20 * m, before, |out| product(by_rows, &dense, m, out))?;
        assert_eq!(out, wanted);
    }
    Ok(())
}

#[torsh_macros::unit_test]
fn sampled_products_are_elements_of_products() -> Result<()> {
    fn check<T: Products>(of: impl Fn(i64) -> T + Copy) -> Result<()> {
        let mut r = Random(5);
        for k in [0, 1, 3, 16, 17, 64, 100] {
            let a = Matrix::random(&mut r, 30, 20, 9);
            let x: Vec<i64> = (0..30 * k).map(|_| r.number()).collect();
            let y: Vec<i64> = (0..20 * k).map(|_| r.number()).collect();
            let (mut wanted, mut list) = (Vec::new(), Vec::new());
            a.each(|i, j, _| {
                list.push(i as i64);
                wanted.push(of((0..k).map(|t| x[i * k + t] * y[j * k + t]).sum()));
            });
            let all = |l: &[i64]| l.iter().map(|&v| of(v)).collect::<Vec<T>>();
            let (x, y) = (all(&x), all(&y));
            for majors in [Majors::Pointers(&a.pointers), Majors::List(&list)] {
                let f = |out: &mut [_]| sampled_product(majors, &a.columns, &x, &y, k, out);
                assert_eq!(written(wanted.len(), of(7), f)?, wanted);
            }
        }
        Ok(())
    }
    check(|v| v as f32)?;
    check(|v| v as f64)?;
    check(|v| v)?;
    check(|v| Complex::new(v as f64, 0.0))
}

#[torsh_macros::unit_test]
fn a_transposition_twice_is_the_matrix() -> Result<()> {
    let mut r = Random(7);
    for (rows, width, most) in [(0, 3, 1), (4, 0, 1), (5, 9, 4), (3000, 200, 60)] {
        let a = Matrix::random(&mut r, rows, width, most);
        let n = a.columns.len();
        let (mut p, mut i, mut o) = (vec![9; width + 1], vec![9; n], vec![9; n]);
        group(
            &a.columns,
            Minors::Pointers(&a.pointers),
            &mut p,
            &mut i,
            &mut o,
        )?;
        for j in 0..width {
            for e in p[j] as usize..p[j + 1] as usize {
                let from = o[e] as usize;
                assert_eq!(a.columns[from], j as i64);
                let row = i[e] as usize;
                assert!((a.pointers[row]..a.pointers[row + 1]).contains(&(from as i64)));
            }
            assert!(i[p[j] as usize..p[j + 1] as usize].is_sorted());
        }
        let (mut q, mut k, mut back) = (vec![9; rows + 1], vec![9; n], vec![9; n]);
        group(&i, Minors::Pointers(&p), &mut q, &mut k, &mut back)?;
        assert_eq!((&q, &k), (&a.pointers, &a.columns));
        assert!(
            back.iter()
                .enumerate()
                .all(|(e, b)| o[*b as usize] == e as i64)
        );
    }
    Ok(())
}

#[torsh_macros::unit_test]
fn places_are_sorted_stably() -> Result<()> {
    let mut r = Random(11);
    let huge = 1usize << 40;
    let shapes: [&[usize]; 6] = [
        &[],
        &[1],
        &[7, 5],
        &[10_000, 10_000],
        &[huge, huge, 3],
        &[3, huge, huge],
    ];
    for shape in shapes {
        for n in [0, 1, 2, 100, 5000] {
            let bounds: Vec<usize> = shape
                .iter()
                .map(|&s| if n > 200 { s.min(40) } else { s })
                .collect();
            let indices: Vec<i64> = bounds
                .iter()
                .flat_map(|&s| (0..n).map(move |_| s).collect::<Vec<_>>())
                .map(|s| r.below(s) as i64)
                .collect();
            let key = |e: usize| {
                (0..shape.len())
                    .map(|d| indices[d * n + e])
                    .collect::<Vec<i64>>()
            };
            let mut wanted: Vec<usize> = (0..n).collect();
            wanted.sort_by_key(|&e| key(e));
            let (mut order, mut starts) = (vec![9; n], vec![9; n + 1]);
            let runs = sort_indices(&indices, shape, &mut order, &mut starts)?;
            assert!(
                order.iter().zip(&wanted).all(|(a, b)| *a as usize == *b),
                "{shape:?} {n}"
            );
            let mut distinct: Vec<_> = wanted.iter().map(|&e| key(e)).collect();
            distinct.dedup();
            assert_eq!((runs, starts[runs]), (distinct.len(), n as i64));
            let mut unique = vec![9; shape.len() * runs];
            unique_indices(&indices, &order, &starts[..runs], &mut unique)?;
            for (k, place) in distinct.iter().enumerate() {
                assert!((0..shape.len()).all(|d| unique[d * runs + k] == place[d]));
            }
            let values: Vec<f32> = (0..2 * n).map(|_| r.number() as f32).collect();
            let mut sums = vec![9.0; 2 * runs];
            segment_sums(&values, 2, &order, &starts[..=runs], &mut sums)?;
            for k in 0..runs {
                for w in 0..2 {
                    let sum: f32 = (starts[k]..starts[k + 1])
                        .map(|e| values[2 * order[e as usize] as usize + w])
                        .sum();
                    assert_eq!(sums[2 * k + w], sum);
                }
            }
        }
    }
    assert!(sort_indices(&[0, 5], &[5], &mut [0; 2], &mut [0; 3]).is_err());
    assert!(sort_indices(&[0, -1], &[5], &mut [0; 2], &mut [0; 3]).is_err());
    Ok(())
}

#[torsh_macros::unit_test]
fn products_of_sparse_matrices_are_those_of_dense_ones() -> Result<()> {
    let mut r = Random(13);
    for (n, k, m, most) in [
        (1, 1, 1, 1),
        (6, 5, 7, 3),
        (40, 30, 200, 9),
        (20, 10, 5000, 40),
    ] {
        let (a, b) = (
            Matrix::random(&mut r, n, k, most),
            Matrix::random(&mut r, k, m, most),
        );
        let wanted = multiplied(&a.dense(), &b.dense(), [n, k, m]);
        let (pointers, columns) = product_pattern(a.places(), b.places(), m)?;
        let places = (&pointers[..], &columns[..]);
        let mut ones = vec![0; n * m];
        a.each(|i, t, _| b.each(|s, j, _| ones[i * m + j] += i64::from(s == t)));
        for i in 0..n {
            let row = &columns[pointers[i] as usize..pointers[i + 1] as usize];
            let stored: Vec<i64> = (0..m as i64)
                .filter(|&j| ones[i * m + j as usize] > 0)
                .collect();
            assert_eq!(row, stored);
        }
        let of = |m: &Matrix| m.values.iter().map(|&v| v as f32).collect::<Vec<f32>>();
        let (va, vb) = (of(&a), of(&b));
        let left = Rows::new(&a.pointers, &a.columns, &va, None, k)?;
        let right = Rows::new(&b.pointers, &b.columns, &vb, None, m)?;
        let count = b.columns.len();
        let (mut p, mut i, mut o) = (vec![9; m + 1], vec![9; count], vec![9; count]);
        group(
            &b.columns,
            Minors::Pointers(&b.pointers),
            &mut p,
            &mut i,
            &mut o,
        )?;
        let by_columns = Rows::new(&p, &i, &vb, Some(&o), k)?;
        // At its own places, and at others.
        let others = Matrix::random(&mut r, n, m, 8);
        for places in [places, others.places()] {
            let count = places.1.len();
            let check = |out: &[f32]| {
                for i in 0..n {
                    for e in places.0[i] as usize..places.0[i + 1] as usize {
                        assert_eq!(out[e], wanted[i * m + places.1[e] as usize] as f32);
                    }
                }
            };
            check(&written(count, 9.0, |out| {
                masked_product(left, right, places, out)
            })?);
            check(&written(count, 9.0, |out| {
                masked_inner_products(left, by_columns, places, out)
            })?);
        }
    }
    Ok(())
}

#[torsh_macros::unit_test]
fn wide_products_take_no_marks() -> Result<()> {
    let wide = 1usize << 40;
    let far = wide as i64 - 1;
    let (a, b) = (
        (&[0i64, 2][..], &[0i64, 1][..]),
        (&[0i64, 2, 3][..], &[5i64, far, far][..]),
    );
    let (pointers, columns) = product_pattern(a, b, wide)?;
    assert_eq!((&pointers[..], &columns[..]), (&[0, 2][..], &[5, far][..]));
    let left = Rows::new(a.0, a.1, &[2.0f64, 3.0], None, 2)?;
    let right = Rows::new(b.0, b.1, &[1.0, 10.0, 100.0], None, wide)?;
    let places = (&pointers[..], &columns[..]);
    let out = written(2, 9.0, |out| masked_product(left, right, places, out))?;
    assert_eq!(out, [2.0, 320.0]);
    // The inner product of two wide rows.
    let ends = [5, far];
    let row = Rows::new(&[0i64, 2], &ends, &[2.0f64, 3.0], None, wide)?;
    let place = (&[0i64, 1][..], &[0][..]);
    let out = written(1, 9.0, |out| masked_inner_products(row, row, place, out))?;
    assert_eq!(out, [13.0]);
    Ok(())
}

#[torsh_macros::unit_test]
fn extremes_are_the_first_of_equal_products() -> Result<()> {
    let mut r = Random(17);
    let a = Matrix::random(&mut r, 25, 12, 6);
    let m = 3;
    let dense: Vec<f32> = (0..12 * m).map(|_| r.number() as f32).collect();
    let values: Vec<f32> = a.values.iter().map(|&v| v as f32).collect();
    let rows = Rows::new(&a.pointers, &a.columns, &values, None, 12)?;
    for extreme in [Extreme::Max, Extreme::Min] {
        let (mut out, mut which) = (vec![9.0; 25 * m], vec![9; 25 * m]);
        extremes(rows, &dense, m, extreme, &mut out, &mut which)?;
        for i in 0..25 {
            for j in 0..m {
                let mut best: Option<(f32, i64)> = None;
                for e in a.pointers[i]..a.pointers[i + 1] {
                    let p = values[e as usize] * dense[a.columns[e as usize] as usize * m + j];
                    let better = best.is_none_or(|(b, _)| {
                        if extreme == Extreme::Max {
                            p > b
                        } else {
                            p < b
                        }
                    });
                    if better {
                        best = Some((p, e));
                    }
                }
                assert_eq!(
                    (out[i * m + j], which[i * m + j]),
                    best.unwrap_or((0.0, -1))
                );
            }
        }
    }
    let nan = Rows::new(&[0i64, 2], &[0, 1], &[f32::NAN, 1.0], None, 2)?;
    let (mut out, mut which) = ([0.0], [0]);
    extremes(nan, &[1.0, 1.0], 1, Extreme::Max, &mut out, &mut which)?;
    assert!(out[0].is_nan() && which == [0]);
    Ok(())
}

#[torsh_macros::unit_test]
fn solutions_solve() -> Result<()> {
    let mut r = Random(19);
    let n = 40;
    for upper in [false, true] {
        for unit in [false, true] {
            // Elements on both sides: those of the other are not read.
            let a = Matrix::random(&mut r, n, n, 5);
            let (mut pointers, mut columns, mut values) = (vec![0], Vec::new(), Vec::new());
            for i in 0..n {
                let row = a.pointers[i] as usize..a.pointers[i + 1] as usize;
                columns.push(i as i64);
                values.push(2.0);
                for e in row.filter(|&e| a.columns[e] != i as i64) {
                    columns.push(a.columns[e]);
                    values.push(a.values[e] as f64);
                }
                pointers.push(columns.len() as i64);
            }
            for m in [1, 3, 130] {
                let x: Vec<f64> = (0..n * m).map(|_| r.number() as f64).collect();
                let mut b = vec![0.0; n * m];
                for i in 0..n {
                    for e in pointers[i] as usize..pointers[i + 1] as usize {
                        let c = columns[e] as usize;
                        let read = if upper { c > i } else { c < i };
                        let v = match (c == i, read) {
                            (true, _) if unit => 1.0,
                            (true, _) | (_, true) => values[e],
                            _ => continue,
                        };
                        (0..m).for_each(|j| b[i * m + j] += v * x[c * m + j]);
                    }
                }
                let mut out = vec![9.0; n * m];
                let rows = Rows::new(&pointers, &columns, &values, None, n)?;
                solve(rows, &b, m, Triangle { upper, unit }, &mut out)?;
                let scale = out.iter().fold(1.0, |a: f64, b| a.max(b.abs()));
                assert!(
                    out.iter()
                        .zip(&x)
                        .all(|(a, b)| (a - b).abs() < 1e-6 * scale)
                );
            }
        }
    }
    Ok(())
}

#[torsh_macros::unit_test]
fn indices_out_of_range_are_errors() -> Result<()> {
    let value = [1.0f32];
    let (mut out, mut fresh) = ([0.0f32; 1], [MaybeUninit::new(0.0f32); 1]);
    for bad in [-1i64, 1, i64::MAX, i64::MIN] {
        let columns = [bad];
        let a = Rows::new(&[0i64, 1], &columns, &value, None, 1)?;
        for m in [1, 3] {
            assert!(product(a, &vec![1.0; m], m, &mut vec![MaybeUninit::new(0.0); m]).is_err());
        }
        assert!(
            solve(
                a,
                &[1.0],
                1,
                Triangle {
                    upper: false,
                    unit: false
                },
                &mut out
            )
            .is_err()
        );
        assert!(extremes(a, &[1.0], 1, Extreme::Max, &mut out, &mut [0]).is_err());
        assert!(
            sampled_product(Majors::List(&[0]), &columns, &[1.0], &[1.0], 1, &mut fresh).is_err()
        );
        assert!(
            sampled_product(Majors::List(&columns), &[0], &[1.0], &[1.0], 1, &mut fresh).is_err()
        );
        assert!(product_pattern((&[0i64, 1], &columns), (&[0, 1], &[0]), 1).is_err());
        assert!(product_pattern((&[0i64, 1], &[0]), (&[0, 1], &columns), 1).is_err());
        let good = Rows::new(&[0i64, 1], &[0], &value, None, 1)?;
        assert!(masked_product(a, good, (&[0, 1], &[0]), &mut fresh).is_err());
        assert!(masked_product(good, a, (&[0, 1], &[0]), &mut fresh).is_err());
        assert!(masked_product(good, good, (&[0, 1], &columns), &mut fresh).is_err());
        assert!(masked_inner_products(a, good, (&[0, 1], &[0]), &mut fresh).is_err());
        assert!(masked_inner_products(good, a, (&[0, 1], &[0]), &mut fresh).is_err());
        assert!(
            group(
                &columns,
                Minors::List(&[0]),
                &mut [0, 0],
                &mut [0],
                &mut [0]
            )
            .is_err()
        );
        assert!(segment_sums(&value, 1, &columns, &[0, 1], &mut out).is_err());
        let order = [bad];
        let moved = Rows::new(&[0i64, 1], &[0], &value, Some(&order), 1)?;
        assert!(product(moved, &[1.0], 1, &mut fresh).is_err());
        for pointers in [[0, bad], [bad, 1]] {
            if pointers != [0, 1] {
                assert!(Rows::new(&pointers, &[0], &value, None, 1).is_err());
            }
        }
    }
    assert!(Rows::<f32, i32>::new(&[0, 2, 1], &[0], &value, None, 1).is_err());
    assert!(Rows::<f32, i32>::new(&[], &[], &[], None, 1).is_err());
    Ok(())
}

#[torsh_macros::unit_test]
fn results_do_not_depend_on_the_threads() -> Result<()> {
    let mut r = Random(23);
    let a = Matrix::random(&mut r, 4000, 500, 40);
    let values: Vec<f32> = a
        .columns
        .iter()
        .map(|_| r.below(1000) as f32 / 7.0)
        .collect();
    let dense: Vec<f32> = (0..500 * 20).map(|_| r.below(1000) as f32 / 3.0).collect();
    let rows = Rows::new(&a.pointers, &a.columns, &values, None, 500)?;
    let before = pool::num_threads();
    let mut all = Vec::new();
    for threads in [1, 2, 5] {
        pool::set_num_threads(threads)
            .map_err(|e| torsh_core::TorshError::invalid("", e.to_string()))?;
        let out = written(4000 * 20, 0.0, |out| product(rows, &dense, 20, out))?;
        let x = &dense[..500 * 20].repeat(8);
        let majors = Majors::Pointers(&a.pointers);
        let at = written(a.columns.len(), 0.0, |out| {
            sampled_product(majors, &a.columns, x, &dense, 20, out)
        })?;
        let n = a.columns.len();
        let (mut p, mut i, mut o) = (vec![0; 501], vec![0; n], vec![0; n]);
        group(
            &a.columns,
            Minors::Pointers(&a.pointers),
            &mut p,
            &mut i,
            &mut o,
        )?;
        let pattern = product_pattern(a.places(), (&p, &i), 4000)?;
        all.push((out, at, p, i, o, pattern, lists::results()?));
    }
    pool::set_num_threads(before)
        .map_err(|e| torsh_core::TorshError::invalid("", e.to_string()))?;
    assert!(all.iter().all(|each| *each == all[0]));
    Ok(())
}
