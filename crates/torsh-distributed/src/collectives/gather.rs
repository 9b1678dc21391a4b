//! Collecting tensors of all ranks, and reductions whose results are shared out.

use super::*;
use crate::comm::Memory;
use torsh_tensor::{Device, Shape};

/// A new tensor to receive into: on the meta device if the other one is.
pub(super) fn new_like(t: &Tensor, shape: &Shape) -> Result<Tensor> {
    match t.device() {
        Device::Meta => Tensor::empty(shape, t.dtype(), Device::Meta),
        _ => Tensor::empty(shape, t.dtype(), Device::Cpu),
    }
}

/// Refuses two tensors of different dtypes.
pub(super) fn same_dtype(op: &'static str, out: &Tensor, input: &Tensor) -> Result<()> {
    if out.dtype() == input.dtype() {
        return Ok(());
    }
    let message = format!(
        "the result {} and the input {} differ in dtype",
        out.describe(),
        input.describe()
    );
    Err(TorshError::dtype(op, message).with_hint("convert one of them with to_dtype"))
}

fn overlap(op: &'static str, out: &Tensor, input: &Tensor) -> TorshError {
    let message = format!(
        "the result {} and the input {} share memory",
        out.describe(),
        input.describe()
    );
    TorshError::invalid(op, message)
        .with_hint("only this rank's own block may be shared; copy() one of them")
}

impl ProcessGroup {
    /// The tensors of all ranks, in rank order (`torch.distributed.all_gather`). They may differ in shape, also in the
    /// number of dimensions, and in dtype.
    ///
    /// ```
    /// use torsh_distributed::spawn;
    /// use torsh_tensor::{tensor, zeros};
    ///
    /// let all = spawn(2, |g| g.all_gather(&zeros(&[g.rank() + 1, 2])))?;
    /// assert_eq!(all[0][0].dims(), [1, 2]);
    /// assert_eq!(all[0][1], tensor![[0.0, 0.0], [0.0, 0.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Another device than the CPU; different operations of the ranks; ranks that do not come within the timeout.
    #[torsh_tensor::names_caller]
    pub fn all_gather(&self, t: &Tensor) -> Result<Vec<Tensor>> {
        const OP: &str = "all_gather";
        let caller = Location::caller();
        let x = Operand::new(OP, t, false, self)?;
        let own = describe_shape(t);
        let shapes = self.all_gather_bytes(OP, caller, "shapes", own)?;
        let outs: Vec<Tensor> = shapes
            .iter()
            .map(|s| read_shape(s))
            .map(|s| {
                let (dtype, shape) = s?;
                let device = if t.device() == Device::Meta {
                    Device::Meta
                } else {
                    Device::Cpu
                };
                Tensor::empty(&shape, dtype, device)
            })
            .collect::<Result<_>>()?;
        self.all_gather_to(caller, x, outs)
    }

    /// [`ProcessGroup::all_gather`] of tensors of one dimension and one dtype whose lengths all ranks know.
    #[track_caller]
    pub(crate) fn all_gather_flat(&self, t: &Tensor, lengths: &[usize]) -> Result<Vec<Tensor>> {
        let x = Operand::new("all_gather", t, false, self)?;
        let outs = lengths
            .iter()
            .map(|&n| Tensor::zeros([n], t.dtype(), t.device()))
            .collect::<Result<_>>()?;
        self.all_gather_to(Location::caller(), x, outs)
    }

    /// Fills the tensors with those of all ranks.
    fn all_gather_to(
        &self,
        caller: &'static Location<'static>,
        x: Operand,
        outs: Vec<Tensor>,
    ) -> Result<Vec<Tensor>> {
        const OP: &str = "all_gather";
        let into = Operand::all(OP, &outs, true, self)?;
        let text = |seq| {
            format!(
                "{OP} #{seq} {:?}",
                outs.iter().map(kind_of).collect::<Vec<_>>()
            )
        };
        self.submit(
            OP,
            Order::Collective,
            caller,
            text,
            move |call| async move {
                let operands: Vec<&Operand> = into.iter().chain([&x]).collect();
                let mut m = call.open(&operands).await?;
                let input = m.pop().unwrap_or_else(|| Memory::nothing(0));
                call.all_gather(&m, &input, true).await
            },
        )?
        .wait()?;
        Ok(outs)
    }

