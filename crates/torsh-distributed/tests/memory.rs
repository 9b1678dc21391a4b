//! What ranks hold. Alone in its program: ranks that are threads share one allocator.

use torsh_distributed::{spawn, suite};

#[test]
fn each_rank_holds_its_share() {
    // One rank holds what one process does.
    for ranks in [1, 2, 3, 4] {
        spawn(ranks, |group| suite::fsdp::memory(&group)).expect("its share");
    }
}
