//! Running sums of contiguous lines of float32 (carried in float64) and int64.
//!
//! A line is cut into chunks. Each is summed from 0, in groups whose sums need no wait for one
//! another, and what came before the chunk is added (`in_fours` starts its results from it). So
//! threads can share a line: they first sum their chunks, then write them; and what comes out does
//! not depend on their number.
//!
//! Other dtypes are left to the general loop: products, and sums of float64, might overflow in a
//! group where they do not in order.
//!
//! Intrinsics: Lanes of 64 bits, integers too, move across the register by whole lanes.

use torsh_core::{DType, Kernel, KernelArgs, Result, pool};

use super::choose::ScanAlgorithm;
use crate::kernels::index::{IndexPtr, ScratchSlice};
#[cfg(target_arch = "x86_64")]
use crate::machine::tuning::scan::AHEAD;
use crate::machine::tuning::scan::{CHUNK, GRAIN};
use crate::multiversion;
use crate::simd::Level;

/// Rows and columns of a group.
const SIDE: usize = 4;

/// A running sum over contiguous elements.
pub(super) type RunningSumFn = fn(*const u8, *mut u8, usize) -> Result<()>;

/// The dtype of a running sum that the loops here compute.
pub(super) fn dtype(args: &KernelArgs<'_>) -> Option<DType> {
    let (from, to) = (args.inputs()[0].dtype(), args.outputs()[0].dtype());
    let ours = args.kernel() == Kernel::CumSum && matches!(to, DType::F32 | DType::I64);
    (ours && from == to).then_some(to)
}

/// The loop of an algorithm, if it is one of this file's.
pub(super) fn line(algorithm: ScanAlgorithm, dtype: DType) -> Option<RunningSumFn> {
    match (algorithm, dtype) {
        (ScanAlgorithm::Chunks, DType::I64) => Some(run::<Integer>),
        (ScanAlgorithm::Chunks, _) => Some(run::<Single<false>>),
        (ScanAlgorithm::ChunksInFours, _) => Some(run::<Single<true>>),
        _ => None,
    }
}

trait RunningSum: 'static {
    type X: Copy;
    type S: Copy + Send + Sync;
    const ZERO: Self::S;
    fn wide(x: Self::X) -> Self::S;
    fn narrow(s: Self::S) -> Self::X;
    fn add(a: Self::S, b: Self::S) -> Self::S;
    /// [`chunk`] of whole groups of eight with AVX-512, or [`total`] without `WRITE`; how many
    /// elements these are.
    ///
    /// # Safety
    /// As there; the level must be AVX-512.
    unsafe fn eights<const WRITE: bool>(
        x: *const Self::X,
        out: *mut Self::X,
        n: usize,
        before: Self::S,
        sum: &mut Self::S,
    ) -> usize;
}

/// [`RunningSum::eights`]: the sums of the last two elements up to each, of the last four, of the last
/// eight; the running sums are those of eight elements before and these.
macro_rules! eights {
    (
        $x:ty, $s:ty, $set:ident, $add:ident, $array:expr,
        load |$from:ident| $load:expr, store |$to:ident, $v:ident| $store:expr
        $(, if $fours:ident $in_fours:ident)?
    ) => {
        #[cfg(target_arch = "x86_64")]
        unsafe fn eights<const WRITE: bool>(
            x: *const $x,
            out: *mut $x,
            n: usize,
            before: $s,
            sum: &mut $s,
        ) -> usize {
            use std::arch::x86_64::*;
            #[target_feature(enable = "avx512f")]
            unsafe fn with_avx512<const WRITE: bool>(
                x: *const $x,
                out: *mut $x,
                n: usize,
                before: $s,
                sum: &mut $s,
            ) -> usize {
                use crate::memory::stream::{prefetch, prefetch_write};
                // The vector whose last `$n` lanes are the first ones of `$now`, after the others of `$was`.
                macro_rules! moved {
                    ($now:expr, $was:expr, $n:literal) => {
                        $array.1(_mm512_alignr_epi64::<{ 8 - $n }>(
                            $array.0($now),
                            $array.0($was),
                        ))
                    };
                }
                let (before, mut s) = ($set(before), $set(*sum));
                let zero = $set(<$s>::default());
                let (mut ones, mut twos, mut fours) = (zero, zero, zero);
                let whole = n / 8 * 8;
                for at in (0..whole).step_by(8) {
                    // SAFETY: the caller's promise: eight elements are there on both sides.
                    unsafe {
                        let ($from, $to) = (x.add(at), out.add(at));
                        prefetch($from.wrapping_add(AHEAD).cast());
                        if WRITE {
                            prefetch_write($to.wrapping_add(AHEAD).cast());
                        }
                        let one = $load;
                        let two = $add(one, moved!(one, ones, 1));
                        let four = $add(two, moved!(two, twos, 2));
                        let eight = $add(four, moved!(four, fours, 4));
                        (ones, twos, fours) = (one, two, four);
                        s = $add(s, eight);
                        if WRITE {
                            let $v = $add(before, s);
                            $store;
                        }
                    }
                }
                if whole > 0 {
                    let mut lanes = [<$s>::default(); 8];
                    // SAFETY: eight numbers fit.
                    unsafe { _mm512_storeu_epi64(lanes.as_mut_ptr().cast(), $array.0(s)) };
                    *sum = lanes[7];
                }
                whole
            }
            $(
            if $fours {
                // SAFETY: the caller's promise.
                return unsafe { $in_fours::<WRITE>(x, out, n, before, sum) };
            }
            )?
            // SAFETY: the caller's promise.
            unsafe { with_avx512::<WRITE>(x, out, n, before, sum) }
        }
        #[cfg(not(target_arch = "x86_64"))]
        unsafe fn eights<const WRITE: bool>(
            _: *const $x,
            _: *mut $x,
            _: usize,
            _: $s,
            _: &mut $s,
        ) -> usize {
            0
        }
    };
}