    /// Writes the tensors of all ranks to `out`, along its first dimension (`torch.distributed.all_gather_into_tensor`).
    /// `out` has [`size`](ProcessGroup::size) times the elements of `input`, in any shape; `input` may be this rank's part
    /// of `out`, and is not copied then.
    ///
    /// ```
    /// use torsh_distributed::spawn;
    /// use torsh_tensor::{tensor, zeros};
    ///
    /// let all = spawn(2, |g| g.all_gather_into_(&zeros(&[4]), &tensor![1.0, g.rank() as f64]))?;
    /// assert_eq!(all[1], tensor![1.0, 0.0, 1.0, 1.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Sizes or dtypes that do not fit; and as [`ProcessGroup::broadcast_`].
    #[torsh_tensor::names_caller]
    pub fn all_gather_into_(&self, out: &Tensor, input: &Tensor) -> Result<Tensor> {
        self.all_gather_into_async(out, input)?.wait()?;
        Ok(out.clone())
    }

    /// [`ProcessGroup::all_gather_into_`] that does not wait.
    ///
    /// ```
    /// use torsh_distributed::spawn;
    /// use torsh_tensor::{tensor, zeros};
    ///
    /// let all = spawn(2, |g| {
    ///     let out = zeros(&[2]);
    ///     g.all_gather_into_async(&out, &tensor![g.rank() as f64])?.wait()?;
    ///     Ok(out)
    /// })?;
    /// assert_eq!(all[1], tensor![0.0, 1.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As [`ProcessGroup::all_gather_into_`]; those of other ranks when the work is waited for.
    #[torsh_tensor::names_caller]
    pub fn all_gather_into_async(&self, out: &Tensor, input: &Tensor) -> Result<Work> {
        const OP: &str = "all_gather_into";
        let (into, x) = self.gather_operands(OP, out, input)?;
        let text = |seq| format!("{OP} #{seq} {} of {}", kind_of(out), kind_of(input));
        self.all_gather_into_of(OP, coalesced::one(into), coalesced::one(x), text)
    }

    /// The operands of an all-gather, checked.
    #[track_caller]
    pub(super) fn gather_operands(
        &self,
        op: &'static str,
        out: &Tensor,
        input: &Tensor,
    ) -> Result<(Operand, Operand)> {
        same_dtype(op, out, input)?;
        if out.numel() != self.size() * input.numel() {
            let message = format!(
                "the result {} does not hold {} tensors {}",
                out.describe(),
                self.size(),
                input.describe()
            );
            return Err(TorshError::shape(op, message).with_hint(
                "give it the input's shape with the first dimension times the number of ranks",
            ));
        }
        let into = Operand::new(op, out, true, self)?;
        let x = Operand::new(op, input, false, self)?;
        let own = (self.rank() * x.bytes, x.bytes);
        if into.overlaps(&x, Some(own)) {
            return Err(overlap(op, out, input));
        }
        Ok((into, x))
    }

    /// Reduces the inputs of all ranks, which have a block for each rank along the first dimension; each rank gets its own
    /// (`torch.distributed.reduce_scatter_tensor`). `out` may be this rank's block of `input`.
    ///
    /// ```
    /// use torsh_distributed::{ReduceOp, spawn};
    /// use torsh_tensor::{tensor, zeros};
    ///
    /// let own = spawn(2, |g| {
    ///     let input = tensor![[1.0, 2.0], [3.0, 4.0]].add(g.rank() as f64)?;
    ///     g.reduce_scatter_(&zeros(&[2]), &input, ReduceOp::Sum)
    /// })?;
    /// assert_eq!((&own[0], &own[1]), (&tensor![3.0, 5.0], &tensor![7.0, 9.0]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Sizes or dtypes that do not fit; and as [`ProcessGroup::all_reduce_`].
    #[torsh_tensor::names_caller]
    pub fn reduce_scatter_(&self, out: &Tensor, input: &Tensor, op: ReduceOp) -> Result<Tensor> {
        self.reduce_scatter_async(out, input, op)?.wait()?;
        Ok(out.clone())
    }

    /// [`ProcessGroup::reduce_scatter_`] that does not wait.
    ///
    /// ```
    /// use torsh_distributed::{ReduceOp, spawn};
    /// use torsh_tensor::{tensor, zeros};
    ///
    /// let own = spawn(2, |g| {
    ///     let out = zeros(&[1]);
    ///     g.reduce_scatter_async(&out, &tensor![1.0, 2.0], ReduceOp::Sum)?.wait()?;
    ///     Ok(out)
    /// })?;
    /// assert_eq!(own[1], tensor![4.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As [`ProcessGroup::reduce_scatter_`]; those of other ranks when the work is waited for.
    #[torsh_tensor::names_caller]
    pub fn reduce_scatter_async(&self, out: &Tensor, input: &Tensor, op: ReduceOp) -> Result<Work> {
        const OP: &str = "reduce_scatter";
        let (into, x) = self.scatter_operands(OP, out, input, op)?;
        let text = |seq| format!("{OP}({op}) #{seq} {} of {}", kind_of(out), kind_of(input));
        self.reduce_scatter_of(OP, coalesced::one(into), coalesced::one(x), op, text)
    }

