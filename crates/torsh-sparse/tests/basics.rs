//! Constructors and what they refuse, conversions among the layouts, `coalesce`, and the gradients of all of these.

use torsh_sparse::{self as sparse, CooOptions, SparseExt, ToDenseOptions, ToSparseOptions};
use torsh_tensor::{DType, Device, Result, Tensor, TensorLayout, grad, ops, tensor};

const LAYOUTS: [TensorLayout; 5] = [
    TensorLayout::SparseCoo,
    TensorLayout::SparseCsr,
    TensorLayout::SparseCsc,
    TensorLayout::SparseBsr,
    TensorLayout::SparseBsc,
];

fn options(layout: TensorLayout) -> ToSparseOptions {
    let options = ToSparseOptions::new().layout(layout);
    match layout.is_blocked() {
        true => options.blocksize([2, 3]),
        false => options,
    }
}

/// Numbers of which about half are 0, in a pattern that has empty and full rows.
fn half_empty(shape: &[usize]) -> Result<Tensor> {
    let n: usize = shape.iter().product();
    let data: Vec<f64> = (0..n)
        .map(|i| match (i * 7 + i / 5) % 4 {
            0 | 1 => 0.0,
            k => k as f64 + i as f64 / 8.0,
        })
        .collect();
    Tensor::from_data(&data, shape)
}

fn same(a: &Tensor, b: &Tensor) -> Result<()> {
    assert_eq!(a.shape(), b.shape());
    assert_eq!(a.dtype(), b.dtype());
    let (a, b) = (a.to_dense()?, b.to_dense()?);
    assert!(a.allclose(&b)?, "{a} is not {b}");
    Ok(())
}

/// The error of a call, without operands and place.
fn refusal(result: Result<Tensor>) -> String {
    match result {
        Ok(x) => panic!("made {x}"),
        Err(e) => e.to_string(),
    }
}

#[test]
fn each_layout_has_its_constructor() -> Result<()> {
    let dense = tensor![[0.0, 1.0, 2.0, 0.0], [0.0, 3.0, 0.0, 4.0]];
    let coo = sparse::coo(
        &tensor![[0, 0, 1, 1], [1, 2, 1, 3]],
        &tensor![1.0, 2.0, 3.0, 4.0],
        [2, 4],
    )?;
    let csr = sparse::csr(
        &tensor![0, 2, 4],
        &tensor![1, 2, 1, 3],
        &tensor![1.0, 2.0, 3.0, 4.0],
        [2, 4],
    )?;
    let csc = sparse::csc(
        &tensor![0, 0, 2, 3, 4],
        &tensor![0, 1, 0, 1],
        &tensor![1.0, 3.0, 2.0, 4.0],
        [2, 4],
    )?;
    let blocks = tensor![[[0.0, 1.0], [0.0, 3.0]], [[2.0, 0.0], [0.0, 4.0]]];
    let bsr = sparse::bsr(&tensor![0, 2], &tensor![0, 1], &blocks, [2, 4])?;
    let bsc = sparse::bsc(&tensor![0, 1, 2], &tensor![0, 0], &blocks, [2, 4])?;
    for (x, layout) in [&coo, &csr, &csc, &bsr, &bsc].into_iter().zip(LAYOUTS) {
        assert_eq!(x.layout(), layout);
        assert_eq!(x.is_sparse(), layout == TensorLayout::SparseCoo);
        assert_eq!(x.to_dense()?, dense, "{layout}");
    }
    assert_eq!((coo.nnz()?, csr.nnz()?, bsr.nnz()?), (4, 4, 2));
    assert_eq!((coo.sparse_dim(), coo.dense_dim()), (2, 0));
    assert_eq!((dense.sparse_dim(), dense.dense_dim()), (0, 2));
    assert_eq!(csr.crow_indices()?, tensor![0, 2, 4]);
    assert_eq!(csc.row_indices()?, tensor![0, 1, 0, 1]);
    assert!(!coo.is_coalesced()?);
    assert_eq!(coo._indices()?.dims(), [2, 4]);
    Ok(())
}

