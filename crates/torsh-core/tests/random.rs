//! The random numbers against draws of PyTorch (`data/random.txt`, written by
//! `data/make_random.py`), and the moments of the distributions.

use half::{bf16, f16};
use torsh_core::random::{self, *};

/// What a line expects: the values' bits, or the FNV-1a hash of their bytes.
enum Expected {
    Bits(Vec<u64>),
    Hash(u64),
}

struct Line<'a> {
    op: &'a str,
    dtype: &'a str,
    seed: u64,
    n: usize,
    a: f64,
    b: f64,
    low: i64,
    high: i64,
    expected: Expected,
}

fn lines() -> impl Iterator<Item = Line<'static>> {
    include_str!("data/random.txt").lines().map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        let hex = |word: &&str| u64::from_str_radix(word, 16).unwrap();
        Line {
            op: words[0],
            dtype: words[1],
            seed: words[2].parse().unwrap(),
            n: words[3].parse().unwrap(),
            a: words[4].parse().unwrap(),
            b: words[5].parse().unwrap(),
            low: words[4].parse().unwrap_or(0),
            high: words[5].parse().unwrap_or(0),
            expected: match words[6] {
                "v" => Expected::Bits(words[7..].iter().map(hex).collect()),
                _ => Expected::Hash(hex(&words[7])),
            },
        }
    })
}

/// An element as bits, and as an integer whose differences count units in the last place.
trait Element: Copy + Default {
    const BYTES: usize;
    fn bits(self) -> u64;
    fn order(bits: u64) -> i64 {
        let sign = 1u64 << (8 * Self::BYTES - 1);
        if bits & sign != 0 {
            -((bits ^ sign) as i64)
        } else {
            bits as i64
        }
    }
}

macro_rules! element {
    ($($type:ty, $bits:ident);*) => {$(
        impl Element for $type {
            const BYTES: usize = size_of::<$type>();
            fn bits(self) -> u64 {
                element!($bits self)
            }
        }
    )*};
    (float $x:expr) => { $x.to_bits() as u64 };
    (int $x:expr) => { $x as u64 };
}
element!(f32, float; f64, float; f16, float; bf16, float; i64, int; u8, int);

fn fnv(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

impl Line<'_> {
    /// Checks draws against the line, `ulp` units in the last place apart at most where the line
    /// has values.
    fn check<T: Element>(&self, out: &[T], ulp: i64) {
        let name = format!("{} {} seed {} n {}", self.op, self.dtype, self.seed, self.n);
        match &self.expected {
            Expected::Hash(hash) => {
                let bytes = out
                    .iter()
                    .flat_map(|x| x.bits().to_le_bytes().into_iter().take(T::BYTES));
                assert_eq!(fnv(bytes), *hash, "{name}");
            }
            Expected::Bits(bits) => {
                assert_eq!(out.len(), bits.len(), "{name}");
                for (i, (x, &e)) in out.iter().zip(bits).enumerate() {
                    let apart = T::order(x.bits()).abs_diff(T::order(e));
                    assert!(
                        apart <= ulp as u64,
                        "{name}: element {i} is {apart} units off: {:x}, not {e:x}",
                        x.bits()
                    );
                }
            }
        }
    }

    /// Fills as many elements as the line has from its seed and checks them.
    fn run<T: Element>(&self, ulp: i64, fill: impl FnOnce(&Generator, &mut [T])) {
        let mut out = vec![T::default(); self.n];
        fill(&Generator::new(self.seed), &mut out);
        self.check(&out, ulp);
    }

    /// [`Line::run`] in the floating point type of the line.
    fn run_float(&self, ulp: i64, fill: Fill) {
        match self.dtype {
            "f32" => self.run(ulp, fill.0),
            "f64" => self.run(ulp, fill.1),
            "f16" => self.run(ulp, fill.2),
            "bf16" => self.run(ulp, fill.3),
            other => panic!("{other} is no floating point type"),
        }
    }
}

type Boxed<'a, T> = Box<dyn Fn(&Generator, &mut [T]) + 'a>;
struct Fill<'a>(
    Boxed<'a, f32>,
    Boxed<'a, f64>,
    Boxed<'a, f16>,
    Boxed<'a, bf16>,
);

