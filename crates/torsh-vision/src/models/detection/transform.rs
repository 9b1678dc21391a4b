//! What happens to images before a detector, and to its boxes behind.

use torsh_tensor::{DType, Result, Tensor, TorshError};

use super::masks::{bilinear, paste_masks_in_image};
use super::{Detection, Target};

/// Images of different sizes in one tensor, padded with zeros on the right and at the bottom.
///
/// ```
/// use torsh_tensor::ones;
/// use torsh_vision::models::detection::{GeneralizedRCNNTransform, ImageList, TransformOptions};
/// let options = TransformOptions::new().size_divisible(4);
/// let transform = GeneralizedRCNNTransform::new(&[2], 8, &[0.0; 3], &[1.0; 3], options)?;
/// // An image of 2 by 3 pixels, and one of 2 by 2.
/// let (list, _) = transform.apply(&[ones(&[3, 2, 3]), ones(&[3, 2, 2])], None, false)?;
/// let ImageList { tensors, image_sizes } = list;
/// assert_eq!((tensors.dims(), &image_sizes[..]), (&[2, 3, 4, 4][..], &[(2, 3), (2, 2)][..]));
/// assert_eq!(tensors.sum()?.item::<f32>()?, (3 * 2 * 3 + 3 * 2 * 2) as f32);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ImageList {
    /// `[n, c, h, w]`
    pub tensors: Tensor,
    /// The height and width of each image without its padding.
    pub image_sizes: Vec<(usize, usize)>,
}

impl ImageList {
    /// The height and width of all images with their padding.
    pub(super) fn padded_size(&self) -> Result<(usize, usize)> {
        match *self.tensors.dims() {
            [_, _, h, w] => Ok((h, w)),
            _ => Err(TorshError::shape(
                "ImageList",
                format!("images are [n, c, h, w], got {}", self.tensors.describe()),
            )),
        }
    }
}

torsh_tensor::options! {
    /// The arguments of [`GeneralizedRCNNTransform`] that have defaults.
    ///
    /// ```
    /// use torsh_tensor::ones;
    /// use torsh_vision::models::detection::{GeneralizedRCNNTransform, TransformOptions};
    /// // Every image becomes 6 wide and 4 high, as SSD's become one size.
    /// let options = TransformOptions::new().size_divisible(1).fixed_size((6, 4));
    /// let transform = GeneralizedRCNNTransform::new(&[4], 6, &[0.5; 3], &[0.5; 3], options)?;
    /// let (images, _) = transform.apply(&[ones(&[3, 9, 5])], None, false)?;
    /// assert_eq!(images.image_sizes, [(4, 6)]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    TransformOptions {
        /// What height and width of the padded images are multiples of.
        size_divisible: usize = 32;
        /// The width and height that every image gets, whatever its shape, instead of the sizes above.
        fixed_size: Option<(usize, usize)> = None, (usize, usize) => Some;
        /// Whether images keep their size in training.
        skip_resize: bool = false;
    }
}

/// Normalises images, resizes them with their targets so that the shorter side is `min_size` (and the longer at most
/// `max_size`), and pads them to one size.
///
/// In training one of several `min_size`s is drawn for each image, from the default generator as in PyTorch; otherwise
/// it is the last.
///
/// ```
/// use torsh_tensor::ones;
/// use torsh_vision::models::detection::{GeneralizedRCNNTransform, TransformOptions};
///
/// let transform = GeneralizedRCNNTransform::new(&[8], 64, &[0.5; 3], &[0.5; 3], TransformOptions::new())?;
/// let (images, _) = transform.apply(&[ones(&[3, 4, 6]), ones(&[3, 4, 4])], None, false)?;
/// assert_eq!(images.tensors.dims(), [2, 3, 32, 32]);
/// assert_eq!(images.image_sizes, [(8, 12), (8, 8)]);
/// assert_eq!(images.tensors.sum()?.item::<f32>()?, (3 * 8 * 12 + 3 * 8 * 8) as f32);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct GeneralizedRCNNTransform {
    /// What the shorter side becomes.
    pub min_size: Vec<usize>,
    /// What the longer side is at most.
    pub max_size: usize,
    /// Subtracted from each channel.
    pub image_mean: Vec<f64>,
    /// What each channel is divided by.
    pub image_std: Vec<f64>,
    /// The arguments that have defaults.
    pub options: TransformOptions,
}

