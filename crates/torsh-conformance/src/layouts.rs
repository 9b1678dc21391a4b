//! The same values in several memory layouts. The elements between and around them are poison (NaN, the
//! largest integer, true), so a kernel that reads them gives wrong results.

use std::fmt;

use crate::tensors::{Dtype, Element, TensorData, push};

/// One way to lay a tensor out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Row-major, nothing around it.
    Contiguous,
    /// Every second element along the last dimension of a buffer twice as wide.
    Step2,
    /// The last two dimensions swapped in memory.
    Transposed,
    /// Row-major, but starting inside a longer buffer.
    Offset,
}

impl Layout {
    /// Every layout, contiguous first.
    pub const ALL: [Layout; 4] = [
        Layout::Contiguous,
        Layout::Step2,
        Layout::Transposed,
        Layout::Offset,
    ];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Layout::Contiguous => "contiguous",
            Layout::Step2 => "step 2",
            Layout::Transposed => "transposed",
            Layout::Offset => "offset",
        }
    }

    /// Whether the layout differs from contiguous for a tensor of this shape.
    pub fn changes(self, shape: &[usize]) -> bool {
        match self {
            Layout::Contiguous => false,
            Layout::Transposed => {
                shape.len() >= 2 && shape[shape.len() - 1] > 1 && shape[shape.len() - 2] > 1
            }
            Layout::Step2 | Layout::Offset => true,
        }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How many poisoned elements lie before the first element under [`Layout::Offset`].
const LEAD: usize = 3;

/// A tensor's memory: a buffer, and where the elements lie in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    /// Element type.
    pub dtype: Dtype,
    /// Sizes.
    pub shape: Vec<usize>,
    /// Elements between neighbours, per dimension.
    pub strides: Vec<usize>,
    /// The first element's position in the buffer, in elements.
    pub offset: usize,
    /// The whole buffer.
    pub bytes: Vec<u8>,
    /// Whether the tensor is a leaf that requires grad.
    pub requires_grad: bool,
}

impl Memory {
    /// Lays `data` out.
    pub fn arrange(data: &TensorData, layout: Layout, requires_grad: bool) -> Memory {
        let shape = &data.shape;
        let rank = shape.len();
        let (strides, offset, length) = match layout {
            Layout::Contiguous => (row_major(shape), 0, data.numel()),
            Layout::Offset => (row_major(shape), LEAD, data.numel() + LEAD),
            Layout::Step2 => match shape.split_last() {
                Some((&last, rest)) => {
                    let wide: Vec<usize> = rest.iter().copied().chain([2 * last]).collect();
                    let mut strides = row_major(&wide);
                    strides[rank - 1] = 2;
                    (strides, 0, wide.iter().product())
                }
                // A 0-d tensor: the middle of three.
                None => (Vec::new(), 1, 3),
            },
            Layout::Transposed if rank >= 2 => {
                let mut swapped = shape.clone();
                swapped.swap(rank - 1, rank - 2);
                let mut strides = row_major(&swapped);
                strides.swap(rank - 1, rank - 2);
                (strides, 0, data.numel())
            }
            Layout::Transposed => (row_major(shape), 0, data.numel()),
        };
        let size = data.dtype.size();
        let mut bytes = Vec::with_capacity(length * size);
        for _ in 0..length {
            push(data.dtype, poison(data.dtype), &mut bytes);
        }
        for (from, to) in positions(shape, &strides, offset).enumerate() {
            bytes[to * size..(to + 1) * size]
                .copy_from_slice(&data.bytes[from * size..(from + 1) * size]);
        }
        Memory {
            dtype: data.dtype,
            shape: shape.clone(),
            strides,
            offset,
            bytes,
            requires_grad,
        }
    }

    /// The values, row-major.
    pub fn to_data(&self) -> TensorData {
        let size = self.dtype.size();
        let bytes = positions(&self.shape, &self.strides, self.offset)
            .flat_map(|at| self.bytes[at * size..(at + 1) * size].iter().copied())
            .collect();
        TensorData {
            dtype: self.dtype,
            shape: self.shape.clone(),
            bytes,
        }
    }
}

