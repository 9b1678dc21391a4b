//! Archives: tar, tar.gz, zip, and single files compressed with gzip.
//!
//! Nothing of an archive gets outside of the folder it is unpacked into, and nothing is left there where an archive turns
//! out to be damaged.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::MultiGzDecoder;
use torsh_serialize::files;
use torsh_tensor::{Result, TorshError, options};

use super::common::{broken, io_error, read_bounded};

const OP: &str = "extract_archive";

/// What a header of tar takes, and what the lengths of files are rounded up to.
const BLOCK: usize = 512;

/// More than any name of a file has.
const MAX_NAME: u64 = 1 << 16;

/// How deep folders may lie in each other.
const MAX_DEPTH: usize = 64;

options! {
    /// The arguments of [`extract_archive_with`]: what an archive may hold at most.
    ///
    /// ```
    /// use flate2::{Compression, write::GzEncoder};
    /// use std::io::Write;
    /// use torsh_vision::datasets::{ExtractOptions, extract_archive_with};
    ///
    /// # let folder = std::env::temp_dir().join(format!("torsh-extract-most-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    /// packed.write_all(b"seven")?;
    /// std::fs::write(folder.join("text.gz"), packed.finish()?)?;
    /// let options = ExtractOptions::new().max_bytes(4);
    /// let error = extract_archive_with(folder.join("text.gz"), &folder, options).unwrap_err().to_string();
    /// assert!(error.contains("its files have more than 4 bytes"));
    /// assert!(!folder.join("text").exists());
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[derive(Copy, PartialEq, Eq)]
    ExtractOptions {
        /// How many bytes its files have together.
        max_bytes: u64 = 1 << 38;
        /// How many files and folders there are.
        max_entries: u64 = 10_000_000;
    }
}

/// Unpacks an archive into a folder, whole or not at all (`torchvision.datasets.utils.extract_archive`):
/// [`extract_archive_with`] and the defaults.
///
/// ```
/// use flate2::{Compression, write::GzEncoder};
/// use std::io::Write;
/// use torsh_vision::datasets::extract_archive;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let folder = std::env::temp_dir().join(format!("torsh-extract-{}", std::process::id()));
/// std::fs::create_dir_all(&folder)?;
/// let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
/// packed.write_all(b"seven")?;
/// std::fs::write(folder.join("text.gz"), packed.finish()?)?;
/// extract_archive(folder.join("text.gz"), &folder)?;
/// assert_eq!(std::fs::read_to_string(folder.join("text"))?, "seven");
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// As [`extract_archive_with`].
#[track_caller]
pub fn extract_archive(archive: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
    extract_archive_with(archive, to, ExtractOptions::new())
}

/// Unpacks a `.tar`, `.tar.gz`, `.tgz` or `.zip` archive, or a file compressed with gzip, into a folder, whole or not at all.
/// The content tells the format. Files that are there are replaced.
///
/// # Errors
/// An archive that cannot be read, is damaged, or holds more than the options allow; a name in it that is absolute or
/// has `..`; a link or device in it. The error names archive, entry and reason.
#[torsh_tensor::names_caller]
pub fn extract_archive_with(
    archive: impl AsRef<Path>,
    to: impl AsRef<Path>,
    options: ExtractOptions,
) -> Result<()> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let (archive, to) = (archive.as_ref(), to.as_ref());
    let mut file = File::open(archive).map_err(|e| io_error(archive, e))?;
    torsh_core::check_git_lfs_file("extract_archive", archive.display(), &mut file)?;
    fs::create_dir_all(to).map_err(|e| io_error(to, e))?;
    // Beside what is there, so that it can be moved.
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let aside = to.join(format!(".unpacking-{}-{number}", std::process::id()));
    // Of a process of this number that was killed.
    let _ = fs::remove_dir_all(&aside);
    fs::create_dir(&aside).map_err(|e| io_error(&aside, e))?;
    let mut unpacking = Unpacking {
        archive,
        to: &aside,
        bytes_left: options.max_bytes,
        entries_left: options.max_entries,
        options,
    };
    let result = unpacking
        .run(file)
        .and_then(|()| merge(&aside, to).map_err(|e| io_error(to, e)));
    // What is left of it in any case.
    let cleaned = fs::remove_dir_all(&aside).map_err(|e| io_error(&aside, e));
    result.and(cleaned)
}

/// Moves what is in a folder into another, where it replaces files.
fn merge(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() && target.is_dir() {
            merge(&source, &target)?;
        } else {
            files::replace(&source, &target)?;
        }
    }
    Ok(())
}

/// The archive that is being unpacked.
struct Unpacking<'a> {
    archive: &'a Path,
    to: &'a Path,
    bytes_left: u64,
    entries_left: u64,
    options: ExtractOptions,
}

