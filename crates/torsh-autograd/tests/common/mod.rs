//! What the tests of this folder share.
#![allow(dead_code)]

use torsh_tensor::{Result, Tensor, TorshError, grad};

/// A float64 vector.
pub fn t(v: &[f64]) -> Tensor {
    Tensor::from_data(v, [v.len()]).expect("a vector")
}

/// A float64 vector that requires grad.
pub fn leaf(v: &[f64]) -> Tensor {
    t(v).requires_grad_(true)
}

/// A bool vector.
pub fn mask(v: &[bool]) -> Tensor {
    Tensor::from_data(v, [v.len()]).expect("a mask")
}

/// An int64 vector.
pub fn ints(v: &[i64]) -> Tensor {
    Tensor::from_data(v, [v.len()]).expect("indices")
}

/// A complex128 vector.
pub fn complex(v: &[(f64, f64)]) -> Tensor {
    let parts: Vec<f64> = v.iter().flat_map(|(a, b)| [*a, *b]).collect();
    Tensor::from_data(&parts, [v.len(), 2])
        .and_then(|t| t.view_as_complex())
        .and_then(|t| t.copy())
        .expect("a complex vector")
}

/// The elements, row-major.
pub fn v(x: &Tensor) -> Vec<f64> {
    x.to_vec::<f64>().expect("real numbers")
}

/// Real and imaginary parts in turn.
pub fn parts(x: &Tensor) -> Vec<f64> {
    x.detach()
        .contiguous()
        .and_then(|x| x.view_as_real())
        .map(|x| v(&x))
        .expect("complex numbers")
}

/// The elements of `.grad`.
pub fn g(x: &Tensor) -> Vec<f64> {
    v(&x.grad().expect("a gradient"))
}

/// The gradients of the sum of `y`; those of unused inputs are empty.
pub fn grads(y: &Tensor, x: &[&Tensor]) -> Result<Vec<Vec<f64>>> {
    let x: Vec<Tensor> = x.iter().map(|t| (*t).clone()).collect();
    let found = grad(&[y.sum()?], &x, &[], true, false, true)?;
    Ok(found
        .iter()
        .map(|g| g.as_ref().map_or(Vec::new(), v))
        .collect())
}

/// The one gradient of a sum, recorded for the next order.
pub fn recorded_grad(y: &Tensor, x: &Tensor) -> Result<Tensor> {
    let mut found = grad(&[y.sum()?], &[x.clone()], &[], true, true, false)?;
    found
        .remove(0)
        .ok_or_else(|| TorshError::Other("no gradient".into()))
}

/// Asserts that there is an error and that its text holds all the words.
#[track_caller]
pub fn fails<T>(r: Result<T>, words: &[&str]) {
    let text = match r {
        Ok(_) => panic!("no error; expected one with {words:?}"),
        Err(e) => e.to_string(),
    };
    for w in words {
        assert!(text.contains(w), "{w:?} is not in: {text}");
    }
}

/// Asserts that numbers agree to a relative error.
#[track_caller]
pub fn close(have: &[f64], want: &[f64], tolerance: f64) {
    assert_eq!(have.len(), want.len(), "{have:?} and {want:?}");
    for (a, b) in have.iter().zip(want) {
        assert!(
            (a - b).abs() <= tolerance * b.abs().max(1.0),
            "{have:?} and {want:?}"
        );
    }
}

/// Numbers without a pattern, the same in every run.
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, n: usize) -> usize {
        ((self.next() >> 11) % n as u64) as usize
    }

    /// Between -1 and 1, away from 0.
    pub fn number(&mut self) -> f64 {
        let x = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        if x < 0.5 {
            -1.0 + 1.8 * x
        } else {
            0.1 + 1.8 * (x - 0.5)
        }
    }
}
