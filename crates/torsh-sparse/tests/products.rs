//! Products: indices that were written, results of two sparse factors, gradients that are one row, and inner products.

use num_complex::Complex;
use torsh_sparse::{self as sparse, SparseExt, ToSparseOptions};
use torsh_tensor::{DType, Device, Result, Tensor, TensorLayout, grad, tensor};

use crate::common::LAYOUTS;

/// Whole numbers, about one in `step` of which is not 0, the same in each run.
fn scattered(shape: [usize; 2], step: usize, dtype: DType) -> Result<Tensor> {
    let number = |i: usize| match (i * 7919 + i / 3 * 104_729).is_multiple_of(step) {
        true => (i % 7) as i64 - 3,
        false => 0,
    };
    let all: Vec<i64> = (0..shape[0] * shape[1]).map(number).collect();
    Tensor::from_vec(all, shape)?.to_dtype(dtype)
}

fn refusal(result: Result<Tensor>) -> String {
    result
        .map(drop)
        .expect_err("a call that is refused")
        .to_string()
}

#[test]
fn indices_that_were_written_are_checked_before_a_product() -> Result<()> {
    let indices = || tensor![[0, 0, 1], [0, 1, 1]];
    let a = sparse::coo(&indices(), &tensor![1.0, 2.0, 3.0], [2, 2])?.coalesce()?;
    let x = tensor![[1.0], [10.0]];
    let wanted = tensor![[21.0], [30.0]];
    assert_eq!(sparse::mm(&a, &x)?, wanted);
    // Out of the order of rows that a coalesced tensor has.
    a.indices()?.copy_(&tensor![[1, 0, 0], [1, 0, 1]])?;
    let products: [fn(&Tensor, &Tensor) -> Result<Tensor>; 4] = [
        |a, x| sparse::mm(a, x),
        |a, x| a.matmul(x),
        |a, x| a.mv(&x.squeeze(-1)?),
        |a, x| sparse::addmm(x, a, x),
    ];
    for product in products {
        let error = refusal(product(&a, &x));
        assert!(error.contains("is_coalesced"), "{error}");
    }
    // In order, in other places.
    a.indices()?.copy_(&tensor![[0, 1, 1], [1, 0, 1]])?;
    assert_eq!(sparse::mm(&a, &x)?, tensor![[10.0], [32.0]]);
    a.indices()?.copy_(&tensor![[0, 1, 2], [1, 0, 1]])?;
    assert!(refusal(sparse::mm(&a, &x)).contains("found index 2"));
    a.indices()?.copy_(&indices())?;
    assert_eq!(sparse::mm(&a, &x)?, wanted);
    // The same of compressed rows, and of both factors of a sparse product.
    let b = tensor![[1.0, 2.0], [0.0, 3.0]].to_sparse_csr()?;
    assert_eq!(
        sparse::mm(&b, &b)?.to_dense()?,
        tensor![[1.0, 8.0], [0.0, 9.0]]
    );
    b.col_indices()?.copy_(&tensor![1, 0, 1])?;
    for result in [sparse::mm(&b, &x), sparse::mm(&b, &a), sparse::mm(&a, &b)] {
        assert!(refusal(result).contains("sorted and distinct"));
    }
    Ok(())
}

