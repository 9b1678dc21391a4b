//! Boxes as offsets to other boxes, and back.

use torsh_tensor::{Result, Tensor, TorshError};

/// The four columns of `[n, 4]` boxes, each `[n, 1]`.
fn columns(op: &'static str, boxes: &Tensor) -> Result<[Tensor; 4]> {
    if boxes.ndim() != 2 || boxes.dims()[1] != 4 {
        return Err(TorshError::shape(
            op,
            format!("boxes are [n, 4], got {}", boxes.describe()),
        ));
    }
    Ok([
        boxes.narrow(1, 0, 1)?,
        boxes.narrow(1, 1, 1)?,
        boxes.narrow(1, 2, 1)?,
        boxes.narrow(1, 3, 1)?,
    ])
}

/// The offsets by which R-CNN, RetinaNet and SSD move and stretch anchors: the shift of the centre in parts of the
/// anchor's size and the logarithm of the stretch, each times a weight (Ren et al. 2015, <https://arxiv.org/abs/1506.01497>).
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::models::detection::BoxCoder;
///
/// let coder = BoxCoder::new([1.0, 1.0, 1.0, 1.0]);
/// let (anchor, truth) = (tensor![[0.0, 0.0, 10.0, 10.0]], tensor![[5.0, 0.0, 15.0, 10.0]]);
/// let offsets = coder.encode_single(&truth, &anchor)?;
/// assert!(offsets.allclose(&tensor![[0.5, 0.0, 0.0, 0.0]])?);
/// assert!(coder.decode_single(&offsets, &anchor)?.allclose(&truth)?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct BoxCoder {
    /// What the four offsets are multiplied by: x, y, width, height.
    pub weights: [f64; 4],
    /// The largest logarithm of a stretch that is decoded.
    pub bbox_xform_clip: f64,
}

impl BoxCoder {
    /// Takes the weights of a coder, which stretches by at most 1000 / 16.
    ///
    /// ```
    /// use torsh_vision::models::detection::BoxCoder;
    /// let coder = BoxCoder::new([10.0, 10.0, 5.0, 5.0]);
    /// assert_eq!(coder.weights, [10.0, 10.0, 5.0, 5.0]);
    /// assert!((coder.bbox_xform_clip.exp() - 62.5).abs() < 1e-9);
    /// ```
    pub fn new(weights: [f64; 4]) -> BoxCoder {
        BoxCoder {
            weights,
            bbox_xform_clip: (1000.0f64 / 16.0).ln(),
        }
    }

    /// Computes the offsets `[n, 4]` from each image's proposals to its reference boxes.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::models::detection::BoxCoder;
    /// let coder = BoxCoder::new([10.0, 10.0, 5.0, 5.0]);
    /// let (truth, proposal) = (tensor![[5.0, 0.0, 15.0, 10.0]], tensor![[0.0, 0.0, 10.0, 10.0]]);
    /// // Half of the proposal's width to the right, times 10.
    /// assert!(coder.encode(&[truth], &[proposal])?[0].allclose(&tensor![[5.0, 0.0, 0.0, 0.0]])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Lists of different lengths, or what [`BoxCoder::encode_single`] refuses.
    #[torsh_tensor::names_caller]
    pub fn encode(&self, reference_boxes: &[Tensor], proposals: &[Tensor]) -> Result<Vec<Tensor>> {
        if reference_boxes.len() != proposals.len() {
            return Err(TorshError::invalid(
                "BoxCoder::encode",
                format!(
                    "{} lists of reference boxes for {} of proposals",
                    reference_boxes.len(),
                    proposals.len()
                ),
            ));
        }
        let pairs = reference_boxes.iter().zip(proposals);
        pairs.map(|(r, p)| self.encode_single(r, p)).collect()
    }

    /// Computes the offsets `[n, 4]` from proposals `[n, 4]` to reference boxes `[n, 4]`.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::models::detection::BoxCoder;
    /// let (truth, proposal) = (tensor![[0.0, 0.0, 20.0, 10.0]], tensor![[0.0, 0.0, 10.0, 10.0]]);
    /// // The centre moves by half of the width, and the width doubles.
    /// let offsets = BoxCoder::new([1.0; 4]).encode_single(&truth, &proposal)?;
    /// assert!(offsets.allclose(&tensor![[0.5, 0.0, 2f32.ln(), 0.0]])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Boxes that are not `[n, 4]`.
    #[torsh_tensor::names_caller]
    pub fn encode_single(&self, reference_boxes: &Tensor, proposals: &Tensor) -> Result<Tensor> {
        const OP: &str = "BoxCoder::encode_single";
        let [px1, py1, px2, py2] = columns(OP, proposals)?;
        let [rx1, ry1, rx2, ry2] = columns(OP, reference_boxes)?;
        let [wx, wy, ww, wh] = self.weights;
        let side =
            |p1: &Tensor, p2: &Tensor, r1: &Tensor, r2: &Tensor, shift: f64, stretch: f64| {
                let (from, to) = (p2.sub(p1)?, r2.sub(r1)?);
                let (from_middle, to_middle) = (p1.add(from.mul(0.5)?)?, r1.add(to.mul(0.5)?)?);
                let moved = to_middle.sub(from_middle)?.mul(shift)?.div(&from)?;
                let stretched = to.div(from)?.log()?.mul(stretch)?;
                Ok::<_, TorshError>((moved, stretched))
            };
        let (dx, dw) = side(&px1, &px2, &rx1, &rx2, wx, ww)?;
        let (dy, dh) = side(&py1, &py2, &ry1, &ry2, wy, wh)?;
        Tensor::cat(&[dx, dy, dw, dh], 1)
    }

