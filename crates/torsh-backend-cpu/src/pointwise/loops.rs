//! One loop over adjacent elements per row, dtype and instruction set.

use num_complex::Complex;
use torsh_core::{DType, Kernel};

use crate::arch::{self, Arch, Level};
#[allow(unused_imports)]
use crate::scalar::*;

/// A loop: output, inputs, number of elements, `[T; 4]` numbers.
///
/// # Safety
/// The output must be writable and the inputs readable for that many elements; the output may be
/// one of the inputs but not overlap them otherwise. The numbers must be initialised.
pub(crate) type LoopFn = unsafe fn(*mut u8, *const *const u8, usize, *const u8);

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
    /// By dtype. Half types have none: they use the one of `float32`.
    pub loops: [Option<LoopFn>; 12],
    /// How many tensors it reads.
    pub arity: usize,
    pub rule: Rule,
    /// Whether an integer divisor of 0 (the second operand) is an error.
    pub divides: bool,
}

/// The rows of all kernels, by key.
pub(crate) fn entries() -> &'static [Entry] {
    static ENTRIES: std::sync::OnceLock<Vec<Entry>> = std::sync::OnceLock::new();
    ENTRIES.get_or_init(|| {
        let none = Entry {
            loops: [None; 12],
            arity: 0,
            rule: Rule::Promote,
            divides: false,
        };
        let mut all = vec![none; Kernel::POINTWISE];
        let level = arch::level();
        super::unary::fill(&mut all, level);
        super::binary::fill(&mut all, level);
        super::parametric::fill(&mut all, level);
        for name in ["FloorDivide", "DivTrunc", "Remainder", "Fmod"] {
            for (entry, kernel) in all.iter_mut().zip(Kernel::ALL) {
                entry.divides |= format!("{kernel:?}") == name;
            }
        }
        all
    })
}

/// A row for one element type: what the loop calls for each element.
pub(crate) trait Row<T> {
    /// How many of the inputs are there; the others repeat the first.
    const ARITY: usize;
    type Out: Copy;
    fn apply<A: Arch>(x: [T; 3], p: [T; 4]) -> Self::Out;
}

/// A row's section for real floating-point types.
pub(crate) trait FloatRow {
    const ARITY: usize;
    type Out<T: Real>: Copy;
    fn apply<A: Arch, T: Real>(x: [T; 3], p: [T; 4]) -> Self::Out<T>;
}

/// A row's section for integer types.
pub(crate) trait IntRow {
    const ARITY: usize;
    type Out<T: Int>: Copy;
    fn apply<A: Arch, T: Int>(x: [T; 3], p: [T; 4]) -> Self::Out<T>;
}

/// A row's section for complex types.
pub(crate) trait CplxRow {
    const ARITY: usize;
    type Out<T: Cplx>: Copy;
    fn apply<A: Arch, T: Cplx>(x: [T; 3], p: [T; 4]) -> Self::Out<T>;
}

pub(crate) struct Floats<R>(R);
impl<T: Real, R: FloatRow> Row<T> for Floats<R> {
    const ARITY: usize = R::ARITY;
    type Out = R::Out<T>;
    #[inline(always)]
    fn apply<A: Arch>(x: [T; 3], p: [T; 4]) -> R::Out<T> {
        R::apply::<A, T>(x, p)
    }
}

pub(crate) struct Ints<R>(R);
impl<T: Int, R: IntRow> Row<T> for Ints<R> {
    const ARITY: usize = R::ARITY;
    type Out = R::Out<T>;
    #[inline(always)]
    fn apply<A: Arch>(x: [T; 3], p: [T; 4]) -> R::Out<T> {
        R::apply::<A, T>(x, p)
    }
}

pub(crate) struct Cplxs<R>(R);
impl<T: Cplx, R: CplxRow> Row<T> for Cplxs<R> {
    const ARITY: usize = R::ARITY;
    type Out = R::Out<T>;
    #[inline(always)]
    fn apply<A: Arch>(x: [T; 3], p: [T; 4]) -> R::Out<T> {
        R::apply::<A, T>(x, p)
    }
}

/// Elements handled at once: LLVM makes vectors of them.
const LANES: usize = 32;

