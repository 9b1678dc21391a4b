//! Places in an image, and the image read at them, with PyTorch's roundings.
//!
//! Where PyTorch multiplies and adds in one rounding, so does this module, and nowhere else: the pixels of an image that
//! is turned by 90 degrees lie so close to the middle between two others that it shows.

use num_traits::Float;
use torsh_backend_cpu::multiversion;
use torsh_tensor::{DType, Device, Result, Tensor};

use super::bytes::pieces;
use super::tuning::WARPED_ROWS;

/// float32 and float64.
pub(super) trait Real: Float + Default + Send + Sync + 'static {
    const DTYPE: DType;
    fn of(v: f64) -> Self;
    /// Halves to even.
    fn rounded(self) -> Self;
    fn index(self) -> i32;
    fn tensor(data: &[Self], shape: &[usize]) -> Result<Tensor>;
    fn values(t: &Tensor) -> Result<Vec<Self>>;
}

macro_rules! real {
    ($($t:ident $dtype:ident),*) => {$(
        impl Real for $t {
            const DTYPE: DType = DType::$dtype;
            #[inline(always)]
            fn of(v: f64) -> Self {
                v as $t
            }
            #[inline(always)]
            fn rounded(self) -> Self {
                self.round_ties_even()
            }
            #[inline(always)]
            fn index(self) -> i32 {
                self as i32
            }
            fn tensor(data: &[Self], shape: &[usize]) -> Result<Tensor> {
                Tensor::from_slice(data, shape, DType::$dtype, Device::Cpu)
            }
            fn values(t: &Tensor) -> Result<Vec<Self>> {
                t.to_dtype(DType::$dtype)?.to_vec()
            }
        }
    )*};
}
real!(f32 F32, f64 F64);

/// Where each pixel of the result comes from: x and y from -1 to 1.
pub(super) struct Grid<T> {
    pub size: (usize, usize),
    places: Places<T>,
}

enum Places<T> {
    /// A linear map of x and y in pixels from a corner, and the corner.
    Affine([[T; 3]; 2], [f64; 2]),
    /// What is divided, and by what.
    Perspective([[T; 3]; 2], [T; 3]),
    /// x and y of each pixel.
    Each(Vec<T>, Vec<T>),
}

/// The places after a map of `(x, y)` in pixels from the middle, `matrix` by rows, for an image of `(h, w)`.
pub(super) fn affine_grid<T: Real>(
    matrix: [f64; 6],
    (h, w): (usize, usize),
    size: (usize, usize),
) -> Grid<T> {
    let (half_w, half_h) = (T::of(0.5 * w as f64), T::of(0.5 * h as f64));
    let m = matrix.map(T::of);
    let rows = [
        [m[0] / half_w, m[1] / half_w, m[2] / half_w],
        [m[3] / half_h, m[4] / half_h, m[5] / half_h],
    ];
    let from = |n: usize| (1.0 - n as f64) * 0.5;
    Grid {
        size,
        places: Places::Affine(rows, [from(size.1), from(size.0)]),
    }
}

/// The places after a perspective map, of which `c` are the coefficients.
pub(super) fn perspective_grid<T: Real>(c: [f64; 8], (h, w): (usize, usize)) -> Grid<T> {
    let (half_w, half_h) = (T::of(0.5 * w as f64), T::of(0.5 * h as f64));
    let c = c.map(T::of);
    let above = [
        [c[0] / half_w, c[1] / half_w, c[2] / half_w],
        [c[3] / half_h, c[4] / half_h, c[5] / half_h],
    ];
    Grid {
        size: (h, w),
        places: Places::Perspective(above, [c[6], c[7], T::one()]),
    }
}

/// The places of the pixels themselves, moved by `displacement`.
pub(super) fn displaced_grid<T: Real>(
    (h, w): (usize, usize),
    displacement: &[T],
    sign: T,
) -> Result<Grid<T>> {
    let line = |n: usize| -> Result<Vec<T>> {
        let end = (n as f64 - 1.0) / n as f64;
        T::values(&Tensor::linspace(-end, end, n, T::DTYPE, Device::Cpu)?)
    };
    let (xs, ys) = (line(w)?, line(h)?);
    let moved = |i: usize, own: T| own + sign * displacement[i];
    let x = (0..h * w).map(|i| moved(2 * i, xs[i % w])).collect();
    let y = (0..h * w).map(|i| moved(2 * i + 1, ys[i / w])).collect();
    Ok(Grid {
        size: (h, w),
        places: Places::Each(x, y),
    })
}

