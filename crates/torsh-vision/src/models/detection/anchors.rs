//! The boxes from which detectors start: anchors around each element of a feature map.

use torsh_tensor::{DType, Device, Result, Tensor, TorshError};

use super::transform::ImageList;

/// The height and width of each feature map.
fn grids(op: &'static str, feature_maps: &[Tensor]) -> Result<Vec<[usize; 2]>> {
    let grid = |x: &Tensor| match *x.dims() {
        [_, _, h, w] if h > 0 && w > 0 => Ok([h, w]),
        _ => Err(TorshError::shape(
            op,
            format!("feature maps are [n, c, h, w], got {}", x.describe()),
        )),
    };
    feature_maps.iter().map(grid).collect()
}

fn first<'a>(op: &'static str, feature_maps: &'a [Tensor]) -> Result<&'a Tensor> {
    feature_maps
        .first()
        .ok_or_else(|| TorshError::invalid(op, "no feature maps were given"))
}

fn tensor(boxes: Vec<f32>, dtype: DType, device: Device) -> Result<Tensor> {
    let n = boxes.len() / 4;
    Tensor::from_vec(boxes, [n, 4])?
        .to_dtype(dtype)?
        .to_device(device)
}

/// Anchors of all sizes and aspect ratios of a feature map, around each of its elements.
///
/// ```
/// use torsh_tensor::{tensor, zeros};
/// use torsh_vision::models::detection::{AnchorGenerator, ImageList};
///
/// let anchors = AnchorGenerator::new(vec![vec![32.0]], vec![vec![1.0]])?;
/// let images = ImageList { tensors: zeros(&[1, 3, 64, 128]), image_sizes: vec![(64, 128)] };
/// let boxes = anchors.boxes(&images, &[zeros(&[1, 8, 1, 2])])?;
/// // The feature map's two elements are 64 pixels apart.
/// assert_eq!(boxes[0], tensor![[-16.0, -16.0, 16.0, 16.0], [48.0, -16.0, 80.0, 16.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct AnchorGenerator {
    sizes: Vec<Vec<f64>>,
    aspect_ratios: Vec<Vec<f64>>,
}

impl AnchorGenerator {
    /// Takes the sizes of the anchors and their aspect ratios (height by width) of each feature map.
    ///
    /// ```
    /// use torsh_vision::models::detection::AnchorGenerator;
    /// let error = AnchorGenerator::new(vec![vec![32.0], vec![64.0]], vec![vec![1.0]]).err().map(|e| e.to_string());
    /// assert!(error.is_some_and(|e| e.contains("2 lists of sizes and 1 of aspect ratios")));
    /// ```
    ///
    /// # Errors
    /// As many lists of aspect ratios as of sizes is what it takes, of positive numbers.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(sizes: Vec<Vec<f64>>, aspect_ratios: Vec<Vec<f64>>) -> Result<AnchorGenerator> {
        if sizes.is_empty() || sizes.len() != aspect_ratios.len() {
            return Err(TorshError::invalid(
                "AnchorGenerator",
                format!(
                    "{} lists of sizes and {} of aspect ratios: each feature map has one of both",
                    sizes.len(),
                    aspect_ratios.len()
                ),
            ));
        }
        if let Some(bad) = sizes
            .iter()
            .chain(&aspect_ratios)
            .flatten()
            .find(|v| **v <= 0.0 || !v.is_finite())
        {
            return Err(TorshError::invalid(
                "AnchorGenerator",
                format!("sizes and aspect ratios are positive, got {bad}"),
            ));
        }
        Ok(AnchorGenerator {
            sizes,
            aspect_ratios,
        })
    }

    /// How many anchors each element of each feature map has.
    ///
    /// ```
    /// use torsh_vision::models::detection::AnchorGenerator;
    /// let anchors = AnchorGenerator::new(vec![vec![32.0, 64.0]], vec![vec![0.5, 1.0, 2.0]])?;
    /// assert_eq!(anchors.num_anchors_per_location(), [2 * 3]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn num_anchors_per_location(&self) -> Vec<usize> {
        let both = self.sizes.iter().zip(&self.aspect_ratios);
        both.map(|(s, a)| s.len() * a.len()).collect()
    }

    /// The anchors around the origin, in whole pixels.
    fn cell(sizes: &[f64], aspect_ratios: &[f64]) -> Vec<[f32; 4]> {
        let mut cell = Vec::with_capacity(sizes.len() * aspect_ratios.len());
        for &ratio in aspect_ratios {
            let tall = (ratio as f32).sqrt();
            let wide = 1.0 / tall;
            for &size in sizes {
                let (w, h) = (wide * size as f32, tall * size as f32);
                cell.push([-w, -h, w, h].map(|v| (v / 2.0).round_ties_even()));
            }
        }
        cell
    }

    /// Makes the anchors `[n, 4]` of each image, of its feature maps in order, in the feature maps' dtype.
    ///
    /// ```
    /// use torsh_tensor::{tensor, zeros};
    /// use torsh_vision::models::detection::{AnchorGenerator, ImageList};
    /// // One element of one map, with a square and a box of its area, four times as wide as high.
    /// let anchors = AnchorGenerator::new(vec![vec![32.0]], vec![vec![1.0, 0.25]])?;
    /// let images = ImageList { tensors: zeros(&[1, 3, 64, 64]), image_sizes: vec![(64, 64)] };
    /// let boxes = anchors.boxes(&images, &[zeros(&[1, 8, 1, 1])])?;
    /// assert_eq!(boxes[0], tensor![[-16.0, -16.0, 16.0, 16.0], [-32.0, -8.0, 32.0, 8.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As many feature maps as there are lists of sizes is what it takes.
    #[torsh_tensor::names_caller]
    pub fn boxes(&self, images: &ImageList, feature_maps: &[Tensor]) -> Result<Vec<Tensor>> {
        const OP: &str = "AnchorGenerator";
        let like = first(OP, feature_maps)?;
        if feature_maps.len() != self.sizes.len() {
            return Err(TorshError::invalid(
                OP,
                format!(
                    "{} feature maps, and sizes and aspect ratios of {}",
                    feature_maps.len(),
                    self.sizes.len()
                ),
            ));
        }
        let (height, width) = images.padded_size()?;
        let mut boxes = Vec::new();
        for (level, [rows, columns]) in grids(OP, feature_maps)?.into_iter().enumerate() {
            let cell = Self::cell(&self.sizes[level], &self.aspect_ratios[level]);
            let (down, right) = ((height / rows) as f32, (width / columns) as f32);
            boxes.reserve(rows * columns * cell.len() * 4);
            for row in 0..rows {
                let y = row as f32 * down;
                for column in 0..columns {
                    let x = column as f32 * right;
                    for [x1, y1, x2, y2] in &cell {
                        boxes.extend([x + x1, y + y1, x + x2, y + y2]);
                    }
                }
            }
        }
        let boxes = tensor(boxes, like.dtype(), like.device())?;
        Ok(vec![boxes; images.image_sizes.len()])
    }
}

