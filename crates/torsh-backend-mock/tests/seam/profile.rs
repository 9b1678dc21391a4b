//! Profiles of work on a device: its times, its streams, its memory, and what stands in for kernels
//! that it lacks.

use serde_json::Value;
use torsh_backend_mock::mock;
use torsh_core::Kernel;
use torsh_core::attrs::NONE;
use torsh_profiler::{
    EventKind, FunctionEvent, MemoryProfiler, ModelProfiler, Profile, ProfileOptions, Profiler,
    TrainingProfiler, get_memory_usage_of, profile, profile_with, record_function, schedule,
};
use torsh_tensor::call::Arg;
use torsh_tensor::devices::{Fallback, set_fallback, synchronize};
use torsh_tensor::record::{OpRecord, Plan};
use torsh_tensor::{DType, Device, Result, Stream, Tensor, stream, tensor};

use crate::alone;

/// Everything that a device was given is with it.
fn nothing_held_back() -> bool {
    mock(0).is_some_and(|m| m.held_back() == 0)
}

/// The only event of a name.
fn event<'a>(events: &'a [FunctionEvent], name: &str) -> &'a FunctionEvent {
    let mut found = events.iter().filter(|e| e.name == name);
    let first = found.next().unwrap_or_else(|| {
        let names: Vec<&str> = events.iter().map(|e| e.name.as_str()).collect();
        panic!("no {name} in {names:?}")
    });
    assert_eq!(found.count(), 0, "several {name}");
    first
}

fn trace(prof: &Profile, name: &str) -> Vec<Value> {
    let file = format!("torsh_mock_{name}_{}.json", std::process::id());
    let path = std::env::temp_dir().join(file);
    prof.export_chrome_trace(&path).expect("a trace");
    let text = std::fs::read_to_string(&path).expect("the trace");
    std::fs::remove_file(&path).expect("the trace");
    let mut trace: Value = serde_json::from_str(&text).expect("JSON");
    match trace["traceEvents"].take() {
        Value::Array(events) => events,
        other => panic!("no list: {other}"),
    }
}

/// An op with neither a kernel on the device nor a definition.
static ONLY_ON_CPU: OpRecord = {
    let record = OpRecord::new(
        "only_on_cpu",
        "Clamps to 0 and 6, which the mock has no kernel for.",
        "(Tensor input)",
    );
    // SAFETY: the kernel writes a result of its only operand's shape and dtype, and reads no attributes.
    unsafe {
        record.with_kernel(Kernel::Relu6, |c| {
            let x = c.tensor(0)?;
            Ok(Plan::one(x.dtype(), x.shape().clone(), x.dtype()))
        })
    }
};

#[test]
fn ops_have_times_on_their_device() -> Result<()> {
    let (d, _, _alone) = alone();
    let x = Tensor::ones([96, 96], DType::F32, d)?;
    let w = Tensor::ones([96, 96], DType::F32, d)?.requires_grad_(true);
    let prof = profile(|| record_function("step", || x.mm(&w)?.t()?.add(1.0)?.sum()?.backward()))?;
    let events = prof.events();
    let span = |name: &str| event(&events, name).device.expect("a time on the device");
    let (mm, add, sum) = (span("aten::mm"), span("aten::add"), span("aten::sum"));
    for s in [mm, add, sum] {
        assert_eq!((s.device, s.stream), (d, 0));
        assert!(s.time() >= 0.0);
    }
    assert!(mm.time() > 0.0 && mm.end_us <= add.start_us && add.end_us <= sum.start_us);
    // On the profile's clock: the device worked after it was asked to, and before the profile ended.
    assert!(mm.start_us > event(&events, "aten::mm").start_us - 1e3);
    // Views and ranges have no time of their own; a range has that of its ops.
    let is_view = |e: &&FunctionEvent| ["aten::t", "aten::transpose"].contains(&e.name.as_str());
    let views: Vec<&FunctionEvent> = events.iter().filter(is_view).collect();
    assert!(!views.is_empty(), "{:?}", prof.key_averages());
    assert!(views.iter().all(|e| e.device.is_none()), "{views:?}");
    let step = event(&events, "step");
    let children = step.children.iter();
    let within: f64 = children.map(|&c| events[c].device_time_total).sum();
    assert!(step.device.is_none() && step.self_device_time_total == 0.0);
    assert!((step.device_time_total - within).abs() < 1e-6 && within > 0.0);
    // Backward ran on the device as well.
    let averages = prof.key_averages();
    let formula = averages.get("MmBackward0").expect("a formula");
    assert!(formula.device_time_total > 0.0);
    let own = averages.self_device_time_total();
    assert!(
        (own - step.device_time_total).abs() < 1e-3,
        "{own} {step:?}"
    );
    let table = averages.table("self_device_time_total", 20)?;
    for header in [
        "Self MOCK",
        "Self MOCK %",
        "MOCK total",
        "MOCK time avg",
        "Self MOCK time total: ",
    ] {
        assert!(table.contains(header), "{header} in {table}");
    }
    // What runs on the CPU is shown without a device.
    let c = Tensor::ones([4], DType::F32, Device::Cpu)?;
    let table = profile(|| c.add(1.0))?.key_averages().table("", 20)?;
    assert!(
        table.contains("aten::add") && !table.contains("MOCK"),
        "{table}"
    );
    Ok(())
}

