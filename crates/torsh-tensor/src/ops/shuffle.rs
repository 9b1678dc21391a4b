//! Channels to pixels and back, and channels of groups mixed.

use torsh_core::{Dims, Result, TorshError};

use crate::record::{OpRecord, sample};
use crate::{IntoDim, Tensor};

pub(crate) const RECORDS: &[&OpRecord] = &[&PIXEL_SHUFFLE, &PIXEL_UNSHUFFLE, &CHANNEL_SHUFFLE];

#[torsh_tensor::by_name(Tensor::pixel_shuffle)]
pub static PIXEL_SHUFFLE: OpRecord = OpRecord::new(
    "nn.functional.pixel_shuffle",
    "An image [.., c r r, h, w] as [.., c, h r, w r]: each group of r r channels becomes the pixels of squares.",
    "(Tensor input, int upscale_factor)",
)
.samples(|s| Ok(vec![sample![s.real(&[2, 4, 1, 3])?, 2]]));

#[torsh_tensor::by_name(Tensor::pixel_unshuffle)]
pub static PIXEL_UNSHUFFLE: OpRecord = OpRecord::new(
    "nn.functional.pixel_unshuffle",
    "An image [.., c, h r, w r] as [.., c r r, h, w]: the pixels of squares become channels.",
    "(Tensor input, int downscale_factor)",
)
.samples(|s| Ok(vec![sample![s.real(&[2, 1, 2, 6])?, 2]]));

#[torsh_tensor::by_name(Tensor::channel_shuffle)]
pub static CHANNEL_SHUFFLE: OpRecord = OpRecord::new(
    "nn.functional.channel_shuffle",
    "The channels (dimension 1) of several groups, taken from each group in turn.",
    "(Tensor input, int groups)",
)
.samples(|s| Ok(vec![sample![s.real(&[1, 6, 2])?, 3]]));

/// The factor and its square as sizes.
fn factor(op: &str, name: &str, factor: i64) -> Result<(usize, usize)> {
    let positive = usize::try_from(factor).ok().filter(|&r| r > 0);
    let Some(r) = positive else {
        return Err(TorshError::invalid(
            "",
            format!("{op} expects a positive {name}, but got {factor}"),
        ));
    };
    match r.checked_mul(r) {
        Some(square) => Ok((r, square)),
        None => Err(TorshError::invalid(
            "",
            format!("{name} {factor} is too large"),
        )),
    }
}

/// The batch dimensions, channels, height and width of an image.
fn image<'a>(op: &str, x: &'a Tensor) -> Result<(&'a [usize], [usize; 3])> {
    match x.dims() {
        [batch @ .., c, h, w] => Ok((batch, [*c, *h, *w])),
        dims => Err(TorshError::shape(
            "",
            format!(
                "{op} expects input to have at least 3 dimensions, but got input with {} dimension(s)",
                dims.len()
            ),
        )),
    }
}

/// `x` seen with `split` behind its `batch` dimensions, those reordered, then joined.
fn rearrange(
    x: &Tensor,
    batch: &[usize],
    split: &[usize],
    order: &[usize],
    joined: &[usize],
) -> Result<Tensor> {
    let with = |tail: &[usize]| -> Dims { batch.iter().chain(tail).copied().collect() };
    let n = batch.len();
    let order: Vec<i64> = (0..n)
        .chain(order.iter().map(|d| d + n))
        .map(|d| d as i64)
        .collect();
    let y = x
        .reshape(&with(split)[..])?
        .permute(&order[..])?
        .reshape(&with(joined)[..])?;
    // The result is never a view.
    if y.shares_storage(x) { y.copy() } else { Ok(y) }
}

fn pixel_shuffle(x: &Tensor, upscale_factor: i64) -> Result<Tensor> {
    let (batch, [c, h, w]) = image("pixel_shuffle", x)?;
    let (r, square) = factor("pixel_shuffle", "upscale_factor", upscale_factor)?;
    if !c.is_multiple_of(square) {
        return Err(TorshError::shape(
            "",
            format!(
                "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, but input.size(-3)={c} is not divisible by {square}"
            ),
        ));
    }
    let c = c / square;
    let (high, wide) = (h.checked_mul(r), w.checked_mul(r));
    let (Some(high), Some(wide)) = (high, wide) else {
        return Err(TorshError::invalid("", "the sizes overflow"));
    };
    let (split, order) = ([c, r, r, h, w], [0, 3, 1, 4, 2]);
    rearrange(x, batch, &split, &order, &[c, high, wide])
}

