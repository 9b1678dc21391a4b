//! The choice of attention's algorithm.

use std::fmt;

use torsh_core::DType;
use torsh_core::machine::Machine;

use crate::machine::choice::Algorithm;
use crate::machine::tuning::{attention_amx as tuning, attention_rows};

/// One head's sizes, and what else decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AttentionProblem {
    /// What is computed in: float32 or float64.
    pub dtype: DType,
    pub backward: bool,
    /// Queries and keys.
    pub l: usize,
    pub s: usize,
    /// Heads of the query for each of key and value.
    pub group: usize,
    /// Columns of queries and keys, and of values.
    pub e: usize,
    pub d: usize,
    pub masked: bool,
    /// Whether queries see a window of the keys other than that of causal attention.
    pub window: bool,
}

impl fmt::Display for AttentionProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AttentionProblem {
            dtype,
            l,
            s,
            group,
            e,
            d,
            ..
        } = self;
        let way = if self.backward { "backward" } else { "forward" };
        let mask = if self.masked { " mask=1" } else { "" };
        let shared = match group {
            1 => String::new(),
            n => format!(" group={n}"),
        };
        let window = if self.window { " window=1" } else { "" };
        write!(
            f,
            "{way} {dtype} queries={l} keys={s} e={e} d={d}{shared}{mask}{window}"
        )
    }
}

/// The algorithms of attention and its gradients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttentionAlgorithm {
    /// AMX, each float32 as the sum of three bfloat16. A call with values that are not finite, or so large
    /// that sums might not be, falls back to [`Blocks`](Self::Blocks).
    Amx,
    /// Vector instructions.
    Blocks,
    /// Row by row, without packing: keys and values are read once, where they lie.
    Rows,
}

use AttentionAlgorithm::*;

impl Algorithm for AttentionAlgorithm {
    type Problem = AttentionProblem;
    const OP: &'static str = "attention";
    const ALL: &'static [Self] = &[Amx, Blocks, Rows];

    fn name(self) -> &'static str {
        match self {
            Amx => "amx",
            Blocks => "blocks",
            Rows => "rows",
        }
    }

    fn accepts(self, p: &AttentionProblem, machine: &Machine) -> bool {
        match self {
            Amx => {
                let masked = p.backward && p.masked;
                machine.bf16_tiles && p.dtype == DType::F32 && !masked && !p.window
            }
            Blocks => true,
            Rows => !p.backward,
        }
    }

    fn choose(p: &AttentionProblem, machine: &Machine, _: usize) -> (Self, &'static str) {
        if Rows.accepts(p, machine) && p.group * p.l <= attention_rows::QUERIES {
            return (Rows, "too few queries to repay packing keys and values");
        }
        if !Amx.accepts(p, machine) {
            return match machine.bf16_tiles {
                true => (
                    Blocks,
                    "AMX takes float32, no window, and no gradients under a mask",
                ),
                false => (Blocks, "the machine has no AMX"),
            };
        }
        let long = p.l.min(p.s) >= tuning::LINES && p.e.min(p.d) >= tuning::COLUMNS;
        match long {
            true => (Amx, "the machine has AMX, and packing is repaid"),
            false => (
                Blocks,
                "too few queries, keys or columns to repay packing for AMX",
            ),
        }
    }

    /// Heads of the benchmark, and smaller ones.
    fn examples() -> Vec<AttentionProblem> {
        let mut all = Vec::new();
        for (l, s, e) in [(512, 512, 64), (128, 128, 32), (64, 64, 64), (1, 512, 64)] {
            for (backward, masked) in [(false, false), (false, true), (true, false), (true, true)] {
                all.push(AttentionProblem {
                    dtype: DType::F32,
                    backward,
                    l,
                    s,
                    group: 1,
                    e,
                    d: e,
                    masked,
                    window: false,
                });
            }
        }
        all
    }
}
