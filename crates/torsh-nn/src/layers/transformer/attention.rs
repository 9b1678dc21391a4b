//! `MultiheadAttention`.

use torsh_functional::{self as F, BlockMask, InProjection, MultiHeadAttentionForwardOptions};
use torsh_tensor::{Result, Tensor, TorshError, options};

use crate::layers::{Factory, Linear, factory_setters, needs_more};
use crate::module::{Hooks, Parameter, Training};
use crate::{Module, init};

/// Attention by several heads (`torch.nn.MultiheadAttention`; Vaswani et al., 2017).
///
/// [`forward_with`](MultiheadAttention::forward_with) takes queries `[queries, batch, embed_dim]`,
/// keys `[keys, batch, kdim]` and values `[keys, batch, vdim]`, or with `batch_first`
/// `[batch, queries, embed_dim]` and so on, or all three without `batch`.
///
/// ```
/// use torsh_nn::{ModuleExt, MultiheadAttention, MultiheadAttentionOptions, init};
/// use torsh_tensor::tensor;
/// let layer = MultiheadAttention::builder(1, 1).bias(false).build()?;
/// for p in layer.parameters() {
///     init::ones_(&p)?;
/// }
/// // A query of 0 sees all keys alike.
/// let (q, kv) = (tensor![[0.0]], tensor![[1.0], [3.0]]);
/// let (y, weights) = layer.forward_with(&q, &kv, &kv, MultiheadAttentionOptions::new())?;
/// assert_eq!(y, tensor![[2.0]]);
/// assert_eq!(weights, Some(tensor![[0.5, 0.5]]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct MultiheadAttention {
    /// `[3 * embed_dim, embed_dim]`, unless keys or values have another size than queries.
    pub in_proj_weight: Option<Parameter>,
    /// `[embed_dim, embed_dim]`, where keys or values have another size.
    pub q_proj_weight: Option<Parameter>,
    /// `[embed_dim, kdim]`, where keys or values have another size.
    pub k_proj_weight: Option<Parameter>,
    /// `[embed_dim, vdim]`, where keys or values have another size.
    pub v_proj_weight: Option<Parameter>,
    /// `[3 * embed_dim]`, unless `bias(false)`
    pub in_proj_bias: Option<Parameter>,
    /// `[1, 1, embed_dim]` with `add_bias_kv(true)`
    pub bias_k: Option<Parameter>,
    /// `[1, 1, embed_dim]` with `add_bias_kv(true)`
    pub bias_v: Option<Parameter>,
    /// What the heads attend to goes through it.
    pub out_proj: Linear,
    #[module(skip)]
    num_heads: usize,
    #[module(skip)]
    dropout: f64,
    #[module(skip)]
    add_zero_attn: bool,
    #[module(skip)]
    batch_first: bool,
    training: Training,
    hooks: Hooks,
}

options! {
    /// PyTorch's keyword arguments of [`MultiheadAttention::forward_with`].
    MultiheadAttentionOptions {
        /// `[batch, keys]`, or `[keys]` without `batch`: true where a key does not count, or numbers
        /// added to its products.
        key_padding_mask: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// Whether the weights are returned; it is faster without.
        need_weights: bool = true;
        /// `[queries, keys]` or `[batch * heads, queries, keys]`: true where a key does not count
        /// for a query, or numbers added to their products.
        attn_mask: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// Whether the weights are those of the mean head, `[batch, queries, keys]`, rather than
        /// `[batch, heads, queries, keys]`.
        average_attn_weights: bool = true;
        /// A hint that `attn_mask`, which must be given, is causal.
        is_causal: bool = false;
        /// The keys that each query sees, by blocks, which alone are computed: for long sequences. It goes with no other
        /// mask, nor with dropped or returned weights. PyTorch has no such argument.
        ///
        /// ```
        /// use torsh_functional::BlockMask;
        /// use torsh_nn::{MultiheadAttention, MultiheadAttentionOptions};
        /// use torsh_tensor::{DType, Device, Tensor};
        /// let layer = MultiheadAttention::builder(8, 2).batch_first(true).build()?;
        /// let x = Tensor::ones([1, 100, 8], DType::F32, Device::Cpu)?;
        /// let documents = BlockMask::documents(&[70, 30])?;
        /// let options = MultiheadAttentionOptions::new().need_weights(false).block_mask(&documents);
        /// let (y, weights) = layer.forward_with(&x, &x, &x, options)?;
        /// assert_eq!((y.dims(), weights), (&[1, 100, 8][..], None));
        /// # Ok::<(), torsh_tensor::TorshError>(())
        /// ```
        block_mask: Option<BlockMask> = None, &BlockMask => |m| Some(m.clone());
    }
}

