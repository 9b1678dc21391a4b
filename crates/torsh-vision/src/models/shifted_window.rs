//! The layers of the Swin transformers: attention within shifted windows, its blocks, and the merging of patches.

use torsh_functional::{self as F, NormalizeOptions};
use torsh_nn::{
    Buffer, Hooks, LayerNorm, Linear, Module, Parameter, ReLU, Sequential, Training, init,
};
use torsh_tensor::{Result, Tensor, TorshError, cat, no_grad};

use super::blocks::{MLP, StochasticDepth, StochasticDepthMode};
use super::reset::{integers, numbers, parameter, transformer_mlp};
use super::windows::{Windows, attend, heads, relative_position_bias, relative_position_index};

/// Which of the three attentions of windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attention {
    /// Of images, with a table of biases.
    V1,
    /// Of images, by cosines, with biases from a small network.
    V2,
    /// Of videos, with a table of biases.
    Video,
}

/// What the blocks of a model share.
#[derive(Clone, Debug)]
pub(super) struct Common {
    pub(super) attention: Attention,
    pub(super) window_size: Vec<usize>,
    pub(super) mlp_ratio: f64,
    pub(super) dropout: f64,
    pub(super) attention_dropout: f64,
    pub(super) eps: f64,
}

/// Attention within windows, every other one shifted.
#[derive(Module)]
pub(super) struct ShiftedWindowAttention {
    relative_position_bias_table: Option<Parameter>,
    logit_scale: Option<Parameter>,
    relative_coords_table: Option<Buffer>,
    relative_position_index: Buffer,
    qkv: Linear,
    proj: Linear,
    cpb_mlp: Option<Sequential>,
    #[module(skip)]
    num_heads: usize,
    #[module(skip)]
    shift_size: Vec<usize>,
    #[module(skip)]
    common: Common,
    training: Training,
    hooks: Hooks,
}

impl ShiftedWindowAttention {
    fn new(dim: usize, num_heads: usize, shifted: bool, c: &Common) -> Result<Self> {
        if num_heads == 0 || !dim.is_multiple_of(num_heads) {
            return Err(TorshError::invalid(
                "SwinTransformer",
                format!("{dim} channels do not divide into {num_heads} heads"),
            ));
        }
        let window = &c.window_size;
        if window.contains(&0) {
            return Err(TorshError::invalid(
                "SwinTransformer",
                format!("window_size must be positive, got {window:?}"),
            ));
        }
        let qkv = Linear::builder(dim, 3 * dim).build()?;
        let proj = Linear::builder(dim, dim).build()?;
        let length: usize = window.iter().product();
        let index = relative_position_index(window);
        let index = match c.attention {
            Attention::Video => integers(&index, &[length, length])?,
            _ => integers(&index, &[length * length])?,
        };
        let mut layer = ShiftedWindowAttention {
            relative_position_bias_table: None,
            logit_scale: None,
            relative_coords_table: None,
            relative_position_index: Buffer::new(index),
            qkv,
            proj,
            cpb_mlp: None,
            num_heads,
            shift_size: window
                .iter()
                .map(|w| if shifted { w / 2 } else { 0 })
                .collect(),
            common: c.clone(),
            training: Training::default(),
            hooks: Hooks::new(),
        };
        if c.attention == Attention::V2 {
            layer.logit_scale = Some(parameter(&[num_heads, 1, 1], 10f64.ln())?);
            layer.relative_coords_table = Some(Buffer::new(coords_table(window)?));
            layer.cpb_mlp = Some(
                Sequential::new()
                    .add(Linear::builder(2, 512).build()?)
                    .add(ReLU::new())
                    .add(Linear::builder(512, num_heads).bias(false).build()?),
            );
            if let Some(bias) = &layer.qkv.bias {
                init::zeros_(&no_grad(|| bias.narrow(0, dim as i64, dim as i64))?)?;
            }
        } else {
            let rows = window.iter().map(|w| 2 * w - 1).product();
            let table = parameter(&[rows, num_heads], 0.0)?;
            init::trunc_normal_(&table, 0.0, 0.02, -2.0, 2.0)?;
            layer.relative_position_bias_table = Some(table);
        }
        Ok(layer)
    }