macro_rules! fill {
    ($f:ident $(, $arg:expr)*) => {
        Fill(
            Box::new(|g, o| $f(g, o $(, $arg)*)),
            Box::new(|g, o| $f(g, o $(, $arg)*)),
            Box::new(|g, o| $f(g, o $(, $arg)*)),
            Box::new(|g, o| $f(g, o $(, $arg)*)),
        )
    };
}

/// The draws through the platform's mathematics library may differ from glibc's by this much.
const ULP: i64 = 2;

#[test]
fn uniform_and_normal_draws_are_pytorchs() {
    let mut count = 0;
    for line in lines() {
        match line.op {
            "uniform" => line.run_float(0, fill!(fill_uniform, line.a, line.b)),
            "normal" => line.run_float(ULP, fill!(fill_normal, line.a, line.b)),
            "normal_strided" => line.run_float(ULP, fill!(fill_normal_serial, line.a, line.b)),
            _ => continue,
        }
        count += 1;
    }
    assert!(count > 300, "{count} lines");
}

#[test]
fn transformed_draws_are_pytorchs() {
    let mut count = 0;
    for line in lines() {
        match (line.op, line.dtype) {
            ("exponential", _) => line.run_float(ULP, fill!(fill_exponential, line.a)),
            ("cauchy", _) => line.run_float(ULP, fill!(fill_cauchy, line.a, line.b)),
            ("log_normal", _) => line.run_float(ULP, fill!(fill_log_normal, line.a, line.b)),
            ("geometric", "i64") => line.run(0, |g, o| fill_geometric_i64(g, o, line.a)),
            ("geometric", _) => line.run_float(0, fill!(fill_geometric, line.a)),
            _ => continue,
        }
        count += 1;
    }
    assert_eq!(count, 34);
}

#[test]
fn integer_draws_are_pytorchs() {
    let mut count = 0;
    for line in lines() {
        match line.op {
            "randint" => line.run(0, |g, o| {
                fill_random_range_i64(g, o, line.low, line.high);
            }),
            "random" => line.run(0, fill_random_i64),
            "random_full" => line.run(0, fill_random_i64_full_range),
            "random_modulus" => line.run(0, |g, o| {
                fill_random_modulus_i64(g, o, line.low as u64, line.high != 0);
            }),
            "randperm" => line.check(&randperm(&Generator::new(line.seed), line.n as i64), 0),
            _ => continue,
        }
        count += 1;
    }
    assert_eq!(count, 3 * 10 * 8 + 9);
}

#[test]
fn bernoulli_dropout_and_multinomial_draws_are_pytorchs() {
    let mut count = 0;
    for line in lines() {
        let ramp: Vec<f32> = (0..line.n).map(|i| i as f32 / line.n as f32).collect();
        match line.op {
            "bernoulli" => line.run(0, |g, o| fill_bernoulli(g, o, line.a)),
            "dropout" => line.run(0, |g, o| fill_bernoulli(g, o, 1.0 - line.a)),
            "bernoulli_probs" => line.run(0, |g, o| fill_bernoulli_probs_f32(g, o, &ramp)),
            "bernoulli_probs64" => {
                let ramp: Vec<f64> = ramp.iter().map(|&p| f64::from(p)).collect();
                line.run(0, |g, o| fill_bernoulli_probs_f64(g, o, &ramp));
            }
            "multinomialf32" => {
                let weights: Vec<f32> = (1..=1000).map(|i| (i as f32).sqrt()).collect();
                let mut out = vec![0; 2 * line.n];
                let g = Generator::new(line.seed);
                fill_multinomial_with_replacement_f32(&g, &weights, 500, &mut out);
                line.check(&out, 0);
            }
            "multinomialf64" => {
                let weights: Vec<f64> = (1..=1000).map(|i| f64::from(i).sqrt()).collect();
                let mut out = vec![0; 2 * line.n];
                let g = Generator::new(line.seed);
                fill_multinomial_with_replacement_f64(&g, &weights, 500, &mut out);
                line.check(&out, 0);
            }
            _ => continue,
        }
        count += 1;
    }
    assert_eq!(count, 3 * 10 * 6 + 3 * 9 * 2);
}

