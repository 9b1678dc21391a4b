//! Changes files and texts of somebody else at random: what comes of it is read or is an error, within bounded memory
//! and time.

#[path = "../common/mod.rs"]
mod common;
mod containers;
mod targets;

use torsh_core::alloc;
use torsh_fuzz::Fuzz;

#[test]
fn changed_files_are_read_or_refused() {
    // More than tensors of small files may take.
    alloc::set_limit(Some(256 << 20));
    Fuzz::new(env!("CARGO_PKG_NAME"))
        .rounds(60)
        .memory(1 << 30)
        .run(targets::targets());
    std::fs::remove_dir_all(targets::folder()).expect("the folder of the targets");
}
