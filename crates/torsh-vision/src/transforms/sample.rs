//! What transforms change: images and what goes with them.

use std::collections::{BTreeMap, HashMap};
use std::ops::Deref;

use torsh_tensor::{Result, Tensor, TorshError};

use crate::ops::IntoBoxFormat;

pub use crate::ops::BoundingBoxFormat;

macro_rules! wrappers {
    ($($(#[doc = $doc:literal])+ $name:ident;)*) => {$(
        $(#[doc = $doc])+
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name(pub Tensor);

        impl $name {
            /// Marks the tensor.
            pub fn new(data: Tensor) -> Self {
                $name(data)
            }

            /// The tensor.
            pub fn into_tensor(self) -> Tensor {
                self.0
            }
        }

        impl From<Tensor> for $name {
            fn from(data: Tensor) -> Self {
                $name(data)
            }
        }

        impl Deref for $name {
            type Target = Tensor;
            fn deref(&self) -> &Tensor {
                &self.0
            }
        }
    )*};
}
wrappers! {
    /// An image, or a batch of them: `[.., channels, height, width]` (`torchvision.tv_tensors.Image`). Beside it, a tensor that
    /// is not marked passes through.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::transforms::{Image, RandomHorizontalFlip, Transform};
    /// let sample = (tensor![7, 8], Image::new(tensor![[[1, 2]]]));
    /// let (labels, image) = RandomHorizontalFlip::new(1.0)?.apply(&sample)?;
    /// assert_eq!(image.into_tensor(), tensor![[[2, 1]]]);
    /// assert_eq!(labels, tensor![7, 8]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    Image;
    /// A video, or a batch of them: `[.., time, channels, height, width]` (`torchvision.tv_tensors.Video`). All its images
    /// change alike.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::transforms::{RandomHorizontalFlip, Transform, Video};
    /// let video = Video::new(tensor![[[[1, 2]]], [[[3, 4]]]]);
    /// let flipped = RandomHorizontalFlip::new(1.0)?.apply(&video)?;
    /// assert_eq!(flipped.into_tensor(), tensor![[[[2, 1]]], [[[4, 3]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    Video;
    /// Masks of segments or objects: `[.., height, width]` (`torchvision.tv_tensors.Mask`). Transforms of colours leave
    /// them, those of places read the nearest pixel.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::transforms::{Mask, RandomInvert, Resize, Transform};
    /// let mask = Mask::new(tensor![[1, 7]]);
    /// assert_eq!(Resize::new([1, 4])?.apply(&mask)?, Mask::new(tensor![[1, 1, 7, 7]]));
    /// assert_eq!(RandomInvert::new(1.0)?.apply(&mask)?, mask);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    Mask;
}

/// What becomes of boxes that reach beyond the image.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::transforms::{BoundingBoxes, ClampingMode, functional as TF};
/// let boxes = BoundingBoxes::new(tensor![[-2.0, 3.0, 40.0, 15.0]], "XYXY", (24, 31))?;
/// assert_eq!(boxes.clamping_mode, ClampingMode::Soft);
/// assert_eq!(TF::clamp_bounding_boxes(&boxes)?.data, tensor![[0.0, 3.0, 31.0, 15.0]]);
/// let free = boxes.clone().clamping_mode(ClampingMode::Off);
/// assert_eq!(TF::clamp_bounding_boxes(&free)?.data, boxes.data);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClampingMode {
    /// They end at the image's edge. A rotated box may still have corners outside, so that it covers all of its object.
    #[default]
    Soft,
    /// As soft, but a rotated box has no corner outside.
    Hard,
    /// They stay as they are (torchvision's `None`).
    Off,
    /// A string that is none of the words; the function that gets it refuses it.
    #[doc(hidden)]
    Unknown(torsh_tensor::named::Unknown),
}

torsh_tensor::named! {
    ClampingMode, "clamping_mode",
    "soft" => ClampingMode::Soft,
    "hard" => ClampingMode::Hard,
}

/// `None` is [`ClampingMode::Off`].
impl From<Option<ClampingMode>> for ClampingMode {
    fn from(mode: Option<ClampingMode>) -> Self {
        mode.unwrap_or(ClampingMode::Off)
    }
}

/// Boxes `[n, 4]`, or `[n, 5]` or `[n, 8]` of rotated ones, in an image (`torchvision.tv_tensors.BoundingBoxes`).
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::transforms::{BoundingBoxFormat, BoundingBoxes, RandomHorizontalFlip, Transform};
///
/// let boxes = BoundingBoxes::new(tensor![[2.0, 3.0, 14.0, 15.0]], BoundingBoxFormat::Xyxy, (24, 31))?;
/// let flipped = RandomHorizontalFlip::new(1.0)?.apply(&boxes)?;
/// assert_eq!(flipped.data, tensor![[17.0, 3.0, 29.0, 15.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct BoundingBoxes {
    /// The boxes.
    pub data: Tensor,
    /// How they are written.
    pub format: BoundingBoxFormat,
    /// The image's height and width.
    pub canvas_size: (usize, usize),
    /// What becomes of those that reach beyond the image.
    pub clamping_mode: ClampingMode,
}

