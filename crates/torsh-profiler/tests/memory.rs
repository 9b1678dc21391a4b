//! Memory over the whole process, hence a test binary of its own and a lock.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use torsh_nn::Linear;
use torsh_profiler::{
    Alert, AlertThresholds, MemoryProfiler, ModelProfiler, ProductionMonitor, get_memory_usage,
};
use torsh_tensor::{DType, Shape, Tensor, no_grad, ones, rand};

static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    let guard = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    // A reused block may be larger than what is asked for.
    torsh_core::alloc::empty_cache();
    guard
}

const MB: usize = 1 << 20;

#[test]
fn leaks_are_found_with_their_ops() {
    let _alone = alone();
    let before = ones(&[1000]);
    let profiler = MemoryProfiler::new();
    profiler.start();
    let sum = before.add(1.0).unwrap();
    let view = sum.reshape([10, 100]).unwrap();
    before.add_(1.0).unwrap();
    drop(before.mul(2.0).unwrap());
    let made = ones(&[64]);
    let drawn = rand(&[3, 5]);
    let line = line!() + 1;
    let own = Tensor::from_vec(vec![1i64, 2, 3], [3]).unwrap();
    let wide = own.to_dtype(DType::F64).unwrap();
    profiler.stop();
    // What comes later is none of its business.
    let later = ones(&[7]);
    let report = profiler.report();
    let found: Vec<(&str, Shape, usize)> = (report.potential_leaks.iter())
        .map(|l| (l.op.as_str(), l.shape.clone(), l.bytes))
        .collect();
    let expected = [
        ("aten::add", Shape::from([1000]), 4000),
        ("aten::fill_", Shape::from([64]), 256),
        ("aten::uniform_", Shape::from([3, 5]), 60),
        ("aten::empty", Shape::from([3]), 24),
    ];
    assert_eq!(found[..4], expected);
    assert_eq!((found.len(), found[4].2), (5, 24));
    assert_eq!(report.potential_leaks[4].dtype, DType::F64);
    let at = report.potential_leaks[4].location.clone().unwrap();
    assert_eq!(at, format!("{}({})", file!(), line + 1));
    assert_eq!(report.leaked_bytes, 4000 + 256 + 60 + 24 + 24);
    // All that was made, the product that went included.
    assert_eq!((report.allocations, report.allocated_bytes), (6, 8364));
    // A view keeps its memory alive; once it is gone the leak is.
    drop(sum);
    assert_eq!(profiler.report().potential_leaks.len(), 5);
    drop((view, made, drawn, own, wide));
    assert_eq!(profiler.report().potential_leaks, []);
    drop(later);
    assert!(
        report
            .to_string()
            .contains("aten::add: float32[1000], 4000 bytes")
    );
}

#[test]
fn peaks_and_growth() {
    let _alone = alone();
    let profiler = MemoryProfiler::new();
    profiler.start_monitoring();
    let base = get_memory_usage().allocated_mb;
    let a = ones(&[2 * MB / 4]);
    let b = a.add(&a).unwrap();
    drop(a);
    let report = profiler.generate_report();
    assert_eq!(report.peak_memory_mb - base, 4.0);
    assert_eq!(report.current_memory_mb - base, 2.0);
    assert_eq!(report.growth_mb, 2.0);
    profiler.stop();
    drop(b);
    // The figures stay those of the end.
    assert_eq!(profiler.report().growth_mb, 2.0);
    profiler.start();
    assert_eq!(profiler.report().growth_mb, 0.0);
    profiler.stop();
}

#[test]
fn memory_tracked_by_hand() {
    let profiler = MemoryProfiler::new();
    profiler.track_allocation(3 * MB);
    profiler.track_allocation(MB);
    profiler.track_deallocation(3 * MB);
    let report = profiler.report();
    assert_eq!(
        (report.peak_memory_mb, report.current_memory_mb),
        (4.0, 1.0)
    );
    profiler.track_deallocation(5 * MB);
    assert_eq!(profiler.report().current_memory_mb, 0.0);
}

