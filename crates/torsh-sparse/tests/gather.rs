//! `gather` with `sparse_grad`: the COO gradient of what was read. The values are PyTorch's.

use torsh_sparse::SparseExt;
use torsh_tensor::{
    DType, Device, GatherOptions, Result, Tensor, TensorLayout, Value, grad, ops, tensor,
};

fn sparse() -> GatherOptions {
    GatherOptions::new().sparse_grad(true)
}

/// The gradients of `x` where the elements that are read have the weights 1, 2, 3 and so on: a COO tensor, which stands for
/// the strided one of the same call.
fn gradient(x: &Tensor, dim: i64, index: &Tensor) -> Result<Tensor> {
    let of = |options: GatherOptions| -> Result<Tensor> {
        let x = x.detach().copy()?.requires_grad_(true);
        let y = x.gather_with(dim, index, options)?;
        let weights = Tensor::arange(1, y.numel() + 1, 1, DType::F32, Device::Cpu)?;
        let weights = weights.to_dtype(x.dtype())?.reshape(y.shape())?;
        y.backward_with(weights, false, false)?;
        Ok(x.grad().expect("a gradient"))
    };
    let (g, strided) = (of(sparse())?, of(GatherOptions::new())?);
    assert_eq!(g.layout(), TensorLayout::SparseCoo);
    assert_eq!((g.shape(), g.dtype()), (x.shape(), x.dtype()));
    assert_eq!((g.sparse_dim(), g.dense_dim()), (x.ndim(), 0));
    assert_eq!(strided.layout(), TensorLayout::Strided);
    assert_eq!(g.to_dense()?, strided);
    Ok(g)
}

fn numbers(n: usize, shape: &[usize]) -> Result<Tensor> {
    Tensor::arange(0, n, 1, DType::F32, Device::Cpu)?.reshape(shape)
}

#[test]
fn the_gradient_has_an_element_for_each_one_of_the_index() -> Result<()> {
    let x = numbers(6, &[2, 3])?;
    // An element that is read twice.
    let index = tensor![[0, 0], [2, 1]];
    for dim in [1, -1] {
        let g = gradient(&x, dim, &index)?;
        assert!(!g.is_coalesced()?);
        assert_eq!(g._indices()?, tensor![[0, 0, 1, 1], [0, 0, 2, 1]]);
        assert_eq!(g._values()?, tensor![1.0, 2.0, 3.0, 4.0]);
    }
    let columns = index.t()?.contiguous()?.t()?;
    let g = gradient(&x, 1, &columns)?;
    assert_eq!(g._indices()?, tensor![[0, 0, 1, 1], [0, 0, 2, 1]]);
    let g = gradient(&x, 0, &tensor![[0, 1, 0], [1, 1, 1]])?;
    assert_eq!(
        g._indices()?,
        tensor![[0, 1, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2]]
    );
    // An index that is smaller than the tensor, of int32.
    let index = tensor![[3], [0]].to_dtype(DType::I32)?;
    let g = gradient(&numbers(12, &[3, 4])?, 1, &index)?;
    assert_eq!(g._indices()?, tensor![[0, 1], [3, 0]]);
    let cube = gradient(&numbers(24, &[2, 3, 4])?, -2, &tensor![[[2, 0]], [[1, 1]]])?;
    assert_eq!(
        cube._indices()?,
        tensor![[0, 0, 1, 1], [2, 0, 1, 1], [0, 1, 0, 1]]
    );
    gradient(&x.to_dtype(DType::C64)?, 1, &tensor![[0, 0], [2, 1]])?;
    Ok(())
}

#[test]
fn tensors_without_dimensions_or_elements_have_gradients() -> Result<()> {
    let number = tensor![3.0].reshape(())?;
    for dim in [0, -1] {
        let g = gradient(&number, dim, &tensor![0].reshape(())?)?;
        assert!(g.is_coalesced()?);
        assert_eq!((g._indices()?.dims(), g.nnz()?), (&[0, 1][..], 1));
    }
    let g = gradient(&number, 0, &tensor![0, 0])?;
    assert!(!g.is_coalesced()?);
    assert_eq!((g._indices()?.dims(), g.nnz()?), (&[0, 2][..], 2));
    assert_eq!(g.to_dense()?.item::<f32>()?, 3.0);
    let g = gradient(&tensor![3.0, 4.0], 0, &tensor![1].reshape(())?)?;
    assert!(g.is_coalesced()?);
    assert_eq!(g._indices()?, tensor![[1]]);
    for shape in [&[2, 0][..], &[0]] {
        let index = Tensor::zeros(shape, DType::I64, Device::Cpu)?;
        let g = gradient(&numbers(6, &[2, 3])?, 1, &index)?;
        assert_eq!((g._indices()?.dims(), g.nnz()?), (&[2, 0][..], 0));
    }
    Ok(())
}

