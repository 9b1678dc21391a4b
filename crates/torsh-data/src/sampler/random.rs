//! Random orders.

use torsh_core::random::{Generator, default_generator, fill_random_range_i64, randperm};
use torsh_tensor::{DType, Device, MultinomialOptions, Result, Tensor, TorshError};

use super::{Sampler, no_state};

/// A generator for one epoch: the sampler's own, or a fresh one seeded from the default one.
fn epoch_generator(own: Option<&Generator>) -> Generator {
    match own {
        Some(g) => g.clone(),
        None => Generator::new(default_generator().random64() & i64::MAX as u64),
    }
}

/// The state of a sampler's own generator; the default one is saved with the program's.
fn state(own: Option<&Generator>) -> Vec<u8> {
    own.map_or_else(Vec::new, Generator::get_state)
}

fn set_state(name: &str, own: Option<&Generator>, state: &[u8]) -> Result<()> {
    match own {
        Some(g) => g
            .set_state(state)
            .map_err(|e| TorshError::invalid(name.to_string(), e)),
        None => no_state(name, state),
    }
}

/// The sampler's state, in a sampler with an optional generator of its own.
macro_rules! generator_state {
    ($name:literal) => {
        fn state(&self) -> Vec<u8> {
            state(self.generator.as_ref())
        }
        fn set_state(&self, state: &[u8]) -> Result<()> {
            set_state($name, self.generator.as_ref(), state)
        }
    };
}

fn to_usize(v: Vec<i64>) -> impl Iterator<Item = usize> {
    v.into_iter().map(|i| i as usize)
}

/// All items in random order, PyTorch's for the same seed (`torch.utils.data.RandomSampler`).
///
/// ```
/// use torsh_core::Generator;
/// use torsh_data::{RandomSampler, Sampler};
///
/// let sampler = RandomSampler::new(10).generator(Generator::new(5));
/// assert_eq!(sampler.indices()?, [1, 4, 9, 6, 3, 5, 0, 2, 8, 7]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
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

    setters! {
        /// Draws with replacement.
        replacement: bool;
        /// How many items an epoch has, where it is not the dataset's length.
        num_samples: Option<usize>, usize => Some;
        /// Draws from this generator.
        generator: Option<Generator>, Generator => Some;
    }
}

impl Sampler for RandomSampler {
    fn len(&self) -> usize {
        self.num_samples.unwrap_or(self.len)
    }

    #[torsh_tensor::names_caller]
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

    generator_state!("RandomSampler");
}

/// Given items in random order (`torch.utils.data.SubsetRandomSampler`).
///
/// ```
/// use torsh_data::{Sampler, SubsetRandomSampler};
///
/// let mut order = SubsetRandomSampler::new([4, 8, 6]).indices()?;
/// order.sort();
/// assert_eq!(order, [4, 6, 8]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct SubsetRandomSampler {
    indices: Vec<usize>,
    generator: Option<Generator>,
}

impl SubsetRandomSampler {
    /// A permutation of `indices` per epoch, drawn from the default generator.
    pub fn new(indices: impl Into<Vec<usize>>) -> Self {
        SubsetRandomSampler {
            indices: indices.into(),
            generator: None,
        }
    }

    /// Draws from this generator.
    #[must_use]
    pub fn generator(mut self, generator: Generator) -> Self {
        self.generator = Some(generator);
        self
    }
}

impl Sampler for SubsetRandomSampler {
    fn len(&self) -> usize {
        self.indices.len()
    }
    #[torsh_tensor::names_caller]
    fn indices(&self) -> Result<Vec<usize>> {
        let g = self.generator.as_ref().unwrap_or(default_generator());
        Ok(to_usize(randperm(g, self.indices.len() as i64))
            .map(|i| self.indices[i])
            .collect())
    }
    generator_state!("SubsetRandomSampler");
}

/// Items drawn by their weights, with replacement (`torch.utils.data.WeightedRandomSampler`), as
/// to show rare classes as often as common ones.
///
/// ```
/// use torsh_core::Generator;
/// use torsh_data::{Sampler, WeightedRandomSampler};
///
/// let sampler = WeightedRandomSampler::new([0.1, 0.9, 0.4, 0.7, 3.0, 0.6], 5)?
///     .generator(Generator::new(0));
/// assert_eq!(sampler.indices()?.len(), 5);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct WeightedRandomSampler {
    weights: Tensor,
    num_samples: usize,
    replacement: bool,
    generator: Option<Generator>,
}

impl WeightedRandomSampler {
    /// Draws `num_samples` items per epoch. The weights need not sum to 1. Errors: no samples, a
    /// weight that is negative, infinite or NaN, only zeros.
    ///
    /// ```
    /// use torsh_data::{Sampler, WeightedRandomSampler};
    ///
    /// // Item 1 is the only one with a weight.
    /// assert_eq!(WeightedRandomSampler::new([0.0, 2.0, 0.0], 4)?.indices()?, [1, 1, 1, 1]);
    /// let error = WeightedRandomSampler::new([0.0, 0.0], 4).unwrap_err().to_string();
    /// assert!(error.contains("at least one weight must be positive"));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn new(weights: impl Into<Vec<f64>>, num_samples: usize) -> Result<Self> {
        let weights = weights.into();
        let refuse = |m: String| Err(TorshError::invalid("WeightedRandomSampler", m));
        if num_samples == 0 {
            return refuse("num_samples should be positive, got 0".to_string());
        }
        if let Some(w) = weights.iter().find(|w| !(w.is_finite() && **w >= 0.0)) {
            return refuse(format!("weights must be finite and not negative, got {w}"));
        }
        if weights.iter().all(|&w| w == 0.0) {
            return refuse("at least one weight must be positive".to_string());
        }
        let n = weights.len();
        Ok(WeightedRandomSampler {
            // Drawn on the CPU, whatever the default device: indices are for the host.
            weights: Tensor::from_slice(&weights, [n], DType::F64, Device::Cpu)?,
            num_samples,
            replacement: true,
            generator: None,
        })
    }

    setters! {
        /// Whether an item may come more than once in an epoch (true). Without, asking for more items
        /// than have a weight is an error when the order is drawn.
        replacement: bool;
        /// Draws from this generator.
        generator: Option<Generator>, Generator => Some;
    }
}

impl Sampler for WeightedRandomSampler {
    fn len(&self) -> usize {
        self.num_samples
    }
    #[torsh_tensor::names_caller]
    fn indices(&self) -> Result<Vec<usize>> {
        let g = self.generator.as_ref().unwrap_or(default_generator());
        let drawn = self
            .weights
            .multinomial_with(
                self.num_samples as i64,
                MultinomialOptions::new()
                    .replacement(self.replacement)
                    .generator(g),
            )
            .map_err(|e| e.renamed("WeightedRandomSampler"))?;
        Ok(to_usize(drawn.to_vec::<i64>()?).collect())
    }
    generator_state!("WeightedRandomSampler");
}
