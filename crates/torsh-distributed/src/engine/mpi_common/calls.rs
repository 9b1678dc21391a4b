//! The functions and constants of MPI that the engines use.

use std::ffi::{c_char, c_int, c_void};

use torsh_core::DType;

use crate::engine::EngineOp;

/// An MPI: its handles, its constants and its functions, by their names without `MPI_`.
///
/// The functions are MPI's own, so each call promises what the standard asks for: handles of this MPI, memory that is
/// there until the operation is complete, and the thread that started it.
pub(crate) trait Mpi {
    type Comm: Copy;
    type Group: Copy;
    type Request: Copy;
    type Type: Copy;
    type Op: Copy;
    type Errhandler: Copy;
    type Status;

    /// The engine's name.
    const NAME: &'static str;

    /// The library that was loaded, where one was.
    fn library(&self) -> Option<String>;

    fn world(&self) -> Self::Comm;
    fn group_null(&self) -> Self::Group;
    fn request_null(&self) -> Self::Request;
    fn byte(&self) -> Self::Type;
    fn type_of(&self, dtype: DType) -> Option<Self::Type>;
    fn op_of(&self, op: EngineOp) -> Self::Op;
    fn errors_return(&self) -> Self::Errhandler;
    fn any_source(&self) -> c_int;
    fn thread_funneled(&self) -> c_int;
    /// The class of errors of messages that are longer than their part.
    fn err_truncate(&self) -> c_int;
    /// The key of the attribute with the largest tag, where it is known.
    fn tag_ub(&self) -> Option<c_int>;
    /// The address that stands for "the operand is where the result goes", where it is known.
    fn in_place(&self) -> Option<*const c_void>;

    unsafe fn init_thread(
        &self,
        argc: *mut c_int,
        argv: *mut *mut *mut c_char,
        required: c_int,
        provided: *mut c_int,
    ) -> c_int;
    unsafe fn initialized(&self, flag: *mut c_int) -> c_int;
    unsafe fn query_thread(&self, provided: *mut c_int) -> c_int;
    unsafe fn finalize(&self) -> c_int;
    unsafe fn finalized(&self, flag: *mut c_int) -> c_int;
    unsafe fn abort(&self, comm: Self::Comm, code: c_int) -> c_int;
    unsafe fn get_library_version(&self, version: *mut c_char, length: *mut c_int) -> c_int;
    unsafe fn error_string(&self, code: c_int, text: *mut c_char, length: *mut c_int) -> c_int;
    unsafe fn error_class(&self, code: c_int, class: *mut c_int) -> c_int;
    unsafe fn comm_rank(&self, comm: Self::Comm, rank: *mut c_int) -> c_int;
    unsafe fn comm_size(&self, comm: Self::Comm, size: *mut c_int) -> c_int;
    unsafe fn comm_dup(&self, comm: Self::Comm, new: *mut Self::Comm) -> c_int;
    unsafe fn comm_free(&self, comm: *mut Self::Comm) -> c_int;
    unsafe fn comm_set_errhandler(&self, comm: Self::Comm, handler: Self::Errhandler) -> c_int;
    unsafe fn comm_get_attr(
        &self,
        comm: Self::Comm,
        key: c_int,
        value: *mut c_void,
        found: *mut c_int,
    ) -> c_int;
    unsafe fn comm_group(&self, comm: Self::Comm, group: *mut Self::Group) -> c_int;
    unsafe fn comm_create_group(
        &self,
        comm: Self::Comm,
        group: Self::Group,
        tag: c_int,
        new: *mut Self::Comm,
    ) -> c_int;
    unsafe fn group_incl(
        &self,
        group: Self::Group,
        n: c_int,
        ranks: *const c_int,
        new: *mut Self::Group,
    ) -> c_int;
    unsafe fn group_free(&self, group: *mut Self::Group) -> c_int;
    unsafe fn isend(
        &self,
        from: *const c_void,
        count: c_int,
        kind: Self::Type,
        to: c_int,
        tag: c_int,
        comm: Self::Comm,
        request: *mut Self::Request,
    ) -> c_int;
    unsafe fn irecv(
        &self,
        into: *mut c_void,
        count: c_int,
        kind: Self::Type,
        from: c_int,
        tag: c_int,
        comm: Self::Comm,
        request: *mut Self::Request,
    ) -> c_int;
    unsafe fn ibcast(
        &self,
        memory: *mut c_void,
        count: c_int,
        kind: Self::Type,
        root: c_int,
        comm: Self::Comm,
        request: *mut Self::Request,
    ) -> c_int;
    unsafe fn iallgatherv(
        &self,
        from: *const c_void,
        count: c_int,
        kind: Self::Type,
        into: *mut c_void,
        counts: *const c_int,
        displacements: *const c_int,
        into_kind: Self::Type,
        comm: Self::Comm,
        request: *mut Self::Request,
    ) -> c_int;
    unsafe fn iallreduce(
        &self,
        from: *const c_void,
        into: *mut c_void,
        count: c_int,
        kind: Self::Type,
        op: Self::Op,
        comm: Self::Comm,
        request: *mut Self::Request,
    ) -> c_int;
    unsafe fn test(
        &self,
        request: *mut Self::Request,
        flag: *mut c_int,
        status: *mut Self::Status,
    ) -> c_int;
    unsafe fn cancel(&self, request: *mut Self::Request) -> c_int;
    unsafe fn test_cancelled(&self, status: *const Self::Status, flag: *mut c_int) -> c_int;
    unsafe fn get_count(
        &self,
        status: *const Self::Status,
        kind: Self::Type,
        count: *mut c_int,
    ) -> c_int;
}