#[test]
fn sizes_are_found() -> Result<()> {
    let x = sparse::coo_inferred(&tensor![[0, 4], [2, 0]], &tensor![[1.0, 2.0], [3.0, 4.0]])?;
    assert_eq!(x.dims(), [5, 3, 2]);
    let (crow, col) = (tensor![0, 1, 2], tensor![3, 0]);
    let blocks = Tensor::ones([2, 2, 3], DType::F32, Device::Cpu)?;
    let x = sparse::compressed_inferred(TensorLayout::SparseBsr, &crow, &col, &blocks)?;
    assert_eq!(x.dims(), [4, 12]);
    let x = sparse::compressed_inferred(TensorLayout::SparseCsc, &crow, &col, &tensor![1.0, 2.0])?;
    assert_eq!(x.dims(), [4, 2]);
    Ok(())
}

#[test]
fn what_is_no_coo_tensor_is_refused() {
    let (i, v) = (tensor![[0, 1], [1, 2]], tensor![1.0, 2.0]);
    let cases = [
        (
            sparse::coo(&i, &v, [2, 2]),
            "size is inconsistent with indices: for dim 1, size is 2 but found index 2",
        ),
        (
            sparse::coo(&i, &v, [2]),
            "'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = 1, sparse_dim = 2, dense_dim = 0",
        ),
        (
            sparse::coo(&tensor![[0, -1], [1, 2]], &v, [2, 3]),
            "found negative index -1 for dim 0",
        ),
        (
            sparse::coo(&i, &tensor![1.0, 2.0, 3.0], [2, 3]),
            "indices and values must have same nnz, but got nnz from indices: 2, nnz from values: 3",
        ),
        (
            sparse::coo(&i, &v, [2, -3]),
            "for dim 1, size is -3 but found index 2",
        ),
        (
            sparse::coo(&tensor![0, 1], &v, [2]),
            "indices must be sparse_dim x nnz, but got: [2]",
        ),
        (
            sparse::coo(&i, &tensor![[1.0, 2.0], [3.0, 4.0]], [2, 3, 3]),
            "values has incorrect size, expected [2, 3], got [2, 2]",
        ),
        (
            sparse::coo(&tensor![[0.5, 1.0]], &v, [2]),
            "indices must be an int64 tensor",
        ),
        (
            sparse::coo_with(
                &tensor![[1, 0]],
                &v,
                [2],
                CooOptions::new().is_coalesced(true),
            ),
            "cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor",
        ),
    ];
    for (made, text) in cases {
        let e = refusal(made);
        assert!(
            e.starts_with("sparse_coo_tensor: ") && e.contains(text),
            "{e}"
        );
    }
}

#[test]
fn what_is_no_compressed_tensor_is_refused() -> Result<()> {
    let (crow, col, v) = (tensor![0, 1, 2], tensor![1, 0], tensor![1.0, 2.0]);
    let ones = |shape: &[usize]| Tensor::ones(shape, DType::F32, Device::Cpu);
    let cases = [
        (
            sparse::csr(&crow, &tensor![1, 4], &v, [2, 4]),
            "`0 <= col_indices < ncols` is not satisfied.",
        ),
        (
            sparse::csr(&tensor![0, 1, 1], &col, &v, [2, 4]),
            "`crow_indices[..., -1] == nnz` is not satisfied.",
        ),
        (
            sparse::csr(&tensor![1, 1, 2], &col, &v, [2, 4]),
            "`crow_indices[..., 0] == 0` is not satisfied.",
        ),
        (
            sparse::csr(&tensor![0, 3, 2], &col, &v, [2, 4]),
            "`0 <= crow_indices[..., 1:] - crow_indices[..., :-1] <= ncols` is not satisfied.",
        ),
        (
            sparse::csr(&tensor![0, 2, 2], &col, &v, [2, 4]),
            "`col_indices[..., crow_indices[..., i - 1]:crow_indices[..., i]] for all i = 1, ..., nrows are sorted and distinct along the last dimension values` is not satisfied.",
        ),
        (
            sparse::csr(&crow, &col, &ones(&[3])?, [2, 4]),
            "col_indices.shape[-1] must be equal to nnz (=3) as defined by values.shape[0], but got 2",
        ),
        (
            sparse::csr(&tensor![0, 2], &col, &v, [2, 4]),
            "crow_indices.shape[-1] must be equal to the number of rows + 1 (=3), but got 2",
        ),
        (
            sparse::csr(&crow, &col.to_dtype(DType::I32)?, &v, [2, 4]),
            "crow_indices and col_indices must have the same dtype, bot got Long and Int, respectively",
        ),
        (
            sparse::csr(&crow, &col, &v, [2, 4, 5]),
            "tensor dimensionality must be sum of batch, base, and dense dimensionalities (=0 + 2 + 0) but got 3",
        ),
        (
            sparse::csc(&crow, &tensor![1, 4], &v, [4, 2]),
            "`0 <= row_indices < nrows` is not satisfied.",
        ),
        (
            sparse::bsr(&crow, &col, &ones(&[2, 2, 2])?, [3, 4]),
            "tensor shape[0] (=3) must be divisible with blocksize[0] (=2) as defined by values shape",
        ),
        (
            sparse::bsr(&crow, &col, &ones(&[2, 2, 2])?, [6, 4]),
            "crow_indices.shape[-1] must be equal to the number of row blocks + 1 (=4), but got 3",
        ),
        (
            sparse::compressed(TensorLayout::SparseCoo, &crow, &col, &v, [2, 4]),
            "expected sparse compressed tensor layout but got Sparse",
        ),
    ];
    for (made, text) in cases {
        let e = refusal(made);
        assert!(e.contains(text), "{e}");
    }
    Ok(())
}