    /// Makes boxes `[n, k, 4]` of offsets `[n, 4 * k]` to all images' boxes, `n` in all.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::models::detection::BoxCoder;
    /// // Offsets of two classes for one box: half of its size to the right, and down.
    /// let codes = tensor![[0.5, 0.0, 0.0, 0.0, 0.0, 0.5, 0.0, 0.0]];
    /// let boxes = BoxCoder::new([1.0; 4]).decode(&codes, &[tensor![[0.0, 0.0, 10.0, 10.0]]])?;
    /// assert!(boxes.allclose(&tensor![[[5.0, 0.0, 15.0, 10.0], [0.0, 5.0, 10.0, 15.0]]])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As many rows of offsets as there are boxes is what it takes.
    #[torsh_tensor::names_caller]
    pub fn decode(&self, rel_codes: &Tensor, boxes: &[Tensor]) -> Result<Tensor> {
        if boxes.is_empty() {
            return Err(TorshError::invalid(
                "BoxCoder::decode",
                "no boxes were given",
            ));
        }
        let boxes = Tensor::cat(boxes, 0)?;
        let n = boxes.dims()[0];
        let columns = match n {
            0 => rel_codes.dims().last().copied().unwrap_or(4),
            _ => rel_codes.numel() / n,
        };
        let codes = rel_codes.reshape((n, columns))?;
        let k = codes.dims()[1] / 4;
        self.decode_single(&codes, &boxes)?.reshape((n, k, 4))
    }

    /// Makes boxes `[n, 4 * k]` of offsets `[n, 4 * k]` to boxes `[n, 4]`.
    ///
    /// ```
    /// use torsh_tensor::{IscloseOptions, tensor};
    /// use torsh_vision::models::detection::BoxCoder;
    /// let (codes, boxes) = (tensor![[0.5, 0.0, 2f32.ln(), 0.0]], tensor![[0.0, 0.0, 10.0, 10.0]]);
    /// let decoded = BoxCoder::new([1.0; 4]).decode_single(&codes, &boxes)?;
    /// assert!(decoded.allclose_with(&tensor![[0.0, 0.0, 20.0, 10.0]], IscloseOptions::new().atol(1e-4))?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Boxes that are not `[n, 4]`, offsets that are not `[n, 4 * k]`.
    #[torsh_tensor::names_caller]
    pub fn decode_single(&self, rel_codes: &Tensor, boxes: &Tensor) -> Result<Tensor> {
        const OP: &str = "BoxCoder::decode_single";
        let n = boxes.size(0)?;
        if rel_codes.ndim() != 2
            || rel_codes.dims()[0] != n
            || !rel_codes.dims()[1].is_multiple_of(4)
        {
            return Err(TorshError::shape(
                OP,
                format!(
                    "offsets of {n} boxes are [{n}, 4 * k], got {}",
                    rel_codes.describe()
                ),
            ));
        }
        let [x1, y1, x2, y2] = columns(OP, &boxes.to_dtype(rel_codes.dtype())?)?;
        let codes = rel_codes.reshape((n, rel_codes.dims()[1] / 4, 4))?;
        let [wx, wy, ww, wh] = self.weights;
        let side = |a: &Tensor, b: &Tensor, shift: i64, move_by: f64, stretch_by: f64| {
            let size = b.sub(a)?;
            let middle = a.add(size.mul(0.5)?)?;
            let moved = codes.select(2, shift)?.div(move_by)?;
            let stretch = codes.select(2, shift + 2)?.div(stretch_by)?;
            let stretch = stretch.clamp_max(self.bbox_xform_clip)?;
            let middle = moved.mul(&size)?.add(middle)?;
            let half = stretch.exp()?.mul(size)?.mul(0.5)?;
            Ok::<_, TorshError>((middle.sub(&half)?, middle.add(half)?))
        };
        let (left, right) = side(&x1, &x2, 0, wx, ww)?;
        let (top, bottom) = side(&y1, &y2, 1, wy, wh)?;
        Tensor::stack(&[left, top, right, bottom], 2)?.flatten(1)
    }
}

