//! MPI by its standard binary interface (MPI 5.0), from a library that is loaded when the program runs.
//!
//! Nothing is needed to build: functions are found by name, and handles and constants have the values that the standard
//! fixes.

mod constants;
pub(super) mod library;

use std::ffi::{c_char, c_int, c_void};

use torsh_core::{DType, Result, TorshError};

use super::EngineOp;
use super::mpi_common::{Mpi, MpiOf, mpi_functions, version};
use constants::{Comm, Errhandler, Group, Op, Request, Status, Type};

/// The engine `mpi-abi`.
pub(crate) type MpiAbiEngine = MpiOf<Abi>;

impl MpiAbiEngine {
    /// Finds the library and starts MPI on this thread, which must make all further calls.
    pub(crate) fn start() -> Result<MpiAbiEngine> {
        MpiOf::start_on(Abi::load()?)
    }
}

/// The MPI with the standard binary interface that would be used, such as `MPICH 5.0.2 (/opt/mpi/lib/libmpi_abi.so.1)`.
pub(crate) fn found() -> Result<String> {
    let mpi = Abi::load()?;
    Ok(format!("{} ({})", version(&mpi), mpi.path))
}

macro_rules! functions {
    ($($name:ident = $symbol:ident($($arg:ident: $kind:ty),*);)*) => {
        /// The functions of a library.
        struct Functions {
            $($name: unsafe extern "C" fn($($kind),*) -> c_int,)*
        }

        impl Functions {
            /// # Safety
            /// The library's symbols of these names are MPI's functions by the standard interface. It stays loaded.
            unsafe fn of(library: &libloading::Library) -> Result<Functions, String> {
                Ok(Functions {
                    // SAFETY: the caller's promise.
                    $($name: unsafe { symbol(library, stringify!($symbol))? },)*
                })
            }
        }
    };
}

mpi_functions!(functions);

/// A function of a library.
///
/// # Safety
/// The symbol is a function of type `T`.
unsafe fn symbol<T: Copy>(library: &libloading::Library, name: &str) -> Result<T, String> {
    // SAFETY: the caller's promise.
    match unsafe { library.get::<T>(name.as_bytes()) } {
        Ok(f) => Ok(*f),
        Err(_) => Err(format!("it has no {name}")),
    }
}

/// A loaded library.
pub(crate) struct Abi {
    functions: Functions,
    path: String,
}

impl Abi {
    fn load() -> Result<Abi> {
        let found = library::open()?;
        // SAFETY: the library has MPI's names, and `check_version` asks it whether it has the standard interface before
        // any other function is called.
        let loaded =
            unsafe { check_version(&found.library).and_then(|()| Functions::of(&found.library)) };
        let functions = loaded.map_err(|problem| {
            TorshError::unavailable(
                "mpi-abi",
                format!(
                    "{} is not an MPI with the standard binary interface: {problem}",
                    found.path
                ),
            )
            .with_hint(library::HINT)
        })?;
        // MPI libraries leave threads and handlers behind: they are never unloaded.
        std::mem::forget(found.library);
        Ok(Abi {
            functions,
            path: found.path,
        })
    }
}

/// Refuses a library of another interface.
///
/// # Safety
/// The symbol `MPI_Abi_get_version`, where the library has it, is the standard's function.
unsafe fn check_version(library: &libloading::Library) -> Result<(), String> {
    type Version = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;
    let (mut major, mut minor) = (0, 0);
    // SAFETY: the caller's promise; the function is allowed at any time and writes two numbers.
    let code =
        unsafe { symbol::<Version>(library, "MPI_Abi_get_version")?(&mut major, &mut minor) };
    if code != 0 || major != constants::ABI_VERSION {
        return Err(format!(
            "it says version {major}.{minor}, but this program knows version 1"
        ));
    }
    Ok(())
}

macro_rules! calls {
    ($($name:ident = $symbol:ident($($arg:ident: $kind:ty),*);)*) => {
        $(
            unsafe fn $name(&self, $($arg: $kind),*) -> c_int {
                // SAFETY: the caller's promise.
                unsafe { (self.functions.$name)($($arg),*) }
            }
        )*
    };
}

impl Mpi for Abi {
    type Comm = Comm;
    type Group = Group;
    type Request = Request;
    type Type = Type;
    type Op = Op;
    type Errhandler = Errhandler;
    type Status = Status;

    const NAME: &'static str = "mpi-abi";

    fn library(&self) -> Option<String> {
        Some(self.path.clone())
    }

    fn world(&self) -> Comm {
        constants::COMM_WORLD
    }

    fn group_null(&self) -> Group {
        constants::GROUP_NULL
    }

    fn request_null(&self) -> Request {
        constants::REQUEST_NULL
    }

    fn byte(&self) -> Type {
        constants::BYTE
    }

    fn type_of(&self, dtype: DType) -> Option<Type> {
        constants::type_of(dtype)
    }

    fn op_of(&self, op: EngineOp) -> Op {
        constants::op_of(op)
    }

    fn errors_return(&self) -> Errhandler {
        constants::ERRORS_RETURN
    }

    fn any_source(&self) -> c_int {
        constants::ANY_SOURCE
    }

    fn thread_funneled(&self) -> c_int {
        constants::THREAD_FUNNELED
    }

    fn err_truncate(&self) -> c_int {
        constants::ERR_TRUNCATE
    }

    fn tag_ub(&self) -> Option<c_int> {
        Some(constants::TAG_UB)
    }

    fn in_place(&self) -> Option<*const c_void> {
        Some(constants::IN_PLACE)
    }

    mpi_functions!(calls);
}
