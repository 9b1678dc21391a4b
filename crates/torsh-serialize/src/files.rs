//! Putting files in the place of others, on systems that let it happen always and on Windows, which does not while a file is
//! mapped or open.
//!
//! On Windows a file that is mapped can be neither removed nor replaced, but it can be renamed. So what is in the way gets a
//! name beside its place, `.NAME.PID.NUMBER.SECONDS.old`, and is removed when nothing uses it any more: at once, or by a
//! later call for a file of the same folder.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long ago a file was put aside that no process needs any more, to bring it back.
const STALE: Duration = Duration::from_secs(600);

/// The pauses between attempts. Programs that search for viruses open new files for some milliseconds.
const PAUSES: [u64; 6] = [1, 5, 20, 50, 100, 200];

/// What a replacement asks of the system.
trait System {
    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()>;
    fn remove(&mut self, path: &Path) -> io::Result<()>;
    fn is_dir(&mut self, path: &Path) -> bool;
    fn pause(&mut self, time: Duration);
}

struct This;

impl System for This {
    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn is_dir(&mut self, path: &Path) -> bool {
        path.is_dir()
    }

    fn pause(&mut self, time: Duration) {
        std::thread::sleep(time);
    }
}

/// Gives a file another name, under which it replaces the file that is there: all readers find the old one or the new one.
///
/// On Windows the old file may be mapped by tensors, of this process or of another one. It is put aside then, and for a
/// moment between two renames nothing has the name.
///
/// ```
/// use torsh_serialize::files::replace;
///
/// let folder = std::env::temp_dir().join(format!("torsh-replace-{}", std::process::id()));
/// std::fs::create_dir_all(&folder)?;
/// std::fs::write(folder.join("new"), "new")?;
/// std::fs::write(folder.join("file"), "old")?;
/// replace(&folder.join("new"), &folder.join("file"))?;
/// assert_eq!(std::fs::read_to_string(folder.join("file"))?, "new");
/// assert!(!folder.join("new").exists());
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// What the system says. Both files are there then, under the names that they had.
pub fn replace(new: &Path, path: &Path) -> io::Result<()> {
    if !cfg!(windows) {
        return std::fs::rename(new, path);
    }
    left().clean(parent(path), &mut This);
    let aside = replace_where_refused(&mut This, new, path, &aside_name(path))?;
    left().files.extend(aside);
    Ok(())
}

/// Removes a file, or on Windows, where something still uses it, its name.
///
/// ```
/// use torsh_serialize::files::remove;
///
/// let path = std::env::temp_dir().join(format!("torsh-remove-{}", std::process::id()));
/// std::fs::write(&path, "old")?;
/// remove(&path)?;
/// assert!(!path.exists());
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// What the system says.
pub fn remove(path: &Path) -> io::Result<()> {
    if !cfg!(windows) {
        return std::fs::remove_file(path);
    }
    left().clean(parent(path), &mut This);
    let aside = remove_where_refused(&mut This, path, &aside_name(path))?;
    left().files.extend(aside);
    Ok(())
}

/// Gives a folder another name, which nothing may have. On Windows a program that searches for viruses may have its files
/// open for a moment, and is waited for.
///
/// ```
/// use torsh_serialize::files::rename_folder;
///
/// let folder = std::env::temp_dir().join(format!("torsh-rename-{}", std::process::id()));
/// std::fs::create_dir_all(&folder)?;
/// let other = folder.with_extension("other");
/// rename_folder(&folder, &other)?;
/// assert!(other.is_dir() && !folder.exists());
/// # std::fs::remove_dir_all(&other)?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// What the system says; Windows refuses it while a file in the folder is open.
pub fn rename_folder(from: &Path, to: &Path) -> io::Result<()> {
    let pauses: &[u64] = match cfg!(windows) {
        true => &PAUSES,
        false => &[],
    };
    for pause in pauses {
        match std::fs::rename(from, to) {
            Err(e) if in_use(&e) => std::thread::sleep(Duration::from_millis(*pause)),
            other => return other,
        }
    }
    std::fs::rename(from, to).map_err(|e| match cfg!(windows) {
        true => explained(e, "renamed"),
        false => e,
    })
}

