//! Tensors in pieces on the ranks of a mesh.

mod ops;
mod record;

use std::fmt;

use torsh_tensor::{Result, Tensor, TorshError, no_grad};

use crate::{DeviceMesh, ProcessGroup, ReduceOp};

/// How a tensor lies along one dimension of a mesh (`torch.distributed.tensor.placement_types`).
///
/// ```
/// use torsh_distributed::Placement;
///
/// assert_eq!(Placement::Shard(0).to_string(), "Shard(0)");
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Placement {
    /// In pieces of a dimension, one for each rank, of the same size, rounded up; the last may be short or empty.
    Shard(usize),
    /// Whole on each rank.
    Replicate,
    /// Each rank has a tensor of the whole shape, and their reduction is the value.
    Partial(ReduceOp),
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Placement::Shard(d) => write!(f, "Shard({d})"),
            Placement::Replicate => f.write_str("Replicate"),
            Placement::Partial(op) => write!(f, "Partial({op:?})"),
        }
    }
}

/// A tensor whose values are spread over the ranks of a mesh (`torch.distributed.tensor.DTensor`): the piece of this rank,
/// and for each dimension of the mesh how the pieces make up the whole.
///
/// Operators work where a rule says how the pieces of the result come from those of the operands, without communication;
/// others are errors that name the placements. [`ShardedTensor::redistribute`] communicates. Gradients flow through all of
/// them, as they would through the whole tensors.
///
/// ```
/// use torsh_distributed::{DeviceMesh, Placement, distribute_tensor, spawn};
/// use torsh_tensor::tensor;
///
/// let totals = spawn(2, |_| {
///     let mesh = DeviceMesh::new(&[2], &["dp"])?;
///     let t = distribute_tensor(&tensor![[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], &mesh, &[Placement::Shard(0)])?;
///     let doubled = t.mul_scalar(2.0)?;
///     Ok((doubled.to_local().to_vec::<f32>()?, t.sum()?.full_tensor()?.item::<f32>()?))
/// })?;
/// assert_eq!(totals, [(vec![2.0, 4.0, 6.0, 8.0], 21.0), (vec![10.0, 12.0], 21.0)]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone)]
pub struct ShardedTensor {
    local: Tensor,
    mesh: DeviceMesh,
    shape: Vec<usize>,
    placements: Vec<Placement>,
}

/// The first index and the size of the piece of a rank, of `n` indices over `ranks`.
fn piece(n: usize, rank: usize, ranks: usize) -> (usize, usize) {
    let chunk = n.div_ceil(ranks.max(1));
    let start = (rank * chunk).min(n);
    (start, chunk.min(n - start))
}

/// The shape of a rank's piece.
fn local_shape(shape: &[usize], mesh: &DeviceMesh, placements: &[Placement]) -> Vec<usize> {
    let mut local = shape.to_vec();
    for (i, p) in placements.iter().enumerate() {
        if let Placement::Shard(d) = p {
            local[*d] = piece(local[*d], mesh.coordinate()[i], mesh.shape()[i]).1;
        }
    }
    local
}

fn check(
    op: &'static str,
    shape: &[usize],
    mesh: &DeviceMesh,
    placements: &[Placement],
) -> Result<()> {
    if placements.len() != mesh.ndim() {
        return Err(TorshError::invalid(
            op,
            format!(
                "{mesh:?} has {} dimensions, where {placements:?} are {} placements",
                mesh.ndim(),
                placements.len()
            ),
        )
        .with_hint("give one placement for each dimension of the mesh"));
    }
    for p in placements {
        if let Placement::Shard(d) = p
            && *d >= shape.len()
        {
            return Err(TorshError::index(
                op,
                format!("{p} of a tensor of shape {shape:?}"),
            ));
        }
    }
    Ok(())
}

