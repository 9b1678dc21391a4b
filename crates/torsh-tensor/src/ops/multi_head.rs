//! Multi-head attention, written in other ops.

use torsh_core::{DType, Result, Shape, TorshError};

use super::attention::ScaledDotProductAttentionOptions;
use super::block_mask::BlockMask;
use crate::observe::composite;
use crate::options::options;
use crate::record::{OpRecord, Sample};
use crate::schema::Bound;
use crate::{Tensor, Value};

pub(crate) const RECORDS: &[&OpRecord] = &[&MULTI_HEAD_ATTENTION_FORWARD];

pub static MULTI_HEAD_ATTENTION_FORWARD: OpRecord = OpRecord::new(
    "nn.functional.multi_head_attention_forward",
    "Attention by several heads, each with its part of projected queries, keys and values: what they attend to, projected, and the weights.",
    "(Tensor query, Tensor key, Tensor value, int embed_dim_to_check, int num_heads, Tensor? in_proj_weight, Tensor? in_proj_bias, Tensor? bias_k, Tensor? bias_v, bool add_zero_attn, float dropout_p, Tensor out_proj_weight, Tensor? out_proj_bias, bool training=True, Tensor? key_padding_mask=None, bool need_weights=True, Tensor? attn_mask=None, bool use_separate_proj_weight=False, Tensor? q_proj_weight=None, Tensor? k_proj_weight=None, Tensor? v_proj_weight=None, Tensor? static_k=None, Tensor? static_v=None, bool average_attn_weights=True, bool is_causal=False)",
)
.by_name(|b| {
    let (query, key, value) = (b.tensor(0)?, b.tensor(1)?, b.tensor(2)?);
    let embed_dim = query.dims().last().map_or(0, |&n| n as i64);
    if embed_dim != b.int(3) {
        return Err(TorshError::shape(
            "",
            format!("was expecting embedding dimension of {}, but got {embed_dim}", b.int(3)),
        ));
    }
    let tensor = |i: usize| b.opt_tensor(i).cloned();
    let projection = match b.bool(17) {
        true => InProjection::Separate([tensor_of(b, 18)?, tensor_of(b, 19)?, tensor_of(b, 20)?]),
        false => InProjection::Packed(tensor_of(b, 5)?),
    };
    let options = MultiHeadAttentionForwardOptions {
        in_proj_bias: tensor(6),
        bias_k: tensor(7),
        bias_v: tensor(8),
        add_zero_attn: b.bool(9),
        dropout_p: b.float(10),
        out_proj_bias: tensor(12),
        training: b.bool(13),
        key_padding_mask: tensor(14),
        need_weights: b.bool(15),
        attn_mask: tensor(16),
        static_k: tensor(21),
        static_v: tensor(22),
        average_attn_weights: b.bool(23),
        is_causal: b.bool(24),
        block_mask: None,
    };
    let heads = b.int(4).max(0) as usize;
    let (y, weights) = query.multi_head_attention_forward(key, value, heads, &projection, b.tensor(11)?, options)?;
    Ok(Value::Tuple(vec![y.into(), weights.into()]))
})
.samples(|s| {
    let mut calls = Vec::new();
    for (need_weights, biases) in [(true, true), (false, false)] {
        let mut t = |shape: &[usize]| -> Result<Value> { Ok(s.uniform(shape, -0.9, 0.8)?.into()) };
        let mut args = vec![t(&[3, 2, 4])?, t(&[2, 2, 4])?, t(&[2, 2, 4])?, 4i64.into(), 2i64.into(), t(&[12, 4])?];
        match biases {
            true => args.extend([t(&[12])?, t(&[1, 1, 4])?, t(&[1, 1, 4])?]),
            false => args.extend([Value::None, Value::None, Value::None]),
        }
        args.extend([biases.into(), 0.0.into(), t(&[4, 4])?]);
        args.push(if biases { t(&[4])? } else { Value::None });
        let mask = t(&[3, 2])?;
        calls.push(Sample::new(args).kw("need_weights", need_weights).kw("attn_mask", mask));
    }
    Ok(calls)
});

