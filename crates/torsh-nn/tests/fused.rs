//! Layers that are computed together give the bits of the layers one after the other, and run one after the other where
//! something has to happen between them.

use std::cell::Cell;
use std::rc::Rc;

use torsh_nn::{
    BatchNorm1d, BatchNorm2d, BatchNorm3d, Conv1d, Conv2d, Conv3d, Identity, Module, ModuleExt,
    PaddingMode, ReLU, ReLU6, SiLU, conv_norm_activation, conv_norm_add_activation, init,
    sequential,
};
use torsh_tensor::{DType, Result, Tensor, autocast, no_grad, observe::observe, randn};

/// The result of `f`, and how many convolutions were computed together with what follows.
fn counted(f: impl FnOnce() -> Result<Tensor>) -> Result<(Tensor, usize)> {
    let count = Rc::new(Cell::new(0));
    let seen = count.clone();
    let together = move |name: &str| usize::from(name == "_convolution_batch_norm");
    let y = observe(move |e| seen.set(seen.get() + together(e.record.name)), f)?;
    Ok((y, count.get()))
}

/// Parameters and statistics that change every element, in evaluation mode.
fn drawn<M: Module>(module: M) -> Result<M> {
    for (name, t) in module.state_dict().iter() {
        if name.ends_with("num_batches_tracked") {
            continue;
        }
        let low = if name.ends_with("running_var") {
            0.5
        } else {
            -1.0
        };
        no_grad(|| init::uniform_(t, low, 2.0))?;
    }
    module.eval();
    Ok(module)
}

fn same(got: &Tensor, want: &Tensor) {
    assert_eq!(got, want);
    assert!(want.ne(0.0).unwrap().any().unwrap().item::<bool>().unwrap());
}

#[test]
fn together_is_as_one_after_the_other() -> Result<()> {
    let x = randn(&[2, 6, 9, 11]);
    let conv = drawn(
        Conv2d::builder(6, 8, 3)
            .padding(1)
            .stride(2)
            .groups(2)
            .build()?,
    )?;
    let norm = drawn(BatchNorm2d::new(8)?)?;
    let y = norm.forward(&conv.forward(&x)?)?.detach();
    let other = randn(&[2, 8, 5, 6]);
    for (activation, want) in [
        (Box::new(ReLU::new()) as Box<dyn Module>, y.relu()?),
        (Box::new(ReLU6::new()), y.clamp(0.0, 6.0)?),
        (Box::new(Identity::new()), y.clone()),
        // Not a clamp.
        (Box::new(SiLU::new()), y.silu()?),
    ] {
        let fused = usize::from(activation.type_name() != "SiLU");
        let (got, n) =
            counted(|| no_grad(|| conv_norm_activation(&conv, &norm, &*activation, &x)))?;
        same(&got, &want);
        assert_eq!(n, fused, "{}", activation.type_name());
        let want = activation.forward(&y.add(&other)?)?.detach();
        let add = || conv_norm_add_activation(&conv, &norm, &*activation, &x, || Ok(other.clone()));
        let (got, n) = counted(|| no_grad(add))?;
        same(&got, &want);
        assert_eq!(n, fused);
    }
    Ok(())
}

#[test]
fn signals_and_volumes_are_as_images() -> Result<()> {
    let model = drawn(sequential![
        Conv1d::new(3, 4, 3, 1, 1)?,
        BatchNorm1d::new(4)?,
        ReLU::new()
    ])?;
    let x = randn(&[2, 3, 17]);
    let (got, n) = counted(|| no_grad(|| model.forward(&x)))?;
    same(&got, &model.forward(&x)?.detach());
    assert_eq!(n, 1);
    let model = drawn(sequential![
        Conv3d::new(3, 4, 3, 1, 1)?,
        BatchNorm3d::new(4)?
    ])?;
    let x = randn(&[2, 3, 4, 5, 6]);
    let (got, n) = counted(|| no_grad(|| model.forward(&x)))?;
    same(&got, &model.forward(&x)?.detach());
    assert_eq!(n, 1);
    Ok(())
}

#[test]
fn what_has_to_happen_between_does() -> Result<()> {
    let x = randn(&[2, 3, 8, 8]);
    let plain = || Conv2d::new(3, 4, 3, 1, 1);
    let run = |conv: Conv2d, x: &Tensor| -> Result<(Tensor, usize)> {
        let model = drawn(sequential![
            conv,
            BatchNorm2d::new(4)?,
            ReLU::new(),
            plain_head()?
        ])?;
        let want = model.forward(x)?.detach();
        let (got, n) = counted(|| no_grad(|| model.forward(x)))?;
        same(&got, &want);
        Ok((got, n))
    };
    assert_eq!(run(plain()?, &x)?.1, 1);
    // Other padding, and a hook that changes the convolution's result.
    let reflect = Conv2d::builder(3, 4, 3)
        .padding(1)
        .padding_mode(PaddingMode::Reflect);
    assert_eq!(run(reflect.build()?, &x)?.1, 0);
    let hooked = plain()?;
    let _hook = hooked.register_forward_hook(|_, _, y| y.mul(10.0).map(Some))?;
    assert_eq!(run(hooked, &x)?.1, 0);
    // One image has no batch: the norm refuses it, as ever.
    let model = drawn(sequential![plain()?, BatchNorm2d::new(4)?])?;
    let alone = no_grad(|| model.forward(&x.select(0, 0)?))
        .unwrap_err()
        .to_string();
    assert!(
        alone.contains("batch_norm") || alone.contains("BatchNorm2d"),
        "{alone}"
    );
    // Training statistics, gradients, autocast and other dtypes.
    let (_, n) = counted(|| model.forward(&x))?;
    assert_eq!(n, 0);
    let (y, n) = counted(|| no_grad(|| autocast(|| model.forward(&x))))?;
    assert_eq!((y.dtype(), n), (DType::BF16, 0));
    model.train();
    let (_, n) = counted(|| no_grad(|| model.forward(&x)))?;
    assert_eq!(n, 0);
    let double = drawn(sequential![
        Conv2d::builder(3, 4, 3).dtype(DType::F64).build()?,
        BatchNorm2d::builder(4).dtype(DType::F64).build()?
    ])?;
    let x = x.to_dtype(DType::F64)?;
    let (y, n) = counted(|| no_grad(|| double.forward(&x)))?;
    same(&y, &double.forward(&x)?.detach());
    assert_eq!(n, 0);
    Ok(())
}

/// A convolution with nothing behind it.
fn plain_head() -> Result<Conv2d> {
    Conv2d::new(4, 2, 1, 1, 0)
}

#[test]
fn errors_are_those_of_the_layers() -> Result<()> {
    let model = drawn(sequential![
        Conv2d::new(3, 4, 3, 1, 0)?,
        BatchNorm2d::new(5)?
    ])?;
    let wrong = no_grad(|| model.forward(&randn(&[1, 2, 8, 8])))
        .unwrap_err()
        .to_string();
    assert!(
        wrong.contains("conv2d") && wrong.contains("channels"),
        "{wrong}"
    );
    let wrong = no_grad(|| model.forward(&randn(&[1, 3, 8, 8])))
        .unwrap_err()
        .to_string();
    assert!(
        wrong.contains("batch_norm") && wrong.contains("4"),
        "{wrong}"
    );
    Ok(())
}
