//! Operations on several tensors at once: one message for many small ones.

use super::*;
use crate::comm::{Call, Memory};
use torsh_tensor::DType;

/// The most bytes that are packed into one message; larger tensors go by themselves.
const PACK: usize = 1 << 20;

/// Ranges of neighbours that are packed: of one dtype, and not too many bytes. All ranks have the same.
fn packs(sizes: &[(DType, usize)]) -> Vec<std::ops::Range<usize>> {
    let mut packs: Vec<std::ops::Range<usize>> = Vec::new();
    let mut bytes = 0;
    for (i, &(dtype, size)) in sizes.iter().enumerate() {
        match packs.last_mut() {
            Some(p) if sizes[p.start].0 == dtype && bytes + size <= PACK => {
                p.end = i + 1;
                bytes += size;
            }
            _ => {
                packs.push(i..i + 1);
                bytes = size;
            }
        }
    }
    packs
}

fn sizes(operands: &[Operand]) -> Vec<(DType, usize)> {
    operands.iter().map(|o| (o.dtype, o.bytes)).collect()
}

/// Parts of one memory with the sizes of others, one behind the other.
fn like<'a>(memory: &Memory, others: impl IntoIterator<Item = &'a Memory>) -> Vec<Memory> {
    let mut start = 0;
    others
        .into_iter()
        .map(|m| {
            start += m.bytes();
            memory.at(start - m.bytes(), m.bytes())
        })
        .collect()
}

impl Call {
    /// Copies of memories, one behind the other.
    fn pack(&self, all: &[Memory]) -> Memory {
        let packed = self.scratch(all.iter().map(Memory::bytes).sum());
        let places = like(&packed, all);
        places
            .iter()
            .zip(all)
            .for_each(|(to, from)| to.copy_from(from));
        packed
    }
}

/// Brings what was packed back.
fn unpack(packed: &Memory, all: &[Memory]) {
    let places = like(packed, all);
    all.iter()
        .zip(&places)
        .for_each(|(to, from)| to.copy_from(from));
}

fn list(tensors: &[Tensor]) -> String {
    let kinds: Vec<String> = tensors.iter().map(kind_of).collect();
    format!("{} tensors {}", tensors.len(), kinds.join(" "))
}

fn as_many(op: &'static str, outs: &[Tensor], inputs: &[Tensor]) -> Result<()> {
    match outs.len() == inputs.len() {
        true => Ok(()),
        false => Err(TorshError::invalid(
            op,
            format!("{} results for {} inputs", outs.len(), inputs.len()),
        )),
    }
}

impl ProcessGroup {
    /// [`ProcessGroup::all_reduce_`] of several tensors as one operation: small ones of one dtype share messages. The
    /// results have the same bits as one by one.
    ///
    /// ```
    /// use torsh_distributed::{ReduceOp, spawn};
    /// use torsh_tensor::tensor;
    ///
    /// spawn(2, |g| {
    ///     let all = [tensor![1.0], tensor![2.0, 3.0]];
    ///     g.all_reduce_coalesced_(&all, ReduceOp::Sum)?;
    ///     assert_eq!(all[1], tensor![4.0, 6.0]);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As [`ProcessGroup::all_reduce_`].
    #[track_caller]
    pub fn all_reduce_coalesced_(&self, ts: &[Tensor], op: ReduceOp) -> Result<()> {
        self.all_reduce_coalesced_async(ts, op)?.wait()
    }

    /// [`ProcessGroup::all_reduce_coalesced_`] that does not wait.
    ///
    /// # Errors
    /// As [`ProcessGroup::all_reduce_async`].
    #[track_caller]
    pub fn all_reduce_coalesced_async(&self, ts: &[Tensor], op: ReduceOp) -> Result<Work> {
        const OP: &str = "all_reduce_coalesced";
        ts.iter().try_for_each(|t| op.check(OP, t.dtype()))?;
        let x = Operand::all(OP, ts, true, self)?;
        if self.size() == 1 && !matches!(op, ReduceOp::PreMulSum(_)) {
            return Ok(Work::ready());
        }
        let by_engine = self.reduce_mode() == ReduceMode::Engine;
        let text = |seq| format!("{OP}({op}) #{seq} {}", list(ts));
        self.submit(
            OP,
            Order::Collective,
            Location::caller(),
            text,
            move |call| async move {
                let operands: Vec<&Operand> = x.iter().collect();
                let m = call.open(&operands).await?;
                for pack in packs(&sizes(&x)) {
                    let (all, dtype) = (&m[pack.clone()], x[pack.start].dtype);
                    if let [one] = all {
                        call.all_reduce(one, dtype, op, by_engine, false).await?;
                    } else {
                        let packed = call.pack(all);
                        call.all_reduce(&packed, dtype, op, by_engine, false)
                            .await?;
                        unpack(&packed, all);
                    }
                }
                call.close(&operands, m).await
            },
        )
    }

