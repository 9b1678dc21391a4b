//! Sources of files: a path, or bytes in memory.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Cursor, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;

use torsh_tensor::{Device, Result, Shared, Storage, TorshError};

use crate::LoadOptions;

/// An input/output error that names the file.
pub(crate) fn io_error(path: &Path, e: io::Error) -> TorshError {
    io::Error::new(e.kind(), format!("{}: {e}", path.display())).into()
}

/// The error of a file that cannot be opened. Of one that is not there it says where its last version is, which a process
/// that ended while it replaced the file left: see [`files`](crate::files).
fn unopened(path: &Path, e: io::Error) -> TorshError {
    let left = match e.kind() {
        io::ErrorKind::NotFound if cfg!(windows) => crate::files::put_aside_of(path),
        _ => None,
    };
    let Some(left) = left else {
        return io_error(path, e);
    };
    let why = format!(
        "{e}; a process that ended while it replaced the file left the old one as {}",
        left.display()
    );
    io_error(path, io::Error::new(e.kind(), why))
}

enum Input<'a> {
    File(BufReader<File>),
    Bytes(Cursor<&'a [u8]>),
}

/// A file that is being read.
pub(crate) struct Source<'a> {
    pub(crate) name: String,
    pub(crate) len: u64,
    input: Input<'a>,
    mmap: bool,
    pub(crate) verify: bool,
    /// Where the tensors shall be.
    pub(crate) device: Device,
    /// Whether what there is no value for is kept as a [`Foreign`](crate::Foreign).
    pub(crate) keep_foreign: bool,
    /// The texts that the file has about its tensors.
    pub(crate) metadata: HashMap<String, String>,
    /// The dtypes in the file of storages that were widened, by the memory that has them now.
    pub(crate) widened: HashMap<usize, &'static str>,
}

impl<'a> Source<'a> {
    pub(crate) fn open(path: &Path, options: &LoadOptions) -> Result<Source<'a>> {
        let irregular = || {
            let why = io::Error::new(io::ErrorKind::InvalidInput, "this is no regular file");
            io_error(path, why)
        };
        let file = match File::open(path) {
            // Windows refuses to open a folder, as it does what the user may not read.
            Err(_) if path.is_dir() => return Err(irregular()),
            file => file.map_err(|e| unopened(path, e))?,
        };
        let about = file.metadata().map_err(|e| io_error(path, e))?;
        if !about.is_file() {
            return Err(irregular());
        }
        Ok(Source {
            name: path.display().to_string(),
            len: about.len(),
            input: Input::File(BufReader::new(file)),
            mmap: options.mmap,
            verify: options.verify,
            device: options.device,
            keep_foreign: options.keep_foreign,
            metadata: HashMap::new(),
            widened: HashMap::new(),
        })
    }

    pub(crate) fn bytes(bytes: &'a [u8]) -> Source<'a> {
        Source {
            name: "the bytes in memory".into(),
            len: bytes.len() as u64,
            input: Input::Bytes(Cursor::new(bytes)),
            mmap: false,
            verify: false,
            device: Device::Cpu,
            keep_foreign: false,
            metadata: HashMap::new(),
            widened: HashMap::new(),
        }
    }

    /// Bytes in memory, with what options say of them.
    pub(crate) fn bytes_with(bytes: &'a [u8], options: &LoadOptions) -> Source<'a> {
        let mut source = Source::bytes(bytes);
        source.verify = options.verify;
        source.device = options.device;
        source.keep_foreign = options.keep_foreign;
        source
    }

    /// An error about the file's content.
    #[track_caller]
    pub(crate) fn broken(&self, why: impl std::fmt::Display) -> TorshError {
        TorshError::format("load", format!("{}: {why}", self.name))
    }

    /// An error where the file is a pointer of git-lfs.
    #[track_caller]
    pub(crate) fn check_git_lfs(&self, start: &[u8]) -> Result<()> {
        torsh_core::check_git_lfs("load", &self.name, start)
    }

    fn io(&self, e: io::Error) -> TorshError {
        io::Error::new(e.kind(), format!("{}: {e}", self.name)).into()
    }

    /// The first 512 bytes, or all where there are fewer.
    pub(crate) fn start(&mut self) -> Result<Vec<u8>> {
        self.range(0..self.len.min(512))
    }

    /// The bytes of a range, which has to be within the file.
    #[track_caller]
    pub(crate) fn range(&mut self, range: Range<u64>) -> Result<Vec<u8>> {
        if range.end > self.len || range.start > range.end {
            return Err(self.broken("the file is cut off"));
        }
        let mut out = Vec::new();
        let read = self
            .seek(SeekFrom::Start(range.start))
            .and_then(|_| self.take(range.end - range.start).read_to_end(&mut out));
        match read {
            Ok(n) if n as u64 == range.end - range.start => Ok(out),
            Ok(_) => Err(self.broken("the file is cut off")),
            Err(e) => Err(self.io(e)),
        }
    }

    /// The memory of ranges that are within the file and apart: mapped where it may be, else
    /// read.
    #[track_caller]
    pub(crate) fn storages(&mut self, ranges: &[Range<u64>]) -> Result<Vec<Shared<Storage>>> {
        if ranges.iter().any(|r| r.end > self.len || r.start > r.end) {
            return Err(self.broken("the file is cut off"));
        }
        if self.mmap
            && let Input::File(file) = &self.input
            // A system that cannot map the file can read it.
            && let Ok(storages) = Storage::map_file(file.get_ref(), ranges)
        {
            return Ok(storages.into_iter().map(Shared::new).collect());
        }
        ranges
            .iter()
            .map(|r| {
                let bytes = usize::try_from(r.end - r.start)
                    .map_err(|_| TorshError::out_of_memory(torsh_core::Device::Cpu, usize::MAX))?;
                Storage::filled(bytes, |to| {
                    self.seek(SeekFrom::Start(r.start))?;
                    self.read_exact(to)
                })
                .map(Shared::new)
            })
            .collect()
    }
}

impl Read for Source<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        match &mut self.input {
            Input::File(f) => f.read(to),
            Input::Bytes(b) => b.read(to),
        }
    }
}

impl Seek for Source<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match &mut self.input {
            Input::File(f) => f.seek(to),
            Input::Bytes(b) => b.seek(to),
        }
    }
}
