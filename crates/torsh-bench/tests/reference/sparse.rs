//! Sparse tensors as lists of their elements, in plain loops.

use std::collections::BTreeMap;

use torsh_sparse::SparseExt;
use torsh_tensor::{Result, Tensor, TensorLayout};

use crate::{close, differ};

/// What a row computes.
#[derive(Clone, Copy)]
pub enum Kind {
    Product,
    Gradients,
    Sampled,
    Coalesce,
    ToCsr,
    ToDense,
    Add,
    Softmax,
    Linear,
}

/// What the row of a name computes, if it is one of sparse tensors or the dense one beside it.
pub fn kind(name: &str) -> Option<Kind> {
    // The longer of two beginnings first.
    let kinds = [
        ("spmm_csr_fwd_bwd", Kind::Gradients),
        ("spmm_", Kind::Product),
        ("spmv_", Kind::Product),
        ("spgemm_", Kind::Product),
        ("sampled_addmm", Kind::Sampled),
        ("coalesce", Kind::Coalesce),
        ("dense_to_csr", Kind::ToCsr),
        ("csr_to_dense", Kind::ToDense),
        ("coo_add", Kind::Add),
        ("sparse_softmax", Kind::Softmax),
        ("linear_dense", Kind::Linear),
        ("linear_bsr", Kind::Linear),
    ];
    let found = kinds.iter().find(|(start, _)| name.starts_with(*start));
    found.map(|k| k.1)
}

/// The stored elements of a matrix by row and column, all of a strided one; a vector is a column. What is stored twice adds up.
struct Matrix {
    layout: TensorLayout,
    sides: [usize; 2],
    stored: BTreeMap<(usize, usize), f64>,
}

impl Matrix {
    fn of(t: &Tensor) -> Result<Matrix> {
        let t = t.detach();
        let list = |t: Tensor| t.to_vec::<f64>();
        let (layout, sides) = (
            t.layout(),
            [t.dims()[0], t.dims().get(1).copied().unwrap_or(1)],
        );
        let mut m = Matrix {
            layout,
            sides,
            stored: BTreeMap::new(),
        };
        let mut put = |i: usize, j: usize, v: f64| *m.stored.entry((i, j)).or_insert(0.0) += v;
        match layout {
            TensorLayout::Strided => {
                for (at, v) in list(t)?.into_iter().enumerate() {
                    put(at / sides[1], at % sides[1], v);
                }
            }
            TensorLayout::SparseCoo => {
                let (indices, values) = (list(t._indices()?)?, list(t._values()?)?);
                for (e, &v) in values.iter().enumerate() {
                    put(indices[e] as usize, indices[values.len() + e] as usize, v);
                }
            }
            TensorLayout::SparseCsr | TensorLayout::SparseBsr => {
                let (first, columns) = (list(t.crow_indices()?)?, list(t.col_indices()?)?);
                let values = t.values()?;
                let block = match values.dims() {
                    [_, r, c] => [*r, *c],
                    _ => [1, 1],
                };
                let values = list(values)?;
                for (i, ends) in first.windows(2).enumerate() {
                    for e in ends[0] as usize..ends[1] as usize {
                        let (size, j) = (block[0] * block[1], columns[e] as usize);
                        for (k, &v) in values[e * size..][..size].iter().enumerate() {
                            put(i * block[0] + k / block[1], j * block[1] + k % block[1], v);
                        }
                    }
                }
            }
            other => return Err(differ(format!("a result in {other}"))),
        }
        Ok(m)
    }

    /// A strided matrix.
    fn whole([n, m]: [usize; 2], at: impl Fn(usize, usize) -> f64) -> Matrix {
        let places = (0..n * m).map(|p| (p / m, p % m));
        Matrix {
            layout: TensorLayout::Strided,
            sides: [n, m],
            stored: places.map(|(i, j)| ((i, j), at(i, j))).collect(),
        }
    }

    /// The same places with other values.
    fn with(&self, value: impl Fn(usize, usize, f64) -> f64) -> Matrix {
        let each = |(&(i, j), &v): (&(usize, usize), &f64)| ((i, j), value(i, j, v));
        Matrix {
            stored: self.stored.iter().map(each).collect(),
            ..*self
        }
    }

    fn at(&self, i: usize, j: usize) -> f64 {
        self.stored.get(&(i, j)).copied().unwrap_or(0.0)
    }