/// SSD's default boxes: around each element of a feature map two squares, and two boxes for each aspect ratio (Liu et
/// al. 2015, <https://arxiv.org/abs/1512.02325>).
///
/// ```
/// use torsh_tensor::{tensor, zeros};
/// use torsh_vision::models::detection::{DefaultBoxGenerator, DefaultBoxOptions, ImageList};
///
/// let options = DefaultBoxOptions::new().scales(vec![0.5, 0.5]);
/// let boxes = DefaultBoxGenerator::new(vec![vec![]], options)?;
/// let images = ImageList { tensors: zeros(&[1, 3, 10, 20]), image_sizes: vec![(10, 20)] };
/// let boxes = boxes.boxes(&images, &[zeros(&[1, 8, 1, 1])])?;
/// assert_eq!(boxes[0], tensor![[5.0, 2.5, 15.0, 7.5], [5.0, 2.5, 15.0, 7.5]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct DefaultBoxGenerator {
    steps: Option<Vec<f64>>,
    /// Width and height, in parts of the image, of each feature map's boxes.
    pairs: Vec<Vec<[f32; 2]>>,
}

torsh_tensor::options! {
    /// The arguments of [`DefaultBoxGenerator`] that have defaults.
    ///
    /// ```
    /// use torsh_vision::models::detection::DefaultBoxOptions;
    /// let options = DefaultBoxOptions::new().min_ratio(0.2).steps(vec![8.0]);
    /// assert_eq!((options.min_ratio, options.max_ratio, options.clip), (0.2, 0.9, true));
    /// assert_eq!((options.scales, options.steps), (None, Some(vec![8.0])));
    /// ```
    DefaultBoxOptions {
        /// The size of the first feature map's boxes, in parts of the image; without `scales`.
        min_ratio: f64 = 0.15;
        /// The size of the last feature map's boxes; without `scales`.
        max_ratio: f64 = 0.9;
        /// The size of each feature map's boxes, and one more.
        scales: Option<Vec<f64>> = None, Vec<f64> => Some;
        /// The distance of the boxes of each feature map in pixels; without it that of the map's elements.
        steps: Option<Vec<f64>> = None, Vec<f64> => Some;
        /// Whether boxes are at most as large as the image.
        clip: bool = true;
    }
}

