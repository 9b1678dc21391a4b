//! One loop over adjacent elements per row, dtype and instruction set.
//!
//! Intrinsics: The two loops over `vmath::exp_512` and `tanh_512` store past the caches.

use std::mem::MaybeUninit;

use num_complex::Complex;
use torsh_core::{DType, Kernel};

use crate::machine::tuning::pointwise::FEW;
use crate::memory::blocks::{MAX_INPUTS, gather};
use crate::memory::element::Packed;
use crate::multiversion;
use crate::scalar::byte::Byte;
#[allow(unused_imports)]
use crate::scalar::*;
use crate::simd::{Arch, Level};

/// A loop: output, inputs, number of elements, `[T; 4]` numbers.
///
/// # Safety
/// The number of elements is 1 or a multiple of [`LANES`] ([`Loop::call`] takes any). The output
/// must be writable and the inputs readable for that many elements; the output may be one of the
/// inputs but not overlap them otherwise. The numbers must be initialised.
pub(crate) type LoopFn = unsafe fn(*mut u8, *const *const u8, usize, *const u8);

/// A loop with what a call needs to know about it.
#[derive(Clone, Copy)]
pub(crate) struct Loop {
    pub f: LoopFn,
    pub arity: usize,
    /// Bytes of an input's element.
    pub size: usize,
    /// Bytes of a result.
    pub out_size: usize,
}

impl Loop {
    /// Runs the loop on any number of elements: the last ones, short of a group, one by one, in a
    /// group with some before them, or padded to a group.
    ///
    /// # Safety
    /// As [`LoopFn`].
    #[inline]
    pub unsafe fn call(&self, out: *mut u8, ins: &[*const u8; MAX_INPUTS], n: usize, p: *const u8) {
        let whole = n - n % LANES;
        // SAFETY: the caller's promise.
        unsafe {
            if n == 1 || whole == n {
                (self.f)(out, ins.as_ptr(), n, p);
            } else {
                self.call_rest(out, ins, whole, n - whole, p);
            }
        }
    }

    #[inline(never)]
    unsafe fn call_rest(
        &self,
        out: *mut u8,
        ins: &[*const u8; MAX_INPUTS],
        whole: usize,
        rest: usize,
        p: *const u8,
    ) {
        let mut at = [std::ptr::null(); MAX_INPUTS];
        let mut to = out;
        // SAFETY: the caller's promise; a group of any dtype fits each buffer.
        unsafe {
            if whole > 0 {
                (self.f)(out, ins.as_ptr(), whole, p);
                to = out.add(whole * self.out_size);
            }
            for (a, i) in at.iter_mut().zip(&ins[..self.arity]) {
                *a = i.add(whole * self.size);
            }
            if rest <= FEW {
                for _ in 0..rest {
                    (self.f)(to, at.as_ptr(), 1, p);
                    to = to.add(self.out_size);
                    at[..self.arity]
                        .iter_mut()
                        .for_each(|a| *a = a.add(self.size));
                }
                return;
            }
            // The same results once more, unless the first time has overwritten what they are made of.
            if whole > 0 && ins[..self.arity].iter().all(|&i| i != out.cast_const()) {
                let back = LANES - rest;
                for a in &mut at[..self.arity] {
                    *a = a.sub(back * self.size);
                }
                (self.f)(to.sub(back * self.out_size), at.as_ptr(), LANES, p);
                return;
            }
            let mut padded = MaybeUninit::<[Group; MAX_INPUTS]>::uninit();
            let mut results = MaybeUninit::<Group>::uninit();
            let results = results.as_mut_ptr() as *mut u8;
            for (k, a) in at[..self.arity].iter_mut().enumerate() {
                let group = (padded.as_mut_ptr() as *mut Group).add(k) as *mut u8;
                std::ptr::copy_nonoverlapping(*a, group, rest * self.size);
                let filled = rest * self.size;
                gather(self.size, *a, 0, group.add(filled), LANES - rest);
                *a = group;
            }
            (self.f)(results, at.as_ptr(), LANES, p);
            std::ptr::copy_nonoverlapping(results, to, rest * self.out_size);
        }
    }
}

