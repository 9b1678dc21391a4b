//! The rows of all pointwise kernels.

use torsh_core::Kernel;
use torsh_core::machine::machine;

use super::loops::*;
use super::{half_rounding, special};
#[allow(unused_imports)]
use crate::scalar::*;
use crate::simd::{self, Arch, Level};

/// The loops of the unary rows.
mod unary {
    use super::*;
    torsh_core::for_each_unary! { fill_rows }
}

/// The loops of the binary rows.
mod binary {
    use super::*;
    torsh_core::for_each_binary! { fill_rows }
}

/// The loops of the rows with numbers.
mod parametric {
    use super::*;
    torsh_core::for_each_parametric! { fill_rows }
}

/// Rows that do little with what they read: see [`Machine::light_level`](torsh_core::machine::Machine::light_level).
const LIGHT: [Kernel; 16] = [
    Kernel::Add,
    Kernel::Sub,
    Kernel::Rsub,
    Kernel::Mul,
    Kernel::Div,
    Kernel::Addcmul,
    Kernel::Maximum,
    Kernel::Minimum,
    Kernel::Neg,
    Kernel::Abs,
    Kernel::Square,
    Kernel::Relu,
    Kernel::ReluBackward,
    Kernel::SigmoidBackward,
    Kernel::TanhBackward,
    Kernel::Threshold,
];

/// The rows of all kernels, by key.
pub(crate) fn entries() -> &'static [Entry] {
    static ENTRIES: std::sync::OnceLock<Vec<Entry>> = std::sync::OnceLock::new();
    ENTRIES.get_or_init(|| {
        let none = Entry {
            loops: [None; 12],
            arity: 0,
            rule: Rule::Promote,
            numbers: 0,
            divides: false,
        };
        let of = |level| {
            let mut all = vec![none; Kernel::POINTWISE];
            unary::fill(&mut all, level);
            binary::fill(&mut all, level);
            parametric::fill(&mut all, level);
            special::fill(&mut all, level);
            half_rounding::fill(&mut all, level);
            all
        };
        let level = simd::level();
        let mut all = of(level);
        if machine().light_level() != level {
            let light = of(machine().light_level());
            for k in LIGHT {
                all[k.index()] = light[k.index()];
            }
        }
        #[cfg(target_arch = "x86_64")]
        if level == Level::Avx512 {
            all[Kernel::Exp.index()].loops[torsh_core::DType::F32 as usize] =
                Some(by_vectors::exp::<false>);
            all[Kernel::Tanh.index()].loops[torsh_core::DType::F32 as usize] =
                Some(by_vectors::tanh::<false>);
        }
        for name in ["FloorDivide", "DivTrunc", "Remainder", "Fmod"] {
            for (entry, kernel) in all.iter_mut().zip(Kernel::ALL) {
                entry.divides |= kernel.name() == name;
            }
        }
        all
    })
}
