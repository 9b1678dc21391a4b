//! Convolutions whose groups have one input channel: bound by memory, done tap by tap on rows.

use torsh_core::pool;

use super::GRAIN;
use super::columns::Geometry;
use super::number::{ConvNumber, fill};
use crate::dense::Ptr;

/// Whether the loops here are for this convolution.
pub(super) fn suits(g: &Geometry) -> bool {
    g.in_channels == 1 && g.out_channels <= 4 && g.groups > 1
}

/// Calls `f(tap, out row, in row, columns)` for each tap and output row inside the image, with
/// offsets into the planes of the output and input.
#[inline(always)]
fn each_row(g: &Geometry, mut f: impl FnMut(usize, usize, usize, usize)) {
    let mut index = 0;
    g.each_tap(|tap| {
        let [zs, ys, xs] = &tap.outputs;
        for z in zs.clone() {
            for y in ys.clone() {
                let out = (z * g.output[1] + y) * g.output[2] + xs.start;
                f(index, out, g.row(tap, z, y) + tap.first[2], xs.len());
            }
        }
        index += 1;
    });
}

pub(super) fn forward<T: ConvNumber>(
    g: &Geometry,
    input: Ptr<T>,
    weight: Ptr<T>,
    bias: Option<Ptr<T>>,
    out: Ptr<T>,
) {
    let (p, q, taps, step) = (g.out_pixels(), g.in_pixels(), g.taps(), g.stride[2]);
    let grain = (GRAIN / (p * taps).max(1)).max(1);
    pool::parallel_for(g.images * g.groups * g.out_channels, grain, &|range| {
        for plane in range {
            let channel = plane % (g.groups * g.out_channels);
            // SAFETY: the plane is this thread's, and rows lie inside their planes.
            unsafe {
                let out = out.at((plane * p) as isize);
                fill(
                    out,
                    p,
                    bias.map_or(T::default(), |b| *b.at(channel as isize)),
                );
                let input = input.at((plane / g.out_channels * q) as isize);
                let weight = weight.at((channel * taps) as isize);
                each_row(g, |tap, o, i, n| {
                    T::axpy(n, *weight.add(tap), input.add(i), step, out.add(o), 1);
                });
            }
        }
    });
}

pub(super) fn transposed<T: ConvNumber>(
    g: &Geometry,
    grad: Ptr<T>,
    weight: Ptr<T>,
    bias: Option<Ptr<T>>,
    out: Ptr<T>,
) {
    let (p, q, taps, step) = (g.out_pixels(), g.in_pixels(), g.taps(), g.stride[2]);
    let grain = (GRAIN / (p * taps * g.out_channels).max(1)).max(1);
    pool::parallel_for(g.images * g.groups, grain, &|range| {
        for plane in range {
            // SAFETY: the plane is this thread's, and rows lie inside their planes.
            unsafe {
                let out = out.at((plane * q) as isize);
                let channel = (plane % g.groups) as isize;
                fill(out, q, bias.map_or(T::default(), |b| *b.at(channel)));
                for o in 0..g.out_channels {
                    let channel = plane % g.groups * g.out_channels + o;
                    let grad = grad.at(((plane * g.out_channels + o) * p) as isize);
                    let weight = weight.at((channel * taps) as isize);
                    each_row(g, |tap, o, i, n| {
                        T::axpy(n, *weight.add(tap), grad.add(o), 1, out.add(i), step);
                    });
                }
            }
        }
    });
}