fn tensor_of(b: &Bound, i: usize) -> Result<Tensor> {
    b.opt_tensor(i).cloned().ok_or_else(|| {
        TorshError::invalid(
            "",
            "needs in_proj_weight, or with use_separate_proj_weight q_proj_weight, k_proj_weight and v_proj_weight",
        )
    })
}

/// The weights of the queries', keys' and values' projections.
#[derive(Clone, Debug)]
pub enum InProjection {
    /// All in one, `[3 * embed_dim, embed_dim]`.
    Packed(Tensor),
    /// `[embed_dim, embed_dim]`, `[embed_dim, kdim]` and `[embed_dim, vdim]`.
    Separate([Tensor; 3]),
}

options! {
    /// The other arguments of `F.multi_head_attention_forward`.
    ///
    /// ```
    /// use torsh_tensor::MultiHeadAttentionForwardOptions;
    /// let options = MultiHeadAttentionForwardOptions::new();
    /// assert!(!options.add_zero_attn);
    /// assert_eq!(options.dropout_p, 0.0);
    /// assert!(options.training);
    /// assert!(options.add_zero_attn(true).add_zero_attn);
    /// ```
    MultiHeadAttentionForwardOptions {
        /// `[3 * embed_dim]`
        in_proj_bias: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// A key beside the projected ones, `[1, 1, embed_dim]`; with `bias_v`.
        bias_k: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// Its value.
        bias_v: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// Whether a key and a value of zeros are added.
        add_zero_attn: bool = false;
        /// The probability with which weights are set to 0 while `training`.
        dropout_p: f64 = 0.0;
        /// `[embed_dim]`
        out_proj_bias: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// Whether weights are dropped.
        training: bool = true;
        /// `[batch, keys]`: true where a key does not count, or numbers added to its products.
        key_padding_mask: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// Whether the weights are returned.
        need_weights: bool = true;
        /// `[queries, keys]` or `[batch * heads, queries, keys]`: true where a key does not count
        /// for a query, or numbers added to their products.
        attn_mask: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// What is used in the place of the projected keys, `[batch * heads, keys, head size]`.
        static_k: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// What is used in the place of the projected values.
        static_v: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// Whether the weights are those of the mean head.
        average_attn_weights: bool = true;
        /// A hint that `attn_mask` is causal.
        is_causal: bool = false;
        /// The keys that each query sees, by blocks, which alone are computed: for long sequences. It goes with no other
        /// mask, nor with dropped or returned weights. PyTorch has no such argument.
        block_mask: Option<BlockMask> = None, &BlockMask => |m| Some(m.clone());
    }
}

fn error(message: String) -> TorshError {
    TorshError::shape("", message)
}

/// A mask as numbers to add; true becomes negative infinity.
pub(crate) fn additive(mask: &Tensor, name: &str, dtype: DType) -> Result<Tensor> {
    match mask.dtype() {
        DType::Bool => {
            Tensor::zeros(mask.shape(), dtype, mask.device())?.masked_fill(mask, f64::NEG_INFINITY)
        }
        d if d.is_floating_point() => Ok(mask.clone()),
        d => Err(TorshError::dtype(
            "",
            format!("only bool and floating types of {name} are supported, got {d}"),
        )),
    }
}

