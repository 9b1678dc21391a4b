//! Multiscale vision transformers.

use torsh_functional::{self as F, InterpolateOptions};
use torsh_nn::{
    Conv3d, Dropout, Hooks, InterpolateMode, LayerNorm, Linear, MaxPool3d, Module, Parameter,
    Sequential, init,
};
use torsh_tensor::{Result, Tensor, TorshError, cat};

use crate::models::blocks::{MLP, StochasticDepth, StochasticDepthMode};
use crate::models::reset::{each, gelu_mlp, parameter, truncated};
use crate::models::windows::heads;

/// Time, height and width of a grid of tokens.
type Grid = [usize; 3];

/// What one block of an [`MViT`] does: channels, heads, and how it pools queries, keys and values. A kernel or stride
/// of `None` is not there.
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
                .bias(false).build()?;
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
    fn forward(&self, _x: &Tensor) -> Result<Tensor> {
        Err(needs_grid("Pool"))
    }
}

fn needs_grid(layer: &'static str) -> TorshError {
    TorshError::invalid(layer, "tokens alone do not say where they stand in the video")
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
        let pool = |kernel: Option<[usize; 3]>, stride: Option<[usize; 3]>| match pooled(kernel, stride) {
            Some((kernel, stride)) => Pool::convolution(head_dim, kernel, stride, o.eps).map(Some),
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
    fn forward(&self, _x: &Tensor) -> Result<Tensor> {
        Err(needs_grid("MultiscaleAttention"))
    }
}

/// Kernel and stride, where pooling changes anything.
fn pooled(kernel: Option<[usize; 3]>, stride: Option<[usize; 3]>) -> Option<([usize; 3], [usize; 3])> {
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
    table.index_select(0, &index)?.reshape([q, k, table.dims()[1]])
}

/// What the distances add to the products of queries `[N, heads, 1 + tokens, C]` and keys: `[N, heads, 1 + tokens,
/// 1 + keys]`, nothing for the class token.
fn relative_bias(q: &Tensor, q_grid: Grid, k_grid: Grid, [t, h, w]: [&Parameter; 3]) -> Result<Tensor> {
    let ([qt, qh, qw], [kt, kh, kw]) = (q_grid, k_grid);
    let &[n, heads, _, c] = q.dims() else {
        return Err(needs_grid("MultiscaleAttention"));
    };
    let q = q.slice(2, 1, i64::MAX)?.reshape([n, heads, qt, qh, qw, c])?;
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
