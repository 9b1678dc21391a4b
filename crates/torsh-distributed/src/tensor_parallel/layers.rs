//! Linear layers and embeddings that are divided over the ranks.

use torsh_core::shape::wrap_dim;
use torsh_functional::{self as F, EmbeddingOptions};
use torsh_nn::{Embedding, Hooks, Linear, Module, Parameter, Training};
use torsh_tensor::{Device, Result, Tensor, TorshError};

use super::regions::{Region, cross};
use super::share;
use crate::group::ProcessGroup;

/// This rank's piece of rank 0's tensor, along `dim`; the whole of it without. All ranks of the group call it.
pub(super) fn piece(
    op: &'static str,
    name: &str,
    whole: &Tensor,
    dim: Option<usize>,
    group: &ProcessGroup,
) -> Result<Tensor> {
    let whole = whole.detach();
    if whole.device() != Device::Meta {
        group.broadcast_(&whole, 0)?;
    }
    let Some(dim) = dim else {
        return Ok(whole);
    };
    let what = format!("dimension {dim} of {name} ({})", whole.describe());
    let n = share(op, &what, whole.dims()[dim], group)?;
    // A copy, so that the whole can be freed.
    whole.narrow(dim, group.rank() * n, n)?.copy()
}

pub(super) fn parameter_piece(
    op: &'static str,
    name: &str,
    whole: &Parameter,
    dim: Option<usize>,
    group: &ProcessGroup,
) -> Result<Parameter> {
    let piece = piece(op, name, whole, dim, group)?;
    Parameter::with_requires_grad(piece, whole.requires_grad())
}

/// The dimension of a sequence, where negative counts from the end.
fn sequence_of(x: &Tensor, dim: Option<i64>) -> Result<Option<usize>> {
    dim.map(|d| wrap_dim(d, x.ndim())).transpose()
}

/// A [`Linear`] layer of which each rank of the group has a part of the outputs.
///
/// Takes `[.., in_features]`, the same on all ranks, and gives `[.., out_features / ranks]`: a part that goes into a
/// [`RowParallelLinear`]. `weight` is `[out_features / ranks, in_features]`, `bias` `[out_features / ranks]`.
///
/// ```
/// use torsh_distributed::spawn;
/// use torsh_distributed::tensor_parallel::ColumnParallelLinear;
/// use torsh_nn::{Linear, Module, init};
/// use torsh_tensor::tensor;
///
/// let parts = spawn(2, |g| {
///     let whole = Linear::builder(1, 4).bias(false).build()?;
///     init::ones_(&whole.weight)?;
///     let layer = ColumnParallelLinear::from_linear(&whole, &g)?;
///     layer.forward(&tensor![[3.0]])?.to_vec2::<f32>()
/// })?;
/// assert_eq!(parts, [[[3.0, 3.0]], [[3.0, 3.0]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct ColumnParallelLinear {
    /// `[out_features / ranks, in_features]`
    pub weight: Parameter,
    /// `[out_features / ranks]`
    pub bias: Option<Parameter>,
    #[module(skip)]
    group: ProcessGroup,
    #[module(skip)]
    gather_output: bool,
    #[module(skip)]
    sequence: Option<i64>,
    training: Training,
    hooks: Hooks,
}

