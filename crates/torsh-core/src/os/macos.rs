//! What macOS says.

use std::ffi::CStr;

/// A number of the system's state, by its name.
pub(crate) fn number(name: &CStr) -> Option<u64> {
    let mut value = 0u64;
    let length = read(name, (&raw mut value).cast(), size_of::<u64>())?;
    // Some are of 32 bits, which are the first of the eight bytes on the little-endian processors of this system.
    [4, 8].contains(&length).then_some(value)
}

/// A text of the system's state, by its name.
pub(crate) fn text(name: &CStr) -> Option<String> {
    let mut bytes = [0u8; 256];
    let length = read(name, bytes.as_mut_ptr().cast(), bytes.len())?;
    let text = bytes.get(..length)?.split(|&b| b == 0).next()?;
    let text = std::str::from_utf8(text).ok()?.trim();
    (!text.is_empty()).then(|| text.to_string())
}

/// Has the system write up to `room` bytes at `to`; how many it wrote.
fn read(name: &CStr, to: *mut libc::c_void, room: usize) -> Option<usize> {
    let mut length = room;
    // SAFETY: both callers pass memory of `room` bytes, and the system writes no more than `length` says. It sets nothing, as
    // there is no new value.
    let failed =
        unsafe { libc::sysctlbyname(name.as_ptr(), to, &raw mut length, std::ptr::null_mut(), 0) };
    (failed == 0).then_some(length)
}

/// The seconds that all threads of the process have spent on processors.
pub(super) fn processor_seconds() -> Option<f64> {
    // SAFETY: all zeros is a value of this struct of numbers, which the call writes.
    let (failed, usage) = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        (libc::getrusage(libc::RUSAGE_SELF, &raw mut usage), usage)
    };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + f64::from(t.tv_usec) * 1e-6;
    (failed == 0).then(|| seconds(usage.ru_utime) + seconds(usage.ru_stime))
}
