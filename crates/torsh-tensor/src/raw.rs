//! The few places where the tensor crate itself touches memory.

use crate::Tensor;
use crate::call::element_ptr;
use torsh_core::Element;

/// Fills a fresh row-major host tensor from memory of exactly its size.
pub(crate) fn write_bytes(t: &Tensor, from: *const u8, bytes: usize) {
    assert_eq!(bytes, t.numel() * t.dtype().size());
    if bytes == 0 {
        return;
    }
    // SAFETY: `t` is fresh, row-major and on the host, so its first `bytes` bytes are valid and
    // nobody else has them; `from` is a slice of `bytes` bytes of the caller.
    unsafe { std::ptr::copy_nonoverlapping(from, element_ptr(t), bytes) }
}

/// Copies the bytes of a row-major host tensor, whose storage the caller has locked.
pub(crate) fn read_bytes(t: &Tensor, to: &mut [u8]) {
    assert_eq!(to.len(), t.numel() * t.dtype().size());
    if to.is_empty() {
        return;
    }
    // SAFETY: the elements of a row-major tensor are this many valid bytes from its first
    // element on, initialised by the kernel that made it, and locked against writers.
    unsafe { std::ptr::copy_nonoverlapping(element_ptr(t), to.as_mut_ptr(), to.len()) }
}

/// Copies the elements of a row-major host tensor of dtype `T`, whose storage the caller has
/// locked.
pub(crate) fn read_elements<T: Element>(t: &Tensor, to: &mut [T]) {
    assert_eq!(to.len(), t.numel());
    assert_eq!(t.dtype(), T::DTYPE);
    if to.is_empty() {
        return;
    }
    // SAFETY: as in `read_bytes`; the dtype is `T`'s, whose every stored pattern is valid.
    unsafe { std::ptr::copy_nonoverlapping(element_ptr(t).cast::<T>(), to.as_mut_ptr(), to.len()) }
}

/// One element of a host tensor, at a position in its storage that its layout reaches; the caller
/// has locked the storage.
pub(crate) fn read_at(t: &Tensor, position: usize) -> torsh_core::Scalar {
    let size = t.dtype().size();
    assert!((position + 1) * size <= t.storage().bytes());
    let mut raw = [0u8; 16];
    // SAFETY: the element lies inside the storage (asserted) and is locked against writers.
    unsafe {
        std::ptr::copy_nonoverlapping(
            t.storage().ptr().add(position * size),
            raw.as_mut_ptr(),
            size,
        )
    }
    torsh_core::Scalar::from_bytes(&raw, t.dtype())
}
