//! Rows of windows that all lie inside of the image, at even distances: one element of all windows
//! after the other.

use std::mem::MaybeUninit;

use super::MaxPoolElement;
use super::axis::{PoolAxis, Window};
use crate::machine::tuning::pooling::{
    RUN, RUN_COLUMNS as SPAN, RUN_ROWS as ROWS, RUN_WINDOWS as LANES,
};
use crate::multiversion;
use crate::scalar::Real;

/// Windows that are computed at once, in registers; a row is laid out by so many elements.
const TILE: usize = 16;
/// Elements of a row, laid out for all lanes.
const WIDTH: usize = LANES + SPAN + TILE;

/// The longest run of whole windows along the last dimension.
#[derive(Clone, Copy, Debug)]
pub(super) struct WindowRun {
    /// The first window, and one past the last.
    pub first: usize,
    pub end: usize,
    /// Between windows: 1 or 2.
    pub step: usize,
}

impl WindowRun {
    /// The windows of the greatest extent, where there are enough and they are evenly apart.
    pub fn of(axis: &PoolAxis) -> Option<WindowRun> {
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
        let fits = n >= RUN && most > 0 && most <= SPAN && even && matches!(step, 1 | 2);
        fits.then_some(WindowRun {
            first,
            end: first + n,
            step,
        })
    }
}

/// The windows of one row of the output that are a run.
pub(super) struct PoolingRow<T> {
    /// The image's plane, and its sizes.
    pub src: *const T,
    pub plane: usize,
    pub height: usize,
    pub width: usize,
    /// The windows' extents; that along the row of the first one.
    pub extents: [Window; 3],
    pub dilations: [usize; 3],
    pub run: WindowRun,
    /// The first window's results.
    pub dst: *mut T,
}

impl<T> PoolingRow<T> {
    /// The length of the windows.
    #[inline(always)]
    fn span(&self) -> usize {
        self.extents[2].end - self.extents[2].start
    }

    /// Writes where the windows' rows begin, `along` elements from the first one, and says how many
    /// there are.
    #[inline(always)]
    fn rows(&self, along: usize, places: &mut [usize; ROWS]) -> usize {
        let [wz, wy, wx] = self.extents;
        let along = wx.start.wrapping_add(along);
        let mut taken = 0;
        let mut z = wz.start;
        while z < wz.end {
            let mut y = wy.start;
            while y < wy.end {
                let row = z.wrapping_mul(self.height).wrapping_add(y);
                places[taken] = row.wrapping_mul(self.width).wrapping_add(along);
                taken = taken.wrapping_add(1);
                y = y.wrapping_add(self.dilations[1]);
            }
            z = z.wrapping_add(self.dilations[0]);
        }
        taken
    }
}

/// What windows do with two elements.
pub(super) trait RunFold<T> {
    const START: T;
    fn fold(a: T, b: T) -> T;
}

/// The larger one.
struct RunMax;
impl<T: MaxPoolElement> RunFold<T> for RunMax {
    const START: T = T::LOWEST;
    #[inline(always)]
    fn fold(a: T, b: T) -> T {
        if b.wins(a) { b } else { a }
    }
}

/// Part of an image's row with its even and its odd places apart, so that windows two apart have
/// their elements side by side; all in the first half for windows one apart.
type Apart<T> = [MaybeUninit<[T; WIDTH]>; 2];

