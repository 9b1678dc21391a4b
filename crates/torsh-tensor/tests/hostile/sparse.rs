//! Sparse operands: of every layout, of sizes that nothing could hold, with indices that lie, and with indices that are
//! written after the tensor was made.

use torsh_sparse::{SparseExt, ToSparseOptions};
use torsh_tensor::sparse::{Pattern, from_values};
use torsh_tensor::{Device, Tensor, TensorLayout, Value, ops};

use crate::make::{DTYPES, Maker, Names};

const LAYOUTS: [TensorLayout; 5] = [
    TensorLayout::SparseCoo,
    TensorLayout::SparseCsr,
    TensorLayout::SparseCsc,
    TensorLayout::SparseBsr,
    TensorLayout::SparseBsc,
];

/// The names of the crate of sparse tensors, and of ops that it has a rule for.
pub(crate) fn names() -> &'static Names {
    static NAMES: std::sync::OnceLock<Names> = std::sync::OnceLock::new();
    let only = std::env::var("TORSH_FUZZ_OP").ok();
    NAMES.get_or_init(|| {
        let families = ops::families().iter();
        let own = families.clone().filter(|f| f.feature == "sparse");
        let own = own.flat_map(|f| f.records).map(|r| r.base_name());
        let ruled = families.flat_map(|f| f.sparse).map(|rule| rule.op);
        let mut all: Vec<&'static str> = own.chain(ruled).collect();
        all.sort_unstable();
        all.dedup();
        all.into_iter()
            .filter(|n| only.as_deref().is_none_or(|o| o == *n))
            .filter_map(|n| Some((n, ops::find(n)?)))
            .collect()
    })
}

impl Maker {
    /// What a strided tensor stores, in some layout.
    fn stored(&mut self, t: &Tensor) -> Option<Tensor> {
        let layout = self.of(&LAYOUTS);
        let mut how = ToSparseOptions::new().layout(layout);
        if layout.is_blocked() {
            let [rows, columns] = match t.dims() {
                [.., rows, columns] => [*rows, *columns],
                _ => [1, 1],
            };
            let blocks = [[1, 1], [rows.max(1), 1], [1, columns.max(1)], [2, 3]];
            how = how.blocksize(self.of(&blocks));
        }
        if self.one_in(5) {
            how = how.dense_dim(self.of(&[0, 1, 1, 2]));
        }
        t.detach().to_sparse_with(how).ok()
    }

    /// An index below a size, mostly.
    fn place(&mut self, size: usize, hostile: bool) -> i64 {
        match hostile && self.one_in(4) {
            true => self.int(),
            false => self.below(size.max(1)) as i64,
        }
    }

    /// Values of a pattern.
    fn with_values(&mut self, pattern: &Pattern) -> Option<Tensor> {
        let dtype = self.of(&DTYPES);
        let values = self.filled(pattern.values_shape().dims(), dtype)?;
        from_values(pattern, &values).ok()
    }

    /// A COO tensor of elements in any order, which may say that they are in order.
    fn listed(&mut self, shape: &[usize]) -> Option<Tensor> {
        let rows = self.below(shape.len() + 1);
        let n = self.of(&[0, 1, 2, 5, 9]);
        let hostile = self.one_in(3);
        let mut data = Vec::new();
        for &size in &shape[..rows] {
            for _ in 0..n {
                data.push(self.place(size, hostile));
            }
        }
        let indices = Tensor::from_data(&data, [rows, n]).ok()?;
        let pattern = Pattern::coo(shape, &indices, self.one_in(3)).ok()?;
        self.with_values(&pattern)
    }

    /// A tensor of a compressed layout whose lines begin anywhere.
    fn lined(&mut self) -> Option<Tensor> {
        let layout = self.of(&LAYOUTS[1..]);
        let block = layout
            .is_blocked()
            .then(|| self.of(&[[1, 1], [2, 1], [2, 3]]));
        let [b0, b1] = block.unwrap_or([1, 1]);
        let (rows, columns) = (self.below(4), self.below(5));
        let (lines, others) = match layout.by_rows() {
            true => (rows, columns),
            false => (columns, rows),
        };
        let hostile = self.one_in(3);
        let mut begins = vec![0i64];
        let mut n = 0;
        for _ in 0..lines {
            n += self.below(others + 1);
            let wrong = hostile && self.one_in(4);
            begins.push(if wrong { self.int() } else { n as i64 });
        }
        let mut plain = Vec::new();
        for _ in 0..n {
            plain.push(self.place(others, hostile));
        }
        let index = self.of(&[torsh_tensor::DType::I64, torsh_tensor::DType::I32]);
        let tensor = |v: &[i64]| Tensor::from_data(v, [v.len()]).ok()?.to_dtype(index).ok();
        let (begins, plain) = (tensor(&begins)?, tensor(&plain)?);
        let shape = [rows * b0, columns * b1];
        let pattern = Pattern::compressed(layout, &shape, &begins, &plain, block, 0).ok()?;
        self.with_values(&pattern)
    }

    /// A tensor of more elements than 64 bits count, or nearly as many.
    fn far(&mut self) -> Option<Tensor> {
        let sizes: [&[usize]; 6] = [
            &[1 << 40, 1 << 40],
            &[1 << 62],
            &[1 << 20, 1 << 20],
            &[1 << 31, 3, 1 << 31],
            &[2, 1 << 40],
            &[1 << 40, 2],
        ];
        let shape = self.of(&sizes);
        if shape[0] == 2 && self.one_in(2) {
            // Few rows of very many columns.
            let (begins, last) = (
                Tensor::from_data(&[0i64, 1, 2], [3]).ok()?,
                (1i64 << 40) - 1,
            );
            let plain = Tensor::from_data(&[last, 0], [2]).ok()?;
            let layout = TensorLayout::SparseCsr;
            let pattern = Pattern::compressed(layout, shape, &begins, &plain, None, 0).ok()?;
            return self.with_values(&pattern);
        }
        self.listed(shape)
    }

    /// A sparse tensor.
    pub(crate) fn sparse_tensor(&mut self) -> Option<Tensor> {
        let made = match self.below(8) {
            0 => {
                let shape = self.shape();
                self.listed(&shape)
            }
            1 => self.lined(),
            2 => self.far(),
            _ => {
                let (shape, dtype) = (self.shape(), self.of(&DTYPES));
                let t = self.filled(&shape, dtype)?;
                self.stored(&t)
            }
        }?;
        if self.one_in(8) {
            self.written(&made);
        }
        match self.one_in(20) {
            true => made.to_device(Device::Meta).ok(),
            false => Some(made),
        }
    }

    /// Writes into the indices of a tensor.
    fn written(&mut self, x: &Tensor) {
        let Some(pattern) = x.pattern() else { return };
        let part = match pattern.compressed_indices() {
            Some(compressed) if self.one_in(2) => compressed,
            _ => pattern.indices(),
        };
        let number = self.int();
        let one = part.dims().last().is_some_and(|n| *n > 0) && self.one_in(2);
        let _ = match one {
            true => part.select(-1, -1).and_then(|t| t.fill_(number)),
            false => part.fill_(number),
        };
    }

    /// Some of the strided tensors of a value in a sparse layout.
    pub(crate) fn in_layouts(&mut self, v: &mut Value) {
        match v {
            Value::Tensor(t) if t.layout().is_strided() && self.one_in(2) => {
                if let Some(sparse) = self.stored(t) {
                    *t = sparse;
                }
            }
            Value::List(l) | Value::Tuple(l) => l.iter_mut().for_each(|v| self.in_layouts(v)),
            _ => {}
        }
    }
}
