//! Networks of images.

use candle_core::{Result, Tensor};
use candle_nn::{
    Activation, BatchNorm, Conv2d, Conv2dConfig, Init, LayerNorm, Linear, Module, ModuleT,
    VarBuilder, batch_norm, conv2d, conv2d_no_bias, layer_norm, linear,
};

use super::{Block, program};

/// Two or three convolutions, added to what comes in.
struct Residual {
    convs: Vec<(Conv2d, BatchNorm)>,
    shortcut: Option<(Conv2d, BatchNorm)>,
}

fn conv(
    i: usize,
    o: usize,
    kernel: usize,
    stride: usize,
    vb: VarBuilder<'static>,
) -> Result<Conv2d> {
    let padding = kernel / 2;
    let config = Conv2dConfig {
        stride,
        padding,
        ..Default::default()
    };
    conv2d_no_bias(i, o, kernel, config, vb)
}

impl Residual {
    /// From `i` channels to `width`, or by way of it to four times as many where the block is a bottleneck.
    fn new(
        i: usize,
        width: usize,
        stride: usize,
        bottleneck: bool,
        vb: VarBuilder<'static>,
    ) -> Result<Residual> {
        let out = if bottleneck { 4 * width } else { width };
        let layers = match bottleneck {
            true => vec![
                (i, width, 1, 1),
                (width, width, 3, stride),
                (width, out, 1, 1),
            ],
            false => vec![(i, width, 3, stride), (width, width, 3, 1)],
        };
        let pair = |(i, o, kernel, stride), name: String| {
            let vb = vb.pp(name);
            Ok((
                conv(i, o, kernel, stride, vb.pp("c"))?,
                batch_norm(o, 1e-5, vb.pp("n"))?,
            ))
        };
        let shortcut = match stride != 1 || i != out {
            true => Some(pair((i, out, 1, stride), "s".into())?),
            false => None,
        };
        let convs = layers.into_iter().enumerate();
        let convs = convs
            .map(|(n, layer)| pair(layer, n.to_string()))
            .collect::<Result<_>>()?;
        Ok(Residual { convs, shortcut })
    }

    fn forward(&self, x: &Tensor, train: bool) -> Result<Tensor> {
        let mut y = x.clone();
        for (n, (conv, norm)) in self.convs.iter().enumerate() {
            y = norm.forward_t(&conv.forward(&y)?, train)?;
            if n + 1 < self.convs.len() {
                y = y.relu()?;
            }
        }
        match &self.shortcut {
            Some((s, t)) => (y + t.forward_t(&s.forward(x)?, train)?)?.relu(),
            None => (y + x)?.relu(),
        }
    }
}

/// The greatest of three neighbours around every second place of a dimension, zeros at its ends.
/// candle's pooling has no gradient where windows overlap.
fn greatest(x: &Tensor, dim: usize) -> Result<Tensor> {
    let x = x.pad_with_zeros(dim, 1, 1)?;
    let (mut dims, pairs) = (x.dims().to_vec(), x.dim(dim)? / 2);
    dims.splice(dim..=dim, [pairs, 2]);
    let x = x.reshape(dims)?;
    let part = |of: usize, from: usize| x.narrow(dim, from, pairs - 1)?.get_on_dim(dim + 1, of);
    part(0, 0)?.maximum(&part(1, 0)?)?.maximum(&part(0, 1)?)
}

pub(super) struct ResNet {
    conv: Conv2d,
    norm: BatchNorm,
    blocks: Vec<Residual>,
    head: Linear,
}

impl ResNet {
    pub(super) fn new(
        depths: [usize; 4],
        bottleneck: bool,
        vb: VarBuilder<'static>,
    ) -> Result<ResNet> {
        let (mut blocks, mut i) = (Vec::new(), 64);
        for (stage, depth) in depths.into_iter().enumerate() {
            for n in 0..depth {
                let (width, stride) = (64 << stage, if stage > 0 && n == 0 { 2 } else { 1 });
                let name = blocks.len();
                blocks.push(Residual::new(i, width, stride, bottleneck, vb.pp(name))?);
                i = if bottleneck { 4 * width } else { width };
            }
        }
        let (conv, norm) = (
            conv(3, 64, 7, 2, vb.pp("c"))?,
            batch_norm(64, 1e-5, vb.pp("n"))?,
        );
        Ok(ResNet {
            conv,
            norm,
            blocks,
            head: linear(i, 1000, vb.pp("h"))?,
        })
    }

    pub(super) fn forward(&self, x: &Tensor, train: bool) -> Result<Tensor> {
        let x = self.norm.forward_t(&self.conv.forward(x)?, train)?.relu()?;
        // After relu zeros are the least, so zeros around the image change no maximum.
        let mut x = match train {
            true => greatest(&greatest(&x, 2)?, 3)?,
            false => {
                let x = x.pad_with_zeros(2, 1, 1)?.pad_with_zeros(3, 1, 1)?;
                x.max_pool2d_with_stride(3, 2)?
            }
        };
        for block in &self.blocks {
            x = block.forward(&x, train)?;
        }
        self.head.forward(&x.mean((2, 3))?)
    }
}