/// Spreads a tensor over a mesh (`torch.distributed.tensor.distribute_tensor`). All ranks call it with tensors of the same
/// shape and dtype; the values are those of the mesh's first rank. The result begins a graph of its own.
///
/// ```
/// use torsh_distributed::{DeviceMesh, Placement, distribute_tensor, spawn};
/// use torsh_tensor::tensor;
///
/// let pieces = spawn(2, |_| {
///     let mesh = DeviceMesh::new(&[2], &["tp"])?;
///     let t = distribute_tensor(&tensor![1, 2, 3], &mesh, &[Placement::Shard(0)])?;
///     t.to_local().to_vec::<i64>()
/// })?;
/// assert_eq!(pieces, [vec![1, 2], vec![3]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Another number of placements than the mesh has dimensions; a dimension that the tensor lacks; `Partial`, which no values
/// say; the group failed.
#[torsh_tensor::names_caller]
pub fn distribute_tensor(
    full: &Tensor,
    mesh: &DeviceMesh,
    placements: &[Placement],
) -> Result<ShardedTensor> {
    const OP: &str = "distribute_tensor";
    check(OP, full.dims(), mesh, placements)?;
    if let Some(p) = placements
        .iter()
        .find(|p| matches!(p, Placement::Partial(_)))
    {
        return Err(
            TorshError::invalid(OP, format!("{p} cannot be made of whole values"))
                .with_hint("make it with ShardedTensor::from_local, of each rank's own values"),
        );
    }
    no_grad(|| {
        let mut local = full.detach();
        if mesh.flat_group().size() > 1 && full.numel() > 0 {
            local = local.contiguous()?.copy()?;
            mesh.flat_group().broadcast_(&local, 0)?;
        }
        for (i, p) in placements.iter().enumerate() {
            if let Placement::Shard(d) = *p {
                let (start, len) = piece(local.dims()[d], mesh.coordinate()[i], mesh.shape()[i]);
                local = local.narrow(d, start, len)?;
            }
        }
        Ok(ShardedTensor {
            local: local.copy()?,
            mesh: mesh.clone(),
            shape: full.dims().to_vec(),
            placements: placements.to_vec(),
        })
    })
}

impl ShardedTensor {
    /// The sharded tensor that each rank's own piece makes up, of the shape `shape`. Nothing is sent.
    ///
    /// ```
    /// use torsh_distributed::{DeviceMesh, Placement, ReduceOp, ShardedTensor, spawn};
    /// use torsh_tensor::tensor;
    ///
    /// let sums = spawn(2, |g| {
    ///     let mesh = DeviceMesh::new(&[2], &["dp"])?;
    ///     let own = tensor![g.rank() as f32 + 1.0];
    ///     let t = ShardedTensor::from_local(&own, &mesh, &[Placement::Partial(ReduceOp::Sum)], &[1])?;
    ///     t.full_tensor()?.item::<f32>()
    /// })?;
    /// assert_eq!(sums, [3.0, 3.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// A piece of another shape than this rank's of the whole; placements that do not fit.
    #[torsh_tensor::names_caller(Self)]
    pub fn from_local(
        local: &Tensor,
        mesh: &DeviceMesh,
        placements: &[Placement],
        shape: &[usize],
    ) -> Result<ShardedTensor> {
        const OP: &str = "ShardedTensor::from_local";
        check(OP, shape, mesh, placements)?;
        let own = local_shape(shape, mesh, placements);
        if local.dims() != own {
            return Err(TorshError::shape(
                OP,
                format!(
                    "rank {} of {mesh:?} has {own:?} of {shape:?} as {placements:?}, not {}",
                    mesh.flat_group().rank(),
                    local.describe()
                ),
            ));
        }
        Ok(ShardedTensor {
            local: local.clone(),
            mesh: mesh.clone(),
            shape: shape.to_vec(),
            placements: placements.to_vec(),
        })
    }

