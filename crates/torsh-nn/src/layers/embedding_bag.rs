//! `EmbeddingBag`.

use torsh_functional::{self as F, EmbeddingBagMode, EmbeddingBagOptions};
use torsh_tensor::{Result, Tensor};

use crate::Module;
use crate::layers::builder::builder;
use crate::layers::embedding::{padding_row, print_limits, sizes, table, table_layer};
use crate::layers::factory_setters;
use crate::module::{Hooks, Parameter, Training};

/// The sum, mean or maximum of the rows of `weight` that each bag of indices names
/// (`torch.nn.EmbeddingBag`), without the rows themselves in between.
///
/// `forward` takes integers `[bags, n]`, [`forward_with`](Self::forward_with) those of all bags in
/// one line with the bags' offsets; both give `[bags, embedding_dim]`.
///
/// ```
/// use torsh_nn::{EmbeddingBag, EmbeddingBagMode, Module};
/// use torsh_tensor::tensor;
/// let table = tensor![[1.0, 2.0], [3.0, 6.0], [5.0, 4.0]];
/// let mean = EmbeddingBag::from_pretrained(table.clone()).build()?;
/// assert_eq!(mean.forward(&tensor![[0, 1], [2, 2]])?, tensor![[2.0, 4.0], [5.0, 4.0]]);
/// let sum = EmbeddingBag::builder(3, 2).mode(EmbeddingBagMode::Sum).weight(&table).build()?;
/// let (input, offsets) = (tensor![0, 1, 2], tensor![0, 1]);
/// assert_eq!(sum.forward_with(&input, &offsets, None)?, tensor![[1.0, 2.0], [8.0, 10.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct EmbeddingBag {
    /// `[num_embeddings, embedding_dim]`
    pub weight: Parameter,
    #[module(skip)]
    options: EmbeddingBagBuilder,
    #[module(skip)]
    padding_idx: Option<usize>,
    training: Training,
    hooks: Hooks,
}

impl EmbeddingBag {
    /// A table of `num_embeddings` rows, for means.
    ///
    /// ```
    /// # use torsh_nn::{EmbeddingBag, ModuleExt};
    /// assert_eq!(EmbeddingBag::new(10, 3)?.repr(), "EmbeddingBag(10, 3, mode='mean')");
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn new(num_embeddings: usize, embedding_dim: usize) -> Result<EmbeddingBag> {
        EmbeddingBag::builder(num_embeddings, embedding_dim).build()
    }

    /// A table with PyTorch's other arguments.
    ///
    /// ```
    /// # use torsh_nn::{EmbeddingBag, EmbeddingBagMode, ModuleExt};
    /// let bag = EmbeddingBag::builder(10, 3).mode(EmbeddingBagMode::Max).build()?;
    /// assert_eq!(bag.repr(), "EmbeddingBag(10, 3, mode='max')");
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn builder(num_embeddings: usize, embedding_dim: usize) -> EmbeddingBagBuilder {
        EmbeddingBagBuilder::with(num_embeddings, embedding_dim)
    }

    /// A table of these rows (`EmbeddingBag.from_pretrained`), which are not trained unless
    /// `freeze(false)` is said. An error when it is built where `weight` is not 2-d.
    ///
    /// ```
    /// # use torsh_nn::{EmbeddingBag, Module};
    /// # use torsh_tensor::tensor;
    /// let bag = EmbeddingBag::from_pretrained(tensor![[0.0], [10.0], [20.0]]).build()?;
    /// assert_eq!(bag.forward(&tensor![[0, 1], [1, 2]])?, tensor![[5.0], [15.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn from_pretrained(weight: impl Into<Tensor>) -> EmbeddingBagBuilder {
        let weight = weight.into();
        let [rows, width] = sizes(&weight);
        let builder = EmbeddingBag::builder(rows, width).weight(&weight);
        builder.freeze(true)
    }

    /// [`forward`](Module::forward) of bags of different sizes, which start at `offsets` (1-d) of
    /// a 1-d input; and with a factor for each index, for sums only.
    #[torsh_tensor::names_caller]
    pub fn forward_with<'o, 'w>(
        &self,
        input: &Tensor,
        offsets: impl Into<Option<&'o Tensor>>,
        per_sample_weights: impl Into<Option<&'w Tensor>>,
    ) -> Result<Tensor> {
        let o = &self.options;
        let options = EmbeddingBagOptions {
            offsets: offsets.into().cloned(),
            max_norm: o.max_norm,
            norm_type: o.norm_type,
            scale_grad_by_freq: o.scale_grad_by_freq,
            mode: o.mode,
            sparse: o.sparse,
            per_sample_weights: per_sample_weights.into().cloned(),
            include_last_offset: o.include_last_offset,
            padding_idx: self.padding_idx.map(|i| i as i64),
        };
        self.hooks.run(self, input, |x| {
            F::embedding_bag_with(x, &self.weight, options)
        })
    }
}