impl ColumnParallelLinear {
    /// A layer with bias, whose weights are drawn as those of [`Linear::new`] and divided. All ranks of the group call it.
    ///
    /// # Errors
    /// The ranks do not divide `out_features`.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(in_features: usize, out_features: usize, group: &ProcessGroup) -> Result<Self> {
        share("ColumnParallelLinear", "out_features", out_features, group)?;
        Self::from_linear(&Linear::builder(in_features, out_features).build()?, group)
    }

    /// The pieces of rank 0's layer. All ranks of the group call it.
    ///
    /// # Errors
    /// The ranks do not divide `out_features`.
    #[torsh_tensor::names_caller(Self)]
    pub fn from_linear(linear: &Linear, group: &ProcessGroup) -> Result<Self> {
        let op = "ColumnParallelLinear";
        let bias = linear.bias.as_ref();
        Ok(ColumnParallelLinear {
            weight: parameter_piece(op, "weight", &linear.weight, Some(0), group)?,
            bias: bias
                .map(|b| parameter_piece(op, "bias", b, Some(0), group))
                .transpose()?,
            group: group.clone(),
            gather_output: false,
            sequence: None,
            training: Training::default(),
            hooks: Hooks::new(),
        })
    }

    /// Whether all ranks get the whole result, `[.., out_features]`. The default is `false`.
    #[must_use]
    pub fn gather_output(mut self, gather_output: bool) -> Self {
        self.gather_output = gather_output;
        self
    }

    /// Says that the input is this rank's part of a sequence along `dim`, which is gathered first.
    #[must_use]
    pub fn sequence_parallel(mut self, dim: i64) -> Self {
        self.sequence = Some(dim);
        self
    }

    /// The layer without what it does to its input: for one that came through
    /// [`copy_to_tensor_parallel_region`](super::copy_to_tensor_parallel_region) already, as several layers share it.
    ///
    /// # Errors
    /// Those of [`F::linear`](torsh_functional::linear).
    #[torsh_tensor::names_caller]
    pub fn forward_local(&self, x: &Tensor) -> Result<Tensor> {
        F::linear(x, &self.weight, self.bias.as_deref())
    }
}

impl Module for ColumnParallelLinear {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let x = match sequence_of(x, self.sequence)? {
                Some(dim) => cross(x, Region::GatherToWork(dim), &self.group)?,
                None => cross(x, Region::Copy, &self.group)?,
            };
            let y = self.forward_local(&x)?;
            match self.gather_output {
                true => cross(&y, Region::Gather(y.ndim() - 1), &self.group),
                false => Ok(y),
            }
        })
    }

    fn extra_repr(&self) -> String {
        let d = self.weight.dims();
        let n = self.group.size();
        format!("in_features={}, out_features={} / {n}", d[1], d[0] * n)
    }
}

/// A [`Linear`] layer of which each rank of the group has a part of the inputs.
///
/// Takes this rank's part, `[.., in_features / ranks]`, and gives the sum over the ranks, `[.., out_features]`, on all of
/// them. `weight` is `[out_features, in_features / ranks]`; `bias` is `[out_features]`, the same on all ranks, and added
/// once.
///
/// ```
/// use torsh_distributed::spawn;
/// use torsh_distributed::tensor_parallel::RowParallelLinear;
/// use torsh_nn::{Linear, Module, init};
/// use torsh_tensor::tensor;
///
/// let sums = spawn(2, |g| {
///     let whole = Linear::new(2, 1);
///     init::ones_(&whole.weight)?;
///     init::constant_(whole.bias.as_deref().expect("it has a bias"), 100.0)?;
///     let layer = RowParallelLinear::from_linear(&whole, &g)?;
///     // The whole input is [3, 4].
///     layer.forward(&tensor![3.0].add(g.rank() as f64)?)?.item::<f32>()
/// })?;
/// assert_eq!(sums, [107.0, 107.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct RowParallelLinear {
    /// `[out_features, in_features / ranks]`
    pub weight: Parameter,
    /// `[out_features]`
    pub bias: Option<Parameter>,
    #[module(skip)]
    group: ProcessGroup,
    #[module(skip)]
    input_is_parallel: bool,
    #[module(skip)]
    sequence: Option<i64>,
    training: Training,
    hooks: Hooks,
}

