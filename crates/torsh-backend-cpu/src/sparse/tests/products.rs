//! Products with rows and columns of every length, and products of two sparse matrices in one pass.

use std::mem::MaybeUninit;

use half::{bf16, f16};
use num_complex::Complex;
use torsh_core::{Element, Result, TorshError, pool};

use super::super::*;
use super::{Matrix, Random, read, written};
use crate::operations::Force;

fn forced(op: &str, algorithm: &str) -> Result<Force> {
    Force::new(op, algorithm).map_err(|e| TorshError::invalid("", e))
}

/// Runs a check of every type of numbers, given how one of them is made of a whole number.
macro_rules! with_all_types {
    (|$of:ident| $check:expr) => {
        with_all_types!(@ $of $check;
            |v: i64| v as f32,
            |v: i64| v as f64,
            |v: i64| Complex::new(v as f32, 0.0),
            |v: i64| Complex::new(v as f64, 0.0),
            |v: i64| bf16::from_f32(v as f32),
            |v: i64| f16::from_f32(v as f32),
            |v: i64| v as u8,
            |v: i64| v as i8,
            |v: i64| v as i16,
            |v: i64| v as i32,
            |v: i64| v,
        );
    };
    (@ $of:ident $check:expr; $($make:expr,)*) => { $({
        let $of = $make;
        $check?;
    })* };
}

/// -1, 0 or 1: of so small numbers every type has the sums.
fn small(r: &mut Random) -> i64 {
    r.below(3) as i64 - 1
}

/// A matrix whose rows have 0 to `longest` elements, one of each length and some more without any.
fn of_all_lengths(r: &mut Random, longest: usize, width: usize) -> Matrix {
    let lengths: Vec<usize> = (0..=longest).chain([0, 0, longest, 0]).collect();
    let (mut pointers, mut columns) = (vec![0], Vec::new());
    for &n in &lengths {
        columns.extend((0..n).map(|t| (t * width / n + r.below(width / n)) as i64));
        pointers.push(columns.len() as i64);
    }
    let values = columns.iter().map(|_| small(r)).collect();
    Matrix {
        pointers,
        columns,
        values,
        rows: lengths.len(),
        width,
    }
}

/// The product of the matrix and a dense one of `m` columns.
fn by_elements(a: &Matrix, dense: &[i64], m: usize) -> Vec<i64> {
    let mut out = vec![0; a.rows * m];
    a.each(|i, j, v| (0..m).for_each(|c| out[i * m + c] += v * dense[j * m + c]));
    out
}

/// Products of a matrix and dense ones, with the values in the order of the elements and in another one.
fn check_products<T: Products>(
    a: &Matrix,
    all_m: impl IntoIterator<Item = usize>,
    of: impl Fn(i64) -> T + Copy,
) -> Result<()> {
    let mut r = Random(43);
    let all = |l: &[i64]| l.iter().map(|&v| of(v)).collect::<Vec<T>>();
    let values = all(&a.values);
    let order: Vec<i64> = (0..values.len() as i64).rev().collect();
    let reversed: Vec<T> = values.iter().rev().copied().collect();
    let both = [
        Rows::new(&a.pointers, &a.columns, &values, None, a.width)?,
        Rows::new(&a.pointers, &a.columns, &reversed, Some(&order), a.width)?,
    ];
    for m in all_m {
        let dense: Vec<i64> = (0..a.width * m).map(|_| small(&mut r)).collect();
        let wanted = all(&by_elements(a, &dense, m));
        let of_one_row = all(&by_elements(a, &dense[..m].repeat(a.width), m));
        let dense = all(&dense);
        for rows in both {
            let out = written(a.rows * m, of(7), |out| product(rows, &dense, m, out))?;
            assert_eq!(out, wanted, "{m} columns");
            let row = &dense[..m];
            let out = written(a.rows * m, of(7), |out| product(rows, row, m, out))?;
            assert_eq!(out, of_one_row, "a row for all, {m} columns");
        }
    }
    Ok(())
}

