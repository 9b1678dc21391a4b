//! Attention with masks that are described, not stored.

use std::sync::Arc;

use torsh_core::DType;
use torsh_functional as F;
use torsh_tensor::{
    AttentionWindow, Device, Result, ScaledDotProductAttentionOptions, Tensor, TorshError,
};

/// Where each sequence of a batch has its tokens: sequence `b` has them at `ranges[b]`, and padding on both sides.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_text::blocks::Padding;
/// let padding = Padding::from_attention_mask(&tensor![[0, 1, 1], [1, 1, 1]])?.expect("one is padded");
/// assert_eq!(padding.ranges(), [1..3, 0..3]);
/// // Without padding there is nothing to describe.
/// assert_eq!(Padding::from_attention_mask(&tensor![[1, 1]])?, None);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Padding {
    ranges: Arc<[std::ops::Range<usize>]>,
}

impl Padding {
    /// Padding by the range of each sequence's tokens.
    pub fn new(ranges: impl IntoIterator<Item = std::ops::Range<usize>>) -> Padding {
        Padding {
            ranges: ranges.into_iter().collect(),
        }
    }

    /// Padding from a mask `[batch, length]` that is 1 (or true) for tokens and 0 for padding; `None` where there is no
    /// padding.
    ///
    /// # Errors
    /// A mask of other dimensions, and one with padding between tokens.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_text::blocks::Padding;
    /// let padding = Padding::from_attention_mask(&tensor![[1, 1, 0], [1, 1, 1]])?;
    /// assert_eq!(padding, Some(Padding::new([0..2, 0..3])));
    /// let between = Padding::from_attention_mask(&tensor![[1, 0, 1]]);
    /// assert!(between.is_err_and(|e| e.to_string().contains("sequence 0 has padding between its tokens")));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn from_attention_mask(mask: &Tensor) -> Result<Option<Padding>> {
        let &[_, length] = mask.dims() else {
            return Err(TorshError::shape(
                "attention_mask",
                format!("expected [batch, length], got {}", mask.shape()),
            ));
        };
        let rows = mask.ne(0)?.to_vec2::<bool>()?;
        let mut ranges = Vec::with_capacity(rows.len());
        for (b, row) in rows.iter().enumerate() {
            let start = row.iter().position(|&t| t).unwrap_or(length);
            let end = row.iter().rposition(|&t| t).map_or(length, |at| at + 1);
            if row[start..end].contains(&false) {
                return Err(TorshError::invalid(
                    "attention_mask",
                    format!("sequence {b} has padding between its tokens"),
                )
                .with_hint(
                    "pad on the left or on the right, so that the ones of a row are neighbours",
                ));
            }
            ranges.push(start..end);
        }
        let whole = ranges.iter().all(|r| *r == (0..length));
        Ok((!whole).then(|| Padding::new(ranges)))
    }

    /// The range of each sequence's tokens.
    pub fn ranges(&self) -> &[std::ops::Range<usize>] {
        &self.ranges
    }

    /// Gives the padding of some sequences, in their order: of beams that go on.
    ///
    /// ```
    /// use torsh_text::blocks::Padding;
    /// assert_eq!(Padding::new([1..3, 0..3]).select(&[1, 1, 0]), Padding::new([0..3, 0..3, 1..3]));
    /// ```
    pub fn select(&self, rows: &[usize]) -> Padding {
        Padding::new(rows.iter().map(|&r| self.ranges[r].clone()))
    }

    /// Gives the padding where all sequences have `more` further tokens on their right.
    ///
    /// ```
    /// use torsh_text::blocks::Padding;
    /// assert_eq!(Padding::new([1..3, 0..3]).extended(2), Padding::new([1..5, 0..5]));
    /// ```
    pub fn extended(&self, more: usize) -> Padding {
        Padding::new(self.ranges.iter().map(|r| r.start..r.end + more))
    }

    /// Says whether all padding of sequences of a length is on the left.
    ///
    /// ```
    /// use torsh_text::blocks::Padding;
    /// let padding = Padding::new([1..3, 0..3]);
    /// assert!(padding.is_left(3) && !padding.is_left(4));
    /// ```
    pub fn is_left(&self, length: usize) -> bool {
        self.ranges.iter().all(|r| r.end == length || r.is_empty())
    }
}

