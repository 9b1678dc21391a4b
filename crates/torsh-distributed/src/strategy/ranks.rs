//! What the ranks of a training run tell one another.

use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use parking_lot::Mutex;
use torsh_serialize::Value;
use torsh_tensor::{DType, Device, Result, Tensor, TorshError};
use torsh_train::{Checkpoint, RunParts, Stateful};

use super::codec;
use crate::{ProcessGroup, ReduceOp};

/// All ranks of a run, and those that read different data.
#[derive(Clone)]
pub(super) struct Ranks {
    pub(super) all: ProcessGroup,
    pub(super) data: ProcessGroup,
}

/// Whether any rank of a group says yes.
pub(super) fn any(group: &ProcessGroup, answers: &mut [bool]) -> Result<()> {
    if group.size() == 1 || answers.is_empty() {
        return Ok(());
    }
    let said: Vec<u8> = answers.iter().map(|&a| u8::from(a)).collect();
    let said = Tensor::from_slice(&said, [said.len()], DType::U8, Device::Cpu)?;
    group.all_reduce_(&said, ReduceOp::Max)?;
    for (answer, said) in answers.iter_mut().zip(said.to_vec::<u8>()?) {
        *answer = said > 0;
    }
    Ok(())
}

/// The values of all ranks of a group, in their order.
pub(super) fn gather(group: &ProcessGroup, value: &Value) -> Result<Vec<Value>> {
    if group.size() == 1 {
        return Ok(vec![value.clone()]);
    }
    let bytes = codec::encode(value)?;
    let bytes = Tensor::from_slice(&bytes, [bytes.len()], DType::U8, Device::Cpu)?;
    let all = group.all_gather(&bytes)?;
    all.iter()
        .map(|t| codec::decode(&t.to_vec::<u8>()?))
        .collect()
}

impl Ranks {
    /// The ranks of a group, each with data of its own.
    pub(super) fn of(group: &ProcessGroup) -> Ranks {
        Ranks {
            all: group.clone(),
            data: group.clone(),
        }
    }

    pub(super) fn sum(&self, values: &mut [f64]) -> Result<()> {
        if self.data.size() == 1 || values.is_empty() {
            return Ok(());
        }
        let sums = Tensor::from_slice(values, [values.len()], DType::F64, Device::Cpu)?;
        self.data.all_reduce_(&sums, ReduceOp::Sum)?;
        values.copy_from_slice(&sums.to_vec::<f64>()?);
        Ok(())
    }

    pub(super) fn any(&self, answers: &mut [bool]) -> Result<()> {
        any(&self.all, answers)
    }

    /// What a rank made, where all of them could; else the first rank's error on all.
    fn agreed<T>(&self, made: Result<T>) -> Result<T> {
        let own = made.as_ref().err().map(|e| e.to_string());
        let all = self.all.all_gather_object(&own)?;
        let first = all
            .iter()
            .enumerate()
            .find_map(|(r, e)| Some((r, e.as_ref()?)));
        match (made, first) {
            (Ok(_), Some((rank, why))) => Err(TorshError::Other(format!("rank {rank}: {why}"))),
            (made, _) => made,
        }
    }

    /// Rank 0 writes a run of which it has everything.
    pub(super) fn save_whole(
        &self,
        parts: &RunParts<'_>,
        rest: &Checkpoint,
        path: &Path,
    ) -> Result<()> {
        let write = || {
            let whole = parts.whole(rest)?;
            match path.extension() {
                Some(_) => whole.save(path),
                None => whole.save_folder(path),
            }
        };
        let saved = match self.all.rank() {
            0 => write(),
            _ => Ok(()),
        };
        self.agreed(saved)
    }

    /// All ranks read what rank 0 wrote.
    pub(super) fn load_whole(&self, parts: &RunParts<'_>, path: &Path) -> Result<Checkpoint> {
        let whole = self.agreed(Checkpoint::load(path))?;
        let restored = parts.restore(&whole);
        self.agreed(restored)?;
        Ok(whole)
    }
}

/// A checkpoint with rank 0's time.
pub(super) fn same_time(group: &ProcessGroup, checkpoint: &Checkpoint) -> Result<Checkpoint> {
    let since = checkpoint.timestamp.duration_since(UNIX_EPOCH);
    let millis = since.unwrap_or_default().as_millis() as u64;
    let millis: u64 = group.broadcast_object(Some(&millis), 0)?;
    let time = UNIX_EPOCH + Duration::from_millis(millis);
    Ok(checkpoint.clone().timestamp(time))
}

/// What is the same on all ranks of a run, as a part of its checkpoint.
#[derive(Default)]
pub(super) struct Rest(Mutex<Option<Value>>);

impl Rest {
    pub(super) fn of(checkpoint: Checkpoint) -> Rest {
        Rest(Mutex::new(Some(checkpoint.into_value())))
    }

    pub(super) fn into_checkpoint(self) -> Result<Checkpoint> {
        let Some(value) = self.0.into_inner() else {
            return Err(TorshError::invalid(
                "Trainer::resume",
                "the checkpoint is not of a trainer",
            ));
        };
        Checkpoint::try_from(value)
    }
}

impl Stateful for Rest {
    #[track_caller]
    fn save_state(&self) -> Result<Value> {
        Ok(self.0.lock().clone().unwrap_or(Value::None))
    }

    #[torsh_tensor::names_caller]
    fn load_state(&self, state: &Value) -> Result<()> {
        *self.0.lock() = Some(state.clone());
        Ok(())
    }
}
