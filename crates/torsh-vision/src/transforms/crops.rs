//! Crops.

use torsh_tensor::{Result, Tensor, TorshError, option_setter};

use super::apply::{ItemTransform, fixed, query_size};
use super::arguments::{Fills, Padding, PaddingMode, Size};
use super::draws::{below, uniform};
use super::functional::{self as f, Move, moved_boxes, moved_points};
use super::geometry::{Resampling, moved, on_mask, padded, resampling};
use super::sample::Item;
use super::transforms;

transforms!(CenterCrop, RandomCrop, RandomResizedCrop);
resampling!(RandomResizedCrop);

/// The middle of an image, with zeros around it where it is smaller (`torchvision.transforms.v2.CenterCrop`).
///
/// ```
/// use torsh_tensor::{ones, tensor};
/// use torsh_vision::transforms::{CenterCrop, Transform};
/// assert_eq!(CenterCrop::new(2).apply(&ones([3, 8, 8]))?.dims(), [3, 2, 2]);
/// assert_eq!(CenterCrop::new([1, 3]).apply(&tensor![[[5.0]]])?, tensor![[[0.0, 5.0, 0.0]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct CenterCrop {
    size: Size,
}

impl CenterCrop {
    /// Of this height and width.
    pub fn new(size: impl Into<Size>) -> Self {
        CenterCrop { size: size.into() }
    }
}

fixed!(CenterCrop, self, item, {
    let crop = |x: &Tensor| f::center_crop(x, self.size);
    moved(item, &Move::CenterCrop(self.size), crop, crop)
});

/// Where a crop is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub top: i64,
    pub left: i64,
    pub height: usize,
    pub width: usize,
}

impl Place {
    pub(super) fn movement(self) -> Move {
        Move::Crop {
            top: self.top,
            left: self.left,
            height: self.height,
            width: self.width,
        }
    }

    fn of(self, x: &Tensor) -> Result<Tensor> {
        f::crop(x, self.top, self.left, self.height, self.width)
    }
}

pub(super) fn cropped(item: &Item, place: Place) -> Result<Item> {
    moved(item, &place.movement(), |x| place.of(x), |x| place.of(x))
}

/// A part of the image at a random place (`torchvision.transforms.v2.RandomCrop`).
///
/// ```
/// use torsh_tensor::zeros;
/// use torsh_vision::transforms::{PaddingMode, RandomCrop, Transform};
/// let crop = RandomCrop::new([28, 24]).padding(4).padding_mode(PaddingMode::Reflect);
/// assert_eq!(crop.apply(&zeros([3, 28, 28]))?.dims(), [3, 28, 24]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct RandomCrop {
    size: (usize, usize),
    padding: Padding,
    pad_if_needed: bool,
    fill: Fills,
    padding_mode: PaddingMode,
}

impl RandomCrop {
    /// Of this height and width. A smaller image is an error when it is applied.
    ///
    /// ```
    /// use torsh_tensor::zeros;
    /// use torsh_vision::transforms::{RandomCrop, Transform};
    /// let error = RandomCrop::new(4).apply(&zeros([1, 2, 2])).unwrap_err().to_string();
    /// assert!(error.contains("the crop size (4, 4) is larger than the image size (2, 2)"));
    /// let padded = RandomCrop::new(4).pad_if_needed(true).apply(&zeros([1, 2, 2]))?;
    /// assert_eq!(padded.dims(), [1, 4, 4]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn new(size: impl Into<Size>) -> Self {
        RandomCrop {
            size: size.into().both(),
            padding: Padding::default(),
            pad_if_needed: false,
            fill: Fills::new(0.0),
            padding_mode: PaddingMode::Constant,
        }
    }

    setters! {
        /// What is put around the image first, as by [`Pad`](super::Pad) (nothing).
        padding: Padding, impl Into<Padding> => Into::into;
        /// Whether a smaller image is padded on both sides by what it lacks (false).
        pad_if_needed: bool;
        /// The value of pixels around the image (0).
        fill: Fills, impl Into<Fills> => Into::into;
        /// What is around the image.
        padding_mode: PaddingMode, impl Into<PaddingMode> => Into::into;
    }
}

