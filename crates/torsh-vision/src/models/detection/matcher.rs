//! Which predicted box answers for which true one, and which of them the loss looks at.

use torsh_tensor::{DType, Result, Tensor, TorshError};

/// Gives each predicted box a true one, or none, by a matrix of how well they fit (as the overlap of boxes).
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::models::detection::Matcher;
///
/// let overlap = tensor![[0.9, 0.4, 0.1, 0.2], [0.0, 0.2, 0.35, 0.25]];
/// let matcher = Matcher::new(0.7, 0.3, false)?;
/// assert_eq!(matcher.matches(&overlap)?, tensor![0, -2, -2, -1]);
/// // The best prediction for the second true box belongs to it, bad as it is.
/// let matcher = Matcher::new(0.7, 0.3, true)?;
/// assert_eq!(matcher.matches(&overlap)?, tensor![0, -2, 1, -1]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Matcher {
    /// From this value on a prediction belongs to a true box.
    pub high_threshold: f64,
    /// Below this value a prediction is background.
    pub low_threshold: f64,
    /// Whether the best predictions for each true box belong to it in any case.
    pub allow_low_quality_matches: bool,
}

impl Matcher {
    /// What [`Matcher::matches`] says of background.
    pub const BELOW_LOW_THRESHOLD: i64 = -1;
    /// What [`Matcher::matches`] says of predictions that are neither.
    pub const BETWEEN_THRESHOLDS: i64 = -2;

    /// Makes a matcher with these thresholds.
    ///
    /// ```
    /// use torsh_vision::models::detection::Matcher;
    /// let error = Matcher::new(0.3, 0.5, false).err().map(|e| e.to_string());
    /// assert!(error.is_some_and(|e| e.contains("low_threshold 0.5 is above high_threshold 0.3")));
    /// ```
    ///
    /// # Errors
    /// A low threshold above the high one.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(
        high_threshold: f64,
        low_threshold: f64,
        allow_low_quality_matches: bool,
    ) -> Result<Matcher> {
        if low_threshold > high_threshold {
            return Err(TorshError::invalid(
                "Matcher",
                format!("low_threshold {low_threshold} is above high_threshold {high_threshold}"),
            ));
        }
        Ok(Matcher {
            high_threshold,
            low_threshold,
            allow_low_quality_matches,
        })
    }

    /// Gives for each of `n` predictions the number of its true box, -1 or -2 (int64 `[n]`), by a matrix `[m, n]` of
    /// `m` true boxes.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::models::detection::Matcher;
    /// // How well three predictions fit two true boxes.
    /// let overlap = tensor![[0.8, 0.1, 0.0], [0.2, 0.6, 0.1]];
    /// let matched = Matcher::new(0.5, 0.5, false)?.matches(&overlap)?;
    /// assert_eq!(matched, tensor![0, 1, Matcher::BELOW_LOW_THRESHOLD]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// No true boxes, or no predictions.
    #[torsh_tensor::names_caller]
    pub fn matches(&self, match_quality_matrix: &Tensor) -> Result<Tensor> {
        let q = match_quality_matrix.detach();
        if q.ndim() != 2 || q.numel() == 0 {
            let what = match q.dims() {
                [0, ..] => "no true boxes are there to match".to_string(),
                [_, 0] => "no predicted boxes are there to match".to_string(),
                _ => format!(
                    "the matrix is [true boxes, predicted boxes], got {}",
                    q.describe()
                ),
            };
            return Err(TorshError::invalid("Matcher", what));
        }
        let (values, best) = q.max_dim(0, false)?;
        let below = values.lt(self.low_threshold)?;
        let between = values
            .ge(self.low_threshold)?
            .logical_and(values.lt(self.high_threshold)?)?;
        let matches = best
            .masked_fill(&below, Self::BELOW_LOW_THRESHOLD)?
            .masked_fill(&between, Self::BETWEEN_THRESHOLDS)?;
        if !self.allow_low_quality_matches {
            return Ok(matches);
        }
        let of_each = q.amax(1, true)?;
        let kept = q.eq(of_each)?.any_dim(0, false)?;
        Tensor::where_(&kept, &best, &matches)
    }
}

/// SSD's matcher: like [`Matcher`] with one threshold, and the best prediction for each true box belongs to it.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::models::detection::SSDMatcher;
///
/// let overlap = tensor![[0.9, 0.4, 0.1], [0.0, 0.2, 0.3]];
/// assert_eq!(SSDMatcher::new(0.5).matches(&overlap)?, tensor![0, -1, 1]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct SSDMatcher(Matcher);