impl RowParallelLinear {
    /// A layer with bias, whose weights are drawn as those of [`Linear::new`] and divided. All ranks of the group call it.
    ///
    /// # Errors
    /// The ranks do not divide `in_features`.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(in_features: usize, out_features: usize, group: &ProcessGroup) -> Result<Self> {
        share("RowParallelLinear", "in_features", in_features, group)?;
        Self::from_linear(&Linear::builder(in_features, out_features).build()?, group)
    }

    /// The pieces of rank 0's layer. All ranks of the group call it.
    ///
    /// # Errors
    /// The ranks do not divide `in_features`.
    #[torsh_tensor::names_caller(Self)]
    pub fn from_linear(linear: &Linear, group: &ProcessGroup) -> Result<Self> {
        let op = "RowParallelLinear";
        let bias = linear.bias.as_ref();
        Ok(RowParallelLinear {
            weight: parameter_piece(op, "weight", &linear.weight, Some(1), group)?,
            bias: bias
                .map(|b| parameter_piece(op, "bias", b, None, group))
                .transpose()?,
            group: group.clone(),
            input_is_parallel: true,
            sequence: None,
            training: Training::default(),
            hooks: Hooks::new(),
        })
    }

    /// Whether the input is this rank's part. The default is `true`. Otherwise it is the whole, and the layer takes the
    /// part.
    #[must_use]
    pub fn input_is_parallel(mut self, input_is_parallel: bool) -> Self {
        self.input_is_parallel = input_is_parallel;
        self
    }

    /// Makes the result this rank's part of a sequence along `dim`.
    #[must_use]
    pub fn sequence_parallel(mut self, dim: i64) -> Self {
        self.sequence = Some(dim);
        self
    }
}

impl Module for RowParallelLinear {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let x = match self.input_is_parallel {
                true => x.clone(),
                false => cross(x, Region::Scatter(x.ndim().saturating_sub(1)), &self.group)?,
            };
            let y = F::linear(&x, &self.weight, None)?;
            let sequence = sequence_of(&y, self.sequence)?;
            let y = match sequence {
                Some(dim) => cross(&y, Region::ReduceScatter(dim), &self.group)?,
                None => cross(&y, Region::Reduce, &self.group)?,
            };
            match (&self.bias, sequence) {
                (None, _) => Ok(y),
                (Some(bias), None) => y.add(bias),
                // The bias is used for a part of the sequence here, so its gradient is summed.
                (Some(bias), Some(_)) => y.add(&cross(bias, Region::Copy, &self.group)?),
            }
        })
    }

    fn extra_repr(&self) -> String {
        let d = self.weight.dims();
        let n = self.group.size();
        format!("in_features={} / {n}, out_features={}", d[1] * n, d[0])
    }
}

/// An [`Embedding`] of which each rank of the group has a part of the rows.
///
/// Takes indices of any shape, the same on all ranks, and gives that shape with `embedding_dim` behind it, on all ranks.
/// `weight` is `[num_embeddings / ranks, embedding_dim]`.
///
/// ```
/// use torsh_distributed::spawn;
/// use torsh_distributed::tensor_parallel::VocabParallelEmbedding;
/// use torsh_nn::Module;
/// use torsh_tensor::tensor;
///
/// let rows = spawn(2, |g| {
///     let table = tensor![[1.0], [2.0], [3.0], [4.0]];
///     let layer = VocabParallelEmbedding::from_weight(&table, &g)?;
///     layer.forward(&tensor![3, 0])?.to_vec2::<f32>()
/// })?;
/// assert_eq!(rows, [[[4.0], [1.0]], [[4.0], [1.0]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct VocabParallelEmbedding {
    /// `[num_embeddings / ranks, embedding_dim]`
    pub weight: Parameter,
    #[module(skip)]
    group: ProcessGroup,
    #[module(skip)]
    padding_idx: Option<usize>,
    #[module(skip)]
    sequence: Option<i64>,
    training: Training,
    hooks: Hooks,
}

