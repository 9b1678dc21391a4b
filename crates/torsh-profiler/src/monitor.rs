//! Monitoring a model in production.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use torsh_nn::Module;
use torsh_tensor::{Result, Tensor};

use crate::{ModelProfiler, PerformanceMetrics};

/// What one call of a model took. Megabytes are 2^20 bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InferenceMetrics {
    /// How long it took, the work of devices included.
    pub latency_ms: f64,
    /// What it allocated for tensors on the CPU, temporary ones included.
    pub memory_mb: f64,
    /// Samples (sizes of dimension 0) in a second.
    pub throughput: f64,
    /// The share of the machine's processors that was used; see
    /// [`PerformanceMetrics::cpu_utilization`].
    pub cpu_utilization: Option<f64>,
    /// The share of a GPU; see [`PerformanceMetrics::gpu_utilization`].
    pub gpu_utilization: Option<f64>,
}

/// From when on a call is worth an alert.
#[derive(Clone, Debug, PartialEq)]
pub struct AlertThresholds {
    /// The longest a call may take.
    pub max_latency_ms: f64,
    /// The most it may allocate.
    pub max_memory_mb: f64,
    /// The least share of a GPU it must use; only where the share is known.
    pub min_gpu_utilization: f64,
}

impl Default for AlertThresholds {
    /// Thresholds that nothing passes.
    fn default() -> Self {
        AlertThresholds {
            max_latency_ms: f64::INFINITY,
            max_memory_mb: f64::INFINITY,
            min_gpu_utilization: 0.0,
        }
    }
}

/// A threshold that a call has passed: what was measured, and the threshold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Alert {
    /// It took too long, in milliseconds.
    HighLatency(f64, f64),
    /// It allocated too much, in megabytes.
    HighMemory(f64, f64),
    /// It used too little of the GPU, from 0 to 1.
    LowGpuUtilization(f64, f64),
}

impl fmt::Display for Alert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Alert::HighLatency(ms, most) => {
                write!(f, "high latency: {ms:.1} ms (at most {most:.1})")
            }
            Alert::HighMemory(mb, most) => {
                write!(f, "high memory usage: {mb:.1} MB (at most {most:.1})")
            }
            Alert::LowGpuUtilization(u, least) => {
                let (u, least) = (u * 100.0, least * 100.0);
                write!(f, "low GPU utilization: {u:.1}% (at least {least:.1}%)")
            }
        }
    }
}

impl AlertThresholds {
    /// The thresholds that metrics pass.
    ///
    /// ```
    /// use torsh_profiler::{Alert, AlertThresholds, InferenceMetrics};
    /// let thresholds = AlertThresholds { max_latency_ms: 50.0, ..Default::default() };
    /// let metrics = InferenceMetrics { latency_ms: 80.0, memory_mb: 3.0, ..Default::default() };
    /// assert_eq!(thresholds.check(&metrics), [Alert::HighLatency(80.0, 50.0)]);
    /// ```
    pub fn check(&self, m: &InferenceMetrics) -> Vec<Alert> {
        let mut alerts = Vec::new();
        if m.latency_ms > self.max_latency_ms {
            alerts.push(Alert::HighLatency(m.latency_ms, self.max_latency_ms));
        }
        if m.memory_mb > self.max_memory_mb {
            alerts.push(Alert::HighMemory(m.memory_mb, self.max_memory_mb));
        }
        if let Some(u) = m.gpu_utilization
            && u < self.min_gpu_utilization
        {
            alerts.push(Alert::LowGpuUtilization(u, self.min_gpu_utilization));
        }
        alerts
    }
}

/// What a [`MetricsCollector`] has seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MetricsSummary {
    /// How many calls.
    pub count: usize,
    /// Their mean latency.
    pub mean_latency_ms: f64,
    /// The latency that half of the calls kept to.
    pub p50_latency_ms: f64,
    /// The latency that 95 of 100 kept to.
    pub p95_latency_ms: f64,
    /// The latency that 99 of 100 kept to.
    pub p99_latency_ms: f64,
    /// The longest.
    pub max_latency_ms: f64,
    /// The most a call allocated.
    pub max_memory_mb: f64,
    /// Their mean throughput.
    pub mean_throughput: f64,
}

/// The metrics of the last calls: a handle that any thread may record into.
///
/// ```
/// use torsh_profiler::{InferenceMetrics, MetricsCollector};
/// let collector = MetricsCollector::new();
/// for latency_ms in [1.0, 2.0, 3.0, 10.0] {
///     collector.record(InferenceMetrics { latency_ms, ..Default::default() });
/// }
/// let summary = collector.summary();
/// assert_eq!((summary.mean_latency_ms, summary.p50_latency_ms, summary.max_latency_ms), (4.0, 2.0, 10.0));
/// ```
#[derive(Clone, Debug)]
pub struct MetricsCollector {
    metrics: Arc<Mutex<std::collections::VecDeque<InferenceMetrics>>>,
    capacity: usize,
}

impl Default for MetricsCollector {
    fn default() -> Self {
        MetricsCollector::new()
    }
}

impl MetricsCollector {
    /// One that keeps the last 10,000 calls.
    pub fn new() -> MetricsCollector {
        MetricsCollector::with_capacity(10_000)
    }

