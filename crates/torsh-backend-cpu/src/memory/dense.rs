//! Operands as kernels with loops of their own want them: row-major, in one of few dtypes.

use std::marker::PhantomData;

use torsh_core::alloc::{Block, allocate};
use torsh_core::{DType, Kernel, KernelArgs, Result, TorshError, View, shape};

/// An address on its way to other threads.
pub(crate) struct Ptr<T>(*mut T);

impl<T> Clone for Ptr<T> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Ptr<T> {}
// SAFETY: what it points at is only read, or written in disjoint parts.
unsafe impl<T> Send for Ptr<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Ptr<T> {}

impl<T> Ptr<T> {
    /// The address, marked as shared.
    #[inline]
    pub fn new(ptr: *mut T) -> Ptr<T> {
        Ptr(ptr)
    }
    /// The address.
    #[inline]
    pub fn get(&self) -> *mut T {
        self.0
    }
    /// The address `offset` elements on, which must be within the same memory.
    #[inline]
    pub fn at(&self, offset: isize) -> *mut T {
        self.0.wrapping_offset(offset)
    }
}

/// Uninitialised scratch memory for `n` values. In a debug build all its bits are set, which is NaN for floats: a kernel
/// that reads what it has not written then gives NaN, not what a former user of the memory left there.
pub(crate) struct Scratch<T> {
    block: Block,
    of: PhantomData<T>,
}

impl<T> Scratch<T> {
    /// Memory for `n` values.
    pub fn new(n: usize) -> Result<Scratch<T>> {
        let bytes = n
            .checked_mul(size_of::<T>())
            .ok_or_else(|| TorshError::out_of_memory(torsh_core::Device::Cpu, usize::MAX))?;
        let block = allocate(bytes)?;
        if cfg!(debug_assertions) {
            // SAFETY: the block has so many bytes.
            unsafe { block.ptr().as_ptr().write_bytes(u8::MAX, bytes) };
        }
        Ok(Scratch {
            block,
            of: PhantomData,
        })
    }
    /// Its start, 64-byte aligned.
    #[inline]
    pub fn ptr(&self) -> *mut T {
        self.block.ptr().as_ptr().cast()
    }
}

/// Runs the copy kernel: any layout and dtype to any other.
pub(crate) fn copy(from: &View<'_>, to: &View<'_>) -> Result<()> {
    // SAFETY: a copy takes any two dtypes and layouts of one shape.
    let args = unsafe {
        KernelArgs::new(
            Kernel::Copy,
            to.dtype(),
            std::slice::from_ref(to),
            std::slice::from_ref(from),
            torsh_core::attrs::NONE,
        )
    };
    crate::kernels::copy::copy(&args)
}

/// An input as row-major elements of a dtype: itself where it is that already, else a copy.
pub(crate) struct Dense {
    ptr: Ptr<u8>,
    _block: Option<Scratch<u8>>,
}

impl Dense {
    /// The elements of `v` as `dtype`.
    pub fn new(v: &View<'_>, dtype: DType) -> Result<Dense> {
        if v.dtype() == dtype && v.is_contiguous() {
            return Ok(Dense {
                ptr: Ptr(v.ptr()),
                _block: None,
            });
        }
        let block = Scratch::<u8>::new(v.numel() * dtype.size())?;
        let strides = shape::Shape::new(v.shape()).contiguous_strides();
        copy(
            v,
            // SAFETY: the block has an element for each of the view's, row-major.
            &unsafe { View::new(block.ptr(), dtype, v.shape(), &strides) },
        )?;
        Ok(Dense {
            ptr: Ptr(block.ptr()),
            _block: Some(block),
        })
    }

    /// The elements of an optional input; `None` where it is absent.
    pub fn optional(v: Option<&View<'_>>, dtype: DType) -> Result<Option<Dense>> {
        match v {
            Some(v) if v.is_present() => Dense::new(v, dtype).map(Some),
            _ => Ok(None),
        }
    }

    /// Their address; `T` must be the dtype's type.
    #[inline]
    pub fn ptr<T>(&self) -> Ptr<T> {
        Ptr(self.ptr.get().cast())
    }
}

/// An output as row-major elements of a dtype: itself where it is that already, else a scratch
/// copy that [`DenseOut::finish`] puts in place.
pub(crate) struct DenseOut<'a> {
    view: View<'a>,
    dtype: DType,
    block: Option<Scratch<u8>>,
}

impl<'a> DenseOut<'a> {
    /// Memory for the elements of `v` as `dtype`.
    pub fn new(v: &View<'a>, dtype: DType) -> Result<DenseOut<'a>> {
        let direct = v.dtype() == dtype && v.is_contiguous();
        let block = match direct {
            true => None,
            false => Some(Scratch::new(v.numel() * dtype.size())?),
        };
        Ok(DenseOut {
            view: *v,
            dtype,
            block,
        })
    }

    /// The memory for an optional output; `None` where it is not wanted.
    pub fn optional(v: Option<&View<'a>>, dtype: DType) -> Result<Option<DenseOut<'a>>> {
        match v {
            Some(v) if v.is_present() => DenseOut::new(v, dtype).map(Some),
            _ => Ok(None),
        }
    }

    /// Its address; `T` must be the dtype's type.
    #[inline]
    pub fn ptr<T>(&self) -> Ptr<T> {
        match &self.block {
            Some(block) => Ptr(block.ptr().cast()),
            None => Ptr(self.view.ptr().cast()),
        }
    }

    /// Puts what was computed in scratch memory in its place.
    pub fn finish(self) -> Result<()> {
        let Some(block) = self.block else {
            return Ok(());
        };
        let strides = shape::Shape::new(self.view.shape()).contiguous_strides();
        // SAFETY: the block was made for the view's elements, row-major.
        let from = unsafe { View::new(block.ptr(), self.dtype, self.view.shape(), &strides) };
        copy(&from, &self.view)
    }
}

/// The dtype that the heavy kernels compute in: `float32` for the half types, else itself.
#[inline]
pub(crate) fn wide(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::BF16 => DType::F32,
        d => d,
    }
}

/// `v` as the half types hold it; itself for every other dtype.
#[inline]
pub(crate) fn rounded(v: f64, dtype: DType) -> f64 {
    match dtype {
        DType::F16 => half::f16::from_f64(v).to_f64(),
        DType::BF16 => half::bf16::from_f64(v).to_f64(),
        _ => v,
    }
}
