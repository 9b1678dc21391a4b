//! What narrows down the tokens that are drawn.

use torsh_tensor::{Result, SortOptions, Tensor, TorshError};

use super::processors::LogitsProcessor;

const NO: f64 = f64::NEG_INFINITY;

fn between(name: &'static str, value: f64, range: impl std::ops::RangeBounds<f64>) -> Result<f64> {
    match range.contains(&value) {
        true => Ok(value),
        false => Err(TorshError::invalid(
            name,
            format!("{value} is out of range: it must lie between 0 and 1"),
        )),
    }
}

/// Whether a score is below the `keep`-th greatest of its row.
fn below_top(scores: &Tensor, keep: usize) -> Result<Tensor> {
    let vocab = scores.dims().last().copied().unwrap_or(1);
    let keep = keep.min(vocab) as i64;
    let least = scores.topk(keep)?.0.narrow(-1, keep - 1, 1)?;
    scores.lt(&least)
}

/// Scores without those that `remove`, which is in the order of `indices`, names.
fn without_sorted(scores: &Tensor, indices: &Tensor, remove: &Tensor) -> Result<Tensor> {
    scores.masked_fill(&remove.scatter(1, indices, remove)?, NO)
}

macro_rules! keep_setter {
    () => {
        /// So many tokens stay whatever their scores.
        #[must_use]
        pub fn min_tokens_to_keep(mut self, tokens: usize) -> Self {
            self.keep = tokens.max(1);
            self
        }
    };
}

/// Divides the scores.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_text::generation::{LogitsProcessor, TemperatureLogitsWarper};
/// let scores = TemperatureLogitsWarper::new(0.5)?.process(&[vec![0]], tensor![[1.0, -2.0]])?;
/// assert_eq!(scores, tensor![[2.0, -4.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct TemperatureLogitsWarper {
    temperature: f64,
}

impl TemperatureLogitsWarper {
    /// Below 1 likely tokens get likelier.
    ///
    /// # Errors
    /// A temperature that is not above 0.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(temperature: f64) -> Result<Self> {
        match temperature > 0.0 {
            true => Ok(TemperatureLogitsWarper { temperature }),
            false => Err(TorshError::invalid(
                "TemperatureLogitsWarper",
                format!("temperature = {temperature} must be above 0"),
            )
            .with_hint("leave out do_sample for the likeliest token")),
        }
    }
}

impl LogitsProcessor for TemperatureLogitsWarper {
    #[torsh_tensor::names_caller]
    fn process(&mut self, _: &[Vec<i64>], scores: Tensor) -> Result<Tensor> {
        scores.div(self.temperature)
    }
}

/// Keeps the tokens with the greatest scores.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_text::generation::{LogitsProcessor, TopKLogitsWarper};
/// let scores = TopKLogitsWarper::new(2)?.process(&[vec![0]], tensor![[1.0, 3.0, 2.0]])?;
/// assert_eq!(scores, tensor![[f32::NEG_INFINITY, 3.0, 2.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct TopKLogitsWarper {
    top_k: usize,
    keep: usize,
}

impl TopKLogitsWarper {
    /// How many.
    ///
    /// # Errors
    /// 0, which would keep none.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(top_k: usize) -> Result<Self> {
        match top_k {
            0 => Err(TorshError::invalid(
                "TopKLogitsWarper",
                "top_k = 0 keeps no token",
            )),
            _ => Ok(TopKLogitsWarper { top_k, keep: 1 }),
        }
    }

    keep_setter!();
}

impl LogitsProcessor for TopKLogitsWarper {
    #[torsh_tensor::names_caller]
    fn process(&mut self, _: &[Vec<i64>], scores: Tensor) -> Result<Tensor> {
        let below = below_top(&scores, self.top_k.max(self.keep))?;
        scores.masked_fill(&below, NO)
    }
}

/// Keeps the likeliest tokens whose probabilities add up to `top_p` (Holtzman et al., 2019,
/// <https://arxiv.org/abs/1904.09751>).
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_text::generation::{LogitsProcessor, TopPLogitsWarper};
/// let scores = tensor![[0.5, 0.3, 0.2]].log()?;
/// let kept = TopPLogitsWarper::new(0.7)?.process(&[vec![0]], scores)?.softmax(-1)?;
/// assert!(kept.allclose(&tensor![[0.625, 0.375, 0.0]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct TopPLogitsWarper {
    top_p: f64,
    keep: usize,
}

