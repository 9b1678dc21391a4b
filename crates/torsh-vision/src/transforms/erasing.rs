//! Random erasing.

use torsh_tensor::{DType, Device, Result, Tensor, TorshError};

use super::apply::{ItemTransform, probability, query_chw};
use super::arguments::Fill;
use super::color::recolored;
use super::crops::draw_ratio;
use super::draws::{below, randn, uniform};
use super::functional as f;
use super::sample::Item;
use super::transforms;

transforms!(RandomErasing);

/// The image with a random rectangle overwritten (`torchvision.transforms.v2.RandomErasing`; Z. Zhong et al., "Random
/// erasing data augmentation", 2020).
///
/// ```
/// use torsh_tensor::ones;
/// use torsh_vision::transforms::{RandomErasing, Transform};
/// let erased = RandomErasing::new(1.0)?.scale(0.2, 0.3)?.apply(&ones([3, 16, 16]))?;
/// assert!(erased.sum()?.item::<f64>()? < 3.0 * 256.0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct RandomErasing {
    p: f64,
    scale: (f64, f64),
    ratio: (f64, f64),
    /// None for normal numbers.
    value: Fill,
}

impl Default for RandomErasing {
    fn default() -> Self {
        RandomErasing {
            p: 0.5,
            scale: (0.02, 0.33),
            ratio: (0.3, 3.3),
            value: Fill::from(0.0),
        }
    }
}

impl RandomErasing {
    /// With this probability; 2 to 33 % of the area, sides of 0.3 to 3.3, zeros.
    ///
    /// ```
    /// use torsh_vision::transforms::RandomErasing;
    /// let error = RandomErasing::new(1.5).unwrap_err().to_string();
    /// assert!(error.contains("a probability is from 0 to 1, got 1.5"));
    /// ```
    ///
    /// # Errors
    /// Not from 0 to 1.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(p: f64) -> Result<Self> {
        Ok(RandomErasing {
            p: probability(Self::NAME, p)?,
            ..RandomErasing::default()
        })
    }

    /// From which to which part of the area the rectangle has (0.02 to 0.33).
    ///
    /// ```
    /// use torsh_tensor::ones;
    /// use torsh_vision::transforms::{RandomErasing, Transform};
    /// // A quarter of 16 pixels, as a square.
    /// let erasing = RandomErasing::new(1.0)?.scale(0.25, 0.25)?.ratio(1.0, 1.0)?;
    /// assert_eq!(erasing.apply(&ones([1, 4, 4]))?.sum()?.item::<f32>()?, 12.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Not from 0 to 1, or falling.
    #[torsh_tensor::names_caller]
    pub fn scale(mut self, from: f64, to: f64) -> Result<Self> {
        if !(0.0 <= from && from <= to && to <= 1.0) {
            return Err(TorshError::invalid(
                Self::NAME,
                format!("scale must be between 0 and 1, got {from} to {to}"),
            ));
        }
        self.scale = (from, to);
        Ok(self)
    }

    /// From which to which ratio its height has to its width (0.3 to 3.3).
    ///
    /// ```
    /// use torsh_vision::transforms::RandomErasing;
    /// let error = RandomErasing::default().ratio(3.0, 0.3).unwrap_err().to_string();
    /// assert!(error.contains("ratio must be positive and rising, got 3 to 0.3"));
    /// ```
    ///
    /// # Errors
    /// Not positive, or falling.
    #[torsh_tensor::names_caller]
    pub fn ratio(mut self, from: f64, to: f64) -> Result<Self> {
        if !(0.0 < from && from <= to && to.is_finite()) {
            return Err(TorshError::invalid(
                Self::NAME,
                format!("ratio must be positive and rising, got {from} to {to}"),
            ));
        }
        self.ratio = (from, to);
        Ok(self)
    }

    /// What it is filled with: one value, one for each channel, or `None` for normal numbers (0).
    #[must_use]
    pub fn value(mut self, value: impl Into<Fill>) -> Self {
        self.value = value.into();
        self
    }
}

/// What is erased: top, left, height, width and the values.
pub(crate) type Erased = Option<(usize, usize, usize, usize, Tensor)>;

impl ItemTransform for RandomErasing {
    type Params = Erased;
    const NAME: &'static str = "RandomErasing";
    fn probability(&self) -> Option<f64> {
        Some(self.p)
    }
    fn params(&self, items: &[&Item]) -> Result<Erased> {
        let (c, h, w) = query_chw(Self::NAME, items)?;
        if let Some(values) = self.value.values()
            && values.len() != 1
            && values.len() != c
        {
            return Err(TorshError::invalid(
                Self::NAME,
                format!("{} values for {c} channels", values.len()),
            ));
        }
        let area = (h * w) as f64;
        for _ in 0..10 {
            let erased = area * uniform(self.scale.0, self.scale.1);
            let ratio = draw_ratio(self.ratio);
            let eh = (erased * ratio).sqrt().round_ties_even() as usize;
            let ew = (erased / ratio).sqrt().round_ties_even() as usize;
            if eh >= h || ew >= w {
                continue;
            }
            let (values, shape) = match self.value.values() {
                None => (randn(c * eh * ew), [c, eh, ew]),
                Some(v) => (v.iter().map(|&v| v as f32).collect(), [v.len(), 1, 1]),
            };
            let values = Tensor::from_slice(&values, shape, DType::F32, Device::Cpu)?;
            let top = below(h - eh + 1);
            let left = below(w - ew + 1);
            return Ok(Some((top, left, eh, ew, values)));
        }
        Ok(None)
    }
    fn item(&self, item: &Item, erased: &Erased) -> Result<Item> {
        match erased {
            None => Ok(item.clone()),
            Some((i, j, h, w, v)) => recolored(item, |x| f::erase(x, *i, *j, *h, *w, v)),
        }
    }
}
