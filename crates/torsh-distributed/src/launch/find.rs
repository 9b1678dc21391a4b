//! Finding the launcher of an MPI.

use std::env;
use std::env::consts::EXE_SUFFIX;
use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use torsh_tensor::{Result, TorshError};

/// The kind of a launcher, which decides its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// MPICH's, and those made from it.
    Hydra,
    /// Open MPI's.
    OpenMpi,
}

impl std::fmt::Display for Family {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Family::Hydra => "MPICH",
            Family::OpenMpi => "Open MPI",
        })
    }
}

/// A launcher that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launcher {
    /// Its file.
    pub path: PathBuf,
    /// Its kind.
    pub family: Family,
}

const NAMES: [&str; 3] = ["mpiexec", "mpiexec.hydra", "mpirun"];

#[cfg(windows)]
const HINT: &str = "install an MPI whose library is mpi_abi.dll, or Intel MPI for programs that are linked to it; or name \
                    its mpiexec with --mpiexec or TORSH_MPIEXEC. Microsoft MPI's takes other options";
#[cfg(not(windows))]
const HINT: &str = "install one: `pip install mpich` (MPICH 5, for programs as they are built by default), or \
                    `apt install openmpi-bin libopenmpi-dev` (for programs built with the feature `mpi`); or name it \
                    with --mpiexec or TORSH_MPIEXEC";

/// What programs that are linked to Open MPI 4 name.
const OPEN_MPI: [&[u8]; 2] = [b"libmpi.so.40\0", b"libmpi.40.dylib\0"];

/// How programs of Linux and of macOS begin.
const PROGRAMS: [&[u8]; 2] = [b"\x7fELF", b"\xcf\xfa\xed\xfe"];

/// Finds `mpiexec`: `named`, else what the environment variable `TORSH_MPIEXEC` names, else on `PATH`, in the folder
/// `bin` of `VIRTUAL_ENV`, in `~/.local/bin`; on Windows also in the folders of Intel MPI and conda. Of several that are found, one that fits `program`: Open MPI's for a
/// program that is linked to it, else the first whose MPI has the standard binary interface, else the first.
///
/// # Errors
/// None found, with what was searched and how to get one; a file that is no launcher, or of an unknown kind.
#[torsh_tensor::names_caller]
pub fn find_mpiexec(named: Option<&Path>, program: impl AsRef<OsStr>) -> Result<Launcher> {
    let by_variable = env::var_os("TORSH_MPIEXEC").filter(|v| !v.is_empty());
    let named = named
        .map(Path::to_path_buf)
        .or(by_variable.map(PathBuf::from));
    if let Some(path) = named {
        let path = match path.components().count() {
            1 => on_path(&path).into_iter().next().unwrap_or(path),
            _ => path,
        };
        return Ok(Launcher {
            family: family(&path)?,
            path,
        });
    }
    let mut searched = Vec::new();
    let mut found: Vec<PathBuf> = Vec::new();
    for folder in folders() {
        for name in NAMES {
            let file = folder.join(format!("{name}{EXE_SUFFIX}"));
            if is_program(&file) && !found.contains(&file) {
                found.push(file);
            }
        }
        searched.push(folder.display().to_string());
    }
    if found.is_empty() {
        return Err(TorshError::unavailable(
            "torshrun",
            format!(
                "there is no launcher of an MPI: searched {} in {}",
                NAMES.join(", "),
                searched.join(", ")
            ),
        )
        .with_hint(HINT));
    }
    let wants_open_mpi = is_linked_to(program.as_ref(), &OPEN_MPI);
    let mut failure = None;
    let mut kinds = Vec::new();
    for path in found {
        match family(&path) {
            Ok(family) => kinds.push(Launcher { path, family }),
            Err(e) => failure = failure.or(Some(e)),
        }
    }
    let fits = |l: &&Launcher| match wants_open_mpi {
        true => l.family == Family::OpenMpi,
        false => has_standard_interface(&l.path),
    };
    let best = kinds.iter().find(fits).or(kinds.first()).cloned();
    best.ok_or_else(|| {
        failure.unwrap_or_else(|| TorshError::unavailable("torshrun", "no launcher"))
    })
}

