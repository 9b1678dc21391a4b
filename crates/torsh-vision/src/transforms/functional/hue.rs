//! The hue.

use torsh_backend_cpu::multiversion;
use torsh_tensor::{DType, Result, Tensor, TorshError};

use super::bytes::{byte, changed, colors};
use super::color::channels;
use super::misc::to_dtype;
use crate::transforms::apply::dimensions;

/// The image with its colours moved around the circle of hues, by the part `hue_factor` of it.
///
/// # Errors
/// A factor beyond -0.5 to 0.5, neither 1 nor 3 channels.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::transforms::functional::adjust_hue;
/// let red = tensor![[[1.0]], [[0.0]], [[0.0]]];
/// let cyan = adjust_hue(&red, 0.5)?;
/// assert!(cyan.allclose(&tensor![[[0.0]], [[1.0]], [[1.0]]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn adjust_hue(image: &Tensor, hue_factor: f64) -> Result<Tensor> {
    const OP: &str = "adjust_hue";
    if !(-0.5..=0.5).contains(&hue_factor) {
        return Err(TorshError::invalid(
            OP,
            format!("hue_factor must be from -0.5 to 0.5, got {hue_factor}"),
        ));
    }
    if channels(OP, image)? == 1 || image.numel() == 0 {
        return Ok(image.clone());
    }
    if image.dtype() == DType::U8 {
        let (_, h, w) = dimensions(OP, image)?;
        return changed(image, |data| {
            colors(data, h * w, 8, |r, g, b| {
                turn_bytes(r, g, b, hue_factor as f32)
            });
        });
    }
    let x = to_dtype(image, DType::F32, true)?;
    to_dtype(&turned(&x, hue_factor)?, image.dtype(), true).map_err(|e| e.renamed(OP))
}

multiversion! {
    fn turn_bytes<A>(r: &mut [u8], g: &mut [u8], b: &mut [u8], by: f32) {
        for ((r, g), b) in r.iter_mut().zip(g).zip(b) {
            const SCALE: f32 = (1.0f64 / 255.0) as f32;
            let rgb = [*r, *g, *b].map(|v| f32::from(v) * SCALE);
            // 0 to 1 is 0 to 255.999.
            let [x, y, z] = turn(rgb, by).map(|v| byte(v * (256.0 - 1e-3) as f32));
            (*r, *g, *b) = (x, y, z);
        }
    }
}

/// A colour turned, without branches.
#[inline(always)]
fn turn([r, g, b]: [f32; 3], by: f32) -> [f32; 3] {
    let high = r.max(g).max(b);
    let low = r.min(g).min(b);
    let gray = high == low;
    let range = high - low;
    let s = range / if gray { 1.0 } else { high };
    let d = if gray { 1.0 } else { range };
    let (rc, gc, bc) = ((high - r) / d, (high - g) / d, (high - b) / d);
    let h = if high == r {
        bc - gc
    } else if high == g {
        rc + 2.0 - bc
    } else {
        gc + 4.0 - rc
    };
    let h = h * (1.0f64 / 6.0) as f32 + 1.0;
    let h = h - h.trunc();
    let h = h + by;
    let h = h - h.floor();

    let h6 = h * 6.0;
    let i = h6.floor();
    let f = h6 - i;
    let i = if i >= 6.0 { 0.0 } else { i };
    let sf = s * f;
    let rest = 1.0 - s;
    let q = ((1.0 - sf) * high).clamp(0.0, 1.0);
    let t = ((sf + rest) * high).clamp(0.0, 1.0);
    let p = (rest * high).clamp(0.0, 1.0);
    let pick = |six: [f32; 6]| {
        let a = if i < 1.0 { six[0] } else { six[1] };
        let b = if i < 3.0 { six[2] } else { six[3] };
        let c = if i < 5.0 { six[4] } else { six[5] };
        if i < 2.0 {
            a
        } else if i < 4.0 {
            b
        } else {
            c
        }
    };
    [
        pick([high, q, p, p, t, high]),
        pick([t, high, high, q, p, p]),
        pick([p, p, t, high, high, q]),
    ]
}

/// The same in ops, for images with gradients.
fn turned(image: &Tensor, by: f64) -> Result<Tensor> {
    let plane = |i: usize| image.narrow(-3, i, 1);
    let (r, g, b) = (plane(0)?, plane(1)?, plane(2)?);
    let high = image.amax(-3, true)?;
    let low = image.amin(-3, true)?;
    let gray = high.eq(&low)?;
    let range = high.sub(&low)?;
    let s = range.div(&high.masked_fill(&gray, 1.0)?)?;
    let d = range.masked_fill(&gray, 1.0)?;
    let part = |x: &Tensor| high.sub(x)?.div(&d);
    let (rc, gc, bc) = (part(&r)?, part(&g)?, part(&b)?);
    let of_green = rc.add(2.0)?.sub(&bc)?;
    let of_blue = gc.add(4.0)?.sub(&rc)?;
    let h = Tensor::where_(&high.eq(&g)?, &of_green, &of_blue)?;
    let h = Tensor::where_(&high.eq(&r)?, &bc.sub(&gc)?, &h)?;
    let h = h.mul(1.0 / 6.0)?.add(1.0)?.fmod(1.0)?;
    let h = h.add(by)?.remainder(1.0)?;

    let h6 = h.mul(6.0)?;
    let i = h6.detach().floor()?;
    let f = h6.sub(&i)?;
    let i = i.remainder(6.0)?;
    let sf = s.mul(&f)?;
    let rest = s.mul(-1.0)?.add(1.0)?;
    let q = sf.mul(-1.0)?.add(1.0)?.mul(&high)?.clamp(0.0, 1.0)?;
    let t = sf.add(&rest)?.mul(&high)?.clamp(0.0, 1.0)?;
    let p = rest.mul(&high)?.clamp(0.0, 1.0)?;
    let v = &high;
    let pick = |six: [&Tensor; 6]| -> Result<Tensor> {
        let mut out = six[0].clone();
        for (n, x) in six.into_iter().enumerate().skip(1) {
            out = Tensor::where_(&i.eq(n as f64)?, x, &out)?;
        }
        Ok(out)
    };
    let colors = [
        pick([v, &q, &p, &p, &t, v])?,
        pick([&t, v, v, &q, &p, &p])?,
        pick([&p, &p, &t, v, v, &q])?,
    ];
    torsh_tensor::cat(&colors, -3)
}
