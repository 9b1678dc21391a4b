//! Operations as profiles show them: events in a lane of communication.

use std::sync::Arc;
use std::time::{Duration, Instant};

use torsh_profiler::Communication;
use torsh_profiler::communication::{Operation, Report};

use super::Ticket;
use crate::comm::Node;

/// An operation of a rank, for a profile.
struct Profiled {
    ticket: Arc<Ticket>,
    rank: usize,
    engine: &'static str,
}

/// Lets the profiles that record this thread have an operation that it queues.
pub(crate) fn announce(node: &Node, ticket: &Arc<Ticket>) {
    torsh_profiler::communicates(|| {
        Arc::new(Profiled {
            ticket: ticket.clone(),
            rank: node.rank,
            engine: node.engine,
        })
    });
}

impl Operation for Profiled {
    fn report(&self) -> Report {
        let t = &self.ticket;
        let at =
            |ns: u64| -> Option<Instant> { (ns > 0).then(|| t.queued + Duration::from_nanos(ns)) };
        let entry = t.entry();
        let (started, ended) = t.times();
        Report {
            // As PyTorch's `gloo:all_reduce`.
            name: format!("{}:{}", self.engine, t.kind),
            started: at(started),
            ended: at(ended),
            communication: Communication {
                operation: entry.text,
                group: entry.group,
                rank: self.rank,
                bytes_sent: entry.bytes_sent,
                bytes_received: entry.bytes_received,
                state: entry.state,
                caller: entry.caller,
            },
        }
    }
}