#[test]
fn questions_of_another_layout_are_refused() -> Result<()> {
    let x = tensor![[0.0, 1.0]].to_sparse()?;
    let e = refusal(x.crow_indices());
    assert!(e.contains("crow_indices expected sparse row compressed tensor layout but got Sparse"));
    let e = refusal(x.to_sparse_csr()?.row_indices());
    assert!(
        e.contains("row_indices expected sparse column compressed tensor layout but got SparseCsr")
    );
    let twice = sparse::coo(&tensor![[0, 0]], &tensor![1.0, 2.0], [2])?;
    assert!(refusal(twice.values()).contains("Cannot get values on an uncoalesced tensor"));
    assert!(refusal(twice.indices()).contains("Cannot get indices on an uncoalesced tensor"));
    assert!(
        refusal(tensor![1.0].values())
            .contains("values expected sparse tensor layout but got Strided")
    );
    let e = refusal(tensor![[1.0, 2.0]].to_sparse_bsr([2, 2]));
    assert!(e.contains("tensor sparse size (1,2) must be divisible by given blocksize (2,2)"));
    let e = refusal(tensor![[1.0]].to_sparse_with(ToSparseOptions::new().sparse_dim(3)));
    assert!(e.contains("sparse_dim argument must be in [0,2] range, but 3 is given"));
    Ok(())
}

#[test]
fn every_layout_becomes_every_other() -> Result<()> {
    for shape in [[6, 9], [2, 12], [0, 3], [4, 0]] {
        let dense = half_empty(&shape)?;
        for from in LAYOUTS {
            let x = dense.to_sparse_with(options(from))?;
            same(&x, &dense)?;
            for to in LAYOUTS {
                let y = x.to_sparse_with(options(to))?;
                assert_eq!(y.layout(), to);
                same(&y, &dense)?;
            }
        }
    }
    Ok(())
}

#[test]
fn batches_and_dense_dimensions_are_kept() -> Result<()> {
    // Both matrices store equally many elements.
    let one = half_empty(&[4, 6, 2])?;
    let dense = Tensor::stack(&[one.clone(), one.flip([0])?], 0)?;
    for from in LAYOUTS {
        let given = match from {
            TensorLayout::SparseCoo => ToSparseOptions::new().sparse_dim(3),
            _ => options(from).dense_dim(1),
        };
        let x = dense.to_sparse_with(given)?;
        assert_eq!(x.dense_dim(), 1);
        same(&x, &dense)?;
        for to in LAYOUTS {
            let y = x.to_sparse_with(options(to))?;
            assert_eq!((y.layout(), y.dense_dim()), (to, 1));
            same(&y, &dense)?;
        }
    }
    let unequal = tensor![[[1.0, 0.0]], [[1.0, 2.0]]];
    let e = refusal(unequal.to_sparse_csr());
    assert!(e.contains("Expect the same number of specified elements per batch"));
    Ok(())
}

