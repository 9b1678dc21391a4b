//! Attention over the blocks that a [`BlockMask`] stores.

use torsh_backend::attention::{BLOCKS, BLOCKS_BACKWARD};
use torsh_core::{Result, Shape, TorshError, attrs};

use super::attention::{AttentionWindow, ScaledDotProductAttentionOptions, grouped, scale, wide};
use super::block_mask::{BlockMask, dense};
use super::fused_attention::{gradients, lead, like, plan_of_gradients, with};
use crate::Tensor;
use crate::autocast::{Autocast, body};
use crate::call::{Arg, DefinitionCx, call, call1};
use crate::observe::composite;
use crate::options::options;
use crate::record::{Backward, OpRecord, Plan, Sample, Spec, sample};

pub(crate) const RECORDS: &[&OpRecord] = &[&SPARSE_ATTENTION, &ATTENTION, &ATTENTION_BACKWARD];

/// Refuses a mask of other lengths, batch or heads than the operands, before all of it is read.
fn fits(mask: &Tensor, query: &Tensor, key: &Tensor) -> Result<()> {
    let (m, q, k) = (mask.dims(), query.dims(), key.dims());
    let lengths = match (m, q, k) {
        ([.., a, b], [.., l, _], [.., s, _]) => a == l && b == s,
        _ => false,
    };
    let ahead = |dims: &[usize]| dims[..dims.len().saturating_sub(2)].to_vec();
    let (of_mask, of_query) = (ahead(m), ahead(q));
    let mut sizes = of_mask.iter().rev().zip(of_query.iter().rev());
    let lead = of_mask.len() <= of_query.len() && sizes.all(|(m, q)| *m == 1 || m == q);
    match lengths && lead {
        true => Ok(()),
        false => Err(TorshError::shape(
            "sparse_attention",
            format!(
                "a mask of shape {} does not fit queries of shape {} and keys of shape {}",
                mask.shape(),
                query.shape(),
                key.shape()
            ),
        )),
    }
}

pub static SPARSE_ATTENTION: OpRecord = OpRecord::new(
    "sparse_attention",
    "Scaled dot product attention over the blocks of 64 queries by 64 keys of a mask, true where a key counts, in which one does. A query that sees no key gives 0.",
    "(Tensor query, Tensor key, Tensor value, Tensor mask, *, float? scale=None, bool enable_gqa=False)",
)
.autocast(Autocast::Lower)
.by_name(|b| {
    let options = SparseAttentionOptions {
        scale: b.opt_float(4),
        enable_gqa: b.bool(5),
    };
    let (query, key, value) = (b.tensor(0)?, b.tensor(1)?, b.tensor(2)?);
    fits(b.tensor(3)?, query, key)?;
    let mask = BlockMask::from_mask(b.tensor(3)?)?;
    Ok(query.sparse_attention_with(key, value, &mask, options)?.into())
})
.samples(|s| {
    let mut operands = |heads: [usize; 2]| -> Result<Sample> {
        let query = s.real(&[heads[0], 3, 2])?;
        Ok(sample![query, s.real(&[heads[1], 4, 2])?, s.real(&[heads[1], 4, 3])?])
    };
    let seen = [true, false, true, true, false, false, false, false, false, true, true, false];
    let shared = Tensor::from_data(&seen, [3, 4])?;
    let own = Tensor::cat(&[shared.logical_not()?.unsqueeze(0)?, shared.unsqueeze(0)?], 0)?;
    Ok(vec![
        operands([2, 2])?.arg(shared).kw("scale", 0.7),
        operands([2, 1])?.arg(own).kw("enable_gqa", true),
    ])
});

options! {
    /// The keyword arguments of [`sparse_attention_with`](Tensor::sparse_attention_with), as `flex_attention` has them.
    ///
    /// ```
    /// use torsh_tensor::SparseAttentionOptions;
    /// let options = SparseAttentionOptions::new();
    /// assert!(options.scale.is_none() && !options.enable_gqa);
    /// assert_eq!(options.scale(0.125).scale, Some(0.125));
    /// ```
    SparseAttentionOptions {
        /// The products' factor; by default 1 over the square root of the queries' length.
        scale: Option<f64> = None, f64 => Some;
        /// Whether several heads of the query (dimension -3) share one of key and value.
        enable_gqa: bool = false;
    }
}

