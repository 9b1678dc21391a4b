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
use torsh_core::cmath;

use super::stages::Stages;
use super::transposition::lanes;

use crate::machine::tuning::fft::{PLAN_BYTES, PLANS};
use crate::simd::Vectors;

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
struct Key {
    /// The number of complex points.
    n: usize,
    way: Way,
    /// The size of a real number.
    size: usize,
}

/// How a plan transforms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// A line at a time; `real` where its points are pairs of real numbers, `inverse` where the exponents are
    /// positive.
    Line { real: bool, inverse: bool },
    /// A line for each lane.
    LaneTransform { real: bool },
    /// A line as a matrix.
    Split { real: bool, inverse: bool },
}

/// The numbers that transforms compute in.
pub(super) trait FftReal: FftNum + Vectors {}
impl FftReal for f32 {}
impl FftReal for f64 {}

/// Something that the cache keeps.
trait CachedPlan: Any + Send + Sync {
    /// About its bytes.
    fn bytes(&self) -> usize;
}

/// `exp(-2 pi i k / n)` for any `k` below `n`: sine and cosine of an angle of at most an eighth of a turn, where
/// those of a rounded angle are right to an ulp.
pub(super) fn root(k: usize, n: usize) -> (f64, f64) {
    let turn = 2.0 * std::f64::consts::PI;
    // The nearest quarter, and what is left.
    let quarter = (8 * k + n) / (2 * n);
    let rest = (4 * k) as f64 - (quarter * n) as f64;
    let (s, c) = cmath::sin_cos(turn * rest / (4 * n) as f64);
    match quarter % 4 {
        0 => (c, -s),
        1 => (-s, -c),
        2 => (-c, s),
        _ => (s, c),
    }
}

/// The twiddle factors of a real line of `n` numbers, for `k` up to a quarter of it.
fn quarter<T: FftReal>(n: usize) -> Vec<Complex<T>> {
    (0..n / 4 + 1)
        .map(|k| root(k, n))
        .map(|(c, s)| Complex::new(T::c(c), T::c(s)))
        .collect()
}

/// The algorithm for lines of `n` points, one at a time.
pub(super) struct LinePlan<T> {
    pub(super) fft: Arc<dyn Fft<T>>,
    /// For real lines, of twice the points.
    pub(super) twiddles: Vec<Complex<T>>,
}

impl<T: FftReal> CachedPlan for LinePlan<T> {
    /// The library says what its algorithms need beside the data, which is what their factors take too.
    fn bytes(&self) -> usize {
        let inner = 2 * self.fft.len() + self.fft.get_inplace_scratch_len();
        (inner + self.twiddles.len()) * size_of::<Complex<T>>()
    }
}

/// The stages for lines of `n` points in lanes.
pub(super) struct LanesPlan<T> {
    pub(super) stages: Stages<T>,
    /// For real lines, of twice the points.
    pub(super) twiddles: Vec<Complex<T>>,
}

impl<T: FftReal> CachedPlan for LanesPlan<T> {
    fn bytes(&self) -> usize {
        self.stages.bytes() + self.twiddles.len() * size_of::<Complex<T>>()
    }
}

/// The stages for a line as a matrix, and the factors between its columns and its rows.
pub(super) struct SplitPlan<T> {
    /// The transforms of columns and of rows.
    pub(super) columns: Arc<LanesPlan<T>>,
    pub(super) rows: Arc<LanesPlan<T>>,
    /// For each row a vector of real parts and one of imaginary parts: the factors of the first columns.
    pub(super) lanes: Vec<T>,
    /// For each block of columns and each row the factor of its first column, complex.
    pub(super) blocks: Vec<T>,
    /// For real lines, of twice the points.
    pub(super) twiddles: Vec<Complex<T>>,
}

impl<T: FftReal> CachedPlan for SplitPlan<T> {
    fn bytes(&self) -> usize {
        let own = (self.lanes.len() + self.blocks.len() + 2 * self.twiddles.len()) * size_of::<T>();
        own + self.columns.bytes() + self.rows.bytes()
    }
}

struct PlanEntry {
    key: Key,
    plan: Arc<dyn Any + Send + Sync>,
    bytes: usize,
    /// When it was used last.
    used: u64,
}

struct Cache {
    entries: Vec<PlanEntry>,
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

    fn insert(&mut self, entry: PlanEntry) {
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

/// The plan for a key, from the cache or made now.
fn cached<P: CachedPlan>(key: Key, make: impl FnOnce() -> P) -> Arc<P> {
    if let Some(found) = cache().find(key)
        && let Ok(plan) = found.downcast::<P>()
    {
        return plan;
    }
    // Made without the lock: other threads go on with their plans.
    let plan = Arc::new(make());
    let mut cache = cache();
    let used = cache.clock;
    cache.insert(PlanEntry {
        key,
        plan: plan.clone(),
        bytes: plan.bytes(),
        used,
    });
    plan
}

/// The plan for lines of `n` points, or of `n` pairs of real numbers, one at a time.
pub(super) fn plan<T: FftReal>(n: usize, real: bool, inverse: bool) -> Arc<LinePlan<T>> {
    let way = Way::Line { real, inverse };
    let size = size_of::<T>();
    cached(Key { n, way, size }, || {
        let direction = match inverse {
            true => FftDirection::Inverse,
            false => FftDirection::Forward,
        };
        LinePlan {
            // A planner of its own: it keeps all the plans that it made.
            fft: FftPlanner::new().plan_fft(n, direction),
            twiddles: if real { quarter(2 * n) } else { Vec::new() },
        }
    })
}

/// The same for lines in lanes.
pub(super) fn lanes_plan<T: FftReal>(n: usize, real: bool) -> Arc<LanesPlan<T>> {
    let way = Way::LaneTransform { real };
    let size = size_of::<T>();
    cached(Key { n, way, size }, || LanesPlan {
        stages: Stages::new(n),
        twiddles: if real { quarter(2 * n) } else { Vec::new() },
    })
}

/// The same for lines as matrices of `rows` by `columns`.
pub(super) fn split_plan<T: FftReal>(
    [rows, columns]: [usize; 2],
    real: bool,
    inverse: bool,
) -> Arc<SplitPlan<T>> {
    let way = Way::Split { real, inverse };
    let (n, size) = (rows * columns, size_of::<T>());
    cached(Key { n, way, size }, || {
        let width = lanes::<T>();
        let factor = |k: usize| {
            let (re, im) = root(k % n, n);
            [T::c(re), T::c(if inverse { -im } else { im })]
        };
        let mut of_lanes = Vec::with_capacity(2 * width * rows);
        for row in 0..rows {
            let all: Vec<[T; 2]> = (0..width).map(|lane| factor(row * lane)).collect();
            of_lanes.extend(all.iter().map(|z| z[0]));
            of_lanes.extend(all.iter().map(|z| z[1]));
        }
        let starts = super::split::blocks(columns, width);
        SplitPlan {
            columns: lanes_plan(rows, false),
            rows: lanes_plan(columns, false),
            lanes: of_lanes,
            blocks: starts
                .flat_map(|first| (0..rows).map(move |row| row * first))
                .flat_map(factor)
                .collect(),
            twiddles: if real { quarter(2 * n) } else { Vec::new() },
        }
    })
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