fn pixel_unshuffle(x: &Tensor, downscale_factor: i64) -> Result<Tensor> {
    let (batch, [c, h, w]) = image("pixel_unshuffle", x)?;
    let (r, square) = factor("pixel_unshuffle", "downscale_factor", downscale_factor)?;
    for (name, at, size) in [("height", -2, h), ("width", -1, w)] {
        if !size.is_multiple_of(r) {
            return Err(TorshError::shape(
                "",
                format!(
                    "pixel_unshuffle expects {name} to be divisible by downscale_factor, but input.size({at})={size} is not divisible by {r}"
                ),
            ));
        }
    }
    let Some(channels) = c.checked_mul(square) else {
        return Err(TorshError::invalid("", "the sizes overflow"));
    };
    let (h, w) = (h / r, w / r);
    let (split, order) = ([c, h, r, w, r], [0, 2, 4, 1, 3]);
    rearrange(x, batch, &split, &order, &[channels, h, w])
}

fn channel_shuffle(x: &Tensor, groups: i64) -> Result<Tensor> {
    let [n, c, rest @ ..] = x.dims() else {
        return Err(TorshError::shape("", two_dims(x)));
    };
    if rest.is_empty() {
        return Err(TorshError::shape("", two_dims(x)));
    }
    let Some(g) = usize::try_from(groups).ok().filter(|&g| g > 0) else {
        return Err(TorshError::invalid(
            "",
            format!(
                "Number of groups to divide channels in must be positive. Value of groups:{groups}"
            ),
        ));
    };
    if !c.is_multiple_of(g) {
        return Err(TorshError::shape(
            "",
            format!(
                "Number of channels must be divisible by groups. Got {c} channels and {g} groups."
            ),
        ));
    }
    let inner = rest.iter().product();
    let joined: Dims = std::iter::once(*c).chain(rest.iter().copied()).collect();
    rearrange(x, &[*n], &[g, c / g, inner], &[1, 0, 2], &joined)
}

fn two_dims(x: &Tensor) -> String {
    format!(
        "channel_shuffle expects input with > 2 dims, but got input with sizes {}",
        x.shape()
    )
}

#[torsh_tensor::functions]
impl Tensor {
    /// An image `[.., c r r, h, w]` as `[.., c, h r, w r]`: channels become the pixels of squares
    /// (`torch.nn.functional.pixel_shuffle`).
    ///
    /// `r` is `upscale_factor`. Keeps the dtype. An error for fewer than three dimensions, and where
    /// the channels are no multiple of `r r`.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// let x = tensor![[[1]], [[2]], [[3]], [[4]]];
    /// assert_eq!(x.pixel_shuffle(2)?, tensor![[[1, 2], [3, 4]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn pixel_shuffle(&self, upscale_factor: impl IntoDim) -> Result<Tensor> {
        self.named("pixel_shuffle", pixel_shuffle(self, upscale_factor.value()))
    }

    /// The inverse of [`Tensor::pixel_shuffle`]: pixels of squares become channels
    /// (`torch.nn.functional.pixel_unshuffle`).
    ///
    /// Keeps the dtype. An error for fewer than three dimensions, and where height or width are no
    /// multiple of the factor.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[[1, 2], [3, 4]]];
    /// assert_eq!(x.pixel_unshuffle(2)?, tensor![[[1]], [[2]], [[3]], [[4]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn pixel_unshuffle(&self, downscale_factor: impl IntoDim) -> Result<Tensor> {
        self.named(
            "pixel_unshuffle",
            pixel_unshuffle(self, downscale_factor.value()),
        )
    }

    /// The channels (dimension 1) of `groups` groups, taken from each in turn
    /// (`torch.nn.functional.channel_shuffle`).
    ///
    /// Shape and dtype stay. An error for fewer than three dimensions, and where the channels are no
    /// multiple of `groups`.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[[1], [2], [3], [4]]];
    /// assert_eq!(x.channel_shuffle(2)?, tensor![[[1], [3], [2], [4]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn channel_shuffle(&self, groups: impl IntoDim) -> Result<Tensor> {
        self.named("channel_shuffle", channel_shuffle(self, groups.value()))
    }
}