#[torsh_macros::unit_test]
fn rows_and_columns_of_every_length_are_summed() -> Result<()> {
    let a = of_all_lengths(&mut Random(41), 40, 83);
    let all = || (1..=40).chain([63, 64, 65, 96, 129]);
    for algorithm in ["rows", "panels"] {
        let force = forced("sparse.product", algorithm)?;
        with_all_types!(|of| check_products(&a, all(), of));
        drop(force);
    }
    Ok(())
}

#[torsh_macros::unit_test]
fn narrow_panels_and_groups_of_them_are_all_columns() -> Result<()> {
    // Panels of a cache line, of which some dozens are packed at a time.
    let a = of_all_lengths(&mut Random(47), 20, 5000);
    let force = forced("sparse.product", "panels")?;
    check_products(&a, [1, 7, 16, 40, 65], |v| v as f32)?;
    check_products(&a, [7, 40], |v| Complex::new(v as f64, 0.0))?;
    check_products(&a, [40], |v| v as i16)?;
    check_products(&a, [900], |v| v as f32)?;
    assert!(force.taken() > 0);
    Ok(())
}

#[torsh_macros::unit_test]
fn long_rows_times_a_vector_are_summed_in_pieces() -> Result<()> {
    let terms = tuning::TERMS;
    let (mut pointers, mut columns) = (vec![0], Vec::new());
    let mut r = Random(53);
    for n in [
        3,
        terms - 1,
        terms,
        terms + 1,
        0,
        2 * terms,
        2 * terms + 7,
        5,
    ] {
        columns.extend((0..n).map(|_| r.below(999) as i64));
        pointers.push(columns.len() as i64);
    }
    let values = columns.iter().map(|_| small(&mut r)).collect();
    let (rows, width) = (pointers.len() - 1, 999);
    let a = Matrix {
        pointers,
        columns,
        values,
        rows,
        width,
    };
    check_products(&a, [1, 2], |v| v as f32)?;
    check_products(&a, [1, 2], |v| v as f64)?;
    check_products(&a, [1, 2], |v| v as i32)
}

/// Numbers whose sums are rounded.
fn fractions(r: &mut Random, n: usize) -> Vec<f32> {
    (0..n).map(|_| r.below(1000) as f32 / 7.0 - 70.0).collect()
}

/// What a kernel computes with one, two and three threads, if it is always the same.
pub(super) fn with_threads<R: PartialEq>(f: impl Fn() -> Result<R>) -> Result<R> {
    let set = |n| pool::set_num_threads(n).map_err(|e| TorshError::invalid("", e.to_string()));
    let before = pool::num_threads();
    let all: Result<Vec<R>> = [1, 2, 3]
        .into_iter()
        .map(|n| set(n).and_then(|()| f()))
        .collect();
    set(before)?;
    let mut all = all?;
    assert!(all.iter().all(|each| *each == all[0]));
    Ok(all.swap_remove(0))
}

#[torsh_macros::unit_test]
fn a_row_is_summed_alike_wherever_it_is() -> Result<()> {
    let mut r = Random(59);
    let a = Matrix::random(&mut r, 3000, 400, 45);
    let values = fractions(&mut r, a.columns.len());
    let rows = Rows::new(&a.pointers, &a.columns, &values, None, 400)?;
    for m in [1, 5, 16, 32, 64, 100] {
        let dense = fractions(&mut r, 400 * m);
        let all = with_threads(|| written(3000 * m, 0.0, |out| product(rows, &dense, m, out)))?;
        for i in (0..3000).step_by(37) {
            let own = a.pointers[i] as usize..a.pointers[i + 1] as usize;
            let ends = [0, own.len() as i64];
            let row = Rows::new(&ends, &a.columns[own.clone()], &values[own], None, 400)?;
            let alone = written(m, 0.0, |out| product(row, &dense, m, out))?;
            assert_eq!(alone, all[i * m..][..m], "{m} columns");
        }
    }
    Ok(())
}

