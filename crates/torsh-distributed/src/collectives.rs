//! Collectives and messages: the methods of [`ProcessGroup`], and free functions of the same names on the default group.
//!
//! Each operation checks its operands on the caller's thread, and is then queued for the communication thread. What ranks
//! send is no part of the recorded graph; [`functional`](crate::functional) has forms with gradients.

use std::panic::Location;
use std::time::{Duration, Instant};

use torsh_tensor::{Result, Tensor, TorshError};

use crate::comm::Payload;
use crate::group::{Order, ProcessGroup};
use crate::reduce::{ReduceMode, ReduceOp};
use crate::work::Work;

mod barrier;
mod coalesced;
mod free;
mod gather;
mod operand;
mod p2p;
mod steps;
mod swap;

pub use free::*;
pub(crate) use operand::Operand;
pub use p2p::P2POp;

/// `float32[2, 3]`, as ranks compare it.
pub(crate) fn kind_of(t: &Tensor) -> String {
    format!("{}{}", t.dtype(), t.shape())
}

impl ProcessGroup {
    /// Reduces a tensor over all ranks, in place (`torch.distributed.all_reduce`). All ranks get the same bits. Any shape
    /// and dtype that the reduction knows; no gradient is recorded.
    ///
    /// ```
    /// use torsh_distributed::{ReduceOp, spawn};
    /// use torsh_tensor::tensor;
    ///
    /// let means = spawn(2, |g| {
    ///     let t = tensor![1.0, 2.0].mul(g.rank() as f64 + 1.0)?;
    ///     g.all_reduce_(&t, ReduceOp::Avg)
    /// })?;
    /// assert_eq!(means[0], tensor![1.5, 3.0]);
    /// assert_eq!(means[0], means[1]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// A dtype that the reduction does not know, another device than the CPU; different operations, shapes or dtypes of the
    /// ranks; ranks that do not come within the timeout.
    #[torsh_tensor::names_caller]
    pub fn all_reduce_(&self, t: &Tensor, op: ReduceOp) -> Result<Tensor> {
        self.all_reduce_async(t, op)?.wait()?;
        Ok(t.clone())
    }

    /// [`ProcessGroup::all_reduce_`] that does not wait.
    ///
    /// ```
    /// use torsh_distributed::{ReduceOp, spawn};
    /// use torsh_tensor::tensor;
    ///
    /// let sums = spawn(2, |g| {
    ///     let (a, b) = (tensor![1], tensor![10]);
    ///     let works = [g.all_reduce_async(&a, ReduceOp::Sum)?, g.all_reduce_async(&b, ReduceOp::Sum)?];
    ///     works.iter().try_for_each(|w| w.wait())?;
    ///     a.add(&b)
    /// })?;
    /// assert_eq!(sums[0], tensor![22]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As [`ProcessGroup::all_reduce_`]; those of other ranks when the work is waited for.
    #[torsh_tensor::names_caller]
    pub fn all_reduce_async(&self, t: &Tensor, op: ReduceOp) -> Result<Work> {
        const OP: &str = "all_reduce";
        op.check(OP, t.dtype())?;
        let x = Operand::new(OP, t, true, self)?;
        let text = |seq| format!("{OP}({op}) #{seq} {}", kind_of(t));
        self.all_reduce_of(OP, coalesced::one(x), op, text)
    }

    /// Reduces a tensor over all ranks into that of rank `dst`, in place (`torch.distributed.reduce`). The others' tensors
    /// stay as they are.
    ///
    /// ```
    /// use torsh_distributed::{ReduceOp, spawn};
    /// use torsh_tensor::tensor;
    ///
    /// let t = spawn(2, |g| g.reduce_(&tensor![3], 1, ReduceOp::Product))?;
    /// assert_eq!((&t[0], &t[1]), (&tensor![3], &tensor![9]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As [`ProcessGroup::all_reduce_`], and a rank that is not there.
    #[torsh_tensor::names_caller]
    pub fn reduce_(&self, t: &Tensor, dst: usize, op: ReduceOp) -> Result<Tensor> {
        self.reduce_async(t, dst, op)?.wait()?;
        Ok(t.clone())
    }

    /// [`ProcessGroup::reduce_`] that does not wait.
    ///
    /// ```
    /// use torsh_distributed::{ReduceOp, spawn};
    /// use torsh_tensor::tensor;
    ///
    /// let t = spawn(2, |g| {
    ///     let t = tensor![3];
    ///     g.reduce_async(&t, 1, ReduceOp::Sum)?.wait()?;
    ///     Ok(t)
    /// })?;
    /// assert_eq!((&t[0], &t[1]), (&tensor![3], &tensor![6]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As [`ProcessGroup::reduce_`]; those of other ranks when the work is waited for.
    #[torsh_tensor::names_caller]
    pub fn reduce_async(&self, t: &Tensor, dst: usize, op: ReduceOp) -> Result<Work> {
        const OP: &str = "reduce";
        op.check(OP, t.dtype())?;
        self.check_rank(OP, "dst", dst)?;
        let x = Operand::new(OP, t, self.rank() == dst, self)?;
        let text = |seq| format!("{OP}({op}, dst {dst}) #{seq} {}", kind_of(t));
        self.submit(
            OP,
            Order::Collective,
            Location::caller(),
            text,
            move |call| async move {
                let m = call.open(&[&x]).await?;
                call.reduce(&m[0], x.dtype, op, dst).await?;
                call.close(&[&x], m).await
            },
        )
    }

    /// Gives all ranks the values of rank `src`, in place (`torch.distributed.broadcast`). The shapes and dtypes of all
    /// ranks are equal; any dtype.
    ///
    /// ```
    /// use torsh_distributed::spawn;
    /// use torsh_tensor::tensor;
    ///
    /// let all = spawn(3, |g| g.broadcast_(&tensor![g.rank() as i64, 7], 1))?;
    /// assert!(all.iter().all(|t| *t == tensor![1, 7]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// A rank that is not there, another device than the CPU; different operations, shapes or dtypes of the ranks; ranks
    /// that do not come within the timeout.
    #[torsh_tensor::names_caller]
    pub fn broadcast_(&self, t: &Tensor, src: usize) -> Result<Tensor> {
        self.broadcast_async(t, src)?.wait()?;
        Ok(t.clone())
    }

    /// [`ProcessGroup::broadcast_`] that does not wait.
    ///
    /// ```
    /// use torsh_distributed::spawn;
    /// use torsh_tensor::tensor;
    ///
    /// let all = spawn(2, |g| {
    ///     let (a, b) = (tensor![g.rank() as i64], tensor![g.rank() as i64 + 5]);
    ///     let works = [g.broadcast_async(&a, 0)?, g.broadcast_async(&b, 1)?];
    ///     works.iter().try_for_each(|w| w.wait())?;
    ///     a.add(&b)
    /// })?;
    /// assert!(all.iter().all(|t| *t == tensor![6]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As [`ProcessGroup::broadcast_`]; those of other ranks when the work is waited for.
    #[torsh_tensor::names_caller]
    pub fn broadcast_async(&self, t: &Tensor, src: usize) -> Result<Work> {
        const OP: &str = "broadcast";
        self.check_rank(OP, "src", src)?;
        let x = Operand::new(OP, t, self.rank() != src, self)?;
        let text = |seq| format!("{OP}(src {src}) #{seq} {}", kind_of(t));
        self.broadcast_of(OP, coalesced::one(x), src, text)
    }
}
