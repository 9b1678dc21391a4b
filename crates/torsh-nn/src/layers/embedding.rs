//! `Embedding`.

use torsh_functional::{self as F, EmbeddingOptions};
use torsh_tensor::{Result, Tensor, TorshError, no_grad};

use crate::layers::builder::builder;
use crate::layers::{Factory, factory_setters, python_float};
use crate::module::{Hooks, Parameter, Training};
use crate::{Module, init};

/// A row of `weight` for each index (`torch.nn.Embedding`).
///
/// Takes integers of any shape and gives that shape with `embedding_dim` behind it. `weight` is
/// `[num_embeddings, embedding_dim]`, drawn from the standard normal distribution.
///
/// ```
/// use torsh_nn::{Embedding, Module};
/// use torsh_tensor::tensor;
/// let rows = Embedding::from_pretrained(tensor![[1.0, 2.0], [3.0, 4.0]]).build()?;
/// assert_eq!(rows.forward(&tensor![1, 0])?, tensor![[3.0, 4.0], [1.0, 2.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct Embedding {
    /// `[num_embeddings, embedding_dim]`
    pub weight: Parameter,
    #[module(skip)]
    options: EmbeddingBuilder,
    #[module(skip)]
    padding_idx: Option<usize>,
    training: Training,
    hooks: Hooks,
}

impl Embedding {
    /// A table of `num_embeddings` rows.
    ///
    /// ```
    /// # use torsh_nn::{Embedding, ModuleExt};
    /// assert_eq!(Embedding::new(10, 3)?.repr(), "Embedding(10, 3)");
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn new(num_embeddings: usize, embedding_dim: usize) -> Result<Embedding> {
        Embedding::builder(num_embeddings, embedding_dim).build()
    }

    /// A table with PyTorch's other arguments.
    ///
    /// ```
    /// # use torsh_nn::{Embedding, ModuleExt};
    /// assert_eq!(Embedding::builder(10, 3).padding_idx(-1).build()?.repr(), "Embedding(10, 3, padding_idx=9)");
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn builder(num_embeddings: usize, embedding_dim: usize) -> EmbeddingBuilder {
        EmbeddingBuilder::with(num_embeddings, embedding_dim)
    }

    /// A table of these rows (`Embedding.from_pretrained`), which are not trained unless
    /// `freeze(false)` is said. An error when it is built where `weight` is not 2-d.
    ///
    /// ```
    /// use torsh_nn::Embedding;
    /// use torsh_tensor::tensor;
    /// let table = tensor![[1.0, 2.0], [3.0, 4.0]];
    /// let rows = Embedding::from_pretrained(table.clone()).freeze(false).padding_idx(0).build()?;
    /// assert!(rows.weight.requires_grad() && rows.weight.tensor() == &table);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn from_pretrained(weight: impl Into<Tensor>) -> EmbeddingBuilder {
        let weight = weight.into();
        let [rows, width] = sizes(&weight);
        let builder = Embedding::builder(rows, width).weight(&weight);
        builder.freeze(true)
    }
}

/// What layers of a table of rows have in common: how it is drawn, and how their builders make them.
macro_rules! table_layer {
    ($name:ident $builder:ident, $(#[$build:meta])+) => {
        impl $name {
            /// Draws the rows anew; that of `padding_idx` is zero.
            #[doc = $crate::layers::examples::tests!(
                "let rows = ", stringify!($name), "::builder(2, 3).padding_idx(1).build()?;\n",
                "init::ones_(&rows.weight)?;\n",
                "rows.reset_parameters()?;\n",
                "assert_eq!(rows.weight.select(0, 1)?.to_vec::<f32>()?, [0.0, 0.0, 0.0]);"
            )]
            #[torsh_tensor::names_caller]
            pub fn reset_parameters(&self) -> Result<()> {
                $crate::layers::embedding::reset_rows(&self.weight, self.padding_idx)
            }
        }

        impl $builder {
            factory_setters!($name "(3, 2)");

            $(#[$build])+
            #[torsh_tensor::names_caller]
            pub fn build(mut self) -> Result<$name> {
                let layer = stringify!($name);
                let padding_idx = padding_row(layer, self.num_embeddings, self.padding_idx)?;
                let shape = [self.num_embeddings, self.embedding_dim];
                let (given, freeze) = (self.weight.take(), self.freeze);
                let drawn = given.is_none();
                let layer = $name {
                    weight: table(layer, shape, given, freeze, self.factory)?,
                    options: self,
                    padding_idx,
                    training: Training::default(),
                    hooks: Hooks::new(),
                };
                if drawn {
                    layer.reset_parameters()?;
                }
                Ok(layer)
            }
        }
    };
}
pub(super) use table_layer;

/// Rows and columns of a table that is given; zeros where it is none, which [`table`] refuses.
pub(super) fn sizes(weight: &Tensor) -> [usize; 2] {
    weight.dims().try_into().unwrap_or_default()
}

