//! How random numbers are written into a tensor.

use super::*;
use torsh_core::attrs::NONE;

impl Tensor {
    /// Fills this tensor, after the checks of writing in place.
    #[track_caller]
    pub(super) fn draw(&self, record: &'static OpRecord, attrs: &dyn Attributes) -> Result<Tensor> {
        let at = std::panic::Location::caller();
        let run = || -> Result<()> {
            crate::inplace::check(self, self.requires_grad())?;
            if self.is_complex() {
                write_into(
                    record,
                    self.dtype().to_real(),
                    &self.detach().view_as_real()?,
                    &[],
                    attrs,
                )?;
            } else {
                write_into(record, self.dtype(), self, &[], attrs)?;
            }
            if !(crate::is_grad_enabled() && self.requires_grad()) {
                return Ok(());
            }
            let node = make_node(
                record,
                &[Arg::T(self)],
                NONE,
                std::slice::from_ref(self),
                at,
                None,
            )?;
            crate::inplace::rebase(self, Some(node))
        };
        run().map_err(|e| e.in_op(record.base_name(), || vec![self.describe()], at))?;
        Ok(self.clone())
    }

    #[track_caller]
    pub(super) fn refuse(
        &self,
        record: &'static OpRecord,
        ok: bool,
        why: impl FnOnce() -> String,
    ) -> Result<()> {
        match ok {
            true => Ok(()),
            false => self.named(record.base_name(), Err(TorshError::invalid("", why()))),
        }
    }

    #[track_caller]
    pub(super) fn fill_uniform(
        &self,
        from: f64,
        to: f64,
        generator: Option<&Generator>,
    ) -> Result<Tensor> {
        self.refuse(&UNIFORM_, from <= to, || {
            format!("expects to return a [from, to) range, but found from={from} > to={to}")
        })?;
        let (_, largest) = self.dtype().to_real().finite_range();
        self.refuse(&UNIFORM_, to - from <= largest, || {
            format!("expects to-from <= {largest}, but found to={to} and from={from} which result in to-from to exceed the limit")
        })?;
        let generator = source(self.device(), generator)?;
        self.draw(
            &UNIFORM_,
            &attrs::Uniform {
                from,
                to,
                generator,
            },
        )
    }

    #[track_caller]
    pub(super) fn fill_normal(
        &self,
        mean: f64,
        std: f64,
        generator: Option<&Generator>,
    ) -> Result<Tensor> {
        self.refuse(&NORMAL_, std >= 0.0, || {
            format!("normal expects std >= 0.0, but found std {std}")
        })?;
        let generator = source(self.device(), generator)?;
        if self.is_complex() {
            // Half of the variance is each part's; the mean is real.
            let part = attrs::Normal {
                mean: 0.0,
                std: std / std::f64::consts::SQRT_2,
                generator,
            };
            self.draw(&NORMAL_, &part)?;
            return if mean == 0.0 {
                Ok(self.clone())
            } else {
                self.add_(mean)
            };
        }
        self.draw(
            &NORMAL_,
            &attrs::Normal {
                mean,
                std,
                generator,
            },
        )
    }

    #[track_caller]
    pub(super) fn fill_exponential(
        &self,
        lambd: f64,
        generator: Option<&Generator>,
    ) -> Result<Tensor> {
        self.refuse(&EXPONENTIAL_, lambd > 0.0, || {
            format!("expects lambda > 0.0, but found lambda={lambd}")
        })?;
        self.real_only(&EXPONENTIAL_)?;
        let generator = source(self.device(), generator)?;
        self.draw(&EXPONENTIAL_, &attrs::Exponential { lambd, generator })
    }

    #[track_caller]
    pub(super) fn fill_geometric(&self, p: f64, generator: Option<&Generator>) -> Result<Tensor> {
        self.refuse(&GEOMETRIC_, p > 0.0 && p < 1.0, || {
            format!("expects p to be in (0, 1), but got p={p}")
        })?;
        self.real_only(&GEOMETRIC_)?;
        let generator = source(self.device(), generator)?;
        self.draw(&GEOMETRIC_, &attrs::Geometric { p, generator })
    }

    #[track_caller]
    pub(super) fn fill_cauchy(
        &self,
        median: f64,
        sigma: f64,
        generator: Option<&Generator>,
    ) -> Result<Tensor> {
        self.refuse(&CAUCHY_, sigma > 0.0, || {
            format!("expects sigma > 0.0, but found sigma={sigma}")
        })?;
        self.real_only(&CAUCHY_)?;
        let generator = source(self.device(), generator)?;
        self.draw(
            &CAUCHY_,
            &attrs::Cauchy {
                median,
                sigma,
                generator,
            },
        )
    }

    #[track_caller]
    pub(super) fn fill_log_normal(
        &self,
        mean: f64,
        std: f64,
        generator: Option<&Generator>,
    ) -> Result<Tensor> {
        self.refuse(&LOG_NORMAL_, std > 0.0, || {
            format!("expects std > 0.0, but found std={std}")
        })?;
        self.real_only(&LOG_NORMAL_)?;
        let generator = source(self.device(), generator)?;
        self.draw(
            &LOG_NORMAL_,
            &attrs::LogNormal {
                mean,
                std,
                generator,
            },
        )
    }

    #[track_caller]
    pub(super) fn fill_bernoulli(&self, p: f64, generator: Option<&Generator>) -> Result<Tensor> {
        self.refuse(&BERNOULLI_, (0.0..=1.0).contains(&p), || {
            format!("expects p to be in [0, 1], but got p={p}")
        })?;
        self.real_only(&BERNOULLI_)?;
        let (p, generator) = (Some(p), source(self.device(), generator)?);
        self.draw(&BERNOULLI_, &attrs::Bernoulli { p, generator })
    }

    #[track_caller]
    pub(super) fn fill_integers(
        &self,
        from: Option<i64>,
        to: Option<i64>,
        generator: Option<&Generator>,
    ) -> Result<Tensor> {
        self.real_only(&RANDOM_)?;
        let (low, high) = self.dtype().finite_range();
        if let Some(v) = from {
            self.refuse(&RANDOM_, v as f64 >= low && v as f64 <= high, || {
                format!("from is out of bounds for {}, got {v}", self.dtype())
            })?;
        }
        // Without an upper bound: up to the dtype's largest, all of int64 from its smallest.
        let last = match (from, to) {
            (Some(from), None) if from != i64::MIN => {
                let largest = if high >= i64::MAX as f64 {
                    i64::MAX
                } else {
                    high as i64
                };
                // The largest of int64 itself has no bound above it.
                Some(largest.saturating_add(1))
            }
            _ => to,
        };
        if let (Some(from), Some(to)) = (from, last) {
            self.refuse(&RANDOM_, from < to, || {
                format!("expects 'from' to be less than 'to', but got from={from} >= to={to}")
            })?;
            self.refuse(&RANDOM_, (to - 1) as f64 <= high, || {
                format!("to - 1 is out of bounds for {}, got to={to}", self.dtype())
            })?;
        }
        self.draw(
            &RANDOM_,
            &attrs::RandInt {
                from,
                to: last,
                generator: source(self.device(), generator)?,
            },
        )
    }

    #[track_caller]
    pub(super) fn real_only(&self, record: &'static OpRecord) -> Result<()> {
        match self.is_complex() {
            true => self.named(
                record.base_name(),
                Err(TorshError::dtype(
                    "",
                    format!("not implemented for {}", self.dtype()),
                )),
            ),
            false => Ok(()),
        }
    }
}