    fn transposed(&self) -> Matrix {
        let [n, m] = self.sides;
        Matrix {
            sides: [m, n],
            stored: self
                .stored
                .iter()
                .map(|(&(i, j), &v)| ((j, i), v))
                .collect(),
            ..*self
        }
    }

    /// The product, which has an element where two elements meet, and all of them where the right matrix is strided.
    fn times(&self, b: &Matrix) -> Matrix {
        let sides = [self.sides[0], b.sides[1]];
        let mut out = match b.layout {
            TensorLayout::Strided => Matrix::whole(sides, |_, _| 0.0),
            layout => Matrix {
                layout,
                sides,
                stored: BTreeMap::new(),
            },
        };
        for (&(i, k), &v) in &self.stored {
            for (&(_, j), &w) in b.stored.range((k, 0)..(k + 1, 0)) {
                *out.stored.entry((i, j)).or_insert(0.0) += v * w;
            }
        }
        out
    }

    /// Whether a result has the layout, the places and the values that are expected.
    fn check(&self, result: &Tensor) -> Result<()> {
        let got = Matrix::of(result)?;
        if (got.layout, got.sides) != (self.layout, self.sides) {
            return Err(differ(format!(
                "{} of {:?}, not {} of {:?}",
                got.layout, got.sides, self.layout, self.sides
            )));
        }
        if !got.stored.keys().eq(self.stored.keys()) {
            return Err(differ("other elements are stored".into()));
        }
        let values = |m: &Matrix| m.stored.values().copied().collect::<Vec<f64>>();
        close("values", &values(&got), &values(self), 2e-5)
    }
}

pub fn check(kind: Kind, inputs: &[Tensor], results: &[Tensor]) -> Result<()> {
    let x = inputs.iter().map(Matrix::of).collect::<Result<Vec<_>>>()?;
    let y = &results[0];
    match kind {
        Kind::Product => x[0].times(&x[1]).check(y),
        Kind::Linear => x[0]
            .times(&Matrix::whole([x[1].sides[1], x[1].sides[0]], |i, j| {
                x[1].at(j, i)
            }))
            .check(y),
        Kind::Gradients => {
            // Of the sum of all elements: the gradient of the product is 1 everywhere.
            let ones = Matrix::whole([x[0].sides[0], x[1].sides[1]], |_, _| 1.0);
            ones.times(&x[1].transposed()).check(y)?;
            x[0].transposed().times(&ones).check(&results[1])
        }
        Kind::Sampled => {
            let product = x[1].times(&x[2]);
            x[0].with(|i, j, v| v + product.at(i, j)).check(y)
        }
        Kind::ToCsr => {
            let mut expected = x[0].with(|_, _, v| v);
            expected.layout = TensorLayout::SparseCsr;
            expected.stored.retain(|_, v| *v != 0.0);
            expected.check(y)
        }
        Kind::ToDense => Matrix::whole(x[0].sides, |i, j| x[0].at(i, j)).check(y),
        Kind::Add => {
            let mut expected = x[0].with(|_, _, v| v);
            for (&place, v) in &x[1].stored {
                *expected.stored.entry(place).or_insert(0.0) += v;
            }
            expected.check(y)
        }
        Kind::Softmax => {
            let row = |i: usize| x[0].stored.range((i, 0)..(i + 1, 0)).map(|(_, v)| v.exp());
            x[0].with(|i, _, v| v.exp() / row(i).sum::<f64>()).check(y)
        }
        Kind::Coalesce => coalesced(inputs, y),
    }
}

/// Whether the parts of a COO tensor came together.
fn coalesced(parts: &[Tensor], result: &Tensor) -> Result<()> {
    let (indices, values) = (parts[0].to_vec::<f64>()?, parts[1].to_vec::<f64>()?);
    let mut expected = Matrix {
        layout: TensorLayout::SparseCoo,
        sides: [10_000; 2],
        stored: BTreeMap::new(),
    };
    for (e, v) in values.iter().enumerate() {
        let place = (indices[e] as usize, indices[values.len() + e] as usize);
        *expected.stored.entry(place).or_insert(0.0) += v;
    }
    if !result.is_coalesced()? || result.nnz()? != expected.stored.len() {
        return Err(differ(format!(
            "{} elements, coalesced: {}",
            result.nnz()?,
            result.is_coalesced()?
        )));
    }
    expected.check(result)
}
