//! Tensors of operations: checked on the caller's thread, opened on the communication thread.

use smallvec::SmallVec;
use torsh_tensor::{DType, Device, Result, Shared, Storage, Tensor, TorshError};

use crate::comm::{Call, Memory};
use crate::group::ProcessGroup;

/// A tensor that an operation reads or writes.
///
/// A tensor that is not contiguous is copied at the call. Its copy is written, and brought back at the end.
pub(crate) struct Operand {
    storage: Shared<Storage>,
    start: usize,
    pub(crate) bytes: usize,
    pub(crate) dtype: DType,
    write: bool,
    is_meta: bool,
    back: Option<Back>,
}

/// The operands of an operation; most have one.
pub(crate) type Operands = SmallVec<[Operand; 1]>;

/// The tensor that a copy stands for.
struct Back {
    storage: Shared<Storage>,
    shape: Vec<usize>,
    strides: Vec<isize>,
    offset: usize,
}

impl Operand {
    /// Checks a tensor. One that is written counts as changed in place from now on.
    pub(crate) fn new(
        op: &'static str,
        t: &Tensor,
        write: bool,
        group: &ProcessGroup,
    ) -> Result<Operand> {
        if !t.layout().is_strided() {
            let message = format!(
                "{} has the layout {}, and engines carry strided tensors",
                t.describe(),
                t.layout()
            );
            return Err(TorshError::invalid(op, message).with_hint(
                "send its indices and its values, or what to_dense() gives; DistributedDataParallel averages COO gradients",
            ));
        }
        let is_meta = t.device() == Device::Meta;
        let fake = group.node().is_fake();
        if t.device() != Device::Cpu && !(is_meta && fake) {
            let message = format!(
                "engine {} carries tensors of the cpu, and {} is on {}",
                group.engine(),
                t.describe(),
                t.device()
            );
            return Err(TorshError::device(op, message).with_hint(
                "bring it to the cpu with to_device(Device::Cpu); meta tensors are for fake groups",
            ));
        }
        if t.untyped_storage()?.is_released() {
            let message = format!("the memory of {} was given back", t.describe());
            return Err(TorshError::invalid(op, message)
                .with_hint("gather the whole values of a sharded parameter first"));
        }
        let bytes = t.numel() * t.dtype().size();
        let mut operand = Operand {
            storage: t.untyped_storage()?.clone(),
            start: t.storage_offset() * t.dtype().size(),
            bytes,
            dtype: t.dtype(),
            write,
            is_meta,
            back: None,
        };
        if bytes == 0 || is_meta {
            return Ok(operand);
        }
        if write {
            let folded = |(&n, &s): (&usize, &isize)| n > 1 && s == 0;
            if t.dims().iter().zip(t.stride()).any(folded) {
                let message = format!(
                    "{} has elements that share memory, and the operation writes it",
                    t.describe()
                );
                return Err(TorshError::invalid(op, message).with_hint("call contiguous() first"));
            }
            t.untyped_storage()?.bump_version();
        }
        if !t.is_contiguous()? {
            let copy = t.detach().contiguous()?;
            if write {
                operand.back = Some(Back {
                    storage: operand.storage,
                    shape: t.dims().to_vec(),
                    strides: t.stride().to_vec(),
                    offset: t.storage_offset(),
                });
            }
            operand.storage = copy.untyped_storage()?.clone();
            operand.start = copy.storage_offset() * copy.dtype().size();
        }
        Ok(operand)
    }

    /// All operands of one kind.
    pub(crate) fn all(
        op: &'static str,
        tensors: &[Tensor],
        write: bool,
        group: &ProcessGroup,
    ) -> Result<Operands> {
        tensors
            .iter()
            .map(|t| Operand::new(op, t, write, group))
            .collect()
    }

    /// Whether two share memory other than being the same bytes as `allowed`, the start and length in `self`.
    pub(crate) fn overlaps(&self, other: &Operand, allowed: Option<(usize, usize)>) -> bool {
        if !Shared::ptr_eq(&self.storage, &other.storage) || self.bytes == 0 || other.bytes == 0 {
            return false;
        }
        if let Some((start, len)) = allowed
            && self.start + start == other.start
            && len == other.bytes
        {
            return false;
        }
        self.start < other.start + other.bytes && other.start < self.start + self.bytes
    }
}

impl Call {
    /// Opens operands: their bytes, which stay the operation's as long as the memories live.
    pub(crate) async fn open(&self, operands: &[&Operand]) -> Result<Vec<Memory>> {
        let there = |o: &&&Operand| o.bytes > 0 && !o.is_meta;
        let storages: Vec<(&Shared<Storage>, bool)> = operands
            .iter()
            .filter(there)
            .map(|o| (&o.storage, o.write))
            .collect();
        let mut held = self.hold(&storages).await?.into_iter();
        operands
            .iter()
            .map(|o| match there(&o) {
                true => {
                    let next = held.next();
                    let next =
                        next.ok_or_else(|| TorshError::invalid("", "a storage is missing"))?;
                    Memory::of_held(&next, o.start, o.bytes)
                }
                false => Ok(Memory::nothing(o.bytes)),
            })
            .collect()
    }

    /// Brings the copies of tensors that are not contiguous back.
    pub(crate) async fn close(&self, operands: &[&Operand], memories: Vec<Memory>) -> Result<()> {
        // The others' storages are free before this waits for one.
        let copies: Vec<(&Operand, &Back, Memory)> = operands
            .iter()
            .zip(memories)
            .filter_map(|(o, m)| Some((*o, o.back.as_ref()?, m)))
            .collect();
        for (operand, back, memory) in copies {
            let held = self.hold(&[(&back.storage, true)]).await?;
            if let Some(held) = held.first() {
                let whole = Memory::of_held(held, 0, back.storage.bytes())?;
                let size = operand.dtype.size();
                whole.scatter_elements(&memory, &back.shape, &back.strides, back.offset, size);
            }
        }
        Ok(())
    }
}