#[test]
fn products_of_two_sparse_matrices_are_those_of_strided_ones() -> Result<()> {
    // Few elements meet in the first pair, nearly all in the second, and one in the third.
    let sizes = [
        ([30, 40], [40, 50], 11),
        ([20, 60], [60, 4], 2),
        ([5, 6], [6, 7], 1000),
        ([0, 3], [3, 2], 1),
    ];
    let dtypes = [
        DType::F32,
        DType::F64,
        DType::I64,
        DType::U8,
        DType::C64,
        DType::F16,
    ];
    for (of_a, of_b, step) in sizes {
        for dtype in dtypes {
            let (a, b) = (scattered(of_a, step, dtype)?, scattered(of_b, step, dtype)?);
            let exact = |x: &Tensor| x.to_dtype(DType::F64);
            let wanted = match dtype {
                DType::C64 => a.matmul(&b)?,
                _ => exact(&a)?
                    .matmul(&exact(&b)?)?
                    .to_dtype(DType::I64)?
                    .to_dtype(dtype)?,
            };
            for left in LAYOUTS {
                for right in LAYOUTS {
                    let blocked = left.is_blocked() || right.is_blocked();
                    if blocked && of_a[0] == 0 {
                        continue;
                    }
                    let of = |x: &Tensor, layout: TensorLayout| {
                        let options = ToSparseOptions::new().layout(layout);
                        x.to_sparse_with(match layout.is_blocked() {
                            true => options.blocksize([1, 1]),
                            false => options,
                        })
                    };
                    let out = sparse::mm(&of(&a, left)?, &of(&b, right)?)?;
                    let what = format!("{left} {of_a:?} by {right} {of_b:?} of {dtype}");
                    let coo = [left, right].contains(&TensorLayout::SparseCoo);
                    let layout = match coo {
                        true => TensorLayout::SparseCoo,
                        false => TensorLayout::SparseCsr,
                    };
                    assert_eq!((out.layout(), out.dtype()), (layout, dtype), "{what}");
                    assert_eq!(out.to_dense()?, wanted, "{what}");
                    // Elements that meet are stored, also where their sum is 0.
                    let met = |x: &Tensor| x.ne(0)?.to_dtype(DType::F64);
                    let stored = met(&a)?.matmul(&met(&b)?)?.ne(0)?.sum()?.item::<i64>()?;
                    assert_eq!(out.nnz()? as i64, stored, "{what}");
                    assert!(!coo || out.is_coalesced()?, "{what}");
                }
            }
        }
    }
    Ok(())
}

#[test]
fn products_keep_int32_indices() -> Result<()> {
    let narrow = |x: Tensor| -> Result<Tensor> {
        let parts = [x.crow_indices()?, x.col_indices()?].map(|t| t.to_dtype(DType::I32));
        let [crow, col] = parts;
        sparse::csr(&crow?, &col?, &x.values()?, [3, 3])
    };
    let wide = tensor![[0.0, 2.0, 0.0], [3.0, 0.0, 4.0], [0.0, 0.0, 5.0]].to_sparse_csr()?;
    let a = narrow(wide.clone())?;
    let wanted = tensor![[6.0, 0.0, 8.0], [0.0, 6.0, 20.0], [0.0, 0.0, 25.0]];
    for (x, y, dtype) in [
        (&a, &a, DType::I32),
        (&a, &wide, DType::I64),
        (&wide, &a, DType::I64),
    ] {
        let out = sparse::mm(x, y)?;
        assert_eq!(
            (out.crow_indices()?.dtype(), out.col_indices()?.dtype()),
            (dtype, dtype)
        );
        assert_eq!(
            out.crow_indices()?.to_dtype(DType::I64)?,
            tensor![0, 2, 4, 5]
        );
        assert_eq!(out.to_dense()?, wanted);
    }
    Ok(())
}

#[test]
fn batches_of_sparse_matrices_are_multiplied() -> Result<()> {
    let matrices = |shape: [usize; 2], step: usize| {
        let of = |by: usize| scattered(shape, step + by, DType::F64);
        Tensor::stack(&[of(0)?, of(1)?, of(2)?], 0)
    };
    let (a, b) = (matrices([5, 8], 3)?, matrices([8, 6], 4)?);
    let out = a.to_sparse()?.bmm(&b.to_sparse()?)?;
    assert_eq!(
        (out.layout(), out.is_coalesced()?),
        (TensorLayout::SparseCoo, true)
    );
    assert_eq!(out.to_dense()?, a.bmm(&b)?);
    Ok(())
}

#[test]
fn the_gradient_of_a_sum_is_that_of_ones() -> Result<()> {
    for dtype in [DType::F32, DType::F64] {
        for m in [1, 3, 70] {
            let dense = scattered([9, 7], 2, dtype)?;
            let b = scattered([7, m], 1, dtype)?;
            let transposed = scattered([m, 9], 1, dtype)?;
            for layout in [
                TensorLayout::SparseCoo,
                TensorLayout::SparseCsr,
                TensorLayout::SparseCsc,
            ] {
                let a = dense.to_sparse_with(ToSparseOptions::new().layout(layout))?;
                let ones = Tensor::ones([9, m], dtype, Device::Cpu)?;
                let b = b.detach().requires_grad_(true);
                let g = grad(&[a.matmul(&b)?.sum()?], &[b], &[None], false, false, false)?;
                let wanted = dense.t()?.matmul(&ones)?;
                assert_eq!(g[0].as_ref().expect("a gradient"), &wanted, "{layout} {m}");
                let c = transposed.detach().requires_grad_(true);
                let g = grad(&[c.matmul(&a)?.sum()?], &[c], &[None], false, false, false)?;
                let wanted = Tensor::ones([m, 7], dtype, Device::Cpu)?.matmul(&dense.t()?)?;
                assert_eq!(g[0].as_ref().expect("a gradient"), &wanted, "{layout} {m}");
            }
        }
    }
    Ok(())
}

