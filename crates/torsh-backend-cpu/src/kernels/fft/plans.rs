//! Plans of transforms, and the cache that keeps them.
//!
//! A plan holds the algorithm and the twiddle factors of one length, direction and precision. Making one
//! takes longer than a transform. The cache keeps the plans that were used last, at most
//! [`PLANS`](crate::machine::tuning::fft::PLANS) of them and [`PLAN_BYTES`](crate::machine::tuning::fft::PLAN_BYTES) bytes, so
//! the memory stays bounded whatever lengths a program uses.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};

use num_complex::Complex;
use rustfft::{Fft, FftDirection, FftNum, FftPlanner};

use crate::machine::tuning::fft::{PLAN_BYTES, PLANS};

/// What the cache of plans holds and did.
///
/// ```
/// let stats = torsh_backend_cpu::fft::plan_cache_stats();
/// assert!(stats.plans <= stats.max_plans && stats.bytes <= stats.max_bytes);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlanCacheStats {
    /// The plans in the cache.
    pub plans: usize,
    /// About how many bytes they have.
    pub bytes: usize,
    /// The most plans that it keeps.
    pub max_plans: usize,
    /// The most bytes that it keeps.
    pub max_bytes: usize,
    /// How often a plan was found.
    pub hits: u64,
    /// How often a plan was made.
    pub misses: u64,
}

/// What a plan is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    /// The number of points.
    pub(super) n: usize,
    /// Whether one side is real: then an even length takes a complex transform of half the length.
    pub(super) real: bool,
    /// Whether the exponents are positive.
    pub(super) inverse: bool,
    /// The size of a real number.
    size: usize,
}

/// A transform of one length.
pub(super) struct Plan<T> {
    /// The complex transform: of the length, or of half of it.
    pub(super) fft: Arc<dyn Fft<T>>,
    /// `exp(-2 pi i k / n)` for `k` up to a quarter of an even real length.
    pub(super) twiddles: Vec<Complex<T>>,
}

/// The numbers that transforms compute with.
pub(super) trait Real: FftNum {
    /// The nearest number.
    fn of(v: f64) -> Self;
}
impl Real for f32 {
    fn of(v: f64) -> f32 {
        v as f32
    }
}
impl Real for f64 {
    fn of(v: f64) -> f64 {
        v
    }
}

/// `exp(-2 pi i k / n)` for `k` up to `n / 4`: the angle is at most `pi / 4`, where sine and cosine of a
/// rounded angle are right to an ulp.
fn twiddle(k: usize, n: usize) -> (f64, f64) {
    let turn = 2.0 * std::f64::consts::PI;
    if 8 * k <= n {
        let (s, c) = (turn * k as f64 / n as f64).sin_cos();
        return (c, -s);
    }
    // The other side of an eighth: sine and cosine change places.
    let (s, c) = (turn * (n - 4 * k) as f64 / (4 * n) as f64).sin_cos();
    (s, -c)
}

impl<T: Real> Plan<T> {
    fn new(key: Key) -> Plan<T> {
        let direction = match key.inverse {
            true => FftDirection::Inverse,
            false => FftDirection::Forward,
        };
        let halved = key.real && key.n.is_multiple_of(2);
        let points = if halved { key.n / 2 } else { key.n };
        let quarter = if halved { key.n / 4 + 1 } else { 0 };
        Plan {
            // A planner of its own: it keeps all the plans that it made.
            fft: FftPlanner::new().plan_fft(points, direction),
            twiddles: (0..quarter)
                .map(|k| twiddle(k, key.n))
                .map(|(c, s)| Complex::new(T::of(c), T::of(s)))
                .collect(),
        }
    }

    /// About its bytes: the library says what its algorithms need beside the data, which is what their
    /// factors take too.
    fn bytes(&self) -> usize {
        let inner = 2 * self.fft.len() + self.fft.get_inplace_scratch_len();
        (inner + self.twiddles.len()) * size_of::<Complex<T>>()
    }
}

struct Entry {
    key: Key,
    plan: Arc<dyn Any + Send + Sync>,
    bytes: usize,
    /// When it was used last.
    used: u64,
}

struct Cache {
    entries: Vec<Entry>,
    bytes: usize,
    clock: u64,
    hits: u64,
    misses: u64,
}

static CACHE: Mutex<Cache> = Mutex::new(Cache {
    entries: Vec::new(),
    bytes: 0,
    clock: 0,
    hits: 0,
    misses: 0,
});

fn cache() -> std::sync::MutexGuard<'static, Cache> {
    CACHE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Cache {
    fn find(&mut self, key: Key) -> Option<Arc<dyn Any + Send + Sync>> {
        self.clock += 1;
        let clock = self.clock;
        let entry = self.entries.iter_mut().find(|e| e.key == key)?;
        entry.used = clock;
        self.hits += 1;
        Some(entry.plan.clone())
    }

    fn keep(&mut self, entry: Entry) {
        self.misses += 1;
        if entry.bytes > PLAN_BYTES || self.entries.iter().any(|e| e.key == entry.key) {
            return;
        }
        while self.entries.len() >= PLANS || self.bytes + entry.bytes > PLAN_BYTES {
            let oldest = (0..self.entries.len()).min_by_key(|&i| self.entries[i].used);
            match oldest {
                Some(i) => self.bytes -= self.entries.swap_remove(i).bytes,
                None => break,
            }
        }
        self.bytes += entry.bytes;
        self.entries.push(entry);
    }
}

/// The plan for `n` points, from the cache or made now.
pub(super) fn plan<T: Real>(n: usize, real: bool, inverse: bool) -> Arc<Plan<T>> {
    let size = size_of::<T>();
    let key = Key {
        n,
        real,
        inverse,
        size,
    };
    if let Some(found) = cache().find(key)
        && let Ok(plan) = found.downcast::<Plan<T>>()
    {
        return plan;
    }
    // Made without the lock: other threads go on with their plans.
    let plan = Arc::new(Plan::<T>::new(key));
    let mut cache = cache();
    let used = cache.clock;
    cache.keep(Entry {
        key,
        plan: plan.clone(),
        bytes: plan.bytes(),
        used,
    });
    plan
}

/// What the cache of plans holds and did since the program started.
///
/// ```
/// use torsh_backend_cpu::fft::{clear_plan_cache, plan_cache_stats};
/// clear_plan_cache();
/// assert_eq!((plan_cache_stats().plans, plan_cache_stats().bytes), (0, 0));
/// ```
pub fn plan_cache_stats() -> PlanCacheStats {
    let c = cache();
    PlanCacheStats {
        plans: c.entries.len(),
        bytes: c.bytes,
        max_plans: PLANS,
        max_bytes: PLAN_BYTES,
        hits: c.hits,
        misses: c.misses,
    }
}

/// Drops all plans that the cache keeps; the counts of hits and misses stay. A transform that runs on another
/// thread keeps its own until it ends.
///
/// ```
/// torsh_backend_cpu::fft::clear_plan_cache();
/// assert_eq!(torsh_backend_cpu::fft::plan_cache_stats().plans, 0);
/// ```
pub fn clear_plan_cache() {
    let mut c = cache();
    c.entries = Vec::new();
    c.bytes = 0;
}
