//! Sine, cosine and tangent.

use super::trig_table::TWO_OVER_PI;
use super::{Arch, MAGIC32, MAGIC64, fma32, fma64, poly32, poly64};
use std::f64::consts::FRAC_PI_2;

/// Largest |x| of the fast reduction: n = x 2/pi stays below 2^16.
const FAST_MAX: f32 = 65536.0;
/// Elements tested together for the fast reduction.
const BLOCK: usize = 64;

/// pi/2 in three parts of 24 bits.
const PIO2_HI: f32 = 1.570_796_4;
const PIO2_MID: f32 = -4.371_139e-8;
const PIO2_LO: f32 = -1.715_124_5e-15;
/// pi/2 in two parts, the first of 25 bits: its products with n are exact.
const PIO2_A: f64 = 1.570_796_310_901_641_8;
const PIO2_B: f64 = 1.589_325_477_352_819_7e-8;

/// Minimax of (sin r - r) / r^3 in r^2 on |r| <= 0.795, error 2^-27.8.
const SIN: [f32; 3] = [-0.166_666_54, 0.008_332_103_5, -0.000_195_074_26];
/// Minimax of (cos r - 1 + r^2/2) / r^4 in r^2 on |r| <= 0.795, error 2^-32.8.
const COS: [f32; 3] = [0.041_666_646, -0.001_388_723_8, 2.442_417_8e-5];
/// Minimax of (tan r - r) / r^3 in r^2 on |r| <= 0.786, error 2^-33.4.
const TAN: [f64; 8] = [
    0.3333333182191323,
    0.13333411673415405,
    0.05395446459931171,
    0.021985857385010087,
    0.0083268863953473,
    0.005002098789147317,
    -0.0006059037854097498,
    0.002045527647175961,
];

/// Quadrant (its low two bits), remainder and what the remainder lost, for
/// |x| <= FAST_MAX.
#[inline(always)]
fn reduce_fast<A: Arch>(x: f32) -> (u32, f32, f32) {
    if A::FMA {
        let t = fma32::<A>(x, std::f32::consts::FRAC_2_PI, MAGIC32);
        let n = t - MAGIC32;
        // The first step is exact; the second is the only rounding of r.
        let r = fma32::<A>(n, -PIO2_MID, fma32::<A>(n, -PIO2_HI, x));
        (t.to_bits(), r, n * -PIO2_LO)
    } else {
        let x = f64::from(x);
        let t = x * std::f64::consts::FRAC_2_PI + MAGIC64;
        let n = t - MAGIC64;
        let r = (x - n * PIO2_A) - n * PIO2_B;
        (t.to_bits() as u32, r as f32, 0.0)
    }
}

/// Quadrant (its low two bits) and remainder in quadrants, for every x; nan for
/// what is not finite. The method of Payne and Hanek on 82 bits.
#[inline(always)]
fn reduce_full(x: f32) -> (u32, f64) {
    let bits = x.to_bits();
    let k = (((bits >> 23) & 0xff) as i32).wrapping_sub(150);
    let k = if k < 0 { 0 } else { k } as u32;
    // x = m 2^k with |m| < 2^24, an integer where k > 0.
    let m = f64::from(f32::from_bits(bits.wrapping_sub(k << 23)));
    // SAFETY: k is at most 255 - 150 = 105, the last row.
    let [hi, lo] = unsafe { *TWO_OVER_PI.get_unchecked(k as usize) };
    // The second product is below 1/8; the first loses nothing to the rounding.
    let (p, rest) = (m * hi, m * lo);
    let t = (p + rest) + MAGIC64;
    let r = (p - (t - MAGIC64)) + rest;
    let r = if x.abs() < f32::INFINITY { r } else { f64::NAN };
    (t.to_bits() as u32, r)
}

