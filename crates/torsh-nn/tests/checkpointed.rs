//! Modules in an `Arc`, whose layers a checkpoint runs again.

use std::sync::Arc;

use torsh_nn::utils::{self, parametrizations};
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

/// Layers whose weights are computed from others: a checkpoint computes them twice, and trains what they are computed from.
#[test]
fn reparametrized_layers_in_checkpoints() -> Result<()> {
    let linear = || -> Result<Linear> {
        let layer = Linear::new(3, 3);
        let weight = tensor![[0.3, -0.5, 0.2], [0.7, 0.1, -0.4], [-0.2, 0.6, 0.9]];
        no_grad(|| layer.weight.copy_(&weight))?;
        no_grad(|| layer.bias.as_ref().unwrap().fill_(0.05))?;
        Ok(layer)
    };
    let layers: [(&str, &dyn Fn() -> Result<Arc<dyn Module>>); 4] = [
        ("weight_norm", &|| {
            Ok(Arc::new(utils::weight_norm(linear()?, "weight", 0)?))
        }),
        ("spectral_norm", &|| {
            Ok(Arc::new(utils::spectral_norm(linear()?, "weight")?))
        }),
        ("parametrizations.weight_norm", &|| {
            Ok(Arc::new(parametrizations::weight_norm(
                linear()?,
                "weight",
                0,
            )?))
        }),
        ("parametrizations.spectral_norm", &|| {
            Ok(Arc::new(parametrizations::spectral_norm(
                linear()?,
                "weight",
            )?))
        }),
    ];
    let x = tensor![[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]];
    for (name, made) in layers {
        let (plain, ours) = (made()?, made()?);
        ours.load_state_dict(&plain.state_dict())?;
        for training in [false, true] {
            let layer = |m: &Arc<dyn Module>, again: bool| -> Result<(Tensor, Vec<Tensor>)> {
                m.set_training(training);
                m.zero_grad();
                let x = x.copy()?;
                x.set_requires_grad(true)?;
                // A layer in training moves the vectors of its spectral norm at each run, and a checkpoint runs it twice:
                // as in PyTorch the gradient is that of the second run.
                let y = match again {
                    true => {
                        let (m, x) = (m.clone(), x.clone());
                        checkpoint(move || m.forward(&x)?.tanh())?
                    }
                    false => m.forward(&x)?.tanh()?,
                };
                let run = match again {
                    true => y.clone(),
                    false => m.forward(&x)?.tanh()?,
                };
                run.mul(&y.detach())?.sum()?.backward()?;
                let mut grads: Vec<Tensor> =
                    m.parameters().iter().filter_map(|p| p.grad()).collect();
                grads.extend(x.grad());
                Ok((y.detach(), grads))
            };
            let (y, grads) = layer(&plain, false)?;
            let (y2, grads2) = layer(&ours, true)?;
            assert_eq!(y, y2, "{name} {training}");
            assert_eq!(grads.len(), plain.parameters().len() + 1, "{name}");
            assert_eq!(grads.len(), grads2.len(), "{name}");
            for (a, b) in grads.iter().zip(&grads2) {
                let off = a.sub(b)?.abs()?.max()?.item::<f64>()?;
                assert!(off < 1e-6, "{name} {training}: {off:e}");
            }
        }
    }
    Ok(())
}