/// Places row by row, the same in a list, and in a list in another order with where each was.
struct Listed {
    rows: Vec<i64>,
    order: Vec<usize>,
}

fn listed(r: &mut Random, a: &Matrix) -> Listed {
    let mut rows = Vec::new();
    a.each(|i, _, _| rows.push(i as i64));
    let mut order: Vec<usize> = (0..rows.len()).collect();
    for e in (1..order.len()).rev() {
        order.swap(e, r.below(e + 1));
    }
    Listed { rows, order }
}

fn check_samples<T: Products>(of: impl Fn(i64) -> T + Copy) -> Result<()> {
    let mut r = Random(61);
    let a = of_all_lengths(&mut r, 9, 23);
    let Listed { rows, order } = listed(&mut r, &a);
    let [moved_rows, moved_columns] =
        [&rows, &a.columns].map(|l| order.iter().map(|&e| l[e] as i32).collect::<Vec<i32>>());
    for k in (0..=40).chain([63, 64, 65, 100, 129]) {
        let x: Vec<i64> = (0..a.rows * k).map(|_| small(&mut r)).collect();
        let y: Vec<i64> = (0..a.width * k).map(|_| small(&mut r)).collect();
        let mut wanted = Vec::new();
        a.each(|i, j, _| wanted.push(of((0..k).map(|t| x[i * k + t] * y[j * k + t]).sum())));
        let all = |l: &[i64]| l.iter().map(|&v| of(v)).collect::<Vec<T>>();
        let (x, y, n) = (all(&x), all(&y), wanted.len());
        for majors in [Majors::Pointers(&a.pointers), Majors::List(&rows)] {
            let f = |out: &mut [_]| sampled_product(majors, &a.columns, &x, &y, k, out);
            assert_eq!(written(n, of(7), f)?, wanted, "{k} terms");
        }
        let majors = Majors::List(&moved_rows[..]);
        let f = |out: &mut [_]| sampled_product(majors, &moved_columns, &x, &y, k, out);
        let moved: Vec<T> = order.iter().map(|&e| wanted[e]).collect();
        assert_eq!(written(n, of(7), f)?, moved, "{k} terms in another order");
    }
    Ok(())
}

#[torsh_macros::unit_test]
fn places_of_rows_of_every_length_are_sampled() -> Result<()> {
    with_all_types!(|of| check_samples(of));
    Ok(())
}

#[torsh_macros::unit_test]
fn a_sample_is_summed_alike_whatever_is_beside_it() -> Result<()> {
    let mut r = Random(67);
    let a = Matrix::random(&mut r, 700, 300, 30);
    for k in [1, 3, 8, 17, 64, 77] {
        let (x, y) = (fractions(&mut r, 700 * k), fractions(&mut r, 300 * k));
        let n = a.columns.len();
        let majors = Majors::Pointers(&a.pointers);
        let all = with_threads(|| {
            written(n, 0.0, |out| {
                sampled_product(majors, &a.columns, &x, &y, k, out)
            })
        })?;
        let Listed { rows, order } = listed(&mut r, &a);
        for e in order.into_iter().take(100) {
            let (row, column) = ([rows[e]], [a.columns[e]]);
            let f = |out: &mut [_]| sampled_product(Majors::List(&row), &column, &x, &y, k, out);
            assert_eq!(written(1, 0.0, f)?, [all[e]], "{k} terms");
        }
    }
    Ok(())
}

/// Pointers, columns and values of a product of sparse matrices.
type Parts<T, I> = (Vec<I>, Vec<I>, Vec<T>);

