//! Whether numbers are near enough.

/// Compares numbers, and keeps how much of the tolerance they took.
pub(super) struct Near {
    tolerance: f64,
    used: f64,
}

impl Near {
    pub(super) fn new(tolerance: f64) -> Near {
        Near {
            tolerance,
            used: 0.0,
        }
    }

    /// The largest part of the tolerance that a number took.
    pub(super) fn used(&self) -> f64 {
        self.used
    }

    /// Passes where the numbers differ by at most `tolerance * max(1, |want|)`.
    pub(super) fn number(&mut self, what: &str, got: f64, want: f64) -> Result<(), String> {
        let allowed = self.tolerance * want.abs().max(1.0);
        let used = (got - want).abs() / allowed;
        // So that NaN fails.
        if used <= 1.0 {
            self.used = self.used.max(used);
            return Ok(());
        }
        Err(format!(
            "{what} is {got}, expected {want} within {allowed:e}"
        ))
    }

    /// The first of some numbers, as many as are expected.
    pub(super) fn head(&mut self, what: &str, got: &[f64], want: &[f64]) -> Result<(), String> {
        if got.len() < want.len() {
            return Err(format!(
                "{what} has {} numbers, expected at least {}",
                got.len(),
                want.len()
            ));
        }
        for (i, (&got, &want)) in got.iter().zip(want).enumerate() {
            self.number(&format!("{what}[{i}]"), got, want)?;
        }
        Ok(())
    }
}

/// The L2 norm.
pub(super) fn norm(values: &[f64]) -> f64 {
    values.iter().map(|v| v * v).sum::<f64>().sqrt()
}

/// Where the largest number is, the first one of equal ones.
pub(super) fn argmax(values: &[f64]) -> usize {
    let larger = |best: usize, i: usize| match values[i] > values[best] {
        true => i,
        false => best,
    };
    (0..values.len()).fold(0, larger)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tolerance_is_relative_above_one() {
        let mut near = Near::new(0.01);
        near.number("x", 0.005, 0.0).unwrap();
        near.head("x", &[200.5, 7.0], &[200.0]).unwrap();
        assert!((near.used() - 0.5).abs() < 1e-9);
        assert!(near.number("x", 203.0, 200.0).unwrap_err().contains("203"));
        assert!(near.number("x", f64::NAN, 0.0).is_err());
        assert!(near.head("x", &[], &[1.0]).is_err());
        assert_eq!((norm(&[3.0, 4.0]), argmax(&[1.0, 3.0, 3.0])), (5.0, 1));
    }
}
