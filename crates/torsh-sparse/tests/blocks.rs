//! Products with BSR and BSC matrices, by whole blocks and element by element, against those of the dense matrix.

use torsh_autograd::{gradcheck, gradgradcheck};
use torsh_backend_cpu::operations::Force;
use torsh_sparse::{self as sparse, SparseExt, ToSparseOptions};
use torsh_tensor::sparse::{Pattern, from_values};
use torsh_tensor::{
    AddmmOptions, DType, Device, Result, Tensor, TensorLayout, TorshError, autocast, no_grad,
    tensor,
};

const LAYOUTS: [TensorLayout; 2] = [TensorLayout::SparseBsr, TensorLayout::SparseBsc];

/// Whole numbers from -3 to 3, of which sums are exact in float32.
fn numbers(shape: &[usize], seed: usize, dtype: DType) -> Result<Tensor> {
    let n: usize = shape.iter().product();
    let mixed = |i: usize| ((i + 1000 * seed) as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
    let data: Vec<f64> = (0..n).map(|i| (mixed(i) % 7) as f64 - 3.0).collect();
    Tensor::from_data(&data, shape)?.to_dtype(dtype)
}

/// A matrix of 4 by 3 blocks: nothing in the first row of blocks, all in the last, one or two in the others.
fn matrix([r, c]: [usize; 2], dtype: DType) -> Result<Tensor> {
    let kept = [
        [0.0, 0.0, 0.0],
        [0.0, 1.0, 0.0],
        [1.0, 0.0, 1.0],
        [1.0, 1.0, 1.0],
    ];
    let kept: Vec<f64> = kept.concat();
    let kept = Tensor::from_data(&kept, [4, 1, 3, 1])?.to_dtype(dtype)?;
    // No 0 in a stored block, so that every element shows.
    let all = numbers(&[4, r, 3, c], 1, dtype)?;
    let all = all.add(&all.eq(0.0)?.to_dtype(dtype)?)?;
    all.mul(&kept)?.reshape([4 * r, 3 * c])
}

/// The matrix in a layout of blocks, as a leaf.
fn stored(dense: &Tensor, layout: TensorLayout, block: [usize; 2]) -> Result<Tensor> {
    let options = ToSparseOptions::new().layout(layout).blocksize(block);
    let w = dense.to_sparse_with(options)?.detach();
    Ok(w.requires_grad_(true))
}

type Product<'a> = &'a dyn Fn(&Tensor, &Tensor) -> Result<Tensor>;

/// Compares values and gradients of a product of `w` and `x` with those of the dense matrix; the gradient of `w` has its pattern,
/// or is strided.
fn check(w: &Tensor, x: &Tensor, f: Product<'_>, same: Product<'_>, strided: bool) -> Result<()> {
    let (dense, twin) = (
        w.detach().to_dense()?.requires_grad_(true),
        x.detach().copy()?,
    );
    let (x, twin) = (x.detach().requires_grad_(true), twin.requires_grad_(true));
    w.zero_grad();
    let (y, wanted) = (f(w, &x)?, same(&dense, &twin)?);
    assert_eq!(y, wanted);
    let g = numbers(y.dims(), 5, y.dtype())?;
    y.mul(&g)?.sum()?.backward()?;
    wanted.mul(&g)?.sum()?.backward()?;
    assert_eq!(x.grad(), twin.grad());
    let (gradient, full) = (
        w.grad().expect("a gradient"),
        dense.grad().expect("a gradient"),
    );
    if strided {
        assert_eq!(gradient, full);
        return Ok(());
    }
    let pattern = w.pattern().expect("sparse");
    assert!(gradient.pattern().expect("sparse").is_same(&pattern));
    let ones = from_values(
        &pattern,
        &torsh_tensor::sparse::values(&w.detach())?.ones_like()?,
    )?;
    assert_eq!(gradient.to_dense()?, full.mul(&ones.to_dense()?)?);
    Ok(())
}

/// Each product from both sides, of operands that lie by rows and by columns.
fn check_all(block: [usize; 2], dtype: DType) -> Result<()> {
    let dense = matrix(block, dtype)?;
    let &[n, k] = dense.dims() else {
        panic!("a matrix")
    };
    for layout in LAYOUTS {
        let w = stored(&dense, layout, block)?;
        for m in [1, 5, 33] {
            let by_columns = |t: Tensor| no_grad(|| t.t()?.contiguous()?.t());
            let (right, left) = (numbers(&[k, m], 2, dtype)?, numbers(&[m, n], 3, dtype)?);
            for x in [right.copy()?, by_columns(right)?] {
                check(&w, &x, &|w, x| sparse::mm(w, x), &|w, x| w.mm(x), false)?;
                check(&w, &x, &|w, x| w.matmul(x), &|w, x| w.matmul(x), true)?;
            }
            for x in [left.copy()?, by_columns(left)?] {
                check(&w, &x, &|w, x| sparse::mm(x, w), &|w, x| x.mm(w), false)?;
                check(&w, &x, &|w, x| x.matmul(w), &|w, x| x.matmul(w), true)?;
            }
            let bias = numbers(&[n], 4, dtype)?;
            for x in [numbers(&[m, k], 6, dtype)?, numbers(&[2, m, k], 7, dtype)?] {
                let same: Product<'_> = &|w, x| x.linear(w, &bias);
                check(&w, &x, &|w, x| sparse::linear(x, w, &bias), same, false)?;
                check(&w, &x, same, same, true)?;
            }
        }
        let (input, x) = (numbers(&[n, 9], 8, dtype)?, numbers(&[k, 9], 9, dtype)?);
        let options = || AddmmOptions::new().beta(2).alpha(3);
        check(
            &w,
            &x,
            &|w, x| sparse::addmm_with(&input, w, x, options()),
            &|w, x| input.addmm_with(w, x, options()),
            false,
        )?;
    }
    Ok(())
}

#[test]
fn products_of_blocks_are_those_of_the_dense_matrix() -> Result<()> {
    for block in [[8, 8], [16, 24], [32, 32], [9, 33]] {
        check_all(block, DType::F32)?;
        check_all(block, DType::F64)?;
    }
    Ok(())
}

#[test]
fn both_algorithms_take_blocks_of_any_size() -> Result<()> {
    for algorithm in ["elements", "blocks"] {
        let _force =
            Force::new("sparse.blocks", algorithm).map_err(|e| TorshError::invalid("", e))?;
        for block in [[1, 1], [2, 3], [5, 7], [16, 16]] {
            check_all(block, DType::F32)?;
        }
    }
    Ok(())
}

#[test]
fn vectors_and_empty_operands_have_products() -> Result<()> {
    let dense = matrix([8, 8], DType::F32)?;
    let w = stored(&dense, TensorLayout::SparseBsr, [8, 8])?;
    let (x, y) = (
        numbers(&[24], 1, DType::F32)?,
        numbers(&[32], 2, DType::F32)?,
    );
    assert_eq!(w.matmul(&x)?, dense.matmul(&x)?);
    assert_eq!(y.matmul(&w)?, y.matmul(&dense)?);
    assert_eq!(sparse::linear(&x, &w, None)?, dense.matmul(&x)?);
    let none = Tensor::zeros([0, 24], DType::F32, Device::Cpu)?;
    assert_eq!(sparse::linear(&none, &w, None)?.dims(), [0, 32]);
    // A matrix that stores nothing.
    let nothing = stored(&dense.zeros_like()?, TensorLayout::SparseBsr, [8, 8])?;
    let out = sparse::linear(&x.unsqueeze(0)?, &nothing, None)?;
    assert_eq!(out, Tensor::zeros([1, 32], DType::F32, Device::Cpu)?);
    out.sum()?.backward()?;
    assert_eq!(
        nothing.grad().expect("a gradient").values()?.dims(),
        [0, 8, 8]
    );
    Ok(())
}

#[test]
fn half_types_are_rounded_once() -> Result<()> {
    for dtype in [DType::BF16, DType::F16] {
        // Sums beyond what the dtype holds exactly.
        let wide = matrix([16, 16], DType::F32)?.mul(37.0)?.to_dtype(dtype)?;
        let x = numbers(&[6, 48], 1, dtype)?;
        let w = stored(&wide, TensorLayout::SparseBsr, [16, 16])?;
        let y = sparse::linear(&x, &w, None)?;
        let exact = x
            .to_dtype(DType::F32)?
            .linear(&wide.to_dtype(DType::F32)?, None)?;
        assert_eq!(y, exact.to_dtype(dtype)?);
        y.sum()?.backward()?;
        assert_eq!(w.grad().expect("a gradient").dtype(), dtype);
    }
    Ok(())
}

#[test]
fn a_linear_product_is_cast_by_autocast() -> Result<()> {
    let dense = matrix([8, 8], DType::F32)?;
    let w = stored(&dense, TensorLayout::SparseBsr, [8, 8])?;
    let (x, bias) = (
        numbers(&[3, 24], 1, DType::F32)?,
        numbers(&[32], 2, DType::F32)?,
    );
    let y = autocast(|| sparse::linear(&x, &w, &bias))?;
    let wanted = autocast(|| x.linear(&dense, &bias))?;
    assert_eq!((y.dtype(), &y), (DType::BF16, &wanted));
    y.sum()?.backward()?;
    let gradient = w.grad().expect("a gradient");
    assert_eq!(gradient.dtype(), DType::F32);
    assert!(
        gradient
            .pattern()
            .expect("sparse")
            .is_same(&w.pattern().expect("sparse"))
    );
    Ok(())
}

#[test]
fn derivatives_of_both_orders_are_those_of_differences() -> Result<()> {
    for layout in LAYOUTS {
        let pattern: Pattern = stored(&matrix([8, 8], DType::F64)?, layout, [8, 8])?
            .pattern()
            .expect("sparse");
        let leaf = |t: Tensor| t.mul(0.25).map(|t| t.detach().requires_grad_(true));
        let values = leaf(numbers(pattern.values_shape().dims(), 1, DType::F64)?)?;
        let x = leaf(numbers(&[2, 24], 2, DType::F64)?)?;
        let f = |v: &[Tensor]| {
            let w = from_values(&pattern, &v[0])?;
            Ok(vec![sparse::linear(&v[1], &w, None)?.square()?])
        };
        assert!(gradcheck(f, &[values.clone(), x.clone()])?);
        assert!(gradgradcheck(f, &[values, x])?);
    }
    Ok(())
}

#[test]
fn a_strided_weight_and_sizes_that_differ_are_refused() -> Result<()> {
    let dense = matrix([8, 8], DType::F32)?;
    let w = stored(&dense, TensorLayout::SparseBsr, [8, 8])?;
    let text = |r: Result<Tensor>| r.expect_err("refused").to_string();
    let e = text(sparse::linear(&tensor![[1.0]], &dense, None));
    assert!(
        e.contains("sparse.linear") && e.contains("F::linear"),
        "{e}"
    );
    let e = text(sparse::linear(&tensor![[1.0f32, 2.0]], &w, None));
    assert!(e.contains("sparse.linear") && e.contains("24"), "{e}");
    let e = text(sparse::linear(&numbers(&[2, 24], 1, DType::F64)?, &w, None));
    assert!(e.contains("dtype"), "{e}");
    Ok(())
}

#[test]
fn the_meta_device_knows_the_sizes() -> Result<()> {
    let w = stored(
        &matrix([8, 8], DType::F32)?,
        TensorLayout::SparseBsr,
        [8, 8],
    )?;
    let (w, x) = (
        w.detach().to_device(Device::Meta)?,
        numbers(&[3, 24], 1, DType::F32)?,
    );
    let y = sparse::linear(&x.to_device(Device::Meta)?, &w, None)?;
    assert_eq!((y.dims(), y.device()), (&[3usize, 32][..], Device::Meta));
    Ok(())
}
