//! Products, patterns and orders of sparse matrices.

use super::*;
use torsh_backend_cpu::sparse::{
    Minors, Rows, by_inner_products, group, masked_inner_products, masked_product, product,
    product_pattern, sort_indices,
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
            let mut out = vec![9.0; n * m];
            product(left, &full, m, &mut out).expect("a product");
            assert!(
                out.iter().zip(&wanted).all(|(x, y)| f64::from(*x) == *y),
                "{name}"
            );

            let (pointers, columns) =
                product_pattern((&a.0, &a.1), (&b.0, &b.1), m).expect("a pattern");
            let mut at = vec![9.0; columns.len()];
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
            let mut found = vec![0.0; n * m];
            for i in 0..n {
                let row = pointers[i] as usize..pointers[i + 1] as usize;
                assert!(columns[row.clone()].is_sorted_by(|a, b| a < b), "{name}");
                row.for_each(|e| found[i * m + columns[e] as usize] = f64::from(at[e]));
            }
            assert_eq!(found, wanted, "{name}");

            let (mut order, mut starts) = (vec![0; 999], vec![0; 1000]);
            sort_indices(&indices, &[40, 40], &mut order, &mut starts).expect("an order");
            assert_eq!(order, by_key, "{name}");
        });
    }
}
