//! Transforms of samples with boxes.

use torsh_tensor::named::Named;
use torsh_tensor::{DType, Device, Result, Tensor, TorshError};

use super::Transform;
use super::apply::{ItemTransform, fixed, items, query_size, rebuilt};
use super::crops::{Place, cropped};
use super::draws::{below, rand};
use super::functional as f;
use super::mix::find_labels;
use super::sample::{BoundingBoxFormat, BoundingBoxes, ClampingMode, Item, Mask, Sample};
use super::transforms;
use crate::ops::IntoBoxFormat;

transforms!(
    ConvertBoundingBoxFormat,
    ClampBoundingBoxes,
    ClampKeyPoints,
    SetClampingMode,
    RandomIoUCrop
);

macro_rules! of_boxes {
    ($($(#[doc = $doc:literal])+ $name:ident ($field:ident: $t:ty) |$s:ident, $b:ident| $change:expr;)*) => {$(
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug)]
        pub struct $name {
            $field: $t,
        }

        fixed!($name, self, item, {
            let $s = self;
            match item {
                Item::BoundingBoxes($b) => Ok(Item::BoundingBoxes($change)),
                other => Ok(other.clone()),
            }
        });
    )*};
}
of_boxes! {
    /// The boxes in another format (`torchvision.transforms.v2.ConvertBoundingBoxFormat`).
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::transforms::{BoundingBoxes, ConvertBoundingBoxFormat, Transform};
    /// let boxes = BoundingBoxes::new(tensor![[1.0, 2.0, 5.0, 8.0]], "xyxy", (10, 10))?;
    /// let sized = ConvertBoundingBoxFormat::new("xywh")?.apply(&boxes)?;
    /// assert_eq!(sized.data, tensor![[1.0, 2.0, 4.0, 6.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ConvertBoundingBoxFormat (format: BoundingBoxFormat) |s, b| f::convert_bounding_box_format(b, s.format)?;
    /// The boxes within the image (`torchvision.transforms.v2.ClampBoundingBoxes`).
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::transforms::{BoundingBoxes, ClampBoundingBoxes, Transform};
    /// let boxes = BoundingBoxes::new(tensor![[-2.0, 3.0, 40.0, 15.0]], "xyxy", (24, 31))?;
    /// let clamped = ClampBoundingBoxes::new().apply(&boxes)?;
    /// assert_eq!(clamped.data, tensor![[0.0, 3.0, 31.0, 15.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ClampBoundingBoxes (mode: Option<ClampingMode>) |s, b| match s.mode {
        None => f::clamp_bounding_boxes(b)?,
        Some(mode) => {
            let clamped = f::clamp_bounding_boxes(&b.clone().clamping_mode(mode))?;
            clamped.clamping_mode(b.clamping_mode)
        }
    };
    /// The boxes with another rule for what reaches beyond the image (`torchvision.transforms.v2.SetClampingMode`).
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::transforms::{BoundingBoxes, ClampingMode, SetClampingMode, Transform};
    /// let boxes = BoundingBoxes::new(tensor![[-2.0, 3.0, 40.0, 15.0]], "xyxy", (24, 31))?;
    /// let hard = SetClampingMode::new("hard").apply(&boxes)?;
    /// assert_eq!((hard.clamping_mode, hard.data), (ClampingMode::Hard, boxes.data));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    SetClampingMode (mode: ClampingMode) |s, b| b.clone().clamping_mode(s.mode.known().map_err(|e| e.renamed("SetClampingMode"))?);
}

impl ConvertBoundingBoxFormat {
    /// To this format, or that of this name in any case.
    ///
    /// ```
    /// use torsh_vision::transforms::ConvertBoundingBoxFormat;
    /// let error = ConvertBoundingBoxFormat::new("xyz").unwrap_err().to_string();
    /// assert!(error.contains("xyz is no format of boxes"));
    /// ```
    ///
    /// # Errors
    /// If no format has the name.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(format: impl IntoBoxFormat) -> Result<Self> {
        let format = format.into_format()?;
        Ok(ConvertBoundingBoxFormat { format })
    }
}

impl ClampBoundingBoxes {
    /// By the boxes' own rule.
    pub fn new() -> Self {
        ClampBoundingBoxes { mode: None }
    }

