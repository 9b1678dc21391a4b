//! One run of a launcher, from its start to the end of its last process.

use std::io::{BufRead, BufReader, Read, Write};
#[cfg(unix)]
use std::process::Command;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use torsh_tensor::{Result, TorshError};
use torsh_train::CaughtSignals;

use super::Family;
#[cfg(unix)]
use super::JOB;
use super::command::Attempt;

/// What the line begins with that tells how a rank ended.
pub(super) const ENDED: &str = "torshrun: rank ";

/// How often the launcher is looked after.
const POLL: Duration = Duration::from_millis(20);
/// How long a launcher may take to end the other ranks after one failed.
const CLEANING: Duration = Duration::from_secs(10);

/// How a run ended.
#[derive(Clone, Debug, Default)]
pub(super) struct End {
    pub(super) code: i32,
    /// Whether a signal of the user ended it.
    pub(super) interrupted: bool,
    noted: Noted,
    took: Duration,
}

/// What was said of the first rank that failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Noted {
    pub(super) rank: Option<usize>,
    pub(super) code: Option<i32>,
    pub(super) signal: Option<i32>,
}

impl End {
    /// What is told of a failure.
    pub(super) fn describe(&self) -> String {
        let who = match self.noted.rank {
            Some(rank) => format!("rank {rank}"),
            None => "a rank".to_string(),
        };
        let how = match self.code {
            // Windows has no signals.
            code if code > 128 && cfg!(unix) => {
                format!("was ended by signal {} (exit code {code})", code - 128)
            }
            code => format!("failed with exit code {code}"),
        };
        format!("{who} {how} after {:.1} s", self.took.as_secs_f64())
    }
}

impl Noted {
    /// Looks for what is said of a rank that failed; whether the line is for that alone.
    pub(super) fn read(&mut self, line: &str) -> bool {
        // Ours: "torshrun: rank 1 ended with code 137".
        if let Some(rest) = line.strip_prefix(ENDED) {
            let code = number_after(rest, "ended with code ");
            if self.code.is_none() {
                (self.rank, self.code) = (number_after(line, ENDED), code);
            }
            return code.is_some();
        }
        // MPICH: "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)".
        if line.contains("TERMINATED WITH THE EXIT STRING") {
            self.signal = self.signal.or(number_after(line, "(signal "));
        }
        // Open MPI: "mpirun noticed that process rank 1 with PID 0 on node host exited on signal 9 (Killed)."
        if line.contains("noticed that process rank ") {
            self.rank = self.rank.or(number_after(line, "process rank "));
            self.signal = self.signal.or(number_after(line, "on signal "));
        }
        false
    }
}

fn number_after<T: std::str::FromStr>(line: &str, words: &str) -> Option<T> {
    let rest = &line[line.find(words)? + words.len()..];
    let end = rest.find(|c: char| !c.is_ascii_digit());
    rest[..end.unwrap_or(rest.len())].parse().ok()
}

/// A line as it is shown: Open MPI's `[1,3]<stdout>:` becomes `[3] `, as MPICH has it.
pub(super) fn relabel(line: &[u8]) -> Vec<u8> {
    let label = || {
        let rest = line.strip_prefix(b"[")?;
        let close = rest.iter().position(|&b| b == b']')?;
        let (job, rank) = std::str::from_utf8(&rest[..close]).ok()?.split_once(',')?;
        let digits = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
        let rest = &rest[close + 1..];
        let text = [&b"<stdout>:"[..], b"<stderr>:"]
            .iter()
            .find_map(|end| rest.strip_prefix(*end))?;
        (digits(job) && digits(rank)).then(|| [b"[", rank.as_bytes(), b"] ", text].concat())
    };
    label().unwrap_or_else(|| line.to_vec())
}

/// Copies lines, and reads what launchers say; the end is told by the channel's.
fn copy(
    from: impl Read + Send + 'static,
    mut to: impl Write + Send + 'static,
    noted: Arc<Mutex<Noted>>,
    relabelled: bool,
) -> Receiver<()> {
    let (done, ended) = channel();
    let copying = move || {
        let _done = done;
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        while from.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
            if noted.lock().read(&String::from_utf8_lossy(&line)) {
                line.clear();
                continue;
            }
            let shown = match relabelled {
                true => relabel(&line),
                false => std::mem::take(&mut line),
            };
            // Who reads no more does not stop the ranks.
            let _ = to.write_all(&shown).and_then(|()| to.flush());
            line.clear();
        }
    };
    let _ = thread::Builder::new()
        .name("torshrun-output".into())
        .spawn(copying);
    ended
}

