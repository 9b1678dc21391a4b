//! Vision transformers.

use std::any::Any;

use torsh_nn::{
    Conv2d, Dropout, Hooks, LayerNorm, Linear, Module, MultiheadAttention,
    MultiheadAttentionOptions, Parameter, Sequential, Tanh, Training, init,
};
use torsh_tensor::{Result, Tensor, TorshError, cat};

use super::blocks::{ActivationLayer, Conv2dNormActivation, MLP, NormLayer};
use super::builder::{model_builder, settings};
use super::checks::check_images;
use super::common::VisionModel;
use super::constructors;
use super::reset::{parameter, transformer_mlp};

/// A vision transformer: an image is cut into patches, each of which becomes a token, and what attention makes of a
/// class token goes to the head (Dosovitskiy et al., "An Image is Worth 16x16 Words",
/// <https://arxiv.org/abs/2010.11929>).
///
/// Takes images `[N, 3, image_size, image_size]`, 224 x 224 unless the builder says otherwise.
///
/// | constructor | patches | layers | heads | channels | parameters |
/// |---|---|---|---|---|---|
/// | [`vit_b_16`] | 16 | 12 | 12 | 768 | 86,567,656 |
/// | [`vit_b_32`] | 32 | 12 | 12 | 768 | 88,224,232 |
/// | [`vit_l_16`] | 16 | 24 | 16 | 1,024 | 304,326,632 |
/// | [`vit_l_32`] | 32 | 24 | 16 | 1,024 | 306,535,400 |
/// | [`vit_h_14`] | 14 | 32 | 16 | 1,280 | 632,045,800 |
///
/// ```
/// use torsh_nn::{Module, ModuleExt};
/// use torsh_tensor::rand;
/// use torsh_vision::models::VisionTransformer;
/// let model = VisionTransformer::builder()
///     .image_size(32)
///     .patch_size(8)
///     .num_layers(2)
///     .num_heads(2)
///     .hidden_dim(16)
///     .mlp_dim(32)
///     .num_classes(10)
///     .build()?;
/// model.eval();
/// assert_eq!(model.forward(&rand(&[1, 3, 32, 32]))?.dims(), [1, 10]);
/// let error = model.forward(&rand(&[1, 3, 32, 40])).err().map(|e| e.to_string());
/// assert!(error.is_some_and(|e| e.contains("32 x 40")));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct VisionTransformer {
    /// `[1, 1, hidden_dim]`: the token in front of the patches.
    pub class_token: Parameter,
    conv_proj: Box<dyn Module>,
    encoder: Encoder,
    heads: Sequential,
    #[module(skip)]
    image_size: usize,
    training: Training,
    hooks: Hooks,
}

/// A layer of a stem of convolutions, which can stand for the cutting into patches (Xiao et al., 2021).
///
/// ```
/// use torsh_vision::models::ConvStemConfig;
/// assert_eq!(ConvStemConfig::new(64, 3, 2).stride, 2);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConvStemConfig {
    /// Channels of its result.
    pub out_channels: usize,
    /// Its window.
    pub kernel_size: usize,
    /// Steps of the window.
    pub stride: usize,
    /// The norm behind it; a batch norm.
    pub norm_layer: NormLayer,
    /// The activation behind that; a ReLU.
    pub activation_layer: ActivationLayer,
}

impl ConvStemConfig {
    /// Describes a convolution with a batch norm and a ReLU; the fields take other ones.
    ///
    /// ```
    /// use torsh_vision::models::ConvStemConfig;
    /// let layer = ConvStemConfig::new(64, 3, 2);
    /// assert_eq!((layer.out_channels, layer.kernel_size, layer.stride), (64, 3, 2));
    /// assert_eq!(format!("{:?}", layer.norm_layer), "NormLayer(\"BatchNorm2d\")");
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn new(out_channels: usize, kernel_size: usize, stride: usize) -> ConvStemConfig {
        ConvStemConfig {
            out_channels,
            kernel_size,
            stride,
            norm_layer: NormLayer::batch_norm_2d(),
            activation_layer: ActivationLayer::relu(),
        }
    }
}

