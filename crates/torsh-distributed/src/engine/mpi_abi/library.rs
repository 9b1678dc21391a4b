//! Where the library is.

use std::env;
use std::path::{Path, PathBuf};

use libloading::Library;
use torsh_core::{Result, TorshError};

/// The library's name, by the standard.
#[cfg(target_os = "macos")]
pub(crate) const NAME: &str = "libmpi_abi.1.dylib";
#[cfg(windows)]
pub(crate) const NAME: &str = "mpi_abi.dll";
#[cfg(not(any(target_os = "macos", windows)))]
pub(crate) const NAME: &str = "libmpi_abi.so.1";

/// Where libraries are in an installation, that is in the folders `bin` and `lib`, or in Python's environments. Windows has
/// them beside the programs.
const FOLDERS: &[&str] = match cfg!(windows) {
    true => &["bin", "Library/bin", "DLLs"],
    false => &["lib"],
};

/// Where packages are installed that the loader of macOS does not search: of Homebrew and MacPorts.
const OF_PACKAGES: &[&str] = match cfg!(target_os = "macos") {
    true => &["/opt/homebrew/lib", "/usr/local/lib", "/opt/local/lib"],
    false => &[],
};

/// The ways to get an MPI.
#[cfg(windows)]
pub(super) const HINT: &str = "Install an MPI whose library is mpi_abi.dll, and start the program with its mpiexec; TORSH_MPI names a library that is elsewhere. `spawn` runs ranks as threads of one process, without any MPI.";
#[cfg(not(windows))]
pub(super) const HINT: &str = "Install an MPI with the standard binary interface (`pip install mpich`, then start the program with its mpiexec), or build with the feature `mpi` for the MPI of the system (Open MPI 4, MPICH 4). TORSH_MPI names a library that is elsewhere.";

/// A library that was found.
pub(super) struct Found {
    pub(super) library: Library,
    pub(super) path: String,
}

/// A place to search.
struct Place {
    file: PathBuf,
    why: &'static str,
}

/// Opens the first library that is there.
pub(super) fn open() -> Result<Found> {
    let mut tried = Vec::new();
    for place in places() {
        let shown = place.file.display().to_string();
        // A path that is not there needs no message of the loader.
        if place.file.components().count() > 1 && !place.file.exists() {
            tried.push(format!("{shown} ({}): no such file", place.why));
            continue;
        }
        match load(&place.file) {
            Ok(library) => {
                return Ok(Found {
                    library,
                    path: shown,
                });
            }
            Err(e) => tried.push(format!("{shown} ({}): {e}", place.why)),
        }
    }
    let mut why = format!(
        "found no MPI with the standard binary interface; searched {}",
        tried.join("; ")
    );
    if let Some(other) = others().into_iter().find(|file| file.is_file()) {
        why += &format!("; {} has an interface of its own", other.display());
    }
    Err(TorshError::unavailable("mpi-abi", why).with_hint(HINT))
}

/// Loads a library with all its symbols at once, for itself and for the libraries that it loads later.
fn load(file: &Path) -> Result<Library, String> {
    #[cfg(unix)]
    {
        use libloading::os::unix::{Library as Unix, RTLD_GLOBAL, RTLD_NOW};
        // SAFETY: loading runs the library's initialisers; the user or the system chose it as an MPI, and those may run
        // on any thread.
        unsafe { Unix::open(Some(file), RTLD_NOW | RTLD_GLOBAL) }
            .map(Library::from)
            .map_err(|e| e.to_string())
    }
    #[cfg(windows)]
    {
        use libloading::os::windows::{LOAD_WITH_ALTERED_SEARCH_PATH, Library as Windows};
        // The libraries that it loads itself are beside it. A name without folders is searched as usual.
        let flags = match file.is_absolute() {
            true => LOAD_WITH_ALTERED_SEARCH_PATH,
            false => 0,
        };
        // SAFETY: as above.
        unsafe { Windows::load_with_flags(file, flags) }
            .map(Library::from)
            .map_err(|e| e.to_string())
    }
    #[cfg(not(any(unix, windows)))]
    {
        // SAFETY: as above.
        unsafe { Library::new(file) }.map_err(|e| e.to_string())
    }
}

