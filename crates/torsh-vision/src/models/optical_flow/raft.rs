//! RAFT.

use torsh_functional::{self as F, AvgPoolOptions, InterpolateOptions, Sizes, UnfoldOptions};
use torsh_nn::{Conv2d, Hooks, Identity, InterpolateMode, Module, ReLU, Sequential, Training};
use torsh_tensor::{DType, Device, GridSampleOptions, Result, Tensor, TorshError, cat};

use crate::models::blocks::{Conv2dNormActivation, Conv2dNormActivationBuilder, NormLayer};
use crate::models::builder::model_builder;
use crate::models::common::VisionModel;
use crate::models::constructors;
use crate::models::reset::{each, kaiming_weight};

/// Recurrent all-pairs field transforms: a flow from one image to another that is corrected step by step, each time
/// with how well the pixels around where it leads correlate (Teed and Deng, "RAFT: Recurrent All-Pairs Field Transforms
/// for Optical Flow", <https://arxiv.org/abs/2003.12039>).
///
/// [`forward_with`](RAFT::forward_with) takes two batches of images `[N, 3, H, W]` with values from -1 to 1, of at least
/// 128 x 128, whose sides divide by 8.
///
/// | constructor | parameters |
/// |---|---|
/// | [`raft_large`] | 5,257,536 |
/// | [`raft_small`] | 990,162 |
///
/// ```
/// use torsh_nn::ModuleExt;
/// use torsh_tensor::zeros;
/// use torsh_vision::models::{Weights, optical_flow::raft_small};
/// let model = raft_small(Weights::None)?;
/// model.eval();
/// let (image1, image2) = (zeros(&[1, 3, 128, 128]), zeros(&[1, 3, 128, 128]));
/// let flows = model.forward_with(&image1, &image2, 2)?;
/// assert_eq!((flows.len(), flows[1].dims()), (2, &[1, 2, 128, 128][..]));
/// let image = zeros(&[1, 3, 128, 132]);
/// let error = model.forward_with(&image, &image, 2).err().map(|e| e.to_string());
/// assert!(error.is_some_and(|e| e.contains("divisible by 8, got 128 x 132")));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct RAFT {
    feature_encoder: FeatureEncoder,
    context_encoder: FeatureEncoder,
    update_block: UpdateBlock,
    mask_predictor: Option<MaskPredictor>,
    #[module(skip)]
    num_levels: usize,
    #[module(skip)]
    radius: usize,
    #[module(skip)]
    hidden: usize,
    training: Training,
    hooks: Hooks,
}

model_builder! {
    /// Builds a [`RAFT`]. The default is [`raft_large`]'s numbers. It has no classes.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_tensor::Device;
    /// use torsh_vision::models::optical_flow::RAFT;
    /// let model = RAFT::builder().use_mask_predictor(false).device(Device::Meta).build()?;
    /// // Without two convolutions, of 3 by 3 and of 1 by 1.
    /// assert_eq!(model.num_parameters(), 5_257_536 - (128 * 256 * 9 + 256) - (256 * 576 + 576));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    RAFTBuilder of RAFT, OpticalFlow 5_257_536 parameters, head [];
    options {
        /// Channels of the stages of the encoder of features.
        feature_encoder_layers: [usize; 5] = [64, 64, 96, 128, 256];
        /// Channels of the stages of the encoder of the context.
        context_encoder_layers: [usize; 5] = [64, 64, 96, 128, 256];
        /// How many levels the pyramid of correlations has.
        corr_block_num_levels: usize = 4;
        /// How far around a pixel correlations are looked up.
        corr_block_radius: usize = 4;
        /// Channels of the one or two layers that read correlations.
        motion_encoder_corr_layers: Vec<usize> = vec![256, 192], impl Into<Vec<usize>> => Into::into;
        /// Channels of the layers that read the flow.
        motion_encoder_flow_layers: [usize; 2] = [128, 64];
        /// Channels of the motion.
        motion_encoder_out_channels: usize = 128;
        /// Channels of the hidden state.
        recurrent_block_hidden_state_size: usize = 128;
        /// Windows of the one or two recurrent units.
        recurrent_block_kernel_size: Vec<[usize; 2]> = vec![[1, 5], [5, 1]], impl Into<Vec<[usize; 2]>> => Into::into;
        /// Channels inside the head.
        flow_head_hidden_size: usize = 256;
        /// Whether the weights of upsampling are learned; else it interpolates.
        use_mask_predictor: bool = true;
    }
    parts {
        /// Whether the encoders have blocks of three convolutions instead of two.
        bottleneck: bool = false;
        /// The norm of the encoder of features.
        feature_encoder_norm_layer: Option<NormLayer> = Some(NormLayer::instance_norm_2d()), impl Into<Option<NormLayer>> => Into::into;
        /// The norm of the encoder of the context.
        context_encoder_norm_layer: Option<NormLayer> = Some(NormLayer::batch_norm_2d()), impl Into<Option<NormLayer>> => Into::into;
    }
}

