//! Finding and reading the image files.

use std::path::Path;

use torsh::data::vision::{Mnist, Split};
use torsh::data::{Dataset, TensorDataset, idx};
use torsh::prelude::*;

use super::net::Images;

/// How many of the 10,000 images that come with ToRSh are trained on.
const SHIPPED_TRAIN: usize = 8_000;

/// Images for training and testing, and the pixels of the test images as they were in the file.
pub struct Files {
    /// To train on.
    pub train: Images,
    /// To test on.
    pub test: Images,
    /// uint8 `[n, 28, 28]`.
    pub test_pixels: Tensor,
}

/// The images of a folder with the four files of Fashion-MNIST, or those that come with ToRSh.
pub fn load(dir: Option<&Path>) -> Result<Files> {
    let (train, test) = match dir {
        Some(dir) => (
            Mnist::open(dir, Split::Train)?,
            Mnist::open(dir, Split::Test)?,
        ),
        None => shipped()?,
    };
    for part in [&train, &test] {
        let (images, labels) = (part.images(), part.labels());
        if part.is_empty() || images.dims()[1..] != [28, 28] || labels.max()?.item::<i64>()? > 9 {
            return Err(TorshError::Other(format!(
                "expected images of 28x28 pixels with labels 0 to 9, got {} with labels up to {}",
                images.describe(),
                if part.is_empty() {
                    0
                } else {
                    labels.max()?.item::<i64>()?
                },
            )));
        }
    }
    let (x, y) = train.to_tensors()?;
    let (mean, std) = (x.mean()?, x.std()?);
    let normal = |x: Tensor| x.sub(&mean)?.div(&std);
    let test_pixels = test.images().clone();
    let (test_x, test_y) = test.to_tensors()?;
    Ok(Files {
        train: TensorDataset::new(normal(x)?, y),
        test: TensorDataset::new(normal(test_x)?, test_y),
        test_pixels,
    })
}

fn shipped() -> Result<(Mnist, Mnist)> {
    macro_rules! file {
        ($name:literal) => {
            include_bytes!(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/../../data/fashion-mnist/",
                $name
            ))
        };
    }
    let images = idx::read_bytes(file!("t10k-images-idx3-ubyte.gz"))?;
    let labels = idx::read_bytes(file!("t10k-labels-idx1-ubyte.gz"))?;
    let part = |start: usize, len: usize| -> Result<Mnist> {
        Mnist::from_tensors(images.narrow(0, start, len)?, labels.narrow(0, start, len)?)
    };
    Ok((
        part(0, SHIPPED_TRAIN)?,
        part(SHIPPED_TRAIN, labels.numel() - SHIPPED_TRAIN)?,
    ))
}
