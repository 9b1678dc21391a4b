//! Copying parts of an operand into the order in which the tiles read them.

#[cfg(target_arch = "aarch64")]
use std::arch::aarch64::{float32x4_t as Single, float64x2_t as Double};
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{__m256 as Single, __m256d as Double};

use crate::machine::tuning::panel::{CHUNK, TOGETHER};
use crate::memory::stream;
use crate::multiversion;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use crate::simd::Vector;
use crate::simd::{Arch, Level};

/// Some lines of an operand: rows of the left one, columns of the right one.
pub(crate) struct Lines<T> {
    pub ptr: *const T,
    /// The steps to the next line and to the next term of a line.
    pub line: isize,
    pub term: isize,
}

impl<T> Clone for Lines<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Lines<T> {}

impl<T> Lines<T> {
    /// The same lines of elements of the same size.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub fn cast<U>(self) -> Lines<U> {
        const { assert!(size_of::<T>() == size_of::<U>()) };
        Lines {
            ptr: self.ptr.cast(),
            line: self.line,
            term: self.term,
        }
    }
    /// The lines from `first` on.
    #[inline(always)]
    pub fn from(self, first: usize) -> Lines<T> {
        Lines {
            ptr: self.at(first, 0),
            ..self
        }
    }
    #[inline(always)]
    pub fn at(self, line: usize, term: usize) -> *const T {
        let offset = line as isize * self.line + term as isize * self.term;
        self.ptr.wrapping_offset(offset)
    }
}

/// Numbers of which a square is transposed in registers.
pub(crate) trait Square: Copy {
    /// The side of the square at a level; 1 where there is none.
    #[inline(always)]
    fn side<A: Arch>() -> usize {
        match A::LEVEL {
            Level::Base => 1,
            Level::Neon => 16 / size_of::<Self>(),
            Level::Avx2 | Level::Avx512 => 32 / size_of::<Self>(),
        }
    }
    /// [`Square::copy`] for the terms of a square, of adjacent terms and at most as many lines.
    ///
    /// # Safety
    /// As there; the processor has the level that the square is for.
    unsafe fn transpose(from: Lines<Self>, lines: usize, to: *mut Self, pitch: usize);
    /// Writes term `p` of line `i` to `to[p * pitch + i]`.
    ///
    /// # Safety
    /// `from` is valid for the lines and terms. Anything may be written up to 7 numbers beyond the
    /// lines of a term, and so beyond the last one.
    unsafe fn copy(from: Lines<Self>, lines: usize, terms: usize, to: *mut Self, pitch: usize);
    /// [`Square::copy`] for some panels of `width` adjacent lines, one after the other.
    ///
    /// # Safety
    /// As there.
    unsafe fn spread(from: Lines<Self>, panels: usize, width: usize, terms: usize, to: *mut Self);
}

macro_rules! square {
    ($t:ident: $v:ty, $copy:ident $spread:ident) => {
        impl Square for $t {
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            #[inline(always)]
            unsafe fn transpose(from: Lines<$t>, lines: usize, to: *mut $t, pitch: usize) {
                const SIDE: usize = <$v as Vector>::N;
                // SAFETY: the caller's promise.
                unsafe {
                    let mut rows = [<$v as Vector>::splat(0.0); SIDE];
                    for i in 0..SIDE {
                        if i < lines {
                            rows[i] = Vector::load(from.at(i, 0));
                        }
                    }
                    let columns = <$v as Vector>::transpose(rows);
                    for i in 0..SIDE {
                        columns[i].store(to.add(i * pitch));
                    }
                }
            }
            #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
            unsafe fn transpose(_: Lines<$t>, _: usize, _: *mut $t, _: usize) {
                unreachable!("the level has no square")
            }
            #[inline]
            unsafe fn copy(from: Lines<$t>, lines: usize, terms: usize, to: *mut $t, pitch: usize) {
                // SAFETY: the caller's promise.
                unsafe { $copy(from, lines, terms, to, pitch) }
            }
            #[inline]
            unsafe fn spread(
                from: Lines<$t>,
                panels: usize,
                width: usize,
                terms: usize,
                to: *mut $t,
            ) {
                // SAFETY: the caller's promise.
                unsafe { $spread(from, panels, width, terms, to) }
            }
        }
    };
}
square!(f32: Single, copy_f32 spread_f32);
square!(f64: Double, copy_f64 spread_f64);

multiversion! {
    /// # Safety
    /// As [`Square::copy`].
    unsafe fn copy_f32<A>(from: Lines<f32>, lines: usize, terms: usize, to: *mut f32, pitch: usize) {
        // SAFETY: the caller's promise.
        unsafe { copy::<A, f32>(from, lines, terms, to, pitch) }
    }
    /// # Safety
    /// As [`Square::copy`].
    unsafe fn copy_f64<A>(from: Lines<f64>, lines: usize, terms: usize, to: *mut f64, pitch: usize) {
        // SAFETY: the caller's promise.
        unsafe { copy::<A, f64>(from, lines, terms, to, pitch) }
    }
    /// # Safety
    /// As [`Square::spread`].
    unsafe fn spread_f32<A>(from: Lines<f32>, panels: usize, width: usize, terms: usize, to: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { spread(from, panels, width, terms, to) }
    }
    /// # Safety
    /// As [`Square::spread`].
    unsafe fn spread_f64<A>(from: Lines<f64>, panels: usize, width: usize, terms: usize, to: *mut f64) {
        // SAFETY: the caller's promise.
        unsafe { spread(from, panels, width, terms, to) }
    }
}