impl ItemTransform for RandomCrop {
    type Params = (Option<Padding>, Option<Place>);
    const NAME: &'static str = "RandomCrop";
    fn params(&self, items: &[&Item]) -> Result<Self::Params> {
        let (h, w) = query_size(Self::NAME, items)?;
        let (height, width) = self.size;
        let mut p = self.padding;
        let sizes = |p: Padding| {
            (
                (h as i64).saturating_add(p.top).saturating_add(p.bottom),
                (w as i64).saturating_add(p.left).saturating_add(p.right),
            )
        };
        let (mut ph, mut pw) = sizes(p);
        if self.pad_if_needed {
            let down = (height as i64 - ph).max(0);
            let across = (width as i64 - pw).max(0);
            (p.top, p.bottom) = (p.top + down, p.bottom + down);
            (p.left, p.right) = (p.left + across, p.right + across);
            (ph, pw) = sizes(p);
        }
        if ph < height as i64 || pw < width as i64 {
            return Err(TorshError::shape(
                Self::NAME,
                format!(
                    "the crop size {:?} is larger than the image size {:?}",
                    self.size,
                    (ph, pw)
                ),
            )
            .with_hint("pad_if_needed(true) pads such images"));
        }
        // Nothing is drawn where there is no choice.
        let place = |have: i64, want: usize| match have - want as i64 {
            0 => 0,
            more => below(more as usize + 1) as i64,
        };
        let top = place(ph, height);
        let left = place(pw, width);
        let crops = (ph, pw) != (height as i64, width as i64);
        let place = Place {
            top,
            left,
            height,
            width,
        };
        Ok((
            (p != Padding::default()).then_some(p),
            crops.then_some(place),
        ))
    }
    fn item(&self, item: &Item, (padding, place): &Self::Params) -> Result<Item> {
        let item = match padding {
            Some(p) => padded(item, *p, &self.fill, self.padding_mode)?,
            None => item.clone(),
        };
        match place {
            Some(place) => cropped(&item, *place),
            None => Ok(item),
        }
    }
}

/// A random part of the image, of random shape, in another size (`torchvision.transforms.v2.RandomResizedCrop`; C.
/// Szegedy et al., "Going deeper with convolutions", 2015).
///
/// ```
/// use torsh_tensor::zeros;
/// use torsh_vision::transforms::{RandomResizedCrop, Transform};
/// let crop = RandomResizedCrop::new(16).scale(0.2, 0.6);
/// assert_eq!(crop.apply(&zeros([3, 40, 30]))?.dims(), [3, 16, 16]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct RandomResizedCrop {
    size: (usize, usize),
    scale: (f64, f64),
    ratio: (f64, f64),
    resampling: Resampling,
}

impl RandomResizedCrop {
    /// To this height and width.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::transforms::{RandomResizedCrop, Transform};
    /// // All of the area, in the image's own shape.
    /// let image = tensor![[[1.0, 2.0], [3.0, 4.0]]];
    /// let whole = RandomResizedCrop::new(2).scale(1.0, 1.0).ratio(1.0, 1.0);
    /// assert_eq!(whole.apply(&image)?, image);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn new(size: impl Into<Size>) -> Self {
        RandomResizedCrop {
            size: size.into().both(),
            scale: (0.08, 1.0),
            ratio: (3.0 / 4.0, 4.0 / 3.0),
            resampling: Resampling::default(),
        }
    }

    /// From which to which part of the area the crop has (0.08 to 1).
    #[must_use]
    pub fn scale(mut self, from: f64, to: f64) -> Self {
        self.scale = (from, to);
        self
    }

    /// From which to which ratio its width has to its height (3/4 to 4/3).
    #[must_use]
    pub fn ratio(mut self, from: f64, to: f64) -> Self {
        self.ratio = (from, to);
        self
    }
}

/// A random ratio, between the logarithms of two in float32.
pub(super) fn draw_ratio((from, to): (f64, f64)) -> f64 {
    let log = |v: f64| f64::from((v as f32).ln());
    let drawn = uniform(log(from), log(to));
    f64::from((drawn as f32).exp())
}

