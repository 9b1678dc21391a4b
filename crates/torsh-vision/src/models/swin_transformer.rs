//! Swin transformers.

use torsh_nn::{
    AdaptiveAvgPool2d, Conv2d, Flatten, Hooks, LayerNorm, Linear, Module, Sequential, Training,
};
use torsh_tensor::{Result, Tensor, TorshError};

use super::blocks::Permute;
use super::builder::model_builder;
use super::checks::check_rank;
use super::common::VisionModel;
use super::constructors;
use super::reset::{each, truncated};
use super::shifted_window::{self, Attention, Stages};

/// A Swin transformer: attention within windows, shifted in every other block, while patches merge from stage to stage
/// (Liu et al., "Swin Transformer: Hierarchical Vision Transformer using Shifted Windows",
/// <https://arxiv.org/abs/2103.14030>; the second version <https://arxiv.org/abs/2111.09883>).
///
/// Takes images `[N, 3, H, W]`; sides that do not divide into patches lose the rest, and windows are filled up with
/// zeros.
///
/// | constructor | channels | blocks | window | parameters |
/// |---|---|---|---|---|
/// | [`swin_t`] | 96 | 2, 2, 6, 2 | 7 | 28,288,354 |
/// | [`swin_s`] | 96 | 2, 2, 18, 2 | 7 | 49,606,258 |
/// | [`swin_b`] | 128 | 2, 2, 18, 2 | 7 | 87,768,224 |
/// | [`swin_v2_t`] | 96 | 2, 2, 6, 2 | 8 | 28,351,570 |
/// | [`swin_v2_s`] | 96 | 2, 2, 18, 2 | 8 | 49,737,442 |
/// | [`swin_v2_b`] | 128 | 2, 2, 18, 2 | 8 | 87,930,848 |
///
/// ```
/// use torsh_nn::{Module, ModuleExt};
/// use torsh_tensor::rand;
/// use torsh_vision::models::SwinTransformer;
/// let model = SwinTransformer::builder()
///     .embed_dim(8)
///     .depths([1, 2])
///     .num_heads([1, 2])
///     .window_size([4, 4])
///     .num_classes(10)
///     .build()?;
/// model.eval();
/// assert_eq!(model.forward(&rand(&[1, 3, 32, 40]))?.dims(), [1, 10]);
/// assert_eq!(model.num_parameters(), 8_863);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct SwinTransformer {
    features: Sequential,
    norm: LayerNorm,
    permute: Permute,
    avgpool: AdaptiveAvgPool2d,
    flatten: Flatten,
    /// The classifier.
    pub head: Linear,
    #[module(skip)]
    patch_size: [usize; 2],
    training: Training,
    hooks: Hooks,
}

/// The version of a [`SwinTransformer`].
///
/// ```
/// use torsh_nn::ModuleExt;
/// use torsh_tensor::Device;
/// use torsh_vision::models::{SwinTransformer, SwinVersion};
/// let builder = SwinTransformer::builder().version(SwinVersion::V2).window_size([8, 8]);
/// let model = builder.device(Device::Meta).build()?;
/// assert!(model.get_parameter("features.1.0.attn.cpb_mlp.0.weight").is_ok());
/// assert_eq!(model.num_parameters(), 28_351_570);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SwinVersion {
    /// Products of queries and keys, with a learned table of biases (Liu et al., 2021).
    V1,
    /// Cosines of queries and keys, with biases that a small network makes of the distances (Liu et al., 2022).
    V2,
}

model_builder! {
    /// Builds a [`SwinTransformer`]. The default is [`swin_t`]'s numbers.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_tensor::Device;
    /// use torsh_vision::models::SwinTransformer;
    /// let model = SwinTransformer::builder().depths([2, 2, 18, 2]).device(Device::Meta).build()?;
    /// // That is the size of `swin_s`.
    /// assert_eq!(model.num_parameters(), 49_606_258);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    SwinTransformerBuilder of SwinTransformer, Classification 28_288_354 parameters, head ["head."];
    options {
        /// Height and width of a patch.
        patch_size: [usize; 2] = [4, 4];
        /// Channels of the first stage; they double from stage to stage.
        embed_dim: usize = 96;
        /// How many blocks each stage has.
        depths: Vec<usize> = vec![2, 2, 6, 2], impl Into<Vec<usize>> => Into::into;
        /// How many heads attend in each stage.
        num_heads: Vec<usize> = vec![3, 6, 12, 24], impl Into<Vec<usize>> => Into::into;
        /// Height and width of a window, in patches.
        window_size: [usize; 2] = [7, 7];
        /// By how much the blocks' perceptrons are wider inside.
        mlp_ratio: f64 = 4.0;
        /// With which probability values are dropped while training. The default is 0.
        dropout: f64 = 0.0;
        /// With which probability weights of the attention are dropped while training. The default is 0.
        attention_dropout: f64 = 0.0;
        /// With which probability the last block is left out while training; 0 at the first, rising evenly.
        stochastic_depth_prob: f64 = 0.1;
    }
    parts {
        /// The kind of attention.
        version: SwinVersion = SwinVersion::V1;
    }
}

