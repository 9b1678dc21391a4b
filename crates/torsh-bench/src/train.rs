//! Whole training steps: zero_grad, forward, cross-entropy, backward, optimizer step.

use torsh_nn::{
    Conv2d, Flatten, Linear, MaxPool2d, Module, ModuleExt, ReLU, Sequential, Tanh, functional as F,
    sequential,
};
use torsh_optim::{Adam, Optimizer};
use torsh_tensor::Result;

use crate::harness::Suite;
use crate::inputs::{randint, randn};

/// A step of Adam on a batch of the given shape with targets below `classes`.
fn train(
    s: &mut Suite<'_>,
    name: &str,
    make: impl FnOnce() -> Result<Sequential>,
    shape: &[usize],
    classes: i64,
) {
    s.bench(
        name,
        || {
            let model = make()?;
            let optimizer = Adam::new(model.parameters(), 1e-3)?;
            let (x, t) = (randn(shape)?, randint(classes, &shape[..1])?);
            Ok(move || {
                optimizer.zero_grad();
                F::cross_entropy(&model.forward(&x)?, &t)?.backward()?;
                optimizer.step()
            })
        },
        0,
        0,
    );
}

/// Registers the workloads of training.
pub fn register(s: &mut Suite<'_>) {
    train(
        s,
        "train_mlp_16_32_32_2_b16_adam",
        || {
            Ok(sequential![
                Linear::new(16, 32),
                Tanh::new(),
                Linear::new(32, 32),
                Tanh::new(),
                Linear::new(32, 2)
            ])
        },
        &[16, 16],
        2,
    );
    train(
        s,
        "train_mlp_784_128_10_b32_adam",
        || {
            Ok(sequential![
                Linear::new(784, 128),
                ReLU::new(),
                Linear::new(128, 10)
            ])
        },
        &[32, 784],
        10,
    );
    train(
        s,
        "train_mlp_784_1024_1024_10_b128_adam",
        || {
            Ok(sequential![
                Linear::new(784, 1024),
                ReLU::new(),
                Linear::new(1024, 1024),
                ReLU::new(),
                Linear::new(1024, 10)
            ])
        },
        &[128, 784],
        10,
    );
    train(
        s,
        "train_cnn_mnist_b64_adam",
        || {
            Ok(sequential![
                Conv2d::new(1, 16, 3, 1, 1)?,
                ReLU::new(),
                MaxPool2d::new(2)?,
                Conv2d::new(16, 32, 3, 1, 1)?,
                ReLU::new(),
                MaxPool2d::new(2)?,
                Flatten::new(),
                Linear::new(32 * 49, 10)
            ])
        },
        &[64, 1, 28, 28],
        10,
    );
}
