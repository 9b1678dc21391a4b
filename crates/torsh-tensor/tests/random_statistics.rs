//! The distributions that random functions draw from, by tests that a right generator passes with
//! all but a few of all seeds; the seeds here are among those.

use torsh_core::Generator;
use torsh_core::random::LocalGenerator;
use torsh_tensor::{DType, Device, GumbelSoftmaxOptions, MultinomialOptions, RreluOptions, Tensor};

const N: usize = 20_000;

fn with_seed<T>(seed: u64, draw: impl FnOnce() -> T) -> T {
    LocalGenerator::new(seed).scope(draw)
}

fn empty(dtype: DType) -> Tensor {
    Tensor::empty([N], dtype, Device::Cpu).unwrap()
}

fn ones(shape: &[usize]) -> Tensor {
    Tensor::ones(shape, DType::F32, Device::Cpu).unwrap()
}

fn values(t: &Tensor) -> Vec<f64> {
    t.to_vec::<f64>().unwrap()
}

/// Kolmogorov and Smirnov's test: the largest distance from the distribution function, times the
/// root of the number of draws, is above 1.95 once in a thousand times.
fn follows(draws: &Tensor, distribution: impl Fn(f64) -> f64) {
    let mut v = values(draws);
    assert!(v.iter().all(|x| x.is_finite()));
    v.sort_by(f64::total_cmp);
    let n = v.len() as f64;
    let far = |(i, x): (usize, &f64)| {
        let p = distribution(*x);
        (p - i as f64 / n).max((i + 1) as f64 / n - p)
    };
    let most = v.iter().enumerate().map(far).fold(0.0, f64::max);
    assert!(most * n.sqrt() < 1.95, "{}", most * n.sqrt());
}

/// Pearson's test: the squared deviations from the expected counts sum to about the degrees of
/// freedom, and to four deviations more once in some thousand times.
fn counts_fit(counts: &[f64], probabilities: &[f64]) {
    let all: f64 = counts.iter().sum();
    let term = |(c, p): (&f64, &f64)| (c - p * all).powi(2) / (p * all);
    let sum: f64 = counts.iter().zip(probabilities).map(term).sum();
    let freedom = counts.len() as f64 - 1.0;
    let limit = freedom + 4.0 * (2.0 * freedom).sqrt();
    assert!(sum < limit, "{sum} of at most {limit}: {counts:?}");
}

fn histogram(draws: &Tensor, bins: usize) -> Vec<f64> {
    let mut counts = vec![0.0; bins];
    for x in values(draws) {
        counts[(x as usize).min(bins - 1)] += 1.0;
    }
    counts
}

fn mean_and_variance(v: &[f64]) -> (f64, f64) {
    let n = v.len() as f64;
    let mean = v.iter().sum::<f64>() / n;
    let off = |x: &f64| (x - mean).powi(2);
    (mean, v.iter().map(off).sum::<f64>() / (n - 1.0))
}

fn normal_distribution(x: f64) -> f64 {
    let x = Tensor::scalar(x / 2f64.sqrt(), DType::F64, Device::Cpu).unwrap();
    0.5 * (1.0 + x.erf().unwrap().item::<f64>().unwrap())
}

#[test]
fn uniform_and_normal_numbers_follow_their_distributions() {
    for dtype in [DType::F32, DType::F64] {
        let uniform = with_seed(1, || empty(dtype).uniform_(-2.0, 3.0).unwrap());
        follows(&uniform, |x| (x + 2.0) / 5.0);
        let normal = with_seed(2, || empty(dtype).normal_(1.0, 2.0).unwrap());
        follows(&normal, |x| normal_distribution((x - 1.0) / 2.0));
    }
}

#[test]
fn normal_neighbours_are_independent() {
    // Draws come in pairs of one radius: products of neighbours, and of draws eight apart, must
    // still have mean 0, and so must those of their squares' deviations.
    let v = values(&with_seed(3, || {
        empty(DType::F64).normal_(0.0, 1.0).unwrap()
    }));
    for lag in [1, 2, 8] {
        let products: Vec<f64> = v.iter().zip(&v[lag..]).map(|(a, b)| a * b).collect();
        let squares = |(a, b): (&f64, &f64)| (a * a - 1.0) * (b * b - 1.0);
        let squares: Vec<f64> = v.iter().zip(&v[lag..]).map(squares).collect();
        let root = (products.len() as f64).sqrt();
        assert!(mean_and_variance(&products).0.abs() * root < 4.0, "{lag}");
        assert!(mean_and_variance(&squares).0.abs() * root < 8.0, "{lag}");
    }
}