/// Libraries of Windows' usual MPIs, whose interfaces are not the standard's.
fn others() -> Vec<PathBuf> {
    let at = |variable: &str, below: &str| {
        let root = env::var_os(variable).filter(|v| cfg!(windows) && !v.is_empty())?;
        Some(Path::new(&root).join(below))
    };
    [
        at("SystemRoot", "System32/msmpi.dll"),
        at("I_MPI_ROOT", "bin/impi.dll"),
        at("I_MPI_ROOT", "bin/release/impi.dll"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Where to search, in this order.
fn places() -> Vec<Place> {
    if let Some(named) = env::var_os("TORSH_MPI").filter(|v| !v.is_empty()) {
        let mut file = PathBuf::from(named);
        if file.is_dir() {
            file.push(NAME);
        }
        let why = "named by TORSH_MPI";
        return vec![Place { file, why }];
    }
    let mut places = Vec::new();
    if let Some(launcher) = launcher() {
        beside(
            &mut places,
            &launcher,
            "beside the launcher that started this program",
        );
    }
    places.push(Place {
        file: NAME.into(),
        why: "where the system's loader searches",
    });
    if let Some(mpiexec) = on_path(&format!("mpiexec{}", env::consts::EXE_SUFFIX)) {
        beside(&mut places, &mpiexec, "beside the mpiexec on PATH");
    }
    for (variable, why) in [
        ("VIRTUAL_ENV", "in the folder of VIRTUAL_ENV"),
        ("CONDA_PREFIX", "in the folder of CONDA_PREFIX"),
    ] {
        if let Some(folder) = env::var_os(variable).filter(|v| !v.is_empty()) {
            for below in FOLDERS {
                let file = Path::new(&folder).join(below).join(NAME);
                places.push(Place { file, why });
            }
        }
    }
    for folder in OF_PACKAGES {
        let file = Path::new(folder).join(NAME);
        let why = "where packages are installed";
        places.push(Place { file, why });
    }
    let mut seen = Vec::new();
    places.retain(|p| {
        let new = !seen.contains(&p.file);
        seen.push(p.file.clone());
        new
    });
    places
}

fn beside(places: &mut Vec<Place>, program: &Path, why: &'static str) {
    let files = of_program(program).into_iter();
    places.extend(files.map(|file| Place { file, why }));
}

/// The library's places in an installation with `program` in its folder `bin`, as it is called and as it is where links lead.
pub(crate) fn of_program(program: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for program in [Some(program.to_path_buf()), program.canonicalize().ok()] {
        let folder = program.as_deref().and_then(Path::parent);
        if cfg!(windows) {
            files.extend(folder.map(|folder| folder.join(NAME)));
        }
        if let Some(root) = folder.and_then(Path::parent) {
            files.extend(FOLDERS.iter().map(|below| root.join(below).join(NAME)));
        }
    }
    files
}

/// The program that started this one, where the system tells and it is a part of an MPI: the launcher's MPI is the one to
/// use, also where PATH does not lead to it.
fn launcher() -> Option<PathBuf> {
    #[cfg(target_os = "linux")]
    {
        let parent = std::os::unix::process::parent_id();
        let program = std::fs::read_link(format!("/proc/{parent}/exe")).ok()?;
        let name = program.file_name()?.to_str()?;
        ["hydra", "mpiexec", "mpirun", "prte"]
            .iter()
            .any(|p| name.starts_with(p))
            .then(|| program.clone())
    }
    #[cfg(not(target_os = "linux"))]
    None
}

/// A program on PATH.
fn on_path(program: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?)
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_beside_its_launcher() {
        let mut places = Vec::new();
        beside(&mut places, Path::new("/opt/mpi/bin/mpiexec"), "x");
        let folder = if cfg!(windows) { "bin" } else { "lib" };
        let file = Path::new("/opt/mpi").join(folder).join(NAME);
        assert_eq!(places[0].file, file);
    }
}