constructors! {
    OpticalFlow, RAFT;
    /// RAFT: 5.3 million parameters, images of at least 128 x 128 whose sides are divisible by 8
    /// (<https://arxiv.org/abs/2003.12039>).
    raft_large, 5_257_536 parameters => RAFTBuilder { name: "raft_large", ..Default::default() };
    /// RAFT-S: 1.0 million parameters, images of at least 128 x 128 whose sides are divisible by 8
    /// (<https://arxiv.org/abs/2003.12039>).
    raft_small, 990_162 parameters => RAFTBuilder {
        name: "raft_small",
        feature_encoder_layers: [32, 32, 64, 96, 128],
        context_encoder_layers: [32, 32, 64, 96, 160],
        corr_block_radius: 3,
        motion_encoder_corr_layers: vec![96],
        motion_encoder_flow_layers: [64, 32],
        motion_encoder_out_channels: 82,
        recurrent_block_hidden_state_size: 96,
        recurrent_block_kernel_size: vec![[3, 3]],
        flow_head_hidden_size: 128,
        use_mask_predictor: false,
        bottleneck: true,
        context_encoder_norm_layer: None,
        ..Default::default()
    };
}

/// How many updates [`forward`](Module::forward) makes.
const UPDATES: usize = 12;

impl Module for RAFT {
    /// The flow `[N, 2, H, W]` of pairs of images `[N, 2, 3, H, W]` after twelve updates.
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            if x.ndim() != 5 || x.dims()[1] != 2 {
                return Err(TorshError::shape(
                    "RAFT",
                    format!("pairs of images are [N, 2, 3, H, W], got {}", x.describe()),
                )
                .with_hint("forward_with takes the two images apart"));
            }
            let flows = self.forward_with(&x.select(1, 0)?, &x.select(1, 1)?, UPDATES)?;
            flows
                .into_iter()
                .next_back()
                .ok_or_else(|| TorshError::invalid("RAFT", "no update was made"))
        })
    }
}

impl VisionModel for RAFT {}

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
            return Err(TorshError::shape(
                "RAFT",
                format!("feature maps are [N, C, H, W], got {}", map1.describe()),
            ));
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
        let offsets = Tensor::from_slice(
            &offsets,
            [1, side, side, 2],
            coords.dtype(),
            coords.device(),
        )?;
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
    F::grid_sample_with(
        images,
        &cat(&[x, y], -1)?,
        GridSampleOptions::new().align_corners(true),
    )
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
    let (n, c, h, w) = (
        flow.dims()[0],
        flow.dims()[1],
        flow.dims()[2],
        flow.dims()[3],
    );
    let larger = [h * FACTOR, w * FACTOR];
    let flow = flow.mul(FACTOR as f64)?;
    let Some(mask) = mask else {
        let options = InterpolateOptions::new()
            .size(larger)
            .mode(InterpolateMode::Bilinear)
            .align_corners(true);
        return F::interpolate_with(&flow, options);
    };
    let weights = mask.reshape([n, 1, 9, FACTOR, FACTOR, h, w])?.softmax(2)?;
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

