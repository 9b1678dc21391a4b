//! Multiscale vision transformers.

use torsh_functional::{self as F, InterpolateOptions};
use torsh_nn::{
    Conv3d, Dropout, Hooks, InterpolateMode, LayerNorm, Linear, MaxPool3d, Module, Parameter,
    Sequential, Training, init,
};
use torsh_tensor::{Result, Tensor, TorshError, cat};

use crate::models::blocks::{MLP, StochasticDepth, StochasticDepthMode};
use crate::models::builder::model_builder;
use crate::models::checks::check_videos;
use crate::models::common::{VisionModel, each_module};
use crate::models::constructors;
use crate::models::reset::{gelu_mlp, parameter, truncated};
use crate::models::windows::heads;

/// Time, height and width of a grid of tokens.
type Grid = [usize; 3];

/// A multiscale vision transformer: attention over all tokens of a video, whose queries, keys and values are pooled, so
/// that the tokens become fewer and wider (Fan et al., "Multiscale Vision Transformers",
/// <https://arxiv.org/abs/2104.11227>; the second version Li et al., "MViTv2", <https://arxiv.org/abs/2112.01526>).
///
/// Takes videos `[N, 3, T, H, W]`, or images `[N, 3, H, W]` for one picture, of the size that it was made for: 16 pictures
/// of 224 x 224 unless the builder says otherwise.
///
/// | constructor | blocks | parameters |
/// |---|---|---|
/// | [`mvit_v1_b`] | 16 | 36,610,672 |
/// | [`mvit_v2_s`] | 16 | 34,537,744 |
///
/// ```
/// use torsh_nn::{Module, ModuleExt};
/// use torsh_tensor::rand;
/// use torsh_vision::models::video::{MSBlockConfig, MViT};
/// let first = MSBlockConfig::new(1, 8, 16).kernel_kv([3, 3, 3]).stride_kv([1, 2, 2]);
/// let second = MSBlockConfig::new(2, 16, 16).kernel_q([3, 3, 3]).stride_q([1, 2, 2]);
/// let model = MViT::builder()
///     .block_setting([first, second])
///     .spatial_size([32, 32])
///     .temporal_size(4)
///     .num_classes(10)
///     .build()?;
/// model.eval();
/// assert_eq!(model.forward(&rand(&[1, 3, 4, 32, 32]))?.dims(), [1, 10]);
/// let error = model.forward(&rand(&[1, 3, 4, 32, 64])).err().map(|e| e.to_string());
/// assert!(error.is_some_and(|e| e.contains("4 pictures of 32 x 32")));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct MViT {
    conv_proj: Conv3d,
    pos_encoding: PositionalEncoding,
    blocks: Vec<MultiscaleBlock>,
    norm: LayerNorm,
    head: Sequential,
    #[module(skip)]
    size: [usize; 3],
    training: Training,
    hooks: Hooks,
}

/// What one block of an [`MViT`] does: channels, heads, and how it pools queries, keys and values. A kernel or stride
/// of `None` is not there.
///
/// ```
/// use torsh_vision::models::video::MSBlockConfig;
/// let block = MSBlockConfig::new(2, 96, 192).kernel_q([3, 3, 3]).stride_q([1, 2, 2]);
/// assert_eq!((block.stride_q, block.stride_kv), (Some([1, 2, 2]), None));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MSBlockConfig {
    /// How many heads attend.
    pub num_heads: usize,
    /// Channels of its input.
    pub input_channels: usize,
    /// Channels of its output.
    pub output_channels: usize,
    /// Window by which queries are pooled: time, height, width.
    pub kernel_q: Option<[usize; 3]>,
    /// Window by which keys and values are pooled.
    pub kernel_kv: Option<[usize; 3]>,
    /// Steps of the queries' window.
    pub stride_q: Option<[usize; 3]>,
    /// Steps of the keys' and values' window.
    pub stride_kv: Option<[usize; 3]>,
}

impl MSBlockConfig {
    /// Describes a block without pooling.
    ///
    /// ```
    /// use torsh_vision::models::video::MSBlockConfig;
    /// let block = MSBlockConfig::new(2, 96, 192);
    /// assert_eq!((block.num_heads, block.input_channels, block.output_channels), (2, 96, 192));
    /// assert_eq!((block.kernel_q, block.kernel_kv), (None, None));
    /// ```
    pub fn new(num_heads: usize, input_channels: usize, output_channels: usize) -> MSBlockConfig {
        MSBlockConfig {
            num_heads,
            input_channels,
            output_channels,
            kernel_q: None,
            kernel_kv: None,
            stride_q: None,
            stride_kv: None,
        }
    }