model_builder! {
    /// Builds a [`VisionTransformer`]. The default is [`vit_b_16`]'s numbers.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_tensor::Device;
    /// use torsh_vision::models::VisionTransformer;
    /// let model = VisionTransformer::builder().image_size(384).device(Device::Meta).build()?;
    /// // Larger images have more places, each with a vector of its own.
    /// assert_eq!(model.num_parameters(), 86_567_656 + (24 * 24 - 14 * 14) * 768);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    VisionTransformerBuilder of VisionTransformer, Classification 86_567_656 parameters, head ["heads.head."], loading |loading, _this| loading.rename(renamed);
    options {
        /// Height and width of the images.
        image_size: usize = 224;
        /// Height and width of a patch, by which `image_size` is divisible.
        patch_size: usize = 16;
        /// How many blocks there are.
        num_layers: usize = 12;
        /// How many heads attend; `hidden_dim` is divisible by it.
        num_heads: usize = 12;
        /// Channels of a token.
        hidden_dim: usize = 768;
        /// Channels inside the blocks' perceptrons.
        mlp_dim: usize = 3072;
        /// With which probability values are dropped while training. The default is 0.
        dropout: f64 = 0.0;
        /// With which probability weights of the attention are dropped while training. The default is 0.
        attention_dropout: f64 = 0.0;
        /// Channels of a layer ahead of the head, with a tanh. The default is none.
        representation_size: Option<usize> = None, impl Into<Option<usize>> => Into::into;
    }
    parts {
        /// Convolutions instead of the cutting into patches. The default is none.
        conv_stem_configs: Vec<ConvStemConfig> = Vec::new(), impl Into<Vec<ConvStemConfig>> => Into::into;
    }
}

settings!(VisionTransformerBuilder);

impl VisionTransformerBuilder {
    fn preset(
        mut self,
        name: &'static str,
        patch: usize,
        layers: usize,
        heads: usize,
        widths: [usize; 2],
    ) -> Self {
        self.name = name;
        self.patch_size(patch)
            .num_layers(layers)
            .num_heads(heads)
            .hidden_dim(widths[0])
            .mlp_dim(widths[1])
    }
}

macro_rules! transformers {
    ($($(#[$doc:meta])* $name:ident $(as $short:ident)?, $patch:literal $layers:literal $heads:literal $widths:expr, $count:literal parameters;)*) => {
        impl VisionTransformer {
            /// Makes the model of a configuration.
            ///
            /// ```
            /// use torsh_nn::ModuleExt;
            /// use torsh_tensor::Device;
            /// use torsh_vision::models::VisionTransformer;
            /// let model = VisionTransformer::new((10, Device::Meta))?;
            /// assert_eq!(model.num_parameters(), 86_567_656 - 990 * (768 + 1));
            /// # Ok::<(), torsh_tensor::TorshError>(())
            /// ```
            ///
            /// # Errors
            /// Arguments that do not fit together, and weights that cannot be read or do not fit.
            #[torsh_tensor::names_caller(Self)]
            pub fn new(config: impl Into<VisionTransformerBuilder>) -> Result<VisionTransformer> {
                config.into().build()
            }

            $(
                #[doc = concat!("Makes [`", stringify!($name), "`](fn@", stringify!($name), ") with the classes, device, size of images and weights of a configuration.")]
                #[doc = $crate::models::common::example!(
                    "use torsh_nn::ModuleExt;\n\
                     use torsh_tensor::Device;\n\
                     use torsh_vision::models::VisionTransformer;\n\
                     let model = VisionTransformer::", stringify!($name), "((1000, Device::Meta))?;\n\
                     assert_eq!(model.num_parameters(), ", stringify!($count), ");"
                )]
                #[torsh_tensor::names_caller]
                pub fn $name(config: impl Into<VisionTransformerBuilder>) -> Result<VisionTransformer> {
                    config
                        .into()
                        .preset(stringify!($name), $patch, $layers, $heads, $widths)
                        .build()
                }

                $(
                    #[doc = concat!("[`VisionTransformer::", stringify!($name), "`] by its size alone.")]
                    #[doc = $crate::models::common::example!(
                        "use torsh_nn::ModuleExt;\n\
                         use torsh_tensor::Device;\n\
                         use torsh_vision::models::VisionTransformer;\n\
                         let model = VisionTransformer::", stringify!($short), "((1000, Device::Meta))?;\n\
                         assert_eq!(model.num_parameters(), ", stringify!($count), ");"
                    )]
                    #[track_caller]
                    pub fn $short(config: impl Into<VisionTransformerBuilder>) -> Result<VisionTransformer> {
                        VisionTransformer::$name(config)
                    }
                )?
            )*
        }

        constructors! {
            Classification, VisionTransformer;
            $(
                $(#[$doc])*
                $name, $count parameters => VisionTransformer::builder()
                    .preset(stringify!($name), $patch, $layers, $heads, $widths);
            )*
        }
    };
}