    /// The operands of a reduce-scatter, checked.
    #[track_caller]
    pub(super) fn scatter_operands(
        &self,
        kind: &'static str,
        out: &Tensor,
        input: &Tensor,
        op: ReduceOp,
    ) -> Result<(Operand, Operand)> {
        op.check(kind, input.dtype())?;
        same_dtype(kind, out, input)?;
        if input.numel() != self.size() * out.numel() {
            let message = format!(
                "the input {} does not have {} blocks {}",
                input.describe(),
                self.size(),
                out.describe()
            );
            return Err(TorshError::shape(kind, message).with_hint(
                "give the input the result's shape with the first dimension times the number of ranks",
            ));
        }
        let into = Operand::new(kind, out, true, self)?;
        let x = Operand::new(kind, input, false, self)?;
        if x.overlaps(&into, Some((self.rank() * into.bytes, into.bytes))) {
            return Err(overlap(kind, out, input));
        }
        Ok((into, x))
    }

    /// Reduces one tensor for each rank over all ranks; each rank gets its own (`torch.distributed.reduce_scatter`). The
    /// tensors for one rank have equal shapes on all ranks; those for different ranks may differ.
    ///
    /// ```
    /// use torsh_distributed::{ReduceOp, spawn};
    /// use torsh_tensor::tensor;
    ///
    /// let own = spawn(2, |g| g.reduce_scatter(&[tensor![1], tensor![2, 3]], ReduceOp::Sum))?;
    /// assert_eq!((&own[0], &own[1]), (&tensor![2], &tensor![4, 6]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Not one tensor for each rank; dtypes that differ; and as [`ProcessGroup::all_reduce_`].
    #[torsh_tensor::names_caller]
    pub fn reduce_scatter(&self, inputs: &[Tensor], op: ReduceOp) -> Result<Tensor> {
        const OP: &str = "reduce_scatter";
        self.one_each(OP, inputs.len())?;
        let own = &inputs[self.rank()];
        for t in inputs {
            same_dtype(OP, own, t)?;
        }
        op.check(OP, own.dtype())?;
        let out = new_like(own, own.shape())?;
        let into = Operand::new(OP, &out, true, self)?;
        let x = Operand::all(OP, inputs, false, self)?;
        let text = |seq| {
            format!(
                "{OP}({op}) #{seq} {:?}",
                inputs.iter().map(kind_of).collect::<Vec<_>>()
            )
        };
        self.submit(
            OP,
            Order::Collective,
            Location::caller(),
            text,
            move |call| async move {
                let operands: Vec<&Operand> = x.iter().chain([&into]).collect();
                let mut m = call.open(&operands).await?;
                let out = m.pop().unwrap_or_else(|| Memory::nothing(0));
                call.reduce_scatter_lists(&out, &m, into.dtype, op).await
            },
        )?
        .wait()?;
        Ok(out)
    }

    /// Refuses lists that have not one entry for each rank.
    #[track_caller]
    pub(super) fn one_each(&self, op: &'static str, n: usize) -> Result<()> {
        if n == self.size() {
            return Ok(());
        }
        let message = format!(
            "{n} tensors for the {} ranks of group {}",
            self.size(),
            self.name()
        );
        Err(TorshError::invalid(op, message)
            .with_hint("give one tensor for each rank, in rank order"))
    }

