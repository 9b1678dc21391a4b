//! The golden cases of transformers and tokenizers, and of scores of texts.

use std::path::Path;

use torsh_conformance::source::Source;
use torsh_conformance::text;

/// A part of the cases.
fn passes(part: &str, share: Option<(usize, usize)>, cases: usize) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/text.zip");
    let options = text::Options {
        part: part.to_string(),
        share,
        ..text::Options::default()
    };
    let report = text::run(&Source::open(&path).unwrap(), &options).unwrap();
    assert!(report.failed.is_empty(), "\n{}", report.text(true));
    assert_eq!(report.passed, cases);
}

#[test]
fn every_architecture_passes() {
    passes("architectures", None, 192);
}

#[test]
fn every_tokenizer_passes() {
    passes("tokenizers", None, 3 * 34);
}

#[test]
fn every_score_passes() {
    passes("metrics", None, 41);
}
