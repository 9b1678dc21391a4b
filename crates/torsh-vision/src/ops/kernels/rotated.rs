//! Overlaps of rotated boxes: the part of one that lies inside of the other, side by side of the other.

use std::marker::PhantomData;

use torsh_core::Result;
use torsh_core::kernel::HostCall;

use super::{Real, mismatch, shares, sizes};

type Point = (f64, f64);

pub(super) fn box_iou<T: Real>(c: &mut HostCall<'_>, _: PhantomData<T>) -> Result<()> {
    let ([n, a5], [m, b5]) = (sizes::<2>(c, 0)?, sizes::<2>(c, 1)?);
    if (a5, b5) != (5, 5) || c.output_shape(0)? != [n, m] {
        return Err(mismatch());
    }
    let wide = |x: &[T]| -> Vec<[f64; 5]> {
        x.chunks_exact(5)
            .map(|b| std::array::from_fn(|i| b[i].wide()))
            .collect()
    };
    let (a, b) = (wide(&c.input::<T>(0)?), wide(&c.input::<T>(1)?));
    let out = c.output::<T>(0)?;
    shares(out, m, 200 * m, |rows, out| {
        for (a, out) in a[rows].iter().zip(out.chunks_exact_mut(m)) {
            for (b, out) in b.iter().zip(out) {
                *out = T::of(iou(a, b));
            }
        }
        Ok(())
    })
}

/// The corners of a box around a point near to it, which loses no digits where boxes are far from 0.
fn corners(b: &[f64; 5], (cx, cy): Point) -> [Point; 4] {
    let (sin, cos) = b[4].to_radians().sin_cos();
    let (x, y) = (b[0] - cx, b[1] - cy);
    let ((wx, wy), (hx, hy)) = (
        (b[2] / 2.0 * cos, -b[2] / 2.0 * sin),
        (b[3] / 2.0 * sin, b[3] / 2.0 * cos),
    );
    [
        (x - wx - hx, y - wy - hy),
        (x + wx - hx, y + wy - hy),
        (x + wx + hx, y + wy + hy),
        (x - wx + hx, y - wy + hy),
    ]
}

fn iou(a: &[f64; 5], b: &[f64; 5]) -> f64 {
    let (area_a, area_b) = (a[2] * a[3], b[2] * b[3]);
    if area_a < 1e-14 || area_b < 1e-14 {
        return 0.0;
    }
    let middle = ((a[0] + b[0]) / 2.0, (a[1] + b[1]) / 2.0);
    let inter = shared(&corners(a, middle), &corners(b, middle));
    inter / (area_a + area_b - inter)
}

/// The area of what two convex polygons share.
fn shared(a: &[Point; 4], b: &[Point; 4]) -> f64 {
    let mut inside: Vec<Point> = a.to_vec();
    for i in 0..4 {
        let (p, q) = (b[i], b[(i + 1) % 4]);
        // Which side of the line a point lies on; the corners go round one way.
        let side = |r: Point| (q.0 - p.0) * (r.1 - p.1) - (q.1 - p.1) * (r.0 - p.0);
        let mut cut = Vec::with_capacity(inside.len() + 1);
        for k in 0..inside.len() {
            let (from, to) = (inside[k], inside[(k + 1) % inside.len()]);
            let (s, t) = (side(from), side(to));
            if s >= 0.0 {
                cut.push(from);
            }
            if (s > 0.0 && t < 0.0) || (s < 0.0 && t > 0.0) {
                let along = s / (s - t);
                cut.push((
                    from.0 + along * (to.0 - from.0),
                    from.1 + along * (to.1 - from.1),
                ));
            }
        }
        inside = cut;
    }
    let mut twice = 0.0;
    for k in 0..inside.len() {
        let (p, q) = (inside[k], inside[(k + 1) % inside.len()]);
        twice += p.0 * q.1 - p.1 * q.0;
    }
    (twice / 2.0).max(0.0)
}