    setters! {
        /// Pools the queries by windows of this size.
        kernel_q: Option<[usize; 3]>, [usize; 3] => Some;
        /// Pools keys and values by windows of this size.
        kernel_kv: Option<[usize; 3]>, [usize; 3] => Some;
        /// Steps of the queries' windows.
        stride_q: Option<[usize; 3]>, [usize; 3] => Some;
        /// Steps of the keys' and values' windows.
        stride_kv: Option<[usize; 3]>, [usize; 3] => Some;
    }
}

model_builder! {
    /// Builds an [`MViT`]. The default is [`mvit_v1_b`]'s numbers.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_tensor::Device;
    /// use torsh_vision::models::video::MViT;
    /// let model = MViT::builder().temporal_size(8).device(Device::Meta).build()?;
    /// // Four places in time fewer, each with a vector of 96 numbers.
    /// assert_eq!(model.num_parameters(), 36_610_672 - 4 * 96);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    MViTBuilder of MViT, Video 36_610_672 parameters, head ["head.1."];
    options {
        /// Height and width of the pictures.
        spatial_size: [usize; 2] = [224, 224];
        /// How many pictures a video has.
        temporal_size: usize = 16;
        /// Whether the pooled queries are added to what they attend to; the second version does.
        residual_pool: bool = false;
        /// Whether the class token's query is added too.
        residual_with_cls_embed: bool = false;
        /// Whether distances have learned vectors, as in the second version, instead of places.
        rel_pos_embed: bool = false;
        /// Whether the number of channels changes in the attention, as in the second version, instead of in the perceptron.
        proj_after_attn: bool = false;
        /// With which probability features are dropped ahead of the head while training. The default is 0.5.
        dropout: f64 = 0.5;
        /// With which probability values are dropped in the blocks while training. The default is 0.
        attention_dropout: f64 = 0.0;
        /// With which probability the last block is left out while training; 0 at the first, rising evenly.
        stochastic_depth_prob: f64 = 0.2;
        /// Window by which the video is cut into tokens.
        patch_embed_kernel: [usize; 3] = [3, 7, 7];
        /// Steps of that window.
        patch_embed_stride: [usize; 3] = [2, 4, 4];
        /// What is added around the video.
        patch_embed_padding: [usize; 3] = [1, 3, 3];
    }
    parts {
        /// What each block does.
        block_setting: Vec<MSBlockConfig> = v1_b(), impl Into<Vec<MSBlockConfig>> => Into::into;
    }
}

/// Steps in height and width of keys and values.
const STRIDES_KV: [usize; 16] = [8, 4, 4, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1];
const HEADS: [usize; 16] = [1, 2, 2, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 8, 8];

fn v1_b() -> Vec<MSBlockConfig> {
    (0..16)
        .map(|i| {
            // A block's perceptron widens for the heads of the next.
            let width = |i: usize| 96 * HEADS[i.min(15)];
            let block = MSBlockConfig::new(HEADS[i], width(i), width(i + 1))
                .kernel_kv([3, 3, 3])
                .stride_kv([1, STRIDES_KV[i], STRIDES_KV[i]]);
            match i {
                1 | 3 | 14 => block.kernel_q([3, 3, 3]).stride_q([1, 2, 2]),
                _ => block,
            }
        })
        .collect()
}

fn v2_s() -> Vec<MSBlockConfig> {
    (0..16)
        .map(|i: usize| {
            // A block's attention widens for its own heads.
            let q = if matches!(i, 1 | 3 | 14) { 2 } else { 1 };
            MSBlockConfig::new(HEADS[i], 96 * HEADS[i.saturating_sub(1)], 96 * HEADS[i])
                .kernel_q([3, 3, 3])
                .stride_q([1, q, q])
                .kernel_kv([3, 3, 3])
                .stride_kv([1, STRIDES_KV[i], STRIDES_KV[i]])
        })
        .collect()
}