/// Lays out what rows of the plane that begin at `places` are together, as far as `n` windows and
/// what makes them whole tiles need it.
///
/// # Safety
/// The windows lie inside of the plane.
#[inline(always)]
unsafe fn lay_out<T: Copy, F: RunFold<T>, const S: usize>(
    row: &PoolingRow<T>,
    places: &[usize],
    n: usize,
    to: &mut Apart<T>,
) {
    let windows = n.wrapping_add(TILE - 1) / TILE * TILE;
    let length = windows
        .wrapping_sub(1)
        .wrapping_mul(S)
        .wrapping_add(row.span());
    let length = length.wrapping_add(TILE - 1) / TILE * TILE;
    let [even, odd] = to;
    let (even, odd) = (even.as_mut_ptr().cast::<T>(), odd.as_mut_ptr().cast::<T>());
    // From one buffer to the other: what is both read and written would be stored under a mask,
    // which takes several times as long.
    let mut buffers = [const { MaybeUninit::<[T; 2 * WIDTH]>::uninit() }; 2];
    let [a, b] = &mut buffers;
    let (mut all, mut next) = (a.as_mut_ptr().cast::<T>(), b.as_mut_ptr().cast::<T>());
    if S == 1 && places.len() == 1 {
        all = even;
    }
    for (index, &place) in places.iter().enumerate() {
        let src = row.src.wrapping_add(place);
        // What lies behind the windows is not looked at, but must be there to be read.
        let there = row.plane.saturating_sub(place);
        let there = if there < length { there } else { length };
        // SAFETY: elements of the plane, and room for as many.
        unsafe {
            if S == 2 && places.len() == 1 && there == length {
                // Only read from here on; what was just written in other pieces would be slow to read.
                all = src.cast_mut();
                continue;
            }
            if index == 0 {
                (0..there).for_each(|i| *all.wrapping_add(i) = *src.wrapping_add(i));
                (there..length).for_each(|i| *all.wrapping_add(i) = F::START);
                continue;
            }
            if S == 1 && index.wrapping_add(1) == places.len() {
                next = even;
            }
            for i in 0..there {
                let v = F::fold(*all.wrapping_add(i), *src.wrapping_add(i));
                *next.wrapping_add(i) = v;
            }
            (there..length).for_each(|i| *next.wrapping_add(i) = *all.wrapping_add(i));
        }
        std::mem::swap(&mut all, &mut next);
    }
    if S == 2 {
        for i in 0..length / 2 {
            let at = i.wrapping_mul(2);
            // SAFETY: all were written, and there is room for half as many in each.
            unsafe {
                *even.wrapping_add(i) = *all.wrapping_add(at);
                *odd.wrapping_add(i) = *all.wrapping_add(at.wrapping_add(1));
            }
        }
    }
}

/// A tile of element `x` of the windows from `first` on.
///
/// # Safety
/// They are laid out.
#[inline(always)]
unsafe fn tap<T: Copy, const S: usize>(row: &Apart<T>, x: usize, first: usize) -> [T; TILE] {
    let half = row[if S == 1 { 0 } else { x % 2 }].as_ptr().cast::<T>();
    let at = half.wrapping_add(x / S).wrapping_add(first);
    // SAFETY: the caller's promise.
    unsafe { at.cast::<[T; TILE]>().read_unaligned() }
}

/// Writes `n` results of a tile.
///
/// # Safety
/// There is room for so many.
#[inline(always)]
unsafe fn put<T: Copy>(tile: [T; TILE], n: usize, to: *mut T) {
    // SAFETY: the caller's promise.
    unsafe {
        match n >= TILE {
            true => to.cast::<[T; TILE]>().write_unaligned(tile),
            false => (0..n).for_each(|l| *to.wrapping_add(l) = tile[l]),
        }
    }
}

/// Whether a window has few enough rows for the loops here.
pub(super) fn fits(extents: [Window; 2], dilations: [usize; 2]) -> bool {
    let rows = |w: Window, by: usize| (w.end - w.start).div_ceil(by);
    rows(extents[0], dilations[0]) * rows(extents[1], dilations[1]) <= ROWS
}

/// Maxima and where they are.
///
/// # Safety
/// The windows lie inside of the plane, and have few enough rows.
#[inline(always)]
unsafe fn indexed<T: MaxPoolElement, const S: usize>(row: &PoolingRow<T>, at: *mut i64) {
    let (count, span) = (row.run.end - row.run.first, row.span());
    let mut rows = [const { [const { MaybeUninit::uninit() }; 2] }; ROWS];
    // Here, since a list that is copied just after it was written is slow to read.
    let mut places = [0; ROWS];
    let mut from = 0;
    while from < count {
        let n = LANES.min(count - from);
        let taken = row.rows(from.wrapping_mul(S), &mut places);
        let corner = places[0];
        for i in 0..taken {
            // SAFETY: the caller's promise.
            unsafe { lay_out::<T, RunMax, S>(row, &[places[i]], n, &mut rows[i]) };
        }
        let mut first = 0;
        while first < n {
            let (mut best, mut index) = ([T::LOWEST; TILE], [0u32; TILE]);
            for i in 0..taken {
                let mut x = 0;
                while x < span {
                    // SAFETY: all rows are laid out.
                    let v = unsafe { tap::<T, S>(&rows[i], x, first) };
                    let here = places[i].wrapping_sub(corner).wrapping_add(x) as u32;
                    for l in 0..TILE {
                        let wins = v[l].wins(best[l]);
                        best[l] = if wins { v[l] } else { best[l] };
                        index[l] = if wins { here } else { index[l] };
                    }
                    x = x.wrapping_add(row.dilations[2]);
                }
            }
            let begin = from.wrapping_add(first);
            let corner = corner.wrapping_add(first.wrapping_mul(S));
            let mut found = [0i64; TILE];
            for l in 0..TILE {
                let window = corner.wrapping_add(l.wrapping_mul(S)) as u32;
                found[l] = i64::from(window.wrapping_add(index[l]));
            }
            // SAFETY: the results of these windows.
            unsafe {
                put(best, n.wrapping_sub(first), row.dst.wrapping_add(begin));
                put(found, n.wrapping_sub(first), at.wrapping_add(begin));
            }
            first = first.wrapping_add(TILE);
        }
        from = from.wrapping_add(n);
    }
}