    /// By this rule: a [`ClampingMode`], "soft", "hard" or `None`; "auto" is the boxes' own. The transform refuses another
    /// string.
    #[must_use]
    pub fn clamping_mode(mut self, mode: impl Into<ClampingMode>) -> Self {
        self.mode = match mode.into() {
            ClampingMode::Unknown(word) if word.as_str() == "auto" => None,
            mode => Some(mode),
        };
        self
    }
}

impl Default for ClampBoundingBoxes {
    fn default() -> Self {
        ClampBoundingBoxes::new()
    }
}

impl SetClampingMode {
    /// This rule: a [`ClampingMode`], "soft", "hard" or `None`. The transform refuses another string.
    pub fn new(mode: impl Into<ClampingMode>) -> Self {
        SetClampingMode { mode: mode.into() }
    }
}

/// The points within the image (`torchvision.transforms.v2.ClampKeyPoints`).
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::transforms::{ClampKeyPoints, KeyPoints, Transform};
/// let points = KeyPoints::new(tensor![[-2.0, 3.0], [40.0, 15.0]], (24, 31))?;
/// assert_eq!(ClampKeyPoints.apply(&points)?.data, tensor![[0.0, 3.0], [30.0, 15.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct ClampKeyPoints;

fixed!(ClampKeyPoints, self, item, {
    match item {
        Item::KeyPoints(k) => f::clamp_keypoints(k).map(Item::KeyPoints),
        other => Ok(other.clone()),
    }
});

/// A random crop that overlaps the boxes by a random amount, or the image as it is
/// (`torchvision.transforms.v2.RandomIoUCrop`; W. Liu et al., "SSD: Single shot multibox detector", 2016).
///
/// Boxes whose middle is outside of the crop become zeros, which [`SanitizeBoundingBoxes`] takes away.
///
/// ```
/// use torsh_tensor::{ones, tensor};
/// use torsh_vision::transforms::{BoundingBoxes, Image, RandomIoUCrop, Transform};
/// let boxes = BoundingBoxes::new(tensor![[0.0, 0.0, 8.0, 8.0]], "xyxy", (8, 8))?;
/// let (image, boxes) = RandomIoUCrop::new().apply(&(Image::new(ones([3, 8, 8])), boxes))?;
/// // Both have become the same part.
/// assert_eq!(image.dims()[1..], [boxes.canvas_size.0, boxes.canvas_size.1]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct RandomIoUCrop {
    scale: (f64, f64),
    aspect_ratio: (f64, f64),
    sampler_options: Vec<f64>,
    trials: usize,
}

impl Default for RandomIoUCrop {
    fn default() -> Self {
        RandomIoUCrop {
            scale: (0.3, 1.0),
            aspect_ratio: (0.5, 2.0),
            sampler_options: vec![0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0],
            trials: 40,
        }
    }
}

impl RandomIoUCrop {
    /// Sides of 0.3 to 1 of the image's.
    pub fn new() -> Self {
        RandomIoUCrop::default()
    }

    /// From which to which part of the image's sides those of the crop have (0.3 to 1).
    #[must_use]
    pub fn scale(mut self, min: f64, max: f64) -> Self {
        self.scale = (min, max);
        self
    }

    /// From which to which ratio its width has to its height (0.5 to 2).
    #[must_use]
    pub fn aspect_ratio(mut self, min: f64, max: f64) -> Self {
        self.aspect_ratio = (min, max);
        self
    }

    /// The least overlaps of which one is drawn; 1 leaves the image as it is (0, 0.1, 0.3, 0.5, 0.7, 0.9, 1).
    ///
    /// ```
    /// use torsh_tensor::{ones, tensor};
    /// use torsh_vision::transforms::{BoundingBoxes, Image, RandomIoUCrop, Transform};
    /// let boxes = BoundingBoxes::new(tensor![[1.0, 1.0, 5.0, 5.0]], "xyxy", (8, 8))?;
    /// let sample = (Image::new(ones([3, 8, 8])), boxes);
    /// assert_eq!(RandomIoUCrop::new().sampler_options([1.0])?.apply(&sample)?, sample);
    /// let error = RandomIoUCrop::new().sampler_options([0.5]).unwrap_err().to_string();
    /// assert!(error.contains("one of the sampler options must be 1, got [0.5]"));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// None, or not one of 1 among them, without which the search need not end.
    #[torsh_tensor::names_caller]
    pub fn sampler_options(mut self, options: impl Into<Vec<f64>>) -> Result<Self> {
        let options = options.into();
        if !options.iter().any(|&o| o >= 1.0) {
            return Err(TorshError::invalid(
                Self::NAME,
                format!("one of the sampler options must be 1, got {options:?}"),
            ));
        }
        self.sampler_options = options;
        Ok(self)
    }

