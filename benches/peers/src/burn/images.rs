//! Networks of images.

use burn::module::{Module, Param};
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::pool::{AdaptiveAvgPool2d, AdaptiveAvgPool2dConfig, MaxPool2d, MaxPool2dConfig};
use burn::nn::{
    BatchNorm, BatchNormConfig, Initializer, LayerNorm, LayerNormConfig, Linear, LinearConfig,
    PaddingConfig2d,
};
use burn::tensor::activation::{relu, relu6};
use burn::tensor::{Device, Tensor};

use super::{Block, program};

pub(super) fn stem_pool() -> MaxPool2d {
    let padding = PaddingConfig2d::Explicit(1, 1, 1, 1);
    MaxPool2dConfig::new([3, 3])
        .with_strides([2, 2])
        .with_padding(padding)
        .init()
}

fn conv(i: usize, o: usize, kernel: usize, stride: usize, device: &Device) -> Conv2d {
    let p = kernel / 2;
    Conv2dConfig::new([i, o], [kernel; 2])
        .with_stride([stride; 2])
        .with_padding(PaddingConfig2d::Explicit(p, p, p, p))
        .with_bias(false)
        .init(device)
}

/// Two or three convolutions, added to what comes in.
#[derive(Module, Debug)]
struct Residual {
    convs: Vec<(Conv2d, BatchNorm)>,
    shortcut: Option<(Conv2d, BatchNorm)>,
}

impl Residual {
    /// From `i` channels to `width`, or by way of it to four times as many where the block is a bottleneck.
    fn new(i: usize, width: usize, stride: usize, bottleneck: bool, device: &Device) -> Residual {
        let out = if bottleneck { 4 * width } else { width };
        let layers = match bottleneck {
            true => vec![
                (i, width, 1, 1),
                (width, width, 3, stride),
                (width, out, 1, 1),
            ],
            false => vec![(i, width, 3, stride), (width, width, 3, 1)],
        };
        let pair = |(i, o, kernel, stride)| {
            let norm = BatchNormConfig::new(o).init(device);
            (conv(i, o, kernel, stride, device), norm)
        };
        let shortcut = stride != 1 || i != out;
        Residual {
            convs: layers.into_iter().map(pair).collect(),
            shortcut: shortcut.then(|| pair((i, out, 1, stride))),
        }
    }

    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let mut y = x.clone();
        for (n, (conv, norm)) in self.convs.iter().enumerate() {
            y = norm.forward(conv.forward(y));
            if n + 1 < self.convs.len() {
                y = relu(y);
            }
        }
        relu(match &self.shortcut {
            Some((conv, norm)) => y + norm.forward(conv.forward(x)),
            None => y + x,
        })
    }
}

#[derive(Module, Debug)]
pub(super) struct ResNet {
    stem: Conv2d,
    norm: BatchNorm,
    pool: MaxPool2d,
    blocks: Vec<Residual>,
    mean: AdaptiveAvgPool2d,
    head: Linear,
}

impl ResNet {
    pub(super) fn new(depths: [usize; 4], bottleneck: bool, device: &Device) -> ResNet {
        let (mut blocks, mut i) = (Vec::new(), 64);
        for (stage, depth) in depths.into_iter().enumerate() {
            for n in 0..depth {
                let stride = if stage > 0 && n == 0 { 2 } else { 1 };
                let width = 64 << stage;
                blocks.push(Residual::new(i, width, stride, bottleneck, device));
                i = if bottleneck { 4 * width } else { width };
            }
        }
        ResNet {
            stem: conv(3, 64, 7, 2, device),
            norm: BatchNormConfig::new(64).init(device),
            pool: stem_pool(),
            blocks,
            mean: AdaptiveAvgPool2dConfig::new([1, 1]).init(),
            head: LinearConfig::new(i, 1000).init(device),
        }
    }

    pub(super) fn forward(&self, x: Tensor<4>) -> Tensor<2> {
        let x = self.norm.forward(self.stem.forward(x));
        let x = self.pool.forward(relu(x));
        let x = self.blocks.iter().fold(x, |x, b| b.forward(x));
        self.head.forward(self.mean.forward(x).flatten(1, 3))
    }
}

/// A convolution and its norm. At a stride of two, zeros lie around the input, more of them at the
/// right and below.
#[derive(Module, Debug)]
struct Same {
    conv: Conv2d,
    norm: BatchNorm,
}

