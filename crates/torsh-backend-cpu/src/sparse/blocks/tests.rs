use std::mem::MaybeUninit;

use torsh_core::{Result, TorshError, pool};

use super::*;
use crate::kernels::panels;
use crate::operations::Force;
use crate::scalar::Real;
use crate::simd::Level;
use crate::sparse::tests::{Random, written};

/// A matrix of blocks by lines, of which the first stores nothing and the last everything.
struct Case {
    block: [usize; 2],
    by_columns: bool,
    width: usize,
    pointers: Vec<i64>,
    places: Vec<i64>,
    values: Vec<i64>,
}

impl Case {
    fn random(
        r: &mut Random,
        block: [usize; 2],
        by_columns: bool,
        [count, width]: [usize; 2],
    ) -> Case {
        let (mut pointers, mut places) = (vec![0], Vec::new());
        for i in 0..count {
            let mut line: Vec<i64> = match i {
                0 => Vec::new(),
                i if i + 1 == count => (0..width as i64).collect(),
                _ => (0..1 + r.below(width))
                    .map(|_| r.below(width) as i64)
                    .collect(),
            };
            line.sort_unstable();
            line.dedup();
            places.extend(line);
            pointers.push(places.len() as i64);
        }
        let values = (0..places.len() * block[0] * block[1]).map(|_| r.number());
        let values = values.collect();
        Case {
            block,
            by_columns,
            width,
            pointers,
            places,
            values,
        }
    }

    fn lines(&self) -> Result<BlockLines<'_, i64>> {
        BlockLines::new(
            &self.pointers,
            &self.places,
            self.block,
            self.by_columns,
            self.width,
        )
    }

    /// The element of stored block `e` for a row of its line and a term.
    fn at(&self, e: usize, row: usize, term: usize) -> usize {
        let [r, c] = self.block;
        let inside = match self.by_columns {
            false => row * c + term,
            true => term * c + row,
        };
        e * r * c + inside
    }

    /// Row-major, with a row for each of the lines'.
    fn dense(&self) -> Result<Vec<i64>> {
        let lines = self.lines()?;
        let [size, terms] = lines.sides();
        let k = self.width * terms;
        let mut all = vec![0i64; lines.count() * size * k];
        for i in 0..lines.count() {
            for e in lines.line(i) {
                for row in 0..size {
                    for term in 0..terms {
                        let at = (i * size + row) * k + self.places[e] as usize * terms + term;
                        all[at] = self.values[self.at(e, row, term)];
                    }
                }
            }
        }
        Ok(all)
    }
}

const BLOCKS: [[usize; 2]; 8] = [
    [1, 1],
    [2, 3],
    [16, 16],
    [32, 32],
    [5, 7],
    [8, 40],
    [9, 1],
    [33, 4],
];

fn of<T: Real>(numbers: &[i64]) -> Vec<T> {
    numbers.iter().map(|&v| T::c(v as f64)).collect()
}

fn transposed<T: Copy>(x: &[T], [rows, columns]: [usize; 2]) -> Vec<T> {
    let all = (0..columns).flat_map(|j| (0..rows).map(move |i| x[i * columns + j]));
    all.collect()
}

fn check_products<T: BlockNumber + Real>() -> Result<()> {
    let mut r = Random(29);
    for block in BLOCKS {
        for (by_columns, m) in [false, true]
            .into_iter()
            .flat_map(|b| [1, 3, 16, 37, 70].map(|m| (b, m)))
        {
            let case = Case::random(&mut r, block, by_columns, [4, 3]);
            let lines = case.lines()?;
            let [size, terms] = lines.sides();
            let (n, k) = (4 * size, 3 * terms);
            let (matrix, right) = (
                case.dense()?,
                (0..k * m).map(|_| r.number()).collect::<Vec<_>>(),
            );
            let mut wanted = vec![0i64; n * m];
            for i in 0..n {
                for j in 0..m {
                    wanted[i * m + j] = (0..k).map(|t| matrix[i * k + t] * right[t * m + j]).sum();
                }
            }
            let (values, right, wanted) =
                (of::<T>(&case.values), of::<T>(&right), of::<T>(&wanted));
            let text = format!("{block:?} {by_columns} {m}");
            let f = |out: &mut [_]| block_product(lines, &values, None, &right, m, false, out);
            assert_eq!(written(n * m, T::NAN, f)?, wanted, "{text}");
            // Both dense matrices the other way, and the blocks in another order, of int32.
            let narrow = |l: &[i64]| l.iter().map(|&i| i as i32).collect::<Vec<i32>>();
            let (pointers, places) = (narrow(&case.pointers), narrow(&case.places));
            let lines = BlockLines::new(&pointers, &places, block, by_columns, 3)?;
            let order: Vec<i64> = (0..places.len() as i64).rev().collect();
            let each = block[0] * block[1];
            let reversed: Vec<T> = values.chunks(each).rev().flatten().copied().collect();
            let right = transposed(&right, [k, m]);
            let order = Some(&order[..]);
            let f = |out: &mut [_]| block_product(lines, &reversed, order, &right, m, true, out);
            let out = written(n * m, T::NAN, f)?;
            assert_eq!(out, transposed(&wanted, [n, m]), "{text}, transposed");
        }
    }
    Ok(())
}

