//! Messages between two ranks.

use super::*;
use crate::comm::{Call, SMALL, all_done};

/// The largest tag of a message.
pub(crate) const MOST_TAG: u32 = 32_000;

/// A message of a batch (`torch.distributed.P2POp`).
///
/// ```
/// use torsh_distributed::{P2POp, spawn};
/// use torsh_tensor::{tensor, zeros};
///
/// let got = spawn(2, |g| {
///     let from = zeros(&[1]);
///     let works = match g.rank() {
///         0 => g.batch_isend_irecv(&[P2POp::Send(tensor![7.0], 1)])?,
///         _ => g.batch_isend_irecv(&[P2POp::Receive(from.clone(), 0)])?,
///     };
///     works.iter().try_for_each(|w| w.wait())?;
///     Ok(from)
/// })?;
/// assert_eq!(got[1], tensor![7.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub enum P2POp {
    /// Sends a tensor to a rank.
    Send(Tensor, usize),
    /// Receives into a tensor from a rank.
    Receive(Tensor, usize),
}

fn check_tag(op: &'static str, tag: u32) -> Result<()> {
    match tag <= MOST_TAG {
        true => Ok(()),
        false => Err(TorshError::invalid(
            op,
            format!("tag {tag} is above {MOST_TAG}, the largest"),
        )),
    }
}

impl ProcessGroup {
    /// Sends a tensor to rank `dst`, which receives it with [`ProcessGroup::recv_`] into one of the same dtype and number
    /// of elements (`torch.distributed.send`). Returns when the tensor may be changed again.
    ///
    /// ```
    /// use torsh_distributed::spawn;
    /// use torsh_tensor::{tensor, zeros};
    ///
    /// let got = spawn(2, |g| {
    ///     if g.rank() == 0 {
    ///         g.send(&tensor![1.0, 2.0], 1)?;
    ///         return Ok(zeros(&[2]));
    ///     }
    ///     g.recv_(&zeros(&[2]), 0)
    /// })?;
    /// assert_eq!(got[1], tensor![1.0, 2.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// The own rank, or one that is not there; another device than the CPU; no receiver within the timeout.
    #[torsh_tensor::names_caller]
    pub fn send(&self, t: &Tensor, dst: usize) -> Result<()> {
        self.isend(t, dst)?.wait()
    }

    /// Receives a tensor from rank `src`, in place (`torch.distributed.recv`).
    ///
    /// ```
    /// use torsh_distributed::spawn;
    /// use torsh_tensor::tensor;
    ///
    /// let got = spawn(2, |g| {
    ///     let t = tensor![0];
    ///     match g.rank() {
    ///         0 => g.send(&tensor![7], 1)?,
    ///         _ => drop(g.recv_(&t, 0)?),
    ///     }
    ///     Ok(t)
    /// })?;
    /// assert_eq!(got[1], tensor![7]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As [`ProcessGroup::send`], and a message of another dtype or number of elements.
    #[torsh_tensor::names_caller]
    pub fn recv_(&self, t: &Tensor, src: usize) -> Result<Tensor> {
        self.irecv_(t, src)?.wait()?;
        Ok(t.clone())
    }

    /// [`ProcessGroup::send`] that does not wait.
    ///
    /// ```
    /// use torsh_distributed::spawn;
    /// use torsh_tensor::tensor;
    ///
    /// let got = spawn(2, |g| {
    ///     let t = tensor![0];
    ///     match g.rank() {
    ///         0 => g.isend(&tensor![7], 1)?.wait()?,
    ///         _ => drop(g.recv_(&t, 0)?),
    ///     }
    ///     Ok(t)
    /// })?;
    /// assert_eq!(got[1], tensor![7]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As [`ProcessGroup::send`].
    #[track_caller]
    pub fn isend(&self, t: &Tensor, dst: usize) -> Result<Work> {
        self.isend_tagged(t, dst, 0)
    }

