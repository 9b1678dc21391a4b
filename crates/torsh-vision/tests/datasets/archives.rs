//! Archives, and what hostile ones come to.

use std::fs;

use torsh_tensor::Result;
use torsh_vision::datasets::{ExtractOptions, extract_archive, extract_archive_with};

use super::refused;
use crate::common::{Folder, entry, gz, noise, seal, tar, zipped};

#[test]
fn archives() -> Result<()> {
    let root = Folder::new();
    let to = root.0.join("out");
    let text = |name: &str| fs::read_to_string(to.join(name)).unwrap();
    let long = format!("{}/{}", "d".repeat(90), "f".repeat(90));
    let files = tar(&[
        entry("a/", b'5', b""),
        entry("a/one.txt", b'0', b"one"),
        entry("././@LongLink", b'L', format!("{long}\0").as_bytes()),
        entry("short", b'0', b"long"),
        entry("x", b'x', b"21 path=pax/name.txt\n"),
        entry("short", 0, &noise(1000, 1)),
        entry("empty", b'0', b""),
    ]);
    for (name, bytes) in [
        ("a.tar", files.clone()),
        ("a.tar.gz", gz(&files)),
        ("a.tgz", gz(&files)),
    ] {
        extract_archive(root.write(name, bytes), &to)?;
        assert_eq!(
            (text("a/one.txt"), text(&long), text("empty")),
            ("one".into(), "long".into(), String::new())
        );
        assert_eq!(fs::read(to.join("pax/name.txt")).unwrap(), noise(1000, 1));
        fs::remove_dir_all(&to).unwrap();
    }
    extract_archive(
        root.write("b.zip", zipped(&[("b/two.txt", b"two"), ("three", b"3")])),
        &to,
    )?;
    extract_archive(root.write("four.txt.gz", gz(b"four")), &to)?;
    // Into folders that are there.
    extract_archive(
        root.write("c.zip", zipped(&[("b/five", b"5"), ("three", b"new")])),
        &to,
    )?;
    assert_eq!(
        [
            text("b/two.txt"),
            text("b/five"),
            text("three"),
            text("four.txt")
        ],
        ["two", "5", "new", "four"]
    );
    let left = fs::read_dir(&to).unwrap().count();
    assert_eq!(left, 3, "nothing else is left");

    // Hostile ones, of which nothing is left.
    let fresh = root.0.join("hostile");
    let refuse = |name: &str, bytes: Vec<u8>, words: &[&str]| {
        let path = root.write(name, bytes);
        let mut all = vec![name];
        all.extend(words);
        refused(extract_archive(&path, &fresh), &all);
        assert_eq!(
            fs::read_dir(&fresh).unwrap().count(),
            0,
            "{name} left something"
        );
    };
    let ok = entry("ok", b'0', b"fine");
    refuse(
        "up.tar",
        tar(&[ok.clone(), entry("../evil", b'0', b"x")]),
        &["../evil", "leads out"],
    );
    refuse(
        "root.tar",
        tar(&[entry("/tmp/evil", b'0', b"x")]),
        &["/tmp/evil", "leads out"],
    );
    refuse(
        "link.tar",
        tar(&[ok.clone(), entry("link", b'2', b""), ok.clone()]),
        &["link", "links are not"],
    );
    refuse(
        "hard.tar",
        tar(&[entry("link", b'1', b"")]),
        &["links are not"],
    );
    refuse(
        "device.tar",
        tar(&[entry("device", b'3', b"")]),
        &["device"],
    );
    refuse(
        "paxup.tar",
        tar(&[entry("x", b'x', b"17 path=../../up\n"), ok.clone()]),
        &["../../up"],
    );
    refuse("cut.tar", files[..1600].to_vec(), &["cut short"]);
    refuse("cut.tar.gz", gz(&files)[..150].to_vec(), &["cut.tar.gz"]);
    refuse(
        "text.tar",
        b"no archive at all".to_vec(),
        &["neither tar nor zip"],
    );
    refuse(
        "up.zip",
        zipped(&[("ok", b"1"), ("../evil", b"x")]),
        &["../evil", "leads out"],
    );
    let whole = zipped(&[("a", &noise(9000, 1))]);
    refuse("cut.zip", whole[..whole.len() / 2].to_vec(), &["damaged"]);
    let mut wrong = zipped(&[("name", b"some text that is there")]);
    let at = wrong.windows(4).position(|w| w == b"some").unwrap_or(40);
    wrong[at] ^= 1;
    refuse("wrong.zip", wrong, &["name"]);
    // A size of 2^63 - 1 bytes in base 256, and names of a gigabyte.
    let resized = |mut entry: Vec<u8>, size: [u8; 12]| {
        entry[124..136].copy_from_slice(&size);
        seal(&mut entry);
        entry
    };
    let huge = [0x80, 0, 0, 0, 0x7f, 255, 255, 255, 255, 255, 255, 255];
    refuse(
        "huge.tar",
        tar(&[resized(ok.clone(), huge)]),
        &["more than"],
    );
    let name = resized(entry("x", b'L', b"y"), *b"07777777777\0");
    refuse("name.tar", tar(&[name]), &["too long"]);

    // Bounds.
    let zeros = root.write("zeros.gz", gz(&vec![0; 1 << 20]));
    let small = ExtractOptions::new().max_bytes(1 << 16);
    refused(
        extract_archive_with(&zeros, &fresh, small),
        &["zeros.gz", "more than 65536 bytes"],
    );
    let many = tar(&vec![ok; 20]);
    let many = root.write("many.tar", many);
    let few = ExtractOptions::new().max_entries(10);
    refused(
        extract_archive_with(&many, &fresh, few),
        &["many.tar", "more than 10 files"],
    );
    Ok(())
}