fn check(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    heads: usize,
    o: &MultiHeadAttentionForwardOptions,
) -> Result<bool> {
    let rank = q.ndim();
    if !matches!(rank, 2 | 3) || k.ndim() != rank || v.ndim() != rank {
        return Err(error(format!(
            "query, key and value must all be 2-D (unbatched) or 3-D (batched), got {}, {} and {}",
            q.describe(),
            k.describe(),
            v.describe()
        )));
    }
    if k.dims()[..rank - 1] != v.dims()[..rank - 1] {
        return Err(error(format!(
            "key's sequence and batch dims {:?} do not match value's {:?}",
            &k.dims()[..rank - 1],
            &v.dims()[..rank - 1]
        )));
    }
    if rank == 3 && q.dims()[1] != k.dims()[1] {
        return Err(error(format!(
            "query and key have different batches: {} and {}",
            q.describe(),
            k.describe()
        )));
    }
    let e = q.dims()[rank - 1];
    if heads == 0 || !e.is_multiple_of(heads) {
        return Err(error(format!(
            "embed_dim {e} not divisible by num_heads {heads}"
        )));
    }
    let (keys, padding) = (k.dims()[0], o.key_padding_mask.as_ref());
    let expected = match rank {
        2 => vec![keys],
        _ => vec![k.dims()[1], keys],
    };
    if let Some(mask) = padding
        && mask.dims() != expected
    {
        return Err(error(format!(
            "Expected key_padding_mask to be {}, got {}",
            Shape::new(&expected),
            mask.describe()
        )));
    }
    if o.bias_k.is_some() != o.bias_v.is_some() {
        return Err(TorshError::invalid(
            "",
            "bias_k and bias_v must be given both or neither",
        ));
    }
    if o.block_mask.is_some() {
        let dropped = o.training && o.dropout_p > 0.0;
        let no = [
            ("attn_mask", o.attn_mask.is_some()),
            ("key_padding_mask", o.key_padding_mask.is_some()),
            ("is_causal", o.is_causal),
            ("dropout_p while training", dropped),
            ("bias_k and bias_v", o.bias_k.is_some()),
            ("add_zero_attn", o.add_zero_attn),
            ("need_weights", o.need_weights),
        ];
        if let Some((name, _)) = no.iter().find(|(_, given)| *given) {
            return Err(TorshError::invalid(
                "",
                format!("block_mask does not go with {name}"),
            )
            .with_hint("blocks have no matrix of weights: need_weights(false), and all masks in one BlockMask"));
        }
    }
    if o.is_causal && o.attn_mask.is_none() {
        return Err(
            TorshError::invalid("", "Need attn_mask if specifying the is_causal hint.")
                .with_hint("Transformer::generate_square_subsequent_mask makes one"),
        );
    }
    Ok(rank == 3)
}

/// Whether sequences lie one after the other: `[batch, length, width]` transposed.
fn batch_first(t: &Tensor) -> bool {
    t.dims()[1] > 1 && t.stride()[0] < t.stride()[1]
}

/// A layer's result for `[length, batch, width]`: one product for all rows, in the order in which
/// they lie.
fn linear(t: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    match batch_first(t) {
        true => t.transpose(0, 1)?.linear(weight, bias)?.transpose(0, 1),
        false => t.linear(weight, bias),
    }
}

/// Queries, keys and values after their projections, `[length, batch, embed_dim]`.
fn projected(
    [q, k, v]: [&Tensor; 3],
    weight: &InProjection,
    bias: Option<&Tensor>,
) -> Result<[Tensor; 3]> {
    let e = q.dims()[2];
    let part = |t: &Tensor, i: usize, n: usize| t.narrow(0, i * e, n * e);
    let bias_part = |i: usize, n: usize| bias.map(|b| part(b, i, n)).transpose();
    match weight {
        InProjection::Packed(w) => {
            if w.dims() != [3 * e, e] || k.dims()[2] != e || v.dims()[2] != e {
                return Err(error(format!(
                    "the weight {} does not project query {}, key {} and value {}",
                    w.describe(),
                    q.describe(),
                    k.describe(),
                    v.describe()
                )));
            }
            let split = |t: Tensor, i: usize| t.narrow(2, i * e, e);
            if k.is_same(v) && q.is_same(k) {
                let all = linear(q, w, bias)?;
                return Ok([
                    split(all.clone(), 0)?,
                    split(all.clone(), 1)?,
                    split(all, 2)?,
                ]);
            }
            let q = linear(q, &part(w, 0, 1)?, bias_part(0, 1)?.as_ref())?;
            if k.is_same(v) {
                let both = linear(k, &part(w, 1, 2)?, bias_part(1, 2)?.as_ref())?;
                return Ok([q, split(both.clone(), 0)?, split(both, 1)?]);
            }
            let k = linear(k, &part(w, 1, 1)?, bias_part(1, 1)?.as_ref())?;
            let v = linear(v, &part(w, 2, 1)?, bias_part(2, 1)?.as_ref())?;
            Ok([q, k, v])
        }
        InProjection::Separate([wq, wk, wv]) => Ok([
            linear(q, wq, bias_part(0, 1)?.as_ref())?,
            linear(k, wk, bias_part(1, 1)?.as_ref())?,
            linear(v, wv, bias_part(2, 1)?.as_ref())?,
        ]),
    }
}