/// Operands: query, key, value, and the mask's blocks and parts as the CPU's kernel explains them. Results: what is attended
/// to, and the logarithm of each query's sum.
pub static ATTENTION: OpRecord = OpRecord::new(
    "_attention_blocks",
    "Attention over stored blocks, without a matrix of weights.",
    "(Tensor query, Tensor key, Tensor value, Tensor blocks, Tensor parts, *, int mask_batch, int mask_heads, float scale, bool enable_gqa)",
)
.internal()
.with_key(&BLOCKS, |c| {
    let [q, k, v] = [c.tensor(0)?, c.tensor(1)?, c.tensor(2)?];
    let lead = ahead([q, k, v], c.attrs::<attrs::AttentionBlocks>()?.enable_gqa)?;
    let rows = q.dims()[q.ndim() - 2];
    let sums = Spec::new(with(&lead, &[rows]), wide(q.dtype()));
    let out = like(q, with(&lead, &[rows, v.dims()[v.ndim() - 1]]));
    Ok(Plan::many(q.dtype(), [out, sums]))
})
.definition(|c| {
    let a = c.attrs::<attrs::AttentionBlocks>()?;
    let x = Defined::new(c, a)?;
    let out = x.weights.matmul(&x.many_v)?;
    Ok([out, x.logarithms].into_iter().collect())
})
.backward(Backward::Full {
    inputs: 0b11111,
    outputs: 0b11,
    constant: 0b10,
    formula: |c| {
        let &attrs::AttentionBlocks { mask_batch, mask_heads, scale, enable_gqa } = c.attrs()?;
        let (q, k, v, blocks, parts) = (c.x()?, c.y()?, c.z()?, c.input(3)?, c.input(4)?);
        if crate::is_grad_enabled() {
            // In ops that have derivatives.
            let (queries, keys) = (q.dims()[q.ndim() - 2], k.dims()[k.ndim() - 2]);
            let mask = dense(&blocks, &parts, [mask_batch, mask_heads, queries, keys])?;
            let lead = ahead([&q, &k, &v], enable_gqa)?;
            let mask = broadcastable(&mask, &lead)?;
            let all = AttentionWindow::default();
            let grads = gradients(c, [q, k, v], Some(&mask), &all, (scale, enable_gqa))?;
            return Ok(grads.into_iter().chain([None, None]).collect());
        }
        let (out, sums) = (c.output(0)?, c.output(1)?);
        let attrs = attrs::AttentionBlocksBackward {
            mask_batch,
            mask_heads,
            scale,
            enable_gqa,
            query_grad: c.needs(0),
            key_grad: c.needs(1),
            value_grad: c.needs(2),
        };
        let operands = [&q, &k, &v, &blocks, &parts, c.g(), &out, &sums].map(Arg::T);
        let grads = call(&ATTENTION_BACKWARD, &operands, &attrs)?;
        let wanted = |(i, g)| c.needs(i).then_some(g);
        Ok(grads
            .into_iter()
            .enumerate()
            .map(wanted)
            .chain([None, None])
            .collect())
    },
});