/// The table of a layer, the given one or one that is to be drawn.
#[track_caller]
pub(super) fn table(
    layer: &'static str,
    shape: [usize; 2],
    given: Option<Tensor>,
    freeze: bool,
    factory: Factory,
) -> Result<Parameter> {
    let weight = match given {
        None => factory.empty(&shape)?,
        Some(w) if w.ndim() != 2 => {
            return Err(TorshError::shape(
                layer,
                format!(
                    "Embeddings parameter is expected to be 2-dimensional, got {}",
                    w.describe()
                ),
            ));
        }
        Some(w) if w.dims() != shape => {
            return Err(TorshError::shape(
                layer,
                format!(
                    "Shape of weight does not match num_embeddings and embedding_dim: {} is not {shape:?}",
                    w.describe()
                ),
            ));
        }
        Some(w) => w,
    };
    Parameter::with_requires_grad(weight, !freeze)
}

/// Draws the rows of a table; one of them is zero.
#[track_caller]
pub(super) fn reset_rows(weight: &Tensor, padding_idx: Option<usize>) -> Result<()> {
    init::normal_(weight, 0.0, 1.0)?;
    if let Some(row) = padding_idx {
        no_grad(|| weight.select(0, row)?.zero_())?;
    }
    Ok(())
}

/// The row of a `padding_idx` that may count from the end.
#[track_caller]
pub(super) fn padding_row(
    layer: &'static str,
    rows: usize,
    padding_idx: Option<i64>,
) -> Result<Option<usize>> {
    let n = rows as i64;
    match padding_idx {
        None => Ok(None),
        Some(i) if (-n..n).contains(&i) => Ok(Some(i.rem_euclid(n) as usize)),
        Some(i) => Err(TorshError::invalid(
            layer,
            format!("padding_idx {i} is not one of {n} rows"),
        )),
    }
}

/// How tables print what limits their rows and gradients.
pub(super) fn print_limits(max_norm: Option<f64>, norm_type: f64, by_freq: bool) -> String {
    let mut text = String::new();
    if let Some(norm) = max_norm {
        text += &format!(", max_norm={}", python_float(norm));
    }
    if norm_type != 2.0 {
        text += &format!(", norm_type={}", python_float(norm_type));
    }
    if by_freq {
        text += ", scale_grad_by_freq=True";
    }
    text
}

impl Module for Embedding {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let options = EmbeddingOptions {
                padding_idx: self.padding_idx.map(|i| i as i64),
                max_norm: self.options.max_norm,
                norm_type: self.options.norm_type,
                scale_grad_by_freq: self.options.scale_grad_by_freq,
                sparse: self.options.sparse,
            };
            F::embedding_with(x, &self.weight, options)
        })
    }

    fn extra_repr(&self) -> String {
        let d = self.weight.dims();
        let padding = self
            .padding_idx
            .map_or(String::new(), |i| format!(", padding_idx={i}"));
        let o = &self.options;
        let limits = print_limits(o.max_norm, o.norm_type, o.scale_grad_by_freq);
        let sparse = if o.sparse { ", sparse=True" } else { "" };
        format!("{}, {}{padding}{limits}{sparse}", d[0], d[1])
    }
}

builder! {
    EmbeddingBuilder of Embedding { num_embeddings: usize, embedding_dim: usize }
        calls "(3, 2)" shows ["3, 2"] {
        /// A row that is zero and stays so; negative counts from the end.
        @ ".padding_idx(-1)" ["3, 2, padding_idx=2"]
        padding_idx: Option<i64> = None, impl Into<Option<i64>> => |i| i.into();
        /// Rows that are used and have a larger norm are scaled down to it first, in place.
        @ ".max_norm(1.5)" ["3, 2, max_norm=1.5"]
        max_norm: Option<f64> = None, impl Into<Option<f64>> => |m| m.into();
        /// The p of that norm. The default is 2.
        @ ".max_norm(1.5).norm_type(1.0)" ["3, 2, max_norm=1.5, norm_type=1.0"]
        norm_type: f64 = 2.0;
        /// Whether gradients are divided by how often their row is used. The default is `false`.
        @ ".scale_grad_by_freq(true)" ["3, 2, scale_grad_by_freq=True"]
        scale_grad_by_freq: bool = false;
        /// Whether the gradient of the rows is a COO tensor of the used ones, as SparseAdam, SGD and Adagrad take it. It needs
        /// the feature `sparse`. The default is `false`.
        @ ".sparse(true)" ["3, 2, sparse=True"]
        sparse: bool = false;
        /// The rows themselves, which are shared and not drawn.
        weight: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// Whether the rows are not trained. The default is `false`.
        freeze: bool = false;
    }
}

table_layer! {
    Embedding EmbeddingBuilder,
    /// Makes the layer and draws its rows. An error where `padding_idx` is no row, or a given weight
    /// has another shape.
    ///
    /// ```
    /// # use torsh_nn::{Embedding, Module};
    /// # use torsh_tensor::tensor;
    /// let table = tensor![[1.0], [2.0]];
    /// let rows = Embedding::builder(2, 1).weight(&table).build()?;
    /// assert_eq!(rows.forward(&tensor![1, 1, 0])?, tensor![[2.0], [2.0], [1.0]]);
    /// assert!(Embedding::builder(2, 1).padding_idx(2).build().is_err());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
}