impl BoundingBoxes {
    /// Boxes in an image of this height and width; one box may be `[4]`. The format is a [`BoundingBoxFormat`] or its name
    /// in any case, as "XYXY".
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::transforms::{BoundingBoxFormat, BoundingBoxes};
    /// let boxes = BoundingBoxes::new(tensor![1.0, 2.0, 3.0, 4.0], "xywh", (8, 8))?;
    /// assert_eq!((boxes.data.dims(), boxes.format), (&[1, 4][..], BoundingBoxFormat::Xywh));
    /// assert!(BoundingBoxes::new(tensor![1.0, 2.0, 3.0], "xywh", (8, 8)).is_err());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// A format that is none, not as many numbers as the format has, or rotated boxes of integers.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(
        data: Tensor,
        format: impl IntoBoxFormat,
        canvas_size: (usize, usize),
    ) -> Result<Self> {
        let format = format.into_format()?;
        let data = if data.ndim() == 1 {
            data.unsqueeze(0)?
        } else {
            data
        };
        if data.ndim() != 2 || data.dims()[1] != format.numbers() {
            return Err(TorshError::shape(
                "BoundingBoxes",
                format!(
                    "boxes of the format {} are [n, {}], got {}",
                    format.name(),
                    format.numbers(),
                    data.describe()
                ),
            ));
        }
        if format.is_rotated() && !data.dtype().is_floating_point() {
            return Err(TorshError::dtype(
                "BoundingBoxes",
                format!(
                    "rotated boxes are floating-point numbers, got {}",
                    data.describe()
                ),
            ));
        }
        Ok(BoundingBoxes {
            data,
            format,
            canvas_size,
            clamping_mode: ClampingMode::Soft,
        })
    }

    /// The same boxes with another rule for what reaches beyond the image: a [`ClampingMode`], "soft", "hard" or `None`.
    /// The function that gets boxes with another string refuses them.
    #[must_use]
    pub fn clamping_mode(mut self, mode: impl Into<ClampingMode>) -> Self {
        self.clamping_mode = mode.into();
        self
    }

    /// Other boxes of the same format and image.
    pub(crate) fn with(&self, data: Tensor) -> BoundingBoxes {
        BoundingBoxes {
            data,
            ..self.clone()
        }
    }
}

/// Points `[.., 2]` of x and y in an image (`torchvision.tv_tensors.KeyPoints`).
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::transforms::{KeyPoints, RandomHorizontalFlip, Transform};
/// let points = KeyPoints::new(tensor![[2.0, 3.0]], (24, 31))?;
/// let flipped = RandomHorizontalFlip::new(1.0)?.apply(&points)?;
/// assert_eq!(flipped.data, tensor![[28.0, 3.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct KeyPoints {
    /// The points.
    pub data: Tensor,
    /// The image's height and width.
    pub canvas_size: (usize, usize),
}

impl KeyPoints {
    /// Points in an image of this height and width.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::transforms::KeyPoints;
    /// let error = KeyPoints::new(tensor![[1.0, 2.0, 3.0]], (8, 8)).unwrap_err().to_string();
    /// assert!(error.contains("key points are [.., 2], got float32[1, 3]"));
    /// ```
    ///
    /// # Errors
    /// The last dimension is not 2.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(data: Tensor, canvas_size: (usize, usize)) -> Result<Self> {
        if data.dims().last() != Some(&2) {
            return Err(TorshError::shape(
                "KeyPoints",
                format!("key points are [.., 2], got {}", data.describe()),
            ));
        }
        Ok(KeyPoints { data, canvas_size })
    }
}

/// One value of a sample.
///
/// A plain tensor counts as an image if it is the first one of a sample in which nothing is marked as image or video;
/// else it passes through.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::transforms::{Item, RandomHorizontalFlip, Transform};
/// let items = vec![Item::from(tensor![[[1, 2]]]), Item::from(tensor![7, 8])];
/// let flipped = RandomHorizontalFlip::new(1.0)?.apply(&items)?;
/// assert_eq!(*flipped[0].tensor(), tensor![[[2, 1]]]);
/// assert_eq!(*flipped[1].tensor(), tensor![7, 8]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// A plain tensor: an image, labels, anything.
    Tensor(Tensor),
    /// An image.
    Image(Image),
    /// A video.
    Video(Video),
    /// Masks.
    Mask(Mask),
    /// Boxes.
    BoundingBoxes(BoundingBoxes),
    /// Points.
    KeyPoints(KeyPoints),
}

