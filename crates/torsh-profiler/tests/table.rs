//! Tables of made-up events; `data/table_*.txt` are PyTorch's of the same events.

use torsh_profiler::{
    DeviceSpan, EventKind, EventList, FunctionEvent, KeyAveragesOptions, TableOptions,
};
use torsh_tensor::Device;

fn event(
    name: &str,
    (start_us, end_us): (f64, f64),
    parent: Option<usize>,
    shapes: &[&[usize]],
    memory: i64,
    stack: &[&str],
) -> FunctionEvent {
    FunctionEvent {
        name: name.into(),
        start_us,
        end_us,
        parent,
        input_shapes: shapes.iter().map(|s| s.to_vec()).collect(),
        allocated_bytes: memory.max(0) as u64,
        freed_bytes: (-memory).max(0) as u64,
        stack: stack.iter().map(|s| s.to_string()).collect(),
        thread: 1,
        ..Default::default()
    }
}

fn events(memory: bool, stacks: bool) -> EventList {
    const STEP: &str = "src/main.rs(3): step";
    const LINEAR: &str = "src/main.rs(12): aten::linear";
    let linear: &[&str] = if stacks { &[LINEAR, STEP] } else { &[] };
    let mm: &[&str] = match stacks {
        true => &["src/lib.rs(7): aten::mm", LINEAR, STEP],
        false => &[],
    };
    let add: &[&str] = if stacks {
        &["src/main.rs(20): aten::add"]
    } else {
        &[]
    };
    let node = "autograd::engine::evaluate_function: a_long_name_of_a_nodeBackward0";
    let list = vec![
        event("step", (0.0, 2_500_000.0), None, &[], (4096 + 3) << 20, &[]),
        event(
            "aten::linear",
            (100.0, 1500.25),
            Some(0),
            &[&[16, 8], &[4, 8], &[4]],
            3 << 20,
            linear,
        ),
        event(
            "aten::mm",
            (200.0, 700.125),
            Some(1),
            &[&[16, 8], &[8, 4]],
            3 << 20,
            mm,
        ),
        event(
            "aten::mm",
            (800.0, 900.5),
            Some(1),
            &[&[16, 4], &[4, 4]],
            0,
            mm,
        ),
        event(node, (2000.0, 2010.0), Some(0), &[], -512, &[]),
        event(
            "aten::add",
            (2001.0, 2003.5),
            Some(4),
            &[&[16, 4], &[]],
            1536,
            add,
        ),
        event(
            "aten::add",
            (3_000_000.0, 3_000_001.0),
            None,
            &[&[16, 4], &[]],
            64,
            add,
        ),
    ];
    EventList::new(list, memory).unwrap()
}

#[test]
fn tables_are_pytorchs() {
    let averages = events(true, false).key_averages();
    let table = averages.table("self_cpu_time_total", 100).unwrap();
    assert_eq!(table, include_str!("data/table_0.txt"));
    let table = averages.table("cpu_memory_usage", 3).unwrap();
    assert_eq!(table, include_str!("data/table_1.txt"));
    let by_shape = KeyAveragesOptions::new().group_by_input_shape(true);
    let o = TableOptions::new().sort_by("cpu_time_total").row_limit(4);
    let averages = events(false, false).key_averages_with(by_shape);
    let table = averages.table_with(o.header("shapes")).unwrap();
    assert_eq!(table, include_str!("data/table_2.txt"));
    let events = events(false, true);
    let by_stack = KeyAveragesOptions::new().group_by_stack_n(2);
    let o = TableOptions::new().sort_by("count").time_unit("ms");
    let averages = events.key_averages_with(by_stack);
    let table = averages.table_with(o.max_src_column_width(24)).unwrap();
    assert_eq!(table, include_str!("data/table_3.txt"));
    let o = TableOptions::new().top_level_events_only(true);
    let table = events.table_with(o).unwrap();
    assert_eq!(table, include_str!("data/table_4.txt"));
}

#[test]
fn sums_and_their_parts() {
    let events = events(true, false);
    assert_eq!(events[0].children, [1, 4]);
    assert_eq!(events[1].children, [2, 3]);
    let averages = events.key_averages();
    let mm = averages.get("aten::mm").unwrap();
    assert_eq!((mm.count, mm.cpu_time_total), (2, 600.625));
    assert_eq!(mm.cpu_time(), 300.3125);
    let step = averages.get("step").unwrap();
    assert_eq!(step.self_cpu_memory_usage, (4096 << 20) + 512);
    let total = events.total_average();
    assert_eq!((total.key.as_str(), total.count), ("Total", 7));
    assert_eq!(total.self_cpu_time_total, 2_500_001.0);
    assert_eq!(total, averages.total_average());
    assert_eq!(averages.self_cpu_time_total(), events.self_cpu_time_total());
}