/// Which keys a query sees. Query `i` stands at position `past + i` of the keys.
///
/// ```
/// use torsh_text::blocks::AttentionMask;
/// let all = AttentionMask::full();
/// let causal = AttentionMask::causal(0);
/// // The fifth token, after four whose keys are in a cache; it sees itself and the two tokens before it.
/// let sliding = AttentionMask::causal(4).window(3);
/// assert_eq!((all.left, causal.right, sliding.left), (None, Some(0), Some(2)));
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct AttentionMask {
    /// Keys ahead of the first query.
    pub past: usize,
    /// How many keys before its own position a query sees; all where it is `None`.
    pub left: Option<usize>,
    /// How many keys after its own position a query sees; all where it is `None`.
    pub right: Option<usize>,
    /// Keys that are padding.
    pub padding: Option<Padding>,
    /// Numbers that are added to the products of queries and keys: `[heads, queries, keys]`, or with a batch ahead.
    pub bias: Option<Tensor>,
}

impl AttentionMask {
    /// Lets queries see all keys.
    ///
    /// ```
    /// use torsh_tensor::{tensor, zeros};
    /// use torsh_text::blocks::{AttentionMask, attend};
    /// // Queries that tell no key from another give the mean of the values that they see.
    /// let (q, v) = (zeros([1, 1, 3, 2]), tensor![[[[1.0, 0.0], [2.0, 0.0], [6.0, 0.0]]]]);
    /// let y = attend(&q, &q, &v, &AttentionMask::full(), None)?;
    /// assert!(y.allclose(&tensor![[[[3.0, 0.0], [3.0, 0.0], [3.0, 0.0]]]])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn full() -> AttentionMask {
        AttentionMask::default()
    }

    /// Lets queries see the keys up to their own position, of which `past` lie ahead of the first query.
    ///
    /// ```
    /// use torsh_tensor::{tensor, zeros};
    /// use torsh_text::blocks::{AttentionMask, attend};
    /// // Queries that tell no key from another give the mean of the values that they see.
    /// let (q, v) = (zeros([1, 1, 3, 2]), tensor![[[[1.0, 0.0], [2.0, 0.0], [6.0, 0.0]]]]);
    /// let y = attend(&q, &q, &v, &AttentionMask::causal(0), None)?;
    /// assert!(y.allclose(&tensor![[[[1.0, 0.0], [1.5, 0.0], [3.0, 0.0]]]])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn causal(past: usize) -> AttentionMask {
        AttentionMask {
            past,
            right: Some(0),
            ..AttentionMask::default()
        }
    }

    /// Lets queries see the keys that are at most `left` before and `right` after them.
    ///
    /// ```
    /// use torsh_tensor::{tensor, zeros};
    /// use torsh_text::blocks::{AttentionMask, attend};
    /// // Queries that tell no key from another give the mean of the values that they see.
    /// let (q, v) = (zeros([1, 1, 3, 2]), tensor![[[[1.0, 0.0], [2.0, 0.0], [6.0, 0.0]]]]);
    /// let y = attend(&q, &q, &v, &AttentionMask::local(0, 1), None)?;
    /// assert!(y.allclose(&tensor![[[[1.5, 0.0], [4.0, 0.0], [6.0, 0.0]]]])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn local(left: usize, right: usize) -> AttentionMask {
        AttentionMask {
            left: Some(left),
            right: Some(right),
            ..AttentionMask::default()
        }
    }

    /// Lets queries see of the keys before them the last `size` ones alone, their own among them.
    ///
    /// ```
    /// use torsh_tensor::{tensor, zeros};
    /// use torsh_text::blocks::{AttentionMask, attend};
    /// // Queries that tell no key from another give the mean of the values that they see.
    /// let (q, v) = (zeros([1, 1, 3, 2]), tensor![[[[1.0, 0.0], [2.0, 0.0], [6.0, 0.0]]]]);
    /// let y = attend(&q, &q, &v, &AttentionMask::causal(0).window(2), None)?;
    /// assert!(y.allclose(&tensor![[[[1.0, 0.0], [1.5, 0.0], [4.0, 0.0]]]])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[must_use]
    pub fn window(mut self, size: impl Into<Option<usize>>) -> AttentionMask {
        self.left = size.into().map(|n| n.saturating_sub(1));
        self
    }

    /// Lets no query see padding.
    ///
    /// ```
    /// use torsh_tensor::{tensor, zeros};
    /// use torsh_text::blocks::{AttentionMask, Padding, attend};
    /// // Queries that tell no key from another give the mean of the values that they see.
    /// let (q, v) = (zeros([1, 1, 3, 2]), tensor![[[[1.0, 0.0], [2.0, 0.0], [6.0, 0.0]]]]);
    /// let y = attend(&q, &q, &v, &AttentionMask::full().padding(Some(Padding::new([1..3]))), None)?;
    /// assert!(y.allclose(&tensor![[[[4.0, 0.0], [4.0, 0.0], [4.0, 0.0]]]])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[must_use]
    pub fn padding(mut self, padding: Option<Padding>) -> AttentionMask {
        self.padding = padding;
        self
    }

    /// Adds numbers to the products of queries and keys: `[heads, queries, keys]`, or with a batch ahead.
    ///
    /// ```
    /// use torsh_tensor::{tensor, zeros};
    /// use torsh_text::blocks::{AttentionMask, attend};
    /// let (k, v) = (zeros([1, 1, 3, 2]), tensor![[[[1.0, 0.0], [2.0, 0.0], [6.0, 0.0]]]]);
    /// // The first of three keys counts twice: (1 + 1 + 2 + 6) / 4.
    /// let mask = AttentionMask::full().bias(Some(tensor![[[2.0, 1.0, 1.0]]].log()?));
    /// let y = attend(&zeros([1, 1, 1, 2]), &k, &v, &mask, None)?;
    /// assert!(y.allclose(&tensor![[[[2.5, 0.0]]]])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[must_use]
    pub fn bias(mut self, bias: Option<Tensor>) -> AttentionMask {
        self.bias = bias;
        self
    }

    /// Which keys queries see by their place.
    fn by_place(&self) -> AttentionWindow {
        AttentionWindow {
            past: self.past,
            left: self.left,
            right: self.right,
        }
    }

    /// True where a key is no padding, `[batch, 1, 1, keys]`; `None` where none is.
    fn tokens(&self, batch: usize, keys: usize) -> Result<Option<Tensor>> {
        let Some(padding) = &self.padding else {
            return Ok(None);
        };
        let ranges = padding.ranges();
        if ranges.len() != batch {
            return Err(TorshError::shape(
                "attention",
                format!(
                    "padding of {} sequences for a batch of {batch}",
                    ranges.len()
                ),
            ));
        }
        if ranges.iter().all(|r| r.start == 0 && r.end >= keys) {
            return Ok(None);
        }
        let seen: Vec<bool> = ranges
            .iter()
            .flat_map(|r| (0..keys).map(|j| r.contains(&j)))
            .collect();
        Tensor::from_data(&seen, [batch, 1, 1, keys]).map(Some)
    }

    /// The mask as a tensor of numbers that are added to the products, for attention that the kernel does not compute:
    /// `[queries, keys]`, or `[batch, heads or 1, queries, keys]`; `None` where all queries see all keys.
    pub(crate) fn added(
        &self,
        batch: usize,
        queries: usize,
        keys: usize,
        dtype: DType,
    ) -> Result<Option<Tensor>> {
        let mut seen = self.tokens(batch, keys)?;
        if self.left.is_some() || self.right.is_some() {
            let window = self.by_place().mask(queries, keys, Device::Cpu)?;
            seen = Some(match seen {
                Some(tokens) => tokens.logical_and(&window)?,
                None => window,
            });
        }
        let bias = self.bias.as_ref().map(|b| b.to_dtype(dtype)).transpose()?;
        let Some(seen) = seen else {
            return Ok(bias);
        };
        let zeros = Tensor::zeros([1], dtype, Device::Cpu)?;
        let bias = bias.unwrap_or(zeros);
        bias.masked_fill(&seen.logical_not()?, f64::NEG_INFINITY)
            .map(Some)
    }
}