impl VocabParallelEmbedding {
    /// A table whose rows are drawn as those of [`Embedding::new`] and divided. All ranks of the group call it.
    ///
    /// # Errors
    /// The ranks do not divide `num_embeddings`.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(num_embeddings: usize, embedding_dim: usize, group: &ProcessGroup) -> Result<Self> {
        share(
            "VocabParallelEmbedding",
            "num_embeddings",
            num_embeddings,
            group,
        )?;
        Self::from_weight(
            &Embedding::new(num_embeddings, embedding_dim)?.weight,
            group,
        )
    }

    /// The pieces of rank 0's table, `[num_embeddings, embedding_dim]`, which are trained. All ranks of the group call it.
    ///
    /// # Errors
    /// The table is not 2-d, or the ranks do not divide its rows.
    #[torsh_tensor::names_caller(Self)]
    pub fn from_weight(weight: &Tensor, group: &ProcessGroup) -> Result<Self> {
        let op = "VocabParallelEmbedding";
        if weight.ndim() != 2 {
            let text = format!("a table is 2-d, not {}", weight.describe());
            return Err(TorshError::shape(op, text));
        }
        let weight = piece(op, "weight", weight, Some(0), group)?;
        Ok(VocabParallelEmbedding {
            weight: Parameter::with_requires_grad(weight, true)?,
            group: group.clone(),
            padding_idx: None,
            sequence: None,
            training: Training::default(),
            hooks: Hooks::new(),
        })
    }

    /// A row, counted in the whole table, that gets no gradient.
    ///
    /// # Errors
    /// There is no such row.
    #[torsh_tensor::names_caller]
    pub fn padding_idx(mut self, padding_idx: usize) -> Result<Self> {
        let rows = self.weight.dims()[0] * self.group.size();
        if padding_idx >= rows {
            let text = format!("padding_idx {padding_idx} is not one of {rows} rows");
            return Err(TorshError::invalid("VocabParallelEmbedding", text));
        }
        self.padding_idx = Some(padding_idx);
        Ok(self)
    }

    /// Makes the result this rank's part of a sequence along `dim`.
    #[must_use]
    pub fn sequence_parallel(mut self, dim: i64) -> Self {
        self.sequence = Some(dim);
        self
    }
}

/// Indices into this rank's rows, and where an index is another rank's (its local index is 0).
pub(super) fn local_indices(
    op: &'static str,
    x: &Tensor,
    rows: usize,
    group: &ProcessGroup,
) -> Result<(Tensor, Tensor)> {
    let (first, all) = ((rows * group.rank()) as i64, (rows * group.size()) as i64);
    if x.device() != Device::Meta && x.numel() > 0 {
        let outside = x.lt(0i64)?.logical_or(&x.ge(all)?)?;
        if outside.any()?.item::<bool>()? {
            return Err(TorshError::index(
                op,
                format!(
                    "indices from {} to {} in {}, and a table of {all} rows",
                    x.min()?.item::<i64>()?,
                    x.max()?.item::<i64>()?,
                    x.describe()
                ),
            ));
        }
    }
    let local = x.sub(first)?;
    let foreign = local.lt(0i64)?.logical_or(&local.ge(rows as i64)?)?;
    Ok((local.masked_fill(&foreign, 0i64)?, foreign))
}

/// Puts zeros where another rank has the row, and adds the ranks' rows.
pub(super) fn join_rows(
    y: &Tensor,
    foreign: &Tensor,
    sequence: Option<i64>,
    group: &ProcessGroup,
) -> Result<Tensor> {
    let y = y.masked_fill(&foreign.unsqueeze(-1)?, 0.0)?;
    match sequence_of(&y, sequence)? {
        Some(dim) => cross(&y, Region::ReduceScatter(dim), group),
        None => cross(&y, Region::Reduce, group),
    }
}

impl Module for VocabParallelEmbedding {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let rows = self.weight.dims()[0];
            let (local, foreign) = local_indices("VocabParallelEmbedding", x, rows, &self.group)?;
            let first = rows * self.group.rank();
            let padding = self.padding_idx.and_then(|p| p.checked_sub(first));
            let options = EmbeddingOptions {
                padding_idx: padding.filter(|&p| p < rows).map(|p| p as i64),
                ..Default::default()
            };
            let y = F::embedding_with(&local, &self.weight, options)?;
            join_rows(&y, &foreign, self.sequence, &self.group)
        })
    }

    fn extra_repr(&self) -> String {
        let d = self.weight.dims();
        let n = self.group.size();
        let padding = self
            .padding_idx
            .map_or(String::new(), |p| format!(", padding_idx={p}"));
        format!("{} / {n}, {}{padding}", d[0] * n, d[1])
    }
}