/// Starts the launcher and waits until all its processes are gone.
pub(super) fn run(attempt: &Attempt<'_>, signals: &CaughtSignals) -> Result<End> {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let job = format!("{}-{}", std::process::id(), now.as_nanos());
    let start = Instant::now();
    let mut command = attempt.command(&job);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    #[cfg(unix)]
    {
        // A group of its own: the terminal's Ctrl-C comes here alone, and is passed on once.
        use std::os::unix::process::CommandExt;
        command.process_group(0);
    }
    let path = &attempt.launcher.path;
    let unstarted = |e| {
        let why = format!("{} cannot be started: {e}", path.display());
        TorshError::unavailable("torshrun", why)
    };
    let mut child = command.spawn().map_err(unstarted)?;
    let job = Job::of(job, &child)?;
    let noted = Arc::new(Mutex::new(Noted::default()));
    let relabelled = attempt.launcher.family == Family::OpenMpi && attempt.launcher_labels();
    let mut ends = Vec::new();
    if let Some(out) = child.stdout.take() {
        ends.push(copy(out, std::io::stdout(), noted.clone(), relabelled));
    }
    if let Some(err) = child.stderr.take() {
        ends.push(copy(err, std::io::stderr(), noted.clone(), relabelled));
    }
    let mut interrupts = 0;
    let mut last_signal = 0;
    let mut failed_at = None;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if let Some(signal) = signals.take() {
            interrupts += 1;
            last_signal = signal;
            if interrupts == 1 {
                eprintln!("torshrun: the ranks are told to stop; once more ends them");
                // Launchers pass an interrupt on to their ranks. A console of Windows has sent it to all of them.
                #[cfg(unix)]
                send("INT", &[child.id()]);
            } else {
                job.end_all(&mut child);
            }
        }
        let failed = *noted.lock() != Noted::default();
        let since = failed_at.get_or_insert_with(Instant::now);
        if !failed {
            failed_at = None;
        } else if since.elapsed() > CLEANING {
            eprintln!("torshrun: the launcher does not end the other ranks; they are killed");
            job.end_all(&mut child);
        }
        thread::sleep(POLL);
    };
    // Processes that outlive the launcher.
    job.end_left();
    for ended in ends {
        let _ = ended.recv_timeout(Duration::from_secs(2));
    }
    let noted = noted.lock().clone();
    let code = match (noted.code, noted.signal) {
        (Some(code), _) => code,
        (None, Some(signal)) => 128 + signal,
        (None, None) => code_of(status),
    };
    let interrupted = interrupts > 0;
    Ok(End {
        code: match code {
            0 => 0,
            _ if interrupted => 128 + last_signal,
            code => code,
        },
        interrupted,
        noted,
        took: start.elapsed(),
    })
}

/// The exit code: 128 and its signal where one ended the process.
pub(super) fn code_of(status: ExitStatus) -> i32 {
    #[cfg(unix)]
    {
        use std::os::unix::process::ExitStatusExt;
        if let Some(signal) = status.signal() {
            return 128 + signal;
        }
    }
    status.code().unwrap_or(1)
}

/// Sends a signal to processes. A shell does it, which needs no unsafe call here.
#[cfg(unix)]
fn send(signal: &str, pids: &[u32]) {
    if pids.is_empty() {
        return;
    }
    let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
    let line = format!("kill -s {signal} {} 2>/dev/null", pids.join(" "));
    // A process that has ended by itself needs no signal.
    let _ = Command::new("/bin/sh").args(["-c", &line]).status();
}

/// The processes of a launch on this machine.
struct Job {
    /// What their environment has in [`JOB`]: launchers put ranks into groups of their own, so they are known by it.
    #[cfg(unix)]
    name: String,
    /// Windows knows what a process starts.
    #[cfg(windows)]
    all: torsh_core::os::Job,
}

impl Job {
    fn of(name: String, launcher: &Child) -> Result<Job> {
        #[cfg(windows)]
        {
            let _ = name;
            let all = torsh_core::os::Job::new()?;
            // A launcher that has ended already left nothing.
            let _ = all.add(launcher);
            Ok(Job { all })
        }
        #[cfg(unix)]
        {
            let _ = launcher;
            Ok(Job { name })
        }
    }

    /// Kills the launcher and all processes that it started here.
    fn end_all(&self, child: &mut Child) {
        // It may have ended just now.
        let _ = child.kill();
        self.end_left();
    }

    /// Kills the processes that are left.
    fn end_left(&self) {
        #[cfg(windows)]
        {
            // It fails where nothing is left.
            let _ = self.all.end();
        }
        #[cfg(unix)]
        for _ in 0..50 {
            let left = processes(&self.name);
            if left.is_empty() {
                return;
            }
            send("KILL", &left);
            thread::sleep(POLL);
        }
    }
}

/// The living processes of a job on this machine.
#[cfg(target_os = "linux")]
fn processes(job: &str) -> Vec<u32> {
    let mark = format!("{JOB}={job}");
    let mut out = Vec::new();
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return out;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|n| n.parse::<u32>().ok()) else {
            continue;
        };
        // Those of other users cannot be read; the environment of a process that has ended is empty.
        let Ok(environment) = std::fs::read(entry.path().join("environ")) else {
            continue;
        };
        let mut variables = environment.split(|&b| b == 0);
        if pid != std::process::id() && variables.any(|v| v == mark.as_bytes()) {
            out.push(pid);
        }
    }
    out
}

/// The same of systems without `/proc`. Their `ps` shows the environment behind the command, of the user's own processes.
#[cfg(all(unix, not(target_os = "linux")))]
fn processes(job: &str) -> Vec<u32> {
    let said = Command::new("ps")
        .args(["-axEww", "-o", "pid=,command="])
        .output();
    let mark = format!("{JOB}={job}");
    let text = said.map(|said| String::from_utf8_lossy(&said.stdout).into_owned());
    let mut found = marked(&text.unwrap_or_default(), &mark);
    found.retain(|pid| *pid != std::process::id());
    found
}

/// The processes of a list of `ps` that have a word, as `NAME=value`, behind their numbers.
#[cfg(any(all(unix, not(target_os = "linux")), test))]
pub(super) fn marked(list: &str, word: &str) -> Vec<u32> {
    let of_line = |line: &str| {
        let mut words = line.split_whitespace();
        let pid = words.next()?.parse().ok()?;
        words.any(|w| w == word).then_some(pid)
    };
    list.lines().filter_map(of_line).collect()
}