impl TopPLogitsWarper {
    /// The sum of the probabilities.
    ///
    /// # Errors
    /// A number below 0 or above 1.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(top_p: f64) -> Result<Self> {
        let top_p = between("TopPLogitsWarper", top_p, 0.0..=1.0)?;
        Ok(TopPLogitsWarper { top_p, keep: 1 })
    }

    keep_setter!();
}

impl LogitsProcessor for TopPLogitsWarper {
    #[torsh_tensor::names_caller]
    fn process(&mut self, _: &[Vec<i64>], scores: Tensor) -> Result<Tensor> {
        let (sorted, indices) = scores.sort()?;
        let sums = sorted.softmax(-1)?.cumsum(-1)?;
        let remove = sums.le(1.0 - self.top_p)?;
        let vocab = scores.dims().last().copied().unwrap_or(0);
        let keep = self.keep.min(vocab) as i64;
        remove.narrow(-1, vocab as i64 - keep, keep)?.fill_(false)?;
        without_sorted(&scores, &indices, &remove)
    }
}

/// Keeps the likeliest tokens that have a share `top_h` of the entropy of the hundred likeliest
/// (<https://arxiv.org/abs/2509.02510>).
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_text::generation::{LogitsProcessor, TopHLogitsWarper};
/// let scores = tensor![[0.5, 0.3, 0.2]].log()?;
/// let kept = TopHLogitsWarper::new(0.5)?.process(&[vec![0]], scores)?.softmax(-1)?;
/// assert!(kept.allclose(&tensor![[1.0, 0.0, 0.0]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct TopHLogitsWarper {
    top_h: f64,
}

impl TopHLogitsWarper {
    /// The share.
    ///
    /// # Errors
    /// A number that is not above 0 and at most 1.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(top_h: f64) -> Result<Self> {
        let range = (
            std::ops::Bound::Excluded(0.0),
            std::ops::Bound::Included(1.0),
        );
        let top_h = between("TopHLogitsWarper", top_h, range)?;
        Ok(TopHLogitsWarper { top_h })
    }
}

impl LogitsProcessor for TopHLogitsWarper {
    #[torsh_tensor::names_caller]
    fn process(&mut self, _: &[Vec<i64>], scores: Tensor) -> Result<Tensor> {
        let vocab = scores.dims().last().copied().unwrap_or(0);
        let (top, indices) = scores.topk(vocab.min(100) as i64)?;
        let probs = top.log_softmax(-1)?.exp()?;
        let terms = probs.mul(&probs.log()?)?.mul(-1.0)?.nan_to_num()?;
        let bound = terms.sum_dim(-1, true)?.mul(self.top_h)?;
        let remove = terms.cumsum(-1)?.gt(&bound)?;
        remove.narrow(-1, 0, 1)?.fill_(false)?;
        let all = scores.eq(&scores)?.logical_or(&scores.ne(&scores)?)?;
        scores.masked_fill(&all.scatter(1, &indices, &remove)?, NO)
    }
}

/// Keeps the tokens that have at least a share `min_p` of the likeliest token's probability
/// (<https://arxiv.org/abs/2407.01082>).
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_text::generation::{LogitsProcessor, MinPLogitsWarper};
/// let scores = tensor![[0.5, 0.3, 0.2]].log()?;
/// let kept = MinPLogitsWarper::new(0.5)?.process(&[vec![0]], scores)?.softmax(-1)?;
/// assert!(kept.allclose(&tensor![[0.625, 0.375, 0.0]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct MinPLogitsWarper {
    min_p: f64,
    keep: usize,
}

impl MinPLogitsWarper {
    /// The share.
    ///
    /// # Errors
    /// A number below 0 or above 1.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(min_p: f64) -> Result<Self> {
        let min_p = between("MinPLogitsWarper", min_p, 0.0..=1.0)?;
        Ok(MinPLogitsWarper { min_p, keep: 1 })
    }

    keep_setter!();
}

impl LogitsProcessor for MinPLogitsWarper {
    #[torsh_tensor::names_caller]
    fn process(&mut self, _: &[Vec<i64>], scores: Tensor) -> Result<Tensor> {
        let probs = scores.softmax(-1)?;
        let vocab = scores.dims().last().copied().unwrap_or(0);
        let (top, indices) = probs.topk(self.keep.min(vocab) as i64)?;
        let remove = probs.lt(&top.narrow(-1, 0, 1)?.mul(self.min_p)?)?;
        let kept = top.ne(&top)?;
        scores.masked_fill(&remove.scatter(1, &indices, &kept)?, NO)
    }
}