/// Where launchers are searched.
fn folders() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut all: Vec<PathBuf> = env::split_paths(&path).collect();
    let at = |name: &str, below: &str| {
        let root = env::var_os(name).filter(|v| !v.is_empty())?;
        Some(Path::new(&root).join(below))
    };
    if cfg!(windows) {
        all.extend(at("I_MPI_ROOT", "bin"));
        all.extend(at("VIRTUAL_ENV", "Library/bin"));
        all.extend(at("CONDA_PREFIX", "Library/bin"));
    } else {
        all.extend(at("VIRTUAL_ENV", "bin"));
        all.extend(at("HOME", ".local/bin"));
    }
    if cfg!(target_os = "macos") {
        // A program that the Finder starts has a short PATH.
        all.extend(["/opt/homebrew/bin", "/usr/local/bin", "/opt/local/bin"].map(PathBuf::from));
    }
    all.retain(|f| !f.as_os_str().is_empty());
    all
}

/// The files of a name on `PATH`.
fn on_path(name: &Path) -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut name = name.to_path_buf();
    if cfg!(windows) && name.extension().is_none() {
        name.set_extension("exe");
    }
    let files = env::split_paths(&path).map(|folder| folder.join(&name));
    files.filter(|f| is_program(f)).collect()
}

fn is_program(file: &Path) -> bool {
    let Ok(about) = file.metadata() else {
        return false;
    };
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        about.is_file() && about.permissions().mode() & 0o111 != 0
    }
    #[cfg(not(unix))]
    {
        about.is_file()
    }
}

/// Whether the MPI that a launcher belongs to has the standard's binary interface.
fn has_standard_interface(launcher: &Path) -> bool {
    let files = crate::engine::mpi_libraries_of(launcher);
    files.iter().any(|file| file.exists())
}

/// Whether a program names one of these libraries among those it is linked to.
fn is_linked_to(program: &OsStr, libraries: &[&[u8]]) -> bool {
    let path = Path::new(program);
    let file = match path.components().count() {
        1 => on_path(path).into_iter().next(),
        _ => Some(path.to_path_buf()),
    };
    let Some(mut file) = file.and_then(|f| std::fs::File::open(f).ok()) else {
        return false;
    };
    // The names are in the dynamic string table, near the beginning of a program.
    let mut start = Vec::new();
    let read = file.by_ref().take(16 << 20).read_to_end(&mut start);
    read.is_ok() && names_one(&start, libraries)
}

/// Whether the start of a program has one of these names.
pub(super) fn names_one(start: &[u8], libraries: &[&[u8]]) -> bool {
    let has = |library: &&[u8]| start.windows(library.len()).any(|w| w == *library);
    PROGRAMS.iter().any(|p| start.starts_with(p)) && libraries.iter().any(has)
}

/// Asks a launcher what it is.
fn family(path: &Path) -> Result<Family> {
    let refuse = |why: String| {
        TorshError::unavailable("torshrun", format!("{}: {why}", path.display())).with_hint(HINT)
    };
    let said = Command::new(path)
        .arg("--version")
        .stdin(Stdio::null())
        .output()
        .map_err(|e| refuse(format!("the launcher cannot be started: {e}")))?;
    let mut text = String::from_utf8_lossy(&said.stdout).into_owned();
    text += &String::from_utf8_lossy(&said.stderr);
    family_of(&text).ok_or_else(|| {
        let first = text.lines().next().unwrap_or("nothing").to_string();
        refuse(format!(
            "this is no launcher of MPICH or Open MPI; it answers --version with: {first}"
        ))
    })
}

/// The kind of a launcher by what it says of itself.
pub(super) fn family_of(version: &str) -> Option<Family> {
    let says = |words: &[&str]| words.iter().any(|w| version.contains(w));
    if says(&["HYDRA", "Hydra", "Intel(R) MPI"]) {
        Some(Family::Hydra)
    } else if says(&["Open MPI", "OpenRTE", "PRRTE"]) {
        Some(Family::OpenMpi)
    } else {
        None
    }
}