#[test]
fn inner_products_have_the_dtype_of_the_vectors() -> Result<()> {
    let (x, y) = (tensor![0, 2, 0, 3, 1], tensor![5, 4, 0, 0, 7]);
    let (left, right) = (Complex::new(1.0, 2.0), Complex::new(3.0, -1.0));
    let real = [
        DType::F32,
        DType::F64,
        DType::F16,
        DType::BF16,
        DType::U8,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
    ];
    for dtype in real.into_iter().chain([DType::C64, DType::C128]) {
        let of = |t: &Tensor, factor: Complex<f64>| match dtype.is_complex() {
            true => t.to_dtype(dtype)?.mul(factor),
            false => t.to_dtype(dtype),
        };
        let (x, y) = (of(&x, left)?, of(&y, right)?);
        let (plain, conjugated) = match dtype.is_complex() {
            true => (Complex::new(75.0, 75.0), Complex::new(15.0, -105.0)),
            false => (Complex::new(15.0, 0.0), Complex::new(15.0, 0.0)),
        };
        let (a, b) = (x.to_sparse()?, y.to_sparse()?);
        for (a, b) in [(&a, &b), (&a, &y), (&x, &b)] {
            for (out, wanted) in [
                (a.dot(b)?, plain),
                (a.matmul(b)?, plain),
                (a.vdot(b)?, conjugated),
            ] {
                assert_eq!(out.dtype(), dtype);
                let out = out.to_dtype(DType::C128)?.item::<Complex<f64>>()?;
                assert_eq!(out, wanted, "{dtype}");
            }
        }
    }
    // Integers wrap.
    let of = |t: Tensor| t.to_dtype(DType::I8)?.to_sparse();
    let out = of(tensor![100, 1])?.dot(&of(tensor![2, 0])?)?;
    assert_eq!(out.item::<i8>()?, -56);
    Ok(())
}

#[test]
fn inner_products_of_halves_are_rounded_once() -> Result<()> {
    for (dtype, e) in [(DType::F16, 2f64.powi(-10)), (DType::BF16, 2f64.powi(-7))] {
        // The first product is 1 + 4 e + 3 e^2, of which the half types would lose the last term.
        let of = |v: [f64; 2]| Tensor::from_data(&v, [2])?.to_dtype(dtype);
        let (x, y) = (of([1.0 + e, 1.0])?, of([1.0 + 3.0 * e, -1.0])?);
        let out = x.to_sparse()?.dot(&y.to_sparse()?)?;
        assert_eq!(out.dtype(), dtype);
        let out = out.to_dtype(DType::F64)?.item::<f64>()?;
        assert_eq!(out, 4.0 * e + 4.0 * e * e);
    }
    Ok(())
}

#[test]
fn products_and_sums_of_two_dtypes_are_refused() -> Result<()> {
    for dtype in [DType::F16, DType::F32] {
        let of = |t: Tensor| t.to_dtype(dtype);
        let a = of(tensor![[1.0, 2.0]])?.to_sparse_csr()?;
        let (x, sum) = (of(tensor![[3.0], [4.0]])?, of(tensor![[0.5]])?);
        let (row, other) = (x.t()?, x.to_dtype(DType::F64)?);
        let bias = tensor![0.5].to_dtype(DType::F64)?;
        for result in [
            sparse::addmm(&sum, &a, &other),
            sum.addmm(&a, &other),
            sparse::linear(&row, &a, &bias),
            row.linear(&a, &bias),
            a.select(0, 0)?.dot(&other.squeeze(1)?),
        ] {
            let error = refusal(result);
            assert!(error.contains("the same dtype"), "{error}");
        }
    }
    Ok(())
}