    /// [`ProcessGroup::broadcast_`] of several tensors as one operation.
    ///
    /// ```
    /// use torsh_distributed::spawn;
    /// use torsh_tensor::tensor;
    ///
    /// spawn(2, |g| {
    ///     let all = [tensor![g.rank() as i64], tensor![g.rank() as f64]];
    ///     g.broadcast_coalesced_(&all, 1)?;
    ///     assert_eq!((&all[0], &all[1]), (&tensor![1], &tensor![1.0]));
    ///     Ok(())
    /// })?;
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As [`ProcessGroup::broadcast_`].
    #[track_caller]
    pub fn broadcast_coalesced_(&self, ts: &[Tensor], src: usize) -> Result<()> {
        self.broadcast_coalesced_async(ts, src)?.wait()
    }

    /// [`ProcessGroup::broadcast_coalesced_`] that does not wait.
    ///
    /// # Errors
    /// As [`ProcessGroup::broadcast_async`].
    #[track_caller]
    pub fn broadcast_coalesced_async(&self, ts: &[Tensor], src: usize) -> Result<Work> {
        const OP: &str = "broadcast_coalesced";
        self.check_rank(OP, "src", src)?;
        let x = Operand::all(OP, ts, self.rank() != src, self)?;
        if self.size() == 1 {
            return Ok(Work::ready());
        }
        let text = |seq| format!("{OP}(src {src}) #{seq} {}", list(ts));
        self.submit(
            OP,
            Order::Collective,
            Location::caller(),
            text,
            move |call| async move {
                let operands: Vec<&Operand> = x.iter().collect();
                let m = call.open(&operands).await?;
                // Bytes are bytes: dtypes may be mixed.
                let of_bytes: Vec<(DType, usize)> =
                    x.iter().map(|o| (DType::U8, o.bytes)).collect();
                for pack in packs(&of_bytes) {
                    let all = &m[pack];
                    if let [one] = all {
                        call.broadcast(one, src, false).await?;
                    } else {
                        let packed = call.pack(all);
                        call.broadcast(&packed, src, false).await?;
                        if call.rank() != src {
                            unpack(&packed, all);
                        }
                    }
                }
                call.close(&operands, m).await
            },
        )
    }

    /// [`ProcessGroup::all_gather_into_`] of several pairs as one operation.
    ///
    /// ```
    /// use torsh_distributed::spawn;
    /// use torsh_tensor::{tensor, zeros};
    ///
    /// spawn(2, |g| {
    ///     let r = g.rank() as f64;
    ///     let outs = [zeros(&[2]), zeros(&[4])];
    ///     g.all_gather_into_coalesced_(&outs, &[tensor![r], tensor![r, 7.0]])?;
    ///     assert_eq!(outs[0], tensor![0.0, 1.0]);
    ///     assert_eq!(outs[1], tensor![0.0, 7.0, 1.0, 7.0]);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As [`ProcessGroup::all_gather_into_`].
    #[track_caller]
    pub fn all_gather_into_coalesced_(&self, outs: &[Tensor], inputs: &[Tensor]) -> Result<()> {
        self.all_gather_into_coalesced_async(outs, inputs)?.wait()
    }

    /// [`ProcessGroup::all_gather_into_coalesced_`] that does not wait.
    ///
    /// # Errors
    /// As [`ProcessGroup::all_gather_into_async`].
    #[track_caller]
    pub fn all_gather_into_coalesced_async(
        &self,
        outs: &[Tensor],
        inputs: &[Tensor],
    ) -> Result<Work> {
        const OP: &str = "all_gather_into_coalesced";
        as_many(OP, outs, inputs)?;
        let pairs = outs.iter().zip(inputs);
        let pairs: Vec<(Operand, Operand)> = pairs
            .map(|(o, i)| self.gather_operands(OP, o, i))
            .collect::<Result<_>>()?;
        let (into, x): (Vec<Operand>, Vec<Operand>) = pairs.into_iter().unzip();
        let text = |seq| format!("{OP} #{seq} {}", list(inputs));
        self.submit(
            OP,
            Order::Collective,
            Location::caller(),
            text,
            move |call| async move {
                let n = call.size();
                let operands: Vec<&Operand> = into.iter().chain(&x).collect();
                let m = call.open(&operands).await?;
                let (outs, inputs) = m.split_at(into.len());
                let block = |out: &Memory, r: usize| out.at(r * (out.bytes() / n), out.bytes() / n);
                let of_bytes: Vec<(DType, usize)> =
                    x.iter().map(|o| (DType::U8, o.bytes)).collect();
                for pack in packs(&of_bytes) {
                    let (outs, inputs) = (&outs[pack.clone()], &inputs[pack]);
                    if let ([out], [input]) = (outs, inputs) {
                        let parts: Vec<Memory> = (0..n).map(|r| block(out, r)).collect();
                        call.all_gather(&parts, input, false).await?;
                        continue;
                    }
                    let packed = call.pack(inputs);
                    let all = call.scratch(n * packed.bytes());
                    let parts: Vec<Memory> = (0..n)
                        .map(|r| all.at(r * packed.bytes(), packed.bytes()))
                        .collect();
                    call.all_gather(&parts, &packed, false).await?;
                    for (r, part) in parts.iter().enumerate() {
                        let places: Vec<Memory> = outs.iter().map(|out| block(out, r)).collect();
                        unpack(part, &places);
                    }
                }
                call.close(&operands, m).await
            },
        )
    }

