//! Directories and archives hold the same cases; packing makes one of the other.

use std::fs;
use std::path::PathBuf;

use torsh_conformance::source::{Source, pack};

const CORE: &str = r#"{"op": "add", "variant": "", "cases": [], "errors": []}"#;
const FULL: &str = r#"{"op": "svd", "variant": "", "cases": [], "errors": []}"#;

fn directory(name: &str) -> PathBuf {
    let root = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&root);
    fs::create_dir_all(root.join("ops")).unwrap();
    fs::create_dir_all(root.join("modules")).unwrap();
    let files = [
        (
            "TIERS.json",
            r#"{"core": ["add"], "full": ["svd"], "full_variants": ["add.hard"]}"#,
        ),
        ("promotion.json", r#"{"rows": []}"#),
        ("ops/add.json", CORE),
        ("ops/add.safetensors", "tensors"),
        ("ops/add.hard.json", CORE),
        ("ops/svd.json", FULL),
        ("modules/Linear.json", "{}"),
    ];
    for (name, text) in files {
        fs::write(root.join(name), text).unwrap();
    }
    root
}

#[test]
fn the_parent_and_each_part_can_be_given() {
    let root = directory("parts");
    let parent = Source::open(&root).unwrap();
    assert_eq!(parent.list("ops").unwrap(), ["add", "add.hard", "svd"]);
    assert_eq!(parent.list("modules").unwrap(), ["Linear"]);
    assert_eq!(parent.list("training").unwrap(), Vec::<String>::new());
    assert!(parent.read("promotion.json").unwrap().is_some());
    let ops = Source::open(&root.join("ops")).unwrap();
    assert_eq!(ops.list("ops").unwrap(), ["add", "add.hard", "svd"]);
    assert_eq!(ops.read("ops/add.json").unwrap().unwrap(), CORE.as_bytes());
    assert!(ops.read("TIERS.json").unwrap().is_some());
    assert_eq!(ops.read("promotion.json").unwrap(), None);
    let modules = Source::open(&root.join("modules")).unwrap();
    assert_eq!(modules.list("ops").unwrap(), Vec::<String>::new());
    assert_eq!(modules.list("modules").unwrap(), ["Linear"]);
}

#[test]
fn an_archive_holds_the_core_tier() {
    let root = directory("packed");
    let path = root.join("ops.zip");
    assert_eq!(pack(&Source::open(&root).unwrap(), &path), Ok(1));
    let archive = Source::open(&path).unwrap();
    assert_eq!(archive.list("ops").unwrap(), ["add"]);
    assert_eq!(archive.list("modules").unwrap(), Vec::<String>::new());
    assert_eq!(
        archive.read("ops/add.safetensors").unwrap().unwrap(),
        b"tensors"
    );
    assert_eq!(
        archive.read("promotion.json").unwrap().unwrap(),
        br#"{"rows": []}"#
    );
    assert_eq!(archive.read("ops/svd.json").unwrap(), None);
}

#[test]
fn an_archive_of_modules_holds_all_of_them() {
    let root = directory("packed modules");
    let path = root.join("modules.zip");
    let modules = Source::open(&root.join("modules")).unwrap();
    assert_eq!(pack(&modules, &path), Ok(1));
    let archive = Source::open(&path).unwrap();
    assert_eq!(archive.list("modules").unwrap(), ["Linear"]);
    assert_eq!(archive.list("ops").unwrap(), Vec::<String>::new());
    assert_eq!(archive.read("modules/Linear.json").unwrap().unwrap(), b"{}");
    assert_eq!(archive.read("TIERS.json").unwrap(), None);
}

#[test]
fn what_is_no_source_is_refused() {
    let root = directory("refused");
    assert!(
        Source::open(&root.join("nowhere"))
            .unwrap_err()
            .contains("nowhere")
    );
    assert!(Source::open(&root.join("TIERS.json")).is_err());
    fs::create_dir_all(root.join("empty")).unwrap();
    assert!(
        Source::open(&root.join("empty"))
            .unwrap_err()
            .contains("neither ops")
    );
}
