//! Rows of windows that all lie inside of the image, at even distances: one element of all windows
//! after the other.

use super::Ordered;
use super::axis::{Axis, Window};
use crate::multiversion;

/// Windows that are computed at once.
const LANES: usize = 64;
/// The longest windows that are computed so.
const SPAN: usize = 32;

/// The longest run of whole windows along the last dimension.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// The first window, and one past the last.
    pub first: usize,
    pub end: usize,
    /// Between windows: 1 or 2.
    pub step: usize,
}

impl Run {
    /// The windows of the greatest extent, where there are enough and they are evenly apart.
    pub fn of(axis: &Axis) -> Option<Run> {
        let span = |w: &Window| w.end - w.start;
        let all = &axis.windows;
        let most = all.iter().map(span).max()?;
        let first = all.iter().position(|w| span(w) == most)?;
        let rest = &all[first..];
        let n = rest
            .iter()
            .position(|w| span(w) != most)
            .unwrap_or(rest.len());
        let step = rest.get(1)?.start.checked_sub(rest[0].start)?;
        let even = rest[..n]
            .windows(2)
            .all(|w| w[1].start == w[0].start + step);
        let fits = n >= 4 && most > 0 && most <= SPAN && even && matches!(step, 1 | 2);
        fits.then_some(Run {
            first,
            end: first + n,
            step,
        })
    }
}

/// The windows of one row of the output that are a run.
pub(super) struct Row<T> {
    /// The image's plane, and its sizes.
    pub src: *const T,
    pub height: usize,
    pub width: usize,
    /// The windows' extents; that along the row of the first one.
    pub extents: [Window; 3],
    pub dilations: [usize; 3],
    pub run: Run,
    /// The first window's results.
    pub dst: *mut T,
}

impl<T> Row<T> {
    /// The place of an element of the first window.
    #[inline(always)]
    fn place(&self, z: usize, y: usize, x: usize) -> usize {
        let row = z.wrapping_mul(self.height).wrapping_add(y);
        row.wrapping_mul(self.width).wrapping_add(x)
    }
}

/// Part of an image's row with its even and its odd places apart, so that windows two apart have
/// their elements side by side. Lanes past the last window hold what once was there.
struct Apart<T>([[T; LANES + SPAN]; 2]);

impl<T: Copy> Apart<T> {
    /// # Safety
    /// `from` must hold `n` elements, at most `S * LANES + SPAN`.
    #[inline(always)]
    unsafe fn fill<const S: usize>(&mut self, from: *const T, n: usize) {
        let [even, odd] = self.0.each_mut().map(|a| a.as_mut_ptr());
        // SAFETY: the caller's promise.
        unsafe {
            if S == 1 {
                (0..n).for_each(|i| *even.wrapping_add(i) = *from.wrapping_add(i));
                return;
            }
            for i in 0..n / 2 {
                *even.wrapping_add(i) = *from.wrapping_add(i.wrapping_mul(2));
                *odd.wrapping_add(i) = *from.wrapping_add(i.wrapping_mul(2).wrapping_add(1));
            }
            if n % 2 == 1 {
                *even.wrapping_add(n / 2) = *from.wrapping_add(n.wrapping_sub(1));
            }
        }
    }

    /// Element `x` of the windows' rows, one after the other.
    #[inline(always)]
    fn tap<const S: usize>(&self, x: usize) -> *const T {
        match (S, x % 2) {
            (1, _) => self.0[0].as_ptr().wrapping_add(x),
            (_, 0) => self.0[0].as_ptr().wrapping_add(x / 2),
            _ => self.0[1].as_ptr().wrapping_add(x / 2),
        }
    }
}