/// # Safety
/// As [`Square::spread`].
#[inline(always)]
unsafe fn spread<T: Copy>(from: Lines<T>, panels: usize, width: usize, terms: usize, to: *mut T) {
    // SAFETY: the caller's promise.
    unsafe {
        match width {
            48 => spread_by::<T, 48>(from, panels, terms, to),
            32 => spread_by::<T, 32>(from, panels, terms, to),
            24 => spread_by::<T, 24>(from, panels, terms, to),
            16 => spread_by::<T, 16>(from, panels, terms, to),
            8 => spread_by::<T, 8>(from, panels, terms, to),
            6 => spread_by::<T, 6>(from, panels, terms, to),
            4 => spread_by::<T, 4>(from, panels, terms, to),
            _ => unreachable!("panels are 4, 6, 8, 16, 24, 32 or 48 wide"),
        }
    }
}

/// # Safety
/// As [`Square::spread`], for panels of `W`.
#[inline(always)]
unsafe fn spread_by<T: Copy, const W: usize>(
    from: Lines<T>,
    panels: usize,
    terms: usize,
    to: *mut T,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut first = 0;
        while first < panels {
            let some = (panels - first).min(if W > 8 { TOGETHER } else { TOGETHER / 2 });
            let to = to.add(first * W * terms);
            for p in 0..terms {
                let from = from.at(first * W, p);
                for q in 0..some {
                    let row = from.add(q * W).cast::<[T; W]>().read_unaligned();
                    to.add((q * terms + p) * W)
                        .cast::<[T; W]>()
                        .write_unaligned(row);
                }
            }
            first += some;
        }
    }
}

/// # Safety
/// As [`Square::copy`].
#[inline(always)]
unsafe fn copy<A: Arch, T: Square>(
    from: Lines<T>,
    lines: usize,
    terms: usize,
    to: *mut T,
    pitch: usize,
) {
    // SAFETY: the caller's promise; every index is below its size.
    unsafe {
        if from.line == 1 {
            match lines {
                32 => adjacent::<T, 32>(from, terms, to, pitch),
                16 => adjacent::<T, 16>(from, terms, to, pitch),
                8 => adjacent::<T, 8>(from, terms, to, pitch),
                7 => adjacent::<T, 7>(from, terms, to, pitch),
                6 => adjacent::<T, 6>(from, terms, to, pitch),
                5 => adjacent::<T, 5>(from, terms, to, pitch),
                4 => adjacent::<T, 4>(from, terms, to, pitch),
                _ => rest(from, lines, 0, terms, to, pitch),
            }
            return;
        }
        let side = T::side::<A>();
        let squares = if side > 1 && from.term == 1 {
            terms / side
        } else {
            0
        };
        // A group of fewer lines than the square has writes into the next term, so it is the first to
        // be written: groups that follow put right what it spoils. The stretch of lines that comes
        // next is asked for meanwhile, in the end that of the next panel.
        let last = lines.saturating_sub(1) / side * side;
        let mut first = 0;
        while first < squares * side {
            let end = (first + CHUNK).min(squares * side);
            for group in (0..lines.div_ceil(side)).rev() {
                let i = group * side;
                let ahead = match group {
                    0 if end < squares * side => from.at(last, end),
                    0 => from.at(lines + last, 0),
                    _ => from.at(i - side, first),
                };
                let ahead = Lines { ptr: ahead, ..from };
                let mut p = first;
                while p < end {
                    for line in 0..side {
                        stream::prefetch(ahead.at(line, p - first).cast());
                    }
                    let start = Lines {
                        ptr: from.at(i, p),
                        ..from
                    };
                    T::transpose(start, (lines - i).min(side), to.add(p * pitch + i), pitch);
                    p += side;
                }
            }
            first = end;
        }
        rest(from, lines, squares * side, terms, to, pitch);
    }
}

/// # Safety
/// As [`Square::copy`].
#[inline(always)]
unsafe fn adjacent<T: Copy, const W: usize>(
    from: Lines<T>,
    terms: usize,
    to: *mut T,
    pitch: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        for p in 0..terms {
            let row = from.at(0, p).cast::<[T; W]>().read_unaligned();
            to.add(p * pitch).cast::<[T; W]>().write_unaligned(row);
        }
    }
}

/// # Safety
/// As [`Square::copy`].
#[inline(always)]
unsafe fn rest<T: Copy>(
    from: Lines<T>,
    lines: usize,
    start: usize,
    terms: usize,
    to: *mut T,
    pitch: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        for p in start..terms {
            for i in 0..lines {
                *to.add(p * pitch + i) = *from.at(i, p);
            }
        }
    }
}
