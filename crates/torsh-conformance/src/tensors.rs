//! Tensors as plain data: a dtype, a shape and row-major bytes, and reading them from safetensors. They
//! are separate from ToRSh's own types, so that the checker does not depend on the code that it checks.
//! Bytes are little-endian, as in safetensors and on every supported machine.

use std::collections::HashMap;
use std::fmt;

use half::{bf16, f16};
use safetensors::SafeTensors;

/// A tensor of the safetensors file of the same name.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorRef {
    /// Its name in the file.
    pub name: String,
    /// Sizes (of the complex tensor, where it is stored as a real view).
    pub shape: Vec<usize>,
    /// Element type.
    pub dtype: Dtype,
    /// Whether a gradient is asked for.
    pub requires_grad: bool,
}

/// An element type, by PyTorch's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Dtype {
    Float32,
    Float64,
    Float16,
    BFloat16,
    Int8,
    UInt8,
    Int16,
    Int32,
    Int64,
    Bool,
    Complex64,
    Complex128,
}

impl Dtype {
    /// Every dtype.
    pub const ALL: [Dtype; 12] = [
        Dtype::Float32,
        Dtype::Float64,
        Dtype::Float16,
        Dtype::BFloat16,
        Dtype::Int8,
        Dtype::UInt8,
        Dtype::Int16,
        Dtype::Int32,
        Dtype::Int64,
        Dtype::Bool,
        Dtype::Complex64,
        Dtype::Complex128,
    ];

    /// PyTorch's name: `float32`, `bfloat16`, ...
    pub fn name(self) -> &'static str {
        match self {
            Dtype::Float32 => "float32",
            Dtype::Float64 => "float64",
            Dtype::Float16 => "float16",
            Dtype::BFloat16 => "bfloat16",
            Dtype::Int8 => "int8",
            Dtype::UInt8 => "uint8",
            Dtype::Int16 => "int16",
            Dtype::Int32 => "int32",
            Dtype::Int64 => "int64",
            Dtype::Bool => "bool",
            Dtype::Complex64 => "complex64",
            Dtype::Complex128 => "complex128",
        }
    }

    /// The dtype of that name, if there is one.
    pub fn from_name(name: &str) -> Option<Dtype> {
        Dtype::ALL.into_iter().find(|d| d.name() == name)
    }

    /// Bytes per element.
    pub fn size(self) -> usize {
        match self {
            Dtype::Int8 | Dtype::UInt8 | Dtype::Bool => 1,
            Dtype::Float16 | Dtype::BFloat16 | Dtype::Int16 => 2,
            Dtype::Float32 | Dtype::Int32 => 4,
            Dtype::Float64 | Dtype::Int64 | Dtype::Complex64 => 8,
            Dtype::Complex128 => 16,
        }
    }

    /// Whether values are compared with a tolerance (floating point and complex).
    pub fn is_inexact(self) -> bool {
        matches!(
            self,
            Dtype::Float32 | Dtype::Float64 | Dtype::Float16 | Dtype::BFloat16
        ) || self.is_complex()
    }

    /// Whether elements are complex.
    pub fn is_complex(self) -> bool {
        matches!(self, Dtype::Complex64 | Dtype::Complex128)
    }

    /// The dtype of the real view's elements.
    fn real(self) -> Dtype {
        match self {
            Dtype::Complex64 => Dtype::Float32,
            Dtype::Complex128 => Dtype::Float64,
            other => other,
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One element, widened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Element {
    /// A boolean.
    Bool(bool),
    /// Any integer.
    Int(i64),
    /// Any real floating-point number.
    Float(f64),
    /// Any complex number: real and imaginary part.
    Complex(f64, f64),
}

impl Element {
    /// Equal, where NaN equals NaN.
    pub fn same(self, other: Element) -> bool {
        let nan = |e: Element| match e {
            Element::Float(x) => x.is_nan(),
            Element::Complex(re, im) => re.is_nan() || im.is_nan(),
            _ => false,
        };
        self == other || (nan(self) && nan(other))
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Element::Bool(b) => write!(f, "{b}"),
            Element::Int(i) => write!(f, "{i}"),
            Element::Float(x) => write!(f, "{x:?}"),
            Element::Complex(re, im) => write!(f, "({re:?}, {im:?}j)"),
        }
    }
}

/// A tensor as data: `bytes` holds the elements row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorData {
    /// Element type.
    pub dtype: Dtype,
    /// Sizes.
    pub shape: Vec<usize>,
    /// `numel * dtype.size()` bytes.
    pub bytes: Vec<u8>,
}

impl TensorData {
    /// From elements, each converted to `dtype` (which must be of the same kind).
    pub fn from_elements(dtype: Dtype, shape: &[usize], elements: &[Element]) -> TensorData {
        let mut bytes = Vec::with_capacity(elements.len() * dtype.size());
        for &e in elements {
            push(dtype, e, &mut bytes);
        }
        TensorData {
            dtype,
            shape: shape.to_vec(),
            bytes,
        }
    }