#[test]
fn what_cannot_be_shown_is_an_error() {
    let events = events(false, false);
    let e = events.key_averages().table("time", 10).unwrap_err();
    assert!(e.to_string().contains("nothing is sorted by `time`"), "{e}");
    assert!(e.to_string().contains("self_cpu_time_total"), "{e}");
    let o = TableOptions::new().time_unit("h");
    let e = events.table_with(o).unwrap_err();
    assert!(e.to_string().contains("s, ms or us"), "{e}");
    let bad = vec![event("a", (0.0, 1.0), Some(0), &[], 0, &[])];
    let e = EventList::new(bad, false).unwrap_err();
    assert!(e.to_string().contains("does not lie ahead"), "{e}");
    assert_eq!(EventList::default().table("", 10).unwrap(), "");
}

#[test]
fn stacks_of_flame_graphs() {
    let events = events(false, true);
    let path = std::env::temp_dir().join(format!("torsh_stacks_{}", std::process::id()));
    events.export_stacks(&path, "self_cpu_time_total").unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let step = "src/main.rs(3):_step";
    let linear = format!("{step};src/main.rs(12):_aten::linear");
    assert_eq!(
        text,
        format!(
            "{linear} 799\n{linear};src/lib.rs(7):_aten::mm 500\n{linear};src/lib.rs(7):_aten::mm 100\nsrc/main.rs(20):_aten::add 2\nsrc/main.rs(20):_aten::add 1\n"
        )
    );
    let e = events.export_stacks(&path, "count");
    assert!(e.unwrap_err().to_string().contains("self_cpu_time_total"));
}

fn on_device(name: &str, host: (f64, f64), parent: Option<usize>, us: f64) -> FunctionEvent {
    let memory = if name == "aten::mm" { 3 << 20 } else { 0 };
    FunctionEvent {
        device: Some(DeviceSpan {
            device: Device::Cuda(0),
            stream: 0,
            start_us: 1000.0,
            end_us: 1000.0 + us,
        }),
        ..event(name, host, parent, &[], memory, &[])
    }
}

/// Events of a device: their own times there, and a step that has none of its own.
fn device_events() -> EventList {
    let list = vec![
        event("step", (0.0, 5000.0), None, &[], 0, &[]),
        on_device("aten::mm", (100.0, 140.5), Some(0), 1250.25),
        on_device("aten::add", (200.0, 300.25), Some(0), 80.5),
        on_device("aten::mul", (210.0, 220.0), Some(2), 20.125),
        on_device("aten::add", (400.0, 430.0), Some(0), 3_000_000.0),
    ];
    EventList::new(list, true).unwrap()
}

#[test]
fn tables_of_devices_are_pytorchs() {
    let events = device_events();
    assert_eq!(events.use_device().as_deref(), Some("cuda"));
    let table = events.key_averages().table("device_time_total", 100);
    assert_eq!(table.unwrap(), include_str!("data/table_5.txt"));
    let o = TableOptions::new().sort_by("self_cuda_time_total");
    let table = events.table_with(o.time_unit("us")).unwrap();
    assert_eq!(table, include_str!("data/table_6.txt"));
}

#[test]
fn device_times_and_their_parts() {
    let events = device_events();
    let step = &events[0];
    assert_eq!(step.device_time_total, 1250.25 + 80.5 + 3e6);
    assert_eq!(step.self_device_time_total, 0.0);
    let averages = events.key_averages();
    let add = averages.get("aten::add").unwrap();
    assert_eq!(add.device_time_total, 80.5 + 3e6);
    assert_eq!(add.self_device_time_total, 60.375 + 3e6);
    assert_eq!(add.device_time(), (80.5 + 3e6) / 2.0);
    assert_eq!(averages.self_device_time_total(), step.device_time_total);
    assert_eq!(averages.total_average(), events.total_average());
    assert_eq!(self::events(true, false).use_device(), None);
}

#[test]
fn what_the_cpu_computed_for_a_device_is_named() {
    let mut all = device_events().to_vec();
    let fallback = FunctionEvent {
        kind: EventKind::Fallback,
        ..event(
            "torsh::fallback_to_cpu: aten::mm",
            (101.0, 140.0),
            Some(1),
            &[],
            0,
            &[],
        )
    };
    all.push(fallback);
    let events = EventList::new(all, false).unwrap();
    let table = events.key_averages().table("count", 1).unwrap();
    let last = "Self CUDA time total: 3.001s\nComputed on the CPU for a device without their kernel: aten::mm (1)\n";
    assert!(table.ends_with(last), "{table}");
}