constructors! {
    Video, MViT;
    /// MViT-B: 36.6 million parameters, videos of 16 pictures of 224 x 224 (<https://arxiv.org/abs/2104.11227>).
    mvit_v1_b, 36_610_672 parameters => MViTBuilder { name: "mvit_v1_b", ..Default::default() };
    /// MViTv2-S: 34.5 million parameters, videos of 16 pictures of 224 x 224 (<https://arxiv.org/abs/2112.01526>).
    mvit_v2_s, 34_537_744 parameters => MViTBuilder {
        name: "mvit_v2_s",
        block_setting: v2_s(),
        residual_pool: true,
        rel_pos_embed: true,
        proj_after_attn: true,
        ..Default::default()
    };
}

/// A pooling of all tokens but the first, the class token.
#[derive(Module)]
struct Pool {
    pool: Box<dyn Module>,
    norm_act: Option<Sequential>,
    hooks: Hooks,
}

impl Pool {
    fn convolution(
        channels: usize,
        kernel: [usize; 3],
        stride: [usize; 3],
        eps: f64,
    ) -> Result<Pool> {
        let half = |k: usize| k as i64 / 2;
        let conv = Conv3d::builder(channels, channels, sizes(kernel))
            .stride(sizes(stride))
            .padding(kernel.map(half))
            .groups(channels as i64)
            .bias(false)
            .build()?;
        let norm = LayerNorm::builder([channels]).eps(eps).build()?;
        Ok(Pool {
            pool: Box::new(conv),
            norm_act: Some(Sequential::new().add(norm)),
            hooks: Hooks::new(),
        })
    }

    fn max(stride: [usize; 3]) -> Result<Pool> {
        let kernel = stride.map(|s| if s > 1 { s + 1 } else { s });
        let pool = MaxPool3d::builder(sizes(kernel))
            .stride(sizes(stride))
            .padding(kernel.map(|k| k as i64 / 2))
            .build()?;
        Ok(Pool {
            pool: Box::new(pool),
            norm_act: None,
            hooks: Hooks::new(),
        })
    }

    /// The pooled tokens and their grid, of `[N, heads, 1 + tokens, C]` or `[N, 1 + tokens, C]`.
    fn forward_with(&self, x: &Tensor, grid: Grid) -> Result<(Tensor, Grid)> {
        let mut out = grid;
        let y = self.hooks.run(self, x, |x| {
            let (y, pooled) = self.pool(x, grid)?;
            out = pooled;
            Ok(y)
        })?;
        Ok((y, out))
    }

    fn pool(&self, x: &Tensor, grid: Grid) -> Result<(Tensor, Grid)> {
        let whole = x.ndim() == 3;
        let x = if whole { x.unsqueeze(1)? } else { x.clone() };
        let (class_token, x) = (x.narrow(2, 0, 1)?, x.slice(2, 1, i64::MAX)?);
        let &[n, heads, _, channels] = x.dims() else {
            return Err(TorshError::shape(
                "MViT",
                format!("tokens are [N, heads, tokens, C], got {}", x.describe()),
            ));
        };
        let [t, h, w] = grid;
        let x = x
            .transpose(2, 3)?
            .reshape([n * heads, channels, t, h, w])?
            .contiguous()?;
        let x = self.pool.forward(&x)?;
        let grid = [x.dims()[2], x.dims()[3], x.dims()[4]];
        let x = x
            .reshape([n, heads, channels, grid.iter().product()])?
            .transpose(2, 3)?;
        let mut x = cat(&[class_token, x], 2)?;
        if let Some(norm) = &self.norm_act {
            x = norm.forward(&x)?;
        }
        Ok((if whole { x.squeeze(1)? } else { x }, grid))
    }
}

impl Module for Pool {
    #[torsh_tensor::names_caller]
    fn forward(&self, _x: &Tensor) -> Result<Tensor> {
        Err(needs_grid("Pool"))
    }
}

fn needs_grid(layer: &'static str) -> TorshError {
    TorshError::invalid(
        layer,
        "tokens alone do not say where they stand in the video",
    )
    .with_hint("run the whole MViT")
}

fn sizes(of: [usize; 3]) -> (i64, i64, i64) {
    let [t, h, w] = of.map(|n| n as i64);
    (t, h, w)
}

/// Attention whose queries, keys and values are pooled.
#[derive(Module)]
struct MultiscaleAttention {
    /// Learned vectors of distances in height, width and time.
    rel_pos_h: Option<Parameter>,
    rel_pos_w: Option<Parameter>,
    rel_pos_t: Option<Parameter>,
    qkv: Linear,
    project: Sequential,
    pool_q: Option<Pool>,
    pool_k: Option<Pool>,
    pool_v: Option<Pool>,
    #[module(skip)]
    num_heads: usize,
    #[module(skip)]
    residual_pool: bool,
    #[module(skip)]
    residual_with_cls_embed: bool,
    hooks: Hooks,
}