impl Module for EmbeddingBag {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.forward_with(x, None, None)
    }

    fn extra_repr(&self) -> String {
        let o = &self.options;
        let mut text = format!("{}, {}", o.num_embeddings, o.embedding_dim);
        text += &print_limits(o.max_norm, o.norm_type, o.scale_grad_by_freq);
        text += &format!(", mode='{}'", o.mode.as_str());
        if let Some(row) = self.padding_idx {
            text += &format!(", padding_idx={row}");
        }
        text
    }
}

builder! {
    EmbeddingBagBuilder of EmbeddingBag { num_embeddings: usize, embedding_dim: usize }
        calls "(3, 2)" shows ["3, 2, mode='mean'"] {
        /// Rows that are used and have a larger norm are scaled down to it first, in place.
        @ ".max_norm(1.5)" ["3, 2, max_norm=1.5, mode='mean'"]
        max_norm: Option<f64> = None, impl Into<Option<f64>> => |m| m.into();
        /// The p of that norm. The default is 2.
        @ ".max_norm(1.5).norm_type(1.0)" ["3, 2, max_norm=1.5, norm_type=1.0, mode='mean'"]
        norm_type: f64 = 2.0;
        /// Whether gradients are divided by how often their row is used. The default is `false`.
        @ ".scale_grad_by_freq(true)" ["3, 2, scale_grad_by_freq=True, mode='mean'"]
        scale_grad_by_freq: bool = false;
        /// What becomes of the rows of a bag. The default is their mean.
        @ ".mode(EmbeddingBagMode::Sum)" ["3, 2, mode='sum'"]
        mode: EmbeddingBagMode = EmbeddingBagMode::Mean, impl Into<EmbeddingBagMode> => Into::into;
        /// The rows themselves, which are shared and not drawn.
        weight: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// Whether the rows are not trained. The default is `false`.
        freeze: bool = false;
        /// Whether the gradient of the rows is a COO tensor of the used ones, for sums and means. It needs the feature
        /// `sparse`. The default is `false`.
        sparse: bool = false;
        /// Whether the last offset is the end of the last bag. The default is `false`.
        include_last_offset: bool = false;
        /// A row that does not count, and gets no gradient; negative counts from the end.
        @ ".padding_idx(-1)" ["3, 2, mode='mean', padding_idx=2"]
        padding_idx: Option<i64> = None, impl Into<Option<i64>> => |i| i.into();
    }
}

table_layer! {
    EmbeddingBag EmbeddingBagBuilder,
    /// Makes the layer and draws its rows. An error where `padding_idx` is no row, or a given weight
    /// has another shape.
    ///
    /// ```
    /// # use torsh_nn::{EmbeddingBag, EmbeddingBagMode, Module};
    /// # use torsh_tensor::tensor;
    /// let table = tensor![[1.0], [2.0]];
    /// let bag = EmbeddingBag::builder(2, 1).weight(&table).mode(EmbeddingBagMode::Sum).build()?;
    /// assert_eq!(bag.forward(&tensor![[1, 1, 0]])?, tensor![[5.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
}
