//! One sharded parameter: its piece, and the memory that its whole values come to.

use torsh_core::alloc::long_lived;
use torsh_nn::Parameter;
use torsh_tensor::devices::reserve;
use torsh_tensor::{DType, Device, HeldStorage, Result, Shared, Storage, Tensor, TorshError};

/// How the rows of a tensor fall to ranks: pieces of the same size, rounded up, so the last ones may be short or empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rows {
    /// All rows.
    pub(crate) total: usize,
    /// Elements of a row.
    pub(crate) width: usize,
    /// Rows of the largest piece.
    pub(crate) chunk: usize,
    /// This rank's first row.
    pub(crate) start: usize,
    /// This rank's rows.
    pub(crate) own: usize,
}

impl Rows {
    /// The share of `rank` of `ranks` of a tensor of this shape. A tensor without dimensions is one row.
    pub(crate) fn of(shape: &[usize], rank: usize, ranks: usize) -> Rows {
        let total = shape.first().copied().unwrap_or(1);
        let width = shape.iter().skip(1).product();
        let chunk = total.div_ceil(ranks.max(1));
        let start = (rank * chunk).min(total);
        Rows {
            total,
            width,
            chunk,
            start,
            own: chunk.min(total - start),
        }
    }

    /// Elements of the largest piece.
    pub(crate) fn padded(&self) -> usize {
        self.chunk * self.width
    }
}

/// The strides of a row-major tensor.
fn strides(shape: &[usize]) -> Vec<usize> {
    let mut stride = vec![1; shape.len()];
    for i in (1..shape.len()).rev() {
        stride[i - 1] = stride[i] * shape[i].max(1);
    }
    stride
}

/// Where the pieces of parameters are whose modules compute on a device, with or without offload to the CPU. Engines carry
/// memory of the CPU, so pieces are nowhere else.
fn home(name: &str, compute: Device, offload: bool) -> Result<Device> {
    match compute {
        Device::Cpu | Device::Meta => Ok(compute),
        _ if offload => Ok(Device::Cpu),
        _ => Err(TorshError::device(
            "fully_shard",
            format!("{name} is on {compute}, and pieces lie on the CPU or the meta device"),
        )
        .with_hint(
            "keep the pieces on the CPU: FullyShardOptions::new().offload_policy(CPUOffloadPolicy::new())",
        )),
    }
}

/// A parameter of a unit.
pub(crate) struct ShardedParam {
    /// The name in the module that was sharded.
    pub(crate) name: String,
    /// The parameter, whose tensor is the piece.
    pub(crate) parameter: Parameter,
    /// The piece: what the optimizer trains.
    pub(crate) piece: Tensor,
    /// The piece's memory, with room for the largest piece of all ranks.
    pub(crate) padded: Tensor,
    /// The shape of the whole.
    pub(crate) shape: Vec<usize>,
    pub(crate) rows: Rows,
    /// What modules see while they run, on the device on which they compute.
    pub(crate) whole: Tensor,
    /// Elements of as many pieces as there are ranks, which the whole's memory has room for.
    pub(crate) room: usize,
    /// The memory that comes and goes; none on the meta device.
    storage: Option<Shared<Storage>>,
}

impl ShardedParam {
    /// Splits a tensor that all ranks have whole. `dtype` is that of the whole while modules run, and the tensor's device
    /// the one on which they do; `offload` keeps the piece on the CPU.
    pub(crate) fn split(
        name: &str,
        full: &Tensor,
        dtype: DType,
        rank: usize,
        ranks: usize,
        offload: bool,
    ) -> Result<ShardedParam> {
        let full = full.detach();
        let shape = full.dims().to_vec();
        let rows = Rows::of(&shape, rank, ranks);
        let device = home(name, full.device(), offload)?;
        let padded = long_lived(|| Tensor::zeros([rows.padded()], full.dtype(), device))?;
        let flat = full.reshape([full.numel()])?;
        let (from, len) = (rows.start * rows.width, rows.own * rows.width);
        if len > 0 && device != Device::Meta {
            padded
                .narrow(0, 0, len)?
                .copy_(&flat.narrow(0, from, len)?)?;
        }
        ShardedParam::of(name, padded, shape, rows, dtype, ranks, full.device())
    }

    /// A parameter without values yet, whose module computes on a device.
    pub(crate) fn empty(
        &self,
        device: Device,
        ranks: usize,
        offload: bool,
    ) -> Result<ShardedParam> {
        let at = home(&self.name, device, offload)?;
        let dtype = self.piece.dtype();
        let padded = long_lived(|| Tensor::zeros([self.rows.padded()], dtype, at))?;
        let new = ShardedParam::of(
            &self.name,
            padded,
            self.shape.clone(),
            self.rows,
            self.whole.dtype(),
            ranks,
            device,
        )?;
        new.piece.set_requires_grad(self.piece.requires_grad())?;
        Ok(new)
    }

    fn of(
        name: &str,
        padded: Tensor,
        shape: Vec<usize>,
        rows: Rows,
        dtype: DType,
        ranks: usize,
        compute: Device,
    ) -> Result<ShardedParam> {
        let room = rows.padded() * ranks;
        let storage = match compute {
            Device::Meta => None,
            device => {
                let storage = Shared::new(reserve(device, room * dtype.size())?);
                storage.release()?;
                Some(storage)
            }
        };
        let whole = match &storage {
            Some(s) => Tensor::from_storage(s.clone(), dtype, &shape, &strides(&shape), 0)?,
            None => Tensor::empty(shape.clone(), dtype, Device::Meta)?,
        };
        let dims: Vec<usize> = match shape.split_first() {
            Some((_, rest)) => [&[rows.own], rest].concat(),
            None if rows.own == 1 => Vec::new(),
            None => vec![0],
        };
        let piece = padded.narrow(0, 0, rows.own * rows.width)?.reshape(dims)?;
        let parameter = Parameter::with_requires_grad(piece, false)?;
        parameter.set_unsharded(&whole)?;
        let piece = parameter.tensor().clone();
        Ok(ShardedParam {
            name: name.to_string(),
            parameter,
            piece,
            padded,
            shape,
            rows,
            whole,
            room,
            storage,
        })
    }

