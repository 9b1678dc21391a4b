//! Residual networks of videos.

use torsh_nn::{
    AdaptiveAvgPool3d, BatchNorm3d, Conv3d, Hooks, Linear, Module, ReLU, Sequential, Training,
};
use torsh_tensor::{Result, Tensor, TorshError};

use crate::models::blocks::sequence;
use crate::models::builder::model_builder;
use crate::models::checks::check_videos;
use crate::models::common::{VisionModel, normal_linear};
use crate::models::constructors;
use crate::models::reset::{each, kaiming_weight};

/// A residual network of videos, whose convolutions go over space and time at once, over space alone, or over one after
/// the other (Tran et al., "A Closer Look at Spatiotemporal Convolutions for Action Recognition",
/// <https://arxiv.org/abs/1711.11248>).
///
/// Takes videos `[N, 3, T, H, W]`, trained with 16 pictures of 112 x 112.
///
/// | constructor | convolutions | parameters |
/// |---|---|---|
/// | [`r3d_18`] | space and time at once | 33,371,472 |
/// | [`mc3_18`] | at once in the first stage, space alone in the others | 11,695,440 |
/// | [`r2plus1d_18`] | space, then time | 31,505,325 |
///
/// ```
/// use torsh_nn::{Module, ModuleExt};
/// use torsh_tensor::rand;
/// use torsh_vision::models::video::{VideoConvolution, VideoResNet};
/// let model = VideoResNet::builder()
///     .conv_makers([VideoConvolution::NoTemporal; 4])
///     .layers([1, 1, 1, 1])
///     .num_classes(10)
///     .build()?;
/// model.eval();
/// assert_eq!(model.forward(&rand(&[1, 3, 2, 32, 32]))?.dims(), [1, 10]);
/// assert_eq!(model.num_parameters(), 4_929_738);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct VideoResNet {
    stem: Sequential,
    layer1: Sequential,
    layer2: Sequential,
    layer3: Sequential,
    layer4: Sequential,
    avgpool: AdaptiveAvgPool3d,
    /// The classifier.
    pub fc: Linear,
    training: Training,
    hooks: Hooks,
}

model_builder! {
    /// Builds a [`VideoResNet`]. The default is [`r3d_18`]'s numbers.
    ///
    /// ```
    /// use torsh_tensor::Device;
    /// use torsh_vision::models::video::VideoResNet;
    /// let model = VideoResNet::builder().layers([1, 1, 1, 1]).num_classes(10).device(Device::Meta).build()?;
    /// assert_eq!((model.fc.in_features(), model.fc.out_features()), (512, 10));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    VideoResNetBuilder of VideoResNet, Video 33_371_472 parameters, head ["fc."];
    options {
        /// How many blocks each of the four stages has.
        layers: Vec<usize> = vec![2, 2, 2, 2], impl Into<Vec<usize>> => Into::into;
    }
    parts {
        /// How the blocks of each of the four stages convolve.
        conv_makers: Vec<VideoConvolution> = vec![VideoConvolution::Simple; 4], impl Into<Vec<VideoConvolution>> => Into::into;
        /// How the stem convolves: `TwoPlusOne`, or at once.
        stem: VideoConvolution = VideoConvolution::Simple;
    }
}

constructors! {
    Video, VideoResNet;
    /// R3D-18, convolutions over space and time at once: 33.4 million parameters, videos of 16 pictures of 112 x 112
    /// (<https://arxiv.org/abs/1711.11248>).
    r3d_18, 33_371_472 parameters => VideoResNetBuilder { name: "r3d_18", ..Default::default() };
    /// MC3-18, convolutions over space and time in the first stage, over space alone in the others: 11.7 million
    /// parameters, videos of 16 pictures of 112 x 112 (<https://arxiv.org/abs/1711.11248>).
    mc3_18, 11_695_440 parameters => VideoResNetBuilder {
        name: "mc3_18",
        conv_makers: [&[VideoConvolution::Simple][..], &[VideoConvolution::NoTemporal; 3]].concat(),
        ..Default::default()
    };
    /// R(2+1)D-18, convolutions over space, then over time: 31.5 million parameters, videos of 16 pictures of 112 x 112
    /// (<https://arxiv.org/abs/1711.11248>).
    r2plus1d_18, 31_505_325 parameters => VideoResNetBuilder {
        name: "r2plus1d_18",
        conv_makers: vec![VideoConvolution::TwoPlusOne; 4],
        stem: VideoConvolution::TwoPlusOne,
        ..Default::default()
    };
}

/// How a block convolves.
///
/// ```
/// use torsh_nn::ModuleExt;
/// use torsh_tensor::Device;
/// use torsh_vision::models::video::{VideoConvolution as Conv, VideoResNet};
/// // As `mc3_18` has them.
/// let stages = [Conv::Simple, Conv::NoTemporal, Conv::NoTemporal, Conv::NoTemporal];
/// let model = VideoResNet::builder().conv_makers(stages).device(Device::Meta).build()?;
/// assert_eq!(model.num_parameters(), 11_695_440);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VideoConvolution {
    /// In space and time at once (`Conv3DSimple`).
    Simple,
    /// In space, then in time (`Conv2Plus1D`).
    TwoPlusOne,
    /// In space alone (`Conv3DNoTemporal`).
    NoTemporal,
}

/// `Conv2Plus1D`.
struct Conv2Plus1D {
    layers: Sequential,
}

sequence!(Conv2Plus1D forwards);

