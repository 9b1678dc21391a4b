//! Archives: nothing of them gets outside of the folder, and nothing stays there if an archive is refused.

use std::fs;
use std::path::{Path, PathBuf};

use torsh_fuzz::{Random, Target};
use torsh_vision::datasets::{ExtractOptions, extract_archive_with};

use crate::common::{Folder, entry, gz, noise, seal, tar, zipped};

const MAX_BYTES: u64 = 1 << 16;
const MAX_ENTRIES: u64 = 12;

const WORDS: &[&str] = &[
    "..",
    "../",
    "../../evil",
    "/",
    "./",
    "\\",
    "a",
    "a/one.txt",
    "path=",
    "size=",
    "0",
    "77777777777",
];

/// Names that lead out of the folder, or where something else is.
const NAMES: [&str; 7] = [
    "../evil",
    "a/../../evil",
    "a",
    "a/one.txt/b",
    ".",
    "",
    "a\\b",
];

/// What is below a folder, with the lengths of files.
fn tree(folder: &Path) -> Vec<(PathBuf, u64)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        assert!(kind.is_file() || kind.is_dir(), "{path:?} is {kind:?}");
        let length = match kind.is_dir() {
            true => {
                all.extend(tree(&path));
                0
            }
            false => entry.metadata().unwrap().len(),
        };
        all.push((path, length));
    }
    all.sort();
    all
}

/// Unpacks an archive three folders deep, and looks at what is there then.
fn unpack(root: &Folder, name: &str, bytes: &[u8]) -> Result<(), String> {
    let archive = root.write(&format!("a/b/{name}"), bytes);
    let to = root.0.join("a/b/to");
    let options = ExtractOptions::new()
        .max_bytes(MAX_BYTES)
        .max_entries(MAX_ENTRIES);
    let result = extract_archive_with(&archive, &to, options);
    let inside = tree(&to);
    fs::remove_dir_all(&to).unwrap();
    let outside = tree(&root.0).into_iter().map(|(path, _)| path);
    let outside: Vec<PathBuf> = outside.collect();
    let expected = [root.0.join("a"), root.0.join("a/b"), archive];
    if outside != expected {
        // Other archives are not to blame for it.
        fs::remove_dir_all(&root.0).unwrap();
    }
    assert_eq!(outside, expected);
    match result {
        Ok(()) => {
            let bytes: u64 = inside.iter().map(|(_, length)| length).sum();
            assert!(bytes <= MAX_BYTES, "{inside:?}");
            let aside = to.join(".unpacking");
            let aside = aside.to_string_lossy();
            let left = |(path, _): &(PathBuf, u64)| path.to_string_lossy().starts_with(&*aside);
            assert!(!inside.iter().any(left), "{inside:?}");
            Ok(())
        }
        Err(e) => {
            assert!(inside.is_empty(), "{inside:?} after {e}");
            let text = e.to_string();
            assert!(text.contains(name), "{text}");
            Err(text)
        }
    }
}

/// Writes the checksums of a tar's headers anew: without them most changes would end at once. With `names` some entries get
/// another name or are something else.
fn mend(tar: &mut [u8], names: bool, random: &mut Random) {
    for header in tar.chunks_exact_mut(512) {
        if header[257..262] != *b"ustar" {
            continue;
        }
        if names && random.below(8) == 0 {
            let name = random.one(&NAMES).as_bytes();
            header[..100].fill(0);
            header[..name.len()].copy_from_slice(name);
        }
        if names && random.below(8) == 0 {
            header[156] = *random.one(b"012357Lxg\0");
        }
        seal(header);
    }
}

fn good() -> Vec<u8> {
    let long = format!("{}/{}\0", "d".repeat(90), "f".repeat(90));
    tar(&[
        entry("a/", b'5', b""),
        entry("a/one.txt", b'0', b"one"),
        entry("././@LongLink", b'L', long.as_bytes()),
        entry("short", b'0', b"long"),
        entry("x", b'x', b"21 path=pax/name.txt\n"),
        entry("short", 0, &noise(1000, 1)),
        entry("empty", b'0', b""),
    ])
}

/// Archives that are refused.
fn hostile() -> Vec<Vec<u8>> {
    let ok = entry("ok", b'0', b"fine");
    vec![
        tar(&[ok.clone(), entry("../evil", b'0', b"x")]),
        tar(&[ok.clone(), entry("link", b'2', b"")]),
        tar(&[entry("x", b'x', b"17 path=../../up\n"), ok.clone()]),
        tar(&vec![ok; MAX_ENTRIES as usize + 1]),
        tar(&[entry("large", b'0', &vec![0; MAX_BYTES as usize + 1])]),
    ]
}

/// Tar archives, in a file of this name, packed.
fn tars(target: &'static str, name: &'static str, pack: fn(&[u8]) -> Vec<u8>) -> Target {
    let (root, whole) = (Folder::new(), good());
    Target::new(target, vec![good()], move |bytes, random| {
        let mut tar = bytes.to_vec();
        if random.below(4) != 0 {
            mend(&mut tar, bytes != whole, random);
        }
        unpack(&root, name, &pack(&tar))
    })
    .others(hostile())
    .words(WORDS)
}

/// Archives as they are.
fn archives(target: &'static str, name: &'static str, good: Vec<Vec<u8>>) -> Target {
    let root = Folder::new();
    Target::new(target, good, move |bytes, _| unpack(&root, name, bytes)).words(WORDS)
}

/// A zip archive with a link.
fn link() -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default();
    zip.add_symlink("link", "../../evil", options).unwrap();
    zip.finish().unwrap().into_inner()
}

pub fn targets() -> Vec<Target> {
    let files: [(&str, &[u8]); 2] = [("b/two.txt", b"two"), ("three", b"3")];
    let large = vec![0; 1 << 20];
    vec![
        tars("tar", "changed.tar", <[u8]>::to_vec),
        tars("tar-in-gz", "changed.tar.gz", gz),
        archives("tar.gz", "changed.tar.gz", vec![gz(&good())]).header(),
        archives(
            "zip",
            "changed.zip",
            vec![zipped(&files), zipped(&[("n", &noise(900, 2))])],
        )
        .others(vec![
            zipped(&[("ok", b"1"), ("../evil", b"x")]),
            zipped(&[("a", b"1"), ("a/b", b"x")]),
            zipped(&[("large", &large)]),
            link(),
        ]),
        archives("gz", "changed.txt.gz", vec![gz(b"four"), gz(b"")])
            .others(vec![gz(&large)])
            .header(),
    ]
}
