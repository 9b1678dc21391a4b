//! Images of bytes: along the rows, then down the columns, in fixed-point numbers as Pillow has
//! them, with a rounding to bytes in between.

use torsh_core::{KernelArgs, Result, pool};

use super::table::ResampleTable;
use super::{GRAIN, ResampleGeometry};
use crate::memory::dense::{Dense, DenseOut, Ptr, Scratch};

/// Weights as integers of at most 15 bits, and by how many bits they were shifted.
struct Fixed {
    table: ResampleTable<i32>,
    shift: u32,
}

impl Fixed {
    fn new(table: &ResampleTable<f64>) -> Fixed {
        let table = table.merged();
        let most = table.items.iter().fold(0.0, |m: f64, &(_, w)| m.max(w));
        let fits = |shift: u32| ((0.5 + most * f64::from(1u32 << (shift + 1))) as i64) < 1 << 15;
        let shift = (0..22).find(|&s| !fits(s)).unwrap_or(22);
        let whole = |w: f64| {
            let w = w * f64::from(1u32 << shift);
            (if w < 0.0 { w - 0.5 } else { w + 0.5 }) as i32
        };
        Fixed {
            table: table.map(whole),
            shift,
        }
    }

    /// The byte of a sum of products.
    #[inline(always)]
    fn byte(&self, sum: i32) -> u8 {
        (sum >> self.shift).clamp(0, 255) as u8
    }

    /// What rounds a sum.
    #[inline(always)]
    fn half(&self) -> i32 {
        (1 << self.shift) >> 1
    }
}

pub(super) fn resample(args: &KernelArgs<'_>, g: &ResampleGeometry) -> Result<()> {
    let x = Dense::new(&args.inputs()[0], args.inputs()[0].dtype())?;
    let out = DenseOut::new(&args.outputs()[0], args.outputs()[0].dtype())?;
    let (src, dst) = (x.ptr::<u8>(), out.ptr::<u8>());
    let [_, tall, wide] = &g.axes;
    let columns = Fixed::new(&wide.table());
    let rows = Fixed::new(&tall.table());
    let (height, width) = (tall.input, wide.input);
    let (new_height, new_width) = (tall.output, wide.output);
    let items = columns.table.items.len() + rows.table.items.len();
    let grain = GRAIN.div_ceil((height * new_width + items).max(1));
    let parts = pool::chunk_count(g.planes, grain);
    let each = height * new_width;
    let scratch = Scratch::<u8>::new(parts * each)?;
    let scratch = Ptr::new(scratch.ptr());
    pool::parallel_parts(g.planes, parts, &|part, range| {
        for plane in range {
            // SAFETY: the scratch is this part's, and planes are disjoint.
            let (image, between, result) = unsafe {
                let image = src.at((plane * height * width) as isize);
                let result = dst.at((plane * new_height * new_width) as isize);
                (
                    std::slice::from_raw_parts(image, height * width),
                    std::slice::from_raw_parts_mut(scratch.at((part * each) as isize), each),
                    std::slice::from_raw_parts_mut(result, new_height * new_width),
                )
            };
            let image_rows = image.chunks_exact(width);
            for (row, out) in image_rows.zip(between.chunks_exact_mut(new_width)) {
                for (o, out) in out.iter_mut().enumerate() {
                    let sum = |s: i32, &(i, w): &(usize, i32)| s + i32::from(row[i]) * w;
                    *out = columns.byte(columns.table.of(o).iter().fold(columns.half(), sum));
                }
            }
            for (o, out) in result.chunks_exact_mut(new_width).enumerate() {
                for (x, out) in out.iter_mut().enumerate() {
                    let sum = |s: i32, &(i, w): &(usize, i32)| {
                        s + i32::from(between[i * new_width + x]) * w
                    };
                    *out = rows.byte(rows.table.of(o).iter().fold(rows.half(), sum));
                }
            }
        }
    });
    out.finish()
}
