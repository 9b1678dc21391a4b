//! How far detections and objects overlap: boxes, masks and key points.

use torsh_tensor::{DType, Result, Tensor, TorshError};

use super::Rect;

/// The area that two boxes share.
pub(super) fn shared(a: &Rect, b: &Rect) -> f64 {
    let side = |k: usize| (a[k] + a[k + 2]).min(b[k] + b[k + 2]) - a[k].max(b[k]);
    let (w, h) = (side(0), side(1));
    if w <= 0.0 || h <= 0.0 { 0.0 } else { w * h }
}

/// The shared part over the union, or over the detection's area where the object is a crowd.
pub(super) fn of_areas(inter: f64, (found, there): (f64, f64), crowd: bool) -> f64 {
    if inter == 0.0 {
        return 0.0;
    }
    inter / if crowd { found } else { found + there - inter }
}

/// A mask: bits of its pixels, row by row.
#[derive(Clone, Debug)]
pub(super) struct Mask {
    bits: Vec<u64>,
    pub(super) area: f64,
}

/// The masks `[n, h, w]`.
pub(super) fn masks(op: &str, t: Option<&Tensor>, n: usize) -> Result<(Vec<Mask>, [usize; 2])> {
    let Some(t) = t else {
        return Err(TorshError::invalid(op.to_string(), "there are no masks")
            .with_hint("give them with masks(..), or evaluate boxes"));
    };
    if n == 0 {
        return Ok((Vec::new(), [0, 0]));
    }
    let [count, h, w] = *t.dims() else {
        let text = format!("masks ({}) must be [{n}, h, w]", t.describe());
        return Err(TorshError::shape(op.to_string(), text));
    };
    if count != n {
        let text = format!("{count} masks for {n} objects");
        return Err(TorshError::shape(op.to_string(), text));
    }
    let t = t.detach();
    let part = match t.dtype() {
        DType::Bool => t,
        d if d.is_floating_point() => t.gt(0.5)?,
        _ => t.ne(0)?,
    };
    let pixels = part.to_dtype(DType::U8)?.to_vec::<u8>()?;
    let one = |pixels: &[u8]| {
        let word = |c: &[u8]| {
            (0..)
                .zip(c)
                .fold(0u64, |bits, (i, &p)| bits | u64::from(p != 0) << i)
        };
        let bits: Vec<u64> = pixels.chunks(64).map(word).collect();
        let area = bits.iter().map(|b| f64::from(b.count_ones())).sum();
        Mask { bits, area }
    };
    let all = match h * w {
        0 => vec![one(&[]); n],
        size => pixels.chunks_exact(size).map(one).collect(),
    };
    Ok((all, [h, w]))
}

impl Mask {
    /// The pixels that two masks share.
    pub(super) fn shared(&self, other: &Mask) -> f64 {
        let both = self.bits.iter().zip(&other.bits);
        both.map(|(a, b)| f64::from((a & b).count_ones())).sum()
    }
}

/// The points `[n, k, width]`, as x, y and the third number or 0.
pub(super) fn points(
    op: &str,
    t: Option<&Tensor>,
    n: usize,
    k: usize,
) -> Result<Vec<Vec<[f64; 3]>>> {
    let Some(t) = t else {
        return Err(
            TorshError::invalid(op.to_string(), "there are no key points")
                .with_hint("give them with keypoints(..), or evaluate boxes"),
        );
    };
    if n == 0 {
        return Ok(Vec::new());
    }
    match *t.dims() {
        [count, points, width] if count == n && points == k && width >= 2 => {
            let all = t.detach().to_vec::<f64>()?;
            let one = |p: &[f64]| [p[0], p[1], p.get(2).copied().unwrap_or(0.0)];
            let of = |object: &[f64]| object.chunks_exact(width).map(one).collect();
            Ok(all.chunks_exact(k * width).map(of).collect())
        }
        _ => Err(TorshError::shape(
            op.to_string(),
            format!("key points ({}) must be [{n}, {k}, 3]", t.describe()),
        )
        .with_hint("the number of points is that of the sigmas")),
    }
}

/// How near the points of a detection are to those of an object: 1 where they are the same. Where none of the object's is
/// labelled, those count as near that lie around its box.
pub(super) fn of_points(
    found: &[[f64; 3]],
    there: &[[f64; 3]],
    (bounds, area): (&Rect, f64),
    sigmas: &[f64],
) -> f64 {
    let labelled = there.iter().filter(|p| p[2] > 0.0).count();
    let outside = |v: f64, k: usize| {
        let (low, high) = (bounds[k] - bounds[k + 2], bounds[k] + bounds[k + 2] * 2.0);
        (low - v).max(0.0) + (v - high).max(0.0)
    };
    let mut sum = 0.0;
    for ((f, t), sigma) in found.iter().zip(there).zip(sigmas) {
        if labelled > 0 && t[2] <= 0.0 {
            continue;
        }
        let (dx, dy) = match labelled {
            0 => (outside(f[0], 0), outside(f[1], 1)),
            _ => (f[0] - t[0], f[1] - t[1]),
        };
        let variance = (sigma * 2.0).powi(2);
        sum += (-((dx * dx + dy * dy) / variance / (area + f64::EPSILON) / 2.0)).exp();
    }
    sum / if labelled > 0 { labelled } else { there.len() } as f64
}
