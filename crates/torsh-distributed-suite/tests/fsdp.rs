//! The checks of sharded modules on threads.

use torsh_distributed::spawn;
use torsh_distributed_suite::fsdp;

#[test]
fn sharded_modules_pass_the_checks() {
    for n in 1..=4 {
        spawn(n, |g| fsdp::run(&g)).expect("the checks pass");
    }
}