    /// How many crops are tried for each overlap (40).
    #[must_use]
    pub fn trials(mut self, trials: usize) -> Self {
        self.trials = trials;
        self
    }
}

/// The crop, and which boxes have their middle in it.
pub(crate) type IoUCrop = Option<(Place, Vec<bool>)>;

impl ItemTransform for RandomIoUCrop {
    type Params = IoUCrop;
    const NAME: &'static str = "RandomIoUCrop";

    fn check(&self, items: &[Item]) -> Result<()> {
        let boxes = items.iter().any(|i| matches!(i, Item::BoundingBoxes(_)));
        if boxes && items.iter().any(Item::has_pixels) {
            return Ok(());
        }
        Err(TorshError::invalid(
            Self::NAME,
            "the sample needs an image and bounding boxes",
        ))
    }

    fn params(&self, items: &[&Item]) -> Result<IoUCrop> {
        let (h, w) = query_size(Self::NAME, items)?;
        let boxes = boxes_of(Self::NAME, items.iter().copied())?;
        if boxes.format.is_rotated() {
            return Err(TorshError::invalid(
                Self::NAME,
                "rotated boxes are not supported",
            ));
        }
        let corners = f::convert_bounding_box_format(boxes, BoundingBoxFormat::Xyxy)?;
        let corners = corners.data.to_dtype(DType::F32)?.to_vec::<f32>()?;
        loop {
            let least = self.sampler_options[below(self.sampler_options.len())];
            if least >= 1.0 {
                return Ok(None);
            }
            for _ in 0..self.trials {
                let (from, to) = self.scale;
                let r = rand(2);
                let side =
                    |n: usize, r: f32| (n as f32 * (r * (to - from) as f32 + from as f32)) as usize;
                let (width, height) = (side(w, r[0]), side(h, r[1]));
                let ratio = width as f64 / height as f64;
                if !(self.aspect_ratio.0 <= ratio && ratio <= self.aspect_ratio.1) {
                    continue;
                }
                let r = rand(2);
                let left = ((w - width.min(w)) as f32 * r[0]) as usize;
                let top = ((h - height.min(h)) as f32 * r[1]) as usize;
                if width == 0 || height == 0 {
                    continue;
                }
                let crop = [left, top, left + width, top + height].map(|v| v as f32);
                let inside: Vec<bool> = corners
                    .chunks_exact(4)
                    .map(|b| {
                        let (x, y) = (0.5 * (b[0] + b[2]), 0.5 * (b[1] + b[3]));
                        crop[0] < x && x < crop[2] && crop[1] < y && y < crop[3]
                    })
                    .collect();
                let most = corners
                    .chunks_exact(4)
                    .zip(&inside)
                    .filter(|&(_, &inside)| inside)
                    .map(|(b, _)| overlap(b, &crop))
                    .fold(f32::NEG_INFINITY, f32::max);
                if most == f32::NEG_INFINITY || f64::from(most) < least {
                    continue;
                }
                let place = Place {
                    top: top as i64,
                    left: left as i64,
                    height,
                    width,
                };
                return Ok(Some((place, inside)));
            }
        }
    }

    fn item(&self, item: &Item, params: &IoUCrop) -> Result<Item> {
        let Some((place, inside)) = params else {
            return Ok(item.clone());
        };
        match cropped(item, *place)? {
            Item::BoundingBoxes(b) => {
                let kept = Tensor::from_slice(inside, [inside.len(), 1], DType::Bool, Device::Cpu)?
                    .to_device(b.data.device())?;
                let data = b.data.masked_fill(&kept.logical_not()?, 0.0)?;
                Ok(Item::BoundingBoxes(b.with(data)))
            }
            other => Ok(other),
        }
    }
}

/// Intersection over union.
fn overlap(a: &[f32], b: &[f32; 4]) -> f32 {
    let area = |b: &[f32]| (b[2] - b[0]) * (b[3] - b[1]);
    let w = (a[2].min(b[2]) - a[0].max(b[0])).max(0.0);
    let h = (a[3].min(b[3]) - a[1].max(b[1])).max(0.0);
    w * h / (area(a) + area(b) - w * h)
}

