//! Regions of several feature maps.

use torsh_tensor::{DType, Result, Tensor, TorshError, cat};

use super::{RoiAlignOptions, roi_align_with};

/// Cuts boxes out of feature maps of several sizes, each out of the one whose elements fit its size (equation 1 of Lin et
/// al. 2016, <https://arxiv.org/abs/1612.03144>), as `torchvision.ops.MultiScaleRoIAlign`.
///
/// ```
/// use torsh_tensor::{ones, tensor};
/// use torsh_vision::ops::MultiScaleRoIAlign;
///
/// let align = MultiScaleRoIAlign::new(["0", "1"], (3, 3), 2);
/// let maps = [("0".to_string(), ones(&[1, 5, 64, 64])), ("1".to_string(), ones(&[1, 5, 32, 32]))];
/// let boxes = align.apply(&maps, &[tensor![[0.0, 0.0, 60.0, 90.0], [10.0, 10.0, 250.0, 250.0]]], &[(256, 256)])?;
/// assert_eq!(boxes, ones(&[2, 5, 3, 3]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct MultiScaleRoIAlign {
    /// The names of the feature maps that are used.
    pub featmap_names: Vec<String>,
    /// Height and width of the results.
    pub output_size: (usize, usize),
    /// Samples along each side of an element of the results.
    pub sampling_ratio: i64,
    /// The side of a box that belongs to the level `canonical_level`.
    pub canonical_scale: f64,
    /// The level of boxes of the side `canonical_scale`: a map of this level is smaller than the image by 2 to its power.
    pub canonical_level: f64,
}

impl MultiScaleRoIAlign {
    /// Cuts boxes out of the maps of these names; boxes of 224 by 224 pixels out of level 4, unless
    /// [`canonical`](MultiScaleRoIAlign::canonical) says otherwise.
    ///
    /// ```
    /// use torsh_vision::ops::MultiScaleRoIAlign;
    /// let align = MultiScaleRoIAlign::new(["0", "1"], (7, 7), 2);
    /// assert_eq!(align.featmap_names, ["0", "1"]);
    /// assert_eq!((align.canonical_scale, align.canonical_level), (224.0, 4.0));
    /// ```
    pub fn new<N: Into<String>>(
        featmap_names: impl IntoIterator<Item = N>,
        output_size: (usize, usize),
        sampling_ratio: i64,
    ) -> MultiScaleRoIAlign {
        MultiScaleRoIAlign {
            featmap_names: featmap_names.into_iter().map(Into::into).collect(),
            output_size,
            sampling_ratio,
            canonical_scale: 224.0,
            canonical_level: 4.0,
        }
    }

    /// With another size that belongs to another level.
    #[must_use]
    pub fn canonical(mut self, scale: f64, level: f64) -> Self {
        (self.canonical_scale, self.canonical_level) = (scale, level);
        self
    }