/// sin of r + lost in the quadrant q.
#[inline(always)]
fn sin_cos<A: Arch>(q: u32, r: f32, lost: f32) -> f32 {
    let z = r * r;
    let s = r + fma32::<A>(r * z, poly32::<A, 3>(z, &SIN), lost);
    let h = 0.5 * z;
    let w = 1.0 - h;
    let c = w + fma32::<A>(z * z, poly32::<A, 3>(z, &COS), (1.0 - w) - h);
    let v = if q & 1 != 0 { c } else { s };
    f32::from_bits(v.to_bits() ^ ((q & 2) << 30))
}

#[inline(always)]
fn sin_fast<A: Arch>(x: f32) -> f32 {
    let (q, r, lost) = reduce_fast::<A>(x);
    let v = sin_cos::<A>(q, r, lost);
    if x == 0.0 { x } else { v }
}

#[inline(always)]
fn cos_fast<A: Arch>(x: f32) -> f32 {
    let (q, r, lost) = reduce_fast::<A>(x);
    sin_cos::<A>(q.wrapping_add(1), r, lost)
}

#[inline(always)]
pub(super) fn sin<A: Arch>(x: f32) -> f32 {
    let (q, r) = reduce_full(x);
    let v = sin_cos::<A>(q, (r * FRAC_PI_2) as f32, 0.0);
    if x == 0.0 { x } else { v }
}

#[inline(always)]
pub(super) fn cos<A: Arch>(x: f32) -> f32 {
    let (q, r) = reduce_full(x);
    sin_cos::<A>(q.wrapping_add(1), (r * FRAC_PI_2) as f32, 0.0)
}

#[inline(always)]
pub(super) fn tan<A: Arch>(x: f32) -> f32 {
    let (q, r) = reduce_full(x);
    let r = r * FRAC_PI_2;
    let z = r * r;
    let t = fma64::<A>(r * z, poly64::<A, 8>(z, &TAN), r);
    let odd = q & 1 != 0;
    let v = (if odd { -1.0 } else { t } / if odd { t } else { 1.0 }) as f32;
    if x == 0.0 { x } else { v }
}

/// Runs `fast` on blocks whose arguments all allow it, `full` on the others.
///
/// # Safety
/// `src` must be valid for `n` reads and `dst` for `n` writes; the two are either
/// disjoint or the same.
#[inline(always)]
unsafe fn blocks(
    src: *const f32,
    dst: *mut f32,
    n: usize,
    fast: impl Fn(f32) -> f32,
    full: impl Fn(f32) -> f32,
) {
    let mut i = 0;
    while i < n {
        let len = BLOCK.min(n - i);
        // A copy, so that src and dst may be the same; zeros fill the last one.
        let mut b = [0.0f32; BLOCK];
        // SAFETY: i + len <= n.
        unsafe { std::ptr::copy_nonoverlapping(src.add(i), b.as_mut_ptr(), len) };
        let mut beyond = 0u32;
        for v in &b {
            // As bits, so that inf and nan are beyond too.
            beyond |= u32::from(v.abs().to_bits() > FAST_MAX.to_bits());
        }
        if beyond == 0 {
            for v in &mut b {
                *v = fast(*v);
            }
        } else {
            for v in &mut b {
                *v = full(*v);
            }
        }
        // SAFETY: i + len <= n.
        unsafe { std::ptr::copy_nonoverlapping(b.as_ptr(), dst.add(i), len) };
        i += len;
    }
}

/// # Safety
/// As for [`blocks`].
#[inline(always)]
pub(super) unsafe fn sin_into<A: Arch>(src: *const f32, dst: *mut f32, n: usize) {
    // SAFETY: the caller's promise.
    unsafe { blocks(src, dst, n, sin_fast::<A>, sin::<A>) }
}

/// # Safety
/// As for [`blocks`].
#[inline(always)]
pub(super) unsafe fn cos_into<A: Arch>(src: *const f32, dst: *mut f32, n: usize) {
    // SAFETY: the caller's promise.
    unsafe { blocks(src, dst, n, cos_fast::<A>, cos::<A>) }
}
