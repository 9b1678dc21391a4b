//! Places in an image, and the image read at them, with PyTorch's roundings.
//!
//! Where PyTorch multiplies and adds in one rounding, so does this module, and nowhere else: the pixels of an image that
//! is turned by 90 degrees lie so close to the middle between two others that it shows.

use num_traits::Float;
use torsh_tensor::{DType, Device, Result, Tensor};

use super::bytes::{fast, pieces};

/// float32 and float64.
pub(super) trait Real: Float + Default + Send + Sync + 'static {
    const DTYPE: DType;
    fn of(v: f64) -> Self;
    /// Halves to even.
    fn rounded(self) -> Self;
    fn index(self) -> i64;
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
            fn index(self) -> i64 {
                self as i64
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
    pub places: Vec<[T; 2]>,
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
    let (left, top) = (from(size.1), from(size.0));
    filled(size, |x, y| {
        let (x, y) = (T::of(left + x as f64), T::of(top + y as f64));
        rows.map(|row| product(row, x, y))
    })
}

/// The places after a perspective map, of which `c` are the coefficients.
pub(super) fn perspective_grid<T: Real>(c: [f64; 8], (h, w): (usize, usize)) -> Grid<T> {
    let (half_w, half_h) = (T::of(0.5 * w as f64), T::of(0.5 * h as f64));
    let c = c.map(T::of);
    let above = [
        [c[0] / half_w, c[1] / half_w, c[2] / half_w],
        [c[3] / half_h, c[4] / half_h, c[5] / half_h],
    ];
    let below = [c[6], c[7], T::one()];
    filled((h, w), |x, y| {
        let (x, y) = (T::of(x as f64 + 0.5), T::of(y as f64 + 0.5));
        let d = product(below, x, y);
        above.map(|row| product(row, x, y) / d - T::one())
    })
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
    Ok(filled((h, w), |x, y| {
        let at = 2 * (y * w + x);
        [
            xs[x] + sign * displacement[at],
            ys[y] + sign * displacement[at + 1],
        ]
    }))
}

#[inline(always)]
fn product<T: Real>([a, b, c]: [T; 3], x: T, y: T) -> T {
    x * a + y * b + c
}

fn filled<T: Real>(size: (usize, usize), place: impl Fn(usize, usize) -> [T; 2] + Sync) -> Grid<T> {
    let mut places = vec![[T::zero(); 2]; size.0 * size.1];
    pieces(&mut places, size.1, 16, |y, row| {
        fast(|| {
            for (x, out) in row.iter_mut().enumerate() {
                *out = place(x, y);
            }
        });
    });
    Grid { size, places }
}

/// What a pixel of the result is made of.
#[derive(Clone, Copy)]
struct Taps<T> {
    /// The upper left one.
    at: usize,
    /// To the right one, and to the lower one; 0 at the edge.
    right: usize,
    down: usize,
    /// Upper left, upper right, lower left, lower right; 0 outside of the image.
    weights: [T; 4],
    /// How much of the pixel is inside.
    inside: T,
}

#[inline(always)]
fn taps<T: Real>([x, y]: [T; 2], (h, w): (usize, usize), nearest: bool) -> Taps<T> {
    let half = T::of(0.5);
    let in_pixels = |v: T, n: usize| (v + T::one()).mul_add(T::of(n as f64 / 2.0), -half);
    let (x, y) = (in_pixels(x, w), in_pixels(y, h));
    let within = |v: T, n: usize| v >= T::zero() && v <= T::of(n as f64 - 1.0);
    let none = Taps {
        at: 0,
        right: 0,
        down: 0,
        weights: [T::zero(); 4],
        inside: T::zero(),
    };
    if nearest {
        let (x, y) = (x.rounded(), y.rounded());
        if !(within(x, w) && within(y, h)) {
            return none;
        }
        return Taps {
            at: y.index() as usize * w + x.index() as usize,
            inside: T::one(),
            weights: [T::one(), T::zero(), T::zero(), T::zero()],
            ..none
        };
    }
    let (left, top) = (x.floor(), y.floor());
    let one = T::one();
    let minus = T::zero() - one;
    // Nothing is near, or the place is no number.
    if !(left >= minus && left < T::of(w as f64) && top >= minus && top < T::of(h as f64)) {
        return none;
    }
    let (e, s) = (x - left, y - top);
    let (w_, n) = (one - e, one - s);
    let (l, t) = (left.index(), top.index());
    let zero_if = |v: T, there: bool| if there { v } else { T::zero() };
    let (has_l, has_r) = (l >= 0, l + 1 < w as i64);
    let (has_t, has_b) = (t >= 0, t + 1 < h as i64);
    let weights = [
        zero_if(w_ * n, has_l && has_t),
        zero_if(e * n, has_r && has_t),
        zero_if(w_ * s, has_l && has_b),
        zero_if(e * s, has_r && has_b),
    ];
    Taps {
        at: t.max(0) as usize * w + l.max(0) as usize,
        // At the left and upper edge, the first is the second.
        right: usize::from(has_l && has_r),
        down: if has_t && has_b { w } else { 0 },
        weights,
        inside: ((weights[0] + weights[1]) + weights[2]) + weights[3],
    }
}

/// The planes of `src`, each of `(h, w)`, read at the places of the grid. `fill` has a value for each channel, or one;
/// `emit` turns a number into an element.
pub(super) fn sample<T: Real, S: Copy + Sync + Into<T>, O: Copy + Default + Send>(
    src: &[S],
    channels: usize,
    (h, w): (usize, usize),
    grid: &Grid<T>,
    nearest: bool,
    fill: Option<&[T]>,
    emit: impl Fn(T) -> O + Sync,
) -> Vec<O> {
    let (oh, ow) = grid.size;
    let planes = src.len() / (h * w).max(1);
    let mut all = vec![taps([T::nan(); 2], (h, w), nearest); oh * ow];
    pieces(&mut all, ow, 32, |y, row| {
        let places = &grid.places[y * ow..(y + 1) * ow];
        fast(|| {
            for (taps_, &place) in row.iter_mut().zip(places) {
                *taps_ = taps(place, (h, w), nearest);
            }
        });
    });
    let mut out = vec![O::default(); planes * oh * ow];
    pieces(&mut out, ow, 8, |row, out| {
        let (plane, y) = (row / oh, row % oh);
        let pixels = &src[plane * h * w..(plane + 1) * h * w];
        let fill = fill.map(|f| f[if f.len() == 1 { 0 } else { plane % channels }]);
        let taps = &all[y * ow..(y + 1) * ow];
        fast(|| {
            for (out, t) in out.iter_mut().zip(taps) {
                let v: T = if nearest {
                    let v: T = pixels[t.at].into();
                    if t.inside > T::zero() { v } else { T::zero() }
                } else {
                    let at = |i: usize| -> T { pixels[i].into() };
                    let [a, b, c, d] = t.weights;
                    let v = at(t.at) * a;
                    let v = at(t.at + t.right).mul_add(b, v);
                    let v = at(t.at + t.down).mul_add(c, v);
                    at(t.at + t.right + t.down).mul_add(d, v)
                };
                let v = match fill {
                    None => v,
                    Some(f) if nearest => {
                        if t.inside < T::of(0.5) {
                            f
                        } else {
                            v
                        }
                    }
                    Some(f) => (v - f) * t.inside + f,
                };
                *out = emit(v);
            }
        });
    });
    out
}
