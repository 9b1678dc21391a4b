//! A `Linear` whose weight is stored in blocks, against the layer whose weight has zeros in the place of the others.

use torsh_nn::utils::prune;
use torsh_nn::{Linear, Module, ModuleExt, Parameter, StateDict, sequential};
use torsh_sparse::{SparseExt, ToSparseOptions};
use torsh_tensor::sparse::{from_values, values};
use torsh_tensor::{DType, Device, Result, Tensor, TensorLayout, autocast, no_grad};

/// Whole numbers, of which sums are exact in float32.
fn numbers(shape: &[usize], seed: usize) -> Result<Tensor> {
    let n: usize = shape.iter().product();
    let mixed = |i: usize| ((i + 1000 * seed) as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
    let data: Vec<f32> = (0..n).map(|i| (mixed(i) % 9) as f32 - 4.0).collect();
    Tensor::from_data(&data, shape)
}

/// A layer of 24 to 16 features, half of whose blocks of 8 by 8 are pruned.
fn pruned(seed: usize) -> Result<Linear> {
    let layer = Linear::new(24, 16);
    let bias = layer.bias.as_deref().expect("a bias");
    no_grad(|| layer.weight.copy_(&numbers(&[16, 24], seed)?))?;
    no_grad(|| bias.copy_(&numbers(&[16], seed + 1)?))?;
    let layer = prune::block_l1(layer, "weight", 0.5, [8, 8])?;
    prune::remove(layer, "weight")
}

/// The same layer twice: with zeros, and in blocks.
fn both(seed: usize) -> Result<(Linear, Linear)> {
    let (dense, mut blocks) = (pruned(seed)?, Linear::new(24, 16));
    blocks.load_state_dict(&dense.state_dict())?;
    prune::to_bsr(&mut blocks, [8, 8])?;
    Ok((dense, blocks))
}

fn text<T>(r: Result<T>) -> String {
    match r {
        Ok(_) => panic!("not refused"),
        Err(e) => e.to_string(),
    }
}

#[test]
fn a_layer_in_blocks_computes_and_learns_as_with_zeros() -> Result<()> {
    let (dense, blocks) = both(1)?;
    let pattern = blocks.weight.pattern().expect("sparse");
    assert_eq!(blocks.weight.layout(), TensorLayout::SparseBsr);
    assert_eq!((pattern.nnz(), pattern.block()), (3, Some([8, 8])));
    assert_eq!(blocks.weight.to_dense()?, dense.weight.detach());
    let stored = values(&blocks.weight.detach())?;
    let mask = from_values(&pattern, &stored.ones_like()?)?.to_dense()?;
    for shape in [&[5usize, 24][..], &[24], &[2, 3, 24]] {
        dense.zero_grad();
        blocks.zero_grad();
        let x = numbers(shape, 2)?.requires_grad_(true);
        let twin = numbers(shape, 2)?.requires_grad_(true);
        let (y, wanted) = (blocks.forward(&x)?, dense.forward(&twin)?);
        assert_eq!(y, wanted);
        let g = numbers(y.dims(), 3)?;
        y.mul(&g)?.sum()?.backward()?;
        wanted.mul(&g)?.sum()?.backward()?;
        assert_eq!(x.grad(), twin.grad());
        let bias = |layer: &Linear| layer.bias.as_deref().and_then(Tensor::grad);
        assert_eq!(bias(&blocks), bias(&dense));
        let (ours, full) = (
            blocks.weight.grad().expect("a gradient"),
            dense.weight.grad().expect("a gradient"),
        );
        assert!(ours.pattern().expect("sparse").is_same(&pattern));
        assert_eq!(ours.to_dense()?, full.mul(&mask)?);
    }
    Ok(())
}

#[test]
fn autocast_casts_the_layer() -> Result<()> {
    let (dense, blocks) = both(4)?;
    let x = numbers(&[3, 24], 5)?;
    let (y, wanted) = autocast(|| Ok((blocks.forward(&x)?, dense.forward(&x)?)))?;
    assert_eq!(y.dtype(), DType::BF16);
    assert_eq!(y, wanted);
    y.sum()?.backward()?;
    assert_eq!(
        blocks.weight.grad().expect("a gradient").dtype(),
        DType::F32
    );
    Ok(())
}

#[test]
fn state_dicts_and_files_keep_the_blocks() -> Result<()> {
    let (dense, blocks) = both(6)?;
    let x = numbers(&[4, 24], 7)?;
    let wanted = dense.forward(&x)?;
    let path = std::env::temp_dir().join(format!("torsh-blocks-{}.pt", std::process::id()));
    blocks.state_dict().save(&path)?;
    let state = StateDict::load(&path)?;
    std::fs::remove_file(&path)?;
    assert_eq!(state["weight"].layout(), TensorLayout::SparseBsr);
    assert_eq!(state["weight"].values()?, blocks.weight.detach().values()?);
    // Into a layer of other blocks, and in the place of a weight without any.
    let (_, other) = both(8)?;
    let pattern = other.weight.pattern().expect("sparse");
    other.load_state_dict(&state)?;
    assert!(!other.weight.pattern().expect("sparse").is_same(&pattern));
    assert_eq!(other.forward(&x)?, wanted);
    let mut fresh = Linear::new(24, 16);
    let before = fresh.weight.clone();
    fresh.assign_state_dict(&state)?;
    assert!(fresh.weight.requires_grad() && !before.is_current());
    assert_eq!(fresh.forward(&x)?, wanted);
    fresh.forward(&x)?.sum()?.backward()?;
    let gradient = fresh.weight.grad().expect("a gradient");
    assert_eq!(gradient.layout(), TensorLayout::SparseBsr);
    Ok(())
}

#[test]
fn what_does_not_fit_the_layout_is_refused_whole() -> Result<()> {
    let (dense, blocks) = both(9)?;
    let mut state = blocks.state_dict();
    state.insert("bias", numbers(&[16], 20)?);
    let before = dense.state_dict()["bias"].copy()?;
    let e = text(dense.load_state_dict(&state));
    assert!(e.contains("weight has the layout torch.strided"), "{e}");
    assert!(
        e.contains("torch.sparse_bsr") && e.contains("assign_state_dict"),
        "{e}"
    );
    assert_eq!(dense.state_dict()["bias"], before);
    let path = std::env::temp_dir().join("torsh-blocks.safetensors");
    let e = text(blocks.state_dict().save(path));
    assert!(e.contains("weight") && e.contains(".pt"), "{e}");
    let mut layer = Linear::new(24, 16);
    let e = text(prune::to_bsr(&mut layer, [5, 8]));
    assert!(e.contains("to_bsr"), "{e}");
    assert_eq!(layer.weight.layout(), TensorLayout::Strided);
    let mut layer = Linear::builder(24, 16).device(Device::Meta).build()?;
    let e = text(prune::to_bsr(&mut layer, [8, 8]));
    assert!(e.contains("to_bsr") && e.contains("no blocks"), "{e}");
    let e = text(blocks.forward(&numbers(&[2, 23], 1)?));
    assert!(e.contains("24") && e.contains("23"), "{e}");
    Ok(())
}

#[test]
fn a_layer_in_blocks_changes_its_dtype_and_device() -> Result<()> {
    let (mut dense, mut blocks) = both(10)?;
    let x = numbers(&[4, 24], 11)?.to_dtype(DType::F64)?;
    blocks.forward(&numbers(&[4, 24], 11)?)?.sum()?.backward()?;
    dense.to_dtype(DType::F64)?;
    blocks.to_dtype(DType::F64)?;
    assert_eq!(blocks.weight.layout(), TensorLayout::SparseBsr);
    assert_eq!(
        blocks.weight.grad().expect("a gradient").dtype(),
        DType::F64
    );
    assert_eq!(blocks.forward(&x)?, dense.forward(&x)?);
    // A model moves as a whole.
    let mut net = sequential![blocks];
    net.to_device(Device::Meta)?;
    let state = net.state_dict();
    let weight = &state["0.weight"];
    assert_eq!(
        (weight.layout(), weight.device()),
        (TensorLayout::SparseBsr, Device::Meta)
    );
    assert_eq!(net.forward(&x.to_device(Device::Meta)?)?.dims(), [4, 16]);
    Ok(())
}

/// A module whose only parameter is sparse.
#[derive(Module)]
struct Edges {
    weight: Parameter,
}

impl Module for Edges {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.weight.matmul(x)
    }
}