/// [`RunningSum::eights`] of float32 where a wide vector is two halves inside: sums of the last two elements
/// up to each and of the last four, for two vectors of four at a time. More than half of the additions
/// are products by one with a sum, which other units take, and nothing is asked for ahead: what computes
/// is the bound.
///
/// # Safety
/// As there.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx2,fma")]
unsafe fn in_fours<const WRITE: bool>(
    x: *const f32,
    out: *mut f32,
    n: usize,
    before: f64,
    sum: &mut f64,
) -> usize {
    use std::arch::x86_64::*;
    /// The last lanes of `was`, from number `FROM` on, and after them the first of `now`. Compilers
    /// make two instructions of the intrinsic, and these are what the loop has to wait for.
    #[inline]
    #[target_feature(enable = "avx512f,avx512vl")]
    fn moved<const FROM: i32>(now: __m256d, was: __m256d) -> __m256d {
        let out;
        // SAFETY: it reads and writes nothing but the registers.
        unsafe {
            std::arch::asm!(
                "valignq {out}, {now}, {was}, {from}",
                out = lateout(ymm_reg) out, now = in(ymm_reg) now, was = in(ymm_reg) was,
                from = const FROM, options(pure, nomem, nostack, preserves_flags)
            );
        }
        out
    }
    // Compilers make an addition of a product by a one that they know.
    let unit = _mm256_set1_pd(std::hint::black_box(1.0));
    let zero = _mm256_setzero_pd();
    let (mut ones, mut twos) = (zero, zero);
    let (mut s, mut eights) = (_mm256_set1_pd(before + *sum), _mm256_set1_pd(*sum));
    let whole = n / 8 * 8;
    for at in (0..whole).step_by(8) {
        // SAFETY: the caller's promise: eight elements are there on both sides.
        unsafe {
            let one = _mm256_cvtps_pd(_mm_loadu_ps(x.add(at)));
            let next = _mm256_cvtps_pd(_mm_loadu_ps(x.add(at + 4)));
            let two = _mm256_fmadd_pd(one, unit, moved::<3>(one, ones));
            let next_two = _mm256_fmadd_pd(next, unit, moved::<3>(next, one));
            let four = _mm256_fmadd_pd(two, unit, moved::<2>(two, twos));
            let next_four = _mm256_add_pd(next_two, moved::<2>(next_two, two));
            (ones, twos) = (next, next_two);
            let eight = _mm256_add_pd(four, next_four);
            if WRITE {
                let first = _mm256_fmadd_pd(s, unit, four);
                s = _mm256_add_pd(s, eight);
                _mm_storeu_ps(out.add(at), _mm256_cvtpd_ps(first));
                _mm_storeu_ps(out.add(at + 4), _mm256_cvtpd_ps(s));
            }
            eights = _mm256_fmadd_pd(eights, unit, eight);
        }
    }
    if whole > 0 {
        let mut lanes = [0.0; 4];
        // SAFETY: four numbers fit.
        unsafe { _mm256_storeu_pd(lanes.as_mut_ptr(), eights) };
        *sum = lanes[3];
    }
    whole
}