/// Room for [`LANES`] elements of any dtype.
#[repr(align(64))]
struct Group(#[allow(dead_code)] [u8; 16 * LANES]);

/// A row's rule for dtypes: see `torsh_core::pointwise`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rule {
    Promote,
    Float,
    Bool,
    Real,
}

/// What the driver knows of a row.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    /// By dtype. Half types use the one of `float32`, but where `half_rounding.rs` has one.
    pub loops: [Option<LoopFn>; 12],
    /// How many tensors it reads.
    pub arity: usize,
    /// How many numbers its calls have as attributes.
    pub numbers: usize,
    pub rule: Rule,
    /// Whether an integer divisor of 0 (the second operand) is an error.
    pub divides: bool,
}

/// A row for one element type: what the loop calls for each element.
pub(crate) trait Row<T> {
    /// How many of the inputs are there; the others repeat the first.
    const ARITY: usize;
    type Out: Copy;
    fn apply<A: Arch>(x: [T; 3], p: [T; 4]) -> Self::Out;
}

macro_rules! sections_of {
    ($($(#[$doc:meta])* $section:ident $rows:ident $bound:ident;)*) => {$(
        $(#[$doc])*
        pub(crate) trait $section {
            const ARITY: usize;
            type Out<T: $bound>: Copy;
            fn apply<A: Arch, T: $bound>(x: [T; 3], p: [T; 4]) -> Self::Out<T>;
        }

        pub(crate) struct $rows<R>(R);
        impl<T: $bound, R: $section> Row<T> for $rows<R> {
            const ARITY: usize = R::ARITY;
            type Out = R::Out<T>;
            #[inline(always)]
            fn apply<A: Arch>(x: [T; 3], p: [T; 4]) -> R::Out<T> {
                R::apply::<A, T>(x, p)
            }
        }
    )*};
}
sections_of! {
    /// A row's section for real floating-point types.
    FloatRow Floats Real;
    /// A row's section for integer types.
    IntRow Ints Int;
    /// A row's section for complex types.
    CplxRow Cplxs Cplx;
}

/// A row's section for bools.
pub(crate) trait BoolRow {
    const ARITY: usize;
    fn apply<A: Arch>(x: [bool; 3], p: [bool; 4]) -> bool;
}

/// Bools are read as bytes, of which all but 0 are true.
pub(crate) struct Bools<R>(R);
impl<R: BoolRow> Row<Byte> for Bools<R> {
    const ARITY: usize = R::ARITY;
    type Out = bool;
    #[inline(always)]
    fn apply<A: Arch>(x: [Byte; 3], p: [Byte; 4]) -> bool {
        R::apply::<A>(x.map(Byte::get), p.map(Byte::get))
    }
}

/// Elements handled at once: LLVM makes vectors of them.
pub(crate) const LANES: usize = 32;

/// One element, or whole groups of [`LANES`]. Each group is read before it is written, so the
/// compiler needs no check for overlap, and an output that is an input is as fast as any other.
#[inline(always)]
#[allow(clippy::needless_range_loop)]
unsafe fn groups<A: Arch, T: Copy, R: Row<T>>(
    out: *mut u8,
    ins: *const *const u8,
    n: usize,
    p: *const u8,
) {
    // SAFETY: the caller's promise: there are `ARITY` inputs of `n` elements, an output of as
    // many, and four numbers.
    unsafe {
        let p = (*(p as *const Packed<[T; 4]>)).0;
        let mut a = *ins as *const Packed<T>;
        let mut b = if R::ARITY > 1 {
            *ins.add(1) as *const Packed<T>
        } else {
            a
        };
        let mut c = if R::ARITY > 2 {
            *ins.add(2) as *const Packed<T>
        } else {
            a
        };
        let mut to = out as *mut Packed<R::Out>;
        if n == 1 {
            *to = Packed(R::apply::<A>([(*a).0, (*b).0, (*c).0], p));
            return;
        }
        for _ in 0..n / LANES {
            // An empty instruction keeps LLVM from unrolling a group and then vectorising over
            // groups, with strided loads.
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            // Stable Rust has none for WebAssembly.
            #[cfg(not(target_arch = "wasm32"))]
            std::arch::asm!("", options(nomem, nostack, preserves_flags));
            // Whole arrays: a debug build then checks one pointer per group, not per element.
            let (x, y, z) = (
                &*(a as *const [Packed<T>; LANES]),
                &*(b as *const [Packed<T>; LANES]),
                &*(c as *const [Packed<T>; LANES]),
            );
            let mut group = [const { MaybeUninit::<Packed<R::Out>>::uninit() }; LANES];
            for j in 0..LANES {
                group[j] = MaybeUninit::new(Packed(R::apply::<A>([x[j].0, y[j].0, z[j].0], p)));
            }
            *(to as *mut [MaybeUninit<Packed<R::Out>>; LANES]) = group;
            a = a.wrapping_add(LANES);
            b = b.wrapping_add(LANES);
            c = c.wrapping_add(LANES);
            to = to.wrapping_add(LANES);
        }
    }
}

/// One element at a time. x86-64 processors without AVX2 are from before 2015: this code is there for
/// correct results on them. Vectors for them would be a third of the time to compile all rows.
#[inline(always)]
unsafe fn one_by_one<A: Arch, T: Copy, R: Row<T>>(
    out: *mut u8,
    ins: *const *const u8,
    n: usize,
    p: *const u8,
) {
    // SAFETY: as in `groups`.
    unsafe {
        let p = (*(p as *const Packed<[T; 4]>)).0;
        let a = *ins as *const Packed<T>;
        let second = if R::ARITY > 1 { *ins.add(1) } else { *ins };
        let third = if R::ARITY > 2 { *ins.add(2) } else { *ins };
        let (b, c) = (second as *const Packed<T>, third as *const Packed<T>);
        let to = out as *mut Packed<R::Out>;
        for i in 0..n {
            // An empty instruction keeps LLVM from vectorising and unrolling the loop.
            // Stable Rust has none for WebAssembly.
            #[cfg(not(target_arch = "wasm32"))]
            std::arch::asm!("", options(nomem, nostack, preserves_flags));
            let x = [(*a.add(i)).0, (*b.add(i)).0, (*c.add(i)).0];
            *to.add(i) = Packed(R::apply::<A>(x, p));
        }
    }
}

multiversion! {
    /// The loop of a row.
    ///
    /// # Safety
    /// As for [`LoopFn`].
    pub(super) unsafe fn row<A, T: Copy, R: Row<T>>(out: *mut u8, ins: *const *const u8, n: usize, p: *const u8) {
        // SAFETY: the caller's promise.
        unsafe {
            match A::LEVEL {
                Level::Base if cfg!(target_arch = "x86_64") => one_by_one::<A, T, R>(out, ins, n, p),
                _ => groups::<A, T, R>(out, ins, n, p),
            }
        }
    }
}

pub(crate) fn add_floats<R: FloatRow>(e: &mut Entry, level: Level) {
    e.loops[DType::F32 as usize] = Some(row::at::<f32, Floats<R>>(level));
    e.loops[DType::F64 as usize] = Some(row::light::<f64, Floats<R>>(level));
}

pub(crate) fn add_ints<R: IntRow>(e: &mut Entry, level: Level) {
    e.loops[DType::U8 as usize] = Some(row::light::<u8, Ints<R>>(level));
    e.loops[DType::I8 as usize] = Some(row::light::<i8, Ints<R>>(level));
    e.loops[DType::I16 as usize] = Some(row::light::<i16, Ints<R>>(level));
    e.loops[DType::I32 as usize] = Some(row::light::<i32, Ints<R>>(level));
    e.loops[DType::I64 as usize] = Some(row::light::<i64, Ints<R>>(level));
}

pub(crate) fn add_bool<R: BoolRow>(e: &mut Entry, level: Level) {
    e.loops[DType::Bool as usize] = Some(row::light::<Byte, Bools<R>>(level));
}

pub(crate) fn add_complex<R: CplxRow>(e: &mut Entry, level: Level) {
    e.loops[DType::C64 as usize] = Some(row::light::<Complex<f32>, Cplxs<R>>(level));
    e.loops[DType::C128 as usize] = Some(row::light::<Complex<f64>, Cplxs<R>>(level));
}

/// The float32 loop of a key that writes past the caches by itself, if there is one: its output is
/// aligned to a cache line, and it takes whole groups only. Where stores of both kinds take turns with
/// arithmetic, the processor reads too little ahead, so it asks for what it reads next.
pub(crate) fn streamed(k: Kernel) -> Option<LoopFn> {
    #[cfg(target_arch = "x86_64")]
    if crate::simd::level() == Level::Avx512 {
        return match k {
            Kernel::Exp => Some(by_vectors::exp::<true>),
            Kernel::Tanh => Some(by_vectors::tanh::<true>),
            _ => None,
        };
    }
    let _ = k;
    None
}

/// Loops over functions of vectors, where these are faster than what LLVM makes of a row.
#[cfg(target_arch = "x86_64")]
pub(super) mod by_vectors {
    use std::arch::x86_64::*;

    use super::LANES;
    use crate::memory::stream;
    use crate::vmath::{exp_512, tanh_512};

    macro_rules! loops {
        ($($name:ident $f:ident)*) => {$(
            #[target_feature(enable = "avx512f,avx512dq")]
            pub(in crate::kernels::pointwise) unsafe fn $name<const STREAM: bool>(out: *mut u8, ins: *const *const u8, n: usize, _: *const u8) {
                // SAFETY: a loop's caller promises an input and an output of `n` elements, one or
                // whole groups; it has the processor's level.
                unsafe {
                    let (x, to) = ((*ins).cast::<f32>(), out.cast::<f32>());
                    if n == 1 {
                        let y = $f(_mm512_set1_ps(x.read_unaligned()));
                        return to.write_unaligned(_mm512_cvtss_f32(y));
                    }
                    for at in (0..n).step_by(LANES) {
                        if STREAM {
                            let next = x.wrapping_add(at + stream::AHEAD / size_of::<f32>());
                            stream::prefetch_all::<f32, LANES>(next);
                        }
                        let a = $f(_mm512_loadu_ps(x.wrapping_add(at)));
                        let b = $f(_mm512_loadu_ps(x.wrapping_add(at + LANES / 2)));
                        let (to, next) = (to.wrapping_add(at), to.wrapping_add(at + LANES / 2));
                        if STREAM {
                            _mm512_stream_ps(to, a);
                            _mm512_stream_ps(next, b);
                        } else {
                            _mm512_storeu_ps(to, a);
                            _mm512_storeu_ps(next, b);
                        }
                    }
                }
            }
        )*};
    }
    loops! {
        exp exp_512
        tanh tanh_512
    }
}

/// Makes the function `fill` of a list of rows.
macro_rules! fill_rows {
    ($(
        $(#[doc = $doc:literal])+
        $method:ident $name:literal $kernel:ident ( $($arg:ident),+ $(; $($number:ident),+)? ) $schema:literal -> $rule:ident { $($body:tt)* }
    )*) => {
        /// Enters the loops of these rows.
        pub(crate) fn fill(all: &mut [Entry], level: Level) {
            $({
                struct ThisRow;
                let entry = &mut all[Kernel::$kernel.index()];
                entry.arity = [$(stringify!($arg)),+].len();
                entry.rule = rule!(@of $rule);
                $(entry.numbers = [$(stringify!($number)),+].len();)?
                sections! { @float ThisRow $rule entry level [$($arg)+]; $($body)* }
            })*
        }
    };
}

macro_rules! rule {
    (@of equality) => {
        Rule::Bool
    };
    (@of number) => {
        Rule::Promote
    };
    (@of promote) => {
        Rule::Promote
    };
    (@of float) => {
        Rule::Float
    };
    (@of bool) => {
        Rule::Bool
    };
    (@of real) => {
        Rule::Real
    };
    // The type of results of elements `$t`, whose parts are of type `$part`.
    (@out equality $t:ty, $part:ty) => {
        bool
    };
    (@out bool $t:ty, $part:ty) => {
        bool
    };
    (@out real $t:ty, $part:ty) => {
        $part
    };
    (@out $other:ident $t:ty, $part:ty) => {
        $t
    };
}

/// Implements the sections of one row that are there, in their order.
macro_rules! sections {
    (@float $r:ident $rule:ident $e:ident $level:ident $args:tt; float |$($v:ident),+ $(; $($p:ident),+)?| $x:expr; $($rest:tt)*) => {
        sections! { @row FloatRow Real (rule!(@out $rule T, T)) $r $args |$($v),+ $(; $($p),+)?| $x }
        add_floats::<$r>($e, $level);
        sections! { @int $r $rule $e $level $args; $($rest)* }
    };
    (@float $r:ident $rule:ident $e:ident $level:ident $args:tt; $($rest:tt)*) => {
        sections! { @int $r $rule $e $level $args; $($rest)* }
    };
    (@int $r:ident $rule:ident $e:ident $level:ident $args:tt; int |$($v:ident),+ $(; $($p:ident),+)?| $x:expr; $($rest:tt)*) => {
        sections! { @row IntRow Int (rule!(@out $rule T, T)) $r $args |$($v),+ $(; $($p),+)?| $x }
        add_ints::<$r>($e, $level);
        sections! { @bool $r $rule $e $level $args; $($rest)* }
    };
    (@int $r:ident $rule:ident $e:ident $level:ident $args:tt; $($rest:tt)*) => {
        sections! { @bool $r $rule $e $level $args; $($rest)* }
    };
    (@bool $r:ident $rule:ident $e:ident $level:ident [$($arg:ident)+]; bool |$($v:ident),+ $(; $($p:ident),+)?| $x:expr; $($rest:tt)*) => {
        impl BoolRow for $r {
            const ARITY: usize = [$(stringify!($arg)),+].len();
            #[inline(always)]
            #[allow(unused_variables)]
            fn apply<A: Arch>([$($v,)+ ..]: [bool; 3], numbers: [bool; 4]) -> bool {
                $(let [$($p,)+ ..] = numbers;)?
                $x
            }
        }
        add_bool::<$r>($e, $level);
        sections! { @complex $r $rule $e $level [$($arg)+]; $($rest)* }
    };
    (@bool $r:ident $rule:ident $e:ident $level:ident $args:tt; $($rest:tt)*) => {
        sections! { @complex $r $rule $e $level $args; $($rest)* }
    };
    (@complex $r:ident $rule:ident $e:ident $level:ident $args:tt; complex |$($v:ident),+ $(; $($p:ident),+)?| $x:expr; $($rest:tt)*) => {
        sections! { @row CplxRow Cplx (rule!(@out $rule T, T::R)) $r $args |$($v),+ $(; $($p),+)?| $x }
        add_complex::<$r>($e, $level);
    };
    // What other backends and the tensor crate read.
    (@complex $r:ident $rule:ident $e:ident $level:ident $args:tt; $($rest:tt)*) => {};
    // A section of numbers of type `T`.
    (@row $section:ident $bound:ident ($out:ty) $r:ident [$($arg:ident)+] |$($v:ident),+ $(; $($p:ident),+)?| $x:expr) => {
        impl $section for $r {
            const ARITY: usize = [$(stringify!($arg)),+].len();
            type Out<T: $bound> = $out;
            #[inline(always)]
            #[allow(unused_variables)]
            fn apply<A: Arch, T: $bound>([$($v,)+ ..]: [T; 3], numbers: [T; 4]) -> Self::Out<T> {
                $(let [$($p,)+ ..] = numbers;)?
                $x
            }
        }
    };
}

pub(crate) use {fill_rows, rule, sections};
