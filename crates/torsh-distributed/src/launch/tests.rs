//! Tests of launches, with a shell script in the place of a launcher where there is a shell.

#[cfg(unix)]
use std::path::Path;
use std::path::PathBuf;

use super::command::Attempt;
use super::find::{family_of, names_one};
use super::run::{Noted, marked, relabel};
use super::*;

/// A folder for a test.
fn folder(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("torsh-launch-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    path
}

#[cfg(unix)]
fn script(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// A launcher that runs the ranks one after another and ends at the first that fails.
#[cfg(unix)]
fn launcher(folder: &Path) -> PathBuf {
    let path = folder.join("mpiexec");
    script(
        &path,
        r#"#!/bin/sh
if [ "$1" = --version ]; then echo "HYDRA build details:"; exit 0; fi
n=$2; shift 2
while [ "${1#-}" != "$1" ]; do
  case "$1" in -prepend-rank) shift;; *) shift 2;; esac
done
i=0
while [ $i -lt $n ]; do
  PMI_RANK=$i PMI_SIZE=$n "$@" || exit $?
  i=$((i + 1))
done
"#,
    );
    path
}

#[test]
#[cfg(unix)] // A shell script launches, and a shell script is launched.
fn a_program_starts_again_until_it_ends_well() {
    let dir = folder("again");
    let program = dir.join("program");
    let log = dir.join("log");
    script(
        &program,
        &format!(
            "#!/bin/sh\necho $PMI_RANK/$PMI_SIZE $TORSH_RESTART_COUNT $1 $TORSH_DISTRIBUTED_TIMEOUT >> {}\n\
             [ $PMI_RANK = 1 ] && [ $TORSH_RESTART_COUNT -lt 2 ] && exit 7\nexit 0\n",
            log.display()
        ),
    );
    let mut options = LaunchOptions::new(2, &program).arguments(["x"]);
    options.mpiexec = Some(launcher(&dir));
    options.timeout = Some(Duration::from_secs(30));
    let none = launch(&options).unwrap();
    let ended = |code, restarts| Outcome {
        code,
        restarts,
        nproc: 2,
    };
    assert_eq!(none, ended(7, 0));
    options.max_restarts = 1;
    assert_eq!(launch(&options).unwrap(), ended(7, 1));
    std::fs::remove_file(&log).unwrap();
    options.max_restarts = 5;
    assert_eq!(launch(&options).unwrap(), ended(0, 2));
    let lines = std::fs::read_to_string(&log).unwrap();
    let lines: Vec<&str> = lines.lines().collect();
    assert_eq!(
        lines,
        [
            "0/2 0 x 30",
            "1/2 0 x 30",
            "0/2 1 x 30",
            "1/2 1 x 30",
            "0/2 2 x 30",
            "1/2 2 x 30"
        ]
    );
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
#[cfg(unix)] // As above. torsh-core tests the jobs of Windows.
fn processes_that_outlive_their_launcher_are_killed() {
    let dir = folder("left");
    let program = dir.join("program");
    let pid = dir.join("pid");
    // A process in the background, without the program's output.
    script(
        &program,
        &format!(
            "#!/bin/sh\nsleep 600 > /dev/null 2>&1 &\necho $! > {}\nexit 3\n",
            pid.display()
        ),
    );
    let mut options = LaunchOptions::new(1, &program);
    options.mpiexec = Some(launcher(&dir));
    assert_eq!(launch(&options).unwrap().code, 3);
    let pid = std::fs::read_to_string(&pid).unwrap();
    let status = match cfg!(target_os = "linux") {
        true => std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default(),
        false => {
            let ps = std::process::Command::new("ps")
                .args(["-o", "stat=", "-p", pid.trim()])
                .output();
            String::from_utf8(ps.unwrap().stdout).unwrap()
        }
    };
    // It is gone, or waits for whoever takes over orphans.
    let waits = status.contains(") Z ") || status.starts_with('Z');
    assert!(status.is_empty() || waits, "{status}");
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn the_command_is_that_of_the_launchers_kind() {
    let options = |pin, label| {
        let mut o = LaunchOptions::new(4, "prog").arguments(["--a", "b"]);
        (o.pin, o.label) = (pin, label);
        o
    };
    let line = |family, options: &LaunchOptions, hosts: &str, cores| {
        let launcher = Launcher {
            path: "mpiexec".into(),
            family,
        };
        let ranks = Assigned::new(&Host::list(hosts).unwrap(), options.nproc);
        let attempt = Attempt {
            launcher: &launcher,
            options,
            ranks: &ranks,
            restarts: 0,
        };
        let words = attempt.arguments(cores);
        let words: Vec<String> = words
            .into_iter()
            .map(|w| w.into_string().unwrap())
            .collect();
        words.join(" ")
    };
    assert_eq!(
        line(Family::Hydra, &options(true, true), "", 8),
        "-n 4 -prepend-rank -bind-to hwthread:2 -map-by hwthread:2 prog --a b"
    );
    assert_eq!(
        line(Family::Hydra, &options(true, false), "", 2),
        "-n 4 prog --a b"
    );
    assert_eq!(
        line(Family::Hydra, &options(false, false), "a,b:3", 8),
        "-n 4 -hosts a:1,b:3 prog --a b"
    );
    let open = line(Family::OpenMpi, &options(true, true), "a,b", 8);
    assert!(
        open.starts_with(
            "-n 4 --host a:2,b:2 --tag-output --use-hwthread-cpus --map-by slot:PE=4 --bind-to hwthread -x "
        ),
        "{open}"
    );
    assert!(
        open.contains("-x TORSH_RESTART_COUNT") && open.ends_with(" prog --a b"),
        "{open}"
    );
    let many = line(Family::OpenMpi, &options(true, true), "", 2);
    assert!(
        many.contains("--map-by :OVERSUBSCRIBE --bind-to none"),
        "{many}"
    );
}

#[test]
fn hosts_that_are_gone_are_left_out() {
    let hosts = Host::list("a:2,b:2,c:2").unwrap();
    let all = Assigned::new(&hosts, 5);
    assert_eq!(all.filled(), [("a", 2), ("b", 2), ("c", 1)]);
    let left = all.keep(2, |name| name != "b").unwrap();
    assert_eq!((left.total(), left.filled()), (4, vec![("a", 2), ("c", 2)]));
    // Too few for what was asked for.
    let why = all.keep(5, |name| name != "b").unwrap_err();
    assert_eq!(
        why,
        "b did not answer; the other hosts take 4 ranks, and nproc is 5"
    );
    assert!(
        all.keep(3, |name| name == "a")
            .unwrap_err()
            .contains("min-nproc is 3")
    );
    // A host with room to spare takes the ranks of another.
    let roomy = Assigned::new(&Host::list("a:4,b:4").unwrap(), 4);
    assert_eq!(roomy.filled(), [("a", 4)]);
    assert_eq!(
        roomy.keep(4, |name| name != "a").unwrap().filled(),
        [("b", 4)]
    );
    // This machine alone does not go away.
    let here = Assigned::new(&[], 3);
    assert_eq!(here.keep(3, |_| false).unwrap().total(), 3);
}

#[test]
fn hosts_are_read_from_lists_and_files() {
    let host = |name: &str, slots| Host {
        name: name.into(),
        slots,
    };
    assert_eq!(
        Host::list("a, b:2").unwrap(),
        [host("a", None), host("b", Some(2))]
    );
    let dir = folder("hosts");
    let path = dir.join("hosts");
    std::fs::write(
        &path,
        "# machines\nnode1 slots=4\nnode2:2 # small\n\nnode3\n",
    )
    .unwrap();
    assert_eq!(
        Host::file(&path).unwrap(),
        [
            host("node1", Some(4)),
            host("node2", Some(2)),
            host("node3", None)
        ]
    );
    assert!(
        Host::file(dir.join("none"))
            .unwrap_err()
            .to_string()
            .contains("host file")
    );
    std::fs::remove_dir_all(&dir).unwrap();
    for wrong in ["a:0", "a:x", "-o", ":3"] {
        let e = wrong.parse::<Host>().unwrap_err().to_string();
        assert!(e.contains(&format!("`{wrong}` is no host")), "{e}");
    }
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    let refused = |change: &dyn Fn(&mut LaunchOptions)| {
        let mut options = LaunchOptions::new(4, "prog");
        change(&mut options);
        launch(&options).unwrap_err().to_string()
    };
    assert!(refused(&|o| o.nproc = 0).contains("nproc must be at least 1"));
    assert!(refused(&|o| o.min_nproc = Some(5)).contains("min-nproc 5 is more than nproc 4"));
    assert!(
        refused(&|o| o.hosts = Host::list("a:1,b:2").unwrap())
            .contains("the hosts take 3 ranks, and nproc is 4")
    );
    assert!(refused(&|o| o.hosts = Host::list("a,a").unwrap()).contains("twice"));
    let none = refused(&|o| o.mpiexec = Some("/nowhere/mpiexec".into()));
    let how = match cfg!(windows) {
        true => "mpi_abi.dll",
        false => "pip install mpich",
    };
    assert!(
        none.contains("/nowhere/mpiexec") && none.contains(how),
        "{none}"
    );
    // Of all programs this is one that is surely there, and ends when it is asked for its version.
    #[cfg(unix)]
    {
        let other = refused(&|o| o.mpiexec = Some("/bin/echo".into()));
        assert!(
            other.contains("no launcher of MPICH or Open MPI"),
            "{other}"
        );
    }
}

#[test]
fn programs_say_what_they_are_linked_to() {
    let libraries: [&[u8]; 2] = [b"libmpi.so.40\0", b"libmpi.40.dylib\0"];
    for (program, linked) in [
        (&b"\x7fELF..libmpi.so.40\0.."[..], true),
        (
            b"\xcf\xfa\xed\xfe../opt/homebrew/lib/libmpi.40.dylib\0",
            true,
        ),
        (b"\x7fELF..libmpi.so.12\0", false),
        (b"MZ..libmpi.so.40\0", false),
        (b"", false),
    ] {
        assert_eq!(names_one(program, &libraries), linked);
    }
}

#[test]
fn processes_are_found_by_a_word_of_their_environment() {
    let list = "    1 /sbin/launchd\n  501 mpiexec -n 2 prog PATH=/bin TORSH_JOB=7-1 HOME=/Users/ada\n\
                 502 prog TORSH_JOB=7-12\n  503 sh -c x TORSH_JOB=7-1\nPID bad TORSH_JOB=7-1\n";
    assert_eq!(marked(list, "TORSH_JOB=7-1"), [501, 503]);
    assert_eq!(marked(list, "TORSH_JOB=8"), [0u32; 0]);
    assert_eq!(marked("", "TORSH_JOB=7-1"), [0u32; 0]);
}

#[test]
fn what_launchers_say_is_understood() {
    assert_eq!(
        family_of("HYDRA build details:\n    Version: 5.0.2"),
        Some(Family::Hydra)
    );
    assert_eq!(
        family_of("mpiexec (OpenRTE) 4.1.4\n"),
        Some(Family::OpenMpi)
    );
    assert_eq!(family_of("mpirun (Open MPI) 5.0.3"), Some(Family::OpenMpi));
    assert_eq!(family_of("GNU coreutils 9.1"), None);

    let mut mpich = Noted::default();
    for line in [
        "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
        "=   PID 3787 RUNNING AT vm",
        "=   EXIT CODE: 9",
        "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)",
    ] {
        mpich.read(line);
    }
    assert_eq!((mpich.rank, mpich.signal), (None, Some(9)));
    let mut open = Noted::default();
    open.read(
        "mpiexec noticed that process rank 1 with PID 0 on node vm exited on signal 11 (Segfault).",
    );
    assert_eq!((open.rank, open.signal), (Some(1), Some(11)));
    let mut own = Noted::default();
    assert!(!own.read("[0] torshrun: rank 3 ended with code 4"));
    assert_eq!(own, Noted::default());
    // The first rank counts; its line is not shown.
    assert!(own.read("torshrun: rank 3 ended with code 137\n"));
    assert!(own.read("torshrun: rank 0 ended with code 1\n"));
    assert_eq!((own.rank, own.code), (Some(3), Some(137)));

    assert_eq!(relabel(b"[1,3]<stdout>:step 7\n"), b"[3] step 7\n");
    assert_eq!(relabel(b"[1,12]<stderr>:\n"), b"[12] \n");
    assert_eq!(relabel(b"[a,3]<stdout>:x"), b"[a,3]<stdout>:x");
    assert_eq!(relabel(b"plain [1,3]<stdout>:x"), b"plain [1,3]<stdout>:x");
}