impl MultiheadAttention {
    /// A layer with PyTorch's defaults. An error where the heads do not divide `embed_dim`.
    ///
    /// ```
    /// # use torsh_nn::{ModuleExt, MultiheadAttention};
    /// let layer = MultiheadAttention::new(4, 2)?;
    /// // The projections of queries, keys and values, and that of the result, with biases.
    /// assert_eq!(layer.num_parameters(), 3 * 4 * 4 + 3 * 4 + 4 * 4 + 4);
    /// assert!(MultiheadAttention::new(4, 3).is_err());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn new(embed_dim: usize, num_heads: usize) -> Result<MultiheadAttention> {
        MultiheadAttention::builder(embed_dim, num_heads).build()
    }

    /// A layer with PyTorch's other arguments.
    ///
    /// ```
    /// # use torsh_nn::{ModuleExt, MultiheadAttention};
    /// assert_eq!(MultiheadAttention::builder(4, 2).bias(false).build()?.num_parameters(), 3 * 4 * 4 + 4 * 4);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn builder(embed_dim: usize, num_heads: usize) -> MultiheadAttentionBuilder {
        MultiheadAttentionBuilder {
            embed_dim,
            num_heads,
            dropout: 0.0,
            bias: true,
            add_bias_kv: false,
            add_zero_attn: false,
            kdim: None,
            vdim: None,
            batch_first: false,
            factory: Factory::default(),
        }
    }

    /// How many heads there are.
    ///
    /// ```
    /// # use torsh_nn::MultiheadAttention;
    /// assert_eq!(MultiheadAttention::new(4, 2)?.num_heads(), 2);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn num_heads(&self) -> usize {
        self.num_heads
    }

    /// Whether inputs and outputs are `[batch, length, size]`.
    ///
    /// ```
    /// # use torsh_nn::MultiheadAttention;
    /// assert!(!MultiheadAttention::new(4, 2)?.batch_first());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn batch_first(&self) -> bool {
        self.batch_first
    }

    /// Draws the weights anew, but for `out_proj`'s.
    #[torsh_tensor::names_caller]
    pub fn reset_parameters(&self) -> Result<()> {
        let weights = [
            &self.in_proj_weight,
            &self.q_proj_weight,
            &self.k_proj_weight,
            &self.v_proj_weight,
        ];
        for w in weights.into_iter().flatten() {
            init::xavier_uniform_(w, 1.0)?;
        }
        if let Some(bias) = &self.in_proj_bias {
            init::zeros_(bias)?;
        }
        if let (Some(_), Some(bias)) = (&self.in_proj_bias, &self.out_proj.bias) {
            init::zeros_(bias)?;
        }
        for b in [&self.bias_k, &self.bias_v].into_iter().flatten() {
            init::xavier_normal_(b, 1.0)?;
        }
        Ok(())
    }

    fn in_projection(&self) -> Result<InProjection> {
        if let Some(w) = &self.in_proj_weight {
            return Ok(InProjection::Packed(w.into()));
        }
        match (
            &self.q_proj_weight,
            &self.k_proj_weight,
            &self.v_proj_weight,
        ) {
            (Some(q), Some(k), Some(v)) => {
                Ok(InProjection::Separate([q.into(), k.into(), v.into()]))
            }
            _ => Err(TorshError::invalid(
                "MultiheadAttention",
                "it has neither in_proj_weight nor q_proj_weight, k_proj_weight and v_proj_weight",
            )),
        }
    }

    /// As [`forward_with`](MultiheadAttention::forward_with), with PyTorch's defaults: with the weights.
    #[torsh_tensor::names_caller]
    pub fn forward(
        &self,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
    ) -> Result<(Tensor, Option<Tensor>)> {
        self.forward_with(query, key, value, MultiheadAttentionOptions::new())
    }

    /// What the queries attend to, of their shape, and with `need_weights` the weights.
    ///
    /// Hooks see the queries and what is attended to. A query for which no key counts gives nan
    /// where the weights are asked for, and 0 ahead of `out_proj` otherwise.
    #[torsh_tensor::names_caller]
    pub fn forward_with(
        &self,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        options: MultiheadAttentionOptions,
    ) -> Result<(Tensor, Option<Tensor>)> {
        let results = self.hooks.run_all(self, [query, key, value], |[q, k, v]| {
            let (y, weights) = self.attend(q, k, v, options)?;
            Ok(std::iter::once(y).chain(weights).collect())
        })?;
        let mut results = results.into_iter();
        match results.next() {
            Some(y) => Ok((y, results.next())),
            None => unreachable!("a run gives as many results as it was given"),
        }
    }

    #[track_caller]
    fn attend(
        &self,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        options: MultiheadAttentionOptions,
    ) -> Result<(Tensor, Option<Tensor>)> {
        let turned = self.batch_first && query.ndim() == 3;
        let turn = |t: &Tensor| match turned && t.ndim() == 3 {
            true => t.transpose(0, 1),
            false => Ok(t.clone()),
        };
        // One tensor stays one, so that one product projects it.
        let q = turn(query)?;
        let k = if key.is_same(query) {
            q.clone()
        } else {
            turn(key)?
        };
        let v = match (value.is_same(key), value.is_same(query)) {
            (true, _) => k.clone(),
            (_, true) => q.clone(),
            _ => turn(value)?,
        };
        let tensor = |p: &Option<Parameter>| p.as_ref().map(Tensor::from);
        let options = MultiHeadAttentionForwardOptions {
            in_proj_bias: tensor(&self.in_proj_bias),
            bias_k: tensor(&self.bias_k),
            bias_v: tensor(&self.bias_v),
            add_zero_attn: self.add_zero_attn,
            dropout_p: self.dropout,
            out_proj_bias: tensor(&self.out_proj.bias),
            training: self.training.get(),
            key_padding_mask: options.key_padding_mask,
            need_weights: options.need_weights,
            attn_mask: options.attn_mask,
            average_attn_weights: options.average_attn_weights,
            is_causal: options.is_causal,
            block_mask: options.block_mask,
            ..Default::default()
        };
        let weight = self.in_projection()?;
        let heads = self.num_heads;
        let (y, weights) = F::multi_head_attention_forward(
            &q,
            &k,
            &v,
            heads,
            &weight,
            &self.out_proj.weight,
            options,
        )
        .map_err(|e| e.renamed("MultiheadAttention"))?;
        Ok((if turned { y.transpose(0, 1)? } else { y }, weights))
    }
}