impl SwinTransformerBuilder {
    fn preset(
        name: &'static str,
        version: SwinVersion,
        embed_dim: usize,
        third: usize,
        stochastic_depth_prob: f64,
    ) -> Self {
        let first = embed_dim / 32;
        SwinTransformerBuilder {
            name,
            embed_dim,
            depths: vec![2, 2, third, 2],
            num_heads: vec![first, 2 * first, 4 * first, 8 * first],
            window_size: match version {
                SwinVersion::V1 => [7, 7],
                SwinVersion::V2 => [8, 8],
            },
            stochastic_depth_prob,
            version,
            ..Default::default()
        }
    }
}

constructors! {
    Classification, SwinTransformer;
    /// Swin-T: 28.3 million parameters, images of 224 x 224 (<https://arxiv.org/abs/2103.14030>).
    swin_t, 28_288_354 parameters => SwinTransformerBuilder::preset("swin_t", SwinVersion::V1, 96, 6, 0.2);
    /// Swin-S: 49.6 million parameters, images of 224 x 224 (<https://arxiv.org/abs/2103.14030>).
    swin_s, 49_606_258 parameters => SwinTransformerBuilder::preset("swin_s", SwinVersion::V1, 96, 18, 0.3);
    /// Swin-B: 87.8 million parameters, images of 224 x 224 (<https://arxiv.org/abs/2103.14030>).
    swin_b, 87_768_224 parameters => SwinTransformerBuilder::preset("swin_b", SwinVersion::V1, 128, 18, 0.5);
    /// Swin-T of the second version: 28.4 million parameters, images of 256 x 256 (<https://arxiv.org/abs/2111.09883>).
    swin_v2_t, 28_351_570 parameters => SwinTransformerBuilder::preset("swin_v2_t", SwinVersion::V2, 96, 6, 0.2);
    /// Swin-S of the second version: 49.7 million parameters, images of 256 x 256 (<https://arxiv.org/abs/2111.09883>).
    swin_v2_s, 49_737_442 parameters => SwinTransformerBuilder::preset("swin_v2_s", SwinVersion::V2, 96, 18, 0.3);
    /// Swin-B of the second version: 87.9 million parameters, images of 256 x 256 (<https://arxiv.org/abs/2111.09883>).
    swin_v2_b, 87_930_848 parameters => SwinTransformerBuilder::preset("swin_v2_b", SwinVersion::V2, 128, 18, 0.5);
}

impl SwinTransformer {
    fn construct(o: &SwinTransformerBuilder) -> Result<SwinTransformer> {
        let common = shifted_window::Common {
            attention: match o.version {
                SwinVersion::V1 => Attention::V1,
                SwinVersion::V2 => Attention::V2,
            },
            window_size: o.window_size.to_vec(),
            mlp_ratio: o.mlp_ratio,
            dropout: o.dropout,
            attention_dropout: o.attention_dropout,
            eps: 1e-5,
        };
        let stages = Stages {
            name: o.name,
            embed_dim: o.embed_dim,
            depths: &o.depths,
            num_heads: &o.num_heads,
            stochastic_depth_prob: o.stochastic_depth_prob,
            common: &common,
        };
        let patch = o.patch_size.map(|p| p as i64);
        let embedding = Sequential::new()
            .add(
                Conv2d::builder(3, o.embed_dim, (patch[0], patch[1]))
                    .stride((patch[0], patch[1]))
                    .build()?,
            )
            .add(Permute::new([0, 2, 3, 1]))
            .add(LayerNorm::builder([o.embed_dim]).eps(1e-5).build()?);
        let mut features = Sequential::new().add(embedding);
        let width = stages.push(&mut features)?;
        let model = SwinTransformer {
            features,
            norm: LayerNorm::builder([width]).eps(1e-5).build()?,
            permute: Permute::new([0, 3, 1, 2]),
            avgpool: AdaptiveAvgPool2d::new(1)?,
            flatten: Flatten::new(),
            head: Linear::builder(width, o.common.classes()).build()?,
            patch_size: o.patch_size,
            training: Training::default(),
            hooks: Hooks::new(),
        };
        each(&model, truncated)?;
        Ok(model)
    }
}

impl Module for SwinTransformer {
    /// Scores `[N, num_classes]` of images `[N, 3, H, W]`. An error for images smaller than a patch.
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            check_rank("SwinTransformer", x)?;
            let [h, w] = self.patch_size;
            if x.dims()[2] < h || x.dims()[3] < w {
                return Err(TorshError::shape(
                    "SwinTransformer",
                    format!(
                        "the images are smaller than a patch of {h} x {w}: {}",
                        x.describe()
                    ),
                ));
            }
            let x = self.norm.forward(&self.features.forward(x)?)?;
            let x = self.avgpool.forward(&self.permute.forward(&x)?)?;
            self.head.forward(&self.flatten.forward(&x)?)
        })
    }
}

impl VisionModel for SwinTransformer {}
