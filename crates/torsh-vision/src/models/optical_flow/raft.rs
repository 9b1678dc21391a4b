//! RAFT.

use torsh_functional::{self as F, AvgPoolOptions, GridSampleOptions, InterpolateOptions, UnfoldOptions};
use torsh_nn::{Conv2d, Hooks, Identity, InterpolateMode, Module, ReLU, Sequential, init};
use torsh_tensor::{DType, Device, Result, Tensor, TorshError, cat};

use crate::models::blocks::Conv2dNormActivation;

/// The pyramid of correlations of all pixels of one feature map with all of another, the second map halved from level
/// to level.
struct Pyramid {
    levels: Vec<Tensor>,
    radius: usize,
}

impl Pyramid {
    /// The levels for maps `[N, C, H, W]`, each `[N * H * W, 1, H / 2^level, W / 2^level]`.
    fn new(map1: &Tensor, map2: &Tensor, levels: usize, radius: usize) -> Result<Pyramid> {
        let &[n, c, h, w] = map1.dims() else {
            return Err(TorshError::shape("RAFT", format!("feature maps are [N, C, H, W], got {}", map1.describe())));
        };
        let least = 1 << levels;
        if h < least || w < least {
            return Err(TorshError::shape(
                "RAFT",
                format!(
                    "the images are too small for {levels} levels of correlations: their height and width are at least {}, got {} x {}",
                    8 * least,
                    8 * h,
                    8 * w
                ),
            )
            .with_hint("resize the images"));
        }
        let (map1, map2) = (map1.reshape([n, c, h * w])?, map2.reshape([n, c, h * w])?);
        let products = map1.transpose(1, 2)?.matmul(&map2)?;
        let mut level = products
            .reshape([n * h * w, 1, h, w])?
            .div((c as f64).sqrt())?;
        let mut all = vec![level.clone()];
        for _ in 1..levels {
            level = F::avg_pool2d_with(&level, 2, AvgPoolOptions::new().stride(2))?;
            all.push(level.clone());
        }
        Ok(Pyramid {
            levels: all,
            radius,
        })
    }

    /// The correlations of each pixel around where it goes to, `coords: [N, 2, H, W]` (x, y): `[N, levels * (2 *
    /// radius + 1)^2, H, W]`.
    fn around(&self, coords: &Tensor) -> Result<Tensor> {
        let (n, h, w) = (coords.dims()[0], coords.dims()[2], coords.dims()[3]);
        let (side, r) = (2 * self.radius + 1, self.radius as i64);
        // As the paper's code has it, the first offset, which changes slowest, is added to x.
        let offsets: Vec<f32> = (-r..=r)
            .flat_map(|i| (-r..=r).flat_map(move |j| [i as f32, j as f32]))
            .collect();
        let offsets = Tensor::from_slice(&offsets, [1, side, side, 2], coords.dtype(), coords.device())?;
        let mut centres = coords
            .permute([0, 2, 3, 1])?
            .reshape([n * h * w, 1, 1, 2])?;
        let mut found = Vec::with_capacity(self.levels.len());
        for level in &self.levels {
            let at = grid_sample(level, &centres.add(&offsets)?)?;
            found.push(at.reshape([n, h, w, side * side])?);
            centres = centres.div(2.0)?;
        }
        cat(&found, -1)?.permute([0, 3, 1, 2])?.contiguous()
    }
}

/// Bilinear samples of images at `[N, H, W, 2]` places (x, y) in pixels.
fn grid_sample(images: &Tensor, places: &Tensor) -> Result<Tensor> {
    let (h, w) = (images.dims()[2], images.dims()[3]);
    let (x, y) = (places.narrow(-1, 0, 1)?, places.narrow(-1, 1, 1)?);
    let x = x.mul(2.0)?.div((w as f64) - 1.0)?.sub(1.0)?;
    let y = match h > 1 {
        true => y.mul(2.0)?.div((h as f64) - 1.0)?.sub(1.0)?,
        false => y,
    };
    F::grid_sample_with(images, &cat(&[x, y], -1)?, GridSampleOptions::new().align_corners(true))
}

/// The places of all pixels, `[N, 2, H, W]` (x, y).
fn coords_grid(n: usize, h: usize, w: usize, dtype: DType, device: Device) -> Result<Tensor> {
    let x = (0..h).flat_map(|_| (0..w).map(|x| x as f32));
    let y = (0..h).flat_map(|y| (0..w).map(move |_| y as f32));
    let both: Vec<f32> = x.chain(y).collect();
    let grid = Tensor::from_slice(&both, [1, 2, h, w], dtype, device)?;
    grid.expand([n, 2, h, w])
}

/// A flow eight times as large: interpolated, or each pixel the sum of its neighbours' weighted by the softmax of
/// `mask: [N, 9 * 64, H, W]`.
fn upsample_flow(flow: &Tensor, mask: Option<&Tensor>) -> Result<Tensor> {
    const FACTOR: usize = 8;
    let (n, c, h, w) = (flow.dims()[0], flow.dims()[1], flow.dims()[2], flow.dims()[3]);
    let larger = [h * FACTOR, w * FACTOR];
    let flow = flow.mul(FACTOR as f64)?;
    let Some(mask) = mask else {
        let options = InterpolateOptions::new()
            .size(larger)
            .mode(InterpolateMode::Bilinear)
            .align_corners(true);
        return F::interpolate_with(&flow, options);
    };
    let weights = mask
        .reshape([n, 1, 9, FACTOR, FACTOR, h, w])?
        .softmax(2)?;
    let neighbours = F::unfold_with(&flow, 3, UnfoldOptions::new().padding(1))?
        .reshape([n, c, 9, 1, 1, h, w])?;
    weights
        .mul(&neighbours)?
        .sum_dim(2, false)?
        .permute([0, 1, 4, 2, 5, 3])?
        .reshape([n, c, larger[0], larger[1]])
}

/// Two convolutions and a shortcut.
#[derive(Module)]
struct ResidualBlock {
    convnormrelu1: Conv2dNormActivation,
    convnormrelu2: Conv2dNormActivation,
    downsample: Box<dyn Module>,
    relu: ReLU,
    hooks: Hooks,
}

/// Three convolutions and a shortcut.
#[derive(Module)]
struct BottleneckBlock {
    convnormrelu1: Conv2dNormActivation,
    convnormrelu2: Conv2dNormActivation,
    convnormrelu3: Conv2dNormActivation,
    relu: ReLU,
    downsample: Box<dyn Module>,
    hooks: Hooks,
}

/// Features of an image, at an eighth of its size.
#[derive(Module)]
struct FeatureEncoder {
    convnormrelu: Conv2dNormActivation,
    layer1: Sequential,
    layer2: Sequential,
    layer3: Sequential,
    conv: Conv2d,
    hooks: Hooks,
}

impl Module for ResidualBlock {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let y = self.convnormrelu2.forward(&self.convnormrelu1.forward(x)?)?;
            self.relu.forward(&self.downsample.forward(x)?.add(&y)?)
        })
    }
}

impl Module for BottleneckBlock {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let y = self.convnormrelu2.forward(&self.convnormrelu1.forward(x)?)?;
            let y = self.convnormrelu3.forward(&y)?;
            self.relu.forward(&self.downsample.forward(x)?.add(&y)?)
        })
    }
}

impl Module for FeatureEncoder {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let x = self.convnormrelu.forward(x)?;
            let x = self.layer1.forward(&x)?;
            let x = self.layer2.forward(&x)?;
            let x = self.layer3.forward(&x)?;
            self.conv.forward(&x)
        })
    }
}