impl<T: Real> Grid<T> {
    /// The places of row `y`.
    #[inline(always)]
    fn row(&self, y: usize, xs: &mut [T], ys: &mut [T]) {
        let line = |[a, b, c]: [T; 3], x: T, y: T| x * a + y * b + c;
        match &self.places {
            Places::Affine(rows, [left, top]) => {
                let y = T::of(top + y as f64);
                for (i, (px, py)) in xs.iter_mut().zip(ys).enumerate() {
                    let x = T::of(left + f64::from(i as i32));
                    (*px, *py) = (line(rows[0], x, y), line(rows[1], x, y));
                }
            }
            Places::Perspective(above, below) => {
                let y = T::of(y as f64 + 0.5);
                for (i, (px, py)) in xs.iter_mut().zip(ys).enumerate() {
                    let x = T::of(f64::from(i as i32) + 0.5);
                    let d = line(*below, x, y);
                    *px = line(above[0], x, y) / d - T::one();
                    *py = line(above[1], x, y) / d - T::one();
                }
            }
            Places::Each(x, y_) => {
                let at = y * xs.len()..(y + 1) * xs.len();
                xs.copy_from_slice(&x[at.clone()]);
                ys.copy_from_slice(&y_[at]);
            }
        }
    }

    /// The place of one pixel, of a grid that has each.
    pub(super) fn place(&self, y: usize, x: usize) -> [T; 2] {
        match &self.places {
            Places::Each(xs, ys) => {
                let at = y * self.size.1 + x;
                [xs[at], ys[at]]
            }
            _ => [T::nan(); 2],
        }
    }

    /// All places, x and y in turn.
    pub(super) fn all(&self) -> Vec<T> {
        let (h, w) = self.size;
        let (mut xs, mut ys) = (vec![T::zero(); w], vec![T::zero(); w]);
        let mut all = Vec::with_capacity(2 * h * w);
        for y in 0..h {
            self.row(y, &mut xs, &mut ys);
            all.extend(xs.iter().zip(&ys).flat_map(|(x, y)| [*x, *y]));
        }
        all
    }
}

/// What the pixels of a row are made of.
struct Taps<T> {
    xs: Vec<T>,
    ys: Vec<T>,
    /// The upper left one; below 0 for the nearest where there is none.
    at: Vec<i32>,
    /// To the right one, and to the lower one; 0 at the edge.
    right: Vec<i32>,
    down: Vec<i32>,
    /// Upper left, upper right, lower left, lower right; 0 outside of the image.
    weights: [Vec<T>; 4],
    /// How much of the pixel is inside.
    inside: Vec<T>,
}

impl<T: Real> Taps<T> {
    fn new(n: usize, nearest: bool) -> Taps<T> {
        let numbers = || vec![T::zero(); n];
        let more = |n: usize| if nearest { 0 } else { n };
        Taps {
            xs: numbers(),
            ys: numbers(),
            at: vec![0; n],
            right: vec![0; more(n)],
            down: vec![0; more(n)],
            weights: std::array::from_fn(|_| vec![T::zero(); more(n)]),
            inside: vec![T::zero(); more(n)],
        }
    }
}

#[inline(always)]
fn in_pixels<T: Real>(v: T, n: usize) -> T {
    (v + T::one()).mul_add(T::of(n as f64 / 2.0), T::of(-0.5))
}

multiversion! {
    fn nearest_row<A, T: Real>(grid: &Grid<T>, y: usize, size: (usize, usize), taps: &mut Taps<T>) {
        let (h, w) = size;
        grid.row(y, &mut taps.xs, &mut taps.ys);
        let (most_x, most_y) = (T::of(w as f64 - 1.0), T::of(h as f64 - 1.0));
        let pitch = w as i32;
        for ((at, &x), &y) in taps.at.iter_mut().zip(&taps.xs).zip(&taps.ys) {
            let (x, y) = (in_pixels(x, w).rounded(), in_pixels(y, h).rounded());
            // False for what is no number.
            let inside = (x >= T::zero()) & (x <= most_x) & (y >= T::zero()) & (y <= most_y);
            let index = y.index().wrapping_mul(pitch).wrapping_add(x.index());
            *at = if inside { index } else { -1 };
        }
    }
}

multiversion! {
    fn bilinear_row<A, T: Real>(grid: &Grid<T>, y: usize, size: (usize, usize), taps: &mut Taps<T>) {
        let (h, w) = size;
        grid.row(y, &mut taps.xs, &mut taps.ys);
        let n = taps.xs.len();
        let (xs, ys) = (&taps.xs[..n], &taps.ys[..n]);
        let (at, right, down) = (&mut taps.at[..n], &mut taps.right[..n], &mut taps.down[..n]);
        let [w0, w1, w2, w3] = &mut taps.weights;
        let (w0, w1, w2, w3) = (&mut w0[..n], &mut w1[..n], &mut w2[..n], &mut w3[..n]);
        let inside = &mut taps.inside[..n];
        let (zero, one) = (T::zero(), T::one());
        let (end_x, end_y) = (T::of(w as f64), T::of(h as f64));
        let (last_x, last_y) = (w as i32 - 1, h as i32 - 1);
        for i in 0..n {
            let (x, y) = (in_pixels(xs[i], w), in_pixels(ys[i], h));
            let (left, top) = (x.floor(), y.floor());
            // Something is near, and the place is a number.
            let near = (left >= -one) & (left < end_x) & (top >= -one) & (top < end_y);
            let (e, s) = (x - left, y - top);
            let (rest_e, rest_s) = (one - e, one - s);
            let (l, t) = (left.index(), top.index());
            let (has_l, has_r) = (near & (l >= 0), near & (l < last_x));
            let (has_t, has_b) = (t >= 0, t < last_y);
            let kept = |v: T, there: bool| if there { v } else { zero };
            let a = kept(rest_e * rest_s, has_l & has_t);
            let b = kept(e * rest_s, has_r & has_t);
            let c = kept(rest_e * s, has_l & has_b);
            let d = kept(e * s, has_r & has_b);
            (w0[i], w1[i], w2[i], w3[i]) = (a, b, c, d);
            inside[i] = ((a + b) + c) + d;
            let index = t.max(0).wrapping_mul(w as i32).wrapping_add(l.max(0));
            at[i] = if near { index } else { 0 };
            // At the left and upper edge, the first is the second.
            right[i] = i32::from(has_l & has_r);
            down[i] = if near & has_t & has_b { w as i32 } else { 0 };
        }
    }
}

