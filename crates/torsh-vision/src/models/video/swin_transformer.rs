//! Swin transformers of videos.

use torsh_functional as F;
use torsh_nn::{
    AdaptiveAvgPool3d, Conv3d, Dropout, Hooks, LayerNorm, Linear, Module, Sequential, Training,
};
use torsh_tensor::{Result, Tensor};

use crate::models::builder::model_builder;
use crate::models::checks::check_videos;
use crate::models::common::VisionModel;
use crate::models::constructors;
use crate::models::reset::{each, truncated};
use crate::models::shifted_window::{Attention, Common, Stages};

/// A Swin transformer of videos: attention within windows in space and time, shifted in every other block (Liu et al.,
/// "Video Swin Transformer", <https://arxiv.org/abs/2106.13230>).
///
/// Takes videos `[N, 3, T, H, W]` of any size; what does not divide into patches or windows is filled up with zeros.
///
/// | constructor | channels | blocks | parameters |
/// |---|---|---|---|
/// | [`swin3d_t`] | 96 | 2, 2, 6, 2 | 28,158,070 |
/// | [`swin3d_s`] | 96 | 2, 2, 18, 2 | 49,816,678 |
/// | [`swin3d_b`] | 128 | 2, 2, 18, 2 | 88,048,984 |
///
/// ```
/// use torsh_nn::{Module, ModuleExt};
/// use torsh_tensor::rand;
/// use torsh_vision::models::video::SwinTransformer3d;
/// let model = SwinTransformer3d::builder()
///     .embed_dim(8)
///     .depths([1, 2])
///     .num_heads([1, 2])
///     .window_size([2, 4, 4])
///     .num_classes(10)
///     .build()?;
/// model.eval();
/// assert_eq!(model.forward(&rand(&[1, 3, 5, 32, 36]))?.dims(), [1, 10]);
/// assert_eq!(model.num_parameters(), 9_737);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct SwinTransformer3d {
    patch_embed: PatchEmbed3d,
    pos_drop: Dropout,
    features: Sequential,
    norm: LayerNorm,
    avgpool: AdaptiveAvgPool3d,
    /// The classifier.
    pub head: Linear,
    training: Training,
    hooks: Hooks,
}

model_builder! {
    /// Builds a [`SwinTransformer3d`]. The default is [`swin3d_t`]'s numbers.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_tensor::Device;
    /// use torsh_vision::models::video::SwinTransformer3d;
    /// let model = SwinTransformer3d::builder().window_size([4, 7, 7]).device(Device::Meta).build()?;
    /// // In time 7 distances instead of 15, in height and width 13 each, for the 138 heads of all blocks.
    /// assert_eq!(model.num_parameters(), 28_158_070 - (15 - 7) * 13 * 13 * 138);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    SwinTransformer3dBuilder of SwinTransformer3d, Video 28_158_070 parameters, head ["head."];
    options {
        /// Pictures, height and width of a patch.
        patch_size: [usize; 3] = [2, 4, 4];
        /// Channels of the first stage; they double from stage to stage.
        embed_dim: usize = 96;
        /// How many blocks each stage has.
        depths: Vec<usize> = vec![2, 2, 6, 2], impl Into<Vec<usize>> => Into::into;
        /// How many heads attend in each stage.
        num_heads: Vec<usize> = vec![3, 6, 12, 24], impl Into<Vec<usize>> => Into::into;
        /// Time, height and width of a window, in patches.
        window_size: [usize; 3] = [8, 7, 7];
        /// By how much the blocks' perceptrons are wider inside.
        mlp_ratio: f64 = 4.0;
        /// With which probability values are dropped while training. The default is 0.
        dropout: f64 = 0.0;
        /// With which probability weights of the attention are dropped while training. The default is 0.
        attention_dropout: f64 = 0.0;
        /// With which probability the last block is left out while training; 0 at the first, rising evenly.
        stochastic_depth_prob: f64 = 0.1;
    }
}