#[test]
fn exponential_cauchy_and_log_normal_numbers_follow_their_distributions() {
    for dtype in [DType::F32, DType::F64] {
        let t = with_seed(4, || empty(dtype).exponential_(1.5).unwrap());
        follows(&t, |x| 1.0 - (-1.5 * x).exp());
        assert!(values(&t).iter().all(|x| *x >= 0.0));
        let t = with_seed(5, || empty(dtype).cauchy_(1.0, 3.0).unwrap());
        follows(&t, |x| {
            0.5 + ((x - 1.0) / 3.0).atan() / std::f64::consts::PI
        });
        let t = with_seed(6, || empty(dtype).log_normal_(0.5, 0.8).unwrap());
        follows(&t, |x| normal_distribution((x.ln() - 0.5) / 0.8));
    }
}

#[test]
fn geometric_numbers_are_counts_of_trials() {
    let (p, bins) = (0.3, 12);
    for dtype in [DType::F32, DType::I64] {
        let t = with_seed(7, || empty(dtype).geometric_(p).unwrap());
        let counts = histogram(&t, bins);
        assert_eq!(counts[0], 0.0, "at least one trial");
        let mut expected: Vec<f64> = (1..bins)
            .map(|k| p * (1f64 - p).powi(k as i32 - 1))
            .collect();
        let last = expected.len() - 1;
        expected[last] = (1f64 - p).powi(last as i32);
        counts_fit(&counts[1..], &expected);
    }
}

#[test]
fn bernoulli_draws_have_their_probability() {
    for (seed, p) in [(8, 0.02), (9, 0.3), (10, 0.5), (11, 0.97)] {
        for dtype in [DType::F32, DType::F64, DType::I64, DType::U8] {
            let t = with_seed(seed, || empty(dtype).bernoulli_(p).unwrap());
            counts_fit(&histogram(&t, 2), &[1.0 - p, p]);
        }
        let p = Tensor::full([N], p, DType::F64, Device::Cpu).unwrap();
        let t = with_seed(seed, || p.bernoulli().unwrap());
        let p = values(&p)[0];
        counts_fit(&histogram(&t, 2), &[1.0 - p, p]);
    }
    let never = with_seed(1, || empty(DType::F32).bernoulli_(0.0).unwrap());
    let always = with_seed(1, || empty(DType::F32).bernoulli_(1.0).unwrap());
    assert_eq!(histogram(&never, 2), [N as f64, 0.0]);
    assert_eq!(histogram(&always, 2), [0.0, N as f64]);
}

#[test]
fn bernoulli_draws_follow_a_probability_of_their_own() {
    let p = Tensor::from_data(&[0.1f64, 0.9], [2]).unwrap();
    let p = p.expand([N as i64 / 2, 2]).unwrap();
    let t = with_seed(12, || p.bernoulli().unwrap());
    for (column, p) in [(0, 0.1), (1, 0.9)] {
        counts_fit(&histogram(&t.select(1, column).unwrap(), 2), &[1.0 - p, p]);
    }
}

#[test]
fn dropout_keeps_the_mean_and_drops_its_share() {
    for (seed, p) in [(13, 0.1), (14, 0.5), (15, 0.8)] {
        let t = with_seed(seed, || ones(&[N]).dropout(p, true).unwrap());
        let v = values(&t);
        let zeros = v.iter().filter(|x| **x == 0.0).count() as f64;
        counts_fit(&[zeros, N as f64 - zeros], &[p, 1.0 - p]);
        let kept = f64::from((1.0 / (1.0 - p)) as f32);
        let scaled = |x: &&f64| **x != 0.0;
        assert!(v.iter().filter(scaled).all(|x| (x - kept).abs() < 1e-6));
        let (mean, _) = mean_and_variance(&v);
        let deviation = (p / (1.0 - p) / N as f64).sqrt();
        assert!((mean - 1.0).abs() < 4.0 * deviation, "{mean}");
    }
    let same = ones(&[4]).dropout(0.5, false).unwrap();
    assert_eq!(values(&same), [1.0; 4]);
    assert_eq!(values(&ones(&[4]).dropout(1.0, true).unwrap()), [0.0; 4]);
}

#[test]
fn dropout_passes_gradients_where_it_kept() {
    let x = ones(&[N]).requires_grad_(true);
    let y = with_seed(16, || x.dropout(0.4, true).unwrap());
    y.sum().unwrap().backward().unwrap();
    assert_eq!(values(&x.grad().unwrap()), values(&y));
}

#[test]
fn multinomial_with_replacement_has_its_weights() {
    let weights = Tensor::from_data(&[1.0f32, 0.0, 3.0, 4.0, 2.0], [5]).unwrap();
    let t = with_seed(17, || {
        weights
            .multinomial_with(N as i64, MultinomialOptions::new().replacement(true))
            .unwrap()
    });
    let counts = histogram(&t, 5);
    assert_eq!(counts[1], 0.0, "a weight of 0 is never drawn");
    let drawn = [counts[0], counts[2], counts[3], counts[4]];
    counts_fit(&drawn, &[0.1, 0.3, 0.4, 0.2]);
}

