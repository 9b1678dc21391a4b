//! Sizes of windows over one to three spatial dimensions, as the loops over depth, rows and columns
//! want them: always three.

use torsh_core::Result;

use crate::memory::operands::missing;

/// Depth, height and width; those not given (the leading ones) are `fill`.
pub(crate) fn three<T: Copy + TryInto<usize>>(sizes: &[T], fill: usize) -> Result<[usize; 3]> {
    let mut out = [fill; 3];
    let from = 3usize.checked_sub(sizes.len()).ok_or_else(missing)?;
    for (out, &size) in out[from..].iter_mut().zip(sizes) {
        *out = size.try_into().map_err(|_| missing())?;
    }
    Ok(out)
}