#[test]
fn memory_of_a_backward_pass_is_not_a_leak_but_the_gradient_is() {
    let _alone = alone();
    let w = ones(&[32, 32]).requires_grad_(true);
    let profiler = MemoryProfiler::new();
    profiler.start();
    w.mul(&w).unwrap().sum().unwrap().backward().unwrap();
    profiler.stop();
    let report = profiler.report();
    assert_eq!(
        (report.potential_leaks.len(), report.leaked_bytes),
        (1, 4096)
    );
    w.zero_grad();
    assert_eq!(profiler.report().leaked_bytes, 0);
}

#[test]
fn a_sparse_tensor_has_the_memory_of_its_parts() -> torsh_tensor::Result<()> {
    let _alone = alone();
    let side = 1i64 << 40;
    let profiler = MemoryProfiler::new();
    profiler.start();
    let (indices, values) = (
        Tensor::from_vec(vec![side - 1, 5, 0, 7], [2, 2])?,
        ones(&[2]),
    );
    let x = torsh_sparse::coo(&indices, &values, [side, side])?;
    profiler.stop();
    drop((indices, values));
    assert_eq!(profiler.report().leaked_bytes, 4 * 8 + 2 * 4);
    drop(x);
    assert_eq!(profiler.report().leaked_bytes, 0);
    Ok(())
}

#[test]
fn differences_of_readings() {
    let _alone = alone();
    let before = get_memory_usage();
    let x = ones(&[MB]);
    let grown = get_memory_usage() - before;
    assert_eq!(grown.allocated_mb, 4.0);
    drop(x);
    assert_eq!((get_memory_usage() - before).allocated_mb, 0.0);
}

#[test]
fn a_models_metrics() {
    let _alone = alone();
    let x = ones(&[MB / 4]);
    let profiler = ModelProfiler::new();
    profiler.start().unwrap();
    assert!(profiler.start().is_err());
    let y = x.exp().unwrap();
    drop(x.sin().unwrap());
    let m = profiler.stop().unwrap();
    assert_eq!(
        (m.op_count, m.allocated_mb, m.memory_growth_mb),
        (2, 2.0, 1.0)
    );
    assert_eq!(m.gpu_utilization, None);
    assert!(m.to_string().contains("GPU utilization: unknown"));
    assert!(profiler.stop().is_err());
    drop(y);
}

#[test]
fn a_monitor_measures_records_and_warns() {
    let _alone = alone();
    let alerts: Arc<Mutex<Vec<Alert>>> = Arc::default();
    let sink = alerts.clone();
    let thresholds = AlertThresholds {
        max_memory_mb: 0.03,
        ..Default::default()
    };
    let monitor =
        ProductionMonitor::new(thresholds).on_alert(move |a| sink.lock().unwrap().push(*a));
    let model = Linear::new(64, 64);
    let call = |n: usize| no_grad(|| monitor.monitor_inference(&model, &ones(&[n, 64]))).unwrap();
    let (y, m) = call(4);
    assert_eq!(y.dims(), [4, 64]);
    // The result, and what the product works in.
    let result = 1024.0 / 1048576.0;
    assert!(m.memory_mb >= result && m.memory_mb < 0.03, "{m:?}");
    assert!((m.throughput * m.latency_ms / 1e3 - 4.0).abs() < 1e-9);
    assert!(alerts.lock().unwrap().is_empty());
    let (_, m) = call(64);
    assert!(m.memory_mb > 16.0 * result, "{m:?}");
    assert_eq!(
        *alerts.lock().unwrap(),
        [Alert::HighMemory(m.memory_mb, 0.03)]
    );
    // A call that fails is an error and nothing else.
    assert!(monitor.monitor_inference(&model, &ones(&[2, 3])).is_err());
    let summary = monitor.metrics_collector.summary();
    assert_eq!((summary.count, summary.max_memory_mb), (2, m.memory_mb));
}