/// Calls the macro `$with` with the functions of [`Mpi`]: their names here, their symbols, and their arguments, whose
/// types are the caller's aliases `Comm`, `Group`, ..
macro_rules! mpi_functions {
    ($with:ident) => {
        $with! {
            init_thread = MPI_Init_thread(argc: *mut c_int, argv: *mut *mut *mut c_char, required: c_int, provided: *mut c_int);
            initialized = MPI_Initialized(flag: *mut c_int);
            query_thread = MPI_Query_thread(provided: *mut c_int);
            finalize = MPI_Finalize();
            finalized = MPI_Finalized(flag: *mut c_int);
            abort = MPI_Abort(comm: Comm, code: c_int);
            get_library_version = MPI_Get_library_version(version: *mut c_char, length: *mut c_int);
            error_string = MPI_Error_string(code: c_int, text: *mut c_char, length: *mut c_int);
            error_class = MPI_Error_class(code: c_int, class: *mut c_int);
            comm_rank = MPI_Comm_rank(comm: Comm, rank: *mut c_int);
            comm_size = MPI_Comm_size(comm: Comm, size: *mut c_int);
            comm_dup = MPI_Comm_dup(comm: Comm, new: *mut Comm);
            comm_free = MPI_Comm_free(comm: *mut Comm);
            comm_set_errhandler = MPI_Comm_set_errhandler(comm: Comm, handler: Errhandler);
            comm_get_attr = MPI_Comm_get_attr(comm: Comm, key: c_int, value: *mut c_void, found: *mut c_int);
            comm_group = MPI_Comm_group(comm: Comm, group: *mut Group);
            comm_create_group = MPI_Comm_create_group(comm: Comm, group: Group, tag: c_int, new: *mut Comm);
            group_incl = MPI_Group_incl(group: Group, n: c_int, ranks: *const c_int, new: *mut Group);
            group_free = MPI_Group_free(group: *mut Group);
            isend = MPI_Isend(from: *const c_void, count: c_int, kind: Type, to: c_int, tag: c_int, comm: Comm, request: *mut Request);
            irecv = MPI_Irecv(into: *mut c_void, count: c_int, kind: Type, from: c_int, tag: c_int, comm: Comm, request: *mut Request);
            ibcast = MPI_Ibcast(memory: *mut c_void, count: c_int, kind: Type, root: c_int, comm: Comm, request: *mut Request);
            iallgatherv = MPI_Iallgatherv(from: *const c_void, count: c_int, kind: Type, into: *mut c_void, counts: *const c_int, displacements: *const c_int, into_kind: Type, comm: Comm, request: *mut Request);
            iallreduce = MPI_Iallreduce(from: *const c_void, into: *mut c_void, count: c_int, kind: Type, op: Op, comm: Comm, request: *mut Request);
            test = MPI_Test(request: *mut Request, flag: *mut c_int, status: *mut Status);
            cancel = MPI_Cancel(request: *mut Request);
            test_cancelled = MPI_Test_cancelled(status: *const Status, flag: *mut c_int);
            get_count = MPI_Get_count(status: *const Status, kind: Type, count: *mut c_int);
        }
    };
}

pub(crate) use mpi_functions;
