//! Scaled dot product attention: one kernel, or several ops if the weights are dropped, the mask
//! requires a gradient, or a tensor is empty.

use torsh_core::{DType, Device, Result, TorshError};

use super::fused_attention;
use crate::Tensor;
use crate::autocast::{Autocast, body_opt};
use crate::observe::composite;
use crate::options::options;
use crate::record::{OpRecord, Sample, sample};

pub(crate) const RECORDS: &[&OpRecord] = &[&SCALED_DOT_PRODUCT_ATTENTION];

#[torsh_tensor::by_name(Tensor::scaled_dot_product_attention_with(.., ScaledDotProductAttentionOptions))]
pub static SCALED_DOT_PRODUCT_ATTENTION: OpRecord = OpRecord::new(
    "nn.functional.scaled_dot_product_attention",
    "The sums of values weighted by the softmax of each query's products with the keys, times scale (1 / sqrt of their length). attn_mask is true where a key counts, or is added to the products; with is_causal a query sees keys up to its own position.",
    "(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0.0, bool is_causal=False, *, float? scale=None, bool enable_gqa=False)",
)
.autocast(Autocast::Lower)
.samples(|s| {
    let mut call = |heads: [usize; 2]| -> Result<Sample> {
        let query = s.real(&[heads[0], 2, 3])?;
        Ok(sample![query, s.real(&[heads[1], 4, 3])?, s.real(&[heads[1], 4, 2])?])
    };
    let plain = call([2, 2])?.kw("scale", 0.7);
    let causal = call([2, 2])?.kw("is_causal", true);
    let grouped = call([4, 2])?.kw("enable_gqa", true);
    let (bools, added) = (call([1, 1])?, call([1, 1])?);
    let keys = Tensor::from_data(&[true, false, true, true, false, false, false, false], [2, 4])?;
    Ok(vec![
        plain,
        causal,
        grouped,
        bools.kw("attn_mask", keys),
        added.kw("attn_mask", s.real(&[2, 4])?),
    ])
});

options! {
    /// PyTorch's keyword arguments of `F.scaled_dot_product_attention`.
    ///
    /// ```
    /// use torsh_tensor::ScaledDotProductAttentionOptions;
    /// let options = ScaledDotProductAttentionOptions::new();
    /// assert_eq!(options.dropout_p, 0.0);
    /// assert!(!options.is_causal);
    /// assert_eq!(options.scale, None);
    /// assert_eq!(options.dropout_p(0.25).dropout_p, 0.25);
    /// ```
    ScaledDotProductAttentionOptions {
        /// True where a key counts for a query, or numbers added to their products; it broadcasts
        /// to `[.., queries, keys]`.
        attn_mask: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// The probability with which weights are set to 0, in evaluation too.
        dropout_p: f64 = 0.0;
        /// Whether a query sees only keys up to its own position.
        is_causal: bool = false;
        /// The products' factor; by default 1 over the square root of the queries' length.
        scale: Option<f64> = None, f64 => Some;
        /// Whether several heads of the query (dimension -3) share one of key and value.
        enable_gqa: bool = false;
        /// The keys that a query sees by their place, with which there may be a mask too. PyTorch has no such argument.
        window: Option<AttentionWindow> = None, AttentionWindow => Some;
    }
}

/// Which keys a query sees by their place: those from `left` before to `right` after its own. Query `i` stands at key
/// `past + i`.
///
/// A decoder with a cache has `past` keys ahead of its queries, and `right` 0; a sliding window has a `left` too. The
/// kernel leaves out what is not seen; no mask is stored.
///
/// ```
/// use torsh_tensor::{AttentionWindow, ScaledDotProductAttentionOptions, tensor};
/// let (q, k) = (tensor![[0.0]], tensor![[1.0], [2.0], [3.0]]);
/// let v = tensor![[10.0], [20.0], [40.0]];
/// // The query is the third token, and sees itself and the one before it.
/// let window = AttentionWindow { past: 2, left: Some(1), right: Some(0) };
/// let options = ScaledDotProductAttentionOptions::new().window(window);
/// assert!(q.scaled_dot_product_attention_with(&k, &v, options)?.allclose(&tensor![[30.0]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttentionWindow {
    /// Keys ahead of the first query.
    pub past: usize,
    /// How many keys before its own a query sees; all where it is `None`.
    pub left: Option<usize>,
    /// How many keys after its own a query sees; all where it is `None`.
    pub right: Option<usize>,
}

impl AttentionWindow {
    /// Whether all queries see all keys.
    fn is_whole(&self) -> bool {
        self.left.is_none() && self.right.is_none()
    }

