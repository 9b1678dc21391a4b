//! The checks of checkpoints on threads.

use torsh_distributed::spawn;
use torsh_distributed_suite::checkpoint::{measure, section};

fn on_threads(name: &str, ranks: &[usize]) {
    for &n in ranks {
        spawn(n, |g| section(&g, name)).unwrap_or_else(|e| panic!("{n} ranks: {e}"));
    }
}

#[test]
fn any_layout_loads_as_any_other() {
    on_threads("layouts", &[1, 2, 3, 4]);
}

#[test]
fn a_run_goes_on_bit_for_bit() {
    on_threads("resumed", &[1, 2, 3]);
}

#[test]
fn sharded_models_load_at_other_numbers_of_ranks() {
    on_threads("sharded", &[1, 2, 4]);
}

#[test]
fn a_save_that_fails_leaves_the_old_checkpoint() {
    on_threads("interrupted", &[1, 2, 3]);
}

#[test]
fn damaged_files_are_named() {
    on_threads("damaged", &[1, 3]);
}

#[test]
#[ignore = "a measurement: 1 GiB by two ranks, beside tests/data/dcp_time.py of torsh-distributed"]
fn speed() {
    let times = spawn(2, |g| measure(&g, 1 << 30)).expect("measures");
    let [save, pause, both, load] = times[0];
    println!(
        "save: {save:.3} s\npause of save_async: {pause:.3} s\nsave_async: {both:.3} s\nload: {load:.3} s"
    );
}