/// What all blocks of a model share.
#[derive(Clone, Copy)]
struct Common {
    residual_pool: bool,
    residual_with_cls_embed: bool,
    rel_pos_embed: bool,
    proj_after_attn: bool,
    dropout: f64,
    eps: f64,
}

impl MultiscaleAttention {
    fn new(
        input_size: Grid,
        output_dim: usize,
        c: &MSBlockConfig,
        o: Common,
    ) -> Result<MultiscaleAttention> {
        if c.num_heads == 0 || !output_dim.is_multiple_of(c.num_heads) {
            return Err(TorshError::invalid(
                "MViT",
                format!(
                    "{output_dim} channels do not divide into {} heads",
                    c.num_heads
                ),
            ));
        }
        let head_dim = output_dim / c.num_heads;
        let qkv = Linear::builder(c.input_channels, 3 * output_dim).build()?;
        let mut project = Sequential::new().add(Linear::builder(output_dim, output_dim).build()?);
        if o.dropout > 0.0 {
            project.push(Dropout::new(o.dropout)?);
        }
        let pool =
            |kernel: Option<[usize; 3]>, stride: Option<[usize; 3]>| match pooled(kernel, stride) {
                Some((kernel, stride)) => {
                    Pool::convolution(head_dim, kernel, stride, o.eps).map(Some)
                }
                None => Ok(None),
            };
        let pool_q = pool(c.kernel_q, c.stride_q)?;
        let pool_k = pool(c.kernel_kv, c.stride_kv)?;
        let pool_v = pool(c.kernel_kv, c.stride_kv)?;
        let table = |distances: usize| -> Result<Option<Parameter>> {
            let p = parameter(&[distances, head_dim], 0.0)?;
            init::trunc_normal_(&p, 0.0, 0.02, -2.0, 2.0)?;
            Ok(Some(p))
        };
        let (mut rel_pos_h, mut rel_pos_w, mut rel_pos_t) = (None, None, None);
        if o.rel_pos_embed {
            let size = input_size[1].max(input_size[2]);
            let along = |stride: Option<[usize; 3]>| size / stride.map_or(1, |s| s[1]).max(1);
            let spatial = 2 * along(c.stride_q).max(along(c.stride_kv)) - 1;
            rel_pos_h = table(spatial)?;
            rel_pos_w = table(spatial)?;
            rel_pos_t = table(2 * input_size[0] - 1)?;
        }
        Ok(MultiscaleAttention {
            rel_pos_h,
            rel_pos_w,
            rel_pos_t,
            qkv,
            project,
            pool_q,
            pool_k,
            pool_v,
            num_heads: c.num_heads,
            residual_pool: o.residual_pool,
            residual_with_cls_embed: o.residual_with_cls_embed,
            hooks: Hooks::new(),
        })
    }

    fn forward_with(&self, x: &Tensor, grid: Grid) -> Result<(Tensor, Grid)> {
        let mut out = grid;
        let y = self.hooks.run(self, x, |x| {
            let (y, pooled) = self.attend(x, grid)?;
            out = pooled;
            Ok(y)
        })?;
        Ok((y, out))
    }

    fn attend(&self, x: &Tensor, grid: Grid) -> Result<(Tensor, Grid)> {
        let [q, k, v] = heads(&self.qkv.forward(x)?, self.num_heads)?;
        let pool = |pool: &Option<Pool>, x: Tensor| match pool {
            Some(pool) => pool.forward_with(&x, grid),
            None => Ok((x, grid)),
        };
        let (k, k_grid) = pool(&self.pool_k, k)?;
        let (v, _) = pool(&self.pool_v, v)?;
        let (q, q_grid) = pool(&self.pool_q, q)?;
        let bias = match (&self.rel_pos_h, &self.rel_pos_w, &self.rel_pos_t) {
            (Some(h), Some(w), Some(t)) => Some(relative_bias(&q, q_grid, k_grid, [t, h, w])?),
            _ => None,
        };
        let options = F::ScaledDotProductAttentionOptions {
            attn_mask: bias,
            ..Default::default()
        };
        let mut x = F::scaled_dot_product_attention_with(&q, &k, &v, options)?;
        if self.residual_pool {
            x = if self.residual_with_cls_embed {
                x.add(&q)?
            } else {
                let rest = x.slice(2, 1, i64::MAX)?.add(&q.slice(2, 1, i64::MAX)?)?;
                cat(&[x.narrow(2, 0, 1)?, rest], 2)?
            };
        }
        let x = x.transpose(1, 2)?.flatten(2)?;
        Ok((self.project.forward(&x)?, q_grid))
    }
}