    /// The window as a mask `[queries, keys]`, true where a query sees a key: for attention in other ops.
    ///
    /// ```
    /// use torsh_tensor::{AttentionWindow, Device, tensor};
    /// let window = AttentionWindow { past: 1, left: Some(1), right: Some(0) };
    /// assert_eq!(window.mask(2, 3, Device::Cpu)?, tensor![[true, true, false], [false, true, true]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// No memory for the mask.
    #[torsh_tensor::names_caller]
    pub fn mask(&self, queries: usize, keys: usize, device: Device) -> Result<Tensor> {
        let all = Tensor::ones(&[queries, keys], DType::Bool, device)?;
        let past = self.past as i64;
        let all = match self.right {
            Some(right) => all.tril(past + right as i64)?,
            None => all,
        };
        match self.left {
            Some(left) => all.triu(past - left as i64),
            None => Ok(all),
        }
    }
}

/// What the options say of the keys' places.
pub(super) fn window(o: &ScaledDotProductAttentionOptions) -> AttentionWindow {
    o.window.unwrap_or(AttentionWindow {
        right: o.is_causal.then_some(0),
        ..AttentionWindow::default()
    })
}

fn check(q: &Tensor, k: &Tensor, v: &Tensor, o: &ScaledDotProductAttentionOptions) -> Result<()> {
    if q.dtype() != k.dtype() || q.dtype() != v.dtype() {
        return Err(TorshError::dtype(
            "",
            format!(
                "Expected query, key, and value to have the same dtype, but got query.dtype: {} key.dtype: {} and value.dtype: {} instead.",
                q.dtype(),
                k.dtype(),
                v.dtype()
            ),
        ));
    }
    if q.ndim() < 2 || k.ndim() < 2 || v.ndim() < 2 {
        return Err(TorshError::shape(
            "",
            format!(
                "Expected query, key, and value to all be at least 2 dimensional, but got query.dim: {} key.dim: {} and value.dim: {} instead.",
                q.ndim(),
                k.ndim(),
                v.ndim()
            ),
        ));
    }
    if !q.dtype().is_floating_point() {
        return Err(TorshError::dtype(
            "",
            format!("not implemented for {}", q.dtype()),
        ));
    }
    if o.is_causal && o.window.is_some() {
        return Err(TorshError::invalid(
            "",
            "is_causal and window are two answers to one question",
        )
        .with_hint("leave is_causal out: a window with right = Some(0) is causal"));
    }
    let Some(mask) = &o.attn_mask else {
        return Ok(());
    };
    if o.is_causal {
        return Err(TorshError::invalid(
            "",
            "Explicit attn_mask should not be set when is_causal=True",
        ));
    }
    let m = mask.dtype();
    if !matches!(m, DType::Bool | DType::F32) && m != q.dtype() {
        return Err(TorshError::dtype(
            "",
            format!(
                "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: {m} and query.dtype: {} instead.",
                q.dtype()
            ),
        ));
    }
    Ok(())
}

/// Key and value with each head as often as queries share it.
pub(super) fn grouped(q: &Tensor, kv: &Tensor) -> Result<Tensor> {
    let heads = |t: &Tensor| t.ndim().checked_sub(3).map(|d| t.dims()[d]);
    match (heads(q), heads(kv)) {
        (Some(n), Some(m)) if n == m => Ok(kv.clone()),
        (Some(n), Some(m)) if m > 0 && n.is_multiple_of(m) => {
            kv.repeat_interleave((n / m) as i64, Some(-3))
        }
        (Some(_), Some(_)) => Err(TorshError::shape(
            "",
            "Number of heads in key and value must divide the number of heads in query",
        )),
        _ => Err(TorshError::shape(
            "",
            "enable_gqa needs a dimension of heads, -3, in query, key and value",
        )),
    }
}

/// The dtype to compute in: the half types compute in float32 throughout.
pub(super) fn wide(dtype: DType) -> DType {
    match dtype {
        DType::F64 => dtype,
        _ => DType::F32,
    }
}

/// The products' factor.
pub(super) fn scale(q: &Tensor, given: Option<f64>) -> f64 {
    given.unwrap_or(1.0 / (q.dims()[q.ndim() - 1] as f64).sqrt())
}