impl SSDMatcher {
    /// Makes a matcher with this threshold.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::models::detection::SSDMatcher;
    /// let overlap = tensor![[0.6, 0.4]];
    /// assert_eq!(SSDMatcher::new(0.5).matches(&overlap)?, tensor![0, -1]);
    /// assert_eq!(SSDMatcher::new(0.3).matches(&overlap)?, tensor![0, 0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn new(threshold: f64) -> SSDMatcher {
        SSDMatcher(Matcher {
            high_threshold: threshold,
            low_threshold: threshold,
            allow_low_quality_matches: false,
        })
    }

    /// Gives for each of `n` predictions the number of its true box or -1 (int64 `[n]`), by a matrix `[m, n]`.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::models::detection::SSDMatcher;
    /// // Nothing is above the threshold, but each true box gets its best prediction.
    /// let overlap = tensor![[0.2, 0.1, 0.0], [0.0, 0.1, 0.3]];
    /// assert_eq!(SSDMatcher::new(0.5).matches(&overlap)?, tensor![0, -1, 1]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// No true boxes, or no predictions.
    #[torsh_tensor::names_caller]
    pub fn matches(&self, match_quality_matrix: &Tensor) -> Result<Tensor> {
        let matches = self.0.matches(match_quality_matrix)?;
        let (_, best) = match_quality_matrix.detach().max_dim(1, false)?;
        let mut matches_of = matches.to_vec::<i64>()?;
        // Where two true boxes have the same best prediction, the later one gets it.
        for (truth, prediction) in best.to_vec::<i64>()?.into_iter().enumerate() {
            if let Some(m) = usize::try_from(prediction)
                .ok()
                .and_then(|p| matches_of.get_mut(p))
            {
                *m = truth as i64;
            }
        }
        let n = matches_of.len();
        Tensor::from_vec(matches_of, [n])?.to_device(matches.device())
    }
}

/// Draws, for each image, a fixed number of boxes for the loss, of which a fixed part at most is foreground.
///
/// ```
/// use torsh_core::random::manual_seed;
/// use torsh_tensor::tensor;
/// use torsh_vision::models::detection::BalancedPositiveNegativeSampler;
///
/// manual_seed(0);
/// let sampler = BalancedPositiveNegativeSampler::new(4, 0.5);
/// let (positive, negative) = sampler.sample(&[tensor![1, 0, 0, 0, -1, 0]])?;
/// assert_eq!(positive[0], tensor![1, 0, 0, 0, 0, 0].to_dtype(torsh_tensor::DType::U8)?);
/// assert_eq!(negative[0].sum()?.item::<i64>()?, 3);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct BalancedPositiveNegativeSampler {
    /// How many boxes of each image are drawn.
    pub batch_size_per_image: usize,
    /// The part of them that is foreground, where there are enough.
    pub positive_fraction: f64,
}

impl BalancedPositiveNegativeSampler {
    /// Makes a sampler of so many boxes, of which at most this part is foreground.
    ///
    /// ```
    /// use torsh_vision::models::detection::BalancedPositiveNegativeSampler;
    /// let sampler = BalancedPositiveNegativeSampler::new(256, 0.5);
    /// assert_eq!((sampler.batch_size_per_image, sampler.positive_fraction), (256, 0.5));
    /// ```
    pub fn new(batch_size_per_image: usize, positive_fraction: f64) -> Self {
        BalancedPositiveNegativeSampler {
            batch_size_per_image,
            positive_fraction,
        }
    }

    /// Gives for each image the masks (uint8 `[n]`) of the drawn foreground and background, of labels `[n]` that are
    /// positive, 0 (background) or -1 (neither). Draws two permutations per image from the default generator, as
    /// PyTorch.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::models::detection::BalancedPositiveNegativeSampler;
    /// // Two of each kind are all there are.
    /// let sampler = BalancedPositiveNegativeSampler::new(4, 0.5);
    /// let (positive, negative) = sampler.sample(&[tensor![1, 3, 0, 0, -1]])?;
    /// assert_eq!(positive[0].to_vec::<u8>()?, [1, 1, 0, 0, 0]);
    /// assert_eq!(negative[0].to_vec::<u8>()?, [0, 0, 1, 1, 0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Labels that are not one-dimensional.
    #[torsh_tensor::names_caller]
    pub fn sample(&self, matched_idxs: &[Tensor]) -> Result<(Vec<Tensor>, Vec<Tensor>)> {
        let (mut positives, mut negatives) = (Vec::new(), Vec::new());
        for labels in matched_idxs {
            if labels.ndim() != 1 {
                return Err(TorshError::shape(
                    "BalancedPositiveNegativeSampler",
                    format!("an image's labels are [n], got {}", labels.describe()),
                ));
            }
            let positive = places(&labels.ge(1)?)?;
            let negative = places(&labels.eq(0)?)?;
            let wanted = (self.batch_size_per_image as f64 * self.positive_fraction) as usize;
            let n_positive = wanted.min(positive.numel());
            let n_negative = (self.batch_size_per_image - n_positive).min(negative.numel());
            for (of, n, out) in [
                (positive, n_positive, &mut positives),
                (negative, n_negative, &mut negatives),
            ] {
                let order = Tensor::randperm(of.numel() as i64, DType::I64, of.device())?;
                let drawn = of.index_select(0, &order.narrow(0, 0, n)?)?;
                let mask = Tensor::zeros(labels.dims(), DType::U8, labels.device())?;
                let one = Tensor::scalar(1, DType::U8, labels.device())?;
                mask.index_put_(&[Some(drawn)], &one, false)?;
                out.push(mask);
            }
        }
        Ok((positives, negatives))
    }
}

/// The positions `[k]` at which a mask `[n]` is true.
pub(super) fn places(mask: &Tensor) -> Result<Tensor> {
    mask.nonzero()?.select(1, 0)
}
