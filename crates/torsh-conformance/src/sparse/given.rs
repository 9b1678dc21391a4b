//! Sparse tensors of a call as ToRSh's own, and back.

use torsh_core::Device;
use torsh_tensor::sparse::{Pattern, from_values, values};
use torsh_tensor::{Tensor, TensorLayout};

use crate::layouts::Memory;
use crate::parts::{Kind, Operand, Parts};
use crate::tensors::{Dtype, TensorData};
use crate::torsh::{Given, data, layout, tensor, text};

impl Parts<Memory> {
    /// The tensor on a device, a leaf.
    pub(crate) fn tensor(&self, device: Device) -> Result<Tensor, String> {
        let indices = self.indices.iter().map(|part| tensor(part, device));
        let indices = indices.collect::<Result<Vec<_>, _>>()?;
        let pattern = match (self.kind, &indices[..]) {
            (Kind::Coo, [indices]) => Pattern::coo(&self.shape, indices, self.coalesced),
            (kind, [compressed, plain]) => Pattern::compressed(
                layout(kind.name())?,
                &self.shape,
                compressed,
                plain,
                self.block()?,
                self.dense_dim,
            ),
            _ => return Err("a tensor with other parts than its layout has".to_string()),
        };
        let stored = tensor(&self.values, device)?;
        let whole = from_values(&pattern.map_err(text)?, &stored).map_err(text)?;
        if self.requires_grad {
            whole.set_requires_grad(true).map_err(text)?;
        }
        Ok(whole)
    }

    /// The sizes of blocks.
    fn block(&self) -> Result<Option<[usize; 2]>, String> {
        if !self.kind.is_blocked() {
            return Ok(None);
        }
        let batch = self
            .indices
            .first()
            .map_or(0, |c| c.shape.len().saturating_sub(1));
        match self.values.shape.get(batch + 1..batch + 3) {
            Some(&[tall, broad]) => Ok(Some([tall, broad])),
            _ => Err("values without blocks".to_string()),
        }
    }
}

impl Given for Operand<Memory> {
    type Data = Operand;

    fn tensor(&self, device: Device) -> Result<Tensor, String> {
        match self {
            Operand::Strided(memory) => tensor(memory, device),
            Operand::Sparse(parts) => parts.tensor(device),
        }
    }

    fn requires_grad(&self) -> bool {
        match self {
            Operand::Strided(memory) => memory.requires_grad,
            Operand::Sparse(parts) => parts.requires_grad,
        }
    }

    fn read(tensor: &Tensor) -> Result<Operand, String> {
        let kind = match tensor.layout() {
            TensorLayout::Strided => return data(tensor).map(Operand::Strided),
            other => {
                let name = other.name().trim_start_matches("sparse_");
                Kind::from_name(name).ok_or_else(|| format!("a result of layout {name}"))?
            }
        };
        let pattern = tensor
            .pattern()
            .ok_or("a sparse result without a pattern")?;
        let indices = match (pattern.compressed_indices(), pattern.plain_indices()) {
            (Some(compressed), Some(plain)) => vec![data(compressed)?, data(plain)?],
            _ => vec![data(pattern.indices())?],
        };
        let name = tensor.dtype().name();
        let shape = tensor.shape().dims().to_vec();
        if pattern.shape().dims() != shape {
            let inner = pattern.shape().dims();
            return Err(format!(
                "a result of shape {shape:?} with a pattern of shape {inner:?}"
            ));
        }
        Ok(Operand::Sparse(Box::new(Parts {
            kind,
            shape,
            dtype: Dtype::from_name(name).ok_or_else(|| format!("a result of dtype {name}"))?,
            dense_dim: pattern.dense_dim(),
            coalesced: pattern.is_coalesced(),
            indices,
            values: data(&values(tensor).map_err(text)?)?,
            requires_grad: tensor.requires_grad(),
        })))
    }

    fn number(data: TensorData) -> Operand {
        Operand::Strided(data)
    }
}
