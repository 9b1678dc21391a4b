//! Ranks that fail, as real processes: each job must end within its deadline and 5 seconds, say what happened, and leave
//! no process.
//!
//! They run on an MPI with the standard binary interface where one is found, and with the feature `mpi` on Open MPI.
//! `TORSH_FAULTS=all` kills a rank at 100 random moments of saving instead of 3; any other number is that many.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use torsh_distributed::checkpoint;
use torsh_distributed::launch::{Family, Launcher, find_mpiexec};

/// The deadline of the programs' operations.
const DEADLINE: Duration = Duration::from_secs(3);
/// What a job may take beyond it.
const GRACE: Duration = Duration::from_secs(5);
/// How long a job may take to its moment, on a busy machine.
const START: Duration = Duration::from_secs(60);

const PROGRAM: &str = env!("CARGO_BIN_EXE_torsh-distributed-fault");

/// The launchers to test with.
fn launchers() -> Vec<Launcher> {
    let mut found = Vec::new();
    let standard = |l: &Launcher| {
        let real = l.path.canonicalize().unwrap_or(l.path.clone());
        let library = |p: &Path| {
            p.parent()?
                .parent()
                .map(|r| r.join("lib/libmpi_abi.so.1").exists())
        };
        std::env::var_os("TORSH_MPI").is_some()
            || library(&l.path) == Some(true)
            || library(&real) == Some(true)
    };
    match find_mpiexec(None, "") {
        Ok(l) if l.family == Family::Hydra && standard(&l) => found.push(l),
        Ok(l) => skipped(&format!(
            "{} belongs to no MPI with the standard binary interface (pip install mpich)",
            l.path.display()
        )),
        Err(e) => skipped(&e.to_string()),
    }
    if cfg!(feature = "mpi") {
        match find_mpiexec(None, PROGRAM) {
            Ok(l) if l.family == Family::OpenMpi => found.push(l),
            Ok(_) => {}
            Err(e) => skipped(&e.to_string()),
        }
    }
    found
}

/// Reports what cannot be tested here, as `torsh_backend_cpu::testing::skipped`.
fn skipped(why: &str) {
    println!("skipped: {why}");
    let Some(file) = std::env::var_os("TORSH_SKIPPED") else {
        return;
    };
    let thread = std::thread::current();
    let line = format!("{}: skipped: {why}\n", thread.name().unwrap_or("a test"));
    let file = File::options().append(true).create(true).open(file);
    if let Err(e) = file.and_then(|mut file| file.write_all(line.as_bytes())) {
        println!("TORSH_SKIPPED: {e}");
    }
}

/// One job at a time, also among test processes: several would take each other's cores.
fn alone() -> File {
    let path = std::env::temp_dir().join("torsh-faults.lock");
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .unwrap();
    file.lock().unwrap();
    file
}

/// A folder for a test.
fn folder(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("torsh-faults-{name}-{}", std::process::id()));
    // One of a run before.
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// A program under a launcher.
struct Job {
    child: Child,
    mark: String,
    lines: Receiver<String>,
    seen: Vec<String>,
    pids: BTreeMap<usize, u32>,
}

struct Ended {
    code: Option<i32>,
    text: String,
    took: Duration,
}

