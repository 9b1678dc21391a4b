//! Flips, sizes, paddings.

use torsh_tensor::{InterpolateMode, Result, Tensor, TorshError, option_setter};

use super::apply::{ItemTransform, fixed, probability, query_size};
use super::arguments::{Fills, Padding, PaddingMode, Size};
use super::draws::{below, between, rand};
use super::functional::{self as f, Move, PadOptions, ResizeOptions, moved_boxes, moved_points};
use super::sample::{Item, Mask};
use super::transforms;

/// An item where its pixels go: images by `pixels`, masks by `mask`.
pub(super) fn moved(
    item: &Item,
    movement: &Move,
    pixels: impl FnOnce(&Tensor) -> Result<Tensor>,
    mask: impl FnOnce(&Tensor) -> Result<Tensor>,
) -> Result<Item> {
    match item {
        Item::BoundingBoxes(b) => moved_boxes(b, movement).map(Item::BoundingBoxes),
        Item::KeyPoints(k) => moved_points(k, movement).map(Item::KeyPoints),
        Item::Mask(m) => on_mask(m, mask),
        _ => item.map(pixels),
    }
}

/// An item where `change` puts its pixels: images with an interpolation, masks with the nearest values.
pub(super) fn resampled(
    item: &Item,
    movement: &Move,
    interpolation: InterpolateMode,
    change: impl Fn(&Tensor, InterpolateMode) -> Result<Tensor>,
) -> Result<Item> {
    let nearest = |x: &Tensor| change(x, InterpolateMode::Nearest);
    moved(item, movement, |x| change(x, interpolation), nearest)
}

/// A mask changed as images are, also where it has no dimension of channels.
pub(super) fn on_mask(m: &Mask, change: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<Item> {
    let out = if m.ndim() < 3 {
        change(&m.unsqueeze(0)?)?.squeeze(0)?
    } else {
        change(m)?
    };
    Ok(Item::Mask(Mask(out)))
}

transforms!(
    RandomHorizontalFlip,
    RandomVerticalFlip,
    Resize,
    Pad,
    RandomZoomOut,
    ScaleJitter,
    RandomShortestSize,
    RandomResize
);

macro_rules! flips {
    ($($(#[doc = $doc:literal])+ $name:ident $text:literal $movement:ident $dim:literal;)*) => {$(
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug)]
        pub struct $name {
            p: f64,
        }

        impl $name {
            /// With this probability.
            #[doc = concat!(
                "\n```\n",
                "use torsh_vision::transforms::", stringify!($name), ";\n",
                "let error = ", stringify!($name), "::new(1.5).unwrap_err().to_string();\n",
                "assert!(error.contains(\"a probability is from 0 to 1, got 1.5\"));\n",
                "```",
            )]
            ///
            /// # Errors
            /// Not from 0 to 1.
            #[torsh_tensor::names_caller(Self)]
            pub fn new(p: f64) -> Result<Self> {
                Ok($name { p: probability($text, p)? })
            }
        }

        /// With a probability of one half.
        impl Default for $name {
            fn default() -> Self {
                $name { p: 0.5 }
            }
        }

        impl ItemTransform for $name {
            type Params = ();
            const NAME: &'static str = $text;
            fn probability(&self) -> Option<f64> {
                Some(self.p)
            }
            fn params(&self, _: &[&Item]) -> Result<()> {
                Ok(())
            }
            fn item(&self, item: &Item, (): &()) -> Result<Item> {
                moved(item, &Move::$movement, |x| x.flip($dim), |x| x.flip($dim))
            }
        }
    )*};
}
flips! {
    /// The image mirrored left to right, or as it is (`torchvision.transforms.v2.RandomHorizontalFlip`).
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::transforms::{RandomHorizontalFlip, Transform};
    /// let image = tensor![[[1, 2], [3, 4]]];
    /// assert_eq!(RandomHorizontalFlip::new(1.0)?.apply(&image)?, tensor![[[2, 1], [4, 3]]]);
    /// assert_eq!(RandomHorizontalFlip::new(0.0)?.apply(&image)?, image);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    RandomHorizontalFlip "RandomHorizontalFlip" HorizontalFlip -1;
    /// The image upside down, or as it is (`torchvision.transforms.v2.RandomVerticalFlip`).
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::transforms::{RandomVerticalFlip, Transform};
    /// let image = tensor![[[1, 2], [3, 4]]];
    /// assert_eq!(RandomVerticalFlip::new(1.0)?.apply(&image)?, tensor![[[3, 4], [1, 2]]]);
    /// assert_eq!(RandomVerticalFlip::new(0.0)?.apply(&image)?, image);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    RandomVerticalFlip "RandomVerticalFlip" VerticalFlip -2;
}

