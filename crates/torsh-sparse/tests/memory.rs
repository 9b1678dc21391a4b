//! Results with memory of their own, and facts of indices that outlive no write.

use torsh_sparse as sparse;
use torsh_sparse::SparseExt;
use torsh_tensor::{
    DType, Device, EmbeddingOptions, Result, Tensor, inference_mode, sparse::from_values, tensor,
};

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