impl Module for MultiheadAttention {
    /// An error: attention takes queries, keys and values.
    #[torsh_tensor::names_caller]
    fn forward(&self, _x: &Tensor) -> Result<Tensor> {
        Err(needs_more(
            "MultiheadAttention",
            "forward_with(&query, &key, &value, MultiheadAttentionOptions::new())",
        ))
    }
}

/// Builds a [`MultiheadAttention`].
///
/// ```
/// # use torsh_nn::MultiheadAttention;
/// let layer = MultiheadAttention::builder(4, 2).add_bias_kv(true).build()?;
/// assert_eq!(layer.bias_k.as_ref().map(|p| p.dims().to_vec()), Some(vec![1, 1, 4]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct MultiheadAttentionBuilder {
    embed_dim: usize,
    num_heads: usize,
    dropout: f64,
    bias: bool,
    add_bias_kv: bool,
    add_zero_attn: bool,
    kdim: Option<usize>,
    vdim: Option<usize>,
    batch_first: bool,
    pub(super) factory: Factory,
}

impl MultiheadAttentionBuilder {
    /// The probability with which weights are set to 0 while training. The default is 0.
    #[must_use]
    pub fn dropout(mut self, dropout: f64) -> Self {
        self.dropout = dropout;
        self
    }

    /// Whether the projections have biases. The default is `true`.
    ///
    /// ```
    /// # use torsh_nn::MultiheadAttention;
    /// assert!(MultiheadAttention::builder(4, 2).bias(false).build()?.in_proj_bias.is_none());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[must_use]
    pub fn bias(mut self, bias: bool) -> Self {
        self.bias = bias;
        self
    }

    /// Whether a learned key and value are added to the projected ones.
    ///
    /// ```
    /// # use torsh_nn::MultiheadAttention;
    /// let layer = MultiheadAttention::builder(4, 2).add_bias_kv(true).build()?;
    /// assert_eq!(layer.bias_v.as_ref().map(|p| p.numel()), Some(4));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[must_use]
    pub fn add_bias_kv(mut self, add_bias_kv: bool) -> Self {
        self.add_bias_kv = add_bias_kv;
        self
    }

