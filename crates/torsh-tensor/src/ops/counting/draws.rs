//! Draws from Poisson and binomial distributions, in the order and by the algorithms of PyTorch's CPU kernels.

use torsh_core::random::default_generator_of;
use torsh_core::{Generator, Result, TorshError, cmath};

use crate::Tensor;

/// Uniform numbers from 0 to below 1.
struct Uniform<'a>(&'a Generator);

impl Uniform<'_> {
    fn draw(&self) -> f64 {
        let bits = self.0.random64() & ((1 << 53) - 1);
        bits as f64 / (1u64 << 53) as f64
    }
}

/// What Stirling's formula for the logarithm of `k!` leaves out.
fn stirling_tail(k: f64) -> f64 {
    const FIRST: [f64; 10] = [
        0.0810614667953272,
        0.0413406959554092,
        0.0276779256849983,
        0.02079067210376509,
        0.0166446911898211,
        0.0138761288230707,
        0.0118967099458917,
        0.0104112652619720,
        0.00925546218271273,
        0.00833056343336287,
    ];
    if k <= 9.0 {
        return FIRST[k.max(0.0) as usize];
    }
    let square = (k + 1.0) * (k + 1.0);
    (1.0 / 12.0 - (1.0 / 360.0 - 1.0 / 1260.0 / square) / square) / (k + 1.0)
}

/// The logarithm of `k!`.
fn log_factorial(k: f64) -> f64 {
    let root = 0.5 * (2.0 * std::f64::consts::PI).ln();
    root + (k + 0.5) * (k + 1.0).ln() - (k + 1.0) + stirling_tail(k)
}

/// One draw with this rate: Hoermann's transformed rejection for large rates, products of uniform numbers for
/// small ones.
fn poisson_one(rate: f64, uniform: &Uniform<'_>) -> f64 {
    if rate < 10.0 {
        if rate == 0.0 {
            return 0.0;
        }
        let (least, mut product, mut count) = (cmath::exp(-rate), 1.0, 0.0);
        loop {
            product *= uniform.draw();
            if product <= least {
                return count;
            }
            count += 1.0;
        }
    }
    let b = 0.931 + 2.53 * rate.sqrt();
    let a = -0.059 + 0.02483 * b;
    let inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
    let likely = 0.9277 - 3.6224 / (b - 2.0);
    loop {
        let (u, v) = (uniform.draw() - 0.5, uniform.draw());
        let us = 0.5 - u.abs();
        let k = ((2.0 * a / us + b) * u + rate + 0.43).floor();
        if us >= 0.07 && v <= likely {
            return k;
        }
        if k < 0.0 || us < 0.013 && v > us {
            continue;
        }
        let ratio = v.ln() + inverse_alpha.ln() - (a / (us * us) + b).ln();
        if ratio <= -rate + k * rate.ln() - log_factorial(k) {
            return k;
        }
    }
}

/// Successes of few expected ones: the trials between them are geometric.
fn by_inversion(count: f64, prob: f64, uniform: &Uniform<'_>) -> f64 {
    let (mut trials, mut successes) = (0.0, 0.0);
    let log = cmath::ln_1p(-prob);
    loop {
        trials += (uniform.draw().ln() / log).ceil();
        if !(trials <= count) {
            return successes;
        }
        successes += 1.0;
    }
}