    /// Returns this rank's piece.
    ///
    /// ```
    /// use torsh_distributed::{DeviceMesh, Placement, distribute_tensor, spawn};
    /// use torsh_tensor::tensor;
    ///
    /// let pieces = spawn(2, |_| {
    ///     let mesh = DeviceMesh::new(&[2], &["dp"])?;
    ///     let t = distribute_tensor(&tensor![1, 2, 3, 4], &mesh, &[Placement::Shard(0)])?;
    ///     Ok(t.to_local())
    /// })?;
    /// assert_eq!((&pieces[0], &pieces[1]), (&tensor![1, 2], &tensor![3, 4]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn to_local(&self) -> Tensor {
        self.local.clone()
    }

    /// The mesh.
    pub fn mesh(&self) -> &DeviceMesh {
        &self.mesh
    }

    /// Returns the shape of the whole.
    ///
    /// ```
    /// use torsh_distributed::{DeviceMesh, Placement, distribute_tensor, spawn};
    /// use torsh_tensor::tensor;
    ///
    /// let shapes = spawn(2, |_| {
    ///     let mesh = DeviceMesh::new(&[2], &["dp"])?;
    ///     let t = distribute_tensor(&tensor![[1, 2], [3, 4]], &mesh, &[Placement::Shard(0)])?;
    ///     Ok((t.shape().to_vec(), t.to_local().dims().to_vec()))
    /// })?;
    /// assert_eq!(shapes[0], (vec![2, 2], vec![1, 2]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns how the whole lies along each dimension of the mesh.
    ///
    /// ```
    /// use torsh_distributed::{DeviceMesh, Placement, distribute_tensor, spawn};
    /// use torsh_tensor::tensor;
    ///
    /// let placements = spawn(2, |_| {
    ///     let mesh = DeviceMesh::new(&[2], &["tp"])?;
    ///     let t = distribute_tensor(&tensor![[1.0, 2.0]], &mesh, &[Placement::Shard(1)])?;
    ///     Ok(t.transpose(0, 1)?.placements().to_vec())
    /// })?;
    /// assert_eq!(placements[0], [Placement::Shard(0)]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn placements(&self) -> &[Placement] {
        &self.placements
    }

    /// The number of dimensions.
    pub fn ndim(&self) -> usize {
        self.shape.len()
    }

    /// The gradient, placed as the tensor is.
    ///
    /// ```
    /// use torsh_distributed::{DeviceMesh, Placement, distribute_tensor, spawn};
    /// use torsh_tensor::tensor;
    ///
    /// let grads = spawn(2, |_| {
    ///     let mesh = DeviceMesh::new(&[2], &["tp"])?;
    ///     let t = distribute_tensor(&tensor![3.0, 4.0], &mesh, &[Placement::Shard(0)])?.requires_grad_(true)?;
    ///     t.square()?.sum()?.full_tensor()?.backward()?;
    ///     t.grad().expect("backward ran").to_local().item::<f32>()
    /// })?;
    /// assert_eq!(grads, [6.0, 8.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// That of a partial tensor is whole on each rank. `None` where there is none.
    pub fn grad(&self) -> Option<ShardedTensor> {
        let local = self.local.grad()?;
        Some(ShardedTensor {
            local,
            mesh: self.mesh.clone(),
            shape: self.shape.clone(),
            placements: record::of_gradient(&self.placements),
        })
    }

    /// The same with a gradient asked for.
    ///
    /// # Errors
    /// A dtype that has no gradients, or a tensor that was computed.
    #[torsh_tensor::names_caller]
    pub fn requires_grad_(self, requires_grad: bool) -> Result<ShardedTensor> {
        self.local.set_requires_grad(requires_grad)?;
        Ok(self)
    }

    /// The whole tensor, on all ranks, which all call it.
    ///
    /// ```
    /// use torsh_distributed::{DeviceMesh, Placement, distribute_tensor, spawn};
    /// use torsh_tensor::tensor;
    ///
    /// let all = spawn(3, |_| {
    ///     let mesh = DeviceMesh::new(&[3], &["dp"])?;
    ///     let t = distribute_tensor(&tensor![[1, 2], [3, 4]], &mesh, &[Placement::Shard(1)])?;
    ///     t.full_tensor()?.to_vec::<i64>()
    /// })?;
    /// assert_eq!(all[2], [1, 2, 3, 4]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// The group failed.
    #[torsh_tensor::names_caller]
    pub fn full_tensor(&self) -> Result<Tensor> {
        let replicated = vec![Placement::Replicate; self.mesh.ndim()];
        Ok(self.redistribute(&replicated)?.local)
    }

    /// The same values placed in another way. All ranks call it. What is partial is reduced in rank order.
    ///
    /// ```
    /// use torsh_distributed::{DeviceMesh, Placement, distribute_tensor, spawn};
    /// use torsh_tensor::tensor;
    ///
    /// let columns = spawn(2, |_| {
    ///     let mesh = DeviceMesh::new(&[2], &["tp"])?;
    ///     let t = distribute_tensor(&tensor![[1, 2], [3, 4]], &mesh, &[Placement::Shard(0)])?;
    ///     t.redistribute(&[Placement::Shard(1)])?.to_local().to_vec::<i64>()
    /// })?;
    /// assert_eq!(columns, [[1, 3], [2, 4]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Placements that do not fit; a partial result of another operation than a sum; the group failed.
    #[torsh_tensor::names_caller]
    pub fn redistribute(&self, placements: &[Placement]) -> Result<ShardedTensor> {
        check("redistribute", &self.shape, &self.mesh, placements)?;
        if placements == self.placements {
            return Ok(self.clone());
        }
        let local = record::redistribute(self, placements)?;
        Ok(self.with(local, self.shape.clone(), placements.to_vec()))
    }

    /// [`ShardedTensor::redistribute`] of the values alone.
    fn moved(&self, to: &[Placement]) -> Result<Tensor> {
        let mut at = self.placements.clone();
        let mut local = self.local.detach();
        let group = |i: usize| -> Result<ProcessGroup> { self.mesh.group(i) };
        // Pieces of pieces come together in the reverse order.
        let changed: Vec<bool> = at.iter().zip(to).map(|(a, b)| a != b).collect();
        for i in (0..at.len()).rev() {
            // A piece that is cut further, or that other pieces are cut of, comes together with them.
            let nested = |d: usize| {
                (0..at.len()).any(|j| {
                    j != i
                        && changed[j]
                        && (at[j] == Placement::Shard(d) || to[j] == Placement::Shard(d))
                })
            };
            let must = changed[i] || matches!(at[i], Placement::Shard(d) if nested(d));
            if !must {
                continue;
            }
            local = match at[i] {
                Placement::Replicate => continue,
                Placement::Shard(d) => {
                    let pieces = group(i)?.all_gather(&local.contiguous()?)?;
                    Tensor::cat(&pieces, d)?
                }
                Placement::Partial(op) => {
                    let g = group(i)?;
                    match to[i] {
                        Placement::Shard(0)
                            if local.ndim() > 0
                                && local.dims()[0].is_multiple_of(g.size())
                                && local.numel() > 0
                                && !(0..at.len()).any(|j| {
                                    j != i
                                        && (at[j] == Placement::Shard(0)
                                            || to[j] == Placement::Shard(0))
                                }) =>
                        {
                            let mut dims = local.dims().to_vec();
                            dims[0] /= g.size();
                            let out = Tensor::empty(dims, local.dtype(), local.device())?;
                            g.reduce_scatter_(&out, &local.contiguous()?, op)?;
                            at[i] = Placement::Shard(0);
                            local = out;
                            continue;
                        }
                        _ => {
                            let own = local.contiguous()?.copy()?;
                            g.all_reduce_(&own, op)?
                        }
                    }
                }
            };
            at[i] = Placement::Replicate;
        }
        for (i, target) in to.iter().enumerate() {
            if at[i] == *target {
                continue;
            }
            let (rank, ranks) = (self.mesh.coordinate()[i], self.mesh.shape()[i]);
            local = match *target {
                Placement::Replicate => local,
                Placement::Shard(d) => {
                    let (start, len) = piece(local.dims()[d], rank, ranks);
                    local.narrow(d, start, len)?.contiguous()?
                }
                Placement::Partial(ReduceOp::Sum) if rank == 0 => local,
                Placement::Partial(ReduceOp::Sum) => local.zeros_like()?,
                other => {
                    return Err(TorshError::invalid(
                        "redistribute",
                        format!("from {} to {other}", self.placements[i]),
                    )
                    .with_hint("only sums are taken apart: Partial(Sum)"));
                }
            };
        }
        Ok(local)
    }

    fn with(&self, local: Tensor, shape: Vec<usize>, placements: Vec<Placement>) -> ShardedTensor {
        ShardedTensor {
            local,
            mesh: self.mesh.clone(),
            shape,
            placements,
        }
    }

    /// As in errors: `[4, 8] as Shard(0), Replicate`.
    fn describe(&self) -> String {
        let placements: Vec<String> = self.placements.iter().map(Placement::to_string).collect();
        format!("{:?} as {}", self.shape, placements.join(", "))
    }
}

impl fmt::Debug for ShardedTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "ShardedTensor({} of {:?}, here {:?})",
            self.describe(),
            self.mesh,
            self.local
        )
    }
}

#[cfg(test)]
mod tests;