impl Same {
    fn new(
        [i, o]: [usize; 2],
        kernel: usize,
        stride: usize,
        groups: usize,
        device: &Device,
    ) -> Same {
        let conv = Conv2dConfig::new([i, o], [kernel; 2])
            .with_stride([stride; 2])
            .with_groups(groups)
            .with_padding(PaddingConfig2d::Same)
            .with_bias(false);
        Same {
            conv: conv.init(device),
            norm: BatchNormConfig::new(o).with_epsilon(1e-3).init(device),
        }
    }

    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        self.norm.forward(self.conv.forward(x))
    }
}

/// Widens, convolves each channel for itself, narrows; added to what comes in where sizes agree.
#[derive(Module, Debug)]
struct Inverted {
    layers: Vec<Same>,
    shortcut: bool,
}

impl Inverted {
    fn new(
        [i, o]: [usize; 2],
        factor: usize,
        kernel: usize,
        stride: usize,
        device: &Device,
    ) -> Inverted {
        let wide = i * factor;
        let mut layers = Vec::new();
        if factor > 1 {
            layers.push(Same::new([i, wide], 1, 1, 1, device));
        }
        layers.push(Same::new([wide; 2], kernel, stride, wide, device));
        layers.push(Same::new([wide, o], 1, 1, 1, device));
        let shortcut = stride == 1 && i == o;
        Inverted { layers, shortcut }
    }

    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let mut y = x.clone();
        for (n, layer) in self.layers.iter().enumerate() {
            y = layer.forward(y);
            if n + 1 < self.layers.len() {
                y = relu6(y);
            }
        }
        if self.shortcut { y + x } else { y }
    }
}

#[derive(Module, Debug)]
pub(super) struct EfficientNet {
    stem: Same,
    blocks: Vec<Inverted>,
    last: Same,
    mean: AdaptiveAvgPool2d,
    head: Linear,
}

impl EfficientNet {
    pub(super) fn new(device: &Device) -> EfficientNet {
        let (mut blocks, mut i) = (Vec::new(), 32);
        for [factor, o, depth, kernel, stride] in program::LITE0 {
            for n in 0..depth {
                let stride = if n == 0 { stride } else { 1 };
                blocks.push(Inverted::new([i, o], factor, kernel, stride, device));
                i = o;
            }
        }
        EfficientNet {
            stem: Same::new([3, 32], 3, 2, 1, device),
            blocks,
            last: Same::new([i, 1280], 1, 1, 1, device),
            mean: AdaptiveAvgPool2dConfig::new([1, 1]).init(),
            head: LinearConfig::new(1280, 1000).init(device),
        }
    }

    pub(super) fn forward(&self, x: Tensor<4>) -> Tensor<2> {
        let x = relu6(self.stem.forward(x));
        let x = self.blocks.iter().fold(x, |x, b| b.forward(x));
        let x = self.mean.forward(relu6(self.last.forward(x)));
        self.head.forward(x.flatten(1, 3))
    }
}

/// ViT-B/16.
#[derive(Module, Debug)]
pub(super) struct Vit {
    patches: Conv2d,
    class: Param<Tensor<3>>,
    places: Param<Tensor<3>>,
    blocks: Vec<Block>,
    norm: LayerNorm,
    head: Linear,
}

impl Vit {
    pub(super) fn new(device: &Device) -> Vit {
        let (mean, std) = (0.0, 1.0);
        let normal = Initializer::Normal { mean, std };
        Vit {
            patches: Conv2dConfig::new([3, 768], [16; 2])
                .with_stride([16; 2])
                .init(device),
            class: normal.init([1, 1, 768], device),
            places: normal.init([1, 197, 768], device),
            blocks: (0..12).map(|_| Block::new(768, device)).collect(),
            norm: LayerNormConfig::new(768).init(device),
            head: LinearConfig::new(768, 1000).init(device),
        }
    }

    pub(super) fn forward(&self, x: Tensor<4>) -> Tensor<2> {
        let x: Tensor<3> = self.patches.forward(x).flatten(2, 3);
        let class = self.class.val().repeat_dim(0, x.dims()[0]);
        let x = Tensor::cat(vec![class, x.swap_dims(1, 2)], 1) + self.places.val();
        let x = self.blocks.iter().fold(x, |x, b| b.forward(x, 12, false));
        let x = self.norm.forward(x).narrow(1, 0, 1);
        self.head.forward(x.flatten(1, 2))
    }
}