    /// [`ProcessGroup::reduce_scatter_`] of several pairs as one operation.
    ///
    /// ```
    /// use torsh_distributed::{ReduceOp, spawn};
    /// use torsh_tensor::{tensor, zeros};
    ///
    /// spawn(2, |g| {
    ///     let outs = [zeros(&[1]), zeros(&[1])];
    ///     let inputs = [tensor![1.0, 2.0], tensor![3.0, 4.0]];
    ///     g.reduce_scatter_coalesced_(&outs, &inputs, ReduceOp::Sum)?;
    ///     let (a, b) = (2.0 + 2.0 * g.rank() as f64, 6.0 + 2.0 * g.rank() as f64);
    ///     assert_eq!((&outs[0], &outs[1]), (&tensor![a as f32], &tensor![b as f32]));
    ///     Ok(())
    /// })?;
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As [`ProcessGroup::reduce_scatter_`].
    #[track_caller]
    pub fn reduce_scatter_coalesced_(
        &self,
        outs: &[Tensor],
        inputs: &[Tensor],
        op: ReduceOp,
    ) -> Result<()> {
        self.reduce_scatter_coalesced_async(outs, inputs, op)?
            .wait()
    }

    /// [`ProcessGroup::reduce_scatter_coalesced_`] that does not wait.
    ///
    /// # Errors
    /// As [`ProcessGroup::reduce_scatter_async`].
    #[track_caller]
    pub fn reduce_scatter_coalesced_async(
        &self,
        outs: &[Tensor],
        inputs: &[Tensor],
        op: ReduceOp,
    ) -> Result<Work> {
        const OP: &str = "reduce_scatter_coalesced";
        as_many(OP, outs, inputs)?;
        let pairs = outs.iter().zip(inputs);
        let pairs: Vec<(Operand, Operand)> = pairs
            .map(|(o, i)| self.scatter_operands(OP, o, i, op))
            .collect::<Result<_>>()?;
        let (into, x): (Vec<Operand>, Vec<Operand>) = pairs.into_iter().unzip();
        let text = |seq| format!("{OP}({op}) #{seq} {}", list(inputs));
        self.submit(
            OP,
            Order::Collective,
            Location::caller(),
            text,
            move |call| async move {
                let n = call.size();
                let operands: Vec<&Operand> = into.iter().chain(&x).collect();
                let m = call.open(&operands).await?;
                let (outs, inputs) = m.split_at(into.len());
                let block = |m: &Memory, r: usize| m.at(r * (m.bytes() / n), m.bytes() / n);
                for pack in packs(&sizes(&x)) {
                    let dtype = x[pack.start].dtype;
                    let (outs, inputs) = (&outs[pack.clone()], &inputs[pack]);
                    if let ([out], [input]) = (outs, inputs) {
                        let blocks: Vec<Memory> = (0..n).map(|r| block(input, r)).collect();
                        call.reduce_scatter(out, &blocks, dtype, op, false).await?;
                        continue;
                    }
                    let blocks: Vec<Memory> = (0..n)
                        .map(|r| {
                            let of_rank: Vec<Memory> = inputs.iter().map(|i| block(i, r)).collect();
                            call.pack(&of_rank)
                        })
                        .collect();
                    let packed = call.scratch(outs.iter().map(Memory::bytes).sum());
                    call.reduce_scatter(&packed, &blocks, dtype, op, false)
                        .await?;
                    unpack(&packed, outs);
                }
                call.close(&operands, m).await
            },
        )
    }
}