#[test]
fn state_dicts_and_files_keep_every_layout() -> Result<()> {
    for layout in [
        TensorLayout::SparseCoo,
        TensorLayout::SparseCsr,
        TensorLayout::SparseCsc,
        TensorLayout::SparseBsr,
        TensorLayout::SparseBsc,
    ] {
        let make = |seed: usize| -> Result<Edges> {
            let how = ToSparseOptions::new().layout(layout);
            let weight = numbers(&[4, 6], seed)?.to_sparse_with(match layout.is_blocked() {
                true => how.blocksize([2, 3]),
                false => how,
            })?;
            Ok(Edges {
                weight: Parameter::new(weight),
            })
        };
        let (from, to) = (make(1)?, make(2)?);
        let name = format!("torsh-edges-{}-{}.pt", layout.name(), std::process::id());
        let path = std::env::temp_dir().join(name);
        from.state_dict().save(&path)?;
        let state = StateDict::load(&path)?;
        std::fs::remove_file(&path)?;
        assert_eq!(state["weight"].layout(), layout);
        let x = numbers(&[6, 3], 3)?;
        let wanted = from.forward(&x)?;
        assert_ne!(to.forward(&x)?, wanted, "{layout}");
        // The elements of another pattern take the place of those that are there.
        to.load_state_dict(&state)?;
        assert_eq!(to.forward(&x)?, wanted, "{layout}");
        assert!(to.weight.requires_grad());
        let mut fresh = make(4)?;
        fresh.assign_state_dict(&state)?;
        assert_eq!(fresh.forward(&x)?, wanted, "{layout}");
        assert_eq!(fresh.weight.layout(), layout);
    }
    Ok(())
}
