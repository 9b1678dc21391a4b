//! Attention whose heads are divided over the ranks.

use torsh_functional::{self as F, ScaledDotProductAttentionOptions};
use torsh_nn::{Hooks, Linear, Module, ModuleExt, Training};
use torsh_tensor::{Result, Tensor, TorshError};

use super::layers::{ColumnParallelLinear, RowParallelLinear};
use super::regions::{Region, cross};
use super::rng::with_sharded_rng;
use super::share;
use crate::group::ProcessGroup;

/// Self-attention by several heads, of which each rank of the group has a part.
///
/// Takes `[batch, length, embed_dim]`, the same on all ranks, and gives a tensor of that shape on all ranks. The
/// projections are those of [`Linear`] layers `q_proj`, `k_proj`, `v_proj` (columns) and `out_proj` (rows), each with its
/// bias. A pass sums once over the ranks, its backward once more.
///
/// ```
/// use torsh_distributed::spawn;
/// use torsh_distributed::tensor_parallel::TensorParallelAttention;
/// use torsh_nn::{Module, ModuleExt, init};
/// use torsh_tensor::tensor;
///
/// let y = spawn(2, |g| {
///     let layer = TensorParallelAttention::new(2, 2, &g)?.causal(true);
///     for p in layer.parameters() {
///         init::ones_(&p)?;
///     }
///     // Values of a head are 1 + 2 = 3 and its bias of 1 makes 4; the sum over 2 heads is 8, and its bias makes 9.
///     layer.forward(&tensor![[[1.0, 2.0]]])?.to_vec::<f32>()
/// })?;
/// assert_eq!(y, [[9.0, 9.0], [9.0, 9.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct TensorParallelAttention {
    /// The queries' projection.
    pub q_proj: ColumnParallelLinear,
    /// The keys' projection.
    pub k_proj: ColumnParallelLinear,
    /// The values' projection.
    pub v_proj: ColumnParallelLinear,
    /// The projection of what the heads attend to.
    pub out_proj: RowParallelLinear,
    #[module(skip)]
    group: ProcessGroup,
    #[module(skip)]
    head_dim: usize,
    #[module(skip)]
    causal: bool,
    #[module(skip)]
    dropout: f64,
    #[module(skip)]
    sequence: Option<i64>,
    training: Training,
    hooks: Hooks,
}

impl TensorParallelAttention {
    /// Attention with as many heads of keys as of queries, whose weights are drawn as those of [`Linear::new`] in the order
    /// queries, keys, values, output, and divided. All ranks of the group call it.
    ///
    /// # Errors
    /// The heads do not divide `embed_dim`, or the ranks do not divide the heads.
    #[track_caller]
    pub fn new(embed_dim: usize, num_heads: usize, group: &ProcessGroup) -> Result<Self> {
        Self::with_kv_heads(embed_dim, num_heads, num_heads, group)
    }

    /// Attention whose queries' heads share fewer heads of keys and values (grouped queries).
    ///
    /// # Errors
    /// The heads do not divide `embed_dim`, `num_kv_heads` do not divide `num_heads`, or the ranks do not divide both.
    #[torsh_tensor::names_caller(Self)]
    pub fn with_kv_heads(
        embed_dim: usize,
        num_heads: usize,
        num_kv_heads: usize,
        group: &ProcessGroup,
    ) -> Result<Self> {
        let op = "TensorParallelAttention";
        if num_heads == 0 || !embed_dim.is_multiple_of(num_heads) {
            let text = format!("embed_dim is {embed_dim}, which {num_heads} heads do not divide");
            return Err(TorshError::shape(op, text));
        }
        let head_dim = embed_dim / num_heads;
        let linear = |heads: usize| Linear::builder(embed_dim, heads * head_dim).build();
        Self::from_linears(
            [
                &linear(num_heads)?,
                &linear(num_kv_heads)?,
                &linear(num_kv_heads)?,
            ],
            &linear(num_heads)?,
            head_dim,
            group,
        )
    }

