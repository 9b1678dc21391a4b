//! The command line of a launcher.

use std::ffi::OsString;
use std::process::Command;

use super::hosts::{Assigned, remote_shell};
use super::{Family, JOB, KEEP, LaunchOptions, Launcher, RESTART_COUNT, TIMEOUT};

/// One start of a program.
pub(super) struct Attempt<'a> {
    pub(super) launcher: &'a Launcher,
    pub(super) options: &'a LaunchOptions,
    pub(super) ranks: &'a Assigned,
    pub(super) restarts: usize,
}

/// The number of threads of a rank.
const THREADS: &str = "TORSH_NUM_THREADS";

impl Attempt<'_> {
    /// How many cores each rank has, on a machine of so many.
    fn cores_each(&self, cores: usize) -> usize {
        cores / self.ranks.most_on_one().max(1)
    }

    /// Whether the launcher is to label lines: nobody else does.
    pub(super) fn launcher_labels(&self) -> bool {
        self.options.label && self.options.torshrun.is_none()
    }

    /// The launcher's arguments, on machines of so many cores.
    pub(super) fn arguments(&self, cores: usize) -> Vec<OsString> {
        let mut out: Vec<OsString> = Vec::new();
        let mut add = |words: &[&str]| out.extend(words.iter().map(OsString::from));
        add(&["-n", &self.ranks.total().to_string()]);
        let hosts: Vec<String> = self
            .ranks
            .filled()
            .iter()
            .map(|(h, n)| format!("{h}:{n}"))
            .collect();
        let hosts = hosts.join(",");
        let each = self.cores_each(cores);
        let pin = self.options.pin && each > 0;
        let shell = remote_shell();
        match self.launcher.family {
            Family::Hydra => {
                if !hosts.is_empty() {
                    add(&["-hosts", &hosts]);
                }
                if let Some(shell) = &shell {
                    add(&["-launcher-exec", shell]);
                }
                if self.launcher_labels() {
                    add(&["-prepend-rank"]);
                }
                if pin {
                    let unit = format!("hwthread:{each}");
                    add(&["-bind-to", &unit, "-map-by", &unit]);
                }
            }
            Family::OpenMpi => {
                if !hosts.is_empty() {
                    add(&["--host", &hosts]);
                }
                if let Some(shell) = &shell {
                    add(&["--mca", "plm_rsh_agent", shell]);
                }
                if self.launcher_labels() {
                    add(&["--tag-output"]);
                }
                if pin {
                    add(&["--use-hwthread-cpus", "--map-by"]);
                    add(&[&format!("slot:PE={each}"), "--bind-to", "hwthread"]);
                } else {
                    // More ranks than cores.
                    add(&["--map-by", ":OVERSUBSCRIBE", "--bind-to", "none"]);
                }
                // MPICH's launcher passes all variables on, this one those that are named.
                for name in passed_on(self.options.timeout.is_some()) {
                    add(&["-x", &name]);
                }
            }
        }
        if let Some(torshrun) = &self.options.torshrun {
            let how = if self.options.label { "label" } else { "plain" };
            out.push(torshrun.into());
            out.extend([KEEP, how].map(OsString::from));
        }
        out.push(self.options.program.clone());
        out.extend(self.options.arguments.iter().cloned());
        out
    }

    /// What the ranks find in their environment, on machines of so many cores.
    pub(super) fn environment(&self, job: &str, cores: usize) -> Vec<(&'static str, String)> {
        let mut out = vec![
            (RESTART_COUNT, self.restarts.to_string()),
            (JOB, job.to_string()),
        ];
        if std::env::var_os(THREADS).is_none() {
            out.push((THREADS, self.cores_each(cores).max(1).to_string()));
        }
        if let Some(timeout) = self.options.timeout {
            out.push((TIMEOUT, timeout.as_secs_f64().to_string()));
        }
        if self.launcher.family == Family::OpenMpi && is_root() {
            out.push(("OMPI_ALLOW_RUN_AS_ROOT", "1".to_string()));
            out.push(("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1".to_string()));
        }
        out
    }

    /// The command to start.
    pub(super) fn command(&self, job: &str) -> Command {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let mut command = Command::new(&self.launcher.path);
        command.args(self.arguments(cores));
        command.envs(self.environment(job, cores));
        command
    }
}

/// The variables that programs of ToRSh and of Rust read, and those by which programs are found.
fn passed_on(timeout: bool) -> Vec<String> {
    let mut out: Vec<String> = [RESTART_COUNT, JOB, THREADS].map(String::from).to_vec();
    let named = [
        "PATH",
        "LD_LIBRARY_PATH",
        "DYLD_LIBRARY_PATH",
        "VIRTUAL_ENV",
        "RUST_BACKTRACE",
        "RUST_LOG",
    ];
    for (name, _) in std::env::vars_os() {
        let Ok(name) = name.into_string() else {
            continue;
        };
        let ours = name.starts_with("TORSH_") || named.contains(&name.as_str());
        if ours && !out.contains(&name) {
            out.push(name);
        }
    }
    if timeout {
        out.push(TIMEOUT.to_string());
    }
    out.sort_unstable();
    out.dedup();
    out
}

#[cfg(target_os = "linux")]
fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    // The owner of a process's folder is its user.
    std::fs::metadata("/proc/self").is_ok_and(|about| about.uid() == 0)
}

#[cfg(not(target_os = "linux"))]
fn is_root() -> bool {
    let asked = || Command::new("id").arg("-u").output();
    cfg!(unix) && asked().is_ok_and(|said| said.stdout.trim_ascii() == b"0")
}