    /// [`ProcessGroup::recv_`] that does not wait.
    ///
    /// ```
    /// use torsh_distributed::spawn;
    /// use torsh_tensor::tensor;
    ///
    /// let got = spawn(2, |g| {
    ///     let t = tensor![0];
    ///     match g.rank() {
    ///         0 => g.send(&tensor![7], 1)?,
    ///         _ => g.irecv_(&t, 0)?.wait()?,
    ///     }
    ///     Ok(t)
    /// })?;
    /// assert_eq!(got[1], tensor![7]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As [`ProcessGroup::recv_`]; what the message itself is wrong about when the work is waited for.
    #[track_caller]
    pub fn irecv_(&self, t: &Tensor, src: usize) -> Result<Work> {
        self.irecv_tagged_(t, src, 0)
    }

    /// [`ProcessGroup::send`] with a tag: messages of one tag arrive in the order in which they were sent, and a receiver
    /// takes those of its tag only. Tags go to 32,000.
    ///
    /// ```
    /// use torsh_distributed::spawn;
    /// use torsh_tensor::tensor;
    ///
    /// let got = spawn(2, |g| {
    ///     if g.rank() == 0 {
    ///         g.isend_tagged(&tensor![7], 1, 7)?;
    ///         g.send_tagged(&tensor![8], 1, 8)?;
    ///         return Ok(0);
    ///     }
    ///     let eight = g.recv_tagged_(&tensor![0], 0, 8)?.item::<i64>()?;
    ///     Ok(10 * eight + g.recv_tagged_(&tensor![0], 0, 7)?.item::<i64>()?)
    /// })?;
    /// assert_eq!(got[1], 87);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As [`ProcessGroup::send`], and a tag that is too large.
    #[torsh_tensor::names_caller]
    pub fn send_tagged(&self, t: &Tensor, dst: usize, tag: u32) -> Result<()> {
        self.isend_tagged(t, dst, tag)?.wait()
    }

    /// [`ProcessGroup::recv_`] with a tag.
    ///
    /// # Errors
    /// As [`ProcessGroup::recv_`], and a tag that is too large.
    #[torsh_tensor::names_caller]
    pub fn recv_tagged_(&self, t: &Tensor, src: usize, tag: u32) -> Result<Tensor> {
        self.irecv_tagged_(t, src, tag)?.wait()?;
        Ok(t.clone())
    }

    #[track_caller]
    fn check_peer(&self, op: &'static str, what: &str, rank: usize, tag: u32) -> Result<()> {
        self.check_rank(op, what, rank)?;
        check_tag(op, tag)?;
        match rank == self.rank() {
            true => Err(TorshError::invalid(
                op,
                format!("{what} is rank {rank}, which is this rank itself"),
            )),
            false => Ok(()),
        }
    }

    /// [`ProcessGroup::send_tagged`] that does not wait.
    ///
    /// # Errors
    /// As [`ProcessGroup::send_tagged`].
    #[torsh_tensor::names_caller]
    pub fn isend_tagged(&self, t: &Tensor, dst: usize, tag: u32) -> Result<Work> {
        const OP: &str = "send";
        self.check_peer(OP, "dst", dst, tag)?;
        let x = Operand::new(OP, t, false, self)?;
        let what = kind_of(t);
        let text = |seq| format!("{OP}(dst {dst}, tag {tag}) #{seq} {what}");
        let header = what.clone();
        self.submit(
            OP,
            Order::Send(dst, tag),
            Location::caller(),
            text,
            move |call| async move {
                let m = call.open(&[&x]).await?;
                let flights = call.send_user(&header, &m[0], dst, tag)?;
                call.pass();
                all_done(flights).await
            },
        )
    }

    /// [`ProcessGroup::recv_tagged_`] that does not wait.
    ///
    /// # Errors
    /// As [`ProcessGroup::recv_tagged_`]; what the message itself is wrong about when the work is waited for.
    #[torsh_tensor::names_caller]
    pub fn irecv_tagged_(&self, t: &Tensor, src: usize, tag: u32) -> Result<Work> {
        const OP: &str = "recv";
        self.check_peer(OP, "src", src, tag)?;
        let x = Operand::new(OP, t, true, self)?;
        let what = kind_of(t);
        let text = |seq| format!("{OP}(src {src}, tag {tag}) #{seq} {what}");
        let here = what.clone();
        self.submit(
            OP,
            Order::Receive(src, tag),
            Location::caller(),
            text,
            move |call| async move {
                let m = call.open(&[&x]).await?;
                let first = call.want_user(src, tag)?;
                let rest = match x.bytes > SMALL {
                    true => call.want_rest(&m[0], src, tag)?,
                    false => Vec::new(),
                };
                call.pass();
                let (there, message) = call.read_user(first, x.bytes).await?;
                if let Some(there) = there {
                    let dtype = |text: &str| text.split('[').next().unwrap_or("").to_string();
                    if message.total != x.bytes || dtype(&there) != dtype(&here) {
                        return Err(unlike(&call, src, &there, &here));
                    }
                }
                if x.bytes <= SMALL {
                    m[0].copy_from(&message.payload());
                }
                all_done(rest).await?;
                call.close(&[&x], m).await
            },
        )
    }

