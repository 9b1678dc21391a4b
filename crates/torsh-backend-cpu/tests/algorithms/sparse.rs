//! Products, patterns and orders of sparse matrices.

use std::mem::MaybeUninit;

use super::*;
use torsh_backend_cpu::sparse::{
    BlockLines, Minors, Rows, block_product, by_blocks, by_inner_products, group,
    masked_inner_products, masked_product, product, product_bounds, product_pattern, sort_indices,
    sparse_product,
};

/// A matrix by rows: pointers and columns. About one element in `step` is stored.
fn matrix(rows: usize, width: usize, step: usize) -> (Vec<i64>, Vec<i64>) {
    let (mut pointers, mut columns) = (vec![0], Vec::new());
    for i in 0..rows {
        columns
            .extend((0..width as i64).filter(|j| (i * 31 + *j as usize * 17).is_multiple_of(step)));
        pointers.push(columns.len() as i64);
    }
    (pointers, columns)
}

/// The value of element `e`.
fn number(e: usize) -> f32 {
    value(e) as f32
}

fn dense(
    rows: usize,
    width: usize,
    (pointers, columns): &(Vec<i64>, Vec<i64>),
    from: usize,
) -> Vec<f64> {
    let mut all = vec![0.0; rows * width];
    for i in 0..rows {
        for e in pointers[i] as usize..pointers[i + 1] as usize {
            all[i * width + columns[e] as usize] = f64::from(number(e + from));
        }
    }
    all
}

/// `n` elements for a kernel to write.
fn room<T: Copy>(n: usize, before: T) -> Vec<MaybeUninit<T>> {
    vec![MaybeUninit::new(before); n]
}

fn read<T: Copy>(all: &[MaybeUninit<T>]) -> Vec<T> {
    // SAFETY: `room` wrote each.
    all.iter().map(|v| unsafe { v.assume_init() }).collect()
}

fn multiplied(a: &[f64], b: &[f64], [n, k, m]: [usize; 3]) -> Vec<f64> {
    let element = |at: usize| (0..k).map(|t| a[at / m * k + t] * b[t * m + at % m]).sum();
    (0..n * m).map(element).collect()
}