    /// Takes this rank's rows of whole values.
    pub(crate) fn fill(&self, whole: &Tensor) -> Result<()> {
        let (start, own) = (
            self.rows.start * self.rows.width,
            self.rows.own * self.rows.width,
        );
        if own == 0 || self.piece.device() == Device::Meta {
            return Ok(());
        }
        let flat = whole.detach().reshape([whole.numel()])?;
        let to = self.padded.narrow(0, 0, own)?;
        to.copy_(&flat.narrow(0, start, own)?).map(drop)
    }

    /// Whether no rank has any elements.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.padded() == 0
    }

    /// Makes room for the whole.
    pub(crate) fn restore(&self) -> Result<()> {
        self.storage.as_ref().map_or(Ok(()), |s| s.restore())
    }

    /// Gives the whole's memory back.
    pub(crate) fn release(&self) -> Result<()> {
        self.storage.as_ref().map_or(Ok(()), |s| s.release())
    }

    /// The piece as it travels: in the dtype of the whole.
    pub(crate) fn travelling(&self) -> Result<Tensor> {
        match self.padded.dtype() == self.whole.dtype() {
            true => Ok(self.padded.clone()),
            false => self.padded.to_dtype(self.whole.dtype()),
        }
    }

    /// Where all pieces come to: in host memory, which is what engines carry.
    pub(crate) fn buffer(&self) -> Result<Tensor> {
        Tensor::empty([self.room], self.whole.dtype(), self.padded.device())
    }

    /// Makes room for the whole with the pieces' values, on the device on which modules compute. That counts as no write:
    /// the graph may have saved the whole, and its values are those from before.
    pub(crate) fn come_back(&self, buffer: &Tensor) -> Result<()> {
        let Some(to) = &self.storage else {
            return Ok(());
        };
        // Whoever still holds it lets go of it soon.
        let from = loop {
            match HeldStorage::try_new(buffer.untyped_storage()?, false) {
                Some(held) => break held,
                None => std::thread::yield_now(),
            }
        };
        let n = self.room * self.whole.dtype().size();
        match from.bytes().get(..n) {
            Some(from) => to.restore_with(from),
            None => Err(TorshError::shape(
                "fully_shard",
                format!(
                    "the pieces of {} are not as many bytes as its whole",
                    self.name
                ),
            )),
        }
    }

    /// Refuses a gradient of the whole that is not strided: ranks add up pieces of its rows.
    pub(crate) fn check_layout(&self, module: &str, grad: &Tensor) -> Result<()> {
        if grad.layout().is_strided() {
            return Ok(());
        }
        Err(TorshError::invalid(
            "fully_shard",
            format!(
                "the gradient of the parameter {} of {module} has the layout {}, and pieces are added up of strided gradients",
                self.name,
                grad.layout()
            ),
        )
        .with_hint("leave sparse at false in Embedding and EmbeddingBag, and sparse_grad in gather; or train the model with DistributedDataParallel, which averages COO gradients"))
    }

    /// A gradient of the whole, flat, with zeros up to the room of all pieces, in `dtype` and where the pieces are.
    pub(crate) fn flat_grad(&self, grad: Option<Tensor>, dtype: DType) -> Result<Tensor> {
        let (room, device) = (self.room, self.padded.device());
        let Some(g) = grad else {
            return Tensor::zeros([room], dtype, device);
        };
        let g = g.to_device(device)?;
        let n = g.numel();
        if n == room {
            return g.to_dtype(dtype)?.contiguous()?.reshape([room]);
        }
        let out = Tensor::empty([room], dtype, device)?;
        out.narrow(0, 0, n)?.copy_(&g.reshape([n])?)?;
        out.narrow(0, n, room - n)?.fill_(0.0)?;
        Ok(out)
    }

    /// Adds this rank's share of a reduced gradient, which lies at the front of `flat`, to the piece's gradient.
    pub(crate) fn add_grad(&self, flat: &Tensor) -> Result<()> {
        let own = flat.narrow(0, 0, self.rows.own * self.rows.width)?;
        let share = long_lived(|| own.to_dtype(self.piece.dtype()))?
            .reshape(self.piece.dims())?
            .detach();
        match self.piece.grad() {
            Some(have) => have.add_(&share).map(drop),
            None => self.piece.set_grad(Some(share)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_fall_as_chunks_that_are_rounded_up() {
        let own = |shape: &[usize], ranks| -> Vec<(usize, usize)> {
            (0..ranks)
                .map(|r| Rows::of(shape, r, ranks))
                .map(|r| (r.start, r.own))
                .collect()
        };
        assert_eq!(own(&[7, 2], 4), [(0, 2), (2, 2), (4, 2), (6, 1)]);
        assert_eq!(own(&[5], 4), [(0, 2), (2, 2), (4, 1), (5, 0)]);
        assert_eq!(own(&[1, 3], 3), [(0, 1), (1, 0), (1, 0)]);
        assert_eq!(own(&[], 2), [(0, 1), (1, 0)]);
        assert_eq!(own(&[0, 3], 2), [(0, 0), (0, 0)]);
        assert_eq!(Rows::of(&[7, 2, 3], 0, 4).padded(), 12);
    }
}