/// One loop over whole groups of [`LANES`]; the rest is padded to one. Each group is read before
/// it is written, so the compiler needs no check for overlap, and an output that is an input is
/// as fast as any other.
#[inline(always)]
unsafe fn body<A: Arch, T: Copy, R: Row<T>>(
    out: *mut u8,
    ins: *const *const u8,
    n: usize,
    p: *const u8,
) {
    // SAFETY: the caller's promise: there are `ARITY` inputs of `n` elements, an output of as
    // many, and four numbers.
    unsafe {
        let p = (p as *const [T; 4]).read_unaligned();
        let mut from = [*ins as *const T; 3];
        if R::ARITY > 1 {
            from[1] = *ins.add(1) as *const T;
        }
        if R::ARITY > 2 {
            from[2] = *ins.add(2) as *const T;
        }
        let mut to = out as *mut R::Out;
        if n == 1 {
            to.write_unaligned(R::apply::<A>(from.map(|f| f.read_unaligned()), p));
            return;
        }
        let mut left = n;
        let mut padded = std::mem::MaybeUninit::<[[T; LANES]; 3]>::uninit();
        let mut results = std::mem::MaybeUninit::<[R::Out; LANES]>::uninit();
        while left > 0 {
            let m = left.min(LANES);
            let mut dst = to;
            let mut src = from;
            if m < LANES {
                let pad = padded.as_mut_ptr() as *mut T;
                for k in 0..R::ARITY {
                    let row = pad.add(k * LANES);
                    std::ptr::copy_nonoverlapping(
                        from[k] as *const u8,
                        row as *mut u8,
                        m * size_of::<T>(),
                    );
                    let first = row.read();
                    for j in m..LANES {
                        row.add(j).write(first);
                    }
                    src[k] = row;
                }
                dst = results.as_mut_ptr() as *mut R::Out;
            }
            let mut group = std::mem::MaybeUninit::<[R::Out; LANES]>::uninit();
            let values = group.as_mut_ptr() as *mut R::Out;
            for j in 0..LANES {
                let a = src[0].add(j).read_unaligned();
                let b = if R::ARITY > 1 {
                    src[1].add(j).read_unaligned()
                } else {
                    a
                };
                let c = if R::ARITY > 2 {
                    src[2].add(j).read_unaligned()
                } else {
                    a
                };
                values.add(j).write(R::apply::<A>([a, b, c], p));
            }
            std::ptr::copy_nonoverlapping(
                values as *const u8,
                dst as *mut u8,
                LANES * size_of::<R::Out>(),
            );
            if m < LANES {
                std::ptr::copy_nonoverlapping(
                    dst as *const u8,
                    to as *mut u8,
                    m * size_of::<R::Out>(),
                );
                return;
            }
            from = from.map(|f| f.wrapping_add(LANES));
            to = to.wrapping_add(LANES);
            left -= LANES;
        }
    }
}

