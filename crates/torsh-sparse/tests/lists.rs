//! What is done with lists of stored elements: conversions, sums of equal elements, sums and products of two tensors, elements
//! at a mask, and softmax, in every dtype and in sizes whose positions 64 bits do not hold.

use torsh_sparse::{self as sparse, CooOptions, SparseExt, ToSparseOptions};
use torsh_tensor::{AddOptions, DType, Result, Tensor, TensorLayout, grad, tensor};

use crate::common::LAYOUTS;

const HUGE: usize = 1 << 40;

/// Whole numbers from -3 to 3, about half of them 0, the same in each run.
fn numbers(shape: &[usize], seed: usize) -> Result<Tensor> {
    let n: usize = shape.iter().product();
    let number = |i: usize| {
        let h = (i + 1).wrapping_mul(seed.wrapping_mul(2_654_435_761) | 1) >> 7;
        if h.is_multiple_of(2) {
            0
        } else {
            (h / 2 % 7) as i64 - 3
        }
    };
    Tensor::from_vec((0..n).map(number).collect::<Vec<i64>>(), shape)
}

fn to(layout: TensorLayout, block: [usize; 2]) -> ToSparseOptions {
    let options = ToSparseOptions::new().layout(layout);
    match layout.is_blocked() {
        true => options.blocksize(block),
        false => options,
    }
}

/// Whether two tensors are equal element by element, of one dtype.
fn same(what: &str, a: &Tensor, b: &Tensor) -> Result<()> {
    let (a, b) = (a.to_dense()?, b.to_dense()?);
    assert_eq!((a.shape(), a.dtype()), (b.shape(), b.dtype()), "{what}");
    assert!(a.eq(&b)?.all()?.item::<bool>()?, "{what}: {a} is not {b}");
    Ok(())
}

#[test]
fn zeros_are_not_stored_and_nan_is() -> Result<()> {
    for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64] {
        let x = tensor![[0.0, -0.0, 2.0], [f64::NAN, 0.0, -0.0]].to_dtype(dtype)?;
        for layout in [TensorLayout::SparseCoo, TensorLayout::SparseCsr] {
            let y = x.to_sparse_with(to(layout, [1, 1]))?;
            assert_eq!(y.nnz()?, 2, "{dtype} {layout}");
            let v = y.values()?.to_dtype(DType::F64)?.to_vec::<f64>()?;
            assert!(v[0] == 2.0 && v[1].is_nan(), "{dtype} {layout}: {v:?}");
        }
        let y = x.to_sparse_csr()?;
        assert_eq!(y.crow_indices()?, tensor![0, 1, 2]);
        assert_eq!(y.col_indices()?, tensor![2, 0]);
    }
    // A unit is stored if one of its numbers is not 0.
    let x = tensor![[[0.0, 0.0], [0.0, 3.0]], [[-0.0, 0.0], [0.0, 0.0]]];
    let y = x.to_sparse_with(ToSparseOptions::new().sparse_dim(2))?;
    assert_eq!(y.indices()?, tensor![[0], [1]]);
    assert_eq!(y.values()?, tensor![[0.0, 3.0]]);
    Ok(())
}

#[test]
fn every_dtype_becomes_every_layout() -> Result<()> {
    for dtype in DType::ALL {
        for shape in [[6, 8], [60, 400], [0, 4], [4, 0]] {
            let x = numbers(&shape, 3)?.to_dtype(dtype)?;
            for from in LAYOUTS {
                let y = x.to_sparse_with(to(from, [2, 4]))?;
                same(&format!("{dtype} in {from}"), &y, &x)?;
                for layout in LAYOUTS {
                    let z = y.to_sparse_with(to(layout, [2, 2]))?;
                    assert_eq!((z.layout(), z.dtype()), (layout, dtype));
                    same(&format!("{dtype}: {layout} of {from}"), &z, &x)?;
                }
            }
        }
    }
    // A transposed tensor is read in the order of its own elements.
    let x = numbers(&[30, 50], 5)?.t()?;
    same("transposed", &x.to_sparse_csr()?, &x)?;
    same("transposed", &x.to_sparse_csc()?.to_sparse_csr()?, &x)?;
    // What is converted has indices of its own.
    let coo = x.to_sparse()?;
    let csr = coo.to_sparse_csr()?;
    csr.col_indices()?.zero_()?;
    same("the operand", &coo, &x)
}

#[test]
fn int32_indices_stay() -> Result<()> {
    let x = numbers(&[6, 8], 7)?;
    let y = x.to_sparse_csr()?;
    let narrow = |t: Tensor| t.to_dtype(DType::I32);
    let (crow, col) = (narrow(y.crow_indices()?)?, narrow(y.col_indices()?)?);
    let y = sparse::csr(&crow, &col, &y.values()?, [6, 8])?;
    same("int32", &y, &x)?;
    let z = y.to_sparse_csc()?;
    assert_eq!(z.ccol_indices()?.dtype(), DType::I32);
    same("int32", &z, &x)?;
    same("int32", &z.to_sparse_csr()?.add(&y)?, &x.mul(2)?)?;
    let wrong = sparse::csr(&crow, &col.add(5)?, &y.values()?, [6, 8]);
    let e = wrong.map(drop).expect_err("columns beyond the last");
    assert!(
        e.to_string()
            .contains("`0 <= col_indices < ncols` is not satisfied")
    );
    Ok(())
}

