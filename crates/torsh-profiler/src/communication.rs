//! Communication: operations that another thread carries out after the call that queued them.

use std::sync::Arc;
use std::time::Instant;

use crate::event::{EventKind, FunctionEvent, ThreadName};

/// The numbers of the lanes of communication among a profile's threads begin here, beyond those of threads.
const LANES: usize = 1 << 20;

/// What an event of communication did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Communication {
    /// The operation with its number, dtype and shape, as all ranks of the group agree on it: `all_reduce(sum) #3
    /// float32[2]`.
    pub operation: String,
    /// The name of the group of ranks.
    pub group: String,
    /// The rank that the profiled program is, of all.
    pub rank: usize,
    /// The bytes that it sent to other ranks; a byte counts once for each rank that it goes to.
    pub bytes_sent: u64,
    /// The bytes that it received from other ranks.
    pub bytes_received: u64,
    /// `queued`, `under way`, `done` or `failed`.
    pub state: String,
    /// Where it was called, as `file:line:column`.
    pub caller: String,
}

/// What an [`Operation`] says of itself.
#[derive(Clone, Debug)]
pub struct Report {
    /// The name of the event, as `mpi-abi:all_reduce`.
    pub name: String,
    /// When it began, if it has.
    pub started: Option<Instant>,
    /// When it ended, if it has.
    pub ended: Option<Instant>,
    /// What it did so far.
    pub communication: Communication,
}

/// An operation of communication that a profile asks how it went.
pub trait Operation: Send + Sync {
    /// What is known of it now. Not asked while it is under way, but when the profile is read.
    fn report(&self) -> Report;
}

/// The events of operations, in lanes of which each has one at a time, and the lanes. `began` is when the profile did,
/// `now` when it ended, or now.
pub(crate) fn lanes(
    operations: &[Arc<dyn Operation>],
    began: Instant,
    now: Instant,
) -> (Vec<FunctionEvent>, Vec<ThreadName>) {
    let us = |at: Instant| at.min(now).saturating_duration_since(began).as_secs_f64() * 1e6;
    let mut spans: Vec<(f64, f64, Report)> = operations
        .iter()
        .map(|o| o.report())
        .map(|r| {
            let start = us(r.started.unwrap_or(now));
            (start, us(r.ended.unwrap_or(now)).max(start), r)
        })
        .collect();
    spans.sort_by(|a, b| a.0.total_cmp(&b.0));
    // The rank of each lane, and when its last event ended.
    let mut lanes: Vec<(usize, f64)> = Vec::new();
    let mut events = Vec::with_capacity(spans.len());
    for (start, end, report) in spans {
        let rank = report.communication.rank;
        let free = lanes.iter().position(|&(r, e)| r == rank && e <= start);
        let lane = free.unwrap_or_else(|| {
            lanes.push((rank, 0.0));
            lanes.len() - 1
        });
        lanes[lane].1 = end;
        events.push(FunctionEvent {
            name: report.name,
            kind: EventKind::Communication,
            thread: LANES + lane,
            start_us: start,
            end_us: end,
            communication: Some(report.communication),
            ..FunctionEvent::default()
        });
    }
    let several = lanes.iter().any(|l| l.0 != lanes[0].0);
    let names = lanes.iter().enumerate().map(|(i, &(rank, _))| {
        let before = lanes[..i].iter().filter(|l| l.0 == rank).count();
        let mut name = "communication".to_string();
        if several {
            name += &format!(" of rank {rank}");
        }
        if before > 0 {
            name += &format!(" {}", before + 1);
        }
        ThreadName {
            id: LANES + i,
            name,
        }
    });
    let names = names.collect();
    // As the list of a profile: by lanes, then by time.
    events.sort_by(|a, b| {
        let by_time = || a.start_us.total_cmp(&b.start_us);
        a.thread.cmp(&b.thread).then_with(by_time)
    });
    (events, names)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A rank's operation from one millisecond to another.
    struct Span(Instant, usize, u64, Option<u64>);

    impl Operation for Span {
        fn report(&self) -> Report {
            let at = |ms: u64| self.0 + Duration::from_millis(ms);
            Report {
                name: format!("from {}", self.2),
                started: Some(at(self.2)),
                ended: self.3.map(at),
                communication: Communication {
                    rank: self.1,
                    ..Communication::default()
                },
            }
        }
    }

    #[test]
    fn operations_that_overlap_have_lanes_of_their_own() {
        let began = Instant::now();
        let span =
            |rank, start, end| -> Arc<dyn Operation> { Arc::new(Span(began, rank, start, end)) };
        // The last is under way when the profile ends, at 10 ms.
        let all = [
            span(0, 5, Some(6)),
            span(0, 0, Some(3)),
            span(0, 1, Some(2)),
            span(0, 3, Some(5)),
            span(0, 4, None),
        ];
        let end = began + Duration::from_millis(10);
        let (events, names) = lanes(&all, began, end);
        let seen: Vec<(&str, usize, f64, f64)> = events
            .iter()
            .map(|e| (e.name.as_str(), e.thread - LANES, e.start_us, e.end_us))
            .collect();
        assert_eq!(
            seen,
            [
                ("from 0", 0, 0.0, 3000.0),
                ("from 3", 0, 3000.0, 5000.0),
                ("from 5", 0, 5000.0, 6000.0),
                ("from 1", 1, 1000.0, 2000.0),
                ("from 4", 1, 4000.0, 10000.0),
            ]
        );
        let text: Vec<&str> = names.iter().map(|n| n.name.as_str()).collect();
        assert_eq!(text, ["communication", "communication 2"]);
        let (_, names) = lanes(&[span(1, 0, Some(1)), span(0, 2, Some(3))], began, end);
        let text: Vec<&str> = names.iter().map(|n| n.name.as_str()).collect();
        assert_eq!(text, ["communication of rank 1", "communication of rank 0"]);
        assert!(lanes(&[], began, end).1.is_empty());
    }
}