const OP: &str = "GeneralizedRCNNTransform";

impl GeneralizedRCNNTransform {
    /// Makes a transform to these sizes, with the mean and deviation of each channel.
    ///
    /// ```
    /// use torsh_vision::models::detection::{GeneralizedRCNNTransform, TransformOptions};
    /// let options = TransformOptions::new();
    /// let error = GeneralizedRCNNTransform::new(&[800], 1333, &[0.5; 3], &[0.0; 3], options).unwrap_err();
    /// assert!(error.to_string().contains("each channel has a mean and a deviation that is not 0"));
    /// ```
    ///
    /// # Errors
    /// No sizes, sizes of 0, as many means as deviations is what it takes, deviations of 0.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(
        min_size: &[usize],
        max_size: usize,
        image_mean: &[f64],
        image_std: &[f64],
        options: TransformOptions,
    ) -> Result<GeneralizedRCNNTransform> {
        let refuse = |why: String| Err(TorshError::invalid(OP, why));
        if min_size.is_empty()
            || min_size.contains(&0)
            || max_size == 0
            || options.size_divisible == 0
        {
            return refuse(format!(
                "sizes are positive, got min_size {min_size:?}, max_size {max_size}, size_divisible {}",
                options.size_divisible
            ));
        }
        if image_mean.len() != image_std.len() || image_std.contains(&0.0) {
            return refuse(format!(
                "each channel has a mean and a deviation that is not 0, got {image_mean:?} and {image_std:?}"
            ));
        }
        Ok(GeneralizedRCNNTransform {
            min_size: min_size.to_vec(),
            max_size,
            image_mean: image_mean.to_vec(),
            image_std: image_std.to_vec(),
            options,
        })
    }

    /// Makes one tensor of the images `[c, h, w]` (floating point, between 0 and 1), and brings their targets to the
    /// new sizes.
    ///
    /// ```
    /// use torsh_tensor::{ones, tensor};
    /// use torsh_vision::models::detection::{GeneralizedRCNNTransform, Target, TransformOptions};
    /// let transform = GeneralizedRCNNTransform::new(&[8], 64, &[0.5; 3], &[0.5; 3], TransformOptions::new())?;
    /// // The image doubles, and its box with it.
    /// let target = Target::new(tensor![[1.0, 0.0, 3.0, 4.0]], tensor![1]);
    /// let (_, targets) = transform.apply(&[ones(&[3, 4, 6])], Some(&[target]), false)?;
    /// assert_eq!(targets.map(|targets| targets[0].boxes.clone()), Some(tensor![[2.0, 0.0, 6.0, 8.0]]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Images of another rank, dtype or number of channels; no images.
    #[torsh_tensor::names_caller]
    pub fn apply(
        &self,
        images: &[Tensor],
        targets: Option<&[Target]>,
        training: bool,
    ) -> Result<(ImageList, Option<Vec<Target>>)> {
        let mut resized = Vec::with_capacity(images.len());
        let mut new_targets = targets.map(<[Target]>::to_vec);
        for (i, image) in images.iter().enumerate() {
            let image = self.normalize(i, image)?;
            let (h, w) = (image.dims()[1], image.dims()[2]);
            let (new_h, new_w) = self.new_size((h, w), training)?;
            let image = match (h, w) == (new_h, new_w) {
                true => image,
                false => bilinear(&image.unsqueeze(0)?, (new_h, new_w))?.squeeze(0)?,
            };
            if let Some(target) = new_targets.as_mut().and_then(|t| t.get_mut(i)) {
                *target = target.resized((h, w), (new_h, new_w))?;
            }
            resized.push(image);
        }
        Ok((self.batch(&resized)?, new_targets))
    }

    fn normalize(&self, i: usize, image: &Tensor) -> Result<Tensor> {
        let n = self.image_mean.len();
        if image.ndim() != 3 || image.dims()[0] != n || image.numel() == 0 {
            return Err(TorshError::shape(
                OP,
                format!("images are [{n}, h, w], image {i} is {}", image.describe()),
            )
            .with_hint("a batch [n, c, h, w] becomes a list of images by unbind(0)"));
        }
        if !image.dtype().is_floating_point() {
            return Err(TorshError::dtype(
                OP,
                format!(
                    "images are floating point between 0 and 1, image {i} is {}",
                    image.describe()
                ),
            )
            .with_hint("uint8 images become such by to_dtype(DType::F32)? and div(255.0)?"));
        }
        let row = |values: &[f64]| {
            let values = Tensor::from_vec(values.to_vec(), [n, 1, 1])?;
            values.to_dtype(image.dtype())?.to_device(image.device())
        };
        image
            .sub(row(&self.image_mean)?)?
            .div(row(&self.image_std)?)
    }

    /// The size an image gets, drawing where there is a choice.
    fn new_size(&self, (h, w): (usize, usize), training: bool) -> Result<(usize, usize)> {
        let Some(&last) = self.min_size.last() else {
            return Err(TorshError::invalid(OP, "min_size is empty"));
        };
        let mut min_size = last;
        if training {
            if self.options.skip_resize {
                return Ok((h, w));
            }
            let choices = self.min_size.len();
            let drawn = Tensor::empty([1], DType::F32, torsh_tensor::Device::Cpu)?;
            let drawn = drawn.uniform_(0.0, choices as f64)?.item::<f64>()?;
            min_size = self.min_size[(drawn as usize).min(choices - 1)];
        }
        if let Some((width, height)) = self.options.fixed_size {
            return Ok((height, width));
        }
        let (short, long) = (h.min(w) as f64, h.max(w) as f64);
        let scale = (min_size as f64 / short).min(self.max_size as f64 / long);
        let new = |size: usize| (size as f64 * scale).floor() as usize;
        match (new(h), new(w)) {
            (0, _) | (_, 0) => Err(TorshError::invalid(
                OP,
                format!("an image of {h} by {w} pixels has no pixels left in the size {min_size}"),
            )),
            size => Ok(size),
        }
    }

    fn batch(&self, images: &[Tensor]) -> Result<ImageList> {
        let Some(first) = images.first() else {
            return Err(TorshError::invalid(OP, "no images were given"));
        };
        let image_sizes: Vec<_> = images.iter().map(|x| (x.dims()[1], x.dims()[2])).collect();
        let padded = |size: usize| size.next_multiple_of(self.options.size_divisible.max(1));
        let height = padded(image_sizes.iter().map(|s| s.0).max().unwrap_or(0));
        let width = padded(image_sizes.iter().map(|s| s.1).max().unwrap_or(0));
        let tensors = match images {
            [one] if image_sizes[0] == (height, width) => one.unsqueeze(0)?,
            _ => {
                let shape = (images.len(), first.dims()[0], height, width);
                let all = Tensor::zeros(shape, first.dtype(), first.device())?;
                for (i, (image, &(h, w))) in images.iter().zip(&image_sizes).enumerate() {
                    all.select(0, i)?
                        .narrow(1, 0, h)?
                        .narrow(2, 0, w)?
                        .copy_(image)?;
                }
                all
            }
        };
        Ok(ImageList {
            tensors,
            image_sizes,
        })
    }

    /// Turns detections in resized images into detections in the original ones.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::models::detection::{Detection, GeneralizedRCNNTransform, TransformOptions};
    /// let transform = GeneralizedRCNNTransform::new(&[8], 64, &[0.5; 3], &[0.5; 3], TransformOptions::new())?;
    /// let found = Detection {
    ///     boxes: tensor![[2.0, 0.0, 6.0, 8.0]],
    ///     labels: tensor![1],
    ///     scores: tensor![0.9],
    ///     masks: None,
    ///     keypoints: None,
    ///     keypoints_scores: None,
    /// };
    /// // Found in an image of 8 by 12 that was one of 4 by 6.
    /// let found = transform.postprocess(vec![found], &[(8, 12)], &[(4, 6)])?;
    /// assert_eq!(found[0].boxes, tensor![[1.0, 0.0, 3.0, 4.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Of the ops it consists of.
    #[torsh_tensor::names_caller]
    pub fn postprocess(
        &self,
        mut detections: Vec<Detection>,
        image_sizes: &[(usize, usize)],
        original_sizes: &[(usize, usize)],
    ) -> Result<Vec<Detection>> {
        for (d, (&from, &to)) in detections
            .iter_mut()
            .zip(image_sizes.iter().zip(original_sizes))
        {
            d.boxes = resize_boxes(&d.boxes, from, to)?;
            if let Some(masks) = &d.masks {
                d.masks = Some(paste_masks_in_image(masks, &d.boxes, to)?);
            }
            if let Some(keypoints) = &d.keypoints {
                d.keypoints = Some(resize_keypoints(keypoints, from, to)?);
            }
        }
        Ok(detections)
    }
}