#[torsh_macros::unit_test]
fn products_are_those_of_dense_matrices() -> Result<()> {
    for split in ["columns", "lines"] {
        let _force =
            Force::new("sparse.blocks.split", split).map_err(|e| TorshError::invalid("", e))?;
        check_products::<f32>()?;
        check_products::<f64>()?;
    }
    Ok(())
}

fn check_samples<T: BlockNumber + Real>(terms: &[usize]) -> Result<()> {
    let mut r = Random(31);
    for block in BLOCKS {
        for (by_columns, &k) in [false, true]
            .into_iter()
            .flat_map(|b| terms.iter().map(move |k| (b, k)))
        {
            let case = Case::random(&mut r, block, by_columns, [4, 3]);
            let lines = case.lines()?;
            let ([rows, columns], [height, width]) = (lines.grid(), block);
            let (n, m) = (rows * height, columns * width);
            let x: Vec<i64> = (0..n * k).map(|_| r.number()).collect();
            let y: Vec<i64> = (0..m * k).map(|_| r.number()).collect();
            let mut wanted: Vec<i64> = Vec::new();
            for i in 0..lines.count() {
                for e in lines.line(i) {
                    let place = case.places[e] as usize;
                    let (i, j) = if by_columns { (place, i) } else { (i, place) };
                    for a in i * height..(i + 1) * height {
                        for b in j * width..(j + 1) * width {
                            wanted.push((0..k).map(|t| x[a * k + t] * y[b * k + t]).sum());
                        }
                    }
                }
            }
            let (x, y, wanted) = (of::<T>(&x), of::<T>(&y), of::<T>(&wanted));
            let text = format!("{block:?} {by_columns} {k}");
            let f = |out: &mut [_]| block_sampled_product(lines, &x, &y, k, false, out);
            assert_eq!(written(wanted.len(), T::NAN, f)?, wanted, "{text}");
            let (x, y) = (transposed(&x, [n, k]), transposed(&y, [m, k]));
            let f = |out: &mut [_]| block_sampled_product(lines, &x, &y, k, true, out);
            let out = written(wanted.len(), T::NAN, f)?;
            assert_eq!(out, wanted, "{text}, transposed");
        }
    }
    Ok(())
}

#[torsh_macros::unit_test]
fn sampled_products_are_those_of_dense_matrices() -> Result<()> {
    // More terms than are packed at a time, too.
    check_samples::<f32>(&[0, 1, 19, 600])?;
    check_samples::<f64>(&[2, 33])
}

#[torsh_macros::unit_test]
fn tiles_at_every_level() {
    let mut r = Random(37);
    for level in Level::ALL {
        if !level.is_available() {
            continue;
        }
        let width = f32::width(level);
        for m in 1..20 {
            // Blocks of 3 terms, of which the panel has 5, in another order.
            let (terms, each) = (3, m * 3);
            let blocks = [[2 * each, 12], [0, 0], [3 * each, 6]];
            let mut numbers = |n: usize| (0..n).map(|_| r.number() as f32).collect::<Vec<f32>>();
            let (a, b) = (numbers(4 * each), numbers(15 * width));
            for steps in [[3, 1], [1, m]] {
                let mut c = vec![f32::NAN; m * width];
                let p = BlocksProduct {
                    m,
                    terms,
                    blocks: &blocks,
                    a: a.as_ptr(),
                    steps: steps.map(|s| s as isize),
                    b: b.as_ptr(),
                    c: c.as_mut_ptr(),
                };
                // SAFETY: the buffers have the sizes that the product says.
                unsafe { panels::blocks_f32::at(level)(&p) };
                for i in 0..m {
                    for j in 0..width {
                        let term = |&[at, first]: &[usize; 2], t: usize| {
                            a[at + i * steps[0] + t * steps[1]] * b[(first + t) * width + j]
                        };
                        let all = blocks
                            .iter()
                            .flat_map(|x| (0..terms).map(move |t| term(x, t)));
                        assert_eq!(c[i * width + j], all.sum::<f32>(), "{level:?} {m} {i} {j}");
                    }
                }
            }
        }
    }
}