    /// Cuts out what is in the boxes `[n, 4]` of each image, as `[boxes of all images, c, height, width]`. The sizes
    /// are those of the images (height, width) before they became feature maps.
    ///
    /// ```
    /// use torsh_tensor::{ones, tensor};
    /// use torsh_vision::ops::MultiScaleRoIAlign;
    /// // Two maps of an image of 256 by 256: ones at a quarter of its size, twos at an eighth.
    /// let maps = [("0".to_string(), ones(&[1, 1, 64, 64])), ("1".to_string(), ones(&[1, 1, 32, 32]).mul(2)?)];
    /// let align = MultiScaleRoIAlign::new(["0", "1"], (1, 1), 2);
    /// // The small box is cut out of the fine map, the large one out of the coarse one.
    /// let boxes = tensor![[32.0, 32.0, 64.0, 64.0], [16.0, 16.0, 240.0, 240.0]];
    /// let cut = align.apply(&maps, &[boxes], &[(256, 256)])?;
    /// assert_eq!(cut.flatten(0)?, tensor![1.0, 2.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// None of the maps has one of the names, maps that differ in channels, boxes of another shape.
    #[torsh_tensor::names_caller]
    pub fn apply(
        &self,
        maps: &[(String, Tensor)],
        boxes: &[Tensor],
        image_sizes: &[(usize, usize)],
    ) -> Result<Tensor> {
        const OP: &str = "MultiScaleRoIAlign";
        let used = maps
            .iter()
            .filter(|(name, _)| self.featmap_names.contains(name));
        let used: Vec<&Tensor> = used.map(|(_, map)| map).collect();
        let Some(&first) = used.first() else {
            let names: Vec<&str> = maps.iter().map(|(name, _)| name.as_str()).collect();
            return Err(TorshError::invalid(
                OP,
                format!(
                    "the feature maps are {}, and {} are wanted",
                    names.join(", "),
                    self.featmap_names.join(", ")
                ),
            ));
        };
        if let Some(bad) = used.iter().find(|map| map.ndim() != 4) {
            return Err(TorshError::shape(
                OP,
                format!("feature maps are [n, c, h, w], got {}", bad.describe()),
            ));
        }
        if boxes.is_empty() || image_sizes.is_empty() {
            return Err(TorshError::invalid(OP, "no images were given"));
        }
        if let Some(bad) = boxes.iter().find(|b| b.ndim() != 2 || b.dims()[1] != 4) {
            return Err(TorshError::shape(
                OP,
                format!("an image's boxes are [n, 4], got {}", bad.describe()),
            ));
        }
        let height = image_sizes.iter().map(|size| size.0).max().unwrap_or(1);
        let scales: Vec<f64> = used
            .iter()
            .map(|map| scale(map.dims()[2], height))
            .collect();
        let rois = rois(boxes)?;
        let cut = |map: &Tensor, rois: &Tensor, scale: f64| {
            let options = RoiAlignOptions::new()
                .spatial_scale(scale)
                .sampling_ratio(self.sampling_ratio);
            roi_align_with(map, rois, self.output_size, options)
        };
        if used.len() == 1 {
            return cut(first, &rois, scales[0]);
        }
        let levels = self.levels(&rois, &scales)?;
        let (mut parts, mut order) = (Vec::new(), Vec::with_capacity(levels.len()));
        for (level, (map, &scale)) in used.iter().zip(&scales).enumerate() {
            let members = levels
                .iter()
                .enumerate()
                .filter(|(_, l)| **l == level as i64);
            let members: Vec<i64> = members.map(|(i, _)| i as i64).collect();
            if members.is_empty() {
                continue;
            }
            order.extend_from_slice(&members);
            let n = members.len();
            let members = Tensor::from_vec(members, [n])?.to_device(rois.device())?;
            parts.push(cut(map, &rois.index_select(0, &members)?, scale)?);
        }
        match &parts[..] {
            [] => {
                let (rows, columns) = self.output_size;
                let shape = (0, first.dims()[1], rows, columns);
                Tensor::zeros(shape, first.dtype(), first.device())
            }
            [all] => Ok(all.clone()),
            _ => {
                let mut back = vec![0i64; order.len()];
                for (at, &i) in order.iter().enumerate() {
                    back[i as usize] = at as i64;
                }
                let n = back.len();
                let back = Tensor::from_vec(back, [n])?.to_device(rois.device())?;
                cat(&parts, 0)?.index_select(0, &back)
            }
        }
    }

    /// The number of each box's map.
    fn levels(&self, rois: &Tensor, scales: &[f64]) -> Result<Vec<i64>> {
        let level = |scale: f64| -(scale as f32).log2();
        let (low, high) = (
            level(scales[0]) as i64,
            level(scales[scales.len() - 1]) as i64,
        );
        let rois = rois.detach();
        let sides = rois.narrow(1, 3, 2)?.sub(rois.narrow(1, 1, 2)?)?;
        let side = sides.select(1, 0)?.mul(sides.select(1, 1)?)?.sqrt()?;
        let level = side
            .div(self.canonical_scale)?
            .log2()?
            .add(self.canonical_level)?;
        let level = level.add(1e-6)?.floor()?.clamp(low, high)?;
        level.sub(low)?.to_dtype(DType::I64)?.to_vec::<i64>()
    }
}

/// By how much a map is smaller than the image: a power of two.
fn scale(size: usize, image: usize) -> f64 {
    2f64.powf(f64::from(
        (size as f32 / image as f32).log2().round_ties_even(),
    ))
}

/// The boxes of each image as `[n, 5]`, with the image's number before.
fn rois(boxes: &[Tensor]) -> Result<Tensor> {
    let numbered = boxes.iter().enumerate().map(|(i, b)| {
        let number = Tensor::full([b.dims()[0], 1], i as i64, b.dtype(), b.device())?;
        cat(&[number, b.clone()], 1)
    });
    let numbered: Result<Vec<Tensor>> = numbered.collect();
    cat(&numbered?, 0)
}