fn copy(from: impl Read + Send + 'static, to: Sender<String>) {
    std::thread::spawn(move || {
        for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
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
    fn start(launcher: &Launcher, apps: &[(usize, &[&str])], variables: &[(&str, &str)]) -> Job {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let mark = format!("TORSH_FAULT_JOB={}-{}", std::process::id(), now.as_nanos());
        let mut command = Command::new(&launcher.path);
        let own = [
            ("TORSH_FAULT_JOB", &mark["TORSH_FAULT_JOB=".len()..]),
            ("TORSH_FAULT_TIMEOUT", "3"),
            ("TORSH_NUM_THREADS", "1"),
            ("RUST_BACKTRACE", "0"),
        ];
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
        command.envs(own).envs(variables.iter().copied());
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
        let mut child = command.spawn().unwrap();
        let (to, lines) = channel();
        copy(child.stdout.take().unwrap(), to.clone());
        copy(child.stderr.take().unwrap(), to);
        Job {
            child,
            mark,
            lines,
            seen: Vec::new(),
            pids: BTreeMap::new(),
        }
    }

    /// Two ranks of the program in a mode.
    fn of(launcher: &Launcher, words: &[&str], variables: &[(&str, &str)]) -> Job {
        let words: Vec<&str> = [&[PROGRAM], words].concat();
        Job::start(launcher, &[(2, &words)], variables)
    }

    /// Waits for a line that begins so, and for the processes of all ranks to be known.
    fn wait_for(&mut self, start: &str, ranks: usize) {
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
                Err(e) => panic!("no line `{start}` ({e}):\n{}", self.seen.join("\n")),
            }
        }
    }

    fn signal(&self, rank: usize, signal: &str) {
        kill(&[self.pids[&rank]], signal);
    }

    /// Waits for the end, which must come in time and leave no process.
    fn end(mut self, limit: Duration) -> Ended {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if start.elapsed() > limit {
                // A test that fails must not leave its job.
                kill(&self.left(), "KILL");
                self.rest();
                panic!(
                    "the job did not end within {limit:?}:\n{}",
                    self.seen.join("\n")
                );
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
        assert!(left.is_empty(), "the job left processes {left:?}:\n{text}");
        Ended {
            code: status.code(),
            text,
            took,
        }
    }

    /// The lines that are left.
    fn rest(&mut self) {
        let until = Instant::now() + Duration::from_secs(2);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => self.seen.push(line),
                Err(RecvTimeoutError::Disconnected | RecvTimeoutError::Timeout) => return,
            }
        }
    }

    /// The living processes of the job.
    fn left(&self) -> Vec<u32> {
        let mut out = Vec::new();
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let pid = entry
                .file_name()
                .to_str()
                .and_then(|n| n.parse::<u32>().ok());
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
        let _ = Command::new("/bin/sh").args(["-c", &line]).status();
    }
}

impl Ended {
    /// It failed, and its output says so.
    fn failed_with(&self, parts: &[&str]) {
        assert_ne!(self.code, Some(0), "the job did not fail:\n{}", self.text);
        for part in parts {
            assert!(self.text.contains(part), "no `{part}` in\n{}", self.text);
        }
    }
}

/// Runs a test with each launcher.
fn with_each(test: impl Fn(&Launcher)) {
    let launchers = launchers();
    let _alone = (!launchers.is_empty()).then(alone);
    for launcher in launchers {
        println!("with {}", launcher.path.display());
        test(&launcher);
    }
}

#[test]
fn a_job_without_faults_ends_well() {
    with_each(|l| {
        let mut job = Job::of(l, &["train"], &[]);
        job.wait_for("moment 1", 2);
        let ended = job.end(DEADLINE + GRACE);
        assert_eq!(ended.code, Some(0), "{}", ended.text);
    });
}

#[test]
fn a_rank_that_is_killed_in_forward_ends_the_job() {
    with_each(|l| {
        let mut job = Job::of(l, &["forward"], &[]);
        job.wait_for("moment 1", 2);
        job.signal(1, "KILL");
        job.end(DEADLINE + GRACE).failed_with(&[]);
    });
}

#[test]
fn a_rank_that_is_killed_in_a_collective_ends_the_job() {
    with_each(|l| {
        let mut job = Job::of(l, &["collective"], &[]);
        job.wait_for("moment 1", 2);
        job.signal(1, "KILL");
        job.end(DEADLINE + GRACE).failed_with(&[]);
    });
}

#[test]
fn a_rank_that_is_stopped_is_named_at_the_deadline() {
    with_each(|l| {
        let mut job = Job::of(l, &["loop"], &[]);
        job.wait_for("moment 1", 2);
        job.signal(1, "STOP");
        let ended = job.end(DEADLINE + GRACE);
        ended.failed_with(&["all_reduce", "rank 1 does not answer"]);
        assert!(ended.took > DEADLINE.mul_f64(0.8), "{:?}", ended.took);
    });
}

#[test]
fn a_rank_that_sleeps_in_forward_is_named_at_the_deadline() {
    with_each(|l| {
        let mut job = Job::of(l, &["forward"], &[]);
        job.wait_for("moment 1", 2);
        // Its communication thread says where it was last.
        job.end(DEADLINE + GRACE)
            .failed_with(&["rank 1 did not come"]);
    });
}

