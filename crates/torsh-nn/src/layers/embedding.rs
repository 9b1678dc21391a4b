//! `Embedding`.

use torsh_functional::{self as F, EmbeddingOptions};
use torsh_tensor::{Result, Tensor, TorshError, no_grad};

use crate::layers::{Factory, factory_setters};
use crate::module::{Hooks, Parameter, Training};
use crate::{Module, init};

/// A row of `weight` for each index (`torch.nn.Embedding`).
///
/// Takes integers of any shape and gives that shape with `embedding_dim` behind it. `weight` is
/// `[num_embeddings, embedding_dim]`, drawn from the standard normal distribution.
#[derive(Module)]
pub struct Embedding {
    /// `[num_embeddings, embedding_dim]`
    pub weight: Parameter,
    #[module(skip)]
    padding_idx: Option<usize>,
    training: Training,
    hooks: Hooks,
}

impl Embedding {
    /// A table of `num_embeddings` rows.
    #[track_caller]
    pub fn new(num_embeddings: usize, embedding_dim: usize) -> Result<Embedding> {
        Embedding::builder(num_embeddings, embedding_dim).build()
    }

    /// A table with PyTorch's other arguments.
    pub fn builder(num_embeddings: usize, embedding_dim: usize) -> EmbeddingBuilder {
        EmbeddingBuilder {
            num_embeddings,
            embedding_dim,
            padding_idx: None,
            factory: Factory::default(),
        }
    }

    /// A table of these rows (`Embedding.from_pretrained`), which are not trained if `freeze`.
    #[track_caller]
    pub fn from_pretrained(weight: impl Into<Tensor>, freeze: bool) -> Result<Embedding> {
        let weight = weight.into();
        if weight.ndim() != 2 {
            return Err(TorshError::shape(
                "Embedding",
                format!(
                    "Embeddings parameter is expected to be 2-dimensional, got {}",
                    weight.describe()
                ),
            ));
        }
        Ok(Embedding {
            weight: Parameter::with_requires_grad(weight, !freeze)?,
            padding_idx: None,
            training: Training::default(),
            hooks: Hooks::new(),
        })
    }

    /// Draws the rows anew; that of `padding_idx` is zero.
    #[track_caller]
    pub fn reset_parameters(&self) -> Result<()> {
        init::normal_(&self.weight, 0.0, 1.0)?;
        if let Some(row) = self.padding_idx {
            no_grad(|| self.weight.select(0, row)?.zero_())?;
        }
        Ok(())
    }
}

impl Module for Embedding {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let options = EmbeddingOptions {
                padding_idx: self.padding_idx.map(|i| i as i64),
                ..Default::default()
            };
            F::embedding_with(x, &self.weight, options)
        })
    }

    fn extra_repr(&self) -> String {
        let d = self.weight.dims();
        let padding = self
            .padding_idx
            .map_or(String::new(), |i| format!(", padding_idx={i}"));
        format!("{}, {}{padding}", d[0], d[1])
    }
}

/// Builds an [`Embedding`].
#[derive(Clone, Debug)]
pub struct EmbeddingBuilder {
    num_embeddings: usize,
    embedding_dim: usize,
    padding_idx: Option<i64>,
    factory: Factory,
}

impl EmbeddingBuilder {
    /// A row that is zero and stays so; negative counts from the end.
    #[must_use]
    pub fn padding_idx(mut self, padding_idx: impl Into<Option<i64>>) -> Self {
        self.padding_idx = padding_idx.into();
        self
    }

    factory_setters!();

    /// Makes the layer and draws its rows. An error where `padding_idx` is no row.
    #[track_caller]
    pub fn build(self) -> Result<Embedding> {
        let n = self.num_embeddings as i64;
        let padding_idx = match self.padding_idx {
            None => None,
            Some(i) if (-n..n).contains(&i) => Some(i.rem_euclid(n) as usize),
            Some(i) => {
                return Err(TorshError::invalid(
                    "Embedding",
                    format!("padding_idx {i} is not one of {n} rows"),
                ));
            }
        };
        let weight = self
            .factory
            .empty(&[self.num_embeddings, self.embedding_dim])?;
        let layer = Embedding {
            weight: Parameter::with_requires_grad(weight, true)?,
            padding_idx,
            training: Training::default(),
            hooks: Hooks::new(),
        };
        layer.reset_parameters()?;
        Ok(layer)
    }
}