transformers! {
    /// ViT-B/16, the base transformer on patches of 16 x 16: 86.6 million parameters, images of 224 x 224
    /// (<https://arxiv.org/abs/2010.11929>).
    vit_b_16 as base, 16 12 12 [768, 3072], 86_567_656 parameters;
    /// ViT-B/32, the base transformer on patches of 32 x 32: 88.2 million parameters, images of 224 x 224
    /// (<https://arxiv.org/abs/2010.11929>).
    vit_b_32, 32 12 12 [768, 3072], 88_224_232 parameters;
    /// ViT-L/16, the large transformer on patches of 16 x 16: 304.3 million parameters, images of 224 x 224
    /// (<https://arxiv.org/abs/2010.11929>).
    vit_l_16 as large, 16 24 16 [1024, 4096], 304_326_632 parameters;
    /// ViT-L/32, the large transformer on patches of 32 x 32: 306.5 million parameters, images of 224 x 224
    /// (<https://arxiv.org/abs/2010.11929>).
    vit_l_32, 32 24 16 [1024, 4096], 306_535_400 parameters;
    /// ViT-H/14, the huge transformer on patches of 14 x 14: 632.0 million parameters, images of 224 x 224, and of 518 x 518
    /// with the published weights (<https://arxiv.org/abs/2010.11929>).
    vit_h_14 as huge, 14 32 16 [1280, 5120], 632_045_800 parameters;
}

/// Attention and a perceptron, each with a shortcut.
#[derive(Module)]
struct EncoderBlock {
    ln_1: LayerNorm,
    self_attention: MultiheadAttention,
    dropout: Dropout,
    ln_2: LayerNorm,
    mlp: MLP,
    hooks: Hooks,
}

impl EncoderBlock {
    fn new(o: &VisionTransformerBuilder) -> Result<EncoderBlock> {
        let norm = || LayerNorm::builder([o.hidden_dim]).eps(1e-6).build();
        Ok(EncoderBlock {
            ln_1: norm()?,
            self_attention: MultiheadAttention::builder(o.hidden_dim, o.num_heads)
                .dropout(o.attention_dropout)
                .batch_first(true)
                .build()?,
            dropout: Dropout::new(o.dropout)?,
            ln_2: norm()?,
            mlp: transformer_mlp(o.hidden_dim, [o.mlp_dim, o.hidden_dim], o.dropout)?,
            hooks: Hooks::new(),
        })
    }
}

forward!(EncoderBlock, self, x, {
    let y = self.ln_1.forward(x)?;
    let options = MultiheadAttentionOptions::new().need_weights(false);
    let (y, _) = self.self_attention.forward_with(&y, &y, &y, options)?;
    let x = self.dropout.forward(&y)?.add(x)?;
    let y = self.mlp.forward(&self.ln_2.forward(&x)?)?;
    x.add(&y)
});

/// The positions' vectors and the blocks.
#[derive(Module)]
struct Encoder {
    pos_embedding: Parameter,
    dropout: Dropout,
    layers: Sequential,
    ln: LayerNorm,
    hooks: Hooks,
}

impl Encoder {
    fn new(o: &VisionTransformerBuilder, length: usize) -> Result<Encoder> {
        let pos_embedding = parameter(&[1, length, o.hidden_dim], 0.0)?;
        init::normal_(&pos_embedding, 0.0, 0.02)?;
        let mut layers = Sequential::new();
        for i in 0..o.num_layers {
            layers.push_named(format!("encoder_layer_{i}"), EncoderBlock::new(o)?)?;
        }
        Ok(Encoder {
            pos_embedding,
            dropout: Dropout::new(o.dropout)?,
            layers,
            ln: LayerNorm::builder([o.hidden_dim]).eps(1e-6).build()?,
            hooks: Hooks::new(),
        })
    }
}

forward!(Encoder, self, x, {
    let x = self.dropout.forward(&x.add(&self.pos_embedding)?)?;
    self.ln.forward(&self.layers.forward(&x)?)
});

/// Checkpoints of before torchvision 0.14 name the perceptrons' layers `linear_1` and `linear_2`.
fn renamed(name: &str) -> Option<String> {
    let old = [("mlp.linear_1.", "mlp.0."), ("mlp.linear_2.", "mlp.3.")];
    let found = old.iter().find(|(old, _)| name.contains(old));
    found.map(|(old, new)| name.replace(old, new))
}