fn attention(
    inputs: [&Tensor; 3],
    heads: usize,
    weight: &InProjection,
    out_weight: &Tensor,
    o: &MultiHeadAttentionForwardOptions,
) -> Result<(Tensor, Option<Tensor>)> {
    let [q, k, v] = inputs;
    let batched = check(q, k, v, heads, o)?;
    let batch = |t: &Tensor| {
        if batched {
            Ok(t.clone())
        } else {
            t.unsqueeze(1)
        }
    };
    // The same tensor stays the same, so that one product projects it.
    let k_in = if k.is_same(q) { None } else { Some(batch(k)?) };
    let q_in = batch(q)?;
    let k_in = k_in.unwrap_or_else(|| q_in.clone());
    let v_in = match (v.is_same(k), v.is_same(q)) {
        (true, _) => k_in.clone(),
        (_, true) => q_in.clone(),
        _ => batch(v)?,
    };
    let (queries, n, e) = (q_in.dims()[0], q_in.dims()[1], q_in.dims()[2]);
    let keys = k_in.dims()[0];
    let head = e / heads;
    let dtype = q.dtype();
    let mut padding = match &o.key_padding_mask {
        Some(m) => {
            let m = additive(m, "key_padding_mask", dtype)?;
            Some(if batched { m } else { m.unsqueeze(0)? })
        }
        None => None,
    };
    let is_causal = o.is_causal && padding.is_none() && !o.need_weights;
    let mut mask = match &o.attn_mask {
        Some(m) if !is_causal => {
            let m = additive(m, "attn_mask", dtype)?;
            Some(match m.dims() {
                [a, b] if [*a, *b] == [queries, keys] => m.reshape([1, 1, queries, keys])?,
                [a, b, c] if [*a, *b, *c] == [n * heads, queries, keys] => {
                    m.reshape([n, heads, queries, keys])?
                }
                _ => {
                    return Err(error(format!(
                        "The attn_mask must be {} or {}, got {}",
                        Shape::new(&[queries, keys]),
                        Shape::new(&[n * heads, queries, keys]),
                        m.describe()
                    )));
                }
            })
        }
        _ => None,
    };
    let [q, mut k, mut v] = projected([&q_in, &k_in, &v_in], weight, o.in_proj_bias.as_ref())?;
    let mut added = 0;
    if let (Some(bias_k), Some(bias_v)) = (&o.bias_k, &o.bias_v) {
        if o.static_k.is_some() || o.static_v.is_some() {
            return Err(TorshError::invalid(
                "",
                "bias cannot be added to static key or value",
            ));
        }
        k = Tensor::cat(&[k, bias_k.expand([1, n, e])?], 0)?;
        v = Tensor::cat(&[v, bias_v.expand([1, n, e])?], 0)?;
        added += 1;
    }
    // `[batch, heads, length, head size]`, without a copy.
    let split = |t: &Tensor| -> Result<Tensor> {
        let parts = [t.dims()[0], n, heads, head];
        t.reshape(parts)?.permute([1, 2, 0, 3])
    };
    let fixed = |given: &Option<Tensor>, name: &str, own: &Tensor| match given {
        None => split(own),
        Some(t) => match t.dims() {
            [all, length, size] if *all == n * heads && *size == head => {
                t.reshape([n, heads, *length, head])
            }
            _ => Err(error(format!(
                "expecting {name} of [{}, keys, {head}], but got {}",
                n * heads,
                t.describe()
            ))),
        },
    };
    let (q, mut k, mut v) = (
        split(&q)?,
        fixed(&o.static_k, "static_k", &k)?,
        fixed(&o.static_v, "static_v", &v)?,
    );
    if o.add_zero_attn {
        let zeros = Tensor::zeros([n, heads, 1, head], k.dtype(), k.device())?;
        k = Tensor::cat(&[k, zeros.clone()], 2)?;
        v = Tensor::cat(&[v, zeros], 2)?;
        added += 1;
    }
    if added > 0 {
        let wider = |m: Option<Tensor>| m.map(|m| m.pad([0, added])).transpose();
        (mask, padding) = (wider(mask)?, wider(padding)?);
    }
    if let Some(p) = padding {
        let p = p.reshape([n, 1, 1, p.dims()[1]])?;
        mask = Some(match mask {
            Some(m) => m.add(&p)?,
            None => p,
        });
    }
    let (attended, weights) = if o.need_weights {
        let mut products = q
            .mul((1.0 / head as f64).sqrt())?
            .matmul(&k.transpose(-2, -1)?)?;
        if let Some(m) = &mask {
            products = products.add(m)?;
        }
        let weights = products.softmax(-1)?.dropout(o.dropout_p, o.training)?;
        (weights.matmul(&v)?, Some(weights))
    } else if let Some(blocks) = &o.block_mask {
        (q.sparse_attention(&k, &v, blocks)?, None)
    } else {
        let options = ScaledDotProductAttentionOptions {
            attn_mask: mask,
            dropout_p: if o.training { o.dropout_p } else { 0.0 },
            is_causal,
            ..Default::default()
        };
        (q.scaled_dot_product_attention_with(&k, &v, options)?, None)
    };
    let bias = o.out_proj_bias.as_ref();
    // Dropout draws numbers in the order of the memory, so training keeps PyTorch's layout.
    let y = if !o.training && batch_first(&q_in) {
        let joined = attended.permute([0, 2, 1, 3])?.reshape([n, queries, e])?;
        joined.linear(out_weight, bias)?.transpose(0, 1)?
    } else {
        let joined = attended.permute([2, 0, 1, 3])?.reshape([queries, n, e])?;
        joined.linear(out_weight, bias)?
    };
    let weights = match weights {
        Some(w) if o.average_attn_weights => Some(w.mean_dim(1, false)?),
        w => w,
    };
    if batched {
        return Ok((y, weights));
    }
    Ok((y.squeeze(1)?, weights.map(|w| w.squeeze(0)).transpose()?))
}

