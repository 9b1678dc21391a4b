//! Zip archives, the container of PyTorch's and NumPy's files.

use std::collections::HashMap;
use std::io::{Read, Seek, SeekFrom, Write};
use std::ops::Range;

use flate2::Crc;
use flate2::read::DeflateDecoder;
use torsh_tensor::{Result, Shared, Storage, TorshError};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use crate::source::Source;

/// What an archive says of one file in it.
pub(crate) struct Entry {
    pub(crate) name: String,
    /// Where its bytes are.
    data: Range<u64>,
    size: u64,
    crc: u32,
    deflated: bool,
    /// Why its bytes cannot be had.
    foreign: Option<String>,
}

impl Entry {
    /// Why the bytes cannot be had, where they are packed in an unknown way.
    pub(crate) fn foreign(&self) -> Option<&str> {
        self.foreign.as_deref()
    }
}

/// The directory of an archive, checked: names differ, and no byte belongs to two entries, so
/// that all that can be decompressed is bounded by the archive's size.
pub(crate) struct Archive {
    pub(crate) entries: Vec<Entry>,
    index: HashMap<String, usize>,
}

impl Archive {
    #[track_caller]
    pub(crate) fn open(source: &mut Source) -> Result<Archive> {
        let (name, len) = (source.name.clone(), source.len);
        let broken = |why: String| TorshError::format("load", format!("{name}: {why}"));
        let no_zip = |e: &dyn std::fmt::Display| {
            broken(format!("this is no whole zip archive: {e}"))
                .with_hint("it may be cut off; write it again, or copy it again")
        };
        let mut zip = ZipArchive::new(&mut *source).map_err(|e| no_zip(&e))?;
        let directory = zip.central_directory_start();
        let mut out = Archive {
            entries: Vec::new(),
            index: HashMap::new(),
        };
        for i in 0..zip.len() {
            let file = zip.by_index_raw(i).map_err(|e| no_zip(&e))?;
            let name = file.name().to_string();
            if file.is_dir() {
                continue;
            }
            let mut foreign = file.encrypted().then(|| "it is encrypted".to_string());
            let deflated = match file.compression() {
                CompressionMethod::Stored => false,
                CompressionMethod::Deflated => true,
                other => {
                    foreign.get_or_insert(format!(
                        "it is compressed with {other}; stored and deflated files can be read"
                    ));
                    true
                }
            };
            let start = file.data_start();
            let (size, packed) = (file.size(), file.compressed_size());
            let end = start.checked_add(packed).filter(|&end| end <= len);
            let Some(end) = end else {
                return Err(broken(format!("{name} reaches past the end of the file")));
            };
            // Deflate cannot do better than 1032 to 1.
            let impossible = (!deflated && size != packed) || size / 1032 > packed;
            if impossible && foreign.is_none() {
                return Err(broken(format!(
                    "{name} cannot have {size} bytes in {packed}"
                )));
            }
            out.index.insert(name.clone(), out.entries.len());
            out.entries.push(Entry {
                name,
                data: start..end,
                size,
                crc: file.crc32(),
                deflated,
                foreign,
            });
        }
        let listed = zip.len();
        drop(zip);
        if count(source, directory)? > listed {
            return Err(broken("two files of the archive have one name".into()));
        }
        let mut order: Vec<&Entry> = out.entries.iter().filter(|e| !e.data.is_empty()).collect();
        order.sort_by_key(|e| e.data.start);
        if let Some(pair) = order.windows(2).find(|w| w[1].data.start < w[0].data.end) {
            return Err(broken(format!(
                "{} and {} lie over each other",
                pair[0].name, pair[1].name
            )));
        }
        Ok(out)
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Entry> {
        self.index.get(name).map(|&i| &self.entries[i])
    }

    /// The bytes of an entry.
    #[track_caller]
    pub(crate) fn read(&self, source: &mut Source, entry: &Entry) -> Result<Vec<u8>> {
        if let Some(why) = &entry.foreign {
            return Err(source.broken(format!("{}: {why}", entry.name)));
        }
        let bytes = if entry.deflated {
            source.seek(SeekFrom::Start(entry.data.start))?;
            let packed = source.take(entry.data.end - entry.data.start);
            let mut out = Vec::new();
            DeflateDecoder::new(packed)
                // One more than there should be tells a lie.
                .take(entry.size.saturating_add(1))
                .read_to_end(&mut out)
                .map_err(|e| source.broken(format!("{}: {e}", entry.name)))?;
            out
        } else {
            source.range(entry.data.clone())?
        };
        let mut crc = Crc::new();
        crc.update(&bytes);
        if bytes.len() as u64 != entry.size || crc.sum() != entry.crc {
            return Err(damaged(source, entry));
        }
        Ok(bytes)
    }

    /// Computes the checksum of an entry that is not compressed.
    #[track_caller]
    fn verify(&self, source: &mut Source, entry: &Entry) -> Result<()> {
        const BLOCK: u64 = 1 << 20;
        let mut crc = Crc::new();
        let mut at = entry.data.start;
        while at < entry.data.end {
            let end = entry.data.end.min(at + BLOCK);
            crc.update(&source.range(at..end)?);
            at = end;
        }
        match crc.sum() == entry.crc {
            true => Ok(()),
            false => Err(damaged(source, entry)),
        }
    }

    /// The memory of several entries; those that are not compressed may be mapped, and then
    /// nothing is read, nor a checksum computed unless the caller asked for it.
    #[track_caller]
    pub(crate) fn storages(
        &self,
        source: &mut Source,
        entries: &[&Entry],
    ) -> Result<Vec<Shared<Storage>>> {
        let ranges: Vec<Range<u64>> = entries
            .iter()
            .map(|e| self.range(e).unwrap_or(0..0))
            .collect();
        let mut out = source.storages(&ranges)?;
        for (storage, entry) in out.iter_mut().zip(entries) {
            if self.range(entry).is_none() {
                *storage = to_storage(&self.read(source, entry)?)?;
            } else if source.verify {
                self.verify(source, entry)?;
            }
        }
        Ok(out)
    }

    /// Where the bytes of an entry are, if they are in the file as they are.
    pub(crate) fn range(&self, entry: &Entry) -> Option<Range<u64>> {
        (!entry.deflated && entry.foreign.is_none()).then(|| entry.data.clone())
    }
}

#[cold]
#[track_caller]
fn damaged(source: &Source, entry: &Entry) -> TorshError {
    source.broken(format!(
        "{} is damaged: its bytes do not have the checksum written with them",
        entry.name
    ))
}

/// New memory with these bytes.
pub(crate) fn to_storage(bytes: &[u8]) -> Result<Shared<Storage>> {
    Storage::filled(bytes.len(), |to| {
        to.copy_from_slice(bytes);
        Ok(())
    })
    .map(Shared::new)
}

/// How many headers the central directory has: the `zip` crate keeps one of each name.
fn count(source: &mut Source, directory: u64) -> Result<usize> {
    let bytes = source.range(directory.min(source.len)..source.len)?;
    let (mut at, mut n) = (0, 0);
    while let Some(header) = bytes.get(at..at + 46)
        && header.starts_with(b"PK\x01\x02")
    {
        let field = |i| usize::from(u16::from_le_bytes([header[i], header[i + 1]]));
        at += 46 + field(28) + field(30) + field(32);
        n += 1;
    }
    Ok(n)
}

/// Writes archives whose files are stored, each from a multiple of 64 on, so that their tensors
/// can be used where they lie.
pub(crate) struct Writer<W: Write + Seek>(ZipWriter<W>);

fn failed(e: zip::result::ZipError) -> TorshError {
    match e {
        zip::result::ZipError::Io(e) => e.into(),
        e => TorshError::format("save", e.to_string()),
    }
}

impl<W: Write + Seek> Writer<W> {
    pub(crate) fn new(to: W) -> Writer<W> {
        Writer(ZipWriter::new(to))
    }

    /// Adds a file of `size` bytes that `write` gives.
    pub(crate) fn add(
        &mut self,
        name: &str,
        size: u64,
        write: impl FnOnce(&mut dyn Write) -> Result<()>,
    ) -> Result<()> {
        self.add_as(CompressionMethod::Stored, name, size, write)
    }

    /// [`Writer::add`], compressed.
    pub(crate) fn add_deflated(
        &mut self,
        name: &str,
        size: u64,
        write: impl FnOnce(&mut dyn Write) -> Result<()>,
    ) -> Result<()> {
        self.add_as(CompressionMethod::Deflated, name, size, write)
    }

    fn add_as(
        &mut self,
        method: CompressionMethod,
        name: &str,
        size: u64,
        write: impl FnOnce(&mut dyn Write) -> Result<()>,
    ) -> Result<()> {
        let options = SimpleFileOptions::default()
            .compression_method(method)
            .last_modified_time(zip::DateTime::default())
            .with_alignment(64)
            .large_file(size >= u64::from(u32::MAX));
        self.0.start_file(name, options).map_err(failed)?;
        write(&mut self.0)
    }

    pub(crate) fn finish(self) -> Result<W> {
        self.0.finish().map_err(failed)
    }
}
