//! Ranks that fail, as real processes: each job must end within its deadline and 5 seconds, say what happened, and leave
//! no process.
//!
//! They run on an MPI with the standard binary interface where one is found, and with the feature `mpi` on Open MPI.
//! `torsh-distributed-fault --kills 100` kills a rank at more random moments than the test here.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use torsh_distributed::launch::{Family, Launcher, find_mpiexec};
use torsh_distributed_suite::job::{self, DEADLINE, GRACE, Job, START, whole};
use torsh_tensor::Result;

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

/// Two ranks of the program in a mode, at the moment at which a line begins so.
fn job(launcher: &Launcher, words: &[&str], moment: &str) -> Result<Job> {
    let words: Vec<&str> = [&[PROGRAM], words].concat();
    let mut job = Job::start(launcher, &[(2, &words)])?;
    job.wait_for(moment, 2)?;
    Ok(job)
}

/// Runs a test with each launcher.
fn with_each(test: impl Fn(&Launcher) -> Result<()>) -> Result<()> {
    let launchers = launchers();
    let _alone = (!launchers.is_empty()).then(alone);
    for launcher in launchers {
        println!("with {}", launcher.path.display());
        test(&launcher)?;
    }
    Ok(())
}

#[test]
fn a_job_without_faults_ends_well() -> Result<()> {
    with_each(|l| {
        let ended = job(l, &["train"], "moment 1")?.end(DEADLINE + GRACE)?;
        assert_eq!(ended.code, Some(0), "{}", ended.text);
        Ok(())
    })
}

#[test]
fn a_rank_that_is_killed_in_forward_or_in_a_collective_ends_the_job() -> Result<()> {
    with_each(|l| {
        for mode in ["forward", "collective"] {
            let job = job(l, &[mode], "moment 1")?;
            job.signal(1, "KILL");
            job.end(DEADLINE + GRACE)?.failed_with(&[])?;
        }
        Ok(())
    })
}

#[test]
fn a_rank_that_is_stopped_is_named_at_the_deadline() -> Result<()> {
    with_each(|l| {
        let job = job(l, &["loop"], "moment 1")?;
        job.signal(1, "STOP");
        let ended = job.end(DEADLINE + GRACE)?;
        ended.failed_with(&["all_reduce", "rank 1 does not answer"])?;
        assert!(ended.took > DEADLINE.mul_f64(0.8), "{:?}", ended.took);
        Ok(())
    })
}

#[test]
fn a_rank_that_sleeps_in_forward_is_named_at_the_deadline() -> Result<()> {
    with_each(|l| {
        let job = job(l, &["forward"], "moment 1")?;
        // Its communication thread says where it was last.
        let ended = job.end(DEADLINE + GRACE)?;
        ended.failed_with(&["rank 1 did not come"])
    })
}

#[test]
fn a_rank_that_panics_or_fails_ends_the_job() -> Result<()> {
    with_each(|l| {
        for (mode, why) in [
            ("panic", "the victim panics in forward"),
            ("error", "the victim's data is broken"),
        ] {
            let job = job(l, &[mode], "moment 1")?;
            job.end(DEADLINE + GRACE)?.failed_with(&[why])?;
        }
        Ok(())
    })
}

#[test]
fn a_rank_that_leaves_early_is_named() -> Result<()> {
    with_each(|l| {
        let job = job(l, &["leave"], "moment 1")?;
        job.end(DEADLINE + GRACE)?.failed_with(&[])
    })
}

#[test]
fn a_skipped_collective_is_named() -> Result<()> {
    with_each(|l| {
        // At the deadline: the last one of the others finds no partner.
        let job = job(l, &["skip"], "moment 1")?;
        let ended = job.end(2 * DEADLINE + GRACE)?;
        ended.failed_with(&["all_reduce", "rank 1"])
    })
}

#[test]
fn a_rank_of_another_program_is_an_error() -> Result<()> {
    with_each(|l| {
        let others: [&[&str]; 2] = [
            // One that is no program of MPI.
            &["sleep", "60"],
            // One that does something else.
            &[PROGRAM, "train"],
        ];
        for other in others {
            let job = Job::start(l, &[(1, &[PROGRAM, "loop"]), (1, other)])?;
            job.end(DEADLINE + GRACE + START / 4)?.failed_with(&[])?;
        }
        Ok(())
    })
}

#[test]
fn a_rank_that_is_killed_at_a_random_moment_leaves_a_whole_checkpoint() -> Result<()> {
    // Other moments in each run, which the seed brings again: `torsh-distributed-fault --kills 3 --seed N`.
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let seed = u64::from(now.unwrap_or_default().subsec_nanos());
    with_each(|l| {
        println!("seed {seed}");
        job::kills(l, PROGRAM, 2, 3, seed, |line| println!("{line}"))
    })
}

#[test]
fn a_full_disk_on_one_rank_is_an_error_on_all_and_leaves_the_checkpoint_before() -> Result<()> {
    if Command::new("prlimit").arg("--version").output().is_err() {
        skipped("needs the command prlimit");
        return Ok(());
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
        let mut job = Job::start(l, &[(2, &words)])?;
        job.wait_for("saved 2", 2)?;
        job.end(DEADLINE + GRACE)?
            .failed_with(&["File too large"])?;
        assert_eq!(whole(&path, 2)?, 2);
        std::fs::remove_dir_all(&dir).unwrap();
        Ok(())
    })
}
