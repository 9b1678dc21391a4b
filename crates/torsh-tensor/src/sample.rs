//! Deterministic operands for the sample calls of records.

use torsh_core::{DType, Generator, Result};

use crate::Tensor;

/// Draws operands; the same ones in every run.
pub struct Sampler {
    generator: Generator,
    dtype: DType,
}

impl Sampler {
    /// Operands of a floating-point dtype.
    ///
    /// ```
    /// use torsh_tensor::{DType, sample::Sampler};
    /// let (mut a, mut b) = (Sampler::new(7, DType::F64), Sampler::new(7, DType::F64));
    /// assert_eq!(a.real(&[2, 3])?, b.real(&[2, 3])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn new(seed: u64, dtype: DType) -> Sampler {
        Sampler {
            generator: Generator::new(seed),
            dtype,
        }
    }

    /// Numbers from -2 to 2 that are at least 0.1 away from 0.
    ///
    /// ```
    /// use torsh_tensor::{DType, sample::Sampler};
    /// let x = Sampler::new(7, DType::F64).real(&[100])?;
    /// assert!(x.abs()?.min()?.item::<f64>()? >= 0.1);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn real(&mut self, shape: &[usize]) -> Result<Tensor> {
        let n = shape.iter().product();
        let mut v = vec![0f64; n];
        torsh_core::random::fill_uniform(&self.generator, &mut v, 0.1, 2.0);
        for (i, x) in v.iter_mut().enumerate() {
            if (i * 7 + n) % 3 == 0 {
                *x = -*x;
            }
        }
        self.finish(&v, shape)
    }

    /// Complex numbers whose parts are drawn as by [`Sampler::real`].
    ///
    /// ```
    /// use torsh_tensor::{DType, sample::Sampler};
    /// assert_eq!(Sampler::new(7, DType::F64).complex(&[2])?.dtype(), DType::C128);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn complex(&mut self, shape: &[usize]) -> Result<Tensor> {
        let mut with_parts = shape.to_vec();
        with_parts.push(2);
        self.real(&with_parts)?.view_as_complex()
    }

    /// Numbers from an interval.
    ///
    /// ```
    /// use torsh_tensor::{DType, sample::Sampler};
    /// let x = Sampler::new(7, DType::F64).uniform(&[3], 5.0, 6.0)?;
    /// assert!(x.to_vec::<f64>()?.iter().all(|v| (5.0..=6.0).contains(v)));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn uniform(&mut self, shape: &[usize], low: f64, high: f64) -> Result<Tensor> {
        let mut v = vec![0f64; shape.iter().product()];
        torsh_core::random::fill_uniform(&self.generator, &mut v, low, high);
        self.finish(&v, shape)
    }

    /// Numbers all different, at least 0.05 apart, for ops that choose among them.
    ///
    /// ```
    /// use torsh_tensor::{DType, sample::Sampler};
    /// let x = Sampler::new(7, DType::F64).distinct(&[10])?;
    /// assert!(x.sort()?.0.diff()?.min()?.item::<f64>()? > 0.04);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn distinct(&mut self, shape: &[usize]) -> Result<Tensor> {
        let n: usize = shape.iter().product();
        let order = torsh_core::random::randperm(&self.generator, n as i64);
        let v: Vec<f64> = order
            .iter()
            .map(|&k| (k as f64 - n as f64 / 2.0) * 0.17 + 0.05)
            .collect();
        self.finish(&v, shape)
    }

    /// Integers from `low` to below `high`, as int64.
    ///
    /// ```
    /// use torsh_tensor::{DType, sample::Sampler};
    /// let x = Sampler::new(7, DType::F64).ints(&[10], 5, 7)?;
    /// assert!(x.to_vec::<i64>()?.iter().all(|v| *v == 5 || *v == 6));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn ints(&mut self, shape: &[usize], low: i64, high: i64) -> Result<Tensor> {
        let mut v = vec![0i64; shape.iter().product()];
        torsh_core::random::fill_random_range_i64(&self.generator, &mut v, low, high);
        Tensor::from_data(&v, shape)
    }

    /// Bools.
    ///
    /// ```
    /// use torsh_tensor::{DType, sample::Sampler};
    /// assert_eq!(Sampler::new(7, DType::F64).bools(&[10])?.dtype(), DType::Bool);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn bools(&mut self, shape: &[usize]) -> Result<Tensor> {
        self.ints(shape, 0, 2)?.to_dtype(DType::Bool)
    }

    fn finish(&self, v: &[f64], shape: &[usize]) -> Result<Tensor> {
        Tensor::from_slice(v, shape, self.dtype, crate::default_device())
    }
}
