//! Arguments of transforms: sizes, paddings, fills, ranges.

use torsh_tensor::named::Named;
use torsh_tensor::{Result, TorshError};

use super::sample::Item;

/// A height and width, or one number.
///
/// One number is both sides of a crop, and the shorter side of an image that is resized.
///
/// ```
/// use torsh_vision::transforms::Size;
/// assert_eq!(Size::from(224), Size::One(224));
/// assert_eq!(Size::from([10, 20]), Size::Both(10, 20));
/// assert_eq!((Size::One(7).both(), Size::Both(10, 20).both()), ((7, 7), (10, 20)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// One number.
    One(usize),
    /// Height and width.
    Both(usize, usize),
}

impl Size {
    /// Height and width, the same for one number.
    pub fn both(self) -> (usize, usize) {
        match self {
            Size::One(n) => (n, n),
            Size::Both(h, w) => (h, w),
        }
    }
}

conversions! {
    usize => Size, |n| Size::One(n);
    [usize; 1] => Size, |[n]| Size::One(n);
    [usize; 2] => Size, |[h, w]| Size::Both(h, w);
    (usize, usize) => Size, |(h, w)| Size::Both(h, w);
}

/// Pixels around an image; negative ones cut it.
///
/// One number is for all sides, two are for left and right, and for top and bottom, four are left, top, right, bottom.
///
/// ```
/// use torsh_vision::transforms::Padding;
/// assert_eq!(Padding::from([1, 2]), Padding { left: 1, top: 2, right: 1, bottom: 2 });
/// assert_eq!(Padding::from([1, 2, 3, 4]), Padding { left: 1, top: 2, right: 3, bottom: 4 });
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Padding {
    /// At the left.
    pub left: i64,
    /// At the top.
    pub top: i64,
    /// At the right.
    pub right: i64,
    /// At the bottom.
    pub bottom: i64,
}

conversions! {
    i64 => Padding, |n| [n, n, n, n].into();
    [i64; 1] => Padding, |[n]| n.into();
    [i64; 2] => Padding, |[x, y]| [x, y, x, y].into();
}
impl From<[i64; 4]> for Padding {
    fn from([left, top, right, bottom]: [i64; 4]) -> Padding {
        Padding {
            left,
            top,
            right,
            bottom,
        }
    }
}

/// What is around an image.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::transforms::{Pad, PaddingMode, Transform};
/// let row = tensor![[[1, 2, 3]]];
/// let padded = |mode: PaddingMode| Pad::new([2, 0]).padding_mode(mode).apply(&row);
/// assert_eq!(padded(PaddingMode::Constant)?, tensor![[[0, 0, 1, 2, 3, 0, 0]]]);
/// assert_eq!(padded(PaddingMode::Edge)?, tensor![[[1, 1, 1, 2, 3, 3, 3]]]);
/// assert_eq!(padded(PaddingMode::Reflect)?, tensor![[[3, 2, 1, 2, 3, 2, 1]]]);
/// assert_eq!(padded("symmetric".parse()?)?, tensor![[[2, 1, 1, 2, 3, 3, 2]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PaddingMode {
    /// One value.
    #[default]
    Constant,
    /// The value at the edge.
    Edge,
    /// The image mirrored, without the edge again.
    Reflect,
    /// The image mirrored, with the edge again.
    Symmetric,
    /// A string that is none of the words; the function that gets it refuses it.
    #[doc(hidden)]
    Unknown(torsh_tensor::named::Unknown),
}

torsh_tensor::named! {
    PaddingMode, "padding_mode",
    "constant" => PaddingMode::Constant,
    "edge" => PaddingMode::Edge,
    "reflect" => PaddingMode::Reflect,
    "symmetric" => PaddingMode::Symmetric,
}

impl std::str::FromStr for PaddingMode {
    type Err = TorshError;
    fn from_str(s: &str) -> Result<Self> {
        PaddingMode::from(s)
            .known()
            .map_err(|e| e.renamed("padding_mode"))
    }
}