/// Cuts the image into patches, or a stem of convolutions.
fn projection(o: &VisionTransformerBuilder) -> Result<Box<dyn Module>> {
    let (hidden, patch) = (o.hidden_dim, o.patch_size as i64);
    if o.conv_stem_configs.is_empty() {
        return Ok(Box::new(Conv2d::new(3, hidden, patch, patch, 0)?));
    }
    let (mut stem, mut channels) = (Sequential::new(), 3);
    for (i, layer) in o.conv_stem_configs.iter().enumerate() {
        let conv = Conv2dNormActivation::builder(channels, layer.out_channels)
            .kernel_size(layer.kernel_size as i64)
            .stride(layer.stride as i64)
            .norm_layer(layer.norm_layer.clone())
            .activation_layer(layer.activation_layer.clone());
        stem.push_named(format!("conv_bn_relu_{i}"), conv.build()?)?;
        channels = layer.out_channels;
    }
    stem.push_named("conv_last", Conv2d::new(channels, hidden, 1, 1, 0)?)?;
    Ok(Box::new(stem))
}

impl VisionTransformer {
    fn construct(o: &VisionTransformerBuilder) -> Result<VisionTransformer> {
        if o.patch_size == 0 || !o.image_size.is_multiple_of(o.patch_size) {
            return Err(TorshError::invalid(
                o.name,
                format!(
                    "image_size {} is not divisible by patch_size {}",
                    o.image_size, o.patch_size
                ),
            ));
        }
        let hidden = o.hidden_dim;
        let class_token = parameter(&[1, 1, hidden], 0.0)?;
        let conv_proj = projection(o)?;
        let encoder = Encoder::new(o, (o.image_size / o.patch_size).pow(2) + 1)?;
        let mut heads = Sequential::new();
        let mut features = hidden;
        let mut before = None;
        if let Some(size) = o.representation_size {
            before = Some(Linear::builder(hidden, size).build()?);
            features = size;
        }
        let head = Linear::builder(features, o.common.classes()).build()?;
        if let Some(conv) = (&*conv_proj as &dyn Any).downcast_ref::<Conv2d>() {
            let (fan_in, _) = init::calculate_fan_in_and_fan_out(&conv.weight)?;
            init::trunc_normal_(&conv.weight, 0.0, (1.0 / fan_in as f64).sqrt(), -2.0, 2.0)?;
            zero(&conv.bias)?;
        } else if let Some(stem) = (&*conv_proj as &dyn Any).downcast_ref::<Sequential>()
            && let Some(last) = stem.iter().last()
            && let Some(conv) = (last as &dyn Any).downcast_ref::<Conv2d>()
        {
            init::normal_(&conv.weight, 0.0, (2.0 / hidden as f64).sqrt())?;
            zero(&conv.bias)?;
        }
        if let Some(layer) = before {
            let std = (1.0 / hidden as f64).sqrt();
            init::trunc_normal_(&layer.weight, 0.0, std, -2.0, 2.0)?;
            zero(&layer.bias)?;
            heads.push_named("pre_logits", layer)?;
            heads.push_named("act", Tanh::new())?;
        }
        init::zeros_(&head.weight)?;
        zero(&head.bias)?;
        heads.push_named("head", head)?;
        Ok(VisionTransformer {
            class_token,
            conv_proj,
            encoder,
            heads,
            image_size: o.image_size,
            training: Training::default(),
            hooks: Hooks::new(),
        })
    }
}

fn zero(bias: &Option<Parameter>) -> Result<()> {
    match bias {
        Some(bias) => init::zeros_(bias).map(drop),
        None => Ok(()),
    }
}

impl Module for VisionTransformer {
    /// Scores `[N, num_classes]` of images `[N, 3, image_size, image_size]`. An error for other sizes.
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            check_images("VisionTransformer", x, [self.image_size; 2])?;
            let n = x.dims()[0];
            let x = self.conv_proj.forward(x)?.flatten(2)?.transpose(1, 2)?;
            let class_token = self.class_token.expand([n, 1, x.dims()[2]])?;
            let x = self.encoder.forward(&cat(&[class_token, x], 1)?)?;
            self.heads.forward(&x.select(1, 0)?)
        })
    }
}

impl VisionModel for VisionTransformer {}