    /// The pieces of rank 0's layers: `qkv` are the projections of queries, keys and values, `out` that of the output, and
    /// each head has `head_dim` columns. All ranks of the group call it.
    ///
    /// # Errors
    /// `head_dim` does not divide the features, the keys' heads do not divide the queries', keys and values differ in size,
    /// or the ranks do not divide the heads.
    #[torsh_tensor::names_caller(Self)]
    pub fn from_linears(
        qkv: [&Linear; 3],
        out: &Linear,
        head_dim: usize,
        group: &ProcessGroup,
    ) -> Result<Self> {
        let op = "TensorParallelAttention";
        let sizes = qkv.map(Linear::out_features);
        if head_dim == 0 || sizes.iter().any(|s| s % head_dim != 0) || sizes[1] != sizes[2] {
            let text = format!(
                "queries, keys and values have {sizes:?} features; a head has {head_dim}, and keys have as many heads as values"
            );
            return Err(TorshError::shape(op, text));
        }
        let (heads, kv) = (sizes[0] / head_dim, sizes[1] / head_dim);
        if kv == 0 || heads % kv != 0 {
            let text = format!("{kv} heads of keys do not divide {heads} heads of queries");
            return Err(TorshError::shape(op, text));
        }
        share(op, "the number of heads", heads, group)?;
        share(op, "the number of heads of keys and values", kv, group)?;
        Ok(TensorParallelAttention {
            q_proj: ColumnParallelLinear::from_linear(qkv[0], group)?,
            k_proj: ColumnParallelLinear::from_linear(qkv[1], group)?,
            v_proj: ColumnParallelLinear::from_linear(qkv[2], group)?,
            out_proj: RowParallelLinear::from_linear(out, group)?,
            group: group.clone(),
            head_dim,
            causal: false,
            dropout: 0.0,
            sequence: None,
            training: Training::default(),
            hooks: Hooks::new(),
        })
    }

    /// Whether a query sees only keys up to its own position. The default is `false`.
    #[must_use]
    pub fn causal(mut self, causal: bool) -> Self {
        self.causal = causal;
        self
    }

    /// The probability with which weights are set to 0 in training, by numbers that differ from rank to rank. The
    /// default is 0.
    ///
    /// # Errors
    /// It is not in [0, 1].
    #[torsh_tensor::names_caller]
    pub fn dropout(mut self, dropout: f64) -> Result<Self> {
        if !(0.0..=1.0).contains(&dropout) {
            let text = format!("a probability is in [0, 1], not {dropout}");
            return Err(TorshError::invalid("TensorParallelAttention", text));
        }
        self.dropout = dropout;
        Ok(self)
    }

    /// Makes input and output this rank's part of the sequence (dimension 1).
    #[must_use]
    pub fn sequence_parallel(mut self) -> Self {
        self.sequence = Some(1);
        self.out_proj = self.out_proj.sequence_parallel(1);
        self
    }

    fn attend(&self, x: &Tensor) -> Result<Tensor> {
        if x.ndim() != 3 {
            return Err(TorshError::shape(
                "TensorParallelAttention",
                format!(
                    "the input is [batch, length, embed_dim], not {}",
                    x.describe()
                ),
            ));
        }
        // One crossing serves all three projections.
        let x = match self.sequence {
            Some(_) => cross(x, Region::GatherToWork(1), &self.group)?,
            None => cross(x, Region::Copy, &self.group)?,
        };
        let (batch, length) = (x.dims()[0], x.dims()[1]);
        let heads = |t: Tensor| -> Result<Tensor> {
            let n = t.dims()[2] / self.head_dim;
            t.reshape([batch, length, n, self.head_dim])?
                .transpose(1, 2)
        };
        let q = heads(self.q_proj.forward_local(&x)?)?;
        let k = heads(self.k_proj.forward_local(&x)?)?;
        let v = heads(self.v_proj.forward_local(&x)?)?;
        let dropout = if self.is_training() {
            self.dropout
        } else {
            0.0
        };
        let options = ScaledDotProductAttentionOptions::new()
            .is_causal(self.causal)
            .dropout_p(dropout)
            .enable_gqa(q.dims()[1] != k.dims()[1]);
        let attend = || F::scaled_dot_product_attention_with(&q, &k, &v, options);
        let y = match dropout > 0.0 {
            true => with_sharded_rng(&self.group, attend)?,
            false => attend()?,
        };
        let width = q.dims()[1] * self.head_dim;
        let y = y.transpose(1, 2)?.reshape([batch, length, width])?;
        self.out_proj.forward(&y)
    }
}

impl Module for TensorParallelAttention {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| self.attend(x))
    }

    fn extra_repr(&self) -> String {
        let n = self.group.size();
        let heads = self.q_proj.weight.dims()[0] / self.head_dim * n;
        format!("num_heads={heads} / {n}, head_dim={}", self.head_dim)
    }
}
