//! How files store numbers: dtypes of this framework, unsigned integers that are widened, and dtypes that it lacks.

use torsh_tensor::{DType, Result, Shared, Storage, TorshError};

use crate::archive::to_storage;
use crate::layout::usable;

/// Unsigned integers, which become signed ones of the next size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Unsigned {
    U16,
    U32,
    U64,
}

impl Unsigned {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Unsigned::U16 => "uint16",
            Unsigned::U32 => "uint32",
            Unsigned::U64 => "uint64",
        }
    }

    fn size(self) -> usize {
        match self {
            Unsigned::U16 => 2,
            Unsigned::U32 => 4,
            Unsigned::U64 => 8,
        }
    }

    /// The dtype that holds the numbers; of uint64 those that fit.
    fn widened(self) -> DType {
        match self {
            Unsigned::U16 => DType::I32,
            Unsigned::U32 | Unsigned::U64 => DType::I64,
        }
    }

    /// The numbers in the widened dtype, of this machine's byte order.
    fn widen(self, bytes: &[u8], big_endian: bool) -> Result<Vec<u8>> {
        let size = self.size();
        let mut out = Vec::with_capacity(bytes.len() / size * self.widened().size());
        for (i, number) in bytes.chunks_exact(size).enumerate() {
            let mut raw = [0; 8];
            raw[..size].copy_from_slice(number);
            if big_endian {
                raw[..size].reverse();
            }
            let value = u64::from_le_bytes(raw);
            match (self, i32::try_from(value), i64::try_from(value)) {
                (Unsigned::U16, Ok(value), _) => out.extend(value.to_ne_bytes()),
                (_, _, Ok(value)) => out.extend(value.to_ne_bytes()),
                _ => {
                    return Err(TorshError::dtype(
                        "load",
                        format!(
                            "it is uint64, and element {i} of its storage is {value}, more than int64 holds"
                        ),
                    ));
                }
            }
        }
        Ok(out)
    }
}

/// How numbers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Stored {
    As(DType),
    Widened(Unsigned),
    /// A dtype that tensors here lack: PyTorch's name of it, and the bytes of one element.
    Foreign(&'static str, usize),
}

/// Dtypes of PyTorch that tensors here lack. Four of them have classes of storages.
const FOREIGN: [(&str, &str, usize); 23] = [
    ("float8_e4m3fn", "", 1),
    ("float8_e5m2", "", 1),
    ("float8_e4m3fnuz", "", 1),
    ("float8_e5m2fnuz", "", 1),
    ("float8_e8m0fnu", "", 1),
    ("float4_e2m1fn_x2", "", 1),
    ("complex32", "", 4),
    ("qint8", "QInt8Storage", 1),
    ("quint8", "QUInt8Storage", 1),
    ("qint32", "QInt32Storage", 4),
    ("quint4x2", "QUInt4x2Storage", 1),
    ("quint2x4", "QUInt2x4Storage", 1),
    ("bits8", "", 1),
    ("bits16", "", 2),
    ("bits1x8", "", 1),
    ("bits2x4", "", 1),
    ("bits4x2", "", 1),
    ("int1", "", 1),
    ("int2", "", 1),
    ("int4", "", 1),
    ("uint1", "", 1),
    ("uint2", "", 1),
    ("uint4", "", 1),
];

impl Stored {
    /// A dtype by its name in `torch`.
    pub(crate) fn of_torch(name: &str) -> Option<Stored> {
        if let Some(dtype) = DType::ALL.into_iter().find(|d| d.name() == name) {
            return Some(Stored::As(dtype));
        }
        let unsigned = [Unsigned::U16, Unsigned::U32, Unsigned::U64];
        if let Some(unsigned) = unsigned.into_iter().find(|u| u.name() == name) {
            return Some(Stored::Widened(unsigned));
        }
        let found = FOREIGN.iter().find(|(own, ..)| *own == name);
        found.map(|&(name, _, size)| Stored::Foreign(name, size))
    }

    /// The dtype of one of the classes of storages that only foreign dtypes have.
    pub(crate) fn of_storage(class: &str) -> Option<Stored> {
        let found = FOREIGN
            .iter()
            .find(|(_, own, _)| !own.is_empty() && *own == class);
        found.map(|&(name, _, size)| Stored::Foreign(name, size))
    }

    /// A dtype by NumPy's code without the byte order, as `f4`.
    pub(crate) fn of_numpy(code: &str) -> Option<Stored> {
        Some(match code {
            "b1" | "?" => Stored::As(DType::Bool),
            "u1" => Stored::As(DType::U8),
            "u2" => Stored::Widened(Unsigned::U16),
            "u4" => Stored::Widened(Unsigned::U32),
            "u8" => Stored::Widened(Unsigned::U64),
            "i1" => Stored::As(DType::I8),
            "i2" => Stored::As(DType::I16),
            "i4" => Stored::As(DType::I32),
            "i8" => Stored::As(DType::I64),
            "f2" => Stored::As(DType::F16),
            "f4" => Stored::As(DType::F32),
            "f8" => Stored::As(DType::F64),
            "c8" => Stored::As(DType::C64),
            "c16" => Stored::As(DType::C128),
            _ => return None,
        })
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Stored::As(dtype) => dtype.name(),
            Stored::Widened(unsigned) => unsigned.name(),
            Stored::Foreign(name, _) => name,
        }
    }

    /// The bytes of one element in the file.
    pub(crate) fn size(self) -> usize {
        match self {
            Stored::As(dtype) => dtype.size(),
            Stored::Widened(unsigned) => unsigned.size(),
            Stored::Foreign(_, size) => size,
        }
    }

    /// Memory with the elements of a storage as the file has it, and their dtype.
    pub(crate) fn read(
        self,
        storage: Shared<Storage>,
        big_endian: bool,
    ) -> Result<(Shared<Storage>, DType)> {
        match self {
            Stored::As(dtype) => Ok((usable(storage, dtype, big_endian)?, dtype)),
            Stored::Widened(unsigned) => {
                let mut bytes = vec![0; storage.bytes()];
                storage.read(0, &mut bytes)?;
                let wide = unsigned.widen(&bytes, big_endian)?;
                Ok((to_storage(&wide)?, unsigned.widened()))
            }
            Stored::Foreign(name, _) => Err(TorshError::dtype("load", no_dtype(name))),
        }
    }
}

/// Why a tensor of a foreign dtype is not read.
pub(crate) fn no_dtype(name: &str) -> String {
    format!("it is of torch.{name}, for which there is no dtype")
}
