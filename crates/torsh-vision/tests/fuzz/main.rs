//! Changes images, archives and files of data sets at random: whatever comes of it is read or is an error, within bounded
//! memory.

mod archives;
#[path = "../common/mod.rs"]
mod common;
mod datasets;
mod images;

use torsh_fuzz::Fuzz;

#[test]
fn changed_files_are_read_or_refused() {
    let mut targets = images::targets();
    targets.extend(archives::targets());
    targets.extend(datasets::targets());
    Fuzz::new(env!("CARGO_PKG_NAME"))
        .rounds(100)
        .memory(1 << 30)
        .message(4096)
        .run(targets);
}
