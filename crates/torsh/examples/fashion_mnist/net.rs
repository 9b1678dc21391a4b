//! The network, and how it is trained and tested.

use std::f64::consts::PI;

use torsh::data::{DataLoader, Dataset, TensorDataset};
use torsh::prelude::*;

/// Two convolutions with batch norm, and two linear layers with dropout.
#[derive(Module)]
pub struct Net {
    conv1: Conv2d,
    bn1: BatchNorm2d,
    conv2: Conv2d,
    bn2: BatchNorm2d,
    pool: MaxPool2d,
    dropout: Dropout,
    fc1: Linear,
    fc2: Linear,
}

impl Net {
    /// A network with new weights, drawn from the default generator.
    pub fn new() -> Result<Net> {
        Ok(Net {
            conv1: Conv2d::new(1, 16, 3, 1, 1)?,
            bn1: BatchNorm2d::new(16)?,
            conv2: Conv2d::new(16, 32, 3, 1, 1)?,
            bn2: BatchNorm2d::new(32)?,
            pool: MaxPool2d::new(2)?,
            dropout: Dropout::new(0.3)?,
            fc1: Linear::new(32 * 7 * 7, 128),
            fc2: Linear::new(128, 10),
        })
    }
}

impl Module for Net {
    /// Images `[n, 1, 28, 28]` in, one score per class `[n, 10]` out.
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = self
            .pool
            .forward(&F::relu(self.bn1.forward(&self.conv1.forward(x)?)?)?)?;
        let x = self
            .pool
            .forward(&F::relu(self.bn2.forward(&self.conv2.forward(&x)?)?)?)?;
        let x = self.dropout.forward(&x.flatten(1)?)?;
        let x = self.dropout.forward(&F::relu(self.fc1.forward(&x)?)?)?;
        self.fc2.forward(&x)
    }
}

/// Images as the network takes them, with their labels.
pub type Images = TensorDataset<(Tensor, Tensor)>;

/// How to train.
#[derive(Clone, Copy, Debug)]
pub struct Recipe {
    /// How often every image is seen.
    pub epochs: usize,
    /// The highest learning rate.
    pub lr: f64,
    /// Images per step.
    pub batch_size: usize,
    /// Where shuffling starts from.
    pub seed: u64,
}

/// What one epoch gave.
#[derive(Clone, Copy, Debug, Default)]
pub struct Score {
    /// The mean loss.
    pub loss: f64,
    /// The part of the images whose class was right, from 0 to 1.
    pub accuracy: f64,
}

/// The learning rate rises to its highest value over the first part of the run and falls to 0
/// along a cosine after it.
fn learning_rate(highest: f64, done: f64) -> f64 {
    const RISE: f64 = 0.15;
    if done < RISE {
        highest * (done / RISE + 0.05).min(1.0)
    } else {
        highest * 0.5 * (1.0 + (PI * (done - RISE) / (1.0 - RISE)).cos())
    }
}

/// Mirrors each image left to right with probability 1/2: clothes have no handedness.
fn flip_some(x: &Tensor) -> Result<Tensor> {
    let mut coins = vec![0u8; x.dims()[0]];
    torsh::random::fill_bernoulli(torsh::default_generator(), &mut coins, 0.5);
    let coins: Vec<bool> = coins.into_iter().map(|c| c == 1).collect();
    let coins = Tensor::from_vec(coins, [x.dims()[0], 1, 1, 1])?;
    Tensor::where_(&coins, &x.flip(3)?, x)
}

fn count_right(scores: &Tensor, y: &Tensor) -> Result<f64> {
    scores.argmax_dim(1, false)?.eq(y)?.sum()?.item::<f64>()
}

/// Trains with Adam. `on_step` gets the running score of the epoch after each step, `on_epoch`
/// the epoch's when it is over.
pub fn train(
    net: &Net,
    images: &Images,
    recipe: Recipe,
    mut on_step: impl FnMut(usize, Score),
    mut on_epoch: impl FnMut(usize, Score) -> Result<()>,
) -> Result<()> {
    let optimizer = Adam::new(net.parameters(), recipe.lr)?;
    let loader = DataLoader::builder(images.clone())
        .batch_size(recipe.batch_size)
        .shuffle(true)
        .seed(recipe.seed)
        .build()?;
    let steps = (loader.len() * recipe.epochs) as f64;
    for epoch in 0..recipe.epochs {
        net.train();
        let (mut loss_sum, mut right, mut seen) = (0.0, 0.0, 0.0);
        for (step, batch) in loader.try_iter().enumerate() {
            let (x, y) = batch?;
            let n = y.numel() as f64;
            optimizer.set_lr(learning_rate(
                recipe.lr,
                (epoch * loader.len() + step) as f64 / steps,
            ));
            optimizer.zero_grad();
            let scores = net.forward(&flip_some(&x)?)?;
            let loss = F::cross_entropy(&scores, &y)?;
            loss.backward()?;
            optimizer.step()?;
            let value = loss.item::<f64>()?;
            if !value.is_finite() {
                return Err(TorshError::Other(format!(
                    "the loss became {value} in epoch {}: try a smaller --lr",
                    epoch + 1
                )));
            }
            loss_sum += value * n;
            right += count_right(&scores.detach(), &y)?;
            seen += n;
            on_step(
                step,
                Score {
                    loss: loss_sum / seen,
                    accuracy: right / seen,
                },
            );
        }
        on_epoch(
            epoch,
            Score {
                loss: loss_sum / seen,
                accuracy: right / seen,
            },
        )?;
    }
    Ok(())
}

/// The network's scores for all images, `[n, 10]`.
pub fn predict(net: &Net, images: &Images) -> Result<Tensor> {
    net.eval();
    let loader = DataLoader::builder(images.clone())
        .batch_size(500)
        .build()?;
    no_grad(|| {
        let scores: Vec<Tensor> = loader
            .try_iter()
            .map(|batch| net.forward(&batch?.0))
            .collect::<Result<_>>()?;
        Tensor::cat(&scores, 0)
    })
}

/// Loss and accuracy on images that are not trained on.
pub fn test(net: &Net, images: &Images) -> Result<Score> {
    let scores = predict(net, images)?;
    let y = &images.tensors().1;
    no_grad(|| {
        Ok(Score {
            loss: F::cross_entropy(&scores, y)?.item::<f64>()?,
            accuracy: count_right(&scores, y)? / images.len() as f64,
        })
    })
}