    /// One that keeps the last `capacity` calls, at least one.
    pub fn with_capacity(capacity: usize) -> MetricsCollector {
        MetricsCollector {
            metrics: Arc::default(),
            capacity: capacity.max(1),
        }
    }

    /// Adds the metrics of a call.
    pub fn record(&self, metrics: InferenceMetrics) {
        let mut all = self.metrics.lock();
        if all.len() == self.capacity {
            all.pop_front();
        }
        all.push_back(metrics);
    }

    /// The metrics that are kept, the oldest first.
    pub fn metrics(&self) -> Vec<InferenceMetrics> {
        self.metrics.lock().iter().cloned().collect()
    }

    /// Means, percentiles (the nearest rank) and extremes of what is kept.
    pub fn summary(&self) -> MetricsSummary {
        let all = self.metrics();
        let mut latencies: Vec<f64> = all.iter().map(|m| m.latency_ms).collect();
        latencies.sort_by(f64::total_cmp);
        let n = latencies.len();
        let Some(&max_latency_ms) = latencies.last() else {
            return MetricsSummary::default();
        };
        let rank = |p: usize| latencies[(n * p).div_ceil(100).max(1) - 1];
        let mean = |f: fn(&InferenceMetrics) -> f64| all.iter().map(f).sum::<f64>() / n as f64;
        MetricsSummary {
            count: n,
            mean_latency_ms: mean(|m| m.latency_ms),
            p50_latency_ms: rank(50),
            p95_latency_ms: rank(95),
            p99_latency_ms: rank(99),
            max_latency_ms,
            max_memory_mb: all.iter().map(|m| m.memory_mb).fold(0.0, f64::max),
            mean_throughput: mean(|m| m.throughput),
        }
    }

    /// Forgets everything.
    pub fn clear(&self) {
        self.metrics.lock().clear();
    }
}

/// Runs a model and watches what each call takes.
///
/// ```
/// use torsh_nn::Linear;
/// use torsh_profiler::{AlertThresholds, ProductionMonitor};
/// use torsh_tensor::{no_grad, ones};
/// let monitor = ProductionMonitor::new(AlertThresholds { max_memory_mb: 1.0, ..Default::default() })
///     .on_alert(|alert| eprintln!("{alert}"));
/// let model = Linear::new(16, 4);
/// let (y, metrics) = no_grad(|| monitor.monitor_inference(&model, &ones(&[8, 16])))?;
/// assert_eq!(y.dims(), [8, 4]);
/// assert_eq!(metrics.memory_mb, 128.0 / 1048576.0);
/// assert!(monitor.check_performance_alerts(&metrics).is_empty());
/// assert_eq!(monitor.metrics_collector.summary().count, 1);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone)]
pub struct ProductionMonitor {
    /// Where the metrics of all calls go.
    pub metrics_collector: MetricsCollector,
    /// When a call is worth an alert.
    pub alert_thresholds: AlertThresholds,
    on_alert: Option<Arc<dyn Fn(&Alert) + Send + Sync>>,
}

impl ProductionMonitor {
    /// One with these thresholds.
    pub fn new(alert_thresholds: AlertThresholds) -> ProductionMonitor {
        ProductionMonitor {
            metrics_collector: MetricsCollector::new(),
            alert_thresholds,
            on_alert: None,
        }
    }

    /// Calls `f` with each alert of [`ProductionMonitor::monitor_inference`].
    #[must_use]
    pub fn on_alert(mut self, f: impl Fn(&Alert) + Send + Sync + 'static) -> Self {
        self.on_alert = Some(Arc::new(f));
        self
    }

    /// Runs the model; the metrics are recorded, and alerts are told of.
    ///
    /// # Errors
    /// Those of `forward`, whose calls are not recorded, and what devices report of its work.
    #[torsh_tensor::names_caller]
    pub fn monitor_inference<M: Module + ?Sized>(
        &self,
        model: &M,
        input: &Tensor,
    ) -> Result<(Tensor, InferenceMetrics)> {
        // Calls of several threads do not share one.
        let profiler = ModelProfiler::new();
        profiler.start()?;
        let began = Instant::now();
        let output = model.forward(input);
        crate::device::wait();
        let seconds = began.elapsed().as_secs_f64();
        let profile = profiler.stop();
        let output = output?;
        let profile: PerformanceMetrics = profile?;
        let samples = input.dims().first().copied().unwrap_or(1) as f64;
        let metrics = InferenceMetrics {
            latency_ms: seconds * 1e3,
            memory_mb: profile.allocated_mb,
            throughput: samples / seconds.max(f64::MIN_POSITIVE),
            cpu_utilization: profile.cpu_utilization,
            gpu_utilization: profile.gpu_utilization,
        };
        if let Some(f) = &self.on_alert {
            self.check_performance_alerts(&metrics)
                .iter()
                .for_each(|a| f(a));
        }
        self.metrics_collector.record(metrics.clone());
        Ok((output, metrics))
    }

    /// The thresholds that metrics pass.
    pub fn check_performance_alerts(&self, metrics: &InferenceMetrics) -> Vec<Alert> {
        self.alert_thresholds.check(metrics)
    }
}

impl fmt::Debug for ProductionMonitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProductionMonitor")
            .field("alert_thresholds", &self.alert_thresholds)
            .field("metrics", &self.metrics_collector.summary())
            .finish()
    }
}
