//! The order in which items are read.

use torsh_core::random::{Generator, default_generator, fill_random_range_i64, randperm};
use torsh_tensor::{Result, TorshError};

/// An order of a dataset's items, made anew for each epoch.
pub trait Sampler: Send + Sync {
    /// How many items an epoch has.
    fn len(&self) -> usize;
    /// Whether an epoch has none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The items of the next epoch.
    fn indices(&self) -> Result<Vec<usize>>;
}

/// All items in their order.
#[derive(Clone, Copy, Debug)]
pub struct SequentialSampler {
    len: usize,
}

impl SequentialSampler {
    /// The order of a dataset of `len` items.
    pub fn new(len: usize) -> Self {
        SequentialSampler { len }
    }
}

impl Sampler for SequentialSampler {
    fn len(&self) -> usize {
        self.len
    }
    fn indices(&self) -> Result<Vec<usize>> {
        Ok((0..self.len).collect())
    }
}

/// A generator for one epoch: the sampler's own, or a fresh one seeded from the default one.
fn epoch_generator(own: Option<&Generator>) -> Generator {
    match own {
        Some(g) => g.clone(),
        None => Generator::new(default_generator().random64() & i64::MAX as u64),
    }
}

fn to_usize(v: Vec<i64>) -> impl Iterator<Item = usize> {
    v.into_iter().map(|i| i as usize)
}

/// All items in random order, PyTorch's for the same seed (`torch.utils.data.RandomSampler`).
#[derive(Clone, Debug)]
pub struct RandomSampler {
    len: usize,
    replacement: bool,
    num_samples: Option<usize>,
    generator: Option<Generator>,
}

impl RandomSampler {
    /// A permutation per epoch of a dataset of `len` items, drawn from the default generator.
    pub fn new(len: usize) -> Self {
        RandomSampler {
            len,
            replacement: false,
            num_samples: None,
            generator: None,
        }
    }

    /// Draws with replacement.
    #[must_use]
    pub fn replacement(mut self, replacement: bool) -> Self {
        self.replacement = replacement;
        self
    }

    /// How many items an epoch has, where it is not the dataset's length.
    #[must_use]
    pub fn num_samples(mut self, n: usize) -> Self {
        self.num_samples = Some(n);
        self
    }

    /// Draws from this generator.
    #[must_use]
    pub fn generator(mut self, generator: Generator) -> Self {
        self.generator = Some(generator);
        self
    }
}

impl Sampler for RandomSampler {
    fn len(&self) -> usize {
        self.num_samples.unwrap_or(self.len)
    }

    fn indices(&self) -> Result<Vec<usize>> {
        let g = epoch_generator(self.generator.as_ref());
        let (n, want) = (self.len, Sampler::len(self));
        if n == 0 {
            return if want == 0 {
                Ok(Vec::new())
            } else {
                Err(TorshError::invalid(
                    "RandomSampler",
                    format!("cannot draw {want} samples from an empty dataset"),
                ))
            };
        }
        let mut out = Vec::with_capacity(want);
        if self.replacement {
            // In blocks of 32, as PyTorch draws them.
            while out.len() < want {
                let mut block = vec![0i64; (want - out.len()).min(32)];
                fill_random_range_i64(&g, &mut block, 0, n as i64);
                out.extend(to_usize(block));
            }
        } else {
            // The last permutation is drawn even where nothing of it is needed, as in PyTorch.
            for _ in 0..want / n {
                out.extend(to_usize(randperm(&g, n as i64)));
            }
            out.extend(to_usize(randperm(&g, n as i64)).take(want % n));
        }
        Ok(out)
    }
}

/// Given items in random order (`torch.utils.data.SubsetRandomSampler`).
#[derive(Clone, Debug)]
pub struct SubsetRandomSampler {
    indices: Vec<usize>,
    generator: Generator,
}

impl SubsetRandomSampler {
    /// A permutation of `indices` per epoch.
    pub fn new(indices: impl Into<Vec<usize>>) -> Self {
        SubsetRandomSampler {
            indices: indices.into(),
            generator: default_generator().clone(),
        }
    }

    /// Draws from this generator.
    #[must_use]
    pub fn generator(mut self, generator: Generator) -> Self {
        self.generator = generator;
        self
    }
}

impl Sampler for SubsetRandomSampler {
    fn len(&self) -> usize {
        self.indices.len()
    }
    fn indices(&self) -> Result<Vec<usize>> {
        Ok(
            to_usize(randperm(&self.generator, self.indices.len() as i64))
                .map(|i| self.indices[i])
                .collect(),
        )
    }
}