/// Keeps the tokens whose information is nearest to the expected one, until their probabilities add up to `typical_p`
/// (Meister et al., 2022, <https://arxiv.org/abs/2202.00666>).
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_text::generation::{LogitsProcessor, TypicalLogitsWarper};
/// // The entropy is 0.94: the second token, of information 0.92, is the most typical one.
/// let scores = tensor![[0.5, 0.4, 0.1]].log()?;
/// let kept = TypicalLogitsWarper::new(0.3)?.process(&[vec![0]], scores)?.softmax(-1)?;
/// assert!(kept.allclose(&tensor![[0.0, 1.0, 0.0]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct TypicalLogitsWarper {
    mass: f64,
    keep: usize,
}

impl TypicalLogitsWarper {
    /// The sum of the probabilities.
    ///
    /// # Errors
    /// A number that is not between 0 and 1.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(typical_p: f64) -> Result<Self> {
        let range = (
            std::ops::Bound::Excluded(0.0),
            std::ops::Bound::Excluded(1.0),
        );
        let mass = between("TypicalLogitsWarper", typical_p, range)?;
        Ok(TypicalLogitsWarper { mass, keep: 1 })
    }

    keep_setter!();
}

impl LogitsProcessor for TypicalLogitsWarper {
    #[torsh_tensor::names_caller]
    fn process(&mut self, _: &[Vec<i64>], scores: Tensor) -> Result<Tensor> {
        let vocab = scores.dims().last().copied().unwrap_or(1) as i64;
        let normalized = scores.log_softmax(-1)?;
        let p = normalized.exp()?;
        let entropy = normalized.mul(&p)?.nansum_dim(-1, true)?.mul(-1.0)?;
        let shifted = normalized.mul(-1.0)?.sub(&entropy)?.abs()?;
        let (sorted, indices) = shifted.sort_with(SortOptions::new())?;
        let sums = scores.gather(-1, &indices)?.softmax(-1)?.cumsum(-1)?;
        let last = sums
            .lt(self.mass)?
            .sum_dim(1, true)?
            .clamp(None, vocab - 1)?;
        let remove = sorted.gt(&sorted.gather(1, &last)?)?;
        remove
            .narrow(-1, 0, (self.keep as i64).min(vocab))?
            .fill_(false)?;
        without_sorted(&scores, &indices, &remove)
    }
}

/// Keeps the tokens whose probability is at least `epsilon` (Hewitt et al., 2022, <https://arxiv.org/abs/2210.15191>).
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_text::generation::{EpsilonLogitsWarper, LogitsProcessor};
/// let scores = tensor![[0.5, 0.3, 0.2]].log()?;
/// let kept = EpsilonLogitsWarper::new(0.25)?.process(&[vec![0]], scores)?.softmax(-1)?;
/// assert!(kept.allclose(&tensor![[0.625, 0.375, 0.0]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct EpsilonLogitsWarper {
    epsilon: f64,
    keep: usize,
}

impl EpsilonLogitsWarper {
    /// The probability.
    ///
    /// # Errors
    /// A number that is not between 0 and 1.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(epsilon: f64) -> Result<Self> {
        let range = (
            std::ops::Bound::Excluded(0.0),
            std::ops::Bound::Excluded(1.0),
        );
        let epsilon = between("EpsilonLogitsWarper", epsilon, range)?;
        Ok(EpsilonLogitsWarper { epsilon, keep: 1 })
    }

    keep_setter!();
}

impl LogitsProcessor for EpsilonLogitsWarper {
    #[torsh_tensor::names_caller]
    fn process(&mut self, _: &[Vec<i64>], scores: Tensor) -> Result<Tensor> {
        let remove = scores.softmax(-1)?.lt(self.epsilon)?;
        let remove = remove.logical_and(&below_top(&scores, self.keep)?)?;
        scores.masked_fill(&remove, NO)
    }
}

/// Keeps the tokens whose probability is at least `epsilon`, or the root of it times `exp(-entropy)` where that is less
/// (Hewitt et al., 2022, <https://arxiv.org/abs/2210.15191>).
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_text::generation::{EtaLogitsWarper, LogitsProcessor};
/// // exp(-entropy) is 0.357, and the bound the root of 0.36 times that: 0.214.
/// let scores = tensor![[0.5, 0.3, 0.2]].log()?;
/// let kept = EtaLogitsWarper::new(0.36)?.process(&[vec![0]], scores)?.softmax(-1)?;
/// assert!(kept.allclose(&tensor![[0.625, 0.375, 0.0]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct EtaLogitsWarper {
    epsilon: f64,
    keep: usize,
}