impl DefaultBoxGenerator {
    /// Takes the aspect ratios of the boxes, each also upright, of each feature map.
    ///
    /// ```
    /// use torsh_vision::models::detection::{DefaultBoxGenerator, DefaultBoxOptions};
    /// let options = DefaultBoxOptions::new().scales(vec![0.1, 0.2]);
    /// let error = DefaultBoxGenerator::new(vec![vec![2.0]; 2], options).err().map(|e| e.to_string());
    /// assert!(error.is_some_and(|e| e.contains("2 feature maps have 3 scales, got 2")));
    /// ```
    ///
    /// # Errors
    /// Steps of another number of feature maps, too few scales.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(
        aspect_ratios: Vec<Vec<f64>>,
        options: DefaultBoxOptions,
    ) -> Result<DefaultBoxGenerator> {
        let n = aspect_ratios.len();
        let refuse = |why: String| Err(TorshError::invalid("DefaultBoxGenerator", why));
        if let Some(steps) = options.steps.as_ref().filter(|s| s.len() != n) {
            return refuse(format!(
                "{n} lists of aspect ratios and {} steps",
                steps.len()
            ));
        }
        let scales = match options.scales {
            Some(scales) => scales,
            None if n > 1 => {
                let range = options.max_ratio - options.min_ratio;
                let scale = |k: usize| options.min_ratio + range * k as f64 / (n as f64 - 1.0);
                (0..n).map(scale).chain([1.0]).collect()
            }
            None => vec![options.min_ratio, options.max_ratio],
        };
        if scales.len() <= n {
            return refuse(format!(
                "{n} feature maps have {} scales, got {}",
                n + 1,
                scales.len()
            ));
        }
        let pair = |w: f64, h: f64| {
            [w, h].map(|v| match options.clip {
                true => (v as f32).clamp(0.0, 1.0),
                false => v as f32,
            })
        };
        let mut pairs = Vec::with_capacity(n);
        for (ratios, scale) in aspect_ratios.iter().zip(scales.windows(2)) {
            let between = (scale[0] * scale[1]).sqrt();
            let mut of_map = vec![pair(scale[0], scale[0]), pair(between, between)];
            for ratio in ratios {
                let (w, h) = (scale[0] * ratio.sqrt(), scale[0] / ratio.sqrt());
                of_map.extend([pair(w, h), pair(h, w)]);
            }
            pairs.push(of_map);
        }
        Ok(DefaultBoxGenerator {
            steps: options.steps,
            pairs,
        })
    }

    /// How many boxes each element of each feature map has.
    ///
    /// ```
    /// use torsh_vision::models::detection::{DefaultBoxGenerator, DefaultBoxOptions};
    /// let boxes = DefaultBoxGenerator::new(vec![vec![2.0], vec![2.0, 3.0]], DefaultBoxOptions::new())?;
    /// assert_eq!(boxes.num_anchors_per_location(), [2 + 2 * 1, 2 + 2 * 2]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn num_anchors_per_location(&self) -> Vec<usize> {
        self.pairs.iter().map(Vec::len).collect()
    }

    /// Makes the boxes `[n, 4]` of each image in pixels, of its feature maps in order, in the feature maps' dtype.
    ///
    /// ```
    /// use torsh_tensor::{tensor, zeros};
    /// use torsh_vision::models::detection::{DefaultBoxGenerator, DefaultBoxOptions, ImageList};
    /// // Squares of half the image's size around the middle of the first step of 10 pixels.
    /// let options = DefaultBoxOptions::new().scales(vec![0.5, 0.5]).steps(vec![10.0]);
    /// let boxes = DefaultBoxGenerator::new(vec![vec![]], options)?;
    /// let images = ImageList { tensors: zeros(&[1, 3, 20, 20]), image_sizes: vec![(20, 20)] };
    /// let boxes = boxes.boxes(&images, &[zeros(&[1, 8, 1, 1])])?;
    /// assert_eq!(boxes[0], tensor![[0.0, 0.0, 10.0, 10.0], [0.0, 0.0, 10.0, 10.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As many feature maps as there are lists of aspect ratios is what it takes.
    #[torsh_tensor::names_caller]
    pub fn boxes(&self, images: &ImageList, feature_maps: &[Tensor]) -> Result<Vec<Tensor>> {
        const OP: &str = "DefaultBoxGenerator";
        let like = first(OP, feature_maps)?;
        if feature_maps.len() != self.pairs.len() {
            return Err(TorshError::invalid(
                OP,
                format!(
                    "{} feature maps, and aspect ratios of {}",
                    feature_maps.len(),
                    self.pairs.len()
                ),
            ));
        }
        let (height, width) = images.padded_size()?;
        let mut boxes = Vec::new();
        for (level, [rows, columns]) in grids(OP, feature_maps)?.into_iter().enumerate() {
            let (across, along) = match &self.steps {
                Some(steps) => (width as f64 / steps[level], height as f64 / steps[level]),
                None => (columns as f64, rows as f64),
            };
            for row in 0..rows {
                let y = (row as f32 + 0.5) / along as f32;
                for column in 0..columns {
                    let x = (column as f32 + 0.5) / across as f32;
                    for [w, h] in &self.pairs[level] {
                        boxes.extend([x, y, *w, *h]);
                    }
                }
            }
        }
        let boxes = tensor(boxes, like.dtype(), like.device())?;
        let (centres, half) = (boxes.narrow(1, 0, 2)?, boxes.narrow(1, 2, 2)?.mul(0.5)?);
        let size = Tensor::from_vec(vec![width as f64, height as f64], [2])?;
        let size = size.to_dtype(like.dtype())?.to_device(like.device())?;
        let low = centres.sub(&half)?.mul(&size)?;
        let high = centres.add(&half)?.mul(&size)?;
        let boxes = Tensor::cat(&[low, high], 1)?;
        Ok(vec![boxes; images.image_sizes.len()])
    }
}