/// An element of the image.
pub(super) trait Source<T>: Copy + Sync + Into<T> {}
impl<T, S: Copy + Sync + Into<T>> Source<T> for S {}

/// An element of the result.
pub(super) trait Emit<T>: Copy + Default + Send {
    fn emit(v: T) -> Self;
}
impl<T: Real> Emit<T> for u8 {
    #[inline(always)]
    fn emit(v: T) -> u8 {
        v.rounded().index().clamp(0, 255) as u8
    }
}
impl Emit<f32> for f32 {
    #[inline(always)]
    fn emit(v: f32) -> f32 {
        v
    }
}
impl Emit<f64> for f64 {
    #[inline(always)]
    fn emit(v: f64) -> f64 {
        v
    }
}

multiversion! {
    fn read_nearest<A, T: Real, S: Source<T>, O: Emit<T>>(pixels: &[S], taps: &Taps<T>, fill: T, out: &mut [O]) {
        let fill = O::emit(fill);
        for (out, &at) in out.iter_mut().zip(&taps.at) {
            *out = match pixels.get(at as usize) {
                Some(&v) => O::emit(v.into()),
                None => fill,
            };
        }
    }
}

multiversion! {
    fn read_bilinear<A, T: Real, S: Source<T>, O: Emit<T>>(pixels: &[S], taps: &Taps<T>, fill: Option<T>, out: &mut [O]) {
        let n = out.len();
        let (at, right, down) = (&taps.at[..n], &taps.right[..n], &taps.down[..n]);
        let [w0, w1, w2, w3] = &taps.weights;
        let (w0, w1, w2, w3) = (&w0[..n], &w1[..n], &w2[..n], &w3[..n]);
        let inside = &taps.inside[..n];
        for i in 0..n {
            let pixel = |by: i32| -> T { pixels[(at[i] + by) as usize].into() };
            let v = pixel(0) * w0[i];
            let v = pixel(right[i]).mul_add(w1[i], v);
            let v = pixel(down[i]).mul_add(w2[i], v);
            let v = pixel(right[i] + down[i]).mul_add(w3[i], v);
            let v = match fill {
                None => v,
                Some(f) => (v - f) * inside[i] + f,
            };
            out[i] = O::emit(v);
        }
    }
}

/// The planes of `src`, each of `(h, w)`, read at the places of the grid. `fill` has a value for each channel, or one.
pub(super) fn sample<T: Real, S: Source<T>, O: Emit<T>>(
    src: &[S],
    channels: usize,
    (h, w): (usize, usize),
    grid: &Grid<T>,
    nearest: bool,
    fill: Option<&[T]>,
) -> Vec<O> {
    let (oh, ow) = grid.size;
    let planes = src.len() / (h * w).max(1);
    let mut out = vec![O::default(); planes * oh * ow];
    if out.is_empty() {
        return out;
    }
    // The same row of all planes.
    let mut rows: Vec<Vec<&mut [O]>> = (0..oh).map(|_| Vec::with_capacity(planes)).collect();
    for (i, row) in out.chunks_exact_mut(ow).enumerate() {
        rows[i % oh].push(row);
    }
    pieces(
        &mut rows,
        WARPED_ROWS,
        ow * (planes + 1) * 8,
        |piece, rows| {
            let mut taps = Taps::new(ow, nearest);
            for (y, planes) in rows.iter_mut().enumerate() {
                let y = piece * WARPED_ROWS + y;
                if nearest {
                    nearest_row(grid, y, (h, w), &mut taps);
                } else {
                    bilinear_row(grid, y, (h, w), &mut taps);
                }
                for (plane, out) in planes.iter_mut().enumerate() {
                    let pixels = &src[plane * h * w..(plane + 1) * h * w];
                    let fill = fill.map(|f| f[if f.len() == 1 { 0 } else { plane % channels }]);
                    if nearest {
                        let fill = fill.unwrap_or(T::zero());
                        read_nearest(pixels, &taps, fill, out);
                    } else {
                        read_bilinear(pixels, &taps, fill, out);
                    }
                }
            }
        },
    );
    out
}