#[test]
fn default_initialisation_of_linear_is_pytorchs() {
    let line = lines().find(|line| line.op == "linear").unwrap();
    let generator = Generator::new(line.seed);
    let mut out = vec![0f32; 40];
    // kaiming_uniform_(a = sqrt(5)) of the weight, then the bias.
    let gain = (2.0 / (1.0 + 5f64.sqrt().powi(2))).sqrt();
    let bound = 3f64.sqrt() * (gain / 7f64.sqrt());
    fill_uniform_f32(&generator, &mut out[..35], -bound, bound);
    let bound = 1.0 / 7f64.sqrt();
    fill_uniform_f32(&generator, &mut out[35..], -bound, bound);
    line.check(&out, 0);
}

#[test]
fn consecutive_calls_and_the_state_between_are_pytorchs() {
    let generator = Generator::default();
    assert_eq!(generator.initial_seed(), DEFAULT_SEED);
    let seed = (1 << 63) + 11;
    generator.manual_seed(seed);
    assert_eq!(generator.initial_seed(), seed);
    let g = &generator;
    let mut states = 0;
    for line in lines() {
        let n = line.n;
        let (mut f32s, mut f64s, mut bf16s) = (vec![0f32; n], vec![0f64; n], vec![bf16::ZERO; n]);
        match line.op {
            "state" => {
                states += 1;
                let state = g.get_state();
                assert_eq!(state.len(), STATE_BYTES);
                // The cached normal sample is in it, as exact as the platform's sine.
                if cfg!(target_env = "gnu") {
                    line.check(&state, 0);
                }
                let other = Generator::new(0);
                other.set_state(&state).unwrap();
                assert_eq!(other.get_state(), state);
                assert_eq!(other.initial_seed(), seed);
                continue;
            }
            "step0" | "step7" => fill_uniform_f32(g, &mut f32s, 0.0, 1.0),
            "step1" | "step4" => fill_normal_f32(g, &mut f32s, 0.0, 1.0),
            "step2" => fill_normal_f64(g, &mut f64s, 0.0, 1.0),
            "step3" | "step8" => fill_uniform_f64(g, &mut f64s, 0.0, 1.0),
            "step5" => {
                let mut out = vec![0; n];
                fill_random_range_i64(g, &mut out, 0, 10);
                line.check(&out, 0);
            }
            "step6" => fill_normal_bf16(g, &mut bf16s, 0.0, 1.0),
            "step9" => line.check(&randperm(g, n as i64), 0),
            "step10" => fill_log_normal(g, &mut f32s, 1.0, 2.0),
            _ => continue,
        }
        match line.dtype {
            "f32" => line.check(&f32s, ULP),
            "f64" => line.check(&f64s, ULP),
            "bf16" => line.check(&bf16s, 0),
            _ => {}
        }
    }
    assert_eq!(states, 12);
}

#[test]
fn state_errors_leave_the_generator_alone() {
    let g = Generator::new(3);
    let before = g.get_state();
    let short = g.set_state(&before[1..]).unwrap_err();
    assert!(
        short.contains("of size 5056") && short.ends_with("5055"),
        "{short}"
    );
    for (at, value) in [(8, 0), (10, 1), (12, 0), (17, 255)] {
        let mut bytes = before.clone();
        bytes[at] = value;
        assert_eq!(g.set_state(&bytes).unwrap_err(), "Invalid mt19937 state");
    }
    // A block that would be read past its end.
    let mut bytes = before.clone();
    bytes[8..12].copy_from_slice(&624u32.to_le_bytes());
    bytes[16] = 2;
    assert!(g.set_state(&bytes).is_err());
    assert_eq!(g.get_state(), before);
    assert_eq!(g.random(), Mt19937::new(3).next_u32());
}

#[test]
fn handles_share_and_copies_do_not() {
    let g = Generator::new(9);
    let (shared, copy) = (g.clone(), g.clone_state());
    assert!(g.same_stream(&shared) && !g.same_stream(&copy));
    let first = g.random64();
    assert_eq!(copy.random64(), first);
    assert_eq!(shared.random64(), copy.random64());
    g.set_next_normal_cached_f32(Some(1.5));
    g.set_next_normal_cached_f64(Some(-2.5));
    copy.set_state(&g.get_state()).unwrap();
    assert_eq!(copy.next_normal_cached_f32(), Some(1.5));
    assert_eq!(copy.next_normal_cached_f64(), Some(-2.5));
    let mut out = [0f64];
    fill_normal_f64(&copy, &mut out, 1.0, 2.0);
    assert_eq!((out[0], copy.next_normal_cached_f64()), (-4.0, None));
    copy.manual_seed(1);
    assert_eq!(copy.next_normal_cached_f32(), None);
    assert_ne!(g.seed(), g.seed());
    fn shareable<T: Send + Sync>(_: &T) {}
    shareable(&g);
}

