//! Numbers that stand in a document and in a source, and lists that the documents repeat.

use super::tree::{documents, squeezed, text};

/// A document, what it says, a source, and its line that makes it true. White space does not count. Who changes one of
/// the two changes the other.
const FACTS: &[[&str; 4]] = &[
    [
        "docs/architecture/ops.md",
        "a function in `torsh-backend-cpu`, listed in `torsh-backend-cpu/src/kernels.rs`",
        "torsh-backend-cpu/src/kernels.rs",
        "/// The kernel for a key; `None` where the CPU has none. pub(crate) fn kernel(",
    ],
    [
        "docs/architecture/core.md",
        "no allocation for up to seven words",
        "torsh-core/src/attrs/saved.rs",
        "const WORDS: usize = 7;",
    ],
    [
        "docs/architecture/devices.md",
        "from a pool of 32 for each device and priority",
        "torsh-tensor/src/stream.rs",
        "const POOL: usize = 32;",
    ],
    [
        "docs/architecture/distributed.md",
        "naps for up to 200 us",
        "torsh-distributed/src/comm/thread.rs",
        "const NAPS: (u64, u64) = (5, 200);",
    ],
    [
        "docs/architecture/distributed.md",
        "the last 2,000 operations",
        "torsh-distributed/src/failure.rs",
        "const KEPT: usize = 2000;",
    ],
    [
        "docs/distributed.md",
        "The last 2,000 operations",
        "torsh-distributed/src/failure.rs",
        "const KEPT: usize = 2000;",
    ],
    [
        "docs/distributed.md",
        "the deadline of operations in seconds; 600 otherwise",
        "torsh-distributed/src/group.rs",
        "const TIMEOUT: Duration = Duration::from_secs(600);",
    ],
    [
        "docs/distributed.md",
        "a gather is messages between pairs of ranks, 8 otherwise",
        "torsh-distributed/src/engine/mpi_common.rs",
        "const PAIRS_UP_TO: usize = 8;",
    ],
    [
        "docs/architecture/cpu.md",
        "one of five described processors",
        "torsh-core/src/machine.rs",
        "pub const DESCRIBED: [&'static str; 5]",
    ],
    [
        "docs/architecture/linalg.md",
        "batch of at least four real matrices of up to 32 rows",
        "torsh-linalg/src/kernels/tuning.rs",
        "const LANES_SIDE: usize = 32;",
    ],
    [
        "docs/architecture/linalg.md",
        "a second thread only from 16 million multiply-adds on",
        "torsh-linalg/src/kernels/tuning.rs",
        "const SHARE: usize = 8 << 20;",
    ],
    [
        "docs/architecture/linalg.md",
        "Parts of up to 64 rows take the QL algorithm",
        "torsh-linalg/src/kernels/tuning.rs",
        "const PART: usize = 64;",
    ],
    [
        "docs/architecture/linalg.md",
        "of up to 100 rows are found by Francis' double steps",
        "torsh-linalg/src/kernels/tuning.rs",
        "const DOUBLE_STEPS_SIDE: usize = 100;",
    ],
    [
        "docs/architecture/cpu.md",
        "one constant, 8 microseconds",
        "torsh-backend-cpu/src/machine/tuning.rs",
        "const THREAD_WORK: usize = 1 << 23;",
    ],
    [
        "docs/architecture/cpu.md",
        "blocks of 48 queries and 512 keys",
        "torsh-backend-cpu/src/machine/tuning.rs",
        "const QUERIES: usize = 48; /// Keys of a block. pub(crate) const KEYS: usize = 512;",
    ],
    [
        "docs/architecture/cpu.md",
        "Up to eight queries for each head of keys",
        "torsh-backend-cpu/src/machine/tuning.rs",
        "/// Queries for each head of keys up to which keys and values are not packed. pub(crate) const QUERIES: usize = 8;",
    ],
    [
        "docs/architecture/cpu.md",
        "idle thread spins for 10 us",
        "torsh-core/src/pool/sync.rs",
        "spin: Duration::from_micros(10),",
    ],
    [
        "docs/performance.md",
        "An idle thread spins for 10 us",
        "torsh-core/src/pool/sync.rs",
        "spin: Duration::from_micros(10),",
    ],
    [
        "docs/architecture/core.md",
        "blocks of at most 4 KiB come from free lists",
        "torsh-core/src/alloc/small.rs",
        "const LARGEST: usize = 4096;",
    ],
    [
        "docs/architecture/core.md",
        "to 512 bytes, or to 4 KiB above 1 MiB",
        "torsh-core/src/alloc.rs",
        "rounded up to 512 bytes, or to 4 KiB above 1 MiB.",
    ],
];

#[test]
fn numbers_are_those_of_the_sources() {
    for [document, said, source, line] in FACTS {
        let page = squeezed(&text(document));
        assert!(
            page.contains(&squeezed(said)),
            "{document} no longer says: {said}"
        );
        let source_text = squeezed(&text(&format!("crates/{source}")));
        assert!(
            source_text.contains(&squeezed(line)),
            "{document} says {said:?}, and {source} no longer has the line {line:?}"
        );
    }
}

#[test]
fn the_readme_counts_operators() {
    let page = text("OPERATORS.md");
    let table = page
        .split("## Other names")
        .next()
        .expect("the first table");
    let rows = table.lines().filter(|l| l.starts_with("| `")).count();
    let counted = table
        .lines()
        .find_map(|l| l.strip_suffix(" names."))
        .expect("the number of names");
    assert_eq!(counted, rows.to_string(), "OPERATORS.md");
    let readme = text("README.md");
    let said = readme
        .split("more than [")
        .nth(1)
        .and_then(|r| r.split(' ').next())
        .expect("a number");
    let said: usize = said.parse().expect("a number");
    // Names of one operator count once there, so the number of names is well above.
    assert!(
        said < rows && rows < 2 * said,
        "README.md says more than {said} operators of {rows} names"
    );
}

#[test]
fn the_tables_have_as_many_workloads_as_the_readme_says() {
    let readme = text("README.md");
    let said = readme
        .split(" benchmark workloads")
        .next()
        .and_then(|r| r.rsplit(' ').next());
    let said: usize = said
        .and_then(|n| n.parse().ok())
        .expect("a number of workloads");
    assert!(readme.contains(&format!("geometric mean of {said}")));
    assert!(readme.contains(&format!("has all {said} workloads")));
    let page = text("docs/performance.md");
    // Rows between two lines that are none, as long as the largest table.
    let tables = page
        .split("\n\n")
        .map(|t| t.lines().filter(|l| l.starts_with("| `")).count());
    assert!(
        tables.clone().any(|rows| rows == said),
        "no table of {said} workloads: {:?}",
        tables.max()
    );
}

#[test]
fn the_rust_version_is_that_of_the_workspace() {
    let manifest: toml::Table = text("Cargo.toml").parse().expect("a manifest");
    let version = manifest["workspace"]["package"]["rust-version"]
        .as_str()
        .expect("a version");
    let mut seen = 0;
    for (file, page) in documents() {
        for start in page.match_indices(" or newer").map(|(i, _)| i) {
            let before = &page[..start];
            let said = before.rsplit(' ').next().unwrap_or_default();
            if said.starts_with("1.") {
                seen += 1;
                assert_eq!(said, version, "{file}");
            }
        }
    }
    assert!(seen >= 3, "only {seen} places name the version of Rust");
}
