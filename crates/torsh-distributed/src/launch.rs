//! Starting a program on several ranks, and again after a failure: what the command `torshrun` does.
//!
//! [`launch`] finds `mpiexec`, gives it the options of its kind (MPICH's Hydra or Open MPI), divides the processor
//! among the ranks, labels their output, passes Ctrl-C on and sees to it that no process is left. Where a rank fails,
//! MPI ends the others, and the program is started again; it loads its last whole checkpoint itself.
//!
//! Open MPI 5 and MPICH can repair a job while it runs (communicators shrink by the ranks that are lost). That is not
//! used: the ranks that are left would still have to give up the step they are in, get the lost pieces of parameters
//! and optimizer states from a checkpoint, and build all groups anew. A restart does just that, takes a second more, and
//! works with every MPI.

mod command;
mod find;
mod hosts;
mod keep;
mod run;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use torsh_tensor::{Result, TorshError};
use torsh_train::CaughtSignals;

pub use find::{Family, Launcher, find_mpiexec};
pub use hosts::Host;
pub use keep::keep_rank;

use hosts::Assigned;

/// The environment variable that tells a program how often [`launch`] has started it again.
pub const RESTART_COUNT: &str = "TORSH_RESTART_COUNT";
/// The environment variable with the deadline of operations in seconds.
pub const TIMEOUT: &str = "TORSH_DISTRIBUTED_TIMEOUT";
/// The environment variable that all processes of a launch have, by which those that are left are found.
const JOB: &str = "TORSH_JOB";

/// The first argument with which `torshrun` looks after one rank ([`keep_rank`]): `--keep-rank label PROGRAM ..`, or
/// `plain` in the place of `label`.
pub const KEEP: &str = "--keep-rank";

/// How often [`launch`] has started this program again: 0 the first time, and without it.
///
/// ```
/// assert_eq!(torsh_distributed::launch::restart_count(), 0);
/// ```
pub fn restart_count() -> usize {
    let text = std::env::var(RESTART_COUNT).unwrap_or_default();
    text.parse().unwrap_or(0)
}

/// What is started, and how.
///
/// ```
/// use torsh_distributed::launch::LaunchOptions;
///
/// let options = LaunchOptions::new(4, "target/release/train").arguments(["--epochs", "3"]);
/// assert_eq!((options.nproc, options.max_restarts, options.label), (4, 0, true));
/// ```
#[derive(Clone, Debug)]
pub struct LaunchOptions {
    /// How many ranks.
    pub nproc: usize,
    /// How often a program whose ranks failed is started again (0).
    pub max_restarts: usize,
    /// The fewest ranks to go on with where hosts are gone (as many as at first).
    pub min_nproc: Option<usize>,
    /// The machines; none for this one.
    pub hosts: Vec<Host>,
    /// The launcher, where it is not to be searched.
    pub mpiexec: Option<PathBuf>,
    /// Whether lines of output begin with the rank they are of (true).
    pub label: bool,
    /// Whether ranks are bound to cores of their own where there are enough (true).
    pub pin: bool,
    /// The deadline of each operation (10 minutes, which the program decides).
    pub timeout: Option<Duration>,
    /// The file of `torshrun`, which runs beside each rank then: it labels whole lines, and tells which rank failed first
    /// and how. Without it that is left to the launcher (none).
    pub torshrun: Option<PathBuf>,
    /// The program.
    pub program: OsString,
    /// What it is given.
    pub arguments: Vec<OsString>,
}

impl LaunchOptions {
    /// A program on so many ranks of this machine.
    pub fn new(nproc: usize, program: impl Into<OsString>) -> LaunchOptions {
        LaunchOptions {
            nproc,
            max_restarts: 0,
            min_nproc: None,
            hosts: Vec::new(),
            mpiexec: None,
            label: true,
            pin: true,
            timeout: None,
            torshrun: None,
            program: program.into(),
            arguments: Vec::new(),
        }
    }

    /// Sets what the program is given.
    #[must_use]
    pub fn arguments(mut self, arguments: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.arguments = arguments.into_iter().map(Into::into).collect();
        self
    }

    fn check(&self) -> Result<()> {
        let refuse = |why: String| Err(TorshError::invalid("torshrun", why));
        if self.nproc == 0 {
            return refuse("nproc must be at least 1, got 0".to_string());
        }
        match self.min_nproc {
            Some(0) => refuse("min-nproc must be at least 1, got 0".to_string()),
            Some(min) if min > self.nproc => {
                refuse(format!("min-nproc {min} is more than nproc {}", self.nproc))
            }
            _ => hosts::check(&self.hosts, self.nproc),
        }
    }
}

/// How a launch ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The exit code: 0, or that of the rank that failed last (128 and its signal, where one ended it).
    pub code: i32,
    /// How often the program was started again.
    pub restarts: usize,
    /// With how many ranks it ran last.
    pub nproc: usize,
}

/// Starts a program and waits for its end, through as many restarts as are allowed. What happens is told on standard
/// error, in lines that begin with `torshrun:`.
///
/// Each rank finds in its environment `TORSH_RESTART_COUNT` ([`restart_count`]), `TORSH_NUM_THREADS` (the cores of a
/// machine divided by its ranks, unless it is set already) and, with a timeout, `TORSH_DISTRIBUTED_TIMEOUT`.
///
/// ```
/// use torsh_distributed::launch::{LaunchOptions, launch};
/// let error = launch(&LaunchOptions::new(0, "target/release/train")).unwrap_err();
/// assert!(error.to_string().contains("nproc must be at least 1, got 0"));
/// ```
///
/// # Errors
/// Options that contradict each other, no launcher (with all that was searched), a launcher of an unknown kind. A
/// failing program is no error but an [`Outcome`].
#[torsh_tensor::names_caller]
pub fn launch(options: &LaunchOptions) -> Result<Outcome> {
    options.check()?;
    let launcher = find_mpiexec(options.mpiexec.as_deref(), &options.program)?;
    let signals = CaughtSignals::start()?;
    let all = Assigned::new(&options.hosts, options.nproc);
    let mut now = all.clone();
    let mut restarts = 0;
    loop {
        let attempt = command::Attempt {
            launcher: &launcher,
            options,
            ranks: &now,
            restarts,
        };
        let end = run::run(&attempt, &signals)?;
        let nproc = now.total();
        let outcome = |code| Outcome {
            code,
            restarts,
            nproc,
        };
        if end.code == 0 || end.interrupted {
            return Ok(outcome(end.code));
        }
        eprintln!("torshrun: {}", end.describe());
        if restarts == options.max_restarts {
            if options.max_restarts > 0 {
                eprintln!("torshrun: all {restarts} restarts are used up");
            }
            return Ok(outcome(end.code));
        }
        match all.without_lost(options.min_nproc.unwrap_or(options.nproc)) {
            Ok(left) => now = left,
            Err(why) => {
                eprintln!("torshrun: {why}");
                return Ok(outcome(end.code));
            }
        }
        restarts += 1;
        eprintln!(
            "torshrun: restart {restarts} of {} with {} ranks",
            options.max_restarts,
            now.total()
        );
    }
}

#[cfg(test)]
mod tests;
