//! MaxViT.

use std::any::Any;

use torsh_nn::{
    AdaptiveAvgPool2d, AvgPool2d, Buffer, Conv2d, Dropout, Flatten, Hooks, Identity, LayerNorm,
    Linear, Module, ModuleExt, Parameter, Sequential, Tanh, Training, init,
};
use torsh_tensor::{Result, Tensor, TorshError};

use super::blocks::{
    ActivationLayer, Conv2dNormActivation, NormLayer, SqueezeExcitation, StochasticDepth,
    StochasticDepthMode,
};
use super::builder::model_builder;
use super::checks::check_images;
use super::common::VisionModel;
use super::constructors;
use super::reset::{integers, parameter};
use super::windows::{attend, heads, relative_position_bias, relative_position_index};

/// A multi-axis vision transformer: every layer convolves, attends within windows, and attends within grids that lie
/// over the whole image (Tu et al., "MaxViT: Multi-Axis Vision Transformer", <https://arxiv.org/abs/2204.01697>).
///
/// Takes images `[N, 3, H, W]` of the size that it was made for: 224 x 224 unless the builder says otherwise. Its sides
/// halved once for the stem and once for each block must divide into partitions.
///
/// | constructor | channels | layers | parameters |
/// |---|---|---|---|
/// | [`maxvit_t`] | 64, 128, 256, 512 | 2, 2, 5, 2 | 30,919,624 |
///
/// ```
/// use torsh_nn::{Module, ModuleExt};
/// use torsh_tensor::rand;
/// use torsh_vision::models::MaxVit;
/// let small = || {
///     MaxVit::builder()
///         .stem_channels(8)
///         .block_channels([8, 16])
///         .block_layers([1, 1])
///         .head_dim(4)
///         .partition_size(2)
///         .num_classes(10)
/// };
/// let model = small().input_size([32, 32]).build()?;
/// model.eval();
/// assert_eq!(model.forward(&rand(&[1, 3, 32, 32]))?.dims(), [1, 10]);
/// let error = small().input_size([24, 32]).build().err().map(|e| e.to_string());
/// assert!(error.is_some_and(|e| e.contains("not divisible by the partition size 2")));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct MaxVit {
    stem: Sequential,
    blocks: Vec<MaxVitBlock>,
    classifier: Sequential,
    #[module(skip)]
    input_size: [usize; 2],
    training: Training,
    hooks: Hooks,
}

model_builder! {
    /// Builds a [`MaxVit`]. The default is [`maxvit_t`]'s numbers.
    ///
    /// ```
    /// use torsh_vision::models::MaxVit;
    /// let error = MaxVit::builder().block_channels([64, 128]).build().err().map(|e| e.to_string());
    /// assert!(error.is_some_and(|e| e.contains("block_channels [64, 128] and block_layers [2, 2, 5, 2]")));
    /// ```
    MaxVitBuilder of MaxVit, Classification 30_919_624 parameters, head ["classifier.5."];
    options {
        /// Height and width of the images.
        input_size: [usize; 2] = [224, 224];
        /// Channels of the stem.
        stem_channels: usize = 64;
        /// Height and width of a partition.
        partition_size: usize = 7;
        /// Channels of each block.
        block_channels: Vec<usize> = vec![64, 128, 256, 512], impl Into<Vec<usize>> => Into::into;
        /// How many layers each block has.
        block_layers: Vec<usize> = vec![2, 2, 5, 2], impl Into<Vec<usize>> => Into::into;
        /// Channels of a head.
        head_dim: usize = 32;
        /// With which probability the last layer is left out while training; 0 at the first, rising evenly.
        stochastic_depth_prob: f64 = 0.2;
        /// How much narrower the squeezed channels are.
        squeeze_ratio: f64 = 0.25;
        /// By how much the convolutions are wider inside.
        expansion_ratio: f64 = 4.0;
        /// By how much the perceptrons are wider inside.
        mlp_ratio: usize = 4;
        /// With which probability values are dropped in the perceptrons while training. The default is 0.
        mlp_dropout: f64 = 0.0;
        /// With which probability values are dropped behind the attention while training. The default is 0.
        attention_dropout: f64 = 0.0;
    }
    parts {
        /// The norm of the convolutions; a batch norm with eps 1e-3 and momentum 0.01 unless set.
        norm_layer: NormLayer = NormLayer::batch_norm_2d_with(1e-3, 0.01);
        /// The activation. The default is a GELU.
        activation_layer: ActivationLayer = ActivationLayer::gelu();
    }
}