/// Successes of many expected ones: Hoermann's transformed rejection.
fn by_rejection(count: f64, prob: f64, uniform: &Uniform<'_>) -> f64 {
    let deviation = (count * prob * (1.0 - prob)).sqrt();
    let b = 1.15 + 2.53 * deviation;
    let a = -0.0873 + 0.0248 * b + 0.01 * prob;
    let c = count * prob + 0.5;
    let likely = 0.92 - 4.2 / b;
    let r = prob / (1.0 - prob);
    let alpha = (2.83 + 5.1 / b) * deviation;
    let m = ((count + 1.0) * prob).floor();
    loop {
        let (u, v) = (uniform.draw() - 0.5, uniform.draw());
        let us = 0.5 - u.abs();
        let k = ((2.0 * a / us + b) * u + c).floor();
        if k < 0.0 || k > count {
            continue;
        }
        if us >= 0.07 && v <= likely {
            return k;
        }
        let ratio = (v * alpha / (a / (us * us) + b)).ln();
        let bound = (m + 0.5) * ((m + 1.0) / (r * (count - m + 1.0))).ln()
            + (count + 1.0) * ((count - m + 1.0) / (count - k + 1.0)).ln()
            + (k + 0.5) * (r * (count - k + 1.0) / (k + 1.0)).ln()
            + stirling_tail(m)
            + stirling_tail(count - m)
            - stirling_tail(k)
            - stirling_tail(count - k);
        if ratio <= bound {
            return k;
        }
    }
}

fn binomial_one(count: f64, prob: f64, uniform: &Uniform<'_>) -> f64 {
    let few = |p: f64| match count * p >= 10.0 {
        true => by_rejection(count, p, uniform),
        false => by_inversion(count, p, uniform),
    };
    if count.is_nan() || prob.is_nan() || count.is_infinite() {
        f64::NAN
    } else if count <= 0.0 || prob <= 0.0 {
        0.0
    } else if prob >= 1.0 {
        count
    } else if prob <= 0.5 {
        few(prob)
    } else {
        count - few(1.0 - prob)
    }
}

fn floating(x: &Tensor, name: &str) -> Result<()> {
    if x.dtype().is_floating_point() {
        return Ok(());
    }
    let text = format!(
        "only supports floating-point dtypes for {name}, got: {}",
        x.dtype()
    );
    Err(TorshError::dtype("", text).with_hint("convert it with to_dtype(DType::F32)"))
}

/// A result of draws, in the shape of `x`.
fn drawn(x: &Tensor, values: &[f64]) -> Result<Tensor> {
    Tensor::on_host(values, x.shape())?
        .to_dtype(x.dtype())?
        .to_device(x.device())
}

pub(super) fn poisson(x: &Tensor, generator: Option<&Generator>) -> Result<Tensor> {
    floating(x, "rate")?;
    if !x.device().has_data() {
        return Tensor::empty(x.shape(), x.dtype(), x.device());
    }
    let rates = x.detach().to_vec::<f64>()?;
    // A rate that is not finite has no count to be drawn.
    if let Some(rate) = rates.iter().find(|r| !(**r >= 0.0 && r.is_finite())) {
        let text = format!(
            "invalid Poisson rate, expected rate to be non-negative and finite, got {rate}"
        );
        return Err(TorshError::invalid("", text));
    }
    let uniform = Uniform(generator.unwrap_or_else(|| default_generator_of(x.device())));
    let values: Vec<f64> = rates.iter().map(|&r| poisson_one(r, &uniform)).collect();
    drawn(x, &values)
}

pub(super) fn binomial(
    count: &Tensor,
    prob: &Tensor,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    floating(count, "count")?;
    floating(prob, "prob")?;
    if count.dtype() != prob.dtype() {
        let text = format!(
            "Found dtype {} but expected {}",
            prob.dtype(),
            count.dtype()
        );
        return Err(TorshError::dtype("", text));
    }
    let both = Tensor::broadcast_tensors(&[count.detach(), prob.detach()])?;
    let (count, prob) = (&both[0], &both[1]);
    if !count.device().has_data() {
        return Tensor::empty(count.shape(), count.dtype(), count.device());
    }
    let (counts, probs) = (count.to_vec::<f64>()?, prob.to_vec::<f64>()?);
    let uniform = Uniform(generator.unwrap_or_else(|| default_generator_of(count.device())));
    let pairs = counts.iter().zip(&probs);
    let values: Vec<f64> = pairs.map(|(&n, &p)| binomial_one(n, p, &uniform)).collect();
    drawn(count, &values)
}
