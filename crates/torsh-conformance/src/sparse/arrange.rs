//! The arrangements in which every case runs.

use std::fmt;

use crate::layouts::{Layout, Memory};
use crate::parts::{Kind, Operand, Parts};
use crate::tensors::{Dtype, Element, TensorData};

/// How the operands of a call lie in memory, and which of several equal tensors they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrangement {
    /// As the file has them, contiguous.
    Given,
    /// Strided operands, the values of sparse ones and the indices of COO as [`Layout::Step2`].
    Step2,
    /// The same as [`Layout::Transposed`].
    Transposed,
    /// The same as [`Layout::Offset`].
    Offset,
    /// The indices of compressed tensors are int32.
    Int32,
    /// COO operands that are coalesced are given in another form: each element in two parts, whose indices are equal and far from
    /// each other.
    Split,
}

impl Arrangement {
    /// Every one, that of the file first.
    pub const ALL: [Arrangement; 6] = [
        Arrangement::Given,
        Arrangement::Step2,
        Arrangement::Transposed,
        Arrangement::Offset,
        Arrangement::Int32,
        Arrangement::Split,
    ];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Arrangement::Int32 => "int32 indices",
            Arrangement::Split => "split duplicates",
            other => other.layout().name(),
        }
    }

    /// How memory is laid out.
    fn layout(self) -> Layout {
        match self {
            Arrangement::Step2 => Layout::Step2,
            Arrangement::Transposed => Layout::Transposed,
            Arrangement::Offset => Layout::Offset,
            Arrangement::Given | Arrangement::Int32 | Arrangement::Split => Layout::Contiguous,
        }
    }

    /// Whether it makes another tensor of this one.
    pub(super) fn changes(self, operand: &Operand) -> bool {
        let layout = self.layout();
        match operand {
            Operand::Strided(data) => layout.changes(&data.shape),
            Operand::Sparse(parts) => match self {
                Arrangement::Int32 => parts.kind != Kind::Coo,
                Arrangement::Split => self.splits(operand),
                _ => {
                    let indices = parts.indices.iter().filter(|_| parts.kind == Kind::Coo);
                    let mut all = indices.chain([&parts.values]);
                    all.any(|part| layout.changes(&part.shape))
                }
            },
        }
    }

    /// Whether it splits the elements of this operand.
    pub(super) fn splits(self, operand: &Operand) -> bool {
        let Operand::Sparse(parts) = operand else {
            return false;
        };
        let stored = parts.values.shape.first().is_some_and(|n| *n > 0);
        self == Arrangement::Split && parts.kind == Kind::Coo && parts.coalesced && stored
    }

    /// The operand so arranged.
    pub(super) fn of(self, operand: &Operand, requires_grad: bool) -> Operand<Memory> {
        if let Operand::Sparse(parts) = operand
            && self.splits(operand)
        {
            return self.laid_out(&Operand::Sparse(Box::new(split(parts))), false);
        }
        self.laid_out(operand, requires_grad)
    }

    /// A cotangent so arranged, which is never split: gradients may have its pattern.
    pub(super) fn of_cotangent(self, cotangent: &Operand) -> Operand<Memory> {
        self.laid_out(cotangent, false)
    }

    fn laid_out(self, operand: &Operand, requires_grad: bool) -> Operand<Memory> {
        let layout = self.layout();
        let parts = match operand {
            Operand::Strided(data) => {
                return Operand::Strided(Memory::arrange(data, layout, requires_grad));
            }
            Operand::Sparse(parts) => parts,
        };
        let index = |data: &TensorData| match parts.kind {
            Kind::Coo => Memory::arrange(data, layout, false),
            // Compressed indices are contiguous, as PyTorch's must be.
            _ if self == Arrangement::Int32 => {
                Memory::arrange(&as_int32(data), Layout::Contiguous, false)
            }
            _ => Memory::arrange(data, Layout::Contiguous, false),
        };
        Operand::Sparse(Box::new(Parts {
            kind: parts.kind,
            shape: parts.shape.clone(),
            dtype: parts.dtype,
            dense_dim: parts.dense_dim,
            coalesced: parts.coalesced,
            indices: parts.indices.iter().map(index).collect(),
            values: Memory::arrange(&parts.values, layout, false),
            requires_grad,
        }))
    }
}

impl fmt::Display for Arrangement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A copy of integers as int32, which they must fit.
pub(super) fn as_int32(data: &TensorData) -> TensorData {
    let elements: Vec<_> = data.elements().collect();
    TensorData::from_elements(Dtype::Int32, &data.shape, &elements)
}