#[test]
fn copies_and_new_tensors_have_times_too() -> Result<()> {
    let (d, _, _alone) = alone();
    let x = Tensor::ones([1000], DType::F32, Device::Cpu)?;
    let prof = profile(|| {
        let y = record_function("upload", || x.to_device(d))?;
        let r = record_function("draw", || Tensor::rand([1000], DType::F32, d))?;
        record_function("fill", || y.fill_(2.0).map(drop))?;
        record_function("download", || r.cpu())
    })?;
    let events = prof.events();
    for name in ["upload", "draw", "fill", "download"] {
        let range = event(&events, name);
        let spans = range.children.iter().filter_map(|&c| events[c].device);
        assert!(spans.clone().count() > 0, "{name}");
        assert!(spans.clone().all(|s| s.device == d), "{name}");
    }
    Ok(())
}

#[test]
fn a_trace_has_a_lane_for_each_stream() -> Result<()> {
    let (d, _, _alone) = alone();
    let side = Stream::new(d)?;
    let x = Tensor::ones([32, 32], DType::F32, d)?;
    let options = ProfileOptions::new().profile_memory(true);
    let prof = profile_with(options, || {
        let y = stream(&side, || x.mm(&x))?;
        y.add(1.0)
    })?;
    let events = prof.events();
    assert_eq!(
        event(&events, "aten::mm").device.expect("a time").stream,
        side.stream_id()
    );
    let list = trace(&prof, "lanes");
    let named = |kind: &str, name: &str| {
        let found = list
            .iter()
            .find(|e| e["name"] == kind && e["args"]["name"] == name);
        found.unwrap_or_else(|| panic!("no {kind} {name}")).clone()
    };
    let pid = named("process_name", "mock:0")["pid"].clone();
    let own = format!("stream {}", side.stream_id());
    for (op, lane) in [("aten::mm", own.as_str()), ("aten::add", "stream 0")] {
        let kernel = list
            .iter()
            .find(|e| e["cat"] == "kernel" && e["name"] == op);
        let kernel = kernel.expect("its work");
        let span = event(&events, op).device.expect("a time");
        assert_eq!(kernel["ts"].as_f64(), Some(span.start_us));
        assert_eq!(kernel["dur"].as_f64(), Some(span.time()));
        let lane = named("thread_name", lane);
        assert_eq!((&kernel["pid"], &kernel["tid"]), (&pid, &lane["tid"]));
        // An arrow leads from the op to its work.
        let id = &kernel["args"]["External id"];
        let ends = |ph: &str| list.iter().find(|e| e["ph"] == ph && &e["id"] == id);
        let (from, to) = (ends("s").expect("a start"), ends("f").expect("an end"));
        assert_eq!(from["pid"], std::process::id());
        assert_eq!((&to["pid"], &to["ts"]), (&pid, &kernel["ts"]));
    }
    let memory: Vec<&Value> = (list.iter())
        .filter(|e| e["ph"] == "C" && e["name"] == "Allocated memory of mock:0")
        .collect();
    let most = memory
        .iter()
        .filter_map(|e| e["args"]["bytes"].as_u64())
        .max();
    // The operand, the product and the sum.
    assert!(most >= Some(3 * 32 * 32 * 4), "{memory:?}");
    Ok(())
}