constructors! {
    Classification, MaxVit;
    /// MaxViT-T: 30.9 million parameters, images of 224 x 224 (<https://arxiv.org/abs/2204.01697>).
    maxvit_t, 30_919_624 parameters => MaxVitBuilder { name: "maxvit_t", ..Default::default() };
}

/// An inverted residual with squeeze and excitation, normalised first.
#[derive(Module)]
struct MBConv {
    proj: Box<dyn Module>,
    stochastic_depth: Box<dyn Module>,
    layers: Sequential,
    hooks: Hooks,
}

impl MBConv {
    fn new(o: &MaxVitBuilder, channels: [usize; 2], stride: i64, p: f64) -> Result<MBConv> {
        let [from, to] = channels;
        let proj: Box<dyn Module> = match (stride != 1 || from != to, stride) {
            (false, _) => Box::new(Identity::new()),
            (true, 2) => Box::new(
                Sequential::new()
                    .add(AvgPool2d::builder(3).stride(2).padding(1).build()?)
                    .add(Conv2d::new(from, to, 1, 1, 0)?),
            ),
            (true, _) => Box::new(Sequential::new().add(Conv2d::new(from, to, 1, 1, 0)?)),
        };
        let mid = (to as f64 * o.expansion_ratio) as usize;
        let squeezed = (to as f64 * o.squeeze_ratio) as usize;
        let block = |from: usize| {
            Conv2dNormActivation::builder(from, mid)
                .activation_layer(o.activation_layer.clone())
                .norm_layer(o.norm_layer.clone())
        };
        let mut layers = Sequential::new();
        layers.push_named("pre_norm", o.norm_layer.make(from)?)?;
        layers.push_named("conv_a", block(from).kernel_size(1).padding(0).build()?)?;
        let depthwise = block(mid)
            .kernel_size(3)
            .stride(stride)
            .padding(1)
            .groups(mid);
        layers.push_named("conv_b", depthwise.build()?)?;
        let squeeze = SqueezeExcitation::builder(mid, squeezed).activation(ActivationLayer::silu());
        layers.push_named("squeeze_excitation", squeeze.build()?)?;
        layers.push_named("conv_c", Conv2d::new(mid, to, 1, 1, 0)?)?;
        let stochastic_depth: Box<dyn Module> = match p > 0.0 {
            true => Box::new(StochasticDepth::new(p, StochasticDepthMode::Row)?),
            false => Box::new(Identity::new()),
        };
        Ok(MBConv {
            proj,
            stochastic_depth,
            layers,
            hooks: Hooks::new(),
        })
    }
}

forward!(MBConv, self, x, {
    let y = self.stochastic_depth.forward(&self.layers.forward(x)?)?;
    self.proj.forward(x)?.add(&y)
});

/// Attention of each group of positions, with a bias for their distances.
#[derive(Module)]
struct RelativePositionalMultiHeadAttention {
    relative_position_bias_table: Parameter,
    relative_position_index: Buffer,
    to_qkv: Linear,
    merge: Linear,
    #[module(skip)]
    heads: usize,
    hooks: Hooks,
}

impl RelativePositionalMultiHeadAttention {
    fn new(channels: usize, head_dim: usize, side: usize) -> Result<Self> {
        if head_dim == 0 || !channels.is_multiple_of(head_dim) {
            return Err(TorshError::invalid(
                "MaxVit",
                format!("{channels} channels are not divisible by head_dim {head_dim}"),
            ));
        }
        let heads = channels / head_dim;
        let to_qkv = Linear::builder(channels, 3 * channels).build()?;
        let merge = Linear::builder(channels, channels).build()?;
        let table = parameter(&[(2 * side - 1).pow(2), heads], 0.0)?;
        init::trunc_normal_(&table, 0.0, 0.02, -2.0, 2.0)?;
        let index = integers(
            &relative_position_index(&[side, side]),
            &[side * side, side * side],
        )?;
        Ok(RelativePositionalMultiHeadAttention {
            relative_position_bias_table: table,
            relative_position_index: Buffer::new(index),
            to_qkv,
            merge,
            heads,
            hooks: Hooks::new(),
        })
    }
}