/// The gradients of [`ATTENTION`] in one kernel, for when they are not differentiated again.
/// Operands: those of [`ATTENTION`], gradient and both results.
pub static ATTENTION_BACKWARD: OpRecord = OpRecord::new(
    "_attention_blocks_backward",
    "The gradients of attention over stored blocks.",
    "(Tensor query, Tensor key, Tensor value, Tensor blocks, Tensor parts, Tensor grad_output, Tensor output, Tensor log_sums, *, int mask_batch, int mask_heads, float scale, bool enable_gqa, bool query_grad, bool key_grad, bool value_grad)",
)
.internal()
.with_key(&BLOCKS_BACKWARD, |c| {
    let (q, k, v) = (c.tensor(0)?, c.tensor(1)?, c.tensor(2)?);
    let a = c.attrs::<attrs::AttentionBlocksBackward>()?;
    let lead = ahead([q, k, v], a.enable_gqa)?;
    let wanted = [a.query_grad, a.key_grad, a.value_grad];
    Ok(plan_of_gradients([q, k, v], &lead, a.enable_gqa, wanted))
})
.definition(|c| {
    let a = c.attrs::<attrs::AttentionBlocksBackward>()?;
    let x = Defined::new(c, &a.forward())?;
    let g = c.tensor(5)?.to_dtype(x.q.dtype())?;
    let to_p = g.matmul(&x.many_v.transpose(-2, -1)?)?;
    let along = to_p.mul(&x.weights)?.sum_dim(-1, true)?;
    let to_scores = to_p.sub(&along)?.mul(&x.weights)?.mul(a.scale)?;
    // A gradient of the result's heads as one of the key's or value's, or nothing where it is not wanted.
    let in_shape = |i: usize, wanted: bool, make: &dyn Fn() -> Result<Tensor>| -> Result<Tensor> {
        let Some(spec) = c.outputs.get(i).filter(|_| wanted) else {
            return Tensor::zeros([0], x.q.dtype(), x.q.device());
        };
        let t = make()?;
        if t.shape() == &spec.shape {
            return Ok(t);
        }
        let ([ahead @ .., own, rows, columns], heads) = (t.dims(), spec.shape.dims()) else {
            return Ok(t);
        };
        let heads = heads[heads.len() - 3];
        let parts = [ahead, &[heads, own / heads.max(1), *rows, *columns]].concat();
        t.reshape(&parts[..])?.sum_dim(-3, false)
    };
    Ok([
        in_shape(0, a.query_grad, &|| to_scores.matmul(&x.many_k))?,
        in_shape(1, a.key_grad, &|| to_scores.transpose(-2, -1)?.matmul(&x.q))?,
        in_shape(2, a.value_grad, &|| x.weights.transpose(-2, -1)?.matmul(&g))?,
    ]
    .into_iter()
    .collect())
});

/// What definitions compute first.
struct Defined {
    q: Tensor,
    many_k: Tensor,
    many_v: Tensor,
    weights: Tensor,
    logarithms: Tensor,
}

impl Defined {
    fn new(c: &DefinitionCx<'_>, a: &attrs::AttentionBlocks) -> Result<Defined> {
        let (q, k, v) = (c.tensor(0)?, c.tensor(1)?, c.tensor(2)?);
        let lead = ahead([&q, &k, &v], a.enable_gqa)?;
        let (queries, keys) = (q.dims()[q.ndim() - 2], k.dims()[k.ndim() - 2]);
        let sizes = [a.mask_batch, a.mask_heads, queries, keys];
        let mask = broadcastable(&dense(&c.tensor(3)?, &c.tensor(4)?, sizes)?, &lead)?;
        let (many_k, many_v) = match a.enable_gqa {
            true => (grouped(&q, &k)?, grouped(&q, &v)?),
            false => (k, v),
        };
        let all = [lead.dims(), &[queries, keys]].concat();
        let scores = q
            .mul(a.scale)?
            .matmul(&many_k.transpose(-2, -1)?)?
            .expand(&all[..])?
            .masked_fill(&mask.logical_not()?, f64::NEG_INFINITY)?;
        let sums = match keys {
            0 => Tensor::full(
                with(&lead, &[queries]),
                f64::NEG_INFINITY,
                q.dtype(),
                q.device(),
            )?,
            _ => scores.logsumexp(-1, false)?,
        };
        let unseeing = sums.eq(f64::NEG_INFINITY)?;
        let logarithms = sums.masked_fill(&unseeing, f64::INFINITY)?;
        let weights = scores.sub(&logarithms.unsqueeze(-1)?)?.exp()?;
        Ok(Defined {
            q,
            many_k,
            many_v,
            weights,
            logarithms,
        })
    }
}

