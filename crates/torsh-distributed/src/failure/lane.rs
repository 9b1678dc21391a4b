//! The communication of a rank as a lane of a profile's trace.

use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};
use torsh_tensor::{Result, TorshError};

use super::{Entry, epoch};
use crate::group::ProcessGroup;

/// The number of the lane among the trace's threads, beyond those of real ones.
const LANE: u64 = 1 << 20;

/// Adds what a rank's communication thread did to the trace of a profile that ran meanwhile.
///
/// ```
/// use torsh_distributed::{CommunicationLane, ReduceOp, spawn};
/// use torsh_profiler::profile;
/// use torsh_tensor::tensor;
///
/// let folder = std::env::temp_dir().join(format!("lane-{}", std::process::id()));
/// std::fs::create_dir_all(&folder)?;
/// spawn(2, |g| {
///     let lane = CommunicationLane::begin(&g);
///     let prof = profile(|| g.all_reduce_(&tensor![1.0], ReduceOp::Sum))?;
///     let path = folder.join(format!("rank{}.json", g.rank()));
///     prof.export_chrome_trace(&path)?;
///     assert_eq!(lane.add_to_chrome_trace(&path)?, 1);
///     assert!(std::fs::read_to_string(&path)?.contains("all_reduce(sum) #1 float32[1]"));
///     Ok(())
/// })?;
/// std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct CommunicationLane {
    group: ProcessGroup,
    began_us: f64,
}

impl CommunicationLane {
    /// Begins with a profile: to be called right before it.
    pub fn begin(group: &ProcessGroup) -> CommunicationLane {
        let began = Instant::now().saturating_duration_since(epoch());
        CommunicationLane {
            group: group.clone(),
            began_us: began.as_secs_f64() * 1e6,
        }
    }

    /// Adds the rank's operations since then, on all groups, to a trace in the format of `chrome://tracing`; how many they
    /// were. Of more than 2,000 operations the last ones are there.
    ///
    /// # Errors
    /// A file that cannot be read or written, or is no such trace.
    pub fn add_to_chrome_trace(&self, path: impl AsRef<Path>) -> Result<usize> {
        let path = path.as_ref();
        let no_trace = |why: String| {
            TorshError::format(
                "add_to_chrome_trace",
                format!("{} is no trace: {why}", path.display()),
            )
        };
        let text = std::fs::read_to_string(path)?;
        let mut trace: Value = serde_json::from_str(&text).map_err(|e| no_trace(e.to_string()))?;
        let list = match &mut trace {
            Value::Array(list) => Some(list),
            other => other.get_mut("traceEvents").and_then(Value::as_array_mut),
        };
        let list = list.ok_or_else(|| no_trace("it has no traceEvents".into()))?;
        let pid = std::process::id();
        let name = format!("communication of rank {}", self.group.node().rank);
        for (what, args) in [
            ("thread_name", json!({ "name": name })),
            ("thread_sort_index", json!({ "sort_index": LANE })),
        ] {
            list.push(
                json!({"ph": "M", "name": what, "pid": pid, "tid": LANE, "ts": 0, "args": args}),
            );
        }
        let entries = self.group.flight_record();
        let since: Vec<&Entry> = entries
            .iter()
            .filter(|e| e.queued_us >= self.began_us)
            .collect();
        for e in &since {
            let start = e.started_us.unwrap_or(e.queued_us);
            let end = e.ended_us.unwrap_or(start).max(start);
            // Operations overlap, so each is a span of its own and not part of the one around it.
            let id = format!("{}/{}/{}", e.group, e.kind, e.seq);
            let span = |ph: &str, at: f64| {
                json!({
                    "ph": ph, "cat": "communication", "name": e.text, "id": id, "pid": pid, "tid": LANE,
                    "ts": at - self.began_us,
                    "args": {
                        "group": e.group, "bytes sent": e.bytes_sent, "bytes received": e.bytes_received,
                        "state": e.state, "caller": e.caller,
                    },
                })
            };
            list.push(span("b", start));
            list.push(span("e", end));
        }
        let count = since.len();
        std::fs::write(path, trace.to_string())?;
        Ok(count)
    }
}
