//! Counts and sums of metrics, which stay on the device of the predictions until they are read.

use torsh_tensor::{DType, Device, Result, Tensor, no_grad};

use super::labels::Pairs;

pub(super) use super::labels::on_device;

/// As many sums are held at most before they are read.
const HELD: usize = 256;

/// The dtype that numbers of a device are summed in: `float64` where it has that.
pub(super) fn sum_dtype(device: Device) -> Result<DType> {
    let double = torsh_backend::backend(device)?.supports(DType::F64);
    Ok(if double { DType::F64 } else { DType::F32 })
}

/// Counts, as one `int64` tensor on each device that batches were on.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts(Vec<Tensor>);

impl Counts {
    /// Adds the counts of a batch: `int64`, of one dimension.
    pub(super) fn add(&mut self, counts: Tensor) -> Result<()> {
        match self.0.iter_mut().find(|t| t.device() == counts.device()) {
            Some(t) => *t = no_grad(|| t.add(&counts))?,
            None => self.0.push(counts),
        }
        Ok(())
    }

    /// The counts, `n` of them, which are waited for.
    pub(super) fn read(&self, n: usize) -> Result<Vec<u64>> {
        let mut all = vec![0u64; n];
        for t in &self.0 {
            let counts = t.to_vec::<i64>()?;
            let pairs = all.iter_mut().zip(counts);
            pairs.for_each(|(sum, c)| *sum += c.unsigned_abs());
        }
        Ok(all)
    }
}

/// Sums of batches, each a tensor of one dimension. The host adds them up, in `f64`.
#[derive(Clone, Debug, Default)]
pub(super) struct Sums(Vec<Tensor>);

impl Sums {
    /// Adds those of a batch; now and then that reads what is held, for the caller to add up.
    pub(super) fn add(&mut self, sums: Tensor) -> Result<Vec<Vec<f64>>> {
        let other = self.0.first().is_some_and(|t| t.device() != sums.device());
        let read = match other || self.0.len() >= HELD {
            true => std::mem::take(self).read()?,
            false => Vec::new(),
        };
        self.0.push(sums);
        Ok(read)
    }

    /// The sums of each batch in their order, which are waited for.
    pub(super) fn read(&self) -> Result<Vec<Vec<f64>>> {
        let Some(first) = self.0.first() else {
            return Ok(Vec::new());
        };
        let n = first.numel().max(1);
        let all = no_grad(|| Tensor::cat(&self.0, 0))?.to_vec::<f64>()?;
        Ok(all.chunks(n).map(<[f64]>::to_vec).collect())
    }
}

/// How often items of each class were given as each class, by the number of classes.
#[derive(Clone, Debug, Default)]
pub(super) struct Table(Vec<(usize, Counts)>);

impl Table {
    /// Adds the items of a batch, of `n` classes. The device reports a class that is none of them.
    pub(super) fn add(&mut self, pairs: &Pairs, n: usize) -> Result<()> {
        let counts = no_grad(|| {
            let device = pairs.wanted.device();
            let classes = Tensor::arange(0, n as i64, 1, DType::I64, device)?;
            let ones = match &pairs.counts {
                Some(mask) => mask.to_dtype(DType::I64)?.flatten(0)?,
                None => Tensor::ones([pairs.wanted.numel()], DType::I64, device)?,
            };
            // Items that do not count are of the class 0, none of them.
            let known = |t: &Tensor| classes.index_select(0, &t.flatten(0)?.mul(&ones)?);
            let at = known(&pairs.wanted)?
                .mul(n as i64)?
                .add(known(&pairs.predicted)?)?;
            Tensor::zeros([n * n], DType::I64, device)?.index_add(0, &at, &ones)
        })?;
        match self.0.iter_mut().find(|(m, _)| *m == n) {
            Some((_, sum)) => sum.add(counts),
            None => {
                let mut sum = Counts::default();
                sum.add(counts)?;
                self.0.push((n, sum));
                Ok(())
            }
        }
    }

    /// Target, prediction and how often they came together, which is waited for.
    pub(super) fn read(&self) -> Result<Vec<(i64, i64, u64)>> {
        let mut all = Vec::new();
        for (n, counts) in &self.0 {
            for (at, count) in counts.read(n * n)?.into_iter().enumerate() {
                if count > 0 {
                    all.push(((at / n) as i64, (at % n) as i64, count));
                }
            }
        }
        Ok(all)
    }
}