/// A convolution and its norm. At a stride of two, zeros lie around the input, more of them at the
/// right and below.
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
        vb: VarBuilder<'static>,
    ) -> Result<Same> {
        let config = Conv2dConfig {
            padding: if stride == 1 { kernel / 2 } else { 0 },
            stride,
            groups,
            ..Default::default()
        };
        Ok(Same {
            conv: conv2d_no_bias(i, o, kernel, config, vb.pp("c"))?,
            norm: batch_norm(o, 1e-3, vb.pp("n"))?,
        })
    }

    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = match self.conv.config().stride {
            1 => self.conv.forward(x)?,
            _ => {
                let kernel = self.conv.weight().dim(2)?;
                let (before, behind) = ((kernel - 2) / 2, (kernel - 1) / 2);
                let x = x.pad_with_zeros(2, before, behind)?;
                self.conv.forward(&x.pad_with_zeros(3, before, behind)?)?
            }
        };
        self.norm.forward_t(&x, false)
    }
}

/// Widens, convolves each channel for itself, narrows; added to what comes in where sizes agree.
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
        vb: VarBuilder<'static>,
    ) -> Result<Inverted> {
        let wide = i * factor;
        let mut layers = Vec::new();
        if factor > 1 {
            layers.push(Same::new([i, wide], 1, 1, 1, vb.pp("w"))?);
        }
        layers.push(Same::new([wide; 2], kernel, stride, wide, vb.pp("d"))?);
        layers.push(Same::new([wide, o], 1, 1, 1, vb.pp("p"))?);
        let shortcut = stride == 1 && i == o;
        Ok(Inverted { layers, shortcut })
    }

    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let mut y = x.clone();
        for (n, layer) in self.layers.iter().enumerate() {
            y = layer.forward(&y)?;
            if n + 1 < self.layers.len() {
                y = Activation::Relu6.forward(&y)?;
            }
        }
        if self.shortcut { y + x } else { Ok(y) }
    }
}

pub(super) struct EfficientNet {
    stem: Same,
    blocks: Vec<Inverted>,
    last: Same,
    head: Linear,
}

impl EfficientNet {
    pub(super) fn new(vb: VarBuilder<'static>) -> Result<EfficientNet> {
        let (mut blocks, mut i) = (Vec::new(), 32);
        for [factor, o, depth, kernel, stride] in program::LITE0 {
            for n in 0..depth {
                let stride = if n == 0 { stride } else { 1 };
                let vb = vb.pp(blocks.len());
                blocks.push(Inverted::new([i, o], factor, kernel, stride, vb)?);
                i = o;
            }
        }
        Ok(EfficientNet {
            stem: Same::new([3, 32], 3, 2, 1, vb.pp("s"))?,
            blocks,
            last: Same::new([i, 1280], 1, 1, 1, vb.pp("l"))?,
            head: linear(1280, 1000, vb.pp("h"))?,
        })
    }

    pub(super) fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let mut x = Activation::Relu6.forward(&self.stem.forward(x)?)?;
        for block in &self.blocks {
            x = block.forward(&x)?;
        }
        let x = Activation::Relu6.forward(&self.last.forward(&x)?)?;
        self.head.forward(&x.mean((2, 3))?)
    }
}

/// ViT-B/16.
pub(super) struct Vit {
    patches: Conv2d,
    class: Tensor,
    places: Tensor,
    blocks: Vec<Block>,
    norm: LayerNorm,
    head: Linear,
}

impl Vit {
    pub(super) fn new(vb: VarBuilder<'static>) -> Result<Vit> {
        let config = Conv2dConfig {
            stride: 16,
            ..Default::default()
        };
        let normal = Init::Randn {
            mean: 0.0,
            stdev: 1.0,
        };
        Ok(Vit {
            patches: conv2d(3, 768, 16, config, vb.pp("e"))?,
            class: vb.get_with_hints((1, 1, 768), "c", normal)?,
            places: vb.get_with_hints((1, 197, 768), "p", normal)?,
            blocks: (0..12)
                .map(|i| Block::new(768, 3072, 12, true, vb.pp(i)))
                .collect::<Result<_>>()?,
            norm: layer_norm(768, 1e-5, vb.pp("n"))?,
            head: linear(768, 1000, vb.pp("h"))?,
        })
    }

    pub(super) fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = self.patches.forward(x)?.flatten_from(2)?.transpose(1, 2)?;
        let class = self.class.expand((x.dim(0)?, 1, 768))?;
        let mut x = Tensor::cat(&[class, x], 1)?.broadcast_add(&self.places)?;
        for block in &self.blocks {
            x = block.forward(&x, None)?;
        }
        self.head.forward(&self.norm.forward(&x)?.get_on_dim(1, 0)?)
    }
}
