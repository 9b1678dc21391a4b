//! Averaged models and the statistics of their batch norms.

use torsh_nn::{BatchNorm1d, LazyLinear, Linear, Module, ModuleExt};
use torsh_optim::{AveragedModel, Optimizer, SGD, get_ema_avg_fn, update_bn};
use torsh_tensor::{Result, Tensor, no_grad};

#[derive(Module)]
struct Net {
    fc: Linear,
    bn: BatchNorm1d,
}

impl Net {
    fn new() -> Result<Net> {
        Ok(Net {
            fc: Linear::new(1, 1),
            bn: BatchNorm1d::new(1)?,
        })
    }
}

impl Module for Net {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.bn.forward(&self.fc.forward(x)?)
    }
}

fn set(net: &Net, value: f64) -> Result<()> {
    no_grad(|| {
        net.parameters()
            .iter()
            .try_for_each(|p| p.fill_(value).map(|_| ()))?;
        net.bn
            .running_mean
            .as_ref()
            .expect("statistics")
            .fill_(10.0 * value)?;
        Ok(())
    })
}

#[test]
fn weights_are_averaged_and_buffers_followed() -> Result<()> {
    let model = Net::new()?;
    let mean = AveragedModel::new(Net::new()?, &model)?;
    let ema = AveragedModel::new(Net::new()?, &model)?
        .avg_fn(get_ema_avg_fn(0.5)?)
        .use_buffers(true);
    assert!(*mean.module.fc.weight.tensor() == *model.fc.weight.tensor());
    for value in [1.0, 3.0, 8.0] {
        set(&model, value)?;
        mean.update_parameters(&model)?;
        ema.update_parameters(&model)?;
    }
    assert_eq!(mean.n_averaged.item::<i64>()?, 3);
    assert!((mean.module.fc.weight.item::<f32>()? - 4.0).abs() < 1e-6);
    assert_eq!(
        ema.module
            .bn
            .weight
            .as_ref()
            .expect("affine")
            .item::<f32>()?,
        5.0
    );
    let statistic = |m: &AveragedModel<Net>| {
        m.module
            .bn
            .running_mean
            .as_ref()
            .map(|b| b.item::<f32>())
            .transpose()
    };
    assert_eq!(statistic(&mean)?, Some(80.0));
    assert_eq!(statistic(&ema)?, Some(50.0));
    // Training goes on with the model, and the average is no part of it.
    assert_eq!(model.fc.weight.item::<f32>()?, 8.0);
    let names: Vec<String> = mean.state_dict().into_iter().map(|(n, _)| n).collect();
    assert!(
        names.iter().any(|n| n == "module.fc.weight") && names.iter().any(|n| n == "n_averaged"),
        "{names:?}"
    );
    Ok(())
}

#[test]
fn batch_norms_get_the_statistics_of_all_batches() -> Result<()> {
    let model = Net::new()?;
    no_grad(|| {
        model.fc.weight.fill_(2.0)?;
        model.fc.bias.as_ref().expect("a bias").fill_(1.0)
    })?;
    model.eval();
    let batches = [[0.0f32, 2.0], [4.0, 8.0], [1.0, 1.0]].map(|b| Tensor::from_data(&b, [2, 1]));
    update_bn(batches, &model)?;
    // The means are 3, 13 and 3, the variances 8, 32 and 0.
    let of = |b: &Option<torsh_nn::Buffer>| b.as_ref().expect("statistics").item::<f32>();
    assert!((of(&model.bn.running_mean)? - 19.0 / 3.0).abs() < 1e-5);
    assert!((of(&model.bn.running_var)? - 40.0 / 3.0).abs() < 1e-5);
    assert_eq!(of(&model.bn.num_batches_tracked)?, 3.0);
    assert!(!model.is_training() && !model.bn.is_training());
    assert_eq!(model.bn.momentum.get(), Some(0.1));
    Ok(())
}

#[test]
fn lazy_parameters_are_trained_once_they_are_there() -> Result<()> {
    let model = LazyLinear::new(1)?;
    let e = SGD::new(model.parameters(), 0.5).map(|_| ());
    let e = e.expect_err("not initialised").to_string();
    assert!(e.contains("lazy layer is not initialised"), "{e}");
    let x = Tensor::from_data(&[1.0f32, 2.0], &[1, 2])?;
    model.forward(&x)?;
    let weight = model.layer().expect("initialised").weight.copy()?;
    let optimizer = SGD::new(model.parameters(), 0.5)?;
    model.forward(&x)?.sum()?.backward()?;
    optimizer.step()?;
    let moved = weight.sub(model.layer().expect("initialised").weight.tensor())?;
    for (moved, x) in moved.to_vec::<f32>()?.iter().zip([0.5, 1.0]) {
        assert!((moved - x).abs() < 1e-6);
    }
    Ok(())
}

#[test]
fn models_that_do_not_fit_are_errors() -> Result<()> {
    let model = Linear::new(2, 1);
    let e = AveragedModel::new(Linear::new(3, 1), &model)
        .map(|_| ())
        .expect_err("another shape");
    assert!(e.to_string().contains("another instance"), "{e}");
    assert!(get_ema_avg_fn(1.5).is_err());
    Ok(())
}

/// The state dict of an averaged model, in older forms too, and what is said where it meets the model itself.
#[test]
fn state_dicts_of_averages() -> Result<()> {
    let model = Net::new()?;
    let average = AveragedModel::new(Net::new()?, &model)?;
    set(&model, 2.0)?;
    average.update_parameters(&model)?;
    let mut state = average.state_dict();
    assert_eq!(state.keys().next(), Some("n_averaged"));
    state.insert("n_averaged", Tensor::from_data(&[4.0f32], [1])?);
    state.remove("module.bn.num_batches_tracked");
    let other = AveragedModel::new(Net::new()?, &model)?;
    other.load_state_dict(&state)?;
    assert_eq!(other.n_averaged.item::<i64>()?, 4);
    assert_eq!(other.module.fc.weight.item::<f32>()?, 2.0);
    let hint = |m: &dyn Module, s| -> String {
        let error = m.load_state_dict(s).expect_err("must fail");
        error.info().and_then(|i| i.hint.clone()).expect("a hint")
    };
    let whole = average.state_dict();
    let text = hint(&model, &whole);
    assert!(text.contains("begin with `module.`"), "{text}");
    let text = hint(&average, &model.state_dict());
    assert!(text.contains("is of the module below"), "{text}");
    assert!(!text.contains("strict"), "{text}");
    Ok(())
}
