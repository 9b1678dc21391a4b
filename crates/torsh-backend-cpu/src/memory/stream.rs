//! Asking for cache lines ahead, and writing past the caches.
//!
//! Processors fetch ahead by themselves, but not beyond the 4 KiB of a page. A row of a thousand
//! numbers is one: loops over rows wait at each, unless they ask for the next in time.
//!
//! A result larger than the caches is gone from them before anybody reads it. Written the usual
//! way its lines are first read from memory, a third of all traffic of a copy.
//!
//! Intrinsics: Stores past the caches of whole lines, whatever their elements are.

use torsh_core::machine::{Machine, machine};

pub(crate) use crate::machine::tuning::stream::{AHEAD, FAR};
use crate::machine::tuning::stream::{FARTHER, ROW, STREAMED};
#[cfg(target_arch = "x86_64")]
use crate::simd::{Level, level};

/// Whether a result of this size is to be written with this module's functions.
pub(crate) fn pays(bytes: usize) -> bool {
    cfg!(target_arch = "x86_64") && bytes >= STREAMED
}

/// [`pays`] on a described machine.
#[inline]
pub(crate) fn pays_on(machine: &Machine, bytes: usize) -> bool {
    machine.streaming_stores && bytes >= STREAMED
}

/// Asks for the cache line of an address, which need not be valid.
#[inline(always)]
pub(crate) fn prefetch(p: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: part of x86-64; a prefetch of any address is harmless.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(p.cast())
    };
    #[cfg(target_arch = "aarch64")]
    // SAFETY: part of aarch64; a prefetch of any address is harmless.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) p, options(nostack, preserves_flags, readonly))
    };
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = p;
}

/// Asks for the cache line of an address, which need not be valid, in the second level of the cache.
#[inline(always)]
pub(crate) fn prefetch_second(p: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: part of x86-64; a prefetch of any address is harmless.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(p.cast())
    };
    #[cfg(target_arch = "aarch64")]
    // SAFETY: part of aarch64; a prefetch of any address is harmless.
    unsafe {
        std::arch::asm!("prfm pldl2keep, [{}]", in(reg) p, options(nostack, preserves_flags, readonly))
    };
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = p;
}

/// Asks for the cache line of an address that will be written; it need not be valid.
#[inline(always)]
pub(crate) fn prefetch_write(p: *mut u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor takes this instruction, those without its function as none;
    // a prefetch of any address is harmless.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) p, options(nostack, preserves_flags))
    };
    #[cfg(target_arch = "aarch64")]
    // SAFETY: part of aarch64; a prefetch of any address is harmless.
    unsafe {
        std::arch::asm!("prfm pstl1keep, [{}]", in(reg) p, options(nostack, preserves_flags, readonly))
    };
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = p;
}

/// Whether a loop over rows of so many bytes should ask for the next row while it is at one;
/// through longer ones the processor finds its way.
#[inline(always)]
pub(crate) fn fetches_rows(bytes: usize) -> bool {
    bytes <= ROW
}

/// Whether loops over so many bytes in all prefetch what they read next: always from memory, and from
/// the shared cache where the hardware prefetcher does not follow rows by itself.
pub(crate) fn asks_ahead(bytes: usize) -> bool {
    bytes > FARTHER || !machine().prefetches_rows
}

/// Bytes of a cache line.
pub(crate) const LINE: usize = 64;

/// Asks for the cache lines of `N` elements.
#[inline(always)]
pub(crate) fn prefetch_all<T, const N: usize>(p: *const T) {
    let mut at = 0;
    while at < N * size_of::<T>() {
        prefetch(p.cast::<u8>().wrapping_add(at));
        at += LINE;
    }
}

/// Asks for the cache lines of `N` elements that will be written.
#[inline(always)]
pub(crate) fn prefetch_write_all<T, const N: usize>(p: *mut T) {
    let mut at = 0;
    while at < N * size_of::<T>() {
        prefetch_write(p.cast::<u8>().wrapping_add(at));
        at += LINE;
    }
}

/// Asks for the cache lines of a row of `n` elements.
#[inline(always)]
pub(crate) fn prefetch_row<T>(p: *const T, n: usize) {
    for at in (0..n * size_of::<T>()).step_by(LINE) {
        prefetch(p.cast::<u8>().wrapping_add(at));
    }
}

/// Asks for the cache lines of `n` bytes in the second level of the cache.
#[inline(always)]
pub(crate) fn prefetch_second_row(p: *const u8, n: usize) {
    for at in (0..n).step_by(LINE) {
        prefetch_second(p.wrapping_add(at));
    }
}