unsafe fn base<T: Copy, R: Row<T>>(out: *mut u8, ins: *const *const u8, n: usize, p: *const u8) {
    // SAFETY: the caller's promise.
    unsafe { body::<arch::Base, T, R>(out, ins, n, p) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2")]
unsafe fn avx2<T: Copy, R: Row<T>>(out: *mut u8, ins: *const *const u8, n: usize, p: *const u8) {
    // SAFETY: the caller's promise.
    unsafe { body::<arch::Avx2, T, R>(out, ins, n, p) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx512cd,avx2,fma,f16c,bmi1,bmi2")]
unsafe fn avx512<T: Copy, R: Row<T>>(out: *mut u8, ins: *const *const u8, n: usize, p: *const u8) {
    // SAFETY: the caller's promise.
    unsafe { body::<arch::Avx512, T, R>(out, ins, n, p) }
}

/// The loop for the machine's own level.
fn best<T: Copy, R: Row<T>>(level: Level) -> LoopFn {
    match level {
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => avx512::<T, R>,
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => avx2::<T, R>,
        _ => base::<T, R>,
    }
}

/// The loop for AVX2 or the baseline: AVX-512 brings the other types too little for its size.
fn plain<T: Copy, R: Row<T>>(level: Level) -> LoopFn {
    match level {
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 | Level::Avx2 => avx2::<T, R>,
        _ => base::<T, R>,
    }
}

pub(crate) fn add_floats<R: FloatRow>(e: &mut Entry, level: Level) {
    e.loops[DType::F32 as usize] = Some(best::<f32, Floats<R>>(level));
    e.loops[DType::F64 as usize] = Some(best::<f64, Floats<R>>(level));
}

pub(crate) fn add_ints<R: IntRow>(e: &mut Entry, level: Level) {
    e.loops[DType::U8 as usize] = Some(plain::<u8, Ints<R>>(level));
    e.loops[DType::I8 as usize] = Some(plain::<i8, Ints<R>>(level));
    e.loops[DType::I16 as usize] = Some(plain::<i16, Ints<R>>(level));
    e.loops[DType::I32 as usize] = Some(plain::<i32, Ints<R>>(level));
    e.loops[DType::I64 as usize] = Some(plain::<i64, Ints<R>>(level));
}

pub(crate) fn add_bool<R: Row<bool>>(e: &mut Entry, level: Level) {
    e.loops[DType::Bool as usize] = Some(plain::<bool, R>(level));
}

pub(crate) fn add_complex<R: CplxRow>(e: &mut Entry, level: Level) {
    e.loops[DType::C64 as usize] = Some(plain::<Complex<f32>, Cplxs<R>>(level));
    e.loops[DType::C128 as usize] = Some(plain::<Complex<f64>, Cplxs<R>>(level));
}

/// Makes the function `fill` of a list of rows.
macro_rules! fill_rows {
    ($(
        $(#[doc = $doc:literal])+
        $method:ident $name:literal $kernel:ident ( $($arg:ident),+ ) $schema:literal -> $rule:ident { $($body:tt)* }
    )*) => {
        /// Enters the loops of these rows.
        pub(crate) fn fill(all: &mut [Entry], level: Level) {
            $({
                struct This;
                let entry = &mut all[Kernel::$kernel as usize];
                entry.arity = [$(stringify!($arg)),+].len();
                entry.rule = rule!(@of $rule);
                sections! { @float This $rule entry level [$($arg)+]; $($body)* }
            })*
        }
    };
}

macro_rules! rule {
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
    (@float $r:ident $rule:ident $e:ident $level:ident [$($arg:ident)+]; float |$($v:ident),+ $(; $p:ident)?| $x:expr; $($rest:tt)*) => {
        impl FloatRow for $r {
            const ARITY: usize = [$(stringify!($arg)),+].len();
            type Out<T: Real> = rule!(@out $rule T, T);
            #[inline(always)]
            #[allow(unused_variables)]
            fn apply<A: Arch, T: Real>([$($v,)+ ..]: [T; 3], numbers: [T; 4]) -> Self::Out<T> {
                $(let $p = numbers;)?
                $x
            }
        }
        add_floats::<$r>($e, $level);
        sections! { @int $r $rule $e $level [$($arg)+]; $($rest)* }
    };
    (@float $r:ident $rule:ident $e:ident $level:ident $args:tt; $($rest:tt)*) => {
        sections! { @int $r $rule $e $level $args; $($rest)* }
    };
    (@int $r:ident $rule:ident $e:ident $level:ident [$($arg:ident)+]; int |$($v:ident),+ $(; $p:ident)?| $x:expr; $($rest:tt)*) => {
        impl IntRow for $r {
            const ARITY: usize = [$(stringify!($arg)),+].len();
            type Out<T: Int> = rule!(@out $rule T, T);
            #[inline(always)]
            #[allow(unused_variables)]
            fn apply<A: Arch, T: Int>([$($v,)+ ..]: [T; 3], numbers: [T; 4]) -> Self::Out<T> {
                $(let $p = numbers;)?
                $x
            }
        }
        add_ints::<$r>($e, $level);
        sections! { @bool $r $rule $e $level [$($arg)+]; $($rest)* }
    };
    (@int $r:ident $rule:ident $e:ident $level:ident $args:tt; $($rest:tt)*) => {
        sections! { @bool $r $rule $e $level $args; $($rest)* }
    };
    (@bool $r:ident $rule:ident $e:ident $level:ident [$($arg:ident)+]; bool |$($v:ident),+ $(; $p:ident)?| $x:expr; $($rest:tt)*) => {
        impl Row<bool> for $r {
            const ARITY: usize = [$(stringify!($arg)),+].len();
            type Out = bool;
            #[inline(always)]
            #[allow(unused_variables)]
            fn apply<A: Arch>([$($v,)+ ..]: [bool; 3], numbers: [bool; 4]) -> bool {
                $(let $p = numbers;)?
                $x
            }
        }
        add_bool::<$r>($e, $level);
        sections! { @complex $r $rule $e $level [$($arg)+]; $($rest)* }
    };
    (@bool $r:ident $rule:ident $e:ident $level:ident $args:tt; $($rest:tt)*) => {
        sections! { @complex $r $rule $e $level $args; $($rest)* }
    };
    (@complex $r:ident $rule:ident $e:ident $level:ident [$($arg:ident)+]; complex |$($v:ident),+ $(; $p:ident)?| $x:expr; $($rest:tt)*) => {
        impl CplxRow for $r {
            const ARITY: usize = [$(stringify!($arg)),+].len();
            type Out<T: Cplx> = rule!(@out $rule T, T::R);
            #[inline(always)]
            #[allow(unused_variables)]
            fn apply<A: Arch, T: Cplx>([$($v,)+ ..]: [T; 3], numbers: [T; 4]) -> Self::Out<T> {
                $(let $p = numbers;)?
                $x
            }
        }
        add_complex::<$r>($e, $level);
    };
    // What other backends and the tensor crate read.
    (@complex $r:ident $rule:ident $e:ident $level:ident $args:tt; $($rest:tt)*) => {};
}

pub(crate) use {fill_rows, rule, sections};