/// How images are resized.
#[derive(Clone, Debug)]
pub(super) struct Resampling {
    pub interpolation: InterpolateMode,
    pub antialias: bool,
}

impl Default for Resampling {
    fn default() -> Self {
        Resampling {
            interpolation: InterpolateMode::Bilinear,
            antialias: true,
        }
    }
}

impl Resampling {
    pub(super) fn options(&self) -> ResizeOptions {
        ResizeOptions::new()
            .interpolation(self.interpolation)
            .antialias(self.antialias)
    }

    /// Masks have the nearest values only.
    pub(super) fn of_masks(&self) -> ResizeOptions {
        let mode = match self.interpolation {
            InterpolateMode::NearestExact => InterpolateMode::NearestExact,
            _ => InterpolateMode::Nearest,
        };
        ResizeOptions::new().interpolation(mode)
    }

    fn item(&self, item: &Item, size: Option<Size>, max_size: Option<usize>) -> Result<Item> {
        moved(
            item,
            &Move::Resize(size, max_size),
            |x| f::resized(x, size, self.options().max_size(max_size)),
            |x| f::resized(x, size, self.of_masks().max_size(max_size)),
        )
    }
}

/// Setters of an interpolation and antialias.
macro_rules! resampling {
    ($($name:ident),*) => {$(
        impl $name {
            /// Nearest, NearestExact, Bilinear, Bicubic or Lanczos (Bilinear). Masks have the nearest values always.
            #[must_use]
            pub fn interpolation(mut self, interpolation: impl Into<::torsh_tensor::InterpolateMode>) -> Self {
                self.resampling.interpolation = interpolation.into();
                self
            }

            /// Whether an image that becomes smaller is smoothed (true).
            #[must_use]
            pub fn antialias(mut self, antialias: bool) -> Self {
                self.resampling.antialias = antialias;
                self
            }
        }
    )*};
}
pub(super) use resampling;
resampling!(Resize, ScaleJitter, RandomShortestSize, RandomResize);

/// The image in another size, smoothed where it becomes smaller (`torchvision.transforms.v2.Resize`).
///
/// ```
/// use torsh_tensor::zeros;
/// use torsh_vision::transforms::{Resize, Transform};
/// assert_eq!(Resize::new(10)?.apply(&zeros([3, 20, 40]))?.dims(), [3, 10, 20]);
/// assert_eq!(Resize::new([10, 11])?.apply(&zeros([3, 20, 40]))?.dims(), [3, 10, 11]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Resize {
    size: Option<Size>,
    max_size: Option<usize>,
    resampling: Resampling,
}