#[test]
fn every_dtype_is_stored() -> Result<()> {
    let dtypes = [
        DType::F16,
        DType::BF16,
        DType::F32,
        DType::I8,
        DType::U8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::Bool,
        DType::C64,
        DType::C128,
    ];
    for dtype in dtypes {
        let dense = half_empty(&[4, 6])?.round()?.to_dtype(dtype)?;
        for layout in LAYOUTS {
            let x = dense.to_sparse_with(options(layout))?;
            assert_eq!(x.dtype(), dtype);
            assert!(
                x.to_dense()?.eq(&dense)?.all()?.item::<bool>()?,
                "{dtype} {layout}"
            );
        }
        let twice = sparse::coo(&tensor![[1, 0, 1]], &tensor![1, 0, 1].to_dtype(dtype)?, [2])?;
        let sum = tensor![0, 2].to_dtype(dtype)?;
        assert!(
            twice.to_dense()?.eq(&sum)?.all()?.item::<bool>()?,
            "{dtype}"
        );
        assert!(
            twice
                .coalesce()?
                .to_dense()?
                .eq(&sum)?
                .all()?
                .item::<bool>()?,
            "{dtype}"
        );
    }
    Ok(())
}

#[test]
fn int32_indices_stay() -> Result<()> {
    let (crow, col) = (
        tensor![0, 1, 2].to_dtype(DType::I32)?,
        tensor![1, 0].to_dtype(DType::I32)?,
    );
    let x = sparse::csr(&crow, &col, &tensor![1.0, 2.0], [2, 2])?;
    assert_eq!(x.to_sparse_csc()?.row_indices()?.dtype(), DType::I32);
    assert_eq!(x.to_sparse_bsr([1, 2])?.col_indices()?.dtype(), DType::I32);
    assert_eq!(x.to_sparse()?.indices()?.dtype(), DType::I64);
    Ok(())
}

#[test]
fn coalesce_sorts_and_adds() -> Result<()> {
    let x = sparse::coo(
        &tensor![[2, 0, 2, 1], [1, 3, 1, 0]],
        &tensor![[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]],
        [3, 4, 2],
    )?;
    let y = x.coalesce()?;
    assert!(y.is_coalesced()? && !x.is_coalesced()?);
    assert_eq!(y.indices()?, tensor![[0, 1, 2], [3, 0, 1]]);
    assert_eq!(y.values()?, tensor![[3.0, 4.0], [7.0, 8.0], [6.0, 8.0]]);
    same(&x, &y)?;
    let e = sparse::coo(
        &Tensor::zeros([2, 0], DType::I64, Device::Cpu)?,
        &Tensor::zeros([0], DType::F32, Device::Cpu)?,
        [3, 3],
    )?;
    assert_eq!(e.coalesce()?.nnz()?, 0);
    Ok(())
}

#[test]
fn positions_beyond_64_bits_are_sorted() -> Result<()> {
    let side = 1i64 << 40;
    let far = side - 1;
    let x = sparse::coo(
        &tensor![[far, 0, far, 5], [far, 7, far, 1]],
        &tensor![1.0, 2.0, 3.0, 4.0],
        [side, side],
    )?;
    let y = x.coalesce()?;
    assert_eq!(y.indices()?, tensor![[0, 5, far], [7, 1, far]]);
    assert_eq!(y.values()?, tensor![2.0, 4.0, 4.0]);
    let e = refusal(x.to_dense());
    assert!(
        e.starts_with("to_dense: ") && e.contains("more elements than memory can address"),
        "{e}"
    );
    Ok(())
}

#[test]
fn zero_dimensions() -> Result<()> {
    let x = Tensor::scalar(5.0, DType::F32, Device::Cpu)?.to_sparse()?;
    assert_eq!((x.nnz()?, x.sparse_dim()), (1, 0));
    assert_eq!(x.to_dense()?.item::<f32>()?, 5.0);
    Ok(())
}

#[test]
fn values_alias() -> Result<()> {
    let x = tensor![[0.0, 1.0], [2.0, 0.0]].to_sparse_csr()?;
    x.values()?.mul_(3.0)?;
    assert_eq!(x.to_dense()?, tensor![[0.0, 3.0], [6.0, 0.0]]);
    // Conversions have memory of their own.
    let y = x.to_sparse()?;
    y.coalesce()?.values()?.mul_(0.0)?;
    assert_eq!(x.to_dense()?, tensor![[0.0, 3.0], [6.0, 0.0]]);
    Ok(())
}

#[test]
fn indices_that_were_written_are_checked_again() -> Result<()> {
    let col = tensor![1, 0];
    let x = sparse::csr(&tensor![0, 1, 2], &col, &tensor![1.0, 2.0], [2, 2])?;
    assert_eq!(x.to_dense()?, tensor![[0.0, 1.0], [2.0, 0.0]]);
    col.fill_(9)?;
    assert!(refusal(x.to_dense()).contains("`0 <= col_indices < ncols` is not satisfied"));
    Ok(())
}