/// `[batch, length, heads * size]` as `[batch, heads, length, size]`, without a copy.
///
/// # Errors
/// A last dimension that `heads` does not divide.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_text::blocks::split_heads;
/// let x = tensor![[[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]];
/// let heads = tensor![[[[1.0, 2.0], [5.0, 6.0]], [[3.0, 4.0], [7.0, 8.0]]]];
/// assert_eq!(split_heads(&x, 2)?, heads);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn split_heads(x: &Tensor, heads: usize) -> Result<Tensor> {
    let &[batch, length, width] = x.dims() else {
        return Err(TorshError::shape(
            "attention",
            format!("expected [batch, length, width], got {}", x.shape()),
        ));
    };
    x.view([batch, length, heads, width / heads.max(1)])?
        .transpose(1, 2)
}

/// `[batch, heads, length, size]` as `[batch, length, heads * size]`.
///
/// # Errors
/// A tensor of other dimensions.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_text::blocks::{join_heads, split_heads};
/// let x = tensor![[[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]];
/// assert_eq!(join_heads(&split_heads(&x, 2)?)?, x);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn join_heads(x: &Tensor) -> Result<Tensor> {
    let &[batch, heads, length, size] = x.dims() else {
        return Err(TorshError::shape(
            "attention",
            format!("expected [batch, heads, length, size], got {}", x.shape()),
        ));
    };
    x.transpose(1, 2)?.reshape([batch, length, heads * size])
}

