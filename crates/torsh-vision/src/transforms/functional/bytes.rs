//! Loops over images of bytes.

use torsh_backend_cpu::shares::share_chunks;
use torsh_tensor::{DType, Result, Tensor};

use super::tuning::{COLORS, LOOKED_UP};

/// Calls `f` with the number and the elements of each piece of `out`, of `piece` elements, on the pool's threads; the
/// last one may be shorter. `cost` is what an element costs, in eighths of a nanosecond.
pub(crate) fn pieces<T: Send>(
    out: &mut [T],
    piece: usize,
    cost: usize,
    f: impl Fn(usize, &mut [T]) + Sync,
) {
    share_chunks(out, piece, piece.saturating_mul(cost.max(1)) / 8, f);
}

/// The elements of an image of bytes, changed by `f`, in the same shape.
pub(crate) fn changed(image: &Tensor, f: impl FnOnce(&mut [u8])) -> Result<Tensor> {
    let mut data = image.to_vec::<u8>()?;
    f(&mut data);
    like(image, &data, image.dims())
}

/// Bytes as a tensor on the device of another.
pub(crate) fn like(image: &Tensor, data: &[u8], shape: &[usize]) -> Result<Tensor> {
    Tensor::from_bytes(data, DType::U8, shape)?.to_device(image.device())
}

/// Each byte by a table.
pub(crate) fn by_table(image: &Tensor, table: impl Fn(u8) -> u8) -> Result<Tensor> {
    let table: [u8; 256] = std::array::from_fn(|i| table(i as u8));
    changed(image, |data| {
        pieces(data, LOOKED_UP, 1, |_, part| look_up(&table, part));
    })
}

pub(crate) fn look_up(table: &[u8; 256], data: &mut [u8]) {
    for v in data {
        *v = table[usize::from(*v)];
    }
}

/// A number from 0 to 255 without its fraction.
#[inline(always)]
pub(crate) fn byte(v: f32) -> u8 {
    v.clamp(0.0, 255.0) as u8
}

/// The three planes of each image of `data`, split into pieces of the same pixels, with the piece of each plane: `f`
/// changes red, green and blue.
pub(crate) fn colors(
    data: &mut [u8],
    area: usize,
    cost: usize,
    f: impl Fn(&mut [u8], &mut [u8], &mut [u8]) + Sync,
) {
    if area == 0 {
        return;
    }
    let mut parts = Vec::new();
    for image in data.chunks_exact_mut(3 * area) {
        let (r, rest) = image.split_at_mut(area);
        let (g, b) = rest.split_at_mut(area);
        let planes = r
            .chunks_mut(COLORS)
            .zip(g.chunks_mut(COLORS))
            .zip(b.chunks_mut(COLORS));
        parts.extend(planes.map(|((r, g), b)| (r, g, b)));
    }
    pieces(&mut parts, 1, 3 * COLORS * cost, |_, parts| {
        for (r, g, b) in parts {
            f(r, g, b);
        }
    });
}

/// The grey of a colour, as PyTorch's sums of float32 round it.
#[inline(always)]
pub(crate) fn gray(r: f32, g: f32, b: f32) -> f32 {
    b.mul_add(0.114, g.mul_add(0.587, r * 0.2989))
}