    /// What is added to the products within a window of `length` positions, `[1, heads, length, length]`.
    fn bias(&self, length: usize) -> Result<Tensor> {
        let full: usize = self.common.window_size.iter().product();
        let index = match length == full {
            true => self.relative_position_index.tensor().clone(),
            // A window that the video cuts off takes the first positions, as torchvision does.
            false => self
                .relative_position_index
                .narrow(0, 0, length as i64)?
                .narrow(1, 0, length as i64)?,
        };
        match (
            &self.cpb_mlp,
            &self.relative_coords_table,
            &self.relative_position_bias_table,
        ) {
            (Some(mlp), Some(coords), _) => {
                let table = mlp.forward(coords)?.reshape([-1, self.num_heads as i64])?;
                relative_position_bias(&table, &index, length)?
                    .sigmoid()?
                    .mul(16.0)
            }
            (_, _, Some(table)) => relative_position_bias(table, &index, length),
            _ => Err(TorshError::invalid(
                "ShiftedWindowAttention",
                "it has neither a table of biases nor a network that makes one",
            )),
        }
    }

    /// The projection to queries, keys and values. Attention by cosines has no bias of keys.
    fn project(&self, x: &Tensor) -> Result<Tensor> {
        let (Some(_), Some(bias)) = (&self.logit_scale, self.qkv.bias.as_deref()) else {
            return self.qkv.forward(x);
        };
        let n = bias.numel() as i64 / 3;
        let keys = bias.narrow(0, n, n)?.zeros_like()?;
        let bias = cat(&[bias.narrow(0, 0, n)?, keys, bias.narrow(0, 2 * n, n)?], 0)?;
        F::linear(x, &self.qkv.weight, Some(&bias))
    }
}

impl Module for ShiftedWindowAttention {
    /// Takes `[N, H, W, C]`, or `[N, T, H, W, C]` for videos.
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let c = &self.common;
            let dims = c.window_size.len();
            if x.ndim() != dims + 2 {
                return Err(TorshError::shape(
                    "ShiftedWindowAttention",
                    format!(
                        "expected {} dimensions, the last of them channels, got {}",
                        dims + 2,
                        x.describe()
                    ),
                ));
            }
            let sizes = &x.dims()[1..=dims];
            let (mut window, mut shift) = (c.window_size.clone(), self.shift_size.clone());
            for d in 0..dims {
                if c.attention == Attention::Video && sizes[d] <= window[d] {
                    window[d] = sizes[d];
                }
                if window[d] >= sizes[d] {
                    shift[d] = 0;
                }
            }
            let windows = Windows::new(sizes, &window, &shift);
            let mut bias = self.bias(windows.length())?;
            if let Some(mask) = windows.mask(x)? {
                bias = bias.add(&mask)?;
            }
            let x = windows.split(x)?;
            let [mut q, mut k, v] = heads(&self.project(&x)?, self.num_heads)?;
            let mut scale = None;
            if let Some(logit_scale) = &self.logit_scale {
                let unit = NormalizeOptions::new().dim(-1);
                let factor = logit_scale.clamp_max(100f64.ln())?.exp()?;
                q = F::normalize_with(&q, unit.clone())?.mul(&factor)?;
                k = F::normalize_with(&k, unit)?;
                scale = Some(1.0);
            }
            let training = self.training.get();
            let p = if training { c.attention_dropout } else { 0.0 };
            let x = attend(&[q, k, v], Some(&bias), scale, p)?;
            let x = F::dropout(&self.proj.forward(&x)?, c.dropout, training)?;
            windows.join(&x)
        })
    }
}

/// The distances within a window on a logarithmic scale, `[1, 2 H - 1, 2 W - 1, 2]`.
fn coords_table(window: &[usize]) -> Result<Tensor> {
    let along = |w: usize| (0..2 * w - 1).map(move |i| i as f32 - (w as f32 - 1.0));
    let (h, w) = (window[0], window[1]);
    let scaled = |v: f32, n: usize| {
        let v = v / (n as f32 - 1.0) * 8.0;
        let sign = if v == 0.0 { 0.0 } else { v.signum() };
        sign * (v.abs() + 1.0).log2() / 3.0
    };
    let values: Vec<f32> = along(h)
        .flat_map(|y| along(w).flat_map(move |x| [scaled(y, h), scaled(x, w)]))
        .collect();
    numbers(&values, &[1, 2 * h - 1, 2 * w - 1, 2])
}

/// Attention and a perceptron, each with a shortcut; the second version normalises what comes out, the first what goes
/// in.
#[derive(Module)]
pub(super) struct SwinTransformerBlock {
    norm1: LayerNorm,
    attn: ShiftedWindowAttention,
    stochastic_depth: StochasticDepth,
    norm2: LayerNorm,
    mlp: MLP,
    #[module(skip)]
    norm_last: bool,
    hooks: Hooks,
}