/// Attention of queries `[batch, heads, queries, size]` to keys and values `[batch, kv_heads, keys, size]`, where
/// `kv_heads` divides `heads` (grouped-query attention). `scale` is 1 over the square root of the size unless given.
///
/// One kernel computes it, in blocks, so that neither the products nor repeated heads are stored.
///
/// # Errors
/// Sizes that do not fit together, and dtypes that differ.
///
/// ```
/// use torsh_tensor::{tensor, zeros};
/// use torsh_text::blocks::{AttentionMask, attend};
/// // One head of keys and values serves two heads of queries. Without a difference each gets the mean.
/// let (q, k) = (zeros([1, 2, 1, 2]), zeros([1, 1, 2, 2]));
/// let v = tensor![[[[1.0, 4.0], [3.0, 8.0]]]];
/// let y = attend(&q, &k, &v, &AttentionMask::full(), None)?;
/// assert!(y.allclose(&tensor![[[[2.0, 6.0]], [[2.0, 6.0]]]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn attend(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    mask: &AttentionMask,
    scale: Option<f64>,
) -> Result<Tensor> {
    let (&[batch, heads, queries, _], &[_, kv_heads, keys, _]) = (query.dims(), key.dims()) else {
        return Err(TorshError::shape(
            "attention",
            format!(
                "expected [batch, heads, length, size], got query {} and key {}",
                query.shape(),
                key.shape()
            ),
        ));
    };
    let bias = match &mask.bias {
        Some(bias) => Some(bias.to_dtype(query.dtype())?),
        None => None,
    };
    let tokens = match mask.tokens(batch, keys)? {
        Some(tokens) => Some(tokens.to_device(query.device())?),
        None => None,
    };
    let attn_mask = match (tokens, bias) {
        (tokens, None) => tokens,
        (None, bias) => bias,
        (Some(tokens), Some(bias)) => {
            Some(bias.masked_fill(&tokens.logical_not()?, f64::NEG_INFINITY)?)
        }
    };
    // A single query at the end of what a causal mask shows sees all keys.
    let sees_all = mask.left.is_none_or(|n| mask.past + queries <= n + 1)
        && mask.right.is_none_or(|n| mask.past + n + 1 >= keys);
    let options = ScaledDotProductAttentionOptions {
        attn_mask,
        scale,
        enable_gqa: heads != kv_heads,
        window: (!sees_all).then(|| mask.by_place()),
        ..ScaledDotProductAttentionOptions::new()
    };
    F::scaled_dot_product_attention_with(query, key, value, options)
}
