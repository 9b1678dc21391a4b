//! What Windows says and does. The functions are declared here, as there are few.

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::process::Child;
use std::ptr::{NonNull, null, null_mut};

/// `MEMORYSTATUSEX`.
#[repr(C)]
#[derive(Default)]
struct MemoryStatus {
    length: u32,
    load: u32,
    physical: u64,
    others: [u64; 6],
}

/// `BY_HANDLE_FILE_INFORMATION`.
#[repr(C)]
#[derive(Default)]
struct FileInformation {
    attributes: u32,
    times: [u32; 6],
    volume: u32,
    size: [u32; 2],
    links: u32,
    index: [u32; 2],
}

/// `FILETIME`: tenths of microseconds.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Time {
    low: u32,
    high: u32,
}

/// `JOBOBJECT_EXTENDED_LIMIT_INFORMATION`.
#[repr(C)]
#[derive(Default)]
struct JobLimits {
    times: [i64; 2],
    flags: u32,
    working_set: [usize; 2],
    processes: u32,
    affinity: usize,
    priority: u32,
    scheduling: u32,
    counters: [u64; 6],
    memory: [usize; 4],
}

const MEM_COMMIT: u32 = 0x1000;
const MEM_RESERVE: u32 = 0x2000;
const MEM_DECOMMIT: u32 = 0x4000;
const MEM_RELEASE: u32 = 0x8000;
const PAGE_READWRITE: u32 = 4;
const EXTENDED_LIMITS: i32 = 9;
const KILL_ON_JOB_CLOSE: u32 = 0x2000;

#[link(name = "kernel32")]
unsafe extern "system" {
    fn GlobalMemoryStatusEx(status: *mut MemoryStatus) -> i32;
    fn GetFileInformationByHandle(file: *mut c_void, information: *mut FileInformation) -> i32;
    fn GetCurrentProcess() -> *mut c_void;
    fn GetProcessTimes(
        process: *mut c_void,
        creation: *mut Time,
        exit: *mut Time,
        kernel: *mut Time,
        user: *mut Time,
    ) -> i32;
    fn VirtualAlloc(at: *mut c_void, bytes: usize, kind: u32, protection: u32) -> *mut c_void;
    fn VirtualFree(at: *mut c_void, bytes: usize, kind: u32) -> i32;
    fn CreateJobObjectW(attributes: *const c_void, name: *const u16) -> *mut c_void;
    fn SetInformationJobObject(
        job: *mut c_void,
        class: i32,
        information: *const c_void,
        length: u32,
    ) -> i32;
    fn AssignProcessToJobObject(job: *mut c_void, process: *mut c_void) -> i32;
    fn TerminateJobObject(job: *mut c_void, code: u32) -> i32;
}