/// The product of two sparse matrices, in lists of `nine`s as long as its bounds say.
fn multiply<T: Number, I: Index + Element>(
    a: Rows<'_, T, I>,
    b: Rows<'_, T, I>,
    nine: T,
) -> Result<Parts<T, I>> {
    let mut bounds = vec![9; a.count() + 1];
    let places = [(a.pointers, a.columns), (b.pointers, b.columns)];
    product_bounds(places[0], places[1], b.width, &mut bounds)?;
    let room = bounds[a.count()] as usize;
    let index = |n: usize| vec![MaybeUninit::new(I::of(9).expect("a small index")); n];
    let (mut pointers, mut columns) = (index(a.count() + 1), index(room));
    let mut values = vec![MaybeUninit::new(nine); room];
    sparse_product(a, b, &bounds, &mut pointers, &mut columns, &mut values)?;
    Ok((read(pointers), read(columns), read(values)))
}

fn check_multiplied<T: Number>(of: impl Fn(i64) -> T + Copy) -> Result<()> {
    let mut r = Random(71);
    for [n, k, m, most] in [
        [1, 1, 1, 1],
        [0, 3, 2, 1],
        [3, 0, 2, 1],
        [6, 5, 7, 3],
        [40, 30, 64, 9],
        [40, 30, 65, 9],
        [30, 20, 5000, 19],
    ] {
        let (a, b) = (
            Matrix::random(&mut r, n, k, most),
            Matrix::random(&mut r, k, m, most),
        );
        let (mut wanted, mut met) = (vec![0; n * m], vec![false; n * m]);
        a.each(|i, t, v| {
            for e in b.pointers[t] as usize..b.pointers[t + 1] as usize {
                let at = i * m + b.columns[e] as usize;
                wanted[at] += v * b.values[e];
                met[at] = true;
            }
        });
        let all = |l: &[i64]| l.iter().map(|&v| of(v)).collect::<Vec<T>>();
        let (va, vb) = (all(&a.values), all(&b.values));
        let order: Vec<i64> = (0..vb.len() as i64).rev().collect();
        let reversed: Vec<T> = vb.iter().rev().copied().collect();
        let left = Rows::new(&a.pointers, &a.columns, &va, None, k)?;
        let right = Rows::new(&b.pointers, &b.columns, &vb, None, m)?;
        let moved = Rows::new(&b.pointers, &b.columns, &reversed, Some(&order), m)?;
        for algorithm in ["marks", "sorted"] {
            let _force = forced("sparse.pattern", algorithm)?;
            for right in [right, moved] {
                let (pointers, columns, values) = multiply(left, right, of(9))?;
                let mut e = 0;
                for i in 0..n {
                    assert_eq!(pointers[i], e as i64);
                    for j in (0..m).filter(|j| met[i * m + j]) {
                        let element = (columns[e], values[e]);
                        assert_eq!(element, (j as i64, of(wanted[i * m + j])), "{algorithm}");
                        e += 1;
                    }
                }
                assert_eq!(pointers[n], e as i64);
                // What there was room for besides is 0.
                assert!(columns[e..].iter().all(|c| *c == 0));
                assert!(values[e..].iter().all(|v| *v == T::default()));
            }
        }
    }
    Ok(())
}

#[torsh_macros::unit_test]
fn sparse_matrices_are_multiplied_in_one_pass() -> Result<()> {
    // Sums of halves are whole numbers, which are rounded once.
    with_all_types!(|of| check_multiplied(of));
    Ok(())
}

