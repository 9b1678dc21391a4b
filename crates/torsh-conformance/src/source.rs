//! Sources of golden cases: a directory, or a zip archive of the same layout.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use crate::case::OpFile;
use crate::tiers::{Tier, Tiers};

/// The kinds of golden files, each in a directory of its name.
pub const SECTIONS: [&str; 9] = [
    "ops",
    "decompose",
    "modules",
    "training",
    "special",
    "points",
    "models",
    "text",
    "sparse",
];

/// A set of golden files.
#[derive(Debug)]
pub struct Source(Kind);

#[derive(Debug)]
enum Kind {
    Directory {
        /// Holds what stands beside the sections (`promotion.json`), if the parent was given.
        root: Option<PathBuf>,
        sections: BTreeMap<&'static str, PathBuf>,
        tiers: PathBuf,
    },
    Archive {
        names: Vec<String>,
        archive: Mutex<ZipArchive<BufReader<File>>>,
    },
}

impl Source {
    /// Opens a directory (`ops`, `decompose`, `modules`, `training`, or their parent) or a zip file.
    ///
    /// # Errors
    /// Not there, not a zip archive, or a directory without golden files.
    pub fn open(path: &Path) -> Result<Source, String> {
        let fail = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
        if path.is_file() {
            let file = File::open(path).map_err(|e| fail(&e))?;
            let archive = ZipArchive::new(BufReader::new(file)).map_err(|e| fail(&e))?;
            let names = archive.file_names().map(str::to_string).collect();
            return Ok(Source(Kind::Archive {
                names,
                archive: Mutex::new(archive),
            }));
        }
        let path = path.canonicalize().map_err(|e| fail(&e))?;
        let mut sections = BTreeMap::new();
        for name in SECTIONS {
            if path.join(name).is_dir() {
                sections.insert(name, path.join(name));
            }
        }
        let named = |s: &&&str| path.file_name().is_some_and(|n| n == **s);
        let section = SECTIONS.iter().find(named).copied();
        let beside = ["promotion.json", "printing.json"]
            .iter()
            .any(|f| path.join(f).is_file());
        // A section may have its own `printing.json`.
        if !sections.is_empty() || beside && section.is_none() {
            let tiers = path.join("TIERS.json");
            return Ok(Source(Kind::Directory {
                root: Some(path),
                sections,
                tiers,
            }));
        }
        if stems(&path)?.is_empty() {
            return Err(fail(
                &"neither ops, modules, training or special inside, nor .json files",
            ));
        }
        sections.insert(section.unwrap_or("ops"), path.clone());
        let tiers = path.parent().unwrap_or(&path).join("TIERS.json");
        Ok(Source(Kind::Directory {
            root: None,
            sections,
            tiers,
        }))
    }

    /// Opens a directory of one section, whatever its name, or what [`Source::open`] opens.
    ///
    /// # Errors
    /// As [`Source::open`].
    pub fn open_section(path: &Path, section: &'static str) -> Result<Source, String> {
        if path.is_file() || path.join(section).is_dir() {
            return Source::open(path);
        }
        let fail = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
        let path = path.canonicalize().map_err(|e| fail(&e))?;
        if stems(&path)?.is_empty() {
            return Err(fail(&"no .json files"));
        }
        let tiers = path.parent().unwrap_or(&path).join("TIERS.json");
        Ok(Source(Kind::Directory {
            root: None,
            sections: BTreeMap::from([(section, path)]),
            tiers,
        }))
    }

    /// The files of a section, sorted, without `.json`.
    ///
    /// # Errors
    /// A directory that cannot be read.
    pub fn list(&self, section: &str) -> Result<Vec<String>, String> {
        match &self.0 {
            Kind::Directory { sections, .. } => match sections.get(section) {
                Some(directory) => stems(directory),
                None => Ok(Vec::new()),
            },
            Kind::Archive { names, .. } => {
                let stem = |n: &String| {
                    let n = n
                        .strip_prefix(section)?
                        .strip_prefix('/')?
                        .strip_suffix(".json")?;
                    Some(n.to_string())
                };
                let mut stems: Vec<_> = names.iter().filter_map(stem).collect();
                stems.sort();
                Ok(stems)
            }
        }
    }