/// A mask `[batch, heads, queries, keys]` as one that broadcasts to the sizes ahead and queries and keys.
fn broadcastable(mask: &Tensor, lead: &Shape) -> Result<Tensor> {
    let (m, ahead) = (mask.dims(), lead.dims());
    let sizes = match (m[0], ahead.split_last()) {
        (1, Some(_)) => m[1..].to_vec(),
        (_, Some((_, batches))) => [batches, &m[1..]].concat(),
        (_, None) => m[2..].to_vec(),
    };
    mask.reshape(&sizes[..])
}

/// The sizes ahead of the result's last two.
fn ahead(operands: [&Tensor; 3], grouped: bool) -> Result<Shape> {
    let heads = |t: &Tensor| t.ndim().checked_sub(3).map(|d| t.dims()[d]);
    let [q, k, v] = operands.map(heads);
    if grouped {
        let (Some(q), Some(k), Some(v)) = (q, k, v) else {
            return Err(TorshError::shape(
                "",
                "enable_gqa needs a dimension of heads, -3, in query, key and value",
            ));
        };
        if k != v || k == 0 || !q.is_multiple_of(k) {
            return Err(TorshError::shape(
                "",
                format!(
                    "Number of heads in key and value must be the same and divide the number of heads in query, got {k}, {v} and {q}"
                ),
            ));
        }
    }
    lead(operands, grouped)
}

fn check([q, k, v]: [&Tensor; 3], mask: &BlockMask, o: &SparseAttentionOptions) -> Result<()> {
    if q.dtype() != k.dtype() || q.dtype() != v.dtype() {
        return Err(TorshError::dtype(
            "",
            format!(
                "Expected query, key, and value to have the same dtype, but got query.dtype: {}, key.dtype: {}, and value.dtype: {} instead.",
                q.dtype(),
                k.dtype(),
                v.dtype()
            ),
        ));
    }
    if !q.dtype().is_floating_point() {
        return Err(TorshError::dtype(
            "",
            format!("not implemented for {}", q.dtype()),
        ));
    }
    if q.device() != k.device() || q.device() != v.device() {
        return Err(TorshError::device(
            "",
            format!(
                "Expected query, key, and value to be on the same device, but got query on {}, key on {}, and value on {}",
                q.device(),
                k.device(),
                v.device()
            ),
        ));
    }
    let mut sizes = [q, k, v].map(|t| t.dims().split_last_chunk::<2>().map(|(_, last)| *last));
    let [Some([queries, e]), Some([keys, e_k]), Some([values, _])] = sizes.each_mut() else {
        return Err(TorshError::shape(
            "",
            format!(
                "Expected query, key, and value to all be at least 2 dimensional, but got query.dim: {}, key.dim: {} and value.dim: {} instead.",
                q.ndim(),
                k.ndim(),
                v.ndim()
            ),
        ));
    };
    if e != e_k || keys != values {
        return Err(TorshError::shape(
            "",
            format!(
                "query and key must have rows of one length, and key and value as many: got {}, {} and {}",
                q.describe(),
                k.describe(),
                v.describe()
            ),
        ));
    }
    let lead = ahead([q, k, v], o.enable_gqa)?;
    let (heads, batches) = match lead.dims().split_last() {
        Some((heads, batches)) => (*heads, batches.iter().product::<usize>()),
        None => (1, 1),
    };
    let [mask_batch, mask_heads, mask_queries, mask_keys] = mask.shape();
    let fits = (mask_batch == 1 || mask_batch == batches)
        && (mask_heads == 1 || mask_heads == heads)
        && (mask_queries, mask_keys) == (*queries, *keys);
    if !fits {
        return Err(TorshError::shape(
            "",
            format!(
                "a BlockMask of shape {:?} is not for {batches} batches, {heads} heads, {queries} queries and {keys} keys",
                mask.shape()
            ),
        )
        .with_hint("make the mask for these queries and keys; a batch or heads of 1 serve all"));
    }
    Ok(())
}