    /// Whether a key and a value of zeros are added.
    #[must_use]
    pub fn add_zero_attn(mut self, add_zero_attn: bool) -> Self {
        self.add_zero_attn = add_zero_attn;
        self
    }

    /// The size of keys. The default is `embed_dim`.
    ///
    /// ```
    /// # use torsh_nn::MultiheadAttention;
    /// let layer = MultiheadAttention::builder(4, 2).kdim(3).build()?;
    /// assert_eq!(layer.k_proj_weight.as_ref().map(|p| p.dims().to_vec()), Some(vec![4, 3]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[must_use]
    pub fn kdim(mut self, kdim: impl Into<Option<usize>>) -> Self {
        self.kdim = kdim.into();
        self
    }

    /// The size of values. The default is `embed_dim`.
    ///
    /// ```
    /// # use torsh_nn::MultiheadAttention;
    /// let layer = MultiheadAttention::builder(4, 2).vdim(3).build()?;
    /// assert_eq!(layer.v_proj_weight.as_ref().map(|p| p.dims().to_vec()), Some(vec![4, 3]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[must_use]
    pub fn vdim(mut self, vdim: impl Into<Option<usize>>) -> Self {
        self.vdim = vdim.into();
        self
    }

    /// Whether inputs and outputs are `[batch, length, size]`. The default is `false`.
    ///
    /// ```
    /// # use torsh_nn::MultiheadAttention;
    /// assert!(MultiheadAttention::builder(4, 2).batch_first(true).build()?.batch_first());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[must_use]
    pub fn batch_first(mut self, batch_first: bool) -> Self {
        self.batch_first = batch_first;
        self
    }

    factory_setters!(MultiheadAttention "(4, 2)");

    /// Makes the layer and draws its weights. An error where the heads do not divide `embed_dim`,
    /// or `dropout` is no probability.
    ///
    /// ```
    /// # use torsh_nn::{ModuleExt, MultiheadAttention};
    /// assert_eq!(MultiheadAttention::builder(4, 2).build()?.out_proj.num_parameters(), 4 * 4 + 4);
    /// assert!(MultiheadAttention::builder(4, 2).dropout(2.0).build().is_err());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn build(self) -> Result<MultiheadAttention> {
        let (e, f) = (self.embed_dim, self.factory);
        if e == 0 || self.num_heads == 0 || !e.is_multiple_of(self.num_heads) {
            return Err(TorshError::invalid(
                "MultiheadAttention",
                format!(
                    "embed_dim must be divisible by num_heads, and both greater than 0, got embed_dim={e} and num_heads={}",
                    self.num_heads
                ),
            ));
        }
        if !(0.0..=1.0).contains(&self.dropout) {
            return Err(TorshError::invalid(
                "MultiheadAttention",
                format!(
                    "dropout probability has to be between 0 and 1, but got {}",
                    self.dropout
                ),
            ));
        }
        let (kdim, vdim) = (self.kdim.unwrap_or(e), self.vdim.unwrap_or(e));
        let packed = kdim == e && vdim == e;
        let parameter = |wanted: bool, shape: &[usize]| match wanted {
            true => Parameter::with_requires_grad(f.empty(shape)?, true).map(Some),
            false => Ok(None),
        };
        let mut out_proj = Linear::builder(e, e).bias(self.bias).device(f.device);
        if let Some(dtype) = f.dtype {
            out_proj = out_proj.dtype(dtype);
        }
        let layer = MultiheadAttention {
            in_proj_weight: parameter(packed, &[3 * e, e])?,
            q_proj_weight: parameter(!packed, &[e, e])?,
            k_proj_weight: parameter(!packed, &[e, kdim])?,
            v_proj_weight: parameter(!packed, &[e, vdim])?,
            in_proj_bias: parameter(self.bias, &[3 * e])?,
            bias_k: parameter(self.add_bias_kv, &[1, 1, e])?,
            bias_v: parameter(self.add_bias_kv, &[1, 1, e])?,
            out_proj: out_proj.build()?,
            num_heads: self.num_heads,
            dropout: self.dropout,
            add_zero_attn: self.add_zero_attn,
            batch_first: self.batch_first,
            training: Training::default(),
            hooks: Hooks::new(),
        };
        layer.reset_parameters()?;
        Ok(layer)
    }
}