forward!(ResidualBlock, self, x, {
    let y = self
        .convnormrelu2
        .forward(&self.convnormrelu1.forward(x)?)?;
    self.relu.forward(&self.downsample.forward(x)?.add(&y)?)
});

forward!(BottleneckBlock, self, x, {
    let y = self
        .convnormrelu2
        .forward(&self.convnormrelu1.forward(x)?)?;
    let y = self.convnormrelu3.forward(&y)?;
    self.relu.forward(&self.downsample.forward(x)?.add(&y)?)
});

forward!(FeatureEncoder, self, x, {
    let x = self.convnormrelu.forward(x)?;
    let x = self.layer1.forward(&x)?;
    let x = self.layer2.forward(&x)?;
    let x = self.layer3.forward(&x)?;
    self.conv.forward(&x)
});

/// A convolution with its norm and activation.
fn conv(
    from: usize,
    to: usize,
    kernel: i64,
    norm: Option<&NormLayer>,
) -> Conv2dNormActivationBuilder {
    Conv2dNormActivation::builder(from, to)
        .kernel_size(kernel)
        .norm_layer(norm.cloned())
        .bias(true)
}

/// The shortcut of a block: nothing, or a convolution where the size changes.
fn shortcut(
    from: usize,
    to: usize,
    stride: i64,
    norm: Option<&NormLayer>,
) -> Result<Box<dyn Module>> {
    Ok(match stride {
        1 => Box::new(Identity::new()),
        _ => Box::new(
            conv(from, to, 1, norm)
                .stride(stride)
                .activation_layer(None)
                .build()?,
        ),
    })
}

impl ResidualBlock {
    fn new(from: usize, to: usize, stride: i64, norm: Option<&NormLayer>) -> Result<ResidualBlock> {
        Ok(ResidualBlock {
            convnormrelu1: conv(from, to, 3, norm).stride(stride).build()?,
            convnormrelu2: conv(to, to, 3, norm).build()?,
            downsample: shortcut(from, to, stride, norm)?,
            relu: ReLU::new(),
            hooks: Hooks::new(),
        })
    }
}

impl BottleneckBlock {
    fn new(
        from: usize,
        to: usize,
        stride: i64,
        norm: Option<&NormLayer>,
    ) -> Result<BottleneckBlock> {
        let inner = to / 4;
        Ok(BottleneckBlock {
            convnormrelu1: conv(from, inner, 1, norm).build()?,
            convnormrelu2: conv(inner, inner, 3, norm).stride(stride).build()?,
            convnormrelu3: conv(inner, to, 1, norm).build()?,
            relu: ReLU::new(),
            downsample: shortcut(from, to, stride, norm)?,
            hooks: Hooks::new(),
        })
    }
}

impl FeatureEncoder {
    fn new(
        layers: [usize; 5],
        bottleneck: bool,
        norm: Option<&NormLayer>,
    ) -> Result<FeatureEncoder> {
        let pair = |from: usize, to: usize, stride: i64| -> Result<Sequential> {
            let mut blocks = Sequential::new();
            for (from, stride) in [(from, stride), (to, 1)] {
                match bottleneck {
                    true => blocks.push(BottleneckBlock::new(from, to, stride, norm)?),
                    false => blocks.push(ResidualBlock::new(from, to, stride, norm)?),
                }
            }
            Ok(blocks)
        };
        let [a, b, c, d, e] = layers;
        let encoder = FeatureEncoder {
            convnormrelu: conv(3, a, 7, norm).stride(2).build()?,
            layer1: pair(a, b, 1)?,
            layer2: pair(b, c, 2)?,
            layer3: pair(c, d, 2)?,
            conv: Conv2d::new(d, e, 1, 1, 0)?,
            hooks: Hooks::new(),
        };
        each(&encoder, |conv: &Conv2d| kaiming_weight(&conv.weight))?;
        Ok(encoder)
    }
}