    /// How many elements.
    pub fn numel(&self) -> usize {
        self.shape.iter().product()
    }

    /// The element at a row-major position below `numel`.
    pub fn get(&self, at: usize) -> Element {
        let size = self.dtype.size();
        let b = &self.bytes[at * size..(at + 1) * size];
        match self.dtype {
            Dtype::Bool => Element::Bool(b[0] != 0),
            Dtype::UInt8 => Element::Int(b[0].into()),
            Dtype::Int8 => Element::Int((b[0] as i8).into()),
            Dtype::Int16 => Element::Int(i16::from_le_bytes([b[0], b[1]]).into()),
            Dtype::Int32 => Element::Int(i32::from_le_bytes(array(b)).into()),
            Dtype::Int64 => Element::Int(i64::from_le_bytes(array(b))),
            Dtype::Float16 => Element::Float(f16::from_le_bytes(array(b)).to_f64()),
            Dtype::BFloat16 => Element::Float(bf16::from_le_bytes(array(b)).to_f64()),
            Dtype::Float32 => Element::Float(f32::from_le_bytes(array(b)).into()),
            Dtype::Float64 => Element::Float(f64::from_le_bytes(array(b))),
            Dtype::Complex64 => Element::Complex(
                f32::from_le_bytes(array(&b[..4])).into(),
                f32::from_le_bytes(array(&b[4..])).into(),
            ),
            Dtype::Complex128 => Element::Complex(
                f64::from_le_bytes(array(&b[..8])),
                f64::from_le_bytes(array(&b[8..])),
            ),
        }
    }

    /// All elements in order.
    pub fn elements(&self) -> impl Iterator<Item = Element> + '_ {
        (0..self.numel()).map(|i| self.get(i))
    }

    /// The multi-index of a row-major position, for messages.
    pub fn index_of(&self, mut at: usize) -> Vec<usize> {
        let mut index = vec![0; self.shape.len()];
        for (i, &n) in self.shape.iter().enumerate().rev() {
            index[i] = at % n.max(1);
            at /= n.max(1);
        }
        index
    }
}

fn array<const N: usize>(b: &[u8]) -> [u8; N] {
    b.try_into()
        .expect("an element's bytes have its dtype's size")
}

/// Appends the bytes of `e` as `dtype`; numbers of another kind are converted.
pub(crate) fn push(dtype: Dtype, e: Element, out: &mut Vec<u8>) {
    let (re, im) = match e {
        Element::Bool(b) => (f64::from(u8::from(b)), 0.0),
        Element::Int(i) => (i as f64, 0.0),
        Element::Float(x) => (x, 0.0),
        Element::Complex(re, im) => (re, im),
    };
    let int = match e {
        Element::Int(i) => i,
        _ => re as i64,
    };
    match dtype {
        Dtype::Bool => out.push(u8::from(re != 0.0)),
        Dtype::UInt8 => out.push(int as u8),
        Dtype::Int8 => out.extend((int as i8).to_le_bytes()),
        Dtype::Int16 => out.extend((int as i16).to_le_bytes()),
        Dtype::Int32 => out.extend((int as i32).to_le_bytes()),
        Dtype::Int64 => out.extend(int.to_le_bytes()),
        Dtype::Float16 => out.extend(f16::from_f64(re).to_le_bytes()),
        Dtype::BFloat16 => out.extend(bf16::from_f64(re).to_le_bytes()),
        Dtype::Float32 => out.extend((re as f32).to_le_bytes()),
        Dtype::Float64 => out.extend(re.to_le_bytes()),
        Dtype::Complex64 => {
            out.extend((re as f32).to_le_bytes());
            out.extend((im as f32).to_le_bytes());
        }
        Dtype::Complex128 => {
            out.extend(re.to_le_bytes());
            out.extend(im.to_le_bytes());
        }
    }
}

/// One safetensors file in memory.
#[derive(Debug, Default)]
pub struct TensorFile {
    tensors: HashMap<String, TensorData>,
}

impl TensorFile {
    /// Reads a file's bytes. Complex tensors come as their real views; [`TensorFile::get`] folds
    /// them.
    ///
    /// # Errors
    /// Damaged files and dtypes that are none of [`Dtype::ALL`].
    pub fn parse(bytes: &[u8]) -> Result<TensorFile, String> {
        let file = SafeTensors::deserialize(bytes).map_err(|e| format!("safetensors: {e}"))?;
        let mut tensors = HashMap::new();
        for (name, view) in file.iter() {
            let dtype = stored(view.dtype())
                .ok_or_else(|| format!("safetensors: {name} is {:?}", view.dtype()))?;
            let data = TensorData {
                dtype,
                shape: view.shape().to_vec(),
                bytes: view.data().to_vec(),
            };
            tensors.insert(name.to_string(), data);
        }
        Ok(TensorFile { tensors })
    }

