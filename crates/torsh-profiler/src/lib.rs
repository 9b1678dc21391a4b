//! Profiling of ToRSh, as `torch.profiler`: what a program spends time and memory on.
//!
//! [`profile`] runs a closure and tells of every op in it, forward and backward:
//!
//! ```
//! use torsh_profiler::{profile, record_function};
//! use torsh_tensor::tensor;
//!
//! let w = tensor![[1.0, 2.0], [3.0, 4.0]].requires_grad_(true);
//! let x = tensor![[1.0, 1.0]];
//! let prof = profile(|| record_function("step", || x.mm(&w)?.sum()?.backward()))?;
//! let averages = prof.key_averages();
//! assert_eq!(averages.get("aten::mm").unwrap().count, 1);
//! assert_eq!(averages.get("MmBackward0").unwrap().count, 1);
//! assert_eq!(averages.get("aten::matmul").unwrap().count, 1); // in MmBackward0
//! println!("{}", averages.table("self_cpu_time_total", 10)?);
//! # Ok::<(), torsh_tensor::TorshError>(())
//! ```
//!
//! | question | tool |
//! |---|---|
//! | which ops take the time, and the memory | [`profile`], [`Profile`] |
//! | what happens when, in Perfetto or `chrome://tracing` | [`Profile::export_chrome_trace`] |
//! | how long do parts of my program take | [`Profiler`], [`TrainingProfiler`] |
//! | how much memory, and what is never freed | [`MemoryProfiler`], [`get_memory_usage`], [`get_memory_usage_of`] |
//! | what will training this model take | [`analyze_memory_usage`], [`find_optimal_batch_size`] |
//! | how does a model do in production | [`ModelProfiler`], [`ProductionMonitor`] |
//! | what does the recorded graph look like | [`create_computation_graph`] |
//!
//! # Devices
//!
//! Work on a device may be done after the call that asked for it has returned, so the CPU's clock does
//! not see it. Profiles time it on the device: `self_device_time_total` and `device_time_total` are
//! columns of the tables, and traces have a lane for each stream. Timers ([`Profiler`],
//! [`TrainingProfiler`], [`ModelProfiler`]) wait for devices before they read the clock. An op that a
//! device has no kernel for is shown with what stands in for it: `torsh::fallback_to_cpu: aten::add`
//! or `torsh::definition: aten::add`.
//!
//! # Communication
//!
//! Operations between ranks (`torsh_distributed`) that a profiled thread calls are events of a profile too, with the bytes
//! that were sent and received. A trace has a lane `communication` for them, so it shows what they overlap with.
//!
//! All these tools are handles with `&self` methods whose clones share their state. A thread that is
//! not profiled pays nothing: ops read one byte of the thread's mode as they always do.

#![forbid(unsafe_code)]

extern crate self as torsh_profiler;

mod analysis;
mod average;
mod batch_size;
pub mod communication;
mod device;
mod event;
mod graph;
mod leaks;
mod log;
mod memory;
mod model;
mod monitor;
mod name;
mod profile;
mod schedule;
mod table;
mod timers;
mod trace;
mod training;

pub use analysis::{
    MemoryAnalysis, MemoryAnalysisOptions, analyze_memory_usage, analyze_memory_usage_with,
};
pub use average::{FunctionEventAvg, KeyAverages, KeyAveragesOptions};
pub use batch_size::{BatchSizeOptions, find_optimal_batch_size, find_optimal_batch_size_with};
pub use communication::Communication;
pub use device::DeviceSpan;
pub use event::{EventKind, EventList, FunctionEvent};
pub use graph::{ComputationGraph, GraphNode, GraphNodeKind, create_computation_graph};
pub use leaks::{DeviceMemory, Leak, MemoryProfiler, MemoryReport};
pub use memory::{MemoryUsage, get_memory_usage, get_memory_usage_of};
pub use model::{ModelProfiler, PerformanceMetrics};
pub use monitor::{
    Alert, AlertThresholds, InferenceMetrics, MetricsCollector, MetricsSummary, ProductionMonitor,
};
pub use profile::{
    Profile, ProfileBuilder, ProfileOptions, TraceReady, communicates, profile, profile_with,
    record_function,
};
pub use schedule::{ProfilerAction, Schedule, schedule};
pub use table::TableOptions;
pub use timers::{Profiler, ProfilerReport, Timing};
pub use training::{TrainingProfile, TrainingProfiler};

/// 2^20 bytes, which the figures in megabytes count.
const MB: f64 = (1u64 << 20) as f64;