impl ItemTransform for RandomResizedCrop {
    type Params = Place;
    const NAME: &'static str = "RandomResizedCrop";
    fn params(&self, items: &[&Item]) -> Result<Place> {
        let (h, w) = query_size(Self::NAME, items)?;
        let area = (h * w) as f64;
        for _ in 0..10 {
            let target = area * uniform(self.scale.0, self.scale.1);
            let ratio = draw_ratio(self.ratio);
            let width = (target * ratio).sqrt().round_ties_even() as usize;
            let height = (target / ratio).sqrt().round_ties_even() as usize;
            if (1..=w).contains(&width) && (1..=h).contains(&height) {
                let top = below(h - height + 1) as i64;
                let left = below(w - width + 1) as i64;
                return Ok(Place {
                    top,
                    left,
                    height,
                    width,
                });
            }
        }
        let (least, most) = (
            self.ratio.0.min(self.ratio.1),
            self.ratio.0.max(self.ratio.1),
        );
        let have = w as f64 / h as f64;
        let (height, width) = if have < least {
            ((w as f64 / least).round_ties_even() as usize, w)
        } else if have > most {
            (h, (h as f64 * most).round_ties_even() as usize)
        } else {
            (h, w)
        };
        Ok(Place {
            top: (h as i64 - height as i64).div_euclid(2),
            left: (w as i64 - width as i64).div_euclid(2),
            height,
            width,
        })
    }
    fn item(&self, item: &Item, place: &Place) -> Result<Item> {
        let size = Size::from(self.size);
        let resize = Move::Resize(Some(size), None);
        let crop = place.movement();
        let both = |x: &Tensor, options| {
            f::resized_crop_with(
                x,
                place.top,
                place.left,
                place.height,
                place.width,
                size,
                options,
            )
        };
        match item {
            Item::BoundingBoxes(b) => {
                moved_boxes(&moved_boxes(b, &crop)?, &resize).map(Item::BoundingBoxes)
            }
            Item::KeyPoints(k) => {
                moved_points(&moved_points(k, &crop)?, &resize).map(Item::KeyPoints)
            }
            Item::Mask(m) => on_mask(m, |x| both(x, self.resampling.of_masks())),
            _ => item.map(|x| both(x, self.resampling.options())),
        }
    }
}

macro_rules! many {
    ($($(#[doc = $doc:literal])+ $name:ident $function:ident ($($field:ident),*);)*) => {$(
        $(#[doc = $doc])+
        ///
        /// It gives several images for one, so it is no [`Transform`](super::Transform): `apply` gives them in a vector.
        #[derive(Clone, Copy, Debug)]
        pub struct $name {
            size: Size,
            $($field: bool,)*
        }

        impl $name {
            /// Of this height and width.
            pub fn new(size: impl Into<Size>) -> Self {
                $name { size: size.into(), $($field: false,)* }
            }

            $(option_setter! {
                /// Whether the other five are upside down, not mirrored left to right (false).
                $field: bool
            })*

            /// The crops.
            ///
            /// # Errors
            /// The image is smaller than the size.
            #[torsh_tensor::names_caller]
            pub fn apply(&self, image: &Tensor) -> Result<Vec<Tensor>> {
                f::$function(image, self.size $(, self.$field)*).map_err(|e| e.renamed(stringify!($name)))
            }
        }
    )*};
}
many! {
    /// The four corners and the middle of an image (`torchvision.transforms.v2.FiveCrop`).
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::transforms::FiveCrop;
    /// let crops = FiveCrop::new(1).apply(&tensor![[[1, 2, 3], [4, 5, 6], [7, 8, 9]]])?;
    /// let values: Vec<i64> = crops.iter().map(|c| c.item()).collect::<Result<_, _>>()?;
    /// assert_eq!(values, [1, 3, 7, 9, 5]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    FiveCrop five_crop ();
    /// The four corners and the middle of an image and of its mirror image (`torchvision.transforms.v2.TenCrop`).
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::transforms::TenCrop;
    /// let crops = TenCrop::new(1).vertical_flip(true).apply(&tensor![[[1, 2, 3], [4, 5, 6], [7, 8, 9]]])?;
    /// let values: Vec<i64> = crops.iter().map(|c| c.item()).collect::<Result<_, _>>()?;
    /// assert_eq!(values, [1, 3, 7, 9, 5, 7, 9, 1, 3, 5]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    TenCrop ten_crop (vertical_flip);
}