impl Unpacking<'_> {
    #[track_caller]
    fn broken(&self, why: impl std::fmt::Display) -> TorshError {
        broken(OP, self.archive, why)
    }

    #[track_caller]
    fn in_entry(&self, name: &str, why: impl std::fmt::Display) -> TorshError {
        let short: String = name.chars().take(200).collect();
        self.broken(format!("the entry {short:?}: {why}"))
    }

    /// An error of reading: the end of the data, damage, or the system's.
    #[track_caller]
    fn failed(&self, e: io::Error) -> TorshError {
        match e.kind() {
            io::ErrorKind::UnexpectedEof => self.broken("the archive is cut short"),
            io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => {
                self.broken(format!("the archive is damaged: {e}"))
            }
            _ => io_error(self.archive, e),
        }
    }

    fn run(&mut self, file: File) -> Result<()> {
        let mut start = [0u8; BLOCK];
        let mut file = BufReader::with_capacity(1 << 17, file);
        let n = fill(&mut file, &mut start).map_err(|e| self.failed(e))?;
        io::Seek::rewind(&mut file).map_err(|e| self.failed(e))?;
        let start = &start[..n];
        if start.starts_with(b"PK\x03\x04") || start.starts_with(b"PK\x05\x06") {
            return self.zip(file);
        }
        if start.starts_with(&[0x1f, 0x8b]) {
            let mut inner = MultiGzDecoder::new(file);
            let mut start = [0u8; BLOCK];
            let n = fill(&mut inner, &mut start).map_err(|e| self.failed(e))?;
            let all = io::Cursor::new(start[..n].to_vec()).chain(inner);
            return match is_tar(&start[..n]) {
                true => self.tar(all),
                false => self.single(all),
            };
        }
        match is_tar(start) {
            true => self.tar(file),
            false => Err(self.broken("this is neither tar nor zip nor compressed with gzip")),
        }
    }

    /// Counts an entry.
    fn count(&mut self) -> Result<()> {
        match self.entries_left.checked_sub(1) {
            Some(left) => {
                self.entries_left = left;
                Ok(())
            }
            None => Err(self.broken(format!(
                "it has more than {} files and folders",
                self.options.max_entries
            ))),
        }
    }

    /// Where an entry goes.
    fn place(&self, name: &str) -> Result<PathBuf> {
        let mut path = self.to.to_path_buf();
        let mut depth = 0;
        for part in Path::new(name).components() {
            match part {
                // It would be a device, a stream of another file, or a file of another name.
                Component::Normal(part)
                    if cfg!(windows) && !part.to_str().is_some_and(files::is_windows_name) =>
                {
                    return Err(self.in_entry(name, "Windows has no file of this name"));
                }
                Component::Normal(part) => path.push(part),
                Component::CurDir => continue,
                _ => return Err(self.in_entry(name, "its name leads out of the folder")),
            }
            depth += 1;
        }
        if name.contains('\0') || name.contains('\\') || depth > MAX_DEPTH {
            return Err(self.in_entry(name, "this is no name of a file"));
        }
        Ok(path)
    }

    fn folder(&mut self, name: &str) -> Result<()> {
        self.count()?;
        let path = self.place(name)?;
        fs::create_dir_all(&path).map_err(|e| self.in_entry(name, e))
    }

    /// Writes a file of exactly `size` bytes, or of all that there are.
    fn file(&mut self, name: &str, from: &mut impl Read, size: Option<u64>) -> Result<()> {
        self.count()?;
        let path = self.place(name)?;
        if path == self.to {
            return Err(self.in_entry(name, "this is no name of a file"));
        }
        let most = size.unwrap_or(self.bytes_left.saturating_add(1));
        if size.is_some_and(|size| size > self.bytes_left) {
            return Err(self.too_large());
        }
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(|e| self.in_entry(name, e))?;
        }
        let out = File::create(&path).map_err(|e| self.in_entry(name, e))?;
        let mut out = BufWriter::with_capacity(1 << 17, out);
        let written = io::copy(&mut from.take(most), &mut out);
        let written = written.map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::InvalidData
            | io::ErrorKind::InvalidInput => self.in_entry(name, format!("it is damaged: {e}")),
            _ => self.in_entry(name, e),
        })?;
        out.flush().map_err(|e| self.in_entry(name, e))?;
        if size.is_some_and(|size| size != written) {
            return Err(self.in_entry(name, "the archive is cut short"));
        }
        match self.bytes_left.checked_sub(written) {
            Some(left) => {
                self.bytes_left = left;
                Ok(())
            }
            None => Err(self.too_large()),
        }
    }

    #[track_caller]
    fn too_large(&self) -> TorshError {
        self.broken(format!(
            "its files have more than {} bytes",
            self.options.max_bytes
        ))
    }

    /// A file compressed with gzip: `a.txt` of `a.txt.gz`.
    fn single(&mut self, mut from: impl Read) -> Result<()> {
        let name = self
            .archive
            .file_name()
            .map(|n| n.to_string_lossy().into_owned());
        let name = name.unwrap_or_default();
        let name = match name.strip_suffix(".gz") {
            Some(name) if !name.is_empty() => name,
            _ => return Err(self.broken("the name of a file compressed with gzip ends with .gz")),
        };
        self.file(name, &mut from, None)
    }

    fn zip(&mut self, file: BufReader<File>) -> Result<()> {
        let damaged = |e: zip::result::ZipError| match e {
            zip::result::ZipError::Io(e) => e,
            other => io::Error::new(io::ErrorKind::InvalidData, other.to_string()),
        };
        let mut zip = zip::ZipArchive::new(file).map_err(|e| self.failed(damaged(e)))?;
        for i in 0..zip.len() {
            let mut entry = zip.by_index(i).map_err(|e| self.failed(damaged(e)))?;
            let name = entry.name().to_string();
            // The kind of a file of Unix: a link is 0o12, a plain file 0o10, a folder 0o4.
            let kind = entry.unix_mode().unwrap_or(0) >> 12;
            match kind {
                _ if entry.is_dir() => self.folder(&name)?,
                0 | 0o10 => {
                    let size = entry.size();
                    self.file(&name, &mut entry, Some(size))?;
                    // Reading on compares the checksum.
                    match entry.read(&mut [0u8; 1]) {
                        Ok(0) => {}
                        Ok(_) => {
                            return Err(self.in_entry(&name, "it is longer than the archive says"));
                        }
                        Err(e) => return Err(self.in_entry(&name, format!("it is damaged: {e}"))),
                    }
                }
                _ => return Err(self.in_entry(&name, "links and devices are not unpacked")),
            }
        }
        Ok(())
    }

    fn tar(&mut self, mut from: impl Read) -> Result<()> {
        // What an entry ahead of a file says of it.
        let (mut long_name, mut long_size) = (None::<String>, None::<u64>);
        loop {
            let mut header = [0u8; BLOCK];
            let n = fill(&mut from, &mut header).map_err(|e| self.failed(e))?;
            // Two empty blocks are the end; archives without them are read as well.
            if n == 0 || n == BLOCK && header.iter().all(|b| *b == 0) {
                return Ok(());
            }
            if n < BLOCK {
                return Err(self.broken("the archive is cut short"));
            }
            let header = Header(&header);
            if !header.is_whole() {
                return Err(
                    self.broken("the archive is damaged: the checksum of a header is wrong")
                );
            }
            let Some(size) = header.size() else {
                return Err(self.in_entry(&header.name(), "its size is no number"));
            };
            let kind = header.kind();
            match kind {
                // A long name of GNU tar, and attributes of POSIX.
                b'L' | b'x' | b'g' => {
                    if size > MAX_NAME {
                        return Err(self.in_entry(&header.name(), "its attributes are too long"));
                    }
                    let data = read_bounded(&mut (&mut from).take(size), size);
                    let data = data.map_err(|e| self.failed(e))?;
                    if data.len() as u64 != size {
                        return Err(self.broken("the archive is cut short"));
                    }
                    if kind == b'L' {
                        let text = String::from_utf8_lossy(&data);
                        long_name = Some(text.trim_end_matches('\0').to_string());
                    } else if kind == b'x' {
                        for (key, value) in attributes(&data) {
                            match key.as_str() {
                                "path" => long_name = Some(value),
                                "size" => long_size = value.parse().ok(),
                                _ => {}
                            }
                        }
                    }
                    self.pad(&mut from, size)?;
                }
                _ => {
                    let name = long_name.take().unwrap_or_else(|| header.name());
                    let size = long_size.take().unwrap_or(size);
                    match kind {
                        b'5' => self.folder(&name)?,
                        b'0' | 0 | b'7' if name.ends_with('/') => self.folder(&name)?,
                        b'0' | 0 | b'7' => {
                            self.file(&name, &mut from, Some(size))?;
                            self.pad(&mut from, size)?;
                        }
                        b'1' | b'2' => {
                            return Err(self.in_entry(&name, "links are not unpacked"));
                        }
                        other => {
                            let why =
                                format!("entries of the kind {:?} are not unpacked", other as char);
                            return Err(self.in_entry(&name, why));
                        }
                    }
                }
            }
        }
    }

    /// Passes over what fills up the last block of a file.
    fn pad(&self, from: &mut impl Read, size: u64) -> Result<()> {
        let rest = (size % BLOCK as u64) as usize;
        let mut padding = [0u8; BLOCK];
        let padding = &mut padding[..(BLOCK - rest) % BLOCK];
        let n = fill(from, padding).map_err(|e| self.failed(e))?;
        match n == padding.len() {
            true => Ok(()),
            false => Err(self.broken("the archive is cut short")),
        }
    }
}