fn boxes_of<'a>(
    op: &'static str,
    mut items: impl Iterator<Item = &'a Item>,
) -> Result<&'a BoundingBoxes> {
    items
        .find_map(|i| match i {
            Item::BoundingBoxes(b) => Some(b),
            _ => None,
        })
        .ok_or_else(|| TorshError::invalid(op, "the sample has no bounding boxes"))
}

/// Which labels go with boxes or points.
#[derive(Clone, Debug, Default)]
enum Labels {
    /// Those that torchvision finds.
    #[default]
    Found,
    /// Those in fields of these names.
    Named(Vec<String>),
    /// None.
    Nothing,
}

impl Labels {
    fn positions<S: Sample>(&self, op: &'static str, sample: &S) -> Result<Vec<usize>> {
        let find = |name: Option<&str>| {
            find_labels(sample, name).ok_or_else(|| {
                let name = name.unwrap_or("labels");
                TorshError::invalid(op, format!("the sample has no tensor `{name}`"))
            })
        };
        match self {
            Labels::Found => Ok(vec![find(None)?]),
            Labels::Named(names) => names.iter().map(|n| find(Some(n))).collect(),
            Labels::Nothing => Ok(Vec::new()),
        }
    }
}

/// Keeps what is in `kept` of the items at `labels`, and what `also` says of the others.
fn sieve<S: Sample>(
    op: &'static str,
    sample: &S,
    mut all: Vec<Item>,
    labels: &[usize],
    kept: &Tensor,
    also: impl Fn(&Item) -> Result<Option<Item>>,
) -> Result<S> {
    let n = kept.dims()[0];
    for &at in labels {
        let t = all[at].tensor();
        if t.dims().first() != Some(&n) {
            return Err(TorshError::shape(
                op,
                format!("{n} objects have as many labels, got {}", t.describe()),
            ));
        }
    }
    for (at, item) in all.iter_mut().enumerate() {
        if labels.contains(&at) {
            *item = item.map(|t| t.i(kept))?;
        } else if let Some(new) = also(item)? {
            *item = new;
        }
    }
    rebuilt(sample, all)
}

/// The sample without boxes that are too small or not within the image, and without their labels and masks
/// (`torchvision.transforms.v2.SanitizeBoundingBoxes`).
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::transforms::{BoundingBoxFormat, BoundingBoxes, SanitizeBoundingBoxes, Transform};
/// let boxes = tensor![[1.0, 1.0, 5.0, 5.0], [3.0, 3.0, 3.0, 7.0]];
/// let boxes = BoundingBoxes::new(boxes, BoundingBoxFormat::Xyxy, (8, 8))?;
/// let (boxes, labels) = SanitizeBoundingBoxes::new().apply(&(boxes, tensor![7, 8]))?;
/// assert_eq!(boxes.data, tensor![[1.0, 1.0, 5.0, 5.0]]);
/// assert_eq!(labels, tensor![7]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct SanitizeBoundingBoxes {
    min_size: f64,
    min_area: f64,
    labels: Labels,
}

impl Default for SanitizeBoundingBoxes {
    fn default() -> Self {
        SanitizeBoundingBoxes {
            min_size: 1.0,
            min_area: 1.0,
            labels: Labels::Found,
        }
    }
}

macro_rules! labels {
    ($($name:ident),*) => {$(
        impl $name {
            /// The fields or keys of the labels.
            #[must_use]
            pub fn labels<T: Into<String>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
                self.labels = Labels::Named(names.into_iter().map(Into::into).collect());
                self
            }

            /// There are no labels.
            #[must_use]
            pub fn no_labels(mut self) -> Self {
                self.labels = Labels::Nothing;
                self
            }
        }
    )*};
}
labels!(SanitizeBoundingBoxes, SanitizeKeyPoints);

impl SanitizeBoundingBoxes {
    /// Boxes are at least one pixel wide and high. The labels are the tensor called `labels`, or with `label` in its
    /// name, or the second of a tuple.
    pub fn new() -> Self {
        SanitizeBoundingBoxes::default()
    }

    /// How wide and high boxes are at least (1).
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::transforms::{BoundingBoxes, SanitizeBoundingBoxes, Transform};
    /// let boxes = tensor![[1.0, 1.0, 5.0, 5.0], [3.0, 3.0, 5.0, 7.0]];
    /// let boxes = BoundingBoxes::new(boxes, "xyxy", (8, 8))?;
    /// let large = SanitizeBoundingBoxes::new().min_size(3.0)?.no_labels().apply(&boxes)?;
    /// assert_eq!(large.data, tensor![[1.0, 1.0, 5.0, 5.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Below 1.
    #[torsh_tensor::names_caller]
    pub fn min_size(mut self, min_size: f64) -> Result<Self> {
        self.min_size = at_least_one("min_size", min_size)?;
        Ok(self)
    }