#[torsh_tensor::functions]
impl Tensor {
    /// Attention by several heads (`torch.nn.functional.multi_head_attention_forward`; Vaswani et
    /// al., 2017): of these queries `[queries, batch, embed_dim]` over keys `[keys, batch, kdim]` and
    /// values `[keys, batch, vdim]`, or all three without `batch`.
    ///
    /// Gives what the heads attend to, projected by `out_proj_weight` `[embed_dim, embed_dim]`, of
    /// the queries' shape, and with `need_weights` the weights `[batch, queries, keys]`, or `[batch,
    /// heads, queries, keys]` without `average_attn_weights`.
    ///
    /// ```
    /// use torsh_tensor::{InProjection, MultiHeadAttentionForwardOptions, tensor};
    /// let weight = InProjection::Packed(tensor![[0.0], [1.0], [1.0]]);
    /// let (q, kv) = (tensor![[5.0]], tensor![[1.0], [3.0]]);
    /// let options = MultiHeadAttentionForwardOptions::new();
    /// let (y, weights) = q.multi_head_attention_forward(&kv, &kv, 1, &weight, &tensor![[2.0]], options)?;
    /// assert_eq!(y, tensor![[4.0]]);
    /// assert_eq!(weights, Some(tensor![[0.5, 0.5]]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function(input = query)]
    #[torsh_tensor::names_caller]
    pub fn multi_head_attention_forward(
        &self,
        key: &Tensor,
        value: &Tensor,
        num_heads: usize,
        in_projection: &InProjection,
        out_proj_weight: &Tensor,
        options: MultiHeadAttentionForwardOptions,
    ) -> Result<(Tensor, Option<Tensor>)> {
        let name = "multi_head_attention_forward";
        let inputs = [self, key, value];
        composite(name, &inputs, || {
            attention(inputs, num_heads, in_projection, out_proj_weight, &options)
        })
        .map_err(|e| e.renamed(name))
    }
}
