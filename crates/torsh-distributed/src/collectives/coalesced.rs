//! Operations on several tensors at once: one message for many small ones. Those on one tensor are the same with one operand.

use super::operand::Operands;
use super::*;
use crate::comm::{Call, Memory};
use smallvec::{SmallVec, smallvec};
use torsh_tensor::DType;

/// The most bytes that are packed into one message; larger tensors go by themselves.
const PACK: usize = 1 << 20;

/// One operand.
pub(super) fn one(operand: Operand) -> Operands {
    smallvec![operand]
}

/// Ranges of neighbours that are packed, and whether each is the last: of one dtype, and not too many bytes. All ranks have
/// the same.
fn packs(
    n: usize,
    of: impl Fn(usize) -> (DType, usize),
) -> impl Iterator<Item = (std::ops::Range<usize>, bool)> {
    let mut start = 0;
    std::iter::from_fn(move || {
        if start == n {
            return None;
        }
        let (dtype, mut bytes) = of(start);
        let mut end = start + 1;
        while end < n {
            let (other, more) = of(end);
            if other != dtype || bytes + more > PACK {
                break;
            }
            bytes += more;
            end += 1;
        }
        let pack = start..end;
        start = end;
        Some((pack, end == n))
    })
}

/// `n` equal parts of memory.
fn equal_parts(memory: &Memory, n: usize) -> Vec<Memory> {
    (0..n).map(|r| block(memory, n, r)).collect()
}

