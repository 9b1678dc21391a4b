//! The machine's limits: multiply-adds in registers, and copies and reads larger than its caches.

use std::fmt;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use torsh_backend_cpu::machine::peak;
use torsh_backend_cpu::simd;
use torsh_tensor::DType;

/// Seconds of one measurement of multiply-adds.
const SPAN: f64 = 0.01;
/// Measurements whose best is taken.
const TRIES: usize = 5;
/// Bytes that each copy reads and writes, all threads together: far beyond any cache.
const BYTES: usize = 256 << 20;

/// The limits of the machine with a number of threads, per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// Threads, all measured at once.
    pub threads: usize,
    /// Operations in float32, two for a multiply-add.
    pub f32: f64,
    /// Operations in float64.
    pub f64: f64,
    /// Operations in bfloat16, where the processor has them.
    pub bf16: Option<f64>,
    /// Bytes read and written by copies.
    pub copy: f64,
    /// Bytes read by sums.
    pub read: f64,
}

impl Machine {
    /// Measures.
    pub fn measure(threads: usize) -> Machine {
        Machine {
            threads,
            f32: on_all(threads, &|n| peak::f32(n)),
            f64: on_all(threads, &|n| peak::f64(n)),
            bf16: peak::bf16(0).map(|_| on_all(threads, &|n| peak::bf16(n).unwrap_or(0))),
            copy: copy(threads, BYTES),
            read: read(threads, BYTES),
        }
    }

    /// The best of both.
    #[must_use]
    pub fn best(self, other: Machine) -> Machine {
        Machine {
            threads: self.threads,
            f32: self.f32.max(other.f32),
            f64: self.f64.max(other.f64),
            bf16: self.bf16.zip(other.bf16).map(|(a, b)| a.max(b)),
            copy: self.copy.max(other.copy),
            read: self.read.max(other.read),
        }
    }

    /// Operations per second in a dtype; float32's are those of the half types without their own.
    pub fn peak(&self, dtype: DType) -> Option<f64> {
        match dtype {
            DType::F32 => Some(self.f32),
            DType::F64 => Some(self.f64),
            DType::BF16 => self.bf16,
            _ => None,
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let giga = |x: f64| x / 1e9;
        let bf16 = self
            .bf16
            .map_or("none".into(), |b| format!("{:.1}", giga(b)));
        write!(
            f,
            "{} thread{}, {:?}: float32 {:.1}, float64 {:.1}, bfloat16 {bf16} GFLOP/s, copy {:.1} GB/s, read {:.1} GB/s",
            self.threads,
            if self.threads == 1 { "" } else { "s" },
            simd::level(),
            giga(self.f32),
            giga(self.f64),
            giga(self.copy),
            giga(self.read),
        )
    }
}

/// Operations per second of all threads at once; `f` makes rounds and counts them.
fn on_all(threads: usize, f: &(dyn Fn(usize) -> usize + Sync)) -> f64 {
    let mut rounds = 1000;
    loop {
        let start = Instant::now();
        f(rounds);
        let t = start.elapsed().as_secs_f64();
        if t > SPAN {
            break;
        }
        rounds *= if t < SPAN / 10.0 { 10 } else { 2 };
    }
    let together = Barrier::new(threads);
    let rate = || {
        together.wait();
        let start = Instant::now();
        let n = f(rounds);
        n as f64 / start.elapsed().as_secs_f64()
    };
    let once = |_| {
        thread::scope(|s| {
            let others: Vec<_> = (1..threads).map(|_| s.spawn(rate)).collect();
            let own = rate();
            own + others
                .into_iter()
                .filter_map(|t| t.join().ok())
                .sum::<f64>()
        })
    };
    (0..TRIES).map(once).fold(0.0, f64::max)
}

/// Bytes read and written per second by copies of `bytes / 2`, a part by each thread.
fn copy(threads: usize, bytes: usize) -> f64 {
    let half = bytes / 2;
    // Written, so that the pages are there.
    let (from, mut to) = (vec![1u8; half], vec![2u8; half]);
    let part = half.div_ceil(threads);
    let together = Barrier::new(threads);
    let each = |from: &[u8], to: &mut [u8]| {
        let mut best = f64::MAX;
        for _ in 0..TRIES {
            together.wait();
            let start = Instant::now();
            to.copy_from_slice(from);
            together.wait();
            best = best.min(start.elapsed().as_secs_f64());
        }
        best
    };
    let seconds = thread::scope(|s| {
        let mut parts = from.chunks(part).zip(to.chunks_mut(part));
        let own = parts.next();
        let others: Vec<_> = parts.map(|(f, t)| s.spawn(move || each(f, t))).collect();
        let own = own.map_or(f64::MAX, |(f, t)| each(f, t));
        others
            .into_iter()
            .filter_map(|t| t.join().ok())
            .fold(own, f64::min)
    });
    2.0 * half as f64 / seconds
}

/// Bytes read per second by sums of `bytes`, a part by each thread.
fn read(threads: usize, bytes: usize) -> f64 {
    let from = vec![1u64; bytes / size_of::<u64>()];
    let part = from.len().div_ceil(threads);
    let together = Barrier::new(threads);
    let each = |from: &[u64]| {
        let mut best = f64::MAX;
        for _ in 0..TRIES {
            together.wait();
            let start = Instant::now();
            std::hint::black_box(sum(from));
            together.wait();
            best = best.min(start.elapsed().as_secs_f64());
        }
        best
    };
    let seconds = thread::scope(|s| {
        let mut parts = from.chunks(part);
        let own = parts.next();
        let others: Vec<_> = parts.map(|f| s.spawn(move || each(f))).collect();
        let own = own.map_or(f64::MAX, each);
        others
            .into_iter()
            .filter_map(|t| t.join().ok())
            .fold(own, f64::min)
    });
    size_of_val(&from[..]) as f64 / seconds
}

/// The sum in as many lanes as hide the latency of additions.
fn sum(from: &[u64]) -> u64 {
    const LANES: usize = 32;
    let mut sums = [0u64; LANES];
    for x in from.chunks_exact(LANES) {
        for (s, x) in sums.iter_mut().zip(x) {
            *s = s.wrapping_add(*x);
        }
    }
    sums.iter().fold(0, |a, b| a.wrapping_add(*b))
}