#[test]
fn default_generator_is_seeded_for_the_process() {
    random::manual_seed(17);
    assert_eq!(random::initial_seed(), 17);
    assert_eq!(default_generator().random(), Generator::new(17).random());
    assert_eq!(random::seed(), default_generator().initial_seed());
}

#[test]
fn empty_fills_draw_nothing() {
    let g = Generator::new(1);
    fill_uniform_f32(&g, &mut [], 0.0, 1.0);
    fill_normal_f32(&g, &mut [], 0.0, 1.0);
    fill_multinomial_with_replacement_f32(&g, &[], 3, &mut []);
    assert!(randperm(&g, 0).is_empty() && randperm(&g, 1) == [0]);
    assert_eq!(g.random(), Generator::new(1).random());
}

fn moments(values: &[f64]) -> (f64, f64) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let square = |x: &f64| (x - mean) * (x - mean);
    (
        mean,
        values.iter().map(square).sum::<f64>() / values.len() as f64,
    )
}

#[test]
fn moments_are_those_of_the_distributions() {
    let g = Generator::new(2024);
    let mut x = vec![0f64; 200_000];
    let mut near = |fill: &dyn Fn(&mut [f64]), mean: f64, variance: f64| {
        fill(&mut x);
        let (m, v) = moments(&x);
        // Five standard errors of the mean, 5 % of the variance.
        assert!(
            (m - mean).abs() < 5.0 * (variance / x.len() as f64).sqrt(),
            "{m} {mean}"
        );
        assert!((v / variance - 1.0).abs() < 0.05, "{v} {variance}");
    };
    near(&|x| fill_uniform_f64(&g, x, -1.0, 3.0), 1.0, 16.0 / 12.0);
    near(&|x| fill_normal_f64(&g, x, -1.0, 3.0), -1.0, 9.0);
    near(&|x| fill_normal_serial(&g, x, -1.0, 3.0), -1.0, 9.0);
    near(&|x| fill_exponential_f64(&g, x, 2.0), 0.5, 0.25);
    near(&|x| fill_geometric(&g, x, 0.25), 4.0, 12.0);
    let variance = 0.25f64.exp_m1() * 0.25f64.exp();
    near(
        &|x| fill_log_normal(&g, x, 0.0, 0.5),
        0.125f64.exp(),
        variance,
    );
    // A Cauchy draw has no moments, but its arc tangent is uniform.
    let angle = |x: &mut [f64]| {
        fill_cauchy(&g, x, 1.0, 2.0);
        x.iter_mut().for_each(|x| *x = ((*x - 1.0) / 2.0).atan());
    };
    near(&angle, 0.0, std::f64::consts::PI.powi(2) / 12.0);
    let single = |x: &mut [f64]| {
        let mut y = vec![0f32; x.len()];
        fill_normal_f32(&g, &mut y, -1.0, 3.0);
        x.iter_mut().zip(y).for_each(|(x, y)| *x = f64::from(y));
    };
    near(&single, -1.0, 9.0);
    let coin = |x: &mut [f64]| {
        let mut y = vec![0u8; x.len()];
        fill_bernoulli(&g, &mut y, 0.3);
        x.iter_mut().zip(y).for_each(|(x, y)| *x = f64::from(y));
    };
    near(&coin, 0.3, 0.21);
}

#[test]
fn a_local_generator_stands_in_for_the_default_one() {
    let own = LocalGenerator::new(5);
    let before = default_generator().clone();
    own.scope(|| {
        assert!(default_generator().same_stream(own.generator()));
        random::manual_seed(9);
        let inner = LocalGenerator::new(6);
        inner.scope(|| assert_eq!(random::initial_seed(), 6));
        assert_eq!(random::initial_seed(), 9);
        std::thread::scope(|s| {
            s.spawn(|| assert!(default_generator().same_stream(&before)));
        });
    });
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        own.scope(|| panic!("inside"))
    }));
    assert!(panicked.is_err() && default_generator().same_stream(&before));
}
