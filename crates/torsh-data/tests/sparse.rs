//! Batches of sparse samples.

use torsh_data::{Collate, DataLoader, TensorDataset};
use torsh_sparse::SparseExt;
use torsh_tensor::{Device, Result, Tensor, TensorLayout, tensor};

/// Samples of one shape: all but the last store three elements.
fn samples() -> Vec<Tensor> {
    vec![
        tensor![[1.0f32, 0.0, 2.0], [0.0, 3.0, 0.0]],
        tensor![[0.0f32, 4.0, 5.0], [6.0, 0.0, 0.0]],
        tensor![[0.0f32, 0.0, 0.0], [7.0, 8.0, 9.0]],
        tensor![[0.0f32, 0.0, 0.0], [0.0, 0.0, 1.0]],
    ]
}

#[test]
fn sparse_samples_are_stacked_with_workers_too() -> Result<()> {
    let whole = Tensor::stack(&samples(), 0)?;
    for layout in [TensorLayout::SparseCoo, TensorLayout::SparseCsr] {
        let items = samples().into_iter().enumerate().map(|(i, t)| {
            let t = match layout {
                TensorLayout::SparseCoo => t.to_sparse()?,
                _ => t.to_sparse_csr()?,
            };
            Ok((t, i as i64))
        });
        let items = items.collect::<Result<Vec<_>>>()?;
        for workers in [0, 2] {
            let loader = DataLoader::builder(items.clone())
                .batch_size(2)
                .num_workers(workers)
                .device(Device::Cpu)
                .build()?;
            let mut seen = Vec::new();
            for batch in loader.try_iter() {
                let (x, i) = batch?;
                assert_eq!(x.dims(), [2, 2, 3]);
                let first = i.to_vec::<i64>()?[0] as usize;
                assert_eq!(x.layout(), TensorLayout::SparseCoo);
                assert_eq!(x.to_dense()?, whole.narrow(0, first as i64, 2)?);
                seen.push(first);
            }
            assert_eq!(seen, [0, 2]);
        }
    }
    Ok(())
}

#[test]
fn samples_of_other_shapes_are_refused() -> Result<()> {
    let (a, b) = (
        tensor![[1.0, 0.0]].to_sparse()?,
        tensor![[1.0], [0.0]].to_sparse()?,
    );
    let e = Collate::collate(vec![a.clone(), b])
        .map(drop)
        .expect_err("shapes")
        .to_string();
    assert!(e.contains("collate") && e.contains("one shape"), "{e}");
    let dense = tensor![[1.0, 0.0]];
    let e = Collate::collate(vec![a, dense])
        .map(drop)
        .expect_err("layouts")
        .to_string();
    assert!(e.contains("collate"), "{e}");
    Ok(())
}

#[test]
fn a_sparse_tensor_is_a_dataset_of_its_rows() -> Result<()> {
    let x = Tensor::stack(&samples(), 0)?;
    let data = TensorDataset::of((x.to_sparse()?, tensor![0, 1, 2, 3]));
    let loader = DataLoader::builder(data).batch_size(3).build()?;
    let batches = loader.try_iter().collect::<Result<Vec<_>>>()?;
    assert!(batches[0].0.is_sparse());
    assert_eq!(batches[0].0.to_dense()?, x.narrow(0, 0, 3)?);
    assert_eq!(batches[1].0.to_dense()?, x.narrow(0, 3, 1)?);
    Ok(())
}
