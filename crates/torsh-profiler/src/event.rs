//! Events: ops and ranges with their times and their parents.

use std::fmt;

use torsh_tensor::{Device, Result};

use crate::average::{KeyAverages, KeyAveragesOptions, averages};
use crate::table::{Row, TableOptions, table};
use crate::{Communication, DeviceSpan, FunctionEventAvg, trace};

/// What kind of thing an event is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// An op, a function written in ops, or the engine's work for a node.
    #[default]
    Op,
    /// The formula of a node of backward, as `MulBackward0`.
    Backward,
    /// A range of the user's, of [`record_function`](crate::record_function) or a step.
    User,
    /// Memory that was allocated or freed outside of all other events, as `[memory]`.
    Memory,
    /// An op's computation on the CPU for a device that has no kernel for it, copies included, as
    /// `torsh::fallback_to_cpu: aten::add`; within the op.
    Fallback,
    /// An op's computation by its definition in other ops, for a device that has no kernel for it,
    /// as `torsh::definition: aten::add`; within the op.
    Definition,
    /// An operation between ranks, as `mpi-abi:all_reduce`, from its beginning to its end on the thread that carries it
    /// out. It goes on beside what the caller does, and takes none of its time: its own time on the CPU counts as 0.
    Communication,
}

/// One event of a profile (`torch.autograd.profiler_util.FunctionEvent`).
///
/// What is measured is in the fields; what follows from the events within it (its children) is
/// there once it is in an [`EventList`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FunctionEvent {
    /// PyTorch's name: `aten::add`, `MulBackward0`, or the range's own.
    pub name: String,
    /// What kind of thing it is.
    pub kind: EventKind,
    /// A number of the thread it ran on, in the order in which threads came.
    pub thread: usize,
    /// When it began, in microseconds since the profile did.
    pub start_us: f64,
    /// When it ended.
    pub end_us: f64,
    /// The position in the list of the event it ran in.
    pub parent: Option<usize>,
    /// The shapes of its operands, empty for what is no tensor; of the incoming gradients for
    /// [`EventKind::Backward`]. Empty without `record_shapes`.
    pub input_shapes: Vec<Vec<usize>>,
    /// Where it was called, `file(line): name`, then what it ran in; empty without `with_stack`.
    pub stack: Vec<String>,
    /// Bytes that its thread allocated meanwhile; 0 without `profile_memory`.
    pub allocated_bytes: u64,
    /// Bytes that its thread freed meanwhile.
    pub freed_bytes: u64,
    /// The positions of the events that ran directly in it.
    pub children: Vec<usize>,
    /// Its time less that of its children, in microseconds.
    pub self_cpu_time_total: f64,
    /// What it allocated less what it freed, less that of its children.
    pub self_cpu_memory_usage: i64,
    /// When a device worked for it, for an op that ran on one; there once the recording has ended.
    pub device: Option<DeviceSpan>,
    /// What was sent and received, for [`EventKind::Communication`].
    pub communication: Option<Communication>,
    /// How long devices worked for it, children included, in microseconds: the time of its own span,
    /// or the sum of its children's where it has none.
    pub device_time_total: f64,
    /// The same without its children.
    pub self_device_time_total: f64,
}

impl FunctionEvent {
    /// How long it took, in microseconds, children included.
    pub fn cpu_time_total(&self) -> f64 {
        self.end_us - self.start_us
    }

    /// What it allocated less what it freed, in bytes, children included.
    pub fn cpu_memory_usage(&self) -> i64 {
        self.allocated_bytes as i64 - self.freed_bytes as i64
    }

    /// The name that events are put together by: all steps are `ProfilerStep*`.
    pub fn key(&self) -> &str {
        match self.name.starts_with("ProfilerStep#") {
            true => "ProfilerStep*",
            false => &self.name,
        }
    }
}

/// The events of a profile in the order of their threads and beginnings
/// (`torch.autograd.profiler_util.EventList`).
///
/// ```
/// use torsh_profiler::{EventList, FunctionEvent};
/// let outer = FunctionEvent { name: "outer".into(), end_us: 10.0, ..Default::default() };
/// let inner = FunctionEvent { name: "inner".into(), start_us: 2.0, end_us: 5.0, parent: Some(0), ..Default::default() };
/// let events = EventList::new(vec![outer, inner], false)?;
/// assert_eq!(events[0].self_cpu_time_total, 7.0);
/// assert_eq!(events[0].children, [1]);
/// assert_eq!(events.self_cpu_time_total(), 10.0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventList {
    events: Vec<FunctionEvent>,
    pub(crate) profile_memory: bool,
}