/// Sums of float32, with [`in_fours`] or without.
struct Single<const FOURS: bool>;
impl<const FOURS: bool> RunningSum for Single<FOURS> {
    type X = f32;
    type S = f64;
    const ZERO: f64 = 0.0;
    #[inline(always)]
    fn wide(x: f32) -> f64 {
        x as f64
    }
    #[inline(always)]
    fn narrow(s: f64) -> f32 {
        s as f32
    }
    #[inline(always)]
    fn add(a: f64, b: f64) -> f64 {
        a + b
    }
    eights!(
        f32,
        f64,
        _mm512_set1_pd,
        _mm512_add_pd,
        (_mm512_castpd_si512, _mm512_castsi512_pd),
        load | from | _mm512_cvtps_pd(_mm256_loadu_ps(from)),
        store | to,
        v | _mm256_storeu_ps(to, _mm512_cvtpd_ps(v)),
        if FOURS in_fours
    );
}

struct Integer;
impl RunningSum for Integer {
    type X = i64;
    type S = i64;
    const ZERO: i64 = 0;
    #[inline(always)]
    fn wide(x: i64) -> i64 {
        x
    }
    #[inline(always)]
    fn narrow(s: i64) -> i64 {
        s
    }
    #[inline(always)]
    fn add(a: i64, b: i64) -> i64 {
        a.wrapping_add(b)
    }
    eights!(
        i64,
        i64,
        _mm512_set1_epi64,
        _mm512_add_epi64,
        (
            std::convert::identity::<__m512i>,
            std::convert::identity::<__m512i>
        ),
        load | from | _mm512_loadu_epi64(from),
        store | to,
        v | _mm512_storeu_epi64(to, v)
    );
}

fn run<C: RunningSum>(x: *const u8, out: *mut u8, n: usize) -> Result<()> {
    let (x, out) = (
        IndexPtr::<C::X>::new(x.cast_mut().cast()),
        IndexPtr::<C::X>::new(out.cast()),
    );
    let chunks = n.div_ceil(CHUNK);
    let write = chunk::select::<C>();
    let part = |at: usize| {
        let first = at * CHUNK;
        (first as isize, CHUNK.min(n - first))
    };
    let parts = pool::chunk_count(chunks, GRAIN);
    if parts <= 1 {
        let mut before = C::ZERO;
        for at in 0..chunks {
            let ((first, n), mut sum) = (part(at), C::ZERO);
            // SAFETY: the chunk is within the line; the level is the machine's.
            unsafe { write(x.at(first), out.at(first), n, before, &mut sum) };
            before = C::add(before, sum);
        }
        return Ok(());
    }
    let mut sums = ScratchSlice::filled(chunks, C::ZERO)?;
    let slots = IndexPtr::new(sums.ptr());
    let total = total::select::<C>();
    // What follows the last chunk needs no sum.
    pool::parallel_for(chunks - chunks / parts, GRAIN, &|range| {
        for at in range {
            let (first, n) = part(at);
            // SAFETY: as above; every chunk has its slot.
            unsafe { total(x.at(first), n, &mut *slots.at(at as isize)) };
        }
    });
    let mut before = C::ZERO;
    for sum in sums.iter_mut() {
        (*sum, before) = (before, C::add(before, *sum));
    }
    pool::parallel_parts(chunks, parts, &|_, range| {
        // The chunks of a thread follow one another: only the first asks what came before it.
        let mut before = match range.clone().next() {
            // SAFETY: every chunk has its slot.
            Some(at) => unsafe { *slots.at(at as isize) },
            None => return,
        };
        for at in range {
            let ((first, n), mut sum) = (part(at), C::ZERO);
            // SAFETY: as above.
            unsafe { write(x.at(first), out.at(first), n, before, &mut sum) };
            before = C::add(before, sum);
        }
    });
    Ok(())
}