/// Flow and correlations together.
#[derive(Module)]
struct MotionEncoder {
    convcorr1: Conv2dNormActivation,
    convcorr2: Box<dyn Module>,
    convflow1: Conv2dNormActivation,
    convflow2: Conv2dNormActivation,
    conv: Conv2dNormActivation,
    hooks: Hooks,
}

impl MotionEncoder {
    fn new(correlations: usize, o: &RAFTBuilder) -> Result<MotionEncoder> {
        let [flow1, flow2] = o.motion_encoder_flow_layers;
        let (first, last) = match o.motion_encoder_corr_layers.as_slice() {
            &[first] => (first, None),
            &[first, last] => (first, Some(last)),
            other => {
                return Err(TorshError::invalid(
                    "RAFT",
                    format!("motion_encoder_corr_layers are one or two, got {other:?}"),
                ));
            }
        };
        let convcorr1 = conv(correlations, first, 1, None).build()?;
        let convcorr2: Box<dyn Module> = match last {
            Some(last) => Box::new(conv(first, last, 3, None).build()?),
            None => Box::new(Identity::new()),
        };
        let out = o.motion_encoder_out_channels;
        if out <= 2 {
            return Err(TorshError::invalid(
                "RAFT",
                format!(
                    "motion_encoder_out_channels must be above 2, which are the flow's, got {out}"
                ),
            ));
        }
        Ok(MotionEncoder {
            convcorr1,
            convcorr2,
            convflow1: conv(2, flow1, 7, None).build()?,
            convflow2: conv(flow1, flow2, 3, None).build()?,
            conv: conv(last.unwrap_or(first) + flow2, out - 2, 3, None).build()?,
            hooks: Hooks::new(),
        })
    }

    fn forward_with(&self, flow: &Tensor, correlations: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, flow, |flow| {
            let corr = self
                .convcorr2
                .forward(&self.convcorr1.forward(correlations)?)?;
            let moved = self.convflow2.forward(&self.convflow1.forward(flow)?)?;
            let both = self.conv.forward(&cat(&[corr, moved], 1)?)?;
            cat(&[both, flow.clone()], 1)
        })
    }
}

/// A gated recurrent unit of convolutions.
#[derive(Module)]
struct ConvGRU {
    convz: Conv2d,
    convr: Conv2d,
    convq: Conv2d,
    hooks: Hooks,
}

impl ConvGRU {
    fn new(input: usize, hidden: usize, kernel: [usize; 2]) -> Result<ConvGRU> {
        let [h, w] = kernel.map(|n| n as i64);
        let conv = || Conv2d::new(hidden + input, hidden, (h, w), 1, Sizes([h / 2, w / 2]));
        Ok(ConvGRU {
            convz: conv()?,
            convr: conv()?,
            convq: conv()?,
            hooks: Hooks::new(),
        })
    }

    fn forward_with(&self, h: &Tensor, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, h, |h| {
            let hx = cat(&[h, x], 1)?;
            let z = self.convz.forward(&hx)?.sigmoid()?;
            let r = self.convr.forward(&hx)?.sigmoid()?;
            let q = self.convq.forward(&cat(&[&r.mul(h)?, x], 1)?)?.tanh()?;
            let kept = z.neg()?.add(1.0)?.mul(h)?;
            kept.add(&z.mul(&q)?)
        })
    }
}

/// One unit, or two: along rows and along columns.
#[derive(Module)]
struct RecurrentBlock {
    convgru1: ConvGRU,
    convgru2: Option<ConvGRU>,
    hooks: Hooks,
}

impl RecurrentBlock {
    fn forward_with(&self, h: &Tensor, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, h, |h| {
            let h = self.convgru1.forward_with(h, x)?;
            match &self.convgru2 {
                Some(second) => second.forward_with(&h, x),
                None => Ok(h),
            }
        })
    }
}

/// The change of the flow.
#[derive(Module)]
struct FlowHead {
    conv1: Conv2d,
    conv2: Conv2d,
    relu: ReLU,
    hooks: Hooks,
}

