//! The values that MPI 5.0's standard binary interface fixes (its chapter on the ABI, and `mpi_abi.h`).

use std::ffi::{c_int, c_void};

use torsh_core::DType;

use crate::engine::EngineOp;

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident),*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(transparent)]
        pub(crate) struct $name(usize);
    )*};
}

handles! {
    /// `MPI_Comm`. Handles are pointers that are never followed; the predefined ones are small numbers.
    Comm,
    /// `MPI_Group`
    Group,
    /// `MPI_Request`
    Request,
    /// `MPI_Datatype`
    Type,
    /// `MPI_Op`
    Op,
    /// `MPI_Errhandler`
    Errhandler
}

/// `MPI_Status`
#[repr(C)]
pub(crate) struct Status {
    source: c_int,
    tag: c_int,
    error: c_int,
    internal: [c_int; 5],
}

/// `MPI_ABI_VERSION`
pub(super) const ABI_VERSION: c_int = 1;

/// `MPI_COMM_WORLD`
pub(super) const COMM_WORLD: Comm = Comm(0x101);
/// `MPI_GROUP_NULL`
pub(super) const GROUP_NULL: Group = Group(0x108);
/// `MPI_ERRORS_RETURN`
pub(super) const ERRORS_RETURN: Errhandler = Errhandler(0x143);
/// `MPI_REQUEST_NULL`
pub(super) const REQUEST_NULL: Request = Request(0x180);
/// `MPI_BYTE`
pub(super) const BYTE: Type = Type(0x247);

/// `MPI_ANY_SOURCE`
pub(super) const ANY_SOURCE: c_int = -1;
/// `MPI_THREAD_FUNNELED`
pub(super) const THREAD_FUNNELED: c_int = 1024;
/// `MPI_TAG_UB`
pub(super) const TAG_UB: c_int = 501;
/// `MPI_ERR_TRUNCATE`
pub(super) const ERR_TRUNCATE: c_int = 15;
/// `MPI_IN_PLACE`
pub(super) const IN_PLACE: *const c_void = std::ptr::without_provenance(1);

/// MPI's type of a dtype that engines reduce.
pub(super) fn type_of(dtype: DType) -> Option<Type> {
    let number = match dtype {
        // MPI_DOUBLE, MPI_FLOAT
        DType::F64 => 0x214,
        DType::F32 => 0x210,
        // MPI_INT8_T, MPI_UINT8_T, MPI_INT16_T, MPI_INT32_T, MPI_INT64_T
        DType::I8 => 0x240,
        DType::U8 => 0x241,
        DType::I16 => 0x248,
        DType::I32 => 0x250,
        DType::I64 => 0x258,
        _ => return None,
    };
    Some(Type(number))
}

/// MPI's operation.
pub(super) fn op_of(op: EngineOp) -> Op {
    Op(match op {
        // MPI_SUM, MPI_MIN, MPI_MAX, MPI_PROD
        EngineOp::Sum => 0x21,
        EngineOp::Min => 0x22,
        EngineOp::Max => 0x23,
        EngineOp::Product => 0x24,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_the_standards() {
        assert_eq!(size_of::<Status>(), 32);
        assert_eq!(size_of::<Comm>(), size_of::<*const c_void>());
        assert_eq!(type_of(DType::BF16), None);
    }
}