multiversion! {
    /// Writes the running sums of a chunk, with `before` added, and the chunk's own sum.
    unsafe fn chunk<A, C: RunningSum>(x: *const C::X, out: *mut C::X, n: usize, before: C::S, sum: &mut C::S) {
        let mut s = C::ZERO;
        let mut at = 0;
        // SAFETY: the caller's promise: n elements on both sides.
        unsafe {
            if A::LEVEL == Level::Avx512 {
                at = C::eights::<true>(x, out, n, before, &mut s);
            }
            while at + SIDE * SIDE <= n {
                // Sums along the rows, all rows at once: `p[j][r]` is that of j + 1 elements.
                let mut p = [[C::ZERO; SIDE]; SIDE];
                for r in 0..SIDE {
                    p[0][r] = C::wide(*x.add(at + SIDE * r));
                }
                for j in 1..SIDE {
                    for r in 0..SIDE {
                        p[j][r] = C::add(p[j - 1][r], C::wide(*x.add(at + SIDE * r + j)));
                    }
                }
                let (starts, next) = carry::<C>(s, p[SIDE - 1]);
                s = next;
                for r in 0..SIDE {
                    let start = C::add(before, starts[r]);
                    for j in 0..SIDE {
                        *out.add(at + SIDE * r + j) = C::narrow(C::add(start, p[j][r]));
                    }
                }
                at += SIDE * SIDE;
            }
            while at < n {
                s = C::add(s, C::wide(*x.add(at)));
                *out.add(at) = C::narrow(C::add(before, s));
                at += 1;
            }
        }
        *sum = s;
    }

    /// The sum of a chunk, bit for bit that of [`chunk`].
    unsafe fn total<A, C: RunningSum>(x: *const C::X, n: usize, sum: &mut C::S) {
        let mut s = C::ZERO;
        let mut at = 0;
        // SAFETY: the caller's promise: n elements.
        unsafe {
            if A::LEVEL == Level::Avx512 {
                at = C::eights::<false>(x, x.cast_mut(), n, C::ZERO, &mut s);
            }
            while at + SIDE * SIDE <= n {
                let mut p = [C::ZERO; SIDE];
                for r in 0..SIDE {
                    p[r] = C::wide(*x.add(at + SIDE * r));
                }
                for j in 1..SIDE {
                    for r in 0..SIDE {
                        p[r] = C::add(p[r], C::wide(*x.add(at + SIDE * r + j)));
                    }
                }
                s = carry::<C>(s, p).1;
                at += SIDE * SIDE;
            }
            while at < n {
                s = C::add(s, C::wide(*x.add(at)));
                at += 1;
            }
        }
        *sum = s;
    }
}

/// What comes before each row of a group, given its rows' sums, and what comes after the group: one
/// addition from one group to the next.
#[inline(always)]
fn carry<C: RunningSum>(s: C::S, rows: [C::S; SIDE]) -> ([C::S; SIDE], C::S) {
    let two = C::add(rows[0], rows[1]);
    let starts = [
        s,
        C::add(s, rows[0]),
        C::add(s, two),
        C::add(s, C::add(two, rows[2])),
    ];
    (starts, C::add(s, C::add(two, C::add(rows[2], rows[3]))))
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;

    fn sums<C: RunningSum>(x: &[C::X], zero: C::X) -> Vec<C::X> {
        let mut out = vec![zero; x.len()];
        run::<C>(x.as_ptr().cast(), out.as_mut_ptr().cast(), x.len()).expect("memory");
        out
    }

    #[torsh_macros::unit_test]
    fn lines_of_every_length_with_any_threads() {
        let before = pool::num_threads();
        let x: Vec<f32> = (0..200_003u64)
            .map(|i| ((i.wrapping_mul(2_654_435_761) >> 7) % 2001) as f32 * 0.37 - 370.0)
            .collect();
        let ints: Vec<i64> = x.iter().map(|&v| (v * 1e15) as i64).collect();
        for n in [0, 1, 15, 16, 17, 4095, 4096, 4097, 9000, x.len()] {
            let mut first: Option<Vec<f32>> = None;
            for threads in [1, 2, 3] {
                pool::set_num_threads(threads).expect("not 0");
                let got = sums::<Single<false>>(&x[..n], 0.0);
                let mut s = 0.0f64;
                for (g, &v) in got.iter().zip(&x) {
                    s += v as f64;
                    assert!((*g as f64 - s).abs() <= 1e-7 * s.abs() + 1e-6, "{g} {s}");
                }
                assert_eq!(&got, first.get_or_insert_with(|| got.clone()));
                let mut s = 0i64;
                for (g, &v) in sums::<Integer>(&ints[..n], 0).iter().zip(&ints) {
                    s = s.wrapping_add(v);
                    assert_eq!(*g, s);
                }
            }
        }
        pool::set_num_threads(before).expect("not 0");
    }

    #[torsh_macros::unit_test]
    fn what_is_not_finite_reaches_only_what_follows() {
        for at in [0, 3, 7, 30, 5000] {
            for bad in [f32::NAN, f32::INFINITY] {
                let mut x = vec![1.0f32; 6000];
                x[at] = bad;
                let got = sums::<Single<false>>(&x, 0.0);
                for (i, &g) in got.iter().enumerate() {
                    if i < at {
                        assert_eq!(g, (i + 1) as f32);
                    } else {
                        assert!(g == bad || (g.is_nan() && bad.is_nan()));
                    }
                }
            }
        }
        let x = [f32::MAX, f32::MAX, -f32::MAX];
        assert_eq!(
            sums::<Single<false>>(&x, 0.0),
            [f32::MAX, f32::INFINITY, f32::MAX]
        );
    }
}