#[test]
fn definitions_are_shown_within_their_ops() -> Result<()> {
    let (d, _, _alone) = alone();
    let x = tensor![1.0, 4.0].to_device(d)?;
    let prof = profile(|| x.rsqrt())?;
    let events = prof.events();
    let op = event(&events, "aten::rsqrt");
    let definition = event(&events, "torsh::definition: aten::rsqrt");
    assert_eq!(definition.kind, EventKind::Definition);
    assert_eq!(
        definition.parent.map(|p| events[p].name.as_str()),
        Some("aten::rsqrt")
    );
    assert!(!definition.children.is_empty());
    assert!(
        definition
            .children
            .iter()
            .all(|&c| events[c].device.is_some())
    );
    assert!(op.device_time_total >= definition.device_time_total);
    let list = trace(&prof, "definition");
    let shown = list
        .iter()
        .find(|e| e["name"] == "torsh::definition: aten::rsqrt");
    assert_eq!(
        shown.expect("shown")["args"]["No kernel"],
        "computed by its definition"
    );
    Ok(())
}

#[test]
fn fallbacks_to_the_cpu_are_named() -> Result<()> {
    let (d, _, _alone) = alone();
    let x = tensor![1.0, -3.0].to_device(d)?;
    set_fallback(Fallback::Cpu);
    let mut y = x.clone();
    let prof = profile(|| {
        y = ONLY_ON_CPU.call1(&[Arg::T(&x)], NONE)?;
        Ok(())
    });
    set_fallback(Fallback::Refuse);
    let prof = prof?;
    assert_eq!(y.to_vec::<f32>()?, [1.0, 0.0]);
    let events = prof.events();
    let fallback = event(&events, "torsh::fallback_to_cpu: aten::only_on_cpu");
    assert_eq!(fallback.kind, EventKind::Fallback);
    let op = event(&events, "aten::only_on_cpu");
    // The device had nothing to do for it but copies.
    assert!(op.device.is_none() && fallback.device.is_none());
    assert_eq!(
        op.self_device_time_total + fallback.self_device_time_total,
        0.0
    );
    assert!(
        fallback
            .children
            .iter()
            .all(|&c| events[c].name == "aten::to")
    );
    let table = prof.key_averages().table("self_cpu_time_total", 1)?;
    let note = "Computed on the CPU for a device without their kernel: aten::only_on_cpu (1)\n";
    assert!(table.ends_with(note), "{table}");
    let list = trace(&prof, "fallback");
    let shown = list.iter().find(|e| e["name"] == fallback.name.as_str());
    assert_eq!(
        shown.expect("shown")["args"]["No kernel"],
        "computed on the CPU"
    );
    Ok(())
}

#[test]
fn what_a_device_reports_is_the_profiles_error() -> Result<()> {
    let (d, _, _alone) = alone();
    let x = tensor![1.0, 2.0].to_device(d)?;
    let bad = Tensor::from_data(&[0i64, 7], [2])?.to_device(d)?;
    let prof = Profile::builder().build();
    let e = prof
        .run(|| x.index_select(0, &bad))
        .expect_err("7 is out of range");
    assert!(e.to_string().contains("index_select"), "{e}");
    // What was recorded is there, with its time, and the error is told once.
    let events = prof.events();
    assert!(event(&events, "aten::index_select").device.is_some());
    assert!(!prof.is_recording());
    prof.run(|| x.add(1.0))?;
    synchronize(d)
}