/// Puts the names in a folder on the disk, where the system lets a folder be synced. Windows does not; NTFS writes names down
/// in their order by itself.
///
/// ```
/// torsh_serialize::files::sync_folder(&std::env::temp_dir())?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// What the system says.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    match cfg!(unix) {
        true => File::open(folder)?.sync_all(),
        false => Ok(()),
    }
}

/// The folder that a path is in.
///
/// ```
/// use std::path::Path;
/// use torsh_serialize::files::parent;
/// assert_eq!(parent(Path::new("runs/a.pt")), Path::new("runs"));
/// assert_eq!(parent(Path::new("a.pt")), Path::new("."));
/// ```
pub fn parent(path: &Path) -> &Path {
    let folder = path.parent().filter(|f| !f.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// Whether a name is of a file that was put aside, which is about to go.
///
/// ```
/// use torsh_serialize::files::is_aside;
/// assert!(is_aside(".model.pt.4711.0.1700000000.old"));
/// assert!(!is_aside("model.pt") && !is_aside(".model.old"));
/// ```
pub fn is_aside(name: &str) -> bool {
    put_aside(OsStr::new(name)).is_some()
}

/// Whether Windows has files of this name, which is no path. The names of devices, and ends that it cuts off, would be other
/// files than they say.
///
/// ```
/// use torsh_serialize::files::is_windows_name;
/// assert!(is_windows_name("model.safetensors") && is_windows_name("größe 1"));
/// assert!(!is_windows_name("a:b") && !is_windows_name("NUL.txt") && !is_windows_name("a."));
/// ```
pub fn is_windows_name(name: &str) -> bool {
    let odd = |c: char| c.is_control() || "<>:\"/\\|?*".contains(c);
    let stem = name.split('.').next().unwrap_or(name).trim_end();
    let is = |device: &str| stem.eq_ignore_ascii_case(device);
    let numbered = |kind: &str| {
        let (start, end) = stem.split_at_checked(kind.len()).unwrap_or(("", ""));
        let digit =
            matches!(end, "¹" | "²" | "³") || end.len() == 1 && end.as_bytes()[0].is_ascii_digit();
        start.eq_ignore_ascii_case(kind) && digit
    };
    let device = ["CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"]
        .into_iter()
        .any(is)
        || ["COM", "LPT"].into_iter().any(numbered);
    !name.is_empty() && !name.contains(odd) && !name.ends_with(['.', ' ']) && !device
}

/// The path that the path of an address `file://` is, whose `%` are decoded. That of Windows has a slash ahead of its drive:
/// `file:///C:/models`.
///
/// ```
/// use std::path::Path;
/// use torsh_serialize::files::path_of_url;
/// assert_eq!(path_of_url("/models/a.pt"), Path::new("/models/a.pt"));
/// if cfg!(windows) {
///     assert_eq!(path_of_url("/C:/models"), Path::new("C:/models"));
/// }
/// ```
pub fn path_of_url(path: &str) -> PathBuf {
    match cfg!(windows) {
        true => windows_path_of_url(path).into(),
        false => path.into(),
    }
}

fn windows_path_of_url(path: &str) -> String {
    let plain = match path.as_bytes() {
        [b'/', drive, b':'] | [b'/', drive, b':', b'/' | b'\\', ..]
            if drive.is_ascii_alphabetic() =>
        {
            &path[1..]
        }
        _ => path,
    };
    plain.replace('/', "\\")
}

/// Whether a text that names a model or a tokenizer is a path, and not a repository `org/name`: it starts with a dot or is
/// absolute. On Windows also one with a backslash or a drive, as `models\bert` and `C:bert`.
///
/// ```
/// use torsh_serialize::files::is_path;
/// assert!(is_path("./bert") && !is_path("org/bert"));
/// ```
pub fn is_path(text: &str) -> bool {
    Path::new(text).is_absolute() || is_path_on(cfg!(windows), text)
}

fn is_path_on(windows: bool, text: &str) -> bool {
    let drive = matches!(text.as_bytes(), [letter, b':', ..] if letter.is_ascii_alphabetic());
    text.starts_with('.') || windows && (drive || text.starts_with('/') || text.contains('\\'))
}

/// What this process put aside and could not remove, and the folders in which it looked for what others left.
struct Left {
    files: Vec<PathBuf>,
    seen: BTreeSet<PathBuf>,
}

fn left() -> MutexGuard<'static, Left> {
    static LEFT: Mutex<Left> = Mutex::new(Left {
        files: Vec::new(),
        seen: BTreeSet::new(),
    });
    LEFT.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Left {
    /// Tries to remove what was put aside: all of this process, and what processes that are gone left in a folder.
    fn clean(&mut self, folder: &Path, system: &mut dyn System) {
        self.files.retain(|file| match system.remove(file) {
            Ok(()) => false,
            Err(e) => e.kind() != ErrorKind::NotFound,
        });
        if !self.seen.insert(folder.to_path_buf()) {
            return;
        }
        for (name, _, at) in asides(folder) {
            if now().saturating_sub(at) > STALE {
                // Whoever else removes it is welcome.
                let _ = system.remove(&folder.join(name));
            }
        }
    }
}

/// What was put aside in a folder: each with its name before, and when that was.
fn asides(folder: &Path) -> Vec<(OsString, String, Duration)> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let names = entries.flatten().map(|entry| entry.file_name());
    names
        .filter_map(|name| {
            let (before, at) = put_aside(&name)?;
            Some((name, before, at))
        })
        .collect()
}

/// The file that was at a path before a process ended between the two renames of a replacement, where there is one.
pub(crate) fn put_aside_of(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_string_lossy();
    let mut all = asides(parent(path));
    all.retain(|(_, before, _)| *before == name);
    let (last, ..) = all.into_iter().max_by_key(|(.., at)| *at)?;
    Some(path.with_file_name(last))
}

fn now() -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default()
}