    /// The tiers of operators; the project's own where the source has none.
    ///
    /// # Errors
    /// A file that is not of the format.
    pub fn tiers(&self) -> Result<Tiers, String> {
        Tiers::of_file(self.read("TIERS.json")?.as_deref())
    }

    /// The bytes of a file such as `ops/add.json` or `promotion.json`; `None` if it is not there.
    ///
    /// # Errors
    /// A file that is there and cannot be read.
    pub fn read(&self, name: &str) -> Result<Option<Vec<u8>>, String> {
        match &self.0 {
            Kind::Directory {
                root,
                sections,
                tiers,
            } => {
                let path = match name.split_once('/') {
                    Some((section, file)) => sections.get(section).map(|d| d.join(file)),
                    None if name == "TIERS.json" => Some(tiers.clone()),
                    None => root.as_ref().map(|d| d.join(name)),
                };
                let Some(path) = path else { return Ok(None) };
                match std::fs::read(&path) {
                    Ok(bytes) => Ok(Some(bytes)),
                    Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
                    Err(e) => Err(format!("{}: {e}", path.display())),
                }
            }
            Kind::Archive { archive, .. } => {
                let mut archive = archive.lock().unwrap_or_else(PoisonError::into_inner);
                let mut file = match archive.by_name(name) {
                    Ok(file) => file,
                    Err(zip::result::ZipError::FileNotFound) => return Ok(None),
                    Err(e) => return Err(format!("{name}: {e}")),
                };
                let mut bytes = Vec::new();
                file.read_to_end(&mut bytes)
                    .map_err(|e| format!("{name}: {e}"))?;
                Ok(Some(bytes))
            }
        }
    }
}

fn stems(directory: &Path) -> Result<Vec<String>, String> {
    let fail = |e: io::Error| format!("{}: {e}", directory.display());
    let mut stems = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(fail)? {
        let name = entry.map_err(fail)?.file_name();
        if let Some(stem) = name.to_str().and_then(|n| n.strip_suffix(".json")) {
            stems.push(stem.to_string());
        }
    }
    stems.sort();
    Ok(stems)
}

/// Writes the archive that the tests run: the operators of the core tier, promotion, printing and
/// the tiers, or, where the source has none of these, all of its decompositions, modules, training files, texts and
/// sparse tensors. Of a source
/// of vision models, everything. Returns how many files of cases it holds.
///
/// # Errors
/// Files that cannot be read, parsed or written.
pub fn pack(source: &Source, to: &Path) -> Result<usize, String> {
    let fail = |e: &dyn std::fmt::Display| format!("{}: {e}", to.display());
    let tiers = source.tiers()?;
    let mut zip = ZipWriter::new(File::create(to).map_err(|e| fail(&e))?);
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .compression_level(Some(9));
    let mut add = |name: &str| -> Result<(), String> {
        let Some(bytes) = source.read(name)? else {
            return Ok(());
        };
        zip.start_file(name, options).map_err(|e| fail(&e))?;
        zip.write_all(&bytes).map_err(|e| fail(&e))
    };
    let ops = source.list("ops")?;
    let models = source.list("models")?;
    let core = !ops.is_empty() && models.is_empty();
    let sections: &[&str] = match (core, models.is_empty()) {
        (true, _) => &["ops"],
        (false, true) => &[
            "decompose",
            "modules",
            "training",
            "special",
            "text",
            "sparse",
        ],
        (false, false) => &["models", "ops"],
    };
    let mut packed = 0;
    for section in sections {
        for stem in source.list(section)? {
            let name = format!("{section}/{stem}.json");
            if core {
                let bytes = source.read(&name)?.unwrap_or_default();
                let file = OpFile::parse(&bytes).map_err(|e| format!("{name}: {e}"))?;
                if tiers.of(&file.op, &stem) != Tier::Core {
                    continue;
                }
            }
            add(&name)?;
            add(&format!("{section}/{stem}.safetensors"))?;
            packed += 1;
        }
    }
    if core {
        for name in [
            "TIERS.json",
            "promotion.json",
            "printing.json",
            "printing.safetensors",
        ] {
            add(name)?;
        }
    }
    zip.finish().map_err(|e| fail(&e))?;
    Ok(packed)
}
