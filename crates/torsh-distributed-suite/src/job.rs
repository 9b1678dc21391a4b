//! Jobs of real processes that fail on purpose: what `tests/faults.rs` and `torsh-distributed-fault --kills` start and watch.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use torsh_distributed::checkpoint;
use torsh_distributed::launch::{Family, Launcher};
use torsh_tensor::Result;

/// The deadline of the programs' operations.
pub const DEADLINE: Duration = Duration::from_secs(3);
/// What a job may take beyond it.
pub const GRACE: Duration = Duration::from_secs(5);
/// How long a job may take to its moment, on a busy machine.
pub const START: Duration = Duration::from_secs(60);

/// The variable by which the processes of a job are found.
const MARK: &str = "TORSH_FAULT_JOB";

reports!("job");

/// A program under a launcher.
#[derive(Debug)]
pub struct Job {
    child: Child,
    mark: String,
    lines: Receiver<String>,
    seen: Vec<String>,
    pids: BTreeMap<usize, u32>,
}

/// How a job ended.
#[derive(Debug)]
pub struct Ended {
    /// The launcher's exit code.
    pub code: Option<i32>,
    /// What it printed.
    pub text: String,
    /// How long it took to end.
    pub took: Duration,
}

fn copy(from: impl Read + Send + 'static, to: Sender<String>) {
    std::thread::spawn(move || {
        for line in BufReader::new(from)
            .split(b'\n')
            .map_while(std::result::Result::ok)
        {
            if to
                .send(String::from_utf8_lossy(&line).into_owned())
                .is_err()
            {
                return;
            }
        }
    });
}

impl Job {
    /// `apps`: how many ranks of which command, in their order.
    pub fn start(launcher: &Launcher, apps: &[(usize, &[&str])]) -> Result<Job> {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let mark = format!("{}-{}", std::process::id(), now.as_nanos());
        let mut command = Command::new(&launcher.path);
        command.envs([
            (MARK, mark.as_str()),
            ("TORSH_FAULT_TIMEOUT", &DEADLINE.as_secs().to_string()),
            ("TORSH_NUM_THREADS", "1"),
            ("RUST_BACKTRACE", "0"),
        ]);
        if launcher.family == Family::Hydra {
            // A program that is linked to another MPI would take that.
            command.env("TORSH_DISTRIBUTED_ENGINE", "mpi-abi");
        } else {
            command.envs([
                ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
                ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
            ]);
            command.args(["--oversubscribe", "--bind-to", "none"]);
        }
        for (i, (n, words)) in apps.iter().enumerate() {
            if i > 0 {
                command.arg(":");
            }
            command.args(["-n", &n.to_string()]).args(*words);
        }
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let (to, lines) = channel();
        if let Some(out) = child.stdout.take() {
            copy(out, to.clone());
        }
        if let Some(err) = child.stderr.take() {
            copy(err, to);
        }
        Ok(Job {
            child,
            mark: format!("{MARK}={mark}"),
            lines,
            seen: Vec::new(),
            pids: BTreeMap::new(),
        })
    }

    /// Waits for a line that begins so, and for the processes of as many ranks to be known.
    ///
    /// # Errors
    /// The job ended before, or took too long.
    pub fn wait_for(&mut self, start: &str, ranks: usize) -> Result<()> {
        let until = Instant::now() + START;
        let mut there = false;
        while !there || self.pids.len() < ranks {
            let left = until.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => {
                    let mut words = line.split(' ');
                    if words.next() == Some("ready") {
                        let numbers: Vec<u32> = words.filter_map(|w| w.parse().ok()).collect();
                        if let [rank, pid] = numbers[..] {
                            self.pids.insert(rank as usize, pid);
                        }
                    }
                    there |= line.starts_with(start);
                    self.seen.push(line);
                }
                Err(e) => {
                    let text = self.seen.join("\n");
                    return Err(wrong(format!("no line `{start}` ({e}):\n{text}")));
                }
            }
        }
        Ok(())
    }

    /// Sends a signal to a rank.
    pub fn signal(&self, rank: usize, signal: &str) {
        if let Some(&pid) = self.pids.get(&rank) {
            kill(&[pid], signal);
        }
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// It does not come in time, or leaves processes.
    pub fn end(mut self, limit: Duration) -> Result<Ended> {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if start.elapsed() > limit {
                // A job that fails must not stay.
                kill(&self.left(), "KILL");
                self.rest();
                return Err(wrong(format!(
                    "the job did not end within {limit:?}:\n{}",
                    self.seen.join("\n")
                )));
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        let took = start.elapsed();
        // The launcher's helpers end with it, not before.
        let mut left = self.left();
        while !left.is_empty() && start.elapsed() < limit.max(took + Duration::from_secs(1)) {
            std::thread::sleep(Duration::from_millis(20));
            left = self.left();
        }
        kill(&left, "KILL");
        self.rest();
        let text = self.seen.join("\n");
        check(left.is_empty(), || {
            format!("the job left processes {left:?}:\n{text}")
        })?;
        Ok(Ended {
            code: status.code(),
            text,
            took,
        })
    }

    /// The lines that are left.
    fn rest(&mut self) {
        let until = Instant::now() + Duration::from_secs(2);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => self.seen.push(line),
                Err(_) => return,
            }
        }
    }

    /// The living processes of the job.
    fn left(&self) -> Vec<u32> {
        let mut out = Vec::new();
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let name = entry.file_name();
            let pid = name.to_str().and_then(|n| n.parse::<u32>().ok());
            let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
            let ours = environment
                .split(|&b| b == 0)
                .any(|v| v == self.mark.as_bytes());
            out.extend(pid.filter(|_| ours));
        }
        out
    }
}