fn poison(dtype: Dtype) -> Element {
    match dtype {
        Dtype::Bool => Element::Bool(true),
        Dtype::UInt8 => Element::Int(u8::MAX.into()),
        Dtype::Int8 => Element::Int(i8::MAX.into()),
        Dtype::Int16 => Element::Int(i16::MAX.into()),
        Dtype::Int32 => Element::Int(i32::MAX.into()),
        Dtype::Int64 => Element::Int(i64::MAX),
        d if d.is_complex() => Element::Complex(f64::NAN, f64::NAN),
        _ => Element::Float(f64::NAN),
    }
}

/// Strides of a row-major tensor; a dimension of size 0 counts as 1, as in PyTorch.
fn row_major(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for i in (1..shape.len()).rev() {
        strides[i - 1] = strides[i] * shape[i].max(1);
    }
    strides
}

/// Buffer positions of the elements in row-major order.
fn positions<'a>(
    shape: &'a [usize],
    strides: &'a [usize],
    offset: usize,
) -> impl Iterator<Item = usize> + 'a {
    (0..shape.iter().product::<usize>()).map(move |mut at| {
        let mut position = offset;
        for (&n, &stride) in shape.iter().zip(strides).rev() {
            position += at % n * stride;
            at /= n;
        }
        position
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(dtype: Dtype, shape: &[usize]) -> TensorData {
        let n = shape.iter().product::<usize>() as i64;
        let elements: Vec<_> = (0..n).map(|i| Element::Float(i as f64)).collect();
        TensorData::from_elements(dtype, shape, &elements)
    }

    #[test]
    fn every_layout_keeps_the_values() {
        for dtype in [
            Dtype::Float32,
            Dtype::Int64,
            Dtype::Complex128,
            Dtype::BFloat16,
        ] {
            for shape in [
                &[][..],
                &[4],
                &[2, 3],
                &[2, 1, 3],
                &[0, 3],
                &[2, 0],
                &[2, 3, 4, 2],
            ] {
                let data = counted(dtype, shape);
                for layout in Layout::ALL {
                    let memory = Memory::arrange(&data, layout, true);
                    assert_eq!(memory.to_data(), data, "{dtype} {shape:?} {layout}");
                    assert!(memory.requires_grad);
                }
            }
        }
    }

    #[test]
    fn layouts_are_what_they_say() {
        let data = counted(Dtype::Float32, &[2, 3]);
        let memory = |layout| Memory::arrange(&data, layout, false);
        let floats = |m: &Memory| {
            let n = m.bytes.len() / 4;
            let t = TensorData {
                dtype: m.dtype,
                shape: vec![n],
                bytes: m.bytes.clone(),
            };
            t.elements().collect::<Vec<_>>()
        };
        let step = memory(Layout::Step2);
        assert_eq!((&step.strides[..], step.offset), (&[6, 2][..], 0));
        let values = floats(&step);
        assert_eq!(values.len(), 12);
        assert!(
            values
                .iter()
                .skip(1)
                .step_by(2)
                .all(|e| e.same(Element::Float(f64::NAN)))
        );
        let transposed = memory(Layout::Transposed);
        assert_eq!(transposed.strides, [1, 2]);
        assert_eq!(floats(&transposed)[1], Element::Float(3.0));
        let offset = memory(Layout::Offset);
        assert_eq!((&offset.strides[..], offset.offset), (&[3, 1][..], 3));
        assert!(
            floats(&offset)[..3]
                .iter()
                .all(|e| e.same(Element::Float(f64::NAN)))
        );
        let scalar = Memory::arrange(&counted(Dtype::Int8, &[]), Layout::Step2, false);
        assert_eq!((scalar.bytes, scalar.offset), (vec![127, 0, 127], 1));
    }

    #[test]
    fn a_layout_that_changes_nothing_is_known() {
        assert!(!Layout::Transposed.changes(&[4]));
        assert!(!Layout::Transposed.changes(&[4, 1]));
        assert!(Layout::Transposed.changes(&[1, 4, 2]));
        assert!(Layout::Step2.changes(&[]));
        assert!(!Layout::Contiguous.changes(&[4, 4]));
    }
}
