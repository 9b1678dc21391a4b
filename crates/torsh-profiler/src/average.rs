//! Events aggregated by name.

use std::collections::HashMap;
use std::fmt;

use torsh_tensor::{Result, options};

use crate::table::{Row, TableOptions, table};
use crate::{EventKind, EventList, FunctionEvent};

options! {
    /// PyTorch's arguments of `key_averages`.
    KeyAveragesOptions {
        /// Whether events of different input shapes are kept apart (needs `record_shapes`).
        group_by_input_shape: bool = false;
        /// By how many lines of their stack events are kept apart (needs `with_stack`).
        group_by_stack_n: usize = 0;
    }
}

/// The sums over events of one key (`torch.autograd.profiler_util.FunctionEventAvg`). Times are
/// microseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FunctionEventAvg {
    /// The events' name.
    pub key: String,
    /// What kind of events they are.
    pub kind: EventKind,
    /// How many there are.
    pub count: usize,
    /// How long they took, children included.
    pub cpu_time_total: f64,
    /// How long they took themselves.
    pub self_cpu_time_total: f64,
    /// What they allocated less what they freed, in bytes, children included.
    pub cpu_memory_usage: i64,
    /// The same without their children.
    pub self_cpu_memory_usage: i64,
    /// Bytes they allocated, children included.
    pub allocated_bytes: u64,
    /// Bytes they freed, children included.
    pub freed_bytes: u64,
    /// How long devices worked for them, children included.
    pub device_time_total: f64,
    /// The same without their children.
    pub self_device_time_total: f64,
    /// The shapes of their operands, where they were kept apart by them.
    pub input_shapes: Option<Vec<Vec<usize>>>,
    /// The lines of their stacks by which they were kept apart.
    pub stack: Vec<String>,
}

impl FunctionEventAvg {
    /// How long one took on average.
    pub fn cpu_time(&self) -> f64 {
        match self.count {
            0 => 0.0,
            n => self.cpu_time_total / n as f64,
        }
    }

    /// How long devices worked for one on average.
    pub fn device_time(&self) -> f64 {
        match self.count {
            0 => 0.0,
            n => self.device_time_total / n as f64,
        }
    }

    /// Adds an event to the sums, whatever its key.
    pub fn add(&mut self, e: &FunctionEvent) {
        self.count += 1;
        self.cpu_time_total += e.cpu_time_total();
        self.self_cpu_time_total += e.self_cpu_time_total;
        self.cpu_memory_usage += e.cpu_memory_usage();
        self.self_cpu_memory_usage += e.self_cpu_memory_usage;
        self.allocated_bytes += e.allocated_bytes;
        self.freed_bytes += e.freed_bytes;
        self.device_time_total += e.device_time_total;
        self.self_device_time_total += e.self_device_time_total;
    }
}

/// What [`EventList::key_averages`] gives: an entry per key, in the order of their first events.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KeyAverages {
    entries: Vec<FunctionEventAvg>,
    profile_memory: bool,
    use_device: Option<String>,
}

impl KeyAverages {
    /// The first entry of a name.
    pub fn get(&self, key: &str) -> Option<&FunctionEventAvg> {
        self.entries.iter().find(|e| e.key == key)
    }

    /// The entries as a table, laid out and sorted as PyTorch's: by `self_cpu_time_total`,
    /// `cpu_time_total`, `cpu_time`, `self_device_time_total`, `device_time_total`, `device_time` (or
    /// `cuda` in place of `device`), `cpu_memory_usage`, `self_cpu_memory_usage` or `count`, the
    /// largest first; an empty name leaves the order. At most `row_limit` rows.
    ///
    /// There are columns of a device where events ran on one. Ops that were computed on the CPU because
    /// the device has no kernel for them have rows of their own and are named below the table.
    ///
    /// # Errors
    /// `InvalidArgument` for another name.
    #[track_caller]
    pub fn table(&self, sort_by: &str, row_limit: usize) -> Result<String> {
        self.table_with(
            TableOptions::default()
                .sort_by(sort_by)
                .row_limit(row_limit),
        )
    }

    /// The entries as a table.
    ///
    /// # Errors
    /// As [`KeyAverages::table`].
    #[torsh_tensor::names_caller]
    pub fn table_with(&self, options: TableOptions) -> Result<String> {
        let rows = self.entries.iter().map(Row::of_average).collect();
        table(rows, self.profile_memory, self.use_device.clone(), &options)
    }

    /// The sums over all entries.
    pub fn total_average(&self) -> FunctionEventAvg {
        let mut total = FunctionEventAvg {
            key: "Total".into(),
            ..Default::default()
        };
        for e in &self.entries {
            total.count += e.count;
            total.cpu_time_total += e.cpu_time_total;
            total.self_cpu_time_total += e.self_cpu_time_total;
            total.cpu_memory_usage += e.cpu_memory_usage;
            total.self_cpu_memory_usage += e.self_cpu_memory_usage;
            total.allocated_bytes += e.allocated_bytes;
            total.freed_bytes += e.freed_bytes;
            total.device_time_total += e.device_time_total;
            total.self_device_time_total += e.self_device_time_total;
        }
        total
    }

    /// The sum of the entries' own times.
    pub fn self_cpu_time_total(&self) -> f64 {
        self.entries.iter().map(|e| e.self_cpu_time_total).sum()
    }

    /// The sum of the entries' own times on devices.
    pub fn self_device_time_total(&self) -> f64 {
        self.entries.iter().map(|e| e.self_device_time_total).sum()
    }
}

impl std::ops::Deref for KeyAverages {
    type Target = [FunctionEventAvg];

    fn deref(&self) -> &[FunctionEventAvg] {
        &self.entries
    }
}

impl<'a> IntoIterator for &'a KeyAverages {
    type Item = &'a FunctionEventAvg;
    type IntoIter = std::slice::Iter<'a, FunctionEventAvg>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.iter()
    }
}

impl fmt::Display for KeyAverages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.table_with(TableOptions::default());
        f.write_str(&text.map_err(|_| fmt::Error)?)
    }
}

pub(crate) fn averages(events: &EventList, options: &KeyAveragesOptions) -> KeyAverages {
    let mut entries: Vec<FunctionEventAvg> = Vec::new();
    let mut places = HashMap::new();
    for e in events {
        let shapes = options.group_by_input_shape.then_some(&e.input_shapes);
        let lines = e.stack.len().min(options.group_by_stack_n);
        let key = (e.key(), e.kind, shapes, &e.stack[..lines]);
        let place = *places.entry(key).or_insert_with(|| {
            entries.push(FunctionEventAvg {
                key: e.key().to_string(),
                kind: e.kind,
                input_shapes: shapes.cloned(),
                stack: e.stack[..lines].to_vec(),
                ..Default::default()
            });
            entries.len() - 1
        });
        entries[place].add(e);
    }
    KeyAverages {
        entries,
        profile_memory: events.profile_memory,
        use_device: events.use_device(),
    }
}