impl Module for RelativePositionalMultiHeadAttention {
    /// Takes `[N, groups, positions, C]`.
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let length = self.relative_position_index.dims()[0];
            let bias = relative_position_bias(
                &self.relative_position_bias_table,
                &self.relative_position_index,
                length,
            )?;
            let qkv = heads(&self.to_qkv.forward(x)?, self.heads)?;
            // The square root is that of all channels, not of a head's.
            let scale = (self.merge.in_features() as f64).powf(-0.5);
            self.merge
                .forward(&attend(&qkv, Some(&bias), Some(scale), 0.0)?)
        })
    }
}

/// Attention and a perceptron within squares of neighbours, or within grids of positions that lie evenly over the image.
#[derive(Module)]
struct PartitionAttentionLayer {
    attn_layer: Sequential,
    mlp_layer: Sequential,
    stochastic_dropout: StochasticDepth,
    #[module(skip)]
    partition_size: usize,
    #[module(skip)]
    grid: bool,
    hooks: Hooks,
}

impl PartitionAttentionLayer {
    fn new(o: &MaxVitBuilder, channels: usize, grid: bool, p: f64) -> Result<Self> {
        let attention =
            RelativePositionalMultiHeadAttention::new(channels, o.head_dim, o.partition_size)?;
        let attn_layer = Sequential::new()
            .add(LayerNorm::new([channels])?)
            .add(attention)
            .add(Dropout::new(o.attention_dropout)?);
        let mlp_layer = Sequential::new()
            .add(LayerNorm::new([channels])?)
            .add(Linear::builder(channels, channels * o.mlp_ratio).build()?)
            .add(o.activation_layer.make()?)
            .add(Linear::builder(channels * o.mlp_ratio, channels).build()?)
            .add(Dropout::new(o.mlp_dropout)?);
        Ok(PartitionAttentionLayer {
            attn_layer,
            mlp_layer,
            stochastic_dropout: StochasticDepth::new(p, StochasticDepthMode::Row)?,
            partition_size: o.partition_size,
            grid,
            hooks: Hooks::new(),
        })
    }
}

impl Module for PartitionAttentionLayer {
    /// Takes `[N, C, H, W]`.
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let &[n, c, h, w] = x.dims() else {
                return Err(TorshError::shape(
                    "MaxVit",
                    format!("features are [N, C, H, W], got {}", x.describe()),
                ));
            };
            let side = self.partition_size;
            if h % side != 0 || w % side != 0 {
                return Err(TorshError::shape(
                    "MaxVit",
                    format!(
                        "features of {h} x {w} do not divide into partitions of {side} x {side}"
                    ),
                ));
            }
            // [n, c, rows, side, columns, side]: a window is one row and one column; a grid has one position of each.
            let (shape, order, back) = match self.grid {
                false => (
                    [n, c, h / side, side, w / side, side],
                    [0, 2, 4, 3, 5, 1],
                    [0, 5, 1, 3, 2, 4],
                ),
                true => (
                    [n, c, side, h / side, side, w / side],
                    [0, 3, 5, 2, 4, 1],
                    [0, 5, 3, 1, 4, 2],
                ),
            };
            let parts = x.reshape(shape)?.permute(order)?;
            let split: Vec<usize> = parts.dims().to_vec();
            let x = parts.reshape([n, (h / side) * (w / side), side * side, c])?;
            let x = x.add(
                &self
                    .stochastic_dropout
                    .forward(&self.attn_layer.forward(&x)?)?,
            )?;
            let x = x.add(
                &self
                    .stochastic_dropout
                    .forward(&self.mlp_layer.forward(&x)?)?,
            )?;
            x.reshape(split)?.permute(back)?.reshape([n, c, h, w])
        })
    }
}

/// Layers of one width.
#[derive(Module)]
struct MaxVitBlock {
    layers: Vec<MaxVitLayer>,
    hooks: Hooks,
}

/// A convolution, attention within windows, attention within grids.
#[derive(Module)]
struct MaxVitLayer {
    layers: Sequential,
    hooks: Hooks,
}

impl MaxVitLayer {
    fn new(o: &MaxVitBuilder, channels: [usize; 2], stride: i64, p: f64) -> Result<MaxVitLayer> {
        let mut layers = Sequential::new();
        layers.push_named("MBconv", MBConv::new(o, channels, stride, p)?)?;
        layers.push_named(
            "window_attention",
            PartitionAttentionLayer::new(o, channels[1], false, p)?,
        )?;
        layers.push_named(
            "grid_attention",
            PartitionAttentionLayer::new(o, channels[1], true, p)?,
        )?;
        Ok(MaxVitLayer {
            layers,
            hooks: Hooks::new(),
        })
    }
}

