//! The tile unit's instructions.

/// Instructions of AMX in Intel's syntax, then their operands and options as `asm!` takes them:
///
/// ```text
/// tile_asm!(["tilezero tmm0", "tileloadd tmm1, [{a} + {s}]"], a = in(reg) from, s = in(reg) 64usize; readonly, nostack)
/// ```
#[cfg(not(feature = "unit-tests"))]
macro_rules! tile_asm {
    ([$($text:expr),+ $(,)?] $(, $name:ident = $way:ident(reg) $value:expr $(=> $after:tt)?)*; $($option:ident),+) => {
        std::arch::asm!(
            $($text,)+
            $($name = $way(reg) $value $(=> $after)?,)*
            options($($option),+)
        )
    };
}

/// The same; the model reads the same text where the processor does not have AMX.
#[cfg(feature = "unit-tests")]
macro_rules! tile_asm {
    ([$($text:expr),+ $(,)?] $(, $name:ident = $way:ident(reg) $value:expr $(=> $after:tt)?)*; $($option:ident),+) => {
        if $crate::simd::isa::amx::is_present() {
            std::arch::asm!(
                $($text,)+
                $($name = $way(reg) $value $(=> $after)?,)*
                options($($option),+)
            )
        } else {
            use $crate::simd::isa::model::program::Program;
            static PROGRAM: std::sync::OnceLock<Program> = std::sync::OnceLock::new();
            let program = PROGRAM.get_or_init(|| Program::new(&[$($text),+], &[$(stringify!($name)),*]));
            program.run(&mut [$(($value) as usize),*])
        }
    };
}

pub(crate) use tile_asm;

/// Whether the processor has AMX, `TORSH_SIMD` allows it and the system lets this process use it.
#[cfg(feature = "unit-tests")]
pub(crate) fn is_present() -> bool {
    torsh_core::machine::machine().bf16_tiles
}