impl EtaLogitsWarper {
    /// The probability.
    ///
    /// # Errors
    /// A number that is not between 0 and 1.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(epsilon: f64) -> Result<Self> {
        let range = (
            std::ops::Bound::Excluded(0.0),
            std::ops::Bound::Excluded(1.0),
        );
        let epsilon = between("EtaLogitsWarper", epsilon, range)?;
        Ok(EtaLogitsWarper { epsilon, keep: 1 })
    }

    keep_setter!();
}

impl LogitsProcessor for EtaLogitsWarper {
    #[torsh_tensor::names_caller]
    fn process(&mut self, _: &[Vec<i64>], scores: Tensor) -> Result<Tensor> {
        let logs = scores.log_softmax(-1)?;
        let p = scores.softmax(-1)?;
        // Tokens that are forbidden count as those of the least score that is a number.
        let finite = logs.clamp(f64::from(f32::MIN), None)?;
        let entropy = finite.mul(&p)?.sum_dim(-1, true)?.mul(-1.0)?;
        let bound = entropy
            .mul(-1.0)?
            .exp()?
            .mul(f64::from((self.epsilon as f32).sqrt()))?;
        let bound = bound.clamp(None, self.epsilon)?;
        let remove = p.lt(&bound)?.logical_and(&below_top(&scores, self.keep)?)?;
        scores.masked_fill(&remove, NO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use torsh_tensor::tensor;

    fn kept(p: &mut dyn LogitsProcessor, scores: &Tensor) -> Result<Vec<Vec<bool>>> {
        p.process(&[vec![], vec![]], scores.clone())?
            .isfinite()?
            .to_vec2()
    }

    #[test]
    fn some_tokens_always_stay() -> Result<()> {
        let scores = tensor![[0.9, 0.05, 0.03, 0.02], [0.1, 0.2, 0.3, 0.4]].log()?;
        let two = [true, true, false, false];
        for warper in [
            &mut TopKLogitsWarper::new(1)?.min_tokens_to_keep(2) as &mut dyn LogitsProcessor,
            &mut TopPLogitsWarper::new(0.1)?.min_tokens_to_keep(2),
            &mut MinPLogitsWarper::new(1.0)?.min_tokens_to_keep(2),
            &mut EpsilonLogitsWarper::new(0.95)?.min_tokens_to_keep(2),
            &mut EtaLogitsWarper::new(0.999)?.min_tokens_to_keep(2),
        ] {
            let all = kept(warper, &scores)?;
            assert_eq!(all[0], two);
            assert!(all[1][3] && all[1][2]);
        }
        Ok(())
    }

    #[test]
    fn forbidden_tokens_stay_forbidden() -> Result<()> {
        let no = f32::NEG_INFINITY;
        let scores = tensor![[0.0, no, 0.1, no], [no, 0.0, no, no]];
        for warper in [
            &mut TopKLogitsWarper::new(3)? as &mut dyn LogitsProcessor,
            &mut TopPLogitsWarper::new(0.99)?,
            &mut TopHLogitsWarper::new(1.0)?,
            &mut MinPLogitsWarper::new(0.1)?,
            &mut TypicalLogitsWarper::new(0.99)?,
            &mut EpsilonLogitsWarper::new(0.01)?,
            &mut EtaLogitsWarper::new(0.01)?,
            &mut TemperatureLogitsWarper::new(0.7)?,
        ] {
            let all = kept(warper, &scores)?;
            assert_eq!(
                all,
                [[true, false, true, false], [false, true, false, false]]
            );
        }
        Ok(())
    }

    #[test]
    fn wrong_arguments_are_named() {
        let text = |e: Option<TorshError>| e.map(|e| e.to_string()).unwrap_or_default();
        assert!(text(TemperatureLogitsWarper::new(0.0).err()).contains("temperature = 0"));
        assert!(text(TopKLogitsWarper::new(0).err()).contains("top_k"));
        assert!(text(TopPLogitsWarper::new(1.5).err()).contains("1.5"));
        assert!(text(MinPLogitsWarper::new(-0.5).err()).contains("-0.5"));
        assert!(text(TypicalLogitsWarper::new(1.0).err()).contains('1'));
        assert!(text(EpsilonLogitsWarper::new(0.0).err()).contains('0'));
        assert!(text(EtaLogitsWarper::new(f64::NAN).err()).contains("NaN"));
        assert!(text(TopHLogitsWarper::new(0.0).err()).contains('0'));
    }
}