#[test]
fn gradients_of_several_calls_are_added_up() -> Result<()> {
    let x = numbers(6, &[2, 3])?.requires_grad_(true);
    let read = |index: Tensor| x.gather_with(1, &index, sparse())?.sum();
    read(tensor![[0, 0], [2, 1]])?
        .add(&read(tensor![[2], [2]])?)?
        .backward()?;
    let g = x.grad().expect("a gradient");
    assert!(g.is_sparse());
    assert_eq!(g.to_dense()?, tensor![[2.0, 0.0, 1.0], [0.0, 1.0, 2.0]]);
    // A strided gradient of another use makes the sum strided.
    x.zero_grad();
    read(tensor![[0], [0]])?.add(&x.sum()?)?.backward()?;
    let g = x.grad().expect("a gradient");
    assert!(!g.is_sparse());
    assert_eq!(g, tensor![[2.0, 1.0, 1.0], [2.0, 1.0, 1.0]]);
    Ok(())
}

#[test]
fn gradients_go_through_and_have_gradients() -> Result<()> {
    let index = tensor![[0, 0], [2, 1]];
    let x = numbers(6, &[2, 3])?
        .to_dtype(DType::F64)?
        .requires_grad_(true);
    let first = |y: &Tensor, create: bool| -> Result<Tensor> {
        let all = grad(&[y.sum()?], &[x.clone()], &[], create, create, false)?;
        Ok(all.into_iter().flatten().next().expect("a gradient"))
    };
    // To what the tensor was made of.
    let squares = x.square()?.gather_with(1, &index, sparse())?;
    let g = first(&squares.square()?, false)?;
    assert!(g.is_sparse());
    let want = Tensor::from_data(&[0.0f64, 0.0, 0.0, 0.0, 256.0, 500.0], [2, 3])?;
    assert_eq!(g.to_dense()?, want);
    // Of second order.
    let y = x.gather_with(1, &index, sparse())?;
    let g = first(&y.pow(3)?, true)?;
    assert!(g.is_sparse() && g.requires_grad());
    let second = first(&g.to_dense()?, false)?;
    let want = Tensor::from_data(&[0.0f64, 0.0, 0.0, 0.0, 24.0, 30.0], [2, 3])?;
    assert_eq!(second.to_dense()?, want);
    Ok(())
}

#[test]
fn calls_by_name_take_the_argument() -> Result<()> {
    let x = numbers(6, &[2, 3])?.requires_grad_(true);
    let args = [Value::from(&x), Value::Int(1), tensor![[0], [2]].into()];
    let y = ops::call("gather", &args, &[("sparse_grad", true.into())])?;
    let y = y.tensors().remove(0);
    assert_eq!(y.detach(), tensor![[0.0], [5.0]]);
    y.sum()?.backward()?;
    let g = x.grad().expect("a gradient");
    assert_eq!(g._indices()?, tensor![[0, 1], [0, 2]]);
    assert_eq!(g._values()?, tensor![1.0, 1.0]);
    Ok(())
}

/// The number of elements is known of tensors without data.
#[test]
fn meta_tensors_have_coo_gradients() -> Result<()> {
    let x = Tensor::zeros([2, 3], DType::F32, Device::Meta)?.requires_grad_(true);
    let index = Tensor::zeros([2, 2], DType::I64, Device::Meta)?;
    x.gather_with(1, &index, sparse())?.sum()?.backward()?;
    let g = x.grad().expect("a gradient");
    assert_eq!(
        (g.layout(), g.dims()),
        (TensorLayout::SparseCoo, &[2, 3][..])
    );
    assert_eq!((g.nnz()?, g.device()), (4, Device::Meta));
    Ok(())
}