/// One update of the hidden state and the flow.
#[derive(Module)]
struct UpdateBlock {
    motion_encoder: MotionEncoder,
    recurrent_block: RecurrentBlock,
    flow_head: FlowHead,
    hooks: Hooks,
}

impl UpdateBlock {
    /// The hidden state and the change of the flow.
    fn forward_with(
        &self,
        hidden: &Tensor,
        context: &Tensor,
        correlations: &Tensor,
        flow: &Tensor,
    ) -> Result<(Tensor, Tensor)> {
        let mut hidden = hidden.clone();
        let change = self.hooks.run(self, flow, |flow| {
            let motion = self.motion_encoder.forward_with(flow, correlations)?;
            let x = cat(&[context, &motion], 1)?;
            hidden = self.recurrent_block.forward_with(&hidden, &x)?;
            self.flow_head.forward(&hidden)
        })?;
        Ok((hidden, change))
    }
}

forward!(FlowHead, self, x, {
    self.conv2
        .forward(&self.relu.forward(&self.conv1.forward(x)?)?)
});

macro_rules! needs_more {
    ($($name:ident),*) => {$(
        impl Module for $name {
            #[torsh_tensor::names_caller]
            fn forward(&self, _x: &Tensor) -> Result<Tensor> {
                Err(TorshError::invalid(
                    stringify!($name),
                    "forward takes one tensor, and this layer needs more",
                )
                .with_hint("run the whole RAFT"))
            }
        }
    )*};
}

needs_more!(MotionEncoder, ConvGRU, RecurrentBlock, UpdateBlock);

/// The weights with which the flow is upsampled.
#[derive(Module)]
struct MaskPredictor {
    convrelu: Conv2dNormActivation,
    conv: Conv2d,
    hooks: Hooks,
}

forward!(MaskPredictor, self, x, {
    self.conv.forward(&self.convrelu.forward(x)?)?.mul(0.25)
});

impl RAFT {
    fn construct(o: &RAFTBuilder) -> Result<RAFT> {
        if o.common.num_classes.is_some() {
            return Err(TorshError::invalid(
                o.name,
                "a model of flows has no classes",
            ));
        }
        let hidden = o.recurrent_block_hidden_state_size;
        let features = o.feature_encoder_layers;
        let context = o.context_encoder_layers;
        if context[4] <= hidden {
            return Err(TorshError::invalid(
                "RAFT",
                format!(
                    "the context encoder has {} channels, which must be more than the {hidden} of the hidden state",
                    context[4]
                ),
            ));
        }
        let feature_encoder = FeatureEncoder::new(
            features,
            o.bottleneck,
            o.feature_encoder_norm_layer.as_ref(),
        )?;
        let context_encoder =
            FeatureEncoder::new(context, o.bottleneck, o.context_encoder_norm_layer.as_ref())?;
        let side = 2 * o.corr_block_radius + 1;
        let motion_encoder = MotionEncoder::new(o.corr_block_num_levels * side * side, o)?;
        let input = o.motion_encoder_out_channels + context[4] - hidden;
        let (first, second) = match o.recurrent_block_kernel_size.as_slice() {
            &[first] => (first, None),
            &[first, second] => (first, Some(second)),
            other => {
                return Err(TorshError::invalid(
                    o.name,
                    format!("recurrent_block_kernel_size are one or two windows, got {other:?}"),
                ));
            }
        };
        let recurrent_block = RecurrentBlock {
            convgru1: ConvGRU::new(input, hidden, first)?,
            convgru2: match second {
                Some(second) => Some(ConvGRU::new(input, hidden, second)?),
                None => None,
            },
            hooks: Hooks::new(),
        };
        let flow_head = FlowHead {
            conv1: Conv2d::new(hidden, o.flow_head_hidden_size, 3, 1, 1)?,
            conv2: Conv2d::new(o.flow_head_hidden_size, 2, 3, 1, 1)?,
            relu: ReLU::new(),
            hooks: Hooks::new(),
        };
        let mask_predictor = match o.use_mask_predictor {
            true => Some(MaskPredictor {
                convrelu: conv(hidden, 256, 3, None).build()?,
                conv: Conv2d::new(256, 8 * 8 * 9, 1, 1, 0)?,
                hooks: Hooks::new(),
            }),
            false => None,
        };
        Ok(RAFT {
            feature_encoder,
            context_encoder,
            update_block: UpdateBlock {
                motion_encoder,
                recurrent_block,
                flow_head,
                hooks: Hooks::new(),
            },
            mask_predictor,
            num_levels: o.corr_block_num_levels,
            radius: o.corr_block_radius,
            hidden,
            training: Training::default(),
            hooks: Hooks::new(),
        })
    }