/// What the windows' elements are together, and `last` of it: rows first, then along them.
///
/// # Safety
/// As [`indexed`].
#[inline(always)]
unsafe fn folded<T: Copy, F: RunFold<T>, const S: usize>(
    row: &PoolingRow<T>,
    last: impl Fn(T) -> T,
) {
    let (count, span) = (row.run.end - row.run.first, row.span());
    let mut apart = [const { MaybeUninit::uninit() }; 2];
    // Here, since a list that is copied just after it was written is slow to read.
    let mut places = [0; ROWS];
    let mut from = 0;
    while from < count {
        let n = LANES.min(count - from);
        let taken = row.rows(from.wrapping_mul(S), &mut places);
        // SAFETY: the caller's promise.
        unsafe { lay_out::<T, F, S>(row, &places[..taken], n, &mut apart) };
        let mut first = 0;
        while first < n {
            let mut all = [F::START; TILE];
            let mut x = 0;
            while x < span {
                // SAFETY: the row is laid out.
                let v = unsafe { tap::<T, S>(&apart, x, first) };
                for l in 0..TILE {
                    all[l] = F::fold(all[l], v[l]);
                }
                x = x.wrapping_add(row.dilations[2]);
            }
            for v in &mut all {
                *v = last(*v);
            }
            let to = row.dst.wrapping_add(from.wrapping_add(first));
            // SAFETY: the results of these windows.
            unsafe { put(all, n.wrapping_sub(first), to) };
            first = first.wrapping_add(TILE);
        }
        from = from.wrapping_add(n);
    }
}

/// Maxima of a row and, where wanted, where they are.
///
/// # Safety
/// The windows lie inside of the plane, and have few enough rows.
#[inline(always)]
pub(super) unsafe fn maxima<T: MaxPoolElement>(row: &PoolingRow<T>, at: Option<*mut i64>) {
    // SAFETY: the caller's promise.
    unsafe {
        match (row.run.step, at) {
            (1, Some(at)) => indexed::<T, 1>(row, at),
            (_, Some(at)) => indexed::<T, 2>(row, at),
            (1, None) => folded::<T, RunMax, 1>(row, |v| v),
            (_, None) => folded::<T, RunMax, 2>(row, |v| v),
        }
    }
}

/// The sum.
struct RunSum;

impl<T: Real> RunFold<T> for RunSum {
    const START: T = T::ZERO;
    #[inline(always)]
    fn fold(a: T, b: T) -> T {
        a + b
    }
}

multiversion! {
    /// The sums of windows, each over `n`.
    ///
    /// # Safety
    /// As for `maxima`.
    pub(super) unsafe fn means<A, T: Real>(row: &PoolingRow<T>, n: T) {
        // SAFETY: the caller's promise.
        unsafe {
            match row.run.step {
                1 => folded::<T, RunSum, 1>(row, |v| v / n),
                _ => folded::<T, RunSum, 2>(row, |v| v / n),
            }
        }
    }
    /// See [`maxima`].
    pub(super) unsafe fn maxima_f32<A>(row: &PoolingRow<f32>, at: Option<*mut i64>) {
        // SAFETY: the caller's promise.
        unsafe { maxima::<f32>(row, at) }
    }
}