/// Whether the result of an operator shows that a COO tensor is not coalesced, in more than its flag.
pub(super) fn shows_duplicates(
    op: &str,
    operands: &[(Dtype, bool)],
    result: Option<Dtype>,
) -> bool {
    // Two halves of true are no sum, and halves are rounded each where the result is an integer.
    let bools = operands.iter().any(|(d, _)| *d == Dtype::Bool);
    let rounded = op == "to" && result.is_some_and(|d| operands.iter().any(|(o, _)| *o != d));
    // The product of two has all elements of the one that is not coalesced.
    let product = op == "mul" && operands.iter().filter(|(_, sparse)| *sparse).count() > 1;
    if bools || rounded || product {
        return true;
    }
    let shows = [
        "_indices",
        "_nnz",
        "_values",
        "indices",
        "is_coalesced",
        "values",
    ];
    shows.contains(&op)
}

/// A COO tensor with every element in two parts, whose sum is exact: the first parts of all, then the second ones.
fn split(parts: &Parts) -> Parts {
    let first = |e: Element| match e {
        Element::Bool(b) => Element::Bool(b),
        Element::Int(i) => Element::Int(i / 2),
        Element::Float(x) => Element::Float(x / 2.0),
        Element::Complex(re, im) => Element::Complex(re / 2.0, im / 2.0),
    };
    let second = |e: Element| match e {
        Element::Int(i) => Element::Int(i - i / 2),
        other => first(other),
    };
    let twice = |data: &TensorData, dimension: usize, elements: Vec<Element>| {
        let mut shape = data.shape.clone();
        if let Some(n) = shape.get_mut(dimension) {
            *n *= 2;
        }
        TensorData::from_elements(data.dtype, &shape, &elements)
    };
    let entries = parts.values.shape.first().copied().unwrap_or(0);
    let values = &parts.values;
    let both = values
        .elements()
        .map(first)
        .chain(values.elements().map(second));
    let index = |data: &TensorData| {
        let rows = data.shape.first().copied().unwrap_or(0);
        let row = |d: usize| (0..2 * entries).map(move |e| (d, e % entries));
        let all = (0..rows).flat_map(row);
        twice(
            data,
            1,
            all.map(|(d, e)| data.get(d * entries + e)).collect(),
        )
    };
    Parts {
        kind: parts.kind,
        shape: parts.shape.clone(),
        dtype: parts.dtype,
        dense_dim: parts.dense_dim,
        coalesced: false,
        indices: parts.indices.iter().map(index).collect(),
        values: twice(values, 0, both.collect()),
        requires_grad: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ints(dtype: Dtype, shape: &[usize], v: &[i64]) -> TensorData {
        let e: Vec<_> = v.iter().map(|&i| Element::Int(i)).collect();
        TensorData::from_elements(dtype, shape, &e)
    }

    fn data(operand: &Operand<Memory>) -> Operand {
        let back = operand.try_map(|m| Ok::<_, std::convert::Infallible>(m.to_data()));
        match back {
            Ok(back) => back,
            Err(never) => match never {},
        }
    }

    fn coo() -> Operand {
        Operand::Sparse(Box::new(Parts {
            kind: Kind::Coo,
            shape: vec![3, 4],
            dtype: Dtype::Int8,
            dense_dim: 0,
            coalesced: true,
            indices: vec![ints(Dtype::Int64, &[2, 3], &[0, 1, 2, 3, 0, 2])],
            values: ints(Dtype::Int8, &[3], &[5, -7, 1]),
            requires_grad: false,
        }))
    }

    #[test]
    fn duplicates_add_up_to_the_same_tensor() {
        let (given, split) = (coo(), data(&Arrangement::Split.of(&coo(), true)));
        let (Operand::Sparse(given), Operand::Sparse(split)) = (given, split) else {
            panic!("not sparse");
        };
        assert!(!split.coalesced && !split.requires_grad);
        assert_eq!(split.values.shape, [6]);
        assert_eq!(split.summed().unwrap(), given.summed().unwrap());
    }

    #[test]
    fn arrangements_keep_the_values() {
        let csr = Operand::Sparse(Box::new(Parts {
            kind: Kind::Csr,
            shape: vec![2, 4],
            dtype: Dtype::Int8,
            dense_dim: 0,
            coalesced: true,
            indices: vec![
                ints(Dtype::Int64, &[3], &[0, 1, 3]),
                ints(Dtype::Int64, &[3], &[0, 1, 3]),
            ],
            values: ints(Dtype::Int8, &[3], &[5, -7, 1]),
            requires_grad: false,
        }));
        for operand in [
            coo(),
            csr,
            Operand::Strided(ints(Dtype::Int8, &[2, 2], &[1, 2, 3, 4])),
        ] {
            for arrangement in [
                Arrangement::Step2,
                Arrangement::Transposed,
                Arrangement::Offset,
            ] {
                assert_eq!(
                    data(&arrangement.of(&operand, false)),
                    operand,
                    "{arrangement}"
                );
            }
            let narrow = data(&Arrangement::Int32.of(&operand, false));
            let changed = Arrangement::Int32.changes(&operand);
            assert_eq!(narrow != operand, changed, "{narrow:?}");
            assert_eq!(changed, operand.layout() == "csr");
        }
    }
}