/// The elements of a matrix in another order, those of the second half twice with halves that add up.
fn scattered(x: &Tensor) -> Result<Tensor> {
    let coo = x.to_sparse()?;
    let (indices, values) = (coo.indices()?, coo.values()?);
    let n = values.dims()[0];
    let backwards: Vec<i64> = (0..n as i64).rev().collect();
    let order = Tensor::from_vec(backwards, [n])?;
    let indices = Tensor::cat(&[indices.index_select(1, &order)?, indices.clone()], 1)?;
    let ones = values.mul(0)?.add(1)?;
    let less = match x.dtype() {
        DType::Bool => values.clone(),
        _ => values.sub(&ones)?,
    };
    let first = match x.dtype() {
        DType::Bool => values.index_select(0, &order)?,
        _ => ones,
    };
    let values = Tensor::cat(&[first, less], 0)?;
    sparse::coo(&indices, &values, x.shape())
}

#[test]
fn equal_elements_are_added_in_every_dtype() -> Result<()> {
    for dtype in DType::ALL {
        for shape in [[5, 7], [200, 300]] {
            let x = numbers(&shape, 11)?.to_dtype(dtype)?;
            let twice = scattered(&x)?;
            let y = twice.coalesce()?;
            let coo = x.to_sparse()?;
            assert!(y.is_coalesced()?);
            assert_eq!(y.indices()?, coo.indices()?, "{dtype}");
            same(&format!("{dtype}"), &y, &x)?;
            same(&format!("{dtype}"), &twice, &x)?;
        }
    }
    // Two that are true are true, not 2.
    let x = sparse::coo(&tensor![[1, 1, 0]], &tensor![true, true, false], [2])?;
    assert_eq!(x.coalesce()?.values()?, tensor![false, true]);
    // Values that are rows.
    let x = sparse::coo(
        &tensor![[2, 0, 2]],
        &tensor![[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]],
        [3, 2],
    )?;
    assert_eq!(x.coalesce()?.values()?, tensor![[3.0, 4.0], [6.0, 8.0]]);
    // The gradient of a copy is that of the element.
    let v = tensor![1.0, 2.0, 3.0].requires_grad_(true);
    let x = sparse::coo(&tensor![[2, 0, 2]], &v, [3])?;
    let y = x.coalesce()?.values()?.mul(&tensor![10.0, 100.0])?.sum()?;
    let g = grad(&[y], std::slice::from_ref(&v), &[None], false, false, false)?;
    assert_eq!(
        g[0].clone().expect("a gradient"),
        tensor![100.0, 10.0, 100.0]
    );
    Ok(())
}

/// Three elements far apart, with rows of numbers.
fn far(values: &Tensor) -> Result<Tensor> {
    let last = HUGE as i64 - 1;
    let indices = Tensor::from_vec(vec![last, 0, 5, 1, last, last], [2, 3])?;
    sparse::coo(&indices, values, [HUGE, HUGE])
}

#[test]
fn positions_beyond_64_bits() -> Result<()> {
    let last = HUGE as i64 - 1;
    let x = far(&tensor![1.0, 2.0, 3.0])?;
    let twice = x.add(&x)?.coalesce()?;
    let sorted = Tensor::from_vec(vec![0, 5, last, last, last, 1], [2, 3])?;
    assert_eq!(twice.indices()?, sorted);
    assert_eq!(twice.values()?, tensor![4.0, 6.0, 2.0]);
    // One element of both, two of one alone each.
    let y = sparse::coo(
        &Tensor::from_vec(vec![0, 5, last, last, 7, 2], [2, 3])?,
        &tensor![10.0, 20.0, 30.0],
        [HUGE, HUGE],
    )?;
    let (x, y) = (x.coalesce()?, y.coalesce()?);
    let sum = x.add_with(&y, AddOptions::new().alpha(2))?;
    assert_eq!(sum.values()?, tensor![22.0, 40.0, 3.0, 1.0, 60.0]);
    assert_eq!(
        sum.indices()?,
        Tensor::from_vec(vec![0, 5, 5, last, last, last, 7, last, 1, 2], [2, 5])?
    );
    let product = x.mul(&y)?;
    assert_eq!(product.values()?, tensor![20.0]);
    assert_eq!(product.indices()?, Tensor::from_vec(vec![0, last], [2, 1])?);
    let masked = sparse::mask(&x, &y)?;
    assert_eq!(masked.values()?, tensor![2.0, 0.0, 0.0]);
    let soft = sparse::softmax(&x, 0)?;
    let half = 1.0 / (1.0 + 1.0f64.exp());
    let wanted = tensor![half, 1.0 - half, 1.0].to_dtype(soft.dtype())?;
    assert!(soft.values()?.allclose(&wanted)?);
    assert!(x.to_dense().is_err());
    Ok(())
}

