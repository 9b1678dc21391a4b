//! Results with memory of their own, and facts of indices that outlive no write.

use torsh_sparse as sparse;
use torsh_sparse::{SparseExt, ToSparseOptions};
use torsh_tensor::{
    DType, Device, EmbeddingOptions, Result, Tensor, TensorLayout, grad, inference_mode,
    sparse::{from_values, values},
    tensor,
};

use crate::common::LAYOUTS;

fn to(layout: TensorLayout) -> ToSparseOptions {
    let options = ToSparseOptions::new().layout(layout);
    match layout.is_blocked() {
        true => options.blocksize([2, 2]),
        false => options,
    }
}

/// The index tensors of a sparse tensor, as its methods give them.
fn indices(x: &Tensor) -> Result<Vec<Tensor>> {
    Ok(match x.layout() {
        TensorLayout::SparseCoo => vec![x._indices()?],
        layout if layout.by_rows() => vec![x.crow_indices()?, x.col_indices()?],
        _ => vec![x.ccol_indices()?, x.row_indices()?],
    })
}

/// Copies of some tensors.
fn copies(list: &[Tensor]) -> Result<Vec<Tensor>> {
    list.iter().map(Tensor::copy).collect()
}

fn matrix() -> Tensor {
    tensor![
        [1.0, 0.0, 2.0, 0.0],
        [0.0, 0.0, 0.0, 3.0],
        [0.0, 4.0, 0.0, 0.0],
        [5.0, 0.0, 6.0, 0.0]
    ]
}

#[test]
fn a_write_into_converted_indices_is_not_in_the_next_conversion() -> Result<()> {
    let (dense, right) = (matrix(), tensor![[1.0], [10.0], [100.0], [1000.0]]);
    for from in LAYOUTS {
        for layout in LAYOUTS.into_iter().filter(|&l| l != from) {
            let x = dense.to_sparse_with(to(from))?;
            let made = || x.to_sparse_with(to(layout));
            // Of blocks whole ones are stored, so that there may be zeros.
            let (wanted, stored) = (copies(&indices(&made()?)?)?, values(&made()?)?.copy()?);
            for part in 0..wanted.len() {
                let y = made()?;
                indices(&y)?[part].add_(1)?;
                assert_ne!(indices(&y)?[part], wanted[part], "{layout} of {from}");
                let z = made()?;
                assert_eq!(indices(&z)?, wanted, "{layout} of {from}");
                assert_eq!(values(&z)?, stored, "{layout} of {from}");
                assert_eq!(z.to_dense()?, dense, "{layout} of {from}");
                assert_eq!(sparse::mm(&z, &right)?, dense.matmul(&right)?);
                assert_eq!(sparse::mm(&x, &right)?, dense.matmul(&right)?);
            }
            assert_eq!(x.to_dense()?, dense);
        }
    }
    Ok(())
}

#[test]
fn a_write_into_a_transposed_conversion_is_not_in_the_next_one() -> Result<()> {
    let x = matrix().to_sparse()?;
    // The transpose of a CSR tensor has its index tensors.
    let turned = x.to_sparse_csr()?.t()?;
    turned.row_indices()?.fill_(0)?;
    let y = x.to_sparse_csr()?;
    assert_eq!(y.col_indices()?, tensor![0, 2, 3, 1, 0, 2]);
    assert_eq!(y.to_dense()?, matrix());
    Ok(())
}

#[test]
fn a_write_into_coalesced_indices_is_not_in_the_next_tensor() -> Result<()> {
    let places = || tensor![[1, 0, 1], [0, 2, 0]];
    let v = tensor![1.0, 2.0, 3.0].requires_grad_(true);
    let x = sparse::coo(&places(), &v, [2, 3])?;
    let dense = tensor![[0.0, 0.0, 2.0], [4.0, 0.0, 0.0]];
    let right = tensor![[1.0], [10.0], [100.0]];
    let writes: [fn(&Tensor) -> Result<Tensor>; 3] = [
        |t| t.fill_(0),
        |t| t.add_(1),
        |t| t.copy_(&tensor![[1, 1], [1, 2]]),
    ];
    for write in writes {
        let y = x.coalesce()?;
        write(&y.indices()?)?;
        let z = x.coalesce()?;
        assert!(z.is_coalesced()?);
        assert_eq!(z.indices()?, tensor![[0, 1], [2, 0]]);
        assert_eq!(z.values()?, tensor![2.0, 4.0]);
        assert_eq!(z.to_dense()?, dense);
        assert_eq!(x._indices()?, places());
        assert_eq!(x.to_sparse_csr()?.to_dense()?, dense);
        assert_eq!(sparse::mm(&x, &right)?, dense.matmul(&right)?);
        assert_eq!(sparse::mm(&z, &right)?, dense.matmul(&right)?);
        // The gradient of a copy is that of its element.
        let product = z.values()?.mul(&tensor![10.0, 100.0])?.sum()?;
        let g = grad(
            &[product],
            std::slice::from_ref(&v),
            &[None],
            true,
            false,
            false,
        )?;
        let g = g[0].clone().expect("a gradient");
        assert_eq!(g, tensor![100.0, 10.0, 100.0]);
    }
    // Nothing is made again where nothing was written.
    assert!(x.coalesce()?.indices()?.is_same(&x.coalesce()?.indices()?));
    Ok(())
}