/// The value of pixels that the image does not have: none (0, without blending at the edge), one for all channels, or
/// one for each.
///
/// ```
/// use torsh_vision::transforms::Fill;
/// assert_eq!(Fill::from([0.1, 0.2, 0.3]).values(), Some(&[0.1, 0.2, 0.3][..]));
/// assert_eq!(Fill::from(0.5).values(), Some(&[0.5][..]));
/// assert_eq!(Fill::default().values(), None);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fill(pub(crate) Option<Vec<f64>>);

impl Fill {
    /// The values; `None` where there are none.
    pub fn values(&self) -> Option<&[f64]> {
        self.0.as_deref()
    }
}

impl From<f64> for Fill {
    fn from(v: f64) -> Fill {
        Fill(Some(vec![v]))
    }
}
impl<const N: usize> From<[f64; N]> for Fill {
    fn from(v: [f64; N]) -> Fill {
        Fill(Some(v.to_vec()))
    }
}
conversions! {
    Vec<f64> => Fill, |v| Fill(Some(v));
    Option<f64> => Fill, |v| Fill(v.map(|v| vec![v]));
}

/// Fills by the kind of the item; torchvision's dictionary of fills.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::transforms::{Fills, Image, Mask, Pad, Transform};
/// let pad = Pad::new([1, 0]).fill(Fills::new(0.5).mask(9.0));
/// let sample = (Image::new(tensor![[[1.0]]]), Mask::new(tensor![[1]]));
/// let (image, mask) = pad.apply(&sample)?;
/// assert_eq!(image, Image::new(tensor![[[0.5, 1.0, 0.5]]]));
/// assert_eq!(mask, Mask::new(tensor![[9, 1, 9]]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fills {
    others: Fill,
    image: Option<Fill>,
    mask: Option<Fill>,
}

impl Fills {
    /// This fill for everything.
    pub fn new(fill: impl Into<Fill>) -> Fills {
        Fills {
            others: fill.into(),
            image: None,
            mask: None,
        }
    }

    setters! {
        /// Another fill for images and videos.
        image: Option<Fill>, impl Into<Fill> => |v| Some(v.into());
        /// Another fill for masks.
        mask: Option<Fill>, impl Into<Fill> => |v| Some(v.into());
    }

    pub(crate) fn of(&self, item: &Item) -> &Fill {
        let own = match item {
            Item::Image(_) | Item::Video(_) => self.image.as_ref(),
            Item::Mask(_) => self.mask.as_ref(),
            _ => None,
        };
        own.unwrap_or(&self.others)
    }
}

impl<T: Into<Fill>> From<T> for Fills {
    fn from(fill: T) -> Fills {
        Fills::new(fill)
    }
}

/// A range; one number `x` is from `-x` to `x`, or around a middle where the transform says so.
///
/// ```
/// use torsh_vision::transforms::Span;
/// assert_eq!(Span::from(10.0), Span::Around(10.0));
/// assert_eq!(Span::from((0.6, 1.4)), Span::Between(0.6, 1.4));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Span {
    /// One number.
    Around(f64),
    /// From the first to the second.
    Between(f64, f64),
}

conversions! {
    f64 => Span, |v| Span::Around(v);
    (f64, f64) => Span, |(a, b)| Span::Between(a, b);
    [f64; 2] => Span, |[a, b]| Span::Between(a, b);
}

impl Span {
    /// Degrees from which to which.
    pub(crate) fn degrees(self, op: &'static str) -> Result<(f64, f64)> {
        match self {
            Span::Around(v) if v < 0.0 => Err(TorshError::invalid(
                op,
                format!("a single number of degrees must not be negative, got {v}"),
            )),
            Span::Around(v) => Ok((-v, v)),
            Span::Between(a, b) => Ok((a, b)),
        }
    }
}

/// One number for both directions, or one for x and one for y.
///
/// ```
/// use torsh_vision::transforms::Pair;
/// assert_eq!(Pair::from(2.0), Pair(2.0, 2.0));
/// assert_eq!(Pair::from([1.0, 3.0]), Pair(1.0, 3.0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair(pub f64, pub f64);

conversions! {
    f64 => Pair, |v| Pair(v, v);
    (f64, f64) => Pair, |(x, y)| Pair(x, y);
    [f64; 2] => Pair, |[x, y]| Pair(x, y);
}
