//! Export to files: Chrome traces and stacks.

use std::path::Path;

use serde_json::{Value, json};
use torsh_tensor::{Device, Result, TorshError};

use crate::event::ThreadName;
use crate::log::Sample;
use crate::{DeviceSpan, EventKind, EventList, FunctionEvent, ProfileOptions};

fn complete(i: usize, e: &FunctionEvent, pid: u32) -> Value {
    let mut args = json!({"External id": i});
    if !e.input_shapes.is_empty() {
        args["Input Dims"] = json!(e.input_shapes);
    }
    if !e.stack.is_empty() {
        args["Call stack"] = json!(e.stack.join(";"));
    }
    if e.allocated_bytes != 0 || e.freed_bytes != 0 {
        args["Allocated Bytes"] = json!(e.allocated_bytes);
        args["Freed Bytes"] = json!(e.freed_bytes);
    }
    if let Some(c) = &e.communication {
        // The first two as PyTorch names them.
        args["Collective name"] = json!(c.operation);
        args["Process Group Name"] = json!(c.group);
        args["Rank"] = json!(c.rank);
        args["Bytes Sent"] = json!(c.bytes_sent);
        args["Bytes Received"] = json!(c.bytes_received);
        args["State"] = json!(c.state);
        args["Caller"] = json!(c.caller);
    }
    match e.kind {
        EventKind::Fallback => args["No kernel"] = json!("computed on the CPU"),
        EventKind::Definition => args["No kernel"] = json!("computed by its definition"),
        _ => {}
    }
    let cat = match e.kind {
        EventKind::User => "user_annotation",
        EventKind::Communication => "communication",
        _ => "cpu_op",
    };
    json!({
        "ph": "X", "cat": cat, "name": e.name, "pid": pid, "tid": e.thread,
        "ts": e.start_us, "dur": e.cpu_time_total(), "args": args,
    })
}

/// The lane of a device's stream: the device's number among those of the trace, which stands for a
/// process as in PyTorch's traces, and the stream.
fn lane(devices: &[Device], span: &DeviceSpan) -> (usize, u32) {
    let device = devices.iter().position(|d| *d == span.device);
    (device.unwrap_or(0), span.stream)
}

/// What devices did: a lane for each stream, and an arrow from each op to its work there.
fn device_lanes(list: &mut Vec<Value>, events: &EventList, pid: u32) {
    let spans = || {
        events
            .iter()
            .enumerate()
            .filter_map(|(i, e)| Some((i, e, e.device?)))
    };
    let mut devices: Vec<Device> = Vec::new();
    let mut lanes: Vec<(usize, u32)> = Vec::new();
    for (_, _, span) in spans() {
        if !devices.contains(&span.device) {
            devices.push(span.device);
        }
        let lane = lane(&devices, &span);
        if !lanes.contains(&lane) {
            lanes.push(lane);
        }
    }
    for (i, d) in devices.iter().enumerate() {
        let name = d.to_string();
        list.push(json!({"ph": "M", "name": "process_name", "pid": i, "tid": 0, "ts": 0, "args": {"name": name}}));
        list.push(json!({"ph": "M", "name": "process_labels", "pid": i, "tid": 0, "ts": 0, "args": {"labels": name}}));
    }
    for (device, stream) in &lanes {
        let name = format!("stream {stream}");
        list.push(json!({"ph": "M", "name": "thread_name", "pid": device, "tid": stream, "ts": 0, "args": {"name": name}}));
        list.push(json!({"ph": "M", "name": "thread_sort_index", "pid": device, "tid": stream, "ts": 0, "args": {"sort_index": stream}}));
    }
    for (i, e, span) in spans() {
        let (device, stream) = lane(&devices, &span);
        list.push(json!({
            "ph": "X", "cat": "kernel", "name": e.name, "pid": device, "tid": stream,
            "ts": span.start_us, "dur": span.time(),
            "args": {"External id": i, "device": span.device.to_string(), "stream": stream},
        }));
        let arrow = json!({"cat": "ac2g", "name": "ac2g", "id": i});
        let end = |ph: &str, pid: Value, tid: Value, ts: f64| {
            let mut end = arrow.clone();
            (end["ph"], end["pid"], end["tid"], end["ts"]) = (json!(ph), pid, tid, json!(ts));
            end
        };
        list.push(end("s", json!(pid), json!(e.thread), e.start_us));
        let mut finish = end("f", json!(device), json!(stream), span.start_us);
        finish["bp"] = json!("e");
        list.push(finish);
    }
}