/// Prefetches the cache lines of so many bytes in memory, into the level of the cache that tracks the
/// most outstanding lines.
pub(crate) fn prefetch_far() -> fn(*const u8, usize) {
    match machine().prefetch_into_l2 {
        true => prefetch_second_row,
        false => prefetch_row,
    }
}

/// Asks for the cache lines of a row of `n` elements that will be written.
#[inline(always)]
pub(crate) fn prefetch_write_row<T>(p: *mut T, n: usize) {
    for at in (0..n * size_of::<T>()).step_by(LINE) {
        prefetch_write(p.cast::<u8>().wrapping_add(at));
    }
}

/// Orders streamed writes before what follows; each thread does so once it has written its part.
#[inline(always)]
pub(crate) fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: part of x86-64.
    unsafe {
        std::arch::x86_64::_mm_sfence()
    };
}

/// Copies `n` bytes, past the caches but for the ends that are no whole lines.
///
/// # Safety
/// Both must be valid for `n` bytes and not overlap.
#[inline]
pub(crate) unsafe fn copy(src: *const u8, dst: *mut u8, n: usize) {
    // SAFETY: the caller's promise.
    unsafe { copy_while(src, dst, n, |_| {}) }
}

/// [`copy`], with a call of `f` for each line, which gets its place: what `f` asks for is read while the
/// lines are written. Otherwise memory is read in the loop before and written in this one, never both.
///
/// # Safety
/// As for [`copy`].
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) unsafe fn copy_while(src: *const u8, dst: *mut u8, n: usize, f: impl FnMut(usize)) {
    use std::arch::x86_64::*;
    /// One store a line: the queue of stores then holds four times as many lines on their way, and
    /// the next loop begins meanwhile.
    #[target_feature(enable = "avx512f")]
    unsafe fn avx512(src: *const u8, dst: *mut u8, n: usize, f: impl FnMut(usize)) {
        // SAFETY: the caller's promise.
        unsafe {
            lines(src, dst, n, f, |s, d| {
                _mm512_stream_si512(d.cast(), _mm512_loadu_si512(s.cast()));
            });
        }
    }
    // SAFETY: the caller's promise; SSE2 is part of x86-64, and AVX-512 there at its level.
    unsafe {
        if level() == Level::Avx512 {
            return avx512(src, dst, n, f);
        }
        lines(src, dst, n, f, |s, d| {
            let (s, d) = (s.cast::<__m128i>(), d.cast::<__m128i>());
            let (a, b) = (_mm_loadu_si128(s), _mm_loadu_si128(s.add(1)));
            let (c, e) = (_mm_loadu_si128(s.add(2)), _mm_loadu_si128(s.add(3)));
            _mm_stream_si128(d, a);
            _mm_stream_si128(d.add(1), b);
            _mm_stream_si128(d.add(2), c);
            _mm_stream_si128(d.add(3), e);
        });
    }
}

/// Copies `n` bytes, whole lines of `dst` by `line`, with a call of `f` for each.
///
/// # Safety
/// As for [`copy`]; `line` must copy a line.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn lines(
    src: *const u8,
    dst: *mut u8,
    n: usize,
    mut f: impl FnMut(usize),
    line: impl Fn(*const u8, *mut u8),
) {
    // SAFETY: the caller's promise.
    unsafe {
        let head = dst.align_offset(LINE).min(n);
        if head > 0 {
            std::ptr::copy_nonoverlapping(src, dst, head);
        }
        let mut at = head;
        while at + LINE <= n {
            f(at);
            line(src.add(at), dst.add(at));
            at += LINE;
        }
        if at < n {
            std::ptr::copy_nonoverlapping(src.add(at), dst.add(at), n - at);
        }
    }
}

/// [`copy`]; `f` is not called.
///
/// # Safety
/// As for [`copy`].
#[cfg(not(target_arch = "x86_64"))]
pub(crate) unsafe fn copy_while(src: *const u8, dst: *mut u8, n: usize, _: impl FnMut(usize)) {
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(src, dst, n) }
}

#[cfg(feature = "unit-tests")]
mod tests {
    #[torsh_macros::unit_test]
    fn copies_every_alignment_and_length() {
        let src: Vec<u8> = (0..400).map(|i| (i * 7 % 251) as u8).collect();
        for from in [0, 1, 5, 16] {
            for to in [0, 3, 8, 32, 63] {
                for n in [0, 1, 15, 64, 65, 127, 128, 200, 300] {
                    let mut dst = vec![0u8; 400];
                    // SAFETY: both ranges are within their vectors.
                    unsafe { super::copy(src.as_ptr().add(from), dst.as_mut_ptr().add(to), n) };
                    super::fence();
                    assert_eq!(dst[to..to + n], src[from..from + n]);
                    assert!(dst[..to].iter().chain(&dst[to + n..]).all(|&b| b == 0));
                }
            }
        }
    }
}
