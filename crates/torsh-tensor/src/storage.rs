//! Tensors on external storages, such as mapped files.

use torsh_core::{DType, Layout, Result, Shape, Shared, Storage, TorshError};

use crate::Tensor;

/// The multiple of bytes at which an element of a dtype begins: complex numbers as their parts.
pub(crate) fn alignment(dtype: DType) -> usize {
    match dtype.is_complex() {
        true => dtype.size() / 2,
        false => dtype.size(),
    }
}

/// Whether a storage begins where elements of a dtype may. Devices align what they allocate.
pub(crate) fn aligned_for(storage: &Storage, dtype: DType) -> bool {
    let nothing = storage.bytes() == 0 || storage.device() == torsh_core::Device::Meta;
    nothing || (storage.ptr() as usize).is_multiple_of(alignment(dtype))
}

impl Tensor {
    /// A tensor on memory that is there: `shape` with `stride`, in elements, from element
    /// `storage_offset` on (`Tensor.set_`). Tensors made on one storage are views of each other's
    /// data, but not for automatic differentiation.
    ///
    /// An error where an element would lie outside of the storage, the memory is not aligned for
    /// the dtype, or a stride is negative. Any byte is a bool: 0 is false, all others are true.
    ///
    /// ```
    /// use torsh_tensor::{DType, Shared, Storage, Tensor};
    ///
    /// let storage = Shared::new(Storage::filled(6, |bytes| {
    ///     bytes.copy_from_slice(&[1, 2, 3, 4, 5, 6]);
    ///     Ok(())
    /// })?);
    /// let columns = Tensor::from_storage(storage, DType::U8, &[3, 2], &[1, 3], 0)?;
    /// assert_eq!(columns.to_vec::<u8>()?, [1, 4, 2, 5, 3, 6]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn from_storage(
        storage: Shared<Storage>,
        dtype: DType,
        shape: &[usize],
        stride: &[usize],
        storage_offset: usize,
    ) -> Result<Tensor> {
        let at = std::panic::Location::caller();
        let wrong = |why: String| TorshError::invalid("from_storage", why);
        if shape.len() != stride.len() {
            return Err(wrong(format!(
                "{} sizes need as many strides, not {}",
                shape.len(),
                stride.len()
            )));
        }
        let dims = Shape::new(shape);
        let numel = dims
            .checked_numel(dtype.size())
            .map_err(|e| e.in_op("from_storage", Vec::new, at))?;
        // One past the last element, or the first where there is none.
        let end = if numel == 0 {
            Some(storage_offset)
        } else {
            shape
                .iter()
                .zip(stride)
                .try_fold(storage_offset, |last, (&n, &s)| {
                    last.checked_add((n - 1).checked_mul(s)?)
                })
                .and_then(|last| last.checked_add(1))
        };
        let reached = end.and_then(|end| end.checked_mul(dtype.size()));
        if reached.is_none_or(|bytes| bytes > storage.bytes())
            || stride.iter().any(|&s| isize::try_from(s).is_err())
        {
            return Err(wrong(format!(
                "{dtype}{dims} with strides {stride:?} from element {storage_offset} on leaves its storage of {} bytes",
                storage.bytes()
            )));
        }
        if !aligned_for(&storage, dtype) {
            return Err(wrong(format!("the memory is not aligned for {dtype}")));
        }
        let strides = stride.iter().map(|&s| s as isize).collect();
        let t = Tensor::from_parts(storage, Layout::new(dims, strides, storage_offset), dtype);
        if crate::mode::is_inference_mode() {
            t.meta_or_new();
        }
        Ok(t)
    }

    /// The memory this tensor lies in, shared with its views (`Tensor.untyped_storage`).
    ///
    /// ```
    /// let t = torsh_tensor::zeros(&[2, 3]);
    /// assert_eq!(t.untyped_storage()?.bytes(), 24);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// A sparse tensor, whose parts have a storage each.
    #[torsh_tensor::names_caller]
    pub fn untyped_storage(&self) -> Result<&Shared<Storage>> {
        match self.is_strided() {
            true => Ok(self.storage()),
            false => Err(TorshError::invalid(
                "untyped_storage",
                format!(
                    "{} has the layout {}: its elements do not lie in one memory",
                    self.describe(),
                    self.layout()
                ),
            )
            .with_hint("ask for the storage of its values() or of its indices")),
        }
    }
}