impl Item {
    /// The values, whatever they are.
    pub fn tensor(&self) -> &Tensor {
        match self {
            Item::Tensor(t) => t,
            Item::Image(x) => x,
            Item::Video(x) => x,
            Item::Mask(x) => x,
            Item::BoundingBoxes(x) => &x.data,
            Item::KeyPoints(x) => &x.data,
        }
    }

    /// What it is.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Item::Tensor(_) => "Tensor",
            Item::Image(_) => "Image",
            Item::Video(_) => "Video",
            Item::Mask(_) => "Mask",
            Item::BoundingBoxes(_) => "BoundingBoxes",
            Item::KeyPoints(_) => "KeyPoints",
        }
    }

    /// Whether it has colours.
    pub(crate) fn has_pixels(&self) -> bool {
        matches!(self, Item::Tensor(_) | Item::Image(_) | Item::Video(_))
    }

    /// Another tensor of the same kind; `f` gets and gives the values.
    pub(crate) fn map(&self, f: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<Item> {
        let data = f(self.tensor())?;
        Ok(match self {
            Item::Tensor(_) => Item::Tensor(data),
            Item::Image(_) => Item::Image(Image(data)),
            Item::Video(_) => Item::Video(Video(data)),
            Item::Mask(_) => Item::Mask(Mask(data)),
            Item::BoundingBoxes(b) => Item::BoundingBoxes(b.with(data)),
            Item::KeyPoints(k) => Item::KeyPoints(KeyPoints {
                data,
                canvas_size: k.canvas_size,
            }),
        })
    }
}

macro_rules! items {
    ($($name:ident $kind:ident,)*) => {$(
        impl From<$name> for Item {
            fn from(x: $name) -> Item {
                Item::$kind(x)
            }
        }

        impl Sample for $name {
            fn visit(&self, name: &str, f: &mut dyn FnMut(&str, &Item)) {
                f(name, &Item::$kind(self.clone()));
            }
            #[torsh_tensor::names_caller]
            fn map(&self, f: &mut dyn FnMut(&Item) -> Result<Item>) -> Result<Self> {
                match f(&Item::$kind(self.clone()))? {
                    Item::$kind(x) => Ok(x),
                    other => Err(TorshError::invalid(
                        "transform",
                        format!("a {} became a {}", stringify!($kind), other.kind()),
                    )
                    .with_hint("a field of type Item holds any kind")),
                }
            }
        }
    )*};
}

/// What a transform can be applied to: a tensor, an [`Image`], [`Video`], [`Mask`], [`BoundingBoxes`] or [`KeyPoints`],
/// and tuples, vectors, options, maps and structs of them. Numbers and texts in them stay as they are.
///
/// All parts are changed in the same way: with one draw of the random numbers, the image and its boxes are cropped at
/// the same place.
///
/// ```
/// use torsh_tensor::{Tensor, tensor, zeros};
/// use torsh_vision::transforms::{BoundingBoxFormat, BoundingBoxes, Image, Pad, Transform, sample};
///
/// #[derive(Clone)]
/// struct Example {
///     image: Image,
///     boxes: BoundingBoxes,
///     labels: Tensor,
/// }
/// sample!(Example { image, boxes, labels });
///
/// let example = Example {
///     image: Image::new(zeros([3, 8, 8])),
///     boxes: BoundingBoxes::new(tensor![[1.0, 1.0, 5.0, 6.0]], BoundingBoxFormat::Xyxy, (8, 8))?,
///     labels: tensor![7],
/// };
/// let padded = Pad::new(2).apply(&example)?;
/// assert_eq!(padded.image.dims(), [3, 12, 12]);
/// assert_eq!(padded.boxes.data, tensor![[3.0, 3.0, 7.0, 8.0]]);
/// assert_eq!(padded.labels, tensor![7]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub trait Sample: Clone + Send + Sync {
    /// Calls `f` with each item, in order, and its name: the field, the key, or the number in a tuple or vector;
    /// `name` for what is an item itself.
    fn visit(&self, name: &str, f: &mut dyn FnMut(&str, &Item));

    /// The same sample of other items, which `f` gives for each item in the order of [`Sample::visit`].
    ///
    /// # Errors
    /// Those of `f`, and an item of another kind than the field's.
    fn map(&self, f: &mut dyn FnMut(&Item) -> Result<Item>) -> Result<Self>;
}

items! {
    Tensor Tensor,
    Image Image,
    Video Video,
    Mask Mask,
    BoundingBoxes BoundingBoxes,
    KeyPoints KeyPoints,
}

