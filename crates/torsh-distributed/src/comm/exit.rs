//! What happens when the process ends while ranks still talk.

use std::sync::OnceLock;

/// Naps of a few microseconds last as long as they say.
pub(crate) fn timer_slack() {
    #[cfg(target_os = "linux")]
    // SAFETY: changes the calling thread's timer slack, nothing else.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1usize, 0usize, 0usize, 0usize);
    }
}

static AT_EXIT: OnceLock<fn(i32)> = OnceLock::new();

/// Calls a function once when the process exits, with its status: 0, or another after an error or a panic (where the C
/// library tells; else 0). On Windows a process that calls `std::process::exit` ends without.
pub(crate) fn install(f: fn(i32)) {
    if AT_EXIT.set(f).is_err() {
        return;
    }
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        unsafe extern "C" {
            fn on_exit(
                f: extern "C" fn(libc::c_int, *mut libc::c_void),
                arg: *mut libc::c_void,
            ) -> libc::c_int;
        }
        extern "C" fn at_exit(status: libc::c_int, _: *mut libc::c_void) {
            run(status);
        }
        // SAFETY: the function stays as long as the process, and takes what the C library gives.
        unsafe { on_exit(at_exit, std::ptr::null_mut()) };
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    {
        extern "C" fn at_exit() {
            run(0);
        }
        // SAFETY: as above.
        unsafe { libc::atexit(at_exit) };
    }
}

/// Runs in the C library's exit, so it must not unwind.
fn run(status: i32) {
    if let Some(f) = AT_EXIT.get() {
        let _ = std::panic::catch_unwind(|| f(status));
    }
}