#[test]
fn cycles_of_a_schedule_have_their_own_times() -> Result<()> {
    let (d, _, _alone) = alone();
    let x = Tensor::ones([64, 64], DType::F32, d)?;
    let prof = Profile::builder()
        .schedule(schedule(1, 1, 2, 2)?)
        .on_trace_ready(|p| {
            let mm = p
                .key_averages()
                .get("aten::mm")
                .cloned()
                .expect("two calls");
            assert_eq!(mm.count, 2);
            assert!(mm.self_device_time_total > 0.0);
            assert!(
                p.events()
                    .iter()
                    .all(|e| e.device.is_none_or(|s| s.start_us > -1e3))
            );
            Ok(())
        })
        .build();
    prof.run(|| {
        for _ in 0..9 {
            x.mm(&x)?;
            prof.step()?;
        }
        Ok(())
    })
}

#[test]
fn leaks_name_their_device() -> Result<()> {
    let (d, _, _alone) = alone();
    synchronize(d)?;
    let profiler = MemoryProfiler::new();
    profiler.start();
    let x = Tensor::ones([256, 256], DType::F32, d)?;
    let kept = x.add(1.0)?;
    let of_cpu = Tensor::ones([8], DType::F32, Device::Cpu)?;
    drop(x);
    synchronize(d)?;
    let usage = get_memory_usage_of(d)?;
    profiler.stop();
    let report = profiler.report();
    let leaks = &report.potential_leaks;
    let what: Vec<(&str, Device)> = leaks.iter().map(|l| (l.op.as_str(), l.device)).collect();
    assert_eq!(what[0], ("aten::add", d));
    assert_eq!((what.len(), what[1].1), (2, Device::Cpu));
    let memory = report
        .devices
        .iter()
        .find(|m| m.device == d)
        .expect("the mock's memory");
    assert_eq!(memory.growth_mb, 0.25);
    assert_eq!(memory.current_memory_mb, usage.allocated_mb);
    assert!(memory.peak_memory_mb >= memory.current_memory_mb + 0.25);
    let text = report.to_string();
    assert!(
        text.contains("aten::add: float32[256, 256], 262144 bytes of mock:0, "),
        "{text}"
    );
    assert!(text.contains("mock:0: peak "), "{text}");
    drop((kept, of_cpu));
    Ok(())
}

#[test]
fn timers_wait_for_devices() -> Result<()> {
    let (d, _, _alone) = alone();
    let x = Tensor::ones([128, 128], DType::F32, d)?;
    let timers = Profiler::new();
    let y = timers.time("mm", || x.mm(&x))?;
    assert!(nothing_held_back());
    timers.start("add");
    let y = y.add(1.0)?;
    assert!(!nothing_held_back());
    timers.end("add")?;
    assert!(nothing_held_back());
    let loops = TrainingProfiler::new();
    loops.start();
    let y = y.mul(2.0)?;
    loops.mark("forward_pass");
    assert!(nothing_held_back());
    loops.step();
    assert_eq!(loops.finish().steps, 1);
    // What went wrong on the device is told to whoever waits for values.
    let bad = Tensor::from_data(&[0i64, 700], [2])?.to_device(d)?;
    let z = timers.time("index", || y.index_select(0, &bad))?;
    assert!(
        z.to_vec::<f32>()
            .expect_err("out of range")
            .to_string()
            .contains("700")
    );
    assert_eq!(y.select(0, 0)?.select(0, 0)?.item::<f32>()?, 258.0);
    Ok(())
}

#[test]
fn a_models_run_tells_how_busy_the_device_was() -> Result<()> {
    let (d, _, _alone) = alone();
    let x = Tensor::ones([128, 128], DType::F32, d)?;
    let profiler = ModelProfiler::new();
    profiler.start()?;
    let y = x.mm(&x)?.mm(&x)?;
    let metrics = profiler.stop()?;
    assert!(nothing_held_back());
    let busy = metrics.gpu_utilization.expect("a device worked");
    assert!(busy > 0.0 && busy <= 1.0, "{busy}");
    assert_eq!(metrics.op_count, 2);
    assert!(metrics.memory_growth_mb >= 0.0625, "{metrics}");
    drop(y);
    Ok(())
}
