//! Chrome traces, read back.

use serde_json::Value;
use torsh_profiler::{Profile, profile, record_function};
use torsh_tensor::{Result, ones};

fn written(prof: &Profile, name: &str) -> Value {
    let file = format!("torsh_trace_{name}_{}.json", std::process::id());
    let path = std::env::temp_dir().join(file);
    prof.export_chrome_trace(&path).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn of_phase<'a>(trace: &'a Value, phase: &str) -> Vec<&'a Value> {
    let all = trace["traceEvents"].as_array().unwrap();
    all.iter().filter(|e| e["ph"] == phase).collect()
}

#[test]
fn a_trace_has_what_a_viewer_needs() {
    let prof = Profile::builder()
        .record_shapes(true)
        .profile_memory(true)
        .with_stack(true)
        .build();
    let step = || -> Result<()> {
        let w = ones(&[32, 32]).requires_grad_(true);
        record_function("step \"one\"", || w.mm(&w)?.sum()?.backward())
    };
    prof.run(|| {
        step()?;
        std::thread::Builder::new()
            .name("worker".into())
            .spawn({
                let prof = prof.clone();
                move || prof.attach(step)
            })
            .unwrap()
            .join()
            .unwrap()
    })
    .unwrap();
    let trace = written(&prof, "full");
    for key in ["record_shapes", "profile_memory", "with_stack"] {
        assert_eq!(trace[key], 1, "{key}");
    }
    let events = prof.events();
    let complete = of_phase(&trace, "X");
    let timed = events.iter().filter(|e| e.name != "[memory]");
    assert_eq!(complete.len(), timed.clone().count());
    for (json, e) in complete.iter().zip(timed) {
        assert_eq!(json["name"], e.name.as_str());
        assert_eq!(json["tid"], e.thread);
        assert_eq!(json["pid"], std::process::id());
        assert_eq!(json["ts"].as_f64().unwrap(), e.start_us);
        let end = json["ts"].as_f64().unwrap() + json["dur"].as_f64().unwrap();
        assert!((end - e.end_us).abs() < 1e-6);
        // A viewer nests by time alone.
        if let Some(p) = e.parent {
            assert!(events[p].start_us <= e.start_us && e.end_us <= events[p].end_us);
        }
    }
    let ranges = complete.iter().filter(|e| e["cat"] == "user_annotation");
    assert_eq!(ranges.count(), 2);
    let mm = complete.iter().find(|e| e["name"] == "aten::mm").unwrap();
    assert_eq!(mm["cat"], "cpu_op");
    assert_eq!(
        mm["args"]["Input Dims"],
        serde_json::json!([[32, 32], [32, 32]])
    );
    // The result, and what the product works in.
    let allocated = mm["args"]["Allocated Bytes"].as_i64().unwrap();
    assert!((4096..32768).contains(&allocated), "{allocated}");
    let stack = mm["args"]["Call stack"].as_str().unwrap();
    assert!(
        stack.contains("trace.rs(") && stack.contains("step \"one\""),
        "{stack}"
    );
    // Threads have names and every event one of them.
    let meta = of_phase(&trace, "M");
    let names: Vec<_> = meta.iter().filter(|e| e["name"] == "thread_name").collect();
    assert_eq!(names.len(), 2);
    assert!(names.iter().any(|e| e["args"]["name"] == "worker"));
    let known: Vec<&Value> = names.iter().map(|e| &e["tid"]).collect();
    assert!(complete.iter().all(|e| known.contains(&&e["tid"])));
    // Counters of memory, in the order of time on each thread.
    let counters = of_phase(&trace, "C");
    assert!(!counters.is_empty());
    for pair in counters.windows(2).filter(|p| p[0]["tid"] == p[1]["tid"]) {
        assert!(pair[0]["ts"].as_f64() <= pair[1]["ts"].as_f64());
    }
    assert!(
        counters
            .iter()
            .all(|c| c["args"]["bytes"].as_u64().unwrap() >= 4096)
    );
}

#[test]
fn a_plain_trace_is_plain() {
    let prof = profile(|| ones(&[2]).exp()).unwrap();
    let trace = written(&prof, "plain");
    let complete = of_phase(&trace, "X");
    let names: Vec<&Value> = complete.iter().map(|e| &e["name"]).collect();
    assert_eq!(names, ["aten::fill_", "aten::exp"]);
    assert!(complete.iter().all(|e| e["args"]["Input Dims"].is_null()));
    assert!(of_phase(&trace, "C").is_empty());
    let e = prof.export_chrome_trace("/nowhere/trace.json").unwrap_err();
    assert!(matches!(e, torsh_tensor::TorshError::Io(_)), "{e}");
}