impl Resize {
    /// To `[height, width]`, or so that the shorter side has this size.
    ///
    /// ```
    /// use torsh_vision::transforms::Resize;
    /// let error = Resize::new([0, 10]).unwrap_err().to_string();
    /// assert!(error.contains("sizes must be positive, got Both(0, 10)"));
    /// ```
    ///
    /// # Errors
    /// A size of 0.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(size: impl Into<Size>) -> Result<Self> {
        let size = size.into();
        let (h, w) = size.both();
        if h == 0 || w == 0 {
            return Err(TorshError::invalid(
                "Resize",
                format!("sizes must be positive, got {size:?}"),
            ));
        }
        Ok(Resize {
            size: Some(size),
            max_size: None,
            resampling: Resampling::default(),
        })
    }

    /// So that the longer side has this size (`size=None, max_size=..`).
    ///
    /// ```
    /// use torsh_tensor::zeros;
    /// use torsh_vision::transforms::{Resize, Transform};
    /// assert_eq!(Resize::longest(20).apply(&zeros([3, 20, 40]))?.dims(), [3, 10, 20]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn longest(max_size: usize) -> Self {
        Resize {
            size: None,
            max_size: Some(max_size),
            resampling: Resampling::default(),
        }
    }

    option_setter! {
        /// What the longer side has at most, where the size is one number (no limit).
        max_size: Option<usize>, impl Into<Option<usize>> => Into::into
    }
}

fixed!(Resize, self, item, {
    self.resampling.item(item, self.size, self.max_size)
});

pub(super) fn padded(
    item: &Item,
    padding: Padding,
    fills: &Fills,
    mode: PaddingMode,
) -> Result<Item> {
    let options = PadOptions {
        fill: fills.of(item).clone(),
        padding_mode: mode,
    };
    let mask_options = options.clone();
    moved(
        item,
        &Move::Pad(padding, mode),
        |x| f::pad_with(x, padding, options),
        |x| f::pad_with(x, padding, mask_options),
    )
}

/// The image with pixels around it (`torchvision.transforms.v2.Pad`).
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::transforms::{Pad, PaddingMode, Transform};
/// let row = tensor![[[1.0, 2.0, 3.0]]];
/// assert_eq!(Pad::new([1, 0]).fill(9.0).apply(&row)?, tensor![[[9.0, 1.0, 2.0, 3.0, 9.0]]]);
/// let mirrored = Pad::new([0, 0, 2, 0]).padding_mode(PaddingMode::Reflect).apply(&row)?;
/// assert_eq!(mirrored, tensor![[[1.0, 2.0, 3.0, 2.0, 1.0]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Pad {
    padding: Padding,
    fill: Fills,
    padding_mode: PaddingMode,
}

impl Pad {
    /// As many pixels on all sides, or left and right, and top and bottom, or left, top, right, bottom; of value 0.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::transforms::{Pad, Transform};
    /// let padded = Pad::new([1, 0, 0, 1]).apply(&tensor![[[5.0]]])?;
    /// assert_eq!(padded, tensor![[[0.0, 5.0], [0.0, 0.0]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn new(padding: impl Into<Padding>) -> Self {
        Pad {
            padding: padding.into(),
            fill: Fills::new(0.0),
            padding_mode: PaddingMode::Constant,
        }
    }

    setters! {
        /// The pixels' value (0), with [`PaddingMode::Constant`].
        fill: Fills, impl Into<Fills> => Into::into;
        /// What the pixels are ([`PaddingMode::Constant`]). Boxes and key points have no other.
        padding_mode: PaddingMode, impl Into<PaddingMode> => Into::into;
    }
}

fixed!(Pad, self, item, {
    padded(item, self.padding, &self.fill, self.padding_mode)
});

/// The image at a random place of a larger one, or as it is (`torchvision.transforms.v2.RandomZoomOut`; W. Liu et al.,
/// "SSD: Single shot multibox detector", 2016).
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::transforms::{RandomZoomOut, Transform};
/// let twice = RandomZoomOut::new().fill(9.0).side_range(2.0, 2.0)?.p(1.0)?;
/// // A draw below 1 makes no whole pixel at the left and the top.
/// assert_eq!(twice.apply(&tensor![[[5.0]]])?, tensor![[[5.0, 9.0], [9.0, 9.0]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct RandomZoomOut {
    fill: Fills,
    side_range: (f64, f64),
    p: f64,
}

impl Default for RandomZoomOut {
    fn default() -> Self {
        RandomZoomOut {
            fill: Fills::new(0.0),
            side_range: (1.0, 4.0),
            p: 0.5,
        }
    }
}

impl RandomZoomOut {
    /// One to four times as large, with a probability of one half.
    pub fn new() -> Self {
        RandomZoomOut::default()
    }