    /// Computes the flows from `image1` to `image2`, `[N, 3, H, W]` each with values from -1 to 1, after each of
    /// `num_flow_updates` updates, the last the best: `[N, 2, H, W]`, by how many pixels each goes to the right and
    /// down.
    ///
    /// ```
    /// use torsh_tensor::{Device, zeros};
    /// use torsh_vision::models::optical_flow::RAFT;
    /// let model = RAFT::builder().device(Device::Meta).build()?;
    /// let (a, b) = (zeros(&[1, 3, 128, 128]), zeros(&[1, 3, 128, 136]));
    /// let error = model.forward_with(&a, &b, 12).err().map(|e| e.to_string());
    /// assert!(error.is_some_and(|e| e.contains("the images differ in shape")));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Images of different sizes, of sizes that do not divide by 8, or too small for the pyramid of correlations (128).
    #[torsh_tensor::names_caller]
    pub fn forward_with(
        &self,
        image1: &Tensor,
        image2: &Tensor,
        num_flow_updates: usize,
    ) -> Result<Vec<Tensor>> {
        let &[n, 3, h, w] = image1.dims() else {
            return Err(TorshError::shape(
                "RAFT",
                format!("images are [N, 3, H, W], got {}", image1.describe()),
            ));
        };
        if image1.shape() != image2.shape() {
            return Err(TorshError::shape(
                "RAFT",
                format!(
                    "the images differ in shape: {} and {}",
                    image1.describe(),
                    image2.describe()
                ),
            ));
        }
        if h % 8 != 0 || w % 8 != 0 {
            return Err(TorshError::shape(
                "RAFT",
                format!("height and width of the images must be divisible by 8, got {h} x {w}"),
            )
            .with_hint("pad or resize the images"));
        }
        let maps = self.feature_encoder.forward(&cat(&[image1, image2], 0)?)?;
        let (map1, map2) = (
            maps.narrow(0, 0, n as i64)?,
            maps.narrow(0, n as i64, n as i64)?,
        );
        let pyramid = Pyramid::new(&map1, &map2, self.num_levels, self.radius)?;
        let context = self.context_encoder.forward(image1)?;
        let channels = context.dims()[1] as i64;
        let size = self.hidden as i64;
        let mut hidden = context.narrow(1, 0, size)?.tanh()?;
        let context = context.narrow(1, size, channels - size)?.relu()?;
        let start = coords_grid(n, h / 8, w / 8, map1.dtype(), map1.device())?;
        let mut coords = start.clone();
        let mut flows = Vec::with_capacity(num_flow_updates);
        for _ in 0..num_flow_updates {
            // No gradient through the places, as in the paper.
            coords = coords.detach();
            let correlations = pyramid.around(&coords)?;
            let flow = coords.sub(&start)?;
            let (next, change) =
                self.update_block
                    .forward_with(&hidden, &context, &correlations, &flow)?;
            hidden = next;
            coords = coords.add(&change)?;
            let mask = match &self.mask_predictor {
                Some(predictor) => Some(predictor.forward(&hidden)?),
                None => None,
            };
            flows.push(upsample_flow(&coords.sub(&start)?, mask.as_ref())?);
        }
        Ok(flows)
    }
}