impl SwinTransformerBlock {
    pub(super) fn new(
        dim: usize,
        num_heads: usize,
        shifted: bool,
        stochastic_depth_prob: f64,
        c: &Common,
    ) -> Result<SwinTransformerBlock> {
        let norm1 = LayerNorm::builder([dim]).eps(c.eps).build()?;
        let attn = ShiftedWindowAttention::new(dim, num_heads, shifted, c)?;
        let stochastic_depth =
            StochasticDepth::new(stochastic_depth_prob, StochasticDepthMode::Row)?;
        let norm2 = LayerNorm::builder([dim]).eps(c.eps).build()?;
        let hidden = (dim as f64 * c.mlp_ratio) as usize;
        let mlp = transformer_mlp(dim, [hidden, dim], c.dropout)?;
        Ok(SwinTransformerBlock {
            norm1,
            attn,
            stochastic_depth,
            norm2,
            mlp,
            norm_last: c.attention == Attention::V2,
            hooks: Hooks::new(),
        })
    }
}

forward!(SwinTransformerBlock, self, x, {
    let part = |layer: &dyn Module, norm: &LayerNorm, x: &Tensor| {
        let y = match self.norm_last {
            true => norm.forward(&layer.forward(x)?)?,
            false => layer.forward(&norm.forward(x)?)?,
        };
        x.add(&self.stochastic_depth.forward(&y)?)
    };
    let x = part(&self.attn, &self.norm1, x)?;
    part(&self.mlp, &self.norm2, &x)
});

/// Squares of four positions become one of twice the channels: `[.., H, W, C]` to `[.., H / 2, W / 2, 2 C]`.
#[derive(Module)]
pub(super) struct PatchMerging {
    reduction: Linear,
    norm: LayerNorm,
    #[module(skip)]
    norm_last: bool,
    hooks: Hooks,
}

impl PatchMerging {
    pub(super) fn new(dim: usize, norm_last: bool, eps: f64) -> Result<PatchMerging> {
        let reduction = Linear::builder(4 * dim, 2 * dim).bias(false).build()?;
        let normed = if norm_last { 2 * dim } else { 4 * dim };
        Ok(PatchMerging {
            reduction,
            norm: LayerNorm::builder([normed]).eps(eps).build()?,
            norm_last,
            hooks: Hooks::new(),
        })
    }
}

forward!(PatchMerging, self, x, {
    let n = x.ndim();
    let (h, w) = (x.dims()[n - 3] as i64, x.dims()[n - 2] as i64);
    let mut x = x.clone();
    if h % 2 != 0 || w % 2 != 0 {
        x = F::pad(&x, [0, 0, 0, w % 2, 0, h % 2])?;
    }
    let (h, w) = (n as i64 - 3, n as i64 - 2);
    let corner = |y: i64, z: i64| {
        x.slice_step(h, Some(y), None, 2)?
            .slice_step(w, Some(z), None, 2)
    };
    let x = cat(
        &[corner(0, 0)?, corner(1, 0)?, corner(0, 1)?, corner(1, 1)?],
        -1,
    )?;
    match self.norm_last {
        true => self.norm.forward(&self.reduction.forward(&x)?),
        false => self.reduction.forward(&self.norm.forward(&x)?),
    }
});

/// The stages of a model.
pub(super) struct Stages<'a> {
    pub(super) name: &'static str,
    pub(super) embed_dim: usize,
    pub(super) depths: &'a [usize],
    pub(super) num_heads: &'a [usize],
    pub(super) stochastic_depth_prob: f64,
    pub(super) common: &'a Common,
}

impl Stages<'_> {
    /// Adds the stages and the merging of patches between them, and gives the channels of the last.
    pub(super) fn push(&self, features: &mut Sequential) -> Result<usize> {
        if self.depths.is_empty() || self.depths.len() != self.num_heads.len() {
            return Err(TorshError::invalid(
                self.name,
                format!(
                    "depths {:?} and num_heads {:?} have one number for each stage",
                    self.depths, self.num_heads
                ),
            ));
        }
        let c = self.common;
        let total: usize = self.depths.iter().sum();
        let (mut dim, mut done) = (self.embed_dim, 0);
        for (i, (&depth, &heads)) in self.depths.iter().zip(self.num_heads).enumerate() {
            if i > 0 {
                let norm_last = c.attention == Attention::V2;
                features.push(PatchMerging::new(dim, norm_last, c.eps)?);
                dim *= 2;
            }
            let mut stage = Sequential::new();
            for block in 0..depth {
                let p = match total {
                    1 => 0.0,
                    _ => self.stochastic_depth_prob * done as f64 / (total - 1) as f64,
                };
                stage.push(SwinTransformerBlock::new(dim, heads, block % 2 == 1, p, c)?);
                done += 1;
            }
            features.push(stage);
        }
        Ok(dim)
    }
}