    option_setter! {
        /// The value of the pixels around (0).
        fill: Fills, impl Into<Fills> => Into::into
    }

    /// From how many times to how many times as large (1 to 4).
    ///
    /// ```
    /// use torsh_vision::transforms::RandomZoomOut;
    /// let error = RandomZoomOut::new().side_range(0.5, 2.0).unwrap_err().to_string();
    /// assert!(error.contains("the side range must be from 1 upwards, got 0.5 to 2"));
    /// ```
    ///
    /// # Errors
    /// Below 1, or falling.
    #[torsh_tensor::names_caller]
    pub fn side_range(mut self, from: f64, to: f64) -> Result<Self> {
        if !(1.0 <= from && from <= to && to.is_finite()) {
            return Err(TorshError::invalid(
                "RandomZoomOut",
                format!("the side range must be from 1 upwards, got {from} to {to}"),
            ));
        }
        self.side_range = (from, to);
        Ok(self)
    }

    /// With which probability (0.5).
    ///
    /// # Errors
    /// Not from 0 to 1.
    #[torsh_tensor::names_caller]
    pub fn p(mut self, p: f64) -> Result<Self> {
        self.p = probability("RandomZoomOut", p)?;
        Ok(self)
    }
}

impl ItemTransform for RandomZoomOut {
    type Params = Padding;
    const NAME: &'static str = "RandomZoomOut";
    fn probability(&self) -> Option<f64> {
        Some(self.p)
    }
    fn params(&self, items: &[&Item]) -> Result<Padding> {
        let (h, w) = query_size(Self::NAME, items)?;
        let (from, to) = self.side_range;
        // Tensors of float32, as torchvision's.
        let r = rand(1)[0] * (to - from) as f32 + from as f32;
        let (width, height) = ((w as f32 * r) as i64, (h as f32 * r) as i64);
        let (h, w) = (h as i64, w as i64);
        let r = rand(2);
        let left = ((width - w) as f32 * r[0]) as i64;
        let top = ((height - h) as f32 * r[1]) as i64;
        Ok(Padding {
            left,
            top,
            right: width - left - w,
            bottom: height - top - h,
        })
    }
    fn item(&self, item: &Item, padding: &Padding) -> Result<Item> {
        padded(item, *padding, &self.fill, PaddingMode::Constant)
    }
}

/// The image in a random size, around what fits into a target (`torchvision.transforms.v2.ScaleJitter`; G. Ghiasi et
/// al., "Simple copy-paste is a strong data augmentation method for instance segmentation", 2021).
///
/// ```
/// use torsh_tensor::zeros;
/// use torsh_vision::transforms::{ScaleJitter, Transform};
/// // 4 x 2 pixels fit twice into 8 x 8.
/// let jitter = ScaleJitter::new(8).scale_range(0.5, 0.5);
/// assert_eq!(jitter.apply(&zeros([3, 4, 2]))?.dims(), [3, 4, 2]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ScaleJitter {
    target_size: (usize, usize),
    scale_range: (f64, f64),
    resampling: Resampling,
}

impl ScaleJitter {
    /// 0.1 to 2 times what fits into this size.
    pub fn new(target_size: impl Into<Size>) -> Self {
        ScaleJitter {
            target_size: target_size.into().both(),
            scale_range: (0.1, 2.0),
            resampling: Resampling::default(),
        }
    }

    /// From how many times to how many times (0.1 to 2).
    #[must_use]
    pub fn scale_range(mut self, from: f64, to: f64) -> Self {
        self.scale_range = (from, to);
        self
    }
}

impl ItemTransform for ScaleJitter {
    type Params = Size;
    const NAME: &'static str = "ScaleJitter";
    fn params(&self, items: &[&Item]) -> Result<Size> {
        let (h, w) = query_size(Self::NAME, items)?;
        let (from, to) = self.scale_range;
        let scale = rand(1)[0] * (to - from) as f32 + from as f32;
        let (target_h, target_w) = self.target_size;
        let fits = (target_w as f64 / h as f64).min(target_h as f64 / w as f64);
        let r = scale * fits as f32;
        Ok(Size::Both((h as f32 * r) as usize, (w as f32 * r) as usize))
    }
    fn item(&self, item: &Item, size: &Size) -> Result<Item> {
        self.resampling.item(item, Some(*size), None)
    }
}