impl VideoConvolution {
    fn make(self, from: usize, to: usize, mid: usize, stride: i64) -> Result<Box<dyn Module>> {
        let conv = |from, to, kernel: (i64, i64, i64), stride: (i64, i64, i64)| {
            Conv3d::builder(from, to, kernel)
                .stride(stride)
                .padding((kernel.0 / 2, kernel.1 / 2, kernel.2 / 2))
                .bias(false)
                .build()
        };
        let s = stride;
        Ok(match self {
            VideoConvolution::Simple => Box::new(conv(from, to, (3, 3, 3), (s, s, s))?),
            VideoConvolution::NoTemporal => Box::new(conv(from, to, (1, 3, 3), (1, s, s))?),
            VideoConvolution::TwoPlusOne => Box::new(Conv2Plus1D {
                layers: Sequential::new()
                    .add(conv(from, mid, (1, 3, 3), (1, s, s))?)
                    .add(BatchNorm3d::new(mid)?)
                    .add(ReLU::new())
                    .add(conv(mid, to, (3, 1, 1), (s, 1, 1))?),
            }),
        })
    }

    /// The steps of a shortcut.
    fn shortcut(self, s: i64) -> (i64, i64, i64) {
        match self {
            VideoConvolution::NoTemporal => (1, s, s),
            _ => (s, s, s),
        }
    }
}

/// Two convolutions and a shortcut.
#[derive(Module)]
struct BasicBlock {
    conv1: Sequential,
    conv2: Sequential,
    relu: ReLU,
    downsample: Option<Sequential>,
    hooks: Hooks,
}

impl BasicBlock {
    fn new(conv: VideoConvolution, from: usize, to: usize, stride: i64) -> Result<BasicBlock> {
        // As torchvision makes it: ahead of the block.
        let downsample = match stride != 1 || from != to {
            true => Some(
                Sequential::new()
                    .add(
                        Conv3d::builder(from, to, 1)
                            .stride(conv.shortcut(stride))
                            .bias(false)
                            .build()?,
                    )
                    .add(BatchNorm3d::new(to)?),
            ),
            false => None,
        };
        // As many parameters as a convolution in space and time at once has.
        let mid = (from * to * 27) / (from * 9 + 3 * to);
        Ok(BasicBlock {
            conv1: Sequential::new()
                .add(conv.make(from, to, mid, stride)?)
                .add(BatchNorm3d::new(to)?)
                .add(ReLU::new()),
            conv2: Sequential::new()
                .add(conv.make(to, to, mid, 1)?)
                .add(BatchNorm3d::new(to)?),
            relu: ReLU::new(),
            downsample,
            hooks: Hooks::new(),
        })
    }
}

forward!(BasicBlock, self, x, {
    let y = self.conv2.forward(&self.conv1.forward(x)?)?;
    let y = match &self.downsample {
        Some(shortcut) => y.add(&shortcut.forward(x)?)?,
        None => y.add(x)?,
    };
    self.relu.forward(&y)
});

fn stem(two_plus_one: bool) -> Result<Sequential> {
    let conv = |from, to, kernel, stride, padding: (i64, i64, i64)| {
        Conv3d::builder(from, to, kernel)
            .stride(stride)
            .padding(padding)
            .bias(false)
            .build()
    };
    Ok(match two_plus_one {
        false => Sequential::new()
            .add(conv(3, 64, (3, 7, 7), (1, 2, 2), (1, 3, 3))?)
            .add(BatchNorm3d::new(64)?)
            .add(ReLU::new()),
        true => Sequential::new()
            .add(conv(3, 45, (1, 7, 7), (1, 2, 2), (0, 3, 3))?)
            .add(BatchNorm3d::new(45)?)
            .add(ReLU::new())
            .add(conv(45, 64, (3, 1, 1), (1, 1, 1), (1, 0, 0))?)
            .add(BatchNorm3d::new(64)?)
            .add(ReLU::new()),
    })
}

impl VideoResNet {
    fn construct(o: &VideoResNetBuilder) -> Result<VideoResNet> {
        if o.layers.len() != 4 || o.conv_makers.len() != 4 {
            return Err(TorshError::invalid(
                o.name,
                format!(
                    "layers and conv_makers are four, got {:?} and {:?}",
                    o.layers, o.conv_makers
                ),
            ));
        }
        let stem = stem(o.stem == VideoConvolution::TwoPlusOne)?;
        let mut from = 64;
        let mut layer = |i: usize| -> Result<Sequential> {
            let to = 64 << i;
            let mut blocks = Sequential::new();
            for block in 0..o.layers[i] {
                let stride = if block == 0 && i > 0 { 2 } else { 1 };
                blocks.push(BasicBlock::new(o.conv_makers[i], from, to, stride)?);
                from = to;
            }
            Ok(blocks)
        };
        let (layer1, layer2, layer3, layer4) = (layer(0)?, layer(1)?, layer(2)?, layer(3)?);
        let model = VideoResNet {
            stem,
            layer1,
            layer2,
            layer3,
            layer4,
            avgpool: AdaptiveAvgPool3d::new(1)?,
            fc: Linear::builder(512, o.common.num_classes.unwrap_or(400)).build()?,
            training: Training::default(),
            hooks: Hooks::new(),
        };
        each(&model, |conv: &Conv3d| kaiming_weight(&conv.weight))?;
        normal_linear(&model.fc, 0.01)?;
        Ok(model)
    }
}

impl Module for VideoResNet {
    /// Scores `[N, num_classes]` of videos `[N, 3, T, H, W]`.
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            check_videos("VideoResNet", x)?;
            let x = self.stem.forward(x)?;
            let x = self.layer1.forward(&x)?;
            let x = self.layer2.forward(&x)?;
            let x = self.layer3.forward(&x)?;
            let x = self.layer4.forward(&x)?;
            self.fc.forward(&self.avgpool.forward(&x)?.flatten(1)?)
        })
    }
}

impl VisionModel for VideoResNet {}
