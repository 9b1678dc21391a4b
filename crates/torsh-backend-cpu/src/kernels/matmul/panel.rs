//! Copying parts of an operand into the order in which the tiles read them.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use crate::machine::tuning::panel::{CHUNK, TOGETHER};
use crate::multiversion;
use crate::simd::Arch;

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
    /// The side of the square, where a level has one.
    const SIDE: usize;
    /// The side of the square at a level; 1 where there is none.
    #[inline(always)]
    fn side<A: Arch>() -> usize {
        #[cfg(target_arch = "x86_64")]
        if A::LEVEL >= crate::simd::Level::Avx2 {
            return Self::SIDE;
        }
        1
    }
    /// [`Square::copy`] for the terms of a square, of adjacent terms and at most as many lines.
    ///
    /// # Safety
    /// As there; the processor has the level that the square is for.
    unsafe fn transpose(from: Lines<Self>, lines: usize, to: *mut Self, pitch: usize);
    /// Asks for the cache line of an address, which need not be valid.
    fn fetch(at: *const Self);
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
    ($t:ident $side:literal: $transpose:ident $copy:ident $spread:ident) => {
        impl Square for $t {
            const SIDE: usize = $side;
            #[cfg(target_arch = "x86_64")]
            #[inline(always)]
            unsafe fn transpose(from: Lines<$t>, lines: usize, to: *mut $t, pitch: usize) {
                // SAFETY: the caller's promise.
                unsafe { $transpose(from, lines, to, pitch) }
            }
            #[inline(always)]
            fn fetch(at: *const $t) {
                #[cfg(target_arch = "x86_64")]
                // SAFETY: a prefetch of any address is harmless, and SSE is in the baseline.
                unsafe {
                    _mm_prefetch::<_MM_HINT_T0>(at.cast())
                }
                #[cfg(not(target_arch = "x86_64"))]
                let _ = at;
            }
            #[cfg(not(target_arch = "x86_64"))]
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
square!(f32 8: transpose_8x8 copy_f32 spread_f32);
square!(f64 4: transpose_4x4 copy_f64 spread_f64);

/// # Safety
/// As [`Square::transpose`].
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn transpose_8x8(from: Lines<f32>, lines: usize, to: *mut f32, pitch: usize) {
    // Intrinsics in a closure would be calls.
    macro_rules! row {
        ($i:literal) => {
            if $i < lines {
                _mm256_loadu_ps(from.at($i, 0))
            } else {
                _mm256_setzero_ps()
            }
        };
    }
    // SAFETY: the caller's promise.
    unsafe {
        let (r0, r1, r2, r3) = (row!(0), row!(1), row!(2), row!(3));
        let (r4, r5, r6, r7) = (row!(4), row!(5), row!(6), row!(7));
        let (a0, a1) = (_mm256_unpacklo_ps(r0, r1), _mm256_unpackhi_ps(r0, r1));
        let (a2, a3) = (_mm256_unpacklo_ps(r2, r3), _mm256_unpackhi_ps(r2, r3));
        let (a4, a5) = (_mm256_unpacklo_ps(r4, r5), _mm256_unpackhi_ps(r4, r5));
        let (a6, a7) = (_mm256_unpacklo_ps(r6, r7), _mm256_unpackhi_ps(r6, r7));
        let b0 = _mm256_shuffle_ps::<0x44>(a0, a2);
        let b1 = _mm256_shuffle_ps::<0xEE>(a0, a2);
        let b2 = _mm256_shuffle_ps::<0x44>(a1, a3);
        let b3 = _mm256_shuffle_ps::<0xEE>(a1, a3);
        let b4 = _mm256_shuffle_ps::<0x44>(a4, a6);
        let b5 = _mm256_shuffle_ps::<0xEE>(a4, a6);
        let b6 = _mm256_shuffle_ps::<0x44>(a5, a7);
        let b7 = _mm256_shuffle_ps::<0xEE>(a5, a7);
        _mm256_storeu_ps(to, _mm256_permute2f128_ps::<0x20>(b0, b4));
        _mm256_storeu_ps(to.add(pitch), _mm256_permute2f128_ps::<0x20>(b1, b5));
        _mm256_storeu_ps(to.add(2 * pitch), _mm256_permute2f128_ps::<0x20>(b2, b6));
        _mm256_storeu_ps(to.add(3 * pitch), _mm256_permute2f128_ps::<0x20>(b3, b7));
        _mm256_storeu_ps(to.add(4 * pitch), _mm256_permute2f128_ps::<0x31>(b0, b4));
        _mm256_storeu_ps(to.add(5 * pitch), _mm256_permute2f128_ps::<0x31>(b1, b5));
        _mm256_storeu_ps(to.add(6 * pitch), _mm256_permute2f128_ps::<0x31>(b2, b6));
        _mm256_storeu_ps(to.add(7 * pitch), _mm256_permute2f128_ps::<0x31>(b3, b7));
    }
}

/// # Safety
/// As [`Square::transpose`].
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn transpose_4x4(from: Lines<f64>, lines: usize, to: *mut f64, pitch: usize) {
    macro_rules! row {
        ($i:literal) => {
            if $i < lines {
                _mm256_loadu_pd(from.at($i, 0))
            } else {
                _mm256_setzero_pd()
            }
        };
    }
    // SAFETY: the caller's promise.
    unsafe {
        let (r0, r1, r2, r3) = (row!(0), row!(1), row!(2), row!(3));
        let (a0, a1) = (_mm256_unpacklo_pd(r0, r1), _mm256_unpackhi_pd(r0, r1));
        let (a2, a3) = (_mm256_unpacklo_pd(r2, r3), _mm256_unpackhi_pd(r2, r3));
        _mm256_storeu_pd(to, _mm256_permute2f128_pd::<0x20>(a0, a2));
        _mm256_storeu_pd(to.add(pitch), _mm256_permute2f128_pd::<0x20>(a1, a3));
        _mm256_storeu_pd(to.add(2 * pitch), _mm256_permute2f128_pd::<0x31>(a0, a2));
        _mm256_storeu_pd(to.add(3 * pitch), _mm256_permute2f128_pd::<0x31>(a1, a3));
    }
}

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
                        T::fetch(ahead.at(line, p - first));
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