impl Module for MultiscaleAttention {
    #[torsh_tensor::names_caller]
    fn forward(&self, _x: &Tensor) -> Result<Tensor> {
        Err(needs_grid("MultiscaleAttention"))
    }
}

/// Kernel and stride, where pooling changes anything.
fn pooled(
    kernel: Option<[usize; 3]>,
    stride: Option<[usize; 3]>,
) -> Option<([usize; 3], [usize; 3])> {
    let (kernel, stride) = (kernel.unwrap_or([1; 3]), stride.unwrap_or([1; 3]));
    let one = |a: [usize; 3]| a.iter().product::<usize>() <= 1;
    (!(one(kernel) && one(stride))).then_some((kernel, stride))
}

/// The vectors of the distances of queries and keys along one dimension, `[queries, keys, C]`, of a table that is
/// stretched to the sizes.
fn distances(table: &Tensor, q: usize, k: usize) -> Result<Tensor> {
    let d = 2 * q.max(k) - 1;
    let table = if table.dims()[0] == d {
        table.clone()
    } else {
        let options = InterpolateOptions::new()
            .size([d])
            .mode(InterpolateMode::Linear);
        let signal = table.permute([1, 0])?.unsqueeze(0)?;
        F::interpolate_with(&signal, options)?
            .squeeze(0)?
            .permute([1, 0])?
    };
    let q_ratio = (k as f32 / q as f32).max(1.0);
    let k_ratio = (q as f32 / k as f32).max(1.0);
    let mut index = Vec::with_capacity(q * k);
    for i in 0..q {
        for j in 0..k {
            let distance = i as f32 * q_ratio - (j as f32 + (1.0 - k as f32)) * k_ratio;
            index.push(distance as i64);
        }
    }
    let index = Tensor::from_vec(index, [q * k])?.to_device(table.device())?;
    table
        .index_select(0, &index)?
        .reshape([q, k, table.dims()[1]])
}

/// What the distances add to the products of queries `[N, heads, 1 + tokens, C]` and keys: `[N, heads, 1 + tokens,
/// 1 + keys]`, nothing for the class token.
fn relative_bias(
    q: &Tensor,
    q_grid: Grid,
    k_grid: Grid,
    [t, h, w]: [&Parameter; 3],
) -> Result<Tensor> {
    let ([qt, qh, qw], [kt, kh, kw]) = (q_grid, k_grid);
    let &[n, heads, _, c] = q.dims() else {
        return Err(needs_grid("MultiscaleAttention"));
    };
    let q = q
        .slice(2, 1, i64::MAX)?
        .reshape([n, heads, qt, qh, qw, c])?;
    // Along each dimension: the products with the vectors, whose rows are the query's place there.
    let rel_h = q.matmul(&distances(h, qh, kh)?.transpose(1, 2)?)?;
    let rel_w = q
        .transpose(3, 4)?
        .matmul(&distances(w, qw, kw)?.transpose(1, 2)?)?
        .transpose(3, 4)?;
    let rel_t = q
        .transpose(2, 3)?
        .matmul(&distances(t, qt, kt)?.transpose(1, 2)?)?
        .transpose(2, 3)?;
    // [n, heads, qt, qh, qw, kt, kh, kw]
    let bias = rel_t
        .unsqueeze(-1)?
        .unsqueeze(-1)?
        .add(&rel_h.unsqueeze(-2)?.unsqueeze(-1)?)?
        .add(&rel_w.unsqueeze(-2)?.unsqueeze(-2)?)?
        .reshape([n, heads, qt * qh * qw, kt * kh * kw])?;
    F::pad(&bias, [1, 0, 1, 0])
}