fn kill(pids: &[u32], signal: &str) {
    if !pids.is_empty() {
        let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
        let line = format!("kill -s {signal} {} 2>/dev/null", pids.join(" "));
        // A process that has ended by itself needs no signal.
        let _ = Command::new("/bin/sh").args(["-c", &line]).status();
    }
}

impl Ended {
    /// An error unless the job failed, and its output has these words.
    pub fn failed_with(&self, parts: &[&str]) -> Result<()> {
        let text = &self.text;
        check(self.code != Some(0), || {
            format!("the job did not fail:\n{text}")
        })?;
        let lacking = parts.iter().find(|p| !text.contains(**p));
        check(lacking.is_none(), || format!("no {lacking:?} in\n{text}"))
    }
}

/// Loads a checkpoint that `torsh-distributed-fault` wrote in one process, and gives its step.
///
/// # Errors
/// It does not load, or is of several steps.
pub fn whole(dir: &Path, ranks: usize) -> Result<u64> {
    let parts = checkpoint::read_part(dir, "parts")?;
    let tensors = parts.named_tensors()?;
    check(tensors.len() == 4, || {
        format!("{} tensors and not 4", tensors.len())
    })?;
    let mut step = None;
    for (name, t) in tensors {
        let values = t.to_vec::<f32>()?;
        check(values.len() == ranks * 64 * 1024, || {
            format!("{name} has {} elements", values.len())
        })?;
        let first = *step.get_or_insert(values[0]);
        check(values.iter().all(|&v| v == first), || {
            format!("{name} is of several steps")
        })?;
    }
    Ok(step.unwrap_or_default() as u64)
}

/// Kills a rank of `program`, which trains and saves, at so many random moments; after each, its last whole checkpoint must
/// load and be later than the one before. The same seed makes the same moments. `say` gets a line for each.
///
/// # Errors
/// A checkpoint that does not load; a job that does not end in time or leaves processes.
pub fn kills(
    launcher: &Launcher,
    program: &str,
    ranks: usize,
    count: usize,
    seed: u64,
    mut say: impl FnMut(String),
) -> Result<()> {
    let dir = std::env::temp_dir().join(format!("torsh-kills-{}", std::process::id()));
    // One of a run before.
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir)?;
    let path = dir.join("checkpoint");
    let text = path.display().to_string();
    let mut random = seed | 1;
    let mut last = 0;
    for i in 0..count {
        let mut job = Job::start(launcher, &[(ranks, &[program, "run", &text])])?;
        job.wait_for("saved", ranks)?;
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let (rank, wait) = ((random >> 40) as usize % ranks, (random >> 33) % 100);
        std::thread::sleep(Duration::from_millis(wait));
        job.signal(rank, "KILL");
        job.end(DEADLINE + GRACE)?.failed_with(&[])?;
        let step = whole(&path, ranks)?;
        check(step > last, || {
            format!("kill {i}: the checkpoint is of step {step}, and there was one of {last}")
        })?;
        say(format!(
            "kill {i}: rank {rank}, {wait} ms after it had saved; the checkpoint of step {step} loads"
        ));
        last = step;
    }
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}