    /// Collects the tensors of all ranks at rank `dst` (`torch.distributed.gather`); the others get `None`. All have equal
    /// shapes and dtypes.
    ///
    /// ```
    /// use torsh_distributed::spawn;
    /// use torsh_tensor::tensor;
    ///
    /// let all = spawn(2, |g| g.gather(&tensor![g.rank() as i64], 0))?;
    /// assert_eq!(all[0].as_deref(), Some(&[tensor![0], tensor![1]][..]));
    /// assert!(all[1].is_none());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As [`ProcessGroup::broadcast_`].
    #[torsh_tensor::names_caller]
    pub fn gather(&self, t: &Tensor, dst: usize) -> Result<Option<Vec<Tensor>>> {
        const OP: &str = "gather";
        self.check_rank(OP, "dst", dst)?;
        let outs: Vec<Tensor> = match self.rank() == dst {
            true => (0..self.size())
                .map(|_| new_like(t, t.shape()))
                .collect::<Result<_>>()?,
            false => Vec::new(),
        };
        let x = Operand::new(OP, t, false, self)?;
        let into = Operand::all(OP, &outs, true, self)?;
        let text = |seq| format!("{OP}(dst {dst}) #{seq} {}", kind_of(t));
        self.submit(
            OP,
            Order::Collective,
            Location::caller(),
            text,
            move |call| async move {
                let operands: Vec<&Operand> = into.iter().chain([&x]).collect();
                let mut m = call.open(&operands).await?;
                let input = m.pop().unwrap_or_else(|| Memory::nothing(0));
                call.gather(&input, &m, dst).await
            },
        )?
        .wait()?;
        Ok((self.rank() == dst).then_some(outs))
    }

    /// Gives each rank its tensor of those that rank `src` has, in `out` (`torch.distributed.scatter`). All have equal
    /// shapes and dtypes; `input` is `None` on the other ranks.
    ///
    /// ```
    /// use torsh_distributed::spawn;
    /// use torsh_tensor::tensor;
    ///
    /// let own = spawn(2, |g| {
    ///     let all = [tensor![1, 2], tensor![3, 4]];
    ///     g.scatter_(&tensor![0, 0], (g.rank() == 0).then_some(&all[..]), 0)
    /// })?;
    /// assert_eq!(own[1], tensor![3, 4]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Tensors that `src` does not give, or others do; shapes or dtypes that differ; and as [`ProcessGroup::broadcast_`].
    #[torsh_tensor::names_caller]
    pub fn scatter_(&self, out: &Tensor, input: Option<&[Tensor]>, src: usize) -> Result<Tensor> {
        const OP: &str = "scatter";
        self.check_rank(OP, "src", src)?;
        let input = match (input, self.rank() == src) {
            (Some(all), true) => {
                self.one_each(OP, all.len())?;
                let differs = |t: &&Tensor| t.shape() != out.shape() || t.dtype() != out.dtype();
                if let Some(t) = all.iter().find(differs) {
                    let message = format!(
                        "a tensor {} does not fit the result {}",
                        t.describe(),
                        out.describe()
                    );
                    return Err(TorshError::shape(OP, message)
                        .with_hint("all tensors and results have one shape and dtype"));
                }
                all
            }
            (None, true) => {
                let message = format!("rank {src} is src and gives no tensors");
                return Err(TorshError::invalid(OP, message));
            }
            (Some(_), false) => {
                let message = format!("rank {} gives tensors, and src is rank {src}", self.rank());
                return Err(TorshError::invalid(OP, message).with_hint("give None here"));
            }
            (None, false) => &[],
        };
        let into = Operand::new(OP, out, true, self)?;
        let x = Operand::all(OP, input, false, self)?;
        let text = |seq| format!("{OP}(src {src}) #{seq} {}", kind_of(out));
        self.submit(
            OP,
            Order::Collective,
            Location::caller(),
            text,
            move |call| async move {
                let operands: Vec<&Operand> = [&into].into_iter().chain(&x).collect();
                let m = call.open(&operands).await?;
                call.scatter(&m[0], &m[1..], src).await?;
                call.close(&operands, m).await
            },
        )?
        .wait()?;
        Ok(out.clone())
    }
}

/// Dtype and shape, as bytes.
fn describe_shape(t: &Tensor) -> Vec<u8> {
    let mut bytes = vec![t.dtype() as u8];
    for &n in t.dims() {
        bytes.extend((n as u64).to_le_bytes());
    }
    bytes
}

/// What [`describe_shape`] wrote.
fn read_shape(bytes: &[u8]) -> Result<(torsh_tensor::DType, Shape)> {
    let unread = || TorshError::format("all_gather", "a rank sent no shape");
    let (&dtype, sizes) = bytes.split_first().ok_or_else(unread)?;
    let all = torsh_tensor::DType::ALL;
    let dtype = all
        .into_iter()
        .find(|d| *d as u8 == dtype)
        .ok_or_else(unread)?;
    let (sizes, rest) = sizes.as_chunks::<8>();
    if !rest.is_empty() {
        return Err(unread());
    }
    let dims: Vec<usize> = sizes
        .iter()
        .map(|&b| u64::from_le_bytes(b) as usize)
        .collect();
    Ok((dtype, Shape::new(&dims)))
}
