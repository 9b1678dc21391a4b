//! Methods that no name reaches: those in place, and those that take sizes or positions.

use torsh_sparse::{self as sparse, CooOptions, SparseExt, SpmmReduce};
use torsh_tensor::{DType, Device, Result, Tensor, TensorLayout};

/// What a method gets: a target `[3, 4]` (or a view of that shape), an index for one of its
/// dimensions or for both, a source, and numbers of any size.
pub(crate) struct Operands {
    pub(crate) x: Tensor,
    pub(crate) index: Tensor,
    pub(crate) square: Tensor,
    pub(crate) source: Tensor,
    pub(crate) mask: Tensor,
    pub(crate) ints: [i64; 4],
    pub(crate) float: f64,
    pub(crate) dtype: DType,
}

impl Operands {
    /// The matrix of a system: as it is, its leading square, or a Hermitian one, which may be positive definite.
    fn system(&self) -> Result<Tensor> {
        let [as_it_is, hermitian, layout, _] = self.ints;
        // What is masked is not stored.
        let strided = |t: &Tensor| t.layout().is_strided();
        let mut a = match strided(&self.x) && strided(&self.mask) {
            true => self.x.masked_fill(&self.mask, 0)?,
            false => self.x.clone(),
        };
        if as_it_is != 0 {
            let n = a.dims().iter().copied().min().unwrap_or(0);
            a = a.narrow(0, 0, n)?.narrow(1, 0, n)?;
        }
        if hermitian == 1 {
            let n = a.dims().first().copied().unwrap_or(0);
            let product = a.matmul(&a.adjoint()?)?;
            a = product.add(&Tensor::eye(n, a.dtype(), Device::Cpu)?)?;
        }
        match (strided(&a), layout) {
            (false, _) => Ok(a),
            (true, 0) => a.to_sparse(),
            (true, 1) => a.to_sparse_csr(),
            (true, 2) => a.to_sparse_bsr([1, 1]),
            (true, _) => a.to_sparse_csc(),
        }
    }
}

type Method = fn(&Operands) -> Result<Tensor>;

