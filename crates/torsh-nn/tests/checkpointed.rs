//! Modules in an `Arc`, whose layers a checkpoint runs again.

use std::sync::Arc;

use torsh_nn::{Linear, Module, ModuleExt, StateDict, Tanh, sequential};
use torsh_tensor::{
    DType, Result, Tensor, autocast, checkpoint, checkpoint_sequential, no_grad, tensor,
};

#[derive(Module)]
struct Deep {
    layers: Vec<Arc<dyn Module>>,
    #[module(skip)]
    every: Option<usize>,
}

impl Deep {
    fn new(every: Option<usize>) -> Deep {
        let layer = |i: usize| -> Arc<dyn Module> {
            let linear = Linear::new(3, 3);
            no_grad(|| {
                linear.weight.fill_(0.1 * (i + 1) as f64)?;
                linear.weight.i((0, 1))?.fill_(-0.5)
            })
            .unwrap();
            no_grad(|| linear.bias.as_ref().unwrap().fill_(0.05)).unwrap();
            Arc::new(sequential![linear, Tanh::new()])
        };
        Deep {
            layers: (0..6).map(layer).collect(),
            every,
        }
    }

    fn grads(&self) -> Vec<Vec<f32>> {
        let of = |p: torsh_nn::Parameter| p.grad().unwrap().to_vec::<f32>().unwrap();
        self.parameters().into_iter().map(of).collect()
    }
}

impl Module for Deep {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let mut x = x.clone();
        for (i, layer) in self.layers.iter().enumerate() {
            x = match self.every {
                Some(n) if i % n == 0 => {
                    let layer = layer.clone();
                    checkpoint(move || layer.forward(&x))?
                }
                _ => layer.forward(&x)?,
            };
        }
        Ok(x)
    }
}

#[test]
fn gradients_are_those_without_checkpoints() -> Result<()> {
    let x = tensor![[0.5, -1.0, 2.0]];
    let plain = Deep::new(None);
    let names: Vec<String> = plain
        .named_parameters()
        .into_iter()
        .map(|(n, _)| n)
        .collect();
    assert_eq!(names[..2], ["layers.0.0.weight", "layers.0.0.bias"]);
    let y = plain.forward(&x)?;
    y.sum()?.backward()?;
    for every in [1, 2, 5] {
        let model = Deep::new(Some(every));
        assert_eq!(model.forward(&x)?, y);
        model.forward(&x)?.sum()?.backward()?;
        assert_eq!(model.grads(), plain.grads());
    }
    // As segments.
    plain.zero_grad();
    let layers = plain
        .layers
        .iter()
        .cloned()
        .map(|l| move |x: &Tensor| l.forward(x));
    let y2 = checkpoint_sequential(layers, 3, &x)?;
    assert_eq!(y2, y);
    y2.sum()?.backward()?;
    let again = Deep::new(None);
    again.forward(&x)?.sum()?.backward()?;
    assert_eq!(plain.grads(), again.grads());
    Ok(())
}

#[test]
fn in_an_autocast_region() -> Result<()> {
    let x = tensor![[0.5, -1.0, 2.0]];
    let (plain, model) = (Deep::new(None), Deep::new(Some(2)));
    for m in [&plain, &model] {
        let loss = autocast(|| m.forward(&x)?.mse_loss(&tensor![[0.0, 0.5, 1.0]]))?;
        loss.backward()?;
        assert_eq!(
            m.parameters()[0].grad().map(|g| g.dtype()),
            Some(DType::F32)
        );
    }
    assert_eq!(model.grads(), plain.grads());
    Ok(())
}

#[test]
fn fields_are_exchanged_only_by_a_single_owner() -> Result<()> {
    let x = tensor![[0.5, -1.0, 2.0]];
    let mut model = Deep::new(Some(1));
    let loss = model.forward(&x)?.sum()?;
    let before = model.parameters()[0].clone();
    for e in [
        model.to_dtype(DType::F64).unwrap_err(),
        model.functional_call(&StateDict::new(), &x).unwrap_err(),
    ] {
        let text = e.to_string();
        assert!(
            text.contains("`layers.0.0.weight` cannot be exchanged"),
            "{text}"
        );
    }
    assert!(model.parameters()[0].is_same(&before));
    drop(loss);
    model.to_dtype(DType::F64)?;
    assert_eq!(model.parameters()[0].dtype(), DType::F64);
    let y = model.forward(&x.to_dtype(DType::F64)?)?;
    assert_eq!(y.dtype(), DType::F64);
    Ok(())
}