#[test]
fn multinomial_without_replacement_draws_one_after_the_other() {
    let (w, rows) = ([1.0f64, 3.0, 4.0, 2.0], N / 2);
    let weights = Tensor::from_data(&w, [4]).unwrap();
    let weights = weights.expand([rows as i64, 4]).unwrap();
    let t = with_seed(18, || weights.multinomial(2).unwrap());
    let first = t.select(1, 0).unwrap();
    counts_fit(&histogram(&first, 4), &w.map(|w| w / 10.0));
    let pair = first.mul(4).unwrap().add(&t.select(1, 1).unwrap()).unwrap();
    let counts = histogram(&pair, 16);
    let (mut seen, mut expected) = (Vec::new(), Vec::new());
    for a in 0..4 {
        for b in 0..4 {
            if a == b {
                assert_eq!(counts[4 * a + b], 0.0, "nothing is drawn twice");
            } else {
                seen.push(counts[4 * a + b]);
                expected.push(w[a] / 10.0 * w[b] / (10.0 - w[a]));
            }
        }
    }
    counts_fit(&seen, &expected);
}

#[test]
fn permutations_are_equally_likely() {
    let mut counts = [0.0; 6];
    with_seed(19, || {
        for _ in 0..6000 {
            let p = Tensor::randperm(3, DType::I64, Device::Cpu).unwrap();
            let p = p.to_vec::<i64>().unwrap();
            counts[(p[0] * 2 + i64::from(p[1] > p[2])) as usize] += 1.0;
        }
    });
    counts_fit(&counts, &[1.0 / 6.0; 6]);
}

#[test]
fn integers_are_equally_likely() {
    let t = with_seed(20, || {
        Tensor::randint(3, 17, [N], DType::I64, Device::Cpu).unwrap()
    });
    let counts = histogram(&t, 18);
    assert_eq!(&counts[..3], [0.0; 3]);
    assert_eq!(counts[17], 0.0);
    counts_fit(&counts[3..17], &[1.0 / 14.0; 14]);
}

#[test]
fn streams_of_different_seeds_are_unrelated() {
    let draw = |seed| {
        let generator = Generator::new(seed);
        values(
            &empty(DType::F64)
                .normal_with_(0.0, 1.0, &generator)
                .unwrap(),
        )
    };
    let (a, b) = (draw(0), draw(1));
    let products: Vec<f64> = a.iter().zip(&b).map(|(a, b)| a * b).collect();
    let (mean, variance) = mean_and_variance(&products);
    assert!(mean.abs() * (N as f64).sqrt() < 4.0, "{mean}");
    assert!((variance - 1.0).abs() < 0.1, "{variance}");
}

#[test]
fn feature_dropout_drops_whole_channels() {
    let (n, c) = (50, 40);
    for (seed, p) in [(21, 0.2), (22, 0.5)] {
        let each = [
            with_seed(seed, || ones(&[n, c, 3]).dropout1d(p, true).unwrap()),
            with_seed(seed, || ones(&[n, c, 2, 2]).dropout2d(p, true).unwrap()),
            with_seed(seed, || ones(&[n, c, 2, 1, 2]).dropout3d(p, true).unwrap()),
        ];
        for t in each {
            let channels = t.reshape([(n * c) as i64, -1]).unwrap();
            let v = channels.to_vec2::<f64>().unwrap();
            assert!(v.iter().all(|row| row.iter().all(|x| *x == row[0])));
            let kept = f64::from((1.0 / (1.0 - p)) as f32);
            let whole = |row: &&Vec<f64>| row[0] != 0.0;
            assert!(
                v.iter()
                    .filter(whole)
                    .all(|row| (row[0] - kept).abs() < 1e-6)
            );
            let zeros = v.iter().filter(|row| row[0] == 0.0).count() as f64;
            counts_fit(&[zeros, v.len() as f64 - zeros], &[p, 1.0 - p]);
        }
    }
}

