//! Tensors of elements that others have: sparse ones of their parts, and one's elements at another place in the graph.

use std::sync::Arc;

use torsh_core::{DType, Layout, OnceBox, Result, Shape, Shared, Strides};

use super::{Inner, Meta, Tensor};
use crate::memory::{Memory, Parts, Pattern};

impl Tensor {
    /// A sparse tensor of these parts, without history.
    pub(crate) fn of_parts(pattern: &Pattern, values: &Tensor) -> Result<Tensor> {
        let parts = Arc::new(Parts::new(pattern, values)?);
        let shape = pattern.shape().clone();
        Ok(Tensor::around(parts, shape, values.dtype(), OnceBox::new()).made())
    }

    /// Another tensor of the same elements, with this place in the graph.
    pub(crate) fn with_place(&self, meta: Option<Meta>) -> Tensor {
        let meta = match meta {
            Some(meta) => OnceBox::with(|| meta),
            None => OnceBox::new(),
        };
        match &self.0.memory {
            Memory::Parts(parts) => {
                Tensor::around(parts.clone(), self.shape().clone(), self.dtype(), meta)
            }
            memory => Tensor(Shared::with(|| Inner {
                memory: memory.shared(),
                layout: self.0.layout.clone(),
                dtype: self.0.dtype,
                contiguous: self.0.contiguous,
                meta,
            })),
        }
    }

    fn around(parts: Arc<Parts>, shape: Shape, dtype: DType, meta: OnceBox<Meta>) -> Tensor {
        // Strides that reach one place alone: no code that reads them by mistake leaves the storage or overflows.
        let strides = Strides::from_elem(0, shape.ndim());
        Tensor(Shared::with(|| Inner {
            memory: Memory::Parts(parts),
            layout: Layout::new(shape, strides, 0),
            dtype,
            contiguous: false,
            meta,
        }))
    }
}