fn attend(operands: [&Tensor; 3], mask: &BlockMask, o: &SparseAttentionOptions) -> Result<Tensor> {
    check(operands, mask, o)?;
    let [q, k, v] = operands;
    // The kernel for windows stores no mask at all. One without operands is for the checks of this one.
    if let Some(window) = mask.window()
        && ![q, k, v].iter().any(|t| t.numel() == 0)
    {
        let options = ScaledDotProductAttentionOptions {
            scale: o.scale,
            enable_gqa: o.enable_gqa,
            window: Some(window),
            ..Default::default()
        };
        return q.scaled_dot_product_attention_with(k, v, options);
    }
    let [blocks, parts] = mask.tensors(q.device())?;
    let [mask_batch, mask_heads, ..] = mask.shape();
    let attrs = attrs::AttentionBlocks {
        mask_batch,
        mask_heads,
        scale: scale(q, o.scale),
        enable_gqa: o.enable_gqa,
    };
    call1(&ATTENTION, &[q, k, v, &blocks, &parts].map(Arg::T), &attrs)
}

#[torsh_tensor::functions]
impl Tensor {
    /// `softmax(query @ key.T / sqrt(e)) @ value` over the keys that a mask of blocks shows each query
    /// (`torch.nn.attention.flex_attention.flex_attention`, with a block mask): of queries `[.., l, e]`, keys `[.., s, e]` and
    /// values `[.., s, n]`.
    ///
    /// Gives `[.., l, n]`; the leading dimensions broadcast, the last of them is the heads. Time and memory grow with the
    /// blocks that the mask stores: there is no matrix of weights, and none of the mask. A query that sees no key gives 0.
    /// Gradients are those of query, key and value; second derivatives are computed with the mask and the weights of the
    /// whole size.
    ///
    /// ```
    /// use torsh_tensor::{BlockMask, tensor};
    /// let (q, k) = (tensor![[0.0], [0.0], [0.0]], tensor![[1.0], [2.0], [3.0]]);
    /// let v = tensor![[10.0], [20.0], [40.0]];
    /// // Two documents: equal scores average the values of each.
    /// let y = q.sparse_attention(&k, &v, &BlockMask::documents(&[2, 1])?)?;
    /// assert!(y.allclose(&tensor![[15.0], [15.0], [40.0]])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Shapes that do not go together, a mask of other sizes, and dtypes or devices that differ.
    #[function(input = query)]
    #[torsh_tensor::names_caller]
    pub fn sparse_attention(
        &self,
        key: &Tensor,
        value: &Tensor,
        mask: &BlockMask,
    ) -> Result<Tensor> {
        self.sparse_attention_with(key, value, mask, SparseAttentionOptions::default())
    }

    /// [`Tensor::sparse_attention`] with options: another `scale`, or heads that share keys and values (`enable_gqa`).
    ///
    /// ```
    /// use torsh_tensor::{BlockMask, SparseAttentionOptions, tensor};
    /// // Two heads of one query, which share the head of two keys.
    /// let (q, k) = (tensor![[[1.0]], [[1.0]]], tensor![[[1.0], [3.0]]]);
    /// let v = tensor![[[10.0], [20.0]]];
    /// let mask = BlockMask::new(1, 2, 1, 2, |_, head, _, k| head == 0 || k == 1)?;
    /// let options = SparseAttentionOptions::new().enable_gqa(true).scale(0.0);
    /// let y = q.sparse_attention_with(&k, &v, &mask, options)?;
    /// assert!(y.allclose(&tensor![[[15.0]], [[20.0]]])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Tensor::sparse_attention`], and heads that do not divide.
    #[function(input = query)]
    #[torsh_tensor::names_caller]
    pub fn sparse_attention_with(
        &self,
        key: &Tensor,
        value: &Tensor,
        mask: &BlockMask,
        options: SparseAttentionOptions,
    ) -> Result<Tensor> {
        let name = "sparse_attention";
        let operands = [self, key, value];
        let class = SPARSE_ATTENTION.autocast;
        composite(name, &operands, || {
            body(class, operands, |operands| attend(operands, mask, &options))
        })
        .map_err(|e| e.renamed(name))
    }
}