impl Sample for Item {
    fn visit(&self, name: &str, f: &mut dyn FnMut(&str, &Item)) {
        f(name, self);
    }
    #[torsh_tensor::names_caller]
    fn map(&self, f: &mut dyn FnMut(&Item) -> Result<Item>) -> Result<Self> {
        f(self)
    }
}

macro_rules! plain {
    ($($t:ty),*) => {$(
        impl Sample for $t {
            fn visit(&self, _: &str, _: &mut dyn FnMut(&str, &Item)) {}
            #[track_caller]
            fn map(&self, _: &mut dyn FnMut(&Item) -> Result<Item>) -> Result<Self> {
                Ok(self.clone())
            }
        }
    )*};
}
plain!(
    (),
    bool,
    i8,
    i16,
    i32,
    i64,
    isize,
    u8,
    u16,
    u32,
    u64,
    usize,
    f32,
    f64,
    String,
    &'static str
);

impl<S: Sample> Sample for Option<S> {
    fn visit(&self, name: &str, f: &mut dyn FnMut(&str, &Item)) {
        if let Some(x) = self {
            x.visit(name, f);
        }
    }
    #[torsh_tensor::names_caller]
    fn map(&self, f: &mut dyn FnMut(&Item) -> Result<Item>) -> Result<Self> {
        self.as_ref().map(|x| x.map(f)).transpose()
    }
}

impl<S: Sample> Sample for Vec<S> {
    fn visit(&self, _: &str, f: &mut dyn FnMut(&str, &Item)) {
        for (i, x) in self.iter().enumerate() {
            x.visit(&i.to_string(), f);
        }
    }
    #[torsh_tensor::names_caller]
    fn map(&self, f: &mut dyn FnMut(&Item) -> Result<Item>) -> Result<Self> {
        self.iter().map(|x| x.map(f)).collect()
    }
}

impl<S: Sample> Sample for BTreeMap<String, S> {
    fn visit(&self, _: &str, f: &mut dyn FnMut(&str, &Item)) {
        for (name, x) in self {
            x.visit(name, f);
        }
    }
    #[torsh_tensor::names_caller]
    fn map(&self, f: &mut dyn FnMut(&Item) -> Result<Item>) -> Result<Self> {
        self.iter()
            .map(|(name, x)| Ok((name.clone(), x.map(f)?)))
            .collect()
    }
}

/// In the order of the keys.
impl<S: Sample> Sample for HashMap<String, S> {
    fn visit(&self, _: &str, f: &mut dyn FnMut(&str, &Item)) {
        let mut names: Vec<&String> = self.keys().collect();
        names.sort();
        for name in names {
            self[name].visit(name, f);
        }
    }
    #[torsh_tensor::names_caller]
    fn map(&self, f: &mut dyn FnMut(&Item) -> Result<Item>) -> Result<Self> {
        let mut names: Vec<&String> = self.keys().collect();
        names.sort();
        names
            .into_iter()
            .map(|name| Ok((name.clone(), self[name].map(f)?)))
            .collect()
    }
}

macro_rules! tuples {
    ($(($($t:ident $i:tt),+))*) => {$(
        impl<$($t: Sample),+> Sample for ($($t,)+) {
            fn visit(&self, _: &str, f: &mut dyn FnMut(&str, &Item)) {
                $(self.$i.visit(stringify!($i), f);)+
            }
            #[torsh_tensor::names_caller]
            fn map(&self, f: &mut dyn FnMut(&Item) -> Result<Item>) -> Result<Self> {
                Ok(($(self.$i.map(f)?,)+))
            }
        }
    )*};
}
tuples! {
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, G 5)
}

/// Makes a struct a [`Sample`](crate::transforms::Sample): `sample!(Name { field, .. })` lists the fields that are
/// samples. Fields that are not listed are cloned.
#[macro_export]
#[doc(hidden)]
macro_rules! __sample {
    ($name:ident { $($field:ident),+ $(,)? }) => {
        impl $crate::transforms::Sample for $name {
            fn visit(&self, _: &str, f: &mut dyn FnMut(&str, &$crate::transforms::Item)) {
                $($crate::transforms::Sample::visit(&self.$field, stringify!($field), f);)+
            }
            fn map(
                &self,
                f: &mut dyn FnMut(&$crate::transforms::Item) -> $crate::transforms::Result<$crate::transforms::Item>,
            ) -> $crate::transforms::Result<Self> {
                #[allow(clippy::needless_update)]
                Ok($name {
                    $($field: $crate::transforms::Sample::map(&self.$field, f)?,)+
                    ..self.clone()
                })
            }
        }
    };
}
