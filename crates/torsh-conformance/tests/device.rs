//! The shipped golden cases of operators on a device beside the CPU: a part of them in each run.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use torsh_conformance::device::OnDevice;
use torsh_conformance::runner::{self, Options};
use torsh_conformance::source::Source;

/// In how many parts all files are run, one after the other.
const PARTS: u64 = 8;

/// The part of this run: `TORSH_CASES_PART`, or another one each day.
fn part() -> u64 {
    match std::env::var("TORSH_CASES_PART") {
        Ok(text) => text.parse::<u64>().expect("a number") % PARTS,
        Err(_) => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            now.expect("after 1970").as_secs() / 86_400 % PARTS
        }
    }
}

#[test]
fn a_part_of_the_shipped_cases_passes_on_the_mock_device() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/ops.zip");
    let source = Source::open(&path).unwrap();
    let all = source.list("ops").unwrap();
    let part = part();
    let numbered = (0..).zip(&all);
    let (run, left): (Vec<_>, Vec<_>) = numbered.partition(|(i, _)| i % PARTS == part);
    let names = |of: Vec<(u64, &String)>| -> Vec<String> {
        of.into_iter().map(|(_, s)| s.clone()).collect()
    };
    println!(
        "part {part} of {PARTS} (TORSH_CASES_PART chooses another); left out: {}",
        names(left).join(", ")
    );
    let options = Options {
        ops: names(run),
        ..Options::default()
    };
    let executor = OnDevice::new("mock").unwrap();
    let report = runner::run(&source, &executor, &options).unwrap();
    let text = report.text(true);
    println!("{text}");
    assert_eq!(report.failed(), 0, "\n{text}");
    assert!(report.absent().is_empty(), "{:?}", report.absent());
    assert!(report.passed() > 200, "\n{text}");
    // Nothing that a device lacks is computed on the CPU in silence.
    assert_eq!(torsh_tensor::devices::fallbacks(), []);
    assert!(text.contains("computed by their definitions"), "{text}");
    for reason in report.left_out().keys() {
        assert!(
            reason.ends_with("float64") || reason.contains("complex"),
            "{reason}"
        );
    }
}
