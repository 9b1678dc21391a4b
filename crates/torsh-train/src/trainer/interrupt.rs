//! Ctrl-C while training runs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use signal_hook::SigId;
use signal_hook::consts::{SIGINT, SIGTERM};
use torsh_tensor::Result;

/// The signals that ask a process to end. On Windows the C library makes them of what the console sends: SIGINT of Ctrl-C, and
/// number 21 (SIGBREAK) of Ctrl-Break, which is also what programs send to those that they started.
#[cfg(not(windows))]
const ASKING: [i32; 2] = [SIGINT, SIGTERM];
#[cfg(windows)]
const ASKING: [i32; 3] = [SIGINT, SIGTERM, 21];

/// Lets a signal do what it does by default, where the flag is set.
fn by_default(signal: i32, flag: Arc<AtomicBool>) -> std::io::Result<SigId> {
    #[cfg(not(windows))]
    {
        signal_hook::flag::register_conditional_default(signal, flag)
    }
    #[cfg(windows)]
    {
        /// The exit code of a process that Ctrl-C ended, 0xC000013A.
        const CONTROL_C_EXIT: i32 = -1_073_741_510;
        signal_hook::flag::register_conditional_shutdown(signal, CONTROL_C_EXIT, flag)
    }
}

struct Signals {
    /// Set by a signal, and while nothing listens: then a signal does what it does by default.
    flag: Arc<AtomicBool>,
    /// How many listen; `None` before the first.
    listening: Mutex<Option<usize>>,
}

static SIGNALS: LazyLock<Signals> = LazyLock::new(|| Signals {
    flag: Arc::new(AtomicBool::new(true)),
    listening: Mutex::new(None),
});

/// As long as this lives, the first signal that asks for the end only sets a flag; the second one
/// ends the process as it would have done without.
pub(super) struct Listening(());

impl Listening {
    pub(super) fn start() -> Result<Listening> {
        let mut listening = SIGNALS.listening.lock();
        if listening.is_none() {
            for signal in ASKING {
                // In this order: a signal sees the flag of those before it.
                by_default(signal, SIGNALS.flag.clone())?;
                signal_hook::flag::register(signal, SIGNALS.flag.clone())?;
            }
        }
        let count = listening.get_or_insert(0);
        if *count == 0 {
            SIGNALS.flag.store(false, Ordering::SeqCst);
        }
        *count += 1;
        Ok(Listening(()))
    }

    pub(super) fn interrupted(&self) -> bool {
        SIGNALS.flag.load(Ordering::SeqCst)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let mut listening = SIGNALS.listening.lock();
        if let Some(count) = &mut *listening {
            *count -= 1;
            if *count == 0 {
                SIGNALS.flag.store(true, Ordering::SeqCst);
            }
        }
    }
}

/// As long as this lives, SIGINT and SIGTERM (on Windows Ctrl-C and Ctrl-Break) are noted instead of ending the process: for
/// a program that passes them on to others. Afterwards they have no effect.
#[derive(Debug)]
pub struct CaughtSignals {
    flags: Vec<(i32, Arc<AtomicBool>)>,
    ids: Vec<SigId>,
}

impl CaughtSignals {
    /// Begins to note them.
    ///
    /// ```
    /// let signals = torsh_train::CaughtSignals::start()?;
    /// assert_eq!(signals.take(), None);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn start() -> Result<CaughtSignals> {
        let mut caught = CaughtSignals {
            flags: ASKING.map(|signal| (signal, Arc::default())).into(),
            ids: Vec::new(),
        };
        for (signal, flag) in &caught.flags {
            let id = signal_hook::flag::register(*signal, flag.clone())?;
            caught.ids.push(id);
        }
        Ok(caught)
    }

    /// The number of a signal that came, which is forgotten.
    pub fn take(&self) -> Option<i32> {
        let came = |(_, flag): &&(i32, Arc<AtomicBool>)| flag.swap(false, Ordering::SeqCst);
        self.flags.iter().find(came).map(|(signal, _)| *signal)
    }
}

impl Drop for CaughtSignals {
    fn drop(&mut self) {
        for id in self.ids.drain(..) {
            signal_hook::low_level::unregister(id);
        }
    }
}

/// Stops a training run from outside, as Ctrl-C does; a clone stops the same run.
#[derive(Clone, Debug, Default)]
pub struct StopHandle(Arc<AtomicBool>);

impl StopHandle {
    /// Asks the run to stop after the batch it is at.
    pub fn stop(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Whether it was asked to stop, which it forgets.
    pub(super) fn take(&self) -> bool {
        self.0.swap(false, Ordering::SeqCst)
    }
}
