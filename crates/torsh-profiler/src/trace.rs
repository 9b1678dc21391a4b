//! Files: Chrome traces and stacks.

use std::path::Path;

use serde_json::{Value, json};
use torsh_tensor::{Result, TorshError};

use crate::log::{Sample, ThreadName};
use crate::{EventKind, EventList, FunctionEvent, ProfileOptions};

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
    let cat = match e.kind {
        EventKind::User => "user_annotation",
        _ => "cpu_op",
    };
    json!({
        "ph": "X", "cat": cat, "name": e.name, "pid": pid, "tid": e.thread,
        "ts": e.start_us, "dur": e.cpu_time_total(), "args": args,
    })
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
    for s in samples {
        list.push(json!({
            "ph": "C", "name": "Allocated memory", "pid": pid, "tid": s.thread, "ts": s.at_us,
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
    if metric != "self_cpu_time_total" {
        return Err(TorshError::invalid(
            "export_stacks",
            format!("the metric must be self_cpu_time_total, got `{metric}`"),
        ));
    }
    let mut out = String::new();
    for e in events {
        let time = e.self_cpu_time_total as u64;
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