#[torsh_macros::unit_test]
fn results_do_not_depend_on_the_threads() -> Result<()> {
    let mut r = Random(41);
    let case = Case::random(&mut r, [16, 16], false, [40, 30]);
    let lines = case.lines()?;
    let mut numbers = |n: usize| {
        (0..n)
            .map(|_| r.below(1000) as f32 / 7.0)
            .collect::<Vec<f32>>()
    };
    let (values, m) = (numbers(case.values.len()), 150);
    let (right, left) = (numbers(30 * 16 * m), numbers(40 * 16 * m));
    let before = pool::num_threads();
    let mut all = Vec::new();
    for split in ["columns", "lines"] {
        let _force =
            Force::new("sparse.blocks.split", split).map_err(|e| TorshError::invalid("", e))?;
        for threads in [1, 2, 5] {
            pool::set_num_threads(threads).map_err(|e| TorshError::invalid("", e.to_string()))?;
            let product = |transposed: bool| {
                let f =
                    |out: &mut [_]| block_product(lines, &values, None, &right, m, transposed, out);
                written(left.len(), f32::NAN, f)
            };
            let f = |out: &mut [_]| block_sampled_product(lines, &left, &right, m, true, out);
            let samples = written(values.len(), f32::NAN, f)?;
            all.push((product(false)?, product(true)?, samples));
        }
    }
    pool::set_num_threads(before).map_err(|e| TorshError::invalid("", e.to_string()))?;
    assert!(all.iter().all(|each| *each == all[0]));
    Ok(())
}

#[torsh_macros::unit_test]
fn what_does_not_go_together_is_refused() -> Result<()> {
    for place in [-1i64, 2, i64::MAX, i64::MIN] {
        assert!(BlockLines::new(&[0, 1], &[place], [1, 1], false, 2).is_err());
    }
    for pointers in [&[][..], &[1, 1], &[0, 2], &[0, 1, 0, 1]] {
        assert!(BlockLines::new(pointers, &[0i64], [1, 1], false, 2).is_err());
    }
    for block in [[0, 1], [1, 0], [usize::MAX, 2]] {
        assert!(BlockLines::new(&[0i64, 1], &[0], block, false, 2).is_err());
    }
    let lines = BlockLines::new(&[0i64, 1], &[0], [2, 2], false, 2)?;
    let (values, dense, mut out) = ([1.0f32; 8], [1.0; 12], [MaybeUninit::uninit(); 6]);
    let mut product = |values: &[f32], order: Option<&[i64]>, dense: &[f32], m: usize| {
        block_product(lines, values, order, dense, m, false, &mut out)
    };
    assert!(product(&values[..4], None, &dense, 3).is_ok());
    assert!(product(&values, Some(&[1]), &dense, 3).is_ok());
    assert!(product(&values, None, &dense, 3).is_err());
    assert!(product(&values[..3], None, &dense, 3).is_err());
    assert!(product(&values, Some(&[2]), &dense, 3).is_err());
    assert!(product(&values, Some(&[-1]), &dense, 3).is_err());
    assert!(product(&values[..4], None, &dense[..11], 3).is_err());
    assert!(product(&values[..4], None, &dense, 4).is_err());
    let mut out = [MaybeUninit::uninit(); 4];
    let mut sampled =
        |x: &[f32], y: &[f32], k: usize| block_sampled_product(lines, x, y, k, false, &mut out);
    assert!(sampled(&dense[..6], &dense, 3).is_ok());
    assert!(sampled(&dense[..5], &dense, 3).is_err());
    assert!(sampled(&dense[..6], &dense[..6], 3).is_err());
    Ok(())
}
