//! Layers that models of images, sound and texts share: attention and feed-forward layers by the names that several of
//! them have, patches of images and their positions.

use serde::{Deserialize, Serialize};
use torsh_functional as F;
use torsh_nn::{Conv2d, Dropout, Linear, Module, ModuleExt, init};
use torsh_tensor::{DType, InterpolateMode, InterpolateOptions, Result, Tensor, TorshError, cat};

use crate::blocks::{
    Activation, AttentionMask, AttentionSteps, KvCache, attend_with, join_heads, part, split_heads,
};

/// Height and width: one number for both, or two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ImageSize {
    /// Height and width are the same.
    Square(usize),
    /// Height and width.
    Sides([usize; 2]),
}

impl ImageSize {
    /// Height and width.
    ///
    /// ```
    /// use torsh_text::models::ImageSize;
    /// assert_eq!((ImageSize::Square(8).sides(), ImageSize::Sides([8, 4]).sides()), ([8, 8], [8, 4]));
    /// ```
    pub fn sides(self) -> [usize; 2] {
        match self {
            ImageSize::Square(side) => [side; 2],
            ImageSize::Sides(sides) => sides,
        }
    }
}

/// How weights are drawn: from a normal distribution of a deviation, cut off at two units for some models.
#[derive(Clone, Copy)]
pub(super) enum Draw {
    Normal(f64),
    Truncated(f64),
}

impl Draw {
    /// Draws a weight.
    pub(super) fn fill(self, weight: &Tensor) -> Result<()> {
        match self {
            Draw::Normal(std) => init::normal_(weight, 0.0, std)?,
            Draw::Truncated(std) => init::trunc_normal_(weight, 0.0, std, -2.0, 2.0)?,
        };
        Ok(())
    }

    /// A linear layer whose bias, where it has one, is zero.
    pub(super) fn linear(self, inputs: usize, outputs: usize, bias: bool) -> Result<Linear> {
        let layer = crate::blocks::init::linear(inputs, outputs, bias, 0.0)?;
        self.fill(&layer.weight)?;
        Ok(layer)
    }
}

/// Attention whose weights a layer drops in training.
pub(super) fn attend_dropping(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    mask: &AttentionMask,
    scale: Option<f64>,
    dropout: &Dropout,
) -> Result<Tensor> {
    let training = dropout.is_training();
    let steps = AttentionSteps {
        scale,
        dropout: if training { dropout.p() } else { 0.0 },
        ..AttentionSteps::default()
    };
    attend_with([q, k, v], mask, steps)
}

part! {
    /// Attention with the names that began with BART; `std` has the deviations of the weights on the way in and out.
    pub(super) Attention(width: usize, heads: usize, bias: bool, std: [f64; 2], dropout: f64) first {
        let [into, out] = std;
        let linear = |std| crate::blocks::init::linear(width, width, bias, std);
    } {
        k_proj: Linear = linear(into)?;
        v_proj: Linear = linear(into)?;
        q_proj: Linear = linear(into)?;
        out_proj: Linear = linear(out)?;
        dropout: Dropout = Dropout::new(dropout)?;
        #[module(skip)] heads: usize = heads;
    }
    forward |m, x| m.run(x, &AttentionMask::full(), None)
}

impl Attention {
    /// Attention of `x` `[batch, length, width]` to itself, and to what a layer of a cache holds.
    pub(super) fn run(
        &self,
        x: &Tensor,
        mask: &AttentionMask,
        cache: Option<(&mut KvCache, usize)>,
    ) -> Result<Tensor> {
        let part = |layer: &Linear| split_heads(&layer.forward(x)?, self.heads);
        let (q, mut k, mut v) = (
            part(&self.q_proj)?,
            part(&self.k_proj)?,
            part(&self.v_proj)?,
        );
        if let Some((cache, layer)) = cache {
            (k, v) = cache.update(layer, &k, &v)?;
        }
        self.out_proj.forward(&join_heads(&attend_dropping(
            &q,
            &k,
            &v,
            mask,
            None,
            &self.dropout,
        )?)?)
    }
}

part! {
    /// Attention with the names of ViT.
    pub(super) ImageAttention(width: usize, heads: usize, bias: bool, draw: Draw, dropout: f64) {
        q_proj: Linear = draw.linear(width, width, bias)?;
        k_proj: Linear = draw.linear(width, width, bias)?;
        v_proj: Linear = draw.linear(width, width, bias)?;
        o_proj: Linear = draw.linear(width, width, true)?;
        dropout: Dropout = Dropout::new(dropout)?;
        #[module(skip)] heads: usize = heads;
    }
    forward |m, x| {
        let part = |layer: &Linear| split_heads(&layer.forward(x)?, m.heads);
        let (q, k, v) = (
            part(&m.q_proj)?,
            part(&m.k_proj)?,
            part(&m.v_proj)?,
        );
        let y = attend_dropping(&q, &k, &v, &AttentionMask::full(), None, &m.dropout)?;
        m.o_proj.forward(&join_heads(&y)?)
    }
}

