//! Steps of a `Linear` whose weight is stored in blocks, against those of the layer with zeros in the place of the others.

use torsh_nn::utils::prune;
use torsh_nn::{Linear, Module, ModuleExt};
use torsh_optim::{Adam, AdamW, Optimizer, SGD};
use torsh_sparse::SparseExt;
use torsh_tensor::sparse::{from_values, values};
use torsh_tensor::{Result, Tensor, no_grad};

/// Whole numbers, of which sums are exact in float32.
fn numbers(shape: &[usize], seed: usize) -> Result<Tensor> {
    let n: usize = shape.iter().product();
    let mixed = |i: usize| ((i + 1000 * seed) as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
    let data: Vec<f32> = (0..n).map(|i| (mixed(i) % 9) as f32 - 4.0).collect();
    Tensor::from_data(&data, shape)
}

/// A layer of 16 features, half of whose blocks of 8 by 8 are pruned: with zeros, and in blocks.
fn layers() -> Result<(Linear, Linear)> {
    let layer = Linear::new(16, 16);
    no_grad(|| layer.weight.copy_(&numbers(&[16, 16], 1)?))?;
    let dense = prune::remove(prune::block_l1(layer, "weight", 0.5, [8, 8])?, "weight")?;
    let mut blocks = Linear::new(16, 16);
    blocks.load_state_dict(&dense.state_dict())?;
    prune::to_bsr(&mut blocks, [8, 8])?;
    Ok((dense, blocks))
}

/// Optimizers of all parameters of a layer.
fn optimizers(layer: &Linear) -> Result<Vec<Box<dyn Optimizer>>> {
    let all = || layer.parameters();
    let list: Vec<Box<dyn Optimizer>> = vec![
        Box::new(SGD::new(all(), 0.25)?),
        Box::new(
            SGD::builder(all())
                .lr(0.25)
                .momentum(0.5)
                .weight_decay(0.125)
                .build()?,
        ),
        Box::new(Adam::new(all(), 0.5)?),
        Box::new(AdamW::builder(all()).lr(0.5).weight_decay(0.25).build()?),
    ];
    Ok(list)
}

#[test]
fn a_step_of_stored_blocks_is_that_of_the_strided_weight() -> Result<()> {
    let count = optimizers(&layers()?.0)?.len();
    for nth in 0..count {
        let (dense, blocks) = layers()?;
        let pattern = blocks.weight.pattern().expect("sparse");
        let stored = values(&blocks.weight.detach())?;
        let mask = from_values(&pattern, &stored.ones_like()?)?.to_dense()?;
        for layer in [&dense, &blocks] {
            let loss = layer
                .forward(&numbers(&[4, 16], 2)?)?
                .mul(&numbers(&[4, 16], 3)?)?;
            loss.sum()?.backward()?;
            optimizers(layer)?[nth].step()?;
        }
        let wanted = dense.weight.detach().mul(&mask)?;
        assert_eq!(
            blocks.weight.to_dense()?.detach(),
            wanted,
            "optimizer {nth}"
        );
        assert_eq!(
            blocks.bias.as_deref().map(Tensor::detach),
            dense.bias.as_deref().map(Tensor::detach)
        );
        assert!(blocks.weight.pattern().expect("sparse").is_same(&pattern));
        // The values were written where they are.
        assert_eq!(stored, values(&blocks.weight.detach())?);
    }
    Ok(())
}

#[test]
fn training_keeps_the_pattern_and_goes_on_from_a_state() -> Result<()> {
    let (_, blocks) = layers()?;
    let (_, target) = layers()?;
    no_grad(|| target.weight.values()?.mul_(0.5))?;
    let pattern = blocks.weight.pattern().expect("sparse");
    let x = numbers(&[32, 16], 4)?.mul(0.25)?;
    let wanted = target.forward(&x)?.detach();
    let loss = || blocks.forward(&x)?.sub(&wanted)?.square()?.mean();
    let first = loss()?.item::<f32>()?;
    let mut adam = Adam::new(blocks.parameters(), 0.05)?;
    for step in 0..100 {
        if step == 50 {
            let state = adam.state_dict();
            adam = Adam::new(blocks.parameters(), 1.0)?;
            adam.load_state_dict(&state)?;
        }
        adam.zero_grad();
        loss()?.backward()?;
        adam.step()?;
    }
    let last = loss()?.item::<f32>()?;
    assert!(last < 0.05 * first, "{first} to {last}");
    assert!(blocks.weight.pattern().expect("sparse").is_same(&pattern));
    Ok(())
}

#[test]
fn an_optimizer_of_the_strided_weight_refuses_the_layer_in_blocks() -> Result<()> {
    let (mut dense, _) = layers()?;
    let sgd = SGD::new(dense.parameters(), 0.1)?;
    prune::to_bsr(&mut dense, [8, 8])?;
    assert!(sgd.step().is_err());
    Ok(())
}