#[test]
fn a_copy_has_its_own_indices_and_values() -> Result<()> {
    let dense = matrix();
    for layout in LAYOUTS {
        let x = dense.to_sparse_with(to(layout))?;
        let (of_x, y) = (indices(&x)?, x.copy()?);
        assert_eq!(indices(&y)?, of_x, "{layout}");
        assert_eq!(y.to_dense()?, dense, "{layout}");
        assert_eq!(y.pattern().map(|p| p.is_coalesced()), Some(true));
        let before = copies(&of_x)?;
        y.values()?.mul_(2.0)?;
        assert_eq!(y.to_dense()?, dense.mul(2.0)?, "{layout}");
        for part in indices(&y)? {
            part.add_(1)?;
        }
        assert_eq!(indices(&x)?, before, "{layout}");
        assert_eq!(x.to_dense()?, dense, "{layout}");
    }
    let x = sparse::coo(&tensor![[1, 0, 1]], &tensor![1.0, 2.0, 3.0], [2])?;
    let y = x.copy()?;
    assert!(!y.is_coalesced()?);
    y._indices()?.zero_()?;
    assert_eq!(x.to_dense()?, tensor![2.0, 4.0]);
    assert_eq!(y.to_dense()?, tensor![6.0, 0.0]);
    Ok(())
}

#[test]
fn gradients_of_one_pattern_add_up() -> Result<()> {
    for layout in LAYOUTS {
        let x = matrix().to_sparse_with(to(layout))?.requires_grad_(true);
        for _ in 0..3 {
            sparse::sum(&x.mul(2.0)?, None)?.backward()?;
        }
        let g = x.grad().expect("a gradient");
        assert_eq!(g.layout(), layout);
        assert_eq!(indices(&g)?, indices(&x)?, "{layout}");
        let sixes = Tensor::full(g.values()?.shape(), 6.0, DType::F32, Device::Cpu)?;
        assert_eq!(g.values()?, sixes, "{layout}");
    }
    Ok(())
}

#[test]
fn products_of_transposed_factors_leave_them() -> Result<()> {
    let (dense, other) = (matrix(), matrix().t()?.contiguous()?);
    let a = dense.to_sparse()?.requires_grad_(true);
    let b = other.to_sparse()?.requires_grad_(true);
    for _ in 0..2 {
        let y = a.matmul(&b)?;
        assert_eq!(y.to_dense()?, dense.matmul(&other)?);
        let g = Tensor::ones([4, 4], DType::F32, Device::Cpu)?;
        let g = grad(
            &[y.to_dense()?],
            &[a.clone(), b.clone()],
            &[Some(g)],
            false,
            false,
            false,
        )?;
        let of = |i: usize| g[i].clone().expect("a gradient").to_dense();
        let ones = dense.matmul(&other)?.ne(0)?.to_dtype(DType::F32)?;
        assert_eq!(of(0)?, ones.matmul(&other.t()?)?);
        assert_eq!(of(1)?, dense.t()?.matmul(&ones)?);
        let y = a.detach().linear(&b.detach(), None)?;
        assert_eq!(y.to_dense()?, dense.matmul(&other.t()?)?);
    }
    assert_eq!(a.detach().to_dense()?, dense);
    assert_eq!(b.detach().to_dense()?, other);
    Ok(())
}

#[test]
fn gradients_of_an_embedding_keep_their_rows() -> Result<()> {
    let w = Tensor::ones([5, 1], DType::F32, Device::Cpu)?.requires_grad_(true);
    let indices = tensor![1i64, 2];
    for batch in [tensor![1i64, 2], tensor![3i64, 4]] {
        indices.copy_(&batch)?;
        w.embedding_with(&indices, EmbeddingOptions::new().sparse(true))?
            .sum()?
            .backward()?;
    }
    let g = w.grad().expect("a gradient").to_dense()?;
    assert_eq!(g, tensor![[0.0], [1.0], [1.0], [1.0], [1.0]]);
    Ok(())
}