/// The trace in the format of `chrome://tracing`, with the fields that PyTorch's has.
pub(crate) fn of(
    events: &EventList,
    samples: &[Sample],
    threads: &[ThreadName],
    options: Option<&ProfileOptions>,
) -> Value {
    let pid = std::process::id();
    let program = std::env::current_exe().ok();
    let program = program.as_deref().and_then(Path::file_stem);
    let program = program.map_or("torsh".into(), |p| p.to_string_lossy());
    let meta = |name: &str, tid: usize, args: Value| json!({"ph": "M", "name": name, "pid": pid, "tid": tid, "ts": 0, "args": args});
    let mut list = vec![
        meta("process_name", 0, json!({"name": program})),
        meta("process_labels", 0, json!({"labels": "CPU"})),
    ];
    for t in threads {
        list.push(meta("thread_name", t.id, json!({"name": t.name})));
        list.push(meta("thread_sort_index", t.id, json!({"sort_index": t.id})));
    }
    for (i, e) in events.iter().enumerate() {
        list.push(match e.kind {
            EventKind::Memory => json!({
                "ph": "i", "cat": "cpu_instant_event", "s": "t", "name": e.name, "pid": pid,
                "tid": e.thread, "ts": e.start_us, "args": {"Bytes": e.cpu_memory_usage()},
            }),
            _ => complete(i, e, pid),
        });
    }
    device_lanes(&mut list, events, pid);
    for s in samples {
        let name = match s.device {
            Device::Cpu => "Allocated memory".to_string(),
            d => format!("Allocated memory of {d}"),
        };
        list.push(json!({
            "ph": "C", "name": name, "pid": pid, "tid": s.thread, "ts": s.at_us,
            "args": {"bytes": s.allocated_bytes},
        }));
    }
    let on = |f: fn(&ProfileOptions) -> bool| u8::from(options.is_some_and(f));
    json!({
        "schemaVersion": 1,
        "displayTimeUnit": "ms",
        "record_shapes": on(|o| o.record_shapes),
        "profile_memory": on(|o| o.profile_memory),
        "with_stack": on(|o| o.with_stack),
        "traceEvents": list,
    })
}

pub(crate) fn write(path: &Path, trace: &Value) -> Result<()> {
    Ok(std::fs::write(path, trace.to_string())?)
}

pub(crate) fn stacks(events: &EventList, path: &Path, metric: &str) -> Result<()> {
    let time: fn(&FunctionEvent) -> f64 = match metric.replace("cuda", "device").as_str() {
        "self_cpu_time_total" => |e| e.self_cpu_time_total,
        "self_device_time_total" => |e| e.self_device_time_total,
        _ => {
            return Err(TorshError::invalid(
                "export_stacks",
                format!(
                    "the metric must be self_cpu_time_total or self_device_time_total, got `{metric}`"
                ),
            ));
        }
    };
    let mut out = String::new();
    for e in events {
        let time = time(e) as u64;
        if e.stack.is_empty() || time == 0 {
            continue;
        }
        let lines: Vec<String> = (e.stack.iter().rev())
            .map(|l| l.replace([' ', ';', '\t', '\n'], "_"))
            .collect();
        out += &format!("{} {time}\n", lines.join(";"));
    }
    Ok(std::fs::write(path, out)?)
}