impl EventList {
    /// A list of events whose `parent`s lie ahead of them; children and own shares are computed.
    /// `profile_memory` says whether tables have columns of memory.
    ///
    /// # Errors
    /// `InvalidArgument` for a parent that does not lie ahead.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(mut events: Vec<FunctionEvent>, profile_memory: bool) -> Result<EventList> {
        for i in 0..events.len() {
            if events[i].parent.is_some_and(|p| p >= i) {
                return Err(torsh_tensor::TorshError::invalid(
                    "EventList::new",
                    format!("the parent of event {i} does not lie ahead of it"),
                ));
            }
            let e = &mut events[i];
            e.children.clear();
            let (time, memory) = (e.cpu_time_total(), e.cpu_memory_usage());
            let own = match e.kind {
                EventKind::Communication => 0.0,
                _ => time,
            };
            (e.self_cpu_time_total, e.self_cpu_memory_usage) = (own, memory);
            if let Some(p) = e.parent {
                let parent = &mut events[p];
                parent.children.push(i);
                parent.self_cpu_time_total -= time;
                parent.self_cpu_memory_usage -= memory;
            }
        }
        // Children lie after their parents, so from the end on their times are there.
        for i in (0..events.len()).rev() {
            let within = events[i].children.iter();
            let within: f64 = within.map(|&c| events[c].device_time_total).sum();
            let e = &mut events[i];
            e.device_time_total = e.device.map_or(within, |d| d.time());
            // Children on other streams may take longer together than what they are part of.
            e.self_device_time_total = (e.device_time_total - within).max(0.0);
        }
        Ok(EventList {
            events,
            profile_memory,
        })
    }

    /// The kind of device that events have times of, as `cuda`; `device` where there are several, and
    /// `None` where there is none (`use_device`).
    pub fn use_device(&self) -> Option<String> {
        let mut kinds = self.events.iter().filter_map(|e| Some(e.device?.device));
        let first = kinds.next()?;
        let kind = |d: Device| d.to_string().split(':').next().map(str::to_string);
        match kinds.all(|d| kind(d) == kind(first)) {
            true => kind(first),
            false => Some("device".into()),
        }
    }

    /// The sum of the events' own times on devices.
    pub fn self_device_time_total(&self) -> f64 {
        self.events.iter().map(|e| e.self_device_time_total).sum()
    }

    /// The events put together by name.
    pub fn key_averages(&self) -> KeyAverages {
        self.key_averages_with(KeyAveragesOptions::default())
    }

    /// The events put together by name, shapes and source lines.
    pub fn key_averages_with(&self, options: KeyAveragesOptions) -> KeyAverages {
        averages(self, &options)
    }

    /// The sums over all events; those within others count too, as in PyTorch.
    pub fn total_average(&self) -> FunctionEventAvg {
        let mut total = FunctionEventAvg {
            key: "Total".into(),
            ..Default::default()
        };
        self.events.iter().for_each(|e| total.add(e));
        total
    }

    /// The sum of the events' own times: that of the profile, over all threads.
    pub fn self_cpu_time_total(&self) -> f64 {
        self.events.iter().map(|e| e.self_cpu_time_total).sum()
    }

    /// The events as a table, laid out as PyTorch's.
    ///
    /// # Errors
    /// As [`KeyAverages::table`].
    #[track_caller]
    pub fn table(&self, sort_by: &str, row_limit: usize) -> Result<String> {
        self.table_with(
            TableOptions::default()
                .sort_by(sort_by)
                .row_limit(row_limit),
        )
    }

    /// The events as a table.
    ///
    /// # Errors
    /// As [`KeyAverages::table`].
    #[torsh_tensor::names_caller]
    pub fn table_with(&self, options: TableOptions) -> Result<String> {
        let rows = self.events.iter().map(Row::of_event).collect();
        table(rows, self.profile_memory, self.use_device(), &options)
    }

    /// Writes the events as `chrome://tracing` and Perfetto read them.
    ///
    /// # Errors
    /// `Io` where the file cannot be written.
    #[torsh_tensor::names_caller]
    pub fn export_chrome_trace(&self, path: impl AsRef<std::path::Path>) -> Result<()> {
        trace::write(path.as_ref(), &trace::of(self, &[], &[], None))
    }

    /// Writes a line for each event that has a stack, `outer;inner microseconds`, as flame graph
    /// tools read it. The metric is `self_cpu_time_total` or `self_device_time_total`.
    ///
    /// # Errors
    /// `InvalidArgument` for another metric, `Io` where the file cannot be written.
    #[torsh_tensor::names_caller]
    pub fn export_stacks(&self, path: impl AsRef<std::path::Path>, metric: &str) -> Result<()> {
        trace::stacks(self, path.as_ref(), metric)
    }
}

impl std::ops::Deref for EventList {
    type Target = [FunctionEvent];

    fn deref(&self) -> &[FunctionEvent] {
        &self.events
    }
}

impl<'a> IntoIterator for &'a EventList {
    type Item = &'a FunctionEvent;
    type IntoIter = std::slice::Iter<'a, FunctionEvent>;

    fn into_iter(self) -> Self::IntoIter {
        self.events.iter()
    }
}

impl fmt::Display for EventList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.table_with(TableOptions::default());
        f.write_str(&text.map_err(|_| fmt::Error)?)
    }
}

/// A thread of a profile, for the trace.
#[derive(Clone, Debug)]
pub(crate) struct ThreadName {
    pub(crate) id: usize,
    pub(crate) name: String,
}