/// Two linear layers around an activation.
#[derive(Module)]
pub(super) struct Mlp {
    pub(super) fc1: Linear,
    pub(super) fc2: Linear,
    #[module(skip)]
    pub(super) activation: Activation,
}

impl Module for Mlp {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = self.activation.apply(&self.fc1.forward(x)?)?;
        self.fc2.forward(&x)
    }
}

part! {
    /// Images cut into patches, each of which becomes a token.
    pub(super) PatchEmbeddings(channels: usize, width: usize, patch: [usize; 2], draw: Draw) {
        projection: Conv2d = patch_convolution(channels, width, patch, true, draw)?;
    }
    /// Images `[batch, channels, height, width]` as tokens `[batch, patches, width]`.
    forward |m, pixel_values| patches(&m.projection, pixel_values)
}

/// The convolution that makes a token of each patch.
pub(super) fn patch_convolution(
    channels: usize,
    width: usize,
    patch: [usize; 2],
    bias: bool,
    draw: Draw,
) -> Result<Conv2d> {
    let patch = patch.map(|side| side as i64);
    let make = || {
        Conv2d::builder(channels, width, patch)
            .stride(patch)
            .bias(bias)
            .build()
    };
    let layer = torsh_nn::construct::Construction::new()
        .draw_nothing()
        .run(make)?;
    draw.fill(&layer.weight)?;
    if let Some(bias) = &layer.bias {
        init::zeros_(bias)?;
    }
    Ok(layer)
}

/// Images `[batch, channels, height, width]` as tokens `[batch, patches, width]`.
pub(super) fn patches(projection: &Conv2d, pixel_values: &Tensor) -> Result<Tensor> {
    let x = projection.forward(&pixel_values.to_dtype(projection.weight.dtype())?)?;
    x.flatten(2)?.transpose(1, 2)
}

/// How many patches an image of a size has in both directions.
pub(super) fn patch_grid(
    config: &'static str,
    image: [usize; 2],
    patch: [usize; 2],
) -> Result<[usize; 2]> {
    let [rows, columns] = [0, 1].map(|d| image[d].checked_div(patch[d]).unwrap_or(0));
    if rows > 0 && columns > 0 {
        return Ok([rows, columns]);
    }
    let why = format!("image_size = {image:?} has no patch of patch_size = {patch:?}");
    Err(TorshError::invalid(config, why))
}

/// Height and width of a batch of images.
pub(super) fn image_sides(
    model: &'static str,
    pixel_values: &Tensor,
    channels: usize,
) -> Result<[usize; 2]> {
    match *pixel_values.dims() {
        [_, c, height, width] if c == channels => Ok([height, width]),
        _ => Err(TorshError::shape(
            model,
            format!(
                "expected pixel_values [batch, {channels}, height, width], got {}",
                pixel_values.shape()
            ),
        )),
    }
}

/// An error for images of another size than the model's.
pub(super) fn check_sides(
    model: &'static str,
    found: [usize; 2],
    wanted: [usize; 2],
) -> Result<()> {
    if found == wanted {
        return Ok(());
    }
    let ([h, w], [height, width]) = (found, wanted);
    let why = format!("images of {h} x {w}, and the model is made for {height} x {width}");
    Err(TorshError::shape(model, why)
        .with_hint("resize them, or set interpolate_pos_encoding to adapt the positions"))
}

/// The positions `[1, 1 + patches, width]` of a class token and of the patches of images of `image`, for images of
/// `sides`: those of the patches are interpolated by cubic curves, computed in `dtype`.
///
/// Positions that are interpolated are those of a square image.
pub(super) fn positions_for(
    positions: &Tensor,
    sides: [usize; 2],
    image: [usize; 2],
    patch: [usize; 2],
    dtype: DType,
) -> Result<Tensor> {
    let grid = |sides: [usize; 2]| [sides[0] / patch[0], sides[1] / patch[1]];
    let to = grid(sides);
    if sides == image || sides[0] == sides[1] && to == grid(image) {
        return Ok(positions.clone());
    }
    let (count, width) = (positions.size(1)? - 1, positions.size(2)?);
    let side = count.isqrt();
    let square = positions
        .narrow(1, 1, count)?
        .reshape([1, side, side, width])?
        .permute([0, 3, 1, 2])?
        .to_dtype(dtype)?;
    let options = InterpolateOptions::new()
        .size(to)
        .mode(InterpolateMode::Bicubic)
        .align_corners(false);
    let of_patches = F::interpolate_with(&square, options)?
        .to_dtype(positions.dtype())?
        .permute([0, 2, 3, 1])?
        .reshape([1, to[0] * to[1], width])?;
    cat(&[positions.narrow(1, 0, 1)?, of_patches], 1)
}