/// Rank `r`'s part of memory that has one for each of `n`.
fn block(memory: &Memory, n: usize, r: usize) -> Memory {
    let len = memory.bytes() / n;
    memory.at(r * len, len)
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
    #[torsh_tensor::names_caller]
    pub fn all_reduce_coalesced_(&self, ts: &[Tensor], op: ReduceOp) -> Result<()> {
        self.all_reduce_coalesced_async(ts, op)?.wait()
    }

    /// [`ProcessGroup::all_reduce_coalesced_`] that does not wait.
    ///
    /// # Errors
    /// As [`ProcessGroup::all_reduce_async`].
    #[torsh_tensor::names_caller]
    pub fn all_reduce_coalesced_async(&self, ts: &[Tensor], op: ReduceOp) -> Result<Work> {
        const OP: &str = "all_reduce_coalesced";
        ts.iter().try_for_each(|t| op.check(OP, t.dtype()))?;
        let x = Operand::all(OP, ts, true, self)?;
        let text = |seq| format!("{OP}({op}) #{seq} {}", list(ts));
        self.all_reduce_of(OP, x, op, text)
    }

    /// Queues the reduction of operands, which `text` describes.
    #[track_caller]
    pub(super) fn all_reduce_of(
        &self,
        kind: &'static str,
        x: Operands,
        op: ReduceOp,
        text: impl FnOnce(u64) -> String,
    ) -> Result<Work> {
        if self.size() == 1 && !matches!(op, ReduceOp::PreMulSum(_)) {
            return Ok(Work::ready());
        }
        let by_engine = self.reduce_mode() == ReduceMode::Engine;
        self.submit(
            kind,
            Order::Collective,
            Location::caller(),
            text,
            move |call| async move {
                let operands: SmallVec<[&Operand; 1]> = x.iter().collect();
                let m = call.open(&operands).await?;
                for (pack, last) in packs(x.len(), |i| (x[i].dtype, x[i].bytes)) {
                    let (all, dtype) = (&m[pack.clone()], x[pack.start].dtype);
                    if let [one] = all {
                        call.all_reduce(one, dtype, op, by_engine, last).await?;
                    } else {
                        let packed = call.pack(all);
                        call.all_reduce(&packed, dtype, op, by_engine, last).await?;
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
    #[torsh_tensor::names_caller]
    pub fn broadcast_coalesced_(&self, ts: &[Tensor], src: usize) -> Result<()> {
        self.broadcast_coalesced_async(ts, src)?.wait()
    }

    /// [`ProcessGroup::broadcast_coalesced_`] that does not wait.
    ///
    /// # Errors
    /// As [`ProcessGroup::broadcast_async`].
    #[torsh_tensor::names_caller]
    pub fn broadcast_coalesced_async(&self, ts: &[Tensor], src: usize) -> Result<Work> {
        const OP: &str = "broadcast_coalesced";
        self.check_rank(OP, "src", src)?;
        let x = Operand::all(OP, ts, self.rank() != src, self)?;
        let text = |seq| format!("{OP}(src {src}) #{seq} {}", list(ts));
        self.broadcast_of(OP, x, src, text)
    }

    /// Queues the broadcast of operands, which `text` describes.
    #[track_caller]
    pub(super) fn broadcast_of(
        &self,
        kind: &'static str,
        x: Operands,
        src: usize,
        text: impl FnOnce(u64) -> String,
    ) -> Result<Work> {
        if self.size() == 1 {
            return Ok(Work::ready());
        }
        self.submit(
            kind,
            Order::Collective,
            Location::caller(),
            text,
            move |call| async move {
                let operands: SmallVec<[&Operand; 1]> = x.iter().collect();
                let m = call.open(&operands).await?;
                // Bytes are bytes: dtypes may be mixed.
                for (pack, last) in packs(x.len(), |i| (DType::U8, x[i].bytes)) {
                    let all = &m[pack];
                    if let [one] = all {
                        call.broadcast(one, src, last).await?;
                    } else {
                        let packed = call.pack(all);
                        call.broadcast(&packed, src, last).await?;
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
    #[torsh_tensor::names_caller]
    pub fn all_gather_into_coalesced_(&self, outs: &[Tensor], inputs: &[Tensor]) -> Result<()> {
        self.all_gather_into_coalesced_async(outs, inputs)?.wait()
    }

    /// [`ProcessGroup::all_gather_into_coalesced_`] that does not wait.
    ///
    /// # Errors
    /// As [`ProcessGroup::all_gather_into_async`].
    #[torsh_tensor::names_caller]
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
        let (into, x): (Operands, Operands) = pairs.into_iter().unzip();
        let text = |seq| format!("{OP} #{seq} {}", list(inputs));
        self.all_gather_into_of(OP, into, x, text)
    }

    /// Queues the all-gather of operands, which `text` describes.
    #[track_caller]
    pub(super) fn all_gather_into_of(
        &self,
        kind: &'static str,
        into: Operands,
        x: Operands,
        text: impl FnOnce(u64) -> String,
    ) -> Result<Work> {
        self.submit(
            kind,
            Order::Collective,
            Location::caller(),
            text,
            move |call| async move {
                let n = call.size();
                let operands: SmallVec<[&Operand; 2]> = into.iter().chain(&x).collect();
                let m = call.open(&operands).await?;
                let (outs, inputs) = m.split_at(into.len());
                for (pack, last) in packs(x.len(), |i| (DType::U8, x[i].bytes)) {
                    let (outs, inputs) = (&outs[pack.clone()], &inputs[pack]);
                    if let ([out], [input]) = (outs, inputs) {
                        call.all_gather(&equal_parts(out, n), input, last).await?;
                        continue;
                    }
                    let packed = call.pack(inputs);
                    let all = call.scratch(n * packed.bytes());
                    let parts = equal_parts(&all, n);
                    call.all_gather(&parts, &packed, last).await?;
                    for (r, part) in parts.iter().enumerate() {
                        let places: Vec<Memory> = outs.iter().map(|o| block(o, n, r)).collect();
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
    #[torsh_tensor::names_caller]
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
    #[torsh_tensor::names_caller]
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
        let (into, x): (Operands, Operands) = pairs.into_iter().unzip();
        let text = |seq| format!("{OP}({op}) #{seq} {}", list(inputs));
        self.reduce_scatter_of(OP, into, x, op, text)
    }

    /// Queues the reduce-scatter of operands, which `text` describes.
    #[track_caller]
    pub(super) fn reduce_scatter_of(
        &self,
        kind: &'static str,
        into: Operands,
        x: Operands,
        op: ReduceOp,
        text: impl FnOnce(u64) -> String,
    ) -> Result<Work> {
        self.submit(
            kind,
            Order::Collective,
            Location::caller(),
            text,
            move |call| async move {
                let n = call.size();
                let operands: SmallVec<[&Operand; 2]> = into.iter().chain(&x).collect();
                let m = call.open(&operands).await?;
                let (outs, inputs) = m.split_at(into.len());
                for (pack, last) in packs(x.len(), |i| (x[i].dtype, x[i].bytes)) {
                    let dtype = x[pack.start].dtype;
                    let (outs, inputs) = (&outs[pack.clone()], &inputs[pack]);
                    if let ([out], [input]) = (outs, inputs) {
                        let blocks = equal_parts(input, n);
                        call.reduce_scatter(out, &blocks, dtype, op, last).await?;
                        continue;
                    }
                    let blocks: Vec<Memory> = (0..n)
                        .map(|r| {
                            let of_rank: Vec<Memory> =
                                inputs.iter().map(|i| block(i, n, r)).collect();
                            call.pack(&of_rank)
                        })
                        .collect();
                    let packed = call.scratch(outs.iter().map(Memory::bytes).sum());
                    call.reduce_scatter(&packed, &blocks, dtype, op, last)
                        .await?;
                    unpack(&packed, outs);
                }
                call.close(&operands, m).await
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_packed_up_to_a_size() {
        let of = |all: &[(DType, usize)]| -> Vec<(usize, usize, bool)> {
            packs(all.len(), |i| all[i])
                .map(|(p, last)| (p.start, p.end, last))
                .collect()
        };
        let (a, b) = (DType::F32, DType::I64);
        assert_eq!(of(&[]), []);
        assert_eq!(of(&[(a, PACK + 1)]), [(0, 1, true)]);
        assert_eq!(
            of(&[(a, 8), (a, 0), (b, 8), (a, 8)]),
            [(0, 2, false), (2, 3, false), (3, 4, true)]
        );
        assert_eq!(
            of(&[(a, PACK - 8), (a, 8), (a, 8)]),
            [(0, 2, false), (2, 3, true)]
        );
    }
}