/// Attention and a perceptron, each with a shortcut.
#[derive(Module)]
struct MultiscaleBlock {
    pool_skip: Option<Pool>,
    norm1: LayerNorm,
    norm2: LayerNorm,
    attn: MultiscaleAttention,
    mlp: MLP,
    stochastic_depth: StochasticDepth,
    project: Option<Linear>,
    #[module(skip)]
    proj_after_attn: bool,
    hooks: Hooks,
}

impl MultiscaleBlock {
    fn new(input_size: Grid, c: &MSBlockConfig, o: Common, p: f64) -> Result<MultiscaleBlock> {
        let stride = c.stride_q.unwrap_or([1; 3]);
        let pool_skip = match stride.iter().product::<usize>() > 1 {
            true => Some(Pool::max(stride)?),
            false => None,
        };
        let attn_dim = match o.proj_after_attn {
            true => c.output_channels,
            false => c.input_channels,
        };
        let norm1 = LayerNorm::builder([c.input_channels]).eps(o.eps).build()?;
        let norm2 = LayerNorm::builder([attn_dim]).eps(o.eps).build()?;
        let attn = MultiscaleAttention::new(input_size, attn_dim, c, o)?;
        let mlp = gelu_mlp(attn_dim, [4 * attn_dim, c.output_channels], o.dropout)?;
        let project = match c.input_channels == c.output_channels {
            true => None,
            false => Some(Linear::builder(c.input_channels, c.output_channels).build()?),
        };
        Ok(MultiscaleBlock {
            pool_skip,
            norm1,
            norm2,
            attn,
            mlp,
            stochastic_depth: StochasticDepth::new(p, StochasticDepthMode::Row)?,
            project,
            proj_after_attn: o.proj_after_attn,
            hooks: Hooks::new(),
        })
    }

    fn forward_with(&self, x: &Tensor, grid: Grid) -> Result<(Tensor, Grid)> {
        let mut out = grid;
        let y = self.hooks.run(self, x, |x| {
            let normed = self.norm1.forward(x)?;
            let (attended, attended_grid) = self.attn.forward_with(&normed, grid)?;
            out = attended_grid;
            let x = match &self.project {
                Some(project) if self.proj_after_attn => project.forward(&normed)?,
                _ => x.clone(),
            };
            let skip = match &self.pool_skip {
                Some(pool) => pool.forward_with(&x, grid)?.0,
                None => x,
            };
            let x = skip.add(&self.stochastic_depth.forward(&attended)?)?;
            let normed = self.norm2.forward(&x)?;
            let x = match &self.project {
                Some(project) if !self.proj_after_attn => project.forward(&normed)?,
                _ => x,
            };
            x.add(&self.stochastic_depth.forward(&self.mlp.forward(&normed)?)?)
        })?;
        Ok((y, out))
    }
}

impl Module for MultiscaleBlock {
    #[torsh_tensor::names_caller]
    fn forward(&self, _x: &Tensor) -> Result<Tensor> {
        Err(needs_grid("MultiscaleBlock"))
    }
}

/// The class token, and where the tokens stand.
#[derive(Module)]
struct PositionalEncoding {
    class_token: Parameter,
    spatial_pos: Option<Parameter>,
    temporal_pos: Option<Parameter>,
    class_pos: Option<Parameter>,
    #[module(skip)]
    grid: Grid,
    hooks: Hooks,
}

impl PositionalEncoding {
    fn new(channels: usize, grid: Grid, rel_pos_embed: bool) -> Result<PositionalEncoding> {
        let learned = |shape: &[usize]| match rel_pos_embed {
            true => Ok(None),
            false => parameter(shape, 0.0).map(Some),
        };
        Ok(PositionalEncoding {
            class_token: parameter(&[channels], 0.0)?,
            spatial_pos: learned(&[grid[1] * grid[2], channels])?,
            temporal_pos: learned(&[grid[0], channels])?,
            class_pos: learned(&[channels])?,
            grid,
            hooks: Hooks::new(),
        })
    }

    fn reset_parameters(&self) -> Result<()> {
        let more = [&self.spatial_pos, &self.temporal_pos, &self.class_pos];
        for p in std::iter::once(&self.class_token).chain(more.into_iter().flatten()) {
            init::trunc_normal_(p, 0.0, 0.02, -2.0, 2.0)?;
        }
        Ok(())
    }
}

