//! Spectrograms and windows.

pub(crate) mod stft;
pub(crate) mod windows;

/// i0(x) / i0(y) for 0 <= x <= y, where i0 is the modified Bessel function of order 0.
fn i0_ratio(x: f64, y: f64) -> f64 {
    i0_scaled(x) / i0_scaled(y) * (x - y).exp()
}

/// exp(-x) i0(x) for x >= 0: a sum of positive terms, or for large x the asymptotic series, whose terms shrink
/// until there are some 2 x of them.
fn i0_scaled(x: f64) -> f64 {
    let (mut sum, mut term) = (1.0, 1.0f64);
    if x <= 24.0 {
        let square = x * x / 4.0;
        for k in 1..200 {
            term *= square / f64::from(k * k);
            sum += term;
            if term < sum * 1e-18 {
                break;
            }
        }
        return sum * (-x).exp();
    }
    for k in 1..48 {
        let odd = f64::from(2 * k - 1);
        term *= odd * odd / (f64::from(8 * k) * x);
        sum += term;
        if term < 1e-18 {
            break;
        }
    }
    sum / (2.0 * std::f64::consts::PI * x).sqrt()
}
