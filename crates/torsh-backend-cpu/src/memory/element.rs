//! Elements in memory, of which only the size is known.

/// An element at any address; memory from elsewhere need not be aligned.
#[derive(Clone, Copy)]
#[repr(C, packed)]
pub(crate) struct Packed<T>(pub T);

/// Addresses on their way to other threads.
#[derive(Clone, Copy)]
pub(crate) struct Addresses<P, const N: usize>(pub [P; N]);
// SAFETY: what they point at is only read, or written in disjoint parts.
unsafe impl<const N: usize> Sync for Addresses<*mut u8, N> {}
// SAFETY: as above.
unsafe impl<const N: usize> Sync for Addresses<*const u8, N> {}
impl<P, const N: usize> Addresses<P, N> {
    #[inline]
    pub fn get(&self) -> &[P; N] {
        &self.0
    }
}

/// Calls `$f::<T>($args)` with the unsigned integer `T` of `$size` bytes.
macro_rules! by_size {
    ($size:expr, $f:ident($($arg:expr),* $(,)?)) => {
        match $size {
            1 => $f::<u8>($($arg),*),
            2 => $f::<u16>($($arg),*),
            4 => $f::<u32>($($arg),*),
            8 => $f::<u64>($($arg),*),
            _ => $f::<u128>($($arg),*),
        }
    };
}
pub(crate) use by_size;
