//! Random numbers, drawn as PyTorch draws them.

use torsh_core::random::{
    default_generator, fill_normal, fill_normal_f32, fill_random_range_i64, fill_uniform,
    fill_uniform_f32, randperm,
};

/// `torch.empty(1).uniform_(from, to).item()`.
pub(crate) fn uniform(from: f64, to: f64) -> f64 {
    f64::from(uniform32(from, to))
}

/// [`uniform`] as the float32 it is.
pub(crate) fn uniform32(from: f64, to: f64) -> f32 {
    let mut v = [0f32];
    fill_uniform_f32(default_generator(), &mut v, from, to);
    v[0]
}

/// `torch.rand(n)`.
pub(crate) fn rand(n: usize) -> Vec<f32> {
    let mut v = vec![0f32; n];
    fill_uniform_f32(default_generator(), &mut v, 0.0, 1.0);
    v
}

/// `torch.randn(n)`.
pub(crate) fn randn(n: usize) -> Vec<f32> {
    let mut v = vec![0f32; n];
    fill_normal_f32(default_generator(), &mut v, 0.0, 1.0);
    v
}

/// `torch.randint(from, to, (1,)).item()`; `from < to`.
pub(crate) fn between(from: i64, to: i64) -> i64 {
    let mut v = [0i64];
    fill_random_range_i64(default_generator(), &mut v, from, to);
    v[0]
}

/// `torch.randint(n, (1,)).item()`; `0 < n`.
pub(crate) fn below(n: usize) -> usize {
    between(0, n as i64) as usize
}

/// `torch.randperm(n)`.
pub(crate) fn permutation(n: usize) -> Vec<usize> {
    randperm(default_generator(), n as i64)
        .into_iter()
        .map(|i| i as usize)
        .collect()
}

/// One draw of the gamma distribution (G. Marsaglia, W. Tsang, "A simple method for generating gamma variables",
/// 2000), with PyTorch's constants.
fn gamma(mut alpha: f64) -> f64 {
    let uniform = || {
        let mut v = [0f64];
        fill_uniform(default_generator(), &mut v, 0.0, 1.0);
        1.0 - v[0]
    };
    let normal = || {
        let mut v = [0f64];
        fill_normal(default_generator(), &mut v, 0.0, 1.0);
        v[0]
    };
    let mut scale = 1.0;
    if alpha < 1.0 {
        if alpha == 0.0 {
            return 0.0;
        }
        scale *= uniform().powf(1.0 / alpha);
        alpha += 1.0;
    }
    let d = alpha - f64::from(1.0f32 / 3.0);
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let (x, y) = loop {
            let x = normal();
            let y = 1.0 + c * x;
            if y > 0.0 {
                break (x, y);
            }
        };
        let v = y * y * y;
        let u = uniform();
        let xx = x * x;
        if u < 1.0 - f64::from(0.0331f32) * xx * xx || u.ln() < 0.5 * xx + d * (1.0 - v + v.ln()) {
            return scale * d * v;
        }
    }
}

/// Rows of the Dirichlet distribution (`torch._sample_dirichlet`), each of as many numbers as `alpha`.
pub(crate) fn dirichlet(alpha: &[f32], rows: usize) -> Vec<f32> {
    // One stream for all, before any is divided.
    let drawn: Vec<f64> = (0..rows)
        .flat_map(|_| alpha)
        .map(|&a| gamma(f64::from(a)).max(f64::MIN_POSITIVE))
        .collect();
    drawn
        .chunks_exact(alpha.len())
        .flat_map(|row| {
            let sum: f64 = row.iter().sum();
            row.iter().map(move |&g| {
                ((g / sum) as f32)
                    .max(f32::MIN_POSITIVE)
                    .min(1.0f32.next_down())
            })
        })
        .collect()
}

/// `torch.distributions.Beta(alpha, alpha).sample()`.
pub(crate) fn beta(alpha: f64) -> f64 {
    f64::from(dirichlet(&[alpha as f32; 2], 1)[0])
}