/// The gradients of `f(x).sum of products with numbers`, of first and second order.
fn grads(x: &Tensor, f: impl Fn(&Tensor) -> Result<Tensor>) -> Result<(Tensor, Tensor)> {
    let x = x.detach();
    x.set_requires_grad(true)?;
    let y = f(&x)?;
    let loss = y.mul(&y)?.mul(&y)?.sum()?;
    let g = grad(&[loss], &[x.clone()], &[None], true, true, false)?;
    let Some(g) = g.into_iter().flatten().next() else {
        panic!("no gradient")
    };
    let again = g.to_dense()?.sum()?;
    let second = grad(&[again], &[x], &[None], false, false, false)?;
    let Some(second) = second.into_iter().flatten().next() else {
        panic!("no second gradient")
    };
    Ok((g, second))
}

#[test]
fn to_dense_gives_the_pattern_a_gradient() -> Result<()> {
    let dense = half_empty(&[4, 6])?;
    for layout in LAYOUTS {
        let x = dense.to_sparse_with(options(layout))?;
        let (g, second) = grads(&x, |x| x.to_dense())?;
        assert_eq!((g.layout(), second.layout()), (layout, layout));
        assert_eq!(g.nnz()?, x.nnz()?);
        same(&g, &dense.mul(&dense)?.mul(3.0)?)?;
        same(&second, &dense.mul(6.0)?)?;
        let unmasked = ToDenseOptions::new().masked_grad(false);
        let x = x.detach();
        x.set_requires_grad(true)?;
        let w = Tensor::ones([4, 6], DType::F64, Device::Cpu)?;
        let y = x.to_dense_with(unmasked)?.mul(&w)?.sum()?;
        let g = grad(&[y], &[x], &[None], false, false, false)?;
        same(g[0].as_ref().expect("a gradient"), &w)?;
    }
    Ok(())
}

#[test]
fn elements_that_stand_twice_have_one_gradient() -> Result<()> {
    let x = sparse::coo(&tensor![[1, 0, 1]], &tensor![1.0, 2.0, 3.0], [3])?;
    let (g, second) = grads(&x, |x| x.to_dense())?;
    same(&g, &tensor![12.0, 48.0, 0.0])?;
    same(&second, &tensor![12.0, 24.0, 0.0])?;
    let (g, second) = grads(&x, |x| x.coalesce()?.to_dense())?;
    same(&g, &tensor![12.0, 48.0, 0.0])?;
    same(&second, &tensor![12.0, 24.0, 0.0])?;
    // Each of the values has the whole of it.
    let v = tensor![1.0, 2.0, 3.0].requires_grad_(true);
    let x = sparse::coo(&tensor![[1, 0, 1]], &v, [3])?;
    let y = x.to_dense()?.mul(&tensor![10.0, 20.0, 30.0])?.sum()?;
    let g = grad(&[y], &[v], &[None], false, false, false)?;
    assert_eq!(g[0], Some(tensor![20.0, 10.0, 20.0]));
    Ok(())
}

#[test]
fn conversions_pass_gradients_on() -> Result<()> {
    let dense = half_empty(&[4, 6])?;
    for from in LAYOUTS {
        for to in LAYOUTS {
            let x = dense.to_sparse_with(options(from))?;
            let (g, second) = grads(&x, |x| x.to_sparse_with(options(to))?.to_dense())?;
            assert_eq!(g.layout(), from, "{from} to {to}");
            same(&g, &dense.mul(&dense)?.mul(3.0)?)?;
            same(&second, &dense.mul(6.0)?)?;
        }
        // A strided tensor has a strided gradient.
        let (g, second) = grads(&dense, |x| x.to_sparse_with(options(from))?.to_dense())?;
        assert_eq!(g.layout(), TensorLayout::Strided);
        same(&g, &dense.mul(&dense)?.mul(3.0)?)?;
        same(&second, &dense.mul(6.0)?)?;
    }
    Ok(())
}

#[test]
fn values_have_gradients_both_ways() -> Result<()> {
    let x = tensor![[0.0, 2.0], [3.0, 0.0]].to_sparse_csr()?;
    let (g, second) = grads(&x, |x| x.values())?;
    assert_eq!(g.layout(), TensorLayout::SparseCsr);
    same(&g, &tensor![[0.0, 12.0], [27.0, 0.0]])?;
    same(&second, &tensor![[0.0, 12.0], [18.0, 0.0]])?;
    let v = tensor![2.0, 3.0].requires_grad_(true);
    let x = sparse::csr(&tensor![0, 1, 2], &tensor![1, 0], &v, [2, 2])?;
    let y = x.to_dense()?.square()?.sum()?;
    let g = grad(&[y], &[v], &[None], false, false, false)?;
    assert_eq!(g[0], Some(tensor![4.0, 6.0]));
    Ok(())
}