/// Reads until the buffer is full or the data ends.
fn fill(from: &mut impl Read, to: &mut [u8]) -> io::Result<usize> {
    let mut n = 0;
    while n < to.len() {
        match from.read(&mut to[n..]) {
            Ok(0) => break,
            Ok(more) => n += more,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(n)
}

/// Whether data starts with a header of tar.
fn is_tar(start: &[u8]) -> bool {
    let header: Option<&[u8; BLOCK]> = start.first_chunk();
    header.is_some_and(|header| Header(header).is_whole() && header[0] != 0)
}

/// The records `LENGTH KEY=VALUE` of POSIX.
fn attributes(mut data: &[u8]) -> Vec<(String, String)> {
    let mut all = Vec::new();
    while let Some(space) = data.iter().position(|b| *b == b' ') {
        let length = std::str::from_utf8(&data[..space]).ok();
        let length: Option<usize> = length.and_then(|text| text.parse().ok());
        let Some(record) = length.and_then(|n| data.get(space + 1..n)) else {
            break;
        };
        let text = String::from_utf8_lossy(record);
        if let Some((key, value)) = text.trim_end_matches('\n').split_once('=') {
            all.push((key.to_string(), value.to_string()));
        }
        data = &data[space + 1 + record.len()..];
    }
    all
}

/// A header of tar.
struct Header<'a>(&'a [u8; BLOCK]);

impl Header<'_> {
    fn text(&self, range: std::ops::Range<usize>) -> String {
        let bytes = &self.0[range];
        let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    }

    fn kind(&self) -> u8 {
        self.0[156]
    }

    fn name(&self) -> String {
        let name = self.text(0..100);
        // The name's start, of POSIX; GNU's headers have times there.
        let prefix = match self.0[257..263] == *b"ustar\0" {
            true => self.text(345..500),
            false => String::new(),
        };
        match prefix.is_empty() {
            true => name,
            false => format!("{prefix}/{name}"),
        }
    }

    fn size(&self) -> Option<u64> {
        let field = &self.0[124..136];
        if field[0] & 0x80 != 0 {
            // Base 256, of large files.
            let high = field[..4].iter().skip(1).all(|b| *b == 0) && field[0] == 0x80;
            return high.then(|| field[4..].iter().fold(0, |n, b| (n << 8) | u64::from(*b)));
        }
        self.octal(124..136)
    }

    fn octal(&self, range: std::ops::Range<usize>) -> Option<u64> {
        let text = self.text(range);
        let text = text.trim();
        match text.is_empty() {
            true => Some(0),
            false => u64::from_str_radix(text, 8).ok(),
        }
    }

    /// Whether its checksum is right.
    fn is_whole(&self) -> bool {
        let sum: u64 = self
            .0
            .iter()
            .enumerate()
            .map(|(i, b)| match (148..156).contains(&i) {
                true => u64::from(b' '),
                false => u64::from(*b),
            })
            .sum();
        self.octal(148..156) == Some(sum)
    }
}

