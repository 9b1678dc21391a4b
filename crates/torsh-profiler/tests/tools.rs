//! Timers, the phases of training, production.

use std::time::Duration;

use torsh_profiler::{
    Alert, AlertThresholds, InferenceMetrics, MetricsCollector, Profiler, TrainingProfiler,
};

#[test]
fn timers_by_name() {
    let p = Profiler::new();
    let ms = Duration::from_millis;
    p.record("load", ms(30));
    p.record("step", ms(10));
    p.record("load", ms(40));
    p.clone().record("load", ms(20));
    let report = p.report();
    let names: Vec<&str> = report.timings.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(names, ["load", "step"]);
    let load = report.get("load").unwrap();
    assert_eq!((load.count, load.total_ms), (3, 90.0));
    assert_eq!((load.avg_ms, load.min_ms, load.max_ms), (30.0, 20.0, 40.0));
    assert_eq!(
        report.to_string(),
        "load: avg=30.0000ms, min=20.0000ms, max=40.0000ms\nstep: avg=10.0000ms, min=10.0000ms, max=10.0000ms"
    );
    let summary = "\
Name     Calls    Total (ms)      Avg (ms)      Min (ms)      Max (ms)    Share
load         3       90.0000       30.0000       20.0000       40.0000   90.00%
step         1       10.0000       10.0000       10.0000       10.0000   10.00%";
    assert_eq!(p.summary(), summary);
    assert_eq!(p.to_string(), summary);
    assert_eq!(p.times("load"), [ms(30), ms(40), ms(20)]);
    p.reset();
    assert_eq!(p.report().timings, []);
}

#[test]
fn timers_of_several_threads_do_not_meet() {
    let p = Profiler::new();
    p.start("work");
    std::thread::scope(|s| {
        for _ in 0..3 {
            s.spawn(|| {
                assert!(p.end("work").is_err());
                p.start("work");
                p.end("work").unwrap();
            });
        }
    });
    let mine = p.end("work").unwrap();
    let work = p.report().get("work").cloned().unwrap();
    assert_eq!(work.count, 4);
    // This thread's lasted longest, as it spans the others.
    assert_eq!(work.max_ms, mine.as_secs_f64() * 1e3);
    let e = p.end("work").unwrap_err();
    assert!(e.to_string().contains("`work` is not running"), "{e}");
    let doubled: Result<i32, String> = p.time("f", || Ok(2));
    assert_eq!((doubled, p.times("f").len()), (Ok(2), 1));
}

#[test]
fn phases_are_parts_of_their_steps() {
    let p = TrainingProfiler::new();
    p.set_batch_size(8);
    p.start();
    for _ in 0..4 {
        for mark in ["data_loading", "forward_pass", "loss_computation"] {
            p.mark(mark);
        }
        std::thread::sleep(Duration::from_millis(2));
        p.mark("backward_pass");
        p.mark("optimizer_step");
        p.step();
    }
    let profile = p.finish();
    assert_eq!((profile.steps, profile.phases.len()), (4, 5));
    let sum: f64 = profile.phases.iter().map(|(_, ms)| ms).sum();
    assert!(sum <= profile.avg_total_ms + 1e-9);
    assert!(profile.avg_backward_ms >= 2.0);
    assert_eq!(profile.bottleneck(), Some("backward_pass"));
    let throughput = 8.0 / (profile.avg_total_ms / 1e3);
    assert!((profile.samples_per_second / throughput - 1.0).abs() < 1e-9);
    // A new start forgets.
    p.start();
    assert_eq!(p.finish().steps, 0);
}

#[test]
fn thresholds_and_their_texts() {
    let t = AlertThresholds {
        max_latency_ms: 10.0,
        max_memory_mb: 100.0,
        min_gpu_utilization: 0.5,
    };
    let m = InferenceMetrics {
        latency_ms: 12.25,
        memory_mb: 100.0,
        gpu_utilization: Some(0.25),
        ..Default::default()
    };
    let texts: Vec<String> = t.check(&m).iter().map(Alert::to_string).collect();
    let expected = [
        "high latency: 12.2 ms (at most 10.0)",
        "low GPU utilization: 25.0% (at least 50.0%)",
    ];
    assert_eq!(texts, expected);
    let unknown = InferenceMetrics::default();
    assert_eq!(t.check(&unknown), []);
}

#[test]
fn percentiles_of_the_last_calls() {
    let c = MetricsCollector::with_capacity(100);
    for i in 0..=200 {
        c.record(InferenceMetrics {
            latency_ms: f64::from(i),
            throughput: 2.0,
            ..Default::default()
        });
    }
    // 101 to 200 are left.
    let s = c.summary();
    assert_eq!(
        (s.count, s.mean_latency_ms, s.mean_throughput),
        (100, 150.5, 2.0)
    );
    let ranks = (s.p50_latency_ms, s.p95_latency_ms, s.p99_latency_ms);
    assert_eq!((ranks, s.max_latency_ms), ((150.0, 195.0, 199.0), 200.0));
    c.clear();
    assert_eq!(c.summary().count, 0);
}