    /// The tensor of that name, as it is stored.
    ///
    /// # Errors
    /// No such tensor.
    pub fn named(&self, name: &str) -> Result<TensorData, String> {
        let found = self.tensors.get(name);
        found
            .cloned()
            .ok_or_else(|| format!("no tensor {name} stored"))
    }

    /// The tensors whose names start so, under the rest of their names, sorted.
    pub fn below(&self, prefix: &str) -> Vec<(String, TensorData)> {
        let rest = |(name, t): (&String, &TensorData)| {
            Some((name.strip_prefix(prefix)?.to_string(), t.clone()))
        };
        let mut all: Vec<_> = self.tensors.iter().filter_map(rest).collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }

    /// The tensor a reference names, with the reference's shape and dtype.
    ///
    /// # Errors
    /// No such tensor, or stored with another shape or dtype than the reference says.
    pub fn get(&self, reference: &TensorRef) -> Result<TensorData, String> {
        let TensorRef {
            name, shape, dtype, ..
        } = reference;
        let stored = self
            .tensors
            .get(name)
            .ok_or_else(|| format!("no tensor {name} stored"))?;
        let mut want_shape = shape.clone();
        if dtype.is_complex() && stored.dtype == dtype.real() {
            want_shape.push(2);
        } else if stored.dtype != *dtype {
            return Err(format!(
                "{name} is stored as {}, the case says {dtype}",
                stored.dtype
            ));
        }
        if stored.shape != want_shape {
            return Err(format!(
                "{name} is stored with shape {:?}, the case says {want_shape:?}",
                stored.shape
            ));
        }
        Ok(TensorData {
            dtype: *dtype,
            shape: shape.clone(),
            bytes: stored.bytes.clone(),
        })
    }
}

fn stored(dtype: safetensors::Dtype) -> Option<Dtype> {
    use safetensors::Dtype as S;
    Some(match dtype {
        S::F32 => Dtype::Float32,
        S::F64 => Dtype::Float64,
        S::F16 => Dtype::Float16,
        S::BF16 => Dtype::BFloat16,
        S::I8 => Dtype::Int8,
        S::U8 => Dtype::UInt8,
        S::I16 => Dtype::Int16,
        S::I32 => Dtype::Int32,
        S::I64 => Dtype::Int64,
        S::BOOL => Dtype::Bool,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use safetensors::tensor::TensorView;

    #[test]
    fn elements_survive_a_round_trip_in_every_dtype() {
        for dtype in Dtype::ALL {
            let e = match dtype {
                Dtype::Bool => Element::Bool(true),
                d if d.is_complex() => Element::Complex(1.5, -0.25),
                d if d.is_inexact() => Element::Float(-1.5),
                Dtype::UInt8 => Element::Int(200),
                _ => Element::Int(-7),
            };
            let t = TensorData::from_elements(dtype, &[2], &[e, e]);
            assert_eq!(t.bytes.len(), 2 * dtype.size(), "{dtype}");
            assert_eq!(t.get(1), e, "{dtype}");
            assert_eq!(Dtype::from_name(dtype.name()), Some(dtype));
        }
    }

    #[test]
    fn a_complex_tensor_is_read_from_its_real_view() {
        let real: Vec<u8> = [1.0f32, 2.0, 3.0, 4.0]
            .iter()
            .flat_map(|x| x.to_le_bytes())
            .collect();
        let half: Vec<u8> = bf16::from_f32(0.5).to_le_bytes().to_vec();
        let views = [
            (
                "c",
                TensorView::new(safetensors::Dtype::F32, vec![2, 2], &real).unwrap(),
            ),
            (
                "h",
                TensorView::new(safetensors::Dtype::BF16, vec![], &half).unwrap(),
            ),
        ];
        let file = TensorFile::parse(&safetensors::serialize(views, None).unwrap()).unwrap();
        let reference = |name: &str, shape: &[usize], dtype| TensorRef {
            name: name.to_string(),
            shape: shape.to_vec(),
            dtype,
            requires_grad: false,
        };
        let c = file.get(&reference("c", &[2], Dtype::Complex64)).unwrap();
        assert_eq!(c.shape, [2]);
        assert_eq!(c.get(1), Element::Complex(3.0, 4.0));
        let h = file.get(&reference("h", &[], Dtype::BFloat16)).unwrap();
        assert_eq!(h.get(0), Element::Float(0.5));
        assert!(file.get(&reference("c", &[3], Dtype::Complex64)).is_err());
        assert!(file.get(&reference("h", &[], Dtype::Float32)).is_err());
        assert!(file.get(&reference("x", &[], Dtype::Float32)).is_err());
        assert!(TensorFile::parse(b"not a file").is_err());
    }

    #[test]
    fn positions_turn_into_indices() {
        let t = TensorData::from_elements(Dtype::Int8, &[2, 3], &[Element::Int(0); 6]);
        assert_eq!(t.index_of(5), [1, 2]);
        assert_eq!(t.index_of(3), [1, 0]);
    }
}
