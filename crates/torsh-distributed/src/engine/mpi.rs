//! The MPI that the crate was linked with, by crate `mpi`: for MPIs without the standard binary interface, such as Open
//! MPI 4 and MPICH 4. `MPICC` chooses it when the crate is built.
//!
//! Open MPI 4 does not cut a large message that is longer than its part: within one machine it copies all of it. So the
//! layer above agrees on sizes before it sends data, and messages whose size is not known before are small.

use std::ffi::{c_char, c_int, c_void};

use mpi::ffi;
use torsh_core::{DType, Result};

use super::EngineOp;
use super::mpi_common::{Mpi, MpiOf, mpi_functions, version};

/// The engine `mpi`.
pub(crate) type MpiEngine = MpiOf<Linked>;

impl MpiEngine {
    /// Starts MPI on this thread, which must make all further calls.
    pub(crate) fn start() -> Result<MpiEngine> {
        let family = Family::of_the_library();
        MpiOf::start_on(Linked { family })
    }
}

/// The linked MPI, such as `Open MPI v4.1.4`.
pub(crate) fn found() -> String {
    let family = Family::of_the_library();
    version(&Linked { family })
}

type Comm = ffi::MPI_Comm;
type Group = ffi::MPI_Group;
type Request = ffi::MPI_Request;
type Type = ffi::MPI_Datatype;
type Op = ffi::MPI_Op;
type Errhandler = ffi::MPI_Errhandler;
type Status = ffi::MPI_Status;

/// The linked library.
pub(crate) struct Linked {
    family: Option<Family>,
}

/// Whose values some constants have, which are C macros that the bindings do not see.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    OpenMpi,
    Mpich,
}

impl Family {
    fn of_the_library() -> Option<Family> {
        let mut text = vec![0u8; 16 << 10];
        let mut length = 0;
        // SAFETY: the call is allowed at any time, and writes less than the memory holds.
        let code = unsafe { ffi::MPI_Get_library_version(text.as_mut_ptr().cast(), &mut length) };
        let said = String::from_utf8_lossy(&text);
        match code {
            0 if said.starts_with("Open MPI") => Some(Family::OpenMpi),
            // Also Intel's and Cray's, which descend from it and keep its values.
            0 if said.contains("MPICH") || said.contains("Intel(R) MPI") => Some(Family::Mpich),
            _ => None,
        }
    }
}

macro_rules! calls {
    ($($name:ident = $symbol:ident($($arg:ident: $kind:ty),*);)*) => {
        $(
            unsafe fn $name(&self, $($arg: $kind),*) -> c_int {
                // SAFETY: the caller's promise.
                unsafe { ffi::$symbol($($arg),*) }
            }
        )*
    };
}

impl Mpi for Linked {
    type Comm = Comm;
    type Group = Group;
    type Request = Request;
    type Type = Type;
    type Op = Op;
    type Errhandler = Errhandler;
    type Status = Status;

    const NAME: &'static str = "mpi";

    fn library(&self) -> Option<String> {
        None
    }

    fn world(&self) -> Comm {
        // SAFETY: a constant of the bindings, as are all below.
        unsafe { ffi::RSMPI_COMM_WORLD }
    }

    fn group_null(&self) -> Group {
        // SAFETY: a constant.
        unsafe { ffi::RSMPI_GROUP_NULL }
    }

    fn request_null(&self) -> Request {
        // SAFETY: a constant.
        unsafe { ffi::RSMPI_REQUEST_NULL }
    }

    fn byte(&self) -> Type {
        // MPI_BYTE is not among the bindings' constants; bytes are as good as 8-bit numbers.
        // SAFETY: a constant.
        unsafe { ffi::RSMPI_UINT8_T }
    }

    fn type_of(&self, dtype: DType) -> Option<Type> {
        // SAFETY: constants.
        let kind = unsafe {
            match dtype {
                DType::F64 => ffi::RSMPI_DOUBLE,
                DType::F32 => ffi::RSMPI_FLOAT,
                DType::I8 => ffi::RSMPI_INT8_T,
                DType::U8 => ffi::RSMPI_UINT8_T,
                DType::I16 => ffi::RSMPI_INT16_T,
                DType::I32 => ffi::RSMPI_INT32_T,
                DType::I64 => ffi::RSMPI_INT64_T,
                _ => return None,
            }
        };
        Some(kind)
    }

    fn op_of(&self, op: EngineOp) -> Op {
        // SAFETY: constants.
        unsafe {
            match op {
                EngineOp::Sum => ffi::RSMPI_SUM,
                EngineOp::Product => ffi::RSMPI_PROD,
                EngineOp::Min => ffi::RSMPI_MIN,
                EngineOp::Max => ffi::RSMPI_MAX,
            }
        }
    }

    fn errors_return(&self) -> Errhandler {
        // SAFETY: a constant.
        unsafe { ffi::RSMPI_ERRORS_RETURN }
    }

    fn any_source(&self) -> c_int {
        // SAFETY: a constant.
        unsafe { ffi::RSMPI_ANY_SOURCE }
    }

    fn thread_funneled(&self) -> c_int {
        // SAFETY: a constant.
        unsafe { ffi::RSMPI_THREAD_FUNNELED }
    }

    fn err_truncate(&self) -> c_int {
        ffi::MPI_ERR_TRUNCATE as c_int
    }

    fn tag_ub(&self) -> Option<c_int> {
        self.family.map(|f| match f {
            Family::OpenMpi => 0,
            Family::Mpich => 0x6440_0001,
        })
    }

    fn in_place(&self) -> Option<*const c_void> {
        self.family.map(|f| match f {
            Family::OpenMpi => std::ptr::without_provenance(1),
            Family::Mpich => std::ptr::without_provenance(usize::MAX),
        })
    }

    mpi_functions!(calls);
}
