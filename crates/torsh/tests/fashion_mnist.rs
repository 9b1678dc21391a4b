//! The network of the example `fashion_mnist` learns.

#[path = "../examples/fashion_mnist/files.rs"]
#[allow(dead_code)]
mod files;
#[path = "../examples/fashion_mnist/net.rs"]
#[allow(dead_code)]
mod net;

use torsh::data::{Dataset, TensorDataset};
use torsh::prelude::*;
use torsh_core::random::LocalGenerator;

#[test]
fn one_epoch_on_512_images_reduces_the_loss() -> Result<()> {
    let _own = LocalGenerator::new(0).enter();
    let files = files::load(None)?;
    assert_eq!((files.train.len(), files.test.len()), (8000, 2000));
    let (x, y) = files.train.tensors();
    assert!(x.mean()?.item::<f64>()?.abs() < 1e-3 && (x.std()?.item::<f64>()? - 1.0).abs() < 1e-3);
    assert_eq!(
        y.narrow(0, 0, 8)?.to_vec::<i64>()?,
        [9, 2, 1, 1, 6, 1, 4, 6]
    );
    let few = TensorDataset::new(x.narrow(0, 0, 512)?, y.narrow(0, 0, 512)?);
    let net = net::Net::new()?;
    let before = net::test(&net, &few)?;
    // Ten classes and no knowledge: about ln 10.
    assert!((before.loss - 10f64.ln()).abs() < 0.2, "{before:?}");
    let recipe = net::Recipe {
        epochs: 1,
        lr: 4e-3,
        batch_size: 32,
        seed: 0,
    };
    let mut steps = 0;
    let mut epoch = None;
    net::train(
        &net,
        &few,
        recipe,
        |_, _| steps += 1,
        |_, score| {
            epoch = Some(score);
            Ok(())
        },
    )?;
    let after = net::test(&net, &few)?;
    assert_eq!(steps, 16);
    assert!(epoch.is_some_and(|e| e.loss < before.loss), "{epoch:?}");
    assert!(
        after.loss < 0.6 * before.loss && after.accuracy > 0.6,
        "{before:?}, then {after:?}"
    );
    Ok(())
}

#[test]
fn the_same_seed_gives_the_same_network() -> Result<()> {
    let _own = LocalGenerator::new(0).enter();
    let run = || -> Result<Vec<f32>> {
        manual_seed(3);
        let files = files::load(None)?;
        let (x, y) = files.train.tensors();
        let few = TensorDataset::new(x.narrow(0, 0, 48)?, y.narrow(0, 0, 48)?);
        let net = net::Net::new()?;
        let recipe = net::Recipe {
            epochs: 2,
            lr: 1e-3,
            batch_size: 16,
            seed: 5,
        };
        net::train(&net, &few, recipe, |_, _| {}, |_, _| Ok(()))?;
        net.named_parameters()
            .last()
            .expect("parameters")
            .1
            .to_vec::<f32>()
    };
    assert_eq!(run()?, run()?);
    Ok(())
}