#[test]
fn sums_and_products_of_two_in_every_dtype() -> Result<()> {
    for dtype in DType::ALL {
        for shape in [[6, 8], [80, 120]] {
            let x = numbers(&shape, 13)?.to_dtype(dtype)?;
            let y = numbers(&shape, 17)?.to_dtype(dtype)?;
            for layout in LAYOUTS {
                let options = || to(layout, [2, 4]);
                let (a, b) = (x.to_sparse_with(options())?, y.to_sparse_with(options())?);
                let what = format!("{dtype} {layout}");
                let sum = a.add(&b)?;
                assert_eq!(sum.layout(), layout);
                same(&what, &sum, &x.add(&y)?)?;
                // The elements of both, those that add up to 0 too.
                let both = x.ne(0)?.logical_or(&y.ne(0)?)?;
                if layout == TensorLayout::SparseCoo {
                    assert_eq!(sum.indices()?, both.to_sparse()?.indices()?, "{what}");
                }
                if dtype != DType::Bool {
                    let twice = AddOptions::new().alpha(2);
                    same(
                        &what,
                        &a.add_with(&b, twice.clone())?,
                        &x.add_with(&y, twice)?,
                    )?;
                    same(&what, &a.sub(&b)?, &x.sub(&y)?)?;
                }
                same(&what, &a.mul(&b)?, &x.mul(&y)?)?;
                let kept = y.ne(0)?;
                let wanted = x.mul(&kept.to_dtype(dtype)?)?;
                if !layout.is_blocked() {
                    same(&what, &sparse::mask(&a, &b)?, &wanted)?;
                }
            }
        }
    }
    Ok(())
}

#[test]
fn what_is_said_to_be_in_order_is_checked() -> Result<()> {
    let options = || CooOptions::new().is_coalesced(true);
    let ok = sparse::coo_with(
        &tensor![[0, 0, 1], [1, 2, 0]],
        &tensor![1, 2, 3],
        [2, 3],
        options(),
    )?;
    assert!(ok.is_coalesced()?);
    for wrong in [
        tensor![[0, 0, 1], [2, 1, 0]],
        tensor![[0, 0, 1], [1, 1, 0]],
        tensor![[1, 0, 0], [0, 1, 2]],
    ] {
        let e = sparse::coo_with(&wrong, &tensor![1, 2, 3], [2, 3], options());
        let e = e.map(drop).expect_err("not in order").to_string();
        assert!(e.contains("cannot set is_coalesced to true"), "{e}");
    }
    // Indices that are written are checked again.
    let indices = tensor![[0, 1], [1, 0]];
    let x = sparse::coo(&indices, &tensor![1.0, 2.0], [2, 2])?;
    x._indices()?.mul_(7)?;
    let e = x
        .coalesce()
        .map(drop)
        .expect_err("out of range")
        .to_string();
    assert!(e.contains("size is 2 but found index 7"), "{e}");
    Ok(())
}

#[test]
fn softmax_along_every_dimension() -> Result<()> {
    for dtype in [DType::F32, DType::F64, DType::BF16] {
        for dense_dim in [0, 1] {
            let x = numbers(&[4, 5, 6], 19)?.to_dtype(dtype)?;
            let options = ToSparseOptions::new().sparse_dim(3 - dense_dim);
            let y = x.to_sparse_with(options)?;
            // A unit is stored as a whole.
            let stored = match dense_dim {
                0 => x.ne(0)?,
                _ => x.ne(0)?.any_dim(2, true)?.expand([4, 5, 6])?,
            };
            let all = x.masked_fill(&stored.logical_not()?, f64::NEG_INFINITY)?;
            for dim in 0..3usize {
                for log in [false, true] {
                    let (soft, wanted) = match log {
                        false => (sparse::softmax(&y, dim)?, all.softmax(dim)?),
                        true => (sparse::log_softmax(&y, dim)?, all.log_softmax(dim)?),
                    };
                    assert_eq!(soft.dtype(), dtype);
                    let wide = |t: &Tensor| t.to_dtype(DType::F64);
                    let got = wide(&soft.values()?)?;
                    let wanted = wide(&sparse::mask(&wanted, &y)?.values()?)?;
                    let bound = if dtype == DType::BF16 { 0.1 } else { 1e-6 };
                    let near = got.sub(&wanted)?.abs()?.le(bound)?.all()?.item::<bool>()?;
                    assert!(near, "{dtype} {dense_dim} {dim} {log}: {got} for {wanted}");
                }
            }
        }
    }
    // A line of CSR or CSC.
    let x = numbers(&[7, 9], 23)?.to_dtype(DType::F64)?;
    let coo = x.to_sparse()?;
    for (dim, y) in [x.to_sparse_csc()?, x.to_sparse_csr()?].iter().enumerate() {
        for d in [dim, 1 - dim] {
            let (a, b) = (sparse::softmax(y, d)?, sparse::softmax(&coo, d)?);
            assert_eq!(a.layout(), y.layout());
            assert!(a.to_dense()?.allclose(&b.to_dense()?)?);
        }
    }
    Ok(())
}