#[test]
fn diagonals() -> Result<()> {
    let d = tensor![[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]];
    let x = sparse::spdiags(&d, &tensor![1, -2], [4, 3])?;
    let dense = tensor![
        [0.0, 2.0, 0.0],
        [0.0, 0.0, 3.0],
        [5.0, 0.0, 0.0],
        [0.0, 6.0, 0.0]
    ];
    assert_eq!(x.to_dense()?, dense);
    let x = sparse::spdiags_with(&d, &tensor![1, -2], [4, 3], TensorLayout::SparseCsc)?;
    assert_eq!(
        (x.layout(), x.to_dense()?),
        (TensorLayout::SparseCsc, dense)
    );
    let e = refusal(sparse::spdiags(&d, &tensor![1, 1], [4, 4]));
    assert!(e.contains("Offset tensor contains duplicate values"));
    let e = refusal(sparse::spdiags(&d, &tensor![1], [4, 4]));
    assert!(e.contains("Number of diagonals (2) does not match the number of offsets (1)"));
    Ok(())
}

#[test]
fn names_call_what_the_functions_are() -> Result<()> {
    let x = tensor![[0.0, 2.0], [3.0, 0.0]];
    let y = ops::call(
        "to_sparse",
        &[(&x).into()],
        &[("layout", TensorLayout::SparseCsr.into())],
    )?;
    let [y] = &y.tensors()[..] else {
        panic!("one result")
    };
    assert_eq!(y.layout(), TensorLayout::SparseCsr);
    let z = ops::call("crow_indices", &[y.into()], &[])?.tensors();
    assert_eq!(z, [tensor![0, 1, 2]]);
    let e = ops::call("to_sparse_bsr", &[(&x).into(), vec![2i64].into()], &[]);
    assert!(e.is_err_and(|e| e.to_string().contains("tuple of size 2, but got 1")));
    for record in ops::families()
        .iter()
        .filter(|f| f.feature == "sparse")
        .flat_map(|f| f.records)
    {
        let read = torsh_tensor::Signature::parse(record.schema);
        assert!(read.is_ok(), "{}: {:?}", record.name, read.err());
        if !record.is_internal() {
            assert!(ops::find(record.base_name()).is_some(), "{}", record.name);
        }
    }
    Ok(())
}

#[test]
fn the_meta_device_knows_shapes() -> Result<()> {
    let x = half_empty(&[4, 6])?.to_sparse_csr()?;
    let pattern = x.pattern().expect("sparse");
    let (crow, col) = (
        x.crow_indices()?.to_device(Device::Meta)?,
        x.col_indices()?.to_device(Device::Meta)?,
    );
    let meta = sparse::csr(&crow, &col, &x.values()?.to_device(Device::Meta)?, [4, 6])?;
    assert_eq!((meta.nnz()?, meta.device()), (pattern.nnz(), Device::Meta));
    assert_eq!(meta.to_dense()?.dims(), [4, 6]);
    assert_eq!(meta.to_sparse()?.nnz()?, pattern.nnz());
    assert_eq!(meta.to_sparse_csc()?.nnz()?, pattern.nnz());
    assert!(refusal(meta.to_dense()?.to_sparse()).contains("cannot be known"));
    Ok(())
}

#[test]
fn printing() -> Result<()> {
    let x = sparse::coo(&tensor![[0, 2], [1, 2]], &tensor![1.5, 2.0], [3, 4])?;
    assert_eq!(
        x.to_string(),
        "tensor(indices=tensor([[0, 2],\n                       [1, 2]]),\n       values=tensor([1.5000, 2.0000]),\n       size=(3, 4), nnz=2, layout=torch.sparse_coo)"
    );
    assert_eq!(
        x.to_sparse_csr()?.to_string(),
        "tensor(crow_indices=tensor([0, 1, 1, 2]),\n       col_indices=tensor([1, 2]),\n       values=tensor([1.5000, 2.0000]), size=(3, 4), nnz=2,\n       layout=torch.sparse_csr)"
    );
    Ok(())
}