/// Width and height of the new size in parts of the old, in float32.
fn ratios(from: (usize, usize), to: (usize, usize)) -> [f64; 2] {
    let ratio = |to: usize, from: usize| f64::from(to as f32 / from as f32);
    [ratio(to.1, from.1), ratio(to.0, from.0)]
}

/// Turns boxes `[n, 4]` of an image of one size (height, width) into boxes of it in another.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::models::detection::resize_boxes;
/// // Of an image half as high and twice as wide.
/// let boxes = resize_boxes(&tensor![[2.0, 4.0, 8.0, 12.0]], (20, 40), (10, 80))?;
/// assert_eq!(boxes, tensor![[4.0, 2.0, 16.0, 6.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Boxes of another shape.
#[torsh_tensor::names_caller]
pub fn resize_boxes(
    boxes: &Tensor,
    original_size: (usize, usize),
    new_size: (usize, usize),
) -> Result<Tensor> {
    if original_size == new_size {
        return Ok(boxes.clone());
    }
    let [x, y] = ratios(original_size, new_size);
    let by = Tensor::from_vec(vec![x, y, x, y], [4])?;
    boxes.mul(by.to_dtype(boxes.dtype())?.to_device(boxes.device())?)
}

/// Turns key points `[n, k, 3]` (x, y and whether it is seen) of an image of one size (height, width) into those of it
/// in another.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::models::detection::resize_keypoints;
/// // Of an image half as high and twice as wide; whether a point is seen stays.
/// let points = resize_keypoints(&tensor![[[2.0, 4.0, 1.0]]], (20, 40), (10, 80))?;
/// assert_eq!(points, tensor![[[4.0, 2.0, 1.0]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Key points of another shape.
#[torsh_tensor::names_caller]
pub fn resize_keypoints(
    keypoints: &Tensor,
    original_size: (usize, usize),
    new_size: (usize, usize),
) -> Result<Tensor> {
    if original_size == new_size {
        return Ok(keypoints.clone());
    }
    let [x, y] = ratios(original_size, new_size);
    let by = Tensor::from_vec(vec![x, y, 1.0], [3])?;
    keypoints.mul(
        by.to_dtype(keypoints.dtype())?
            .to_device(keypoints.device())?,
    )
}