impl SwinTransformer3dBuilder {
    fn preset(name: &'static str, embed_dim: usize, third: usize) -> Self {
        let first = embed_dim / 32;
        SwinTransformer3dBuilder {
            name,
            embed_dim,
            depths: vec![2, 2, third, 2],
            num_heads: vec![first, 2 * first, 4 * first, 8 * first],
            ..Default::default()
        }
    }
}

constructors! {
    Video, SwinTransformer3d;
    /// Video Swin-T: 28.2 million parameters, videos of 32 pictures of 224 x 224 (<https://arxiv.org/abs/2106.13230>).
    swin3d_t, 28_158_070 parameters => SwinTransformer3dBuilder::preset("swin3d_t", 96, 6);
    /// Video Swin-S: 49.8 million parameters, videos of 32 pictures of 224 x 224 (<https://arxiv.org/abs/2106.13230>).
    swin3d_s, 49_816_678 parameters => SwinTransformer3dBuilder::preset("swin3d_s", 96, 18);
    /// Video Swin-B: 88.0 million parameters, videos of 32 pictures of 224 x 224 (<https://arxiv.org/abs/2106.13230>).
    swin3d_b, 88_048_984 parameters => SwinTransformer3dBuilder::preset("swin3d_b", 128, 18);
}

/// Cuts a video into patches, `[N, T, H, W, C]`.
#[derive(Module)]
struct PatchEmbed3d {
    proj: Conv3d,
    norm: LayerNorm,
    #[module(skip)]
    patch_size: [usize; 3],
    hooks: Hooks,
}

forward!(PatchEmbed3d, self, x, {
    let mut pad = Vec::with_capacity(6);
    for d in (0..3).rev() {
        let n = x.dims()[d + 2];
        pad.extend([0, (n.next_multiple_of(self.patch_size[d]) - n) as i64]);
    }
    let x = match pad.iter().any(|&p| p > 0) {
        true => F::pad(x, pad)?,
        false => x.clone(),
    };
    let x = self.proj.forward(&x)?.permute([0, 2, 3, 4, 1])?;
    self.norm.forward(&x)
});

impl SwinTransformer3d {
    fn construct(o: &SwinTransformer3dBuilder) -> Result<SwinTransformer3d> {
        let common = Common {
            attention: Attention::Video,
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
        let [t, h, w] = o.patch_size.map(|p| p as i64);
        let patch_embed = PatchEmbed3d {
            proj: Conv3d::builder(3, o.embed_dim, (t, h, w))
                .stride((t, h, w))
                .build()?,
            norm: LayerNorm::builder([o.embed_dim]).eps(1e-5).build()?,
            patch_size: o.patch_size,
            hooks: Hooks::new(),
        };
        let mut features = Sequential::new();
        let width = stages.push(&mut features)?;
        let classes = o.common.num_classes.unwrap_or(400);
        let model = SwinTransformer3d {
            patch_embed,
            pos_drop: Dropout::new(o.dropout)?,
            features,
            norm: LayerNorm::builder([width]).eps(1e-5).build()?,
            avgpool: AdaptiveAvgPool3d::new(1)?,
            head: Linear::builder(width, classes).build()?,
            training: Training::default(),
            hooks: Hooks::new(),
        };
        each(&model, truncated)?;
        Ok(model)
    }
}

impl Module for SwinTransformer3d {
    /// Scores `[N, num_classes]` of videos `[N, 3, T, H, W]`.
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            check_videos("SwinTransformer3d", x)?;
            let x = self.pos_drop.forward(&self.patch_embed.forward(x)?)?;
            let x = self.norm.forward(&self.features.forward(&x)?)?;
            let x = self.avgpool.forward(&x.permute([0, 4, 1, 2, 3])?)?;
            self.head.forward(&x.flatten(1)?)
        })
    }
}

impl VisionModel for SwinTransformer3d {}