/// The weight of each key for each query, of operands in the dtype to compute in.
pub(super) fn weights(
    q: &Tensor,
    k: &Tensor,
    mask: Option<&Tensor>,
    window: &AttentionWindow,
    scale: f64,
) -> Result<Tensor> {
    // Each factor takes its half of the scale, as PyTorch's do: both products stay small.
    let root = scale.abs().sqrt();
    let mut products = q
        .mul(root.copysign(scale))?
        .matmul(&k.transpose(-2, -1)?.mul(root)?)?;
    let last = products.ndim() - 2;
    // Queries for which no key counts; their result is 0.
    let mut unseeing = None;
    let seen = match window.is_whole() {
        true => None,
        false => Some(window.mask(products.dims()[last], products.dims()[last + 1], q.device())?),
    };
    let both;
    let mask = match (&seen, mask) {
        (None, mask) => mask,
        (Some(seen), None) => Some(seen),
        (Some(seen), Some(mask)) => {
            both = match mask.dtype() {
                DType::Bool => mask.logical_and(seen)?,
                _ => mask.masked_fill(&seen.logical_not()?, f64::NEG_INFINITY)?,
            };
            Some(&both)
        }
    };
    if let Some(mask) = mask {
        if !mask.shape().can_broadcast_to(products.shape()) {
            return Err(TorshError::shape(
                "",
                format!(
                    "an attn_mask of shape {} does not broadcast to {}",
                    mask.shape(),
                    products.shape()
                ),
            ));
        }
        let rows = if mask.ndim() == 0 {
            mask.reshape([1])?
        } else {
            mask.clone()
        };
        let hidden = match mask.dtype() {
            DType::Bool => {
                let hidden = rows.logical_not()?;
                products = products.masked_fill(&hidden, f64::NEG_INFINITY)?;
                hidden
            }
            _ => {
                products = products.add(&rows.to_dtype(q.dtype())?)?;
                rows.detach().eq(f64::NEG_INFINITY)?
            }
        };
        let all = hidden.all_dim(-1, true)?;
        // Only where the answer is there already: on a device, the masks cost less than to wait.
        let none = q.device().is_host() && !all.any()?.item::<bool>()?;
        if !none {
            products = products.masked_fill(&all, 0.0)?;
            unseeing = Some(all);
        }
    }
    let weights = products.softmax(-1)?;
    match &unseeing {
        Some(rows) => weights.masked_fill(rows, 0.0),
        None => Ok(weights),
    }
}

fn attention(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    o: &ScaledDotProductAttentionOptions,
) -> Result<Tensor> {
    check(q, k, v, o)?;
    if fused_attention::fits(q, k, v, o) {
        return fused_attention::run(q, k, v, o);
    }
    let dtype = q.dtype();
    let to = wide(dtype);
    let (q, k, v) = (&q.to_dtype(to)?, k.to_dtype(to)?, v.to_dtype(to)?);
    let (k, v) = match o.enable_gqa {
        true => (grouped(q, &k)?, grouped(q, &v)?),
        false => (k, v),
    };
    weights(q, &k, o.attn_mask.as_ref(), &window(o), scale(q, o.scale))?
        .dropout(o.dropout_p, true)?
        .matmul(&v)?
        .to_dtype(dtype)
}

#[torsh_tensor::functions]
impl Tensor {
    /// `softmax(query @ key.T / sqrt(e)) @ value` of queries `[.., l, e]`, keys `[.., s, e]` and
    /// values `[.., s, n]` (`torch.nn.functional.scaled_dot_product_attention`).
    ///
    /// Gives `[.., l, n]`; the leading dimensions broadcast. An error for other shapes, and for
    /// dtypes that differ.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// let (q, k, v) = (tensor![[0.0]], tensor![[1.0], [2.0]], tensor![[3.0], [5.0]]);
    /// assert_eq!(q.scaled_dot_product_attention(&k, &v)?, tensor![[4.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function(input = query)]
    #[track_caller]
    pub fn scaled_dot_product_attention(&self, key: &Tensor, value: &Tensor) -> Result<Tensor> {
        self.scaled_dot_product_attention_with(key, value, Default::default())
    }

    /// [`Tensor::scaled_dot_product_attention`] with options: a mask (`attn_mask` or `is_causal`),
    /// `dropout_p`, another `scale`, or heads that share keys (`enable_gqa`).
    ///
    /// An error for a mask that does not broadcast to `[.., l, s]`, and for both masks at once.
    ///
    /// ```
    /// use torsh_tensor::{ScaledDotProductAttentionOptions, tensor};
    /// let (q, k) = (tensor![[0.0], [0.0]], tensor![[1.0], [2.0]]);
    /// let v = tensor![[10.0], [20.0]];
    /// // Equal scores average the values; a causal query sees only keys up to its own.
    /// let options = ScaledDotProductAttentionOptions::new().is_causal(true);
    /// let y = q.scaled_dot_product_attention_with(&k, &v, options)?;
    /// assert!(y.allclose(&tensor![[10.0], [15.0]])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function(input = query)]
    #[torsh_tensor::names_caller]
    pub fn scaled_dot_product_attention_with(
        &self,
        key: &Tensor,
        value: &Tensor,
        options: ScaledDotProductAttentionOptions,
    ) -> Result<Tensor> {
        let name = "scaled_dot_product_attention";
        let mask = options.attn_mask.clone();
        let class = SCALED_DOT_PRODUCT_ATTENTION.autocast;
        let run = |[q, k, v]: [&Tensor; 3], mask: Option<&Tensor>| {
            let options = ScaledDotProductAttentionOptions {
                attn_mask: mask.cloned(),
                ..options
            };
            attention(q, k, v, &options)
        };
        composite(name, &[self, key, value], || {
            body_opt(class, [self, key, value], mask.as_ref(), run)
        })
        .map_err(|e| e.renamed(name))
    }
}