/// A new name for what is at a path.
fn aside_name(path: &Path) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    let (process, number) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    name.push(format!(".{process}.{number}.{}.old", now().as_secs()));
    path.with_file_name(name)
}

/// The name before, and when it was, where a name is of a file that was put aside.
fn put_aside(name: &OsStr) -> Option<(String, Duration)> {
    // A file's own name may be no text; what stands behind it is.
    let name = name.to_string_lossy();
    let mut parts = name
        .strip_prefix('.')?
        .strip_suffix(".old")?
        .rsplitn(4, '.');
    let seconds = parts.next()?.parse().ok()?;
    let _number: u32 = parts.next()?.parse().ok()?;
    let _process: u32 = parts.next()?.parse().ok()?;
    let before = parts.next().filter(|before| !before.is_empty())?;
    Some((before.to_string(), Duration::from_secs(seconds)))
}

/// Whether a file is in use, as Windows says it: access denied (5), shared otherwise (32), locked (33), mapped (1224).
fn in_use(e: &io::Error) -> bool {
    e.kind() == ErrorKind::PermissionDenied || matches!(e.raw_os_error(), Some(32 | 33 | 1224))
}

/// An error that says what to do.
fn explained(e: io::Error, done: &str) -> io::Error {
    match in_use(&e) {
        true => io::Error::new(
            e.kind(),
            format!(
                "{e}: it was not {done}; close the program that has it open, or choose another path"
            ),
        ),
        false => e,
    }
}