/// A file that is downloaded for a data set.
pub(super) struct Source {
    /// Where it is, in the order in which the places are tried.
    urls: Vec<String>,
    md5: &'static str,
    /// Its name in the folder of the data set.
    name: String,
}

impl Source {
    /// The file of an address.
    pub(super) fn new(url: impl Into<String>, md5: &'static str) -> Source {
        let url = url.into();
        Source {
            name: crate::fetch::file_name(&url).to_string(),
            urls: vec![url],
            md5,
        }
    }

    /// A further address.
    pub(super) fn mirror(mut self, url: impl Into<String>) -> Source {
        self.urls.push(url.into());
        self
    }

    /// Its name, where it is another than the address has.
    pub(super) fn named(mut self, name: &str) -> Source {
        self.name = name.to_string();
        self
    }

    /// Puts the file into a folder, unless it is there.
    #[track_caller]
    pub(super) fn download(&self, folder: &Path) -> Result<PathBuf> {
        fs::create_dir_all(folder).map_err(|e| io_error(folder, e))?;
        let path = folder.join(&self.name);
        let mut first = None;
        for url in &self.urls {
            match crate::fetch::download(url, &path, self.md5) {
                Ok(()) => return Ok(path),
                Err(e) => first = first.or(Some(e)),
            }
        }
        Err(first.unwrap_or_else(|| broken(OP, &path, "there is no place to download it from")))
    }

    /// Puts the file into a folder, unless it is there, and unpacks it.
    #[track_caller]
    pub(super) fn unpack(&self, folder: &Path) -> Result<()> {
        extract_archive(self.download(folder)?, folder)
    }
}