    /// Starts messages together (`torch.distributed.batch_isend_irecv`): none waits for another.
    ///
    /// ```
    /// use torsh_distributed::{P2POp, spawn};
    /// use torsh_tensor::{tensor, zeros};
    ///
    /// let got = spawn(2, |g| {
    ///     let (other, r) = (1 - g.rank(), g.rank() as f64);
    ///     let from = zeros(&[1]);
    ///     let works = g.batch_isend_irecv(&[
    ///         P2POp::Send(tensor![r], other),
    ///         P2POp::Receive(from.clone(), other),
    ///     ])?;
    ///     works.iter().try_for_each(|w| w.wait())?;
    ///     from.item::<f64>()
    /// })?;
    /// assert_eq!(got, [1.0, 0.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As [`ProcessGroup::isend`] and [`ProcessGroup::irecv_`].
    #[torsh_tensor::names_caller]
    pub fn batch_isend_irecv(&self, ops: &[P2POp]) -> Result<Vec<Work>> {
        // All are checked before the first starts.
        for op in ops {
            match op {
                P2POp::Send(_, to) => self.check_peer("batch_isend_irecv", "dst", *to, 0)?,
                P2POp::Receive(_, from) => self.check_peer("batch_isend_irecv", "src", *from, 0)?,
            }
        }
        let mut works = Vec::with_capacity(ops.len());
        for op in ops {
            works.push(match op {
                P2POp::Send(t, to) => self.isend(t, *to)?,
                P2POp::Receive(t, from) => self.irecv_(t, *from)?,
            });
        }
        Ok(works)
    }

    /// Sends bytes as a message, with a name for what they are.
    #[track_caller]
    pub(crate) fn send_bytes(&self, op: &'static str, bytes: Vec<u8>, dst: usize) -> Result<()> {
        self.check_peer(op, "dst", dst, MOST_TAG)?;
        let order = Order::Send(dst, MOST_TAG + 1);
        let text = |seq| format!("{op}(dst {dst}) #{seq}");
        self.submit(
            op,
            order,
            Location::caller(),
            text,
            move |call| async move {
                let memory = call.memory_of(&bytes);
                let flights = call.send_user("an object", &memory, dst, MOST_TAG + 1)?;
                call.pass();
                all_done(flights).await
            },
        )?
        .wait()
    }

    /// Receives bytes of a message.
    #[track_caller]
    pub(crate) fn recv_bytes(&self, op: &'static str, src: usize) -> Result<Vec<u8>> {
        self.check_peer(op, "src", src, MOST_TAG)?;
        let order = Order::Receive(src, MOST_TAG + 1);
        let text = |seq| format!("{op}(src {src}) #{seq}");
        self.bytes_of(
            op,
            order,
            Location::caller(),
            text,
            move |call| async move {
                let first = call.want_user(src, MOST_TAG + 1)?;
                let (_, message) = call.read_user(first, 0).await?;
                if message.total <= SMALL {
                    return Ok(message.payload().to_vec());
                }
                // The lane's next receive starts after this one's bytes are asked for.
                let memory = call.scratch(message.total);
                let rest = call.want_rest(&memory, src, MOST_TAG + 1)?;
                call.pass();
                all_done(rest).await?;
                Ok(memory.to_vec())
            },
        )
    }
}

fn unlike(call: &Call, from: usize, there: &str, here: &str) -> TorshError {
    TorshError::shape(
        "recv",
        format!(
            "rank {from} sends {there}, and rank {} receives {here}",
            call.rank()
        ),
    )
    .with_hint("both must have the same dtype and number of elements")
}