/// A rename over a file that may be in use. Returns where the old file is, if it is still there.
fn replace_where_refused(
    system: &mut dyn System,
    new: &Path,
    path: &Path,
    aside: &Path,
) -> io::Result<Option<PathBuf>> {
    let mut pauses = PAUSES.into_iter();
    loop {
        let refused = match system.rename(new, path) {
            Ok(()) => return Ok(None),
            // A folder is not to be replaced by a file.
            Err(e) if in_use(&e) && !system.is_dir(path) => e,
            Err(e) => return Err(e),
        };
        if system.rename(path, aside).is_ok() {
            match system.rename(new, path) {
                Ok(()) => {
                    let gone = system.remove(aside).is_ok();
                    return Ok((!gone).then(|| aside.to_path_buf()));
                }
                Err(e) => match system.rename(aside, path) {
                    Ok(()) if in_use(&e) => {}
                    Ok(()) => return Err(e),
                    Err(_) => {
                        let text = format!("{e}; the file that was there is {}", aside.display());
                        return Err(io::Error::new(e.kind(), text));
                    }
                },
            }
        }
        match pauses.next() {
            Some(pause) => system.pause(Duration::from_millis(pause)),
            None => return Err(explained(refused, "replaced")),
        }
    }
}

/// A removal of a file that may be in use. Returns where it is, if it is still there.
fn remove_where_refused(
    system: &mut dyn System,
    path: &Path,
    aside: &Path,
) -> io::Result<Option<PathBuf>> {
    let mut pauses = PAUSES.into_iter();
    loop {
        let refused = match system.remove(path) {
            Ok(()) => return Ok(None),
            Err(e) if in_use(&e) && !system.is_dir(path) => e,
            Err(e) => return Err(e),
        };
        if system.rename(path, aside).is_ok() {
            let gone = system.remove(aside).is_ok();
            return Ok((!gone).then(|| aside.to_path_buf()));
        }
        match pauses.next() {
            Some(pause) => system.pause(Duration::from_millis(pause)),
            None => return Err(explained(refused, "removed")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// A folder of Windows: what its files hold, and which are mapped or held open without leave to rename them.
    #[derive(Default)]
    struct Folder {
        files: BTreeMap<PathBuf, &'static str>,
        mapped: Vec<&'static str>,
        held: Vec<&'static str>,
        /// After how many pauses what was held is let go.
        patience: usize,
        pauses: usize,
    }

    impl Folder {
        fn new(files: &[(&'static str, &'static str)]) -> Folder {
            Folder {
                files: files.iter().map(|(n, c)| (n.into(), *c)).collect(),
                patience: usize::MAX,
                ..Folder::default()
            }
        }

        fn used(&self, path: &Path, renames: bool) -> bool {
            let Some(content) = self.files.get(path) else {
                return false;
            };
            self.held.contains(content) || !renames && self.mapped.contains(content)
        }

        fn names(&self) -> Vec<(&str, &str)> {
            let all = self.files.iter();
            all.map(|(p, c)| (p.to_str().unwrap(), *c)).collect()
        }
    }

    impl System for Folder {
        fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
            if !self.files.contains_key(from) {
                return Err(ErrorKind::NotFound.into());
            }
            if self.used(from, true) || self.used(to, false) {
                return Err(ErrorKind::PermissionDenied.into());
            }
            let content = self.files.remove(from).unwrap();
            self.files.insert(to.to_path_buf(), content);
            Ok(())
        }

        fn remove(&mut self, path: &Path) -> io::Result<()> {
            if self.used(path, false) {
                return Err(io::Error::from_raw_os_error(1224));
            }
            let removed = self.files.remove(path);
            removed
                .map(|_| ())
                .ok_or_else(|| ErrorKind::NotFound.into())
        }

        fn is_dir(&mut self, path: &Path) -> bool {
            self.files.get(path) == Some(&"folder")
        }

        fn pause(&mut self, _: Duration) {
            self.pauses += 1;
            if self.pauses >= self.patience {
                self.held.clear();
            }
        }
    }

    fn replaced(folder: &mut Folder) -> io::Result<Option<PathBuf>> {
        let [new, path, aside] = ["new", "file", "aside"].map(Path::new);
        replace_where_refused(folder, new, path, aside)
    }

    #[test]
    fn a_file_that_is_mapped_makes_room() {
        let mut folder = Folder::new(&[("new", "2"), ("file", "1")]);
        assert_eq!(replaced(&mut folder).unwrap(), None);
        assert_eq!(folder.names(), [("file", "2")]);
        folder.files.insert("new".into(), "3");
        folder.mapped = vec!["2"];
        assert_eq!(replaced(&mut folder).unwrap(), Some("aside".into()));
        assert_eq!(folder.names(), [("aside", "2"), ("file", "3")]);
        assert_eq!(folder.pauses, 0);
    }

    #[test]
    fn a_file_that_is_held_stays_and_is_waited_for() {
        let mut folder = Folder::new(&[("new", "2"), ("file", "1")]);
        folder.held = vec!["1"];
        let error = replaced(&mut folder).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        assert!(error.to_string().contains("choose another path"), "{error}");
        assert_eq!(folder.names(), [("file", "1"), ("new", "2")]);
        assert_eq!(folder.pauses, PAUSES.len());
        (folder.pauses, folder.patience) = (0, 3);
        assert_eq!(replaced(&mut folder).unwrap(), None);
        assert_eq!(folder.names(), [("file", "2")]);
        // The new file is held, as by a program that searches for viruses: the old one has its name back.
        let mut folder = Folder::new(&[("new", "2"), ("file", "1")]);
        folder.held = vec!["2"];
        assert!(replaced(&mut folder).is_err());
        assert_eq!(folder.names(), [("file", "1"), ("new", "2")]);
        // Nothing is there to be replaced, or nothing to replace it with.
        let mut folder = Folder::new(&[("new", "1")]);
        assert_eq!(replaced(&mut folder).unwrap(), None);
        let error = replaced(&mut folder).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert_eq!(folder.names(), [("file", "1")]);
    }

    #[test]
    fn a_folder_is_left_alone() {
        let mut folder = Folder::new(&[("new", "2"), ("file", "folder")]);
        folder.mapped = vec!["folder"];
        assert!(replaced(&mut folder).is_err());
        let (path, aside) = (Path::new("file"), Path::new("aside"));
        assert!(remove_where_refused(&mut folder, path, aside).is_err());
        assert_eq!(folder.names(), [("file", "folder"), ("new", "2")]);
        assert_eq!(folder.pauses, 0);
    }

    #[test]
    fn a_file_that_is_used_loses_its_name() {
        let (path, aside) = (Path::new("file"), Path::new("aside"));
        let mut folder = Folder::new(&[("file", "1")]);
        folder.mapped = vec!["1"];
        let left = remove_where_refused(&mut folder, path, aside).unwrap();
        assert_eq!(left.as_deref(), Some(aside));
        assert_eq!(folder.names(), [("aside", "1")]);
        let place = Path::new("/nowhere");
        let mut all = Left {
            files: left.into_iter().collect(),
            seen: BTreeSet::new(),
        };
        all.clean(place, &mut folder);
        assert_eq!(all.files, [aside]);
        folder.mapped.clear();
        all.clean(place, &mut folder);
        assert!(all.files.is_empty() && folder.files.is_empty());
        let none = remove_where_refused(&mut folder, path, aside).unwrap_err();
        assert_eq!(none.kind(), ErrorKind::NotFound);
    }

    #[test]
    fn names_of_what_was_put_aside() {
        let path = Path::new("runs/model.pt");
        let aside = aside_name(path);
        assert_eq!(aside.parent(), path.parent());
        let name = aside.file_name().unwrap();
        let (before, at) = put_aside(name).unwrap();
        assert_eq!(before, "model.pt");
        assert!(now().saturating_sub(at) < Duration::from_secs(60));
        assert_ne!(aside_name(path), aside);
        for other in [
            ".old",
            ".model.pt.old",
            ".model.pt.1.2.old",
            ".1.2.3.old",
            "model.pt.1.2.3.old",
            ".model.pt.1.2.3.tmp",
            ".model.pt.1.-2.3.old",
        ] {
            assert!(!is_aside(other), "{other}");
        }
        assert!(is_aside(".x.1.2.3.old"));
    }

    #[test]
    fn what_others_left_goes_when_it_is_old() {
        let folder = std::env::temp_dir().join(format!("torsh-left-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let fresh = format!(".a.pt.7.0.{}.old", now().as_secs());
        let old = ".a.pt.7.0.1700000000.old";
        for name in [old, &fresh, ".b.pt.7.0.x.old", ".a.b.pt.7.0.1700000000.tmp"] {
            std::fs::write(folder.join(name), "x").unwrap();
        }
        let of = |name: &str| put_aside_of(&folder.join(name));
        assert_eq!(of("a.pt"), Some(folder.join(&fresh)));
        assert_eq!((of("pt"), of("a"), of("b.pt")), (None, None, None));
        let mut left = Left {
            files: Vec::new(),
            seen: BTreeSet::new(),
        };
        left.clean(&folder, &mut This);
        let mut names: Vec<_> = std::fs::read_dir(&folder)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(
            names,
            [
                ".a.b.pt.7.0.1700000000.tmp",
                fresh.as_str(),
                ".b.pt.7.0.x.old"
            ]
        );
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn names_that_windows_has() {
        for good in [
            "a",
            ".a",
            "a.b",
            "com",
            "COM10",
            "lpt",
            "console",
            "nul-1",
            "模型.bin",
            "a b",
        ] {
            assert!(is_windows_name(good), "{good}");
        }
        for bad in [
            "",
            ".",
            "..",
            "a.",
            "a ",
            ".. ",
            "nul",
            "NUL.tar.gz",
            "con .txt",
            "com1",
            "LPT9.x",
            "COM¹",
            "a:b",
            "a/b",
            "a\\b",
            "a?",
            "a*",
            "a|b",
            "<a>",
            "\"a\"",
            "a\tb",
            "a\0b",
        ] {
            assert!(!is_windows_name(bad), "{bad:?}");
        }
    }

    #[test]
    fn paths_of_addresses() {
        for (path, of_windows) in [
            ("/C:/models/x", r"C:\models\x"),
            (r"/d:\x", r"d:\x"),
            ("/z:", "z:"),
            (r"C:\x", r"C:\x"),
            ("//server/share/x", r"\\server\share\x"),
            ("/models/x", r"\models\x"),
            ("/C:x", r"\C:x"),
        ] {
            assert_eq!(windows_path_of_url(path), of_windows, "{path}");
        }
    }

    #[test]
    fn paths_and_repositories() {
        for (text, here, on_windows) in [
            ("org/name", false, false),
            ("bert-base-uncased", false, false),
            ("datasets/org/name@v1", false, false),
            ("./name", true, true),
            ("..\\name", true, true),
            ("C:\\models\\x", false, true),
            ("c:/models/x", false, true),
            ("C:x", false, true),
            ("models\\x", false, true),
            ("\\\\server\\share\\x", false, true),
            ("/models/x", false, true),
            ("1:x", false, false),
        ] {
            assert_eq!(is_path_on(false, text), here, "{text}");
            assert_eq!(is_path_on(true, text), on_windows, "{text}");
        }
        assert!(is_path("./name") && !is_path("org/name"));
    }

    #[test]
    fn folders_of_paths() {
        assert_eq!(parent(Path::new("a/b")), Path::new("a"));
        assert_eq!(parent(Path::new("/b")), Path::new("/"));
        assert_eq!(parent(Path::new("b")), Path::new("."));
    }
}