    /// Which area boxes have at least (1).
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::transforms::{BoundingBoxes, SanitizeBoundingBoxes, Transform};
    /// let boxes = tensor![[1.0, 1.0, 5.0, 5.0], [3.0, 3.0, 5.0, 7.0]]; // of 16 and 8 pixels
    /// let boxes = BoundingBoxes::new(boxes, "xyxy", (8, 8))?;
    /// let large = SanitizeBoundingBoxes::new().min_area(10.0)?.no_labels().apply(&boxes)?;
    /// assert_eq!(large.data, tensor![[1.0, 1.0, 5.0, 5.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Below 1.
    #[torsh_tensor::names_caller]
    pub fn min_area(mut self, min_area: f64) -> Result<Self> {
        self.min_area = at_least_one("min_area", min_area)?;
        Ok(self)
    }
}

#[track_caller]
fn at_least_one(name: &str, v: f64) -> Result<f64> {
    if v >= 1.0 {
        Ok(v)
    } else {
        Err(TorshError::invalid(
            "SanitizeBoundingBoxes",
            format!("{name} must be at least 1, got {v}"),
        ))
    }
}

impl<S: Sample> Transform<S> for SanitizeBoundingBoxes {
    #[torsh_tensor::names_caller]
    fn apply(&self, x: &S) -> Result<S> {
        const OP: &str = "SanitizeBoundingBoxes";
        let inner = || {
            let labels = self.labels.positions(OP, x)?;
            let all = items(x);
            let boxes = boxes_of(OP, all.iter())?;
            let (_, kept) = f::sanitize_bounding_boxes(boxes, self.min_size, self.min_area)?;
            let n = kept.dims()[0];
            sieve(OP, x, all, &labels, &kept, |item| {
                Ok(match item {
                    Item::BoundingBoxes(b) => Some(Item::BoundingBoxes(b.with(b.data.i(&kept)?))),
                    // A mask for each box, not one for the image.
                    Item::Mask(m) if m.dims().first() == Some(&n) => {
                        Some(Item::Mask(Mask(m.i(&kept)?)))
                    }
                    _ => None,
                })
            })
        };
        inner().map_err(|e| e.renamed(OP))
    }
}

/// The sample without points that are not within the image (`torchvision.transforms.v2.SanitizeKeyPoints`).
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::transforms::{KeyPoints, SanitizeKeyPoints, Transform};
/// let points = KeyPoints::new(tensor![[1.0, 2.0], [9.0, 2.0]], (8, 8))?;
/// let sanitize = SanitizeKeyPoints::new().labels(["1"]);
/// let (points, names) = sanitize.apply(&(points, tensor![7, 8]))?;
/// assert_eq!((points.data, names), (tensor![[1.0, 2.0]], tensor![7]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct SanitizeKeyPoints {
    labels: Labels,
}

impl Default for SanitizeKeyPoints {
    fn default() -> Self {
        SanitizeKeyPoints {
            labels: Labels::Nothing,
        }
    }
}

impl SanitizeKeyPoints {
    /// Without labels.
    pub fn new() -> Self {
        SanitizeKeyPoints::default()
    }
}

impl<S: Sample> Transform<S> for SanitizeKeyPoints {
    #[torsh_tensor::names_caller]
    fn apply(&self, x: &S) -> Result<S> {
        const OP: &str = "SanitizeKeyPoints";
        let inner = || {
            let labels = self.labels.positions(OP, x)?;
            let all = items(x);
            let points = all.iter().find_map(|i| match i {
                Item::KeyPoints(k) => Some(k.clone()),
                _ => None,
            });
            let points =
                points.ok_or_else(|| TorshError::invalid(OP, "the sample has no key points"))?;
            let (_, kept) = f::sanitize_keypoints(&points)?;
            sieve(OP, x, all, &labels, &kept, |item| match item {
                Item::KeyPoints(_) => item.map(|t| t.i(&kept)).map(Some),
                _ => Ok(None),
            })
        };
        inner().map_err(|e| e.renamed(OP))
    }
}