pub fn all(taken: &mut Taken) {
    for [n, k, m, step] in [[1, 1, 1, 1], [30, 40, 50, 7], [64, 300, 200, 11]] {
        let (a, b) = (matrix(n, k, step), matrix(k, m, step));
        let wanted = multiplied(&dense(n, k, &a, 0), &dense(k, m, &b, 3), [n, k, m]);
        let of_a: Vec<f32> = (0..a.1.len()).map(number).collect();
        let of_b: Vec<f32> = (0..b.1.len()).map(|e| number(e + 3)).collect();
        let full: Vec<f32> = dense(k, m, &b, 3).into_iter().map(|v| v as f32).collect();
        let indices: Vec<i64> = (0..2 * 999).map(|i| i * i % 37).collect();
        let mut by_key: Vec<i64> = (0..999).collect();
        by_key.sort_by_key(|&i| (indices[i as usize], indices[i as usize + 999]));
        with_each("sparse", taken, |name| {
            let left = Rows::new(&a.0, &a.1, &of_a, None, k).expect("a matrix");
            let mut out = room(n * m, 9.0);
            product(left, &full, m, &mut out).expect("a product");
            assert!(
                read(&out)
                    .iter()
                    .zip(&wanted)
                    .all(|(x, y)| f64::from(*x) == *y),
                "{name}"
            );

            let (pointers, columns) =
                product_pattern((&a.0, &a.1), (&b.0, &b.1), m).expect("a pattern");
            let mut at = room(columns.len(), 9.0);
            match by_inner_products(a.1.len(), b.1.len(), columns.len(), [k, m]) {
                false => {
                    let right = Rows::new(&b.0, &b.1, &of_b, None, m).expect("a matrix");
                    masked_product(left, right, (&pointers, &columns), &mut at).expect("a product");
                }
                true => {
                    let count = b.1.len();
                    let (mut p, mut i, mut o) = (vec![0; m + 1], vec![0; count], vec![0; count]);
                    group(&b.1, Minors::Pointers(&b.0), &mut p, &mut i, &mut o).expect("columns");
                    let right = Rows::new(&p, &i, &of_b, Some(&o), k).expect("a matrix");
                    masked_inner_products(left, right, (&pointers, &columns), &mut at)
                        .expect("a product");
                }
            }
            let at = read(&at);
            let right = Rows::new(&b.0, &b.1, &of_b, None, m).expect("a matrix");
            let mut bounds = vec![0; n + 1];
            product_bounds((&a.0, &a.1), (&b.0, &b.1), m, &mut bounds).expect("bounds");
            let (mut starts, mut places) = (room(n + 1, 9), room(bounds[n] as usize, 9));
            let mut values = room(bounds[n] as usize, 9.0);
            sparse_product(left, right, &bounds, &mut starts, &mut places, &mut values)
                .expect("a product");
            assert_eq!(read(&starts), pointers, "{name}");
            assert_eq!(read(&places[..columns.len()]), columns, "{name}");
            assert_eq!(read(&values[..columns.len()]), at, "{name}");
            let mut found = vec![0.0; n * m];
            for i in 0..n {
                let row = pointers[i] as usize..pointers[i + 1] as usize;
                assert!(columns[row.clone()].is_sorted_by(|a, b| a < b), "{name}");
                row.for_each(|e| found[i * m + columns[e] as usize] = f64::from(at[e]));
            }
            assert_eq!(found, wanted, "{name}");

            blocks(&a, [n, k], &full, m, name);

            let (mut order, mut starts) = (vec![0; 999], vec![0; 1000]);
            sort_indices(&indices, &[40, 40], &mut order, &mut starts).expect("an order");
            assert_eq!(order, by_key, "{name}");
        });
    }
}

/// The product of a matrix whose stored elements are blocks of 8 x 1, by whole blocks or element by element.
fn blocks(a: &(Vec<i64>, Vec<i64>), [n, k]: [usize; 2], dense: &[f32], m: usize, name: &str) {
    const HIGH: usize = 8;
    let values: Vec<f32> = (0..a.1.len() * HIGH).map(number).collect();
    let mut elements = (vec![0], Vec::new(), Vec::new());
    for i in 0..n * HIGH {
        for e in a.0[i / HIGH] as usize..a.0[i / HIGH + 1] as usize {
            elements.1.push(a.1[e]);
            elements.2.push(values[e * HIGH + i % HIGH]);
        }
        elements.0.push(elements.1.len() as i64);
    }
    let mut wanted = vec![0.0; n * HIGH * m];
    for i in 0..n * HIGH {
        for e in elements.0[i] as usize..elements.0[i + 1] as usize {
            for j in 0..m {
                let term =
                    f64::from(elements.2[e]) * f64::from(dense[elements.1[e] as usize * m + j]);
                wanted[i * m + j] += term;
            }
        }
    }
    let lines = BlockLines::new(&a.0, &a.1, [HIGH, 1], false, k).expect("blocks");
    let mut found = room(n * HIGH * m, 9.0);
    block_product(lines, &values, None, dense, m, false, &mut found).expect("a product");
    let same = |found: &[f32]| found.iter().zip(&wanted).all(|(x, y)| f64::from(*x) == *y);
    assert!(same(&read(&found)), "{name}");
    if !by_blocks([HIGH, 1]) {
        let rows = Rows::new(&elements.0, &elements.1, &elements.2, None, k).expect("rows");
        let mut out = room(n * HIGH * m, 9.0);
        product(rows, dense, m, &mut out).expect("a product");
        assert!(same(&read(&out)), "{name}");
    }
}
