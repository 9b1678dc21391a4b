//! The coordinates of stored elements on the host: bounds, order, linear positions and matching.

use std::cmp::Ordering;

use torsh_core::{DType, Device};
use torsh_tensor::{Result, Tensor, TorshError};

use crate::help::{host, index_tensor};

/// The coordinates of `n` elements in `rows` dimensions: those of dimension `d` are `data[d * n..][..n]`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Coords {
    pub(crate) rows: usize,
    pub(crate) n: usize,
    pub(crate) data: Vec<i64>,
}

impl Coords {
    /// The coordinates in a tensor of two dimensions, as COO has it.
    pub(crate) fn read(indices: &Tensor) -> Result<Coords> {
        let &[rows, n] = indices.dims() else {
            return Err(TorshError::shape(
                "",
                format!(
                    "indices must be sparse_dim x nnz, but got: {}",
                    indices.shape()
                ),
            ));
        };
        Ok(Coords {
            rows,
            n,
            data: host(indices)?,
        })
    }

    /// The int64 tensor `[rows, n]`.
    pub(crate) fn tensor(&self, device: Device) -> Result<Tensor> {
        index_tensor(self.data.clone(), &[self.rows, self.n], DType::I64, device)
    }

    /// The coordinates in dimension `d`.
    pub(crate) fn row(&self, d: usize) -> &[i64] {
        &self.data[d * self.n..][..self.n]
    }

    /// The coordinate of element `i` in dimension `d`.
    #[inline]
    fn at(&self, d: usize, i: usize) -> i64 {
        self.data[d * self.n + i]
    }

    /// Refuses what lies outside of a tensor of these sizes.
    pub(crate) fn check(&self, sizes: &[i64]) -> Result<()> {
        for (d, &size) in sizes.iter().enumerate().take(self.rows) {
            let row = self.row(d);
            if let Some(low) = row.iter().copied().min().filter(|&low| low < 0) {
                return Err(TorshError::index(
                    "",
                    format!("found negative index {low} for dim {d}"),
                ));
            }
            if let Some(high) = row.iter().copied().max().filter(|&high| high >= size) {
                return Err(TorshError::index(
                    "",
                    format!(
                        "size is inconsistent with indices: for dim {d}, size is {size} but found index {high}"
                    ),
                ));
            }
        }
        Ok(())
    }

    /// The position of each element in a row-major tensor of these sizes, within which the coordinates are; `None` where
    /// 64 bits do not hold the last position.
    pub(crate) fn linear(&self, sizes: &[usize]) -> Option<Vec<u64>> {
        self.linear_of(sizes, 0..self.rows)
    }

    fn linear_of(&self, sizes: &[usize], dims: std::ops::Range<usize>) -> Option<Vec<u64>> {
        let total = sizes[dims.clone()]
            .iter()
            .try_fold(1u64, |n, &s| n.checked_mul(s.max(1) as u64))?;
        (total <= i64::MAX as u64).then(|| {
            let mut at = vec![0u64; self.n];
            for d in dims {
                let size = sizes[d] as u64;
                for (at, &i) in at.iter_mut().zip(self.row(d)) {
                    *at = *at * size + i as u64;
                }
            }
            at
        })
    }

    /// The elements in the order of their coordinates; of equal ones the first comes first.
    pub(crate) fn order(&self, sizes: &[usize]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.n).collect();
        // Runs of dimensions whose positions 64 bits hold, the last run first: each sort keeps the order of the one before.
        let mut end = self.rows;
        while end > 0 {
            let mut start = end - 1;
            let mut keys = self.linear_of(sizes, start..end);
            while start > 0
                && let Some(more) = self.linear_of(sizes, start - 1..end)
            {
                (start, keys) = (start - 1, Some(more));
            }
            match keys {
                Some(keys) if keys.is_sorted() && end == self.rows => {}
                Some(keys) => order.sort_by_key(|&i| keys[i]),
                // One size alone always fits.
                None => order.sort_by_key(|&i| self.at(start, i)),
            }
            end = start;
        }
        order
    }

    /// How element `i` and element `j` of `other` follow each other.
    pub(crate) fn compare(&self, i: usize, other: &Coords, j: usize) -> Ordering {
        let each = (0..self.rows).map(|d| self.at(d, i).cmp(&other.at(d, j)));
        each.into_iter()
            .find(|o| o.is_ne())
            .unwrap_or(Ordering::Equal)
    }

    /// The first element that does not follow the one before it, where there is one.
    pub(crate) fn out_of_order(&self) -> Option<usize> {
        (1..self.n).find(|&i| self.compare(i - 1, self, i).is_ge())
    }

    /// Elements in another order, or some of them.
    pub(crate) fn select(&self, elements: &[usize]) -> Coords {
        let mut data = Vec::with_capacity(self.rows * elements.len());
        for d in 0..self.rows {
            let row = self.row(d);
            data.extend(elements.iter().map(|&i| row[i]));
        }
        Coords {
            rows: self.rows,
            n: elements.len(),
            data,
        }
    }

    /// With another dimension behind the last, each of whose positions every element has: element `i` becomes the elements
    /// `i * size` to `(i + 1) * size`.
    pub(crate) fn spread(&self, size: usize) -> Coords {
        let n = self.n * size;
        let mut data = Vec::with_capacity((self.rows + 1) * n);
        for d in 0..self.rows {
            for &i in self.row(d) {
                data.extend(std::iter::repeat_n(i, size));
            }
        }
        for _ in 0..self.n {
            data.extend(0..size as i64);
        }
        Coords {
            rows: self.rows + 1,
            n,
            data,
        }
    }

    /// Where each of the elements of `wanted` is among these, which are all different; `None` for one that is not there.
    pub(crate) fn find(&self, wanted: &Coords, sizes: &[usize]) -> Vec<Option<usize>> {
        if let (Some(have), Some(wanted)) = (self.linear(sizes), wanted.linear(sizes)) {
            let mut order: Vec<usize> = (0..self.n).collect();
            if !have.is_sorted() {
                order.sort_unstable_by_key(|&i| have[i]);
            }
            let found = |key: &u64| order.binary_search_by_key(key, |&i| have[i]).ok();
            return wanted
                .iter()
                .map(|k| found(k).map(|at| order[at]))
                .collect();
        }
        let order = self.order(sizes);
        let found = |j: usize| {
            let at = order.binary_search_by(|&i| self.compare(i, wanted, j));
            at.ok().map(|at| order[at])
        };
        (0..wanted.n).map(found).collect()
    }
}

/// The coordinates of row-major positions in a tensor of these sizes.
pub(crate) fn unravel(positions: &[i64], sizes: &[usize]) -> Coords {
    let (rows, n) = (sizes.len(), positions.len());
    let mut data = vec![0; rows * n];
    let mut rest = positions.to_vec();
    for d in (0..rows).rev() {
        let size = sizes[d].max(1) as i64;
        for (to, rest) in data[d * n..][..n].iter_mut().zip(&mut rest) {
            *to = *rest % size;
            *rest /= size;
        }
    }
    Coords { rows, n, data }
}

impl Coords {
    /// Some of the dimensions.
    pub(crate) fn select_rows(&self, dims: std::ops::Range<usize>) -> Coords {
        Coords {
            rows: dims.len(),
            n: self.n,
            data: self.data[dims.start * self.n..dims.end * self.n].to_vec(),
        }
    }
}
