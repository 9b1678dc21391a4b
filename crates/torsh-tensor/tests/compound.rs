//! Ops that are made of other ops.

use torsh_tensor::{DType, Device, Result, Tensor, tensor};

#[test]
fn blocks_of_every_rank() -> Result<()> {
    let y = Tensor::block_diag(&[tensor![1, 2], tensor![3].select(0, 0)?, tensor![[4.5]]])?;
    assert_eq!(
        y,
        tensor![
            [1.0, 2.0, 0.0, 0.0],
            [0.0, 0.0, 3.0, 0.0],
            [0.0, 0.0, 0.0, 4.5]
        ]
    );
    assert_eq!(Tensor::block_diag(&[])?.dims(), [1, 0]);
    let cube = Tensor::zeros([1, 1, 1], DType::F32, Device::Cpu)?;
    let e = Tensor::block_diag(&[cube]).unwrap_err().to_string();
    assert!(e.contains("Input 0 has 3 dimensions"), "{e}");
    Ok(())
}

#[test]
fn kronecker_products_of_other_ranks() -> Result<()> {
    let y = tensor![[1, 2], [3, 4]].kron(&tensor![1, 10])?;
    assert_eq!(y, tensor![[1, 10, 2, 20], [3, 30, 4, 40]]);
    let none = Tensor::zeros([0, 2], DType::F32, Device::Cpu)?;
    assert_eq!(none.kron(&tensor![[1.0], [2.0]])?.dims(), [0, 2]);
    Ok(())
}

#[test]
fn groups_along_each_dimension() -> Result<()> {
    let a = tensor![[1.0, 2.0], [3.0, 4.0]];
    let b = tensor![[1.0, 10.0], [100.0, 1000.0]];
    let inner = a.grouped_mm(&b, Some(&tensor![1, 2]))?;
    assert_eq!(inner.select(0, 0)?, tensor![[1.0, 10.0], [3.0, 30.0]]);
    assert_eq!(
        inner.select(0, 1)?,
        tensor![[200.0, 2000.0], [400.0, 4000.0]]
    );
    let batch = Tensor::stack(&[a.clone(), a.clone()], 0)?;
    let columns = batch.grouped_mm(&b, Some(&tensor![1, 1]))?;
    assert_eq!(columns, tensor![[201.0, 0.0], [403.0, 0.0]]);
    assert_eq!(batch.grouped_mm(&batch, None)?, batch.bmm(&batch)?);
    for offs in [tensor![2, 1], tensor![1, 3], tensor![-1, 2]] {
        let e = a.grouped_mm(&b, Some(&offs)).unwrap_err().to_string();
        assert!(e.contains("offs must ascend from 0 to at most 2"), "{e}");
    }
    Ok(())
}

#[test]
fn renorm_refuses() -> Result<()> {
    let x = tensor![[3.0, 4.0]];
    assert!(x.renorm(0.0, 0, 1.0).is_err());
    assert!(x.renorm(2.0, 0, -1.0).is_err());
    assert!(x.renorm(2.0, 0, f64::NAN).is_err());
    assert_eq!(x.renorm(f64::INFINITY, 0, 8.0)?, x);
    Ok(())
}