/// The error of a function that returns 0 where it fails.
fn checked(result: i32) -> io::Result<()> {
    match result {
        0 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

pub(super) fn physical_memory() -> Option<u64> {
    let mut status = MemoryStatus {
        length: size_of::<MemoryStatus>() as u32,
        ..MemoryStatus::default()
    };
    // SAFETY: writes the struct, whose length it reads first.
    checked(unsafe { GlobalMemoryStatusEx(&raw mut status) }).ok()?;
    Some(status.physical)
}

pub(super) fn processor_seconds() -> Option<f64> {
    let mut times = [Time::default(); 4];
    let [creation, exit, kernel, user] = times.each_mut().map(|t| &raw mut *t);
    // SAFETY: the handle of the process itself needs no closing; the call writes the four times.
    checked(unsafe { GetProcessTimes(GetCurrentProcess(), creation, exit, kernel, user) }).ok()?;
    let seconds = |t: Time| (u64::from(t.high) << 32 | u64::from(t.low)) as f64 * 1e-7;
    Some(seconds(times[2]) + seconds(times[3]))
}

/// What tells a file from all others: its volume, and its number there.
pub(super) fn identity(file: &File) -> io::Result<(u32, [u32; 2])> {
    let mut about = FileInformation::default();
    // SAFETY: the handle is open as long as the file; the call writes the struct.
    checked(unsafe { GetFileInformationByHandle(file.as_raw_handle(), &raw mut about) })?;
    Ok((about.volume, about.index))
}

/// Reserved addresses, of which a part has memory or has none.
pub(crate) struct Addresses(NonNull<c_void>);

// SAFETY: it owns the addresses, which are bound to no thread.
unsafe impl Send for Addresses {}
// SAFETY: all calls are the system's, which may come from several threads.
unsafe impl Sync for Addresses {}

impl Addresses {
    /// Addresses without memory.
    pub(crate) fn reserve(bytes: usize) -> io::Result<Addresses> {
        // SAFETY: new addresses, which nobody else has.
        let at = unsafe { VirtualAlloc(null_mut(), bytes, MEM_RESERVE, PAGE_READWRITE) };
        NonNull::new(at)
            .map(Addresses)
            .ok_or_else(io::Error::last_os_error)
    }

    pub(crate) fn ptr(&self) -> *mut u8 {
        self.0.as_ptr().cast()
    }

    /// Brings memory of zeros where there is none.
    ///
    /// # Safety
    /// The bytes from `start` on are within these addresses.
    pub(crate) unsafe fn commit(&self, start: usize, bytes: usize) -> io::Result<()> {
        let at = self.ptr().wrapping_add(start).cast();
        // SAFETY: the caller's promise; memory that is there stays as it is.
        match unsafe { VirtualAlloc(at, bytes, MEM_COMMIT, PAGE_READWRITE) }.is_null() {
            true => Err(io::Error::last_os_error()),
            false => Ok(()),
        }
    }

    /// Gives the memory back. Nothing may read or write it until [`Addresses::commit`].
    ///
    /// # Safety
    /// The bytes from `start` on are within these addresses, and nobody uses them.
    pub(crate) unsafe fn decommit(&self, start: usize, bytes: usize) -> io::Result<()> {
        let at = self.ptr().wrapping_add(start).cast();
        // SAFETY: the caller's promise.
        checked(unsafe { VirtualFree(at, bytes, MEM_DECOMMIT) })
    }
}

impl Drop for Addresses {
    fn drop(&mut self) {
        // SAFETY: the addresses that `reserve` got, all at once. That this fails would be a defect, which costs addresses only.
        unsafe { VirtualFree(self.0.as_ptr(), 0, MEM_RELEASE) };
    }
}

/// A process with all that it starts, which end with this value at the latest: a job of Windows, which has no groups of
/// processes.
///
/// ```
/// use std::process::Command;
/// use torsh_core::os::Job;
///
/// let job = Job::new()?;
/// let mut child = Command::new("ping").args(["-n", "60", "127.0.0.1"]).spawn()?;
/// job.add(&child)?;
/// job.end()?;
/// assert!(!child.wait()?.success());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Job(OwnedHandle);

impl Job {
    /// Without any process.
    ///
    /// # Errors
    /// What the system says where it makes none.
    pub fn new() -> io::Result<Job> {
        // SAFETY: without a name and attributes; the handle is owned from here on.
        let job = unsafe {
            let handle = CreateJobObjectW(null(), null());
            if handle.is_null() {
                return Err(io::Error::last_os_error());
            }
            Job(OwnedHandle::from_raw_handle(handle))
        };
        let limits = JobLimits {
            flags: KILL_ON_JOB_CLOSE,
            ..JobLimits::default()
        };
        // SAFETY: the struct is the one of this class, of this length, and is only read.
        checked(unsafe {
            SetInformationJobObject(
                job.0.as_raw_handle(),
                EXTENDED_LIMITS,
                (&raw const limits).cast(),
                size_of::<JobLimits>() as u32,
            )
        })?;
        Ok(job)
    }

    /// Takes a process in, with all that it starts from now on.
    ///
    /// # Errors
    /// What the system says, as of a process that has ended.
    pub fn add(&self, child: &Child) -> io::Result<()> {
        // SAFETY: both handles are open.
        checked(unsafe { AssignProcessToJobObject(self.0.as_raw_handle(), child.as_raw_handle()) })
    }

    /// Ends all processes, with the exit code 1.
    ///
    /// # Errors
    /// What the system says.
    pub fn end(&self) -> io::Result<()> {
        // SAFETY: the handle is open.
        checked(unsafe { TerminateJobObject(self.0.as_raw_handle(), 1) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_are_as_long_as_the_systems() {
        assert_eq!(size_of::<MemoryStatus>(), 64);
        assert_eq!(size_of::<FileInformation>(), 52);
        assert_eq!(size_of::<JobLimits>(), 144);
    }

    #[test]
    fn memory_goes_and_comes_as_zeros() {
        let addresses = Addresses::reserve(1 << 20).unwrap();
        for _ in 0..2 {
            // SAFETY: within the addresses, which are this test's alone.
            unsafe {
                addresses.commit(1 << 16, 4096).unwrap();
                let at = addresses.ptr().add(1 << 16);
                assert_eq!(at.read(), 0);
                at.write(7);
                addresses.decommit(1 << 16, 4096).unwrap();
            }
        }
    }
}