#[test]
fn alpha_dropout_keeps_mean_and_variance() {
    for (seed, p) in [(23, 0.1), (24, 0.3), (25, 0.6)] {
        let (x, y) = with_seed(seed, || {
            let x = empty(DType::F64).normal_(0.0, 1.0).unwrap();
            let y = x.alpha_dropout(p, true).unwrap();
            (x, y)
        });
        let (mean, variance) = mean_and_variance(&values(&y));
        let root = (N as f64).sqrt();
        assert!(mean.abs() * root < 4.0, "{p}: {mean}");
        assert!((variance - 1.0).abs() * root < 8.0, "{p}: {variance}");
        // SELU's limit at minus infinity, scaled and shifted as the others are.
        let limit = -1.758_099_340_847_376_6;
        let a = 1.0 / ((1.0 - p) * (1.0 + p * limit * limit)).sqrt();
        let b = -a * limit * p;
        let (mut dropped, all) = (0.0, values(&x));
        for (x, y) in all.iter().zip(values(&y)) {
            if (y - (a * limit + b)).abs() < 1e-12 {
                dropped += 1.0;
            } else {
                assert!((y - (a * x + b)).abs() < 1e-12);
            }
        }
        counts_fit(&[dropped, N as f64 - dropped], &[p, 1.0 - p]);
    }
}

#[test]
fn feature_alpha_dropout_drops_whole_channels() {
    let x = Tensor::zeros([100, 20, 4], DType::F64, Device::Cpu).unwrap();
    let y = with_seed(26, || x.feature_alpha_dropout(0.4, true).unwrap());
    let v = y.reshape([2000, 4]).unwrap().to_vec2::<f64>().unwrap();
    assert!(v.iter().all(|row| row.iter().all(|x| *x == row[0])));
    let low = v.iter().filter(|row| row[0] < 0.0).count() as f64;
    counts_fit(&[low, 2000.0 - low], &[0.4, 0.6]);
}

#[test]
fn gumbel_softmax_draws_with_the_probabilities_of_its_logits() {
    let weights = [0.1f32, 0.2, 0.3, 0.4];
    let logits = Tensor::from_slice(&weights, [4], DType::F32, Device::Cpu).unwrap();
    let logits = logits.log().unwrap().expand([N, 4]).unwrap();
    let hard = with_seed(31, || {
        logits
            .gumbel_softmax_with(GumbelSoftmaxOptions::new().hard(true).tau(0.3))
            .unwrap()
    });
    let ones = values(&hard.sum_dim(1, false).unwrap());
    assert!(ones.iter().all(|x| (x - 1.0).abs() < 1e-6));
    let counts = values(&hard.sum_dim(0, false).unwrap());
    counts_fit(&counts, &weights.map(f64::from));
    // Relaxed draws are the same choices, blurred.
    let soft = with_seed(31, || {
        logits
            .gumbel_softmax_with(GumbelSoftmaxOptions::new().tau(0.3))
            .unwrap()
    });
    assert_eq!(
        soft.argmax_dim(1, false).unwrap(),
        hard.argmax_dim(1, false).unwrap()
    );
    let sums = values(&soft.sum_dim(1, false).unwrap());
    assert!(sums.iter().all(|x| (x - 1.0).abs() < 1e-5));
}

#[test]
fn gumbel_softmax_is_pytorchs() {
    let x = Tensor::from_slice(
        &[1.0f32, 2.0, 3.0, 0.5, -1.0, 0.0],
        [2, 3],
        DType::F32,
        Device::Cpu,
    );
    let x = x.unwrap();
    x.set_requires_grad(true).unwrap();
    let (soft, hard) = with_seed(7, || {
        let options = GumbelSoftmaxOptions::new().tau(0.7);
        let soft = x.gumbel_softmax_with(options.clone()).unwrap();
        (
            soft,
            x.gumbel_softmax_with(options.hard(true).dim(0)).unwrap(),
        )
    });
    let want = [0.1503, 0.6495, 0.2002, 0.7931, 0.0268, 0.1802];
    for (a, b) in values(&soft.detach()).iter().zip(want) {
        assert!((a - b).abs() < 6e-5, "{a} is not {b}");
    }
    assert_eq!(values(&hard.detach()), [1.0, 1.0, 0.0, 0.0, 0.0, 1.0]);
    let weights = Tensor::from_slice(
        &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0],
        [2, 3],
        DType::F32,
        Device::Cpu,
    );
    hard.mul(&weights.unwrap())
        .unwrap()
        .sum()
        .unwrap()
        .backward()
        .unwrap();
    let want = [-0.2479, -0.9621, -1.0519, 0.2479, 0.9621, 1.0519];
    for (a, b) in values(&x.grad().unwrap()).iter().zip(want) {
        assert!((a - b).abs() < 6e-5, "{a} is not {b}");
    }
}

#[test]
fn rrelu_draws_slopes_uniformly() {
    let x = ones(&[N]).neg().unwrap();
    let options = RreluOptions::new().lower(0.1).upper(0.3).training(true);
    let y = with_seed(32, || x.rrelu_with(options.clone()).unwrap());
    follows(&y.neg().unwrap(), |s| ((s - 0.1) / 0.2).clamp(0.0, 1.0));
    assert_eq!(ones(&[N]).rrelu_with(options).unwrap(), ones(&[N]));
}