forward!(MaxVitLayer, self, x, self.layers.forward(x));

forward!(MaxVitBlock, self, x, {
    let mut x = x.clone();
    for layer in &self.layers {
        x = layer.forward(&x)?;
    }
    Ok(x)
});

/// The size behind a step of two.
fn halved(size: [usize; 2]) -> [usize; 2] {
    size.map(|n| n.div_ceil(2))
}

impl MaxVit {
    fn construct(o: &MaxVitBuilder) -> Result<MaxVit> {
        let widths = &o.block_channels;
        if widths.is_empty() || widths.len() != o.block_layers.len() {
            return Err(TorshError::invalid(
                o.name,
                format!(
                    "block_channels {widths:?} and block_layers {:?} have one number for each block",
                    o.block_layers
                ),
            ));
        }
        let mut size = halved(o.input_size);
        for i in 0..widths.len() {
            size = halved(size);
            if o.partition_size == 0 || size.iter().any(|n| n % o.partition_size != 0) {
                return Err(TorshError::invalid(
                    o.name,
                    format!(
                        "the input size {:?} of block {i} is not divisible by the partition size {}",
                        size, o.partition_size
                    ),
                )
                .with_hint("choose another input_size or partition_size"));
            }
        }
        let stem = Sequential::new()
            .add(
                Conv2dNormActivation::builder(3, o.stem_channels)
                    .stride(2)
                    .norm_layer(o.norm_layer.clone())
                    .activation_layer(o.activation_layer.clone())
                    .bias(false)
                    .build()?,
            )
            .add(
                Conv2dNormActivation::builder(o.stem_channels, o.stem_channels)
                    .norm_layer(None)
                    .activation_layer(None)
                    .bias(true)
                    .build()?,
            );
        let total: usize = o.block_layers.iter().sum();
        let (mut done, mut from) = (0, o.stem_channels);
        let mut blocks = Vec::with_capacity(widths.len());
        for (&to, &count) in widths.iter().zip(&o.block_layers) {
            let mut layers = Vec::with_capacity(count);
            for i in 0..count {
                // Evenly from 0 to stochastic_depth_prob.
                let p = match total {
                    0 | 1 => 0.0,
                    _ => o.stochastic_depth_prob * done as f64 / (total - 1) as f64,
                };
                let stride = if i == 0 { 2 } else { 1 };
                layers.push(MaxVitLayer::new(o, [from, to], stride, p)?);
                (done, from) = (done + 1, to);
            }
            blocks.push(MaxVitBlock {
                layers,
                hooks: Hooks::new(),
            });
        }
        let classifier = Sequential::new()
            .add(AdaptiveAvgPool2d::new(1)?)
            .add(Flatten::new())
            .add(LayerNorm::new([from])?)
            .add(Linear::builder(from, from).build()?)
            .add(Tanh::new())
            .add(
                Linear::builder(from, o.common.classes())
                    .bias(false)
                    .build()?,
            );
        let model = MaxVit {
            stem,
            blocks,
            classifier,
            input_size: o.input_size,
            training: Training::default(),
            hooks: Hooks::new(),
        };
        for module in model.modules() {
            let module = module as &dyn Any;
            let (weight, bias) = if let Some(conv) = module.downcast_ref::<Conv2d>() {
                (&conv.weight, &conv.bias)
            } else if let Some(linear) = module.downcast_ref::<Linear>() {
                (&linear.weight, &linear.bias)
            } else {
                continue;
            };
            init::normal_(weight, 0.0, 0.02)?;
            if let Some(bias) = bias {
                init::zeros_(bias)?;
            }
        }
        Ok(model)
    }
}

impl Module for MaxVit {
    /// Scores `[N, num_classes]` of images `[N, 3, H, W]` of the model's size. An error for others.
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            check_images("MaxVit", x, self.input_size)?;
            let mut x = self.stem.forward(x)?;
            for block in &self.blocks {
                x = block.forward(&x)?;
            }
            self.classifier.forward(&x)
        })
    }
}

impl VisionModel for MaxVit {}