#[test]
fn a_rank_that_panics_or_fails_ends_the_job() {
    with_each(|l| {
        for (mode, why) in [
            ("panic", "the victim panics in forward"),
            ("error", "the victim's data is broken"),
        ] {
            let mut job = Job::of(l, &[mode], &[]);
            job.wait_for("moment 1", 2);
            job.end(DEADLINE + GRACE).failed_with(&[why]);
        }
    });
}

#[test]
fn a_rank_that_leaves_early_is_named() {
    with_each(|l| {
        let mut job = Job::of(l, &["leave"], &[]);
        job.wait_for("moment 1", 2);
        job.end(DEADLINE + GRACE).failed_with(&[]);
    });
}

#[test]
fn a_skipped_collective_is_named() {
    with_each(|l| {
        // At the deadline: the last one of the others finds no partner.
        let mut job = Job::of(l, &["skip"], &[]);
        job.wait_for("moment 1", 2);
        job.end(2 * DEADLINE + GRACE)
            .failed_with(&["all_reduce", "rank 1"]);
    });
}

#[test]
fn a_rank_of_another_program_is_an_error() {
    with_each(|l| {
        // One that is no program of MPI.
        let job = Job::start(l, &[(1, &[PROGRAM, "loop"]), (1, &["sleep", "60"])], &[]);
        job.end(DEADLINE + GRACE + START / 4).failed_with(&[]);
        // One that does something else.
        let job = Job::start(l, &[(1, &[PROGRAM, "loop"]), (1, &[PROGRAM, "train"])], &[]);
        job.end(DEADLINE + GRACE + START / 4).failed_with(&[]);
    });
}

/// Loads the checkpoint in one process, and gives its step.
fn whole(dir: &Path) -> u64 {
    let parts = checkpoint::read_part(dir, "parts").unwrap();
    let tensors = parts.named_tensors().unwrap();
    assert_eq!(tensors.len(), 4);
    let first = tensors[0].1.to_vec::<f32>().unwrap()[0];
    for (name, t) in tensors {
        let values = t.to_vec::<f32>().unwrap();
        assert_eq!(values.len(), 2 * 64 * 1024, "{name}");
        assert!(
            values.iter().all(|&v| v == first),
            "{name} is of several steps"
        );
    }
    first as u64
}

#[test]
fn a_rank_that_is_killed_while_it_saves_leaves_a_whole_checkpoint() {
    let kills = match std::env::var("TORSH_FAULTS").as_deref() {
        Ok("all") => 100,
        Ok(n) => n.parse().expect("TORSH_FAULTS is `all` or a number"),
        Err(_) => 3,
    };
    with_each(|l| {
        let dir = folder("save");
        let path = dir.join("checkpoint");
        let words = ["save", path.to_str().unwrap()];
        // Moments that differ from run to run, and are printed.
        let mut random = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .subsec_nanos() as u64
            | 1;
        let mut last = 0;
        for i in 0..kills {
            let mut job = Job::of(l, &words, &[]);
            job.wait_for("saved", 2);
            random = random
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let (rank, wait) = ((random >> 40) as usize % 2, (random >> 33) % 100);
            println!("kill {i}: rank {rank} after {wait} ms");
            std::thread::sleep(Duration::from_millis(wait));
            job.signal(rank, "KILL");
            job.end(DEADLINE + GRACE).failed_with(&[]);
            let step = whole(&path);
            assert!(step > last, "{step} after {last}");
            last = step;
        }
        std::fs::remove_dir_all(&dir).unwrap();
    });
}

#[test]
fn a_full_disk_on_one_rank_is_an_error_on_all_and_leaves_the_checkpoint_before() {
    if Command::new("prlimit").arg("--version").output().is_err() {
        return skipped("needs the command prlimit");
    }
    with_each(|l| {
        let dir = folder("full");
        let path = dir.join("checkpoint");
        // A limit of the size of files stands for the disk; its signal is ignored, so that writing is an error.
        let words = [
            "sh",
            "-c",
            r#"trap '' XFSZ; exec "$0" "$@""#,
            PROGRAM,
            "full",
            path.to_str().unwrap(),
        ];
        let mut job = Job::start(l, &[(2, &words)], &[]);
        job.wait_for("saved 2", 2);
        job.end(DEADLINE + GRACE).failed_with(&["File too large"]);
        assert_eq!(whole(&path), 2);
        std::fs::remove_dir_all(&dir).unwrap();
    });
}