/// FCOS's offsets: the distances from an anchor's centre to the four sides of a box, in parts of the anchor's size
/// (Tian et al. 2019, <https://arxiv.org/abs/1904.01355>).
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::models::detection::BoxLinearCoder;
///
/// let coder = BoxLinearCoder::new(true);
/// let (anchor, truth) = (tensor![[0.0, 0.0, 10.0, 10.0]], tensor![[0.0, 5.0, 20.0, 10.0]]);
/// let distances = coder.encode(&anchor, &truth)?;
/// assert_eq!(distances, tensor![[0.5, 0.0, 1.5, 0.5]]);
/// assert_eq!(coder.decode(&distances, &anchor)?, truth);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct BoxLinearCoder {
    /// Whether distances are divided by the anchor's size.
    pub normalize_by_size: bool,
}

impl BoxLinearCoder {
    /// Makes a coder of distances, in parts of the anchor's size or in pixels.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::models::detection::BoxLinearCoder;
    /// let (anchor, truth) = (tensor![[0.0, 0.0, 10.0, 10.0]], tensor![[0.0, 5.0, 20.0, 10.0]]);
    /// let pixels = BoxLinearCoder::new(false).encode(&anchor, &truth)?;
    /// assert_eq!(pixels, tensor![[5.0, 0.0, 15.0, 5.0]]);
    /// assert_eq!(BoxLinearCoder::new(true).encode(&anchor, &truth)?, pixels.div(10.0)?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn new(normalize_by_size: bool) -> BoxLinearCoder {
        BoxLinearCoder { normalize_by_size }
    }

    /// Twice width and height of boxes `[.., 4]`.
    fn sizes(boxes: &Tensor) -> Result<Tensor> {
        let size = boxes.narrow(-1, 2, 2)?.sub(boxes.narrow(-1, 0, 2)?)?;
        Tensor::cat(&[size.clone(), size], -1)
    }

    /// The centres `[.., 2]` of boxes `[.., 4]`.
    fn centres(boxes: &Tensor) -> Result<Tensor> {
        boxes
            .narrow(-1, 0, 2)?
            .add(boxes.narrow(-1, 2, 2)?)?
            .mul(0.5)
    }

    /// Computes the distances `[.., 4]` from the centres of reference boxes to the sides of proposals, both `[.., 4]`.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::models::detection::BoxLinearCoder;
    /// // From the middle of a square to the left, the top, the right and the bottom of a box.
    /// let (square, boxes) = (tensor![[0.0, 0.0, 4.0, 4.0]], tensor![[1.0, 0.0, 8.0, 4.0]]);
    /// assert_eq!(BoxLinearCoder::new(false).encode(&square, &boxes)?, tensor![[1.0, 2.0, 6.0, 2.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Shapes that do not broadcast or do not end in 4.
    #[torsh_tensor::names_caller]
    pub fn encode(&self, reference_boxes: &Tensor, proposals: &Tensor) -> Result<Tensor> {
        let centres = Self::centres(reference_boxes)?;
        let before = centres.sub(proposals.narrow(-1, 0, 2)?)?;
        let behind = proposals.narrow(-1, 2, 2)?.sub(centres)?;
        let distances = Tensor::cat(&[before, behind], -1)?;
        match self.normalize_by_size {
            true => distances.div(Self::sizes(reference_boxes)?),
            false => Ok(distances),
        }
    }

    /// Makes boxes `[.., 4]` of distances `[.., 4]` around the centres of boxes `[.., 4]`.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::models::detection::BoxLinearCoder;
    /// let (square, distances) = (tensor![[0.0, 0.0, 4.0, 4.0]], tensor![[1.0, 2.0, 6.0, 2.0]]);
    /// assert_eq!(BoxLinearCoder::new(false).decode(&distances, &square)?, tensor![[1.0, 0.0, 8.0, 4.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Shapes that do not broadcast or do not end in 4.
    #[torsh_tensor::names_caller]
    pub fn decode(&self, rel_codes: &Tensor, boxes: &Tensor) -> Result<Tensor> {
        let boxes = boxes.to_dtype(rel_codes.dtype())?;
        let centres = Self::centres(&boxes)?;
        let distances = match self.normalize_by_size {
            true => rel_codes.mul(Self::sizes(&boxes)?)?,
            false => rel_codes.clone(),
        };
        let low = centres.sub(distances.narrow(-1, 0, 2)?)?;
        let high = centres.add(distances.narrow(-1, 2, 2)?)?;
        Tensor::cat(&[low, high], -1)
    }
}
