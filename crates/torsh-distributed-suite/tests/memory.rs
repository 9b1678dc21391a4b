//! What ranks hold. Alone in its program: ranks that are threads share one allocator.

use torsh_distributed::spawn;
use torsh_distributed_suite::fsdp;

#[test]
fn each_rank_holds_its_share() {
    // One rank holds what one process does.
    for ranks in [1, 2, 3, 4] {
        spawn(ranks, |group| fsdp::memory(&group)).expect("its share");
    }
}