impl Module for PositionalEncoding {
    /// The tokens `[N, tokens, C]` behind the class token, with their places.
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let (n, c) = (x.dims()[0], self.class_token.numel());
            let class_token = self.class_token.expand([n, 1, c])?;
            let x = cat(&[class_token, x.clone()], 1)?;
            let (Some(spatial), Some(temporal), Some(class)) =
                (&self.spatial_pos, &self.temporal_pos, &self.class_pos)
            else {
                return Ok(x);
            };
            // Every place of every time.
            let places = temporal.unsqueeze(1)?.add(&spatial.unsqueeze(0)?)?;
            let places = places.reshape([-1, c as i64])?;
            let places = cat(&[class.unsqueeze(0)?, places], 0)?;
            x.add(&places.unsqueeze(0)?)
        })
    }
}

impl MViT {
    fn construct(o: &MViTBuilder) -> Result<MViT> {
        let (Some(first), Some(last)) = (o.block_setting.first(), o.block_setting.last()) else {
            return Err(TorshError::invalid(o.name, "block_setting names no block"));
        };
        if o.patch_embed_stride.contains(&0) {
            return Err(TorshError::invalid(
                o.name,
                format!(
                    "patch_embed_stride must be positive, got {:?}",
                    o.patch_embed_stride
                ),
            ));
        }
        let conv_proj = Conv3d::builder(3, first.input_channels, sizes(o.patch_embed_kernel))
            .stride(sizes(o.patch_embed_stride))
            .padding(o.patch_embed_padding.map(|p| p as i64))
            .build()?;
        let [h, w] = o.spatial_size;
        let size = [o.temporal_size, h, w];
        let mut grid: Grid = std::array::from_fn(|d| size[d] / o.patch_embed_stride[d]);
        let pos_encoding = PositionalEncoding::new(first.input_channels, grid, o.rel_pos_embed)?;
        let common = Common {
            residual_pool: o.residual_pool,
            residual_with_cls_embed: o.residual_with_cls_embed,
            rel_pos_embed: o.rel_pos_embed,
            proj_after_attn: o.proj_after_attn,
            dropout: o.attention_dropout,
            eps: 1e-6,
        };
        let n = o.block_setting.len();
        let mut blocks = Vec::with_capacity(n);
        for (i, setting) in o.block_setting.iter().enumerate() {
            let p = match n {
                1 => 0.0,
                _ => o.stochastic_depth_prob * i as f64 / (n - 1) as f64,
            };
            blocks.push(MultiscaleBlock::new(grid, setting, common, p)?);
            if let Some(stride) = setting.stride_q {
                grid = std::array::from_fn(|d| grid[d] / stride[d].max(1));
            }
        }
        let classes = o.common.num_classes.unwrap_or(400);
        let model = MViT {
            conv_proj,
            pos_encoding,
            blocks,
            norm: LayerNorm::builder([last.output_channels])
                .eps(1e-6)
                .build()?,
            head: Sequential::new()
                .add(Dropout::new(o.dropout)?)
                .add(Linear::builder(last.output_channels, classes).build()?),
            size,
            training: Training::default(),
            hooks: Hooks::new(),
        };
        each_module(&model, |module| {
            if let Some(linear) = module.downcast_ref::<Linear>() {
                truncated(linear)?;
            } else if let Some(places) = module.downcast_ref::<PositionalEncoding>() {
                places.reset_parameters()?;
            }
            Ok(())
        })?;
        Ok(model)
    }
}

impl Module for MViT {
    /// Scores `[N, num_classes]` of videos `[N, 3, T, H, W]`. An error for other sizes than the model's.
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let x = if x.ndim() == 4 { x.unsqueeze(2)? } else { x.clone() };
            check_videos("MViT", &x)?;
            let x = self.conv_proj.forward(&x)?;
            let mut grid = self.pos_encoding.grid;
            if x.dims()[2..] != grid {
                let [t, h, w] = self.size;
                return Err(TorshError::shape(
                    "MViT",
                    format!(
                        "the model takes videos of {t} pictures of {h} x {w}, and these give {:?} tokens instead of {grid:?}",
                        &x.dims()[2..]
                    ),
                )
                .with_hint("resize the video, or give the builder another temporal_size and spatial_size"));
            }
            let mut x = self.pos_encoding.forward(&x.flatten(2)?.transpose(1, 2)?)?;
            for block in &self.blocks {
                (x, grid) = block.forward_with(&x, grid)?;
            }
            self.head.forward(&self.norm.forward(&x)?.select(1, 0)?)
        })
    }
}

impl VisionModel for MViT {}