pub(crate) const METHODS: &[(&str, Method)] = &[
    ("index_add_", |o| {
        o.x.index_add_(o.ints[0], &o.index, &o.source)
    }),
    ("index_copy_", |o| {
        o.x.index_copy_(o.ints[0], &o.index, &o.source)
    }),
    ("index_fill_", |o| {
        o.x.index_fill_(o.ints[0], &o.index, o.float)
    }),
    ("index_put_", |o| {
        let index = [Some(o.index.clone()), None];
        o.x.index_put_(&index, &o.source, o.ints[0] == 0)
    }),
    ("put_", |o| o.x.put_(&o.square, &o.source, o.ints[0] == 0)),
    ("scatter_", |o| {
        o.x.scatter_(o.ints[0], &o.square, &o.source)
    }),
    ("scatter_ number", |o| {
        o.x.scatter_(o.ints[0], &o.square, o.float)
    }),
    ("scatter_add_", |o| {
        o.x.scatter_add_(o.ints[0], &o.square, &o.source)
    }),
    ("masked_fill_", |o| o.x.masked_fill_(&o.mask, o.float)),
    ("masked_scatter_", |o| {
        o.x.masked_scatter_(&o.mask, &o.source)
    }),
    ("i_put", |o| o.x.i_put((.., &o.index), o.float)),
    ("i_put tensor", |o| o.x.i_put((.., o.ints[1]), &o.source)),
    ("i ranges", |o| o.x.i((o.ints[0]..o.ints[1], ..o.ints[2]))),
    ("i of a mask", |o| o.x.i(&o.mask)),
    ("copy_", |o| o.x.copy_(&o.source)),
    ("tril_", |o| o.x.tril_(o.ints[0])),
    ("triu_", |o| o.x.triu_(o.ints[0])),
    ("dropout_", |o| o.x.dropout_(o.float, true)),
    ("as_strided_at", |o| {
        o.x.as_strided_at(&o.ints[..2], &o.ints[2..], o.ints[0])
    }),
    ("view_dtype", |o| o.x.view_dtype(o.dtype)),
    ("zeros", |o| {
        Tensor::zeros(&o.ints[..3], o.dtype, Device::Cpu)
    }),
    ("empty", |o| {
        Tensor::empty(&o.ints[..2], o.dtype, Device::Meta)
    }),
    ("from_data", |o| Tensor::from_data(&o.ints, &o.ints[..2])),
    ("from_slice", |o| {
        Tensor::from_slice(&[o.float], (), o.dtype, Device::Cpu)
    }),
    ("randperm", |o| {
        Tensor::randperm(o.ints[0], o.dtype, Device::Cpu)
    }),
    ("arange", |o| {
        Tensor::arange(o.ints[0], o.float, o.ints[1], o.dtype, Device::Cpu)
    }),
    ("linspace", |o| {
        Tensor::linspace(o.ints[0], o.float, o.ints[1], o.dtype, Device::Cpu)
    }),
    ("eye", |o| {
        Tensor::eye_nm(o.ints[0], o.ints[1], o.dtype, Device::Cpu)
    }),
    ("set_grad", |o| {
        o.x.set_grad(Some(o.source.clone()))?;
        Ok(o.x.clone())
    }),
    ("iter", |o| {
        o.x.iter()?.next_back().map_or(Ok(o.source.clone()), Ok)
    }),
    ("item", |o| {
        o.x.item::<u8>()?;
        Ok(o.x.clone())
    }),
    ("to_vec", |o| {
        Tensor::from_vec(o.x.to_vec::<i16>()?, &o.ints[..1])
    }),
    ("stack", |o| Tensor::stack(&[&o.x, &o.source], o.ints[0])),
    ("mul_", |o| o.x.mul_(o.float)),
    ("add_", |o| o.x.add_(&o.source)),
    ("zero_", |o| o.x.zero_()),
    ("stored values mul_", |o| {
        torsh_tensor::sparse::values(&o.x)?.mul_(o.float)?;
        o.x.to_dense()
    }),
    ("coo coalesced", |o| {
        let how = CooOptions::new().is_coalesced(o.ints[0] == 0);
        sparse::coo_with(&o.square, &o.source, &o.ints[..2], how)
    }),
    ("csr", |o| {
        sparse::csr(&o.index, &o.index, &o.source, &o.ints[..2])
    }),
    ("compressed", |o| {
        let layout = if o.ints[0] == 0 {
            TensorLayout::SparseBsc
        } else {
            TensorLayout::SparseCsc
        };
        sparse::compressed_inferred(layout, &o.index, &o.index, &o.source)
    }),
    ("to_sparse_bsr", |o| {
        o.x.to_sparse_bsr([o.ints[0] as usize, o.ints[1] as usize])
    }),
    ("resize", |o| {
        sparse::resize(&o.x, &o.ints[..2], o.ints[2], o.ints[3])
    }),
    ("resize_and_clear", |o| {
        sparse::resize_and_clear(&o.x, &o.ints[..2], o.ints[2], o.ints[3])
    }),
    ("mask", |o| sparse::mask(&o.source, &o.x)),
    ("spmm", |o| {
        sparse::spmm(&o.x, &o.source.t()?, SpmmReduce::Amin)
    }),
    ("spsolve", |o| sparse::spsolve(&o.system()?, &o.source)),
    ("lu", |o| {
        let a = o.system()?;
        let mut lu = sparse::lu(&a)?;
        if o.ints[3] == 1 {
            lu.refactor(&a.mul(o.float)?)?;
        }
        match o.ints[3] {
            0 => lu.solve_adjoint(&o.source),
            _ => lu.solve(&o.source),
        }
    }),
    ("lu of another pattern", |o| {
        let mut lu = sparse::lu(&o.system()?)?;
        lu.refactor(&o.x)?;
        lu.solve(&o.source)
    }),
    ("cholesky", |o| {
        let a = o.system()?;
        let mut cholesky = sparse::cholesky(&a)?;
        if o.ints[3] == 1 {
            cholesky.refactor(&a.mul(o.float)?)?;
        }
        cholesky.solve(&o.source)
    }),
    ("to_device", |o| o.x.to_device(Device::Meta)),
    ("printed", |o| {
        assert!(!o.x.to_string().is_empty());
        o.x.coalesce()?.values()
    }),
];