#[torsh_macros::unit_test]
fn products_of_sparse_matrices_do_not_depend_on_the_threads() -> Result<()> {
    let mut r = Random(73);
    let (a, b) = (
        Matrix::random(&mut r, 2000, 500, 20),
        Matrix::random(&mut r, 500, 300, 30),
    );
    let narrow = |l: &[i64]| l.iter().map(|&i| i as i32).collect::<Vec<i32>>();
    let (p, i) = (narrow(&a.pointers), narrow(&a.columns));
    let (q, j) = (narrow(&b.pointers), narrow(&b.columns));
    let (va, vb) = (fractions(&mut r, i.len()), fractions(&mut r, j.len()));
    let left = Rows::new(&p, &i, &va, None, 500)?;
    let right = Rows::new(&q, &j, &vb, None, 300)?;
    for algorithm in ["marks", "sorted"] {
        let _force = forced("sparse.pattern", algorithm)?;
        let (pointers, columns, values) = with_threads(|| multiply(left, right, 9.0))?;
        let places = product_pattern((&p, &i), (&q, &j), 300)?;
        let n = places.1.len();
        assert_eq!(
            (&pointers[..], &columns[..n]),
            (&places.0[..], &places.1[..])
        );
        let places = (&places.0[..], &places.1[..]);
        let other = written(n, 9.0, |out| masked_product(left, right, places, out))?;
        // Sums of some numbers up to 5000, with other roundings.
        let near = |(x, y): (&f32, &f32)| (x - y).abs() <= 0.1 + 1e-4 * y.abs();
        assert!(values.iter().zip(&other).all(near));
    }
    // The bounds of a dense row are its width, so that there is room for no more.
    let ones = vec![0; 500];
    let pointers: Vec<i32> = (0..=500).collect();
    let right = Rows::new(&pointers, &ones, &vb[..500], None, 1)?;
    let (pointers, columns, _) = multiply(left, right, 9.0)?;
    let stored = a.pointers.windows(2).filter(|w| w[1] > w[0]).count();
    assert_eq!((pointers[2000] as usize, columns.len()), (stored, stored));
    Ok(())
}

#[torsh_macros::unit_test]
fn wide_products_of_sparse_matrices_are_sorted() -> Result<()> {
    let wide = 1usize << 40;
    let far = wide as i64 - 1;
    let b_columns = [far, 5, far];
    let a = Rows::new(&[0i64, 2], &[0, 1], &[2.0f64, 3.0], None, 2)?;
    let b = Rows::new(&[0, 2, 3], &b_columns, &[10.0, 1.0, 100.0], None, wide)?;
    let (pointers, columns, values) = multiply(a, b, 9.0)?;
    assert_eq!((pointers, columns), (vec![0, 2], vec![5, far, 0]));
    assert_eq!(values, [2.0, 320.0, 0.0]);
    Ok(())
}

#[torsh_macros::unit_test]
fn products_of_bad_sparse_matrices_are_errors() -> Result<()> {
    let value = [1.0f32];
    let good = Rows::new(&[0i64, 1], &[0], &value, None, 1)?;
    for algorithm in ["marks", "sorted"] {
        let _force = forced("sparse.pattern", algorithm)?;
        for bad in [-1i64, 1, i64::MAX, i64::MIN] {
            let columns = [bad];
            let a = Rows::new(&[0i64, 1], &columns, &value, None, 1)?;
            assert!(multiply(a, good, 9.0).is_err());
            let error = multiply(good, a, 9.0).expect_err("a column that is not there");
            assert!(error.to_string().contains(&bad.to_string()), "{error}");
            let order = [bad];
            let moved = Rows::new(&[0i64, 1], &[0], &value, Some(&order), 1)?;
            assert!(multiply(moved, good, 9.0).is_err() && multiply(good, moved, 9.0).is_err());
        }
        // Bounds of another product.
        let two = Rows::new(&[0i64, 1, 1], &[0], &value, None, 1)?;
        let mut pointers = [MaybeUninit::new(0i64); 3];
        let mut none: [MaybeUninit<i64>; 0] = [];
        let error = sparse_product(two, good, &[0, 0, 0], &mut pointers, &mut none, &mut [])
            .expect_err("no room");
        assert!(error.to_string().contains("bounds"), "{error}");
        let short = sparse_product(two, good, &[0, 0], &mut pointers, &mut none, &mut []);
        assert!(short.is_err());
        assert!(multiply(good, Rows::new(&[0, 1, 1], &[0], &value, None, 1)?, 9.0).is_err());
    }
    assert!(product_bounds((&[0i64, 1], &[0]), (&[0, 1], &[0]), 1, &mut [0; 3]).is_err());
    Ok(())
}