/// The image with its shorter side of a random one of several sizes (`torchvision.transforms.v2.RandomShortestSize`).
///
/// ```
/// use torsh_tensor::zeros;
/// use torsh_vision::transforms::{RandomShortestSize, Transform};
/// let image = zeros([3, 20, 40]);
/// assert_eq!(RandomShortestSize::new([10])?.apply(&image)?.dims(), [3, 10, 20]);
/// assert_eq!(RandomShortestSize::new([10])?.max_size(16).apply(&image)?.dims(), [3, 8, 16]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct RandomShortestSize {
    min_size: Vec<usize>,
    max_size: Option<usize>,
    resampling: Resampling,
}

impl RandomShortestSize {
    /// Of these sizes.
    ///
    /// # Errors
    /// None.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(min_size: impl Into<Vec<usize>>) -> Result<Self> {
        let min_size = min_size.into();
        if min_size.is_empty() {
            return Err(TorshError::invalid(
                "RandomShortestSize",
                "at least one size is needed",
            ));
        }
        Ok(RandomShortestSize {
            min_size,
            max_size: None,
            resampling: Resampling::default(),
        })
    }

    option_setter! {
        /// What the longer side has at most (no limit).
        max_size: Option<usize>, impl Into<Option<usize>> => Into::into
    }
}

impl ItemTransform for RandomShortestSize {
    type Params = Size;
    const NAME: &'static str = "RandomShortestSize";
    fn params(&self, items: &[&Item]) -> Result<Size> {
        let (h, w) = query_size(Self::NAME, items)?;
        let short = self.min_size[below(self.min_size.len())];
        let mut r = short as f64 / h.min(w) as f64;
        if let Some(max) = self.max_size {
            r = r.min(max as f64 / h.max(w) as f64);
        }
        Ok(Size::Both((h as f64 * r) as usize, (w as f64 * r) as usize))
    }
    fn item(&self, item: &Item, size: &Size) -> Result<Item> {
        self.resampling.item(item, Some(*size), None)
    }
}

/// The image with its shorter side of a random size (`torchvision.transforms.v2.RandomResize`).
///
/// ```
/// use torsh_tensor::zeros;
/// use torsh_vision::transforms::{RandomResize, Transform};
/// // Of the sizes from 10 and below 11 there is one.
/// assert_eq!(RandomResize::new(10, 11)?.apply(&zeros([3, 20, 40]))?.dims(), [3, 10, 20]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct RandomResize {
    range: (usize, usize),
    resampling: Resampling,
}

impl RandomResize {
    /// From `min_size`, below `max_size`.
    ///
    /// ```
    /// use torsh_vision::transforms::RandomResize;
    /// let error = RandomResize::new(10, 10).unwrap_err().to_string();
    /// assert!(error.contains("no size is from 10 and below 10"));
    /// ```
    ///
    /// # Errors
    /// No size lies between them.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(min_size: usize, max_size: usize) -> Result<Self> {
        if min_size >= max_size {
            return Err(TorshError::invalid(
                "RandomResize",
                format!("no size is from {min_size} and below {max_size}"),
            ));
        }
        Ok(RandomResize {
            range: (min_size, max_size),
            resampling: Resampling::default(),
        })
    }
}

impl ItemTransform for RandomResize {
    type Params = Size;
    const NAME: &'static str = "RandomResize";
    fn params(&self, _: &[&Item]) -> Result<Size> {
        let (from, to) = self.range;
        Ok(Size::One(between(from as i64, to as i64) as usize))
    }
    fn item(&self, item: &Item, size: &Size) -> Result<Item> {
        self.resampling.item(item, Some(*size), None)
    }
}