/// Maxima and, where wanted, where they are.
///
/// # Safety
/// The windows lie inside of the plane.
#[inline(always)]
pub(super) unsafe fn maxima<T: Ordered, const S: usize>(row: &Row<T>, at: Option<*mut i64>) {
    let [wz, wy, wx] = row.extents;
    let [deep, down, right] = row.dilations;
    let count = row.run.end - row.run.first;
    let span = wx.end - wx.start;
    let mut parts = Apart([[T::LOWEST; LANES + SPAN]; 2]);
    let (mut best, mut index) = ([T::LOWEST; LANES], [0u32; LANES]);
    let (best, index) = (best.as_mut_ptr(), index.as_mut_ptr());
    let mut from = 0;
    while from < count {
        let n = LANES.min(count - from);
        // Whole registers.
        let lanes = n.wrapping_add(7) & !7;
        let along = wx.start.wrapping_add(from.wrapping_mul(S));
        let corner = row.place(wz.start, wy.start, along) as u32;
        let mut z = wz.start;
        // SAFETY: the caller's promise; all lanes lie in their arrays.
        unsafe {
            for l in 0..lanes {
                *best.wrapping_add(l) = T::LOWEST;
                *index.wrapping_add(l) = corner.wrapping_add((l as u32).wrapping_mul(S as u32));
            }
            while z < wz.end {
                let mut y = wy.start;
                while y < wy.end {
                    let place = row.place(z, y, along);
                    let length = n.wrapping_sub(1).wrapping_mul(S).wrapping_add(span);
                    parts.fill::<S>(row.src.wrapping_add(place), length);
                    let mut x = 0;
                    while x < span {
                        let src = parts.tap::<S>(x);
                        let place = place.wrapping_add(x) as u32;
                        for l in 0..lanes {
                            let v = *src.wrapping_add(l);
                            let here = place.wrapping_add((l as u32).wrapping_mul(S as u32));
                            let (most, its) = (*best.wrapping_add(l), *index.wrapping_add(l));
                            let wins = v.wins(most);
                            *best.wrapping_add(l) = if wins { v } else { most };
                            *index.wrapping_add(l) = if wins { here } else { its };
                        }
                        x = x.wrapping_add(right);
                    }
                    y = y.wrapping_add(down);
                }
                z = z.wrapping_add(deep);
            }
            for l in 0..n {
                *row.dst.wrapping_add(from.wrapping_add(l)) = *best.wrapping_add(l);
            }
            if let Some(at) = at {
                for l in 0..n {
                    *at.wrapping_add(from.wrapping_add(l)) = i64::from(*index.wrapping_add(l));
                }
            }
        }
        from = from.wrapping_add(n);
    }
}

/// Sums over windows, rows first, then along them, each over `over`.
///
/// # Safety
/// As for [`maxima`].
#[inline(always)]
unsafe fn means<T: Sums, const S: usize>(row: &Row<T>, over: T) {
    let [wz, wy, wx] = row.extents;
    let count = row.run.end - row.run.first;
    let (mut sums, mut column) = ([T::default(); LANES], [T::default(); LANES]);
    let mut from = 0;
    while from < count {
        let n = LANES.min(count - from);
        let along = wx.start.wrapping_add(from.wrapping_mul(S));
        for l in 0..n {
            sums[l] = T::default();
        }
        for x in 0..wx.end.wrapping_sub(wx.start) {
            for l in 0..n {
                column[l] = T::default();
            }
            for z in wz.start..wz.end {
                for y in wy.start..wy.end {
                    let src = row.src.wrapping_add(row.place(z, y, along.wrapping_add(x)));
                    for l in 0..n {
                        // SAFETY: the caller's promise.
                        column[l] = column[l] + unsafe { *src.wrapping_add(l.wrapping_mul(S)) };
                    }
                }
            }
            for l in 0..n {
                sums[l] = sums[l] + column[l];
            }
        }
        for l in 0..n {
            // SAFETY: the results of these windows.
            unsafe { *row.dst.wrapping_add(from.wrapping_add(l)) = sums[l] / over };
        }
        from = from.wrapping_add(n);
    }
}

/// What [`means`] needs.
trait Sums: Copy + Default + std::ops::Add<Output = Self> + std::ops::Div<Output = Self> {}
impl Sums for f32 {}
impl Sums for f64 {}

macro_rules! rows {
    ($($t:ident $maxima:ident $means:ident;)*) => {
        multiversion! {
            $(
                /// See `maxima`.
                pub(super) unsafe fn $maxima<A>(row: &Row<$t>, at: Option<*mut i64>) {
                    // SAFETY: the caller's promise.
                    unsafe {
                        match row.run.step {
                            1 => maxima::<$t, 1>(row, at),
                            _ => maxima::<$t, 2>(row, at),
                        }
                    }
                }
                /// See `means`.
                pub(super) unsafe fn $means<A>(row: &Row<$t>, n: $t) {
                    // SAFETY: the caller's promise.
                    unsafe {
                        match row.run.step {
                            1 => means::<$t, 1>(row, n),
                            _ => means::<$t, 2>(row, n),
                        }
                    }
                }
            )*
        }
    };
}
rows! {
    f32 maxima_f32 means_f32;
    f64 maxima_f64 means_f64;
}
