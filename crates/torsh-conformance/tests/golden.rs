//! Every shipped golden case of every operator that exists.

use std::path::Path;

use torsh_conformance::executor::Executor;
use torsh_conformance::runner::{self, Options};
use torsh_conformance::source::Source;
use torsh_conformance::torsh::Torsh;

/// Operators that must exist: without this list, one that is lost would only be "absent".
const REQUIRED: &[&str] = &[];

#[test]
fn every_shipped_case_passes() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/ops.zip");
    let options = Options {
        threads: 4,
        ..Options::default()
    };
    let report = runner::run(&Source::open(&path).unwrap(), &Torsh, &options).unwrap();
    assert_eq!(report.failed(), 0, "\n{}", report.text(false));
    assert!(report.passed() > 0);
}

#[test]
fn required_operators_exist() {
    let absent = |op: &&str| !Torsh.has(op);
    let absent: Vec<_> = REQUIRED.iter().copied().filter(absent).collect();
    assert!(absent.is_empty(), "{absent:?}");
}