#[test]
fn what_is_filled_has_no_history() -> Result<()> {
    for compressed in [false, true] {
        let x = tensor![[1.0, 0.0], [0.0, 1.0]];
        let x = match compressed {
            true => x.to_sparse_csr()?,
            false => x.to_sparse()?,
        };
        let x = x.requires_grad_(true);
        let y = x.mul(2.0)?;
        y.zero_()?;
        let ones = Tensor::ones([2, 2], DType::F32, Device::Cpu)?;
        sparse::mm(&y, &ones)?.sum()?.backward()?;
        let g = x.grad().expect("a gradient").to_dense()?;
        assert_eq!(g, Tensor::zeros([2, 2], DType::F32, Device::Cpu)?);
    }
    Ok(())
}

#[test]
fn a_write_into_a_result_leaves_the_operand() -> Result<()> {
    let x = tensor![[0.0, 1.0], [2.0, 0.0]].to_sparse()?;
    for y in [x.t()?, x.permute([1, 0])?, x.unsqueeze(0)?, x.reshape([4])?] {
        y.mul_(3.0)?;
    }
    assert_eq!(x.to_dense()?, tensor![[0.0, 1.0], [2.0, 0.0]]);
    let all = tensor![1.0].expand([2, 2])?;
    let y = sparse::mask(&all, &x)?;
    y.mul_(2.0)?;
    assert_eq!(y.to_dense()?, tensor![[0.0, 2.0], [2.0, 0.0]]);
    assert_eq!(all.contiguous()?, tensor![[1.0, 1.0], [1.0, 1.0]]);
    sparse::mask(&x, &x)?.mul_(5.0)?;
    assert_eq!(x.to_dense()?, tensor![[0.0, 1.0], [2.0, 0.0]]);
    Ok(())
}

#[test]
fn what_inference_made_serves_training() -> Result<()> {
    let x = tensor![[1.0, 2.0], [0.0, 3.0]].to_sparse()?;
    inference_mode(|| sparse::softmax(&x, 1))?;
    let x = x.detach().requires_grad_(true);
    sparse::sum(&sparse::softmax(&x, 1)?.square()?, None)?.backward()?;
    assert!(x.grad().is_some());
    Ok(())
}

#[test]
fn indices_within_bounds_are_not_in_order() -> Result<()> {
    let p = sparse::Pattern::coo(&[2, 2], &tensor![[1i64, 0], [0, 1]], false)?;
    let values = tensor![1.0, 2.0];
    let x = from_values(&p, &values)?;
    assert_eq!(x.to_dense()?, tensor![[0.0, 2.0], [1.0, 0.0]]);
    let wrong = from_values(&p.with_coalesced(true), &values)?;
    let e = sparse::mm(&wrong, &tensor![[1.0], [10.0]]).expect_err("not in order");
    assert!(e.to_string().contains("is_coalesced"), "{e}");
    Ok(())
}

#[test]
fn numbers_without_dimensions() -> Result<()> {
    let x = Tensor::scalar(5.0, DType::F32, Device::Cpu)?.to_sparse()?;
    let e = x.index_select(0, &tensor![0i64]).expect_err("no dimension");
    assert!(e.to_string().contains("0-dim"), "{e}");
    assert_eq!(x.mean_dim(0, false)?.to_dense()?.item::<f32>()?, 5.0);
    Ok(())
}

#[test]
fn elements_that_are_not_stored_meet_no_infinity() -> Result<()> {
    let a = sparse::coo(
        &tensor![[0i64, 0, 0, 1], [0, 1, 2, 3]],
        &tensor![1.0, 1.0, 1.0, 1.0],
        [2, 4],
    )?;
    let b = sparse::coo(&tensor![[0i64, 3], [0, 0]], &tensor![1.0, 1.0], [4, 4])?;
    let b = b.requires_grad_(true);
    let y = sparse::mm(&a, &b)?;
    let g = sparse::coo(
        &tensor![[0i64, 1], [0, 0]],
        &tensor![f32::INFINITY, 1.0],
        [2, 4],
    )?;
    sparse::sum(&y.mul(&g)?, None)?.backward()?;
    let g = b.grad().expect("a gradient").to_dense()?;
    assert_eq!(g.select(0, 3)?.select(0, 0)?.item::<f32>()?, 1.0);
    Ok(())
}
